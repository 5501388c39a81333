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
 * How it is read: lsm_view.c.
 *
 * LOCKING
 *	  An edit holds edit_lock from begin to commit, and gen_lock exclusively
 *	  while block 0 and the shared state change.
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
#include "utils/memutils.h"

int			lsm_debug_first_lb = 0;
int			lsm_debug_ring_lbs = 0;
int			lsm_debug_manifest_entries = 0;

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
