/*-------------------------------------------------------------------------
 *
 * lsm_indexpath.c
 *	  What an index scan costs that reads blocks here and there.
 *
 * The planner takes the rows of an index scan to cost what those of any scan do, plus
 * the pages that they lie on, and of a nested loop it expects that most pages stay in
 * memory.  So they do, as they are stored; but to get at a row of a block that the backend
 * does not have at hand, it has to be copied, opened, and its columns looked for, which
 * costs as much as some dozens of rows of an LsmScan.  Without that, joins looked up by index
 * what a scan of the whole table would have found in a fraction of the time.
 *
 * So blocks are charged: as many as the rows lie in, by the correlation of the index
 * with the order of rows, as for the pages; and the less, the more of the table a backend
 * keeps opened.  How many blocks there are, and what they take when they are opened, the
 * manifest knows; the planner's pages are another thing, for they stand for what a scan
 * has to decode, too.  It is part of what the index says it costs, so bitmap scans are
 * charged by the same measure.
 *
 * Only btrees are looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/table.h"
#include "catalog/pg_am.h"
#include "lsm_am.h"
#include "lsm_exec.h"
#include "lsm_session.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/index_selfuncs.h"

/* What it costs to open a block, of cpu_tuple_cost. */
#define LSM_OPEN_FACTOR			50.0

/*
 * Pages of the planner's that stand for less than these bytes of what a backend keeps are
 * few enough: their blocks take no more when they are opened.
 */
#define LSM_OPENED_BYTES		2.0

static get_relation_info_hook_type previous_get_relation_info;

/* Can a backend keep all blocks of a table opened, for all that pages tell? */
static bool
lsm_indexpath_fits(const RelOptInfo *rel)
{
	return (double) rel->pages * BLCKSZ * LSM_OPENED_BYTES <= lsm_session_blocks_limit();
}

/* Blocks of a table, and the part of them that a backend which reads here and there opens. */
static double
lsm_indexpath_missing(Oid relid, double *blocks)
{
	Relation	relation = table_open(relid, NoLock);	/* the planner has
														 * locked it */
	double		kept = lsm_session_blocks_limit();
	double		opened;

	lsm_estimate_opened(relation, blocks, &opened);
	table_close(relation, NoLock);
	return opened <= kept ? 0 : 1 - kept / opened;
}

/* Blocks that the rows of one scan lie in. */
static double
lsm_indexpath_blocks(const RelOptInfo *rel, double blocks, double rows, double correlation)
{
	double		scattered = blocks * (1 - exp(-rows / blocks));
	double		together = blocks * rows / Max(rel->tuples, 1.0);

	return scattered + correlation * correlation * (together - scattered);
}

/* In the place of btcostestimate(). */
static void
lsm_indexpath_estimate(PlannerInfo *root, IndexPath *path, double loop_count,
					   Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
					   double *correlation, double *pages)
{
	RelOptInfo *rel = path->indexinfo->rel;
	double		rows;
	double		blocks;
	double		missing = lsm_indexpath_missing(planner_rt_fetch(rel->relid, root)->relid, &blocks);

	btcostestimate(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
				   pages);
	rows = *selectivity * rel->tuples;
	if (path->path.pathtype == T_IndexOnlyScan)
		rows *= 1 - rel->allvisfrac;
	if (missing > 0)
		*total_cost += missing * cpu_tuple_cost * LSM_OPEN_FACTOR *
			lsm_indexpath_blocks(rel, Max(blocks, 1), rows, *correlation);
}

static void
lsm_get_relation_info(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	ListCell   *cell;

	if (previous_get_relation_info)
		previous_get_relation_info(root, relid, inhparent, rel);
	if (inhparent || rel->indexlist == NIL || lsm_indexpath_fits(rel) || !lsm_relid_is_lsm(relid))
		return;
	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (index->relam == BTREE_AM_OID)
			index->amcostestimate = lsm_indexpath_estimate;
	}
}

void
lsm_indexpath_install(void)
{
	previous_get_relation_info = get_relation_info_hook;
	get_relation_info_hook = lsm_get_relation_info;
}
