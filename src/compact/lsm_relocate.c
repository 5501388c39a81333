/*-------------------------------------------------------------------------
 *
 * lsm_relocate.c
 *	  Segments at the end of the file move to free pages before them.
 *
 * What a load or a compaction has written lies behind the row log or the segments
 * that it was made of, whose pages are free then.  VACUUM moves what ends last into
 * them, so that the end of the file can be given back (lsm_truncate.c).
 *
 *	lsm_relocate:
 *		while there are free pages before the extent that ends last:
 *			one edit: as many of them as it has become PENDING
 *			the end of the extent, or all of it, is copied there, and logged
 *			one edit: the entry names the new pages, the old ones are free, or retired
 *
 * As each step takes what ends last, no more pages are ever written than the file gets
 * shorter by, at once or when what is retired has gone.  A step is one extent, which is at most
 * a segment.
 *
 * WHY READERS NEED NOT WAIT
 *	  The segment stays the same, as do all that caches have of it: pages say whose they
 *	  are and which, but not where.  So a moved page is to who has an old view what
 *	  a page of a compacted segment is (I5): there as long as nobody has written to it,
 *	  then one that does not prove.  Pages of segments with large values have live
 *	  pointers: they are retired, and free when nobody can have one (I15).  Not moved are
 *	  - segments that a major has claimed: moves to and from a store read and write pages
 *		of a segment by the entry they began with, and compactions replace them anyway;
 *	  - increments with large values that a minor has claimed: jobs have live pointers
 *		without a snapshot;
 *	  - segments with large values while others write to the table: new pages would come
 *		behind those that are retired, and be moved in their turn.
 *
 * CRASH SAFETY
 *	  As for other jobs: pages are PENDING until the edit that names them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_blockcache.h"
#include "lsm_compact.h"
#include "lsm_load.h"
#include "lsm_manifest.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/snapmgr.h"

/* To move is worth it if the file gets shorter by so many pages, and such a part. */
#define LSM_RELOCATE_MINIMUM	64
#define LSM_RELOCATE_FRACTION	16

/* Less of an extent is not moved by itself. */
#define LSM_RELOCATE_LEAST		32

/* What is retired needs a place in the manifest, of which others need so many. */
#define LSM_RELOCATE_FILL		0.5

/* So much is moved by autovacuum, too, though others write to the table. */
#define LSM_RELOCATE_SMALL		1024

/* So often something else may happen to a segment while it is moved. */
#define LSM_RELOCATE_TRIES		8

/* One step. */
typedef struct LsmRelocation
{
	LsmManifestEntry entry;		/* of the segment, as it was */
	int			extent;			/* of which the end moves */
	LsmExtent	place;			/* to these pages */
} LsmRelocation;

static inline BlockNumber
lsm_extent_end(LsmExtent extent)
{
	return extent.start + extent.npages;
}

/* ---- is it worth it? ---- */

/* What the pages of a file are used for. */
typedef struct LsmRelocatePages
{
	BlockNumber fixed_end;		/* of what cannot be moved */
	BlockNumber end;			/* of that and segments */
	uint64		used;
} LsmRelocatePages;

static void
lsm_relocate_count(LsmRelocatePages *pages, LsmExtent extent, bool movable)
{
	pages->used += extent.npages;
	pages->end = Max(pages->end, lsm_extent_end(extent));
	if (!movable)
		pages->fixed_end = Max(pages->fixed_end, lsm_extent_end(extent));
}

/* Does nobody write to the table?  Known after a flush. */
static bool
lsm_relocate_at_rest(const LsmMeta *meta)
{
	for (uint32 i = 0; i < meta->nranges; i++)
		if (meta->ranges[i].kind != LSM_RANGE_FREE)
			return false;
	return true;
}

static bool
lsm_relocate_movable(const LsmManifestEntry *entry, bool at_rest)
{
	return entry->type == LSM_ENTRY_SEGMENT && (at_rest || !lsm_entry_is_pointed_to(entry));
}

/* Have all segments together few pages? */
static bool
lsm_relocate_small(const LsmView *view)
{
	uint64		npages = 0;

	for (int i = 0; i < view->nentries; i++)
		for (int j = 0; j < view->entries[i].nextents && view->entries[i].type == LSM_ENTRY_SEGMENT; j++)
			npages += view->entries[i].extents[j].npages;
	return npages <= LSM_RELOCATE_SMALL;
}

/*
 * Would the file be enough shorter?  resting: only if nobody writes to the table, who
 * would soon have the file as long as it was, or if there is little to move.  A guess, taken
 * without locks.
 */
bool
lsm_relocate_worth(Relation rel, LsmTable *table, bool resting)
{
	LsmView    *view = lsm_view_get(rel, table);
	BlockNumber nblocks = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	uint32		manifest = lsm_manifest_pages(view->nleaves);
	LsmRelocatePages pages = {0};
	BlockNumber unmoved;
	uint64		moved;
	bool		at_rest = lsm_relocate_at_rest(&view->meta);

	if (resting && !at_rest && !lsm_relocate_small(view))
		return false;
	lsm_relocate_count(&pages, (LsmExtent) {LSM_META_BLOCK, 1}, false);
	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind != LSM_RANGE_FREE)
			lsm_relocate_count(&pages, view->meta.ranges[i].pages, false);
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type != LSM_ENTRY_FREE)
			for (int j = 0; j < view->entries[i].nextents; j++)
				lsm_relocate_count(&pages, view->entries[i].extents[j],
								   lsm_relocate_movable(&view->entries[i], at_rest));
	moved = Max(pages.used, pages.fixed_end) + manifest;
	unmoved = Min(pages.end + manifest, nblocks);
	return unmoved >= moved + LSM_RELOCATE_MINIMUM &&
		unmoved - moved >= nblocks / LSM_RELOCATE_FRACTION;
}

/* ---- what moves, and where to ---- */

/* Has a job claimed a segment that would mind? */
static bool
lsm_relocate_claimed(LsmEdit *edit, const LsmManifestEntry *entry)
{
	LsmTableShared *shared = edit->table->shared;

	return lsm_claimed_by_major(shared, entry->first_tid, entry->last_tid) ||
		(lsm_entry_is_pointed_to(entry) && entry->kind == LSM_SEGKIND_INCREMENT &&
		 entry->gen_hi >= lsm_claimed_by_minor(shared));
}

/*
 * Find what ends last; false: it cannot be moved.  What is retired goes by itself: what lies
 * before it moves meanwhile, as does the rest of a segment of which the end has been moved.
 */
static bool
lsm_relocate_last(LsmEdit *edit, LsmRelocation *step)
{
	LsmMeta    *meta = &edit->meta;
	bool		at_rest = lsm_relocate_at_rest(meta);
	BlockNumber end = 0;
	bool		found = false;

	for (uint32 i = 0; i < meta->nranges; i++)
		end = Max(end, lsm_extent_end(meta->ranges[i].pages));
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (entry->type == LSM_ENTRY_FREE || entry->type == LSM_ENTRY_RETIRED)
				continue;
			for (int k = 0; k < entry->nextents; k++)
			{
				if (lsm_extent_end(entry->extents[k]) <= end)
					continue;
				end = lsm_extent_end(entry->extents[k]);
				found = lsm_relocate_movable(entry, at_rest);
				step->entry = *entry;
				step->extent = k;
			}
		}
	}
	return found && !lsm_relocate_claimed(edit, &step->entry) &&
		(!lsm_entry_is_pointed_to(&step->entry) ||
		 lsm_manifest_fill(lsm_edit_entries(edit)) < LSM_RELOCATE_FILL);
}

static int
lsm_extent_cmp(const void *a, const void *b)
{
	BlockNumber x = ((const LsmExtent *) a)->start;
	BlockNumber y = ((const LsmExtent *) b)->start;

	return x < y ? -1 : x > y;
}

/* Free extents before a page, in their order. */
static LsmExtent *
lsm_relocate_free(LsmEdit *edit, BlockNumber before, int *n)
{
	LsmExtent  *extents = NULL;
	int			max = 0;

	*n = 0;
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (entry->type != LSM_ENTRY_FREE || entry->extents[0].start >= before)
				continue;
			if (*n >= max)
			{
				max = Max(2 * max, 64);
				extents = extents == NULL ? palloc(max * sizeof(LsmExtent)) :
					repalloc_huge(extents, max * sizeof(LsmExtent));
			}
			extents[(*n)++] = entry->extents[0];
		}
	}
	if (*n > 1)
		qsort(extents, *n, sizeof(LsmExtent), lsm_extent_cmp);
	return extents;
}

/* Leave the first place that is large enough to the manifest, which moves last. */
static void
lsm_relocate_spare_manifest(LsmEdit *edit, LsmExtent *extents, int n)
{
	uint32		npages = lsm_manifest_pages(edit->nleaves);

	for (int i = 0; i < n; i++)
	{
		if (extents[i].npages < npages)
			continue;
		extents[i].start += npages;
		extents[i].npages -= npages;
		return;
	}
}

/*
 * Choose free pages: the first that have room for all of the extent, else as many as
 * there are in a row.  False: there are none.
 */
static bool
lsm_relocate_choose(LsmEdit *edit, LsmRelocation *step)
{
	const LsmManifestEntry *entry = &step->entry;
	LsmExtent	from = entry->extents[step->extent];
	int			most = lsm_entry_max_extents(entry);
	uint32		least = entry->nextents < most ? Min(LSM_RELOCATE_LEAST, from.npages) : from.npages;
	int			n;
	LsmExtent  *extents = lsm_relocate_free(edit, from.start, &n);

	lsm_relocate_spare_manifest(edit, extents, n);
	step->place.npages = 0;
	for (int i = 0; i < n && step->place.npages < from.npages; i++)
	{
		if (extents[i].npages < Max(least, step->place.npages + 1))
			continue;
		step->place = extents[i];
		step->place.npages = Min(step->place.npages, from.npages);
	}
	if (extents != NULL)
		pfree(extents);
	return step->place.npages > 0;
}

/* Take chosen pages out of the free extent that they are part of. */
static void
lsm_relocate_take(LsmEdit *edit, LsmExtent place)
{
	LsmExtent	whole = {0, 0};
	LsmExtent	rest;
	uint64		freed_at;

	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (entry->type == LSM_ENTRY_FREE && entry->extents[0].start <= place.start &&
				lsm_extent_end(entry->extents[0]) > place.start)
				whole = entry->extents[0];
		}
	}
	Assert(lsm_extent_end(whole) >= lsm_extent_end(place));
	freed_at = lsm_edit_take_free(edit, whole.start);
	rest.start = whole.start;
	rest.npages = place.start - whole.start;
	lsm_edit_free_extent_at(edit, rest, freed_at);
	rest.start = lsm_extent_end(place);
	rest.npages = lsm_extent_end(whole) - rest.start;
	lsm_edit_free_extent_at(edit, rest, freed_at);
	lsm_space_reserve(edit->rel, place);
	lsm_space_ensure(edit->rel, lsm_extent_end(place));
	lsm_edit_add_pending(edit, LSM_OWNER_PUNCH, place);
}

/* Begin a step; false: there is nothing more to move. */
static bool
lsm_relocate_begin(Relation rel, LsmTable *table, LsmRelocation *step)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_RELOCATE);

	if (!lsm_relocate_last(edit, step) || !lsm_relocate_choose(edit, step))
	{
		lsm_edit_abandon(edit);
		return false;
	}
	lsm_relocate_take(edit, step->place);
	lsm_edit_commit(edit);
	return true;
}

/* ---- copying ---- */

/* Pages of a relocation, read and written past most of shared buffers. */
typedef struct LsmRelocateCopy
{
	Relation	rel;
	BufferAccessStrategy reading;
	BufferAccessStrategy writing;
	char	   *pages;			/* LSM_PAGE_BATCH of them */
} LsmRelocateCopy;

/* Read n pages of a segment; false: some are not its own any more. */
static bool
lsm_relocate_read(LsmRelocateCopy *copy, uint64 uid, uint32 number, BlockNumber from, int n)
{
	bool		good = true;

	for (int i = 0; i < n && good; i++)
	{
		Buffer		buffer = ReadBufferExtended(copy->rel, MAIN_FORKNUM, from + i, RBM_NORMAL,
												copy->reading);

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		good = lsm_page_is(BufferGetPage(buffer), LSM_PAGE_SEGMENT, uid, number + i, 0);
		memcpy(copy->pages + (Size) i * BLCKSZ, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
	}
	return good;
}

static void
lsm_relocate_write(LsmRelocateCopy *copy, BlockNumber to, int n)
{
	Buffer		buffers[LSM_PAGE_BATCH];

	for (int i = 0; i < n; i++)
		buffers[i] = ReadBufferExtended(copy->rel, MAIN_FORKNUM, to + i, RBM_ZERO_AND_LOCK,
										copy->writing);
	lsm_pages_begin(copy->rel);
	START_CRIT_SECTION();
	for (int i = 0; i < n; i++)
		memcpy(BufferGetPage(buffers[i]), copy->pages + (Size) i * BLCKSZ, BLCKSZ);
	lsm_pages_log(copy->rel, buffers, n);
	END_CRIT_SECTION();
	for (int i = 0; i < n; i++)
		UnlockReleaseBuffer(buffers[i]);
}

/* Copy what a step moves; false: the segment has gone meanwhile. */
static bool
lsm_relocate_copy(LsmRelocateCopy *copy, const LsmRelocation *step)
{
	LsmExtent	from = step->entry.extents[step->extent];
	uint32		number = lsm_entry_first_page(&step->entry);
	uint32		skipped = from.npages - step->place.npages;

	LSM_STOP("relocate-copy");
	for (int i = 0; i < step->extent; i++)
		number += step->entry.extents[i].npages;
	for (uint32 done = 0; done < step->place.npages; done += LSM_PAGE_BATCH)
	{
		int			n = Min(step->place.npages - done, LSM_PAGE_BATCH);

		lsm_compact_pause();
		if (!lsm_relocate_read(copy, step->entry.uid, number + skipped + done,
							   from.start + skipped + done, n))
			return false;
		lsm_relocate_write(copy, step->place.start + done, n);
		lsm_bytes_to_pace += (uint64) n * BLCKSZ;
		lsm_progress_add(LSM_PROGRESS_BYTES_DONE, (uint64) n * BLCKSZ);
	}
	return true;
}

/* ---- the swap ---- */

/* Join extents of an entry that lie behind each other. */
static void
lsm_relocate_join(LsmManifestEntry *entry)
{
	int			n = 1;

	for (int i = 1; i < entry->nextents; i++)
	{
		if (lsm_extent_end(entry->extents[n - 1]) == entry->extents[i].start)
			entry->extents[n - 1].npages += entry->extents[i].npages;
		else
			entry->extents[n++] = entry->extents[i];
	}
	memset(&entry->extents[n], 0, (entry->nextents - n) * sizeof(LsmExtent));
	entry->nextents = n;
}

/* Is a segment's entry what it was, and no job at it? */
static bool
lsm_relocate_unchanged(LsmEdit *edit, const LsmManifestEntry *was)
{
	LsmManifestEntry *entry = lsm_edit_find(edit, was->uid);

	return entry != NULL && entry->nextents == was->nextents &&
		memcmp(entry->extents, was->extents, sizeof(entry->extents)) == 0 &&
		!lsm_relocate_claimed(edit, was);
}

/* The entry names the new pages; false: it has changed meanwhile, they are free again. */
static bool
lsm_relocate_swap(Relation rel, LsmTable *table, const LsmRelocation *step, bool copied)
{
	LsmEdit    *edit;
	LsmManifestEntry *entry;
	LsmExtent  *extent;
	LsmExtent	old;

	LSM_STOP("relocate-before-swap");
	edit = lsm_edit_begin(rel, table, LSM_OP_RELOCATE);
	if (!lsm_relocate_unchanged(edit, &step->entry))
	{
		(void) lsm_edit_free_pending(edit, LSM_OWNER_PUNCH);
		lsm_edit_commit(edit);
		return false;
	}
	if (!copied)
	{
		lsm_edit_abandon(edit);
		lsm_segment_corrupt_entry(rel, &step->entry, "a page is not the segment's");
	}
	entry = lsm_edit_change(edit, step->entry.uid);
	extent = &entry->extents[step->extent];
	old.npages = step->place.npages;
	old.start = lsm_extent_end(*extent) - old.npages;
	if (extent->npages > old.npages)
	{
		memmove(extent + 1, extent, (entry->nextents - step->extent) * sizeof(LsmExtent));
		entry->nextents++;
		extent->npages -= old.npages;
		extent++;
	}
	*extent = step->place;
	lsm_relocate_join(entry);
	lsm_edit_take_pending(edit, LSM_OWNER_PUNCH, step->place);
	if (lsm_entry_is_pointed_to(&step->entry))
		lsm_edit_retire_extent(edit, old);
	else
		lsm_edit_free_extent(edit, old);
	lsm_edit_commit(edit);
	LSM_STOP("relocate-after-swap");
	return true;
}

/* Free the ranges that the row log keeps for the next generations. */
static void
lsm_relocate_release(Relation rel, LsmTable *table)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_RELOCATE);
	LsmMeta    *meta = &edit->meta;
	bool		any = false;

	for (uint32 i = meta->nranges; i > 0; i--)
	{
		if (meta->ranges[i - 1].kind != LSM_RANGE_FREE)
			continue;
		lsm_load_clean_range(edit, &meta->ranges[i - 1]);
		lsm_edit_free_extent(edit, meta->ranges[i - 1].pages);
		meta->ranges[i - 1] = meta->ranges[--meta->nranges];
		any = true;
	}
	if (any)
		lsm_edit_commit(edit);
	else
		lsm_edit_abandon(edit);
}

/*
 * Move what is at the end of the file, about so many pages at most.  Returns how many
 * were moved.  The caller has AccessShareLock; one that punches holes, and lsm_check(), wait.
 */
uint64
lsm_relocate(Relation rel, LsmTable *table, uint64 most)
{
	LsmRelocateCopy copy;
	LsmRelocation step;
	uint64		moved = 0;
	int			failed = 0;

	copy.rel = rel;
	copy.reading = GetAccessStrategy(BAS_BULKREAD);
	copy.writing = GetAccessStrategy(AmAutoVacuumWorkerProcess() ? BAS_VACUUM : BAS_BULKWRITE);
	copy.pages = palloc(LSM_PAGE_BATCH * BLCKSZ);
	lsm_job_lock(rel, LSM_OWNER_PUNCH);
	lsm_relocate_release(rel, table);
	while (moved < most && failed < LSM_RELOCATE_TRIES && lsm_relocate_begin(rel, table, &step))
	{
		if (lsm_relocate_swap(rel, table, &step, lsm_relocate_copy(&copy, &step)))
		{
			moved += step.place.npages;
			lsm_stat_report_move(RelationGetRelid(rel), (uint64) step.place.npages * BLCKSZ);
		}
		else
			failed++;
	}

	/* at once, if nobody has a snapshot, nor have we one of the catalogs */
	InvalidateCatalogSnapshotConditionally();
	lsm_job_free_pages(rel, LSM_OWNER_PUNCH);
	lsm_job_unlock(rel, LSM_OWNER_PUNCH);
	FreeAccessStrategy(copy.reading);
	FreeAccessStrategy(copy.writing);
	pfree(copy.pages);
	return moved;
}
