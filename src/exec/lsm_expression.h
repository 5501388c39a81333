/*-------------------------------------------------------------------------
 *
 * lsm_expression.h
 *	  Sums, differences, products and negatives of columns and constants, for all
 *	  rows of a block at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_EXPRESSION_H
#define LSM_EXPRESSION_H

#include "lsm.h"

#include "catalog/pg_type.h"
#include "lsm_segment.h"
#include "lsm_select.h"
#include "nodes/pg_list.h"

typedef enum LsmExpressionKind
{
	LSM_EXPR_COLUMN,
	LSM_EXPR_CONST,
	LSM_EXPR_ADD,
	LSM_EXPR_SUBTRACT,
	LSM_EXPR_MULTIPLY,
	LSM_EXPR_FLOAT				/* left as a float of its type */
} LsmExpressionKind;

typedef enum LsmExpressionState
{
	LSM_EXPR_UNKNOWN,			/* not asked for yet, for this block */
	LSM_EXPR_KNOWN,
	LSM_EXPR_FAILED				/* by row, by the server's functions */
} LsmExpressionState;

typedef struct LsmExpression
{
	LsmExpressionKind kind;
	AttrNumber	attnum;			/* COLUMN */
	Oid			type;			/* of the values, domains taken off; CONST: if
								 * it is a float */
	struct LsmExpression *left;
	struct LsmExpression *right;
	bool		dates;			/* a difference of two dates, both finite */
	int64		least;			/* beyond these the server raises an error, or
								 * they are what 64 bits hold */
	int64		most;
	/* of the block; CONST: for good, in min, max and scale */
	LsmExpressionState state;
	LsmNumbers	numbers;		/* floats: without bounds, and the values are
								 * float8s */
	int			room;			/* rows that there is memory for */
} LsmExpression;

/* Expressions of a node: what is the same is there once. */
typedef struct LsmExpressions
{
	MemoryContext context;
	List	   *all;			/* of LsmExpression */
	/* the block */
	LsmBlock   *block;
	const uint16 *wanted;		/* rows */
	int			nwanted;
} LsmExpressions;

static inline bool
lsm_type_is_float(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/* The float8s that the numbers of floats are. */
static inline float8 *
lsm_numbers_floats(const LsmNumbers *numbers)
{
	return (float8 *) numbers->values;
}

/* The column of varno that a node is, 0 if it is none; *type: domains taken off. */
extern AttrNumber lsm_expression_column(Node *node, Index varno, Oid *type);

/* The expression that a node is; NULL if it is none. */
extern LsmExpression *lsm_expression_make(LsmExpressions *expressions, Node *node, Index varno);

/* The numbers of a column of any type that has some. */
extern LsmExpression *lsm_expression_make_column(LsmExpressions *expressions, AttrNumber attnum,
												 Oid type);

/*
 * There is another block, of which n rows are wanted; then expressions are.  False: it has to
 * be computed by row.
 */
extern void lsm_expressions_begin_block(LsmExpressions *expressions, LsmBlock *block,
										const uint16 *wanted, int n);
extern bool lsm_expression_compute(LsmExpressions *expressions, LsmExpression *expression);

#endif							/* LSM_EXPRESSION_H */
