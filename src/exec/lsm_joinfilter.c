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
 *	  scan on their outer side, appends, and sorts that read it anew when they are rescanned.
 *	  Their conditions and columns call nothing volatile, which would be called less often.
 *	  (The inner side of a nested loop among them is run less often, whatever it calls: in
 *	  which order joins are done nobody is promised.)
 *
 * WHEN
 *	  The executor may ask for a first outer row before it makes the hash table.  So the scan looks each time
 *	  whether it is there, and then waits until it has given some rows without it, as the
 *	  filter costs a step for each row in the table.  Hash tables of several batches have
 *	  only the first in memory, and are not used.  A filter that most rows pass is given up.
 *	  It goes with the hash table: who rescans the join rescans the scan.
 *
 * KEYS BY VALUE
 *	  Hash values say nothing about zones.  So the keys of tables that are not too large are kept, too: the
 *	  least and the greatest, and of few rows all of them, sorted.  Blocks and segments whose zones
 *	  have none of them are not read.
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
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
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

/* Of so many rows in the hash table the least and the greatest key are looked for; of so many all are kept. */
#define LSM_JOINFILTER_BOUNDED	262144
#define LSM_JOINFILTER_SORTED	16384

/* If fewer than one row in so many is left, keys are decoded one by one. */
#define LSM_JOINFILTER_SPARSE	8

typedef enum LsmJoinFilterState
{
	LSM_JOINFILTER_WAITS,
	LSM_JOINFILTER_USED,
	LSM_JOINFILTER_GIVEN_UP
} LsmJoinFilterState;

/* What values of a key are; types that are hashed in the same way may be compared. */
typedef enum LsmJoinNumber
{
	LSM_JOIN_NO_NUMBER,
	LSM_JOIN_INT2,
	LSM_JOIN_INT4,
	LSM_JOIN_INT8,
	LSM_JOIN_OID
} LsmJoinNumber;

typedef struct LsmJoinKey
{
	AttrNumber	column;			/* of the node at hand, in the end of the scan's table */
	LsmJoinNumber number;
	Oid			type;			/* of the column, if zones can be asked for it */
	AttrNumber	inner;			/* the same of the hash table's rows; 0: it is no column there */
	LsmJoinNumber inner_number;
	/* keys that are in the table, as numbers; none, if nkept is 0 */
	int64		min;
	int64		max;
	int64	   *kept;			/* all of them, sorted, or NULL; there is room for */
	int			room;
	int			nkept;
	/* what was asked last */
	LsmZoneName zone;
	bool		zone_matches;
	uint64		segment;
	bool		segment_matches;
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

/*
 * What a value of that type is that is hashed with that function of the server.  (xid8 has that of
 * bigint before 18, and another order.)
 */
static LsmJoinNumber
lsm_join_number_of(Oid function, Oid type)
{
	if (type == XID8OID)
		return LSM_JOIN_NO_NUMBER;
	switch (function)
	{
		case F_HASHINT2:
			return LSM_JOIN_INT2;
		case F_HASHINT4:
#ifdef F_HASHDATE
		case F_HASHDATE:
#endif
			return LSM_JOIN_INT4;
		case F_HASHINT8:
		case F_TIME_HASH:
		case F_TIMESTAMP_HASH:
#ifdef F_TIMESTAMPTZ_HASH
		case F_TIMESTAMPTZ_HASH:
#endif
			return LSM_JOIN_INT8;
		case F_HASHOID:
			return LSM_JOIN_OID;
		default:
			return LSM_JOIN_NO_NUMBER;
	}
}

/* A key as a number, which is ordered as its type is. */
static inline int64
lsm_join_number(Datum value, LsmJoinNumber number)
{
	switch (number)
	{
		case LSM_JOIN_INT2:
			return DatumGetInt16(value);
		case LSM_JOIN_INT4:
			return DatumGetInt32(value);
		case LSM_JOIN_INT8:
			return DatumGetInt64(value);
		default:
			return DatumGetUInt32(value);
	}
}

/* The hash value of such a number, as the server's functions compute it, for each of its widths the same. */
static inline uint32
lsm_join_hash(int64 number)
{
	uint32		low = (uint32) number;

	return hash_bytes_uint32(low ^ (uint32) ((number >= 0 ? number : ~number) >> 32));
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
	for (int i = 0; i < filter->nkeys; i++)
	{
		if (filter->keys[i].kept != NULL)
			pfree(filter->keys[i].kept);
		filter->keys[i].kept = NULL;
		filter->keys[i].nkept = 0;
	}
	filter->state = state;
	filter->looked = filter->passed = 0;
}

/* The keys of a row of the table, by value. */
static void
lsm_joinfilter_keep_keys(LsmJoinFilter *filter, TupleTableSlot *slot)
{
	for (int i = 0; i < filter->nkeys; i++)
	{
		LsmJoinKey *key = &filter->keys[i];
		bool		isnull;
		Datum		value;
		int64		number;

		if (key->inner == 0 || !OidIsValid(key->type))
			continue;
		value = slot_getattr(slot, key->inner, &isnull);
		if (isnull)
			continue;			/* it has no match */
		number = lsm_join_number(value, key->inner_number);
		key->min = key->nkept == 0 ? number : Min(key->min, number);
		key->max = key->nkept == 0 ? number : Max(key->max, number);
		if (key->nkept < key->room)
			key->kept[key->nkept] = number;
		key->nkept++;
	}
}

/* All hash values of a chunk of the table, and with a slot for its rows, their keys. */
static void
lsm_joinfilter_add_chunk(LsmJoinFilter *filter, HashMemoryChunk chunk, TupleTableSlot *slot)
{
	size_t		at = 0;

	while (at < chunk->used)
	{
		HashJoinTuple tuple = (HashJoinTuple) (HASH_CHUNK_DATA(chunk) + at);
		uint64		mixed = lsm_joinfilter_mix(tuple->hashvalue);

		filter->words[mixed >> filter->shift] |= lsm_joinfilter_bits(mixed);
		if (slot != NULL)
		{
			ExecStoreMinimalTuple(HJTUPLE_MINTUPLE(tuple), slot, false);
			lsm_joinfilter_keep_keys(filter, slot);
		}
		at += MAXALIGN(HJTUPLE_OVERHEAD + HJTUPLE_MINTUPLE(tuple)->t_len);
	}
	CHECK_FOR_INTERRUPTS();
}

/* Of a parallel hash join, all processes have made one table, and nobody adds to it any more. */
static void
lsm_joinfilter_add_table(LsmJoinFilter *filter, HashJoinTable table, TupleTableSlot *slot)
{
	if (table->parallel_state == NULL)
	{
		for (HashMemoryChunk chunk = table->chunks; chunk != NULL; chunk = chunk->next.unshared)
			lsm_joinfilter_add_chunk(filter, chunk, slot);
		return;
	}
	for (dsa_pointer at = table->batches[0].shared->chunks; DsaPointerIsValid(at);)
	{
		HashMemoryChunk chunk = dsa_get_address(table->area, at);

		lsm_joinfilter_add_chunk(filter, chunk, slot);
		at = chunk->next.shared;
	}
}

static int
lsm_joinfilter_cmp(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* The same with the keys. */
static void
lsm_joinfilter_add_with_keys(LsmJoinFilter *filter, HashJoinTable table)
{
	MemoryContext caller = MemoryContextSwitchTo(filter->context);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(ExecGetResultType(innerPlanState(filter->join)),
													&TTSOpsMinimalTuple);

	for (int i = 0; i < filter->nkeys; i++)
	{
		LsmJoinKey *key = &filter->keys[i];

		key->zone.uid = key->segment = 0;
		key->room = 0;
		if (key->inner == 0 || !OidIsValid(key->type) || table->totalTuples > LSM_JOINFILTER_SORTED)
			continue;
		key->room = Max((int) table->totalTuples, 1);
		key->kept = palloc(key->room * sizeof(int64));
	}
	lsm_joinfilter_add_table(filter, table, slot);
	for (int i = 0; i < filter->nkeys; i++)
	{
		LsmJoinKey *key = &filter->keys[i];

		Assert(key->kept == NULL || key->nkept <= key->room);
		if (key->kept != NULL)
			qsort(key->kept, Min(key->nkept, key->room), sizeof(int64), lsm_joinfilter_cmp);
	}
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextSwitchTo(caller);
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
	if (table->totalTuples <= LSM_JOINFILTER_BOUNDED)
		lsm_joinfilter_add_with_keys(filter, table);
	else
		lsm_joinfilter_add_table(filter, table, NULL);
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
		LsmJoinNumber number = filter->keys[i].number;
		Datum	   *values = NULL;
		bool	   *nulls = NULL;

		if (!sparse)
			lsm_block_column(block, column, &values, &nulls);
		for (int row = 0; row < nrows; row++)
		{
			Datum		value;
			bool		isnull;
			uint32		hash;

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
			{
				mask[row] = 0;
				continue;
			}
			hash = lsm_join_hash(lsm_join_number(value, number));
			hashes[row] = i == 0 ? hash : pg_rotate_left32(hashes[row], 1) ^ hash;
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

/* ---- zones ---- */

/* Is a key between these two? */
static bool
lsm_joinkey_between(const LsmJoinKey *key, int64 min, int64 max)
{
	int			lo = 0;
	int			hi = key->nkept;

	if (max < key->min || min > key->max)
		return false;
	while (key->kept != NULL && lo < hi)
	{
		int			middle = lo + (hi - lo) / 2;

		if (key->kept[middle] < min)
			lo = middle + 1;
		else
			hi = middle;
	}
	return key->kept == NULL || (lo < key->nkept && key->kept[lo] <= max);
}

static bool
lsm_joinkey_in_zone(const LsmJoinKey *key, const LsmZone *zone)
{
	return zone->has_value &&
		lsm_joinkey_between(key, lsm_join_number(zone->min, key->number),
							lsm_join_number(zone->max, key->number));
}

/* May rows of the block have the key, or, without a reader, of the segment with these bounds? */
static bool
lsm_joinkey_may_match(LsmJoinKey *key, const LsmBounds *bounds, LsmSegmentReader *reader,
					  uint32 blockno)
{
	LsmZone		zone;

	if (reader != NULL)
	{
		if (lsm_segment_column_type(reader, key->column) != key->type)
			return true;
		if (!lsm_segment_is_zone(reader, blockno, &key->zone))
		{
			key->zone_matches = !lsm_segment_zone(reader, blockno, key->column, &zone) ||
				lsm_joinkey_in_zone(key, &zone);
			key->zone = lsm_segment_name_zone(reader, blockno);
		}
		return key->zone_matches;
	}
	if (bounds == NULL || lsm_bounds_column_type(bounds, key->column) != key->type)
		return true;
	if (key->segment != lsm_bounds_uid(bounds))
	{
		key->segment_matches = !lsm_bounds_get(bounds, key->column, &zone) ||
			lsm_joinkey_in_zone(key, &zone);
		key->segment = lsm_bounds_uid(bounds);
	}
	return key->segment_matches;
}

AttrNumber
lsm_joinfilter_rules_out(LsmJoinFilter *filters, const LsmBounds *bounds, LsmSegmentReader *reader,
						 uint32 blockno)
{
	for (LsmJoinFilter *filter = filters; filter != NULL; filter = filter->next)
		for (int i = 0; i < filter->nkeys && filter->state == LSM_JOINFILTER_USED; i++)
			if (filter->keys[i].nkept > 0 &&
				!lsm_joinkey_may_match(&filter->keys[i], bounds, reader, blockno))
				return filter->keys[i].column;
	return 0;
}

bool
lsm_joinfilter_has_keys(const LsmJoinFilter *filters)
{
	for (const LsmJoinFilter *filter = filters; filter != NULL; filter = filter->next)
		for (int i = 0; i < filter->nkeys && filter->state == LSM_JOINFILTER_USED; i++)
			if (filter->keys[i].nkept > 0)
				return true;
	return false;
}

/* ---- finding scans ---- */

/* Does an expression call what is volatile, or what may: plans of subqueries are not looked into? */
static bool
lsm_joinfilter_is_volatile(const void *expr)
{
	return contain_volatile_functions(unconstify(void *, expr)) ||
		contain_subplans(unconstify(void *, expr));
}

/* What of a join's outer side comes through it, if it has a match or not? */
static bool
lsm_joinfilter_passes_join(const Join *join)
{
	return (join->jointype == JOIN_INNER || join->jointype == JOIN_LEFT ||
			join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI) &&
		!lsm_joinfilter_is_volatile(join->joinqual);
}

/* The columns of the rows below that a node's are; false: one of them is none. */
static bool
lsm_joinfilter_below(const Plan *plan, int varno, const LsmJoinFilter *filter, LsmJoinKey *keys)
{
	if (lsm_joinfilter_is_volatile(plan->qual) || lsm_joinfilter_is_volatile(plan->targetlist))
		return false;
	for (int i = 0; i < filter->nkeys; i++)
	{
		TargetEntry *entry = list_nth_node(TargetEntry, plan->targetlist, filter->keys[i].column - 1);
		Var		   *var = (Var *) entry->expr;

		if (!IsA(var, Var) || var->varno != varno || var->varattno <= 0)
			return false;
		keys[i] = filter->keys[i];
		keys[i].column = var->varattno;
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
	for (int i = 0; i < filter->nkeys; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(cscan->rel),
											  filter->keys[i].column - 1);

		/* zones do not know of a default */
		if (!att->atthasmissing)
			filter->keys[i].type = att->atttypid;
	}
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
			/* with the columns of what is below; not if it may give its rows again for another hash table */
			if (!((SortState *) ps)->randomAccess)
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

/* Is it a column of a node's outer side? */
static bool
lsm_joinfilter_is_column(const Var *var)
{
	return IsA(var, Var) && var->varno == OUTER_VAR && var->varattno > 0;
}

/* The keys of a join, as columns of its outer side; false: it has others. */
static bool
lsm_joinfilter_keys(const HashJoin *plan, LsmJoinFilter *filter)
{
	const Hash *hash = (const Hash *) innerPlan(plan);
	ListCell   *outer;
	ListCell   *inner;
	ListCell   *operator;

	if (list_length(plan->hashkeys) > LSM_JOINFILTER_KEYS)
		return false;
	forthree(outer, plan->hashkeys, inner, hash->hashkeys, operator, plan->hashoperators)
	{
		LsmJoinKey *key = &filter->keys[filter->nkeys++];
		Oid			outer_function;
		Oid			inner_function;

		if (!lsm_joinfilter_is_column(lfirst(outer)) ||
			!get_op_hash_functions(lfirst_oid(operator), &outer_function, &inner_function))
			return false;
		key->number = lsm_join_number_of(outer_function, exprType(lfirst(outer)));
		key->inner_number = lsm_join_number_of(inner_function, exprType(lfirst(inner)));
		if (key->number == LSM_JOIN_NO_NUMBER)
			return false;
		key->column = ((const Var *) lfirst(outer))->varattno;
		if (lsm_joinfilter_is_column(lfirst(inner)) && key->inner_number != LSM_JOIN_NO_NUMBER)
			key->inner = ((const Var *) lfirst(inner))->varattno;
	}
	return true;
}

void
lsm_joinfilter_look(HashJoinState *join)
{
	LsmJoinFilter filter;

	if (!lsm_enable_joinfilter || join->js.jointype == JOIN_LEFT || join->js.jointype == JOIN_FULL ||
		join->js.jointype == JOIN_ANTI)
		return;
	memset(&filter, 0, sizeof(filter));
	if (!lsm_joinfilter_keys((const HashJoin *) join->js.ps.plan, &filter))
		return;
	filter.join = join;
	lsm_joinfilter_descend(&filter, outerPlanState(join));
}
