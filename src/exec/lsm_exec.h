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

/* lsm.enable_lookahead */
extern bool lsm_enable_lookahead;

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
	double		whole;			/* fraction of the others that lie in segments
								 * with none to be read */
	double		changed;		/* rows that have to be looked up in blocks
								 * that are not read */
	double		waits;			/* for a store, so many times */
} LsmScanCost;

extern void lsm_scanpath_install(void);
extern Index lsm_scanpath_level(List *restrictions);
extern bool lsm_scanpath_may_lead(RestrictInfo *restriction, Index level);
extern List *lsm_scanpath_order(PlannerInfo *root, List *restrictions);
extern double lsm_scanpath_correlation(PlannerInfo *root, RelOptInfo *rel, AttrNumber attnum);
extern CustomPath *lsm_scanpath_make(PlannerInfo *root, RelOptInfo *rel, const LsmScanCost *cost,
									 Relids required_outer, int workers);
extern double lsm_scanpath_divisor(int workers);
extern bool lsm_scanpath_is_lsm(Oid relid);
extern bool lsm_scanpath_applies(RelOptInfo *rel, RangeTblEntry *rte);
extern void lsm_scanpath_conditions(PlannerInfo *root, RelOptInfo *rel, List *restrictions,
									LsmScanCost *cost);
extern Cost lsm_scanpath_find_cost(RelOptInfo *rel, const LsmScanCost *cost, Cost *disk);

/* What finding a row in a block costs, of cpu_tuple_cost, and what making it. */
#define LSM_FIND_FACTOR			0.1
#define LSM_MAKE_FACTOR			0.5

/* What a condition costs that is looked at by column, of what it costs for a row. */
#define LSM_BATCH_FACTOR		0.1

/* ---- lsm_bitmappath.c ---- */
extern void lsm_bitmappath_install(void);
extern Cost lsm_bitmappath_rest(PlannerInfo *root, RelOptInfo *rel, const BitmapHeapPath *path);
extern bool lsm_bitmappath_is_charged(const BitmapHeapPath *path);

/* ---- lsm_bitmapscanpath.c ---- */
extern Path *lsm_bitmapscanpath_make(PlannerInfo *root, RelOptInfo *rel, BitmapHeapPath *bitmap);
extern void lsm_bitmapscanpath_replace(PlannerInfo *root, RelOptInfo *rel);
extern void lsm_bitmapscanpath_replace_partial(PlannerInfo *root, RelOptInfo *rel, List *bitmaps);

/* ---- lsm_coldpath.c ---- */
extern double lsm_coldpath_scan_waits(PlannerInfo *root, RelOptInfo *rel, double read, int places);
extern Cost lsm_coldpath_wait_cost(RelOptInfo *rel, double waits, bool repeated);
extern bool lsm_coldpath_applies(PlannerInfo *root, RelOptInfo *rel);
extern List *lsm_coldpath_begin(PlannerInfo *root, RelOptInfo *rel, List *indexes);
extern Cost lsm_coldpath_bitmap_cost(PlannerInfo *root, RelOptInfo *rel,
									 const BitmapHeapPath *bitmap, double rows);

extern Cost lsm_coldpath_lookahead_saves(PlannerInfo *root, RelOptInfo *rel,
										 const IndexPath *path);

/* ---- lsm_lookaheadpath.c ---- */
extern void lsm_lookahead_install(void);

/*
 * The column of the outer side that a key of an inner index is, as the outer path gives it; or the
 * key itself, if it has none.  NULL: it cannot be told.
 */
extern Expr *lsm_lookahead_key(Expr *key, const Path *outer);

/* A path that gives the rows of another one, in no order; each row costs so much more. */
extern CustomPath *lsm_path_over(Path *outer, Cost row_cost, const CustomPathMethods *methods);

/* ---- lsm_keyorderpath.c ---- */

/* lsm.enable_keyorder; and of how many pages an index has to be. */
extern bool lsm_enable_keyorder;
extern int	lsm_debug_keyorder_pages;

extern void lsm_keyorder_install(void);

/*
 * The same outer path in the order of what an inner path looks up; NULL: that is no use, or cannot be
 * told.  Also what each look-up saves.
 */
extern Path *lsm_keyorder_path(PlannerInfo *root, Path *outer, const Path *inner, Cost *saved);

/* ---- lsm_keyorder.c ---- */

/*
 * What a plan of LsmKeyOrder has in custom_private: the number of the child's column that it
 * sorts by, the operator (less than), the collation.
 */
extern const CustomScanMethods lsm_keyorder_methods;

/* ---- lsm_lookahead.c ---- */

/*
 * What a plan of LsmLookAhead has in custom_private: for each index a list of its table's OID,
 * its own, and its conditions, without their keys; these are custom_exprs.
 */
extern const CustomScanMethods lsm_lookahead_methods;

/* ---- lsm_parampath.c ---- */
extern void lsm_parampath_add(PlannerInfo *root, RelOptInfo *rel);

/* ---- lsm_indexpath.c ---- */
extern void lsm_indexpath_install(void);

/*
 * The part of a table's rows that the block cache has no room for (0 to 1), were it the only
 * one.  The planner has it locked.
 */
extern double lsm_indexpath_uncached(Oid relid);

/* ---- lsm_explain.c ---- */
extern void lsm_explain_install(void);

/* ---- lsm_aggpath.c ---- */

/* What a plan of LsmAgg has in custom_private, by place. */
#define LSM_AGG_CONDITIONS		0	/* so many of the qual are of the scan */
#define LSM_AGG_KEYS			1	/* columns that rows are grouped by */
#define LSM_AGG_PARTIAL			2	/* groups need not be complete */

extern void lsm_aggpath_install(void);

/* ---- lsm_aggnode.c ---- */
extern const CustomScanMethods lsm_agg_methods;

/* ---- lsm_scannode.c ---- */

/*
 * What a plan of LsmScan has in custom_private: numbers of the conditions in its qual that
 * are looked at by column, and this, if nobody can ask for the names of its rows.
 */
#define LSM_SCAN_NAMELESS		(-1)

/* Of a node of LsmScan or LsmBitmapScan its scan; NULL: it is another one. */
extern struct LsmColumnScan *lsm_scannode_columnscan(CustomScanState *css);

extern const CustomScanMethods lsm_scan_methods;
extern const CustomScanMethods lsm_bitmap_scan_methods;

#endif							/* LSM_EXEC_H */
