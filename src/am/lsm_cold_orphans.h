/*-------------------------------------------------------------------------
 *
 * lsm_cold_orphans.h
 *	  Objects that nothing names any more: finding and deleting them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLD_ORPHANS_H
#define LSM_COLD_ORPHANS_H

#include "lsm.h"

#include "nodes/pg_list.h"

extern int	lsm_store_delete_delay; /* seconds; -1: never */

extern List *lsm_orphans_stores(void);
extern void lsm_orphans_sweep_store(Oid serverid);

#endif							/* LSM_COLD_ORPHANS_H */
