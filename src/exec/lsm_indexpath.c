/*-------------------------------------------------------------------------
 *
 * lsm_indexpath.c
 *	  What an index scan costs that reads blocks here and there, and what it may order by.
 *
 * The planner takes the rows of an index scan to cost what those of any scan do, plus
 * the pages that they lie on, and of a nested loop it expects that most pages stay in
 * memory.  So they do; but rows that follow each other in a block are read in a stream,
 * and to go from a block to another one, here and there, is to wait for memory a dozen
 * times.  If the backend does not have the other one at hand, it has to be opened
 * as well, and its columns looked for.  Either takes as long as some dozens of rows of an
 * LsmScan.  Without that, joins looked up by index what a scan of the whole table would have
 * found in a fraction of the time.
 *
 * So blocks are charged: as many as the rows of one scan lie in, and for a scan of all rows in
 * the order of an index each time that it goes to another one, by the correlation of the
 * index with the order of rows, as for the pages.  To go there costs the less, the more
 * of the table the processor's caches keep; to open it, the more of the table a backend
 * keeps opened.  How many blocks there are, and what they take when they are opened, the
 * manifest knows; the planner's pages are another thing, for they stand for what a scan
 * has to decode, too.  It is part of what the index says it costs, so bitmap scans are
 * charged by the same measure.
 *
 * Only btrees are looked at.
 *
 * A scan in the order of distances that the index knows about only (GiST, of circles say) keeps
 * rows back until their turn comes, as heap tuples.  The server puts these into the slot
 * again without their names (of heap tables, too), and into one that is not heap's by their
 * columns alone.  Where these may be wanted, no index is asked for such an order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "lsm_am.h"
#include "lsm_exec.h"
#include "lsm_session.h"
#include "lsm_sharedcache.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/index_selfuncs.h"

/* What it costs to go to another block, and to open one, of cpu_tuple_cost. */
#define LSM_GO_FACTOR			25.0
#define LSM_OPEN_FACTOR			50.0

/* What the processor's caches may keep of a table's opened blocks. */
#define LSM_NEAR_BYTES			((Size) 32 * 1024 * 1024)

/* What of the block cache may have rows of blocks that are read row by row, at most. */
#define LSM_ROWS_SHARE			0.75

/*
 * Pages of the planner's that stand for less than these bytes of what a backend keeps are
 * few enough: their blocks take no more when they are opened.
 */
#define LSM_OPENED_BYTES		2.0

static get_relation_info_hook_type previous_get_relation_info;

/* Are all blocks of a table kept, here and by the processor's caches, for all that pages tell? */
static bool
lsm_indexpath_is_near(const RelOptInfo *rel)
{
	return (double) rel->pages * BLCKSZ * LSM_OPENED_BYTES <=
		Min(LSM_NEAR_BYTES, lsm_session_blocks_limit());
}

/* The part of so many bytes, read here and there, that is not among those that are kept. */
static double
lsm_indexpath_missing(double bytes, double kept)
{
	return bytes <= kept ? 0 : 1 - kept / bytes;
}

/* What a block of a table costs that is read here and there; how many there are. */
static Cost
lsm_indexpath_block_cost(Oid relid, double *blocks)
{
	Relation	relation = table_open(relid, NoLock);	/* the planner has
														 * locked it */
	double		opened;

	lsm_estimate_opened(relation, blocks, &opened);
	table_close(relation, NoLock);
	return cpu_tuple_cost *
		(LSM_GO_FACTOR * lsm_indexpath_missing(opened, LSM_NEAR_BYTES) +
		 LSM_OPEN_FACTOR * lsm_indexpath_missing(opened, lsm_session_blocks_limit()));
}

double
lsm_indexpath_uncached(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);	/* as above */
	double		blocks;
	double		opened;

	lsm_estimate_opened(relation, &blocks, &opened);
	table_close(relation, NoLock);
	return lsm_indexpath_missing(opened, lsm_block_cache_size * 1024.0 * LSM_ROWS_SHARE);
}

/*
 * How many times one scan goes to another block.  A scan with conditions may be a bitmap
 * scan's, which goes to each block once; the rows of one that has none come in the order of the
 * index.
 */
static double
lsm_indexpath_blocks(const IndexPath *path, double blocks, double rows, double correlation)
{
	double		scattered = path->indexclauses == NIL ? rows : blocks * (1 - exp(-rows / blocks));
	double		together = blocks * rows / Max(path->indexinfo->rel->tuples, 1.0);

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
	Cost		each = lsm_indexpath_block_cost(planner_rt_fetch(rel->relid, root)->relid, &blocks);

	btcostestimate(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
				   pages);
	rows = *selectivity * rel->tuples;
	if (path->path.pathtype == T_IndexOnlyScan)
		rows *= 1 - rel->allvisfrac;
	if (each > 0)
		*total_cost += each * lsm_indexpath_blocks(path, Max(blocks, 1), rows, *correlation);
}

/* Charge what indexes of a large table have to read. */
static void
lsm_indexpath_charge(const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (index->relam == BTREE_AM_OID)
			index->amcostestimate = lsm_indexpath_estimate;
	}
}

/* Are names or system columns of rows asked for, of whatever table? */
static bool
lsm_indexpath_find_names(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varattno < 0 && ((Var *) node)->varattno != TableOidAttributeNumber;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, lsm_indexpath_find_names, context, 0);
	return expression_tree_walker(node, lsm_indexpath_find_names, context);
}

/* Rows that are locked or changed are found again by their names. */
static bool
lsm_indexpath_wants_names(const Query *parse)
{
	return parse->commandType == CMD_UPDATE || parse->commandType == CMD_DELETE ||
		parse->commandType == CMD_MERGE || parse->rowMarks != NIL ||
		query_tree_walker((Query *) parse, lsm_indexpath_find_names, NULL, 0);
}

/* Have no index give its order by distances, if names are wanted. */
static void
lsm_indexpath_keep_names(const PlannerInfo *root, const RelOptInfo *rel)
{
	bool		known = false;
	bool		wanted = false;
	ListCell   *cell;

	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (!index->amcanorderbyop)
			continue;
		wanted = known ? wanted : lsm_indexpath_wants_names(root->parse);
		known = true;
		index->amcanorderbyop = !wanted;
	}
}

static void
lsm_get_relation_info(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	if (previous_get_relation_info)
		previous_get_relation_info(root, relid, inhparent, rel);
	if (inhparent || rel->indexlist == NIL || !lsm_scanpath_is_lsm(relid))
		return;
	lsm_indexpath_keep_names(root, rel);
	if (!lsm_indexpath_is_near(rel))
		lsm_indexpath_charge(rel);
}

void
lsm_indexpath_install(void)
{
	previous_get_relation_info = get_relation_info_hook;
	get_relation_info_hook = lsm_get_relation_info;
}
