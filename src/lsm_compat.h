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
#if PG_VERSION_NUM >= 170000
#include "access/tidstore.h"
#endif
#if PG_VERSION_NUM >= 180000
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#else
#include "commands/explain.h"
#endif
#include "catalog/pg_foreign_server.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "replication/reorderbuffer.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

/* A change that is being decoded, and its tuples. */
#if PG_VERSION_NUM < 170000
#define LSM_CHANGE_LOCATOR(change) ((change)->data.tp.relnode)
#else
#define LSM_CHANGE_LOCATOR(change) ((change)->data.tp.rlocator)
#endif

static inline ReorderBufferChange *
lsm_compat_change_create(ReorderBuffer *reorder)
{
#if PG_VERSION_NUM < 180000
	return ReorderBufferGetChange(reorder);
#else
	return ReorderBufferAllocChange(reorder);
#endif
}

/* Make its old or new tuple, with room for len bytes behind the header. */
static inline HeapTuple
lsm_compat_change_tuple(ReorderBuffer *reorder, ReorderBufferChange *change, bool old, Size len)
{
#if PG_VERSION_NUM < 170000
	ReorderBufferTupleBuf *buf = ReorderBufferGetTupleBuf(reorder, len);
	HeapTuple	tuple = &buf->tuple;
#elif PG_VERSION_NUM < 180000
	HeapTuple	buf = ReorderBufferGetTupleBuf(reorder, len);
	HeapTuple	tuple = buf;
#else
	HeapTuple	buf = ReorderBufferAllocTupleBuf(reorder, len);
	HeapTuple	tuple = buf;
#endif

	if (old)
		change->data.tp.oldtuple = buf;
	else
		change->data.tp.newtuple = buf;
	return tuple;
}

/*
 * Have the server make a custom scan's slot of that kind; false: it makes a virtual
 * one, and what it has compiled for it has to be made anew.
 */
static inline bool
lsm_compat_custom_scan_slot(CustomScanState *css, const TupleTableSlotOps *ops)
{
#if PG_VERSION_NUM < 170000
	return false;
#else
	css->slotOps = ops;
	return true;
#endif
}

/* The subtransaction that has given a relation a new file, in this transaction. */
static inline SubTransactionId
lsm_compat_new_file_subid(Relation rel)
{
#if PG_VERSION_NUM < 170000
	return rel->rd_firstRelfilenodeSubid;
#else
	return rel->rd_firstRelfilelocatorSubid;
#endif
}

/* n pages of the table have been wanted, and found in memory. */
static inline void
lsm_compat_count_hits(Relation rel, uint32 n)
{
	if (!pgstat_should_count_relation(rel))
		return;
#if PG_VERSION_NUM < 170000
	rel->pgstat_info->t_counts.t_blocks_fetched += n;
	rel->pgstat_info->t_counts.t_blocks_hit += n;
#else
	rel->pgstat_info->counts.blocks_fetched += n;
	rel->pgstat_info->counts.blocks_hit += n;
#endif
}

/*
 * Lengthen the main fork by nblocks pages of zeroes, and count that as the
 * server counts it when buffers are had for the new pages at once.
 */
static inline void
lsm_compat_zero_extend(SMgrRelation reln, BlockNumber first, BlockNumber nblocks)
{
	bool		local = SmgrIsTemp(reln);
#if PG_VERSION_NUM < 170000
	PGAlignedBlock zeroes;

	memset(zeroes.data, 0, BLCKSZ);
	for (BlockNumber i = 0; i < nblocks; i++)
		smgrextend(reln, MAIN_FORKNUM, first + i, zeroes.data, false);
#else
	IOObject	object = local ? IOOBJECT_TEMP_RELATION : IOOBJECT_RELATION;

	for (BlockNumber done = 0; done < nblocks;)
	{
		int			n = Min(nblocks - done, 1024);
		instr_time	start = pgstat_prepare_io_time(track_io_timing);

		smgrzeroextend(reln, MAIN_FORKNUM, first + done, n, false);
#if PG_VERSION_NUM < 180000
		pgstat_count_io_op_time(object, IOCONTEXT_NORMAL, IOOP_EXTEND, start, n);
#else
		pgstat_count_io_op_time(object, IOCONTEXT_NORMAL, IOOP_EXTEND, start, 1, n * BLCKSZ);
#endif
		done += n;
	}
#endif
	if (local)
		pgBufferUsage.local_blks_written += nblocks;
	else
		pgBufferUsage.shared_blks_written += nblocks;
}

/* Count pages that were read, or found in a cache of ours, as the server counts its own. */
static inline void
lsm_compat_count_pages(Relation rel, uint32 npages, bool hit, bool vacuum)
{
#if PG_VERSION_NUM >= 170000
	IOContext	context = vacuum ? IOCONTEXT_VACUUM : IOCONTEXT_NORMAL;
	IOOp		op = hit ? IOOP_HIT : IOOP_READ;

#if PG_VERSION_NUM < 180000
	pgstat_count_io_op_n(IOOBJECT_RELATION, context, op, npages);
#else
	pgstat_count_io_op(IOOBJECT_RELATION, context, op, hit ? npages : 1,
					   hit ? 0 : (uint64) npages * BLCKSZ);
#endif
#endif
	for (uint32 i = 0; i < npages; i++)
	{
		pgstat_count_buffer_read(rel);
		if (hit)
			pgstat_count_buffer_hit(rel);
	}
	if (hit)
		pgBufferUsage.shared_blks_hit += npages;
	else
		pgBufferUsage.shared_blks_read += npages;
	if (VacuumCostActive)
		VacuumCostBalance += (hit ? VacuumCostPageHit : VacuumCostPageMiss) * (int) npages;
}

/*
 * Drop the buffers of the main fork from nblocks on, and shorten it; in a critical section.  The
 * size must be asked for outside of it, which smgrtruncate() does not do before 18: minor releases
 * from 15.11 and 17.3 on have another function that takes it.
 */
static inline void
lsm_compat_truncate_main(SMgrRelation reln, BlockNumber old_nblocks, BlockNumber nblocks)
{
	ForkNumber	fork = MAIN_FORKNUM;

#if PG_VERSION_NUM < 150011 || (PG_VERSION_NUM >= 170000 && PG_VERSION_NUM < 170003)
	smgrtruncate(reln, &fork, 1, &nblocks);
#elif PG_VERSION_NUM < 180000
	smgrtruncate2(reln, &fork, 1, &old_nblocks, &nblocks);
#else
	smgrtruncate(reln, &fork, 1, &old_nblocks, &nblocks);
#endif
}

#if PG_VERSION_NUM < 170000
#define lsm_compat_set_truncate_locator(xlrec, rel) ((xlrec)->rnode = (rel)->rd_node)
#define lsm_compat_main_path(rel) relpath(RelationGetSmgr(rel)->smgr_rnode, MAIN_FORKNUM)
#define lsm_compat_path(locator, backend) relpathbackend(locator, backend, MAIN_FORKNUM)
#else
#define lsm_compat_set_truncate_locator(xlrec, rel) ((xlrec)->rlocator = (rel)->rd_locator)
#if PG_VERSION_NUM < 180000
#define lsm_compat_main_path(rel) relpath(RelationGetSmgr(rel)->smgr_rlocator, MAIN_FORKNUM)
#define lsm_compat_path(locator, backend) relpathbackend(locator, backend, MAIN_FORKNUM)
#else
#define lsm_compat_main_path(rel) \
	pstrdup(relpath(RelationGetSmgr(rel)->smgr_rlocator, MAIN_FORKNUM).str)
#define lsm_compat_path(locator, backend) \
	pstrdup(relpathbackend(locator, backend, MAIN_FORKNUM).str)
#endif
#endif

/* Let the planner take a path only if there is no other, as it does its own. */
#if PG_VERSION_NUM < 180000
#define lsm_compat_disable_path(path, enabled) \
	((path)->startup_cost += (enabled) ? 0 : disable_cost, \
	 (path)->total_cost += (enabled) ? 0 : disable_cost)
#else
#define lsm_compat_disable_path(path, enabled) ((path)->disabled_nodes = (enabled) ? 0 : 1)
#endif

/* How many relations EXPLAIN has to tell apart. */
#if PG_VERSION_NUM < 180000
#define lsm_compat_explain_relations(es) list_length((es)->rtable)
#else
#define lsm_compat_explain_relations(es) ((es)->rtable_size)
#endif

#if PG_VERSION_NUM < 170000
#define lsm_compat_array_length(root, expr) ((double) estimate_array_length(expr))
#else
#define lsm_compat_array_length(root, expr) estimate_array_length(root, expr)
#endif

/* What rows are grouped by, without columns that follow from others. */
#if PG_VERSION_NUM < 170000
#define lsm_compat_group_clause(root) ((root)->parse->groupClause)
#else
#define lsm_compat_group_clause(root) ((root)->processed_groupClause)
#endif

/* The same of another path; and is it so, apart from what it costs? */
#if PG_VERSION_NUM < 180000
#define lsm_compat_copy_disabled(path, from) ((void) 0)
#define lsm_compat_path_disabled(path) false
#else
#define lsm_compat_path_disabled(path) ((path)->disabled_nodes > 0)
#define lsm_compat_copy_disabled(path, from) ((path)->disabled_nodes = (from)->disabled_nodes)
#endif

/* Can an extension have options of EXPLAIN? */
#if PG_VERSION_NUM < 180000
#define LSM_EXPLAIN_OPTIONS 0
#else
#define LSM_EXPLAIN_OPTIONS 1
#endif

/* May the user call a function? */
#if PG_VERSION_NUM < 170000
#define lsm_compat_function_aclcheck(function) \
	pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE)
#else
#define lsm_compat_function_aclcheck(function) \
	object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE)
#endif

/* Are strings ordered by their bytes? */
#if PG_VERSION_NUM < 180000
#define lsm_compat_collate_is_c(collation) lc_collate_is_c(collation)
#else
#define lsm_compat_collate_is_c(collation) (pg_newlocale_from_collation(collation)->collate_is_c)
#endif

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

#if PG_VERSION_NUM < 180000
#define lsm_compat_primary_index(rel) RelationGetPrimaryKeyIndex(rel)
#else
#define lsm_compat_primary_index(rel) RelationGetPrimaryKeyIndex(rel, false)
#endif

/* Rows that a sequential scan has found, whether its conditions let them pass or not. */
#if PG_VERSION_NUM < 170000
#define lsm_compat_count_returned(rel, n) \
	do { \
		if (pgstat_should_count_relation(rel)) \
			(rel)->pgstat_info->t_counts.t_tuples_returned += (n); \
	} while (0)
#else
#define lsm_compat_count_returned(rel, n) \
	do { \
		if (pgstat_should_count_relation(rel)) \
			(rel)->pgstat_info->counts.tuples_returned += (n); \
	} while (0)
#endif

#if PG_VERSION_NUM < 170000
#define lsm_compat_count_update(rel, same_root) pgstat_count_heap_update(rel, same_root)
#else
#define lsm_compat_count_update(rel, same_root) pgstat_count_heap_update(rel, same_root, false)
#define relation_set_new_filenode relation_set_new_filelocator
#endif

/*
 * ANALYZE hands over the next block to sample, or tells which come next; the 15 one
 * also prefetches by the logical numbers.
 */
#if PG_VERSION_NUM < 170000
#define LSM_ANALYZE_PREFETCHES true
#define LSM_ANALYZE_TELLS 0
#define LSM_ANALYZE_NEXT_BLOCK_ARGS \
	TableScanDesc scan, BlockNumber blockno, BufferAccessStrategy strategy
#else
#include "storage/read_stream.h"
#define LSM_ANALYZE_PREFETCHES false
#define LSM_ANALYZE_TELLS 1
#define LSM_ANALYZE_NEXT_BLOCK_ARGS TableScanDesc scan, ReadStream *stream
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

/*
 * Going through a bitmap, alone or, if there is a shared iterator, with others.  Of a
 * page its LB is told, and its offsets, for which there is room for MaxHeapTuplesPerPage;
 * n is -1 if it is lossy.
 */
#if PG_VERSION_NUM < 180000
typedef struct LsmBitmapIterator
{
	TBMIterator *alone;
	TBMSharedIterator *shared;
} LsmBitmapIterator;

static inline LsmBitmapIterator
lsm_compat_bitmap_begin(TIDBitmap *bitmap, dsa_area *dsa, dsa_pointer shared)
{
	LsmBitmapIterator iterator = {NULL, NULL};

	if (DsaPointerIsValid(shared))
		iterator.shared = tbm_attach_shared_iterate(dsa, shared);
	else
		iterator.alone = tbm_begin_iterate(bitmap);
	return iterator;
}

static inline void
lsm_compat_bitmap_end(LsmBitmapIterator *iterator)
{
	if (iterator->shared != NULL)
		tbm_end_shared_iterate(iterator->shared);
	else
		tbm_end_iterate(iterator->alone);
}
#else
typedef TBMIterator LsmBitmapIterator;
#define lsm_compat_bitmap_begin(bitmap, dsa, shared) tbm_begin_iterate(bitmap, dsa, shared)
#define lsm_compat_bitmap_end(iterator) tbm_end_iterate(iterator)
#endif

static inline bool
lsm_compat_bitmap_next(LsmBitmapIterator *iterator, BlockNumber *lb, int *n, bool *recheck,
					   OffsetNumber *offsets)
{
#if PG_VERSION_NUM < 180000
	TBMIterateResult *page = iterator->shared != NULL ? tbm_shared_iterate(iterator->shared) :
	tbm_iterate(iterator->alone);

	if (page == NULL)
		return false;
	*n = page->ntuples;
	if (page->ntuples > 0)
		memcpy(offsets, page->offsets, page->ntuples * sizeof(OffsetNumber));
	*lb = page->blockno;
	*recheck = page->recheck;
#else
	TBMIterateResult page;

	if (!tbm_iterate(iterator, &page))
		return false;
	*n = page.lossy ? -1 : tbm_extract_page_tuple(&page, offsets, TBM_MAX_TUPLES_PER_PAGE);
	*lb = page.blockno;
	*recheck = page.recheck;
#endif
	return true;
}

/* Rows that a bitmap scan has fetched. */
#if PG_VERSION_NUM < 170000
#define lsm_compat_count_fetched(rel, n) \
	do { \
		if (pgstat_should_count_relation(rel)) \
			(rel)->pgstat_info->t_counts.t_tuples_fetched += (n); \
	} while (0)
#else
#define lsm_compat_count_fetched(rel, n) \
	do { \
		if (pgstat_should_count_relation(rel)) \
			(rel)->pgstat_info->counts.tuples_fetched += (n); \
	} while (0)
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

/*
 * Has that transaction ended?  Waits for nobody.  error: if not, that is an error, which the
 * server may log, with who has the lock (log_lock_failures).
 */
#if PG_VERSION_NUM < 180000
#define lsm_compat_try_xact_lock(xid, error) ConditionalXactLockTableWait(xid)
#else
#define lsm_compat_try_xact_lock(xid, error) \
	ConditionalXactLockTableWait(xid, (error) && log_lock_failures)
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
#define lsm_compat_index_beginscan(rel, index, snapshot, nkeys) \
	index_beginscan(rel, index, snapshot, nkeys, 0)
#else
#define lsm_compat_index_beginscan(rel, index, snapshot, nkeys) \
	index_beginscan(rel, index, snapshot, NULL, nkeys, 0)
#endif

#if PG_VERSION_NUM < 170000
#define lsm_compat_owns(relid) pg_class_ownercheck(relid, GetUserId())
#else
#define lsm_compat_owns(relid) object_ownercheck(RelationRelationId, relid, GetUserId())
#endif

/*
 * May the user run maintenance on a table?  Its owner may, and from 17 on who has
 * the privilege for it.
 */
#if PG_VERSION_NUM < 170000
#define lsm_compat_maintain_check(relid) \
	(lsm_compat_owns(relid) ? ACLCHECK_OK : ACLCHECK_NOT_OWNER)
#else
#define lsm_compat_maintain_check(relid) \
	(lsm_compat_owns(relid) ? ACLCHECK_OK : pg_class_aclcheck(relid, GetUserId(), ACL_MAINTAIN))
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

#if PG_VERSION_NUM < 170000
#define lsm_compat_server_usage(serverid, userid) \
	pg_foreign_server_aclcheck(serverid, userid, ACL_USAGE)
#else
#define lsm_compat_server_usage(serverid, userid) \
	object_aclcheck(ForeignServerRelationId, serverid, userid, ACL_USAGE)
#endif

/* ---- background workers ---- */

#if PG_VERSION_NUM < 170000
#define lsm_compat_wait_event(name) PG_WAIT_EXTENSION
#else
#define lsm_compat_wait_event(name) WaitEventExtensionNew(name)
#endif

/* Settings that can end what a session does. */
#if PG_VERSION_NUM < 170000
#define LSM_TIMEOUT_SETTINGS \
	"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"
#else
#define LSM_TIMEOUT_SETTINGS \
	"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", \
	"transaction_timeout"
#endif

/* ---- VACUUM ---- */

typedef struct LsmCutoffs
{
	TransactionId oldest_xmin;
	MultiXactId oldest_mxact;
	TransactionId relfrozenxid; /* as it was */
	MultiXactId relminmxid;		/* as it was */
	bool		aggressive;		/* relfrozenxid has to advance */
#if PG_VERSION_NUM >= 170000
	struct VacuumCutoffs limits;
#endif
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
	cutoffs->aggressive = vacuum_get_cutoffs(rel, params, &cutoffs->limits);
	cutoffs->oldest_xmin = cutoffs->limits.OldestXmin;
	cutoffs->oldest_mxact = cutoffs->limits.OldestMxact;
#endif
	cutoffs->relfrozenxid = rel->rd_rel->relfrozenxid;
	cutoffs->relminmxid = rel->rd_rel->relminmxid;
}

/* Is the table so old that nothing but freezing matters? */
static inline bool
lsm_compat_failsafe(Relation rel, const LsmCutoffs *cutoffs)
{
#if PG_VERSION_NUM < 170000
	return vacuum_xid_failsafe_check(cutoffs->relfrozenxid, cutoffs->relminmxid);
#else
	return vacuum_xid_failsafe_check(&cutoffs->limits);
#endif
}

/*
 * No pauses from now on.  The flag keeps new settings from bringing them back; the server takes it
 * away before the next table.
 */
static inline void
lsm_compat_failsafe_begins(void)
{
#if PG_VERSION_NUM >= 170000
	VacuumFailsafeActive = true;
#endif
	VacuumCostActive = false;
	VacuumCostBalance = 0;
}

#if PG_VERSION_NUM < 180000
#define lsm_compat_vacuum_delay() vacuum_delay_point()
#else
#define lsm_compat_vacuum_delay() vacuum_delay_point(false)
#endif

/* Dead roots in pg_stat_progress_vacuum: a number in 15, bytes later. */
#if PG_VERSION_NUM < 170000
#define LSM_PROGRESS_MAX_DEAD PROGRESS_VACUUM_MAX_DEAD_TUPLES
#define LSM_PROGRESS_NUM_DEAD PROGRESS_VACUUM_NUM_DEAD_TUPLES
#define lsm_compat_progress_dead(n) ((int64) (n))
#define lsm_compat_progress_indexes(n) ((void) 0)
#define lsm_compat_progress_index_done(n) ((void) 0)
#else
#define LSM_PROGRESS_MAX_DEAD PROGRESS_VACUUM_MAX_DEAD_TUPLE_BYTES
#define LSM_PROGRESS_NUM_DEAD PROGRESS_VACUUM_DEAD_TUPLE_BYTES
#define lsm_compat_progress_dead(n) ((int64) ((n) * sizeof(uint64)))
#define lsm_compat_progress_index_done(n) \
	pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_PROCESSED, n)
static inline void
lsm_compat_progress_indexes(int n)
{
	const int	params[] = {PROGRESS_VACUUM_INDEXES_TOTAL, PROGRESS_VACUUM_INDEXES_PROCESSED};
	const int64 values[] = {n, 0};

	pgstat_progress_update_multi_param(2, params, values);
}
#endif

/*
 * Begin to vacuum indexes in parallel, with room for max_dead TIDs; NULL if one
 * process can do it.
 */
static inline ParallelVacuumState *
lsm_compat_parallel_begin(Relation rel, Relation *indexes, int nindexes, int nworkers,
						  uint64 max_dead, int work_mem_kb, int elevel,
						  BufferAccessStrategy strategy)
{
#if PG_VERSION_NUM < 170000
	if (max_dead > MAXDEADITEMS(MaxAllocSize))
		return NULL;
	return parallel_vacuum_init(rel, indexes, nindexes, nworkers, Max((int) max_dead, 1), elevel,
								strategy);
#else
	return parallel_vacuum_init(rel, indexes, nindexes, nworkers, work_mem_kb, elevel, strategy);
#endif
}

/* Tell the workers which TIDs are dead: sorted, as numbers with the offset below. */
static inline void
lsm_compat_parallel_set_dead(ParallelVacuumState *parallel, const uint64 *tids, uint64 n)
{
#if PG_VERSION_NUM < 170000
	VacDeadItems *items = parallel_vacuum_get_dead_items(parallel);

	Assert(n <= (uint64) items->max_items);
	for (uint64 i = 0; i < n; i++)
		ItemPointerSet(&items->items[i], (BlockNumber) (tids[i] >> 16),
					   (OffsetNumber) (tids[i] & 0xFFFF));
	items->num_items = (int) n;
#else
	VacDeadItemsInfo *info;
	TidStore   *items;
	OffsetNumber offsets[MaxOffsetNumber];

	parallel_vacuum_reset_dead_items(parallel);
	items = parallel_vacuum_get_dead_items(parallel, &info);
	for (uint64 i = 0; i < n;)
	{
		uint64		first = i;

		do
		{
			offsets[i - first] = (OffsetNumber) (tids[i] & 0xFFFF);
			i++;
		} while (i < n && tids[i] >> 16 == tids[first] >> 16);
		TidStoreSetBlockOffsets(items, (BlockNumber) (tids[first] >> 16), offsets,
								(int) (i - first));
	}
	info->num_items = (int64) n;
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

/* As the server's own maintenance commands: functions of others find no functions of strangers. */
#if PG_VERSION_NUM >= 170000
#define lsm_compat_restrict_search_path()	RestrictSearchPath()
#else
#define lsm_compat_restrict_search_path()	((void) 0)
#endif

/* The next xid, for redo, who holds XidGenLock, and lsm_some_next_xid() (access/transam.h). */
#if PG_VERSION_NUM >= 170000
#define lsm_compat_next_full_xid()	(TransamVariables->nextXid)
#else
#define lsm_compat_next_full_xid()	(ShmemVariableCache->nextXid)
#endif

/* May the end of a table's file be given back, as VACUUM sees it? */
static inline bool
lsm_compat_vacuum_truncate(Relation rel)
{
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;

#if PG_VERSION_NUM < 180000
	return options == NULL || options->vacuum_truncate;
#else
	return options == NULL || !options->vacuum_truncate_set ? vacuum_truncate :
		options->vacuum_truncate;
#endif
}

/*
 * Returns whether relfrozenxid has changed: it never goes back.  *minmulti_updated, if it is not
 * NULL: the same of relminmxid.
 */
static inline bool
lsm_compat_update_relstats(Relation rel, BlockNumber pages, double rows, BlockNumber visible,
						   bool hasindex, TransactionId frozenxid, MultiXactId minmulti,
						   bool *minmulti_updated)
{
	bool		frozenxid_updated;

#if PG_VERSION_NUM < 180000
	vac_update_relstats(rel, pages, rows, visible, hasindex, frozenxid, minmulti,
						&frozenxid_updated, minmulti_updated, false);
#else
	vac_update_relstats(rel, pages, rows, visible, 0, hasindex, frozenxid, minmulti,
						&frozenxid_updated, minmulti_updated, false);
#endif
	return frozenxid_updated;
}

/* Store relpages, and leave the other statistics as they are. */
static inline void
lsm_compat_update_relpages(Relation rel, BlockNumber pages)
{
	Form_pg_class form = rel->rd_rel;

#if PG_VERSION_NUM < 180000
	vac_update_relstats(rel, pages, form->reltuples, form->relallvisible, form->relhasindex,
						InvalidTransactionId, InvalidMultiXactId, NULL, NULL, true);
#else
	vac_update_relstats(rel, pages, form->reltuples, form->relallvisible, form->relallfrozen,
						form->relhasindex, InvalidTransactionId, InvalidMultiXactId, NULL, NULL,
						true);
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
