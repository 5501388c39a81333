/*-------------------------------------------------------------------------
 *
 * lsm_encode.c
 *	  Choosing and writing the encoding of a column chunk.
 *
 * One pass over the values learns minimum, maximum, runs and (up to a limit)
 * distinct values; the sizes of all encodings follow from these by
 * arithmetic, so only the chosen one is written.  zstd has to be tried: that
 * is done only where encodings gain little, and a column in which it keeps
 * failing is tried ever more rarely.
 *
 * Tried and rejected: patched frame-of-reference (outliers apart) gains
 * nothing on TPC-H and makes access by number slower.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <zstd.h>

#include "access/tupmacs.h"
#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "segment/lsm_codec.h"
#include "utils/memutils.h"

/* Dictionaries: limits of the search for distinct values. */
#define LSM_DICT_SLOTS			4096	/* a power of two */
#define LSM_DICT_MAX			2048
#define LSM_DICT_SAMPLE			64	/* all distinct so far: probably a key */
#define LSM_DICT_MIN_VALUES		8

/* zstd has to save both of these; below the minimum it is not tried. */
#define LSM_ZSTD_MIN_BYTES		160
#define LSM_ZSTD_MIN_SAVED		64
#define LSM_ZSTD_MAX_PERCENT	88
#define LSM_ZSTD_MAX_SKIP		32
/* Integers are tried only when nearly as wide as the type: floats, hashes. */
#define LSM_ZSTD_MIN_INT_WIDTH	40

struct LsmEncoder
{
	int			level;
	StringInfoData payload;
	StringInfoData compressed;
	StringInfoData bodies;
	bool		framed;			/* the vector just written has its own frame */
	ZSTD_CDict *dictionary;		/* for the frames of this chunk, NULL: none */
	uint64		codes[LSM_BLOCK_MAX_ROWS];	/* what is packed next */
	int64		ints[LSM_BLOCK_MAX_ROWS];	/* scaled numerics */
	int64		child_ints[LSM_BLOCK_MAX_ROWS]; /* of runs or distinct values */
	LsmStrings	child_strings;

	/* hash table of distinct values */
	uint32		stamp;			/* slots with another are free */
	uint32		slot_stamp[LSM_DICT_SLOTS];
	uint32		slot_hash[LSM_DICT_SLOTS];
	uint16		slot_code[LSM_DICT_SLOTS];
	uint16		dict_codes[LSM_BLOCK_MAX_ROWS];
};

static ZSTD_CCtx *lsm_encode_cctx = NULL;

LsmEncoder *
lsm_encoder_create(int compression_level)
{
	LsmEncoder *encoder = palloc0(sizeof(LsmEncoder));

	encoder->level = compression_level;
	initStringInfo(&encoder->payload);
	initStringInfo(&encoder->compressed);
	initStringInfo(&encoder->bodies);
	return encoder;
}

/* ---------------------------------------------------------------------
 * Columns of the open block
 * --------------------------------------------------------------------- */

LsmColumn *
lsm_column_create(const LsmColumnType *type, bool numeric)
{
	LsmColumn  *column = palloc0(sizeof(LsmColumn));

	column->type = *type;
	column->numeric = numeric;
	return column;
}

void
lsm_column_reset(LsmColumn *column)
{
	memset(column->present, 0, (column->rows + 7) / 8);
	column->rows = 0;
	column->n = 0;
	column->strings.len = 0;
	column->strings.n = 0;
	column->strings.aligned = false;
}

/* Does a string have to be aligned as its type is? */
static inline bool
lsm_string_is_aligned(const LsmColumnType *type, const char *value)
{
	return type->typalign != TYPALIGN_CHAR &&
		!(type->typlen == -1 && VARATT_IS_SHORT(value));
}

/* Append a string, aligned as in a tuple. */
static void
lsm_strings_add(LsmStrings *strings, const LsmColumnType *type, const char *value, uint32 len)
{
	uint32		start = strings->len;
	Size		need;

	if (lsm_string_is_aligned(type, value))
	{
		start = att_align_nominal(start, type->typalign);
		strings->aligned = true;
	}
	need = (Size) start + len;
	if (need > MaxAllocSize / 2)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big for access method \"lsm\""),
				 errdetail("A value of %u bytes does not fit into a block.", len)));
	if (need > strings->max)
	{
		Size		max = Max(need + need / 2, 1024);

		max = Min(max, MaxAllocSize / 2);
		if (strings->data == NULL)
			strings->data = palloc(max);
		else
			strings->data = repalloc(strings->data, max);
		strings->max = max;
	}
	if (strings->n == strings->max_n)
	{
		int			max_n = Max(strings->max_n * 2, 256);

		if (strings->offsets == NULL)
		{
			strings->offsets = palloc(max_n * sizeof(uint32));
			strings->lengths = palloc(max_n * sizeof(uint32));
		}
		else
		{
			strings->offsets = repalloc(strings->offsets, max_n * sizeof(uint32));
			strings->lengths = repalloc(strings->lengths, max_n * sizeof(uint32));
		}
		strings->max_n = max_n;
	}
	if (start > strings->len)
		memset(strings->data + strings->len, 0, start - strings->len);
	memcpy(strings->data + start, value, len);
	strings->offsets[strings->n] = start;
	strings->lengths[strings->n] = len;
	strings->n++;
	strings->len = need;
}

/*
 * Add the value of one row; returns its size as raw bytes.
 */
Size
lsm_column_add(LsmColumn *column, Datum value, bool isnull)
{
	int			row = column->rows;

	if (row >= LSM_BLOCK_MAX_ROWS)
		elog(ERROR, "too many rows in a block");
	column->rows++;
	if (isnull)
		return 0;

	if (column->type.typbyval)
	{
		int64		number;

		switch (column->type.typlen)
		{
			case 1:
				number = DatumGetUInt8(value);
				break;
			case 2:
				number = DatumGetInt16(value);
				break;
			case 4:
				number = DatumGetInt32(value);
				break;
			default:
				number = DatumGetInt64(value);
				break;
		}
		if (column->n == column->max_ints)
		{
			int			max = Max(column->max_ints * 2, 256);

			if (column->ints == NULL)
				column->ints = palloc(max * sizeof(int64));
			else
				column->ints = repalloc(column->ints, max * sizeof(int64));
			column->max_ints = max;
		}
		column->ints[column->n] = number;
		column->present[row >> 3] |= 1 << (row & 7);
		column->n++;
		return column->type.typlen;
	}
	else
	{
		const char *p = DatumGetPointer(value);
		Size		len;

		if (column->type.typlen > 0)
			len = column->type.typlen;
		else if (column->type.typlen == -1)
		{
			if (VARATT_IS_EXTERNAL(p) && VARTAG_EXTERNAL(p) != VARTAG_ONDISK)
				elog(ERROR, "external datum in a record for a segment");
			len = VARSIZE_ANY(p);
		}
		else
			len = strlen(p) + 1;
		lsm_strings_add(&column->strings, &column->type, p, len);
		column->present[row >> 3] |= 1 << (row & 7);
		column->n++;
		return len;
	}
}

/* ---------------------------------------------------------------------
 * Small pieces of payload
 * --------------------------------------------------------------------- */

/* Bits of the codes up to this one. */
int
lsm_encode_width(uint64 max_code)
{
	int			width = max_code == 0 ? 0 : pg_leftmost_one_pos64(max_code) + 1;

	return width > 56 ? 64 : width;
}

/* Bytes in which a signed number survives; none for zero. */
int
lsm_encode_signed_bytes(int64 value)
{
	int			bytes;

	if (value == 0)
		return 0;
	for (bytes = 1; bytes < 8; bytes++)
	{
		int64		limit = INT64CONST(1) << (bytes * 8 - 1);

		if (value >= -limit && value < limit)
			break;
	}
	return bytes;
}

void
lsm_encode_signed(StringInfo out, int64 value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		appendStringInfoCharMacro(out, (char) ((uint64) value >> (8 * i)));
}

/* Append n codes of the given width. */
void
lsm_encode_codes(StringInfo out, const uint64 *codes, int n, int width)
{
	Size		bytes = lsm_bits_bytes(n, width);
	uint8	   *p;
	uint64		bit = 0;

	enlargeStringInfo(out, bytes + LSM_CODEC_SLACK);
	p = (uint8 *) out->data + out->len;
	if (width == 64)
	{
		for (int i = 0; i < n; i++)
			lsm_bits_store(p + (Size) i * 8, codes[i]);
	}
	else
	{
		memset(p, 0, bytes + LSM_CODEC_SLACK);
		for (int i = 0; i < n; i++)
		{
			uint8	   *at = p + (bit >> 3);

			lsm_bits_store(at, lsm_bits_load(at) | codes[i] << (bit & 7));
			bit += width;
		}
	}
	out->len += bytes;
	out->data[out->len] = '\0';
}

static void
lsm_encode_u16(StringInfo out, uint16 value)
{
	appendBinaryStringInfo(out, (char *) &value, sizeof(value));
}

static void
lsm_encode_u32(StringInfo out, uint32 value)
{
	appendBinaryStringInfo(out, (char *) &value, sizeof(value));
}

static void
lsm_encode_pad(StringInfo out)
{
	while ((Size) out->len != MAXALIGN(out->len))
		appendStringInfoCharMacro(out, '\0');
}

/* ---------------------------------------------------------------------
 * Vectors of integers
 * --------------------------------------------------------------------- */

typedef struct LsmIntStats
{
	int64		min;
	int64		max;
	int			runs;			/* of equal values */
	int			runs_up;		/* in which each is one more */
	uint64		divisor;		/* of all differences from min */
	int			width;			/* of codes, divided */
} LsmIntStats;

static void
lsm_encode_int_stats(const int64 *v, int n, LsmIntStats *stats)
{
	int64		min = v[0];
	int64		max = v[0];
	int			runs = 1;
	int			runs_up = 1;
	uint64		divisor = 0;

	for (int i = 1; i < n; i++)
	{
		min = Min(min, v[i]);
		max = Max(max, v[i]);
		runs += v[i] != v[i - 1];
		runs_up += (uint64) v[i] != (uint64) v[i - 1] + 1;
	}
	for (int i = 0; i < n && divisor != 1; i++)
	{
		uint64		a = (uint64) v[i] - (uint64) min;

		if (divisor == 0)
		{
			divisor = a;
			continue;
		}
		a %= divisor;
		while (a != 0)
		{
			uint64		rest = divisor % a;

			divisor = a;
			a = rest;
		}
	}
	stats->min = min;
	stats->max = max;
	stats->runs = runs;
	stats->runs_up = runs_up;
	stats->divisor = Max(divisor, 1);
	stats->width = lsm_encode_width(((uint64) max - (uint64) min) / stats->divisor);
}

static Size
lsm_encode_for_cost(const LsmIntStats *stats, int n)
{
	return 2 + lsm_encode_signed_bytes(stats->min) +
		(stats->divisor > 1 ? lsm_encode_signed_bytes(stats->divisor) : 0) +
		lsm_bits_bytes(n, stats->width);
}

static void
lsm_encode_for(LsmEncoder *encoder, const int64 *v, int n, const LsmIntStats *stats,
			   StringInfo out)
{
	int			base_bytes = lsm_encode_signed_bytes(stats->min);
	int			divisor_bytes = stats->divisor > 1 ? lsm_encode_signed_bytes(stats->divisor) : 0;

	appendStringInfoCharMacro(out, (char) stats->width);
	appendStringInfoCharMacro(out, (char) (base_bytes | divisor_bytes << 4));
	lsm_encode_signed(out, stats->min, base_bytes);
	lsm_encode_signed(out, stats->divisor, divisor_bytes);
	if (stats->divisor > 1)
	{
		for (int i = 0; i < n; i++)
			encoder->codes[i] = ((uint64) v[i] - (uint64) stats->min) / stats->divisor;
	}
	else
	{
		for (int i = 0; i < n; i++)
			encoder->codes[i] = (uint64) v[i] - (uint64) stats->min;
	}
	lsm_encode_codes(out, encoder->codes, n, stats->width);
}

/*
 * A line through first and last value; fails unless these are about as far
 * apart as minimum and maximum.  Residuals are left in encoder->codes.
 */
static bool
lsm_encode_line(LsmEncoder *encoder, const int64 *v, int n, const LsmIntStats *stats,
				int64 *base, int64 *slope, int *width)
{
	uint64		range = (uint64) stats->max - (uint64) stats->min;
	int64		rise;
	int64		least = 0;
	int64		most = 0;

	if (n < 8 || range >= (UINT64CONST(1) << 44))
		return false;
	rise = v[n - 1] - v[0];
	if ((uint64) (rise < 0 ? -rise : rise) < range / 4 * 3)
		return false;
	*slope = rise * 65536 / (n - 1);
	for (int i = 0; i < n; i++)
	{
		int64		rest = (v[i] - v[0]) - ((*slope * i) >> 16);

		least = Min(least, rest);
		most = Max(most, rest);
		encoder->codes[i] = (uint64) rest;
	}
	*base = (int64) ((uint64) v[0] + (uint64) least);
	for (int i = 0; i < n; i++)
		encoder->codes[i] -= (uint64) least;
	*width = lsm_encode_width((uint64) (most - least));
	return true;
}

/*
 * Find the distinct values, unless there are so many that a dictionary cannot
 * cost less than limit bytes.  Returns their number, 0 if it gave up; values
 * are in child_ints, codes in dict_codes.
 */
static int
lsm_encode_int_distinct(LsmEncoder *encoder, const int64 *v, int n,
						const LsmIntStats *stats, Size limit)
{
	int			distinct = 0;
	int			next_check = 2;

	encoder->stamp++;
	for (int i = 0; i < n; i++)
	{
		uint32		slot = ((uint64) v[i] * UINT64CONST(0x9E3779B97F4A7C15)) >> 52;

		while (encoder->slot_stamp[slot] == encoder->stamp &&
			   encoder->child_ints[encoder->slot_code[slot]] != v[i])
			slot = (slot + 1) & (LSM_DICT_SLOTS - 1);
		if (encoder->slot_stamp[slot] != encoder->stamp)
		{
			if (distinct == LSM_DICT_MAX)
				return 0;
			encoder->slot_stamp[slot] = encoder->stamp;
			encoder->slot_code[slot] = distinct;
			encoder->child_ints[distinct++] = v[i];
			if (distinct == next_check)
			{
				/* The dictionary has one bit more a code from here on. */
				if (lsm_bits_bytes(distinct, stats->width) +
					lsm_bits_bytes(n, lsm_encode_width(distinct - 1)) >= limit)
					return 0;
				next_check = distinct + Max(distinct / 4, 1);
			}
		}
		encoder->dict_codes[i] = encoder->slot_code[slot];
	}
	return distinct;
}

static void
lsm_encode_run_ends(LsmEncoder *encoder, int runs, int n, StringInfo out)
{
	int			width = lsm_encode_width(n);

	lsm_encode_u16(out, runs);
	appendStringInfoCharMacro(out, (char) width);
	lsm_encode_codes(out, encoder->codes, runs, width);
}

static uint8 lsm_encode_ints(LsmEncoder *encoder, const int64 *v, int n, bool nested,
							 StringInfo out, int *width);

/* A vector of integers inside another one, with its encoding before it. */
static void
lsm_encode_child_ints(LsmEncoder *encoder, int n, StringInfo out)
{
	int			at = out->len;
	uint8		encoding;

	appendStringInfoCharMacro(out, '\0');
	encoding = lsm_encode_ints(encoder, encoder->child_ints, n, true, out, NULL);
	out->data[at] = (char) encoding;
}

static void
lsm_encode_int_runs(LsmEncoder *encoder, const int64 *v, int n, int runs, int step,
					StringInfo out)
{
	int			run = 0;

	encoder->child_ints[0] = v[0];
	for (int i = 1; i < n; i++)
	{
		if ((uint64) v[i] != (uint64) v[i - 1] + step)
		{
			encoder->codes[run++] = i;
			encoder->child_ints[run] = v[i];
		}
	}
	encoder->codes[run++] = n;
	Assert(run == runs);
	lsm_encode_run_ends(encoder, runs, n, out);
	lsm_encode_child_ints(encoder, runs, out);
}

/*
 * Append the cheapest vector of n > 0 integers; returns its encoding.  *width
 * becomes the bits a value of the plainest encoding.
 */
static uint8
lsm_encode_ints(LsmEncoder *encoder, const int64 *v, int n, bool nested, StringInfo out,
				int *width)
{
	LsmIntStats stats;
	uint8		best = LSM_ENC_FOR;
	Size		best_cost;
	Size		cost;
	int64		base;
	int64		slope;
	int			line_width;
	int			distinct = 0;

	lsm_encode_int_stats(v, n, &stats);
	if (width)
		*width = stats.width;
	if (stats.min == stats.max)
	{
		int			bytes = lsm_encode_signed_bytes(stats.min);

		appendStringInfoCharMacro(out, (char) bytes);
		lsm_encode_signed(out, stats.min, bytes);
		return LSM_ENC_CONST;
	}

	best_cost = lsm_encode_for_cost(&stats, n);
	if (!nested)
	{
		Size		run_bytes = 3 + 1 + 2 + lsm_encode_signed_bytes(stats.min);

		cost = run_bytes + lsm_bits_bytes(stats.runs, lsm_encode_width(n)) +
			lsm_bits_bytes(stats.runs, stats.width);
		if (cost < best_cost)
		{
			best = LSM_ENC_RLE;
			best_cost = cost;
		}
		cost = run_bytes + lsm_bits_bytes(stats.runs_up, lsm_encode_width(n)) +
			lsm_bits_bytes(stats.runs_up, stats.runs_up == 1 ? 0 :
						   lsm_encode_width((uint64) stats.max - (uint64) stats.min));
		if (cost < best_cost)
		{
			best = LSM_ENC_RUNS;
			best_cost = cost;
		}
		if (n >= LSM_DICT_MIN_VALUES && stats.width > 2)
		{
			distinct = lsm_encode_int_distinct(encoder, v, n, &stats, best_cost);
			if (distinct > 0)
			{
				cost = run_bytes + lsm_bits_bytes(distinct, stats.width) +
					lsm_bits_bytes(n, lsm_encode_width(distinct - 1));
				if (cost < best_cost)
				{
					best = LSM_ENC_DICT;
					best_cost = cost;
				}
			}
		}
	}
	if (lsm_encode_line(encoder, v, n, &stats, &base, &slope, &line_width))
	{
		cost = 2 + lsm_encode_signed_bytes(base) + lsm_encode_signed_bytes(slope) +
			lsm_bits_bytes(n, line_width);
		if (cost < best_cost)
		{
			int			base_bytes = lsm_encode_signed_bytes(base);
			int			slope_bytes = lsm_encode_signed_bytes(slope);

			appendStringInfoCharMacro(out, (char) line_width);
			appendStringInfoCharMacro(out, (char) (base_bytes | slope_bytes << 4));
			lsm_encode_signed(out, base, base_bytes);
			lsm_encode_signed(out, slope, slope_bytes);
			lsm_encode_codes(out, encoder->codes, n, line_width);
			return LSM_ENC_LINEAR;
		}
	}

	switch (best)
	{
		case LSM_ENC_RLE:
			lsm_encode_int_runs(encoder, v, n, stats.runs, 0, out);
			break;
		case LSM_ENC_RUNS:
			lsm_encode_int_runs(encoder, v, n, stats.runs_up, 1, out);
			break;
		case LSM_ENC_DICT:
			{
				int			code_width = lsm_encode_width(distinct - 1);

				for (int i = 0; i < n; i++)
					encoder->codes[i] = encoder->dict_codes[i];
				lsm_encode_u16(out, distinct);
				appendStringInfoCharMacro(out, (char) code_width);
				lsm_encode_codes(out, encoder->codes, n, code_width);
				lsm_encode_child_ints(encoder, distinct, out);
				break;
			}
		default:
			lsm_encode_for(encoder, v, n, &stats, out);
			break;
	}
	return best;
}

/* ---------------------------------------------------------------------
 * Vectors of byte strings
 * --------------------------------------------------------------------- */

typedef struct LsmStringPlan
{
	uint8		encoding;		/* CONST, RLE, DICT, or FIXED for all plain
								 * ones */
	int			runs;
	Size		cost;
	Size		plain_bytes;	/* of strings, without numbers */
} LsmStringPlan;

static inline bool
lsm_strings_equal(const LsmStrings *a, int i, const LsmStrings *b, int j)
{
	return a->lengths[i] == b->lengths[j] &&
		memcmp(a->data + a->offsets[i], b->data + b->offsets[j], a->lengths[i]) == 0;
}

static Size
lsm_encode_plain_cost(const LsmColumnType *type, int n, Size len)
{
	if (type->typlen > 0)
		return len;
	return 5 + lsm_bits_bytes(n, lsm_encode_width(len)) + len;
}

/* Find the distinct strings, into child_strings; false if it gave up. */
static bool
lsm_encode_string_distinct(LsmEncoder *encoder, const LsmColumnType *type,
						   const LsmStrings *strings)
{
	LsmStrings *dict = &encoder->child_strings;
	uint32		limit = strings->len - strings->len / 8;

	dict->n = 0;
	dict->len = 0;
	dict->aligned = false;
	encoder->stamp++;
	for (int i = 0; i < strings->n; i++)
	{
		const char *value = strings->data + strings->offsets[i];
		uint32		hash;
		uint32		slot;

		if (i > 0 && lsm_strings_equal(strings, i, strings, i - 1))
		{
			encoder->dict_codes[i] = encoder->dict_codes[i - 1];
			continue;
		}
		hash = hash_bytes((const unsigned char *) value, strings->lengths[i]);
		slot = hash & (LSM_DICT_SLOTS - 1);
		while (encoder->slot_stamp[slot] == encoder->stamp &&
			   (encoder->slot_hash[slot] != hash ||
				!lsm_strings_equal(strings, i, dict, encoder->slot_code[slot])))
			slot = (slot + 1) & (LSM_DICT_SLOTS - 1);
		if (encoder->slot_stamp[slot] != encoder->stamp)
		{
			if (dict->n == LSM_DICT_MAX || dict->len > limit ||
				(i == LSM_DICT_SAMPLE && dict->n == i))
				return false;
			encoder->slot_stamp[slot] = encoder->stamp;
			encoder->slot_hash[slot] = hash;
			encoder->slot_code[slot] = dict->n;
			lsm_strings_add(dict, type, value, strings->lengths[i]);
		}
		encoder->dict_codes[i] = encoder->slot_code[slot];
	}
	return true;
}

/* On return with DICT, child_strings and dict_codes are set. */
static void
lsm_encode_plan_strings(LsmEncoder *encoder, const LsmColumnType *type,
						const LsmStrings *strings, LsmStringPlan *plan)
{
	int			n = strings->n;
	uint64		run_len;
	Size		cost;

	plan->encoding = LSM_ENC_FIXED;
	plan->plain_bytes = strings->len;
	plan->cost = lsm_encode_plain_cost(type, n, strings->len);
	plan->runs = 1;
	run_len = strings->lengths[0];
	for (int i = 1; i < n; i++)
	{
		if (!lsm_strings_equal(strings, i, strings, i - 1))
		{
			plan->runs++;
			if (lsm_string_is_aligned(type, strings->data + strings->offsets[i]))
				run_len = att_align_nominal(run_len, type->typalign);
			run_len += strings->lengths[i];
		}
	}
	if (plan->runs == 1)
	{
		plan->encoding = LSM_ENC_CONST;
		plan->plain_bytes = strings->lengths[0];
		plan->cost = sizeof(uint32) + strings->lengths[0];
		return;
	}
	cost = 4 + lsm_bits_bytes(plan->runs, lsm_encode_width(n)) +
		lsm_encode_plain_cost(type, plan->runs, run_len);
	if (cost < plan->cost)
	{
		plan->encoding = LSM_ENC_RLE;
		plan->plain_bytes = run_len;
		plan->cost = cost;
	}
	if (n >= LSM_DICT_MIN_VALUES && lsm_encode_string_distinct(encoder, type, strings))
	{
		const LsmStrings *dict = &encoder->child_strings;

		cost = 4 + lsm_bits_bytes(n, lsm_encode_width(dict->n - 1)) +
			lsm_encode_plain_cost(type, dict->n, dict->len);
		if (cost < plan->cost)
		{
			plan->encoding = LSM_ENC_DICT;
			plan->plain_bytes = dict->len;
			plan->cost = cost;
		}
	}
}

/*
 * Append a zstd frame, with its two lengths before it.
 */
static void
lsm_encode_frame(LsmEncoder *encoder, const char *data, Size len, StringInfo out)
{
	Size		bound = ZSTD_compressBound(len);
	Size		stored_len;
	uint32		stored_len32;
	int			at;

	if (lsm_encode_cctx == NULL)
	{
		lsm_encode_cctx = ZSTD_createCCtx();
		if (lsm_encode_cctx == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory"),
					 errdetail("Could not create a zstd compression context.")));
	}
	lsm_encode_u32(out, len);
	at = out->len;
	lsm_encode_u32(out, 0);
	enlargeStringInfo(out, bound);
	if (encoder->dictionary != NULL)
		stored_len = ZSTD_compress_usingCDict(lsm_encode_cctx, out->data + out->len, bound,
											  data, len, encoder->dictionary);
	else
		stored_len = ZSTD_compressCCtx(lsm_encode_cctx, out->data + out->len, bound, data, len,
									   encoder->level);
	if (ZSTD_isError(stored_len))
		elog(ERROR, "could not compress a column chunk: %s", ZSTD_getErrorName(stored_len));
	stored_len32 = stored_len;
	memcpy(out->data + at, &stored_len32, sizeof(stored_len32));
	out->len += stored_len;
}

/*
 * Do the strings have headers that lsm_encode_bodies can leave away: all the
 * same, or short ones wherever these fit, as in tuples?
 */
static bool
lsm_encode_regular_headers(const LsmColumnType *type, const LsmStrings *strings, uint8 *headers)
{
	bool		any_short = false;
	bool		any_long = false;
	bool		as_fits = true;

	if (type->typlen != -1)
		return false;
	for (int i = 0; i < strings->n; i++)
	{
		const char *value = strings->data + strings->offsets[i];

		if (VARATT_IS_4B_C(value) || VARATT_IS_1B_E(value))
			return false;
		else if (VARATT_IS_1B(value))
			any_short = true;
		else
		{
			any_long = true;
			as_fits &= strings->lengths[i] - VARHDRSZ + VARHDRSZ_SHORT > VARATT_SHORT_MAX;
		}
	}
	if (any_short && any_long && !as_fits)
		return false;
	*headers = any_long ? (any_short ? LSM_BODIES_FIT : LSM_BODIES_LONG) : LSM_BODIES_SHORT;
	return true;
}

/*
 * Lengths bit-packed, then a frame of the strings without headers: headers
 * between them are not where zstd is good.
 */
static void
lsm_encode_bodies(LsmEncoder *encoder, const LsmStrings *strings, uint8 headers, StringInfo out)
{
	StringInfo	bodies = &encoder->bodies;
	uint64		least = PG_UINT64_MAX;
	uint64		most = 0;
	int			width;

	resetStringInfo(bodies);
	for (int i = 0; i < strings->n; i++)
	{
		const char *value = strings->data + strings->offsets[i];
		uint64		len = VARSIZE_ANY_EXHDR(value);

		encoder->codes[i] = len;
		least = Min(least, len);
		most = Max(most, len);
		appendBinaryStringInfo(bodies, VARDATA_ANY(value), len);
	}
	for (int i = 0; i < strings->n; i++)
		encoder->codes[i] -= least;
	width = lsm_encode_width(most - least);
	appendStringInfoCharMacro(out, (char) headers);
	appendStringInfoCharMacro(out, (char) width);
	lsm_encode_u32(out, least);
	lsm_encode_codes(out, encoder->codes, strings->n, width);
	lsm_encode_frame(encoder, bodies->data, bodies->len, out);
	encoder->framed = true;
}

/*
 * Strings one after the other: in the form that is read by number, or, to be
 * compressed, as bodies where their headers are regular, else as a stream.
 */
static uint8
lsm_encode_plain_strings(LsmEncoder *encoder, const LsmColumnType *type,
						 const LsmStrings *strings, bool stream, StringInfo out)
{
	uint8		encoding = LSM_ENC_FIXED;
	uint8		headers;

	if (stream && lsm_encode_regular_headers(type, strings, &headers))
	{
		lsm_encode_bodies(encoder, strings, headers, out);
		return LSM_ENC_BODIES;
	}

	if (type->typlen > 0)
	{
		Size		stride = att_align_nominal(type->typlen, type->typalign);

		if (strings->aligned)
			lsm_encode_pad(out);
		/* Pad the last one like the others. */
		appendBinaryStringInfo(out, strings->data, strings->len);
		for (Size len = strings->len; len < stride * strings->n; len++)
			appendStringInfoCharMacro(out, '\0');
		return LSM_ENC_FIXED;
	}
	if (!stream)
	{
		int			width = lsm_encode_width(strings->len);

		encoding = LSM_ENC_VAR;
		appendStringInfoCharMacro(out, (char) width);
		lsm_encode_u32(out, strings->len);
		for (int i = 0; i < strings->n; i++)
			encoder->codes[i] = strings->offsets[i];
		lsm_encode_codes(out, encoder->codes, strings->n, width);
	}
	else
	{
		encoding = LSM_ENC_STREAM;
		lsm_encode_u32(out, strings->len);
	}
	if (strings->aligned)
		lsm_encode_pad(out);
	appendBinaryStringInfo(out, strings->data, strings->len);
	return encoding;
}

static void
lsm_encode_child_strings(LsmEncoder *encoder, const LsmColumnType *type, bool stream,
						 StringInfo out)
{
	int			at = out->len;
	uint8		encoding;

	appendStringInfoCharMacro(out, '\0');
	encoding = lsm_encode_plain_strings(encoder, type, &encoder->child_strings, stream, out);
	out->data[at] = (char) encoding;
}

static uint8
lsm_encode_strings(LsmEncoder *encoder, const LsmColumnType *type,
				   const LsmStrings *strings, const LsmStringPlan *plan, bool stream,
				   StringInfo out)
{
	int			n = strings->n;
	LsmStrings *child = &encoder->child_strings;

	switch (plan->encoding)
	{
		case LSM_ENC_CONST:
			lsm_encode_u32(out, strings->lengths[0]);
			if (strings->aligned)
				lsm_encode_pad(out);
			appendBinaryStringInfo(out, strings->data + strings->offsets[0],
								   strings->lengths[0]);
			return LSM_ENC_CONST;
		case LSM_ENC_RLE:
			{
				int			run = 0;

				child->n = 0;
				child->len = 0;
				child->aligned = false;
				for (int i = 0; i < n; i++)
				{
					if (i > 0 && lsm_strings_equal(strings, i, strings, i - 1))
						continue;
					if (i > 0)
						encoder->codes[run++] = i;
					lsm_strings_add(child, type, strings->data + strings->offsets[i],
									strings->lengths[i]);
				}
				encoder->codes[run++] = n;
				Assert(run == plan->runs);
				lsm_encode_run_ends(encoder, run, n, out);
				lsm_encode_child_strings(encoder, type, stream, out);
				return LSM_ENC_RLE;
			}
		case LSM_ENC_DICT:
			{
				int			width = lsm_encode_width(child->n - 1);

				for (int i = 0; i < n; i++)
					encoder->codes[i] = encoder->dict_codes[i];
				lsm_encode_u16(out, child->n);
				appendStringInfoCharMacro(out, (char) width);
				lsm_encode_codes(out, encoder->codes, n, width);
				lsm_encode_child_strings(encoder, type, stream, out);
				return LSM_ENC_DICT;
			}
		default:
			return lsm_encode_plain_strings(encoder, type, strings, stream, out);
	}
}

/* ---------------------------------------------------------------------
 * Chunks
 * --------------------------------------------------------------------- */

/* Bring all values of a numeric column to integers; false if one refuses. */
static bool
lsm_encode_scale(LsmEncoder *encoder, const LsmStrings *strings, uint8 *scale)
{
	*scale = 0xFF;
	for (int i = 0; i < strings->n; i++)
	{
		if (!lsm_numeric_parse(strings->data + strings->offsets[i], strings->lengths[i],
							   scale, &encoder->ints[i]))
			return false;
	}
	return true;
}

/* Begin a payload: null bitmap. */
static void
lsm_encode_begin(LsmEncoder *encoder, const LsmColumn *column)
{
	resetStringInfo(&encoder->payload);
	if (column->n < column->rows)
		appendBinaryStringInfo(&encoder->payload, (const char *) column->present,
							   (column->rows + 7) / 8);
}

/*
 * Was the payload worth compressing?  Remembers failures, so that zstd is
 * tried less and less on a column that does not compress.
 */
static bool
lsm_encode_worth(LsmColumn *column, Size stored, Size otherwise)
{
	if (stored + LSM_ZSTD_MIN_SAVED > otherwise ||
		stored > otherwise * LSM_ZSTD_MAX_PERCENT / 100)
	{
		column->zstd_failures = Min(column->zstd_failures + 1, 16);
		column->zstd_skip = Min(1 << column->zstd_failures, LSM_ZSTD_MAX_SKIP);
		return false;
	}
	column->zstd_failures = 0;
	return true;
}

/* Compress the whole payload; false if that is not worth it. */
static bool
lsm_encode_zstd(LsmEncoder *encoder, LsmColumn *column, Size otherwise)
{
	resetStringInfo(&encoder->compressed);
	lsm_encode_frame(encoder, encoder->payload.data, encoder->payload.len,
					 &encoder->compressed);
	return lsm_encode_worth(column, encoder->compressed.len, otherwise);
}

/* Strings have been compressed to so many bytes: tell that, or learn from them. */
static void
lsm_encode_trained(LsmEncoder *encoder, LsmColumn *column, Size stored, uint8 *flags)
{
	StringInfo	raw = encoder->framed ? &encoder->bodies : &encoder->payload;

	if (encoder->dictionary != NULL)
		*flags |= LSM_CHUNK_DICTIONARY;
	else if (column->training != NULL)
		lsm_training_add(column->training, raw->data, raw->len, stored);
}

/* Is it worth trying zstd on this column's next chunk? */
static bool
lsm_encode_try_zstd(LsmEncoder *encoder, LsmColumn *column, Size bytes)
{
	if (encoder->level == 0 || bytes < LSM_ZSTD_MIN_BYTES)
		return false;
	if (column->zstd_skip > 0)
	{
		column->zstd_skip--;
		return false;
	}
	return true;
}

void
lsm_chunk_encode(LsmEncoder *encoder, LsmColumn *column, StringInfo out,
				 uint8 *encoding, uint8 *flags, uint32 *offset, LsmChunkFacts *facts)
{
	StringInfo	payload = &encoder->payload;
	const int64 *ints = NULL;
	uint8		scale = 0;
	bool		compressed = false;
	bool		done = false;

	memset(facts, 0, sizeof(*facts));
	*flags = 0;
	*offset = out->len;
	if (column->n == 0)
	{
		*encoding = LSM_ENC_NULLS;
		return;
	}
	if (column->n < column->rows)
		*flags |= LSM_CHUNK_NULLS;

	lsm_encode_begin(encoder, column);
	encoder->dictionary = NULL;
	if (column->type.typbyval)
		ints = column->ints;
	else if (column->numeric && lsm_encode_scale(encoder, &column->strings, &scale))
	{
		ints = encoder->ints;
		*flags |= LSM_CHUNK_NUMERIC;
		appendStringInfoCharMacro(payload, (char) scale);
		facts->scaled = true;
		facts->scale = scale;
	}

	if (ints != NULL)
	{
		int			width;

		*encoding = lsm_encode_ints(encoder, ints, column->n, false, payload, &width);
		if ((*encoding == LSM_ENC_FOR || *encoding == LSM_ENC_DICT) &&
			width >= LSM_ZSTD_MIN_INT_WIDTH &&
			lsm_encode_try_zstd(encoder, column, payload->len))
			compressed = lsm_encode_zstd(encoder, column, payload->len);
		facts->min = facts->max = ints[0];
		for (int i = 1; i < column->n; i++)
		{
			facts->min = Min(facts->min, ints[i]);
			facts->max = Max(facts->max, ints[i]);
		}
	}
	else
	{
		LsmStringPlan plan;

		lsm_encode_plan_strings(encoder, &column->type, &column->strings, &plan);
		facts->distinct = plan.encoding == LSM_ENC_DICT ? &encoder->child_strings :
			&column->strings;
		if (column->strings.aligned)
			*flags |= LSM_CHUNK_ALIGNED;

		/* zstd only where strings are most of the bytes. */
		if (plan.plain_bytes >= plan.cost / 2 &&
			lsm_encode_try_zstd(encoder, column, plan.plain_bytes))
		{
			int			begin = payload->len;

			encoder->framed = false;
			if (column->training != NULL)
				encoder->dictionary = lsm_training_dictionary(column->training);
			*encoding = lsm_encode_strings(encoder, &column->type, &column->strings, &plan,
										   true, payload);
			if (encoder->framed)
				done = lsm_encode_worth(column, payload->len - begin, plan.cost);
			else
				compressed = lsm_encode_zstd(encoder, column, plan.cost + begin);
			if (compressed || done)
				lsm_encode_trained(encoder, column,
								   compressed ? encoder->compressed.len : payload->len, flags);
			else
				lsm_encode_begin(encoder, column);
		}
		if (!compressed && !done)
			*encoding = lsm_encode_strings(encoder, &column->type, &column->strings, &plan,
										   false, payload);
	}

	if (compressed)
	{
		*flags |= LSM_CHUNK_ZSTD;
		payload = &encoder->compressed;
	}
	else if (*flags & LSM_CHUNK_ALIGNED)
	{
		lsm_encode_pad(out);
		*offset = out->len;
	}
	appendBinaryStringInfo(out, payload->data, payload->len);
}
