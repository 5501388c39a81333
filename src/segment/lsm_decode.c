/*-------------------------------------------------------------------------
 *
 * lsm_decode.c
 *	  Reading column chunks: all values at once.
 *
 * The loops are written so that the compiler makes vectors of them where it can.  Decoded
 * values are kept with the chunk, and serve those who ask for one value by number from then
 * on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_codec.h"
#include "segment/lsm_vector.h"
#include "utils/memutils.h"

/* ---------------------------------------------------------------------
 * All values
 * --------------------------------------------------------------------- */

static void lsm_vector_all_ints(const LsmChunk *chunk, const LsmVector *v, uint64 *out);

/* Codes that are whole bytes, in loops that the compiler makes vectors of; false: they are not. */
static bool
lsm_vector_bytes(const LsmVector *v, uint64 *out)
{
	const uint8 *codes = v->codes;

	if (v->multiplier > PG_UINT16_MAX)
		return false;
	if (v->width == 8)
	{
		for (int i = 0; i < v->n; i++)
			out[i] = v->base + (uint32) v->multiplier * (uint32) codes[i];
		return true;
	}
#ifndef WORDS_BIGENDIAN
	if (v->width == 16)
	{
		for (int i = 0; i < v->n; i++)
		{
			uint16		code;

			memcpy(&code, codes + i * sizeof(code), sizeof(code));
			out[i] = v->base + (uint32) v->multiplier * (uint32) code;
		}
		return true;
	}
#endif
	return false;
}

/* The same by way of narrow codes. */
static bool
lsm_vector_narrow(const LsmVector *v, uint64 *out)
{
	uint16		codes[LSM_CODES_BATCH];
	uint64		base = v->base;
	uint32		multiplier = (uint32) v->multiplier;

	if (v->width > 16 || v->multiplier > PG_UINT16_MAX)
		return false;
	for (int from = 0; from < v->n; from += LSM_CODES_BATCH)
	{
		int			n = Min(v->n - from, LSM_CODES_BATCH);

		lsm_codes_unpack16(v, from, n, codes);
		for (int i = 0; i < n; i++)
			out[from + i] = base + multiplier * (uint32) codes[i];
	}
	return true;
}

/* What is in *v is copied: for all the compiler knows, out points to it. */
static void
lsm_vector_for(const LsmVector *v, uint64 *out)
{
	const uint8 *codes = v->codes;
	uint64		base = v->base;
	uint64		multiplier = v->multiplier;
	uint64		mask = v->mask;
	uint64		bit = 0;
	uint64		width = v->width;
	int			n = v->n;

	if (lsm_vector_bytes(v, out) || lsm_vector_narrow(v, out))
		return;
	if (width == 64)
	{
		for (int i = 0; i < n; i++)
			out[i] = base + multiplier * lsm_bits_load(codes + (Size) i * 8);
	}
	else if (multiplier == 1)
	{
		for (int i = 0; i < n; i++)
		{
			out[i] = base + (lsm_bits_load(codes + (bit >> 3)) >> (bit & 7) & mask);
			bit += width;
		}
	}
	else
	{
		for (int i = 0; i < n; i++)
		{
			out[i] = base + multiplier * (lsm_bits_load(codes + (bit >> 3)) >> (bit & 7) & mask);
			bit += width;
		}
	}
}

/* Runs of equal numbers, or (step is 1) of numbers that count up. */
static void
lsm_vector_all_runs(const LsmChunk *chunk, const LsmVector *v, uint64 step, uint64 *out)
{
	uint64	   *values = palloc(v->child->n * sizeof(uint64));
	uint16		ends[LSM_CODES_BATCH];
	int			row = 0;

	lsm_vector_all_ints(chunk, v->child, values);
	for (int from = 0; from < v->child->n; from += LSM_CODES_BATCH)
	{
		int			runs = Min(v->child->n - from, LSM_CODES_BATCH);

		lsm_runs_checked(chunk, v, from, runs, ends);
		for (int run = 0; run < runs; run++)
		{
			uint64		value = values[from + run];

			for (; row < ends[run]; row++)
			{
				out[row] = value;
				value += step;
			}
		}
	}
	/* The end of the last run was checked when opening. */
	Assert(row == v->n);
	pfree(values);
}

static void
lsm_vector_all_ints(const LsmChunk *chunk, const LsmVector *v, uint64 *out)
{

	switch (v->encoding)
	{
		case LSM_ENC_CONST:
			for (int i = 0; i < v->n; i++)
				out[i] = v->base;
			break;
		case LSM_ENC_FOR:
			lsm_vector_for(v, out);
			break;
		case LSM_ENC_LINEAR:
			for (int i = 0; i < v->n; i++)
				out[i] = lsm_vector_line(v, i) + lsm_bits_get(v->codes, v->width, v->mask, i);
			break;
		case LSM_ENC_RLE:
		case LSM_ENC_RUNS:
			lsm_vector_all_runs(chunk, v, v->encoding == LSM_ENC_RUNS, out);
			break;
		case LSM_ENC_DICT:
			{
				uint64	   *values = palloc(v->child->n * sizeof(uint64));
				uint16		codes[LSM_CODES_BATCH];

				lsm_vector_all_ints(chunk, v->child, values);
				for (int from = 0; from < v->n; from += LSM_CODES_BATCH)
				{
					int			n = Min(v->n - from, LSM_CODES_BATCH);

					lsm_codes_checked(chunk, v, from, n, codes);
					for (int i = 0; i < n; i++)
						out[from + i] = values[codes[i]];
				}
				pfree(values);
				break;
			}
	}
}

static void
lsm_vector_all_strings(const LsmChunk *chunk, const LsmVector *v, Datum *out)
{
	int			row = 0;

	switch (v->encoding)
	{
		case LSM_ENC_CONST:
			{
				Datum		value = lsm_vector_string(chunk, v, 0);

				for (int i = 0; i < v->n; i++)
					out[i] = value;
				break;
			}
		case LSM_ENC_RLE:
			for (int run = 0; run < v->child->n; run++)
			{
				Datum		value = lsm_vector_string(chunk, v->child, run);
				uint64		end = lsm_bits_get(v->codes, v->width, v->mask, run);

				if (end > (uint64) v->n || end < (uint64) row)
					lsm_codec_bad(chunk->place, "its runs do not add up");
				for (; row < (int) end; row++)
					out[row] = value;
			}
			Assert(row == v->n);
			break;
		case LSM_ENC_DICT:
			{
				Datum	   *values = palloc(v->child->n * sizeof(Datum));

				lsm_vector_all_strings(chunk, v->child, values);
				for (int i = 0; i < v->n; i++)
				{
					uint64		code = lsm_bits_get(v->codes, v->width, v->mask, i);

					if (code >= (uint64) v->child->n)
						lsm_codec_bad(chunk->place, "a code is out of range");
					out[i] = values[code];
				}
				pfree(values);
				break;
			}
		default:
			for (int i = 0; i < v->n; i++)
				out[i] = lsm_vector_string(chunk, v, i);
			break;
	}
}

/* Turn integers into Datums in place. */
static void
lsm_codec_all_datums(LsmChunk *chunk, Datum *values, int n)
{
	if (chunk->numeric)
	{
		char	   *slots = MemoryContextAlloc(chunk->context, (Size) n * LSM_NUMERIC_MAX_BYTES);
		char	   *slot = slots;
		uint64		previous = 0;
		Datum		built = 0;

		for (int i = 0; i < n; i++)
		{
			if (built == 0 || values[i] != previous)
			{
				previous = values[i];
				lsm_numeric_build((int64) previous, chunk->scale, slot);
				built = PointerGetDatum(slot);
				slot += LSM_NUMERIC_MAX_BYTES;
			}
			values[i] = built;
		}
		return;
	}
	switch (chunk->type->typlen)
	{
		case 1:
			for (int i = 0; i < n; i++)
				values[i] = CharGetDatum((char) values[i]);
			break;
		case 2:
			for (int i = 0; i < n; i++)
				values[i] = Int16GetDatum((int16) values[i]);
			break;
		case 4:
			for (int i = 0; i < n; i++)
				values[i] = Int32GetDatum((int32) values[i]);
			break;
	}
}

void
lsm_chunk_decode(LsmChunk *chunk, Datum **values_p, bool **isnull_p)
{
	LsmVector  *v = &chunk->vector;
	Datum	   *values;
	bool	   *isnull;

	if (chunk->values == NULL)
	{
		values = MemoryContextAlloc(chunk->context, chunk->rows * sizeof(Datum));
		isnull = MemoryContextAlloc(chunk->context, chunk->rows * sizeof(bool));
		if (v->encoding == LSM_ENC_NULLS)
		{
			memset(values, 0, chunk->rows * sizeof(Datum));
			memset(isnull, true, chunk->rows * sizeof(bool));
		}
		else
		{
			if (v->strings)
				lsm_vector_all_strings(chunk, v, values);
			else
			{
				lsm_vector_all_ints(chunk, v, (uint64 *) values);
				lsm_codec_all_datums(chunk, values, v->n);
			}
			if (chunk->present == NULL)
				memset(isnull, false, chunk->rows * sizeof(bool));
			else
			{
				int			i = v->n;

				/* Spread the values from the end, in place. */
				for (int row = chunk->rows - 1; row >= 0; row--)
				{
					isnull[row] = (chunk->present[row >> 3] >> (row & 7) & 1) == 0;
					values[row] = isnull[row] ? (Datum) 0 : values[--i];
				}
				Assert(i == 0);
			}
		}
		chunk->values = values;
		chunk->isnull = isnull;
	}
	*values_p = chunk->values;
	*isnull_p = chunk->isnull;
}

/*
 * All values of a chunk of ascending TIDs without nulls, for searching: how far
 * each lies from the first, which goes to *first.  NULL: they are too far apart.
 */
uint32 *
lsm_chunk_decode_tids(LsmChunk *chunk, uint64 *first)
{
	uint64	   *tids = palloc(chunk->rows * sizeof(uint64));
	uint32	   *offsets = NULL;

	Assert(!chunk->vector.strings && chunk->present == NULL &&
		   chunk->vector.encoding != LSM_ENC_NULLS);
	lsm_vector_all_ints(chunk, &chunk->vector, tids);
	for (int i = 1; i < chunk->rows; i++)
		if (tids[i] < tids[i - 1])
			lsm_codec_bad(chunk->place, "its TIDs do not ascend");
	if (tids[chunk->rows - 1] - tids[0] <= PG_UINT32_MAX)
	{
		offsets = MemoryContextAlloc(chunk->context, chunk->rows * sizeof(uint32));
		for (int i = 0; i < chunk->rows; i++)
			offsets[i] = (uint32) (tids[i] - tids[0]);
		*first = tids[0];
	}
	pfree(tids);
	return offsets;
}

/* ---------------------------------------------------------------------
 * By encoding
 * --------------------------------------------------------------------- */

void
lsm_vector_ints(const LsmChunk *chunk, const LsmVector *v, int64 *out)
{
	Assert(!v->strings);
	lsm_vector_all_ints(chunk, v, (uint64 *) out);
}

bool
lsm_vector_some(const LsmVector *v, const uint16 *places, int n, int64 *out)
{
	if (v->encoding != LSM_ENC_FOR)
		return false;
	for (int i = 0; i < n; i++)
		out[places[i]] = (int64) (v->base + v->multiplier *
								  lsm_bits_get(v->codes, v->width, v->mask, places[i]));
	return true;
}
