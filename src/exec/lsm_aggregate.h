/*-------------------------------------------------------------------------
 *
 * lsm_aggregate.h
 *	  Aggregates that are computed on columns of blocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_AGGREGATE_H
#define LSM_AGGREGATE_H

#include "lsm.h"

#include "executor/tuptable.h"
#include "fmgr.h"
#include "lsm_segment.h"
#include "nodes/primnodes.h"

typedef enum LsmAggregateKind
{
	LSM_AGG_COUNT_ROWS,
	LSM_AGG_COUNT,
	LSM_AGG_SUM,
	LSM_AGG_AVG,
	LSM_AGG_MIN,
	LSM_AGG_MAX
} LsmAggregateKind;

typedef struct LsmAggregate
{
	LsmAggregateKind kind;
	AttrNumber	attnum;			/* 0: of rows */
	Oid			type;			/* of the column, domains taken off */
	int64		count;			/* values */
	/* SUM and AVG */
	int128		sum;			/* of integers, or of numerics of one scale */
	int			scale;
	bool		any_scaled;
	/* MIN and MAX, and what was summed up of numerics in other ways */
	bool		any;
	Datum		value;
	FmgrInfo	better;			/* MIN, MAX: the server's, (old, new) */
	int16		typlen;
	bool		typbyval;
	MemoryContext context;		/* of value */
} LsmAggregate;

/* The aggregate that an Aggref over columns of varno is; NULL if it is none of ours. */
extern LsmAggregate *lsm_aggregate_make(const Aggref *aggref, Index varno);

extern void lsm_aggregate_reset(LsmAggregate *aggregate);

/*
 * Add rows of a block, those with mask[row] = 1, of which there are n.  The column, if it has
 * one, must be among those that the block stores, or be null in all of them.
 */
extern void lsm_aggregate_block(LsmAggregate *aggregate, LsmBlock *block, const uint8 *mask, int n);

/* Add the row in a slot; so many rows of which only the number is known. */
extern void lsm_aggregate_row(LsmAggregate *aggregate, TupleTableSlot *slot);
extern void lsm_aggregate_rows(LsmAggregate *aggregate, uint64 n);

/* The result, in CurrentMemoryContext. */
extern Datum lsm_aggregate_result(LsmAggregate *aggregate, bool *isnull);

#endif							/* LSM_AGGREGATE_H */
