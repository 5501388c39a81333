/*-------------------------------------------------------------------------
 *
 * lsm_lbs.c
 *	  Logical blocks that new rows may have again.
 *
 * Every row-log page with INSERTs takes a root LB, and there are 3.7 billion.  A
 * table of which rows are always deleted, a queue or a history, would use them up.
 * So VACUUM, when it has cleaned the indexes, looks for LBs without anything: no
 * segment, no dead list and no part of the row log has roots of them, and no
 * memtable has records.  What is found is noted in the metapage, and new ranges of
 * the row log take it before LBs that have never been used.
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
 * times lie side by side): when they are as many as those that are not free.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_lbs.h"
#include "lsm_rowlog.h"
#include "lsm_stop.h"
#include "lsm_vmpage.h"
#include "lsm_wal.h"
#include "miscadmin.h"

/* Fewer free LBs together are left alone. */
#define LSM_LBS_LEAST			32

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

/* The largest gaps between what is used; returns how many. */
static uint32
lsm_lbs_gaps(LsmLbRuns *used, const LsmMeta *meta, LsmFreeLbs *gaps)
{
	uint64		next = meta->first_root_lb; /* LBs before it have been looked
											 * at */
	uint32		n = 0;

	if (used->n > 0)
		qsort(used->runs, used->n, sizeof(LsmLbRun), lsm_lb_run_cmp);
	for (int i = 0; i < used->n; i++)
	{
		if (used->runs[i].lo > next)
			lsm_lbs_note(gaps, &n, (BlockNumber) next, used->runs[i].lo - (BlockNumber) next);
		next = Max(next, (uint64) used->runs[i].hi + 1);
	}
	if (next < meta->next_root_lb)
		lsm_lbs_note(gaps, &n, (BlockNumber) next, meta->next_root_lb - (BlockNumber) next);
	return n;
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
static uint32
lsm_lbs_without_records(Relation rel, LsmTable *table, LsmFreeLbs *gaps, uint32 n)
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
	for (uint32 i = 0; i < n; i++)
	{
		LsmTid		lo = LSM_TID(gaps[i].lb, 0);
		LsmTid		hi = LSM_TID(gaps[i].lb + gaps[i].nlbs - 1, 0xFFFF);

		if (!lsm_memindex_any(lsm_table_index(shared, shared->generation), lo, hi) &&
			(shared->flushing == 0 ||
			 !lsm_memindex_any(lsm_table_index(shared, shared->flushing), lo, hi)))
			gaps[kept++] = gaps[i];
	}
	LWLockRelease(&shared->gen_lock);
	return kept;
}

/* What is free in both; returns how many. */
static uint32
lsm_lbs_common(const LsmFreeLbs *a, uint32 na, const LsmFreeLbs *b, uint32 nb, LsmFreeLbs *both)
{
	uint32		n = 0;

	for (uint32 i = 0; i < na; i++)
	{
		for (uint32 j = 0; j < nb; j++)
		{
			BlockNumber lo = Max(a[i].lb, b[j].lb);
			BlockNumber hi = Min(a[i].lb + a[i].nlbs, b[j].lb + b[j].nlbs);

			if (lo < hi)
				lsm_lbs_note(both, &n, lo, hi - lo);
		}
	}
	return n;
}

/* Note in the metapage what still is free of what was found. */
static void
lsm_lbs_publish(Relation rel, LsmTable *table, const LsmFreeLbs *found, uint32 nfound)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_VACUUM);
	LsmLbRuns	used = {0};
	LsmFreeLbs	gaps[LSM_MAX_FREE_LBS];
	LsmFreeLbs	both[LSM_MAX_FREE_LBS] = {{0}};
	uint32		n;

	for (int i = 0; i < edit->nleaves; i++)
		for (int j = 0; j < edit->leaves[i].nentries; j++)
			lsm_lbs_add_entry(&used, &edit->leaves[i].entries[j]);
	lsm_lbs_add_rowlog(&used, &edit->meta);

	/* a running major (a minor, at 0, cannot) may make one segment of two neighbours */
	for (int i = 1; i < LSM_CLAIMS; i++)
		if (table->shared->claims[i].used)
			lsm_lbs_add(&used, table->shared->claims[i].first, table->shared->claims[i].last);
	n = lsm_lbs_gaps(&used, &edit->meta, gaps);
	n = lsm_lbs_common(found, nfound, gaps, n, both);
	if (memcmp(both, edit->meta.free_lbs, sizeof(both)) == 0)
		lsm_edit_abandon(edit);
	else
	{
		edit->meta.nfree_lbs = n;
		memcpy(edit->meta.free_lbs, both, sizeof(both));
		lsm_edit_commit(edit);
	}
	if (used.runs != NULL)
		pfree(used.runs);
}

/*
 * VACUUM's part, after the indexes: find the LBs that can be used again.  Takes no
 * lock but gen_lock, shared, for a moment, pages of the visibility map, and that of
 * the edit of the metapage.
 */
void
lsm_lbs_reuse(Relation rel, LsmTable *table)
{
	LsmView    *view = lsm_view_get(rel, table);
	LsmLbRuns	used = {0};
	LsmFreeLbs	gaps[LSM_MAX_FREE_LBS];
	uint32		lbs = view->meta.next_root_lb - view->meta.first_root_lb;
	uint64		sum;
	uint32		n;

	for (int i = 0; i < view->nentries; i++)
		lsm_lbs_add_entry(&used, &view->entries[i]);
	lsm_lbs_add_rowlog(&used, &view->meta);
	n = lsm_lbs_gaps(&used, &view->meta, gaps);
	if (used.runs != NULL)
		pfree(used.runs);
	sum = lsm_lbs_sum(gaps, n);
	if (sum < LSM_LBS_LEAST || sum < lbs / 2)
		return;
	for (uint32 i = 0; i < n; i++)
		lsm_vm_clear_lbs(rel, gaps[i].lb, gaps[i].nlbs);
	n = lsm_lbs_without_records(rel, table, gaps, n);
	LSM_STOP("lbs-before-publish");
	lsm_lbs_publish(rel, table, gaps, n);
}

/* Root LBs that can still be given to rows. */
uint64
lsm_lbs_left(const LsmMeta *meta)
{
	return LSM_FIRST_VERSION_LB - meta->next_root_lb + lsm_lbs_sum(meta->free_lbs, meta->nfree_lbs);
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
