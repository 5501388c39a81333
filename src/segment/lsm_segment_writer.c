/*-------------------------------------------------------------------------
 *
 * lsm_segment_writer.c
 *	  Writing a segment: rows in, a stream of bytes out.
 *
 * Memory is bounded by one open block, the block index, the zones, a hash for
 * each root of an increment, an entry for each large value, the forward
 * entries and dead roots, and what dictionaries are made from.
 *
 * The stream: blocks with large values between them, forward chunks, dead-root chunks; then, from
 * meta_offset on, what opening needs: block index, value index, zones, dictionaries, filter,
 * indexes of the two lists, properties, footer, trailer.  (Bytes: FORMAT.md.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "lib/qunique.h"
#include "segment/lsm_segment_format.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Stored bytes of raw ones, before the first block is done. */
#define LSM_WRITER_GUESS_DIVISOR	3

struct LsmSegmentWriter
{
	MemoryContext context;
	LsmSegmentOptions options;
	LsmSegmentSink *sink;
	uint64		written;		/* bytes given to the sink */
	int			natts;
	LsmColumnEntry *columns;
	LsmEncoder *encoder;
	LsmBlockBuilder *builder;
	LsmTrainer *trainer;		/* NULL: no dictionaries */
	bool		dictionaries;	/* a block needs them */
	LsmZoneMap *zones;
	StringInfoData head;		/* of the block that is being written */
	StringInfoData body;

	Size		open_bytes;		/* raw bytes of the open block */
	Size		end_bytes;		/* what ends it: block_bytes, as a rule */
	LsmTid		open_first;
	LsmTid		last_root;

	LsmBlockEntry *index;
	uint32		max_index;
	LsmValueEntry *values;
	uint32		nvalues;
	uint32		max_values;
	uint64		value_bytes;
	uint64	   *hashes;			/* of roots, for the filter */
	uint64		hashes_n;
	uint64		max_hashes;
	LsmForward *forwards;
	uint64		max_forwards;
	LsmTid	   *dead;
	uint64		max_dead;
	uint64	   *unresolved;
	uint32		max_unresolved;

	LsmProperties props;
	LsmSectionEntry sections[LSM_SECTION_LAST + 1];
	int			sections_n;
};

/* Make room for one more entry of an array that may grow large. */
#define LSM_WRITER_GROW(writer, array, n, max) \
	do { \
		if ((n) == (max)) \
		{ \
			(max) = Max((max) * 2, 64); \
			if ((array) == NULL) \
				(array) = MemoryContextAllocHuge((writer)->context, (Size) (max) * sizeof(*(array))); \
			else \
				(array) = repalloc_huge((array), (Size) (max) * sizeof(*(array))); \
		} \
	} while (0)

LsmSegmentWriter *
lsm_segment_writer_create(TupleDesc tupdesc, const LsmSegmentOptions *options,
						  LsmSegmentSink *sink)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm segment writer",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LsmSegmentWriter *writer = palloc0(sizeof(LsmSegmentWriter));
	int			natts = tupdesc->natts;
	LsmColumnType *types = palloc0(Max(natts, 1) * sizeof(LsmColumnType));
	bool	   *numeric = palloc0(Max(natts, 1) * sizeof(bool));

	writer->context = context;
	writer->options = *options;
	writer->sink = sink;
	writer->natts = natts;
	writer->columns = palloc0(Max(natts, 1) * sizeof(LsmColumnEntry));
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		LsmColumnEntry *column = &writer->columns[i];

		types[i].typid = att->attisdropped ? InvalidOid : att->atttypid;
		types[i].typmod = att->atttypmod;
		types[i].collation = att->attcollation;
		types[i].typlen = att->attlen;
		types[i].typbyval = att->attbyval;
		types[i].typalign = att->attalign;

		column->typid = types[i].typid;
		column->typmod = types[i].typmod;
		column->collation = types[i].collation;
		column->typlen = types[i].typlen;
		column->typbyval = types[i].typbyval;
		column->typalign = types[i].typalign;
		if (OidIsValid(types[i].typid))
		{
			Oid			basetype = getBaseType(types[i].typid);

			numeric[i] = basetype == NUMERICOID;
			column->order = lsm_zone_order(basetype);
			column->opclass = GetDefaultOpClass(basetype, BTREE_AM_OID);
			Assert(lsm_zone_order_fits(column->order, &types[i]));
		}
	}

	writer->encoder = lsm_encoder_create(options->compression_level);
	if (options->dictionary_samples > 0 && options->compression_level != 0)
		writer->trainer = lsm_trainer_create(natts, options->compression_level,
											 options->dictionary_samples);
	writer->builder = lsm_block_builder_create(natts, types, numeric, writer->trainer);
	writer->end_bytes = options->block_bytes;
	writer->zones = lsm_zone_create(natts, writer->columns);
	initStringInfo(&writer->head);
	initStringInfo(&writer->body);
	writer->props.kind = options->kind;
	writer->props.natts = natts;

	MemoryContextSwitchTo(old);
	return writer;
}

static void
lsm_writer_append(LsmSegmentWriter *writer, const void *data, Size len)
{
	if (len == 0)
		return;
	writer->sink->append(writer->sink, data, len);
	writer->written += len;
}

static void
lsm_writer_begin_block(LsmSegmentWriter *writer, uint32 blockno, uint32 len)
{
	if (writer->sink->begin_block != NULL)
		writer->sink->begin_block(writer->sink, blockno, len);
}

/* The entry of the block that comes next. */
static LsmBlockEntry *
lsm_writer_next_entry(LsmSegmentWriter *writer)
{
	LsmProperties *props = &writer->props;

	if (props->blocks == PG_UINT32_MAX)
		elog(ERROR, "too many blocks in a segment");
	LSM_WRITER_GROW(writer, writer->index, props->blocks, writer->max_index);
	return &writer->index[props->blocks];
}

/* Write the block of that entry, which is in head and body. */
static void
lsm_writer_put_block(LsmSegmentWriter *writer, LsmBlockEntry *entry)
{
	pg_crc32c	crc;

	entry->length = (uint32) writer->head.len + (uint32) writer->body.len;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &writer->options.uid, sizeof(uint64));
	COMP_CRC32C(crc, writer->head.data, writer->head.len);
	COMP_CRC32C(crc, writer->body.data, writer->body.len);
	FIN_CRC32C(crc);
	entry->crc = crc;
	lsm_writer_begin_block(writer, writer->props.blocks, entry->length);
	lsm_writer_append(writer, writer->head.data, writer->head.len);
	lsm_writer_append(writer, writer->body.data, writer->body.len);
	writer->props.blocks++;
}

/* Write the open block. */
static void
lsm_writer_end_block(LsmSegmentWriter *writer)
{
	LsmBlockEntry *entry = lsm_writer_next_entry(writer);

	entry->first = writer->open_first;
	entry->last = writer->last_root;
	entry->rows = lsm_block_builder_rows(writer->builder);
	entry->raw_bytes = (uint32) Min(writer->open_bytes, PG_UINT32_MAX);

	if (lsm_block_builder_finish(writer->builder, writer->encoder, entry->raw_bytes,
								 writer->zones, &writer->head, &writer->body))
		writer->dictionaries = true;
	lsm_writer_put_block(writer, entry);
	writer->props.raw_bytes += writer->open_bytes;
	writer->open_bytes = 0;
	writer->end_bytes = writer->options.block_bytes;
}

void
lsm_segment_writer_add(LsmSegmentWriter *writer, const LsmRowHead *head,
					   const Datum *values, const bool *isnull)
{
	MemoryContext old = MemoryContextSwitchTo(writer->context);
	LsmProperties *props = &writer->props;
	bool		many = writer->options.kind == LSM_SEGKIND_INCREMENT;
	bool		first = props->versions == 0;
	Size		bytes;

	Assert(writer->options.kind != LSM_SEGKIND_DEAD);
	Assert(head->root != LSM_INVALID_TID);
	Assert(head->natts <= writer->natts);
	if (!first && (head->root < writer->last_root || (!many && head->root == writer->last_root)))
		elog(ERROR, "records of a segment are out of order");

	bytes = lsm_block_row_bytes(writer->builder, head, values, isnull);
	if (lsm_block_builder_rows(writer->builder) > 0 &&
		(writer->open_bytes + bytes > writer->end_bytes ||
		 lsm_block_builder_rows(writer->builder) >= LSM_BLOCK_MAX_ROWS))
		lsm_writer_end_block(writer);
	if (lsm_block_builder_rows(writer->builder) == 0)
		writer->open_first = head->root;
	lsm_block_builder_add(writer->builder, head, values, isnull);
	writer->open_bytes += bytes;

	props->versions++;
	if (first || head->root != writer->last_root)
	{
		props->rows++;
		if (many)
		{
			LSM_WRITER_GROW(writer, writer->hashes, writer->hashes_n, writer->max_hashes);
			writer->hashes[writer->hashes_n++] = lsm_filter_hash(head->root);
		}
	}
	if (first)
		props->first_tid = head->root;
	props->last_tid = writer->last_root = head->root;
	props->max_xid = Max(props->max_xid, head->xid);
	if (head->xid != 0 && (head->info & LSM_REC_COMMITTED) == 0 &&
		(props->min_uncommitted_xid == 0 || head->xid < props->min_uncommitted_xid))
		props->min_uncommitted_xid = head->xid;
	MemoryContextSwitchTo(old);
}

/* Does the segment have such rows that its blocks can be this one's? */
static bool
lsm_writer_can_copy(const LsmSegmentWriter *writer, const LsmSegmentReader *reader)
{
	return writer->options.kind != LSM_SEGKIND_INCREMENT &&
		reader->props.kind != LSM_SEGKIND_INCREMENT &&
		reader->props.max_xid == 0 && reader->nvalues == 0 &&
		reader->props.natts == writer->natts &&
		memcmp(reader->columns, writer->columns, writer->natts * sizeof(LsmColumnEntry)) == 0;
}

/*
 * Has the open block too few rows to be ended for one that is to be copied?  Then the
 * rows of that one are added to it.  If these are too many for one block, there will be
 * two of the same size: were the first one full, what is left would be too little again,
 * and no block behind a gap would ever be copied.
 */
static bool
lsm_writer_joins(LsmSegmentWriter *writer, const LsmBlockEntry *next)
{
	Size		together = writer->open_bytes + next->raw_bytes;

	if (lsm_block_builder_rows(writer->builder) == 0 ||
		writer->open_bytes >= writer->options.block_bytes / 2)
		return false;
	if (together > writer->options.block_bytes)
		writer->end_bytes = (together + 1) / 2;
	return true;
}

/*
 * Take over the dictionaries of that segment, if it has any, this one has no others and
 * is to have any.  Can a block of it then be read in this one?
 */
static bool
lsm_writer_can_read(LsmSegmentWriter *writer, LsmSegmentReader *reader, const uint8 *block)
{
	LsmBlockHeader header;
	Size		len;
	const uint8 *section = lsm_reader_section(reader, LSM_SECTION_DICTIONARIES, &len);
	bool		adopted = section != NULL && writer->trainer != NULL &&
		lsm_trainer_adopt(writer->trainer, section, len);

	memcpy(&header, block, sizeof(header));
	if (!(header.flags & LSM_BLOCK_DICTIONARY))
		return true;
	writer->dictionaries |= adopted;
	return adopted;
}

bool
lsm_segment_writer_rejects(LsmSegmentWriter *writer, LsmSegmentReader *reader)
{
	Size		len;
	const uint8 *section = lsm_reader_section(reader, LSM_SECTION_DICTIONARIES, &len);

	return section != NULL && writer->trainer != NULL && lsm_writer_can_copy(writer, reader) &&
		!lsm_trainer_accepts(writer->trainer, section, len);
}

/*
 * The bytes of a block that is copied, with changes or without, in the current context; the open block
 * is ended for it.  NULL: its rows have to be added one by one.
 */
static uint8 *
lsm_writer_take_block(LsmSegmentWriter *writer, LsmSegmentReader *reader, uint32 blockno)
{
	const LsmBlockEntry *from = &reader->index[blockno];
	MemoryContext caller;
	uint8	   *data;

	if (!lsm_writer_can_copy(writer, reader) ||
		from->raw_bytes < writer->options.block_bytes / 2 || lsm_writer_joins(writer, from))
		return NULL;
	if (writer->props.versions > 0 && from->first <= writer->last_root)
		elog(ERROR, "records of a segment are out of order");

	data = palloc((Size) from->length + LSM_CODEC_SLACK);
	memset(data + from->length, 0, LSM_CODEC_SLACK);
	reader->source->read(reader->source, reader->offsets[blockno], from->length, data);
	if (lsm_segment_crc(reader->source->uid, data, from->length) != from->crc)
		lsm_segment_corrupt(reader->source, blockno, "The block has checksum %08X, expected %08X.",
							lsm_segment_crc(reader->source->uid, data, from->length), from->crc);
	caller = MemoryContextSwitchTo(writer->context);
	if (!lsm_writer_can_read(writer, reader, data))
	{
		pfree(data);
		data = NULL;
	}
	else if (lsm_block_builder_rows(writer->builder) > 0)
		lsm_writer_end_block(writer);
	MemoryContextSwitchTo(caller);
	return data;
}

/* A block that was written has the roots, and as many rows, as one of another segment. */
static void
lsm_writer_count_block(LsmSegmentWriter *writer, const LsmBlockEntry *entry)
{
	LsmProperties *props = &writer->props;

	if (props->versions == 0)
		props->first_tid = entry->first;
	props->last_tid = writer->last_root = entry->last;
	props->rows += entry->rows;
	props->versions += entry->rows;
	props->raw_bytes += entry->raw_bytes;
}

bool
lsm_segment_writer_copy_block(LsmSegmentWriter *writer, LsmSegmentReader *reader, uint32 blockno)
{
	MemoryContext old = MemoryContextSwitchTo(writer->context);
	const LsmBlockEntry *from = &reader->index[blockno];
	LsmBlockEntry *to;
	uint8	   *data = lsm_writer_take_block(writer, reader, blockno);
	const uint8 *zone;
	const uint8 *zone_end = NULL;

	if (data == NULL)
	{
		MemoryContextSwitchTo(old);
		return false;
	}
	to = lsm_writer_next_entry(writer);
	*to = *from;
	to->crc = lsm_segment_crc(writer->options.uid, data, from->length);
	lsm_writer_begin_block(writer, writer->props.blocks++, from->length);
	lsm_writer_append(writer, data, from->length);

	zone = lsm_reader_zone(reader, blockno, &zone_end);
	lsm_zone_begin_block(writer->zones);
	if (zone != NULL && !reader->loose_zones && reader->props.zone_blocks == 1)
		lsm_zone_copy(writer->zones, zone, zone_end, NULL, NULL);
	else
	{
		LsmBlock   *block = lsm_block_over(reader, blockno, from->length, (char *) data);

		lsm_block_begin(reader, block, true);
		lsm_zone_copy(writer->zones, zone, zone_end, block, NULL);
		lsm_block_free(block);
	}
	pfree(data);
	lsm_writer_count_block(writer, to);
	MemoryContextSwitchTo(old);
	return true;
}

LsmBlockPatch *
lsm_segment_writer_begin_patch(LsmSegmentWriter *writer, LsmSegmentReader *reader, uint32 blockno)
{
	uint8	   *data = lsm_writer_take_block(writer, reader, blockno);

	return data == NULL ? NULL : lsm_block_patch_create(reader, blockno, data);
}

bool
lsm_segment_writer_put_patch(LsmSegmentWriter *writer, LsmBlockPatch *patch)
{
	Size		block_bytes = writer->options.block_bytes;
	int64		raw_bytes = lsm_block_patch_raw_bytes(patch);
	MemoryContext old;
	LsmBlockEntry *entry;

	if (!lsm_block_patch_fits(patch, block_bytes))
	{
		/* too much for one block: two of the same size, see lsm_writer_joins() */
		if (raw_bytes > (int64) block_bytes && raw_bytes <= 2 * (int64) block_bytes)
			writer->end_bytes = (Size) (raw_bytes + 1) / 2;
		return false;
	}
	old = MemoryContextSwitchTo(writer->context);
	entry = lsm_writer_next_entry(writer);
	if (lsm_block_patch_finish(patch, writer->builder, writer->encoder, writer->zones, entry,
							   &writer->head, &writer->body))
		writer->dictionaries = true;
	lsm_writer_put_block(writer, entry);
	lsm_writer_count_block(writer, entry);
	MemoryContextSwitchTo(old);
	return true;
}

uint64
lsm_segment_writer_begin_value(LsmSegmentWriter *writer, uint32 length)
{
	LsmValueEntry *entry;
	pg_crc32c	crc;

	if (writer->nvalues == PG_UINT32_MAX)
		elog(ERROR, "too many large values in a segment");
	LSM_WRITER_GROW(writer, writer->values, writer->nvalues, writer->max_values);
	entry = &writer->values[writer->nvalues];
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &writer->options.uid, sizeof(uint64));
	entry->offset = writer->written;
	entry->length = length;
	entry->crc = crc;
	entry->block = writer->props.blocks;
	entry->reserved = 0;
	if (writer->sink->expect != NULL)
		writer->sink->expect(writer->sink, length);
	return entry->offset;
}

void
lsm_segment_writer_value_bytes(LsmSegmentWriter *writer, const void *data, Size len)
{
	MemoryContext old = MemoryContextSwitchTo(writer->context);

	COMP_CRC32C(writer->values[writer->nvalues].crc, data, len);
	lsm_writer_append(writer, data, len);
	writer->value_bytes += len;
	MemoryContextSwitchTo(old);
}

void
lsm_segment_writer_end_value(LsmSegmentWriter *writer)
{
	LsmValueEntry *entry = &writer->values[writer->nvalues++];

	FIN_CRC32C(entry->crc);
	Assert(writer->written - entry->offset == entry->length);
}

void
lsm_segment_writer_add_forward(LsmSegmentWriter *writer, LsmTid vtid, LsmTid root)
{
	LSM_WRITER_GROW(writer, writer->forwards, writer->props.forwards, writer->max_forwards);
	writer->forwards[writer->props.forwards].vtid = vtid;
	writer->forwards[writer->props.forwards].root = root;
	writer->props.forwards++;
}

void
lsm_segment_writer_add_dead(LsmSegmentWriter *writer, LsmTid root)
{
	LSM_WRITER_GROW(writer, writer->dead, writer->props.dead, writer->max_dead);
	writer->dead[writer->props.dead++] = root;
}

/* Of xids, and of TIDs. */
static int
lsm_writer_compare_numbers(const void *a, const void *b)
{
	uint64		left = *(const uint64 *) a;
	uint64		right = *(const uint64 *) b;

	return left < right ? -1 : left > right;
}

static void
lsm_writer_sort_unresolved(LsmSegmentWriter *writer)
{
	uint32		n = writer->props.unresolved;

	if (n < 2)
		return;
	qsort(writer->unresolved, n, sizeof(uint64), lsm_writer_compare_numbers);
	writer->props.unresolved = qunique(writer->unresolved, n, sizeof(uint64),
									   lsm_writer_compare_numbers);
}

/* Those that are there twice go when the array is full, which then is half empty, or made longer. */
void
lsm_segment_writer_add_unresolved(LsmSegmentWriter *writer, uint64 xid)
{
	LsmProperties *props = &writer->props;

	if (props->unresolved > 0 && writer->unresolved[props->unresolved - 1] == xid)
		return;
	if (props->unresolved == writer->max_unresolved)
	{
		uint32		full = writer->max_unresolved;

		lsm_writer_sort_unresolved(writer);
		if (props->unresolved >= full / 2)
			LSM_WRITER_GROW(writer, writer->unresolved, full, writer->max_unresolved);
	}
	writer->unresolved[props->unresolved++] = xid;
}

uint64
lsm_segment_writer_bytes(LsmSegmentWriter *writer)
{
	uint64		open_bytes = writer->open_bytes;

	if (writer->props.raw_bytes > 0)
		open_bytes = (uint64) ((double) open_bytes * (writer->written - writer->value_bytes) /
							   writer->props.raw_bytes);
	else
		open_bytes /= LSM_WRITER_GUESS_DIVISOR;
	return writer->written + open_bytes;
}

uint64
lsm_segment_writer_records(LsmSegmentWriter *writer)
{
	return writer->props.versions;
}

bool
lsm_segment_writer_is_empty(LsmSegmentWriter *writer)
{
	return writer->props.versions == 0 && writer->props.forwards == 0 &&
		writer->props.dead == 0 && writer->written == 0;
}

void
lsm_segment_writer_abandon(LsmSegmentWriter *writer)
{
	MemoryContextDelete(writer->context);
}

/* ---------------------------------------------------------------------
 * Finishing
 * --------------------------------------------------------------------- */

static void
lsm_writer_pad(LsmSegmentWriter *writer)
{
	static const char zeroes[MAXIMUM_ALIGNOF] = {0};

	lsm_writer_append(writer, zeroes, MAXALIGN(writer->written) - writer->written);
}

/* Note a section that ends where the stream ends now. */
static void
lsm_writer_note_section(LsmSegmentWriter *writer, uint16 kind, uint16 flags,
						uint64 length, pg_crc32c crc)
{
	LsmSectionEntry *section = &writer->sections[writer->sections_n++];

	section->kind = kind;
	section->flags = flags;
	section->crc = crc;
	section->offset = writer->written - length;
	section->length = length;
}

static void
lsm_writer_section(LsmSegmentWriter *writer, uint16 kind, uint16 flags,
				   const void *data, Size len)
{
	lsm_writer_pad(writer);
	lsm_writer_append(writer, data, len);
	lsm_writer_note_section(writer, kind, flags, len,
							lsm_segment_crc(writer->options.uid, data, len));
}

static int
lsm_writer_compare_forwards(const void *a, const void *b)
{
	LsmTid		left = ((const LsmForward *) a)->vtid;
	LsmTid		right = ((const LsmForward *) b)->vtid;

	return left < right ? -1 : left > right;
}

/*
 * Write a sorted list in chunks; index gets an LsmListEntry for each.  With
 * roots it is a list of forward entries, without one of dead roots.
 */
static void
lsm_writer_list(LsmSegmentWriter *writer, uint16 kind, uint64 n, const LsmForward *forwards,
				const LsmTid *dead, StringInfo index)
{
	static const LsmColumnType type = {.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE};
	LsmColumn  *columns[2];
	int			ncolumns = forwards != NULL ? 2 : 1;
	uint64		start;

	for (int i = 0; i < ncolumns; i++)
		columns[i] = lsm_column_create(&type, false);
	start = writer->written;
	for (uint64 at = 0; at < n; at += LSM_LIST_CHUNK)
	{
		uint32		count = (uint32) Min(n - at, LSM_LIST_CHUNK);
		LsmListHeader header;
		LsmWideEntry entries[2];
		LsmListEntry entry;
		Size		head_bytes = sizeof(header) + ncolumns * sizeof(LsmWideEntry);

		memset(entries, 0, sizeof(entries));
		memset(&entry, 0, sizeof(entry));
		header.version = LSM_LIST_VERSION;
		header.columns = ncolumns;
		header.count = count;
		entry.first = forwards != NULL ? forwards[at].vtid : dead[at];
		for (uint32 i = 0; i < count; i++)
		{
			if (forwards != NULL)
			{
				lsm_column_add(columns[0], Int64GetDatum((int64) forwards[at + i].vtid), false);
				lsm_column_add(columns[1], Int64GetDatum((int64) forwards[at + i].root), false);
			}
			else
				lsm_column_add(columns[0], Int64GetDatum((int64) dead[at + i]), false);
		}

		resetStringInfo(&writer->body);
		for (int i = 0; i < ncolumns; i++)
		{
			LsmChunkFacts facts;

			lsm_chunk_encode(writer->encoder, columns[i], &writer->body,
							 &entries[i].encoding, &entries[i].flags, &entries[i].offset,
							 &facts);
			entries[i].offset += head_bytes;
			lsm_column_reset(columns[i]);
		}
		resetStringInfo(&writer->head);
		appendBinaryStringInfo(&writer->head, (char *) &header, sizeof(header));
		appendBinaryStringInfo(&writer->head, (char *) entries, ncolumns * sizeof(LsmWideEntry));
		appendBinaryStringInfo(&writer->head, writer->body.data, writer->body.len);
		lsm_writer_append(writer, writer->head.data, writer->head.len);

		entry.length = writer->head.len;
		entry.crc = lsm_segment_crc(writer->options.uid, writer->head.data, writer->head.len);
		entry.count = count;
		appendBinaryStringInfo(index, (char *) &entry, sizeof(entry));
	}
	if (n > 0)
		lsm_writer_note_section(writer, kind, LSM_SECTION_REQUIRED,
								writer->written - start, 0);
}

/* Sort the lists, drop what is there twice, and write them. */
static void
lsm_writer_lists(LsmSegmentWriter *writer, StringInfo forward_index, StringInfo dead_index)
{
	LsmProperties *props = &writer->props;
	uint64		n = 0;

	if (props->forwards > 0)
	{
		qsort(writer->forwards, props->forwards, sizeof(LsmForward), lsm_writer_compare_forwards);
		for (uint64 i = 0; i < props->forwards; i++)
		{
			if (n > 0 && writer->forwards[n - 1].vtid == writer->forwards[i].vtid)
			{
				if (writer->forwards[n - 1].root != writer->forwards[i].root)
					elog(ERROR, "two roots for one version TID");
				continue;
			}
			writer->forwards[n++] = writer->forwards[i];
		}
		props->forwards = n;
	}
	n = 0;
	if (props->dead > 0)
	{
		qsort(writer->dead, props->dead, sizeof(LsmTid), lsm_writer_compare_numbers);
		for (uint64 i = 0; i < props->dead; i++)
		{
			if (n == 0 || writer->dead[n - 1] != writer->dead[i])
				writer->dead[n++] = writer->dead[i];
		}
		props->dead = n;
	}
	lsm_writer_list(writer, LSM_SECTION_FORWARD_DATA, props->forwards, writer->forwards,
					NULL, forward_index);
	lsm_writer_list(writer, LSM_SECTION_DEAD_DATA, props->dead, NULL, writer->dead,
					dead_index);
}

static void
lsm_writer_trailer(LsmSegmentWriter *writer, uint64 meta_offset)
{
	LsmSegmentTrailer trailer;
	Size		entries_bytes = writer->sections_n * sizeof(LsmSectionEntry);
	pg_crc32c	crc;

	memset(&trailer, 0, sizeof(trailer));
	trailer.uid = writer->options.uid;
	trailer.meta_offset = meta_offset;
	trailer.sections = writer->sections_n;
	trailer.byte_order = LSM_SEGMENT_BYTE_ORDER;
	trailer.version = LSM_SEGMENT_VERSION;
	trailer.magic = LSM_SEGMENT_MAGIC;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &writer->options.uid, sizeof(uint64));
	COMP_CRC32C(crc, writer->sections, entries_bytes);
	COMP_CRC32C(crc, &trailer, offsetof(LsmSegmentTrailer, crc));
	FIN_CRC32C(crc);
	trailer.crc = crc;

	lsm_writer_pad(writer);
	lsm_writer_append(writer, writer->sections, entries_bytes);
	lsm_writer_append(writer, &trailer, sizeof(trailer));
}

void
lsm_segment_writer_finish(LsmSegmentWriter *writer, LsmSegmentStats *stats)
{
	MemoryContext old = MemoryContextSwitchTo(writer->context);
	LsmProperties *props = &writer->props;
	StringInfoData bytes;
	StringInfoData forward_index;
	StringInfoData dead_index;
	uint64		meta_offset;
	int			dictionaries = 0;

	initStringInfo(&bytes);
	initStringInfo(&forward_index);
	initStringInfo(&dead_index);
	if (lsm_block_builder_rows(writer->builder) > 0)
		lsm_writer_end_block(writer);
	lsm_writer_note_section(writer, LSM_SECTION_BLOCKS, LSM_SECTION_REQUIRED,
							writer->written, 0);
	lsm_writer_lists(writer, &forward_index, &dead_index);

	lsm_writer_pad(writer);
	meta_offset = writer->written;
	lsm_writer_section(writer, LSM_SECTION_BLOCK_INDEX, LSM_SECTION_REQUIRED, writer->index,
					   props->blocks * sizeof(LsmBlockEntry));
	if (writer->nvalues > 0)
		lsm_writer_section(writer, LSM_SECTION_VALUES, LSM_SECTION_REQUIRED, writer->values,
						   writer->nvalues * sizeof(LsmValueEntry));
	if (props->blocks > 0)
	{
		lsm_zone_finish(writer->zones, meta_offset - writer->value_bytes, &bytes);
		lsm_writer_section(writer, LSM_SECTION_ZONES, 0, bytes.data, bytes.len);
		props->zone_blocks = writer->zones->zone_blocks;
	}
	if (writer->dictionaries)
	{
		resetStringInfo(&bytes);
		dictionaries = lsm_trainer_section(writer->trainer, &bytes);
		lsm_writer_section(writer, LSM_SECTION_DICTIONARIES, LSM_SECTION_REQUIRED,
						   bytes.data, bytes.len);
	}
	if (writer->hashes_n > 0)
	{
		resetStringInfo(&bytes);
		lsm_filter_build(writer->hashes, writer->hashes_n, &bytes);
		lsm_writer_section(writer, LSM_SECTION_FILTER, 0, bytes.data, bytes.len);
	}
	if (props->forwards > 0)
		lsm_writer_section(writer, LSM_SECTION_FORWARD_INDEX, LSM_SECTION_REQUIRED,
						   forward_index.data, forward_index.len);
	if (props->dead > 0)
		lsm_writer_section(writer, LSM_SECTION_DEAD_INDEX, LSM_SECTION_REQUIRED,
						   dead_index.data, dead_index.len);

	/* who opens a part of it reads from here to the end */
	if (props->blocks > LSM_SLICE_BLOCKS && props->kind != LSM_SEGKIND_INCREMENT &&
		writer->nvalues == 0 && props->forwards == 0 && props->dead == 0)
	{
		resetStringInfo(&bytes);
		lsm_slices_put(writer->options.uid, writer->index, props->blocks, &bytes);
		lsm_writer_section(writer, LSM_SECTION_SLICES, 0, bytes.data, bytes.len);
	}
	if (props->blocks > 0 && props->kind != LSM_SEGKIND_INCREMENT)
	{
		resetStringInfo(&bytes);
		lsm_zone_put_bounds(writer->zones, &bytes);
		lsm_writer_section(writer, LSM_SECTION_BOUNDS, 0, bytes.data, bytes.len);
	}

	/* right behind the bounds, so that the last pages have both */
	lsm_writer_sort_unresolved(writer);
	resetStringInfo(&bytes);
	appendBinaryStringInfo(&bytes, (char *) props, sizeof(*props));
	appendBinaryStringInfo(&bytes, (char *) writer->columns,
						   writer->natts * sizeof(LsmColumnEntry));
	if (props->unresolved > 0)
		appendBinaryStringInfo(&bytes, (char *) writer->unresolved,
							   props->unresolved * sizeof(uint64));
	lsm_writer_section(writer, LSM_SECTION_PROPERTIES, LSM_SECTION_REQUIRED,
					   bytes.data, bytes.len);
	lsm_writer_trailer(writer, meta_offset);

	/* nobody could open it; callers end a segment long before that */
	if (writer->written - meta_offset > LSM_SEGMENT_META_MOST)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("segment would have " UINT64_FORMAT " bytes of metadata",
						writer->written - meta_offset)));

	if (stats != NULL)
	{
		stats->first_tid = props->first_tid;
		stats->last_tid = props->last_tid;
		stats->rows = props->rows;
		stats->versions = props->versions;
		stats->blocks = props->blocks;
		stats->raw_bytes = props->raw_bytes;
		stats->value_bytes = writer->value_bytes;
		stats->stored_bytes = writer->written;
		stats->max_xid = props->max_xid;
		stats->min_uncommitted_xid = props->min_uncommitted_xid;
		stats->forwards = props->forwards;
		stats->dead = props->dead;
		stats->dictionaries = dictionaries;
		stats->unresolved = props->unresolved;
		stats->min_unresolved = props->unresolved > 0 ? writer->unresolved[0] : 0;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(writer->context);
}
