/*-------------------------------------------------------------------------
 *
 * lsm_process.h
 *	  What a process tells the others of the transaction that it runs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PROCESS_H
#define LSM_PROCESS_H

#include "lsm.h"

#include "port/atomics.h"

/* What else fits the line. */
#define LSM_PROCESS_TABLES	(PG_CACHE_LINE_SIZE / 8 - 2)

/*
 * One for each process, by its number.  Only the process writes to it, in each transaction, so it has
 * a line of the processor's cache by itself.
 */
typedef struct LsmProcess
{
	pg_atomic_uint64 floor;		/* see lsm_floor.c; 0: none */
	pg_atomic_uint64 hits;		/* of the block cache, by all who have had the number */
	pg_atomic_uint64 tables[LSM_PROCESS_TABLES];	/* entries of tables that it uses, by address;
													 * see lsm_table_repin(); 0: none */
} LsmProcess;

StaticAssertDecl(sizeof(LsmProcess) == PG_CACHE_LINE_SIZE, "a process has a line");

extern Size lsm_process_shmem_size(void);
extern void lsm_process_shmem_init(void *place, bool fresh);

/* Those there may be, auxiliary ones and prepared transactions too. */
extern int	lsm_process_count(void);

/* By number (lsm_compat_procno()), and the caller's. */
extern LsmProcess *lsm_process(int number);
extern LsmProcess *lsm_my_process(void);

/* Does a process name that entry?  No lock: see lsm_table_throw_out() for what makes it true. */
extern bool lsm_process_any_uses(const void *table);

#endif							/* LSM_PROCESS_H */
