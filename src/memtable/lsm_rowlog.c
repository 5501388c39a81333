/*-------------------------------------------------------------------------
 *
 * lsm_rowlog.c
 *	  The row log: appending records to pages, and reading them.
 *
 * A row-log page is a standard page of items, one record each; its special
 * space says which LB it is, so that (LB, item number) is the record's TID.
 * INSERT records go to pages with root LBs, all others to pages with version
 * LBs.  Backends share a few open pages of each kind; rows that move go to pages that are
 * chosen by where they belong (lsm_near.c).  A bulk load has pages of its own (lsm_load.c),
 * several to an LB: each says how many items its LB has before it.
 *
 * A page can be given to another generation as soon as its own has been
 * flushed.  So readers copy what they need under the content lock, and prove
 * the page by incarnation, LB and generation first (I5).
 *
 * LOCKING
 *	  Appending holds gen_lock shared, then the root page, then the version
 *	  page.  New ranges are asked for with none of them held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "lsm_lbs.h"
#include "lsm_near.h"
#include "lsm_options.h"
#include "lsm_pace.h"
#include "lsm_request.h"
#include "lsm_rowlog.h"
#include "lsm_stop.h"
#include "lsm_vmpage.h"
#include "lsm_wal.h"
#include "lsm_walpack.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

/* Pages of row log that end a generation, unless its index ends it before. */
#define LSM_GENERATION_PAGES	8192

/* After asking for a flush because of reads, it is asked for again after so long (us), until it comes. */
#define LSM_ASK_AGAIN_US		USECS_PER_SEC
#define LSM_ASK_AGAIN_MAX_US	(64 * USECS_PER_SEC)

/* Records of two pages, packed. */
#define LSM_SCRATCH_BYTES		(2 * (BLCKSZ + LSM_MAX_OFFSET * LSM_PACK_OVERHEAD))

/* Pages begun by this process since it was last slowed, and of them, those of versions. */
uint32		lsm_pages_begun = 0;
uint32		lsm_version_pages_begun = 0;

/* Records that go to one page in one WAL record. */
typedef struct LsmPageBatch
{
	Buffer		buffer;
	BlockNumber lb;
	bool		init;			/* the page is new */
	OffsetNumber first;
	OffsetNumber before;		/* items of the LB on earlier pages */
	int			nrecords;
	LsmNewRecord *records;
} LsmPageBatch;

/* Chunks of the arena that end a generation. */
static inline uint32
lsm_generation_chunks(void)
{
	return Max(lsm_memindex_arena_chunks() / 8, 2);
}

/* How much of its bound has the active generation reached?  A hint, taken without locks. */
double
lsm_rowlog_fill(LsmTable *table)
{
	LsmTableShared *shared = table->shared;
	double		pages = (double) shared->gen_pages / LSM_GENERATION_PAGES;
	double		chunks = (double) lsm_table_index(shared, shared->generation)->nchunks /
		lsm_generation_chunks();

	return Max(pages, chunks);
}

static void
lsm_rowlog_ask_for_flush(Relation rel)
{
	if (!RelationUsesLocalBuffers(rel))
		lsm_worker_request_flush(MyDatabaseId, RelationGetRelid(rel));
}

/*
 * Reads have examined records of the memtable in vain, or look-ups have gone by it for nothing
 * since the table is quiet: ask a worker to flush it, if
 * they are more than the flush would work through.  A queue is small, and its memtable
 * would be half full only after very many entries, most of which are gone.  Counts come
 * seldom, and while a flush runs they are those of the generation before.
 */
void
lsm_rowlog_ask_for_reads(Relation rel, LsmTable *table)
{
	uint64		waste = table->stat.memtable_waste;
	TimestampTz now;

	/* as lsm_pick_gather() does */
	if (table->stat.memtable_quiet > 0 && lsm_options_auto_compact(rel))
		waste += table->stat.memtable_quiet;
	table->stat.memtable_waste = 0;
	table->stat.memtable_quiet = 0;
	if (table->shared->gen_pages == 0 ||
		waste < lsm_stat_waste_bound(table->shared->gen_pages) ||
		table->shared->flushing != 0 || RecoveryInProgress())
		return;
	now = GetCurrentStatementStartTimestamp();
	if (table->stat.asked_generation != table->shared->generation)
		table->stat.ask_again_us = LSM_ASK_AGAIN_US;
	if (now - table->stat.asked_at < table->stat.ask_again_us && now >= table->stat.asked_at)
		return;
	table->stat.asked_at = now;
	table->stat.asked_generation = table->shared->generation;
	table->stat.ask_again_us = Min(table->stat.ask_again_us * 2, LSM_ASK_AGAIN_MAX_US);
	lsm_rowlog_ask_for_flush(rel);
}

/* A session looks after so many changes of a table, if the row log has got no page. */
#define LSM_BOUNDS_CHANGES		16

/*
 * Before a change: make room in a memtable that is full.  A worker is asked to flush it
 * long before, once by each backend, as a request stays until it is served; and
 * writers become slower when it falls behind.
 */
void
lsm_rowlog_keep_bounds(Relation rel, LsmTable *table)
{
	double		fill;

	lsm_stat_tick(&table->stat);
	if (lsm_pages_begun == 0 && table->bounds_left > 0 &&
		table->bounds_pages == table->shared->gen_pages)
	{
		table->bounds_left--;
		return;
	}
	table->bounds_left = LSM_BOUNDS_CHANGES;
	table->bounds_pages = table->shared->gen_pages;
	fill = lsm_rowlog_fill(table);
	if (fill >= 1)
	{
		lsm_flush_for_room(rel);
		return;
	}
	lsm_pace_writer(rel, table, fill);
	if (unlikely(lsm_memindex_arena_free() < lsm_memindex_arena_chunks() / LSM_ARENA_SHORT))
		lsm_table_ask_for_memory();
	if (fill < LSM_FLUSH_FILL)
	{
		lsm_rowlog_heed_waste(rel, table);
		return;
	}
	if (table->asked_flush != table->shared->generation)
	{
		table->asked_flush = table->shared->generation;
		lsm_rowlog_ask_for_flush(rel);
	}
}

static bool
lsm_page_has_room(Page page, Size len, int nrecords)
{
	return PageGetMaxOffsetNumber(page) + nrecords <= LSM_MAX_OFFSET &&
		PageGetFreeSpace(page) >= MAXALIGN(len);
}

/* Take an unused page of the current range; mutex is held. */
static bool
lsm_rest_take(LsmTableShared *shared, int kind, LsmOpenPage *page)
{
	LsmRangeRest *rest = &shared->rest[kind];

	if (rest->npages == 0)
		return false;
	page->block = rest->block++;
	page->lb = rest->lb++;
	rest->npages--;
	shared->gen_pages++;
	lsm_pages_begun++;
	lsm_version_pages_begun += kind == LSM_VERSION_PAGES;
	return true;
}

/*
 * Pin a page of the row log that has been begun.  It is looked for in the buffer where it, or
 * another page with the same place here, was last, before the server's hash table is
 * searched.  Not always: on 15 a pin taken this way does not count as a use of
 * the buffer, and one that nobody seems to use is given away.
 */
#define LSM_RECENT_BUFFERS		4096
#define LSM_RECENT_USES			8

static Buffer
lsm_rowlog_read(Relation rel, BlockNumber block)
{
	static Buffer recent[LSM_RECENT_BUFFERS];
	static uint32 uses = 0;
	Buffer	   *place = &recent[(block + LSM_LOCATOR_NUMBER(LSM_RD_LOCATOR(rel)) * 0x9E3779B1) %
								LSM_RECENT_BUFFERS];

	if (BufferIsValid(*place) && BufferIsLocal(*place) == RelationUsesLocalBuffers(rel) &&
		++uses % LSM_RECENT_USES != 0 &&
		ReadRecentBuffer(LSM_RD_LOCATOR(rel), MAIN_FORKNUM, block, *place))
		lsm_compat_count_hits(rel, 1);
	else
		*place = ReadBuffer(rel, block);
	return *place;
}

/* Lock a page that nobody has begun. */
static void
lsm_rowlog_lock_fresh(Relation rel, BlockNumber block, BlockNumber lb, LsmPageBatch *batch)
{
	batch->buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_ZERO_AND_LOCK, NULL);
	batch->lb = lb;
	batch->before = 0;
	batch->init = true;
	batch->first = FirstOffsetNumber;
}

/* Is the locked page the generation's, of that LB? */
static inline bool
lsm_rowlog_owns(LsmTableShared *shared, Buffer buffer, BlockNumber lb)
{
	return lsm_page_is(BufferGetPage(buffer), LSM_PAGE_ROWLOG, shared->incarnation, lb,
					   shared->generation);
}

/* Go on with the locked page, which is the generation's. */
static void
lsm_rowlog_continue(BlockNumber lb, LsmPageBatch *batch)
{
	batch->lb = lb;
	batch->before = 0;
	batch->init = false;
	batch->first = PageGetMaxOffsetNumber(BufferGetPage(batch->buffer)) + 1;
}

/*
 * Lock a page of that kind with room for len bytes.  False: no page, and the
 * current range is used up.  gen_lock is held shared.  Who has met others on an open page
 * goes to the next one, and stays with it: so sessions that write at the same time spread.
 */
static bool
lsm_rowlog_lock_page(Relation rel, LsmTable *table, int kind, Size len, int nrecords,
					 LsmPageBatch *batch)
{
	LsmTableShared *shared = table->shared;
	int			tries = 0;

	for (;;)
	{
		int			slot = table->open_slot[kind];
		LsmOpenPage page;
		LsmOpenPage fresh;
		bool		taken = false;

		SpinLockAcquire(&shared->mutex);
		page = shared->open[kind][slot];
		SpinLockRelease(&shared->mutex);

		if (page.block != InvalidBlockNumber)
		{
			batch->buffer = lsm_rowlog_read(rel, page.block);
			if (tries < LSM_OPEN_PAGES - 1)
			{
				if (!ConditionalLockBuffer(batch->buffer))
				{
					ReleaseBuffer(batch->buffer);
					table->open_slot[kind] = (slot + 1) % LSM_OPEN_PAGES;
					tries++;
					continue;
				}
			}
			else
				LockBuffer(batch->buffer, BUFFER_LOCK_EXCLUSIVE);
			if (lsm_rowlog_owns(shared, batch->buffer, page.lb) &&
				lsm_page_has_room(BufferGetPage(batch->buffer), len, nrecords))
			{
				lsm_rowlog_continue(page.lb, batch);
				return true;
			}
			UnlockReleaseBuffer(batch->buffer);
		}

		SpinLockAcquire(&shared->mutex);
		if (shared->open[kind][slot].block == page.block)
		{
			taken = lsm_rest_take(shared, kind, &fresh);
			if (!taken)
			{
				SpinLockRelease(&shared->mutex);
				return false;
			}
			shared->open[kind][slot] = fresh;
		}
		SpinLockRelease(&shared->mutex);
		if (!taken)
			continue;			/* someone else has put another page there */

		/*
		 * Race: another backend may look at the page before it is locked
		 * here. It cannot prove it, takes it for full and puts another page
		 * there.
		 */
		lsm_rowlog_lock_fresh(rel, fresh.block, fresh.lb, batch);
		return true;
	}
}

/*
 * Lock the root page where an INSERT record belongs.  False: there is none, any other will do.
 * gen_lock is held shared.
 */
static bool
lsm_rowlog_lock_near(Relation rel, LsmTable *table, const LsmNewRecord *new, LsmPageBatch *batch)
{
	LsmTableShared *shared = table->shared;
	LsmNearSearch search;

	if (new->near == NULL || !lsm_near_begin(table, new->near, new->len, &search))
		return false;
	while (lsm_near_next(table, &search))
	{
		Size		least = Min(MAXALIGN(new->len), LSM_PAGE_PAYLOAD / 3);
		bool		owns;
		Page		page;

		if (search.fresh)
		{
			SpinLockAcquire(&shared->mutex);
			shared->gen_pages++;
			SpinLockRelease(&shared->mutex);
			lsm_pages_begun++;
			lsm_rowlog_lock_fresh(rel, search.block, search.lb, batch);
			return true;
		}
		batch->buffer = lsm_rowlog_read(rel, search.block);
		LockBuffer(batch->buffer, BUFFER_LOCK_EXCLUSIVE);
		page = BufferGetPage(batch->buffer);
		owns = lsm_rowlog_owns(shared, batch->buffer, search.lb);
		if (owns && lsm_page_has_room(page, new->len, 1))
		{
			lsm_rowlog_continue(search.lb, batch);
			return true;
		}

		/*
		 * Race: whoever begins the page may not have it locked yet. It is left to him, and no other
		 * row goes there; as if he had failed, and the page was never begun.
		 */
		if (!owns || PageGetFreeSpace(page) < Max(LSM_PAGE_PAYLOAD / 8, least))
			lsm_near_full(table, &search, owns);
		UnlockReleaseBuffer(batch->buffer);
	}
	return false;
}

/* The page that is being filled, pinned: row after row it is in the same buffer. */
static Buffer
lsm_own_page_read(Relation rel, LsmOwnPages *own)
{
	BlockNumber block = own->start + own->at;

	if (!BufferIsValid(own->recent) || RelationUsesLocalBuffers(rel) ||
		!ReadRecentBuffer(LSM_RD_LOCATOR(rel), MAIN_FORKNUM, block, own->recent))
		own->recent = ReadBuffer(rel, block);
	return own->recent;
}

/*
 * Lock the page of a bulk load with room for len bytes, or begin its next one.
 * False: its pages are used up, or belong to a generation that is not active any
 * more.  gen_lock is held shared.
 */
static bool
lsm_rowlog_lock_own_page(Relation rel, LsmTable *table, LsmOwnPages *own, Size len,
						 LsmPageBatch *batch)
{
	LsmTableShared *shared = table->shared;
	Page		page;

	if (own->generation != shared->generation || own->incarnation != shared->incarnation)
		return false;
	while (own->at < own->npages)
	{
		int			items;

		batch->buffer = lsm_own_page_read(rel, own);
		LockBuffer(batch->buffer, BUFFER_LOCK_EXCLUSIVE);
		page = BufferGetPage(batch->buffer);
		batch->lb = own->lb + own->at / own->lb_pages;
		if (!lsm_page_is(page, LSM_PAGE_ROWLOG, shared->incarnation, batch->lb,
						 shared->generation))
			elog(ERROR, "page %u of table \"%s\" is not the load's", own->start + own->at,
				 RelationGetRelationName(rel));
		items = PageGetMaxOffsetNumber(page);
		if (own->before + items < LSM_MAX_OFFSET && PageGetFreeSpace(page) >= MAXALIGN(len))
		{
			batch->before = own->before;
			batch->init = false;
			batch->first = items + 1;
			return true;
		}
		UnlockReleaseBuffer(batch->buffer);

		/* the LB goes on on the next page, unless it is full */
		own->before += items;
		if (own->before < LSM_MAX_OFFSET)
			own->at++;
		else
			own->at += own->lb_pages - own->at % own->lb_pages;
		if (own->at % own->lb_pages == 0)
			own->before = 0;
		lsm_pages_begun++;
	}
	return false;
}

/*
 * Put the records on their locked pages and log it: one WAL record, or none on
 * pages of a bulk load.  Fills in the TIDs.  The pages stay locked.  vm: page of
 * the visibility map where the bit of vm_lb is cleared, or InvalidBuffer.
 */
static void
lsm_rowlog_write(Relation rel, LsmTable *table, LsmPageBatch *batches, int nbatches,
				 Buffer vm, BlockNumber vm_lb, bool needs_wal)
{
	static char *scratch = NULL;
	LsmTableShared *shared = table->shared;
	LsmAppend	append = {0};
	uint64		xid = U64FromFullTransactionId(GetCurrentFullTransactionIdIfAny());
	Size		used = 0;
	Size		begin[2];
	bool		clears;

	Assert(nbatches <= 2);
	if (scratch == NULL)
		scratch = MemoryContextAlloc(TopMemoryContext, LSM_SCRATCH_BYTES);

	/*
	 * gen_lock is held: nobody sets the bit now.  But who has cleared it may not have logged
	 * that yet, which our record must not come before; he has the page locked until then.
	 */
	clears = false;
	if (BufferIsValid(vm))
	{
		LockBuffer(vm, BUFFER_LOCK_SHARE);
		clears = lsm_vm_page_test(BufferGetPage(vm), vm_lb);
		LockBuffer(vm, BUFFER_LOCK_UNLOCK);
	}
	if (clears)
		LockBuffer(vm, BUFFER_LOCK_EXCLUSIVE);

	START_CRIT_SECTION();
	for (int i = 0; i < nbatches; i++)
	{
		LsmPageBatch *batch = &batches[i];
		Page		page = BufferGetPage(batch->buffer);

		if (batch->init)
			lsm_page_init(page, LSM_PAGE_ROWLOG, shared->incarnation, batch->lb,
						  shared->generation);
		if (batch->before > 0)
			LSM_PAGE_SPECIAL(page)->before = batch->before;
		begin[i] = used;
		for (int j = 0; j < batch->nrecords; j++)
		{
			LsmNewRecord *new = &batch->records[j];

			lsm_page_add_record(page, new->record, new->len, batch->first + j);
			if (needs_wal)
				used += lsm_record_pack(new->record, new->len, xid, scratch + used);
		}
		MarkBufferDirty(batch->buffer);
		append.pages[i].lb = batch->lb;
		append.pages[i].first = batch->first;
		append.pages[i].nrecords = batch->nrecords;
		append.pages[i].init = batch->init;
	}
	if (clears)
	{
		lsm_vm_page_clear(BufferGetPage(vm), vm_lb);
		MarkBufferDirty(vm);
	}

	if (needs_wal)
	{
		XLogRecPtr	lsn;
		char		packed[LSM_APPEND_PACKED];

		append.incarnation = shared->incarnation;
		append.generation = shared->generation;
		append.npages = nbatches;
		append.clears = clears;
		append.vm_lb = vm_lb;
		XLogBeginInsert();
		XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		XLogRegisterData(packed, lsm_append_pack(&append, packed));
		for (int i = 0; i < nbatches; i++)
		{
			XLogRegisterBuffer(i, batches[i].buffer, REGBUF_STANDARD | REGBUF_KEEP_DATA |
							   (batches[i].init ? REGBUF_WILL_INIT : 0));
			XLogRegisterBufData(i, scratch + begin[i],
								(i + 1 < nbatches ? begin[i + 1] : used) - begin[i]);
		}
		/* not REGBUF_STANDARD: the map lies where that one has free space */
		if (clears)
			XLogRegisterBuffer(nbatches, vm, 0);
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_APPEND);
		for (int i = 0; i < nbatches; i++)
			PageSetLSN(BufferGetPage(batches[i].buffer), lsn);
		if (clears)
			PageSetLSN(BufferGetPage(vm), lsn);
	}
	END_CRIT_SECTION();
	if (clears)
		LockBuffer(vm, BUFFER_LOCK_UNLOCK);
	lsm_stat_count(&table->stat, LSM_STAT_APPENDS);
	if (LSM_REC_KIND(batches[0].records[0].record->info) == LSM_REC_INSERT)
		pg_atomic_fetch_add_u32(&lsm_table_index(shared, shared->generation)->inserts,
								batches[0].nrecords);
}

static void
lsm_batch_set_tids(LsmPageBatch *batch)
{
	for (int i = 0; i < batch->nrecords; i++)
		batch->records[i].tid = LSM_TID(batch->lb, batch->before + batch->first + i);
}

/* The first block of an LB in a range. */
static inline BlockNumber
lsm_range_block(LsmRowRange *range, BlockNumber lb)
{
	return range->pages.start + (lb - range->lb) * lsm_range_lb_pages(range);
}

/* ---- speculative insertions ---- */

/*
 * The speculative insertions of this backend that are not decided: one, unless
 * an index expression makes another.  They are counted by LB in the shared entry:
 * a range that may have one is left out of a flush, as nothing that may still
 * change in place is copied.  One that ends with its transaction, or subtransaction,
 * needs no decision, its xid says enough.
 */
typedef struct LsmSpeculative
{
	LsmTableShared *shared;
	LsmTid		tid;
	SubTransactionId subid;
} LsmSpeculative;

#define LSM_MAX_SPECULATIVE		64

static LsmSpeculative speculative[LSM_MAX_SPECULATIVE];
static int	nspeculative;

static inline uint32
lsm_speculative_bucket(BlockNumber lb)
{
	return lb / 128 % LSM_SPECULATIVE_BUCKETS;
}

/* Uncount those from the n-th on. */
static void
lsm_speculative_forget(int n)
{
	while (nspeculative > n)
	{
		LsmSpeculative *last = &speculative[--nspeculative];

		pg_atomic_fetch_sub_u32(&last->shared->speculative[lsm_speculative_bucket(LSM_TID_LB(last->tid))], 1);
	}
}

void
lsm_rowlog_xact_end(void)
{
	lsm_speculative_forget(0);
}

/* A subtransaction has been rolled back: those of it, and of those in it, have ended. */
void
lsm_rowlog_subxact_abort(SubTransactionId subid)
{
	int			n = nspeculative;

	while (n > 0 && speculative[n - 1].subid >= subid)
		n--;
	lsm_speculative_forget(n);
}

static void
lsm_speculative_begin(LsmTableShared *shared, LsmTid tid)
{
	if (nspeculative >= LSM_MAX_SPECULATIVE)
		elog(ERROR, "too many speculative insertions in one another");
	pg_atomic_fetch_add_u32(&shared->speculative[lsm_speculative_bucket(LSM_TID_LB(tid))], 1);
	speculative[nspeculative].shared = shared;
	speculative[nspeculative].tid = tid;
	speculative[nspeculative].subid = GetCurrentSubTransactionId();
	nspeculative++;
}

/*
 * May a range have an undecided insertion?  For ranges that nobody appends to
 * any more.
 */
bool
lsm_rowlog_undecided(LsmTableShared *shared, const LsmRowRange *range)
{
	BlockNumber last = lsm_range_last_lb(range);

	/* a load inserts nothing speculatively */
	if (range->flags != 0)
		return false;
	for (BlockNumber lb = range->lb;; lb = Min(lb + 128, last))
	{
		if (pg_atomic_read_u32(&shared->speculative[lsm_speculative_bucket(lb)]) > 0)
			return true;
		if (lb == last)
			return false;
	}
}

/*
 * Decide a speculative insertion: confirmed, with the command id that took the
 * token's place, or as if it had been rolled back.
 */
void
lsm_rowlog_complete(Relation rel, LsmTable *table, LsmTid tid, bool succeeded, uint32 cid)
{
	LsmView    *view = lsm_view_get(rel, table);
	LsmRowRange *range = lsm_view_range(view, LSM_TID_LB(tid));
	Buffer		buffer;
	Page		page;

	if (range == NULL)
		elog(ERROR, "speculative row (%u,%u) is not in the row log",
			 LSM_TID_LB(tid), LSM_TID_OFFSET(tid));
	buffer = ReadBuffer(rel, lsm_range_block(range, LSM_TID_LB(tid)));
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);
	if (!lsm_page_is(page, LSM_PAGE_ROWLOG, view->meta.incarnation, LSM_TID_LB(tid),
					 range->generation) ||
		LSM_TID_OFFSET(tid) > PageGetMaxOffsetNumber(page))
		elog(ERROR, "speculative row (%u,%u) is not in the row log",
			 LSM_TID_LB(tid), LSM_TID_OFFSET(tid));

	START_CRIT_SECTION();
	lsm_rowlog_decide((LsmRecord *) PageGetItem(page, PageGetItemId(page, LSM_TID_OFFSET(tid))),
					  succeeded, cid);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(rel))
	{
		xl_lsm_speculative xlrec;
		XLogRecPtr	lsn;

		xlrec.cid = cid;
		xlrec.offset = LSM_TID_OFFSET(tid);
		xlrec.succeeded = succeeded;
		xlrec.version = LSM_WAL_VERSION;
		XLogBeginInsert();
		XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		XLogRegisterData((char *) &xlrec, sizeof(xlrec));
		XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_SPECULATIVE);
		PageSetLSN(page, lsn);
	}
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);

	/* what came after it has been decided, or has ended with its subtransaction */
	for (int i = nspeculative; i > 0; i--)
	{
		if (speculative[i - 1].shared == table->shared && speculative[i - 1].tid == tid)
		{
			lsm_speculative_forget(i - 1);
			break;
		}
	}
}

/*
 * Are a record's large values those of the generation it goes to?  They go with
 * their generation when that is flushed.  gen_lock is held.
 */
static inline bool
lsm_values_in_generation(LsmTableShared *shared, const LsmNewRecord *new)
{
	return new->generation == 0 || new->generation == shared->generation;
}

/*
 * Append INSERT records; fills in their TIDs, which are root TIDs.  No lock is
 * held before or after; new ranges are made as needed.  speculative: the one
 * record will be decided by lsm_rowlog_complete().  own: pages of a bulk load to
 * take instead of those that are shared (or later: once these are used up), or NULL.
 *
 * Returns how many: up to the first whose large values are not in the active
 * generation (I15), which the caller writes again; or until the load needs other pages,
 * as own says then.
 */
int
lsm_rowlog_insert(Relation rel, LsmTable *table, LsmNewRecord *records, int n,
				  LsmOwnPages *own, bool speculative)
{
	LsmTableShared *shared = table->shared;
	bool		needs_wal = RelationNeedsWAL(rel) && (own == NULL || !own->unlogged);
	int			done = 0;

	while (done < n)
	{
		LsmPageBatch batch;
		Size		room;

		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		if (!lsm_values_in_generation(shared, &records[done]))
		{
			LWLockRelease(&shared->gen_lock);
			return done;
		}
		if (own != NULL && !own->later)
		{
			if (!lsm_rowlog_lock_own_page(rel, table, own, records[done].len, &batch))
			{
				LWLockRelease(&shared->gen_lock);
				own->needed = true;
				return done;
			}
		}
		else if (!lsm_rowlog_lock_near(rel, table, &records[done], &batch) &&
				 !lsm_rowlog_lock_page(rel, table, LSM_ROOT_PAGES, records[done].len, 1, &batch))
		{
			LWLockRelease(&shared->gen_lock);
			if (own != NULL)
			{
				own->needed = true;
				return done;
			}
			lsm_rowlog_make_room(rel, table, LSM_ROOT_PAGES);
			continue;
		}
		/* as many as fit the page */
		if (batch.init)
			room = LSM_PAGE_PAYLOAD;
		else
			room = PageGetExactFreeSpace(BufferGetPage(batch.buffer));
		batch.records = records + done;
		batch.nrecords = 0;
		while (done < n && batch.before + batch.first + batch.nrecords <= LSM_MAX_OFFSET)
		{
			Size		need = MAXALIGN(records[done].len) + sizeof(ItemIdData);

			if (need > room || !lsm_values_in_generation(shared, &records[done]))
				break;
			room -= need;
			batch.nrecords++;
			done++;
		}
		Assert(batch.nrecords > 0);
		lsm_batch_set_tids(&batch);

		/* a scan either sees the record or has its predicate lock seen here */
		CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
		if (speculative)
			lsm_speculative_begin(shared, LSM_TID(batch.lb, batch.first));
		lsm_rowlog_write(rel, table, &batch, 1, InvalidBuffer, 0, needs_wal);
		UnlockReleaseBuffer(batch.buffer);
		LWLockRelease(&shared->gen_lock);
	}
	return done;
}

/*
 * Append records of one change: versions go to one version page, insert (may be
 * NULL) to a root page, in one WAL record.  The caller holds the row's stripe
 * exclusively and gen_lock shared, has linked each version to its row's newest
 * record, and publishes them afterwards.  Where insert is given, the first
 * version is its MOVED: base becomes the new root, and so does the root of the
 * versions that follow (locks that are copied to the new row).  vm: page of the
 * visibility map for vm_lb, pinned, if the change ends its row and the map is as
 * long as that.
 */
LsmAppendResult
lsm_rowlog_append(Relation rel, LsmTable *table, LsmNewRecord *insert,
				  LsmNewRecord *versions, int nversions, Buffer vm, BlockNumber vm_lb)
{
	LsmPageBatch batches[2];
	int			n = 0;
	Size		need = 0;

	/* the row has been judged in this generation, and its record formed after that */
	Assert(insert == NULL || lsm_values_in_generation(table->shared, insert));
	Assert(lsm_values_in_generation(table->shared, &versions[0]));

	/* the records of a change go to one page: this many locks can come along */
	for (int i = 0; i < nversions; i++)
		need += MAXALIGN(versions[i].len) + sizeof(ItemIdData);
	if (need > LSM_PAGE_PAYLOAD || nversions > LSM_MAX_OFFSET)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many transactions hold locks on a row of table \"%s\" that is to move",
						RelationGetRelationName(rel)),
				 errdetail("An update of an indexed column takes at most about %d locks of other transactions along.",
						   (int) (LSM_PAGE_PAYLOAD / (SizeOfLsmRecord + sizeof(ItemIdData)) - 1))));
	if (insert != NULL)
	{
		if (!lsm_rowlog_lock_near(rel, table, insert, &batches[n]) &&
			!lsm_rowlog_lock_page(rel, table, LSM_ROOT_PAGES, insert->len, 1, &batches[n]))
			return LSM_APPEND_NO_ROOM;
		batches[n].records = insert;
		batches[n].nrecords = 1;
		lsm_batch_set_tids(&batches[n]);
		n++;
	}
	if (!lsm_rowlog_lock_page(rel, table, LSM_VERSION_PAGES, need, nversions, &batches[n]))
	{
		if (n > 0)
			UnlockReleaseBuffer(batches[0].buffer);
		return LSM_APPEND_NO_ROOM;
	}
	batches[n].records = versions;
	batches[n].nrecords = nversions;
	lsm_batch_set_tids(&batches[n]);
	n++;

	if (insert != NULL)
	{
		versions[0].record->base = insert->tid;
		for (int i = 1; i < nversions; i++)
			versions[i].record->root = insert->tid;
	}
	for (int i = 1; i < nversions; i++)
	{
		/* a chain of locks on the new row */
		if (i > 1)
			versions[i].record->prev = versions[i - 1].tid;
	}

	lsm_rowlog_write(rel, table, batches, n, vm, vm_lb, RelationNeedsWAL(rel));
	for (int i = 0; i < n; i++)
		UnlockReleaseBuffer(batches[i].buffer);
	return LSM_APPEND_DONE;
}

/* Get what a range needs that could not be given: a place in the metapage, or root LBs. */
void
lsm_rowlog_make_way(Relation rel, LsmTable *table, LsmSpaceResult result)
{
	if (result == LSM_SPACE_NO_PLACE)
		lsm_flush_for_room(rel);
	else if (result == LSM_SPACE_NO_LBS)
		lsm_lbs_find(rel, table);
}

/* Get pages of that kind: another range, or what that needs; the caller tries again. */
void
lsm_rowlog_make_room(Relation rel, LsmTable *table, int kind)
{
	CHECK_FOR_INTERRUPTS();
	lsm_rowlog_make_way(rel, table, lsm_space_new_range(rel, table, kind));
}

/*
 * Get memory for the memtable index: from idle tables, or by a flush of this
 * one, here and now.
 */
void
lsm_index_make_room(Relation rel, LsmTable *table)
{
	CHECK_FOR_INTERRUPTS();
	lsm_table_ask_for_memory();
	(void) lsm_table_make_room(table->shared);
	if (lsm_memindex_arena_free() == 0)
		lsm_flush_for_room(rel);
}

/*
 * Are the pages of a range as its load has written them?  Not after a crash, nor on
 * a standby: then they count as never begun.  What is in them is of a transaction
 * that did not commit, as it would have seen to their being in WAL (I17).
 */
static inline bool
lsm_range_is_good(const LsmRowRange *range)
{
	return !(range->flags & LSM_RANGE_UNLOGGED) || range->lifetime == lsm_table_lifetime();
}

bool
lsm_rowlog_lost(const LsmRowRange *range)
{
	return !lsm_range_is_good(range);
}

/*
 * Pin and share-lock the n-th page of a range.  InvalidBuffer: the page does not prove
 * to be of its LB (it was never begun, or belongs to another generation now).
 */
static Buffer
lsm_rowlog_lock_nth(Relation rel, LsmView *view, LsmRowRange *range, uint32 n)
{
	BlockNumber block = range->pages.start + n;
	Buffer		buffer;

	if (n >= range->pages.npages || !lsm_range_is_good(range))
		return InvalidBuffer;
	/* after a crash, or on a standby, the end of a range may not be there yet */
	if (view->meta.npages <= block ||
		(RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM] == InvalidBlockNumber ||
		 RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM] <= block))
	{
		if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) <= block)
			return InvalidBuffer;
	}
	buffer = lsm_rowlog_read(rel, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!lsm_page_is(BufferGetPage(buffer), LSM_PAGE_ROWLOG, view->meta.incarnation,
					 lsm_range_page_lb(range, n), range->generation))
	{
		UnlockReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	return buffer;
}

/* The same for the page of an LB that has but one: of versions, and of rows not loaded. */
Buffer
lsm_rowlog_lock_shared(Relation rel, LsmView *view, LsmRowRange *range, BlockNumber lb)
{
	return lsm_rowlog_lock_nth(rel, view, range, lsm_range_block(range, lb) - range->pages.start);
}

/*
 * The same for the page where the item of a TID is, or would be: then the last one of
 * its LB that has items.  before: items of the LB on earlier pages; last: no later
 * page has any.
 */
static Buffer
lsm_rowlog_lock_tid(Relation rel, LsmView *view, LsmRowRange *range, LsmTid tid,
					OffsetNumber *before, bool *last)
{
	uint32		n = lsm_range_block(range, LSM_TID_LB(tid)) - range->pages.start;
	uint32		end = n + lsm_range_lb_pages(range);
	Buffer		buffer = lsm_rowlog_lock_nth(rel, view, range, n);

	*before = 0;
	while (BufferIsValid(buffer) && n + 1 < end)
	{
		OffsetNumber until = *before + PageGetMaxOffsetNumber(BufferGetPage(buffer));
		Buffer		next;

		if (LSM_TID_OFFSET(tid) <= until)
		{
			*last = false;
			return buffer;
		}
		next = lsm_rowlog_lock_nth(rel, view, range, n + 1);
		if (!BufferIsValid(next))
			break;
		if (PageGetMaxOffsetNumber(BufferGetPage(next)) == 0)
		{
			UnlockReleaseBuffer(next);
			break;
		}
		UnlockReleaseBuffer(buffer);
		buffer = next;
		*before = until;
		n++;
	}
	*last = true;
	return buffer;
}

/*
 * Note in a record what became of its xid: the rule is heap's (SetHintBits).  A
 * commit may be noted only where its WAL is flushed, or where the page's LSN
 * makes that happen first.  The page is locked; true: it has to be made dirty, by
 * MarkBufferDirtyHint().
 *
 * Race: a speculative INSERT may have been given up since the caller has seen it, by a
 * transaction that went on and has committed.
 */
bool
lsm_rowlog_hint_record(Buffer buffer, LsmRecord *record, uint16 hint)
{
	if (record->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED))
		return false;
	if (hint == LSM_REC_COMMITTED)
	{
		XLogRecPtr	commit_lsn = TransactionIdGetCommitLSN((TransactionId) record->xid);

		if (BufferIsPermanent(buffer) && XLogNeedsFlush(commit_lsn) &&
			BufferGetLSNAtomic(buffer) < commit_lsn)
			return false;
	}
	record->info |= hint;
	return true;
}

/*
 * Copy the record with that TID to record (room for LSM_MAX_RECORD bytes).
 * STALE means that the caller has to look whether view is still the newest; if it
 * is, there is no such record.  decide, unless it is NULL, tells what may be noted of
 * the record's xid: in the copy, and in the page while that is locked.
 */
LsmFetchResult
lsm_rowlog_fetch(Relation rel, LsmView *view, LsmTid tid, LsmRecord *record, Size *len,
				 LsmHintDecider decide)
{
	LsmRowRange *range = lsm_view_range(view, LSM_TID_LB(tid));
	OffsetNumber offset;
	OffsetNumber before;
	bool		last;
	LsmFetchResult result = LSM_FETCH_NONE;
	Buffer		buffer;
	Page		page;

	if (range == NULL)
		return LSM_FETCH_NONE;
	buffer = lsm_rowlog_lock_tid(rel, view, range, tid, &before, &last);
	if (!BufferIsValid(buffer))
		return LSM_FETCH_STALE;
	page = BufferGetPage(buffer);
	offset = LSM_TID_OFFSET(tid) - before;
	if (offset >= FirstOffsetNumber && offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId		item = PageGetItemId(page, offset);

		*len = ItemIdGetLength(item);
		if (*len < SizeOfLsmInsertRecord || *len > LSM_MAX_RECORD ||
			ItemIdGetOffset(item) + *len > BLCKSZ)
		{
			UnlockReleaseBuffer(buffer);
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("invalid record (%u,%u) in the row log of table \"%s\"",
							LSM_TID_LB(tid), LSM_TID_OFFSET(tid), RelationGetRelationName(rel)),
					 errhint("Run lsm_check() on the table, then restore it from a backup.")));
		}
		memcpy(record, PageGetItem(page, item), *len);
		if (decide != NULL)
		{
			uint16		hint = decide(record);

			if (hint != 0 && lsm_rowlog_hint_record(buffer, (LsmRecord *) PageGetItem(page, item),
													hint))
				MarkBufferDirtyHint(buffer, true);
			record->info |= hint;
		}
		result = LSM_FETCH_FOUND;
	}
	UnlockReleaseBuffer(buffer);
	return result;
}

/*
 * Copy the n-th page of a range, whose items are those of *lb behind the *before first
 * ones; false if it does not prove to be the LB's.
 */
bool
lsm_rowlog_copy_page(Relation rel, LsmView *view, LsmRowRange *range, uint32 n, char *copy,
					 BlockNumber *lb, OffsetNumber *before)
{
	Buffer		buffer = lsm_rowlog_lock_nth(rel, view, range, n);

	if (!BufferIsValid(buffer))
		return false;
	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	*lb = lsm_range_page_lb(range, n);
	*before = LSM_PAGE_SPECIAL((Page) copy)->before;
	return true;
}

/*
 * Copy the page where the item of a TID is, or would be.  Its items are those of the
 * LB behind the *before first ones; last: they are the LB's last ones.
 */
bool
lsm_rowlog_copy_page_of(Relation rel, LsmView *view, LsmRowRange *range, LsmTid tid, char *copy,
						OffsetNumber *before, bool *last)
{
	Buffer		buffer = lsm_rowlog_lock_tid(rel, view, range, tid, before, last);

	if (!BufferIsValid(buffer))
		return false;
	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	return true;
}

/* The same for records of one page, of that LB. */
void
lsm_rowlog_hint_page(Relation rel, LsmView *view, LsmRowRange *range, BlockNumber lb,
					 OffsetNumber *offsets, uint16 *hints, TransactionId *xids, int n)
{
	OffsetNumber before;
	bool		last;
	Buffer		buffer = lsm_rowlog_lock_tid(rel, view, range, LSM_TID(lb, offsets[0]), &before,
											 &last);
	Page		page;
	bool		any = false;

	if (!BufferIsValid(buffer))
		return;
	page = BufferGetPage(buffer);
	for (int i = 0; i < n; i++)
	{
		OffsetNumber item = offsets[i] - before;
		LsmRecord  *record;

		if (item < FirstOffsetNumber || item > PageGetMaxOffsetNumber(page))
			continue;
		record = (LsmRecord *) PageGetItem(page, PageGetItemId(page, item));
		if ((TransactionId) record->xid == xids[i] &&
			lsm_rowlog_hint_record(buffer, record, hints[i]))
			any = true;
	}
	if (any)
		MarkBufferDirtyHint(buffer, true);
	UnlockReleaseBuffer(buffer);
}

/* ---- the index, made again from the pages ---- */

typedef struct LsmBuildRow
{
	LsmTid		root;			/* hash key */
	LsmTid		newest;
	uint32		seq;
	int			kind;			/* of the newest */
} LsmBuildRow;

static void
lsm_build_scan(Relation rel, LsmView *view, uint32 generation, HTAB *rows, LsmTouch *touch)
{
	PGAlignedBlock copy;

	for (uint32 i = 0; i < view->meta.nranges; i++)
	{
		LsmRowRange *range = &view->meta.ranges[i];

		if (range->kind != LSM_RANGE_VERSION || range->generation != generation)
			continue;
		for (uint32 j = 0; j < range->pages.npages; j++)
		{
			BlockNumber lb;
			OffsetNumber before;

			if (!lsm_rowlog_copy_page(rel, view, range, j, copy.data, &lb, &before))
				continue;
			for (OffsetNumber offset = FirstOffsetNumber;
				 offset <= PageGetMaxOffsetNumber(copy.data); offset++)
			{
				LsmRecord  *record = (LsmRecord *)
				PageGetItem((Page) copy.data, PageGetItemId((Page) copy.data, offset));
				LsmBuildRow *row;
				bool		found;

				lsm_touch_add_record(touch, record);
				row = hash_search(rows, &record->root, HASH_ENTER, &found);
				if (!found || record->seq > row->seq)
				{
					row->newest = LSM_TID(lb, offset);
					row->seq = record->seq;
					row->kind = LSM_REC_KIND(record->info);
				}
			}
		}
	}
}

/*
 * Build the indexes that are ABSENT: of the active generation and of the one
 * being flushed.  Everybody who uses the table's memtable waits meanwhile; it
 * is bounded by the size of a generation.
 */
void
lsm_rowlog_build_index(Relation rel, LsmTable *table)
{
	LsmTableShared *shared = table->shared;
	LsmView    *view;

	LSM_STOP("rebuild-index");
	(void) lsm_view_get(rel, table);
	LWLockAcquire(&shared->gen_lock, LW_EXCLUSIVE);
	if (lsm_rowlog_ready(shared) || !lsm_view_current(table))
	{
		LWLockRelease(&shared->gen_lock);
		return;
	}
	view = table->view;
	for (int i = 0; i < 2; i++)
	{
		uint32		generation = i == 0 ? shared->generation : shared->flushing;
		LsmMemIndex *index = lsm_table_index(shared, generation);
		HASHCTL		ctl;
		HTAB	   *rows;
		HASH_SEQ_STATUS scan;
		LsmBuildRow *row;
		LsmTouch	touch;

		if (generation == 0 ||
			(index->state == LSM_INDEX_READY && index->generation == generation))
			continue;
		ctl.keysize = sizeof(LsmTid);
		ctl.entrysize = sizeof(LsmBuildRow);
		ctl.hcxt = CurrentMemoryContext;
		rows = hash_create("lsm index build", 1024, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		lsm_touch_clear(&touch);
		lsm_build_scan(rel, view, generation, rows, &touch);
		lsm_table_change(shared);
		lsm_memindex_reset(index, LSM_INDEX_ABSENT, 0);
		lsm_touch_share(&index->touched, &touch);
		hash_seq_init(&scan, rows);
		while ((row = hash_seq_search(&scan)) != NULL)
		{
			uint32		node = lsm_memindex_reserve(index, row->root);

			while (node == 0 && lsm_table_make_room(shared))
				node = lsm_memindex_reserve(index, row->root);
			if (node == 0)
			{
				hash_seq_term(&scan);
				lsm_memindex_reset(index, LSM_INDEX_ABSENT, 0);
				lsm_table_changed(shared);
				ereport(ERROR,
						(errcode(ERRCODE_OUT_OF_MEMORY),
						 errmsg("out of memory for the memtable index of table \"%s\"",
								RelationGetRelationName(rel)),
						 errhint("Increase lsm.memtable_size.")));
			}
			lsm_memindex_publish(index, node, row->root, row->newest);
			lsm_memindex_count(index, row->kind);
		}
		hash_destroy(rows);
		index->state = LSM_INDEX_READY;
		index->generation = generation;
		lsm_table_changed(shared);
	}
	LWLockRelease(&shared->gen_lock);
}

/*
 * Bring the memtables in order for who is going to ask them for ranges, a slice at a time, so
 * that gen_lock is not held for long.  Others may publish more meanwhile, or somebody build the
 * indexes anew: it only spares time.  No LWLock is held before or after.
 */
void
lsm_rowlog_order(LsmTableShared *shared)
{
	bool		more;

	do
	{
		CHECK_FOR_INTERRUPTS();
		more = false;
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		if (shared->generation != 0 && lsm_rowlog_ready(shared))
		{
			more = lsm_memindex_order_some(lsm_table_index(shared, shared->generation));
			if (shared->flushing != 0)
				more |= lsm_memindex_order_some(lsm_table_index(shared, shared->flushing));
		}
		LWLockRelease(&shared->gen_lock);
	} while (more);
}
