/*-------------------------------------------------------------------------
 *
 * lsm_test_meeting.c
 *	  Tests of lsm_view_increments.c, called by sql/increments.sql.
 *
 * lsm_test_meeting(seed, rounds): which increments of views of random ones meet random
 * roots, compared with a look at all of them; and that there are no more layers than
 * increments lie over each other.  The first problem, or "sound".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "lsm_manifest.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(lsm_test_meeting);

#define LSM_TEST_ROOTS			1000
#define LSM_TEST_INCREMENTS		200
#define LSM_TEST_QUERIES		200

/* A view of n increments, of which some are long, and many have ends in common. */
static LsmView *
lsm_test_view(pg_prng_state *prng, int n)
{
	LsmView    *view = palloc0(sizeof(LsmView));
	uint64		longest = pg_prng_uint64_range(prng, 1, LSM_TEST_ROOTS);

	view->nincrements = n;
	view->increments = palloc(Max(n, 1) * sizeof(LsmManifestEntry *));
	for (int i = 0; i < n; i++)
	{
		LsmManifestEntry *entry = palloc0(sizeof(LsmManifestEntry));

		entry->first_tid = pg_prng_uint64_range(prng, 1, LSM_TEST_ROOTS);
		entry->last_tid = entry->first_tid +
			pg_prng_uint64_range(prng, 0, i % 5 == 0 ? LSM_TEST_ROOTS : longest) / 4;
		view->increments[i] = entry;
	}
	lsm_view_order_increments(view);
	return view;
}

static bool
lsm_test_meets(const LsmManifestEntry *entry, LsmTid lo, LsmTid hi)
{
	return entry->first_tid <= hi && entry->last_tid >= lo;
}

/* How many lie over each other where they are most? */
static int
lsm_test_depth(const LsmView *view)
{
	int			depth = 0;

	for (LsmTid root = 1; root <= 2 * LSM_TEST_ROOTS; root++)
	{
		int			n = 0;

		for (int i = 0; i < view->nincrements; i++)
			n += lsm_test_meets(view->increments[i], root, root);
		depth = Max(depth, n);
	}
	return depth;
}

/* Compare all that one question is answered with; false: it is wrong. */
static bool
lsm_test_question(LsmView *view, LsmTid lo, LsmTid hi)
{
	int			found = -1;
	bool		any = false;

	for (int i = 0; i < view->nincrements; i++)
	{
		if (!lsm_test_meets(view->increments[i], lo, hi))
			continue;
		any = true;
		found = lsm_view_next_increment(view, lo, hi, found + 1);
		if (found != i)
			return false;
	}
	return lsm_view_next_increment(view, lo, hi, found + 1) == view->nincrements &&
		lsm_view_increments_meet(view, lo, hi) == any;
}

static const char *
lsm_test_meeting_round(pg_prng_state *prng)
{
	int			n = (int) pg_prng_uint64_range(prng, 0, LSM_TEST_INCREMENTS);
	LsmView    *view = lsm_test_view(prng, n);
	LsmTid		root = 1;

	if (view->nlayers != lsm_test_depth(view))
		return psprintf("%d increments have %d layers, and %d lie over each other", n,
						view->nlayers, lsm_test_depth(view));
	for (int i = 0; i < LSM_TEST_QUERIES; i++)
	{
		LsmTid		hi;

		/* neighbours, too, as what was found last is kept */
		if (i % 4 == 0)
			root = pg_prng_uint64_range(prng, 1, 2 * LSM_TEST_ROOTS);
		else
			root++;
		hi = root + (i % 3 == 0 ? pg_prng_uint64_range(prng, 0, LSM_TEST_ROOTS) / 8 : 0);
		if (!lsm_test_question(view, root, hi))
			return psprintf("of %d increments, others meet roots " UINT64_FORMAT " to "
							UINT64_FORMAT, n, root, hi);
	}
	return NULL;
}

Datum
lsm_test_meeting(PG_FUNCTION_ARGS)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm test of increments",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	const char *problem = NULL;
	pg_prng_state prng;

	pg_prng_seed(&prng, PG_GETARG_INT32(0));
	for (int i = 0; i < PG_GETARG_INT32(1) && problem == NULL; i++)
	{
		problem = lsm_test_meeting_round(&prng);
		if (problem == NULL)
			MemoryContextReset(context);
	}
	MemoryContextSwitchTo(caller);
	PG_RETURN_TEXT_P(cstring_to_text(problem == NULL ? "sound" : problem));
}
