/*-------------------------------------------------------------------------
 *
 * lsm_scan.c
 *	  Scans in root-TID order: of a whole table, of a range of roots, of a range
 *	  of names, and of one LB, which bitmap and sample scans are made of.
 *
 * A scan holds a position, never a set of files: it takes the row-log page or
 * segment block that covers the next root from the newest view, works through
 * it, and looks again (I5).  All versions that its snapshot can see are in every
 * newer view.  Within such a unit most rows have no other record than the one
 * in it.  Those that the memtable has records of are read along (lsm_scan_changes.c),
 * the others that have some are fetched by root.  Only rows of the scan's range are
 * listed, so that a range of one LB costs that LB and not all of a block.
 *
 * Parallel scans hand out ranges of roots, in their order, that the leader has made
 * of what there was to read when it began (lsm_ranges.c).  Together they are all roots
 * there may be, so that whatever happens to the table meanwhile, each row is met once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "lsm_am.h"
#include "lsm_cold.h"
#include "lsm_ranges.h"
#include "lsm_stop.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "utils/memutils.h"

/* Reading ahead, so many segments are looked at for a block that is wanted. */
#define LSM_FEED_SEGMENTS		4

#define LSM_CHANGED_BATCH		1024

typedef struct LsmParallelScanData
{
	ParallelTableScanDescData base; /* must be first */
	pg_atomic_uint32 next;		/* range that nobody has taken */
	int			nranges;
	LsmTid		begins[LSM_RANGES_MAX]; /* first roots of the ranges */
} LsmParallelScanData;
typedef LsmParallelScanData *LsmParallelScan;

void
lsm_scan_set_range(LsmScan scan, LsmTid begin, LsmTid end)
{
	scan->begin = begin;
	scan->end = end;
	scan->some = false;
	scan->current = LSM_INVALID_TID;
	scan->started = false;
	scan->have_unit = false;
	scan->judged_xid = 0;
}

/* ---- ranges of parallel scans ---- */

static bool
lsm_scan_take_range(LsmScan scan, LsmTid *begin, LsmTid *end)
{
	LsmParallelScan pscan = (LsmParallelScan) scan->base.rs_parallel;
	uint32		i;

	/* not to count on for ever */
	if (pg_atomic_read_u32(&pscan->next) >= (uint32) pscan->nranges)
		return false;
	i = pg_atomic_fetch_add_u32(&pscan->next, 1);
	if (i >= (uint32) pscan->nranges)
		return false;
	*begin = pscan->begins[i];
	*end = i + 1 < (uint32) pscan->nranges ? pscan->begins[i + 1] - 1 : LSM_MAX_TID;
	scan->ranges++;
	return true;
}

/* ---- reading ahead ---- */

/*
 * The next block of a base segment from a root on, up to another one, as far as the view
 * at hand tells; row-log pages lie in shared buffers.  The root becomes the one behind
 * the block.  few: of a segment few blocks will be wanted, so that a part of it may be opened.
 */
bool
lsm_scan_base_block(Relation rel, LsmTable *table, bool few, LsmTid *tid, LsmTid end,
					const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmView    *view = table->view;
	int			i = lsm_view_find_base(view, *tid);
	LsmSegmentReader *reader;
	LsmTid		first;
	LsmTid		last;
	uint32		rows;
	uint64		offset;
	uint32		stored;

	if (i >= view->nbase || Max(view->base[i]->first_tid, *tid) > end)
		return false;
	*entry = view->base[i];
	reader = few ? lsm_reader_get_for_root(rel, table, *entry, *tid) :
		lsm_reader_get(rel, table, *entry);
	if (reader == NULL)
		return false;
	*blockno = lsm_segment_find_block(reader, *tid);
	if (*blockno >= lsm_segment_reader_blocks(reader))
		return false;
	lsm_segment_block_info(reader, *blockno, &first, &last, &rows, &offset, &stored);
	if (first > end)
		return false;
	*tid = last + 1;
	return true;
}

/* Go past segments of which no row is wanted, so many at most; returns how many. */
static int
lsm_scan_feed_pass(LsmScan scan, LsmTid end, int most)
{
	LsmView    *view = scan->table->view;
	int			i = lsm_view_find_base(view, scan->feed_tid);
	int			n = 0;

	while (scan->pass != NULL && n < most && i < view->nbase &&
		   Max(view->base[i]->first_tid, scan->feed_tid) <= end &&
		   !lsm_view_increments_meet(view, view->base[i]->first_tid, view->base[i]->last_tid) &&
		   scan->pass(scan->skip_arg, view->base[i]))
	{
		scan->feed_tid = view->base[i++]->last_tid + 1;
		n++;
	}
	return n;
}

/*
 * The next one from feed_tid on that is not skipped.  Not beyond so many segments of
 * which no block is wanted: who reads two rows does not look through the whole table.
 */
bool
lsm_scan_feed_block(LsmScan scan, LsmTid end, const LsmManifestEntry **entry, uint32 *blockno)
{
	const LsmManifestEntry *last = NULL;
	int			nsegments = 0;
	int			npassed;
	bool		skip = false;

	do
	{
		LsmTid		before = scan->feed_tid;

		npassed = lsm_scan_feed_pass(scan, end, LSM_FEED_SEGMENTS - nsegments);
		nsegments += npassed;
		if (npassed > 0 && nsegments == LSM_FEED_SEGMENTS)
			return false;
		if (!lsm_scan_base_block(scan->base.rs_rd, scan->table, false, &scan->feed_tid, end, entry,
								 blockno))
			return false;
		if (*entry != last && nsegments++ >= LSM_FEED_SEGMENTS)
		{
			scan->feed_tid = before;
			return false;
		}
		last = *entry;
		if (scan->skip != NULL)
			skip = scan->skip(scan->skip_arg, *entry, *blockno);
	} while (skip);
	return true;
}

/*
 * Of a parallel scan, the next range is taken before this one is done, so that its
 * blocks are on their way.
 */
static bool
lsm_scan_feed_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmScan		scan = arg;

	if (lsm_scan_feed_block(scan, scan->end, entry, blockno))
		return true;
	if (scan->base.rs_parallel == NULL)
		return false;
	if (scan->next_begin == LSM_INVALID_TID &&
		!lsm_scan_take_range(scan, &scan->next_begin, &scan->next_end))
		return false;
	scan->feed_tid = Max(scan->feed_tid, scan->next_begin);
	return lsm_scan_feed_block(scan, scan->next_end, entry, blockno);
}

/* All blocks, whatever the range. */
static bool
lsm_scan_near_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	return lsm_scan_feed_block(arg, LSM_MAX_TID, entry, blockno);
}

void
lsm_scan_feed_restart(void *arg)
{
	LsmScan		scan = arg;

	scan->feed_tid = scan->asked_tid + 1;
}

/*
 * A root of the feed will be looked up by itself: have its block, with those that
 * come next.  Returns the last root of the block, or the root itself.
 */
LsmTid
lsm_scan_read_root(LsmScan scan, LsmTid root)
{
	Relation	rel = scan->base.rs_rd;
	LsmTid		before = scan->feed_tid;
	const LsmManifestEntry *entry;
	uint32		blockno;
	LsmCachedBlock *cached;

	(void) lsm_view_get(rel, scan->table);
	scan->feed_tid = root;
	if (!lsm_scan_feed_block(scan, root, &entry, &blockno))
	{
		scan->feed_tid = before;
		return root;
	}
	scan->asked_tid = scan->feed_tid - 1;
	scan->feed_tid = before;
	if (!lsm_block_rows_at_hand(entry->uid, blockno))
	{
		cached = lsm_block_pin_ahead(rel, scan->table, entry, blockno, &scan->feed);
		if (cached != NULL)
			lsm_block_unpin_now(cached);
	}
	return scan->asked_tid;
}

/* ---- begin and end ---- */

TableScanDesc
lsm_scan_begin(Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *key,
			   ParallelTableScanDesc pscan, uint32 flags)
{
	LsmScan		scan;

	if (snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_HISTORIC_MVCC)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"lsm\" cannot read table \"%s\" with this kind of snapshot",
						RelationGetRelationName(rel)),
				 errhint("Tables that output plugins of logical decoding read have to be heap tables.")));
	RelationIncrementReferenceCount(rel);
	scan = palloc0(sizeof(LsmScanData));
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	if (nkeys > 0)
	{
		scan->base.rs_key = palloc(nkeys * sizeof(ScanKeyData));
		if (key != NULL)
			memcpy(scan->base.rs_key, key, nkeys * sizeof(ScanKeyData));
	}
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = pscan;
	lsm_restore_prefetch();

	/* before the manifest is read (I10); bitmap scans lock rows */
	if ((flags & (SO_TYPE_SEQSCAN | SO_TYPE_SAMPLESCAN | SO_TYPE_TIDRANGESCAN)) &&
		snapshot != NULL)
		PredicateLockRelation(rel, snapshot);
	scan->table = lsm_table_open(rel);
	if (IsolationIsSerializable() && snapshot != NULL && IsMVCCSnapshot(snapshot) &&
		!(flags & SO_TYPE_BITMAPSCAN))
	{
		/* wait out writers that may have looked for the lock before (I10) */
		LWLockAcquire(&scan->table->shared->gen_lock, LW_EXCLUSIVE);
		LWLockRelease(&scan->table->shared->gen_lock);
	}
	scan->any = snapshot == NULL || snapshot->snapshot_type == SNAPSHOT_ANY;
	scan->whole_columns = true;
	scan->sample_lb = InvalidBlockNumber;
	scan->near_lbs = -1;
	scan->feed.kind = (flags & SO_TYPE_BITMAPSCAN) ? LSM_READER_BITMAP : LSM_READER_SCAN;
	scan->feed.next = lsm_scan_feed_next;
	scan->feed.restart = lsm_scan_feed_restart;
	scan->feed.arg = scan;
	(void) lsm_floor();
	if (!(flags & (SO_TYPE_BITMAPSCAN | SO_TYPE_TIDSCAN)))
		lsm_rowlog_order(scan->table->shared);
	if (pscan != NULL)
		lsm_scan_set_range(scan, 1, 0); /* nothing until a range is taken */
	else
		lsm_scan_set_range(scan, 1, LSM_MAX_TID);
	if (flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(rel);
	return &scan->base;
}

void
lsm_scan_drop_unit(LsmScan scan)
{
	if (scan->cached != NULL)
	{
		lsm_block_unpin(scan->cached, scan->cached_holder);
		scan->cached = NULL;
	}
	scan->have_unit = false;
}

/* Free what is made again when it is needed; there is no unit. */
static void
lsm_scan_free_unit(LsmScan scan)
{
	if (scan->page != NULL)
		pfree(scan->page);
	if (scan->rows != NULL)
		pfree(scan->rows);
	scan->page = NULL;
	scan->rows = NULL;
	scan->nrows = 0;
	scan->maxrows = 0;
	lsm_scan_free_changes(scan);
}

/*
 * The scan has found its end, and its query may have others to come: leave memory to them,
 * above all that for reading ahead, which they share.  If it goes on, it begins anew.
 */
void
lsm_scan_rest(LsmScan scan)
{
	lsm_scan_drop_unit(scan);
	lsm_scan_drop_place(scan);
	lsm_ahead_end(&scan->feed);
	lsm_scan_end_increments(scan);
	lsm_scan_free_unit(scan);
}

void
lsm_scan_end(TableScanDesc sscan)
{
	LsmScan		scan = (LsmScan) sscan;

	lsm_scan_rest(scan);
	RelationDecrementReferenceCount(sscan->rs_rd);
	if (scan->picked != NULL)
		pfree(scan->picked);
	if (scan->queue != NULL)
		pfree(scan->queue);
	if (scan->sample_queue != NULL)
		pfree(scan->sample_queue);
	if (sscan->rs_key != NULL)
		pfree(sscan->rs_key);
	if (sscan->rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(sscan->rs_snapshot);
	pfree(scan);
}

void
lsm_scan_rescan(TableScanDesc sscan, struct ScanKeyData *key, bool set_params,
				bool allow_strat, bool allow_sync, bool allow_pagemode)
{
	LsmScan		scan = (LsmScan) sscan;

	if (key != NULL && sscan->rs_nkeys > 0)
		memcpy(sscan->rs_key, key, sscan->rs_nkeys * sizeof(ScanKeyData));
	lsm_scan_drop_unit(scan);
	lsm_scan_drop_place(scan);
	scan->npicked = 0;
	scan->picked_at = 0;
	lsm_bitmap_rescan(scan);
	scan->sample_lb = InvalidBlockNumber;
	scan->near_lbs = -1;
	scan->lbs_near = false;
	scan->newer_of = LSM_INVALID_TID;
	scan->next_begin = LSM_INVALID_TID;
	if (sscan->rs_parallel != NULL)
		lsm_scan_set_range(scan, 1, 0);
	else
		lsm_scan_set_range(scan, 1, LSM_MAX_TID);
	if (sscan->rs_flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(sscan->rs_rd);
}

/* ---- units ---- */

void
lsm_scan_reserve_rows(LsmScan scan, int n)
{
	if (scan->maxrows >= n)
		return;
	if (scan->rows != NULL)
		pfree(scan->rows);
	scan->maxrows = Max(n, 512);
	scan->rows = MemoryContextAllocHuge(GetMemoryChunkContext(scan),
										scan->maxrows * sizeof(LsmScanRow));
}

/* Is a root of the scan's range one that it was asked for? */
static inline bool
lsm_scan_wants(LsmScan scan, LsmTid root)
{
	int			offset = LSM_TID_OFFSET(root);

	return !scan->some || (scan->offsets[offset / 64] & (UINT64CONST(1) << (offset % 64))) != 0;
}

/*
 * Where the next unit from tid on lies: a root range of the row log, or a
 * base segment.  Returns the first TID it can hold, 0 if there is none.
 */
LsmTid
lsm_scan_next_source(LsmView *view, LsmTid tid, LsmRowRange **range, LsmManifestEntry **entry)
{
	LsmTid		best = 0;
	int			i = lsm_view_find_base(view, tid);

	*range = NULL;
	*entry = NULL;
	if (i < view->nbase)
	{
		*entry = view->base[i];
		best = Max(tid, view->base[i]->first_tid);
	}
	for (uint32 j = 0; j < view->meta.nranges; j++)
	{
		LsmRowRange *candidate = &view->meta.ranges[j];
		LsmTid		first;

		if (candidate->kind != LSM_RANGE_ROOT ||
			LSM_TID(lsm_range_last_lb(candidate), LSM_LAST_OFFSET) < tid)
			continue;
		first = Max(tid, LSM_TID(candidate->lb, 0));
		if (best == 0 || first < best)
		{
			best = first;
			*range = candidate;
			*entry = NULL;
		}
	}
	return best;
}

/* The same downwards: the last TID <= tid that a source can hold. */
static LsmTid
lsm_scan_previous_source(LsmView *view, LsmTid tid, LsmRowRange **range, LsmManifestEntry **entry)
{
	LsmTid		best = 0;
	int			i = lsm_view_find_base(view, tid);

	*range = NULL;
	*entry = NULL;
	if (i >= view->nbase || view->base[i]->first_tid > tid)
		i--;
	if (i >= 0)
	{
		*entry = view->base[i];
		best = Min(tid, view->base[i]->last_tid);
	}
	for (uint32 j = 0; j < view->meta.nranges; j++)
	{
		LsmRowRange *candidate = &view->meta.ranges[j];
		LsmTid		last;

		if (candidate->kind != LSM_RANGE_ROOT || LSM_TID(candidate->lb, 0) > tid)
			continue;
		last = Min(tid, LSM_TID(lsm_range_last_lb(candidate), LSM_LAST_OFFSET));
		if (last > best)
		{
			best = last;
			*range = candidate;
			*entry = NULL;
		}
	}
	return best;
}

/*
 * Copy the row-log page where a root is or would be.  A page that does not prove to be
 * the LB's is empty if the view is still the newest, which the caller finds out.
 */
void
lsm_scan_load_page(LsmScan scan, LsmView *view, LsmRowRange *range, LsmTid tid, bool forward)
{
	Relation	rel = scan->base.rs_rd;
	BlockNumber lb = LSM_TID_LB(tid);
	OffsetNumber max;
	OffsetNumber before;
	bool		last;

	if (scan->page == NULL)
		scan->page = MemoryContextAlloc(GetMemoryChunkContext(scan), BLCKSZ);
	scan->unit_lo = LSM_TID(lb, 0);
	scan->unit_hi = LSM_TID(lb, LSM_LAST_OFFSET);
	scan->all_frozen = false;
	scan->nrows = 0;
	if (!lsm_rowlog_copy_page_of(rel, view, range, tid, scan->page, &before, &last))
		return;
	max = PageGetMaxOffsetNumber(scan->page);
	if (forward && LSM_TID_OFFSET(tid) > before + max)
		scan->unit_lo = tid;	/* behind the LB's rows, which were the last unit */
	else if (before > 0)
		scan->unit_lo = LSM_TID(lb, before + 1);
	if (!last)
		scan->unit_hi = LSM_TID(lb, before + max);
	lsm_scan_reserve_rows(scan, max);
	for (OffsetNumber offset = FirstOffsetNumber; offset <= max; offset++)
	{
		LsmTid		root = LSM_TID(lb, before + offset);
		LsmScanRow *row = &scan->rows[scan->nrows];

		if (root < scan->unit_lo || root < scan->begin || root > scan->end ||
			!lsm_scan_wants(scan, root))
			continue;
		scan->nrows++;
		row->root = root;
		row->at = offset;
		row->changed = false;
		row->change = -1;
	}
}

/* Will blocks behind this one be wanted, too? */
static inline bool
lsm_scan_goes_on(LsmScan scan, const LsmManifestEntry *entry)
{
	return scan->queue != NULL || scan->lbs_told ||
		(scan->lbs_near && lsm_entry_is_cold(entry)) ||
		LSM_TID_LB(scan->begin) != LSM_TID_LB(scan->end);
}

/* Pin a block and list its rows; false: the view is old. */
bool
lsm_scan_load_block(LsmScan scan, LsmManifestEntry *entry, LsmTid tid, bool forward)
{
	Relation	rel = scan->base.rs_rd;
	LsmSegmentReader *reader = lsm_reader_get(rel, scan->table, entry);
	uint32		blockno;
	LsmTid		first;
	LsmTid		last;
	uint32		rows;
	uint64		offset;
	uint32		stored;
	LsmBlock   *block;
	LsmTid		lo;
	LsmTid		hi;
	int			at;

	if (reader == NULL)
		return false;
	blockno = lsm_segment_find_block(reader, tid);
	if (blockno >= lsm_segment_reader_blocks(reader))
	{
		if (forward)
			lsm_segment_corrupt_entry(rel, entry, "its block index does not reach its last TID");
		blockno--;
	}
	lsm_segment_block_info(reader, blockno, &first, &last, &rows, &offset, &stored);
	if (!forward && first > tid)
	{
		/* tid lies between two blocks */
		if (blockno == 0)
			lsm_segment_corrupt_entry(rel, entry, "its block index does not reach its first TID");
		blockno--;
		lsm_segment_block_info(reader, blockno, &first, &last, &rows, &offset, &stored);
	}
	scan->asked_tid = last;
	if (forward && lsm_scan_goes_on(scan, entry))
		scan->cached = lsm_block_pin_ahead(rel, scan->table, entry, blockno, &scan->feed);
	else
		scan->cached = lsm_block_pin_for(rel, scan->table, entry, blockno, scan->feed.kind);
	if (scan->cached == NULL)
		return false;
	scan->cached_holder = lsm_pin_holder();
	scan->entry = *entry;
	block = scan->cached->block;

	/* what lies between this block and its neighbours belongs to the unit */
	scan->unit_lo = forward ? Min(tid, first) : first;
	scan->unit_hi = forward ? last : Max(tid, last);

	scan->all_frozen = (entry->flags & LSM_SEGFLAG_ALL_VISIBLE) || lsm_block_all_frozen(block);
	scan->nrows = 0;
	lo = Max(scan->unit_lo, scan->begin);
	hi = Min(scan->unit_hi, scan->end);
	at = lsm_block_find(block, lo);
	lsm_scan_reserve_rows(scan, Min((uint64) (lsm_block_rows(block) - at),
									LSM_TID_LB(lo) == LSM_TID_LB(hi) ? LSM_MAX_OFFSET :
									PG_INT32_MAX));
	for (; at < lsm_block_rows(block); at++)
	{
		LsmTid		root = lsm_block_root(block, at);
		LsmScanRow *row = &scan->rows[scan->nrows];

		if (root > hi)
			break;
		if (!lsm_scan_wants(scan, root))
			continue;
		row->root = root;
		row->at = at;
		row->changed = false;
		row->change = -1;
		scan->nrows++;
	}
	return true;
}

/*
 * The first row of the unit from there on with that root or a greater one: where
 * many are marked it is near, so the steps begin small.
 */
int
lsm_scan_find_row(LsmScan scan, LsmTid root, int from)
{
	int			lo = from;
	int			hi = from;

	for (int step = 1; hi < scan->nrows && scan->rows[hi].root < root; step *= 2)
	{
		lo = hi + 1;
		hi += step;
	}
	hi = Min(hi, scan->nrows);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (scan->rows[mid].root < root)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Mark the rows of the unit that are among n sorted roots. */
static void
lsm_scan_mark(LsmScan scan, const LsmTid *roots, int n)
{
	int			at = 0;

	for (int i = 0; i < n && at < scan->nrows; i++)
	{
		at = lsm_scan_find_row(scan, roots[i], at);
		if (at < scan->nrows && scan->rows[at].root == roots[i])
			scan->rows[at].changed = true;
	}
}

/* Mark rows that an increment has records of; false: the view is old. */
static bool
lsm_scan_mark_increment(LsmScan scan, LsmManifestEntry *entry)
{
	Relation	rel = scan->base.rs_rd;
	LsmSegmentReader *reader = lsm_reader_get(rel, scan->table, entry);
	LsmTid		lo = scan->rows[0].root;
	LsmTid		hi = scan->rows[scan->nrows - 1].root;
	LsmTid		roots[LSM_CHANGED_BATCH];

	if (reader == NULL)
		return false;
	for (uint32 blockno = lsm_segment_find_block(reader, lo);;)
	{
		LsmCachedBlock *cached;
		LsmBlock   *block;
		int			row;
		int			n = 0;
		bool		done;

		reader = lsm_reader_get(rel, scan->table, entry);
		if (reader == NULL)
			return false;
		if (blockno >= lsm_segment_reader_blocks(reader))
			return true;
		cached = lsm_scan_pin_increment(scan, entry, blockno);
		if (cached == NULL)
			return false;
		block = cached->block;
		for (row = lsm_block_find(block, lo); row < lsm_block_rows(block); row++)
		{
			LsmTid		root = lsm_block_root(block, row);

			if (root > hi)
				break;
			if (n > 0 && roots[n - 1] == root)
				continue;
			if (n == LSM_CHANGED_BATCH)
			{
				lsm_scan_mark(scan, roots, n);
				n = 0;
			}
			roots[n++] = root;
		}
		done = row < lsm_block_rows(block);
		lsm_scan_mark(scan, roots, n);
		lsm_block_unpin_now(cached);
		if (done)
			return true;
		blockno++;
	}
}

/*
 * Mark rows that a memtable index knows of, the active generation's before that of
 * the one being flushed; gen_lock is held.
 */
static void
lsm_scan_mark_memtable(LsmScan scan, LsmMemIndex *index)
{
	LsmTid		lo = scan->rows[0].root;
	LsmTid		hi = scan->rows[scan->nrows - 1].root;
	LsmTid		roots[LSM_CHANGED_BATCH];
	LsmTid		heads[LSM_CHANGED_BATCH];
	int			n;

	do
	{
		n = lsm_memindex_collect(index, lo, hi, roots, heads, LSM_CHANGED_BATCH);
		lsm_scan_add_changes(scan, roots, heads, n);
		if (n > 0)
			lo = roots[n - 1] + 1;
	} while (n == LSM_CHANGED_BATCH && lo <= hi);
}

/*
 * Find out which rows of the unit have other records.  False: the unit comes
 * from an old view.
 */
bool
lsm_scan_mark_changed(LsmScan scan, LsmView *view)
{
	LsmTableShared *shared = scan->table->shared;
	int			i = -1;
	bool		good;

	scan->nchanges = 0;
	scan->changes_only = false;
	while (scan->nrows > 0 &&
		   (i = lsm_view_next_increment(view, scan->rows[0].root, scan->rows[scan->nrows - 1].root,
										i + 1)) < view->nincrements)
		if (!lsm_scan_mark_increment(scan, view->increments[i]))
			return false;
	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	if (!lsm_rowlog_ready(shared))
	{
		LWLockRelease(&shared->gen_lock);
		lsm_rowlog_build_index(scan->base.rs_rd, scan->table);
		return false;
	}
	good = lsm_view_current(scan->table);
	scan->marked_epoch = view->epoch;
	scan->marked_counter = view->counter;
	if (good && scan->nrows > 0 && shared->generation != 0)
	{
		lsm_scan_mark_memtable(scan, lsm_table_index(shared, shared->generation));
		if (shared->flushing != 0)
			lsm_scan_mark_memtable(scan, lsm_table_index(shared, shared->flushing));
	}
	LWLockRelease(&shared->gen_lock);
	return good;
}

/* Load the unit that covers tid or comes next in the direction. */
static bool
lsm_scan_load(LsmScan scan, LsmTid tid, bool forward)
{
	for (;;)
	{
		LsmView    *view;
		LsmRowRange *range;
		LsmManifestEntry *entry;
		LsmTid		first;

		CHECK_FOR_INTERRUPTS();
		lsm_scan_drop_unit(scan);
		view = lsm_view_get(scan->base.rs_rd, scan->table);
		first = forward ? lsm_scan_next_source(view, tid, &range, &entry) :
			lsm_scan_previous_source(view, tid, &range, &entry);
		if (first == 0 || first > scan->end || first < scan->begin)
		{
			/* nothing more, if that is still true of the newest view */
			if (lsm_view_current(scan->table))
				return false;
			continue;
		}
		if (range != NULL)
			lsm_scan_load_page(scan, view, range, first, forward);
		else if (!lsm_scan_load_block(scan, entry, first, forward))
			continue;
		if (!lsm_scan_mark_changed(scan, view))
			continue;
		scan->have_unit = true;
		scan->units++;
		lsm_stat_tick(&scan->table->stat);
		return true;
	}
}

/* The bottom record of a row of the unit. */
void
lsm_scan_row_head(LsmScan scan, const LsmScanRow *row, LsmRowHead *head)
{
	if (scan->cached == NULL)
	{
		LsmRecord  *record = (LsmRecord *)
		PageGetItem((Page) scan->page, PageGetItemId((Page) scan->page, row->at));

		lsm_record_head(record, row->root, head);
		return;
	}
	lsm_block_head(scan->cached->block, row->at, head);
	if (head->xid != 0 && (scan->entry.flags & LSM_SEGFLAG_ALL_VISIBLE))
		head->xid = 0;
	else if (head->xid != 0 && !(head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED)))
	{
		LsmSegmentReader *reader = lsm_reader_get(scan->base.rs_rd, scan->table, &scan->entry);

		if (reader != NULL)
			lsm_head_resolve(&scan->entry, reader, head);
	}
}

/* Store the bottom record of a row in a slot, below its DELTA if the slot has one. */
void
lsm_scan_store_bottom(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot,
					  uint64 xmax, uint32 cmax)
{
	LsmVersion	version;
	LsmRecord  *loaded = NULL;

	lsm_scan_row_head(scan, row, &version.head);
	version.cached = scan->cached;
	version.row = row->at;
	version.record = NULL;
	if (scan->cached == NULL)
	{
		ItemId		item = PageGetItemId((Page) scan->page, row->at);

		version.record = (LsmRecord *) PageGetItem((Page) scan->page, item);
		version.record_len = ItemIdGetLength(item);
		if (version.record->info & LSM_REC_SPILLED)
			loaded = version.record = lsm_record_load(scan->base.rs_rd, scan->table,
													  version.record, &version.record_len);
	}
	lsm_slot_store(slot, scan->base.rs_rd, &version, xmax, cmax);
	if (scan->cached != NULL)
		lsm_slot_set_whole_columns(slot, scan->whole_columns);
	if (loaded != NULL)
		pfree(loaded);
}

/* Store the bottom record of a row in a slot. */
void
lsm_scan_store(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot)
{
	LsmRowHead	head;

	lsm_scan_row_head(scan, row, &head);
	if (scan->cached != NULL)
		lsm_slot_store_row(slot, scan->base.rs_rd, scan->cached, row->at, &head,
						   scan->whole_columns);
	else
	{
		lsm_scan_store_bottom(scan, row, slot, 0, 0);
		lsm_slot_set_name(slot, lsm_version_name(&head));
	}
}

/* Hint the page's records whose transactions have ended. */
void
lsm_scan_hint_page(LsmScan scan)
{
	OffsetNumber offsets[LSM_MAX_OFFSET];
	uint16		hints[LSM_MAX_OFFSET];
	TransactionId xids[LSM_MAX_OFFSET];
	uint64		last_xid = 0;
	uint16		last_hint = 0;
	int			n = 0;
	LsmRowRange *range;

	if (scan->cached != NULL || !lsm_view_current(scan->table))
		return;
	for (int i = 0; i < scan->nrows; i++)
	{
		LsmRecord  *record = (LsmRecord *)
		PageGetItem((Page) scan->page, PageGetItemId((Page) scan->page, scan->rows[i].at));
		LsmRowHead	head;

		if (record->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED | LSM_REC_SPECULATIVE))
			continue;
		if (record->xid != last_xid)
		{
			lsm_record_head(record, scan->rows[i].root, &head);
			last_hint = lsm_hint_for(&head);
			last_xid = record->xid;
		}
		if (last_hint == 0)
			continue;
		record->info |= last_hint;
		offsets[n] = LSM_TID_OFFSET(scan->rows[i].root);
		hints[n] = last_hint;
		xids[n] = (TransactionId) record->xid;
		n++;
	}
	range = lsm_view_range(scan->table->view, LSM_TID_LB(scan->unit_lo));
	if (n > 0 && range != NULL)
		lsm_rowlog_hint_page(scan->base.rs_rd, scan->table->view, range,
							 LSM_TID_LB(scan->unit_lo), offsets, hints, xids, n);
}

/* Does the scan's snapshot see the bottom record of a row?  It is an MVCC snapshot. */
bool
lsm_scan_sees(LsmScan scan, const LsmScanRow *row)
{
	LsmRowHead	head;
	Snapshot	snapshot = scan->base.rs_snapshot;

	if (scan->all_frozen)
		return true;
	lsm_scan_row_head(scan, row, &head);
	if (head.xid == 0)
		return true;

	/* a speculative INSERT, given up or undecided, may have xid and cid of others that are not */
	if (head.info & LSM_REC_ABORTED)
		return false;
	if (head.info & LSM_REC_SPECULATIVE)
	{
		lsm_check_conflict_out(scan->base.rs_rd, snapshot, head.xid);
		return false;
	}
	if (head.xid == scan->judged_xid && head.cid == scan->judged_cid)
	{
		if (!scan->judged_visible)
			lsm_check_conflict_out(scan->base.rs_rd, snapshot, head.xid);
		return scan->judged_visible;
	}
	scan->judged_xid = head.xid;
	scan->judged_cid = head.cid;
	scan->judged_visible = lsm_visible_mvcc(&head, snapshot);
	if (!scan->judged_visible)
		lsm_check_conflict_out(scan->base.rs_rd, snapshot, head.xid);
	return scan->judged_visible;
}

/* Would ANALYZE count the bottom record of a row as live?  False: perhaps. */
static bool
lsm_scan_is_live(LsmScan scan, const LsmScanRow *row)
{
	LsmRowHead	head;

	if (scan->all_frozen)
		return true;
	lsm_scan_row_head(scan, row, &head);
	if (head.xid == 0)
		return true;
	if (head.info & (LSM_REC_ABORTED | LSM_REC_SPECULATIVE))
		return false;
	if (head.xid != scan->judged_xid)
	{
		LsmXidState state = lsm_xid_state(&head);

		scan->judged_xid = head.xid;
		scan->judged_visible = state == LSM_XID_COMMITTED || state == LSM_XID_OWN;
	}
	return scan->judged_visible;
}

/*
 * Judge the unit's rows that have only their bottom record, while its view is
 * the newest: later their xids may not be known any more (I8).
 */
void
lsm_scan_judge(LsmScan scan)
{
	Snapshot	snapshot = scan->base.rs_snapshot;
	bool		sample = (scan->base.rs_flags & SO_TYPE_ANALYZE) != 0;

	if (!sample && (snapshot == NULL || !IsMVCCSnapshot(snapshot)))
		return;
	for (int i = 0; i < scan->nrows; i++)
		if (!scan->rows[i].changed)
			scan->rows[i].seen = sample ? lsm_scan_is_live(scan, &scan->rows[i]) :
				lsm_scan_sees(scan, &scan->rows[i]);
}

/*
 * The next root in the direction, whoever sees it.  False at the end of the
 * range.
 */
bool
lsm_scan_next_row(LsmScan scan, ScanDirection direction, LsmScanRow *row)
{
	bool		forward = !ScanDirectionIsBackward(direction);

	if (scan->begin > scan->end)
		return false;
	if (!scan->started || scan->forward != forward)
	{
		/* go on from the last row, or from the end */
		lsm_scan_drop_unit(scan);
		scan->started = true;
		scan->forward = forward;
		if (scan->current == LSM_INVALID_TID)
			scan->position = forward ? scan->begin : scan->end;
		else
			scan->position = forward ? scan->current + 1 : scan->current - 1;
	}
	for (;;)
	{
		if (scan->have_unit)
		{
			if (forward)
			{
				while (scan->at < scan->nrows && scan->rows[scan->at].root < scan->position)
					scan->at++;
				if (scan->at < scan->nrows && scan->rows[scan->at].root <= scan->end)
				{
					*row = scan->rows[scan->at++];
					scan->position = row->root + 1;
					scan->current = row->root;
					return true;
				}
				scan->position = Max(scan->position, scan->unit_hi + 1);
			}
			else
			{
				while (scan->at >= 0 && scan->rows[scan->at].root > scan->position)
					scan->at--;
				if (scan->at >= 0 && scan->rows[scan->at].root >= scan->begin)
				{
					*row = scan->rows[scan->at--];
					scan->position = row->root - 1;
					scan->current = row->root;
					return true;
				}
				scan->position = scan->unit_lo == 0 ? 0 :
					Min(scan->position, scan->unit_lo - 1);
			}
			lsm_scan_drop_unit(scan);
		}
		if (scan->position > scan->end || scan->position < scan->begin ||
			!lsm_scan_load(scan, scan->position, forward))
		{
			/* the other direction begins at this end */
			scan->started = false;
			scan->current = LSM_INVALID_TID;
			return false;
		}
		lsm_scan_hint_page(scan);
		lsm_scan_judge(scan);
		scan->at = forward ? 0 : scan->nrows - 1;
	}
}

/* Go to the next range of a parallel scan. */
bool
lsm_scan_next_range(LsmScan scan)
{
	LsmTid		begin = scan->next_begin;
	LsmTid		end = scan->next_end;

	scan->next_begin = LSM_INVALID_TID;
	if (begin == LSM_INVALID_TID && !lsm_scan_take_range(scan, &begin, &end))
		return false;
	lsm_scan_drop_unit(scan);
	lsm_scan_set_range(scan, begin, end);
	return true;
}

/* Store the version of a row that the scan's snapshot sees; false: there is none. */
bool
lsm_scan_deliver(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot)
{
	Snapshot	snapshot = scan->base.rs_snapshot;

	if (row->changed && row->change >= 0 && IsMVCCSnapshot(snapshot))
		return lsm_scan_deliver_change(scan, row, slot);
	if (row->changed || !IsMVCCSnapshot(snapshot))
	{
		/* the scan has met its bottom already */
		if (row->changed && scan->have_unit && row->root >= scan->unit_lo &&
			row->root <= scan->unit_hi)
			lsm_stat_record(&scan->table->stat, row->root, scan->cached == NULL);
		return lsm_row_fetch(scan->base.rs_rd, scan->table, row->root, snapshot, slot, NULL);
	}
	lsm_stat_record(&scan->table->stat, row->root, scan->cached == NULL);
	if (!row->seen)
		return false;
	lsm_stat_row(&scan->table->stat, row->root, scan->cached == NULL);
	lsm_scan_store(scan, row, slot);
	return true;
}

/* Does a row meet the scan's keys?  The executor has none: they are for calls from C. */
static bool
lsm_scan_meets_keys(LsmScan scan, TupleTableSlot *slot)
{
	for (int i = 0; i < scan->base.rs_nkeys; i++)
	{
		ScanKey		key = &scan->base.rs_key[i];
		bool		isnull;
		Datum		value;

		if (key->sk_flags & SK_ISNULL)
			return false;
		value = slot_getattr(slot, key->sk_attno, &isnull);
		if (isnull || !DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value,
													  key->sk_argument)))
			return false;
	}
	return true;
}

bool
lsm_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) sscan;
	LsmScanRow	row;

	for (;;)
	{
		bool		found;

		if (unlikely(scan->newer_of != LSM_INVALID_TID))
		{
			found = lsm_row_fetch_newer(sscan->rs_rd, scan->table, scan->newer_of,
										sscan->rs_snapshot, slot);
			scan->newer_of = LSM_INVALID_TID;
		}
		else
		{
			if (!lsm_scan_next_row(scan, direction, &row))
			{
				if (sscan->rs_parallel != NULL && lsm_scan_next_range(scan))
					continue;
				break;
			}
			found = lsm_scan_deliver(scan, &row, slot);
			if (found && lsm_snapshot_sees_newer(sscan->rs_snapshot))
				scan->newer_of = row.root;
		}
		if (!found || !lsm_scan_meets_keys(scan, slot))
			continue;
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
	lsm_scan_rest(scan);
	ExecClearTuple(slot);
	return false;
}

/* ---- ranges of names ---- */

/*
 * A range scan finds rows by what the transaction calls them (I7).  Names among
 * the root LBs are roots, and the range of roots is all that has to be read.  A
 * range that reaches into the ring, as one without an upper bound does, may
 * hold the newest version of any row: then all are read, and those that
 * have no other record than their bottom are known by their root.
 */
void
lsm_scan_set_tidrange(TableScanDesc sscan, ItemPointer min, ItemPointer max)
{
	LsmScan		scan = (LsmScan) sscan;

	scan->name_lo = Max(lsm_tid_from_pointer(min), 1);
	scan->name_hi = lsm_tid_from_pointer(max);
	if (scan->name_lo > scan->name_hi || !LSM_TID_IS_VERSION(scan->name_hi))
		lsm_scan_set_range(scan, scan->name_lo, scan->name_hi);
	else
		lsm_scan_set_range(scan, 1, LSM_MAX_TID);
}

bool
lsm_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction,
							  TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) sscan;
	LsmScanRow	row;

	while (lsm_scan_next_row(scan, direction, &row))
	{
		LsmTid		name;

		CHECK_FOR_INTERRUPTS();
		if (!row.changed && (row.root < scan->name_lo || row.root > scan->name_hi))
			continue;
		if (!lsm_scan_deliver(scan, &row, slot))
			continue;
		name = lsm_tid_from_pointer(&slot->tts_tid);
		if (name < scan->name_lo || name > scan->name_hi)
			continue;
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
	lsm_scan_rest(scan);
	ExecClearTuple(slot);
	return false;
}

/* ---- single LBs ---- */

/* The first LB from lb on that may hold rows; InvalidBlockNumber: there is none. */
BlockNumber
lsm_scan_next_lb(LsmScan scan, BlockNumber lb)
{
	for (;;)
	{
		LsmView    *view = lsm_view_get(scan->base.rs_rd, scan->table);
		LsmRowRange *range;
		LsmManifestEntry *entry;
		LsmTid		first = lsm_scan_next_source(view, LSM_TID(lb, 1), &range, &entry);

		if (lsm_view_current(scan->table))
			return first == 0 ? InvalidBlockNumber : LSM_TID_LB(first);
	}
}

/* So many LBs have about the bytes in a store that requests read over; 0: there are none. */
static int64
lsm_scan_near_lbs(LsmView *view)
{
	double		bytes = (double) view->cold_base.stored;
	double		lbs = (double) view->cold_base.lbs;

	return bytes > 0 ? (int64) (LSM_COLD_GAP_BYTES * lbs / bytes) + 1 : 0;
}

/*
 * All rows of that LB come next, and then those of another one behind it that nobody has
 * told of.  If it has not been far from one to the next, blocks of a store are read as if
 * all of them were wanted: what is read over is no more than between blocks that are
 * known to be.
 */
void
lsm_scan_near_lb(LsmScan scan, BlockNumber lb)
{
	if (scan->near_lbs < 0)
	{
		scan->near_lbs = lsm_scan_near_lbs(lsm_view_get(scan->base.rs_rd, scan->table));
		scan->feed.next = lsm_scan_near_next;
	}
	else
		scan->lbs_near = lb > scan->near_lb && lb - scan->near_lb <= scan->near_lbs;
	scan->near_lb = lb;
}

/* Room for the rows of one LB. */
static void
lsm_scan_reserve_picked(LsmScan scan)
{
	if (scan->picked == NULL)
		scan->picked = MemoryContextAlloc(GetMemoryChunkContext(scan),
										  LSM_MAX_OFFSET * sizeof(LsmScanRow));
	scan->npicked = 0;
	scan->picked_at = 0;
}

/*
 * Pick the rows of one LB: all, or those with n offsets if that is not
 * negative.  They are in scan->picked, by offset, until the next call.
 *
 * The unit stays loaded, so that lsm_scan_deliver() has it at hand.  Where an LB
 * is spread over two, rows of the first are fetched by root.
 */
void
lsm_scan_pick_lb(LsmScan scan, BlockNumber lb, const OffsetNumber *offsets, int n)
{
	uint64		units = scan->units;
	LsmScanRow	row;

	lsm_scan_reserve_picked(scan);
	lsm_scan_drop_unit(scan);
	lsm_scan_set_range(scan, LSM_TID(lb, 1), LSM_TID(lb, LSM_LAST_OFFSET));
	if (n >= 0)
	{
		scan->some = true;
		memset(scan->offsets, 0, sizeof(scan->offsets));
		for (int i = 0; i < n; i++)
		{
			Assert(offsets[i] >= 1 && offsets[i] <= LSM_MAX_OFFSET);
			scan->offsets[offsets[i] / 64] |= UINT64CONST(1) << (offsets[i] % 64);
		}
	}
	for (;;)
	{
		bool		found;

		/* do not leave a unit that reaches to the end of the LB */
		if (scan->have_unit && scan->at >= scan->nrows && scan->unit_hi >= scan->end)
			return;
		found = lsm_scan_next_row(scan, ForwardScanDirection, &row);
		if (!found || scan->units != units)
			for (int i = 0; i < scan->npicked; i++)
			{
				scan->picked[i].changed = true;
				scan->picked[i].change = -1;
			}
		units = scan->units;
		if (!found)
			return;
		Assert(scan->npicked < LSM_MAX_OFFSET);
		scan->picked[scan->npicked++] = row;
	}
}

/*
 * The same for so few rows that it is cheaper to look each of them up by its
 * root when it is delivered.
 */
void
lsm_scan_pick_roots(LsmScan scan, BlockNumber lb, const OffsetNumber *offsets, int n)
{
	lsm_scan_reserve_picked(scan);
	for (int i = 0; i < n; i++)
	{
		LsmScanRow *row = &scan->picked[scan->npicked++];

		memset(row, 0, sizeof(*row));
		row->root = LSM_TID(lb, offsets[i]);
		row->changed = true;
		row->change = -1;
	}
}

/* ---- parallel ---- */

Size
lsm_parallelscan_estimate(Relation rel)
{
	return MAXALIGN(sizeof(LsmParallelScanData));
}

Size
lsm_parallelscan_initialize(Relation rel, ParallelTableScanDesc base)
{
	LsmParallelScan pscan = (LsmParallelScan) base;
	LsmRange   *ranges = palloc(LSM_RANGES_MAX * sizeof(LsmRange));

	(void) lsm_floor();			/* workers use this one */
	lsm_compat_set_parallel_rel(base, rel);
	base->phs_syncscan = false;
	pscan->nranges = lsm_ranges_of(rel, lsm_table_open(rel), ranges);
	for (int i = 0; i < pscan->nranges; i++)
		pscan->begins[i] = ranges[i].begin;
	pg_atomic_init_u32(&pscan->next, 0);
	pfree(ranges);
	LSM_STOP("parallel-ranges");
	return MAXALIGN(sizeof(LsmParallelScanData));
}

/* The ranges stay: they are good for any state of the table. */
void
lsm_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc base)
{
	LsmParallelScan pscan = (LsmParallelScan) base;

	pg_atomic_write_u32(&pscan->next, 0);
}
