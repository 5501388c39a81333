/*-------------------------------------------------------------------------
 *
 * lsm_segment_reader.c
 *	  Opening a segment and looking things up in its metadata.
 *
 * A segment is valid if and only if its trailer, footer and the sections that
 * opening needs have the right checksums and agree with each other; a block
 * or a chunk of a list is checked when it is read.  Nothing is trusted for
 * having a right checksum: lengths, counts and order are checked here, so
 * that the rest of the reader need not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "segment/lsm_segment_format.h"
#include "utils/memutils.h"

/*
 * Report a segment that does not decode.  All of src/segment comes here, so
 * one breakpoint finds every corruption.  blockno is -1 outside of blocks.
 */
void
lsm_segment_corrupt(LsmSegmentSource *source, int64 blockno, const char *fmt,...)
{
	char		detail[512];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(detail, sizeof(detail), fmt, args);
	va_end(args);

	if (blockno >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid block %lld in segment %016llX of table \"%s\"",
						(long long) blockno, (unsigned long long) source->uid,
						source->relname),
				 errdetail_internal("%s", detail),
				 errhint("Run lsm_check() on the table, then restore it from a backup.")));
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid metadata in segment %016llX of table \"%s\"",
						(unsigned long long) source->uid, source->relname),
				 errdetail_internal("%s", detail),
				 errhint("Run lsm_check() on the table, then restore it from a backup.")));
}

/* ---------------------------------------------------------------------
 * Reading metadata in one piece
 * --------------------------------------------------------------------- */

/* What the writer makes of such a segment: zones take their budget at most. */
uint64
lsm_segment_meta_estimate(const LsmSegmentFacts *facts)
{
	uint64		bytes = LSM_READER_TAIL / 4;	/* properties and footer */

	bytes += (uint64) facts->blocks * sizeof(LsmBlockEntry);
	bytes += (uint64) facts->blocks / LSM_SLICE_BLOCKS * sizeof(LsmSliceEntry);
	bytes += facts->stored_bytes / LSM_ZONE_DIVISOR + LSM_ZONE_MIN_BUDGET;
	if (facts->kind == LSM_SEGKIND_INCREMENT)
		bytes += facts->versions * LSM_FILTER_BITS / 8;
	bytes += (facts->list_entries / LSM_LIST_CHUNK + 2) * sizeof(LsmListEntry);
	bytes += (uint64) facts->unresolved * sizeof(uint64);
	bytes += (uint64) facts->dictionaries * (LSM_DICTIONARY_BYTES + sizeof(LsmDictionaryEntry));
	return Min(bytes, facts->stored_bytes);
}

uint64
lsm_segment_meta_bytes(uint64 uid, uint64 total_bytes, const void *tail, Size tail_bytes)
{
	LsmSegmentTrailer trailer;

	if (tail_bytes < sizeof(trailer))
		return 0;
	memcpy(&trailer, (const uint8 *) tail + tail_bytes - sizeof(trailer), sizeof(trailer));
	if (trailer.magic != LSM_SEGMENT_MAGIC || trailer.byte_order != LSM_SEGMENT_BYTE_ORDER ||
		trailer.uid != uid || trailer.meta_offset > total_bytes - sizeof(trailer) ||
		total_bytes - trailer.meta_offset > LSM_SEGMENT_META_MOST)
		return 0;
	return total_bytes - trailer.meta_offset;
}

/*
 * The section entries before the trailer that the last bytes of a stream end with, if they
 * prove; else NULL.  They need not be aligned.
 */
const uint8 *
lsm_segment_footer(uint64 uid, uint64 total_bytes, const void *tail, Size tail_bytes,
				   LsmSegmentTrailer *trailer)
{
	const uint8 *end = (const uint8 *) tail + tail_bytes;
	Size		entries_bytes;
	const uint8 *entries;
	pg_crc32c	crc;

	if (lsm_segment_meta_bytes(uid, total_bytes, tail, tail_bytes) == 0)
		return NULL;
	memcpy(trailer, end - sizeof(*trailer), sizeof(*trailer));
	if (trailer->sections > (tail_bytes - sizeof(*trailer)) / sizeof(LsmSectionEntry))
		return NULL;
	entries_bytes = trailer->sections * sizeof(LsmSectionEntry);
	entries = end - sizeof(*trailer) - entries_bytes;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &uid, sizeof(uint64));
	COMP_CRC32C(crc, entries, entries_bytes);
	COMP_CRC32C(crc, trailer, offsetof(LsmSegmentTrailer, crc));
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, trailer->crc) ? entries : NULL;
}

bool
lsm_segment_meta_good(uint64 uid, uint64 total_bytes, const void *meta, Size meta_bytes)
{
	const uint8 *bytes = meta;
	LsmSegmentTrailer trailer;
	const uint8 *entries;
	pg_crc32c	crc;

	if (lsm_segment_meta_bytes(uid, total_bytes, meta, meta_bytes) != meta_bytes)
		return false;
	entries = lsm_segment_footer(uid, total_bytes, meta, meta_bytes, &trailer);
	if (entries == NULL)
		return false;
	for (uint32 i = 0; i < trailer.sections; i++)
	{
		LsmSectionEntry section;

		memcpy(&section, entries + i * sizeof(section), sizeof(section));
		if (section.kind < LSM_SECTION_BLOCK_INDEX || section.kind > LSM_SECTION_LAST)
			continue;			/* not metadata, or not known */
		if (section.offset < trailer.meta_offset || section.offset > total_bytes ||
			section.length > total_bytes - section.offset)
			return false;
		crc = lsm_segment_crc(uid, bytes + (section.offset - trailer.meta_offset),
							  section.length);
		if (!EQ_CRC32C(crc, section.crc))
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------------
 * Opening
 * --------------------------------------------------------------------- */

/* Read the trailer; its checksum needs the footer before it, see below. */
static void
lsm_reader_trailer(LsmSegmentSource *source, const uint8 *tail, Size tail_bytes,
				   LsmSegmentTrailer *trailer)
{
	if (tail_bytes < sizeof(*trailer))
		lsm_segment_corrupt(source, -1, "The segment has only " UINT64_FORMAT " bytes.",
							source->total_bytes);
	memcpy(trailer, tail + tail_bytes - sizeof(*trailer), sizeof(*trailer));
	if (trailer->magic != LSM_SEGMENT_MAGIC)
		lsm_segment_corrupt(source, -1, "The segment does not end with the magic number.");
	if (trailer->byte_order != LSM_SEGMENT_BYTE_ORDER)
		lsm_segment_corrupt(source, -1, "The segment was written with another byte order.");
	if (trailer->uid != source->uid)
		lsm_segment_corrupt(source, -1, "The segment names itself %016llX.",
							(unsigned long long) trailer->uid);
	if (trailer->meta_offset % MAXIMUM_ALIGNOF != 0 ||
		trailer->meta_offset > source->total_bytes - sizeof(*trailer) ||
		source->total_bytes - trailer->meta_offset > LSM_SEGMENT_META_MOST ||
		trailer->sections > (source->total_bytes - trailer->meta_offset - sizeof(*trailer)) /
		sizeof(LsmSectionEntry))
		lsm_segment_corrupt(source, -1, "The metadata of " UINT64_FORMAT " bytes begin at " UINT64_FORMAT " and have %u sections.",
							source->total_bytes, trailer->meta_offset, trailer->sections);
}

/* Verify the footer and note where sections are. */
static void
lsm_reader_sections(LsmSegmentReader *reader, const LsmSegmentTrailer *trailer)
{
	LsmSegmentSource *source = reader->source;
	uint64		meta_bytes = source->total_bytes - reader->meta_offset;	/* or of a part */
	Size		entries_bytes = trailer->sections * sizeof(LsmSectionEntry);
	const uint8 *entries = reader->meta + meta_bytes - sizeof(*trailer) - entries_bytes;
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &source->uid, sizeof(uint64));
	COMP_CRC32C(crc, entries, entries_bytes);
	COMP_CRC32C(crc, trailer, offsetof(LsmSegmentTrailer, crc));
	FIN_CRC32C(crc);
	if (!EQ_CRC32C(crc, trailer->crc))
		lsm_segment_corrupt(source, -1, "The footer has checksum %08X, expected %08X.",
							crc, trailer->crc);
	if (!LSM_SEGMENT_VERSION_KNOWN(trailer->version))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("segment %016llX of table \"%s\" has format version %u",
						(unsigned long long) source->uid, source->relname, trailer->version),
				 errdetail("This version of lsm reads format versions up to %d.",
						   LSM_SEGMENT_VERSION)));
	reader->loose_zones = trailer->version < LSM_ZONE_LOOSE_VERSION;

	for (uint32 i = 0; i < trailer->sections; i++)
	{
		LsmSectionEntry section;

		memcpy(&section, entries + i * sizeof(section), sizeof(section));
		if (section.flags & ~LSM_SECTION_KNOWN_FLAGS)
			lsm_segment_corrupt(source, -1, "Section %u has the unknown flags %04X.",
								section.kind, section.flags);
		if (section.kind == 0 || section.kind > LSM_SECTION_LAST)
		{
			if (section.flags & LSM_SECTION_REQUIRED)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("segment %016llX of table \"%s\" has a section of unknown kind %u",
								(unsigned long long) source->uid, source->relname,
								section.kind),
						 errhint("Use the version of lsm that wrote it, or a newer one.")));
			continue;
		}
		if (reader->sections[section.kind].kind != 0)
			lsm_segment_corrupt(source, -1, "Section %u is there twice.", section.kind);
		if (section.offset > source->total_bytes ||
			section.length > source->total_bytes - section.offset)
			lsm_segment_corrupt(source, -1, "Section %u is outside of the segment.",
								section.kind);
		if (section.kind >= LSM_SECTION_BLOCK_INDEX)
		{
			if (section.offset < trailer->meta_offset ||
				section.offset % MAXIMUM_ALIGNOF != 0)
				lsm_segment_corrupt(source, -1, "Section %u begins at " UINT64_FORMAT ".",
									section.kind, section.offset);
			crc = source->meta != NULL ? section.crc :
				lsm_segment_crc(source->uid, reader->meta + (section.offset - reader->meta_offset),
								section.length);
			if (!EQ_CRC32C(crc, section.crc))
				lsm_segment_corrupt(source, -1, "Section %u has checksum %08X, expected %08X.",
									section.kind, crc, section.crc);
		}
		reader->sections[section.kind] = section;
	}
	if (reader->sections[LSM_SECTION_BLOCKS].kind == 0 ||
		reader->sections[LSM_SECTION_BLOCK_INDEX].kind == 0 ||
		reader->sections[LSM_SECTION_PROPERTIES].kind == 0)
		lsm_segment_corrupt(source, -1, "A section that every segment has is missing.");
}

/* The bytes of a section of the metadata; NULL if there is none. */
const uint8 *
lsm_reader_section(LsmSegmentReader *reader, int kind, Size *len)
{
	const LsmSectionEntry *section = &reader->sections[kind];

	Assert(kind >= LSM_SECTION_BLOCK_INDEX);
	*len = section->length;
	if (section->kind == 0)
		return NULL;
	if (section->offset < reader->meta_offset)
	{
		*len = 0;				/* of a part that has been opened */
		return NULL;
	}
	return reader->meta + (section->offset - reader->meta_offset);
}

/* What a column is of; false if that is not sound. */
bool
lsm_reader_column_type(const LsmColumnEntry *column, LsmColumnType *type)
{
	memset(type, 0, sizeof(*type));
	type->typid = column->typid;
	type->typmod = column->typmod;
	type->collation = column->collation;
	type->typlen = column->typlen;
	type->typbyval = column->typbyval == 1;
	type->typalign = column->typalign;
	return column->typbyval <= 1 &&
		(type->typalign == TYPALIGN_CHAR || type->typalign == TYPALIGN_SHORT ||
		 type->typalign == TYPALIGN_INT || type->typalign == TYPALIGN_DOUBLE) &&
		type->typlen != 0 && type->typlen >= -2 &&
		(type->typlen != -1 || type->typalign == TYPALIGN_INT ||
		 type->typalign == TYPALIGN_DOUBLE) &&
		(type->typlen != -2 || type->typalign == TYPALIGN_CHAR) &&
		(!type->typbyval || type->typlen == 1 || type->typlen == 2 ||
		 type->typlen == 4 || type->typlen == 8) &&
		lsm_zone_order_fits(column->order, type);
}

static void
lsm_reader_properties(LsmSegmentReader *reader)
{
	LsmSegmentSource *source = reader->source;
	LsmProperties *props = &reader->props;
	Size		len;
	const uint8 *bytes = lsm_reader_section(reader, LSM_SECTION_PROPERTIES, &len);

	if (len < sizeof(*props))
		lsm_segment_corrupt(source, -1, "The properties are too short.");
	memcpy(props, bytes, sizeof(*props));
	if (len != sizeof(*props) + props->natts * sizeof(LsmColumnEntry) +
		(Size) props->unresolved * sizeof(uint64))
		lsm_segment_corrupt(source, -1,
							"The properties of %u columns and %u transactions have %zu bytes.",
							props->natts, props->unresolved, len);
	if (props->kind < LSM_SEGKIND_INSERT || props->kind > LSM_SEGKIND_DEAD || props->flags != 0)
		lsm_segment_corrupt(source, -1, "The segment is of unknown kind %u with flags %02X.",
							props->kind, props->flags);
	reader->columns = (const LsmColumnEntry *) (bytes + sizeof(*props));
	reader->unresolved = (const uint64 *) (bytes + sizeof(*props) +
										   props->natts * sizeof(LsmColumnEntry));

	reader->types = palloc0(Max(props->natts, 1) * sizeof(LsmColumnType));
	for (int i = 0; i < props->natts; i++)
		if (!lsm_reader_column_type(&reader->columns[i], &reader->types[i]))
			lsm_segment_corrupt(source, -1, "The type of column %d is not sound.", i + 1);
}

static void
lsm_reader_values(LsmSegmentReader *reader)
{
	Size		len;

	reader->values = (const LsmValueEntry *) lsm_reader_section(reader, LSM_SECTION_VALUES, &len);
	if (reader->values == NULL)
		return;
	if (len % sizeof(LsmValueEntry) != 0 || len / sizeof(LsmValueEntry) > PG_UINT32_MAX)
		lsm_segment_corrupt(reader->source, -1, "The value index has %zu bytes.", len);
	reader->nvalues = len / sizeof(LsmValueEntry);
}

/*
 * Go past the large values that come before a block; *next is the first of them.
 */
static uint64
lsm_reader_skip_values(LsmSegmentReader *reader, uint32 blockno, uint64 offset, uint32 *next)
{
	while (*next < reader->nvalues && reader->values[*next].block == blockno)
	{
		const LsmValueEntry *entry = &reader->values[*next];

		if (entry->offset != offset || entry->length == 0 || entry->reserved != 0)
			lsm_segment_corrupt(reader->source, -1,
								"The entry of large value %u is not sound.", *next);
		offset += entry->length;
		(*next)++;
	}
	return offset;
}

/* May an entry come after another one (NULL: none)?  many: records of a root may go on in it. */
bool
lsm_block_entry_sound(const LsmBlockEntry *entry, const LsmBlockEntry *previous, bool many)
{
	return entry->length >= sizeof(LsmBlockHeader) &&
		entry->length <= MaxAllocSize - LSM_CODEC_SLACK &&
		entry->rows > 0 && entry->rows <= LSM_BLOCK_MAX_ROWS && entry->first <= entry->last &&
		(previous == NULL || entry->first > previous->last ||
		 (many && entry->first == previous->last));
}

static void
lsm_reader_index(LsmSegmentReader *reader)
{
	LsmSegmentSource *source = reader->source;
	LsmProperties *props = &reader->props;
	const LsmSectionEntry *blocks = &reader->sections[LSM_SECTION_BLOCKS];
	bool		many = props->kind == LSM_SEGKIND_INCREMENT;
	uint64		offset = blocks->offset;
	uint64		versions = 0;
	uint32		value = 0;
	Size		len;

	reader->index = (const LsmBlockEntry *)
		lsm_reader_section(reader, LSM_SECTION_BLOCK_INDEX, &len);
	if (len != (Size) props->blocks * sizeof(LsmBlockEntry))
		lsm_segment_corrupt(source, -1, "The index of %u blocks has %zu bytes.",
							props->blocks, len);
	reader->offsets = palloc(Max(props->blocks, 1) * sizeof(uint64));
	for (uint32 i = 0; i < props->blocks; i++)
	{
		const LsmBlockEntry *entry = &reader->index[i];

		if (reader->nvalues > 0)
			offset = lsm_reader_skip_values(reader, i, offset, &value);
		reader->offsets[i] = offset;
		if (!lsm_block_entry_sound(entry, i > 0 ? entry - 1 : NULL, many))
			lsm_segment_corrupt(source, -1, "The index entry of block %u is not sound.", i);
		offset += entry->length;
		versions += entry->rows;
	}
	if (offset - blocks->offset != blocks->length || versions != props->versions ||
		value != reader->nvalues ||
		(props->blocks > 0 && (props->first_tid != reader->index[0].first ||
							   props->last_tid != reader->index[props->blocks - 1].last)))
		lsm_segment_corrupt(source, -1, "The block index does not agree with the properties.");
}

/* Find where each zone begins. */
static void
lsm_reader_zones(LsmSegmentReader *reader)
{
	LsmProperties *props = &reader->props;
	Size		len;
	const uint8 *start = lsm_reader_section(reader, LSM_SECTION_ZONES, &len);
	const uint8 *p = start;
	uint32		zones;

	if (start == NULL || props->blocks == 0)
		return;
	if (props->zone_blocks == 0 || len > MaxAllocSize)
		lsm_segment_corrupt(reader->source, -1, "A zone has no blocks.");
	zones = (props->blocks - 1) / props->zone_blocks + 1;
	reader->zones = palloc(zones * sizeof(uint32));
	for (uint32 zone = 0; zone < zones; zone++)
	{
		reader->zones[zone] = p - start;
		for (int i = 0; i < props->natts; i++)
		{
			if (!lsm_zone_skip(&p, start + len, reader->columns[i].order,
							   reader->columns[i].typlen))
				lsm_segment_corrupt(reader->source, -1,
									"Zone %u of column %d is not sound.", zone, i + 1);
		}
	}
	if (p != start + len)
		lsm_segment_corrupt(reader->source, -1, "There are more bytes than zones.");
}

/* Check the index of a list; returns where each chunk is, NULL if no list. */
static uint64 *
lsm_reader_list(LsmSegmentReader *reader, int data_kind, int index_kind, uint64 count)
{
	LsmSegmentSource *source = reader->source;
	const LsmSectionEntry *data = &reader->sections[data_kind];
	Size		len;
	const LsmListEntry *entries =
	(const LsmListEntry *) lsm_reader_section(reader, index_kind, &len);
	uint64		offset = data->offset;
	uint64	   *offsets;
	Size		n = len / sizeof(LsmListEntry);

	if ((entries == NULL) != (count == 0) || (data->kind == 0) != (count == 0) ||
		len % sizeof(LsmListEntry) != 0)
		lsm_segment_corrupt(source, -1, "A list of " UINT64_FORMAT " entries has an index of %zu bytes.",
							count, len);
	if (entries == NULL)
		return NULL;
	offsets = palloc(Max(n, 1) * sizeof(uint64));
	for (Size i = 0; i < n; i++)
	{
		offsets[i] = offset;
		if (entries[i].count == 0 || entries[i].count > LSM_LIST_CHUNK ||
			entries[i].count > count || entries[i].reserved != 0 ||
			entries[i].length < sizeof(LsmListHeader) ||
			entries[i].length > data->length ||
			(i > 0 && entries[i].first <= entries[i - 1].first))
			lsm_segment_corrupt(source, -1, "The index entry of list chunk %zu is not sound.", i);
		offset += entries[i].length;
		count -= entries[i].count;
	}
	if (count != 0 || offset - data->offset != data->length)
		lsm_segment_corrupt(source, -1, "The index of a list does not agree with the list.");
	return offsets;
}

static void
lsm_reader_dictionaries(LsmSegmentReader *reader)
{
	Size		len;
	const uint8 *section = lsm_reader_section(reader, LSM_SECTION_DICTIONARIES, &len);

	if (section != NULL)
		reader->dictionaries = lsm_dictionaries_load(reader->source, reader->props.natts,
													 section, len, reader->context);
}

/* The same where they have not been read with the rest. */
static void
lsm_reader_dictionaries_apart(LsmSegmentReader *reader)
{
	LsmSegmentSource *source = reader->source;
	const LsmSectionEntry *section = &reader->sections[LSM_SECTION_DICTIONARIES];
	pg_crc32c	crc;
	uint8	   *bytes;

	if (section->kind == 0)
		return;
	bytes = palloc(section->length + LSM_CODEC_SLACK);
	source->read(source, section->offset, section->length, bytes);
	crc = lsm_segment_crc(source->uid, bytes, section->length);
	if (!EQ_CRC32C(crc, section->crc))
		lsm_segment_corrupt(source, -1, "Section %u has checksum %08X, expected %08X.",
							section->kind, crc, section->crc);
	reader->dictionaries = lsm_dictionaries_load(source, reader->props.natts, bytes,
												 section->length, reader->context);
	pfree(bytes);
}

/* Have the metadata, and its trailer. */
static void
lsm_reader_meta(LsmSegmentReader *reader, LsmSegmentTrailer *trailer)
{
	LsmSegmentSource *source = reader->source;
	Size		tail_bytes = (Size) Min(source->total_bytes, LSM_READER_TAIL);
	uint64		meta_bytes;
	uint8	   *tail;

	if (source->meta != NULL)
	{
		lsm_reader_trailer(source, source->meta, source->meta_bytes, trailer);
		reader->meta_offset = source->total_bytes - source->meta_bytes;
		reader->meta = source->meta;
		if (source->total_bytes - trailer->meta_offset != source->meta_bytes && !source->part)
			lsm_segment_corrupt(source, -1, "There are %zu bytes of metadata, and not " UINT64_FORMAT ".",
								source->meta_bytes, source->total_bytes - trailer->meta_offset);
		return;
	}
	tail = palloc(tail_bytes + 1);
	source->read(source, source->total_bytes - tail_bytes, tail_bytes, tail);
	lsm_reader_trailer(source, tail, tail_bytes, trailer);
	reader->meta_offset = trailer->meta_offset;
	meta_bytes = source->total_bytes - trailer->meta_offset;
	reader->meta = palloc(meta_bytes + LSM_CODEC_SLACK);
	if (meta_bytes <= tail_bytes)
		memcpy(reader->meta, tail + tail_bytes - meta_bytes, meta_bytes);
	else
		source->read(source, trailer->meta_offset, meta_bytes, reader->meta);
	pfree(tail);
}

static void
lsm_reader_open_all(LsmSegmentReader *reader)
{
	LsmSegmentTrailer trailer;
	Size		len;

	lsm_reader_meta(reader, &trailer);
	lsm_reader_sections(reader, &trailer);
	lsm_reader_properties(reader);
	if (reader->source->part)
	{
		lsm_reader_slices(reader);
		lsm_reader_dictionaries_apart(reader);
		return;
	}
	lsm_reader_values(reader);
	lsm_reader_index(reader);
	lsm_reader_zones(reader);
	lsm_reader_check_bounds(reader);
	lsm_reader_dictionaries(reader);
	reader->filter = lsm_reader_section(reader, LSM_SECTION_FILTER, &len);
	if (reader->filter != NULL && !lsm_filter_check(reader->filter, len))
		reader->filter = NULL;
	reader->forward_offsets = lsm_reader_list(reader, LSM_SECTION_FORWARD_DATA,
											  LSM_SECTION_FORWARD_INDEX,
											  reader->props.forwards);
	reader->dead_offsets = lsm_reader_list(reader, LSM_SECTION_DEAD_DATA,
										   LSM_SECTION_DEAD_INDEX, reader->props.dead);
}

LsmSegmentReader *
lsm_segment_reader_open(LsmSegmentSource *source)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm segment reader",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LsmSegmentReader *reader = palloc0(sizeof(LsmSegmentReader));

	reader->context = context;
	reader->source = source;
	reader->forwards_chunk = -1;
	PG_TRY();
	{
		lsm_reader_open_all(reader);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		MemoryContextDelete(context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	return reader;
}

void
lsm_segment_reader_close(LsmSegmentReader *reader)
{
	MemoryContextDelete(reader->context);
}

LsmSegmentKind
lsm_segment_reader_kind(LsmSegmentReader *reader)
{
	return (LsmSegmentKind) reader->props.kind;
}

uint32
lsm_segment_reader_blocks(LsmSegmentReader *reader)
{
	return reader->props.blocks;
}

void *
lsm_segment_reader_note(LsmSegmentReader *reader, Size bytes)
{
	if (reader->note == NULL)
		reader->note = MemoryContextAllocZero(reader->context, bytes);
	return reader->note;
}

Size
lsm_segment_dictionaries_memory(LsmSegmentReader *reader)
{
	return reader->dictionaries == NULL ? 0 : lsm_dictionaries_memory(reader->dictionaries);
}

bool
lsm_segment_block_good(LsmSegmentReader *reader, uint32 blockno, const void *bytes)
{
	const LsmBlockEntry *entry = lsm_reader_entry(reader, blockno);

	return EQ_CRC32C(lsm_segment_crc(reader->source->uid, bytes, entry->length), entry->crc);
}

void
lsm_segment_block_bytes(LsmSegmentReader *reader, uint32 blockno, void *bytes)
{
	const LsmBlockEntry *entry = lsm_reader_entry(reader, blockno);

	reader->source->read(reader->source, lsm_reader_offset(reader, blockno), entry->length, bytes);
	if (!lsm_segment_block_good(reader, blockno, bytes))
		lsm_segment_corrupt(reader->source, blockno, "Its checksum is not %08X.", entry->crc);
}

/* ---------------------------------------------------------------------
 * Large values
 * --------------------------------------------------------------------- */

bool
lsm_segment_find_value(LsmSegmentReader *reader, uint64 offset, LsmSegmentValue *value)
{
	uint32		low = 0;
	uint32		high = reader->nvalues;

	while (low < high)
	{
		uint32		middle = low + (high - low) / 2;

		if (reader->values[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low >= reader->nvalues)
		return false;
	value->offset = reader->values[low].offset;
	value->length = reader->values[low].length;
	value->crc = reader->values[low].crc;
	return true;
}

bool
lsm_segment_value_good(uint64 uid, const LsmSegmentValue *value, const char *bytes)
{
	pg_crc32c	crc = lsm_segment_crc(uid, bytes, value->length);

	return EQ_CRC32C(crc, value->crc);
}

/* ---------------------------------------------------------------------
 * Blocks
 * --------------------------------------------------------------------- */

/* Where the block of a root would be, which the segment may have, if all were alike. */
static inline uint32
lsm_segment_likely_block(const LsmSegmentReader *reader, LsmTid root)
{
	uint64		first = LSM_TID_LB(reader->props.first_tid);
	uint64		lbs = LSM_TID_LB(reader->props.last_tid) - first + 1;

	return (uint32) ((LSM_TID_LB(root) - first) * reader->props.blocks / lbs);
}

void
lsm_segment_foresee(const LsmSegmentReader *reader, LsmTid root)
{
	if (root < reader->props.first_tid || root > reader->props.last_tid)
		return;
	if (reader->index == NULL)
		lsm_slices_foresee(reader, root, false);
	else
		lsm_prefetch(&reader->index[lsm_segment_likely_block(reader, root)]);
}

void
lsm_segment_foresee_entry(const LsmSegmentReader *reader, LsmTid root)
{
	if (reader->index == NULL && root >= reader->props.first_tid)
		lsm_slices_foresee(reader, root, true);
}

/*
 * Records of one root may go on in the next block, if that begins with the
 * same root; this finds the first of them.
 */
uint32
lsm_segment_find_block(LsmSegmentReader *reader, LsmTid tid)
{
	const LsmBlockEntry *index = reader->index;
	uint32		n = reader->props.blocks;
	uint32		low = 0;
	uint32		high = n;
	uint32		at = reader->found;

	/* often it is the block found last */
	if (at < n && (index != NULL || reader->sliced[at / LSM_SLICE_BLOCKS] != NULL))
	{
		const LsmBlockEntry *entry = lsm_reader_entry(reader, at);

		if (entry->first < tid && tid <= entry->last)
			return at;
	}
	if (index == NULL)
	{
		reader->found = lsm_slices_find_block(reader, tid);
		return reader->found;
	}

	/* else near the place that it would have if all blocks were alike */
	if (n > 4 && tid > reader->props.first_tid && tid <= reader->props.last_tid)
	{
		uint32		step = 1;

		at = lsm_segment_likely_block(reader, tid);
		if (index[at].last < tid)
		{
			low = at + 1;
			while (high - low > step && index[low + step].last < tid)
			{
				low += step + 1;
				step *= 2;
			}
			high = Min(high, low + step);
		}
		else
		{
			high = at;
			while (high > step && index[high - step].last >= tid)
			{
				high -= step;
				step *= 2;
			}
			low = high > step ? high - step + 1 : 0;
		}
	}
	reader->found = lsm_block_entries_search(index, low, high, tid);
	return reader->found;
}

void
lsm_segment_block_info(LsmSegmentReader *reader, uint32 blockno,
					   LsmTid *first, LsmTid *last, uint32 *rows,
					   uint64 *offset, uint32 *stored_bytes)
{
	const LsmBlockEntry *entry = lsm_reader_entry(reader, blockno);

	Assert(blockno < reader->props.blocks);
	if (first)
		*first = entry->first;
	if (last)
		*last = entry->last;
	if (rows)
		*rows = entry->rows;
	if (offset)
		*offset = lsm_reader_offset(reader, blockno);
	if (stored_bytes)
		*stored_bytes = entry->length;
}

bool
lsm_segment_may_contain(LsmSegmentReader *reader, LsmTid root)
{
	uint32		blockno;

	if (root < reader->props.first_tid || root > reader->props.last_tid)
		return false;
	if (reader->filter != NULL)
		return lsm_filter_may_contain(reader->filter, lsm_filter_hash(root));
	blockno = lsm_segment_find_block(reader, root);
	return blockno < reader->props.blocks && lsm_reader_entry(reader, blockno)->first <= root;
}

/* ---------------------------------------------------------------------
 * Lists
 * --------------------------------------------------------------------- */

/*
 * Read one chunk of a list into arrays of its count of entries; roots is NULL
 * for a list of one column.
 */
static void
lsm_reader_list_chunk(LsmSegmentReader *reader, uint64 offset, const LsmListEntry *entry,
					  LsmForward *forwards, LsmTid *tids)
{
	static const LsmColumnType type = {.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE};
	LsmSegmentSource *source = reader->source;
	LsmCodecPlace place = {source, -1};
	int			columns = forwards != NULL ? 2 : 1;
	LsmListHeader header;
	LsmWideEntry entries[2];
	LsmTid		previous = 0;
	pg_crc32c	crc;
	MemoryContext context;
	MemoryContext old;
	uint8	   *data;

	context = AllocSetContextCreate(CurrentMemoryContext, "lsm list chunk",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	data = palloc0((Size) entry->length + LSM_CODEC_SLACK);
	source->read(source, offset, entry->length, data);
	crc = lsm_segment_crc(source->uid, data, entry->length);
	if (!EQ_CRC32C(crc, entry->crc))
		lsm_segment_corrupt(source, -1, "A list chunk has checksum %08X, expected %08X.",
							crc, entry->crc);
	memcpy(&header, data, sizeof(header));
	if (header.version != LSM_LIST_VERSION)
		lsm_segment_corrupt(source, -1, "A list chunk has the unknown format version %u.",
							header.version);
	if (header.columns != columns || header.count != entry->count ||
		entry->length < sizeof(header) + columns * sizeof(LsmWideEntry))
		lsm_segment_corrupt(source, -1, "A list chunk has %u columns and %u entries.",
							header.columns, header.count);
	memcpy(entries, data + sizeof(header), columns * sizeof(LsmWideEntry));
	for (int i = 0; i < columns; i++)
	{
		uint32		start = entries[i].offset;
		uint32		end = i + 1 < columns ? entries[i + 1].offset : entry->length;
		LsmChunk   *chunk;
		Datum	   *values;
		bool	   *isnull;

		if (entries[i].reserved != 0 || start > end || end > entry->length)
			lsm_segment_corrupt(source, -1, "A list chunk has a column at %u to %u of %u bytes.",
								start, end, entry->length);
		chunk = lsm_chunk_open(context, &place, &type, entries[i].encoding, entries[i].flags,
							   data + start, end - start, entry->count);
		lsm_chunk_decode(chunk, &values, &isnull);
		for (uint32 row = 0; row < entry->count; row++)
		{
			LsmTid		tid = (LsmTid) DatumGetInt64(values[row]);

			if (isnull[row] || (i == 0 && row > 0 && tid <= previous) ||
				(i == 0 && row == 0 && tid != entry->first))
				lsm_segment_corrupt(source, -1, "A list chunk is not in order.");
			previous = tid;
			if (forwards == NULL)
				tids[row] = tid;
			else if (i == 0)
				forwards[row].vtid = tid;
			else
				forwards[row].root = tid;
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

LsmTid
lsm_segment_forward(LsmSegmentReader *reader, LsmTid vtid)
{
	Size		len;
	const LsmListEntry *entries =
	(const LsmListEntry *) lsm_reader_section(reader, LSM_SECTION_FORWARD_INDEX, &len);
	Size		low = 0;
	Size		high = len / sizeof(LsmListEntry);

	/* The last chunk that does not begin after it. */
	while (low < high)
	{
		Size		middle = low + (high - low) / 2;

		if (entries[middle].first <= vtid)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return LSM_INVALID_TID;
	low--;

	if (reader->forwards_chunk != (int64) low)
	{
		if (reader->forwards == NULL)
			reader->forwards = MemoryContextAlloc(reader->context,
												  LSM_LIST_CHUNK * sizeof(LsmForward));
		reader->forwards_chunk = -1;
		lsm_reader_list_chunk(reader, reader->forward_offsets[low], &entries[low],
							  reader->forwards, NULL);
		reader->forwards_n = entries[low].count;
		reader->forwards_chunk = (int64) low;
	}
	low = 0;
	high = reader->forwards_n;
	while (low < high)
	{
		Size		middle = low + (high - low) / 2;

		if (reader->forwards[middle].vtid < vtid)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < reader->forwards_n && reader->forwards[low].vtid == vtid)
		return reader->forwards[low].root;
	return LSM_INVALID_TID;
}

LsmForward *
lsm_segment_read_forwards(LsmSegmentReader *reader, uint64 *n)
{
	Size		len;
	const LsmListEntry *entries =
	(const LsmListEntry *) lsm_reader_section(reader, LSM_SECTION_FORWARD_INDEX, &len);
	LsmForward *result;
	uint64		at = 0;

	*n = reader->props.forwards;
	if (*n == 0)
		return NULL;
	result = MemoryContextAllocHuge(CurrentMemoryContext, *n * sizeof(LsmForward));
	for (Size i = 0; i < len / sizeof(LsmListEntry); i++)
	{
		lsm_reader_list_chunk(reader, reader->forward_offsets[i], &entries[i],
							  result + at, NULL);
		at += entries[i].count;
	}
	return result;
}

LsmTid *
lsm_segment_read_dead(LsmSegmentReader *reader, uint64 *n)
{
	Size		len;
	const LsmListEntry *entries =
	(const LsmListEntry *) lsm_reader_section(reader, LSM_SECTION_DEAD_INDEX, &len);
	LsmTid	   *result;
	uint64		at = 0;

	*n = reader->props.dead;
	if (*n == 0)
		return NULL;
	result = MemoryContextAllocHuge(CurrentMemoryContext, *n * sizeof(LsmTid));
	for (Size i = 0; i < len / sizeof(LsmListEntry); i++)
	{
		lsm_reader_list_chunk(reader, reader->dead_offsets[i], &entries[i], NULL, result + at);
		at += entries[i].count;
	}
	return result;
}

/* Is a root in the list of dead ones? */
bool
lsm_segment_has_dead(LsmSegmentReader *reader, LsmTid root)
{
	Size		len;
	const LsmListEntry *entries =
	(const LsmListEntry *) lsm_reader_section(reader, LSM_SECTION_DEAD_INDEX, &len);
	LsmTid		tids[LSM_LIST_CHUNK];
	Size		low = 0;
	Size		high = len / sizeof(LsmListEntry);
	uint32		first = 0;
	uint32		end;

	/* the last chunk that does not begin after it */
	while (low < high)
	{
		Size		middle = low + (high - low) / 2;

		if (entries[middle].first <= root)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	low--;
	lsm_reader_list_chunk(reader, reader->dead_offsets[low], &entries[low], NULL, tids);
	end = entries[low].count;
	while (first < end)
	{
		uint32		middle = first + (end - first) / 2;

		if (tids[middle] < root)
			first = middle + 1;
		else
			end = middle;
	}
	return first < entries[low].count && tids[first] == root;
}

uint64 *
lsm_segment_unresolved(LsmSegmentReader *reader, uint32 *n)
{
	uint64	   *result;

	*n = reader->props.unresolved;
	if (*n == 0)
		return NULL;
	result = palloc(*n * sizeof(uint64));
	memcpy(result, reader->unresolved, *n * sizeof(uint64));
	return result;
}

int64
lsm_segment_find_unresolved(LsmSegmentReader *reader, uint64 xid)
{
	uint32		lo = 0;
	uint32		hi = reader->props.unresolved;

	while (lo < hi)
	{
		uint32		mid = lo + (hi - lo) / 2;
		uint64		found;

		memcpy(&found, reader->unresolved + mid, sizeof(found));
		if (found == xid)
			return mid;
		if (found < xid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return -1;
}

/* ---------------------------------------------------------------------
 * Zones and types
 * --------------------------------------------------------------------- */

/* The zone of a block, of its first column on; NULL if there are none. */
const uint8 *
lsm_reader_zone(LsmSegmentReader *reader, uint32 blockno, const uint8 **end)
{
	Size		len;
	const uint8 *start;

	Assert(blockno < reader->props.blocks);
	if (reader->zones == NULL)
		return NULL;
	start = lsm_reader_section(reader, LSM_SECTION_ZONES, &len);
	*end = start + len;
	return start + reader->zones[blockno / reader->props.zone_blocks];
}

bool
lsm_segment_zone(LsmSegmentReader *reader, uint32 blockno, int attnum, LsmZone *zone)
{
	const uint8 *end;
	const uint8 *p = lsm_reader_zone(reader, blockno, &end);

	if (p == NULL || attnum < 1 || attnum > reader->props.natts)
		return false;
	for (int i = 0; i < attnum - 1; i++)
		p = lsm_zone_step(p);
	if (!lsm_zone_get(p, reader->columns[attnum - 1].order, &reader->types[attnum - 1], zone))
		return false;
	zone->loose |= reader->loose_zones;
	return true;
}

LsmZoneName
lsm_segment_name_zone(LsmSegmentReader *reader, uint32 blockno)
{
	LsmZoneName name = {reader->source->uid, blockno / Max(reader->props.zone_blocks, 1)};

	return name;
}

bool
lsm_segment_is_zone(LsmSegmentReader *reader, uint32 blockno, const LsmZoneName *name)
{
	return name->uid == reader->source->uid &&
		name->number == blockno / Max(reader->props.zone_blocks, 1);
}

void
lsm_segment_zone_roots(LsmSegmentReader *reader, uint32 blockno, LsmTid *first, LsmTid *last)
{
	uint32		zone_blocks = reader->props.zone_blocks;
	uint32		from = blockno / zone_blocks * zone_blocks;
	uint32		to = Min(from + zone_blocks, lsm_segment_reader_blocks(reader)) - 1;
	LsmTid		other;
	uint32		rows;
	uint64		offset;
	uint32		stored;

	lsm_segment_block_info(reader, from, first, &other, &rows, &offset, &stored);
	lsm_segment_block_info(reader, to, &other, last, &rows, &offset, &stored);
}

Oid
lsm_segment_column_type(LsmSegmentReader *reader, int attnum)
{
	if (attnum < 1 || attnum > reader->props.natts)
		return InvalidOid;
	return reader->types[attnum - 1].typid;
}

int
lsm_segment_column_length(LsmSegmentReader *reader, int attnum)
{
	Assert(attnum >= 1 && attnum <= reader->props.natts);
	return reader->types[attnum - 1].typlen;
}
