/*-------------------------------------------------------------------------
 *
 * lsm_test_damage.c
 *	  Damaged segments, called from sql/segment.sql and sql/formats.sql.
 *
 * The functions here are not part of the extension's SQL: the tests declare them themselves.
 *
 *	  lsm_test_digest(bytea)			a number made of all that a segment holds
 *	  lsm_test_fixed(bytea)				the same with right checksums
 *	  lsm_test_damage(regclass, ...)	damaged bytes give errors, never a crash
 *	  lsm_test_roots(regclass, ...)		damaged roots, by each way to ask for them
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "lsm_test_segment.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(lsm_test_digest);
PG_FUNCTION_INFO_V1(lsm_test_fixed);
PG_FUNCTION_INFO_V1(lsm_test_damage);
PG_FUNCTION_INFO_V1(lsm_test_roots);

static uint64
lsm_test_hash(uint64 digest, const void *data, Size len)
{
	return hash_bytes_extended((const unsigned char *) data, (int) len, digest);
}

static uint64
lsm_test_hash_datum(uint64 digest, Datum value, bool isnull, const LsmColumnType *type)
{
	if (isnull)
		return digest * 31 + 1;
	if (type->typbyval)
		return lsm_test_hash(digest, &value, sizeof(value));
	if (type->typlen == -1)
		return lsm_test_hash(digest, DatumGetPointer(value), VARSIZE_ANY(DatumGetPointer(value)));
	if (type->typlen == -2)
		return lsm_test_hash(digest, DatumGetCString(value), strlen(DatumGetCString(value)) + 1);
	return lsm_test_hash(digest, DatumGetPointer(value), type->typlen);
}

/* Ask bounds of a segment, or none, for those of each column, and of some that there are not. */
static void
lsm_test_read_bounds(const LsmBounds *bounds)
{
	LsmZone		zone;

	for (int att = 0; bounds != NULL && att <= MaxTupleAttributeNumber; att++)
	{
		(void) lsm_bounds_column_type(bounds, att);
		(void) lsm_bounds_get(bounds, att, &zone);
	}
}

/* Read all that a segment has, in every way; returns a hash of it. */
static uint64
lsm_test_read_all(const char *data, Size len)
{
	LsmTestSource source;
	LsmSegmentReader *reader;
	LsmForward *forwards;
	LsmTid	   *dead;
	uint64	   *unresolved;
	uint64		n;
	uint32		n32;
	uint64		digest = 0;

	lsm_test_read_bounds(lsm_segment_tail_bounds(LSM_TEST_UID, len, data, len));
	lsm_test_source(&source, data, len);
	reader = lsm_segment_reader_open(&source.source);
	lsm_test_read_bounds(lsm_segment_bounds(reader));
	digest = lsm_test_hash(digest, &reader->props, offsetof(LsmProperties, zone_blocks));
	forwards = lsm_segment_read_forwards(reader, &n);
	if (n > 0)
		digest = lsm_test_hash(digest, forwards, n * sizeof(LsmForward));
	for (uint64 i = 0; i < n; i += 100)
		lsm_segment_forward(reader, forwards[i].vtid);
	dead = lsm_segment_read_dead(reader, &n);
	if (n > 0)
		digest = lsm_test_hash(digest, dead, n * sizeof(LsmTid));
	unresolved = lsm_segment_unresolved(reader, &n32);
	if (n32 > 0)
		digest = lsm_test_hash(digest, unresolved, n32 * sizeof(uint64));
	for (uint32 blockno = 0; blockno < lsm_segment_reader_blocks(reader); blockno++)
	{
		LsmBlock   *block = lsm_block_read(reader, blockno);
		LsmTid		first;

		lsm_segment_block_info(reader, blockno, &first, NULL, NULL, NULL, NULL);
		digest += lsm_segment_may_contain(reader, first);
		for (int row = 0; row < lsm_block_rows(block); row++)
		{
			LsmRowHead	head;
			int			found;

			lsm_block_head(block, row, &head);
			digest = lsm_test_hash(digest, &head,
								   offsetof(LsmRowHead, cols_len) + sizeof(head.cols_len));
			if (head.xid == 0 && head.xmin != 0)
				digest = lsm_test_hash(digest, &head.xmin, sizeof(head.xmin));
			if (head.cols_len > 0)
				digest = lsm_test_hash(digest, head.cols, head.cols_len);
			found = lsm_block_find(block, head.root);
			if (found < 0 || found > lsm_block_rows(block))
				elog(ERROR, "row " INT64_FORMAT " was found", (int64) found);
		}
		for (int att = 1; att <= lsm_block_natts(block); att++)
		{
			const LsmColumnType *type = &reader->types[att - 1];
			Datum	   *values;
			bool	   *nulls;
			LsmZone		zone;

			for (int row = 0; row < lsm_block_rows(block); row++)
			{
				bool		isnull;
				Datum		value = lsm_block_value(block, row, att, &isnull);

				digest = lsm_test_hash_datum(digest, value, isnull, type);
			}
			lsm_block_column(block, att, &values, &nulls);
			for (int row = 0; row < lsm_block_rows(block); row++)
				digest = lsm_test_hash_datum(digest, values[row], nulls[row], type);
			if (lsm_segment_zone(reader, blockno, att, &zone) && zone.has_value)
			{
				digest = lsm_test_hash_datum(digest, zone.min, false, type);
				digest = lsm_test_hash_datum(digest, zone.max, false, type);
			}
		}
		lsm_block_free(block);
	}
	lsm_segment_reader_close(reader);
	return digest;
}

/* All that a segment given as bytes holds, as one number. */
Datum
lsm_test_digest(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);

	PG_RETURN_INT64((int64) lsm_test_read_all(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)));
}

/* Where checksums are in a sound segment. */
typedef struct LsmTestLayout
{
	LsmSegmentTrailer trailer;
	LsmSectionEntry sections[LSM_SECTION_LAST + 1];
	uint64		entry_offsets[LSM_SECTION_LAST + 1];
	uint64		footer_offset;
} LsmTestLayout;

static void
lsm_test_layout(const char *data, Size len, LsmTestLayout *layout)
{
	memset(layout, 0, sizeof(*layout));
	memcpy(&layout->trailer, data + len - sizeof(LsmSegmentTrailer), sizeof(LsmSegmentTrailer));
	layout->footer_offset = len - sizeof(LsmSegmentTrailer) -
		layout->trailer.sections * sizeof(LsmSectionEntry);
	for (uint32 i = 0; i < layout->trailer.sections; i++)
	{
		uint64		offset = layout->footer_offset + i * sizeof(LsmSectionEntry);
		LsmSectionEntry section;

		memcpy(&section, data + offset, sizeof(section));
		if (section.kind > LSM_SECTION_LAST)
			continue;
		layout->sections[section.kind] = section;
		layout->entry_offsets[section.kind] = offset;
	}
}

static void
lsm_test_put_crc(char *data, uint64 at, uint64 start, uint64 len)
{
	pg_crc32c	crc = lsm_segment_crc(LSM_TEST_UID, data + start, len);

	memcpy(data + at, &crc, sizeof(crc));
}

/*
 * Make all checksums of a damaged segment right again, the places of which
 * are taken from the sound one.
 */
static void
lsm_test_fix(char *data, Size len, const char *sound, const LsmTestLayout *layout)
{
	const LsmSectionEntry *section = &layout->sections[LSM_SECTION_BLOCK_INDEX];
	uint64		offset = 0;
	pg_crc32c	crc;

	for (uint64 at = section->offset; at < section->offset + section->length;
		 at += sizeof(LsmBlockEntry))
	{
		LsmBlockEntry entry;

		memcpy(&entry, sound + at, sizeof(entry));
		lsm_test_put_crc(data, at + offsetof(LsmBlockEntry, crc), offset, entry.length);
		offset += entry.length;
	}
	for (int i = 0; i < 2; i++)
	{
		section = &layout->sections[i == 0 ? LSM_SECTION_FORWARD_INDEX : LSM_SECTION_DEAD_INDEX];
		offset = layout->sections[i == 0 ? LSM_SECTION_FORWARD_DATA : LSM_SECTION_DEAD_DATA].offset;
		for (uint64 at = section->offset; at < section->offset + section->length;
			 at += sizeof(LsmListEntry))
		{
			LsmListEntry entry;

			memcpy(&entry, sound + at, sizeof(entry));
			lsm_test_put_crc(data, at + offsetof(LsmListEntry, crc), offset, entry.length);
			offset += entry.length;
		}
	}
	for (int kind = LSM_SECTION_BLOCK_INDEX; kind <= LSM_SECTION_LAST; kind++)
	{
		section = &layout->sections[kind];
		if (section->kind != 0)
			lsm_test_put_crc(data, layout->entry_offsets[kind] + offsetof(LsmSectionEntry, crc),
							 section->offset, section->length);
	}
	INIT_CRC32C(crc);
	offset = LSM_TEST_UID;
	COMP_CRC32C(crc, &offset, sizeof(offset));
	COMP_CRC32C(crc, data + layout->footer_offset,
				len - sizeof(LsmSegmentTrailer) - layout->footer_offset +
				offsetof(LsmSegmentTrailer, crc));
	FIN_CRC32C(crc);
	memcpy(data + len - sizeof(LsmSegmentTrailer) + offsetof(LsmSegmentTrailer, crc), &crc,
		   sizeof(crc));
}

/* A segment that was changed, but not in its layout, with right checksums. */
Datum
lsm_test_fixed(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_P_COPY(0);
	Size		len = VARSIZE_ANY_EXHDR(bytes);
	LsmTestLayout layout;

	lsm_test_layout(VARDATA_ANY(bytes), len, &layout);
	lsm_test_fix(VARDATA_ANY(bytes), len, VARDATA_ANY(bytes), &layout);
	PG_RETURN_BYTEA_P(bytes);
}

/* Damage some bytes; returns the length that is left. */
static Size
lsm_test_damage_bytes(char *data, Size len, const LsmTestLayout *layout, bool fix,
					  uint64 *state)
{
	int			places = 1 + lsm_test_random(state) % 4;

	for (int i = 0; i < places; i++)
	{
		uint64		start = 0;
		uint64		at;

		switch (lsm_test_random(state) % 4)
		{
			case 0:				/* metadata */
				start = layout->trailer.meta_offset;
				break;
			case 1:				/* the last sections and the footer */
				start = layout->sections[LSM_SECTION_PROPERTIES].offset;
				break;
			case 2:				/* the beginning of a block */
				{
					const LsmSectionEntry *section = &layout->sections[LSM_SECTION_BLOCK_INDEX];
					uint64		blocks = section->length / sizeof(LsmBlockEntry);
					uint64		target = blocks > 0 ? lsm_test_random(state) % blocks : 0;

					for (uint64 j = 0; j < target; j++)
					{
						uint32		block_len;

						memcpy(&block_len, data + section->offset + j * sizeof(LsmBlockEntry) +
							   offsetof(LsmBlockEntry, length), sizeof(block_len));
						start += block_len;
					}
					start += lsm_test_random(state) % 300;
					data[Min(start, len - 1)] = (char) lsm_test_random(state);
					continue;
				}
			default:			/* anywhere */
				break;
		}
		at = start + lsm_test_random(state) % (len - start);
		switch (lsm_test_random(state) % 4)
		{
			case 0:
				data[at] ^= 1 << (lsm_test_random(state) % 8);
				break;
			case 1:
				data[at] = (char) lsm_test_random(state);
				break;
			case 2:
				data[at] = lsm_test_random(state) % 2 ? 0 : (char) 0xFF;
				break;
			default:
				{
					uint64		n = lsm_test_random(state) % 16;
					int			fill = lsm_test_random(state) % 2 ? 0 : 0xFF;

					memset(data + at, fill, Min(n, len - at));
					break;
				}
		}
	}
	if (!fix && lsm_test_random(state) % 20 == 0)
		return lsm_test_random(state) % len;
	return len;
}

/* What came of reading a damaged segment. */
typedef enum LsmTestOutcome
{
	LSM_TEST_ERROR,
	LSM_TEST_HARMLESS,
	LSM_TEST_OTHER
} LsmTestOutcome;

static LsmTestOutcome
lsm_test_try(const char *data, Size len, uint64 expected)
{
	MemoryContext context = CurrentMemoryContext;
	volatile LsmTestOutcome result = LSM_TEST_ERROR;

	PG_TRY();
	{
		result = lsm_test_read_all(data, len) == expected ? LSM_TEST_HARMLESS : LSM_TEST_OTHER;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED &&
			error->sqlerrcode != ERRCODE_FEATURE_NOT_SUPPORTED)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return result;
}

/*
 * Damage a segment over and over and read it.  What may come of it is an
 * error that says so, or the same rows as before; with checksums made right
 * again also other rows.  Anything else is an error here, or a crash.
 */
Datum
lsm_test_damage(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	char	   *kind = text_to_cstring(PG_GETARG_TEXT_PP(1));
	uint64		state = (uint64) PG_GETARG_INT32(2) * 2 + 1;
	int			rounds = PG_GETARG_INT32(3);
	bool		fix = PG_GETARG_BOOL(4);
	LsmTestSink *sink = lsm_test_sink();
	LsmSegmentStats stats;
	LsmTestLayout layout;
	uint32		samples;
	uint64		expected;
	int			outcomes[3] = {0, 0, 0};
	char	   *data;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "damage",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;

	if (strcmp(kind, "increment") == 0)
		lsm_test_write_increment(2000, 9, 42, 8192, 1, &sink->sink, &stats);
	else
	{
		LsmSegmentKind segment_kind = lsm_test_kind(PG_GETARG_TEXT_PP(1), &samples);

		lsm_test_write(rel, segment_kind, 8192, 1, samples, &sink->sink, &stats);
		if ((samples > 0) != (stats.dictionaries > 0))
			elog(ERROR, "%d dictionaries", stats.dictionaries);
	}
	table_close(rel, AccessShareLock);
	expected = lsm_test_read_all(sink->data, sink->len);
	lsm_test_layout(sink->data, sink->len, &layout);
	data = MemoryContextAllocHuge(CurrentMemoryContext, sink->len);

	for (int round = 0; round < rounds; round++)
	{
		Size		len;

		CHECK_FOR_INTERRUPTS();
		memcpy(data, sink->data, sink->len);
		len = lsm_test_damage_bytes(data, sink->len, &layout, fix, &state);
		if (fix)
			lsm_test_fix(data, len, sink->data, &layout);
		MemoryContextSwitchTo(context);
		outcomes[lsm_test_try(data, len, expected)]++;
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	elog(DEBUG1, "%d errors, %d harmless, %d other rows", outcomes[LSM_TEST_ERROR],
		 outcomes[LSM_TEST_HARMLESS], outcomes[LSM_TEST_OTHER]);
	if (!fix && outcomes[LSM_TEST_OTHER] > 0)
		elog(ERROR, "%d damages were not noticed", outcomes[LSM_TEST_OTHER]);
	if (outcomes[LSM_TEST_ERROR] < rounds / 4)
		elog(ERROR, "only %d of %d damages were noticed", outcomes[LSM_TEST_ERROR], rounds);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%d rounds", rounds)));
}

/* How the roots of a block are asked for. */
typedef enum LsmTestAccess
{
	LSM_TEST_FIND,
	LSM_TEST_ROOT,
	LSM_TEST_HEAD,
	LSM_TEST_ACCESSES			/* how many there are */
} LsmTestAccess;

/* Ask for all roots of a block; false: that is an error. */
static bool
lsm_test_ask(LsmBlock *block, LsmTestAccess access)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool good = false;

	PG_TRY();
	{
		for (int row = 0; row < lsm_block_rows(block); row++)
		{
			LsmRowHead	head;

			if (access == LSM_TEST_FIND)
				(void) lsm_block_find(block, lsm_test_root(row));
			else if (access == LSM_TEST_ROOT)
				(void) lsm_block_root(block, row);
			else
				lsm_block_head(block, row, &head);
		}
		good = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return good;
}

/*
 * Damage each byte of the roots of a segment's first block, with right checksums.
 * Whether that is found must not depend on how the roots are asked for, and what
 * has been found is found again.
 */
Datum
lsm_test_roots(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	LsmTestSink *sink = lsm_test_sink();
	LsmSegmentStats stats;
	LsmTestLayout layout;
	LsmNarrowEntry chunks[2];
	uint64		state = 1;
	int			noticed = 0;
	char	   *data;

	lsm_test_write(rel, LSM_SEGKIND_BASELINE, 8192, 1, 0, &sink->sink, &stats);
	table_close(rel, AccessShareLock);
	lsm_test_layout(sink->data, sink->len, &layout);
	data = MemoryContextAllocHuge(CurrentMemoryContext, sink->len);
	memcpy(chunks, sink->data + sizeof(LsmBlockHeader), sizeof(chunks));

	for (int at = chunks[0].offset; at < chunks[1].offset; at++)
	{
		bool		first = false;

		memcpy(data, sink->data, sink->len);
		data[at] ^= 1 + lsm_test_random(&state) % 255;
		lsm_test_fix(data, sink->len, sink->data, &layout);
		for (int access = 0; access < LSM_TEST_ACCESSES; access++)
		{
			LsmTestSource source;
			LsmSegmentReader *reader;
			LsmBlock   *block;
			bool		good;

			lsm_test_source(&source, data, sink->len);
			reader = lsm_segment_reader_open(&source.source);
			block = lsm_block_read(reader, 0);
			good = lsm_test_ask(block, access);
			if (lsm_test_ask(block, access) != good)
				elog(ERROR, "damage at %d is found once", at);
			if (access == 0)
				first = good;
			else if (good != first)
				elog(ERROR, "damage at %d is found or not", at);
			lsm_block_free(block);
			lsm_segment_reader_close(reader);
		}
		noticed += !first;
	}
	PG_RETURN_TEXT_P(cstring_to_text(noticed > 0 ? "noticed" : "not noticed"));
}
