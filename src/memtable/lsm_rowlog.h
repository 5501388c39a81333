/*-------------------------------------------------------------------------
 *
 * lsm_rowlog.h
 *	  The row log: appending records to pages, and reading them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_ROWLOG_H
#define LSM_ROWLOG_H

#include "lsm.h"

#include "lsm_manifest.h"
#include "lsm_table.h"
#include "storage/buf.h"

/* Kinds of row-log pages, as indexes of arrays. */
#define LSM_ROOT_PAGES			0
#define LSM_VERSION_PAGES		1

/* A memtable that has reached that part of its bound is flushed by a worker. */
#define LSM_FLUSH_FILL			0.5

typedef struct LsmNewRecord
{
	LsmRecord  *record;
	Size		len;
	LsmRecord  *whole;			/* if the record was spilled: as it was */
	Size		whole_len;
	uint32		generation;		/* that has its large values; 0: none */
	bool		borrowed;		/* the record is a slot's */
	const struct LsmNeighbour *near;	/* INSERT: where it belongs; NULL: anywhere */
	LsmTid		tid;			/* out: where it went */
} LsmNewRecord;

typedef enum LsmAppendResult
{
	LSM_APPEND_DONE,
	LSM_APPEND_NO_ROOM			/* nothing done; call lsm_rowlog_make_room() */
} LsmAppendResult;

typedef enum LsmFetchResult
{
	LSM_FETCH_FOUND,
	LSM_FETCH_NONE,				/* there is no such record */
	LSM_FETCH_STALE				/* the page is not what the view says */
} LsmFetchResult;

/* Pages that a bulk load fills alone: some of one range, in order. */
typedef struct LsmOwnPages
{
	uint64		incarnation;
	uint32		generation;		/* that has the range */
	bool		unlogged;
	bool		later;			/* they are to come when the shared ones are used up */
	bool		needed;			/* there are none, or these are no good any more */
	BlockNumber start;
	BlockNumber lb;				/* of the first page */
	uint32		lb_pages;		/* pages of an LB */
	uint32		npages;
	uint32		at;				/* page that is being filled */
	Buffer		recent;			/* where it may be, or InvalidBuffer */
	OffsetNumber before;		/* items of its LB on earlier pages */
} LsmOwnPages;

extern int	lsm_rowlog_insert(Relation rel, LsmTable *table, LsmNewRecord *records, int n,
							  LsmOwnPages *own, bool speculative);
extern void lsm_rowlog_complete(Relation rel, LsmTable *table, LsmTid tid, bool succeeded,
								uint32 cid);
extern bool lsm_rowlog_undecided(LsmTableShared *shared, const LsmRowRange *range);
extern void lsm_rowlog_xact_end(void);
extern void lsm_rowlog_subxact_abort(SubTransactionId subid);
extern LsmAppendResult lsm_rowlog_append(Relation rel, LsmTable *table,
										 LsmNewRecord *insert,
										 LsmNewRecord *versions, int nversions,
										 Buffer vm, BlockNumber vm_lb);
extern void lsm_rowlog_make_room(Relation rel, LsmTable *table, int kind);
extern void lsm_rowlog_make_way(Relation rel, LsmTable *table, LsmSpaceResult result);

/* compact/lsm_flush.c: flush, or leave that to a worker, because the row log has no place left */
extern void lsm_flush_for_room(Relation rel);

extern void lsm_index_make_room(Relation rel, LsmTable *table);
extern uint32 lsm_pages_begun;
extern uint32 lsm_version_pages_begun;

extern void lsm_rowlog_keep_bounds(Relation rel, LsmTable *table);
extern void lsm_rowlog_ask_for_reads(Relation rel, LsmTable *table);

/* By writers, and at the beginning of index scans. */
static inline void
lsm_rowlog_heed_waste(Relation rel, LsmTable *table)
{
	if (unlikely((table->stat.memtable_waste | table->stat.memtable_quiet) != 0))
		lsm_rowlog_ask_for_reads(rel, table);
}

extern double lsm_rowlog_fill(LsmTable *table);

/* The hint that may be put on a record, 0: none; the page is locked. */
typedef uint16 (*LsmHintDecider) (const LsmRecord *record);

extern LsmFetchResult lsm_rowlog_fetch(Relation rel, LsmView *view, LsmTid tid,
									   LsmRecord *record, Size *len, LsmHintDecider decide);
extern bool lsm_rowlog_lost(const LsmRowRange *range);
extern bool lsm_rowlog_copy_page(Relation rel, LsmView *view, LsmRowRange *range, uint32 n,
								 char *copy, BlockNumber *lb, OffsetNumber *before);
extern bool lsm_rowlog_copy_page_of(Relation rel, LsmView *view, LsmRowRange *range, LsmTid tid,
									char *copy, OffsetNumber *before, bool *last);
extern Buffer lsm_rowlog_lock_shared(Relation rel, LsmView *view, LsmRowRange *range,
									 BlockNumber lb);
extern bool lsm_rowlog_hint_record(Buffer buffer, LsmRecord *record, uint16 hint);
extern void lsm_rowlog_hint_page(Relation rel, LsmView *view, LsmRowRange *range,
								 BlockNumber lb, OffsetNumber *offsets, uint16 *hints,
								 TransactionId *xids, int n);
extern void lsm_rowlog_build_index(Relation rel, LsmTable *table);
extern void lsm_rowlog_order(LsmTableShared *shared);

/* What deciding a speculative INSERT does to its record. */
static inline void
lsm_rowlog_decide(LsmRecord *record, bool succeeded, uint32 cid)
{
	record->info &= ~LSM_REC_SPECULATIVE;
	record->cid = cid;
	if (!succeeded)
		record->info |= LSM_REC_ABORTED;
}

/* Are the memtable indexes usable?  gen_lock is held, or see lsm_table_changes(). */
static inline bool
lsm_rowlog_ready(LsmTableShared *shared)
{
	return shared->generation == 0 ||
		(lsm_table_index(shared, shared->generation)->state == LSM_INDEX_READY &&
		 lsm_table_index(shared, shared->generation)->generation == shared->generation &&
		 (shared->flushing == 0 ||
		  (lsm_table_index(shared, shared->flushing)->state == LSM_INDEX_READY &&
		   lsm_table_index(shared, shared->flushing)->generation == shared->flushing)));
}

#endif							/* LSM_ROWLOG_H */
