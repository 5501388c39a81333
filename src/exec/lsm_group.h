/*-------------------------------------------------------------------------
 *
 * lsm_group.h
 *	  Groups of rows with equal values of some columns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_GROUP_H
#define LSM_GROUP_H

#include "lsm.h"

#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "lsm_aggregate.h"
#include "lsm_segment.h"

/* No group: the row's is one of another pass. */
#define LSM_GROUP_NONE			PG_UINT16_MAX

typedef struct LsmGroupKey
{
	AttrNumber	attnum;
	int16		typlen;
	bool		typbyval;
	bool		blanks;			/* those at the end do not count */
	int			room;
	uint16	   *codes;			/* of the block's rows, by value */
} LsmGroupKey;

typedef struct LsmGroup
{
	uint32		hash;
	uint32		stamp;			/* of the last block with rows of it, */
	uint16		local;			/* and its number there */
	Datum	   *values;
	bool	   *isnull;
	LsmAggregateState *states;
} LsmGroup;

typedef struct LsmGroups
{
	int			nkeys;
	LsmGroupKey *keys;
	LsmAggregates *aggregates;
	MemoryContext context;		/* of groups, and of their states */
	Size		limit;			/* of its size */
	uint64		first_hash;		/* of groups of this pass */
	uint64		end_hash;
	uint32		n;
	uint32		slots;
	LsmGroup  **table;			/* by hash */
	LsmGroup  **all;			/* as they came */
	/* of the block */
	MemoryContext block_context;
	uint32		stamp;
	int			nlocal;
	LsmGroup  **locals;
	LsmAggregateState **states; /* of locals */
	uint16	   *group;			/* of each row */
	int			room;
	uint16	   *at;				/* by combined code */
	int			at_room;
	Datum	   *row_values;		/* of one row */
	bool	   *row_isnull;
} LsmGroups;

/* Can rows be grouped by a column, with that operator for equality? */
extern bool lsm_groups_can(Oid type, Oid collation, Oid equality);

/* Rows are grouped by these columns (list of integers; NIL: all are one group). */
extern void lsm_groups_init(LsmGroups *groups, TupleDesc tupdesc, List *columns,
							LsmAggregates *aggregates);

/* Begin with no group. */
extern void lsm_groups_reset(LsmGroups *groups);

/* Is there no memory for more groups than there are? */
extern bool lsm_groups_full(LsmGroups *groups);

/* The group of the row in a slot; NULL: another pass has it. */
extern LsmGroup *lsm_groups_find_row(LsmGroups *groups, TupleTableSlot *slot);

/*
 * Number the groups that a block's selected rows belong to, from 0, in groups->locals,
 * and say in groups->group which each row is of.  Rows of other passes are taken out of
 * selected and of the mask.  Returns how many are left.
 */
extern int	lsm_groups_map(LsmGroups *groups, LsmBlock *block, uint16 *selected, int n,
						   uint8 *mask);

#endif							/* LSM_GROUP_H */
