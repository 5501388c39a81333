/*-------------------------------------------------------------------------
 *
 * lsm_floats.c
 *	  Loops over floats of a block's rows.
 *
 * A float4 is computed with as a float8 that has such a value: the sum, difference or product
 * of two of them, rounded to float8 and then to float4, is what rounding it once gives
 * (a float8 has more than twice the digits).
 *
 * Errors are the caller's to raise: loops compare every row, without a branch, and tell
 * whether there is one.  Sums depend on the order of rows, so those are no vectors;
 * what makes them fast is that no function is called, and that overflow is looked for
 * at the end only: what is infinite or no number stays so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "segment/lsm_floats.h"

#define LSM_FLOAT_ABSOLUTE		UINT64CONST(0x7FFFFFFFFFFFFFFF)
#define LSM_FLOAT_EXPONENT		UINT64CONST(0x7FF0000000000000)
#define LSM_FLOAT_ONE			UINT64CONST(0x0010000000000000) /* of the exponent */
#define LSM_FLOAT_SIGN			UINT64CONST(0x8000000000000000)

/*
 * What floats are is told by the first bit of sums of their bits: vectors of SSE2 do not
 * compare as wide integers, and loops with comparisons of floats are not made vectors.
 */
static inline uint64
lsm_float_bits(float8 value)
{
	uint64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Infinite, or no number. */
static inline uint64
lsm_float_far(float8 value)
{
	return (lsm_float_bits(value) & LSM_FLOAT_EXPONENT) + LSM_FLOAT_ONE;
}

static inline uint64
lsm_float_nonzero(float8 value)
{
	return (lsm_float_bits(value) & LSM_FLOAT_ABSOLUTE) + LSM_FLOAT_ABSOLUTE;
}

/* Infinite though both operands are finite; 0 though none of them is. */
static inline uint64
lsm_float_overflow(float8 result, float8 a, float8 b)
{
	return lsm_float_far(result) & ~(lsm_float_far(a) | lsm_float_far(b));
}

static inline uint64
lsm_float_underflow(float8 result, float8 a, float8 b)
{
	return ~lsm_float_nonzero(result) & lsm_float_nonzero(a) & lsm_float_nonzero(b);
}

bool
lsm_floats_add(float8 *out, const float8 *a, const float8 *b, int n)
{
	uint64		bad = 0;

	for (int i = 0; i < n; i++)
	{
		float8		result = a[i] + b[i];

		bad |= lsm_float_overflow(result, a[i], b[i]);
		out[i] = result;
	}
	return (bad & LSM_FLOAT_SIGN) == 0;
}

bool
lsm_floats_subtract(float8 *out, const float8 *a, const float8 *b, int n)
{
	uint64		bad = 0;

	for (int i = 0; i < n; i++)
	{
		float8		result = a[i] - b[i];

		bad |= lsm_float_overflow(result, a[i], b[i]);
		out[i] = result;
	}
	return (bad & LSM_FLOAT_SIGN) == 0;
}

bool
lsm_floats_multiply(float8 *out, const float8 *a, const float8 *b, int n)
{
	uint64		bad = 0;

	for (int i = 0; i < n; i++)
	{
		float8		result = a[i] * b[i];

		bad |= lsm_float_overflow(result, a[i], b[i]);
		bad |= lsm_float_underflow(result, a[i], b[i]);
		out[i] = result;
	}
	return (bad & LSM_FLOAT_SIGN) == 0;
}

bool
lsm_floats_narrow(float8 *out, const float8 *a, int n)
{
	uint64		bad = 0;

	for (int i = 0; i < n; i++)
	{
		float8		value = a[i];
		float8		result = (float4) value;

		bad |= lsm_float_overflow(result, value, value);
		bad |= lsm_float_underflow(result, value, value);
		out[i] = result;
	}
	return (bad & LSM_FLOAT_SIGN) == 0;
}

/* An int8 is rounded once: to float8 and then to float4 may be another value. */
void
lsm_floats_from_ints(float8 *out, const int64 *a, int n, bool narrow)
{
	if (narrow)
	{
		for (int i = 0; i < n; i++)
			out[i] = (float4) a[i];
	}
	else
	{
		for (int i = 0; i < n; i++)
			out[i] = (float8) a[i];
	}
}

void
lsm_floats_from_bits(float8 *out, const int64 *bits, int n)
{
	for (int i = 0; i < n; i++)
	{
		uint32		word = (uint32) bits[i];
		float4		value;

		memcpy(&value, &word, sizeof(value));
		out[i] = value;
	}
}

/* ---- sums ---- */

static inline bool
lsm_floats_uses(const LsmFloatRows *rows, int row)
{
	return rows->use == NULL || rows->use[row];
}

void
lsm_floats_sum(LsmFloatSum *sums, const float8 *values, const LsmFloatRows *rows, bool narrow)
{
	const LsmFloatRows r = *rows;
	float8		sum = sums[0].sum;
	float4		narrow_sum = (float4) sum;

	if (r.group != NULL)
	{
		for (int i = 0; i < r.n; i++)
		{
			int			row = r.rows[i];
			LsmFloatSum *group = &sums[r.group[row]];

			if (!lsm_floats_uses(&r, row))
				continue;
			sum = group->sum + values[row];
			group->sum = narrow ? (float4) sum : sum;
		}
		return;
	}
	if (narrow)
	{
		for (int i = 0; i < r.n; i++)
			if (lsm_floats_uses(&r, r.rows[i]))
				narrow_sum += (float4) values[r.rows[i]];
		sum = narrow_sum;
	}
	else
	{
		for (int i = 0; i < r.n; i++)
			if (lsm_floats_uses(&r, r.rows[i]))
				sum += values[r.rows[i]];
	}
	sums[0].sum = sum;
}

/*
 * By Youngs and Cramer, as float8_accum() does, in the same steps: they have to be rounded
 * alike.
 */
static inline void
lsm_float_accumulate(LsmFloatSum *sum, float8 value)
{
	float8		before = sum->n;
	float8		deviation;

	sum->n = before + 1.0;
	sum->sum += value;
	if (before > 0)
	{
		deviation = value * sum->n - sum->sum;
		sum->squares += deviation * deviation / (sum->n * before);
	}
}

void
lsm_floats_accumulate(LsmFloatSum *sums, const float8 *values, const LsmFloatRows *rows)
{
	const LsmFloatRows r = *rows;
	LsmFloatSum one;

	if (r.group != NULL)
	{
		for (int i = 0; i < r.n; i++)
			if (lsm_floats_uses(&r, r.rows[i]))
				lsm_float_accumulate(&sums[r.group[r.rows[i]]], values[r.rows[i]]);
		return;
	}
	one = sums[0];
	for (int i = 0; i < r.n; i++)
		if (lsm_floats_uses(&r, r.rows[i]))
			lsm_float_accumulate(&one, values[r.rows[i]]);
	sums[0] = one;
}
