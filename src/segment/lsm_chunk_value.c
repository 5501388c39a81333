/*-------------------------------------------------------------------------
 *
 * lsm_chunk_value.c
 *	  Reading column chunks: one value by number, or by search among TIDs.
 *
 * Nothing is decoded but what is asked for, unless numerics are built again and again.
 * Codes, offsets and string lengths are checked here, each time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "segment/lsm_codec.h"
#include "segment/lsm_vector.h"
#include "utils/memutils.h"

/* Numerics that are built one by one before the whole column is decoded. */
#define LSM_CODEC_MAX_BUILT		32

/* ---------------------------------------------------------------------
 * One value
 * --------------------------------------------------------------------- */

/* The number of a row's value among the values, -1 if it is null. */
static inline int
lsm_chunk_rank(const LsmChunk *chunk, int row)
{
	uint64		word;
	int			bit = row & 63;

	Assert(row >= 0 && row < chunk->rows);
	if (chunk->vector.encoding == LSM_ENC_NULLS)
		return -1;
	if (chunk->present == NULL)
		return row;
	word = lsm_bits_load(chunk->present + (row >> 6) * 8);
	if ((word >> bit & 1) == 0)
		return -1;
	return chunk->ranks[row >> 6] + pg_popcount64(word & ((UINT64CONST(1) << bit) - 1));
}

int64
lsm_chunk_int(LsmChunk *chunk, int row)
{
	int			i = lsm_chunk_rank(chunk, row);

	Assert(!chunk->vector.strings);
	return i < 0 ? 0 : (int64) lsm_vector_int(chunk, &chunk->vector, i);
}

/* A number as the server would have it in a Datum of that length. */
static inline Datum
lsm_codec_datum(int64 value, int typlen)
{
	switch (typlen)
	{
		case 1:
			return CharGetDatum((char) value);
		case 2:
			return Int16GetDatum((int16) value);
		case 4:
			return Int32GetDatum((int32) value);
		default:
			return Int64GetDatum(value);
	}
}

/*
 * Numerics are built in the block's memory, if the caller has no room for one.  So that
 * memory stays bounded however often this is called, all are built once, after a few.
 */
static pg_noinline Datum
lsm_chunk_numeric(LsmChunk *chunk, int row, int i)
{
	char	   *result;

	if (chunk->built >= LSM_CODEC_MAX_BUILT || chunk->built >= chunk->rows / 2)
	{
		Datum	   *values;
		bool	   *nulls;

		lsm_chunk_decode(chunk, &values, &nulls);
		return values[row];
	}
	result = MemoryContextAlloc(chunk->context, LSM_NUMERIC_MAX_BYTES);
	lsm_numeric_build(lsm_vector_int(chunk, &chunk->vector, i), chunk->scale, result);
	chunk->built++;
	return PointerGetDatum(result);
}

Datum
lsm_chunk_value(LsmChunk *chunk, int row, bool *isnull, char *room)
{
	int			i = row;

	if (chunk->values != NULL)
	{
		*isnull = chunk->isnull[row];
		return chunk->values[row];
	}
	if (chunk->present != NULL || chunk->kind == LSM_CHUNK_NO_VALUES)
		i = lsm_chunk_rank(chunk, row);
	if (i < 0)
	{
		*isnull = true;
		return (Datum) 0;
	}
	*isnull = false;
	switch (chunk->kind)
	{
		case LSM_CHUNK_STRINGS:
			return lsm_vector_string(chunk, &chunk->vector, i);
		case LSM_CHUNK_INTEGERS:
			return lsm_codec_datum(lsm_vector_int(chunk, &chunk->vector, i), chunk->typlen);
		default:
			if (room == NULL)
				return lsm_chunk_numeric(chunk, row, i);
			lsm_numeric_build(lsm_vector_int(chunk, &chunk->vector, i), chunk->scale, room);
			return PointerGetDatum(room);
	}
}

/* Have the processor fetch what the value of a row is made of. */
void
lsm_chunk_foresee(const LsmChunk *chunk, int row)
{
	const LsmVector *v = &chunk->vector;

	if (chunk->values != NULL)
		lsm_prefetch(&chunk->values[row]);
	else if (v->codes != NULL)
		lsm_prefetch(v->codes + (((Size) row * v->width) >> 3));
	else if (v->encoding == LSM_ENC_FIXED)
		lsm_prefetch(v->data + (Size) row * v->stride);
	else if (v->offsets != NULL)
		lsm_prefetch(&v->offsets[row]);
}

/* ---------------------------------------------------------------------
 * TIDs
 * --------------------------------------------------------------------- */

int
lsm_chunk_lower_bound(LsmChunk *chunk, uint64 key)
{
	LsmVector  *v = &chunk->vector;
	int			low = 0;
	int			high = chunk->rows;

	Assert(!v->strings && chunk->present == NULL && v->encoding != LSM_ENC_NULLS);

	if (v->encoding == LSM_ENC_RUNS || v->encoding == LSM_ENC_RLE)
	{
		uint64		start;
		uint64		end;

		/* The last run that begins below the key, or the first run. */
		high = v->child->n;
		while (low < high)
		{
			int			middle = (low + high) / 2;

			if (lsm_vector_int(chunk, v->child, middle) < key)
				low = middle + 1;
			else
				high = middle;
		}
		if (low == 0)
			return 0;
		low--;
		start = low == 0 ? 0 : lsm_bits_get(v->codes, v->width, v->mask, low - 1);
		end = lsm_bits_get(v->codes, v->width, v->mask, low);
		if (start > end || end > (uint64) chunk->rows)
			lsm_codec_bad(chunk->place, "its runs do not add up");
		if (v->encoding == LSM_ENC_RLE)
			return (int) end;
		return (int) Min(end, start + Min(key - lsm_vector_int(chunk, v->child, low),
										  (uint64) chunk->rows));
	}

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lsm_vector_int(chunk, v, middle) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Does it count up by one, from its base on? */
static bool
lsm_vector_counts_up(const LsmVector *v)
{
	if (v->encoding == LSM_ENC_LINEAR)
		return v->multiplier == UINT64CONST(1) << 16 && v->width == 0;
	return v->n == 1 && v->encoding == LSM_ENC_CONST;
}

int
lsm_chunk_tid_runs(LsmChunk *chunk, int max, uint64 *firsts, uint16 *ends)
{
	const LsmVector *v = &chunk->vector;
	uint64		next = 0;
	int			row = 0;

	Assert(!v->strings && chunk->present == NULL && v->encoding != LSM_ENC_NULLS);
	if (lsm_vector_counts_up(v))
	{
		firsts[0] = v->base;
		ends[0] = chunk->rows;
		return 1;
	}
	if (v->encoding != LSM_ENC_RUNS || v->child->n > max)
		return 0;
	for (int run = 0; run < v->child->n; run++)
	{
		int			end = lsm_vector_run_end(chunk, v, run);

		firsts[run] = lsm_vector_plain_int(v->child, run);
		if (end <= row)
			lsm_codec_bad(chunk->place, "its runs do not add up");
		if (firsts[run] < next)
			return 0;			/* several records of a root */
		next = firsts[run] + (uint64) (end - row);
		ends[run] = row = end;
	}
	return v->child->n;
}

/* ---------------------------------------------------------------------
 * By encoding
 * --------------------------------------------------------------------- */

int
lsm_vector_run_end(const LsmChunk *chunk, const LsmVector *v, int run)
{
	uint64		end = lsm_bits_get(v->codes, v->width, v->mask, run);

	if (end > (uint64) v->n)
		lsm_codec_bad(chunk->place, "its runs do not add up");
	return (int) end;
}

int
lsm_vector_code(const LsmChunk *chunk, const LsmVector *v, int i)
{
	uint64		code = lsm_bits_get(v->codes, v->width, v->mask, i);

	if (code >= (uint64) v->child->n)
		lsm_codec_bad(chunk->place, "a code is out of range");
	return (int) code;
}

Datum
lsm_vector_datum(const LsmChunk *chunk, const LsmVector *v, int i)
{
	char	   *result;

	if (v->strings)
		return lsm_vector_string(chunk, v, i);
	if (!chunk->numeric)
		return lsm_codec_datum((int64) lsm_vector_int(chunk, v, i), chunk->type->typlen);
	result = palloc(LSM_NUMERIC_MAX_BYTES);
	lsm_numeric_build((int64) lsm_vector_int(chunk, v, i), chunk->scale, result);
	return PointerGetDatum(result);
}
