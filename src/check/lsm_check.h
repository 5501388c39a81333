/*-------------------------------------------------------------------------
 *
 * lsm_check.h
 *	  Verification of a table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CHECK_H
#define LSM_CHECK_H

#include "lsm.h"

typedef void (*LsmCheckReport) (void *arg, const char *problem);

/* Verify everything that can be; report() is called for each problem. */
extern void lsm_check(Relation rel, LsmCheckReport report, void *arg);

#endif							/* LSM_CHECK_H */
