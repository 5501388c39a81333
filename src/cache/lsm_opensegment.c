/*-------------------------------------------------------------------------
 *
 * lsm_opensegment.c
 *	  Opened segments: their metadata, kept by each backend.
 *
 * A segment is opened when something of it is asked for first, from its metadata, which may
 * be in shared memory (lsm_sharedcache.c); if not, it is read from the file, as a rule by
 * one request, and kept there.  Segments are keyed by uid, which is never used twice, so that
 * nothing has to be invalidated.  They are closed in the order of their last use when they
 * take too much memory.
 *
 * Who opens segments in the order of the view has the metadata of those that come next read
 * ahead (lsm_segmentorder.c).  Who only wants to know whether a segment has any row that
 * he wants need not open it (lsm_segmentbounds.c).
 *
 * Who only looks up some rows of a segment with much metadata has a part of it opened: its
 * end, and slices of its block index as they are needed (lsm_slices.c), each of which is kept in
 * shared memory by itself.  When somebody comes who wants all of it, that is opened in its
 * place; the part stays until the segment is closed, as somebody may be using it.
 *
 * Nobody pins an opened segment: it is good until the next call that may open another one.
 * Who reads a block of one, which may go on to open others in order to read ahead, has it
 * held open (lsm_segment_hold()).
 *
 * OWNS
 *	  The hash table of opened segments and parts, their list, their memory, and the places where
 *	  the last ones are found.
 *
 * LOCKING
 *	  A page may have been given to somebody else since the view was read.  While gen_lock is
 *	  held, no page of a segment of the newest view is reused: a segment is opened with it held
 *	  shared, and so are the roots of a cold one asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_blockcache.h"
#include "lsm_codec.h"
#include "lsm_opensegment.h"
#include "lsm_segmentbounds.h"
#include "lsm_segmentorder.h"
#include "lsm_session.h"
#include "lsm_sharedcache.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

/*
 * Opened segments take so much memory at most, and no more than the session's share, if
 * they are more than a few: the least recently used is closed for another one.
 */
int			lsm_debug_reader_memory = LSM_SESSION_READERS_KB;

#define LSM_LEAST_READERS		16

StaticAssertDecl(LSM_LOCAL_TAIL >= LSM_READER_TAIL, "the end of a stream is read to open it");

/*
 * What was used before is likely to be used next: places where an opened segment is
 * looked for before the hash table is searched.  What is in a place may have gone
 * meanwhile, but entries of hash tables are never unmapped: those that have gone have no
 * reader, or another key.
 */
#define LSM_RECENT_SEGMENTS		64

static LsmOpenSegment *lsm_recent_segments[LSM_RECENT_SEGMENTS];

typedef struct LsmOpenSegmentKey
{
	uint64		uid;
	LsmTable   *table;
} LsmOpenSegmentKey;

/* One for all tables: there may be many, with a segment or two each. */
static HTAB *lsm_readers;
static dlist_head lsm_readers_lru = DLIST_STATIC_INIT(lsm_readers_lru);
static Size lsm_readers_bytes;
static int	lsm_readers_open;

/* The one that a block is read of, which may open others to read ahead. */
static LsmOpenSegment *lsm_segment_in_use;

static void
lsm_source_read(LsmSegmentSource *base, uint64 offset, Size len, void *buf)
{
	LsmSource  *source = (LsmSource *) base;

	if (offset == source->preloaded_offset && len == source->preloaded_bytes)
	{
		memcpy(buf, source->preloaded, len);
		return;
	}
	if (!lsm_segpages_read(source->rel, &source->entry, source->base + offset, len, buf))
		lsm_segment_corrupt(base, -1, "a page between bytes " UINT64_FORMAT " and "
							UINT64_FORMAT " is not the segment's",
							offset, offset + len);
}

void
lsm_segment_corrupt_entry(Relation rel, const LsmManifestEntry *entry, const char *what)
{
	LsmSegmentSource source = {.total_bytes = entry->stored_bytes,.uid = entry->uid};

	source.relname = RelationGetRelationName(rel);
	lsm_segment_corrupt(&source, -1, "%s", what);
}

/* Close segments until there is room for another one of that size. */
static void
lsm_readers_evict(Size need)
{
	Size		limit = Min((Size) lsm_debug_reader_memory * 1024, lsm_session_readers_limit());

	while (lsm_readers_bytes + need > limit && lsm_readers_open >= LSM_LEAST_READERS)
	{
		LsmOpenSegment *old = dlist_tail_element(LsmOpenSegment, lru, &lsm_readers_lru);

		dlist_delete(&old->lru);
		if (old == lsm_segment_in_use)
		{
			dlist_push_head(&lsm_readers_lru, &old->lru);
			continue;
		}
		lsm_readers_bytes -= old->memory;
		lsm_readers_open--;
		MemoryContextDelete(old->context);
		old->reader = NULL;
		hash_search(lsm_readers, old, HASH_REMOVE, NULL);
	}
}

void
lsm_segment_meta_place(const LsmManifestEntry *entry, LsmAheadPlace *place)
{
	uint64		total = entry->stored_bytes;
	LsmSegmentFacts facts = {(LsmSegmentKind) entry->kind, total, entry->versions,
		entry->forwards + entry->dead, entry->blocks, entry->nunresolved,
	lsm_entry_dictionaries(entry)};
	uint64		bytes = lsm_segment_meta_estimate(&facts);

	/* all of the first page is as easy to have */
	bytes += (total - bytes) % LSM_PAGE_PAYLOAD;
	if (lsm_entry_is_cold(entry))
		bytes = total - (uint64) lsm_entry_first_page(entry) * LSM_PAGE_PAYLOAD;
	place->entry = entry;
	place->blockno = LSM_CACHE_METADATA;
	place->len = (uint32) Min(bytes, PG_UINT32_MAX);
	place->offset = total - place->len;
}

/* Is it open, so that nobody will ask for it? */
static bool
lsm_opened_has(LsmTable *table, const LsmManifestEntry *entry)
{
	return lsm_segment_opened(table, entry) != NULL;
}

static LsmSegmentOrder lsm_opened_order = {.what = LSM_CACHE_METADATA,.has = lsm_opened_has};

/* ---- opening ---- */

/* The metadata, of which the block cache has so many bytes; NULL: it has not any more. */
static uint8 *
lsm_source_cached_meta(LsmSource *source, uint32 bytes)
{
	const LsmManifestEntry *entry = &source->entry;
	uint8	   *meta = MemoryContextAllocHuge(CurrentMemoryContext, bytes + LSM_CODEC_SLACK);

	if (!lsm_sharedcache_get(entry->uid, LSM_CACHE_METADATA, bytes, (char *) meta,
							 LSM_TOUCH_POINT))
	{
		pfree(meta);
		return NULL;
	}
	lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_HIT, 1);
	lsm_segpages_count(source->rel, lsm_segpages_span(entry->stored_bytes - bytes, bytes), true);
	return meta;
}

/*
 * The end of a stream, which may have the metadata: bytes becomes how many these have, 0 if
 * nothing proves.  More than there were: it has to be read again.
 */
static uint8 *
lsm_source_read_end(LsmSource *source, LsmTable *table, LsmAheadFeed *feed, uint64 *bytes)
{
	const LsmManifestEntry *entry = &source->entry;
	uint64		total = entry->stored_bytes;
	uint64		had = *bytes;
	char	   *end = MemoryContextAllocHuge(CurrentMemoryContext, had + LSM_CODEC_SLACK);
	LsmAheadPlace place = {.entry = entry,.blockno = LSM_CACHE_METADATA};

	place.len = (uint32) had;
	place.offset = total - had;
	*bytes = 0;
	if ((feed != NULL && lsm_ahead_take(source->rel, table, feed, &place, end)) ||
		lsm_segpages_read_direct(source->rel, entry, LSM_READER_METADATA, total - had, had, end))
		*bytes = lsm_segment_meta_bytes(entry->uid, total, end, had);
	if (*bytes > had)
		return (uint8 *) end;
	if (*bytes > 0 &&
		!lsm_segment_meta_good(entry->uid, total, end + (had - *bytes), *bytes))
		*bytes = 0;
	if (*bytes > 0 && *bytes < had)
		memmove(end, end + (had - *bytes), *bytes);
	return (uint8 *) end;
}

/*
 * Read the metadata of a segment past shared buffers, as a rule by one request, for
 * its reader to use.  What does not prove is left to shared buffers.
 *
 * A view may be old by now, and the pages somebody else's; but then they do not
 * prove, so that no lock is needed.
 */
static void
lsm_source_read_meta(LsmSource *source, LsmTable *table)
{
	const LsmManifestEntry *entry = &source->entry;
	LsmAheadPlace place;
	LsmAheadFeed *feed;
	uint8	   *meta = NULL;
	uint64		had;
	uint64		bytes;

	if (!lsm_segpages_are_direct(source->rel))
		return;
	lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
	bytes = lsm_sharedcache_length(entry->uid, LSM_CACHE_METADATA);
	if (bytes > 0 && bytes <= entry->stored_bytes)
		meta = lsm_source_cached_meta(source, (uint32) bytes);
	if (meta == NULL)
	{
		lsm_segment_meta_place(entry, &place);
		had = bytes = place.len;
		feed = lsm_segment_order_feed(&lsm_opened_order, table, entry);
		meta = lsm_source_read_end(source, table, feed, &bytes);
		if (bytes > had)
		{
			pfree(meta);
			had = bytes;
			meta = lsm_source_read_end(source, table, NULL, &bytes);
		}
		if (bytes == 0 || bytes > had)
		{
			pfree(meta);		/* its trailer says something else each time */
			return;
		}
		lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_BYTES_WANTED, bytes);
		if (bytes <= PG_UINT32_MAX)
			lsm_sharedcache_put(entry->uid, LSM_CACHE_METADATA, (uint32) bytes, (char *) meta,
								LSM_TOUCH_POINT);
		if (had > bytes + bytes / 4)
			meta = repalloc_huge(meta, bytes + LSM_CODEC_SLACK);
	}
	source->source.meta = meta;
	source->source.meta_bytes = bytes;
}

/* ---- a part of it ---- */

/* Is there so much metadata that a part had better be opened, if it can be? */
static bool
lsm_part_is_worth(Relation rel, const LsmManifestEntry *entry)
{
	LsmAheadPlace place;

	if (entry->kind == LSM_SEGKIND_INCREMENT || entry->blocks <= LSM_SLICE_BLOCKS ||
		entry->forwards > 0 || entry->dead > 0 || (entry->flags & LSM_SEGFLAG_VALUES) ||
		!lsm_segpages_are_direct(rel))
		return false;
	lsm_segment_meta_place(entry, &place);
	return place.len >= (uint32) lsm_debug_bounds_from * 1024;
}

/* Bytes of metadata that the block cache has; false: it has not. */
static bool
lsm_source_get_cached(Relation rel, const LsmManifestEntry *entry, uint32 number, uint64 offset,
					  uint32 len, void *bytes)
{
	lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
	if (!lsm_sharedcache_get(entry->uid, number, len, bytes, LSM_TOUCH_POINT))
		return false;
	lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_HIT, 1);
	lsm_segpages_count(rel, lsm_segpages_span(offset, len), true);
	return true;
}

/* Have the end of a segment that a part needs.  False: it has none, or cannot be read so. */
static bool
lsm_source_read_part(LsmSource *source)
{
	const LsmManifestEntry *entry = &source->entry;
	uint64		total = entry->stored_bytes;
	uint64		bytes = lsm_sharedcache_length(entry->uid, LSM_CACHE_PART);
	uint32		tail_bytes = (uint32) Min(total, LSM_READER_TAIL);
	uint8	   *part = palloc(LSM_READER_TAIL + LSM_CODEC_SLACK);

	if (bytes == 0 || bytes > tail_bytes ||
		!lsm_source_get_cached(source->rel, entry, LSM_CACHE_PART, total - bytes, (uint32) bytes,
							   part))
	{
		char	   *tail = palloc(tail_bytes);

		bytes = 0;
		if (lsm_segpages_read_direct(source->rel, entry, LSM_READER_METADATA,
									 total - tail_bytes, tail_bytes, tail))
			bytes = lsm_segment_part_bytes(entry->uid, total, tail, tail_bytes);
		if (bytes == 0)
		{
			pfree(tail);
			pfree(part);
			return false;
		}
		lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_BYTES_WANTED, bytes);
		memcpy(part, tail + (tail_bytes - bytes), bytes);
		pfree(tail);
		lsm_sharedcache_put(entry->uid, LSM_CACHE_PART, (uint32) bytes, (char *) part,
							LSM_TOUCH_POINT);
	}
	source->source.meta = repalloc(part, bytes + LSM_CODEC_SLACK);
	source->source.meta_bytes = bytes;
	source->source.part = true;
	return true;
}

/* The bytes of a slice from the file past shared buffers.  False: they do not prove. */
static bool
lsm_slice_read(LsmOpenSegment *open, uint32 slice, uint64 offset, uint32 len, char *bytes)
{
	const LsmManifestEntry *entry = &open->source->entry;

	if (!lsm_segpages_read_direct(open->source->rel, entry, LSM_READER_METADATA, offset, len,
								  bytes) ||
		!lsm_segment_slice_add(open->reader, slice, bytes))
		return false;
	lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_BYTES_WANTED, len);
	lsm_sharedcache_put(entry->uid, LSM_CACHE_SLICES + slice, len, bytes, LSM_TOUCH_POINT);
	return true;
}

/* Have a slice of a part; false: the view is not the newest. */
static pg_noinline bool
lsm_segment_have_slice(LsmTable *table, LsmOpenSegment *open, uint32 slice)
{
	LsmSource  *source = open->source;
	uint64		offset;
	uint32		len;
	char	   *bytes;
	bool		current;

	lsm_segment_slice_place(open->reader, slice, &offset, &len);
	bytes = palloc(len);
	if (!(lsm_source_get_cached(source->rel, &source->entry, LSM_CACHE_SLICES + slice, offset, len,
								bytes) &&
		  lsm_segment_slice_add(open->reader, slice, bytes)) &&
		!lsm_slice_read(open, slice, offset, len, bytes))
	{
		/* is it damaged, or has it gone? */
		LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
		current = lsm_view_current(table);
		if (current)
			lsm_source_read(&source->source, offset, len, bytes);
		LWLockRelease(&table->shared->gen_lock);
		if (!current)
		{
			pfree(bytes);
			return false;
		}
		if (!lsm_segment_slice_add(open->reader, slice, bytes))
			lsm_segment_corrupt(&source->source, -1,
								"Slice %u of the block index has another checksum.", slice);
	}
	pfree(bytes);
	lsm_stat_count(&table->stat, LSM_STAT_INDEX_READ);
	open->memory += lsm_segment_slice_memory();
	lsm_readers_bytes += lsm_segment_slice_memory();
	return true;
}

/* ---- getting one ---- */

/* Get an opened segment ready for use, for this relation. */
static inline LsmOpenSegment *
lsm_segment_use(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
				LsmOpenSegment *open)
{
	lsm_stat_count(&table->stat, LSM_STAT_INDEX_HIT);
	open->source->rel = rel;
	dlist_move_head(&lsm_readers_lru, &open->lru);

	/* VACUUM may have moved it, or a part of it */
	if (unlikely(memcmp(open->source->entry.extents, entry->extents,
						sizeof(entry->extents)) != 0))
		open->source->entry = *entry;
	return open;
}

/*
 * Open a segment, or a part of it if that is worth it, in a context of its own.  NULL: the view
 * is not the newest.
 */
static LsmSource *
lsm_segment_open(Relation rel, LsmTable *table, const LsmManifestEntry *entry, bool part,
				 MemoryContext *context, LsmSegmentReader **reader)
{
	MemoryContext caller;
	LsmSource  *source;

	*context = AllocSetContextCreate(CurrentMemoryContext, "lsm segment", ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(*context);
	source = palloc0(sizeof(LsmSource));
	source->entry = *entry;
	source->source.read = lsm_source_read;
	source->source.total_bytes = entry->stored_bytes;
	source->source.uid = entry->uid;
	source->source.relname = pstrdup(RelationGetRelationName(rel));
	source->rel = rel;
	if (!part || !lsm_part_is_worth(rel, entry) || !lsm_source_read_part(source))
		lsm_source_read_meta(source, table);

	/* while this is held, no page of a segment of the newest view is reused */
	LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
	if (!lsm_view_current(table))
	{
		LWLockRelease(&table->shared->gen_lock);
		MemoryContextSwitchTo(caller);
		MemoryContextDelete(*context);
		return NULL;
	}
	*reader = lsm_segment_reader_open(&source->source);
	LWLockRelease(&table->shared->gen_lock);
	MemoryContextSwitchTo(caller);
	lsm_stat_count(&table->stat, LSM_STAT_INDEX_READ);
	return source;
}

/* Bytes of memory that an opened segment, or part, takes. */
static Size
lsm_segment_memory(MemoryContext context, LsmSegmentReader *reader)
{
	return MemoryContextMemAllocated(context, true) + lsm_segment_dictionaries_memory(reader);
}

/* Have all of a segment in the place of a part.  NULL: the view is not the newest. */
static pg_noinline LsmOpenSegment *
lsm_segment_complete(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
					 LsmOpenSegment *open)
{
	MemoryContext context;
	LsmSegmentReader *reader;
	LsmSource  *source = lsm_segment_open(rel, table, entry, false, &context, &reader);
	Size		memory;

	if (source == NULL)
		return NULL;
	memory = lsm_segment_memory(context, reader);
	lsm_readers_evict(memory);	/* not this one, which was used last */
	MemoryContextSetParent(context, CacheMemoryContext);
	MemoryContextSetParent(open->context, context);
	open->context = context;
	open->source = source;
	open->reader = reader;
	open->part = false;
	open->memory += memory;
	lsm_readers_bytes += memory;
	return open;
}

static pg_noinline LsmOpenSegment *
lsm_segment_find(Relation rel, LsmTable *table, const LsmManifestEntry *entry, bool part)
{
	LsmOpenSegmentKey key = {entry->uid, table};
	LsmOpenSegment *open;
	LsmSource  *source;
	MemoryContext context;
	LsmSegmentReader *reader;
	Size		memory;

	if (lsm_readers == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(LsmOpenSegmentKey);
		ctl.entrysize = sizeof(LsmOpenSegment);
		ctl.hcxt = CacheMemoryContext;
		lsm_readers = hash_create("lsm segments", 32, &ctl,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	open = hash_search(lsm_readers, &key, HASH_FIND, NULL);
	if (open != NULL)
		return lsm_segment_use(rel, table, entry, open);

	source = lsm_segment_open(rel, table, entry, part, &context, &reader);
	if (source == NULL)
		return NULL;
	memory = lsm_segment_memory(context, reader);
	lsm_readers_evict(memory);
	MemoryContextSetParent(context, CacheMemoryContext);
	open = hash_search(lsm_readers, &key, HASH_ENTER, NULL);
	open->context = context;
	open->memory = memory;
	lsm_readers_bytes += open->memory;
	lsm_readers_open++;
	dlist_push_head(&lsm_readers_lru, &open->lru);
	open->source = source;
	open->reader = reader;
	open->part = source->source.part;
	open->roots = NULL;
	open->met = NULL;
	return open;
}

/* part: a part of it will do */
static inline LsmOpenSegment *
lsm_segment_look_up(Relation rel, LsmTable *table, const LsmManifestEntry *entry, bool part)
{
	LsmOpenSegment **recent = &lsm_recent_segments[entry->uid % LSM_RECENT_SEGMENTS];
	LsmOpenSegment *open = *recent;

	if (likely(open != NULL && open->uid == entry->uid && open->reader != NULL &&
			   open->table == table))
		open = lsm_segment_use(rel, table, entry, open);
	else
	{
		open = lsm_segment_find(rel, table, entry, part);
		if (open != NULL)
			*recent = open;
	}
	if (open != NULL && unlikely(open->part) && !part)
		return lsm_segment_complete(rel, table, entry, open);
	return open;
}

LsmOpenSegment *
lsm_segment_get(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	return lsm_segment_look_up(rel, table, entry, false);
}

LsmOpenSegment *
lsm_segment_get_for_block(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
						  uint32 blockno)
{
	LsmOpenSegment *open = lsm_segment_look_up(rel, table, entry, true);
	int64		slice;

	if (open == NULL || likely(!open->part))
		return open;
	slice = lsm_segment_missing_for_block(open->reader, blockno);
	if (slice >= 0 && !lsm_segment_have_slice(table, open, (uint32) slice))
		return NULL;
	return open;
}

LsmOpenSegment *
lsm_segment_opened(LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegmentKey key = {entry->uid, table};
	LsmOpenSegment *open;

	if (lsm_readers == NULL)
		return NULL;
	open = hash_search(lsm_readers, &key, HASH_FIND, NULL);
	return open == NULL || open->part ? NULL : open;
}

LsmOpenSegment *
lsm_segment_at_hand(uint64 uid)
{
	LsmOpenSegment *open = lsm_recent_segments[uid % LSM_RECENT_SEGMENTS];

	return open != NULL && open->uid == uid && open->reader != NULL ? open : NULL;
}

LsmOpenSegment *
lsm_segment_at_hand_for_block(uint64 uid, uint32 blockno)
{
	LsmOpenSegment *open = lsm_segment_at_hand(uid);

	return open == NULL || lsm_segment_missing_for_block(open->reader, blockno) >= 0 ? NULL : open;
}

void
lsm_segment_hold(LsmOpenSegment *open)
{
	lsm_segment_in_use = open;
}

LsmSegmentReader *
lsm_reader_get(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegment *open = lsm_segment_look_up(rel, table, entry, false);

	return open == NULL ? NULL : open->reader;
}

LsmSegmentReader *
lsm_reader_get_for_root(Relation rel, LsmTable *table, const LsmManifestEntry *entry, LsmTid root)
{
	LsmOpenSegment *open = lsm_segment_look_up(rel, table, entry, true);
	int64		slice;

	if (open == NULL)
		return NULL;
	if (likely(!open->part))
		return open->reader;
	while ((slice = lsm_segment_missing_for_root(open->reader, root)) >= 0)
		if (!lsm_segment_have_slice(table, open, (uint32) slice))
			return NULL;
	return open->reader;
}

/*
 * The list of a cold segment's roots, opened if need be, with gen_lock held shared:
 * until that is released its pages are not reused.  NULL: the view is not the newest.
 */
static LsmSegmentReader *
lsm_roots_lock(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegment *open = lsm_segment_look_up(rel, table, entry, true);
	LsmSource  *source;
	MemoryContext caller;

	if (open == NULL)
		return NULL;
	LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
	if (!lsm_view_current(table))
	{
		LWLockRelease(&table->shared->gen_lock);
		return NULL;
	}
	if (open->roots == NULL)
	{
		Size		before = MemoryContextMemAllocated(open->context, false);

		caller = MemoryContextSwitchTo(open->context);
		source = palloc0(sizeof(LsmSource));
		source->source.read = lsm_source_read;
		source->source.total_bytes = lsm_entry_object(entry)->roots_bytes;
		source->source.uid = entry->uid;
		source->source.relname = open->source->source.relname;
		source->base = (uint64) lsm_entry_roots_page(entry) * LSM_PAGE_PAYLOAD;
		source->entry = *entry;
		source->rel = rel;
		open->roots_source = source;
		open->roots = lsm_segment_reader_open(&source->source);
		MemoryContextSwitchTo(caller);
		before = MemoryContextMemAllocated(open->context, false) - before;
		open->memory += before;
		lsm_readers_bytes += before;
	}
	open->roots_source->rel = rel;
	open->roots_source->entry = *entry;
	return open->roots;
}

bool
lsm_reader_has_root(Relation rel, LsmTable *table, const LsmManifestEntry *entry, LsmTid root,
					bool *stale)
{
	LsmSegmentReader *roots = lsm_roots_lock(rel, table, entry);
	bool		found;

	*stale = roots == NULL;
	if (*stale)
		return false;
	found = lsm_segment_has_dead(roots, root);
	LWLockRelease(&table->shared->gen_lock);
	return found;
}

LsmTid *
lsm_reader_roots(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint64 *n)
{
	LsmSegmentReader *roots = lsm_roots_lock(rel, table, entry);
	LsmTid	   *tids;

	if (roots == NULL)
		return NULL;
	tids = lsm_segment_read_dead(roots, n);
	LWLockRelease(&table->shared->gen_lock);
	return tids;
}

bool
lsm_reader_dead_list(Relation rel, LsmTable *table, const LsmManifestEntry *entry, LsmTid **roots,
					 uint64 *n)
{
	LsmSegmentReader *reader = lsm_reader_get(rel, table, entry);
	bool		lock = entry->dead <= LSM_DEAD_LIST_ROOTS;

	if (reader == NULL)
		return false;
	if (lock)
	{
		LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
		if (!lsm_view_current(table))
		{
			LWLockRelease(&table->shared->gen_lock);
			return false;
		}
	}
	*roots = lsm_segment_read_dead(reader, n);
	if (lock)
		LWLockRelease(&table->shared->gen_lock);
	return true;
}

bool
lsm_reader_dead_list_of(Relation rel, LsmTable *table, uint64 uid, LsmTid **roots, uint64 *n)
{
	const LsmManifestEntry *entry;

	do
	{
		CHECK_FOR_INTERRUPTS();
		entry = lsm_view_find_segment(lsm_view_get(rel, table), uid);
		if (entry == NULL)
			return false;
	} while (!lsm_reader_dead_list(rel, table, entry, roots, n));
	return true;
}

void
lsm_segment_make_met(LsmOpenSegment *open)
{
	Size		size = Max(lsm_segment_reader_blocks(open->reader), 1) * sizeof(LsmCachedBlock *);

	open->met = MemoryContextAllocZero(open->context, size);
	open->memory += size;
	lsm_readers_bytes += size;
}
