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
 *	1. what was free before the last checkpoint is punched (lsm_truncate.c);
 *	2. what is in use at the end of the file moves to free pages before it, as much as
 *	   a job may read (lsm_relocate.c);
 *	3. the free end goes, if nobody uses the table at that moment.
 *
 * Nobody waits for the first two, and the first helps on a disk that is full, where the second
 * fails.  The lock for the end of the file is tried once and kept to the end of the
 * transaction on standbys, so nothing else is done in it; vacuum_truncate = off keeps it, and
 * 2, from being done.  A table whose readers never leave a gap gets holes in its place.
 *
 * What has gained nothing, though it seemed to be worth it (free pages may lie in pieces that
 * are too small), is not tried again before the manifest has changed.
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

typedef enum LsmTrimStep
{
	LSM_TRIM_NOTHING,
	LSM_TRIM_PUNCH,
	LSM_TRIM_RELOCATE,
	LSM_TRIM_TRUNCATE
} LsmTrimStep;

/* What is worth it, by a look without locks; later: or will be, after a checkpoint. */
static LsmTrimStep
lsm_trim_choose(Relation rel, LsmTable *table, bool later)
{
	if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) < LSM_TRIM_MINIMUM ||
		lsm_stat_trimmed_in_vain(RelationGetRelid(rel), lsm_view_get(rel, table)->counter))
		return LSM_TRIM_NOTHING;
	if (lsm_punch_worth(rel, table, later))
		return LSM_TRIM_PUNCH;
	if (!lsm_compat_vacuum_truncate(rel))
		return LSM_TRIM_NOTHING;
	if (lsm_relocate_worth(rel, table, false))
		return LSM_TRIM_RELOCATE;
	if (lsm_truncate_worth(rel, table))
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
	return lsm_trim_choose(rel, table, later) != LSM_TRIM_NOTHING;
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

/*
 * Do the next step.  The caller has AccessShareLock.  False: another process is at it, or
 * nothing is worth it any more.
 */
bool
lsm_trim(Relation rel, LsmJobStats *stats)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmTrimStep step;
	bool		tried = true;

	if (!lsm_job_lock_if_free(rel, LSM_OWNER_PUNCH))
		return false;
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_TRIM, 1, LSM_MAX_TID);
	step = lsm_trim_choose(rel, table, false);
	lsm_progress_phase(step == LSM_TRIM_RELOCATE ? LSM_PHASE_MOVING : LSM_PHASE_GIVING_BACK);
	LSM_STOP("trim-start");
	if (step == LSM_TRIM_PUNCH)
		stats->bytes_given_back += lsm_punch_holes(rel, table) * BLCKSZ;
	else if (step == LSM_TRIM_RELOCATE)
	{
		uint64		most = lsm_job_limit(lsm_view_get(rel, table)) / BLCKSZ;
		uint64		moved = lsm_relocate(rel, table, most);

		stats->bytes_read += moved * BLCKSZ;
		stats->bytes_written += moved * BLCKSZ;
	}
	else if (step == LSM_TRIM_TRUNCATE)
		tried = lsm_trim_end(rel, table, stats);
	if (tried && stats->bytes_written == 0 && stats->bytes_given_back == 0)
		lsm_stat_trim_was_in_vain(RelationGetRelid(rel),
								  lsm_view_get(rel, lsm_table_open(rel))->counter);
	lsm_job_unlock(rel, LSM_OWNER_PUNCH);
	lsm_progress_end();
	return step != LSM_TRIM_NOTHING;
}
