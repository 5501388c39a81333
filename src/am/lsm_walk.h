/*-------------------------------------------------------------------------
 *
 * lsm_walk.h
 *	  Index scans that are found to walk forward through the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WALK_H
#define LSM_WALK_H

#include "lsm.h"

#include "lsm_ahead.h"
#include "lsm_table.h"
#include "utils/rel.h"

/* A root so many LBs behind the last one may be in the next block. */
#define LSM_WALK_LBS			64

typedef struct LsmWalk
{
	Relation	rel;
	LsmTable   *table;
	LsmTid		last;			/* root that was fetched last; 0: none */
	LsmTid		first_root;		/* of the block that it is in; 1 and 0: it is */
	LsmTid		last_root;		/* not known, or not in a block */
	int			steps;			/* from a block to the next one, so many */
	LsmAheadFeed feed;
	LsmTid		feed_tid;		/* told up to here */
} LsmWalk;

extern void lsm_walk_begin(LsmWalk *walk, Relation rel, LsmTable *table);
extern void lsm_walk_end(LsmWalk *walk);
extern void lsm_walk_step(LsmWalk *walk, LsmTid root);

/* A root is going to be fetched. */
static inline void
lsm_walk_to(LsmWalk *walk, LsmTid root)
{
	if (root < walk->first_root || root > walk->last_root)
		lsm_walk_step(walk, root);
	walk->last = root;
}

#endif							/* LSM_WALK_H */
