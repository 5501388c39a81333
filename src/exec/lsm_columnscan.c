/*-------------------------------------------------------------------------
 *
 * lsm_columnscan.c
 *	  A scan by columns: blocks, conditions, and rows that have to be looked at one
 *	  by one.
 *
 * Of each block the rows are found that meet the conditions, on what the block
 * stores.  Rows that it does not tell all about (with other records in increments
 * or the memtable, of row-log pages, with large values, older than a column with a
 * default) are fetched as any scan does, and meet the conditions as expressions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/sysattr.h"
#include "executor/executor.h"
#include "lsm_columnscan.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"

/* ---- making ---- */

/* There will be max conditions at most. */
void
lsm_columnscan_init(LsmColumnScan *cscan, PlanState *ps, Relation rel, int max)
{
	cscan->ps = ps;
	cscan->rel = rel;
	cscan->predicates = palloc0(Max(max, 1) * sizeof(LsmPredicate *));
}

static bool
lsm_columnscan_has_default(LsmColumnScan *cscan, AttrNumber attnum)
{
	return TupleDescAttr(RelationGetDescr(cscan->rel), attnum - 1)->atthasmissing;
}

/* Add a condition; false: it is none that is looked at by column. */
bool
lsm_columnscan_add(LsmColumnScan *cscan, Expr *clause, Index varno)
{
	LsmPredicate *predicate = lsm_predicate_make(clause, varno);

	if (predicate == NULL)
		return false;
	if (lsm_columnscan_has_default(cscan, predicate->condition.attnum))
		predicate->zones = false;
	lsm_predicate_init(predicate, cscan->ps);
	cscan->predicates[cscan->npredicates++] = predicate;
	return true;
}

/* Columns of an expression will be asked for. */
void
lsm_columnscan_ask(LsmColumnScan *cscan, Node *expr, Index varno)
{
	TupleDesc	tupdesc = RelationGetDescr(cscan->rel);
	Bitmapset  *attrs = NULL;
	int			attr = -1;
	bool		all = false;

	pull_varattnos(expr, varno, &attrs);
	while ((attr = bms_next_member(attrs, attr)) >= 0)
	{
		AttrNumber	attnum = attr + FirstLowInvalidHeapAttributeNumber;

		if (attnum == InvalidAttrNumber)
			all = true;
		else if (attnum < 0 && attnum != SelfItemPointerAttributeNumber &&
				 attnum != TableOidAttributeNumber)
			cscan->system_columns = true;
	}
	for (int i = 0; i < tupdesc->natts; i++)
		if (!TupleDescAttr(tupdesc, i)->attisdropped &&
			(all || bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, attrs)))
			cscan->columns = bms_add_member(cscan->columns, i + 1);
	bms_free(attrs);
}

/* ---- running ---- */

/* Get ready for looking at columns. */
static void
lsm_columnscan_prepare(LsmColumnScan *cscan)
{
	if (cscan->prepare == NULL)
		return;
	cscan->prepare(cscan);
	cscan->prepare = NULL;
	for (int i = 0; i < cscan->npredicates; i++)
		lsm_predicate_start(cscan->predicates[i], cscan->ps->ps_ExprContext);
}

static bool
lsm_columnscan_skip(void *arg, LsmSegmentReader *reader, const LsmManifestEntry *entry,
					uint32 blockno)
{
	LsmColumnScan *cscan = arg;

	/* a table of one block is read rather than prepared for */
	if (cscan->prepare != NULL && cscan->batch.units == 0 &&
		lsm_segment_reader_blocks(reader) == 1)
		return false;
	lsm_columnscan_prepare(cscan);

	/*
	 * A serializable reader must meet rows that it does not see yet; if it
	 * has not locked the relation, all rows.
	 */
	if (IsolationIsSerializable() &&
		(cscan->wanted != NULL || !(entry->flags & LSM_SEGFLAG_ALL_VISIBLE)))
		return false;
	for (int i = 0; i < cscan->npredicates; i++)
		if (!lsm_predicate_may_match(cscan->predicates[i], reader, blockno))
			return true;
	return cscan->beaten != NULL && cscan->beaten(cscan->arg, reader, blockno);
}

/* Is all known of a block, with all rows of its zone? */
static bool
lsm_columnscan_known(void *arg, LsmSegmentReader *reader, uint32 blockno, LsmTid *lo, LsmTid *hi)
{
	LsmColumnScan *cscan = arg;
	LsmTid		first;
	LsmTid		last;

	for (int i = 0; i < cscan->npredicates; i++)
		if (!lsm_predicate_must_match(cscan->predicates[i], reader, blockno))
			return false;
	if (!cscan->known(cscan->arg, reader, blockno))
		return false;
	if (cscan->zones_asked)
	{
		lsm_segment_zone_roots(reader, blockno, &first, &last);
		*lo = Min(*lo, first);
		*hi = Max(*hi, last);
	}
	return true;
}

static void
lsm_columnscan_take(void *arg, LsmSegmentReader *reader, uint32 blockno, uint32 rows)
{
	LsmColumnScan *cscan = arg;

	cscan->take(cscan->arg, reader, blockno, rows);
}

void
lsm_columnscan_start(LsmColumnScan *cscan)
{
	if (cscan->scan == NULL && cscan->pscan != NULL)
		cscan->scan = table_beginscan_parallel(cscan->rel, cscan->pscan);
	else if (cscan->scan == NULL && cscan->wanted != NULL)
		cscan->scan = lsm_scan_begin(cscan->rel, cscan->ps->state->es_snapshot, 0, NULL, NULL,
									 SO_TYPE_BITMAPSCAN | SO_ALLOW_PAGEMODE);
	else if (cscan->scan == NULL)
		cscan->scan = table_beginscan(cscan->rel, cscan->ps->state->es_snapshot, 0, NULL);
	for (int i = 0; i < cscan->npredicates; i++)
		lsm_predicate_start(cscan->predicates[i], cscan->ps->ps_ExprContext);
	lsm_batch_begin(&cscan->batch, (LsmScan) cscan->scan);
	cscan->batch.arg = cscan;
	((LsmScan) cscan->scan)->feed.sure = cscan->whole && cscan->beaten == NULL;
	if (cscan->wanted != NULL)
		lsm_batch_want(&cscan->batch, cscan->wanted);
	if (cscan->npredicates > 0 || cscan->prepare != NULL || cscan->beaten != NULL)
		cscan->batch.skip = lsm_columnscan_skip;
	if (cscan->known != NULL)
	{
		cscan->batch.known = lsm_columnscan_known;
		cscan->batch.take = lsm_columnscan_take;
	}
}

/* Before the start: have a bitmap made, of the roots that are wanted. */
void
lsm_columnscan_want(LsmColumnScan *cscan, PlanState *bitmap)
{
	TIDBitmap  *result = (TIDBitmap *) MultiExecProcNode(bitmap);
	MemoryContext caller;

	if (result == NULL || !IsA(result, TIDBitmap))
		elog(ERROR, "unrecognized result from subplan");
	caller = MemoryContextSwitchTo(cscan->ps->state->es_query_cxt);
	cscan->wanted = lsm_wanted_begin(result);
	MemoryContextSwitchTo(caller);
}

/* Give the bitmap up. */
static void
lsm_columnscan_unwant(LsmColumnScan *cscan)
{
	if (cscan->wanted == NULL)
		return;
	lsm_wanted_pages(cscan->wanted, &cscan->exact_pages, &cscan->lossy_pages);
	lsm_wanted_end(cscan->wanted);
	cscan->wanted = NULL;
}

/* Take over what the batch scan has counted. */
static void
lsm_columnscan_count(LsmColumnScan *cscan)
{
	cscan->counters.blocks_read += cscan->batch.blocks_read;
	cscan->counters.blocks_skipped += cscan->batch.blocks_skipped;
	cscan->counters.blocks_counted += cscan->batch.blocks_counted;
	cscan->batch.blocks_counted = 0;
	cscan->batch.blocks_read = 0;
	cscan->batch.blocks_skipped = 0;
}

/* Give up the units; the scan itself stays. */
void
lsm_columnscan_stop(LsmColumnScan *cscan)
{
	if (cscan->batch.scan != NULL)
	{
		lsm_columnscan_count(cscan);
		lsm_batch_end(&cscan->batch);
	}
	cscan->nselected = 0;
	cscan->at = 0;
	cscan->changed_at = 0;
}

void
lsm_columnscan_end(LsmColumnScan *cscan)
{
	lsm_columnscan_stop(cscan);
	lsm_columnscan_unwant(cscan);
	if (cscan->scan != NULL)
		table_endscan(cscan->scan);
	cscan->scan = NULL;
}

void
lsm_columnscan_rescan(LsmColumnScan *cscan)
{
	lsm_columnscan_stop(cscan);
	lsm_columnscan_unwant(cscan);
	if (cscan->scan != NULL)
		table_rescan(cscan->scan, NULL);
}

/* ---- units ---- */

/* Can the conditions, and the columns, of the block be looked at as it has them? */
static void
lsm_columnscan_examine(LsmColumnScan *cscan)
{
	LsmBlock   *block = cscan->batch.block;
	LsmScan		scan = (LsmScan) cscan->scan;
	int			natts = lsm_block_natts(block);
	bool		complete = lsm_block_complete(block);
	int			attnum = -1;

	cscan->recheck = (scan->entry.flags & LSM_SEGFLAG_VALUES) != 0;
	for (int i = 0; i < cscan->npredicates; i++)
	{
		attnum = cscan->predicates[i]->condition.attnum;
		if ((attnum > natts || !complete) && lsm_columnscan_has_default(cscan, attnum))
			cscan->recheck = true;
	}
	cscan->simple = !cscan->recheck && !cscan->system_columns;
	attnum = -1;
	while (cscan->simple && (attnum = bms_next_member(cscan->columns, attnum)) >= 0)
		if ((attnum > natts || !complete) && lsm_columnscan_has_default(cscan, attnum))
			cscan->simple = false;
}

/* Find the rows of the block that meet the conditions. */
static void
lsm_columnscan_select(LsmColumnScan *cscan)
{
	LsmBatchScan *batch = &cscan->batch;
	int			left = batch->nseen;
	int			n = 0;

	if (batch->nrows > cscan->room)
	{
		if (cscan->selected != NULL)
			pfree(cscan->selected);
		cscan->room = Max(batch->nrows, 2 * cscan->room);
		cscan->selected = MemoryContextAlloc(cscan->ps->state->es_query_cxt,
											 cscan->room * sizeof(uint16));
	}
	for (int i = 0; i < cscan->npredicates && left > 0 && !cscan->recheck; i++)
	{
		LsmCondition *condition = &cscan->predicates[i]->condition;

		if (condition->attnum <= lsm_block_natts(batch->block))
			left = lsm_predicate_select(cscan->predicates[i], batch->block, batch->mask);
		else if (condition->kind != LSM_COND_NULL)
			left = 0;
	}
	InstrCountFiltered1(cscan->ps, batch->nseen - left);
	for (int row = 0; row < batch->nrows && left > 0; row++)
	{
		cscan->selected[n] = row;
		n += batch->mask[row];
	}
	cscan->nselected = n;
}

/* Go to the next unit; false: there is none. */
bool
lsm_columnscan_next_unit(LsmColumnScan *cscan)
{
	cscan->at = 0;
	cscan->changed_at = 0;
	cscan->nselected = 0;
	if (!lsm_batch_next(&cscan->batch))
		return false;
	if (cscan->batch.block != NULL && cscan->batch.nseen > 0)
	{
		cscan->rows_taken += cscan->batch.nseen;
		lsm_columnscan_prepare(cscan);
		lsm_columnscan_examine(cscan);
		lsm_columnscan_select(cscan);
	}
	return true;
}

/* ---- rows one by one ---- */

/* Does the row in the slot meet the conditions? */
bool
lsm_columnscan_passes(LsmColumnScan *cscan, TupleTableSlot *slot)
{
	ExprContext *econtext = cscan->ps->ps_ExprContext;

	if (cscan->npredicates == 0)
		return true;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	if (ExecQual(cscan->qual, econtext))
		return true;
	InstrCountFiltered1(cscan->ps, 1);
	return false;
}

static bool
lsm_columnscan_deliver(LsmColumnScan *cscan, const LsmScanRow *row, TupleTableSlot *slot,
					   LsmTid *root)
{
	if (!lsm_scan_deliver((LsmScan) cscan->scan, row, slot))
		return false;
	if (cscan->wanted != NULL)
		lsm_compat_count_fetched(cscan->rel, 1);
	else
		lsm_compat_count_returned(cscan->rel, 1);
	cscan->rows_taken++;
	*root = row->root;
	return lsm_columnscan_passes(cscan, slot);
}

bool
lsm_columnscan_fetch(LsmColumnScan *cscan, TupleTableSlot *slot, int before, LsmTid *root)
{
	LsmScan		scan = (LsmScan) cscan->scan;
	LsmBatchScan *batch = &cscan->batch;

	if (batch->by_row)
	{
		while (cscan->at < scan->nrows)
			if (lsm_columnscan_deliver(cscan, &scan->rows[cscan->at++], slot, root))
				return true;
		return false;
	}
	while (cscan->changed_at < batch->nchanged &&
		   (before < 0 || batch->changed[cscan->changed_at].row < before))
	{
		LsmScanRow	row = {.root = batch->changed[cscan->changed_at++].root,.changed = true,.change = -1};

		if (batch->listed)
			cscan->counters.rows_looked_up++;
		else
			cscan->counters.rows_fused++;
		if (lsm_columnscan_deliver(cscan, &row, slot, root))
			return true;
	}
	return false;
}

bool
lsm_columnscan_store(LsmColumnScan *cscan, int row, LsmTid root, TupleTableSlot *slot)
{
	LsmScanRow	one = {.root = root,.at = row};

	lsm_scan_store((LsmScan) cscan->scan, &one, slot);
	return !cscan->recheck || lsm_columnscan_passes(cscan, slot);
}

/* ---- parallel plans ---- */

static Size
lsm_columnscan_shared_bytes(int nworkers)
{
	return add_size(MAXALIGN(offsetof(LsmScanShared, shares)), lsm_scanshare_bytes(nworkers));
}

Size
lsm_columnscan_estimate_dsm(Relation rel, Snapshot snapshot, int nworkers)
{
	return add_size(lsm_columnscan_shared_bytes(nworkers),
					table_parallelscan_estimate(rel, snapshot));
}

void
lsm_columnscan_initialize_worker(LsmColumnScan *cscan, void *coordinate)
{
	cscan->shared = coordinate;
	cscan->pscan = (ParallelTableScanDesc)
		((char *) coordinate + lsm_columnscan_shared_bytes(cscan->shared->shares.nworkers));
}

void
lsm_columnscan_initialize_dsm(LsmColumnScan *cscan, void *coordinate, int nworkers)
{
	LsmScanShared *shared = coordinate;

	for (int i = 0; i < LSM_SCAN_COUNTERS; i++)
		pg_atomic_init_u64(&shared->counters[i], 0);
	lsm_scanshare_init(&shared->shares, nworkers);
	lsm_columnscan_initialize_worker(cscan, coordinate);
	table_parallelscan_initialize(cscan->rel, cscan->pscan, cscan->ps->state->es_snapshot);
}

/* What has been counted so far stays: the leader takes it over once, at the end. */
void
lsm_columnscan_reinitialize_dsm(LsmColumnScan *cscan, void *coordinate)
{
	table_parallelscan_reinitialize(cscan->rel, cscan->pscan);
}

/* Tell what this process has taken, and begin to count anew. */
static void
lsm_columnscan_give_share(LsmColumnScan *cscan)
{
	LsmScan		scan = (LsmScan) cscan->scan;
	LsmScanShare own = {0, 0, cscan->rows_taken};

	cscan->rows_taken = 0;
	if (scan == NULL)
		return;
	own.ranges = scan->ranges;
	own.units = scan->units;
	scan->ranges = 0;
	scan->units = 0;
	lsm_scanshare_add(&cscan->shared->shares, &own);
}

/*
 * Workers leave what they have counted, before the leader sees the end of their
 * rows.  It takes that over while shared memory is there.  (This is called after
 * each part of a portal too, and the scan goes on.)
 */
void
lsm_columnscan_shutdown(LsmColumnScan *cscan)
{
	uint64	   *counters = (uint64 *) &cscan->counters;
	MemoryContext caller;

	if (cscan->shared == NULL)
		return;
	lsm_columnscan_count(cscan);
	lsm_columnscan_give_share(cscan);
	for (int i = 0; i < LSM_SCAN_COUNTERS; i++)
	{
		if (IsParallelWorker())
		{
			pg_atomic_fetch_add_u64(&cscan->shared->counters[i], counters[i]);
			counters[i] = 0;
		}
		else
			counters[i] += pg_atomic_read_u64(&cscan->shared->counters[i]);
	}
	if (IsParallelWorker())
		return;
	caller = MemoryContextSwitchTo(cscan->ps->state->es_query_cxt);
	cscan->shares = lsm_scanshare_copy(&cscan->shared->shares);
	MemoryContextSwitchTo(caller);
	cscan->shared = NULL;
}

void
lsm_columnscan_explain(LsmColumnScan *cscan, ExplainState *es)
{
	LsmScanCounters *counters = &cscan->counters;

	if (!es->analyze)
		return;
	lsm_columnscan_count(cscan);
	if (cscan->shares != NULL)
		lsm_scanshare_explain(cscan->shares, es);
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyInteger("LSM Blocks Read", NULL, counters->blocks_read, es);
		ExplainPropertyInteger("LSM Blocks Skipped", NULL, counters->blocks_skipped, es);
		ExplainPropertyInteger("LSM Blocks Counted", NULL, counters->blocks_counted, es);
		ExplainPropertyInteger("LSM Rows Fused", NULL, counters->rows_fused, es);
		ExplainPropertyInteger("LSM Rows Looked Up", NULL, counters->rows_looked_up, es);
		return;
	}
	if (counters->blocks_read == 0 && counters->blocks_skipped == 0 &&
		counters->blocks_counted == 0 && counters->rows_fused == 0 &&
		counters->rows_looked_up == 0)
		return;
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "LSM: blocks read=" UINT64_FORMAT, counters->blocks_read);
	if (counters->blocks_skipped > 0)
		appendStringInfo(es->str, " skipped=" UINT64_FORMAT, counters->blocks_skipped);
	if (counters->blocks_counted > 0)
		appendStringInfo(es->str, " counted=" UINT64_FORMAT, counters->blocks_counted);
	if (counters->rows_fused > 0)
		appendStringInfo(es->str, ", rows fused=" UINT64_FORMAT, counters->rows_fused);
	if (counters->rows_looked_up > 0)
		appendStringInfo(es->str, ", rows looked up=" UINT64_FORMAT, counters->rows_looked_up);
	appendStringInfoChar(es->str, '\n');
}
