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
 * A block gets frames that follow each other if some are free beside the first free one.
 * Such a block can be read where it is while it is pinned.
 *
 * EXPANDED BLOCKS
 *	  Blocks that are read row by row are kept expanded, too, under other numbers.  So are row
 *	  blocks (lsm_rowblock.c), of which one record at a time is copied.  They always lie in
 *	  frames that follow each other, above the lowest eighth of a partition, where a hand goes
 *	  round.  As long as there is room for more of them, it takes the first run without
 *	  others of them, and without blocks as stored that are pinned, or were marked since it
 *	  last came by; what lies there goes.
 *
 *	  When the room is full, one in 16 blocks that might be expanded is: if the next one that
 *	  the hand meets has not been used since it last came by, and so goes.  Else that one
 *	  loses its mark.  So what is wanted evenly stays, without going and coming, and what
 *	  nobody wants any more is replaced.
 *
 *	  The room is three to six eighths of a partition.  It grows when the hand meets blocks
 *	  that are in use, and shrinks when a block as stored comes in that has left the warm queue
 *	  not long before: of such ones fingerprints are kept ("ghosts", as in ARC).  (Blocks of
 *	  scans come back whatever the room is.)  To read a block costs far more than to find a row
 *	  in one that is compressed, so it shrinks by more than comes in, and after that waits a
 *	  while before it grows again.
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
#include "lsm_sharedcache.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define LSM_FRAME_BYTES			4096

/*
 * A partition has at least so many frames, if there are any more: a quarter of them is 2 MB,
 * more than the metadata of a segment of the usual size take.
 */
#define LSM_CACHE_LEAST_FRAMES	2048
#define LSM_CACHE_MAX_PARTITIONS 64

/* Frames of a partition that the cold queue keeps: one of so many. */
#define LSM_CACHE_COLD_SHARE	8

/* The room for expanded blocks, in eighths of a partition's frames. */
#define LSM_CACHE_LEAST_ROOM	3
#define LSM_CACHE_MOST_ROOM		6

/* When it is full, one in so many blocks that are found may be expanded. */
#define LSM_CACHE_EXPAND_ONE_IN	16

/*
 * Then the hand looks at so many frames, or blocks as stored, for one that is expanded.  While
 * there is room, it passes as many before it takes other frames than those that nobody wants.
 */
#define LSM_CACHE_HAND_STEPS	256

/* Rounds without a run that is long enough, after which there is none: marks are gone then. */
#define LSM_CACHE_SEARCH_ROUNDS 2

/* Where room is made, marks count for so many turns, as the lock is held meanwhile. */
#define LSM_CACHE_MARKED_TURNS	256

/*
 * The room becomes less by so many times what comes back, and more by so many times what is
 * used, after it was short so often; one in so many of all frames may be used beyond it.
 */
#define LSM_CACHE_ROOM_STEP		4
#define LSM_CACHE_ROOM_PATIENCE	256
#define LSM_CACHE_ROOM_SLACK	16

/* A block may take this part of a partition. */
#define LSM_CACHE_BLOCK_SHARE	4

/* Frames of a partition that may be pinned: one of so many. */
#define LSM_CACHE_PINNED_SHARE	8

/* Of a part of a block, so many lines are prefetched at most. */
#define LSM_CACHE_PREFETCH_LINES 8

/* Without the lock, so many entries of a bucket are looked at: a chain might have no end. */
#define LSM_CACHE_CHAIN			64

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

typedef struct LsmCacheShared
{
	pg_atomic_uint64 reset_time;
	pg_atomic_uint64 hits;
	LsmCachePartition partitions[FLEXIBLE_ARRAY_MEMBER];
} LsmCacheShared;

/* Where a partition's arrays are. */
typedef struct LsmCachePart
{
	LWLock	   *lock;
	LsmCachePartition *partition;
	LsmCacheEntry *entries;		/* one for each frame */
	LsmCacheFrame *chain;		/* one for each frame */
	uint32	   *buckets;
	uint32	   *ghosts;			/* one for four buckets; 0: none */
	char	   *frames;
} LsmCachePart;

int			lsm_block_cache_size = 128 * 1024;

static LsmCacheShared *lsm_cache_shared;
static LsmCacheEntry *lsm_cache_entries;
static LsmCacheFrame *lsm_cache_chain;
static uint32 *lsm_cache_buckets;
static uint32 *lsm_cache_ghosts;
static char *lsm_cache_frames;
static LWLockPadded *lsm_cache_locks;

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
		MAXALIGN((Size) lsm_cache_npartitions * lsm_cache_nghosts() * sizeof(uint32)) +
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
	part.ghosts = lsm_cache_ghosts + (Size) number * lsm_cache_nghosts();
	part.frames = lsm_cache_frames + (Size) number * lsm_cache_part_frames * LSM_FRAME_BYTES;
	return part;
}

static uint32
lsm_cache_eighths(uint32 n)
{
	return (uint32) ((uint64) lsm_cache_part_frames * n / 8);
}

/* The first frame where expanded blocks may lie. */
static uint32
lsm_cache_reach(void)
{
	return lsm_cache_eighths(1);
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
	partition->hand = lsm_cache_eighths(4);
	partition->room = lsm_cache_eighths(LSM_CACHE_LEAST_ROOM);
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
	at += MAXALIGN((Size) lsm_cache_npartitions * lsm_cache_nghosts() * sizeof(uint32));
	lsm_cache_frames = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, at);
	if (found)
		return;
	pg_atomic_init_u64(&lsm_cache_shared->reset_time, 0);
	pg_atomic_init_u64(&lsm_cache_shared->hits, 0);
	for (int i = 0; i < lsm_cache_npartitions; i++)
	{
		LsmCachePart part = lsm_cache_part(i);

		lsm_cache_part_init(&part);
	}
}

/* ---- blocks ---- */

/* Two hashes that have nothing in common: the upper one chooses the bucket, the lower one the rest. */
static uint64
lsm_cache_hash(uint64 uid, uint32 blockno)
{
	return (uint64) murmurhash32((uint32) (uid >> 32) + blockno) << 32 |
		murmurhash32((uint32) uid ^ blockno);
}

/* The partition of a block, and its bucket there. */
static LsmCachePart
lsm_cache_find_part(uint64 uid, uint32 blockno, uint32 *bucket)
{
	uint64		hash = lsm_cache_hash(uid, blockno);

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
	entry->spare = false;
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

/* ---- changes ---- */

/* Between these two, readers without the lock find out that what they read may be wrong. */
static void
lsm_cache_change(LsmCachePartition *partition)
{
	Assert(pg_atomic_read_u32(&partition->changes) % 2 == 0);
	pg_atomic_write_u32(&partition->changes, pg_atomic_read_u32(&partition->changes) + 1);
	pg_memory_barrier();
}

static void
lsm_cache_changed(LsmCachePartition *partition)
{
	pg_write_barrier();
	pg_atomic_write_u32(&partition->changes, pg_atomic_read_u32(&partition->changes) + 1);
}

/* ---- free frames ---- */

static void
lsm_cache_free_frame(const LsmCachePart *part, uint32 frame)
{
	LsmCachePartition *partition = part->partition;
	LsmCacheFrame *link = &part->chain[frame];

	link->owner = LSM_CACHE_NONE;
	link->before = LSM_CACHE_NONE;
	link->next = partition->free_frame;
	if (link->next != LSM_CACHE_NONE)
		part->chain[link->next].before = frame;
	partition->free_frame = frame;
	partition->nfree++;
}

static void
lsm_cache_use_frame(const LsmCachePart *part, uint32 frame, uint32 owner)
{
	LsmCachePartition *partition = part->partition;
	LsmCacheFrame *link = &part->chain[frame];

	Assert(link->owner == LSM_CACHE_NONE);
	if (link->before != LSM_CACHE_NONE)
		part->chain[link->before].next = link->next;
	else
		partition->free_frame = link->next;
	if (link->next != LSM_CACHE_NONE)
		part->chain[link->next].before = link->before;
	link->owner = owner;
	link->next = LSM_CACHE_NONE;
	partition->nfree--;
}

/* The first of so many free frames that follow each other; LSM_CACHE_NONE: not found at once. */
static uint32
lsm_cache_free_run(const LsmCachePart *part, uint32 frames)
{
	uint32		first = part->partition->free_frame;
	uint32		end = first + 1;

	Assert(first != LSM_CACHE_NONE);
	while (end - first < frames && first > 0 && part->chain[first - 1].owner == LSM_CACHE_NONE)
		first--;
	while (end - first < frames && end < lsm_cache_part_frames &&
		   part->chain[end].owner == LSM_CACHE_NONE)
		end++;
	return end - first == frames ? first : LSM_CACHE_NONE;
}

/* ---- making room ---- */

static bool
lsm_cache_is_pinned(LsmCacheEntry *entry)
{
	return pg_atomic_read_u32(&entry->pins) > 0;
}

/* What is remembered of a block that has left; never 0. */
static uint32
lsm_cache_ghost(uint64 uid, uint32 blockno)
{
	return (uint32) lsm_cache_hash(uid, blockno) | 1;
}

static uint32 *
lsm_cache_ghost_at(const LsmCachePart *part, uint32 bucket)
{
	return &part->ghosts[bucket & (lsm_cache_nghosts() - 1)];
}

/* A block as stored comes in: if it should have stayed, expanded ones get less room. */
static void
lsm_cache_regret(const LsmCachePart *part, uint32 bucket, uint64 uid, uint32 blockno,
				 uint32 frames)
{
	LsmCachePartition *partition = part->partition;
	uint32	   *ghost = lsm_cache_ghost_at(part, bucket);
	uint32		least = lsm_cache_eighths(LSM_CACHE_LEAST_ROOM);
	uint32		used = partition->queues[LSM_QUEUE_EXPANDED].frames;

	if (*ghost != lsm_cache_ghost(uid, blockno))
		return;
	*ghost = 0;
	if (used <= least)
		return;
	partition->room = Min(partition->room, used);
	partition->room -= Min(partition->room, LSM_CACHE_ROOM_STEP * frames);
	partition->room = Max(partition->room, least);
	partition->patience = LSM_CACHE_ROOM_PATIENCE;
}

/* Give an entry and its frames back; it is in no queue. */
static void
lsm_cache_drop(const LsmCachePart *part, uint32 at)
{
	LsmCacheEntry *entry = &part->entries[at];
	LsmCachePartition *partition = part->partition;
	uint32		frame = entry->first_frame;
	uint32		bucket;
	uint32	   *link;

	(void) lsm_cache_find_part(entry->uid, entry->blockno, &bucket);
	for (link = &part->buckets[bucket]; *link != at;)
		link = &part->entries[*link].next_in_bucket;
	*link = entry->next_in_bucket;

	while (frame != LSM_CACHE_NONE)
	{
		uint32		next = part->chain[frame].next;

		lsm_cache_free_frame(part, frame);
		frame = next;
	}

	entry->next_in_bucket = partition->free_entry;
	partition->free_entry = at;
	partition->nentries--;
}

/* A block that is in no queue any more makes room for others. */
static void
lsm_cache_evict(const LsmCachePart *part, uint32 at)
{
	LsmCacheEntry *entry = &part->entries[at];
	uint32		bucket;

	if (entry->queue == LSM_QUEUE_WARM)
	{
		(void) lsm_cache_find_part(entry->uid, entry->blockno, &bucket);
		*lsm_cache_ghost_at(part, bucket) = lsm_cache_ghost(entry->uid, entry->blockno);
	}
	lsm_cache_drop(part, at);
	part->partition->evictions++;
}

/*
 * The queue that gives up its oldest block next; LSM_QUEUES: none.  Those that are barren have
 * nothing but pinned blocks.
 */
static LsmCacheQueueName
lsm_cache_giver(const LsmCachePart *part, const bool *barren)
{
	static const LsmCacheQueueName order[] = {LSM_QUEUE_COLD, LSM_QUEUE_WARM, LSM_QUEUE_EXPANDED};
	const LsmCacheQueue *queues = part->partition->queues;
	bool		gives[LSM_QUEUES];

	for (int i = 0; i < LSM_QUEUES; i++)
		gives[i] = queues[i].oldest != LSM_CACHE_NONE && !barren[i];

	/*
	 * The room has become less.  Where it is full, the last blocks may not fit as a whole; and
	 * some must be left that are not pinned.
	 */
	if (gives[LSM_QUEUE_EXPANDED] &&
		queues[LSM_QUEUE_EXPANDED].frames > Max(part->partition->room,
												lsm_cache_part_frames / LSM_CACHE_PINNED_SHARE) +
		lsm_cache_part_frames / LSM_CACHE_ROOM_SLACK)
		return LSM_QUEUE_EXPANDED;
	if (gives[LSM_QUEUE_WARM] &&
		queues[LSM_QUEUE_COLD].frames <= lsm_cache_part_frames / LSM_CACHE_COLD_SHARE)
		return LSM_QUEUE_WARM;
	for (int i = 0; i < LSM_QUEUES; i++)
		if (gives[order[i]])
			return order[i];
	return LSM_QUEUES;
}

/*
 * The oldest block of a queue goes, or has another turn, because it is pinned (then true is
 * returned), or marked if marks count.
 *
 * Race: nobody can pin a block while the lock is held.  Who unpins one has read what he
 * wants before its count goes down, and we change it after we have seen that.
 */
static bool
lsm_cache_turn(const LsmCachePart *part, LsmCacheQueueName name, bool marks)
{
	uint32		at = part->partition->queues[name].oldest;
	LsmCacheEntry *entry = &part->entries[at];
	bool		pinned = lsm_cache_is_pinned(entry);

	lsm_cache_queue_remove(part, at);
	if ((entry->marked && marks) || pinned)
	{
		entry->marked = 0;
		lsm_cache_queue_push(part, at, name == LSM_QUEUE_EXPANDED ?
							 LSM_QUEUE_EXPANDED : LSM_QUEUE_WARM);
	}
	else
	{
		pg_memory_barrier();
		lsm_cache_evict(part, at);
	}
	return pinned;
}

/*
 * Make room for so many frames; false: what is not pinned does not suffice.
 *
 * A queue that has shown more pinned blocks one after the other than there can be pins has
 * nothing else.  Race: row blocks are marked without the lock, so that marks could go on
 * giving them another turn; these count for some turns only.
 */
static bool
lsm_cache_make_room(const LsmCachePart *part, uint32 frames)
{
	bool		barren[LSM_QUEUES] = {false};
	LsmCacheQueueName last = LSM_QUEUES;
	uint32		pinned = 0;

	for (uint32 turns = 0; part->partition->nfree < frames; turns++)
	{
		LsmCacheQueueName giver = lsm_cache_giver(part, barren);

		if (giver == LSM_QUEUES)
			return false;
		if (giver != last)
			pinned = 0;
		last = giver;
		if (!lsm_cache_turn(part, giver, turns < LSM_CACHE_MARKED_TURNS))
			pinned = 0;
		else if (++pinned > lsm_cache_part_frames / LSM_CACHE_PINNED_SHARE)
			barren[giver] = true;
	}
	return true;
}

/* ---- room for expanded blocks ---- */

/* Move the hand over what it points to. */
static void
lsm_cache_pass(const LsmCachePart *part)
{
	LsmCachePartition *partition = part->partition;
	uint32		owner = part->chain[partition->hand].owner;

	do
		partition->hand++;
	while (partition->hand < lsm_cache_part_frames && owner != LSM_CACHE_NONE &&
		   part->chain[partition->hand].owner == owner);
}

/* Has the hand come to the end?  Then it begins anew. */
static bool
lsm_cache_comes_round(LsmCachePartition *partition)
{
	if (partition->hand < lsm_cache_part_frames)
		return false;
	partition->hand = lsm_cache_reach();
	return true;
}

/*
 * The room is full: if the hand meets an expanded block that nobody uses, it goes, and the hand
 * stays where it was.
 */
static bool
lsm_cache_drop_unused(const LsmCachePart *part)
{
	LsmCachePartition *partition = part->partition;
	uint32		most = lsm_cache_eighths(LSM_CACHE_MOST_ROOM);

	for (int i = 0; i < LSM_CACHE_HAND_STEPS; i++)
	{
		uint32		owner = part->chain[partition->hand].owner;
		LsmCacheEntry *entry = owner == LSM_CACHE_NONE ? NULL : &part->entries[owner];

		if (entry != NULL && entry->queue == LSM_QUEUE_EXPANDED)
		{
			if (!entry->marked && !lsm_cache_is_pinned(entry))
			{
				pg_memory_barrier();
				partition->hand = entry->first_frame;
				lsm_cache_queue_remove(part, owner);
				lsm_cache_change(partition);
				lsm_cache_evict(part, owner);
				lsm_cache_changed(partition);
				return true;
			}
			if (partition->patience > 0)
				partition->patience--;
			else if (partition->room < most)
				partition->room = Min(partition->room +
									  LSM_CACHE_ROOM_STEP * lsm_cache_frames_of(entry->len), most);
			entry->marked = 0;
			lsm_cache_pass(part);
			(void) lsm_cache_comes_round(partition);
			return false;
		}
		lsm_cache_pass(part);
		(void) lsm_cache_comes_round(partition);
	}
	return false;
}

/*
 * May what has that frame go for an expanded block?  Nothing like it, and nothing that is
 * pinned.  Of blocks as stored either those that are there expanded, or any: then a marked one
 * has another turn.
 */
static bool
lsm_cache_gives(const LsmCachePart *part, uint32 frame, bool any)
{
	uint32		owner = part->chain[frame].owner;
	LsmCacheEntry *entry;
	bool		marked;

	if (owner == LSM_CACHE_NONE)
		return true;
	entry = &part->entries[owner];
	marked = entry->marked;
	if (entry->queue == LSM_QUEUE_EXPANDED || lsm_cache_is_pinned(entry))
		return false;
	if (!any)
		return entry->spare && !marked;
	entry->marked = 0;
	return !marked;
}

/*
 * The first of so many frames that follow each other, from the hand on, and can be cleared;
 * LSM_CACHE_NONE: none found.  It looks at some more blocks or free frames than it needs, as
 * the lock is held; if it has found no run of any blocks, the next search goes on where the last
 * run begins.
 */
static uint32
lsm_cache_find_run(const LsmCachePart *part, uint32 frames, bool any)
{
	LsmCachePartition *partition = part->partition;
	uint32		first = partition->hand;
	uint32		at = first;

	for (uint32 steps = LSM_CACHE_HAND_STEPS + frames; steps > 0; steps--)
	{
		uint32		owner;

		if (lsm_cache_part_frames - first < frames)
		{
			if (any)
				partition->searched += lsm_cache_part_frames - at;
			first = at = lsm_cache_reach();
		}
		owner = part->chain[at].owner;
		if (!lsm_cache_gives(part, at, any))
			first = LSM_CACHE_NONE;
		if (any)
			partition->searched++;
		at++;
		while (owner != LSM_CACHE_NONE && at < lsm_cache_part_frames &&
			   part->chain[at].owner == owner)
		{
			if (any)
				partition->searched++;
			at++;
		}
		if (first == LSM_CACHE_NONE)
			first = at;
		else if (at - first >= frames)
		{
			partition->searched = 0;
			partition->hand = first + frames;
			(void) lsm_cache_comes_round(partition);
			return first;
		}
	}
	if (any)
	{
		partition->searched -= Min(partition->searched, at - first);
		partition->hand = first;
		(void) lsm_cache_comes_round(partition);
	}
	return LSM_CACHE_NONE;
}

/* Where an expanded block of so many frames may lie; LSM_CACHE_NONE: there is no room. */
static uint32
lsm_cache_find_room(const LsmCachePart *part, uint32 frames)
{
	LsmCachePartition *partition = part->partition;
	uint32		first = lsm_cache_find_run(part, frames, false);

	if (first == LSM_CACHE_NONE)
		first = lsm_cache_find_run(part, frames, true);
	if (partition->searched / LSM_CACHE_SEARCH_ROUNDS >= lsm_cache_part_frames)
	{
		/* what is between them is too small: so they fill the room */
		partition->searched = 0;
		partition->room = Max(partition->queues[LSM_QUEUE_EXPANDED].frames, frames);
		partition->patience = LSM_CACHE_ROOM_PATIENCE;
	}
	return first;
}

/*
 * Clear so many frames that were found.
 *
 * Race: see lsm_cache_turn().
 */
static void
lsm_cache_clear_run(const LsmCachePart *part, uint32 first, uint32 frames)
{
	pg_memory_barrier();
	for (uint32 frame = first; frame < first + frames; frame++)
	{
		uint32		owner = part->chain[frame].owner;

		if (owner == LSM_CACHE_NONE)
			continue;
		lsm_cache_queue_remove(part, owner);
		lsm_cache_evict(part, owner);
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
		lsm_cache_regret(&part, bucket, uid, blockno, frames);
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
lsm_cache_pin_place(uint64 uid, uint32 blockno, uint32 *len, LsmCachePin *pin)
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
		lsm_cache_pin(&part, at, LSM_TOUCH_POINT, pin);
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
	return lsm_cache_pin_place(uid, blockno, len, pin);
}

/* ---- expanded blocks ---- */

uint32
lsm_sharedcache_expanded_length(uint64 uid, uint32 blockno)
{
	return lsm_cache_length(uid, blockno | LSM_CACHE_EXPANDED, false);
}

bool
lsm_sharedcache_get_expanded(uint64 uid, uint32 blockno, uint32 len, char *buf)
{
	return lsm_sharedcache_get(uid, blockno | LSM_CACHE_EXPANDED, len, buf, LSM_TOUCH_POINT);
}

const char *
lsm_sharedcache_pin_expanded(uint64 uid, uint32 blockno, uint32 *len, LsmCachePin *pin)
{
	return lsm_cache_pin_place(uid, blockno | LSM_CACHE_EXPANDED, len, pin);
}

/* Make a block the next that the cold queue gives up. */
static void
lsm_cache_demote(uint64 uid, uint32 blockno)
{
	LsmCachePart part;
	LsmCacheQueue *cold;
	uint32		bucket;
	uint32		at;

	part = lsm_cache_find_part(uid, blockno, &bucket);
	cold = &part.partition->queues[LSM_QUEUE_COLD];
	LWLockAcquire(part.lock, LW_EXCLUSIVE);
	at = lsm_cache_find(&part, bucket, uid, blockno);
	if (at != LSM_CACHE_NONE)
	{
		LsmCacheEntry *entry = &part.entries[at];

		lsm_cache_queue_remove(&part, at);
		entry->marked = 0;
		entry->spare = true;
		entry->queue = LSM_QUEUE_COLD;
		entry->older = LSM_CACHE_NONE;
		entry->newer = cold->oldest;
		if (cold->oldest != LSM_CACHE_NONE)
			part.entries[cold->oldest].older = at;
		else
			cold->newest = at;
		cold->oldest = at;
		cold->frames += lsm_cache_frames_of(entry->len);
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
 * may have been dropped in one of the two, which row blocks leave out.
 */
static uint64
lsm_cache_rows_uid(uint64 uid)
{
	return hash_combine64(uid, murmurhash32(MyDatabaseId));
}

/*
 * The entry of a row block, and how much memory there is behind its first frame.
 *
 * Race: without the lock, entries may be anything; but they are numbers of entries and frames
 * that there are, or LSM_CACHE_NONE.  A chain that seems to have no end is given up: at worst a
 * row block is not found, and its block is read.
 */
static LsmCacheEntry *
lsm_cache_find_rows(const LsmCachePart *part, uint32 bucket, uint64 uid, uint32 number,
					const char **rows, uint32 *len)
{
	uint32		at = part->buckets[bucket];

	for (int i = 0; i < LSM_CACHE_CHAIN && at != LSM_CACHE_NONE; i++)
	{
		volatile LsmCacheEntry *entry = &part->entries[at];
		uint32		frame = entry->first_frame;
		uint32		bytes = entry->len;

		if (entry->uid == uid && entry->blockno == number && frame < lsm_cache_part_frames)
		{
			*rows = part->frames + (Size) frame * LSM_FRAME_BYTES;
			*len = (uint32) Min((Size) bytes,
								(Size) (lsm_cache_part_frames - frame) * LSM_FRAME_BYTES);
			return &part->entries[at];
		}
		at = entry->next_in_bucket;
	}
	return NULL;
}

const void *
lsm_sharedcache_hold_rows(uint64 uid, uint32 blockno, LsmCacheHeld *held)
{
	LsmCachePart part;
	LsmCacheEntry *entry;
	const char *rows;
	uint32		number = blockno | LSM_CACHE_ROWS;
	uint32		bucket;

	if (lsm_cache_shared == NULL)
		return NULL;
	uid = lsm_cache_rows_uid(uid);
	part = lsm_cache_find_part(uid, number, &bucket);
	held->part = part.partition - lsm_cache_shared->partitions;
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
		entry = lsm_cache_find_rows(&part, bucket, uid, number, &rows, &held->len);
		if (entry != NULL)
			break;
		if (lsm_sharedcache_let_go(held))
			return NULL;
	}
	if (!entry->marked)
		entry->marked = 1;
	lsm_cache_hits++;
	return rows;
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
		foreseen[i].uid = lsm_cache_rows_uid(foreseen[i].uid);
		foreseen[i].rows = NULL;
	}
	if (lsm_cache_shared == NULL)
		return;
	for (int i = 0; i < n; i++)
	{
		part = lsm_cache_find_part(foreseen[i].uid, foreseen[i].blockno | LSM_CACHE_ROWS,
								   &foreseen[i].bucket);
		foreseen[i].part = part.partition - lsm_cache_shared->partitions;
		lsm_prefetch(&part.buckets[foreseen[i].bucket]);
		lsm_prefetch(&part.partition->changes);
	}
	for (int i = 0; i < n; i++)
	{
		uint32		at;

		part = lsm_cache_part(foreseen[i].part);
		at = part.buckets[foreseen[i].bucket];
		if (at != LSM_CACHE_NONE)
			lsm_prefetch(&part.entries[at]);
	}
	for (int i = 0; i < n; i++)
	{
		const char *rows;

		part = lsm_cache_part(foreseen[i].part);
		if (lsm_cache_find_rows(&part, foreseen[i].bucket, foreseen[i].uid,
								foreseen[i].blockno | LSM_CACHE_ROWS, &rows,
								&foreseen[i].len) == NULL)
			continue;
		foreseen[i].rows = rows;
		lsm_prefetch(rows);
		lsm_prefetch(rows + LSM_CACHE_LINE);
	}
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
		lsm_cache_forget(uid, blockno);
		lsm_cache_forget(uid, blockno | LSM_CACHE_EXPANDED);
		lsm_cache_forget(lsm_cache_rows_uid(uid), blockno | LSM_CACHE_ROWS);
	}
	lsm_cache_forget(uid, LSM_CACHE_TOUCHED);
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
		pg_atomic_fetch_add_u64(&lsm_cache_shared->hits, lsm_cache_hits);
	lsm_cache_hits = 0;
}

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
		stat->expanded_bytes += (uint64) partition->queues[LSM_QUEUE_EXPANDED].frames *
			LSM_FRAME_BYTES;
		stat->blocks += partition->nentries;
		stat->insertions += partition->insertions;
		stat->evictions += partition->evictions;
		LWLockRelease(part.lock);
		stat->pinned_bytes += (uint64) pg_atomic_read_u32(&partition->pinned) * LSM_FRAME_BYTES;
		stat->misses += pg_atomic_read_u64(&partition->misses);
	}
	stat->hits = pg_atomic_read_u64(&lsm_cache_shared->hits) + lsm_cache_hits;
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
	pg_atomic_write_u64(&lsm_cache_shared->hits, 0);
	lsm_cache_hits = 0;
	pg_atomic_write_u64(&lsm_cache_shared->reset_time, (uint64) GetCurrentTimestamp());
}
