/*-------------------------------------------------------------------------
 *
 * lsm_bitmapscanpath.c
 *	  When the planner gets an LsmBitmapScan to choose, and what it costs.
 *
 * LsmBitmapScans take the place of all bitmap heap scans of our tables that the server
 * has thought of, of those too that have parameters for the inner side of a join.  There
 * is a parallel one for each that has none, as far as the server would have workers for
 * its pages.
 *
 * THE PLAN
 *	  The server's path is planned as if it were to be run; of that plan the one that
 *	  makes the bitmap becomes ours (outerPlan), what the bitmap stands for goes to
 *	  custom_exprs, and the other conditions are the qual.  Below a parallel one the
 *	  server marks those as shared that are to make their bitmap in memory of the query.
 *
 * COSTS
 *	  What the server's costs.  Where there are many rows in a block, these are found
 *	  as by LsmScan, and the pages of the table are read as a sequential scan reads
 *	  them, several at a time: then what lsm_bitmappath.c has charged is taken off.
 *	  Where there are few, each is looked up as by an index scan, but in the order of
 *	  the table, and of many pages several are on their way at a time, where they have
 *	  to be read: of a table that the block cache can hold, they need not.  What waiting
 *	  for a store costs comes on top (lsm_coldpath.c).  Of parallel ones, processes
 *	  divide the work, and share the pages.
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
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"

/* If fewer rows are fetched of a page, they are fetched one by one. */
#define LSM_MANY_A_PAGE			4.0

/*
 * From so many pages on, it pays that the scan knows what comes next and has several
 * requests on their way: a page that has to be read costs so much of what it costs an index
 * scan.
 */
#define LSM_AHEAD_PAGES			100.0
#define LSM_AHEAD_FACTOR		0.8

/* ---- costs ---- */

/* What it saves that conditions are looked at by column, and rows not made for them. */
static Cost
lsm_bitmapscanpath_saves(PlannerInfo *root, RelOptInfo *rel, ParamPathInfo *param, double tuples)
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
lsm_bitmapscanpath_cost(PlannerInfo *root, RelOptInfo *rel, const BitmapHeapPath *bitmap,
						Path *path)
{
	Cost		index_cost;
	double		tuples;
	double		pages = compute_bitmap_pages(root, rel, bitmap->bitmapqual, 1, &index_cost, &tuples);
	Cost		run = bitmap->path.total_cost - bitmap->path.startup_cost;
	double		own = tuples / lsm_scanpath_divisor(bitmap->path.parallel_workers);
	Cost		saved = 0;

	if (pages > 0 && tuples / pages >= LSM_MANY_A_PAGE)
	{
		saved = Max(lsm_bitmapscanpath_saves(root, rel, bitmap->path.param_info, own), 0);
		if (lsm_bitmappath_is_charged(bitmap))
			saved += lsm_bitmappath_rest(root, rel, bitmap);
	}
	else if (pages >= LSM_AHEAD_PAGES)
		saved = (1 - LSM_AHEAD_FACTOR) * Max(run - own * cpu_tuple_cost, 0) *
			lsm_indexpath_uncached(planner_rt_fetch(rel->relid, root)->relid);
	path->startup_cost = bitmap->path.startup_cost;
	path->total_cost = path->startup_cost + Max(run - saved, run * LSM_FIND_FACTOR) +
		lsm_coldpath_bitmap_cost(root, rel, bitmap, tuples);
	path->rows = bitmap->path.rows;
	lsm_compat_copy_disabled(path, &bitmap->path);
}

/* ---- paths ---- */

/* The server's plan; it may have put a Result on top, as it does on ours. */
static BitmapHeapScan *
lsm_bitmapscanpath_child(List *custom_plans)
{
	Plan	   *plan = linitial(custom_plans);

	while (IsA(plan, Result) && outerPlan(plan) != NULL)
		plan = outerPlan(plan);
	return castNode(BitmapHeapScan, plan);
}

/* May a condition of the plan's be looked at before all others? */
static bool
lsm_bitmapscanpath_may_lead(List *clauses, Node *clause)
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

	/*
	 * with parameters in the place of outer columns it is not found among
	 * them
	 */
	return all;
}

static Plan *
lsm_bitmapscanpath_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
						List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	BitmapHeapScan *child = lsm_bitmapscanpath_child(custom_plans);
	int			number = 0;
	ListCell   *cell;

	foreach(cell, child->scan.plan.qual)
	{
		Node	   *clause = lfirst(cell);

		if (lsm_predicate_make((Expr *) clause, rel->relid) != NULL &&
			lsm_bitmapscanpath_may_lead(clauses, clause))
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

static const CustomPathMethods lsm_bitmapscanpath_methods = {
	.CustomName = "LsmBitmapScan",
	.PlanCustomPath = lsm_bitmapscanpath_plan,
};

/* The one that takes the place of a bitmap heap scan. */
Path *
lsm_bitmapscanpath_make(PlannerInfo *root, RelOptInfo *rel, BitmapHeapPath *bitmap)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = bitmap->path.pathtarget;
	path->path.param_info = bitmap->path.param_info;
	path->path.parallel_aware = bitmap->path.parallel_aware;
	path->path.parallel_safe = bitmap->path.parallel_safe;
	path->path.parallel_workers = bitmap->path.parallel_workers;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(bitmap);
	path->methods = &lsm_bitmapscanpath_methods;
	lsm_bitmapscanpath_cost(root, rel, bitmap, &path->path);
	return &path->path;
}

/* Have them in the place of those of the server's that are offered. */
void
lsm_bitmapscanpath_replace(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *kept = NIL;
	List	   *bitmaps = NIL;
	ListCell   *cell;

	foreach(cell, rel->pathlist)
	{
		if (IsA(lfirst(cell), BitmapHeapPath))
			bitmaps = lappend(bitmaps, lfirst(cell));
		else
			kept = lappend(kept, lfirst(cell));
	}
	rel->pathlist = kept;
	foreach(cell, bitmaps)
		add_path(rel, lsm_bitmapscanpath_make(root, rel, lfirst(cell)));
}

/* ---- parallel ones ---- */

/* What bitmaps stand for that are asked for without parameters, each once. */
static List *
lsm_bitmapscanpath_quals(List *quals, List *paths)
{
	ListCell   *cell;

	foreach(cell, paths)
	{
		Path	   *path = lfirst(cell);

		if (IsA(path, BitmapHeapPath) && path->param_info == NULL)
			quals = list_append_unique_ptr(quals, ((BitmapHeapPath *) path)->bitmapqual);
	}
	return quals;
}

static void
lsm_bitmapscanpath_add_partial(PlannerInfo *root, RelOptInfo *rel, Path *qual)
{
	double		pages = compute_bitmap_pages(root, rel, qual, 1, NULL, NULL);
	int			workers = compute_parallel_worker(rel, pages, -1, max_parallel_workers_per_gather);
	BitmapHeapPath *bitmap;

	if (workers <= 0)
		return;
	bitmap = create_bitmap_heap_path(root, rel, qual, NULL, 1.0, workers);
	if (lsm_bitmappath_is_charged(bitmap))
		bitmap->path.total_cost += lsm_bitmappath_rest(root, rel, bitmap);
	add_partial_path(rel, lsm_bitmapscanpath_make(root, rel, bitmap));
}

/*
 * Have them in the place of the server's, and for bitmap scans that are offered without
 * workers: before these are replaced.  (The server has thrown away what seemed to cost more
 * than its parallel sequential scan.)
 */
void
lsm_bitmapscanpath_replace_partial(PlannerInfo *root, RelOptInfo *rel, List *bitmaps)
{
	List	   *quals = lsm_bitmapscanpath_quals(NIL, rel->partial_pathlist);
	List	   *kept = NIL;
	ListCell   *cell;

	if (!rel->consider_parallel || rel->lateral_relids != NULL)
		return;
	quals = lsm_bitmapscanpath_quals(quals, bitmaps);
	quals = lsm_bitmapscanpath_quals(quals, rel->pathlist);
	foreach(cell, rel->partial_pathlist)
		if (!IsA(lfirst(cell), BitmapHeapPath))
		kept = lappend(kept, lfirst(cell));
	rel->partial_pathlist = kept;
	foreach(cell, quals)
		lsm_bitmapscanpath_add_partial(root, rel, lfirst(cell));
}
