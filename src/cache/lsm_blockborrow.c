/*-------------------------------------------------------------------------
 *
 * lsm_blockborrow.c
 *	  Blocks that lie in shared memory, borrowed by scans.
 *
 * A scan that finds a block in shared memory does not copy it: it pins it there, and
 * chunks are copied as they are looked at (lsm_block_borrow()).  The memory for that is
 * used again for the next block, so that it stays in the processor's caches.  A session
 * has a few such blocks at a time; when they are all in use, and where shared memory
 * gives no pin, blocks are copied as a whole, as for single rows.
 *
 * OWNS
 *	  Those few blocks, which are in no hash table and in no list.  The cache of decoded
 *	  blocks (lsm_blockcache.c) counts who uses them, as of its own, and gives each back when
 *	  its last user has gone; it may take the decoded block over before.
 *
 * PINS
 *	  Each has a pin in shared memory from when it is borrowed until it is released: by its
 *	  last user, or when the last owner of its pins ends (lsm_blockpin.c), after an error too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_blockborrow.h"
#include "lsm_blockcache.h"
#include "lsm_blockfetch.h"
#include "lsm_sharedcache.h"
#include "utils/memutils.h"

/* A block that is pinned in shared memory. */
typedef struct LsmBorrowedBlock
{
	LsmCachedBlock cached;		/* must be first */
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

void
lsm_borrowed_release(LsmCachedBlock *cached)
{
	LsmBorrowedBlock *borrowed = (LsmBorrowedBlock *) cached;

	Assert(borrowed->pinned && cached->pinned.count == 0);
	lsm_sharedcache_unpin(&borrowed->pin);
	borrowed->pinned = false;
}

static LsmBorrowedBlock *
lsm_borrowed_find_unused(void)
{
	for (int i = 0; i < LSM_BORROWED_BLOCKS; i++)
		if (!lsm_borrowed[i].pinned)
			return &lsm_borrowed[i];
	return NULL;
}

LsmCachedBlock *
lsm_block_borrow_shared(Relation rel, const LsmAheadPlace *place)
{
	const LsmManifestEntry *entry = place->entry;
	LsmBorrowedBlock *borrowed = lsm_borrowed_find_unused();
	LsmCachedBlock *cached;

	if (borrowed == NULL || place->len > LSM_BORROWED_BYTES ||
		!(lsm_segpages_are_direct(rel) || lsm_entry_is_cold(entry)) ||
		!lsm_sharedcache_pin(entry->uid, place->blockno, place->len, LSM_TOUCH_SCAN,
							 &borrowed->pin))
		return NULL;
	borrowed->pinned = true;
	borrowed->lender.copy = lsm_borrowed_copy;
	cached = &borrowed->cached;
	lsm_pinned_init(&cached->pinned);
	cached->uid = entry->uid;
	cached->blockno = place->blockno;
	cached->borrowed = true;
	cached->passing = true;
	cached->npages = lsm_segpages_span(place->offset, place->len);
	return cached;
}

void
lsm_borrowed_open(Relation rel, LsmTable *table, LsmSegmentReader *reader,
				  LsmCachedBlock *cached, const LsmAheadPlace *place, LsmReaderKind kind,
				  MemoryContext context)
{
	LsmBorrowedBlock *borrowed = (LsmBorrowedBlock *) cached;
	MemoryContext caller = MemoryContextSwitchTo(context);

	lsm_borrowed_nspans = 0;
	cached->block = lsm_block_borrow(cached->block, reader, place->blockno, &borrowed->lender);
	MemoryContextSwitchTo(caller);
	lsm_block_count_hit(rel, table, place, kind);
}

void
lsm_borrowed_prefetch(uint64 uid, uint32 blockno)
{
	lsm_sharedcache_prefetch(uid, blockno, lsm_borrowed_spans, lsm_borrowed_nspans);
}
