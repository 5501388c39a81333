/*-------------------------------------------------------------------------
 *
 * lsm_segmentorder.h
 *	  Reading ahead of what is kept of each segment, in the order of the view.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SEGMENTORDER_H
#define LSM_SEGMENTORDER_H

#include "lsm_ahead.h"

/* An order in which a process has asked for something of segments last. */
typedef struct LsmSegmentOrder
{
	uint32		what;			/* LSM_CACHE_METADATA or LSM_CACHE_BOUNDS */

	/* will nobody ask for that of this segment? */
	bool		(*has) (LsmTable *table, const LsmManifestEntry *entry);

	/* Zero at first.  Places are those in a list of the view. */
	LsmAheadFeed feed;
	LsmTable   *table;
	uint64		epoch;			/* of the table's view then */
	uint64		counter;
	bool		base;			/* base segments; else increments */
	int			asked;			/* the one that was asked for last, */
	int			told;			/* and the last one that was told */
} LsmSegmentOrder;

/*
 * It is being asked for of a segment: the feed that tells of those that come next, to take it
 * with.  NULL: the view at hand does not have the segment.
 */
extern LsmAheadFeed *lsm_segment_order_feed(LsmSegmentOrder *order, LsmTable *table,
											const LsmManifestEntry *entry);

#endif							/* LSM_SEGMENTORDER_H */
