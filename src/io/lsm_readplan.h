/*-------------------------------------------------------------------------
 *
 * lsm_readplan.h
 *	  Which requests read the blocks that are wanted: a pure function.
 *
 * Pages are numbered as in the segment; extents say where in the main fork they
 * lie.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_READPLAN_H
#define LSM_READPLAN_H

#include "lsm.h"

#include "lsm_page.h"

/* A block that is wanted; neighbours may share a page. */
typedef struct LsmReadWant
{
	uint32		first_page;
	uint32		last_page;
	bool		cached;			/* some cache has it: not to be read */
} LsmReadWant;

typedef struct LsmReadLimits
{
	uint32		max_pages;		/* of a run of several blocks; 0: one run a
								 * block */
	uint32		gap_pages;		/* read over for nothing between two blocks,
								 * at most */
} LsmReadLimits;

/* What the kernel is asked for: pages that lie together in one file. */
typedef struct LsmReadRequest
{
	uint32		page;
	uint32		npages;
	BlockNumber block;			/* of the first page */
} LsmReadRequest;

/* Pages that are read into memory together, by one request if they lie together. */
typedef struct LsmReadRun
{
	uint32		page;
	uint32		npages;
	int			first_want;		/* what it covers, cached ones included */
	int			nwants;
	int			nmissing;		/* of them, not cached */
	int			first_request;
	int			nrequests;
} LsmReadRun;

typedef struct LsmReadPlan
{
	int			nruns;
	int			maxruns;
	LsmReadRun *runs;
	int			nrequests;
	int			maxrequests;
	LsmReadRequest *requests;
} LsmReadPlan;

/*
 * Plan to read the wants that are not cached; they come in the order of their
 * pages.  The plan's arrays are palloc'd, or those of an earlier plan.  False: a
 * page lies outside of the extents.
 */
extern bool lsm_readplan_make(LsmReadPlan *plan, const LsmReadWant *wants, int nwants,
							  const LsmExtent *extents, int nextents,
							  const LsmReadLimits *limits);

#endif							/* LSM_READPLAN_H */
