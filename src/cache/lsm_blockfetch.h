/*-------------------------------------------------------------------------
 *
 * lsm_blockfetch.h
 *	  The bytes of a block, as it is stored.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_BLOCKFETCH_H
#define LSM_BLOCKFETCH_H

#include "lsm.h"

#include "lsm_ahead.h"
#include "lsm_iostat.h"
#include "lsm_opensegment.h"
#include "lsm_segment.h"
#include "lsm_table.h"

/* What is known of the bytes of a block. */
typedef struct LsmFetched
{
	bool		proved;			/* their checksum has been looked at */
	bool		shared;			/* they were in shared memory */
} LsmFetched;

/*
 * Get the bytes of a block, which may have been read already (lsm_block_preload()); feed may
 * be NULL.  False: the view is not the newest.
 */
extern bool lsm_block_get_bytes(Relation rel, LsmTable *table, LsmOpenSegment *open,
								const LsmAheadPlace *place, LsmReaderKind kind,
								LsmAheadFeed *feed, char *buf, LsmFetched *fetched);

/* Count a block that was found in shared memory by somebody else. */
extern void lsm_block_count_hit(Relation rel, LsmTable *table, const LsmAheadPlace *place,
								LsmReaderKind kind);

/* Where a block lies in its segment. */
static inline void
lsm_block_locate(LsmOpenSegment *open, uint32 blockno, LsmAheadPlace *place)
{
	LsmTid		first;
	LsmTid		last;
	uint32		rows;

	place->entry = &open->source->entry;
	place->blockno = blockno;
	lsm_segment_block_info(open->reader, blockno, &first, &last, &rows, &place->offset,
						   &place->len);
}

#endif							/* LSM_BLOCKFETCH_H */
