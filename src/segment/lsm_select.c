/*-------------------------------------------------------------------------
 *
 * lsm_select.c
 *	  Which rows of a block meet a condition, found on encoded columns.
 *
 * A condition is looked at once for each value that an encoding stores: for a
 * constant once, for runs once a run, for a dictionary once a distinct value,
 * and only then spread over the rows.  Numbers that are stored one by one are
 * unpacked and compared in loops that the compiler makes vectors of.  Masks
 * are a byte a row, so that conditions are joined by a loop of the same kind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_codec.h"
#include "segment/lsm_numbers.h"
#include "segment/lsm_select.h"

/* If one row in so many is left, and no more than these, others are not looked at. */
#define LSM_SELECT_SPARSE		8
#define LSM_SELECT_MAX_FEW		256

/* ---- numbers ---- */

/* Make what a chunk stores comparable as signed integers, in place. */
static void
lsm_select_order(LsmNumberOrder order, int64 *values, int n)
{
	switch (order)
	{
		case LSM_NUMBER_UNSIGNED32:
			for (int i = 0; i < n; i++)
				values[i] = (uint32) values[i];
			break;
		case LSM_NUMBER_FLOAT4:
			for (int i = 0; i < n; i++)
			{
				int32		bits = (int32) values[i];
				float		value;

				memcpy(&value, &bits, sizeof(value));
				values[i] = lsm_float_order(value);
			}
			break;
		case LSM_NUMBER_FLOAT8:
			for (int i = 0; i < n; i++)
			{
				double		value;

				memcpy(&value, &values[i], sizeof(value));
				values[i] = lsm_float_order(value);
			}
			break;
		default:
			break;
	}
}

static void
lsm_select_range(const LsmCondition *condition, const int64 *values, int n, uint8 *pass)
{
	uint8		outside = condition->outside;

	if (condition->lo > condition->hi)
		memset(pass, outside, n);
	else
		lsm_numbers_inside(values, n, condition->lo, condition->hi, outside, pass);
}

static void
lsm_select_set(const LsmCondition *condition, const int64 *values, int n, uint8 *pass)
{
	for (int i = 0; i < n; i++)
	{
		int			lo = 0;
		int			hi = condition->nset;

		while (lo < hi)
		{
			int			middle = (lo + hi) / 2;

			if (condition->set[middle] < values[i])
				lo = middle + 1;
			else
				hi = middle;
		}
		pass[i] = (lo < condition->nset && condition->set[lo] == values[i]) != condition->outside;
	}
}

static void
lsm_select_numbers(const LsmCondition *condition, int64 *values, int n, uint8 *pass)
{
	lsm_select_order(condition->order, values, n);
	if (condition->kind == LSM_COND_SET)
		lsm_select_set(condition, values, n, pass);
	else
		lsm_select_range(condition, values, n, pass);
}

/* ---- vectors ---- */

/*
 * A range of numbers as one of the codes that stand for them: numbers are compared as
 * they are stored, without being made.  False: the encoding has no such codes.
 */
static bool
lsm_select_codes_inside(const LsmCondition *condition, const LsmVector *v, uint8 *pass)
{
	int64		min;
	int64		max;
	uint64		lo;
	uint64		hi;
	uint32	   *codes;

	if (condition->kind != LSM_COND_RANGE || v->encoding != LSM_ENC_FOR || v->width > 30 ||
		(condition->order != LSM_NUMBER_SIGNED && condition->order != LSM_NUMBER_SCALED) ||
		!lsm_vector_bounds(v, &min, &max))
		return false;
	/* lsm_select_settled() has seen that the range and the bounds overlap */
	lo = condition->lo <= min ? 0 :
		((uint64) condition->lo - (uint64) min + v->multiplier - 1) / v->multiplier;
	hi = condition->hi >= max ? v->mask : ((uint64) condition->hi - (uint64) min) / v->multiplier;
	if (lo > hi)
	{
		memset(pass, condition->outside, v->n);
		return true;
	}
	codes = palloc(v->n * sizeof(uint32));
	if (lsm_vector_codes16(v, (uint16 *) codes))
		lsm_numbers_codes16_inside((uint16 *) codes, v->n, (uint16) lo, (uint16) hi,
								   condition->outside, pass);
	else
	{
		(void) lsm_vector_codes(v, codes);
		lsm_numbers_codes_inside(codes, v->n, (uint32) lo, (uint32) hi, condition->outside,
								 pass);
	}
	pfree(codes);
	return true;
}

/* Do bounds of all numbers tell which of them meet a range?  All or none, then. */
static bool
lsm_select_settled(const LsmCondition *condition, const LsmVector *v, uint8 *pass)
{
	int64		min;
	int64		max;

	if (condition->kind != LSM_COND_RANGE ||
		(condition->order != LSM_NUMBER_SIGNED && condition->order != LSM_NUMBER_SCALED) ||
		!lsm_vector_bounds(v, &min, &max))
		return false;
	if (condition->lo <= min && max <= condition->hi)
		memset(pass, !condition->outside, v->n);
	else if (max < condition->lo || min > condition->hi || condition->lo > condition->hi)
		memset(pass, condition->outside, v->n);
	else
		return false;
	return true;
}

/*
 * pass[i]: does value i of the vector meet the condition?  A test is made only for
 * values with wanted[i] (NULL: all): it may raise an error, which must not come from a
 * row that nobody asks for.
 */
static void
lsm_select_vector(LsmChunk *chunk, const LsmVector *v, LsmCondition *condition, bool numbers,
				  const uint8 *wanted, uint8 *pass)
{
	uint8	   *child_pass;
	uint8	   *child_wanted;
	uint16	   *codes;
	int			i = 0;

	switch (v->encoding)
	{
		case LSM_ENC_RLE:
			child_pass = palloc(v->child->n);
			child_wanted = palloc0(v->child->n);
			for (int run = 0; run < v->child->n; run++)
				for (int end = lsm_vector_run_end(chunk, v, run); i < end; i++)
					child_wanted[run] |= wanted == NULL || wanted[i];
			lsm_select_vector(chunk, v->child, condition, numbers, child_wanted, child_pass);
			i = 0;
			for (int run = 0; run < v->child->n; run++)
				for (int end = lsm_vector_run_end(chunk, v, run); i < end; i++)
					pass[i] = child_pass[run];
			pfree(child_pass);
			pfree(child_wanted);
			return;
		case LSM_ENC_DICT:
			child_pass = palloc(v->child->n);
			child_wanted = wanted == NULL ? NULL : palloc0(v->child->n);
			codes = palloc(v->n * sizeof(uint16));
			lsm_vector_all_codes(chunk, v, codes);
			for (i = 0; i < v->n && wanted != NULL; i++)
				child_wanted[codes[i]] |= wanted[i];
			lsm_select_vector(chunk, v->child, condition, numbers, child_wanted, child_pass);
			for (i = 0; i < v->n; i++)
				pass[i] = child_pass[codes[i]];
			pfree(child_pass);
			if (child_wanted != NULL)
				pfree(child_wanted);
			pfree(codes);
			return;
		case LSM_ENC_CONST:
			if (v->n > 1)
			{
				LsmVector	one = *v;
				uint8		any = wanted == NULL || memchr(wanted, 1, v->n) != NULL;

				one.n = 1;
				lsm_select_vector(chunk, &one, condition, numbers, &any, pass);
				memset(pass + 1, pass[0], v->n - 1);
				return;
			}
			break;
	}
	if (numbers && (lsm_select_settled(condition, v, pass) ||
					lsm_select_codes_inside(condition, v, pass)))
		return;
	if (numbers)
	{
		int64	   *values = palloc(v->n * sizeof(int64));

		lsm_vector_ints(chunk, v, values);
		lsm_select_numbers(condition, values, v->n, pass);
		pfree(values);
		return;
	}
	for (i = 0; i < v->n; i++)
		pass[i] = (wanted == NULL || wanted[i]) &&
			condition->test(condition, lsm_vector_datum(chunk, v, i));
}

/* ---- rows ---- */

/* Which values belong to rows of the mask? */
static uint8 *
lsm_select_wanted(const LsmChunk *chunk, const uint8 *mask)
{
	uint8	   *wanted = palloc(chunk->vector.n);

	for (int row = 0, i = 0; row < chunk->rows; row++)
		if (chunk->present == NULL || (chunk->present[row >> 3] >> (row & 7) & 1))
			wanted[i++] = mask[row];
	return wanted;
}

/* Join what was found for the values with the rows that have one. */
static void
lsm_select_spread(const LsmChunk *chunk, const uint8 *pass, uint8 *mask)
{
	if (chunk->present == NULL)
	{
		lsm_numbers_and(mask, pass, chunk->rows);
		return;
	}
	for (int row = 0, i = 0; row < chunk->rows; row++)
	{
		if (chunk->present[row >> 3] >> (row & 7) & 1)
			mask[row] &= pass[i++];
		else
			mask[row] = 0;
	}
}

static void
lsm_select_nulls(const LsmChunk *chunk, bool null, uint8 *mask)
{
	if (chunk->vector.encoding == LSM_ENC_NULLS)
	{
		if (!null)
			memset(mask, 0, chunk->rows);
		return;
	}
	if (chunk->present == NULL)
	{
		if (null)
			memset(mask, 0, chunk->rows);
		return;
	}
	for (int row = 0; row < chunk->rows; row++)
		mask[row] &= (chunk->present[row >> 3] >> (row & 7) & 1) ^ null;
}

/*
 * Look only at rows that are left, if these are few; false: all values are to be looked
 * at.
 */
static bool
lsm_select_few(LsmChunk *chunk, LsmCondition *condition, uint8 *mask)
{
	LsmVector  *v = &chunk->vector;
	uint16		rows[LSM_SELECT_MAX_FEW + 8];
	int64		values[LSM_SELECT_MAX_FEW];
	uint8		pass[LSM_SELECT_MAX_FEW];
	int			few = Min(chunk->rows / LSM_SELECT_SPARSE, LSM_SELECT_MAX_FEW);
	int			n = lsm_numbers_count(mask, chunk->rows);

	if (v->encoding != LSM_ENC_FOR || chunk->present != NULL || n > few)
		return false;
	(void) lsm_numbers_list(mask, chunk->rows, rows);
	for (int i = 0; i < n; i++)
		values[i] = (int64) (v->base + v->multiplier *
							 lsm_bits_get(v->codes, v->width, v->mask, rows[i]));
	lsm_select_numbers(condition, values, n, pass);
	for (int i = 0; i < n; i++)
		mask[rows[i]] = pass[i];
	return true;
}

/* What rows with a value must meet of numbers: both ranges at once, if there are two. */
static LsmCondition
lsm_select_join(const LsmChunk *chunk, LsmCondition *condition)
{
	LsmCondition joined;

	for (LsmCondition *each = condition; each != NULL && chunk->numeric; each = each->also)
		if (each->order == LSM_NUMBER_SCALED)
			each->rescale(each, chunk->scale & ~LSM_NUMERIC_LONG_HEADER);
	joined = *condition;
	for (LsmCondition *each = condition->also; each != NULL; each = each->also)
	{
		joined.lo = Max(joined.lo, each->lo);
		joined.hi = Min(joined.hi, each->hi);
	}
	return joined;
}

static void
lsm_select_chunk(LsmChunk *chunk, LsmCondition *condition, bool numbers, uint8 *mask)
{
	uint8	   *pass;
	uint8	   *wanted;

	if (numbers && lsm_select_few(chunk, condition, mask))
		return;
	pass = palloc(chunk->vector.n);
	wanted = numbers ? NULL : lsm_select_wanted(chunk, mask);
	lsm_select_vector(chunk, &chunk->vector, condition, numbers, wanted, pass);
	lsm_select_spread(chunk, pass, mask);
	pfree(pass);
	if (wanted != NULL)
		pfree(wanted);
}

int
lsm_block_select(LsmBlock *block, LsmCondition *condition, uint8 *mask)
{
	LsmChunk   *chunk = lsm_block_column_chunk(block, condition->attnum);
	int			rows = lsm_block_rows(block);

	if (condition->kind == LSM_COND_NULL || condition->kind == LSM_COND_NOT_NULL)
		lsm_select_nulls(chunk, condition->kind == LSM_COND_NULL, mask);
	else if (chunk->vector.encoding == LSM_ENC_NULLS)
		memset(mask, 0, rows);
	else if (condition->kind != LSM_COND_TEST && !chunk->vector.strings)
	{
		LsmCondition joined = lsm_select_join(chunk, condition);

		lsm_select_chunk(chunk, &joined, true, mask);
	}
	else
	{
		for (LsmCondition *each = condition; each != NULL; each = each->also)
			lsm_select_chunk(chunk, each, false, mask);
	}
	return lsm_numbers_count(mask, rows);
}

/* Spread the values that there are over the rows that have one, from the end, in place. */
static void
lsm_select_spread_numbers(const LsmChunk *chunk, LsmNumbers *numbers)
{
	int			i = chunk->vector.n;

	for (int row = chunk->rows - 1; row >= 0; row--)
	{
		bool		present = chunk->present[row >> 3] >> (row & 7) & 1;

		numbers->present[row] = present;
		numbers->values[row] = present ? numbers->values[--i] : 0;
	}
}

void
lsm_block_no_numbers(LsmBlock *block, LsmNumbers *numbers)
{
	int			rows = lsm_block_rows(block);

	memset(numbers->values, 0, rows * sizeof(int64));
	memset(numbers->present, 0, rows);
	numbers->nulls = true;
	numbers->scale = 0;
	numbers->min = numbers->max = 0;
}

bool
lsm_block_numbers(LsmBlock *block, int attnum, const uint16 *wanted, int n, LsmNumbers *numbers)
{
	LsmChunk   *chunk = lsm_block_column_chunk(block, attnum);
	LsmVector  *v = &chunk->vector;

	if (v->encoding == LSM_ENC_NULLS)
	{
		lsm_block_no_numbers(block, numbers);
		return true;
	}
	if (v->strings)
		return false;
	numbers->scale = chunk->numeric ? chunk->scale & ~LSM_NUMERIC_LONG_HEADER : 0;
	numbers->nulls = chunk->present != NULL;
	if (n < chunk->rows / LSM_SELECT_SPARSE && !numbers->nulls &&
		v->encoding == LSM_ENC_FOR && lsm_vector_bounds(v, &numbers->min, &numbers->max))
	{
		memset(numbers->values, 0, chunk->rows * sizeof(int64));
		(void) lsm_vector_some(v, wanted, n, numbers->values);
		return true;
	}
	lsm_vector_ints(chunk, v, numbers->values);
	if (!lsm_vector_bounds(v, &numbers->min, &numbers->max))
		lsm_numbers_bounds(numbers->values, v->n, &numbers->min, &numbers->max);
	if (numbers->nulls)
		lsm_select_spread_numbers(chunk, numbers);
	return true;
}

bool
lsm_block_sum(LsmBlock *block, int attnum, int128 *sum, int *count, int *scale)
{
	LsmChunk   *chunk = lsm_block_column_chunk(block, attnum);
	LsmVector  *v = &chunk->vector;

	*sum = 0;
	*count = 0;
	*scale = 0;
	if (v->encoding == LSM_ENC_NULLS)
		return true;
	if (v->strings || !lsm_vector_sum(chunk, v, sum))
		return false;
	*count = v->n;
	*scale = chunk->numeric ? chunk->scale & ~LSM_NUMERIC_LONG_HEADER : 0;
	return true;
}

/* ---- codes ---- */

/* Codes of the values that there are, from 1; returns how many there are, or -1. */
static int
lsm_select_codes(const LsmChunk *chunk, const LsmVector *v, uint16 *codes)
{
	int			i = 0;

	switch (v->encoding)
	{
		case LSM_ENC_CONST:
			for (; i < v->n; i++)
				codes[i] = 1;
			return 1;
		case LSM_ENC_RLE:
			for (int run = 0; run < v->child->n; run++)
				for (int end = lsm_vector_run_end(chunk, v, run); i < end; i++)
					codes[i] = run + 1;
			return v->child->n;
		case LSM_ENC_DICT:
			for (; i < v->n; i++)
				codes[i] = lsm_vector_code(chunk, v, i) + 1;
			return v->child->n;
		case LSM_ENC_FOR:
			if (v->mask >= LSM_BLOCK_MAX_ROWS)
				return -1;
			for (; i < v->n; i++)
				codes[i] = (uint16) lsm_bits_get(v->codes, v->width, v->mask, i) + 1;
			return (int) v->mask + 1;
		default:
			return -1;
	}
}

int
lsm_block_codes(LsmBlock *block, int attnum, uint16 *codes)
{
	LsmChunk   *chunk = lsm_block_column_chunk(block, attnum);
	int			i = chunk->vector.n;
	int			n;

	if (chunk->vector.encoding == LSM_ENC_NULLS)
	{
		memset(codes, 0, chunk->rows * sizeof(uint16));
		return 1;
	}
	n = lsm_select_codes(chunk, &chunk->vector, codes);
	if (n < 0)
		return -1;
	for (int row = chunk->rows - 1; row >= 0 && chunk->present != NULL; row--)
		codes[row] = chunk->present[row >> 3] >> (row & 7) & 1 ? codes[--i] : 0;
	return n + 1;
}
