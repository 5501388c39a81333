/*-------------------------------------------------------------------------
 *
 * lsm_manifest.c
 *	  What a table consists of, and how that changes.
 *
 * The manifest is a tree of two levels: a root page with the block numbers of
 * the leaves, leaves with entries for segments, free extents and extents that
 * were given to an operation.  Changed leaves and the root are written to
 * other pages and logged first; then one record that changes block 0 makes
 * them the manifest (I4).  Pages that the old root reached are spare from then on.
 *
 * A reader copies block 0, then root and leaves, then looks whether the counter
 * has moved meanwhile; only then may the pages it read have been overwritten.
 *
 * LOCKING
 *	  An edit holds edit_lock from begin to commit, and gen_lock exclusively
 *	  while block 0 and the shared state change.  Reading needs no lock.
 *
 * CRASH SAFETY
 *	  Nothing that is written before the change of block 0 can be reached.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "lsm_manifest.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

void
lsm_page_init(Page page, uint16 kind, uint64 uid, uint32 number, uint32 generation)
{
	LsmPageSpecial *special;

	PageInit(page, BLCKSZ, sizeof(LsmPageSpecial));
	special = LSM_PAGE_SPECIAL(page);
	special->uid = uid;
	special->number = number;
	special->generation = generation;
	special->kind = kind;
	special->version = LSM_FORMAT_VERSION;
	special->before = 0;
}

/* Has a page the shape of lsm's? */
static bool
lsm_page_is_ours(Page page)
{
	PageHeader	header = (PageHeader) page;

	return !PageIsNew(page) &&
		header->pd_special == BLCKSZ - MAXALIGN(sizeof(LsmPageSpecial)) &&
		header->pd_upper >= MAXALIGN(SizeOfPageHeaderData) &&
		header->pd_upper <= header->pd_special;
}

/* Does the page prove to be what the caller expects? */
bool
lsm_page_is(Page page, uint16 kind, uint64 uid, uint32 number, uint32 generation)
{
	LsmPageSpecial *special;

	if (!lsm_page_is_ours(page))
		return false;
	special = LSM_PAGE_SPECIAL(page);
	return special->kind == kind && special->uid == uid &&
		special->number == number && special->generation == generation &&
		special->version == LSM_FORMAT_VERSION;
}

int			lsm_debug_first_lb = 0;

int			lsm_debug_ring_lbs = 0;
int			lsm_debug_manifest_entries = 0;
int			lsm_debug_kept_views = LSM_KEPT_VIEWS_KB;

/* Tables of this process that have a view, by their last use, and the memory of all views. */
static dlist_head lsm_viewed = DLIST_STATIC_INIT(lsm_viewed);
static Size lsm_view_bytes = 0;

/* Copy bytes of the metapage; false if the file is empty. */
static bool
lsm_meta_copy(Relation rel, LsmMeta *meta, bool whole)
{
	Buffer		buffer;
	Page		page;

	if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) == 0)
	{
		memset(meta, 0, offsetof(LsmMeta, ranges));
		return false;
	}
	buffer = ReadBuffer(rel, LSM_META_BLOCK);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (PageIsNew(page))
	{
		/* the file was extended, but its creation never got to the log */
		UnlockReleaseBuffer(buffer);
		memset(meta, 0, offsetof(LsmMeta, ranges));
		return false;
	}
	meta->magic = 0;
	if (lsm_page_is_ours(page) && LSM_PAGE_SPECIAL(page)->kind == LSM_PAGE_META &&
		lsm_page_content_len(page) >= offsetof(LsmMeta, ranges))
		memcpy(meta, lsm_page_content(page), offsetof(LsmMeta, ranges));
	if (meta->magic != LSM_MAGIC || meta->nranges > LSM_MAX_RANGES || meta->nextents > LSM_MAX_MANIFEST_EXTENTS ||
		meta->nfree_lbs > LSM_MAX_FREE_LBS || lsm_page_content_len(page) < LSM_META_BYTES(meta) ||
		(meta->incarnation != 0 && meta->ring_lbs < LSM_RING_SECTORS))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block 0 of table \"%s\" is not a metapage of lsm",
						RelationGetRelationName(rel))));
	if (meta->version < LSM_FORMAT_VERSION || meta->version > LSM_FORMAT_COLD_VALUES)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" has format version %u of lsm, which this library cannot read",
						RelationGetRelationName(rel), meta->version),
				 errhint("Install a newer version of lsm.")));
	if (whole)
		memcpy(meta->ranges, ((LsmMeta *) lsm_page_content(page))->ranges,
			   meta->nranges * sizeof(LsmRowRange));
	UnlockReleaseBuffer(buffer);
	return true;
}

LsmMeta *
lsm_meta_peek(Relation rel)
{
	static LsmMeta peeked;

	(void) lsm_meta_copy(rel, &peeked, false);
	return &peeked;
}

LsmMeta *
lsm_meta_read(Relation rel)
{
	static LsmMeta read;

	(void) lsm_meta_copy(rel, &read, true);
	return &read;
}

static int
lsm_entry_cmp_base(const void *a, const void *b)
{
	LsmTid		x = (*(LsmManifestEntry *const *) a)->first_tid;
	LsmTid		y = (*(LsmManifestEntry *const *) b)->first_tid;

	return x < y ? -1 : x > y;
}

static int
lsm_entry_cmp_newest(const void *a, const void *b)
{
	return lsm_entry_cmp_age(*(LsmManifestEntry *const *) a, *(LsmManifestEntry *const *) b);
}

static int
lsm_root_span_cmp(const void *a, const void *b)
{
	const LsmRootSpan *x = a;
	const LsmRootSpan *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Unite the spans of increments where they overlap. */
static void
lsm_view_cover(LsmView *view)
{
	LsmRootSpan *spans = palloc(Max(view->nincrements, 1) * sizeof(LsmRootSpan));
	int			n = 0;

	for (int i = 0; i < view->nincrements; i++)
	{
		spans[i].first = view->increments[i]->first_tid;
		spans[i].last = view->increments[i]->last_tid;
	}
	qsort(spans, view->nincrements, sizeof(LsmRootSpan), lsm_root_span_cmp);
	for (int i = 0; i < view->nincrements; i++)
	{
		if (n > 0 && spans[i].first <= spans[n - 1].last)
			spans[n - 1].last = Max(spans[n - 1].last, spans[i].last);
		else
			spans[n++] = spans[i];
	}
	view->covered = spans;
	view->ncovered = n;
}

/* Sort the segments of a view by what readers ask for. */
static void
lsm_view_sort(LsmView *view)
{
	view->base = palloc(Max(view->nentries, 1) * sizeof(LsmManifestEntry *));
	view->increments = palloc(Max(view->nentries, 1) * sizeof(LsmManifestEntry *));
	view->nbase = view->nincrements = 0;
	view->base_bytes = view->base_blocks = view->cold_blocks = 0;
	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry *entry = &view->entries[i];

		if (entry->type != LSM_ENTRY_SEGMENT)
			continue;
		if (entry->kind == 1 || entry->kind == 3)	/* insert, baseline */
		{
			view->base[view->nbase++] = entry;
			view->base_bytes += entry->stored_bytes;
			view->base_blocks += entry->blocks;
			if (lsm_entry_is_cold(entry))
				view->cold_blocks += entry->blocks;
		}
		else if (entry->kind == 2)
			view->increments[view->nincrements++] = entry;
	}
	qsort(view->base, view->nbase, sizeof(LsmManifestEntry *), lsm_entry_cmp_base);
	qsort(view->increments, view->nincrements, sizeof(LsmManifestEntry *),
		  lsm_entry_cmp_newest);
	lsm_view_cover(view);
	lsm_view_sort_valued(view);
}

/* Copy a manifest page; false if it is not what the root says it is. */
static bool
lsm_manifest_read_page(Relation rel, BlockNumber block, uint16 kind, uint64 incarnation,
					   char *copy)
{
	Buffer		buffer = ReadBuffer(rel, block);
	bool		good;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	good = lsm_page_is(BufferGetPage(buffer), kind, incarnation, 0, 0);
	if (good)
		memcpy(copy, lsm_page_content(BufferGetPage(buffer)),
			   lsm_page_content_len(BufferGetPage(buffer)));
	UnlockReleaseBuffer(buffer);
	return good;
}

/* Read root and leaves; false if a page proves to be something else. */
static bool
lsm_view_read_manifest(Relation rel, LsmView *view)
{
	char	   *copy;
	LsmManifestRoot *root;
	LsmManifestLeaf *leaf;
	uint32		nentries;

	view->nentries = 0;
	view->nleaves = 0;
	view->entries = NULL;
	view->leaves = NULL;
	if (view->meta.manifest_root == 0)
		return true;

	copy = palloc(LSM_PAGE_PAYLOAD);
	if (!lsm_manifest_read_page(rel, view->meta.manifest_root, LSM_PAGE_MANIFEST_ROOT,
								view->meta.incarnation, copy))
		return false;
	root = (LsmManifestRoot *) copy;
	if (root->nleaves > LSM_MAX_LEAVES || root->nentries > root->nleaves * LSM_ENTRIES_PER_LEAF)
		return false;
	nentries = root->nentries;
	view->nleaves = root->nleaves;
	view->leaves = palloc(Max(view->nleaves, 1) * sizeof(BlockNumber));
	memcpy(view->leaves, root->leaves, view->nleaves * sizeof(BlockNumber));
	view->leaf_entries = palloc(Max(view->nleaves, 1) * sizeof(int));
	view->entries = palloc_extended(Max(nentries, 1) * sizeof(LsmManifestEntry), MCXT_ALLOC_HUGE);

	leaf = (LsmManifestLeaf *) copy;
	for (BlockNumber i = 0; i < view->nleaves; i++)
	{
		if (!lsm_manifest_read_page(rel, view->leaves[i], LSM_PAGE_MANIFEST_LEAF,
									view->meta.incarnation, copy) ||
			leaf->nentries > LSM_ENTRIES_PER_LEAF ||
			view->nentries + leaf->nentries > nentries)
			return false;
		memcpy(view->entries + view->nentries, leaf->entries,
			   leaf->nentries * sizeof(LsmManifestEntry));
		view->nentries += leaf->nentries;
		view->leaf_entries[i] = leaf->nentries;
	}
	pfree(copy);
	return view->nentries == (int) nentries;
}

/* Give a table's view up. */
void
lsm_view_drop(LsmTable *table)
{
	if (table->view == NULL)
		return;
	lsm_view_bytes -= table->view->memory;
	MemoryContextDelete(table->view->context);
	table->view = NULL;
	dlist_delete(&table->viewed);
}

/* A transaction begins to use a table. */
void
lsm_view_used(LsmTable *table)
{
	if (table->view != NULL)
		dlist_move_tail(&lsm_viewed, &table->viewed);
}

/*
 * At the end of a transaction: give up views that are too many to keep, those first whose
 * tables have not been used for the longest time.
 */
void
lsm_views_xact_end(void)
{
	while (lsm_view_bytes > (Size) lsm_debug_kept_views * 1024)
		lsm_view_drop(dlist_head_element(LsmTable, viewed, &lsm_viewed));
}

/* Reads of a view, or of the metapage, that come to nothing though nobody changes the manifest. */
#define LSM_VIEW_TRIES			10

/*
 * The newest view of a table.  The counter is read before block 0, so what the
 * view holds is at least as new as its counter.
 */
LsmView *
lsm_view_get(Relation rel, LsmTable *table)
{
	uint64		last = PG_UINT64_MAX;	/* the counter that was tried before */

	for (int tries = 0;; tries++)
	{
		LsmView    *view;
		LsmView    *old = table->view;
		MemoryContext context;
		MemoryContext caller;
		uint64		epoch;
		uint64		counter;
		BlockNumber root;
		bool		good;

		if (lsm_view_current(table))
			return table->view;
		CHECK_FOR_INTERRUPTS();

		epoch = pg_atomic_read_u64(&table->shared->epoch);
		counter = pg_atomic_read_u64(&table->shared->counter);
		pg_read_barrier();
		if (old != NULL && old->epoch == epoch && (tries <= LSM_VIEW_TRIES || counter != last))
		{
			/* if only the row log has changed, what is read stays good */
			uint64		manifest_counter = old->meta.manifest_counter;
			uint64		incarnation = old->meta.incarnation;

			old->epoch = 0;
			old->ranges_sorted = false;
			(void) lsm_meta_copy(rel, &old->meta, true);
			if (old->meta.manifest_counter == manifest_counter &&
				old->meta.incarnation == incarnation)
			{
				old->epoch = epoch;
				old->counter = old->meta.counter;
				last = counter;
				continue;
			}
		}

		/* kept only when it is read: an error frees it with the caller's */
		context = AllocSetContextCreate(CurrentMemoryContext, "lsm manifest",
										ALLOCSET_SMALL_SIZES);
		caller = MemoryContextSwitchTo(context);
		view = palloc0(sizeof(LsmView));
		view->context = context;
		(void) lsm_meta_copy(rel, &view->meta, true);
		view->epoch = epoch;
		view->counter = view->meta.counter;
		good = lsm_view_read_manifest(rel, view);
		LSM_STOP("view-read");
		if (good)
			lsm_view_sort(view);
		MemoryContextSwitchTo(caller);

		/*
		 * Race: an edit came in between.  If it was of the row log only, what was read is
		 * good, and the next round finds that out.  Else it may have reused the pages.
		 */
		if (good && epoch == pg_atomic_read_u64(&table->shared->epoch) &&
			(view->meta.counter == pg_atomic_read_u64(&table->shared->counter) ||
			 tries <= LSM_VIEW_TRIES || counter != last))
		{
			view->memory = MemoryContextMemAllocated(context, true);
			lsm_view_bytes += view->memory;
			lsm_view_drop(table);
			MemoryContextSetParent(context, CacheMemoryContext);
			table->view = view;
			dlist_push_tail(&lsm_viewed, &table->viewed);
			last = counter;
			continue;
		}
		root = view->meta.manifest_root;
		MemoryContextDelete(context);
		last = counter;
		if (counter == pg_atomic_read_u64(&table->shared->counter) &&
			epoch == pg_atomic_read_u64(&table->shared->epoch) && tries > LSM_VIEW_TRIES)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("the manifest of table \"%s\" is damaged",
							RelationGetRelationName(rel)),
					 errdetail("Manifest root %u, counter " UINT64_FORMAT ".",
							   root, counter),
					 errhint("Restore the table from a backup.")));
	}
}

/* Is the LB one of the range's, and the range in use? */
static inline bool
lsm_range_has(const LsmRowRange *range, BlockNumber lb)
{
	return range->kind != LSM_RANGE_FREE && lb >= range->lb && lb < lsm_range_end_lb(range);
}

/* Ranges in use, for finding them by LB. */
static pg_noinline void
lsm_view_sort_ranges(LsmView *view)
{
	const LsmRowRange *ranges = view->meta.ranges;

	view->nsorted = 0;
	for (uint32 i = 0; i < view->meta.nranges; i++)
	{
		uint32		at = view->nsorted;

		if (ranges[i].kind == LSM_RANGE_FREE)
			continue;
		for (; at > 0 && ranges[view->sorted[at - 1]].lb > ranges[i].lb; at--)
			view->sorted[at] = view->sorted[at - 1];
		view->sorted[at] = (uint8) i;
		view->nsorted++;
	}
	view->found_range[0] = view->found_range[1] = 0;
	view->ranges_sorted = true;
}

LsmRowRange *
lsm_view_range(LsmView *view, BlockNumber lb)
{
	uint8	   *found = &view->found_range[lb >= LSM_FIRST_VERSION_LB];
	LsmRowRange *ranges = view->meta.ranges;
	uint32		low = 0;
	uint32		high;

	if (!view->ranges_sorted)
		lsm_view_sort_ranges(view);
	high = view->nsorted;
	if (high == 0)
		return NULL;

	/* often it is the one found last */
	if (lsm_range_has(&ranges[*found], lb))
		return &ranges[*found];

	/* the first that begins behind it */
	while (low < high)
	{
		uint32		middle = (low + high) / 2;

		if (ranges[view->sorted[middle]].lb <= lb)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || !lsm_range_has(&ranges[view->sorted[low - 1]], lb))
		return NULL;
	*found = view->sorted[low - 1];
	return &ranges[*found];
}

int
lsm_view_find_base(LsmView *view, LsmTid tid)
{
	int			lo = 0;
	int			hi = view->nbase;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (view->base[mid]->last_tid < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int
lsm_entry_cmp_uid(const void *a, const void *b)
{
	uint64		x = (*(LsmManifestEntry *const *) a)->uid;
	uint64		y = (*(LsmManifestEntry *const *) b)->uid;

	return x < y ? -1 : x > y;
}

/* Sort the segments of a view by uid: jobs ask for them, most views are never asked. */
static pg_noinline void
lsm_view_sort_segments(LsmView *view)
{
	LsmManifestEntry **segments = MemoryContextAlloc(view->context,
													 Max(view->nentries, 1) * sizeof(LsmManifestEntry *));

	view->nsegments = 0;
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_SEGMENT)
			segments[view->nsegments++] = &view->entries[i];
	qsort(segments, view->nsegments, sizeof(LsmManifestEntry *), lsm_entry_cmp_uid);
	view->segments = segments;
	lsm_view_bytes -= view->memory;
	view->memory = MemoryContextMemAllocated(view->context, true);
	lsm_view_bytes += view->memory;
}

const LsmManifestEntry *
lsm_view_find_segment(LsmView *view, uint64 uid)
{
	int			low = 0;
	int			high;

	if (view->segments == NULL)
		lsm_view_sort_segments(view);
	high = view->nsegments;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (view->segments[middle]->uid < uid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < view->nsegments && view->segments[low]->uid == uid ? view->segments[low] : NULL;
}

int
lsm_view_find_increment(LsmView *view, const LsmManifestEntry *entry)
{
	int			low = 0;
	int			high = view->nincrements;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lsm_entry_cmp_age(view->increments[middle], entry) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < view->nincrements && view->increments[low]->uid == entry->uid ? low : -1;
}

bool
lsm_view_increments_meet(LsmView *view, LsmTid lo, LsmTid hi)
{
	int			at = 0;
	int			end = view->ncovered;

	while (at < end)
	{
		int			mid = at + (end - at) / 2;

		if (view->covered[mid].last < lo)
			at = mid + 1;
		else
			end = mid;
	}
	return at < view->ncovered && view->covered[at].first <= hi;
}

/* ---- changing ---- */

/* Make a leaf the edit's own, with room for more. */
static void
lsm_edit_own_leaf(LsmEdit *edit, LsmEditLeaf *leaf)
{
	LsmManifestEntry *copy;

	edit->manifest_changed = true;
	if (leaf->dirty)
		return;
	copy = MemoryContextAllocZero(edit->context, LSM_ENTRIES_PER_LEAF * sizeof(LsmManifestEntry));
	if (leaf->nentries > 0)
		memcpy(copy, leaf->entries, leaf->nentries * sizeof(LsmManifestEntry));
	leaf->entries = copy;
	leaf->dirty = true;
}

static void
lsm_edit_remove_at(LsmEdit *edit, int i, int j)
{
	LsmEditLeaf *leaf = &edit->leaves[i];

	lsm_edit_own_leaf(edit, leaf);
	leaf->nentries--;
	if (j < leaf->nentries)
		leaf->entries[j] = leaf->entries[leaf->nentries];
	memset(&leaf->entries[leaf->nentries], 0, sizeof(LsmManifestEntry));
}

/* Entries that were retired by the last edit that did so get their stamp. */
static void
lsm_edit_stamp_retired(LsmEdit *edit)
{
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (entry->type != LSM_ENTRY_RETIRED || LSM_ENTRY_STAMP(entry) != 0)
				continue;
			lsm_edit_own_leaf(edit, &edit->leaves[i]);
			LSM_ENTRY_STAMP(&edit->leaves[i].entries[j]) = edit->meta.retired_xid;
		}
	}
}

static void
lsm_edit_retire_at(LsmEdit *edit, int i, int j)
{
	LsmManifestEntry *entry;

	if (!edit->retires)
		lsm_edit_stamp_retired(edit);
	edit->retires = true;
	lsm_edit_own_leaf(edit, &edit->leaves[i]);
	entry = &edit->leaves[i].entries[j];
	entry->type = LSM_ENTRY_RETIRED;
	LSM_ENTRY_STAMP(entry) = 0;
}

/*
 * A segment with large values lies elsewhere now: what it was, with its pages or its
 * numbers, is retired, as an entry of its own.
 */
void
lsm_edit_add_retired(LsmEdit *edit, const LsmManifestEntry *was)
{
	LsmManifestEntry entry = *was;

	if (!edit->retires)
		lsm_edit_stamp_retired(edit);
	edit->retires = true;
	entry.type = LSM_ENTRY_RETIRED;
	LSM_ENTRY_STAMP(&entry) = 0;
	lsm_edit_add(edit, &entry);
}

/* Pages that such a segment does not lie on any more. */
void
lsm_edit_retire_extent(LsmEdit *edit, LsmExtent extent)
{
	LsmManifestEntry entry;

	memset(&entry, 0, sizeof(entry));
	entry.nextents = 1;
	entry.extents[0] = extent;
	lsm_edit_add_retired(edit, &entry);
}

/*
 * What the horizon must be beyond before an entry is free; 0 if it is not one
 * that has been retired.
 */
uint64
lsm_entry_retired_xid(const LsmMeta *meta, const LsmManifestEntry *entry)
{
	if (entry->type != LSM_ENTRY_RETIRED)
		return 0;
	return LSM_ENTRY_STAMP(entry) != 0 ? LSM_ENTRY_STAMP(entry) : meta->retired_xid;
}

/*
 * What is free at the end of the accounted pages leaves the account.  Not in the
 * edit that frees it: until that is committed the pages are in use.
 */
static void
lsm_edit_drop_tail(LsmEdit *edit)
{
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (entry->type == LSM_ENTRY_FREE &&
				entry->extents[0].start + entry->extents[0].npages == edit->meta.npages)
			{
				edit->meta.npages = entry->extents[0].start;
				lsm_edit_remove_at(edit, i, j);
				return;
			}
		}
	}
}

/* Not in those that come to a table at rest: what is beyond the account cannot be punched. */
static bool
lsm_op_drops_tail(uint8 op)
{
	return op != LSM_OP_PUNCH && op != LSM_OP_RELOCATE && op != LSM_OP_FREE && op != LSM_OP_VACUUM;
}

/*
 * May an edit move records, or change what there are?  One that only gives pages to somebody, or
 * takes free ones back, does not: who has judged a row before it need not do so again (I2).
 */
static bool
lsm_op_moves(uint8 op)
{
	switch (op)
	{
		case LSM_OP_RANGE:
		case LSM_OP_LOAD:
		case LSM_OP_VALUES:
		case LSM_OP_ALLOC:
		case LSM_OP_FREE:
		case LSM_OP_PUNCH:
			return false;
		default:
			return true;
	}
}

/* Begin a change on top of the newest manifest.  Waits for edit_lock. */
LsmEdit *
lsm_edit_begin(Relation rel, LsmTable *table, uint8 op)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm edit",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller;
	LsmEdit    *edit;
	LsmView    *view;
	LsmManifestEntry *entry;

	LWLockAcquire(&table->shared->edit_lock, LW_EXCLUSIVE);
	view = lsm_view_get(rel, table);
	caller = MemoryContextSwitchTo(context);
	edit = palloc0(sizeof(LsmEdit));
	edit->rel = rel;
	edit->table = table;
	edit->context = context;
	edit->op = op;
	edit->ring_left = 1;
	memcpy(&edit->meta, &view->meta, sizeof(LsmMeta));
	edit->nleaves = view->nleaves;
	edit->maxleaves = view->nleaves + 8;
	edit->leaves = palloc0(edit->maxleaves * sizeof(LsmEditLeaf));
	entry = view->entries;
	for (int i = 0; i < edit->nleaves; i++)
	{
		LsmEditLeaf *leaf = &edit->leaves[i];

		leaf->block = view->leaves[i];
		leaf->nentries = view->leaf_entries[i];
		leaf->entries = entry;	/* the view's; copied when it is changed */
		entry += leaf->nentries;
	}
	if (edit->meta.incarnation == 0)
	{
		edit->meta.magic = LSM_MAGIC;
		edit->meta.version = LSM_FORMAT_VERSION;
		if (!pg_strong_random(&edit->meta.incarnation, sizeof(edit->meta.incarnation)))
			elog(ERROR, "could not get random numbers");
		edit->meta.npages = 1;
		edit->meta.first_root_lb = (BlockNumber) lsm_debug_first_lb;
		if (lsm_debug_first_lb < 0)
			edit->meta.first_root_lb += LSM_FIRST_VERSION_LB;
		edit->meta.next_root_lb = edit->meta.first_root_lb;
		edit->meta.next_version_lb = LSM_FIRST_VERSION_LB;
		edit->meta.ring_lbs = LSM_END_VERSION_LB - LSM_FIRST_VERSION_LB;
		if (lsm_debug_ring_lbs > 0)
			edit->meta.ring_lbs = Max(lsm_debug_ring_lbs, LSM_RING_SECTORS);
		edit->meta.ring_lbs -= edit->meta.ring_lbs % LSM_RING_SECTORS;
		edit->meta.generation = 1;
		edit->meta.generation_xid = lsm_first_xid_to_come(rel);
		edit->meta.next_segment_id = 1;
	}
	if (lsm_op_drops_tail(op))
		lsm_edit_drop_tail(edit);
	MemoryContextSwitchTo(caller);
	return edit;
}

int
lsm_edit_entries(const LsmEdit *edit)
{
	int			n = 0;

	for (int i = 0; i < edit->nleaves; i++)
		n += edit->leaves[i].nentries;
	return n;
}

/*
 * Has the manifest room for who writes to the table?  What is flushed makes it longer, so that
 * ends before compactions, VACUUM and punching are unable to go on, which make it shorter.
 */
void
lsm_edit_check_room(const LsmEdit *edit)
{
	int			types[LSM_ENTRY_RETIRED + 1] = {0};
	int			n = lsm_edit_entries(edit);

	if (n < lsm_manifest_most_written())
		return;
	for (int i = 0; i < edit->nleaves; i++)
		for (int j = 0; j < edit->leaves[i].nentries; j++)
			types[Min(edit->leaves[i].entries[j].type, LSM_ENTRY_RETIRED)]++;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("table \"%s\" has too many segments and free ranges",
					RelationGetRelationName(edit->rel)),
			 errdetail("There are %d segments, %d free ranges and %d others.  Of %d places %d are kept for compactions and VACUUM.",
					   types[LSM_ENTRY_SEGMENT], types[LSM_ENTRY_FREE],
					   n - types[LSM_ENTRY_SEGMENT] - types[LSM_ENTRY_FREE],
					   lsm_manifest_most(), lsm_manifest_most() - lsm_manifest_most_written()),
			 types[LSM_ENTRY_FREE] > n / 2 ? errhint("Run VACUUM FULL or CLUSTER on the table.") :
			 errhint("End transactions that have been open for long, then run VACUUM on the table.")));
}

/* Say so long before flushes fail. */
void
lsm_manifest_warn(Relation rel, double fill)
{
	ereport(WARNING,
			(errmsg("table \"%s\" has used %.0f%% of its places for segments and free ranges",
					RelationGetRelationName(rel), floor(100.0 * Min(fill, 1))),
			 errdetail("Inserts, updates and deletes fail when there are none left."),
			 errhint("End transactions that have been open for long, then run VACUUM on the table.")));
}

void
lsm_edit_add(LsmEdit *edit, const LsmManifestEntry *entry)
{
	LsmEditLeaf *leaf = NULL;

	if (lsm_edit_entries(edit) >= lsm_manifest_most())
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has no place for another segment or free range",
						RelationGetRelationName(edit->rel)),
				 errdetail("Not even for compactions and VACUUM: there are %d.", lsm_manifest_most()),
				 errhint("Run VACUUM FULL on the table.")));

	/* rather a leaf that is written anyway */
	for (int i = 0; i < edit->nleaves; i++)
	{
		LsmEditLeaf *candidate = &edit->leaves[i];

		if (candidate->nentries < (int) LSM_ENTRIES_PER_LEAF &&
			(leaf == NULL || (candidate->dirty && !leaf->dirty)))
			leaf = candidate;
	}
	if (leaf == NULL)
	{
		Assert(edit->nleaves < (int) LSM_MAX_LEAVES);
		if (edit->nleaves >= edit->maxleaves)
		{
			edit->maxleaves *= 2;
			edit->leaves = repalloc(edit->leaves, edit->maxleaves * sizeof(LsmEditLeaf));
		}
		leaf = &edit->leaves[edit->nleaves++];
		memset(leaf, 0, sizeof(LsmEditLeaf));
	}
	lsm_edit_own_leaf(edit, leaf);
	leaf->entries[leaf->nentries++] = *entry;
}

/* The place of a segment's entry in a leaf; -1: it is not there. */
static int
lsm_edit_leaf_find(const LsmEditLeaf *leaf, uint64 uid)
{
	for (int i = 0; i < leaf->nentries; i++)
		if (leaf->entries[i].type == LSM_ENTRY_SEGMENT && leaf->entries[i].uid == uid)
			return i;
	return -1;
}

/* Where a segment's entry is; false: it is not in the manifest. */
static bool
lsm_edit_locate(LsmEdit *edit, uint64 uid, int *leaf, int *place)
{
	LsmView    *view = edit->table->view;
	const LsmManifestEntry *entry = lsm_view_find_segment(view, uid);

	if (entry != NULL)
	{
		int			at = (int) (entry - view->entries);

		/* in the leaf where it was before the edit, but there its place may be another */
		for (*leaf = 0; at >= view->leaf_entries[*leaf]; (*leaf)++)
			at -= view->leaf_entries[*leaf];
		*place = lsm_edit_leaf_find(&edit->leaves[*leaf], uid);
		if (*place >= 0)
			return true;
	}
	for (*leaf = 0; *leaf < edit->nleaves; (*leaf)++)
	{
		*place = lsm_edit_leaf_find(&edit->leaves[*leaf], uid);
		if (*place >= 0)
			return true;
	}
	return false;
}

/* A segment's entry for reading, NULL if it is not in the manifest. */
LsmManifestEntry *
lsm_edit_find(LsmEdit *edit, uint64 uid)
{
	int			leaf;
	int			place;

	if (!lsm_edit_locate(edit, uid, &leaf, &place))
		return NULL;
	return &edit->leaves[leaf].entries[place];
}

/*
 * The same entry for changing.  (Not the pointer that lsm_edit_find() gave: its leaf
 * may be the view's.)
 */
LsmManifestEntry *
lsm_edit_change(LsmEdit *edit, uint64 uid)
{
	int			leaf;
	int			place;

	if (!lsm_edit_locate(edit, uid, &leaf, &place))
		return NULL;
	lsm_edit_own_leaf(edit, &edit->leaves[leaf]);
	return &edit->leaves[leaf].entries[place];
}

static void
lsm_edit_add_free(LsmEdit *edit, LsmExtent extent, uint64 freed_at)
{
	LsmManifestEntry entry;

	memset(&entry, 0, sizeof(entry));
	entry.type = LSM_ENTRY_FREE;
	LSM_ENTRY_FREED_AT(&entry) = freed_at;
	entry.nextents = 1;
	entry.extents[0] = extent;
	lsm_edit_add(edit, &entry);
}

/*
 * Give an extent back; it joins free neighbours.  Anyone may use it again as soon as the
 * edit is committed: readers prove each page (I5).
 */
void
lsm_edit_free_extent(LsmEdit *edit, LsmExtent extent)
{
	lsm_edit_free_extent_at(edit, extent, GetXLogInsertRecPtr());
}

/*
 * The same for pages that were free before.  freed_at: where WAL was when they
 * became free, 0 if they have been punched since.
 */
void
lsm_edit_free_extent_at(LsmEdit *edit, LsmExtent extent, uint64 freed_at)
{
	if (extent.npages == 0)
		return;
restart:
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *other = &edit->leaves[i].entries[j];

			if (other->type != LSM_ENTRY_FREE)
				continue;
			if (other->extents[0].start + other->extents[0].npages == extent.start)
				extent.start = other->extents[0].start;
			else if (extent.start + extent.npages != other->extents[0].start)
				continue;
			extent.npages += other->extents[0].npages;
			freed_at = Max(freed_at, LSM_ENTRY_FREED_AT(other));
			lsm_edit_remove_at(edit, i, j);
			goto restart;
		}
	}
	lsm_edit_add_free(edit, extent, freed_at);
}

/*
 * The same for pages of which there may be very many: they come to the free ones all together,
 * when the edit is committed.
 */
static void
lsm_edit_free_later(LsmEdit *edit, LsmExtent extent, uint64 freed_at)
{
	if (extent.npages == 0)
		return;
	if (edit->nfreed >= edit->maxfreed)
	{
		edit->maxfreed = Max(64, edit->maxfreed * 2);
		if (edit->freed == NULL)
			edit->freed = MemoryContextAlloc(edit->context, edit->maxfreed * sizeof(LsmFreed));
		else
			edit->freed = repalloc_huge(edit->freed, edit->maxfreed * sizeof(LsmFreed));
	}
	edit->freed[edit->nfreed].extent = extent;
	edit->freed[edit->nfreed++].freed_at = freed_at;
}

static int
lsm_freed_cmp(const void *a, const void *b)
{
	BlockNumber x = ((const LsmFreed *) a)->extent.start;
	BlockNumber y = ((const LsmFreed *) b)->extent.start;

	return x < y ? -1 : x > y;
}

static inline BlockNumber
lsm_freed_end(const LsmFreed *freed)
{
	return freed->extent.start + freed->extent.npages;
}

/* Is an extent a neighbour of one of these?  They are sorted. */
static bool
lsm_freed_touch(const LsmFreed *freed, int n, LsmExtent extent)
{
	int			low = 0;
	int			high = n;

	/* the first that does not begin before it */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (freed[middle].extent.start < extent.start)
			low = middle + 1;
		else
			high = middle;
	}
	return (low < n && freed[low].extent.start == extent.start + extent.npages) ||
		(low > 0 && lsm_freed_end(&freed[low - 1]) == extent.start);
}

/*
 * Free what has been put off: in one pass for the free neighbours, with which it is joined
 * then.
 */
static void
lsm_edit_free_all(LsmEdit *edit)
{
	int			n = edit->nfreed;

	qsort(edit->freed, n, sizeof(LsmFreed), lsm_freed_cmp);
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (entry->type != LSM_ENTRY_FREE ||
				!lsm_freed_touch(edit->freed, n, entry->extents[0]))
				continue;
			lsm_edit_free_later(edit, entry->extents[0], LSM_ENTRY_FREED_AT(entry));
			lsm_edit_remove_at(edit, i, j--);
		}
	}
	qsort(edit->freed, edit->nfreed, sizeof(LsmFreed), lsm_freed_cmp);
	for (int i = 0; i < edit->nfreed; i++)
	{
		LsmFreed   *freed = &edit->freed[i];

		if (i + 1 < edit->nfreed && lsm_freed_end(freed) == freed[1].extent.start)
		{
			freed[1].extent.start = freed->extent.start;
			freed[1].extent.npages += freed->extent.npages;
			freed[1].freed_at = Max(freed[1].freed_at, freed->freed_at);
		}
		else
			lsm_edit_add_free(edit, freed->extent, freed->freed_at);
	}
	edit->nfreed = 0;
}

/* Give an extent, which is not in the manifest, to an operation. */
void
lsm_edit_add_pending(LsmEdit *edit, uint16 owner, LsmExtent extent)
{
	LsmManifestEntry entry;

	memset(&entry, 0, sizeof(entry));
	entry.type = LSM_ENTRY_PENDING;
	entry.kind = owner;
	entry.nextents = 1;
	entry.extents[0] = extent;
	lsm_edit_add(edit, &entry);
}

/*
 * The manifest goes to another extent, which is not in it; what it has had is
 * free.  All of it is written by the commit.
 */
void
lsm_edit_move_manifest(LsmEdit *edit, LsmExtent to)
{
	LsmExtent	old[LSM_MAX_MANIFEST_EXTENTS];
	uint32		n = edit->meta.nextents;

	memcpy(old, edit->meta.extents, n * sizeof(LsmExtent));
	edit->meta.nextents = 1;
	edit->meta.extents[0] = to;
	for (uint32 i = 0; i < n; i++)
		lsm_edit_free_extent(edit, old[i]);
	for (int i = 0; i < edit->nleaves; i++)
		if (edit->leaves[i].nentries > 0)
			lsm_edit_own_leaf(edit, &edit->leaves[i]);
	edit->manifest_changed = true;
}

/*
 * Drop a segment and free its pages.  If it has large values, a query may hold
 * pointers to them by block number, which no stamp can protect: then the entry
 * is retired, and its pages are free when no such query can run any more (I15).
 */
void
lsm_edit_remove_segment(LsmEdit *edit, uint64 uid)
{
	LsmManifestEntry entry;
	int			leaf;
	int			place;

	if (!lsm_edit_locate(edit, uid, &leaf, &place))
		elog(ERROR, "segment " UINT64_FORMAT " is not in the manifest", uid);
	entry = edit->leaves[leaf].entries[place];
	if (entry.flags & LSM_SEGFLAG_VALUES)
	{
		lsm_edit_retire_at(edit, leaf, place);
		return;
	}
	lsm_edit_remove_at(edit, leaf, place);
	for (int i = 0; i < entry.nextents; i++)
		lsm_edit_free_later(edit, entry.extents[i], GetXLogInsertRecPtr());
}

/*
 * Free what was given to operations of one kind: for whoever holds that kind's
 * lock, at its beginning, when it can only have been left by a dead one.
 */
bool
lsm_edit_free_pending(LsmEdit *edit, uint16 owner)
{
	return lsm_edit_free_pending_at(edit, owner, GetXLogInsertRecPtr());
}

bool
lsm_edit_free_pending_at(LsmEdit *edit, uint16 owner, uint64 freed_at)
{
	bool		any = false;

	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry entry = edit->leaves[i].entries[j];

			if (entry.type != LSM_ENTRY_PENDING || entry.kind != owner)
				continue;
			lsm_edit_remove_at(edit, i, j--);
			lsm_edit_free_later(edit, entry.extents[0], freed_at);
			any = true;
		}
	}
	return any;
}

/*
 * Retire the pages of large values of generations up to that one; those of a
 * range that a flush has left in the row log stay with it.
 */
void
lsm_edit_retire_values(LsmEdit *edit, uint32 generation)
{
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];
			bool		left = false;

			if (entry->type != LSM_ENTRY_VALUES || entry->gen_hi > generation)
				continue;
			for (uint32 k = 0; k < edit->meta.nranges; k++)
				if (edit->meta.ranges[k].kind != LSM_RANGE_FREE &&
					edit->meta.ranges[k].generation == entry->gen_hi)
					left = true;
			if (!left)
				lsm_edit_retire_at(edit, i, j);
		}
	}
}

/*
 * Free what was retired by edits before, if no query that began before that can
 * run any more.
 */
bool
lsm_edit_free_retired(LsmEdit *edit)
{
	uint64		horizon = lsm_retired_horizon(edit->rel);
	bool		any = false;

	Assert(!edit->retires);
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry entry = edit->leaves[i].entries[j];
			uint64		stamp = lsm_entry_retired_xid(&edit->meta, &entry);

			if (stamp == 0 || stamp >= horizon)
				continue;
			edit->conflict_xid = Max(edit->conflict_xid, stamp);
			lsm_edit_remove_at(edit, i, j--);
			for (int k = 0; k < entry.nextents; k++)
				lsm_edit_free_later(edit, entry.extents[k], GetXLogInsertRecPtr());
			any = true;
		}
	}
	return any;
}

/* The free extent that begins at start is free no longer; returns its freed_at. */
uint64
lsm_edit_take_free(LsmEdit *edit, BlockNumber start)
{
	for (int i = 0; i < edit->nleaves; i++)
		for (int j = 0; j < edit->leaves[i].nentries; j++)
			if (edit->leaves[i].entries[j].type == LSM_ENTRY_FREE &&
				edit->leaves[i].entries[j].extents[0].start == start)
			{
				uint64		freed_at = LSM_ENTRY_FREED_AT(&edit->leaves[i].entries[j]);

				lsm_edit_remove_at(edit, i, j);
				return freed_at;
			}
	elog(ERROR, "page %u does not begin a free range", start);
	return 0;					/* keep compiler quiet */
}

/*
 * A PENDING extent becomes part of a segment: its entry goes.  The extent may
 * be shorter than what was given out; the rest is freed.
 */
void
lsm_edit_take_pending(LsmEdit *edit, uint16 owner, LsmExtent extent)
{
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry entry = edit->leaves[i].entries[j];

			if (entry.type != LSM_ENTRY_PENDING || entry.kind != owner ||
				entry.extents[0].start != extent.start)
				continue;
			Assert(entry.extents[0].npages >= extent.npages);
			lsm_edit_remove_at(edit, i, j);
			entry.extents[0].start += extent.npages;
			entry.extents[0].npages -= extent.npages;
			lsm_edit_free_extent(edit, entry.extents[0]);
			return;
		}
	}
	elog(ERROR, "pages %u to %u were not given to this operation",
		 extent.start, extent.start + extent.npages - 1);
}

/* Write one manifest page, log it. */
static void
lsm_manifest_write_page(LsmEdit *edit, BlockNumber block, uint16 kind,
						const void *data, Size len)
{
	Buffer		buffer = ReadBufferExtended(edit->rel, MAIN_FORKNUM, block,
											RBM_ZERO_AND_LOCK, NULL);
	Page		page = BufferGetPage(buffer);

	START_CRIT_SECTION();
	lsm_page_init(page, kind, edit->meta.incarnation, 0, 0);
	lsm_page_set_content(page, data, len);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(edit->rel))
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

static int
lsm_block_cmp(const void *a, const void *b)
{
	BlockNumber x = *(const BlockNumber *) a;
	BlockNumber y = *(const BlockNumber *) b;

	return x < y ? -1 : x > y;
}

/*
 * Pages for n new manifest pages: those of the manifest's extents that the
 * present manifest does not reach, or a new extent.
 */
static BlockNumber *
lsm_manifest_spare(LsmEdit *edit, int n)
{
	LsmView    *view = edit->table->view;
	BlockNumber *used = palloc((view->nleaves + 1) * sizeof(BlockNumber));
	BlockNumber *spare = palloc(n * sizeof(BlockNumber));
	uint32		total = 0;
	int			found = 0;

	memcpy(used, view->leaves, view->nleaves * sizeof(BlockNumber));
	used[view->nleaves] = view->meta.manifest_root;
	qsort(used, view->nleaves + 1, sizeof(BlockNumber), lsm_block_cmp);

	for (uint32 i = 0; i < edit->meta.nextents && found < n; i++)
	{
		for (uint32 j = 0; j < edit->meta.extents[i].npages && found < n; j++)
		{
			BlockNumber block = edit->meta.extents[i].start + j;

			if (bsearch(&block, used, view->nleaves + 1, sizeof(BlockNumber),
						lsm_block_cmp) == NULL)
				spare[found++] = block;
		}
		total += edit->meta.extents[i].npages;
	}
	if (found < n)
	{
		LsmExtent	extent;

		if (edit->meta.nextents >= LSM_MAX_MANIFEST_EXTENTS)
			elog(ERROR, "the manifest has no room for another extent");
		extent.start = edit->meta.npages;
		extent.npages = Max(total, (uint32) (n - found) + 2);
		lsm_edit_check_growth(edit, extent.npages);
		lsm_space_reserve(edit->rel, extent);
		lsm_space_ensure(edit->rel, extent.start + extent.npages);
		edit->meta.npages += extent.npages;
		edit->meta.extents[edit->meta.nextents++] = extent;
		for (BlockNumber block = extent.start; found < n; block++)
			spare[found++] = block;
	}
	pfree(used);

	/* after a crash or promotion the end of an extent may not be there yet */
	for (int i = 0; i < n; i++)
		lsm_space_ensure(edit->rel, spare[i] + 1);
	return spare;
}

/* Write the changed leaves and the new root; nothing reaches them yet. */
static void
lsm_edit_write_manifest(LsmEdit *edit)
{
	LsmManifestRoot *root = palloc0(LSM_PAGE_PAYLOAD);
	LsmManifestLeaf *copy = palloc0(LSM_PAGE_PAYLOAD);
	BlockNumber *spare;
	int			nwrite = 1;
	int			next = 0;
	BlockNumber root_block;

	for (int i = 0; i < edit->nleaves; i++)
		if (edit->leaves[i].dirty && edit->leaves[i].nentries > 0)
			nwrite++;
	spare = lsm_manifest_spare(edit, nwrite);

	for (int i = 0; i < edit->nleaves; i++)
	{
		LsmEditLeaf *leaf = &edit->leaves[i];

		if (leaf->nentries == 0)
			continue;
		if (leaf->dirty)
		{
			leaf->block = spare[next++];
			copy->nentries = leaf->nentries;
			memcpy(copy->entries, leaf->entries, leaf->nentries * sizeof(LsmManifestEntry));
			lsm_manifest_write_page(edit, leaf->block, LSM_PAGE_MANIFEST_LEAF, copy,
									offsetof(LsmManifestLeaf, entries) +
									leaf->nentries * sizeof(LsmManifestEntry));
		}
		root->leaves[root->nleaves++] = leaf->block;
		root->nentries += leaf->nentries;
	}
	root_block = spare[next++];
	lsm_manifest_write_page(edit, root_block, LSM_PAGE_MANIFEST_ROOT, root,
							offsetof(LsmManifestRoot, leaves) + root->nleaves * sizeof(BlockNumber));
	edit->meta.manifest_root = root_block;
}

/*
 * Make the change: write the manifest pages, then in one critical section
 * block 0, its WAL record and the shared state.
 */
void
lsm_edit_commit(LsmEdit *edit)
{
	LsmTableShared *shared = edit->table->shared;
	Buffer		buffer;
	Page		page;

	MemoryContext caller = MemoryContextSwitchTo(edit->context);

	if (edit->nfreed > 0)
		lsm_edit_free_all(edit);
	edit->meta.counter++;
	if (edit->manifest_changed)
	{
		lsm_edit_write_manifest(edit);
		edit->meta.manifest_counter = edit->meta.counter;
	}
	lsm_space_ensure(edit->rel, 1);
	MemoryContextSwitchTo(caller);

	LWLockAcquire(&shared->gen_lock, LW_EXCLUSIVE);

	buffer = ReadBufferExtended(edit->rel, MAIN_FORKNUM, LSM_META_BLOCK, RBM_ZERO_AND_LOCK, NULL);
	page = BufferGetPage(buffer);

	START_CRIT_SECTION();

	/*
	 * Who reads the old manifest has a snapshot from before that xid.  Race: readers do not wait
	 * for gen_lock, and standbys not for us; so nobody gets the xid, and can have ended with
	 * it, before the new manifest is there.
	 */
	if (edit->retires)
	{
		LWLockAcquire(XidGenLock, LW_SHARED);
		edit->meta.retired_xid = U64FromFullTransactionId(lsm_compat_next_full_xid());
	}
	lsm_page_init(page, LSM_PAGE_META, edit->meta.incarnation, 0, 0);
	lsm_page_set_content(page, &edit->meta, LSM_META_BYTES(&edit->meta));
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(edit->rel))
	{
		xl_lsm_meta xlrec = {0};
		XLogRecPtr	lsn;

		/* under an exclusive lock, which who is in conflict may be waiting for */
		Assert(edit->op != LSM_OP_TRUNCATE || edit->conflict_xid == 0);
		xlrec.conflict_xid = edit->conflict_xid;
		xlrec.version = LSM_WAL_VERSION;
		xlrec.op = edit->op;
		XLogBeginInsert();
		XLogRegisterData((char *) &xlrec, sizeof(xlrec));
		XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT | REGBUF_STANDARD);
		XLogRegisterBufData(0, (char *) &edit->meta, LSM_META_BYTES(&edit->meta));
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_META);
		PageSetLSN(page, lsn);
	}
	lsm_table_adopt_meta(shared, &edit->meta, lsm_op_moves(edit->op));
	if (edit->retires)
		LWLockRelease(XidGenLock);
	END_CRIT_SECTION();

	UnlockReleaseBuffer(buffer);
	if (edit->rest.npages > 0 || edit->value_rest.npages > 0 || edit->own_pages > 0)
	{
		SpinLockAcquire(&shared->mutex);
		shared->gen_pages += edit->own_pages;
		if (edit->rest.npages > 0)
			shared->rest[edit->rest_kind] = edit->rest;
		if (edit->value_rest.npages > 0)
			shared->value_rest = edit->value_rest;
		SpinLockRelease(&shared->mutex);
	}
	LWLockRelease(&shared->gen_lock);
	LWLockRelease(&shared->edit_lock);
	MemoryContextDelete(edit->context);
}

void
lsm_edit_abandon(LsmEdit *edit)
{
	LWLockRelease(&edit->table->shared->edit_lock);
	MemoryContextDelete(edit->context);
}
