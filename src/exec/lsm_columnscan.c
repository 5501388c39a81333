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
#include "lsm_numbers.h"
#include "lsm_segmentbounds.h"
#include "lsm_stop.h"
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

/*
 * Add a condition; false: it is none that is looked at by column, or not only so: behind others,
 * its value may be an error that no row asks for, and rows are looked at without it then.
 */
bool
lsm_columnscan_add(LsmColumnScan *cscan, Expr *clause, Index varno, bool behind)
{
	LsmPredicate *predicate = lsm_predicate_make(clause, varno);

	if (predicate == NULL || (behind && predicate->may_fail))
		return false;
	if (lsm_columnscan_has_default(cscan, predicate->condition.attnum))
		predicate->zones = false;
	lsm_predicate_init(predicate, cscan->ps);
	predicate->defers = cscan->one_by_one && predicate->may_fail &&
		lsm_predicate_function_risk(predicate->function.fn_oid) == LSM_RISK_TRY;
	predicate->left = behind && predicate->risk != LSM_RISK_NONE;
	cscan->predicates[cscan->npredicates++] = predicate;
	return !predicate->left;
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
		else if (attnum == SelfItemPointerAttributeNumber)
			cscan->names = true;
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

/* ---- what is read, and what stores are asked for ---- */

static inline void
lsm_columnscan_asks(LsmColumnScan *cscan)
{
	cscan->store_asked = lsm_store_asked;
	cscan->input = lsm_iostat_totals;
}

/* Count what was asked for since then. */
static inline void
lsm_columnscan_asked(LsmColumnScan *cscan)
{
	cscan->counters.store_requests += lsm_store_asked.requests - cscan->store_asked.requests;
	cscan->counters.store_bytes += lsm_store_asked.bytes - cscan->store_asked.bytes;
	lsm_iostat_since(&cscan->input, &cscan->counters.input);
}

/* ---- running ---- */

/*
 * Which changes of rows count: those of columns that are looked at, and of rows that end.
 * All do if rows have names, as their versions have names of their own; if system
 * columns are asked for; as long as it is not known what is; for serializable readers, which have to meet what they
 * do not see; and for bitmap scans, whose rows are to be fetched.
 */
static void
lsm_columnscan_set_asked(LsmColumnScan *cscan)
{
	int			attnum = -1;

	cscan->batch.asked = NULL;
	if (cscan->names || cscan->system_columns || cscan->prepare != NULL ||
		cscan->wanted != NULL || IsolationIsSerializable())
		return;
	lsm_touch_clear(&cscan->asked);
	lsm_touch_set(&cscan->asked, LSM_TOUCH_END);
	for (int i = 0; i < cscan->npredicates; i++)
		lsm_touch_set(&cscan->asked, cscan->predicates[i]->condition.attnum);
	while ((attnum = bms_next_member(cscan->columns, attnum)) >= 0)
		lsm_touch_set(&cscan->asked, attnum);
	cscan->batch.asked = &cscan->asked;
}

static void
lsm_columnscan_start_predicates(LsmColumnScan *cscan)
{
	for (int i = 0; i < cscan->npredicates; i++)
		lsm_predicate_start(cscan->predicates[i], cscan->ps->ps_ExprContext);
	lsm_predicates_join(cscan->predicates, cscan->npredicates);
}

/* Get ready for looking at columns. */
static void
lsm_columnscan_prepare(LsmColumnScan *cscan)
{
	if (cscan->prepare == NULL)
		return;

	/*
	 * values of conditions may be those of other scans, which count for
	 * themselves
	 */
	lsm_columnscan_asked(cscan);
	cscan->prepare(cscan);
	cscan->prepare = NULL;
	lsm_columnscan_set_asked(cscan);
	lsm_columnscan_start_predicates(cscan);
	lsm_columnscan_asks(cscan);
}

/*
 * Does a condition, or what joins have matches for, rule out the block, or, by its bounds (NULL: not
 * known), the segment as a whole?
 */
static bool
lsm_columnscan_rules_out(LsmColumnScan *cscan, const LsmBounds *bounds,
						 LsmSegmentReader *reader, uint32 blockno)
{
	cscan->batch.skip_column = 0;
	for (int i = 0; i < cscan->npredicates; i++)
	{
		LsmPredicate *predicate = cscan->predicates[i];
		int			attnum = predicate->condition.attnum;

		if (reader == NULL ? lsm_predicate_may_match_any(predicate, bounds) :
			lsm_predicate_may_match(predicate, reader, blockno))
			continue;
		if (IsolationIsSerializable())
			return true;
		/* rather by a column that was not touched when we last looked */
		cscan->batch.skip_column = attnum;
		if (!lsm_touch_has(&cscan->batch.touched, attnum))
			return true;
	}
	if (cscan->batch.skip_column == 0 && cscan->filters != NULL)
	{
		AttrNumber	attnum = lsm_joinfilter_rules_out(cscan->filters, bounds, reader, blockno);

		if (attnum != 0 && IsolationIsSerializable())
			return true;
		cscan->batch.skip_column = attnum;
	}
	return cscan->batch.skip_column != 0;
}

/* Is there a condition that zones, or bounds, tell something about? */
static bool
lsm_columnscan_has_zones(LsmColumnScan *cscan)
{
	for (int i = 0; i < cscan->npredicates; i++)
		if (cscan->predicates[i]->zones)
			return true;
	return lsm_joinfilter_has_keys(cscan->filters);
}

/* Does its value wait to be computed?  One that is an error is for a row to ask for. */
static inline bool
lsm_columnscan_is_waiting(const LsmPredicate *predicate)
{
	return predicate->waits && !predicate->fails;
}

/*
 * The next condition whose value is to be computed before the zones of a segment are asked,
 * or NULL: the last one that waits for a value which zones need, or one before it, if no
 * condition that has its value rules the segment out before it comes to that.
 */
static LsmPredicate *
lsm_columnscan_next_waiting(LsmColumnScan *cscan, const LsmManifestEntry *entry)
{
	const LsmBounds *bounds;
	LsmPredicate *first = NULL;
	int			last = -1;

	for (int i = 0; i < cscan->npredicates; i++)
		if (lsm_columnscan_is_waiting(cscan->predicates[i]) && cscan->predicates[i]->zones)
			last = i;
	if (last < 0)
		return NULL;
	bounds = lsm_segment_bounds_get(cscan->rel, ((LsmScan) cscan->scan)->table, entry);
	for (int i = 0; i <= last && first == NULL; i++)
	{
		if (lsm_columnscan_is_waiting(cscan->predicates[i]))
			first = cscan->predicates[i];
		else if (!lsm_predicate_may_match_any(cscan->predicates[i], bounds))
			return NULL;
	}
	return first;
}

/* Have what conditions compare with.  A table of one block is read rather than prepared for. */
static bool
lsm_columnscan_prepare_unit(void *arg, const LsmManifestEntry *entry)
{
	LsmColumnScan *cscan = arg;
	LsmPredicate *waiting;

	if (cscan->prepare != NULL)
	{
		if (cscan->batch.units == 0 && entry->blocks == 1)
			return false;
		lsm_columnscan_prepare(cscan);
		return true;
	}
	waiting = lsm_columnscan_next_waiting(cscan, entry);
	if (waiting == NULL)
		return false;
	lsm_columnscan_asked(cscan);
	lsm_predicate_compute(waiting);
	lsm_predicates_join(cscan->predicates, cscan->npredicates);
	lsm_columnscan_asks(cscan);
	return true;
}

/* May blocks of the segment be skipped? */
static bool
lsm_columnscan_may_skip(LsmColumnScan *cscan, const LsmManifestEntry *entry)
{
	if (cscan->prepare != NULL)
		return false;

	/*
	 * A serializable reader must meet rows that it does not see yet; if it
	 * has not locked the relation, all rows.
	 */
	return !IsolationIsSerializable() ||
		(cscan->wanted == NULL && (entry->flags & LSM_SEGFLAG_ALL_VISIBLE));
}

static bool
lsm_columnscan_pass(void *arg, const LsmManifestEntry *entry)
{
	LsmColumnScan *cscan = arg;
	const LsmBounds *bounds = NULL;

	if (!lsm_columnscan_may_skip(cscan, entry))
		return false;
	if (lsm_columnscan_has_zones(cscan))
		bounds = lsm_segment_bounds_get(cscan->rel, ((LsmScan) cscan->scan)->table, entry);
	return lsm_columnscan_rules_out(cscan, bounds, NULL, 0);
}

/*
 * Can the owner do without the block?  Not if a condition may raise an error: a row that counts
 * for nothing has to meet it, too.
 */
static bool
lsm_columnscan_beats(LsmColumnScan *cscan, LsmSegmentReader *reader, uint32 blockno)
{
	if (cscan->beaten == NULL)
		return false;
	for (int i = 0; i < cscan->npredicates; i++)
		if (lsm_predicate_may_raise(cscan->predicates[i]))
			return false;
	return cscan->beaten(cscan->arg, reader, blockno);
}

static bool
lsm_columnscan_skip(void *arg, LsmSegmentReader *reader, const LsmManifestEntry *entry,
					uint32 blockno)
{
	LsmColumnScan *cscan = arg;
	const LsmBounds *bounds;

	if (!lsm_columnscan_may_skip(cscan, entry))
		return false;
	bounds = lsm_segment_bounds(reader);
	return lsm_columnscan_rules_out(cscan, bounds, NULL, 0) ||
		lsm_columnscan_rules_out(cscan, NULL, reader, blockno) ||
		lsm_columnscan_beats(cscan, reader, blockno);
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
	lsm_columnscan_start_predicates(cscan);
	lsm_batch_begin(&cscan->batch, (LsmScan) cscan->scan);
	cscan->batch.arg = cscan;
	lsm_columnscan_set_asked(cscan);
	((LsmScan) cscan->scan)->feed.sure = cscan->whole && cscan->beaten == NULL;
	if (cscan->wanted != NULL)
		lsm_batch_want(&cscan->batch, cscan->wanted);
	if (cscan->npredicates > 0 || cscan->prepare != NULL || cscan->beaten != NULL ||
		cscan->filters != NULL)
	{
		cscan->batch.skip = lsm_columnscan_skip;
		cscan->batch.pass = lsm_columnscan_pass;
		cscan->batch.prepare = lsm_columnscan_prepare_unit;
	}
	if (cscan->known != NULL)
	{
		cscan->batch.known = lsm_columnscan_known;
		cscan->batch.take = lsm_columnscan_take;
	}
}

static TIDBitmap *
lsm_columnscan_make_bitmap(PlanState *bitmap)
{
	TIDBitmap  *result = (TIDBitmap *) MultiExecProcNode(bitmap);

	if (result == NULL || !IsA(result, TIDBitmap))
		elog(ERROR, "unrecognized result from subplan");
	return result;
}

/*
 * Before the start: have a bitmap made, of the roots that are wanted; of a parallel scan,
 * by the first process that comes.
 */
void
lsm_columnscan_want(LsmColumnScan *cscan, PlanState *bitmap)
{
	LsmWantedShare *share = cscan->wanted_share;
	TIDBitmap  *result = NULL;
	MemoryContext caller;

	if (share == NULL)
		result = lsm_columnscan_make_bitmap(bitmap);
	else if (lsm_wantedshare_is_mine(share))
	{
		LSM_STOP("bitmap-making");
		result = lsm_columnscan_make_bitmap(bitmap);
		lsm_wantedshare_publish(share, result);
		LSM_STOP("bitmap-made");
	}
	caller = MemoryContextSwitchTo(cscan->ps->state->es_query_cxt);
	cscan->wanted = share == NULL ? lsm_wanted_begin(result) :
		lsm_wanted_attach(share, cscan->dsa, result);
	MemoryContextSwitchTo(caller);
}

/* Take over what the batch scan has counted, and of the bitmap. */
void
lsm_columnscan_count(LsmColumnScan *cscan)
{
	if (cscan->wanted != NULL && cscan->scan != NULL)
		lsm_wanted_count(cscan->wanted, &cscan->counters.exact_pages,
						 &cscan->counters.lossy_pages, &((LsmScan) cscan->scan)->ranges);
	cscan->counters.blocks_read += cscan->batch.blocks_read;
	cscan->counters.blocks_skipped += cscan->batch.blocks_skipped;
	cscan->counters.blocks_counted += cscan->batch.blocks_counted;
	cscan->batch.blocks_counted = 0;
	cscan->batch.blocks_read = 0;
	cscan->batch.blocks_skipped = 0;
}

/* Give the bitmap up. */
static void
lsm_columnscan_unwant(LsmColumnScan *cscan)
{
	if (cscan->wanted == NULL)
		return;
	lsm_columnscan_count(cscan);
	lsm_wanted_end(cscan->wanted);
	cscan->wanted = NULL;
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
	lsm_joinfilter_reset(cscan->filters);
	if (cscan->scan != NULL)
		table_rescan(cscan->scan, NULL);
}

/* ---- units ---- */

/*
 * Is a column not in all rows of the block what the table says: because it has a default, or as
 * what the block has is of another type?
 */
static bool
lsm_columnscan_differs(LsmColumnScan *cscan, int attnum, bool complete)
{
	LsmBlock   *block = cscan->batch.block;
	bool		stored = attnum <= lsm_block_natts(block);

	return ((!stored || !complete) && lsm_columnscan_has_default(cscan, attnum)) ||
		(stored && !lsm_block_column_fits(block, attnum,
										  TupleDescAttr(RelationGetDescr(cscan->rel), attnum - 1)));
}

/* Can the conditions, and the columns, of the block be looked at as it has them? */
static void
lsm_columnscan_examine(LsmColumnScan *cscan)
{
	LsmScan		scan = (LsmScan) cscan->scan;
	bool		complete = lsm_block_complete(cscan->batch.block);
	int			attnum = -1;

	cscan->recheck = (scan->entry.flags & LSM_SEGFLAG_VALUES) != 0;
	for (int i = 0; i < cscan->npredicates; i++)
	{
		/* what a bitmap stands for comes before all conditions */
		if (cscan->wanted_qual != NULL && cscan->batch.recheck &&
			lsm_predicate_may_raise(cscan->predicates[i]))
			cscan->recheck = true;
		if (lsm_columnscan_differs(cscan, cscan->predicates[i]->condition.attnum, complete))
			cscan->recheck = true;
	}
	cscan->simple = !cscan->recheck && !cscan->system_columns;
	attnum = -1;
	while (cscan->simple && (attnum = bms_next_member(cscan->columns, attnum)) >= 0)
		if (lsm_columnscan_differs(cscan, attnum, complete))
			cscan->simple = false;
}

/*
 * Clear the mask of rows that do not meet a condition; returns how many are left.  If it raises
 * an error for one of them, conditions are checked by row from there on, as rows are asked for.
 */
static int
lsm_columnscan_apply(LsmColumnScan *cscan, LsmPredicate *predicate)
{
	LsmBatchScan *batch = &cscan->batch;

	if (predicate->condition.attnum <= lsm_block_natts(batch->block))
	{
		int			left = lsm_predicate_select(predicate, batch->block, batch->mask);

		if (predicate->failed)
		{
			cscan->recheck = true;
			cscan->simple = false;
		}
		return left;
	}
	if (predicate->condition.kind == LSM_COND_NULL || (predicate->waits && predicate->left))
		return lsm_numbers_count(batch->mask, batch->nrows);
	lsm_predicate_ask(predicate, batch->mask, batch->nrows);
	memset(batch->mask, 0, batch->nrows);
	return 0;
}

/* Is it of a column that is in changed rows what it is in their block? */
static inline bool
lsm_columnscan_untouched(LsmColumnScan *cscan, int predicate)
{
	return !lsm_touch_has(&cscan->batch.touched,
						  cscan->predicates[predicate]->condition.attnum);
}

/* Rows that the snapshot sees have been looked at one by one, or need not be. */
static void
lsm_columnscan_count_taken(LsmColumnScan *cscan, int rows)
{
	if (cscan->wanted != NULL)
		lsm_compat_count_fetched(cscan->rel, rows);
	else
		lsm_compat_count_returned(cscan->rel, rows);
	cscan->rows_taken += rows;
}

/*
 * Is it looked at for changed rows, too?  One that may raise an error only if no condition before it is
 * left to be looked at later: that could rule the row out.
 */
static bool
lsm_columnscan_goes_first(LsmColumnScan *cscan, int predicate)
{
	if (!lsm_columnscan_untouched(cscan, predicate))
		return false;
	for (int i = 0; i < predicate && lsm_predicate_may_raise(cscan->predicates[predicate]); i++)
		if (!lsm_columnscan_untouched(cscan, i))
			return false;
	return true;
}

/*
 * Apply, of those that go first, the ones that may raise an error, or the others.  The former
 * are looked at only for rows that the snapshot sees.
 */
static int
lsm_columnscan_apply_first(LsmColumnScan *cscan, bool may_raise, int left)
{
	for (int i = 0; i < cscan->npredicates && left > 0 && !cscan->recheck; i++)
		if (lsm_predicate_may_raise(cscan->predicates[i]) == may_raise &&
			!cscan->predicates[i]->joined && lsm_columnscan_goes_first(cscan, i))
			left = lsm_columnscan_apply(cscan, cscan->predicates[i]);
	return left;
}

/*
 * Leave those changed rows that the mask has, and those that were not looked at (NULL: all
 * were).  The mask has none of them any more; returns how many it had.
 */
static int
lsm_columnscan_sift_changed(LsmColumnScan *cscan, const bool *looked)
{
	LsmBatchScan *batch = &cscan->batch;
	LsmScan		scan = (LsmScan) cscan->scan;
	int			kept = 0;
	int			had = 0;

	for (int i = 0; i < batch->nchanged; i++)
	{
		uint8	   *mask = &batch->mask[batch->changed[i].row];

		if (*mask == 0 && (looked == NULL || looked[i]))
			continue;
		had += *mask;
		*mask = 0;
		batch->changed[kept] = batch->changed[i];
		if (batch->follows && scan->rows[i].change >= 0)
			scan->changes[scan->rows[i].change].row = kept;
		if (batch->follows)
			scan->rows[kept] = scan->rows[i];
		kept++;
	}
	batch->nchanged = kept;
	if (batch->follows)
		scan->nrows = kept;
	return had;
}

/* The same conditions that may raise an error, for changed rows that the snapshot sees, and all others. */
static int
lsm_columnscan_select_there(LsmColumnScan *cscan, int left)
{
	LsmBatchScan *batch = &cscan->batch;
	LsmScan		scan = (LsmScan) cscan->scan;
	bool	   *looked = palloc(batch->nchanged * sizeof(bool));
	bool		sure = scan->all_frozen && !lsm_touch_has(&batch->touched, LSM_TOUCH_END);
	int			there = 0;
	int			had;

	for (int i = 0; i < batch->nchanged; i++)
	{
		LsmChangeState state = LSM_CHANGE_FETCH;

		if (!sure && batch->follows)
			state = lsm_scan_change_state(scan, &scan->rows[i]);
		looked[i] = sure || state != LSM_CHANGE_FETCH;
		if (!looked[i] || state == LSM_CHANGE_GONE)
			continue;
		batch->mask[batch->changed[i].row] = 1;
		there++;
	}
	left = lsm_columnscan_apply_first(cscan, true, left + there);
	had = lsm_columnscan_sift_changed(cscan, looked);
	pfree(looked);
	InstrCountFiltered1(cscan->ps, there - had);
	lsm_columnscan_count_taken(cscan, there - had);
	return left - had;
}

/*
 * Conditions on columns that no change has touched are looked at for changed rows,
 * too: those that do not meet them need not be fetched.  Returns how many others are left.
 */
static int
lsm_columnscan_select_changed(LsmColumnScan *cscan)
{
	LsmBatchScan *batch = &cscan->batch;
	int			left = batch->nseen + batch->nchanged;
	int			changed = batch->nchanged;
	bool		may_raise = false;

	for (int i = 0; i < batch->nchanged; i++)
		batch->mask[batch->changed[i].row] = 1;
	left = lsm_columnscan_apply_first(cscan, false, left);
	left -= lsm_columnscan_sift_changed(cscan, NULL);

	/* without looking it is known that these are there */
	if (!lsm_touch_has(&batch->touched, LSM_TOUCH_END))
	{
		InstrCountFiltered1(cscan->ps, changed - batch->nchanged);
		lsm_columnscan_count_taken(cscan, changed - batch->nchanged);
	}
	for (int i = 0; i < cscan->npredicates; i++)
		may_raise |= lsm_predicate_may_raise(cscan->predicates[i]) && lsm_columnscan_goes_first(cscan, i);
	if (may_raise && batch->nchanged > 0)
		return lsm_columnscan_select_there(cscan, left);
	return lsm_columnscan_apply_first(cscan, true, left);
}

static void
lsm_columnscan_make_room_to_keep(LsmColumnScan *cscan)
{
	MemoryContext context = cscan->ps->state->es_query_cxt;
	LsmBatchScan *batch = &cscan->batch;

	if (batch->nchanged > cscan->kept_room)
	{
		if (cscan->kept != NULL)
			pfree(cscan->kept);
		cscan->kept_room = Max(batch->nchanged, 2 * cscan->kept_room);
		cscan->kept = MemoryContextAllocHuge(context, cscan->kept_room * sizeof(LsmScanRow));
	}
	if (batch->nrows > cscan->kept_mask_room)
	{
		if (cscan->kept_mask != NULL)
			pfree(cscan->kept_mask);
		cscan->kept_mask_room = Max(batch->nrows, 2 * cscan->kept_mask_room);
		cscan->kept_mask = MemoryContextAlloc(context, cscan->kept_mask_room);
	}
}

/*
 * Put changed rows that are there, and have met all conditions by column, into the mask
 * again, for an owner that looks at what was touched by itself.  Returns how many.
 */
static int
lsm_columnscan_keep(LsmColumnScan *cscan)
{
	LsmBatchScan *batch = &cscan->batch;
	LsmScan		scan = (LsmScan) cscan->scan;
	int			left = 0;

	lsm_columnscan_make_room_to_keep(cscan);
	memset(cscan->kept_mask, 0, batch->nrows);
	for (int i = 0; i < batch->nchanged; i++)
	{
		LsmChangeState state = lsm_scan_change_state(scan, &scan->rows[i]);

		if (state == LSM_CHANGE_GONE)
			continue;
		if (state != LSM_CHANGE_FETCH)
		{
			int			row = batch->changed[i].row;

			cscan->kept[cscan->nkept++] = scan->rows[i];
			cscan->kept_mask[row] = 1;
			batch->mask[row] = 1;
			continue;
		}
		batch->changed[left] = batch->changed[i];
		if (scan->rows[i].change >= 0)
			scan->changes[scan->rows[i].change].row = left;
		scan->rows[left++] = scan->rows[i];
	}
	cscan->counters.rows_fused += batch->nchanged - left;
	batch->nchanged = left;
	scan->nrows = left;
	lsm_columnscan_count_taken(cscan, cscan->nkept);
	return cscan->nkept;
}

/* May changed rows be kept among the others? */
static bool
lsm_columnscan_may_keep(LsmColumnScan *cscan)
{
	LsmBatchScan *batch = &cscan->batch;

	if (!cscan->keeps || !cscan->simple || !batch->follows ||
		lsm_touch_overlap(&batch->touched, &cscan->fixed, RelationGetNumberOfAttributes(cscan->rel)))
		return false;
	for (int i = 0; i < cscan->npredicates; i++)
		if (!lsm_columnscan_untouched(cscan, i))
			return false;
	return true;
}

/* All rows are selected: as often as not they were for the block before. */
static void
lsm_columnscan_select_all(LsmColumnScan *cscan)
{
	cscan->nselected = cscan->batch.nrows;
	for (; cscan->nidentical < cscan->nselected; cscan->nidentical++)
		cscan->selected[cscan->nidentical] = cscan->nidentical;
}

/* Find the rows of the block that meet the conditions. */
static void
lsm_columnscan_select(LsmColumnScan *cscan)
{
	LsmBatchScan *batch = &cscan->batch;
	int			left = batch->nseen;
	bool		changed = batch->nchanged > 0 && !cscan->recheck && !IsolationIsSerializable();

	if (batch->nrows > cscan->room)
	{
		if (cscan->selected != NULL)
			pfree(cscan->selected);
		cscan->room = Max(batch->nrows, 2 * cscan->room);
		cscan->selected = MemoryContextAlloc(cscan->ps->state->es_query_cxt,
											 cscan->room * sizeof(uint16));
		cscan->nidentical = 0;
	}
	if (changed)
		left = lsm_columnscan_select_changed(cscan);
	for (int i = 0; i < cscan->npredicates && left > 0 && !cscan->recheck; i++)
		if ((!changed || !lsm_columnscan_goes_first(cscan, i)) && !cscan->predicates[i]->joined)
			left = lsm_columnscan_apply(cscan, cscan->predicates[i]);
	InstrCountFiltered1(cscan->ps, batch->nseen - left);
	if (cscan->filters != NULL && cscan->simple && left > 0)
	{
		int			matched = lsm_joinfilter_apply(cscan->filters, batch->block, batch->mask,
												   batch->nrows, left);

		cscan->counters.rows_unmatched += left - matched;
		left = matched;
	}
	if (changed && batch->nchanged > 0 && lsm_columnscan_may_keep(cscan))
		left += lsm_columnscan_keep(cscan);
	if (left > 0 && left == batch->nrows)
		lsm_columnscan_select_all(cscan);
	else if (left > 0)
	{
		cscan->nselected = lsm_numbers_list(batch->mask, batch->nrows, cscan->selected);
		cscan->nidentical = 0;
	}
}

/* There are no more units: free what is made again when it is needed. */
static void
lsm_columnscan_rest(LsmColumnScan *cscan)
{
	if (cscan->selected != NULL)
		pfree(cscan->selected);
	if (cscan->kept != NULL)
		pfree(cscan->kept);
	if (cscan->kept_mask != NULL)
		pfree(cscan->kept_mask);
	cscan->selected = NULL;
	cscan->kept = NULL;
	cscan->kept_mask = NULL;
	cscan->room = cscan->kept_room = cscan->kept_mask_room = 0;
	cscan->nidentical = 0;
	for (int i = 0; i < cscan->npredicates; i++)
		lsm_predicate_rest(cscan->predicates[i]);
}

/* Go to the next unit; false: there is none. */
bool
lsm_columnscan_next_unit(LsmColumnScan *cscan)
{
	bool		more;

	cscan->at = 0;
	cscan->changed_at = 0;
	cscan->nselected = 0;
	cscan->nkept = 0;
	lsm_columnscan_asks(cscan);
	more = lsm_batch_next(&cscan->batch);
	lsm_columnscan_asked(cscan);
	if (!more)
	{
		lsm_columnscan_rest(cscan);
		return false;
	}
	if (cscan->batch.block != NULL && (cscan->batch.nseen > 0 || cscan->batch.nchanged > 0))
	{
		cscan->rows_taken += cscan->batch.nseen;
		lsm_columnscan_prepare(cscan);
		lsm_columnscan_examine(cscan);
		lsm_columnscan_select(cscan);
	}
	return true;
}

/* ---- rows one by one ---- */

/* Does the row in the slot meet what a bitmap stands for, if that has to be checked? */
bool
lsm_columnscan_in_bitmap(LsmColumnScan *cscan, TupleTableSlot *slot)
{
	ExprContext *econtext = cscan->ps->ps_ExprContext;

	if (cscan->wanted_qual == NULL || !cscan->batch.recheck)
		return true;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	if (ExecQual(cscan->wanted_qual, econtext))
		return true;
	InstrCountFiltered2(cscan->ps, 1);
	return false;
}

/* The same, and the conditions. */
bool
lsm_columnscan_passes(LsmColumnScan *cscan, TupleTableSlot *slot)
{
	ExprContext *econtext = cscan->ps->ps_ExprContext;

	if (!lsm_columnscan_in_bitmap(cscan, slot))
		return false;
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
	bool		found;

	lsm_columnscan_asks(cscan);
	found = lsm_scan_deliver((LsmScan) cscan->scan, row, slot);
	lsm_columnscan_asked(cscan);
	if (!found)
		return false;
	lsm_columnscan_count_taken(cscan, 1);
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
		int			at = cscan->changed_at++;
		LsmScanRow	row = {.root = batch->changed[at].root,.changed = true,.change = -1};

		if (batch->follows)
			row = scan->rows[at];
		if (batch->listed)
			cscan->counters.rows_looked_up++;
		else
			cscan->counters.rows_fused++;
		if (lsm_columnscan_deliver(cscan, &row, slot, root))
			return true;
	}
	return false;
}

void
lsm_columnscan_fetch_kept(LsmColumnScan *cscan, int number, TupleTableSlot *slot)
{
	if (!lsm_scan_deliver((LsmScan) cscan->scan, &cscan->kept[number], slot))
		elog(ERROR, "a row that was there is gone");
}

bool
lsm_columnscan_store(LsmColumnScan *cscan, int row, LsmTid root, TupleTableSlot *slot)
{
	LsmScanRow	one = {.root = root,.at = row};

	lsm_scan_store((LsmScan) cscan->scan, &one, slot);
	return cscan->recheck ? lsm_columnscan_passes(cscan, slot) :
		lsm_columnscan_in_bitmap(cscan, slot);
}

bool
lsm_columnscan_getnextslot(LsmColumnScan *cscan, ScanDirection direction, TupleTableSlot *slot)
{
	bool		found;

	lsm_columnscan_asks(cscan);
	found = lsm_scan_getnextslot(cscan->scan, direction, slot);
	lsm_columnscan_asked(cscan);
	return found;
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

static void
lsm_columnscan_init_shared(LsmScanShared *shared, int nworkers)
{
	for (int i = 0; i < LSM_SCAN_COUNTERS; i++)
		pg_atomic_init_u64(&shared->counters[i], 0);
	lsm_scanshare_init(&shared->shares, nworkers);
}

void
lsm_columnscan_initialize_dsm(LsmColumnScan *cscan, void *coordinate, int nworkers)
{
	lsm_columnscan_init_shared(coordinate, nworkers);
	lsm_columnscan_initialize_worker(cscan, coordinate);
	lsm_columnscan_asks(cscan);
	table_parallelscan_initialize(cscan->rel, cscan->pscan, cscan->ps->state->es_snapshot);
	lsm_columnscan_asked(cscan);
}

/* What has been counted so far stays: the leader takes it over once, at the end. */
void
lsm_columnscan_reinitialize_dsm(LsmColumnScan *cscan, void *coordinate)
{
	lsm_columnscan_asks(cscan);
	table_parallelscan_reinitialize(cscan->rel, cscan->pscan);
	lsm_columnscan_asked(cscan);
}

Size
lsm_columnscan_estimate_bitmap_dsm(int nworkers)
{
	return add_size(lsm_columnscan_shared_bytes(nworkers), sizeof(LsmWantedShare));
}

void
lsm_columnscan_initialize_bitmap_worker(LsmColumnScan *cscan, void *coordinate)
{
	cscan->shared = coordinate;
	cscan->wanted_share = (LsmWantedShare *)
		((char *) coordinate + lsm_columnscan_shared_bytes(cscan->shared->shares.nworkers));
	cscan->dsa = cscan->ps->state->es_query_dsa;
}

/* Without memory of the query there are no workers, and the bitmap is not shared. */
void
lsm_columnscan_initialize_bitmap_dsm(LsmColumnScan *cscan, void *coordinate, int nworkers)
{
	if (cscan->ps->state->es_query_dsa == NULL)
		return;
	lsm_columnscan_init_shared(coordinate, nworkers);
	lsm_columnscan_initialize_bitmap_worker(cscan, coordinate);
	lsm_wantedshare_init(cscan->wanted_share, nworkers + 1);
}

void
lsm_columnscan_reinitialize_bitmap_dsm(LsmColumnScan *cscan, void *coordinate)
{
	if (cscan->wanted_share != NULL)
		lsm_wantedshare_reset(cscan->wanted_share, cscan->dsa);
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
	cscan->wanted_share = NULL;
	cscan->dsa = NULL;
}

/* What was read past shared buffers, for EXPLAIN (BUFFERS). */
void
lsm_columnscan_explain_input(const LsmIoTotals *input, ExplainState *es)
{
	const uint64 *counts = input->counts;

	if (!es->buffers)
		return;
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyInteger("LSM Blocks Wanted", NULL, counts[LSM_IO_WANTED], es);
		ExplainPropertyInteger("LSM Blocks Hit", NULL, counts[LSM_IO_HIT], es);
		ExplainPropertyInteger("LSM Blocks Merged", NULL, counts[LSM_IO_MERGED], es);
		ExplainPropertyInteger("LSM Blocks Read Over", NULL, counts[LSM_IO_READ_OVER], es);
		ExplainPropertyInteger("LSM Requests", NULL, counts[LSM_IO_REQUESTS], es);
		ExplainPropertyInteger("LSM Waits", NULL, counts[LSM_IO_WAITS], es);
		ExplainPropertyInteger("LSM Bytes Wanted", NULL, counts[LSM_IO_BYTES_WANTED], es);
		ExplainPropertyInteger("LSM Bytes Read", NULL, counts[LSM_IO_BYTES_READ], es);
		return;
	}
	if (counts[LSM_IO_WANTED] == 0 && counts[LSM_IO_REQUESTS] == 0)
		return;
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "LSM Input: blocks wanted=" UINT64_FORMAT, counts[LSM_IO_WANTED]);
	if (counts[LSM_IO_HIT] > 0)
		appendStringInfo(es->str, " hit=" UINT64_FORMAT, counts[LSM_IO_HIT]);
	if (counts[LSM_IO_MERGED] > 0)
		appendStringInfo(es->str, " merged=" UINT64_FORMAT, counts[LSM_IO_MERGED]);
	if (counts[LSM_IO_READ_OVER] > 0)
		appendStringInfo(es->str, " read over=" UINT64_FORMAT, counts[LSM_IO_READ_OVER]);
	if (counts[LSM_IO_REQUESTS] > 0)
		appendStringInfo(es->str, ", requests=" UINT64_FORMAT ", bytes wanted=" UINT64_FORMAT
						 " read=" UINT64_FORMAT, counts[LSM_IO_REQUESTS],
						 counts[LSM_IO_BYTES_WANTED], counts[LSM_IO_BYTES_READ]);
	appendStringInfoChar(es->str, '\n');
}

/* What stores were asked for, if they were. */
void
lsm_columnscan_explain_store(uint64 requests, uint64 bytes, ExplainState *es)
{
	if (requests == 0)
		return;
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyInteger("LSM Store Requests", NULL, requests, es);
		ExplainPropertyInteger("LSM Store Bytes", NULL, bytes, es);
		return;
	}
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "LSM Store: requests=" UINT64_FORMAT " bytes=" UINT64_FORMAT "\n",
					 requests, bytes);
}

static void
lsm_columnscan_explain_blocks(const LsmScanCounters *counters, ExplainState *es)
{
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyInteger("LSM Blocks Read", NULL, counters->blocks_read, es);
		ExplainPropertyInteger("LSM Blocks Skipped", NULL, counters->blocks_skipped, es);
		ExplainPropertyInteger("LSM Blocks Counted", NULL, counters->blocks_counted, es);
		ExplainPropertyInteger("LSM Rows Fused", NULL, counters->rows_fused, es);
		ExplainPropertyInteger("LSM Rows Looked Up", NULL, counters->rows_looked_up, es);
		ExplainPropertyInteger("LSM Rows Without Match", NULL, counters->rows_unmatched, es);
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
	if (counters->rows_unmatched > 0)
		appendStringInfo(es->str, ", rows without match=" UINT64_FORMAT, counters->rows_unmatched);
	appendStringInfoChar(es->str, '\n');
}

void
lsm_columnscan_explain(LsmColumnScan *cscan, ExplainState *es)
{
	if (!es->analyze)
		return;
	lsm_columnscan_count(cscan);
	if (cscan->shares != NULL)
		lsm_scanshare_explain(cscan->shares, es);
	lsm_columnscan_explain_blocks(&cscan->counters, es);
	lsm_columnscan_explain_input(&cscan->counters.input, es);
	lsm_columnscan_explain_store(cscan->counters.store_requests, cscan->counters.store_bytes, es);
}
