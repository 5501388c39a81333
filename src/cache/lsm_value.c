/*-------------------------------------------------------------------------
 *
 * lsm_value.c
 *	  Large values: writing them beside the row log, reading them from there
 *	  and from segments.
 *
 * Beside the row log, a value has pages of its own, one after the other, in an
 * extent of the active generation (manifest entry VALUES).  They are written and
 * logged before the record that points to them, so that a record which can be
 * found is complete; what a crash or error leaves goes with the generation.
 * Flush copies the values of the records that it keeps into the streams of its
 * segments, and compactions from there to others, in pieces.
 *
 * Readers get live pointers: block numbers, which the server's detoasting hands
 * to lsm_value_fetch_slice() whenever a value is asked for.  They are good as
 * long as a snapshot of the time when they were made: pages with large values
 * are retired before they are free (I15).  Of values that lie in a store they are
 * numbers, which are retired the same way (lsm_valuenum.c, lsm_coldvalue.c).
 * TRUNCATE, CLUSTER and VACUUM FULL make a new file, to which no pointer of the old
 * one leads: blocks are disguised with a number of their file.  Without that a
 * variable that was set before would give another row's value; with it an error, but
 * for one case in 2^32.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/toast_internals.h"
#include "lsm_cold.h"
#include "lsm_coldvalue.h"
#include "lsm_stop.h"
#include "lsm_value.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"

static void
lsm_value_missing(Relation rel, BlockNumber block, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("large value at block %u of table \"%s\" cannot be read",
					block, RelationGetRelationName(rel)),
			 errdetail_internal("%s", what),
			 errhint("Run lsm_check() on the table, then restore it from a backup.")));
}

/* There is no value where a pointer leads: most likely the file is another one. */
static void
lsm_value_lost(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("large value of table \"%s\" is not there any more",
					RelationGetRelationName(rel)),
			 errdetail("The table was truncated or rewritten after the value's row was read, or is damaged."),
			 errhint("Read the row again. If that fails too, run lsm_check() on the table.")));
}

uint32
lsm_value_salt(Relation rel)
{
	uint64		incarnation = lsm_table_open(rel)->shared->incarnation;

	return (uint32) (incarnation ^ incarnation >> 32);
}

/* The block of a value in a segment, or its number. */
static inline BlockNumber
lsm_value_block(const LsmManifestEntry *entry, uint64 offset)
{
	if (lsm_entry_has_numbers(entry))
		return lsm_entry_numbers(entry).start + (BlockNumber) (offset / LSM_PAGE_PAYLOAD);
	return lsm_segpages_block_at(entry->nextents, entry->extents, offset);
}

/*
 * Where the segment is, the view tells: that is as new as the block's pin.  (What the block
 * was read with may be older: a segment can go to a store, and come back, while a block of
 * it stays in the cache.)
 */
void
lsm_value_locate(const LsmTable *table, void *datum, const LsmCachedBlock *cached)
{
	LsmManifestEntry **entries;
	LsmPointer	pointer;
	int			n = 0;

	if (cached == NULL)
		return;
	entries = table->view == NULL ? NULL : lsm_view_find_valued(table->view, cached->uid, &n);
	if (entries == NULL)
		elog(ERROR, "a segment with large values, which is being read, is not in the manifest");
	lsm_pointer_get(datum, &pointer);
	pointer.va_valueid = lsm_value_block(entries[0], lsm_pointer_offset(&pointer));
	lsm_pointer_set(datum, &pointer);
}

void
lsm_value_resolve(const LsmTable *table, void *datum, Oid relid, uint32 salt,
				  const LsmCachedBlock *cached)
{
	LsmPointer	pointer;

	lsm_value_locate(table, datum, cached);
	lsm_pointer_get(datum, &pointer);
	pointer.va_valueid ^= salt;
	pointer.va_toastrelid = relid;
	lsm_pointer_set(datum, &pointer);
}

/* ---- writing ---- */

BlockNumber
lsm_value_write(Relation rel, LsmTable *table, const char *data, uint32 size, uint32 *generation)
{
	uint32		npages = (size + LSM_PAGE_PAYLOAD - 1) / LSM_PAGE_PAYLOAD;
	BlockNumber first = lsm_space_take_values(rel, table, npages, generation);
	BufferAccessStrategy strategy = npages > LSM_PAGE_BATCH ?
	GetAccessStrategy(BAS_BULKWRITE) : NULL;

	for (uint32 done = 0; done < npages;)
	{
		Buffer		buffers[LSM_PAGE_BATCH];
		int			n = Min(npages - done, LSM_PAGE_BATCH);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
			buffers[i] = ReadBufferExtended(rel, MAIN_FORKNUM, first + done + i,
											RBM_ZERO_AND_LOCK, strategy);
		lsm_pages_begin(rel);
		START_CRIT_SECTION();
		for (int i = 0; i < n; i++)
		{
			Page		page = BufferGetPage(buffers[i]);
			uint32		bytes = Min(size, LSM_PAGE_PAYLOAD);

			lsm_page_init(page, LSM_PAGE_VALUE, table->shared->incarnation, done + i,
						  *generation);
			lsm_page_set_content(page, data, bytes);
			data += bytes;
			size -= bytes;
		}
		lsm_pages_log(rel, buffers, n);
		END_CRIT_SECTION();
		for (int i = 0; i < n; i++)
			UnlockReleaseBuffer(buffers[i]);
		done += n;
		LSM_STOP("value-write");
	}
	if (strategy != NULL)
		FreeAccessStrategy(strategy);
	return first;
}

void
lsm_value_store(Relation rel, LsmTable *table, const struct varlena *value, LsmPointer *pointer)
{
	uint32		size = VARSIZE(value) - VARHDRSZ;
	uint32		generation;

	Assert(VARATT_IS_4B(value));
	if (VARATT_IS_COMPRESSED(value))
	{
		pointer->va_rawsize = VARDATA_COMPRESSED_GET_EXTSIZE(value) + VARHDRSZ;
		VARATT_EXTERNAL_SET_SIZE_AND_COMPRESS_METHOD(*pointer, size,
													 VARDATA_COMPRESSED_GET_COMPRESS_METHOD(value));
	}
	else
	{
		pointer->va_rawsize = VARSIZE(value);
		pointer->va_extinfo = size;
	}
	pointer->va_valueid = lsm_value_write(rel, table, VARDATA(value), size, &generation);
	pointer->va_toastrelid = generation;
}

/* ---- reading ---- */

/* What the first page of a value says. */
typedef struct LsmValuePage
{
	uint16		kind;			/* 0: not a page of lsm */
	uint64		uid;
	uint32		number;
	uint32		generation;
} LsmValuePage;

static void
lsm_value_peek(Relation rel, BlockNumber block, LsmValuePage *first)
{
	Buffer		buffer;
	Page		page;

	memset(first, 0, sizeof(*first));
	if (block >= smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM))
		return;					/* made for another file */
	buffer = ReadBuffer(rel, block);
	page = BufferGetPage(buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew(page) &&
		((PageHeader) page)->pd_special == BLCKSZ - MAXALIGN(sizeof(LsmPageSpecial)))
	{
		first->kind = LSM_PAGE_SPECIAL(page)->kind;
		first->uid = LSM_PAGE_SPECIAL(page)->uid;
		first->number = LSM_PAGE_SPECIAL(page)->number;
		first->generation = LSM_PAGE_SPECIAL(page)->generation;
	}
	UnlockReleaseBuffer(buffer);
}

bool
lsm_value_is_recent(Relation rel, LsmTable *table, LsmPointer *pointer)
{
	uint32		generation = table->shared->generation;
	BlockNumber block = lsm_pointer_block(pointer->va_valueid, lsm_value_salt(rel));
	LsmValuePage first;

	if (pointer->va_toastrelid != RelationGetRelid(rel))
		return false;
	lsm_value_peek(rel, block, &first);
	if (first.kind != LSM_PAGE_VALUE || first.uid != table->shared->incarnation ||
		first.number != 0 || first.generation != generation)
		return false;
	pointer->va_valueid = block;
	pointer->va_toastrelid = generation;
	return true;
}

/* A part of a value beside the row log. */
static void
lsm_value_read_pages(Relation rel, BlockNumber block, const LsmValuePage *first,
					 uint32 offset, uint32 len, char *buf)
{
	while (len > 0)
	{
		uint32		number = offset / LSM_PAGE_PAYLOAD;
		uint32		at = offset % LSM_PAGE_PAYLOAD;
		uint32		n = Min(len, LSM_PAGE_PAYLOAD - at);
		Buffer		buffer;
		Page		page;
		bool		good;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBuffer(rel, block + number);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		good = lsm_page_is(page, LSM_PAGE_VALUE, first->uid, number, first->generation) &&
			lsm_page_content_len(page) >= at + n;
		if (good)
			memcpy(buf, lsm_page_content(page) + at, n);
		UnlockReleaseBuffer(buffer);
		if (!good)
			lsm_value_missing(rel, block, "A page of it is not the value's.");
		buf += n;
		offset += n;
		len -= n;
	}
}

/* Where a value is. */
typedef struct LsmValuePlace
{
	BlockNumber block;			/* as the pointer has it */
	LsmValuePage first;			/* beside the row log: its first page; kind 0: it
								 * is in a segment */
	LsmManifestEntry entry;
	LsmSegmentValue value;
} LsmValuePlace;

/* Find a value in a segment that has its number; false: it is none. */
static bool
lsm_value_find_number(Relation rel, LsmTable *table, BlockNumber number, LsmValuePlace *place)
{
	LsmSegmentReader *reader;
	uint32		page;

	do
	{
		const LsmManifestEntry *entry = lsm_view_find_number(lsm_view_get(rel, table), number);

		if (entry == NULL)
			return false;
		place->entry = *entry;
		reader = lsm_reader_get(rel, table, &place->entry);
	} while (reader == NULL);
	page = number - lsm_entry_numbers(&place->entry).start;
	if (!lsm_segment_find_value(reader, (uint64) page * LSM_PAGE_PAYLOAD, &place->value) ||
		place->value.offset / LSM_PAGE_PAYLOAD != page)
		lsm_value_lost(rel);
	return true;
}

/*
 * Find a value in the segment of which the pointer's block has a page.  The segment may
 * lie elsewhere by now: then its pages are retired, and may have gone, but what they had
 * has not.
 */
static void
lsm_value_find_page(Relation rel, LsmTable *table, const LsmValuePage *first,
					LsmValuePlace *place)
{
	uint64		offset = (uint64) first->number * LSM_PAGE_PAYLOAD;
	LsmSegmentReader *reader;

	do
	{
		int			n;
		LsmManifestEntry **entries = lsm_view_find_valued(lsm_view_get(rel, table),
														  first->uid, &n);

		if (entries == NULL)
			lsm_value_lost(rel);
		place->entry = *entries[0];
		for (int i = 0; i < n; i++)
			if (lsm_value_block(entries[i], offset) == place->block)
				place->entry = *entries[i];
		reader = lsm_reader_get(rel, table, &place->entry);
	} while (reader == NULL);
	if (!lsm_segment_find_value(reader, offset, &place->value) ||
		place->value.offset / LSM_PAGE_PAYLOAD != first->number)
		lsm_value_lost(rel);
}

/* Find a value of that size; generation as for lsm_value_read(). */
static void
lsm_value_find(Relation rel, LsmTable *table, BlockNumber block, uint32 generation, uint32 size,
			   LsmValuePlace *place)
{
	LsmValuePage first;

	place->block = block;
	place->first.kind = 0;
	if (generation == 0 && block >= smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM))
	{
		if (!lsm_value_find_number(rel, table, block, place))
			lsm_value_lost(rel);
	}
	else
	{
		lsm_value_peek(rel, block, &first);
		if (first.kind == LSM_PAGE_VALUE && first.number == 0 &&
			first.uid == table->shared->incarnation &&
			(generation == 0 || first.generation == generation))
		{
			place->first = first;
			return;
		}
		if (first.kind != LSM_PAGE_SEGMENT || generation != 0)
			lsm_value_lost(rel);
		lsm_value_find_page(rel, table, &first, place);
	}
	if (place->value.length != size)
		lsm_value_lost(rel);
}

/* Read a part of a value; all of one in a segment is checked against its checksum. */
static void
lsm_value_read_place(Relation rel, LsmTable *table, const LsmValuePlace *place, uint32 offset,
					 uint32 len, LsmReaderKind kind, char *buf)
{
	const LsmManifestEntry *entry = &place->entry;
	const LsmSegmentValue *value = &place->value;

	if (place->first.kind != 0)
		lsm_value_read_pages(rel, place->block, &place->first, offset, len, buf);
	else if (lsm_entry_has_numbers(entry))
		lsm_coldvalue_read(rel, table, entry, value, offset, len, kind, buf);
	else if (!lsm_segpages_read(rel, entry, value->offset + offset, len, buf))
		lsm_value_missing(rel, place->block, "A page of it is not its segment's.");
	else if (len == value->length && !lsm_segment_value_good(entry->uid, value, buf))
		lsm_value_missing(rel, place->block, "Its checksum is wrong.");
}

void
lsm_value_read(Relation rel, LsmTable *table, BlockNumber block, uint32 generation, uint32 size,
			   uint32 offset, uint32 len, LsmReaderKind kind, char *buf)
{
	LsmValuePlace place;

	if ((uint64) offset + len > size)
		lsm_value_missing(rel, block, "More of it was asked for than there is.");
	lsm_value_find(rel, table, block, generation, size, &place);
	lsm_value_read_place(rel, table, &place, offset, len, kind, buf);
}

void
lsm_value_read_all(Relation rel, LsmTable *table, BlockNumber block, uint32 size, char *piece,
				   uint32 piece_bytes, LsmValueTake take, void *arg)
{
	LsmValuePlace place;
	pg_crc32c	crc;

	lsm_value_find(rel, table, block, 0, size, &place);
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &place.entry.uid, sizeof(uint64));
	for (uint32 done = 0; done < size;)
	{
		uint32		len = Min(size - done, piece_bytes);

		lsm_value_read_place(rel, table, &place, done, len, LSM_READER_COMPACTION, piece);
		COMP_CRC32C(crc, piece, len);
		take(arg, piece, len);
		done += len;
	}
	FIN_CRC32C(crc);
	if (place.first.kind != 0 || EQ_CRC32C(crc, place.value.crc))
		return;
	if (lsm_entry_has_numbers(&place.entry))
		lsm_cold_raise_damaged_value(rel, &place.entry, place.value.offset);
	lsm_value_missing(rel, block, "Its checksum is wrong.");
}

void
lsm_value_fetch_slice(Relation rel, Oid valueid, int32 size, int32 offset, int32 len,
					  struct varlena *result)
{
	lsm_value_read(rel, lsm_table_open(rel), lsm_pointer_block(valueid, lsm_value_salt(rel)), 0,
				   size, offset, len, LSM_READER_POINT, VARDATA(result));
}
