/*-------------------------------------------------------------------------
 *
 * lsm_test_chunk.c
 *	  Tests of column chunks, called from sql/segment.sql.
 *
 * The functions here are not part of the extension's SQL: the test declares them itself.
 *
 *	  lsm_test_chunk(anyarray, text, int)	one column chunk and back
 *	  lsm_test_chunk_rate(anyarray)		how fast a chunk is read (bench/decode.sh)
 *	  lsm_test_tids(bigint[])			searching a chunk of TIDs
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/toast_internals.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lsm_test_segment.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(lsm_test_chunk);
PG_FUNCTION_INFO_V1(lsm_test_chunk_rate);
PG_FUNCTION_INFO_V1(lsm_test_tids);

/* Bring a varlena to another header, as a tuple might have it. */
static Datum
lsm_test_form(Datum value, const char *form, int i)
{
	struct varlena *v = (struct varlena *) DatumGetPointer(value);
	bool		make_short = strcmp(form, "short") == 0 ||
	(strcmp(form, "mixed") == 0 && i % 2 == 0);

	if (make_short && VARATT_CAN_MAKE_SHORT(v))
	{
		Size		len = VARATT_CONVERTED_SHORT_SIZE(v);
		char	   *result = palloc(len);

		SET_VARSIZE_SHORT(result, len);
		memcpy(result + 1, VARDATA(v), len - 1);
		return PointerGetDatum(result);
	}
	if (strcmp(form, "compressed") == 0)
	{
		Datum		compressed = toast_compress_datum(value, TOAST_PGLZ_COMPRESSION);

		if (DatumGetPointer(compressed) != NULL)
			return compressed;
	}
	return value;
}

static void
lsm_test_chunk_check(LsmChunk *chunk, const LsmColumnType *type, int n,
					 const Datum *values, const bool *nulls, const char *how)
{
	for (int i = 0; i < n; i++)
	{
		/* 4999 and the number of rows have no common divisor in the tests. */
		int			row = (int) (((int64) i * 4999) % n);
		bool		isnull;
		Datum		value = lsm_chunk_value(chunk, row, &isnull, NULL);

		if (!lsm_test_same(values[row], nulls[row], value, isnull, type->typbyval, type->typlen))
			elog(ERROR, "row %d differs, read %s", row, how);
	}
}

/* Has the chunk the same values when nothing in it is compressed? */
static void
lsm_test_chunk_expand(LsmChunk *chunk, uint8 encoding, uint8 flags, const Datum *values,
					  const bool *nulls)
{
	StringInfoData out;
	LsmChunk   *expanded;
	char	   *bytes;

	initStringInfo(&out);
	lsm_chunk_expand(chunk, &out, &encoding, &flags);
	if (flags & (LSM_CHUNK_ZSTD | LSM_CHUNK_DICTIONARY))
		elog(ERROR, "an expanded chunk is compressed");
	bytes = palloc(out.len + LSM_CODEC_SLACK);
	memcpy(bytes, out.data, out.len);
	expanded = lsm_chunk_open(CurrentMemoryContext, chunk->place, chunk->type, encoding, flags,
							  (uint8 *) bytes, out.len, chunk->rows);
	if (expanded->vector.offsets != NULL ||
		(expanded->vector.child != NULL && expanded->vector.child->offsets != NULL))
		elog(ERROR, "strings of an expanded chunk have no offsets");
	lsm_test_chunk_check(expanded, chunk->type, chunk->rows, values, nulls, "expanded");
}

/* Elements for a chunk, and their type; returns how many. */
static int
lsm_test_take_apart(ArrayType *array, LsmColumnType *type, Datum **values, bool **nulls)
{
	int			n;

	memset(type, 0, sizeof(*type));
	type->typid = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(type->typid, &type->typlen, &type->typbyval, &type->typalign);
	deconstruct_array(array, type->typid, type->typlen, type->typbyval, type->typalign,
					  values, nulls, &n);
	if (n == 0 || n > LSM_BLOCK_MAX_ROWS)
		elog(ERROR, "%d values are no chunk", n);
	return n;
}

/* Encode an array's elements and read them back; tells how they were encoded. */
Datum
lsm_test_chunk(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	char	   *form = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int			level = PG_GETARG_INT32(2);
	LsmColumnType type;
	LsmTestSource source;
	LsmCodecPlace place;
	LsmEncoder *encoder = lsm_encoder_create(level);
	LsmColumn  *column;
	LsmChunkFacts facts;
	LsmChunk   *chunk;
	StringInfoData out;
	StringInfoData result;
	Datum	   *values;
	Datum	   *decoded;
	bool	   *nulls;
	bool	   *decoded_nulls;
	int			n;
	uint8		encoding;
	uint8		flags;
	uint32		offset;
	uint8	   *bytes;

	n = lsm_test_take_apart(array, &type, &values, &nulls);

	column = lsm_column_create(&type, type.typid == NUMERICOID);
	initStringInfo(&out);
	appendStringInfoString(&out, "abc");	/* chunks begin anywhere */
	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < n; i++)
		{
			if (round == 0 && type.typlen == -1 && !nulls[i])
				values[i] = lsm_test_form(values[i], form, i);
			lsm_column_add(column, values[i], nulls[i]);
		}
		out.len = 3;
		lsm_chunk_encode(encoder, column, &out, &encoding, &flags, &offset, &facts);
		lsm_column_reset(column);
	}

	bytes = palloc(out.len + LSM_CODEC_SLACK);
	memcpy(bytes, out.data, out.len);
	lsm_test_source(&source, NULL, 0);
	place.source = &source.source;
	place.blockno = 7;
	chunk = lsm_chunk_open(CurrentMemoryContext, &place, &type, encoding, flags,
						   bytes + offset, out.len - offset, n);
	lsm_test_chunk_check(chunk, &type, n, values, nulls, "by number");
	chunk = lsm_chunk_open(CurrentMemoryContext, &place, &type, encoding, flags,
						   bytes + offset, out.len - offset, n);
	lsm_chunk_decode(chunk, &decoded, &decoded_nulls);
	for (int i = 0; i < n; i++)
	{
		if (!lsm_test_same(values[i], nulls[i], decoded[i], decoded_nulls[i],
						   type.typbyval, type.typlen))
			elog(ERROR, "row %d differs, decoded", i);
	}
	lsm_test_chunk_check(chunk, &type, n, values, nulls, "by number after decoding");
	lsm_test_chunk_expand(chunk, encoding, flags, values, nulls);

	initStringInfo(&result);
	appendStringInfoString(&result, lsm_encoding_name(encoding));
	if (chunk->vector.child != NULL)
		appendStringInfo(&result, " of %s", lsm_encoding_name(chunk->vector.child->encoding));
	if (flags & LSM_CHUNK_NUMERIC)
		appendStringInfo(&result, ", scale %d", chunk->scale & ~LSM_NUMERIC_LONG_HEADER);
	if (flags & LSM_CHUNK_NULLS)
		appendStringInfoString(&result, ", nulls");
	if (flags & LSM_CHUNK_ZSTD)
		appendStringInfoString(&result, ", zstd");
	PG_RETURN_TEXT_P(cstring_to_text(result.data));
}

/* Milliseconds that a rate is measured for. */
#define TEST_RATE_MS	100

typedef enum LsmTestWay
{
	TEST_AS_INTS,				/* numbers of a vector, in 64 bits */
	TEST_AS_SUM,				/* their sum, from what is stored */
	TEST_AS_DATUMS				/* what slots get */
} LsmTestWay;

/* Read all of a chunk once; false: it cannot be read that way. */
static bool
lsm_test_read_chunk(LsmChunk *chunk, LsmTestWay way, int64 *room)
{
	Datum	   *decoded;
	bool	   *nulls;
	int128		sum = 0;

	switch (way)
	{
		case TEST_AS_INTS:
			if (chunk->vector.strings || chunk->vector.encoding == LSM_ENC_NULLS)
				return false;
			lsm_vector_ints(chunk, &chunk->vector, room);
			return true;
		case TEST_AS_SUM:
			return !chunk->vector.strings && chunk->vector.encoding != LSM_ENC_NULLS &&
				lsm_vector_sum(chunk, &chunk->vector, &sum);
		default:
			lsm_chunk_decode(chunk, &decoded, &nulls);
			return true;
	}
}

/*
 * Tell how a chunk of an array's elements is encoded, and how many million rows a second are
 * read of it.
 */
Datum
lsm_test_chunk_rate(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"ints", "sum", "datums"};
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	LsmColumnType type;
	LsmTestSource source;
	LsmCodecPlace place;
	LsmColumn  *column;
	LsmChunkFacts facts;
	LsmChunk   *chunk;
	StringInfoData out;
	StringInfoData result;
	MemoryContext loop = AllocSetContextCreate(CurrentMemoryContext, "lsm test rate",
											   ALLOCSET_DEFAULT_SIZES);
	Datum	   *values;
	bool	   *nulls;
	int64	   *room;
	int			n;
	uint8		encoding;
	uint8		flags;
	uint32		offset;

	n = lsm_test_take_apart(array, &type, &values, &nulls);
	column = lsm_column_create(&type, type.typid == NUMERICOID);
	for (int i = 0; i < n; i++)
		lsm_column_add(column, values[i], nulls[i]);
	initStringInfo(&out);
	lsm_chunk_encode(lsm_encoder_create(3), column, &out, &encoding, &flags, &offset, &facts);
	enlargeStringInfo(&out, LSM_CODEC_SLACK);
	room = palloc(n * sizeof(int64));
	lsm_test_source(&source, NULL, 0);
	place.source = &source.source;
	place.blockno = 7;

	initStringInfo(&result);
	appendStringInfo(&result, "%s%s, %.1f bits a row:", lsm_encoding_name(encoding),
					 flags & LSM_CHUNK_ZSTD ? " (zstd)" : "", 8.0 * (out.len - offset) / n);
	for (LsmTestWay way = TEST_AS_INTS; way <= TEST_AS_DATUMS; way++)
	{
		instr_time	start;
		instr_time	took;
		int64		rounds = 0;

		INSTR_TIME_SET_CURRENT(start);
		do
		{
			MemoryContext caller = MemoryContextSwitchTo(loop);

			CHECK_FOR_INTERRUPTS();
			chunk = lsm_chunk_open(loop, &place, &type, encoding, flags,
								   (uint8 *) out.data + offset, out.len - offset, n);
			if (!lsm_test_read_chunk(chunk, way, room))
				rounds = -1;
			MemoryContextSwitchTo(caller);
			MemoryContextReset(loop);
			INSTR_TIME_SET_CURRENT(took);
			INSTR_TIME_SUBTRACT(took, start);
		} while (rounds++ >= 0 && INSTR_TIME_GET_MILLISEC(took) < TEST_RATE_MS);
		if (rounds > 0)
			appendStringInfo(&result, " %s %.0f", names[way],
							 (double) rounds * n / 1000 / INSTR_TIME_GET_MILLISEC(took));
	}
	PG_RETURN_TEXT_P(cstring_to_text(result.data));
}

/*
 * Search a chunk of these TIDs for each of them and its neighbours; then decode it
 * for searching.
 */
Datum
lsm_test_tids(PG_FUNCTION_ARGS)
{
	const LsmColumnType type = {
		.typid = INT8OID,.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE
	};
	LsmColumn  *column = lsm_column_create(&type, false);
	LsmEncoder *encoder = lsm_encoder_create(3);
	LsmTestSource source;
	LsmCodecPlace place;
	LsmChunkFacts facts;
	LsmChunk   *chunk;
	StringInfoData out;
	Datum	   *tids;
	bool	   *nulls;
	int			n;
	uint8		encoding;
	uint8		flags;
	uint32		offset;
	uint64		first;
	uint32	   *offsets;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), INT8OID, 8, true, TYPALIGN_DOUBLE,
					  &tids, &nulls, &n);
	for (int i = 0; i < n; i++)
		lsm_column_add(column, tids[i], false);
	initStringInfo(&out);
	lsm_chunk_encode(encoder, column, &out, &encoding, &flags, &offset, &facts);
	enlargeStringInfo(&out, LSM_CODEC_SLACK);
	lsm_test_source(&source, NULL, 0);
	place.source = &source.source;
	place.blockno = 7;
	chunk = lsm_chunk_open(CurrentMemoryContext, &place, &type, encoding, flags,
						   (uint8 *) out.data + offset, out.len - offset, n);

	offsets = lsm_chunk_decode_tids(chunk, &first);
	for (int i = 0; i < n; i++)
	{
		if (offsets != NULL && first + offsets[i] != DatumGetUInt64(tids[i]))
			elog(ERROR, "TID %d differs", i);
		for (int step = -1; step <= 1; step++)
		{
			uint64		key = DatumGetUInt64(tids[i]) + step;
			int			expected = 0;

			while (expected < n && DatumGetUInt64(tids[expected]) < key)
				expected++;
			if (lsm_chunk_lower_bound(chunk, key) != expected)
				elog(ERROR, "TID " UINT64_FORMAT " is not found", key);
		}
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s, %s", lsm_encoding_name(encoding),
											  offsets == NULL ? "wide" : "narrow")));
}
