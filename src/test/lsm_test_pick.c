/*-------------------------------------------------------------------------
 *
 * lsm_test_pick.c
 *	  Tests of the choice of jobs, called from sql/pick.sql.
 *
 * The functions here are not part of the extension's SQL: the test declares them
 * itself.
 *
 *	  lsm_test_pick(text)				what is chosen for facts given as text
 *	  lsm_test_pick_depth(text)			how many increments lie over each other then
 *	  lsm_test_pick_random(int, int)	properties, on random facts
 *	  lsm_test_pick_stack(...)			what is chosen for random increments, many over each other
 *	  lsm_test_pick_updates(...)		a table with random updates, simulated
 *	  lsm_test_pick_deletes(...)		one with random deletes
 *	  lsm_test_pick_appends(...)		one that is only inserted to
 *	  lsm_test_pick_queue(...)			one that is used as a queue
 *	  lsm_test_pick_table(regclass[, int])	what is chosen for a table; but not these
 *										kinds, as bits
 *
 * Facts are words.  name=number sets one; the others make a segment or the like,
 * with logical blocks for keys and sizes in MB:
 *
 *	  base:FIRST-LAST:MB:ROWS[:aborted|:stuck=XID|:cold]
 *	  base*N:...						N of them, one after the other
 *	  inc:FIRST-LAST:MB:RECORDS:LO-HI[:XID|:stuck=XID|:ends=RECORDS|:lap=PART[:XID]]
 *										generations, greatest xid
 *	  waste:BUCKET:RECORDS
 *	  major:FIRST-LAST					a running one
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "fmgr.h"
#include "lsm_pick.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(lsm_test_pick);
PG_FUNCTION_INFO_V1(lsm_test_pick_depth);
PG_FUNCTION_INFO_V1(lsm_test_pick_random);
PG_FUNCTION_INFO_V1(lsm_test_pick_stack);
PG_FUNCTION_INFO_V1(lsm_test_pick_updates);
PG_FUNCTION_INFO_V1(lsm_test_pick_deletes);
PG_FUNCTION_INFO_V1(lsm_test_pick_appends);
PG_FUNCTION_INFO_V1(lsm_test_pick_queue);
PG_FUNCTION_INFO_V1(lsm_test_pick_table);

#define LSM_MB					(1024.0 * 1024.0)
#define LSM_TEST_MAX_SEGMENTS	300000

static LsmPickFacts *
lsm_test_facts_create(void)
{
	LsmPickFacts *facts = palloc0(sizeof(LsmPickFacts));

	facts->compact = true;
	facts->minor_trigger = 4;
	facts->job_bytes = (uint64) (2048 * LSM_MB);
	facts->segment_setting = facts->segment_bytes = (uint64) (64 * LSM_MB);
	facts->segment_rows = LSM_PICK_SEGMENT_ROWS;
	facts->increment_least = facts->segment_setting / 16;
	facts->freeze_age = 1000;
	facts->medium = 1;
	facts->next_xid = facts->visible_xid = facts->settled_xid = 100000;
	facts->next_root_lb = 1000000;
	facts->file_bytes = (uint64) (1000000 * LSM_MB);
	facts->base = MemoryContextAllocHuge(CurrentMemoryContext,
										 LSM_TEST_MAX_SEGMENTS * sizeof(LsmPickSegment));
	facts->increments = MemoryContextAllocHuge(CurrentMemoryContext,
											   LSM_TEST_MAX_SEGMENTS * sizeof(LsmPickSegment));
	facts->majors = palloc0(100 * sizeof(LsmPickRange));
	return facts;
}

static LsmPickSegment *
lsm_test_segment_add(LsmPickSegment *segments, int *n, double first, double last, double bytes,
					 double versions)
{
	LsmPickSegment *segment = &segments[(*n)++];

	if (*n > LSM_TEST_MAX_SEGMENTS)
		elog(ERROR, "too many segments");
	memset(segment, 0, sizeof(*segment));
	segment->first_tid = LSM_TID((uint32) first, 1);
	segment->last_tid = LSM_TID((uint32) last, LSM_MAX_OFFSET);
	segment->bytes = (uint64) bytes;
	segment->versions = (uint64) versions;
	return segment;
}

/* ---- facts as text ---- */

typedef struct LsmTestName
{
	const char *name;
	double	   *real;
	uint64	   *large;
	int		   *small;
	uint32	   *word;
	bool	   *flag;
	double		unit;
} LsmTestName;

static void
lsm_test_set(LsmPickFacts *facts, const char *word)
{
	LsmTestName names[] = {
		{"compact", .flag = &facts->compact},
		{"spent", .small = &facts->spent},
		{"misplaced", .small = &facts->nmisplaced},
		{"trigger", .small = &facts->minor_trigger},
		{"job", .large = &facts->job_bytes, .unit = LSM_MB},
		{"segment", .large = &facts->segment_bytes, .unit = LSM_MB},
		{"rows", .large = &facts->segment_rows},
		{"places", .real = &facts->manifest_fill},
		{"age", .large = &facts->freeze_age},
		{"medium", .real = &facts->medium},
		{"next", .large = &facts->next_xid},
		{"visible", .large = &facts->visible_xid},
		{"settled", .large = &facts->settled_xid},
		{"fill", .real = &facts->memtable_fill},
		{"pages", .large = &facts->memtable_pages},
		{"xid", .large = &facts->memtable_xid},
		{"memwaste", .large = &facts->memtable_waste},
		{"waits", .flag = &facts->generation_waits},
		{"arena", .real = &facts->arena_fill},
		{"share", .real = &facts->arena_share},
		{"lbs", .word = &facts->next_root_lb},
		{"resolvable", .small = &facts->nresolvable},
		{"retired", .small = &facts->nretired},
		{"shift", .small = &facts->shift},
		{"file", .large = &facts->file_bytes, .unit = LSM_MB},
		{"free", .large = &facts->free_bytes, .unit = LSM_MB},
		{"given", .large = &facts->given_bytes, .unit = LSM_MB},
		{"at_rest", .flag = &facts->at_rest},
		{"trim", .flag = &facts->trim},
		{"flushing", .flag = &facts->flush_runs},
		{"rests", .flag = &facts->cold_rests},
		{"minoring", .flag = &facts->minor_runs},
		{"minor_lo", .word = &facts->minor_lo},
		{"major_hi", .word = &facts->major_hi},
	};
	const char *equals = strchr(word, '=');
	double		value = strtod(equals + 1, NULL);

	for (size_t i = 0; i < lengthof(names); i++)
	{
		if (strlen(names[i].name) != (size_t) (equals - word) ||
			strncmp(names[i].name, word, equals - word) != 0)
			continue;
		if (names[i].unit != 0)
			value *= names[i].unit;
		if (names[i].real)
			*names[i].real = value;
		else if (names[i].large)
			*names[i].large = (uint64) value;
		else if (names[i].small)
			*names[i].small = (int) value;
		else if (names[i].word)
			*names[i].word = (uint32) value;
		else
			*names[i].flag = value != 0;
		return;
	}
	elog(ERROR, "no such fact: %s", word);
}

static void
lsm_test_word(LsmPickFacts *facts, const char *word)
{
	double		first;
	double		last;
	double		mb;
	double		versions;
	double		count;
	unsigned	lo;
	unsigned	hi;
	unsigned	xid = 0;
	int			copies = 1;
	int			end = 0;

	if (sscanf(word, "base:%lf-%lf:%lf:%lf%n", &first, &last, &mb, &versions, &end) == 4 ||
		sscanf(word, "base*%d:%lf-%lf:%lf:%lf%n", &copies, &first, &last, &mb, &versions,
			   &end) == 5)
	{
		for (int i = 0; i < copies; i++)
		{
			double		shift = i * (last - first + 1);
			LsmPickSegment *segment = lsm_test_segment_add(facts->base, &facts->nbase,
														   first + shift, last + shift,
														   mb * LSM_MB, versions);

			if (strcmp(word + end, ":aborted") == 0)
				segment->aborted = true;
			else if (sscanf(word + end, ":stuck=%u", &xid) == 1)
				segment->stuck_xid = xid;
			else if (strcmp(word + end, ":cold") == 0)
				segment->cold = true;
			else if (strcmp(word + end, ":apart") == 0)
				segment->apart = true;
		}
	}
	else if (sscanf(word, "inc:%lf-%lf:%lf:%lf:%u-%u%n", &first, &last, &mb, &versions, &lo, &hi,
					&end) == 6)
	{
		LsmPickSegment *segment = lsm_test_segment_add(facts->increments, &facts->nincrements,
													   first, last, mb * LSM_MB, versions);

		segment->gen_lo = lo;
		segment->gen_hi = hi;
		if (sscanf(word + end, ":stuck=%u", &xid) == 1)
			segment->stuck_xid = xid;
		else if (sscanf(word + end, ":ends=%lf", &count) == 1)
			segment->ends = (uint64) count;
		else if (sscanf(word + end, ":lap=%lf:%u", &segment->lap, &xid) >= 1)
			segment->max_xid = xid;
		else if (sscanf(word + end, ":%u", &xid) == 1)
			segment->max_xid = xid;
	}
	else if (sscanf(word, "waste:%u:%lf", &lo, &count) == 2 && lo < LSM_STAT_BUCKETS)
		facts->waste[lo] = (uint64) count;
	else if ((sscanf(word, "major:%lf-%lf", &first, &last) == 2 ||
			  sscanf(word, "move:%lf-%lf", &first, &last) == 2) && facts->nmajors < 100)
	{
		facts->majors[facts->nmajors].moves = word[1] == 'o';
		facts->majors[facts->nmajors].first_root = LSM_TID((uint32) first, 1);
		facts->majors[facts->nmajors++].last_root = LSM_TID((uint32) last, LSM_MAX_OFFSET);
	}
	else if (strchr(word, '=') != NULL)
		lsm_test_set(facts, word);
	else
		elog(ERROR, "no fact: %s", word);
}

static text *
lsm_test_decision(const LsmPickDecision *decision)
{
	static const char *const kinds[] = {"none", "flush", "minor", "major", "resolve", "move",
	"trim"};
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, kinds[decision->kind]);
	if (decision->kind == LSM_JOB_MINOR || decision->kind == LSM_JOB_MAJOR)
	{
		appendStringInfo(&buf, " gen %u-%u, ", decision->gen_lo, decision->gen_hi);
		if (decision->first_root == 1 && decision->last_root == LSM_MAX_TID)
			appendStringInfoString(&buf, "all blocks");
		else if (decision->last_root == LSM_MAX_TID)
			appendStringInfo(&buf, "blocks %u-", LSM_TID_LB(decision->first_root));
		else
			appendStringInfo(&buf, "blocks %u-%u", LSM_TID_LB(decision->first_root),
							 LSM_TID_LB(decision->last_root));
		appendStringInfo(&buf, ", %.0f MB", decision->bytes / LSM_MB);
	}
	if (decision->kind != LSM_JOB_NONE)
		appendStringInfo(&buf, ": %s, score %.2f", lsm_pick_reason(decision->reason),
						 decision->score);
	if (decision->cold)
		appendStringInfoString(&buf, ", in a store");
	return cstring_to_text(buf.data);
}

static LsmPickFacts *
lsm_test_facts(text *text)
{
	LsmPickFacts *facts = lsm_test_facts_create();
	char	   *words = text_to_cstring(text);

	for (char *word = strtok(words, " \n\t"); word != NULL; word = strtok(NULL, " \n\t"))
		lsm_test_word(facts, word);
	return facts;
}

Datum
lsm_test_pick(PG_FUNCTION_ARGS)
{
	LsmPickDecision decision;

	lsm_pick(lsm_test_facts(PG_GETARG_TEXT_PP(0)), &decision);
	PG_RETURN_TEXT_P(lsm_test_decision(&decision));
}

Datum
lsm_test_pick_depth(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(lsm_pick_depth(lsm_test_facts(PG_GETARG_TEXT_PP(0))));
}

Datum
lsm_test_pick_table(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	LsmPickDecision decision;

	(void) lsm_pick_job(rel, PG_NARGS() > 1 ? PG_GETARG_INT32(1) : 0, &decision);
	relation_close(rel, AccessShareLock);
	PG_RETURN_TEXT_P(lsm_test_decision(&decision));
}

/* ---- properties ---- */

static uint64 lsm_test_seed;

static uint64
lsm_test_random(uint64 below)
{
	/* splitmix64: the same everywhere */
	uint64		z = (lsm_test_seed += UINT64CONST(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return (z ^ (z >> 31)) % below;
}

/* Sizes of all magnitudes. */
static double
lsm_test_random_size(int digits)
{
	double		size = 1 + lsm_test_random(9);

	for (int i = lsm_test_random(digits); i > 0; i--)
		size *= 10;
	return size;
}

static void
lsm_test_random_facts(LsmPickFacts *facts)
{
	int			nbase = lsm_test_random(30);
	int			ngens = lsm_test_random(12);
	double		lb = 0;

	facts->nbase = facts->nincrements = facts->nmajors = 0;
	facts->minor_trigger = 2 + lsm_test_random(6);
	facts->job_bytes = (uint64) (lsm_test_random_size(5) * LSM_MB);
	facts->medium = 1 + lsm_test_random(8);
	facts->shift = lsm_test_random(8);
	facts->file_bytes = (uint64) (lsm_test_random_size(6) * LSM_MB);
	facts->free_bytes = (uint64) (lsm_test_random_size(6) * LSM_MB);
	facts->given_bytes = lsm_test_random(2) == 0 ? (uint64) (lsm_test_random_size(4) * LSM_MB) : 0;
	facts->manifest_fill = lsm_test_random(3) == 0 ? lsm_test_random(110) / 100.0 : 0;
	facts->minor_lo = lsm_test_random(4) == 0 ? 1 + lsm_test_random(12) : 0;
	facts->major_hi = facts->minor_lo == 0 && lsm_test_random(4) == 0 ? lsm_test_random(12) : 0;
	for (int i = 0; i < nbase; i++)
	{
		double		lbs = lsm_test_random_size(4);

		/* not small: those are a rule of their own */
		(void) lsm_test_segment_add(facts->base, &facts->nbase, lb, lb + lbs - 1,
									(4 + lsm_test_random_size(3)) * LSM_MB,
									lsm_test_random_size(7));
		lb += lbs + lsm_test_random(3);
	}
	facts->next_root_lb = (BlockNumber) lb + 1;
	for (int gen = ngens; gen > 0;)
	{
		int			gens = 1 + lsm_test_random(Min(gen, 3));
		double		from = lsm_test_random((uint64) lb + 1);
		int			pieces = 1 + lsm_test_random(4);

		for (int i = 0; i < pieces; i++)
		{
			double		lbs = lsm_test_random_size(4);
			LsmPickSegment *segment =
				lsm_test_segment_add(facts->increments, &facts->nincrements, from, from + lbs - 1,
									 lsm_test_random_size(4) * LSM_MB, lsm_test_random_size(7));

			segment->gen_hi = gen;
			segment->gen_lo = gen - gens + 1;
			segment->max_xid = lsm_test_random(4) == 0 ? facts->visible_xid : 0;
			segment->ends = lsm_test_random(2) == 0 ? lsm_test_random(segment->versions + 1) : 0;
			from += lbs + lsm_test_random(20);
		}
		gen -= gens;
	}
	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
		facts->waste[i] = lsm_test_random(3) == 0 ? (uint64) lsm_test_random_size(8) : 0;
	if (lsm_test_random(4) == 0)
	{
		facts->majors[0].first_root = LSM_TID(lsm_test_random((uint64) lb + 1), 1);
		facts->majors[0].last_root = facts->majors[0].first_root +
			LSM_TID((uint32) lsm_test_random_size(4), 0);
		facts->majors[0].moves = lsm_test_random(4) == 0;
		facts->nmajors = 1;
	}
}

/* Are the increments of a minor enough, and does no major have any of them? */
static bool
lsm_test_minor_is_sound(const LsmPickFacts *facts, const LsmPickDecision *decision)
{
	int			inside = 0;

	for (int i = 0; i < facts->nincrements; i++)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		if (segment->gen_hi < decision->gen_lo || segment->gen_hi > decision->gen_hi)
			continue;
		if (segment->gen_hi <= facts->major_hi)
			return false;
		if (segment->first_tid <= decision->last_root && segment->last_tid >= decision->first_root)
			inside++;
	}
	return inside >= facts->minor_trigger;
}

/* Does a minor work on one logical block only?  Before its first increment there is nothing. */
static bool
lsm_test_minor_is_least(const LsmPickFacts *facts, const LsmPickDecision *decision)
{
	LsmTid		first = LSM_MAX_TID;

	for (int i = 0; i < facts->nincrements; i++)
		if (facts->increments[i].gen_hi >= decision->gen_lo &&
			facts->increments[i].gen_hi <= decision->gen_hi)
			first = Min(first, facts->increments[i].first_tid);
	return LSM_TID_LB(Max(first, decision->first_root)) == LSM_TID_LB(decision->last_root);
}

/*
 * Which increments does a minor take?  Those of the roots that are chosen, and newer ones that
 * have roots of these, all of them whole.  Returns their bytes.
 */
static double
lsm_test_minor_takes(const LsmPickFacts *facts, const LsmPickDecision *decision, bool *takes)
{
	LsmTid		first = decision->first_root;
	LsmTid		last = decision->last_root;
	double		bytes = 0;

	for (int i = facts->nincrements - 1; i >= 0; i--)
	{
		const LsmPickSegment *segment = &facts->increments[i];

		takes[i] = segment->gen_hi >= decision->gen_lo && segment->gen_hi <= decision->gen_hi &&
			segment->first_tid <= last && segment->last_tid >= first;
		if (!takes[i])
			continue;
		bytes += segment->bytes;
		first = Min(first, segment->first_tid);
		last = Max(last, segment->last_tid);
	}
	return bytes;
}

/* How many base segments does a major work on? */
static int
lsm_test_major_cells(const LsmPickFacts *facts, const LsmPickDecision *decision)
{
	int			n = 0;

	for (int i = 0; i < facts->nbase; i++)
		if (facts->base[i].first_tid <= decision->last_root &&
			facts->base[i].last_tid >= decision->first_root)
			n++;
	return n;
}

/* Bytes of the base segments that running majors write anew. */
static uint64
lsm_test_given_bases(const LsmPickFacts *facts)
{
	uint64		bytes = 0;

	for (int i = 0; i < facts->nmajors; i++)
		for (int j = 0; j < facts->nbase; j++)
			if (!facts->majors[i].moves && facts->base[j].first_tid <= facts->majors[i].last_root &&
				facts->base[j].last_tid >= facts->majors[i].first_root)
				bytes += facts->base[j].bytes;
	return bytes;
}

static const char *
lsm_test_major_problem(const LsmPickFacts *facts, const LsmPickDecision *decision, uint64 room)
{
	uint64		given = lsm_test_given_bases(facts);

	if (decision->bytes > Min(facts->job_bytes, room / 2) &&
		lsm_test_major_cells(facts, decision) > 1)
		return "a major reads too much";
	if (given > 0 && decision->bytes + given > room)
		return "two majors have the same room";
	if (facts->minor_lo != 0 && decision->gen_hi >= facts->minor_lo)
		return "a major takes what a minor has claimed";
	for (int i = 0; i < facts->nmajors; i++)
		if (decision->first_root <= facts->majors[i].last_root &&
			decision->last_root >= facts->majors[i].first_root)
			return "two majors meet";
	return NULL;
}

/* The score of a major, or of the best that is not worth it. */
static double
lsm_test_major_score(const LsmPickFacts *facts)
{
	LsmPickDecision decision;

	lsm_pick_major(facts, &decision);
	return decision.score;
}

/* Change one thing: does the score of a major go the right way? */
static const char *
lsm_test_monotone(LsmPickFacts *facts)
{
	double		score = lsm_test_major_score(facts);
	double		slack = score * 1e-9;
	double		changed;
	uint64		job_bytes = facts->job_bytes;
	uint64		waste[LSM_STAT_BUCKETS];

	facts->medium *= 2;
	changed = lsm_test_major_score(facts);
	facts->medium /= 2;
	if (changed > score + slack)
		return "a slower medium makes a major better";

	for (int i = 0; i < facts->nbase; i++)
		facts->base[i].bytes *= 2;
	changed = lsm_test_major_score(facts);
	for (int i = 0; i < facts->nbase; i++)
		facts->base[i].bytes /= 2;
	if (changed > score + slack)
		return "a greater bottom makes a major better";

	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
		facts->waste[i] *= 2;
	changed = lsm_test_major_score(facts);
	if (changed < score - slack)
		return "more waste makes a major worse";
	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
	{
		waste[i] = facts->waste[i] / 2;
		facts->waste[i] = 0;
	}
	score = lsm_test_major_score(facts);
	for (int i = 0; i < facts->nincrements; i++)
		facts->increments[i].versions *= 2;
	changed = lsm_test_major_score(facts);
	for (int i = 0; i < facts->nincrements; i++)
		facts->increments[i].versions /= 2;
	if (changed < score - slack)
		return "more dead versions make a major worse";

	for (int i = 0; i < facts->nincrements; i++)
		facts->increments[i].ends *= 2;
	changed = lsm_test_major_score(facts);
	for (int i = 0; i < facts->nincrements; i++)
		facts->increments[i].ends /= 2;
	memcpy(facts->waste, waste, sizeof(waste));
	if (changed < score - slack)
		return "more deleted rows make a major worse";

	score = lsm_test_major_score(facts);
	facts->job_bytes /= 2;
	changed = lsm_test_major_score(facts);
	facts->job_bytes = job_bytes;
	if (changed != score)
		return "the limit of a job changes its score";
	return NULL;
}

static const char *
lsm_test_problem(LsmPickFacts *facts)
{
	LsmPickDecision minor;
	LsmPickDecision major;
	LsmPickDecision chosen;
	LsmPickDecision again;
	bool	   *takes;
	int			n = facts->nincrements;
	uint64		room = Max(facts->free_bytes + facts->given_bytes,
						   Max(facts->file_bytes / 8, facts->segment_bytes));
	uint64		minor_limit = Min(facts->job_bytes,
								  Max(facts->free_bytes,
									  Max(facts->file_bytes / 8, facts->segment_bytes)));
	const char *problem;

	lsm_pick_minor(facts, &minor);
	if (minor.kind != LSM_JOB_NONE && !lsm_test_minor_is_sound(facts, &minor))
		return "a minor takes increments that are not neighbours";
	if (minor.kind != LSM_JOB_NONE && minor.bytes > minor_limit &&
		!lsm_test_minor_is_least(facts, &minor))
		return "a minor reads too much";
	takes = palloc(Max(n, 1) * sizeof(bool));
	if (minor.kind != LSM_JOB_NONE && minor.reason == LSM_PICK_RUNS &&
		minor.bytes != (uint64) lsm_test_minor_takes(facts, &minor, takes))
		return "a minor reads other than was reckoned";
	pfree(takes);
	lsm_pick_major(facts, &major);
	if (major.kind != LSM_JOB_NONE)
	{
		problem = lsm_test_major_problem(facts, &major, room);
		if (problem != NULL)
			return problem;
	}
	lsm_pick(facts, &chosen);
	lsm_pick(facts, &again);
	if (memcmp(&chosen, &again, sizeof(chosen)) != 0)
		return "the same facts, another choice";
	if (chosen.kind != LSM_JOB_NONE &&
		(chosen.score < 1 || chosen.first_root > chosen.last_root ||
		 chosen.score < minor.score ||
		 (major.kind != LSM_JOB_NONE && chosen.score < major.score)))
		return "the choice is not the best";
	if (chosen.kind == LSM_JOB_NONE && (minor.kind != chosen.kind || major.kind != chosen.kind))
		return "a job is passed over";
	problem = lsm_test_monotone(facts);
	if (problem != NULL)
		return problem;

	/* without increments there is nothing to do */
	facts->nincrements = 0;
	lsm_pick(facts, &chosen);
	facts->nincrements = n;
	return chosen.kind != LSM_JOB_NONE ? "a table without increments is compacted" : NULL;
}

/* lsm_test_pick_random(seed, rounds): the first problem, or how many jobs there were. */
Datum
lsm_test_pick_random(PG_FUNCTION_ARGS)
{
	LsmPickFacts *facts = lsm_test_facts_create();
	int			kinds[LSM_JOB_RESOLVE + 1] = {0};

	lsm_test_seed = PG_GETARG_INT32(0);
	for (int round = 0; round < PG_GETARG_INT32(1); round++)
	{
		LsmPickDecision decision;
		const char *problem;

		CHECK_FOR_INTERRUPTS();
		lsm_test_random_facts(facts);
		problem = lsm_test_problem(facts);
		if (problem != NULL)
			PG_RETURN_TEXT_P(cstring_to_text(psprintf("round %d: %s", round, problem)));
		lsm_pick(facts, &decision);
		kinds[decision.kind]++;
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("minor jobs: %s, major jobs: %s, none: %s",
											  kinds[LSM_JOB_MINOR] > 0 ? "some" : "no",
											  kinds[LSM_JOB_MAJOR] > 0 ? "some" : "no",
											  kinds[LSM_JOB_NONE] > 0 ? "some" : "no")));
}

/*
 * lsm_test_pick_stack(seed, base segments, increments, blocks that one has at most, spread): the
 * minor, and the major, that are chosen for random increments of generations of their own.  Sizes
 * are alike but for that factor; one in nine is about to be frozen, or has old version LBs.
 */
Datum
lsm_test_pick_stack(PG_FUNCTION_ARGS)
{
	LsmPickFacts *facts = lsm_test_facts_create();
	int			nbase = PG_GETARG_INT32(1);
	int			n = PG_GETARG_INT32(2);
	int			lbs = PG_GETARG_INT32(3);
	int			spread = PG_GETARG_INT32(4);
	LsmPickDecision minor;
	LsmPickDecision major;

	lsm_test_seed = PG_GETARG_INT32(0);
	facts->minor_trigger = 2 + lsm_test_random(6);
	facts->job_bytes = (uint64) (500 * LSM_MB);
	facts->major_hi = lsm_test_random(n / 4 + 1);
	for (int i = 0; i < nbase; i++)
		(void) lsm_test_segment_add(facts->base, &facts->nbase, i * 10, i * 10 + 9, 64 * LSM_MB,
									100000);
	facts->next_root_lb = nbase * 10;
	for (int gen = n; gen > 0; gen--)
	{
		double		from = lsm_test_random(facts->next_root_lb);
		LsmPickSegment *segment =
			lsm_test_segment_add(facts->increments, &facts->nincrements, from,
								 from + lsm_test_random(lbs),
								 (1 + lsm_test_random(spread)) * LSM_MB, 1 + lsm_test_random(1000));

		segment->gen_lo = segment->gen_hi = gen;
		if (lsm_test_random(9) == 0)
			segment->stuck_xid = facts->next_xid - 500 - lsm_test_random(5000);
		if (lsm_test_random(9) == 0)
			segment->lap = lsm_test_random(1000) / 1000.0;
	}
	lsm_pick_minor(facts, &minor);
	facts->major_hi = 0;
	lsm_pick_major(facts, &major);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("depth %d; %s; %s", lsm_pick_depth(facts),
											  text_to_cstring(lsm_test_decision(&minor)),
											  text_to_cstring(lsm_test_decision(&major)))));
}

/* ---- simulations ---- */

/* A table whose jobs are carried out as far as sizes go. */
typedef struct LsmTestTable
{
	LsmPickFacts *facts;
	double		flushed;		/* bytes */
	double		minor;			/* bytes written */
	double		major;
	uint64		longest;		/* bytes read by a job */
	int			jobs[LSM_JOB_RESOLVE + 1];
	int			deepest;		/* increments over each other */
	double		most;			/* bytes of increments */
} LsmTestTable;

static int
lsm_test_age_cmp(const void *a, const void *b)
{
	const LsmPickSegment *x = a;
	const LsmPickSegment *y = b;

	if (x->gen_hi != y->gen_hi)
		return x->gen_hi > y->gen_hi ? -1 : 1;
	return x->first_tid < y->first_tid ? -1 : x->first_tid > y->first_tid;
}

/* A part of a segment, by keys. */
static void
lsm_test_piece(LsmTestTable *table, const LsmPickSegment *of, LsmTid first, LsmTid last)
{
	double		lbs = LSM_TID_LB(of->last_tid) - LSM_TID_LB(of->first_tid) + 1.0;
	double		share = (LSM_TID_LB(last) - LSM_TID_LB(first) + 1.0) / lbs;
	LsmPickSegment *piece = lsm_test_segment_add(table->facts->increments,
												 &table->facts->nincrements,
												 LSM_TID_LB(first), LSM_TID_LB(last),
												 of->bytes * share, of->versions * share);

	piece->ends = (uint64) (of->ends * share);
	piece->gen_lo = of->gen_lo;
	piece->gen_hi = of->gen_hi;
}

/* Take what a job takes out of the increments, which are sorted by age. */
static void
lsm_test_take(LsmTestTable *table, const LsmPickDecision *decision, LsmPickSegment *taken)
{
	LsmPickFacts *facts = table->facts;
	int			n = facts->nincrements;
	LsmPickSegment *old = MemoryContextAllocHuge(CurrentMemoryContext,
												 Max(n, 1) * sizeof(LsmPickSegment));
	bool	   *takes = palloc0(Max(n, 1) * sizeof(bool));
	double		bytes = 0;
	double		versions = 0;

	if (decision->kind == LSM_JOB_MINOR)
		(void) lsm_test_minor_takes(facts, decision, takes);
	memset(taken, 0, sizeof(*taken));
	memcpy(old, facts->increments, n * sizeof(LsmPickSegment));
	facts->nincrements = 0;
	for (int i = 0; i < n; i++)
	{
		LsmPickSegment *segment = &old[i];
		LsmTid		first = segment->first_tid;
		LsmTid		last = segment->last_tid;
		double		share = 1;

		/* what a major takes is cut before */
		if (decision->kind == LSM_JOB_MAJOR)
		{
			first = Max(decision->first_root, segment->first_tid);
			last = Min(decision->last_root, segment->last_tid);
			takes[i] = segment->gen_hi <= decision->gen_hi && first <= last;
			share = (LSM_TID_LB(last) - LSM_TID_LB(first) + 1.0) /
				(LSM_TID_LB(segment->last_tid) - LSM_TID_LB(segment->first_tid) + 1.0);
		}
		if (!takes[i])
		{
			facts->increments[facts->nincrements++] = *segment;
			continue;
		}
		bytes += segment->bytes * share;
		versions += segment->versions * share;
		if (taken->first_tid == 0 || first < taken->first_tid)
			taken->first_tid = first;
		taken->last_tid = Max(taken->last_tid, last);
		if (LSM_TID_LB(first) > LSM_TID_LB(segment->first_tid))
			lsm_test_piece(table, segment, segment->first_tid,
						   LSM_TID(LSM_TID_LB(first) - 1, LSM_MAX_OFFSET));
		if (LSM_TID_LB(last) < LSM_TID_LB(segment->last_tid))
			lsm_test_piece(table, segment, LSM_TID(LSM_TID_LB(last) + 1, 1), segment->last_tid);
	}
	taken->bytes = (uint64) bytes;
	taken->versions = (uint64) versions;
	pfree(old);
	pfree(takes);
}

/* A run of increments, spread evenly. */
static void
lsm_test_add_run(LsmTestTable *table, LsmTid first, LsmTid last, double bytes, double versions,
				 uint32 gen_lo, uint32 gen_hi)
{
	LsmPickFacts *facts = table->facts;
	double		from = LSM_TID_LB(first);
	double		lbs = LSM_TID_LB(last) - from + 1;
	int			n = Max((int) (bytes / facts->segment_bytes), 1);

	for (int i = 0; i < n; i++)
	{
		double		lo = from + (double) (uint64) (lbs * i / n);
		double		hi = from + (double) (uint64) (lbs * (i + 1) / n) - 1;
		LsmPickSegment *segment;

		if (hi < lo)
			continue;
		segment = lsm_test_segment_add(facts->increments, &facts->nincrements, lo, hi, bytes / n,
									   versions / n);
		segment->gen_lo = gen_lo;
		segment->gen_hi = gen_hi;
	}
}

static void
lsm_test_measure(LsmTestTable *table)
{
	LsmPickFacts *facts = table->facts;
	double		bytes = 0;

	for (int i = 0; i < facts->nincrements; i++)
		bytes += facts->increments[i].bytes;
	table->most = Max(table->most, bytes);

	/* depth at a few keys */
	for (int k = 0; k < 16; k++)
	{
		LsmTid		at = LSM_TID((uint64) facts->next_root_lb * k / 16, 1);
		int			depth = 0;

		for (int i = 0; i < facts->nincrements; i++)
			if (facts->increments[i].first_tid <= at && facts->increments[i].last_tid >= at)
				depth++;
		table->deepest = Max(table->deepest, depth);
	}
}

/* Make the base segments of a job as large as segments may be. */
static void
lsm_test_join(LsmPickFacts *facts, const LsmPickDecision *decision)
{
	LsmPickSegment *last = NULL;
	int			n = 0;

	for (int i = 0; i < facts->nbase; i++)
	{
		LsmPickSegment *segment = &facts->base[i];
		bool		taken = segment->first_tid >= decision->first_root &&
			segment->first_tid <= decision->last_root;

		if (taken && last != NULL && last->bytes + segment->bytes <= facts->segment_bytes)
		{
			last->last_tid = segment->last_tid;
			last->bytes += segment->bytes;
			last->versions += segment->versions;
			continue;
		}
		facts->base[n] = *segment;
		last = taken ? &facts->base[n] : NULL;
		n++;
	}
	facts->nbase = n;
}

/* Carry out what is chosen, until nothing is; updates leave the bottom as large as it is. */
static void
lsm_test_settle(LsmTestTable *table)
{
	LsmPickFacts *facts = table->facts;

	for (;;)
	{
		LsmPickDecision decision;
		LsmPickSegment taken;

		CHECK_FOR_INTERRUPTS();
		qsort(facts->increments, facts->nincrements, sizeof(LsmPickSegment), lsm_test_age_cmp);
		lsm_test_measure(table);
		lsm_pick(facts, &decision);
		table->jobs[decision.kind]++;
		if (decision.kind == LSM_JOB_NONE)
			return;
		table->longest = Max(table->longest, decision.bytes);
		lsm_test_take(table, &decision, &taken);
		if (decision.kind == LSM_JOB_MINOR)
		{
			table->minor += taken.bytes;
			lsm_test_add_run(table, taken.first_tid, taken.last_tid, taken.bytes, taken.versions,
							 decision.gen_lo, decision.gen_hi);
			continue;
		}
		for (int i = 0; i < facts->nbase; i++)
			if (facts->base[i].first_tid >= decision.first_root &&
				facts->base[i].first_tid <= decision.last_root)
				table->major += facts->base[i].bytes;
		if (decision.reason == LSM_PICK_SMALL)
			lsm_test_join(facts, &decision);
	}
}

/*
 * lsm_test_pick_updates(segments, segment_mb, flush_mb, flushes, job_mb, medium):
 * rows of 100 bytes, updated at random.  The increments of a flush are spread
 * over all keys.
 */
Datum
lsm_test_pick_updates(PG_FUNCTION_ARGS)
{
	LsmTestTable table = {0};
	LsmPickFacts *facts = lsm_test_facts_create();
	int			nbase = PG_GETARG_INT32(0);
	double		segment_bytes = PG_GETARG_INT32(1) * LSM_MB;
	double		flush_bytes = PG_GETARG_INT32(2) * LSM_MB;
	StringInfoData buf;

	table.facts = facts;
	facts->job_bytes = (uint64) (PG_GETARG_INT32(4) * LSM_MB);
	facts->medium = PG_GETARG_FLOAT8(5);
	facts->segment_setting = facts->segment_bytes = (uint64) segment_bytes;
	facts->file_bytes = (uint64) (nbase * segment_bytes);
	facts->next_root_lb = nbase * 1000;
	for (int i = 0; i < nbase; i++)
		(void) lsm_test_segment_add(facts->base, &facts->nbase, i * 1000.0, i * 1000.0 + 999,
									segment_bytes, segment_bytes / 100);
	for (int i = 0; i < PG_GETARG_INT32(3); i++)
	{
		table.flushed += flush_bytes;
		lsm_test_add_run(&table, LSM_TID(0, 1), LSM_TID(nbase * 1000 - 1, LSM_MAX_OFFSET),
						 flush_bytes, flush_bytes / 100, i + 1, i + 1);
		lsm_test_settle(&table);
	}
	initStringInfo(&buf);
	appendStringInfo(&buf, "longest job %.0f MB, deepest %d, increments at most %.2f of the bottom, ",
					 table.longest / LSM_MB, table.deepest,
					 table.most / (nbase * segment_bytes));
	appendStringInfo(&buf, "write amplification %.1f (minor %.1f, major %.1f), %d minor, %d major",
					 (table.flushed + table.minor + table.major) / table.flushed,
					 table.minor / table.flushed, table.major / table.flushed,
					 table.jobs[LSM_JOB_MINOR], table.jobs[LSM_JOB_MAJOR]);
	PG_RETURN_TEXT_P(cstring_to_text(buf.data));
}

/*
 * lsm_test_pick_deletes(segments, segment_mb, permille, flushes): rows of 100
 * bytes.  Between two flushes that many of a thousand rows are deleted, anywhere, and as
 * many are put in, so that the table keeps its size.  What share of the
 * rows in base segments are deleted ones, at most?  For each of them that goes, how many
 * are written?
 */
Datum
lsm_test_pick_deletes(PG_FUNCTION_ARGS)
{
	LsmPickFacts *facts = lsm_test_facts_create();
	int			nbase = PG_GETARG_INT32(0);
	double		segment_bytes = PG_GETARG_INT32(1) * LSM_MB;
	double		rows = segment_bytes / 100;
	double	   *dead = palloc0(nbase * sizeof(double));
	double		most = 0;
	double		written = 0;
	double		removed = 0;
	int			jobs[LSM_JOB_RESOLVE + 1] = {0};

	facts->job_bytes = (uint64) (8 * segment_bytes);
	facts->segment_setting = facts->segment_bytes = (uint64) segment_bytes;
	facts->next_root_lb = nbase * 1000;
	for (int i = 0; i < PG_GETARG_INT32(3); i++)
	{
		double		sum = 0;

		for (int k = 0; k < nbase; k++)
			dead[k] += (rows - dead[k]) * PG_GETARG_INT32(2) / 1000;
		for (;;)
		{
			LsmPickDecision decision;

			CHECK_FOR_INTERRUPTS();
			facts->nbase = facts->nincrements = 0;
			for (int k = 0; k < nbase; k++)
			{
				LsmPickSegment *segment;

				(void) lsm_test_segment_add(facts->base, &facts->nbase, k * 1000.0,
											k * 1000.0 + 999, segment_bytes, rows);
				if (dead[k] < 1)
					continue;
				segment = lsm_test_segment_add(facts->increments, &facts->nincrements, k * 1000.0,
											   k * 1000.0 + 999, dead[k] * 4, dead[k]);
				segment->ends = segment->versions;
				segment->gen_lo = segment->gen_hi = 1;
			}
			lsm_pick(facts, &decision);
			jobs[decision.kind]++;
			if (decision.kind != LSM_JOB_MAJOR)
				break;
			for (int k = 0; k < nbase; k++)
			{
				LsmTid		root = LSM_TID(k * 1000, 1);

				if (root < decision.first_root || root > decision.last_root)
					continue;
				written += rows - dead[k];
				removed += dead[k];
				dead[k] = 0;
			}
		}
		for (int k = 0; k < nbase; k++)
			sum += dead[k];
		most = Max(most, sum / (nbase * rows));
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("at most %.2f of the rows are deleted ones, %.1f rows written for each that goes, minors: %s, majors: %s",
											  most, removed > 0 ? written / removed : 0,
											  jobs[LSM_JOB_MINOR] > 0 ? "some" : "none",
											  jobs[LSM_JOB_MAJOR] > 0 ? "some" : "none")));
}

/*
 * lsm_test_pick_appends(flushes, flush_mb, before): insert segments only, and reads of them.
 * So many segments are there before.  How much is written again, how large do segments become,
 * and how many are there?
 */
Datum
lsm_test_pick_appends(PG_FUNCTION_ARGS)
{
	LsmTestTable table = {0};
	LsmPickFacts *facts = lsm_test_facts_create();
	double		bytes = PG_GETARG_INT32(1) * LSM_MB;
	int			before = PG_GETARG_INT32(2);
	int			flushes = 0;
	double		sum = before * (double) facts->segment_setting;

	table.facts = facts;
	for (int i = 0; i < before; i++)
		(void) lsm_test_segment_add(facts->base, &facts->nbase, i * 4096.0, i * 4096.0 + 4095,
									facts->segment_setting, facts->segment_setting / 100.0);
	facts->file_bytes += (uint64) sum;
	for (int i = before; i < before + PG_GETARG_INT32(0); i++)
	{
		LsmPickDecision decision;

		facts->segment_bytes = lsm_pick_segment_bytes(facts->segment_setting,
													  16 * facts->segment_setting, (uint64) sum);
		facts->job_bytes = lsm_pick_job_bytes(facts->segment_setting, facts->segment_bytes);

		/* the memtable fills up */
		facts->memtable_pages = 8192;
		facts->memtable_fill = 1;
		facts->memtable_xid = facts->next_xid;
		lsm_pick(facts, &decision);
		if (decision.kind != LSM_JOB_FLUSH)
			elog(ERROR, "a full memtable is not flushed");
		flushes++;
		facts->memtable_pages = 0;
		facts->memtable_fill = 0;
		(void) lsm_test_segment_add(facts->base, &facts->nbase, i * 4096.0, i * 4096.0 + 4095,
									bytes, bytes / 100);
		facts->next_root_lb = (i + 1) * 4096;
		facts->file_bytes += (uint64) bytes;
		sum += bytes;
		while (facts->next_root_lb >> facts->shift >= LSM_STAT_BUCKETS)
			facts->shift++;

		/* rows that are not visible yet were examined for nothing */
		facts->waste[facts->next_root_lb >> facts->shift] += 1000000;
		lsm_test_settle(&table);
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%d flushes: %.1f GB, %d minor, %d major, %.1f GB written again, %d segments of %.0f MB",
											  flushes, flushes * bytes / (1024 * LSM_MB),
											  table.jobs[LSM_JOB_MINOR],
											  table.jobs[LSM_JOB_MAJOR],
											  table.major / (1024 * LSM_MB), facts->nbase,
											  facts->segment_bytes / LSM_MB)));
}

/* A queue: so many rows of each kind. */
typedef struct LsmTestQueue
{
	double		log_rows;		/* waiting, in the memtable */
	double		log_dead;		/* records of rows that came and went there */
	double		log_deletes;	/* DELETE records of rows in segments */
	double		base_rows;		/* waiting, in segments */
	double		base_dead;
	double		deletes;		/* DELETE records in increments */
} LsmTestQueue;

static void
lsm_test_queue_facts(const LsmTestQueue *queue, LsmPickFacts *facts, uint32 generation)
{
	double		records = queue->log_rows + queue->log_dead + queue->log_deletes;

	facts->memtable_pages = (uint64) (records / 80 + 1);
	facts->memtable_fill = facts->memtable_pages / 8192.0;
	facts->nbase = facts->nincrements = 0;
	if (queue->base_rows + queue->base_dead > 0)
		(void) lsm_test_segment_add(facts->base, &facts->nbase, 0, 999,
									5 * LSM_MB + (queue->base_rows + queue->base_dead) * 100,
									queue->base_rows + queue->base_dead);
	if (queue->deletes > 0)
	{
		LsmPickSegment *segment = lsm_test_segment_add(facts->increments, &facts->nincrements, 0,
													   999, queue->deletes * 20, queue->deletes);

		segment->ends = segment->versions;
		segment->gen_lo = 1;
		segment->gen_hi = generation;
	}
}

/*
 * lsm_test_pick_queue(length, batch, rounds): in each round a batch of rows is put
 * in, a batch of the oldest taken out, and a scan looks at all of them.  How many
 * records does it examine for each row, at most, after a tenth of the rounds?
 */
Datum
lsm_test_pick_queue(PG_FUNCTION_ARGS)
{
	LsmPickFacts *facts = lsm_test_facts_create();
	LsmTestQueue queue = {0};
	double		length = PG_GETARG_INT32(0);
	double		batch = PG_GETARG_INT32(1);
	int			rounds = PG_GETARG_INT32(2);
	double		worst = 0;
	double		examined = 0;
	double		merged = 0;
	int			jobs[LSM_JOB_RESOLVE + 1] = {0};
	uint32		generation = 1;

	facts->next_root_lb = 1000;
	facts->shift = 5;
	queue.log_rows = length;
	for (int i = 0; i < rounds; i++)
	{
		double		out = Min(batch, queue.base_rows);
		double		in_log;
		double		in_segments;

		/* the oldest go first */
		queue.base_rows -= out;
		queue.base_dead += out;
		queue.log_deletes += out;
		queue.log_rows -= batch - out;
		queue.log_dead += 2 * (batch - out);
		queue.log_rows += batch;

		in_log = queue.log_rows + queue.log_dead + queue.log_deletes;
		in_segments = queue.base_rows + queue.base_dead + queue.deletes;
		examined += in_log + in_segments;
		if (i >= rounds / 10)
			worst = Max(worst, (in_log + in_segments) / length);
		facts->memtable_waste += (uint64) (in_log - queue.log_rows);
		for (int k = 0; k < 32; k++)
			facts->waste[k] += (uint64) ((in_segments - queue.base_rows) / 32);

		for (;;)
		{
			LsmPickDecision decision;

			lsm_test_queue_facts(&queue, facts, generation);
			lsm_pick(facts, &decision);
			jobs[decision.kind]++;
			if (decision.kind == LSM_JOB_FLUSH)
			{
				merged += in_log;
				queue.base_rows += queue.log_rows;
				queue.deletes += queue.log_deletes;
				queue.log_rows = queue.log_dead = queue.log_deletes = 0;
				facts->memtable_waste = 0;
				generation++;
			}
			else if (decision.kind == LSM_JOB_MAJOR)
			{
				merged += queue.base_rows + queue.base_dead + queue.deletes;
				queue.base_dead = queue.deletes = 0;
				memset(facts->waste, 0, sizeof(facts->waste));
			}
			else
				break;
		}
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("at most %.0f records a row, %.2f records merged for each examined, flushes: %s, majors: %s",
											  worst, merged / examined,
											  jobs[LSM_JOB_FLUSH] > 0 ? "some" : "none",
											  jobs[LSM_JOB_MAJOR] > 0 ? "some" : "none")));
}
