/*-------------------------------------------------------------------------
 *
 * lsm_job.c
 *	  Locks of flushes, compactions and punching.
 *
 * There is one flush, one minor and one major compaction of a table at a time,
 * and one that punches holes (lsm_truncate.c).  Their locks are heavyweight locks
 * on sub-objects of the table, so that waiting for them can be interrupted,
 * deadlocks are found, and a dead backend's are released.  They do not conflict
 * with locks on the table itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "lsm_compact.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "storage/lock.h"

StaticAssertDecl(LSM_JOB_FLUSH == LSM_OWNER_FLUSH && LSM_JOB_MINOR == LSM_OWNER_MINOR &&
				 LSM_JOB_MAJOR == LSM_OWNER_MAJOR, "kinds of jobs are those of owners");

/* Sub-objects of a table begin far above its columns. */
#define LSM_JOB_SUBID			0xF000

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
static void
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

/* The same without waiting; false: one runs. */
bool
lsm_job_lock_if_free(Relation rel, uint16 owner)
{
	LOCKTAG		tag;

	lsm_job_tag(rel, owner, &tag);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	lsm_job_free_pages(rel, owner);
	return true;
}

void
lsm_job_unlock(Relation rel, uint16 owner)
{
	LOCKTAG		tag;

	lsm_job_tag(rel, owner, &tag);
	(void) LockRelease(&tag, ExclusiveLock, false);
}
