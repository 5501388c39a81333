/*-------------------------------------------------------------------------
 *
 * lsm_predicate.h
 *	  Conditions of a query that can be looked at by column.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PREDICATE_H
#define LSM_PREDICATE_H

#include "lsm.h"

#include "fmgr.h"
#include "lsm_segment.h"
#include "lsm_select.h"
#include "nodes/execnodes.h"
#include "nodes/primnodes.h"
#include "utils/timestamp.h"

/* Strategies behind those of btree. */
#define LSM_STRATEGY_NE			6
#define LSM_STRATEGY_PREFIX		7	/* LIKE, and ^@: the value may tell how strings begin */

/* Scales for which numerics are remembered as integers. */
#define LSM_PREDICATE_SCALES	17

/* How strings begin that meet LIKE. */
typedef struct LsmPrefix
{
	const char *bytes;
	Size		len;			/* 0: in any way */
	bool		all;			/* all that begin so do */
	bool		fails;			/* a string that gets to its end is an error */
} LsmPrefix;

/* What computing a value may do. */
typedef enum LsmRisk
{
	LSM_RISK_NONE,
	LSM_RISK_TRY,				/* an error, which leaves nothing behind */
	LSM_RISK_WAIT				/* any error */
} LsmRisk;

typedef struct LsmPredicate
{
	LsmCondition condition;		/* must be first */
	Oid			coltype;		/* of the column, domains taken off */
	int			strategy;		/* of btree, or one of those below; 0: another
								 * operator */
	bool		array;			/* column = ANY (value) */
	bool		all;			/* array: column <> ALL (value) */
	bool		bytes;			/* equality of strings is equality of bytes */
	bool		zones;			/* the order of zone maps is that of the
								 * operator */
	bool		near;			/* a time that zone maps know a range for only */
	bool		swapped;		/* the column is the right argument */
	bool		may_fail;		/* it may raise an error for some value */
	Oid			collation;
	FmgrInfo	function;		/* of the operator */
	FmgrInfo	compare;		/* of zones' bounds; fn_oid 0: none */
	Expr	   *expr;			/* what the column is compared with, or NULL */
	Oid			valtype;
	ExprState  *state;
	Bitmapset  *params;			/* of the plan, in expr */
	LsmRisk		risk;			/* of expr */
	bool		left;			/* while it waits, rows are left to those who
								 * look at it by row */
	bool		defers;			/* errors of data are left to those who look
								 * at it by row */
	bool		failed;			/* there was one in the block: rows of which
								 * it is not known are taken to meet it */
	/* set by lsm_predicate_start() */
	ExprContext *econtext;
	bool		waits;			/* its value is not computed before it is
								 * asked for: that of a subquery that has not
								 * run yet, or one that may be an error */
	bool		fails;			/* it is one */
	/* set when the value has been computed */
	bool		never;			/* no row meets it */
	bool		joined;			/* another one's condition has it in also */
	Datum		value;
	int			nvalues;		/* array: not null ones */
	Datum	   *values;
	bool		sorted;			/* array: in the order of zone maps */
	LsmPrefix	prefix;
	bool		scaled[LSM_PREDICATE_SCALES];	/* these are known */
	int64		scaled_lo[LSM_PREDICATE_SCALES];
	int64		scaled_hi[LSM_PREDICATE_SCALES];
	int64	   *scaled_set[LSM_PREDICATE_SCALES];
	int			scaled_nset[LSM_PREDICATE_SCALES];
	int64		near_lo;		/* zones outside of it have no such time */
	int64		near_hi;
	LsmZoneName zone;			/* that was looked at last, and what it told */
	bool		zone_matches;
	uint64		segment;		/* the same of a segment, by its uid */
	bool		segment_matches;
	MemoryContext context;		/* of the values, reset at each start */
	MemoryContext scratch;		/* of tests */
} LsmPredicate;

/*
 * The predicate that a clause over columns of varno is, in CurrentMemoryContext;
 * NULL if it is none.  What planner and executor make of the same clause is the
 * same.
 */
extern LsmPredicate *lsm_predicate_make(Expr *clause, Index varno);

/*
 * Prepare the expression, then, at each scan, evaluate it.  Subqueries are not run for that
 * before the first row comes to the condition, or the caller wants the value; until then
 * zone maps tell nothing.  Nor are functions called that may raise an error, but for those
 * that can be tried; if that fails, the first row that comes raises the error.
 */
extern void lsm_predicate_init(LsmPredicate *predicate, PlanState *parent);
extern void lsm_predicate_rest(LsmPredicate *predicate);
extern void lsm_predicate_start(LsmPredicate *predicate, ExprContext *econtext);
extern void lsm_predicate_compute(LsmPredicate *predicate);

/*
 * Of predicates that have been started, let ranges of one column be looked at together:
 * lsm_predicate_select() of the first of them does what those that are joined would do.
 */
extern void lsm_predicates_join(LsmPredicate **predicates, int n);

/* May it raise an error for some row, as things are? */
static inline bool
lsm_predicate_may_raise(const LsmPredicate *predicate)
{
	return predicate->may_fail || predicate->waits;
}

/* Rows come to it, if the mask has any, that have no value: its own may be an error. */
extern void lsm_predicate_ask(LsmPredicate *predicate, const uint8 *mask, int rows);

/* Clear the mask of rows that do not meet it; returns how many are left. */
extern int	lsm_predicate_select(LsmPredicate *predicate, LsmBlock *block, uint8 *mask);

/* False: no row of the block meets it, by the zone map. */
extern bool lsm_predicate_may_match(LsmPredicate *predicate, LsmSegmentReader *reader,
									uint32 blockno);

/* The same of all blocks of the segment with these bounds; NULL: they are not known. */
extern bool lsm_predicate_may_match_any(LsmPredicate *predicate, const LsmBounds *bounds);

/* True: all rows of the block, and of the others of its zone, meet it. */
extern bool lsm_predicate_must_match(LsmPredicate *predicate, LsmSegmentReader *reader,
									 uint32 blockno);

/* ---- lsm_predicate_prefix.c ---- */

/* Is it the function of LIKE, or of ^@, for a column of that type? */
extern bool lsm_predicate_is_prefix(Oid function, Oid coltype);

/* What its right argument says; palloc'd. */
extern void lsm_predicate_get_prefix(Oid function, Datum value, LsmPrefix *prefix);

/* Where a string lies beside all that begin so: below 0, among them (0), above. */
extern int	lsm_predicate_compare_prefix(const LsmPrefix *prefix, const char *bytes, Size len);

/* ---- lsm_predicate_risk.c ---- */

extern LsmRisk lsm_predicate_function_risk(Oid function);
extern LsmRisk lsm_predicate_risk(Expr *expr);
extern void lsm_predicate_forget_error(MemoryContext caller);

/* ---- lsm_predicate_time.c ---- */

/* Is a value of that type converted to the column's, by lsm_predicate_time_at()? */
extern bool lsm_predicate_time_converts(Oid coltype, Oid valtype);

/* The value as a number of the column's; exact is false if it lies before the next one. */
extern int64 lsm_predicate_time_at(Oid coltype, Oid valtype, Datum value, bool *exact);

/* Is a column of that type compared with the value by the operator only? */
extern bool lsm_predicate_time_is_near(Oid coltype, Oid valtype);

/*
 * Then: numbers of the column between which its values lie that mean that moment; all before
 * them mean earlier ones, all behind them later ones.
 */
extern void lsm_predicate_time_near(Oid coltype, TimestampTz value, int64 *lo, int64 *hi);

#endif							/* LSM_PREDICATE_H */
