/*-------------------------------------------------------------------------
 *
 * lsm_test_increment.c
 *	  Tests of increments, called from sql/segment.sql.
 *
 * Records are made up from their numbers.  The function here is not part of the
 * extension's SQL: the test declares it itself.
 *
 *	  lsm_test_increment(...)			records of all kinds, lists, filter
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lsm_test_segment.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(lsm_test_increment);

/* A record of an increment, made from its number alone. */
static void
lsm_test_record(uint64 root_number, int version, int versions, int natts, uint64 seed,
				LsmRowHead *head, bits8 *cols, Datum *values, bool *isnull)
{
	uint64		state = seed ^ (root_number * 1000003 + version) * UINT64CONST(0x9E3779B97F4A7C15);
	static const uint16 kinds[] = {
		LSM_REC_UPDATE, LSM_REC_UPDATE | LSM_REC_DELTA, LSM_REC_UPDATE | LSM_REC_DELTA,
		LSM_REC_DELETE, LSM_REC_MOVED, LSM_REC_LOCK
	};

	state |= 1;
	lsm_test_random(&state);
	memset(head, 0, sizeof(*head));
	head->root = LSM_TID(root_number * 3 + 5, root_number % 200 + 1);
	head->vtid = LSM_TID(LSM_FIRST_VERSION_LB + (uint32) root_number, versions - version);
	head->xid = lsm_test_random(&state) % 4 == 0 ? 0 : 1000 + lsm_test_random(&state) % 500;
	head->xmin = head->xid != 0 ? head->xid : root_number % 2 * (700 + version);
	head->cid = lsm_test_random(&state) % 3;
	head->info = kinds[lsm_test_random(&state) % lengthof(kinds)];
	if (lsm_test_random(&state) % 2)
		head->info |= LSM_REC_COMMITTED;
	head->info |= (lsm_test_random(&state) % 4) << LSM_REC_STRENGTH_SHIFT;
	head->natts = lsm_test_random(&state) % 10 == 0 ? natts / 2 : natts;
	if (LSM_REC_KIND(head->info) == LSM_REC_MOVED)
		head->base = LSM_TID(root_number + 1000000, 1);
	if (head->info & LSM_REC_DELTA)
	{
		head->base = LSM_TID(LSM_FIRST_VERSION_LB + (uint32) root_number, versions - version - 1);
		head->cols_len = (head->natts + 7) / 8;
		head->cols = cols;
		memset(cols, 0, head->cols_len);
	}
	for (int i = 0; i < head->natts; i++)
	{
		if (head->info & LSM_REC_DELTA)
		{
			if (lsm_test_random(&state) % 3 != 0)
				continue;
			cols[i >> 3] |= 1 << (i & 7);
		}
		isnull[i] = lsm_test_random(&state) % 5 == 0;
		if (i % 2 == 0)
			values[i] = Int32GetDatum((int32) lsm_test_random(&state));
		else
			values[i] = PointerGetDatum(cstring_to_text(psprintf("value %u",
																 (unsigned) (lsm_test_random(&state) % 1000))));
	}
}

static TupleDesc
lsm_test_increment_desc(int natts)
{
	TupleDesc	tupdesc = CreateTemplateTupleDesc(natts);

	for (int i = 0; i < natts; i++)
		TupleDescInitEntry(tupdesc, i + 1, psprintf("c%d", i + 1),
						   i % 2 == 0 ? INT4OID : TEXTOID, -1, 0);
	return tupdesc;
}

static int
lsm_test_versions(uint64 root_number)
{
	/* One row is hot: its records fill several blocks. */
	return root_number == 11 ? 600 : 1 + root_number % 4;
}

void
lsm_test_write_increment(int roots, int natts, uint64 seed, int block_bytes, int level,
						 LsmSegmentSink *sink, LsmSegmentStats *stats)
{
	LsmSegmentOptions options;
	LsmSegmentWriter *writer;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "record",
												  ALLOCSET_DEFAULT_SIZES);
	Datum	   *values = palloc0(natts * sizeof(Datum));
	bool	   *isnull = palloc0(natts * sizeof(bool));
	bits8		cols[MaxHeapAttributeNumber / 8 + 1];

	options.kind = LSM_SEGKIND_INCREMENT;
	options.uid = LSM_TEST_UID;
	options.block_bytes = block_bytes;
	options.compression_level = level;
	options.dictionary_samples = 0;
	writer = lsm_segment_writer_create(lsm_test_increment_desc(natts), &options, sink);
	for (int root = 0; root < roots; root++)
	{
		int			versions = lsm_test_versions(root);

		for (int version = 0; version < versions; version++)
		{
			LsmRowHead	head;
			MemoryContext old = MemoryContextSwitchTo(context);
			bool		without;

			lsm_test_record(root, version, versions, natts, seed, &head, cols, values, isnull);
			without = LSM_REC_KIND(head.info) != LSM_REC_UPDATE;
			lsm_segment_writer_add(writer, &head, without ? NULL : values,
								   without ? NULL : isnull);
			if (version < versions - 1)
				lsm_segment_writer_add_forward(writer, head.vtid, head.root);
			MemoryContextSwitchTo(old);
			MemoryContextReset(context);
		}
	}
	lsm_segment_writer_finish(writer, stats);
}

/* Write an increment of made-up records, read it and compare. */
Datum
lsm_test_increment(PG_FUNCTION_ARGS)
{
	int			roots = PG_GETARG_INT32(0);
	int			natts = PG_GETARG_INT32(1);
	uint64		seed = PG_GETARG_INT32(2);
	int			block_bytes = PG_GETARG_INT32(3);
	int			level = PG_GETARG_INT32(4);
	LsmTestSink *sink = lsm_test_sink();
	LsmTestSource source;
	LsmSegmentStats stats;
	LsmSegmentReader *reader;
	LsmBlock   *block = NULL;
	uint32		blockno = 0;
	int			row = 0;
	int64		versions_n = 0;
	int			false_positives = 0;
	Datum	   *values = palloc0(natts * sizeof(Datum));
	bool	   *isnull = palloc0(natts * sizeof(bool));
	bits8		cols[MaxHeapAttributeNumber / 8 + 1];
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "record",
												  ALLOCSET_DEFAULT_SIZES);

	lsm_test_write_increment(roots, natts, seed, block_bytes, level, &sink->sink, &stats);
	lsm_test_source(&source, sink->data, sink->len);
	reader = lsm_segment_reader_open(&source.source);
	for (int root = 0; root < roots; root++)
	{
		int			versions = lsm_test_versions(root);

		for (int version = 0; version < versions; version++)
		{
			LsmRowHead	head;
			LsmRowHead	got;
			MemoryContext old = MemoryContextSwitchTo(context);

			lsm_test_record(root, version, versions, natts, seed, &head, cols, values, isnull);
			MemoryContextSwitchTo(old);
			if (block == NULL || row == lsm_block_rows(block))
			{
				if (block != NULL)
					lsm_block_free(block);
				block = lsm_block_read(reader, blockno++);
				row = 0;
			}
			lsm_block_head(block, row, &got);
			if (got.root != head.root || got.xid != head.xid || got.xmin != head.xmin || got.cid != head.cid ||
				got.info != head.info || got.natts != head.natts || got.vtid != head.vtid ||
				got.base != head.base || got.cols_len != head.cols_len ||
				(head.cols_len > 0 && memcmp(got.cols, head.cols, head.cols_len) != 0))
				elog(ERROR, "record %d of root %d differs", version, root);
			for (int i = 0; i < natts; i++)
			{
				bool		null;
				Datum		value = lsm_block_value(block, row, i + 1, &null);
				bool		there = i < head.natts && LSM_REC_KIND(head.info) == LSM_REC_UPDATE &&
				(!(head.info & LSM_REC_DELTA) || (cols[i >> 3] & (1 << (i & 7))));

				if (!lsm_test_same(values[i], there ? isnull[i] : true, value, null,
								   i % 2 == 0, i % 2 == 0 ? 4 : -1))
					elog(ERROR, "column %d of record %d of root %d differs", i + 1, version, root);
			}
			if (version == 0)
			{
				uint32		found = lsm_segment_find_block(reader, head.root);

				if (found != blockno - 1 || lsm_block_find(block, head.root) != row)
					elog(ERROR, "root %d is not found", root);
				if (!lsm_segment_may_contain(reader, head.root))
					elog(ERROR, "root %d is denied", root);
			}
			if (lsm_segment_forward(reader, head.vtid) !=
				(version < versions - 1 ? head.root : LSM_INVALID_TID))
				elog(ERROR, "forward entry of root %d differs", root);
			row++;
			versions_n++;
			MemoryContextReset(context);
		}
	}
	if (block == NULL || row != lsm_block_rows(block) || blockno != stats.blocks ||
		stats.versions != (uint64) versions_n || stats.rows != (uint64) roots)
		elog(ERROR, "statistics differ");

	/* Roots between those that are there: the filter should know most. */
	for (int root = 0; root < roots - 1; root++)
		false_positives += lsm_segment_may_contain(reader, LSM_TID(root * 3 + 6, 1));
	if (false_positives > roots / 50 + 2)
		elog(ERROR, "filter passes %d of %d", false_positives, roots);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf(INT64_FORMAT " records of %d roots, least uncommitted xid " UINT64_FORMAT ", greatest xid " UINT64_FORMAT,
											  versions_n, roots, stats.min_uncommitted_xid,
											  stats.max_xid)));
}
