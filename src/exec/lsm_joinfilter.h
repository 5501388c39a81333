/*-------------------------------------------------------------------------
 *
 * lsm_joinfilter.h
 *	  Rows of a scan that a hash join has no match for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_JOINFILTER_H
#define LSM_JOINFILTER_H

#include "lsm_segment.h"
#include "nodes/execnodes.h"

/* lsm.enable_joinfilter */
extern bool lsm_enable_joinfilter;

/* A hash join above a scan, of which the scan can ask for matches.  A scan has a list of these. */
typedef struct LsmJoinFilter LsmJoinFilter;

/*
 * Of a hash join of a plan that has just been initialized: the scans of ours that its outer
 * rows come from get a filter each, if they can have one.
 */
extern void lsm_joinfilter_look(HashJoinState *join);

/* The scan begins anew, and perhaps with other hash tables. */
extern void lsm_joinfilter_reset(LsmJoinFilter *filters);

/*
 * Take rows of a block out of the mask (0 or 1 for each of nrows) that have no match in the hash tables
 * that are there by now.  left: how many rows it has; returns how many it has then.
 */
extern int	lsm_joinfilter_apply(LsmJoinFilter *filters, LsmBlock *block, uint8 *mask, int nrows,
								 int left);

/*
 * Can no row of a block, or, without a reader, of the segment with these bounds (NULL: not known), have a
 * match?  Returns the column by which that is known, 0 if it is not.
 */
extern AttrNumber lsm_joinfilter_rules_out(LsmJoinFilter *filters, const LsmBounds *bounds,
										   LsmSegmentReader *reader, uint32 blockno);

/* Could it be known of some? */
extern bool lsm_joinfilter_has_keys(const LsmJoinFilter *filters);

#endif							/* LSM_JOINFILTER_H */
