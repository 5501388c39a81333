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

#include "access/genam.h"
#include "access/multixact.h"
#include "commands/vacuum.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
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

/*
 * ANALYZE hands over the next block to sample in one way or another; the 15 one
 * also prefetches by the logical numbers.
 */
#if PG_VERSION_NUM < 170000
#define LSM_ANALYZE_PREFETCHES true
#define LSM_ANALYZE_NEXT_BLOCK_ARGS \
	TableScanDesc scan, BlockNumber blockno, BufferAccessStrategy strategy
#define lsm_compat_analyze_block() (blockno)
#else
#include "storage/read_stream.h"
#define LSM_ANALYZE_PREFETCHES false
#define LSM_ANALYZE_NEXT_BLOCK_ARGS TableScanDesc scan, ReadStream *stream
#define lsm_compat_analyze_block() lsm_compat_stream_next(stream)
static inline BlockNumber
lsm_compat_stream_next(ReadStream *stream)
{
	BufferAccessStrategy strategy;

	return read_stream_next_block(stream, &strategy);
}
#endif

/*
 * Bitmap scans: until 17 the executor goes through the bitmap, hands over one
 * page of it after the other, and prefetches by block numbers, which are
 * logical here.
 */
#if PG_VERSION_NUM < 180000
#define LSM_BITMAP_BY_BLOCK 1
#else
#define LSM_BITMAP_BY_BLOCK 0
#endif

/* Slot operations that came later. */
#if PG_VERSION_NUM < 170000
#define LSM_SLOT_IS_CURRENT_XACT(function)
#else
#define LSM_SLOT_IS_CURRENT_XACT(function) .is_current_xact_tuple = function,
#endif
#if PG_VERSION_NUM < 180000
#define LSM_SLOT_COPY_MINIMAL_ARGS TupleTableSlot *slot
#define lsm_compat_form_minimal(desc, values, isnull) \
	heap_form_minimal_tuple(desc, values, isnull)
#else
#define LSM_SLOT_COPY_MINIMAL_ARGS TupleTableSlot *slot, Size extra
#define lsm_compat_form_minimal(desc, values, isnull) \
	heap_form_minimal_tuple(desc, values, isnull, extra)
#endif

#if PG_VERSION_NUM < 170000
#define LSM_RMGR_CONST
#else
#define LSM_RMGR_CONST const
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

/* ---- VACUUM ---- */

typedef struct LsmCutoffs
{
	TransactionId oldest_xmin;
	MultiXactId oldest_mxact;
	bool		aggressive;		/* relfrozenxid has to advance */
} LsmCutoffs;

static inline void
lsm_compat_cutoffs(Relation rel, VacuumParams *params, LsmCutoffs *cutoffs)
{
#if PG_VERSION_NUM < 170000
	TransactionId freeze_limit;
	MultiXactId multi_cutoff;

	cutoffs->aggressive = vacuum_set_xid_limits(rel, params->freeze_min_age,
												params->freeze_table_age,
												params->multixact_freeze_min_age,
												params->multixact_freeze_table_age,
												&cutoffs->oldest_xmin, &cutoffs->oldest_mxact,
												&freeze_limit, &multi_cutoff);
#else
	struct VacuumCutoffs limits;

	cutoffs->aggressive = vacuum_get_cutoffs(rel, params, &limits);
	cutoffs->oldest_xmin = limits.OldestXmin;
	cutoffs->oldest_mxact = limits.OldestMxact;
#endif
}

static inline void
lsm_compat_index_vacuum_info(IndexVacuumInfo *info, Relation index, Relation rel,
							 BufferAccessStrategy strategy)
{
	info->index = index;
#if PG_VERSION_NUM >= 170000
	info->heaprel = rel;
#endif
	info->analyze_only = false;
	info->report_progress = false;
	info->message_level = DEBUG2;
	info->strategy = strategy;
}

static inline void
lsm_compat_update_relstats(Relation rel, BlockNumber pages, double rows, BlockNumber visible,
						   bool hasindex, TransactionId frozenxid, MultiXactId minmulti)
{
	bool		frozenxid_updated;
	bool		minmulti_updated;

#if PG_VERSION_NUM < 180000
	vac_update_relstats(rel, pages, rows, visible, hasindex, frozenxid, minmulti,
						&frozenxid_updated, &minmulti_updated, false);
#else
	vac_update_relstats(rel, pages, rows, visible, 0, hasindex, frozenxid, minmulti,
						&frozenxid_updated, &minmulti_updated, false);
#endif
}

static inline void
lsm_compat_report_vacuum(Relation rel, double live, double dead, TimestampTz start)
{
#if PG_VERSION_NUM < 180000
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, (PgStat_Counter) live,
						 (PgStat_Counter) dead);
#else
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, (PgStat_Counter) live,
						 (PgStat_Counter) dead, start);
#endif
}

#endif							/* LSM_COMPAT_H */
