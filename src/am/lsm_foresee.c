/*-------------------------------------------------------------------------
 *
 * lsm_foresee.c
 *	  Rows that an index scan is about to fetch.
 *
 * To find a row of a block that the session has opened takes a chain of six or seven
 * places in memory, each of which tells where the next one is.  Where rows lie all over a
 * large table, none of them is in the processor's caches, and it does nothing but wait.
 * But a btree scan has the TIDs of a whole page of the index at hand.  So the first lines
 * of several rows are asked for at a time, then the second ones, and so on: they come
 * together.  (A row that is not opened yet is not helped: most of its time is copying.)
 *
 * A scan may end at any row, so few are foreseen: at first as many as it fetched when it
 * was run the last time, as the inner side of a join is run again and again; later up to three
 * times as many as it has fetched so far.  Rows that follow each other in the table need no
 * help, nor do small tables.
 *
 * Where rows lie in a store, the blocks of some are brought together (lsm_prefetch.c): each
 * time, of so many as the scan has fetched so far, and of the one that is wanted.
 *
 * All of this is hints.  TIDs come from the server's private state of a btree scan; what
 * is taken from there is compared with the TID at hand before it is believed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "lsm_blockcache.h"
#include "lsm_foresee.h"
#include "lsm_prefetch.h"
#include "lsm_rowblock.h"
#include "lsm_sharedcache.h"
#include "lsm_walk.h"
#include "nodes/execnodes.h"

/* Blocks of tables that are small: the processor's caches keep what is used of them. */
#define LSM_FORESEE_BLOCKS		256

/* Rows that are foreseen for each one that was fetched. */
#define LSM_FORESEE_TIMES		3

/* A root in the LB of the one before, or in the next one, is most likely in its block. */
#define LSM_FORESEE_LBS			1

/* Where a scan is in its page of a btree. */
static inline BTScanPos
lsm_foresee_position(const IndexScanState *scan)
{
	return &((BTScanOpaque) scan->iss_ScanDesc->opaque)->currPos;
}

/* The scan of a btree that wants a row in the slot; NULL: it is none whose rows can be foreseen. */
static const IndexScanState *
lsm_foresee_scan(const IndexFetchTableData *fetch, const ItemPointerData *tid,
				 TupleTableSlot *slot, const int16 **asked, int *n)
{
	const IndexScanState *scan;
	BTScanPos	position;

	if (slot == NULL || slot->tts_ops != &LsmSlotOps)
		return NULL;
	scan = lsm_slot_index_scan(slot, asked, n);
	if (scan == NULL || scan->iss_ScanDesc == NULL || scan->iss_ScanDesc->xs_heapfetch != fetch)
		return NULL;
	position = lsm_foresee_position(scan);
	if (!BTScanPosIsValid(*position) || position->itemIndex < position->firstItem ||
		position->itemIndex > position->lastItem ||
		!ItemPointerEquals(&position->items[position->itemIndex].heapTid,
						   unconstify(ItemPointerData *, tid)))
		return NULL;
	return scan;
}

/* Leave one root of each LB, others take the rest; their number. */
static int
lsm_foresee_others(LsmTid *roots, int *n, LsmTid *others)
{
	LsmTid		seen[LSM_FORESEEN] = {0};
	int			left = 0;
	int			nothers = 0;

	for (int i = 0; i < *n; i++)
	{
		LsmTid	   *place = &seen[LSM_TID_LB(roots[i]) % LSM_FORESEEN];

		if (*place != LSM_INVALID_TID && LSM_TID_LB(*place) == LSM_TID_LB(roots[i]))
			others[nothers++] = roots[i];
		else
			roots[left++] = *place = roots[i];
	}
	*n = left;
	return nothers;
}

/* What is in roots is changed. */
static void
lsm_foresee_asked(LsmTable *table, LsmTid *roots, int n, const int16 *asked, int nasked)
{
	LsmRowsForeseen inrows[LSM_FORESEEN];
	LsmTid		others[LSM_FORESEEN];
	LsmMemIndex *index = lsm_table_index(table->shared, table->shared->generation);
	int			nothers;
	int			known;
	int			found;

	for (int i = 0; i < n; i++)
		lsm_memindex_prefetch(index, roots[i]);
	known = lsm_rowblocks_known(table, roots, &n, inrows);
	nothers = lsm_foresee_others(roots, &n, others);
	found = lsm_blocks_foresee(table, roots, n, asked, nasked, inrows + known);
	if (nothers > 0)
	{
		lsm_rowblocks_remember(table, inrows + known, found);
		known += found;
		known += lsm_rowblocks_known(table, others, &nothers, inrows + known);
		found = lsm_blocks_foresee(table, others, nothers, asked, nasked, inrows + known);
	}
	lsm_rowblocks_foresee(inrows, known + found);
}

void
lsm_foresee_roots(LsmTable *table, LsmTid *roots, int n)
{
	if (table->view != NULL && table->view->all_base.blocks >= LSM_FORESEE_BLOCKS)
		lsm_foresee_asked(table, roots, n, NULL, 0);
}

/* From one TID of a page to the next one that the scan comes to. */
static int
lsm_foresee_step(const IndexScanState *scan)
{
	bool		forward = ScanDirectionIsForward(scan->ss.ps.state->es_direction);
	bool		ordered = ScanDirectionIsForward(((IndexScan *) scan->ss.ps.plan)->indexorderdir);

	return forward == ordered ? 1 : -1;
}

/* Which of the next rows, most of them at most, does the page of the index have? */
static int
lsm_foresee_left(BTScanPos position, int step, uint32 most)
{
	int			left = step > 0 ? position->lastItem - position->itemIndex :
	position->itemIndex - position->firstItem;

	return Min(left, (int) most);
}

/*
 * Have the blocks of the row at hand, and of some of the next ones, brought from a store.  Not
 * if they follow each other in the table: then more is read ahead than the page tells of
 * (lsm_walk.c).
 */
static void
lsm_foresee_blocks_far(LsmForesight *foresight, LsmTable *table, Relation rel, BTScanPos position,
					   int step, uint32 most)
{
	LsmTid		roots[LSM_PREFETCH_ROWS];
	int			n = lsm_foresee_left(position, step, Min(most, LSM_PREFETCH_ROWS - 1));
	bool		jumps = false;

	for (int i = 0; i <= n; i++)
	{
		roots[i] = lsm_tid_from_pointer(&position->items[position->itemIndex + i * step].heapTid);
		jumps = jumps || (i > 0 && (LSM_TID_LB(roots[i]) < LSM_TID_LB(roots[i - 1]) ||
									LSM_TID_LB(roots[i]) > LSM_TID_LB(roots[i - 1]) + LSM_WALK_LBS));
	}
	foresight->prefetched = foresight->fetched + n;
	if (jumps)
		lsm_prefetch_rows(rel, table, roots, n + 1);
}

/* Foresee rows behind the one with that TID. */
void
lsm_foresee_rows(LsmForesight *foresight, LsmTable *table, const IndexFetchTableData *fetch,
				 const ItemPointerData *tid, TupleTableSlot *slot)
{
	LsmTid		previous = lsm_tid_from_pointer(tid);
	LsmTid		roots[LSM_FORESEEN];
	const int16 *asked;
	const IndexScanState *scan;
	BTScanPos	position;
	uint32		most = foresight->fetched > 1 ? foresight->fetched : Max(foresight->usual, 1) - 1;
	bool		far;
	int			n = 0;
	int			nasked;
	int			step;
	int			left;

	if (most == 0)
		return;
	far = lsm_prefetch_pays(table);
	scan = lsm_foresee_scan(fetch, tid, slot, &asked, &nasked);
	if (scan == NULL || table->view == NULL ||
		(table->view->all_base.blocks < LSM_FORESEE_BLOCKS && !far))
	{
		foresight->blind = true;
		return;
	}
	position = lsm_foresee_position(scan);
	step = lsm_foresee_step(scan);
	if (far && foresight->fetched > foresight->prefetched)
		lsm_foresee_blocks_far(foresight, table, fetch->rel, position, step, most);
	if (far)
		most = foresight->prefetched - foresight->fetched;	/* then the next ones are brought */
	else if (foresight->fetched > 1)
		most *= LSM_FORESEE_TIMES;
	left = lsm_foresee_left(position, step, Min(most, LSM_FORESEEN));
	foresight->foreseen = foresight->fetched + left;
	for (int i = 1; i <= left; i++)
	{
		LsmTid		root = lsm_tid_from_pointer(&position->items[position->itemIndex + i * step].heapTid);

		if (LSM_TID_LB(root) + LSM_FORESEE_LBS < LSM_TID_LB(previous) ||
			LSM_TID_LB(root) > LSM_TID_LB(previous) + LSM_FORESEE_LBS)
			roots[n++] = root;
		previous = root;
	}
	if (n > 0)
		lsm_foresee_asked(table, roots, n, asked, nasked);
}
