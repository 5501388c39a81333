/*-------------------------------------------------------------------------
 *
 * lsm_ranges.c
 *	  Cutting a table into ranges of roots with about as much to read.
 *
 * Ranges are many more than processes, so that these end together; but each is worth
 * several long requests, if the table is.  They begin where a unit does, for two
 * processes would read a unit that is divided.  What there is to read is not
 * spread evenly over the roots: all of a table may lie in a tenth of its LBs, or
 * all of its increments over one corner.  So ranges have like bytes, not roots.
 *
 * A range is no more than two roots: it is good whatever becomes of the table before
 * it is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_ranges.h"

uint64
lsm_ranges_goal(uint64 total, uint64 request_bytes)
{
	uint64		goal = Min(total / LSM_RANGES_FEW, request_bytes * LSM_RANGE_REQUESTS);

	return Max(Max(goal, total / LSM_RANGES_MANY), 1);
}

static int
lsm_anchor_compare(const void *a, const void *b)
{
	const LsmAnchor *x = a;
	const LsmAnchor *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (int) y->border - (int) x->border;	/* borders first */
}

/*
 * Make one anchor of each unit: it has what begins at its border or behind that.  What
 * comes before the first border is one, too.  Returns how many there are.
 */
static int
lsm_ranges_units(LsmAnchor *anchors, int n, uint64 *total)
{
	int			kept = 0;
	int			units = 0;

	*total = 0;
	for (int i = 0; i < n; i++)
		if (anchors[i].tid != LSM_INVALID_TID && anchors[i].tid <= LSM_MAX_TID)
			anchors[kept++] = anchors[i];
	qsort(anchors, kept, sizeof(LsmAnchor), lsm_anchor_compare);
	for (int i = 0; i < kept; i++)
	{
		*total += anchors[i].bytes;
		if (units > 0 && (!anchors[i].border || anchors[i].tid == anchors[units - 1].tid))
			anchors[units - 1].bytes += anchors[i].bytes;
		else
			anchors[units++] = anchors[i];
	}
	return units;
}

int
lsm_ranges_cut(LsmAnchor *anchors, int n, uint64 request_bytes, LsmRange *ranges)
{
	uint64		total;
	int			units = lsm_ranges_units(anchors, n, &total);
	uint64		goal = lsm_ranges_goal(total, request_bytes);
	int			nranges = 1;

	ranges[0].begin = 1;
	ranges[0].bytes = 0;
	for (int i = 0; i < units; i++)
	{
		LsmRange   *range = &ranges[nranges - 1];
		uint64		with = range->bytes + anchors[i].bytes;

		/* is it nearer to the goal without the unit? */
		if (range->bytes > 0 && with > goal && nranges < LSM_RANGES_MAX &&
			(range->bytes >= goal || with - goal > goal - range->bytes))
		{
			range = &ranges[nranges++];
			range->begin = anchors[i].tid;
			range->bytes = 0;
		}
		range->bytes += anchors[i].bytes;
	}
	return nranges;
}
