/*-------------------------------------------------------------------------
 *
 * lsm_table.h
 *	  What the processes share about a table, and what a backend keeps of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TABLE_H
#define LSM_TABLE_H

#include "lsm.h"

#include "lsm_memindex.h"
#include "lsm_page.h"
#include "lsm_stat.h"
#include "nodes/lockoptions.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"

/* ---- shared by all processes ---- */

#define LSM_OPEN_PAGES			8
#define LSM_SPECULATIVE_BUCKETS	64

/* Ranges that a batch of pages for rows that move may consist of (lsm_near.c). */
#define LSM_NEAR_PIECES			16

/* A row-log page that has room; lb tells its TIDs. */
typedef struct LsmOpenPage
{
	BlockNumber block;			/* InvalidBlockNumber: none */
	BlockNumber lb;
} LsmOpenPage;

/* Pages of the current range that nobody has begun to fill. */
typedef struct LsmRangeRest
{
	BlockNumber block;
	BlockNumber lb;
	uint32		npages;
} LsmRangeRest;

/* Major compactions of one table that may run at once. */
#define LSM_MAJOR_SLOTS			4
#define LSM_CLAIMS				(1 + LSM_MAJOR_SLOTS)

/* What a running compaction is going to write again. */
typedef struct LsmClaim
{
	bool		used;
	bool		moves;			/* segments to a store: it takes no room in the file */
	uint32		gen_lo;			/* generations out of the reach of the other kind */
	uint32		gen_hi;
	LsmTid		first;			/* roots of all its segments */
	LsmTid		last;
} LsmClaim;

#define LSM_PINS_EVICTED		PG_UINT32_MAX	/* no table's entry, or about to be none */

/* A table's file: its locator and, for temporary tables, the backend. */
typedef struct LsmTableKey
{
	RelFileLocator locator;
	int32		backend;		/* -1: of everybody */
} LsmTableKey;

/* Jobs that need a store: when workers may try again, and failures so far. */
typedef struct LsmColdRest
{
	pg_atomic_uint64 until;
	pg_atomic_uint32 failures;
} LsmColdRest;

typedef struct LsmTableShared
{
	LsmTableKey key;			/* hash key */
	pg_atomic_uint32 pins;		/* transactions that use it, and their processes do not say so
								 * (lsm_process.h), or LSM_PINS_EVICTED */
	Oid			relid;			/* of who has opened it last; a hint that needs no
								 * lock */
	LWLock		edit_lock;		/* one editor of metapage and manifest */

	/* guarded by the lock of flushes (lsm_job_lock()) */
	uint32		flush_failed_s; /* the last time, in seconds, that a flush failed
								 * of which nobody else could have made more; 0:
								 * never */
	int			flush_error;	/* with that SQLSTATE */

	/* dead lists with lower segment ids are VACUUM's, which has noted them; 0: none runs */
	pg_atomic_uint64 vacuum_lists;

	LsmColdRest cold_moves;		/* moving segments to a store, and back */
	LsmColdRest cold_majors;	/* writing segments again that lie in one */

	LsmClaim	claims[LSM_CLAIMS]; /* of the minor and the majors that run; guarded by
									 * edit_lock */

	/*
	 * Odd while somebody who holds gen_lock exclusively changes what follows, or drops
	 * or rebuilds an index: for readers without the lock, see lsm_table_changes().
	 */
	pg_atomic_uint64 changes;

	/* changed only under gen_lock, exclusive */
	pg_atomic_uint64 epoch;		/* new whenever this entry starts afresh */
	pg_atomic_uint64 counter;	/* counter of the metapage */
	pg_atomic_uint64 moved;		/* as it was after the last edit that moved records */
	bool		known;			/* the fields behind the next two are those of the
								 * metapage */
	uint16		depth;			/* increments over each other, when a job was last
								 * chosen; a hint that needs no lock */
	uint32		generation;
	uint64		incarnation;	/* 0: file has no metapage */
	uint32		flushing;
	BlockNumber vm_lbs;			/* LBs from here on have no bit in the visibility map */
	LsmMemIndex index[2];		/* of a generation: [generation % 2] */

	/* changed by each writer */
	LWLock		gen_lock;		/* see lsm_table.c */

	/* guarded by mutex */
	slock_t		mutex;
	LsmOpenPage open[2][LSM_OPEN_PAGES];	/* root pages, version pages */
	LsmRangeRest rest[2];
	LsmExtent	value_rest;		/* pages for large values that nobody has yet */
	uint32		gen_pages;		/* pages begun in the active generation */

	/* undecided speculative insertions by LB (lsm_rowlog.c); 0 after restart */
	pg_atomic_uint32 speculative[LSM_SPECULATIVE_BUCKETS];
} LsmTableShared;

/*
 * Lines of the processor's caches: what each look-up reads is on none that others write to (but
 * for that of an index while it is flushed, which may be behind the counters of the other one).
 */
StaticAssertDecl(offsetof(LsmTableShared, changes) - offsetof(LsmTableShared, claims) >= 64 &&
				 offsetof(LsmTableShared, gen_lock) - offsetof(LsmTableShared, vm_lbs) >= 64,
				 "what each transaction or writer changes is apart from what is only read");

StaticAssertDecl(LSM_MAX_RANGES <= PG_UINT8_MAX, "views number ranges in a byte");

/* ---- a backend's copy of metapage and manifest at one counter value ---- */

/* Roots from one to another. */
typedef struct LsmRootSpan
{
	LsmTid		first;
	LsmTid		last;
} LsmRootSpan;

/*
 * What a planner asks of all segments of a sort: a table of 10 TB has a hundred thousand, which
 * are not to be looked at for each statement.
 */
typedef struct LsmSegmentSums
{
	uint64		rows;
	uint64		versions;
	uint64		blocks;
	uint64		stored;			/* bytes, */
	uint64		read;			/* those that a scan reads: without large values, as in heap, */
	uint64		decoded;		/* and what these are when decoded; none of segments with
								 * large values */
	uint64		lbs;			/* from their first row to their last */
} LsmSegmentSums;

typedef struct LsmView
{
	MemoryContext context;
	Size		memory;
	uint64		epoch;
	uint64		counter;
	LsmMeta		meta;			/* incarnation 0: empty file */
	bool		ranges_sorted;	/* the next three are good */
	uint32		nsorted;
	uint8		sorted[LSM_MAX_RANGES]; /* ranges in use, by LB */
	uint8		found_range[2]; /* last, for root LBs and for version LBs */
	int			nentries;
	LsmManifestEntry *entries;	/* all of them, by leaf */
	LsmSegmentSums all_base;	/* of base segments, */
	LsmSegmentSums cold_base;	/* and those of them in a store */
	LsmSegmentSums all_increments;
	double		ended;			/* rows that increments end; below zero: nobody has asked */
	int			nbase;			/* insert and baseline segments by first_tid */
	LsmManifestEntry **base;
	int			nincrements;	/* newest first */
	LsmManifestEntry **increments;
	int			ncovered;		/* what they reach over, in order */
	LsmRootSpan *covered;
	int			nlayers;		/* of increments that do not meet each other, */
	int		   *layer_ends;
	int		   *layered;		/* and these, layer by layer, by first_tid */
	LsmRootSpan met_span;		/* roots around those that were asked for last, any of which */
	int			nmet;			/* meet these, newest first; first > last: there are none */
	int		   *met;
	int			nsegments;
	LsmManifestEntry **segments;	/* all of them by uid; NULL: nobody has asked */
	int			nvalued;		/* segments with large values by uid, retired ones
								 * too */
	LsmManifestEntry **valued;
	int			nnumbered;		/* of them, cold ones, by their numbers */
	LsmManifestEntry **numbered;
	BlockNumber nleaves;
	BlockNumber *leaves;
	int		   *leaf_entries;	/* number of entries in each */
} LsmView;

typedef struct LsmTable
{
	LsmTableKey key;			/* hash key */
	Oid			relid;
	uint64		pinned;			/* lsm_xact_number when it was pinned */
	LsmTableShared *shared;
	uint64		verified;		/* epoch of the entry found right, or 0 */
	uint32		asked_flush;	/* generation for which a worker was asked */
	int			bounds_left;	/* changes until the memtable's bounds are looked at, */
	uint32		bounds_pages;	/* while it has so many pages */
	int			open_slot[2];	/* open page, of each kind, that this session uses */
	LsmView    *view;
	dlist_node	viewed;			/* if it has one */
	uint64		ended_by;		/* lsm_xact_number of who has ended rows, */
	uint32		ended_in;		/* of which there are so many in this generation, */
	bool		ended_known;	/* and this state of its index (LsmMemIndex.counts_inserts), */
	uint32		ended;			/* that do not count yet */
	uint64		deleted_by;		/* lsm_xact_number of who has deleted rows: */
	uint64		ndeleted;		/* more than he has inserted after that, */
	LsmTid		deleted;		/* and the one; LSM_INVALID_TID: there were more */
	bool		near_due;		/* it is to make a batch of pages (lsm_near.c) */
	Oid			primary_index;	/* whose column is known: */
	AttrNumber	primary_column; /* the only one, or 0, */
	Oid			primary_type;	/* and its type */
	struct LsmLoad *load;		/* rows that this transaction has inserted */
	uint64		frozen_by;		/* lsm_xact_number of who has inserted rows without xid */
	LsmStatLocal stat;
} LsmTable;

/* gen_lock is held shared around each use of what a generation is made of. */
#define lsm_table_index(shared, gen) (&(shared)->index[(gen) % 2])

/*
 * Reading without gen_lock: what was read between these two is of one moment if the first
 * says yes, with the count of changes, and the second then too.  Else take the lock.
 */
static inline bool
lsm_table_changes(LsmTableShared *shared, uint64 *changes)
{
	*changes = pg_atomic_read_u64(&shared->changes);
	pg_read_barrier();
	return *changes % 2 == 0;
}

static inline bool
lsm_table_unchanged(LsmTableShared *shared, uint64 changes)
{
	pg_read_barrier();
	return pg_atomic_read_u64(&shared->changes) == changes;
}

/* Addresses in the arena are 32 bits, in units of 8 bytes. */
#define LSM_MAX_MEMTABLE_KB		(32 * 1024 * 1024 - 1024)

extern int	lsm_memtable_size;	/* kB */
extern uint64 lsm_xact_number;

extern void lsm_shmem_request(void);
extern void lsm_shmem_startup(void);
extern bool lsm_shmem_ready(void);
extern uint32 lsm_table_lifetime(void);

extern LsmTable *lsm_table_open(Relation rel);
extern void lsm_table_change(LsmTableShared *shared);
extern void lsm_table_changed(LsmTableShared *shared);
extern void lsm_table_forget(RelFileLocator locator, int32 backend);

/*
 * A database is made.  One that had the same OID, and has been dropped, may have left entries, and
 * a copy of the same template would agree with them.  Nobody is connected to it.
 */
extern void lsm_table_forget_database(Oid dbid);
extern LsmTableShared *lsm_table_redo_begin(RelFileLocator locator);
extern void lsm_table_redo_done(LsmTableShared *shared);
extern LsmTableShared *lsm_table_lookup(RelFileLocator locator, int32 backend);
extern void lsm_table_release(LsmTableShared *shared);
extern void lsm_table_reset_shared(LsmTableShared *shared);
extern void lsm_table_adopt_meta(LsmTableShared *shared, const LsmMeta *meta, bool moved);
extern bool lsm_table_make_room(LsmTableShared *keep);
extern void lsm_table_ask_for_memory(void);
extern bool lsm_table_in_use(Relation rel);
extern void lsm_table_unpin(LsmTable *table);
extern void lsm_table_give_counts(void);
extern void lsm_table_xact_end(void);

/*
 * For estimates: this transaction has deleted a row; gen_lock is held.  That counts from its commit
 * on (lsm_table_before_commit()), as for all others the row is there until then, and stays if it is
 * rolled back.
 */
extern void lsm_table_note_end(LsmTable *table);
extern void lsm_table_before_commit(void);
extern void lsm_table_subxact_abort(void);

extern LWLock *lsm_stripe_lock(LsmTable *table, LsmTid root);

#endif							/* LSM_TABLE_H */
