/*-------------------------------------------------------------------------
 *
 * lsm_untangle.c
 *	  Makes of all increments of a table some that do not overlap, in jobs of bounded size.
 *
 * One minor of all of them would do, however many they are: but what it has done
 * by then would be lost when it is cancelled, and meanwhile there is no other minor, as each takes
 * what is adjacent in age.  So where they have more bytes than a job may read, this is
 * done in two passes over cells, ranges of roots:
 *
 *	by age		as many generations as a job may read, from the oldest on, are merged,
 *				and cut at the borders of cells
 *	by roots	the increments of one cell, which no other reaches into any more, are
 *				merged
 *
 * Then each byte is written once more than by one job.  There are as many cells as jobs of the
 * first pass, and more where the base segments of one come to half of what a job may
 * read, but no more than the manifest has room for what the first pass writes.  Workers may
 * make increments meanwhile that reach over borders: then a job takes more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_compact.h"
#include "lsm_stop.h"
#include "lsm_wal.h"

/* The first pass makes no more increments than that, about. */
#define LSM_UNTANGLE_PIECES		8192

/* Above that share of the manifest's places there is no room for them. */
#define LSM_UNTANGLE_FILL		0.5

typedef struct LsmUntangle
{
	Relation	rel;
	LsmJobStats *stats;
	uint32		until;			/* newest generation */
	uint64		limit;			/* bytes that a job may read */
	uint64		bytes;			/* of the increments */
	int			nborders;		/* between cells */
	LsmTid	   *borders;		/* the last root of each but the last cell */
} LsmUntangle;

static void
lsm_untangle_begin(LsmUntangle *untangle, Relation rel, LsmView *view, LsmJobStats *stats)
{
	memset(untangle, 0, sizeof(*untangle));
	untangle->rel = rel;
	untangle->stats = stats;
	untangle->limit = lsm_job_limit(view);
	for (int i = 0; i < view->nincrements; i++)
	{
		untangle->until = Max(untangle->until, view->increments[i]->gen_hi);
		untangle->bytes += view->increments[i]->stored_bytes;
	}
}

/* Divide the roots into cells, by the bytes of base segments. */
static void
lsm_untangle_make_cells(LsmUntangle *untangle, LsmView *view)
{
	uint64		jobs = untangle->bytes / untangle->limit + 1;
	uint64		cells = Min(Max(jobs, view->all_base.stored / (untangle->limit / 2) + 1),
							LSM_UNTANGLE_PIECES / jobs);
	uint64		bytes = 0;

	if (jobs < 2 || cells < 2 ||
		lsm_manifest_fill(view->nentries + (int) (jobs * cells)) > LSM_UNTANGLE_FILL)
		return;
	untangle->borders = MemoryContextAllocHuge(CurrentMemoryContext,
											   Max(view->nbase, 1) * sizeof(LsmTid));
	for (int i = 0; i + 1 < view->nbase; i++)
	{
		bytes += view->base[i]->stored_bytes;
		if (bytes < view->all_base.stored / cells)
			continue;
		untangle->borders[untangle->nborders++] = view->base[i + 1]->first_tid - 1;
		bytes = 0;
	}
}

static void
lsm_untangle_job(LsmUntangle *untangle, LsmMinorScope *scope)
{
	lsm_minor_unasked(untangle->rel, scope, untangle->stats);
	LSM_STOP("minor-part");
}

/* The same for each cell. */
static void
lsm_untangle_cells(LsmUntangle *untangle, LsmMinorScope *scope)
{
	for (int i = 0; i <= untangle->nborders; i++)
	{
		scope->first = i == 0 ? 0 : untangle->borders[i - 1] + 1;
		scope->last = i < untangle->nborders ? untangle->borders[i] : LSM_MAX_TID;
		lsm_untangle_job(untangle, scope);
	}
}

/*
 * The oldest generations from gen_lo on, as many as a job may read; at least one.  Returns their
 * bytes, 0: there are none.
 */
static uint64
lsm_untangle_next(const LsmUntangle *untangle, LsmMinorScope *scope)
{
	LsmView    *view = lsm_view_get(untangle->rel, lsm_table_open(untangle->rel));
	LsmManifestEntry *entries = lsm_view_copy_increments(view);
	uint64		bytes = 0;

	lsm_entries_sort_age(entries, view->nincrements);
	for (int i = view->nincrements - 1, next; i >= 0; i = next)
	{
		uint64		its = 0;

		for (next = i; next >= 0 && entries[next].gen_hi == entries[i].gen_hi; next--)
			its += entries[next].stored_bytes;
		if (entries[i].gen_hi < scope->gen_lo)
			continue;
		if (entries[i].gen_hi > untangle->until ||
			(bytes > 0 && bytes + its > untangle->limit))
			break;
		if (bytes == 0)
			scope->gen_lo = entries[i].gen_hi;
		scope->gen_hi = entries[i].gen_hi;
		bytes += its;
	}
	pfree(entries);
	return bytes;
}

/*
 * Merge what is next to each other in age.  Increments of one generation do not overlap: if they
 * are too much for a job, they are cut one cell after the other.
 */
static void
lsm_untangle_by_age(LsmUntangle *untangle)
{
	LsmMinorScope scope = {.last = LSM_MAX_TID,.nborders = untangle->nborders,.borders = untangle->borders};
	uint64		bytes;

	while ((bytes = lsm_untangle_next(untangle, &scope)) > 0)
	{
		if (bytes <= untangle->limit)
			lsm_untangle_job(untangle, &scope);
		else
			lsm_untangle_cells(untangle, &scope);
		scope.first = 0;
		scope.last = LSM_MAX_TID;
		scope.gen_lo = scope.gen_hi + 1;
	}
}

/* All increments that there are now.  Waits for the minor that runs. */
void
lsm_untangle(Relation rel, LsmJobStats *stats)
{
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));
	LsmUntangle untangle;
	LsmMinorScope scope = {.gen_hi = PG_UINT32_MAX,.last = LSM_MAX_TID};

	lsm_untangle_begin(&untangle, rel, view, stats);
	lsm_untangle_make_cells(&untangle, view);
	if (untangle.nborders == 0)
		lsm_untangle_job(&untangle, &scope);
	else
	{
		lsm_untangle_by_age(&untangle);
		scope.gen_hi = untangle.until;
		lsm_untangle_cells(&untangle, &scope);
	}
	if (untangle.borders != NULL)
		pfree(untangle.borders);
}
