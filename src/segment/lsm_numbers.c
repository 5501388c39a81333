/*-------------------------------------------------------------------------
 *
 * lsm_numbers.c
 *	  Loops over numbers and masks of a block's rows.
 *
 * Each is plain enough for the compiler to make vectors of it with the
 * instructions that every machine has (on x86-64: SSE2, which cannot compare or
 * multiply 64-bit numbers).  Overflow is the caller's business: he knows
 * bounds, or wants it to wrap around.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "segment/lsm_codec.h"
#include "segment/lsm_numbers.h"

/* Differences of numbers from minus this to this, less one, fit in 64 bits. */
#define LSM_NUMBERS_NEAR		(INT64CONST(1) << 62)

int
lsm_numbers_count(const uint8 *mask, int n)
{
	int			count = 0;
	int			i = 0;

	/* bytes would overflow after 255 */
	while (i < n)
	{
		int			end = Min(n, i + 128);
		uint8		some = 0;

		for (; i < end; i++)
			some += mask[i];
		count += some;
	}
	return count;
}

void
lsm_numbers_and(uint8 *mask, const uint8 *other, int n)
{
	for (int i = 0; i < n; i++)
		mask[i] &= other[i];
}

void
lsm_numbers_inside(const int64 *values, int n, int64 lo, int64 hi, bool outside, uint8 *pass)
{
	uint64		far = 0;
	uint8		flip = !outside;

	/* signs of differences tell, if these do not overflow */
	for (int i = 0; i < n; i++)
		far |= (uint64) values[i] + (uint64) LSM_NUMBERS_NEAR;
	if ((far & (UINT64CONST(1) << 63)) == 0 &&
		lo < LSM_NUMBERS_NEAR && hi >= -LSM_NUMBERS_NEAR)
	{
		lo = Max(lo, -LSM_NUMBERS_NEAR);
		hi = Min(hi, LSM_NUMBERS_NEAR - 1);
		for (int i = 0; i < n; i++)
			pass[i] = (uint8) ((uint64) ((values[i] - lo) | (hi - values[i])) >> 63) ^ flip;
		return;
	}
	for (int i = 0; i < n; i++)
		pass[i] = (values[i] >= lo && values[i] <= hi) ^ outside;
}

void
lsm_numbers_codes_inside(const uint32 *codes, int n, uint32 lo, uint32 hi, bool outside,
						 uint8 *pass)
{
	uint8		flip = !outside;

	for (int i = 0; i < n; i++)
		pass[i] = (uint8) (((codes[i] - lo) | (hi - codes[i])) >> 31) ^ flip;
}

void
lsm_numbers_codes16_inside(const uint16 *codes, int n, uint16 lo, uint16 hi, bool outside,
						   uint8 *pass)
{
	uint16		span = hi - lo;
	uint8		flip = outside;

	for (int i = 0; i < n; i++)
		pass[i] = (uint8) ((uint16) (codes[i] - lo) <= span) ^ flip;
}

/* Eight rows at a time: mostly there are all of them, or few. */
int
lsm_numbers_list(const uint8 *mask, int n, uint16 *rows)
{
	const uint64 all = UINT64CONST(0x0101010101010101);
	int			count = 0;
	int			row = 0;

	for (; row + 8 <= n; row += 8)
	{
		uint64		word = lsm_bits_load(mask + row);

		if (word == all)
		{
			for (int i = 0; i < 8; i++)
				rows[count + i] = row + i;
			count += 8;
			continue;
		}
		for (; word != 0; word &= word - 1)
			rows[count++] = row + pg_rightmost_one_pos64(word) / 8;
	}
	for (; row < n; row++)
	{
		rows[count] = row;
		count += mask[row];
	}
	return count;
}

void
lsm_numbers_bounds(const int64 *values, int n, int64 *min, int64 *max)
{
	int64		least = values[0];
	int64		most = values[0];

	for (int i = 1; i < n; i++)
	{
		least = values[i] < least ? values[i] : least;
		most = values[i] > most ? values[i] : most;
	}
	*min = least;
	*max = most;
}

static int64
lsm_numbers_sum_narrow(const int64 *values, const uint8 *mask, int n)
{
	int64		sum = 0;

	if (mask == NULL)
	{
		for (int i = 0; i < n; i++)
			sum += values[i];
	}
	else
	{
		for (int i = 0; i < n; i++)
			sum += values[i] & -(int64) mask[i];
	}
	return sum;
}

int128
lsm_numbers_sum(const int64 *values, const uint8 *mask, int n, bool narrow)
{
	int128		sum = 0;

	if (narrow)
		return lsm_numbers_sum_narrow(values, mask, n);
	for (int i = 0; i < n; i++)
		sum += mask == NULL ? values[i] : values[i] & -(int64) mask[i];
	return sum;
}

void
lsm_numbers_add(int64 *out, const int64 *a, int64 factor, const int64 *b, int64 other_factor,
				int n)
{
	if (factor == 1 && other_factor == 1)
	{
		for (int i = 0; i < n; i++)
			out[i] = a[i] + b[i];
	}
	else if (factor == 1 && other_factor == -1)
	{
		for (int i = 0; i < n; i++)
			out[i] = a[i] - b[i];
	}
	else
	{
		for (int i = 0; i < n; i++)
			out[i] = a[i] * factor + b[i] * other_factor;
	}
}

void
lsm_numbers_add_const(int64 *out, const int64 *a, int64 factor, int64 c, int n)
{
	if (factor == 1)
	{
		for (int i = 0; i < n; i++)
			out[i] = c + a[i];
	}
	else if (factor == -1)
	{
		for (int i = 0; i < n; i++)
			out[i] = c - a[i];
	}
	else
	{
		for (int i = 0; i < n; i++)
			out[i] = a[i] * factor + c;
	}
}

void
lsm_numbers_multiply(int64 *out, const int64 *a, const int64 *b, int n)
{
	for (int i = 0; i < n; i++)
		out[i] = a[i] * b[i];
}
