/*-------------------------------------------------------------------------
 *
 * lsm_lbs.c
 *	  Logical blocks that new rows may have again.
 *
 * Every row-log page with INSERTs takes a root LB, and there are 3.7 billion.  A
 * table of which rows are always deleted, a queue or a history, would use them up.
 * So VACUUM, when it has cleaned the indexes, looks for LBs without anything: no
 * segment, no dead list and no part of the row log has roots of them, and no
 * memtable has records.  The longest runs of what is found are noted in the metapage, and
 * new ranges of the row log take them before LBs that have never been used.
 *
 * WHY A ROOT MAY BE USED AGAIN
 *	  As in heap, where an item number is used again once VACUUM has been over the
 *	  indexes: no index has an entry for it, and the row that had it was not seen
 *	  by any snapshot when it went.  Whoever still has such a TID finds a row that
 *	  his snapshot does not see.
 *
 * A base segment with a large gap in it would hide it; so jobs end base segments there
 * (lsm_lbs_break).
 *
 * INVARIANT
 *	  No base segment spans LBs that are noted as free (I13): compaction ends a base
 *	  segment at them as it does at a range of the row log, and LBs between what a
 *	  running major reads are not noted.  Nor have they bits in the visibility map.
 *
 * LBs are used again only if that is worth the loss of order (rows of different
 * times lie side by side): when they are as many as those that are not free, noted or not;
 * or when few are left.  When none is left, whoever needs one looks for runs that
 * nobody has noted (lsm_lbs_find): the metapage has room for few, and VACUUM may not come in
 * time.  All that he needs VACUUM for has been done where there is no dead list any more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "lsm_lbs.h"
#include "lsm_rowlog.h"
#include "lsm_stop.h"
#include "lsm_vmpage.h"
#include "lsm_wal.h"
#include "miscadmin.h"

/* Fewer free LBs together are left alone. */
#define LSM_LBS_LEAST			32

/* So many of a run are enough for a writer, who waits while their bits are cleared. */
#define LSM_LBS_WRITERS			(1024 * 1024)

#define LSM_LBS_ANY_MANIFEST	PG_UINT64_MAX

/* LBs that something has; both ends included. */
typedef struct LsmLbRun
{
	BlockNumber lo;
	BlockNumber hi;
} LsmLbRun;

typedef struct LsmLbRuns
{
	int			n;
	int			max;
	LsmLbRun   *runs;
} LsmLbRuns;

static void
lsm_lbs_add(LsmLbRuns *used, LsmTid first, LsmTid last)
{
	if (used->n >= used->max)
	{
		used->max = Max(used->max * 2, 64);
		if (used->runs == NULL)
			used->runs = palloc(used->max * sizeof(LsmLbRun));
		else
			used->runs = repalloc_huge(used->runs, used->max * sizeof(LsmLbRun));
	}
	used->runs[used->n].lo = LSM_TID_LB(first);
	used->runs[used->n].hi = LSM_TID_LB(last);
	used->n++;
}

static void
lsm_lbs_add_entry(LsmLbRuns *used, const LsmManifestEntry *entry)
{
	if (entry->type == LSM_ENTRY_SEGMENT)
		lsm_lbs_add(used, entry->first_tid, entry->last_tid);
}

static void
lsm_lbs_add_rowlog(LsmLbRuns *used, const LsmMeta *meta)
{
	for (uint32 i = 0; i < meta->nranges; i++)
		if (meta->ranges[i].kind == LSM_RANGE_ROOT)
			lsm_lbs_add(used, LSM_TID(meta->ranges[i].lb, 0),
						LSM_TID(lsm_range_last_lb(&meta->ranges[i]), 0));
}

static int
lsm_lb_run_cmp(const void *a, const void *b)
{
	BlockNumber x = ((const LsmLbRun *) a)->lo;
	BlockNumber y = ((const LsmLbRun *) b)->lo;

	return x < y ? -1 : x > y;
}

/* Note a gap, in place of the smallest if there are too many. */
static void
lsm_lbs_note(LsmFreeLbs *gaps, uint32 *n, BlockNumber lb, uint32 nlbs)
{
	uint32		at = *n;

	if (nlbs < LSM_LBS_LEAST_RUN)
		return;
	if (*n < LSM_MAX_FREE_LBS)
		(*n)++;
	else
	{
		at = 0;
		for (uint32 i = 1; i < *n; i++)
			if (gaps[i].nlbs < gaps[at].nlbs)
				at = i;
		if (gaps[at].nlbs >= nlbs)
			return;
	}
	gaps[at].lb = lb;
	gaps[at].nlbs = nlbs;
}

/* Gaps between what is used. */
typedef struct LsmLbGaps
{
	uint64		all;			/* LBs in gaps that are not left alone */
	uint32		n;				/* the largest ones */
	LsmFreeLbs	gaps[LSM_MAX_FREE_LBS]; /* those behind n are 0 */
} LsmLbGaps;

/* A gap up to end, or what of it is free in others. */
static void
lsm_lbs_gap(LsmLbGaps *result, uint64 lb, BlockNumber end, const LsmLbGaps *within)
{
	if (lb >= end)
		return;
	if (end - lb >= LSM_LBS_LEAST_RUN)
		result->all += end - lb;
	if (within == NULL)
		lsm_lbs_note(result->gaps, &result->n, (BlockNumber) lb, end - (BlockNumber) lb);
	for (uint32 i = 0; within != NULL && i < within->n; i++)
	{
		BlockNumber lo = Max((BlockNumber) lb, within->gaps[i].lb);
		BlockNumber hi = Min(end, within->gaps[i].lb + within->gaps[i].nlbs);

		if (lo < hi)
			lsm_lbs_note(result->gaps, &result->n, lo, hi - lo);
	}
}

/* What is not used of the LBs that ranges have been given; within: only of these gaps. */
static void
lsm_lbs_gaps(LsmLbRuns *used, const LsmMeta *meta, const LsmLbGaps *within, LsmLbGaps *result)
{
	uint64		next = meta->first_root_lb; /* LBs before it have been looked
											 * at */

	memset(result, 0, sizeof(*result));
	if (used->n > 0)
		qsort(used->runs, used->n, sizeof(LsmLbRun), lsm_lb_run_cmp);
	for (int i = 0; i < used->n; i++)
	{
		lsm_lbs_gap(result, next, used->runs[i].lo, within);
		next = Max(next, (uint64) used->runs[i].hi + 1);
	}
	lsm_lbs_gap(result, next, meta->next_root_lb, within);
}

static uint64
lsm_lbs_sum(const LsmFreeLbs *lbs, uint32 n)
{
	uint64		sum = 0;

	for (uint32 i = 0; i < n; i++)
		sum += lbs[i].nlbs;
	return sum;
}

/* Leave out gaps of which a memtable has records: of transactions that were rolled back. */
static void
lsm_lbs_without_records(Relation rel, LsmTable *table, LsmLbGaps *found)
{
	LsmTableShared *shared = table->shared;
	uint32		kept = 0;

	for (;;)
	{
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		if (lsm_rowlog_ready(shared))
			break;
		LWLockRelease(&shared->gen_lock);
		lsm_rowlog_build_index(rel, table);
	}
	for (uint32 i = 0; i < found->n; i++)
	{
		LsmTid		lo = LSM_TID(found->gaps[i].lb, 0);
		LsmTid		hi = LSM_TID(found->gaps[i].lb + found->gaps[i].nlbs - 1, 0xFFFF);

		if (!lsm_memindex_any(lsm_table_index(shared, shared->generation), lo, hi) &&
			(shared->flushing == 0 ||
			 !lsm_memindex_any(lsm_table_index(shared, shared->flushing), lo, hi)))
			found->gaps[kept++] = found->gaps[i];
	}
	LWLockRelease(&shared->gen_lock);
	found->n = kept;
}

/*
 * A running major (a minor, at 0, cannot) may make one segment of two neighbours.  edit_lock is
 * held.
 */
static void
lsm_lbs_add_claims(LsmLbRuns *used, LsmTable *table)
{
	for (int i = 1; i < LSM_CLAIMS; i++)
		if (table->shared->claims[i].used)
			lsm_lbs_add(used, table->shared->claims[i].first, table->shared->claims[i].last);
}

/*
 * Note in the metapage what still is free of what was found; how many runs that are.  With
 * another manifest than that one, unless any will do, nothing is done: -1.
 */
static int
lsm_lbs_publish(Relation rel, LsmTable *table, const LsmLbGaps *found, uint64 manifest)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_VACUUM);
	LsmLbRuns	used = {0};
	LsmLbGaps	both;

	if (manifest != LSM_LBS_ANY_MANIFEST && edit->meta.manifest_counter != manifest)
	{
		lsm_edit_abandon(edit);
		return -1;
	}
	for (int i = 0; i < edit->nleaves; i++)
		for (int j = 0; j < edit->leaves[i].nentries; j++)
			lsm_lbs_add_entry(&used, &edit->leaves[i].entries[j]);
	lsm_lbs_add_rowlog(&used, &edit->meta);
	lsm_lbs_add_claims(&used, table);
	lsm_lbs_gaps(&used, &edit->meta, found, &both);
	if (memcmp(both.gaps, edit->meta.free_lbs, sizeof(both.gaps)) == 0)
		lsm_edit_abandon(edit);
	else
	{
		edit->meta.nfree_lbs = both.n;
		memcpy(edit->meta.free_lbs, both.gaps, sizeof(both.gaps));
		lsm_edit_commit(edit);
	}
	if (used.runs != NULL)
		pfree(used.runs);
	return (int) both.n;
}

/* What the view's segments, row log and claims leave free. */
static void
lsm_lbs_search(const LsmView *view, LsmTable *table, LsmLbGaps *found)
{
	LsmLbRuns	used = {0};

	for (int i = 0; i < view->nentries; i++)
		lsm_lbs_add_entry(&used, &view->entries[i]);
	lsm_lbs_add_rowlog(&used, &view->meta);
	LWLockAcquire(&table->shared->edit_lock, LW_SHARED);
	lsm_lbs_add_claims(&used, table);
	LWLockRelease(&table->shared->edit_lock);
	lsm_lbs_gaps(&used, &view->meta, NULL, found);
	if (used.runs != NULL)
		pfree(used.runs);
}

/*
 * VACUUM's part, after the indexes: find the LBs that can be used again.  Takes no
 * lock but gen_lock and edit_lock, shared, for a moment, pages of the visibility map, and that of
 * the edit of the metapage.
 */
void
lsm_lbs_reuse(Relation rel, LsmTable *table)
{
	LsmView    *view = lsm_view_get(rel, table);
	uint32		lbs = view->meta.next_root_lb - view->meta.first_root_lb;
	bool		few = lsm_lbs_few(&view->meta);
	LsmLbGaps	found;

	lsm_lbs_search(view, table, &found);
	if (found.n == 0 || (!few && (found.all < LSM_LBS_LEAST || found.all < lbs / 2)))
		return;
	for (uint32 i = 0; i < found.n; i++)
		lsm_vm_clear_lbs(rel, found.gaps[i].lb, found.gaps[i].nlbs);
	lsm_lbs_without_records(rel, table, &found);
	LSM_STOP("lbs-before-publish");
	(void) lsm_lbs_publish(rel, table, &found, LSM_LBS_ANY_MANIFEST);
}

/*
 * The same for a writer, when none is left.  VACUUM may be at work meanwhile, and set bits of the
 * visibility map: but only of LBs that base segments have, and these have none of a gap as long
 * as the manifest is the one that was looked at.
 */
void
lsm_lbs_find(Relation rel, LsmTable *table)
{
	for (;;)
	{
		LsmView    *view = lsm_view_get(rel, table);
		uint64		manifest = view->meta.manifest_counter;
		LsmLbGaps	found;

		CHECK_FOR_INTERRUPTS();
		if (lsm_lbs_left(&view->meta) > 0)
			break;
		lsm_lbs_search(view, table, &found);
		for (uint32 i = 0; i < found.n; i++)
		{
			found.gaps[i].nlbs = Min(found.gaps[i].nlbs, LSM_LBS_WRITERS);
			lsm_vm_clear_lbs(rel, found.gaps[i].lb, found.gaps[i].nlbs);
		}
		lsm_lbs_without_records(rel, table, &found);
		LSM_STOP("lbs-before-find");
		if (found.n == 0 || lsm_lbs_publish(rel, table, &found, manifest) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("table \"%s\" has used up its row identifiers",
							RelationGetRelationName(rel)),
					 errhint("Run VACUUM, which frees those of pages without any row left, or VACUUM FULL or CLUSTER on the table.")));
	}
}

/* Root LBs that can still be given to rows. */
uint64
lsm_lbs_left(const LsmMeta *meta)
{
	return LSM_FIRST_VERSION_LB - meta->next_root_lb + lsm_lbs_sum(meta->free_lbs, meta->nfree_lbs);
}

bool
lsm_lbs_few(const LsmMeta *meta)
{
	return lsm_lbs_left(meta) < LSM_FIRST_VERSION_LB / LSM_LBS_FEW_DIVISOR;
}

/* Few are left: say so, long before there are none. */
void
lsm_lbs_warn(Relation rel, const LsmMeta *meta)
{
	ereport(WARNING,
			(errmsg("table \"%s\" has used %.0f%% of its row identifiers",
					RelationGetRelationName(rel),
					floor(100.0 * (LSM_FIRST_VERSION_LB - lsm_lbs_left(meta)) / LSM_FIRST_VERSION_LB)),
			 errdetail("Inserts fail when there are none left."),
			 errhint("Run VACUUM FULL or CLUSTER on the table.")));
}

/*
 * Will two neighbours in the baseline stay two?  They do if so many LBs without rows lie between
 * them, or a root range of the row log, or LBs that new rows may have one day: such rows
 * will come between them as a segment (I13).
 */
bool
lsm_lbs_apart(const LsmMeta *meta, uint32 break_lbs, LsmTid left, LsmTid right)
{
	if (LSM_TID_LB(right) - LSM_TID_LB(left) > break_lbs)
		return true;
	for (uint32 i = 0; i < meta->nfree_lbs; i++)
		if (LSM_TID(meta->free_lbs[i].lb, 0) > left && LSM_TID(meta->free_lbs[i].lb, 0) < right)
			return true;
	for (uint32 i = 0; i < meta->nranges; i++)
		if (meta->ranges[i].kind == LSM_RANGE_ROOT && LSM_TID(meta->ranges[i].lb, 0) > left &&
			LSM_TID(meta->ranges[i].lb, 0) < right)
			return true;
	return false;
}
