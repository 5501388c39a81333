/*-------------------------------------------------------------------------
 *
 * lsm_lookaheadpath.c
 *	  When the planner gets an LsmLookAhead to choose, and what it costs.
 *
 * A nested loop asks its inner side for the rows of one outer row after the other.  If those
 * are looked up by an index in a table that has segments in a store, each look-up waits for
 * its request.  So for each such loop there is another one whose outer side is an
 * LsmLookAhead over the same path (lsm_lookahead.c).  The loop itself and its inner side are
 * the server's, and not changed: what is looked up ahead are hints.  Wherever the table lies, the
 * outer side may also be brought into the order of the keys (lsm_keyorderpath.c).
 *
 * KEYS
 *	  Values that the index is asked for: columns of the outer row, or expressions without
 *	  any that are no news during the query.  Nothing else, as what is evaluated for rows
 *	  that a LIMIT never comes to must not fail.
 *
 * COSTS
 *	  The index is gone through twice for each outer row, and rows are copied.  Of requests,
 *	  several are waited for together (lsm_coldpath.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_am.h"
#include "lsm_exec.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/subselect.h"
#include "parser/parsetree.h"

bool		lsm_enable_lookahead = true;

/* Of partitions that have the inner rows, so many are looked up at most. */
#define LSM_LOOKAHEAD_INDEXES	32

/* What copying an outer row costs, of cpu_tuple_cost. */
#define LSM_LOOKAHEAD_COPY		0.5

static set_join_pathlist_hook_type previous_set_join_pathlist;

/* What the inner side looks up. */
typedef struct LsmLookups
{
	List	   *indexes;		/* of LsmLookAhead's custom_private */
	List	   *keys;			/* and of its custom_exprs */
	Cost		cost;			/* of going through all of them once */
	Cost		saved;			/* of waiting, by each */
} LsmLookups;

/* ---- keys ---- */

Expr *
lsm_lookahead_key(Expr *key, const Path *outer)
{
	ListCell   *cell;

	if (!contain_var_clause((Node *) key))
		return contain_volatile_functions((Node *) key) || contain_subplans((Node *) key) ?
			NULL : key;
	while (IsA(key, RelabelType))
		key = ((RelabelType *) key)->arg;
	if (!IsA(key, Var))
		return NULL;
	foreach(cell, outer->pathtarget->exprs)
	{
		Var		   *var = lfirst(cell);

		if (IsA(var, Var) && var->varno == ((Var *) key)->varno &&
			var->varattno == ((Var *) key)->varattno && var->varlevelsup == 0)
			return (Expr *) var;
	}
	return NULL;
}

/*
 * A condition of the index as the executor will want it, but for the key: with the index's
 * column on the left.
 */
static OpExpr *
lsm_lookahead_condition(const IndexClause *clause, const OpExpr *condition)
{
	OpExpr	   *result = makeNode(OpExpr);
	Node	   *left = linitial(condition->args);

	*result = *condition;
	result->args = list_make1(makeVar(INDEX_VAR, clause->indexcol + 1, exprType(left),
									  exprTypmod(left), exprCollation(left), 0));
	return result;
}

/* Add the look-ups of an index; false: its keys cannot be told, or it is none of ours. */
static bool
lsm_lookahead_add_index(PlannerInfo *root, const IndexPath *path, const Path *outer,
						LsmLookups *lookups)
{
	RelOptInfo *rel = path->path.parent;
	List	   *conditions = NIL;
	List	   *keys = NIL;
	ListCell   *cell;

	if (path->path.pathtype != T_IndexScan || path->indexclauses == NIL ||
		path->indexorderbys != NIL ||
		!lsm_scanpath_is_lsm(planner_rt_fetch(rel->relid, root)->relid) ||
		!lsm_coldpath_applies(root, rel))
		return false;
	foreach(cell, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);
		ListCell   *other;

		foreach(other, clause->indexquals)
		{
			OpExpr	   *condition = (OpExpr *) lfirst_node(RestrictInfo, other)->clause;
			Expr	   *key;

			if (!IsA(condition, OpExpr))
				return false;
			key = lsm_lookahead_key(lsecond(condition->args), outer);
			if (key == NULL)
				return false;
			conditions = lappend(conditions, lsm_lookahead_condition(clause, condition));
			keys = lappend(keys, key);
		}
	}
	lookups->indexes = lappend(lookups->indexes,
							   list_make3(makeInteger((int) planner_rt_fetch(rel->relid, root)->relid),
										  makeInteger((int) path->indexinfo->indexoid),
										  conditions));
	lookups->keys = list_concat(lookups->keys, keys);
	lookups->cost += path->indextotalcost;
	lookups->saved += lsm_coldpath_lookahead_saves(root, rel, path);
	return true;
}

/* What an inner path looks up; false: nothing that could be looked up ahead. */
static bool
lsm_lookahead_find(PlannerInfo *root, const Path *inner, const Path *outer, LsmLookups *lookups)
{
	ListCell   *cell;

	memset(lookups, 0, sizeof(*lookups));
	if (IsA(inner, IndexPath))
		return lsm_lookahead_add_index(root, (const IndexPath *) inner, outer, lookups);
	if (!IsA(inner, AppendPath) ||
		list_length(((const AppendPath *) inner)->subpaths) > LSM_LOOKAHEAD_INDEXES)
		return false;
	foreach(cell, ((const AppendPath *) inner)->subpaths)
	{
		if (IsA(lfirst(cell), IndexPath))
			(void) lsm_lookahead_add_index(root, lfirst(cell), outer, lookups);
	}
	return lookups->indexes != NIL;
}

/* ---- paths ---- */

static Plan *
lsm_lookahead_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				   List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan	   *child = linitial(custom_plans);

	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->custom_scan_tlist = child->targetlist;
	scan->custom_plans = custom_plans;
	scan->custom_private = linitial(best_path->custom_private);
	scan->custom_exprs = lsecond(best_path->custom_private);
	scan->flags = best_path->flags;
	scan->methods = &lsm_lookahead_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods lsm_lookahead_path_methods = {
	.CustomName = "LsmLookAhead",
	.PlanCustomPath = lsm_lookahead_plan,
};

CustomPath *
lsm_path_over(Path *outer, Cost row_cost, const CustomPathMethods *methods)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = outer->parent;
	path->path.pathtarget = outer->pathtarget;
	path->path.param_info = outer->param_info;
	path->path.parallel_safe = outer->parallel_safe;
	path->path.parallel_workers = outer->parallel_workers;
	path->path.rows = outer->rows;
	path->path.startup_cost = outer->startup_cost;
	path->path.total_cost = outer->total_cost + outer->rows * row_cost;
	lsm_compat_copy_disabled(&path->path, outer);
	path->custom_paths = list_make1(outer);
	path->methods = methods;
	return path;
}

static Path *
lsm_lookahead_make(Path *outer, const LsmLookups *lookups)
{
	CustomPath *path = lsm_path_over(outer, lookups->cost + cpu_tuple_cost * LSM_LOOKAHEAD_COPY,
									 &lsm_lookahead_path_methods);

	path->path.pathkeys = outer->pathkeys;
	path->custom_private = list_make2(lookups->indexes, lookups->keys);
	return &path->path;
}

/* The inner path, of which each time costs less. */
static Path *
lsm_lookahead_inner(const Path *inner, Cost saved)
{
	Size		size = IsA(inner, AppendPath) ? sizeof(AppendPath) : sizeof(IndexPath);
	Path	   *copy = palloc(size);

	memcpy(copy, inner, size);
	copy->total_cost = Max(copy->total_cost - saved, copy->startup_cost);
	return copy;
}

/* What is joined, and how. */
typedef struct LsmLoop
{
	PlannerInfo *root;
	RelOptInfo *joinrel;
	JoinType	jointype;
	JoinPathExtraData *extra;
} LsmLoop;

static Path *
lsm_loop_make(const LsmLoop *loop, Path *outer, Path *inner)
{
	JoinCostWorkspace workspace;

	initial_cost_nestloop(loop->root, &workspace, loop->jointype, outer, inner, loop->extra);
	return (Path *) create_nestloop_path(loop->root, loop->joinrel, loop->jointype, &workspace,
										 loop->extra, outer, inner, loop->extra->restrictlist,
										 build_join_pathkeys(loop->root, loop->joinrel,
															 loop->jointype, outer->pathkeys),
										 NULL);
}

/*
 * A nested loop of an outer path that looks ahead, or if the path is to be brought into the order of
 * the keys, such a one in any case.  NULL: there is none, or it saves nothing.
 */
static Path *
lsm_lookahead_loop(const LsmLoop *loop, Path *outer, const Path *inner, bool order)
{
	LsmLookups	lookups;
	Cost		saved = 0;

	if (order && (outer = lsm_keyorder_path(loop->root, outer, inner, &saved)) == NULL)
		return NULL;
	if (lsm_enable_lookahead && outer->param_info == NULL && outer->rows > 1 &&
		lsm_lookahead_find(loop->root, inner, outer, &lookups) && lookups.saved > lookups.cost)
	{
		outer = lsm_lookahead_make(outer, &lookups);
		saved += lookups.saved;
	}
	return saved > 0 ? lsm_loop_make(loop, outer, lsm_lookahead_inner(inner, saved)) : NULL;
}

/* Offer loops with an inner path, which has columns of the outer side only. */
static void
lsm_lookahead_offer(const LsmLoop *loop, RelOptInfo *outerrel, const Path *inner)
{
	RelOptInfo *joinrel = loop->joinrel;
	bool		partial = joinrel->consider_parallel && inner->parallel_safe &&
		joinrel->lateral_relids == NULL;
	ListCell   *cell;
	Path	   *path;

	for (int order = 0; order <= 1; order++)
	{
		foreach(cell, outerrel->pathlist)
		{
			Path	   *outer = lfirst(cell);

			/* the cheapest, and those that have an order */
			if (outer != outerrel->cheapest_total_path && (order || outer->pathkeys == NIL))
				continue;
			path = lsm_lookahead_loop(loop, outer, inner, order);
			if (path != NULL)
				add_path(joinrel, path);
		}
		foreach(cell, partial ? outerrel->partial_pathlist : NIL)
		{
			path = lsm_lookahead_loop(loop, lfirst(cell), inner, order);
			if (path != NULL)
				add_partial_path(joinrel, path);
		}
	}
}

/* Does a query lock rows, or change any? */
static bool
lsm_lookahead_acts_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		return query->rowMarks != NIL || query->hasModifyingCTE ||
			query_tree_walker(query, lsm_lookahead_acts_walker, context, 0);
	}
	return expression_tree_walker(node, lsm_lookahead_acts_walker, context);
}

/* Does a query, or what it has become, have a subquery that calls what is volatile? */
static bool
lsm_lookahead_subplans_walker(Node *node, PlannerGlobal *glob)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
	{
		PlannerInfo *subroot = list_nth(glob->subroots, ((SubPlan *) node)->plan_id - 1);

		/* what it has had for its own subqueries is the same by now */
		if (contain_volatile_functions((Node *) subroot->parse) ||
			lsm_lookahead_subplans_walker((Node *) subroot->parse, glob))
			return true;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, lsm_lookahead_subplans_walker, glob, 0);
	return expression_tree_walker(node, lsm_lookahead_subplans_walker, glob);
}

/*
 * May rows of the outer side be computed that nobody comes to, as a LIMIT is reached before?  Not if
 * that would lock rows, or call what is volatile.
 */
static bool
lsm_lookahead_may_go_ahead(PlannerInfo *root, const RelOptInfo *outerrel)
{
	int			relid = -1;

	if (contain_volatile_functions((Node *) root->parse->jointree) ||
		contain_volatile_functions((Node *) outerrel->reltarget->exprs) ||
		lsm_lookahead_subplans_walker((Node *) root->parse->jointree, root->glob) ||
		lsm_lookahead_subplans_walker((Node *) outerrel->reltarget->exprs, root->glob))
		return false;
	while ((relid = bms_next_member(outerrel->relids, relid)) >= 0)
	{
		RangeTblEntry *rte = planner_rt_fetch(relid, root);

		if (rte->rtekind == RTE_CTE ||
			lsm_lookahead_acts_walker((Node *) rte->subquery, NULL) ||
			contain_volatile_functions((Node *) rte->subquery) ||
			contain_volatile_functions((Node *) rte->functions) ||
			contain_volatile_functions((Node *) rte->tablefunc) ||
			contain_volatile_functions((Node *) rte->values_lists) ||
			contain_volatile_functions((Node *) rte->securityQuals))
			return false;
	}
	return true;
}

static void
lsm_set_join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
					  RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	LsmLoop		loop = {root, joinrel, jointype, extra};
	ListCell   *cell;
	int			may = -1;		/* not known yet */

	if (previous_set_join_pathlist)
		previous_set_join_pathlist(root, joinrel, outerrel, innerrel, jointype, extra);
	if ((!lsm_enable_lookahead && !lsm_enable_keyorder) || innerrel->rtekind != RTE_RELATION ||
		(innerrel->reloptkind != RELOPT_BASEREL && innerrel->reloptkind != RELOPT_OTHER_MEMBER_REL) ||
		(jointype != JOIN_INNER && jointype != JOIN_LEFT && jointype != JOIN_SEMI &&
		 jointype != JOIN_ANTI) || bms_is_empty(joinrel->relids))
		return;
	foreach(cell, innerrel->pathlist)
	{
		Path	   *inner = lfirst(cell);

		if (inner->param_info == NULL ||
			!bms_is_subset(inner->param_info->ppi_req_outer, outerrel->relids))
			continue;
		if (may < 0)
			may = lsm_lookahead_may_go_ahead(root, outerrel);
		if (may > 0)
			lsm_lookahead_offer(&loop, outerrel, inner);
	}
}

void
lsm_lookahead_install(void)
{
	RegisterCustomScanMethods(&lsm_lookahead_methods);
	previous_set_join_pathlist = set_join_pathlist_hook;
	set_join_pathlist_hook = lsm_set_join_pathlist;
}
