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
 * BORROWED BLOCKS
 *	  A scan that finds a block in shared memory does not copy it: it pins it there, and
 *	  chunks are copied as they are looked at (lsm_block_borrow()).  The memory for that is
 *	  used again for the next block, so that it stays in the processor's caches.  A session
 *	  has a few such blocks at a time; when they are all in use, and where shared memory
 *	  gives no pin, blocks are copied as a whole, as for single rows.  When a block's last
 *	  user has gone, its pin is given back, and it is forgotten; but if chunks had to be
 *	  decompressed, or numerics built, it is completed first, and kept like others.
 *
 *	  Pins end with the transaction, as those of decoded blocks do: by an error too.  What a
 *	  failed subtransaction leaves stays pinned until then, but no more than those few.
 *
 * BLOCKS OVER SHARED MEMORY
 *	  A block that is read row by row is copied only as long as there is much room here.
 *	  Else what is kept here lies over its bytes in shared memory, expanded or as stored,
 *	  which are pinned while the block is.  Who pins it again looks whether they are where
 *	  they were; if not, it is opened anew.  (Bytes of one uid and number that are in the
 *	  same place again are the same bytes, so what points there is right again.)
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
#include "lsm_stop.h"
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

	/*
	 * Where scans have last met each block in the cache of decoded blocks, or
	 * NULL.  As with recent blocks, what is there may be another one by now.
	 */
	LsmCachedBlock **met;
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
#define LSM_RECENT_BLOCKS		65536

static LsmOpenSegment *lsm_recent_segments[LSM_RECENT_SEGMENTS];
static LsmCachedBlock *lsm_recent_blocks[LSM_RECENT_BLOCKS];

static dlist_head lsm_readers_lru = DLIST_STATIC_INIT(lsm_readers_lru);
static Size lsm_readers_bytes;
static int	lsm_readers_open;

/* The one that a block is read of, which may open others to read ahead. */
static LsmOpenSegment *lsm_segment_in_use;

static HTAB *lsm_blocks;
static MemoryContext lsm_blocks_context;

/*
 * All blocks, those that were used last first, about: a block that is used stays where it
 * is, and is marked.  Whoever looks for one to give up at the other end brings it to
 * this one, without its mark.  To move it each time would touch its neighbours, which in
 * a large cache are in none of the processor's.
 */
static dlist_head lsm_blocks_lru = DLIST_STATIC_INIT(lsm_blocks_lru);
static Size lsm_blocks_bytes;

/*
 * Of the blocks that scans go through when the cache is full, one in so many is kept
 * before older ones; the others make room for the next, whose memory is then in the
 * processor's caches, and a table that does not fit finds a part of it the next time.
 */
#define LSM_PASSING_KEPT		16

/* For single rows, blocks are copied as long as all take less than this part of their room. */
#define LSM_POINT_COPIES		2

static uint32 lsm_passing_blocks;

/* A block that is pinned in shared memory. */
typedef struct LsmBorrowedBlock
{
	LsmCachedBlock cached;		/* must be first; in use while refcount > 0 */
	LsmBlockLender lender;
	LsmCachePin pin;
	bool		pinned;
} LsmBorrowedBlock;

/* (Its block stays when it is not in use, for the next one to be made of.) */

/* Which parts of the last one were copied: those of the next one will lie about there. */
#define LSM_BORROWED_SPANS		6

static LsmCacheSpan lsm_borrowed_spans[LSM_BORROWED_SPANS];
static int	lsm_borrowed_nspans;

/* A session has so many at a time, of so many bytes at most. */
#define LSM_BORROWED_BLOCKS		8
#define LSM_BORROWED_BYTES		(256 * 1024)

static LsmBorrowedBlock lsm_borrowed[LSM_BORROWED_BLOCKS];
static int	lsm_pinned_blocks;	/* blocks with refcount > 0 */

/* Bytes in shared memory that a block is being opened over; an error may leave them. */
static struct
{
	const char *bytes;			/* NULL: none */
	LsmCachePin pin;
} lsm_shared_opening;

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
	open->met = NULL;
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

/* Forget a block that is not pinned. */
static void
lsm_block_forget(LsmCachedBlock *cached)
{
	dlist_delete(&cached->lru);
	lsm_blocks_bytes -= cached->memory;
	lsm_block_free(cached->block);
	cached->block = NULL;
	hash_search(lsm_blocks, cached, HASH_REMOVE, NULL);
}

static void
lsm_block_evict(Size need)
{
	Size		limit = lsm_session_blocks_limit();
	int			pinned = 0;		/* met one after the other */

	while (lsm_blocks_bytes + lsm_segment_dictionaries_adrift() + need > limit &&
		   !dlist_is_empty(&lsm_blocks_lru))
	{
		LsmCachedBlock *old = dlist_tail_element(LsmCachedBlock, lru, &lsm_blocks_lru);

		if (old->refcount > 0 || old->used)
		{
			/* each has been met twice: there are no others */
			if (old->refcount > 0 && ++pinned > 2 * lsm_pinned_blocks)
				break;
			old->used = false;
			dlist_move_head(&lsm_blocks_lru, &old->lru);
			continue;
		}
		pinned = 0;
		lsm_block_forget(old);
	}
}

/* ---- blocks that scans meet again ---- */

/* The array of blocks that scans have met of a segment. */
static LsmCachedBlock **
lsm_segment_met(LsmOpenSegment *open)
{
	Size		size = Max(lsm_segment_reader_blocks(open->reader), 1) * sizeof(LsmCachedBlock *);

	if (open->met == NULL)
	{
		open->met = MemoryContextAllocZero(open->context, size);
		open->memory += size;
		lsm_readers_bytes += size;
	}
	return open->met;
}

/* Scans will find this block, if its segment is at hand. */
static void
lsm_block_note_met(LsmCachedBlock *cached)
{
	LsmOpenSegment *open = lsm_recent_segments[cached->uid % LSM_RECENT_SEGMENTS];

	if (open != NULL && open->uid == cached->uid && open->reader != NULL)
		lsm_segment_met(open)[cached->blockno] = cached;
}

/* ---- borrowed blocks ---- */

static void
lsm_borrowed_copy(LsmBlockLender *lender, uint32 from, uint32 len, char *to)
{
	char	   *start = (char *) lender - offsetof(LsmBorrowedBlock, lender);
	LsmBorrowedBlock *borrowed = (LsmBorrowedBlock *) start;

	Assert(borrowed->pinned);
	if (lsm_borrowed_nspans < LSM_BORROWED_SPANS)
	{
		lsm_borrowed_spans[lsm_borrowed_nspans].from = from;
		lsm_borrowed_spans[lsm_borrowed_nspans++].len = len;
	}
	lsm_sharedcache_copy(&borrowed->pin, from, len, to);
}

/* The block is not used any more: its memory may serve for another one. */
static void
lsm_borrowed_release(LsmBorrowedBlock *borrowed)
{
	if (borrowed->pinned)
	{
		lsm_sharedcache_unpin(&borrowed->pin);
		borrowed->pinned = false;
	}
	borrowed->cached.refcount = 0;
}

/* Have what was decoded of a block in the cache, as if it had been read. */
static void
lsm_borrowed_keep(LsmBorrowedBlock *borrowed)
{
	LsmCachedBlock *cached = &borrowed->cached;
	LsmBlockKey key = {cached->uid, cached->blockno, 0};
	LsmCachedBlock *kept;
	bool		found;

	lsm_block_complete_bytes(cached->block);
	kept = hash_search(lsm_blocks, &key, HASH_ENTER, &found);
	if (found)
	{
		lsm_block_note_met(kept);
		return;
	}
	*kept = *cached;
	kept->borrowed = false;
	kept->refcount = 0;
	lsm_block_keep(kept->block, lsm_blocks_context);
	kept->memory = lsm_block_memory(kept->block);
	lsm_blocks_bytes += kept->memory;
	dlist_push_head(&lsm_blocks_lru, &kept->lru);
	cached->block = NULL;

	/* what fails here, or before, finds each of them sound */
	lsm_block_note_met(kept);
}

/* Is it to be kept?  By the same rule as what scans go through. */
static bool
lsm_borrowed_is_wanted(LsmBorrowedBlock *borrowed)
{
	return lsm_block_is_costly(borrowed->cached.block) &&
		(lsm_blocks_bytes <= lsm_session_blocks_limit() / 8 * 7 ||
		 ++lsm_passing_blocks % LSM_PASSING_KEPT == 0);
}

static void
lsm_borrowed_end(LsmBorrowedBlock *borrowed)
{
	if (lsm_borrowed_is_wanted(borrowed))
	{
		lsm_borrowed_keep(borrowed);
		lsm_borrowed_release(borrowed);
		lsm_block_evict(0);
	}
	else
		lsm_borrowed_release(borrowed);
}

static LsmBorrowedBlock *
lsm_borrowed_find_unused(void)
{
	for (int i = 0; i < LSM_BORROWED_BLOCKS; i++)
		if (lsm_borrowed[i].cached.refcount == 0 && !lsm_borrowed[i].pinned)
			return &lsm_borrowed[i];
	return NULL;
}

/* A block was found in shared memory. */
static void
lsm_block_count_hit(Relation rel, LsmTable *table, const LsmAheadPlace *place, LsmReaderKind kind)
{
	LsmReaderMethod method = lsm_entry_is_cold(place->entry) ? LSM_METHOD_STORE : LSM_METHOD_SYNC;

	lsm_iostat_add(kind, method, LSM_IO_WANTED, 1);
	lsm_iostat_add(kind, method, LSM_IO_HIT, 1);
	lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), true);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
}

/* Pin a block where it is in shared memory; NULL: it has to be copied. */
static LsmCachedBlock *
lsm_block_borrow_shared(Relation rel, LsmTable *table, LsmSegmentReader *reader,
						const LsmAheadPlace *place, LsmReaderKind kind)
{
	const LsmManifestEntry *entry = place->entry;
	LsmBorrowedBlock *borrowed = lsm_borrowed_find_unused();
	LsmCachedBlock *cached;
	MemoryContext caller;

	if (borrowed == NULL || place->len > LSM_BORROWED_BYTES ||
		!(lsm_segpages_are_direct(rel) || lsm_entry_is_cold(entry)) ||
		!lsm_sharedcache_pin(entry->uid, place->blockno, place->len, LSM_TOUCH_SCAN,
							 &borrowed->pin))
		return NULL;
	lsm_borrowed_nspans = 0;
	cached = &borrowed->cached;
	borrowed->pinned = true;
	borrowed->lender.copy = lsm_borrowed_copy;
	cached->refcount = 1;
	cached->xact = lsm_xact_number;
	lsm_pinned_blocks++;

	caller = MemoryContextSwitchTo(lsm_blocks_context);
	cached->block = lsm_block_borrow(cached->block, reader, place->blockno, &borrowed->lender);
	MemoryContextSwitchTo(caller);
	cached->uid = entry->uid;
	cached->blockno = place->blockno;
	cached->borrowed = true;
	cached->passing = true;
	cached->npages = lsm_segpages_span(place->offset, place->len);
	cached->nextents = entry->nextents;
	memcpy(cached->extents, entry->extents, sizeof(cached->extents));
	lsm_block_count_hit(rel, table, place, kind);
	return cached;
}

/* ---- blocks ---- */

static LsmCachedBlock *
lsm_block_take(LsmCachedBlock *cached)
{
	if (cached->refcount > 0 && cached->xact != lsm_xact_number)
		elog(ERROR, "block of segment " UINT64_FORMAT " is pinned by an ended transaction",
			 cached->uid);
	if (cached->refcount == 0)
	{
		cached->xact = lsm_xact_number;
		cached->used = true;
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

/* Pin the bytes of a block where they were; false: they are not there any more. */
static bool
lsm_block_pin_shared(LsmCachedBlock *cached)
{
	uint32		len;
	const char *bytes = cached->stored ?
		lsm_sharedcache_pin_stored(cached->uid, cached->blockno, &len, &cached->pin) :
		lsm_sharedcache_pin_expanded(cached->uid, cached->blockno, &len, &cached->pin);

	if (bytes != NULL && bytes != cached->shared)
		lsm_sharedcache_unpin(&cached->pin);
	return bytes == cached->shared;
}

/* Pin a block that is in the cache; NULL: it had to be forgotten. */
static inline LsmCachedBlock *
lsm_block_use(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
			  LsmCachedBlock *cached)
{
	if (cached->shared != NULL && cached->refcount == 0 && !lsm_block_pin_shared(cached))
	{
		lsm_block_forget(cached);
		return NULL;
	}
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

static void
lsm_blocks_init(void)
{
	HASHCTL		ctl;

	if (lsm_blocks != NULL)
		return;
	lsm_blocks_context = AllocSetContextCreate(CacheMemoryContext, "lsm blocks",
											   ALLOCSET_DEFAULT_SIZES);
	ctl.keysize = sizeof(LsmBlockKey);
	ctl.entrysize = sizeof(LsmCachedBlock);
	ctl.hcxt = lsm_blocks_context;
	lsm_blocks = hash_create("lsm blocks", 1024, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* A block that is still in this backend, pinned; NULL if it is not. */
static LsmCachedBlock *
lsm_block_find_local(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
					 const LsmBlockKey *key)
{
	LsmCachedBlock *cached;

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
					   char *buf, bool *shared)
{
	const LsmManifestEntry *entry = place->entry;
	LsmCacheTouch touch = lsm_block_touch(kind);

	if (!lsm_segpages_are_direct(rel))
		return false;
	lsm_iostat_add(kind, LSM_METHOD_SYNC, LSM_IO_WANTED, 1);
	if (lsm_sharedcache_get(entry->uid, place->blockno, place->len, buf, touch))
	{
		*shared = true;
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
 * there is no such object any more, as the view is not the newest.
 */
static bool
lsm_block_fetch_cold(Relation rel, LsmTable *table, LsmOpenSegment *open,
					 const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed,
					 char *buf, bool *shared)
{
	const LsmManifestEntry *entry = place->entry;
	LsmCacheTouch touch = lsm_block_touch(kind);
	LsmStoreCacheUse use = lsm_block_disk_use(kind);

	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_WANTED, 1);
	if (lsm_sharedcache_get(entry->uid, place->blockno, place->len, buf, touch))
	{
		*shared = true;
		lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_HIT, 1);
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
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_BYTES_WANTED, place->len);
	lsm_segpages_count(rel, lsm_segpages_span(place->offset, place->len), false);
	if (!lsm_block_ask_store(rel, table, place, kind, feed, buf))
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

/* What is known of the bytes of a block. */
typedef struct LsmFetched
{
	bool		proved;			/* their checksum has been looked at */
	bool		shared;			/* they were in shared memory */
} LsmFetched;

/* Get the bytes of a block of an opened segment; false: the view is not the newest. */
static bool
lsm_block_fetch(Relation rel, LsmTable *table, LsmOpenSegment *open,
				const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed, char *buf,
				LsmFetched *fetched)
{
	uint32		span = lsm_segpages_span(place->offset, place->len);

	lsm_segment_in_use = open;
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

/* Copy an expanded block, as too much is pinned; NULL: it is not there. */
static LsmBlock *
lsm_block_copy_expanded(LsmSegmentReader *reader, uint64 uid, uint32 blockno)
{
	uint32		len = lsm_sharedcache_expanded_length(uid, blockno);
	LsmBlock   *block;
	char	   *bytes;

	if (len == 0)
		return NULL;
	block = lsm_block_new_expanded(reader, blockno, len, &bytes);
	if (lsm_sharedcache_get_expanded(uid, blockno, len, bytes))
		return block;
	lsm_block_free(block);
	return NULL;
}

static void
lsm_shared_opening_release(void)
{
	if (lsm_shared_opening.bytes != NULL)
		lsm_sharedcache_unpin(&lsm_shared_opening.pin);
	lsm_shared_opening.bytes = NULL;
}

/* Is there so little room for blocks here that one of that length had better not be copied? */
static bool
lsm_block_is_tight(uint32 len)
{
	return lsm_blocks_bytes + len > lsm_session_blocks_limit() / LSM_POINT_COPIES;
}

/* A block over its bytes as stored in shared memory (lsm_shared_opening); NULL: copy it. */
static LsmBlock *
lsm_block_fetch_over(Relation rel, LsmSegmentReader *reader, const LsmAheadPlace *place)
{
	LsmBlock   *block;
	uint32		len;

	Assert(lsm_shared_opening.bytes == NULL);
	if (!lsm_block_is_tight(place->len) ||
		!(lsm_segpages_are_direct(rel) || lsm_entry_is_cold(place->entry)))
		return NULL;
	lsm_shared_opening.bytes = lsm_sharedcache_pin_stored(place->entry->uid, place->blockno, &len,
														  &lsm_shared_opening.pin);
	if (lsm_shared_opening.bytes == NULL)
		return NULL;
	if (len != place->len)
	{
		lsm_shared_opening_release();
		return NULL;
	}
	block = lsm_block_over(reader, place->blockno, len, lsm_shared_opening.bytes);
	lsm_block_begin(reader, block, true);
	return block;
}

/*
 * An expanded block from shared memory: a copy of it as long as there is much room for blocks
 * here, else over its bytes there, which are pinned (lsm_shared_opening), if that is possible.
 * NULL: there is none.
 */
static LsmBlock *
lsm_block_fetch_expanded(LsmSegmentReader *reader, uint64 uid, uint32 blockno)
{
	LsmBlock   *block;
	uint32		len;
	char	   *bytes;

	Assert(lsm_shared_opening.bytes == NULL);
	lsm_shared_opening.bytes = lsm_sharedcache_pin_expanded(uid, blockno, &len,
															&lsm_shared_opening.pin);
	if (lsm_shared_opening.bytes == NULL)
		block = lsm_block_copy_expanded(reader, uid, blockno);
	else if (lsm_block_is_tight(len))
		block = lsm_block_over(reader, blockno, len, lsm_shared_opening.bytes);
	else
	{
		block = lsm_block_new_expanded(reader, blockno, len, &bytes);
		memcpy(bytes, lsm_shared_opening.bytes, len);
		lsm_shared_opening_release();
	}
	if (block != NULL)
		lsm_block_begin(reader, block, true);
	return block;
}

/*
 * A block that this backend does not have: expanded, if it is read row by row and somebody
 * has expanded it, or if that is all that is there; *shared: as stored, from shared memory.
 * NULL: the view is not the newest.
 */
static LsmBlock *
lsm_block_read_any(Relation rel, LsmTable *table, LsmOpenSegment *open,
				   const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed,
				   bool *shared)
{
	LsmSource  *source = open->source;
	uint64		uid = place->entry->uid;
	LsmBlock   *block = NULL;
	LsmFetched	fetched = {false, false};
	char	   *bytes;

	lsm_shared_opening_release();
	*shared = false;
	if (kind == LSM_READER_POINT || !lsm_sharedcache_has(uid, place->blockno))
		block = lsm_block_fetch_expanded(open->reader, uid, place->blockno);
	if (block == NULL && kind == LSM_READER_POINT)
	{
		block = lsm_block_fetch_over(rel, open->reader, place);
		*shared = block != NULL;
	}
	if (block != NULL)
	{
		lsm_block_count_hit(rel, table, place, kind);
		return block;
	}

	block = lsm_block_new(open->reader, place->blockno, &bytes);
	if (source->preloaded_bytes == place->len && source->preloaded_offset == place->offset)
	{
		memcpy(bytes, source->preloaded, place->len);
		fetched.proved = source->preloaded_proved;
	}
	else if (!lsm_block_fetch(rel, table, open, place, kind, feed, bytes, &fetched))
	{
		lsm_block_free(block);
		return NULL;
	}
	lsm_block_begin(open->reader, block, fetched.proved);
	*shared = fetched.shared;
	return block;
}

/*
 * A block that scans have met, pinned; NULL if it is not in the cache.  Its neighbours are
 * fetched closer meanwhile: they come next.
 */
static LsmCachedBlock *
lsm_block_meet(Relation rel, LsmTable *table, const LsmManifestEntry *entry, LsmOpenSegment *open,
			   uint32 blockno)
{
	LsmCachedBlock **met = lsm_segment_met(open) + blockno;
	uint32		left = lsm_segment_reader_blocks(open->reader) - blockno;

	if (left > 2 && met[2] != NULL)
		__builtin_prefetch(met[2]);
	if (left > 1 && met[1] != NULL && met[1]->block != NULL)
		lsm_block_prefetch(met[1]->block);
	else if (left > 1)
		lsm_sharedcache_prefetch(entry->uid, blockno + 1, lsm_borrowed_spans,
								 lsm_borrowed_nspans);
	if (met[0] == NULL || met[0]->uid != entry->uid || met[0]->blockno != blockno ||
		met[0]->block == NULL)
		return NULL;
	return lsm_block_use(rel, table, entry, met[0]);
}

/*
 * Pin a block for a scan, if it is in this backend's cache or in shared memory.  NULL: it may
 * still be; or the view is old.
 */
static LsmCachedBlock *
lsm_block_pin_scanned(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
					  uint32 blockno, LsmReaderKind kind)
{
	LsmOpenSegment *open = lsm_segment_get(rel, table, entry);
	LsmCachedBlock *cached;
	LsmAheadPlace place;

	if (open == NULL)
		return NULL;
	cached = lsm_block_meet(rel, table, entry, open, blockno);
	if (cached != NULL)
		return cached;
	lsm_block_locate(open, blockno, &place);
	cached = lsm_block_borrow_shared(rel, table, open->reader, &place, kind);
	if (cached != NULL)
		LSM_STOP("block-borrowed");
	return cached;
}

/* Pin a block that this backend may have to read; feed may be NULL. */
static pg_noinline LsmCachedBlock *
lsm_block_find_or_read(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno,
					   LsmReaderKind kind, LsmAheadFeed *feed)
{
	LsmBlockKey key = {entry->uid, blockno, 0};
	LsmCachedBlock *cached;
	LsmOpenSegment *open;
	LsmAheadPlace place;
	LsmBlock   *block;
	bool		scanned = feed != NULL && kind == LSM_READER_SCAN;
	bool		shared;

	lsm_blocks_init();
	if (scanned)
	{
		cached = lsm_block_pin_scanned(rel, table, entry, blockno, kind);
		if (cached != NULL)
			return cached;
	}
	cached = lsm_block_find_local(rel, table, entry, &key);
	if (cached != NULL && scanned)
		lsm_block_note_met(cached);
	if (cached != NULL)
		return cached;
	open = lsm_segment_get(rel, table, entry);
	if (open == NULL)
		return NULL;
	lsm_block_locate(open, blockno, &place);
	lsm_block_evict((Size) place.len * 2);
	block = lsm_block_read_any(rel, table, open, &place, kind, feed, &shared);
	if (block == NULL)
		return NULL;

	cached = hash_search(lsm_blocks, &key, HASH_ENTER, NULL);
	lsm_block_keep(block, lsm_blocks_context);
	cached->block = block;
	cached->borrowed = false;
	cached->shared = lsm_shared_opening.bytes;
	cached->pin = lsm_shared_opening.pin;
	cached->stored = shared;
	lsm_shared_opening.bytes = NULL;
	cached->passing = kind != LSM_READER_POINT;
	cached->expands = shared && kind == LSM_READER_POINT;
	cached->used = false;
	cached->refcount = 1;
	lsm_pinned_blocks++;
	cached->xact = lsm_xact_number;
	dlist_push_head(&lsm_blocks_lru, &cached->lru);
	cached->memory = lsm_block_memory(block);
	cached->npages = lsm_segpages_span(place.offset, place.len);
	cached->nextents = entry->nextents;
	memcpy(cached->extents, entry->extents, sizeof(cached->extents));
	lsm_blocks_bytes += cached->memory;
	if (scanned)
		lsm_segment_met(open)[blockno] = cached;
	return cached;
}

/* The place where a cached block is looked for first. */
static inline LsmCachedBlock **
lsm_block_recent(uint64 uid, uint32 blockno)
{
	return &lsm_recent_blocks[(uid + blockno) % LSM_RECENT_BLOCKS];
}

/* Is what a place has that block, and is it there? */
static inline bool
lsm_block_is(const LsmCachedBlock *cached, uint64 uid, uint32 blockno)
{
	return cached != NULL && cached->uid == uid && cached->blockno == blockno &&
		cached->block != NULL;
}

static inline LsmCachedBlock *
lsm_block_pin_any(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blockno,
				  LsmReaderKind kind, LsmAheadFeed *feed)
{
	LsmCachedBlock **recent = lsm_block_recent(entry->uid, blockno);
	LsmCachedBlock *cached = *recent;

	lsm_stat_tick(&table->stat);
	if (unlikely(!lsm_block_is(cached, entry->uid, blockno) ||
				 lsm_block_use(rel, table, entry, cached) == NULL))
	{
		cached = lsm_block_find_or_read(rel, table, entry, blockno, kind, feed);
		if (cached == NULL)
			return NULL;
		if (!cached->borrowed)
			*recent = cached;
	}
	if (kind == LSM_READER_POINT)
		cached->passing = false;
	return cached;
}

/* A row that is foreseen. */
typedef struct LsmForeseen
{
	LsmTid		root;
	LsmSegmentReader *reader;
	uint64		uid;
	uint32		blockno;
	LsmCachedBlock **place;
	LsmCachedBlock *cached;
} LsmForeseen;

/* The segments that may have them, as far as they are at hand; how many. */
static int
lsm_foresee_segments(LsmTable *table, const LsmTid *roots, int nroots, LsmForeseen *rows)
{
	LsmView    *view = table->view;
	int			n = 0;

	for (int i = 0; i < nroots && view != NULL; i++)
	{
		int			at = lsm_view_find_base(view, roots[i]);
		LsmOpenSegment *open;

		if (at >= view->nbase)
			continue;
		open = lsm_recent_segments[view->base[at]->uid % LSM_RECENT_SEGMENTS];
		if (open == NULL || open->uid != view->base[at]->uid || open->reader == NULL ||
			open->table != table)
			continue;
		rows[n].root = roots[i];
		rows[n].uid = open->uid;
		rows[n].reader = open->reader;
		lsm_segment_foresee(open->reader, roots[i]);
		n++;
	}
	return n;
}

/* The blocks that have them, as far as they are at hand; how many. */
static int
lsm_foresee_cached(LsmForeseen *rows, int nrows)
{
	int			n = 0;

	for (int i = 0; i < nrows; i++)
	{
		rows[i].blockno = lsm_segment_find_block(rows[i].reader, rows[i].root);
		rows[i].place = lsm_block_recent(rows[i].uid, rows[i].blockno);
		lsm_prefetch(rows[i].place);
	}
	for (int i = 0; i < nrows; i++)
	{
		rows[i].cached = *rows[i].place;
		if (rows[i].cached != NULL)
			lsm_prefetch(rows[i].cached);
	}
	for (int i = 0; i < nrows; i++)
	{
		if (!lsm_block_is(rows[i].cached, rows[i].uid, rows[i].blockno))
			continue;
		lsm_block_foresee(rows[i].cached->block);
		rows[n++] = rows[i];
	}
	return n;
}

/*
 * In steps, each of which waits for what the one before has asked for, of the first row
 * perhaps, but hardly of the others.
 */
void
lsm_blocks_foresee(LsmTable *table, const LsmTid *roots, int nroots, const int16 *asked, int n)
{
	LsmForeseen rows[LSM_FORESEEN];
	int			nrows;

	Assert(nroots <= LSM_FORESEEN);
	nrows = lsm_foresee_segments(table, roots, nroots, rows);
	nrows = lsm_foresee_cached(rows, nrows);
	for (int i = 0; i < nrows; i++)
		lsm_block_foresee_columns(rows[i].cached->block, asked, n);
	for (int i = 0; i < nrows; i++)
		lsm_block_foresee_values(rows[i].cached->block, rows[i].root, asked, n);
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

/* A block that scans have gone through makes room for the next one, if there is little. */
static void
lsm_block_pass(LsmCachedBlock *cached)
{
	if (lsm_blocks_bytes <= lsm_session_blocks_limit() / 8 * 7 ||
		++lsm_passing_blocks % LSM_PASSING_KEPT == 0)
		return;
	cached->used = false;
	dlist_delete(&cached->lru);
	dlist_push_tail(&lsm_blocks_lru, &cached->lru);
}

/*
 * Of a block that is read row by row a chunk had to be decompressed.  Have it expanded, for
 * all sessions, now that its last user is about to go.  (Before that is known it is not worth
 * while: an expanded block takes twice the memory, or more.)  Its bytes stay pinned until
 * they have been read, by the block's pin, which an error leaves to the end of the
 * transaction.
 */
static pg_noinline void
lsm_block_to_expanded(LsmCachedBlock *cached)
{
	LsmOpenSegment *open = lsm_recent_segments[cached->uid % LSM_RECENT_SEGMENTS];
	StringInfoData bytes;
	LsmBlock   *block;

	Assert(cached->refcount == 1);
	if (open == NULL || open->uid != cached->uid || open->reader == NULL ||
		!lsm_sharedcache_expands(cached->uid, cached->blockno))
		return;
	cached->expands = false;
	initStringInfo(&bytes);
	lsm_block_expand(cached->block, &bytes);
	lsm_sharedcache_put_expanded(cached->uid, cached->blockno, bytes.len, bytes.data);
	pfree(bytes.data);
	lsm_shared_opening_release();
	block = lsm_block_fetch_expanded(open->reader, cached->uid, cached->blockno);
	if (block == NULL)
		return;
	lsm_block_keep(block, lsm_blocks_context);
	lsm_block_free(cached->block);
	if (cached->shared != NULL)
		lsm_sharedcache_unpin(&cached->pin);
	cached->block = block;
	cached->shared = lsm_shared_opening.bytes;
	cached->pin = lsm_shared_opening.pin;
	cached->stored = false;
	lsm_shared_opening.bytes = NULL;
}

void
lsm_block_unpin(LsmCachedBlock *cached, uint64 xact)
{
	Size		memory;

	if (xact != lsm_xact_number)
		return;					/* all its pins are gone already */
	Assert(cached->refcount > 0 && cached->xact == xact);
	if (cached->refcount > 1)
	{
		cached->refcount--;
		return;
	}
	if (unlikely(cached->expands) && lsm_block_has_decompressed(cached->block))
		lsm_block_to_expanded(cached);
	cached->refcount = 0;
	lsm_pinned_blocks--;
	if (cached->borrowed)
	{
		lsm_borrowed_end((LsmBorrowedBlock *) cached);
		return;
	}
	if (cached->shared != NULL)
		lsm_sharedcache_unpin(&cached->pin);
	memory = lsm_block_memory(cached->block);
	if (cached->passing)
		lsm_block_pass(cached);
	if (memory == cached->memory)
		return;
	lsm_blocks_bytes += memory - cached->memory;
	cached->memory = memory;
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

	lsm_shared_opening_release();
	if (lsm_pinned_blocks > 0)
	{
		lsm_pinned_blocks = 0;
		hash_seq_init(&scan, lsm_blocks);
		while ((cached = hash_seq_search(&scan)) != NULL)
		{
			if (cached->refcount > 0 && cached->shared != NULL)
				lsm_sharedcache_unpin(&cached->pin);
			cached->refcount = 0;
		}
	}

	/* pinned without being in use: keeping it has failed */
	for (int i = 0; i < LSM_BORROWED_BLOCKS; i++)
		if (lsm_borrowed[i].cached.refcount > 0 || lsm_borrowed[i].pinned)
			lsm_borrowed_release(&lsm_borrowed[i]);

	/* the session's share may have become less */
	if (!dlist_is_empty(&lsm_blocks_lru))
		lsm_block_evict(0);
}
