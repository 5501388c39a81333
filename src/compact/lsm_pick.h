/*-------------------------------------------------------------------------
 *
 * lsm_pick.h
 *	  What to do next with a table: flush, merge, or nothing.
 *
 * lsm_pick() and its parts are pure: facts in, a decision out, nothing read from
 * anywhere else.  lsm_pick_gather() fills in the facts of a table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PICK_H
#define LSM_PICK_H

#include "lsm.h"

#include "lsm_stat.h"

/* ---- facts ---- */

typedef struct LsmPickSegment
{
	LsmTid		first_tid;
	LsmTid		last_tid;
	uint64		bytes;			/* stored */
	uint64		versions;
	uint64		ends;			/* of them, what ends rows: DELETE, MOVED */
	uint32		gen_lo;			/* increments only */
	uint32		gen_hi;
	uint64		max_xid;		/* greatest xid in it, 0: none */
	uint64		stuck_xid;		/* least unresolved xid whose outcome can only
								 * be noted by writing the segment anew; 0:
								 * none */
	double		lap;			/* increments: how much of its lap the ring has gone
								 * since it had their oldest version LBs; 1: it
								 * comes to them next */
	bool		aborted;		/* base: has rows of rolled-back transactions,
								 * and all others are settled */
	bool		cold;			/* base: its blocks lie in a store */
	bool		apart;			/* base: it cannot become one with a small one
								 * before it */
} LsmPickSegment;

/* A key range that a major compaction is working on, or a move. */
typedef struct LsmPickRange
{
	LsmTid		first_root;
	LsmTid		last_root;
	bool		moves;			/* to a store: it takes no room in the file */
} LsmPickRange;

typedef struct LsmPickFacts
{
	/* bounds */
	bool		compact;		/* false: flush and move only, as the owner wishes */
	int			spent;			/* kinds, as bits, that have just come to nothing */
	int			minor_trigger;	/* lsm.minor_compact_trigger */
	uint64		job_bytes;		/* a compaction reads at most so many */
	uint64		segment_setting;	/* lsm.segment_size, or lsm.cold_segment_size */
	uint64		segment_bytes;	/* what base segments grow to: lsm_pick_segment_bytes() */
	uint64		segment_rows;	/* that end a segment */
	uint64		increment_least;	/* smaller increments are not made on purpose
									 * (bytes): lsm_increment_least() */
	uint64		freeze_age;		/* xids that are older are overdue */
	double		medium;			/* cost of writing where the bottom is; a
								 * local disk's is 1 */

	/* transactions */
	uint64		next_xid;
	uint64		visible_xid;	/* what precedes it, everybody sees, */
	uint64		settled_xid;	/* and nobody names by its version */

	/* memtable */
	double		memtable_fill;	/* share of what a generation may have */
	uint64		memtable_pages; /* 0: it is empty */
	uint64		memtable_xid;	/* no record in it is older */
	uint64		memtable_waste; /* records examined there for nothing, or as many
								 * as look-ups have paid for it */
	bool		generation_waits;	/* a switched generation has not been
									 * flushed */
	double		arena_fill;		/* share of the memory for all tables' indexes
								 * that is used, */
	double		arena_share;	/* and by this table */

	/* segments */
	BlockNumber next_root_lb;
	int			nbase;			/* by first_tid */
	LsmPickSegment *base;
	int			nincrements;	/* newest first */
	LsmPickSegment *increments;
	bool		cold_rests;		/* stores have failed: what lies in them is
								 * left as it is for now */
	int			nmisplaced;		/* segments that are to be moved to a store, or
								 * back, and may be now */
	int			nresolvable;	/* segments that get outcomes, or become
								 * baseline, by a change of the manifest */
	int			nretired;		/* pages and objects with large values that nobody
								 * can read any more */

	double		manifest_fill;	/* places in the manifest that are used; from 1 on
								 * nothing is flushed */

	/* reading of segments, by key range as in lsm_stat.h */
	int			shift;
	uint64		waste[LSM_STAT_BUCKETS];	/* records examined for nothing */

	/* space */
	bool		at_rest;		/* nobody has changed the table for long */
	uint64		file_bytes;
	uint64		free_bytes;		/* in the file */
	uint64		given_bytes;	/* that running majors, and moves back, have been given
								 * for what they write */
	bool		trim;			/* of a table at rest: some of it can be given
								 * back, and is worth it */

	/* what runs */
	bool		flush_runs;
	bool		minor_runs;
	uint32		minor_lo;		/* generations that a minor has claimed, 0:
								 * none */
	uint32		major_hi;		/* and majors, from the oldest on */
	int			nmajors;
	LsmPickRange *majors;
} LsmPickFacts;

/*
 * What base segments of a table grow to (bytes): as the setting says, until there would be more
 * than LSM_PICK_SEGMENTS of them; most is where that ends.  Each backend knows all segments of
 * a table, each edit looks through them, and a manifest has room for 71,190.
 */
#define LSM_PICK_SEGMENTS		8192

static inline uint64
lsm_pick_segment_bytes(uint64 setting, uint64 most, uint64 base_bytes)
{
	return Max(setting, Min(most, base_bytes / LSM_PICK_SEGMENTS));
}

/*
 * Base segments of fewer bytes are small.  What a flush writes need not be: one of the row log's
 * 32 MB has 6 MB when it is compressed four to five times.  But of these a table of a
 * terabyte would have 170,000.  So a table of many segments has its neighbours merged while they
 * are a quarter of one: what is inserted there is written twice.  What was a segment when the
 * table was smaller stays as it is, unless the table is crowded.
 */
#define LSM_PICK_MANY			1024
#define LSM_PICK_CROWDED		16384
#define LSM_PICK_SMALL_SHARE	16
#define LSM_PICK_MANY_SHARE		4

static inline uint64
lsm_pick_small(uint64 setting, uint64 segment_bytes, int nbase)
{
	if (nbase <= LSM_PICK_MANY)
		return segment_bytes / LSM_PICK_SMALL_SHARE;
	if (nbase <= LSM_PICK_CROWDED)
		return Min(segment_bytes / LSM_PICK_MANY_SHARE, setting / 2);
	return segment_bytes / LSM_PICK_MANY_SHARE;
}

/*
 * A segment is ended at so many rows (an increment: records), however few bytes they have.
 * Opening it reads 1.5 bytes for each of an increment's rows, and who writes it, or moves it to
 * a store, keeps 8 to 24.  Neighbours are small only if some of them make one segment.
 */
#define LSM_PICK_SEGMENT_ROWS	(32 * 1024 * 1024)

static inline bool
lsm_pick_is_small(uint64 bytes, uint64 rows, uint64 small, uint64 segment_rows)
{
	return bytes < small && rows < segment_rows / LSM_PICK_SMALL_SHARE;
}

/*
 * The row log of a table at rest is flushed for the space that it takes, some times that of
 * its rows in segments, if it has so many pages and is that share of the file.
 */
#define LSM_PICK_REST_PAGES		64
#define LSM_PICK_REST_SHARE		16

static inline bool
lsm_pick_memtable_is_much(uint64 pages, uint64 file_bytes)
{
	return pages >= LSM_PICK_REST_PAGES && pages * BLCKSZ >= file_bytes / LSM_PICK_REST_SHARE;
}

/*
 * What the file may grow by for the output of majors (bytes), where not so much of it is free.  One
 * segment has to be had; a table of a few of them is written anew in as many parts, each of
 * which lies where the one before was.
 */
#define LSM_PICK_GROWTH_SHARE	8

static inline uint64
lsm_pick_growth(uint64 file_bytes, uint64 segment_bytes)
{
	return Max(file_bytes / LSM_PICK_GROWTH_SHARE, segment_bytes);
}

/* What a job may read, about (bytes): at least four segments of the table, however large they are. */
static inline uint64
lsm_pick_job_bytes(uint64 setting, uint64 segment_bytes)
{
	return Max(16 * setting, 4 * segment_bytes);
}

/* ---- decision ---- */

typedef enum LsmPickReason
{
	LSM_PICK_NOTHING,
	LSM_PICK_WAITS,				/* a generation waits for its flush */
	LSM_PICK_FULL,				/* the memtable is nearly full */
	LSM_PICK_MEMORY,			/* memory for all memtables is short */
	LSM_PICK_REST,				/* the memtable of a table at rest */
	LSM_PICK_FREEZE,			/* old xids */
	LSM_PICK_READS,				/* reading costs more than the job */
	LSM_PICK_RUNS,				/* too many increments over each other */
	LSM_PICK_PLACES,			/* too many entries in the manifest */
	LSM_PICK_DEAD,				/* dead versions */
	LSM_PICK_RING,				/* the ring comes round to its version LBs */
	LSM_PICK_ABORTED,			/* rows of rolled-back transactions */
	LSM_PICK_SMALL,				/* small neighbours */
	LSM_PICK_OUTCOMES,			/* the manifest can learn something */
	LSM_PICK_PLACE,				/* segments are not where they should be */
	LSM_PICK_RETIRED,			/* large values that nobody can read */
	LSM_PICK_SPACE				/* free pages of a table at rest */
} LsmPickReason;

/*
 * A job.  Minor: increments whose newest generation is from gen_lo to gen_hi.  Major: all
 * increments from the oldest to gen_hi, and the base segments (gen_hi is 0 if there
 * are no increments to take).  A major works on rows with roots from first_root to
 * last_root, and leaves other records of these increments as they are; a minor takes
 * those with some of these roots whole, and newer ones that overlap them.
 */
typedef struct LsmPickDecision
{
	LsmJobKind	kind;			/* LSM_JOB_NONE: nothing is worth it */
	LsmPickReason reason;
	double		score;			/* 1: just worth it */
	uint32		gen_lo;
	uint32		gen_hi;
	LsmTid		first_root;
	LsmTid		last_root;
	uint64		bytes;			/* that it will read from segments between these
								 * roots, about */
	bool		cold;			/* it needs segments that lie in a store */
} LsmPickDecision;

/* How many increments lie over each other at most, those that a major has included. */
extern int	lsm_pick_depth(const LsmPickFacts *facts);

extern void lsm_pick_flush(const LsmPickFacts *facts, LsmPickDecision *decision);
extern void lsm_pick_minor(const LsmPickFacts *facts, LsmPickDecision *decision);
extern void lsm_pick_major(const LsmPickFacts *facts, LsmPickDecision *decision);
extern void lsm_pick(const LsmPickFacts *facts, LsmPickDecision *decision);
extern const char *lsm_pick_reason(LsmPickReason reason);

/* ---- of a table (lsm_gather.c) ---- */

extern int	lsm_minor_compact_trigger;

extern void lsm_pick_gather(Relation rel, LsmPickFacts *facts);

/*
 * What should be done with the table now?  False: nothing.  Needs AccessShareLock
 * on it, and takes LWLocks only; memory is the caller's context's.
 */
extern bool lsm_pick_job(Relation rel, int spent, LsmPickDecision *decision);

/* May something be worth it in a while, though nobody writes to the table? */
extern bool lsm_pick_later(Relation rel);

#endif							/* LSM_PICK_H */
