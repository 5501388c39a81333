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
#include "lsm_expression.h"
#include "lsm_floats.h"
#include "lsm_predicate.h"
#include "lsm_segment.h"
#include "lsm_touch.h"
#include "nodes/execnodes.h"
#include "nodes/primnodes.h"

typedef enum LsmAggregateKind
{
	LSM_AGG_COUNT_ROWS,
	LSM_AGG_COUNT,
	LSM_AGG_SUM,				/* count and sum of integers or numerics */
	LSM_AGG_BEST,				/* least or greatest number */
	LSM_AGG_FLOAT,				/* sums of floats, in the order of rows */
	LSM_AGG_OTHER				/* by the server's functions, value by value */
} LsmAggregateKind;

/* What has been added up for one group. */
typedef struct LsmAggregateState
{
	int64		count;			/* rows, or values */
	int128		sum;			/* SUM: of integers, or of numerics of a scale */
	int			scale;
	bool		fresh;			/* the transition has had no value yet */
	bool		isnull;
	Datum		value;			/* of the server's transition function */
	bool		bounded;		/* BEST: value is this number of that scale */
	int64		best;
} LsmAggregateState;

typedef struct LsmAggregate
{
	LsmAggregateKind kind;
	int			number;			/* among the node's */
	bool		ordered;		/* the order of rows matters */
	bool		least;			/* BEST: else the greatest */
	Oid			type;			/* of the argument, domains taken off */
	AttrNumber	attnum;			/* the argument is that column, or 0 */
	LsmExpression *expression;	/* it has numbers, or NULL */
	Node	   *arg;			/* NULL: rows */
	Node	   *filter;
	bool		exact;			/* bounds of zone maps are values, as they are
								 * written */
	FmgrInfo   *compare;		/* BEST of a column: of bounds, or NULL */
	int			nfilters;
	LsmPredicate **filters;		/* the same */
	LsmTouch	columns;		/* of argument and filter */
	/* when it runs */
	ExprState  *arg_state;
	ExprState  *filter_state;
	uint8	   *use;			/* rows of the block with filter and value */
	bool		summed;			/* all rows of the block have been added */
	uint8	   *use_memory;
	int			room;
	/* the server's transition function */
	FmgrInfo	transition;
	FunctionCallInfo call;
	Oid			transtype;
	int16		translen;
	bool		transbyval;
	bool		initial_null;
	Datum		initial;
} LsmAggregate;

/* The result of an Aggref: of an aggregate, which some of them may share. */
typedef struct LsmAggregateResult
{
	int			aggregate;		/* its number */
	Oid			function;
	bool		average;
	bool		partial;		/* the server's transition state is asked for */
	Oid			final;			/* the function that makes the result of a
								 * state */
	FmgrInfo	final_info;
} LsmAggregateResult;

/* All aggregates of a node. */
typedef struct LsmAggregates
{
	LsmExpressions expressions;
	int			n;
	int			max;
	LsmAggregate **all;
	int			nresults;
	LsmAggregateResult *results;
	bool		ordered;
	/* when they run */
	fmNodePtr	context_node;	/* tells transition functions where states
								 * live */
	fmNodePtr	result_node;	/* the same of states made for a result only */
	MemoryContext scratch;		/* of bounds */
	int64	   *counts;			/* of the groups of a block: of all rows, */
	int64	   *use_counts;		/* and of those that an aggregate uses */
	bool		counted;		/* the former are those of the rows at hand */
	int64	   *sums;
	int128	   *wide_sums;
	int64	   *bests;
	int		   *best_rows;
	int64	   *order;
	LsmFloatSum *floats;
	int			room;
} LsmAggregates;

/* Rows of a block that are to be added. */
typedef struct LsmAggregateRows
{
	LsmBlock   *block;
	int			rows;			/* of the block */
	int			from;			/* these of them, */
	int			to;
	const uint8 *mask;			/* with mask[row] = 1 */
	bool		all;			/* that is all of them */
	const uint16 *selected;		/* their numbers */
	int			n;
	int			ngroups;
	const uint16 *group;		/* of each row; NULL: there is one only */
	LsmAggregateState **states; /* of each group, for all aggregates */
	const Bitmapset *touched;	/* aggregates that are not given the rows of */
	const uint8 *kept;			/* this mask, as their columns differ there */
} LsmAggregateRows;

/*
 * Prepare for at most max Aggrefs, and add one, whose columns are those of varno: false if it
 * is none of ours.
 */
extern void lsm_aggregates_init(LsmAggregates *aggregates, int max);
extern bool lsm_aggregates_add(LsmAggregates *aggregates, const Aggref *aggref, Index varno);

/* Before the first row: states live in that context. */
extern void lsm_aggregates_begin(LsmAggregates *aggregates, PlanState *ps, TupleDesc tupdesc,
								 MemoryContext context);
extern void lsm_aggregates_start(LsmAggregates *aggregates, ExprContext *econtext);

/*
 * What zone maps tell.  Can it be that no block has to be read (for the planner: perhaps),
 * or that some may be left out?  Are all results known of a block whose rows all count, without reading it; what
 * they are; and can it be left out because it has no value better than those there are?
 */
extern bool lsm_aggregates_may_use_zones(const LsmAggregates *aggregates);
extern bool lsm_aggregates_use_zones(LsmAggregates *aggregates, bool *bounds, bool *beatable);
extern bool lsm_aggregates_known(LsmAggregates *aggregates, LsmSegmentReader *reader,
								 uint32 blockno);
extern void lsm_aggregates_take(LsmAggregates *aggregates, LsmAggregateState *states,
								LsmSegmentReader *reader, uint32 blockno, uint32 rows);
extern bool lsm_aggregates_beaten(LsmAggregates *aggregates, LsmAggregateState *states,
								  LsmSegmentReader *reader, uint32 blockno);

/* Those that look at a column that was touched. */
extern Bitmapset *lsm_aggregates_touched(LsmAggregates *aggregates, const LsmTouch *touched,
										 int natts);

/* States of a group, without a row. */
extern void lsm_aggregates_clear(LsmAggregates *aggregates, LsmAggregateState *states);

/*
 * Add rows of a block: begin with it, then add ranges of rows.  The columns must be
 * among those that the block stores, or be null in all of them.  False: an aggregate
 * has to be given the rows of the range one by one; lsm_aggregates_add_row() says which.
 */
extern void lsm_aggregates_begin_block(LsmAggregates *aggregates, LsmAggregateRows *rows);
extern Bitmapset *lsm_aggregates_add_rows(LsmAggregates *aggregates, LsmAggregateRows *rows);

/* Add the row in the slot of econtext; only: to these aggregates (NULL: to all). */
extern void lsm_aggregates_add_row(LsmAggregates *aggregates, LsmAggregateState *states,
								   ExprContext *econtext, const Bitmapset *only);

/* The result with that number, in CurrentMemoryContext. */
extern Datum lsm_aggregates_result(LsmAggregates *aggregates, LsmAggregateState *states,
								   int number, bool *isnull);

#endif							/* LSM_AGGREGATE_H */
