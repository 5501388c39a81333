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

	if (head->xid == 0 || (head->info & LSM_REC_COMMITTED))
		return LSM_XID_COMMITTED;
	if (head->info & LSM_REC_ABORTED)
		return LSM_XID_ABORTED;
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
 * for the snapshot just used: 0 if it has one.
 */
uint16
lsm_hint_for(const LsmRowHead *head)
{
	if (head->xid == 0 || (head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED)))
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
	xid = SubTransGetTopmostTransaction(xid);
	if (TransactionIdPrecedes(xid, TransactionXmin))
		return;
	if (TransactionIdEquals(xid, GetTopTransactionIdIfAny()))
		return;
	CheckForSerializableConflictOut(rel, xid, snapshot);
}
