/*-------------------------------------------------------------------------
 *
 * lsm_cold_move.h
 *	  Moving segments of the baseline to a store, and back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLD_MOVE_H
#define LSM_COLD_MOVE_H

#include "lsm_compact.h"

/* How many segments are not where the table's option wants them? */
extern int	lsm_cold_count_misplaced(Relation rel, LsmView *view);

extern bool lsm_cold_may_try(LsmTableShared *shared);

/*
 * Both raise errors of the store.  What was moved stays where it is, whatever
 * becomes of the transaction.
 */
extern void lsm_cold_move_all(Relation rel, LsmJobStats *stats);
extern bool lsm_cold_move_one(Relation rel, LsmJobStats *stats);

#endif							/* LSM_COLD_MOVE_H */
