/*-------------------------------------------------------------------------
 *
 * lsm_sample.c
 *	  TABLESAMPLE.
 *
 * A sampling method chooses blocks and offsets; here these are root LBs and the
 * offsets of roots, so that a row stays in a repeatable sample whatever is
 * flushed, compacted or updated (unless it moves to another root).  LBs without
 * rows are in the domain of methods that choose blocks, as empty pages are in
 * heap; other methods are not asked about LBs that nothing covers.
 *
 * Nor is it known which LBs come next: lsm_scan_near_lb() makes what it can of that.
 *
 * The whole relation is locked against write skew by lsm_scan_begin().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/tsmapi.h"
#include "lsm_am.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"

/* The LB to sample next; InvalidBlockNumber: there is none. */
static BlockNumber
lsm_sample_choose(LsmScan scan, SampleScanState *state)
{
	TsmRoutine *method = state->tsmroutine;
	BlockNumber lb;

	/* rows that this snapshot sees lie before what is the end by now */
	if (scan->sample_lb == InvalidBlockNumber)
		scan->sample_lbs = lsm_view_get(scan->base.rs_rd, scan->table)->meta.next_root_lb;
	if (scan->sample_lbs == 0)
		return InvalidBlockNumber;
	if (method->NextSampleBlock != NULL)
		return method->NextSampleBlock(state, scan->sample_lbs);
	lb = scan->sample_lb == InvalidBlockNumber ? 0 : scan->sample_lb + 1;
	lb = lsm_scan_next_lb(scan, lb);
	return lb < scan->sample_lbs ? lb : InvalidBlockNumber;
}

bool
lsm_sample_next_block(TableScanDesc sscan, SampleScanState *state)
{
	LsmScan		scan = (LsmScan) sscan;

	CHECK_FOR_INTERRUPTS();
	scan->whole_columns = false;
	scan->sample_lb = lsm_sample_choose(scan, state);
	if (scan->sample_lb == InvalidBlockNumber)
	{
		lsm_scan_rest(scan);
		return false;
	}
	lsm_scan_near_lb(scan, scan->sample_lb);
	lsm_scan_pick_lb(scan, scan->sample_lb, NULL, -1);
	return true;
}

/* The picked row with that offset, or NULL. */
static const LsmScanRow *
lsm_sample_find(LsmScan scan, OffsetNumber offset)
{
	int			lo = 0;
	int			hi = scan->npicked;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (LSM_TID_OFFSET(scan->picked[mid].root) < offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < scan->npicked && LSM_TID_OFFSET(scan->picked[lo].root) == offset)
		return &scan->picked[lo];
	return NULL;
}

bool
lsm_sample_next_tuple(TableScanDesc sscan, SampleScanState *state, TupleTableSlot *slot)
{
	LsmScan		scan = (LsmScan) sscan;
	OffsetNumber max = InvalidOffsetNumber;

	if (scan->npicked > 0)
		max = LSM_TID_OFFSET(scan->picked[scan->npicked - 1].root);
	for (;;)
	{
		OffsetNumber offset = state->tsmroutine->NextSampleTuple(state, scan->sample_lb, max);
		const LsmScanRow *row;

		CHECK_FOR_INTERRUPTS();
		if (!OffsetNumberIsValid(offset))
			break;
		row = lsm_sample_find(scan, offset);
		if (row == NULL || !lsm_scan_deliver(scan, row, slot))
			continue;
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
	ExecClearTuple(slot);
	return false;
}
