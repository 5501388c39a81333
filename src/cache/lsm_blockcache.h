/*-------------------------------------------------------------------------
 *
 * lsm_blockcache.h
 *	  Opened segments and decoded blocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_BLOCKCACHE_H
#define LSM_BLOCKCACHE_H

#include "lsm.h"

#include "lib/ilist.h"
#include "lsm_manifest.h"
#include "lsm_segment.h"
#include "lsm_table.h"
#include "storage/buf.h"

/* A block in the cache; pinned while refcount > 0. */
typedef struct LsmCachedBlock
{
	uint64		uid;			/* hash key: segment */
	uint32		blockno;		/* hash key: block */
	uint32		pad;
	LsmBlock   *block;
	int			refcount;
	int			nextents;		/* of the segment: where its large values are */
	LsmExtent	extents[LSM_SEGMENT_EXTENTS];
	uint64		xact;			/* lsm_xact_number of the pins */
	Size		memory;
	uint32		npages;			/* that the block lies on */
	dlist_node	lru;			/* in the list while unpinned */
} LsmCachedBlock;

/*
 * The reader of a segment that the newest view has, opened if need be.  NULL:
 * the view is no longer the newest; get it again.  The pointer is good until
 * the next call.
 */
extern LsmSegmentReader *lsm_reader_get(Relation rel, LsmTable *table,
										const LsmManifestEntry *entry);

/*
 * The reader of a segment by its uid, also if it is retired; NULL if there is
 * no such segment.  Fills in its entry: as it was when the segment was opened, or
 * (newest) as it is.
 */
extern LsmSegmentReader *lsm_reader_find(Relation rel, LsmTable *table, uint64 uid, bool newest,
										 LsmManifestEntry *entry);

/* Pin a block, reading it if need be.  NULL as above. */
extern LsmCachedBlock *lsm_block_pin(Relation rel, LsmTable *table,
									 const LsmManifestEntry *entry, uint32 blockno);
extern LsmCachedBlock *lsm_block_repin(LsmCachedBlock *cached);

/* Give a pin back; one of an ended transaction is ignored. */
extern void lsm_block_unpin(LsmCachedBlock *cached, uint64 xact);
extern void lsm_blockcache_xact_end(void);

/* Raise that a segment is damaged, where its reader did not find it. */
pg_noreturn extern void lsm_segment_corrupt_entry(Relation rel, const LsmManifestEntry *entry,
												  const char *what);

/* ---- pages of segments (lsm_segpages.c) ---- */

/* Read bytes of a segment; false if a page does not prove to be the segment's. */
extern bool lsm_segpages_read(Relation rel, const LsmManifestEntry *entry,
							  uint64 offset, Size len, char *buf);

/*
 * Read pages of segments with this ring of buffers, until another, or NULL, is
 * set.  Whoever sets it takes it back, also after an error.
 */
extern void lsm_segpages_set_ring(BufferAccessStrategy ring);

extern BlockNumber lsm_segpages_block_at(int nextents, const LsmExtent *extents, uint64 offset);

/* New pages in one WAL record: at most so many. */
#define LSM_PAGE_BATCH			32

extern void lsm_pages_begin(Relation rel);
extern void lsm_pages_log(Relation rel, const Buffer *buffers, int n);

/* A sink that writes a new segment's pages. */
typedef struct LsmPageSink LsmPageSink;
extern LsmPageSink *lsm_pagesink_create(Relation rel, LsmTable *table, uint16 owner,
										uint32 expected_pages);
extern LsmSegmentSink *lsm_pagesink_sink(LsmPageSink *sink);
extern uint64 lsm_pagesink_uid(LsmPageSink *sink);

/* Write what is left and fill in uid, extents and nextents of the entry. */
extern void lsm_pagesink_finish(LsmPageSink *sink, LsmManifestEntry *entry);

/* Bytes of compacted segments written by this process that no pause was made for. */
extern uint64 lsm_bytes_to_pace;

/* Give up a sink that nothing has been written to. */
extern void lsm_pagesink_abandon(LsmPageSink *sink);

#endif							/* LSM_BLOCKCACHE_H */
