/*-------------------------------------------------------------------------
 *
 * lsm_scannode.c
 *	  LsmScan: a sequential scan that looks at columns.
 *
 * Blocks and conditions are lsm_columnscan.c's part.  Here only columns that the
 * plan asks for are decoded, for rows that are left, and rows come in the order in
 * which a sequential scan gives them.  A scan that is turned around goes on row by
 * row.
 *
 * The plan has all conditions in its qual, so that it is shown, and its parameters
 * and dependencies found, as a sequential scan's; custom_private says which of them
 * are looked at by column, unless they may raise an error and come behind one that is
 * not.  The node's own qual has the others, from the first block
 * on whose columns are looked at: until then it has all, and a short statement over a
 * small table of changed rows never pays for preparing columns.
 * LsmBitmapScan is the same of the rows that a bitmap tells of.  It runs the bitmap's
 * plan itself, and so knows what comes next, which a table access method is not told
 * before 18.  In a parallel plan, the first process that comes makes the bitmap, and all
 * take runs of its pages (lsm_wantedshare.c).  custom_exprs has the conditions that the bitmap stands for, which are
 * checked where it does not say all: for lossy pages, and for rows of EvalPlanQual.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "executor/executor.h"
#include "lsm_columnscan.h"
#include "lsm_exec.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/ruleutils.h"

/*
 * If fewer than one row in so many is left, values are decoded one by one; those of columns
 * whose values have to be built, if fewer than one in so many.
 */
#define LSM_SPARSE				8
#define LSM_SPARSE_BUILT		2

/* A column that the plan asks for. */
typedef struct LsmScanColumn
{
	AttrNumber	attnum;
	bool		absent;			/* null in all rows of the block */
	Datum	   *values;			/* of the block; NULL: one by one */
	bool	   *isnull;
} LsmScanColumn;

typedef struct LsmScanState
{
	CustomScanState css;		/* must be first */
	LsmColumnScan cscan;
	int			ncolumns;
	LsmScanColumn *columns;
	bool		requalified;	/* qual is another than ExecScan() knows */
	bool		by_row;			/* it was turned around */
	bool		done;
	int			room;			/* of roots */
	LsmTid	   *roots;			/* of the block's rows */
} LsmScanState;

/* ---- begin ---- */

static void
lsm_scannode_columns(LsmScanState *node)
{
	int			attnum = -1;

	node->ncolumns = 0;
	node->columns = palloc0(Max(bms_num_members(node->cscan.columns), 1) *
							sizeof(LsmScanColumn));
	while ((attnum = bms_next_member(node->cscan.columns, attnum)) >= 0)
		node->columns[node->ncolumns++].attnum = attnum;
}

/* Divide the conditions, before the first look at columns. */
static void
lsm_scannode_prepare(LsmColumnScan *cscan)
{
	PlanState  *ps = cscan->ps;
	LsmScanState *node = (LsmScanState *) ps;
	CustomScan *plan = (CustomScan *) ps->plan;
	MemoryContext old = MemoryContextSwitchTo(ps->state->es_query_cxt);
	bool		subplans = ps->subPlan != NIL;
	List	   *batch = NIL;
	List	   *rest = NIL;
	int			number = 0;
	ListCell   *cell;

	foreach(cell, plan->scan.plan.qual)
	{
		if (list_member_int(plan->custom_private, number++) &&
			lsm_columnscan_add(cscan, lfirst(cell), plan->scan.scanrelid, rest != NIL))
			batch = lappend(batch, lfirst(cell));
		else
			rest = lappend(rest, lfirst(cell));
	}
	lsm_columnscan_ask(cscan, (Node *) plan->scan.plan.targetlist, plan->scan.scanrelid);
	lsm_columnscan_ask(cscan, (Node *) rest, plan->scan.scanrelid);
	lsm_scannode_columns(node);
	if (subplans)
	{
		/* the list is of those in use */
		ps->subPlan = NIL;
		ExecAssignScanProjectionInfo(&node->css.ss);
	}
	if (subplans || batch != NIL)
	{
		node->requalified = true;
		ps->qual = ExecInitQual(rest, ps);
		cscan->qual = ExecInitQual(batch, ps);
	}
	MemoryContextSwitchTo(old);
}

static void
lsm_scannode_begin(CustomScanState *css, EState *estate, int eflags)
{
	LsmScanState *node = (LsmScanState *) css;
	PlanState  *ps = &css->ss.ps;
	CustomScan *plan = (CustomScan *) ps->plan;
	bool		subplans = ps->subPlan != NIL;

	lsm_columnscan_init(&node->cscan, ps, css->ss.ss_currentRelation,
						list_length(plan->custom_private));
	node->cscan.one_by_one = true;
	/* the target of CURRENT OF; that of an UPDATE asks for ctid */
	node->cscan.names = !list_member_int(plan->custom_private, LSM_SCAN_NAMELESS);
	if (css->ss.ss_ScanTupleSlot->tts_ops != &LsmSlotOps)
	{
		/* projection and qual were made for another kind of slot */
		ExecInitScanTupleSlot(estate, &css->ss, RelationGetDescr(css->ss.ss_currentRelation),
							  &LsmSlotOps);
		if (!subplans)
		{
			ExecAssignScanProjectionInfo(&css->ss);
			ps->qual = ExecInitQual(plan->scan.plan.qual, ps);
		}
	}
	/* what a subplan has found out must not be lost while the scan runs */
	if (subplans || outerPlan(plan) != NULL)
		lsm_scannode_prepare(&node->cscan);
	else
		node->cscan.prepare = lsm_scannode_prepare;
	if (outerPlan(plan) != NULL)
	{
		outerPlanState(css) = ExecInitNode(outerPlan(plan), estate, eflags);
		lsm_columnscan_ask(&node->cscan, (Node *) plan->custom_exprs, plan->scan.scanrelid);
		lsm_scannode_columns(node);
		node->cscan.wanted_qual = ExecInitQual(plan->custom_exprs, ps);
	}
}

/* ---- rows ---- */

/* Decode what is asked for, where it is not for a few rows. */
static void
lsm_scannode_decode(LsmScanState *node)
{
	LsmColumnScan *cscan = &node->cscan;
	LsmBlock   *block = cscan->batch.block;
	bool		whole = cscan->nselected >= cscan->batch.nrows / LSM_SPARSE;
	bool		build = cscan->nselected >= cscan->batch.nrows / LSM_SPARSE_BUILT;

	if (node->room < cscan->room)
	{
		if (node->roots != NULL)
			pfree(node->roots);
		node->room = cscan->room;
		node->roots = MemoryContextAlloc(node->css.ss.ps.state->es_query_cxt,
										 node->room * sizeof(LsmTid));
	}
	lsm_block_roots(block, node->roots);
	for (int i = 0; i < node->ncolumns && cscan->simple; i++)
	{
		LsmScanColumn *column = &node->columns[i];

		column->absent = column->attnum > lsm_block_natts(block);
		column->values = NULL;
		if (whole && !column->absent && (build || !lsm_block_column_is_built(block, column->attnum)))
			lsm_block_column(block, column->attnum, &column->values, &column->isnull);
	}
}

/* There are no more blocks: free what is made again when it is needed. */
static void
lsm_scannode_rest(LsmScanState *node)
{
	if (node->roots != NULL)
		pfree(node->roots);
	node->roots = NULL;
	node->room = 0;
}

/* The slot gets a row of the block. */
static void
lsm_scannode_store(LsmScanState *node, int row, TupleTableSlot *slot)
{
	LsmBlock   *block = node->cscan.batch.block;
	const LsmScanColumn *end = node->columns + node->ncolumns;
	Datum	   *values;
	bool	   *isnull;

	lsm_slot_begin_columns(slot, node->cscan.rel, node->roots[row]);
	values = slot->tts_values;
	isnull = slot->tts_isnull;
	for (const LsmScanColumn *column = node->columns; column < end; column++)
	{
		int			at = column->attnum - 1;

		if (likely(column->values != NULL))
		{
			values[at] = column->values[row];
			isnull[at] = column->isnull[row];
		}
		else if (column->absent)
			isnull[at] = true;
		else
			values[at] = lsm_block_value_in(block, row, column->attnum, &isnull[at],
											lsm_slot_room(slot) + at * LSM_BLOCK_VALUE_BYTES);
	}
}

/* The next row of the unit; false: there is none. */
static bool
lsm_scannode_next(LsmScanState *node, TupleTableSlot *slot)
{
	LsmColumnScan *cscan = &node->cscan;
	LsmScan		scan = (LsmScan) cscan->scan;

	if (cscan->batch.by_row)
		return lsm_columnscan_fetch(cscan, slot, -1, &scan->current);
	while (cscan->at < cscan->nselected)
	{
		int			row = cscan->selected[cscan->at];

		if (lsm_columnscan_fetch(cscan, slot, row, &scan->current))
			return true;
		cscan->at++;
		scan->current = node->roots[row];
		if (cscan->simple)
		{
			lsm_scannode_store(node, row, slot);
			if (lsm_columnscan_in_bitmap(cscan, slot))
				return true;
		}
		else if (lsm_columnscan_store(cscan, row, node->roots[row], slot))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return lsm_columnscan_fetch(cscan, slot, -1, &scan->current);
}

/* Row by row, in any direction. */
static TupleTableSlot *
lsm_scannode_next_row(LsmScanState *node, ScanDirection direction, TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) node->cscan.scan;

	if (!node->by_row)
	{
		LsmTid		current = node->done ? LSM_INVALID_TID : scan->current;

		lsm_columnscan_stop(&node->cscan);
		scan->current = current;
		scan->started = false;
		node->by_row = true;
	}
	while (lsm_columnscan_getnextslot(&node->cscan, direction, slot))
	{
		if (lsm_columnscan_passes(&node->cscan, slot))
			return slot;
		CHECK_FOR_INTERRUPTS();
	}
	return NULL;
}

static TupleTableSlot *
lsm_scannode_access(ScanState *ss)
{
	LsmScanState *node = (LsmScanState *) ss;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;
	ScanDirection direction = ss->ps.state->es_direction;

	if (node->cscan.batch.scan == NULL && !node->by_row)
	{
		if (outerPlanState(node) != NULL)
			lsm_columnscan_want(&node->cscan, outerPlanState(node));
		lsm_columnscan_start(&node->cscan);
	}
	if (node->by_row || ScanDirectionIsBackward(direction))
		return lsm_scannode_next_row(node, direction, slot);
	while (!node->done && !node->requalified)
	{
		if (lsm_scannode_next(node, slot))
			return slot;
		if (!lsm_columnscan_next_unit(&node->cscan))
		{
			node->done = true;
			lsm_scannode_rest(node);
		}
		else if (node->cscan.nselected > 0)
			lsm_scannode_decode(node);
	}
	return ExecClearTuple(slot);
}

/* A row that EvalPlanQual puts in: does it meet the conditions? */
static bool
lsm_scannode_recheck(ScanState *ss, TupleTableSlot *slot)
{
	LsmScanState *node = (LsmScanState *) ss;
	LsmColumnScan *cscan = &node->cscan;

	ss->ps.ps_ExprContext->ecxt_scantuple = slot;
	if (cscan->wanted_qual != NULL && !ExecQual(cscan->wanted_qual, ss->ps.ps_ExprContext))
		return false;
	return cscan->npredicates == 0 || ExecQual(cscan->qual, ss->ps.ps_ExprContext);
}

/* ---- callbacks ---- */

static TupleTableSlot *
lsm_scannode_exec(CustomScanState *css)
{
	LsmScanState *node = (LsmScanState *) css;
	TupleTableSlot *slot;

	/* where the qual has changed meanwhile, access ended early */
	do
	{
		node->requalified = false;
		slot = ExecScan(&css->ss, lsm_scannode_access, lsm_scannode_recheck);
	} while (node->requalified);
	return slot;
}

static void
lsm_scannode_end(CustomScanState *css)
{
	if (outerPlanState(css) != NULL)
		ExecEndNode(outerPlanState(css));
	lsm_columnscan_end(&((LsmScanState *) css)->cscan);
}

static void
lsm_scannode_rescan(CustomScanState *css)
{
	LsmScanState *node = (LsmScanState *) css;

	lsm_columnscan_rescan(&node->cscan);
	node->by_row = false;
	node->done = false;
	ExecScanReScan(&css->ss);
	if (outerPlanState(css) != NULL && outerPlanState(css)->chgParam == NULL)
		ExecReScan(outerPlanState(css));
}

static Size
lsm_scannode_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return lsm_columnscan_estimate_dsm(css->ss.ss_currentRelation,
									   css->ss.ps.state->es_snapshot, pcxt->nworkers);
}

static void
lsm_scannode_initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	lsm_columnscan_initialize_dsm(&((LsmScanState *) css)->cscan, coordinate, pcxt->nworkers);
}

static void
lsm_scannode_reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	lsm_columnscan_reinitialize_dsm(&((LsmScanState *) css)->cscan, coordinate);
}

static void
lsm_scannode_initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	lsm_columnscan_initialize_worker(&((LsmScanState *) css)->cscan, coordinate);
}

static Size
lsm_scannode_estimate_bitmap_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return lsm_columnscan_estimate_bitmap_dsm(pcxt->nworkers);
}

static void
lsm_scannode_initialize_bitmap_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	lsm_columnscan_initialize_bitmap_dsm(&((LsmScanState *) css)->cscan, coordinate,
										 pcxt->nworkers);
}

static void
lsm_scannode_reinitialize_bitmap_dsm(CustomScanState *css, ParallelContext *pcxt,
									 void *coordinate)
{
	lsm_columnscan_reinitialize_bitmap_dsm(&((LsmScanState *) css)->cscan, coordinate);
}

static void
lsm_scannode_initialize_bitmap_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	lsm_columnscan_initialize_bitmap_worker(&((LsmScanState *) css)->cscan, coordinate);
}

static void
lsm_scannode_shutdown(CustomScanState *css)
{
	lsm_columnscan_shutdown(&((LsmScanState *) css)->cscan);
}

static void
lsm_scannode_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	lsm_columnscan_explain(&((LsmScanState *) css)->cscan, es);
}

/* As the server shows its own node. */
static void
lsm_scannode_explain_bitmap(CustomScanState *css, List *ancestors, ExplainState *es)
{
	LsmScanState *node = (LsmScanState *) css;
	LsmColumnScan *cscan = &node->cscan;
	const LsmScanCounters *counters = &cscan->counters;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	Instrumentation *instrument = css->ss.ps.instrument;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
	Node	   *qual = (Node *) make_ands_explicit(plan->custom_exprs);

	ExplainPropertyText("Recheck Cond", deparse_expression(qual, context, es->verbose, false), es);
	if (es->analyze)
	{
		if (instrument != NULL && (instrument->nfiltered2 > 0 || es->format != EXPLAIN_FORMAT_TEXT))
			ExplainPropertyFloat("Rows Removed by Index Recheck", NULL,
								 instrument->nfiltered2 / Max(instrument->nloops, 1), 0, es);
		lsm_columnscan_count(cscan);
		if (es->format != EXPLAIN_FORMAT_TEXT)
		{
			ExplainPropertyInteger("Exact Heap Blocks", NULL, counters->exact_pages, es);
			ExplainPropertyInteger("Lossy Heap Blocks", NULL, counters->lossy_pages, es);
		}
		else if (counters->exact_pages > 0 || counters->lossy_pages > 0)
		{
			appendStringInfoSpaces(es->str, es->indent * 2);
			appendStringInfoString(es->str, "Heap Blocks:");
			if (counters->exact_pages > 0)
				appendStringInfo(es->str, " exact=" UINT64_FORMAT, counters->exact_pages);
			if (counters->lossy_pages > 0)
				appendStringInfo(es->str, " lossy=" UINT64_FORMAT, counters->lossy_pages);
			appendStringInfoChar(es->str, '\n');
		}
	}
	lsm_columnscan_explain(cscan, es);
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

static const CustomExecMethods lsm_scannode_bitmap_methods;

LsmColumnScan *
lsm_scannode_columnscan(CustomScanState *css)
{
	if (css->methods != &lsm_scannode_methods && css->methods != &lsm_scannode_bitmap_methods)
		return NULL;
	return &((LsmScanState *) css)->cscan;
}

static Node *
lsm_scannode_create(CustomScan *plan)
{
	LsmScanState *node = palloc0(sizeof(LsmScanState));

	NodeSetTag(node, T_CustomScanState);
	lsm_compat_custom_scan_slot(&node->css, &LsmSlotOps);
	node->css.methods = &lsm_scannode_methods;
	return (Node *) node;
}

const CustomScanMethods lsm_scan_methods = {
	.CustomName = "LsmScan",
	.CreateCustomScanState = lsm_scannode_create,
};

static const CustomExecMethods lsm_scannode_bitmap_methods = {
	.CustomName = "LsmBitmapScan",
	.BeginCustomScan = lsm_scannode_begin,
	.ExecCustomScan = lsm_scannode_exec,
	.EndCustomScan = lsm_scannode_end,
	.ReScanCustomScan = lsm_scannode_rescan,
	.EstimateDSMCustomScan = lsm_scannode_estimate_bitmap_dsm,
	.InitializeDSMCustomScan = lsm_scannode_initialize_bitmap_dsm,
	.ReInitializeDSMCustomScan = lsm_scannode_reinitialize_bitmap_dsm,
	.InitializeWorkerCustomScan = lsm_scannode_initialize_bitmap_worker,
	.ShutdownCustomScan = lsm_scannode_shutdown,
	.ExplainCustomScan = lsm_scannode_explain_bitmap,
};

static Node *
lsm_scannode_create_bitmap(CustomScan *plan)
{
	LsmScanState *node = palloc0(sizeof(LsmScanState));

	NodeSetTag(node, T_CustomScanState);
	lsm_compat_custom_scan_slot(&node->css, &LsmSlotOps);
	node->css.methods = &lsm_scannode_bitmap_methods;
	return (Node *) node;
}

const CustomScanMethods lsm_bitmap_scan_methods = {
	.CustomName = "LsmBitmapScan",
	.CreateCustomScanState = lsm_scannode_create_bitmap,
};
