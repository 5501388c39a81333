/*-------------------------------------------------------------------------
 *
 * lsm_row.c
 *	  Rows: the version that a snapshot sees, the version that a name means,
 *	  and what stands in the way of changing it.
 *
 * All of it walks a row's records from the newest down.  A DELTA holds all the
 * columns that differ from the full version it builds on, so that one step
 * below it completes the row.  Where that version is not found by its TID any
 * more, it or a later ancestor of the DELTA has become the bottom row, on which
 * the DELTA gives the same result (I9).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "lsm_mvcc.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

/* What a record means for a snapshot. */
typedef enum LsmEffect
{
	LSM_EFFECT_NONE,			/* as if it were not there */
	LSM_EFFECT_SEEN,			/* this version is the row */
	LSM_EFFECT_GONE				/* the row is deleted, or lives elsewhere */
} LsmEffect;

/* KEY SHARE 0, SHARE 1, NO KEY UPDATE 2, UPDATE 3: heap's table in one sum. */
bool
lsm_lock_modes_conflict(LockTupleMode a, LockTupleMode b)
{
	return (int) a + (int) b >= 3;
}

static inline bool
lsm_kind_is_version(int kind)
{
	return kind == LSM_REC_INSERT || kind == LSM_REC_UPDATE;
}

/* Can no snapshot see what was before this committed record? */
static bool
lsm_xid_removable(Relation rel, uint64 xid)
{
	return xid == 0 ||
		GlobalVisCheckRemovableFullXid(rel, FullTransactionIdFromU64(xid));
}

/*
 * Judge one record (not LOCK).  For dirty snapshots also says in the snapshot
 * whose transaction is undecided.
 */
static inline LsmEffect
lsm_record_effect(Relation rel, const LsmRowHead *head, Snapshot snapshot)
{
	int			kind = LSM_REC_KIND(head->info);
	LsmEffect	effect = lsm_kind_is_version(kind) ? LSM_EFFECT_SEEN : LSM_EFFECT_GONE;
	LsmXidState state;

	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			return head->xid == 0 || lsm_visible_mvcc(head, snapshot) ? effect : LSM_EFFECT_NONE;
		case SNAPSHOT_SELF:
			state = lsm_xid_state(head);
			return state == LSM_XID_OWN || state == LSM_XID_COMMITTED ? effect : LSM_EFFECT_NONE;
		case SNAPSHOT_ANY:
			if (effect == LSM_EFFECT_GONE || lsm_xid_state(head) == LSM_XID_ABORTED)
				return LSM_EFFECT_NONE;
			return LSM_EFFECT_SEEN;
		case SNAPSHOT_DIRTY:
			state = lsm_xid_state(head);
			if (state == LSM_XID_ABORTED)
				return LSM_EFFECT_NONE;
			if (state == LSM_XID_RUNNING)
			{
				/* as in heap, a version that is being replaced is what is found */
				if (kind != LSM_REC_INSERT)
				{
					snapshot->xmax = (TransactionId) head->xid;
					return LSM_EFFECT_NONE;
				}
				snapshot->xmin = (TransactionId) head->xid;
				if (head->info & LSM_REC_SPECULATIVE)
					snapshot->speculativeToken = head->cid;
			}
			return effect;
		case SNAPSHOT_NON_VACUUMABLE:
			state = lsm_xid_state(head);
			if (state == LSM_XID_ABORTED)
				return LSM_EFFECT_NONE;
			if (effect == LSM_EFFECT_GONE &&
				!(state == LSM_XID_COMMITTED && lsm_xid_removable(rel, head->xid)))
				return LSM_EFFECT_NONE;
			return effect;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("access method \"lsm\" cannot read table \"%s\" with this kind of snapshot",
							RelationGetRelationName(rel))));
	}
	return LSM_EFFECT_NONE;		/* keep compiler quiet */
}

/*
 * Was it seen before its transaction decided what becomes of it, and has committed since?  Then
 * the row is read again.
 */
static inline bool
lsm_version_is_late(LsmVersionIter *iter, const LsmRowHead *head)
{
	if (likely(!(head->info & LSM_REC_SPECULATIVE)) || lsm_xid_state(head) != LSM_XID_COMMITTED)
		return false;
	iter->stale = true;
	return true;
}

/* Note what became of the xid of a segment's record, so that it is found out once. */
static inline void
lsm_version_hint(LsmVersion *version)
{
	if (!version->memtable)
		version->head.info |= lsm_hint_for(&version->head);
}

static void
lsm_row_no_base(Relation rel, LsmTid root)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("row (%u,%u) of table \"%s\" is incomplete",
					LSM_TID_LB(root), LSM_TID_OFFSET(root), RelationGetRelationName(rel)),
			 errdetail("A version of it builds on a row that is not there."),
			 errhint("Run lsm_check() on the table, then restore it from a backup.")));
}

/* What a DELTA on that full version calls it. */
static inline LsmTid
lsm_version_full_tid(const LsmVersion *version, LsmTid root)
{
	return version->bottom ? root : version->head.vtid;
}

/* What the slot at hand notes of a version, but for the full one that it builds on. */
static void
lsm_row_describe(const LsmVersionIter *iter, const LsmVersion *version, LsmNoted *noted)
{
	noted->epoch = iter->epoch;
	noted->counter = iter->counter;
	noted->root = iter->root;
	noted->vtid = version->head.vtid;
	noted->xid = version->head.xid;
	noted->cid = version->head.cid;
	noted->newest = iter->met <= 1 && !(version->head.info & LSM_REC_LOCKERS_BELOW);
	noted->head = iter->heads[0];
	noted->seq = version->seq;
	noted->delta_natts = 0;
	noted->delta_cols = NULL;
}

/*
 * Store the version that an iterator has found, completed from the one it builds
 * on, and end the iterator.  False: it is stale.  slot may be NULL.  lasting: the version is
 * committed, or our own.
 */
static bool
lsm_row_store(LsmVersionIter *iter, LsmVersion *version, TupleTableSlot *slot, LsmTid name,
			  uint64 xmax, uint32 cmax, bool lasting)
{
	bool		memtable = version->memtable;
	LsmNoted	noted;

	if (slot == NULL)
	{
		lsm_stat_row(&iter->table->stat, iter->root, memtable);
		lsm_versions_end(iter);
		return true;
	}
	if (lasting)
		lsm_row_describe(iter, version, &noted);
	if (version->head.info & LSM_REC_DELTA)
	{
		LsmTid		base = version->head.base;

		lsm_slot_store_delta(slot, iter->rel, version);
		version = lsm_versions_base(iter, base);
		if (version == NULL)
		{
			ExecClearTuple(slot);	/* no DELTA for what is found then */
			lsm_versions_end(iter);
			if (!iter->stale)
				lsm_row_no_base(iter->rel, iter->root);
			return false;
		}
	}
	lsm_slot_store(slot, iter->rel, version, xmax, cmax);
	lsm_slot_set_name(slot, name);
	if (lasting)
	{
		noted.full_tid = lsm_version_full_tid(version, iter->root);
		noted.full_natts = version->head.natts;
		lsm_slot_note(slot, &noted);
	}
	lsm_stat_row(&iter->table->stat, iter->root, memtable);
	lsm_versions_end(iter);
	return true;
}

/*
 * The iterator has found the version that a snapshot sees.  A serializable reader
 * locks it the first time; false: the row has got new records meanwhile, begin
 * anew to see whether they are in conflict.
 */
static bool
lsm_row_read(LsmVersionIter *iter, const LsmRowHead *head, Snapshot snapshot, bool *locked)
{
	bool		unchanged;

	if (*locked || !IsolationIsSerializable() || !IsMVCCSnapshot(snapshot))
		return true;
	lsm_predicate_lock_version(iter->rel, iter->table, head, snapshot);
	*locked = true;
	LWLockAcquire(&iter->table->shared->gen_lock, LW_SHARED);
	unchanged = lsm_versions_unchanged(iter);
	LWLockRelease(&iter->table->shared->gen_lock);
	if (!unchanged)
		iter->stale = true;
	return unchanged;
}

/*
 * Fetch the version of a row that snapshot sees into slot (may be NULL).  False:
 * it sees none; *all_dead then says whether that is certain for everybody.
 *
 * A serializable reader is in conflict with who wrote the oldest of the records that it
 * does not see, and with nobody who came after him (I10).
 */
bool
lsm_row_fetch(Relation rel, LsmTable *table, LsmTid root, Snapshot snapshot,
			  TupleTableSlot *slot, bool *all_dead)
{
	LsmVersionIter iter;
	LsmVersion *version;
	bool		ssi = IsMVCCSnapshot(snapshot);
	bool		locked = false;
	bool		live;

	if (all_dead != NULL)
		*all_dead = false;
	do
	{
		uint64		xmax = 0;
		uint32		cmax = 0;
		uint64		replacer = 0;

		if (snapshot->snapshot_type == SNAPSHOT_DIRTY)
		{
			snapshot->xmin = snapshot->xmax = InvalidTransactionId;
			snapshot->speculativeToken = 0;
		}
		live = false;
		lsm_versions_begin(&iter, rel, table, root);
		if (iter.missed)
			lsm_stat_looked(&table->stat);
		if (slot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC &&
			!IsolationIsSerializable() && (version = lsm_versions_settled(&iter)) != NULL)
		{
			LsmNoted	noted;

			lsm_stat_record(&table->stat, root, false);
			lsm_stat_row(&table->stat, root, false);
			if (version->record != NULL)
			{
				lsm_slot_store(slot, rel, version, 0, 0);
				lsm_slot_set_name(slot, lsm_version_name(&version->head));
			}
			else
				lsm_slot_store_row(slot, rel, version->cached, version->row, &version->head,
								   false);
			lsm_row_describe(&iter, version, &noted);
			noted.full_tid = root;
			noted.full_natts = version->head.natts;
			lsm_slot_note(slot, &noted);
			lsm_versions_end(&iter);
			return true;
		}
		if (slot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC &&
			!IsolationIsSerializable() && lsm_written_fetch(&iter, snapshot, slot))
		{
			lsm_stat_record(&table->stat, root, true);
			lsm_stat_looked(&table->stat);
			lsm_stat_row(&table->stat, root, true);
			lsm_versions_end(&iter);
			return true;
		}
		iter.stat = &table->stat;

		/*
		 * the planner looks whether the ends of an index are there, which has
		 * their values
		 */
		iter.presence = snapshot->snapshot_type == SNAPSHOT_NON_VACUUMABLE;
		while ((version = lsm_versions_next(&iter)) != NULL)
		{
			LsmRowHead *head = &version->head;
			int			kind = LSM_REC_KIND(head->info);

			if (lsm_version_is_late(&iter, head))
				break;
			if (kind == LSM_REC_LOCK)
			{
				if (xmax == 0 && lsm_xid_state(head) != LSM_XID_ABORTED)
				{
					xmax = head->xid;
					cmax = head->cid;
				}
				continue;
			}
			lsm_version_hint(version);
			switch (lsm_record_effect(rel, head, snapshot))
			{
				case LSM_EFFECT_NONE:
					if (head->info & LSM_REC_ABORTED)
						continue;
					if (ssi && lsm_xid_state(head) != LSM_XID_ABORTED)
						replacer = head->xid;
					xmax = head->xid;
					cmax = head->cid;
					live = true;
					continue;
				case LSM_EFFECT_GONE:
					lsm_check_conflict_out(rel, snapshot, replacer);
					if (all_dead != NULL && !live && lsm_xid_state(head) == LSM_XID_COMMITTED)
						*all_dead = lsm_xid_removable(rel, head->xid);
					lsm_versions_end(&iter);
					return false;
				case LSM_EFFECT_SEEN:
					break;
			}
			lsm_check_conflict_out(rel, snapshot, replacer);
			if (!lsm_row_read(&iter, head, snapshot, &locked))
				break;
			if (version->memtable)
				lsm_stat_looked(&table->stat);
			if (lsm_row_store(&iter, version, slot, lsm_version_name(head), xmax, cmax, ssi))
				return true;
			break;
		}
		if (version == NULL && !iter.stale)
			lsm_check_conflict_out(rel, snapshot, replacer);
		lsm_versions_end(&iter);
	} while (iter.stale);
	if (all_dead != NULL)
		*all_dead = !live;		/* rolled back, or dropped from the table (I12) */
	return false;
}

/*
 * A dirty snapshot sees two versions of a row that an UPDATE which has not ended leaves in its place:
 * this fetches the newer one, when lsm_row_fetch() has given the older, with the xid that replaces
 * it.  False: there is no such version (any more).
 */
bool
lsm_row_fetch_newer(Relation rel, LsmTable *table, LsmTid root, Snapshot snapshot,
					TupleTableSlot *slot)
{
	LsmVersionIter iter;
	LsmVersion *version;

	Assert(snapshot->snapshot_type == SNAPSHOT_DIRTY);
	do
	{
		snapshot->xmin = snapshot->xmax = InvalidTransactionId;
		snapshot->speculativeToken = 0;
		lsm_versions_begin(&iter, rel, table, root);
		iter.stat = &table->stat;
		while ((version = lsm_versions_next(&iter)) != NULL)
		{
			LsmRowHead *head = &version->head;
			int			kind = LSM_REC_KIND(head->info);
			LsmXidState state = lsm_xid_state(head);

			if (kind == LSM_REC_LOCK || state == LSM_XID_ABORTED)
				continue;
			if (kind != LSM_REC_UPDATE || state != LSM_XID_RUNNING)
				break;
			snapshot->xmin = (TransactionId) head->xid;
			if (lsm_row_store(&iter, version, slot, lsm_version_name(head), 0, 0, false))
				return true;
			break;
		}
		lsm_versions_end(&iter);
	} while (iter.stale);
	return false;
}

/*
 * Is the row whose root an index holds gone for everybody?  *xid is then the
 * newest xid of which a snapshot must know for that, 0 if it takes none: the
 * INSERT was rolled back, or a job has dropped the row and told the standbys.
 * marked: the index has found it to be dead before.
 */
bool
lsm_row_is_dead(Relation rel, LsmTable *table, LsmTid root, bool marked, uint64 *xid)
{
	LsmVersionIter iter;
	LsmVersion *version;

	do
	{
		*xid = 0;
		lsm_versions_begin(&iter, rel, table, root);
		while ((version = lsm_versions_next(&iter)) != NULL)
		{
			LsmRowHead *head = &version->head;
			bool		dead;

			if (LSM_REC_KIND(head->info) == LSM_REC_LOCK || lsm_xid_state(head) == LSM_XID_ABORTED)
				continue;
			dead = !lsm_kind_is_version(LSM_REC_KIND(head->info)) &&
				lsm_xid_state(head) == LSM_XID_COMMITTED &&
				(marked || lsm_xid_removable(rel, head->xid));
			*xid = head->xid;
			lsm_versions_end(&iter);
			return dead;
		}
		lsm_versions_end(&iter);
	} while (iter.stale);
	return true;
}

/*
 * The root under which a row goes on that for snapshot has left this one;
 * LSM_INVALID_TID if it does not.
 */
LsmTid
lsm_row_successor(Relation rel, LsmTable *table, LsmTid root, Snapshot snapshot)
{
	LsmVersionIter iter;
	LsmVersion *version;
	LsmTid		next;

	do
	{
		next = LSM_INVALID_TID;
		lsm_versions_begin(&iter, rel, table, root);
		while ((version = lsm_versions_next(&iter)) != NULL)
		{
			LsmRowHead *head = &version->head;

			if (LSM_REC_KIND(head->info) == LSM_REC_LOCK ||
				lsm_record_effect(rel, head, snapshot) == LSM_EFFECT_NONE)
				continue;
			if (LSM_REC_KIND(head->info) == LSM_REC_MOVED)
				next = head->base;
			break;
		}
		lsm_versions_end(&iter);
	} while (iter.stale);
	return next;
}

/* So many newer versions are walked over to one that is asked for by its name. */
#define LSM_NEWER_WALKED		16

/* Is it the version that this transaction calls by that name? */
static bool
lsm_version_is_named(const LsmVersion *version, LsmTid tid, LsmXidState state)
{
	const LsmRowHead *head = &version->head;

	if (!lsm_kind_is_version(LSM_REC_KIND(head->info)))
		return false;
	if (LSM_TID_IS_VERSION(tid))
		return head->vtid == tid;
	return version->bottom ||
		(head->xid < lsm_floor() && state == LSM_XID_COMMITTED);
}

/*
 * Fetch exactly the version with that name, if snapshot sees it; slot may be
 * NULL.
 *
 * Deferred triggers ask for each version that their transaction has made, of a row that it may
 * have changed very often: so who takes any version does not walk over many newer ones to his.
 * (What xmax would be is not known then.)
 */
bool
lsm_row_fetch_named(Relation rel, LsmTable *table, LsmTid tid, Snapshot snapshot,
					TupleTableSlot *slot)
{
	LsmVersionIter iter;
	LsmVersion *version;
	LsmTid		root;
	bool		any = snapshot->snapshot_type == SNAPSHOT_ANY;
	bool		ssi = IsMVCCSnapshot(snapshot);
	bool		locked = false;

	do
	{
		uint64		xmax = 0;
		uint32		cmax = 0;
		uint64		replacer = 0;
		int			newer = 0;

		if (!lsm_find_root(rel, table, tid, &root))
			return false;
		lsm_versions_begin(&iter, rel, table, root);
		iter.stat = &table->stat;
		while ((version = lsm_versions_next(&iter)) != NULL)
		{
			LsmRowHead *head = &version->head;
			LsmXidState state;

			state = lsm_xid_state(head);
			if (LSM_REC_KIND(head->info) == LSM_REC_LOCK)
			{
				if (xmax == 0 && state != LSM_XID_ABORTED)
				{
					xmax = head->xid;
					cmax = head->cid;
				}
				continue;
			}
			if (!lsm_version_is_named(version, tid, state))
			{
				/* newer than the one we look for: does it hide that one? */
				if (!any && lsm_record_effect(rel, head, snapshot) != LSM_EFFECT_NONE)
				{
					lsm_check_conflict_out(rel, snapshot, replacer);
					break;
				}
				if (state != LSM_XID_ABORTED)
				{
					if (ssi)
						replacer = head->xid;
					xmax = head->xid;
					cmax = head->cid;
				}
				if (any && ++newer == LSM_NEWER_WALKED && lsm_versions_skip_to(&iter, tid))
					xmax = cmax = 0;
				continue;
			}
			if (state == LSM_XID_ABORTED)
				break;
			if (!any && lsm_record_effect(rel, head, snapshot) != LSM_EFFECT_SEEN)
			{
				if (ssi)
					lsm_check_conflict_out(rel, snapshot, head->xid);
				break;
			}
			lsm_check_conflict_out(rel, snapshot, replacer);
			if (!lsm_row_read(&iter, head, snapshot, &locked))
				break;
			if (lsm_row_store(&iter, version, slot, tid, xmax, cmax, state != LSM_XID_RUNNING))
				return true;
			break;
		}
		lsm_versions_end(&iter);
	} while (iter.stale);
	return false;
}

/* ---- judging ---- */

/* What is newer than the version judged, as far as it counts. */
typedef struct LsmNewer
{
	bool		any;
	int			kind;
	uint16		info;
	uint64		xid;
	uint32		cid;
	LsmXidState state;
	LsmTid		name;			/* of the next version */
} LsmNewer;

static LockTupleMode
lsm_record_strength(const LsmRowHead *head)
{
	return LSM_REC_KIND(head->info) == LSM_REC_DELETE ?
		LockTupleExclusive : LSM_REC_STRENGTH(head->info);
}

static void
lsm_newer_set(LsmNewer *newer, const LsmRowHead *head, LsmXidState state)
{
	newer->any = true;
	newer->kind = LSM_REC_KIND(head->info);
	newer->info = head->info;
	newer->xid = head->xid;
	newer->cid = head->cid;
	newer->state = state;
	newer->name = newer->kind == LSM_REC_MOVED ? head->base : lsm_version_name(head);
}

/* A live locker: remember it, it may have to be copied to a new root. */
static void
lsm_judge_locker(LsmJudgement *judgement, const LsmRowHead *head)
{
	/* one record speaks for a transaction: the strongest */
	for (int i = 0; i < judgement->nlockers; i++)
	{
		if (judgement->lockers[i].xid != head->xid)
			continue;
		judgement->lockers[i].strength = Max(judgement->lockers[i].strength,
											 head->info & LSM_REC_STRENGTH_MASK);
		return;
	}
	if (judgement->nlockers >= judgement->maxlockers)
	{
		judgement->maxlockers = Max(judgement->maxlockers * 2, 16);
		if (judgement->lockers == NULL)
			judgement->lockers = palloc(sizeof(*judgement->lockers) * judgement->maxlockers);
		else
			judgement->lockers = repalloc(judgement->lockers,
										  sizeof(*judgement->lockers) * judgement->maxlockers);
	}
	judgement->lockers[judgement->nlockers].xid = head->xid;
	judgement->lockers[judgement->nlockers].cid = head->cid;
	judgement->lockers[judgement->nlockers].strength = head->info & LSM_REC_STRENGTH_MASK;
	judgement->nlockers++;
}

/* A LOCK record of our own, or of somebody who runs; *locker: the newest of these in the way. */
static void
lsm_judge_lock(LsmJudgement *judgement, const LsmRowHead *head, LsmXidState state,
			   LockTupleMode mode, uint64 *locker)
{
	lsm_judge_locker(judgement, head);
	if (state == LSM_XID_RUNNING)
	{
		/*
		 * the oldest in the way: later ones of its transaction may end with it, or
		 * have no xid of their own to wait for any more
		 */
		if (lsm_lock_modes_conflict(mode, LSM_REC_STRENGTH(head->info)))
			*locker = head->xid;
		judgement->lockers_below = true;
		return;
	}
	judgement->own_any_lock = true;
	if (LSM_REC_STRENGTH(head->info) >= mode)
		judgement->own_lock = true;

	/* a record of the same (sub)transaction that is as strong says all that this one does */
	if ((TransactionId) head->xid != GetCurrentTransactionIdIfAny() ||
		LSM_REC_STRENGTH(head->info) > mode)
		judgement->lockers_below = true;
}

/* The version judged is a DELTA: its columns belong to the next one too. */
static void
lsm_judge_delta(LsmJudgement *judgement, const LsmVersion *version)
{
	memcpy(judgement->cols_copy, version->head.cols, version->head.cols_len);
	judgement->delta_cols = judgement->cols_copy;
	judgement->delta_natts = version->head.natts;
}

/* The full version that the version judged is, or builds on. */
static void
lsm_judge_full(LsmJudgement *judgement, const LsmVersion *version, TupleTableSlot *slot)
{
	if (slot != NULL)
	{
		lsm_slot_store(slot, judgement->iter.rel, version, 0, 0);
		lsm_slot_set_name(slot, judgement->name);
	}
	judgement->full_tid = lsm_version_full_tid(version, judgement->root);
	judgement->full_natts = version->head.natts;
}

/* From what was seen to a result. */
static void
lsm_judge_result(LsmJudgement *judgement, const LsmNewer *next, const LsmNewer *running,
				 const LsmNewer *committed, LsmTid moved_to, uint64 locker,
				 LockTupleMode mode, uint32 cid)
{
	const LsmNewer *newer = next;

	/*
	 * A KEY SHARE lock goes through updates that leave the key alone, committed
	 * or not; but then none of the later changes may be in its way either.
	 */
	if (newer->any && newer->state != LSM_XID_OWN &&
		newer->kind != LSM_REC_DELETE &&
		!lsm_lock_modes_conflict(mode, LSM_REC_STRENGTH(newer->info)))
	{
		if (running->any)
			newer = running;
		else if (committed->any)
			newer = committed;
		else
		{
			/* the row may have moved by a later change than the next one */
			judgement->next = moved_to;
			judgement->next_moved = moved_to != LSM_INVALID_TID;
			newer = NULL;
		}
	}
	if (newer == NULL || !newer->any)
	{
		judgement->result = locker != 0 ? TM_BeingModified : TM_Ok;
		judgement->wait_for = (TransactionId) locker;
		return;
	}

	judgement->xmax = (TransactionId) newer->xid;
	judgement->cmax = newer->cid;
	judgement->partition_move = (newer->info & LSM_REC_PARTITION_MOVE) != 0;
	switch (newer->state)
	{
		case LSM_XID_OWN:
			judgement->own_change = true;
			judgement->result = newer->cid >= cid ? TM_SelfModified : TM_Invisible;
			break;
		case LSM_XID_RUNNING:
			judgement->result = TM_BeingModified;

			/*
			 * A lock in the way has to be waited for as well, and first: it may be one of a
			 * subtransaction that the change is part of, and whose end is the end of both.
			 * Who has changed the row, a subtransaction that was released, has no xid of
			 * its own to wait for any more, but that of the whole transaction.
			 */
			judgement->wait_for = (TransactionId) (locker != 0 ? locker : newer->xid);
			break;
		default:
			/* heap calls a row updated that has moved to another partition */
			judgement->result = newer->kind == LSM_REC_DELETE && !judgement->partition_move ?
				TM_Deleted : TM_Updated;
			break;
	}
	if (newer->kind != LSM_REC_DELETE)
	{
		judgement->next = newer->name;
		judgement->next_moved = newer->kind == LSM_REC_MOVED;
	}
}

/*
 * Judge a change of the version that the slot at hand has under that name, without looking at
 * the row: if it was its newest, and nobody had it locked, nothing stands in the way, unless
 * lsm_versions_unchanged(&judgement->iter) says otherwise under the row's stripe.  Then, or when
 * this says false, lsm_row_judge() has to look.  Takes no locks.
 */
bool
lsm_row_judge_noted(Relation rel, LsmTable *table, LsmTid tid, uint32 cid, LsmJudgement *judgement)
{
	LsmVersionIter *iter = &judgement->iter;
	TupleTableSlot *slot = lsm_slot_find(rel, tid);
	const LsmNoted *noted = lsm_slot_noted();

	if (slot == NULL || !noted->newest ||
		(noted->cid >= cid && noted->xid != 0 &&
		 TransactionIdIsCurrentTransactionId((TransactionId) noted->xid)))
		return false;
	memset(judgement, 0, offsetof(LsmJudgement, iter));
	judgement->nlockers = 0;
	judgement->name = tid;
	judgement->result = judgement->unseen_result = TM_Ok;
	judgement->root = noted->root;
	judgement->target = noted->vtid;
	judgement->target_xid = (TransactionId) noted->xid;
	judgement->target_cid = noted->cid;
	judgement->head = noted->head;
	if (noted->head != LSM_INVALID_TID)
		judgement->head_seq = noted->seq;
	judgement->full_tid = noted->full_tid;
	judgement->full_natts = noted->full_natts;
	judgement->delta_natts = lsm_slot_delta_cols(slot, judgement->cols_copy);
	if (judgement->delta_natts > 0)
		judgement->delta_cols = judgement->cols_copy;
	iter->rel = rel;
	iter->table = table;
	iter->root = noted->root;
	iter->epoch = noted->epoch;
	iter->counter = noted->counter;
	iter->heads[0] = noted->head;
	iter->stale = false;
	return true;
}

/*
 * Judge a change with that strength (or a lock of it) of the version with that
 * name, as HeapTupleSatisfiesUpdate and the rules of row locks do; the version
 * goes into slot unless it is NULL.  last: any newer version stands in the way,
 * also one that a lock of that strength goes together with.  Takes no lock that
 * outlasts the call: under the row's stripe,
 * lsm_versions_unchanged(&judgement->iter) says whether it still holds.
 */
void
lsm_row_judge(Relation rel, LsmTable *table, LsmTid tid, uint32 cid,
			  LockTupleMode mode, bool last, TupleTableSlot *slot, LsmJudgement *judgement)
{
	LsmVersionIter *iter = &judgement->iter;
	LsmVersion *version;
	LockTupleMode change_mode = last ? LockTupleExclusive : mode;	/* against changes */

	do
	{
		LsmNewer	next = {0};
		LsmNewer	running = {0};
		LsmNewer	committed = {0};
		uint64		locker = 0;
		LsmTid		moved_to = LSM_INVALID_TID;
		bool		found = false;	/* the version itself */
		bool		invisible = false;
		bool		complete = false;	/* and the one it builds on */
		bool		first = true;
		LsmTid		base = LSM_INVALID_TID;

		memset(judgement, 0, offsetof(LsmJudgement, iter));
		judgement->nlockers = 0;
		judgement->name = tid;
		judgement->result = TM_Deleted;
		iter->stale = false;
		if (!lsm_find_root(rel, table, tid, &judgement->root))
			return;

		lsm_versions_begin(iter, rel, table, judgement->root);
		judgement->head = iter->heads[0];
		while ((version = lsm_versions_next(iter)) != NULL)
		{
			LsmRowHead *head = &version->head;
			LsmXidState state = lsm_xid_state(head);
			bool		more = (head->info & LSM_REC_LOCKERS_BELOW) != 0;

			if (lsm_version_is_late(iter, head))
				break;
			if (first && iter->heads[0] != LSM_INVALID_TID)
				judgement->head_seq = version->seq;
			first = false;
			lsm_version_hint(version);

			if (LSM_REC_KIND(head->info) == LSM_REC_LOCK)
			{
				if (state == LSM_XID_OWN || state == LSM_XID_RUNNING)
					lsm_judge_lock(judgement, head, state, mode, &locker);
			}
			else if (found)
			{
				if (!complete && lsm_version_is_base(version, base))
				{
					lsm_judge_full(judgement, version, slot);
					complete = true;
				}
			}
			else if (state != LSM_XID_ABORTED)
			{
				if (!lsm_version_is_named(version, tid, state))
				{
					lsm_newer_set(&next, head, state);
					if (next.kind == LSM_REC_MOVED)
						moved_to = next.name;
					if (judgement->newest == LSM_INVALID_TID && state != LSM_XID_RUNNING &&
						next.kind != LSM_REC_DELETE)
						judgement->newest = next.name;
					if (lsm_lock_modes_conflict(change_mode, lsm_record_strength(head)))
					{
						if (state == LSM_XID_RUNNING)
							lsm_newer_set(&running, head, state);
						else if (state == LSM_XID_COMMITTED)
							lsm_newer_set(&committed, head, state);
					}
				}
				else
				{
					found = true;
					judgement->target = head->vtid;
					judgement->target_cid = head->cid;
					judgement->target_xid = (TransactionId) head->xid;
					invisible = state == LSM_XID_RUNNING ||
						(state == LSM_XID_OWN && head->cid >= cid);
					if (head->info & LSM_REC_DELTA)
					{
						base = head->base;
						lsm_judge_delta(judgement, version);
						if (slot != NULL)
							lsm_slot_store_delta(slot, iter->rel, version);
						if (!more && slot == NULL)
						{
							judgement->full_tid = lsm_slot_full_tid(iter, tid, &judgement->full_natts);
							complete = judgement->full_tid != LSM_INVALID_TID;
						}
						if (!more && !complete)
						{
							/* no lockers below: straight to the full version */
							version = lsm_versions_base(iter, base);
							if (version == NULL)
								break;
							lsm_judge_full(judgement, version, slot);
							complete = true;
						}
					}
					else
					{
						lsm_judge_full(judgement, version, slot);
						complete = true;
					}
				}
			}
			if (found && complete && !more)
				break;
		}
		lsm_versions_end(iter);
		if (iter->stale)
		{
			if (slot != NULL)
				ExecClearTuple(slot);
			continue;
		}
		if (found && !complete)
			lsm_row_no_base(rel, judgement->root);
		if (!found)
		{
			/* the row has gone; say how, if that is still known */
			if (next.any && next.state == LSM_XID_COMMITTED)
			{
				judgement->xmax = (TransactionId) next.xid;
				judgement->cmax = next.cid;
				judgement->partition_move = (next.info & LSM_REC_PARTITION_MOVE) != 0;
				if (judgement->partition_move)
					judgement->result = TM_Updated;
			}
			return;
		}
		lsm_judge_result(judgement, &next, &running, &committed, moved_to, locker,
						 change_mode, cid);
		judgement->unseen_result = judgement->result;
		if (invisible)
			judgement->result = TM_Invisible;
	} while (iter->stale);
}
