/*-------------------------------------------------------------------------
 *
 * lsm_scan_increment.c
 *	  Reading increments ahead of scans.
 *
 * A scan goes through the base segments, and asks each increment for the roots of every
 * unit.  These ascend as units do, so the blocks of an increment are read in their order,
 * too: each of the first few increments that are asked has a feed of its own, which
 * tells its blocks up to the end of the scan's range.  It costs a small window only, as
 * there may be many of them.  Where units are passed over, blocks of increments may be
 * told that nobody asks for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_am.h"
#include "lsm_blockcache.h"

/* So many increments are read ahead, */
#define LSM_SCAN_INCREMENTS		32

/* with windows of so many bytes. */
#define LSM_SCAN_INCREMENT_BYTES	((Size) 1024 * 1024)

typedef struct LsmScanIncrement
{
	LsmSegmentFeed ahead;
	uint64		uid;			/* of the segment */
	LsmTid		last;			/* the end of the range, */
	uint32		end;			/* and the block behind it */
	struct LsmScanIncrement *more;
} LsmScanIncrement;

/* NULL: there are too many. */
static LsmScanIncrement *
lsm_scan_increment_get(LsmScan scan, uint64 uid)
{
	LsmScanIncrement **at = &scan->increments;
	int			n = 0;

	for (; *at != NULL; at = &(*at)->more, n++)
		if ((*at)->uid == uid)
			return *at;
	if (n >= LSM_SCAN_INCREMENTS)
		return NULL;
	*at = MemoryContextAllocZero(GetMemoryChunkContext(scan), sizeof(LsmScanIncrement));
	(*at)->ahead.feed.most = LSM_SCAN_INCREMENT_BYTES;
	(*at)->uid = uid;
	return *at;
}

/* Up to which block the range of the scan reaches; false: the view is old. */
static bool
lsm_scan_increment_limit(LsmScan scan, LsmScanIncrement *increment, const LsmManifestEntry *entry)
{
	LsmSegmentReader *reader;

	if (increment->last == scan->end)
		return true;
	reader = lsm_reader_get(scan->base.rs_rd, scan->table, entry);
	if (reader == NULL)
		return false;
	increment->last = scan->end;
	increment->end = Min(lsm_segment_find_block(reader, scan->end) + 1,
						 lsm_segment_reader_blocks(reader));
	return true;
}

LsmCachedBlock *
lsm_scan_pin_increment(LsmScan scan, const LsmManifestEntry *entry, uint32 blockno)
{
	LsmScanIncrement *increment = lsm_scan_increment_get(scan, entry->uid);

	if (increment == NULL)
		return lsm_block_pin_for(scan->base.rs_rd, scan->table, entry, blockno,
								 scan->feed.kind);
	if (!lsm_scan_increment_limit(scan, increment, entry))
		return NULL;
	return lsm_block_pin_ahead(scan->base.rs_rd, scan->table, entry, blockno,
							   lsm_segment_feed(&increment->ahead, scan->feed.kind, entry,
												blockno, increment->end));
}

void
lsm_scan_end_increments(LsmScan scan)
{
	LsmScanIncrement *increment = scan->increments;

	while (increment != NULL)
	{
		LsmScanIncrement *more = increment->more;

		lsm_ahead_end(&increment->ahead.feed);
		pfree(increment);
		increment = more;
	}
	scan->increments = NULL;
}
