/*-------------------------------------------------------------------------
 *
 * lsm_aggnode.c
 *	  LsmAgg: aggregates over a scan, computed inside it.
 *
 * It takes the place of an aggregate without groups over a sequential scan of one of
 * our tables, if it knows all aggregates (lsm_aggregate.c), and if all conditions
 * are looked at by column.  No row is made of what blocks have; and where only the
 * number of rows is asked for, blocks are not even read that all see and that have
 * no changed rows.
 *
 * THE PLAN
 *	  custom_scan_tlist begins with the columns of the table, so that a column has
 *	  its number in the conditions (the plan's qual, for which the server then has
 *	  INDEX_VAR); the aggregates come after them.  The scan tuple is one row of them,
 *	  of which only the aggregates are set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "lsm_aggregate.h"
#include "lsm_columnscan.h"
#include "lsm_exec.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

/* What adding a value costs, of cpu_operator_cost. */
#define LSM_ADD_FACTOR			0.1

static create_upper_paths_hook_type previous_create_upper_paths;

/* ---------------------------------------------------------------------
 * Planning
 * --------------------------------------------------------------------- */

/* The aggregates of the target; false: there is something that is none of ours. */
static bool
lsm_aggnode_aggregates(PathTarget *target, Index relid, List **aggrefs)
{
	List	   *found = pull_var_clause((Node *) target->exprs,
										PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
										PVC_INCLUDE_PLACEHOLDERS);
	ListCell   *cell;

	*aggrefs = NIL;
	foreach(cell, found)
	{
		if (!IsA(lfirst(cell), Aggref) ||
			lsm_aggregate_make(lfirst_node(Aggref, cell), relid) == NULL)
			return false;
		*aggrefs = list_append_unique(*aggrefs, lfirst(cell));
	}
	return *aggrefs != NIL;
}

static TargetEntry *
lsm_aggnode_column(Relation rel, Index relid, AttrNumber attnum)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	Expr	   *expr;

	if (att->attisdropped)
		expr = (Expr *) makeNullConst(INT4OID, -1, InvalidOid);
	else
		expr = (Expr *) makeVar(relid, attnum, att->atttypid, att->atttypmod, att->attcollation,
								0);
	return makeTargetEntry(expr, attnum, pstrdup(NameStr(att->attname)), false);
}

static Plan *
lsm_aggnode_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				 List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	RelOptInfo *input = linitial(best_path->custom_private);
	RangeTblEntry *rte = planner_rt_fetch(input->relid, root);
	Relation	table = table_open(rte->relid, NoLock);
	int			natts = RelationGetNumberOfAttributes(table);
	List	   *aggrefs;
	ListCell   *cell;

	for (int i = 1; i <= natts; i++)
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  lsm_aggnode_column(table, input->relid, i));
	table_close(table, NoLock);
	(void) lsm_aggnode_aggregates(best_path->path.pathtarget, input->relid, &aggrefs);
	foreach(cell, aggrefs)
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  makeTargetEntry(lfirst(cell), ++natts, NULL, false));
	scan->scan.scanrelid = input->relid;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(input->baserestrictinfo, false);
	scan->flags = best_path->flags;
	scan->methods = &lsm_agg_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods lsm_aggnode_path_methods = {
	.CustomName = "LsmAgg",
	.PlanCustomPath = lsm_aggnode_plan,
};

static bool
lsm_aggnode_has_pseudoconstant(List *restrictions)
{
	ListCell   *cell;

	foreach(cell, restrictions)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
		return true;
	return false;
}

/* Can all of the query's grouping be done here? */
static bool
lsm_aggnode_applies(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output, List **aggrefs)
{
	Query	   *parse = root->parse;

	return parse->groupClause == NIL && parse->groupingSets == NIL && parse->hasAggs &&
		parse->havingQual == NULL && input->reloptkind == RELOPT_BASEREL &&
		input->lateral_relids == NULL &&
		lsm_scanpath_applies(input, planner_rt_fetch(input->relid, root)) &&
		!lsm_aggnode_has_pseudoconstant(input->baserestrictinfo) &&
		lsm_aggnode_aggregates(output->reltarget, input->relid, aggrefs);
}

static void
lsm_create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
					   RelOptInfo *output, void *extra)
{
	CustomPath *path;
	LsmScanCost cost;
	List	   *aggrefs;
	Cost		disk;

	if (previous_create_upper_paths)
		previous_create_upper_paths(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || !lsm_aggnode_applies(root, input, output, &aggrefs))
		return;
	lsm_scanpath_conditions(root, input, input->baserestrictinfo, &cost);
	if (cost.nrest > 0)
		return;

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = output;
	path->path.pathtarget = output->reltarget;
	path->path.rows = 1;
	path->path.startup_cost = cost.batch.startup + output->reltarget->cost.startup +
		lsm_scanpath_find_cost(input, &cost, &disk) +
		input->tuples * cost.passed * list_length(aggrefs) * cpu_operator_cost * LSM_ADD_FACTOR;
	path->path.startup_cost += disk;
	path->path.total_cost = path->path.startup_cost + cpu_tuple_cost +
		output->reltarget->cost.per_tuple;
	lsm_compat_disable_path(&path->path, enable_seqscan);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &lsm_aggnode_path_methods;
	path->custom_private = list_make1(input);
	add_path(output, &path->path);
}

void
lsm_aggnode_install(void)
{
	RegisterCustomScanMethods(&lsm_agg_methods);
	previous_create_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = lsm_create_upper_paths;
}

/* ---------------------------------------------------------------------
 * Running
 * --------------------------------------------------------------------- */

typedef struct LsmAggState
{
	CustomScanState css;		/* must be first */
	LsmColumnScan cscan;
	TupleTableSlot *row;		/* rows that are fetched one by one */
	int			naggregates;
	LsmAggregate **aggregates;
	bool		count_rows;		/* that is all, and of all rows */
	bool		done;
} LsmAggState;

/* As the server does for its own node. */
static void
lsm_aggnode_check_permission(const Aggref *aggref)
{
	AclResult	result = lsm_compat_function_aclcheck(aggref->aggfnoid);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_AGGREGATE, get_func_name(aggref->aggfnoid));
	InvokeFunctionExecuteHook(aggref->aggfnoid);
}

static void
lsm_aggnode_begin(CustomScanState *css, EState *estate, int eflags)
{
	LsmAggState *node = (LsmAggState *) css;
	PlanState  *ps = &css->ss.ps;
	CustomScan *plan = (CustomScan *) ps->plan;
	Relation	rel = css->ss.ss_currentRelation;
	ListCell   *cell;

	lsm_columnscan_init(&node->cscan, ps, rel, list_length(plan->scan.plan.qual));
	foreach(cell, plan->scan.plan.qual)
		if (!lsm_columnscan_add(&node->cscan, lfirst(cell), INDEX_VAR))
		elog(ERROR, "a condition of LsmAgg is not one by column");

	/*
	 * conditions and rows have the table's columns, the scan tuple has them
	 * first
	 */
	ps->scanopsfixed = false;
	node->cscan.qual = ExecInitQual(plan->scan.plan.qual, ps);
	ps->qual = NULL;
	node->row = ExecAllocTableSlot(&estate->es_tupleTable, RelationGetDescr(rel), &LsmSlotOps);

	node->aggregates = palloc(list_length(plan->custom_scan_tlist) * sizeof(LsmAggregate *));
	node->count_rows = node->cscan.npredicates == 0;
	foreach(cell, plan->custom_scan_tlist)
	{
		Expr	   *expr = lfirst_node(TargetEntry, cell)->expr;
		LsmAggregate *aggregate;

		if (!IsA(expr, Aggref))
			continue;
		lsm_aggnode_check_permission((Aggref *) expr);
		aggregate = lsm_aggregate_make((Aggref *) expr, plan->scan.scanrelid);
		if (aggregate == NULL)
			elog(ERROR, "an aggregate of LsmAgg is none of its own");
		node->aggregates[node->naggregates++] = aggregate;
		if (aggregate->kind != LSM_AGG_COUNT_ROWS)
			node->count_rows = false;
		lsm_columnscan_ask(&node->cscan, (Node *) ((Aggref *) expr)->args, plan->scan.scanrelid);
	}
}

/* Add the rows of the unit. */
static void
lsm_aggnode_add_unit(LsmAggState *node)
{
	LsmColumnScan *cscan = &node->cscan;
	LsmBatchScan *batch = &cscan->batch;
	LsmTid		root;

	if (cscan->nselected > 0 && cscan->simple)
	{
		for (int i = 0; i < node->naggregates; i++)
			lsm_aggregate_block(node->aggregates[i], batch->block, batch->mask,
								cscan->nselected);
	}
	else if (cscan->nselected > 0)
	{
		for (int i = 0; i < cscan->nselected; i++)
		{
			int			row = cscan->selected[i];

			if (!lsm_columnscan_store(cscan, row, lsm_block_root(batch->block, row), node->row))
				continue;
			for (int j = 0; j < node->naggregates; j++)
				lsm_aggregate_row(node->aggregates[j], node->row);
		}
	}
	while (lsm_columnscan_fetch(cscan, node->row, -1, &root))
		for (int i = 0; i < node->naggregates; i++)
			lsm_aggregate_row(node->aggregates[i], node->row);
}

static void
lsm_aggnode_run(LsmAggState *node)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	MemoryContext caller;

	lsm_columnscan_start(&node->cscan);
	node->cscan.batch.count_only = node->count_rows;
	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	while (lsm_columnscan_next_unit(&node->cscan))
	{
		lsm_aggnode_add_unit(node);
		ExecClearTuple(node->row);
		ResetExprContext(econtext);
	}
	MemoryContextSwitchTo(caller);
	if (node->count_rows)
		for (int i = 0; i < node->naggregates; i++)
			lsm_aggregate_rows(node->aggregates[i], node->cscan.batch.rows_counted);
}

static TupleTableSlot *
lsm_aggnode_exec(CustomScanState *css)
{
	LsmAggState *node = (LsmAggState *) css;
	TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;
	int			natts = RelationGetNumberOfAttributes(css->ss.ss_currentRelation);
	MemoryContext caller;

	if (node->done)
		return NULL;
	node->done = true;
	lsm_aggnode_run(node);
	lsm_columnscan_stop(&node->cscan);

	ResetExprContext(econtext);
	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, natts * sizeof(bool));
	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (int i = 0; i < node->naggregates; i++)
		slot->tts_values[natts + i] = lsm_aggregate_result(node->aggregates[i],
														   &slot->tts_isnull[natts + i]);
	MemoryContextSwitchTo(caller);
	ExecStoreVirtualTuple(slot);
	if (css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	econtext->ecxt_scantuple = slot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
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
	for (int i = 0; i < node->naggregates; i++)
		lsm_aggregate_reset(node->aggregates[i]);
	node->done = false;
}

static void
lsm_aggnode_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	lsm_columnscan_explain(&((LsmAggState *) css)->cscan, es);
}

static const CustomExecMethods lsm_aggnode_methods = {
	.CustomName = "LsmAgg",
	.BeginCustomScan = lsm_aggnode_begin,
	.ExecCustomScan = lsm_aggnode_exec,
	.EndCustomScan = lsm_aggnode_end,
	.ReScanCustomScan = lsm_aggnode_rescan,
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
