/*-------------------------------------------------------------------------
 *
 * lsm_blockfetch.c
 *	  The bytes of a block, as it is stored: from where they can be had.
 *
 * That is shared memory (lsm_sharedcache.c); if not, the file (lsm_segpages.c), past shared
 * buffers or through them, and what is read past them is kept in shared memory once its
 * checksum is found right.
 *
 * The blocks of a cold segment lie in an object of a store (lsm_cold.h).  They are
 * kept in the same places under the same keys; but there are no shared buffers to
 * ask in the end.
 *
 * All that is asked for is counted here.
 *
 * OWNS
 *	  Nothing.  (A block that is read before its time lies with its opened segment.)
 *
 * LOCKING
 *	  A page may have been given to somebody else since the view was read.  That is
 *	  found by its stamps.  Whoever meets it looks, under gen_lock, whether the view
 *	  is still the newest: if so the page is damaged, if not the caller starts again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_ahead.h"
#include "lsm_blockcache.h"
#include "lsm_blockfetch.h"
#include "lsm_cold.h"
#include "lsm_opensegment.h"
#include "lsm_sharedcache.h"
#include "storage/lwlock.h"

void
lsm_block_count_hit(Relation rel, LsmTable *table, const LsmAheadPlace *place, LsmReaderKind kind)
{
	LsmReaderMethod method = lsm_entry_is_cold(place->entry) ? LSM_METHOD_STORE : LSM_METHOD_SYNC;

	lsm_iostat_add(kind, method, LSM_IO_WANTED, 1);
	lsm_iostat_add(kind, method, LSM_IO_HIT, 1);
	lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), true);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
}

/* What the block cache is told of a reader. */
static LsmCacheTouch
lsm_block_touch(LsmReaderKind kind)
{
	switch (kind)
	{
		case LSM_READER_POINT:
			return LSM_TOUCH_POINT;
		case LSM_READER_COMPACTION:
			return LSM_TOUCH_NONE;
		default:
			return LSM_TOUCH_SCAN;
	}
}

/*
 * Get the bytes of a block from shared memory, or past shared buffers, and prove
 * them.  False: shared buffers have to be asked.
 *
 * Without a block cache, what is read for one row had better be kept in shared
 * buffers.
 */
static bool
lsm_block_fetch_direct(Relation rel, LsmTable *table, LsmSegmentReader *reader,
					   const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed,
					   char *buf, bool *shared)
{
	const LsmManifestEntry *entry = place->entry;
	LsmCacheTouch touch = lsm_block_touch(kind);

	if (!lsm_segpages_are_direct(rel))
		return false;
	if (lsm_sharedcache_get(entry->uid, place->blockno, place->len, buf, touch))
	{
		*shared = true;
		lsm_block_count_hit(rel, table, place, kind);
		return true;
	}
	lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
	if (kind == LSM_READER_POINT && lsm_block_cache_size == 0)
		return false;
	lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_BYTES_WANTED, place->len);
	if (!(feed != NULL && lsm_ahead_take(rel, table, feed, place, buf)) &&
		!lsm_segpages_read_direct(rel, entry, kind, place->offset, place->len, buf))
		return false;
	if (!lsm_segment_block_good(reader, place->blockno, buf))
		return false;
	lsm_sharedcache_put(entry->uid, place->blockno, place->len, buf, touch);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_READ);
	return true;
}

/* Is the view that was read the newest? */
static bool
lsm_block_view_current(LsmTable *table)
{
	bool		current;

	LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
	current = lsm_view_current(table);
	LWLockRelease(&table->shared->gen_lock);
	return current;
}

LsmStoreCacheUse
lsm_block_disk_use(LsmReaderKind kind)
{
	switch (lsm_block_touch(kind))
	{
		case LSM_TOUCH_POINT:
			return LSM_STORE_CACHE_POINT;
		case LSM_TOUCH_SCAN:
			return LSM_STORE_CACHE_SCAN;
		default:
			return LSM_STORE_CACHE_PASS;
	}
}

/* Count what has been asked of stores meanwhile. */
static void
lsm_block_count_asked(LsmTable *table, LsmReaderKind kind, const LsmStoreAsked *before)
{
	uint64		requests = lsm_store_asked.requests - before->requests;
	uint64		bytes = lsm_store_asked.bytes - before->bytes;

	if (requests == 0)
		return;
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_REQUESTS, requests);
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_BYTES_READ, bytes);
	table->stat.counts[LSM_STAT_STORE_REQUESTS] += requests;
	table->stat.counts[LSM_STAT_STORE_BYTES_READ] += bytes;
}

/* Ask for what reading ahead tells of, or for the block alone; false: it is not there. */
static bool
lsm_block_ask_store(Relation rel, LsmTable *table, const LsmAheadPlace *place,
					LsmReaderKind kind, LsmAheadFeed *feed, char *buf)
{
	LsmStoreAsked before = lsm_store_asked;
	bool		found;

	found = (feed != NULL && lsm_ahead_take(rel, table, feed, place, buf)) ||
		lsm_cold_read(rel, place->entry, place->offset, place->len, buf);
	lsm_block_count_asked(table, kind, &before);
	return found;
}

/*
 * The same for a cold segment, from shared memory, the disk cache or its store.  False:
 * there is no such object any more, as the view is not the newest; or the feed is but a hint.
 */
static bool
lsm_block_fetch_cold(Relation rel, LsmTable *table, LsmOpenSegment *open,
					 const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed,
					 char *buf, bool *shared)
{
	const LsmManifestEntry *entry = place->entry;
	LsmCacheTouch touch = lsm_block_touch(kind);
	LsmStoreCacheUse use = lsm_block_disk_use(kind);
	bool		hint = feed != NULL && feed->hint;

	if (lsm_sharedcache_get(entry->uid, place->blockno, place->len, buf, touch))
	{
		*shared = true;
		lsm_block_count_hit(rel, table, place, kind);
		return true;
	}
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_WANTED, 1);
	if (lsm_cold_held_off())
		elog(ERROR, "a block of a store is wanted where nobody can wait for it");
	if (lsm_cold_cache_get(rel, entry, place->offset, place->len, buf, use) &&
		lsm_segment_block_good(open->reader, place->blockno, buf))
	{
		lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), false);
		lsm_sharedcache_put(entry->uid, place->blockno, place->len, buf, touch);
		lsm_stat_count(&table->stat, LSM_STAT_DATA_READ);
		return true;
	}
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_BYTES_WANTED, place->len);
	lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), false);
	if (!lsm_block_ask_store(rel, table, place, kind, feed, buf))
	{
		if (!hint && lsm_block_view_current(table))
			lsm_cold_raise_missing(entry);
		return false;
	}
	if (!lsm_segment_block_good(open->reader, place->blockno, buf))
	{
		if (!hint)
			lsm_cold_raise_damaged(rel, entry, place->blockno);
		return false;
	}
	lsm_cold_cache_put(entry, place->offset, place->len, buf, use);
	lsm_sharedcache_put(entry->uid, place->blockno, place->len, buf, touch);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_READ);
	return true;
}

/* Get the bytes of a block of an opened segment; false: the view is not the newest. */
static bool
lsm_block_fetch(Relation rel, LsmTable *table, LsmOpenSegment *open,
				const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed, char *buf,
				LsmFetched *fetched)
{
	uint32		span = lsm_segpages_span(place->offset, place->len);

	lsm_segment_hold(open);
	fetched->proved = true;
	fetched->shared = false;
	if (lsm_entry_is_cold(place->entry))
		return lsm_block_fetch_cold(rel, table, open, place, kind, feed, buf, &fetched->shared);
	if (lsm_block_fetch_direct(rel, table, open->reader, place, kind, feed, buf,
							   &fetched->shared))
		return true;
	fetched->proved = false;
	if (lsm_segpages_read(rel, place->entry, place->offset, place->len, buf))
	{
		lsm_iostat_add(kind, LSM_METHOD_BUFFERS, LSM_IO_REQUESTS, span);
		lsm_iostat_add(kind, LSM_METHOD_BUFFERS, LSM_IO_BYTES_READ, (uint64) span * BLCKSZ);
		lsm_stat_count(&table->stat, LSM_STAT_DATA_READ);
		return true;
	}
	if (lsm_block_view_current(table))
		lsm_segment_corrupt(&open->source->source, place->blockno,
							"a page of the block is not the segment's");
	return false;
}

bool
lsm_block_preload(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno,
				  LsmAheadFeed *feed)
{
	LsmOpenSegment *open = lsm_segment_get(rel, table, entry);
	LsmSource  *source;
	LsmAheadPlace place;
	LsmFetched	fetched;

	if (open == NULL)
		return false;
	source = open->source;
	lsm_block_locate(open, blockno, &place);
	if (source->preloaded_bytes == place.len && source->preloaded_offset == place.offset)
		return true;
	source->preloaded_bytes = 0;
	if (source->preloaded_room < place.len)
	{
		if (source->preloaded != NULL)
			pfree(source->preloaded);
		source->preloaded_room = 0;
		source->preloaded = NULL;
		source->preloaded = MemoryContextAlloc(open->context, place.len);
		source->preloaded_room = place.len;
	}
	if (!lsm_block_fetch(rel, table, open, &place, feed->kind, feed, source->preloaded, &fetched))
		return false;
	source->preloaded_proved = fetched.proved;
	source->preloaded_offset = place.offset;
	source->preloaded_bytes = place.len;
	return true;
}

bool
lsm_block_get_bytes(Relation rel, LsmTable *table, LsmOpenSegment *open,
					const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed,
					char *buf, LsmFetched *fetched)
{
	LsmSource  *source = open->source;

	if (source->preloaded_bytes == place->len && source->preloaded_offset == place->offset)
	{
		memcpy(buf, source->preloaded, place->len);
		fetched->proved = source->preloaded_proved;
		fetched->shared = false;
		return true;
	}
	return lsm_block_fetch(rel, table, open, place, kind, feed, buf, fetched);
}
