/*-------------------------------------------------------------------------
 *
 * lsm_compact.h
 *	  Flush, minor and major compaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPACT_H
#define LSM_COMPACT_H

#include "lsm.h"

#include "lib/binaryheap.h"
#include "lsm_ahead.h"
#include "lsm_mvcc.h"
#include "lsm_pace.h"
#include "miscadmin.h"

extern int	lsm_segment_size;	/* kB */

/* What a job did; the row that the SQL functions return. */
typedef struct LsmJobStats
{
	int64		segments_in;
	int64		segments_out;
	int64		rows_in;
	int64		rows_out;
	int64		bytes_read;
	int64		bytes_written;
	int64		bytes_given_back;	/* to the file system */
} LsmJobStats;

/* Which increments a minor merges, and how it cuts the result. */
typedef struct LsmMinorScope
{
	uint32		gen_lo;			/* those whose newest generation is one of these */
	uint32		gen_hi;
	LsmTid		first;			/* and with some of these roots */
	LsmTid		last;
	int			nborders;		/* and to be cut behind these roots */
	const LsmTid *borders;
	uint64		least;			/* bytes of a piece that is cut for a major */
} LsmMinorScope;

/* What is called between two parts of a major; NULL: nothing. */
typedef void (*LsmMajorBetween) (void *arg);

/*
 * Each takes the lock of its kind on the table (a heavyweight lock, released at
 * the end), so must be called with no LWLock held; the caller has at least
 * AccessShareLock.  Errors leave everything as it was.
 */
extern void lsm_flush(Relation rel, LsmJobStats *stats);
extern void lsm_flush_one(Relation rel, LsmJobStats *stats);
/* Is a flush still needed? */
typedef bool (*LsmFlushNeeded) (Relation rel, LsmTable *table, void *arg);

extern void lsm_flush_for_writer(Relation rel, LsmFlushNeeded needed, void *arg,
								 LsmJobStats *stats);
extern void lsm_minor(Relation rel, LsmJobStats *stats);
extern void lsm_minor_unasked(Relation rel, const LsmMinorScope *scope, LsmJobStats *stats);
extern void lsm_untangle(Relation rel, LsmJobStats *stats);
extern void lsm_major(Relation rel, LsmMajorBetween between, void *arg, LsmJobStats *stats);
extern void lsm_major_finish(Relation rel, LsmJobStats *stats);
extern void lsm_major_wait(Relation rel);
extern bool lsm_minor_part(Relation rel, const LsmMinorScope *scope, LsmJobStats *stats);
extern bool lsm_major_part(Relation rel, LsmTid first, LsmTid last, uint32 until,
						   LsmJobStats *stats);
extern void lsm_resolve_segments(Relation rel);
extern void lsm_compact_xact_end(void);

/*
 * What base segments of a table grow to (bytes), if so many are in all of them; cold: it has a
 * cold store.
 */
extern uint64 lsm_segment_bytes(uint64 base_bytes, bool cold);

/* Rows (of increments: records) that end a segment, besides its bytes. */
extern int	lsm_debug_segment_rows;

/*
 * What one part of a major compaction may read, about (bytes): so long it runs before its pages are
 * free again, and so much space it needs beside what it replaces.  Those of workers may need less
 * (lsm_pick_room()).
 */
extern uint64 lsm_job_limit(const LsmView *view);

/* Increments are not cut into smaller ones than that (bytes), but for a major that is at hand. */
static inline uint64
lsm_increment_least(void)
{
	return (uint64) lsm_segment_size * 1024 / 16;
}

/* ---- locks of jobs (lsm_job.c) ---- */

extern void lsm_job_lock(Relation rel, uint16 owner);
extern void lsm_job_lock_for_writer(Relation rel, uint16 owner);
extern bool lsm_job_lock_if_free(Relation rel, uint16 owner);
extern void lsm_job_free_pages(Relation rel, uint16 owner);
extern void lsm_job_free_left(Relation rel);
extern bool lsm_job_keep_off(Relation rel, uint16 owner);
extern void lsm_job_unlock(Relation rel, uint16 owner);

/* ---- jobs in the background (lsm_job.c) ---- */

struct LsmPickDecision;

extern const char *lsm_job_name(LsmJobKind kind);
extern bool lsm_job_call(Relation rel, const struct LsmPickDecision *decision,
						 LsmJobStats *stats);
extern void lsm_job_ask(Relation rel);
extern void lsm_job_do_own(Relation rel);
extern void lsm_job_ask_beside(Relation rel);

/*
 * Between watch and unwatch, lsm_job_check() raises an error when somebody waits
 * for the table because of our lock.  It looks when lsm_job_poll_due is set, by a
 * timer.  lsm_job_gave_way(): was it this error?
 */
extern volatile sig_atomic_t lsm_job_poll_due;

extern void lsm_job_watch(Relation rel, LsmJobKind kind);
extern void lsm_job_unwatch(void);
extern bool lsm_job_is_watched(void);
extern bool lsm_job_gave_way(void);
extern bool lsm_job_is_urgent(void);
extern void lsm_job_poll(void);

/* CHECK_FOR_INTERRUPTS() for jobs. */
static inline void
lsm_job_check(void)
{
	CHECK_FOR_INTERRUPTS();
	if (unlikely(lsm_job_poll_due))
		lsm_job_poll();
}

/* Between two rows: to be interrupted, to give way, to keep to VACUUM's or the workers' pace. */
static inline void
lsm_compact_pause(void)
{
	lsm_job_check();
	lsm_compat_vacuum_delay();
	if (unlikely(lsm_bytes_to_pace >= LSM_PACE_BYTES) && lsm_job_is_watched())
		lsm_pace_job();
}

/* ---- merging the records of one row (lsm_merge.c) ---- */

/* A record that goes into a merge; its columns are loaded when needed. */
typedef struct LsmMergeRecord
{
	LsmRowHead	head;
	LsmRecord  *record;			/* row log */
	LsmCachedBlock *cached;		/* segment */
	LsmBlock   *patched;		/* or the block that is being copied */
	int			row;
} LsmMergeRecord;

/* Segments of one kind that a job writes, one after another. */
typedef struct LsmOutput
{
	Relation	rel;
	LsmTable   *table;
	Relation	source;			/* where large values come from */
	LsmTable   *source_table;
	uint16		owner;
	LsmSegmentKind kind;
	uint32		gen_lo;
	uint32		gen_hi;
	uint32		expected_pages;
	uint32		last_pages;		/* of the segment before, 0: there is none */
	uint64		segment_bytes;	/* that end a segment, if enough is to come */
	uint64		coming_bytes;	/* of base segments, for those without a break */
	uint64		other_bytes;	/* of increments, anywhere in these at most */
	uint32		break_lbs;		/* so many LBs without rows end a segment; 0:
								 * none do */
	LsmPageSink *sink;
	LsmSegmentWriter *writer;	/* NULL: none is open */
	LsmBlockPatch *patch;		/* the block that is being copied, or NULL */
	MemoryContext row_context;	/* of the merge */
	LsmTid		last_root;
	LsmRingBounds vtids;		/* of UPDATE records in the open segment */
	uint64		ends;			/* DELETE and MOVED records in it */
	LsmTid		first_dead;		/* of a dead list */
	LsmTid		last_dead;
	bool		keep;			/* blocks go to the block cache, too */
	List	   *entries;		/* finished: LsmManifestEntry * */
	uint64		rows;
	uint64		bytes;
} LsmOutput;

typedef struct LsmMerge
{
	Relation	rel;
	LsmTable   *table;
	TupleDesc	tupdesc;
	LsmHorizons horizons;
	LsmOutput	bottom;			/* insert or baseline segments */
	LsmOutput	increment;
	LsmOutput	dead;			/* dead roots */
	LsmOutput	lists;			/* those of older lists that become one */
	int			nmerged;		/* these lists: uids */
	uint64	   *merged;
	uint64		conflict_xid;	/* newest xid removed or frozen */
	MemoryContext row_context;	/* reset for each row */
	int			nrecords;
	int			maxrecords;
	LsmMergeRecord *records;	/* of the present row, newest first */
	/* columns of a record being written */
	Datum	   *values;
	bool	   *isnull;
	Datum	   *base_values;
	bool	   *base_isnull;
	uint16		large;			/* LSM_REC_LARGE if one of them is large */
	bool	   *dropped;		/* columns whose values are left out */
} LsmMerge;

/* What becomes of the records of one row. */
typedef struct LsmFate
{
	LsmXidState *states;		/* of each record */
	bool	   *keep;			/* it stays, the bottom row apart */
	int			cut;			/* first version that everybody sees, -1: none */
	bool		gone;			/* nothing of the row stays */
	bool		settled;		/* the cut, completed, is the new bottom row */
} LsmFate;

static inline bool
lsm_merge_has_columns(const LsmRowHead *head)
{
	int			kind = LSM_REC_KIND(head->info);

	return kind == LSM_REC_INSERT || kind == LSM_REC_UPDATE;
}

extern LsmMerge *lsm_merge_create(Relation rel, LsmTable *table, uint16 owner,
								  uint32 gen_lo, uint32 gen_hi, uint32 expected_pages);
extern LsmMergeRecord *lsm_merge_add(LsmMerge *merge);
extern void lsm_merge_judge(LsmMerge *merge, bool has_bottom, bool bottom_known, LsmFate *fate);
extern int	lsm_merge_complete(LsmMerge *merge, int i);
extern int	lsm_merge_base(LsmMerge *merge, int delta, bool has_bottom);
extern void lsm_merge_load(LsmMerge *merge, const LsmMergeRecord *record, Datum *values,
						   bool *isnull);
extern void lsm_merge_mark(LsmMerge *merge, LsmRowHead *head, LsmXidState state);
extern void lsm_merge_settled_head(const LsmMerge *merge, const LsmRowHead *version, int natts,
								   LsmRowHead *head);
extern void lsm_merge_row(LsmMerge *merge, LsmTid root, bool has_bottom, bool bottom_known);
extern void lsm_merge_patch(LsmMerge *merge, LsmTid root, int row);
extern void lsm_output_init(LsmOutput *output, Relation rel, LsmTable *table, uint16 owner,
							LsmSegmentKind kind, uint32 gen_lo, uint32 gen_hi,
							uint32 expected_pages);
extern void lsm_output_add(LsmOutput *output, const LsmRowHead *head, const Datum *values,
						   const bool *isnull);
extern bool lsm_output_copy_block(LsmOutput *output, LsmSegmentReader *reader, uint32 blockno);
extern bool lsm_output_begin_patch(LsmOutput *output, LsmSegmentReader *reader, uint32 blockno);
extern void lsm_output_end_patch(LsmOutput *output);
extern void lsm_output_keep(LsmOutput *output, bool keep);
extern void lsm_merge_dead(LsmMerge *merge, LsmTid root);
extern void lsm_merge_break(LsmMerge *merge);
extern void lsm_merge_break_increment(LsmMerge *merge);
extern uint64 lsm_merge_increment_bytes(LsmMerge *merge);
extern void lsm_merge_dead_lists(LsmMerge *merge);
extern void lsm_merge_finish(LsmMerge *merge);
extern void lsm_merge_publish(LsmMerge *merge, LsmEdit *edit, LsmJobStats *stats);

/* ---- claims: what running compactions merge (lsm_compact.c) ---- */

/* The lock of the one writer who makes room in the row log, beside those of jobs (lsm_flush.c). */
#define LSM_OWNER_ROOM			(LSM_OWNER_LAST + 1)

/* Locks of majors: so many may run at once, each over its own roots. */
static inline uint16
lsm_major_owner(int slot)
{
	return slot == 0 ? LSM_OWNER_MAJOR : LSM_OWNER_PUNCH + slot;
}

extern void lsm_claim_set(LsmTableShared *shared, uint16 owner, bool moves, uint32 gen_lo,
						  uint32 gen_hi, LsmTid first, LsmTid last);
extern void lsm_claim_release(uint16 owner);
extern uint32 lsm_claimed_by_majors(LsmTableShared *shared);
extern uint32 lsm_claimed_by_minor(LsmTableShared *shared);
extern bool lsm_claimed_by_major(LsmTableShared *shared, LsmTid first, LsmTid last);
extern bool lsm_claimed_roots(LsmTableShared *shared, uint16 owner, LsmTid first, LsmTid last);

/* ---- merging segments by root (lsm_compact.c) ---- */

/* ---- segments nearer to the beginning of the file (lsm_relocate.c) ---- */

extern bool lsm_relocate_worth(Relation rel, LsmTable *table, bool resting);
extern uint64 lsm_relocate(Relation rel, LsmTable *table, uint64 most);

/* ---- space that a table at rest does not need (lsm_trim.c) ---- */

extern bool lsm_trim_worth(Relation rel, LsmTable *table, bool later);
extern bool lsm_trim(Relation rel, LsmJobStats *stats);

/* A position in a segment. */
typedef struct LsmCursor
{
	Relation	rel;
	LsmTable   *table;
	LsmManifestEntry entry;		/* as of view_counter */
	uint64		view_counter;
	uint32		blockno;
	uint32		nblocks;
	LsmCachedBlock *cached;
	int			row;
	LsmTid		root;			/* of the row; LSM_INVALID_TID at the end */
	LsmSegmentFeed ahead;
} LsmCursor;

/* An increment that is merged. */
typedef struct LsmInput
{
	const LsmManifestEntry *entry;	/* as it was when the job began */
	LsmTid		root;			/* of its next record; LSM_INVALID_TID at the end */
	LsmCursor  *cursor;			/* NULL before its first root and at the end */
} LsmInput;

/*
 * A set of increments, and what becomes of them.  They are merged by a heap of those that
 * have records left, by root and then by age: a row costs a step for each increment that has
 * it, and none for the others.  An increment is opened, and has a block pinned, from its first
 * root to its last one only.
 */
typedef struct LsmCompact
{
	Relation	rel;
	LsmTable   *table;
	LsmMerge   *merge;
	int			ninputs;
	LsmInput   *inputs;			/* newest first: their order in memory is their
								 * age */
	binaryheap *heap;			/* of those that are not at their ends */
	const LsmMeta *meta;		/* major: at the beginning */

	/*
	 * minor: base segments below, and how many bytes of them one increment is
	 * over
	 */
	struct LsmBaseMark *marks;
	int			nmarks;
	int			at_mark;
	uint64		passed;
	uint64		pass;			/* so much ends an increment */
	int			at_border;		/* of the scope */
	int64		rows;
	int64		bytes;
	List	   *replaced;		/* of LsmReplaced */
} LsmCompact;

/* A segment that goes when the job has been done. */
typedef struct LsmReplaced
{
	uint64		uid;
	uint32		nblocks;
} LsmReplaced;

typedef void (*LsmJobRun) (Relation rel, LsmTable *table, uint16 owner, void *arg,
						   LsmJobStats *stats);

extern void lsm_job_run(Relation rel, uint16 owner, LsmJobRun run, void *arg, LsmJobStats *stats);
extern void lsm_job_merge(Relation rel, uint16 owner, LsmJobRun run, void *arg, LsmJobStats *stats);
extern LsmSegmentReader *lsm_cursor_reader(LsmCursor *cursor);
extern void lsm_cursor_open(LsmCursor *cursor, Relation rel, LsmTable *table,
							const LsmManifestEntry *entry);
extern void lsm_cursor_init(LsmCursor *cursor, Relation rel, LsmTable *table,
							const LsmManifestEntry *entry);
extern void lsm_cursor_block(LsmCursor *cursor, uint32 blockno);
extern void lsm_cursor_preload(LsmCursor *cursor, uint32 blockno);
extern void lsm_cursor_close(LsmCursor *cursor);
extern LsmTid lsm_cursor_seek(LsmCursor *cursor, uint32 blockno, LsmTid root);
extern bool lsm_cursor_next_in_block(LsmCursor *cursor);
extern void lsm_cursor_next(LsmCursor *cursor);
extern void lsm_cursor_add(LsmCursor *cursor, LsmMerge *merge);
extern void lsm_compact_replace(LsmCompact *compact, const LsmManifestEntry *entry);
extern void lsm_compact_swap(LsmCompact *compact, uint8 operation, LsmJobStats *stats);
extern void lsm_compact_begin(LsmCompact *compact, Relation rel, LsmTable *table, uint16 owner,
							  const LsmManifestEntry *increments, int n,
							  uint32 expected_pages);
extern void lsm_compact_expect(const LsmManifestEntry *entry);
extern LsmTid lsm_compact_peek(LsmCompact *compact);
extern void lsm_compact_take(LsmCompact *compact, LsmTid root);
extern void lsm_compact_row(LsmCompact *compact, LsmTid root, bool has_bottom, bool bottom_known);
extern void lsm_compact_patch(LsmCompact *compact, LsmBlock *block, int row);
extern bool lsm_compact_in_rowlog(LsmCompact *compact, LsmTid root);
extern LsmManifestEntry *lsm_view_copy_increments(LsmView *view);
extern void lsm_entries_sort_age(LsmManifestEntry *entries, int n);
extern uint64 lsm_view_base_bytes(LsmView *view, LsmTid first, LsmTid last);
extern bool lsm_increments_tangled(LsmView *view, LsmManifestEntry *entries, int n,
								   uint64 least);

#endif							/* LSM_COMPACT_H */
