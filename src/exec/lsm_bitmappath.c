/*-------------------------------------------------------------------------
 *
 * lsm_bitmappath.c
 *	  What the server's bitmap scans of our tables cost.
 *
 * The planner takes a bitmap scan to read the more like a sequential scan the more
 * pages it reads: it expects the kernel to read ahead what lies together.  Of our tables
 * each block is asked for by itself, of a file for which the kernel reads nothing
 * ahead, as an index scan asks for it.  So a page costs what it costs there.  Without
 * that, bitmap scans were chosen for ranges of keys that updates have spread over the
 * table, and took a sixth longer than index scans would have.
 *
 * By the time that we are asked, the planner has thrown away index scans that seemed
 * to cost more than their bitmap scan.  They are still there below it, and are
 * offered once more, and so is a sequential scan.  LsmScans are offered after that
 * (lsm_scanpath.c): against a bitmap scan that costs too little they would be thrown
 * away, too.
 *
 * Where requests to a store are to be waited for, there are more bitmap scans to choose
 * from, and index scans cost more (lsm_coldpath.c).
 *
 * Then LsmBitmapScans take the place of all, unless these are switched off
 * (lsm_bitmapscanpath.c).
 *
 * Left alone are scans with parameters, as how often they run is not known here, and
 * those by BRIN, whose rows do lie together.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_am.h"
#include "lsm_am.h"
#include "lsm_exec.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "utils/spccache.h"

static set_rel_pathlist_hook_type previous_set_rel_pathlist;

/*
 * The index scans below a bitmap scan that can take its place: of btrees, as others
 * may be able to do for a bitmap what they cannot do otherwise, and not those below
 * an OR, each of which has only some of the rows.  False: some index is a BRIN.
 */
static bool
lsm_bitmappath_indexes(Path *qual, bool alone, List **indexes)
{
	ListCell   *cell;

	if (IsA(qual, IndexPath))
	{
		IndexOptInfo *index = ((IndexPath *) qual)->indexinfo;

		if (alone && index->relam == BTREE_AM_OID && qual->param_info == NULL)
			*indexes = lappend(*indexes, qual);
		return index->relam != BRIN_AM_OID;
	}
	if (IsA(qual, BitmapAndPath))
	{
		foreach(cell, ((BitmapAndPath *) qual)->bitmapquals)
			if (!lsm_bitmappath_indexes(lfirst(cell), alone, indexes))
			return false;
	}
	else if (IsA(qual, BitmapOrPath))
	{
		foreach(cell, ((BitmapOrPath *) qual)->bitmapquals)
			if (!lsm_bitmappath_indexes(lfirst(cell), false, indexes))
			return false;
	}
	return true;
}

/* What the pages of a bitmap scan cost at random, less what the planner has charged. */
Cost
lsm_bitmappath_rest(PlannerInfo *root, RelOptInfo *rel, const BitmapHeapPath *path)
{
	double		fetched = compute_bitmap_pages(root, rel, path->bitmapqual, 1, NULL, NULL);
	double		random_cost;
	double		sequential_cost;

	if (fetched < 2)
		return 0;
	get_tablespace_page_costs(rel->reltablespace, &random_cost, &sequential_cost);
	return fetched * (random_cost - sequential_cost) * sqrt(fetched / Max(rel->pages, 1.0));
}

/* Is it charged for that? */
bool
lsm_bitmappath_is_charged(const BitmapHeapPath *path)
{
	List	   *indexes = NIL;

	return path->path.param_info == NULL &&
		lsm_bitmappath_indexes(path->bitmapqual, false, &indexes);
}

/* Take bitmap scans out of a list of paths, charge the rest; what is below goes to indexes. */
static List *
lsm_bitmappath_take(PlannerInfo *root, RelOptInfo *rel, List **paths, List **indexes)
{
	List	   *kept = NIL;
	List	   *taken = NIL;
	ListCell   *cell;

	foreach(cell, *paths)
	{
		Path	   *path = lfirst(cell);
		List	   *below = NIL;

		if (!IsA(path, BitmapHeapPath) || path->param_info != NULL ||
			!lsm_bitmappath_indexes(((BitmapHeapPath *) path)->bitmapqual, true, &below))
		{
			kept = lappend(kept, path);
			continue;
		}
		path->total_cost += lsm_bitmappath_rest(root, rel, (BitmapHeapPath *) path);
		*indexes = list_concat_unique_ptr(*indexes, below);
		taken = lappend(taken, path);
	}
	*paths = kept;
	return taken;
}

static bool
lsm_bitmappath_any(List *paths)
{
	ListCell   *cell;

	foreach(cell, paths)
		if (IsA(lfirst(cell), BitmapHeapPath))
		return true;
	return false;
}

static void
lsm_set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	List	   *indexes = NIL;
	List	   *none = NIL;
	List	   *taken;
	ListCell   *cell;
	bool		ours;
	bool		cold;

	if (previous_set_rel_pathlist)
		previous_set_rel_pathlist(root, rel, rti, rte);
	if (rte->rtekind != RTE_RELATION || rte->inh || rel->indexlist == NIL ||
		!lsm_scanpath_is_lsm(rte->relid))
		return;
	ours = lsm_scanpath_applies(rel, rte);
	cold = ours && lsm_coldpath_applies(root, rel);
	if (!cold && !lsm_bitmappath_any(rel->pathlist) && !lsm_bitmappath_any(rel->partial_pathlist))
		return;

	taken = lsm_bitmappath_take(root, rel, &rel->pathlist, &indexes);
	if (cold)
		taken = list_concat(taken, lsm_coldpath_begin(root, rel, indexes));
	foreach(cell, indexes)
		if (!list_member_ptr(rel->pathlist, lfirst(cell)))
		add_path(rel, lfirst(cell));
	if (taken != NIL)
		add_path(rel, create_seqscan_path(root, rel, rel->lateral_relids, 0));
	foreach(cell, taken)
		add_path(rel, ours ? lsm_bitmapscanpath_make(root, rel, lfirst(cell)) : lfirst(cell));
	if (ours)
	{
		lsm_bitmapscanpath_replace_partial(root, rel, taken);
		lsm_bitmapscanpath_replace(root, rel);
		return;
	}

	/* the planner has freed the partial index scans that it did not want */
	taken = lsm_bitmappath_take(root, rel, &rel->partial_pathlist, &none);
	foreach(cell, taken)
		add_partial_path(rel, lfirst(cell));
}

void
lsm_bitmappath_install(void)
{
	previous_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = lsm_set_rel_pathlist;
}
