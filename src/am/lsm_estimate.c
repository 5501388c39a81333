/*-------------------------------------------------------------------------
 *
 * lsm_estimate.c
 *	  What the planner is told of a table: pages, rows, and how many of these have
 *	  changed since their segment was written.
 *
 * All of it comes from the view and the shared state of the table.  Rows of base
 * segments that have ended since (by DELETE, or because an update has given them
 * another root) are in increments or the memtable, which count their ends; without
 * these a table in which half of the rows were moved would seem to have half as many
 * again, until a major compaction.  Rows that were deleted count when that has been
 * committed (lsm_table_note_end()), but for a memtable index that was made from pages.
 *
 * A queue has far more INSERTs and DELETEs in a memtable than rows.  So INSERTs are
 * counted there, too.  A memtable index that was made from pages (after a restart)
 * does not know their number; it is guessed from the pages then, and of the ends only
 * the part counts that rows of segments have in all rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tableam.h"
#include "lsm_am.h"
#include "optimizer/plancat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Pages that a new table counts for, as in heap. */
#define LSM_NEW_TABLE_PAGES		10

/* Rows that a page of the row log holds, by their width. */
static double
lsm_rows_per_page(Relation rel, int32 *attr_widths)
{
	int32		width = get_rel_data_width(rel, attr_widths);

	return Min(LSM_MAX_OFFSET, LSM_PAGE_PAYLOAD /
			   (MAXALIGN(width) + SizeOfLsmInsertRecord + sizeof(ItemIdData)));
}

/*
 * INSERTs in that many begun root pages of the row log, most of which are full.
 * Those that are being filled are looked at, but for rows that move: a small table may have no other.
 */
static double
lsm_estimate_rowlog(Relation rel, LsmTable *table, const LsmMeta *meta, int32 *attr_widths,
					double npages)
{
	LsmOpenPage open[LSM_OPEN_PAGES];
	double		rows = 0;

	SpinLockAcquire(&table->shared->mutex);
	memcpy(open, table->shared->open[LSM_ROOT_PAGES], sizeof(open));
	SpinLockRelease(&table->shared->mutex);
	for (int i = 0; i < LSM_OPEN_PAGES; i++)
	{
		Buffer		buffer;
		Page		page;

		if (open[i].block == InvalidBlockNumber)
			continue;
		buffer = ReadBuffer(rel, open[i].block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		if (lsm_page_is(page, LSM_PAGE_ROWLOG, meta->incarnation, open[i].lb, meta->generation))
		{
			rows += PageGetMaxOffsetNumber(page);
			npages -= 1;
		}
		UnlockReleaseBuffer(buffer);
	}
	return rows + rint(Max(npages, 0) * lsm_rows_per_page(rel, attr_widths));
}

/* What the indexes of the memtable count. */
typedef struct LsmMemtableCounts
{
	double		changed;		/* rows that have records besides their INSERT */
	double		ends;			/* records that end a row */
	double		inserts;
	bool		known;			/* inserts are all that there are */
} LsmMemtableCounts;

/* gen_lock is held shared, or the caller sees to it that nothing was changed. */
static void
lsm_estimate_count(LsmTable *table, LsmMemtableCounts *counts)
{
	LsmTableShared *shared = table->shared;

	memset(counts, 0, sizeof(*counts));
	counts->known = true;
	for (int i = 0; i < 2; i++)
	{
		uint32		generation = i == 0 ? shared->generation : shared->flushing;
		LsmMemIndex *index = lsm_table_index(shared, generation);

		if (generation == 0)
			continue;
		counts->changed += pg_atomic_read_u32(&index->entries);
		counts->ends += pg_atomic_read_u32(&index->ends);
		counts->inserts += pg_atomic_read_u32(&index->inserts);
		if (!index->counts_inserts)
			counts->known = false;
	}
}

/*
 * A view, and what the memtable adds to it: of one moment, else a generation that is
 * being flushed might count twice, or for nothing, and a plan made then may be kept.
 */
static LsmView *
lsm_estimate_memtable(Relation rel, LsmTable *table, LsmMemtableCounts *counts)
{
	LsmTableShared *shared = table->shared;
	LsmView    *view = lsm_view_get(rel, table);
	uint64		changes;
	bool		current;

	if (lsm_table_changes(shared, &changes) && lsm_view_current(table))
	{
		lsm_estimate_count(table, counts);
		if (lsm_table_unchanged(shared, changes))
			return view;
	}
	for (;;)
	{
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		current = lsm_view_current(table);
		if (current)
			lsm_estimate_count(table, counts);
		LWLockRelease(&shared->gen_lock);
		if (current)
			return view;
		view = lsm_view_get(rel, table);
	}
}

/* Rows that a scan has to look up one by one, as they have other records than their bottom. */
double
lsm_estimate_changed(Relation rel)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmMemtableCounts counts;
	LsmView    *view = lsm_estimate_memtable(rel, table, &counts);

	return counts.changed + (double) view->all_increments.versions;
}

/* So many base segments, about, tell what increments lie over. */
#define LSM_OVERLAP_SAMPLE		256

/* The part of the base segments that increments lie over, which are not passed over as a whole. */
double
lsm_estimate_overlap(Relation rel)
{
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));
	int			step = view->nbase / LSM_OVERLAP_SAMPLE + 1;
	int			looked = 0;
	int			n = 0;

	for (int i = 0; i < view->nbase; i += step, looked++)
		n += lsm_view_increments_meet(view, view->base[i]->first_tid, view->base[i]->last_tid);
	return (double) n / Max(looked, 1);
}

/*
 * Pages of the row log with INSERTs: that are begun, and in *all that are there for them.  (Of those
 * for rows that move, none that nobody has begun is known after the index was dropped.)
 */
static double
lsm_estimate_root_pages(LsmTable *table, const LsmView *view, double *all)
{
	double		begun;

	*all = 0;
	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind == LSM_RANGE_ROOT)
			*all += view->meta.ranges[i].pages.npages;
	SpinLockAcquire(&table->shared->mutex);
	begun = *all - table->shared->rest[LSM_ROOT_PAGES].npages;
	SpinLockRelease(&table->shared->mutex);
	for (int i = 0; i < 2; i++)
		begun -= pg_atomic_read_u32(&table->shared->index[i].unbegun);
	return Max(begun, 0);
}

/*
 * Pages of the row log with INSERTs, which have no zone maps, so that each scan reads them.  A
 * table whose memtable has just been flushed has none, but will: where there are pages for
 * them, some count, as they do for a new table.
 */
double
lsm_estimate_log_pages(Relation rel)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmView    *view = lsm_view_get(rel, table);
	double		all = 0;
	double		root_pages;
	double		begun = lsm_estimate_root_pages(table, view, &root_pages);

	for (uint32 i = 0; i < view->meta.nranges; i++)
		all += view->meta.ranges[i].pages.npages;
	return Max(begun, Min(all, LSM_NEW_TABLE_PAGES));
}

/* Blocks of base segments, and those of them that are in a store. */
void
lsm_estimate_blocks(Relation rel, double *all, double *cold)
{
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));

	*all = (double) view->all_base.blocks;
	*cold = (double) view->cold_base.blocks;
}

/* What an opened block takes in a session's cache besides what is stored of it, about. */
#define LSM_OPENED_BLOCK_BYTES	2560

/* Have all transactions with records in an increment committed, as far as the manifest tells? */
static bool
lsm_estimate_has_committed(const LsmManifestEntry *entry)
{
	if (entry->nunresolved > LSM_MAX_OUTCOMES)
		return false;
	for (uint32 i = 0; i < entry->nunresolved; i++)
		if (lsm_entry_outcome(entry, i) != LSM_OUTCOME_COMMITTED)
			return false;
	return true;
}

/*
 * Rows that an increment ends.  A large DELETE that is running, or was rolled back, must not let
 * others plan for an empty table: so where that may be, no more than were inserted in the same
 * generations, which are as many as have moved.
 */
static double
lsm_estimate_ended_by(const LsmView *view, const LsmManifestEntry *entry)
{
	double		inserted = 0;

	if (entry->dead == 0 || lsm_estimate_has_committed(entry))
		return entry->dead;
	for (int i = 0; i < view->nbase && inserted < entry->dead; i++)
		if (view->base[i]->gen_lo >= entry->gen_lo && view->base[i]->gen_hi <= entry->gen_hi)
			inserted += view->base[i]->rows;
	return Min(inserted, entry->dead);
}

/* The same of all increments, once for a view. */
static double
lsm_estimate_ended(LsmView *view)
{
	double		ended = 0;

	if (view->ended >= 0)
		return view->ended;
	for (int i = 0; i < view->nincrements; i++)
		ended += lsm_estimate_ended_by(view, view->increments[i]);
	view->ended = ended;
	return ended;
}

/* Blocks of all segments, and the memory that they take when all are opened. */
void
lsm_estimate_opened(Relation rel, double *blocks, double *bytes)
{
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));

	*blocks = (double) (view->all_base.blocks + view->all_increments.blocks);
	*bytes = (double) (view->all_base.read + view->all_increments.read) +
		*blocks * LSM_OPENED_BLOCK_BYTES;
}

/* Rows and cost-equivalent pages, from the manifest. */
void
lsm_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
				  double *allvisfrac)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmMemtableCounts counts;
	LsmView    *view = lsm_estimate_memtable(rel, table, &counts);
	double		npages = 1 + (double) (view->all_base.read + view->all_increments.read) / BLCKSZ;
	double		rows = (double) view->all_base.rows - lsm_estimate_ended(view);
	double		rowlog_pages;
	double		root_pages;
	double		lbs = 0;

	/* what versions lie on is looked at row by row, and not all of it */
	rowlog_pages = lsm_estimate_root_pages(table, view, &root_pages);
	npages += root_pages;
	rows = Max(rows, 0);
	if (counts.known)
		rows += counts.inserts - counts.ends;
	else if (rowlog_pages > 0)
	{
		double		inserts = lsm_estimate_rowlog(rel, table, &view->meta, attr_widths,
												  rowlog_pages);

		/* the difference of two guesses would be none: ends of what was known */
		rows += inserts - counts.ends * rows / Max(rows + inserts, 1);
	}
	*pages = (BlockNumber) Min(npages, (double) MaxBlockNumber);
	*tuples = Max(rows, 0);

	/* LBs that hold rows: what lies before the first and in the row log aside */
	if (view->nbase > 0)
		lbs = LSM_TID_LB(view->base[view->nbase - 1]->last_tid) -
			LSM_TID_LB(view->base[0]->first_tid) + 1.0;
	lbs += rowlog_pages;
	*allvisfrac = lbs <= 0 ? 0 : Min(rel->rd_rel->relallvisible / lbs, 1.0);
}

/*
 * What decoding the blocks of a table costs, in pages read one after another: by
 * count of instructions three tenths of a page for each that they have when decoded.
 */
#define LSM_DECODING_COST		0.3

/* The same of a row that has other records, by the time that it takes to look at these. */
#define LSM_FUSING_COST			0.05

/* Of a table of so few rows, all may change between two flushes. */
#define LSM_HOT_ROWS			1000.0

static double
lsm_estimate_decoding(Relation rel)
{
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));

	return (double) view->all_base.decoded / BLCKSZ * LSM_DECODING_COST;
}

/* Is it a small table that somebody changes?  Its row log has had other records than INSERTs. */
static bool
lsm_estimate_is_hot(Relation rel, double tuples)
{
	const LsmMeta *meta = &lsm_view_get(rel, lsm_table_open(rel))->meta;

	return tuples <= LSM_HOT_ROWS && meta->next_version_lb > LSM_FIRST_VERSION_LB;
}

/*
 * The same for the planner, for which what has to be decoded counts for more, and so do
 * rows that have changed.  A table that was never vacuumed or analyzed counts for no less
 * than heap would take it for, however short, which is ten full pages of heap's: it will
 * grow, and a plan that is made now may be kept.  Nor does a small one that is changed, as if all
 * of its rows were: one that was planned in the moment after a flush would go through them each
 * time, where an index finds the one that is wanted.
 */
void
lsm_estimate_for_planner(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
						 double *allvisfrac)
{
	double		changed = lsm_estimate_changed(rel);
	bool		hot;

	lsm_estimate_size(rel, attr_widths, pages, tuples, allvisfrac);
	hot = lsm_estimate_is_hot(rel, *tuples);
	if (hot)
		changed = Max(changed, *tuples);
	*pages = (BlockNumber) Min(*pages + lsm_estimate_decoding(rel) + changed * LSM_FUSING_COST,
							   (double) MaxBlockNumber);
	if (*pages < LSM_NEW_TABLE_PAGES && rel->rd_rel->reltuples < 0 &&
		!rel->rd_rel->relhassubclass)
	{
		Size		width = get_rel_data_width(rel, attr_widths) +
			MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData);
		double		rows_per_page = (BLCKSZ - SizeOfPageHeaderData) / width;

		*pages = LSM_NEW_TABLE_PAGES;
		*tuples = Max(*tuples, LSM_NEW_TABLE_PAGES * rows_per_page);
	}
	else if (hot)
		*pages = Max(*pages, LSM_NEW_TABLE_PAGES);
}
