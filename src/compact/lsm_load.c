/*-------------------------------------------------------------------------
 *
 * lsm_load.c
 *	  Bulk loads: rows that get into WAL compressed, or not at all.
 *
 * A transaction that inserts much into a table gets ranges of the row log to
 * itself, marked UNLOGGED in the metapage.  Their pages are written without WAL:
 * only that they are empty is logged, once.  A flush makes segments of them like of
 * any other range of its generation; those are logged, and so is what makes them
 * part of the table.  Everybody reads the pages meanwhile as those of the row log, so
 * rows of a load are found, seen, locked and changed as all others are.
 *
 * Before the transaction commits or is prepared, it SEALS what it has loaded: little
 * is logged as it is, by which its ranges become ordinary ones; else the memtable is
 * flushed.  An abort has nothing to do: the next flush drops the rows.
 *
 * WHY THAT IS ENOUGH (I17)
 *	  What an unlogged range holds that is worth keeping belongs to a transaction that
 *	  is running, in the server's present lifetime.  After a crash, and on a standby,
 *	  nobody looks into such a range (lsm_rowlog_lost), so it does not matter what its
 *	  pages are there: of another time, torn, or not there at all.
 *
 * WHY NOT SEGMENTS AT ONCE
 *	  They would save the copy to the row log.  But what is in the buffer of such a
 *	  writer can be read by nobody: not by triggers, queries of functions or the load's
 *	  own transaction, nor by those who find an entry in a unique index.  Here worker
 *	  processes compress what a load has written while it goes on.
 *
 * The rows of a load fill LBs up to LSM_MAX_OFFSET: several pages share one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "lsm_am.h"
#include "lsm_blockcache.h"
#include "lsm_compact.h"
#include "lsm_load.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

/* Pages of a load's first range; each further one has twice as many. */
#define LSM_LOAD_FIRST_PAGES	32
#define LSM_LOAD_MAX_PAGES		128

/* So many pages are logged as they are rather than flushed: 4 MB. */
#define LSM_LOAD_LOG_PAGES		512

/* So many kB a transaction inserts into a table as everybody does. */
int			lsm_debug_load_after = 1024;

/*
 * What tells a range of a load.  Not its LBs alone: where all that was loaded has been rolled
 * back with a subtransaction and flushed, another load may have them by now.
 */
typedef struct LsmLoadRange
{
	BlockNumber lb;
	uint32		generation;
} LsmLoadRange;

/* What a transaction has inserted into one table. */
typedef struct LsmLoad
{
	struct LsmLoad *next;
	LsmTable   *table;
	Oid			relid;			/* whose file it was when rows were inserted last */
	uint64		incarnation;
	uint64		bytes;
	uint64		rows;
	LsmOwnPages pages;			/* that are being filled */
	uint64		told_xid;		/* the last under which it has written */
	int			nranges;		/* all that it has had */
	int			maxranges;
	LsmLoadRange *ranges;
} LsmLoad;

static LsmLoad *loads;			/* of this transaction, in its memory */
static bool loads_sealed;		/* it is about to commit */

static LsmLoad *
lsm_load_get(Relation rel, LsmTable *table)
{
	LsmLoad    *load = table->load;

	if (load == NULL)
	{
		load = MemoryContextAllocZero(TopTransactionContext, sizeof(LsmLoad));
		load->table = table;

		/* pages that are shared are filled first, but for tests */
		load->pages.later = lsm_debug_load_after > 0;
		load->pages.needed = !load->pages.later;
		load->next = loads;
		loads = table->load = load;
	}

	/*
	 * A table that ALTER TABLE has rewritten has the file of another one since, to which
	 * the rows were written, and which is no more.  (That was sealed when all were there.)
	 */
	load->relid = RelationGetRelid(rel);
	return load;
}

/* Make n pages of a range empty, from the one with that number on. */
static void
lsm_load_begin_some(Relation rel, uint64 incarnation, const LsmRowRange *range, uint32 first, int n)
{
	Buffer		buffers[LSM_PAGE_BATCH];

	for (int i = 0; i < n; i++)
		buffers[i] = ReadBufferExtended(rel, MAIN_FORKNUM, range->pages.start + first + i,
										RBM_ZERO_AND_LOCK, NULL);
	lsm_pages_begin(rel);
	START_CRIT_SECTION();
	for (int i = 0; i < n; i++)
	{
		lsm_page_init(BufferGetPage(buffers[i]), LSM_PAGE_ROWLOG, incarnation,
					  lsm_range_page_lb(range, first + i), range->generation);
		MarkBufferDirty(buffers[i]);
	}
	if (RelationNeedsWAL(rel))
	{
		xl_lsm_begin xlrec;
		XLogRecPtr	lsn;

		xlrec.incarnation = incarnation;
		xlrec.generation = range->generation;
		xlrec.lb = range->lb;
		xlrec.first = first;
		xlrec.lb_pages = lsm_range_lb_pages(range);
		xlrec.npages = n;
		xlrec.version = LSM_WAL_VERSION;
		XLogBeginInsert();
		XLogRegisterData((char *) &xlrec, sizeof(xlrec));
		for (int i = 0; i < n; i++)
			XLogRegisterBuffer(i, buffers[i], REGBUF_WILL_INIT | REGBUF_STANDARD);
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_BEGIN);
		for (int i = 0; i < n; i++)
			PageSetLSN(BufferGetPage(buffers[i]), lsn);
	}
	END_CRIT_SECTION();
	for (int i = 0; i < n; i++)
		UnlockReleaseBuffer(buffers[i]);
}

/*
 * Make the pages of a range empty.  Logged, because pg_rewind and incremental backups
 * know what has changed in a file from references to blocks only: what the load writes
 * to the pages later may be over something that was there before.
 *
 * The range belongs to the active generation, or is being flushed by the caller.
 * Race: while its pages are made empty, others may switch the generation, flush it
 * and give its pages to somebody.  So gen_lock is held, under which the generation is
 * looked at; where it is not the active one any more, the rest of the pages stays.
 */
void
lsm_load_begin_pages(Relation rel, LsmTable *table, const LsmRowRange *range, bool flushing)
{
	LsmTableShared *shared = table->shared;

	for (uint32 done = 0; done < range->pages.npages; done += LSM_PAGE_BATCH)
	{
		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		if (flushing || shared->generation == range->generation)
			lsm_load_begin_some(rel, shared->incarnation, range, done,
								Min(range->pages.npages - done, LSM_PAGE_BATCH));
		LWLockRelease(&shared->gen_lock);
	}
}

/*
 * A free range is to be used again, or to be given back.  If a load has had it, a crash may
 * leave pages of it torn, as no record has what was written there: so make them empty.  No
 * reader looks into a free range; but others look into that of a load before its pages have
 * been begun, and it may fail until then.
 */
void
lsm_load_clean_range(LsmEdit *edit, LsmRowRange *range)
{
	Assert(range->kind == LSM_RANGE_FREE && range->generation == 0);
	if (!(range->flags & LSM_RANGE_UNLOGGED))
		return;
	lsm_space_ensure(edit->rel, range->pages.start + range->pages.npages);
	lsm_load_begin_pages(edit->rel, edit->table, range, true);
	range->flags = 0;
}

/* So many pages have room for the rows of one LB, if they are like those so far. */
static uint32
lsm_load_lb_pages(LsmLoad *load)
{
	uint64		row = load->bytes / load->rows + sizeof(ItemIdData);

	return Min(Max((LSM_MAX_OFFSET * row + LSM_PAGE_PAYLOAD - 1) / LSM_PAGE_PAYLOAD, 1),
			   LSM_MAX_LB_PAGES);
}

/* Another range for the load, of the active generation. */
static void
lsm_load_new_range(Relation rel, LsmTable *table, LsmLoad *load)
{
	uint32		npages = LSM_LOAD_FIRST_PAGES << Min(load->nranges, 8);
	LsmSpaceResult result;
	LsmRowRange range;

	do
	{
		CHECK_FOR_INTERRUPTS();
		result = lsm_space_load_range(rel, table, Min(npages, LSM_LOAD_MAX_PAGES),
									  lsm_load_lb_pages(load), &range);
		lsm_rowlog_make_way(rel, table, result);
	} while (result != LSM_SPACE_GIVEN);
	if (load->nranges >= load->maxranges)
	{
		load->maxranges = Max(load->maxranges * 2, 16);
		if (load->ranges == NULL)
			load->ranges = MemoryContextAlloc(TopTransactionContext,
											  load->maxranges * sizeof(LsmLoadRange));
		else
			load->ranges = repalloc_huge(load->ranges, load->maxranges * sizeof(LsmLoadRange));
	}
	if (load->incarnation != table->shared->incarnation)
		load->nranges = 0;		/* the table has been emptied since */
	load->incarnation = table->shared->incarnation;
	load->ranges[load->nranges].lb = range.lb;
	load->ranges[load->nranges++].generation = range.generation;
	LSM_STOP("load-range");

	lsm_load_begin_pages(rel, table, &range, false);
	load->pages.incarnation = load->incarnation;
	load->pages.generation = range.generation;
	load->pages.unlogged = (range.flags & LSM_RANGE_UNLOGGED) != 0;
	load->pages.start = range.pages.start;
	load->pages.lb = range.lb;
	load->pages.lb_pages = lsm_range_lb_pages(&range);
	load->pages.npages = range.pages.npages;
	load->pages.at = 0;
	load->pages.recent = InvalidBuffer;
	load->pages.before = 0;
	load->pages.later = load->pages.needed = false;
}

/*
 * Rows are about to be written without WAL under an xid that no record may have had: then
 * recovery would give it to somebody else, while segments have rows of it.  (Those of a
 * subtransaction, of which the server tells in groups of 64.)
 */
static void
lsm_load_tell_xid(LsmLoad *load)
{
	uint64		xid = U64FromFullTransactionId(GetCurrentFullTransactionIdIfAny());

	if (xid == load->told_xid)
		return;
	(void) lsm_wal_nothing();
	load->told_xid = xid;
}

int
lsm_load_insert(Relation rel, LsmTable *table, LsmNewRecord *records, int n)
{
	LsmLoad    *load = lsm_load_get(rel, table);
	uint64		before = load->bytes;
	int			done = 0;

	for (int i = 0; i < n; i++)
		load->bytes += records[i].len;
	load->rows += n;
	if (loads_sealed || lsm_debug_load_after < 0 ||
		before < (uint64) lsm_debug_load_after * 1024)
		done = lsm_rowlog_insert(rel, table, records, n, NULL, false);
	else
	{
		do
		{
			if (load->pages.needed)
				lsm_load_new_range(rel, table, load);
			if (load->pages.unlogged)
				lsm_load_tell_xid(load);
			done += lsm_rowlog_insert(rel, table, records + done, n - done, &load->pages, false);
		} while (done < n && load->pages.needed);
	}
	return done;
}

/* ---- sealing ---- */

static int
lsm_load_range_cmp(const void *a, const void *b)
{
	const LsmLoadRange *x = a;
	const LsmLoadRange *y = b;

	if (x->lb != y->lb)
		return x->lb < y->lb ? -1 : 1;
	return x->generation < y->generation ? -1 : x->generation > y->generation;
}

/* Is a range one of the load's that is not in WAL?  Those are sorted. */
static bool
lsm_load_has_range(LsmLoad *load, const LsmRowRange *range)
{
	LsmLoadRange key = {range->lb, range->generation};

	return range->kind == LSM_RANGE_ROOT && (range->flags & LSM_RANGE_UNLOGGED) &&
		range->lifetime == lsm_table_lifetime() &&
		bsearch(&key, load->ranges, load->nranges, sizeof(LsmLoadRange),
				lsm_load_range_cmp) != NULL;
}

/* Pages of a load that are not in WAL. */
static uint32
lsm_load_unlogged_pages(LsmLoad *load, const LsmMeta *meta)
{
	uint32		pages = 0;

	if (meta->incarnation != load->incarnation)
		return 0;				/* of a file that is no longer the table's */
	for (uint32 i = 0; i < meta->nranges; i++)
	{
		const LsmRowRange *range = &meta->ranges[i];

		if (!lsm_load_has_range(load, range))
			continue;
		if (range->lb == load->pages.lb)
			pages += Min(load->pages.at + 1, load->pages.npages);
		else
			pages += range->pages.npages;
	}
	return pages;
}

/* Log the pages of a range that have rows; nobody else changes them. */
static void
lsm_load_log_range(Relation rel, const LsmRowRange *range)
{
	Buffer		buffers[LSM_PAGE_BATCH];
	int			n = 0;

	for (uint32 i = 0; i < range->pages.npages; i++)
	{
		buffers[n] = ReadBuffer(rel, range->pages.start + i);
		LockBuffer(buffers[n], BUFFER_LOCK_EXCLUSIVE);
		if (PageGetMaxOffsetNumber(BufferGetPage(buffers[n])) == 0)
			UnlockReleaseBuffer(buffers[n]);
		else
			n++;
		if (n > 0 && (n == LSM_PAGE_BATCH || i + 1 == range->pages.npages))
		{
			lsm_pages_begin(rel);
			START_CRIT_SECTION();
			lsm_pages_log(rel, buffers, n);
			END_CRIT_SECTION();
			for (int j = 0; j < n; j++)
				UnlockReleaseBuffer(buffers[j]);
			n = 0;
		}
	}
}

/*
 * Log what is left of a load in the row log; its ranges are like others then.  They
 * cannot be flushed meanwhile, as that takes an edit.
 */
static void
lsm_load_log(Relation rel, LsmTable *table, LsmLoad *load)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_SEAL);
	bool		any = false;

	for (uint32 i = 0; i < edit->meta.nranges; i++)
	{
		LsmRowRange *range = &edit->meta.ranges[i];

		if (!lsm_load_has_range(load, range))
			continue;
		lsm_load_log_range(rel, range);
		range->flags &= ~LSM_RANGE_UNLOGGED;
		range->lifetime = 0;
		any = true;
	}
	LSM_STOP("seal-before-edit");
	if (any)
		lsm_edit_commit(edit);
	else
		lsm_edit_abandon(edit);
}

/* Has it been flushed with another load's, while this one has waited for that? */
static bool
lsm_load_needs_flush(Relation rel, LsmTable *table, void *arg)
{
	return lsm_load_unlogged_pages(arg, &lsm_view_get(rel, table)->meta) > 0;
}

static void
lsm_load_seal_table(Relation rel, LsmLoad *load)
{
	LsmTable   *table = lsm_table_open(rel);
	uint32		pages;

	/*
	 * The table has another file by now, or has its old one back.  A file that was copied
	 * has ranges that look like the load's, and may be those of others (lsm_copy_data()).
	 */
	if (table != load->table)
		return;

	/* what comes next goes to other pages */
	qsort(load->ranges, load->nranges, sizeof(LsmLoadRange), lsm_load_range_cmp);
	while ((pages = lsm_load_unlogged_pages(load, &lsm_view_get(rel, table)->meta)) > 0)
	{
		LSM_STOP("load-seal");

		/* nor are they flushed where that would be refused, after all has been loaded */
		if (pages <= LSM_LOAD_LOG_PAGES ||
			lsm_manifest_fill(lsm_view_get(rel, table)->nentries) >= 1)
			lsm_load_log(rel, table, load);
		else
		{
			LsmJobStats stats = {0};

			lsm_flush_for_writer(rel, lsm_load_needs_flush, load, &stats);
		}
	}
	load->pages.needed = true;
	load->nranges = 0;
}

void
lsm_load_seal(Relation rel)
{
	for (LsmLoad *load = loads; load != NULL; load = load->next)
		if (load->relid == RelationGetRelid(rel) && load->nranges > 0)
			lsm_load_seal_table(rel, load);
}

void
lsm_load_before_commit(void)
{
	/* whatever is inserted from here on is logged at once */
	loads_sealed = true;
	for (LsmLoad *load = loads; load != NULL; load = load->next)
	{
		Relation	rel;

		if (load->nranges == 0)
			continue;

		/*
		 * If it is not locked, all was inserted in subtransactions that have failed, and
		 * nothing is waited for, unless somebody's code gives locks up before the commit.
		 */
		if (!CheckRelationOidLockedByMe(load->relid, AccessShareLock, true) &&
			!ConditionalLockRelationOid(load->relid, AccessShareLock))
			continue;
		rel = try_relation_open(load->relid, AccessShareLock);
		if (rel == NULL)
			continue;			/* dropped */
		if (lsm_relation_is_lsm(rel))
			lsm_load_seal_table(rel, load);
		relation_close(rel, AccessShareLock);
	}
}

void
lsm_load_xact_end(void)
{
	for (LsmLoad *load = loads; load != NULL; load = load->next)
		load->table->load = NULL;
	loads = NULL;
	loads_sealed = false;
}
