/*-------------------------------------------------------------------------
 *
 * lsm_keyorderpath.c
 *	  When the outer side of a nested loop is brought into the order of the index it looks up.
 *
 * For each nested loop that looks rows up by an index of a table of ours, lsm_lookaheadpath.c
 * offers another one whose outer side is an LsmKeyOrder (lsm_keyorder.c), if
 *	- the index is a btree, and larger than the processor's caches keep;
 *	- its first column is asked to be equal to a column of the outer row;
 *	- several rows are expected, and all of them are wanted: no LIMIT, no cursor.
 *
 * COSTS
 *	  A row is copied, and sorted if there are many; then its look-up finds more in caches.  All
 *	  that depends on how many rows there will be, of which the planner often knows least where
 *	  it matters, as estimates of joins multiply.  So what is charged and what is saved are small
 *	  numbers for each row, the latter larger by a little: such a loop is preferred to the same one
 *	  without it, and hardly to any other plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "lsm_am.h"
#include "lsm_exec.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

bool		lsm_enable_keyorder = true;
int			lsm_debug_keyorder_pages = 1024;

/* Fewer outer rows than these are hardly worth a node. */
#define LSM_KEYORDER_ROWS		32

/* What a row costs, of cpu_tuple_cost, and what it saves. */
#define LSM_KEYORDER_COST		0.5
#define LSM_KEYORDER_SAVED		1.0

/* The condition that an index is asked for its first column with; NULL: none, or not one of equality. */
static OpExpr *
lsm_keyorder_condition(const IndexPath *path)
{
	ListCell   *cell;

	foreach(cell, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);
		OpExpr	   *condition;

		if (clause->indexcol != 0 || list_length(clause->indexquals) != 1)
			continue;
		condition = (OpExpr *) linitial_node(RestrictInfo, clause->indexquals)->clause;
		if (IsA(condition, OpExpr) &&
			get_op_opfamily_strategy(condition->opno, path->indexinfo->opfamily[0]) == BTEqualStrategyNumber)
			return condition;
	}
	return NULL;
}

/* Is it an index of ours that look-ups in any order find little of in caches? */
static bool
lsm_keyorder_is_large(PlannerInfo *root, const Path *path)
{
	const IndexOptInfo *index = ((const IndexPath *) path)->indexinfo;

	return IsA(path, IndexPath) && ((const IndexPath *) path)->indexorderbys == NIL &&
		index->relam == BTREE_AM_OID && index->pages >= (BlockNumber) lsm_debug_keyorder_pages &&
		lsm_scanpath_is_lsm(planner_rt_fetch(path->parent->relid, root)->relid);
}

/* The index that an inner path looks up; of several partitions, the first that counts.  NULL: none. */
static const IndexPath *
lsm_keyorder_index(PlannerInfo *root, const Path *inner)
{
	ListCell   *cell;

	if (lsm_keyorder_is_large(root, inner))
		return (const IndexPath *) inner;
	if (!IsA(inner, AppendPath))
		return NULL;
	foreach(cell, ((const AppendPath *) inner)->subpaths)
	{
		if (lsm_keyorder_is_large(root, lfirst(cell)))
			return lfirst(cell);
	}
	return NULL;
}

static Plan *
lsm_keyorder_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				  List *clauses, List *custom_plans)
{
	CustomScan *scan;
	Plan	   *child = linitial(custom_plans);
	Expr	   *key = linitial(best_path->custom_private);
	TargetEntry *entry = tlist_member(key, child->targetlist);

	if (entry == NULL)
		elog(ERROR, "the outer side of a nested loop does not give the column that is looked up");
	scan = makeNode(CustomScan);
	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->custom_scan_tlist = child->targetlist;
	scan->custom_plans = custom_plans;
	scan->custom_private = lcons_int(entry->resno, list_copy(lsecond(best_path->custom_private)));
	scan->flags = best_path->flags;
	scan->methods = &lsm_keyorder_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods lsm_keyorder_path_methods = {
	.CustomName = "LsmKeyOrder",
	.PlanCustomPath = lsm_keyorder_plan,
};

Path *
lsm_keyorder_path(PlannerInfo *root, Path *outer, const Path *inner, Cost *saved)
{
	const IndexPath *index;
	CustomPath *path;
	OpExpr	   *condition;
	Expr	   *key;
	Oid			left;
	Oid			right;
	Oid			operator;

	*saved = 0;
	if (!lsm_enable_keyorder || outer->param_info != NULL || outer->rows < LSM_KEYORDER_ROWS ||
		root->tuple_fraction > 0 || (index = lsm_keyorder_index(root, inner)) == NULL ||
		(condition = lsm_keyorder_condition(index)) == NULL)
		return NULL;
	key = lsm_lookahead_key(lsecond(condition->args), outer);
	if (key == NULL || !IsA(key, Var))
		return NULL;

	/* by the type that the operator takes: a domain's base, text for varchar */
	op_input_types(condition->opno, &left, &right);
	operator = get_opfamily_member(index->indexinfo->opfamily[0], right, right,
								   BTLessStrategyNumber);
	if (!OidIsValid(operator))
		return NULL;

	path = lsm_path_over(outer, cpu_tuple_cost * LSM_KEYORDER_COST, &lsm_keyorder_path_methods);
	path->custom_private = list_make2(key, list_make2_int((int) operator,
														  (int) index->indexinfo->indexcollations[0]));
	*saved = cpu_tuple_cost * LSM_KEYORDER_SAVED;
	return &path->path;
}

void
lsm_keyorder_install(void)
{
	RegisterCustomScanMethods(&lsm_keyorder_methods);
}
