/*-------------------------------------------------------------------------
 *
 * lsm_select.h
 *	  Which rows of a block meet a condition, found on encoded columns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SELECT_H
#define LSM_SELECT_H

#include "segment/lsm_segment.h"

typedef enum LsmConditionKind
{
	LSM_COND_NULL,				/* the column is null */
	LSM_COND_NOT_NULL,
	LSM_COND_RANGE,				/* not null, and inside (or outside) of lo to
								 * hi */
	LSM_COND_SET,				/* not null, and one (or none) of some numbers */
	LSM_COND_TEST				/* not null, and test() says so */
} LsmConditionKind;

/* What numbers of a column are compared as. */
typedef enum LsmNumberOrder
{
	LSM_NUMBER_NONE,			/* the column has none: TEST only */
	LSM_NUMBER_SIGNED,
	LSM_NUMBER_UNSIGNED32,		/* oid */
	LSM_NUMBER_FLOAT4,			/* as by lsm_float_order() */
	LSM_NUMBER_FLOAT8,
	LSM_NUMBER_SCALED			/* numeric, where a chunk has scaled integers */
} LsmNumberOrder;

typedef struct LsmCondition
{
	int			attnum;			/* column, from 1 */
	LsmConditionKind kind;
	LsmNumberOrder order;
	bool		outside;		/* RANGE, SET: values that are not in it */
	int64		lo;				/* RANGE: both ends belong to it; lo > hi:
								 * empty */
	int64		hi;
	const int64 *set;			/* SET: sorted */
	int			nset;

	/*
	 * RANGE: another one, not outside either and of the same column and
	 * order, that rows must meet as well; or NULL.
	 */
	struct LsmCondition *also;

	/*
	 * SCALED: set lo and hi, or set, for numbers of that scale.
	 */
	void		(*rescale) (struct LsmCondition *condition, int scale);

	/*
	 * TEST, and numerics where a chunk does not have integers.
	 */
	bool		(*test) (struct LsmCondition *condition, Datum value);
} LsmCondition;

/*
 * Clear mask[row] (0 or 1, one for each row of the block) where a row does not meet
 * the condition, or the one that comes with it.  The column must be one that the block stores.  Returns how many
 * are left.
 */
extern int	lsm_block_select(LsmBlock *block, LsmCondition *condition, uint8 *mask);

/*
 * The numbers of a column, one for each row, as the chunk stores them: values passed
 * by value sign-extended (floats as their bits), numerics as integers of a scale.
 */
typedef struct LsmNumbers
{
	int64	   *values;			/* 0 where there is none */
	bool		nulls;			/* some row may have none */
	uint8	   *present;		/* nulls: 1 for each row that has one, else 0 */
	int			scale;
	int64		min;			/* no value is outside of these */
	int64		max;
} LsmNumbers;

/*
 * The caller has set values and present, which have room for the block's rows, and
 * wants to know those of n rows; others may get any number.  False: the chunk has no numbers.
 */
extern bool lsm_block_numbers(LsmBlock *block, int attnum, const uint16 *wanted, int n,
							  LsmNumbers *numbers);

/* The same, of a column that the block does not store. */
extern void lsm_block_no_numbers(LsmBlock *block, LsmNumbers *numbers);

/*
 * The sum of all numbers of a column, of which there are *count, without making them.
 * False: that cannot be done.
 */
extern bool lsm_block_sum(LsmBlock *block, int attnum, int128 *sum, int *count, int *scale);

/*
 * Number what a column stores: rows with the same number have the same value (not
 * the other way round); 0: null.  Returns how many numbers there are; -1: it is not
 * stored by numbers.
 */
extern int	lsm_block_codes(LsmBlock *block, int attnum, uint16 *codes);

/*
 * A float as an integer with the order that the server gives floats: both zeroes
 * are the same, NaN is greater than all.
 */
static inline int64
lsm_float_order(double value)
{
	int64		bits;

	if (value != value)
		return PG_INT64_MAX;
	if (value == 0)
		return 0;
	memcpy(&bits, &value, sizeof(bits));
	return bits ^ ((bits >> 63) & PG_INT64_MAX);
}

#endif							/* LSM_SELECT_H */
