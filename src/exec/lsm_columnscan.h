/*-------------------------------------------------------------------------
 *
 * lsm_columnscan.h
 *	  A scan by columns, as plan nodes of ours have it: blocks, conditions, and
 *	  rows that have to be looked at one by one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLUMNSCAN_H
#define LSM_COLUMNSCAN_H

#include "access/parallel.h"
#include "lsm_am.h"
#include "lsm_joinfilter.h"
#include "lsm_predicate.h"
#include "lsm_scanshare.h"
#include "lsm_store.h"
#include "nodes/execnodes.h"

/* What a scan has done; of parallel scans, all processes together. */
typedef struct LsmScanCounters
{
	uint64		blocks_read;
	uint64		blocks_skipped;
	uint64		blocks_counted; /* their rows are known without reading them */
	uint64		rows_fused;		/* rows with other records than in their block */
	uint64		rows_looked_up; /* bitmap: one by one, as there are few in
								 * their block */
	uint64		rows_unmatched; /* a hash join has no use for them */
	uint64		exact_pages;	/* of the bitmap, as the server counts them */
	uint64		lossy_pages;
	uint64		store_requests; /* ranges of objects that were asked for */
	uint64		store_bytes;
	LsmIoTotals input;
} LsmScanCounters;

#define LSM_SCAN_COUNTERS		(10 + LSM_IO_COUNTERS)

StaticAssertDecl(sizeof(LsmScanCounters) == LSM_SCAN_COUNTERS * sizeof(uint64),
				 "counters are shared as an array");

typedef struct LsmScanShared
{
	pg_atomic_uint64 counters[LSM_SCAN_COUNTERS];
	LsmScanShares shares;		/* of all processes; the scan's own part comes
								 * behind them */
} LsmScanShared;

typedef struct LsmColumnScan LsmColumnScan;

struct LsmColumnScan
{
	PlanState  *ps;				/* the node's */
	Relation	rel;
	int			npredicates;
	LsmPredicate **predicates;
	ExprState  *qual;			/* all of them as an expression */
	LsmJoinFilter *filters;		/* of joins above */
	/* adds them before the first look at columns, if that has not been done */
	void		(*prepare) (LsmColumnScan *cscan);

	/*
	 * can rows of a block be left out though they meet the conditions?  And
	 * what batch scans know without reading a block, if the conditions are
	 * met by all rows of its zone.  May be NULL.
	 */
	bool		(*beaten) (void *arg, LsmSegmentReader *reader, uint32 blockno);
	bool		(*known) (void *arg, LsmSegmentReader *reader, uint32 blockno);
	bool		one_by_one;		/* not all rows need be asked for */
	bool		zones_asked;	/* what is known is about all of the zone */
	bool		whole;			/* it will be read to its end */
	void		(*take) (void *arg, LsmSegmentReader *reader, uint32 blockno, uint32 rows);
	void	   *arg;
	Bitmapset  *columns;		/* columns that are asked for, besides theirs */
	bool		system_columns; /* other than ctid and tableoid are asked for */
	bool		names;			/* rows' names, ctid, may be asked for */
	/* the scan, when it runs */
	ParallelTableScanDesc pscan;
	LsmScanShared *shared;
	TableScanDesc scan;
	LsmWanted  *wanted;			/* of a bitmap scan, or NULL */
	ExprState  *wanted_qual;	/* what the bitmap stands for */
	LsmWantedShare *wanted_share;	/* of a parallel one */
	dsa_area   *dsa;			/* where its bitmap is */
	LsmBatchScan batch;
	LsmTouch	asked;			/* what batch->asked points to */
	/* the unit, if it is a block */
	bool		simple;			/* columns say all about its rows */
	bool		recheck;		/* conditions have to be checked by row */
	int			nselected;		/* rows that are left, or to be checked */
	int			room;			/* rows that there is memory for */
	uint16	   *selected;

	/*
	 * Changed rows among these: what changes have touched is not what the
	 * block has, all else is.  Only where the owner wants it: no condition,
	 * and nothing of fixed, is touched.
	 */
	bool		keeps;
	LsmTouch	fixed;
	int			nkept;
	int			kept_room;
	LsmScanRow *kept;
	int			kept_mask_room;
	uint8	   *kept_mask;		/* of the block's rows, if nkept is not 0 */
	int			nidentical;		/* places of it that are known to have their
								 * own number */
	/* next row of the unit */
	int			at;				/* page: of its rows; block: of selected */
	int			changed_at;
	LsmIoTotals input;			/* what was read, and */
	LsmStoreAsked store_asked;	/* of stores, before the units that are
								 * counted */
	LsmScanCounters counters;
	uint64		rows_taken;		/* of units so far: those that the snapshot
								 * sees */
	LsmScanShares *shares;		/* leader of a parallel scan, after it: who
								 * took what */
};

/*
 * Begin to make one: conditions are added, then it is finished; the clauses' Vars
 * have that varno and the numbers of the table's columns.  One may be added in front of others
 * that come before it in the qual (behind), if it raises no errors; if it is added, but rows have
 * to meet it behind those as well, the answer is false, too.
 */
extern void lsm_columnscan_init(LsmColumnScan *cscan, PlanState *ps, Relation rel, int max);
extern bool lsm_columnscan_add(LsmColumnScan *cscan, Expr *clause, Index varno, bool behind);
extern void lsm_columnscan_ask(LsmColumnScan *cscan, Node *expr, Index varno);

/* Running: start (which evaluates conditions' values, but for those that wait), units, end or rescan. */
extern void lsm_columnscan_start(LsmColumnScan *cscan);
extern void lsm_columnscan_want(LsmColumnScan *cscan, PlanState *bitmap);
extern bool lsm_columnscan_next_unit(LsmColumnScan *cscan);
extern void lsm_columnscan_stop(LsmColumnScan *cscan);
extern void lsm_columnscan_end(LsmColumnScan *cscan);
extern void lsm_columnscan_rescan(LsmColumnScan *cscan);

/*
 * The next row of the unit that has to be fetched, and meets the conditions, into
 * slot (of LsmSlotOps).  Of a block: only those before that row of it; -1: all.
 */
extern bool lsm_columnscan_fetch(LsmColumnScan *cscan, TupleTableSlot *slot, int before,
								 LsmTid *root);

/* One of the kept rows into slot, after it was found to be there. */
extern void lsm_columnscan_fetch_kept(LsmColumnScan *cscan, int number, TupleTableSlot *slot);

/* Store a row of the block as a whole; false: it does not meet the conditions. */
extern bool lsm_columnscan_store(LsmColumnScan *cscan, int row, LsmTid root,
								 TupleTableSlot *slot);
extern bool lsm_columnscan_in_bitmap(LsmColumnScan *cscan, TupleTableSlot *slot);
extern bool lsm_columnscan_passes(LsmColumnScan *cscan, TupleTableSlot *slot);

/* After a stop: the next row of the scan, in either direction, whatever the conditions. */
extern bool lsm_columnscan_getnextslot(LsmColumnScan *cscan, ScanDirection direction,
									   TupleTableSlot *slot);

/* Parallel plans, and EXPLAIN. */
extern Size lsm_columnscan_estimate_dsm(Relation rel, Snapshot snapshot, int nworkers);
extern void lsm_columnscan_initialize_dsm(LsmColumnScan *cscan, void *coordinate, int nworkers);
extern void lsm_columnscan_reinitialize_dsm(LsmColumnScan *cscan, void *coordinate);
extern void lsm_columnscan_initialize_worker(LsmColumnScan *cscan, void *coordinate);

/* Instead of these, for a bitmap scan. */
extern Size lsm_columnscan_estimate_bitmap_dsm(int nworkers);
extern void lsm_columnscan_initialize_bitmap_dsm(LsmColumnScan *cscan, void *coordinate,
												 int nworkers);
extern void lsm_columnscan_reinitialize_bitmap_dsm(LsmColumnScan *cscan, void *coordinate);
extern void lsm_columnscan_initialize_bitmap_worker(LsmColumnScan *cscan, void *coordinate);

extern void lsm_columnscan_shutdown(LsmColumnScan *cscan);
extern void lsm_columnscan_count(LsmColumnScan *cscan);
extern void lsm_columnscan_explain(LsmColumnScan *cscan, ExplainState *es);
extern void lsm_columnscan_explain_input(const LsmIoTotals *input, ExplainState *es);
extern void lsm_columnscan_explain_store(uint64 requests, uint64 bytes, ExplainState *es);

#endif							/* LSM_COLUMNSCAN_H */
