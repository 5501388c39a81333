/*-------------------------------------------------------------------------
 *
 * lsm_trim.c
 *	  Space that a table at rest does not need goes back to the file system.
 *
 * VACUUM does that as well, but what a table is left with when nobody changes it any
 * more comes after VACUUM: free pages of the flushes and compactions of what that one has
 * seen change, and autovacuum has no reason to come once more.  So a worker does
 * the same, when the table has been quiet for so long that what is free will not be
 * written again at once.  A job is one of these, the first that is worth it:
 *
 *	1. what was free before the last checkpoint is punched, but for the end (lsm_truncate.c);
 *	2. what is in use at the end of the file moves to free pages before it, as much as
 *	   a job may read (lsm_relocate.c);
 *	3. the free end goes, if nobody uses the table at that moment; else it is punched when
 *	   the table is looked at next, as far as the manifest still accounts for it.
 *
 * Nobody waits for the first two, and the first helps on a disk that is full, where the second
 * fails.  The lock for the end of the file is tried once and kept to the end of the
 * transaction on standbys, so nothing else is done in it; vacuum_truncate = off keeps it, and
 * 2, from being done.
 *
 * A step that has gained nothing, though it seemed to be worth it (free pages may lie in pieces
 * that are too small, the file system may have no holes), is not tried again before the
 * manifest has changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_compact.h"
#include "lsm_manifest.h"
#include "lsm_stop.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"

/* Smaller files stay as they are, also those without rows. */
#define LSM_TRIM_MINIMUM		64

/* What tells a state of the manifest from all others, never 0. */
static uint64
lsm_trim_state(Relation rel)
{
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));

	return Max(view->meta.incarnation ^ view->counter, 1);
}

/*
 * What is worth it, by a look without locks; later: or will be, after a checkpoint.  *tail: what
 * is free at the end is punched, too, where it may not go, or the lock was refused.
 */
static LsmTrimStep
lsm_trim_choose(Relation rel, LsmTable *table, bool later, bool *tail)
{
	bool		may_truncate = lsm_compat_vacuum_truncate(rel);
	uint32		in_vain = lsm_stat_trimmed_in_vain(RelationGetRelid(rel), lsm_trim_state(rel));

	*tail = !may_truncate || (in_vain & (1 << LSM_TRIM_LOCK)) != 0;
	if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) < LSM_TRIM_MINIMUM)
		return LSM_TRIM_NOTHING;
	if ((in_vain & (1 << LSM_TRIM_PUNCH)) == 0 && lsm_punch_worth(rel, table, later, *tail))
		return LSM_TRIM_PUNCH;
	if (!may_truncate)
		return LSM_TRIM_NOTHING;
	if ((in_vain & (1 << LSM_TRIM_RELOCATE)) == 0 && lsm_relocate_worth(rel, table, false))
		return LSM_TRIM_RELOCATE;
	if ((in_vain & (1 << LSM_TRIM_TRUNCATE)) == 0 && lsm_truncate_worth(rel, table))
		return LSM_TRIM_TRUNCATE;
	return LSM_TRIM_NOTHING;
}

/*
 * Is there enough that can be given back?  later: or could be, after a checkpoint.
 * Takes no locks that anybody waits for.
 */
bool
lsm_trim_worth(Relation rel, LsmTable *table, bool later)
{
	bool		tail;

	return lsm_trim_choose(rel, table, later, &tail) != LSM_TRIM_NOTHING;
}

/* Give the end of the file back; false: the table is in use. */
static bool
lsm_trim_end(Relation rel, LsmTable *table, LsmJobStats *stats)
{
	BlockNumber before;
	BlockNumber after;

	if (!ConditionalLockRelation(rel, AccessExclusiveLock))
		return false;
	before = lsm_truncate_tail(rel, table, &after);
	stats->bytes_given_back += (int64) (before - after) * BLCKSZ;
	UnlockRelation(rel, AccessExclusiveLock);
	return true;
}

/* Do a step.  Returns what there was to be known of it: that it gained nothing, or was refused. */
static LsmTrimStep
lsm_trim_do(Relation rel, LsmTable *table, LsmTrimStep step, bool tail, LsmJobStats *stats)
{
	uint64		moved;

	switch (step)
	{
		case LSM_TRIM_PUNCH:
			stats->bytes_given_back += lsm_punch_holes(rel, table, tail) * BLCKSZ;
			break;
		case LSM_TRIM_RELOCATE:
			moved = lsm_relocate(rel, table, lsm_job_limit(lsm_view_get(rel, table)) / BLCKSZ);
			stats->bytes_read += moved * BLCKSZ;
			stats->bytes_written += moved * BLCKSZ;
			break;
		case LSM_TRIM_TRUNCATE:
			if (!lsm_trim_end(rel, table, stats))
				return LSM_TRIM_LOCK;
			break;
		default:
			break;
	}
	return stats->bytes_written == 0 && stats->bytes_given_back == 0 ? step : LSM_TRIM_NOTHING;
}

/*
 * Do the next step that gains something.  The caller has AccessShareLock.  False: another
 * process is at it, or nothing is worth it any more.
 */
bool
lsm_trim(Relation rel, LsmJobStats *stats)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmTrimStep step;
	LsmTrimStep in_vain;
	bool		any = false;
	bool		tail;

	lsm_job_free_left(rel);
	if (!lsm_job_lock_if_free(rel, LSM_OWNER_PUNCH))
		return false;
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_TRIM, 1, LSM_MAX_TID);
	do
	{
		step = lsm_trim_choose(rel, table, false, &tail);
		lsm_progress_phase(step == LSM_TRIM_RELOCATE ? LSM_PHASE_MOVING : LSM_PHASE_GIVING_BACK);
		LSM_STOP("trim-start");
		in_vain = lsm_trim_do(rel, table, step, tail, stats);
		if (in_vain != LSM_TRIM_NOTHING)
			lsm_stat_trim_was_in_vain(RelationGetRelid(rel), in_vain, lsm_trim_state(rel));
		any |= step != LSM_TRIM_NOTHING;
	} while (in_vain == LSM_TRIM_PUNCH || in_vain == LSM_TRIM_RELOCATE);
	lsm_job_unlock(rel, LSM_OWNER_PUNCH);
	lsm_progress_end();
	return any;
}
