/*-------------------------------------------------------------------------
 *
 * lsm_aggregate.c
 *	  Aggregates that are computed on columns of blocks.
 *
 * Results are the server's to the last digit.
 *
 *	SUM		Sums of integers and of numerics are exact, so the order does not matter:
 *			numbers of a block are added up in 128 bits, all others by the
 *			server's functions.  Sums of int2 and int4 are int8 and wrap around as
 *			the server's do.
 *	BEST	The best number of a block is found by a loop, and goes through the
 *			server's function in the order of rows: of equal numerics or floats that
 *			are written differently (1.0 and 1.00, 0 and -0) it keeps the last.
 *	FLOAT	Sums of floats are rounded, so they are added up in the order of rows, in the
 *			steps of the server's functions: sum() in the type of the argument, all
 *			others with the squares of deviations (float8_accum), of which
 *			the averages make no use.  What is not finite any more after a range of
 *			rows is given up, and the range is added by the server's functions:
 *			they raise errors, and know what to do with infinite values and NaN.
 *	OTHER	Value by value, by the server's functions, in the order of rows.
 *
 * PARTIAL AGGREGATES
 *	  Of a parallel plan the server's own node makes the result from transition states
 *	  of the server's.  Where these are internal to it, they are made by calling its
 *	  transition and combining functions (lsm_aggregate_copies), so nothing here
 *	  knows what they look like.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "lsm_aggregate.h"
#include "lsm_codec.h"
#include "lsm_numbers.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* Sums of as many numbers as a block has stay in 64 bits below this. */
#define LSM_AGG_NARROW			(PG_INT64_MAX / LSM_BLOCK_MAX_ROWS)

/* The server's aggregates that are ours too. */
typedef struct LsmAggregateEntry
{
	Oid			function;
	LsmAggregateKind kind;
	Oid			type;			/* of the argument; invalid: any */
	bool		which;			/* SUM: average; BEST: least */
} LsmAggregateEntry;

static const LsmAggregateEntry lsm_aggregate_entries[] = {
	{F_COUNT_, LSM_AGG_COUNT_ROWS, InvalidOid, false},
	{F_COUNT_ANY, LSM_AGG_COUNT, InvalidOid, false},
	{F_SUM_INT2, LSM_AGG_SUM, INT2OID, false},
	{F_SUM_INT4, LSM_AGG_SUM, INT4OID, false},
	{F_SUM_INT8, LSM_AGG_SUM, INT8OID, false},
	{F_SUM_NUMERIC, LSM_AGG_SUM, NUMERICOID, false},
	{F_AVG_INT2, LSM_AGG_SUM, INT2OID, true},
	{F_AVG_INT4, LSM_AGG_SUM, INT4OID, true},
	{F_AVG_INT8, LSM_AGG_SUM, INT8OID, true},
	{F_AVG_NUMERIC, LSM_AGG_SUM, NUMERICOID, true},
	{F_MIN_INT2, LSM_AGG_BEST, INT2OID, true},
	{F_MIN_INT4, LSM_AGG_BEST, INT4OID, true},
	{F_MIN_INT8, LSM_AGG_BEST, INT8OID, true},
	{F_MIN_OID, LSM_AGG_BEST, OIDOID, true},
	{F_MIN_DATE, LSM_AGG_BEST, DATEOID, true},
	{F_MIN_TIME, LSM_AGG_BEST, TIMEOID, true},
	{F_MIN_TIMESTAMP, LSM_AGG_BEST, TIMESTAMPOID, true},
	{F_MIN_TIMESTAMPTZ, LSM_AGG_BEST, TIMESTAMPTZOID, true},
	{F_MIN_FLOAT4, LSM_AGG_BEST, FLOAT4OID, true},
	{F_MIN_FLOAT8, LSM_AGG_BEST, FLOAT8OID, true},
	{F_MIN_NUMERIC, LSM_AGG_BEST, NUMERICOID, true},
	{F_MIN_MONEY, LSM_AGG_BEST, MONEYOID, true},
	{F_MAX_INT2, LSM_AGG_BEST, INT2OID, false},
	{F_MAX_INT4, LSM_AGG_BEST, INT4OID, false},
	{F_MAX_INT8, LSM_AGG_BEST, INT8OID, false},
	{F_MAX_OID, LSM_AGG_BEST, OIDOID, false},
	{F_MAX_DATE, LSM_AGG_BEST, DATEOID, false},
	{F_MAX_TIME, LSM_AGG_BEST, TIMEOID, false},
	{F_MAX_TIMESTAMP, LSM_AGG_BEST, TIMESTAMPOID, false},
	{F_MAX_TIMESTAMPTZ, LSM_AGG_BEST, TIMESTAMPTZOID, false},
	{F_MAX_FLOAT4, LSM_AGG_BEST, FLOAT4OID, false},
	{F_MAX_FLOAT8, LSM_AGG_BEST, FLOAT8OID, false},
	{F_MAX_NUMERIC, LSM_AGG_BEST, NUMERICOID, false},
	{F_MAX_MONEY, LSM_AGG_BEST, MONEYOID, false},
	{F_MIN_TEXT, LSM_AGG_OTHER, InvalidOid, false},
	{F_MAX_TEXT, LSM_AGG_OTHER, InvalidOid, false},
	{F_MIN_BPCHAR, LSM_AGG_OTHER, InvalidOid, false},
	{F_MAX_BPCHAR, LSM_AGG_OTHER, InvalidOid, false},
	{F_MIN_INTERVAL, LSM_AGG_OTHER, InvalidOid, false},
	{F_MAX_INTERVAL, LSM_AGG_OTHER, InvalidOid, false},
	{F_SUM_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_SUM_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
	{F_SUM_MONEY, LSM_AGG_OTHER, InvalidOid, false},
	{F_SUM_INTERVAL, LSM_AGG_OTHER, InvalidOid, false},
	{F_AVG_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_AVG_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
	{F_AVG_INTERVAL, LSM_AGG_OTHER, InvalidOid, false},
	{F_BOOL_AND, LSM_AGG_OTHER, InvalidOid, false},
	{F_BOOL_OR, LSM_AGG_OTHER, InvalidOid, false},
	{F_EVERY, LSM_AGG_OTHER, InvalidOid, false},
	{F_BIT_AND_INT2, LSM_AGG_OTHER, InvalidOid, false},
	{F_BIT_AND_INT4, LSM_AGG_OTHER, InvalidOid, false},
	{F_BIT_AND_INT8, LSM_AGG_OTHER, InvalidOid, false},
	{F_BIT_OR_INT2, LSM_AGG_OTHER, InvalidOid, false},
	{F_BIT_OR_INT4, LSM_AGG_OTHER, InvalidOid, false},
	{F_BIT_OR_INT8, LSM_AGG_OTHER, InvalidOid, false},
	{F_VARIANCE_INT2, LSM_AGG_OTHER, InvalidOid, false},
	{F_VARIANCE_INT4, LSM_AGG_OTHER, InvalidOid, false},
	{F_VARIANCE_INT8, LSM_AGG_OTHER, InvalidOid, false},
	{F_VARIANCE_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_VARIANCE_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
	{F_VARIANCE_NUMERIC, LSM_AGG_OTHER, InvalidOid, false},
	{F_VAR_SAMP_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_VAR_SAMP_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
	{F_VAR_POP_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_VAR_POP_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
	{F_STDDEV_INT2, LSM_AGG_OTHER, InvalidOid, false},
	{F_STDDEV_INT4, LSM_AGG_OTHER, InvalidOid, false},
	{F_STDDEV_INT8, LSM_AGG_OTHER, InvalidOid, false},
	{F_STDDEV_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_STDDEV_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
	{F_STDDEV_NUMERIC, LSM_AGG_OTHER, InvalidOid, false},
	{F_STDDEV_SAMP_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_STDDEV_SAMP_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
	{F_STDDEV_POP_FLOAT4, LSM_AGG_FLOAT, FLOAT4OID, false},
	{F_STDDEV_POP_FLOAT8, LSM_AGG_FLOAT, FLOAT8OID, false},
};

/* ---------------------------------------------------------------------
 * Making
 * --------------------------------------------------------------------- */

static const LsmAggregateEntry *
lsm_aggregate_entry(Oid function)
{
	for (int i = 0; i < (int) lengthof(lsm_aggregate_entries); i++)
		if (lsm_aggregate_entries[i].function == function)
			return &lsm_aggregate_entries[i];
	return NULL;
}

void
lsm_aggregates_init(LsmAggregates *aggregates, int max)
{
	memset(aggregates, 0, sizeof(*aggregates));
	aggregates->max = max;
	aggregates->all = palloc0(Max(max, 1) * sizeof(LsmAggregate *));
	aggregates->results = palloc0(Max(max, 1) * sizeof(LsmAggregateResult));
	aggregates->expressions.context = CurrentMemoryContext;
}

static bool
lsm_aggregate_set_arg(LsmAggregates *aggregates, LsmAggregate *aggregate,
					  const LsmAggregateEntry *entry, Node *arg, Index varno)
{
	aggregate->arg = arg;
	aggregate->attnum = lsm_expression_column(arg, varno, &aggregate->type);
	if (aggregate->attnum != 0)
	{
		if (OidIsValid(entry->type) && aggregate->type != entry->type)
			return false;
		if (entry->kind == LSM_AGG_SUM || entry->kind == LSM_AGG_BEST ||
			entry->kind == LSM_AGG_FLOAT)
			aggregate->expression = lsm_expression_make_column(&aggregates->expressions,
															   aggregate->attnum,
															   aggregate->type);
		return true;
	}
	aggregate->type = OidIsValid(entry->type) ? entry->type : exprType(arg);
	if (entry->kind == LSM_AGG_OTHER)
		return false;
	aggregate->expression = lsm_expression_make(&aggregates->expressions, arg, varno);
	return aggregate->expression != NULL && aggregate->expression->kind != LSM_EXPR_CONST;
}

static bool
lsm_aggregate_set_filter(LsmAggregate *aggregate, Node *filter, Index varno)
{
	List	   *clauses;
	ListCell   *cell;

	aggregate->filter = filter;
	if (filter == NULL)
		return true;
	clauses = make_ands_implicit((Expr *) filter);
	aggregate->filters = palloc(list_length(clauses) * sizeof(LsmPredicate *));
	foreach(cell, clauses)
	{
		LsmPredicate *predicate = lsm_predicate_make(lfirst(cell), varno);

		if (predicate == NULL)
			return false;
		aggregate->filters[aggregate->nfilters++] = predicate;
	}
	return true;
}

/* What the server knows of an aggregate; returns the function that makes the result. */
static Oid
lsm_aggregate_set_transition(LsmAggregate *aggregate, const Aggref *aggref)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Form_pg_aggregate form;
	Oid			final;
	Datum		initial;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	final = aggref->aggsplit == AGGSPLIT_SIMPLE ? form->aggfinalfn :
		form->aggtranstype == INTERNALOID ? form->aggserialfn : InvalidOid;
	aggregate->transtype = form->aggtranstype;
	get_typlenbyval(form->aggtranstype, &aggregate->translen, &aggregate->transbyval);
	fmgr_info(form->aggtransfn, &aggregate->transition);
	initial = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval,
							  &aggregate->initial_null);
	if (!aggregate->initial_null)
	{
		Oid			input;
		Oid			param;

		getTypeInputInfo(form->aggtranstype, &input, &param);
		aggregate->initial = OidInputFunctionCall(input, TextDatumGetCString(initial), param, -1);
	}
	ReleaseSysCache(tuple);
	aggregate->call = palloc0(SizeForFunctionCallInfo(2));
	InitFunctionCallInfoData(*aggregate->call, &aggregate->transition, 2, aggref->inputcollid,
							 NULL, NULL);
	return final;
}

static bool
lsm_aggregate_same(const LsmAggregate *a, const LsmAggregate *b)
{
	return a->kind == b->kind && a->least == b->least && a->type == b->type &&
		a->attnum == b->attnum && a->expression == b->expression &&
		(a->expression != NULL || equal(a->arg, b->arg)) && equal(a->filter, b->filter) &&
		(a->kind <= LSM_AGG_SUM || a->transition.fn_oid == b->transition.fn_oid);
}

/* The columns that it looks at. */
static void
lsm_aggregate_set_columns(LsmAggregate *aggregate, Index varno)
{
	Bitmapset  *attrs = NULL;
	int			attr = -1;

	pull_varattnos(aggregate->arg, varno, &attrs);
	pull_varattnos(aggregate->filter, varno, &attrs);
	while ((attr = bms_next_member(attrs, attr)) >= 0)
		if (attr + FirstLowInvalidHeapAttributeNumber > 0)
			lsm_touch_set(&aggregate->columns, attr + FirstLowInvalidHeapAttributeNumber);
	bms_free(attrs);
}

Bitmapset *
lsm_aggregates_touched(LsmAggregates *aggregates, const LsmTouch *touched, int natts)
{
	Bitmapset  *result = NULL;

	for (int i = 0; i < aggregates->n; i++)
		if (lsm_touch_overlap(&aggregates->all[i]->columns, touched, natts))
			result = bms_add_member(result, i);
	return result;
}

bool
lsm_aggregates_add(LsmAggregates *aggregates, const Aggref *aggref, Index varno)
{
	const LsmAggregateEntry *entry = lsm_aggregate_entry(aggref->aggfnoid);
	LsmAggregate *aggregate;
	LsmAggregateResult *result = &aggregates->results[aggregates->nresults];

	if (entry == NULL || aggref->aggdistinct != NIL || aggref->aggorder != NIL ||
		aggref->aggdirectargs != NIL || aggref->agglevelsup != 0 ||
		(aggref->aggsplit != AGGSPLIT_SIMPLE && aggref->aggsplit != AGGSPLIT_INITIAL_SERIAL))
		return false;
	aggregate = palloc0(sizeof(LsmAggregate));
	aggregate->kind = entry->kind;
	aggregate->least = entry->kind == LSM_AGG_BEST && entry->which;
	if (entry->kind != LSM_AGG_COUNT_ROWS &&
		!lsm_aggregate_set_arg(aggregates, aggregate, entry,
							   (Node *) linitial_node(TargetEntry, aggref->args)->expr, varno))
		return false;
	if (!lsm_aggregate_set_filter(aggregate, (Node *) aggref->aggfilter, varno))
		return false;
	lsm_aggregate_set_columns(aggregate, varno);
	result->function = aggref->aggfnoid;
	result->average = entry->kind == LSM_AGG_SUM && entry->which;
	result->partial = aggref->aggsplit != AGGSPLIT_SIMPLE;
	result->final = lsm_aggregate_set_transition(aggregate, aggref);
	if (OidIsValid(result->final))
		fmgr_info(result->final, &result->final_info);
	if (aggregate->kind == LSM_AGG_SUM && aggregate->type == NUMERICOID)
		fmgr_info(F_NUMERIC_AVG_ACCUM, &aggregate->transition);
	aggregate->ordered = aggregate->kind == LSM_AGG_FLOAT || aggregate->kind == LSM_AGG_OTHER ||
		(aggregate->kind == LSM_AGG_BEST &&
		 (aggregate->type == NUMERICOID || lsm_type_is_float(aggregate->type)));

	aggregates->nresults++;
	for (int i = 0; i < aggregates->n; i++)
	{
		if (lsm_aggregate_same(aggregates->all[i], aggregate))
		{
			result->aggregate = i;
			return true;
		}
	}
	result->aggregate = aggregate->number = aggregates->n;
	aggregates->all[aggregates->n++] = aggregate;
	aggregates->ordered |= aggregate->ordered;
	return true;
}

/* ---------------------------------------------------------------------
 * Beginning
 * --------------------------------------------------------------------- */

/*
 * Transition functions ask the node that calls them for the memory of their states.  They
 * know two kinds of nodes, of which that of window functions has but the context to be set.
 */
static fmNodePtr
lsm_aggregates_context_node(MemoryContext context)
{
	WindowAggState *node = makeNode(WindowAggState);

	node->curaggcontext = context;
	return (fmNodePtr) node;
}

/*
 * What zone maps tell of a column.  Its values are bounds as they are written if they
 * are passed by value and not floats, or numerics of one scale.
 */
static void
lsm_aggregate_use_zones(LsmAggregate *aggregate, TupleDesc tupdesc)
{
	Form_pg_attribute att;

	if (aggregate->attnum == 0)
		return;
	att = TupleDescAttr(tupdesc, aggregate->attnum - 1);
	if (att->atthasmissing || att->atttypid != aggregate->type)
		return;
	if (aggregate->kind == LSM_AGG_COUNT)
		aggregate->exact = true;
	if (aggregate->kind != LSM_AGG_BEST)
		return;
	aggregate->compare = &lookup_type_cache(aggregate->type,
											TYPECACHE_CMP_PROC_FINFO)->cmp_proc_finfo;
	aggregate->exact = aggregate->type == NUMERICOID ? att->atttypmod >= 0 :
		!lsm_type_is_float(aggregate->type);
}

void
lsm_aggregates_begin(LsmAggregates *aggregates, PlanState *ps, TupleDesc tupdesc,
					 MemoryContext context)
{
	aggregates->context_node = lsm_aggregates_context_node(context);
	aggregates->result_node = lsm_aggregates_context_node(context);
	aggregates->scratch = AllocSetContextCreate(CurrentMemoryContext, "lsm bounds",
												ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < aggregates->n; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];

		lsm_aggregate_use_zones(aggregate, tupdesc);
		aggregate->call->context = aggregates->context_node;
		if (aggregate->arg != NULL && aggregate->attnum == 0)
			aggregate->arg_state = ExecInitExpr((Expr *) aggregate->arg, ps);
		if (aggregate->filter != NULL)
			aggregate->filter_state =
				ExecInitQual(make_ands_implicit((Expr *) aggregate->filter), ps);
		for (int j = 0; j < aggregate->nfilters; j++)
			lsm_predicate_init(aggregate->filters[j], ps);
	}
}

void
lsm_aggregates_start(LsmAggregates *aggregates, ExprContext *econtext)
{
	for (int i = 0; i < aggregates->n; i++)
		for (int j = 0; j < aggregates->all[i]->nfilters; j++)
			lsm_predicate_start(aggregates->all[i]->filters[j], econtext);
}

static MemoryContext
lsm_aggregates_memory(LsmAggregate *aggregate)
{
	return ((WindowAggState *) aggregate->call->context)->curaggcontext;
}

void
lsm_aggregates_clear(LsmAggregates *aggregates, LsmAggregateState *states)
{
	for (int i = 0; i < aggregates->n; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];
		LsmAggregateState *state = &states[i];

		memset(state, 0, sizeof(*state));
		state->fresh = state->isnull = true;
		if (!aggregate->initial_null && aggregate->kind >= LSM_AGG_FLOAT)
		{
			MemoryContext caller = MemoryContextSwitchTo(lsm_aggregates_memory(aggregate));

			state->value = datumCopy(aggregate->initial, aggregate->transbyval,
									 aggregate->translen);
			state->fresh = state->isnull = false;
			MemoryContextSwitchTo(caller);
		}
	}
}

/* ---------------------------------------------------------------------
 * Values by the server's functions
 * --------------------------------------------------------------------- */

static void
lsm_aggregate_keep(LsmAggregate *aggregate, LsmAggregateState *state, Datum value)
{
	MemoryContext caller = MemoryContextSwitchTo(lsm_aggregates_memory(aggregate));

	state->value = datumCopy(value, aggregate->transbyval, aggregate->translen);
	MemoryContextSwitchTo(caller);
}

/* As the server's node for aggregates does it. */
static void
lsm_aggregate_transition(LsmAggregate *aggregate, LsmAggregateState *state, Datum value,
						 bool isnull)
{
	FunctionCallInfo call = aggregate->call;
	Datum		old = state->value;
	bool		old_null = state->isnull;
	Datum		new;

	if (aggregate->transition.fn_strict)
	{
		if (isnull)
			return;
		if (state->fresh)
		{
			lsm_aggregate_keep(aggregate, state, value);
			state->fresh = state->isnull = false;
			return;
		}
		if (state->isnull)
			return;
	}
	state->fresh = false;
	call->args[0].value = old;
	call->args[0].isnull = old_null;
	call->args[1].value = value;
	call->args[1].isnull = isnull;
	call->isnull = false;
	new = FunctionCallInvoke(call);
	state->isnull = call->isnull;
	if (aggregate->transbyval || new == old)
	{
		state->value = new;
		return;
	}
	state->value = 0;
	if (!state->isnull)
		lsm_aggregate_keep(aggregate, state, new);
	if (!old_null)
		pfree(DatumGetPointer(old));
}

/* An integer as a numeric. */
static Datum
lsm_aggregate_numeric(int128 value, int scale)
{
	char		digits[64];
	char	   *p = digits + sizeof(digits);
	bool		negative = value < 0;
	uint128		rest = negative ? -(uint128) value : (uint128) value;
	int			n = 0;

	*--p = '\0';
	do
	{
		if (n == scale && scale > 0)
			*--p = '.';
		*--p = '0' + (int) (rest % 10);
		rest /= 10;
		n++;
	} while (rest > 0 || n <= scale);
	if (negative)
		*--p = '-';
	return DirectFunctionCall3(numeric_in, CStringGetDatum(p), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* Give what has been summed up to the server's function, as one value. */
static void
lsm_aggregate_flush_sum(LsmAggregate *aggregate, LsmAggregateState *state)
{
	lsm_aggregate_transition(aggregate, state, lsm_aggregate_numeric(state->sum, state->scale),
							 false);
	state->sum = 0;
}

/* Make the sum one of that scale, which is greater. */
static void
lsm_aggregate_rescale(LsmAggregate *aggregate, LsmAggregateState *state, int scale)
{
	int128		sum = state->sum;
	bool		fits = true;

	for (int i = state->scale; i < scale && fits; i++)
		fits = !__builtin_mul_overflow(sum, (int128) 10, &sum);
	if (fits)
		state->sum = sum;
	else
		lsm_aggregate_flush_sum(aggregate, state);
	state->scale = scale;
}

/* Add the sum of count numbers of a scale. */
static void
lsm_aggregate_add_sum(LsmAggregate *aggregate, LsmAggregateState *state, int64 count, int128 sum,
					  int scale)
{
	int128		total;

	if (count == 0)
		return;
	state->count += count;
	if (scale > state->scale)
		lsm_aggregate_rescale(aggregate, state, scale);
	for (int i = scale; i < state->scale; i++)
	{
		if (__builtin_mul_overflow(sum, (int128) 10, &total))
		{
			lsm_aggregate_transition(aggregate, state, lsm_aggregate_numeric(sum, i), false);
			return;
		}
		sum = total;
	}
	if (__builtin_add_overflow(state->sum, sum, &total))
	{
		lsm_aggregate_flush_sum(aggregate, state);
		total = sum;
	}
	state->sum = total;
}

/* Add one value. */
static void
lsm_aggregate_value(LsmAggregate *aggregate, LsmAggregateState *state, Datum value, bool isnull)
{
	switch (aggregate->kind)
	{
		case LSM_AGG_COUNT_ROWS:
			state->count++;
			break;
		case LSM_AGG_COUNT:
			state->count += !isnull;
			break;
		case LSM_AGG_SUM:
			if (isnull)
				break;
			state->count++;
			if (aggregate->type == NUMERICOID)
				lsm_aggregate_transition(aggregate, state, value, false);
			else
				state->sum += aggregate->type == INT2OID ? DatumGetInt16(value) :
					aggregate->type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
			break;
		case LSM_AGG_BEST:
			state->bounded &= isnull;
			lsm_aggregate_transition(aggregate, state, value, isnull);
			break;
		case LSM_AGG_FLOAT:
		case LSM_AGG_OTHER:
			lsm_aggregate_transition(aggregate, state, value, isnull);
			break;
	}
}

void
lsm_aggregates_add_row(LsmAggregates *aggregates, LsmAggregateState *states,
					   ExprContext *econtext, const Bitmapset *only)
{
	for (int i = 0; i < aggregates->n; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];
		bool		isnull = false;
		Datum		value = 0;

		if (only != NULL && !bms_is_member(i, only))
			continue;
		if (aggregate->filter_state != NULL && !ExecQual(aggregate->filter_state, econtext))
			continue;
		if (aggregate->attnum != 0)
			value = slot_getattr(econtext->ecxt_scantuple, aggregate->attnum, &isnull);
		else if (aggregate->arg_state != NULL)
			value = ExecEvalExpr(aggregate->arg_state, econtext, &isnull);
		lsm_aggregate_value(aggregate, &states[i], value, isnull);
	}
}

/* ---------------------------------------------------------------------
 * Zone maps
 * --------------------------------------------------------------------- */

bool
lsm_aggregates_may_use_zones(const LsmAggregates *aggregates)
{
	for (int i = 0; i < aggregates->n; i++)
	{
		const LsmAggregate *aggregate = aggregates->all[i];

		if (aggregate->filter != NULL ||
			(aggregate->kind != LSM_AGG_COUNT_ROWS &&
			 (aggregate->attnum == 0 ||
			  (aggregate->kind != LSM_AGG_COUNT && aggregate->kind != LSM_AGG_BEST))))
			return false;
	}
	return aggregates->n > 0;
}

bool
lsm_aggregates_use_zones(LsmAggregates *aggregates, bool *bounds, bool *beatable)
{
	bool		known = true;

	*bounds = false;
	*beatable = aggregates->n > 0;
	for (int i = 0; i < aggregates->n; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];

		if (aggregate->filter != NULL ||
			(aggregate->kind != LSM_AGG_COUNT_ROWS && !aggregate->exact))
			known = false;
		if (aggregate->compare == NULL)
			*beatable = false;
		if (aggregate->kind != LSM_AGG_COUNT_ROWS)
			*bounds = true;
	}
	return known && aggregates->n > 0;
}

static bool
lsm_aggregate_zone(LsmAggregate *aggregate, LsmSegmentReader *reader, uint32 blockno,
				   LsmZone *zone)
{
	return lsm_segment_column_type(reader, aggregate->attnum) == aggregate->type &&
		lsm_segment_zone(reader, blockno, aggregate->attnum, zone);
}

bool
lsm_aggregates_known(LsmAggregates *aggregates, LsmSegmentReader *reader, uint32 blockno)
{
	MemoryContext caller = MemoryContextSwitchTo(aggregates->scratch);
	bool		known = true;

	for (int i = 0; i < aggregates->n && known; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];
		LsmZone		zone;

		if (aggregate->kind == LSM_AGG_COUNT_ROWS)
			continue;
		known = lsm_aggregate_zone(aggregate, reader, blockno, &zone);
		if (known && zone.has_value)
			known = aggregate->kind == LSM_AGG_COUNT ? !zone.has_null : !zone.loose;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(aggregates->scratch);
	return known;
}

void
lsm_aggregates_take(LsmAggregates *aggregates, LsmAggregateState *states,
					LsmSegmentReader *reader, uint32 blockno, uint32 rows)
{
	MemoryContext caller = MemoryContextSwitchTo(aggregates->scratch);

	for (int i = 0; i < aggregates->n; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];
		LsmZone		zone;

		if (aggregate->kind == LSM_AGG_COUNT_ROWS)
			states[i].count += rows;
		else if (!lsm_aggregate_zone(aggregate, reader, blockno, &zone))
			elog(ERROR, "a zone is not there any more");
		else if (!zone.has_value)
			continue;
		else if (aggregate->kind == LSM_AGG_COUNT)
			states[i].count += rows;
		else
			lsm_aggregate_value(aggregate, &states[i], aggregate->least ? zone.min : zone.max,
								false);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(aggregates->scratch);
}

/* May a row that comes to its filter be an error? */
static bool
lsm_aggregate_may_raise(const LsmAggregate *aggregate)
{
	for (int i = 0; i < aggregate->nfilters; i++)
		if (lsm_predicate_may_raise(aggregate->filters[i]))
			return true;
	return false;
}

bool
lsm_aggregates_beaten(LsmAggregates *aggregates, LsmAggregateState *states,
					  LsmSegmentReader *reader, uint32 blockno)
{
	MemoryContext caller = MemoryContextSwitchTo(aggregates->scratch);
	bool		beaten = true;

	for (int i = 0; i < aggregates->n && beaten; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];
		LsmZone		zone;
		int			order;

		beaten = !lsm_aggregate_may_raise(aggregate) &&
			lsm_aggregate_zone(aggregate, reader, blockno, &zone) &&
			(!states[i].isnull || !zone.has_value);
		if (!beaten || !zone.has_value)
			continue;
		order = DatumGetInt32(FunctionCall2(aggregate->compare,
											aggregate->least ? zone.min : zone.max,
											states[i].value));
		beaten = aggregate->least ? order > 0 : order < 0;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(aggregates->scratch);
	return beaten;
}

/* ---------------------------------------------------------------------
 * Blocks
 * --------------------------------------------------------------------- */

static void
lsm_aggregates_make_room(LsmAggregates *aggregates, int rows)
{
	MemoryContext caller;

	if (rows <= aggregates->room)
		return;
	caller = MemoryContextSwitchTo(aggregates->expressions.context);
	if (aggregates->room > 0)
	{
		pfree(aggregates->counts);
		pfree(aggregates->use_counts);
		pfree(aggregates->sums);
		pfree(aggregates->wide_sums);
		pfree(aggregates->bests);
		pfree(aggregates->best_rows);
		pfree(aggregates->order);
		pfree(aggregates->floats);
	}
	/* there may be as many groups as rows */
	aggregates->counts = palloc(rows * sizeof(int64));
	aggregates->use_counts = palloc(rows * sizeof(int64));
	aggregates->sums = palloc(rows * sizeof(int64));
	aggregates->wide_sums = palloc(rows * sizeof(int128));
	aggregates->bests = palloc(rows * sizeof(int64));
	aggregates->best_rows = palloc(rows * sizeof(int));
	aggregates->order = palloc(rows * sizeof(int64));
	aggregates->floats = palloc(rows * sizeof(LsmFloatSum));
	aggregates->room = rows;
	MemoryContextSwitchTo(caller);
}

/* Rows of the mask that are given to it, and its filter lets pass, in aggregate->use. */
static void
lsm_aggregate_filter(LsmAggregates *aggregates, LsmAggregate *aggregate,
					 const LsmAggregateRows *rows)
{
	if (rows->rows > aggregate->room)
	{
		if (aggregate->room > 0)
			pfree(aggregate->use_memory);
		aggregate->use_memory = MemoryContextAlloc(aggregates->expressions.context, rows->rows);
		aggregate->room = rows->rows;
	}
	aggregate->use = aggregate->use_memory;
	memcpy(aggregate->use, rows->mask, rows->rows);

	/* they have other values now, and the block's may raise an error */
	if (bms_is_member(aggregate->number, rows->touched))
		for (int row = 0; row < rows->rows; row++)
			aggregate->use[row] &= !rows->kept[row];
	for (int i = 0; i < aggregate->nfilters; i++)
	{
		LsmPredicate *predicate = aggregate->filters[i];

		if (predicate->condition.attnum <= lsm_block_natts(rows->block))
			(void) lsm_predicate_select(predicate, rows->block, aggregate->use);
		else if (predicate->condition.kind != LSM_COND_NULL)
		{
			lsm_predicate_ask(predicate, aggregate->use, rows->rows);
			memset(aggregate->use, 0, rows->rows);
		}
	}
}

/* If all rows of the block are one group, their sum may be had without their numbers. */
static bool
lsm_aggregate_sum_all(LsmAggregate *aggregate, const LsmAggregateRows *rows)
{
	LsmAggregateState *state = &rows->states[0][aggregate->number];
	int128		sum;
	int			count;
	int			scale;

	if (aggregate->kind != LSM_AGG_SUM || aggregate->attnum == 0 || aggregate->nfilters > 0 ||
		rows->group != NULL || rows->n < rows->rows ||
		aggregate->attnum > lsm_block_natts(rows->block) ||
		!lsm_block_sum(rows->block, aggregate->attnum, &sum, &count, &scale))
		return false;
	lsm_aggregate_add_sum(aggregate, state, count, sum, scale);
	return true;
}

/*
 * Of rows->block, which all ranges of it are going to be added of; selected and n are
 * of all these.
 */
void
lsm_aggregates_begin_block(LsmAggregates *aggregates, LsmAggregateRows *rows)
{
	lsm_aggregates_make_room(aggregates, rows->rows);
	lsm_expressions_begin_block(&aggregates->expressions, rows->block, rows->selected, rows->n);
	for (int i = 0; i < aggregates->n; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];
		const LsmNumbers *numbers;

		aggregate->use = NULL;
		if (aggregate->nfilters > 0 || bms_is_member(i, rows->touched))
			lsm_aggregate_filter(aggregates, aggregate, rows);
		aggregate->summed = aggregate->use == NULL && lsm_aggregate_sum_all(aggregate, rows);
		if (aggregate->expression == NULL || aggregate->summed ||
			!lsm_expression_compute(&aggregates->expressions, aggregate->expression))
			continue;
		numbers = &aggregate->expression->numbers;
		if (!numbers->nulls)
			continue;
		if (aggregate->use == NULL)
			lsm_aggregate_filter(aggregates, aggregate, rows);
		lsm_numbers_and(aggregate->use, numbers->present, rows->rows);
	}
}

/* How many rows of each group are added; use: of that mask only. */
static const int64 *
lsm_aggregate_count_groups(LsmAggregates *aggregates, const LsmAggregateRows *rows,
						   const uint8 *use)
{
	int64	   *counts = use == NULL ? aggregates->counts : aggregates->use_counts;

	if (use == NULL && aggregates->counted)
		return counts;
	aggregates->counted |= use == NULL;
	memset(counts, 0, rows->ngroups * sizeof(int64));
	if (use == NULL && rows->group == NULL)
		counts[0] = rows->n;
	else if (rows->group == NULL)
		counts[0] = lsm_numbers_count(use + rows->from, rows->to - rows->from);
	else if (use == NULL)
	{
		for (int i = 0; i < rows->n; i++)
			counts[rows->group[rows->selected[i]]]++;
	}
	else
	{
		for (int i = 0; i < rows->n; i++)
			counts[rows->group[rows->selected[i]]] += use[rows->selected[i]];
	}
	return counts;
}

/* Sums of the numbers of each group's rows. */
static void
lsm_aggregate_sum_groups(LsmAggregates *aggregates, const LsmAggregateRows *rows,
						 const LsmNumbers *numbers, const uint8 *use, bool narrow)
{
	const int64 *values = numbers->values;
	int64	   *sums = aggregates->sums;
	int128	   *wide = aggregates->wide_sums;

	if (rows->group == NULL)
	{
		const uint8 *mask = use != NULL ? use : rows->all ? NULL : rows->mask;

		wide[0] = lsm_numbers_sum(values + rows->from, mask == NULL ? NULL : mask + rows->from,
								  rows->to - rows->from, narrow);
		return;
	}
	if (!narrow)
	{
		memset(wide, 0, rows->ngroups * sizeof(int128));
		for (int i = 0; i < rows->n; i++)
		{
			int			row = rows->selected[i];

			if (use == NULL || use[row])
				wide[rows->group[row]] += values[row];
		}
		return;
	}
	memset(sums, 0, rows->ngroups * sizeof(int64));
	if (use == NULL)
	{
		for (int i = 0; i < rows->n; i++)
			sums[rows->group[rows->selected[i]]] += values[rows->selected[i]];
	}
	else
	{
		for (int i = 0; i < rows->n; i++)
			sums[rows->group[rows->selected[i]]] += values[rows->selected[i]] &
				-(int64) use[rows->selected[i]];
	}
	for (int i = 0; i < rows->ngroups; i++)
		wide[i] = sums[i];
}

static void
lsm_aggregate_add_sums(LsmAggregates *aggregates, int number, const LsmAggregateRows *rows)
{
	LsmAggregate *aggregate = aggregates->all[number];
	const LsmNumbers *numbers = &aggregate->expression->numbers;
	bool		narrow = numbers->min > -LSM_AGG_NARROW && numbers->max < LSM_AGG_NARROW;
	const int64 *counts = lsm_aggregate_count_groups(aggregates, rows, aggregate->use);

	lsm_aggregate_sum_groups(aggregates, rows, numbers, aggregate->use, narrow);
	for (int i = 0; i < rows->ngroups; i++)
		lsm_aggregate_add_sum(aggregate, &rows->states[i][number], counts[i],
							  aggregates->wide_sums[i], numbers->scale);
}

/* The numbers as numbers of the type's order. */
static const int64 *
lsm_aggregate_order(LsmAggregates *aggregates, Oid type, const LsmNumbers *numbers, int rows)
{
	int64	   *order = aggregates->order;

	switch (type)
	{
		case OIDOID:
			for (int row = 0; row < rows; row++)
				order[row] = (uint32) numbers->values[row];
			return order;
		case FLOAT4OID:
		case FLOAT8OID:
			for (int row = 0; row < rows; row++)
				order[row] = lsm_float_order(lsm_numbers_floats(numbers)[row]);
			return order;
		default:
			return numbers->values;
	}
}

/* The row of each group with the best number; of equal ones the last; -1: none. */
static void
lsm_aggregate_find_best(LsmAggregates *aggregates, LsmAggregate *aggregate,
						const LsmAggregateRows *rows, const int64 *order)
{
	int		   *best_rows = aggregates->best_rows;
	int64	   *bests = aggregates->bests;
	const uint8 *use = aggregate->use;

	for (int i = 0; i < rows->ngroups; i++)
	{
		best_rows[i] = -1;
		bests[i] = aggregate->least ? PG_INT64_MAX : PG_INT64_MIN;
	}
	for (int i = 0; i < rows->n; i++)
	{
		int			row = rows->selected[i];
		int			group = rows->group == NULL ? 0 : rows->group[row];

		if (use != NULL && !use[row])
			continue;
		if (aggregate->least ? order[row] <= bests[group] : order[row] >= bests[group])
		{
			bests[group] = order[row];
			best_rows[group] = row;
		}
	}
}

/* Can no number of the block be better, or as good, than what the only group has? */
static bool
lsm_aggregate_is_beaten(LsmAggregate *aggregate, const LsmAggregateRows *rows,
						const LsmAggregateState *state)
{
	const LsmNumbers *numbers = &aggregate->expression->numbers;

	return rows->group == NULL && state->bounded && state->scale == numbers->scale &&
		(aggregate->least ? numbers->min > state->best : numbers->max < state->best);
}

/* The number of a row as a Datum of the argument's type. */
static Datum
lsm_aggregate_number_datum(Oid type, const LsmNumbers *numbers, int row)
{
	switch (type)
	{
		case INT2OID:
			return Int16GetDatum((int16) numbers->values[row]);
		case INT4OID:
			return Int32GetDatum((int32) numbers->values[row]);
		case INT8OID:
			return Int64GetDatum(numbers->values[row]);
		case FLOAT4OID:
			return Float4GetDatum((float4) lsm_numbers_floats(numbers)[row]);
		case FLOAT8OID:
			return Float8GetDatum(lsm_numbers_floats(numbers)[row]);
		default:
			Assert(type == NUMERICOID);
			return lsm_aggregate_numeric(numbers->values[row], numbers->scale);
	}
}

static void
lsm_aggregate_add_best(LsmAggregates *aggregates, int number, const LsmAggregateRows *rows)
{
	LsmAggregate *aggregate = aggregates->all[number];
	const LsmNumbers *numbers = &aggregate->expression->numbers;
	bool		floats = lsm_type_is_float(aggregate->type);
	const int64 *order;

	if (!floats && lsm_aggregate_is_beaten(aggregate, rows, &rows->states[0][number]))
		return;
	order = lsm_aggregate_order(aggregates, aggregate->type, numbers, rows->rows);
	lsm_aggregate_find_best(aggregates, aggregate, rows, order);
	for (int i = 0; i < rows->ngroups; i++)
	{
		LsmAggregateState *state = &rows->states[i][number];
		int			row = aggregates->best_rows[i];
		int64		best = aggregates->bests[i];
		bool		isnull;
		Datum		value;

		if (row < 0)
			continue;
		if (aggregate->attnum != 0)
			value = lsm_block_value(rows->block, row, aggregate->attnum, &isnull);
		else
			value = lsm_aggregate_number_datum(aggregate->type, numbers, row);
		if (state->fresh ||
			(state->bounded && state->scale == numbers->scale &&
			 (aggregate->least ? best <= state->best : best >= state->best)))
		{
			state->bounded = !floats && aggregate->type != OIDOID;
			state->best = best;
			state->scale = numbers->scale;
		}
		else if (state->scale != numbers->scale)
			state->bounded = false;
		lsm_aggregate_transition(aggregate, state, value, false);
	}
}

/* Has the block numbers for it? */
static bool
lsm_aggregate_knows(const LsmAggregate *aggregate)
{
	return aggregate->expression != NULL && aggregate->expression->state == LSM_EXPR_KNOWN;
}

/* Values one by one, or their number; failed: of groups whose sums are marked so. */
static void
lsm_aggregate_add_values(LsmAggregates *aggregates, int number, const LsmAggregateRows *rows,
						 bool failed)
{
	LsmAggregate *aggregate = aggregates->all[number];
	bool		known = lsm_aggregate_knows(aggregate);
	bool		absent = aggregate->attnum > lsm_block_natts(rows->block);

	for (int i = 0; i < rows->n; i++)
	{
		int			row = rows->selected[i];
		int			group = rows->group == NULL ? 0 : rows->group[row];
		Datum		value = 0;
		bool		isnull = true;

		if ((aggregate->use != NULL && !aggregate->use[row]) ||
			(failed && !aggregates->floats[group].failed))
			continue;
		if (known)
		{
			value = lsm_aggregate_number_datum(aggregate->type, &aggregate->expression->numbers,
											   row);
			isnull = false;
		}
		else if (!absent)
			value = lsm_block_value(rows->block, row, aggregate->attnum, &isnull);
		lsm_aggregate_value(aggregate, &rows->states[group][number], value, isnull);
	}
}

/* Number, sum and squares, where the server keeps these. */
static float8 *
lsm_aggregate_accumulated(const LsmAggregateState *state)
{
	ArrayType  *array = DatumGetArrayTypeP(state->value);

	if (ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] != 3 || ARR_HASNULL(array) ||
		ARR_ELEMTYPE(array) != FLOAT8OID)
		elog(ERROR, "the state of an aggregate of floats is none that is known");
	return (float8 *) ARR_DATA_PTR(array);
}

/* A sum without a value yet begins with -0, which changes nothing, not even -0. */
static LsmFloatSum
lsm_aggregate_get_floats(const LsmAggregate *aggregate, const LsmAggregateState *state)
{
	LsmFloatSum sum = {0};

	if (aggregate->transtype == FLOAT8OID)
		sum.sum = state->fresh ? -0.0 : DatumGetFloat8(state->value);
	else if (aggregate->transtype == FLOAT4OID)
		sum.sum = state->fresh ? -0.0 : DatumGetFloat4(state->value);
	else
	{
		const float8 *accumulated = lsm_aggregate_accumulated(state);

		sum.n = accumulated[0];
		sum.sum = accumulated[1];
		sum.squares = accumulated[2];
	}
	return sum;
}

static void
lsm_aggregate_set_floats(const LsmAggregate *aggregate, LsmAggregateState *state,
						 const LsmFloatSum *sum)
{
	if (aggregate->transtype == FLOAT8OID)
		state->value = Float8GetDatum(sum->sum);
	else if (aggregate->transtype == FLOAT4OID)
		state->value = Float4GetDatum((float4) sum->sum);
	else
	{
		float8	   *accumulated = lsm_aggregate_accumulated(state);

		accumulated[0] = sum->n;
		accumulated[1] = sum->sum;
		accumulated[2] = sum->squares;
	}
	state->fresh = state->isnull = false;
}

/*
 * Is the sum not finite any more?  That may be an error, or what an infinite value or NaN
 * makes of it.  One that was not finite before cannot raise errors.
 */
static bool
lsm_aggregate_sum_fails(const LsmAggregate *aggregate, const LsmAggregateState *state,
						const LsmFloatSum *sum)
{
	return (!isfinite(sum->sum) || !isfinite(sum->squares)) &&
		isfinite(lsm_aggregate_get_floats(aggregate, state).sum);
}

static void
lsm_aggregate_add_floats(LsmAggregates *aggregates, int number, const LsmAggregateRows *rows)
{
	LsmAggregate *aggregate = aggregates->all[number];
	const float8 *values = lsm_numbers_floats(&aggregate->expression->numbers);
	LsmFloatRows added = {rows->selected, rows->n, aggregate->use, rows->group};
	LsmFloatSum *sums = aggregates->floats;
	const int64 *counts;
	bool		failed = false;

	/* a short piece of a block with many groups */
	if (rows->n < rows->ngroups)
	{
		lsm_aggregate_add_values(aggregates, number, rows, false);
		return;
	}
	counts = lsm_aggregate_count_groups(aggregates, rows, aggregate->use);
	for (int i = 0; i < rows->ngroups; i++)
		sums[i] = lsm_aggregate_get_floats(aggregate, &rows->states[i][number]);
	if (lsm_type_is_float(aggregate->transtype))
		lsm_floats_sum(sums, values, &added, aggregate->transtype == FLOAT4OID);
	else
		lsm_floats_accumulate(sums, values, &added);
	for (int i = 0; i < rows->ngroups; i++)
	{
		LsmAggregateState *state = &rows->states[i][number];

		sums[i].failed = counts[i] > 0 && lsm_aggregate_sum_fails(aggregate, state, &sums[i]);
		failed |= sums[i].failed;
		if (!sums[i].failed && counts[i] > 0)
			lsm_aggregate_set_floats(aggregate, state, &sums[i]);
	}
	if (failed)
		lsm_aggregate_add_values(aggregates, number, rows, true);
}

static void
lsm_aggregate_add_counts(LsmAggregates *aggregates, int number, const LsmAggregateRows *rows)
{
	const int64 *counts = lsm_aggregate_count_groups(aggregates, rows,
													 aggregates->all[number]->use);

	for (int i = 0; i < rows->ngroups; i++)
		rows->states[i][number].count += counts[i];
}

/* count(column): nulls are told by the column's bitmap. */
static void
lsm_aggregate_add_present(LsmAggregates *aggregates, int number, const LsmAggregateRows *rows)
{
	LsmAggregate *aggregate = aggregates->all[number];
	LsmCondition condition = {.attnum = aggregate->attnum,.kind = LSM_COND_NOT_NULL};
	const int64 *counts;
	uint8	   *present;

	if (aggregate->attnum > lsm_block_natts(rows->block))
		return;
	present = palloc(rows->rows);
	memcpy(present, aggregate->use != NULL ? aggregate->use : rows->mask, rows->rows);
	(void) lsm_block_select(rows->block, &condition, present);
	counts = lsm_aggregate_count_groups(aggregates, rows, present);
	for (int i = 0; i < rows->ngroups; i++)
		rows->states[i][number].count += counts[i];
	pfree(present);
}

/* Returns the aggregates that have to be given the rows of the range one by one. */
Bitmapset *
lsm_aggregates_add_rows(LsmAggregates *aggregates, LsmAggregateRows *rows)
{
	Bitmapset  *left = NULL;

	aggregates->counted = false;
	for (int i = 0; i < aggregates->n; i++)
	{
		LsmAggregate *aggregate = aggregates->all[i];
		bool		known = lsm_aggregate_knows(aggregate);

		switch (aggregate->kind)
		{
			case LSM_AGG_COUNT_ROWS:
				lsm_aggregate_add_counts(aggregates, i, rows);
				break;
			case LSM_AGG_COUNT:
				if (aggregate->attnum != 0)
					lsm_aggregate_add_present(aggregates, i, rows);
				else if (known)
					lsm_aggregate_add_counts(aggregates, i, rows);
				else
					left = bms_add_member(left, i);
				break;
			case LSM_AGG_SUM:
			case LSM_AGG_BEST:
			case LSM_AGG_FLOAT:
				if (aggregate->summed)
					break;
				if (known && aggregate->kind == LSM_AGG_SUM)
					lsm_aggregate_add_sums(aggregates, i, rows);
				else if (known && aggregate->kind == LSM_AGG_BEST)
					lsm_aggregate_add_best(aggregates, i, rows);
				else if (known)
					lsm_aggregate_add_floats(aggregates, i, rows);
				else if (aggregate->attnum != 0)
					lsm_aggregate_add_values(aggregates, i, rows, false);
				else
					left = bms_add_member(left, i);
				break;
			case LSM_AGG_OTHER:
				lsm_aggregate_add_values(aggregates, i, rows, false);
				break;
		}
	}
	return left;
}

/* ---------------------------------------------------------------------
 * Results
 * --------------------------------------------------------------------- */

/*
 * Call one of the server's functions for states that are made for a result: these live in
 * CurrentMemoryContext, as a group may take no more memory when its result is asked for.
 */
static Datum
lsm_aggregate_call(LsmAggregates *aggregates, PGFunction function, Datum a, bool a_null, Datum b,
				   bool b_null)
{
	LOCAL_FCINFO(call, 2);

	((WindowAggState *) aggregates->result_node)->curaggcontext = CurrentMemoryContext;
	InitFunctionCallInfoData(*call, NULL, 2, InvalidOid, aggregates->result_node, NULL);
	call->args[0].value = a;
	call->args[0].isnull = a_null;
	call->args[1].value = b;
	call->args[1].isnull = b_null;
	return function(call);
}

/*
 * The state that n times the same value make, as the server's functions add up and
 * combine them: the copies double at each step.
 */
static Datum
lsm_aggregate_copies(LsmAggregates *aggregates, PGFunction accumulate, PGFunction combine,
					 Datum value, int64 n)
{
	Datum		power = lsm_aggregate_call(aggregates, accumulate, 0, true, value, false);
	Datum		result = 0;

	for (; n > 0; n >>= 1)
	{
		if (n & 1)
			result = lsm_aggregate_call(aggregates, combine, result, result == 0, power, false);
		if (n > 1)
			power = lsm_aggregate_call(aggregates, combine, power, false,
									   lsm_aggregate_call(aggregates, combine, 0, true, power,
														  false), false);
	}
	return result;
}

/* The sum as a numeric. */
static Datum
lsm_aggregate_total(LsmAggregates *aggregates, LsmAggregate *aggregate, LsmAggregateState *state)
{
	if (aggregate->type == INT2OID || aggregate->type == INT4OID)
		return NumericGetDatum(int64_to_numeric((int64) state->sum));
	if (aggregate->type != NUMERICOID || state->isnull)
		return lsm_aggregate_numeric(state->sum, state->scale);
	lsm_aggregate_flush_sum(aggregate, state);
	return lsm_aggregate_call(aggregates, numeric_sum, state->value, false, 0, true);
}

/* The transition state of a sum or an average. */
static Datum
lsm_aggregate_partial_sum(LsmAggregates *aggregates, LsmAggregate *aggregate,
						  LsmAggregateState *state, bool average, bool *isnull)
{
	Datum		total;

	if (aggregate->type == INT2OID || aggregate->type == INT4OID)
	{
		Datum		pair[2] = {Int64GetDatum(state->count), Int64GetDatum((int64) state->sum)};

		if (average)
			return PointerGetDatum(construct_array(pair, 2, INT8OID, sizeof(int64),
												   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
		*isnull = state->count == 0;
		return pair[1];
	}
	*isnull = state->count == 0;
	if (*isnull)
		return (Datum) 0;
	if (aggregate->type == INT8OID)
	{
		/*
		 * as many values as there were, with the same sum: floor(avg) or one
		 * more
		 */
		int64		each = (int64) (state->sum / state->count);
		int64		more;

		if ((int128) each * state->count > state->sum)
			each--;
		more = (int64) (state->sum - (int128) each * state->count);
		total = lsm_aggregate_copies(aggregates, int8_avg_accum, int8_avg_combine,
									 Int64GetDatum(each), state->count - more);
		if (more > 0)
			total = lsm_aggregate_call(aggregates, int8_avg_combine, total, false,
									   lsm_aggregate_copies(aggregates, int8_avg_accum,
															int8_avg_combine,
															Int64GetDatum(each + 1), more),
									   false);
		return lsm_aggregate_call(aggregates, int8_avg_serialize, total, false, 0, true);
	}
	/* the sum, and zeroes for the other values */
	total = lsm_aggregate_call(aggregates, numeric_avg_accum, 0, true,
							   lsm_aggregate_total(aggregates, aggregate, state), false);
	if (state->count > 1)
		total = lsm_aggregate_call(aggregates, numeric_avg_combine, total, false,
								   lsm_aggregate_copies(aggregates, numeric_avg_accum,
														numeric_avg_combine,
														NumericGetDatum(int64_to_numeric(0)),
														state->count - 1), false);
	return lsm_aggregate_call(aggregates, numeric_avg_serialize, total, false, 0, true);
}

static Datum
lsm_aggregate_sum_result(LsmAggregates *aggregates, LsmAggregate *aggregate,
						 LsmAggregateState *state, bool average, bool *isnull)
{
	Datum		total;

	*isnull = state->count == 0;
	if (*isnull)
		return (Datum) 0;
	if (!average && (aggregate->type == INT2OID || aggregate->type == INT4OID))
		return Int64GetDatum((int64) state->sum);
	total = lsm_aggregate_total(aggregates, aggregate, state);
	return !average ? total :
		DirectFunctionCall2(numeric_div, total, NumericGetDatum(int64_to_numeric(state->count)));
}

/* What the server makes of the transition's value. */
static Datum
lsm_aggregate_final(LsmAggregates *aggregates, LsmAggregateResult *result,
					LsmAggregateState *state, bool *isnull)
{
	LOCAL_FCINFO(call, 1);
	Datum		value;

	*isnull = state->isnull;
	if (!OidIsValid(result->final))
		return state->value;
	if (state->isnull && result->final_info.fn_strict)
		return (Datum) 0;
	InitFunctionCallInfoData(*call, &result->final_info, 1, InvalidOid, aggregates->context_node,
							 NULL);
	call->args[0].value = state->value;
	call->args[0].isnull = state->isnull;
	value = FunctionCallInvoke(call);
	*isnull = call->isnull;
	return value;
}

Datum
lsm_aggregates_result(LsmAggregates *aggregates, LsmAggregateState *states, int number,
					  bool *isnull)
{
	LsmAggregateResult *result = &aggregates->results[number];
	LsmAggregate *aggregate = aggregates->all[result->aggregate];
	LsmAggregateState *state = &states[result->aggregate];

	*isnull = false;
	switch (aggregate->kind)
	{
		case LSM_AGG_COUNT_ROWS:
		case LSM_AGG_COUNT:
			return Int64GetDatum(state->count);
		case LSM_AGG_SUM:
			if (result->partial)
				return lsm_aggregate_partial_sum(aggregates, aggregate, state, result->average,
												 isnull);
			return lsm_aggregate_sum_result(aggregates, aggregate, state, result->average,
											isnull);
		default:
			return lsm_aggregate_final(aggregates, result, state, isnull);
	}
}
