/*-------------------------------------------------------------------------
 *
 * lsm_aggregate.c
 *	  Aggregates that are computed on columns of blocks.
 *
 * Results are the server's to the last digit.  Sums of integers and of numerics are
 * exact, so the order does not matter: numbers of a block are added up as they are
 * stored, in 128 bits, and what has been fetched row by row is added by the server's
 * functions.  Sums of int2 and int4 are int8 and wrap around as the server's do.
 * Least and greatest values go through the server's functions in the order of rows,
 * for of equal numerics or floats that are written differently (1.0 and 1.00, 0 and
 * -0) it keeps the last.  Sums of floats depend on the order of all rows; they are
 * none of ours.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "lsm_aggregate.h"
#include "lsm_codec.h"
#include "lsm_select.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

/* The server's aggregates that are ours too. */
typedef struct LsmAggregateEntry
{
	Oid			function;
	LsmAggregateKind kind;
	Oid			type;
	Oid			better;			/* MIN, MAX */
} LsmAggregateEntry;

static const LsmAggregateEntry lsm_aggregates[] = {
	{F_COUNT_, LSM_AGG_COUNT_ROWS, InvalidOid, InvalidOid},
	{F_COUNT_ANY, LSM_AGG_COUNT, InvalidOid, InvalidOid},
	{F_SUM_INT2, LSM_AGG_SUM, INT2OID, InvalidOid},
	{F_SUM_INT4, LSM_AGG_SUM, INT4OID, InvalidOid},
	{F_SUM_INT8, LSM_AGG_SUM, INT8OID, InvalidOid},
	{F_SUM_NUMERIC, LSM_AGG_SUM, NUMERICOID, InvalidOid},
	{F_AVG_INT2, LSM_AGG_AVG, INT2OID, InvalidOid},
	{F_AVG_INT4, LSM_AGG_AVG, INT4OID, InvalidOid},
	{F_AVG_INT8, LSM_AGG_AVG, INT8OID, InvalidOid},
	{F_AVG_NUMERIC, LSM_AGG_AVG, NUMERICOID, InvalidOid},
	{F_MIN_INT2, LSM_AGG_MIN, INT2OID, F_INT2SMALLER},
	{F_MIN_INT4, LSM_AGG_MIN, INT4OID, F_INT4SMALLER},
	{F_MIN_INT8, LSM_AGG_MIN, INT8OID, F_INT8SMALLER},
	{F_MIN_DATE, LSM_AGG_MIN, DATEOID, F_DATE_SMALLER},
	{F_MIN_TIME, LSM_AGG_MIN, TIMEOID, F_TIME_SMALLER},
	{F_MIN_TIMESTAMP, LSM_AGG_MIN, TIMESTAMPOID, F_TIMESTAMP_SMALLER},
	{F_MIN_TIMESTAMPTZ, LSM_AGG_MIN, TIMESTAMPTZOID, F_TIMESTAMPTZ_SMALLER},
	{F_MIN_FLOAT4, LSM_AGG_MIN, FLOAT4OID, F_FLOAT4SMALLER},
	{F_MIN_FLOAT8, LSM_AGG_MIN, FLOAT8OID, F_FLOAT8SMALLER},
	{F_MIN_NUMERIC, LSM_AGG_MIN, NUMERICOID, F_NUMERIC_SMALLER},
	{F_MAX_INT2, LSM_AGG_MAX, INT2OID, F_INT2LARGER},
	{F_MAX_INT4, LSM_AGG_MAX, INT4OID, F_INT4LARGER},
	{F_MAX_INT8, LSM_AGG_MAX, INT8OID, F_INT8LARGER},
	{F_MAX_DATE, LSM_AGG_MAX, DATEOID, F_DATE_LARGER},
	{F_MAX_TIME, LSM_AGG_MAX, TIMEOID, F_TIME_LARGER},
	{F_MAX_TIMESTAMP, LSM_AGG_MAX, TIMESTAMPOID, F_TIMESTAMP_LARGER},
	{F_MAX_TIMESTAMPTZ, LSM_AGG_MAX, TIMESTAMPTZOID, F_TIMESTAMPTZ_LARGER},
	{F_MAX_FLOAT4, LSM_AGG_MAX, FLOAT4OID, F_FLOAT4LARGER},
	{F_MAX_FLOAT8, LSM_AGG_MAX, FLOAT8OID, F_FLOAT8LARGER},
	{F_MAX_NUMERIC, LSM_AGG_MAX, NUMERICOID, F_NUMERIC_LARGER},
};

static const LsmAggregateEntry *
lsm_aggregate_entry(Oid function)
{
	for (int i = 0; i < (int) lengthof(lsm_aggregates); i++)
		if (lsm_aggregates[i].function == function)
			return &lsm_aggregates[i];
	return NULL;
}

LsmAggregate *
lsm_aggregate_make(const Aggref *aggref, Index varno)
{
	const LsmAggregateEntry *entry = lsm_aggregate_entry(aggref->aggfnoid);
	LsmAggregate *aggregate;
	Var		   *var = NULL;

	if (entry == NULL || aggref->aggfilter != NULL || aggref->aggdistinct != NIL ||
		aggref->aggorder != NIL || aggref->aggdirectargs != NIL || aggref->agglevelsup != 0 ||
		aggref->aggsplit != AGGSPLIT_SIMPLE)
		return NULL;
	if (entry->kind != LSM_AGG_COUNT_ROWS)
	{
		var = (Var *) linitial_node(TargetEntry, aggref->args)->expr;
		while (IsA(var, RelabelType))
			var = (Var *) ((RelabelType *) var)->arg;
		if (!IsA(var, Var) || var->varno != (int) varno || var->varlevelsup != 0 ||
			var->varattno <= 0)
			return NULL;
		if (OidIsValid(entry->type) && getBaseType(var->vartype) != entry->type)
			return NULL;
	}
	aggregate = palloc0(sizeof(LsmAggregate));
	aggregate->kind = entry->kind;
	if (var != NULL)
	{
		aggregate->attnum = var->varattno;
		aggregate->type = getBaseType(var->vartype);
		get_typlenbyval(aggregate->type, &aggregate->typlen, &aggregate->typbyval);
	}
	if (OidIsValid(entry->better))
		fmgr_info(entry->better, &aggregate->better);
	aggregate->context = CurrentMemoryContext;
	return aggregate;
}

void
lsm_aggregate_reset(LsmAggregate *aggregate)
{
	if (aggregate->any && !aggregate->typbyval)
		pfree(DatumGetPointer(aggregate->value));
	aggregate->count = 0;
	aggregate->sum = 0;
	aggregate->scale = 0;
	aggregate->any_scaled = false;
	aggregate->any = false;
}

/* ---- values by the server's functions ---- */

/* Keep a value; what was kept before is given up. */
static void
lsm_aggregate_keep(LsmAggregate *aggregate, Datum value)
{
	MemoryContext caller = MemoryContextSwitchTo(aggregate->context);
	Datum		old = aggregate->value;
	bool		any = aggregate->any;

	aggregate->value = datumCopy(value, aggregate->typbyval, aggregate->typlen);
	aggregate->any = true;
	if (any && !aggregate->typbyval)
		pfree(DatumGetPointer(old));
	MemoryContextSwitchTo(caller);
}

static void
lsm_aggregate_better(LsmAggregate *aggregate, Datum value)
{
	if (aggregate->any)
		value = FunctionCall2(&aggregate->better, aggregate->value, value);
	if (!aggregate->any || aggregate->typbyval || value != aggregate->value)
		lsm_aggregate_keep(aggregate, value);
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

/* Add a numeric to what has been summed up. */
static void
lsm_aggregate_add_numeric(LsmAggregate *aggregate, Datum value)
{
	if (aggregate->any)
		value = DirectFunctionCall2(numeric_add, aggregate->value, value);
	lsm_aggregate_keep(aggregate, value);
}

/* Numbers of another scale come: put the sum of those so far with the others. */
static void
lsm_aggregate_set_scale(LsmAggregate *aggregate, int scale)
{
	if (aggregate->any_scaled && aggregate->scale != scale)
	{
		lsm_aggregate_add_numeric(aggregate,
								  lsm_aggregate_numeric(aggregate->sum, aggregate->scale));
		aggregate->sum = 0;
	}
	aggregate->scale = scale;
	aggregate->any_scaled = true;
}

static void
lsm_aggregate_value(LsmAggregate *aggregate, Datum value)
{
	aggregate->count++;
	switch (aggregate->kind)
	{
		case LSM_AGG_COUNT_ROWS:
		case LSM_AGG_COUNT:
			break;
		case LSM_AGG_SUM:
		case LSM_AGG_AVG:
			if (aggregate->type == NUMERICOID)
				lsm_aggregate_add_numeric(aggregate, value);
			else
				aggregate->sum += aggregate->type == INT2OID ? DatumGetInt16(value) :
					aggregate->type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
			break;
		case LSM_AGG_MIN:
		case LSM_AGG_MAX:
			lsm_aggregate_better(aggregate, value);
			break;
	}
}

void
lsm_aggregate_row(LsmAggregate *aggregate, TupleTableSlot *slot)
{
	bool		isnull = false;
	Datum		value = 0;

	if (aggregate->kind != LSM_AGG_COUNT_ROWS)
		value = slot_getattr(slot, aggregate->attnum, &isnull);
	if (!isnull)
		lsm_aggregate_value(aggregate, value);
}

void
lsm_aggregate_rows(LsmAggregate *aggregate, uint64 n)
{
	Assert(aggregate->kind == LSM_AGG_COUNT_ROWS);
	aggregate->count += n;
}

/* ---- blocks ---- */

/* The sum of a block's numbers fits in 128 bits, its halves' in 64. */
static int128
lsm_aggregate_sum(const int64 *values, const uint8 *mask, int rows)
{
	int64		high = 0;
	int64		low = 0;

	for (int row = 0; row < rows; row++)
	{
		int64		value = values[row] & -(int64) mask[row];

		high += value >> 32;
		low += value & 0xFFFFFFFF;
	}
	return ((int128) high << 32) + low;
}

/* The row with the least, or greatest, number; of equal ones the last. */
static int
lsm_aggregate_best(LsmAggregate *aggregate, const int64 *values, const uint8 *mask, int rows)
{
	bool		least = aggregate->kind == LSM_AGG_MIN;
	int64		best = least ? PG_INT64_MAX : PG_INT64_MIN;
	int			row;

	if (least)
	{
		for (row = 0; row < rows; row++)
			best = mask[row] && values[row] < best ? values[row] : best;
	}
	else
	{
		for (row = 0; row < rows; row++)
			best = mask[row] && values[row] > best ? values[row] : best;
	}
	for (row = rows - 1; !mask[row] || values[row] != best; row--)
		 /* it is there */ ;
	return row;
}

/* Bits of floats as numbers of their order. */
static void
lsm_aggregate_order_floats(Oid type, int64 *values, int rows)
{
	for (int row = 0; row < rows; row++)
		values[row] = lsm_float_order(type == FLOAT8OID ? DatumGetFloat8(values[row]) :
									  DatumGetFloat4((Datum) values[row]));
}

static void
lsm_aggregate_numbers(LsmAggregate *aggregate, LsmBlock *block, int64 *values,
					  const uint8 *mask, int rows, int n, int scale)
{
	Datum		value;
	bool		isnull;

	aggregate->count += n;
	switch (aggregate->kind)
	{
		case LSM_AGG_SUM:
		case LSM_AGG_AVG:
			if (aggregate->type == NUMERICOID)
				lsm_aggregate_set_scale(aggregate, scale);
			aggregate->sum += lsm_aggregate_sum(values, mask, rows);
			break;
		case LSM_AGG_MIN:
		case LSM_AGG_MAX:
			if (aggregate->type == FLOAT4OID || aggregate->type == FLOAT8OID)
				lsm_aggregate_order_floats(aggregate->type, values, rows);
			value = lsm_block_value(block, lsm_aggregate_best(aggregate, values, mask, rows),
									aggregate->attnum, &isnull);
			lsm_aggregate_better(aggregate, value);
			break;
		default:
			break;
	}
}

/* Values of a block that are not numbers in it. */
static void
lsm_aggregate_datums(LsmAggregate *aggregate, LsmBlock *block, const uint8 *mask, int rows)
{
	for (int row = 0; row < rows; row++)
	{
		bool		isnull;
		Datum		value;

		if (!mask[row])
			continue;
		value = lsm_block_value(block, row, aggregate->attnum, &isnull);
		if (!isnull)
			lsm_aggregate_value(aggregate, value);
	}
}

void
lsm_aggregate_block(LsmAggregate *aggregate, LsmBlock *block, const uint8 *mask, int n)
{
	int			rows = lsm_block_rows(block);
	int64	   *values;
	uint8	   *present;
	int			scale;

	if (aggregate->kind == LSM_AGG_COUNT_ROWS)
	{
		aggregate->count += n;
		return;
	}
	if (aggregate->attnum > lsm_block_natts(block))
		return;
	present = palloc(rows);
	memcpy(present, mask, rows);
	if (aggregate->kind == LSM_AGG_COUNT)
	{
		LsmCondition condition = {.attnum = aggregate->attnum,.kind = LSM_COND_NOT_NULL};

		aggregate->count += lsm_block_select(block, &condition, present);
		pfree(present);
		return;
	}
	values = palloc(rows * sizeof(int64));
	if (!lsm_block_numbers(block, aggregate->attnum, values, present, &scale))
		lsm_aggregate_datums(aggregate, block, mask, rows);
	else
	{
		n = 0;
		for (int row = 0; row < rows; row++)
			n += present[row];
		if (n > 0)
			lsm_aggregate_numbers(aggregate, block, values, present, rows, n, scale);
	}
	pfree(values);
	pfree(present);
}

/* ---- results ---- */

static Datum
lsm_aggregate_total(LsmAggregate *aggregate)
{
	Datum		total;

	if (aggregate->type == INT2OID || aggregate->type == INT4OID)
		return NumericGetDatum(int64_to_numeric((int64) aggregate->sum));
	if (aggregate->type != NUMERICOID)
		return lsm_aggregate_numeric(aggregate->sum, 0);
	if (!aggregate->any_scaled)
		return datumCopy(aggregate->value, false, -1);
	total = lsm_aggregate_numeric(aggregate->sum, aggregate->scale);
	return aggregate->any ? DirectFunctionCall2(numeric_add, aggregate->value, total) : total;
}

Datum
lsm_aggregate_result(LsmAggregate *aggregate, bool *isnull)
{
	*isnull = false;
	if (aggregate->kind == LSM_AGG_COUNT_ROWS || aggregate->kind == LSM_AGG_COUNT)
		return Int64GetDatum(aggregate->count);
	*isnull = aggregate->count == 0;
	if (*isnull)
		return (Datum) 0;
	switch (aggregate->kind)
	{
		case LSM_AGG_SUM:
			if (aggregate->type == INT2OID || aggregate->type == INT4OID)
				return Int64GetDatum((int64) aggregate->sum);
			return lsm_aggregate_total(aggregate);
		case LSM_AGG_AVG:
			return DirectFunctionCall2(numeric_div, lsm_aggregate_total(aggregate),
									   NumericGetDatum(int64_to_numeric(aggregate->count)));
		default:
			return datumCopy(aggregate->value, aggregate->typbyval, aggregate->typlen);
	}
}
