/*-------------------------------------------------------------------------
 *
 * lsm_prefetch.h
 *	  Blocks of rows that are going to be fetched one by one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PREFETCH_H
#define LSM_PREFETCH_H

#include "lsm.h"

#include "lsm_table.h"
#include "utils/rel.h"

/* Rows that are prefetched together, at most. */
#define LSM_PREFETCH_ROWS		256

/* Is there anything that would take long to read? */
static inline bool
lsm_prefetch_pays(const LsmTable *table)
{
	return table->view != NULL && table->view->cold_base.blocks > 0;
}

/*
 * Rows with these roots (LSM_PREFETCH_ROWS at most, in any order, some of them twice perhaps)
 * are going to be fetched, each by itself: have the blocks in a store that they need and no
 * cache has, all requests for them under way together.  Waits for them.  May be called where a
 * query may be cancelled, with no lock.  Raises what a fetch of the rows would of stores that
 * cannot be asked, or answer with less than they have been asked for; but an object that is
 * missing, or a block with wrong bytes, is nobody's concern before the row that needs it is
 * fetched.
 */
extern void lsm_prefetch_rows(Relation rel, LsmTable *table, LsmTid *roots, int n);

#endif							/* LSM_PREFETCH_H */
