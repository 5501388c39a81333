/*-------------------------------------------------------------------------
 *
 * lsm_vm.c
 *	  The visibility map: logical blocks whose rows an index-only scan need not
 *	  look at.
 *
 * It is the server's fork in the server's format, but a bit is that of a root LB,
 * not of a block of the file: index-only scans look it up by the TIDs that
 * indexes hold.  A bit says that each root of the LB that any index still holds
 * is a row that every snapshot sees, in whatever version.  (A change that keeps
 * the root changes no indexed column, so that it does not matter here.)
 *
 * VACUUM sets bits, after it has cleaned the indexes: of LBs that lie in segments
 * visible to all, where no increment and no memtable has a DELETE or MOVED record
 * and no dead list a root.  It does so with gen_lock held exclusively, in the
 * view in which it has looked.  Who ends a row clears the bit in the WAL record of
 * the DELETE or MOVED, with gen_lock held shared.  So of the two one sees the
 * other, and there is no bit over a row that has ended (I14).
 *
 * LOCKING
 *	  Stripe, gen_lock, row-log pages, then the page of the map.
 *
 * CRASH SAFETY
 *	  Setting is a record of its own.  A standby's snapshots that do not see the
 *	  rows were cancelled when the segments became visible to all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xloginsert.h"
#include "lsm_ahead.h"
#include "lsm_mvcc.h"
#include "lsm_stop.h"
#include "lsm_vmpage.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

/* LBs that are looked at under one hold of gen_lock. */
#define LSM_VM_BATCH			1024

/* Of so many LBs at a time VACUUM knows where rows end: by a bit for each, 16 MB. */
int			lsm_debug_vm_lbs = LSM_VM_WINDOW;

/* A run of LBs, both ends included. */
typedef struct LsmVmRun
{
	BlockNumber lo;
	BlockNumber hi;
} LsmVmRun;

typedef struct LsmVmUpdate
{
	Relation	rel;
	LsmTable   *table;
	LsmVmRun	window;			/* the LBs that the rest is about */
	uint64		counter;		/* and the view */
	int			nruns;			/* LBs in segments visible to all */
	LsmVmRun   *runs;
	int			nuids;			/* increments and dead lists that were read */
	uint64	   *uids;
	uint64	   *barred;			/* bits of LBs that may not be set */
} LsmVmUpdate;

/* ---- where bits may be set ---- */

static inline bool
lsm_vm_meets(const LsmVmUpdate *update, LsmTid first, LsmTid last)
{
	return LSM_TID_LB(first) <= update->window.hi && LSM_TID_LB(last) >= update->window.lo;
}

static void
lsm_vm_bar(LsmVmUpdate *update, LsmTid root)
{
	BlockNumber bit = LSM_TID_LB(root) - update->window.lo;

	if (lsm_vm_meets(update, root, root))
		update->barred[bit / 64] |= UINT64CONST(1) << (bit % 64);
}

static bool
lsm_vm_is_barred(const LsmVmUpdate *update, BlockNumber lb)
{
	BlockNumber bit = lb - update->window.lo;

	return (update->barred[bit / 64] & (UINT64CONST(1) << (bit % 64))) != 0;
}

/* Bar the roots that end in an increment; false if the view is not the newest. */
static bool
lsm_vm_read_increment(LsmVmUpdate *update, const LsmManifestEntry *entry)
{
	LsmSegmentReader *reader = lsm_reader_get(update->rel, update->table, entry);
	LsmSegmentFeed ahead = {0};
	uint32		first;

	if (reader == NULL)
		return false;
	first = lsm_segment_find_block(reader, LSM_TID(update->window.lo, 0));
	for (uint32 blockno = first; blockno < entry->blocks; blockno++)
	{
		LsmCachedBlock *cached = lsm_block_pin_ahead(update->rel, update->table, entry, blockno,
													 lsm_segment_feed(&ahead,
																	  LSM_READER_COMPACTION,
																	  entry, blockno,
																	  entry->blocks));
		bool		beyond;

		if (cached == NULL)
			return false;
		CHECK_FOR_INTERRUPTS();
		for (int row = 0; row < lsm_block_rows(cached->block); row++)
		{
			LsmRowHead	head;
			int			kind;

			lsm_block_head(cached->block, row, &head);
			kind = LSM_REC_KIND(head.info);
			if (kind == LSM_REC_DELETE || kind == LSM_REC_MOVED)
				lsm_vm_bar(update, head.root);
		}
		beyond = LSM_TID_LB(lsm_block_root(cached->block, lsm_block_rows(cached->block) - 1)) >
			update->window.hi;
		lsm_block_unpin_now(cached);
		if (beyond)
			break;
	}
	lsm_ahead_end(&ahead.feed);
	return true;
}

/* Bar the roots of a dead list; false if the view is not the newest. */
static bool
lsm_vm_read_dead(LsmVmUpdate *update, const LsmManifestEntry *entry)
{
	uint64		n;
	LsmTid	   *roots;

	if (!lsm_reader_dead_list(update->rel, update->table, entry, &roots, &n))
		return false;
	for (uint64 i = 0; i < n; i++)
		lsm_vm_bar(update, roots[i]);
	if (roots != NULL)
		pfree(roots);
	return true;
}

/* Read the increments and dead lists of the view that were not read before. */
static bool
lsm_vm_read_ended(LsmVmUpdate *update, LsmView *view)
{
	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry *entry = &view->entries[i];
		uint64		uid = entry->uid;
		bool		known = false;
		bool		good;

		if (entry->type != LSM_ENTRY_SEGMENT ||
			(entry->kind != LSM_SEGKIND_INCREMENT && entry->kind != LSM_SEGKIND_DEAD) ||
			!lsm_vm_meets(update, entry->first_tid, entry->last_tid))
			continue;
		for (int j = 0; j < update->nuids && !known; j++)
			known = update->uids[j] == uid;
		if (known)
			continue;
		good = entry->kind == LSM_SEGKIND_DEAD ? lsm_vm_read_dead(update, entry) :
			lsm_vm_read_increment(update, entry);
		if (!good)
			return false;
		update->uids = repalloc(update->uids, (update->nuids + 1) * sizeof(uint64));
		update->uids[update->nuids++] = uid;
	}
	return true;
}

/* Does the row log have roots of that LB, or may it get some? */
static bool
lsm_vm_in_rowlog(LsmView *view, BlockNumber lb)
{
	LsmRowRange *range = lsm_view_range(view, lb);

	return range != NULL && range->kind == LSM_RANGE_ROOT;
}

/*
 * The LBs of segments that are visible to all.  Segments may share the LB at
 * their border: a segment that is not visible to all bars those.
 */
static void
lsm_vm_find_runs(LsmVmUpdate *update, LsmView *view)
{
	update->nruns = 0;
	if (update->runs != NULL)
		pfree(update->runs);
	update->runs = palloc(Max(view->nbase, 1) * sizeof(LsmVmRun));
	for (int i = 0; i < view->nbase; i++)
	{
		LsmManifestEntry *entry = view->base[i];

		if (!lsm_vm_meets(update, entry->first_tid, entry->last_tid))
			continue;
		if (entry->flags & LSM_SEGFLAG_ALL_VISIBLE)
		{
			update->runs[update->nruns].lo = Max(LSM_TID_LB(entry->first_tid), update->window.lo);
			update->runs[update->nruns].hi = Min(LSM_TID_LB(entry->last_tid), update->window.hi);
			update->nruns++;
		}
		else
		{
			lsm_vm_bar(update, entry->first_tid);
			lsm_vm_bar(update, entry->last_tid);
		}
	}
}

/* Find out what the newest view says. */
static void
lsm_vm_look(LsmVmUpdate *update)
{
	for (;;)
	{
		LsmView    *view = lsm_view_get(update->rel, update->table);

		update->counter = view->counter;
		if (!lsm_vm_read_ended(update, view))
			continue;
		view = lsm_view_get(update->rel, update->table);
		if (view->counter != update->counter)
			continue;
		lsm_vm_find_runs(update, view);
		break;
	}
}

/* Begin with the window whose first LB is the first from one on that may get a bit; false: none. */
static bool
lsm_vm_begin_window(LsmVmUpdate *update, uint64 from)
{
	LsmView    *view = lsm_view_get(update->rel, update->table);
	LsmTid		first = LSM_INVALID_TID;
	uint64		last = 0;

	for (int i = 0; i < view->nbase; i++)
	{
		const LsmManifestEntry *entry = view->base[i];

		if (!(entry->flags & LSM_SEGFLAG_ALL_VISIBLE) || LSM_TID_LB(entry->last_tid) < from)
			continue;
		if (first == LSM_INVALID_TID)
			first = entry->first_tid;
		last = LSM_TID_LB(entry->last_tid);
	}
	if (first == LSM_INVALID_TID)
		return false;
	update->window.lo = (BlockNumber) Max(LSM_TID_LB(first), from);
	update->window.hi = (BlockNumber) Min(last, (uint64) update->window.lo + lsm_debug_vm_lbs - 1);
	update->nuids = 0;
	if (update->barred != NULL)
		pfree(update->barred);
	update->barred = palloc0(((Size) (update->window.hi - update->window.lo) / 64 + 1) *
							 sizeof(uint64));
	return true;
}

/* ---- setting them ---- */

/* The first LB from lb to hi without its bit; hi + 1 if there is none. */
static BlockNumber
lsm_vm_next_unset(Page page, BlockNumber lb, BlockNumber hi)
{
	while (lb <= hi && lsm_vm_page_test(page, lb))
		lb++;
	return lb;
}

/* Log the runs, all on one page of the map, and set their bits. */
static void
lsm_vm_set_runs(LsmVmUpdate *update, Buffer buffer, xl_lsm_visible_run *runs, int nruns)
{
	Page		page = BufferGetPage(buffer);

	START_CRIT_SECTION();
	for (int i = 0; i < nruns; i++)
		lsm_vm_page_set(page, runs[i].lb, runs[i].nlbs);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(update->rel))
	{
		xl_lsm_visible xlrec = {0};
		XLogRecPtr	lsn;

		xlrec.version = LSM_WAL_VERSION;
		xlrec.nruns = nruns;
		XLogBeginInsert();
		XLogRegisterData((char *) &xlrec, sizeof(xlrec));
		XLogRegisterData((char *) runs, nruns * sizeof(xl_lsm_visible_run));
		/* not REGBUF_STANDARD: the map lies where that one has free space */
		XLogRegisterBuffer(0, buffer, 0);
		lsn = XLogInsert(LSM_RMGR_ID, XLOG_LSM_VISIBLE);
		PageSetLSN(page, lsn);
	}
	END_CRIT_SECTION();
}

/*
 * Set the bits of LBs from lo to hi, all on the page, that may be set.  False:
 * the view has changed, look again.  gen_lock is held exclusively.
 */
static bool
lsm_vm_set_batch(LsmVmUpdate *update, Buffer buffer, BlockNumber lo, BlockNumber hi)
{
	LsmTable   *table = update->table;
	LsmTableShared *shared = table->shared;
	xl_lsm_visible_run runs[LSM_VM_BATCH / 2 + 1];
	int			nruns = 0;
	bool		changed[2];

	if (!lsm_view_current(table) || table->view->counter != update->counter)
		return false;
	for (int i = 0; i < 2; i++)
	{
		uint32		generation = i == 0 ? shared->generation : shared->flushing;

		changed[i] = generation != 0 &&
			lsm_memindex_any(lsm_table_index(shared, generation), LSM_TID(lo, 0),
							 LSM_TID(hi, 0xFFFF));
	}
	for (BlockNumber lb = lo; lb <= hi; lb++)
	{
		bool		good = !lsm_vm_page_test(BufferGetPage(buffer), lb) &&
		!lsm_vm_is_barred(update, lb) && !lsm_vm_in_rowlog(table->view, lb);

		for (int i = 0; i < 2 && good; i++)
			if (changed[i] &&
				lsm_memindex_any(lsm_table_index(shared, i == 0 ? shared->generation :
												 shared->flushing),
								 LSM_TID(lb, 0), LSM_TID(lb, 0xFFFF)))
				good = false;
		if (!good)
			continue;
		if (nruns > 0 && runs[nruns - 1].lb + runs[nruns - 1].nlbs == lb)
			runs[nruns - 1].nlbs++;
		else
		{
			runs[nruns].lb = lb;
			runs[nruns].nlbs = 1;
			nruns++;
		}
	}
	if (nruns > 0)
	{
		BlockNumber end = lsm_vm_page_end(runs[nruns - 1].lb);

		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		lsm_vm_set_runs(update, buffer, runs, nruns);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		if (shared->vm_lbs < end)
			shared->vm_lbs = end;
	}
	return true;
}

/* Set those of a window.  False: flushes come faster than what they write can be read. */
static bool
lsm_vm_update_window(LsmVmUpdate *update, Buffer *buffer)
{
	Relation	rel = update->rel;
	LsmTable   *table = update->table;
	int			attempts = 0;
	uint64		next = 0;		/* LBs before it are done */

	lsm_vm_look(update);
	for (int i = 0; i < update->nruns;)
	{
		LsmVmRun   *run = &update->runs[i];
		BlockNumber lo = (BlockNumber) Max(next, run->lo);
		BlockNumber hi;
		bool		ready;
		bool		done = false;

		CHECK_FOR_INTERRUPTS();
		if (next > run->hi)
		{
			i++;
			continue;
		}
		visibilitymap_pin(rel, lo, buffer);
		hi = Min(run->hi, lsm_vm_page_end(lo) - 1);
		lo = lsm_vm_next_unset(BufferGetPage(*buffer), lo, hi);
		if (lo > hi)
		{
			next = (uint64) hi + 1;
			continue;
		}
		hi = Min(hi, lo + LSM_VM_BATCH - 1);
		LSM_STOP("vm-before-set");
		lsm_rowlog_order(table->shared);
		LWLockAcquire(&table->shared->gen_lock, LW_EXCLUSIVE);
		ready = lsm_rowlog_ready(table->shared);
		if (ready)
			done = lsm_vm_set_batch(update, *buffer, lo, hi);
		LWLockRelease(&table->shared->gen_lock);
		if (done)
		{
			next = (uint64) hi + 1;
			continue;
		}
		if (++attempts > 100)
			return false;
		if (!ready)
			lsm_rowlog_build_index(rel, table);
		lsm_vm_look(update);
		i = 0;
	}
	return true;
}

/*
 * VACUUM's part: set the bits that may be set, window by window, so that its memory does not
 * grow with the table.  No lock is held before or after but the table's; gen_lock is held for a
 * batch at a time.
 */
void
lsm_vm_update(Relation rel, LsmTable *table)
{
	LsmVmUpdate update = {.rel = rel,.table = table,.uids = palloc(sizeof(uint64))};
	Buffer		buffer = InvalidBuffer;
	uint64		next = 0;

	while (lsm_vm_begin_window(&update, next) && lsm_vm_update_window(&update, &buffer))
		next = (uint64) update.window.hi + 1;
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	pfree(update.uids);
	if (update.runs != NULL)
		pfree(update.runs);
	if (update.barred != NULL)
		pfree(update.barred);
}
