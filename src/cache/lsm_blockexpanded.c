/*-------------------------------------------------------------------------
 *
 * lsm_blockexpanded.c
 *	  Blocks that lie expanded in shared memory, with nothing compressed.
 *
 * A block that is read row by row, and is expanded in shared memory, is copied only as
 * long as there is much room here.  Else what is kept here lies over its bytes there,
 * which are pinned while the block is.  Who pins it again looks whether they are where
 * they were; if not, it is opened anew.  (How blocks are expanded: lsm_expand.c.)
 *
 * OWNS
 *	  The pin of the bytes that a block is being opened over.  It goes to the block, once that
 *	  is in the cache of decoded blocks (lsm_blockcache.c).
 *
 * PINS
 *	  A cached block with shared != NULL has its bytes pinned while its refcount is above 0.
 *	  What an error leaves of one that was being opened is given back before the next is, or
 *	  at the end of the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "lsm_blockcache.h"
#include "lsm_blockexpanded.h"
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

void
lsm_shared_opening_release(void)
{
	if (lsm_shared_opening.bytes != NULL)
		lsm_sharedcache_unpin(&lsm_shared_opening.pin);
	lsm_shared_opening.bytes = NULL;
}

void
lsm_shared_opening_give(LsmCachedBlock *cached)
{
	cached->shared = lsm_shared_opening.bytes;
	cached->pin = lsm_shared_opening.pin;
	lsm_shared_opening.bytes = NULL;
}

LsmBlock *
lsm_block_fetch_expanded(LsmSegmentReader *reader, uint64 uid, uint32 blockno, Size room)
{
	LsmBlock   *block;
	uint32		len;
	char	   *bytes;

	Assert(lsm_shared_opening.bytes == NULL);
	lsm_shared_opening.bytes = lsm_sharedcache_pin_expanded(uid, blockno, &len,
															&lsm_shared_opening.pin);
	if (lsm_shared_opening.bytes == NULL)
		block = lsm_block_copy_expanded(reader, uid, blockno);
	else if (len > room)
		block = lsm_block_over_expanded(reader, blockno, len, lsm_shared_opening.bytes);
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
	LsmOpenSegment *open = lsm_segment_at_hand(cached->uid);
	StringInfoData bytes;
	LsmBlock   *block;

	if (open == NULL || !lsm_sharedcache_expands(cached->uid, cached->blockno))
		return;
	cached->expands = false;
	initStringInfo(&bytes);
	lsm_block_expand(cached->block, &bytes);
	lsm_sharedcache_put_expanded(cached->uid, cached->blockno, bytes.len, bytes.data);
	pfree(bytes.data);
	lsm_shared_opening_release();
	block = lsm_block_fetch_expanded(open->reader, cached->uid, cached->blockno, room);
	if (block == NULL)
		return;
	lsm_block_keep(block, context);
	lsm_block_free(cached->block);
	cached->block = block;

	/* nobody uses it now */
	cached->shared = lsm_shared_opening.bytes;
	lsm_shared_opening_release();
}
