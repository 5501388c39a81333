/*-------------------------------------------------------------------------
 *
 * lsm_ahead.h
 *	  Reading ahead of who goes through blocks in an order that is known.
 *
 * The reader owns a feed, which tells what blocks it will want next, and hands it
 * to lsm_block_pin_ahead().  Nothing else is asked of it: it may leave blocks out,
 * begin elsewhere or stop.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_AHEAD_H
#define LSM_AHEAD_H

#include "lsm.h"

#include "lsm_iostat.h"
#include "lsm_manifest.h"
#include "lsm_segment.h"
#include "lsm_table.h"

typedef struct LsmAheadFeed
{
	LsmReaderKind kind;

	/*
	 * The block after the one that was told last, or LSM_CACHE_METADATA or _BOUNDS; false:
	 * there is none, or it cannot be told now.  It may open segments, but not get
	 * a new view.  The entry is good until the next call.
	 */
	bool		(*next) (void *arg, const LsmManifestEntry **entry, uint32 *blockno);

	/* Begin again, after the block that is being pinned. */
	void		(*restart) (void *arg);
	void	   *arg;
	Size		most;			/* bytes of the window; 0: as many as may be */
	bool		sure;			/* what it tells is wanted, whatever comes before */
	bool		hint;			/* perhaps nobody comes for it: an object that is missing, or a
								 * block with wrong bytes, is left to who does */

	/* Zero at first. */
	bool		missed;			/* a block has been read without a window */
	uint64		serial;			/* of the window, if there still is one */
} LsmAheadFeed;

/* The feed of who goes through the blocks of one segment.  Zero at first. */
typedef struct LsmSegmentFeed
{
	LsmAheadFeed feed;
	const LsmManifestEntry *entry;	/* good while a block is being pinned */
	uint32		asked;			/* the block that is being pinned */
	uint32		next;			/* the one that is told next, */
	uint32		end;			/* if it comes before this one */
} LsmSegmentFeed;

/* To pin a block with, of those before the end. */
extern LsmAheadFeed *lsm_segment_feed(LsmSegmentFeed *segment, LsmReaderKind kind,
									  const LsmManifestEntry *entry, uint32 blockno, uint32 end);

/* A block of a segment, and where its bytes are in the stream. */
typedef struct LsmAheadPlace
{
	const LsmManifestEntry *entry;
	uint32		blockno;
	uint64		offset;
	uint32		len;
} LsmAheadPlace;

/*
 * Copy a block that has been read ahead, or is read now with what comes after it.
 * False: it has to be had in another way.  True: its pages have proved, as in
 * lsm_segpages_read_direct().
 */
extern bool lsm_ahead_take(Relation rel, LsmTable *table, LsmAheadFeed *feed,
						   const LsmAheadPlace *place, char *buf);

/* The reader has come to its end. */
extern void lsm_ahead_end(LsmAheadFeed *feed);

extern void lsm_ahead_xact_end(void);

#endif							/* LSM_AHEAD_H */
