/*-------------------------------------------------------------------------
 *
 * lsm_modify.c
 *	  INSERT, UPDATE, DELETE and row locks.
 *
 * A change of an existing row: judge it without locks, wait for whoever stands
 * in the way, make the record; then under the row's stripe confirm that nothing
 * has been added to the row meanwhile, append, and publish (I2).
 *
 * LOCKING
 *	  Stripe (exclusive), then gen_lock (shared), then pages.  Waiting for
 *	  transactions and for room happens with none of them held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/toast_compression.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "lsm_am.h"
#include "lsm_load.h"
#include "lsm_logical.h"
#include "lsm_near.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* The heavyweight lock that stands for a row lock while one waits for it. */
static const LOCKMODE lsm_tuple_lock_modes[] = {
	AccessShareLock,			/* LockTupleKeyShare */
	RowShareLock,				/* LockTupleShare */
	ExclusiveLock,				/* LockTupleNoKeyExclusive */
	AccessExclusiveLock			/* LockTupleExclusive */
};

/* ---- INSERT ---- */

static void
lsm_insert_form(Relation rel, LsmTable *table, TupleTableSlot *slot, uint64 xid, CommandId cid,
				uint16 info, LsmPointer **large, LsmNewRecord *new)
{
	LsmRecord	head = {0};
	LsmRecord  *formed = large == NULL ? lsm_slot_formed(slot, RelationGetDescr(rel), &new->len) :
		NULL;

	if (formed != NULL)
	{
		formed->xid = xid;
		formed->cid = cid;
		formed->info = LSM_REC_INSERT | (formed->info & LSM_REC_HASNULL) | info;
		new->record = formed;
		new->borrowed = true;
		new->whole = NULL;
		new->generation = 0;
		new->near = NULL;
		return;
	}
	head.xid = xid;
	head.cid = cid;
	head.info = LSM_REC_INSERT | info;
	slot_getallattrs(slot);
	lsm_record_form(rel, table, &head, slot->tts_values, slot->tts_isnull, NULL, large, new);
}

/* Who has more rows to insert again than this loads them (lsm_load.c). */
#define LSM_NEAR_DELETED		64

/*
 * A row that is inserted after this transaction has deleted some, of which it may be one, goes where
 * it belongs; near has to last as long as new.
 */
static inline void
lsm_insert_near(Relation rel, LsmTable *table, TupleTableSlot *slot, LsmNeighbour *near,
				LsmNewRecord *new)
{
	if (likely(table->deleted_by != lsm_xact_number || table->ndeleted == 0) ||
		table->ndeleted > LSM_NEAR_DELETED)
		return;
	if (lsm_near_find(rel, table, slot, table->deleted, true, near))
		new->near = near;
	table->ndeleted--;
	table->deleted = LSM_INVALID_TID;
}

/* A row has been deleted, which may come back. */
static inline void
lsm_delete_near(LsmTable *table, LsmTid root)
{
	if (table->deleted_by != lsm_xact_number)
	{
		table->deleted_by = lsm_xact_number;
		table->ndeleted = 0;
	}
	table->deleted = table->ndeleted++ == 0 ? root : LSM_INVALID_TID;
}

/* Append INSERT records, whatever becomes of generations meanwhile. */
static void
lsm_insert_append(Relation rel, LsmTable *table, LsmNewRecord *records, int n, bool speculative)
{
	int			done = 0;

	for (;;)
	{
		if (speculative || records[done].near != NULL)
			done += lsm_rowlog_insert(rel, table, records + done, n - done, NULL, speculative);
		else
			done += lsm_load_insert(rel, table, records + done, n - done);
		if (done == n)
			break;
		lsm_record_renew(rel, table, &records[done]);
	}
	lsm_near_end(rel, table);
}

void
lsm_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
				 int options, struct BulkInsertStateData *bistate)
{
	LsmTable   *table = lsm_table_open(rel);
	uint64		xid = U64FromFullTransactionId(GetCurrentFullTransactionId());
	LsmNewRecord *records = palloc(nslots * sizeof(LsmNewRecord));
	LsmNeighbour near;

	/*
	 * REFRESH MATERIALIZED VIEW, COPY FREEZE: the file is the transaction's own, and goes if that
	 * does not commit; else snapshots from before it are to see the rows, too.
	 */
	if (options & TABLE_INSERT_FROZEN)
	{
		xid = cid = 0;
		table->frozen_by = lsm_xact_number;
	}
	(void) lsm_floor();
	lsm_rowlog_keep_bounds(rel, table);
	for (int i = 0; i < nslots; i++)
		lsm_insert_form(rel, table, slots[i], xid, cid, 0, NULL, &records[i]);
	if (nslots == 1)
		lsm_insert_near(rel, table, slots[0], &near, &records[0]);
	lsm_insert_append(rel, table, records, nslots, false);
	for (int i = 0; i < nslots; i++)
	{
		slots[i]->tts_tableOid = RelationGetRelid(rel);
		lsm_slot_set_inserted(slots[i], records[i].tid, xid, cid, 0);
		lsm_record_free(&records[i]);
	}
	pfree(records);
	lsm_logical_insert(rel, slots, nslots, options);
	pgstat_count_heap_insert(rel, nslots);
}

/*
 * What is written into the place of another table, under whose name the transaction
 * ends, gets into WAL here: it is not found by its own name any more.
 */
void
lsm_finish_bulk_insert(Relation rel, int options)
{
	if (OidIsValid(rel->rd_rel->relrewrite))
		lsm_load_seal(rel);
}

void
lsm_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				 struct BulkInsertStateData *bistate)
{
	lsm_multi_insert(rel, &slot, 1, cid, options, bistate);
}

/*
 * INSERT ... ON CONFLICT: the record holds the token in place of its command id
 * until the index entries are in, or one of them has met a conflict.
 */
void
lsm_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
					   struct BulkInsertStateData *bistate, uint32 token)
{
	LsmTable   *table = lsm_table_open(rel);
	uint64		xid = U64FromFullTransactionId(GetCurrentFullTransactionId());
	LsmNewRecord new;
	LsmNeighbour near;

	(void) lsm_floor();
	lsm_rowlog_keep_bounds(rel, table);
	lsm_insert_form(rel, table, slot, xid, token, LSM_REC_SPECULATIVE, NULL, &new);
	lsm_insert_near(rel, table, slot, &near, &new);
	lsm_insert_append(rel, table, &new, 1, true);
	slot->tts_tableOid = RelationGetRelid(rel);
	lsm_slot_set_inserted(slot, new.tid, xid, cid, 0);
	lsm_record_free(&new);
	pgstat_count_heap_insert(rel, 1);
}

void
lsm_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token, bool succeeded)
{
	bool		isnull;
	uint32		cid = GetCurrentCommandId(true);

	if (slot->tts_ops == &LsmSlotOps)
		cid = DatumGetCommandId(slot_getsysattr(slot, MinCommandIdAttributeNumber, &isnull));
	lsm_rowlog_complete(rel, lsm_table_open(rel), lsm_tid_from_pointer(&slot->tts_tid), succeeded,
						cid);
	if (succeeded)
		lsm_logical_insert(rel, &slot, 1, 0);
	else
		pgstat_count_heap_delete(rel);
}

/* ---- changes of existing rows ---- */

/* What a change writes, and where it got to. */
typedef struct LsmChange
{
	Relation	rel;
	LsmTable   *table;
	LsmJudgement judgement;
	LsmPointer *large;			/* large values that it has stored, by column */
	bool		judged;			/* it has been judged: what was noted before is of no use */
	bool		have_tuple_lock;
	ItemPointerData root;		/* of the tuple lock */
	LOCKMODE	tuple_lock;
} LsmChange;

/*
 * Queue up for a row behind others that wait for it, as heap does: the tuple
 * lock is on the root, so that it holds across versions.  Who has the row already,
 * as it has locked it or made the version, does not: the others wait for its end.
 */
static void
lsm_change_queue(LsmChange *change, LockTupleMode mode)
{
	if (change->have_tuple_lock || change->judgement.own_any_lock ||
		TransactionIdIsCurrentTransactionId(change->judgement.target_xid))
		return;
	lsm_tid_to_pointer(change->judgement.root, &change->root);
	change->tuple_lock = lsm_tuple_lock_modes[mode];
	LockTuple(change->rel, &change->root, change->tuple_lock);
	change->have_tuple_lock = true;
}

static void
lsm_change_unqueue(LsmChange *change)
{
	if (change->have_tuple_lock)
		UnlockTuple(change->rel, &change->root, change->tuple_lock);
	change->have_tuple_lock = false;
}

/* Judge the row: the first time by what the slot at hand has of it, if no slot is to be filled. */
static void
lsm_change_judge(LsmChange *change, ItemPointer tid, CommandId cid, LockTupleMode mode,
				 TupleTableSlot *slot)
{
	bool		again = change->judged;

	change->judged = true;
	if (again || slot != NULL ||
		!lsm_row_judge_noted(change->rel, change->table, lsm_tid_from_pointer(tid), cid,
							 &change->judgement))
		lsm_row_judge(change->rel, change->table, lsm_tid_from_pointer(tid), cid, mode, false,
					  slot, &change->judgement);
}

/* Judge until nobody stands in the way any more, or for good. */
static TM_Result
lsm_change_acquire(LsmChange *change, ItemPointer tid, CommandId cid, LockTupleMode mode,
				   bool wait, XLTW_Oper oper, TupleTableSlot *old)
{
	for (;;)
	{
		lsm_change_judge(change, tid, cid, mode, old);
		if (change->judgement.result != TM_BeingModified || !wait)
			return change->judgement.result;
		lsm_change_queue(change, mode);
		XactLockTableWait(change->judgement.wait_for, change->rel, tid, oper);
	}
}

static void
lsm_change_failed(LsmChange *change, ItemPointer tid, TM_FailureData *tmfd)
{
	LsmJudgement *judgement = &change->judgement;

	tmfd->ctid = *tid;
	if (judgement->partition_move)
		ItemPointerSetMovedPartitions(&tmfd->ctid);
	else if (judgement->next != LSM_INVALID_TID)
		lsm_tid_to_pointer(judgement->next, &tmfd->ctid);
	tmfd->xmax = judgement->xmax;
	tmfd->cmax = judgement->result == TM_SelfModified ? judgement->cmax : InvalidCommandId;
}

/* The fixed part of a record that comes on top of what was judged. */
static void
lsm_change_head(LsmChange *change, LsmRecord *record, CommandId cid, uint16 info)
{
	memset(record, 0, sizeof(LsmRecord));
	record->xid = U64FromFullTransactionId(GetCurrentFullTransactionId());
	record->cid = cid;
	record->info = info;
	if (change->judgement.lockers_below)
		record->info |= LSM_REC_LOCKERS_BELOW;
	record->root = change->judgement.root;
	record->prev = change->judgement.head;
	record->seq = change->judgement.head_seq + 1;
}

/*
 * Append the records of a change and publish them, unless something has been
 * added to the row since it was judged: then false, and the caller judges again.
 */
static bool
lsm_change_append(LsmChange *change, LsmNewRecord *insert, LsmNewRecord *versions, int nversions)
{
	LsmTable   *table = change->table;
	LsmTableShared *shared = table->shared;
	LsmTid		root = change->judgement.root;
	LWLock	   *stripe = lsm_stripe_lock(table, root);
	bool		locks_follow = insert != NULL && nversions > 1;
	int			kind = LSM_REC_KIND(versions[0].record->info);
	bool		ends = kind == LSM_REC_DELETE || kind == LSM_REC_MOVED;
	bool		done = false;
	bool		index_full = false;
	bool		pages_full = false;
	Buffer		vm = InvalidBuffer;
	LsmMemIndex *index;
	uint32		node;
	uint32		new_node = 0;

	/* read before any lock is taken; VACUUM may lengthen the map meanwhile */
	if (ends && LSM_TID_LB(root) < shared->vm_lbs)
		visibilitymap_pin(change->rel, LSM_TID_LB(root), &vm);
	LWLockAcquire(stripe, LW_EXCLUSIVE);
	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	if (!lsm_versions_unchanged(&change->judgement.iter) ||
		(ends && !BufferIsValid(vm) && LSM_TID_LB(root) < shared->vm_lbs))
		goto release;
	/* to lock a row is not to write to it */
	if (kind != LSM_REC_LOCK)
		lsm_check_conflict_in(change->rel, root, change->judgement.target);

	/* a table that nobody has written to since it was made has no generation */
	index = lsm_table_index(shared, shared->generation);
	node = lsm_memindex_reserve(index, root);
	if (locks_follow)
		new_node = lsm_memindex_reserve(index, LSM_INVALID_TID);
	if (node == 0 || (locks_follow && new_node == 0))
		index_full = true;
	else if (lsm_rowlog_append(change->rel, table, insert, versions, nversions, vm,
							   LSM_TID_LB(root)) == LSM_APPEND_NO_ROOM)
		pages_full = true;
	else
	{
		/* what it touches has to be known before the record is; others are but locks */
		lsm_touch_share_record(&index->touched, versions[0].record);
		/* the new root's locks first: who follows MOVED must find them */
		if (locks_follow)
			lsm_memindex_publish(index, new_node, insert->tid, versions[nversions - 1].tid);
		lsm_memindex_publish(index, node, root, versions[0].tid);

		/* a row that has moved counts once, where it is now: its INSERT counts at once, too */
		if (kind == LSM_REC_DELETE)
			lsm_table_note_end(table);
		else
			lsm_memindex_count(index, kind);
		done = true;
	}

release:
	LWLockRelease(&shared->gen_lock);
	LWLockRelease(stripe);
	if (BufferIsValid(vm))
		ReleaseBuffer(vm);
	if (index_full)
		lsm_index_make_room(change->rel, table);
	if (pages_full)
	{
		lsm_rowlog_make_room(change->rel, table, LSM_VERSION_PAGES);
		if (insert != NULL)
			lsm_rowlog_make_room(change->rel, table, LSM_ROOT_PAGES);
	}
	return done;
}

/* Does the version also hold for the snapshot that RI checks against? */
static bool
lsm_change_crosscheck(LsmChange *change, ItemPointer tid, Snapshot crosscheck)
{
	return crosscheck == InvalidSnapshot ||
		lsm_row_fetch_named(change->rel, change->table, lsm_tid_from_pointer(tid),
							crosscheck, NULL);
}

/* Begin in the caller's frame: the memory manager would ask malloc() for it each time. */
static LsmChange *
lsm_change_begin(LsmChange *change, Relation rel)
{
	change->rel = rel;
	change->table = lsm_table_open(rel);
	change->large = NULL;
	change->judged = false;
	change->have_tuple_lock = false;
	change->judgement.lockers = NULL;
	change->judgement.maxlockers = 0;
	(void) lsm_floor();
	lsm_rowlog_keep_bounds(rel, change->table);
	return change;
}

static void
lsm_change_end(LsmChange *change)
{
	if (change->judgement.lockers != NULL)
		pfree(change->judgement.lockers);
	lsm_slot_forget();			/* its xmax may be another one now */
}

TM_Result
lsm_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
				 Snapshot crosscheck, bool wait, TM_FailureData *tmfd, bool changing_part)
{
	LsmChange	room;
	LsmChange  *change = lsm_change_begin(&room, rel);
	TupleTableSlot *old = NULL;
	TM_Result	result;

	if (RelationIsLogicallyLogged(rel))
		old = MakeSingleTupleTableSlot(RelationGetDescr(rel), &LsmSlotOps);
	for (;;)
	{
		LsmRecord	head;
		LsmNewRecord new;
		bool		done;

		result = lsm_change_acquire(change, tid, cid, LockTupleExclusive, wait, XLTW_Delete, old);
		if (result == TM_Invisible)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("attempted to delete invisible tuple")));
		if (result == TM_Ok && !lsm_change_crosscheck(change, tid, crosscheck))
			result = change->judgement.result = TM_Updated;
		if (result != TM_Ok)
			break;

		lsm_change_head(change, &head, cid, LSM_REC_DELETE |
						(LockTupleExclusive << LSM_REC_STRENGTH_SHIFT) |
						(changing_part ? LSM_REC_PARTITION_MOVE : 0));
		lsm_record_form(rel, change->table, &head, NULL, NULL, NULL, NULL, &new);
		done = lsm_change_append(change, NULL, &new, 1);
		lsm_record_free(&new);
		if (done)
			break;
	}
	if (result != TM_Ok)
		lsm_change_failed(change, tid, tmfd);
	else
	{
		if (!changing_part)
			lsm_delete_near(change->table, change->judgement.root);
		if (old != NULL)
			lsm_logical_delete(rel, old);
		pgstat_count_heap_delete(rel);
	}
	if (old != NULL)
		ExecDropSingleTupleTableSlot(old);
	lsm_change_unqueue(change);
	lsm_change_end(change);
	return result;
}

/* ---- UPDATE ---- */

/* Which columns differ, and what that means. */
typedef struct LsmUpdatePlan
{
	bits8	   *changed;		/* column map */
	bool		moves;			/* an indexed column changed: a new root */
	LockTupleMode mode;
	bool		unpacked;		/* a column is the same, but not in the form that it is stored in */
} LsmUpdatePlan;

/* Is a value compressed as the column does not have it compressed any more? */
static bool
lsm_update_recompresses(struct varlena *value, Form_pg_attribute att)
{
	ToastCompressionId id = VARATT_IS_EXTENDED(value) ? toast_get_compression_id(value) :
		TOAST_INVALID_COMPRESSION_ID;
	char		method = CompressionMethodIsValid(att->attcompression) ? att->attcompression :
		default_toast_compression;

	if (id == TOAST_INVALID_COMPRESSION_ID)
		return false;
	return att->attstorage == TYPSTORAGE_EXTERNAL || att->attstorage == TYPSTORAGE_PLAIN ||
		id != (method == TOAST_LZ4_COMPRESSION ? TOAST_LZ4_COMPRESSION_ID :
			   TOAST_PGLZ_COMPRESSION_ID);
}

/*
 * Are two values of a column the same?  Two pointers to one value are, unread.
 * What two methods have compressed is not, nor what is compressed as the column does not have
 * it any more, beside one that is not: so that an UPDATE can change that.
 */
static bool
lsm_update_same(Datum old, Datum new, Form_pg_attribute att)
{
	if (att->attlen == -1)
	{
		struct varlena *a = (struct varlena *) DatumGetPointer(old);
		struct varlena *b = (struct varlena *) DatumGetPointer(new);

		if (VARATT_IS_EXTERNAL_ONDISK(a) && VARATT_IS_EXTERNAL_ONDISK(b) &&
			memcmp(a, b, TOAST_POINTER_SIZE) == 0)
			return true;
		if (VARATT_IS_EXTENDED(a) && VARATT_IS_EXTENDED(b) &&
			toast_get_compression_id(a) != TOAST_INVALID_COMPRESSION_ID &&
			toast_get_compression_id(b) != TOAST_INVALID_COMPRESSION_ID &&
			toast_get_compression_id(a) != toast_get_compression_id(b))
			return false;
		if (!VARATT_IS_EXTENDED(b) && lsm_update_recompresses(a, att))
			return false;
	}
	return datum_image_eq(old, new, att->attbyval, att->attlen);
}

/* Is the new one of two values that are the same, which is not stored, in another form? */
static inline bool
lsm_update_unpacked(Datum old, Datum new)
{
	struct varlena *a = (struct varlena *) DatumGetPointer(old);
	struct varlena *b = (struct varlena *) DatumGetPointer(new);

	return VARATT_IS_EXTERNAL(a) != VARATT_IS_EXTERNAL(b) ||
		VARATT_IS_COMPRESSED(a) != VARATT_IS_COMPRESSED(b);
}

static void
lsm_update_compare(Relation rel, TupleTableSlot *old, TupleTableSlot *new, LsmUpdatePlan *plan)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	Bitmapset  *indexed = lsm_compat_index_attrs(rel);
	Bitmapset  *keys = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);
	bool		key_changed = false;

	slot_getallattrs(old);
	slot_getallattrs(new);
	plan->changed = palloc0((tupdesc->natts + 7) / 8);
	/* an expression over the whole row depends on every column */
	plan->moves = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, indexed);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		int			member = att->attnum - FirstLowInvalidHeapAttributeNumber;

		if (att->attisdropped)
			continue;
		if (old->tts_isnull[i] == new->tts_isnull[i] &&
			(old->tts_isnull[i] ||
			 lsm_update_same(old->tts_values[i], new->tts_values[i], att)))
		{
			if (!old->tts_isnull[i] && att->attlen == -1 &&
				lsm_update_unpacked(old->tts_values[i], new->tts_values[i]))
				plan->unpacked = true;
			continue;
		}
		plan->changed[i / 8] |= 1 << (i % 8);
		if (bms_is_member(member, indexed))
			plan->moves = true;
		if (bms_is_member(member, keys))
			key_changed = true;
	}
	plan->mode = key_changed ? LockTupleExclusive : LockTupleNoKeyExclusive;
	bms_free(indexed);
	bms_free(keys);
}

/*
 * How strong the record of an update is: as the change is, or as the lock that our
 * transaction has on the row, which ends with it.  Who has waited for that must not
 * find an update that a weaker lock would have let through (compute_new_xmax_infomask()
 * in heapam.c).
 */
static LockTupleMode
lsm_update_strength(const LsmChange *change, const LsmUpdatePlan *plan)
{
	const LsmJudgement *judgement = &change->judgement;
	LockTupleMode strength = plan->mode;

	for (int i = 0; i < judgement->nlockers; i++)
		if (TransactionIdIsCurrentTransactionId((TransactionId) judgement->lockers[i].xid))
			strength = Max(strength, LSM_REC_STRENGTH(judgement->lockers[i].strength));
	return strength;
}

/* Rows of so few bytes, in a table that has at most so many, are written as a whole. */
#define LSM_WHOLE_BYTES			32
#define LSM_WHOLE_ROWS			1000

/*
 * Is it not worth making a DELTA?  That of a short row saves next to nothing, and who reads it
 * has to find the version that it builds on.  What touches few columns of a large table is made one
 * all the same, as scans go by what has been touched.
 */
static bool
lsm_update_is_whole(LsmView *view, const LsmRecord *formed, Size formed_len)
{
	return view != NULL && view->nbase == 1 && view->base[0]->rows <= LSM_WHOLE_ROWS &&
		lsm_record_columns_len(formed, formed_len) <= LSM_WHOLE_BYTES;
}

/*
 * Make the UPDATE record: a DELTA of all columns that differ from the full
 * version below, where that is smaller than the whole row.
 */
static void
lsm_update_form(LsmChange *change, const LsmUpdatePlan *plan, TupleTableSlot *slot,
				CommandId cid, LsmNewRecord *new)
{
	LsmJudgement *judgement = &change->judgement;
	TupleDesc	tupdesc = RelationGetDescr(change->rel);
	int			natts = tupdesc->natts;
	Size		map_bytes = (natts + 7) / 8;
	bits8	   *cols;
	bool	   *absent;
	LsmRecord	head;
	LsmRecord  *formed;
	Size		formed_len;
	Size		delta_len;
	Size		full_len;
	bool		delta = false;	/* because a large value need not be written again */

	lsm_change_head(change, &head, cid, LSM_REC_UPDATE |
					(lsm_update_strength(change, plan) << LSM_REC_STRENGTH_SHIFT));
	formed = lsm_slot_formed(slot, tupdesc, &formed_len);
	if (formed != NULL && lsm_update_is_whole(change->table->view, formed, formed_len))
	{
		lsm_record_form_again(&head, formed, formed_len, new);
		return;
	}
	cols = palloc(map_bytes);
	absent = palloc(natts * sizeof(bool));
	memcpy(cols, plan->changed, map_bytes);
	for (int i = 0; i < natts; i++)
	{
		if (i >= judgement->full_natts ||
			(judgement->delta_cols != NULL && i < judgement->delta_natts &&
			 (judgement->delta_cols[i / 8] & (1 << (i % 8)))))
			cols[i / 8] |= 1 << (i % 8);
		absent[i] = slot->tts_isnull[i] || !(cols[i / 8] & (1 << (i % 8)));
		if (absent[i] && !slot->tts_isnull[i] && TupleDescAttr(tupdesc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(slot->tts_values[i])))
			delta = true;
	}
	delta_len = 2 * map_bytes + heap_compute_data_size(tupdesc, slot->tts_values, absent);
	full_len = heap_compute_data_size(tupdesc, slot->tts_values, slot->tts_isnull);
	if (delta || delta_len < full_len)
		head.base = judgement->full_tid;
	lsm_record_form(change->rel, change->table, &head, slot->tts_values, slot->tts_isnull,
					head.base != LSM_INVALID_TID ? cols : NULL, &change->large, new);
	pfree(cols);
	pfree(absent);
}

/*
 * The xmax of a new version: whoever locks it, as the old version's lockers lock
 * it too.  INSERT ... ON CONFLICT DO UPDATE locks before it updates, by which its
 * users know an update from an insert.
 */
static uint64
lsm_update_locker(LsmChange *change)
{
	LsmJudgement *judgement = &change->judgement;

	for (int i = 0; i < judgement->nlockers; i++)
		if (TransactionIdIsCurrentTransactionId((TransactionId) judgement->lockers[i].xid))
			return judgement->lockers[i].xid;
	return judgement->nlockers > 0 ? judgement->lockers[0].xid : 0;
}

/* Update that keeps the root. */
static bool
lsm_update_in_place(LsmChange *change, const LsmUpdatePlan *plan, TupleTableSlot *slot,
					CommandId cid)
{
	LsmNewRecord new;
	bool		done;

	lsm_update_form(change, plan, slot, cid, &new);
	done = lsm_change_append(change, NULL, &new, 1);
	if (done)
	{
		lsm_slot_set_inserted(slot, new.tid, new.record->xid, cid, lsm_update_locker(change));
		if (plan->unpacked)
			lsm_written_forget();
		else
			lsm_written_note(change->rel, &change->judgement, &new, slot);
	}
	lsm_record_free(&new);
	return done;
}

/* Update that goes on under a new root; live lockers of the row come along. */
static bool
lsm_update_moving(LsmChange *change, const LsmUpdatePlan *plan, TupleTableSlot *slot,
				  CommandId cid)
{
	LsmJudgement *judgement = &change->judgement;
	LsmNewRecord *versions = palloc((1 + judgement->nlockers) * sizeof(LsmNewRecord));
	LsmNewRecord insert;
	LsmNeighbour near;
	LsmRecord	head;
	int			n = 0;
	bool		done;

	lsm_change_head(change, &head, cid, LSM_REC_MOVED |
					(lsm_update_strength(change, plan) << LSM_REC_STRENGTH_SHIFT));
	lsm_insert_form(change->rel, change->table, slot, head.xid, cid, 0, &change->large, &insert);
	if (lsm_near_find(change->rel, change->table, slot, judgement->root, false, &near))
		insert.near = &near;
	lsm_record_form(change->rel, change->table, &head, NULL, NULL, NULL, NULL, &versions[n]);
	n++;
	for (int i = 0; i < judgement->nlockers; i++)
	{
		LsmRecord	lock = {0};

		if (TransactionIdIsCurrentTransactionId((TransactionId) judgement->lockers[i].xid))
			continue;
		lock.xid = judgement->lockers[i].xid;
		lock.cid = judgement->lockers[i].cid;
		lock.info = LSM_REC_LOCK | judgement->lockers[i].strength;
		if (n > 1)
			lock.info |= LSM_REC_LOCKERS_BELOW;
		lock.seq = n;
		lsm_record_form(change->rel, change->table, &lock, NULL, NULL, NULL, NULL, &versions[n]);
		n++;
	}
	done = lsm_change_append(change, &insert, versions, n);
	lsm_near_end(change->rel, change->table);
	if (done)
		lsm_slot_set_inserted(slot, insert.tid, head.xid, cid, lsm_update_locker(change));
	for (int i = 0; i < n; i++)
		lsm_record_free(&versions[i]);
	pfree(versions);
	lsm_record_free(&insert);
	return done;
}

TM_Result
lsm_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
				 Snapshot snapshot, Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
				 LockTupleMode *lockmode, LSM_UPDATE_INDEXES_TYPE *update_indexes)
{
	LsmChange	room;
	LsmChange  *change = lsm_change_begin(&room, rel);
	TupleTableSlot *old = lsm_slot_find(rel, lsm_tid_from_pointer(otid));
	TupleTableSlot *made = NULL;	/* if the executor has not just read the row */
	LsmUpdatePlan plan = {NULL, false, LockTupleNoKeyExclusive, false};
	TM_Result	result;

	if (old == NULL || old == slot || !lsm_slot_is_whole(old))
		old = made = MakeSingleTupleTableSlot(RelationGetDescr(rel), &LsmSlotOps);
	*update_indexes = LSM_UPDATE_INDEXES_NONE;
	*lockmode = LockTupleExclusive;
	for (;;)
	{
		bool		done;
		bool		judged = false;

		if (plan.changed == NULL)
		{
			/* the version's columns first: they decide the lock mode */
			lsm_change_judge(change, otid, cid, LockTupleNoKeyExclusive, made);
			if (change->judgement.target != LSM_INVALID_TID)
			{
				lsm_update_compare(rel, old, slot, &plan);
				*lockmode = plan.mode;
				judged = plan.mode == LockTupleNoKeyExclusive &&
					change->judgement.result != TM_BeingModified;
			}
		}
		if (judged)
			result = change->judgement.result;
		else
			result = lsm_change_acquire(change, otid, cid, plan.mode, wait, XLTW_Update, NULL);
		if (result == TM_Invisible)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("attempted to update invisible tuple")));
		if (result == TM_Ok && !lsm_change_crosscheck(change, otid, crosscheck))
			result = change->judgement.result = TM_Updated;
		if (result != TM_Ok)
			break;

		slot->tts_tableOid = RelationGetRelid(rel);
		if (plan.moves)
			done = lsm_update_moving(change, &plan, slot, cid);
		else
			done = lsm_update_in_place(change, &plan, slot, cid);
		if (done)
			break;
	}
	if (result != TM_Ok)
		lsm_change_failed(change, otid, tmfd);
	else
	{
		if (plan.moves)
			*update_indexes = LSM_UPDATE_INDEXES_ALL;
		lsm_logical_update(rel, old, slot, plan.changed);
		lsm_compat_count_update(rel, !plan.moves);
	}
	lsm_change_unqueue(change);
	if (made != NULL)
		ExecDropSingleTupleTableSlot(made);
	if (plan.changed != NULL)
		pfree(plan.changed);
	if (change->large != NULL)
		pfree(change->large);
	lsm_change_end(change);
	return result;
}

/* ---- row locks ---- */

/* Write a LOCK record on what was judged; false: judge again. */
static bool
lsm_lock_write(LsmChange *change, CommandId cid, LockTupleMode mode)
{
	LsmRecord	head;
	LsmNewRecord new;
	bool		done;

	lsm_change_head(change, &head, cid, LSM_REC_LOCK | (mode << LSM_REC_STRENGTH_SHIFT));
	lsm_record_form(change->rel, change->table, &head, NULL, NULL, NULL, NULL, &new);
	done = lsm_change_append(change, NULL, &new, 1);
	lsm_record_free(&new);
	return done;
}

/*
 * A lock that is compatible with the update which moved the row must hold for
 * the row under its new roots too (heap_lock_updated_tuple's case).
 */
static TM_Result
lsm_lock_successors(LsmChange *change, LsmTid next, CommandId cid, LockTupleMode mode,
					LockWaitPolicy wait_policy)
{
	LsmChange	room;
	LsmChange  *onward = lsm_change_begin(&room, change->rel);
	ItemPointerData tid;
	TM_Result	result = TM_Ok;

	while (next != LSM_INVALID_TID)
	{
		LsmJudgement *judgement = &onward->judgement;

		CHECK_FOR_INTERRUPTS();
		lsm_tid_to_pointer(next, &tid);
		lsm_row_judge(change->rel, change->table, next, cid, mode, false, NULL, judgement);
		result = TM_Ok;
		if (judgement->target == LSM_INVALID_TID)
			break;				/* the update that made it has been rolled back */
		if (!judgement->own_change)
		{
			/* whether our snapshot sees that version is of no importance */
			result = judgement->unseen_result;
			if (result == TM_BeingModified)
			{
				if (wait_policy != LockWaitBlock)
				{
					result = TM_WouldBlock;
					break;
				}
				XactLockTableWait(judgement->wait_for, change->rel, &tid, XLTW_LockUpdated);
				continue;
			}
			if (result != TM_Ok)
				break;
			if (!judgement->own_lock && !lsm_lock_write(onward, cid, mode))
				continue;
		}
		next = judgement->next_moved ? judgement->next : LSM_INVALID_TID;
	}
	lsm_change_end(onward);
	return result;
}

/*
 * The version to be locked, or the one before it, has been found to be outdated.
 * With TUPLE_LOCK_FLAG_FIND_LAST_VERSION: go on with the newest one that is settled, until there
 * is none after it, whatever lock is wanted: what lies between may never have been the row for
 * anybody.  True: tid has been set to it.
 *
 * One after the other would take as many steps, each from the newest record down, as the row has
 * been changed since our snapshot: with a row that others change all the time we would never
 * come to the end.  Versions between the first and the last are passed as under SnapshotDirty in
 * heap: what our own transaction did to them does not stop us, whichever command
 * it was.  The last one does, if this command does not see it: the executor
 * learns from its cmin who made it.
 */
static bool
lsm_lock_traverse(LsmChange *change, ItemPointer tid, TM_FailureData *tmfd)
{
	LsmJudgement *judgement = &change->judgement;

	if (tmfd->traversed && judgement->own_change)
		judgement->result = judgement->next != LSM_INVALID_TID || judgement->partition_move ?
			TM_Updated : TM_Deleted;
	else if (tmfd->traversed && judgement->result == TM_Invisible)
	{
		judgement->result = TM_SelfModified;
		judgement->xmax = judgement->target_xid;
		judgement->cmax = judgement->target_cid;
	}
	if (judgement->result != TM_Updated)
		return false;
	if (judgement->partition_move)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
	if (judgement->next == LSM_INVALID_TID)
		return false;
	lsm_change_unqueue(change);
	lsm_tid_to_pointer(judgement->newest != LSM_INVALID_TID ? judgement->newest : judgement->next,
					   tid);
	tmfd->traversed = true;
	return true;
}

static void
lsm_lock_not_available(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on row in relation \"%s\"",
					RelationGetRelationName(rel))));
}

/* Wait as the policy says; false: the policy is to skip the row. */
static bool
lsm_lock_wait(LsmChange *change, ItemPointer tid, LockTupleMode mode, LockWaitPolicy wait_policy)
{
	TransactionId xid = change->judgement.wait_for;

	switch (wait_policy)
	{
		case LockWaitBlock:
			lsm_change_queue(change, mode);
			XactLockTableWait(xid, change->rel, tid, XLTW_Lock);
			return true;
		case LockWaitSkip:
			return lsm_compat_try_xact_lock(xid, false);
		case LockWaitError:
			if (!lsm_compat_try_xact_lock(xid, true))
				lsm_lock_not_available(change->rel);
			return true;
	}
	return true;
}

TM_Result
lsm_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
			   CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
			   TM_FailureData *tmfd)
{
	LsmChange	room;
	LsmChange  *change = lsm_change_begin(&room, rel);
	LsmJudgement *judgement = &change->judgement;
	bool		follow = (flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) != 0;
	TM_Result	result;

	tmfd->traversed = false;
	for (;;)
	{
		lsm_row_judge(rel, change->table, lsm_tid_from_pointer(tid), cid, mode, tmfd->traversed,
					  slot, judgement);
		result = judgement->result;

		if (result == TM_BeingModified)
		{
			if (lsm_lock_wait(change, tid, mode, wait_policy))
				continue;
			result = judgement->result = TM_WouldBlock;
			break;
		}
		if (follow && lsm_lock_traverse(change, tid, tmfd))
			continue;
		result = judgement->result;
		if (result != TM_Ok)
			break;
		if (judgement->next_moved && (flags & TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS))
		{
			result = lsm_lock_successors(change, judgement->next, cid, mode, wait_policy);
			if (result == TM_WouldBlock && wait_policy == LockWaitError)
				lsm_lock_not_available(rel);
			judgement->result = result;
			if (follow && lsm_lock_traverse(change, tid, tmfd))
				continue;
			if (result != TM_Ok)
				break;
		}
		if (judgement->own_lock || lsm_lock_write(change, cid, mode))
			break;
	}
	if (result != TM_Ok)
		lsm_change_failed(change, tid, tmfd);
	if (judgement->target != LSM_INVALID_TID)
	{
		slot->tts_tableOid = RelationGetRelid(rel);
		lsm_slot_set_name(slot, lsm_tid_from_pointer(tid));
	}
	lsm_change_unqueue(change);
	lsm_change_end(change);
	return result;
}
