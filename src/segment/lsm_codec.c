/*-------------------------------------------------------------------------
 *
 * lsm_codec.c
 *	  Reading column chunks: one value by number, or all at once.
 *
 * Opening a chunk checks that its arrays lie inside its bytes; it allocates
 * little and decodes nothing, except that a compressed payload is
 * decompressed.  A value by number costs a few loads then, whatever the
 * encoding.  What can only be checked value by value (codes, offsets, string
 * lengths) is checked when the value is asked for.
 *
 * Buffers that chunks lie in have LSM_CODEC_SLACK readable bytes behind
 * them, because codes are loaded eight bytes at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <zstd.h>

#include "access/detoast.h"
#include "access/tupmacs.h"
#include "port/pg_bitutils.h"
#include "segment/lsm_codec.h"
#include "segment/lsm_numbers.h"
#include "utils/memutils.h"

/* Numerics that are built one by one before the whole column is decoded. */
#define LSM_CODEC_MAX_BUILT		32

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

pg_noreturn static void lsm_codec_bad(const LsmCodecPlace *place, const char *what);

static void
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

/* Bytes of a pointer to a large value: the only external datum there is. */
static uint32
lsm_codec_pointer_bytes(const LsmChunk *chunk, const char *p, Size left)
{
	if (left < TOAST_POINTER_SIZE || VARTAG_EXTERNAL(p) != VARTAG_ONDISK)
		lsm_codec_bad(chunk->place, "it has an external datum of an unknown kind");
	return TOAST_POINTER_SIZE;
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

/* ---------------------------------------------------------------------
 * One value
 * --------------------------------------------------------------------- */

/* The run that value i is in: the first whose end is greater. */
static int
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
 * Many codes
 *
 * Eight codes take as many bytes as one has bits, so every eighth begins a byte.  They are
 * taken out of as few words as have them whole, for each width by shifts that are known
 * when compiling, without branches.  The last word may end 7 bytes behind the codes.
 * --------------------------------------------------------------------- */

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

/* Codes from number from, a multiple of 8, on; none has more than 16 bits. */
static void
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

/* So many codes are unpacked at a time by who needs no array of all of them. */
#define LSM_CODES_BATCH			512

/* The codes of a dictionary; each is checked. */
static void
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

/* Where runs end, so many of them; each is checked. */
static void
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

void
lsm_vector_ints(const LsmChunk *chunk, const LsmVector *v, int64 *out)
{
	Assert(!v->strings);
	lsm_vector_all_ints(chunk, v, (uint64 *) out);
}

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
