/*-------------------------------------------------------------------------
 *
 * lsm_am.h
 *	  Functions behind the callbacks of the table access method.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_AM_H
#define LSM_AM_H

#include "lsm.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "lsm_ahead.h"
#include "lsm_mvcc.h"
#include "lsm_wanted.h"

/* ---- lsm_modify.c ---- */
extern void lsm_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							 struct BulkInsertStateData *bistate);
extern void lsm_finish_bulk_insert(Relation rel, int options);
extern void lsm_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
							 int options, struct BulkInsertStateData *bistate);
extern void lsm_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
								   int options, struct BulkInsertStateData *bistate,
								   uint32 token);
extern void lsm_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token,
									 bool succeeded);
extern TM_Result lsm_tuple_delete(Relation rel, ItemPointer tid, CommandId cid,
								  Snapshot snapshot, Snapshot crosscheck, bool wait,
								  TM_FailureData *tmfd, bool changing_part);
extern TM_Result lsm_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
								  CommandId cid, Snapshot snapshot, Snapshot crosscheck,
								  bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
								  LSM_UPDATE_INDEXES_TYPE *update_indexes);
extern TM_Result lsm_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
								TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
								LockWaitPolicy wait_policy, uint8 flags,
								TM_FailureData *tmfd);

/* ---- lsm_scan.c ---- */

/* A row of the unit that a scan is in. */
typedef struct LsmScanRow
{
	LsmTid		root;
	uint16		at;				/* item of the page, or row of the block */
	bool		changed;		/* has other records than the bottom one */
	bool		seen;			/* if not changed: does the snapshot see it?  In ANALYZE:
								 * is it known to be live? */
	int32		change;			/* changed in the memtable: where in changes; else
								 * -1 */
} LsmScanRow;

/* What the scan's snapshot sees of a row that has other records than its bottom. */
typedef enum LsmChangeState
{
	LSM_CHANGE_OPEN,			/* not known yet */
	LSM_CHANGE_PLACES,			/* nor by the memtable: increments are next, then the bottom */
	LSM_CHANGE_FULL,			/* the record copied is the row */
	LSM_CHANGE_DELTA,			/* and the bottom below it */
	LSM_CHANGE_PLACE_FULL,		/* the record at a place is the row */
	LSM_CHANGE_PLACE_DELTA,		/* and the bottom below it */
	LSM_CHANGE_BOTTOM,			/* the bottom, none of its changes */
	LSM_CHANGE_GONE,			/* nothing */
	LSM_CHANGE_FETCH			/* it has to be looked up */
} LsmChangeState;

typedef struct LsmScanChange
{
	LsmTid		root;
	LsmTid		record;			/* next record to look at, or the one copied */
	LsmTid		older;			/* newest record in the generation being flushed,
								 * if the chain begins in the active one */
	uint32		seq;			/* of the record before it, 0: it is the first */
	int			row;			/* in rows */
	LsmChangeState state;
	bool		increments;		/* increments have records of it too */
	int			place;			/* the first, or the one found; -1: not known */
	uint64		xmax;			/* who has changed or locked what is seen */
	uint32		cmax;
	uint64		window;			/* copied: good while that is change_window */
	int			at;				/* of the copy in change_buf; PLACE_xxx: row
								 * of the place's block */
	int			len;
} LsmScanChange;

/* Where an increment has the newest of its records of a row. */
typedef struct LsmScanPlace
{
	LsmTid		root;
	int			increment;		/* of the view */
	uint32		blockno;
	int			row;
	int			next;			/* place in the next older increment; -1: none */
} LsmScanPlace;

typedef struct LsmScanData
{
	TableScanDescData base;		/* must be first */
	LsmTable   *table;
	LsmTid		begin;			/* of the whole scan or the worker's range */
	LsmTid		end;			/* inclusive */
	bool		some;			/* of one LB: rows with these offsets only */
	uint64		offsets[LSM_MAX_OFFSET / 64 + 1];	/* a bit for each */
	LsmTid		next_begin;		/* parallel: range that comes next; 0: none yet */
	LsmTid		next_end;
	uint64		ranges;			/* parallel: taken so far */
	LsmTid		position;		/* forward: first root not yet looked at; backward:
								 * last one */
	LsmTid		current;		/* last root looked at, 0 before and after all */
	bool		started;
	bool		forward;
	bool		any;			/* deliver every root, whoever sees it */
	/* the unit: a row-log page or a segment block */
	bool		have_unit;
	uint64		units;			/* loaded so far */
	LsmTid		unit_lo;		/* roots that it covers */
	LsmTid		unit_hi;
	char	   *page;			/* copy of a row-log page */
	LsmCachedBlock *cached;
	LsmPinHolder cached_holder;
	bool		all_frozen;
	LsmManifestEntry entry;		/* segment of the block */
	int			nrows;
	int			maxrows;
	LsmScanRow *rows;
	int			at;				/* next row to deliver */
	bool		changes_only;	/* rows are but the changed ones of a block */
	/* rows of it that have other records (lsm_scan_changes.c) */
	uint64		marked_epoch;	/* of the view in which they were marked */
	uint64		marked_counter;
	int			nchanges;
	int			maxchanges;
	LsmScanChange *changes;
	int			nplaces;		/* of a block's changed rows, newest increment
								 * first */
	int			maxplaces;
	LsmScanPlace *places;
	LsmCachedBlock *place_cached;	/* pinned: the block looked at last, */
	LsmPinHolder place_holder;
	uint64		place_uid;		/* of that segment */
	uint32		place_blockno;
	char	   *change_buf;		/* copies of records */
	uint64		change_window;	/* number of what is in it */
	bool		whole_columns;	/* of blocks: most rows will be asked for */
	/* blocks that come next, and which of them will not be read */
	LsmAheadFeed feed;
	LsmTid		feed_tid;		/* told up to here */
	LsmTid		asked_tid;		/* last root of the block being pinned */
	struct LsmScanIncrement *increments;	/* the same of increments */
	bool		(*skip) (void *arg, const LsmManifestEntry *entry, uint32 blockno);
	bool		(*pass) (void *arg, const LsmManifestEntry *entry);
	void	   *skip_arg;		/* of both; pass tells of segments as a whole */
	/* bitmap and sample scans: rows of one LB */
	LsmScanRow *picked;
	int			npicked;
	int			picked_at;		/* next one to deliver */
	struct LsmBitmapQueue *queue;	/* bitmap, from 18 on: pages that come next */
	bool		recheck;		/* bitmap: what the bitmap says of them */
	bool		prefetch_off;	/* bitmap: see lsm_executor.c */
	struct LsmAnalyzeQueue *sample_queue;	/* ANALYZE, from 17 on: LBs that come next */
	bool		lbs_told;		/* the feed knows which LBs come next */
	bool		lbs_near;		/* it does not, but they come one after the other */
	BlockNumber near_lb;		/* lsm_scan_near_lb(): the last one */
	int64		near_lbs;		/* LBs from one to the next that are near */
	BlockNumber sample_lb;		/* sample: InvalidBlockNumber before the first */
	BlockNumber sample_lbs;		/* sample: number of LBs to sample from */
	LsmTid		newer_of;		/* comes next, of a row whose older version was
								 * given: dirty snapshots */
	/* TID range scans */
	LsmTid		name_lo;
	LsmTid		name_hi;
	/* the last xid judged */
	uint64		judged_xid;
	uint32		judged_cid;
	bool		judged_visible;
} LsmScanData;
typedef LsmScanData *LsmScan;

extern TableScanDesc lsm_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
									struct ScanKeyData *key, ParallelTableScanDesc pscan,
									uint32 flags);
extern void lsm_scan_end(TableScanDesc scan);
extern void lsm_scan_rescan(TableScanDesc scan, struct ScanKeyData *key, bool set_params,
							bool allow_strat, bool allow_sync, bool allow_pagemode);
extern bool lsm_scan_getnextslot(TableScanDesc scan, ScanDirection direction,
								 TupleTableSlot *slot);
extern void lsm_scan_set_tidrange(TableScanDesc scan, ItemPointer min, ItemPointer max);
extern bool lsm_scan_getnextslot_tidrange(TableScanDesc scan, ScanDirection direction,
										  TupleTableSlot *slot);
extern bool lsm_scan_next_row(LsmScan scan, ScanDirection direction, LsmScanRow *row);
extern bool lsm_scan_next_range(LsmScan scan);
extern void lsm_scan_store(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot);
extern void lsm_scan_store_bottom(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot,
								  uint64 xmax, uint32 cmax);
extern bool lsm_scan_sees(LsmScan scan, const LsmScanRow *row);
extern int	lsm_scan_find_row(LsmScan scan, LsmTid root, int from);
extern bool lsm_scan_deliver(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot);
extern BlockNumber lsm_scan_next_lb(LsmScan scan, BlockNumber lb);
extern void lsm_scan_near_lb(LsmScan scan, BlockNumber lb);
extern void lsm_scan_pick_lb(LsmScan scan, BlockNumber lb, const OffsetNumber *offsets, int n);
extern void lsm_scan_pick_roots(LsmScan scan, BlockNumber lb, const OffsetNumber *offsets,
								int n);
extern void lsm_scan_row_head(LsmScan scan, const LsmScanRow *row, LsmRowHead *head);
extern void lsm_scan_set_range(LsmScan scan, LsmTid begin, LsmTid end);
extern Size lsm_parallelscan_estimate(Relation rel);
extern Size lsm_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan);
extern void lsm_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan);

/* What batches are made of as well; see there. */
extern void lsm_scan_drop_unit(LsmScan scan);
extern void lsm_scan_rest(LsmScan scan);
extern void lsm_scan_reserve_rows(LsmScan scan, int n);
extern LsmTid lsm_scan_next_source(LsmView *view, LsmTid tid, LsmRowRange **range,
								   LsmManifestEntry **entry);
extern void lsm_scan_load_page(LsmScan scan, LsmView *view, LsmRowRange *range, LsmTid tid,
							   bool forward);
extern bool lsm_scan_load_block(LsmScan scan, LsmManifestEntry *entry, LsmTid tid, bool forward);
extern bool lsm_scan_mark_changed(LsmScan scan, LsmView *view);
extern void lsm_scan_hint_page(LsmScan scan);
extern bool lsm_scan_sees(LsmScan scan, const LsmScanRow *row);
extern void lsm_scan_judge(LsmScan scan);

/* ---- lsm_batch.c ---- */

/* A row that has to be looked up by its root. */
typedef struct LsmBatchRow
{
	LsmTid		root;
	int			row;			/* of the block; -1: it was not read */
} LsmBatchRow;

/*
 * A scan, forward, that is handed out by units: see lsm_batch.c.  The unit is a
 * block (block is set), or rows in scan->rows, or a block that was skipped, of which
 * only changed rows are left.
 */
typedef struct LsmBatchScan
{
	LsmScan		scan;			/* the owner's */

	/* has that block no row that is wanted, but for changed ones?  May be NULL */
	bool		(*skip) (void *arg, LsmSegmentReader *reader, const LsmManifestEntry *entry,
						 uint32 blockno);

	/* the same of a segment as a whole; it need not be open.  May be NULL */
	bool		(*pass) (void *arg, const LsmManifestEntry *entry);

	/*
	 * A block of that segment comes next: true if something had to be evaluated first, which
	 * may have got a new view.  None of the others does that.  May be NULL
	 */
	bool		(*prepare) (void *arg, const LsmManifestEntry *entry);
	void	   *arg;

	/*
	 * Of blocks whose rows all see: is all that is wanted known without reading it, if
	 * no row from *lo to *hi, which are the block's, has other records?  It may ask for more
	 * rows than these.  Then that is taken.  May be NULL.
	 */
	bool		(*known) (void *arg, LsmSegmentReader *reader, uint32 blockno, LsmTid *lo,
						  LsmTid *hi);
	void		(*take) (void *arg, LsmSegmentReader *reader, uint32 blockno, uint32 rows);

	/*
	 * Rows whose changes touch nothing of it are as their block has them; NULL: all changes
	 * count.  Of a block that is skipped, skip or pass may tell a column (else 0): rows whose
	 * changes have not touched it may be skipped as well.
	 */
	const LsmTouch *asked;
	int			skip_column;

	/* a bitmap scan: rows with other roots do not count; NULL: all do */
	LsmWanted  *wanted;
	bool		recheck;		/* of the unit: what the bitmap says is not all */
	bool		listed;			/* its rows are all in changed, changed or not */
	LsmTid		foreseen_from;	/* roots from here to there have been foreseen */
	LsmTid		foreseen_to;

	/* the unit */
	LsmBlock   *block;			/* NULL: rows, or skipped */
	bool		by_row;			/* rows: of a page, or a block with many changes */
	int			nrows;			/* of the block */
	int			nseen;			/* of them, those with mask[row] = 1 */
	uint8	   *mask;			/* rows that the snapshot sees as the block
								 * has them */
	int			nchanged;
	LsmBatchRow *changed;		/* others, by root */
	bool		follows;		/* these are scan->rows, too */
	LsmTouch	touched;		/* by all that has changed rows near it */

	/* what has been done */
	uint64		units;
	uint64		blocks_read;
	uint64		blocks_skipped;
	uint64		blocks_counted; /* not read because all was known */
	uint64		changed_segment;	/* (its uid) cannot be skipped as a whole */
	int			distrust;		/* so many known blocks are read ahead all the same */

	/* private */
	int			max_mask;
	int			max_changed;
	int			max_roots;
	LsmTid	   *roots;			/* collected */
	int			max_heads;
	LsmTid	   *head_roots;		/* of them, those that the memtable has: */
	LsmTid	   *heads;			/* their newest records, */
	int			nactive;		/* first those in the active generation, */
	int			nheads;			/* then those in the one being flushed */
} LsmBatchScan;

extern void lsm_batch_begin(LsmBatchScan *batch, LsmScan scan);
extern void lsm_batch_want(LsmBatchScan *batch, LsmWanted *wanted);
extern void lsm_batch_end(LsmBatchScan *batch);
extern bool lsm_batch_next(LsmBatchScan *batch);

/* ---- lsm_scan_changes.c ---- */
extern void lsm_scan_add_changes(LsmScan scan, const LsmTid *roots, const LsmTid *heads, int n);
extern LsmChangeState lsm_scan_change_state(LsmScan scan, const LsmScanRow *row);
extern void lsm_scan_add_place(LsmScan scan, LsmTid root, int increment, uint32 blockno, int row);
extern void lsm_scan_add_places(LsmScan scan);
extern void lsm_scan_drop_place(LsmScan scan);
extern bool lsm_scan_deliver_change(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot);
extern void lsm_scan_free_changes(LsmScan scan);
extern bool lsm_scan_base_block(Relation rel, LsmTable *table, bool few, LsmTid *tid,
								LsmTid end, const LsmManifestEntry **entry, uint32 *blockno);
extern bool lsm_scan_feed_block(LsmScan scan, LsmTid end, const LsmManifestEntry **entry,
								uint32 *blockno);
extern void lsm_scan_feed_restart(void *arg);
extern LsmTid lsm_scan_read_root(LsmScan scan, LsmTid root);

/* ---- lsm_scan_increment.c ---- */

/* A block of an increment, with those that come next read ahead; NULL: the view is old. */
extern LsmCachedBlock *lsm_scan_pin_increment(LsmScan scan, const LsmManifestEntry *entry,
											  uint32 blockno);
extern void lsm_scan_end_increments(LsmScan scan);

/* ---- lsm_bitmap.c ---- */
extern void lsm_bitmap_rescan(LsmScan scan);
#if LSM_BITMAP_BY_BLOCK
extern bool lsm_bitmap_next_block(TableScanDesc scan, struct TBMIterateResult *page);
extern bool lsm_bitmap_next_tuple(TableScanDesc scan, struct TBMIterateResult *page,
								  TupleTableSlot *slot);
#else
extern bool lsm_bitmap_next_tuple(TableScanDesc scan, TupleTableSlot *slot, bool *recheck,
								  uint64 *lossy_pages, uint64 *exact_pages);
#endif

/* ---- lsm_sample.c ---- */
extern bool lsm_sample_next_block(TableScanDesc scan, struct SampleScanState *state);
extern bool lsm_sample_next_tuple(TableScanDesc scan, struct SampleScanState *state,
								  TupleTableSlot *slot);

/* ---- lsm_executor.c ---- */
extern void lsm_executor_install(void);
extern void lsm_executor_no_prefetch(LsmScan scan);

/* Who looks at hash joins of plans that have been initialized; src/exec sets it. */
extern void (*lsm_executor_look) (struct HashJoinState *join);

/* ---- lsm_asked.c ---- */
extern void lsm_asked_look(PlanState *planstate);
extern void lsm_asked_install(void);

/* ---- lsm_keyhint.c ---- */

/* lsm.enable_keyhint */
extern bool lsm_enable_keyhint;

struct QueryDesc;
extern PlanState *lsm_keyhint_look(struct QueryDesc *query, int eflags);
extern bool lsm_keyhint_rechecks(const PlanState *planstate);

/* ---- lsm_index.c ---- */
extern double lsm_index_build_range_scan(Relation rel, Relation index,
										 struct IndexInfo *index_info, bool allow_sync,
										 bool anyvisible, bool progress,
										 BlockNumber start_blockno, BlockNumber numblocks,
										 IndexBuildCallback callback, void *callback_state,
										 TableScanDesc scan);
extern void lsm_index_validate_scan(Relation rel, Relation index,
									struct IndexInfo *index_info, Snapshot snapshot,
									struct ValidateIndexState *state);

/* ---- lsm_rewrite.c ---- */
extern void lsm_copy_for_cluster(Relation rel, Relation new_rel, Relation index, bool use_sort,
								 TransactionId oldest_xmin, TransactionId *xid_cutoff,
								 MultiXactId *multi_cutoff, double *num_tuples,
								 double *tups_vacuumed, double *tups_recently_dead);

/* ---- lsm_relpages.c ---- */
extern void lsm_relpages_remember(Relation rel);
extern void lsm_relpages_before_commit(void);
extern void lsm_relpages_xact_end(void);

/* ---- lsm_vacuum.c ---- */
extern double lsm_vacuum_pages(Relation rel);
extern void lsm_vacuum_rel(Relation rel, struct VacuumParams *params,
						   BufferAccessStrategy strategy);
extern void lsm_vacuum_end_lists(void);

/* ---- lsm_analyze.c ---- */
extern bool lsm_analyze_next_block(LSM_ANALYZE_NEXT_BLOCK_ARGS);
extern bool lsm_analyze_next_tuple(TableScanDesc scan, TransactionId oldest_xmin,
								   double *liverows, double *deadrows, TupleTableSlot *slot);

/* ---- lsm_handler.c ---- */

/* What fetches of an index scan have done, counted while lsm_fetch_counting is set. */
typedef struct LsmFetchCounters
{
	uint64		rows;			/* fetched */
	uint64		records;		/* examined for them */
	uint64		blocks_read;
	uint64		blocks_ahead;	/* of them, before a row was looked for */
	uint64		store_requests; /* ranges of objects that were asked for */
	uint64		store_bytes;
	LsmIoTotals input;
} LsmFetchCounters;

extern bool lsm_fetch_counting;
extern const LsmFetchCounters *lsm_fetch_counters(const struct IndexFetchTableData *fetch);

extern void lsm_restore_prefetch(void);
extern bool lsm_relation_is_lsm(Relation rel);
extern bool lsm_am_is_lsm(Oid am);
extern bool lsm_relid_is_lsm(Oid relid);

/* ---- lsm_estimate.c ---- */
extern double lsm_estimate_changed(Relation rel);
extern double lsm_estimate_overlap(Relation rel);
extern double lsm_estimate_log_pages(Relation rel);
extern void lsm_estimate_blocks(Relation rel, double *all, double *cold);
extern void lsm_estimate_opened(Relation rel, double *blocks, double *bytes);
extern void lsm_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
							  double *tuples, double *allvisfrac);
extern void lsm_estimate_for_planner(Relation rel, int32 *attr_widths, BlockNumber *pages,
									 double *tuples, double *allvisfrac);

/* ---- lsm_ddl.c ---- */
extern void lsm_ddl_install_hooks(void);

#endif							/* LSM_AM_H */
