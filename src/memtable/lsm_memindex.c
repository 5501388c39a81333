/*-------------------------------------------------------------------------
 *
 * lsm_memindex.c
 *	  The ordered in-memory index of the rows that one generation changed.
 *
 * From root TID to the newest record of that row in the generation, in one shared
 * arena of chunks that is fixed at server start.  A whole index is dropped at once;
 * single nodes never are, which is what makes readers without locks simple.
 * A filter by root answers "nothing here" for most rows, and single rows are found by
 * hash tables.
 *
 * For ranges there is a skip list (Pugh, 1990) over the same nodes.  To find the place of a
 * node in the list of a large memtable touches some twenty others, few of which are in the
 * processor's caches, and many writers never meet a reader of ranges.  So a published node
 * only goes to a stack, and who asks for a range first brings what is there into the list:
 * sorted, so that what is next to each other is touched together, by merging lists, which
 * needs no memory.  A flush needs all of them, and pays a fraction of what the writers would.
 *
 * The hash tables double in size by two bits each time.  A node is in the one that was
 * the newest when it was published, and is never moved, so that readers need no lock
 * here either; they look at the newest, which has most nodes, first.
 *
 * Addresses are offsets into the arena in units of 8 bytes; 0 is none.
 *
 * LOCKING
 *	  Callers hold the table's generation lock: shared to find, reserve and
 *	  publish, exclusive to reset.  Whoever finds that nodes are not in the list takes the
 *	  index's order lock, in which nothing else is taken, so that all who ask for
 *	  ranges wait until those that were published before are there.  Without any lock,
 *	  lsm_memindex_peek() reads filter, buckets and nodes, which lie in the arena even if they
 *	  are another's meanwhile: the caller has to find out whether.  Two publishers of one root
 *	  exclude each other by the row's stripe lock (I2).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "lsm_memindex.h"
#include "storage/lwlock.h"

#define LSM_MAX_HEIGHT			12
#define LSM_FILTER_BITS			131072
#define LSM_FILTER_BYTES		(LSM_FILTER_BITS / 8)

/*
 * Hash tables: buckets in pieces that fit chunks well, and a directory of these.  A bucket has
 * the address of its first node, and above it a bit for each of its nodes, by hash, so that
 * for a root that is not there hardly any node is looked at.
 */
#define LSM_PIECE_BUCKETS		1016
#define LSM_PIECE_BYTES			(LSM_PIECE_BUCKETS * sizeof(pg_atomic_uint64))
#define lsm_bucket_first(bucket) ((uint32) (bucket))
#define lsm_bucket_bit(hash)	(UINT64CONST(1) << (32 + (hash) / 0x08000000))
#define LSM_HASH_TABLES			5	/* of 1, 4, 16, 64 and 256 pieces */
#define LSM_HASH_PIECES			(1 + 4 + 16 + 64 + 256)
#define LSM_HASH_SHARE			32	/* one takes no more of the arena: a quarter of what
									 * ends a generation */
#define LSM_HASH_LOAD			2	/* nodes in a bucket until there is
									 * another table */

typedef struct LsmChunkHead
{
	uint32		next;			/* next chunk of the same index or free list */
	LsmMemIndex *index;			/* that has it, or had it last; NULL: none yet */
} LsmChunkHead;

StaticAssertDecl(sizeof(LsmChunkHead) + 4 * LSM_PIECE_BYTES <= LSM_CHUNK_BYTES,
				 "four pieces fit a chunk");
StaticAssertDecl(sizeof(LsmChunkHead) + LSM_EXTRA_BYTES <= LSM_CHUNK_BYTES, "so does what is extra");

/*
 * Who brings nodes into the list of an index has one of these locks, for some milliseconds:
 * so many nodes.
 */
#define LSM_ORDER_LOCKS			64
#define LSM_ORDER_SLICE			8192

/*
 * Nodes that are looked at without a lock: what was a bucket may be anything meanwhile, also a circle.
 */
#define LSM_PEEK_NODES			64

/* Sorted lists of 1, 2, 4 ... nodes that wait to be merged. */
#define LSM_ORDER_RUNS			16

StaticAssertDecl(LSM_ORDER_SLICE < 1 << LSM_ORDER_RUNS, "a slice can be sorted");

typedef struct LsmArena
{
	LWLock		order_locks[LSM_ORDER_LOCKS];
	slock_t		mutex;			/* guards what follows */
	uint32		free_chunk;		/* first free chunk, numbered from 1; 0: none */
	uint32		nfree;
	uint32		nchunks;
	pg_atomic_uint32 turn;		/* of lsm_memindex_arena_turn() */
} LsmArena;

typedef struct LsmNode
{
	uint64		root:48;
	uint64		height:16;
	pg_atomic_uint64 newest;	/* version TID of the newest record */
	uint32		in_bucket;		/* next node of the bucket; fixed once that is
								 * linked */
	pg_atomic_uint32 next[FLEXIBLE_ARRAY_MEMBER];
} LsmNode;

static LsmArena *arena;
static char *arena_chunks;

#define LSM_ARENA_HEAD			MAXALIGN(sizeof(LsmArena))
#define lsm_chunk_ptr(chunk)	(arena_chunks + (Size) ((chunk) - 1) * LSM_CHUNK_BYTES)
#define lsm_node_ptr(address)	((LsmNode *) (arena_chunks + (Size) (address) * 8))

/* Bytes of shared memory for an arena of that many kilobytes. */
Size
lsm_memindex_arena_size(int memtable_size_kb)
{
	Size		nchunks = (Size) memtable_size_kb * 1024 / LSM_CHUNK_BYTES;

	return add_size(LSM_ARENA_HEAD, mul_size(nchunks, LSM_CHUNK_BYTES));
}

/* Attach to the arena, at server start put all chunks on the free list; tranche: of its locks. */
void
lsm_memindex_arena_init(void *place, Size size, int tranche, bool fresh)
{
	arena = (LsmArena *) place;
	arena_chunks = (char *) place + LSM_ARENA_HEAD;
	if (!fresh)
		return;

	for (int i = 0; i < LSM_ORDER_LOCKS; i++)
		LWLockInitialize(&arena->order_locks[i], tranche);
	SpinLockInit(&arena->mutex);
	arena->nchunks = (size - LSM_ARENA_HEAD) / LSM_CHUNK_BYTES;
	arena->nfree = arena->nchunks;
	arena->free_chunk = 0;
	pg_atomic_init_u32(&arena->turn, 0);
	for (uint32 chunk = arena->nchunks; chunk > 0; chunk--)
	{
		LsmChunkHead *head = (LsmChunkHead *) lsm_chunk_ptr(chunk);

		head->next = arena->free_chunk;
		head->index = NULL;
		arena->free_chunk = chunk;
	}
}

uint32
lsm_memindex_arena_chunks(void)
{
	return arena->nchunks;
}

uint32
lsm_memindex_arena_free(void)
{
	return arena->nfree;
}

/* Where who looks for memory begins: each time elsewhere. */
uint32
lsm_memindex_arena_turn(void)
{
	return pg_atomic_fetch_add_u32(&arena->turn, 1) % arena->nchunks;
}

/*
 * Indexes that may have memory: those of chunks at equal distances all over the arena.  Rounds
 * from 0 to before lsm_memindex_arena_rounds(max) come to all chunks.  What is found has had the
 * chunk, but need not have it any more; the same may be found more than once.  Their number, at
 * most max.
 */
int
lsm_memindex_arena_sample(uint32 turn, uint32 round, LsmMemIndex **indexes, int max)
{
	uint32		distance = lsm_memindex_arena_rounds(max);
	int			n = 0;

	for (int i = 0; i < max; i++)
	{
		uint32		chunk = (turn + round + i * distance) % arena->nchunks + 1;
		LsmMemIndex *index = ((LsmChunkHead *) lsm_chunk_ptr(chunk))->index;

		if (index != NULL)
			indexes[n++] = index;
	}
	return n;
}

uint32
lsm_memindex_arena_rounds(int max)
{
	return (arena->nchunks + max - 1) / max;
}

/* Share of the arena that is used. */
double
lsm_memindex_arena_fill(void)
{
	return 1 - (double) lsm_memindex_arena_free() / lsm_memindex_arena_chunks();
}

/* owner: for whoever finds the index by a chunk. */
void
lsm_memindex_init(LsmMemIndex *index, void *owner)
{
	memset(index, 0, sizeof(LsmMemIndex));
	index->owner = owner;
	SpinLockInit(&index->mutex);
	pg_atomic_init_u32(&index->entries, 0);
	pg_atomic_init_u32(&index->ordered, 0);
	pg_atomic_init_u32(&index->pending, 0);
	pg_atomic_init_u32(&index->inserts, 0);
	pg_atomic_init_u32(&index->ends, 0);
	pg_atomic_init_u32(&index->unbegun, 0);
	lsm_touch_share_init(&index->touched);
}

/*
 * Give back all memory; the index is then empty with that state.  Nobody else
 * may be inside: the generation lock is held exclusively.
 */
void
lsm_memindex_reset(LsmMemIndex *index, uint32 state, uint32 generation)
{
	if (index->first_chunk != 0)
	{
		SpinLockAcquire(&arena->mutex);
		((LsmChunkHead *) lsm_chunk_ptr(index->last_chunk))->next = arena->free_chunk;
		arena->free_chunk = index->first_chunk;
		arena->nfree += index->nchunks;
		SpinLockRelease(&arena->mutex);
	}
	index->first_chunk = index->last_chunk = 0;
	index->used = index->nchunks = 0;
	index->head = index->filter = index->buckets = index->extra = 0;
	index->npieces = index->ntables = 0;
	index->taken = 0;
	pg_atomic_write_u32(&index->entries, 0);
	pg_atomic_write_u32(&index->ordered, 0);
	pg_atomic_write_u32(&index->pending, 0);
	pg_atomic_write_u32(&index->inserts, 0);
	pg_atomic_write_u32(&index->ends, 0);
	pg_atomic_write_u32(&index->unbegun, 0);
	lsm_touch_share_clear(&index->touched);
	index->counts_inserts = state == LSM_INDEX_READY;	/* else made from
														 * version pages */
	index->state = state;
	index->generation = generation;
}

/* Take a chunk from the arena; 0: none left. */
static uint32
lsm_memindex_take_chunk(LsmMemIndex *index)
{
	uint32		chunk;

	SpinLockAcquire(&arena->mutex);
	chunk = arena->free_chunk;
	if (chunk != 0)
	{
		arena->free_chunk = ((LsmChunkHead *) lsm_chunk_ptr(chunk))->next;
		arena->nfree--;
	}
	SpinLockRelease(&arena->mutex);
	if (chunk != 0)
	{
		((LsmChunkHead *) lsm_chunk_ptr(chunk))->next = 0;
		((LsmChunkHead *) lsm_chunk_ptr(chunk))->index = index;
		index->nchunks++;
	}
	return chunk;
}

/* The address of what lies so many bytes behind the begin of a chunk. */
static inline uint32
lsm_chunk_address(uint32 chunk, uint32 bytes)
{
	return (uint32) (((Size) (chunk - 1) * LSM_CHUNK_BYTES + bytes) / 8);
}

/* Take bytes (a multiple of 8) from the index's chunks; mutex held. 0: none left. */
static uint32
lsm_memindex_alloc(LsmMemIndex *index, uint32 bytes)
{
	uint32		address;

	if (index->last_chunk == 0 || index->used + bytes > LSM_CHUNK_BYTES)
	{
		uint32		chunk = lsm_memindex_take_chunk(index);

		if (chunk == 0)
			return 0;
		if (index->last_chunk != 0)
			((LsmChunkHead *) lsm_chunk_ptr(index->last_chunk))->next = chunk;
		else
			index->first_chunk = chunk;
		index->last_chunk = chunk;
		index->used = sizeof(LsmChunkHead);
	}
	address = lsm_chunk_address(index->last_chunk, index->used);
	index->used += bytes;
	return address;
}

static inline Size
lsm_node_bytes(int height)
{
	return MAXALIGN(offsetof(LsmNode, next) + height * sizeof(pg_atomic_uint32));
}

static uint32
lsm_node_create(LsmMemIndex *index, LsmTid root, int height)
{
	uint32		address = lsm_memindex_alloc(index, lsm_node_bytes(height));

	if (address != 0)
	{
		LsmNode    *node = lsm_node_ptr(address);

		node->root = root;
		node->height = height;
		node->in_bucket = 0;
		pg_atomic_init_u64(&node->newest, LSM_INVALID_TID);
		for (int i = 0; i < height; i++)
			pg_atomic_init_u32(&node->next[i], 0);
	}
	return address;
}

static inline uint32
lsm_root_hash(LsmTid root)
{
	return murmurhash32(LSM_TID_LB(root) ^ LSM_TID_OFFSET(root) * 0x9E3779B1);
}

/* The filter's word and bit for a root. */
static inline pg_atomic_uint32 *
lsm_filter_word(LsmMemIndex *index, uint32 hash, uint32 *bit)
{
	hash %= LSM_FILTER_BITS;
	*bit = (uint32) 1 << (hash % 32);
	return (pg_atomic_uint32 *) (arena_chunks + (Size) index->filter * 8) + hash / 32;
}

/* ---- hash tables ---- */

static inline uint32
lsm_hash_table_pieces(int table)
{
	return 1 << (2 * table);
}

/* Where its pieces begin in the directory. */
static inline uint32
lsm_hash_table_first(int table)
{
	return (lsm_hash_table_pieces(table) - 1) / 3;
}

/*
 * The bucket of a hash in a table; the filter uses its low bits, and the bucket the highest.  NULL:
 * what is there is not a directory any more, as the index has been reset under the caller.
 */
static inline pg_atomic_uint64 *
lsm_hash_bucket(LsmMemIndex *index, int table, uint32 hash)
{
	const uint32 *directory = (const uint32 *) (arena_chunks + (Size) index->buckets * 8);
	uint32		number = (hash >> 8) % (lsm_hash_table_pieces(table) * LSM_PIECE_BUCKETS);
	Size		piece = (Size) 8 *
	directory[lsm_hash_table_first(table) + number / LSM_PIECE_BUCKETS];

	if (unlikely(piece + LSM_PIECE_BYTES > (Size) arena->nchunks * LSM_CHUNK_BYTES))
		return NULL;
	return (pg_atomic_uint64 *) (arena_chunks + piece) + number % LSM_PIECE_BUCKETS;
}

/*
 * If the newest hash table is full, make another piece of the next one, which is used
 * when it has all of them; mutex held.  Without memory the chains become longer.
 */
static void
lsm_hash_grow(LsmMemIndex *index)
{
	uint32	   *directory = (uint32 *) (arena_chunks + (Size) index->buckets * 8);
	uint32		piece;
	pg_atomic_uint64 *buckets;

	if (index->ntables == LSM_HASH_TABLES ||
		(index->ntables > 0 && lsm_hash_table_pieces(index->ntables) / 4 > arena->nchunks / LSM_HASH_SHARE) ||
		(index->ntables > 0 && pg_atomic_read_u32(&index->entries) / LSM_HASH_LOAD <
		 lsm_hash_table_pieces(index->ntables - 1) * LSM_PIECE_BUCKETS))
		return;
	piece = lsm_memindex_alloc(index, LSM_PIECE_BYTES);
	if (piece == 0)
		return;
	buckets = (pg_atomic_uint64 *) (arena_chunks + (Size) piece * 8);
	for (int i = 0; i < LSM_PIECE_BUCKETS; i++)
		pg_atomic_init_u64(&buckets[i], 0);
	directory[index->npieces++] = piece;
	if (index->npieces == lsm_hash_table_first(index->ntables + 1))
	{
		pg_write_barrier();
		index->ntables++;
	}
}

/* Put a node that is complete into the newest table. */
static void
lsm_hash_link(LsmMemIndex *index, uint32 address, uint32 hash)
{
	LsmNode    *node = lsm_node_ptr(address);
	uint32		ntables = index->ntables;
	pg_atomic_uint64 *bucket;
	uint64		was;
	uint64		now;

	pg_read_barrier();
	bucket = lsm_hash_bucket(index, ntables - 1, hash);
	was = pg_atomic_read_u64(bucket);
	do
	{
		node->in_bucket = lsm_bucket_first(was);
		now = (was & ~(uint64) PG_UINT32_MAX) | lsm_bucket_bit(hash) | address;
	} while (!pg_atomic_compare_exchange_u64(bucket, &was, now));
}

/* ---- the list ---- */

/*
 * The last node before root on each level (the head node if there is none).  Nearly all of the
 * time goes by waiting for nodes, so the one to be compared a level below is asked for ahead.
 */
static void
lsm_memindex_search(LsmMemIndex *index, LsmTid root, uint32 *before)
{
	uint32		at = index->head;
	uint32		beyond = 0;		/* known not to be before root */

	for (int level = LSM_MAX_HEIGHT - 1; level >= 0; level--)
	{
		for (;;)
		{
			LsmNode    *node = lsm_node_ptr(at);
			uint32		next = pg_atomic_read_u32(&node->next[level]);

			if (level > 0)
				__builtin_prefetch(lsm_node_ptr(pg_atomic_read_u32(&node->next[level - 1])));
			if (next == 0 || next == beyond)
				break;
			if (lsm_node_ptr(next)->root >= root)
			{
				beyond = next;
				break;
			}
			at = next;
		}
		before[level] = at;
	}
}

static inline uint32
lsm_node_next(uint32 address)
{
	return pg_atomic_read_u32(&lsm_node_ptr(address)->next[0]);
}

/* Two sorted chains of nodes, linked as on the lowest level, become one. */
static uint32
lsm_memindex_merge(uint32 a, uint32 b)
{
	uint32		first = 0;
	pg_atomic_uint32 *link = NULL;

	while (a != 0 && b != 0)
	{
		uint32	   *least = lsm_node_ptr(a)->root < lsm_node_ptr(b)->root ? &a : &b;

		if (link == NULL)
			first = *least;
		else
			pg_atomic_write_u32(link, *least);
		link = &lsm_node_ptr(*least)->next[0];
		*least = pg_atomic_read_u32(link);
	}
	if (link == NULL)
		return Max(a, b);
	pg_atomic_write_u32(link, Max(a, b));
	return first;
}

/* Take a slice off what has been taken of an index, and sort it by root. */
static uint32
lsm_memindex_sort(LsmMemIndex *index)
{
	uint32		runs[LSM_ORDER_RUNS] = {0};
	uint32		sorted = 0;

	for (int n = 0; n < LSM_ORDER_SLICE && index->taken != 0; n++)
	{
		uint32		run = index->taken;
		int			i;

		index->taken = lsm_node_next(run);
		pg_atomic_write_u32(&lsm_node_ptr(run)->next[0], 0);
		for (i = 0; runs[i] != 0; i++)
		{
			run = lsm_memindex_merge(runs[i], run);
			runs[i] = 0;
		}
		runs[i] = run;
	}
	for (int i = 0; i < LSM_ORDER_RUNS; i++)
		sorted = lsm_memindex_merge(runs[i], sorted);
	return sorted;
}

/*
 * Bring a sorted chain into the list, the order lock held.  Readers may be on their way
 * through it, so each node is complete on a level when it gets there, the lowest first.  The
 * number of nodes.
 */
static uint32
lsm_memindex_link(LsmMemIndex *index, uint32 at)
{
	uint32		before[LSM_MAX_HEIGHT];
	uint32		n = 0;

	for (int level = 0; level < LSM_MAX_HEIGHT; level++)
		before[level] = index->head;
	for (; at != 0; n++)
	{
		LsmNode    *node = lsm_node_ptr(at);
		uint32		following = lsm_node_next(at);
		uint32		left = index->head;

		for (int level = LSM_MAX_HEIGHT - 1; level >= 0; level--)
		{
			uint32		next;

			/* what was before the last node, or what is on the way from above */
			if (lsm_node_ptr(left)->root < lsm_node_ptr(before[level])->root)
				left = before[level];
			while ((next = pg_atomic_read_u32(&lsm_node_ptr(left)->next[level])) != 0 &&
				   lsm_node_ptr(next)->root < node->root)
				left = next;
			before[level] = left;
		}
		for (int level = 0; level < node->height; level++)
		{
			pg_atomic_uint32 *link = &lsm_node_ptr(before[level])->next[level];

			pg_atomic_write_u32(&node->next[level], pg_atomic_read_u32(link));
			pg_write_barrier();
			pg_atomic_write_u32(link, at);
			before[level] = at;
		}
		at = following;
	}
	return n;
}

static inline bool
lsm_memindex_is_ordered(LsmMemIndex *index)
{
	uint32		ordered = pg_atomic_read_u32(&index->ordered);

	pg_read_barrier();
	return ordered == pg_atomic_read_u32(&index->entries);
}

static inline LWLock *
lsm_memindex_order_lock(LsmMemIndex *index)
{
	return &arena->order_locks[((Size) index / sizeof(LsmMemIndex)) % LSM_ORDER_LOCKS];
}

/* Bring a slice of nodes into the list, the order lock held. */
static void
lsm_memindex_order_slice(LsmMemIndex *index)
{
	uint32		n = lsm_memindex_link(index, lsm_memindex_sort(index));

	pg_write_barrier();
	pg_atomic_fetch_add_u32(&index->ordered, n);
}

/*
 * Bring all nodes into the list whose publication has ended.  Where another is at it, wait: what
 * was published before it took the rest is in the list when it has ended.
 */
static void
lsm_memindex_order(LsmMemIndex *index)
{
	LWLock	   *lock = lsm_memindex_order_lock(index);
	bool		done;

	if (lsm_memindex_is_ordered(index))
		return;
	if (pg_atomic_read_u32(&index->pending) == 0)
	{
		LWLockAcquire(lock, LW_SHARED);
		done = index->taken == 0;
		LWLockRelease(lock);
		if (done)
			return;
	}
	LWLockAcquire(lock, LW_EXCLUSIVE);
	while (index->taken != 0)
		lsm_memindex_order_slice(index);
	index->taken = pg_atomic_exchange_u32(&index->pending, 0);
	while (index->taken != 0)
		lsm_memindex_order_slice(index);
	LWLockRelease(lock);
}

/*
 * Bring some nodes into the list, as who asks for a range would all of them; true: there may be
 * more.  For those who want to let go of the generation lock in between.
 */
bool
lsm_memindex_order_some(LsmMemIndex *index)
{
	LWLock	   *lock = lsm_memindex_order_lock(index);
	bool		more;

	if (lsm_memindex_is_ordered(index))
		return false;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (index->taken == 0)
		index->taken = pg_atomic_exchange_u32(&index->pending, 0);
	lsm_memindex_order_slice(index);
	more = index->taken != 0;
	LWLockRelease(lock);
	return more;
}

/*
 * The node of a root, 0 if there is none; nodes that are looked at are taken off *nodes.  False: what
 * is there is not an index any more, as it has been reset under the caller, or there were more nodes.
 */
static inline bool
lsm_memindex_look(LsmMemIndex *index, LsmTid root, uint32 *nodes, uint32 *found)
{
	uint32		hash = lsm_root_hash(root);
	uint32		ntables;

	*found = 0;
	if (index->head == 0)
		return true;
	pg_read_barrier();
	ntables = index->ntables;

	/* the buckets of a single table tell as much as the filter: one line of the cache, not two */
	if (ntables > 1)
	{
		uint32		bit;
		pg_atomic_uint32 *word = lsm_filter_word(index, hash, &bit);

		if ((pg_atomic_read_u32(word) & bit) == 0)
			return true;
	}
	pg_read_barrier();
	for (int table = (int) ntables - 1; table >= 0; table--)
	{
		pg_atomic_uint64 *place = lsm_hash_bucket(index, table, hash);
		uint64		bucket;

		if (unlikely(place == NULL))
			return false;
		bucket = pg_atomic_read_u64(place);
		if ((bucket & lsm_bucket_bit(hash)) == 0)
			continue;
		for (uint32 at = lsm_bucket_first(bucket); at != 0; at = lsm_node_ptr(at)->in_bucket)
		{
			if (unlikely((Size) at * 8 + sizeof(LsmNode) > (Size) arena->nchunks * LSM_CHUNK_BYTES ||
						 *nodes == 0))
				return false;
			(*nodes)--;
			if (lsm_node_ptr(at)->root == root)
			{
				*found = at;
				return true;
			}
		}
	}
	return true;
}

/* The same, with the generation lock held. */
static uint32
lsm_memindex_node(LsmMemIndex *index, LsmTid root)
{
	uint32		nodes = PG_UINT32_MAX;
	uint32		found;
	bool		looked PG_USED_FOR_ASSERTS_ONLY = lsm_memindex_look(index, root, &nodes, &found);

	Assert(looked);
	return found;
}

static inline LsmTid
lsm_node_newest(uint32 node)
{
	return node == 0 ? LSM_INVALID_TID : pg_atomic_read_u64(&lsm_node_ptr(node)->newest);
}

/* Newest record of root in this generation, LSM_INVALID_TID if there is none. */
LsmTid
lsm_memindex_find(LsmMemIndex *index, LsmTid root)
{
	return lsm_node_newest(lsm_memindex_node(index, root));
}

/*
 * The same without a lock: what it gives is right only if the index has not been reset meanwhile
 * (lsm_table_unchanged()).  *searched: there were nodes to be looked at.  False: take the lock.
 */
bool
lsm_memindex_peek(LsmMemIndex *index, LsmTid root, LsmTid *newest, bool *searched)
{
	uint32		nodes = LSM_PEEK_NODES;
	uint32		found;

	if (!lsm_memindex_look(index, root, &nodes, &found))
		return false;
	*newest = lsm_node_newest(found);
	*searched |= nodes < LSM_PEEK_NODES;
	return true;
}

/* Have the processor fetch what a search for root looks at first; no lock, as it is a hint. */
void
lsm_memindex_prefetch(LsmMemIndex *index, LsmTid root)
{
	uint32		hash = lsm_root_hash(root);
	uint32		bit;

	if (index->head == 0)
		return;
	if (index->ntables > 1)
		lsm_prefetch(lsm_filter_word(index, hash, &bit));
	else
		lsm_prefetch(lsm_hash_bucket(index, 0, hash));
}

void *
lsm_memindex_extra(LsmMemIndex *index, Size bytes, void (*init) (void *extra, void *arg), void *arg)
{
	uint32		address = index->extra;

	Assert(bytes <= LSM_EXTRA_BYTES);
	if (address == 0)
	{
		if (arena->nfree <= arena->nchunks / 2 || index->first_chunk == 0)
			return NULL;
		SpinLockAcquire(&index->mutex);
		address = index->extra;
		if (address == 0)
		{
			uint32		chunk = lsm_memindex_take_chunk(index);

			/* a chunk of its own, before the others: the last one goes on being filled */
			if (chunk != 0)
			{
				((LsmChunkHead *) lsm_chunk_ptr(chunk))->next = index->first_chunk;
				index->first_chunk = chunk;
				address = lsm_chunk_address(chunk, MAXALIGN(sizeof(LsmChunkHead)));
				init(arena_chunks + (Size) address * 8, arg);
				pg_write_barrier();
				index->extra = address;
			}
		}
		SpinLockRelease(&index->mutex);
		if (address == 0)
			return NULL;
	}
	pg_read_barrier();
	return arena_chunks + (Size) address * 8;
}

/* Make the first node, filter and hash table, if there is memory; mutex held. */
static void
lsm_memindex_start(LsmMemIndex *index)
{
	uint32		filter = lsm_memindex_alloc(index, LSM_FILTER_BYTES);
	uint32		directory = filter == 0 ? 0 :
	lsm_memindex_alloc(index, MAXALIGN(LSM_HASH_PIECES * sizeof(uint32)));
	uint32		head = directory == 0 ? 0 :
	lsm_node_create(index, LSM_INVALID_TID, LSM_MAX_HEIGHT);
	pg_atomic_uint32 *words = (pg_atomic_uint32 *) (arena_chunks + (Size) filter * 8);

	if (head == 0)
		return;
	for (int i = 0; i < LSM_FILTER_BITS / 32; i++)
		pg_atomic_init_u32(&words[i], 0);
	index->filter = filter;
	index->buckets = directory;
	lsm_hash_grow(index);
	if (index->ntables == 0)
		return;
	pg_write_barrier();
	index->head = head;
}

/*
 * Make sure that publishing root cannot fail: returns the address of its node,
 * which is not yet linked if it is new, or 0 if the arena has no room.
 * LSM_INVALID_TID reserves a node for a root that will be new.
 */
uint32
lsm_memindex_reserve(LsmMemIndex *index, LsmTid root)
{
	uint32		node = 0;

	if (root != LSM_INVALID_TID)
		node = lsm_memindex_node(index, root);
	if (node != 0)
		return node;

	SpinLockAcquire(&index->mutex);
	if (index->head == 0)
		lsm_memindex_start(index);
	if (index->head != 0)
	{
		int			height = 1;
		uint64		dice = pg_prng_uint64(&pg_global_prng_state);

		lsm_hash_grow(index);
		/* one node in four goes up a level */
		while (height < LSM_MAX_HEIGHT && (dice & 3) == 0)
		{
			height++;
			dice >>= 2;
		}
		node = lsm_node_create(index, root, height);
	}
	SpinLockRelease(&index->mutex);
	return node;
}

/*
 * Make vtid the newest record of root.  node comes from lsm_memindex_reserve()
 * for the same root, with no publication of that root in between: the caller has
 * held the row's stripe lock all the time.  Never fails.
 */
void
lsm_memindex_publish(LsmMemIndex *index, uint32 address, LsmTid root, LsmTid vtid)
{
	LsmNode    *node = lsm_node_ptr(address);
	uint32		hash = lsm_root_hash(root);
	pg_atomic_uint32 *word;
	uint32		bit;
	uint32		first;
	bool		linked = pg_atomic_read_u64(&node->newest) != LSM_INVALID_TID;

	if (node->root == LSM_INVALID_TID)
		node->root = root;		/* reserved before the root was known */
	Assert(node->root == root);
	pg_atomic_write_u64(&node->newest, vtid);
	if (linked)
		return;

	word = lsm_filter_word(index, hash, &bit);
	pg_atomic_fetch_or_u32(word, bit);
	lsm_hash_link(index, address, hash);

	/* first counted: who finds as many in the list as there are does not look here */
	pg_atomic_fetch_add_u32(&index->entries, 1);
	first = pg_atomic_read_u32(&index->pending);
	do
		pg_atomic_write_u32(&node->next[0], first);
	while (!pg_atomic_compare_exchange_u32(&index->pending, &first, address));
}

/*
 * Rows with lo <= root <= hi in order, at most max of them, with their newest
 * records (heads may be NULL).  Returns how many.
 */
int
lsm_memindex_collect(LsmMemIndex *index, LsmTid lo, LsmTid hi,
					 LsmTid *roots, LsmTid *heads, int max)
{
	uint32		before[LSM_MAX_HEIGHT];
	uint32		at;
	int			n = 0;

	if (index->head == 0)
		return 0;
	lsm_memindex_order(index);
	lsm_memindex_search(index, lo, before);
	at = pg_atomic_read_u32(&lsm_node_ptr(before[0])->next[0]);
	while (at != 0 && n < max)
	{
		LsmNode    *node = lsm_node_ptr(at);

		if (node->root > hi)
			break;
		if (node->root >= lo)
		{
			roots[n] = node->root;
			if (heads != NULL)
				heads[n] = pg_atomic_read_u64(&node->newest);
			n++;
		}
		at = pg_atomic_read_u32(&node->next[0]);
	}
	return n;
}

/*
 * A sample of the roots in order, max at most; each stands for so many.  A level of the
 * list is one, of a quarter of the level below, and the lowest that fits is taken.
 */
int
lsm_memindex_sample(LsmMemIndex *index, LsmTid *roots, int max, uint64 *each)
{
	int			level = 0;
	int			n;

	*each = 1;
	if (index->head == 0)
		return 0;
	lsm_memindex_order(index);
	while (level < LSM_MAX_HEIGHT - 1 &&
		   pg_atomic_read_u32(&index->entries) / *each > (uint64) max / 2)
	{
		level++;
		*each *= 4;
	}
	for (;; level++, *each *= 4)
	{
		uint32		at = pg_atomic_read_u32(&lsm_node_ptr(index->head)->next[level]);

		for (n = 0; at != 0 && n < max; n++)
		{
			roots[n] = lsm_node_ptr(at)->root;
			at = pg_atomic_read_u32(&lsm_node_ptr(at)->next[level]);
		}
		/* there are more than was expected: what lies behind would be missing */
		if (at == 0 || level == LSM_MAX_HEIGHT - 1)
			return n;
	}
}

/* Has any row with lo <= root <= hi a record here? */
bool
lsm_memindex_any(LsmMemIndex *index, LsmTid lo, LsmTid hi)
{
	LsmTid		root;

	return lsm_memindex_collect(index, lo, hi, &root, NULL, 1) > 0;
}
