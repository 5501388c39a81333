/*-------------------------------------------------------------------------
 *
 * lsm_lookahead.c
 *	  LsmLookAhead: the outer side of a nested loop, some rows ahead of it.
 *
 * The node gives its child's rows as they come.  But it takes several before the first of
 * them is wanted, looks up in indexes of the inner side what each will look for there, and has
 * blocks of these rows that lie in a store brought together (lsm_prefetch.c).  When the loop's
 * own look-ups come, they find them in a cache.
 *
 * A batch has one row at first, and twice as many each time, as nobody tells how many rows
 * will be wanted; of a node that is run again, as many as the last time.  Where nothing had to
 * be brought, the next batches are not looked up, more and more of them.
 *
 * All of it is hints: rows are neither left out nor added, and the order is the child's.  Rows
 * that EvalPlanQual tries out are given one by one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "access/table.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "executor/nodeIndexscan.h"
#include "lsm_am.h"
#include "lsm_columnscan.h"
#include "lsm_exec.h"
#include "lsm_prefetch.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* A batch has no more rows, or bytes of rows, than these, */
#define LSM_LOOKAHEAD_ROWS		128
#define LSM_LOOKAHEAD_BYTES		((Size) 1024 * 1024)

/* of no outer row are more inner ones looked up, */
#define LSM_LOOKAHEAD_MATCHES	64

/* and no more batches than these are not looked up, one after the other. */
#define LSM_LOOKAHEAD_PAUSE		64

/* An index of the inner side. */
typedef struct LsmLookAheadIndex
{
	Relation	heap;
	Relation	index;
	LsmTable   *table;
	int			nkeys;
	ScanKey		keys;
	int			nruntime;
	IndexRuntimeKeyInfo *runtime;
	IndexScanDesc scan;			/* NULL: not begun */
	int			nroots;
	LsmTid		roots[LSM_PREFETCH_ROWS];	/* of the batch */
} LsmLookAheadIndex;

typedef struct LsmLookAheadState
{
	CustomScanState css;		/* must be first */
	PlanState  *child;
	ExprContext *keys;			/* that keys are evaluated in */
	int			nindexes;
	LsmLookAheadIndex *indexes;
	MemoryContext context;		/* of the batch */
	int			nrows;			/* of it */
	int			next;
	MinimalTuple rows[LSM_LOOKAHEAD_ROWS];
	bool		done;			/* the child has no more */
	uint64		given;			/* rows, since the node was begun anew */
	int			most;			/* rows of the next batch */
	int			pause;			/* so many batches are not looked up */
	int			last_pause;
	/* what has been done */
	uint64		nahead;			/* rows that were looked up for */
	uint64		requests;
	uint64		bytes;
} LsmLookAheadState;

/* ---- begin and end ---- */

/* The keys of an index: custom_exprs from *key on. */
static void
lsm_lookahead_begin_keys(LsmLookAheadState *node, LsmLookAheadIndex *index, List *conditions,
						 List *keys, int *key)
{
	List	   *quals = NIL;
	ListCell   *cell;

	foreach(cell, conditions)
	{
		OpExpr	   *condition = copyObject(lfirst_node(OpExpr, cell));

		condition->args = lappend(condition->args, list_nth(keys, (*key)++));
		set_opfuncid(condition);
		quals = lappend(quals, condition);
	}
	ExecIndexBuildScanKeys(&node->css.ss.ps, index->index, quals, false, &index->keys,
						   &index->nkeys, &index->runtime, &index->nruntime, NULL, NULL);
}

/*
 * Open a table and its index.  False: they are not there, as a cached plan is run, which will
 * not come to that partition.
 */
static bool
lsm_lookahead_open(LsmLookAheadIndex *index, Oid heap, Oid indexoid)
{
	index->heap = try_table_open(heap, AccessShareLock);
	if (index->heap == NULL)
		return false;
	index->index = try_relation_open(indexoid, AccessShareLock);
	if (index->index == NULL)
		table_close(index->heap, NoLock);
	return index->index != NULL;
}

static void
lsm_lookahead_begin(CustomScanState *css, EState *estate, int eflags)
{
	LsmLookAheadState *node = (LsmLookAheadState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	int			key = 0;
	ListCell   *cell;

	node->child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	css->custom_ps = list_make1(node->child);
	node->most = 1;
	node->indexes = palloc0(list_length(plan->custom_private) * sizeof(LsmLookAheadIndex));
	foreach(cell, plan->custom_private)
	{
		List	   *private = lfirst(cell);
		List	   *conditions = lthird(private);
		LsmLookAheadIndex *index = &node->indexes[node->nindexes];

		if (!lsm_lookahead_open(index, (Oid) intVal(linitial(private)),
								(Oid) intVal(lsecond(private))))
		{
			key += list_length(conditions);
			continue;
		}
		node->nindexes++;
		if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
			continue;
		index->table = lsm_table_open(index->heap);
		lsm_lookahead_begin_keys(node, index, conditions, plan->custom_exprs, &key);
	}
	node->keys = CreateExprContext(estate);
	node->keys->ecxt_scantuple = css->ss.ss_ScanTupleSlot;
	node->context = AllocSetContextCreate(estate->es_query_cxt, "lsm look-ahead",
										  ALLOCSET_DEFAULT_SIZES);
}

static void
lsm_lookahead_end(CustomScanState *css)
{
	LsmLookAheadState *node = (LsmLookAheadState *) css;

	for (int i = 0; i < node->nindexes; i++)
	{
		LsmLookAheadIndex *index = &node->indexes[i];

		if (index->scan != NULL)
			index_endscan(index->scan);
		relation_close(index->index, NoLock);
		table_close(index->heap, NoLock);
	}
	ExecEndNode(node->child);
}

static void
lsm_lookahead_rescan(CustomScanState *css)
{
	LsmLookAheadState *node = (LsmLookAheadState *) css;

	if (css->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(node->child, css->ss.ps.chgParam);
	if (node->child->chgParam == NULL)
		ExecReScan(node->child);
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	MemoryContextReset(node->context);
	node->nrows = node->next = 0;
	node->done = false;
	node->most = (int) Max(Min(node->given, LSM_LOOKAHEAD_ROWS), 1);
	node->given = 0;
}

/* ---- looking up ---- */

/* What an index has for the row in the slot; false: there is no room for more of the batch. */
static bool
lsm_lookahead_look_up(LsmLookAheadState *node, LsmLookAheadIndex *index)
{
	int			most = Min(index->nroots + LSM_LOOKAHEAD_MATCHES, LSM_PREFETCH_ROWS);
	ItemPointer tid;

	if (index->scan == NULL)
		index->scan = lsm_compat_index_beginscan(index->heap, index->index,
												 node->css.ss.ps.state->es_snapshot,
												 index->nkeys);
	ExecIndexEvalRuntimeKeys(node->keys, index->runtime, index->nruntime);
	index_rescan(index->scan, index->keys, index->nkeys, NULL, 0);
	while (index->nroots < most &&
		   (tid = index_getnext_tid(index->scan, ForwardScanDirection)) != NULL)
		index->roots[index->nroots++] = lsm_tid_from_pointer(tid);
	return index->nroots < LSM_PREFETCH_ROWS;
}

/* The same of all indexes. */
static bool
lsm_lookahead_look_up_all(LsmLookAheadState *node)
{
	bool		room = true;

	ResetExprContext(node->keys);
	for (int i = 0; i < node->nindexes; i++)
		if (lsm_prefetch_pays(node->indexes[i].table))
			room = lsm_lookahead_look_up(node, &node->indexes[i]) && room;
	return room;
}

/* Have blocks brought; false: there were none to bring. */
static bool
lsm_lookahead_bring(LsmLookAheadState *node)
{
	LsmStoreAsked before = lsm_store_asked;

	for (int i = 0; i < node->nindexes; i++)
	{
		LsmLookAheadIndex *index = &node->indexes[i];

		if (index->nroots > 0)
			lsm_prefetch_rows(index->heap, index->table, index->roots, index->nroots);
		index->nroots = 0;
	}
	node->requests += lsm_store_asked.requests - before.requests;
	node->bytes += lsm_store_asked.bytes - before.bytes;
	return lsm_store_asked.requests != before.requests;
}

/* ---- rows ---- */

/* Keep a row of the child's; returns its bytes. */
static Size
lsm_lookahead_keep(LsmLookAheadState *node, TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(node->context);
	MinimalTuple tuple = ExecCopySlotMinimalTuple(slot);

	MemoryContextSwitchTo(old);
	node->rows[node->nrows++] = tuple;
	return tuple->t_len;
}

/* Take a batch of rows, and look up what they want. */
static void
lsm_lookahead_fill(LsmLookAheadState *node)
{
	bool		look = node->pause == 0 && node->most > 1;
	bool		room = true;
	Size		bytes = 0;

	ExecClearTuple(node->css.ss.ss_ScanTupleSlot);
	MemoryContextReset(node->context);
	node->nrows = node->next = 0;
	while (node->nrows < node->most && bytes < LSM_LOOKAHEAD_BYTES && room)
	{
		TupleTableSlot *slot = ExecProcNode(node->child);

		if (TupIsNull(slot))
		{
			node->done = true;
			break;
		}
		bytes += lsm_lookahead_keep(node, slot);
		if (look)
		{
			ExecForceStoreMinimalTuple(node->rows[node->nrows - 1],
									   node->css.ss.ss_ScanTupleSlot, false);
			room = lsm_lookahead_look_up_all(node);
			node->nahead++;
		}
	}
	node->most = Min(node->most * 2, LSM_LOOKAHEAD_ROWS);
	if (node->pause > 0)
		node->pause--;
	else if (look)
	{
		node->pause = lsm_lookahead_bring(node) ? 0 :
			Min(node->last_pause * 2 + 1, LSM_LOOKAHEAD_PAUSE);
		node->last_pause = node->pause;
	}
}

/* The next row of the child, in the node's slot; false: there is none. */
static bool
lsm_lookahead_next(LsmLookAheadState *node)
{
	TupleTableSlot *slot = node->css.ss.ss_ScanTupleSlot;

	if (node->css.ss.ps.state->es_epq_active != NULL)
	{
		TupleTableSlot *row = ExecProcNode(node->child);

		if (TupIsNull(row))
			return false;
		ExecCopySlot(slot, row);
		return true;
	}
	if (node->next >= node->nrows && !node->done)
		lsm_lookahead_fill(node);
	if (node->next >= node->nrows)
		return false;
	ExecForceStoreMinimalTuple(node->rows[node->next++], slot, false);
	node->given++;
	return true;
}

static TupleTableSlot *
lsm_lookahead_exec(CustomScanState *css)
{
	ExprContext *econtext = css->ss.ps.ps_ExprContext;

	CHECK_FOR_INTERRUPTS();
	if (!lsm_lookahead_next((LsmLookAheadState *) css))
		return ExecClearTuple(css->ss.ss_ScanTupleSlot);
	if (css->ss.ps.ps_ProjInfo == NULL)
		return css->ss.ss_ScanTupleSlot;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = css->ss.ss_ScanTupleSlot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

/* ---- callbacks ---- */

static void
lsm_lookahead_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	LsmLookAheadState *node = (LsmLookAheadState *) css;
	List	   *names = NIL;

	for (int i = 0; i < node->nindexes; i++)
		names = lappend(names, RelationGetRelationName(node->indexes[i].index));
	ExplainPropertyList("Looked Up In", names, es);
	if (!es->analyze)
		return;
	ExplainPropertyUInteger("Rows Looked Up Ahead", NULL, node->nahead, es);
	lsm_columnscan_explain_store(node->requests, node->bytes, es);
}

static const CustomExecMethods lsm_lookahead_exec_methods = {
	.CustomName = "LsmLookAhead",
	.BeginCustomScan = lsm_lookahead_begin,
	.ExecCustomScan = lsm_lookahead_exec,
	.EndCustomScan = lsm_lookahead_end,
	.ReScanCustomScan = lsm_lookahead_rescan,
	.ExplainCustomScan = lsm_lookahead_explain,
};

static Node *
lsm_lookahead_create(CustomScan *plan)
{
	LsmLookAheadState *node = palloc0(sizeof(LsmLookAheadState));

	NodeSetTag(node, T_CustomScanState);
	node->css.methods = &lsm_lookahead_exec_methods;
	return (Node *) node;
}

const CustomScanMethods lsm_lookahead_methods = {
	.CustomName = "LsmLookAhead",
	.CreateCustomScanState = lsm_lookahead_create,
};
