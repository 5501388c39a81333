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
#include "lsm_blockpin.h"
#include "lsm_iostat.h"
#include "lsm_manifest.h"
#include "lsm_segment.h"
#include "lsm_sharedcache.h"
#include "lsm_store_cache.h"
#include "lsm_table.h"
#include "storage/buf.h"

/* ---- opened segments (lsm_opensegment.c) ---- */

/* Memory of opened segments (kB); settable for tests. */
extern int	lsm_debug_reader_memory;

/*
 * The reader of a segment that the newest view has, opened if need be.  NULL:
 * the view is no longer the newest; get it again.  The pointer is good until
 * the next call.
 */
extern LsmSegmentReader *lsm_reader_get(Relation rel, LsmTable *table,
										const LsmManifestEntry *entry);

/*
 * The same for who wants what the segment has of one root: it may be a part that is opened,
 * without zones, filter and lists, with as much of the block index as finds that root.
 */
extern LsmSegmentReader *lsm_reader_get_for_root(Relation rel, LsmTable *table,
												 const LsmManifestEntry *entry, LsmTid root);

/*
 * Has a cold segment the row with that root?  Decided by what is local.  False also
 * if *stale: the view is no longer the newest.
 */
extern bool lsm_reader_has_root(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
								LsmTid root, bool *stale);

/* The roots of a cold segment, as its local list has them (palloc'd); NULL as above. */
extern LsmTid *lsm_reader_roots(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
								uint64 *n);

/*
 * The roots of a dead list, NULL if it has none.  False: the view is not the newest.  A flush may
 * make one of several that have no more roots than that, at any time: so they are read with
 * gen_lock held shared.
 */
#define LSM_DEAD_LIST_ROOTS		65536

extern bool lsm_reader_dead_list(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
								 LsmTid **roots, uint64 *n);

/*
 * The same of the list with that uid, however often edits of others, which loads make all the time,
 * come between.  False: it has gone.
 */
extern bool lsm_reader_dead_list_of(Relation rel, LsmTable *table, uint64 uid, LsmTid **roots,
									uint64 *n);

/* Raise that a segment is damaged, where its reader did not find it. */
pg_noreturn extern void lsm_segment_corrupt_entry(Relation rel, const LsmManifestEntry *entry,
												  const char *what);

/* ---- decoded blocks (lsm_blockcache.c) ---- */

/* A block in the cache; pinned while pinned.count > 0. */
typedef struct LsmCachedBlock
{
	uint64		uid;			/* hash key: segment */
	uint32		blockno;		/* hash key: block */
	uint32		pad;
	/* first what every use looks at, so that it is in few lines of cache */
	LsmBlock   *block;
	LsmPinned	pinned;
	uint32		npages;			/* that the block lies on */
	const char *shared;			/* where its bytes are in shared memory, or
								 * NULL */
	LsmCachePin pin;			/* of those, while it is pinned */
	bool		stored;			/* those are as stored, not expanded */
	bool		used;			/* since it was looked at in the list last */
	bool		passing;		/* only scans have asked for it */
	bool		borrowed;		/* in no hash table, see lsm_blockborrow.c */
	bool		expands;		/* if chunks are decompressed, for all sessions */
	bool		no_rows;		/* it is not one for a row block, as was found */
	uint8		refused;		/* none was made: 1, and rows read since */
	Size		memory;
	dlist_node	lru;
} LsmCachedBlock;

/* Pin a block, reading it if need be, for the sake of one row.  NULL as above. */
extern LsmCachedBlock *lsm_block_pin(Relation rel, LsmTable *table,
									 const LsmManifestEntry *entry, uint32 blockno);

/* A block is perhaps going to be pinned; only a hint. */
extern void lsm_block_foresee_pin(uint64 uid, uint32 blockno);

/* The same for another purpose. */
extern LsmCachedBlock *lsm_block_pin_for(Relation rel, LsmTable *table,
										 const LsmManifestEntry *entry, uint32 blockno,
										 LsmReaderKind kind);

/* The same by who goes through many, and tells of the next ones. */
struct LsmAheadFeed;
extern LsmCachedBlock *lsm_block_pin_ahead(Relation rel, LsmTable *table,
										   const LsmManifestEntry *entry, uint32 blockno,
										   struct LsmAheadFeed *feed);

/* Does this backend have it decoded? */
extern bool lsm_block_is_local(uint64 uid, uint32 blockno);

/* And with its bytes, which nobody can take away: its own, or pinned in shared memory? */
extern bool lsm_block_is_own(uint64 uid, uint32 blockno);

/* Is it decoded, or are its rows in shared memory, each to be had by itself (lsm_rowblock.c)? */
extern bool lsm_block_rows_at_hand(uint64 uid, uint32 blockno);

/* Pin one that is pinned once more. */
extern LsmCachedBlock *lsm_block_repin(LsmCachedBlock *cached);

/*
 * Rows with these roots (LSM_FORESEEN at most) are going to be fetched, of which n columns
 * will be asked for (from 0): have the processor fetch the memory for all of them at a time.
 * Returns those that seem to be in row blocks, of which no more than the beginning is fetched.
 */
#define LSM_FORESEEN			32
extern int	lsm_blocks_foresee(LsmTable *table, const LsmTid *roots, int nroots,
							   const int16 *asked, int n, struct LsmRowsForeseen *inrows);

/* Give a pin back; one that has been taken away with its owner is ignored. */
extern void lsm_block_unpin(LsmCachedBlock *cached, LsmPinHolder holder);

/* The same by who has pinned the block a moment ago, and has been in no other owner since. */
static inline void
lsm_block_unpin_now(LsmCachedBlock *cached)
{
	lsm_block_unpin(cached, lsm_pin_holder());
}

extern void lsm_blockcache_subxact_abort(void);
extern void lsm_blockcache_xact_end(void);

/* ---- bytes of blocks (lsm_blockfetch.c) ---- */

/*
 * Read the bytes of a block, for the segment's reader to copy or decode next.  False:
 * the view is no longer the newest.
 */
extern bool lsm_block_preload(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
							  uint32 blockno, struct LsmAheadFeed *feed);

/* How blocks of cold segments are looked for in the disk cache. */
extern LsmStoreCacheUse lsm_block_disk_use(LsmReaderKind kind);

/* ---- pages of segments (lsm_segpages.c) ---- */

/* Read bytes of a segment; false if a page does not prove to be the segment's. */
extern bool lsm_segpages_read(Relation rel, const LsmManifestEntry *entry,
							  uint64 offset, Size len, char *buf);

/* May the table be read past shared buffers? */
extern bool lsm_segpages_are_direct(Relation rel);

/*
 * The same past shared buffers.  True: every page has proved, but only a checksum
 * tells whether none was read while it was written.
 */
extern bool lsm_segpages_read_direct(Relation rel, const LsmManifestEntry *entry,
									 LsmReaderKind kind, uint64 offset, Size len, char *buf);

/* Copy bytes from pages that have been read so; the first is that page of the segment. */
extern bool lsm_segpages_take(Relation rel, const LsmManifestEntry *entry, LsmReaderKind kind,
							  const char *pages, uint32 first_page, uint64 offset, Size len,
							  char *buf);
extern void lsm_segpages_count(Relation rel, uint32 npages, bool hit);

/*
 * Read pages of segments with this ring of buffers, until another, or NULL, is
 * set.  Whoever sets it takes it back, also after an error.
 */
extern void lsm_segpages_set_ring(BufferAccessStrategy ring);

/* How many pages hold these bytes. */
static inline uint32
lsm_segpages_span(uint64 offset, uint64 len)
{
	return (uint32) ((offset + len - 1) / LSM_PAGE_PAYLOAD - offset / LSM_PAGE_PAYLOAD) + 1;
}

extern BlockNumber lsm_segpages_block_at(int nextents, const LsmExtent *extents, uint64 offset);

/* New pages in one WAL record: at most so many. */
#define LSM_PAGE_BATCH			32

extern void lsm_pages_begin(Relation rel);
extern void lsm_pages_log(Relation rel, const Buffer *buffers, int n);

/* A sink that writes a new segment's pages. */
typedef struct LsmPageSink LsmPageSink;
extern uint32 lsm_extent_pages(int nextents, uint32 npages, uint32 expected, int *unexpected,
							   uint32 *least);
extern LsmPageSink *lsm_pagesink_create(Relation rel, LsmTable *table, uint16 owner,
										uint32 expected_pages);
extern LsmSegmentSink *lsm_pagesink_sink(LsmPageSink *sink);
extern uint64 lsm_pagesink_uid(LsmPageSink *sink);
extern void lsm_pagesink_continue(LsmPageSink *sink, uint64 uid, uint32 first_page,
								  uint32 npages);

/* From now on: put blocks into the block cache, too? */
extern void lsm_pagesink_keep(LsmPageSink *sink, bool keep);

/* Write what is left and fill in uid, extents and nextents of the entry. */
extern void lsm_pagesink_finish(LsmPageSink *sink, LsmManifestEntry *entry);

/* Bytes of compacted segments written by this process that no pause was made for. */
extern uint64 lsm_bytes_to_pace;

/* Give up a sink that nothing has been written to. */
extern void lsm_pagesink_abandon(LsmPageSink *sink);

#endif							/* LSM_BLOCKCACHE_H */
