/*-------------------------------------------------------------------------
 *
 * lsm_codec.h
 *	  Column chunks: how the values of one column of one block are encoded.
 *
 * A chunk holds the values of up to LSM_BLOCK_MAX_ROWS rows.  Nulls are kept
 * apart, the values that are there form a vector.  A vector is either of
 * integers (types passed by value, and numerics as scaled integers) or of
 * byte strings (everything else).  Bytes: FORMAT.md, "Column chunks".
 *
 * INTERFACE
 *	  writing: lsm_column_add, lsm_chunk_encode	(lsm_encode.c)
 *	  reading: lsm_chunk_open (lsm_codec.c), lsm_chunk_value (lsm_chunk_value.c),
 *	  lsm_chunk_decode (lsm_decode.c; lsm_codes.c: codes), lsm_vector_sum
 *	  (lsm_vector_sum.c)
 *	  numerics: lsm_numeric_parse, lsm_numeric_build (lsm_numeric.c)
 *
 * Reading trusts nothing: a chunk whose checksum is right may still have been
 * written by somebody else's bug.  Every length is checked against the bytes
 * that are there, every code against the size of what it points into.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CODEC_H
#define LSM_CODEC_H

#include "lib/stringinfo.h"
#include "segment/lsm_dictionary.h"
#include "segment/lsm_segment.h"

#if SIZEOF_DATUM != 8
#error "lsm needs a server with 8-byte Datums"
#endif

/* Most rows of a block; part of the disk format (row numbers are 16 bits). */
#define LSM_BLOCK_MAX_ROWS		8192

/*
 * Encodings of a vector.  Values are part of the disk format and never change
 * meaning; a reader reports an unknown one as corruption.
 */
#define LSM_ENC_NULLS			1	/* no value at all */
#define LSM_ENC_CONST			2	/* one value */
#define LSM_ENC_FOR				3	/* integers: base + multiplier * code */
#define LSM_ENC_LINEAR			4	/* integers: base + slope * i + code */
#define LSM_ENC_RLE				5	/* runs of equal values */
#define LSM_ENC_RUNS			6	/* integers: runs that count up by one */
#define LSM_ENC_DICT			7	/* codes into a vector of distinct values */
#define LSM_ENC_FIXED			8	/* strings of one length, plain */
#define LSM_ENC_VAR				9	/* strings, plain, with offsets */
#define LSM_ENC_STREAM			10	/* strings, plain, one after the other */
#define LSM_ENC_BODIES			11	/* strings without headers, compressed */

/* Headers of the strings of BODIES. */
#define LSM_BODIES_SHORT		1	/* 1 byte */
#define LSM_BODIES_LONG			4	/* 4 bytes */
#define LSM_BODIES_FIT			5	/* 1 byte where that is enough, else 4 */

/* Flags of a chunk; a reader reports an unknown one as corruption. */
#define LSM_CHUNK_NULLS			0x01	/* a bitmap tells which rows have
										 * values */
#define LSM_CHUNK_ZSTD			0x02	/* the payload is a zstd frame */
#define LSM_CHUNK_NUMERIC		0x04	/* integers are scaled numerics */
#define LSM_CHUNK_ALIGNED		0x08	/* the payload begins at 8 bytes in
										 * the block */
#define LSM_CHUNK_DICTIONARY	0x10	/* its zstd frame was made with the
										 * column's dictionary */
#define LSM_CHUNK_KNOWN_FLAGS	0x1F

/* First byte of the payload of a numeric chunk: scale and this bit. */
#define LSM_NUMERIC_LONG_HEADER 0x80	/* values have 4-byte headers */
#define LSM_NUMERIC_MAX_SCALE	16
#define LSM_NUMERIC_MAX_BYTES	24	/* of a value that was a scaled integer */

/* Bytes that must be readable behind any buffer that chunks are read from. */
#define LSM_CODEC_SLACK			8

/* A type as the segment stores it. */
typedef struct LsmColumnType
{
	Oid			typid;
	int32		typmod;
	Oid			collation;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	const struct ZSTD_DDict_s *dictionary;	/* of a block's column, NULL: none */
} LsmColumnType;

/* ---- bit-packed arrays: little-endian on every machine ---- */

static inline uint64
lsm_bits_load(const uint8 *p)
{
	uint64		word;

	memcpy(&word, p, sizeof(word));
#ifdef WORDS_BIGENDIAN
	word = __builtin_bswap64(word);
#endif
	return word;
}

static inline void
lsm_bits_store(uint8 *p, uint64 word)
{
#ifdef WORDS_BIGENDIAN
	word = __builtin_bswap64(word);
#endif
	memcpy(p, &word, sizeof(word));
}

/* Widths are 0 to 56, or 64, so that one load always has a whole code. */
static inline bool
lsm_bits_width_ok(int width)
{
	return (width >= 0 && width <= 56) || width == 64;
}

static inline uint64
lsm_bits_mask(int width)
{
	return width == 64 ? PG_UINT64_MAX : (UINT64CONST(1) << width) - 1;
}

static inline uint64
lsm_bits_get(const uint8 *codes, int width, uint64 mask, uint32 i)
{
	uint64		bit = (uint64) i * (uint32) width;

	return (lsm_bits_load(codes + (bit >> 3)) >> (bit & 7)) & mask;
}

static inline Size
lsm_bits_bytes(uint32 n, int width)
{
	return (Size) (((uint64) n * (uint32) width + 7) / 8);
}

/* ---- byte strings of one column, packed as they are stored ---- */

typedef struct LsmStrings
{
	char	   *data;
	uint32		len;
	uint32		max;
	uint32	   *offsets;
	uint32	   *lengths;
	int			n;
	int			max_n;
	bool		aligned;		/* some value needs its alignment */
} LsmStrings;

/* ---- writing ---- */

/* The values of one column of the open block. */
typedef struct LsmColumn
{
	LsmColumnType type;
	bool		numeric;		/* try scaled integers */
	LsmTraining *training;		/* for its dictionary, NULL: never one */
	int			rows;
	int			n;				/* rows that have a value */
	uint8		present[LSM_BLOCK_MAX_ROWS / 8 + LSM_CODEC_SLACK];
	int64	   *ints;			/* types passed by value */
	int			max_ints;
	LsmStrings	strings;		/* the others */
	int			zstd_failures;	/* in a row */
	int			zstd_skip;		/* chunks to go before zstd is tried again */
} LsmColumn;

/* What encoding learned about the values, for zone maps. */
typedef struct LsmChunkFacts
{
	bool		scaled;			/* numerics as integers min to max */
	uint8		scale;			/* as in the payload */
	int64		min;
	int64		max;
	const LsmStrings *distinct; /* every value is among these; valid until the
								 * next call */
} LsmChunkFacts;

typedef struct LsmEncoder LsmEncoder;

extern LsmEncoder *lsm_encoder_create(int compression_level);
extern LsmColumn *lsm_column_create(const LsmColumnType *type, bool numeric);
extern void lsm_column_reset(LsmColumn *column);
extern Size lsm_column_add(LsmColumn *column, Datum value, bool isnull);

/* Signed numbers in as few bytes as they need. */
extern int	lsm_encode_signed_bytes(int64 value);
extern void lsm_encode_signed(StringInfo out, int64 value, int bytes);
extern int	lsm_encode_width(uint64 max_code);
extern void lsm_encode_codes(StringInfo out, const uint64 *codes, int n, int width);

/*
 * Append the chunk of a column to out (whose byte 0 is byte 0 of the block);
 * tells its encoding, flags and first byte.
 */
extern void lsm_chunk_encode(LsmEncoder *encoder, LsmColumn *column, StringInfo out,
							 uint8 *encoding, uint8 *flags, uint32 *offset,
							 LsmChunkFacts *facts);

/* ---- reading ---- */

/* Whom to blame. */
typedef struct LsmCodecPlace
{
	LsmSegmentSource *source;
	int64		blockno;
} LsmCodecPlace;

/* A vector, ready for access by number. */
typedef struct LsmVector
{
	uint8		encoding;
	bool		strings;
	uint8		width;			/* of codes, run ends or offsets */
	int			n;
	const uint8 *codes;
	uint64		mask;
	uint64		base;
	uint64		multiplier;		/* or slope */
	const char *data;
	uint32		data_len;
	uint32		stride;			/* FIXED */
	uint32	   *offsets;		/* STREAM, BODIES: found when opened */
	struct LsmVector *child;	/* of runs or distinct values */
} LsmVector;

/* What its values are, as reading them one by one has to know. */
typedef enum LsmChunkKind
{
	LSM_CHUNK_NO_VALUES,		/* all null */
	LSM_CHUNK_INTEGERS,
	LSM_CHUNK_NUMERICS,			/* as scaled integers */
	LSM_CHUNK_STRINGS
} LsmChunkKind;

typedef struct LsmChunk
{
	/* first what one value needs, so that it is in few lines of cache */
	Datum	   *values;			/* set when decoded */
	const uint8 *present;		/* NULL: every row has a value */
	uint8		kind;			/* LsmChunkKind */
	char		typalign;		/* of the type */
	int16		typlen;
	int			rows;
	LsmVector	vector;
	const struct ZSTD_DDict_s *dictionary;	/* of its frame, NULL: none */
	bool	   *isnull;
	uint16	   *ranks;			/* values before each 64 rows */
	const LsmColumnType *type;
	const LsmCodecPlace *place;
	MemoryContext context;
	bool		numeric;
	uint8		scale;			/* as in the payload */
	int			built;			/* numerics built one by one */
	const uint8 *payload;		/* decompressed, if all of it was compressed */
	Size		payload_len;
} LsmChunk;

extern LsmChunk *lsm_chunk_open(MemoryContext context, const LsmCodecPlace *place,
								const LsmColumnType *type, uint8 encoding, uint8 flags,
								const uint8 *payload, Size len, int rows);

/* A row's value is going to be asked for; only a hint. */
extern void lsm_chunk_foresee(const LsmChunk *chunk, int row);

/* One value; a numeric is built in room (LSM_NUMERIC_MAX_BYTES), or in the block's memory. */
extern Datum lsm_chunk_value(LsmChunk *chunk, int row, bool *isnull, char *room);
extern void lsm_chunk_decode(LsmChunk *chunk, Datum **values, bool **isnull);

/* Append the payload of a chunk in which nothing is compressed; adapts encoding and flags. */
extern void lsm_chunk_expand(const LsmChunk *chunk, StringInfo out, uint8 *encoding,
							 uint8 *flags);

/* Integer chunks: one value, zero where there is none. */
extern int64 lsm_chunk_int(LsmChunk *chunk, int row);

/* Chunks of ascending TIDs without nulls: first row whose value is >= key. */
extern int	lsm_chunk_lower_bound(LsmChunk *chunk, uint64 key);

/*
 * The same chunks as runs of TIDs that count up, each run behind the one before it: with
 * which TID a run begins, and how many rows there are up to its end.  How many runs; 0 if
 * these are more than max, or it is not stored as such.
 */
extern int	lsm_chunk_tid_runs(LsmChunk *chunk, int max, uint64 *firsts, uint16 *ends);

/* The same chunks as offsets from the first value; NULL if they do not fit. */
extern uint32 *lsm_chunk_decode_tids(LsmChunk *chunk, uint64 *first);

/*
 * Pieces of a vector, for those who look at values by their encoding: where a run
 * ends, a code of a dictionary, all numbers, bounds of all numbers (false: the
 * encoding does not tell any), one value (numerics that are built are palloc'd).
 * The sum of all numbers, codes of FOR, and numbers at some places, to the same places of
 * out: false if that is no faster than all numbers.  All codes of a dictionary, checked.
 */
extern int	lsm_vector_run_end(const LsmChunk *chunk, const LsmVector *v, int run);
extern int	lsm_vector_code(const LsmChunk *chunk, const LsmVector *v, int i);
extern void lsm_vector_ints(const LsmChunk *chunk, const LsmVector *v, int64 *out);
extern bool lsm_vector_bounds(const LsmVector *v, int64 *min, int64 *max);
extern bool lsm_vector_sum(const LsmChunk *chunk, const LsmVector *v, int128 *sum);
extern bool lsm_vector_codes(const LsmVector *v, uint32 *codes);
extern bool lsm_vector_codes16(const LsmVector *v, uint16 *codes);
extern void lsm_vector_all_codes(const LsmChunk *chunk, const LsmVector *v, uint16 *codes);
extern bool lsm_vector_some(const LsmVector *v, const uint16 *places, int n, int64 *out);
extern Datum lsm_vector_datum(const LsmChunk *chunk, const LsmVector *v, int i);

/* The chunk of a column that the block stores; valid as long as the block. */
extern LsmChunk *lsm_block_column_chunk(LsmBlock *block, int attnum);

/* The name of an encoding, for reports. */
extern const char *lsm_encoding_name(uint8 encoding);

/* ---- numerics ---- */

extern bool lsm_numeric_parse(const char *value, Size len, uint8 *scale, int64 *result);
extern Size lsm_numeric_build(int64 value, uint8 scale, char *result);

#endif							/* LSM_CODEC_H */
