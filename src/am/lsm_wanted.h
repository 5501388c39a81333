/*-------------------------------------------------------------------------
 *
 * lsm_wanted.h
 *	  The roots that a bitmap tells of, in their order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WANTED_H
#define LSM_WANTED_H

#include "lsm.h"

#include "lsm_segment.h"
#include "lsm_wantedshare.h"
#include "nodes/tidbitmap.h"

typedef struct LsmWanted LsmWanted;

/* It lives in CurrentMemoryContext; the bitmap is its own from now on. */
extern LsmWanted *lsm_wanted_begin(TIDBitmap *bitmap);

/*
 * The same of a bitmap that was published: what this process gets of it.  If it has made
 * it, bitmap is that, and else NULL.
 */
extern LsmWanted *lsm_wanted_attach(LsmWantedShare *share, dsa_area *dsa, TIDBitmap *bitmap);

/*
 * Before the first look at it: up to which root a wanted one is read with those that come
 * next, and how many bytes that takes.
 */
extern void lsm_wanted_set_border(LsmWanted *wanted,
								  LsmTid (*border) (void *arg, LsmTid root, uint64 *bytes),
								  void *arg);
extern void lsm_wanted_end(LsmWanted *wanted);

/*
 * The first root from tid on that is wanted, or that may be (of a lossy page);
 * LSM_INVALID_TID: there is none.  Pages of the bitmap before it are given up, so tid
 * never becomes less.
 */
extern LsmTid lsm_wanted_next(LsmWanted *wanted, LsmTid tid);

/*
 * The roots from lo to hi, if these are max at most, and none of a lossy page; -1: there
 * are others.
 */
extern int	lsm_wanted_list(LsmWanted *wanted, LsmTid lo, LsmTid hi, LsmTid *roots, int max);

extern bool lsm_wanted_has(LsmWanted *wanted, LsmTid root);

/* Set the mask, which is 0, for rows of the block from lo to hi; returns for how many. */
extern int	lsm_wanted_mask(LsmWanted *wanted, LsmBlock *block, LsmTid lo, LsmTid hi,
							uint8 *mask);

/* The scan has come to the roots up to hi: must the bitmap's condition be checked again? */
extern bool lsm_wanted_enter(LsmWanted *wanted, LsmTid hi);

/*
 * Add pages of the bitmap that the scan has come to since it was asked last, and runs of
 * them that it has taken.
 */
extern void lsm_wanted_count(LsmWanted *wanted, uint64 *exact, uint64 *lossy, uint64 *runs);

/*
 * For reading ahead: the first root from tid on, and the last one to which all are wanted
 * then; LSM_INVALID_TID: none is known.  tid does not become less, until it is told again.
 */
extern LsmTid lsm_wanted_tell(LsmWanted *wanted, LsmTid tid, LsmTid *last);
extern void lsm_wanted_tell_again(LsmWanted *wanted);

/*
 * The next roots from tid on, max of them at most, of pages that have been taken, or, of a
 * bitmap that is not shared, can be.  Returns how many; those behind a lossy page are not known.
 */
extern int	lsm_wanted_peek(LsmWanted *wanted, LsmTid tid, LsmTid *roots, int max);

/* What was told lies in a store: so it takes long, and much can be asked for at once. */
extern void lsm_wanted_set_cold(LsmWanted *wanted);

#endif							/* LSM_WANTED_H */
