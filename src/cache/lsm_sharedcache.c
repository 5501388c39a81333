/*-------------------------------------------------------------------------
 *
 * lsm_sharedcache.c
 *	  Blocks of segments as they are stored, in shared memory.
 *
 * The cache is divided by hash into partitions that have nothing in common.  A
 * partition has frames of 4 kB, chained for each block, and two queues of blocks.
 * What a scan reads enters the cold one; what is read for one row the warm one.
 * Who finds a block marks it.  Room is made at the old end of the cold queue as
 * long as that has more than an eighth of the frames, else at that of the warm
 * one; a marked block goes to the new end of the warm queue instead, without its
 * mark.  So a scan of whatever length takes an eighth from what is warm, and
 * what it reads twice stays.
 *
 * LOCKING
 *	  Each partition has an LWLock: shared to copy a block out, exclusive to put
 *	  one in.  Nothing is taken inside it and nothing is read from a file.
 *	  Marks and counters of readers are atomic, or a byte that is only ever set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lsm_sharedcache.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define LSM_FRAME_BYTES			4096

/* A partition has at least so many frames, if there are any more. */
#define LSM_CACHE_LEAST_FRAMES	512
#define LSM_CACHE_MAX_PARTITIONS 64

/* Frames of a partition that the cold queue keeps: one of so many. */
#define LSM_CACHE_COLD_SHARE	8

/* A block may take this part of a partition. */
#define LSM_CACHE_BLOCK_SHARE	4

#define LSM_CACHE_NONE			PG_UINT32_MAX

typedef enum LsmCacheQueueName
{
	LSM_QUEUE_COLD,
	LSM_QUEUE_WARM,
	LSM_QUEUES
} LsmCacheQueueName;

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
	uint8		queue;
	volatile uint8 marked;		/* set under the shared lock */
} LsmCacheEntry;

typedef struct LsmCacheQueue
{
	uint32		newest;
	uint32		oldest;
	uint32		frames;
} LsmCacheQueue;

/* All but the counters of readers is guarded by the partition's lock. */
typedef struct LsmCachePartition
{
	LsmCacheQueue queues[LSM_QUEUES];
	uint32		free_frame;		/* first of a chain */
	uint32		nfree;
	uint32		free_entry;
	uint32		nentries;		/* used */
	uint64		insertions;
	uint64		evictions;
	pg_atomic_uint64 hits;
	pg_atomic_uint64 misses;
	char		pad[PG_CACHE_LINE_SIZE];
} LsmCachePartition;

typedef struct LsmCacheShared
{
	pg_atomic_uint64 reset_time;
	LsmCachePartition partitions[FLEXIBLE_ARRAY_MEMBER];
} LsmCacheShared;

/* Where a partition's arrays are. */
typedef struct LsmCachePart
{
	LWLock	   *lock;
	LsmCachePartition *partition;
	LsmCacheEntry *entries;		/* one for each frame */
	uint32	   *next_frame;
	uint32	   *buckets;
	char	   *frames;
} LsmCachePart;

int			lsm_block_cache_size = 128 * 1024;

static LsmCacheShared *lsm_cache_shared;
static LsmCacheEntry *lsm_cache_entries;
static uint32 *lsm_cache_next_frame;
static uint32 *lsm_cache_buckets;
static char *lsm_cache_frames;
static LWLockPadded *lsm_cache_locks;

/* The same in all processes, by the setting. */
static int	lsm_cache_npartitions;
static uint32 lsm_cache_part_frames;
static uint32 lsm_cache_nbuckets;	/* of a partition; a power of two */

/* ---- shared memory ---- */

static void
lsm_sharedcache_divide(void)
{
	uint32		frames = (uint32) ((uint64) lsm_block_cache_size * 1024 / LSM_FRAME_BYTES);

	lsm_cache_npartitions = 1;
	while (lsm_cache_npartitions < LSM_CACHE_MAX_PARTITIONS &&
		   frames / (lsm_cache_npartitions * 2) >= LSM_CACHE_LEAST_FRAMES)
		lsm_cache_npartitions *= 2;
	lsm_cache_part_frames = frames / lsm_cache_npartitions;
	lsm_cache_nbuckets = pg_nextpower2_32(Max(lsm_cache_part_frames / 2, 1));
}

static Size
lsm_sharedcache_header_size(void)
{
	return MAXALIGN(offsetof(LsmCacheShared, partitions) +
					lsm_cache_npartitions * sizeof(LsmCachePartition));
}

Size
lsm_sharedcache_shmem_size(void)
{
	Size		frames;

	if (lsm_block_cache_size == 0)
		return 0;
	lsm_sharedcache_divide();
	frames = (Size) lsm_cache_npartitions * lsm_cache_part_frames;
	return lsm_sharedcache_header_size() + MAXALIGN(frames * sizeof(LsmCacheEntry)) +
		MAXALIGN(frames * sizeof(uint32)) +
		MAXALIGN((Size) lsm_cache_npartitions * lsm_cache_nbuckets * sizeof(uint32)) +
		frames * LSM_FRAME_BYTES + PG_CACHE_LINE_SIZE;
}

void
lsm_sharedcache_shmem_request(void)
{
	if (lsm_block_cache_size == 0)
		return;
	RequestAddinShmemSpace(lsm_sharedcache_shmem_size());
	RequestNamedLWLockTranche("lsm_block_cache", lsm_cache_npartitions);
}

static LsmCachePart
lsm_cache_part(int number)
{
	LsmCachePart part;

	part.lock = &lsm_cache_locks[number].lock;
	part.partition = &lsm_cache_shared->partitions[number];
	part.entries = lsm_cache_entries + (Size) number * lsm_cache_part_frames;
	part.next_frame = lsm_cache_next_frame + (Size) number * lsm_cache_part_frames;
	part.buckets = lsm_cache_buckets + (Size) number * lsm_cache_nbuckets;
	part.frames = lsm_cache_frames + (Size) number * lsm_cache_part_frames * LSM_FRAME_BYTES;
	return part;
}

static void
lsm_cache_part_init(const LsmCachePart *part)
{
	LsmCachePartition *partition = part->partition;

	memset(partition, 0, sizeof(*partition));
	pg_atomic_init_u64(&partition->hits, 0);
	pg_atomic_init_u64(&partition->misses, 0);
	for (int i = 0; i < LSM_QUEUES; i++)
		partition->queues[i].newest = partition->queues[i].oldest = LSM_CACHE_NONE;
	for (uint32 i = 0; i < lsm_cache_nbuckets; i++)
		part->buckets[i] = LSM_CACHE_NONE;
	for (uint32 i = 0; i < lsm_cache_part_frames; i++)
	{
		uint32		next = i + 1 < lsm_cache_part_frames ? i + 1 : LSM_CACHE_NONE;

		part->next_frame[i] = next;
		part->entries[i].next_in_bucket = next;
	}
	partition->nfree = lsm_cache_part_frames;
}

/* AddinShmemInitLock is held. */
void
lsm_sharedcache_shmem_startup(void)
{
	bool		found;
	Size		size = lsm_sharedcache_shmem_size();
	Size		frames;
	char	   *at;

	if (size == 0)
		return;
	frames = (Size) lsm_cache_npartitions * lsm_cache_part_frames;
	lsm_cache_shared = ShmemInitStruct("lsm block cache", size, &found);
	lsm_cache_locks = GetNamedLWLockTranche("lsm_block_cache");
	at = (char *) lsm_cache_shared + lsm_sharedcache_header_size();
	lsm_cache_entries = (LsmCacheEntry *) at;
	at += MAXALIGN(frames * sizeof(LsmCacheEntry));
	lsm_cache_next_frame = (uint32 *) at;
	at += MAXALIGN(frames * sizeof(uint32));
	lsm_cache_buckets = (uint32 *) at;
	at += MAXALIGN((Size) lsm_cache_npartitions * lsm_cache_nbuckets * sizeof(uint32));
	lsm_cache_frames = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, at);
	if (found)
		return;
	pg_atomic_init_u64(&lsm_cache_shared->reset_time, 0);
	for (int i = 0; i < lsm_cache_npartitions; i++)
	{
		LsmCachePart part = lsm_cache_part(i);

		lsm_cache_part_init(&part);
	}
}

/* ---- blocks ---- */

/* The partition of a block, and its bucket there. */
static LsmCachePart
lsm_cache_find_part(uint64 uid, uint32 blockno, uint32 *bucket)
{
	uint64		hash = hash_combine64(uid, murmurhash32(blockno));

	*bucket = (uint32) (hash >> 32) & (lsm_cache_nbuckets - 1);
	return lsm_cache_part((uint32) hash & (lsm_cache_npartitions - 1));
}

static uint32
lsm_cache_find(const LsmCachePart *part, uint32 bucket, uint64 uid, uint32 blockno)
{
	uint32		at = part->buckets[bucket];

	while (at != LSM_CACHE_NONE &&
		   (part->entries[at].uid != uid || part->entries[at].blockno != blockno))
		at = part->entries[at].next_in_bucket;
	return at;
}

static uint32
lsm_cache_frames_of(uint32 len)
{
	return (len + LSM_FRAME_BYTES - 1) / LSM_FRAME_BYTES;
}

static void
lsm_cache_queue_push(const LsmCachePart *part, uint32 at, LsmCacheQueueName name)
{
	LsmCacheEntry *entry = &part->entries[at];
	LsmCacheQueue *queue = &part->partition->queues[name];

	entry->queue = name;
	entry->newer = LSM_CACHE_NONE;
	entry->older = queue->newest;
	if (queue->newest != LSM_CACHE_NONE)
		part->entries[queue->newest].newer = at;
	else
		queue->oldest = at;
	queue->newest = at;
	queue->frames += lsm_cache_frames_of(entry->len);
}

static void
lsm_cache_queue_remove(const LsmCachePart *part, uint32 at)
{
	LsmCacheEntry *entry = &part->entries[at];
	LsmCacheQueue *queue = &part->partition->queues[entry->queue];

	if (entry->newer != LSM_CACHE_NONE)
		part->entries[entry->newer].older = entry->older;
	else
		queue->newest = entry->older;
	if (entry->older != LSM_CACHE_NONE)
		part->entries[entry->older].newer = entry->newer;
	else
		queue->oldest = entry->newer;
	queue->frames -= lsm_cache_frames_of(entry->len);
}

/* Give an entry and its frames back; it is in no queue. */
static void
lsm_cache_drop(const LsmCachePart *part, uint32 at)
{
	LsmCacheEntry *entry = &part->entries[at];
	LsmCachePartition *partition = part->partition;
	uint32		last = entry->first_frame;
	uint32		bucket;
	uint32	   *link;

	(void) lsm_cache_find_part(entry->uid, entry->blockno, &bucket);
	for (link = &part->buckets[bucket]; *link != at;)
		link = &part->entries[*link].next_in_bucket;
	*link = entry->next_in_bucket;

	while (part->next_frame[last] != LSM_CACHE_NONE)
		last = part->next_frame[last];
	part->next_frame[last] = partition->free_frame;
	partition->free_frame = entry->first_frame;
	partition->nfree += lsm_cache_frames_of(entry->len);

	entry->next_in_bucket = partition->free_entry;
	partition->free_entry = at;
	partition->nentries--;
	partition->evictions++;
}

/* Make room for so many frames; the partition has that many. */
static void
lsm_cache_make_room(const LsmCachePart *part, uint32 frames)
{
	LsmCachePartition *partition = part->partition;
	LsmCacheQueue *cold = &partition->queues[LSM_QUEUE_COLD];
	LsmCacheQueue *warm = &partition->queues[LSM_QUEUE_WARM];

	while (partition->nfree < frames)
	{
		uint32		at;

		if (warm->oldest == LSM_CACHE_NONE ||
			cold->frames > lsm_cache_part_frames / LSM_CACHE_COLD_SHARE)
			at = cold->oldest;
		else
			at = warm->oldest;
		lsm_cache_queue_remove(part, at);
		if (part->entries[at].marked)
		{
			part->entries[at].marked = 0;
			lsm_cache_queue_push(part, at, LSM_QUEUE_WARM);
		}
		else
			lsm_cache_drop(part, at);
	}
}

bool
lsm_sharedcache_get(uint64 uid, uint32 blockno, uint32 len, char *buf, LsmCacheTouch touch)
{
	LsmCachePart part;
	LsmCacheEntry *entry;
	uint32		bucket;
	uint32		at;

	if (lsm_cache_shared == NULL)
		return false;
	part = lsm_cache_find_part(uid, blockno, &bucket);
	LWLockAcquire(part.lock, LW_SHARED);
	at = lsm_cache_find(&part, bucket, uid, blockno);
	if (at == LSM_CACHE_NONE || part.entries[at].len != len)
	{
		LWLockRelease(part.lock);
		pg_atomic_fetch_add_u64(&part.partition->misses, 1);
		return false;
	}
	entry = &part.entries[at];
	if (touch != LSM_TOUCH_NONE && !entry->marked)
		entry->marked = 1;
	for (uint32 frame = entry->first_frame; frame != LSM_CACHE_NONE;
		 frame = part.next_frame[frame])
	{
		Size		n = Min(len, LSM_FRAME_BYTES);

		memcpy(buf, part.frames + (Size) frame * LSM_FRAME_BYTES, n);
		buf += n;
		len -= n;
	}
	LWLockRelease(part.lock);
	Assert(len == 0);
	pg_atomic_fetch_add_u64(&part.partition->hits, 1);
	return true;
}

/* The length of a block that is there, else 0. */
static uint32
lsm_cache_length(uint64 uid, uint32 blockno, bool counted)
{
	LsmCachePart part;
	uint32		bucket;
	uint32		at;
	uint32		len = 0;

	if (lsm_cache_shared == NULL)
		return 0;
	part = lsm_cache_find_part(uid, blockno, &bucket);
	LWLockAcquire(part.lock, LW_SHARED);
	at = lsm_cache_find(&part, bucket, uid, blockno);
	if (at != LSM_CACHE_NONE)
		len = part.entries[at].len;
	LWLockRelease(part.lock);
	if (len == 0 && counted)
		pg_atomic_fetch_add_u64(&part.partition->misses, 1);
	return len;
}

uint32
lsm_sharedcache_length(uint64 uid, uint32 blockno)
{
	return lsm_cache_length(uid, blockno, true);
}

bool
lsm_sharedcache_has(uint64 uid, uint32 blockno)
{
	return lsm_cache_length(uid, blockno, false) > 0;
}

/* Fill an unused entry; there is room. */
static void
lsm_cache_fill(const LsmCachePart *part, LsmCacheEntry *entry, const char *bytes)
{
	LsmCachePartition *partition = part->partition;
	uint32		left = entry->len;
	uint32		frame = LSM_CACHE_NONE;

	entry->first_frame = partition->free_frame;
	while (left > 0)
	{
		Size		n = Min(left, LSM_FRAME_BYTES);

		frame = frame == LSM_CACHE_NONE ? partition->free_frame : part->next_frame[frame];
		memcpy(part->frames + (Size) frame * LSM_FRAME_BYTES, bytes, n);
		bytes += n;
		left -= n;
	}
	partition->free_frame = part->next_frame[frame];
	part->next_frame[frame] = LSM_CACHE_NONE;
	partition->nfree -= lsm_cache_frames_of(entry->len);
}

void
lsm_sharedcache_put(uint64 uid, uint32 blockno, uint32 len, const char *bytes,
					LsmCacheTouch touch)
{
	LsmCachePart part;
	LsmCachePartition *partition;
	LsmCacheEntry *entry;
	uint32		bucket;
	uint32		at;

	if (lsm_cache_shared == NULL || touch == LSM_TOUCH_NONE || len == 0 ||
		lsm_cache_frames_of(len) > lsm_cache_part_frames / LSM_CACHE_BLOCK_SHARE)
		return;
	part = lsm_cache_find_part(uid, blockno, &bucket);
	partition = part.partition;
	LWLockAcquire(part.lock, LW_EXCLUSIVE);
	if (lsm_cache_find(&part, bucket, uid, blockno) == LSM_CACHE_NONE)
	{
		lsm_cache_make_room(&part, lsm_cache_frames_of(len));
		at = partition->free_entry;
		entry = &part.entries[at];
		partition->free_entry = entry->next_in_bucket;
		entry->uid = uid;
		entry->blockno = blockno;
		entry->len = len;
		entry->marked = 0;
		lsm_cache_fill(&part, entry, bytes);
		entry->next_in_bucket = part.buckets[bucket];
		part.buckets[bucket] = at;
		lsm_cache_queue_push(&part, at, touch == LSM_TOUCH_POINT ? LSM_QUEUE_WARM :
							 LSM_QUEUE_COLD);
		partition->nentries++;
		partition->insertions++;
	}
	LWLockRelease(part.lock);
}

/* ---- statistics ---- */

void
lsm_sharedcache_stat(LsmCacheStat *stat)
{
	memset(stat, 0, sizeof(*stat));
	if (lsm_cache_shared == NULL)
		return;
	for (int i = 0; i < lsm_cache_npartitions; i++)
	{
		LsmCachePart part = lsm_cache_part(i);
		LsmCachePartition *partition = part.partition;

		LWLockAcquire(part.lock, LW_SHARED);
		stat->size_bytes += (uint64) lsm_cache_part_frames * LSM_FRAME_BYTES;
		stat->used_bytes += (uint64) (lsm_cache_part_frames - partition->nfree) * LSM_FRAME_BYTES;
		stat->warm_bytes += (uint64) partition->queues[LSM_QUEUE_WARM].frames * LSM_FRAME_BYTES;
		stat->blocks += partition->nentries;
		stat->insertions += partition->insertions;
		stat->evictions += partition->evictions;
		LWLockRelease(part.lock);
		stat->hits += pg_atomic_read_u64(&partition->hits);
		stat->misses += pg_atomic_read_u64(&partition->misses);
	}
	stat->reset_time = (TimestampTz) pg_atomic_read_u64(&lsm_cache_shared->reset_time);
}

void
lsm_sharedcache_stat_reset(void)
{
	if (lsm_cache_shared == NULL)
		return;
	for (int i = 0; i < lsm_cache_npartitions; i++)
	{
		LsmCachePart part = lsm_cache_part(i);

		LWLockAcquire(part.lock, LW_EXCLUSIVE);
		part.partition->insertions = 0;
		part.partition->evictions = 0;
		pg_atomic_write_u64(&part.partition->hits, 0);
		pg_atomic_write_u64(&part.partition->misses, 0);
		LWLockRelease(part.lock);
	}
	pg_atomic_write_u64(&lsm_cache_shared->reset_time, (uint64) GetCurrentTimestamp());
}
