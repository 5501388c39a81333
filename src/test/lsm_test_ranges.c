/*-------------------------------------------------------------------------
 *
 * lsm_test_ranges.c
 *	  Tests of lsm_ranges.c and lsm_anchors.c, called by sql/ranges.sql.
 *
 * lsm_test_ranges(text): ranges, from words
 *		request=BYTES			of a request
 *		TID:BYTES				an anchor; with a "b" behind it, a border
 *		FIRST+STEP*N:BYTES		N anchors, with a "b" likewise
 * Results are BEGIN:BYTES.
 *
 * lsm_test_ranges_random(seed, rounds): ranges of random anchors must have the
 * properties that the header promises; the first problem, or "sound".
 *
 * lsm_test_table_ranges(table): the ranges of a table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "lsm_ranges.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsm_test_ranges);
PG_FUNCTION_INFO_V1(lsm_test_ranges_random);
PG_FUNCTION_INFO_V1(lsm_test_table_ranges);

#define LSM_TEST_ANCHORS 20000

typedef struct LsmTestAnchors
{
	uint64		request;
	int			n;
	LsmAnchor	anchors[LSM_TEST_ANCHORS];
	LsmRange	ranges[LSM_RANGES_MAX];
} LsmTestAnchors;

static void
lsm_test_anchor(LsmTestAnchors *test, LsmTid tid, uint64 bytes, bool border)
{
	if (test->n >= LSM_TEST_ANCHORS)
		elog(ERROR, "too many anchors");
	test->anchors[test->n].tid = tid;
	test->anchors[test->n].bytes = bytes;
	test->anchors[test->n++].border = border;
}

static void
lsm_test_ranges_word(LsmTestAnchors *test, const char *word)
{
	unsigned long a;
	unsigned long b;
	unsigned long c = 0;
	unsigned long bytes;
	char		border = '\0';

	if (sscanf(word, "request=%lu", &a) == 1)
		test->request = a;
	else if (sscanf(word, "%lu+%lu*%lu:%lu%c", &a, &b, &c, &bytes, &border) >= 4)
		for (unsigned long i = 0; i < c; i++)
			lsm_test_anchor(test, a + i * b, bytes, border == 'b');
	else if (sscanf(word, "%lu:%lu%c", &a, &bytes, &border) >= 2)
		lsm_test_anchor(test, a, bytes, border == 'b');
	else
		elog(ERROR, "what is \"%s\"?", word);
}

Datum
lsm_test_ranges(PG_FUNCTION_ARGS)
{
	char	   *words = text_to_cstring(PG_GETARG_TEXT_PP(0));
	LsmTestAnchors *test = palloc0(sizeof(LsmTestAnchors));
	StringInfoData result;
	int			n;

	for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
		lsm_test_ranges_word(test, word);
	n = lsm_ranges_cut(test->anchors, test->n, test->request, test->ranges);
	initStringInfo(&result);
	for (int i = 0; i < n; i++)
		appendStringInfo(&result, "%s" UINT64_FORMAT ":" UINT64_FORMAT, i == 0 ? "" : " ",
						 test->ranges[i].begin, test->ranges[i].bytes);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(result.data, result.len));
}

/* Many small units and a few large ones, close together or far apart, and what is invalid. */
static void
lsm_test_ranges_make(LsmTestAnchors *test, pg_prng_state *random)
{
	int			n = (int) pg_prng_uint64_range(random, 0, 5000);
	uint64		most = UINT64CONST(1) << pg_prng_uint64_range(random, 0, 40);
	LsmTid		tid = pg_prng_uint64_range(random, 0, 3);

	test->n = 0;
	test->request = pg_prng_uint64_range(random, 1, 1 << 21);
	for (int i = 0; i < n; i++)
	{
		uint64		bytes = pg_prng_uint64_range(random, 0, most);

		if (pg_prng_uint64_range(random, 0, 100) == 0)
			bytes *= 1000;
		lsm_test_anchor(test, tid, bytes, pg_prng_uint64_range(random, 0, 3) > 0);
		switch (pg_prng_uint64_range(random, 0, 20))
		{
			case 0:
				tid = LSM_INVALID_TID;
				break;
			case 1:
				tid = LSM_MAX_TID + 1;
				break;
			case 2:
				tid = pg_prng_uint64_range(random, 1, LSM_MAX_TID);
				break;
			default:
				tid += pg_prng_uint64_range(random, 0, 1000);
		}
	}
}

static bool
lsm_test_is_border(const LsmTestAnchors *test, LsmTid tid)
{
	for (int i = 0; i < test->n; i++)
		if (test->anchors[i].tid == tid && test->anchors[i].border)
			return true;
	return false;
}

/* What there is to read from lo to before hi, found in the most simple way. */
static uint64
lsm_test_bytes(const LsmTestAnchors *test, LsmTid lo, LsmTid hi)
{
	uint64		bytes = 0;

	for (int i = 0; i < test->n; i++)
		if (test->anchors[i].tid >= lo && test->anchors[i].tid < hi)
			bytes += test->anchors[i].bytes;
	return bytes;
}

/* Is there a border within the range, behind its beginning, or is it one unit? */
static bool
lsm_test_divisible(const LsmTestAnchors *test, LsmTid lo, LsmTid hi)
{
	bool		before = false;

	for (int i = 0; i < test->n; i++)
		if (test->anchors[i].tid > lo && test->anchors[i].tid < hi && test->anchors[i].border &&
			lsm_test_bytes(test, lo, test->anchors[i].tid) > 0 &&
			lsm_test_bytes(test, test->anchors[i].tid, hi) > 0)
			before = true;
	return before;
}

/* anchors as they were, and what was made of them */
static const char *
lsm_test_ranges_problem(const LsmTestAnchors *test, int n)
{
	uint64		total = lsm_test_bytes(test, 1, LSM_MAX_TID + 1);
	uint64		goal = lsm_ranges_goal(total, test->request);

	if (n < 1 || n > LSM_RANGES_MAX)
		return "too few or too many ranges";
	if (test->ranges[0].begin != 1)
		return "the first range does not begin with the first root";
	for (int i = 0; i < n; i++)
	{
		LsmTid		begin = test->ranges[i].begin;
		LsmTid		end = i + 1 < n ? test->ranges[i + 1].begin : LSM_MAX_TID + 1;

		if (end <= begin)
			return "ranges are not in order";
		if (i > 0 && !lsm_test_is_border(test, begin))
			return "a range does not begin at a border";
		if (test->ranges[i].bytes != lsm_test_bytes(test, begin, end))
			return "the bytes of a range are wrong";
		if (test->ranges[i].bytes > 2 * goal && lsm_test_divisible(test, begin, end))
			return "a range is too large";
		if (i > 0 && test->ranges[i - 1].bytes + test->ranges[i].bytes < goal)
			return "two ranges could be one";
	}
	return NULL;
}

Datum
lsm_test_ranges_random(PG_FUNCTION_ARGS)
{
	LsmTestAnchors *test = palloc(sizeof(LsmTestAnchors));
	LsmTestAnchors *sorted = palloc(sizeof(LsmTestAnchors));
	pg_prng_state random;

	pg_prng_seed(&random, PG_GETARG_INT32(0));
	for (int round = 0; round < PG_GETARG_INT32(1); round++)
	{
		const char *problem;
		int			n;

		lsm_test_ranges_make(test, &random);
		*sorted = *test;
		n = lsm_ranges_cut(sorted->anchors, sorted->n, test->request, test->ranges);
		problem = lsm_test_ranges_problem(test, n);
		if (problem != NULL)
			PG_RETURN_TEXT_P(cstring_to_text(psprintf("round %d: %s", round, problem)));
	}
	PG_RETURN_TEXT_P(cstring_to_text("sound"));
}

Datum
lsm_test_table_ranges(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	LsmRange   *ranges = palloc(LSM_RANGES_MAX * sizeof(LsmRange));
	int			n = lsm_ranges_of(rel, lsm_table_open(rel), ranges);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
	{
		Datum		values[2] = {Int64GetDatum((int64) LSM_TID_LB(ranges[i].begin)),
		Int64GetDatum((int64) ranges[i].bytes)};
		bool		nulls[2] = {false, false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
