/*-------------------------------------------------------------------------
 *
 * lsm_codec.c
 *	  Reading column chunks: opening them.
 *
 * Opening a chunk checks that its arrays lie inside its bytes; it allocates
 * little and decodes nothing, except that a compressed payload is
 * decompressed, and that strings without offsets are walked through.  A value by
 * number costs a few loads then, whatever the encoding (lsm_chunk_value.c).  What can
 * only be checked value by value (codes, offsets, string lengths) is checked when the
 * value is asked for.
 *
 * Buffers that chunks lie in have LSM_CODEC_SLACK readable bytes behind
 * them, because codes are loaded eight bytes at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <zstd.h>

#include "access/tupmacs.h"
#include "port/pg_bitutils.h"
#include "segment/lsm_codec.h"
#include "segment/lsm_vector.h"
#include "utils/memutils.h"

static ZSTD_DCtx *lsm_codec_dctx = NULL;

/* The rest of a payload. */
typedef struct LsmCursor
{
	const LsmCodecPlace *place;
	const uint8 *start;
	const uint8 *p;
	const uint8 *end;
} LsmCursor;

const char *
lsm_encoding_name(uint8 encoding)
{
	switch (encoding)
	{
		case LSM_ENC_NULLS:
			return "nulls";
		case LSM_ENC_CONST:
			return "constant";
		case LSM_ENC_FOR:
			return "frame of reference";
		case LSM_ENC_LINEAR:
			return "linear";
		case LSM_ENC_RLE:
			return "run-length";
		case LSM_ENC_RUNS:
			return "counting runs";
		case LSM_ENC_DICT:
			return "dictionary";
		case LSM_ENC_FIXED:
			return "fixed";
		case LSM_ENC_VAR:
			return "variable";
		case LSM_ENC_STREAM:
			return "stream";
		case LSM_ENC_BODIES:
			return "compressed bodies";
	}
	return "unknown";
}

void
lsm_codec_bad(const LsmCodecPlace *place, const char *what)
{
	lsm_segment_corrupt(place->source, place->blockno,
						"A column chunk is not sound: %s.", what);
}

/* ---------------------------------------------------------------------
 * Small pieces of payload
 * --------------------------------------------------------------------- */

static const uint8 *
lsm_cursor_take(LsmCursor *cursor, Size len)
{
	const uint8 *p = cursor->p;

	if (len > (Size) (cursor->end - p))
		lsm_codec_bad(cursor->place, "it is too short");
	cursor->p = p + len;
	return p;
}

static uint8
lsm_cursor_u8(LsmCursor *cursor)
{
	return *lsm_cursor_take(cursor, 1);
}

static uint16
lsm_cursor_u16(LsmCursor *cursor)
{
	uint16		value;

	memcpy(&value, lsm_cursor_take(cursor, sizeof(value)), sizeof(value));
	return value;
}

static uint32
lsm_cursor_u32(LsmCursor *cursor)
{
	uint32		value;

	memcpy(&value, lsm_cursor_take(cursor, sizeof(value)), sizeof(value));
	return value;
}

static int64
lsm_cursor_signed(LsmCursor *cursor, int bytes)
{
	const uint8 *p;
	uint64		value = 0;

	if (bytes > 8)
		lsm_codec_bad(cursor->place, "a number has more than 8 bytes");
	if (bytes == 0)
		return 0;
	p = lsm_cursor_take(cursor, bytes);
	for (int i = 0; i < bytes; i++)
		value |= (uint64) p[i] << (8 * i);
	if (bytes < 8 && (p[bytes - 1] & 0x80))
		value |= ~UINT64CONST(0) << (8 * bytes);
	return (int64) value;
}

static void
lsm_cursor_pad(LsmCursor *cursor)
{
	Size		at = cursor->p - cursor->start;

	lsm_cursor_take(cursor, MAXALIGN(at) - at);
}

static void
lsm_cursor_codes(LsmCursor *cursor, LsmVector *v, int n, int width)
{
	if (!lsm_bits_width_ok(width))
		lsm_codec_bad(cursor->place, "a width is out of range");
	v->width = width;
	v->mask = lsm_bits_mask(width);
	v->codes = lsm_cursor_take(cursor, lsm_bits_bytes(n, width));
}

/* ---------------------------------------------------------------------
 * Opening
 * --------------------------------------------------------------------- */

/* Decompress a frame with its two lengths before it. */
static uint8 *
lsm_chunk_decompress(LsmChunk *chunk, LsmCursor *cursor, Size *len)
{
	uint32		raw_len = lsm_cursor_u32(cursor);
	uint32		stored_len = lsm_cursor_u32(cursor);
	const uint8 *stored = lsm_cursor_take(cursor, stored_len);
	uint8	   *raw;
	Size		got;

	if (raw_len > MaxAllocSize / 2 ||
		ZSTD_getFrameContentSize(stored, stored_len) != raw_len)
		lsm_codec_bad(chunk->place, "its decompressed length is wrong");
	if (lsm_codec_dctx == NULL)
	{
		lsm_codec_dctx = ZSTD_createDCtx();
		if (lsm_codec_dctx == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory"),
					 errdetail("Could not create a zstd decompression context.")));
	}
	raw = MemoryContextAlloc(chunk->context, (Size) raw_len + LSM_CODEC_SLACK);
	memset(raw + raw_len, 0, LSM_CODEC_SLACK);
	if (chunk->dictionary != NULL)
		got = ZSTD_decompress_usingDDict(lsm_codec_dctx, raw, raw_len, stored, stored_len,
										 chunk->dictionary);
	else
		got = ZSTD_decompressDCtx(lsm_codec_dctx, raw, raw_len, stored, stored_len);
	if (ZSTD_isError(got) || got != raw_len)
		lsm_codec_bad(chunk->place, "it cannot be decompressed");
	*len = raw_len;
	return raw;
}

/* Find where the strings of a stream begin. */
static void
lsm_vector_walk(LsmChunk *chunk, LsmVector *v)
{
	const LsmColumnType *type = chunk->type;
	uint32		at = 0;

	v->offsets = MemoryContextAlloc(chunk->context, v->n * sizeof(uint32));
	for (int i = 0; i < v->n; i++)
	{
		uint32		left;
		Size		len;
		const char *p;

		if (at >= v->data_len)
			lsm_codec_bad(chunk->place, "it has too few strings");
		p = v->data + at;
		if (type->typlen == -1)
		{
			/* A byte of zero is padding, or begins an aligned header. */
			if (!VARATT_NOT_PAD_BYTE(p))
				at = att_align_nominal(at, type->typalign);
			if (at >= v->data_len)
				lsm_codec_bad(chunk->place, "it has too few strings");
			p = v->data + at;
			left = v->data_len - at;
			if (VARATT_IS_1B_E(p))
				len = lsm_codec_pointer_bytes(chunk, p, left);
			else if (VARATT_IS_1B(p))
				len = VARSIZE_1B(p);
			else
			{
				uint32		header;

				if (left < sizeof(header))
					lsm_codec_bad(chunk->place, "a string is cut off");
				memcpy(&header, p, sizeof(header));
				len = VARSIZE_4B(&header);
			}
		}
		else
		{
			left = v->data_len - at;
			len = strnlen(p, left) + 1;
		}
		if (len == 0 || len > left)
			lsm_codec_bad(chunk->place, "a string is cut off");
		v->offsets[i] = at;
		at += len;
	}
}

/* Put headers before bodies again. */
static void
lsm_vector_rebuild(LsmChunk *chunk, LsmVector *v, LsmCursor *cursor)
{
	const uint64 short_limit = VARATT_SHORT_MAX - VARHDRSZ_SHORT;
	uint8		headers = lsm_cursor_u8(cursor);
	uint8		width = lsm_cursor_u8(cursor);
	uint32		least = lsm_cursor_u32(cursor);
	uint64		limit = headers == LSM_BODIES_SHORT ? short_limit : MaxAllocSize / 2;
	int			alignment = att_align_nominal(1, chunk->type->typalign);
	uint64		total = 0;
	const char *body;
	uint8	   *bodies;
	char	   *data;
	Size		bodies_len;
	Size		at = 0;

	if (chunk->type->typlen != -1 ||
		(headers != LSM_BODIES_SHORT && headers != LSM_BODIES_LONG && headers != LSM_BODIES_FIT))
		lsm_codec_bad(chunk->place, "its encoding does not fit the type of the column");
	lsm_cursor_codes(cursor, v, v->n, width);
	for (int i = 0; i < v->n; i++)
	{
		uint64		len = lsm_bits_get(v->codes, v->width, v->mask, i);

		if (len > limit || len + least > limit)
			lsm_codec_bad(chunk->place, "a length is out of range");
		total += len + least;
	}
	bodies = lsm_chunk_decompress(chunk, cursor, &bodies_len);
	if (bodies_len != total)
		lsm_codec_bad(chunk->place, "its lengths do not add up");

	v->offsets = MemoryContextAlloc(chunk->context, v->n * sizeof(uint32));
	data = MemoryContextAlloc(chunk->context, bodies_len + LSM_CODEC_SLACK +
							  (Size) v->n * (VARHDRSZ + alignment - 1));
	body = (const char *) bodies;
	for (int i = 0; i < v->n; i++)
	{
		Size		len = lsm_bits_get(v->codes, v->width, v->mask, i) + least;

		if (headers == LSM_BODIES_SHORT || (headers == LSM_BODIES_FIT && len <= short_limit))
		{
			v->offsets[i] = at;
			SET_VARSIZE_SHORT(data + at, len + VARHDRSZ_SHORT);
			at += VARHDRSZ_SHORT;
		}
		else
		{
			at = TYPEALIGN(alignment, at);
			v->offsets[i] = at;
			SET_VARSIZE(data + at, len + VARHDRSZ);
			at += VARHDRSZ;
		}
		memcpy(data + at, body, len);
		body += len;
		at += len;
	}
	memset(data + at, 0, LSM_CODEC_SLACK);
	v->data = data;
	v->data_len = at;
	pfree(bodies);
}

static void lsm_vector_open(LsmChunk *chunk, LsmVector *v, LsmCursor *cursor,
							uint8 encoding, int n, bool aligned, bool nested);

static void
lsm_vector_open_child(LsmChunk *chunk, LsmVector *v, LsmCursor *cursor, int n, bool aligned)
{
	uint8		encoding = lsm_cursor_u8(cursor);

	v->child = MemoryContextAllocZero(chunk->context, sizeof(LsmVector));
	v->child->strings = v->strings;
	lsm_vector_open(chunk, v->child, cursor, encoding, n, aligned, true);
}

static void
lsm_vector_open(LsmChunk *chunk, LsmVector *v, LsmCursor *cursor,
				uint8 encoding, int n, bool aligned, bool nested)
{
	const LsmColumnType *type = chunk->type;
	uint8		width;
	uint8		sizes;

	v->encoding = encoding;
	v->n = n;
	if (nested && (encoding == LSM_ENC_RLE || encoding == LSM_ENC_RUNS ||
				   encoding == LSM_ENC_DICT))
		lsm_codec_bad(chunk->place, "encodings are nested too deeply");
	if (v->strings ?
		(encoding == LSM_ENC_FOR || encoding == LSM_ENC_LINEAR || encoding == LSM_ENC_RUNS) :
		(encoding == LSM_ENC_FIXED || encoding == LSM_ENC_VAR || encoding == LSM_ENC_STREAM ||
		 encoding == LSM_ENC_BODIES))
		lsm_codec_bad(chunk->place, "its encoding does not fit the type of the column");

	switch (encoding)
	{
		case LSM_ENC_CONST:
			if (!v->strings)
				v->base = lsm_cursor_signed(cursor, lsm_cursor_u8(cursor));
			else
			{
				v->data_len = lsm_cursor_u32(cursor);
				if (aligned)
					lsm_cursor_pad(cursor);
				v->data = (const char *) lsm_cursor_take(cursor, v->data_len);
			}
			break;

		case LSM_ENC_FOR:
		case LSM_ENC_LINEAR:
			width = lsm_cursor_u8(cursor);
			sizes = lsm_cursor_u8(cursor);
			v->base = lsm_cursor_signed(cursor, sizes & 0x0F);
			v->multiplier = lsm_cursor_signed(cursor, sizes >> 4);
			if (encoding == LSM_ENC_FOR && (sizes >> 4) == 0)
				v->multiplier = 1;
			lsm_cursor_codes(cursor, v, n, width);
			break;

		case LSM_ENC_RLE:
		case LSM_ENC_RUNS:
			{
				int			runs = lsm_cursor_u16(cursor);

				width = lsm_cursor_u8(cursor);
				if (runs == 0 || runs > n)
					lsm_codec_bad(chunk->place, "the number of runs is out of range");
				lsm_cursor_codes(cursor, v, runs, width);
				if (lsm_bits_get(v->codes, v->width, v->mask, runs - 1) != (uint64) n)
					lsm_codec_bad(chunk->place, "its runs do not add up");
				lsm_vector_open_child(chunk, v, cursor, runs, aligned);
				break;
			}

		case LSM_ENC_DICT:
			{
				int			distinct = lsm_cursor_u16(cursor);

				width = lsm_cursor_u8(cursor);
				if (distinct == 0)
					lsm_codec_bad(chunk->place, "its dictionary is empty");
				lsm_cursor_codes(cursor, v, n, width);
				lsm_vector_open_child(chunk, v, cursor, distinct, aligned);
				break;
			}

		case LSM_ENC_FIXED:
			if (type->typlen <= 0)
				lsm_codec_bad(chunk->place, "its encoding does not fit the type of the column");
			v->stride = att_align_nominal(type->typlen, type->typalign);
			if (aligned)
				lsm_cursor_pad(cursor);
			v->data_len = (uint32) n * v->stride;
			v->data = (const char *) lsm_cursor_take(cursor, (Size) n * v->stride);
			break;

		case LSM_ENC_VAR:
		case LSM_ENC_STREAM:
			if (type->typlen > 0)
				lsm_codec_bad(chunk->place, "its encoding does not fit the type of the column");
			width = encoding == LSM_ENC_VAR ? lsm_cursor_u8(cursor) : 0;
			v->data_len = lsm_cursor_u32(cursor);
			if (encoding == LSM_ENC_VAR)
				lsm_cursor_codes(cursor, v, n, width);
			if (aligned)
				lsm_cursor_pad(cursor);
			v->data = (const char *) lsm_cursor_take(cursor, v->data_len);
			if (encoding == LSM_ENC_STREAM)
				lsm_vector_walk(chunk, v);
			break;

		case LSM_ENC_BODIES:
			lsm_vector_rebuild(chunk, v, cursor);
			break;

		default:
			lsm_segment_corrupt(chunk->place->source, chunk->place->blockno,
								"A column chunk has the unknown encoding %u.", encoding);
	}
}

/* Count the values before every 64 rows. */
static int
lsm_chunk_open_bitmap(LsmChunk *chunk)
{
	int			words = (chunk->rows + 63) / 64;
	int			n = 0;

	chunk->ranks = MemoryContextAlloc(chunk->context, words * sizeof(uint16));
	for (int i = 0; i < words; i++)
	{
		uint64		word = lsm_bits_load(chunk->present + i * 8);
		int			left = chunk->rows - i * 64;

		if (left < 64)
			word &= (UINT64CONST(1) << left) - 1;
		chunk->ranks[i] = n;
		n += pg_popcount64(word);
	}
	return n;
}

/*
 * Open a chunk of len bytes, behind which LSM_CODEC_SLACK more are readable.
 * The result and what it needs are allocated in context; it points into the
 * payload.  The type must live as long.
 */
LsmChunk *
lsm_chunk_open(MemoryContext context, const LsmCodecPlace *place, const LsmColumnType *type,
			   uint8 encoding, uint8 flags, const uint8 *payload, Size len, int rows)
{
	LsmChunk   *chunk;
	LsmCursor	cursor;
	int			n = rows;

	Assert(rows > 0 && rows <= LSM_BLOCK_MAX_ROWS);

	if (flags & ~LSM_CHUNK_KNOWN_FLAGS)
		lsm_segment_corrupt(place->source, place->blockno,
							"A column chunk has the unknown flags %02X.", flags);
	chunk = MemoryContextAllocZero(context, sizeof(LsmChunk));
	chunk->type = type;
	chunk->place = place;
	chunk->context = context;
	chunk->rows = rows;
	chunk->payload = payload;
	chunk->payload_len = len;
	chunk->typlen = type->typlen;
	chunk->typalign = type->typalign;
	if (encoding == LSM_ENC_NULLS)
	{
		if (flags != 0)
			lsm_codec_bad(place, "it has flags but no values");
		chunk->vector.encoding = encoding;
		chunk->kind = LSM_CHUNK_NO_VALUES;
		return chunk;
	}

	if (flags & LSM_CHUNK_DICTIONARY)
	{
		if (type->dictionary == NULL)
			lsm_codec_bad(place, "its column has no dictionary");
		chunk->dictionary = type->dictionary;
	}
	cursor.place = place;
	cursor.start = cursor.p = payload;
	cursor.end = payload + len;
	if (flags & LSM_CHUNK_ZSTD)
	{
		cursor.p = lsm_chunk_decompress(chunk, &cursor, &len);
		cursor.start = cursor.p;
		cursor.end = cursor.p + len;
		chunk->payload = cursor.p;
		chunk->payload_len = len;
	}
	else if ((flags & LSM_CHUNK_ALIGNED) && payload != (const uint8 *) MAXALIGN(payload))
		lsm_codec_bad(place, "it is not aligned");

	if (flags & LSM_CHUNK_NULLS)
	{
		chunk->present = lsm_cursor_take(&cursor, (rows + 7) / 8);
		n = lsm_chunk_open_bitmap(chunk);
		if (n == 0)
			lsm_codec_bad(place, "it has no values");
	}
	if (flags & LSM_CHUNK_NUMERIC)
	{
		if (type->typlen != -1 || type->typalign == TYPALIGN_CHAR)
			lsm_codec_bad(place, "its encoding does not fit the type of the column");
		chunk->numeric = true;
		chunk->scale = lsm_cursor_u8(&cursor);
		if ((chunk->scale & ~LSM_NUMERIC_LONG_HEADER) > LSM_NUMERIC_MAX_SCALE)
			lsm_codec_bad(place, "a scale is out of range");
	}
	chunk->vector.strings = !type->typbyval && !chunk->numeric;
	chunk->kind = chunk->vector.strings ? LSM_CHUNK_STRINGS :
		chunk->numeric ? LSM_CHUNK_NUMERICS : LSM_CHUNK_INTEGERS;
	lsm_vector_open(chunk, &chunk->vector, &cursor, encoding, n,
					(flags & LSM_CHUNK_ALIGNED) != 0, false);
	return chunk;
}
