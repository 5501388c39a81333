/*-------------------------------------------------------------------------
 *
 * lsm_keyhint.c
 *	  Where the rows lie that a session has looked up by unique keys.
 *
 * Who has read a row by its key often comes back to it: reads it, changes it, reads it again, or
 * updates the same few rows all the time.  Each time the server opens a scan of the index, goes down
 * its tree and finds the same TID.  So a session notes which root it has found for the keys looked up
 * last (key hints), and asks the row before the index.
 *
 * A hint is believed only if the row is visible to the statement's snapshot and has the key, as the
 * scan's operators say.  A unique index that checks at once, and is of all rows, has no other row
 * with that key which the same snapshot sees, so this is what the scan would find, and all that it
 * would find.  In any other case the scan goes its way, as if nobody had asked: hints may be of
 * rows that have gone, tables that have been emptied, indexes that have been dropped.
 *
 * Where: scans of a plan that are run once and from its top, by themselves or below an UPDATE, a DELETE,
 * or row locks.  Not where EXPLAIN or others measure nodes, so that they see what a scan of the index
 * costs, nor in serializable transactions, whose scans lock pages of the index.
 *
 * InnoDB's adaptive hash index does the same for pages of its trees, for all sessions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "lsm_am.h"
#include "lsm_mvcc.h"
#include "lsm_rowlog.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Of each session: 32 kB. */
#define LSM_KEY_HINTS			2048

typedef struct LsmKeyHint
{
	uint64		key;			/* hash of the index and the values */
	LsmTid		root;			/* LSM_INVALID_TID: there is none */
} LsmKeyHint;

bool		lsm_enable_keyhint = true;

static LsmKeyHint lsm_key_hints[LSM_KEY_HINTS];

/* ExecIndexScan() */
static ExecProcNodeMtd lsm_index_scan = NULL;

/* A hash of what is looked up.  False: there is none, as it is null, or not at hand. */
static bool
lsm_keyhint_hash(IndexScanState *node, uint64 *key)
{
	TupleDesc	tupdesc = RelationGetDescr(node->ss.ss_currentRelation);
	const int16 *columns = node->iss_RelationDesc->rd_index->indkey.values;

	*key = RelationGetRelid(node->iss_RelationDesc);
	for (int i = 0; i < node->iss_NumScanKeys; i++)
	{
		const ScanKeyData *scankey = &node->iss_ScanKeys[i];
		Form_pg_attribute att = TupleDescAttr(tupdesc, columns[i] - 1);
		const char *datum = DatumGetPointer(scankey->sk_argument);
		uint64		value;

		if (scankey->sk_flags & SK_ISNULL)
			return false;
		if (att->attbyval)
			value = (uint64) scankey->sk_argument;
		else if (att->attlen > 0)
			value = hash_bytes_extended((const unsigned char *) datum, att->attlen, 0);
		else if (att->attlen == -1 && (!VARATT_IS_EXTENDED(datum) || VARATT_IS_SHORT(datum)))
			value = hash_bytes_extended((const unsigned char *) VARDATA_ANY(datum),
										VARSIZE_ANY_EXHDR(datum), 0);
		else
			return false;
		*key = hash_combine64(*key, value);
	}
	return true;
}

static inline LsmKeyHint *
lsm_keyhint_of(uint64 key)
{
	return &lsm_key_hints[murmurhash32((uint32) (key ^ key >> 32)) % LSM_KEY_HINTS];
}

/* Does the row in the scan's slot have the key? */
static bool
lsm_keyhint_has_key(IndexScanState *node)
{
	const int16 *columns = node->iss_RelationDesc->rd_index->indkey.values;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	MemoryContext caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	bool		same = true;

	for (int i = 0; same && i < node->iss_NumScanKeys; i++)
	{
		ScanKey		scankey = &node->iss_ScanKeys[i];
		bool		isnull;
		Datum		value = slot_getattr(node->ss.ss_ScanTupleSlot, columns[i], &isnull);

		same = !isnull && DatumGetBool(FunctionCall2Coll(&scankey->sk_func, scankey->sk_collation,
														 value, scankey->sk_argument));
	}
	MemoryContextSwitchTo(caller);
	return same;
}

/* Is the row with that root the one that the scan would find?  Then it is in the scan's slot. */
static bool
lsm_keyhint_fetch(IndexScanState *node, LsmTid root)
{
	Relation	rel = node->ss.ss_currentRelation;
	Relation	index = node->iss_RelationDesc;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	LsmTable   *table = lsm_table_open(rel);

	lsm_rowlog_heed_waste(rel, table);
	(void) lsm_floor();
	if (!lsm_row_fetch(rel, table, root, node->ss.ps.state->es_snapshot, slot, NULL))
		return false;
	if (!lsm_keyhint_has_key(node))
	{
		ExecClearTuple(slot);
		return false;
	}
	/* the index has been made use of, whatever of it was read */
	pgstat_count_index_scan(index);
	pgstat_count_index_tuples(index, 1);
	pgstat_count_heap_fetch(index);
	return true;
}

/* No row (any more). */
static TupleTableSlot *
lsm_keyhint_end(PlanState *planstate)
{
	TupleTableSlot *slot = ExecClearTuple(((ScanState *) planstate)->ss_ScanTupleSlot);

	if (planstate->ps_ProjInfo != NULL)
		return ExecClearTuple(planstate->ps_ProjInfo->pi_state.resultslot);
	return slot;
}

/* From the next time on the scan does that; the stack has been found deep enough for it. */
static inline void
lsm_keyhint_go_on(PlanState *planstate, ExecProcNodeMtd function)
{
	planstate->ExecProcNodeReal = planstate->ExecProcNode = function;
}

/* The first time that a scan is asked for a row: the hint, or the index. */
static TupleTableSlot *
lsm_keyhint_exec(PlanState *planstate)
{
	IndexScanState *node = castNode(IndexScanState, planstate);
	EState	   *estate = planstate->state;
	ExprContext *econtext = planstate->ps_ExprContext;
	LsmKeyHint *hint = NULL;
	TupleTableSlot *result;
	uint64		key;

	CHECK_FOR_INTERRUPTS();
	if (node->iss_NumRuntimeKeys != 0 && !node->iss_RuntimeKeysReady)
		ExecReScan(planstate);
	ResetExprContext(econtext);
	if (ScanDirectionIsForward(estate->es_direction) && IsMVCCSnapshot(estate->es_snapshot) &&
		!IsolationIsSerializable() && lsm_keyhint_hash(node, &key))
	{
		hint = lsm_keyhint_of(key);
		if (hint->key == key && hint->root != LSM_INVALID_TID &&
			lsm_keyhint_fetch(node, hint->root))
		{
			lsm_keyhint_go_on(planstate, lsm_keyhint_end);
			econtext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
			if (planstate->qual != NULL && !ExecQual(planstate->qual, econtext))
				return lsm_keyhint_end(planstate);
			return planstate->ps_ProjInfo != NULL ? ExecProject(planstate->ps_ProjInfo) :
				node->ss.ss_ScanTupleSlot;
		}
	}
	lsm_keyhint_go_on(planstate, lsm_index_scan);
	result = lsm_index_scan(planstate);
	if (hint != NULL && !TupIsNull(result) &&
		heap_attisnull(node->iss_RelationDesc->rd_indextuple, Anum_pg_index_indpred, NULL))
	{
		TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

		/* what has been found under its root may have another name */
		if (lsm_slot_find(node->ss.ss_currentRelation, lsm_tid_from_pointer(&slot->tts_tid)) == slot)
		{
			hint->key = key;
			hint->root = lsm_slot_noted()->root;
		}
	}
	return result;
}

/*
 * Does the scan look for one value of each column of a unique index?  (Of one that is not of all rows
 * nothing is noted.)
 */
static bool
lsm_keyhint_is_unique(IndexScanState *node)
{
	Relation	index = node->iss_RelationDesc;
	Form_pg_index form;

	if (index == NULL || index->rd_rel->relam != BTREE_AM_OID || node->iss_NumOrderByKeys > 0)
		return false;
	form = index->rd_index;
	if (!form->indisunique || !form->indimmediate || !form->indisvalid ||
		node->iss_NumScanKeys != form->indnkeyatts)
		return false;
	for (int i = 0; i < node->iss_NumScanKeys; i++)
	{
		const ScanKeyData *scankey = &node->iss_ScanKeys[i];

		if ((scankey->sk_flags & ~SK_ISNULL) != 0 || scankey->sk_attno != i + 1 ||
			scankey->sk_strategy != BTEqualStrategyNumber ||
			scankey->sk_subtype != index->rd_opcintype[i] || form->indkey.values[i] == 0)
			return false;
	}
	return true;
}

/*
 * A plan has been initialized: is it, or does it change or lock, a row that is looked up so?  Then the
 * scan; else NULL.
 */
PlanState *
lsm_keyhint_look(QueryDesc *query, int eflags)
{
	PlanState  *planstate = query->planstate;

	if (!lsm_enable_keyhint || query->estate->es_instrument != 0 ||
		(eflags & (EXEC_FLAG_EXPLAIN_ONLY | EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)))
		return NULL;
	if (IsA(planstate, LockRowsState) ||
		(IsA(planstate, ModifyTableState) &&
		 (query->operation == CMD_UPDATE || query->operation == CMD_DELETE)))
		planstate = outerPlanState(planstate);
	if (planstate == NULL || !IsA(planstate, IndexScanState) || planstate->plan->parallel_aware ||
		((ScanState *) planstate)->ss_ScanTupleSlot->tts_ops != &LsmSlotOps ||
		!lsm_keyhint_is_unique((IndexScanState *) planstate))
		return NULL;
	if (lsm_index_scan == NULL)
		lsm_index_scan = planstate->ExecProcNodeReal;
	if (planstate->ExecProcNodeReal != lsm_index_scan)
		return NULL;
	ExecSetExecProcNode(planstate, lsm_keyhint_exec);
	return planstate;
}

/* Does a scan look at the columns of its key itself? */
bool
lsm_keyhint_rechecks(const PlanState *planstate)
{
	return planstate->ExecProcNodeReal == lsm_keyhint_exec;
}
