/*-------------------------------------------------------------------------
 *
 * lsm_progress.c
 *	  What running flushes and compactions are doing.
 *
 * A slot for each process, by its number, that only it writes.  What the job is
 * and its phase change under the slot's mutex, so that a reader never takes the
 * numbers of one job for those of another; the numbers are stored one by one.
 *
 * A slot is given up with the job, with the subtransaction that began it, or
 * with the transaction; what a process that has died left there is known by the
 * server's restart of shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lsm_stat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

typedef struct LsmProgressSlot
{
	slock_t		mutex;			/* guards job, all but its params */
	LsmJobProgress job;			/* kind LSM_JOB_NONE: none runs */
	pg_atomic_uint64 params[LSM_PROGRESS_PARAMS];
} LsmProgressSlot;

static LsmProgressSlot *lsm_progress_slots;
static LsmProgressSlot *lsm_my_progress;	/* NULL: no job runs here */
static SubTransactionId lsm_progress_subid;

static int
lsm_progress_nslots(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

Size
lsm_progress_shmem_size(void)
{
	return mul_size(lsm_progress_nslots(), sizeof(LsmProgressSlot));
}

void
lsm_progress_shmem_startup(void)
{
	bool		found;

	lsm_progress_slots = ShmemInitStruct("lsm progress", lsm_progress_shmem_size(), &found);
	if (found)
		return;
	memset(lsm_progress_slots, 0, lsm_progress_shmem_size());
	for (int i = 0; i < lsm_progress_nslots(); i++)
	{
		SpinLockInit(&lsm_progress_slots[i].mutex);
		for (int j = 0; j < LSM_PROGRESS_PARAMS; j++)
			pg_atomic_init_u64(&lsm_progress_slots[i].params[j], 0);
	}
}

/*
 * Whose is a job of this process?  The session's, as in the server's views of progress, whatever
 * role it has taken, and whoever owns the function that it is in.  Background processes have no
 * user of their own: they run jobs as the owner of the table.
 */
static Oid
lsm_progress_user(void)
{
	return MyBackendType == B_BG_WORKER || MyBackendType == B_AUTOVAC_WORKER ? GetUserId() :
		GetSessionUserId();
}

void
lsm_progress_begin(Oid relid, LsmJobKind kind, LsmTid first_root, LsmTid last_root)
{
	LsmProgressSlot *slot = &lsm_progress_slots[lsm_compat_procno(MyProc)];
	LsmJobProgress job = {0};

	job.pid = MyProcPid;
	job.userid = lsm_progress_user();
	job.dboid = MyDatabaseId;
	job.relid = relid;
	job.kind = kind;
	job.phase = LSM_PHASE_WAITING;
	job.first_root = first_root;
	job.last_root = last_root;
	job.start = GetCurrentTimestamp();
	SpinLockAcquire(&slot->mutex);
	slot->job = job;
	for (int i = 0; i < LSM_PROGRESS_PARAMS; i++)
		pg_atomic_write_u64(&slot->params[i], 0);
	SpinLockRelease(&slot->mutex);
	lsm_my_progress = slot;
	lsm_progress_subid = GetCurrentSubTransactionId();
}

void
lsm_progress_phase(LsmJobPhase phase)
{
	if (lsm_my_progress == NULL)
		return;
	SpinLockAcquire(&lsm_my_progress->mutex);
	lsm_my_progress->job.phase = phase;
	SpinLockRelease(&lsm_my_progress->mutex);
}

void
lsm_progress_set(LsmProgressParam param, uint64 value)
{
	if (lsm_my_progress != NULL)
		pg_atomic_write_u64(&lsm_my_progress->params[param], value);
}

void
lsm_progress_add(LsmProgressParam param, uint64 more)
{
	/* nobody else writes it */
	if (lsm_my_progress != NULL)
		pg_atomic_write_u64(&lsm_my_progress->params[param],
							pg_atomic_read_u64(&lsm_my_progress->params[param]) + more);
}

/* The job is over, one way or another; at the end of each transaction as well. */
void
lsm_progress_end(void)
{
	if (lsm_my_progress == NULL)
		return;
	SpinLockAcquire(&lsm_my_progress->mutex);
	lsm_my_progress->job.kind = LSM_JOB_NONE;
	SpinLockRelease(&lsm_my_progress->mutex);
	lsm_my_progress = NULL;
}

void
lsm_progress_subxact_abort(SubTransactionId subid)
{
	if (subid == lsm_progress_subid)
		lsm_progress_end();
}

int
lsm_progress_list(LsmJobProgress **jobs)
{
	int			n = 0;

	*jobs = palloc(lsm_progress_nslots() * sizeof(LsmJobProgress));
	for (int i = 0; i < lsm_progress_nslots(); i++)
	{
		LsmProgressSlot *slot = &lsm_progress_slots[i];
		LsmJobProgress *job = &(*jobs)[n];

		SpinLockAcquire(&slot->mutex);
		*job = slot->job;
		for (int j = 0; j < LSM_PROGRESS_PARAMS; j++)
			job->params[j] = pg_atomic_read_u64(&slot->params[j]);
		SpinLockRelease(&slot->mutex);
		if (job->kind != LSM_JOB_NONE)
			n++;
	}
	return n;
}
