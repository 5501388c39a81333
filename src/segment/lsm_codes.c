/*-------------------------------------------------------------------------
 *
 * lsm_codes.c
 *	  Reading column chunks: many bit-packed codes at once.
 *
 * Eight codes take as many bytes as one has bits, so every eighth begins a byte.  They are
 * taken out of as few words as have them whole, for each width by shifts that are known
 * when compiling, without branches.  The last word may end 7 bytes behind the codes.
 *
 * Codes of dictionaries, and ends of runs, are checked, as many as there are at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_codec.h"
#include "segment/lsm_vector.h"

/* Code number code, of the eight that begin at p, out of a word with some of them whole. */
#define LSM_CODES_WORD(p, width, code) \
	(lsm_bits_load((p) + ((code) * (width) >> 3)) >> ((code) * (width) & 7))
#define LSM_CODES_TAKE(word, width, code) \
	((word) >> (code) * (width) & ((UINT64CONST(1) << (width)) - 1))
#define LSM_CODES_TWO(out, p, width, code) \
	do { \
		uint64		two_ = LSM_CODES_WORD(p, width, code); \
		(out)[code] = LSM_CODES_TAKE(two_, width, 0); \
		(out)[(code) + 1] = LSM_CODES_TAKE(two_, width, 1); \
	} while (0)
#define LSM_CODES_FOUR(out, p, width, code) \
	do { \
		uint64		four_ = LSM_CODES_WORD(p, width, code); \
		(out)[code] = LSM_CODES_TAKE(four_, width, 0); \
		(out)[(code) + 1] = LSM_CODES_TAKE(four_, width, 1); \
		(out)[(code) + 2] = LSM_CODES_TAKE(four_, width, 2); \
		(out)[(code) + 3] = LSM_CODES_TAKE(four_, width, 3); \
	} while (0)

/* Up to 15 bits, four fit in a word wherever in its first byte they begin. */
#define LSM_CODES_UNPACK(width) \
	for (int i = 0; i + 8 <= n; i += 8, p += (width)) \
	{ \
		if ((width) <= 15) \
		{ \
			LSM_CODES_FOUR(out + i, p, width, 0); \
			LSM_CODES_FOUR(out + i, p, width, 4); \
		} \
		else \
		{ \
			LSM_CODES_TWO(out + i, p, width, 0); \
			LSM_CODES_TWO(out + i, p, width, 2); \
			LSM_CODES_TWO(out + i, p, width, 4); \
			LSM_CODES_TWO(out + i, p, width, 6); \
		} \
	}

void
lsm_codes_unpack16(const LsmVector *v, int from, int n, uint16 *out)
{
	const uint8 *p = v->codes + (Size) (from / 8) * v->width;

	Assert(from % 8 == 0 && v->width <= 16);
	switch (v->width)
	{
		case 1:
			LSM_CODES_UNPACK(1);
			break;
		case 2:
			LSM_CODES_UNPACK(2);
			break;
		case 3:
			LSM_CODES_UNPACK(3);
			break;
		case 4:
			LSM_CODES_UNPACK(4);
			break;
		case 5:
			LSM_CODES_UNPACK(5);
			break;
		case 6:
			LSM_CODES_UNPACK(6);
			break;
		case 7:
			LSM_CODES_UNPACK(7);
			break;
		case 8:
			LSM_CODES_UNPACK(8);
			break;
		case 9:
			LSM_CODES_UNPACK(9);
			break;
		case 10:
			LSM_CODES_UNPACK(10);
			break;
		case 11:
			LSM_CODES_UNPACK(11);
			break;
		case 12:
			LSM_CODES_UNPACK(12);
			break;
		case 13:
			LSM_CODES_UNPACK(13);
			break;
		case 14:
			LSM_CODES_UNPACK(14);
			break;
		case 15:
			LSM_CODES_UNPACK(15);
			break;
		case 16:
			LSM_CODES_UNPACK(16);
			break;
		default:
			memset(out, 0, n * sizeof(uint16));
			break;
	}
	for (int i = n / 8 * 8; i < n; i++)
		out[i] = (uint16) lsm_bits_get(v->codes, v->width, v->mask, from + i);
}

void
lsm_codes_checked(const LsmChunk *chunk, const LsmVector *v, int from, int n, uint16 *codes)
{
	uint16		most = 0;

	if (v->width > 16)
	{
		for (int i = 0; i < n; i++)
			codes[i] = (uint16) lsm_vector_code(chunk, v, from + i);
		return;
	}
	lsm_codes_unpack16(v, from, n, codes);
	for (int i = 0; i < n; i++)
		most = codes[i] > most ? codes[i] : most;
	if (most >= v->child->n)
		lsm_codec_bad(chunk->place, "a code is out of range");
}

void
lsm_runs_checked(const LsmChunk *chunk, const LsmVector *v, int from, int n, uint16 *ends)
{
	uint16		before = from == 0 ? 0 : (uint16) lsm_vector_run_end(chunk, v, from - 1);
	bool		bad = false;

	if (v->width > 16)
	{
		for (int i = 0; i < n; i++)
			ends[i] = (uint16) lsm_vector_run_end(chunk, v, from + i);
	}
	else
		lsm_codes_unpack16(v, from, n, ends);
	for (int i = 0; i < n; i++)
	{
		bad |= ends[i] < before || ends[i] > v->n;
		before = ends[i];
	}
	if (bad)
		lsm_codec_bad(chunk->place, "its runs do not add up");
}

bool
lsm_vector_codes(const LsmVector *v, uint32 *out)
{
	const uint8 *codes = v->codes;
	uint64		mask = v->mask;
	uint64		width = v->width;
	uint64		bit = 0;
	int			n = v->n;

	if (v->encoding != LSM_ENC_FOR || width > 31)
		return false;
	for (int i = 0; i < n; i++)
	{
		out[i] = (uint32) (lsm_bits_load(codes + (bit >> 3)) >> (bit & 7) & mask);
		bit += width;
	}
	return true;
}

bool
lsm_vector_codes16(const LsmVector *v, uint16 *out)
{
	if (v->encoding != LSM_ENC_FOR || v->width > 16)
		return false;
	lsm_codes_unpack16(v, 0, v->n, out);
	return true;
}

void
lsm_vector_all_codes(const LsmChunk *chunk, const LsmVector *v, uint16 *out)
{
	Assert(v->encoding == LSM_ENC_DICT);
	for (int from = 0; from < v->n; from += LSM_CODES_BATCH)
		lsm_codes_checked(chunk, v, from, Min(v->n - from, LSM_CODES_BATCH), out + from);
}
