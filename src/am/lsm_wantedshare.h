/*-------------------------------------------------------------------------
 *
 * lsm_wantedshare.h
 *	  A bitmap that the processes of a parallel scan go through together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WANTEDSHARE_H
#define LSM_WANTEDSHARE_H

#include "lsm.h"

#include "access/htup_details.h"
#include "nodes/tidbitmap.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/dsa.h"

typedef enum LsmWantedState
{
	LSM_WANTED_NONE,			/* nobody has begun to make the bitmap */
	LSM_WANTED_MAKING,
	LSM_WANTED_MADE
} LsmWantedState;

/* A page, or the end of one, that was taken from the bitmap and is nobody's yet. */
typedef struct LsmWantedRest
{
	bool		valid;
	bool		part;			/* somebody has the first of its roots */
	bool		recheck;
	BlockNumber lb;
	int			n;				/* offsets; -1: lossy */
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} LsmWantedRest;

/* In shared memory of the query. */
typedef struct LsmWantedShare
{
	slock_t		mutex;			/* guards state, bitmap and taking */
	LsmWantedState state;
	bool		taking;			/* it is somebody's turn to take a run */
	dsa_pointer bitmap;			/* when it is made: its shared iterator */
	ConditionVariable made;		/* for those who wait for it */
	ConditionVariable turn;		/* for those who wait for their turn */
	int			processes;		/* that there may be; never changes */
	/* of the process whose turn it is */
	uint64		given;			/* bytes that are to be read for runs so far */
	LsmWantedRest rest;			/* comes before those of the bitmap */
} LsmWantedShare;

extern void lsm_wantedshare_init(LsmWantedShare *share, int processes);

/* Before another scan, when no process uses it: the bitmap is given up. */
extern void lsm_wantedshare_reset(LsmWantedShare *share, dsa_area *dsa);

/*
 * Is the caller the one to make the bitmap?  Then it has to publish that.  If not, waits
 * until it is published.
 */
extern bool lsm_wantedshare_is_mine(LsmWantedShare *share);
extern void lsm_wantedshare_publish(LsmWantedShare *share, TIDBitmap *bitmap);

/*
 * Waits for the caller's turn to take a run, and returns how many bytes it should come to.
 * The turn lasts until the caller tells how many these are, or the query fails.
 */
extern uint64 lsm_wantedshare_begin_run(LsmWantedShare *share, bool cold);
extern void lsm_wantedshare_end_run(LsmWantedShare *share, uint64 bytes);

#endif							/* LSM_WANTEDSHARE_H */
