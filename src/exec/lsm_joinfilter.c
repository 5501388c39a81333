/*-------------------------------------------------------------------------
 *
 * lsm_joinfilter.c
 *	  Rows of a scan that a hash join has no match for.
 *
 * A hash join makes a hash table of its inner rows, then looks up each outer row there.
 * Where the outer rows come from a scan of ours, those without a match need not be made: of
 * the hash values in the table a Bloom filter is made, and the scan leaves out rows whose
 * keys are not in it, as it leaves out those that do not meet its conditions, by column.
 * (The idea is an old one, "semijoin reduction by hash filters"; most analytical engines
 * have it.)  The planner does not know of it.
 *
 * WHICH JOINS
 *	  Those that have no use for outer rows without a match: not LEFT, FULL and ANTI.  Keys are
 *	  compared as integers, and are columns of the scan.  Between the join and the scan there are only
 *	  nodes whose output is some of their outer rows, each by itself: other joins that have the
 *	  scan on their outer side, sorts, and appends.  Nothing volatile is called there, as
 *	  it would be called less often.
 *
 * WHEN
 *	  The executor may ask for a first outer row before it makes the hash table.  So the scan looks each time
 *	  whether it is there, and then waits until it has given some rows without it, as the
 *	  filter costs a step for each row in the table.  Hash tables of several batches have
 *	  only the first in memory, and are not used.  A filter that most rows pass is given up.
 *	  It goes with the hash table: who rescans the join rescans the scan.
 *
 * A row may pass without a match, and changed rows, which are not looked at by column, all do.  So
 * nobody may rely on it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/hashjoin.h"
#include "lsm_codec.h"
#include "lsm_columnscan.h"
#include "lsm_exec.h"
#include "lsm_joinfilter.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "port/pg_bitutils.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

bool		lsm_enable_joinfilter = true;

/* A join of more columns has no filter. */
#define LSM_JOINFILTER_KEYS		4

/* So many rows are given without a filter, at least; and one for so many in the hash table. */
#define LSM_JOINFILTER_FIRST	1024
#define LSM_JOINFILTER_PART		8

/* After so many rows it is known what the filter is good for. */
#define LSM_JOINFILTER_TRIAL	8192

/* Bits for each row in the hash table, and the most of them (8 MB). */
#define LSM_JOINFILTER_BITS		16
#define LSM_JOINFILTER_MOST		(UINT64CONST(1) << 26)

/* If fewer than one row in so many is left, keys are decoded one by one. */
#define LSM_JOINFILTER_SPARSE	8

typedef enum LsmJoinFilterState
{
	LSM_JOINFILTER_WAITS,
	LSM_JOINFILTER_USED,
	LSM_JOINFILTER_GIVEN_UP
} LsmJoinFilterState;

typedef struct LsmJoinKey
{
	AttrNumber	column;			/* of the node at hand, in the end of the scan's table */
	Oid			function;		/* that the executor hashes it with */
} LsmJoinKey;

struct LsmJoinFilter
{
	LsmJoinFilter *next;		/* of the same scan */
	HashJoinState *join;
	MemoryContext context;
	int			nkeys;
	LsmJoinKey	keys[LSM_JOINFILTER_KEYS];
	LsmJoinFilterState state;
	uint64		looked;			/* rows, since the scan began; since it is used */
	uint64		passed;
	uint64	   *words;
	int			shift;			/* of a 64-bit hash to the number of a word */
};

/* ---- hash values ---- */

/* As the server's functions compute it. */
static inline uint32
lsm_joinfilter_hash(Datum value, Oid function)
{
	uint32		low;
	int64		number;

	switch (function)
	{
		case F_HASHINT2:
			return hash_bytes_uint32((int32) DatumGetInt16(value));
		case F_HASHINT8:
			number = DatumGetInt64(value);
			low = (uint32) number;
			low ^= (uint32) ((number >= 0 ? number : ~number) >> 32);
			return hash_bytes_uint32(low);
		default:
			return hash_bytes_uint32(DatumGetUInt32(value));
	}
}

static inline bool
lsm_joinfilter_knows(Oid function)
{
	return function == F_HASHINT2 || function == F_HASHINT4 || function == F_HASHINT8 ||
		function == F_HASHOID;
}

/* Three bits of one word stand for a hash value. */
static inline uint64
lsm_joinfilter_bits(uint64 mixed)
{
	return (UINT64CONST(1) << (mixed & 63)) | (UINT64CONST(1) << (mixed >> 6 & 63)) |
		(UINT64CONST(1) << (mixed >> 12 & 63));
}

static inline uint64
lsm_joinfilter_mix(uint32 hash)
{
	return hash * UINT64CONST(0x9E3779B97F4A7C15);
}

static inline bool
lsm_joinfilter_has(const LsmJoinFilter *filter, uint32 hash)
{
	uint64		mixed = lsm_joinfilter_mix(hash);
	uint64		bits = lsm_joinfilter_bits(mixed);

	return (filter->words[mixed >> filter->shift] & bits) == bits;
}

/* ---- making ---- */

static void
lsm_joinfilter_drop(LsmJoinFilter *filter, LsmJoinFilterState state)
{
	if (filter->words != NULL)
		pfree(filter->words);
	filter->words = NULL;
	filter->state = state;
	filter->looked = filter->passed = 0;
}

/* All hash values of a chunk of the table. */
static void
lsm_joinfilter_add_chunk(LsmJoinFilter *filter, HashMemoryChunk chunk)
{
	size_t		at = 0;

	while (at < chunk->used)
	{
		HashJoinTuple tuple = (HashJoinTuple) (HASH_CHUNK_DATA(chunk) + at);
		uint64		mixed = lsm_joinfilter_mix(tuple->hashvalue);

		filter->words[mixed >> filter->shift] |= lsm_joinfilter_bits(mixed);
		at += MAXALIGN(HJTUPLE_OVERHEAD + HJTUPLE_MINTUPLE(tuple)->t_len);
	}
	CHECK_FOR_INTERRUPTS();
}

/* Of a parallel hash join, all processes have made one table, and nobody adds to it any more. */
static void
lsm_joinfilter_add_table(LsmJoinFilter *filter, HashJoinTable table)
{
	if (table->parallel_state == NULL)
	{
		for (HashMemoryChunk chunk = table->chunks; chunk != NULL; chunk = chunk->next.unshared)
			lsm_joinfilter_add_chunk(filter, chunk);
		return;
	}
	for (dsa_pointer at = table->batches[0].shared->chunks; DsaPointerIsValid(at);)
	{
		HashMemoryChunk chunk = dsa_get_address(table->area, at);

		lsm_joinfilter_add_chunk(filter, chunk);
		at = chunk->next.shared;
	}
}

/* Make the filter, if the hash table is there and enough rows have been given without it. */
static void
lsm_joinfilter_make(LsmJoinFilter *filter)
{
	HashJoinTable table = filter->join->hj_HashTable;
	uint64		bits;
	int			words;

	if (table == NULL ||
		filter->looked < Max(LSM_JOINFILTER_FIRST, table->totalTuples / LSM_JOINFILTER_PART))
		return;
	bits = (uint64) Max(table->totalTuples, 64) * LSM_JOINFILTER_BITS;
	if (table->nbatch != 1 || table->skewEnabled || bits > LSM_JOINFILTER_MOST)
	{
		lsm_joinfilter_drop(filter, LSM_JOINFILTER_GIVEN_UP);
		return;
	}
	words = pg_leftmost_one_pos64(bits / 64 * 2 - 1);	/* a power of two, as log */
	filter->words = MemoryContextAllocZero(filter->context, sizeof(uint64) << words);
	filter->shift = 64 - words;
	lsm_joinfilter_add_table(filter, table);
	filter->state = LSM_JOINFILTER_USED;
	filter->looked = filter->passed = 0;
}

/* ---- using ---- */

/* The hash values of the rows of the mask; who has a null, is taken out of it. */
static void
lsm_joinfilter_hash_rows(LsmJoinFilter *filter, LsmBlock *block, uint8 *mask, int nrows, bool sparse,
						 uint32 *hashes)
{
	for (int i = 0; i < filter->nkeys; i++)
	{
		AttrNumber	column = filter->keys[i].column;
		Oid			function = filter->keys[i].function;
		Datum	   *values = NULL;
		bool	   *nulls = NULL;

		if (!sparse)
			lsm_block_column(block, column, &values, &nulls);
		for (int row = 0; row < nrows; row++)
		{
			Datum		value;
			bool		isnull;

			if (mask[row] == 0)
				continue;
			if (sparse)
				value = lsm_block_value(block, row, column, &isnull);
			else
			{
				value = values[row];
				isnull = nulls[row];
			}
			if (isnull)
				mask[row] = 0;
			else if (i == 0)
				hashes[row] = lsm_joinfilter_hash(value, function);
			else
				hashes[row] = pg_rotate_left32(hashes[row], 1) ^ lsm_joinfilter_hash(value, function);
		}
	}
}

static int
lsm_joinfilter_apply_one(LsmJoinFilter *filter, LsmBlock *block, uint8 *mask, int nrows, int left)
{
	uint32		hashes[LSM_BLOCK_MAX_ROWS];
	int			passed = 0;

	for (int i = 0; i < filter->nkeys; i++)
		if (filter->keys[i].column > lsm_block_natts(block))
			return left;
	lsm_joinfilter_hash_rows(filter, block, mask, nrows, left < nrows / LSM_JOINFILTER_SPARSE, hashes);
	for (int row = 0; row < nrows; row++)
	{
		if (mask[row] != 0)
			mask[row] = lsm_joinfilter_has(filter, hashes[row]);
		passed += mask[row];
	}
	filter->looked += left;
	filter->passed += passed;
	if (filter->looked >= LSM_JOINFILTER_TRIAL && filter->passed > filter->looked / 4 * 3)
		lsm_joinfilter_drop(filter, LSM_JOINFILTER_GIVEN_UP);
	return passed;
}

int
lsm_joinfilter_apply(LsmJoinFilter *filters, LsmBlock *block, uint8 *mask, int nrows, int left)
{
	for (LsmJoinFilter *filter = filters; filter != NULL && left > 0; filter = filter->next)
	{
		if (filter->state == LSM_JOINFILTER_WAITS)
		{
			lsm_joinfilter_make(filter);
			filter->looked += left;
		}
		if (filter->state == LSM_JOINFILTER_USED)
			left = lsm_joinfilter_apply_one(filter, block, mask, nrows, left);
	}
	return left;
}

void
lsm_joinfilter_reset(LsmJoinFilter *filters)
{
	for (LsmJoinFilter *filter = filters; filter != NULL; filter = filter->next)
		lsm_joinfilter_drop(filter, LSM_JOINFILTER_WAITS);
}

/* ---- finding scans ---- */

/* What of a join's outer side comes through it, if it has a match or not? */
static bool
lsm_joinfilter_passes_join(const Join *join)
{
	return (join->jointype == JOIN_INNER || join->jointype == JOIN_LEFT ||
			join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI) &&
		!contain_volatile_functions((Node *) join->joinqual);
}

/* The columns of the rows below that a node's are; false: one of them is none. */
static bool
lsm_joinfilter_below(const Plan *plan, int varno, const LsmJoinFilter *filter, LsmJoinKey *keys)
{
	if (contain_volatile_functions((Node *) plan->qual) ||
		contain_volatile_functions((Node *) plan->targetlist))
		return false;
	for (int i = 0; i < filter->nkeys; i++)
	{
		TargetEntry *entry = list_nth_node(TargetEntry, plan->targetlist, filter->keys[i].column - 1);
		Var		   *var = (Var *) entry->expr;

		if (!IsA(var, Var) || var->varno != varno || var->varattno <= 0)
			return false;
		keys[i].column = var->varattno;
		keys[i].function = filter->keys[i].function;
	}
	return true;
}

/* A scan of ours: it gets the filter. */
static void
lsm_joinfilter_attach(const LsmJoinFilter *wanted, LsmColumnScan *cscan)
{
	const Scan *plan = (const Scan *) cscan->ps->plan;
	MemoryContext context = cscan->ps->state->es_query_cxt;
	LsmJoinFilter *filter = MemoryContextAlloc(context, sizeof(LsmJoinFilter));
	LsmJoinFilter **last = &cscan->filters;

	*filter = *wanted;
	if (!lsm_joinfilter_below(&plan->plan, plan->scanrelid, wanted, filter->keys))
	{
		pfree(filter);
		return;
	}
	filter->context = context;
	while (*last != NULL)
		last = &(*last)->next;
	*last = filter;
}

/* Go down from the outer side of a join to scans of ours. */
static void
lsm_joinfilter_descend(const LsmJoinFilter *wanted, PlanState *ps)
{
	LsmJoinFilter below = *wanted;
	LsmColumnScan *cscan;

	check_stack_depth();
	switch (nodeTag(ps))
	{
		case T_HashJoinState:
		case T_MergeJoinState:
		case T_NestLoopState:
			if (lsm_joinfilter_passes_join((const Join *) ps->plan) &&
				lsm_joinfilter_below(ps->plan, OUTER_VAR, wanted, below.keys))
				lsm_joinfilter_descend(&below, outerPlanState(ps));
			break;
		case T_SortState:
			/* with the columns of what is below */
			lsm_joinfilter_descend(wanted, outerPlanState(ps));
			break;
		case T_AppendState:
			for (int i = 0; i < ((AppendState *) ps)->as_nplans; i++)
				lsm_joinfilter_descend(wanted, ((AppendState *) ps)->appendplans[i]);
			break;
		case T_CustomScanState:
			cscan = lsm_scannode_columnscan((CustomScanState *) ps);
			if (cscan != NULL)
				lsm_joinfilter_attach(wanted, cscan);
			break;
		default:
			break;
	}
}

/* The keys of a join, as columns of its outer side; false: it has others. */
static bool
lsm_joinfilter_keys(const HashJoin *plan, LsmJoinFilter *filter)
{
	ListCell   *key;
	ListCell   *operator;

	if (list_length(plan->hashkeys) > LSM_JOINFILTER_KEYS)
		return false;
	forboth(key, plan->hashkeys, operator, plan->hashoperators)
	{
		const Var  *var = lfirst(key);
		Oid			inner;

		if (!IsA(var, Var) || var->varno != OUTER_VAR || var->varattno <= 0 ||
			!get_op_hash_functions(lfirst_oid(operator), &filter->keys[filter->nkeys].function, &inner) ||
			!lsm_joinfilter_knows(filter->keys[filter->nkeys].function))
			return false;
		filter->keys[filter->nkeys++].column = var->varattno;
	}
	return true;
}

void
lsm_joinfilter_look(PlanState *planstate)
{
	HashJoinState *join = (HashJoinState *) planstate;
	LsmJoinFilter filter = {0};

	if (!lsm_enable_joinfilter || !IsA(planstate, HashJoinState) ||
		join->js.jointype == JOIN_LEFT || join->js.jointype == JOIN_FULL ||
		join->js.jointype == JOIN_ANTI || !lsm_joinfilter_keys((const HashJoin *) planstate->plan, &filter))
		return;
	filter.join = join;
	lsm_joinfilter_descend(&filter, outerPlanState(planstate));
}
