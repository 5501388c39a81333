/*-------------------------------------------------------------------------
 *
 * lsm_compact.c
 *	  Minor and major compaction.
 *
 * Minor merges increments into fewer increments.  Major merges the oldest
 * increments into the base segments that they touch; the others stay as they are.
 * Both take increments that are adjacent in age, so that the order of a row's
 * records stays the order of the segments (I11): a major takes all from the oldest
 * up to the first that a running minor has claimed, a minor all that are newer
 * than what a running major has claimed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "lsm_compact.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* Small neighbours in the baseline that a major compaction makes one. */
#define LSM_SMALL_RUN			4

/* ---- claims ---- */

static LsmTableShared *claimed_minor;
static LsmTableShared *claimed_major;

static void
lsm_claim_release(uint16 owner)
{
	LsmTableShared **claimed = owner == LSM_OWNER_MINOR ? &claimed_minor : &claimed_major;
	LsmTableShared *shared = *claimed;

	if (shared == NULL)
		return;
	*claimed = NULL;
	LWLockAcquire(&shared->edit_lock, LW_EXCLUSIVE);
	if (owner == LSM_OWNER_MINOR)
		shared->minor_lo = shared->minor_hi = 0;
	else
		shared->major_hi = 0;
	LWLockRelease(&shared->edit_lock);
}

/* A job that was not ended by itself ends with its transaction. */
void
lsm_compact_xact_end(void)
{
	lsm_claim_release(LSM_OWNER_MINOR);
	lsm_claim_release(LSM_OWNER_MAJOR);
}

/* ---- a position in a segment ---- */

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
} LsmCursor;

/*
 * The segment's entry in the newest view: its outcomes may be newer than those
 * that the job began with.  The segment cannot go while the job has its lock.
 */
static void
lsm_cursor_refresh(LsmCursor *cursor)
{
	LsmView    *view = lsm_view_get(cursor->rel, cursor->table);

	if (cursor->view_counter == view->counter)
		return;
	for (int i = 0; i < view->nentries; i++)
	{
		if (view->entries[i].type == LSM_ENTRY_SEGMENT &&
			view->entries[i].uid == cursor->entry.uid)
		{
			cursor->entry = view->entries[i];
			cursor->view_counter = view->counter;
			return;
		}
	}
	elog(ERROR, "segment " UINT64_FORMAT " of table \"%s\" has gone during its compaction",
		 cursor->entry.uid, RelationGetRelationName(cursor->rel));
}

static LsmSegmentReader *
lsm_cursor_reader(LsmCursor *cursor)
{
	for (;;)
	{
		LsmSegmentReader *reader;

		lsm_cursor_refresh(cursor);
		reader = lsm_reader_get(cursor->rel, cursor->table, &cursor->entry);
		if (reader != NULL)
			return reader;
	}
}

static void
lsm_cursor_close(LsmCursor *cursor)
{
	if (cursor->cached != NULL)
		lsm_block_unpin(cursor->cached, lsm_xact_number);
	cursor->cached = NULL;
	cursor->root = LSM_INVALID_TID;
}

/* Go to the first row of the block blockno, or to the end. */
static void
lsm_cursor_block(LsmCursor *cursor)
{
	lsm_cursor_close(cursor);
	if (cursor->blockno >= cursor->nblocks)
		return;
	while (cursor->cached == NULL)
	{
		CHECK_FOR_INTERRUPTS();
		lsm_cursor_refresh(cursor);
		cursor->cached = lsm_block_pin(cursor->rel, cursor->table, &cursor->entry,
									   cursor->blockno);
	}
	cursor->row = 0;
	cursor->root = lsm_block_root(cursor->cached->block, 0);
}

static void
lsm_cursor_open(LsmCursor *cursor, Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	memset(cursor, 0, sizeof(*cursor));
	cursor->rel = rel;
	cursor->table = table;
	cursor->entry = *entry;
	cursor->nblocks = lsm_segment_reader_blocks(lsm_cursor_reader(cursor));
	lsm_cursor_block(cursor);
}

static void
lsm_cursor_next(LsmCursor *cursor)
{
	cursor->row++;
	if (cursor->row < lsm_block_rows(cursor->cached->block))
	{
		cursor->root = lsm_block_root(cursor->cached->block, cursor->row);
		return;
	}
	cursor->blockno++;
	lsm_cursor_block(cursor);
}

/*
 * Add the cursor's record to the merge.  The block stays pinned by the merge's
 * record until lsm_compact_row_done(), as its columns may be read until then.
 */
static void
lsm_cursor_add(LsmCursor *cursor, LsmMerge *merge)
{
	LsmMergeRecord *added = lsm_merge_add(merge);

	lsm_block_head(cursor->cached->block, cursor->row, &added->head);
	if (added->head.xid != 0)
		lsm_head_resolve(&cursor->entry, lsm_cursor_reader(cursor), &added->head);
	added->cached = lsm_block_repin(cursor->cached);
	added->row = cursor->row;
}

/* ---- a set of increments, merged by root ---- */

typedef struct LsmCompact
{
	Relation	rel;
	LsmTable   *table;
	LsmMerge   *merge;
	int			ncursors;
	LsmCursor  *cursors;		/* newest segment first */
	int			nranges;		/* root ranges of the row log at the beginning */
	LsmRowRange *ranges;
	int64		rows;
	int64		bytes;
} LsmCompact;

/* The smallest root that a cursor stands on. */
static LsmTid
lsm_compact_peek(LsmCompact *compact)
{
	LsmTid		root = LSM_INVALID_TID;

	for (int i = 0; i < compact->ncursors; i++)
		if (compact->cursors[i].root != LSM_INVALID_TID &&
			(root == LSM_INVALID_TID || compact->cursors[i].root < root))
			root = compact->cursors[i].root;
	return root;
}

/* Add all records of a root, newest first, and go past them. */
static void
lsm_compact_take(LsmCompact *compact, LsmTid root)
{
	for (int i = 0; i < compact->ncursors; i++)
	{
		while (compact->cursors[i].root == root)
		{
			lsm_cursor_add(&compact->cursors[i], compact->merge);
			lsm_cursor_next(&compact->cursors[i]);
			compact->rows++;
		}
	}
}

/* Merge what has been added for a root; gives the blocks' pins back. */
static void
lsm_compact_row(LsmCompact *compact, LsmTid root, bool has_bottom, bool bottom_known)
{
	LsmMerge   *merge = compact->merge;
	int			n = merge->nrecords;

	lsm_merge_row(merge, root, has_bottom, bottom_known);
	for (int i = 0; i < n; i++)
		lsm_block_unpin(merge->records[i].cached, lsm_xact_number);
}

/*
 * Was the row's INSERT still in the row log when the job began (in a range that
 * a flush had left there)?  Then its bottom is not among the job's inputs.
 */
static bool
lsm_compact_in_rowlog(LsmCompact *compact, LsmTid root)
{
	for (int i = 0; i < compact->nranges; i++)
		if (LSM_TID_LB(root) >= compact->ranges[i].lb &&
			LSM_TID_LB(root) - compact->ranges[i].lb < compact->ranges[i].pages.npages)
			return true;
	return false;
}

/* ---- minor ---- */

static int
lsm_entry_cmp_age(const void *a, const void *b)
{
	const LsmManifestEntry *x = a;
	const LsmManifestEntry *y = b;

	if (x->gen_hi != y->gen_hi)
		return x->gen_hi > y->gen_hi ? -1 : 1;
	return x->segment_id > y->segment_id ? -1 : x->segment_id < y->segment_id;
}

/* Claim increments for a job; newest first.  Returns how many. */
static int
lsm_claim(Relation rel, LsmTable *table, uint16 owner, LsmManifestEntry **entries)
{
	LsmTableShared *shared = table->shared;
	LsmView    *view;
	int			n = 0;

	LWLockAcquire(&shared->edit_lock, LW_EXCLUSIVE);
	view = lsm_view_get(rel, table);
	*entries = palloc(Max(view->nincrements, 1) * sizeof(LsmManifestEntry));
	for (int i = 0; i < view->nincrements; i++)
	{
		LsmManifestEntry *entry = view->increments[i];

		if (owner == LSM_OWNER_MINOR && entry->gen_lo <= shared->major_hi)
			continue;
		if (owner == LSM_OWNER_MAJOR && shared->minor_lo != 0 && entry->gen_hi >= shared->minor_lo)
			continue;
		(*entries)[n++] = *entry;
	}
	qsort(*entries, n, sizeof(LsmManifestEntry), lsm_entry_cmp_age);
	if (n > 0 && owner == LSM_OWNER_MINOR)
	{
		shared->minor_lo = (*entries)[n - 1].gen_lo;
		shared->minor_hi = (*entries)[0].gen_hi;
		for (int i = 0; i < n; i++)
			shared->minor_lo = Min(shared->minor_lo, (*entries)[i].gen_lo);
		claimed_minor = shared;
	}
	else if (n > 0)
	{
		shared->major_hi = (*entries)[0].gen_hi;
		claimed_major = shared;
	}
	LWLockRelease(&shared->edit_lock);
	return n;
}

static void
lsm_compact_begin(LsmCompact *compact, Relation rel, LsmTable *table, uint16 owner,
				  LsmManifestEntry *increments, int n, uint32 expected_pages)
{
	uint32		gen_lo = n > 0 ? increments[0].gen_lo : 0;
	uint32		gen_hi = n > 0 ? increments[0].gen_hi : 0;

	memset(compact, 0, sizeof(*compact));
	compact->rel = rel;
	compact->table = table;
	for (int i = 0; i < n; i++)
	{
		gen_lo = Min(gen_lo, increments[i].gen_lo);
		gen_hi = Max(gen_hi, increments[i].gen_hi);
		compact->bytes += increments[i].stored_bytes;
	}
	compact->merge = lsm_merge_create(rel, table, owner, gen_lo, gen_hi, expected_pages);
	compact->cursors = palloc(Max(n, 1) * sizeof(LsmCursor));
	for (int i = 0; i < n; i++)
		lsm_cursor_open(&compact->cursors[compact->ncursors++], rel, table, &increments[i]);
}

static void
lsm_minor_run(Relation rel, LsmTable *table, LsmJobStats *stats)
{
	LsmManifestEntry *increments;
	int			n = lsm_claim(rel, table, LSM_OWNER_MINOR, &increments);
	LsmCompact	compact;
	LsmEdit    *edit;
	LsmTid		root;

	if (n < 2)
		return;					/* nothing to merge */
	lsm_compact_begin(&compact, rel, table, LSM_OWNER_MINOR, increments, n, 64);
	compact.merge->increment.expected_pages = Max(compact.bytes / BLCKSZ, 2);
	while ((root = lsm_compact_peek(&compact)) != LSM_INVALID_TID)
	{
		lsm_compat_vacuum_delay();
		lsm_compact_take(&compact, root);
		lsm_compact_row(&compact, root, false, false);
	}
	lsm_merge_finish(compact.merge);

	LSM_STOP("minor-before-swap");
	edit = lsm_edit_begin(rel, table, LSM_OP_MINOR);
	for (int i = 0; i < n; i++)
		lsm_edit_remove_segment(edit, increments[i].uid);
	lsm_merge_publish(compact.merge, edit, stats);
	lsm_edit_commit(edit);
	LSM_STOP("minor-after-swap");
	stats->segments_in += n;
	stats->rows_in += compact.rows;
	stats->bytes_read += compact.bytes;
}

/* ---- major ---- */

/* Does an increment have a block that touches these roots? */
static bool
lsm_increment_touches(LsmCursor *cursor, LsmTid first, LsmTid last)
{
	LsmSegmentReader *reader = lsm_cursor_reader(cursor);
	uint32		blockno = lsm_segment_find_block(reader, first);
	LsmTid		block_first;
	LsmTid		block_last;
	uint32		rows;
	uint64		offset;
	uint32		stored;

	if (blockno >= lsm_segment_reader_blocks(reader))
		return false;
	lsm_segment_block_info(reader, blockno, &block_first, &block_last, &rows, &offset, &stored);
	return block_first <= last;
}

/*
 * Must a base segment be written again?  If an increment touches it, or if it
 * has rows of rolled-back transactions while all of its others are settled.
 */
static bool
lsm_base_needs_rewrite(LsmCompact *compact, const LsmManifestEntry *entry)
{
	bool		aborted = false;

	if (entry->rows == 0)
		return true;
	for (int i = 0; i < compact->ncursors; i++)
		if (lsm_increment_touches(&compact->cursors[i], entry->first_tid, entry->last_tid))
			return true;
	for (uint32 i = 0; i < entry->nunresolved; i++)
	{
		int			outcome = lsm_entry_outcome(entry, i);

		if (outcome == LSM_OUTCOME_UNKNOWN && i < LSM_MAX_OUTCOMES)
			return false;
		if (outcome != LSM_OUTCOME_COMMITTED)
			aborted = true;
	}
	return aborted && entry->max_xid < compact->merge->horizons.settled;
}

/*
 * Did a range that a flush had left in the row log lie between two neighbours in
 * the baseline?  Its rows will come between them as a segment (I13).
 */
static bool
lsm_compact_range_between(LsmCompact *compact, LsmTid left, LsmTid right)
{
	for (int i = 0; i < compact->nranges; i++)
		if (LSM_TID(compact->ranges[i].lb, 0) > left && LSM_TID(compact->ranges[i].lb, 0) < right)
			return true;
	return false;
}

/*
 * Choose the base segments to write again: those that need it, and runs of at
 * least LSM_SMALL_RUN neighbours that are small, as many flushes of little leave
 * them behind.
 */
static bool *
lsm_major_choose(LsmCompact *compact, const LsmManifestEntry *bases, int nbases)
{
	bool	   *chosen = palloc0(Max(nbases, 1) * sizeof(bool));
	uint64		small = (uint64) lsm_segment_size * 1024 / 16;
	int			run = 0;

	for (int i = 0; i < nbases; i++)
	{
		if (lsm_base_needs_rewrite(compact, &bases[i]))
			chosen[i] = true;
		run = bases[i].stored_bytes < small ? run + 1 : 0;
		if (run == LSM_SMALL_RUN)
			for (int j = i - run + 1; j < i; j++)
				chosen[j] = true;
		if (run >= LSM_SMALL_RUN)
			chosen[i] = true;
	}
	return chosen;
}

/* Write a base segment again with what the increments say of its rows. */
static void
lsm_major_segment(LsmCompact *compact, const LsmManifestEntry *entry)
{
	LsmCursor	base;

	lsm_cursor_open(&base, compact->rel, compact->table, entry);
	while (base.root != LSM_INVALID_TID)
	{
		LsmTid		root = base.root;
		LsmTid		stray;

		lsm_compat_vacuum_delay();
		/* records of rows that have gone */
		while ((stray = lsm_compact_peek(compact)) != LSM_INVALID_TID && stray < root)
		{
			lsm_compact_take(compact, stray);
			lsm_compact_row(compact, stray, false, !lsm_compact_in_rowlog(compact, stray));
		}
		if (stray == root)
			lsm_compact_take(compact, root);
		lsm_cursor_add(&base, compact->merge);
		lsm_cursor_next(&base);
		compact->rows++;
		lsm_compact_row(compact, root, true, true);
	}
	compact->bytes += entry->stored_bytes;
}

static void
lsm_major_run(Relation rel, LsmTable *table, LsmJobStats *stats)
{
	LsmManifestEntry *increments;
	LsmManifestEntry *bases;
	uint64	   *removed;
	bool	   *chosen;
	uint64		input_bytes;
	int			n = lsm_claim(rel, table, LSM_OWNER_MAJOR, &increments);
	int			nbases;
	int			nremoved = 0;
	int			previous = -1;
	LsmCompact	compact;
	LsmEdit    *edit;
	LsmView    *view;
	LsmTid		root;

	lsm_compact_begin(&compact, rel, table, LSM_OWNER_MAJOR, increments, n, 2);
	view = lsm_view_get(rel, table);
	nbases = view->nbase;
	bases = palloc(Max(nbases, 1) * sizeof(LsmManifestEntry));
	compact.ranges = palloc(Max(view->meta.nranges, 1) * sizeof(LsmRowRange));
	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind == LSM_RANGE_ROOT)
			compact.ranges[compact.nranges++] = view->meta.ranges[i];
	for (int i = 0; i < nbases; i++)
		bases[i] = *view->base[i];
	removed = palloc((nbases + n) * sizeof(uint64));
	chosen = lsm_major_choose(&compact, bases, nbases);
	input_bytes = compact.bytes;
	for (int i = 0; i < nbases; i++)
		if (chosen[i])
			input_bytes += bases[i].stored_bytes;
	compact.merge->bottom.expected_pages =
		Max(Min(input_bytes, (uint64) lsm_segment_size * 1024) / BLCKSZ, 2);
	compact.merge->increment.expected_pages = Max(compact.bytes / 4 / BLCKSZ, 2);
	for (int i = 0; i < nbases; i++)
	{
		if (!chosen[i])
			continue;
		if (previous != i - 1 ||
			lsm_compact_range_between(&compact, bases[i - 1].last_tid, bases[i].first_tid))
			lsm_merge_break(compact.merge);
		previous = i;
		lsm_major_segment(&compact, &bases[i]);
		removed[nremoved++] = bases[i].uid;
	}
	while ((root = lsm_compact_peek(&compact)) != LSM_INVALID_TID)
	{
		lsm_compat_vacuum_delay();
		lsm_compact_take(&compact, root);
		lsm_compact_row(&compact, root, false, !lsm_compact_in_rowlog(&compact, root));
	}
	lsm_merge_finish(compact.merge);
	for (int i = 0; i < n; i++)
		removed[nremoved++] = increments[i].uid;
	if (nremoved == 0)
		return;

	LSM_STOP("major-before-swap");
	edit = lsm_edit_begin(rel, table, LSM_OP_MAJOR);
	for (int i = 0; i < nremoved; i++)
		lsm_edit_remove_segment(edit, removed[i]);
	lsm_merge_publish(compact.merge, edit, stats);
	lsm_edit_commit(edit);
	LSM_STOP("major-after-swap");
	stats->segments_in += nremoved;
	stats->rows_in += compact.rows;
	stats->bytes_read += compact.bytes;
}

/* ---- outcomes and flags ---- */

/*
 * Give every segment's entry the outcomes of transactions that have ended by
 * now, and the flag of a segment whose rows everybody sees: it becomes baseline
 * without being written again.
 */
void
lsm_resolve_segments(Relation rel)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmHorizons horizons;
	LsmView    *view;
	LsmManifestEntry *changed;
	int			nchanged = 0;
	LsmEdit    *edit;
	uint64		conflict = 0;

	lsm_horizons(rel, &horizons);
restart:
	view = lsm_view_get(rel, table);
	changed = palloc(Max(view->nentries, 1) * sizeof(LsmManifestEntry));
	nchanged = 0;
	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry entry = view->entries[i];
		uint64	   *xids = NULL;
		uint32		n = 0;
		bool		dirty = false;
		bool		aborted = false;

		if (entry.type != LSM_ENTRY_SEGMENT || entry.kind == LSM_SEGKIND_DEAD ||
			(entry.flags & LSM_SEGFLAG_ALL_VISIBLE))
			continue;
		if (entry.nunresolved > 0)
		{
			LsmSegmentReader *reader = lsm_reader_get(rel, table, view->entries + i);

			if (reader == NULL)
				goto restart;
			xids = lsm_segment_unresolved(reader, &n);
		}
		entry.min_unresolved = 0;
		for (uint32 j = 0; j < n; j++)
		{
			int			outcome = lsm_entry_outcome(&entry, j);

			if (outcome == LSM_OUTCOME_UNKNOWN)
			{
				LsmRowHead	head = {0};

				head.xid = xids[j];
				head.info = LSM_REC_INSERT;
				switch (lsm_xid_state(&head))
				{
					case LSM_XID_COMMITTED:
						outcome = LSM_OUTCOME_COMMITTED;
						break;
					case LSM_XID_ABORTED:
						outcome = LSM_OUTCOME_ABORTED;
						break;
					default:
						break;
				}
				if (outcome != LSM_OUTCOME_UNKNOWN && j < LSM_MAX_OUTCOMES)
				{
					lsm_entry_set_outcome(&entry, j, outcome);
					dirty = true;
				}
			}
			if (outcome == LSM_OUTCOME_ABORTED)
				aborted = true;
			if (entry.min_unresolved == 0 &&
				(outcome == LSM_OUTCOME_UNKNOWN || j >= LSM_MAX_OUTCOMES))
				entry.min_unresolved = xids[j];
		}
		if (entry.min_unresolved != view->entries[i].min_unresolved)
			dirty = true;
		if (entry.kind == LSM_SEGKIND_INSERT && entry.min_unresolved == 0 && !aborted &&
			entry.max_xid < horizons.settled)
		{
			entry.kind = LSM_SEGKIND_BASELINE;
			entry.flags |= LSM_SEGFLAG_ALL_VISIBLE;
			conflict = Max(conflict, entry.max_xid);
			dirty = true;
		}
		if (dirty)
			changed[nchanged++] = entry;
	}
	if (nchanged == 0)
		return;

	edit = lsm_edit_begin(rel, table, LSM_OP_VACUUM);
	edit->conflict_xid = conflict;
	for (int i = 0; i < nchanged; i++)
	{
		LsmManifestEntry *entry = lsm_edit_change(edit, changed[i].uid);

		/* a segment that has been compacted meanwhile is gone */
		if (entry == NULL)
			continue;

		/* someone else may have known more by now: nothing is taken back */
		if (changed[i].flags & LSM_SEGFLAG_ALL_VISIBLE)
			entry->kind = changed[i].kind;
		entry->flags |= changed[i].flags;
		if (entry->min_unresolved != 0 &&
			(changed[i].min_unresolved == 0 || changed[i].min_unresolved > entry->min_unresolved))
			entry->min_unresolved = changed[i].min_unresolved;
		for (uint32 j = 0; j < Min(entry->nunresolved, LSM_MAX_OUTCOMES); j++)
			if (lsm_entry_outcome(entry, j) == LSM_OUTCOME_UNKNOWN)
				lsm_entry_set_outcome(entry, j, lsm_entry_outcome(&changed[i], j));
	}
	lsm_edit_commit(edit);
	pfree(changed);
}

/* ---- entry points ---- */

typedef void (*LsmJobRun) (Relation rel, LsmTable *table, LsmJobStats *stats);

static void
lsm_job_run(Relation rel, uint16 owner, LsmJobRun run, LsmJobStats *stats)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm compaction",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller;

	lsm_job_lock(rel, owner);
	lsm_resolve_segments(rel);
	caller = MemoryContextSwitchTo(context);
	PG_TRY();
	{
		run(rel, lsm_table_open(rel), stats);
	}
	PG_CATCH();
	{
		/* the claim must not outlive the lock, which a subtransaction may end */
		LWLockReleaseAll();
		lsm_claim_release(owner);
		PG_RE_THROW();
	}
	PG_END_TRY();
	lsm_claim_release(owner);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	lsm_job_unlock(rel, owner);
}

/* Merge increments into fewer increments. */
void
lsm_minor(Relation rel, LsmJobStats *stats)
{
	LSM_STOP("minor-start");
	lsm_job_run(rel, LSM_OWNER_MINOR, lsm_minor_run, stats);
}

/* Merge increments into the baseline. */
void
lsm_major(Relation rel, LsmJobStats *stats)
{
	LSM_STOP("major-start");
	lsm_job_run(rel, LSM_OWNER_MAJOR, lsm_major_run, stats);
}
