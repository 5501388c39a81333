/*-------------------------------------------------------------------------
 *
 * lsm_keyorder.c
 *	  LsmKeyOrder: the outer rows of a nested loop in the order of the index that it looks up.
 *
 * A nested loop looks up one key after the other.  Where they come in any order, each look-up
 * goes to other pages of the index and another block of the table, none of which are in the
 * processor's caches, or in any.  Sorted by the key, they go through both.  (Others do so for
 * what lies on disk: MySQL's batched key access, for one.  In memory it still makes the look-ups
 * of a large table several times as fast.)
 *
 * The node gives its child's first rows as they come, as there may be no more.  Then it takes some
 * more each time, three times as many as it has given, up to what work_mem holds, and
 * gives them sorted.  So it costs nothing where there are few rows, as the planner has expected,
 * and helps most where it has been wrong, and there are many.
 *
 * Rows are neither left out nor added; their order is none that anybody counts on.  Those that
 * EvalPlanQual tries out are given one by one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "lsm_exec.h"
#include "miscadmin.h"
#include "utils/ruleutils.h"
#include "utils/tuplesort.h"

/* So many rows are given as they come; */
#define LSM_KEYORDER_FIRST		64

/* and of those that were given, so many times as many are taken at a time. */
#define LSM_KEYORDER_GROWTH		3

/* What a row takes in a sort besides its columns, about. */
#define LSM_KEYORDER_ROW_BYTES	64

typedef struct LsmKeyOrderState
{
	CustomScanState css;		/* must be first */
	PlanState  *child;
	AttrNumber	key;			/* column of the child's rows */
	Oid			operator;
	Oid			collation;
	Tuplesortstate *sort;		/* NULL: none has begun */
	TupleTableSlot *sorted;
	bool		giving;			/* rows of the sort */
	bool		done;			/* the child has no more */
	int64		given;			/* rows, since the node was begun anew */
	int64		usual;			/* the time before */
	int64		most;			/* rows of a batch */
	/* what has been done */
	int64		nsorted;
	int64		nbatches;
} LsmKeyOrderState;

/* ---- begin and end ---- */

static void
lsm_keyorder_begin(CustomScanState *css, EState *estate, int eflags)
{
	LsmKeyOrderState *node = (LsmKeyOrderState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	Plan	   *child = linitial(plan->custom_plans);

	node->child = ExecInitNode(child, estate, eflags);
	css->custom_ps = list_make1(node->child);
	node->key = (AttrNumber) linitial_int(plan->custom_private);
	node->operator = (Oid) lsecond_int(plan->custom_private);
	node->collation = (Oid) lthird_int(plan->custom_private);
	node->most = Max((int64) work_mem * 1024 /
					 (Max(child->plan_width, 0) + LSM_KEYORDER_ROW_BYTES), 1);
	node->sorted = ExecInitExtraTupleSlot(estate, ExecGetResultType(node->child),
										  &TTSOpsMinimalTuple);
}

/* Rows that have been sorted, and not been given, are not wanted any more. */
static void
lsm_keyorder_drop(LsmKeyOrderState *node)
{
	ExecClearTuple(node->css.ss.ss_ScanTupleSlot);
	ExecClearTuple(node->sorted);
	node->giving = false;
}

static void
lsm_keyorder_end(CustomScanState *css)
{
	LsmKeyOrderState *node = (LsmKeyOrderState *) css;

	lsm_keyorder_drop(node);
	if (node->sort != NULL)
		tuplesort_end(node->sort);
	ExecEndNode(node->child);
}

static void
lsm_keyorder_rescan(CustomScanState *css)
{
	LsmKeyOrderState *node = (LsmKeyOrderState *) css;

	if (css->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(node->child, css->ss.ps.chgParam);
	if (node->child->chgParam == NULL)
		ExecReScan(node->child);
	lsm_keyorder_drop(node);
	node->done = false;
	node->usual = node->given;
	node->given = 0;
}

/* ---- rows ---- */

/* How many rows are to be sorted next; 0: they are given as they come. */
static int64
lsm_keyorder_batch(const LsmKeyOrderState *node)
{
	int64		known = Max(node->given, node->usual);

	if (known < LSM_KEYORDER_FIRST)
		return 0;
	return Min(node->given >= LSM_KEYORDER_FIRST ? node->given * LSM_KEYORDER_GROWTH : node->usual,
			   node->most);
}

/* Take so many rows of the child, and sort them. */
static void
lsm_keyorder_fill(LsmKeyOrderState *node, int64 batch)
{
	MemoryContext caller = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);
	bool		nulls_first = false;
	int64		taken = 0;

	ExecClearTuple(node->sorted);	/* it lies in the sort */
	if (node->sort == NULL)
		node->sort = tuplesort_begin_heap(ExecGetResultType(node->child), 1, &node->key,
										  &node->operator, &node->collation, &nulls_first,
										  work_mem, NULL, TUPLESORT_NONE);
	else
		tuplesort_reset(node->sort);
	MemoryContextSwitchTo(caller);
	while (taken < batch)
	{
		TupleTableSlot *slot = ExecProcNode(node->child);

		if (TupIsNull(slot))
		{
			node->done = true;
			break;
		}
		tuplesort_puttupleslot(node->sort, slot);
		taken++;
	}
	tuplesort_performsort(node->sort);
	node->giving = true;
	node->nsorted += taken;
	node->nbatches++;
}

/* The next row, in a slot of the child's or of the sort; NULL: there is none. */
static TupleTableSlot *
lsm_keyorder_next(LsmKeyOrderState *node)
{
	for (;;)
	{
		TupleTableSlot *slot;
		int64		batch;

		if (node->giving)
		{
			if (tuplesort_gettupleslot(node->sort, true, false, node->sorted, NULL))
				return node->sorted;
			node->giving = false;
		}
		if (node->done)
			return NULL;
		batch = node->css.ss.ps.state->es_epq_active != NULL ? 0 : lsm_keyorder_batch(node);
		if (batch > 0)
		{
			lsm_keyorder_fill(node, batch);
			continue;
		}
		slot = ExecProcNode(node->child);
		if (!TupIsNull(slot))
			return slot;
		node->done = node->css.ss.ps.state->es_epq_active == NULL;
		return NULL;
	}
}

static TupleTableSlot *
lsm_keyorder_exec(CustomScanState *css)
{
	LsmKeyOrderState *node = (LsmKeyOrderState *) css;
	TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;
	TupleTableSlot *row;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;
	int			natts = slot->tts_tupleDescriptor->natts;

	CHECK_FOR_INTERRUPTS();
	ExecClearTuple(slot);
	row = lsm_keyorder_next(node);
	if (row == NULL)
		return slot;
	node->given++;

	/* the row stays where it is until the next one is asked for */
	slot_getallattrs(row);
	memcpy(slot->tts_values, row->tts_values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, row->tts_isnull, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	if (css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

/* ---- callbacks ---- */

static void
lsm_keyorder_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	LsmKeyOrderState *node = (LsmKeyOrderState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	TargetEntry *entry = list_nth_node(TargetEntry, plan->custom_scan_tlist, node->key - 1);
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);

	ExplainPropertyText("Batches Sorted By",
						deparse_expression((Node *) entry->expr, context,
										   es->verbose || list_length(es->rtable) > 1, true), es);
	if (!es->analyze)
		return;
	ExplainPropertyInteger("Rows Sorted", NULL, node->nsorted, es);
	ExplainPropertyInteger("Batches", NULL, node->nbatches, es);
}

static const CustomExecMethods lsm_keyorder_exec_methods = {
	.CustomName = "LsmKeyOrder",
	.BeginCustomScan = lsm_keyorder_begin,
	.ExecCustomScan = lsm_keyorder_exec,
	.EndCustomScan = lsm_keyorder_end,
	.ReScanCustomScan = lsm_keyorder_rescan,
	.ExplainCustomScan = lsm_keyorder_explain,
};

static Node *
lsm_keyorder_create(CustomScan *plan)
{
	LsmKeyOrderState *node = palloc0(sizeof(LsmKeyOrderState));

	NodeSetTag(node, T_CustomScanState);
	node->css.methods = &lsm_keyorder_exec_methods;
	return (Node *) node;
}

const CustomScanMethods lsm_keyorder_methods = {
	.CustomName = "LsmKeyOrder",
	.CreateCustomScanState = lsm_keyorder_create,
};
