/*-------------------------------------------------------------------------
 *
 * lsm_rewrite.c
 *	  CLUSTER and VACUUM FULL: a table's rows go to a new file.
 *
 * The new file is written as a flush and a major compaction at once would have
 * left it: base segments with the bottom row of each row, and increments with the
 * later records that some snapshot may still need.  There is no row log.
 *
 *	first pass, in the order asked for (of roots, or of the index):
 *		decide what becomes of the row's records (lsm_merge_judge)
 *		give the row the next root TID; write its bottom row
 *		remember (old root, new root), if more of the row is to be kept
 *	second pass, over what was remembered, which is in the order of the new roots:
 *		read the row again; write its other records, under new version TIDs
 *	one edit: the segments in, the counters of TIDs past what was given out
 *
 * Sorted by an index, rows go through a tuplesort between reading and writing.
 * Memory: maintenance_work_mem for the sort, the open segments, and an entry for
 * each row that has moved to another root and is still seen under the old one; what
 * is remembered between the passes lies in a temporary file.
 *
 * WHY TIDS MAY CHANGE
 *	  The caller holds AccessExclusiveLock and has no query, cursor or queued trigger
 *	  on the table: nobody knows a TID of it.  For the same reason a version that
 *	  everybody sees is settled, whatever floors there are (I7): no transaction has a
 *	  name for it that could change.  Snapshots of other transactions may read the new
 *	  file later, so the order, xids and command ids of what they need are kept.  Row
 *	  locks are not: only our own transaction can have any, and whoever comes after
 *	  it finds them ended.
 *
 * CRASH SAFETY
 *	  The file belongs to a transient table of our transaction; if that does not
 *	  commit, the server unlinks it.  Without wal_level above minimal nothing is
 *	  logged here, and the server syncs or logs the file at commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "lsm_am.h"
#include "lsm_compact.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/buffile.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

/* The generation that the new segments come from; the next one is active. */
#define LSM_REWRITE_GENERATION	1

/* What the second pass has to know of a row. */
typedef struct LsmRewritten
{
	LsmTid		old_root;
	LsmTid		new_root;
	bool		more;			/* it has records other than the bottom row */
} LsmRewritten;

/* A row that another one, still seen by someone, has moved to. */
typedef struct LsmSuccessor
{
	LsmTid		old_root;		/* hash key */
	LsmTid		new_root;
} LsmSuccessor;

typedef struct LsmRewrite
{
	Relation	rel;
	LsmTable   *table;
	Relation	new_rel;
	LsmTable   *new_table;
	LsmMerge   *merge;
	int			natts;
	bool		pinned;			/* the merge's records have blocks of their
								 * own */
	LsmFate		fate;			/* of the present row */
	bool		more;			/* so does LsmRewritten.more */
	bool		recent;			/* another row may have moved here for some
								 * snapshot, though what is left is frozen */

	/* new TIDs */
	LsmTid		root;			/* the last one given out, 0: none */
	Size		page_room;		/* of the page that its LB would be */
	LsmTid		version;
	LsmTid		last_version;	/* end of the ring */

	BufFile    *rewritten;
	HTAB	   *successors;

	double		tuples;			/* row versions, as heap counts them */
	double		vacuumed;
	double		recently_dead;
	int64		written;		/* rows */
} LsmRewrite;

/* ---- reading ---- */

/* The present row is done with. */
static void
lsm_rewrite_release(LsmRewrite *rewrite)
{
	LsmMerge   *merge = rewrite->merge;

	for (int i = 0; i < merge->nrecords && rewrite->pinned; i++)
		if (merge->records[i].cached != NULL)
			lsm_block_unpin_now(merge->records[i].cached);
	merge->nrecords = 0;
	rewrite->pinned = false;
	MemoryContextReset(merge->row_context);
}

/* Take all records of a row.  False: it has no bottom row, so is gone. */
static bool
lsm_rewrite_take(LsmRewrite *rewrite, LsmTid root)
{
	LsmMerge   *merge = rewrite->merge;
	LsmVersionIter iter;
	LsmVersion *version;
	bool		bottom;

	do
	{
		lsm_rewrite_release(rewrite);
		rewrite->pinned = true;
		bottom = false;
		lsm_versions_begin(&iter, rewrite->rel, rewrite->table, root);
		while ((version = lsm_versions_next(&iter)) != NULL)
		{
			LsmMergeRecord *added = lsm_merge_add(merge);

			added->head = version->head;
			if (version->record != NULL)
			{
				added->record = MemoryContextAllocHuge(merge->row_context, version->record_len);
				memcpy(added->record, version->record, version->record_len);
				if (added->head.cols != NULL)
					added->head.cols = lsm_record_cols(added->record);
			}
			else
			{
				added->cached = lsm_block_repin(version->cached);
				added->row = version->row;
			}
			bottom = version->bottom;
		}
		lsm_versions_end(&iter);
	} while (iter.stale);
	return bottom;
}

/* Take the row that a scan stands on.  It has a bottom row. */
static void
lsm_rewrite_take_scanned(LsmRewrite *rewrite, LsmScan scan, const LsmScanRow *row)
{
	LsmMergeRecord *added;

	if (row->changed)
	{
		if (!lsm_rewrite_take(rewrite, row->root))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("row (%u,%u) of table \"%s\" cannot be found again",
							LSM_TID_LB(row->root), LSM_TID_OFFSET(row->root),
							RelationGetRelationName(rewrite->rel)),
					 errhint("Run lsm_check() on the table, then restore it from a backup.")));
		return;
	}
	lsm_rewrite_release(rewrite);
	added = lsm_merge_add(rewrite->merge);
	lsm_scan_row_head(scan, row, &added->head);
	if (scan->cached != NULL)
	{
		added->cached = scan->cached;
		added->row = row->at;
	}
	else
	{
		ItemId		item = PageGetItemId((Page) scan->page, row->at);
		Size		len = ItemIdGetLength(item);

		added->record = (LsmRecord *) PageGetItem((Page) scan->page, item);
		if (added->record->info & LSM_REC_SPILLED)
		{
			MemoryContext caller = MemoryContextSwitchTo(rewrite->merge->row_context);

			added->record = lsm_record_load(rewrite->rel, rewrite->table, added->record, &len);
			lsm_record_head(added->record, row->root, &added->head);
			MemoryContextSwitchTo(caller);
		}
	}
}

/* ---- deciding ---- */

/* Another row has moved to this old root, for some snapshot. */
static void
lsm_rewrite_want(LsmRewrite *rewrite, LsmTid successor)
{
	LsmSuccessor *entry;
	bool		found;

	entry = hash_search(rewrite->successors, &successor, HASH_ENTER, &found);
	if (!found)
		entry->new_root = LSM_INVALID_TID;
}

/* Decide what becomes of the row that was taken. */
static void
lsm_rewrite_judge(LsmRewrite *rewrite)
{
	LsmMerge   *merge = rewrite->merge;
	LsmFate    *fate = &rewrite->fate;

	lsm_merge_judge(merge, true, true, fate);
	rewrite->more = false;

	/* what has changed it since may have an older xid, that had not ended before */
	rewrite->recent = merge->records[merge->nrecords - 1].head.xid >= merge->horizons.visible;
	for (int i = 0; i < merge->nrecords - 1 && !fate->gone; i++)
	{
		LsmRowHead *head = &merge->records[i].head;

		if (LSM_REC_KIND(head->info) == LSM_REC_LOCK)
			fate->keep[i] = false;
		if (!fate->keep[i])
			continue;
		rewrite->more = true;
		if (LSM_REC_KIND(head->info) == LSM_REC_MOVED)
			lsm_rewrite_want(rewrite, head->base);
	}
}

/* Count the row's versions: heap's three sorts of tuples. */
static void
lsm_rewrite_count(LsmRewrite *rewrite)
{
	LsmMerge   *merge = rewrite->merge;
	LsmFate    *fate = &rewrite->fate;
	int			n = merge->nrecords;
	int			versions = 0;
	int			kept = 0;
	bool		live = !fate->gone;
	bool		newest = true;

	for (int i = 0; i < n; i++)
	{
		LsmRowHead *head = &merge->records[i].head;
		bool		bottom = i == n - 1;

		if (LSM_REC_KIND(head->info) == LSM_REC_LOCK)
			continue;
		if (newest && fate->states[i] != LSM_XID_ABORTED)
		{
			if (!lsm_merge_has_columns(head))
				live = false;
			newest = false;
		}
		if (!lsm_merge_has_columns(head))
			continue;
		versions++;
		if (!fate->gone && (bottom || fate->keep[i]))
			kept++;
	}
	rewrite->tuples += kept;
	rewrite->vacuumed += versions - kept;
	rewrite->recently_dead += kept - (live ? 1 : 0);
}

/* ---- writing ---- */

/*
 * Columns that a full version is older than get the value that they have for
 * it: the new file is not asked for it (RelationClearMissing).
 */
static void
lsm_rewrite_fill(LsmRewrite *rewrite, int natts, Datum *values, bool *isnull)
{
	TupleDesc	tupdesc = RelationGetDescr(rewrite->rel);

	for (int i = natts; i < rewrite->natts; i++)
	{
		if (TupleDescAttr(tupdesc, i)->attisdropped)
			isnull[i] = true;
		else
			values[i] = getmissingattr(tupdesc, i + 1, &isnull[i]);
	}
}

/* The bottom row that stays of the present row, in merge->values and head. */
static void
lsm_rewrite_bottom(LsmRewrite *rewrite, LsmRowHead *head)
{
	LsmMerge   *merge = rewrite->merge;
	LsmFate    *fate = &rewrite->fate;
	int			bottom = merge->nrecords - 1;
	int			natts;

	if (fate->settled)
	{
		natts = lsm_merge_complete(merge, fate->cut);
		lsm_merge_settled_head(merge, &merge->records[fate->cut].head, natts, head);
	}
	else
	{
		natts = lsm_merge_complete(merge, bottom);
		*head = merge->records[bottom].head;
		lsm_merge_mark(merge, head, fate->states[bottom]);
		head->info &= ~LSM_REC_HASNULL;
	}
	lsm_rewrite_fill(rewrite, natts, merge->values, merge->isnull);
	head->natts = rewrite->natts;
}

/*
 * The next root TID, for a row with these columns.  An LB gets as many rows as a
 * page of the row log would, so that the logical size means what it meant.
 */
static LsmTid
lsm_rewrite_next_root(LsmRewrite *rewrite, Datum *values, bool *isnull)
{
	BlockNumber lb = LSM_TID_LB(rewrite->root);
	OffsetNumber offset = LSM_TID_OFFSET(rewrite->root);
	Size		need;

	need = MAXALIGN(SizeOfLsmInsertRecord +
					heap_compute_data_size(RelationGetDescr(rewrite->new_rel), values, isnull)) +
		sizeof(ItemIdData);
	if (offset >= LSM_MAX_OFFSET || (offset > 0 && need > rewrite->page_room))
	{
		lb++;
		offset = 0;
	}
	if (lb >= LSM_FIRST_VERSION_LB)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has more rows than there are row identifiers",
						RelationGetRelationName(rewrite->rel))));
	if (offset == 0)
		rewrite->page_room = LSM_PAGE_PAYLOAD;
	rewrite->page_room -= Min(need, rewrite->page_room);
	rewrite->root = LSM_TID(lb, offset + 1);
	return rewrite->root;
}

/* The next version TID. */
static LsmTid
lsm_rewrite_next_version(LsmRewrite *rewrite)
{
	BlockNumber lb = LSM_TID_LB(rewrite->version);
	OffsetNumber offset = LSM_TID_OFFSET(rewrite->version);

	if (offset >= LSM_MAX_OFFSET)
	{
		lb++;
		offset = 0;
	}
	rewrite->version = LSM_TID(lb, offset + 1);
	if (rewrite->version > rewrite->last_version)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has used up its version identifiers",
						RelationGetRelationName(rewrite->rel)),
				 errhint("End transactions that have been open for long, then try again.")));
	return rewrite->version;
}

/* Write a bottom row under the next root TID. */
static void
lsm_rewrite_put(LsmRewrite *rewrite, LsmTid old_root, LsmRowHead *head, Datum *values,
				bool *isnull, bool more, bool recent)
{
	head->root = lsm_rewrite_next_root(rewrite, values, isnull);
	head->vtid = head->root;
	lsm_output_add(&rewrite->merge->bottom, head, values, isnull);
	rewrite->written++;

	/* what is frozen, has been for long, and has no other record is not asked for again */
	if (more || recent || head->xid != 0)
	{
		LsmRewritten rewritten;

		memset(&rewritten, 0, sizeof(rewritten));
		rewritten.old_root = old_root;
		rewritten.new_root = head->root;
		rewritten.more = more;
		BufFileWrite(rewrite->rewritten, &rewritten, sizeof(rewritten));
	}
}

/* Write the bottom row of the row that was taken. */
static void
lsm_rewrite_put_taken(LsmRewrite *rewrite, LsmTid old_root)
{
	LsmMerge   *merge = rewrite->merge;
	LsmRowHead	head;

	lsm_rewrite_bottom(rewrite, &head);
	lsm_rewrite_put(rewrite, old_root, &head, merge->values, merge->isnull, rewrite->more,
					rewrite->recent);
}

/* Where a record refers to another: the same one in the new file. */
static LsmTid
lsm_rewrite_base(LsmRewrite *rewrite, int i, LsmTid new_root, const LsmTid *versions)
{
	LsmMerge   *merge = rewrite->merge;
	LsmRowHead *head = &merge->records[i].head;

	if (LSM_REC_KIND(head->info) == LSM_REC_MOVED)
	{
		LsmSuccessor *entry = hash_search(rewrite->successors, &head->base, HASH_FIND, NULL);

		return entry == NULL ? LSM_INVALID_TID : entry->new_root;
	}
	if (head->info & LSM_REC_DELTA)
	{
		int			base = lsm_merge_base(merge, i, true);

		/* what is not kept as a version has become the bottom row (I9) */
		return base < merge->nrecords - 1 && rewrite->fate.keep[base] ? versions[base] : new_root;
	}
	return LSM_INVALID_TID;
}

/*
 * Let a DELTA know of as many columns as the full version that it builds on,
 * which has been filled: its map gets longer.
 */
static void
lsm_rewrite_widen(LsmRewrite *rewrite, LsmRowHead *head)
{
	uint16		cols_len = (rewrite->natts + 7) / 8;
	bits8	   *cols = MemoryContextAllocZero(rewrite->merge->row_context, cols_len);

	memcpy(cols, head->cols, Min(head->cols_len, cols_len));
	for (int i = head->natts; i < rewrite->natts; i++)
		cols[i / 8] &= ~(1 << (i % 8));
	head->cols = cols;
	head->cols_len = cols_len;
	head->natts = rewrite->natts;
}

/* Write what else is kept of the row that was taken. */
static void
lsm_rewrite_put_more(LsmRewrite *rewrite, LsmTid new_root)
{
	LsmMerge   *merge = rewrite->merge;
	LsmFate    *fate = &rewrite->fate;
	int			n = merge->nrecords - 1;
	LsmTid	   *versions = MemoryContextAllocHuge(merge->row_context,
												  Max(n, 1) * sizeof(LsmTid));

	for (int i = n - 1; i >= 0; i--)
		if (fate->keep[i])
			versions[i] = lsm_rewrite_next_version(rewrite);
	for (int i = 0; i < n; i++)
	{
		LsmRowHead	head = merge->records[i].head;

		if (!fate->keep[i])
			continue;
		lsm_merge_mark(merge, &head, fate->states[i]);
		head.info &= ~(LSM_REC_HASNULL | LSM_REC_LOCKERS_BELOW);
		head.root = new_root;
		head.vtid = versions[i];
		head.base = lsm_rewrite_base(rewrite, i, new_root, versions);

		/*
		 * The row may have gone, for everybody, under its new root: by a transaction whose xid
		 * is older than this one's, or has ended before it.  Whoever sees that it has left
		 * this root need not look there.
		 */
		if (LSM_REC_KIND(head.info) == LSM_REC_MOVED && head.base == LSM_INVALID_TID)
			head.info = (head.info & ~LSM_REC_KIND_MASK) | LSM_REC_DELETE;
		if (!lsm_merge_has_columns(&head))
		{
			lsm_output_add(&merge->increment, &head, NULL, NULL);
			continue;
		}
		head.natts = Min(head.natts, rewrite->natts);
		lsm_merge_load(merge, &merge->records[i], merge->values, merge->isnull);
		if (head.info & LSM_REC_DELTA)
		{
			for (int j = head.natts; j < rewrite->natts; j++)
				merge->isnull[j] = true;
			lsm_rewrite_widen(rewrite, &head);
		}
		else
		{
			lsm_rewrite_fill(rewrite, head.natts, merge->values, merge->isnull);
			head.natts = rewrite->natts;
		}
		lsm_output_add(&merge->increment, &head, merge->values, merge->isnull);
		if (head.xid != 0)
			lsm_segment_writer_add_forward(merge->increment.writer, head.vtid, new_root);
	}
}

/* ---- the first pass ---- */

static void
lsm_rewrite_progress(LsmRewrite *rewrite)
{
	const int	params[] = {
		PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED,
		PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN
	};
	int64		values[2];

	values[0] = (int64) rewrite->tuples;
	values[1] = rewrite->written;
	pgstat_progress_update_multi_param(2, params, values);
}

/* Flags of a row that the sort carries. */
#define LSM_REWRITE_AGAIN		0x0001	/* is to be read again */
#define LSM_REWRITE_FROZEN		0x0002

/*
 * The row that was taken, as the sort carries it: with its bottom row or, if more
 * of it is kept, with the columns of its newest version, to be read again.  What
 * is no column lies where a heap tuple has its own: the xid, which may be frozen, in
 * xmin and xmax, info and the flags in ctid, the old root in t_self.
 */
static HeapTuple
lsm_rewrite_to_tuple(LsmRewrite *rewrite, LsmTid old_root)
{
	LsmMerge   *merge = rewrite->merge;
	LsmRowHead	head;
	HeapTuple	tuple;

	lsm_rewrite_bottom(rewrite, &head);
	for (int i = 0; i < merge->nrecords - 1; i++)
	{
		if (rewrite->fate.keep[i] && lsm_merge_has_columns(&merge->records[i].head))
		{
			lsm_rewrite_fill(rewrite, lsm_merge_complete(merge, i), merge->values,
							 merge->isnull);
			break;
		}
	}
	tuple = heap_form_tuple(RelationGetDescr(rewrite->rel), merge->values, merge->isnull);
	HeapTupleHeaderSetXmin(tuple->t_data, (TransactionId) head.xmin);
	tuple->t_data->t_choice.t_heap.t_xmax = (TransactionId) (head.xmin >> 32);
	tuple->t_data->t_choice.t_heap.t_field3.t_cid = head.cid;
	BlockIdSet(&tuple->t_data->t_ctid.ip_blkid,
			   (rewrite->more || rewrite->recent ? LSM_REWRITE_AGAIN : 0) |
			   (head.xid == 0 ? LSM_REWRITE_FROZEN : 0));
	tuple->t_data->t_ctid.ip_posid = head.info;
	lsm_tid_to_pointer(old_root, &tuple->t_self);
	return tuple;
}

/* The other way round: write the row that the sort gives back. */
static void
lsm_rewrite_put_tuple(LsmRewrite *rewrite, HeapTuple tuple)
{
	LsmMerge   *merge = rewrite->merge;
	LsmTid		old_root = lsm_tid_from_pointer(&tuple->t_self);
	BlockNumber flags = BlockIdGetBlockNumber(&tuple->t_data->t_ctid.ip_blkid);
	LsmRowHead	head;

	if (flags & LSM_REWRITE_AGAIN)
	{
		(void) lsm_rewrite_take(rewrite, old_root);
		lsm_rewrite_judge(rewrite);
		lsm_rewrite_put_taken(rewrite, old_root);
		lsm_rewrite_release(rewrite);
		return;
	}
	memset(&head, 0, sizeof(head));
	head.xmin = ((uint64) tuple->t_data->t_choice.t_heap.t_xmax << 32) |
		HeapTupleHeaderGetRawXmin(tuple->t_data);
	head.xid = flags & LSM_REWRITE_FROZEN ? 0 : head.xmin;
	head.cid = tuple->t_data->t_choice.t_heap.t_field3.t_cid;
	head.info = tuple->t_data->t_ctid.ip_posid;
	head.natts = rewrite->natts;
	heap_deform_tuple(tuple, RelationGetDescr(rewrite->rel), merge->values, merge->isnull);
	lsm_rewrite_put(rewrite, old_root, &head, merge->values, merge->isnull, false, false);
}

/* Decide about the row that was taken, then write it or give it to the sort. */
static void
lsm_rewrite_row(LsmRewrite *rewrite, LsmTid old_root, Tuplesortstate *sort)
{
	lsm_rewrite_judge(rewrite);
	lsm_rewrite_count(rewrite);
	if (!rewrite->fate.gone)
	{
		if (sort == NULL)
			lsm_rewrite_put_taken(rewrite, old_root);
		else
		{
			HeapTuple	tuple = lsm_rewrite_to_tuple(rewrite, old_root);

			tuplesort_putheaptuple(sort, tuple);
			heap_freetuple(tuple);
		}
	}
	lsm_rewrite_release(rewrite);
	lsm_rewrite_progress(rewrite);
}

/* All rows in the order of their roots. */
static void
lsm_rewrite_scan(LsmRewrite *rewrite, Tuplesortstate *sort)
{
	TableScanDesc scan;
	LsmScanRow	row;
	BlockNumber lb = InvalidBlockNumber;
	BlockNumber nblocks = lsm_view_get(rewrite->rel, rewrite->table)->meta.next_root_lb;

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, nblocks);
	scan = table_beginscan(rewrite->rel, SnapshotAny, 0, NULL);
	while (lsm_scan_next_row((LsmScan) scan, ForwardScanDirection, &row))
	{
		CHECK_FOR_INTERRUPTS();
		if (LSM_TID_LB(row.root) != lb)
		{
			lb = LSM_TID_LB(row.root);
			pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, lb);
		}
		lsm_rewrite_take_scanned(rewrite, (LsmScan) scan, &row);
		lsm_rewrite_row(rewrite, row.root, sort);
	}
	table_endscan(scan);
	pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, nblocks);
}

/* All rows in the order of an index: it has one entry for each. */
static void
lsm_rewrite_index_scan(LsmRewrite *rewrite, Relation index)
{
	const int	params[] = {PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_INDEX_RELID};
	int64		values[2];
	IndexScanDesc scan;
	ItemPointer tid;

	values[0] = PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP;
	values[1] = RelationGetRelid(index);
	pgstat_progress_update_multi_param(2, params, values);
	scan = lsm_compat_index_beginscan(rewrite->rel, index, SnapshotAny, 0);
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		LsmTid		root = lsm_tid_from_pointer(tid);

		CHECK_FOR_INTERRUPTS();
		if (scan->xs_recheck)
			elog(ERROR, "CLUSTER does not support lossy index conditions");
		if (lsm_rewrite_take(rewrite, root))
			lsm_rewrite_row(rewrite, root, NULL);
		else
			lsm_rewrite_release(rewrite);
	}
	index_endscan(scan);
}

static void
lsm_rewrite_sorted(LsmRewrite *rewrite, Relation index)
{
	Tuplesortstate *sort = tuplesort_begin_cluster(RelationGetDescr(rewrite->rel), index,
												   maintenance_work_mem, NULL, TUPLESORT_NONE);
	HeapTuple	tuple;

	lsm_rewrite_scan(rewrite, sort);
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SORT_TUPLES);
	tuplesort_performsort(sort);
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);
	while ((tuple = tuplesort_getheaptuple(sort, true)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		lsm_rewrite_put_tuple(rewrite, tuple);
		lsm_rewrite_progress(rewrite);
	}
	tuplesort_end(sort);
}

/* ---- the second pass ---- */

static bool
lsm_rewrite_read_back(LsmRewrite *rewrite, LsmRewritten *rewritten)
{
	size_t		n = BufFileRead(rewrite->rewritten, rewritten, sizeof(*rewritten));

	if (n != 0 && n != sizeof(*rewritten))
		elog(ERROR, "could not read the temporary file of a rewrite");
	return n != 0;
}

static void
lsm_rewrite_rewind(LsmRewrite *rewrite)
{
	if (BufFileSeek(rewrite->rewritten, 0, 0, SEEK_SET) != 0)
		elog(ERROR, "could not rewind the temporary file of a rewrite");
}

/* Find the new roots of rows that others have moved to. */
static void
lsm_rewrite_find_successors(LsmRewrite *rewrite)
{
	LsmRewritten rewritten;

	if (hash_get_num_entries(rewrite->successors) == 0)
		return;
	lsm_rewrite_rewind(rewrite);
	while (lsm_rewrite_read_back(rewrite, &rewritten))
	{
		LsmSuccessor *entry;

		CHECK_FOR_INTERRUPTS();
		entry = hash_search(rewrite->successors, &rewritten.old_root, HASH_FIND, NULL);
		if (entry != NULL)
			entry->new_root = rewritten.new_root;
	}
}

static void
lsm_rewrite_second_pass(LsmRewrite *rewrite)
{
	LsmRewritten rewritten;
	LsmEdit    *edit;

	/* the metapage, which may not be there yet, says how long the ring is */
	edit = lsm_edit_begin(rewrite->new_rel, rewrite->new_table, LSM_OP_REWRITE);
	rewrite->version = LSM_TID(LSM_FIRST_VERSION_LB, 0);
	rewrite->last_version = LSM_TID(LSM_FIRST_VERSION_LB + edit->meta.ring_lbs - 1,
									LSM_MAX_OFFSET);
	lsm_edit_commit(edit);
	lsm_rewrite_find_successors(rewrite);
	lsm_rewrite_rewind(rewrite);
	while (lsm_rewrite_read_back(rewrite, &rewritten))
	{
		CHECK_FOR_INTERRUPTS();
		if (!rewritten.more)
			continue;
		(void) lsm_rewrite_take(rewrite, rewritten.old_root);
		lsm_rewrite_judge(rewrite);
		lsm_rewrite_put_more(rewrite, rewritten.new_root);
		lsm_rewrite_release(rewrite);
	}
}

/* ---- the whole ---- */

/* Large values come from the old file. */
static void
lsm_rewrite_source(LsmRewrite *rewrite, LsmOutput *output)
{
	output->source = rewrite->rel;
	output->source_table = rewrite->table;
	output->row_context = rewrite->merge->row_context;
}

static void
lsm_rewrite_begin(LsmRewrite *rewrite, Relation rel, Relation new_rel)
{
	HASHCTL		ctl;
	LsmMerge   *merge;
	uint64		bytes;
	uint64		segment_bytes;
	uint32		pages;

	memset(rewrite, 0, sizeof(*rewrite));
	rewrite->rel = rel;
	rewrite->table = lsm_table_open(rel);
	rewrite->new_rel = new_rel;
	rewrite->new_table = lsm_table_open(new_rel);
	rewrite->natts = RelationGetDescr(rel)->natts;

	bytes = lsm_view_get(rel, rewrite->table)->all_base.stored;
	segment_bytes = lsm_segment_bytes(bytes, false);
	pages = Max(Min(bytes, segment_bytes) / BLCKSZ, 2);
	merge = rewrite->merge = lsm_merge_create(rel, rewrite->table, LSM_OWNER_MAJOR, 0, 0, 2);
	lsm_output_init(&merge->bottom, new_rel, rewrite->new_table, LSM_OWNER_MAJOR,
					LSM_SEGKIND_INSERT, LSM_REWRITE_GENERATION, LSM_REWRITE_GENERATION, pages);
	merge->bottom.segment_bytes = segment_bytes;
	lsm_output_init(&merge->increment, new_rel, rewrite->new_table, LSM_OWNER_MAJOR,
					LSM_SEGKIND_INCREMENT, LSM_REWRITE_GENERATION, LSM_REWRITE_GENERATION, 2);
	lsm_rewrite_source(rewrite, &merge->bottom);
	lsm_rewrite_source(rewrite, &merge->increment);

	/* nobody has a name for any version: see above */
	merge->horizons.settled = merge->horizons.visible;

	/* what our own transaction has dropped stays so if the file stays */
	for (int i = 0; i < rewrite->natts; i++)
		merge->dropped[i] = TupleDescAttr(RelationGetDescr(rel), i)->attisdropped;

	rewrite->rewritten = BufFileCreateTemp(false);
	ctl.keysize = sizeof(LsmTid);
	ctl.entrysize = sizeof(LsmSuccessor);
	ctl.hcxt = CurrentMemoryContext;
	rewrite->successors = hash_create("lsm successors", 256, &ctl,
									  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Make the segments the new file's content.  Returns the least xid to be looked up. */
static uint64
lsm_rewrite_publish(LsmRewrite *rewrite)
{
	LsmJobStats stats = {0};
	LsmEdit    *edit = lsm_edit_begin(rewrite->new_rel, rewrite->new_table, LSM_OP_REWRITE);
	LsmMeta    *meta = &edit->meta;
	uint64		oldest = PG_UINT64_MAX;

	lsm_merge_publish(rewrite->merge, edit, &stats);
	meta->generation = LSM_REWRITE_GENERATION + 1;
	meta->next_root_lb = LSM_TID_LB(rewrite->root) + 1;
	if (LSM_TID_OFFSET(rewrite->version) != 0)
	{
		BlockNumber sector_lbs = meta->ring_lbs / LSM_RING_SECTORS;
		BlockNumber lb = LSM_TID_LB(rewrite->version);

		meta->next_version_lb = lb + 1;
		meta->ring_sector = (lb - LSM_FIRST_VERSION_LB) / sector_lbs;
		for (uint32 i = 0; i < meta->ring_sector; i++)
			meta->ring_stamps[i] = U64FromFullTransactionId(ReadNextFullTransactionId());
	}
	for (int i = 0; i < edit->nleaves; i++)
		for (int j = 0; j < edit->leaves[i].nentries; j++)
			if (edit->leaves[i].entries[j].min_unresolved != 0)
				oldest = Min(oldest, edit->leaves[i].entries[j].min_unresolved);
	lsm_edit_commit(edit);
	return oldest;
}

/*
 * May rows go through a sort?  What it carries of large values are no live pointers, so it must
 * not look at them, as an expression might.  (Columns of an index are never so large.)
 */
static bool
lsm_rewrite_may_sort(Relation rel, Relation index)
{
	LsmView    *view;

	if (RelationGetIndexExpressions(index) == NIL)
		return true;
	view = lsm_view_get(rel, lsm_table_open(rel));
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_VALUES ||
			(view->entries[i].type == LSM_ENTRY_SEGMENT &&
			 (view->entries[i].flags & LSM_SEGFLAG_VALUES)))
			return false;
	return true;
}

/* The callback: see table_relation_copy_for_cluster(). */
void
lsm_copy_for_cluster(Relation rel, Relation new_rel, Relation index, bool use_sort,
					 TransactionId oldest_xmin, TransactionId *xid_cutoff,
					 MultiXactId *multi_cutoff, double *num_tuples, double *tups_vacuumed,
					 double *tups_recently_dead)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm rewrite",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	LsmRewrite	rewrite;

	lsm_relpages_remember(rel);
	lsm_rewrite_begin(&rewrite, rel, new_rel);
	if (index != NULL && use_sort && lsm_rewrite_may_sort(rel, index))
		lsm_rewrite_sorted(&rewrite, index);
	else if (index != NULL)
		lsm_rewrite_index_scan(&rewrite, index);
	else
		lsm_rewrite_scan(&rewrite, NULL);

	/* a table without rows has an empty file */
	if (rewrite.written > 0)
	{
		uint64		oldest;

		LSM_STOP("rewrite-second-pass");
		lsm_rewrite_second_pass(&rewrite);
		lsm_merge_finish(rewrite.merge);
		LSM_STOP("rewrite-before-swap");
		oldest = lsm_rewrite_publish(&rewrite);
		LSM_STOP("rewrite-after-swap");

		/* what is not frozen or marked must not be before relfrozenxid (I8) */
		if (oldest < lsm_full_xid(*xid_cutoff))
			*xid_cutoff = (TransactionId) oldest;
	}
	else
		lsm_wal_conflict(new_rel, rewrite.merge->conflict_xid);
	BufFileClose(rewrite.rewritten);
	*num_tuples += rewrite.tuples;
	*tups_vacuumed += rewrite.vacuumed;
	*tups_recently_dead += rewrite.recently_dead;
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}
