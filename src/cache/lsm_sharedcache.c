/*-------------------------------------------------------------------------
 *
 * lsm_sharedcache.c
 *	  Blocks of segments as they are stored, in shared memory.
 *
 * The cache is divided by hash into partitions that have nothing in common.  A
 * partition has frames of 4 kB, chained for each block.  lsm_cacheroom.c says which blocks
 * stay, and where they lie.
 *
 * PINS
 *	  Who wants but a little of a block pins it, and copies that without a lock.  A
 *	  pinned block is passed over when room is made, so its entry and frames stay as they
 *	  are.  All pins of a partition together hold at most an eighth of its frames: a block
 *	  takes a quarter at most, so there is always room for one, though not in each queue.  A reader that gets no pin
 *	  copies the whole block instead.  Pins are a process's own affair: its session cache
 *	  has few of them, and gives them back when its transaction ends at the latest.
 *
 * LOCKING
 *	  Each partition has an LWLock: shared to copy a block out, or to pin it, exclusive to
 *	  put one in.  Nothing is taken inside it and nothing is read from a file.
 *	  Marks, pins and counters of readers are atomic, or a byte that is only ever set.
 *
 *	  Row blocks are read without the lock, as to take it and let go would be two writes to
 *	  memory that all readers of the partition share, for one small record: who puts a block
 *	  in counts before and after (an odd number: it is being done), and a reader who finds
 *	  another number than when he began believes nothing that he has read, and takes the
 *	  lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lsm_cachepart.h"
#include "lsm_process.h"
#include "lsm_segment.h"
#include "lsm_sharedcache.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/*
 * A partition has at least so many frames, if there are any more: a quarter of them is 2 MB,
 * more than the metadata of a segment of the usual size take.
 */
#define LSM_CACHE_LEAST_FRAMES	2048
#define LSM_CACHE_MAX_PARTITIONS 64

/* When the room for expanded blocks is full, one in so many that are found may be expanded. */
#define LSM_CACHE_EXPAND_ONE_IN	16

/* A block may take this part of a partition. */
#define LSM_CACHE_BLOCK_SHARE	4

/* Of a part of a block, so many lines are prefetched at most. */
#define LSM_CACHE_PREFETCH_LINES 8

/* Without the lock, so many entries of a bucket are looked at: a chain might have no end. */
#define LSM_CACHE_CHAIN			64

typedef struct LsmCacheShared
{
	pg_atomic_uint64 reset_time;
	pg_atomic_uint64 hits_before;	/* until the counters were reset */
	LsmCachePartition partitions[FLEXIBLE_ARRAY_MEMBER];
} LsmCacheShared;

int			lsm_block_cache_size;

static LsmCacheShared *lsm_cache_shared;
static LsmCacheEntry *lsm_cache_entries;
static LsmCacheFrame *lsm_cache_chain;
static uint32 *lsm_cache_buckets;
static uint32 *lsm_cache_ghosts;
static char *lsm_cache_frames;
static LWLockPadded *lsm_cache_locks;

/* What row blocks of this process's database are known by; 0: not set. */
static uint64 lsm_cache_database;

/* Hits of this process that it has not told of. */
static uint64 lsm_cache_hits;

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

/* About as many blocks as could have stayed if expanded blocks had the least room. */
static uint32
lsm_cache_nghosts(void)
{
	return Max(lsm_cache_nbuckets / 4, 1);
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
		MAXALIGN(frames * sizeof(LsmCacheFrame)) +
		MAXALIGN((Size) lsm_cache_npartitions * lsm_cache_nbuckets * sizeof(uint32)) +
		MAXALIGN((Size) lsm_cache_npartitions * 2 * lsm_cache_nghosts() * sizeof(uint32)) +
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
	part.chain = lsm_cache_chain + (Size) number * lsm_cache_part_frames;
	part.buckets = lsm_cache_buckets + (Size) number * lsm_cache_nbuckets;
	part.ghosts = lsm_cache_ghosts + (Size) number * 2 * lsm_cache_nghosts();
	part.scan_ghosts = part.ghosts + lsm_cache_nghosts();
	part.frames = lsm_cache_frames + (Size) number * lsm_cache_part_frames * LSM_FRAME_BYTES;
	part.nframes = lsm_cache_part_frames;
	part.nbuckets = lsm_cache_nbuckets;
	part.nghosts = lsm_cache_nghosts();
	return part;
}

static void
lsm_cache_part_init(const LsmCachePart *part)
{
	LsmCachePartition *partition = part->partition;

	memset(partition, 0, sizeof(*partition));
	pg_atomic_init_u32(&partition->changes, 0);
	pg_atomic_init_u64(&partition->misses, 0);
	pg_atomic_init_u32(&partition->pinned, 0);
	pg_atomic_init_u32(&partition->refused, 0);
	for (int i = 0; i < LSM_QUEUES; i++)
		partition->queues[i].newest = partition->queues[i].oldest = LSM_CACHE_NONE;
	for (uint32 i = 0; i < lsm_cache_nbuckets; i++)
		part->buckets[i] = LSM_CACHE_NONE;
	memset(part->ghosts, 0, lsm_cache_nghosts() * sizeof(uint32));
	memset(part->scan_ghosts, 0, lsm_cache_nghosts() * sizeof(uint32));
	for (uint32 i = 0; i < lsm_cache_part_frames; i++)
	{
		uint32		next = i + 1 < lsm_cache_part_frames ? i + 1 : LSM_CACHE_NONE;

		part->chain[i].next = next;
		part->chain[i].before = i > 0 ? i - 1 : LSM_CACHE_NONE;
		part->chain[i].owner = LSM_CACHE_NONE;
		part->entries[i].next_in_bucket = next;
		pg_atomic_init_u32(&part->entries[i].pins, 0);
	}
	partition->nfree = lsm_cache_part_frames;
	partition->hand = lsm_cache_eighths(part, 4);
	partition->room = lsm_cache_eighths(part, LSM_CACHE_LEAST_ROOM);
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
	lsm_cache_chain = (LsmCacheFrame *) at;
	at += MAXALIGN(frames * sizeof(LsmCacheFrame));
	lsm_cache_buckets = (uint32 *) at;
	at += MAXALIGN((Size) lsm_cache_npartitions * lsm_cache_nbuckets * sizeof(uint32));
	lsm_cache_ghosts = (uint32 *) at;
	at += MAXALIGN((Size) lsm_cache_npartitions * 2 * lsm_cache_nghosts() * sizeof(uint32));
	lsm_cache_frames = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, at);
	if (found)
		return;
	pg_atomic_init_u64(&lsm_cache_shared->reset_time, 0);
	pg_atomic_init_u64(&lsm_cache_shared->hits_before, 0);
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
	uint64		hash = lsm_cache_hash(uid, blockno);

	*bucket = lsm_cache_bucket(hash, lsm_cache_nbuckets);
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
		 frame = part.chain[frame].next)
	{
		Size		n = Min(len, LSM_FRAME_BYTES);

		memcpy(buf, part.frames + (Size) frame * LSM_FRAME_BYTES, n);
		buf += n;
		len -= n;
	}
	LWLockRelease(part.lock);
	Assert(len == 0);
	lsm_cache_hits++;
	return true;
}

/* Pin a block of a partition whose lock is held. */
static bool
lsm_cache_pin(const LsmCachePart *part, uint32 at, LsmCacheTouch touch, LsmCachePin *pin)
{
	LsmCacheEntry *entry = &part->entries[at];
	LsmCachePartition *partition = part->partition;
	uint32		frames = lsm_cache_frames_of(entry->len);

	if (pg_atomic_fetch_add_u32(&partition->pinned, frames) + frames >
		lsm_cache_part_frames / LSM_CACHE_PINNED_SHARE)
	{
		pg_atomic_fetch_sub_u32(&partition->pinned, frames);
		return false;
	}
	pg_atomic_fetch_add_u32(&entry->pins, 1);
	if (touch != LSM_TOUCH_NONE && !entry->marked)
		entry->marked = 1;
	pin->part = partition - lsm_cache_shared->partitions;
	pin->entry = at;
	pin->first_frame = entry->first_frame;
	return true;
}

bool
lsm_sharedcache_pin(uint64 uid, uint32 blockno, uint32 len, LsmCacheTouch touch, LsmCachePin *pin)
{
	LsmCachePart part;
	uint32		bucket;
	uint32		at;
	bool		pinned;

	if (lsm_cache_shared == NULL)
		return false;
	part = lsm_cache_find_part(uid, blockno, &bucket);
	LWLockAcquire(part.lock, LW_SHARED);
	at = lsm_cache_find(&part, bucket, uid, blockno);
	pinned = at != LSM_CACHE_NONE && part.entries[at].len == len &&
		lsm_cache_pin(&part, at, touch, pin);
	LWLockRelease(part.lock);
	if (pinned)
		lsm_cache_hits++;
	return pinned;
}

void
lsm_sharedcache_copy(const LsmCachePin *pin, uint32 from, uint32 len, char *to)
{
	LsmCachePart part = lsm_cache_part(pin->part);
	uint32		frame = pin->first_frame;

	Assert(pg_atomic_read_u32(&part.entries[pin->entry].pins) > 0);
	Assert((uint64) from + len <= part.entries[pin->entry].len);
	for (; from >= LSM_FRAME_BYTES; from -= LSM_FRAME_BYTES)
		frame = part.chain[frame].next;
	while (len > 0)
	{
		Size		n = Min(len, LSM_FRAME_BYTES - from);

		memcpy(to, part.frames + (Size) frame * LSM_FRAME_BYTES + from, n);
		to += n;
		len -= n;
		from = 0;
		frame = part.chain[frame].next;
	}
}

void
lsm_sharedcache_unpin(const LsmCachePin *pin)
{
	LsmCachePart part = lsm_cache_part(pin->part);
	LsmCacheEntry *entry = &part.entries[pin->entry];
	uint32		frames = lsm_cache_frames_of(entry->len);

	Assert(pg_atomic_read_u32(&entry->pins) > 0);
	pg_atomic_fetch_sub_u32(&entry->pins, 1);
	pg_atomic_fetch_sub_u32(&part.partition->pinned, frames);
}

/* Prefetch a part of a block that a process may be about to replace. */
static void
lsm_cache_prefetch_span(const LsmCachePart *part, uint32 frame, uint32 from, uint32 len)
{
	int			lines = Min(len / LSM_CACHE_LINE + 3, LSM_CACHE_PREFETCH_LINES);

	/* it may begin a little earlier than the last one did */
	from -= Min(from, LSM_CACHE_LINE);
	for (; from >= LSM_FRAME_BYTES && frame != LSM_CACHE_NONE; from -= LSM_FRAME_BYTES)
		frame = part->chain[frame].next;
	for (; lines > 0 && from < LSM_FRAME_BYTES && frame != LSM_CACHE_NONE; lines--)
	{
		__builtin_prefetch(part->frames + (Size) frame * LSM_FRAME_BYTES + from);
		from += LSM_CACHE_LINE;
	}
}

/*
 * Each step needs what the one before it has found: so a block's place in the hash table
 * is fetched three blocks ahead, its entry two, its bytes one.
 *
 * Race: entries and chains are read without a lock.  Whatever they are, they are numbers of
 * entries and frames that there are, or LSM_CACHE_NONE.
 */
void
lsm_sharedcache_prefetch(uint64 uid, uint32 blockno, const LsmCacheSpan *spans, int nspans)
{
	LsmCachePart part;
	uint32		bucket;
	uint32		at;

	if (lsm_cache_shared == NULL)
		return;
	part = lsm_cache_find_part(uid, blockno + 2, &bucket);
	__builtin_prefetch(&part.buckets[bucket]);
	part = lsm_cache_find_part(uid, blockno + 1, &bucket);
	at = part.buckets[bucket];
	if (at != LSM_CACHE_NONE)
		__builtin_prefetch(&part.entries[at]);
	part = lsm_cache_find_part(uid, blockno, &bucket);
	at = part.buckets[bucket];
	for (int i = 0; i < LSM_CACHE_CHAIN && at != LSM_CACHE_NONE; i++)
	{
		LsmCacheEntry *entry = &part.entries[at];

		if (entry->uid == uid && entry->blockno == blockno)
		{
			for (int j = 0; j < nspans; j++)
				lsm_cache_prefetch_span(&part, entry->first_frame, spans[j].from, spans[j].len);
			break;
		}
		at = entry->next_in_bucket;
	}
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

/* Give an entry its frames: those from first on, or any (LSM_CACHE_NONE); there is room. */
static void
lsm_cache_fill(const LsmCachePart *part, uint32 at, uint32 first, const char *bytes)
{
	LsmCacheEntry *entry = &part->entries[at];
	uint32		left = entry->len;
	uint32		before = LSM_CACHE_NONE;

	entry->together = first != LSM_CACHE_NONE || left <= LSM_FRAME_BYTES;
	while (left > 0)
	{
		Size		n = Min(left, LSM_FRAME_BYTES);
		uint32		frame = first == LSM_CACHE_NONE ? part->partition->free_frame : first++;

		lsm_cache_use_frame(part, frame, at);
		if (before == LSM_CACHE_NONE)
			entry->first_frame = frame;
		else
			part->chain[before].next = frame;
		memcpy(part->frames + (Size) frame * LSM_FRAME_BYTES, bytes, n);
		bytes += n;
		left -= n;
		before = frame;
	}
}

/* Put a block in; false: it is not there, as there is no room for it. */
static bool
lsm_cache_put(uint64 uid, uint32 blockno, uint32 len, const char *bytes, LsmCacheQueueName name)
{
	LsmCachePart part;
	LsmCachePartition *partition;
	LsmCacheEntry *entry;
	uint32		frames = lsm_cache_frames_of(len);
	uint32		first = LSM_CACHE_NONE;
	uint32		bucket;
	uint32		at;
	bool		expanded = name == LSM_QUEUE_EXPANDED;
	bool		there;

	if (lsm_cache_shared == NULL || len == 0 ||
		frames > lsm_cache_part_frames / LSM_CACHE_BLOCK_SHARE)
		return false;
	part = lsm_cache_find_part(uid, blockno, &bucket);
	partition = part.partition;
	LWLockAcquire(part.lock, LW_EXCLUSIVE);
	there = lsm_cache_find(&part, bucket, uid, blockno) != LSM_CACHE_NONE;
	if (!there && expanded)
		first = lsm_cache_find_room(&part, frames);
	if (there || (expanded && first == LSM_CACHE_NONE))
	{
		LWLockRelease(part.lock);
		return there;
	}

	lsm_cache_change(partition);
	if (expanded)
	{
		lsm_cache_clear_run(&part, first, frames);
		there = true;
	}
	else
	{
		lsm_cache_regret(&part, bucket, uid, blockno, frames, name);
		there = lsm_cache_make_room(&part, frames);
		if (there)
			first = lsm_cache_free_run(&part, frames);
	}
	if (there)
	{
		at = partition->free_entry;
		entry = &part.entries[at];
		partition->free_entry = entry->next_in_bucket;
		entry->uid = uid;
		entry->blockno = blockno;
		entry->len = len;
		entry->marked = 0;
		lsm_cache_fill(&part, at, first, bytes);
		entry->next_in_bucket = part.buckets[bucket];
		part.buckets[bucket] = at;
		lsm_cache_queue_push(&part, at, name);
		partition->nentries++;
		partition->insertions++;
	}
	lsm_cache_changed(partition);
	LWLockRelease(part.lock);
	return there;
}

void
lsm_sharedcache_put(uint64 uid, uint32 blockno, uint32 len, const char *bytes,
					LsmCacheTouch touch)
{
	if (touch != LSM_TOUCH_NONE)
		(void) lsm_cache_put(uid, blockno, len, bytes,
							 touch == LSM_TOUCH_POINT ? LSM_QUEUE_WARM : LSM_QUEUE_COLD);
}

/* Pin a block, and tell where it lies; NULL: it is not there, or in no one place. */
static const char *
lsm_cache_pin_place(uint64 uid, uint32 blockno, uint32 *len, LsmCacheTouch touch, LsmCachePin *pin)
{
	LsmCachePart part;
	uint32		bucket;
	uint32		at;
	bool		pinned;

	if (lsm_cache_shared == NULL)
		return NULL;
	part = lsm_cache_find_part(uid, blockno, &bucket);
	LWLockAcquire(part.lock, LW_SHARED);
	at = lsm_cache_find(&part, bucket, uid, blockno);
	pinned = at != LSM_CACHE_NONE && part.entries[at].together &&
		lsm_cache_pin(&part, at, touch, pin);
	if (pinned)
		*len = part.entries[at].len;
	LWLockRelease(part.lock);
	if (!pinned)
		return NULL;
	lsm_cache_hits++;
	return part.frames + (Size) pin->first_frame * LSM_FRAME_BYTES;
}

const char *
lsm_sharedcache_pin_stored(uint64 uid, uint32 blockno, uint32 *len, LsmCachePin *pin)
{
	return lsm_cache_pin_place(uid, blockno, len, LSM_TOUCH_POINT, pin);
}

/* ---- expanded blocks ---- */

uint32
lsm_sharedcache_expanded_length(uint64 uid, uint32 blockno)
{
	return lsm_cache_length(uid, blockno | LSM_CACHE_EXPANDED, false);
}

bool
lsm_sharedcache_get_expanded(uint64 uid, uint32 blockno, uint32 len, char *buf,
							 LsmCacheTouch touch)
{
	return lsm_sharedcache_get(uid, blockno | LSM_CACHE_EXPANDED, len, buf, touch);
}

const char *
lsm_sharedcache_pin_expanded(uint64 uid, uint32 blockno, uint32 *len, LsmCacheTouch touch,
							 LsmCachePin *pin)
{
	return lsm_cache_pin_place(uid, blockno | LSM_CACHE_EXPANDED, len, touch, pin);
}

/* Make a block the next that the cold queue gives up. */
static void
lsm_cache_demote(uint64 uid, uint32 blockno)
{
	LsmCachePart part;
	uint32		bucket;
	uint32		at;

	part = lsm_cache_find_part(uid, blockno, &bucket);
	LWLockAcquire(part.lock, LW_EXCLUSIVE);
	at = lsm_cache_find(&part, bucket, uid, blockno);
	if (at != LSM_CACHE_NONE)
	{
		lsm_cache_queue_remove(&part, at);
		lsm_cache_queue_last(&part, at);
	}
	LWLockRelease(part.lock);
}

void
lsm_sharedcache_put_expanded(uint64 uid, uint32 blockno, uint32 len, const char *bytes)
{
	if (lsm_cache_put(uid, blockno | LSM_CACHE_EXPANDED, len, bytes, LSM_QUEUE_EXPANDED))
		lsm_cache_demote(uid, blockno);
}

/* Is there room for one more under that number, or in the place of another one? */
static bool
lsm_cache_expands(uint64 uid, uint32 number)
{
	LsmCachePart part;
	LsmCachePartition *partition;
	uint32		bucket;
	bool		expands;

	if (lsm_cache_shared == NULL)
		return false;
	part = lsm_cache_find_part(uid, number, &bucket);
	partition = part.partition;

	/* read without its lock: a guess is good enough */
	if (partition->queues[LSM_QUEUE_EXPANDED].frames < partition->room)
		return true;
	if (pg_atomic_fetch_add_u32(&partition->refused, 1) % LSM_CACHE_EXPAND_ONE_IN != 0)
		return false;
	LWLockAcquire(part.lock, LW_EXCLUSIVE);
	expands = lsm_cache_drop_unused(&part);
	LWLockRelease(part.lock);
	return expands;
}

bool
lsm_sharedcache_expands(uint64 uid, uint32 blockno)
{
	return lsm_cache_expands(uid, blockno | LSM_CACHE_EXPANDED);
}

/* ---- row blocks ---- */

/*
 * A copy of a database has segments with the same uids, and the same blocks, but columns
 * may have been dropped in one of the two, which row blocks leave out.  The number of a
 * database alone does not do: it may have been another copy's before.
 */
void
lsm_sharedcache_set_database(uint64 database)
{
	lsm_cache_database = database;
}

static uint64
lsm_cache_rows_uid(uint64 uid)
{
	Assert(lsm_cache_database != 0);
	return hash_combine64(uid, lsm_cache_database);
}

/*
 * Is that the entry of a row block?  Then where it lies, and how much memory there is behind its
 * first frame.
 *
 * Race: without the lock, entries may be anything; but they are numbers of entries and frames
 * that there are, or LSM_CACHE_NONE.
 */
static inline bool
lsm_cache_is_rows(const LsmCachePart *part, uint32 at, uint64 uid, uint32 number,
				  const char **rows, uint32 *len)
{
	volatile LsmCacheEntry *entry = &part->entries[at];
	uint32		frame = entry->first_frame;
	uint32		bytes = entry->len;

	if (entry->uid != uid || entry->blockno != number || frame >= lsm_cache_part_frames)
		return false;
	*rows = part->frames + (Size) frame * LSM_FRAME_BYTES;
	*len = (uint32) Min((Size) bytes, (Size) (lsm_cache_part_frames - frame) * LSM_FRAME_BYTES);
	return true;
}

/*
 * The entry of a row block, LSM_CACHE_NONE: it is not there.
 *
 * Race: a chain that seems to have no end is given up: at worst a row block is not found, and
 * its block is read.
 */
static uint32
lsm_cache_find_rows(const LsmCachePart *part, uint32 bucket, uint64 uid, uint32 number,
					const char **rows, uint32 *len)
{
	uint32		at = part->buckets[bucket];

	for (int i = 0; i < LSM_CACHE_CHAIN && at != LSM_CACHE_NONE; i++)
	{
		if (lsm_cache_is_rows(part, at, uid, number, rows, len))
			return at;
		at = ((volatile LsmCacheEntry *) &part->entries[at])->next_in_bucket;
	}
	return LSM_CACHE_NONE;
}

const void *
lsm_sharedcache_hold_rows(uint64 uid, uint32 blockno, LsmCachePlace *place, LsmCacheHeld *held)
{
	LsmCachePart part;
	LsmCacheEntry *entry;
	const char *rows;
	uint32		number = blockno | LSM_CACHE_ROWS;
	uint32		bucket;
	bool		placed;

	if (lsm_cache_shared == NULL)
		return NULL;
	uid = lsm_cache_rows_uid(uid);
	part = lsm_cache_find_part(uid, number, &bucket);
	held->part = part.partition - lsm_cache_shared->partitions;
	placed = place->part == held->part && place->entry < lsm_cache_part_frames;
	place->part = held->part;
	for (;;)
	{
		held->changes = pg_atomic_read_u32(&part.partition->changes);
		if (held->locks || held->changes % 2 != 0)
		{
			held->lock = part.lock;
			LWLockAcquire(part.lock, LW_SHARED);
		}
		else
			pg_read_barrier();
		if (!placed || !lsm_cache_is_rows(&part, place->entry, uid, number, &rows, &held->len))
			place->entry = lsm_cache_find_rows(&part, bucket, uid, number, &rows, &held->len);
		if (place->entry != LSM_CACHE_NONE)
			break;
		if (lsm_sharedcache_let_go(held))
			return NULL;
	}
	entry = &part.entries[place->entry];
	if (!entry->marked)
		entry->marked = 1;
	return rows;
}

void
lsm_sharedcache_count_rows(void)
{
	lsm_cache_hits++;
}

bool
lsm_sharedcache_let_go(LsmCacheHeld *held)
{
	if (held->lock != NULL)
	{
		LWLockRelease(held->lock);
		held->lock = NULL;
		return true;
	}
	pg_read_barrier();
	held->locks = held->changes !=
		pg_atomic_read_u32(&lsm_cache_shared->partitions[held->part].changes);
	return !held->locks;
}

/*
 * In steps, each of which waits for what the one before has asked for.
 *
 * Race: see lsm_cache_find_rows().  Nobody asks whether it was right.
 */
void
lsm_sharedcache_foresee_rows(LsmRowsForeseen *foreseen, int n)
{
	LsmCachePart part;

	for (int i = 0; i < n; i++)
	{
		foreseen[i].uid = lsm_cache_rows_uid(foreseen[i].segment);
		foreseen[i].rows = NULL;
	}
	if (lsm_cache_shared == NULL)
		return;
	for (int i = 0; i < n; i++)
	{
		part = lsm_cache_find_part(foreseen[i].uid, foreseen[i].blockno | LSM_CACHE_ROWS,
								   &foreseen[i].bucket);
		foreseen[i].place.part = part.partition - lsm_cache_shared->partitions;
		lsm_prefetch(&part.buckets[foreseen[i].bucket]);
		lsm_prefetch(&part.partition->changes);
	}
	for (int i = 0; i < n; i++)
	{
		uint32		at;

		part = lsm_cache_part(foreseen[i].place.part);
		at = part.buckets[foreseen[i].bucket];
		if (at != LSM_CACHE_NONE)
			lsm_prefetch(&part.entries[at]);
	}
	for (int i = 0; i < n; i++)
	{
		const char *rows;

		part = lsm_cache_part(foreseen[i].place.part);
		foreseen[i].place.entry = lsm_cache_find_rows(&part, foreseen[i].bucket, foreseen[i].uid,
													  foreseen[i].blockno | LSM_CACHE_ROWS,
													  &rows, &foreseen[i].len);
		if (foreseen[i].place.entry == LSM_CACHE_NONE)
			continue;
		foreseen[i].rows = rows;
		lsm_prefetch(rows);
	}
}

bool
lsm_sharedcache_foresee_again(LsmRowsForeseen *foreseen)
{
	LsmCachePart part;
	const char *rows;

	if (foreseen->place.part >= (uint32) lsm_cache_npartitions ||
		foreseen->place.entry >= lsm_cache_part_frames)
		return false;
	foreseen->uid = lsm_cache_rows_uid(foreseen->segment);
	part = lsm_cache_part(foreseen->place.part);
	if (!lsm_cache_is_rows(&part, foreseen->place.entry, foreseen->uid,
						   foreseen->blockno | LSM_CACHE_ROWS, &rows, &foreseen->len))
		return false;
	foreseen->rows = rows;
	lsm_prefetch(rows);
	return true;
}

void
lsm_sharedcache_put_rows(uint64 uid, uint32 blockno, uint32 len, const char *bytes)
{
	if (lsm_cache_put(lsm_cache_rows_uid(uid), blockno | LSM_CACHE_ROWS, len, bytes,
					  LSM_QUEUE_EXPANDED))
		lsm_cache_demote(uid, blockno);
}

bool
lsm_sharedcache_has_rows(uint64 uid, uint32 blockno)
{
	return lsm_cache_length(lsm_cache_rows_uid(uid), blockno | LSM_CACHE_ROWS, false) > 0;
}

bool
lsm_sharedcache_keeps_rows(uint64 uid, uint32 blockno)
{
	return lsm_cache_expands(lsm_cache_rows_uid(uid), blockno | LSM_CACHE_ROWS);
}

/* ---- blocks that nobody will want again ---- */

static void
lsm_cache_forget(uint64 uid, uint32 number)
{
	LsmCachePart part;
	uint32		bucket;
	uint32		at;

	/* most are not there, and are not worth the lock */
	if (lsm_cache_length(uid, number, false) == 0)
		return;
	part = lsm_cache_find_part(uid, number, &bucket);
	LWLockAcquire(part.lock, LW_EXCLUSIVE);
	at = lsm_cache_find(&part, bucket, uid, number);
	if (at != LSM_CACHE_NONE && !lsm_cache_is_pinned(&part.entries[at]))
	{
		pg_memory_barrier();	/* see lsm_cache_turn() */
		lsm_cache_queue_remove(&part, at);
		lsm_cache_change(part.partition);
		lsm_cache_drop(&part, at);
		lsm_cache_changed(part.partition);
	}
	LWLockRelease(part.lock);
}

void
lsm_sharedcache_forget(uint64 uid, uint32 nblocks)
{
	if (lsm_cache_shared == NULL)
		return;
	for (uint32 blockno = 0; blockno < nblocks; blockno++)
	{
		if (blockno % LSM_SLICE_BLOCKS == 0)
			lsm_cache_forget(uid, LSM_CACHE_SLICES + blockno / LSM_SLICE_BLOCKS);
		lsm_cache_forget(uid, blockno);
		lsm_cache_forget(uid, blockno | LSM_CACHE_EXPANDED);
		lsm_cache_forget(lsm_cache_rows_uid(uid), blockno | LSM_CACHE_ROWS);
	}
	lsm_cache_forget(uid, LSM_CACHE_TOUCHED);
	lsm_cache_forget(uid, LSM_CACHE_PART);
	lsm_cache_forget(uid, LSM_CACHE_BOUNDS);
	lsm_cache_forget(uid, LSM_CACHE_METADATA);
}

/* ---- statistics ---- */

uint32
lsm_sharedcache_place(uint64 uid, uint32 blockno)
{
	uint32		bucket;
	LsmCachePart part = lsm_cache_find_part(uid, blockno, &bucket);

	return (uint32) (part.partition - lsm_cache_shared->partitions) * lsm_cache_nbuckets + bucket;
}

void
lsm_sharedcache_tell_hits(void)
{
	if (lsm_cache_hits > 0)
	{
		pg_atomic_uint64 *hits = &lsm_my_process()->hits;

		/* nobody else writes there */
		pg_atomic_write_u64(hits, pg_atomic_read_u64(hits) + lsm_cache_hits);
	}
	lsm_cache_hits = 0;
}

/* Hits that have been told since the server was started. */
static uint64
lsm_cache_all_hits(void)
{
	uint64		hits = 0;

	for (int i = 0; i < lsm_process_count(); i++)
		hits += pg_atomic_read_u64(&lsm_process(i)->hits);
	return hits;
}

void
lsm_sharedcache_stat(LsmCacheStat *stat)
{
	uint64		before;

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
		stat->expanded_bytes += (uint64) partition->queues[LSM_QUEUE_EXPANDED].frames *
			LSM_FRAME_BYTES;
		stat->blocks += partition->nentries;
		stat->insertions += partition->insertions;
		stat->evictions += partition->evictions;
		LWLockRelease(part.lock);
		stat->pinned_bytes += (uint64) pg_atomic_read_u32(&partition->pinned) * LSM_FRAME_BYTES;
		stat->misses += pg_atomic_read_u64(&partition->misses);
	}
	before = pg_atomic_read_u64(&lsm_cache_shared->hits_before);
	pg_read_barrier();			/* a later reset has counted more than is counted here */
	stat->hits = lsm_cache_all_hits() + lsm_cache_hits - before;
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
		pg_atomic_write_u64(&part.partition->misses, 0);
		LWLockRelease(part.lock);
	}
	pg_atomic_write_u64(&lsm_cache_shared->hits_before, lsm_cache_all_hits());
	lsm_cache_hits = 0;
	pg_atomic_write_u64(&lsm_cache_shared->reset_time, (uint64) GetCurrentTimestamp());
}
