/*-------------------------------------------------------------------------
 *
 * lsm_process.c
 *	  What a process tells the others of the transaction that it runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "lsm_process.h"
#include "miscadmin.h"
#include "storage/proc.h"

static LsmProcess *lsm_processes;

int
lsm_process_count(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts;
}

Size
lsm_process_shmem_size(void)
{
	return mul_size(lsm_process_count(), sizeof(LsmProcess));
}

void
lsm_process_shmem_init(void *place, bool fresh)
{
	lsm_processes = place;
	for (int i = 0; fresh && i < lsm_process_count(); i++)
	{
		pg_atomic_init_u64(&lsm_processes[i].floor, 0);
		pg_atomic_init_u64(&lsm_processes[i].hits, 0);
		for (int j = 0; j < LSM_PROCESS_TABLES; j++)
			pg_atomic_init_u64(&lsm_processes[i].tables[j], 0);
	}
}

LsmProcess *
lsm_process(int number)
{
	return &lsm_processes[number];
}

LsmProcess *
lsm_my_process(void)
{
	return &lsm_processes[lsm_compat_procno(MyProc)];
}

bool
lsm_process_any_uses(const void *table)
{
	for (int i = 0; i < lsm_process_count(); i++)
		for (int j = 0; j < LSM_PROCESS_TABLES; j++)
			if (pg_atomic_read_u64(&lsm_processes[i].tables[j]) == (uint64) (uintptr_t) table)
				return true;
	return false;
}
