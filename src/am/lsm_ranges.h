/*-------------------------------------------------------------------------
 *
 * lsm_ranges.h
 *	  How a table is divided among the processes of a parallel scan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_RANGES_H
#define LSM_RANGES_H

#include "lsm.h"

#include "lsm_table.h"
#include "utils/rel.h"

/* What there is to read from some root on, up to the next anchor of its kind. */
typedef struct LsmAnchor
{
	LsmTid		tid;
	uint64		bytes;
	bool		border;			/* a unit begins there, so a range may, too */
} LsmAnchor;

/*
 * A table comes to so many ranges, if it is large.  Two neighbours have more than the
 * goal together, so that there are twice as many at most.
 */
#define LSM_RANGES_MANY			256
#define LSM_RANGES_MAX			(2 * LSM_RANGES_MANY + 1)

/* A smaller one to so many, if its units are not too large for that. */
#define LSM_RANGES_FEW			64

/* In between, a range is worth so many requests. */
#define LSM_RANGE_REQUESTS		4

/* It begins with this root and ends before the next one does; the last one does not end. */
typedef struct LsmRange
{
	LsmTid		begin;
	uint64		bytes;
} LsmRange;

/* ---- pure functions ---- */

/* Bytes of a range. */
extern uint64 lsm_ranges_goal(uint64 total, uint64 request_bytes);

/*
 * Cut what anchors (which it sorts, and changes) tell of into ranges.  Those with a
 * root that there is not are left out; of several with one root, the bytes are added.
 * Returns how many ranges: 1 at least, LSM_RANGES_MAX at most; together they have all
 * roots there are or may be.
 */
extern int	lsm_ranges_cut(LsmAnchor *anchors, int n, uint64 request_bytes, LsmRange *ranges);

/* ---- lsm_anchors.c ---- */

/* The ranges of a table now; there is room for LSM_RANGES_MAX. */
extern int	lsm_ranges_of(Relation rel, LsmTable *table, LsmRange *ranges);

#endif							/* LSM_RANGES_H */
