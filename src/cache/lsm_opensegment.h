/*-------------------------------------------------------------------------
 *
 * lsm_opensegment.h
 *	  Opened segments, for those who read their blocks.
 *
 * Others ask for the reader of a segment only: lsm_blockcache.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_OPENSEGMENT_H
#define LSM_OPENSEGMENT_H

#include "lsm.h"

#include "lib/ilist.h"
#include "lsm_ahead.h"
#include "lsm_blockcache.h"
#include "lsm_manifest.h"
#include "lsm_segment.h"
#include "lsm_table.h"

/* Where the bytes of an opened segment come from. */
typedef struct LsmSource
{
	LsmSegmentSource source;	/* must be first */
	Relation	rel;			/* set for the length of a call */
	LsmManifestEntry entry;
	uint64		base;			/* where the stream begins among the pages */
	char	   *preloaded;		/* a block's bytes, in the segment's context */
	Size		preloaded_room;
	uint64		preloaded_offset;
	Size		preloaded_bytes;	/* 0: none */
	bool		preloaded_proved;
} LsmSource;

/* An opened segment of one table. */
typedef struct LsmOpenSegment
{
	uint64		uid;			/* hash key */
	LsmTable   *table;			/* hash key: a file that was moved has the same uids */
	bool		part;			/* not all of its block index need be there, and no zones */
	LsmSegmentReader *reader;
	LsmSource  *source;
	LsmSegmentReader *roots;	/* cold: list of its roots, NULL: not opened */
	LsmSource  *roots_source;
	MemoryContext context;
	Size		memory;
	dlist_node	lru;

	/*
	 * Where scans have last met each block in the cache of decoded blocks, or
	 * NULL.  As with recent blocks, what is there may be another one by now.
	 */
	LsmCachedBlock **met;
} LsmOpenSegment;

/*
 * A segment that the newest view has, opened if need be.  NULL: the view is no longer the
 * newest.  Good until the next call.
 */
extern LsmOpenSegment *lsm_segment_get(Relation rel, LsmTable *table,
									   const LsmManifestEntry *entry);

/*
 * The same for who wants that block only: it may be a part that is opened, which has what the
 * block index says of that block.
 */
extern LsmOpenSegment *lsm_segment_get_for_block(Relation rel, LsmTable *table,
												 const LsmManifestEntry *entry, uint32 blockno);

/* The same if all of it is open, else NULL. */
extern LsmOpenSegment *lsm_segment_opened(LsmTable *table, const LsmManifestEntry *entry);

/*
 * An opened segment, or a part of one, if it is among those that were used last; else NULL.
 * The other has what its block index says of the block.
 */
extern LsmOpenSegment *lsm_segment_at_hand(uint64 uid);
extern LsmOpenSegment *lsm_segment_at_hand_for_block(uint64 uid, uint32 blockno);

/* Do not close this one, until another one is held: a block of it is read. */
extern void lsm_segment_hold(LsmOpenSegment *open);

/* Where the metadata of a segment is, as far as its entry tells: generously. */
extern void lsm_segment_meta_place(const LsmManifestEntry *entry, LsmAheadPlace *place);

extern void lsm_segment_make_met(LsmOpenSegment *open);

/* The array of blocks that scans have met of a segment. */
static inline LsmCachedBlock **
lsm_segment_met(LsmOpenSegment *open)
{
	if (unlikely(open->met == NULL))
		lsm_segment_make_met(open);
	return open->met;
}

#endif							/* LSM_OPENSEGMENT_H */
