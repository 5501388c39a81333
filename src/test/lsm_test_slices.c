/*-------------------------------------------------------------------------
 *
 * lsm_test_slices.c
 *	  Parts of segments, called from sql/segment.sql.
 *
 *	  lsm_test_slices(regclass, kind, block_bytes)	a part tells what the whole does
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "fmgr.h"
#include "lsm_test_segment.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsm_test_slices);

/* A segment without lists, as jobs write one whose rows all are settled. */
static void
lsm_test_write_plain(Relation rel, LsmSegmentKind kind, int block_bytes, uint32 samples,
					 LsmTestSink *sink)
{
	LsmTestSink *lists = lsm_test_sink();
	LsmSegmentStats stats;
	LsmSegmentOptions options = {kind, LSM_TEST_UID, block_bytes, 1, samples};
	LsmTestSource source;
	LsmSegmentReader *reader;
	LsmSegmentWriter *writer;
	TupleDesc	tupdesc = RelationGetDescr(rel);

	lsm_test_write(rel, kind, block_bytes, 1, samples, &lists->sink, &stats);
	lsm_test_source(&source, lists->data, lists->len);
	reader = lsm_segment_reader_open(&source.source);
	writer = lsm_segment_writer_create(tupdesc, &options, &sink->sink);
	for (uint32 blockno = 0; blockno < stats.blocks; blockno++)
	{
		LsmBlock   *block = lsm_block_read(reader, blockno);
		int			rows = lsm_block_rows(block);
		Datum	   *values = palloc(tupdesc->natts * sizeof(Datum));
		bool	   *nulls = palloc(tupdesc->natts * sizeof(bool));

		for (int row = 0; row < rows; row++)
		{
			LsmRowHead	head;

			CHECK_FOR_INTERRUPTS();
			lsm_block_head(block, row, &head);
			for (int att = 0; att < tupdesc->natts; att++)
				values[att] = lsm_block_value(block, row, att + 1, &nulls[att]);
			lsm_segment_writer_add(writer, &head, values, nulls);
		}
		lsm_block_free(block);
	}
	lsm_segment_writer_finish(writer, &stats);
	lsm_segment_reader_close(reader);
}

/* Have in a part what finds a root; how many slices that took. */
static int
lsm_test_have_root(LsmSegmentReader *part, const LsmTestSink *sink, LsmTid root)
{
	int64		slice;
	int			n = 0;

	while ((slice = lsm_segment_missing_for_root(part, root)) >= 0)
	{
		uint64		offset;
		uint32		len;
		char	   *bytes;

		lsm_segment_slice_place(part, (uint32) slice, &offset, &len);
		bytes = palloc(len);
		memcpy(bytes, sink->data + offset, len);
		bytes[offset % len] ^= 1;
		if (lsm_segment_slice_add(part, (uint32) slice, bytes))
			elog(ERROR, "a damaged slice is taken");
		bytes[offset % len] ^= 1;
		if (!lsm_segment_slice_add(part, (uint32) slice, bytes))
			elog(ERROR, "a slice is not taken");
		pfree(bytes);
		n++;
	}
	return n;
}

/* Both must find the same block for a root, and tell the same of it. */
static int
lsm_test_find(LsmSegmentReader *part, LsmSegmentReader *whole, const LsmTestSink *sink, LsmTid root)
{
	int			n = lsm_test_have_root(part, sink, root);
	uint32		blockno = lsm_segment_find_block(whole, root);

	if (lsm_segment_find_block(part, root) != blockno ||
		lsm_segment_may_contain(part, root) != lsm_segment_may_contain(whole, root))
		elog(ERROR, "root " UINT64_FORMAT " is found elsewhere", root);
	if (blockno < lsm_segment_reader_blocks(whole) &&
		(lsm_segment_missing_for_block(part, blockno) >= 0 ||
		 memcmp(lsm_reader_entry(part, blockno), lsm_reader_entry(whole, blockno),
				sizeof(LsmBlockEntry)) != 0 ||
		 lsm_reader_offset(part, blockno) != lsm_reader_offset(whole, blockno)))
		elog(ERROR, "block %u is another one", blockno);
	return n;
}

/* Is a byte of the segment in a section? */
static bool
lsm_test_in_section(LsmSegmentReader *whole, int kind, uint64 at)
{
	const LsmSectionEntry *section = &whole->sections[kind];

	return section->kind != 0 && at >= section->offset && at - section->offset < section->length;
}

/* Nothing but the right bytes is taken for a part; bounds lie among them, and are not looked at. */
static void
lsm_test_part_damage(LsmSegmentReader *whole, const LsmTestSink *sink, Size tail_bytes,
					 uint64 part_bytes)
{
	char	   *tail = palloc(tail_bytes);
	Size		from = tail_bytes - part_bytes;

	if (lsm_segment_part_bytes(LSM_TEST_UID + 1, sink->len, sink->data + sink->len - tail_bytes,
							   tail_bytes) != 0 ||
		lsm_segment_part_bytes(LSM_TEST_UID, sink->len, sink->data + sink->len - part_bytes + 8,
							   part_bytes - 8) != 0)
		elog(ERROR, "a part is taken that is none");
	for (Size at = from; at < tail_bytes; at += 3)
	{
		uint64		place = sink->len - tail_bytes + at;
		bool		proved = lsm_test_in_section(whole, LSM_SECTION_SLICES, place) ||
			lsm_test_in_section(whole, LSM_SECTION_PROPERTIES, place);
		uint64		found;

		memcpy(tail, sink->data + sink->len - tail_bytes, tail_bytes);
		tail[at] ^= 16;
		found = lsm_segment_part_bytes(LSM_TEST_UID, sink->len, tail, tail_bytes);
		if (proved ? found != 0 : found != 0 && found != part_bytes)
			elog(ERROR, "a damaged part has " UINT64_FORMAT " bytes", found);
		if (lsm_test_in_section(whole, LSM_SECTION_BOUNDS, place) && found != part_bytes)
			elog(ERROR, "bounds are looked at");
	}
}

/*
 * Write a table's rows, and look up roots in a part of the segment.  Tells blocks, slices, and
 * how many of these the first look-up took.
 */
Datum
lsm_test_slices(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	uint32		samples;
	LsmSegmentKind kind = lsm_test_kind(PG_GETARG_TEXT_PP(1), &samples);
	LsmTestSink *sink = lsm_test_sink();
	LsmTestSource source;
	LsmTestSource part_source;
	LsmSegmentReader *whole;
	LsmSegmentReader *part;
	Size		tail_bytes;
	uint64		part_bytes;
	uint64		seed = 1;
	uint32		blocks;
	LsmTid		last;
	int			first;
	int			slices;

	lsm_test_write_plain(rel, kind, PG_GETARG_INT32(2), samples, sink);
	lsm_test_source(&source, sink->data, sink->len);
	lsm_test_source(&part_source, sink->data, sink->len);
	whole = lsm_segment_reader_open(&source.source);
	blocks = lsm_segment_reader_blocks(whole);
	if (!lsm_segment_slices_agree(whole))
		elog(ERROR, "slices are not those of the block index");
	tail_bytes = Min(sink->len, LSM_READER_TAIL);
	part_bytes = lsm_segment_part_bytes(LSM_TEST_UID, sink->len,
										sink->data + sink->len - tail_bytes, tail_bytes);
	if (part_bytes == 0)
	{
		table_close(rel, AccessShareLock);
		PG_RETURN_TEXT_P(cstring_to_text(psprintf("%u blocks, no slices", blocks)));
	}
	lsm_test_part_damage(whole, sink, tail_bytes, part_bytes);
	part_source.source.meta = palloc(part_bytes + LSM_CODEC_SLACK);
	memcpy(part_source.source.meta, sink->data + sink->len - part_bytes, part_bytes);
	part_source.source.meta_bytes = part_bytes;
	part_source.source.part = true;
	part = lsm_segment_reader_open(&part_source.source);
	lsm_segment_block_info(whole, blocks - 1, NULL, &last, NULL, NULL, NULL);

	first = slices = lsm_test_find(part, whole, sink, lsm_test_random(&seed) % last);
	for (int i = 0; i < 100; i++)
		slices += lsm_test_find(part, whole, sink, lsm_test_random(&seed) % last);
	slices += lsm_test_find(part, whole, sink, 1);
	slices += lsm_test_find(part, whole, sink, last + 1);
	for (uint32 blockno = 0; blockno < blocks; blockno++)
	{
		LsmTid		block_first;
		LsmTid		block_last;

		CHECK_FOR_INTERRUPTS();
		lsm_segment_block_info(whole, blockno, &block_first, &block_last, NULL, NULL, NULL);
		slices += lsm_test_find(part, whole, sink, block_first - 1);
		slices += lsm_test_find(part, whole, sink, block_first);
		slices += lsm_test_find(part, whole, sink, block_last);
		slices += lsm_test_find(part, whole, sink, block_last + 1);
		if (blockno % 50 == 0)
		{
			LsmBlock   *block = lsm_block_read(part, blockno);

			if (lsm_block_root(block, 0) != block_first)
				elog(ERROR, "block %u has other rows", blockno);
			lsm_block_free(block);
		}
	}
	table_close(rel, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%u blocks, %d slices, %d for the first root",
											  blocks, slices, first)));
}
