/*-------------------------------------------------------------------------
 *
 * lsm_batch.c
 *	  A forward scan that hands out whole blocks.
 *
 * For those who look at columns rather than rows (src/exec).  A unit is what it is
 * for other scans (lsm_scan.c): a row-log page or a block of a base segment, taken
 * from the newest view.  Of a block a mask says which rows the snapshot sees as
 * they are there; rows with other records, in increments or the memtable, are
 * listed by root and have to be fetched (lsm_scan_deliver).  Where these are many, the
 * unit is rows.
 *
 * A block may be skipped by what its zone map says of the rows in it.  That says
 * nothing of rows that have been changed since, so these are listed all the
 * same: among them roots whose row turns out to be gone.
 *
 * Which columns they have been changed in is known for each increment, and each
 * generation in the memtable, as a whole (lsm_touch.h).  Rows of those that have touched nothing
 * that counts are not listed: they are what their block says (I20).
 *
 * A bitmap scan is the same for the roots that its bitmap tells of: units without any
 * are passed over.  If a block or page has few of them, they are listed, and its other
 * rows, and the increments over it, are not looked at.  So are all of a serializable
 * reader, which has to lock each row (I10).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_am.h"
#include "lsm_foresee.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* Roots that are collected at a time, at first and then. */
#define LSM_COLLECT_FIRST		64
#define LSM_COLLECT_BATCH		1024

/* If one row of a block in so many is changed, its rows are looked at one by one. */
#define LSM_BATCH_CHANGED		4

/* Up to so many rows of a unit that a bitmap tells of are looked up one by one. */
#define LSM_BATCH_FEW			4

/* A scan that has had fewer units than these may be one for few rows. */
#define LSM_BATCH_SHORT			64

/* From so many rows on, columns are decoded for whole blocks. */
#define LSM_BATCH_MANY			64

/*
 * A block that zone maps answer for has to be read after all if a row of it has changed.
 * When that is found, it is likely of the next ones, too: so many are read ahead as if
 * they all had to be.  Else each was looked for behind all that seemed to need no reading.
 */
#define LSM_BATCH_DISTRUST		64

/* Is the block one that need not be read ahead? */
static bool
lsm_batch_skip_ahead(void *arg, const LsmManifestEntry *entry, uint32 blockno)
{
	LsmBatchScan *batch = arg;
	LsmScan		scan = batch->scan;
	LsmSegmentReader *reader;
	LsmTid		lo = 0;
	LsmTid		hi = 0;

	if (batch->skip == NULL && batch->known == NULL)
		return false;
	reader = lsm_reader_get(scan->base.rs_rd, scan->table, entry);
	if (reader == NULL)
		return false;
	if (batch->known != NULL && batch->distrust == 0 &&
		(entry->flags & LSM_SEGFLAG_ALL_VISIBLE) &&
		batch->known(batch->arg, reader, blockno, &lo, &hi))
		return true;
	return batch->skip != NULL && batch->skip(batch->arg, reader, entry, blockno);
}

/* Is no block of the segment one that has to be read? */
static bool
lsm_batch_pass_ahead(void *arg, const LsmManifestEntry *entry)
{
	LsmBatchScan *batch = arg;

	return batch->pass != NULL && batch->pass(batch->arg, entry);
}

void
lsm_batch_begin(LsmBatchScan *batch, LsmScan scan)
{
	memset(batch, 0, sizeof(*batch));
	batch->scan = scan;
	scan->skip = lsm_batch_skip_ahead;
	scan->pass = lsm_batch_pass_ahead;
	scan->skip_arg = batch;
}

/* The next block that has roots of the bitmap. */
static bool
lsm_batch_wanted_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmBatchScan *batch = arg;
	LsmScan		scan = batch->scan;
	LsmTid		root;
	LsmTid		last;

	while ((root = lsm_wanted_tell(batch->wanted, scan->feed_tid, &last)) != LSM_INVALID_TID)
	{
		scan->feed_tid = root;
		if (lsm_scan_feed_block(scan, last, entry, blockno))
			return true;
		scan->feed_tid = last + 1;
	}
	return false;
}

static void
lsm_batch_wanted_restart(void *arg)
{
	LsmBatchScan *batch = arg;

	lsm_scan_feed_restart(batch->scan);
	lsm_wanted_tell_again(batch->wanted);
}

/*
 * Where the block of a root ends, or its LB in the row log.  As it may be asked while reading
 * ahead, by the view at hand.
 */
static LsmTid
lsm_batch_border(void *arg, LsmTid root, uint64 *bytes)
{
	LsmBatchScan *batch = arg;
	LsmScan		scan = batch->scan;
	LsmTid		next = root;
	LsmSegmentReader *reader = NULL;
	const LsmManifestEntry *entry;
	uint32		blockno;
	uint64		offset;
	uint32		stored;

	if (lsm_scan_base_block(scan->base.rs_rd, scan->table, false, &next, root, &entry, &blockno))
		reader = lsm_reader_get(scan->base.rs_rd, scan->table, entry);
	if (reader == NULL)
	{
		*bytes = BLCKSZ;
		return LSM_TID(LSM_TID_LB(root), LSM_LAST_OFFSET);
	}
	lsm_segment_block_info(reader, blockno, NULL, NULL, NULL, &offset, &stored);
	*bytes = stored;
	if (lsm_entry_is_cold(entry))
		lsm_wanted_set_cold(batch->wanted);
	return next - 1;
}

/* Make it a bitmap scan, just after it was begun. */
void
lsm_batch_want(LsmBatchScan *batch, LsmWanted *wanted)
{
	(void) lsm_view_get(batch->scan->base.rs_rd, batch->scan->table);
	lsm_wanted_set_border(wanted, lsm_batch_border, batch);
	batch->wanted = wanted;
	batch->scan->feed.next = lsm_batch_wanted_next;
	batch->scan->feed.restart = lsm_batch_wanted_restart;
	batch->scan->feed.arg = batch;
	batch->scan->feed.sure = true;
}

/* Count rows that were found as the server's own scans do. */
static void
lsm_batch_count(LsmBatchScan *batch, uint64 rows)
{
	if (batch->wanted != NULL)
		lsm_compat_count_fetched(batch->scan->base.rs_rd, rows);
	else
		lsm_compat_count_returned(batch->scan->base.rs_rd, rows);
}

static void
lsm_batch_drop(LsmBatchScan *batch)
{
	lsm_scan_drop_unit(batch->scan);
	batch->block = NULL;
	batch->by_row = false;
	batch->listed = false;
	batch->follows = false;
	batch->nrows = 0;
	batch->nseen = 0;
	batch->nchanged = 0;
}

/* Free what is made again when it is needed; there is no unit. */
static void
lsm_batch_free(LsmBatchScan *batch)
{
	if (batch->mask != NULL)
		pfree(batch->mask);
	if (batch->changed != NULL)
		pfree(batch->changed);
	if (batch->roots != NULL)
		pfree(batch->roots);
	if (batch->heads != NULL)
		pfree(batch->heads);
	if (batch->head_roots != NULL)
		pfree(batch->head_roots);
	batch->mask = NULL;
	batch->changed = NULL;
	batch->roots = batch->heads = batch->head_roots = NULL;
	batch->max_mask = batch->max_changed = batch->max_roots = batch->max_heads = 0;
	batch->nheads = batch->nactive = 0;
}

/* The scan itself is ended, or begun anew, by its owner. */
void
lsm_batch_end(LsmBatchScan *batch)
{
	lsm_batch_drop(batch);
	batch->scan->skip = NULL;
	batch->scan->pass = NULL;
	lsm_batch_free(batch);
	memset(batch, 0, sizeof(*batch));
}

/* Memory of the scan's for n things, of which the first kept are kept. */
static void *
lsm_batch_room(LsmBatchScan *batch, void *old, int *max, int n, int kept, Size size)
{
	void	   *new;

	if (n <= *max)
		return old;
	*max = Max(n, Max(*max * 2, LSM_COLLECT_FIRST));
	new = MemoryContextAllocHuge(GetMemoryChunkContext(batch->scan), *max * size);
	if (old != NULL)
	{
		memcpy(new, old, kept * size);
		pfree(old);
	}
	return new;
}

/* ---- changed rows ---- */

/* Add the roots from lo to hi that an increment has records of; false: the view is old. */
static bool
lsm_batch_collect_increment(LsmBatchScan *batch, LsmView *view, int increment, LsmTid lo,
							LsmTid hi, int *n)
{
	LsmScan		scan = batch->scan;
	LsmManifestEntry *entry = view->increments[increment];
	LsmTid		last = LSM_INVALID_TID;
	Relation	rel = scan->base.rs_rd;
	LsmSegmentReader *reader = lsm_reader_get(rel, scan->table, entry);
	uint32		blockno;
	uint32		blocks;

	if (reader == NULL)
		return false;
	blocks = lsm_segment_reader_blocks(reader);
	for (blockno = lsm_segment_find_block(reader, lo); blockno < blocks; blockno++)
	{
		LsmCachedBlock *cached = lsm_scan_pin_increment(scan, entry, blockno);
		int			rows;
		int			row;

		if (cached == NULL)
			return false;
		rows = lsm_block_rows(cached->block);
		for (row = lsm_block_find(cached->block, lo); row < rows; row++)
		{
			LsmTid		root = lsm_block_root(cached->block, row);

			if (root > hi)
				break;
			if (root == last)
				continue;
			last = root;
			batch->roots = lsm_batch_room(batch, batch->roots, &batch->max_roots, *n + 1, *n,
										  sizeof(LsmTid));
			batch->roots[(*n)++] = root;
			lsm_scan_add_place(scan, root, increment, blockno, row);
		}
		lsm_block_unpin_now(cached);
		if (row < rows)
			break;
	}
	return true;
}

/* The same of a memtable index; gen_lock is held. */
static void
lsm_batch_collect_memtable(LsmBatchScan *batch, LsmMemIndex *index, LsmTid lo, LsmTid hi, int *n)
{
	int			most = LSM_COLLECT_FIRST;
	int			got;
	bool		more;

	if (index->head == 0)
		return;
	do
	{
		int			max_heads = batch->max_heads;
		LsmTid	   *roots;

		batch->roots = lsm_batch_room(batch, batch->roots, &batch->max_roots, *n + most, *n,
									  sizeof(LsmTid));
		batch->heads = lsm_batch_room(batch, batch->heads, &max_heads, batch->nheads + most,
									  batch->nheads, sizeof(LsmTid));
		batch->head_roots = lsm_batch_room(batch, batch->head_roots, &batch->max_heads,
										   batch->nheads + most, batch->nheads,
										   sizeof(LsmTid));
		roots = batch->head_roots + batch->nheads;
		got = lsm_memindex_collect(index, lo, hi, roots, batch->heads + batch->nheads, most);
		memcpy(batch->roots + *n, roots, got * sizeof(LsmTid));
		batch->nheads += got;
		*n += got;
		if (got > 0)
			lo = roots[got - 1] + 1;
		more = got == most;
		most = LSM_COLLECT_BATCH;
	} while (more && lo <= hi);
}

static int
lsm_batch_compare(const void *a, const void *b)
{
	LsmTid		x = *(const LsmTid *) a;
	LsmTid		y = *(const LsmTid *) b;

	return x < y ? -1 : x > y;
}

/* Does what has been touched there count?  It is noted. */
static bool
lsm_batch_counts(LsmBatchScan *batch, const LsmTouch *touched, const LsmTouch *asked)
{
	int			natts = RelationGetNumberOfAttributes(batch->scan->base.rs_rd);

	lsm_touch_add(&batch->touched, touched, natts);
	return asked == NULL || lsm_touch_overlap(touched, asked, natts);
}

/* The same of a generation's index as a whole; gen_lock is held. */
static void
lsm_batch_collect_generation(LsmBatchScan *batch, uint32 generation, LsmTid lo, LsmTid hi,
							 const LsmTouch *asked, int *n)
{
	LsmMemIndex *index = lsm_table_index(batch->scan->table->shared, generation);
	LsmTouch	touched;

	lsm_touch_clear(&touched);
	lsm_touch_add_shared(&touched, &index->touched,
						 RelationGetNumberOfAttributes(batch->scan->base.rs_rd));
	if (lsm_batch_counts(batch, &touched, asked))
		lsm_batch_collect_memtable(batch, index, lo, hi, n);
}

/*
 * Collect all roots from lo to hi that have records besides their bottom, sorted, but
 * for those whose records certainly touch nothing of what is asked (NULL: all counts).
 * Returns how many; -1: the view is old.  If not, nothing that the caller has read
 * by the view has been put to another use.
 *
 * What is touched after that is not seen by the scan's snapshot: it is older, and an own
 * change has a later command id.
 */
static int
lsm_batch_collect(LsmBatchScan *batch, LsmView *view, LsmTid lo, LsmTid hi,
				  const LsmTouch *asked)
{
	LsmScan		scan = batch->scan;
	LsmTableShared *shared = scan->table->shared;
	int			n = 0;
	int			kept = 0;
	bool		current;
	int			at = -1;

	lsm_touch_clear(&batch->touched);
	batch->nactive = 0;
	batch->nheads = 0;
	scan->nplaces = 0;
	while ((at = lsm_view_next_increment(view, lo, hi, at + 1)) < view->nincrements)
	{
		LsmManifestEntry *entry = view->increments[at];
		const LsmTouch *touched = lsm_touched_by(scan->base.rs_rd, scan->table, entry,
												 batch->asked == NULL &&
												 batch->units < LSM_BATCH_SHORT);

		if (touched == NULL)
			return -1;
		if (lsm_batch_counts(batch, touched, asked) &&
			!lsm_batch_collect_increment(batch, view, at, lo, hi, &n))
			return -1;
	}
	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	if (!lsm_rowlog_ready(shared))
	{
		LWLockRelease(&shared->gen_lock);
		lsm_rowlog_build_index(scan->base.rs_rd, scan->table);
		return -1;
	}
	current = lsm_view_current(scan->table);
	if (current && shared->generation != 0)
	{
		lsm_batch_collect_generation(batch, shared->generation, lo, hi, asked, &n);
		batch->nactive = batch->nheads;
		if (shared->flushing != 0)
			lsm_batch_collect_generation(batch, shared->flushing, lo, hi, asked, &n);
	}
	LWLockRelease(&shared->gen_lock);
	if (!current)
		return -1;

	for (int i = 1; i < n; i++)
	{
		if (batch->roots[i] < batch->roots[i - 1])
		{
			qsort(batch->roots, n, sizeof(LsmTid), lsm_batch_compare);
			break;
		}
	}
	for (int i = 0; i < n; i++)
		if ((kept == 0 || batch->roots[kept - 1] != batch->roots[i]) &&
			(batch->wanted == NULL || lsm_wanted_has(batch->wanted, batch->roots[i])))
			batch->roots[kept++] = batch->roots[i];
	return kept;
}

/* List what was collected: all of it, or if a block was read, what is in it. */
static void
lsm_batch_list(LsmBatchScan *batch, int n)
{
	batch->changed = lsm_batch_room(batch, batch->changed, &batch->max_changed, n, 0,
									sizeof(LsmBatchRow));
	batch->nchanged = 0;
	for (int i = 0; i < n; i++)
	{
		LsmBatchRow *changed = &batch->changed[batch->nchanged];

		changed->root = batch->roots[i];
		changed->row = -1;
		if (batch->block != NULL)
		{
			changed->row = lsm_block_find(batch->block, changed->root);
			if (changed->row >= batch->nrows ||
				lsm_block_root(batch->block, changed->row) != changed->root ||
				!batch->mask[changed->row])
				continue;
			batch->mask[changed->row] = 0;
			batch->nseen--;
		}
		batch->nchanged++;
	}
}

/*
 * Have the changed rows of the block, which are listed, delivered as scans by row do with
 * what the memtable and increments have of them, whose places have been
 * collected.  Without an MVCC snapshot, or if it is serializable, they are looked up.
 */
static void
lsm_batch_follow(LsmBatchScan *batch, LsmView *view)
{
	LsmScan		scan = batch->scan;
	Snapshot	snapshot = scan->base.rs_snapshot;

	if (batch->block == NULL || batch->nchanged == 0 || IsolationIsSerializable() ||
		snapshot == NULL || !IsMVCCSnapshot(snapshot))
		return;
	lsm_scan_reserve_rows(scan, batch->nchanged);
	scan->nrows = batch->nchanged;
	scan->nchanges = 0;
	scan->changes_only = true;
	scan->marked_epoch = view->epoch;
	scan->marked_counter = view->counter;
	for (int i = 0; i < batch->nchanged; i++)
	{
		LsmScanRow *row = &scan->rows[i];

		row->root = batch->changed[i].root;
		row->at = batch->changed[i].row;
		row->changed = false;
		row->change = -1;
	}
	lsm_scan_add_changes(scan, batch->head_roots, batch->heads, batch->nactive);
	lsm_scan_add_changes(scan, batch->head_roots + batch->nactive,
						 batch->heads + batch->nactive, batch->nheads - batch->nactive);
	lsm_scan_add_places(scan);
	for (int i = 0; i < scan->nrows; i++)
		scan->rows[i].changed = true;
	batch->follows = true;
}

/* ---- units ---- */

/* Take rows out of the mask that the snapshot does not see. */
static void
lsm_batch_judge(LsmBatchScan *batch)
{
	LsmScan		scan = batch->scan;
	bool		uniform;

	if (scan->all_frozen || batch->nseen == 0)
		return;
	uniform = lsm_block_uniform(batch->block);
	for (int row = 0; row < batch->nrows; row++)
	{
		LsmScanRow	one = {.at = row};

		if (!batch->mask[row])
			continue;
		if (lsm_scan_sees(scan, &one))
		{
			if (uniform)
				return;
			continue;
		}
		if (uniform)
		{
			memset(batch->mask, 0, batch->nrows);
			batch->nseen = 0;
			return;
		}
		batch->mask[row] = 0;
		batch->nseen--;
	}
}

/* Make the pinned block the unit: its rows from lo to hi. */
static void
lsm_batch_open(LsmBatchScan *batch, LsmManifestEntry *entry, LsmTid lo, LsmTid hi)
{
	LsmScan		scan = batch->scan;
	int			from;
	int			to;

	batch->block = scan->cached->block;
	batch->nrows = lsm_block_rows(batch->block);
	batch->mask = lsm_batch_room(batch, batch->mask, &batch->max_mask, batch->nrows, 0, 1);
	from = lsm_block_find(batch->block, lo);
	to = Max(from, lsm_block_find(batch->block, hi + 1));
	memset(batch->mask, 0, batch->nrows);
	if (batch->wanted != NULL)
		batch->nseen = lsm_wanted_mask(batch->wanted, batch->block, lo, hi, batch->mask);
	else
	{
		memset(batch->mask + from, 1, to - from);
		batch->nseen = to - from;
	}
	scan->cached_holder = lsm_pin_holder();
	scan->entry = *entry;
	scan->all_frozen = (entry->flags & LSM_SEGFLAG_ALL_VISIBLE) ||
		lsm_block_all_frozen(batch->block);
}

/*
 * Make rows of what has been loaded, as for other scans, which has what they need
 * for many changed rows at hand; false: the view is old.
 *
 * The unit may begin with rows of the last one: a compaction draws the borders of
 * blocks anew.
 */
static bool
lsm_batch_by_row(LsmBatchScan *batch, LsmView *view)
{
	LsmScan		scan = batch->scan;
	int			had = lsm_scan_find_row(scan, scan->position, 0);

	scan->nrows -= had;
	if (had > 0)
		memmove(scan->rows, scan->rows + had, scan->nrows * sizeof(LsmScanRow));
	if (batch->wanted != NULL)
	{
		int			kept = 0;

		for (int i = 0; i < scan->nrows; i++)
			if (lsm_wanted_has(batch->wanted, scan->rows[i].root))
				scan->rows[kept++] = scan->rows[i];
		scan->nrows = kept;
		scan->whole_columns = kept >= LSM_BATCH_MANY;
	}
	if (!lsm_scan_mark_changed(scan, view))
		return false;
	if (batch->wanted != NULL && IsolationIsSerializable())
		for (int i = 0; i < scan->nrows; i++)
		{
			scan->rows[i].changed = true;
			scan->rows[i].change = -1;
		}
	batch->by_row = true;
	lsm_scan_hint_page(scan);
	lsm_scan_judge(scan);
	return true;
}

/* ---- bitmap scans ---- */

/* Rows from lo on are going to be looked up, those up to hi next: foresee some of them. */
static void
lsm_batch_foresee(LsmBatchScan *batch, LsmTid lo, LsmTid hi)
{
	LsmTid		roots[LSM_FORESEEN];
	int			n;

	if (lo >= batch->foreseen_from && hi <= batch->foreseen_to)
		return;
	n = lsm_wanted_peek(batch->wanted, lo, roots, LSM_FORESEEN);
	if (n < 2)
		return;
	batch->foreseen_from = lo;
	batch->foreseen_to = roots[n - 1];
	lsm_foresee_roots(batch->scan->table, roots, n);
}

/*
 * The roots that are wanted of those from lo to hi are few, or have to be locked: list
 * them.  False: they are not.
 */
static bool
lsm_batch_list_few(LsmBatchScan *batch, LsmTid lo, LsmTid hi)
{
	int			max = IsolationIsSerializable() ? PG_UINT16_MAX : LSM_BATCH_FEW;
	int			n;

	batch->roots = lsm_batch_room(batch, batch->roots, &batch->max_roots, max, 0,
								  sizeof(LsmTid));
	n = lsm_wanted_list(batch->wanted, lo, hi, batch->roots, max);
	if (n < 0)
		return false;
	lsm_batch_list(batch, n);
	batch->listed = true;
	lsm_batch_foresee(batch, lo, hi);
	return true;
}

/* Have the block of what is listed, which ends with last, with those that come next. */
static void
lsm_batch_read_listed(LsmBatchScan *batch, const LsmManifestEntry *entry, uint32 blockno,
					  LsmTid last)
{
	LsmScan		scan = batch->scan;
	LsmCachedBlock *cached;

	if (batch->nchanged == 0 || lsm_block_rows_at_hand(entry->uid, blockno))
		return;
	scan->asked_tid = last;
	cached = lsm_block_pin_ahead(scan->base.rs_rd, scan->table, entry, blockno, &scan->feed);
	if (cached != NULL)
		lsm_block_unpin_now(cached);
}

/* The rows of the block are to be fetched, each by itself. */
static void
lsm_batch_list_all(LsmBatchScan *batch)
{
	int			n = 0;

	batch->roots = lsm_batch_room(batch, batch->roots, &batch->max_roots, batch->nseen, 0,
								  sizeof(LsmTid));
	for (int row = 0; row < batch->nrows; row++)
		if (batch->mask[row])
			batch->roots[n++] = lsm_block_root(batch->block, row);
	batch->block = NULL;
	batch->nseen = 0;
	lsm_batch_list(batch, n);
	batch->listed = true;
}

/* Of a block that is skipped, which changes count?  NULL: all. */
static const LsmTouch *
lsm_batch_skip_asked(LsmBatchScan *batch, LsmTouch *asked)
{
	if (batch->skip_column == 0)
		return batch->asked;
	lsm_touch_clear(asked);
	lsm_touch_set(asked, batch->skip_column);
	return asked;
}

/*
 * If a segment has no row that is wanted, and none of those from first on has changed so
 * that it counts, pass over what is left of it: > 0.  0: it has, some have, or may have; < 0: the
 * view is old.
 */
static int
lsm_batch_leap(LsmBatchScan *batch, LsmView *view, const LsmManifestEntry *entry, LsmTid first)
{
	LsmScan		scan = batch->scan;
	LsmTid		hi = Min(entry->last_tid, scan->end);
	LsmSegmentReader *reader;
	uint32		blocks = entry->blocks;
	LsmTouch	asked;
	int			n;

	if (batch->wanted != NULL || batch->changed_segment == entry->uid ||
		lsm_view_increments_meet(view, first, hi) || !lsm_batch_pass_ahead(batch, entry))
		return 0;
	scan->unit_lo = first;
	n = lsm_batch_collect(batch, view, first, hi, lsm_batch_skip_asked(batch, &asked));
	if (n < 0)
		return -1;
	if (n > 0)
	{
		batch->changed_segment = entry->uid;
		return 0;
	}
	if (first > entry->first_tid || hi < entry->last_tid)
	{
		reader = lsm_reader_get(scan->base.rs_rd, scan->table, entry);
		if (reader == NULL)
			return -1;
		blocks = lsm_segment_find_block(reader, hi);
		blocks -= lsm_segment_find_block(reader, first) - 1;
	}
	scan->unit_hi = entry->last_tid;
	batch->blocks_skipped += blocks;
	return 1;
}

/* The block that first lies in, or is the next one; false: the view is old. */
static bool
lsm_batch_load_block(LsmBatchScan *batch, LsmView *view, LsmManifestEntry *entry, LsmTid first)
{
	LsmScan		scan = batch->scan;
	Relation	rel = scan->base.rs_rd;
	LsmSegmentReader *reader;
	uint32		blockno;
	LsmTid		block_first;
	LsmTid		last;
	uint32		rows;
	uint64		offset;
	uint32		stored;
	bool		skipped;
	LsmTid		lo;
	LsmTid		hi;
	LsmTid		known_lo;
	LsmTid		known_hi;
	LsmTouch	skip_asked;
	int			n;
	int			many;

	n = lsm_batch_leap(batch, view, entry, first);
	if (n != 0)
		return n > 0;
	reader = lsm_reader_get(rel, scan->table, entry);
	if (reader == NULL)
		return false;
	blockno = lsm_segment_find_block(reader, first);
	if (blockno >= lsm_segment_reader_blocks(reader))
		lsm_segment_corrupt_entry(rel, entry, "its block index does not reach its last TID");
	lsm_segment_block_info(reader, blockno, &block_first, &last, &rows, &offset, &stored);
	scan->unit_lo = first;
	scan->unit_hi = last;
	lo = first;
	hi = Min(last, scan->end);
	skipped = batch->skip != NULL && batch->skip(batch->arg, reader, entry, blockno);
	if (!skipped && batch->wanted != NULL && lsm_batch_list_few(batch, lo, hi))
	{
		lsm_batch_read_listed(batch, entry, blockno, last);
		return true;
	}
	known_lo = lo;
	known_hi = hi;
	if (!skipped && batch->known != NULL && (entry->flags & LSM_SEGFLAG_ALL_VISIBLE) &&
		lo <= block_first && hi == last &&
		batch->known(batch->arg, reader, blockno, &known_lo, &known_hi))
	{
		n = lsm_batch_collect(batch, view, known_lo, known_hi, batch->asked);
		if (n < 0)
			return false;
		batch->distrust = n > 0 ? LSM_BATCH_DISTRUST : Max(batch->distrust - 1, 0);
		if (n == 0)
		{
			/* increments have been opened since */
			reader = lsm_reader_get(rel, scan->table, entry);
			if (reader == NULL)
				return false;
			batch->take(batch->arg, reader, blockno, rows);
			batch->blocks_counted++;
			lsm_compat_count_returned(rel, rows);
			return true;
		}
	}
	if (!skipped)
	{
		scan->asked_tid = last;
		scan->cached = lsm_block_pin_ahead(rel, scan->table, entry, blockno, &scan->feed);
		if (scan->cached == NULL)
			return false;
		lsm_batch_open(batch, entry, lo, hi);
		if (batch->wanted != NULL && IsolationIsSerializable())
		{
			lsm_batch_list_all(batch);
			batch->blocks_read++;
			return true;
		}
	}
	n = lsm_batch_collect(batch, view, lo, hi,
						  skipped ? lsm_batch_skip_asked(batch, &skip_asked) : batch->asked);
	if (n < 0)
		return false;
	many = (batch->wanted != NULL ? batch->nseen : (int) rows) / LSM_BATCH_CHANGED;
	if (n > 0 && n >= many && !(skipped && batch->wanted != NULL))
	{
		batch->block = NULL;
		lsm_scan_drop_unit(scan);
		if (!lsm_scan_load_block(scan, entry, first, true))
			return false;
		batch->blocks_read++;
		return lsm_batch_by_row(batch, view);
	}
	lsm_batch_list(batch, n);
	lsm_batch_follow(batch, view);
	if (skipped)
		batch->blocks_skipped++;
	else
	{
		int			found = batch->nseen;

		lsm_batch_judge(batch);
		lsm_stat_block(&scan->table->stat, hi, found, batch->nseen);
		lsm_batch_count(batch, batch->nseen);
		batch->blocks_read++;
	}
	return true;
}

/*
 * The page of the row log that first lies in; false: the view is old.  Few rows of it
 * are looked up, as those of a block are: that costs less than to copy it and to look
 * for changes of all its rows.
 */
static bool
lsm_batch_load_page(LsmBatchScan *batch, LsmView *view, LsmRowRange *range, LsmTid first)
{
	LsmScan		scan = batch->scan;
	LsmTid		last = LSM_TID(LSM_TID_LB(first), LSM_LAST_OFFSET);

	/* a serializable reader would look up offsets that a lossy page may have */
	if (batch->wanted != NULL && !IsolationIsSerializable() &&
		lsm_batch_list_few(batch, first, Min(last, scan->end)))
	{
		scan->unit_lo = first;
		scan->unit_hi = last;
		return true;
	}
	lsm_scan_load_page(scan, view, range, first, true);
	return lsm_batch_by_row(batch, view);
}

/*
 * The next unit of the scan's range; of a parallel scan, also of the next ranges.
 * The one before it is given up.  False at the end.
 */
bool
lsm_batch_next(LsmBatchScan *batch)
{
	LsmScan		scan = batch->scan;

	if (!scan->started)
	{
		scan->started = true;
		scan->forward = true;
		scan->position = scan->begin;
	}
	for (;;)
	{
		LsmView    *view;
		LsmRowRange *range;
		LsmManifestEntry *entry;
		LsmTid		first;

		CHECK_FOR_INTERRUPTS();
		lsm_batch_drop(batch);
		first = 0;
		if (batch->wanted != NULL)
		{
			scan->position = lsm_wanted_next(batch->wanted, scan->position);
			if (scan->position == LSM_INVALID_TID)
				scan->position = scan->end + 1;
		}
		if (scan->position <= scan->end && scan->begin <= scan->end)
		{
			view = lsm_view_get(scan->base.rs_rd, scan->table);
			first = lsm_scan_next_source(view, scan->position, &range, &entry);
			if ((first == 0 || first > scan->end) && !lsm_view_current(scan->table))
				continue;
		}
		if (first == 0 || first > scan->end)
		{
			if (scan->base.rs_parallel == NULL || !lsm_scan_next_range(scan))
			{
				lsm_batch_free(batch);
				lsm_scan_rest(scan);
				return false;
			}
			scan->started = true;
			scan->forward = true;
			scan->position = scan->begin;
			continue;
		}
		if (batch->wanted != NULL && first > scan->position)
		{
			/* there is nothing before it, and perhaps nothing wanted in it */
			if (lsm_view_current(scan->table))
				scan->position = first;
			continue;
		}
		if (range == NULL)
		{
			if (batch->prepare != NULL && batch->prepare(batch->arg, entry))
				continue;
			if (!lsm_batch_load_block(batch, view, entry, first))
				continue;
		}
		else if (!lsm_batch_load_page(batch, view, range, first))
			continue;
		if (batch->wanted != NULL)
			batch->recheck = lsm_wanted_enter(batch->wanted, scan->unit_hi);
		scan->have_unit = true;
		scan->units++;
		batch->units++;
		lsm_stat_tick(&scan->table->stat);
		scan->position = scan->unit_hi + 1;
		if (batch->block == NULL && !batch->by_row && batch->nchanged == 0)
			continue;
		return true;
	}
}
