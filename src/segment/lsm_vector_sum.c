/*-------------------------------------------------------------------------
 *
 * lsm_vector_sum.c
 *	  Reading column chunks: bounds and sums of numbers, by their encoding.
 *
 * No number is made of its code where the sum of codes will do.  Where an encoding does not
 * help, or a sum might leave its bits, the caller decodes and adds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_codec.h"
#include "segment/lsm_numbers.h"
#include "segment/lsm_vector.h"

bool
lsm_vector_bounds(const LsmVector *v, int64 *min, int64 *max)
{
	int128		last;

	switch (v->encoding)
	{
		case LSM_ENC_CONST:
			*min = *max = (int64) v->base;
			return true;
		case LSM_ENC_FOR:
			if (v->multiplier > PG_INT32_MAX || v->mask > PG_INT64_MAX)
				return false;
			last = (int128) (int64) v->base + (int128) v->multiplier * v->mask;
			if (last > PG_INT64_MAX)
				return false;
			*min = (int64) v->base;
			*max = (int64) last;
			return true;
		case LSM_ENC_RLE:
		case LSM_ENC_DICT:
			return lsm_vector_bounds(v->child, min, max);
		default:
			return false;
	}
}

/*
 * The sum of codes of less than a byte, without taking each out of its word: eight are added
 * up in two fields that have four times their width, and these over as many words as
 * they cannot overflow by.
 */
static uint64
lsm_codes_sum_narrow(const LsmVector *v, int n)
{
	const int	width = v->width;
	const uint64 pair = lsm_bits_mask(2 * width);
	const uint64 four = lsm_bits_mask(4 * width);
	const uint64 fourth = v->mask | v->mask << 4 * width;
	const uint64 even = fourth | fourth << 2 * width;
	const uint64 halves = pair | pair << 4 * width;
	const int	words = (int) Min(four / Max(4 * v->mask, 1), LSM_CODES_BATCH);
	const uint8 *p = v->codes;
	uint64		sum = 0;

	Assert(width >= 1 && width <= 7 && n % 8 == 0);
	while (n > 0)
	{
		uint64		fields = 0;

		for (int i = 0; i < words && n > 0; i++, n -= 8, p += width)
		{
			uint64		word = lsm_bits_load(p);

			word = (word & even) + (word >> width & even);
			fields += (word & halves) + (word >> 2 * width & halves);
		}
		sum += (fields & four) + (fields >> 4 * width);
	}
	return sum;
}

/* The sum of as many codes as a vector can have. */
static uint64
lsm_vector_sum_codes(const LsmVector *v)
{
	uint16		codes[LSM_CODES_BATCH];
	uint64		sum = 0;
	int			from = 0;

	if (v->width == 0)
		return 0;
	if (v->width == 8)
	{
		const uint8 *bytes = v->codes;

		for (int i = 0; i < v->n; i++)
			sum += bytes[i];
		return sum;
	}
	if (v->width < 8)
	{
		from = v->n / 8 * 8;
		sum = lsm_codes_sum_narrow(v, from);
	}
	else if (v->width <= 16)
	{
		for (; from < v->n; from += LSM_CODES_BATCH)
		{
			int			n = Min(v->n - from, LSM_CODES_BATCH);
			uint32		some = 0;

			lsm_codes_unpack16(v, from, n, codes);
			for (int i = 0; i < n; i++)
				some += codes[i];
			sum += some;
		}
		return sum;
	}
	for (; from < v->n; from++)
		sum += lsm_bits_get(v->codes, v->width, v->mask, from);
	return sum;
}

/* The sum of values of a dictionary; false: it might not fit in 64 bits. */
static bool
lsm_vector_sum_distinct(const LsmChunk *chunk, const LsmVector *v, int128 *sum)
{
	int64	   *values = palloc(v->child->n * sizeof(int64));
	uint16		codes[LSM_CODES_BATCH];
	int64		total = 0;
	bool		fits = true;

	lsm_vector_ints(chunk, v->child, values);
	for (int i = 0; i < v->child->n; i++)
		fits &= values[i] < PG_INT64_MAX / LSM_BLOCK_MAX_ROWS &&
			values[i] > -PG_INT64_MAX / LSM_BLOCK_MAX_ROWS;
	for (int from = 0; from < v->n && fits; from += LSM_CODES_BATCH)
	{
		int			n = Min(v->n - from, LSM_CODES_BATCH);

		lsm_codes_checked(chunk, v, from, n, codes);
		for (int i = 0; i < n; i++)
			total += values[codes[i]];
	}
	pfree(values);
	*sum = total;
	return fits;
}

/* Sums of a block's rows of such numbers do not leave 64 bits. */
#define LSM_SUM_NEAR			(INT64CONST(1) << 48)

/* The sum of runs; false: a run that counts up passes the greatest number, and wraps around. */
static bool
lsm_vector_sum_runs(const LsmChunk *chunk, const LsmVector *v, int128 *sum)
{
	int64	   *values = palloc(v->child->n * sizeof(int64));
	uint16		ends[LSM_CODES_BATCH];
	bool		count_up = v->encoding == LSM_ENC_RUNS;
	int64		least;
	int64		most;
	bool		near;
	int64		near_sum = 0;
	int64		row = 0;

	lsm_vector_ints(chunk, v->child, values);
	lsm_numbers_bounds(values, v->child->n, &least, &most);
	near = least > -LSM_SUM_NEAR && most < LSM_SUM_NEAR;
	*sum = 0;
	for (int from = 0; from < v->child->n; from += LSM_CODES_BATCH)
	{
		int			runs = Min(v->child->n - from, LSM_CODES_BATCH);

		lsm_runs_checked(chunk, v, from, runs, ends);
		for (int run = 0; run < runs; run++)
		{
			int64		n = ends[run] - row;

			if (near)
				near_sum += values[from + run] * n;
			else
				*sum += (int128) values[from + run] * n;
			if (count_up)
				near_sum += n * (n - 1) / 2;
			row = ends[run];
		}
	}
	*sum += near_sum;
	pfree(values);
	return !count_up || most <= PG_INT64_MAX - v->n;
}

bool
lsm_vector_sum(const LsmChunk *chunk, const LsmVector *v, int128 *sum)
{
	int64		min;
	int64		max;

	switch (v->encoding)
	{
		case LSM_ENC_CONST:
			*sum = (int128) (int64) v->base * v->n;
			return true;
		case LSM_ENC_FOR:
			/* nothing wraps around, and the sum of codes fits in 64 bits */
			if (!lsm_vector_bounds(v, &min, &max) || v->width > 48)
				return false;
			*sum = (int128) (int64) v->base * v->n +
				(int128) v->multiplier * lsm_vector_sum_codes(v);
			return true;
		case LSM_ENC_RUNS:
		case LSM_ENC_RLE:
			return lsm_vector_sum_runs(chunk, v, sum);
		case LSM_ENC_DICT:
			return lsm_vector_sum_distinct(chunk, v, sum);
		default:
			return false;
	}
}
