/*-------------------------------------------------------------------------
 *
 * lsm_blockcache.c
 *	  Opened segments and decoded blocks, kept by each backend.
 *
 * Blocks are keyed by segment uid, which is never used twice, so that nothing
 * has to be invalidated.  What is not here may be in shared memory, as it is
 * stored (lsm_sharedcache.c); if not, it is read from the file
 * (lsm_segpages.c), and kept there once its checksum is found right.
 *
 * The blocks of a cold segment lie in an object of a store (lsm_cold.h).  They are
 * kept in the same places under the same keys; but there are no shared buffers to
 * ask in the end.
 *
 * A page may have been given to somebody else since the view was read.  That is
 * found by its stamps.  Whoever meets it looks, under gen_lock, whether the view
 * is still the newest: if so the page is damaged, if not the caller starts again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "lsm_ahead.h"
#include "lsm_blockcache.h"
#include "lsm_cold.h"
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

/* What metadata of a segment goes by in the block cache, if it is not too long for that. */
#define LSM_META_BLOCKNO		PG_UINT32_MAX

/* An opened segment of one table. */
typedef struct LsmOpenSegment
{
	uint64		uid;			/* hash key */
	LsmSegmentReader *reader;
	struct LsmSource *source;
	LsmSegmentReader *roots;	/* cold: list of its roots, NULL: not opened */
	struct LsmSource *roots_source;
	MemoryContext context;
	LsmTable   *table;
	Size		memory;
	dlist_node	lru;
} LsmOpenSegment;

/* Where the bytes of an opened segment come from. */
typedef struct LsmSource
{
	LsmSegmentSource source;	/* must be first */
	Relation	rel;			/* set for the length of a call */
	LsmManifestEntry entry;
	uint64		base;			/* where the stream begins among the pages */
	char	   *ahead;			/* bytes read before the reader asks, or NULL */
	uint64		ahead_offset;
	Size		ahead_bytes;
	char	   *preloaded;		/* a block's bytes, in the segment's context */
	Size		preloaded_room;
	uint64		preloaded_offset;
	Size		preloaded_bytes;	/* 0: none */
	bool		preloaded_proved;
} LsmSource;

typedef struct LsmBlockKey
{
	uint64		uid;
	uint32		blockno;
	uint32		pad;
} LsmBlockKey;

/*
 * What was used before is likely to be used next: places where an opened segment and
 * a cached block are looked for before their hash tables are searched.  What is in
 * a place may have gone meanwhile, but entries of hash tables are never unmapped:
 * those that have gone have no reader and no block, or another key.
 */
#define LSM_RECENT_SEGMENTS		64
#define LSM_RECENT_BLOCKS		2048

static LsmOpenSegment *lsm_recent_segments[LSM_RECENT_SEGMENTS];
static LsmCachedBlock *lsm_recent_blocks[LSM_RECENT_BLOCKS];

static dlist_head lsm_readers_lru = DLIST_STATIC_INIT(lsm_readers_lru);
static Size lsm_readers_bytes;
static int	lsm_readers_open;

/* The one that a block is read of, which may open others to read ahead. */
static LsmOpenSegment *lsm_segment_in_use;

static HTAB *lsm_blocks;
static MemoryContext lsm_blocks_context;
static dlist_head lsm_blocks_lru = DLIST_STATIC_INIT(lsm_blocks_lru);
static Size lsm_blocks_bytes;

/*
 * Of the blocks that scans go through when the cache is full, one in so many is kept
 * before older ones; the others make room for the next, whose memory is then in the
 * processor's caches, and a table that does not fit finds a part of it the next time.
 */
#define LSM_PASSING_KEPT		16

static uint32 lsm_passing_blocks;
static int	lsm_pinned_blocks;	/* blocks with refcount > 0 */

static void
lsm_source_read(LsmSegmentSource *base, uint64 offset, Size len, void *buf)
{
	LsmSource  *source = (LsmSource *) base;

	if (source->ahead != NULL && offset >= source->ahead_offset &&
		offset + len <= source->ahead_offset + source->ahead_bytes)
	{
		memcpy(buf, source->ahead + (offset - source->ahead_offset), len);
		return;
	}
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
	LsmSegmentSource source = {NULL, entry->stored_bytes, entry->uid, RelationGetRelationName(rel)};

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
		hash_search(old->table->readers, &old->uid, HASH_REMOVE, NULL);
	}
}

/*
 * Read the metadata of a segment past shared buffers, as a rule by one request, for
 * its reader to find.  What does not prove is left to shared buffers.
 *
 * A view may be old by now, and the pages somebody else's; but then they do not
 * prove, so that no lock is needed.
 */
static void
lsm_source_read_meta(LsmSource *source)
{
	const LsmManifestEntry *entry = &source->entry;
	uint64		total = entry->stored_bytes;
	LsmSegmentFacts facts = {(LsmSegmentKind) entry->kind, total, entry->versions,
	entry->forwards + entry->dead, entry->blocks, entry->nunresolved,
	lsm_entry_dictionaries(entry)};
	uint64		bytes = lsm_segment_meta_estimate(&facts);
	uint64		needed;

	if (!lsm_segpages_are_direct(source->rel))
		return;
	lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
	needed = lsm_sharedcache_length(entry->uid, LSM_META_BLOCKNO);
	if (needed > 0 && needed <= total)
	{
		source->ahead = MemoryContextAllocHuge(CurrentMemoryContext, needed);
		source->ahead_offset = total - needed;
		source->ahead_bytes = needed;
		if (lsm_sharedcache_get(entry->uid, LSM_META_BLOCKNO, (uint32) needed, source->ahead,
								LSM_TOUCH_POINT))
		{
			lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_HIT, 1);
			lsm_segpages_count(source->rel, lsm_segpages_span(source->ahead_offset, needed),
							   true);
			return;
		}
		pfree(source->ahead);
	}

	/* all of the first page is as easy to have */
	bytes += (total - bytes) % LSM_PAGE_PAYLOAD;
	if (lsm_entry_is_cold(entry))
		bytes = total - (uint64) lsm_entry_first_page(entry) * LSM_PAGE_PAYLOAD;
	for (int i = 0; i < 2; i++)
	{
		source->ahead = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
		source->ahead_offset = total - bytes;
		source->ahead_bytes = bytes;
		needed = 0;
		if (lsm_segpages_read_direct(source->rel, entry, LSM_READER_METADATA,
									 source->ahead_offset, bytes, source->ahead))
			needed = lsm_segment_meta_bytes(entry->uid, total, source->ahead, bytes);
		if (needed <= bytes)
			break;
		pfree(source->ahead);
		bytes = needed;
	}
	if (needed > 0 && lsm_segment_meta_good(entry->uid, total,
											source->ahead + (bytes - needed), needed))
	{
		lsm_iostat_add(LSM_READER_METADATA, LSM_METHOD_SYNC, LSM_IO_BYTES_WANTED, needed);
		if (needed <= PG_UINT32_MAX)
			lsm_sharedcache_put(entry->uid, LSM_META_BLOCKNO, (uint32) needed,
								source->ahead + (bytes - needed), LSM_TOUCH_POINT);
		return;
	}
	pfree(source->ahead);
	source->ahead = NULL;
}

/* Get an opened segment ready for use, for this relation. */
static inline LsmOpenSegment *
lsm_segment_use(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
				LsmOpenSegment *open)
{
	lsm_stat_count(&table->stat, LSM_STAT_INDEX_HIT);
	open->source->rel = rel;
	open->source->ahead = NULL; /* an error may have left it */
	dlist_move_head(&lsm_readers_lru, &open->lru);

	/* VACUUM may have moved it, or a part of it */
	if (unlikely(memcmp(open->source->entry.extents, entry->extents,
						sizeof(entry->extents)) != 0))
		open->source->entry = *entry;
	return open;
}

static pg_noinline LsmOpenSegment *
lsm_segment_find(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegment *open;
	LsmSource  *source;
	MemoryContext context;
	MemoryContext caller;
	LsmSegmentReader *reader;
	Size		memory;

	if (table->readers == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(uint64);
		ctl.entrysize = sizeof(LsmOpenSegment);
		ctl.hcxt = CacheMemoryContext;
		table->readers = hash_create("lsm segments", 32, &ctl,
									 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	open = hash_search(table->readers, &entry->uid, HASH_FIND, NULL);
	if (open != NULL)
		return lsm_segment_use(rel, table, entry, open);

	context = AllocSetContextCreate(CurrentMemoryContext, "lsm segment", ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(context);
	source = palloc0(sizeof(LsmSource));
	source->entry = *entry;
	source->source.read = lsm_source_read;
	source->source.total_bytes = entry->stored_bytes;
	source->source.uid = entry->uid;
	source->source.relname = pstrdup(RelationGetRelationName(rel));
	source->rel = rel;
	lsm_source_read_meta(source);

	/* while this is held, no page of a segment of the newest view is reused */
	LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
	if (!lsm_view_current(table))
	{
		LWLockRelease(&table->shared->gen_lock);
		MemoryContextSwitchTo(caller);
		MemoryContextDelete(context);
		return NULL;
	}
	reader = lsm_segment_reader_open(&source->source);
	LWLockRelease(&table->shared->gen_lock);
	MemoryContextSwitchTo(caller);
	if (source->ahead != NULL)
		pfree(source->ahead);
	source->ahead = NULL;

	lsm_stat_count(&table->stat, LSM_STAT_INDEX_READ);
	memory = MemoryContextMemAllocated(context, true) + lsm_segment_dictionaries_memory(reader);
	lsm_readers_evict(memory);
	MemoryContextSetParent(context, CacheMemoryContext);
	open = hash_search(table->readers, &entry->uid, HASH_ENTER, NULL);
	open->context = context;
	open->table = table;
	open->memory = memory;
	lsm_readers_bytes += open->memory;
	lsm_readers_open++;
	dlist_push_head(&lsm_readers_lru, &open->lru);
	open->source = source;
	open->reader = reader;
	open->roots = NULL;
	return open;
}

static inline LsmOpenSegment *
lsm_segment_get(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegment **recent = &lsm_recent_segments[entry->uid % LSM_RECENT_SEGMENTS];
	LsmOpenSegment *open = *recent;

	if (likely(open != NULL && open->uid == entry->uid && open->reader != NULL &&
			   open->table == table))
		return lsm_segment_use(rel, table, entry, open);
	open = lsm_segment_find(rel, table, entry);
	if (open != NULL)
		*recent = open;
	return open;
}

LsmSegmentReader *
lsm_reader_get(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegment *open = lsm_segment_get(rel, table, entry);

	return open == NULL ? NULL : open->reader;
}

LsmSegmentReader *
lsm_reader_find(Relation rel, LsmTable *table, uint64 uid, bool newest, LsmManifestEntry *entry)
{
	LsmOpenSegment *open = NULL;

	if (table->readers != NULL && !newest)
		open = hash_search(table->readers, &uid, HASH_FIND, NULL);
	while (open == NULL)
	{
		LsmView    *view = lsm_view_get(rel, table);
		int			i;

		for (i = 0; i < view->nentries; i++)
			if (view->entries[i].uid == uid &&
				(view->entries[i].type == LSM_ENTRY_SEGMENT ||
				 view->entries[i].type == LSM_ENTRY_RETIRED))
				break;
		if (i >= view->nentries)
			return NULL;
		open = lsm_segment_get(rel, table, &view->entries[i]);
	}
	*entry = open->source->entry;
	return open->reader;
}

/*
 * The list of a cold segment's roots, opened if need be, with gen_lock held shared:
 * until that is released its pages are not reused.  NULL: the view is not the newest.
 */
static LsmSegmentReader *
lsm_roots_lock(Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmOpenSegment *open = lsm_segment_get(rel, table, entry);
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

static void
lsm_block_evict(Size need)
{
	Size		limit = lsm_session_blocks_limit();

	while (lsm_blocks_bytes + lsm_segment_dictionaries_adrift() + need > limit &&
		   !dlist_is_empty(&lsm_blocks_lru))
	{
		LsmCachedBlock *old = dlist_tail_element(LsmCachedBlock, lru, &lsm_blocks_lru);

		dlist_delete(&old->lru);
		lsm_blocks_bytes -= old->memory;
		lsm_block_free(old->block);
		old->block = NULL;
		hash_search(lsm_blocks, old, HASH_REMOVE, NULL);
	}
}

static LsmCachedBlock *
lsm_block_take(LsmCachedBlock *cached)
{
	if (cached->refcount > 0 && cached->xact != lsm_xact_number)
		elog(ERROR, "block of segment " UINT64_FORMAT " is pinned by an ended transaction",
			 cached->uid);
	if (cached->refcount == 0)
	{
		dlist_delete(&cached->lru);
		cached->xact = lsm_xact_number;
		lsm_pinned_blocks++;
	}
	cached->refcount++;
	return cached;
}

LsmCachedBlock *
lsm_block_repin(LsmCachedBlock *cached)
{
	return lsm_block_take(cached);
}

/* Pin a block that is in the cache. */
static inline LsmCachedBlock *
lsm_block_use(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
			  LsmCachedBlock *cached)
{
	lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
	/* VACUUM may have moved the segment, under an exclusive lock */
	if (cached->extents[0].start != entry->extents[0].start)
	{
		cached->nextents = entry->nextents;
		memcpy(cached->extents, entry->extents, sizeof(cached->extents));
	}
	/* what is found here counts as pages found in shared buffers */
	lsm_compat_count_hits(rel, cached->npages);
	return lsm_block_take(cached);
}

/* A block that is still in this backend, pinned; NULL if it is not. */
static LsmCachedBlock *
lsm_block_find_local(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
					 const LsmBlockKey *key)
{
	LsmCachedBlock *cached;

	if (lsm_blocks == NULL)
	{
		HASHCTL		ctl;

		lsm_blocks_context = AllocSetContextCreate(CacheMemoryContext, "lsm blocks",
												   ALLOCSET_DEFAULT_SIZES);
		ctl.keysize = sizeof(LsmBlockKey);
		ctl.entrysize = sizeof(LsmCachedBlock);
		ctl.hcxt = lsm_blocks_context;
		lsm_blocks = hash_create("lsm blocks", 1024, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	cached = hash_search(lsm_blocks, key, HASH_FIND, NULL);
	return cached == NULL ? NULL : lsm_block_use(rel, table, entry, cached);
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
					   char *buf)
{
	const LsmManifestEntry *entry = place->entry;
	LsmCacheTouch touch = lsm_block_touch(kind);

	if (!lsm_segpages_are_direct(rel))
		return false;
	lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
	if (lsm_sharedcache_get(entry->uid, place->blockno, place->len, buf, touch))
	{
		lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_HIT, 1);
		lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), true);
		lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
		return true;
	}
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

/*
 * The same for a cold segment, from shared memory, the disk cache or its store.  False:
 * there is no such object any more, as the view is not the newest.
 */
static bool
lsm_block_fetch_cold(Relation rel, LsmTable *table, LsmOpenSegment *open,
					 const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed,
					 char *buf)
{
	const LsmManifestEntry *entry = place->entry;
	LsmCacheTouch touch = lsm_block_touch(kind);
	LsmStoreCacheUse use = lsm_block_disk_use(kind);

	lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
	if (lsm_sharedcache_get(entry->uid, place->blockno, place->len, buf, touch))
	{
		lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_HIT, 1);
		lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), true);
		lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
		return true;
	}
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
	lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_BYTES_WANTED, place->len);
	lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), false);
	if (!(feed != NULL && lsm_ahead_take(rel, table, feed, place, buf)) &&
		!lsm_cold_read(rel, entry, place->offset, place->len, buf))
	{
		if (lsm_block_view_current(table))
			lsm_cold_raise_missing(entry);
		return false;
	}
	if (!lsm_segment_block_good(open->reader, place->blockno, buf))
		lsm_cold_raise_damaged(rel, entry, place->blockno);
	lsm_cold_cache_put(entry, place->offset, place->len, buf, use);
	lsm_sharedcache_put(entry->uid, place->blockno, place->len, buf, touch);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_READ);
	return true;
}

/*
 * Get the bytes of a block of an opened segment, and whether their checksum has been
 * looked at; false: the view is not the newest.
 */
static bool
lsm_block_fetch(Relation rel, LsmTable *table, LsmOpenSegment *open,
				const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed, char *buf,
				bool *proved)
{
	uint32		span = lsm_segpages_span(place->offset, place->len);

	lsm_segment_in_use = open;
	*proved = true;
	if (lsm_entry_is_cold(place->entry))
		return lsm_block_fetch_cold(rel, table, open, place, kind, feed, buf);
	if (lsm_block_fetch_direct(rel, table, open->reader, place, kind, feed, buf))
		return true;
	*proved = false;
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

/* Where a block lies in its segment. */
static void
lsm_block_locate(LsmOpenSegment *open, uint32 blockno, LsmAheadPlace *place)
{
	LsmTid		first;
	LsmTid		last;
	uint32		rows;

	place->entry = &open->source->entry;
	place->blockno = blockno;
	lsm_segment_block_info(open->reader, blockno, &first, &last, &rows, &place->offset,
						   &place->len);
}

bool
lsm_block_is_local(uint64 uid, uint32 blockno)
{
	LsmBlockKey key = {uid, blockno, 0};

	return lsm_blocks != NULL && hash_search(lsm_blocks, &key, HASH_FIND, NULL) != NULL;
}

bool
lsm_block_preload(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno,
				  LsmAheadFeed *feed)
{
	LsmOpenSegment *open = lsm_segment_get(rel, table, entry);
	LsmSource  *source;
	LsmAheadPlace place;

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
	if (!lsm_block_fetch(rel, table, open, &place, feed->kind, feed, source->preloaded,
						 &source->preloaded_proved))
		return false;
	source->preloaded_offset = place.offset;
	source->preloaded_bytes = place.len;
	return true;
}

/* Pin a block that this backend may have to read; feed may be NULL. */
static pg_noinline LsmCachedBlock *
lsm_block_find_or_read(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno,
					   LsmReaderKind kind, LsmAheadFeed *feed)
{
	LsmBlockKey key = {entry->uid, blockno, 0};
	LsmCachedBlock *cached;
	LsmOpenSegment *open;
	LsmSource  *source;
	LsmAheadPlace place;
	LsmBlock   *block;
	char	   *bytes;
	bool		proved;

	cached = lsm_block_find_local(rel, table, entry, &key);
	if (cached != NULL)
		return cached;

	open = lsm_segment_get(rel, table, entry);
	if (open == NULL)
		return NULL;
	source = open->source;
	lsm_block_locate(open, blockno, &place);
	lsm_block_evict((Size) place.len * 2);
	block = lsm_block_new(open->reader, blockno, &bytes);
	if (source->preloaded_bytes == place.len && source->preloaded_offset == place.offset)
	{
		memcpy(bytes, source->preloaded, place.len);
		proved = source->preloaded_proved;
	}
	else if (!lsm_block_fetch(rel, table, open, &place, kind, feed, bytes, &proved))
	{
		lsm_block_free(block);
		return NULL;
	}
	lsm_block_begin(open->reader, block, proved);

	cached = hash_search(lsm_blocks, &key, HASH_ENTER, NULL);
	lsm_block_keep(block, lsm_blocks_context);
	cached->block = block;
	cached->passing = kind != LSM_READER_POINT;
	cached->refcount = 1;
	lsm_pinned_blocks++;
	cached->xact = lsm_xact_number;
	cached->memory = lsm_block_memory(block);
	cached->npages = lsm_segpages_span(place.offset, place.len);
	cached->nextents = entry->nextents;
	memcpy(cached->extents, entry->extents, sizeof(cached->extents));
	lsm_blocks_bytes += cached->memory;
	return cached;
}

static inline LsmCachedBlock *
lsm_block_pin_any(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno,
				  LsmReaderKind kind, LsmAheadFeed *feed)
{
	LsmCachedBlock **recent = &lsm_recent_blocks[(entry->uid + blockno) % LSM_RECENT_BLOCKS];
	LsmCachedBlock *cached = *recent;

	lsm_stat_tick(&table->stat);
	if (likely(cached != NULL && cached->uid == entry->uid && cached->blockno == blockno &&
			   cached->block != NULL))
		lsm_block_use(rel, table, entry, cached);
	else
	{
		cached = lsm_block_find_or_read(rel, table, entry, blockno, kind, feed);
		if (cached == NULL)
			return NULL;
		*recent = cached;
	}
	if (kind == LSM_READER_POINT)
		cached->passing = false;
	return cached;
}

LsmCachedBlock *
lsm_block_pin(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno)
{
	return lsm_block_pin_any(rel, table, entry, blockno, LSM_READER_POINT, NULL);
}

LsmCachedBlock *
lsm_block_pin_for(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno,
				  LsmReaderKind kind)
{
	return lsm_block_pin_any(rel, table, entry, blockno, kind, NULL);
}

LsmCachedBlock *
lsm_block_pin_ahead(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
					uint32 blockno, LsmAheadFeed *feed)
{
	return lsm_block_pin_any(rel, table, entry, blockno, feed->kind, feed);
}

void
lsm_block_unpin(LsmCachedBlock *cached, uint64 xact)
{
	Size		memory;

	if (xact != lsm_xact_number)
		return;					/* all its pins are gone already */
	Assert(cached->refcount > 0 && cached->xact == xact);
	if (--cached->refcount > 0)
		return;
	lsm_pinned_blocks--;
	memory = lsm_block_memory(cached->block);
	lsm_blocks_bytes += memory - cached->memory;
	cached->memory = memory;
	if (cached->passing && lsm_blocks_bytes > lsm_session_blocks_limit() / 8 * 7 &&
		++lsm_passing_blocks % LSM_PASSING_KEPT != 0)
		dlist_push_tail(&lsm_blocks_lru, &cached->lru);
	else
		dlist_push_head(&lsm_blocks_lru, &cached->lru);
	lsm_block_evict(0);
}

/*
 * All slots are gone at the end of a transaction, those of failed
 * subtransactions without having been cleared.
 */
void
lsm_blockcache_xact_end(void)
{
	HASH_SEQ_STATUS scan;
	LsmCachedBlock *cached;

	if (lsm_pinned_blocks == 0)
		return;
	lsm_pinned_blocks = 0;
	hash_seq_init(&scan, lsm_blocks);
	while ((cached = hash_seq_search(&scan)) != NULL)
	{
		if (cached->refcount > 0)
		{
			cached->refcount = 0;
			dlist_push_head(&lsm_blocks_lru, &cached->lru);
		}
	}
	lsm_block_evict(0);
}
