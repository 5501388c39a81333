/*-------------------------------------------------------------------------
 *
 * lsm_job.c
 *	  Locks of flushes, compactions and punching; jobs in the background.
 *
 * There is one flush and one minor compaction of a table at a time, up to
 * LSM_MAJOR_SLOTS majors, each over its own roots, and one that punches holes
 * (lsm_truncate.c).  Their locks are heavyweight locks on sub-objects of the
 * table, so that waiting for them can be interrupted, deadlocks are found, and a
 * dead backend's are released.  They do not conflict with locks on the table
 * itself.
 *
 * GIVING WAY
 *	  A background job holds AccessShareLock, so it can only be in the way of
 *	  who wants AccessExclusiveLock (but for the moment in which the end of the file goes).  It finds them by looking at what each process
 *	  waits for.  (LockHasWaitersRelation() cannot be used: it fails for locks that
 *	  were taken by the fast path, as AccessShareLock is.)
 *	  Who wants to do a job of the same kind waits for its end.  Meanwhile it does not keep to the
 *	  rate limit: VACUUM waits with its lock on the table, and whoever wants one for VACUUM.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "lsm_cold_move.h"
#include "lsm_compact.h"
#include "lsm_pick.h"
#include "lsm_wal.h"
#include "lsm_request.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "utils/snapmgr.h"

StaticAssertDecl(LSM_JOB_FLUSH == LSM_OWNER_FLUSH && LSM_JOB_MINOR == LSM_OWNER_MINOR &&
				 LSM_JOB_MAJOR == LSM_OWNER_MAJOR, "kinds of jobs are those of owners");

/* Sub-objects of a table begin far above its columns. */
#define LSM_JOB_SUBID			0xF000

/* Seconds until a table with increments, or free space, is looked at. */
#define LSM_JOB_LATER_S			5

/* And until another worker looks at one that has a major running. */
#define LSM_JOB_BESIDE_S		1

/* Jobs of a temporary table that its session does after a flush, at most. */
#define LSM_OWN_JOBS			4

/* A writer waits for so many times deadlock_timeout before he looks for deadlocks. */
#define LSM_WRITER_PATIENCE		60

volatile sig_atomic_t lsm_job_poll_due = false;

static bool watched = false;	/* a background job runs */
static bool gave_way = false;
static LOCKTAG watched_tag;		/* of its table */
static bool watched_trims;		/* it gives space back, */
static LOCKTAG watched_trim_tag;	/* with that lock */
static uint16 watched_owner;	/* whose lock it has, */
static LOCKTAG watched_owner_tag;	/* which is that; LSM_OWNER_NONE: none */

static void
lsm_job_tag(Relation rel, uint16 owner, LOCKTAG *tag)
{
	SET_LOCKTAG_OBJECT(*tag, rel->rd_lockInfo.lockRelId.dbId, RelationRelationId,
					   RelationGetRelid(rel), LSM_JOB_SUBID + owner);
}

/*
 * Free the pages that a dead job of that kind was given, and those of large values
 * that nobody can read any more.
 */
void
lsm_job_free_pages(Relation rel, uint16 owner)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmView    *view = lsm_view_get(rel, table);
	bool		left = false;
	bool		retired = false;
	uint64		horizon = 0;

	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry *entry = &view->entries[i];

		if (entry->type == LSM_ENTRY_PENDING && entry->kind == owner)
			left = true;
		if (entry->type == LSM_ENTRY_RETIRED)
		{
			if (horizon == 0)
				horizon = lsm_retired_horizon(rel);
			if (lsm_entry_retired_xid(&view->meta, entry) < horizon)
				retired = true;
		}
	}
	if (left || retired)
	{
		LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_FREE);

		left = lsm_edit_free_pending(edit, owner);
		if (lsm_edit_free_retired(edit) || left)
			lsm_edit_commit(edit);
		else
			lsm_edit_abandon(edit);
	}
}

/* Take the lock of a kind of job, waiting for the one that runs, and clean up after a dead one. */
void
lsm_job_lock(Relation rel, uint16 owner)
{
	LOCKTAG		tag;

	lsm_job_tag(rel, owner, &tag);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	lsm_job_free_pages(rel, owner);
}

/*
 * The lock of flushes, or of room, for who writes rather than asks for a flush.  lock_timeout is for locks
 * that the user knows of: no statement that writes, nor a commit, would fail by it in heap.
 * Many may wait for it, one after another: so who flushes cleans up (lsm_job_free_pages()).
 *
 * Who has waited for deadlock_timeout cancels autovacuum, if that has the lock.  A writer would
 * have to begin its flush anew, so he only does it when that takes far too long.  Deadlocks, which
 * are found by who has come last, so take longer to be found; as nobody who flushes waits for
 * anything, they are rare (lsm_check() may wait for an index that the writer has locked).
 */
void
lsm_job_lock_for_writer(Relation rel, uint16 owner)
{
	int			timeout = LockTimeout;
	int			deadlock_timeout = DeadlockTimeout;
	LOCKTAG		tag;

	lsm_job_tag(rel, owner, &tag);
	LockTimeout = 0;
	DeadlockTimeout = (int) Min((int64) DeadlockTimeout * LSM_WRITER_PATIENCE, INT_MAX);
	PG_TRY();
	{
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
	}
	PG_FINALLY();
	{
		LockTimeout = timeout;
		DeadlockTimeout = deadlock_timeout;
	}
	PG_END_TRY();
}

/* The same without waiting; false: one runs. */
bool
lsm_job_lock_if_free(Relation rel, uint16 owner)
{
	LOCKTAG		tag;

	lsm_job_tag(rel, owner, &tag);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	if (watched)
	{
		watched_owner = owner;
		watched_owner_tag = tag;
	}
	lsm_job_free_pages(rel, owner);
	return true;
}

/*
 * Free the pages of dead jobs of all kinds, and those of large values that nobody can read any
 * more.  The next job with the same lock does that itself, but majors of workers have three, of
 * which each takes the first that is free: what had the last of them may not be followed by
 * another for long.  Not while this process has the lock of a job.
 */
void
lsm_job_free_left(Relation rel)
{
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));
	uint32		owners = 0;

	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_PENDING)
			owners |= 1 << view->entries[i].kind;
	for (uint16 owner = LSM_OWNER_FLUSH; owner <= LSM_OWNER_LAST; owner++)
		if ((owners & (1 << owner)) != 0 && lsm_job_lock_if_free(rel, owner))
			lsm_job_unlock(rel, owner);
	lsm_job_free_pages(rel, LSM_OWNER_NONE);
}

/* Keep jobs of a kind off until the transaction ends; false: one runs. */
bool
lsm_job_keep_off(Relation rel, uint16 owner)
{
	LOCKTAG		tag;

	lsm_job_tag(rel, owner, &tag);
	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
lsm_job_unlock(Relation rel, uint16 owner)
{
	LOCKTAG		tag;

	lsm_job_tag(rel, owner, &tag);
	(void) LockRelease(&tag, ExclusiveLock, false);
	if (watched && watched_owner == owner)
		watched_owner = LSM_OWNER_NONE;
}

/* ---- jobs in the background ---- */

/* The job's name, to be followed by the table's. */
const char *
lsm_job_name(LsmJobKind kind)
{
	switch (kind)
	{
		case LSM_JOB_FLUSH:
			return "flush of";
		case LSM_JOB_MINOR:
			return "minor compaction of";
		case LSM_JOB_MAJOR:
			return "major compaction of";
		case LSM_JOB_MOVE:
			return "moving segments of";
		case LSM_JOB_TRIM:
			return "giving back space of";
		default:
			return "outcomes of transactions in";
	}
}

/*
 * Do what was chosen.  False: it came to nothing, as another process does the same
 * or has done it.
 */
bool
lsm_job_call(Relation rel, const LsmPickDecision *decision, LsmJobStats *stats)
{
	LsmMinorScope scope = {.gen_lo = decision->gen_lo,.gen_hi = decision->gen_hi,.first = decision->first_root,.last = decision->last_root,.least = lsm_increment_least()};

	switch (decision->kind)
	{
		case LSM_JOB_NONE:
			break;
		case LSM_JOB_FLUSH:
			if (!lsm_job_lock_if_free(rel, LSM_OWNER_FLUSH))
				return false;
			lsm_flush_one(rel, stats);
			lsm_job_unlock(rel, LSM_OWNER_FLUSH);
			return true;
		case LSM_JOB_MINOR:
			return lsm_minor_part(rel, &scope, stats);
		case LSM_JOB_MAJOR:
			return lsm_major_part(rel, decision->first_root, decision->last_root,
								  decision->gen_hi, stats);
		case LSM_JOB_RESOLVE:
			lsm_resolve_segments(rel);
			lsm_job_free_pages(rel, LSM_OWNER_NONE);
			return true;
		case LSM_JOB_MOVE:
			return lsm_cold_move_one(rel, stats);
		case LSM_JOB_TRIM:
			return lsm_trim(rel, stats);
	}
	return false;
}

/* A job of a session has ended: ask the workers for what comes next. */
void
lsm_job_ask(Relation rel)
{
	LsmPickDecision decision;

	if (watched || lsm_compaction_workers == 0 || RelationUsesLocalBuffers(rel))
		return;
	if (lsm_pick_job(rel, 0, &decision))
		lsm_worker_request(rel);
	else if (lsm_pick_later(rel))
		lsm_worker_request_later(rel, LSM_JOB_LATER_S);
}

/*
 * No worker can compact a temporary table: its session does the next jobs itself, when it has
 * flushed its memtable, a few at a time.  The caller has a lock on the table, and no LWLock.
 */
void
lsm_job_do_own(Relation rel)
{
	const uint32 spent = (1 << LSM_JOB_FLUSH) | (1 << LSM_JOB_MOVE) | (1 << LSM_JOB_TRIM);
	MemoryContext context;
	MemoryContext caller;
	LsmPickDecision decision;

	if (!RelationUsesLocalBuffers(rel))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm job", ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(context);
	for (int i = 0; i < LSM_OWN_JOBS; i++)
	{
		LsmJobStats stats = {0};

		/* one that has merged nothing would be chosen again */
		if (!lsm_pick_job(rel, spent, &decision) || !lsm_job_call(rel, &decision, &stats) ||
			stats.segments_in == 0)
			break;
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/*
 * A worker has something to do in a part of the table: have another one look for what can be done
 * beside it.  Else the rest would wait for this part's end if nobody changes the table meanwhile.
 * Not at once: it may be this worker that looks again, and what has been of no use to it is
 * forgotten then.
 */
void
lsm_job_ask_beside(Relation rel)
{
	LsmTableShared *shared = lsm_table_open(rel)->shared;
	uint16		depth = shared->depth;
	LsmPickDecision decision;

	if (!watched || !lsm_slots_turn_left())
		return;
	if (lsm_pick_job(rel, 0, &decision))
		lsm_worker_request_later(rel, LSM_JOB_BESIDE_S);

	/* writers do not wait for minors that fail, as the worker has found */
	shared->depth = depth;
}

/* Are we a worker at its job? */
bool
lsm_job_is_watched(void)
{
	return watched;
}

void
lsm_job_watch(Relation rel, LsmJobKind kind)
{
	SET_LOCKTAG_RELATION(watched_tag, rel->rd_lockInfo.lockRelId.dbId,
						 rel->rd_lockInfo.lockRelId.relId);
	watched_trims = kind == LSM_JOB_TRIM;
	if (watched_trims)
		lsm_job_tag(rel, LSM_OWNER_PUNCH, &watched_trim_tag);
	watched_owner = LSM_OWNER_NONE;
	watched = true;
	gave_way = false;
}

void
lsm_job_unwatch(void)
{
	/* lsm_bytes_to_pace stays: what is left of it is charged to the next job */
	watched = false;
}

bool
lsm_job_gave_way(void)
{
	return watched && gave_way;
}

/*
 * Does a process wait for a lock that we hold, in that mode?
 *
 * Race: what others wait for changes while we look.  What they wait for with
 * that tag cannot, as we hold the lock on the tag's part of the lock table; another
 * lock, even if its entry has just been freed, is not taken for it by more than
 * bad luck, and then a job is given up in vain.
 */
static bool
lsm_job_is_lock_awaited(const LOCKTAG *tag, LOCKMODE mode)
{
	LWLock	   *partition = LockHashPartitionLock(LockTagHashCode(tag));
	bool		found = false;

	LWLockAcquire(partition, LW_SHARED);
	for (uint32 i = 0; i < ProcGlobal->allProcCount && !found; i++)
	{
		volatile PGPROC *proc = &ProcGlobal->allProcs[i];
		LOCK	   *lock = proc->waitLock;

		found = lock != NULL && proc->waitLockMode == mode &&
			memcmp(&lock->tag, tag, sizeof(LOCKTAG)) == 0;
	}
	LWLockRelease(partition);
	return found;
}

/*
 * Does a process wait for the table, because of AccessShareLock, or for our transaction?  So do
 * DROP INDEX and REINDEX CONCURRENTLY: for each transaction that has the table locked when they
 * look (WaitForLockers()).  Who gives space back is in no hurry: VACUUM, with its lock on the
 * table, and lsm_check() do not wait for it.
 */
static bool
lsm_job_is_awaited(void)
{
	VirtualTransactionId own;
	LOCKTAG		transaction;

	GET_VXID_FROM_PGPROC(own, *MyProc);
	SET_LOCKTAG_VIRTUALTRANSACTION(transaction, own);
	return lsm_job_is_lock_awaited(&watched_tag, AccessExclusiveLock) ||
		lsm_job_is_lock_awaited(&transaction, ShareLock) ||
		(watched_trims && lsm_job_is_lock_awaited(&watched_trim_tag, ExclusiveLock));
}

/*
 * Does a process wait until our job ends, to do one of that kind, or to look at a table that none
 * changes?  A call, or VACUUM, which others may wait for in turn.
 */
bool
lsm_job_is_urgent(void)
{
	return watched && watched_owner != LSM_OWNER_NONE &&
		lsm_job_is_lock_awaited(&watched_owner_tag, ExclusiveLock);
}

/*
 * It is time to look; nothing is done while LWLocks are held.  A job may run for long without
 * waiting for anything, and without a postmaster nobody else would end it.
 */
void
lsm_job_poll(void)
{
	if (InterruptHoldoffCount > 0 || CritSectionCount > 0)
		return;
	lsm_job_poll_due = false;
	if (!PostmasterIsAlive())
		proc_exit(1);
	if (!watched)
		return;

	/* catalogs have been read: their snapshot must not hold back the horizon */
	InvalidateCatalogSnapshotConditionally();
	if (!lsm_job_is_awaited())
		return;
	gave_way = true;
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("job is given up because somebody waits for the table, or for the job to end")));
}
