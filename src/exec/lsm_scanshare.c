/*-------------------------------------------------------------------------
 *
 * lsm_scanshare.c
 *	  What each process of a parallel scan has taken, for EXPLAIN.
 *
 * It shows whether the ranges of a table are even (lsm_ranges.c): a process that has
 * taken fewer of them has found them harder, or has begun late.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "lsm_scanshare.h"

Size
lsm_scanshare_bytes(int nworkers)
{
	return MAXALIGN(offsetof(LsmScanShares, shares) + (1 + nworkers) * sizeof(LsmScanShare));
}

void
lsm_scanshare_init(LsmScanShares *shares, int nworkers)
{
	memset(shares, 0, lsm_scanshare_bytes(nworkers));
	shares->nworkers = nworkers;
}

/* Add to what this process has taken: a plan node may be run more than once. */
void
lsm_scanshare_add(LsmScanShares *shares, const LsmScanShare *own)
{
	LsmScanShare *share = &shares->shares[IsParallelWorker() ? 1 + ParallelWorkerNumber : 0];

	Assert(!IsParallelWorker() || ParallelWorkerNumber < shares->nworkers);
	share->ranges += own->ranges;
	share->units += own->units;
	share->rows += own->rows;
}

/* In the current memory context. */
LsmScanShares *
lsm_scanshare_copy(const LsmScanShares *shares)
{
	Size		bytes = lsm_scanshare_bytes(shares->nworkers);

	return memcpy(palloc(bytes), shares, bytes);
}

static void
lsm_scanshare_explain_text(const LsmScanShare *share, int number, ExplainState *es)
{
	appendStringInfoSpaces(es->str, es->indent * 2);
	if (number == 0)
		appendStringInfoString(es->str, "LSM leader:");
	else
		appendStringInfo(es->str, "LSM worker %d:", number - 1);
	appendStringInfo(es->str, " ranges=" UINT64_FORMAT " units=" UINT64_FORMAT " rows=" UINT64_FORMAT "\n",
					 share->ranges, share->units, share->rows);
}

/* Processes that have taken something; in the other formats, all. */
void
lsm_scanshare_explain(const LsmScanShares *shares, ExplainState *es)
{
	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainOpenGroup("LSM Processes", "LSM Processes", false, es);
	for (int i = 0; i <= shares->nworkers; i++)
	{
		const LsmScanShare *share = &shares->shares[i];

		if (es->format == EXPLAIN_FORMAT_TEXT)
		{
			if (share->ranges > 0)
				lsm_scanshare_explain_text(share, i, es);
			continue;
		}
		ExplainOpenGroup("LSM Process", NULL, true, es);
		ExplainPropertyText("LSM Process Name", i == 0 ? "leader" : psprintf("worker %d", i - 1),
							es);
		ExplainPropertyInteger("LSM Ranges", NULL, share->ranges, es);
		ExplainPropertyInteger("LSM Units", NULL, share->units, es);
		ExplainPropertyInteger("LSM Rows", NULL, share->rows, es);
		ExplainCloseGroup("LSM Process", NULL, true, es);
	}
	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainCloseGroup("LSM Processes", "LSM Processes", false, es);
}
