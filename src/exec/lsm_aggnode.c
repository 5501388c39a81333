/*-------------------------------------------------------------------------
 *
 * lsm_aggnode.c
 *	  LsmAgg: aggregates over a scan, computed inside it.
 *
 * No row is made of what blocks have; and where only the number of rows or values is asked
 * for, or the best of them, blocks are not even read that all see and that have no
 * changed rows, if zone maps settle the conditions for all of them.  Rows that
 * blocks do not tell all about are added one by one.  What the plan looks like:
 * lsm_aggpath.c.
 *
 * ORDER
 *	  Some results depend on the order of rows (lsm_aggregate.c).  Then a block is added
 *	  in pieces, with its changed rows between them.
 *
 * PASSES
 *	  If there is no memory for all groups, the scan begins anew for those of the lower
 *	  half of hashes, and again for the others, as often as it takes.  The snapshot is
 *	  the same, so each row is met in each pass.  In a parallel plan groups need not
 *	  be complete: there those that are full go to the server's node above, and the scan
 *	  goes on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "lsm_aggregate.h"
#include "lsm_columnscan.h"
#include "lsm_exec.h"
#include "lsm_group.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

typedef struct LsmAggState
{
	CustomScanState css;		/* must be first */
	LsmColumnScan cscan;
	TupleTableSlot *row;		/* rows that are fetched one by one */
	LsmAggregates aggregates;
	LsmGroups	groups;
	ExprState  *having;
	bool		partial;		/* groups need not be complete */
	bool		running;		/* the scan has begun, and has not ended */
	bool		emitting;		/* groups are being given out */
	bool		done;
	uint32		next;			/* group */
	uint64		width;			/* of a pass, in hashes */
	uint64		passes;			/* that were begun */
} LsmAggState;

/* ---- begin ---- */

/* As the server does for its own node. */
static void
lsm_aggnode_check_permission(const Aggref *aggref)
{
	AclResult	result = lsm_compat_function_aclcheck(aggref->aggfnoid);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_AGGREGATE, get_func_name(aggref->aggfnoid));
	InvokeFunctionExecuteHook(aggref->aggfnoid);
}

/* Conditions of the scan, and of HAVING. */
static void
lsm_aggnode_begin_quals(LsmAggState *node)
{
	PlanState  *ps = &node->css.ss.ps;
	CustomScan *plan = (CustomScan *) ps->plan;
	List	   *qual = plan->scan.plan.qual;
	int			nconditions = intVal(list_nth(plan->custom_private, LSM_AGG_CONDITIONS));
	List	   *conditions = list_truncate(list_copy(qual), nconditions);
	ListCell   *cell;

	lsm_columnscan_init(&node->cscan, ps, node->css.ss.ss_currentRelation, nconditions);
	node->cscan.whole = true;
	foreach(cell, conditions)
		if (!lsm_columnscan_add(&node->cscan, lfirst(cell), INDEX_VAR, false))
		elog(ERROR, "a condition of LsmAgg is not one by column");

	/*
	 * conditions and rows have the table's columns, the scan tuple has them
	 * first
	 */
	ps->scanopsfixed = false;
	node->cscan.qual = ExecInitQual(conditions, ps);
	node->having = ExecInitQual(list_copy_tail(qual, nconditions), ps);
	ps->qual = NULL;
}

static void
lsm_aggnode_begin_aggregates(LsmAggState *node)
{
	CustomScan *plan = (CustomScan *) node->css.ss.ps.plan;
	Index		varno = plan->scan.scanrelid;
	ListCell   *cell;

	lsm_aggregates_init(&node->aggregates, list_length(plan->custom_scan_tlist));
	foreach(cell, plan->custom_scan_tlist)
	{
		Aggref	   *aggref = (Aggref *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(aggref, Aggref))
			continue;
		lsm_aggnode_check_permission(aggref);
		if (!lsm_aggregates_add(&node->aggregates, aggref, varno))
			elog(ERROR, "an aggregate of LsmAgg is none of its own");
		lsm_columnscan_ask(&node->cscan, (Node *) aggref->args, varno);
		lsm_columnscan_ask(&node->cscan, (Node *) aggref->aggfilter, varno);
	}
}

static bool
lsm_aggnode_known(void *arg, LsmSegmentReader *reader, uint32 blockno)
{
	LsmAggState *node = arg;

	return lsm_aggregates_known(&node->aggregates, reader, blockno);
}

static void
lsm_aggnode_take(void *arg, LsmSegmentReader *reader, uint32 blockno, uint32 rows)
{
	LsmAggState *node = arg;

	lsm_aggregates_take(&node->aggregates, node->groups.all[0]->states, reader, blockno, rows);
}

static bool
lsm_aggnode_beaten(void *arg, LsmSegmentReader *reader, uint32 blockno)
{
	LsmAggState *node = arg;

	return lsm_aggregates_beaten(&node->aggregates, node->groups.all[0]->states, reader,
								 blockno);
}

/* Without groups, what zone maps tell may be enough. */
static void
lsm_aggnode_use_zones(LsmAggState *node)
{
	LsmColumnScan *cscan = &node->cscan;
	bool		bounds;
	bool		beatable;

	cscan->arg = node;
	if (lsm_aggregates_use_zones(&node->aggregates, &bounds, &beatable))
	{
		cscan->known = lsm_aggnode_known;
		cscan->take = lsm_aggnode_take;
		cscan->zones_asked = bounds || cscan->npredicates > 0;
	}
	if (beatable)
		cscan->beaten = lsm_aggnode_beaten;
}

/* Of rows that are fetched, only columns that are looked at are decoded. */
static void
lsm_aggnode_ask(LsmAggState *node, int natts)
{
	LsmColumnScan *cscan = &node->cscan;
	Bitmapset  *columns = bms_copy(cscan->columns);
	int16	   *asked = palloc((natts + 1) * sizeof(int16));
	int			attnum = -1;
	int			n = 0;

	for (int i = 0; i < cscan->npredicates; i++)
		columns = bms_add_member(columns, cscan->predicates[i]->condition.attnum);
	while ((attnum = bms_next_member(columns, attnum)) >= 0)
		asked[n++] = attnum - 1;
	lsm_slot_ask(node->row, asked, n, false);
	bms_free(columns);
}

static void
lsm_aggnode_begin(CustomScanState *css, EState *estate, int eflags)
{
	LsmAggState *node = (LsmAggState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	TupleDesc	tupdesc = RelationGetDescr(css->ss.ss_currentRelation);
	List	   *keys = list_nth(plan->custom_private, LSM_AGG_KEYS);
	ListCell   *cell;

	lsm_aggnode_begin_quals(node);
	lsm_aggnode_begin_aggregates(node);
	node->row = ExecAllocTableSlot(&estate->es_tupleTable, tupdesc, &LsmSlotOps);
	foreach(cell, keys)
		node->cscan.columns = bms_add_member(node->cscan.columns, lfirst_int(cell));
	lsm_aggnode_ask(node, tupdesc->natts);
	node->cscan.keeps = !node->aggregates.ordered;
	foreach(cell, keys)
		lsm_touch_set(&node->cscan.fixed, lfirst_int(cell));
	lsm_groups_init(&node->groups, tupdesc, keys, &node->aggregates);
	lsm_aggregates_begin(&node->aggregates, &css->ss.ps, tupdesc, node->groups.context);
	node->partial = intVal(list_nth(plan->custom_private, LSM_AGG_PARTIAL));
	if (keys == NIL)
		lsm_aggnode_use_zones(node);
	node->width = node->groups.end_hash;

	/* it is no scan: who looks for a cursor's row (WHERE CURRENT OF) must not take it for one */
	css->ss.ss_currentRelation = NULL;
}

/* ---- adding rows ---- */

/* Add the row in node->row. */
static void
lsm_aggnode_add_row(LsmAggState *node, LsmAggregateState *states, const Bitmapset *only)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	if (states == NULL)
	{
		LsmGroup   *group = lsm_groups_find_row(&node->groups, node->row);

		if (group == NULL)
			return;
		states = group->states;
	}
	econtext->ecxt_scantuple = node->row;
	lsm_aggregates_add_row(&node->aggregates, states, econtext, only);
}

/* Add a range of the block's rows, some aggregates perhaps row by row. */
static void
lsm_aggnode_add_range(LsmAggState *node, LsmAggregateRows *rows)
{
	Bitmapset  *left = lsm_aggregates_add_rows(&node->aggregates, rows);
	Bitmapset  *left_of_kept;

	if (left == NULL)
		return;
	left_of_kept = bms_difference(left, rows->touched);
	for (int i = 0; i < rows->n; i++)
	{
		int			row = rows->selected[i];
		int			group = rows->group == NULL ? 0 : rows->group[row];
		bool		kept = rows->kept != NULL && rows->kept[row];

		if (kept && bms_is_empty(left_of_kept))
			continue;
		if (lsm_columnscan_store(&node->cscan, row, lsm_block_root(rows->block, row), node->row))
			lsm_aggnode_add_row(node, rows->states[group], kept ? left_of_kept : left);
	}
	bms_free(left);
	bms_free(left_of_kept);
}

/*
 * Give changed rows that were kept among the block's to the aggregates that look at what
 * has been touched.
 */
static void
lsm_aggnode_add_kept(LsmAggState *node, const LsmAggregateRows *rows)
{
	LsmColumnScan *cscan = &node->cscan;

	for (int i = 0; i < cscan->nkept && rows->touched != NULL; i++)
	{
		int			row = cscan->kept[i].at;

		/* its group may be another pass's */
		if (!rows->mask[row])
			continue;
		lsm_columnscan_fetch_kept(cscan, i, node->row);
		lsm_aggnode_add_row(node, rows->states[rows->group == NULL ? 0 : rows->group[row]],
							rows->touched);
	}
}

/* Where the block's next changed row is among its rows. */
static int
lsm_aggnode_next_changed(LsmAggState *node)
{
	LsmBatchScan *batch = &node->cscan.batch;

	if (!node->aggregates.ordered || node->cscan.changed_at >= batch->nchanged)
		return batch->nrows;
	return Min(batch->changed[node->cscan.changed_at].row, batch->nrows);
}

/* Add the selected rows of the block, and perhaps changed ones. */
static void
lsm_aggnode_add_block(LsmAggState *node)
{
	LsmColumnScan *cscan = &node->cscan;
	LsmBatchScan *batch = &cscan->batch;
	LsmGroups  *groups = &node->groups;
	LsmAggregateRows rows = {.block = batch->block,.rows = batch->nrows,.mask = batch->mask};
	Bitmapset  *touched = NULL;
	int			n = cscan->nselected;
	int			from = 0;

	if (groups->nkeys > 0)
	{
		n = lsm_groups_map(groups, batch->block, cscan->selected, n, batch->mask);
		if (n < cscan->nselected)
			cscan->nidentical = 0;
		rows.group = groups->group;
		rows.ngroups = groups->nlocal;
		rows.states = groups->states;
	}
	else
	{
		rows.ngroups = 1;
		rows.states = &groups->all[0]->states;
	}
	if (n == 0)
		return;
	rows.selected = cscan->selected;
	rows.n = n;
	if (cscan->nkept > 0)
	{
		rows.touched = touched = lsm_aggregates_touched(&node->aggregates, &batch->touched,
														RelationGetNumberOfAttributes(cscan->rel));
		rows.kept = cscan->kept_mask;
	}
	lsm_aggregates_begin_block(&node->aggregates, &rows);
	for (;;)
	{
		LsmTid		root;

		rows.from = rows.to;
		rows.to = lsm_aggnode_next_changed(node);
		rows.selected = cscan->selected + from;
		rows.n = n - from;
		if (rows.to < batch->nrows)
			for (rows.n = 0; from + rows.n < n && rows.selected[rows.n] < rows.to;)
				rows.n++;
		from += rows.n;
		rows.all = rows.n == rows.to - rows.from;
		if (rows.n > 0)
			lsm_aggnode_add_range(node, &rows);
		if (rows.to == batch->nrows)
			break;
		while (lsm_columnscan_fetch(cscan, node->row, rows.to + 1, &root))
			lsm_aggnode_add_row(node, NULL, NULL);
	}
	lsm_aggnode_add_kept(node, &rows);
	bms_free(touched);
}

/* Add the block's rows one by one, in order with changed ones. */
static void
lsm_aggnode_add_block_by_row(LsmAggState *node)
{
	LsmColumnScan *cscan = &node->cscan;
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	for (int i = 0; i < cscan->nselected; i++)
	{
		int			row = cscan->selected[i];
		LsmTid		root;

		/* what a row takes, its large values among it, is not kept for the next one */
		while (lsm_columnscan_fetch(cscan, node->row, row, &root))
		{
			lsm_aggnode_add_row(node, NULL, NULL);
			ResetExprContext(econtext);
		}
		if (lsm_columnscan_store(cscan, row, lsm_block_root(cscan->batch.block, row), node->row))
			lsm_aggnode_add_row(node, NULL, NULL);
		ResetExprContext(econtext);
	}
}

/* Add the rows of the unit. */
static void
lsm_aggnode_add_unit(LsmAggState *node)
{
	LsmColumnScan *cscan = &node->cscan;
	LsmTid		root;

	if (cscan->nselected > 0 && cscan->simple)
		lsm_aggnode_add_block(node);
	else if (cscan->nselected > 0)
		lsm_aggnode_add_block_by_row(node);
	while (lsm_columnscan_fetch(cscan, node->row, -1, &root))
	{
		lsm_aggnode_add_row(node, NULL, NULL);
		ResetExprContext(node->css.ss.ps.ps_ExprContext);
	}
}

/* ---- passes ---- */

static void
lsm_aggnode_reset_groups(LsmAggState *node)
{
	lsm_groups_reset(&node->groups);
	/* without columns to group by there is a group even if there is no row */
	if (node->groups.nkeys == 0)
		(void) lsm_groups_find_row(&node->groups, node->row);
}

static void
lsm_aggnode_start_scan(LsmAggState *node)
{
	lsm_columnscan_start(&node->cscan);
	lsm_aggregates_start(&node->aggregates, node->css.ss.ps.ps_ExprContext);
	node->running = true;
	node->passes++;
}

/* Begin the next pass, for hashes from first on. */
static void
lsm_aggnode_start_pass(LsmAggState *node, uint64 first)
{
	node->groups.first_hash = first;
	node->groups.end_hash = Min(first + node->width, (uint64) PG_UINT32_MAX + 1);
	lsm_columnscan_rescan(&node->cscan);
	lsm_aggnode_start_scan(node);
	lsm_aggnode_reset_groups(node);
}

/* Add units until there are none, or there is no more memory for groups. */
static void
lsm_aggnode_run(LsmAggState *node)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	MemoryContext caller;

	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	while (node->running)
	{
		node->running = lsm_columnscan_next_unit(&node->cscan);
		if (!node->running)
			break;
		lsm_aggnode_add_unit(node);
		ExecClearTuple(node->row);
		ResetExprContext(econtext);
		if (!lsm_groups_full(&node->groups))
			continue;
		if (node->partial)
			break;
		if (node->width > 1)
		{
			node->width = (node->groups.end_hash - node->groups.first_hash + 1) / 2;
			MemoryContextSwitchTo(caller);
			lsm_aggnode_start_pass(node, node->groups.first_hash);
			MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		}
	}
	MemoryContextSwitchTo(caller);
}

/* Have groups to give out; false: there are no more. */
static bool
lsm_aggnode_next_groups(LsmAggState *node)
{
	if (node->done)
		return false;
	if (node->passes == 0)
	{
		lsm_aggnode_start_scan(node);
		lsm_aggnode_reset_groups(node);
	}
	else if (node->running)
		lsm_aggnode_reset_groups(node);
	else if (node->groups.end_hash <= PG_UINT32_MAX)
		lsm_aggnode_start_pass(node, node->groups.end_hash);
	else
	{
		node->done = true;
		lsm_columnscan_stop(&node->cscan);
		return false;
	}
	lsm_aggnode_run(node);
	node->emitting = true;
	node->next = 0;
	return true;
}

/* ---- results ---- */

/* Make the scan tuple of a group. */
static void
lsm_aggnode_store(LsmAggState *node, LsmGroup *group)
{
	TupleTableSlot *slot = node->css.ss.ss_ScanTupleSlot;
	int			natts = RelationGetNumberOfAttributes(node->cscan.rel);
	MemoryContext caller;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, natts * sizeof(bool));
	for (int i = 0; i < node->groups.nkeys; i++)
	{
		AttrNumber	attnum = node->groups.keys[i].attnum;

		slot->tts_values[attnum - 1] = group->values[i];
		slot->tts_isnull[attnum - 1] = group->isnull[i];
	}
	caller = MemoryContextSwitchTo(node->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	for (int i = 0; i < node->aggregates.nresults; i++)
		slot->tts_values[natts + i] = lsm_aggregates_result(&node->aggregates, group->states, i,
															&slot->tts_isnull[natts + i]);
	MemoryContextSwitchTo(caller);
	ExecStoreVirtualTuple(slot);
}

static TupleTableSlot *
lsm_aggnode_exec(CustomScanState *css)
{
	LsmAggState *node = (LsmAggState *) css;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;

	for (;;)
	{
		if (!node->emitting && !lsm_aggnode_next_groups(node))
			return NULL;
		while (node->next < node->groups.n)
		{
			CHECK_FOR_INTERRUPTS();
			ResetExprContext(econtext);
			lsm_aggnode_store(node, node->groups.all[node->next++]);
			econtext->ecxt_scantuple = css->ss.ss_ScanTupleSlot;
			if (!ExecQual(node->having, econtext))
			{
				InstrCountFiltered1(&css->ss, 1);
				continue;
			}
			if (css->ss.ps.ps_ProjInfo == NULL)
				return css->ss.ss_ScanTupleSlot;
			return ExecProject(css->ss.ps.ps_ProjInfo);
		}
		node->emitting = false;
	}
}

static void
lsm_aggnode_end(CustomScanState *css)
{
	lsm_columnscan_end(&((LsmAggState *) css)->cscan);
}

static void
lsm_aggnode_rescan(CustomScanState *css)
{
	LsmAggState *node = (LsmAggState *) css;

	lsm_columnscan_rescan(&node->cscan);
	node->groups.first_hash = 0;
	node->groups.end_hash = (uint64) PG_UINT32_MAX + 1;
	node->width = node->groups.end_hash;
	node->passes = 0;
	node->running = false;
	node->emitting = false;
	node->done = false;
}

/* ---- parallel plans ---- */

static Size
lsm_aggnode_estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return lsm_columnscan_estimate_dsm(((LsmAggState *) css)->cscan.rel,
									   css->ss.ps.state->es_snapshot, pcxt->nworkers);
}

static void
lsm_aggnode_initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	lsm_columnscan_initialize_dsm(&((LsmAggState *) css)->cscan, coordinate, pcxt->nworkers);
}

static void
lsm_aggnode_reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	lsm_columnscan_reinitialize_dsm(&((LsmAggState *) css)->cscan, coordinate);
}

static void
lsm_aggnode_initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	lsm_columnscan_initialize_worker(&((LsmAggState *) css)->cscan, coordinate);
}

static void
lsm_aggnode_shutdown(CustomScanState *css)
{
	lsm_columnscan_shutdown(&((LsmAggState *) css)->cscan);
}

/* ---- EXPLAIN ---- */

static void
lsm_aggnode_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	LsmAggState *node = (LsmAggState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) plan, ancestors);
	bool		prefix = lsm_compat_explain_relations(es) > 1 || es->verbose;
	List	   *keys = NIL;
	List	   *aggregates = NIL;
	ListCell   *cell;

	foreach(cell, list_nth(plan->custom_private, LSM_AGG_KEYS))
	{
		TargetEntry *entry = list_nth(plan->custom_scan_tlist, lfirst_int(cell) - 1);

		keys = lappend(keys, deparse_expression((Node *) entry->expr, context, prefix, false));
	}
	foreach(cell, plan->custom_scan_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (IsA(entry->expr, Aggref))
			aggregates = lappend(aggregates, deparse_expression((Node *) entry->expr, context,
																prefix, false));
	}
	if (keys != NIL)
		ExplainPropertyList("Group Key", keys, es);
	if (aggregates != NIL)
		ExplainPropertyList("LSM Aggregates", aggregates, es);
	if (es->analyze && node->passes > 1)
		ExplainPropertyInteger("LSM Passes", NULL, node->passes, es);
	lsm_columnscan_explain(&node->cscan, es);
}

static const CustomExecMethods lsm_aggnode_methods = {
	.CustomName = "LsmAgg",
	.BeginCustomScan = lsm_aggnode_begin,
	.ExecCustomScan = lsm_aggnode_exec,
	.EndCustomScan = lsm_aggnode_end,
	.ReScanCustomScan = lsm_aggnode_rescan,
	.EstimateDSMCustomScan = lsm_aggnode_estimate_dsm,
	.InitializeDSMCustomScan = lsm_aggnode_initialize_dsm,
	.ReInitializeDSMCustomScan = lsm_aggnode_reinitialize_dsm,
	.InitializeWorkerCustomScan = lsm_aggnode_initialize_worker,
	.ShutdownCustomScan = lsm_aggnode_shutdown,
	.ExplainCustomScan = lsm_aggnode_explain,
};

static Node *
lsm_aggnode_create(CustomScan *plan)
{
	LsmAggState *node = palloc0(sizeof(LsmAggState));

	NodeSetTag(node, T_CustomScanState);
	node->css.methods = &lsm_aggnode_methods;
	return (Node *) node;
}

const CustomScanMethods lsm_agg_methods = {
	.CustomName = "LsmAgg",
	.CreateCustomScanState = lsm_aggnode_create,
};
