/*-------------------------------------------------------------------------
 *
 * lsm_slices.c
 *	  The block index of a segment, a slice at a time.
 *
 * Metadata are a fiftieth of a segment.  A scan has use for all of them, but to look up one
 * row takes one entry of the block index; in a table of which not all metadata fit in memory
 * each row would cost a megabyte.  So a section near the end of a segment tells for each 256
 * blocks with which root they begin, where they lie, and the checksum of their part of the
 * block index.  It is read together with the properties, as a rule by one request, and then
 * of the block index only what is asked for.
 *
 * Whoever asks such a reader for an entry of the block index has made sure that its slice is
 * there.
 *
 * Segments with large values, forward entries or dead roots have no such section, nor have
 * increments, whose filters are needed to look up anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_segment_format.h"

StaticAssertDecl(LSM_SLICE_BLOCKS <= PG_UINT8_MAX + 1, "numbers of a slice's blocks have 8 bits");

/* So many slices are looked at one after the other. */
#define LSM_SLICES_FEW			8

/* ---- writing ---- */

void
lsm_slices_put(uint64 uid, const LsmBlockEntry *index, uint32 blocks, StringInfo out)
{
	LsmSlicesHeader header = {.blocks = LSM_SLICE_BLOCKS};
	uint64		offset = 0;

	header.count = (blocks - 1) / LSM_SLICE_BLOCKS + 1;
	appendBinaryStringInfo(out, (char *) &header, sizeof(header));
	for (uint32 at = 0; at < blocks; at += LSM_SLICE_BLOCKS)
	{
		uint32		n = Min(blocks - at, LSM_SLICE_BLOCKS);
		LsmSliceEntry entry = {.first = index[at].first,.offset = offset};

		entry.crc = lsm_segment_crc(uid, index + at, n * sizeof(LsmBlockEntry));
		appendBinaryStringInfo(out, (char *) &entry, sizeof(entry));
		for (uint32 i = 0; i < n; i++)
			offset += index[at + i].length;
	}
}

/* ---- opening ---- */

uint64
lsm_segment_part_bytes(uint64 uid, uint64 total_bytes, const void *tail, Size tail_bytes)
{
	uint64		tail_offset = total_bytes - tail_bytes;
	LsmSegmentTrailer trailer;
	const uint8 *entries = lsm_segment_footer(uid, total_bytes, tail, tail_bytes, &trailer);
	uint64		begin = total_bytes;
	int			found = 0;

	if (entries == NULL || !LSM_SEGMENT_VERSION_KNOWN(trailer.version))
		return 0;
	for (uint32 i = 0; i < trailer.sections; i++)
	{
		LsmSectionEntry section;
		pg_crc32c	crc;

		memcpy(&section, entries + i * sizeof(section), sizeof(section));
		if (section.kind == LSM_SECTION_VALUES || section.kind == LSM_SECTION_FORWARD_DATA ||
			section.kind == LSM_SECTION_DEAD_DATA)
			return 0;
		if (section.kind != LSM_SECTION_SLICES && section.kind != LSM_SECTION_PROPERTIES)
			continue;
		if (section.offset < tail_offset || section.offset > total_bytes ||
			section.length > total_bytes - section.offset ||
			section.offset % MAXIMUM_ALIGNOF != 0)
			return 0;
		crc = lsm_segment_crc(uid, (const uint8 *) tail + (section.offset - tail_offset),
							  section.length);
		if (!EQ_CRC32C(crc, section.crc))
			return 0;
		begin = Min(begin, section.offset);
		found++;
	}

	/* it has what says so, too */
	if (found != 2 || total_bytes - begin < sizeof(trailer) + trailer.sections * sizeof(LsmSectionEntry))
		return 0;
	return total_bytes - begin;
}

/* Have slices, and room for what they will bring. */
void
lsm_reader_slices(LsmSegmentReader *reader)
{
	LsmSegmentSource *source = reader->source;
	uint32		blocks = reader->props.blocks;
	LsmSlicesHeader header;
	Size		len;
	const uint8 *section = lsm_reader_section(reader, LSM_SECTION_SLICES, &len);

	if (section == NULL || len < sizeof(header))
		lsm_segment_corrupt(source, -1, "The slices are too short.");
	memcpy(&header, section, sizeof(header));
	if (blocks == 0 || header.blocks != LSM_SLICE_BLOCKS ||
		header.count != (blocks - 1) / LSM_SLICE_BLOCKS + 1 ||
		len != sizeof(header) + header.count * sizeof(LsmSliceEntry) ||
		reader->sections[LSM_SECTION_BLOCK_INDEX].length != (uint64) blocks * sizeof(LsmBlockEntry))
		lsm_segment_corrupt(source, -1, "The %u slices of %u blocks have %zu bytes.",
							header.count, blocks, len);
	reader->slices = (const LsmSliceEntry *) (section + sizeof(header));
	reader->nslices = header.count;
	for (uint32 i = 0; i < header.count; i++)
	{
		const LsmSliceEntry *slice = &reader->slices[i];

		if (slice->reserved != 0 || slice->offset > reader->sections[LSM_SECTION_BLOCKS].length ||
			(i == 0 ? slice->first != reader->props.first_tid || slice->offset != 0 :
			 slice->first <= slice[-1].first || slice->offset <= slice[-1].offset))
			lsm_segment_corrupt(source, -1, "The entry of slice %u is not sound.", i);
	}
	reader->sliced = palloc0(header.count * sizeof(LsmSlice *));
}

Size
lsm_segment_slice_memory(void)
{
	return sizeof(LsmSlice);
}

/* ---- asking ---- */

/* The slice that has a root, if any has; it is not before the first. */
static uint32
lsm_slices_find(const LsmSegmentReader *reader, LsmTid root)
{
	uint32		low = 1;
	uint32		high = reader->nslices;

	/* few are counted sooner than searched */
	if (high <= LSM_SLICES_FEW)
	{
		uint32		before = 0;

		for (uint32 i = 1; i < high; i++)
			before += reader->slices[i].first <= root;
		return before;
	}
	while (low < high)
	{
		uint32		middle = low + (high - low) / 2;

		if (reader->slices[middle].first <= root)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

static inline uint32
lsm_slice_end(const LsmSegmentReader *reader, uint32 slice)
{
	return Min((slice + 1) * LSM_SLICE_BLOCKS, reader->props.blocks);
}

int64
lsm_segment_missing_for_block(const LsmSegmentReader *reader, uint32 blockno)
{
	uint32		slice = blockno / LSM_SLICE_BLOCKS;

	return reader->index != NULL || reader->sliced[slice] != NULL ? -1 : (int64) slice;
}

/* A root between two slices leads to the first block of the second one. */
int64
lsm_segment_missing_for_root(const LsmSegmentReader *reader, LsmTid root)
{
	uint32		slice;

	if (reader->index != NULL)
		return -1;
	slice = lsm_slices_find(reader, root);
	if (reader->sliced[slice] == NULL)
		return slice;
	if (slice + 1 < reader->nslices && reader->sliced[slice + 1] == NULL &&
		lsm_reader_entry(reader, lsm_slice_end(reader, slice) - 1)->last < root)
		return slice + 1;
	return -1;
}

/* The run of a slice that an LB is in, as far as there are any. */
static inline uint32
lsm_slice_run(const LsmSlice *slice, BlockNumber lb)
{
	return lb <= slice->first_lb ? 0 :
		Min((lb - slice->first_lb) >> slice->shift, LSM_SLICE_RUNS - 1);
}

/* Find out which block each run begins in. */
static void
lsm_slice_set_runs(LsmSlice *slice, uint32 n)
{
	uint32		last_lb = LSM_TID_LB(slice->index[n - 1].last);
	uint32		block = 0;

	slice->first_lb = LSM_TID_LB(slice->index[0].first);
	while ((last_lb - slice->first_lb) >> slice->shift >= LSM_SLICE_RUNS)
		slice->shift++;
	for (uint32 run = 0; run <= LSM_SLICE_RUNS; run++)
	{
		uint64		lb = slice->first_lb + ((uint64) run << slice->shift);

		while (block < n - 1 && LSM_TID_LB(slice->index[block].last) < lb)
			block++;
		slice->runs[run] = block;
	}
}

/* As lsm_segment_find_block(), of a reader that has slices. */
uint32
lsm_slices_find_block(const LsmSegmentReader *reader, LsmTid tid)
{
	uint32		at = lsm_slices_find(reader, tid);
	const LsmSlice *slice = reader->sliced[at];
	uint32		from = at * LSM_SLICE_BLOCKS;
	uint32		n = lsm_slice_end(reader, at) - from;
	uint32		run;

	Assert(slice != NULL);
	if (tid > slice->index[n - 1].last)
		return from + n;
	run = lsm_slice_run(slice, LSM_TID_LB(tid));
	return from + lsm_block_entries_search(slice->index, slice->runs[run], slice->runs[run + 1],
										   tid);
}

void
lsm_slices_foresee(const LsmSegmentReader *reader, LsmTid tid, bool entry)
{
	const LsmSlice *slice = reader->sliced[lsm_slices_find(reader, tid)];
	const uint8 *run;

	if (slice == NULL)
		return;
	run = &slice->runs[lsm_slice_run(slice, LSM_TID_LB(tid))];
	lsm_prefetch(entry ? (const void *) &slice->index[*run] : run);
}

void
lsm_segment_slice_place(const LsmSegmentReader *reader, uint32 slice, uint64 *offset, uint32 *len)
{
	uint32		from = slice * LSM_SLICE_BLOCKS;

	*offset = reader->sections[LSM_SECTION_BLOCK_INDEX].offset + from * sizeof(LsmBlockEntry);
	*len = (lsm_slice_end(reader, slice) - from) * sizeof(LsmBlockEntry);
}

/* Is a slice what its neighbours, or the ends of the segment, leave room for? */
static bool
lsm_slice_fits(const LsmSegmentReader *reader, uint32 slice, const LsmBlockEntry *index,
			   uint32 n, uint64 end)
{
	const LsmSliceEntry *next = &reader->slices[slice + 1];

	if (index[0].first != reader->slices[slice].first)
		return false;
	if (slice + 1 == reader->nslices)
		return index[n - 1].last == reader->props.last_tid &&
			end == reader->sections[LSM_SECTION_BLOCKS].length;
	return index[n - 1].last < next->first && end == next->offset;
}

bool
lsm_segment_slice_add(LsmSegmentReader *reader, uint32 slice, const void *bytes)
{
	uint32		from = slice * LSM_SLICE_BLOCKS;
	uint32		n = lsm_slice_end(reader, slice) - from;
	uint64		offset = reader->slices[slice].offset;
	pg_crc32c	crc = lsm_segment_crc(reader->source->uid, bytes, n * sizeof(LsmBlockEntry));
	LsmSlice   *added;

	if (!EQ_CRC32C(crc, reader->slices[slice].crc))
		return false;
	added = MemoryContextAllocZero(reader->context, sizeof(LsmSlice));
	memcpy(added->index, bytes, n * sizeof(LsmBlockEntry));
	for (uint32 i = 0; i < n; i++)
	{
		added->offsets[i] = offset;
		if (!lsm_block_entry_sound(&added->index[i], i > 0 ? &added->index[i - 1] : NULL, false))
			lsm_segment_corrupt(reader->source, -1, "The index entry of block %u is not sound.",
								from + i);
		offset += added->index[i].length;
	}
	if (!lsm_slice_fits(reader, slice, added->index, n, offset))
		lsm_segment_corrupt(reader->source, -1,
							"Slice %u of the block index does not agree with its neighbours.", slice);
	lsm_slice_set_runs(added, n);
	reader->sliced[slice] = added;
	return true;
}

bool
lsm_segment_slices_agree(LsmSegmentReader *reader)
{
	Size		len;
	const uint8 *section = lsm_reader_section(reader, LSM_SECTION_SLICES, &len);
	StringInfoData bytes;
	bool		agree;

	if (section == NULL || reader->index == NULL)
		return section == NULL;
	initStringInfo(&bytes);
	lsm_slices_put(reader->source->uid, reader->index, reader->props.blocks, &bytes);
	agree = bytes.len == (int) len && memcmp(bytes.data, section, len) == 0;
	pfree(bytes.data);
	return agree;
}
