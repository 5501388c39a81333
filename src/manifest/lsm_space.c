/*-------------------------------------------------------------------------
 *
 * lsm_space.c
 *	  Pages of the file: for row-log ranges and for running operations.
 *
 * LOCKING
 *	  Everything here is an edit of the manifest (edit_lock); the relation
 *	  extension lock is taken inside, for the length of the extension.
 *
 * CRASH SAFETY
 *	  The metapage says how many pages are accounted for; what a crash leaves
 *	  beyond them is used by the next extension.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "lsm_load.h"
#include "lsm_manifest.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"

#define LSM_MAX_RANGE_PAGES		128

/* Places for ranges that near pages leave to others. */
#define LSM_NEAR_LEAVES			32

/* Fewer unused pages are kept until the operation ends. */
#define LSM_GIVE_BACK_PAGES		32
#define LSM_GIVE_BACK_FILL		0.5

/* Pages that are shared out to large values, and a value that has its own. */
#define LSM_MIN_VALUE_EXTENT	16
#define LSM_MAX_VALUE_EXTENT	1024
#define LSM_OWN_VALUE_EXTENT	64

/*
 * Make the file at least nblocks long, with zeroes, so that a full disk is
 * met here and not when the checkpointer writes.
 */
void
lsm_space_ensure(Relation rel, BlockNumber nblocks)
{
	BlockNumber have = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);

	if (have >= nblocks)
		return;
	if (!RELATION_IS_LOCAL(rel))
		LockRelationForExtension(rel, ExclusiveLock);
	have = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	if (have < nblocks)
		lsm_compat_zero_extend(RelationGetSmgr(rel), have, nblocks - have);
	if (!RELATION_IS_LOCAL(rel))
		UnlockRelationForExtension(rel, ExclusiveLock);
}

/* Take npages (or, where a good free extent is shorter, fewer) from the account. */
static LsmExtent
lsm_space_take(LsmEdit *edit, uint32 npages, uint32 least)
{
	LsmExtent	extent = {0, 0};
	LsmManifestEntry *best = NULL;

	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];
			uint32		size = entry->extents[0].npages;

			if (entry->type != LSM_ENTRY_FREE || size < least)
				continue;
			/* the smallest that is large enough, else the largest */
			if (best == NULL ||
				(size >= npages && (best->extents[0].npages < npages ||
									size < best->extents[0].npages)) ||
				(size < npages && size > best->extents[0].npages))
				best = entry;
		}
	}
	if (best != NULL)
	{
		LsmExtent	whole = best->extents[0];
		uint64		freed_at;

		extent.start = whole.start;
		extent.npages = Min(npages, whole.npages);
		freed_at = lsm_edit_take_free(edit, whole.start);
		whole.start += extent.npages;
		whole.npages -= extent.npages;
		lsm_edit_free_extent_at(edit, whole, freed_at);
	}
	else
	{
		extent.start = edit->meta.npages;
		extent.npages = npages;
		lsm_edit_check_growth(edit, npages);
		edit->meta.npages += npages;
	}
	lsm_space_reserve(edit->rel, extent);
	lsm_space_ensure(edit->rel, extent.start + extent.npages);
	return extent;
}

/*
 * Give pages to an operation that holds its kind's lock: at most npages, and at
 * least least, in one extent.  They are PENDING until the operation's last edit takes them.
 */
LsmExtent
lsm_space_alloc(Relation rel, LsmTable *table, uint16 owner, uint32 npages, uint32 least)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_ALLOC);
	LsmExtent	extent;

	extent = lsm_space_take(edit, npages, least);
	lsm_edit_add_pending(edit, owner, extent);
	lsm_edit_commit(edit);
	LSM_STOP("alloc-range-after");
	return extent;
}

/*
 * An operation has used so many pages of an extent that it was given, and gives the others back:
 * what it writes next may use them.  Not if they are too few for an edit, or places in the manifest
 * are: it would have a free range more until the operation ends.
 */
void
lsm_space_give_back(Relation rel, LsmTable *table, uint16 owner, LsmExtent extent, uint32 used)
{
	LsmEdit    *edit;

	if (extent.npages - used < LSM_GIVE_BACK_PAGES ||
		lsm_manifest_fill(lsm_view_get(rel, table)->nentries) > LSM_GIVE_BACK_FILL)
		return;
	edit = lsm_edit_begin(rel, table, LSM_OP_ALLOC);
	extent.npages = used;
	lsm_edit_take_pending(edit, owner, extent);
	lsm_edit_add_pending(edit, owner, extent);
	lsm_edit_commit(edit);
}

/*
 * How many root LBs together a range may have, if it wants so many: fewer when they are used up
 * but for shorter runs.  0: there are none.
 */
static uint32
lsm_root_most(const LsmMeta *meta, uint32 nlbs)
{
	uint32		most = LSM_FIRST_VERSION_LB - meta->next_root_lb;

	for (uint32 i = 0; i < meta->nfree_lbs; i++)
		most = Max(most, meta->free_lbs[i].nlbs);
	return Min(most, nlbs);
}

/*
 * The next nlbs root LBs, no more than lsm_root_most(): some that have been found free, else new
 * ones.
 */
static BlockNumber
lsm_root_take(LsmEdit *edit, uint32 nlbs)
{
	LsmMeta    *meta = &edit->meta;
	BlockNumber lb;

	Assert(nlbs > 0 && lsm_root_most(meta, nlbs) == nlbs);
	for (uint32 i = 0; i < meta->nfree_lbs; i++)
	{
		LsmFreeLbs *lbs = &meta->free_lbs[i];

		if (lbs->nlbs < nlbs)
			continue;
		lb = lbs->lb;
		lbs->lb += nlbs;
		lbs->nlbs -= nlbs;
		if (lbs->nlbs == 0)
		{
			*lbs = meta->free_lbs[--meta->nfree_lbs];
			memset(&meta->free_lbs[meta->nfree_lbs], 0, sizeof(LsmFreeLbs));
		}
		return lb;
	}
	lb = meta->next_root_lb;
	meta->next_root_lb += nlbs;
	return lb;
}

/*
 * Give the row log another range for root pages (kind 0) or version pages (1),
 * unless someone else has just done so.
 */
LsmSpaceResult
lsm_space_new_range(Relation rel, LsmTable *table, int kind)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_RANGE);
	LsmMeta    *meta = &edit->meta;
	LsmRowRange *range = NULL;
	uint16		range_kind = kind == 0 ? LSM_RANGE_ROOT : LSM_RANGE_VERSION;
	uint32		npages = 1;
	uint32		largest = LSM_MAX_RANGE_PAGES;
	bool		have;
	double		ring_left;

	/* a range lies in one sector of the ring */
	if (kind == 1)
		largest = Min(largest, meta->ring_lbs / LSM_RING_SECTORS);

	SpinLockAcquire(&table->shared->mutex);
	have = table->shared->rest[kind].npages > 0;
	SpinLockRelease(&table->shared->mutex);
	if (have)
	{
		lsm_edit_abandon(edit);
		return LSM_SPACE_GIVEN;
	}
	if (kind == 0)
		largest = lsm_root_most(meta, largest);
	if (largest == 0)
	{
		lsm_edit_abandon(edit);
		return LSM_SPACE_NO_LBS;
	}

	/* as much again as this generation has of that kind */
	for (uint32 i = 0; i < meta->nranges; i++)
	{
		if (meta->ranges[i].kind == LSM_RANGE_FREE)
		{
			if (meta->ranges[i].pages.npages <= largest && (range == NULL || meta->ranges[i].pages.npages > range->pages.npages))
				range = &meta->ranges[i];
		}
		else if (meta->ranges[i].kind == range_kind &&
				 meta->ranges[i].generation == meta->generation)
			npages += meta->ranges[i].pages.npages;
	}
	npages = Min(npages, largest);

	if (range == NULL)
	{
		if (meta->nranges >= LSM_MAX_RANGES)
		{
			lsm_edit_abandon(edit);
			return LSM_SPACE_NO_PLACE;
		}
		range = &meta->ranges[meta->nranges++];
		memset(range, 0, sizeof(LsmRowRange));
		range->pages = lsm_space_take(edit, npages, npages);
	}
	else
	{
		lsm_space_ensure(rel, range->pages.start + range->pages.npages);
		lsm_load_clean_range(edit, range);
	}

	range->kind = range_kind;
	range->generation = meta->generation;
	if (kind == 0)
		range->lb = lsm_root_take(edit, range->pages.npages);
	else
	{
		range->kind = LSM_RANGE_FREE;	/* not in the way of itself */
		range->lb = lsm_ring_take(edit, range->pages.npages);
		range->kind = LSM_RANGE_VERSION;
	}
	edit->rest_kind = kind;
	edit->rest.block = range->pages.start;
	edit->rest.lb = range->lb;
	edit->rest.npages = range->pages.npages;
	ring_left = edit->ring_left;
	lsm_edit_commit(edit);
	if (ring_left <= LSM_RING_WARN_LEFT)
		lsm_ring_warn(rel, ring_left);
	return LSM_SPACE_GIVEN;
}

/* Give a bulk load a range of about npages pages of its own, lb_pages of them to an LB. */
LsmSpaceResult
lsm_space_load_range(Relation rel, LsmTable *table, uint32 npages, uint32 lb_pages,
					 LsmRowRange *result)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_LOAD);
	LsmMeta    *meta = &edit->meta;
	LsmRowRange *range = NULL;
	uint32		largest = lsm_root_most(meta, LSM_MAX_RANGE_PAGES) * lb_pages;

	Assert(lb_pages >= 1 && lb_pages <= LSM_MAX_LB_PAGES);
	if (largest == 0)
	{
		lsm_edit_abandon(edit);
		return LSM_SPACE_NO_LBS;
	}
	npages = Min(npages, Min(largest, LSM_MAX_RANGE_PAGES));
	/* the least that is as large, else the largest */
	for (uint32 i = 0; i < meta->nranges; i++)
	{
		uint32		size = meta->ranges[i].pages.npages;

		if (meta->ranges[i].kind != LSM_RANGE_FREE || size > largest)
			continue;
		if (range == NULL ||
			(size >= npages && (range->pages.npages < npages || size < range->pages.npages)) ||
			(size < npages && size > range->pages.npages))
			range = &meta->ranges[i];
	}
	if (range != NULL && range->pages.npages < npages && meta->nranges < LSM_MAX_RANGES)
		range = NULL;
	if (range == NULL)
	{
		if (meta->nranges >= LSM_MAX_RANGES)
		{
			lsm_edit_abandon(edit);
			return LSM_SPACE_NO_PLACE;
		}
		range = &meta->ranges[meta->nranges++];
		memset(range, 0, sizeof(LsmRowRange));
		range->pages = lsm_space_take(edit, npages, npages);
	}
	else
	{
		lsm_space_ensure(rel, range->pages.start + range->pages.npages);
		lsm_load_clean_range(edit, range);
	}
	range->kind = LSM_RANGE_ROOT;
	range->generation = meta->generation;
	range->flags = (lb_pages - 1) << LSM_RANGE_LB_PAGES_SHIFT;
	range->lifetime = 0;
	if (RelationNeedsWAL(rel))
	{
		range->flags |= LSM_RANGE_UNLOGGED;
		range->lifetime = lsm_table_lifetime();
	}
	range->lb = 0;
	range->lb = lsm_root_take(edit, lsm_range_end_lb(range));
	*result = *range;
	edit->own_pages = range->pages.npages;
	lsm_edit_commit(edit);
	return LSM_SPACE_GIVEN;
}

/*
 * Ranges of npages pages together, or fewer if the metapage has no place for more, for rows of the
 * active generation that move (lsm_near.c); LSM_NEAR_PIECES at most.  Their number, for the caller
 * to commit.  Free ranges are used again where they are no larger than what is wanted, and not much
 * smaller.  The metapage's last places, and the last root LBs, are left to who cannot do without
 * a range.
 */
uint32
lsm_space_near_ranges(LsmEdit *edit, uint32 npages, LsmRowRange *ranges)
{
	LsmMeta    *meta = &edit->meta;
	uint32		n = 0;

	while (npages > 0 && n < LSM_NEAR_PIECES)
	{
		uint32		largest = Min(npages, LSM_MAX_RANGE_PAGES);
		LsmRowRange *range = NULL;

		if (lsm_root_most(meta, largest) < largest)
			break;
		for (uint32 i = 0; i < meta->nranges; i++)
		{
			uint32		size = meta->ranges[i].pages.npages;

			if (meta->ranges[i].kind == LSM_RANGE_FREE && size <= largest && size >= largest / 2 &&
				(range == NULL || size > range->pages.npages))
				range = &meta->ranges[i];
		}
		if (range != NULL)
		{
			lsm_space_ensure(edit->rel, range->pages.start + range->pages.npages);
			lsm_load_clean_range(edit, range);
		}
		else if (meta->nranges < LSM_MAX_RANGES - LSM_NEAR_LEAVES)
		{
			range = &meta->ranges[meta->nranges++];
			memset(range, 0, sizeof(LsmRowRange));
			range->pages = lsm_space_take(edit, largest, largest);
		}
		else
			break;
		range->kind = LSM_RANGE_ROOT;
		range->generation = meta->generation;
		range->lb = lsm_root_take(edit, range->pages.npages);
		npages -= range->pages.npages;
		ranges[n++] = *range;
	}
	return n;
}

/*
 * Give the active generation another extent for large values: one that a value
 * of so many pages has to itself (returned), or one that is shared out.
 */
static LsmExtent
lsm_space_new_values(Relation rel, LsmTable *table, uint32 npages, uint32 *generation)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_VALUES);
	LsmExtent	own = {InvalidBlockNumber, 0};
	uint32		total = 0;
	uint32		have;
	LsmManifestEntry entry;

	SpinLockAcquire(&table->shared->mutex);
	have = table->shared->value_rest.npages;
	SpinLockRelease(&table->shared->mutex);
	if (npages < LSM_OWN_VALUE_EXTENT && have >= npages)
	{
		/* someone else has just done so */
		lsm_edit_abandon(edit);
		return own;
	}

	lsm_edit_check_room(edit);

	/* as many again as the generation has */
	for (int i = 0; i < edit->nleaves; i++)
		for (int j = 0; j < edit->leaves[i].nentries; j++)
			if (edit->leaves[i].entries[j].type == LSM_ENTRY_VALUES &&
				edit->leaves[i].entries[j].gen_hi == edit->meta.generation)
				total += edit->leaves[i].entries[j].extents[0].npages;
	memset(&entry, 0, sizeof(entry));
	entry.type = LSM_ENTRY_VALUES;
	entry.gen_lo = entry.gen_hi = edit->meta.generation;
	entry.nextents = 1;
	if (npages >= LSM_OWN_VALUE_EXTENT)
	{
		own = entry.extents[0] = lsm_space_take(edit, npages, npages);
		edit->own_pages = npages;
	}
	else
	{
		total = Min(Max(total, LSM_MIN_VALUE_EXTENT), LSM_MAX_VALUE_EXTENT);
		edit->value_rest = entry.extents[0] = lsm_space_take(edit, Max(total, npages), npages);
	}
	lsm_edit_add(edit, &entry);
	*generation = edit->meta.generation;
	lsm_edit_commit(edit);
	return own;
}

/*
 * Take npages pages in a row for a large value.  They belong to the active
 * generation, which is returned; if that has been flushed when the record that
 * points to them is written, the value has to be written again.
 */
BlockNumber
lsm_space_take_values(Relation rel, LsmTable *table, uint32 npages, uint32 *generation)
{
	LsmTableShared *shared = table->shared;

	for (;;)
	{
		BlockNumber block = InvalidBlockNumber;

		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		*generation = shared->generation;
		SpinLockAcquire(&shared->mutex);
		if (npages < LSM_OWN_VALUE_EXTENT && shared->value_rest.npages >= npages)
		{
			block = shared->value_rest.start;
			shared->value_rest.start += npages;
			shared->value_rest.npages -= npages;
			shared->gen_pages += npages;
		}
		SpinLockRelease(&shared->mutex);
		LWLockRelease(&shared->gen_lock);
		if (block == InvalidBlockNumber)
			block = lsm_space_new_values(rel, table, npages, generation).start;
		if (block != InvalidBlockNumber)
			return block;
	}
}
