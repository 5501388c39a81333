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
 *	  last user, or at the end of the transaction, after an error too.  What a failed
 *	  subtransaction leaves stays pinned until then, but no more than those few.
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

	if (borrowed->pinned)
	{
		lsm_sharedcache_unpin(&borrowed->pin);
		borrowed->pinned = false;
	}
	cached->refcount = 0;
}

static LsmBorrowedBlock *
lsm_borrowed_find_unused(void)
{
	for (int i = 0; i < LSM_BORROWED_BLOCKS; i++)
		if (lsm_borrowed[i].cached.refcount == 0 && !lsm_borrowed[i].pinned)
			return &lsm_borrowed[i];
	return NULL;
}

LsmCachedBlock *
lsm_block_borrow_shared(Relation rel, LsmTable *table, LsmSegmentReader *reader,
						const LsmAheadPlace *place, LsmReaderKind kind,
						MemoryContext context)
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

	caller = MemoryContextSwitchTo(context);
	cached->block = lsm_block_borrow(cached->block, reader, place->blockno, &borrowed->lender);
	MemoryContextSwitchTo(caller);
	cached->uid = entry->uid;
	cached->blockno = place->blockno;
	cached->borrowed = true;
	cached->passing = true;
	cached->npages = lsm_segpages_span(place->offset, place->len);
	lsm_block_count_hit(rel, table, place, kind);
	return cached;
}

void
lsm_borrowed_prefetch(uint64 uid, uint32 blockno)
{
	lsm_sharedcache_prefetch(uid, blockno, lsm_borrowed_spans, lsm_borrowed_nspans);
}

void
lsm_borrowed_release_all(void)
{
	/* pinned without being in use: keeping it has failed */
	for (int i = 0; i < LSM_BORROWED_BLOCKS; i++)
		if (lsm_borrowed[i].cached.refcount > 0 || lsm_borrowed[i].pinned)
			lsm_borrowed_release(&lsm_borrowed[i].cached);
}
