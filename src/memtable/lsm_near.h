/*-------------------------------------------------------------------------
 *
 * lsm_near.h
 *	  Root pages for rows that move: which one, by where the row belongs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_NEAR_H
#define LSM_NEAR_H

#include "lsm_table.h"

/* Where a row belongs. */
typedef struct LsmNeighbour
{
	LsmTid		root;			/* that it had; LSM_INVALID_TID: not known */
	bool		comes;			/* it is inserted, after this transaction has deleted some */
	bool		has_key;
	int64		key;			/* in the order of the primary key */
} LsmNeighbour;

/* A search for a page with room. */
typedef struct LsmNearSearch
{
	Size		len;			/* of the row */
	uint32		batch;
	uint32		span;			/* where the row belongs, */
	uint32		tried;			/* and how many spans, from there on, were looked at */
	uint32		at;				/* the last one, */
	uint32		page;			/* and its page */
	bool		given;			/* which is the row's, as far as is known */
	BlockNumber block;
	BlockNumber lb;
	bool		fresh;			/* who asks for it has to begin it */
} LsmNearSearch;

/*
 * Where does a row belong that had that root, or, comes, is inserted after this transaction has
 * deleted rows?  False: that is not worth knowing.  No LWLock is held.
 */
extern bool lsm_near_find(Relation rel, LsmTable *table, TupleTableSlot *slot, LsmTid root,
						  bool comes, LsmNeighbour *row);

/*
 * Begin to look for a page for a row of len bytes, each time that it is to be appended.  False: any
 * open page will do.  gen_lock is held shared, from here on until the page is locked.
 */
extern bool lsm_near_begin(LsmTable *table, const LsmNeighbour *row, Size len,
						   LsmNearSearch *search);

/* The next page that may have room.  False: there is none, any open page will do. */
extern bool lsm_near_next(LsmTable *table, LsmNearSearch *search);

/* It has none, and hardly for any other row; another: its span gets one, if there are any. */
extern void lsm_near_full(LsmTable *table, LsmNearSearch *search, bool another);

/* Make the next batch of pages.  No LWLock is held. */
extern void lsm_near_make(Relation rel, LsmTable *table);

/* After rows were appended: if this process has found that another batch is due, make it. */
static inline void
lsm_near_end(Relation rel, LsmTable *table)
{
	if (unlikely(table->near_due))
		lsm_near_make(rel, table);
}

#endif							/* LSM_NEAR_H */
