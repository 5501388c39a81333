/*-------------------------------------------------------------------------
 *
 * lsm_expression.c
 *	  Sums, differences, products and negatives of columns and constants, for all
 *	  rows of a block at once.
 *
 * Integers are what they are, dates too (of which there are differences only), numerics integers of a scale.  The result is the
 * server's: a sum or difference of numerics has the greater of both scales, a
 * product has their sum; and where integers overflow, the server raises an error.
 * So bounds go along with the numbers, from what the column's encoding tells up to
 * the result.  Where they leave the type of an operation (or 64 bits, for numerics),
 * or a column has no numbers, the expression fails for the block, and is computed
 * row by row by the server's functions: it may still be that no row overflows, or that
 * the row which does is none that is asked for.
 *
 * Numbers of rows that nobody asks for are computed as well; whatever comes out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lsm_codec.h"
#include "lsm_expression.h"
#include "lsm_floats.h"
#include "lsm_numbers.h"
#include "nodes/makefuncs.h"
#include "nodes/primnodes.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Greatest scale of a result: more does not fit, or is not worth it. */
#define LSM_EXPR_MAX_SCALE		18

/* What the server's functions are here. */
typedef struct LsmExpressionFunction
{
	Oid			function;
	LsmExpressionKind kind;
	Oid			type;			/* of the result */
} LsmExpressionFunction;

static const LsmExpressionFunction lsm_expression_functions[] = {
	{F_INT2PL, LSM_EXPR_ADD, INT2OID},
	{F_INT4PL, LSM_EXPR_ADD, INT4OID},
	{F_INT24PL, LSM_EXPR_ADD, INT4OID},
	{F_INT42PL, LSM_EXPR_ADD, INT4OID},
	{F_INT8PL, LSM_EXPR_ADD, INT8OID},
	{F_INT28PL, LSM_EXPR_ADD, INT8OID},
	{F_INT82PL, LSM_EXPR_ADD, INT8OID},
	{F_INT48PL, LSM_EXPR_ADD, INT8OID},
	{F_INT84PL, LSM_EXPR_ADD, INT8OID},
	{F_NUMERIC_ADD, LSM_EXPR_ADD, NUMERICOID},
	{F_FLOAT4PL, LSM_EXPR_ADD, FLOAT4OID},
	{F_FLOAT8PL, LSM_EXPR_ADD, FLOAT8OID},
	{F_FLOAT48PL, LSM_EXPR_ADD, FLOAT8OID},
	{F_FLOAT84PL, LSM_EXPR_ADD, FLOAT8OID},
	{F_INT2MI, LSM_EXPR_SUBTRACT, INT2OID},
	{F_INT4MI, LSM_EXPR_SUBTRACT, INT4OID},
	{F_INT24MI, LSM_EXPR_SUBTRACT, INT4OID},
	{F_INT42MI, LSM_EXPR_SUBTRACT, INT4OID},
	{F_INT8MI, LSM_EXPR_SUBTRACT, INT8OID},
	{F_INT28MI, LSM_EXPR_SUBTRACT, INT8OID},
	{F_INT82MI, LSM_EXPR_SUBTRACT, INT8OID},
	{F_INT48MI, LSM_EXPR_SUBTRACT, INT8OID},
	{F_INT84MI, LSM_EXPR_SUBTRACT, INT8OID},
	{F_NUMERIC_SUB, LSM_EXPR_SUBTRACT, NUMERICOID},
	{F_FLOAT4MI, LSM_EXPR_SUBTRACT, FLOAT4OID},
	{F_FLOAT8MI, LSM_EXPR_SUBTRACT, FLOAT8OID},
	{F_FLOAT48MI, LSM_EXPR_SUBTRACT, FLOAT8OID},
	{F_FLOAT84MI, LSM_EXPR_SUBTRACT, FLOAT8OID},
	{F_DATE_MI, LSM_EXPR_SUBTRACT, INT4OID},
	{F_INT2MUL, LSM_EXPR_MULTIPLY, INT2OID},
	{F_INT4MUL, LSM_EXPR_MULTIPLY, INT4OID},
	{F_INT24MUL, LSM_EXPR_MULTIPLY, INT4OID},
	{F_INT42MUL, LSM_EXPR_MULTIPLY, INT4OID},
	{F_INT8MUL, LSM_EXPR_MULTIPLY, INT8OID},
	{F_INT28MUL, LSM_EXPR_MULTIPLY, INT8OID},
	{F_INT82MUL, LSM_EXPR_MULTIPLY, INT8OID},
	{F_INT48MUL, LSM_EXPR_MULTIPLY, INT8OID},
	{F_INT84MUL, LSM_EXPR_MULTIPLY, INT8OID},
	{F_NUMERIC_MUL, LSM_EXPR_MULTIPLY, NUMERICOID},
	{F_FLOAT4MUL, LSM_EXPR_MULTIPLY, FLOAT4OID},
	{F_FLOAT8MUL, LSM_EXPR_MULTIPLY, FLOAT8OID},
	{F_FLOAT48MUL, LSM_EXPR_MULTIPLY, FLOAT8OID},
	{F_FLOAT84MUL, LSM_EXPR_MULTIPLY, FLOAT8OID},
};

/* Negatives: 0 less a number, and the product of a float and -1, as 0 less 0 is not -0. */
static const LsmExpressionFunction lsm_expression_negatives[] = {
	{F_INT2UM, LSM_EXPR_SUBTRACT, INT2OID},
	{F_INT4UM, LSM_EXPR_SUBTRACT, INT4OID},
	{F_INT8UM, LSM_EXPR_SUBTRACT, INT8OID},
	{F_NUMERIC_UMINUS, LSM_EXPR_SUBTRACT, NUMERICOID},
	{F_FLOAT4UM, LSM_EXPR_MULTIPLY, FLOAT4OID},
	{F_FLOAT8UM, LSM_EXPR_MULTIPLY, FLOAT8OID},
};

/* Casts that change nothing: all floats are float8 here. */
static const Oid lsm_expression_casts[] = {
	F_INT4_INT2, F_INT8_INT2, F_INT8_INT4, F_NUMERIC_INT2, F_NUMERIC_INT4, F_NUMERIC_INT8,
	F_FLOAT8_FLOAT4
};

/* Casts to floats that do. */
static const LsmExpressionFunction lsm_expression_float_casts[] = {
	{F_FLOAT4_INT2, LSM_EXPR_FLOAT, FLOAT4OID},
	{F_FLOAT4_INT4, LSM_EXPR_FLOAT, FLOAT4OID},
	{F_FLOAT4_INT8, LSM_EXPR_FLOAT, FLOAT4OID},
	{F_FLOAT4_FLOAT8, LSM_EXPR_FLOAT, FLOAT4OID},
	{F_FLOAT8_INT2, LSM_EXPR_FLOAT, FLOAT8OID},
	{F_FLOAT8_INT4, LSM_EXPR_FLOAT, FLOAT8OID},
	{F_FLOAT8_INT8, LSM_EXPR_FLOAT, FLOAT8OID},
};

/* ---- making ---- */

AttrNumber
lsm_expression_column(Node *node, Index varno, Oid *type)
{
	Var		   *var;

	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	if (!IsA(node, Var))
		return 0;
	var = (Var *) node;
	if (var->varno != (int) varno || var->varlevelsup != 0 || var->varattno <= 0)
		return 0;
	*type = getBaseType(var->vartype);
	return var->varattno;
}

static void
lsm_expression_limits(LsmExpression *expression, Oid type)
{
	expression->least = type == INT2OID ? PG_INT16_MIN : type == INT4OID ? PG_INT32_MIN :
		PG_INT64_MIN;
	expression->most = type == INT2OID ? PG_INT16_MAX : type == INT4OID ? PG_INT32_MAX :
		PG_INT64_MAX;
}

/* The one that is there already, or this one. */
static LsmExpression *
lsm_expression_intern(LsmExpressions *expressions, LsmExpression *expression)
{
	MemoryContext caller;
	ListCell   *cell;

	foreach(cell, expressions->all)
	{
		LsmExpression *other = lfirst(cell);

		if (other->kind == expression->kind && other->attnum == expression->attnum &&
			other->type == expression->type &&
			other->left == expression->left && other->right == expression->right &&
			other->dates == expression->dates &&
			other->least == expression->least && other->most == expression->most &&
			other->numbers.min == expression->numbers.min &&
			other->numbers.scale == expression->numbers.scale)
			return other;
	}
	caller = MemoryContextSwitchTo(expressions->context);
	expressions->all = lappend(expressions->all, expression);
	MemoryContextSwitchTo(caller);
	return expression;
}

static bool
lsm_expression_const(LsmExpression *expression, const Const *node)
{
	LsmNumbers *numbers = &expression->numbers;
	uint8		scale = 0xFF;
	struct varlena *value;
	float8		number;

	if (node->constisnull)
		return false;
	switch (node->consttype)
	{
		case INT2OID:
			numbers->min = DatumGetInt16(node->constvalue);
			break;
		case INT4OID:
			numbers->min = DatumGetInt32(node->constvalue);
			break;
		case DATEOID:
			numbers->min = DatumGetDateADT(node->constvalue);
			break;
		case INT8OID:
			numbers->min = DatumGetInt64(node->constvalue);
			break;
		case NUMERICOID:
			value = PG_DETOAST_DATUM(node->constvalue);
			if (!lsm_numeric_parse((char *) value, VARSIZE(value), &scale, &numbers->min))
				return false;
			numbers->scale = scale & ~LSM_NUMERIC_LONG_HEADER;
			break;
		case FLOAT4OID:
		case FLOAT8OID:
			number = node->consttype == FLOAT4OID ? DatumGetFloat4(node->constvalue) :
				DatumGetFloat8(node->constvalue);
			memcpy(&numbers->min, &number, sizeof(number));
			expression->type = node->consttype;
			break;
		default:
			return false;
	}
	numbers->max = numbers->min;
	expression->kind = LSM_EXPR_CONST;
	expression->state = LSM_EXPR_KNOWN;
	return true;
}

/* What a function is, of a list; NULL: not in it. */
static const LsmExpressionFunction *
lsm_expression_find(const LsmExpressionFunction *functions, int n, Oid function)
{
	for (int i = 0; i < n; i++)
		if (functions[i].function == function)
			return &functions[i];
	return NULL;
}

static LsmExpression *
lsm_expression_begin(const LsmExpressionFunction *function)
{
	LsmExpression *expression = palloc0(sizeof(LsmExpression));

	expression->kind = function->kind;
	expression->type = function->type;
	lsm_expression_limits(expression, function->type);
	return expression;
}

/* The operand of a negative that makes it a sum or product: 0, or a float's -1. */
static LsmExpression *
lsm_expression_make_factor(LsmExpressions *expressions, Oid type)
{
	LsmExpression *expression = palloc0(sizeof(LsmExpression));
	Const	   *factor = lsm_type_is_float(type) ?
		makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8), Float8GetDatum(-1), false,
				  FLOAT8PASSBYVAL) :
		makeConst(INT2OID, -1, InvalidOid, sizeof(int16), Int16GetDatum(0), false, true);

	lsm_expression_limits(expression, InvalidOid);
	(void) lsm_expression_const(expression, factor);
	return lsm_expression_intern(expressions, expression);
}

static LsmExpression *
lsm_expression_make_negative(LsmExpressions *expressions, const OpExpr *op, Index varno)
{
	const LsmExpressionFunction *function =
		lsm_expression_find(lsm_expression_negatives, lengthof(lsm_expression_negatives),
							get_opcode(op->opno));
	LsmExpression *expression;

	if (function == NULL)
		return NULL;
	expression = lsm_expression_begin(function);
	expression->right = lsm_expression_make(expressions, linitial(op->args), varno);
	if (expression->right == NULL || expression->right->kind == LSM_EXPR_CONST)
		return NULL;
	expression->left = lsm_expression_make_factor(expressions, function->type);
	return lsm_expression_intern(expressions, expression);
}

/* A date, of which there is nothing but the difference from another one. */
static LsmExpression *
lsm_expression_make_date(LsmExpressions *expressions, Node *node, Index varno)
{
	Oid			type;
	AttrNumber	attnum = lsm_expression_column(node, varno, &type);

	if (attnum != 0 && type == DATEOID)
		return lsm_expression_make_column(expressions, attnum, type);
	return attnum == 0 && IsA(node, Const) ? lsm_expression_make(expressions, node, varno) : NULL;
}

static LsmExpression *
lsm_expression_make_op(LsmExpressions *expressions, const OpExpr *op, Index varno)
{
	const LsmExpressionFunction *function =
		lsm_expression_find(lsm_expression_functions, lengthof(lsm_expression_functions),
							get_opcode(op->opno));
	LsmExpression *(*make) (LsmExpressions *, Node *, Index) = lsm_expression_make;
	LsmExpression *expression;

	if (function == NULL)
		return NULL;
	if (function->function == F_DATE_MI)
		make = lsm_expression_make_date;
	expression = lsm_expression_begin(function);
	expression->dates = function->function == F_DATE_MI;
	expression->left = make(expressions, linitial(op->args), varno);
	if (expression->left != NULL)
		expression->right = make(expressions, lsecond(op->args), varno);
	/* constants have been computed by the planner */
	if (expression->right == NULL || (expression->left->kind == LSM_EXPR_CONST &&
									  expression->right->kind == LSM_EXPR_CONST))
		return NULL;
	return lsm_expression_intern(expressions, expression);
}

static LsmExpression *
lsm_expression_make_cast(LsmExpressions *expressions, const FuncExpr *func, Index varno)
{
	const LsmExpressionFunction *function =
		lsm_expression_find(lsm_expression_float_casts, lengthof(lsm_expression_float_casts),
							func->funcid);
	LsmExpression *expression;

	for (int i = 0; i < (int) lengthof(lsm_expression_casts); i++)
		if (func->funcid == lsm_expression_casts[i])
			return lsm_expression_make(expressions, linitial(func->args), varno);
	if (function == NULL)
		return NULL;
	expression = lsm_expression_begin(function);
	expression->left = lsm_expression_make(expressions, linitial(func->args), varno);
	if (expression->left == NULL || expression->left->kind == LSM_EXPR_CONST)
		return NULL;
	return lsm_expression_intern(expressions, expression);
}

LsmExpression *
lsm_expression_make_column(LsmExpressions *expressions, AttrNumber attnum, Oid type)
{
	LsmExpression *expression = palloc0(sizeof(LsmExpression));

	lsm_expression_limits(expression, InvalidOid);
	expression->kind = LSM_EXPR_COLUMN;
	expression->attnum = attnum;
	expression->type = type;
	return lsm_expression_intern(expressions, expression);
}

LsmExpression *
lsm_expression_make(LsmExpressions *expressions, Node *node, Index varno)
{
	LsmExpression *expression;
	Oid			type;
	AttrNumber	attnum = lsm_expression_column(node, varno, &type);

	if (attnum == 0)
	{
		if (IsA(node, OpExpr) && list_length(((OpExpr *) node)->args) == 2)
			return lsm_expression_make_op(expressions, (OpExpr *) node, varno);
		if (IsA(node, OpExpr))
			return lsm_expression_make_negative(expressions, (OpExpr *) node, varno);
		if (IsA(node, FuncExpr))
			return lsm_expression_make_cast(expressions, (FuncExpr *) node, varno);
		if (!IsA(node, Const))
			return NULL;
	}
	else
	{
		if (type != INT2OID && type != INT4OID && type != INT8OID && type != NUMERICOID &&
			!lsm_type_is_float(type))
			return NULL;
		return lsm_expression_make_column(expressions, attnum, type);
	}
	expression = palloc0(sizeof(LsmExpression));
	lsm_expression_limits(expression, InvalidOid);
	if (!lsm_expression_const(expression, (Const *) node))
		return NULL;
	return lsm_expression_intern(expressions, expression);
}

/* ---- computing ---- */

void
lsm_expressions_begin_block(LsmExpressions *expressions, LsmBlock *block, const uint16 *wanted,
							int n)
{
	ListCell   *cell;

	expressions->block = block;
	expressions->wanted = wanted;
	expressions->nwanted = n;
	foreach(cell, expressions->all)
	{
		LsmExpression *expression = lfirst(cell);

		if (expression->kind != LSM_EXPR_CONST)
			expression->state = LSM_EXPR_UNKNOWN;
	}
}

static void
lsm_expression_make_room(LsmExpressions *expressions, LsmExpression *expression, int rows)
{
	LsmNumbers *numbers = &expression->numbers;

	if (rows <= expression->room)
		return;
	if (expression->room > 0)
	{
		pfree(numbers->values);
		pfree(numbers->present);
	}
	numbers->values = MemoryContextAlloc(expressions->context, rows * sizeof(int64));
	numbers->present = MemoryContextAlloc(expressions->context, rows);
	expression->room = rows;
}

/* Ten to the difference of scales; false: it is too great. */
static bool
lsm_expression_factor(int from, int to, int64 *factor)
{
	*factor = 1;
	for (; from < to; from++)
		if (__builtin_mul_overflow(*factor, INT64CONST(10), factor))
			return false;
	return true;
}

/* Bounds of a multiple. */
static bool
lsm_expression_scale(const LsmNumbers *numbers, int64 factor, int64 *min, int64 *max)
{
	return !__builtin_mul_overflow(factor < 0 ? numbers->max : numbers->min, factor, min) &&
		!__builtin_mul_overflow(factor < 0 ? numbers->min : numbers->max, factor, max);
}

static bool
lsm_expression_add(LsmExpression *expression, int rows)
{
	LsmNumbers *numbers = &expression->numbers;
	LsmNumbers *a = &expression->left->numbers;
	LsmNumbers *b = &expression->right->numbers;
	int64		a_factor;
	int64		b_factor;
	int64		a_min;
	int64		a_max;
	int64		b_min;
	int64		b_max;

	numbers->scale = Max(a->scale, b->scale);
	if (!lsm_expression_factor(a->scale, numbers->scale, &a_factor) ||
		!lsm_expression_factor(b->scale, numbers->scale, &b_factor))
		return false;
	if (expression->kind == LSM_EXPR_SUBTRACT)
		b_factor = -b_factor;
	if (!lsm_expression_scale(a, a_factor, &a_min, &a_max) ||
		!lsm_expression_scale(b, b_factor, &b_min, &b_max) ||
		__builtin_add_overflow(a_min, b_min, &numbers->min) ||
		__builtin_add_overflow(a_max, b_max, &numbers->max))
		return false;
	if (expression->left->kind == LSM_EXPR_CONST)
		lsm_numbers_add_const(numbers->values, b->values, b_factor, a_min, rows);
	else if (expression->right->kind == LSM_EXPR_CONST)
		lsm_numbers_add_const(numbers->values, a->values, a_factor, b_min, rows);
	else
		lsm_numbers_add(numbers->values, a->values, a_factor, b->values, b_factor, rows);
	return true;
}

static bool
lsm_expression_multiply(LsmExpression *expression, int rows)
{
	LsmNumbers *numbers = &expression->numbers;
	LsmNumbers *a = &expression->left->numbers;
	LsmNumbers *b = &expression->right->numbers;
	int64		corners[4];

	numbers->scale = a->scale + b->scale;
	if (numbers->scale > LSM_EXPR_MAX_SCALE ||
		__builtin_mul_overflow(a->min, b->min, &corners[0]) ||
		__builtin_mul_overflow(a->min, b->max, &corners[1]) ||
		__builtin_mul_overflow(a->max, b->min, &corners[2]) ||
		__builtin_mul_overflow(a->max, b->max, &corners[3]))
		return false;
	lsm_numbers_bounds(corners, lengthof(corners), &numbers->min, &numbers->max);
	if (expression->left->kind == LSM_EXPR_CONST)
		lsm_numbers_add_const(numbers->values, b->values, a->min, 0, rows);
	else if (expression->right->kind == LSM_EXPR_CONST)
		lsm_numbers_add_const(numbers->values, a->values, b->min, 0, rows);
	else
		lsm_numbers_multiply(numbers->values, a->values, b->values, rows);
	return true;
}

/* The floats of an operand; a constant for all rows. */
static const float8 *
lsm_expression_floats(LsmExpressions *expressions, LsmExpression *operand, int rows)
{
	LsmNumbers *numbers = &operand->numbers;

	if (operand->kind == LSM_EXPR_CONST && rows > operand->room)
	{
		lsm_expression_make_room(expressions, operand, rows);
		for (int row = 0; row < rows; row++)
			numbers->values[row] = numbers->min;
	}
	return lsm_numbers_floats(numbers);
}

static bool
lsm_expression_cast(LsmExpressions *expressions, LsmExpression *expression, int rows)
{
	LsmExpression *left = expression->left;
	LsmNumbers *numbers = &expression->numbers;
	float8	   *out = lsm_numbers_floats(numbers);

	numbers->nulls = left->numbers.nulls;
	if (numbers->nulls)
		memcpy(numbers->present, left->numbers.present, rows);
	if (lsm_type_is_float(left->type))
		return lsm_floats_narrow(out, lsm_expression_floats(expressions, left, rows), rows);
	lsm_floats_from_ints(out, left->numbers.values, rows, expression->type == FLOAT4OID);
	return true;
}

static bool
lsm_expression_operate(LsmExpressions *expressions, LsmExpression *expression, int rows)
{
	const float8 *a = lsm_expression_floats(expressions, expression->left, rows);
	const float8 *b = lsm_expression_floats(expressions, expression->right, rows);
	float8	   *out = lsm_numbers_floats(&expression->numbers);
	bool		done;

	switch (expression->kind)
	{
		case LSM_EXPR_ADD:
			done = lsm_floats_add(out, a, b, rows);
			break;
		case LSM_EXPR_SUBTRACT:
			done = lsm_floats_subtract(out, a, b, rows);
			break;
		default:
			done = lsm_floats_multiply(out, a, b, rows);
			break;
	}
	return done && (expression->type == FLOAT8OID || lsm_floats_narrow(out, out, rows));
}

/* A row has a result if both sides have one. */
static void
lsm_expression_join_nulls(LsmExpression *expression, int rows)
{
	LsmNumbers *numbers = &expression->numbers;
	LsmNumbers *a = &expression->left->numbers;
	LsmNumbers *b = &expression->right->numbers;

	numbers->nulls = a->nulls || b->nulls;
	if (!numbers->nulls)
		return;
	memcpy(numbers->present, a->nulls ? a->present : b->present, rows);
	if (a->nulls && b->nulls)
		lsm_numbers_and(numbers->present, b->present, rows);
}

static bool
lsm_expression_try_column(LsmExpressions *expressions, LsmExpression *expression, int rows)
{
	if (expression->attnum > lsm_block_natts(expressions->block))
		lsm_block_no_numbers(expressions->block, &expression->numbers);
	else if (!lsm_block_numbers(expressions->block, expression->attnum, expressions->wanted,
								expressions->nwanted, &expression->numbers))
		return false;
	/* the numbers are what Datums have */
	if (expression->type == FLOAT4OID)
		lsm_floats_from_bits(lsm_numbers_floats(&expression->numbers),
							 expression->numbers.values, rows);
	return true;
}

/* Has it no date that is infinite, of which there is no difference? */
static bool
lsm_expression_finite(const LsmExpression *date)
{
	return date->numbers.min > DATEVAL_NOBEGIN && date->numbers.max < DATEVAL_NOEND;
}

static bool
lsm_expression_try(LsmExpressions *expressions, LsmExpression *expression)
{
	int			rows = lsm_block_rows(expressions->block);
	bool		done;

	lsm_expression_make_room(expressions, expression, rows);
	if (expression->kind == LSM_EXPR_COLUMN)
		return lsm_expression_try_column(expressions, expression, rows);
	if (!lsm_expression_compute(expressions, expression->left) ||
		(expression->right != NULL && !lsm_expression_compute(expressions, expression->right)))
		return false;
	if (expression->kind == LSM_EXPR_FLOAT)
		return lsm_expression_cast(expressions, expression, rows);
	if (expression->dates && !(lsm_expression_finite(expression->left) &&
							   lsm_expression_finite(expression->right)))
		return false;
	if (lsm_type_is_float(expression->type))
		done = lsm_expression_operate(expressions, expression, rows);
	else
		done = expression->kind == LSM_EXPR_MULTIPLY ? lsm_expression_multiply(expression, rows) :
			lsm_expression_add(expression, rows);
	if (!done)
		return false;
	lsm_expression_join_nulls(expression, rows);
	return lsm_type_is_float(expression->type) ||
		(expression->numbers.min >= expression->least &&
		 expression->numbers.max <= expression->most);
}

bool
lsm_expression_compute(LsmExpressions *expressions, LsmExpression *expression)
{
	if (expression->state == LSM_EXPR_UNKNOWN)
		expression->state = lsm_expression_try(expressions, expression) ?
			LSM_EXPR_KNOWN : LSM_EXPR_FAILED;
	return expression->state == LSM_EXPR_KNOWN;
}
