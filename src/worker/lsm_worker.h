/*-------------------------------------------------------------------------
 *
 * lsm_worker.h
 *	  Background processes that flush and compact: entry points.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WORKER_H
#define LSM_WORKER_H

#include "lsm.h"

extern int	lsm_compaction_log_min_duration;	/* ms; -1: never */

/* Called at library load: has the server start the launcher. */
extern void lsm_launcher_register(void);

/* What the server calls; the second with the number of a slot. */
extern PGDLLEXPORT void lsm_launcher_main(Datum arg);
extern PGDLLEXPORT void lsm_worker_main(Datum arg);

#endif							/* LSM_WORKER_H */
