/*-------------------------------------------------------------------------
 *
 * lsm_scan_changes.c
 *	  What a scan's snapshot sees of rows that the memtable has records of.
 *
 * In a small table that is updated all the time every row has such records.  To
 * look each of them up by its root costs a search of the index, a visit of its
 * page, and a search for its bottom.  A scan has better: it walks the index along
 * its unit when it marks the rows, under one gen_lock, and notes where their chains
 * begin; then it goes through the chains of some rows at a time page by page, so
 * that each page is locked once for all of them that are there; and the bottom it
 * has at hand.
 *
 * Why that is right, without a look at the index for each row: the snapshot is older
 * than the marks, so what has been added to a row since is not seen (an own change
 * has a later command id).  The chains, the unit and the pages belong to the view
 * that was the newest when the rows were marked.  Once it is not the newest
 * any more, rows that have not been judged are fetched by root, as their xids may
 * not be known any more (I8).  What has been copied stays good: a DELTA that was in that
 * view's memtable builds on the bottom that this view has, or on one before it (I9).
 *
 * Rows are fetched by root as well when a page does not prove (I5), when increments
 * have to be asked, when a DELTA builds on another version than the bottom, and
 * when a record was spilled.  Serializable readers do so with all: they lock versions, and
 * have to look again after that (I10).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "lsm_am.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/* Rows that are looked at together: as far ahead as a scan goes for them. */
#define LSM_CHANGE_WINDOW		64

/* Room for copies of their records; one fits in any case. */
#define LSM_CHANGE_BUF_BYTES	(4 * BLCKSZ)

StaticAssertDecl(LSM_CHANGE_BUF_BYTES >= LSM_MAX_RECORD, "a record must fit");

/* The rows being looked at, and how much of the room is used. */
typedef struct LsmChangeWindow
{
	int			first;
	int			last;			/* inclusive */
	int			used;
	bool		full;			/* a record did not fit: the next window has it */
} LsmChangeWindow;

void
lsm_scan_free_changes(LsmScan scan)
{
	if (scan->changes != NULL)
		pfree(scan->changes);
	if (scan->change_buf != NULL)
		pfree(scan->change_buf);
}

static LsmScanChange *
lsm_changes_new(LsmScan scan)
{
	MemoryContext context = GetMemoryChunkContext(scan);

	if (scan->nchanges == scan->maxchanges)
	{
		Size		n = Max(scan->maxchanges * 2, 128);

		if (scan->changes == NULL)
			scan->changes = MemoryContextAllocHuge(context, n * sizeof(LsmScanChange));
		else
			scan->changes = repalloc_huge(scan->changes, n * sizeof(LsmScanChange));
		scan->maxchanges = n;
	}
	return &scan->changes[scan->nchanges++];
}

/*
 * Mark the rows of the unit that are among n sorted roots of a memtable index, whose
 * newest records are in heads.  gen_lock is held.
 */
void
lsm_scan_add_changes(LsmScan scan, const LsmTid *roots, const LsmTid *heads, int n)
{
	Snapshot	snapshot = scan->base.rs_snapshot;
	bool		follow = snapshot != NULL && IsMVCCSnapshot(snapshot) && !IsolationIsSerializable();
	int			at = 0;

	for (int i = 0; i < n && at < scan->nrows; i++)
	{
		LsmScanRow *row;
		LsmScanChange *change;

		at = lsm_scan_find_row(scan, roots[i], at);
		if (at >= scan->nrows || scan->rows[at].root != roots[i])
			continue;
		row = &scan->rows[at];
		if (row->change >= 0)
		{
			/* the active generation has records of it too */
			scan->changes[row->change].older = heads[i];
			continue;
		}
		if (follow)
		{
			row->change = scan->nchanges;
			change = lsm_changes_new(scan);
			change->root = roots[i];
			change->record = heads[i];
			change->older = LSM_INVALID_TID;
			change->seq = 0;
			change->row = at;
			change->state = LSM_CHANGE_OPEN;
			change->increments = row->changed;
			change->xmax = 0;
			change->cmax = 0;
		}
		row->changed = true;
	}
}

/* The chain of the row goes on with an older record, or ends. */
static void
lsm_change_descend(LsmScan scan, LsmScanChange *change, LsmTid prev)
{
	change->record = prev;
	if (change->record != LSM_INVALID_TID)
		return;
	change->record = change->older;
	change->older = LSM_INVALID_TID;
	change->seq = 0;
	if (change->record != LSM_INVALID_TID)
		return;
	if (change->increments)
		change->state = LSM_CHANGE_FETCH;
	else
		change->state = lsm_scan_sees(scan, &scan->rows[change->row]) ?
			LSM_CHANGE_BOTTOM : LSM_CHANGE_GONE;
}

/*
 * Does the snapshot see a record?  Notes in it what became of its xid; *dirty: the
 * page has to be made so.  The processes that run are not looked through
 * for xids that are running for the snapshot.
 */
static bool
lsm_change_sees(LsmScan scan, Buffer buffer, LsmRecord *record, LsmRowHead *head, bool *dirty)
{
	Snapshot	snapshot = scan->base.rs_snapshot;
	TransactionId xid = (TransactionId) head->xid;

	if (!(head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED)) &&
		!TransactionIdIsCurrentTransactionId(xid))
	{
		uint16		hint;

		if (XidInMVCCSnapshot(xid, snapshot))
			return false;
		hint = TransactionIdDidCommit(xid) ? LSM_REC_COMMITTED : LSM_REC_ABORTED;
		if (lsm_rowlog_hint_record(buffer, record, hint))
			*dirty = true;
		head->info |= hint;
	}
	return lsm_visible_mvcc(head, snapshot);
}

/* The version that the snapshot sees: copy it. */
static void
lsm_change_take(LsmScan scan, LsmChangeWindow *window, LsmScanChange *change,
				const LsmRecord *record, Size len)
{
	if ((record->info & LSM_REC_SPILLED) ||
		((record->info & LSM_REC_DELTA) && LSM_TID_IS_VERSION(record->base)))
	{
		change->state = LSM_CHANGE_FETCH;
		return;
	}
	if (window->used + MAXALIGN(len) > LSM_CHANGE_BUF_BYTES)
	{
		window->full = true;
		return;
	}
	memcpy(scan->change_buf + window->used, record, len);
	change->at = window->used;
	change->len = len;
	change->window = scan->change_window;
	window->used += MAXALIGN(len);
	change->state = (record->info & LSM_REC_DELTA) ? LSM_CHANGE_DELTA : LSM_CHANGE_FULL;
}

/* Follow a row's chain as far as it stays on a locked page. */
static void
lsm_change_follow(LsmScan scan, LsmChangeWindow *window, LsmScanChange *change, Buffer buffer,
				  bool *dirty)
{
	Page		page = BufferGetPage(buffer);
	BlockNumber lb = LSM_TID_LB(change->record);

	while (change->state == LSM_CHANGE_OPEN && LSM_TID_LB(change->record) == lb && !window->full)
	{
		OffsetNumber offset = LSM_TID_OFFSET(change->record);
		LsmRecord  *record;
		LsmRowHead	head;
		Size		len;
		int			kind;

		/* whoever fetches the row will say what is wrong with it */
		change->state = LSM_CHANGE_FETCH;
		if (offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page))
			return;
		len = ItemIdGetLength(PageGetItemId(page, offset));
		if (len < SizeOfLsmRecord || len > LSM_MAX_RECORD ||
			ItemIdGetOffset(PageGetItemId(page, offset)) + len > BLCKSZ)
			return;
		record = (LsmRecord *) PageGetItem(page, PageGetItemId(page, offset));
		kind = LSM_REC_KIND(record->info);
		if (record->root != change->root || kind == LSM_REC_INSERT ||
			(change->seq != 0 && record->seq >= change->seq))
			return;
		change->state = LSM_CHANGE_OPEN;
		change->seq = record->seq;

		lsm_record_head(record, change->record, &head);
		if (kind == LSM_REC_LOCK)
		{
			lsm_stat_record(&scan->table->stat, change->root, true);
			if (change->xmax == 0 && lsm_xid_state(&head) != LSM_XID_ABORTED)
			{
				change->xmax = head.xid;
				change->cmax = head.cid;
			}
			lsm_change_descend(scan, change, record->prev);
			continue;
		}
		if (!lsm_change_sees(scan, buffer, record, &head, dirty))
		{
			lsm_stat_record(&scan->table->stat, change->root, true);
			if (!(head.info & LSM_REC_ABORTED))
			{
				change->xmax = head.xid;
				change->cmax = head.cid;
			}
			lsm_change_descend(scan, change, record->prev);
			continue;
		}
		if (kind == LSM_REC_UPDATE)
			lsm_change_take(scan, window, change, record, len);
		else
			change->state = LSM_CHANGE_GONE;
		if (change->state != LSM_CHANGE_OPEN && change->state != LSM_CHANGE_FETCH)
			lsm_stat_record(&scan->table->stat, change->root, true);
	}
}

/* Visit the page of a row's next record, for all rows of the window that are there. */
static void
lsm_changes_visit(LsmScan scan, LsmChangeWindow *window, int at)
{
	Relation	rel = scan->base.rs_rd;
	LsmView    *view = scan->table->view;
	BlockNumber lb = LSM_TID_LB(scan->changes[at].record);
	LsmRowRange *range = lsm_view_range(view, lb);
	Buffer		buffer;
	bool		dirty = false;

	CHECK_FOR_INTERRUPTS();
	buffer = range == NULL ? InvalidBuffer : lsm_rowlog_lock_shared(rel, view, range, lb);
	if (!BufferIsValid(buffer))
	{
		scan->changes[at].state = LSM_CHANGE_FETCH;
		return;
	}
	for (; at <= window->last && !window->full; at++)
	{
		LsmScanChange *change = &scan->changes[at];

		if (change->state == LSM_CHANGE_OPEN && LSM_TID_LB(change->record) == lb)
			lsm_change_follow(scan, window, change, buffer, &dirty);
	}
	if (dirty)
		MarkBufferDirtyHint(buffer, true);
	UnlockReleaseBuffer(buffer);
}

/* Is the view in which the rows were marked still the newest, and ours? */
static bool
lsm_changes_current(LsmScan scan)
{
	return lsm_view_current(scan->table) &&
		scan->table->view->epoch == scan->marked_epoch &&
		scan->table->view->counter == scan->marked_counter;
}

/* Look at a row and those that come next in the scan's direction. */
static void
lsm_changes_look(LsmScan scan, int at)
{
	LsmChangeWindow window = {0};

	if (!lsm_changes_current(scan))
		return;

	/* copies of the last window that were not used are lost */
	scan->change_window++;
	if (scan->change_buf == NULL)
		scan->change_buf = MemoryContextAlloc(GetMemoryChunkContext(scan), LSM_CHANGE_BUF_BYTES);
	window.first = scan->forward ? at : Max(at - LSM_CHANGE_WINDOW + 1, 0);
	window.last = scan->forward ? Min(at + LSM_CHANGE_WINDOW, scan->nchanges) - 1 : at;

	/* this row first, so that there is room for it */
	while (scan->changes[at].state == LSM_CHANGE_OPEN && !window.full)
		lsm_changes_visit(scan, &window, at);
	for (int i = window.first; i <= window.last && !window.full; i++)
		while (scan->changes[i].state == LSM_CHANGE_OPEN && !window.full)
			lsm_changes_visit(scan, &window, i);
}

/*
 * Store what the scan's snapshot, an MVCC one, sees of a row that has an entry in
 * changes; false: nothing.
 */
bool
lsm_scan_deliver_change(LsmScan scan, const LsmScanRow *row, TupleTableSlot *slot)
{
	Relation	rel = scan->base.rs_rd;
	LsmStatLocal *stat = &scan->table->stat;
	LsmScanChange *change;
	LsmVersion	version;

	/* the scan has met its bottom already */
	lsm_stat_record(stat, row->root, scan->cached == NULL);
	if (!scan->have_unit || row->change >= scan->nchanges ||
		scan->changes[row->change].root != row->root)
		return lsm_row_fetch(rel, scan->table, row->root, scan->base.rs_snapshot, slot, NULL);
	if (scan->changes[row->change].state == LSM_CHANGE_OPEN)
		lsm_changes_look(scan, row->change);
	change = &scan->changes[row->change];
	switch (change->state)
	{
		case LSM_CHANGE_GONE:
			return false;
		case LSM_CHANGE_OPEN:
		case LSM_CHANGE_FETCH:
			return lsm_row_fetch(rel, scan->table, row->root, scan->base.rs_snapshot, slot,
								 NULL);
		case LSM_CHANGE_BOTTOM:
			{
				LsmRowHead	head;

				lsm_scan_row_head(scan, row, &head);
				lsm_scan_store_bottom(scan, row, slot, change->xmax, change->cmax);
				lsm_slot_set_name(slot, lsm_version_name(&head));
				lsm_stat_row(stat, row->root, scan->cached == NULL);
				return true;
			}
		case LSM_CHANGE_FULL:
		case LSM_CHANGE_DELTA:
			if (change->window == scan->change_window)
				break;
			return lsm_row_fetch(rel, scan->table, row->root, scan->base.rs_snapshot, slot,
								 NULL);
	}
	version.record = (LsmRecord *) (scan->change_buf + change->at);
	version.record_len = change->len;
	version.cached = NULL;
	version.bottom = false;
	lsm_record_head(version.record, change->record, &version.head);
	if (change->state == LSM_CHANGE_FULL)
		lsm_slot_store(slot, rel, &version, change->xmax, change->cmax);
	else
	{
		lsm_slot_store_delta(slot, rel, &version);
		lsm_scan_store_bottom(scan, row, slot, change->xmax, change->cmax);
	}
	lsm_slot_set_name(slot, lsm_version_name(&version.head));
	lsm_stat_row(stat, row->root, true);
	return true;
}
