/*-------------------------------------------------------------------------
 *
 * lsm_flush.c
 *	  Memtable to segments.
 *
 *	lsm_flush:
 *		take the flush lock
 *		while there is a generation to flush:
 *			switch: what was active is being flushed, a new one is active
 *			merge its INSERT pages (in root-TID order) with its index (the same)
 *			write insert and increment segments
 *			one edit: the segments in, the generation's ranges free
 *
 * A WRITER WITHOUT ROOM
 *	  Where workers may come, a writer who finds the memtable full only switches, so that there
 *	  is room, and leaves the flush to a worker.  If the next generation is full before one has
 *	  come, whoever finds it so flushes the one that waits.  One writer at a time makes
 *	  room (LSM_OWNER_ROOM); the others wait for that, and not for the flush.
 *
 * A range that has an undecided speculative insertion stays in the row log, under
 * the generation that its pages carry, until a later flush: what may still change
 * in place is not copied.
 *
 * CRASH SAFETY
 *	  A generation that was being flushed, or waited for it, when the server died is still in the row
 *	  log, named by the metapage; the next flush begins with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "lsm_compact.h"
#include "lsm_lbs.h"
#include "lsm_load.h"
#include "lsm_request.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define LSM_FLUSH_BATCH			1024

/* Versions of one row, on which others build, that are noted at a time. */
#define LSM_FLUSH_BASES			4

/* How long to wait for insertions that are not decided, where there is nothing else to be flushed. */
#define LSM_UNDECIDED_MS		10

/* Ranges that the row log keeps for the next generations. */
#define LSM_KEEP_RANGES			96

typedef struct LsmFlush
{
	Relation	rel;
	LsmTable   *table;
	uint32		generation;
	LsmMerge   *merge;
	int			nranges;		/* root ranges of the generation by LB */
	LsmRowRange *ranges;
	/* rows with records in the index, a batch at a time */
	LsmTid		next_root;		/* where the next batch begins */
	bool		index_done;
	int			nbatch;
	int			at;
	LsmTid		roots[LSM_FLUSH_BATCH];
	LsmTid		heads[LSM_FLUSH_BATCH];
	int64		rows;
	int64		bytes;
} LsmFlush;

static int
lsm_range_cmp(const void *a, const void *b)
{
	BlockNumber x = ((const LsmRowRange *) a)->lb;
	BlockNumber y = ((const LsmRowRange *) b)->lb;

	return x < y ? -1 : x > y;
}

/* Of so many flushes one warns. */
#define LSM_FLUSH_WARNS			16

/*
 * Make the active generation the one to be flushed, unless one waits already.
 * False: the memtable is empty.  An error, with nothing changed: the manifest has no room.
 */
static bool
lsm_flush_switch(Relation rel, LsmTable *table)
{
	LsmEdit    *edit;
	bool		any = false;
	bool		warns;
	bool		few_lbs;
	double		fill;
	uint64		generation_xid = lsm_first_xid_to_come(rel);

	LSM_STOP("switch-before-log");
	edit = lsm_edit_begin(rel, table, LSM_OP_SWITCH);
	if (edit->meta.flushing != 0)
	{
		lsm_edit_check_room(edit);
		lsm_edit_abandon(edit);
		return true;
	}
	for (uint32 i = 0; i < edit->meta.nranges; i++)
		if (edit->meta.ranges[i].kind != LSM_RANGE_FREE)
			any = true;
	if (!any)
	{
		lsm_edit_abandon(edit);
		return false;
	}
	lsm_edit_check_room(edit);
	fill = lsm_manifest_fill(lsm_edit_entries(edit));
	few_lbs = lsm_lbs_few(&edit->meta);
	warns = edit->meta.generation % LSM_FLUSH_WARNS == 0;
	edit->meta.flushing = edit->meta.generation;
	edit->meta.flushing_xid = edit->meta.generation_xid;
	edit->meta.generation++;
	edit->meta.generation_xid = generation_xid;
	lsm_edit_commit(edit);
	if (warns && fill >= LSM_MANIFEST_WARN_FILL)
		lsm_manifest_warn(rel, fill);
	if (warns && few_lbs)
		lsm_lbs_warn(rel, &lsm_view_get(rel, table)->meta);
	LSM_STOP("switch-after-log");
	return true;
}

/* The index of the generation, built again if someone has dropped it. */
static LsmMemIndex *
lsm_flush_lock_index(LsmFlush *flush)
{
	LsmTableShared *shared = flush->table->shared;
	bool		ready;

	for (;;)
	{
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		ready = lsm_rowlog_ready(shared);
		if (ready && !lsm_memindex_order_some(lsm_table_index(shared, flush->generation)))
			return lsm_table_index(shared, flush->generation);
		LWLockRelease(&shared->gen_lock);
		CHECK_FOR_INTERRUPTS();
		if (!ready)
			lsm_rowlog_build_index(flush->rel, flush->table);
	}
}

/* The next row that the index knows of: LSM_INVALID_TID at the end. */
static LsmTid
lsm_flush_peek(LsmFlush *flush)
{
	if (flush->at >= flush->nbatch && !flush->index_done)
	{
		LsmMemIndex *index = lsm_flush_lock_index(flush);

		flush->nbatch = lsm_memindex_collect(index, flush->next_root, LSM_MAX_TID, flush->roots,
											 flush->heads, LSM_FLUSH_BATCH);
		LWLockRelease(&flush->table->shared->gen_lock);
		flush->at = 0;
		if (flush->nbatch > 0)
			flush->next_root = flush->roots[flush->nbatch - 1] + 1;
		flush->index_done = flush->nbatch < LSM_FLUSH_BATCH;
	}
	return flush->at < flush->nbatch ? flush->roots[flush->at] : LSM_INVALID_TID;
}

/* So many records are done, of which so many bytes have been read. */
static void
lsm_flush_count(LsmFlush *flush, uint32 records, Size len)
{
	flush->rows += records;
	flush->bytes += len;
	lsm_progress_set(LSM_PROGRESS_RECORDS_DONE, flush->rows);
	lsm_progress_set(LSM_PROGRESS_BYTES_DONE, flush->bytes);
}

/* A copy of a row-log record as the merge's next record. */
static void
lsm_flush_add(LsmFlush *flush, const LsmRecord *record, Size len, LsmTid tid)
{
	LsmMergeRecord *added = lsm_merge_add(flush->merge);
	MemoryContext caller = MemoryContextSwitchTo(flush->merge->row_context);
	LsmRecord  *copy;

	if (record->info & LSM_REC_SPILLED)
		copy = lsm_record_load(flush->rel, flush->table, record, &len);
	else
	{
		copy = palloc(len);
		memcpy(copy, record, len);
	}
	MemoryContextSwitchTo(caller);
	added->record = copy;
	lsm_record_head(copy, tid, &added->head);
	lsm_flush_count(flush, 1, len);
}

/*
 * A chain as far as it has been added: of a row that changes all the time only what lsm_merge_judge()
 * keeps is copied, not all that the generation has of it.  Nor is it read, as far as nothing there
 * is of use: a counter is flushed as fast as a row that was changed once.
 */
typedef struct LsmFlushChain
{
	uint64		cut_xid;		/* of the newest version that everybody sees; older
								 * ones go */
	bool		cut;			/* there is one */
	bool		locked;			/* somebody below it may yet hold a lock */
	bool		noted;			/* what the merge would note of those that go is */
	bool		all;			/* DELTAs build on more versions than can be noted */
	int			nbases;
	int			nmissing;		/* of them, not yet come to */
	LsmTid		bases[LSM_FLUSH_BASES]; /* on which the DELTAs build that are kept, if
										 * they may be in the chain */
} LsmFlushChain;

/* May a DELTA's base be in its chain?  It is not, if it is the bottom, or has left the row log. */
static bool
lsm_flush_has_base(LsmFlush *flush, LsmTid base)
{
	return LSM_TID_IS_VERSION(base) &&
		lsm_view_range(lsm_view_get(flush->rel, flush->table), LSM_TID_LB(base)) != NULL;
}

/* A record has been added. */
static void
lsm_flush_note(LsmFlush *flush, LsmFlushChain *chain, const LsmRowHead *head)
{
	LsmXidState state;

	if (chain->cut || LSM_REC_KIND(head->info) == LSM_REC_LOCK)
		return;
	state = lsm_xid_state(head);
	if (state == LSM_XID_ABORTED)
		return;
	if ((head->info & LSM_REC_DELTA) &&
		(chain->nbases == 0 || chain->bases[chain->nbases - 1] != head->base) &&
		lsm_flush_has_base(flush, head->base))
	{
		if (chain->nbases < LSM_FLUSH_BASES)
		{
			chain->bases[chain->nbases++] = head->base;
			chain->nmissing++;
		}
		else
			chain->all = true;
	}
	if (state == LSM_XID_COMMITTED && head->xid < flush->merge->horizons.visible)
	{
		chain->cut = true;
		chain->cut_xid = head->xid;
		chain->locked = (head->info & LSM_REC_LOCKERS_BELOW) != 0;
	}
}

/* Is a record to be added?  Else what the merge would note of it is noted. */
static bool
lsm_flush_wants(LsmFlush *flush, LsmFlushChain *chain, const LsmRowHead *head)
{
	LsmXidState state;

	for (int i = 0; i < chain->nbases; i++)
		if (chain->bases[i] == head->vtid)
		{
			chain->nmissing--;
			return true;
		}
	if (!chain->cut || chain->all)
		return true;
	state = lsm_xid_state(head);
	if (LSM_REC_KIND(head->info) == LSM_REC_LOCK)
		return state == LSM_XID_OWN || state == LSM_XID_RUNNING;
	if (state == LSM_XID_COMMITTED)
	{
		flush->merge->conflict_xid = Max(flush->merge->conflict_xid, chain->cut_xid);
		chain->noted = true;
	}
	return false;
}

/* Is there nothing of use in older records of the chain? */
static bool
lsm_flush_chain_ends(const LsmFlushChain *chain)
{
	return chain->cut && chain->noted && !chain->locked && !chain->all && chain->nmissing == 0;
}

/* Add the chain of records that begins at head. */
static void
lsm_flush_add_chain(LsmFlush *flush, LsmTid head)
{
	PGAlignedBlock copy;
	LsmRecord  *record = (LsmRecord *) copy.data;
	LsmFlushChain chain = {0};
	LsmTid		tid = head;

	while (tid != LSM_INVALID_TID)
	{
		Size		len;
		LsmRowHead	record_head;
		LsmView    *view = lsm_view_get(flush->rel, flush->table);

		lsm_job_check();
		if (lsm_rowlog_fetch(flush->rel, view, tid, record, &len, NULL) != LSM_FETCH_FOUND)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("record (%u,%u) is missing in the row log of table \"%s\"",
							LSM_TID_LB(tid), LSM_TID_OFFSET(tid),
							RelationGetRelationName(flush->rel)),
					 errhint("Run lsm_check() on the table, then restore it from a backup.")));
		lsm_record_head(record, tid, &record_head);
		if (lsm_flush_wants(flush, &chain, &record_head))
		{
			lsm_flush_add(flush, record, len, tid);
			lsm_flush_note(flush, &chain, &record_head);
		}
		else
			lsm_flush_count(flush, 1, len);
		if (lsm_flush_chain_ends(&chain))
		{
			/* all older ones of the generation */
			lsm_flush_count(flush, record->seq - 1, 0);
			break;
		}
		tid = record->prev;
	}
}

/* Rows before limit that have records but no INSERT in this generation. */
static void
lsm_flush_older_rows(LsmFlush *flush, LsmTid limit)
{
	LsmTid		root;

	while ((root = lsm_flush_peek(flush)) != LSM_INVALID_TID && root < limit)
	{
		lsm_job_check();
		lsm_flush_add_chain(flush, flush->heads[flush->at]);
		flush->at++;
		lsm_merge_row(flush->merge, root, false, false);
	}
}

/* All rows whose INSERT is on one page. */
static void
lsm_flush_page(LsmFlush *flush, LsmRowRange *range, uint32 n)
{
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;
	LsmView    *view = lsm_view_get(flush->rel, flush->table);
	BlockNumber lb;
	OffsetNumber before;

	if (!lsm_rowlog_copy_page(flush->rel, view, range, n, copy.data, &lb, &before))
		return;					/* never begun */
	for (OffsetNumber offset = FirstOffsetNumber; offset <= PageGetMaxOffsetNumber(page); offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		LsmTid		root = LSM_TID(lb, before + offset);

		lsm_job_check();
		lsm_flush_older_rows(flush, root);
		if (lsm_flush_peek(flush) == root)
		{
			lsm_flush_add_chain(flush, flush->heads[flush->at]);
			flush->at++;

			/*
			 * An INSERT left over from an earlier flush may have records in an
			 * increment, which come between it and this chain.
			 */
			if (range->generation < flush->generation)
				lsm_merge_row(flush->merge, root, false, false);
		}
		lsm_flush_add(flush, (LsmRecord *) PageGetItem(page, item), ItemIdGetLength(item), root);
		lsm_merge_row(flush->merge, root, true, true);
	}
}

/*
 * A range whose load did not live to see its rows in WAL (I17).  Nobody knows which
 * roots it had given to rows, and indexes may have entries for all of them.
 */
static void
lsm_flush_lost(LsmFlush *flush, LsmRowRange *range)
{
	/* they may be torn, where checksums tell, or not be there */
	lsm_space_ensure(flush->rel, range->pages.start + range->pages.npages);
	lsm_load_begin_pages(flush->rel, flush->table, range, true);
	lsm_flush_older_rows(flush, LSM_TID(lsm_range_end_lb(range), 0));
	if (!flush->rel->rd_rel->relhasindex)
		return;
	for (BlockNumber lb = range->lb; lb < lsm_range_end_lb(range); lb++)
	{
		lsm_job_check();
		for (OffsetNumber offset = FirstOffsetNumber; offset <= LSM_MAX_OFFSET; offset++)
			lsm_merge_dead(flush->merge, LSM_TID(lb, offset));
	}
}

/* Has this range been flushed, or was it left for the next time? */
static bool
lsm_flush_has_range(LsmFlush *flush, const LsmRowRange *range)
{
	for (int i = 0; i < flush->nranges; i++)
		if (flush->ranges[i].pages.start == range->pages.start)
			return true;
	return false;
}

/*
 * Give back free ranges that are more than the row log keeps.  loaded: those that a load has
 * had, too, which readers may not look into any more.
 */
static void
lsm_flush_drop_ranges(LsmEdit *edit, bool loaded)
{
	LsmMeta    *meta = &edit->meta;

	for (uint32 i = meta->nranges; i > 0 && meta->nranges > LSM_KEEP_RANGES; i--)
	{
		if (meta->ranges[i - 1].kind != LSM_RANGE_FREE ||
			(!loaded && (meta->ranges[i - 1].flags & LSM_RANGE_UNLOGGED)))
			continue;
		lsm_load_clean_range(edit, &meta->ranges[i - 1]);
		lsm_edit_free_extent(edit, meta->ranges[i - 1].pages);
		meta->ranges[i - 1] = meta->ranges[meta->nranges - 1];
		meta->nranges--;
	}
}

/* One edit: the new segments come in, the generation's ranges are free. */
static void
lsm_flush_swap(LsmFlush *flush, LsmJobStats *stats)
{
	LsmEdit    *edit;
	LsmMeta    *meta;
	bool		leftover = false;
	bool		older = false;	/* and from an earlier flush */

	lsm_progress_phase(LSM_PHASE_SWAPPING);
	LSM_STOP("flush-before-swap");
	edit = lsm_edit_begin(flush->rel, flush->table, LSM_OP_FLUSH);
	meta = &edit->meta;
	Assert(meta->flushing == flush->generation);
	lsm_merge_publish(flush->merge, edit, stats);
	lsm_flush_drop_ranges(edit, true);
	for (uint32 i = 0; i < meta->nranges; i++)
	{
		LsmRowRange *range = &meta->ranges[i];

		if (range->kind == LSM_RANGE_FREE || range->generation > flush->generation)
			continue;
		if (range->kind == LSM_RANGE_ROOT && !lsm_flush_has_range(flush, range))
		{
			leftover = true;
			older = older || range->generation < flush->generation;
			continue;
		}
		range->kind = LSM_RANGE_FREE;
		range->generation = 0;
		range->lb = 0;
		range->flags &= LSM_RANGE_UNLOGGED;	/* see lsm_load_clean_range() */
		range->lifetime = 0;
	}
	lsm_flush_drop_ranges(edit, false);
	lsm_edit_retire_values(edit, flush->generation);
	if (!leftover)
		meta->leftover_xid = 0;
	else if (!older || meta->leftover_xid == 0)
		meta->leftover_xid = meta->flushing_xid;
	meta->flushing = 0;
	meta->flushing_xid = 0;
	lsm_edit_commit(edit);
	LSM_STOP("flush-after-swap");
}

/* Flush the generation that waits for it. */
static void
lsm_flush_generation(Relation rel, LsmTable *table, LsmJobStats *stats)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm flush",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	LsmFlush   *flush = palloc0(sizeof(LsmFlush));
	LsmView    *view = lsm_view_get(rel, table);
	int64		written = stats->bytes_written;
	uint32		pages = 0;

	flush->rel = rel;
	flush->table = table;
	flush->generation = view->meta.flushing;
	flush->next_root = 1;
	flush->ranges = palloc(Max(view->meta.nranges, 1) * sizeof(LsmRowRange));
	for (uint32 i = 0; i < view->meta.nranges; i++)
	{
		LsmRowRange *range = &view->meta.ranges[i];

		if (range->kind == LSM_RANGE_FREE || range->generation > flush->generation)
			continue;
		pages += range->pages.npages;
		if (range->kind == LSM_RANGE_ROOT && !lsm_rowlog_undecided(table->shared, range))
			flush->ranges[flush->nranges++] = *range;
	}
	qsort(flush->ranges, flush->nranges, sizeof(LsmRowRange), lsm_range_cmp);

	lsm_progress_phase(LSM_PHASE_MERGING);
	lsm_progress_set(LSM_PROGRESS_BYTES_TOTAL, (uint64) pages * BLCKSZ);
	LSM_STOP("flush-after-switch");
	flush->merge = lsm_merge_create(rel, table, LSM_OWNER_FLUSH, flush->generation,
									flush->generation, Max(pages / 8, 2));
	for (int i = 0; i < flush->nranges; i++)
	{
		/* no segment spans rows that lie elsewhere (I13) */
		if (i > 0 && flush->ranges[i].lb !=
			lsm_range_end_lb(&flush->ranges[i - 1]))
			lsm_merge_break(flush->merge);
		if (lsm_rowlog_lost(&flush->ranges[i]))
			lsm_flush_lost(flush, &flush->ranges[i]);
		for (uint32 j = 0; j < flush->ranges[i].pages.npages; j++)
			lsm_flush_page(flush, &flush->ranges[i], j);
	}
	lsm_flush_older_rows(flush, LSM_MAX_TID);
	lsm_merge_dead_lists(flush->merge);
	lsm_merge_finish(flush->merge);
	lsm_flush_swap(flush, stats);
	stats->rows_in += flush->rows;
	stats->bytes_read += flush->bytes;
	lsm_stat_report_job(RelationGetRelid(rel), LSM_JOB_FLUSH, flush->bytes,
						stats->bytes_written - written, 1, LSM_MAX_TID);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/* The time in seconds. */
static uint32
lsm_flush_now(void)
{
	return (uint32) (GetCurrentTimestamp() / USECS_PER_SEC);
}

/*
 * Flush the generation that waits, with the lock of flushes; returns which.  Note what would have
 * kept anybody from it.
 */
static uint32
lsm_flush_waiting(Relation rel, LsmTable *table, LsmJobStats *stats)
{
	LsmTableShared *shared = table->shared;
	uint32		generation = lsm_view_get(rel, table)->meta.flushing;

	PG_TRY();
	{
		lsm_flush_generation(rel, table, stats);
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		if (code == ERRCODE_DISK_FULL || ERRCODE_TO_CATEGORY(code) == ERRCODE_SYSTEM_ERROR)
		{
			shared->flush_error = code;
			shared->flush_failed_s = lsm_flush_now();
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
	shared->flush_failed_s = 0;
	lsm_request_recovered(MyDatabaseId, RelationGetRelid(rel), 1 << LSM_JOB_FLUSH);
	return generation;
}

/* Flush the next generation, with the lock of flushes; returns which, 0: there is none. */
static uint32
lsm_flush_next(Relation rel, LsmTable *table, LsmJobStats *stats)
{
	return lsm_flush_switch(rel, table) ? lsm_flush_waiting(rel, table, stats) : 0;
}

/*
 * Has a flush failed for which we have waited, or less than a second ago?  Ours would fail as
 * well, and others wait for us: of hundreds, each would write again what there is room for.
 */
static void
lsm_flush_check_failed(Relation rel, LsmTable *table, uint32 since)
{
	LsmTableShared *shared = table->shared;

	/* the clock may have been set back since */
	if (shared->flush_failed_s == 0 || shared->flush_failed_s < since ||
		shared->flush_failed_s > lsm_flush_now())
		return;
	ereport(ERROR,
			(errcode(shared->flush_error),
			 errmsg("could not flush the memtable of table \"%s\", which is full",
					RelationGetRelationName(rel)),
			 errdetail("Another process has just tried; its error is in the server's log.")));
}

/*
 * Flush all that is in the memtable now.  needed: asks who writes rather than calls for a flush, when he
 * has the lock: others may have flushed what he needs while he has waited.
 */
static void
lsm_flush_all(Relation rel, LsmFlushNeeded needed, void *arg, LsmJobStats *stats)
{
	LsmTable   *table = lsm_table_open(rel);
	uint32		generation = 1;
	uint32		until;

	LSM_STOP("flush-start");
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_FLUSH, 1, LSM_MAX_TID);
	if (needed != NULL)
	{
		lsm_job_lock_for_writer(rel, LSM_OWNER_FLUSH);
		if (needed(rel, table, arg))
			lsm_job_free_pages(rel, LSM_OWNER_FLUSH);
		else
			generation = 0;
	}
	else
		lsm_job_lock(rel, LSM_OWNER_FLUSH);
	lsm_progress_phase(LSM_PHASE_PREPARING);
	until = lsm_view_get(rel, table)->meta.generation;
	while (generation != 0 && (generation = lsm_flush_next(rel, table, stats)) != 0)
	{
		/* what is left there was no room for; a writer needs it, and is told */
		if (generation >= until ||
			(needed == NULL && lsm_manifest_fill(lsm_view_get(rel, table)->nentries) >= 1))
			break;
	}
	lsm_job_unlock(rel, LSM_OWNER_FLUSH);
	lsm_job_ask(rel);
	lsm_progress_end();
}

/* Flush all that is in the memtable now. */
void
lsm_flush(Relation rel, LsmJobStats *stats)
{
	lsm_flush_all(rel, NULL, NULL, stats);
}

/* The same for a transaction that has to seal what it has written, if it still has to. */
void
lsm_flush_for_writer(Relation rel, LsmFlushNeeded needed, void *arg, LsmJobStats *stats)
{
	lsm_flush_all(rel, needed, arg, stats);
}

/*
 * Flush one generation, the one that waits, or the active one, with the lock of flushes.  For
 * workers: whether what is left is worth another flush they find out anew.
 */
void
lsm_flush_one(Relation rel, LsmJobStats *stats)
{
	LSM_STOP("flush-start");
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_FLUSH, 1, LSM_MAX_TID);
	lsm_progress_phase(LSM_PHASE_PREPARING);
	(void) lsm_flush_next(rel, lsm_table_open(rel), stats);
	lsm_progress_end();
}

/* Is there no room for a writer?  Of what any backend knows without reading the manifest. */
static bool
lsm_flush_is_short(Relation rel, LsmTable *table)
{
	return lsm_meta_peek(rel)->nranges >= LSM_MAX_RANGES || lsm_rowlog_fill(table) >= 1 ||
		lsm_memindex_arena_free() == 0;
}

/*
 * May a writer leave the flush of what is active to a worker?  Not if a generation waits
 * already; nor if what he needs comes of the flush only, or if he has the table for himself, as
 * who fills one that he has just made or emptied.
 */
static bool
lsm_flush_may_leave(Relation rel)
{
	const LsmMeta *meta = lsm_meta_peek(rel);

	return meta->flushing == 0 && meta->nranges < LSM_MAX_RANGES &&
		lsm_memindex_arena_free() > 0 && !RelationUsesLocalBuffers(rel) &&
		!CheckRelationLockedByMe(rel, AccessExclusiveLock, true) &&
		lsm_compaction_workers > 0 && IsUnderPostmaster && lsm_workers_may_come();
}

/*
 * Make room because the memtable has reached its bound: by a flush, or by leaving that to a worker.
 * Whoever comes second waits for the first and then finds room; of hundreds each holds up those
 * behind it, so that has to be quick, however large the table is.  The time is counted as a stall.
 */
void
lsm_flush_for_room(Relation rel)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmJobStats stats = {0};
	uint32		since = lsm_flush_now();
	bool		wanted;
	bool		leave = false;
	bool		switched = false;
	instr_time	start;
	instr_time	stall;

	INSTR_TIME_SET_CURRENT(start);
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_FLUSH, 1, LSM_MAX_TID);
	lsm_job_lock_for_writer(rel, LSM_OWNER_ROOM);
	wanted = lsm_flush_is_short(rel, table);
	if (wanted)
	{
		lsm_job_lock_for_writer(rel, LSM_OWNER_FLUSH);
		lsm_progress_phase(LSM_PHASE_PREPARING);
		wanted = lsm_flush_is_short(rel, table);
		if (wanted)
		{
			lsm_flush_check_failed(rel, table, since);
			lsm_job_free_pages(rel, LSM_OWNER_FLUSH);
			leave = lsm_flush_may_leave(rel);
			switched = lsm_flush_switch(rel, table);
			leave = leave && switched && !lsm_flush_is_short(rel, table);
		}
		else
			lsm_job_unlock(rel, LSM_OWNER_FLUSH);
	}
	lsm_job_unlock(rel, LSM_OWNER_ROOM);
	if (wanted)
	{
		if (switched && !leave)
			(void) lsm_flush_waiting(rel, table, &stats);
		lsm_job_unlock(rel, LSM_OWNER_FLUSH);
	}

	/* those that are left have insertions that are not decided; that does not take long */
	if (lsm_meta_peek(rel)->nranges >= LSM_MAX_RANGES)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LSM_UNDECIDED_MS, lsm_compat_wait_event("LsmSlowWrite"));
		ResetLatch(MyLatch);
	}
	if (wanted && !leave)
		lsm_job_ask(rel);
	lsm_progress_end();
	if (leave)
		lsm_worker_request_flush(MyDatabaseId, RelationGetRelid(rel));
	if (wanted)
		lsm_job_do_own(rel);
	INSTR_TIME_SET_CURRENT(stall);
	INSTR_TIME_SUBTRACT(stall, start);
	lsm_stat_report_stall(RelationGetRelid(rel), INSTR_TIME_GET_MICROSEC(stall));
}
