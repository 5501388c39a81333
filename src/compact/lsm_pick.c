/*-------------------------------------------------------------------------
 *
 * lsm_pick.c
 *	  Chooses the next job of a table.  Pure: no relation, no server calls but for
 *	  memory.
 *
 * Each rule gives a score: what is to be gained against what the job costs, so
 * that 1 is just worth it.  A flush goes first, as fresh data must not wait; then
 * the better of minor and major.
 *
 *	flush	the memtable is nearly full (its own bound, or that of all tables); its
 *			xids are old; reading has examined more records there for nothing than
 *			the flush would work through, or paid as much for look-ups, in a quiet table;
 *			nobody changes the table any more, and the memtable is much of its file.
 *			But nothing is flushed while the manifest has no room for what that writes.
 *	minor	minor_trigger increments lie over each other at some key, of like size:
 *			each record is written again once in a tier.  Or the manifest is half full, and
 *			there are neighbours, small ones, that would become half as many or fewer,
 *			though they do not lie over each other
 *	major	by base segment (cell): dead versions against rows; records examined
 *			for nothing against the records to merge.  Both fall as the bottom
 *			outgrows the increments, more so on a slow medium:
 *				score = need / (1 + medium * bottom / increments / 10)
 *			A record that ends a row is two dead versions, itself and the row, and as
 *			many bytes as that has in the bottom: the job takes the row away.
 *			Increments with version LBs that the ring of these will soon come to: the
 *			less is left of its lap, the more.  Nothing may be written there while an
 *			increment has them, however little it is worth.
 *			Many increments, when the manifest is three quarters full: where most are.
 *			The best cell is taken with its neighbours that are worth it too, up to
 *			job_bytes: the greater the bottom, the fewer increments come with it.
 *
 * A base segment without increments is not written again, but for rows of rolled-
 * back transactions in it, for xids that only writing settles, and for runs of
 * small neighbours (each byte a few times at most).  So tables that are only
 * inserted to are written once, or twice when they have very many segments.
 *
 * What a job would leave as it is must not be a reason for it, or it would be
 * chosen for ever.  Records that some snapshot does not see yet count for nothing.
 * Those that everybody sees, but that some transaction may name by their versions,
 * stay in increments after a major, though it drops what is older and rows that
 * are deleted: they are a reason if reads suffer, as waste has to be earned again
 * after each job, and not by being there.
 *
 * While stores fail, cells whose base segments lie in them are left alone; the others
 * are not, nor are flushes and minors, which need no store.
 *
 * Increments whose keys are not known better are taken to be spread evenly between
 * their first and last root.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_memindex.h"
#include "lsm_pick.h"

/* A flush begins at this share of a generation, before writers have to wait. */
#define LSM_PICK_FILL			0.5	/* as LSM_FLUSH_FILL: then writers ask for it */

/* And when indexes take that much of the memory for all tables. */
#define LSM_PICK_ARENA_FILL		0.9

/* Dead versions for each row that make a major worth it, and a few more. */
#define LSM_PICK_DEAD_SHARE		0.2
#define LSM_PICK_DEAD_BASE		50.0

/* How many times its increments the bottom may be until that halves the score. */
#define LSM_PICK_PENALTY		10.0

/* Neighbours join the best cell while their score is at least this. */
#define LSM_PICK_JOIN			1.0

/* An increment is like newer ones if it is not larger than so many of them. */
#define LSM_PICK_LIKE			2.0

/* Increments over each other, in triggers, that are merged whatever their sizes. */
#define LSM_PICK_DEEP			2

/* Increments over each other that are looked at for like ones. */
#define LSM_PICK_DEPTH			128

/* The part of a lap of the ring after which what it comes to is worth a major. */
#define LSM_PICK_LAP			0.75
#define LSM_PICK_LAP_LEAST		0.001	/* that is left: a bound for the score */

/*
 * How full the manifest must be for increments to be merged because of that, and for them
 * to go into the baseline: this is worth it later, as it costs more.
 */
#define LSM_PICK_PLACES_MINOR	0.5
#define LSM_PICK_PLACES_MAJOR	0.75
#define LSM_PICK_PLACES_LEAST	1	/* increment in a cell: parts of one over many cells
									 * are not worth writing all of these */

/* Small neighbours that are made one. */
#define LSM_PICK_SMALL_RUN		16
#define LSM_PICK_SMALL_MOST		2.0 /* the most that it is worth */

const char *
lsm_pick_reason(LsmPickReason reason)
{
	switch (reason)
	{
		case LSM_PICK_NOTHING:
			return "nothing to do";
		case LSM_PICK_WAITS:
			return "a generation waits for its flush";
		case LSM_PICK_FULL:
			return "the memtable is nearly full";
		case LSM_PICK_MEMORY:
			return "memory for memtables is short";
		case LSM_PICK_REST:
			return "the row log of a table at rest";
		case LSM_PICK_FREEZE:
			return "old transaction ids";
		case LSM_PICK_READS:
			return "reads examine too many records";
		case LSM_PICK_RUNS:
			return "too many increments";
		case LSM_PICK_PLACES:
			return "too many segments and free ranges";
		case LSM_PICK_DEAD:
			return "dead versions";
		case LSM_PICK_RING:
			return "version identifiers that come round";
		case LSM_PICK_ABORTED:
			return "rows of rolled-back transactions";
		case LSM_PICK_SMALL:
			return "small segments";
		case LSM_PICK_OUTCOMES:
			return "transactions have ended";
		case LSM_PICK_PLACE:
			return "the cold store";
		case LSM_PICK_RETIRED:
			return "large values that are not needed";
		case LSM_PICK_SPACE:
			return "free space";
	}
	return NULL;				/* keep compiler quiet */
}

static void
lsm_pick_none(LsmPickDecision *decision)
{
	memset(decision, 0, sizeof(*decision));
	decision->first_root = 1;
	decision->last_root = LSM_MAX_TID;
}

/* Take a job's reason over if its score is better. */
static void
lsm_pick_raise(LsmPickDecision *decision, LsmPickReason reason, double score)
{
	if (score <= decision->score)
		return;
	decision->score = score;
	decision->reason = reason;
}

/* How old is an xid, in ages that are overdue?  0: not at all. */
static double
lsm_pick_overdue(const LsmPickFacts *facts, uint64 xid)
{
	if (xid == 0 || xid >= facts->visible_xid || xid >= facts->next_xid ||
		facts->freeze_age == 0)
		return 0;
	return (double) (facts->next_xid - xid) / facts->freeze_age;
}

/*
 * How many bytes may majors read?  Their output has to find room: in free pages of the
 * file, or by some growth.
 */
static uint64
lsm_pick_room(const LsmPickFacts *facts)
{
	return Max(facts->free_bytes + facts->given_bytes,
			   lsm_pick_growth(facts->file_bytes, facts->segment_bytes));
}

/* And a minor, for which nothing is that majors have been given? */
static uint64
lsm_pick_minor_limit(const LsmPickFacts *facts)
{
	uint64		room = Max(facts->free_bytes,
						   lsm_pick_growth(facts->file_bytes, facts->segment_bytes));

	return Min(facts->job_bytes, room);
}

/* ---- flush ---- */

void
lsm_pick_flush(const LsmPickFacts *facts, LsmPickDecision *decision)
{
	lsm_pick_none(decision);
	if (facts->flush_runs || facts->manifest_fill >= 1)
		return;
	if (facts->generation_waits)
		lsm_pick_raise(decision, LSM_PICK_WAITS, 2);
	if (facts->memtable_pages > 0)
	{
		double		overdue = lsm_pick_overdue(facts, facts->memtable_xid);

		lsm_pick_raise(decision, LSM_PICK_FULL, facts->memtable_fill / LSM_PICK_FILL);
		if (overdue >= 1)
			lsm_pick_raise(decision, LSM_PICK_FREEZE, overdue);
		lsm_pick_raise(decision, LSM_PICK_READS, facts->memtable_waste /
					   lsm_stat_waste_bound(facts->memtable_pages));

		if (facts->at_rest && facts->compact &&
			lsm_pick_memtable_is_much(facts->memtable_pages, facts->file_bytes))
			lsm_pick_raise(decision, LSM_PICK_REST, 1);

		/* who has more of it goes first */
		if (facts->arena_fill >= LSM_PICK_ARENA_FILL &&
			lsm_memindex_is_much(facts->arena_fill, facts->arena_share))
			lsm_pick_raise(decision, LSM_PICK_MEMORY, 1 + facts->arena_share);
	}
	if (decision->score >= 1)
		decision->kind = LSM_JOB_FLUSH;
}

/* ---- keys ---- */

static inline double
lsm_pick_lbs(LsmTid first, LsmTid last)
{
	return (double) LSM_TID_LB(last) - LSM_TID_LB(first) + 1;
}

/* The share of a segment that lies between two roots. */
static double
lsm_pick_share(const LsmPickSegment *segment, LsmTid first, LsmTid last)
{
	LsmTid		from = Max(first, segment->first_tid);
	LsmTid		to = Min(last, segment->last_tid);

	if (from > to)
		return 0;
	if (from == segment->first_tid && to == segment->last_tid)
		return 1;
	return Min(lsm_pick_lbs(from, to) / lsm_pick_lbs(segment->first_tid, segment->last_tid), 1);
}

/* ---- minor ---- */

/* A segment begins or ends at a root, for a walk along the keys. */
typedef struct LsmPickEdge
{
	LsmTid		tid;			/* its first root, or the one after its last */
	int			segment;
	bool		begins;
} LsmPickEdge;

static int
lsm_pick_edge_cmp(const void *a, const void *b)
{
	const LsmPickEdge *x = a;
	const LsmPickEdge *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->begins != y->begins)
		return x->begins ? 1 : -1;	/* ends first */
	return x->segment < y->segment ? -1 : x->segment > y->segment;
}

/* Segments of one job have the same generations: a run. */
typedef struct LsmPickRun
{
	uint32		gen_lo;
	uint32		gen_hi;
	int			segment;
} LsmPickRun;

static int
lsm_pick_run_cmp(const void *a, const void *b)
{
	const LsmPickRun *x = a;
	const LsmPickRun *y = b;

	if (x->gen_hi != y->gen_hi)
		return x->gen_hi < y->gen_hi ? -1 : 1;
	if (x->gen_lo != y->gen_lo)
		return x->gen_lo < y->gen_lo ? -1 : 1;
	return x->segment < y->segment ? -1 : x->segment > y->segment;
}

/* The bytes of the run that each increment belongs to. */
static double *
lsm_pick_run_bytes(const LsmPickFacts *facts)
{
	int			n = facts->nincrements;
	LsmPickRun *runs = palloc(n * sizeof(LsmPickRun));
	double	   *bytes = palloc(n * sizeof(double));

	for (int i = 0; i < n; i++)
	{
		runs[i].gen_lo = facts->increments[i].gen_lo;
		runs[i].gen_hi = facts->increments[i].gen_hi;
		runs[i].segment = i;
	}
	qsort(runs, n, sizeof(LsmPickRun), lsm_pick_run_cmp);
	for (int first = 0, next; first < n; first = next)
	{
		double		sum = 0;

		for (next = first; next < n && runs[next].gen_lo == runs[first].gen_lo &&
			 runs[next].gen_hi == runs[first].gen_hi; next++)
			sum += facts->increments[runs[next].segment].bytes;
		for (int i = first; i < next; i++)
			bytes[runs[i].segment] = sum;
	}
	pfree(runs);
	return bytes;
}

/* Increments that lie over each other at one key, newest first; of very many the newest. */
typedef struct LsmPickStack
{
	int			depth;
	int		   *segments;
} LsmPickStack;

/* Which of a stack to merge: n of them from at on. */
typedef struct LsmPickWindow
{
	int			at;
	int			n;
} LsmPickWindow;

/*
 * The longest window of increments of like size: each older one is at most
 * LSM_PICK_LIKE times the mean of those before it.  A deep stack of unlike ones
 * is merged where that costs least: it always has a window.
 */
static bool
lsm_pick_window(const LsmPickFacts *facts, const double *run_bytes, const LsmPickStack *stack,
				LsmPickWindow *window)
{
	int			trigger = facts->minor_trigger;
	int			depth = stack->depth;
	double		least = 0;

	window->at = window->n = 0;
	for (int i = 0; i < depth; i++)
	{
		double		sum = run_bytes[stack->segments[i]];
		int			n = 1;

		while (i + n < depth &&
			   run_bytes[stack->segments[i + n]] <= LSM_PICK_LIKE * sum / n)
			sum += run_bytes[stack->segments[i + n++]];
		if (n > window->n)
		{
			window->at = i;
			window->n = n;
		}
	}
	if (window->n >= trigger)
		return true;
	if (depth < LSM_PICK_DEEP * trigger)
		return false;
	for (int i = 0; i + trigger <= depth; i++)
	{
		double		sum = 0;

		for (int j = 0; j < trigger; j++)
			sum += run_bytes[stack->segments[i + j]];
		if (i == 0 || sum < least)
		{
			least = sum;
			window->at = i;
		}
	}
	window->n = trigger;
	return true;
}

/*
 * Add a segment to the stack, or take it out: increments are numbered by age.  Only for stacks
 * that are not deep.
 */
static void
lsm_pick_stack_change(LsmPickStack *stack, int segment, bool add)
{
	int			at = 0;

	while (at < stack->depth && stack->segments[at] < segment)
		at++;
	if (add)
	{
		memmove(&stack->segments[at + 1], &stack->segments[at],
				(stack->depth - at) * sizeof(int));
		stack->segments[at] = segment;
		stack->depth++;
	}
	else
	{
		stack->depth--;
		memmove(&stack->segments[at], &stack->segments[at + 1],
				(stack->depth - at) * sizeof(int));
	}
}

/* The newest increments, of generations above that one, that have a key between their roots. */
static void
lsm_pick_stack_at(const LsmPickFacts *facts, uint32 above, LsmTid place, int most,
				  LsmPickStack *stack)
{
	stack->depth = 0;
	for (int i = 0; i < facts->nincrements && stack->depth < most; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		if (segment->gen_hi > above && segment->first_tid <= place && segment->last_tid >= place)
			stack->segments[stack->depth++] = i;
	}
}

static bool
lsm_pick_in_window(const LsmPickSegment *segment, const LsmPickDecision *decision)
{
	return segment->gen_hi >= decision->gen_lo && segment->gen_hi <= decision->gen_hi;
}

/*
 * Bytes that a minor of the chosen generations reads: increments are taken whole, those that have
 * roots between these two, and the newer ones that have roots of those (lsm_minor_select()).
 */
static double
lsm_pick_minor_bytes(const LsmPickFacts *facts, const LsmPickDecision *decision,
					 LsmTid first, LsmTid last)
{
	double		bytes = 0;

	for (int i = facts->nincrements - 1; i >= 0; i--)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		if (!lsm_pick_in_window(segment, decision) || segment->first_tid > last ||
			segment->last_tid < first)
			continue;
		bytes += segment->bytes;
		first = Min(first, segment->first_tid);
		last = Max(last, segment->last_tid);
	}
	return bytes;
}

/*
 * Leave out the oldest increments at a place, if no fewer than minor_trigger stay.  False: there are
 * none to be left out.
 */
static bool
lsm_pick_drop_oldest(const LsmPickFacts *facts, LsmTid place, LsmPickDecision *decision)
{
	uint32		next = 0;		/* the generation after those */
	int			stay = 0;

	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		if (lsm_pick_in_window(segment, decision) && segment->gen_hi > decision->gen_lo &&
			segment->first_tid <= place && segment->last_tid >= place)
		{
			next = segment->gen_hi;
			stay++;
		}
	}
	if (stay < facts->minor_trigger)
		return false;
	decision->gen_lo = next;
	return true;
}

/*
 * Bound a minor: all keys if that is not too much, else from the place where it is
 * needed most as far as the limit allows.  Where the increments at that place are too much by
 * themselves, the newest of them, minor_trigger at least.
 */
static void
lsm_pick_minor_range(const LsmPickFacts *facts, LsmTid place, LsmPickDecision *decision)
{
	double		limit = (double) lsm_pick_minor_limit(facts);
	double		bytes = lsm_pick_minor_bytes(facts, decision, 1, LSM_MAX_TID);
	uint64		lo = LSM_TID_LB(place);
	uint64		hi = (uint64) LSM_TID_LB(LSM_MAX_TID);

	if (bytes > limit)
	{
		LsmTid		least = LSM_MAX_TID;

		while (lsm_pick_minor_bytes(facts, decision, place, LSM_TID(lo, 0xFFFF)) > limit &&
			   lsm_pick_drop_oldest(facts, place, decision))
			;

		/* the first LB is taken in any case */
		while (lo < hi)
		{
			uint64		mid = (lo + hi + 1) / 2;

			if (lsm_pick_minor_bytes(facts, decision, place, LSM_TID(mid, 0xFFFF)) <= limit)
				lo = mid;
			else
				hi = mid - 1;
		}
		for (int i = 0; i < facts->nincrements; i++)
			if (lsm_pick_in_window(&facts->increments[i], decision))
				least = Min(least, facts->increments[i].first_tid);
		decision->first_root = place > least ? place : 1;
		decision->last_root = lo == LSM_TID_LB(LSM_MAX_TID) ? LSM_MAX_TID : LSM_TID(lo, 0xFFFF);
		bytes = lsm_pick_minor_bytes(facts, decision, decision->first_root,
									 decision->last_root);
	}
	decision->bytes = (uint64) bytes;
}

/* Where increments of generations above that one begin and end, in order; their number. */
static LsmPickEdge *
lsm_pick_edges(const LsmPickFacts *facts, uint32 above, int *nedges)
{
	LsmPickEdge *edges = palloc(2 * facts->nincrements * sizeof(LsmPickEdge));
	int			n = 0;

	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		if (segment->gen_hi <= above)
			continue;
		edges[n].tid = segment->first_tid;
		edges[n].segment = i;
		edges[n++].begins = true;
		edges[n].tid = segment->last_tid + 1;
		edges[n].segment = i;
		edges[n++].begins = false;
	}
	qsort(edges, n, sizeof(LsmPickEdge), lsm_pick_edge_cmp);
	*nedges = n;
	return edges;
}

/* How many lie over each other at most, and the first place where that is so. */
static int
lsm_pick_deepest(const LsmPickEdge *edges, int nedges, LsmTid *place)
{
	int			depth = 0;
	int			most = 0;

	/* of one place the ends come first: so none is missed, and none is too many */
	for (int i = 0; i < nedges; i++)
	{
		depth += edges[i].begins ? 1 : -1;
		if (depth > most)
		{
			most = depth;
			*place = edges[i].tid;
		}
	}
	return most;
}

int
lsm_pick_depth(const LsmPickFacts *facts)
{
	int			nedges;
	LsmPickEdge *edges = lsm_pick_edges(facts, 0, &nedges);
	LsmTid		place;
	int			most = lsm_pick_deepest(edges, nedges, &place);

	pfree(edges);
	return most;
}

static void
lsm_pick_take_window(const LsmPickFacts *facts, const LsmPickStack *stack,
					 const LsmPickWindow *window, double score, LsmPickDecision *decision)
{
	decision->kind = LSM_JOB_MINOR;
	lsm_pick_raise(decision, LSM_PICK_RUNS, score);
	decision->gen_hi = facts->increments[stack->segments[window->at]].gen_hi;
	decision->gen_lo = facts->increments[stack->segments[window->at + window->n - 1]].gen_hi;
}

/*
 * Increments over each other, where they are most: of those places that have a window, the first.
 * A deep place has one, so there is no need to know what lies over each other elsewhere.  Of a
 * very deep one the newest are looked at: after each job it is chosen anew.
 */
static void
lsm_pick_minor_runs(const LsmPickFacts *facts, LsmPickDecision *decision)
{
	int			nedges;

	/* not those that a running major has, or older ones */
	LsmPickEdge *edges = lsm_pick_edges(facts, facts->major_hi, &nedges);
	int			deep = LSM_PICK_DEEP * facts->minor_trigger;
	int			looked_at = Max(LSM_PICK_DEPTH, deep);
	LsmPickStack stack = {.segments = palloc(looked_at * sizeof(int))};
	double	   *run_bytes = lsm_pick_run_bytes(facts);
	LsmTid		place = LSM_INVALID_TID;
	int			most = lsm_pick_deepest(edges, nedges, &place);
	LsmPickWindow window;

	if (most >= deep)
	{
		lsm_pick_stack_at(facts, facts->major_hi, place, looked_at, &stack);
		if (lsm_pick_window(facts, run_bytes, &stack, &window))
			lsm_pick_take_window(facts, &stack, &window, (double) most / facts->minor_trigger,
								 decision);
	}
	else if (most >= facts->minor_trigger)
	{
		for (int i = 0; i < nedges; i++)
		{
			double		score;

			lsm_pick_stack_change(&stack, edges[i].segment, edges[i].begins);
			if (i + 1 < nedges && edges[i + 1].tid == edges[i].tid)
				continue;
			score = (double) stack.depth / facts->minor_trigger;
			if (score <= decision->score || score < 1 ||
				!lsm_pick_window(facts, run_bytes, &stack, &window))
				continue;
			lsm_pick_take_window(facts, &stack, &window, score, decision);
			place = edges[i].tid;
		}
	}
	if (decision->kind == LSM_JOB_MINOR)
		lsm_pick_minor_range(facts, place, decision);
	pfree(run_bytes);
	pfree(stack.segments);
	pfree(edges);
}

/* Increments that a minor may take, by their first root. */
static int
lsm_pick_first_cmp(const void *a, const void *b)
{
	const LsmPickSegment *x = *(LsmPickSegment *const *) a;
	const LsmPickSegment *y = *(LsmPickSegment *const *) b;

	if (x->first_tid != y->first_tid)
		return x->first_tid < y->first_tid ? -1 : 1;
	return x < y ? -1 : x > y;
}

/*
 * Neighbours that become fewer, whatever their generations: no more than a minor may read,
 * where that spares most.  It makes about as many as they have increment_least bytes, or
 * segment_rows records, and one more.
 */
static void
lsm_pick_minor_places(const LsmPickFacts *facts, LsmPickDecision *decision)
{
	const LsmPickSegment **sorted;
	double		limit = (double) lsm_pick_minor_limit(facts);
	double		bytes = 0;
	double		records = 0;
	double		most = 0;
	int			first = 0;
	int			last = -1;
	int			n = 0;

	/* they are numbered by age: what is left out is older than the rest */
	while (n < facts->nincrements && facts->increments[n].gen_hi > facts->major_hi)
		n++;
	sorted = palloc(Max(n, 1) * sizeof(LsmPickSegment *));
	for (int i = 0; i < n; i++)
		sorted[i] = &facts->increments[i];
	qsort(sorted, n, sizeof(LsmPickSegment *), lsm_pick_first_cmp);
	for (int from = 0, to = 0; to < n; to++)
	{
		double		takes;
		double		makes;

		bytes += sorted[to]->bytes;
		records += sorted[to]->versions;

		/* it does not begin with what spares nothing */
		while (from <= to && (bytes > limit || sorted[from]->bytes >= facts->increment_least ||
							  sorted[from]->versions >= facts->segment_rows))
		{
			bytes -= sorted[from]->bytes;
			records -= sorted[from++]->versions;
		}
		takes = to - from + 1;
		makes = Max(bytes / facts->increment_least, records / facts->segment_rows) + 1;
		if (takes < facts->minor_trigger || takes < 2 * makes || takes - makes <= most)
			continue;
		most = takes - makes;
		first = from;
		last = to;
		decision->bytes = (uint64) bytes;
	}
	if (last >= 0)
	{
		decision->kind = LSM_JOB_MINOR;
		lsm_pick_raise(decision, LSM_PICK_PLACES, facts->manifest_fill / LSM_PICK_PLACES_MINOR);
		decision->gen_hi = facts->increments[0].gen_hi;
		decision->gen_lo = facts->increments[n - 1].gen_hi;
		decision->first_root = sorted[first]->first_tid;
		decision->last_root = sorted[last]->last_tid;
		for (int i = first; i < last; i++)
			decision->last_root = Max(decision->last_root, sorted[i]->last_tid);
	}
	pfree(sorted);
}

void
lsm_pick_minor(const LsmPickFacts *facts, LsmPickDecision *decision)
{
	LsmPickDecision places;

	lsm_pick_none(decision);
	if (facts->minor_runs || facts->nincrements < facts->minor_trigger)
		return;
	lsm_pick_minor_runs(facts, decision);
	lsm_pick_none(&places);
	if (facts->manifest_fill >= LSM_PICK_PLACES_MINOR)
		lsm_pick_minor_places(facts, &places);
	if (places.score > decision->score)
		*decision = places;
}

/* ---- major ---- */

/*
 * A base segment with the keys up to the next one, and what the increments have
 * there.
 */
typedef struct LsmPickCell
{
	LsmTid		first;
	LsmTid		last;
	double		base_bytes;
	double		rows;
	double		bytes;			/* of increments that the job would read */
	double		versions;		/* records of them that everybody sees, */
	double		settled;		/* and nobody names by their versions, */
	double		ends;			/* and that end rows */
	double		waste;
	double		score;
	LsmPickReason reason;
	bool		busy;			/* a running major works there, or none can */
	bool		written;		/* the former, and it takes room in the file */
} LsmPickCell;

typedef struct LsmPickMajor
{
	const LsmPickFacts *facts;
	uint32		gen_hi;			/* newest generation that can be taken */
	int			ncells;
	LsmPickCell *cells;
} LsmPickMajor;

/* The cell that has a root. */
static int
lsm_pick_cell(const LsmPickMajor *major, LsmTid root)
{
	int			lo = 0;
	int			hi = major->ncells - 1;

	while (lo < hi)
	{
		int			mid = (lo + hi + 1) / 2;

		if (major->cells[mid].first <= root)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

static void
lsm_pick_make_cells(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;

	major->ncells = Max(facts->nbase, 1);
	major->cells = palloc0(major->ncells * sizeof(LsmPickCell));
	for (int i = 0; i < major->ncells; i++)
	{
		LsmPickCell *cell = &major->cells[i];

		cell->first = i == 0 ? 1 : facts->base[i].first_tid;
		cell->last = i + 1 < facts->nbase ? facts->base[i + 1].first_tid - 1 : LSM_MAX_TID;
		if (i < facts->nbase)
		{
			cell->base_bytes = (double) facts->base[i].bytes;
			cell->rows = (double) facts->base[i].versions;
			cell->busy = facts->cold_rests && facts->base[i].cold;
		}
	}
	for (int i = 0; i < facts->nmajors; i++)
		for (int at = lsm_pick_cell(major, facts->majors[i].first_root);
			 at < major->ncells && major->cells[at].first <= facts->majors[i].last_root; at++)
		{
			major->cells[at].busy = true;
			if (!facts->majors[i].moves)
				major->cells[at].written = true;
		}
}

/*
 * The newest increments that can be taken: older than what a minor has claimed,
 * and not only of records that some snapshot does not see.
 */
static void
lsm_pick_take_generations(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;

	major->gen_hi = 0;
	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		if (facts->minor_lo != 0 && segment->gen_hi >= facts->minor_lo)
			continue;
		if (segment->max_xid < facts->visible_xid)
			major->gen_hi = Max(major->gen_hi, segment->gen_hi);
	}
}

/* Spread the increments that can be taken over the cells. */
static void
lsm_pick_spread(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;

	/*
	 * bytes and versions in each LB of a cell, as differences to the one
	 * before
	 */
	double	   *bytes = palloc0((major->ncells + 1) * sizeof(double));
	double	   *versions = palloc0((major->ncells + 1) * sizeof(double));
	double	   *settled = palloc0((major->ncells + 1) * sizeof(double));
	double	   *ends = palloc0((major->ncells + 1) * sizeof(double));
	double		bytes_here = 0;
	double		versions_here = 0;
	double		settled_here = 0;
	double		ends_here = 0;

	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];
		int			first = lsm_pick_cell(major, segment->first_tid);
		int			last = lsm_pick_cell(major, segment->last_tid);
		double		seen = segment->max_xid < facts->visible_xid ? segment->versions : 0;
		double		quiet = segment->max_xid < facts->settled_xid ? segment->versions : 0;
		double		ending = segment->max_xid < facts->settled_xid ? segment->ends : 0;
		double		lbs = lsm_pick_lbs(segment->first_tid, segment->last_tid);

		if (segment->gen_hi > major->gen_hi)
			continue;
		for (int at = first; at <= last; at = at < last ? last : at + 1)
		{
			double		share = lsm_pick_share(segment, major->cells[at].first,
											   major->cells[at].last);

			major->cells[at].bytes += segment->bytes * share;
			major->cells[at].versions += seen * share;
			major->cells[at].settled += quiet * share;
			major->cells[at].ends += ending * share;
		}
		if (last - first < 2)
			continue;
		bytes[first + 1] += segment->bytes / lbs;
		bytes[last] -= segment->bytes / lbs;
		versions[first + 1] += seen / lbs;
		versions[last] -= seen / lbs;
		settled[first + 1] += quiet / lbs;
		settled[last] -= quiet / lbs;
		ends[first + 1] += ending / lbs;
		ends[last] -= ending / lbs;
	}
	for (int i = 0; i < major->ncells; i++)
	{
		double		lbs = lsm_pick_lbs(major->cells[i].first, major->cells[i].last);

		bytes_here += bytes[i];
		versions_here += versions[i];
		settled_here += settled[i];
		ends_here += ends[i];

		/* what rounding leaves of nothing is nothing */
		if (bytes_here * lbs >= 1)
			major->cells[i].bytes += bytes_here * lbs;
		if (versions_here * lbs >= 0.01)
			major->cells[i].versions += versions_here * lbs;
		if (settled_here * lbs >= 0.01)
			major->cells[i].settled += settled_here * lbs;
		if (ends_here * lbs >= 0.01)
			major->cells[i].ends += ends_here * lbs;
	}
	pfree(bytes);
	pfree(versions);
	pfree(settled);
	pfree(ends);
}

/* The versions of a cell in a range of LBs. */
static double
lsm_pick_versions_in(const LsmPickMajor *major, const LsmPickCell *cell, uint64 first_lb,
					 uint64 last_lb)
{
	uint64		cell_first = LSM_TID_LB(cell->first);
	uint64		cell_last = Max(Min((uint64) LSM_TID_LB(cell->last),
									major->facts->next_root_lb), cell_first);
	uint64		from = Max(first_lb, cell_first);
	uint64		to = Min(last_lb, cell_last);

	if (from > to)
		return 0;
	return cell->versions * ((double) (to - from + 1) / (double) (cell_last - cell_first + 1));
}

/*
 * Waste is known by range of LBs.  Increments are what causes it, so it goes to
 * the cells by their versions; where there are none, a major would not help.
 */
static void
lsm_pick_spread_waste(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;

	for (int bucket = 0; bucket < LSM_STAT_BUCKETS; bucket++)
	{
		uint64		first_lb = (uint64) bucket << facts->shift;
		uint64		last_lb = ((uint64) (bucket + 1) << facts->shift) - 1;
		double		sum = 0;
		int			first;

		if (facts->waste[bucket] == 0 || first_lb > LSM_TID_LB(LSM_MAX_TID))
			continue;
		first = lsm_pick_cell(major, LSM_TID(first_lb, 0));
		for (int at = first; at < major->ncells &&
			 LSM_TID_LB(major->cells[at].first) <= last_lb; at++)
			sum += lsm_pick_versions_in(major, &major->cells[at], first_lb, last_lb);
		if (sum <= 0)
			continue;
		for (int at = first; at < major->ncells &&
			 LSM_TID_LB(major->cells[at].first) <= last_lb; at++)
			major->cells[at].waste += facts->waste[bucket] / sum *
				lsm_pick_versions_in(major, &major->cells[at], first_lb, last_lb);
	}
}

static void
lsm_pick_cell_raise(LsmPickCell *cell, LsmPickReason reason, double score)
{
	if (score <= cell->score)
		return;
	cell->score = score;
	cell->reason = reason;
}

static void
lsm_pick_score_cell(const LsmPickMajor *major, int at)
{
	const LsmPickFacts *facts = major->facts;
	LsmPickCell *cell = &major->cells[at];

	if (cell->versions > 0 && cell->bytes > 0)
	{
		double		gone = Min(cell->ends, cell->rows);
		double		bytes = cell->bytes +
			(cell->rows > 0 ? gone * cell->base_bytes / cell->rows : 0);
		double		penalty = 1 + facts->medium * cell->base_bytes / bytes / LSM_PICK_PENALTY;

		lsm_pick_cell_raise(cell, LSM_PICK_DEAD, (cell->settled + gone) /
							(LSM_PICK_DEAD_BASE + LSM_PICK_DEAD_SHARE * cell->rows) / penalty);
		lsm_pick_cell_raise(cell, LSM_PICK_READS, cell->waste /
							(LSM_STAT_JOB_RECORDS + cell->rows + cell->versions) / penalty);
	}
	/* what a transaction has put into a store is visible: these rows are local */
	if (at < facts->nbase && facts->base[at].aborted)
		lsm_pick_cell_raise(cell, LSM_PICK_ABORTED, 1);
	if (at < facts->nbase && lsm_pick_overdue(facts, facts->base[at].stuck_xid) >= 1)
		lsm_pick_cell_raise(cell, LSM_PICK_FREEZE,
							lsm_pick_overdue(facts, facts->base[at].stuck_xid));
}

/* What an increment is a reason for: all cells that it touches. */
typedef struct LsmPickRaise
{
	double		score;
	int			segment;
} LsmPickRaise;

static int
lsm_pick_raise_cmp(const void *a, const void *b)
{
	const LsmPickRaise *x = a;
	const LsmPickRaise *y = b;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return x->segment < y->segment ? -1 : x->segment > y->segment;
}

/* The first cell from that one on that has not been raised; next leads there. */
static int
lsm_pick_next_cell(int *next, int at)
{
	while (next[at] != at)
		at = next[at] = next[next[at]];
	return at;
}

/*
 * Raise the cells that increments touch, the greatest scores first: so each cell is raised once,
 * however many increments lie over it.
 */
static void
lsm_pick_raise_touched(LsmPickMajor *major, LsmPickRaise *raises, int n, LsmPickReason reason)
{
	int		   *next;

	if (n == 0)
		return;
	next = palloc((major->ncells + 1) * sizeof(int));
	for (int i = 0; i <= major->ncells; i++)
		next[i] = i;
	qsort(raises, n, sizeof(LsmPickRaise), lsm_pick_raise_cmp);
	for (int i = 0; i < n; i++)
	{
		const LsmPickSegment *segment = &major->facts->increments[raises[i].segment];
		int			last = lsm_pick_cell(major, segment->last_tid);

		for (int at = lsm_pick_next_cell(next, lsm_pick_cell(major, segment->first_tid));
			 at <= last; at = lsm_pick_next_cell(next, at))
		{
			lsm_pick_cell_raise(&major->cells[at], reason, raises[i].score);
			next[at] = at + 1;
		}
	}
	pfree(next);
}

/* Cells that have an increment with xids that only writing settles. */
static void
lsm_pick_freeze_increments(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;
	LsmPickRaise *raises = palloc(Max(facts->nincrements, 1) * sizeof(LsmPickRaise));
	int			n = 0;

	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];
		double		overdue = lsm_pick_overdue(facts, segment->stuck_xid);

		if (overdue < 1 || segment->gen_hi > major->gen_hi)
			continue;
		raises[n].score = overdue;
		raises[n++].segment = i;
	}
	lsm_pick_raise_touched(major, raises, n, LSM_PICK_FREEZE);
	pfree(raises);
}

/*
 * Cells that have an increment with version LBs that are about to be in the way.  What is
 * not settled would stay in increments, with its version LBs.
 */
static void
lsm_pick_ring_increments(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;
	LsmPickRaise *raises = palloc(Max(facts->nincrements, 1) * sizeof(LsmPickRaise));
	int			n = 0;

	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		if (segment->lap < LSM_PICK_LAP || segment->gen_hi > major->gen_hi ||
			segment->max_xid >= facts->settled_xid)
			continue;
		raises[n].score = (1 - LSM_PICK_LAP) / Max(1 - segment->lap, LSM_PICK_LAP_LEAST);
		raises[n++].segment = i;
	}
	lsm_pick_raise_touched(major, raises, n, LSM_PICK_RING);
	pfree(raises);
}

/*
 * Where most increments are that would go, if there are too many entries in the manifest.  One
 * that reaches over several cells counts for a part in each.
 */
static void
lsm_pick_places_increments(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;
	double		score = facts->manifest_fill / LSM_PICK_PLACES_MAJOR;
	double	   *parts;			/* in a cell, as differences to the one before */
	double		here = 0;
	double		most = 0;

	if (score < 1)
		return;
	parts = palloc0((major->ncells + 1) * sizeof(double));
	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];
		int			first = lsm_pick_cell(major, segment->first_tid);
		int			last = lsm_pick_cell(major, segment->last_tid);

		if (segment->gen_hi > major->gen_hi || segment->max_xid >= facts->settled_xid)
			continue;
		parts[first] += 1.0 / (last - first + 1);
		parts[last + 1] -= 1.0 / (last - first + 1);
	}
	for (int i = 0; i < major->ncells; i++)
	{
		here += parts[i];
		parts[i] = major->cells[i].busy || here < LSM_PICK_PLACES_LEAST - 0.001 ? 0 : here;
		most = Max(most, parts[i]);
	}
	for (int i = 0; i < major->ncells && most > 0; i++)
		lsm_pick_cell_raise(&major->cells[i], LSM_PICK_PLACES, score * parts[i] / most);
	pfree(parts);
}

/*
 * What is a run of small neighbours worth?  Where segments are larger than the setting, it waits
 * until there is enough for one of them, so that its bytes are written once more, and not
 * by steps.  A table may become crowded of a sudden, and all of it a run: that must not keep
 * other jobs waiting.
 */
static double
lsm_pick_small_score(const LsmPickFacts *facts, int run, double bytes)
{
	double		runs = (double) run / LSM_PICK_SMALL_RUN;
	double		score = runs * facts->segment_setting / facts->segment_bytes;

	if (run < LSM_PICK_SMALL_RUN)
		return 0;
	score = Max(score, Min(runs, bytes / facts->segment_bytes));
	return Min(score / facts->medium, LSM_PICK_SMALL_MOST);
}

/* Runs of small neighbours. */
static void
lsm_pick_score_small(LsmPickMajor *major)
{
	const LsmPickFacts *facts = major->facts;
	uint64		small = lsm_pick_small(facts->segment_setting, facts->segment_bytes,
									   facts->nbase);
	double		bytes = 0;
	int			run = 0;

	for (int i = 0; i <= facts->nbase; i++)
	{
		bool		goes_on = i < facts->nbase && !major->cells[i].busy &&
			lsm_pick_is_small(facts->base[i].bytes, facts->base[i].versions, small,
							  facts->segment_rows);

		if (!goes_on || facts->base[i].apart)
		{
			for (int j = i - run; j < i; j++)
				lsm_pick_cell_raise(&major->cells[j], LSM_PICK_SMALL,
									lsm_pick_small_score(facts, run, bytes));
			bytes = 0;
			run = 0;
		}
		if (goes_on)
		{
			bytes += facts->base[i].bytes;
			run++;
		}
	}
}

/*
 * Take the best cell and its neighbours, as many as a job may read, and half of what there is room
 * for, so that another major finds some.  Those that run have their part of it, whether they have
 * taken it by now or not.  At least the best cell is taken, unless that part is too much.
 */
static void
lsm_pick_grow(LsmPickMajor *major, int best, LsmPickDecision *decision)
{
	double		room = (double) lsm_pick_room(major->facts);
	double		limit = Min((double) major->facts->job_bytes, room / 2);
	double		bytes = major->cells[best].base_bytes + major->cells[best].bytes;
	bool		alone = true;
	int			first = best;
	int			last = best;

	for (int i = 0; i < major->ncells; i++)
		if (major->cells[i].written)
		{
			room -= major->cells[i].base_bytes + major->cells[i].bytes;
			alone = false;
		}
	if (!alone && bytes > room)
		return;
	limit = Min(limit, room);
	for (;;)
	{
		LsmPickCell *left = first > 0 ? &major->cells[first - 1] : NULL;
		LsmPickCell *right = last + 1 < major->ncells ? &major->cells[last + 1] : NULL;
		LsmPickCell *next;

		if (left != NULL && (left->busy || left->score < LSM_PICK_JOIN ||
							 bytes + left->base_bytes + left->bytes > limit))
			left = NULL;
		if (right != NULL && (right->busy || right->score < LSM_PICK_JOIN ||
							  bytes + right->base_bytes + right->bytes > limit))
			right = NULL;
		if (left == NULL && right == NULL)
			break;
		next = left == NULL || (right != NULL && right->score >= left->score) ? right : left;
		bytes += next->base_bytes + next->bytes;
		if (next == left)
			first--;
		else
			last++;
	}
	decision->kind = LSM_JOB_MAJOR;
	decision->gen_hi = major->gen_hi;
	decision->first_root = major->cells[first].first;
	decision->last_root = major->cells[last].last;
	decision->bytes = (uint64) bytes;
	for (int i = first; i <= last && i < major->facts->nbase; i++)
		if (major->facts->base[i].cold)
			decision->cold = true;
}

void
lsm_pick_major(const LsmPickFacts *facts, LsmPickDecision *decision)
{
	LsmPickMajor major = {0};
	int			best = -1;

	lsm_pick_none(decision);
	if (facts->nbase == 0 && facts->nincrements == 0)
		return;
	major.facts = facts;
	lsm_pick_make_cells(&major);
	lsm_pick_take_generations(&major);
	lsm_pick_spread(&major);
	lsm_pick_spread_waste(&major);
	lsm_pick_freeze_increments(&major);
	lsm_pick_ring_increments(&major);
	lsm_pick_places_increments(&major);
	for (int i = 0; i < major.ncells; i++)
		lsm_pick_score_cell(&major, i);
	lsm_pick_score_small(&major);
	for (int i = 0; i < major.ncells; i++)
		if (!major.cells[i].busy && (best < 0 || major.cells[i].score > major.cells[best].score))
			best = i;
	if (best >= 0)
	{
		decision->score = major.cells[best].score;
		decision->reason = major.cells[best].reason;
	}
	if (decision->score >= 1)
		lsm_pick_grow(&major, best, decision);
	pfree(major.cells);
}

/* ---- all of it ---- */

static bool
lsm_pick_is_spent(const LsmPickFacts *facts, LsmJobKind kind)
{
	return (facts->spent & (1 << kind)) != 0;
}

void
lsm_pick(const LsmPickFacts *facts, LsmPickDecision *decision)
{
	LsmPickDecision major;

	Assert(facts->minor_trigger >= 2);
	Assert(facts->medium >= 1);
	Assert(facts->job_bytes > 0 && facts->segment_setting > 0);
	Assert(facts->segment_bytes >= facts->segment_setting);
	Assert(facts->increment_least > 0);

	lsm_pick_flush(facts, decision);
	if (lsm_pick_is_spent(facts, decision->kind))
		lsm_pick_none(decision);
	if (decision->kind != LSM_JOB_NONE)
		return;
	if (facts->compact && !lsm_pick_is_spent(facts, LSM_JOB_MINOR))
		lsm_pick_minor(facts, decision);
	lsm_pick_none(&major);
	if (facts->compact && !lsm_pick_is_spent(facts, LSM_JOB_MAJOR))
		lsm_pick_major(facts, &major);
	if (major.kind != LSM_JOB_NONE &&
		(decision->kind == LSM_JOB_NONE || major.score > decision->score))
		*decision = major;
	if (decision->kind == LSM_JOB_NONE && facts->nresolvable > 0 &&
		!lsm_pick_is_spent(facts, LSM_JOB_RESOLVE))
	{
		lsm_pick_none(decision);
		decision->kind = LSM_JOB_RESOLVE;
		lsm_pick_raise(decision, LSM_PICK_OUTCOMES, 1);
	}
	if (decision->kind == LSM_JOB_NONE && facts->nmisplaced > 0 && facts->manifest_fill < 1 &&
		!lsm_pick_is_spent(facts, LSM_JOB_MOVE))
	{
		lsm_pick_none(decision);
		decision->kind = LSM_JOB_MOVE;
		lsm_pick_raise(decision, LSM_PICK_PLACE, 1);
	}
	if (decision->kind == LSM_JOB_NONE && facts->nretired > 0 &&
		!lsm_pick_is_spent(facts, LSM_JOB_RESOLVE))
	{
		lsm_pick_none(decision);
		decision->kind = LSM_JOB_RESOLVE;
		lsm_pick_raise(decision, LSM_PICK_RETIRED, 1);
	}
	if (decision->kind == LSM_JOB_NONE && facts->trim && facts->compact &&
		facts->manifest_fill < 1 && !lsm_pick_is_spent(facts, LSM_JOB_TRIM))
	{
		lsm_pick_none(decision);
		decision->kind = LSM_JOB_TRIM;
		decision->bytes = Min(facts->free_bytes, facts->job_bytes);
		lsm_pick_raise(decision, LSM_PICK_SPACE, 1);
	}
}
