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

/* May workers try such jobs of the table now, as far as errors before tell? */
extern bool lsm_cold_may_try(LsmColdRest *rest);

/* Note how one went, for that. */
extern void lsm_cold_note(LsmColdRest *rest, bool good);

/*
 * The same when an error has come, which is being handled: were stores its cause?
 * failures: lsm_store_failures as it was when the job began.
 */
extern bool lsm_cold_note_error(LsmColdRest *rest, uint64 failures);

/*
 * Both raise errors of the store.  What was moved stays where it is, whatever
 * becomes of the transaction.
 */
extern void lsm_cold_move_all(Relation rel, LsmJobStats *stats);
extern bool lsm_cold_move_one(Relation rel, LsmJobStats *stats);

#endif							/* LSM_COLD_MOVE_H */
