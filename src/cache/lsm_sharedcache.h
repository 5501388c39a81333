/*-------------------------------------------------------------------------
 *
 * lsm_sharedcache.h
 *	  Blocks of segments as they are stored, in shared memory.
 *
 * Keyed by segment uid and number of the block.  A uid is random and never used
 * again, so that nothing has to be invalidated: what has been dropped or
 * truncated grows old and makes room.  Bytes are copied in and out; nobody has
 * pins.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SHAREDCACHE_H
#define LSM_SHAREDCACHE_H

#include "lsm.h"

#include "datatype/timestamp.h"

extern int	lsm_block_cache_size;	/* kB; 0: there is none */

#define LSM_LEAST_CACHE_KB		1024

/* How a block is wanted. */
typedef enum LsmCacheTouch
{
	LSM_TOUCH_POINT,			/* it may well be wanted again */
	LSM_TOUCH_SCAN,				/* it was one of many */
	LSM_TOUCH_NONE				/* by who will not want it again: not kept */
} LsmCacheTouch;

extern Size lsm_sharedcache_shmem_size(void);
extern void lsm_sharedcache_shmem_request(void);
extern void lsm_sharedcache_shmem_startup(void);

/* Copy a block of so many bytes; false: it is not there.  Takes an LWLock. */
extern bool lsm_sharedcache_get(uint64 uid, uint32 blockno, uint32 len, char *buf,
								LsmCacheTouch touch);

/* The length of a block that is there, to be got next, else 0, which counts as a miss. */
extern uint32 lsm_sharedcache_length(uint64 uid, uint32 blockno);

/* Is it there?  Not counted. */
extern bool lsm_sharedcache_has(uint64 uid, uint32 blockno);

/* Keep a block whose checksum is right. */
extern void lsm_sharedcache_put(uint64 uid, uint32 blockno, uint32 len, const char *bytes,
								LsmCacheTouch touch);

typedef struct LsmCacheStat
{
	uint64		size_bytes;		/* room for blocks */
	uint64		used_bytes;
	uint64		warm_bytes;		/* of them, wanted more than once, or for one
								 * row */
	uint64		blocks;
	uint64		hits;
	uint64		misses;
	uint64		insertions;
	uint64		evictions;
	TimestampTz reset_time;		/* 0: since the server's start */
} LsmCacheStat;

extern void lsm_sharedcache_stat(LsmCacheStat *stat);
extern void lsm_sharedcache_stat_reset(void);

#endif							/* LSM_SHAREDCACHE_H */
