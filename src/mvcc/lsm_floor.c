/*-------------------------------------------------------------------------
 *
 * lsm_floor.c
 *	  Floors: what each transaction calls a version.
 *
 * A transaction's floor is the oldest xmin it had when it first touched an lsm
 * table, fixed until it ends.  A version whose xid precedes the floor is called by
 * its root TID, any other by its version TID.  So a row keeps its name through
 * a transaction whatever is flushed or compacted meanwhile, and compaction may
 * forget the version TIDs that precede every floor and the horizon (I7).  Only processes
 * of a table's database know names of its rows, so floors of others do not count,
 * as their snapshots do not count for the horizon.
 *
 * Race: compaction reads the horizon first and the floors after it.  A floor
 * that is not yet there when they are read belongs to a transaction whose xmin
 * was still advertised when the horizon was computed, or that began later: in
 * both cases its floor is not before the horizon.
 *
 * Race: while compaction reads them, a process ends and one of another database takes
 * its place.  The floor is read before the database, which a process has long before its
 * first floor.  So either the floor is of that database, or its transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "lsm_mvcc.h"
#include "lsm_process.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"

static uint64 lsm_my_floor;		/* 0: not yet needed in this transaction */
static uint64 lsm_next_xid;		/* some recent next full xid */

/*
 * A full xid that was next not long ago.  Each transaction asks for one to tell by it which epoch xids
 * are of, so it does not wait for those who take xids, where 8 bytes are read at once.
 */
static inline uint64
lsm_some_next_xid(void)
{
#ifdef PG_HAVE_8BYTE_SINGLE_COPY_ATOMICITY
	return *(volatile uint64 *) &lsm_compat_next_full_xid().value;
#else
	return U64FromFullTransactionId(ReadNextFullTransactionId());
#endif
}

/*
 * The 64-bit form of an xid that is, or was not long ago, in use: within 2^31
 * of the next one.
 */
uint64
lsm_full_xid(TransactionId xid)
{
	if (!TransactionIdIsNormal(xid))
		return 0;
	if (lsm_next_xid == 0)
		lsm_next_xid = lsm_some_next_xid();
	return lsm_next_xid + (int64) (int32) (xid - (uint32) lsm_next_xid);
}

/* The floor of this transaction, set now if it has none. */
uint64
lsm_floor(void)
{
	TransactionId xmin;

	if (likely(lsm_my_floor != 0))
		return lsm_my_floor;

	if (IsParallelWorker() && MyProc->lockGroupLeader != NULL)
	{
		lsm_my_floor = lsm_floor_of(lsm_compat_procno(MyProc->lockGroupLeader));
		if (lsm_my_floor != 0)
			return lsm_my_floor;
	}
	xmin = MyProc->xmin;
	if (TransactionIdIsNormal(xmin))
	{
		lsm_next_xid = lsm_some_next_xid();
		lsm_my_floor = lsm_full_xid(xmin);
	}
	else
		lsm_my_floor = lsm_next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	pg_atomic_write_u64(&lsm_my_process()->floor, lsm_my_floor);
	return lsm_my_floor;
}

/* The floor of the transaction that a process runs; 0: it has none. */
uint64
lsm_floor_of(int procno)
{
	return pg_atomic_read_u64(&lsm_process(procno)->floor);
}

void
lsm_floor_xact_end(void)
{
	if (lsm_my_floor != 0)
		pg_atomic_write_u64(&lsm_my_process()->floor, 0);
	lsm_my_floor = 0;
	lsm_next_xid = 0;
}

/* See LsmHorizons.  Only in the table's own database. */
void
lsm_horizons(Relation rel, LsmHorizons *horizons)
{
	Assert(rel->rd_lockInfo.lockRelId.dbId == MyDatabaseId);
	lsm_next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	horizons->visible = lsm_full_xid(GetOldestNonRemovableTransactionId(rel));

	/* the horizon of temporary tables leaves our own snapshots out */
	if (RelationUsesLocalBuffers(rel) && TransactionIdIsNormal(MyProc->xmin))
		horizons->visible = Min(horizons->visible, lsm_full_xid(MyProc->xmin));
	pg_memory_barrier();
	horizons->settled = horizons->visible;
	for (int i = 0; i < lsm_process_count(); i++)
	{
		uint64		floor = lsm_floor_of(i);

		if (floor == 0 || floor >= horizons->settled)
			continue;
		pg_read_barrier();
		if (ProcGlobal->allProcs[i].databaseId == MyDatabaseId)
			horizons->settled = floor;
	}
}

/*
 * No record that is appended from now on has an older xid.  Of those that run, transactions of other
 * databases do not append to the table; they would keep its xids from being frozen.
 */
uint64
lsm_first_xid_to_come(Relation rel)
{
	LsmHorizons horizons;

	lsm_horizons(rel, &horizons);
	return Max(lsm_full_xid(GetOldestActiveTransactionId()), horizons.visible);
}

/*
 * Does a standby tell of snapshots, by feedback?  Its walsender has their xmin, in no database, or
 * its slot.  The xmin may be the next xid, as a snapshot of our own may be.  What a walsender that
 * has gone leaves in its PGPROC does not count.
 */
static bool
lsm_standby_has_snapshots(void)
{
	TransactionId xmin;
	TransactionId catalog_xmin;
	bool		found = false;

	ProcArrayGetReplicationSlotXmin(&xmin, &catalog_xmin);
	if (TransactionIdIsValid(xmin))
		return true;
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (uint32 i = 0; i < ProcGlobal->allProcCount && !found; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];

		found = (proc->statusFlags & PROC_AFFECTS_ALL_HORIZONS) != 0 &&
			TransactionIdIsValid(proc->xmin) && BackendPidGetProcWithLock(proc->pid) == proc;
	}
	LWLockRelease(ProcArrayLock);
	return found;
}

/*
 * May nobody but us have a snapshot, and so a live pointer to a large value of the
 * table?  Of what we have ourselves: VACUUM has no pointers.
 */
static bool
lsm_is_alone(Relation rel)
{
	VirtualTransactionId *others;
	int			n = 0;

	if (TransactionIdIsValid(MyProc->xmin) && !(MyProc->statusFlags & PROC_IN_VACUUM))
		return false;
	if (RelationUsesLocalBuffers(rel))
		return true;
	others = GetCurrentVirtualXIDs(InvalidTransactionId, true, false, PROC_IN_VACUUM, &n);
	pfree(others);
	return n == 0 && !lsm_standby_has_snapshots();
}

/*
 * An xid that is greater than the stamp of everything that has been retired so far
 * and that nobody has a pointer to (I15).  Called with edit_lock held, unless it is
 * for a guess: what is retired after it may have the same stamp.
 */
uint64
lsm_retired_horizon(Relation rel)
{
	LsmHorizons horizons;
	TransactionId own = GetTopTransactionIdIfAny();

	lsm_horizons(rel, &horizons);

	/*
	 * no other xid has come since, but neither has anyone a snapshot from
	 * before
	 */
	if (horizons.visible >= (TransactionIdIsValid(own) ? lsm_full_xid(own) : lsm_next_xid) &&
		lsm_is_alone(rel))
		return lsm_next_xid + 1;
	return horizons.visible;
}

uint64
lsm_settled_xid(Relation rel)
{
	LsmHorizons horizons;

	lsm_horizons(rel, &horizons);
	return horizons.settled;
}
