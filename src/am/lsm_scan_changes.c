/*-------------------------------------------------------------------------
 *
 * lsm_scan_changes.c
 *	  What a scan's snapshot sees of rows that have other records than their bottom.
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
 * Batch scans (lsm_batch.c) note as well where increments have records of a block's changed
 * rows; these come after the chains, from the newest increment on, out of pinned blocks.
 *
 * Rows are fetched by root as well when a page does not prove (I5), when increments
 * have to be asked whose places were not noted, when a DELTA builds on another version
 * than the bottom, and when a record was spilled.  Serializable readers do so with
 * all: they lock versions, and have to look again after that (I10).
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
#define LSM_CHANGE_WINDOW		256

/* Room for copies of their records; one fits in any case. */
#define LSM_CHANGE_BUF_BYTES	(4 * BLCKSZ)

StaticAssertDecl(LSM_CHANGE_BUF_BYTES >= LSM_MAX_RECORD, "a record must fit");

/* The rows being looked at, and how much of the room is used. */
typedef struct LsmChangeWindow
{
	int			first;
	int			last;			/* inclusive */
	int			used;
	bool		full;			/* a record did not fit: the next window has
								 * it */
} LsmChangeWindow;

void
lsm_scan_free_changes(LsmScan scan)
{
	if (scan->changes != NULL)
		pfree(scan->changes);
	if (scan->change_buf != NULL)
		pfree(scan->change_buf);
	if (scan->places != NULL)
		pfree(scan->places);
	scan->changes = NULL;
	scan->change_buf = NULL;
	scan->places = NULL;
	scan->nchanges = scan->maxchanges = 0;
	scan->nplaces = scan->maxplaces = 0;
}

/* Of a row of the unit: a chain that begins with that record. */
static LsmScanChange *
lsm_changes_new(LsmScan scan, int at, LsmTid record)
{
	LsmScanRow *row = &scan->rows[at];
	LsmScanChange *change;
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
	row->change = scan->nchanges;
	change = &scan->changes[scan->nchanges++];
	change->root = row->root;
	change->record = record;
	change->older = LSM_INVALID_TID;
	change->seq = 0;
	change->row = at;
	change->state = record == LSM_INVALID_TID ? LSM_CHANGE_PLACES : LSM_CHANGE_OPEN;
	change->increments = row->changed;
	change->place = -1;
	change->xmax = 0;
	change->cmax = 0;
	return change;
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
			(void) lsm_changes_new(scan, at, heads[i]);
		row->changed = true;
	}
}

/* ---- increments ---- */

/* Is the view in which the rows were marked still the newest, and ours? */
static bool
lsm_changes_current(LsmScan scan)
{
	return lsm_view_current(scan->table) &&
		scan->table->view->epoch == scan->marked_epoch &&
		scan->table->view->counter == scan->marked_counter;
}

/* An increment has records of a root, of which that row is the newest. */
void
lsm_scan_add_place(LsmScan scan, LsmTid root, int increment, uint32 blockno, int row)
{
	LsmScanPlace *place;

	if (scan->nplaces == scan->maxplaces)
	{
		Size		n = Max(scan->maxplaces * 2, 128);

		if (scan->places == NULL)
			scan->places = MemoryContextAllocHuge(GetMemoryChunkContext(scan),
												  n * sizeof(LsmScanPlace));
		else
			scan->places = repalloc_huge(scan->places, n * sizeof(LsmScanPlace));
		scan->maxplaces = n;
	}
	place = &scan->places[scan->nplaces++];
	place->root = root;
	place->increment = increment;
	place->blockno = blockno;
	place->row = row;
}

/* Mark the rows that have places: each gets a list of them, the newest first. */
void
lsm_scan_add_places(LsmScan scan)
{
	for (int i = scan->nplaces - 1; i >= 0; i--)
	{
		LsmScanPlace *place = &scan->places[i];
		int			at = lsm_scan_find_row(scan, place->root, 0);
		LsmScanChange *change;

		if (at >= scan->nrows || scan->rows[at].root != place->root)
			continue;
		if (scan->rows[at].change < 0)
			(void) lsm_changes_new(scan, at, LSM_INVALID_TID);
		change = &scan->changes[scan->rows[at].change];
		place->next = change->place;
		change->place = i;
		scan->rows[at].changed = true;
	}
}

/* Let go of the block that was looked at last. */
void
lsm_scan_drop_place(LsmScan scan)
{
	if (scan->place_cached != NULL)
		lsm_block_unpin(scan->place_cached, scan->place_holder);
	scan->place_cached = NULL;
}

/* The block of a place, of the view in which rows were marked; NULL: it is old. */
static LsmCachedBlock *
lsm_change_pin(LsmScan scan, const LsmScanPlace *place)
{
	const LsmManifestEntry *entry = scan->table->view->increments[place->increment];

	if (scan->place_cached != NULL && lsm_pin_holder_is_now(&scan->place_holder) &&
		scan->place_uid == entry->uid && scan->place_blockno == place->blockno)
		return scan->place_cached;
	lsm_scan_drop_place(scan);
	scan->place_uid = entry->uid;
	scan->place_blockno = place->blockno;
	scan->place_holder = lsm_pin_holder();
	scan->place_cached = lsm_block_pin_for(scan->base.rs_rd, scan->table, entry, place->blockno,
										   LSM_READER_SCAN);
	return scan->place_cached;
}

/* The record in that row of a place's block; false: the view is old. */
static bool
lsm_change_head(LsmScan scan, const LsmScanPlace *place, LsmCachedBlock *cached, int row,
				LsmRowHead *head)
{
	lsm_block_head(cached->block, row, head);
	if (head->xid != 0 && !(head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED)))
	{
		const LsmManifestEntry *entry = scan->table->view->increments[place->increment];
		LsmSegmentReader *reader = lsm_reader_get(scan->base.rs_rd, scan->table, entry);

		if (reader == NULL)
			return false;
		lsm_head_resolve(entry, reader, head);
		if (!(head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED)))
			head->info |= lsm_hint_for(head);
	}
	return true;
}

/* The snapshot sees an UPDATE at a place; last: no record of the row is older. */
static void
lsm_change_take_place(LsmScanChange *change, int place, int row, const LsmRowHead *head,
					  bool last)
{
	change->place = place;
	change->at = row;
	if (!(head->info & LSM_REC_DELTA))
		change->state = LSM_CHANGE_PLACE_FULL;
	else if (last || !LSM_TID_IS_VERSION(head->base))
		change->state = LSM_CHANGE_PLACE_DELTA;
}

/*
 * Look for what the snapshot sees of a row in increments, and below.  If its records reach into
 * another block, or a DELTA builds on another version than the bottom, it is fetched.
 */
static void
lsm_change_places(LsmScan scan, LsmScanChange *change)
{
	change->state = LSM_CHANGE_FETCH;
	for (int i = change->place; i >= 0; i = scan->places[i].next)
	{
		const LsmScanPlace *place = &scan->places[i];
		LsmCachedBlock *cached = lsm_changes_current(scan) ? lsm_change_pin(scan, place) : NULL;
		int			rows;

		if (cached == NULL)
			return;
		rows = lsm_block_rows(cached->block);
		for (int row = place->row;; row++)
		{
			LsmRowHead	head;
			int			kind;

			if (row >= rows)
				return;
			if (lsm_block_root(cached->block, row) != change->root)
				break;
			if (!lsm_change_head(scan, place, cached, row, &head))
				return;
			lsm_stat_record(&scan->table->stat, change->root, false);
			kind = LSM_REC_KIND(head.info);
			if (kind != LSM_REC_LOCK &&
				(head.xid == 0 || lsm_visible_mvcc(&head, scan->base.rs_snapshot)))
			{
				bool		last = place->next < 0 && row + 1 < rows &&
				lsm_block_root(cached->block, row + 1) != change->root;

				if (kind == LSM_REC_UPDATE)
					lsm_change_take_place(change, i, row, &head, last);
				else
					change->state = LSM_CHANGE_GONE;
				return;
			}
			if (kind == LSM_REC_LOCK ? change->xmax == 0 && lsm_xid_state(&head) != LSM_XID_ABORTED :
				!(head.info & LSM_REC_ABORTED))
			{
				change->xmax = head.xid;
				change->cmax = head.cid;
			}
		}
	}
	if (lsm_changes_current(scan))
		change->state = lsm_scan_sees(scan, &scan->rows[change->row]) ?
			LSM_CHANGE_BOTTOM : LSM_CHANGE_GONE;
}

/* ---- the memtable ---- */

/* The chain of the row goes on with an older record, or ends. */
static void
lsm_change_descend(LsmScanChange *change, LsmTid prev)
{
	change->record = prev;
	if (change->record != LSM_INVALID_TID)
		return;
	change->record = change->older;
	change->older = LSM_INVALID_TID;
	change->seq = 0;
	if (change->record != LSM_INVALID_TID)
		return;

	/* the bottom is not judged here: that may open its segment, and a page is locked */
	change->state = change->place < 0 && change->increments ? LSM_CHANGE_FETCH : LSM_CHANGE_PLACES;
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
			lsm_change_descend(change, record->prev);
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
			lsm_change_descend(change, record->prev);
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
	if (scan->changes[at].state == LSM_CHANGE_PLACES)
		lsm_change_places(scan, &scan->changes[at]);
}

/* What the scan's snapshot sees of a row; FETCH: who fetches it will know. */
LsmChangeState
lsm_scan_change_state(LsmScan scan, const LsmScanRow *row)
{
	LsmChangeState state;

	if (row->change < 0)
		return LSM_CHANGE_FETCH;
	if (scan->changes[row->change].state <= LSM_CHANGE_PLACES)
		lsm_changes_look(scan, row->change);
	state = scan->changes[row->change].state;
	return state <= LSM_CHANGE_PLACES ? LSM_CHANGE_FETCH : state;
}

/* Store the bottom of a row, below its DELTA if the slot has one. */
static void
lsm_change_store_bottom(LsmScan scan, const LsmScanRow *row, const LsmScanChange *change,
						TupleTableSlot *slot)
{
	lsm_scan_store_bottom(scan, row, slot, change->xmax, change->cmax);
	if (scan->changes_only)
		lsm_slot_set_whole_columns(slot, false);
}

/* Store the row whose version, or DELTA, is at a place. */
static bool
lsm_change_deliver_place(LsmScan scan, const LsmScanRow *row, const LsmScanChange *change,
						 TupleTableSlot *slot)
{
	LsmVersion	version;

	version.cached = lsm_changes_current(scan) ?
		lsm_change_pin(scan, &scan->places[change->place]) : NULL;
	if (version.cached == NULL)
		return lsm_row_fetch(scan->base.rs_rd, scan->table, row->root, scan->base.rs_snapshot,
							 slot, NULL);
	lsm_block_head(version.cached->block, change->at, &version.head);
	version.record = NULL;
	version.row = change->at;
	version.bottom = false;
	if (change->state == LSM_CHANGE_PLACE_FULL)
		lsm_slot_store(slot, scan->base.rs_rd, &version, change->xmax, change->cmax);
	else
	{
		lsm_slot_store_delta(slot, scan->base.rs_rd, &version);
		lsm_change_store_bottom(scan, row, change, slot);
	}
	lsm_slot_set_name(slot, lsm_version_name(&version.head));
	lsm_stat_row(&scan->table->stat, row->root, false);
	return true;
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
	if (scan->changes[row->change].state <= LSM_CHANGE_PLACES)
		lsm_changes_look(scan, row->change);
	change = &scan->changes[row->change];
	switch (change->state)
	{
		case LSM_CHANGE_GONE:
			return false;
		case LSM_CHANGE_OPEN:
		case LSM_CHANGE_PLACES:
		case LSM_CHANGE_FETCH:
			return lsm_row_fetch(rel, scan->table, row->root, scan->base.rs_snapshot, slot,
								 NULL);
		case LSM_CHANGE_BOTTOM:
			{
				LsmRowHead	head;

				lsm_scan_row_head(scan, row, &head);
				lsm_change_store_bottom(scan, row, change, slot);
				lsm_slot_set_name(slot, lsm_version_name(&head));
				lsm_stat_row(stat, row->root, scan->cached == NULL);
				return true;
			}
		case LSM_CHANGE_PLACE_FULL:
		case LSM_CHANGE_PLACE_DELTA:
			return lsm_change_deliver_place(scan, row, change, slot);
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
		lsm_change_store_bottom(scan, row, change, slot);
	}
	lsm_slot_set_name(slot, lsm_version_name(&version.head));
	lsm_stat_row(stat, row->root, true);
	return true;
}
