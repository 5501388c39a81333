/*-------------------------------------------------------------------------
 *
 * lsm_stat.h
 *	  Run-time counters of tables, and the progress of jobs.
 *
 * Reading and writing count in the backend's LsmTable, which costs an increment;
 * the counts go to shared memory at the end of a transaction.  Flushes and
 * compactions report when they are done.  Nothing here is needed for anything
 * to be right: it may be late, thrown out or lost at a restart.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STAT_H
#define LSM_STAT_H

#include "lsm.h"

#include "datatype/timestamp.h"
#include "lib/ilist.h"

/* ---- counters of a table ---- */

typedef enum LsmStatCounter
{
	/* rows that reading gave, by where the version was */
	LSM_STAT_ROWS_MEMTABLE,
	LSM_STAT_ROWS_SEGMENTS,
	/* records that were looked at for that */
	LSM_STAT_RECORDS_MEMTABLE,
	LSM_STAT_RECORDS_SEGMENTS,
	/* blocks of segments; an index block is all that opening a segment reads */
	LSM_STAT_DATA_READ,
	LSM_STAT_DATA_HIT,
	LSM_STAT_INDEX_READ,
	LSM_STAT_INDEX_HIT,
	/* three for each kind of job, in the order of LsmJobKind */
	LSM_STAT_FLUSHES,
	LSM_STAT_FLUSH_BYTES_READ,
	LSM_STAT_FLUSH_BYTES_WRITTEN,
	LSM_STAT_MINORS,
	LSM_STAT_MINOR_BYTES_READ,
	LSM_STAT_MINOR_BYTES_WRITTEN,
	LSM_STAT_MAJORS,
	LSM_STAT_MAJOR_BYTES_READ,
	LSM_STAT_MAJOR_BYTES_WRITTEN,
	/* writers that waited for room in the memtable */
	LSM_STAT_STALLS,
	LSM_STAT_STALL_US,
	LSM_STAT_ERRORS,			/* of jobs in the background */
	/* ranges of objects that were asked for, to read blocks of cold segments */
	LSM_STAT_STORE_REQUESTS,
	LSM_STAT_STORE_BYTES_READ,
	/* appends to the memtable, and what look-ups of rows have paid for it (lsm_stat_looked()) */
	LSM_STAT_APPENDS,
	LSM_STAT_LOOKS_MEMTABLE,
	/* segments, or pieces of them, that were moved as they are: to a store, back, within the file */
	LSM_STAT_MOVES,
	LSM_STAT_MOVED_BYTES,
	LSM_STAT_COUNTERS			/* how many there are */
} LsmStatCounter;

/*
 * Reading of segments is also counted by key range: bucket b has the root LBs
 * from b << shift on.  The shift goes up as the table grows.  These counts begin
 * anew when a major compaction has gone over their range.
 */
#define LSM_STAT_BUCKETS		32

typedef struct LsmStatBucket
{
	uint64		records;
	uint64		rows;
} LsmStatBucket;

/* What a backend has counted and not yet given to shared memory. */
typedef struct LsmStatLocal
{
	Oid			relid;
	bool		pending;		/* in the list of those to be given */
	dlist_node	node;
	uint64		counts[LSM_STAT_COUNTERS];
	int			shift;
	LsmStatBucket buckets[LSM_STAT_BUCKETS];

	uint32		probes;			/* of increments, that make no record yet */

	/*
	 * as in a copy, when counts were given last; whoever acts on them sets
	 * them to 0
	 */
	uint64		memtable_waste;
	uint64		memtable_quiet;
	TimestampTz asked_at;		/* when a flush was asked for because of it, */
	uint32		asked_generation;	/* of that, */
	int64		ask_again_us;	/* not to be asked for again before so long */
} LsmStatLocal;

extern void lsm_stat_widen(LsmStatLocal *stat, LsmTid root);

static inline LsmStatBucket *
lsm_stat_bucket(LsmStatLocal *stat, LsmTid root)
{
	if (unlikely(LSM_TID_LB(root) >> stat->shift >= LSM_STAT_BUCKETS))
		lsm_stat_widen(stat, root);
	return &stat->buckets[LSM_TID_LB(root) >> stat->shift];
}

/* A record of that row has been examined. */
static inline void
lsm_stat_record(LsmStatLocal *stat, LsmTid root, bool memtable)
{
	if (memtable)
		stat->counts[LSM_STAT_RECORDS_MEMTABLE]++;
	else
	{
		stat->counts[LSM_STAT_RECORDS_SEGMENTS]++;
		lsm_stat_bucket(stat, root)->records++;
	}
}

/*
 * So many increments were asked for a row, and said that they do not have it.  What that costs,
 * a wait for memory, is counted as a record for every few of them.
 */
#define LSM_STAT_PROBES			4

static inline void
lsm_stat_probes(LsmStatLocal *stat, LsmTid root, uint32 n)
{
	stat->probes += n;
	if (stat->probes >= LSM_STAT_PROBES)
	{
		lsm_stat_bucket(stat, root)->records += stat->probes / LSM_STAT_PROBES;
		stat->probes %= LSM_STAT_PROBES;
	}
}

/*
 * A row was looked up by its root, and found in the memtable, which costs more than to find it in a
 * segment; or it was not there, but that took a search.  In quarters of what a record costs.
 */
#define LSM_STAT_LOOK_QUARTERS	4

static inline void
lsm_stat_looked(LsmStatLocal *stat)
{
	stat->counts[LSM_STAT_LOOKS_MEMTABLE]++;
}

/* The row has been given to the executor. */
static inline void
lsm_stat_row(LsmStatLocal *stat, LsmTid root, bool memtable)
{
	if (memtable)
		stat->counts[LSM_STAT_ROWS_MEMTABLE]++;
	else
	{
		stat->counts[LSM_STAT_ROWS_SEGMENTS]++;
		lsm_stat_bucket(stat, root)->rows++;
	}
}

/* So many records of segments at about that root, of which so many are rows. */
static inline void
lsm_stat_block(LsmStatLocal *stat, LsmTid root, uint32 records, uint32 rows)
{
	LsmStatBucket *bucket = lsm_stat_bucket(stat, root);

	stat->counts[LSM_STAT_RECORDS_SEGMENTS] += records;
	stat->counts[LSM_STAT_ROWS_SEGMENTS] += rows;
	bucket->records += records;
	bucket->rows += rows;
}

static inline void
lsm_stat_count(LsmStatLocal *stat, LsmStatCounter counter)
{
	stat->counts[counter]++;
}

#define LSM_STAT_TICKS			4096

extern uint32 lsm_stat_ticks;
extern void lsm_stat_tick_second(LsmStatLocal *stat);

/* Called by what long transactions are made of. */
static inline void
lsm_stat_tick(LsmStatLocal *stat)
{
	if (unlikely(++lsm_stat_ticks >= LSM_STAT_TICKS))
		lsm_stat_tick_second(stat);
}

#define LSM_STAT_MESSAGE_BYTES	256

/* A table's counters, as they were at one moment. */
typedef struct LsmStatCopy
{
	uint64		counts[LSM_STAT_COUNTERS];
	uint64		longest_stall_us;
	int			shift;
	LsmStatBucket buckets[LSM_STAT_BUCKETS];

	/*
	 * records examined in the memtable, less rows found there, since its last
	 * flush; and what look-ups have paid for it since the table is quiet
	 */
	uint64		memtable_waste;
	uint64		memtable_quiet;
	TimestampTz reset_time;		/* 0: since the server's start */
	TimestampTz error_time;		/* 0: no error */
	int			error_code;		/* as ERRCODE_xxx */
	char		error_message[LSM_STAT_MESSAGE_BYTES];
} LsmStatCopy;

/* Records that a job costs besides those that it merges. */
#define LSM_STAT_JOB_RECORDS	10000.0

/* Records on a page of the row log, taken for an estimate. */
#define LSM_STAT_PAGE_RECORDS	80.0

/*
 * How many records may reads examine in vain until it is worth flushing a memtable
 * of so many pages?  What the flush works through, about.
 */
static inline double
lsm_stat_waste_bound(uint32 pages)
{
	return LSM_STAT_JOB_RECORDS + pages * LSM_STAT_PAGE_RECORDS;
}

/* A table is quiet when nobody has changed it for so long (ms). */
extern int	lsm_debug_quiet_time;

extern Size lsm_stat_shmem_size(void);
extern void lsm_stat_shmem_request(void);
extern void lsm_stat_shmem_startup(void);

extern void lsm_stat_begin(LsmStatLocal *stat, Oid relid);
extern void lsm_stat_pend(LsmStatLocal *stat);
extern void lsm_stat_xact_end(void);
extern void lsm_stat_flush(void);
extern bool lsm_stat_read(Oid relid, LsmStatCopy *copy);
extern void lsm_stat_reset(void);

/* ---- what jobs report ---- */

/* The same numbers as LSM_OWNER_xxx. */
typedef enum LsmJobKind
{
	LSM_JOB_NONE = 0,
	LSM_JOB_FLUSH = 1,
	LSM_JOB_MINOR = 2,
	LSM_JOB_MAJOR = 3,
	LSM_JOB_RESOLVE = 4,		/* lsm_resolve_segments(): outcomes and flags */
	LSM_JOB_MOVE = 5,			/* a segment to a store, or back */
	LSM_JOB_TRIM = 6			/* free pages to the file system */
} LsmJobKind;

/*
 * These write to shared memory at once, and may be called in or out of a
 * transaction, with no LWLock held.  They raise no errors.  The table is one of
 * the current database.
 */
extern void lsm_stat_report_job(Oid relid, LsmJobKind kind, uint64 bytes_read,
								uint64 bytes_written, LsmTid first_root, LsmTid last_root);
extern void lsm_stat_report_move(Oid relid, uint64 bytes_written);
extern void lsm_stat_report_error(Oid relid, int code, const char *message);
extern void lsm_stat_report_stall(Oid relid, uint64 stall_us);

/* For what workers do to tables at rest (lsm_trim.c), by steps. */
typedef enum LsmTrimStep
{
	LSM_TRIM_NOTHING,
	LSM_TRIM_PUNCH,
	LSM_TRIM_RELOCATE,
	LSM_TRIM_TRUNCATE,
	LSM_TRIM_LOCK				/* for TRUNCATE: it was refused */
} LsmTrimStep;

#define LSM_TRIM_STEPS			(LSM_TRIM_LOCK + 1)

extern TimestampTz lsm_stat_changed_at(Oid relid);
extern void lsm_stat_trim_was_in_vain(Oid relid, LsmTrimStep step, uint64 state);
extern uint32 lsm_stat_trimmed_in_vain(Oid relid, uint64 state);

/* ---- progress of running jobs (lsm_progress.c) ---- */

typedef enum LsmJobPhase
{
	LSM_PHASE_WAITING,			/* for another job of its kind */
	LSM_PHASE_PREPARING,
	LSM_PHASE_MERGING,
	LSM_PHASE_MOVING,			/* segments to a store, or back, or nearer to
								 * the beginning of the file */
	LSM_PHASE_SWAPPING,			/* the new segments become the table's */
	LSM_PHASE_GIVING_BACK		/* free pages go to the file system */
} LsmJobPhase;

typedef enum LsmProgressParam
{
	LSM_PROGRESS_SEGMENTS_TOTAL,
	LSM_PROGRESS_SEGMENTS_DONE,
	LSM_PROGRESS_RECORDS_TOTAL,
	LSM_PROGRESS_RECORDS_DONE,
	LSM_PROGRESS_BYTES_TOTAL,
	LSM_PROGRESS_BYTES_DONE,
	LSM_PROGRESS_PARAMS			/* how many there are */
} LsmProgressParam;

/* A running job. */
typedef struct LsmJobProgress
{
	int			pid;
	Oid			userid;			/* the session's; of workers and autovacuum,
								 * the table's owner */
	Oid			dboid;
	Oid			relid;
	LsmJobKind	kind;
	LsmJobPhase phase;
	LsmTid		first_root;		/* rows that it works on */
	LsmTid		last_root;
	TimestampTz start;
	uint64		params[LSM_PROGRESS_PARAMS];
} LsmJobProgress;

extern Size lsm_progress_shmem_size(void);
extern void lsm_progress_shmem_startup(void);

/* By the process that runs the job; it has one at a time. */
extern void lsm_progress_begin(Oid relid, LsmJobKind kind, LsmTid first_root, LsmTid last_root);
extern void lsm_progress_phase(LsmJobPhase phase);
extern void lsm_progress_set(LsmProgressParam param, uint64 value);
extern void lsm_progress_add(LsmProgressParam param, uint64 more);
extern void lsm_progress_end(void);
extern void lsm_progress_subxact_abort(SubTransactionId subid);

/* All jobs that run now, of all databases; palloc'd. */
extern int	lsm_progress_list(LsmJobProgress **jobs);

#endif							/* LSM_STAT_H */
