/*-------------------------------------------------------------------------
 *
 * lsm_exec.h
 *	  Plan nodes of our own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_EXEC_H
#define LSM_EXEC_H

#include "lsm.h"

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* lsm.enable_lsmscan */
extern bool lsm_enable_lsmscan;

/* ---- lsm_scanpath.c ---- */
extern void lsm_scanpath_install(void);

/* ---- lsm_scannode.c ---- */
extern const CustomScanMethods lsm_scan_methods;

#endif							/* LSM_EXEC_H */
