/*-------------------------------------------------------------------------
 *
 * lsm_rowblock.h
 *	  Blocks of base segments as records, in shared memory, for single rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_ROWBLOCK_H
#define LSM_ROWBLOCK_H

#include "lsm_mvcc.h"

/* What became of the search for a row. */
typedef enum LsmRowFound
{
	LSM_ROW_UNKNOWN,			/* its block is not here as records */
	LSM_ROW_ABSENT,				/* the block does not have it */
	LSM_ROW_FOUND
} LsmRowFound;

/*
 * Copy the record of a row out of the row block of that block, if there is one: record has
 * room for a page.  The block is of a segment that is visible to all, so the record's
 * xid is that of a row that is frozen.  Takes an LWLock for a moment if the cache is being
 * changed, makes no request, raises no error.
 */
extern LsmRowFound lsm_rowblock_get(Relation rel, LsmTable *table, uint64 uid, uint32 blockno,
									LsmTid root, LsmRecord *record, Size *len);

/*
 * The same of a row that was found or foreseen not long ago, or is in the row block where one of
 * its LB was, in whatever block of the segment.  False: it has to be searched for.
 */
extern bool lsm_rowblock_get_hinted(Relation rel, LsmTable *table, uint64 uid, LsmTid root,
									LsmRecord *record, Size *len);

/*
 * Of which roots was one of the same LB found, or foreseen, not long ago?  Their row blocks are
 * taken for that one's.  They are taken out of roots, their number is returned.
 */
extern int	lsm_rowblocks_known(LsmTable *table, LsmTid *roots, int *nroots,
								struct LsmRowsForeseen *foreseen);

/* Remember the row blocks of LBs; their rows follow in lsm_rowblocks_foresee(). */
extern void lsm_rowblocks_remember(LsmTable *table, const struct LsmRowsForeseen *foreseen, int n);

/*
 * Have the processor fetch the records of rows in row blocks that were foreseen, and remember
 * where they are.
 */
extern void lsm_rowblocks_foresee(const struct LsmRowsForeseen *foreseen, int n);

/*
 * A row of a pinned block of such a segment was wanted: keep the block as records, if it is
 * one that may well be wanted again, and its rows are such that this helps.
 */
extern void lsm_rowblock_keep(Relation rel, LsmCachedBlock *cached);

#endif							/* LSM_ROWBLOCK_H */
