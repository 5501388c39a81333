/*-------------------------------------------------------------------------
 *
 * lsm_cacheroom.c
 *	  Which blocks stay in the block cache, and where they lie.
 *
 * A partition of the cache has two queues of blocks as they are stored.
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
 *	  not long before: of such ones fingerprints are kept ("ghosts", as in ARC).  To read a
 *	  block costs far more than to find a row in one that is compressed, so it shrinks by more
 *	  than comes in, and after that waits a while before it grows again.
 *
 *	  When a block comes back for a scan, the room stays what it is, but expanded blocks that
 *	  nobody has used since the last ones did make way, however few there are: a table that is
 *	  scanned again and again would fit, and is read each time, for the sake of rows that were
 *	  once looked up.  (Of a table far larger than the cache, blocks come back when their ghosts
 *	  have been forgotten.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_cachepart.h"

/* Frames of a partition that the cold queue keeps: one of so many. */
#define LSM_CACHE_COLD_SHARE	8

/* The most room for expanded blocks, in eighths of them. */
#define LSM_CACHE_MOST_ROOM		6

/*
 * When the room for expanded blocks is full, the hand looks at so many frames, or blocks as
 * stored, for one that is expanded.  While there is room, it passes as many before it takes other frames than those that nobody wants.
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

/* ---- queues ---- */

void
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

void
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

/* An entry that is in no queue becomes the next that the cold queue gives up. */
void
lsm_cache_queue_last(const LsmCachePart *part, uint32 at)
{
	LsmCacheEntry *entry = &part->entries[at];
	LsmCacheQueue *cold = &part->partition->queues[LSM_QUEUE_COLD];

	entry->marked = 0;
	entry->spare = true;
	entry->queue = LSM_QUEUE_COLD;
	entry->older = LSM_CACHE_NONE;
	entry->newer = cold->oldest;
	if (cold->oldest != LSM_CACHE_NONE)
		part->entries[cold->oldest].older = at;
	else
		cold->newest = at;
	cold->oldest = at;
	cold->frames += lsm_cache_frames_of(entry->len);
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

void
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
uint32
lsm_cache_free_run(const LsmCachePart *part, uint32 frames)
{
	uint32		first = part->partition->free_frame;
	uint32		end = first + 1;

	Assert(first != LSM_CACHE_NONE);
	while (end - first < frames && first > 0 && part->chain[first - 1].owner == LSM_CACHE_NONE)
		first--;
	while (end - first < frames && end < part->nframes &&
		   part->chain[end].owner == LSM_CACHE_NONE)
		end++;
	return end - first == frames ? first : LSM_CACHE_NONE;
}

/* ---- making room ---- */

/* What is remembered of a block that has left; never 0. */
static uint32
lsm_cache_ghost(uint64 uid, uint32 blockno)
{
	return (uint32) lsm_cache_hash(uid, blockno) | 1;
}

static uint32 *
lsm_cache_ghost_at(const LsmCachePart *part, uint32 *ghosts, uint32 bucket)
{
	return &ghosts[bucket & (part->nghosts - 1)];
}

/* Is a block remembered there?  Then it is no more. */
static bool
lsm_cache_was_ghost(uint32 *ghost, uint64 uid, uint32 blockno)
{
	if (*ghost != lsm_cache_ghost(uid, blockno))
		return false;
	*ghost = 0;
	return true;
}

/* Give an entry and its frames back; it is in no queue. */
void
lsm_cache_drop(const LsmCachePart *part, uint32 at)
{
	LsmCacheEntry *entry = &part->entries[at];
	LsmCachePartition *partition = part->partition;
	uint32		frame = entry->first_frame;
	uint32		bucket;
	uint32	   *link;

	bucket = lsm_cache_bucket(lsm_cache_hash(entry->uid, entry->blockno), part->nbuckets);
	for (link = &part->buckets[bucket]; *link != at;)
		link = &part->entries[*link].next_in_bucket;
	*link = entry->next_in_bucket;

	while (frame != LSM_CACHE_NONE)
	{
		uint32		next = part->chain[frame].next;

		lsm_cache_free_frame(part, frame);
		frame = next;
	}

	/* who remembers where it was (LsmCachePlace) has to see that it is not there */
	entry->first_frame = LSM_CACHE_NONE;
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

	if (entry->queue != LSM_QUEUE_EXPANDED)
	{
		bucket = lsm_cache_bucket(lsm_cache_hash(entry->uid, entry->blockno), part->nbuckets);
		*lsm_cache_ghost_at(part, entry->queue == LSM_QUEUE_WARM ? part->ghosts :
							part->scan_ghosts, bucket) =
			lsm_cache_ghost(entry->uid, entry->blockno);
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
												part->nframes / LSM_CACHE_PINNED_SHARE) +
		part->nframes / LSM_CACHE_ROOM_SLACK)
		return LSM_QUEUE_EXPANDED;
	if (gives[LSM_QUEUE_WARM] &&
		queues[LSM_QUEUE_COLD].frames <= part->nframes / LSM_CACHE_COLD_SHARE)
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
 * Look at the oldest expanded blocks, of so many frames together: those that have not been used
 * since they were looked at last go.
 */
static void
lsm_cache_drop_idle(const LsmCachePart *part, uint32 frames)
{
	const LsmCacheQueue *queue = &part->partition->queues[LSM_QUEUE_EXPANDED];

	for (uint32 seen = 0; seen < frames && queue->oldest != LSM_CACHE_NONE;)
	{
		seen += lsm_cache_frames_of(part->entries[queue->oldest].len);
		(void) lsm_cache_turn(part, LSM_QUEUE_EXPANDED, true);
	}
}

/*
 * A block as stored comes into a queue.  If it should have stayed, expanded ones get less room,
 * or, for scans, those that are idle go.  (What comes back for single rows may have gone because
 * it was there expanded.)
 */
void
lsm_cache_regret(const LsmCachePart *part, uint32 bucket, uint64 uid, uint32 blockno,
				 uint32 frames, LsmCacheQueueName name)
{
	LsmCachePartition *partition = part->partition;
	uint32		least = lsm_cache_eighths(part, LSM_CACHE_LEAST_ROOM);
	uint32		used = partition->queues[LSM_QUEUE_EXPANDED].frames;

	if (lsm_cache_was_ghost(lsm_cache_ghost_at(part, part->scan_ghosts, bucket), uid, blockno) &&
		name == LSM_QUEUE_COLD)
		lsm_cache_drop_idle(part, LSM_CACHE_ROOM_STEP * frames);
	if (!lsm_cache_was_ghost(lsm_cache_ghost_at(part, part->ghosts, bucket), uid, blockno) ||
		used <= least)
		return;
	partition->room = Min(partition->room, used);
	partition->room -= Min(partition->room, LSM_CACHE_ROOM_STEP * frames);
	partition->room = Max(partition->room, least);
	partition->patience = LSM_CACHE_ROOM_PATIENCE;
}

/*
 * Make room for so many frames; false: what is not pinned does not suffice.
 *
 * A queue that has shown more pinned blocks one after the other than there can be pins has
 * nothing else.  Race: row blocks are marked without the lock, so that marks could go on
 * giving them another turn; these count for some turns only.
 */
bool
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
		else if (++pinned > part->nframes / LSM_CACHE_PINNED_SHARE)
			barren[giver] = true;
	}
	return true;
}

/* ---- room for expanded blocks ---- */

/* The first frame where expanded blocks may lie. */
static uint32
lsm_cache_reach(const LsmCachePart *part)
{
	return lsm_cache_eighths(part, 1);
}

/* Move the hand over what it points to. */
static void
lsm_cache_pass(const LsmCachePart *part)
{
	LsmCachePartition *partition = part->partition;
	uint32		owner = part->chain[partition->hand].owner;

	do
		partition->hand++;
	while (partition->hand < part->nframes && owner != LSM_CACHE_NONE &&
		   part->chain[partition->hand].owner == owner);
}

/* Has the hand come to the end?  Then it begins anew. */
static bool
lsm_cache_comes_round(const LsmCachePart *part)
{
	LsmCachePartition *partition = part->partition;

	if (partition->hand < part->nframes)
		return false;
	partition->hand = lsm_cache_reach(part);
	return true;
}

/*
 * The room is full: if the hand meets an expanded block that nobody uses, it goes, and the hand
 * stays where it was.
 */
bool
lsm_cache_drop_unused(const LsmCachePart *part)
{
	LsmCachePartition *partition = part->partition;
	uint32		most = lsm_cache_eighths(part, LSM_CACHE_MOST_ROOM);

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
			(void) lsm_cache_comes_round(part);
			return false;
		}
		lsm_cache_pass(part);
		(void) lsm_cache_comes_round(part);
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

		if (part->nframes - first < frames)
		{
			if (any)
				partition->searched += part->nframes - at;
			first = at = lsm_cache_reach(part);
		}
		owner = part->chain[at].owner;
		if (!lsm_cache_gives(part, at, any))
			first = LSM_CACHE_NONE;
		if (any)
			partition->searched++;
		at++;
		while (owner != LSM_CACHE_NONE && at < part->nframes &&
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
			(void) lsm_cache_comes_round(part);
			return first;
		}
	}
	if (any)
	{
		partition->searched -= Min(partition->searched, at - first);
		partition->hand = first;
		(void) lsm_cache_comes_round(part);
	}
	return LSM_CACHE_NONE;
}

/* Where an expanded block of so many frames may lie; LSM_CACHE_NONE: there is no room. */
uint32
lsm_cache_find_room(const LsmCachePart *part, uint32 frames)
{
	LsmCachePartition *partition = part->partition;
	uint32		first = lsm_cache_find_run(part, frames, false);

	if (first == LSM_CACHE_NONE)
		first = lsm_cache_find_run(part, frames, true);
	if (partition->searched / LSM_CACHE_SEARCH_ROUNDS >= part->nframes)
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
void
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
