/*-------------------------------------------------------------------------
 *
 * lsm_bitmap.c
 *	  Bitmap scans.
 *
 * What indexes hold is root TIDs, so a page of the bitmap is a root LB.  An exact
 * page lists roots: each is looked up as by an index scan.  A lossy page means
 * all rows whose root is in the LB.  Versions are found from the root, wherever
 * they are; LBs of versions are never asked for.
 *
 * The rows of a page are picked in one pass over the LB, in the newest view;
 * few of them are looked up one by one.  No page is left out because it lies
 * beyond some end of the table: who asks for it has a reason, and a serializable
 * reader has to look at rows that were inserted after its snapshot.
 *
 * SSI: a serializable reader looks each row up by itself, as an index scan does
 * (I10).  Of a lossy page, the roots are listed first.  A row inserted after that
 * is invisible and needs no lock: what makes a phantom of it is the index's
 * business.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "lsm_am.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"

/*
 * Up to so many rows of an LB are looked up each by itself, which asks the
 * filters of increments rather than reading their blocks.
 */
#define LSM_BITMAP_FEW			4

/* From so many on, columns are decoded for whole blocks. */
#define LSM_BITMAP_MANY			64

StaticAssertDecl(LSM_MAX_OFFSET <= MaxHeapTuplesPerPage,
				 "bitmaps must have room for all offsets");

/* Pick the rows of a page of the bitmap; n < 0: it is lossy. */
static void
lsm_bitmap_pick(LsmScan scan, BlockNumber lb, const OffsetNumber *offsets, int n)
{
	scan->whole_columns = n < 0 || n >= LSM_BITMAP_MANY;
	if (n >= 0 && (n <= LSM_BITMAP_FEW || IsolationIsSerializable()))
	{
		LsmTid		read = LSM_INVALID_TID;

		for (int i = 0; scan->queue != NULL && i < n; i++)
			if (LSM_TID(lb, offsets[i]) > read)
				read = lsm_scan_read_root(scan, LSM_TID(lb, offsets[i]));
		lsm_scan_pick_roots(scan, lb, offsets, n);
	}
	else
		lsm_scan_pick_lb(scan, lb, offsets, n);
}

/* Deliver the next picked row that the snapshot sees; false: none is left. */
static bool
lsm_bitmap_deliver(LsmScan scan, TupleTableSlot *slot)
{
	while (scan->picked_at < scan->npicked)
	{
		LsmScanRow *row = &scan->picked[scan->picked_at++];

		CHECK_FOR_INTERRUPTS();
		if (IsolationIsSerializable())
		{
			/* lsm_row_fetch() locks it */
			row->changed = true;
			row->change = -1;
		}
		if (!lsm_scan_deliver(scan, row, slot))
			continue;
		pgstat_count_heap_fetch(scan->base.rs_rd);
		return true;
	}
	return false;
}

#if LSM_BITMAP_BY_BLOCK

/* The executor hands pages over: none are known before. */
void
lsm_bitmap_rescan(LsmScan scan)
{
	Assert(scan->queue == NULL);
}

bool
lsm_bitmap_next_block(TableScanDesc sscan, TBMIterateResult *page)
{
	LsmScan		scan = (LsmScan) sscan;

	if (!scan->prefetch_off)
	{
		lsm_executor_no_prefetch(scan);
		scan->prefetch_off = true;
	}
	lsm_bitmap_pick(scan, page->blockno, page->offsets, page->ntuples);
	return scan->npicked > 0;
}

bool
lsm_bitmap_next_tuple(TableScanDesc sscan, TBMIterateResult *page, TupleTableSlot *slot)
{
	return lsm_bitmap_deliver((LsmScan) sscan, slot);
}

#else

/* So many pages are taken from the bitmap before they are needed, in the end. */
#define LSM_BITMAP_AHEAD		1024

/* Pages of the bitmap that come next; what they point to lives as long as the bitmap. */
typedef struct LsmBitmapQueue
{
	int			first;			/* the next one */
	int			n;				/* behind the last one */
	int			told;			/* the next one for lsm_bitmap_feed_next() */
	int			want;			/* so many are taken at a time */
	bool		ended;			/* the bitmap has no more */
	TBMIterateResult pages[LSM_BITMAP_AHEAD];
} LsmBitmapQueue;

/* The next block that pages of the queue have rows in. */
static bool
lsm_bitmap_feed_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmScan		scan = arg;
	LsmBitmapQueue *queue = scan->queue;

	for (; queue->told < queue->n; queue->told++)
	{
		BlockNumber lb = queue->pages[queue->told].blockno;

		scan->feed_tid = Max(scan->feed_tid, LSM_TID(lb, 1));
		if (lsm_scan_feed_block(scan, LSM_TID(lb, LSM_MAX_OFFSET), entry, blockno))
			return true;
	}
	return false;
}

static void
lsm_bitmap_feed_restart(void *arg)
{
	LsmScan		scan = arg;

	lsm_scan_feed_restart(scan);
	scan->queue->told = scan->queue->first;
}

void
lsm_bitmap_rescan(LsmScan scan)
{
	if (scan->queue != NULL)
		memset(scan->queue, 0, offsetof(LsmBitmapQueue, pages));
}

static void
lsm_bitmap_fill(LsmScan scan, TBMIterator *iterator)
{
	LsmBitmapQueue *queue = scan->queue;

	queue->want = Min(Max(queue->want * 2, 2), LSM_BITMAP_AHEAD);
	queue->n -= queue->first;
	queue->told = Max(queue->told - queue->first, 0);
	memmove(queue->pages, queue->pages + queue->first, queue->n * sizeof(TBMIterateResult));
	queue->first = 0;
	while (queue->n < queue->want && !queue->ended)
	{
		if (tbm_iterate(iterator, &queue->pages[queue->n]))
			queue->n++;
		else
			queue->ended = true;
	}
}

/*
 * The next page of the bitmap.  Of one that workers share, none is taken before it is
 * needed: the others could not have it.
 */
static bool
lsm_bitmap_take_page(LsmScan scan, TBMIterateResult *page)
{
	TBMIterator *iterator = &scan->base.st.rs_tbmiterator;
	LsmBitmapQueue *queue = scan->queue;

	if (iterator->shared)
		return tbm_iterate(iterator, page);
	if (queue == NULL)
	{
		queue = scan->queue = MemoryContextAllocZero(GetMemoryChunkContext(scan),
													 sizeof(LsmBitmapQueue));
		scan->feed.next = lsm_bitmap_feed_next;
		scan->feed.restart = lsm_bitmap_feed_restart;
	}
	if (queue->n - queue->first <= queue->want / 2 && !queue->ended)
		lsm_bitmap_fill(scan, iterator);
	if (queue->first >= queue->n)
		return false;
	*page = queue->pages[queue->first++];
	return true;
}

/* Pick the rows of the bitmap's next page; false at its end. */
static bool
lsm_bitmap_next_page(LsmScan scan, uint64 *lossy_pages, uint64 *exact_pages)
{
	TBMIterateResult page;
	OffsetNumber offsets[TBM_MAX_TUPLES_PER_PAGE];
	int			n = -1;

	if (!lsm_bitmap_take_page(scan, &page))
		return false;
	scan->recheck = page.recheck;
	if (page.lossy)
		(*lossy_pages)++;
	else
	{
		(*exact_pages)++;
		n = tbm_extract_page_tuple(&page, offsets, TBM_MAX_TUPLES_PER_PAGE);
	}
	lsm_bitmap_pick(scan, page.blockno, offsets, n);
	return true;
}

bool
lsm_bitmap_next_tuple(TableScanDesc sscan, TupleTableSlot *slot, bool *recheck,
					  uint64 *lossy_pages, uint64 *exact_pages)
{
	LsmScan		scan = (LsmScan) sscan;

	while (!lsm_bitmap_deliver(scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (!lsm_bitmap_next_page(scan, lossy_pages, exact_pages))
		{
			lsm_scan_rest(scan);
			return false;
		}
	}
	*recheck = scan->recheck;
	return true;
}

#endif
