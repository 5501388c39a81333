/*-------------------------------------------------------------------------
 *
 * lsm_prefetch.c
 *	  Blocks of rows that are going to be fetched one by one.
 *
 * An index scan asks for one row after the other.  Where these lie all over a store, each
 * would cost a request that is waited for by itself.  Who knows several of them before they
 * are asked for (lsm_foresee.c, LsmLookAhead) has their blocks brought together: they come
 * into the session's cache, and the block cache, as if one row of each had been fetched.
 *
 * All of this is hints: rows may have gone, or have a newer version elsewhere, and of what
 * is brought anything may have left the caches again when it is wanted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_ahead.h"
#include "lsm_am.h"
#include "lsm_blockcache.h"
#include "lsm_cold.h"
#include "lsm_prefetch.h"
#include "lsm_session.h"
#include "lsm_sharedcache.h"

/* What is prefetched takes no more than this part of the room that a session's blocks have. */
#define LSM_PREFETCH_ROOM		4

/* A place in the roots. */
typedef struct LsmPrefetchPlace
{
	int			next;
	LsmTid		behind;			/* the block that was met last */
} LsmPrefetchPlace;

typedef struct LsmPrefetch
{
	Relation	rel;
	LsmTable   *table;
	const LsmTid *roots;		/* ascending */
	int			n;
	LsmPrefetchPlace reached;	/* up to which blocks are there */
	LsmPrefetchPlace told;		/* the same of requests */
} LsmPrefetch;

static int
lsm_prefetch_compare(const void *a, const void *b)
{
	LsmTid		left = *(const LsmTid *) a;
	LsmTid		right = *(const LsmTid *) b;

	return left < right ? -1 : left > right;
}

/* Has no cache the block, and is it in a store? */
static bool
lsm_prefetch_is_far(const LsmManifestEntry *entry, uint32 blockno)
{
	return lsm_entry_is_cold(entry) && !lsm_block_rows_at_hand(entry->uid, blockno) &&
		!lsm_sharedcache_has(entry->uid, blockno);
}

/* The next block behind a place that has to be brought. */
static bool
lsm_prefetch_next(LsmPrefetch *prefetch, LsmPrefetchPlace *place, const LsmManifestEntry **entry,
				  uint32 *blockno)
{
	while (place->next < prefetch->n)
	{
		LsmTid		root = prefetch->roots[place->next++];
		LsmTid		tid = root;

		if (root < place->behind ||
			!lsm_scan_base_block(prefetch->rel, prefetch->table, true, &tid, root, entry, blockno))
			continue;
		place->behind = tid;
		if (lsm_prefetch_is_far(*entry, *blockno))
			return true;
	}
	return false;
}

static bool
lsm_prefetch_feed_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmPrefetch *prefetch = arg;

	return lsm_prefetch_next(prefetch, &prefetch->told, entry, blockno);
}

static void
lsm_prefetch_feed_restart(void *arg)
{
	LsmPrefetch *prefetch = arg;

	prefetch->told = prefetch->reached;
}

void
lsm_prefetch_rows(Relation rel, LsmTable *table, LsmTid *roots, int n)
{
	LsmPrefetch prefetch = {.rel = rel,.table = table,.roots = roots,.n = n};
	LsmAheadFeed feed = {
		.kind = LSM_READER_POINT,
		.next = lsm_prefetch_feed_next,
		.restart = lsm_prefetch_feed_restart,
		.arg = &prefetch,
		.most = lsm_session_blocks_limit() / LSM_PREFETCH_ROOM,
		.sure = true,
		.hint = true,
	};
	Size		bytes = 0;
	const LsmManifestEntry *entry;
	uint32		blockno;

	(void) lsm_view_get(rel, table);
	if (!lsm_prefetch_pays(table) || lsm_cold_held_off())
		return;
	qsort(roots, n, sizeof(LsmTid), lsm_prefetch_compare);
	while (bytes < feed.most && lsm_prefetch_next(&prefetch, &prefetch.reached, &entry, &blockno))
	{
		LsmCachedBlock *cached = lsm_block_pin_ahead(rel, table, entry, blockno, &feed);

		if (cached == NULL)
			break;				/* the view is not the newest, or it cannot be had */
		bytes += cached->memory;
		lsm_block_unpin_now(cached);
	}
	lsm_ahead_end(&feed);
}
