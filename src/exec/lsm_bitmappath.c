/*-------------------------------------------------------------------------
 *
 * lsm_bitmappath.c
 *	  When the planner gets an LsmBitmapScan to choose, and what it costs.
 *
 * An LsmBitmapScan takes the place of a bitmap heap scan of one of our tables, of
 * those too that have parameters for the inner side of a join; not of parallel ones.
 * It is offered beside each of the server's own, which it beats by its cost.
 *
 * THE PLAN
 *	  The server's path is planned as if it were to be run; of that plan the one that
 *	  makes the bitmap becomes ours (outerPlan), what the bitmap stands for goes to
 *	  custom_exprs, and the other conditions are the qual.
 *
 * COSTS
 *	  What the server's costs, but that rows are found as by LsmScan where there are
 *	  many in a block, and that pages are read ahead, several at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_exec.h"
#include "lsm_predicate.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"

/* If fewer rows are fetched of a page, they are fetched one by one. */
#define LSM_MANY_A_PAGE			4.0

/* What a page costs that is read ahead, of what it costs otherwise. */
#define LSM_AHEAD_FACTOR		0.9

/* ---- costs ---- */

/* What it saves that conditions are looked at by column, and rows not made for them. */
static Cost
lsm_bitmappath_saves(PlannerInfo *root, RelOptInfo *rel, ParamPathInfo *param, double tuples)
{
	List	   *restrictions = rel->baserestrictinfo;
	LsmScanCost cost;
	double		made;

	if (param != NULL)
		restrictions = list_concat_copy(restrictions, param->ppi_clauses);
	lsm_scanpath_conditions(root, rel, restrictions, &cost);
	made = Min(tuples, rel->tuples * cost.passed);
	return tuples * (cpu_tuple_cost * (1 - LSM_FIND_FACTOR) +
					 cost.batch.per_tuple * (1 - LSM_BATCH_FACTOR)) -
		made * cpu_tuple_cost * LSM_MAKE_FACTOR;
}

static void
lsm_bitmappath_cost(PlannerInfo *root, RelOptInfo *rel, const BitmapHeapPath *bitmap, Path *path)
{
	ParamPathInfo *param = bitmap->path.param_info;
	Cost		index_cost;
	double		tuples;
	double		pages = compute_bitmap_pages(root, rel, bitmap->bitmapqual, 1, &index_cost, &tuples);
	Cost		disk;
	Cost		run = bitmap->path.total_cost - bitmap->path.startup_cost;
	Cost		saved = 0;

	if (pages > 0 && tuples / pages >= LSM_MANY_A_PAGE)
		saved = lsm_bitmappath_saves(root, rel, param, tuples);
	disk = Max(run - tuples * cpu_tuple_cost, 0);
	path->startup_cost = bitmap->path.startup_cost;
	path->total_cost = path->startup_cost +
		Max(run - Max(saved, 0) - disk * (1 - LSM_AHEAD_FACTOR), run * LSM_FIND_FACTOR);
	path->rows = bitmap->path.rows;
	lsm_compat_copy_disabled(path, &bitmap->path);
}

/* ---- paths ---- */

/* The server's plan; it may have put a Result on top, as it does on ours. */
static BitmapHeapScan *
lsm_bitmappath_child(List *custom_plans)
{
	Plan	   *plan = linitial(custom_plans);

	while (IsA(plan, Result) && outerPlan(plan) != NULL)
		plan = outerPlan(plan);
	return castNode(BitmapHeapScan, plan);
}

/* May a condition of the plan's be looked at before all others? */
static bool
lsm_bitmappath_may_lead(List *clauses, Node *clause)
{
	Index		level = lsm_scanpath_level(clauses);
	bool		all = true;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);

		if (lsm_scanpath_may_lead(restriction, level) && equal(restriction->clause, clause))
			return true;
		if (restriction->security_level > level)
			all = false;
	}

	/* with parameters in the place of outer columns it is not found among them */
	return all;
}

static Plan *
lsm_bitmappath_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
					List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	BitmapHeapScan *child = lsm_bitmappath_child(custom_plans);
	int			number = 0;
	ListCell   *cell;

	foreach(cell, child->scan.plan.qual)
	{
		Node	   *clause = lfirst(cell);

		if (lsm_predicate_make((Expr *) clause, rel->relid) != NULL &&
			lsm_bitmappath_may_lead(clauses, clause))
			scan->custom_private = lappend_int(scan->custom_private, number);
		number++;
	}
	scan->scan.scanrelid = rel->relid;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = child->scan.plan.qual;
	outerPlan(scan) = outerPlan(child);
	scan->custom_exprs = child->bitmapqualorig;
	scan->flags = best_path->flags;
	scan->methods = &lsm_bitmap_scan_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods lsm_bitmappath_methods = {
	.CustomName = "LsmBitmapScan",
	.PlanCustomPath = lsm_bitmappath_plan,
};

static Path *
lsm_bitmappath_make(PlannerInfo *root, RelOptInfo *rel, const BitmapHeapPath *bitmap)
{
	CustomPath *path = makeNode(CustomPath);
	BitmapHeapPath *copy = makeNode(BitmapHeapPath);

	/* add_path() frees paths that have lost */
	*copy = *bitmap;
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = bitmap->path.pathtarget;
	path->path.param_info = bitmap->path.param_info;
	path->path.parallel_safe = bitmap->path.parallel_safe;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(copy);
	path->methods = &lsm_bitmappath_methods;
	lsm_bitmappath_cost(root, rel, bitmap, &path->path);
	return &path->path;
}

/* Offer one for each bitmap heap scan that the server has thought of. */
void
lsm_bitmappath_add(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *paths = NIL;
	ListCell   *cell;

	foreach(cell, rel->pathlist)
		if (IsA(lfirst(cell), BitmapHeapPath))
		paths = lappend(paths, lsm_bitmappath_make(root, rel, lfirst(cell)));
	foreach(cell, paths)
		add_path(rel, lfirst(cell));
}
