/*-------------------------------------------------------------------------
 *
 * lsm_view.c
 *	  What readers see of a table: block 0 and the manifest, as of one moment.
 *
 * A reader copies block 0, then root and leaves, then looks whether the counter
 * has moved meanwhile; only then may the pages it read have been overwritten.
 * The copy is the view.  Each backend has one for each table that it uses, the
 * newest it has needed, with the segments sorted by what readers ask for, and
 * keeps as many as lsm.debug_kept_views has room for.
 *
 * LOCKING
 *	  None.  Whoever needs the view to stay the newest holds gen_lock
 *	  (lsm_view_current()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_manifest.h"
#include "lsm_stop.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

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

static void
lsm_sums_add(LsmSegmentSums *sums, const LsmManifestEntry *entry)
{
	bool		values = (entry->flags & LSM_SEGFLAG_VALUES) != 0;

	sums->rows += entry->rows;
	sums->versions += entry->versions;
	sums->blocks += entry->blocks;
	sums->stored += entry->stored_bytes;
	sums->read += values ? Min(entry->stored_bytes, entry->raw_bytes) : entry->stored_bytes;
	sums->decoded += values ? 0 : entry->raw_bytes;
	sums->lbs += LSM_TID_LB(entry->last_tid) - LSM_TID_LB(entry->first_tid) + 1;
}

/* Sort the segments of a new view by what readers ask for. */
static void
lsm_view_sort(LsmView *view)
{
	view->base = palloc(Max(view->nentries, 1) * sizeof(LsmManifestEntry *));
	view->increments = palloc(Max(view->nentries, 1) * sizeof(LsmManifestEntry *));
	view->nbase = view->nincrements = 0;
	view->ended = -1;
	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry *entry = &view->entries[i];

		if (entry->type != LSM_ENTRY_SEGMENT)
			continue;
		if (entry->kind == 1 || entry->kind == 3)	/* insert, baseline */
		{
			view->base[view->nbase++] = entry;
			lsm_sums_add(&view->all_base, entry);
			if (lsm_entry_is_cold(entry))
				lsm_sums_add(&view->cold_base, entry);
		}
		else if (entry->kind == 2)
		{
			view->increments[view->nincrements++] = entry;
			lsm_sums_add(&view->all_increments, entry);
		}
	}
	qsort(view->base, view->nbase, sizeof(LsmManifestEntry *), lsm_entry_cmp_base);
	qsort(view->increments, view->nincrements, sizeof(LsmManifestEntry *),
		  lsm_entry_cmp_newest);
	lsm_view_order_increments(view);
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
