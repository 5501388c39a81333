/*-------------------------------------------------------------------------
 *
 * lsm_scannode.c
 *	  LsmScan: a sequential scan that looks at columns.
 *
 * The rows of a block are looked at together: conditions that compare a column with
 * a value are found by lsm_predicate.c on what the block stores, blocks are skipped
 * by their zone maps, and only columns that the plan asks for are decoded, for
 * rows that are left.  Rows that a block does not tell all about (with other
 * records in increments or the memtable, of row-log pages, with large values,
 * older than a column with a default) are fetched as any scan does, and meet the
 * conditions as expressions.
 *
 * The plan has all conditions in its qual, so that it is shown, and its parameters
 * and dependencies found, as a sequential scan's; custom_private says which of them
 * are looked at by column.  The node's own qual has the others.
 *
 * Rows come in the order in which a sequential scan gives them.  A scan that is
 * turned around goes on row by row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/sysattr.h"
#include "executor/executor.h"
#include "lsm_am.h"
#include "lsm_codec.h"
#include "lsm_exec.h"
#include "lsm_predicate.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"

/* From one row in so many on, all values of a column are decoded. */
#define LSM_SPARSE				8

/* A column that the plan asks for. */
typedef struct LsmScanColumn
{
	AttrNumber	attnum;
	bool		absent;			/* null in all rows of the block */
	Datum	   *values;			/* of the block; NULL: one by one */
	bool	   *isnull;
} LsmScanColumn;

/* What a scan has done; of parallel scans, all processes together. */
typedef struct LsmScanCounters
{
	uint64		blocks_read;
	uint64		blocks_skipped;
	uint64		rows_fused;		/* rows with other records than in their block */
} LsmScanCounters;

typedef struct LsmScanShared
{
	pg_atomic_uint64 blocks_read;
	pg_atomic_uint64 blocks_skipped;
	pg_atomic_uint64 rows_fused;
} LsmScanShared;

typedef struct LsmScanState
{
	CustomScanState css;		/* must be first */
	int			npredicates;
	LsmPredicate **predicates;
	ExprState  *predicate_qual; /* the same as an expression */
	int			ncolumns;
	LsmScanColumn *columns;
	bool		system_columns; /* other than ctid and tableoid */
	/* the scan, when it runs */
	ParallelTableScanDesc pscan;
	LsmScanShared *shared;
	TableScanDesc scan;
	bool		by_row;			/* it was turned around */
	bool		done;
	/* the unit */
	LsmBatchScan batch;
	bool		simple;			/* its rows are made of columns */
	bool		recheck;		/* conditions have to be checked by row */
	int			at;				/* page: next row; block: next of selected */
	int			changed_at;
	int			nselected;
	uint16		selected[LSM_BLOCK_MAX_ROWS];
	LsmTid		roots[LSM_BLOCK_MAX_ROWS];
	LsmScanCounters counters;	/* without the running batch scan's */
} LsmScanState;

/* ---- columns ---- */

/* Columns that the plan's target list and remaining conditions ask for. */
static void
lsm_scannode_columns(LsmScanState *node, List *rest)
{
	CustomScan *plan = (CustomScan *) node->css.ss.ps.plan;
	TupleDesc	tupdesc = RelationGetDescr(node->css.ss.ss_currentRelation);
	Bitmapset  *attrs = NULL;
	int			attr = -1;
	bool		all = false;

	pull_varattnos((Node *) plan->scan.plan.targetlist, plan->scan.scanrelid, &attrs);
	pull_varattnos((Node *) rest, plan->scan.scanrelid, &attrs);
	while ((attr = bms_next_member(attrs, attr)) >= 0)
	{
		AttrNumber	attnum = attr + FirstLowInvalidHeapAttributeNumber;

		if (attnum == InvalidAttrNumber)
			all = true;
		else if (attnum < 0 && attnum != SelfItemPointerAttributeNumber &&
				 attnum != TableOidAttributeNumber)
			node->system_columns = true;
	}
	node->columns = palloc0(Max(tupdesc->natts, 1) * sizeof(LsmScanColumn));
	for (int i = 0; i < tupdesc->natts; i++)
	{
		if (TupleDescAttr(tupdesc, i)->attisdropped ||
			(!all && !bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, attrs)))
			continue;
		node->columns[node->ncolumns++].attnum = i + 1;
	}
	bms_free(attrs);
}

/* ---- conditions ---- */

static bool
lsm_scannode_has_default(LsmScanState *node, AttrNumber attnum)
{
	return TupleDescAttr(RelationGetDescr(node->css.ss.ss_currentRelation),
						 attnum - 1)->atthasmissing;
}

static void
lsm_scannode_predicates(LsmScanState *node)
{
	CustomScan *plan = (CustomScan *) node->css.ss.ps.plan;
	PlanState  *ps = &node->css.ss.ps;
	List	   *batch = NIL;
	List	   *rest = NIL;
	int			number = 0;
	ListCell   *cell;

	node->predicates = palloc0(Max(list_length(plan->custom_private), 1) * sizeof(LsmPredicate *));
	foreach(cell, plan->scan.plan.qual)
	{
		LsmPredicate *predicate = NULL;

		if (list_member_int(plan->custom_private, number))
			predicate = lsm_predicate_make(lfirst(cell), plan->scan.scanrelid);
		if (predicate != NULL)
		{
			if (lsm_scannode_has_default(node, predicate->condition.attnum))
				predicate->zones = false;
			lsm_predicate_init(predicate, ps);
			node->predicates[node->npredicates++] = predicate;
			batch = lappend(batch, lfirst(cell));
		}
		else
			rest = lappend(rest, lfirst(cell));
		number++;
	}

	/*
	 * The server has prepared slot, projection and qual for another kind of
	 * slot and all conditions: do it anew.
	 */
	ps->subPlan = NIL;
	ExecInitScanTupleSlot(ps->state, &node->css.ss,
						  RelationGetDescr(node->css.ss.ss_currentRelation), &LsmSlotOps);
	ExecAssignScanProjectionInfo(&node->css.ss);
	ps->qual = ExecInitQual(rest, ps);
	node->predicate_qual = ExecInitQual(batch, ps);
	lsm_scannode_columns(node, rest);
}

static bool
lsm_scannode_skip(void *arg, LsmSegmentReader *reader, const LsmManifestEntry *entry,
				  uint32 blockno)
{
	LsmScanState *node = arg;

	/* a serializable reader must meet rows that it does not see yet */
	if (IsolationIsSerializable() && !(entry->flags & LSM_SEGFLAG_ALL_VISIBLE))
		return false;
	for (int i = 0; i < node->npredicates; i++)
		if (!lsm_predicate_may_match(node->predicates[i], reader, blockno))
			return true;
	return false;
}

/* Does the row in the slot meet the conditions? */
static bool
lsm_scannode_passes(LsmScanState *node, TupleTableSlot *slot)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	if (node->npredicates == 0)
		return true;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	if (ExecQual(node->predicate_qual, econtext))
		return true;
	InstrCountFiltered1(&node->css.ss, 1);
	return false;
}

/* Can the conditions, and the columns, of the block be looked at as it has them? */
static void
lsm_scannode_examine(LsmScanState *node)
{
	LsmBlock   *block = node->batch.block;
	LsmScan		scan = (LsmScan) node->scan;
	int			natts = lsm_block_natts(block);
	bool		complete = lsm_block_complete(block);

	node->simple = !node->system_columns && !(scan->entry.flags & LSM_SEGFLAG_VALUES);
	for (int i = 0; i < node->ncolumns; i++)
	{
		LsmScanColumn *column = &node->columns[i];

		column->absent = column->attnum > natts;
		if ((column->absent || !complete) && lsm_scannode_has_default(node, column->attnum))
			node->simple = false;
	}
	node->recheck = (scan->entry.flags & LSM_SEGFLAG_VALUES) != 0;
	for (int i = 0; i < node->npredicates; i++)
	{
		AttrNumber	attnum = node->predicates[i]->condition.attnum;

		if ((attnum > natts || !complete) && lsm_scannode_has_default(node, attnum))
			node->recheck = true;
	}
	if (node->recheck)
		node->simple = false;
}

/* Rows of the block that meet the conditions. */
static void
lsm_scannode_select(LsmScanState *node)
{
	LsmBatchScan *batch = &node->batch;
	int			left = batch->nseen;
	int			n = 0;

	for (int i = 0; i < node->npredicates && left > 0 && !node->recheck; i++)
	{
		LsmCondition *condition = &node->predicates[i]->condition;

		if (condition->attnum <= lsm_block_natts(batch->block))
			left = lsm_predicate_select(node->predicates[i], batch->block, batch->mask);
		else if (condition->kind != LSM_COND_NULL)
			left = 0;
	}
	InstrCountFiltered1(&node->css.ss, batch->nseen - left);
	if (left > 0)
	{
		for (int row = 0; row < batch->nrows; row++)
		{
			node->selected[n] = row;
			n += batch->mask[row];
		}
		lsm_block_roots(batch->block, node->roots);
	}
	node->nselected = n;
}

/* Decode what is asked for, where it is not for a few rows. */
static void
lsm_scannode_decode(LsmScanState *node)
{
	LsmBatchScan *batch = &node->batch;
	bool		whole = node->nselected >= batch->nrows / LSM_SPARSE;

	for (int i = 0; i < node->ncolumns; i++)
	{
		LsmScanColumn *column = &node->columns[i];

		column->values = NULL;
		if (whole && !column->absent)
			lsm_block_column(batch->block, column->attnum, &column->values, &column->isnull);
	}
}

/* ---- rows ---- */

/* The slot gets a row of the block. */
static void
lsm_scannode_store(LsmScanState *node, int row, TupleTableSlot *slot)
{
	LsmBlock   *block = node->batch.block;

	lsm_slot_begin_columns(slot, node->css.ss.ss_currentRelation, node->roots[row]);
	for (int i = 0; i < node->ncolumns; i++)
	{
		LsmScanColumn *column = &node->columns[i];
		int			at = column->attnum - 1;

		if (column->values != NULL)
		{
			slot->tts_values[at] = column->values[row];
			slot->tts_isnull[at] = column->isnull[row];
		}
		else if (column->absent)
			slot->tts_isnull[at] = true;
		else
			slot->tts_values[at] = lsm_block_value(block, row, column->attnum,
												   &slot->tts_isnull[at]);
	}
}

/* A row that is fetched by its root, or stored as a whole. */
static bool
lsm_scannode_deliver(LsmScanState *node, const LsmScanRow *row, TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) node->scan;

	if (!lsm_scan_deliver(scan, row, slot))
		return false;
	lsm_compat_count_returned(node->scan->rs_rd, 1);
	return lsm_scannode_passes(node, slot);
}

static bool
lsm_scannode_next_of_page(LsmScanState *node, TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) node->scan;

	while (node->at < scan->nrows)
	{
		LsmScanRow *row = &scan->rows[node->at++];

		if (lsm_scannode_deliver(node, row, slot))
		{
			scan->current = row->root;
			return true;
		}
	}
	return false;
}

static bool
lsm_scannode_next_of_block(LsmScanState *node, TupleTableSlot *slot)
{
	LsmBatchScan *batch = &node->batch;
	LsmScan		scan = (LsmScan) node->scan;

	for (;;)
	{
		bool		changed = node->changed_at < batch->nchanged;
		LsmScanRow	row;

		if (node->at < node->nselected &&
			(!changed || batch->changed[node->changed_at].row > node->selected[node->at]))
		{
			row.at = node->selected[node->at++];
			row.root = scan->current = node->roots[row.at];
			if (node->simple)
			{
				lsm_scannode_store(node, row.at, slot);
				return true;
			}
			lsm_scan_store(scan, &row, slot);
			if (!node->recheck || lsm_scannode_passes(node, slot))
				return true;
			continue;
		}
		if (!changed)
			return false;
		memset(&row, 0, sizeof(row));
		row.root = batch->changed[node->changed_at++].root;
		row.changed = true;
		node->counters.rows_fused++;
		if (lsm_scannode_deliver(node, &row, slot))
		{
			scan->current = row.root;
			return true;
		}
	}
}

/* Go to the next unit; false: there is none. */
static bool
lsm_scannode_next_unit(LsmScanState *node)
{
	LsmBatchScan *batch = &node->batch;

	if (!lsm_batch_next(batch))
		return false;
	node->at = 0;
	node->changed_at = 0;
	node->nselected = 0;
	if (batch->block != NULL && batch->nseen > 0)
	{
		lsm_scannode_examine(node);
		lsm_scannode_select(node);
		if (node->nselected > 0 && node->simple)
			lsm_scannode_decode(node);
	}
	return true;
}

/* Take over what the batch scan has counted. */
static void
lsm_scannode_count(LsmScanState *node)
{
	node->counters.blocks_read += node->batch.blocks_read;
	node->counters.blocks_skipped += node->batch.blocks_skipped;
	node->batch.blocks_read = 0;
	node->batch.blocks_skipped = 0;
}

static void
lsm_scannode_end_batch(LsmScanState *node)
{
	lsm_scannode_count(node);
	lsm_batch_end(&node->batch);
}

/* Row by row, in any direction. */
static TupleTableSlot *
lsm_scannode_next_row(LsmScanState *node, ScanDirection direction, TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) node->scan;

	if (!node->by_row)
	{
		LsmTid		current = node->done ? LSM_INVALID_TID : scan->current;

		lsm_scannode_end_batch(node);
		scan->current = current;
		scan->started = false;
		node->by_row = true;
	}
	while (lsm_scan_getnextslot(node->scan, direction, slot))
	{
		if (lsm_scannode_passes(node, slot))
			return slot;
		CHECK_FOR_INTERRUPTS();
	}
	return NULL;
}

static void
lsm_scannode_start(LsmScanState *node)
{
	Relation	rel = node->css.ss.ss_currentRelation;

	if (node->pscan != NULL)
		node->scan = table_beginscan_parallel(rel, node->pscan);
	else
		node->scan = table_beginscan(rel, node->css.ss.ps.state->es_snapshot, 0, NULL);
}

/* What does not change while the scan runs. */
static void
lsm_scannode_start_batch(LsmScanState *node)
{
	for (int i = 0; i < node->npredicates; i++)
		lsm_predicate_start(node->predicates[i], node->css.ss.ps.ps_ExprContext);
	lsm_batch_begin(&node->batch, (LsmScan) node->scan);
	if (node->npredicates > 0)
	{
		node->batch.skip = lsm_scannode_skip;
		node->batch.arg = node;
	}
}

static TupleTableSlot *
lsm_scannode_access(ScanState *ss)
{
	LsmScanState *node = (LsmScanState *) ss;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;
	ScanDirection direction = ss->ps.state->es_direction;

	if (node->scan == NULL)
		lsm_scannode_start(node);
	if (node->batch.scan == NULL && !node->by_row)
		lsm_scannode_start_batch(node);
	if (node->by_row || ScanDirectionIsBackward(direction))
		return lsm_scannode_next_row(node, direction, slot);
	while (!node->done)
	{
		if (node->batch.page ? lsm_scannode_next_of_page(node, slot) :
			lsm_scannode_next_of_block(node, slot))
			return slot;
		if (!lsm_scannode_next_unit(node))
			node->done = true;
	}
	return ExecClearTuple(slot);
}

/* A row that EvalPlanQual puts in: does it meet the conditions? */
static bool
lsm_scannode_recheck(ScanState *ss, TupleTableSlot *slot)
{
	LsmScanState *node = (LsmScanState *) ss;
	ExprContext *econtext = ss->ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return node->npredicates == 0 || ExecQual(node->predicate_qual, econtext);
}

/* ---- callbacks ---- */

static void
lsm_scannode_begin(CustomScanState *css, EState *estate, int eflags)
{
	lsm_scannode_predicates((LsmScanState *) css);
}

static TupleTableSlot *
lsm_scannode_exec(CustomScanState *css)
{
	return ExecScan(&css->ss, lsm_scannode_access, lsm_scannode_recheck);
}

static void
lsm_scannode_end(CustomScanState *css)
{
	LsmScanState *node = (LsmScanState *) css;

	if (node->batch.scan != NULL)
		lsm_batch_end(&node->batch);
	if (node->scan != NULL)
		table_endscan(node->scan);
	node->scan = NULL;
}

static void
lsm_scannode_rescan(CustomScanState *css)
{
	LsmScanState *node = (LsmScanState *) css;

	if (node->batch.scan != NULL)
		lsm_scannode_end_batch(node);
	if (node->scan != NULL)
		table_rescan(node->scan, NULL);
	node->by_row = false;
	node->done = false;
	node->at = 0;
	node->changed_at = 0;
	node->nselected = 0;
	ExecScanReScan(&css->ss);
}

static Size
lsm_scannode_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return add_size(MAXALIGN(sizeof(LsmScanShared)),
					table_parallelscan_estimate(css->ss.ss_currentRelation,
												css->ss.ps.state->es_snapshot));
}

static void
lsm_scannode_attach(LsmScanState *node, void *coordinate)
{
	node->shared = coordinate;
	node->pscan = (ParallelTableScanDesc)
		((char *) coordinate + MAXALIGN(sizeof(LsmScanShared)));
}

static void
lsm_scannode_initialize_counters(CustomScanState *css, void *coordinate)
{
	LsmScanState *node = (LsmScanState *) css;

	lsm_scannode_attach(node, coordinate);
	pg_atomic_init_u64(&node->shared->blocks_read, 0);
	pg_atomic_init_u64(&node->shared->blocks_skipped, 0);
	pg_atomic_init_u64(&node->shared->rows_fused, 0);
}

static void
lsm_scannode_initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	LsmScanState *node = (LsmScanState *) css;

	lsm_scannode_initialize_counters(css, coordinate);
	table_parallelscan_initialize(css->ss.ss_currentRelation, node->pscan,
								  css->ss.ps.state->es_snapshot);
}

static void
lsm_scannode_reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	lsm_scannode_initialize_counters(css, coordinate);
	table_parallelscan_reinitialize(css->ss.ss_currentRelation, ((LsmScanState *) css)->pscan);
}

static void
lsm_scannode_initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	lsm_scannode_attach((LsmScanState *) css, coordinate);
}

/*
 * Workers leave what they have counted, before the leader sees the end of their
 * rows.  It takes that over while shared memory is there.  (This is called after
 * each part of a portal too, and the scan goes on.)
 */
static void
lsm_scannode_shutdown(CustomScanState *css)
{
	LsmScanState *node = (LsmScanState *) css;
	LsmScanCounters *counters = &node->counters;

	if (node->shared == NULL)
		return;
	if (IsParallelWorker())
	{
		lsm_scannode_count(node);
		pg_atomic_fetch_add_u64(&node->shared->blocks_read, counters->blocks_read);
		pg_atomic_fetch_add_u64(&node->shared->blocks_skipped, counters->blocks_skipped);
		pg_atomic_fetch_add_u64(&node->shared->rows_fused, counters->rows_fused);
		memset(counters, 0, sizeof(*counters));
	}
	else
	{
		counters->blocks_read += pg_atomic_read_u64(&node->shared->blocks_read);
		counters->blocks_skipped += pg_atomic_read_u64(&node->shared->blocks_skipped);
		counters->rows_fused += pg_atomic_read_u64(&node->shared->rows_fused);
		node->shared = NULL;
	}
}

static void
lsm_scannode_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	LsmScanState *node = (LsmScanState *) css;
	uint64		read = node->counters.blocks_read + node->batch.blocks_read;
	uint64		skipped = node->counters.blocks_skipped + node->batch.blocks_skipped;
	uint64		fused = node->counters.rows_fused;

	if (!es->analyze)
		return;
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyInteger("LSM Blocks Read", NULL, read, es);
		ExplainPropertyInteger("LSM Blocks Skipped", NULL, skipped, es);
		ExplainPropertyInteger("LSM Rows Fused", NULL, fused, es);
		return;
	}
	if (read == 0 && skipped == 0 && fused == 0)
		return;
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "LSM: blocks read=" UINT64_FORMAT, read);
	if (skipped > 0)
		appendStringInfo(es->str, " skipped=" UINT64_FORMAT, skipped);
	if (fused > 0)
		appendStringInfo(es->str, ", rows fused=" UINT64_FORMAT, fused);
	appendStringInfoChar(es->str, '\n');
}

static const CustomExecMethods lsm_scannode_methods = {
	.CustomName = "LsmScan",
	.BeginCustomScan = lsm_scannode_begin,
	.ExecCustomScan = lsm_scannode_exec,
	.EndCustomScan = lsm_scannode_end,
	.ReScanCustomScan = lsm_scannode_rescan,
	.EstimateDSMCustomScan = lsm_scannode_estimate_dsm,
	.InitializeDSMCustomScan = lsm_scannode_initialize_dsm,
	.ReInitializeDSMCustomScan = lsm_scannode_reinitialize_dsm,
	.InitializeWorkerCustomScan = lsm_scannode_initialize_worker,
	.ShutdownCustomScan = lsm_scannode_shutdown,
	.ExplainCustomScan = lsm_scannode_explain,
};

static Node *
lsm_scannode_create(CustomScan *plan)
{
	LsmScanState *node = palloc0(sizeof(LsmScanState));

	NodeSetTag(node, T_CustomScanState);
	node->css.methods = &lsm_scannode_methods;
	return (Node *) node;
}

const CustomScanMethods lsm_scan_methods = {
	.CustomName = "LsmScan",
	.CreateCustomScanState = lsm_scannode_create,
};
