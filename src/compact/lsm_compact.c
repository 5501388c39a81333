/*-------------------------------------------------------------------------
 *
 * lsm_compact.c
 *	  What compactions share, minor compaction, and outcomes of transactions.
 *
 * Minor merges increments into fewer increments, which do not overlap.  Both kinds
 * take increments of a row that are adjacent in age, so that the order of its
 * records stays the order of the segments (I11): a minor takes only such as are
 * newer than what running majors have claimed, a major none that a running minor has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "lsm_blockcache.h"
#include "lsm_compact.h"
#include "lsm_pick.h"
#include "lsm_sharedcache.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* ---- claims ---- */

static LsmTableShared *lsm_claimed[LSM_CLAIMS];

static inline int
lsm_claim_index(uint16 owner)
{
	switch (owner)
	{
		case LSM_OWNER_MINOR:
			return 0;
		case LSM_OWNER_MAJOR:
			return 1;
		default:
			Assert(owner > LSM_OWNER_PUNCH && owner <= LSM_OWNER_LAST);
			return owner - LSM_OWNER_PUNCH + 1;
	}
}

/*
 * Note what a job is going to write again, in place of what it had, or moves: to a store, which
 * takes no room in the file.  edit_lock is held.
 */
void
lsm_claim_set(LsmTableShared *shared, uint16 owner, bool moves, uint32 gen_lo, uint32 gen_hi,
			  LsmTid first, LsmTid last)
{
	int			i = lsm_claim_index(owner);
	LsmClaim   *claim = &shared->claims[i];

	Assert(!claim->used || lsm_claimed[i] == shared);
	claim->used = true;
	claim->moves = moves;
	claim->gen_lo = gen_lo;
	claim->gen_hi = gen_hi;
	claim->first = first;
	claim->last = last;
	lsm_claimed[i] = shared;
}

void
lsm_claim_release(uint16 owner)
{
	int			i = lsm_claim_index(owner);
	LsmTableShared *shared = lsm_claimed[i];

	if (shared == NULL)
		return;
	lsm_claimed[i] = NULL;
	LWLockAcquire(&shared->edit_lock, LW_EXCLUSIVE);
	shared->claims[i].used = false;
	LWLockRelease(&shared->edit_lock);
}

/* The newest generation that running majors merge, 0 if there is none; edit_lock is held. */
uint32
lsm_claimed_by_majors(LsmTableShared *shared)
{
	uint32		gen_hi = 0;

	for (int i = 1; i < LSM_CLAIMS; i++)
		if (shared->claims[i].used)
			gen_hi = Max(gen_hi, shared->claims[i].gen_hi);
	return gen_hi;
}

/* The age of the oldest increment that a running minor merges; edit_lock is held. */
uint32
lsm_claimed_by_minor(LsmTableShared *shared)
{
	return shared->claims[0].used ? shared->claims[0].gen_lo : PG_UINT32_MAX;
}

/* Does any major write segments with such roots, or move them?  edit_lock is held. */
bool
lsm_claimed_by_major(LsmTableShared *shared, LsmTid first, LsmTid last)
{
	for (int i = 1; i < LSM_CLAIMS; i++)
		if (shared->claims[i].used && shared->claims[i].first <= last &&
			shared->claims[i].last >= first)
			return true;
	return false;
}

/* Does another major than the owner's write segments with such roots?  edit_lock is held. */
bool
lsm_claimed_roots(LsmTableShared *shared, uint16 owner, LsmTid first, LsmTid last)
{
	for (int i = 1; i < LSM_CLAIMS; i++)
		if (i != lsm_claim_index(owner) && shared->claims[i].used &&
			shared->claims[i].first <= last && shared->claims[i].last >= first)
			return true;
	return false;
}

/* A job that was not ended by itself ends with its transaction. */
void
lsm_compact_xact_end(void)
{
	lsm_claim_release(LSM_OWNER_MINOR);
	for (int i = 0; i < LSM_MAJOR_SLOTS; i++)
		lsm_claim_release(lsm_major_owner(i));
	lsm_progress_end();
}

/* ---- a position in a segment ---- */

/*
 * The segment's entry in the newest view: its outcomes may be newer than those
 * that the job began with.  The segment cannot go while the job has its lock.
 */
static void
lsm_cursor_refresh(LsmCursor *cursor)
{
	LsmView    *view = lsm_view_get(cursor->rel, cursor->table);
	const LsmManifestEntry *entry;

	if (cursor->view_counter == view->counter)
		return;
	entry = lsm_view_find_segment(view, cursor->entry.uid);
	if (entry == NULL)
		elog(ERROR, "segment " UINT64_FORMAT " of table \"%s\" has gone during its compaction",
			 cursor->entry.uid, RelationGetRelationName(cursor->rel));
	cursor->entry = *entry;
	cursor->view_counter = view->counter;
}

LsmSegmentReader *
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

/* Leave the block where it is, if it is at one. */
void
lsm_cursor_close(LsmCursor *cursor)
{
	if (cursor->cached != NULL)
		lsm_block_unpin_now(cursor->cached);
	cursor->cached = NULL;
	cursor->root = LSM_INVALID_TID;
}

/* ---- reading ahead ---- */

/* The cursor is about to read a block. */
static LsmAheadFeed *
lsm_cursor_feed(LsmCursor *cursor, uint32 blockno)
{
	return lsm_segment_feed(&cursor->ahead, LSM_READER_COMPACTION, &cursor->entry, blockno,
							cursor->nblocks);
}

/* Have the bytes of a block at hand, to be copied or decoded. */
void
lsm_cursor_preload(LsmCursor *cursor, uint32 blockno)
{
	do
		lsm_cursor_refresh(cursor);
	while (!lsm_block_preload(cursor->rel, cursor->table, &cursor->entry, blockno,
							  lsm_cursor_feed(cursor, blockno)));
}

/* ---- rows ---- */

/* Go to the first row of a block, or to the end. */
void
lsm_cursor_block(LsmCursor *cursor, uint32 blockno)
{
	lsm_cursor_close(cursor);
	cursor->blockno = blockno;
	if (cursor->blockno >= cursor->nblocks)
	{
		lsm_ahead_end(&cursor->ahead.feed);
		lsm_progress_add(LSM_PROGRESS_SEGMENTS_DONE, 1);
		return;
	}
	while (cursor->cached == NULL)
	{
		lsm_job_check();
		lsm_cursor_refresh(cursor);
		cursor->cached = lsm_block_pin_ahead(cursor->rel, cursor->table, &cursor->entry,
											 cursor->blockno,
											 lsm_cursor_feed(cursor, cursor->blockno));
	}
	cursor->row = 0;
	cursor->root = lsm_block_root(cursor->cached->block, 0);
	lsm_progress_add(LSM_PROGRESS_BYTES_DONE, (uint64) cursor->cached->npages * LSM_PAGE_PAYLOAD);
}

/* Begin with a segment, at none of its rows yet. */
void
lsm_cursor_init(LsmCursor *cursor, Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	memset(cursor, 0, sizeof(*cursor));
	cursor->rel = rel;
	cursor->table = table;
	cursor->entry = *entry;
	cursor->nblocks = lsm_segment_reader_blocks(lsm_cursor_reader(cursor));
	cursor->root = LSM_INVALID_TID;
}

/* Begin at the first row of a segment. */
void
lsm_cursor_open(LsmCursor *cursor, Relation rel, LsmTable *table, const LsmManifestEntry *entry)
{
	lsm_cursor_init(cursor, rel, table, entry);
	lsm_cursor_block(cursor, 0);
}

/*
 * The first root in a block that is not before one; the block has such.  The cursor is in no row
 * after that: this is for looking up a few, and counts as no progress.
 */
LsmTid
lsm_cursor_seek(LsmCursor *cursor, uint32 blockno, LsmTid root)
{
	LsmBlock   *block;

	if (cursor->cached == NULL || cursor->blockno != blockno)
	{
		lsm_cursor_close(cursor);
		cursor->blockno = blockno;
		while (cursor->cached == NULL)
		{
			lsm_job_check();
			lsm_cursor_refresh(cursor);
			cursor->cached = lsm_block_pin_for(cursor->rel, cursor->table, &cursor->entry,
											   blockno, LSM_READER_COMPACTION);
		}
	}
	block = cursor->cached->block;
	return lsm_block_root(block, lsm_block_find(block, root));
}

/* Go to the next row of the block; false: there is none, and the cursor is at none. */
bool
lsm_cursor_next_in_block(LsmCursor *cursor)
{
	if (++cursor->row >= lsm_block_rows(cursor->cached->block))
	{
		lsm_cursor_close(cursor);
		return false;
	}
	cursor->root = lsm_block_root(cursor->cached->block, cursor->row);
	return true;
}

void
lsm_cursor_next(LsmCursor *cursor)
{
	if (!lsm_cursor_next_in_block(cursor))
		lsm_cursor_block(cursor, cursor->blockno + 1);
}

/*
 * What the manifest and the segment know of a record's transaction.  Most records tell it
 * themselves: then the segment, which may have been closed since its block was read, is not
 * opened again.
 */
static void
lsm_cursor_resolve(LsmCursor *cursor, LsmRowHead *head)
{
	LsmSegmentReader *reader = NULL;

	if (head->xid == 0)
		return;
	if (head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED))
		lsm_cursor_refresh(cursor);
	else
		reader = lsm_cursor_reader(cursor);
	lsm_head_resolve(&cursor->entry, reader, head);
}

/*
 * Add the cursor's record to the merge.  The block stays pinned by the merge's
 * record until lsm_compact_row(), as its columns may be read until then.
 */
void
lsm_cursor_add(LsmCursor *cursor, LsmMerge *merge)
{
	LsmMergeRecord *added = lsm_merge_add(merge);

	lsm_block_head(cursor->cached->block, cursor->row, &added->head);
	lsm_cursor_resolve(cursor, &added->head);
	added->cached = lsm_block_repin(cursor->cached);
	added->row = cursor->row;
}

/* ---- a set of increments, merged by root ---- */

/* The heap has the greatest first: that is the smallest root, and of one root the newest. */
static int
lsm_input_cmp(Datum a, Datum b, void *arg)
{
	const LsmInput *x = (const LsmInput *) DatumGetPointer(a);
	const LsmInput *y = (const LsmInput *) DatumGetPointer(b);

	if (x->root != y->root)
		return x->root < y->root ? 1 : -1;
	return x < y ? 1 : x > y ? -1 : 0;
}

/* The increment whose next record comes first; NULL: all are at their ends. */
static inline LsmInput *
lsm_compact_first(LsmCompact *compact)
{
	if (binaryheap_empty(compact->heap))
		return NULL;
	return (LsmInput *) DatumGetPointer(binaryheap_first(compact->heap));
}

/* The smallest root of which a record is left. */
LsmTid
lsm_compact_peek(LsmCompact *compact)
{
	const LsmInput *first = lsm_compact_first(compact);

	return first == NULL ? LSM_INVALID_TID : first->root;
}

/*
 * The first root of an increment has come.  Until now its place in the heap was by what
 * the manifest says of it, and what is behind that root has not been looked at.
 */
static void
lsm_input_open(LsmCompact *compact, LsmInput *input)
{
	input->cursor = palloc(sizeof(LsmCursor));
	lsm_cursor_open(input->cursor, compact->rel, compact->table, input->entry);
	if (input->cursor->root != input->root)
		lsm_segment_corrupt_entry(compact->rel, input->entry,
								  "it does not begin where the manifest says");
}

/* Add an increment's records of its root, and go past them. */
static void
lsm_input_take(LsmCompact *compact, LsmInput *input)
{
	LsmTid		root = input->root;

	while (input->cursor->root == root)
	{
		lsm_cursor_add(input->cursor, compact->merge);
		lsm_cursor_next(input->cursor);
		compact->rows++;
	}
	input->root = input->cursor->root;
}

/* Add all records of a root, newest first, and go past them. */
void
lsm_compact_take(LsmCompact *compact, LsmTid root)
{
	LsmInput   *input;

	while ((input = lsm_compact_first(compact)) != NULL && input->root == root)
	{
		if (input->cursor == NULL)
			lsm_input_open(compact, input);
		lsm_input_take(compact, input);
		if (input->root != LSM_INVALID_TID)
		{
			binaryheap_replace_first(compact->heap, PointerGetDatum(input));
			continue;
		}
		(void) binaryheap_remove_first(compact->heap);
		pfree(input->cursor);
		input->cursor = NULL;
	}
}

/* What was added for a root, n records, has been merged: give the blocks' pins back. */
static void
lsm_compact_end_row(LsmCompact *compact, int n)
{
	const LsmMergeRecord *records = compact->merge->records;

	lsm_progress_set(LSM_PROGRESS_RECORDS_DONE, compact->rows);
	for (int i = 0; i < n; i++)
		if (records[i].cached != NULL)
			lsm_block_unpin_now(records[i].cached);
}

/* Merge what has been added for a root. */
void
lsm_compact_row(LsmCompact *compact, LsmTid root, bool has_bottom, bool bottom_known)
{
	int			n = compact->merge->nrecords;

	lsm_merge_row(compact->merge, root, has_bottom, bottom_known);
	lsm_compact_end_row(compact, n);
}

/* Merge what increments have of a row of the block that is being copied. */
void
lsm_compact_patch(LsmCompact *compact, LsmBlock *block, int row)
{
	LsmTid		root = lsm_block_root(block, row);
	LsmMergeRecord *added;
	int			n;

	lsm_compact_take(compact, root);
	added = lsm_merge_add(compact->merge);
	lsm_block_head(block, row, &added->head);
	added->patched = block;
	added->row = row;
	n = compact->merge->nrecords;
	lsm_merge_patch(compact->merge, root, row);
	lsm_compact_end_row(compact, n);
}

/*
 * Was the row's INSERT still in the row log when the job began (in a range that
 * a flush had left there)?  Then its bottom is not among the job's inputs.
 */
bool
lsm_compact_in_rowlog(LsmCompact *compact, LsmTid root)
{
	for (uint32 i = 0; compact->meta != NULL && i < compact->meta->nranges; i++)
	{
		const LsmRowRange *range = &compact->meta->ranges[i];

		if (range->kind == LSM_RANGE_ROOT && LSM_TID_LB(root) >= range->lb &&
			LSM_TID_LB(root) < lsm_range_end_lb(range))
			return true;
	}
	return false;
}

/* A segment that the job is going to read. */
void
lsm_compact_expect(const LsmManifestEntry *entry)
{
	lsm_progress_add(LSM_PROGRESS_SEGMENTS_TOTAL, 1);
	lsm_progress_add(LSM_PROGRESS_RECORDS_TOTAL, entry->versions);
	lsm_progress_add(LSM_PROGRESS_BYTES_TOTAL, entry->stored_bytes);
}

/* Begin with increments, newest first, which stay where they are until the job has been done. */
void
lsm_compact_begin(LsmCompact *compact, Relation rel, LsmTable *table, uint16 owner,
				  const LsmManifestEntry *increments, int n, uint32 expected_pages)
{
	uint32		gen_lo = n > 0 ? increments[0].gen_lo : 0;
	uint32		gen_hi = n > 0 ? increments[0].gen_hi : 0;

	memset(compact, 0, sizeof(*compact));
	compact->rel = rel;
	compact->table = table;
	compact->ninputs = n;
	compact->inputs = palloc0(Max(n, 1) * sizeof(LsmInput));
	compact->heap = binaryheap_allocate(Max(n, 1), lsm_input_cmp, NULL);
	for (int i = 0; i < n; i++)
	{
		Assert(i == 0 || increments[i].gen_hi <= increments[i - 1].gen_hi);
		gen_lo = Min(gen_lo, increments[i].gen_lo);
		gen_hi = Max(gen_hi, increments[i].gen_hi);
		compact->bytes += increments[i].stored_bytes;
		compact->inputs[i].entry = &increments[i];
		compact->inputs[i].root = increments[i].first_tid;
		binaryheap_add_unordered(compact->heap, PointerGetDatum(&compact->inputs[i]));
		lsm_compact_expect(&increments[i]);
		lsm_compact_replace(compact, &increments[i]);
	}
	binaryheap_build(compact->heap);
	compact->merge = lsm_merge_create(rel, table, owner, gen_lo, gen_hi, expected_pages);
}

/* The job replaces a segment. */
void
lsm_compact_replace(LsmCompact *compact, const LsmManifestEntry *entry)
{
	LsmReplaced *replaced = palloc(sizeof(LsmReplaced));

	replaced->uid = entry->uid;
	replaced->nblocks = entry->blocks;
	compact->replaced = lappend(compact->replaced, replaced);
}

/* Put what was written in the place of what it replaces. */
void
lsm_compact_swap(LsmCompact *compact, uint8 operation, LsmJobStats *stats)
{
	LsmEdit    *edit = lsm_edit_begin(compact->rel, compact->table, operation);
	ListCell   *lc;

	foreach(lc, compact->replaced)
		lsm_edit_remove_segment(edit, ((LsmReplaced *) lfirst(lc))->uid);
	lsm_merge_publish(compact->merge, edit, stats);
	lsm_edit_commit(edit);
	foreach(lc, compact->replaced)
	{
		LsmReplaced *replaced = lfirst(lc);

		lsm_sharedcache_forget(replaced->uid, replaced->nblocks);
	}
	stats->segments_in += list_length(compact->replaced);
	stats->rows_in += compact->rows;
	stats->bytes_read += compact->bytes;
}

/* ---- minor ---- */

static int
lsm_increment_cmp(const void *a, const void *b)
{
	return lsm_entry_cmp_age(a, b);
}

LsmManifestEntry *
lsm_view_copy_increments(LsmView *view)
{
	LsmManifestEntry *entries = MemoryContextAllocHuge(CurrentMemoryContext,
													   Max(view->nincrements, 1) * sizeof(LsmManifestEntry));

	for (int i = 0; i < view->nincrements; i++)
		entries[i] = *view->increments[i];
	return entries;
}

/* Sort increments, newest first. */
void
lsm_entries_sort_age(LsmManifestEntry *entries, int n)
{
	qsort(entries, n, sizeof(LsmManifestEntry), lsm_increment_cmp);
}

/* Stored bytes of the base segments that have roots from first to last. */
uint64
lsm_view_base_bytes(LsmView *view, LsmTid first, LsmTid last)
{
	uint64		bytes = 0;

	for (int i = lsm_view_find_base(view, first);
		 i < view->nbase && view->base[i]->first_tid <= last; i++)
		bytes += view->base[i]->stored_bytes;
	return bytes;
}

static int
lsm_entry_cmp_first(const void *a, const void *b)
{
	LsmTid		x = ((const LsmManifestEntry *) a)->first_tid;
	LsmTid		y = ((const LsmManifestEntry *) b)->first_tid;

	return x < y ? -1 : x > y;
}

/*
 * Do two of these increments have roots in common, or does one reach over more
 * base segments than a major may read, though it could be cut into pieces of so many
 * bytes?  Sorts them by root.
 */
bool
lsm_increments_tangled(LsmView *view, LsmManifestEntry *entries, int n, uint64 least)
{
	uint64		limit = lsm_job_limit(view);

	qsort(entries, n, sizeof(LsmManifestEntry), lsm_entry_cmp_first);
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && entries[i].first_tid <= entries[i - 1].last_tid)
			return true;
		if (entries[i].stored_bytes >= 2 * least &&
			lsm_view_base_bytes(view, entries[i].first_tid, entries[i].last_tid) > limit)
			return true;
	}
	return false;
}

/*
 * Minors end increments where the base segments below come to so many bytes: half of what a worker's
 * major may read.
 */
static uint64
lsm_minor_pass(const LsmView *view)
{
	uint64		growth = lsm_pick_growth((uint64) view->meta.npages * BLCKSZ,
										 lsm_segment_bytes(view->all_base.stored, false));

	return Min(lsm_job_limit(view), growth / 2) / 2;
}

/* Would a minor make one increment of two neighbours?  They are sorted by root. */
static bool
lsm_increments_small(LsmView *view, const LsmManifestEntry *entries, int n)
{
	uint64		pass = lsm_minor_pass(view);
	uint64		rows = lsm_debug_segment_rows / 4;

	for (int i = 1; i < n; i++)
		if (entries[i - 1].stored_bytes + entries[i].stored_bytes <
			(uint64) lsm_segment_size * 1024 / 4 &&
			entries[i - 1].versions + entries[i].versions < rows &&
			lsm_view_base_bytes(view, entries[i - 1].first_tid, entries[i].last_tid) < pass)
			return true;
	return false;
}

/*
 * Leave of increments, newest first, those with roots of the scope, and those newer
 * ones that have roots of these: what is merged becomes as new as the newest of it,
 * so nothing that is newer than a part of it may stay behind.
 */
static int
lsm_minor_select(const LsmMinorScope *scope, LsmManifestEntry *entries, int n)
{
	bool	   *selected = palloc0(Max(n, 1) * sizeof(bool));
	LsmTid		first = scope->first;
	LsmTid		last = scope->last;
	int			kept = 0;

	/* what is selected hangs together with the scope: all of it is one range of roots */
	for (int i = n - 1; i >= 0; i--)
	{
		selected[i] = entries[i].first_tid <= last && entries[i].last_tid >= first;
		if (!selected[i])
			continue;
		first = Min(first, entries[i].first_tid);
		last = Max(last, entries[i].last_tid);
	}
	for (int i = 0; i < n; i++)
		if (selected[i])
			entries[kept++] = entries[i];
	pfree(selected);
	return kept;
}

/* Does one of the increments, sorted by root, reach over a border at which it is to be cut? */
static bool
lsm_minor_sticks_out(const LsmMinorScope *scope, const LsmManifestEntry *entries, int n)
{
	int			at = 0;

	for (int i = 0; i < n; i++)
	{
		while (at < scope->nborders && scope->borders[at] < entries[i].first_tid)
			at++;
		if (at < scope->nborders && scope->borders[at] < entries[i].last_tid)
			return true;
	}
	return false;
}

/*
 * Claim the increments of the scope that are newer than what running majors merge;
 * newest first.  Returns how many, 0 if merging them would change nothing.
 *
 * Their age is their newest generation.  Where minors have merged some roots only,
 * the oldest generation of an increment says nothing: it may be older than that of
 * one which is older.
 */
static int
lsm_minor_claim(Relation rel, LsmTable *table, const LsmMinorScope *scope,
				LsmManifestEntry **entries)
{
	LsmTableShared *shared = table->shared;
	LsmView    *view;
	uint32		majors;
	int			n = 0;

	LWLockAcquire(&shared->edit_lock, LW_EXCLUSIVE);
	majors = lsm_claimed_by_majors(shared);
	view = lsm_view_get(rel, table);
	*entries = palloc(Max(view->nincrements, 1) * sizeof(LsmManifestEntry));
	for (int i = 0; i < view->nincrements; i++)
		if (view->increments[i]->gen_hi > majors && view->increments[i]->gen_hi >= scope->gen_lo &&
			view->increments[i]->gen_hi <= scope->gen_hi)
			(*entries)[n++] = *view->increments[i];
	lsm_entries_sort_age(*entries, n);
	n = lsm_minor_select(scope, *entries, n);
	if (!lsm_increments_tangled(view, *entries, n, scope->least) &&
		!lsm_minor_sticks_out(scope, *entries, n) &&
		!lsm_increments_small(view, *entries, n))
		n = 0;
	lsm_entries_sort_age(*entries, n);
	if (n > 0)
		lsm_claim_set(shared, LSM_OWNER_MINOR, false, (*entries)[n - 1].gen_hi,
					  (*entries)[0].gen_hi, 0, LSM_MAX_TID);
	LWLockRelease(&shared->edit_lock);
	return n;
}

/* What the base segments hold up to a root. */
typedef struct LsmBaseMark
{
	LsmTid		last;
	uint64		bytes;
} LsmBaseMark;

/*
 * Increments that are merged end where the base segments below them come to lsm_minor_pass(),
 * so that a major can take them one by one, unless they would be too small; and at the borders of
 * the scope.
 */
static void
lsm_minor_cut(LsmCompact *compact, const LsmMinorScope *scope, LsmTid root)
{
	int			border = compact->at_border;
	bool		enough;

	while (compact->at_mark < compact->nmarks && compact->marks[compact->at_mark].last < root)
		compact->passed += compact->marks[compact->at_mark++].bytes;
	enough = compact->passed >= compact->pass &&
		lsm_merge_increment_bytes(compact->merge) >= scope->least;
	while (compact->at_border < scope->nborders && scope->borders[compact->at_border] < root)
		compact->at_border++;
	if (enough || compact->at_border > border)
	{
		lsm_merge_break_increment(compact->merge);
		compact->passed = 0;
	}
}

static void
lsm_minor_mark_bases(LsmCompact *compact)
{
	LsmView    *view = lsm_view_get(compact->rel, compact->table);

	compact->marks = MemoryContextAllocHuge(CurrentMemoryContext,
											Max(view->nbase, 1) * sizeof(LsmBaseMark));
	compact->nmarks = view->nbase;
	compact->pass = lsm_minor_pass(view);
	for (int i = 0; i < view->nbase; i++)
	{
		compact->marks[i].last = view->base[i]->last_tid;
		compact->marks[i].bytes = view->base[i]->stored_bytes;
	}
}

static void
lsm_minor_run(Relation rel, LsmTable *table, uint16 owner, void *arg, LsmJobStats *stats)
{
	LsmManifestEntry *increments;
	int			n = lsm_minor_claim(rel, table, arg, &increments);
	LsmCompact	compact;
	LsmTid		root;
	int64		written = stats->bytes_written;

	if (n == 0)
		return;					/* nothing to merge */
	lsm_compact_begin(&compact, rel, table, LSM_OWNER_MINOR, increments, n, 64);
	lsm_minor_mark_bases(&compact);
	compact.merge->increment.expected_pages =
		Max(Min(compact.bytes, (uint64) lsm_segment_size * 1024) / BLCKSZ, 2);
	while ((root = lsm_compact_peek(&compact)) != LSM_INVALID_TID)
	{
		lsm_compact_pause();
		lsm_minor_cut(&compact, arg, root);
		lsm_compact_take(&compact, root);
		lsm_compact_row(&compact, root, false, false);
	}
	lsm_merge_finish(compact.merge);

	lsm_progress_phase(LSM_PHASE_SWAPPING);
	LSM_STOP("minor-before-swap");
	lsm_compact_swap(&compact, LSM_OP_MINOR, stats);
	LSM_STOP("minor-after-swap");
	lsm_stat_report_job(RelationGetRelid(rel), LSM_JOB_MINOR, compact.bytes,
						stats->bytes_written - written, 1, LSM_MAX_TID);
}

/* ---- outcomes and flags ---- */

/* Do entries have outcomes, or a flag, that may change?  Those are copied. */
static int
lsm_resolve_candidates(LsmView *view, LsmManifestEntry *entries)
{
	int			n = 0;

	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_SEGMENT &&
			view->entries[i].kind != LSM_SEGKIND_DEAD &&
			!(view->entries[i].flags & LSM_SEGFLAG_ALL_VISIBLE))
			entries[n++] = view->entries[i];
	return n;
}

/* Does the entry itself tell what has become of each of its transactions? */
static bool
lsm_resolve_is_known(const LsmManifestEntry *entry)
{
	if (entry->nunresolved > LSM_MAX_OUTCOMES)
		return false;
	for (uint32 i = 0; i < entry->nunresolved; i++)
		if (lsm_entry_outcome(entry, i) == LSM_OUTCOME_UNKNOWN)
			return false;
	return true;
}

/*
 * Is the only transaction whose outcome the entry does not tell still running?  running: an xid of
 * which that is known.  (What min_unresolved says may have been overtaken, when two have looked at
 * the same time; but then it is of a transaction that has ended.)
 */
static bool
lsm_resolve_waits(const LsmManifestEntry *entry, uint64 *running)
{
	LsmRowHead	head = {.xid = entry->min_unresolved,.info = LSM_REC_INSERT};
	int			unknown = 0;

	if (entry->nunresolved > LSM_MAX_OUTCOMES || entry->min_unresolved == 0)
		return false;
	for (uint32 i = 0; i < entry->nunresolved; i++)
		unknown += lsm_entry_outcome(entry, i) == LSM_OUTCOME_UNKNOWN;
	if (unknown != 1)
		return false;
	if (entry->min_unresolved != *running)
	{
		LsmXidState state = lsm_xid_state(&head);

		if (state != LSM_XID_RUNNING && state != LSM_XID_OWN)
			return false;
		*running = entry->min_unresolved;
	}
	return true;
}

/*
 * The unresolved xids of a segment; false: it has gone.  Its entry has the only one, so that the
 * segments of a load need not be opened.  Edits of others, as each range of a load
 * is one, may keep it from being opened for once: not from being looked at, or with many segments
 * that are to be opened nobody would ever come to the last one.
 */
static bool
lsm_resolve_xids(Relation rel, LsmTable *table, const LsmManifestEntry *known, uint64 **xids,
				 uint32 *n)
{
	if (known->nunresolved == 1 && known->min_unresolved != 0)
	{
		*xids = palloc(sizeof(uint64));
		**xids = known->min_unresolved;
		*n = 1;
		return true;
	}
	LSM_STOP("resolve-open");
	for (;;)
	{
		LsmView    *view = lsm_view_get(rel, table);
		const LsmManifestEntry *entry = lsm_view_find_segment(view, known->uid);
		LsmSegmentReader *reader;

		lsm_job_check();
		if (entry == NULL)
			return false;
		reader = lsm_reader_get(rel, table, entry);
		if (reader == NULL)
			continue;
		*xids = lsm_segment_unresolved(reader, n);
		return true;
	}
}

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
	LsmManifestEntry *candidates;
	int			ncandidates;
	LsmManifestEntry *changed;
	int			nchanged = 0;
	LsmEdit    *edit;
	uint64		conflict = 0;
	uint64		running = 0;

	lsm_horizons(rel, &horizons);
	view = lsm_view_get(rel, table);
	candidates = MemoryContextAllocHuge(CurrentMemoryContext,
										Max(view->nentries, 1) * sizeof(LsmManifestEntry));
	ncandidates = lsm_resolve_candidates(view, candidates);
	changed = candidates;		/* those that have been looked at are not needed any more */
	for (int i = 0; i < ncandidates; i++)
	{
		LsmManifestEntry entry = candidates[i];
		uint64	   *xids = NULL;
		uint32		n = entry.nunresolved;
		bool		dirty = false;
		bool		aborted = false;
		bool		unknown = false;

		if (lsm_resolve_waits(&entry, &running))
			continue;
		if (!lsm_resolve_is_known(&entry) &&
			!lsm_resolve_xids(rel, table, &entry, &xids, &n))
			continue;
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
			if (outcome == LSM_OUTCOME_UNKNOWN)
				unknown = true;
			if (entry.min_unresolved == 0 &&
				(outcome == LSM_OUTCOME_UNKNOWN || j >= LSM_MAX_OUTCOMES))
				entry.min_unresolved = xids[j];
		}
		if (xids != NULL)
			pfree(xids);
		if (entry.min_unresolved != candidates[i].min_unresolved)
			dirty = true;

		/* under the flag nobody asks for outcomes, so that some may have no place */
		if (entry.kind == LSM_SEGKIND_INSERT && !unknown && !aborted &&
			entry.max_xid < horizons.settled)
		{
			entry.min_unresolved = 0;
			entry.kind = LSM_SEGKIND_BASELINE;
			entry.flags |= LSM_SEGFLAG_ALL_VISIBLE;
			conflict = Max(conflict, entry.max_xid);
			dirty = true;
		}

		/* what has no place to be noted is still a reason to write it anew */
		if (entry.kind == LSM_SEGKIND_INSERT && entry.nunresolved > LSM_MAX_OUTCOMES &&
			!unknown && aborted && !(entry.flags & LSM_SEGFLAG_ABORTED))
		{
			entry.flags |= LSM_SEGFLAG_ABORTED;
			dirty = true;
		}
		if (dirty)
			changed[nchanged++] = entry;
	}
	if (nchanged == 0)
	{
		pfree(candidates);
		return;
	}

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
	pfree(candidates);
}

/* ---- entry points ---- */

/*
 * Run a job, or a part of one, whose lock is held: in memory of its own, which
 * goes with it.  Its claim stays; but not after an error.
 */
void
lsm_job_run(Relation rel, uint16 owner, LsmJobRun run, void *arg, LsmJobStats *stats)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm compaction",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);

	PG_TRY();
	{
		run(rel, lsm_table_open(rel), owner, arg, stats);
	}
	PG_CATCH();
	{
		/* the claim must not outlive the lock, which a subtransaction may end */
		LWLockReleaseAll();
		lsm_claim_release(owner);
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/* The same for one that merges, with its progress. */
void
lsm_job_merge(Relation rel, uint16 owner, LsmJobRun run, void *arg, LsmJobStats *stats)
{
	lsm_progress_begin(RelationGetRelid(rel), owner == LSM_OWNER_MINOR ? LSM_JOB_MINOR :
					   LSM_JOB_MAJOR, 1, LSM_MAX_TID);
	lsm_progress_phase(LSM_PHASE_MERGING);
	lsm_job_run(rel, owner, run, arg, stats);
	lsm_progress_end();
}

/* Merge increments into fewer increments. */
void
lsm_minor(Relation rel, LsmJobStats *stats)
{
	LsmMinorScope all = {.gen_hi = PG_UINT32_MAX,.last = LSM_MAX_TID,.least = lsm_increment_least()};

	lsm_minor_unasked(rel, &all, stats);
	lsm_job_ask(rel);
}

/* The same for some of them; workers are not asked for what comes next. */
void
lsm_minor_unasked(Relation rel, const LsmMinorScope *scope, LsmJobStats *stats)
{
	LSM_STOP("minor-start");
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_MINOR, 1, LSM_MAX_TID);
	lsm_job_lock(rel, LSM_OWNER_MINOR);
	lsm_progress_phase(LSM_PHASE_PREPARING);
	lsm_resolve_segments(rel);
	lsm_job_merge(rel, LSM_OWNER_MINOR, lsm_minor_run, unconstify(LsmMinorScope *, scope), stats);
	lsm_claim_release(LSM_OWNER_MINOR);
	lsm_job_unlock(rel, LSM_OWNER_MINOR);
}

/* The same for workers, without waiting.  False: nothing to merge, or another minor runs. */
bool
lsm_minor_part(Relation rel, const LsmMinorScope *scope, LsmJobStats *stats)
{
	int64		before = stats->segments_in;

	if (!lsm_job_lock_if_free(rel, LSM_OWNER_MINOR))
		return false;
	lsm_resolve_segments(rel);
	lsm_job_merge(rel, LSM_OWNER_MINOR, lsm_minor_run, unconstify(LsmMinorScope *, scope), stats);
	lsm_claim_release(LSM_OWNER_MINOR);
	lsm_job_unlock(rel, LSM_OWNER_MINOR);
	return stats->segments_in > before;
}
