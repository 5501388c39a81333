/*-------------------------------------------------------------------------
 *
 * lsm_blockexpanded.c
 *	  Blocks that are read where they lie in shared memory, and those that are expanded there.
 *
 * A block that is read row by row is copied only as long as there is much room here.
 * Else what is kept here lies over its bytes in shared memory, expanded (with nothing
 * compressed, lsm_expand.c) or as stored, which are pinned while the block is.  Who pins it
 * again looks whether they are where they were; if not, it is opened anew.  (Bytes of one
 * uid and number that are in the same place again are the same bytes, so what points there
 * is right again.)
 *
 * OWNS
 *	  The pin of the bytes that a block is being opened over.  It goes to the block, once that
 *	  is in the cache of decoded blocks (lsm_blockcache.c).
 *
 * PINS
 *	  A cached block with shared != NULL has its bytes pinned while it is pinned itself.
 *	  What an error leaves of one that was being opened is given back when the first resource
 *	  owner is released, before the next is opened at the latest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "lsm_blockcache.h"
#include "lsm_blockexpanded.h"
#include "lsm_cold.h"
#include "lsm_opensegment.h"
#include "lsm_sharedcache.h"

/* Bytes in shared memory that a block is being opened over; an error may leave them. */
static struct
{
	const char *bytes;			/* NULL: none */
	LsmCachePin pin;
} lsm_shared_opening;

/* Copy an expanded block, as too much is pinned; NULL: it is not there. */
static LsmBlock *
lsm_block_copy_expanded(LsmSegmentReader *reader, uint64 uid, uint32 blockno, LsmCacheTouch touch)
{
	uint32		len = lsm_sharedcache_expanded_length(uid, blockno);
	LsmBlock   *block;
	char	   *bytes;

	if (len == 0)
		return NULL;
	block = lsm_block_new_expanded(reader, blockno, len, &bytes);
	if (lsm_sharedcache_get_expanded(uid, blockno, len, bytes, touch))
		return block;
	lsm_block_free(block);
	return NULL;
}

void
lsm_shared_opening_release(void)
{
	if (lsm_shared_opening.bytes != NULL)
		lsm_sharedcache_unpin(&lsm_shared_opening.pin);
	lsm_shared_opening.bytes = NULL;
}

void
lsm_shared_opening_give(LsmCachedBlock *cached, bool stored)
{
	cached->shared = lsm_shared_opening.bytes;
	cached->pin = lsm_shared_opening.pin;
	cached->stored = stored;
	lsm_shared_opening.bytes = NULL;
}

LsmBlock *
lsm_block_fetch_over(Relation rel, LsmSegmentReader *reader, const LsmAheadPlace *place, Size room)
{
	LsmBlock   *block;
	uint32		len;

	Assert(lsm_shared_opening.bytes == NULL);
	if (place->len <= room ||
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

LsmBlock *
lsm_block_fetch_expanded(LsmSegmentReader *reader, uint64 uid, uint32 blockno, LsmCacheTouch touch,
						 Size room)
{
	LsmBlock   *block;
	uint32		len;
	char	   *bytes;

	Assert(lsm_shared_opening.bytes == NULL);
	lsm_shared_opening.bytes = lsm_sharedcache_pin_expanded(uid, blockno, &len, touch,
															&lsm_shared_opening.pin);
	if (lsm_shared_opening.bytes == NULL)
		block = lsm_block_copy_expanded(reader, uid, blockno, touch);
	else if (len > room)
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

void
lsm_block_to_expanded(LsmCachedBlock *cached, Size room, MemoryContext context)
{
	LsmOpenSegment *open = lsm_segment_at_hand_for_block(cached->uid, cached->blockno);
	StringInfoData bytes;
	LsmBlock   *block;

	Assert(cached->pinned.count == 1);
	if (open == NULL || lsm_cold_held_off() ||
		!lsm_sharedcache_expands(cached->uid, cached->blockno))
		return;
	cached->expands = false;
	initStringInfo(&bytes);
	lsm_block_expand(cached->block, &bytes);
	lsm_sharedcache_put_expanded(cached->uid, cached->blockno, bytes.len, bytes.data);
	pfree(bytes.data);
	lsm_shared_opening_release();
	block = lsm_block_fetch_expanded(open->reader, cached->uid, cached->blockno, LSM_TOUCH_POINT,
									 room);
	if (block == NULL)
		return;
	lsm_block_keep(block, context);
	lsm_block_free(cached->block);
	if (cached->shared != NULL)
		lsm_sharedcache_unpin(&cached->pin);
	cached->block = block;
	lsm_shared_opening_give(cached, false);
}
