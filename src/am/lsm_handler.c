/*-------------------------------------------------------------------------
 *
 * lsm_handler.c
 *	  The table access method: its callbacks, wired to plain functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/multixact.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "commands/vacuum.h"
#include "executor/tuptable.h"
#include "lsm_am.h"
#include "lsm_foresee.h"
#include "lsm_load.h"
#include "lsm_store.h"
#include "lsm_walk.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(lsm_handler);

static const TableAmRoutine lsm_methods;

bool
lsm_relation_is_lsm(Relation rel)
{
	return rel->rd_tableam == &lsm_methods;
}

/* Is it an access method of this handler? */
bool
lsm_am_is_lsm(Oid am)
{
	HeapTuple	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(am));
	Form_pg_am	form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_am) GETSTRUCT(tuple);
	result = form->amtype == AMTYPE_TABLE && GetTableAmRoutine(form->amhandler) == &lsm_methods;
	ReleaseSysCache(tuple);
	return result;
}

/* Is it a table or materialized view of this access method? */
bool
lsm_relid_is_lsm(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	result = (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_MATVIEW) &&
		lsm_am_is_lsm(form->relam);
	ReleaseSysCache(tuple);
	return result;
}

static const TupleTableSlotOps *
lsm_slot_callbacks(Relation rel)
{
	return &LsmSlotOps;
}

/* ---- index fetches ---- */

typedef struct LsmIndexFetchData
{
	IndexFetchTableData base;	/* must be first */
	LsmTable   *table;
	LsmWalk		walk;
	LsmForesight foresight;
	LsmFetchCounters counters;
	LsmTid		newer_of;		/* the row given last, if a dirty snapshot sees
								 * another version of it */
} LsmIndexFetchData;

static IndexFetchTableData *
lsm_index_fetch_begin(Relation rel)
{
	LsmIndexFetchData *fetch = palloc0(sizeof(LsmIndexFetchData));

	fetch->base.rel = rel;
	fetch->table = lsm_table_open(rel);
	lsm_rowlog_heed_waste(rel, fetch->table);
	lsm_walk_begin(&fetch->walk, rel, fetch->table);
	(void) lsm_floor();

	/*
	 * An index AM may fetch while it holds a page lock (unique checks): build
	 * the memtable index now, if it has to be built.
	 */
	for (;;)
	{
		LsmTableShared *shared = fetch->table->shared;
		uint64		changes;
		bool		ready;

		if (lsm_table_changes(shared, &changes) && lsm_rowlog_ready(shared) &&
			lsm_table_unchanged(shared, changes))
			break;
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		ready = lsm_rowlog_ready(shared);
		LWLockRelease(&shared->gen_lock);
		if (ready)
			break;
		lsm_rowlog_build_index(rel, fetch->table);
	}
	return &fetch->base;
}

static void
lsm_index_fetch_reset(IndexFetchTableData *scan)
{
	lsm_foresee_reset(&((LsmIndexFetchData *) scan)->foresight);
}

static void
lsm_index_fetch_end(IndexFetchTableData *scan)
{
	lsm_walk_end(&((LsmIndexFetchData *) scan)->walk);
	pfree(scan);
}

bool		lsm_fetch_counting;

/* Counters are given away, and begin anew, now and then. */
static inline uint64
lsm_counted_since(uint64 before, uint64 now)
{
	return now >= before ? now - before : now;
}

/* Fetch a row, and count what it changes of the table's counters. */
static pg_noinline bool
lsm_index_fetch_counted(LsmIndexFetchData *fetch, const ItemPointerData *tid, Snapshot snapshot,
						TupleTableSlot *slot, bool *all_dead)
{
	LsmTid		root = lsm_tid_from_pointer(tid);
	const uint64 *counts = fetch->table->stat.counts;
	LsmFetchCounters *counters = &fetch->counters;
	uint64		reads = counts[LSM_STAT_DATA_READ];
	uint64		records = counts[LSM_STAT_RECORDS_MEMTABLE] + counts[LSM_STAT_RECORDS_SEGMENTS];
	LsmStoreAsked asked = lsm_store_asked;
	LsmIoTotals input = lsm_iostat_totals;
	bool		found;

	lsm_foresee(&fetch->foresight, fetch->table, &fetch->base, tid, slot);
	lsm_walk_to(&fetch->walk, root);
	counters->blocks_ahead += lsm_counted_since(reads, counts[LSM_STAT_DATA_READ]);
	found = lsm_row_fetch(fetch->base.rel, fetch->table, root, snapshot, slot, all_dead);
	counters->blocks_read += lsm_counted_since(reads, counts[LSM_STAT_DATA_READ]);
	counters->records += lsm_counted_since(records, counts[LSM_STAT_RECORDS_MEMTABLE] +
										   counts[LSM_STAT_RECORDS_SEGMENTS]);
	counters->rows += found;
	counters->store_requests += lsm_store_asked.requests - asked.requests;
	counters->store_bytes += lsm_store_asked.bytes - asked.bytes;
	lsm_iostat_since(&input, &counters->input);
	return found;
}

const LsmFetchCounters *
lsm_fetch_counters(const IndexFetchTableData *fetch)
{
	return &((const LsmIndexFetchData *) fetch)->counters;
}

static bool
lsm_index_fetch_tuple(IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
					  TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	LsmIndexFetchData *fetch = (LsmIndexFetchData *) scan;
	LsmTid		root = lsm_tid_from_pointer(tid);

	if (unlikely(*call_again))
	{
		*call_again = false;
		return lsm_row_fetch_newer(scan->rel, fetch->table, fetch->newer_of, snapshot, slot);
	}
	if (unlikely(lsm_fetch_counting))
	{
		if (!lsm_index_fetch_counted(fetch, tid, snapshot, slot, all_dead))
			return false;
	}
	else
	{
		lsm_foresee(&fetch->foresight, fetch->table, scan, tid, slot);
		lsm_walk_to(&fetch->walk, root);
		if (!lsm_row_fetch(scan->rel, fetch->table, root, snapshot, slot, all_dead))
			return false;
	}
	*tid = slot->tts_tid;
	if (lsm_snapshot_sees_newer(snapshot))
	{
		fetch->newer_of = root;
		*call_again = true;
	}
	return true;
}

/* ---- fetches by TID ---- */

static bool
lsm_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	LsmTable   *table;

	(void) lsm_floor();
	if (snapshot->snapshot_type == SNAPSHOT_ANY &&
		lsm_slot_store_noted(slot, rel, lsm_tid_from_pointer(tid)))
		return true;
	table = lsm_table_open(rel);
	if (!lsm_row_fetch_named(rel, table, lsm_tid_from_pointer(tid), snapshot, slot))
	{
		ExecClearTuple(slot);
		return false;
	}
	return true;
}

static bool
lsm_tid_valid(TableScanDesc scan, ItemPointer tid)
{
	BlockNumber lb = ItemPointerGetBlockNumberNoCheck(tid);
	BlockNumber next_root_lb;

	if (!ItemPointerIsValid(tid) || ItemPointerGetOffsetNumber(tid) > LSM_MAX_OFFSET)
		return false;
	next_root_lb = lsm_view_get(scan->rs_rd, lsm_table_open(scan->rs_rd))->meta.next_root_lb;
	return lb < next_root_lb ||
		(next_root_lb > 0 && lb >= LSM_FIRST_VERSION_LB && lb < LSM_END_VERSION_LB);
}

/* The name of the newest version that the scan's snapshot sees. */
static void
lsm_get_latest_tid(TableScanDesc sscan, ItemPointer tid)
{
	Relation	rel = sscan->rs_rd;
	LsmTable   *table = lsm_table_open(rel);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &LsmSlotOps);
	LsmTid		root;

	if (!lsm_find_root(rel, table, lsm_tid_from_pointer(tid), &root))
		root = LSM_INVALID_TID;
	while (root != LSM_INVALID_TID)
	{
		CHECK_FOR_INTERRUPTS();
		if (lsm_row_fetch(rel, table, root, sscan->rs_snapshot, slot, NULL))
		{
			*tid = slot->tts_tid;
			break;
		}
		root = lsm_row_successor(rel, table, root, sscan->rs_snapshot);
	}
	ExecDropSingleTupleTableSlot(slot);
}

static bool
lsm_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	return lsm_row_fetch_named(rel, lsm_table_open(rel), lsm_tid_from_pointer(&slot->tts_tid),
							   snapshot, NULL);
}

/* Rows that are looked up for one bottom-up deletion, at most. */
#define LSM_BOTTOMUP_ROWS		100

/*
 * Which of these index entries are dead, and from which xid on must a standby's
 * snapshots be to allow their removal?  Of those that the index has marked only
 * the latter is asked.  A root is not used again: to find an entry dead that is
 * removed by someone else meanwhile does no harm.
 *
 * Bottom-up deletion (delstate->bottomup) makes room on a page about to be split,
 * from entries that the index suspects; others are not looked at.
 */
static TransactionId
lsm_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	LsmTable   *table = lsm_table_open(rel);
	uint64		newest = 0;
	int			looked_up = 0;
	int			freed = 0;
	bool		any = false;

	(void) lsm_floor();
	for (int i = 0; i < delstate->ndeltids; i++)
	{
		TM_IndexDelete *deltid = &delstate->deltids[i];
		TM_IndexStatus *status = &delstate->status[deltid->id];
		uint64		xid;

		if (delstate->bottomup)
		{
			if (!status->promising)
				continue;
			if (looked_up++ >= LSM_BOTTOMUP_ROWS || freed >= delstate->bottomupfreespace)
				break;
		}
		if (!lsm_row_is_dead(rel, table, lsm_tid_from_pointer(&deltid->tid),
							 status->knowndeletable, &xid) && !status->knowndeletable)
			continue;
		status->knowndeletable = true;
		newest = Max(newest, xid);
		freed += status->freespace;
		any = true;
	}
	if (!any && delstate->bottomup)
		delstate->ndeltids = 0;
	return (TransactionId) newest;
}

/* ---- storage ---- */

static void
lsm_set_new_filelocator(Relation rel, const RelFileLocator *locator, char persistence,
						TransactionId *freeze_xid, MultiXactId *minmulti)
{
	SMgrRelation srel;

	if (!lsm_shmem_ready())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("access method \"lsm\" cannot be used: the library was not loaded at server start"),
				 errhint("Add lsm to shared_preload_libraries and restart the server.")));
	*freeze_xid = RecentXmin;
	*minmulti = GetOldestMultiXactId();
	srel = RelationCreateStorage(*locator, persistence, true);
	lsm_table_forget(*locator, rel->rd_backend);

	/* the init fork of an unlogged table is empty, like the table it makes */
	if (persistence == RELPERSISTENCE_UNLOGGED)
	{
		smgrcreate(srel, INIT_FORKNUM, false);
		log_smgrcreate(locator, INIT_FORKNUM);
		smgrimmedsync(srel, INIT_FORKNUM);
	}
	smgrclose(srel);
}

static void
lsm_nontransactional_truncate(Relation rel)
{
	lsm_table_forget(LSM_RD_LOCATOR(rel), rel->rd_backend);
	RelationTruncate(rel, 0);
	lsm_table_forget(LSM_RD_LOCATOR(rel), rel->rd_backend);
}

static void
lsm_copy_data(Relation rel, const RelFileLocator *new_locator)
{
	SMgrRelation dstrel;

	/*
	 * The copy has the same incarnation, so nobody could tell ranges of a load in the one
	 * file from those in the other, should this be rolled back.
	 */
	lsm_load_seal(rel);
	FlushRelationBuffers(rel);
	dstrel = RelationCreateStorage(*new_locator, rel->rd_rel->relpersistence, true);
	RelationCopyStorage(RelationGetSmgr(rel), dstrel, MAIN_FORKNUM, rel->rd_rel->relpersistence);
	for (ForkNumber fork = MAIN_FORKNUM + 1; fork <= MAX_FORKNUM; fork++)
	{
		if (!smgrexists(RelationGetSmgr(rel), fork))
			continue;
		smgrcreate(dstrel, fork, false);
		if (RelationIsPermanent(rel) ||
			(rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED && fork == INIT_FORKNUM))
			log_smgrcreate(new_locator, fork);
		RelationCopyStorage(RelationGetSmgr(rel), dstrel, fork, rel->rd_rel->relpersistence);
	}
	RelationDropStorage(rel);
	smgrclose(dstrel);
	lsm_table_forget(*new_locator, rel->rd_backend);
}

/*
 * ANALYZE of 15 prefetches by the block numbers it samples, which are logical
 * here.  It asks for the size, then for the setting, then begins its scan.
 */
static int	saved_io_concurrency = -1;

void
lsm_restore_prefetch(void)
{
	if (saved_io_concurrency >= 0)
	{
		maintenance_io_concurrency = saved_io_concurrency;
		saved_io_concurrency = -1;
	}
}

/*
 * Of the main fork: the logical size, root LBs times the block size, which is
 * what index AMs (BRIN) and ANALYZE need.  Others: physical.
 */
static uint64
lsm_relation_size(Relation rel, ForkNumber fork)
{
	uint64		nblocks = 0;

	if (fork == InvalidForkNumber)
	{
		for (ForkNumber i = 0; i <= MAX_FORKNUM; i++)
			if (smgrexists(RelationGetSmgr(rel), i))
				nblocks += smgrnblocks(RelationGetSmgr(rel), i);
		return nblocks * BLCKSZ;
	}
	if (fork != MAIN_FORKNUM)
		return (uint64) smgrnblocks(RelationGetSmgr(rel), fork) * BLCKSZ;
	if (LSM_ANALYZE_PREFETCHES && saved_io_concurrency < 0)
	{
		saved_io_concurrency = maintenance_io_concurrency;
		maintenance_io_concurrency = 0;
	}
	return (uint64) lsm_meta_peek(rel)->next_root_lb * BLCKSZ;
}

static bool
lsm_needs_toast_table(Relation rel)
{
	return false;
}

static const TableAmRoutine lsm_methods = {
	.type = T_TableAmRoutine,

	.slot_callbacks = lsm_slot_callbacks,

	.scan_begin = lsm_scan_begin,
	.scan_end = lsm_scan_end,
	.scan_rescan = lsm_scan_rescan,
	.scan_getnextslot = lsm_scan_getnextslot,
	.scan_set_tidrange = lsm_scan_set_tidrange,
	.scan_getnextslot_tidrange = lsm_scan_getnextslot_tidrange,

	.parallelscan_estimate = lsm_parallelscan_estimate,
	.parallelscan_initialize = lsm_parallelscan_initialize,
	.parallelscan_reinitialize = lsm_parallelscan_reinitialize,

	.index_fetch_begin = lsm_index_fetch_begin,
	.index_fetch_reset = lsm_index_fetch_reset,
	.index_fetch_end = lsm_index_fetch_end,
	.index_fetch_tuple = lsm_index_fetch_tuple,

	.tuple_fetch_row_version = lsm_fetch_row_version,
	.tuple_tid_valid = lsm_tid_valid,
	.tuple_get_latest_tid = lsm_get_latest_tid,
	.tuple_satisfies_snapshot = lsm_satisfies_snapshot,
	.index_delete_tuples = lsm_index_delete_tuples,

	.tuple_insert = lsm_tuple_insert,
	.tuple_insert_speculative = lsm_insert_speculative,
	.tuple_complete_speculative = lsm_complete_speculative,
	.multi_insert = lsm_multi_insert,
	.finish_bulk_insert = lsm_finish_bulk_insert,
	.tuple_delete = lsm_tuple_delete,
	.tuple_update = lsm_tuple_update,
	.tuple_lock = lsm_tuple_lock,

	.relation_set_new_filenode = lsm_set_new_filelocator,
	.relation_nontransactional_truncate = lsm_nontransactional_truncate,
	.relation_copy_data = lsm_copy_data,
	.relation_copy_for_cluster = lsm_copy_for_cluster,
	.relation_vacuum = lsm_vacuum_rel,
	.scan_analyze_next_block = lsm_analyze_next_block,
	.scan_analyze_next_tuple = lsm_analyze_next_tuple,
	.index_build_range_scan = lsm_index_build_range_scan,
	.index_validate_scan = lsm_index_validate_scan,

	.relation_size = lsm_relation_size,
	.relation_needs_toast_table = lsm_needs_toast_table,
	.relation_fetch_toast_slice = lsm_value_fetch_slice,
	.relation_estimate_size = lsm_estimate_for_planner,

#if LSM_BITMAP_BY_BLOCK
	.scan_bitmap_next_block = lsm_bitmap_next_block,
#endif
	.scan_bitmap_next_tuple = lsm_bitmap_next_tuple,
	.scan_sample_next_block = lsm_sample_next_block,
	.scan_sample_next_tuple = lsm_sample_next_tuple,
};

/* The handler function of CREATE ACCESS METHOD lsm. */
Datum
lsm_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&lsm_methods);
}
