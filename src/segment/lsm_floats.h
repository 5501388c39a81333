/*-------------------------------------------------------------------------
 *
 * lsm_floats.h
 *	  Loops over floats of a block's rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FLOATS_H
#define LSM_FLOATS_H

#include "lsm.h"

/* What has been added up: values, or their number, sum and squares of deviations. */
typedef struct LsmFloatSum
{
	float8		n;
	float8		sum;
	float8		squares;
	bool		failed;			/* the caller's */
} LsmFloatSum;

/* Rows that are added, in their order. */
typedef struct LsmFloatRows
{
	const uint16 *rows;
	int			n;
	const uint8 *use;			/* those with use[row] = 1; NULL: all */
	const uint16 *group;		/* group[row] is the sum's number; NULL: 0 */
} LsmFloatRows;

/*
 * out = a + b, a - b, a * b.  False: of some row the result is infinite, or 0 of a
 * product, and the server would raise an error for it.
 */
extern bool lsm_floats_add(float8 *out, const float8 *a, const float8 *b, int n);
extern bool lsm_floats_subtract(float8 *out, const float8 *a, const float8 *b, int n);
extern bool lsm_floats_multiply(float8 *out, const float8 *a, const float8 *b, int n);

/* Round to float4, in place too; false: as above. */
extern bool lsm_floats_narrow(float8 *out, const float8 *a, int n);

/* Integers as floats (narrow: rounded to float4), and the bits of a float4, in place too. */
extern void lsm_floats_from_ints(float8 *out, const int64 *a, int n, bool narrow);
extern void lsm_floats_from_bits(float8 *out, const int64 *bits, int n);

/* Add values to sums (narrow: of float4), or to number, sum and squares. */
extern void lsm_floats_sum(LsmFloatSum *sums, const float8 *values, const LsmFloatRows *rows,
						   bool narrow);
extern void lsm_floats_accumulate(LsmFloatSum *sums, const float8 *values,
								  const LsmFloatRows *rows);

#endif							/* LSM_FLOATS_H */
