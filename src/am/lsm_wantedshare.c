/*-------------------------------------------------------------------------
 *
 * lsm_wantedshare.c
 *	  A bitmap that the processes of a parallel scan go through together.
 *
 * Who comes first makes it, in memory of the query that all can reach; the others
 * wait.  If it fails, the query does, and nobody goes on waiting: the leader throws
 * its error, and ends the workers.
 *
 * RUNS
 *	  A process takes a run of pages that come one after the other, up to the end of a
 *	  block: so what it misses of them can be read by few long requests, no other process
 *	  reads the same blocks, and it knows what it will want next.  As pages are given
 *	  out in their order, what one process gets is in that order, too.
 *
 *	  A page may stand for one row or for many, so the length of a run is counted in
 *	  bytes of blocks.  How many there are in all is not known.  A run has some part of
 *	  those that have been taken so far: so the last one that anybody works on, or
 *	  has taken before it needed it, is a small part of what each has done.
 *
 * LOCKING
 *	  Processes take turns in taking runs, and no lock is held meanwhile, as it may have
 *	  to be read where a block ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_compat.h"
#include "lsm_wantedshare.h"

/*
 * Bytes of the shortest run, of the shortest in a store, of the longest; and what part of its
 * share a process takes at a time.
 */
#define LSM_WANTED_RUN_MIN		((uint64) 128 * 1024)
#define LSM_WANTED_RUN_COLD		((uint64) 512 * 1024)
#define LSM_WANTED_RUN_MAX		((uint64) 4 * 1024 * 1024)
#define LSM_WANTED_RUN_PART		16

void
lsm_wantedshare_init(LsmWantedShare *share, int processes)
{
	memset(share, 0, sizeof(*share));
	SpinLockInit(&share->mutex);
	share->state = LSM_WANTED_NONE;
	share->bitmap = InvalidDsaPointer;
	ConditionVariableInit(&share->made);
	ConditionVariableInit(&share->turn);
	share->processes = processes;
}

void
lsm_wantedshare_reset(LsmWantedShare *share, dsa_area *dsa)
{
	if (DsaPointerIsValid(share->bitmap))
		tbm_free_shared_area(dsa, share->bitmap);
	share->bitmap = InvalidDsaPointer;
	share->state = LSM_WANTED_NONE;
	share->taking = false;
	share->given = 0;
	share->rest.valid = false;
}

bool
lsm_wantedshare_is_mine(LsmWantedShare *share)
{
	LsmWantedState state;

	for (;;)
	{
		SpinLockAcquire(&share->mutex);
		state = share->state;
		if (state == LSM_WANTED_NONE)
			share->state = LSM_WANTED_MAKING;
		SpinLockRelease(&share->mutex);
		if (state != LSM_WANTED_MAKING)
			break;
		ConditionVariableSleep(&share->made, WAIT_EVENT_PARALLEL_BITMAP_SCAN);
	}
	ConditionVariableCancelSleep();
	return state == LSM_WANTED_NONE;
}

void
lsm_wantedshare_publish(LsmWantedShare *share, TIDBitmap *bitmap)
{
	dsa_pointer iterator = tbm_prepare_shared_iterate(bitmap);

	SpinLockAcquire(&share->mutex);
	Assert(share->state == LSM_WANTED_MAKING);
	share->bitmap = iterator;
	share->state = LSM_WANTED_MADE;
	SpinLockRelease(&share->mutex);
	ConditionVariableBroadcast(&share->made);
}

uint64
lsm_wantedshare_begin_run(LsmWantedShare *share, bool cold)
{
	uint64		part;
	bool		mine;

	for (;;)
	{
		SpinLockAcquire(&share->mutex);
		mine = !share->taking;
		share->taking = true;
		SpinLockRelease(&share->mutex);
		if (mine)
			break;
		ConditionVariableSleep(&share->turn, WAIT_EVENT_PARALLEL_BITMAP_SCAN);
	}
	ConditionVariableCancelSleep();
	part = share->given / ((uint64) share->processes * LSM_WANTED_RUN_PART);
	return Min(Max(part, cold ? LSM_WANTED_RUN_COLD : LSM_WANTED_RUN_MIN), LSM_WANTED_RUN_MAX);
}

void
lsm_wantedshare_end_run(LsmWantedShare *share, uint64 bytes)
{
	share->given += bytes;
	SpinLockAcquire(&share->mutex);
	share->taking = false;
	SpinLockRelease(&share->mutex);
	ConditionVariableSignal(&share->turn);
}
