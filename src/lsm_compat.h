/*-------------------------------------------------------------------------
 *
 * lsm_compat.h
 *	  What differs between PostgreSQL 15, 17 and 18, in one place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPAT_H
#define LSM_COMPAT_H

#if PG_VERSION_NUM < 150000 || (PG_VERSION_NUM >= 160000 && PG_VERSION_NUM < 170000)
#error "lsm supports PostgreSQL 15, 17 and 18"
#endif

#if PG_VERSION_NUM < 180000
#define pg_noreturn _Noreturn
#define TupleDescCompactAttr(tupdesc, i) TupleDescAttr(tupdesc, i)
#endif

#if PG_VERSION_NUM < 170000
#include "storage/relfilenode.h"
#define RelFileLocator RelFileNode
#define RelFileLocatorEquals(a, b) RelFileNodeEquals(a, b)
#define LSM_RD_LOCATOR(rel) ((rel)->rd_node)
#define LSM_LOCATOR_SPC(loc) ((loc).spcNode)
#define LSM_LOCATOR_DB(loc) ((loc).dbNode)
#define LSM_LOCATOR_NUMBER(loc) ((loc).relNode)
#else
#include "storage/relfilelocator.h"
#include "varatt.h"
#define LSM_RD_LOCATOR(rel) ((rel)->rd_locator)
#define LSM_LOCATOR_SPC(loc) ((loc).spcOid)
#define LSM_LOCATOR_DB(loc) ((loc).dbOid)
#define LSM_LOCATOR_NUMBER(loc) ((loc).relNumber)
#endif

#include "storage/smgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"

/* Lengthen the main fork by nblocks pages of zeroes. */
static inline void
lsm_compat_zero_extend(SMgrRelation reln, BlockNumber first, BlockNumber nblocks)
{
#if PG_VERSION_NUM < 170000
	PGAlignedBlock zeroes;

	memset(zeroes.data, 0, BLCKSZ);
	for (BlockNumber i = 0; i < nblocks; i++)
		smgrextend(reln, MAIN_FORKNUM, first + i, zeroes.data, false);
#else
	while (nblocks > 0)
	{
		int			n = Min(nblocks, 1024);

		smgrzeroextend(reln, MAIN_FORKNUM, first, n, false);
		first += n;
		nblocks -= n;
	}
#endif
}

/* The number of a process among all. */
#if PG_VERSION_NUM < 170000
#define lsm_compat_procno(proc) ((proc)->pgprocno)
#else
#define lsm_compat_procno(proc) GetNumberFromPGProc(proc)
#endif

/*
 * Columns whose change makes a row take another root: those of all indexes.
 * (BRIN too: it would be told the version's block, and is asked for the root's.)
 */
static inline Bitmapset *
lsm_compat_index_attrs(Relation rel)
{
#if PG_VERSION_NUM < 170000
	return RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_ALL);
#else
	return bms_join(RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_HOT_BLOCKING),
					RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_SUMMARIZED));
#endif
}

#if PG_VERSION_NUM < 170000
#define lsm_compat_count_update(rel, same_root) pgstat_count_heap_update(rel, same_root)
#else
#define lsm_compat_count_update(rel, same_root) pgstat_count_heap_update(rel, same_root, false)
#define relation_set_new_filenode relation_set_new_filelocator
#endif

/* Has that transaction ended?  Waits for nobody. */
#if PG_VERSION_NUM < 180000
#define lsm_compat_try_xact_lock(xid) ConditionalXactLockTableWait(xid)
#else
#define lsm_compat_try_xact_lock(xid) ConditionalXactLockTableWait(xid, false)
#endif

#if PG_VERSION_NUM < 180000
#define lsm_compat_set_parallel_rel(base, rel) ((base)->phs_relid = RelationGetRelid(rel))
#else
#define lsm_compat_set_parallel_rel(base, rel) ((base)->phs_locator = (rel)->rd_locator)
#endif

#if PG_VERSION_NUM < 170000
#define lsm_compat_tuplesort_getdatum(sort, value, isnull) \
	tuplesort_getdatum(sort, true, value, isnull, NULL)
#else
#define lsm_compat_tuplesort_getdatum(sort, value, isnull) \
	tuplesort_getdatum(sort, true, false, value, isnull, NULL)
#endif

#if PG_VERSION_NUM < 170000
#define lsm_compat_resolve_conflict(xid, locator) \
	ResolveRecoveryConflictWithSnapshotFullXid(xid, locator)
#else
#define lsm_compat_resolve_conflict(xid, locator) \
	ResolveRecoveryConflictWithSnapshotFullXid(xid, false, locator)
#endif

#if PG_VERSION_NUM < 170000
#define AmAutoVacuumWorkerProcess() IsAutoVacuumWorkerProcess()
#endif

#if PG_VERSION_NUM < 180000
#define lsm_compat_index_beginscan(rel, index, snapshot) index_beginscan(rel, index, snapshot, 0, 0)
#else
#define lsm_compat_index_beginscan(rel, index, snapshot) \
	index_beginscan(rel, index, snapshot, NULL, 0, 0)
#endif

#if PG_VERSION_NUM < 170000
#define lsm_compat_owns(relid) pg_class_ownercheck(relid, GetUserId())
#else
#define lsm_compat_owns(relid) object_ownercheck(RelationRelationId, relid, GetUserId())
#endif

#if PG_VERSION_NUM < 170000
#define LSM_UPDATE_INDEXES_TYPE bool
#define LSM_UPDATE_INDEXES_NONE false
#define LSM_UPDATE_INDEXES_ALL true
#else
#define LSM_UPDATE_INDEXES_TYPE TU_UpdateIndexes
#define LSM_UPDATE_INDEXES_NONE TU_None
#define LSM_UPDATE_INDEXES_ALL TU_All
#endif

#endif							/* LSM_COMPAT_H */
