/*-------------------------------------------------------------------------
 *
 * lsm_sharedcache.h
 *	  Blocks of segments as they are stored, in shared memory.
 *
 * Keyed by segment uid and number of the block.  A uid is random and never used
 * again, so that nothing has to be invalidated: what has been dropped or
 * truncated grows old and makes room.  Only compactions tell of the segments that they have
 * replaced, as all of a table may be cached twice then.  Bytes are copied in and out: those of a whole
 * block at once, or of a block that is pinned in pieces.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SHAREDCACHE_H
#define LSM_SHAREDCACHE_H

#include "lsm.h"

#include "datatype/timestamp.h"

extern int	lsm_block_cache_size;	/* kB; 0: there is none */

#define LSM_LEAST_CACHE_KB		1024
#define LSM_DEFAULT_CACHE_KB	(128 * 1024)	/* and more with more shared_buffers */

/*
 * What else is kept of a segment has numbers, too, above those of blocks: no segment has so many
 * blocks.
 */
#define LSM_CACHE_VALUES		0x40000000	/* large values, by page (lsm_coldvalue.c) */
#define LSM_CACHE_EXPANDED		0x80000000	/* expanded blocks (lsm_expand.c) */
#define LSM_CACHE_ROWS			0xC0000000	/* row blocks (lsm_rowblock.c) */
#define LSM_CACHE_SLICES		0xE0000000	/* slices of the block index (lsm_opensegment.c) */
#define LSM_CACHE_PART			0xFFFFFFFC	/* the part that tells of them (there) */
#define LSM_CACHE_BOUNDS		0xFFFFFFFD	/* of columns (lsm_segmentbounds.c) */
#define LSM_CACHE_TOUCHED		0xFFFFFFFE	/* what an increment has touched (lsm_touched.c) */
#define LSM_CACHE_METADATA		0xFFFFFFFF	/* footer, index, filter (lsm_opensegment.c) */
#define LSM_CACHE_LAST_NUMBER	0x3FFFFFFB	/* of a block or page */

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

/*
 * Pin a block of so many bytes: it stays until it is unpinned, by this process, and any part
 * of it can be copied meanwhile, without a lock.  False: it is not there (which is not
 * counted), or too much of the cache is pinned; nobody waits for pins.
 */
typedef struct LsmCachePin
{
	uint32		part;
	uint32		entry;
	uint32		first_frame;
} LsmCachePin;

extern bool lsm_sharedcache_pin(uint64 uid, uint32 blockno, uint32 len, LsmCacheTouch touch,
								LsmCachePin *pin);
extern void lsm_sharedcache_copy(const LsmCachePin *pin, uint32 from, uint32 len, char *to);
extern void lsm_sharedcache_unpin(const LsmCachePin *pin);

/*
 * The same for the sake of single rows, of a block that lies in one piece, where all of it can
 * be read, and some bytes behind it: tells where, and its length.  NULL: it is not there
 * (which is not counted), in several pieces, or too much is pinned.
 */
extern const char *lsm_sharedcache_pin_stored(uint64 uid, uint32 blockno, uint32 *len,
											  LsmCachePin *pin);

/*
 * Have the processor fetch what pinning the next blocks of a segment, and copying these
 * parts of them, will want.  No more than a hint, right or wrong; no lock.
 */
typedef struct LsmCacheSpan
{
	uint32		from;
	uint32		len;
} LsmCacheSpan;

extern void lsm_sharedcache_prefetch(uint64 uid, uint32 blockno, const LsmCacheSpan *spans,
									 int nspans);

/* The length of a block that is there, to be got next, else 0, which counts as a miss. */
extern uint32 lsm_sharedcache_length(uint64 uid, uint32 blockno);

/* Is it there?  Not counted. */
extern bool lsm_sharedcache_has(uint64 uid, uint32 blockno);

/* Keep a block whose checksum is right. */
extern void lsm_sharedcache_put(uint64 uid, uint32 blockno, uint32 len, const char *bytes,
								LsmCacheTouch touch);

/*
 * The same of expanded blocks (lsm_expand.c), which are kept beside those as stored and take
 * three quarters of the cache at most.  put_expanded() makes the block as stored the next to
 * go, if there is room.
 * pin_expanded() tells where a block lies, as long as it is pinned; NULL: it is not there
 * (which is not counted), or too much is pinned: then it may be copied.
 * Is it worth while to expand a block that has been found?  Most are not if the room is
 * full, so that what does not fit into it is not expanded again and again.
 */
extern uint32 lsm_sharedcache_expanded_length(uint64 uid, uint32 blockno);
extern const char *lsm_sharedcache_pin_expanded(uint64 uid, uint32 blockno, uint32 *len,
												LsmCacheTouch touch, LsmCachePin *pin);
extern bool lsm_sharedcache_get_expanded(uint64 uid, uint32 blockno, uint32 len, char *buf,
										 LsmCacheTouch touch);
extern void lsm_sharedcache_put_expanded(uint64 uid, uint32 blockno, uint32 len,
										 const char *bytes);
extern bool lsm_sharedcache_expands(uint64 uid, uint32 blockno);

/*
 * The same of row blocks (lsm_rowblock.c) of this database, which share that room.  What the
 * database is known by, which no other one ever was, is set before anything is asked.
 *
 * hold_rows() tells where one lies; NULL: it is not there (which is not counted, nor is a hit).
 * What is read there is believed when let_go() has said so, which must follow soon.  Until then it may be
 * anything, but so many bytes can be read.  If let_go() says no, begin anew with the same
 * *held: then an LWLock is held in between.  At first: LSM_CACHE_HELD_NOT.
 */
typedef struct LsmCacheHeld
{
	struct LWLock *lock;		/* NULL: none is held */
	uint32		part;
	uint32		changes;		/* of the partition, when the block was found */
	uint32		len;
	bool		locks;			/* it was changed meanwhile */
} LsmCacheHeld;

#define LSM_CACHE_HELD_NOT	{NULL, 0, 0, 0, false}

/* Where a row block was: that is looked at first, and told anew. */
typedef struct LsmCachePlace
{
	uint32		part;
	uint32		entry;
} LsmCachePlace;

#define LSM_CACHE_PLACE_NONE	{PG_UINT32_MAX, PG_UINT32_MAX}

extern void lsm_sharedcache_set_database(uint64 database);
extern const void *lsm_sharedcache_hold_rows(uint64 uid, uint32 blockno, LsmCachePlace *place,
											 LsmCacheHeld *held);
extern bool lsm_sharedcache_let_go(LsmCacheHeld *held);

/* What one was held for was there, or is not in its block: that counts as a hit. */
extern void lsm_sharedcache_count_rows(void);

/*
 * Have the processor fetch what finding n row blocks will want, and tell where they seem to
 * lie, of which so many bytes are memory (NULL: they do not seem to be there).  No lock: no more
 * than hints, and what is read there may be anything.
 */
typedef struct LsmRowsForeseen
{
	uint64		segment;
	uint64		uid;			/* that its row blocks go by */
	uint32		blockno;
	uint32		bucket;
	LsmCachePlace place;
	uint32		len;
	const void *rows;
	LsmTid		root;			/* the caller's */
} LsmRowsForeseen;

extern void lsm_sharedcache_foresee_rows(LsmRowsForeseen *foreseen, int n);

/* The same of one that was at that place not long ago.  False: it is not there any more. */
extern bool lsm_sharedcache_foresee_again(LsmRowsForeseen *foreseen);

extern void lsm_sharedcache_put_rows(uint64 uid, uint32 blockno, uint32 len, const char *bytes);
extern bool lsm_sharedcache_has_rows(uint64 uid, uint32 blockno);
extern bool lsm_sharedcache_keeps_rows(uint64 uid, uint32 blockno);

/*
 * A segment of so many blocks has gone from the manifest: give their room to others.  What is
 * pinned, or put in later by who has an older view, grows old.  Takes LWLocks.
 */
extern void lsm_sharedcache_forget(uint64 uid, uint32 nblocks);

typedef struct LsmCacheStat
{
	uint64		size_bytes;		/* room for blocks */
	uint64		used_bytes;
	uint64		warm_bytes;		/* of them, wanted more than once, or for one
								 * row */
	uint64		expanded_bytes; /* of them, of expanded blocks */
	uint64		pinned_bytes;	/* counted for each pin */
	uint64		blocks;
	uint64		hits;
	uint64		misses;
	uint64		insertions;
	uint64		evictions;		/* for want of room */
	TimestampTz reset_time;		/* 0: since the server's start */
} LsmCacheStat;

/* For tests: a number of the place where a block is looked for. */
extern uint32 lsm_sharedcache_place(uint64 uid, uint32 blockno);

/* Hits are counted by each process, and told of when its transaction ends. */
extern void lsm_sharedcache_tell_hits(void);

extern void lsm_sharedcache_stat(LsmCacheStat *stat);
extern void lsm_sharedcache_stat_reset(void);

#endif							/* LSM_SHAREDCACHE_H */
