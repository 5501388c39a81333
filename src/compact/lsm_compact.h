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

#include "lsm_mvcc.h"

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
} LsmJobStats;

/*
 * Each takes the lock of its kind on the table (a heavyweight lock, released at
 * the end), so must be called with no LWLock held; the caller has at least
 * AccessShareLock.  Errors leave everything as it was.
 */
extern void lsm_flush(Relation rel, LsmJobStats *stats);
extern void lsm_minor(Relation rel, LsmJobStats *stats);
extern void lsm_major(Relation rel, LsmJobStats *stats);
extern void lsm_resolve_segments(Relation rel);
extern void lsm_compact_xact_end(void);

/* ---- locks of jobs (lsm_job.c) ---- */

extern void lsm_job_lock(Relation rel, uint16 owner);
extern void lsm_job_unlock(Relation rel, uint16 owner);

/* ---- merging the records of one row (lsm_merge.c) ---- */

/* A record that goes into a merge; its columns are loaded when needed. */
typedef struct LsmMergeRecord
{
	LsmRowHead	head;
	LsmRecord  *record;			/* row log */
	LsmCachedBlock *cached;		/* segment */
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
	LsmPageSink *sink;
	LsmSegmentWriter *writer;	/* NULL: none is open */
	MemoryContext row_context;	/* of the merge */
	LsmTid		last_root;
	LsmTid		first_vtid;		/* of UPDATE records in the open segment */
	LsmTid		last_vtid;
	uint64	   *unresolved;		/* sorted */
	int			nunresolved;
	int			maxunresolved;
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
extern void lsm_output_init(LsmOutput *output, Relation rel, LsmTable *table, uint16 owner,
							LsmSegmentKind kind, uint32 gen_lo, uint32 gen_hi,
							uint32 expected_pages);
extern void lsm_output_add(LsmOutput *output, const LsmRowHead *head, const Datum *values,
						   const bool *isnull);
extern void lsm_merge_break(LsmMerge *merge);
extern void lsm_merge_finish(LsmMerge *merge);
extern void lsm_merge_publish(LsmMerge *merge, LsmEdit *edit, LsmJobStats *stats);

#endif							/* LSM_COMPACT_H */
