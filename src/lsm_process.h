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
extern int	lsm_process_count(void);
extern LsmProcess *lsm_process(int number);
extern LsmProcess *lsm_my_process(void);

/* For the process to change what only it writes to. */
static inline void
lsm_process_add(pg_atomic_uint64 *counter, uint64 n)
{
	pg_atomic_write_u64(counter, pg_atomic_read_u64(counter) + n);
}

/* Does a process name that entry? */
extern bool lsm_process_any_uses(const void *table);

#endif							/* LSM_PROCESS_H */
