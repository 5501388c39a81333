/*-------------------------------------------------------------------------
 *
 * lsm_predicate.c
 *	  Conditions of a query that can be looked at by column.
 *
 * A predicate compares one column with something that does not change while a scan
 * runs: a constant, a parameter, now(), a row of an outer relation.  It becomes a
 * range of integers wherever the column has an order of integers: dates,
 * timestamps, floats (lsm_float_order) and numerics of one scale too.  All others
 * call the operator's function, once for each value that is stored.
 *
 * WHICH OPERATORS
 *	  Those of the default btree operator class of the column's type, its
 *	  complement "<>", and any other that is the server's own, strict and
 *	  immutable (LIKE, for one).  Functions made by users may have effects, which
 *	  must not depend on how rows are stored.
 *
 * ZONE MAPS
 *	  Their bounds are used where their order is the operator's: numbers, dates,
 *	  and strings by bytes, which serves equality and beginnings under every
 *	  deterministic collation, and other comparisons under C.  What a table's zone map says
 *	  of a column whose type is not the one that the query sees is not asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "lsm_numbers.h"
#include "lsm_predicate.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/pg_locale.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

/* ---- recognizing ---- */

/* The column that an expression is, 0 if it is none. */
static AttrNumber
lsm_predicate_column(Node *node, Index varno, Oid *type)
{
	Var		   *var;

	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	if (node == NULL || !IsA(node, Var))
		return 0;
	var = (Var *) node;
	if (var->varno != (int) varno || var->varlevelsup != 0 || var->varattno <= 0)
		return 0;
	*type = getBaseType(var->vartype);
	return var->varattno;
}

static bool
lsm_predicate_varies_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varno == *(int *) context || ((Var *) node)->varlevelsup != 0;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) ||
		IsA(node, CurrentOfExpr) || IsA(node, PlaceHolderVar) || IsA(node, Aggref) ||
		IsA(node, WindowFunc) || IsA(node, GroupingFunc) || IsA(node, SetToDefault))
		return true;
	return expression_tree_walker(node, lsm_predicate_varies_walker, context);
}

/*
 * Is it the same for all rows of a scan of varno?  Columns of outer relations are
 * parameters by the time the plan runs.
 */
static bool
lsm_predicate_is_fixed(Node *node, int varno)
{
	return !lsm_predicate_varies_walker(node, &varno) && !contain_volatile_functions(node);
}

static LsmNumberOrder
lsm_predicate_order(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case MONEYOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case BOOLOID:
			return LSM_NUMBER_SIGNED;
		case OIDOID:
			return LSM_NUMBER_UNSIGNED32;
		case FLOAT4OID:
			return LSM_NUMBER_FLOAT4;
		case FLOAT8OID:
			return LSM_NUMBER_FLOAT8;
		case NUMERICOID:
			return LSM_NUMBER_SCALED;
	}
	return LSM_NUMBER_NONE;
}

static bool
lsm_predicate_is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Can a column of that type be compared by number with a value of that one? */
static bool
lsm_predicate_pair(Oid coltype, Oid valtype)
{
	if (coltype == valtype)
		return true;
	if (lsm_predicate_is_integer(coltype))
		return lsm_predicate_is_integer(valtype);
	if (coltype == FLOAT4OID || coltype == FLOAT8OID)
		return valtype == FLOAT4OID || valtype == FLOAT8OID;
	return lsm_predicate_time_converts(coltype, valtype);
}

static bool
lsm_predicate_is_string(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == BYTEAOID || type == UUIDOID ||
		type == BPCHAROID;
}

/* Are two types of strings compared alike?  bpchar's have no blanks at their ends. */
static bool
lsm_predicate_string_pair(Oid coltype, Oid valtype)
{
	return lsm_predicate_is_string(coltype) && lsm_predicate_is_string(valtype) &&
		(coltype == BPCHAROID) == (valtype == BPCHAROID);
}

/*
 * Are strings compared by a collation that is not known?  The server raises an error where it
 * comes to do that.
 */
static bool
lsm_predicate_lacks_collation(const LsmPredicate *predicate)
{
	return !OidIsValid(predicate->collation) && OidIsValid(get_typcollation(predicate->coltype));
}

/*
 * May the operator's function raise an error for some value?  Comparisons by number or by
 * bytes do without it.
 */
static bool
lsm_predicate_call_may_fail(const LsmPredicate *predicate)
{
	return !get_func_leakproof(predicate->function.fn_oid) ||
		lsm_predicate_lacks_collation(predicate);
}

static bool
lsm_predicate_deterministic(Oid collation)
{
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/* What the operator is in the default btree operator family of the column's type; 0: nothing. */
static int
lsm_predicate_strategy(Oid opno, Oid coltype)
{
	TypeCacheEntry *type = lookup_type_cache(coltype, TYPECACHE_BTREE_OPFAMILY);
	int			strategy;

	if (!OidIsValid(type->btree_opf))
		return 0;
	strategy = get_op_opfamily_strategy(opno, type->btree_opf);
	if (strategy == 0)
	{
		Oid			negator = get_negator(opno);

		if (OidIsValid(negator) &&
			get_op_opfamily_strategy(negator, type->btree_opf) == BTEqualStrategyNumber)
			strategy = LSM_STRATEGY_NE;
	}
	return strategy;
}

/*
 * May the operator's function be called for values rather than for rows?  Of those that are not
 * immutable only such as go by the time zone: others may depend on what a scan does.
 */
static bool
lsm_predicate_function_fits(Oid function, Oid coltype, Oid valtype)
{
	if (function >= FirstNormalObjectId || !func_strict(function))
		return false;
	return func_volatile(function) == PROVOLATILE_IMMUTABLE ||
		(func_volatile(function) == PROVOLATILE_STABLE &&
		 (lsm_predicate_time_converts(coltype, valtype) ||
		  lsm_predicate_time_is_near(coltype, valtype)));
}

static void lsm_predicate_rescale(LsmCondition *condition, int scale);
static bool lsm_predicate_test(LsmCondition *condition, Datum value);

/* A pattern that is not known yet is taken for one with a beginning, if it is not a row's. */
static void
lsm_predicate_classify_prefix(LsmPredicate *predicate)
{
	Const	   *pattern = (Const *) predicate->expr;
	LsmPrefix	prefix;

	/* newer servers raise an error where the collation is not known */
	if (predicate->array || predicate->swapped || lsm_predicate_lacks_collation(predicate) ||
		!lsm_predicate_deterministic(predicate->collation))
		return;
	predicate->strategy = LSM_STRATEGY_PREFIX;
	predicate->zones = IsA(pattern, Param);
	if (IsA(pattern, Const) && !pattern->constisnull)
	{
		lsm_predicate_get_prefix(predicate->function.fn_oid, pattern->constvalue, &prefix);
		predicate->zones = prefix.len > 0;
		predicate->may_fail = prefix.fails;
	}
}

/* Choose how values are compared. */
static void
lsm_predicate_classify(LsmPredicate *predicate, Oid opno)
{
	LsmCondition *condition = &predicate->condition;
	Oid			coltype = predicate->coltype;
	TypeCacheEntry *type;

	predicate->strategy = lsm_predicate_strategy(opno, coltype);
	condition->kind = LSM_COND_TEST;
	condition->order = LSM_NUMBER_NONE;
	condition->test = lsm_predicate_test;
	condition->rescale = lsm_predicate_rescale;
	condition->outside = predicate->all;
	if (lsm_predicate_is_prefix(predicate->function.fn_oid, coltype))
	{
		predicate->may_fail = lsm_predicate_call_may_fail(predicate);
		lsm_predicate_classify_prefix(predicate);
		return;
	}
	if (predicate->strategy == 0 ||
		(predicate->array && predicate->strategy !=
		 (predicate->all ? LSM_STRATEGY_NE : BTEqualStrategyNumber)))
	{
		predicate->may_fail = lsm_predicate_call_may_fail(predicate);
		return;
	}
	predicate->bytes = lsm_predicate_string_pair(coltype, predicate->valtype) &&
		(predicate->strategy == BTEqualStrategyNumber || predicate->strategy == LSM_STRATEGY_NE) &&
		!lsm_predicate_lacks_collation(predicate) &&
		lsm_predicate_deterministic(predicate->collation);
	if (lsm_predicate_pair(coltype, predicate->valtype) &&
		lsm_predicate_order(coltype) != LSM_NUMBER_NONE)
	{
		condition->order = lsm_predicate_order(coltype);
		condition->kind = predicate->array ? LSM_COND_SET : LSM_COND_RANGE;
		predicate->zones = true;
		if (condition->order == LSM_NUMBER_SCALED)
		{
			type = lookup_type_cache(coltype, TYPECACHE_CMP_PROC_FINFO);
			fmgr_info_copy(&predicate->compare, &type->cmp_proc_finfo, CurrentMemoryContext);
		}
	}
	else if (lsm_predicate_time_is_near(coltype, predicate->valtype))
		predicate->zones = predicate->near = !predicate->array &&
			predicate->strategy != LSM_STRATEGY_NE;
	else if (predicate->bytes)
		predicate->zones = predicate->strategy == BTEqualStrategyNumber;
	else
		predicate->zones = lsm_predicate_string_pair(coltype, predicate->valtype) &&
			!lsm_predicate_lacks_collation(predicate) &&
			(!OidIsValid(predicate->collation) ||
			 lsm_compat_collate_is_c(predicate->collation)) &&
			predicate->strategy != LSM_STRATEGY_NE;
	if (condition->kind == LSM_COND_TEST && !predicate->bytes)
		predicate->may_fail = lsm_predicate_call_may_fail(predicate);
}

static LsmPredicate *
lsm_predicate_make_op(Oid opno, Oid function, Oid collation, Node *left, Node *right, Index varno,
					  bool array, bool all)
{
	LsmPredicate *predicate;
	Oid			coltype = InvalidOid;
	Oid			valtype;
	AttrNumber	attnum = lsm_predicate_column(left, varno, &coltype);
	bool		swapped = false;

	if (attnum == 0 && !array)
	{
		Node	   *other = left;

		attnum = lsm_predicate_column(right, varno, &coltype);
		left = right;
		right = other;
		swapped = true;
		if (attnum != 0 && OidIsValid(get_commutator(opno)))
		{
			opno = get_commutator(opno);
			function = get_opcode(opno);
			swapped = false;
		}
	}
	if (attnum == 0 || !lsm_predicate_is_fixed(right, varno) || get_op_rettype(opno) != BOOLOID)
		return NULL;
	valtype = getBaseType(exprType(right));
	if (array)
		valtype = getBaseType(get_base_element_type(valtype));
	if (!OidIsValid(valtype) || !lsm_predicate_function_fits(function, coltype, valtype))
		return NULL;

	predicate = palloc0(sizeof(LsmPredicate));
	predicate->condition.attnum = attnum;
	predicate->coltype = coltype;
	predicate->array = array;
	predicate->all = all;
	predicate->swapped = swapped;
	predicate->collation = collation;
	predicate->expr = (Expr *) right;
	predicate->valtype = valtype;
	fmgr_info(function, &predicate->function);
	lsm_predicate_classify(predicate, opno);
	return all && predicate->strategy != LSM_STRATEGY_NE ? NULL : predicate;
}

/* Is it an array that is known, and has elements? */
static bool
lsm_predicate_is_list(Node *node)
{
	Const	   *array = (Const *) node;

	return IsA(node, Const) && !array->constisnull &&
		ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(array->constvalue)),
					   ARR_DIMS(DatumGetArrayTypeP(array->constvalue))) > 0;
}

/* A boolean column by itself, or NOT of one. */
static LsmPredicate *
lsm_predicate_make_bool(Node *node, Index varno, bool wanted)
{
	LsmPredicate *predicate;
	Oid			coltype;
	AttrNumber	attnum = lsm_predicate_column(node, varno, &coltype);

	if (attnum == 0 || coltype != BOOLOID)
		return NULL;
	predicate = palloc0(sizeof(LsmPredicate));
	predicate->condition.attnum = attnum;
	predicate->condition.kind = LSM_COND_RANGE;
	predicate->condition.order = LSM_NUMBER_SIGNED;
	predicate->condition.lo = predicate->condition.hi = wanted;
	predicate->coltype = BOOLOID;
	predicate->strategy = BTEqualStrategyNumber;
	predicate->zones = true;
	return predicate;
}

static LsmPredicate *
lsm_predicate_make_null_test(NullTest *test, Index varno)
{
	LsmPredicate *predicate;
	Oid			coltype;
	AttrNumber	attnum = lsm_predicate_column((Node *) test->arg, varno, &coltype);

	if (attnum == 0 || test->argisrow)
		return NULL;
	predicate = palloc0(sizeof(LsmPredicate));
	predicate->condition.attnum = attnum;
	predicate->condition.kind = test->nulltesttype == IS_NULL ? LSM_COND_NULL : LSM_COND_NOT_NULL;
	predicate->coltype = coltype;
	predicate->zones = true;
	return predicate;
}

LsmPredicate *
lsm_predicate_make(Expr *clause, Index varno)
{
	if (IsA(clause, OpExpr))
	{
		OpExpr	   *op = (OpExpr *) clause;

		if (list_length(op->args) != 2 || op->opretset)
			return NULL;
		return lsm_predicate_make_op(op->opno, get_opcode(op->opno), op->inputcollid,
									 linitial(op->args), lsecond(op->args), varno, false, false);
	}
	if (IsA(clause, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) clause;

		/* <> ALL of an empty array is met by nulls, too */
		if (!op->useOr && !lsm_predicate_is_list(lsecond(op->args)))
			return NULL;
		return lsm_predicate_make_op(op->opno, get_opcode(op->opno), op->inputcollid,
									 linitial(op->args), lsecond(op->args), varno, true,
									 !op->useOr);
	}
	if (IsA(clause, NullTest))
		return lsm_predicate_make_null_test((NullTest *) clause, varno);
	if (is_notclause(clause))
		return lsm_predicate_make_bool((Node *) get_notclausearg(clause), varno, false);
	return lsm_predicate_make_bool((Node *) clause, varno, true);
}

/* ---- values ---- */

static bool
lsm_predicate_params_walker(Node *node, Bitmapset **params)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		*params = bms_add_member(*params, ((Param *) node)->paramid);
	return expression_tree_walker(node, lsm_predicate_params_walker, params);
}

void
lsm_predicate_init(LsmPredicate *predicate, PlanState *parent)
{
	if (predicate->expr == NULL)
		return;
	predicate->state = ExecInitExpr(predicate->expr, parent);
	(void) lsm_predicate_params_walker((Node *) predicate->expr, &predicate->params);
	predicate->risk = lsm_predicate_risk(predicate->expr);
	predicate->context = AllocSetContextCreate(CurrentMemoryContext, "lsm predicate",
											   ALLOCSET_SMALL_SIZES);
}

/*
 * Memory of tests, made when it is first needed.  What looking at a block takes fits in
 * what is kept when it is reset.
 */
static MemoryContext
lsm_predicate_scratch(LsmPredicate *predicate)
{
	if (unlikely(predicate->scratch == NULL))
		predicate->scratch = AllocSetContextCreate(GetMemoryChunkContext(predicate),
												   "lsm predicate test",
												   ALLOCSET_DEFAULT_SIZES);
	return predicate->scratch;
}

/* No test is to come soon. */
void
lsm_predicate_rest(LsmPredicate *predicate)
{
	if (predicate->scratch != NULL)
		MemoryContextDelete(predicate->scratch);
	predicate->scratch = NULL;
}

/* A value as a number of the column's order. */
static int64
lsm_predicate_number(Oid type, Datum value)
{
	switch (type)
	{
		case BOOLOID:
			return DatumGetBool(value);
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		case OIDOID:
			return DatumGetObjectId(value);
		case FLOAT4OID:
			return lsm_float_order(DatumGetFloat4(value));
		case FLOAT8OID:
			return lsm_float_order(DatumGetFloat8(value));
		default:
			return DatumGetInt64(value);
	}
}

/*
 * Set the range of numbers that the strategy means, for a value that lies at at,
 * or (exact is false) between at and the number behind it.
 */
static void
lsm_predicate_bounds(int strategy, int64 at, bool exact, int64 *lo, int64 *hi)
{
	*lo = PG_INT64_MIN;
	*hi = PG_INT64_MAX;
	switch (strategy)
	{
		case BTLessStrategyNumber:
		case BTLessEqualStrategyNumber:
			*hi = at;
			if (strategy == BTLessStrategyNumber && exact)
			{
				if (at == PG_INT64_MIN)
					*lo = at + 1;
				else
					*hi = at - 1;
			}
			break;
		case BTGreaterStrategyNumber:
		case BTGreaterEqualStrategyNumber:
			*lo = at;
			if (strategy == BTGreaterStrategyNumber || !exact)
			{
				if (at == PG_INT64_MAX)
					*hi = at - 1;
				else
					*lo = at + 1;
			}
			break;
		default:
			*lo = exact ? at : 1;
			*hi = exact ? at : 0;
			break;
	}
}

/* The same of a value as it is compared; exact is false where it lies between two numbers. */
static int64
lsm_predicate_at(const LsmPredicate *predicate, Datum value, bool *exact)
{
	if (lsm_predicate_time_converts(predicate->coltype, predicate->valtype))
		return lsm_predicate_time_at(predicate->coltype, predicate->valtype, value, exact);
	*exact = true;
	return lsm_predicate_number(predicate->valtype, value);
}

/* Is an integer out of the range of int64?  Then the nearest in it. */
static bool
lsm_predicate_beyond(Datum integer, int64 *nearest)
{
	static const int64 ends[] = {PG_INT64_MIN, PG_INT64_MAX};

	for (size_t i = 0; i < lengthof(ends); i++)
	{
		Datum		end = DirectFunctionCall1(int8_numeric, Int64GetDatum(ends[i]));

		*nearest = ends[i];
		if (DatumGetBool(DirectFunctionCall2(ends[i] < 0 ? numeric_lt : numeric_gt, integer, end)))
			return true;
	}
	return false;
}

/*
 * The integer part of a finite numeric times a power of ten, with whether that is all of
 * it.  Out of range it is the nearest number, and not all: a row may have the greatest, and
 * is below the numeric then; none has the least (lsm_numeric_parse()).
 */
static int64
lsm_predicate_floor(Datum value, int64 power, bool *exact)
{
	Datum		factor = DirectFunctionCall1(int8_numeric, Int64GetDatum(power));
	Datum		product;
	Datum		floor;
	int64		nearest;

	*exact = false;

	/* the product may be more than a numeric holds */
	if (lsm_predicate_beyond(DirectFunctionCall1(numeric_floor, value), &nearest))
		return nearest;
	product = DirectFunctionCall2(numeric_mul, value, factor);
	floor = DirectFunctionCall1(numeric_floor, product);
	if (lsm_predicate_beyond(floor, &nearest))
		return nearest;
	*exact = DatumGetBool(DirectFunctionCall2(numeric_eq, floor, product));
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, floor));
}

/* Where a numeric lies among integers of a scale. */
static int64
lsm_predicate_scaled_at(Datum value, int scale, bool *exact)
{
	int64		power = 1;

	*exact = false;
	if (numeric_is_nan(DatumGetNumeric(value)))
		return PG_INT64_MAX;
	if (numeric_is_inf(DatumGetNumeric(value)))
	{
		Datum		zero = DirectFunctionCall1(int8_numeric, Int64GetDatum(0));

		return DatumGetBool(DirectFunctionCall2(numeric_lt, value, zero)) ?
			PG_INT64_MIN : PG_INT64_MAX;
	}
	for (int i = 0; i < scale; i++)
		power *= 10;
	return lsm_predicate_floor(value, power, exact);
}

static int
lsm_predicate_compare(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/*
 * What the value is, or the values of a list are, among integers of a scale.  Called in
 * predicate->scratch.
 */
static void
lsm_predicate_rescale(LsmCondition *condition, int scale)
{
	LsmPredicate *predicate = (LsmPredicate *) condition;
	int64	   *set;
	int64		at;
	bool		exact;

	Assert(scale >= 0 && scale < LSM_PREDICATE_SCALES);
	if (!predicate->scaled[scale] && predicate->array)
	{
		set = MemoryContextAlloc(predicate->context, Max(predicate->nvalues, 1) * sizeof(int64));
		predicate->scaled_set[scale] = set;
		predicate->scaled_nset[scale] = 0;
		for (int i = 0; i < predicate->nvalues; i++)
		{
			at = lsm_predicate_scaled_at(predicate->values[i], scale, &exact);
			if (exact)
				set[predicate->scaled_nset[scale]++] = at;
		}
		qsort(set, predicate->scaled_nset[scale], sizeof(int64), lsm_predicate_compare);
	}
	else if (!predicate->scaled[scale])
	{
		at = lsm_predicate_scaled_at(predicate->value, scale, &exact);
		lsm_predicate_bounds(predicate->strategy, at, exact,
							 &predicate->scaled_lo[scale], &predicate->scaled_hi[scale]);
	}
	predicate->scaled[scale] = true;
	condition->lo = predicate->scaled_lo[scale];
	condition->hi = predicate->scaled_hi[scale];
	condition->set = predicate->scaled_set[scale];
	condition->nset = predicate->scaled_nset[scale];
}

/* The bytes of a string that count. */
static const char *
lsm_predicate_string(Oid type, Datum value, Size *len)
{
	struct varlena *string;
	const char *bytes;

	if (type == UUIDOID)
	{
		*len = UUID_LEN;
		return DatumGetPointer(value);
	}
	string = PG_DETOAST_DATUM_PACKED(value);
	bytes = VARDATA_ANY(string);
	*len = VARSIZE_ANY_EXHDR(string);
	while (type == BPCHAROID && *len > 0 && bytes[*len - 1] == ' ')
		(*len)--;
	return bytes;
}

/* Order of two strings of bytes, as zone maps have it. */
static int
lsm_predicate_compare_bytes(Oid xtype, Datum a, Oid ytype, Datum b)
{
	Size		xlen;
	Size		ylen;
	const char *x = lsm_predicate_string(xtype, a, &xlen);
	const char *y = lsm_predicate_string(ytype, b, &ylen);
	int			result = memcmp(x, y, Min(xlen, ylen));

	return result != 0 ? result : xlen < ylen ? -1 : xlen > ylen;
}

/* Where a value lies beside another in the order of zone maps: below 0, at 0, above. */
static int
lsm_predicate_compare_value(LsmPredicate *predicate, Datum a, Datum b)
{
	if (predicate->condition.order == LSM_NUMBER_SCALED)
		return DatumGetInt32(FunctionCall2Coll(&predicate->compare, InvalidOid, a, b));
	return lsm_predicate_compare_bytes(predicate->coltype, a, predicate->coltype, b);
}

/*
 * The same of a bound.  One that was shortened may end in a blank that counts: it is not that
 * of a value.
 */
static int
lsm_predicate_compare_zone(LsmPredicate *predicate, Datum bound, Datum value)
{
	if (predicate->coltype == BPCHAROID)
		return lsm_predicate_compare_bytes(TEXTOID, bound, BPCHAROID, value);
	return lsm_predicate_compare_value(predicate, bound, value);
}

static int
lsm_predicate_compare_values(const void *a, const void *b, void *predicate)
{
	return lsm_predicate_compare_value(predicate, *(const Datum *) a, *(const Datum *) b);
}

/* Take an array apart; in predicate->context. */
static void
lsm_predicate_start_array(LsmPredicate *predicate)
{
	LsmCondition *condition = &predicate->condition;
	ArrayType  *array = DatumGetArrayTypePCopy(predicate->value);
	Datum	   *values;
	bool	   *isnull;
	int			n;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign,
					  &values, &isnull, &n);
	predicate->values = values;
	predicate->nvalues = 0;
	for (int i = 0; i < n; i++)
		if (!isnull[i])
			values[predicate->nvalues++] = values[i];
	predicate->never = predicate->all ? predicate->nvalues < n : predicate->nvalues == 0;
	predicate->sorted = predicate->bytes || condition->order == LSM_NUMBER_SCALED;
	if (predicate->sorted)
		qsort_arg(values, predicate->nvalues, sizeof(Datum), lsm_predicate_compare_values,
				  predicate);
	else if (condition->kind == LSM_COND_SET)
	{
		int64	   *set = palloc(Max(predicate->nvalues, 1) * sizeof(int64));
		int			kept = 0;

		for (int i = 0; i < predicate->nvalues; i++)
		{
			bool		exact;

			set[kept] = lsm_predicate_at(predicate, values[i], &exact);
			kept += exact;
		}
		qsort(set, kept, sizeof(int64), lsm_predicate_compare);
		condition->set = set;
		condition->nset = kept;
		predicate->never |= kept == 0 && !predicate->all;
	}
}

/* The range of the column outside of which zone maps say that no value meets the comparison. */
static void
lsm_predicate_start_near(LsmPredicate *predicate)
{
	lsm_predicate_time_near(predicate->coltype, DatumGetTimestampTz(predicate->value),
							&predicate->near_lo, &predicate->near_hi);
	switch (predicate->strategy)
	{
		case BTLessStrategyNumber:
		case BTLessEqualStrategyNumber:
			predicate->near_lo = PG_INT64_MIN;
			break;
		case BTGreaterStrategyNumber:
		case BTGreaterEqualStrategyNumber:
			predicate->near_hi = PG_INT64_MAX;
			break;
	}
}

/* Is one of its parameters the value of a subquery that has not run? */
static bool
lsm_predicate_asks_subquery(const LsmPredicate *predicate)
{
	int			param = -1;

	while ((param = bms_next_member(predicate->params, param)) >= 0)
		if (predicate->econtext->ecxt_param_exec_vals[param].execPlan != NULL)
			return true;
	return false;
}

/* Evaluate it, if that raises no error. */
static void
lsm_predicate_try(LsmPredicate *predicate)
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		lsm_predicate_compute(predicate);
	}
	PG_CATCH();
	{
		lsm_predicate_forget_error(caller);
		predicate->never = false;
		predicate->waits = true;
		predicate->fails = true;
	}
	PG_END_TRY();
}

void
lsm_predicate_start(LsmPredicate *predicate, ExprContext *econtext)
{
	predicate->never = false;
	predicate->zone.uid = 0;
	predicate->segment = 0;
	predicate->econtext = econtext;
	predicate->fails = false;
	predicate->waits = predicate->risk == LSM_RISK_WAIT || lsm_predicate_asks_subquery(predicate);
	if (predicate->expr == NULL || predicate->waits)
		return;
	if (predicate->risk == LSM_RISK_TRY)
		lsm_predicate_try(predicate);
	else
		lsm_predicate_compute(predicate);
}

/* Evaluate what the column is compared with. */
void
lsm_predicate_compute(LsmPredicate *predicate)
{
	LsmCondition *condition = &predicate->condition;
	MemoryContext caller;
	bool		isnull;
	Datum		value;
	int16		typlen;
	bool		typbyval;

	MemoryContextReset(predicate->context);
	memset(predicate->scaled, 0, sizeof(predicate->scaled));
	value = ExecEvalExprSwitchContext(predicate->state, predicate->econtext, &isnull);
	predicate->waits = false;
	if (isnull)
	{
		predicate->never = true;
		return;
	}
	caller = MemoryContextSwitchTo(predicate->context);
	if (predicate->array)
	{
		predicate->value = value;
		lsm_predicate_start_array(predicate);
		MemoryContextSwitchTo(caller);
		return;
	}
	get_typlenbyval(predicate->valtype, &typlen, &typbyval);
	if (typlen == -1)
		predicate->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	else
		predicate->value = datumCopy(value, typbyval, typlen);
	if (condition->kind == LSM_COND_RANGE)
	{
		condition->outside = predicate->strategy == LSM_STRATEGY_NE;
		if (condition->order != LSM_NUMBER_SCALED)
		{
			bool		exact;
			int64		at = lsm_predicate_at(predicate, value, &exact);

			lsm_predicate_bounds(predicate->strategy, at, exact, &condition->lo, &condition->hi);
		}
	}
	if (predicate->near)
		lsm_predicate_start_near(predicate);
	if (predicate->strategy == LSM_STRATEGY_PREFIX)
		lsm_predicate_get_prefix(predicate->function.fn_oid, predicate->value,
								 &predicate->prefix);
	MemoryContextSwitchTo(caller);
}

/* ---- tests ---- */

/* Are two strings the same bytes? */
static bool
lsm_predicate_same_bytes(LsmPredicate *predicate, Datum a, Datum b)
{
	Size		xlen;
	Size		ylen;
	const char *x = lsm_predicate_string(predicate->coltype, a, &xlen);
	const char *y = lsm_predicate_string(predicate->coltype, b, &ylen);

	return xlen == ylen && memcmp(x, y, xlen) == 0;
}

/* Where a string, or a bound, lies beside those that begin as is asked for. */
static int
lsm_predicate_beside_prefix(const LsmPredicate *predicate, Datum string)
{
	Size		len;
	const char *bytes = lsm_predicate_string(predicate->coltype, string, &len);

	return lsm_predicate_compare_prefix(&predicate->prefix, bytes, len);
}

/* The first of a sorted list that is not less than a value, or (compare) a bound. */
static int
lsm_predicate_search(LsmPredicate *predicate, Datum value,
					 int (*compare) (LsmPredicate *predicate, Datum a, Datum b))
{
	int			lo = 0;
	int			hi = predicate->nvalues;

	while (lo < hi)
	{
		int			middle = lo + (hi - lo) / 2;

		if (compare(predicate, value, predicate->values[middle]) > 0)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

/* Call the operator's function.  It may return null, which is not true. */
static bool
lsm_predicate_call(LsmPredicate *predicate, Datum left, Datum right)
{
	LOCAL_FCINFO(call, 2);
	Datum		result;

	InitFunctionCallInfoData(*call, &predicate->function, 2, predicate->collation, NULL, NULL);
	call->args[0].value = left;
	call->args[0].isnull = false;
	call->args[1].value = right;
	call->args[1].isnull = false;
	result = FunctionCallInvoke(call);
	return !call->isnull && DatumGetBool(result);
}

/* The same; an error of data is noted, and no more calls are made for the block. */
static bool
lsm_predicate_call_deferring(LsmPredicate *predicate, Datum left, Datum right)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool result = true;

	if (predicate->failed)
		return true;
	PG_TRY();
	{
		result = lsm_predicate_call(predicate, left, right);
	}
	PG_CATCH();
	{
		lsm_predicate_forget_error(caller);
		predicate->failed = true;
	}
	PG_END_TRY();
	return result;
}

static bool
lsm_predicate_test_one(LsmPredicate *predicate, Datum column, Datum value)
{
	if (predicate->bytes)
		return lsm_predicate_same_bytes(predicate, column, value) ==
			(predicate->strategy == BTEqualStrategyNumber);
	if (predicate->strategy == LSM_STRATEGY_PREFIX && predicate->prefix.len > 0)
	{
		if (lsm_predicate_beside_prefix(predicate, column) != 0)
			return false;
		if (predicate->prefix.all)
			return true;
	}
	if (predicate->defers)
		return predicate->swapped ? lsm_predicate_call_deferring(predicate, value, column) :
			lsm_predicate_call_deferring(predicate, column, value);
	if (predicate->swapped)
		return lsm_predicate_call(predicate, value, column);
	return lsm_predicate_call(predicate, column, value);
}

static bool
lsm_predicate_test(LsmCondition *condition, Datum column)
{
	LsmPredicate *predicate = (LsmPredicate *) condition;

	if (!predicate->array)
		return lsm_predicate_test_one(predicate, column, predicate->value);
	if (predicate->sorted)
	{
		int			at = lsm_predicate_search(predicate, column, lsm_predicate_compare_value);
		bool		found = at < predicate->nvalues &&
			lsm_predicate_compare_value(predicate, column, predicate->values[at]) == 0;

		return found != predicate->all;
	}
	for (int i = 0; i < predicate->nvalues; i++)
		if (lsm_predicate_test_one(predicate, column, predicate->values[i]) != predicate->all)
			return !predicate->all;
	return predicate->all;
}

/* May its range be looked at together with others? */
static bool
lsm_predicate_is_range(const LsmPredicate *predicate)
{
	const LsmCondition *condition = &predicate->condition;

	return !predicate->waits && !predicate->never && condition->kind == LSM_COND_RANGE &&
		!condition->outside;
}

void
lsm_predicates_join(LsmPredicate **predicates, int n)
{
	for (int i = 0; i < n; i++)
	{
		predicates[i]->condition.also = NULL;
		predicates[i]->joined = false;
	}
	for (int i = 0; i < n; i++)
	{
		LsmCondition *last = &predicates[i]->condition;

		if (!lsm_predicate_is_range(predicates[i]) || predicates[i]->joined)
			continue;
		for (int j = i + 1; j < n; j++)
		{
			LsmCondition *other = &predicates[j]->condition;

			if (!lsm_predicate_is_range(predicates[j]) || other->attnum != last->attnum ||
				other->order != last->order)
				continue;
			predicates[j]->joined = true;
			last->also = other;
			last = other;
		}
	}
}

void
lsm_predicate_ask(LsmPredicate *predicate, const uint8 *mask, int rows)
{
	if (predicate->waits && memchr(mask, 1, rows) != NULL)
		lsm_predicate_compute(predicate);
}

int
lsm_predicate_select(LsmPredicate *predicate, LsmBlock *block, uint8 *mask)
{
	MemoryContext caller;
	int			left;

	predicate->failed = false;
	if (predicate->waits && predicate->left)
		return lsm_numbers_count(mask, lsm_block_rows(block));
	if (predicate->waits)
	{
		if (memchr(mask, 1, lsm_block_rows(block)) == NULL)
			return 0;
		lsm_predicate_compute(predicate);
	}
	if (predicate->never)
	{
		memset(mask, 0, lsm_block_rows(block));
		return 0;
	}
	caller = MemoryContextSwitchTo(lsm_predicate_scratch(predicate));
	left = lsm_block_select(block, &predicate->condition, mask);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(predicate->scratch);
	return left;
}

/* ---- zone maps ---- */

static bool
lsm_predicate_zone_overlaps(LsmPredicate *predicate, const LsmZone *zone, Datum value)
{
	switch (predicate->strategy)
	{
		case BTLessStrategyNumber:
			return lsm_predicate_compare_zone(predicate, zone->min, value) < 0;
		case BTLessEqualStrategyNumber:
			return lsm_predicate_compare_zone(predicate, zone->min, value) <= 0;
		case BTEqualStrategyNumber:
			return lsm_predicate_compare_zone(predicate, zone->min, value) <= 0 &&
				lsm_predicate_compare_zone(predicate, zone->max, value) >= 0;
		case BTGreaterEqualStrategyNumber:
			return lsm_predicate_compare_zone(predicate, zone->max, value) >= 0;
		case BTGreaterStrategyNumber:
			return lsm_predicate_compare_zone(predicate, zone->max, value) > 0;
		case LSM_STRATEGY_PREFIX:
			return lsm_predicate_beside_prefix(predicate, zone->min) <= 0 &&
				lsm_predicate_beside_prefix(predicate, zone->max) >= 0;
		default:
			return lsm_predicate_compare_zone(predicate, zone->min, value) != 0 ||
				lsm_predicate_compare_zone(predicate, zone->max, value) != 0;
	}
}

/* Is there a number of a list between two? */
static bool
lsm_predicate_set_meets(const LsmCondition *condition, int64 min, int64 max)
{
	int			lo = 0;
	int			hi = condition->nset;

	while (lo < hi)
	{
		int			mid = lo + (hi - lo) / 2;

		if (condition->set[mid] < min)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < condition->nset && condition->set[lo] <= max;
}

static bool
lsm_predicate_zone_matches(LsmPredicate *predicate, const LsmZone *zone)
{
	LsmCondition *condition = &predicate->condition;
	int64		min;
	int64		max;

	switch (condition->kind)
	{
		case LSM_COND_NULL:
			return zone->has_null;
		case LSM_COND_NOT_NULL:
			return zone->has_value;
		default:
			break;
	}
	if (!zone->has_value)
		return false;
	if (condition->order != LSM_NUMBER_NONE && condition->order != LSM_NUMBER_SCALED)
	{
		min = lsm_predicate_number(predicate->coltype, zone->min);
		max = lsm_predicate_number(predicate->coltype, zone->max);
		if (condition->kind == LSM_COND_SET)
			return condition->outside ?
				min < max || !lsm_predicate_set_meets(condition, min, max) :
				lsm_predicate_set_meets(condition, min, max);
		if (condition->outside)
			return min < condition->lo || max > condition->hi || condition->lo > condition->hi;
		return min <= condition->hi && max >= condition->lo;
	}
	if (predicate->near)
		return lsm_predicate_number(predicate->coltype, zone->min) <= predicate->near_hi &&
			lsm_predicate_number(predicate->coltype, zone->max) >= predicate->near_lo;
	if (!predicate->array)
		return lsm_predicate_zone_overlaps(predicate, zone, predicate->value);
	if (predicate->all)
		return true;
	if (predicate->sorted)
	{
		int			at = lsm_predicate_search(predicate, zone->min, lsm_predicate_compare_zone);

		return at < predicate->nvalues &&
			lsm_predicate_compare_zone(predicate, zone->max, predicate->values[at]) >= 0;
	}
	for (int i = 0; i < predicate->nvalues; i++)
		if (lsm_predicate_zone_overlaps(predicate, zone, predicate->values[i]))
			return true;
	return false;
}

/* What the zone map tells of a block, or bounds (reader is NULL) of the segment as a whole. */
static bool
lsm_predicate_ask_zone(LsmPredicate *predicate, LsmSegmentReader *reader, uint32 blockno,
					   const LsmBounds *bounds)
{
	int			attnum = predicate->condition.attnum;
	MemoryContext caller = MemoryContextSwitchTo(lsm_predicate_scratch(predicate));
	LsmZone		zone;
	bool		matches = true;

	if (reader == NULL ? lsm_bounds_get(bounds, attnum, &zone) :
		lsm_segment_zone(reader, blockno, attnum, &zone))
		matches = lsm_predicate_zone_matches(predicate, &zone);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(predicate->scratch);
	return matches;
}

bool
lsm_predicate_may_match(LsmPredicate *predicate, LsmSegmentReader *reader, uint32 blockno)
{
	if (predicate->never)
		return false;
	if (!predicate->zones || predicate->waits ||
		lsm_segment_column_type(reader, predicate->condition.attnum) != predicate->coltype)
		return true;
	if (!lsm_segment_is_zone(reader, blockno, &predicate->zone))
	{
		predicate->zone_matches = lsm_predicate_ask_zone(predicate, reader, blockno, NULL);
		predicate->zone = lsm_segment_name_zone(reader, blockno);
	}
	return predicate->zone_matches;
}

bool
lsm_predicate_may_match_any(LsmPredicate *predicate, const LsmBounds *bounds)
{
	if (predicate->never)
		return false;
	if (!predicate->zones || predicate->waits || bounds == NULL ||
		lsm_bounds_column_type(bounds, predicate->condition.attnum) != predicate->coltype)
		return true;
	if (predicate->segment != lsm_bounds_uid(bounds))
	{
		predicate->segment_matches = lsm_predicate_ask_zone(predicate, NULL, 0, bounds);
		predicate->segment = lsm_bounds_uid(bounds);
	}
	return predicate->segment_matches;
}

/* Does every value between bounds meet a comparison? */
static bool
lsm_predicate_zone_inside(LsmPredicate *predicate, const LsmZone *zone)
{
	int			min;
	int			max;

	if (predicate->strategy == LSM_STRATEGY_PREFIX)
		return predicate->prefix.all &&
			lsm_predicate_beside_prefix(predicate, zone->min) == 0 &&
			lsm_predicate_beside_prefix(predicate, zone->max) == 0;
	min = lsm_predicate_compare_zone(predicate, zone->min, predicate->value);
	max = lsm_predicate_compare_zone(predicate, zone->max, predicate->value);
	switch (predicate->strategy)
	{
		case BTLessStrategyNumber:
			return max < 0;
		case BTLessEqualStrategyNumber:
			return max <= 0;
		case BTEqualStrategyNumber:
			return min == 0 && max == 0;
		case BTGreaterEqualStrategyNumber:
			return min >= 0;
		case BTGreaterStrategyNumber:
			return min > 0;
		case LSM_STRATEGY_NE:
			return min > 0 || max < 0;
		default:
			return false;
	}
}

static bool
lsm_predicate_zone_settles(LsmPredicate *predicate, const LsmZone *zone)
{
	LsmCondition *condition = &predicate->condition;
	int64		min;
	int64		max;

	if (condition->kind == LSM_COND_NULL)
		return !zone->has_value;
	if (zone->has_null || !zone->has_value)
		return false;
	if (condition->kind == LSM_COND_NOT_NULL)
		return true;
	if (predicate->near)
		return false;
	if (condition->order == LSM_NUMBER_NONE || condition->order == LSM_NUMBER_SCALED)
		return !predicate->array && lsm_predicate_zone_inside(predicate, zone);
	min = lsm_predicate_number(predicate->coltype, zone->min);
	max = lsm_predicate_number(predicate->coltype, zone->max);
	if (condition->kind == LSM_COND_SET)
		return lsm_predicate_set_meets(condition, min, max) ? min == max && !condition->outside :
			condition->outside;
	if (condition->outside)
		return max < condition->lo || min > condition->hi || condition->lo > condition->hi;
	return min >= condition->lo && max <= condition->hi;
}

bool
lsm_predicate_must_match(LsmPredicate *predicate, LsmSegmentReader *reader, uint32 blockno)
{
	int			attnum = predicate->condition.attnum;
	MemoryContext caller;
	LsmZone		zone;
	bool		settled;

	if (predicate->never || !predicate->zones || predicate->waits ||
		lsm_segment_column_type(reader, attnum) != predicate->coltype)
		return false;
	caller = MemoryContextSwitchTo(lsm_predicate_scratch(predicate));
	settled = lsm_segment_zone(reader, blockno, attnum, &zone) &&
		lsm_predicate_zone_settles(predicate, &zone);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(predicate->scratch);
	return settled;
}
