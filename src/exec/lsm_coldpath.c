/*-------------------------------------------------------------------------
 *
 * lsm_coldpath.c
 *	  What it costs to fetch rows of cold segments, by index and by bitmap.
 *
 * A request to a store takes as long as reading many pages.  An index scan makes few at a
 * time, as it does not know how many of its rows will be wanted (lsm_foresee.c); other
 * indexes than btrees do not tell of any but the next.  LsmBitmapScan
 * knows its rows and has many requests on their way (lsm_ahead.c).  So the planner is
 * told of requests, and is offered a bitmap scan wherever it has an index scan: the
 * server has thrown such paths away where pages alone made the difference.
 *
 * Sequential scans read as much at a time as they like, and wait once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/table.h"
#include "catalog/pg_am.h"
#include "lsm_am.h"
#include "lsm_exec.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/spccache.h"

/* What a request takes, in pages read one after another: a store gives so many meanwhile. */
#define LSM_REQUEST_PAGES		200.0

/* Who knows what comes next waits for so many at a time. */
#define LSM_REQUESTS_AT_A_TIME	16.0

/* Blocks of base segments, and how many of them are cold. */
typedef struct LsmColdBlocks
{
	double		all;
	double		cold;
} LsmColdBlocks;

/* False: no block of the table is cold. */
static bool
lsm_coldpath_blocks(PlannerInfo *root, RelOptInfo *rel, LsmColdBlocks *blocks)
{
	Relation	relation = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);

	lsm_estimate_blocks(relation, &blocks->all, &blocks->cold);
	table_close(relation, NoLock);
	return blocks->cold > 0;
}

/* Has the table cold blocks? */
bool
lsm_coldpath_applies(PlannerInfo *root, RelOptInfo *rel)
{
	LsmColdBlocks blocks;

	return lsm_coldpath_blocks(root, rel, &blocks);
}

/*
 * What it costs to wait so many times.  All scans of the table wait once, sequential
 * scans of the server too, which are not charged; so that is left out, unless a scan is
 * repeated for each outer row of a join.
 */
Cost
lsm_coldpath_wait_cost(RelOptInfo *rel, double waits, bool repeated)
{
	double		random_cost;
	double		sequential_cost;

	get_tablespace_page_costs(rel->reltablespace, &random_cost, &sequential_cost);
	return Max(repeated ? waits : waits - 1, 0) * LSM_REQUEST_PAGES * sequential_cost;
}

/* Cold blocks in which so many rows lie that are anywhere. */
static double
lsm_coldpath_scattered(const LsmColdBlocks *blocks, double rows)
{
	return blocks->cold * (1 - exp(-rows / blocks->all));
}

/*
 * How much of the order of the table the rows of an index scan have, which come in one
 * range of keys; 0 if they do not.
 */
static double
lsm_coldpath_order(PlannerInfo *root, RelOptInfo *rel, const IndexPath *path)
{
	int			column = path->indexinfo->indexkeys[0];
	ListCell   *cell;

	foreach(cell, path->indexclauses)
		if (IsA(lfirst_node(IndexClause, cell)->rinfo->clause, ScalarArrayOpExpr))
		return 0;
	return column > 0 ? lsm_scanpath_correlation(root, rel, column) : 0;
}

/* Requests that are waited for, where several are on their way at a time. */
static double
lsm_coldpath_waits(double requests)
{
	return Max(requests / LSM_REQUESTS_AT_A_TIME, Min(requests, 1));
}

/* The part of its rows that a path gives before a LIMIT ends it. */
static double
lsm_coldpath_part(PlannerInfo *root, RelOptInfo *rel, const Path *path)
{
	if (root->limit_tuples <= 0 || root->limit_tuples >= rel->rows ||
		path->param_info != NULL || !bms_equal(root->all_baserels, rel->relids) ||
		!pathkeys_contained_in(root->query_pathkeys, path->pathkeys))
		return 1;
	return root->limit_tuples / rel->rows;
}

/*
 * How often an index scan waits that needs so many blocks that lie anywhere.  Of a btree it is
 * told which rows come next, and asks for as many of them as it has had before, each time.
 */
static double
lsm_coldpath_far_waits(const IndexPath *path, double requests)
{
	double		rounds;

	if (path->path.pathtype != T_IndexScan || path->indexinfo->relam != BTREE_AM_OID)
		return requests;
	rounds = path->path.param_info != NULL ? 0 : log2(requests + 1);
	return Min(requests, rounds + lsm_coldpath_waits(requests));
}

/*
 * How often an index scan waits for a request, when it gives that part of its rows.  Where these
 * come in the order of the table, it reads ahead from the second block on (lsm_walk.c).
 */
static double
lsm_coldpath_index_waits(PlannerInfo *root, RelOptInfo *rel, const LsmColdBlocks *blocks,
						 const IndexPath *path, double part)
{
	double		rows = clamp_row_est(path->indexselectivity * rel->tuples * part);
	double		order = lsm_coldpath_order(root, rel, path);
	double		walked = Max(blocks->cold * path->indexselectivity * part,
							 blocks->cold / blocks->all);
	double		far = lsm_coldpath_far_waits(path, lsm_coldpath_scattered(blocks, rows));
	double		waits;

	walked = Min(walked, 2) + Max(walked - 2, 0) / LSM_REQUESTS_AT_A_TIME;
	waits = (1 - order) * far + order * walked;
	if (path->path.pathtype == T_IndexOnlyScan)
		waits *= 1 - rel->allvisfrac;
	return waits / Max(path->path.parallel_workers, 1);
}

/*
 * Add what an index scan waits for requests.
 *
 * The planner takes of the cost the part of the rows that a LIMIT wants.  Requests do not
 * go by that: the first rows cost one each, the last ones lie in blocks that are there.  So
 * what the part costs is charged, for the planner to divide.
 */
static void
lsm_coldpath_charge(PlannerInfo *root, RelOptInfo *rel, const LsmColdBlocks *blocks,
					IndexPath *path)
{
	double		part = lsm_coldpath_part(root, rel, &path->path);
	double		waits = lsm_coldpath_index_waits(root, rel, blocks, path, part);

	path->path.total_cost +=
		lsm_coldpath_wait_cost(rel, waits, path->path.param_info != NULL) / part;
}

/* How much less a look-up of an inner side costs if those of several outer rows wait together. */
Cost
lsm_coldpath_lookahead_saves(PlannerInfo *root, RelOptInfo *rel, const IndexPath *path)
{
	LsmColdBlocks blocks;
	double		waits;

	if (!lsm_coldpath_blocks(root, rel, &blocks))
		return 0;
	waits = lsm_coldpath_index_waits(root, rel, &blocks, path, 1);
	return lsm_coldpath_wait_cost(rel, waits - waits / LSM_REQUESTS_AT_A_TIME, true);
}

/* The bitmap scan that could take the place of an index scan; NULL: none could. */
static BitmapHeapPath *
lsm_coldpath_bitmap(PlannerInfo *root, RelOptInfo *rel, IndexPath *path)
{
	BitmapHeapPath *bitmap;

	if (path->path.pathtype != T_IndexScan || !path->indexinfo->amhasgetbitmap ||
		path->indexclauses == NIL || path->indexorderbys != NIL)
		return NULL;
	bitmap = create_bitmap_heap_path(root, rel, &path->path, PATH_REQ_OUTER(&path->path), 1.0, 0);
	if (lsm_bitmappath_is_charged(bitmap))
		bitmap->path.total_cost += lsm_bitmappath_rest(root, rel, bitmap);
	return bitmap;
}

/*
 * Charge the index scans that the planner has kept, and those below bitmap scans
 * (indexes).  Returns bitmap scans that could take the place of the former, and takes
 * out those with parameters that there are: all are to be offered when they cost what
 * they cost us.
 */
List *
lsm_coldpath_begin(PlannerInfo *root, RelOptInfo *rel, List *indexes)
{
	List	   *paths = rel->pathlist;
	List	   *bitmaps = NIL;
	LsmColdBlocks blocks;
	ListCell   *cell;

	(void) lsm_coldpath_blocks(root, rel, &blocks);
	foreach(cell, indexes)
		if (!list_member_ptr(paths, lfirst(cell)))
		lsm_coldpath_charge(root, rel, &blocks, lfirst_node(IndexPath, cell));
	rel->pathlist = NIL;
	foreach(cell, paths)
	{
		Path	   *path = lfirst(cell);

		if (IsA(path, BitmapHeapPath))
		{
			bitmaps = lappend(bitmaps, path);
			continue;
		}
		if (IsA(path, IndexPath))
		{
			BitmapHeapPath *bitmap = lsm_coldpath_bitmap(root, rel, (IndexPath *) path);

			if (bitmap != NULL)
				bitmaps = lappend(bitmaps, bitmap);
			lsm_coldpath_charge(root, rel, &blocks, (IndexPath *) path);
		}
		add_path(rel, path);
	}
	foreach(cell, rel->partial_pathlist)
		if (IsA(lfirst(cell), IndexPath))
		lsm_coldpath_charge(root, rel, &blocks, lfirst_node(IndexPath, cell));
	return bitmaps;
}

/* How often an LsmScan waits that reads a part of the blocks, in so many places. */
double
lsm_coldpath_scan_waits(PlannerInfo *root, RelOptInfo *rel, double read, int places)
{
	LsmColdBlocks blocks;

	if (!lsm_coldpath_blocks(root, rel, &blocks))
		return 0;
	return lsm_coldpath_waits(Min(places, blocks.cold * read));
}

/* What an LsmBitmapScan of so many rows waits for requests. */
Cost
lsm_coldpath_bitmap_cost(PlannerInfo *root, RelOptInfo *rel, const BitmapHeapPath *bitmap,
						 double rows)
{
	const Path *qual = bitmap->bitmapqual;
	LsmColdBlocks blocks;
	double		order = 0;
	double		walked = 0;
	double		waits;

	if (!lsm_coldpath_blocks(root, rel, &blocks))
		return 0;
	if (IsA(qual, IndexPath))
	{
		order = lsm_coldpath_order(root, rel, (const IndexPath *) qual);
		walked = blocks.cold * ((const IndexPath *) qual)->indexselectivity;
		walked = Max(walked, blocks.cold / blocks.all);
	}
	waits = order * lsm_coldpath_waits(walked) +
		(1 - order) * lsm_coldpath_waits(lsm_coldpath_scattered(&blocks, rows));
	return lsm_coldpath_wait_cost(rel, waits, bitmap->path.param_info != NULL);
}
