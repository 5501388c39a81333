/*-------------------------------------------------------------------------
 *
 * lsm_predicate_risk.c
 *	  May what a column is compared with raise an error?
 *
 * Such an error is not for a scan to raise before a row asks for the value, but zone maps
 * want it before there is a row.  So it is tried where that does no harm if it fails: where
 * functions of the server only compute, an error of data (division by zero, a date out of
 * range) leaves nothing behind.  Others may hold resources, or have done something, and wait.
 * Operators are called the same way for rows that may not be asked for, as by LIMIT.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "lsm_predicate.h"
#include "nodes/nodeFuncs.h"
#include "utils/syscache.h"

/* Does it call functions of the types that it is given (array_eq), which may be anybody's? */
static bool
lsm_predicate_calls_others(Form_pg_proc proc)
{
	for (int i = 0; i < proc->pronargs; i++)
		if (IsPolymorphicType(proc->proargtypes.values[i]) ||
			proc->proargtypes.values[i] == RECORDOID)
			return true;
	return false;
}

LsmRisk
lsm_predicate_function_risk(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	LsmRisk		risk = LSM_RISK_WAIT;

	if (!HeapTupleIsValid(tuple))
		return risk;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->proleakproof)
		risk = LSM_RISK_NONE;
	else if (lsm_predicate_calls_others(proc))
		risk = LSM_RISK_WAIT;
	else if (function < FirstNormalObjectId && proc->prolang == INTERNALlanguageId &&
			 !proc->prosecdef && heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL))
	{
		switch (proc->prorettype)
		{
			case DATEOID:
			case TIMEOID:
			case TIMETZOID:
			case TIMESTAMPOID:
			case TIMESTAMPTZOID:
			case INTERVALOID:
				/* these are stable where they go by the time zone */
				if (proc->provolatile != PROVOLATILE_VOLATILE)
					risk = LSM_RISK_TRY;
				break;
			default:
				if (proc->provolatile == PROVOLATILE_IMMUTABLE)
					risk = LSM_RISK_TRY;
		}
	}
	ReleaseSysCache(tuple);
	return risk;
}

static bool
lsm_predicate_function_exceeds(Oid function, void *risk)
{
	return lsm_predicate_function_risk(function) > *(LsmRisk *) risk;
}

static bool
lsm_predicate_exceeds_walker(Node *node, void *risk)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, lsm_predicate_function_exceeds, risk))
		return true;
	switch (nodeTag(node))
	{
		case T_Const:
		case T_Param:
		case T_Var:
		case T_RelabelType:
		case T_CollateExpr:
		case T_FuncExpr:
		case T_OpExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_DistinctExpr:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_SQLValueFunction:
		case T_List:
			break;
		case T_ArrayExpr:
			/* arrays of it may be of different lengths */
			if (((ArrayExpr *) node)->multidims && *(LsmRisk *) risk == LSM_RISK_NONE)
				return true;
			break;
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
			if (*(LsmRisk *) risk == LSM_RISK_NONE)
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, lsm_predicate_exceeds_walker, risk);
}

LsmRisk
lsm_predicate_risk(Expr *expr)
{
	LsmRisk		risk;

	for (risk = LSM_RISK_NONE; risk < LSM_RISK_WAIT; risk++)
		if (!lsm_predicate_exceeds_walker((Node *) expr, &risk))
			break;
	return risk;
}

/*
 * In PG_CATCH(): forget an error of data, else throw it on.  Nothing but memory was taken.  Where
 * there are parallel workers, it may be the error of one of these, which comes when the function
 * looks at interrupts.
 */
void
lsm_predicate_forget_error(MemoryContext caller)
{
	MemoryContextSwitchTo(caller);
	if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_DATA_EXCEPTION || ParallelContextActive())
		PG_RE_THROW();
	FlushErrorState();
}
