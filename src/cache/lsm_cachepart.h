/*-------------------------------------------------------------------------
 *
 * lsm_cachepart.h
 *	  Partitions of the block cache, for the files that make it up.
 *
 * The partition's lock is held exclusively for all that changes anything (lsm_sharedcache.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CACHEPART_H
#define LSM_CACHEPART_H

#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#define LSM_FRAME_BYTES			4096

/* Frames of a partition that may be pinned: one of so many. */
#define LSM_CACHE_PINNED_SHARE	8

/* The least room for expanded blocks, in eighths of a partition's frames. */
#define LSM_CACHE_LEAST_ROOM	3

#define LSM_CACHE_NONE			PG_UINT32_MAX

typedef enum LsmCacheQueueName
{
	LSM_QUEUE_COLD,
	LSM_QUEUE_WARM,
	LSM_QUEUE_EXPANDED,
	LSM_QUEUES
} LsmCacheQueueName;

/* Of a block's frames, or of the free ones. */
typedef struct LsmCacheFrame
{
	uint32		next;
	uint32		before;			/* free ones only */
	uint32		owner;			/* entry; LSM_CACHE_NONE: free */
} LsmCacheFrame;

/* A block; unused ones are chained by next_in_bucket. */
typedef struct LsmCacheEntry
{
	uint64		uid;
	uint32		blockno;
	uint32		len;
	uint32		first_frame;
	uint32		next_in_bucket;
	uint32		newer;			/* in its queue */
	uint32		older;
	pg_atomic_uint32 pins;		/* go up under the lock, down without */
	uint8		queue;
	bool		together;		/* its frames follow each other */
	bool		spare;			/* as stored, and not used since it was expanded */
	volatile uint8 marked;		/* set under the shared lock */
} LsmCacheEntry;

typedef struct LsmCacheQueue
{
	uint32		newest;
	uint32		oldest;
	uint32		frames;
} LsmCacheQueue;

/* All but the counters and pins of readers is guarded by the partition's lock. */
typedef struct LsmCachePartition
{
	pg_atomic_uint32 changes;	/* odd: entries and frames are being changed */
	char		pad[PG_CACHE_LINE_SIZE - sizeof(pg_atomic_uint32)];
	LsmCacheQueue queues[LSM_QUEUES];
	uint32		free_frame;		/* first of a chain */
	uint32		nfree;
	uint32		hand;			/* a frame above the lowest eighth */
	uint32		searched;		/* frames, since a run was found */
	uint32		room;			/* frames for expanded blocks */
	uint32		patience;		/* so often it must be short before it grows */
	uint32		free_entry;
	uint32		nentries;		/* used */
	uint64		insertions;
	uint64		evictions;
	pg_atomic_uint64 misses;
	pg_atomic_uint32 pinned;	/* frames, for each pin */
	pg_atomic_uint32 refused;	/* blocks that were not expanded, for want of
								 * room */
	char		pad_end[PG_CACHE_LINE_SIZE];
} LsmCachePartition;

/* Where a partition's arrays are. */
typedef struct LsmCachePart
{
	LWLock	   *lock;
	LsmCachePartition *partition;
	LsmCacheEntry *entries;		/* one for each frame */
	LsmCacheFrame *chain;		/* one for each frame */
	uint32	   *buckets;
	uint32	   *ghosts;			/* one for four buckets; 0: none */
	uint32	   *scan_ghosts;	/* the same, of the cold queue */
	char	   *frames;
	uint32		nframes;
	uint32		nbuckets;		/* a power of two */
	uint32		nghosts;		/* the same */
} LsmCachePart;

/* Two hashes that have nothing in common: the upper one chooses the bucket, the lower one the rest. */
static inline uint64
lsm_cache_hash(uint64 uid, uint32 blockno)
{
	return (uint64) murmurhash32((uint32) (uid >> 32) + blockno) << 32 |
		murmurhash32((uint32) uid ^ blockno);
}

static inline uint32
lsm_cache_bucket(uint64 hash, uint32 nbuckets)
{
	return (uint32) (hash >> 32) & (nbuckets - 1);
}

static inline uint32
lsm_cache_frames_of(uint32 len)
{
	return (len + LSM_FRAME_BYTES - 1) / LSM_FRAME_BYTES;
}

static inline uint32
lsm_cache_eighths(const LsmCachePart *part, uint32 n)
{
	return (uint32) ((uint64) part->nframes * n / 8);
}

static inline bool
lsm_cache_is_pinned(LsmCacheEntry *entry)
{
	return pg_atomic_read_u32(&entry->pins) > 0;
}

/* ---- changes ---- */

/* Between these two, readers without the lock find out that what they read may be wrong. */
static inline void
lsm_cache_change(LsmCachePartition *partition)
{
	Assert(pg_atomic_read_u32(&partition->changes) % 2 == 0);
	pg_atomic_write_u32(&partition->changes, pg_atomic_read_u32(&partition->changes) + 1);
	pg_memory_barrier();
}

static inline void
lsm_cache_changed(LsmCachePartition *partition)
{
	pg_write_barrier();
	pg_atomic_write_u32(&partition->changes, pg_atomic_read_u32(&partition->changes) + 1);
}

/* ---- lsm_cacheroom.c ---- */

/* An entry becomes the newest of a queue, the next that the cold queue gives up, or leaves its own. */
extern void lsm_cache_queue_push(const LsmCachePart *part, uint32 at, LsmCacheQueueName name);
extern void lsm_cache_queue_last(const LsmCachePart *part, uint32 at);
extern void lsm_cache_queue_remove(const LsmCachePart *part, uint32 at);

/* A free frame becomes an entry's; an entry that is in no queue gives its own back, and goes. */
extern void lsm_cache_use_frame(const LsmCachePart *part, uint32 frame, uint32 owner);
extern void lsm_cache_drop(const LsmCachePart *part, uint32 at);

/*
 * For a block as stored of so many frames: note that it comes in; make room (false: what is not
 * pinned does not suffice); the first of so many free frames that follow each other
 * (LSM_CACHE_NONE: not found at once).
 */
extern void lsm_cache_regret(const LsmCachePart *part, uint32 bucket, uint64 uid, uint32 blockno,
							 uint32 frames, LsmCacheQueueName name);
extern bool lsm_cache_make_room(const LsmCachePart *part, uint32 frames);
extern uint32 lsm_cache_free_run(const LsmCachePart *part, uint32 frames);

/*
 * For an expanded block: where it may lie (LSM_CACHE_NONE: there is no room); clear these
 * frames.  If the room is full: may the hand drop one that nobody uses?
 */
extern uint32 lsm_cache_find_room(const LsmCachePart *part, uint32 frames);
extern void lsm_cache_clear_run(const LsmCachePart *part, uint32 first, uint32 frames);
extern bool lsm_cache_drop_unused(const LsmCachePart *part);

#endif							/* LSM_CACHEPART_H */
