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

/* What the planner needs to know of the conditions of a scan. */
typedef struct LsmScanCost
{
	List	   *by_column;		/* those that are, or in small tables may be,
								 * looked at by column */
	QualCost	batch;			/* of these; of small tables it is in rest */
	QualCost	rest;
	int			nrest;			/* number of the others */
	double		passed;			/* fraction of the rows that the former let
								 * pass */
	double		read;			/* fraction of the blocks that have to be read */
	double		changed;		/* rows that have to be looked up in blocks that
								 * are not read */
} LsmScanCost;

extern void lsm_scanpath_install(void);
extern bool lsm_scanpath_applies(RelOptInfo *rel, RangeTblEntry *rte);
extern void lsm_scanpath_conditions(PlannerInfo *root, RelOptInfo *rel, List *restrictions,
									LsmScanCost *cost);
extern Cost lsm_scanpath_find_cost(RelOptInfo *rel, const LsmScanCost *cost, Cost *disk);

/* ---- lsm_bitmappath.c ---- */
extern void lsm_bitmappath_install(void);

/* ---- lsm_aggpath.c ---- */

/* What a plan of LsmAgg has in custom_private, by place. */
#define LSM_AGG_CONDITIONS		0	/* so many of the qual are of the scan */
#define LSM_AGG_KEYS			1	/* columns that rows are grouped by */
#define LSM_AGG_PARTIAL			2	/* groups need not be complete */

extern void lsm_aggpath_install(void);

/* ---- lsm_aggnode.c ---- */
extern const CustomScanMethods lsm_agg_methods;

/* ---- lsm_scannode.c ---- */
extern const CustomScanMethods lsm_scan_methods;

#endif							/* LSM_EXEC_H */
