/*-------------------------------------------------------------------------
 *
 * lsm_scanshare.h
 *	  What each process of a parallel scan has taken, for EXPLAIN.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SCANSHARE_H
#define LSM_SCANSHARE_H

#include "lsm.h"

#include "commands/explain.h"
#include "lsm_compat.h"

/* Each process writes its own, before the leader sees that it has ended. */
typedef struct LsmScanShare
{
	uint64		ranges;
	uint64		units;
	uint64		rows;			/* that the snapshot sees, before all
								 * conditions */
} LsmScanShare;

/* In shared memory, then a copy of the leader's: itself, then the workers. */
typedef struct LsmScanShares
{
	int			nworkers;
	LsmScanShare shares[FLEXIBLE_ARRAY_MEMBER];
} LsmScanShares;

extern Size lsm_scanshare_bytes(int nworkers);
extern void lsm_scanshare_init(LsmScanShares *shares, int nworkers);
extern void lsm_scanshare_add(LsmScanShares *shares, const LsmScanShare *own);
extern LsmScanShares *lsm_scanshare_copy(const LsmScanShares *shares);
extern void lsm_scanshare_explain(const LsmScanShares *shares, ExplainState *es);

#endif							/* LSM_SCANSHARE_H */
