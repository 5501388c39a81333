/*-------------------------------------------------------------------------
 *
 * lsm_memindex.h
 *	  The ordered in-memory index of the rows that one generation changed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MEMINDEX_H
#define LSM_MEMINDEX_H

#include "lsm.h"
#include "lsm_touch.h"

#include "port/atomics.h"
#include "storage/spin.h"

/* States; ABSENT is always legal, the index is derived data. */
#define LSM_INDEX_ABSENT		0
#define LSM_INDEX_READY			1

/* Memory is given out in pieces of this, less a head. */
#define LSM_CHUNK_BYTES			32768
#define LSM_EXTRA_BYTES			(LSM_CHUNK_BYTES - 64)

/* Memory for indexes is short when less than that part of it is free. */
#define LSM_ARENA_SHORT			10

/*
 * A table's part of the memory for indexes from which on it is flushed where that is short; where
 * it is used up, by tables of which none has as much, any part will do: who needs memory then has
 * the index of another one dropped, which is made anew from pages when it is used next.
 */
#define LSM_ARENA_PART			256
#define LSM_ARENA_USED_UP		0.97

static inline bool
lsm_memindex_is_much(double fill, double share)
{
	return (fill >= LSM_ARENA_USED_UP && share > 0) || share >= 1.0 / LSM_ARENA_PART;
}

/*
 * The index of one generation of one table.  Memory and hash tables are guarded by mutex, what
 * is not in the list yet by the order lock (lsm_memindex.c), links and buckets by nothing; state
 * and generation change only under the table's generation lock, exclusive.
 */
typedef struct LsmMemIndex
{
	uint8		state;
	bool		counts_inserts; /* has been there since the generation began */
	uint8		ntables;		/* hash tables that are complete */
	uint16		npieces;		/* that their directory has */
	void	   *owner;			/* fixed */
	uint32		generation;
	uint32		first_chunk;	/* chunks are linked through their heads */
	uint32		head;			/* address of the head node; 0: empty */
	uint32		filter;			/* address of the filter */
	uint32		buckets;		/* address of the directory of hash tables */
	uint32		extra;			/* address of lsm_memindex_extra(), 0: none */

	/* by all its records; it also keeps what look-ups read apart from what writers change */
	LsmSharedTouch touched;

	slock_t		mutex;
	uint16		used;			/* bytes used in the last chunk */
	uint32		last_chunk;
	uint32		nchunks;
	pg_atomic_uint32 entries;	/* that are published, */
	pg_atomic_uint32 ordered;	/* and of them in the list; changed by who orders them */
	pg_atomic_uint32 pending;	/* address of the newest that nobody orders, 0: none */
	uint32		taken;			/* and of what is being ordered; guarded by the order lock */
	/* for estimates: INSERTs of the generation, and records that end a row */
	pg_atomic_uint32 inserts;
	pg_atomic_uint32 ends;
	pg_atomic_uint32 unbegun;	/* pages for rows that move (lsm_near.c) that nobody has
								 * begun */
} LsmMemIndex;

extern Size lsm_memindex_arena_size(int memtable_size_kb);
extern void lsm_memindex_arena_init(void *arena, Size size, int tranche, bool fresh);
extern uint32 lsm_memindex_arena_chunks(void);
extern uint32 lsm_memindex_arena_free(void);
extern double lsm_memindex_arena_fill(void);
extern uint32 lsm_memindex_arena_turn(void);
extern uint32 lsm_memindex_arena_rounds(int max);
extern int	lsm_memindex_arena_sample(uint32 turn, uint32 round, LsmMemIndex **indexes, int max);

extern void lsm_memindex_init(LsmMemIndex *index, void *owner);
extern void lsm_memindex_reset(LsmMemIndex *index, uint32 state, uint32 generation);
extern LsmTid lsm_memindex_find(LsmMemIndex *index, LsmTid root);
extern bool lsm_memindex_peek(LsmMemIndex *index, LsmTid root, LsmTid *newest, bool *searched);
extern void lsm_memindex_prefetch(LsmMemIndex *index, LsmTid root);
extern uint32 lsm_memindex_reserve(LsmMemIndex *index, LsmTid root);
extern void lsm_memindex_publish(LsmMemIndex *index, uint32 address, LsmTid root, LsmTid vtid);

/* Of a record that was found, whatever has become of its transaction: does it end a row? */
static inline void
lsm_memindex_count(LsmMemIndex *index, int kind)
{
	if (kind == LSM_REC_DELETE || kind == LSM_REC_MOVED)
		pg_atomic_fetch_add_u32(&index->ends, 1);
}

/*
 * Memory of that many bytes (LSM_EXTRA_BYTES at most) that goes with the index.  It is made when it
 * is first asked for, if half of the arena is free: init is called then, with the index's mutex
 * held, and may raise no error.  NULL: there is none.
 */
extern void *lsm_memindex_extra(LsmMemIndex *index, Size bytes,
								void (*init) (void *extra, void *arg), void *arg);
extern bool lsm_memindex_order_some(LsmMemIndex *index);
extern bool lsm_memindex_any(LsmMemIndex *index, LsmTid lo, LsmTid hi);
extern int	lsm_memindex_collect(LsmMemIndex *index, LsmTid lo, LsmTid hi,
								 LsmTid *roots, LsmTid *heads, int max);
extern int	lsm_memindex_sample(LsmMemIndex *index, LsmTid *roots, int max, uint64 *each);

#endif							/* LSM_MEMINDEX_H */
