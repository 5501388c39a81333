/*-------------------------------------------------------------------------
 *
 * lsm_vector.h
 *	  Vectors of an opened chunk, for the files that read them.
 *
 * What one value takes is here, in full: it is on the path of each row that is looked up,
 * and in the loops of those who decode all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VECTOR_H
#define LSM_VECTOR_H

#include "lsm.h"

#include "access/detoast.h"
#include "access/tupmacs.h"
#include "segment/lsm_codec.h"

/* Raise that a chunk is damaged (lsm_codec.c). */
pg_noreturn extern void lsm_codec_bad(const LsmCodecPlace *place, const char *what);

/* ---- many codes (lsm_codes.c) ---- */

/* So many codes are unpacked at a time by who needs no array of all of them. */
#define LSM_CODES_BATCH			512

/* Codes from number from, a multiple of 8, on; none has more than 16 bits. */
extern void lsm_codes_unpack16(const LsmVector *v, int from, int n, uint16 *out);

/* The codes of a dictionary; each is checked. */
extern void lsm_codes_checked(const LsmChunk *chunk, const LsmVector *v, int from, int n,
							  uint16 *codes);

/* Where runs end, so many of them; each is checked. */
extern void lsm_runs_checked(const LsmChunk *chunk, const LsmVector *v, int from, int n,
							 uint16 *ends);

/* ---- one value ---- */

/* The run that value i is in: the first whose end is greater. */
static inline int
lsm_vector_run(const LsmVector *v, int i)
{
	int			low = 0;
	int			high = v->child->n - 1;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lsm_bits_get(v->codes, v->width, v->mask, middle) > (uint64) i)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static inline uint64
lsm_vector_line(const LsmVector *v, int i)
{
	return v->base + (uint64) ((int64) (v->multiplier * (uint64) i) >> 16);
}

/* Value i of a vector that has no child: children are of this kind. */
static inline uint64
lsm_vector_plain_int(const LsmVector *v, int i)
{
	Assert(i >= 0 && i < v->n);
	if (v->encoding == LSM_ENC_FOR)
		return v->base + v->multiplier * lsm_bits_get(v->codes, v->width, v->mask, i);
	if (v->encoding == LSM_ENC_CONST)
		return v->base;
	Assert(v->encoding == LSM_ENC_LINEAR);
	return lsm_vector_line(v, i) + lsm_bits_get(v->codes, v->width, v->mask, i);
}

static inline uint64
lsm_vector_int(const LsmChunk *chunk, const LsmVector *v, int i)
{
	uint64		code;
	int			run;

	Assert(i >= 0 && i < v->n);
	switch (v->encoding)
	{
		case LSM_ENC_RLE:
			return lsm_vector_plain_int(v->child, lsm_vector_run(v, i));
		case LSM_ENC_RUNS:
			run = lsm_vector_run(v, i);
			code = run == 0 ? 0 : lsm_bits_get(v->codes, v->width, v->mask, run - 1);
			return lsm_vector_plain_int(v->child, run) + ((uint64) i - code);
		case LSM_ENC_DICT:
			code = lsm_bits_get(v->codes, v->width, v->mask, i);
			if (code >= (uint64) v->child->n)
				lsm_codec_bad(chunk->place, "a code is out of range");
			return lsm_vector_plain_int(v->child, (int) code);
		default:
			return lsm_vector_plain_int(v, i);
	}
}

/* Bytes of a pointer to a large value: the only external datum there is. */
static inline uint32
lsm_codec_pointer_bytes(const LsmChunk *chunk, const char *p, Size left)
{
	if (left < TOAST_POINTER_SIZE || VARTAG_EXTERNAL(p) != VARTAG_ONDISK)
		lsm_codec_bad(chunk->place, "it has an external datum of an unknown kind");
	return TOAST_POINTER_SIZE;
}

/*
 * Check that a string which begins at p and has at most left bytes can be
 * handed out: it is whole, and aligned as its type wants it.
 */
static inline Datum
lsm_codec_check_string(const LsmChunk *chunk, const char *p, Size left)
{
	if (chunk->typlen == -1)
	{
		if (left > 0 && VARATT_IS_1B(p))
		{
			if (VARATT_IS_1B_E(p))
				(void) lsm_codec_pointer_bytes(chunk, p, left);
			else if (VARSIZE_1B(p) > left)
				lsm_codec_bad(chunk->place, "a string is cut off");
			return PointerGetDatum(p);
		}
		if ((uintptr_t) p != att_align_nominal((uintptr_t) p, chunk->typalign))
			lsm_codec_bad(chunk->place, "a string is not aligned");
		if (left < VARHDRSZ || VARSIZE_4B(p) < VARHDRSZ || VARSIZE_4B(p) > left)
			lsm_codec_bad(chunk->place, "a string is cut off");
		if (VARATT_IS_4B_C(p) && VARSIZE_4B(p) < VARHDRSZ_COMPRESSED)
			lsm_codec_bad(chunk->place, "a string is cut off");
		return PointerGetDatum(p);
	}
	if (chunk->typlen == -2)
	{
		if (strnlen(p, left) == left)
			lsm_codec_bad(chunk->place, "a string is cut off");
		return PointerGetDatum(p);
	}
	if ((uintptr_t) p != att_align_nominal((uintptr_t) p, chunk->typalign))
		lsm_codec_bad(chunk->place, "a string is not aligned");
	if (left < (Size) chunk->typlen)
		lsm_codec_bad(chunk->place, "a string is cut off");
	return PointerGetDatum(p);
}

static inline Datum
lsm_vector_string(const LsmChunk *chunk, const LsmVector *v, int i)
{
	uint64		start;
	uint64		end;

	Assert(i >= 0 && i < v->n);
	if (v->encoding == LSM_ENC_RLE)
	{
		i = lsm_vector_run(v, i);
		v = v->child;
	}
	else if (v->encoding == LSM_ENC_DICT)
	{
		start = lsm_bits_get(v->codes, v->width, v->mask, i);
		if (start >= (uint64) v->child->n)
			lsm_codec_bad(chunk->place, "a code is out of range");
		i = (int) start;
		v = v->child;
	}
	switch (v->encoding)
	{
		case LSM_ENC_CONST:
			start = 0;
			end = v->data_len;
			break;
		case LSM_ENC_FIXED:
			start = (uint64) i * v->stride;
			end = start + v->stride;
			break;
		case LSM_ENC_VAR:
			start = lsm_bits_get(v->codes, v->width, v->mask, i);
			end = v->data_len;
			if (i + 1 < v->n)
				end = lsm_bits_get(v->codes, v->width, v->mask, i + 1);
			if (start > end || end > v->data_len)
				lsm_codec_bad(chunk->place, "an offset is out of range");
			break;
		default:
			Assert(v->encoding == LSM_ENC_STREAM || v->encoding == LSM_ENC_BODIES);
			start = v->offsets[i];
			end = v->data_len;
			break;
	}
	return lsm_codec_check_string(chunk, v->data + start, end - start);
}

#endif							/* LSM_VECTOR_H */
