/*-------------------------------------------------------------------------
 *
 * lsm_segmentbounds.c
 *	  Bounds of the columns of segments that need not be opened for them.
 *
 * A selective scan of a large table asks each segment whether any of its rows may be wanted,
 * and most say no.  To open them all would be to read all metadata, a hundredth of the table,
 * for each new session, and for each query of one whose share of memory does not hold them.
 * Bounds are some hundred bytes at the end of a segment (lsm_bounds.c): its last two pages are
 * read for them, ahead where segments are asked in their order, and bounds are kept by the
 * session and in the block cache.
 *
 * A segment that is open answers by itself.  So does one with little metadata, which is
 * opened, and one whose last pages have no bounds: it was written by an older version, or has
 * hundreds of columns.
 *
 * OWNS
 *	  The bounds that the session has: by uid, of whatever table.  When they take too much
 *	  memory, all are given up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_blockcache.h"
#include "lsm_opensegment.h"
#include "lsm_segmentbounds.h"
#include "lsm_segmentorder.h"
#include "lsm_session.h"
#include "lsm_sharedcache.h"
#include "utils/memutils.h"

int			lsm_debug_bounds_from = 64;

/* They may take this part of what opened segments may. */
#define LSM_BOUNDS_DIVISOR		8

typedef struct LsmKnownBounds
{
	uint64		uid;			/* hash key */
	LsmBounds  *bounds;
} LsmKnownBounds;

static MemoryContext lsm_bounds_context;
static HTAB *lsm_bounds_known;
static Size lsm_bounds_total;

static bool lsm_bounds_are_at_hand(LsmTable *table, const LsmManifestEntry *entry);

static LsmSegmentOrder lsm_bounds_order = {.what = LSM_CACHE_BOUNDS,.has = lsm_bounds_are_at_hand};

static LsmBounds *
lsm_bounds_find(uint64 uid)
{
	LsmKnownBounds *known;

	if (lsm_bounds_known == NULL)
		return NULL;
	known = hash_search(lsm_bounds_known, &uid, HASH_FIND, NULL);
	return known == NULL ? NULL : known->bounds;
}

/* Is there so little to read that the segment had better be opened? */
static bool
lsm_bounds_not_worth(const LsmManifestEntry *entry)
{
	LsmAheadPlace place;

	lsm_segment_meta_place(entry, &place);
	return place.len < (uint32) lsm_debug_bounds_from * 1024;
}

static bool
lsm_bounds_are_at_hand(LsmTable *table, const LsmManifestEntry *entry)
{
	return lsm_bounds_find(entry->uid) != NULL || lsm_segment_opened(table, entry) != NULL ||
		lsm_bounds_not_worth(entry);
}

/* Keep a copy. */
static LsmBounds *
lsm_bounds_keep(const LsmBounds *bounds)
{
	Size		bytes = lsm_bounds_bytes(bounds);
	uint64		uid = lsm_bounds_uid(bounds);
	LsmKnownBounds *known;

	if (lsm_bounds_known != NULL &&
		lsm_bounds_total + bytes > lsm_session_readers_limit() / LSM_BOUNDS_DIVISOR)
	{
		MemoryContextReset(lsm_bounds_context);
		lsm_bounds_known = NULL;
		lsm_bounds_total = 0;
	}
	if (lsm_bounds_context == NULL)
		lsm_bounds_context = AllocSetContextCreate(CacheMemoryContext, "lsm bounds of segments",
												   ALLOCSET_DEFAULT_SIZES);
	if (lsm_bounds_known == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(uint64);
		ctl.entrysize = sizeof(LsmKnownBounds);
		ctl.hcxt = lsm_bounds_context;
		lsm_bounds_known = hash_create("lsm bounds of segments", 128, &ctl,
									   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	bounds = memcpy(MemoryContextAlloc(lsm_bounds_context, bytes), bounds, bytes);
	known = hash_search(lsm_bounds_known, &uid, HASH_ENTER, NULL);
	known->bounds = unconstify(LsmBounds *, bounds);
	lsm_bounds_total += bytes;
	return known->bounds;
}

void
lsm_segment_bounds_place(const LsmManifestEntry *entry, LsmAheadPlace *place)
{
	uint64		total = entry->stored_bytes;
	uint64		pages = (total - 1) / LSM_PAGE_PAYLOAD;

	StaticAssertStmt(2 * LSM_PAGE_PAYLOAD <= LSM_READER_TAIL, "the file has them of cold segments too");
	place->entry = entry;
	place->blockno = LSM_CACHE_BOUNDS;
	place->offset = (pages - Min(pages, 1)) * LSM_PAGE_PAYLOAD;
	place->len = (uint32) (total - place->offset);
}

/* What the block cache has of them; NULL: nothing. */
static LsmBounds *
lsm_bounds_cached(Relation rel, const LsmManifestEntry *entry)
{
	uint32		bytes = lsm_sharedcache_length(entry->uid, LSM_CACHE_BOUNDS);
	LsmAheadPlace place;
	LsmBounds  *bounds;

	if (bytes == 0)
		return NULL;
	bounds = palloc(bytes);
	if (lsm_sharedcache_get(entry->uid, LSM_CACHE_BOUNDS, bytes, (char *) bounds,
							LSM_TOUCH_POINT))
	{
		lsm_segment_bounds_place(entry, &place);
		lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_HIT, 1);
		lsm_segpages_count(rel, lsm_segpages_span(place.offset, place.len), true);
		return bounds;
	}
	pfree(bounds);
	return NULL;
}

/*
 * Read them, and keep them in the block cache; NULL: what was read does not prove.  No lock
 * is needed: pages of a segment that is none any more do not prove.
 */
static LsmBounds *
lsm_bounds_read(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmAheadFeed *feed = lsm_segment_order_feed(&lsm_bounds_order, table, entry);
	LsmAheadPlace place;
	char	   *tail;
	LsmBounds  *bounds = NULL;

	lsm_segment_bounds_place(entry, &place);
	tail = palloc(place.len);
	if ((feed != NULL && lsm_ahead_take(rel, table, feed, &place, tail)) ||
		lsm_segpages_read_direct(rel, entry, LSM_READER_METADATA, place.offset, place.len, tail))
		bounds = lsm_segment_tail_bounds(entry->uid, entry->stored_bytes, tail, place.len);
	pfree(tail);
	if (bounds == NULL)
		return NULL;
	lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_BYTES_WANTED, place.len);
	lsm_sharedcache_put(entry->uid, LSM_CACHE_BOUNDS, (uint32) lsm_bounds_bytes(bounds),
						(char *) bounds, LSM_TOUCH_POINT);
	return bounds;
}

const LsmBounds *
lsm_segment_bounds_get(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegment *open = lsm_segment_at_hand(entry->uid);
	LsmBounds  *bounds = NULL;

	if (open != NULL && !open->part)
		return lsm_segment_bounds(open->reader);
	if (lsm_segment_opened(table, entry) == NULL && !lsm_bounds_not_worth(entry))
	{
		bounds = lsm_bounds_find(entry->uid);
		if (bounds == NULL && lsm_segpages_are_direct(rel))
		{
			LsmBounds  *found;

			lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
			found = lsm_bounds_cached(rel, entry);
			if (found == NULL)
				found = lsm_bounds_read(rel, table, entry);
			if (found != NULL)
			{
				bounds = lsm_bounds_keep(found);
				pfree(found);
			}
		}
	}
	if (bounds == NULL || !lsm_bounds_are_known(bounds))
	{
		LsmSegmentReader *reader = lsm_reader_get(rel, table, entry);

		bounds = reader == NULL ? NULL : lsm_segment_bounds(reader);
	}
	return bounds;
}
