/*-------------------------------------------------------------------------
 *
 * lsm_analyze.c
 *	  What ANALYZE samples: root LBs, in ascending order, and all rows of each.
 *
 * Rows are reported by their root TIDs: updates would spoil the correlation with the
 * order of the table.  One that has no other record than its bottom, as nearly all of a
 * large table, is counted and delivered from the block that the scan has; its columns are
 * decoded only if the server copies it, which it does with few.  Others are looked up.
 *
 * READING AHEAD
 *	  From 17 on, the server can be asked which LBs come next, long before it wants
 *	  them: their blocks are read together, those of a store many at a time.  (It
 *	  draws them from a sampler of their own, so nothing else changes.)  Before, each
 *	  LB comes as a surprise: lsm_scan_near_lb().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_am.h"
#include "miscadmin.h"

#if LSM_ANALYZE_TELLS

/* So many LBs are taken before they are needed. */
#define LSM_ANALYZE_AHEAD		4096

typedef struct LsmAnalyzeQueue
{
	int			next;			/* behind the one in use */
	int			n;				/* behind the last one */
	int			told;			/* the next one for lsm_analyze_feed_next() */
	bool		ended;			/* there are no more */
	BlockNumber lbs[LSM_ANALYZE_AHEAD];
}			LsmAnalyzeQueue;

/* The next block that LBs of the queue have rows in. */
static bool
lsm_analyze_feed_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmScan		scan = arg;
	LsmAnalyzeQueue *queue = scan->sample_queue;

	for (; queue->told < queue->n; queue->told++)
	{
		BlockNumber lb = queue->lbs[queue->told];

		scan->feed_tid = Max(scan->feed_tid, LSM_TID(lb, 1));
		if (lsm_scan_feed_block(scan, LSM_TID(lb, LSM_MAX_OFFSET), entry, blockno))
			return true;
	}
	return false;
}

/* Begin again, behind the block that is being pinned; the LB may go on in the next one. */
static void
lsm_analyze_feed_restart(void *arg)
{
	LsmScan		scan = arg;

	lsm_scan_feed_restart(scan);
	scan->sample_queue->told = scan->sample_queue->next - 1;
}

/* Fill the queue, from the LB in use on. */
static void
lsm_analyze_fill(LsmAnalyzeQueue * queue, ReadStream * stream)
{
	int			gone = Max(queue->next - 1, 0);

	queue->n -= gone;
	queue->next -= gone;
	queue->told = Max(queue->told - gone, 0);
	memmove(queue->lbs, queue->lbs + gone, queue->n * sizeof(BlockNumber));
	while (queue->n < LSM_ANALYZE_AHEAD && !queue->ended)
	{
		queue->lbs[queue->n] = lsm_compat_stream_next(stream);
		if (BlockNumberIsValid(queue->lbs[queue->n]))
			queue->n++;
		else
			queue->ended = true;
	}
}

/* The next LB to sample; InvalidBlockNumber: there is none. */
static BlockNumber
lsm_analyze_take(LsmScan scan, ReadStream * stream)
{
	LsmAnalyzeQueue *queue = scan->sample_queue;

	if (queue == NULL)
	{
		queue = scan->sample_queue = MemoryContextAllocZero(GetMemoryChunkContext(scan),
															sizeof(LsmAnalyzeQueue));
		scan->feed.next = lsm_analyze_feed_next;
		scan->feed.restart = lsm_analyze_feed_restart;
		scan->feed.sure = true;
		scan->lbs_told = true;
	}
	if (queue->n - queue->next <= LSM_ANALYZE_AHEAD / 2 && !queue->ended)
		lsm_analyze_fill(queue, stream);
	return queue->next < queue->n ? queue->lbs[queue->next++] : InvalidBlockNumber;
}

#endif

bool
lsm_analyze_next_block(LSM_ANALYZE_NEXT_BLOCK_ARGS)
{
	LsmScan		sample = (LsmScan) scan;
#if LSM_ANALYZE_TELLS
	BlockNumber lb = lsm_analyze_take(sample, stream);
#else
	BlockNumber lb = blockno;

	lsm_scan_near_lb(sample, lb);
#endif

	lsm_relpages_remember(scan->rs_rd);
	if (lb == InvalidBlockNumber)
		return false;
	lsm_scan_set_range(sample, LSM_TID(lb, 1), LSM_TID(lb, LSM_LAST_OFFSET));
	return true;
}

bool
lsm_analyze_next_tuple(TableScanDesc sscan, TransactionId oldest_xmin, double *liverows,
					   double *deadrows, TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) sscan;
	LsmScanRow	row;

	while (lsm_scan_next_row(scan, ForwardScanDirection, &row))
	{
		CHECK_FOR_INTERRUPTS();
		if (row.changed)
			*deadrows += 1;		/* at least one version is not the newest */
		else if (row.seen)
		{
			lsm_stat_record(&scan->table->stat, row.root, scan->cached == NULL);
			lsm_stat_row(&scan->table->stat, row.root, scan->cached == NULL);
			lsm_scan_store(scan, &row, slot);
			*liverows += 1;
			lsm_slot_set_name(slot, row.root);
			return true;
		}
		if (lsm_row_fetch(sscan->rs_rd, scan->table, row.root, SnapshotSelf, slot, NULL))
		{
			*liverows += 1;
			lsm_slot_set_name(slot, row.root);
			return true;
		}
	}
	ExecClearTuple(slot);
	return false;
}
