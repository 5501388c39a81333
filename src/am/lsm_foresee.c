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
 * was run the last time, as the inner side of a join is run again and again; later as many
 * as it has fetched so far.  Rows that follow each other in the table need no
 * help, nor do small tables.
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
#include "lsm_rowblock.h"
#include "lsm_sharedcache.h"
#include "nodes/execnodes.h"

/* Blocks of tables that are small: the processor's caches keep what is used of them. */
#define LSM_FORESEE_BLOCKS		256

/* A root in the LB of the one before, or in the next one, is most likely in its block. */
#define LSM_FORESEE_LBS			1

/* Where the scan is in its page of a btree; NULL: it is none whose rows can be foreseen. */
static BTScanPos
lsm_foresee_position(const IndexFetchTableData *fetch, const ItemPointerData *tid,
					 TupleTableSlot *slot, const int16 **asked, int *n)
{
	IndexScanState *scan;
	BTScanPos	position;

	if (slot == NULL || slot->tts_ops != &LsmSlotOps)
		return NULL;
	scan = lsm_slot_index_scan(slot, asked, n);
	if (scan == NULL || scan->iss_ScanDesc == NULL || scan->iss_ScanDesc->xs_heapfetch != fetch)
		return NULL;
	position = &((BTScanOpaque) scan->iss_ScanDesc->opaque)->currPos;
	if (!BTScanPosIsValid(*position) || position->itemIndex < position->firstItem ||
		position->itemIndex > position->lastItem ||
		!ItemPointerEquals(&position->items[position->itemIndex].heapTid,
						   unconstify(ItemPointerData *, tid)))
		return NULL;
	return position;
}

static void
lsm_foresee_asked(LsmTable *table, const LsmTid *roots, int n, const int16 *asked, int nasked)
{
	LsmRowsForeseen inrows[LSM_FORESEEN];
	LsmMemIndex *index = lsm_table_index(table->shared, table->shared->generation);

	for (int i = 0; i < n; i++)
		lsm_memindex_prefetch(index, roots[i]);
	n = lsm_blocks_foresee(table, roots, n, asked, nasked, inrows);
	lsm_rowblocks_foresee(inrows, n);
}

void
lsm_foresee_roots(LsmTable *table, const LsmTid *roots, int n)
{
	if (table->view != NULL && table->view->base_blocks >= LSM_FORESEE_BLOCKS)
		lsm_foresee_asked(table, roots, n, NULL, 0);
}

/* Foresee rows behind the one with that TID. */
void
lsm_foresee_rows(LsmForesight *foresight, LsmTable *table, const IndexFetchTableData *fetch,
				 const ItemPointerData *tid, TupleTableSlot *slot)
{
	LsmTid		previous = lsm_tid_from_pointer(tid);
	LsmTid		roots[LSM_FORESEEN];
	const int16 *asked;
	BTScanPos	position;
	uint32		most = foresight->fetched > 1 ? foresight->fetched : Max(foresight->usual, 1) - 1;
	int			n = 0;
	int			nasked;
	int			last;

	most = Min(most, LSM_FORESEEN);
	if (most == 0)
		return;
	position = lsm_foresee_position(fetch, tid, slot, &asked, &nasked);
	if (position == NULL || table->view == NULL || table->view->base_blocks < LSM_FORESEE_BLOCKS)
	{
		foresight->blind = true;
		return;
	}
	last = Min(position->itemIndex + (int) most, position->lastItem);
	foresight->foreseen = foresight->fetched + (last - position->itemIndex);
	for (int i = position->itemIndex + 1; i <= last; i++)
	{
		LsmTid		root = lsm_tid_from_pointer(&position->items[i].heapTid);

		if (LSM_TID_LB(root) + LSM_FORESEE_LBS < LSM_TID_LB(previous) ||
			LSM_TID_LB(root) > LSM_TID_LB(previous) + LSM_FORESEE_LBS)
			roots[n++] = root;
		previous = root;
	}
	if (n > 0)
		lsm_foresee_asked(table, roots, n, asked, nasked);
}
