/*-------------------------------------------------------------------------
 *
 * lsm_test_segment.c
 *	  Tests of src/segment, called from sql/segment.sql and sql/formats.sql.
 *
 * Segments are written to and read from memory, here and in lsm_test_increment.c and
 * lsm_test_damage.c.  The functions here are not part of the extension's SQL: the test
 * declares them itself.
 *
 *	  lsm_test_segment(regclass, ...)	a table's rows to a segment and back
 *	  lsm_test_bytes(regclass, text)	the bytes of a segment
 *	  lsm_test_rows(bytea)				rows of a segment given as bytes
 *	  lsm_test_measure(regclass, ...)	sizes and speed
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lsm_test_segment.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(lsm_test_segment);
PG_FUNCTION_INFO_V1(lsm_test_bytes);
PG_FUNCTION_INFO_V1(lsm_test_rows);
PG_FUNCTION_INFO_V1(lsm_test_measure);

/* What dictionaries are made from here: less than in tables. */
#define LSM_TEST_SAMPLES	(16 * 1024)

/* ---------------------------------------------------------------------
 * Segments in memory
 * --------------------------------------------------------------------- */

static void
lsm_test_append(LsmSegmentSink *sink, const void *data, Size len)
{
	LsmTestSink *test = (LsmTestSink *) sink;

	if (test->len + len > test->max)
	{
		test->max = Max((test->len + len) * 2, 65536);
		test->data = repalloc_huge(test->data, test->max);
	}
	memcpy(test->data + test->len, data, len);
	test->len += len;
}

LsmTestSink *
lsm_test_sink(void)
{
	LsmTestSink *test = palloc0(sizeof(LsmTestSink));

	test->sink.append = lsm_test_append;
	test->max = 1024;
	test->data = palloc(test->max);
	return test;
}

static void
lsm_test_read(LsmSegmentSource *source, uint64 offset, Size len, void *buf)
{
	LsmTestSource *test = (LsmTestSource *) source;

	if (offset > source->total_bytes || len > source->total_bytes - offset)
		elog(ERROR, "segment is read beyond its end");
	memcpy(buf, test->data + offset, len);
}

void
lsm_test_source(LsmTestSource *test, const char *data, Size len)
{
	memset(test, 0, sizeof(*test));
	test->source.read = lsm_test_read;
	test->source.total_bytes = len;
	test->source.uid = LSM_TEST_UID;
	test->source.relname = "test";
	test->data = data;
}

bool
lsm_test_same(Datum a, bool a_null, Datum b, bool b_null, bool byval, int typlen)
{
	if (a_null || b_null)
		return a_null == b_null;
	if (byval)
		return a == b;
	if (typlen == -1)
	{
		Size		len = VARSIZE_ANY(DatumGetPointer(a));

		return VARSIZE_ANY(DatumGetPointer(b)) == len &&
			memcmp(DatumGetPointer(a), DatumGetPointer(b), len) == 0;
	}
	if (typlen == -2)
		return strcmp(DatumGetCString(a), DatumGetCString(b)) == 0;
	return memcmp(DatumGetPointer(a), DatumGetPointer(b), typlen) == 0;
}

/* ---------------------------------------------------------------------
 * Segments of a table's rows
 * --------------------------------------------------------------------- */

LsmSegmentKind
lsm_test_kind(text *name, uint32 *samples)
{
	char	   *kind = text_to_cstring(name);
	char	   *trained = strstr(kind, " trained");

	*samples = 0;
	if (trained != NULL)
	{
		*samples = LSM_TEST_SAMPLES;
		*trained = '\0';
	}
	if (strcmp(kind, "insert") == 0)
		return LSM_SEGKIND_INSERT;
	if (strcmp(kind, "baseline") == 0 || strcmp(kind, "patched") == 0 ||
		strncmp(kind, "copied", 6) == 0)
		return LSM_SEGKIND_BASELINE;
	elog(ERROR, "kind \"%s\"", kind);
}

LsmTid
lsm_test_root(int64 n)
{
	return LSM_TID((n / 50) + (n / 5000) * 7 + 3, n % 50 + 1);
}

static void
lsm_test_row_head(LsmRowHead *head, LsmSegmentKind kind, int64 n, int natts)
{
	memset(head, 0, sizeof(*head));
	head->root = head->vtid = lsm_test_root(n);
	head->natts = natts;
	if (kind == LSM_SEGKIND_INSERT)
	{
		head->xid = head->xmin = UINT64CONST(0x200000000) + n / 100;
		head->cid = n % 3;
		head->info = LSM_REC_INSERT | (n % 2 ? LSM_REC_COMMITTED : 0);
	}
	else
	{
		head->xmin = n / 2000 % 2 == 0 ? 0 : UINT64CONST(0x100000000) + n / 1000 * n;
		head->info = LSM_REC_INSERT | LSM_REC_COMMITTED;
	}
}

/* Forward entries, dead roots and unresolved xids for n rows, in no order. */
static void
lsm_test_add_lists(LsmSegmentWriter *writer, int64 n)
{
	for (int64 i = 0; i < n; i += 7)
	{
		int64		j = (i * 7919) % n;

		lsm_segment_writer_add_forward(writer, LSM_TID(LSM_FIRST_VERSION_LB + j / 9, j % 9 + 1),
									   lsm_test_root(j));
		if (i % 3 == 0)
			lsm_segment_writer_add_dead(writer, lsm_test_root(j));
		if (i % 70 == 0)
			lsm_segment_writer_add_unresolved(writer, 100 + j % 50);
	}
}

void
lsm_test_write(Relation rel, LsmSegmentKind kind, int block_bytes, int level, uint32 samples,
			   LsmSegmentSink *sink, LsmSegmentStats *stats)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	LsmSegmentOptions options;
	LsmSegmentWriter *writer;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "row",
													  ALLOCSET_DEFAULT_SIZES);
	Datum	   *values = palloc(tupdesc->natts * sizeof(Datum));
	int64		n = 0;

	options.kind = kind;
	options.uid = LSM_TEST_UID;
	options.block_bytes = block_bytes;
	options.compression_level = level;
	options.dictionary_samples = samples;
	writer = lsm_segment_writer_create(tupdesc, &options, sink);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		LsmRowHead	head;
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		MemoryContextReset(row_context);
		old = MemoryContextSwitchTo(row_context);
		for (int i = 0; i < tupdesc->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(tupdesc, i);

			values[i] = slot->tts_values[i];
			if (!slot->tts_isnull[i] && att->attlen == -1 &&
				VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
				values[i] = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(values[i])));
		}
		MemoryContextSwitchTo(old);
		lsm_test_row_head(&head, kind, n, tupdesc->natts);
		lsm_segment_writer_add(writer, &head, values, slot->tts_isnull);
		n++;
	}
	lsm_test_add_lists(writer, n);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	lsm_segment_writer_finish(writer, stats);
}

/*
 * Write a segment with the rows of another one: two blocks of three are copied as
 * they are, if they can be; of the others the rows are added.  Returns how many
 * have been copied.
 */
static int
lsm_test_copy(LsmTestSink *from, TupleDesc tupdesc, int block_bytes, int level,
			  uint32 samples, LsmTestSink *to, LsmSegmentStats *stats)
{
	LsmTestSource source;
	LsmSegmentReader *reader;
	LsmSegmentWriter *writer;
	LsmSegmentOptions options = {LSM_SEGKIND_BASELINE, LSM_TEST_UID, block_bytes, level, samples};
	Datum	   *values = palloc(Max(tupdesc->natts, 1) * sizeof(Datum));
	bool	   *isnull = palloc(Max(tupdesc->natts, 1) * sizeof(bool));
	int			copied = 0;

	lsm_test_source(&source, from->data, from->len);
	reader = lsm_segment_reader_open(&source.source);
	options.uid++;
	writer = lsm_segment_writer_create(tupdesc, &options, &to->sink);
	for (uint32 blockno = 0; blockno < lsm_segment_reader_blocks(reader); blockno++)
	{
		LsmBlock   *block;

		if (blockno % 3 != 1 && lsm_segment_writer_copy_block(writer, reader, blockno))
		{
			copied++;
			continue;
		}
		block = lsm_block_read(reader, blockno);
		for (int row = 0; row < lsm_block_rows(block); row++)
		{
			LsmRowHead	head;

			lsm_block_head(block, row, &head);
			for (int i = 0; i < tupdesc->natts; i++)
				values[i] = lsm_block_value(block, row, i + 1, &isnull[i]);
			lsm_segment_writer_add(writer, &head, values, isnull);
		}
		lsm_block_free(block);
	}
	lsm_test_add_lists(writer, stats->rows);
	lsm_segment_reader_close(reader);
	lsm_segment_writer_finish(writer, stats);
	return copied;
}

/* ---- blocks with changes ---- */

/* The n-th row is one that changes. */
static inline bool
lsm_test_is_altered(int64 n)
{
	return n % 7 == 3;
}

/* Behind the n-th row is one that goes. */
static inline bool
lsm_test_has_extra(int64 n)
{
	return n % 2500 == 49;
}

/*
 * Write a segment with the rows of another one, but of each that is to change a column is as in the
 * row before, or null, the rest as in an older row; and with those that are to go.
 */
static void
lsm_test_alter(LsmSegmentReader *reader, LsmSegmentWriter *writer, int natts)
{
	Datum	   *values = palloc0(Max(natts, 1) * sizeof(Datum));
	bool	   *isnull = palloc0(Max(natts, 1) * sizeof(bool));
	int64		n = 0;

	for (uint32 blockno = 0; blockno < lsm_segment_reader_blocks(reader); blockno++)
	{
		LsmBlock   *block = lsm_block_read(reader, blockno);

		for (int row = 0; row < lsm_block_rows(block); row++, n++)
		{
			LsmRowHead	head;

			lsm_block_head(block, row, &head);
			for (int i = 0; i < natts; i++)
			{
				bool		other = lsm_test_is_altered(n) && n / 7 % natts == i;

				values[i] = lsm_block_value(block, row - (other && row > 0), i + 1, &isnull[i]);
				if (other && n % 4 == 0)
					isnull[i] = true;
			}
			if (lsm_test_is_altered(n))
			{
				head.xmin += n % 3;
				head.natts -= natts > 0 && isnull[natts - 1];
			}
			lsm_segment_writer_add(writer, &head, values, isnull);
			if (!lsm_test_has_extra(n))
				continue;
			head.root = head.vtid = head.root + 1;
			lsm_segment_writer_add(writer, &head, values, isnull);
		}
		lsm_block_free(block);
	}
}

/* Add the n-th row of a segment as it is. */
static void
lsm_test_add_row(LsmSegmentWriter *writer, LsmSegmentReader *reader, int natts, int64 n)
{
	LsmTid		root = lsm_test_root(n);
	LsmBlock   *block = lsm_block_read(reader, lsm_segment_find_block(reader, root));
	int			row = lsm_block_find(block, root);
	Datum	   *values = palloc(Max(natts, 1) * sizeof(Datum));
	bool	   *isnull = palloc(Max(natts, 1) * sizeof(bool));
	LsmRowHead	head;

	lsm_block_head(block, row, &head);
	for (int i = 0; i < natts; i++)
		values[i] = lsm_block_value(block, row, i + 1, &isnull[i]);
	lsm_segment_writer_add(writer, &head, values, isnull);
	lsm_block_free(block);
	pfree(values);
	pfree(isnull);
}

/*
 * Say of a block of the altered segment, which has been begun, how its rows are in the other one.
 * n: number of its first one; returns that of the first behind it.
 */
static int64
lsm_test_patch_block(LsmBlockPatch *patch, LsmSegmentReader *reader, int natts, int64 n)
{
	LsmBlock   *altered = lsm_block_patch_block(patch);
	Datum	   *values = palloc(Max(natts, 1) * sizeof(Datum));
	bool	   *isnull = palloc(Max(natts, 1) * sizeof(bool));
	bits8	   *cols = palloc0(natts / 8 + 1);

	for (int row = 0; row < lsm_block_rows(altered); row++)
	{
		LsmTid		root = lsm_block_root(altered, row);
		LsmBlock   *block;
		LsmRowHead	head;
		int			column;
		int			at;

		if (root != lsm_test_root(n))
		{
			lsm_block_patch_drop(patch, row);
			continue;
		}
		if (!lsm_test_is_altered(n++))
			continue;
		block = lsm_block_read(reader, lsm_segment_find_block(reader, root));
		at = lsm_block_find(block, root);
		lsm_block_head(block, at, &head);
		for (int i = 0; i < natts; i++)
			values[i] = lsm_block_value(block, at, i + 1, &isnull[i]);

		/* sometimes it is told which column it is, and others are not what they would be */
		column = (n - 1) / 7 % Max(natts, 1);
		memset(cols, 0, natts / 8 + 1);
		cols[column / 8] |= 1 << (column % 8);
		for (int i = 0; i < natts && n % 2 == 0; i++)
			isnull[i] |= i != column;
		lsm_block_patch_row(patch, row, &head, n % 2 == 0 ? cols : NULL, values, isnull);
		lsm_block_free(block);
	}
	return n;
}

/* Add what is to be in the place of a block row by row. */
static void
lsm_test_add_patch(LsmSegmentWriter *writer, LsmBlockPatch *patch, int natts)
{
	Datum	   *values = palloc(Max(natts, 1) * sizeof(Datum));
	bool	   *isnull = palloc(Max(natts, 1) * sizeof(bool));
	LsmRowHead	head;

	while (lsm_block_patch_next(patch, &head, values, isnull))
		lsm_segment_writer_add(writer, &head, values, isnull);
	pfree(values);
	pfree(isnull);
}

/*
 * Write a segment with the rows of another one by copying, with changes, the blocks of one that
 * has been altered.  Returns how many blocks could stay.
 */
static int
lsm_test_patch(LsmTestSink *from, TupleDesc tupdesc, int block_bytes, int level,
			   uint32 samples, LsmTestSink *to, LsmSegmentStats *stats)
{
	LsmTestSink *altered = lsm_test_sink();
	LsmTestSource source;
	LsmTestSource altered_source;
	LsmSegmentReader *reader;
	LsmSegmentReader *altered_reader;
	LsmSegmentWriter *writer;
	LsmSegmentOptions options = {LSM_SEGKIND_BASELINE, LSM_TEST_UID, block_bytes, level, samples};
	int64		n = 0;
	int			patched = 0;

	lsm_test_source(&source, from->data, from->len);
	reader = lsm_segment_reader_open(&source.source);
	writer = lsm_segment_writer_create(tupdesc, &options, &altered->sink);
	lsm_test_alter(reader, writer, tupdesc->natts);
	lsm_segment_writer_finish(writer, NULL);
	lsm_test_source(&altered_source, altered->data, altered->len);
	altered_reader = lsm_segment_reader_open(&altered_source.source);
	options.uid++;
	writer = lsm_segment_writer_create(tupdesc, &options, &to->sink);
	for (uint32 blockno = 0; blockno < lsm_segment_reader_blocks(altered_reader); blockno++)
	{
		LsmBlockPatch *patch = lsm_segment_writer_begin_patch(writer, altered_reader, blockno);
		LsmBlock   *block;

		if (patch != NULL)
		{
			n = lsm_test_patch_block(patch, reader, tupdesc->natts, n);
			if (lsm_segment_writer_put_patch(writer, patch))
				patched++;
			else
				lsm_test_add_patch(writer, patch, tupdesc->natts);
			lsm_block_patch_free(patch);
			continue;
		}
		block = lsm_block_read(altered_reader, blockno);
		for (int row = 0; row < lsm_block_rows(block); row++)
			if (lsm_block_root(block, row) == lsm_test_root(n))
				lsm_test_add_row(writer, reader, tupdesc->natts, n++);
		lsm_block_free(block);
	}
	lsm_test_add_lists(writer, stats->rows);
	lsm_segment_reader_close(reader);
	lsm_segment_reader_close(altered_reader);
	lsm_segment_writer_finish(writer, stats);
	return patched;
}

/* Is a value inside its zone? */
static bool
lsm_test_in_zone(Form_pg_attribute att, const LsmZone *zone, Datum value)
{
	TypeCacheEntry *type = lookup_type_cache(att->atttypid, TYPECACHE_CMP_PROC_FINFO);

	if (OidIsValid(att->attcollation) || att->atttypid == BYTEAOID)
	{
		struct varlena *v = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(value));
		char	   *bytes = VARDATA_ANY(v);
		Size		len = VARSIZE_ANY_EXHDR(v);
		char	   *min = VARDATA_ANY(DatumGetPointer(zone->min));
		char	   *max = VARDATA_ANY(DatumGetPointer(zone->max));
		Size		min_len = VARSIZE_ANY_EXHDR(DatumGetPointer(zone->min));
		Size		max_len = VARSIZE_ANY_EXHDR(DatumGetPointer(zone->max));
		int			cmp;

		if (att->atttypid == BPCHAROID)
			while (len > 0 && bytes[len - 1] == ' ')
				len--;
		cmp = memcmp(bytes, min, Min(len, min_len));
		if (cmp < 0 || (cmp == 0 && len < min_len))
			return false;
		cmp = memcmp(bytes, max, Min(len, max_len));
		return cmp < 0 || (cmp == 0 && len <= max_len);
	}
	return DatumGetInt32(FunctionCall2(&type->cmp_proc_finfo, value, zone->min)) >= 0 &&
		DatumGetInt32(FunctionCall2(&type->cmp_proc_finfo, value, zone->max)) <= 0;
}

/*
 * Find roots of a block, in order and out of order, so often that they are decoded
 * on the way.
 */
static void
lsm_test_check_roots(LsmBlock *block, int64 n)
{
	int			rows = lsm_block_rows(block);
	uint64		state = 2 * n + 1;

	for (int i = 0; i < 3 * rows + 40; i++)
	{
		int			row = i < rows ? i : (int) (lsm_test_random(&state) % (uint64) rows);
		LsmTid		root = lsm_test_root(n + row);

		if (lsm_block_root(block, row) != root || lsm_block_find(block, root) != row ||
			lsm_block_find(block, root + 1) != row + 1)
			elog(ERROR, "row " INT64_FORMAT " is not found", n + row);
	}
	if (lsm_block_find(block, 0) != 0 || lsm_block_find(block, LSM_MAX_TID) != rows ||
		lsm_block_find(block, lsm_test_root(n + rows - 1) + UINT64CONST(0x100000000)) != rows)
		elog(ERROR, "ends of a block are not found");
}

/* Look for the blocks of TIDs that come in no order. */
static void
lsm_test_check_index(LsmSegmentReader *reader, int64 rows)
{
	uint64		state = 2 * rows + 1;

	for (int i = 0; i < 1000; i++)
	{
		LsmTid		tid = lsm_test_root(lsm_test_random(&state) % (rows + 100)) + i % 3 - 1;
		uint32		expected = 0;

		for (; expected < lsm_segment_reader_blocks(reader); expected++)
		{
			LsmTid		last;

			lsm_segment_block_info(reader, expected, NULL, &last, NULL, NULL, NULL);
			if (last >= tid)
				break;
		}
		if (lsm_segment_find_block(reader, tid) != expected)
			elog(ERROR, "the block of TID " UINT64_FORMAT " is not found", tid);
	}
}

/* Compare one block with the rows that went into it. */
static void
lsm_test_check_block(LsmBlock *block, TupleDesc tupdesc, LsmSegmentKind kind, int64 n,
					 const Datum *values, const bool *nulls)
{
	int			rows = lsm_block_rows(block);
	int			natts = tupdesc->natts;

	lsm_test_check_roots(block, n);
	for (int row = 0; row < rows; row++)
	{
		LsmRowHead	head;
		LsmRowHead	expected;

		lsm_test_row_head(&expected, kind, n + row, natts);
		lsm_block_head(block, row, &head);
		if (head.root != expected.root || head.vtid != expected.vtid ||
			head.xid != expected.xid || head.xmin != expected.xmin || head.cid != expected.cid ||
			head.info != expected.info || head.natts != expected.natts ||
			head.base != expected.base || head.cols_len != 0)
			elog(ERROR, "head of row " INT64_FORMAT " differs", n + row);
	}
	if (lsm_block_all_frozen(block) != (kind == LSM_SEGKIND_BASELINE))
		elog(ERROR, "block is frozen or not");
	if (!lsm_block_complete(block))
		elog(ERROR, "block has numbers of columns though all rows have all columns");

	/* Column 1 by number only, the others by number and then decoded. */
	for (int round = 0; round < 3; round++)
	{
		for (int att = 0; att < natts; att++)
		{
			Form_pg_attribute form = TupleDescAttr(tupdesc, att);
			Datum	   *column = NULL;
			bool	   *column_nulls = NULL;

			if (round == 1 && att > 0)
				lsm_block_column(block, att + 1, &column, &column_nulls);
			for (int row = 0; row < rows; row++)
			{
				bool		isnull;
				Datum		value;

				if (column)
				{
					value = column[row];
					isnull = column_nulls[row];
				}
				else
					value = lsm_block_value(block, row, att + 1, &isnull);
				if (!lsm_test_same(values[row * natts + att], nulls[row * natts + att],
								   value, isnull, form->attbyval, form->attlen))
					elog(ERROR, "column %d of row " INT64_FORMAT " differs", att + 1, n + row);
			}
		}
	}

	/* some columns at once */
	for (int row = 0; row < rows; row++)
	{
		Datum	   *row_values = palloc(Max(natts, 1) * sizeof(Datum));
		bool	   *row_nulls = palloc(Max(natts, 1) * sizeof(bool));
		char	   *room = palloc(Max(natts, 1) * LSM_BLOCK_VALUE_BYTES);
		int			from = row % Max(natts, 1);

		lsm_block_values_in(block, row, from, natts, row_values, row_nulls, room);
		for (int att = from; att < natts; att++)
		{
			Form_pg_attribute form = TupleDescAttr(tupdesc, att);

			if (!lsm_test_same(values[row * natts + att], nulls[row * natts + att],
							   row_values[att], row_nulls[att], form->attbyval, form->attlen))
				elog(ERROR, "column %d of row " INT64_FORMAT " differs", att + 1, n + row);
		}
		pfree(row_values);
		pfree(row_nulls);
		pfree(room);
	}
}

/* The same of the block in which nothing is compressed. */
static void
lsm_test_check_expanded(LsmSegmentReader *reader, uint32 blockno, TupleDesc tupdesc,
						LsmSegmentKind kind, int64 n, const Datum *values, const bool *nulls)
{
	LsmBlock   *block = lsm_block_read(reader, blockno);
	LsmBlock   *expanded;
	StringInfoData out;
	char	   *bytes;

	initStringInfo(&out);
	lsm_block_expand(block, &out);
	expanded = lsm_block_new_expanded(reader, blockno, out.len, &bytes);
	memcpy(bytes, out.data, out.len);
	lsm_block_begin(reader, expanded, true);
	lsm_test_check_block(expanded, tupdesc, kind, n, values, nulls);
	if (lsm_block_has_decompressed(expanded))
		elog(ERROR, "expanded block %u is compressed", blockno);
	lsm_block_free(block);
	lsm_block_free(expanded);
	pfree(out.data);
}

/*
 * Check the zones of a block against its rows; returns how many columns have
 * bounds.
 */
static int
lsm_test_check_zones(LsmSegmentReader *reader, uint32 blockno, TupleDesc tupdesc, int rows,
					 const Datum *values, const bool *nulls)
{
	int			natts = tupdesc->natts;
	int			bounded = 0;
	LsmBounds  *bounds = lsm_segment_bounds(reader);

	for (int att = 0; att < natts; att++)
	{
		LsmZone		zone;

		for (int row = 0; row < rows; row++)
		{
			int			i = row * natts + att;

			if (bounds != NULL && lsm_bounds_get(bounds, att + 1, &zone) &&
				(nulls[i] ? !zone.has_null :
				 !zone.has_value || !lsm_test_in_zone(TupleDescAttr(tupdesc, att), &zone, values[i])))
				elog(ERROR, "column %d of block %u is not in its bounds", att + 1, blockno);
		}
		if (!lsm_segment_zone(reader, blockno, att + 1, &zone))
			continue;
		if (zone.has_value)
			bounded++;
		for (int row = 0; row < rows; row++)
		{
			int			i = row * natts + att;

			if (nulls[i] ? !zone.has_null : !zone.has_value)
				elog(ERROR, "zone of column %d knows nothing of a row", att + 1);
			if (!nulls[i] && !lsm_test_in_zone(TupleDescAttr(tupdesc, att), &zone, values[i]))
				elog(ERROR, "column %d of block %u is not in its zone", att + 1, blockno);
		}
	}
	return bounded;
}

/* What the last bytes of a segment tell of its columns must be what it tells itself. */
static void
lsm_test_check_tail(LsmSegmentReader *reader, LsmSegmentKind kind, const char *data, Size len)
{
	LsmBounds  *bounds = lsm_segment_bounds(reader);
	Size		pages = Min(len, LSM_READER_TAIL);

	for (Size tail = len; tail > 0; tail = tail > pages ? pages : tail > 1 ? 1 : 0)
	{
		LsmBounds  *found = lsm_segment_tail_bounds(reader->source->uid, len,
													data + (len - tail), tail);

		if ((found != NULL) != (tail > 1))
			elog(ERROR, "the last %zu bytes are taken for a footer, or are not", tail);
		if (found == NULL)
			continue;
		if (tail == len && lsm_bounds_are_known(found) !=
			(bounds != NULL && lsm_bounds_are_known(bounds) && kind != LSM_SEGKIND_INCREMENT))
			elog(ERROR, "bounds are known, or are not");
		if (lsm_bounds_are_known(found) &&
			(lsm_bounds_bytes(found) != lsm_bounds_bytes(bounds) ||
			 memcmp(found, bounds, lsm_bounds_bytes(found)) != 0))
			elog(ERROR, "bounds differ");
		pfree(found);
	}
	if (!lsm_segment_bounds_agree(reader))
		elog(ERROR, "bounds are not those of the zones");
	if (lsm_segment_tail_bounds(reader->source->uid + 1, len, data, len) != NULL)
		elog(ERROR, "bounds of another segment are taken");
}

static void
lsm_test_check_lists(LsmSegmentReader *reader, int64 rows)
{
	LsmForward *forwards;
	LsmTid	   *dead;
	uint64		n;
	uint64		expected = 0;
	uint64		expected_dead = 0;
	bool	   *seen = palloc0(rows + 1);
	bool	   *seen_dead = palloc0(rows + 1);

	for (int64 i = 0; i < rows; i += 7)
	{
		int64		j = (i * 7919) % rows;

		expected += !seen[j];
		seen[j] = true;
		if (i % 3 == 0)
		{
			expected_dead += !seen_dead[j];
			seen_dead[j] = true;
		}
	}
	for (int64 j = 0; j < rows; j++)
	{
		LsmTid		root = lsm_segment_forward(reader,
											   LSM_TID(LSM_FIRST_VERSION_LB + j / 9, j % 9 + 1));

		if (root != (seen[j] ? lsm_test_root(j) : LSM_INVALID_TID))
			elog(ERROR, "forward entry " INT64_FORMAT " differs", j);
	}
	if (lsm_segment_forward(reader, 1) != LSM_INVALID_TID ||
		lsm_segment_forward(reader, LSM_MAX_TID) != LSM_INVALID_TID)
		elog(ERROR, "forward entries beyond the ends");
	forwards = lsm_segment_read_forwards(reader, &n);
	if (n != expected)
		elog(ERROR, "number of forward entries differs");
	for (uint64 i = 1; i < n; i++)
	{
		if (forwards[i].vtid <= forwards[i - 1].vtid)
			elog(ERROR, "forward entries are not sorted");
	}
	dead = lsm_segment_read_dead(reader, &n);
	if (n != expected_dead)
		elog(ERROR, "number of dead roots differs");
	n = 0;
	for (int64 j = 0; j < rows; j++)
	{
		if (seen_dead[j] && dead[n++] != lsm_test_root(j))
			elog(ERROR, "dead root " INT64_FORMAT " differs", j);
	}
}

/*
 * Write a table's rows to a segment and compare all that can be read from it.
 * Tells rows, blocks, and columns of blocks that have bounds.  Kind "copied": of a
 * segment that was written from another one, and how many blocks were copied; "patched": that was
 * written from one with other rows, by copying blocks with what changes in them.
 */
Datum
lsm_test_segment(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	uint32		samples;
	LsmSegmentKind kind = lsm_test_kind(PG_GETARG_TEXT_PP(1), &samples);
	int			block_bytes = PG_GETARG_INT32(2);
	int			level = PG_GETARG_INT32(3);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	int			natts = tupdesc->natts;
	LsmTestSink *sink = lsm_test_sink();
	LsmTestSource source;
	LsmSegmentStats stats;
	LsmSegmentReader *reader;
	TupleTableSlot *slot;
	TableScanDesc scan;
	Datum	   *values = palloc(LSM_BLOCK_MAX_ROWS * natts * sizeof(Datum));
	bool	   *nulls = palloc(LSM_BLOCK_MAX_ROWS * natts * sizeof(bool));
	MemoryContext block_context = AllocSetContextCreate(CurrentMemoryContext, "block",
														ALLOCSET_DEFAULT_SIZES);
	int64		n = 0;
	int			bounded = 0;
	int			copied = -1;
	uint64		offset = 0;

	lsm_test_write(rel, kind, block_bytes, level, samples, &sink->sink, &stats);
	if (strncmp(name, "copied", 6) == 0 || strncmp(name, "patched", 7) == 0)
	{
		LsmTestSink *other = lsm_test_sink();

		if (strcmp(name, "copied trained to none") == 0)
			samples = 0;
		if (strncmp(name, "patched", 7) == 0)
			copied = lsm_test_patch(sink, tupdesc, block_bytes, level, samples, other, &stats);
		else
			copied = lsm_test_copy(sink, tupdesc, block_bytes, level, samples, other, &stats);
		sink = other;
	}
	lsm_test_source(&source, sink->data, sink->len);
	if (copied >= 0)
		source.source.uid++;
	if (stats.stored_bytes != sink->len)
		elog(ERROR, "stored bytes differ");
	reader = lsm_segment_reader_open(&source.source);
	if (lsm_segment_reader_kind(reader) != kind ||
		lsm_segment_reader_blocks(reader) != stats.blocks)
		elog(ERROR, "properties differ");
	if ((reader->dictionaries == NULL ? 0 : lsm_dictionaries_count(reader->dictionaries)) !=
		stats.dictionaries ||
		(lsm_segment_dictionaries_memory(reader) > 0) != (stats.dictionaries > 0))
		elog(ERROR, "dictionaries differ");

	lsm_test_check_tail(reader, kind, sink->data, sink->len);
	slot = table_slot_create(rel, NULL);
	scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	for (uint32 blockno = 0; blockno < stats.blocks; blockno++)
	{
		LsmBlock   *block = lsm_block_read(reader, blockno);
		int			rows = lsm_block_rows(block);
		LsmTid		first;
		LsmTid		last;
		uint32		index_rows;
		uint64		index_offset;
		uint32		stored_bytes;
		MemoryContext old = MemoryContextSwitchTo(block_context);

		for (int row = 0; row < rows; row++)
		{
			if (!table_scan_getnextslot(scan, ForwardScanDirection, slot))
				elog(ERROR, "segment has too many rows");
			slot_getallattrs(slot);
			for (int i = 0; i < natts; i++)
			{
				Form_pg_attribute att = TupleDescAttr(tupdesc, i);
				Datum		value = slot->tts_values[i];

				nulls[row * natts + i] = slot->tts_isnull[i];
				if (slot->tts_isnull[i])
					continue;
				if (att->attlen == -1 && VARATT_IS_EXTERNAL(DatumGetPointer(value)))
					value = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(value)));
				values[row * natts + i] = datumCopy(value, att->attbyval, att->attlen);
			}
		}
		lsm_test_check_block(block, tupdesc, kind, n, values, nulls);
		lsm_test_check_expanded(reader, blockno, tupdesc, kind, n, values, nulls);
		bounded += lsm_test_check_zones(reader, blockno, tupdesc, rows, values, nulls);

		lsm_segment_block_info(reader, blockno, &first, &last, &index_rows, &index_offset,
							   &stored_bytes);
		if (first != lsm_test_root(n) || last != lsm_test_root(n + rows - 1) ||
			index_rows != (uint32) rows || index_offset != offset)
			elog(ERROR, "index entry of block %u differs", blockno);
		offset += stored_bytes;
		if (lsm_segment_find_block(reader, first) != blockno ||
			lsm_segment_find_block(reader, last) != blockno ||
			lsm_segment_find_block(reader, last + 1) != blockno + 1)
			elog(ERROR, "block %u is not found", blockno);
		if (!lsm_segment_may_contain(reader, first) || !lsm_segment_may_contain(reader, last))
			elog(ERROR, "block %u is denied", blockno);
		n += rows;
		if (lsm_block_memory(block) < stored_bytes)
			elog(ERROR, "block %u does not count its memory", blockno);
		lsm_block_free(block);
		MemoryContextSwitchTo(old);
		MemoryContextReset(block_context);
	}
	lsm_test_check_index(reader, n);
	if (table_scan_getnextslot(scan, ForwardScanDirection, slot))
		elog(ERROR, "segment has too few rows");
	if (stats.rows != (uint64) n || stats.versions != (uint64) n)
		elog(ERROR, "statistics differ");
	lsm_test_check_lists(reader, n);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (lsm_segment_column_type(reader, i + 1) != (att->attisdropped ? InvalidOid : att->atttypid))
			elog(ERROR, "type of column %d differs", i + 1);
	}
	lsm_segment_reader_close(reader);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, AccessShareLock);

	if (strstr(name, " trained") != NULL)
		PG_RETURN_TEXT_P(cstring_to_text(psprintf(INT64_FORMAT " rows, %s, %s",
												  n, copied < 0 ? "written" :
												  copied > 0 ? "some copied" : "none copied",
												  stats.dictionaries > 0 ? "dictionaries" :
												  "no dictionaries")));
	if (copied >= 0)
		PG_RETURN_TEXT_P(cstring_to_text(psprintf(INT64_FORMAT " rows, %u blocks, %d copied, %s",
												  n, stats.blocks, copied,
												  bounded > 0 ? "bounds" : "no bounds")));

	/* How many blocks share a zone depends on how well zstd compresses. */
	if (level > 0)
		PG_RETURN_TEXT_P(cstring_to_text(psprintf(INT64_FORMAT " rows, %u blocks, %s",
												  n, stats.blocks,
												  bounded > 0 ? "bounds" : "no bounds")));
	PG_RETURN_TEXT_P(cstring_to_text(psprintf(INT64_FORMAT " rows, %u blocks, bounds of %d columns",
											  n, stats.blocks, bounded)));
}

/*
 * The bytes of a segment of a table's rows, compressed only with dictionaries; or of an
 * increment.
 */
Datum
lsm_test_bytes(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	LsmTestSink *sink = lsm_test_sink();
	LsmSegmentStats stats;
	uint32		samples;

	if (strcmp(text_to_cstring(PG_GETARG_TEXT_PP(1)), "increment") == 0)
		lsm_test_write_increment(10, 3, 42, 8192, 0, &sink->sink, &stats);
	else
	{
		LsmSegmentKind kind = lsm_test_kind(PG_GETARG_TEXT_PP(1), &samples);

		lsm_test_write(rel, kind, samples > 0 ? 1024 : 32768, samples > 0 ? 19 : 0, samples,
					   &sink->sink, &stats);
	}
	table_close(rel, AccessShareLock);
	PG_RETURN_BYTEA_P((bytea *) cstring_to_text_with_len(sink->data, (int) sink->len));
}

/* What a segment given as bytes holds, as text. */
Datum
lsm_test_rows(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	LsmTestSource source;
	LsmSegmentReader *reader;
	StringInfoData result;

	initStringInfo(&result);
	lsm_test_source(&source, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	reader = lsm_segment_reader_open(&source.source);
	for (uint32 blockno = 0; blockno < lsm_segment_reader_blocks(reader); blockno++)
	{
		LsmBlock   *block = lsm_block_read(reader, blockno);

		for (int row = 0; row < lsm_block_rows(block); row++)
		{
			LsmRowHead	head;

			lsm_block_head(block, row, &head);
			appendStringInfo(&result, "%s(%u,%u) xid " UINT64_FORMAT " cid %u info %04X",
							 result.len > 0 ? "\n" : "", LSM_TID_LB(head.root),
							 LSM_TID_OFFSET(head.root), head.xid, head.cid, head.info);
			if (head.xid == 0 && head.xmin != 0)
				appendStringInfo(&result, " xmin " UINT64_FORMAT, head.xmin);
			appendStringInfoChar(&result, ':');
			for (int att = 1; att <= lsm_block_natts(block); att++)
			{
				bool		isnull;
				Datum		value = lsm_block_value(block, row, att, &isnull);
				Oid			output;
				bool		varlena;

				getTypeOutputInfo(lsm_segment_column_type(reader, att), &output, &varlena);
				appendStringInfo(&result, " %s",
								 isnull ? "null" : OidOutputFunctionCall(output, value));
			}
		}
		lsm_block_free(block);
	}
	lsm_segment_reader_close(reader);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(result.data, result.len));
}

/* ---------------------------------------------------------------------
 * Sizes and speed
 * --------------------------------------------------------------------- */

static double
lsm_test_since(instr_time *start)
{
	instr_time	now;
	double		result;

	INSTR_TIME_SET_CURRENT(now);
	result = INSTR_TIME_GET_DOUBLE(now);
	result -= INSTR_TIME_GET_DOUBLE(*start);
	INSTR_TIME_SET_CURRENT(*start);
	return result;
}

Datum
lsm_test_measure(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	int			block_bytes = PG_GETARG_INT32(1);
	int			level = PG_GETARG_INT32(2);
	int			natts = RelationGetDescr(rel)->natts;
	LsmTestSink *sink = lsm_test_sink();
	LsmTestSource source;
	LsmSegmentStats stats;
	LsmSegmentReader *reader;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	StringInfoData result;
	instr_time	start;
	double		scan_time;
	double		write_time;
	double		open_time;
	double		column_time;
	double		point_time;
	uint64	   *sizes = palloc0((natts + LSM_SYS_CHUNKS) * sizeof(uint64));
	uint64		zones_bytes;
	uint64		state = 77;
	int			points = 20000;
	uint64		sum = 0;

	INSTR_TIME_SET_CURRENT(start);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
		slot_getallattrs(slot);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	scan_time = lsm_test_since(&start);
	lsm_test_write(rel, LSM_SEGKIND_BASELINE, block_bytes, level, 0, &sink->sink, &stats);
	write_time = lsm_test_since(&start);
	lsm_test_source(&source, sink->data, sink->len);
	reader = lsm_segment_reader_open(&source.source);
	open_time = lsm_test_since(&start);
	for (uint32 blockno = 0; blockno < stats.blocks; blockno++)
	{
		LsmBlock   *block = lsm_block_read(reader, blockno);

		for (int att = 1; att <= natts; att++)
		{
			Datum	   *values;
			bool	   *nulls;

			lsm_block_column(block, att, &values, &nulls);
			sum += nulls[0] ? 1 : 0;
		}
		lsm_block_free(block);
	}
	column_time = lsm_test_since(&start);
	for (int i = 0; i < points; i++)
	{
		uint32		blockno = lsm_test_random(&state) % stats.blocks;
		LsmBlock   *block = lsm_block_read(reader, blockno);
		int			row = lsm_test_random(&state) % lsm_block_rows(block);
		LsmRowHead	head;

		lsm_block_head(block, row, &head);
		for (int att = 1; att <= natts; att++)
		{
			bool		isnull;

			lsm_block_value(block, row, att, &isnull);
			sum += isnull;
		}
		lsm_block_free(block);
	}
	point_time = lsm_test_since(&start);
	zones_bytes = reader->sections[LSM_SECTION_ZONES].length;

	initStringInfo(&result);
	appendStringInfo(&result, UINT64_FORMAT " rows, " UINT64_FORMAT " raw bytes, " UINT64_FORMAT " stored, %u blocks, index and zones %.2f %% (zone of %u blocks)\n",
					 stats.rows, stats.raw_bytes, stats.stored_bytes, stats.blocks,
					 100.0 * (zones_bytes + stats.blocks * sizeof(LsmBlockEntry)) / stats.stored_bytes,
					 reader->props.zone_blocks);
	appendStringInfo(&result, "heap scan %.3f s; scan and write %.3f s (%.0f rows/s without the scan); open %.6f s; decode all columns %.3f s (%.0f rows/s); read a block and one whole row of it %.2f us",
					 scan_time, write_time, stats.rows / Max(write_time - scan_time, 0.001), open_time,
					 column_time, stats.rows / column_time, point_time / points * 1e6);
	elog(DEBUG1, UINT64_FORMAT " nulls", sum);

	/* Bytes by column. */
	for (uint32 blockno = 0; blockno < stats.blocks; blockno++)
	{
		const char *data = sink->data + reader->offsets[blockno];
		LsmBlockHeader header;
		uint32		last_end = reader->index[blockno].length;
		int			system = 0;
		int			chunks;

		memcpy(&header, data, sizeof(header));
		for (int i = 0; i < LSM_SYS_CHUNKS; i++)
			system += (header.system >> i) & 1;
		chunks = system + header.natts;
		for (int i = chunks - 1; i >= 0; i--)
		{
			uint32		offset;

			if (header.flags & LSM_BLOCK_WIDE)
				memcpy(&offset, data + sizeof(header) + i * 8 + 4, sizeof(offset));
			else
			{
				uint16		narrow;

				memcpy(&narrow, data + sizeof(header) + i * 4 + 2, sizeof(narrow));
				offset = narrow;
			}
			if (i >= system)
				sizes[i - system] += last_end - offset;
			else
				sizes[natts + i] += last_end - offset;
			last_end = offset;
		}
		sizes[natts + LSM_SYS_CHUNKS - 1] += last_end;
	}
	for (int i = 0; i < natts; i++)
		appendStringInfo(&result, "\n  %s " UINT64_FORMAT,
						 NameStr(TupleDescAttr(RelationGetDescr(rel), i)->attname), sizes[i]);
	appendStringInfo(&result, "\n  (system) " UINT64_FORMAT " " UINT64_FORMAT "\n  (headers) " UINT64_FORMAT,
					 sizes[natts], sizes[natts + 1], sizes[natts + LSM_SYS_CHUNKS - 1]);
	table_close(rel, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text(result.data));
}
