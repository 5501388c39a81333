/*-------------------------------------------------------------------------
 *
 * lsm_aggpath.c
 *	  When the planner gets an LsmAgg to choose, and what it costs.
 *
 * An LsmAgg takes the place of an aggregate over a sequential scan of one of our
 * tables, if it knows all aggregates (lsm_aggregate.c) and columns to group by
 * (lsm_group.c), and if all conditions are looked at by column.  In a parallel plan it
 * makes what the server's own node finishes above a Gather.  Of a partitioned table
 * it does that for each partition which the server aggregates by itself.
 *
 * THE PLAN
 *	  custom_scan_tlist begins with the columns of the table, so that a column has
 *	  its number in the conditions (the plan's qual, for which the server then has
 *	  INDEX_VAR); the aggregates come after them.  The scan tuple is one row of them,
 *	  of which only the aggregates and the columns that rows are grouped by are set.
 *	  After the conditions of the scan, in the order of a sequential scan's, the qual has
 *	  those of HAVING.
 *
 * COSTS
 *	  Those of an LsmScan without its rows, and for each row that is left
 *	  LSM_ADD_FACTOR of an operator for each operation of each aggregate, and
 *	  LSM_GROUP_FACTOR for each column that rows are grouped by.  Where zone maps tell
 *	  all that is asked for, the part of the table that is visible to all costs
 *	  LSM_KNOWN_FACTOR of that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "lsm_aggregate.h"
#include "lsm_exec.h"
#include "lsm_group.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"

/* Of cpu_operator_cost: what adding a value costs, and telling groups apart. */
#define LSM_ADD_FACTOR			0.1
#define LSM_GROUP_FACTOR		0.3

/* Of a block: what looking at its zone costs. */
#define LSM_KNOWN_FACTOR		0.05

/* What a group has in memory besides the states, about. */
#define LSM_GROUP_BYTES			200

/* What a path has in custom_private, by place. */
#define LSM_AGGPATH_INPUT		0
#define LSM_AGGPATH_KEYS		1
#define LSM_AGGPATH_HAVING		2
#define LSM_AGGPATH_PARTIAL		3

typedef struct LsmAggPlanning
{
	PlannerInfo *root;
	RelOptInfo *input;
	RelOptInfo *output;
	GroupPathExtraData *extra;
	List	   *keys;			/* columns */
	List	   *key_exprs;
	bool		known;			/* zone maps may tell all that is asked for */
	LsmScanCost cost;
	double		groups;
} LsmAggPlanning;

static create_upper_paths_hook_type previous_create_upper_paths;

/* ---- what the node can do ---- */

/*
 * The aggregates of expressions; false: there is something that is none of ours.  *known
 * is cleared if zone maps cannot tell all that is asked for.
 */
static bool
lsm_aggpath_aggregates(Node *exprs, Index relid, List *keys, List **aggrefs, bool *known)
{
	List	   *found = pull_var_clause(exprs, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
										PVC_INCLUDE_PLACEHOLDERS);
	LsmAggregates aggregates;
	ListCell   *cell;

	lsm_aggregates_init(&aggregates, list_length(found));
	foreach(cell, found)
	{
		Node	   *node = lfirst(cell);

		if (IsA(node, Aggref) && lsm_aggregates_add(&aggregates, (Aggref *) node, relid))
			*aggrefs = list_append_unique(*aggrefs, node);
		else if (!IsA(node, Var) || ((Var *) node)->varno != (int) relid ||
				 !list_member_int(keys, ((Var *) node)->varattno))
			return false;
	}
	if (keys != NIL || (found != NIL && !lsm_aggregates_may_use_zones(&aggregates)))
		*known = false;
	return true;
}

/* The columns to group by; false: it is not by columns, or not by columns that we can. */
static bool
lsm_aggpath_keys(LsmAggPlanning *planning)
{
	List	   *clauses = planning->root->parse->groupClause;
	PathTarget *target = planning->output->reltarget;
	int			found = 0;
	int			i = 0;
	ListCell   *cell;

	foreach(cell, target->exprs)
	{
		Index		ref = get_pathtarget_sortgroupref(target, i++);
		SortGroupClause *clause = ref == 0 ? NULL : get_sortgroupref_clause_noerr(ref, clauses);
		Var		   *var = lfirst(cell);

		if (clause == NULL)
			continue;
		if (!IsA(var, Var) || var->varno != (int) planning->input->relid ||
			var->varattno <= 0 || !lsm_groups_can(var->vartype, var->varcollid, clause->eqop))
			return false;
		found++;
		planning->keys = list_append_unique_int(planning->keys, var->varattno);
		planning->key_exprs = lappend(planning->key_exprs, var);
	}
	return found == list_length(clauses);
}

static bool
lsm_aggpath_has_pseudoconstant(List *restrictions)
{
	ListCell   *cell;

	foreach(cell, restrictions)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
		return true;
	return false;
}

/* Can all of the query's grouping be done here? */
static bool
lsm_aggpath_applies(LsmAggPlanning *planning)
{
	Query	   *parse = planning->root->parse;
	RelOptInfo *input = planning->input;
	List	   *aggrefs = NIL;

	return parse->groupingSets == NIL && (parse->hasAggs || parse->groupClause != NIL) &&
		(input->reloptkind == RELOPT_BASEREL || input->reloptkind == RELOPT_OTHER_MEMBER_REL) &&
		input->lateral_relids == NULL &&
		lsm_scanpath_applies(input, planner_rt_fetch(input->relid, planning->root)) &&
		!lsm_aggpath_has_pseudoconstant(input->baserestrictinfo) &&
		lsm_aggpath_keys(planning) &&
		lsm_aggpath_aggregates((Node *) planning->output->reltarget->exprs, input->relid,
							   planning->keys, &aggrefs, &planning->known) &&
		lsm_aggpath_aggregates(planning->extra->havingQual, input->relid, planning->keys,
							   &aggrefs, &planning->known);
}

/* ---- plans ---- */

static TargetEntry *
lsm_aggpath_column(Relation rel, Index relid, AttrNumber attnum)
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
lsm_aggpath_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				 List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	RelOptInfo *input = list_nth(best_path->custom_private, LSM_AGGPATH_INPUT);
	List	   *keys = list_nth(best_path->custom_private, LSM_AGGPATH_KEYS);
	List	   *having = list_nth(best_path->custom_private, LSM_AGGPATH_HAVING);
	List	   *conditions =
		extract_actual_clauses(lsm_scanpath_order(root, input->baserestrictinfo), false);
	RangeTblEntry *rte = planner_rt_fetch(input->relid, root);
	Relation	table = table_open(rte->relid, NoLock);
	int			natts = RelationGetNumberOfAttributes(table);
	List	   *aggrefs = NIL;
	bool		known;
	ListCell   *cell;

	for (int i = 1; i <= natts; i++)
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  lsm_aggpath_column(table, input->relid, i));
	table_close(table, NoLock);
	(void) lsm_aggpath_aggregates((Node *) best_path->path.pathtarget->exprs, input->relid, keys,
								  &aggrefs, &known);
	(void) lsm_aggpath_aggregates((Node *) having, input->relid, keys, &aggrefs, &known);
	foreach(cell, aggrefs)
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  makeTargetEntry(lfirst(cell), ++natts, NULL, false));
	scan->scan.scanrelid = input->relid;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = list_concat_copy(conditions, having);
	scan->custom_private = list_make3(makeInteger(list_length(conditions)), keys,
									  list_nth(best_path->custom_private, LSM_AGGPATH_PARTIAL));
	scan->flags = best_path->flags;
	scan->methods = &lsm_agg_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods lsm_aggpath_methods = {
	.CustomName = "LsmAgg",
	.PlanCustomPath = lsm_aggpath_plan,
};

/* ---- costs ---- */

typedef struct LsmAggPathOps
{
	int			aggregates;
	int			operations;
} LsmAggPathOps;

static bool
lsm_aggpath_count_walker(Node *node, LsmAggPathOps *ops)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
		ops->aggregates++;
	if (IsA(node, Aggref) || IsA(node, OpExpr))
		ops->operations++;
	return expression_tree_walker(node, lsm_aggpath_count_walker, ops);
}

/* Is there memory for so many groups? */
static bool
lsm_aggpath_fits(LsmAggPlanning *planning)
{
	LsmAggPathOps ops = {0};

	lsm_aggpath_count_walker((Node *) planning->output->reltarget->exprs, &ops);
	lsm_aggpath_count_walker(planning->extra->havingQual, &ops);
	return planning->keys == NIL ||
		planning->groups * (LSM_GROUP_BYTES + ops.aggregates * sizeof(LsmAggregateState)) <
		get_hash_memory_limit();
}

/* Cost of finding, grouping and adding all rows, divided among processes. */
static Cost
lsm_aggpath_run_cost(LsmAggPlanning *planning, PathTarget *target, int workers)
{
	RelOptInfo *input = planning->input;
	LsmAggPathOps ops = {0};
	double		divisor = Max(workers, 1);
	Cost		disk;
	Cost		cpu = lsm_scanpath_find_cost(input, &planning->cost, &disk);

	lsm_aggpath_count_walker((Node *) target->exprs, &ops);
	cpu += input->tuples * planning->cost.passed * cpu_operator_cost *
		(ops.operations * LSM_ADD_FACTOR + list_length(planning->keys) * LSM_GROUP_FACTOR);
	if (workers > 0 && parallel_leader_participation)
		divisor += Max(1.0 - 0.3 * workers, 0);
	if (planning->known && input->baserestrictinfo == NIL)
	{
		double		read = 1 - input->allvisfrac * (1 - LSM_KNOWN_FACTOR);

		cpu *= read;
		disk *= read;
	}
	return planning->cost.batch.startup + target->cost.startup + cpu / divisor + disk;
}

static CustomPath *
lsm_aggpath_make(LsmAggPlanning *planning, RelOptInfo *rel, int workers)
{
	CustomPath *path = makeNode(CustomPath);
	PathTarget *target = rel->reltarget;
	bool		partial = rel != planning->output;
	List	   *having = partial ? NIL : (List *) planning->extra->havingQual;
	QualCost	having_cost;

	cost_qual_eval(&having_cost, having, planning->root);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = target;
	path->path.parallel_aware = workers > 0;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.parallel_workers = workers;
	path->path.rows = planning->groups;
	path->path.startup_cost = lsm_aggpath_run_cost(planning, target, workers) +
		having_cost.startup;
	path->path.total_cost = path->path.startup_cost + planning->groups *
		(cpu_tuple_cost + target->cost.per_tuple + having_cost.per_tuple);
	if (having != NIL)
		path->path.rows = clamp_row_est(planning->groups *
										clauselist_selectivity(planning->root, having, 0,
															   JOIN_INNER, NULL));
	lsm_compat_disable_path(&path->path,
							enable_seqscan && (planning->keys == NIL || enable_hashagg));
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &lsm_aggpath_methods;
	path->custom_private = list_make4(planning->input, planning->keys, having,
									  makeInteger(partial));
	return path;
}

/* ---- paths ---- */

/* Partial aggregates in several processes, which the server's own node puts together. */
static void
lsm_aggpath_add_parallel(LsmAggPlanning *planning)
{
	PlannerInfo *root = planning->root;
	RelOptInfo *input = planning->input;
	RelOptInfo *partial;
	CustomPath *path;
	Path	   *gather;
	List	   *aggrefs = NIL;
	bool		known;
	double		groups;
	int			workers;

	if (!input->consider_parallel || !planning->output->consider_parallel ||
		input->partial_pathlist == NIL ||
		(planning->extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
		return;
	workers = compute_parallel_worker(input, input->pages, -1, max_parallel_workers_per_gather);
	partial = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, planning->output->relids);
	if (workers == 0 || !partial->consider_parallel || partial->reltarget->exprs == NIL ||
		!lsm_aggpath_aggregates((Node *) partial->reltarget->exprs, input->relid, planning->keys,
								&aggrefs, &known))
		return;
	path = lsm_aggpath_make(planning, partial, workers);
	groups = path->path.rows * (workers + 1);
	gather = (Path *) create_gather_path(root, partial, &path->path, partial->reltarget, NULL,
										 &groups);
	add_path(planning->output, (Path *)
			 create_agg_path(root, planning->output, gather, planning->output->reltarget,
							 planning->keys == NIL ? AGG_PLAIN : AGG_HASHED,
							 AGGSPLIT_FINAL_DESERIAL, lsm_compat_group_clause(root),
							 (List *) planning->extra->havingQual,
							 &planning->extra->agg_final_costs, planning->groups));
}

static void
lsm_create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
					   RelOptInfo *output, void *extra)
{
	LsmAggPlanning planning = {
		.root = root,
		.input = input,
		.output = output,
		.extra = extra,
		.known = true,
		.groups = 1
	};

	if (previous_create_upper_paths)
		previous_create_upper_paths(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || extra == NULL || !lsm_aggpath_applies(&planning))
		return;
	lsm_scanpath_conditions(root, input, input->baserestrictinfo, &planning.cost);
	if (planning.cost.nrest > 0)
		return;
	if (planning.keys != NIL)
		planning.groups = estimate_num_groups(root, planning.key_exprs, input->rows, NULL, NULL);
	if (!lsm_aggpath_fits(&planning))
		return;
	add_path(output, &lsm_aggpath_make(&planning, output, 0)->path);
	lsm_aggpath_add_parallel(&planning);
}

void
lsm_aggpath_install(void)
{
	RegisterCustomScanMethods(&lsm_agg_methods);
	previous_create_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = lsm_create_upper_paths;
}
