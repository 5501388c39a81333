/*-------------------------------------------------------------------------
 *
 * lsm_pace.h
 *	  Who has to be slower than he could: compactions by workers, and writers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PACE_H
#define LSM_PACE_H

#include "lsm_table.h"

/* A job looks at its pace after so many bytes. */
#define LSM_PACE_BYTES			(1024 * 1024)

extern int	lsm_compaction_rate_limit;	/* kB/s, 0: none */

extern void lsm_pace_job(void);
extern void lsm_pace_writer(Relation rel, LsmTable *table, double fill);

#endif							/* LSM_PACE_H */
