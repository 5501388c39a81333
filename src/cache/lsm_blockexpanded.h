/*-------------------------------------------------------------------------
 *
 * lsm_blockexpanded.h
 *	  Blocks that are read where they lie in shared memory, and those that are expanded there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_BLOCKEXPANDED_H
#define LSM_BLOCKEXPANDED_H

#include "lsm.h"

#include "lsm_ahead.h"
#include "lsm_blockcache.h"
#include "lsm_segment.h"
#include "lsm_sharedcache.h"

/*
 * An expanded block from shared memory: a copy of it, if it takes no more than this room
 * here, else over its bytes there, which are pinned (for lsm_shared_opening_give()), if that
 * is possible.  NULL: there is none.
 */
extern LsmBlock *lsm_block_fetch_expanded(LsmSegmentReader *reader, uint64 uid, uint32 blockno,
										  LsmCacheTouch touch, Size room);

/* A block over its bytes as stored there, if it takes more than this room; NULL: copy it. */
extern LsmBlock *lsm_block_fetch_over(Relation rel, LsmSegmentReader *reader,
									  const LsmAheadPlace *place, Size room);

/*
 * Bytes that are pinned become those of a block in the cache, as stored or expanded; it has
 * none, if none are.
 */
extern void lsm_shared_opening_give(LsmCachedBlock *cached, bool stored);

/* Give their pin back, if they are no block's. */
extern void lsm_shared_opening_release(void);

/*
 * Of a block that is read row by row a chunk had to be decompressed.  Have it expanded, for
 * all sessions, now that its last user is about to go.  (Before that is known it is not worth
 * while: an expanded block takes twice the memory, or more.)  Its bytes stay pinned until
 * they have been read, by the block's pin, which an error leaves to its resource
 * owner.
 */
extern void lsm_block_to_expanded(LsmCachedBlock *cached, Size room, MemoryContext context);

/* Pin the bytes of a block where they were; false: they are not there any more. */
static inline bool
lsm_block_pin_shared(LsmCachedBlock *cached)
{
	uint32		len;
	const char *bytes = cached->stored ?
		lsm_sharedcache_pin_stored(cached->uid, cached->blockno, &len, &cached->pin) :
		lsm_sharedcache_pin_expanded(cached->uid, cached->blockno, &len, LSM_TOUCH_POINT,
									 &cached->pin);

	if (bytes != NULL && bytes != cached->shared)
		lsm_sharedcache_unpin(&cached->pin);
	return bytes == cached->shared;
}

#endif							/* LSM_BLOCKEXPANDED_H */
