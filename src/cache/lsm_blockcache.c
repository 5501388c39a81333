/*-------------------------------------------------------------------------
 *
 * lsm_blockcache.c
 *	  Decoded blocks, kept by each backend.
 *
 * Blocks are keyed by segment uid, which is never used twice, so that nothing
 * has to be invalidated.  What is not here may be in shared memory: expanded, or as it is
 * stored, to be read there (lsm_blockexpanded.c), for scans to borrow (lsm_blockborrow.c), or
 * to copy; if not, it is read (lsm_blockfetch.c).  Calls go from here to these, and from all of them
 * to opened segments (lsm_opensegment.c), not back; only reading ahead (lsm_ahead.c) asks
 * what is here.
 *
 * OWNS
 *	  The hash table of blocks and their list, and what they take.
 *
 * PINS
 *	  A block stays while it is pinned (lsm_blockpin.c); of a block that lies over bytes in shared
 *	  memory, or is borrowed there, these are pinned as long.  When its last user has gone, a
 *	  borrowed block is forgotten; but if chunks had to be decompressed, or numerics built, it
 *	  is completed first, and kept like others.
 *
 *	  Pins end with their resource owner at the latest, by an error too; those of all owners
 *	  with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_ahead.h"
#include "lsm_blockborrow.h"
#include "lsm_blockcache.h"
#include "lsm_blockexpanded.h"
#include "lsm_blockfetch.h"
#include "lsm_opensegment.h"
#include "lsm_session.h"
#include "lsm_sharedcache.h"
#include "lsm_stop.h"
#include "utils/memutils.h"

typedef struct LsmBlockKey
{
	uint64		uid;
	uint32		blockno;
	uint32		pad;
} LsmBlockKey;

/*
 * What was used before is likely to be used next: places where a cached block is looked for
 * before the hash table is searched.  What is in a place may have gone meanwhile, but
 * entries of hash tables are never unmapped: those that have gone have no block, or another
 * key.
 */
#define LSM_RECENT_BLOCKS		65536

static LsmCachedBlock *lsm_recent_blocks[LSM_RECENT_BLOCKS];

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

		if (old->pinned.count > 0 || old->used)
		{
			/* each has been met twice: there are no others */
			if (old->pinned.count > 0 && ++pinned > 2 * lsm_pinned_blocks)
				break;
			old->used = false;
			dlist_move_head(&lsm_blocks_lru, &old->lru);
			continue;
		}
		pinned = 0;
		lsm_block_forget(old);
	}
}

/* How much a block of which single rows are wanted may take to be copied. */
static Size
lsm_blocks_room_to_copy(void)
{
	Size		most = lsm_session_blocks_limit() / LSM_POINT_COPIES;

	return most > lsm_blocks_bytes ? most - lsm_blocks_bytes : 0;
}

/* ---- blocks that scans meet again ---- */

/* Scans will find this block, if its segment is at hand. */
static void
lsm_block_note_met(LsmCachedBlock *cached)
{
	LsmOpenSegment *open = lsm_segment_at_hand(cached->uid);

	if (open != NULL)
		lsm_segment_met(open)[cached->blockno] = cached;
}

/* ---- borrowed blocks whose last user has gone ---- */

/* Have what was decoded of a block in the cache, as if it had been read. */
static void
lsm_borrowed_keep(LsmCachedBlock *cached)
{
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
	lsm_pinned_init(&kept->pinned);
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
lsm_borrowed_is_wanted(LsmCachedBlock *cached)
{
	return lsm_block_is_costly(cached->block) &&
		(lsm_blocks_bytes <= lsm_session_blocks_limit() / 8 * 7 ||
		 ++lsm_passing_blocks % LSM_PASSING_KEPT == 0);
}

/* Its last pin is being given back.  (What fails before that leaves the pin to its owner.) */
static void
lsm_borrowed_end(LsmCachedBlock *cached, LsmOwnedPins *pins)
{
	bool		wanted = lsm_borrowed_is_wanted(cached);

	if (wanted)
		lsm_borrowed_keep(cached);
	lsm_pins_drop_last(&cached->pinned, pins);
	lsm_borrowed_release(cached);
	if (wanted)
		lsm_block_evict(0);
}

/* ---- ends of resource owners ---- */

/* What a block takes has changed while it was pinned, perhaps. */
static bool
lsm_block_recount(LsmCachedBlock *cached)
{
	Size		memory = lsm_block_memory(cached->block);

	if (memory == cached->memory)
		return false;
	lsm_blocks_bytes += memory - cached->memory;
	cached->memory = memory;
	return true;
}

/* A block whose pins have been taken away; what is not sound in it, nobody looks at again. */
static void
lsm_block_was_unpinned(LsmPinned *pinned)
{
	LsmCachedBlock *cached = (LsmCachedBlock *)
		((char *) pinned - offsetof(LsmCachedBlock, pinned));

	if (cached->borrowed)
	{
		lsm_borrowed_release(cached);
		return;
	}
	if (cached->shared != NULL)
		lsm_sharedcache_unpin(&cached->pin);
	(void) lsm_block_recount(cached);
}

static void
lsm_blockcache_owner_ends(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	if (likely(lsm_pinned_blocks == 0) ||
		lsm_pins_take_away(CurrentResourceOwner, lsm_block_was_unpinned) == 0)
		return;
#ifdef USE_ASSERT_CHECKING
	if (commit)
		elog(WARNING, "pins of decoded blocks were not given back");
#endif
	lsm_block_evict(0);
}

/* ---- blocks ---- */

LsmCachedBlock *
lsm_block_repin(LsmCachedBlock *cached)
{
	lsm_pins_take(&cached->pinned);
	return cached;
}

/* Pin a block that is in the cache; NULL: it had to be forgotten. */
static inline LsmCachedBlock *
lsm_block_use(Relation rel, LsmTable *table, LsmCachedBlock *cached)
{
	lsm_pins_prepare();
	if (cached->shared != NULL && cached->pinned.count == 0 && !lsm_block_pin_shared(cached))
	{
		lsm_block_forget(cached);
		return NULL;
	}
	cached->used = true;
	/* at once, so that the pin in shared memory goes with it if there is an error */
	lsm_pins_take(&cached->pinned);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
	/* what is found here counts as pages found in shared buffers */
	lsm_compat_count_hits(rel, cached->npages);
	return cached;
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
	lsm_pins_init(lsm_blockcache_owner_ends);
}

/* A block that is still in this backend, pinned; NULL if it is not. */
static LsmCachedBlock *
lsm_block_find_local(Relation rel, LsmTable *table, const LsmBlockKey *key)
{
	LsmCachedBlock *cached;

	cached = hash_search(lsm_blocks, key, HASH_FIND, NULL);
	return cached == NULL ? NULL : lsm_block_use(rel, table, cached);
}

bool
lsm_block_is_local(uint64 uid, uint32 blockno)
{
	LsmBlockKey key = {uid, blockno, 0};

	return lsm_blocks != NULL && hash_search(lsm_blocks, &key, HASH_FIND, NULL) != NULL;
}

bool
lsm_block_is_own(uint64 uid, uint32 blockno)
{
	LsmBlockKey key = {uid, blockno, 0};
	LsmCachedBlock *cached = lsm_blocks == NULL ? NULL :
		hash_search(lsm_blocks, &key, HASH_FIND, NULL);

	return cached != NULL && (cached->shared == NULL || cached->pinned.count > 0);
}

bool
lsm_block_rows_at_hand(uint64 uid, uint32 blockno)
{
	return lsm_block_is_local(uid, blockno) || lsm_sharedcache_has_rows(uid, blockno);
}

/*
 * A block that this backend does not have: expanded, if single rows of it are wanted (those of
 * a bitmap, too) and somebody has expanded it, or if that is all that is there; *shared: as
 * stored, from shared memory.  NULL: the view is not the newest.
 */
static LsmBlock *
lsm_block_read_any(Relation rel, LsmTable *table, LsmOpenSegment *open,
				   const LsmAheadPlace *place, LsmReaderKind kind, LsmAheadFeed *feed,
				   bool *shared)
{
	uint64		uid = place->entry->uid;
	bool		passing = kind == LSM_READER_SCAN || kind == LSM_READER_COMPACTION;
	LsmBlock   *block = NULL;
	LsmFetched	fetched;
	char	   *bytes;

	lsm_shared_opening_release();
	*shared = false;
	if (!passing || !lsm_sharedcache_has(uid, place->blockno))
		block = lsm_block_fetch_expanded(open->reader, uid, place->blockno,
										 passing ? LSM_TOUCH_NONE : LSM_TOUCH_POINT,
										 lsm_blocks_room_to_copy());
	if (block == NULL && kind == LSM_READER_POINT)
	{
		block = lsm_block_fetch_over(rel, open->reader, place, lsm_blocks_room_to_copy());
		*shared = block != NULL;
	}
	if (block != NULL)
	{
		lsm_block_count_hit(rel, table, place, kind);
		return block;
	}

	block = lsm_block_new(open->reader, place->blockno, &bytes);
	if (!lsm_block_get_bytes(rel, table, open, place, kind, feed, bytes, &fetched))
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
		lsm_borrowed_prefetch(entry->uid, blockno + 1);
	if (met[0] == NULL || met[0]->uid != entry->uid || met[0]->blockno != blockno ||
		met[0]->block == NULL)
		return NULL;
	return lsm_block_use(rel, table, met[0]);
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
	cached = lsm_block_borrow_shared(rel, &place);
	if (cached == NULL)
		return NULL;
	lsm_pins_take(&cached->pinned);
	lsm_borrowed_open(rel, table, open->reader, cached, &place, kind, lsm_blocks_context);
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
	lsm_pins_prepare();
	if (scanned)
	{
		cached = lsm_block_pin_scanned(rel, table, entry, blockno, kind);
		if (cached != NULL)
			return cached;
	}
	cached = lsm_block_find_local(rel, table, &key);
	if (cached != NULL && scanned)
		lsm_block_note_met(cached);
	if (cached != NULL)
		return cached;
	open = kind == LSM_READER_SCAN || kind == LSM_READER_COMPACTION ?
		lsm_segment_get(rel, table, entry) :
		lsm_segment_get_for_block(rel, table, entry, blockno);
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
	lsm_shared_opening_give(cached, shared);
	cached->passing = kind != LSM_READER_POINT;
	cached->expands = shared && kind == LSM_READER_POINT;
	cached->no_rows = false;
	cached->refused = 0;
	cached->used = false;
	lsm_pinned_init(&cached->pinned);
	lsm_pins_take(&cached->pinned);
	dlist_push_head(&lsm_blocks_lru, &cached->lru);
	cached->memory = lsm_block_memory(block);
	cached->npages = lsm_segpages_span(place.offset, place.len);
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

void
lsm_block_foresee_pin(uint64 uid, uint32 blockno)
{
	lsm_prefetch(lsm_block_recent(uid, blockno));
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
	if (likely(lsm_block_is(cached, entry->uid, blockno)))
	{
		/* the row will be asked for next: these lines come while the block is being pinned */
		if (kind == LSM_READER_POINT)
			lsm_block_foresee(cached->block);
		cached = lsm_block_use(rel, table, cached);
	}
	else
		cached = NULL;
	if (unlikely(cached == NULL))
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
		open = lsm_segment_at_hand(view->base[at]->uid);
		if (open == NULL || open->table != table ||
			roots[i] < view->base[at]->first_tid ||
			lsm_segment_missing_for_root(open->reader, roots[i]) >= 0)
			continue;
		rows[n].root = roots[i];
		rows[n].uid = open->uid;
		rows[n].reader = open->reader;
		lsm_segment_foresee(open->reader, roots[i]);
		n++;
	}
	return n;
}

/* The blocks that have them; those in row blocks are taken out.  How many are left. */
static int
lsm_foresee_blocks(LsmForeseen *rows, int nrows, LsmRowsForeseen *inrows, int *ninrows)
{
	int			n = 0;

	for (int i = 0; i < nrows; i++)
		lsm_segment_foresee_entry(rows[i].reader, rows[i].root);
	for (int i = 0; i < nrows; i++)
	{
		rows[i].blockno = lsm_segment_find_block(rows[i].reader, rows[i].root);
		inrows[i].segment = rows[i].uid;
		inrows[i].blockno = rows[i].blockno;
		inrows[i].root = rows[i].root;
	}
	lsm_sharedcache_foresee_rows(inrows, nrows);
	*ninrows = 0;
	for (int i = 0; i < nrows; i++)
	{
		if (inrows[i].rows != NULL)
			inrows[(*ninrows)++] = inrows[i];
		else
			rows[n++] = rows[i];
	}
	return n;
}

/* Those of the blocks that are opened; how many. */
static int
lsm_foresee_cached(LsmForeseen *rows, int nrows)
{
	int			n = 0;

	for (int i = 0; i < nrows; i++)
	{
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
int
lsm_blocks_foresee(LsmTable *table, const LsmTid *roots, int nroots, const int16 *asked, int n,
				   LsmRowsForeseen *inrows)
{
	LsmForeseen rows[LSM_FORESEEN];
	int			ninrows;
	int			nrows;

	Assert(nroots <= LSM_FORESEEN);
	nrows = lsm_foresee_segments(table, roots, nroots, rows);
	nrows = lsm_foresee_blocks(rows, nrows, inrows, &ninrows);
	nrows = lsm_foresee_cached(rows, nrows);
	for (int i = 0; i < nrows; i++)
		lsm_block_foresee_columns(rows[i].cached->block, asked, n);
	for (int i = 0; i < nrows; i++)
		lsm_block_foresee_values(rows[i].cached->block, rows[i].root, asked, n);
	return ninrows;
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

void
lsm_block_unpin(LsmCachedBlock *cached, LsmPinHolder holder)
{
	LsmOwnedPins *pins = lsm_pins_find(&cached->pinned, holder);

	if (unlikely(pins == NULL))
		return;					/* its owner has gone */
	if (cached->pinned.count > 1)
	{
		lsm_pins_drop(&cached->pinned, pins);
		return;
	}
	if (unlikely(cached->expands) && lsm_block_has_decompressed(cached->block))
		lsm_block_to_expanded(cached, lsm_blocks_room_to_copy(), lsm_blocks_context);
	if (cached->borrowed)
	{
		lsm_borrowed_end(cached, pins);
		return;
	}
	lsm_pins_drop_last(&cached->pinned, pins);
	if (cached->shared != NULL)
		lsm_sharedcache_unpin(&cached->pin);
	if (cached->passing)
		lsm_block_pass(cached);
	if (lsm_block_recount(cached))
		lsm_block_evict(0);
}

/* What was being opened; pins go with their resource owners. */
void
lsm_blockcache_subxact_abort(void)
{
	lsm_shared_opening_release();
}

/*
 * All slots are gone at the end of a transaction, those of failed plans without having been
 * cleared.
 */
void
lsm_blockcache_xact_end(void)
{
	lsm_shared_opening_release();
	(void) lsm_pins_take_away(NULL, lsm_block_was_unpinned);
	lsm_pins_xact_end();
	lsm_sharedcache_tell_hits();

	/* the session's share may have become less */
	if (!dlist_is_empty(&lsm_blocks_lru))
		lsm_block_evict(0);
}
