/*-------------------------------------------------------------------------
 *
 * lsm_foresee.h
 *	  Rows that an index scan is about to fetch.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FORESEE_H
#define LSM_FORESEE_H

#include "lsm.h"

#include "access/relscan.h"
#include "executor/tuptable.h"
#include "lsm_table.h"

typedef struct LsmForesight
{
	bool		blind;			/* nothing is foreseen of this scan */
	uint32		fetched;		/* rows, since the scan began anew */
	uint32		foreseen;		/* as many of them are no news */
	uint32		prefetched;		/* of so many, blocks in a store have been asked for */
	uint32		usual;			/* that it fetched the time before */
} LsmForesight;

extern void lsm_foresee_rows(LsmForesight *foresight, LsmTable *table,
							 const IndexFetchTableData *fetch, const ItemPointerData *tid,
							 TupleTableSlot *slot);

/* Rows with these roots (LSM_FORESEEN at most) are going to be looked up.  What is in roots is changed. */
extern void lsm_foresee_roots(LsmTable *table, LsmTid *roots, int n);

/* The row with that TID is going to be fetched into the slot. */
static inline void
lsm_foresee(LsmForesight *foresight, LsmTable *table, const IndexFetchTableData *fetch,
			const ItemPointerData *tid, TupleTableSlot *slot)
{
	if (++foresight->fetched > foresight->foreseen && !foresight->blind)
		lsm_foresee_rows(foresight, table, fetch, tid, slot);
}

/* The scan has ended, or begins anew. */
static inline void
lsm_foresee_reset(LsmForesight *foresight)
{
	if (foresight->fetched > 0)
		foresight->usual = foresight->fetched;
	foresight->fetched = 0;
	foresight->foreseen = 0;
	foresight->prefetched = 0;
}

#endif							/* LSM_FORESEE_H */
