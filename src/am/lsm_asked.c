/*-------------------------------------------------------------------------
 *
 * lsm_asked.c
 *	  Which columns of a row an index scan is asked for.
 *
 * A slot decodes columns up to the last one that somebody wants, as the executor
 * asks for them by number.  Of heap that is the way to get at the last one; of a block
 * each column is by itself, in a place of its own.  So the slots of index scans are
 * told what the plan reads of them, and leave out the rest.
 *
 * That is known where a scan projects, or where its parent reads columns of the scan's
 * own slot by expressions, and nothing else: the inputs of nested loops, the outer ones
 * of hash joins, and those of aggregates.  All that copy such a slot do so by its own
 * functions, which complete it first; but aggregates, which copy the first row of each
 * group, read no more of the copy than of the slot.  In all other places slots have all columns, and
 * so has the slot of a scan that EvalPlanQual has initialized.
 *
 * The conditions that the index looks at are not among what is read, if it is a btree,
 * which finds no row that has to be checked.
 *
 * A scan of few rows that is run once is not looked at, unless that is cheap because it
 * projects few columns, and then when a row of a block is decoded for the first time.  Rows
 * that have changed, and those that are read often, are not read from blocks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_am.h"
#include "lsm_am.h"
#include "lsm_mvcc.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"

/* Fewer rows than these, of a scan that is no join's, are few. */
#define LSM_ASKED_ROWS			16

/* To look at so many expressions costs less than to decode a column that nobody reads. */
#define LSM_ASKED_EXPRESSIONS	4

/* Tell the scan's slot its columns, which are given as by pull_varattnos(). */
static void
lsm_asked_tell(ScanState *scan, Bitmapset *attrs, bool copies)
{
	TupleTableSlot *slot = scan->ss_ScanTupleSlot;
	int			natts = slot->tts_tupleDescriptor->natts;
	int			n = 0;
	int			attr = -1;
	int16	   *asked;

	if (bms_is_member(InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber, attrs))
		return;					/* a row as a whole */
	asked = MemoryContextAlloc(scan->ps.state->es_query_cxt, Max(natts, 1) * sizeof(int16));
	while ((attr = bms_next_member(attrs, attr)) >= 0)
	{
		AttrNumber	attnum = attr + FirstLowInvalidHeapAttributeNumber;

		if (attnum > 0 && attnum <= natts &&
			!TupleDescAttr(slot->tts_tupleDescriptor, attnum - 1)->attisdropped)
			asked[n++] = attnum - 1;
	}
	lsm_slot_ask(slot, asked, n, copies);
}

static ScanState *
lsm_asked_scan(PlanState *planstate)
{
	ScanState  *scan = (ScanState *) planstate;

	if (planstate == NULL || !IsA(planstate, IndexScanState) ||
		scan->ss_ScanTupleSlot->tts_ops != &LsmSlotOps)
		return NULL;
	return scan;
}

/* May the index find rows that are to be checked?  A btree finds none such. */
static bool
lsm_asked_rechecks(ScanState *scan)
{
	Relation	index = ((IndexScanState *) scan)->iss_RelationDesc;

	return index == NULL || index->rd_rel->relam != BTREE_AM_OID;
}

/* What a scan looks at itself. */
static Bitmapset *
lsm_asked_own(ScanState *scan)
{
	IndexScan  *plan = (IndexScan *) scan->ps.plan;
	Bitmapset  *attrs = NULL;

	pull_varattnos((Node *) plan->scan.plan.qual, plan->scan.scanrelid, &attrs);
	if (lsm_asked_rechecks(scan) || lsm_keyhint_rechecks(&scan->ps))
		pull_varattnos((Node *) plan->indexqualorig, plan->scan.scanrelid, &attrs);
	pull_varattnos((Node *) plan->indexorderbyorig, plan->scan.scanrelid, &attrs);
	return attrs;
}

/* A scan that makes its own rows. */
static void
lsm_asked_project(ScanState *scan)
{
	Plan	   *plan = scan->ps.plan;
	Bitmapset  *attrs = lsm_asked_own(scan);

	pull_varattnos((Node *) plan->targetlist, ((Scan *) plan)->scanrelid, &attrs);
	lsm_asked_tell(scan, attrs, false);
}

/*
 * A scan whose slot the parent reads, by expressions with Vars of varno.  The slot has the
 * table's columns, so numbers are the same.
 */
static void
lsm_asked_parent(ScanState *scan, List *expressions, int varno, Bitmapset *more, bool copies)
{
	Bitmapset  *attrs = bms_union(lsm_asked_own(scan), more);
	ListCell   *cell;

	foreach(cell, expressions)
		pull_varattnos(lfirst(cell), varno, &attrs);
	lsm_asked_tell(scan, attrs, copies);
}

static void
lsm_asked_nestloop(PlanState *planstate)
{
	NestLoop   *plan = (NestLoop *) planstate->plan;
	ScanState  *outer = lsm_asked_scan(outerPlanState(planstate));
	ScanState  *inner = lsm_asked_scan(innerPlanState(planstate));
	List	   *expressions;
	ListCell   *cell;

	if (outer == NULL && inner == NULL)
		return;
	expressions = list_make3(plan->join.plan.targetlist, plan->join.plan.qual, plan->join.joinqual);
	foreach(cell, plan->nestParams)
		expressions = lappend(expressions, lfirst_node(NestLoopParam, cell)->paramval);
	if (outer != NULL && outer->ps.ps_ProjInfo == NULL)
		lsm_asked_parent(outer, expressions, OUTER_VAR, NULL, false);
	if (inner != NULL && inner->ps.ps_ProjInfo == NULL)
		lsm_asked_parent(inner, expressions, INNER_VAR, NULL, false);
	if (inner != NULL && inner->ps.ps_ProjInfo != NULL)
		lsm_asked_project(inner);
}

static void
lsm_asked_hashjoin(PlanState *planstate)
{
	HashJoin   *plan = (HashJoin *) planstate->plan;
	ScanState  *outer = lsm_asked_scan(outerPlanState(planstate));
	List	   *expressions;

	if (outer == NULL || outer->ps.ps_ProjInfo != NULL)
		return;
	expressions = list_make5(plan->join.plan.targetlist, plan->join.plan.qual, plan->join.joinqual,
							 plan->hashclauses, plan->hashkeys);
	lsm_asked_parent(outer, expressions, OUTER_VAR, NULL, false);
}

static void
lsm_asked_agg(PlanState *planstate)
{
	Agg		   *plan = (Agg *) planstate->plan;
	ScanState  *outer = lsm_asked_scan(outerPlanState(planstate));
	Bitmapset  *keys = NULL;

	if (outer == NULL || outer->ps.ps_ProjInfo != NULL || plan->groupingSets != NIL ||
		plan->chain != NIL)
		return;
	for (int i = 0; i < plan->numCols; i++)
		keys = bms_add_member(keys, plan->grpColIdx[i] - FirstLowInvalidHeapAttributeNumber);
	lsm_asked_parent(outer, list_make2(plan->plan.targetlist, plan->plan.qual), OUTER_VAR, keys, true);
}

/* For lsm_slot_ask_later(). */
static void
lsm_asked_decide(IndexScanState *scan)
{
	lsm_asked_project(&scan->ss);
}

/*
 * An index scan: let its slot know it, if its rows can be foreseen, and which columns
 * it reads.
 */
static void
lsm_asked_index_scan(PlanState *planstate)
{
	ScanState  *scan = lsm_asked_scan(planstate);

	if (scan == NULL)
		return;
	if (!lsm_asked_rechecks(scan))
		lsm_slot_set_index_scan(scan->ss_ScanTupleSlot, (IndexScanState *) scan);
	if (planstate->ps_ProjInfo == NULL)
		return;
	if (planstate->plan->plan_rows >= LSM_ASKED_ROWS)
		lsm_asked_project(scan);
	else if (list_length(planstate->plan->targetlist) > LSM_ASKED_EXPRESSIONS)
		return;
	else if (lsm_asked_rechecks(scan))
		lsm_asked_project(scan);
	else
		lsm_slot_ask_later(scan->ss_ScanTupleSlot);
}

/* A node of a plan that has been initialized: look at its inputs, or if it is a scan, at it. */
void
lsm_asked_look(PlanState *planstate)
{
	switch (nodeTag(planstate))
	{
		case T_NestLoopState:
			lsm_asked_nestloop(planstate);
			break;
		case T_HashJoinState:
			lsm_asked_hashjoin(planstate);
			break;
		case T_AggState:
			lsm_asked_agg(planstate);
			break;
		case T_IndexScanState:
			lsm_asked_index_scan(planstate);
			break;
		default:
			break;
	}
}

void
lsm_asked_install(void)
{
	lsm_slot_decide_asked = lsm_asked_decide;
}
