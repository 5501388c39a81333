/*-------------------------------------------------------------------------
 *
 * lsm_visibility.c
 *	  Which records count for whom.
 *
 * Each record is judged by itself; the order (newest first) does the rest.
 * What the record or the manifest says about its xid comes before clog: then an
 * xid is never looked up after clog was truncated (I8).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "lsm_mvcc.h"
#include "storage/predicate.h"
#include "storage/procarray.h"

/* What has become of a record's transaction, as of now. */
LsmXidState
lsm_xid_state(const LsmRowHead *head)
{
	TransactionId xid = (TransactionId) head->xid;

	if (head->info & LSM_REC_ABORTED)
		return LSM_XID_ABORTED;
	if (head->xid == 0 || (head->info & LSM_REC_COMMITTED))
		return LSM_XID_COMMITTED;
	if (TransactionIdIsCurrentTransactionId(xid))
		return LSM_XID_OWN;
	if (TransactionIdIsInProgress(xid))
		return LSM_XID_RUNNING;
	return TransactionIdDidCommit(xid) ? LSM_XID_COMMITTED : LSM_XID_ABORTED;
}

/* Is a record in effect for an MVCC snapshot? */
bool
lsm_visible_mvcc(const LsmRowHead *head, Snapshot snapshot)
{
	TransactionId xid = (TransactionId) head->xid;

	if (head->xid == 0)
		return true;
	if (head->info & LSM_REC_ABORTED)
		return false;
	if (head->info & LSM_REC_COMMITTED)
		return head->xid < lsm_full_xid(snapshot->xmin) || !XidInMVCCSnapshot(xid, snapshot);
	if (TransactionIdIsCurrentTransactionId(xid))
		return head->cid < snapshot->curcid && !(head->info & LSM_REC_SPECULATIVE);
	if (XidInMVCCSnapshot(xid, snapshot))
		return false;
	return TransactionIdDidCommit(xid);
}

/*
 * The hint that may be put on a record whose xid is neither ours nor running
 * for the snapshot just used: 0 if it has one.  A speculative INSERT may be given up by a
 * transaction that commits.
 */
uint16
lsm_hint_for(const LsmRowHead *head)
{
	if (head->xid == 0 ||
		(head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED | LSM_REC_SPECULATIVE)))
		return 0;
	switch (lsm_xid_state(head))
	{
		case LSM_XID_COMMITTED:
			return LSM_REC_COMMITTED;
		case LSM_XID_ABORTED:
			return LSM_REC_ABORTED;
		default:
			return 0;
	}
}

/* The same for a record of the row log. */
uint16
lsm_hint_for_record(const LsmRecord *record)
{
	LsmRowHead	head;

	head.xid = record->xid;
	head.info = record->info;
	return lsm_hint_for(&head);
}

/*
 * What a predicate lock on a version is taken on: its version TID, and for the
 * bottom of a row the root TID.  A version that a reader has locked by its version
 * TID may become the bottom while the lock is held: it outlasts the reader's floor.
 * So each lock on a version TID comes with one on this TID, which no row has, and a
 * writer that replaces a bottom looks for that too.
 */
#define LSM_SSI_OFFSET			0x4000

static void
lsm_ssi_version_mark(LsmTid root, ItemPointer tid)
{
	lsm_tid_to_pointer(LSM_TID(LSM_TID_LB(root), LSM_TID_OFFSET(root) | LSM_SSI_OFFSET), tid);
}

/*
 * A serializable reader is about to use a version that its snapshot sees.  It
 * makes its predicate locks known, then waits out a writer that has looked for
 * them before; after that it must look whether the row has got new records (I10).
 */
void
lsm_predicate_lock_version(Relation rel, LsmTable *table, const LsmRowHead *head,
						   Snapshot snapshot)
{
	LWLock	   *stripe = lsm_stripe_lock(table, head->root);
	ItemPointerData tid;

	lsm_tid_to_pointer(head->vtid, &tid);
	PredicateLockTID(rel, &tid, snapshot, (TransactionId) head->xid);
	if (head->vtid != head->root)
	{
		lsm_ssi_version_mark(head->root, &tid);
		PredicateLockTID(rel, &tid, snapshot, (TransactionId) head->xid);
	}
	LWLockAcquire(stripe, LW_SHARED);
	LWLockRelease(stripe);
}

/*
 * A serializable writer is about to replace a version, with the stripe held: who
 * has read it?  Readers of older versions are in conflict with whoever made this
 * one, which is enough.  The page lock of the root's LB is one that an index-only
 * scan takes, whatever version it is about.
 */
void
lsm_check_conflict_in(Relation rel, LsmTid root, LsmTid vtid)
{
	ItemPointerData tid;

	lsm_tid_to_pointer(vtid, &tid);
	CheckForSerializableConflictIn(rel, &tid, LSM_TID_LB(vtid));
	if (vtid == root)
	{
		lsm_ssi_version_mark(root, &tid);
		CheckForSerializableConflictIn(rel, &tid, LSM_TID_LB(root));
	}
	else
		CheckForSerializableConflictIn(rel, NULL, LSM_TID_LB(root));
}

/*
 * A serializable reader has met a change that its snapshot does not see: what
 * HeapCheckForSerializableConflictOut does after its visibility test.
 */
void
lsm_check_conflict_out(Relation rel, Snapshot snapshot, uint64 full_xid)
{
	TransactionId xid = (TransactionId) full_xid;

	if (full_xid == 0 || !CheckForSerializableConflictOutNeeded(rel, snapshot))
		return;
	if (TransactionIdIsCurrentTransactionId(xid))
		return;
	if (full_xid < lsm_full_xid(TransactionXmin))
		return;

	/* a subtransaction that was rolled back is none of its parent's doing */
	if (!TransactionIdIsInProgress(xid) && !TransactionIdDidCommit(xid))
		return;
	xid = SubTransGetTopmostTransaction(xid);
	if (TransactionIdPrecedes(xid, TransactionXmin))
		return;
	if (TransactionIdEquals(xid, GetTopTransactionIdIfAny()))
		return;
	CheckForSerializableConflictOut(rel, xid, snapshot);
}
