/*-------------------------------------------------------------------------
 *
 * lsm_scanpath.c
 *	  When the planner gets an LsmScan to choose, and what it costs.
 *
 * An LsmScan takes the place of a sequential scan of one of our tables, by itself or
 * in a parallel plan.  It is offered beside the server's own path, which it beats
 * by its cost.
 *
 * COSTS
 *	  What a sequential scan costs, but that a condition which is looked at by
 *	  column costs LSM_BATCH_FACTOR of what it costs for a row, that a row which
 *	  fails there is never made, and that blocks are not read which the zone map
 *	  rules out.  How many these are follows from the correlation of the column with
 *	  the order of rows: with 1, the fraction of the rows that its conditions
 *	  let pass; with 0, none; between these by its square, as for index scans.
 *	  Of a table of few rows none of that is looked at: it would cost a short
 *	  statement more than the scan.
 *
 *	  Where few blocks are read, the scan competes with index scans, and what is not
 *	  read costs too: the look at the zone map of each block, or at the bounds of a segment
 *	  of which no block is read (the better the correlation, the more), the rows of these
 *	  blocks that have changed, each of which is looked up, and the place on disk
 *	  where reading begins.
 *
 * SECURITY
 *	  Conditions are looked at by column before all others, so one of a user's must
 *	  not come before one of a security barrier: only those are taken that are of the
 *	  lowest level there is, or leakproof.
 *
 * ERRORS
 *	  A condition that may raise an error must not come before one that could rule the
 *	  row out: it is looked at by column only if all are that precede it in the qual.
 *	  The executor sees to that; here it is known for the costs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "lsm_am.h"
#include "lsm_exec.h"
#include "lsm_predicate.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"
#include "utils/syscache.h"

/*
 * What passing over a page costs, of cpu_tuple_cost: by the zone map of its block, and by
 * bounds of its segment; and what looking a row up costs.
 */
#define LSM_SKIP_FACTOR			2.0
#define LSM_PASS_FACTOR			0.2
#define LSM_LOOK_UP_FACTOR		5.0

/* A table of so few rows is small. */
#define LSM_SMALL_TABLE			1000

/* What a range of rows reads more than its own pages: zones are as long, about. */
#define LSM_ZONE_PAGES			4.0

/* Paths that cost as much more are taken to cost the same (STD_FUZZ_FACTOR). */
#define LSM_FUZZ				1.01

/* A segment has so many pages, about: its zones are asked, whatever its bounds are. */
#define LSM_SEGMENT_PAGES		2048.0

bool		lsm_enable_lsmscan = true;

static set_rel_pathlist_hook_type previous_set_rel_pathlist;

/* ---- conditions ---- */

/* The lowest level of security among restrictions. */
Index
lsm_scanpath_level(List *restrictions)
{
	Index		level = PG_UINT32_MAX;
	ListCell   *cell;

	foreach(cell, restrictions)
		level = Min(level, lfirst_node(RestrictInfo, cell)->security_level);
	return level;
}

/* May a restriction be looked at before all others? */
bool
lsm_scanpath_may_lead(RestrictInfo *restriction, Index level)
{
	return !restriction->pseudoconstant &&
		(restriction->security_level <= level || restriction->leakproof);
}

/* Does the server's planner put a restriction before another one, however they are listed? */
static bool
lsm_scanpath_precedes(PlannerInfo *root, RestrictInfo *a, RestrictInfo *b)
{
	RestrictInfo *both[2] = {a, b};
	Index		levels[2];
	QualCost	costs[2];

	for (int i = 0; i < 2; i++)
	{
		cost_qual_eval_node(&costs[i], (Node *) both[i], root);
		levels[i] = both[i]->security_level;
		/* one that is leakproof may come early, unless it costs a lot */
		if (both[i]->leakproof && costs[i].per_tuple < 10 * cpu_operator_cost)
			levels[i] = 0;
	}
	return levels[0] < levels[1] ||
		(levels[0] == levels[1] && costs[0].per_tuple < costs[1].per_tuple);
}

/* Restrictions in the order in which a scan's qual has them (see order_qual_clauses()). */
List *
lsm_scanpath_order(PlannerInfo *root, List *restrictions)
{
	List	   *ordered = NIL;
	ListCell   *cell;

	foreach(cell, restrictions)
	{
		int			at = list_length(ordered);

		while (at > 0 && lsm_scanpath_precedes(root, lfirst(cell), list_nth(ordered, at - 1)))
			at--;
		ordered = list_insert_nth(ordered, at, lfirst(cell));
	}
	return ordered;
}

static bool
lsm_scanpath_is_current_of(List *restrictions)
{
	ListCell   *cell;

	foreach(cell, restrictions)
		if (IsA(lfirst_node(RestrictInfo, cell)->clause, CurrentOfExpr))
		return true;
	return false;
}

/*
 * May the rows of a scan be the current ones of a cursor?  The server looks for its node
 * below nodes that leave rows as they are (search_plan_tree() in execCurrent.c), never below
 * a join, an aggregation or a grouping.
 */
static bool
lsm_scanpath_is_current(PlannerInfo *root)
{
	const Query *query = root->parse;

	return !query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL &&
		bms_membership(root->all_baserels) != BMS_MULTIPLE;
}

/* ---- costs ---- */

/* The square of the correlation of a column with the order of rows; 0: not known. */
double
lsm_scanpath_correlation(PlannerInfo *root, RelOptInfo *rel, AttrNumber attnum)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(rte->relid),
										Int16GetDatum(attnum), BoolGetDatum(false));
	AttStatsSlot slot;
	double		square = 0;

	if (!HeapTupleIsValid(tuple))
		return 0;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		if (slot.nnumbers == 1)
			square = (double) slot.numbers[0] * slot.numbers[0];
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return square;
}

/*
 * Pages of the row log are read, and rows that have changed are looked up, whatever
 * the zone maps say.
 */
static void
lsm_scanpath_without_zones(Oid relid, double npages, LsmScanCost *cost)
{
	Relation	relation = table_open(relid, NoLock);	/* the planner has
														 * locked it */
	double		logged = Min(lsm_estimate_log_pages(relation) / Max(npages, 1.0), 1);

	cost->changed = (1 - cost->read) * lsm_estimate_changed(relation);
	cost->whole *= 1 - lsm_estimate_overlap(relation);
	cost->read = logged + (1 - logged) * cost->read;
	table_close(relation, NoLock);
}

/*
 * In how many places of the table the rows may lie that meet conditions of one column:
 * each value of a list has its own.
 */
static int
lsm_scanpath_places(PlannerInfo *root, List *restrictions)
{
	int			places = 1;
	ListCell   *cell;

	foreach(cell, restrictions)
	{
		Expr	   *clause = lfirst_node(RestrictInfo, cell)->clause;

		if (IsA(clause, ScalarArrayOpExpr))
			places = Max(places, (int)
						 lsm_compat_array_length(root, lsecond(((ScalarArrayOpExpr *) clause)->args)));
	}
	return places;
}

/*
 * Conditions of one column are taken together, for a range between two bounds has
 * two of them.
 */
static void
lsm_scanpath_zones(PlannerInfo *root, RelOptInfo *rel, List **columns, LsmScanCost *cost)
{
	int			best_places = 1;

	for (int i = 0; i < rel->max_attr; i++)
	{
		double		square;
		double		fraction;
		double		read;
		int			places;

		if (columns[i] == NIL)
			continue;
		square = lsm_scanpath_correlation(root, rel, i + 1);
		if (square == 0)
			continue;
		fraction = clauselist_selectivity(root, columns[i], rel->relid, JOIN_INNER, NULL);
		places = lsm_scanpath_places(root, columns[i]);
		fraction = Min(fraction + places * LSM_ZONE_PAGES / Max(rel->pages, 1.0), 1);
		read = square * fraction + (1 - square);
		if (read >= cost->read)
			continue;
		cost->read = read;
		cost->whole = square * Max(1 - places * LSM_SEGMENT_PAGES / Max(rel->pages, 1.0), 0);
		best_places = places;
	}
	cost->waits = lsm_coldpath_scan_waits(root, rel, cost->read, best_places);
	if (cost->read < 1)
		lsm_scanpath_without_zones(planner_rt_fetch(rel->relid, root)->relid, rel->pages, cost);
}

void
lsm_scanpath_conditions(PlannerInfo *root, RelOptInfo *rel, List *restrictions, LsmScanCost *cost)
{
	Index		level = lsm_scanpath_level(restrictions);
	List	  **columns = palloc0(Max(rel->max_attr, 1) * sizeof(List *));
	bool		behind = false;
	ListCell   *cell;

	memset(cost, 0, sizeof(*cost));
	cost->read = 1;
	foreach(cell, lsm_scanpath_order(root, restrictions))
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
		LsmPredicate *predicate = NULL;
		QualCost	one;

		if (lsm_scanpath_may_lead(restriction, level))
			predicate = lsm_predicate_make(restriction->clause, rel->relid);
		cost_qual_eval_node(&one, (Node *) restriction, root);
		if (predicate == NULL || (behind && predicate->may_fail))
		{
			behind |= !restriction->pseudoconstant;
			cost->rest.startup += one.startup;
			cost->rest.per_tuple += one.per_tuple;
			cost->nrest++;
			continue;
		}
		cost->batch.startup += one.startup;
		cost->batch.per_tuple += one.per_tuple;
		cost->by_column = lappend(cost->by_column, restriction);
		if (predicate->zones && predicate->condition.attnum <= rel->max_attr)
			columns[predicate->condition.attnum - 1] =
				lappend(columns[predicate->condition.attnum - 1], restriction);
	}
	cost->passed = clauselist_selectivity(root, cost->by_column, rel->relid, JOIN_INNER, NULL);
	lsm_scanpath_zones(root, rel, columns, cost);
}

/* The same of a small table: the executor finds out which are looked at by column. */
static void
lsm_scanpath_conditions_small(PlannerInfo *root, RelOptInfo *rel, LsmScanCost *cost)
{
	Index		level = lsm_scanpath_level(rel->baserestrictinfo);
	ListCell   *cell;

	memset(cost, 0, sizeof(*cost));
	cost->read = 1;
	cost->passed = 1;
	cost->rest = rel->baserestrictcost;
	cost->waits = lsm_coldpath_scan_waits(root, rel, 1, 1);
	foreach(cell, rel->baserestrictinfo)
		if (lsm_scanpath_may_lead(lfirst(cell), level))
		cost->by_column = lappend(cost->by_column, lfirst(cell));
}

/* What it costs to find the rows that meet the conditions by column. */
Cost
lsm_scanpath_find_cost(RelOptInfo *rel, const LsmScanCost *cost, Cost *disk)
{
	double		page_cost;
	double		first_cost;

	get_tablespace_page_costs(rel->reltablespace, &first_cost, &page_cost);
	*disk = page_cost * rel->pages * cost->read;
	if (cost->read < 1)
		*disk += Max(first_cost - page_cost, 0);
	*disk += lsm_coldpath_wait_cost(rel, cost->waits, false);
	return rel->pages * (1 - cost->read) * cpu_tuple_cost *
		(LSM_PASS_FACTOR * cost->whole + LSM_SKIP_FACTOR * (1 - cost->whole)) +
		cost->changed * cpu_tuple_cost * LSM_LOOK_UP_FACTOR +
		rel->pages * cpu_operator_cost +	/* zone maps */
		rel->tuples * cost->read * (cpu_tuple_cost * LSM_FIND_FACTOR +
									cost->batch.per_tuple * LSM_BATCH_FACTOR);
}

/* Among how many processes work is divided: the leader's part is as the server has it. */
double
lsm_scanpath_divisor(int workers)
{
	double		divisor = workers;

	if (workers > 0 && parallel_leader_participation)
		divisor += Max(1.0 - 0.3 * workers, 0);
	return Max(divisor, 1);
}

static void
lsm_scanpath_cost(CustomPath *cpath, PlannerInfo *root, RelOptInfo *rel, const LsmScanCost *cost)
{
	Path	   *path = &cpath->path;
	Cost		disk;
	Cost		cpu = lsm_scanpath_find_cost(rel, cost, &disk);

	path->rows = path->param_info != NULL ? path->param_info->ppi_rows : rel->rows;
	if (path->param_info != NULL)
		disk += lsm_coldpath_wait_cost(rel, cost->waits, true) -
			lsm_coldpath_wait_cost(rel, cost->waits, false);
	path->startup_cost = cost->batch.startup + cost->rest.startup + path->pathtarget->cost.startup;
	cpu += rel->tuples * cost->passed * (cpu_tuple_cost * LSM_MAKE_FACTOR + cost->rest.per_tuple) +
		path->rows * path->pathtarget->cost.per_tuple;
	if (path->parallel_workers > 0)
	{
		double		divisor = lsm_scanpath_divisor(path->parallel_workers);

		cpu /= divisor;
		path->rows = clamp_row_est(path->rows / divisor);
	}
	path->total_cost = path->startup_cost + cpu + disk;
	lsm_compat_disable_path(path, enable_seqscan);
}

/* ---- paths ---- */

static Plan *
lsm_scanpath_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				  List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *batch = NIL;
	int			number = 0;
	ListCell   *cell;

	/* conditions by their number in the plan's qual */
	foreach(cell, clauses)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);

		if (restriction->pseudoconstant)
			continue;
		if (list_member_ptr(best_path->custom_private, restriction))
			batch = lappend_int(batch, number);
		number++;
	}
	scan->scan.scanrelid = rel->relid;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	scan->flags = best_path->flags;
	if (!lsm_scanpath_is_current(root))
		batch = lappend_int(batch, LSM_SCAN_NAMELESS);
	scan->custom_private = batch;
	scan->methods = &lsm_scan_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods lsm_scanpath_methods = {
	.CustomName = "LsmScan",
	.PlanCustomPath = lsm_scanpath_plan,
};

CustomPath *
lsm_scanpath_make(PlannerInfo *root, RelOptInfo *rel, const LsmScanCost *cost,
				  Relids required_outer, int workers)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.param_info = get_baserel_parampathinfo(root, rel, required_outer);
	path->path.parallel_aware = workers > 0;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.parallel_workers = workers;
	path->flags = CUSTOMPATH_SUPPORT_BACKWARD_SCAN | CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = cost->by_column;
	path->methods = &lsm_scanpath_methods;
	lsm_scanpath_cost(path, root, rel, cost);
	return path;
}

/* The planner has the relation locked; its entry of the relcache tells most cheaply. */
bool
lsm_scanpath_is_lsm(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	bool		result = lsm_relation_is_lsm(rel);

	table_close(rel, NoLock);
	return result;
}

/* Is it a table of ours, to be scanned by itself? */
bool
lsm_scanpath_applies(RelOptInfo *rel, RangeTblEntry *rte)
{
	return lsm_enable_lsmscan &&
		(rel->reloptkind == RELOPT_BASEREL || rel->reloptkind == RELOPT_OTHER_MEMBER_REL) &&
		rte->rtekind == RTE_RELATION && !rte->inh && rte->tablesample == NULL &&
		(rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW) &&
		!IS_DUMMY_REL(rel) && lsm_scanpath_is_lsm(rte->relid) &&
		!lsm_scanpath_is_current_of(rel->baserestrictinfo);
}

/*
 * Is there a path that costs less than looking at the zone maps of all pages, which is the least
 * of what a scan costs?  Then there is no need to find out the rest: most look-ups of single
 * rows end here, at a tenth of what it costs to plan them.
 */
static bool
lsm_scanpath_is_beaten(PlannerInfo *root, RelOptInfo *rel)
{
	double		least = rel->pages * cpu_operator_cost / LSM_FUZZ;
	double		divisor = lsm_scanpath_divisor(max_parallel_workers_per_gather);
	ListCell   *cell;

	if (rel->consider_startup)
		return false;
	foreach(cell, rel->pathlist)
	{
		const Path *path = lfirst(cell);

		if (path->param_info == NULL && path->total_cost < least &&
			!lsm_compat_path_disabled(path) &&
			(!rel->consider_parallel || path->total_cost < parallel_setup_cost + least / divisor))
			return !lsm_coldpath_applies(root, rel);	/* there waiting decides */
	}
	return false;
}

static void
lsm_set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	LsmScanCost cost;

	if (previous_set_rel_pathlist)
		previous_set_rel_pathlist(root, rel, rti, rte);
	if (!lsm_scanpath_applies(rel, rte))
		return;
	if (lsm_scanpath_is_beaten(root, rel))
	{
		if (rel->tuples > LSM_SMALL_TABLE)
			lsm_parampath_add(root, rel);
		return;
	}
	if (rel->tuples <= LSM_SMALL_TABLE)
		lsm_scanpath_conditions_small(root, rel, &cost);
	else
		lsm_scanpath_conditions(root, rel, rel->baserestrictinfo, &cost);
	add_path(rel, &lsm_scanpath_make(root, rel, &cost, rel->lateral_relids, 0)->path);
	if (rel->tuples > LSM_SMALL_TABLE)
		lsm_parampath_add(root, rel);
	if (rel->consider_parallel && rel->lateral_relids == NULL)
	{
		int			workers = compute_parallel_worker(rel, rel->pages, -1,
													  max_parallel_workers_per_gather);

		if (workers > 0)
			add_partial_path(rel, &lsm_scanpath_make(root, rel, &cost, NULL, workers)->path);
	}
}

void
lsm_scanpath_install(void)
{
	RegisterCustomScanMethods(&lsm_scan_methods);
	RegisterCustomScanMethods(&lsm_bitmap_scan_methods);
	previous_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = lsm_set_rel_pathlist;
}
