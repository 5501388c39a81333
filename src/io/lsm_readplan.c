/*-------------------------------------------------------------------------
 *
 * lsm_readplan.c
 *	  Which requests read the blocks that are wanted.
 *
 * Blocks that lie together are read together, and what lies between two of them
 * is read over where that costs less than another request.  Nothing is read
 * before the first or behind the last block that is missing.
 *
 * A block is never divided between two runs: where two neighbours in different
 * runs share a page, both read it.  (To carry it over would make a run depend on
 * an earlier one, for a page in sixty-four.)
 *
 * Requests begin and end at pages, which are aligned to more than direct input
 * asks for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_readplan.h"

static LsmReadRun *
lsm_readplan_add_run(LsmReadPlan *plan)
{
	if (plan->nruns >= plan->maxruns)
	{
		plan->maxruns = Max(plan->maxruns * 2, 16);
		plan->runs = plan->runs == NULL ?
			palloc(plan->maxruns * sizeof(LsmReadRun)) :
			repalloc(plan->runs, plan->maxruns * sizeof(LsmReadRun));
	}
	return &plan->runs[plan->nruns++];
}

static LsmReadRequest *
lsm_readplan_add_request(LsmReadPlan *plan)
{
	if (plan->nrequests >= plan->maxrequests)
	{
		plan->maxrequests = Max(plan->maxrequests * 2, 16);
		plan->requests = plan->requests == NULL ?
			palloc(plan->maxrequests * sizeof(LsmReadRequest)) :
			repalloc(plan->requests, plan->maxrequests * sizeof(LsmReadRequest));
	}
	return &plan->requests[plan->nrequests++];
}

/* The block of a page, and how many pages from it on lie in one extent and file. */
static BlockNumber
lsm_readplan_locate(const LsmExtent *extents, int nextents, uint32 page, uint32 *together)
{
	for (int i = 0; i < nextents; i++)
	{
		if (page < extents[i].npages)
		{
			BlockNumber block = extents[i].start + page;

			*together = Min(extents[i].npages - page,
							(BlockNumber) RELSEG_SIZE - block % (BlockNumber) RELSEG_SIZE);
			return block;
		}
		page -= extents[i].npages;
	}
	return InvalidBlockNumber;
}

/* Divide a run into requests. */
static bool
lsm_readplan_divide(LsmReadPlan *plan, LsmReadRun *run, const LsmExtent *extents, int nextents)
{
	uint32		done = 0;

	run->first_request = plan->nrequests;
	while (done < run->npages)
	{
		uint32		together;
		BlockNumber block = lsm_readplan_locate(extents, nextents, run->page + done, &together);
		LsmReadRequest *request;

		if (block == InvalidBlockNumber)
			return false;
		request = lsm_readplan_add_request(plan);
		request->page = run->page + done;
		request->npages = Min(together, run->npages - done);
		request->block = block;
		done += request->npages;
	}
	run->nrequests = plan->nrequests - run->first_request;
	return true;
}

/* Can a run be made longer to have that block as well? */
static bool
lsm_readplan_joins(const LsmReadRun *run, const LsmReadWant *want, const LsmReadLimits *limits)
{
	uint32		next = run->page + run->npages;

	if (limits->max_pages == 0)
		return false;
	if (want->first_page > next && want->first_page - next > limits->gap_pages)
		return false;
	return want->last_page - run->page + 1 <= limits->max_pages;
}

bool
lsm_readplan_make(LsmReadPlan *plan, const LsmReadWant *wants, int nwants,
				  const LsmExtent *extents, int nextents, const LsmReadLimits *limits)
{
	LsmReadRun *run = NULL;

	plan->nruns = 0;
	plan->nrequests = 0;
	for (int i = 0; i < nwants; i++)
	{
		const LsmReadWant *want = &wants[i];

		Assert(want->first_page <= want->last_page);
		Assert(i == 0 || want->first_page >= want[-1].last_page);
		if (want->cached)
			continue;
		if (run == NULL || !lsm_readplan_joins(run, want, limits))
		{
			run = lsm_readplan_add_run(plan);
			memset(run, 0, sizeof(*run));
			run->page = want->first_page;
			run->first_want = i;
		}
		run->npages = want->last_page - run->page + 1;
		run->nwants = i - run->first_want + 1;
		run->nmissing++;
	}
	for (int i = 0; i < plan->nruns; i++)
		if (!lsm_readplan_divide(plan, &plan->runs[i], extents, nextents))
			return false;
	return true;
}
