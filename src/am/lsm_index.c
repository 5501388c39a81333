/*-------------------------------------------------------------------------
 *
 * lsm_index.c
 *	  Reading a table to build or validate an index.
 *
 * One entry a root, in root-TID order (BRIN depends on the order).  A row whose
 * newest version an old snapshot cannot see yet makes the index unusable for such
 * snapshots (ii_BrokenHotChain), as a HOT chain does in heap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "lsm_am.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

/* What is to be done with a row. */
typedef struct LsmIndexChoice
{
	bool		index;			/* the slot holds the version to index */
	bool		alive;
	bool		broken;			/* old snapshots see another version */
	TransactionId wait_for;		/* first wait for it, then look again */
} LsmIndexChoice;

/* The effective end of a row: what its newest DELETE or MOVED means. */
static bool
lsm_index_ended(const LsmRowHead *head, LsmXidState state, uint64 horizon, bool unique,
				LsmIndexChoice *choice)
{
	switch (state)
	{
		case LSM_XID_COMMITTED:
			choice->alive = false;
			return head->xid < horizon; /* dead for everybody */
		case LSM_XID_OWN:
			choice->alive = false;
			return false;
		default:
			if (unique)
				choice->wait_for = (TransactionId) head->xid;
			return false;
	}
}

/*
 * Choose the version of a row to index, for a build that sees all rows
 * (SnapshotAny).
 */
static void
lsm_index_choose(Relation rel, LsmTable *table, LsmTid root, uint64 horizon, bool unique,
				 TupleTableSlot *slot, LsmIndexChoice *choice)
{
	LsmVersionIter iter;
	LsmVersion *version;

	do
	{
		LsmTid		base = LSM_INVALID_TID;
		bool		chosen = false;
		bool		done = false;

		memset(choice, 0, sizeof(*choice));
		choice->alive = true;
		lsm_versions_begin(&iter, rel, table, root);
		while (!done && (version = lsm_versions_next(&iter)) != NULL)
		{
			LsmRowHead *head = &version->head;
			int			kind = LSM_REC_KIND(head->info);
			LsmXidState state;

			if (chosen)
			{
				if (version->bottom ||
					(head->vtid == base && kind == LSM_REC_UPDATE && !(head->info & LSM_REC_DELTA)))
				{
					lsm_slot_store(slot, rel, version, 0, 0);
					choice->index = done = true;
				}
				continue;
			}
			state = lsm_xid_state(head);
			if (kind == LSM_REC_LOCK || state == LSM_XID_ABORTED)
				continue;
			if (kind == LSM_REC_DELETE || kind == LSM_REC_MOVED)
			{
				done = lsm_index_ended(head, state, horizon, unique, choice) ||
					choice->wait_for != InvalidTransactionId;
				continue;
			}
			if (state == LSM_XID_RUNNING && unique)
			{
				choice->wait_for = (TransactionId) head->xid;
				break;
			}
			choice->broken = kind == LSM_REC_UPDATE && head->xid >= horizon;
			chosen = true;
			if (head->info & LSM_REC_DELTA)
			{
				base = head->base;
				lsm_slot_store_delta(slot, rel, version);
			}
			else
			{
				lsm_slot_store(slot, rel, version, 0, 0);
				choice->index = done = true;
			}
		}
		lsm_versions_end(&iter);
		if (iter.stale)
			ExecClearTuple(slot);
	} while (iter.stale);
	if (choice->index)
		lsm_slot_set_name(slot, root);
}

static void
lsm_index_progress(LsmScan scan, LsmTid root)
{
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, LSM_TID_LB(root));
}

/* Tuple, predicate and slot for evaluating index expressions. */
typedef struct LsmIndexEval
{
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *predicate;
	TupleTableSlot *slot;
} LsmIndexEval;

static void
lsm_index_eval_begin(Relation rel, IndexInfo *index_info, LsmIndexEval *eval)
{
	eval->estate = CreateExecutorState();
	eval->econtext = GetPerTupleExprContext(eval->estate);
	eval->slot = table_slot_create(rel, NULL);
	eval->econtext->ecxt_scantuple = eval->slot;
	eval->predicate = ExecPrepareQual(index_info->ii_Predicate, eval->estate);
}

static void
lsm_index_eval_end(IndexInfo *index_info, LsmIndexEval *eval)
{
	ExecDropSingleTupleTableSlot(eval->slot);
	FreeExecutorState(eval->estate);
	index_info->ii_ExpressionsState = NIL;
	index_info->ii_PredicateState = NULL;
}

double
lsm_index_build_range_scan(Relation rel, Relation index, IndexInfo *index_info,
						   bool allow_sync, bool anyvisible, bool progress,
						   BlockNumber start_blockno, BlockNumber numblocks,
						   IndexBuildCallback callback, void *callback_state,
						   TableScanDesc sscan)
{
	bool		unique = index_info->ii_Unique || index_info->ii_ExclusionOps != NULL;
	LsmTable   *table = lsm_table_open(rel);
	LsmScan		scan;
	LsmIndexEval eval;
	Snapshot	snapshot;
	bool		registered = false;
	uint64		horizon = 0;
	double		reltuples = 0;
	LsmScanRow	row;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	Assert(OidIsValid(index->rd_rel->relam));
	lsm_relpages_remember(rel);
	lsm_index_eval_begin(rel, index_info, &eval);
	if (sscan == NULL)
	{
		if (IsBootstrapProcessingMode() || index_info->ii_Concurrent)
		{
			snapshot = RegisterSnapshot(GetTransactionSnapshot());
			registered = true;
		}
		else
			snapshot = SnapshotAny;
		sscan = table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	}
	else
		snapshot = sscan->rs_snapshot;
	scan = (LsmScan) sscan;
	if (!IsMVCCSnapshot(snapshot))
	{
		LsmHorizons horizons;

		lsm_horizons(rel, &horizons);
		horizon = horizons.visible;
	}
	if (sscan->rs_parallel == NULL && (start_blockno != 0 || numblocks != InvalidBlockNumber))
		lsm_scan_set_range(scan, LSM_TID(start_blockno, 1),
						   numblocks == InvalidBlockNumber ? LSM_MAX_TID :
						   LSM_TID((uint64) start_blockno + numblocks - 1, 0xFFFF));
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL,
									 lsm_view_get(rel, table)->meta.next_root_lb);

	for (;;)
	{
		LsmIndexChoice choice = {true, true, false, InvalidTransactionId};
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_scan_next_row(scan, ForwardScanDirection, &row))
		{
			if (sscan->rs_parallel != NULL && lsm_scan_next_range(scan))
				continue;
			break;
		}
		if (IsMVCCSnapshot(snapshot))
			choice.index = lsm_row_fetch(rel, table, row.root, snapshot, eval.slot, NULL);
		else
		{
			LsmRowHead	head;

			lsm_scan_row_head(scan, &row, &head);
			if (!row.changed && lsm_xid_state(&head) == LSM_XID_COMMITTED)
				lsm_scan_store(scan, &row, eval.slot);
			else
			{
				for (;;)
				{
					lsm_index_choose(rel, table, row.root, horizon, unique, eval.slot, &choice);
					if (choice.wait_for == InvalidTransactionId)
						break;
					lsm_tid_to_pointer(row.root, &tid);
					XactLockTableWait(choice.wait_for, rel, &tid, XLTW_InsertIndexUnique);
				}
				if (choice.broken)
					index_info->ii_BrokenHotChain = true;
			}
		}
		if (!choice.index)
			continue;
		if (choice.alive)
			reltuples += 1;
		if (progress)
			lsm_index_progress(scan, row.root);

		MemoryContextReset(eval.econtext->ecxt_per_tuple_memory);
		if (eval.predicate != NULL && !ExecQual(eval.predicate, eval.econtext))
			continue;
		FormIndexDatum(index_info, eval.slot, eval.estate, values, isnull);
		lsm_tid_to_pointer(row.root, &tid);
		callback(index, &tid, values, isnull, choice.alive, callback_state);
	}
	table_endscan(sscan);
	if (registered)
		UnregisterSnapshot(snapshot);
	lsm_index_eval_end(index_info, &eval);
	return reltuples;
}

/*
 * Third phase of CREATE INDEX CONCURRENTLY: insert what the index lacks of the
 * rows that snapshot sees.  Both sides come in root-TID order.
 */
void
lsm_index_validate_scan(Relation rel, Relation index, IndexInfo *index_info,
						Snapshot snapshot, ValidateIndexState *state)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmIndexEval eval;
	TableScanDesc sscan;
	LsmScanRow	row;
	LsmTid		indexed = LSM_INVALID_TID;
	bool		empty = false;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	lsm_index_eval_begin(rel, index_info, &eval);
	sscan = table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	while (lsm_scan_next_row((LsmScan) sscan, ForwardScanDirection, &row))
	{
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_row_fetch(rel, table, row.root, snapshot, eval.slot, NULL))
			continue;
		state->htups += 1;
		while (!empty && indexed < row.root)
		{
			Datum		value;
			bool		null;
			ItemPointerData decoded;

			if (!lsm_compat_tuplesort_getdatum(state->tuplesort, &value, &null))
			{
				empty = true;
				break;
			}
			itemptr_decode(&decoded, DatumGetInt64(value));
			indexed = lsm_tid_from_pointer(&decoded);
		}
		if (!empty && indexed == row.root)
			continue;

		MemoryContextReset(eval.econtext->ecxt_per_tuple_memory);
		if (eval.predicate != NULL && !ExecQual(eval.predicate, eval.econtext))
			continue;
		FormIndexDatum(index_info, eval.slot, eval.estate, values, isnull);
		lsm_tid_to_pointer(row.root, &tid);
		index_insert(index, values, isnull, &tid, rel,
					 index_info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 false, index_info);
		state->tups_inserted += 1;
	}
	table_endscan(sscan);
	lsm_index_eval_end(index_info, &eval);
}
