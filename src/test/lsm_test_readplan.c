/*-------------------------------------------------------------------------
 *
 * lsm_test_readplan.c
 *	  Tests of lsm_readplan.c, called by sql/readplan.sql.
 *
 * lsm_test_readplan(text): a plan, from words
 *		extent=START+PAGES		the segment's extents, in their order
 *		max=PAGES gap=PAGES		limits
 *		FIRST-LAST				a block on these pages; with a "c" behind it, cached
 * Results are runs, PAGE+PAGES:MISSING/BLOCKS, each with its requests,
 * PAGES@BLOCK.
 *
 * lsm_test_readplan_random(seed, rounds): random plans must have the properties
 * that the header promises; the first problem, or "sound".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "lsm_readplan.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsm_test_readplan);
PG_FUNCTION_INFO_V1(lsm_test_readplan_random);

#define LSM_TEST_WANTS 64

typedef struct LsmTestPlan
{
	LsmReadLimits limits;
	int			nextents;
	LsmExtent	extents[LSM_SEGMENT_EXTENTS];
	int			nwants;
	LsmReadWant wants[LSM_TEST_WANTS];
	LsmReadPlan plan;
} LsmTestPlan;

static void
lsm_test_plan_word(LsmTestPlan *test, const char *word)
{
	unsigned int a;
	unsigned int b;
	char		c = '\0';

	if (sscanf(word, "extent=%u+%u", &a, &b) == 2 && test->nextents < LSM_SEGMENT_EXTENTS)
	{
		test->extents[test->nextents].start = a;
		test->extents[test->nextents++].npages = b;
	}
	else if (sscanf(word, "max=%u", &a) == 1)
		test->limits.max_pages = a;
	else if (sscanf(word, "gap=%u", &a) == 1)
		test->limits.gap_pages = a;
	else if (sscanf(word, "%u-%u%c", &a, &b, &c) >= 2 && test->nwants < LSM_TEST_WANTS)
	{
		test->wants[test->nwants].first_page = a;
		test->wants[test->nwants].last_page = b;
		test->wants[test->nwants++].cached = c == 'c';
	}
	else
		elog(ERROR, "what is \"%s\"?", word);
}

Datum
lsm_test_readplan(PG_FUNCTION_ARGS)
{
	char	   *words = text_to_cstring(PG_GETARG_TEXT_PP(0));
	LsmTestPlan *test = palloc0(sizeof(LsmTestPlan));
	StringInfoData result;

	for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
		lsm_test_plan_word(test, word);
	if (!lsm_readplan_make(&test->plan, test->wants, test->nwants, test->extents,
						   test->nextents, &test->limits))
		PG_RETURN_TEXT_P(cstring_to_text("outside"));
	initStringInfo(&result);
	for (int i = 0; i < test->plan.nruns; i++)
	{
		LsmReadRun *run = &test->plan.runs[i];

		appendStringInfo(&result, "%s%u+%u:%d/%d", i == 0 ? "" : "  ", run->page, run->npages,
						 run->nmissing, run->nwants);
		for (int j = 0; j < run->nrequests; j++)
			appendStringInfo(&result, " %u@%u", test->plan.requests[run->first_request + j].npages,
							 test->plan.requests[run->first_request + j].block);
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(result.data, result.len));
}

static uint32
lsm_test_below(pg_prng_state *random, uint32 n)
{
	return (uint32) pg_prng_uint64_range(random, 0, n - 1);
}

/* Extents near the borders of files, and blocks that share pages or leave some out. */
static void
lsm_test_plan_random(LsmTestPlan *test, pg_prng_state *random)
{
	uint32		pages = 0;
	uint32		page = 0;

	test->nwants = 0;
	test->nextents = 1 + lsm_test_below(random, LSM_SEGMENT_EXTENTS);
	for (int i = 0; i < test->nextents; i++)
	{
		test->extents[i].start = (i + 1) * RELSEG_SIZE - lsm_test_below(random, 100);
		test->extents[i].npages = 1 + lsm_test_below(random, 80);
		pages += test->extents[i].npages;
	}
	test->limits.max_pages = lsm_test_below(random, 40);
	test->limits.gap_pages = lsm_test_below(random, 6);
	while (test->nwants < LSM_TEST_WANTS)
	{
		LsmReadWant *want = &test->wants[test->nwants];

		if (lsm_test_below(random, 8) == 0)
			page += lsm_test_below(random, 10);
		want->first_page = page;
		want->last_page = page + lsm_test_below(random, 5);
		want->cached = lsm_test_below(random, 4) == 0;
		if (want->last_page >= pages)
			break;
		page = want->last_page + lsm_test_below(random, 2);
		test->nwants++;
	}
}

/* Where a page lies, found in the most simple way. */
static BlockNumber
lsm_test_plan_block(const LsmTestPlan *test, uint32 page)
{
	for (int i = 0; i < test->nextents; i++)
		for (uint32 j = 0; j < test->extents[i].npages; j++)
			if (page-- == 0)
				return test->extents[i].start + j;
	return InvalidBlockNumber;
}

/* Do the requests of a run read its pages, each once, none across a border? */
static const char *
lsm_test_plan_requests(const LsmTestPlan *test, const LsmReadRun *run)
{
	uint32		page = run->page;

	for (int i = 0; i < run->nrequests; i++)
	{
		const LsmReadRequest *request = &test->plan.requests[run->first_request + i];

		if (request->page != page || request->npages == 0)
			return "requests do not follow each other";
		for (uint32 j = 0; j < request->npages; j++)
			if (lsm_test_plan_block(test, page + j) != request->block + j)
				return "a request reads a wrong page";
		if (request->block / RELSEG_SIZE != (request->block + request->npages - 1) / RELSEG_SIZE)
			return "a request crosses the border of a file";
		page += request->npages;
	}
	return page == run->page + run->npages ? NULL : "requests end elsewhere";
}

/* Are two missing blocks so near that one run should have both? */
static bool
lsm_test_plan_near(const LsmTestPlan *test, uint32 first_page, const LsmReadWant *before,
				   const LsmReadWant *want)
{
	return test->limits.max_pages > 0 &&
		want->last_page - first_page < test->limits.max_pages &&
		want->first_page <= before->last_page + 1 + test->limits.gap_pages;
}

static const char *
lsm_test_plan_problem(const LsmTestPlan *test)
{
	const LsmReadWant *before = NULL;
	int			at = -1;		/* run of the block before */

	for (int i = 0; i < test->nwants; i++)
	{
		const LsmReadWant *want = &test->wants[i];
		const LsmReadRun *run;
		bool		first;

		if (want->cached)
			continue;
		first = at < 0 || i >= test->plan.runs[at].first_want + test->plan.runs[at].nwants;
		if (first && ++at >= test->plan.nruns)
			return "a block is in no run";
		run = &test->plan.runs[at];
		if (want->first_page < run->page || want->last_page >= run->page + run->npages)
			return "a run does not have the pages of its blocks";
		if (first && (run->first_want != i || run->page != want->first_page))
			return "a run begins before its first block";
		if (before != NULL &&
			first == lsm_test_plan_near(test, test->plan.runs[first ? at - 1 : at].page, before,
										want))
			return first ? "near blocks are not joined" : "far blocks are joined";
		before = want;
	}
	if (at + 1 != test->plan.nruns)
		return "there are more runs than blocks";
	for (int i = 0; i < test->plan.nruns; i++)
	{
		const char *problem = lsm_test_plan_requests(test, &test->plan.runs[i]);

		if (problem != NULL)
			return problem;
	}
	return NULL;
}

Datum
lsm_test_readplan_random(PG_FUNCTION_ARGS)
{
	pg_prng_state random;
	LsmTestPlan *test = palloc0(sizeof(LsmTestPlan));

	pg_prng_seed(&random, PG_GETARG_INT32(0));
	for (int round = 0; round < PG_GETARG_INT32(1); round++)
	{
		const char *problem;

		lsm_test_plan_random(test, &random);
		if (lsm_readplan_make(&test->plan, test->wants, test->nwants, test->extents,
							  test->nextents, &test->limits))
			problem = lsm_test_plan_problem(test);
		else
			problem = "pages are outside";
		if (problem != NULL)
			PG_RETURN_TEXT_P(cstring_to_text(psprintf("round %d: %s", round, problem)));
	}
	PG_RETURN_TEXT_P(cstring_to_text("sound"));
}
