/*-------------------------------------------------------------------------
 *
 * lsm_walk.c
 *	  Index scans that are found to walk forward through the table.
 *
 * An index scan hands over one root after the other, and nobody says whether there
 * will be another one.  Where the index has the order of the table, roots come block
 * after block.  When this has been seen LSM_WALK_STEPS times in a row, the next blocks
 * are read ahead: two at first, then up to four times as many as were read before, and
 * LSM_WALK_BYTES at most, for a LIMIT may end it at any time.  A block
 * that is left out ends it, too: the index then wants a part of the table only.
 *
 * A root costs next to nothing here where the scan jumps, or stays in its block.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_am.h"
#include "lsm_walk.h"

/* Steps from block to block that make a walk; of a store, one is enough. */
#define LSM_WALK_STEPS			2

/* Bytes that are read before anybody asks for them. */
#define LSM_WALK_BYTES			((Size) 1024 * 1024)

static bool
lsm_walk_feed_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmWalk    *walk = arg;

	return lsm_scan_base_block(walk->rel, walk->table, true, &walk->feed_tid, LSM_MAX_TID, entry,
							   blockno);
}

static void
lsm_walk_feed_restart(void *arg)
{
	LsmWalk    *walk = arg;

	walk->feed_tid = walk->last_root + 1;
}

void
lsm_walk_begin(LsmWalk *walk, Relation rel, LsmTable *table)
{
	memset(walk, 0, sizeof(*walk));
	walk->rel = rel;
	walk->table = table;
	walk->first_root = 1;
	walk->feed.kind = LSM_READER_INDEX;
	walk->feed.next = lsm_walk_feed_next;
	walk->feed.restart = lsm_walk_feed_restart;
	walk->feed.arg = walk;
	walk->feed.most = LSM_WALK_BYTES;
	walk->feed.missed = true;	/* there have been several blocks */
}

void
lsm_walk_end(LsmWalk *walk)
{
	lsm_ahead_end(&walk->feed);
}

/* It jumps: begin to look again. */
static void
lsm_walk_lost(LsmWalk *walk)
{
	walk->first_root = 1;
	walk->last_root = 0;
	walk->steps = 0;
	lsm_ahead_end(&walk->feed);
}

/* The root is not in the block of the last one. */
void
lsm_walk_step(LsmWalk *walk, LsmTid root)
{
	bool		known = walk->last_root != 0;
	LsmTid		tid = known ? walk->last_root + 1 : root;
	const LsmManifestEntry *entry;
	uint32		blockno;
	LsmCachedBlock *cached;

	if (walk->last == LSM_INVALID_TID)
		return;
	if (root < walk->last || LSM_TID_LB(root) - LSM_TID_LB(walk->last) > LSM_WALK_LBS)
	{
		if (known)
			lsm_walk_lost(walk);
		return;
	}
	(void) lsm_view_get(walk->rel, walk->table);
	if (!lsm_scan_base_block(walk->rel, walk->table, true, &tid, root, &entry, &blockno))
	{
		lsm_walk_lost(walk);
		return;
	}
	if (tid <= root)
	{
		/* a block lies between them */
		lsm_walk_lost(walk);
		return;
	}
	walk->first_root = root;
	walk->last_root = tid - 1;
	if (!known || ++walk->steps < (lsm_entry_is_cold(entry) ? 1 : LSM_WALK_STEPS) ||
		lsm_block_rows_at_hand(entry->uid, blockno))
		return;
	cached = lsm_block_pin_ahead(walk->rel, walk->table, entry, blockno, &walk->feed);
	if (cached != NULL)
		lsm_block_unpin_now(cached);
}
