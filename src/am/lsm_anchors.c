/*-------------------------------------------------------------------------
 *
 * lsm_anchors.c
 *	  What there is to read in a table, and where: samples for lsm_ranges.c.
 *
 * Anchors come from what is in memory or is needed for the scan anyway:
 *
 *	- base segments: the whole segment, or if it is more than a part of a range, some
 *	  of the blocks of its index.  So only as many are opened as there are ranges, and
 *	  of a large table none;
 *	- root pages of the row log;
 *	- increments: blocks of their indexes; of one that is not worth opening, points
 *	  between its first and last root;
 *	- indexes of the memtable: what the upper levels of a skip list have is a sample
 *	  of it.
 *
 * Only the first two tell where units begin.  A record of the last two costs more than
 * its bytes: a row has to be put together.
 *
 * All this is a guess.  It may be made in a view that is old by now, or lack a
 * segment that cannot be opened in it; then ranges are less even.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_blockcache.h"
#include "lsm_manifest.h"
#include "lsm_ranges.h"
#include "lsm_reader.h"
#include "lsm_rowlog.h"

/* What fusing a row costs, in bytes of blocks. */
#define LSM_FUSE_BYTES			128

/* So many anchors a range, at least. */
#define LSM_ANCHORS_A_RANGE		8

/* Increments that are opened though they are short. */
#define LSM_ANCHOR_OPEN			64

/* Roots of a memtable index that are looked at, about. */
#define LSM_ANCHOR_ROOTS		4096

typedef struct LsmAnchors
{
	Relation	rel;
	LsmTable   *table;
	uint64		fine;			/* bytes of an anchor, about */
	int			n;
	int			room;
	LsmAnchor  *anchors;
} LsmAnchors;

static void
lsm_anchors_add(LsmAnchors *all, LsmTid tid, uint64 bytes, bool border)
{
	if (all->n >= all->room)
	{
		LsmAnchor  *old = all->anchors;

		all->room = Max(all->room * 2, 1024);
		all->anchors = MemoryContextAllocHuge(CurrentMemoryContext,
											  all->room * sizeof(LsmAnchor));
		if (old != NULL)
		{
			memcpy(all->anchors, old, all->n * sizeof(LsmAnchor));
			pfree(old);
		}
	}
	all->anchors[all->n].tid = tid;
	all->anchors[all->n].bytes = bytes;
	all->anchors[all->n++].border = border;
}

/* What a scan reads of a segment, large values aside. */
static uint64
lsm_anchors_weigh(const LsmManifestEntry *entry, bool increment)
{
	uint64		bytes = entry->stored_bytes;

	if (entry->flags & LSM_SEGFLAG_VALUES)
		bytes = Min(bytes, entry->raw_bytes);
	if (increment)
		bytes = Max(bytes, entry->versions * LSM_FUSE_BYTES);
	return bytes;
}

/* Some blocks of a segment; false: it cannot be opened. */
static bool
lsm_anchors_add_blocks(LsmAnchors *all, const LsmManifestEntry *entry, bool increment)
{
	LsmSegmentReader *reader = lsm_reader_get(all->rel, all->table, entry);
	uint32		nblocks;
	LsmTid		begin = LSM_INVALID_TID;
	uint64		bytes = 0;

	if (reader == NULL)
		return false;
	nblocks = lsm_segment_reader_blocks(reader);
	for (uint32 blockno = 0; blockno < nblocks; blockno++)
	{
		LsmTid		first;
		LsmTid		last;
		uint32		rows;
		uint64		offset;
		uint32		stored;

		lsm_segment_block_info(reader, blockno, &first, &last, &rows, &offset, &stored);
		if (begin == LSM_INVALID_TID)
			begin = first;
		bytes += increment ? Max(stored, rows * LSM_FUSE_BYTES) : stored;
		if (bytes >= all->fine || blockno == nblocks - 1)
		{
			lsm_anchors_add(all, begin, bytes, !increment);
			begin = LSM_INVALID_TID;
			bytes = 0;
		}
	}
	return true;
}

static void
lsm_anchors_add_base(LsmAnchors *all, LsmView *view)
{
	for (int i = 0; i < view->nbase; i++)
	{
		const LsmManifestEntry *entry = view->base[i];
		uint64		bytes = lsm_anchors_weigh(entry, false);

		if (bytes <= all->fine * LSM_ANCHORS_A_RANGE / 2 ||
			!lsm_anchors_add_blocks(all, entry, false))
			lsm_anchors_add(all, entry->first_tid, bytes, true);
	}
}

static void
lsm_anchors_add_increments(LsmAnchors *all, LsmView *view)
{
	for (int i = 0; i < view->nincrements; i++)
	{
		const LsmManifestEntry *entry = view->increments[i];
		uint64		bytes = lsm_anchors_weigh(entry, true);

		if ((view->nincrements <= LSM_ANCHOR_OPEN ||
			 bytes > all->fine * LSM_ANCHORS_A_RANGE / 2) &&
			lsm_anchors_add_blocks(all, entry, true))
			continue;
		for (int j = 0; j < LSM_ANCHORS_A_RANGE; j++)
			lsm_anchors_add(all, entry->first_tid + (entry->last_tid - entry->first_tid) /
							LSM_ANCHORS_A_RANGE * j, bytes / LSM_ANCHORS_A_RANGE, false);
	}
}

/* Root pages, but for those of the last range that nobody has begun. */
static void
lsm_anchors_add_pages(LsmAnchors *all, LsmView *view, const LsmRangeRest *rest)
{
	uint32		step = Max(all->fine / BLCKSZ, 1);

	for (uint32 i = 0; i < view->meta.nranges; i++)
	{
		const LsmRowRange *range = &view->meta.ranges[i];
		uint32		npages = range->pages.npages;

		if (range->kind != LSM_RANGE_ROOT)
			continue;
		if (rest->npages > 0 && rest->lb >= range->lb && rest->lb < range->lb + npages)
			npages = rest->lb - range->lb;
		for (uint32 page = 0; page < npages; page += step)
			lsm_anchors_add(all, LSM_TID(range->lb + page, FirstOffsetNumber),
							(uint64) Min(step, npages - page) * BLCKSZ, true);
	}
}

/* A sample of both generations of the memtable. */
static void
lsm_anchors_add_memtable(LsmAnchors *all)
{
	LsmTableShared *shared = all->table->shared;
	LsmTid	   *roots = palloc(2 * LSM_ANCHOR_ROOTS * sizeof(LsmTid));
	uint32		generations[2];

	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	generations[0] = shared->generation;
	generations[1] = shared->flushing;
	for (int i = 0; i < 2; i++)
	{
		uint64		each;
		int			n;

		if (generations[i] == 0 || !lsm_rowlog_ready(shared))
			continue;
		n = lsm_memindex_sample(lsm_table_index(shared, generations[i]), roots,
								2 * LSM_ANCHOR_ROOTS, &each);
		for (int j = 0; j < n; j++)
			lsm_anchors_add(all, roots[j], each * LSM_FUSE_BYTES, false);
	}
	LWLockRelease(&shared->gen_lock);
	pfree(roots);
}

int
lsm_ranges_of(Relation rel, LsmTable *table, LsmRange *ranges)
{
	LsmAnchors	all = {.rel = rel,.table = table};
	LsmView    *view = lsm_view_get(rel, table);
	uint64		request = Max(lsm_multiblock_read_size * (uint64) 1024, BLCKSZ);
	uint64		total = 0;
	LsmRangeRest rest;
	int			n;

	for (int i = 0; i < view->nbase; i++)
		total += lsm_anchors_weigh(view->base[i], false);
	for (int i = 0; i < view->nincrements; i++)
		total += lsm_anchors_weigh(view->increments[i], true);
	all.fine = Max(lsm_ranges_goal(total, request) / LSM_ANCHORS_A_RANGE, 1);

	lsm_anchors_add_base(&all, view);
	lsm_anchors_add_increments(&all, view);
	SpinLockAcquire(&table->shared->mutex);
	rest = table->shared->rest[LSM_ROOT_PAGES];
	SpinLockRelease(&table->shared->mutex);
	lsm_anchors_add_pages(&all, view, &rest);
	lsm_anchors_add_memtable(&all);
	n = lsm_ranges_cut(all.anchors, all.n, request, ranges);
	if (all.anchors != NULL)
		pfree(all.anchors);
	return n;
}
