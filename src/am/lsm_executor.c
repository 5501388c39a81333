/*-------------------------------------------------------------------------
 *
 * lsm_executor.c
 *	  What bitmap scans need of the plan that they are part of.
 *
 * Until PostgreSQL 17 the executor prefetches for a bitmap scan by itself, by
 * the block numbers of the bitmap.  Those are logical here: it would read
 * pages ahead that have nothing to do with the rows, and fail where the file has
 * no such segment.  It does not, if the node's prefetch_maximum is 0, which is
 * what effective_io_concurrency = 0 makes of it.  That has to be set before the
 * node runs, for leader and workers of a parallel scan must agree on it: so
 * after the plan was initialized, in ExecutorStart.
 *
 * EvalPlanQual initializes the SubPlans of a query once more, without
 * ExecutorStart, when a row has changed under it.  Plans in which that may happen
 * to a bitmap scan of ours are remembered; when a scan is asked for its first
 * page, its node is looked for in what EvalPlanQual has made of them.  Nothing is
 * prefetched before that page has been asked for, and no such scan is parallel.
 *
 * Other parts look through the plan along with it: which columns index scans are asked for
 * (lsm_asked.c), what scans may leave out for the sake of hash joins (lsm_executor_look).
 *
 * In all versions: workers of a parallel query call versions by the leader's
 * floor (I7).  Some scans begin when they are first run, perhaps in a worker
 * first, so the leader's floor is set before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "lib/ilist.h"
#include "lsm_am.h"
#include "lsm_mvcc.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"

void		(*lsm_executor_look) (HashJoinState *join) = NULL;

static ExecutorStart_hook_type previous_executor_start;

#if LSM_BITMAP_BY_BLOCK

/* A node of a running plan that may initialize a bitmap scan of ours again. */
typedef struct LsmRechecker
{
	dlist_node	node;
	EPQState   *epq;
	MemoryContextCallback callback; /* forgets it when the plan has ended */
} LsmRechecker;

static dlist_head lsm_recheckers = DLIST_STATIC_INIT(lsm_recheckers);

static void
lsm_executor_forget(void *arg)
{
	dlist_delete(&((LsmRechecker *) arg)->node);
}

static void
lsm_executor_remember(EState *estate, EPQState *epq)
{
	LsmRechecker *rechecker;
	dlist_iter	iter;

	/* a plan of a WITH is come to twice */
	dlist_foreach(iter, &lsm_recheckers)
	{
		if (dlist_container(LsmRechecker, node, iter.cur)->epq == epq)
			return;
	}
	rechecker = MemoryContextAlloc(estate->es_query_cxt, sizeof(LsmRechecker));
	rechecker->epq = epq;
	dlist_push_head(&lsm_recheckers, &rechecker->node);
	rechecker->callback.func = lsm_executor_forget;
	rechecker->callback.arg = rechecker;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &rechecker->callback);
}

/* Remember the nodes of a plan that may recheck rows. */
static bool
lsm_executor_find_recheckers(PlanState *planstate, void *context)
{
	EState	   *estate = planstate->state;

	if (IsA(planstate, LockRowsState))
		lsm_executor_remember(estate, &((LockRowsState *) planstate)->lr_epqstate);
	else if (IsA(planstate, ModifyTableState))
		lsm_executor_remember(estate, &((ModifyTableState *) planstate)->mt_epqstate);
	return planstate_tree_walker(planstate, lsm_executor_find_recheckers, context);
}

/* Switch prefetching off in the node that a scan belongs to. */
static bool
lsm_executor_find_scan(PlanState *planstate, void *context)
{
	if (IsA(planstate, BitmapHeapScanState) &&
		((ScanState *) planstate)->ss_currentScanDesc == (TableScanDesc) context)
	{
		((BitmapHeapScanState *) planstate)->prefetch_maximum = 0;
		return true;
	}
	return planstate_tree_walker(planstate, lsm_executor_find_scan, context);
}

/* See above: called before a scan's first page is read. */
void
lsm_executor_no_prefetch(LsmScan scan)
{
	dlist_iter	iter;

	dlist_foreach(iter, &lsm_recheckers)
	{
		EPQState   *epq = dlist_container(LsmRechecker, node, iter.cur)->epq;
		ListCell   *cell;

		if (epq->recheckestate == NULL)
			continue;
		foreach(cell, epq->recheckestate->es_subplanstates)
		{
			if (lfirst(cell) != NULL && lsm_executor_find_scan(lfirst(cell), scan))
				return;
		}
		if (epq->recheckplanstate != NULL &&
			lsm_executor_find_scan(epq->recheckplanstate, scan))
			return;
	}
}

#endif

/* Look through a plan that has just been initialized; context: has it a bitmap scan of ours? */
static bool
lsm_executor_walk(PlanState *planstate, void *context)
{
	bool	   *bitmap_scan = context;

	lsm_asked_look(planstate);
	switch (nodeTag(planstate))
	{
		case T_HashJoinState:
			lsm_executor_look((HashJoinState *) planstate);
			break;
		case T_BitmapHeapScanState:
			if (lsm_relation_is_lsm(((ScanState *) planstate)->ss_currentRelation))
			{
				*bitmap_scan = true;
#if LSM_BITMAP_BY_BLOCK
				((BitmapHeapScanState *) planstate)->prefetch_maximum = 0;
#endif
			}
			break;
		default:
			break;
	}
	return planstate_tree_walker(planstate, lsm_executor_walk, context);
}

/* Does the plan read any table of ours? */
static bool
lsm_executor_concerned(EState *estate)
{
	for (Index i = 0; i < estate->es_range_table_size; i++)
		if (estate->es_relations[i] != NULL && lsm_relation_is_lsm(estate->es_relations[i]))
			return true;
	return false;
}

static void
lsm_executor_start(QueryDesc *query, int eflags)
{
	bool		bitmap_scan = false;
	PlanState  *lookup;
	EState	   *estate;
	ListCell   *cell;

	lsm_slot_forget();
	if (previous_executor_start)
		previous_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);

	estate = query->estate;

	/* workers have the leader's, also in functions that read tables of ours */
	if (query->plannedstmt->parallelModeNeeded)
		(void) lsm_floor();
	if (query->planstate == NULL || !lsm_executor_concerned(estate))
		return;
	lookup = lsm_keyhint_look(query, eflags);
	if (lookup != NULL && estate->es_subplanstates == NIL)
	{
		/* there is nothing else in the plan */
		lsm_asked_look(lookup);
		return;
	}
	(void) lsm_executor_walk(query->planstate, &bitmap_scan);
	foreach(cell, estate->es_subplanstates)
	{
		if (lfirst(cell) != NULL)
			(void) lsm_executor_walk(lfirst(cell), &bitmap_scan);
	}
#if LSM_BITMAP_BY_BLOCK
	if (bitmap_scan)
	{
		(void) lsm_executor_find_recheckers(query->planstate, NULL);
		foreach(cell, estate->es_subplanstates)
		{
			if (lfirst(cell) != NULL)
				(void) lsm_executor_find_recheckers(lfirst(cell), NULL);
		}
	}
#endif
}

void
lsm_executor_install(void)
{
	lsm_asked_install();
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = lsm_executor_start;
}
