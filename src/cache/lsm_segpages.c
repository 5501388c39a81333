/*-------------------------------------------------------------------------
 *
 * lsm_segpages.c
 *	  A segment's byte stream laid over pages of the main fork.
 *
 * Every page carries the segment's uid and its number in the segment.  Pages are
 * written once, through shared buffers, each complete when it is first dirtied
 * and logged as a full page, in extents that were PENDING before the first of
 * them was written (I3, I6).
 *
 * Blocks and metadata are read from the file past shared buffers, which are better
 * used for pages that change: what a segment holds never does, and it is kept in
 * the block cache, in the length that it is stored in.  The file may be behind,
 * until a new page is written out or after recovery, and a page may be read while
 * it is being written.  So a page counts only if its stamps prove it, and what is
 * made of several pages only with its checksum (I16); else shared buffers have the
 * last word.  Large values, of which slices have no checksum, are read through
 * shared buffers only, and so are temporary tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "lib/stringinfo.h"
#include "lsm_blockcache.h"
#include "lsm_reader.h"
#include "lsm_sharedcache.h"
#include "lsm_stop.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#define LSM_SMALL_EXTENT		512		/* pages by which a segment may grow to twice its size */
#define LSM_LATE_EXTENT			2048	/* least pages of a segment's later extents */
#define LSM_LAST_EXTENTS		3		/* these make it many times as large */
#define LSM_FREE_EXTENT			2048	/* a free extent of so many pages is good enough */
#define LSM_KEPT_PAGES			64	/* of the memory that blocks are read into */

uint64		lsm_bytes_to_pace = 0;

struct LsmPageSink
{
	LsmSegmentSink sink;		/* must be first */
	Relation	rel;
	LsmTable   *table;
	uint16		owner;
	uint64		uid;
	BufferAccessStrategy strategy;
	uint32		expected_pages;
	uint32		coming_pages;	/* of a large value that comes next, or 0 */
	uint32		first_page;		/* number of the first one in the segment */
	uint32		npages;			/* pages written */
	int			unexpected;		/* extents given after all those, at most 3 */
	int			nextents;
	LsmExtent	extents[LSM_SEGMENT_EXTENTS];
	uint32		extent_used;	/* pages used of the last extent */
	char	   *pending;		/* payloads not yet written */
	Size		npending;		/* bytes */
	bool		keep;			/* blocks go to the block cache, too */
	uint32		kept_block;		/* the one that is coming */
	Size		kept_bytes;		/* how long it is; 0: none to be kept */
	StringInfoData kept;		/* what has come of it */
};

/* While a VACUUM runs: its ring of buffers.  NULL: pages are read as usual. */
static BufferAccessStrategy lsm_read_ring;

/* The block that a byte of a segment lies in. */
BlockNumber
lsm_segpages_block_at(int nextents, const LsmExtent *extents, uint64 offset)
{
	uint32		pageno = (uint32) (offset / LSM_PAGE_PAYLOAD);

	for (int i = 0; i < nextents; i++)
	{
		if (pageno < extents[i].npages)
			return extents[i].start + pageno;
		pageno -= extents[i].npages;
	}
	return InvalidBlockNumber;
}

/* The same for a segment some of whose pages may not be local. */
static BlockNumber
lsm_segpages_entry_block(const LsmManifestEntry *entry, uint64 offset)
{
	uint64		skipped = (uint64) lsm_entry_first_page(entry) * LSM_PAGE_PAYLOAD;

	if (offset < skipped)
		return InvalidBlockNumber;
	return lsm_segpages_block_at(entry->nextents, entry->extents, offset - skipped);
}

void
lsm_segpages_set_ring(BufferAccessStrategy ring)
{
	lsm_read_ring = ring;
}

bool
lsm_segpages_read(Relation rel, const LsmManifestEntry *entry, uint64 offset, Size len, char *buf)
{
	while (len > 0)
	{
		uint32		pageno = (uint32) (offset / LSM_PAGE_PAYLOAD);
		Size		at = offset % LSM_PAGE_PAYLOAD;
		Size		n = Min(len, LSM_PAGE_PAYLOAD - at);
		BlockNumber block = lsm_segpages_entry_block(entry, offset);
		Buffer		buffer;
		bool		good;

		if (block == InvalidBlockNumber)
			return false;
		buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, lsm_read_ring);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		good = lsm_page_is(BufferGetPage(buffer), LSM_PAGE_SEGMENT, entry->uid, pageno, 0);
		if (good)
			memcpy(buf, lsm_page_content(BufferGetPage(buffer)) + at, n);
		UnlockReleaseBuffer(buffer);
		if (!good)
			return false;
		buf += n;
		offset += n;
		len -= n;
	}
	return true;
}

/* ---- past shared buffers ---- */

bool
lsm_segpages_are_direct(Relation rel)
{
	return rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP;
}

bool
lsm_segpages_take(Relation rel, const LsmManifestEntry *entry, LsmReaderKind kind,
				  const char *pages, uint32 first_page, uint64 offset, Size len, char *buf)
{
	while (len > 0)
	{
		uint32		pageno = (uint32) (offset / LSM_PAGE_PAYLOAD);
		Size		at = offset % LSM_PAGE_PAYLOAD;
		Size		n = Min(len, LSM_PAGE_PAYLOAD - at);
		Page		page = (Page) (pages + (Size) (pageno - first_page) * BLCKSZ);

		Assert(pageno >= first_page);
		if (lsm_page_is(page, LSM_PAGE_SEGMENT, entry->uid, pageno, 0) &&
			lsm_page_content_len(page) == LSM_PAGE_PAYLOAD)
			memcpy(buf, lsm_page_content(page) + at, n);
		else
		{
			if (!lsm_segpages_read(rel, entry, offset, n, buf))
				return false;
			lsm_iostat_add(kind, LSM_METHOD_BUFFERS, LSM_IO_REQUESTS, 1);
			lsm_iostat_add(kind, LSM_METHOD_BUFFERS, LSM_IO_BYTES_READ, BLCKSZ);
		}
		buf += n;
		offset += n;
		len -= n;
	}
	return true;
}

/* What the server is told of pages read past its buffers, or not read at all. */
void
lsm_segpages_count(Relation rel, uint32 npages, bool hit)
{
	lsm_compat_count_pages(rel, npages, hit, lsm_read_ring != NULL);
}

bool
lsm_segpages_read_direct(Relation rel, const LsmManifestEntry *entry, LsmReaderKind kind,
						 uint64 offset, Size len, char *buf)
{
	static char *kept;			/* for reading few pages, which is the rule */
	static const LsmReadLimits limits;
	static LsmReadPlan plan;
	uint32		skipped = lsm_entry_first_page(entry);
	LsmReadWant want;
	Size		bytes;
	char	   *raw = NULL;
	char	   *pages;
	bool		good;

	Assert(offset / LSM_PAGE_PAYLOAD >= skipped);
	want.first_page = (uint32) (offset / LSM_PAGE_PAYLOAD) - skipped;
	want.last_page = (uint32) ((offset + len - 1) / LSM_PAGE_PAYLOAD) - skipped;
	want.cached = false;
	if (plan.runs == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

		/* runs are the last: they tell that all of it is there */
		kept = palloc(LSM_KEPT_PAGES * BLCKSZ + LSM_READ_ALIGN);
		plan.maxrequests = LSM_SEGMENT_EXTENTS * 2;
		plan.requests = palloc(plan.maxrequests * sizeof(LsmReadRequest));
		plan.maxruns = 1;
		plan.runs = palloc(sizeof(LsmReadRun));
		MemoryContextSwitchTo(caller);
	}
	if (!lsm_readplan_make(&plan, &want, 1, entry->extents, entry->nextents, &limits))
		return false;

	bytes = (Size) plan.runs[0].npages * BLCKSZ;
	if (plan.runs[0].npages > LSM_KEPT_PAGES)
		raw = MemoryContextAllocHuge(CurrentMemoryContext, bytes + LSM_READ_ALIGN);
	pages = (char *) TYPEALIGN(LSM_READ_ALIGN, raw != NULL ? raw : kept);
	lsm_reader_read(rel, kind, plan.requests, plan.nrequests, pages);
	lsm_segpages_count(rel, plan.runs[0].npages, false);
	good = lsm_segpages_take(rel, entry, kind, pages, want.first_page + skipped, offset, len,
							 buf);
	if (raw != NULL)
		pfree(raw);
	return good;
}

/* ---- writing ---- */

/*
 * How many pages the next extent of a segment should have, and how many at least: what is left of
 * those that were expected; then an eighth of what there is by now, a quarter, a half, and from
 * then on as much again, as also where that is little.  A segment that becomes a little larger than
 * expected must not be given twice the room.  The last extents have to hold all that may come,
 * whatever was expected: they make it 2, 4 and 8 times as large, from a few pages to 2 GB.  (What is
 * not used is given back.)
 */
uint32
lsm_extent_pages(int nextents, uint32 npages, uint32 expected, int *unexpected, uint32 *least)
{
	uint32		want = expected - Min(npages, expected);
	int			last = nextents - (LSM_SEGMENT_EXTENTS - LSM_LAST_EXTENTS);

	if (want > 0)
		want = Max(want, npages >> 3);
	else if (last >= 0)
		want = npages * ((2 << last) - 1);
	else
	{
		want = Max(npages >> (3 - *unexpected), Min(npages, LSM_SMALL_EXTENT));
		if (*unexpected < 3)
			(*unexpected)++;
	}
	want = Max(want, 2);
	if (nextents >= LSM_SEGMENT_EXTENTS / 2)
		want = Max(want, LSM_LATE_EXTENT);
	*least = nextents >= LSM_SEGMENT_EXTENTS / 2 ? want :
		Min(want, Min(Max(want / 4, 32), LSM_FREE_EXTENT));
	return want;
}

/* Get another extent. */
static void
lsm_pagesink_extend(LsmPageSink *sink)
{
	uint32		want;
	uint32		least;

	if (sink->nextents >= LSM_SEGMENT_EXTENTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a segment of table \"%s\" is too large",
						RelationGetRelationName(sink->rel))));
	want = lsm_extent_pages(sink->nextents, sink->npages, sink->expected_pages,
							&sink->unexpected, &least);
	sink->extents[sink->nextents] =
		lsm_space_alloc(sink->rel, sink->table, sink->owner, Max(want, sink->coming_pages),
						Max(least, sink->coming_pages));
	sink->nextents++;
	sink->coming_pages = 0;
	sink->extent_used = 0;
}

/* Before the critical section in which lsm_pages_log() is called. */
void
lsm_pages_begin(Relation rel)
{
	if (RelationNeedsWAL(rel))
		XLogEnsureRecordSpace(LSM_PAGE_BATCH, 0);
}

/* Mark new pages dirty and log them as they are, in one WAL record. */
void
lsm_pages_log(Relation rel, const Buffer *buffers, int n)
{
	XLogRecPtr	lsn;

	for (int i = 0; i < n; i++)
		MarkBufferDirty(buffers[i]);
	if (!RelationNeedsWAL(rel))
		return;
	XLogBeginInsert();
	for (int i = 0; i < n; i++)
		XLogRegisterBuffer(i, buffers[i], REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
	lsn = XLogInsert(RM_XLOG_ID, XLOG_FPI);
	for (int i = 0; i < n; i++)
		PageSetLSN(BufferGetPage(buffers[i]), lsn);
}

/* Write up to LSM_PAGE_BATCH whole payloads. */
static void
lsm_pagesink_write(LsmPageSink *sink)
{
	Buffer		buffers[LSM_PAGE_BATCH];
	Page		pages[LSM_PAGE_BATCH];
	int			n = 0;
	int			total = sink->npending / LSM_PAGE_PAYLOAD;

	LSM_STOP("seg-write-page");
	CHECK_FOR_INTERRUPTS();
	while (n < total)
	{
		if (sink->nextents == 0 ||
			sink->extent_used >= sink->extents[sink->nextents - 1].npages)
		{
			if (n > 0)
				break;			/* buffers are locked: no edits now */
			lsm_pagesink_extend(sink);
		}
		buffers[n] = ReadBufferExtended(sink->rel, MAIN_FORKNUM,
										sink->extents[sink->nextents - 1].start +
										sink->extent_used++,
										RBM_ZERO_AND_LOCK, sink->strategy);
		pages[n] = BufferGetPage(buffers[n]);
		n++;
	}

	lsm_pages_begin(sink->rel);
	START_CRIT_SECTION();
	for (int i = 0; i < n; i++)
	{
		lsm_page_init(pages[i], LSM_PAGE_SEGMENT, sink->uid,
					  sink->first_page + sink->npages + i, 0);
		lsm_page_set_content(pages[i], sink->pending + (Size) i * LSM_PAGE_PAYLOAD,
							 LSM_PAGE_PAYLOAD);
	}
	lsm_pages_log(sink->rel, buffers, n);
	END_CRIT_SECTION();
	for (int i = 0; i < n; i++)
		UnlockReleaseBuffer(buffers[i]);

	if (sink->owner != LSM_OWNER_FLUSH)
		lsm_bytes_to_pace += (uint64) n * BLCKSZ;
	sink->npages += n;
	sink->npending -= (Size) n * LSM_PAGE_PAYLOAD;
	memmove(sink->pending, sink->pending + (Size) n * LSM_PAGE_PAYLOAD, sink->npending);
}

/* Bytes of a block that is to be kept. */
static void
lsm_pagesink_keep_bytes(LsmPageSink *sink, const char *data, Size len)
{
	appendBinaryStringInfo(&sink->kept, data, len);
	if ((Size) sink->kept.len < sink->kept_bytes)
		return;
	lsm_sharedcache_put(sink->uid, sink->kept_block, sink->kept_bytes, sink->kept.data,
						LSM_TOUCH_POINT);
	sink->kept_bytes = 0;
}

static void
lsm_pagesink_append(LsmSegmentSink *base, const void *data, Size len)
{
	LsmPageSink *sink = (LsmPageSink *) base;
	const char *from = data;

	if (sink->kept_bytes > 0)
		lsm_pagesink_keep_bytes(sink, data, len);
	while (len > 0)
	{
		Size		room = LSM_PAGE_BATCH * LSM_PAGE_PAYLOAD - sink->npending;
		Size		n = Min(room, len);

		memcpy(sink->pending + sink->npending, from, n);
		sink->npending += n;
		from += n;
		len -= n;
		while (sink->npending == LSM_PAGE_BATCH * LSM_PAGE_PAYLOAD)
			lsm_pagesink_write(sink);
	}
}

/* A large value comes next: rather one extent for all of it than many. */
static void
lsm_pagesink_expect(LsmSegmentSink *base, uint64 bytes)
{
	LsmPageSink *sink = (LsmPageSink *) base;

	sink->coming_pages = bytes / LSM_PAGE_PAYLOAD + 1;
}

static void
lsm_pagesink_begin_block(LsmSegmentSink *base, uint32 blockno, uint32 len)
{
	LsmPageSink *sink = (LsmPageSink *) base;

	Assert(sink->kept_bytes == 0);
	if (!sink->keep)
		return;
	sink->kept_block = blockno;
	sink->kept_bytes = len;
	resetStringInfo(&sink->kept);
}

void
lsm_pagesink_keep(LsmPageSink *sink, bool keep)
{
	sink->keep = keep;
}

/*
 * Begin a new segment of about that many pages; its space is PENDING for
 * owner until the entry is added.
 */
LsmPageSink *
lsm_pagesink_create(Relation rel, LsmTable *table, uint16 owner, uint32 expected_pages)
{
	LsmPageSink *sink = palloc0(sizeof(LsmPageSink));

	sink->sink.append = lsm_pagesink_append;
	sink->sink.expect = lsm_pagesink_expect;
	sink->sink.begin_block = lsm_pagesink_begin_block;
	sink->rel = rel;
	sink->table = table;
	sink->owner = owner;
	sink->expected_pages = expected_pages;

	/* the server has no place to count bulk writes of autovacuum workers */
	sink->strategy = GetAccessStrategy(AmAutoVacuumWorkerProcess() ? BAS_VACUUM : BAS_BULKWRITE);
	sink->pending = palloc(LSM_PAGE_BATCH * LSM_PAGE_PAYLOAD);
	initStringInfo(&sink->kept);
	do
	{
		if (!pg_strong_random(&sink->uid, sizeof(sink->uid)))
			elog(ERROR, "could not get random numbers");
	} while (sink->uid == 0);
	return sink;
}

/*
 * What is written is part of a segment that exists, from that page on: so many pages,
 * in one extent if they are not more.
 */
void
lsm_pagesink_continue(LsmPageSink *sink, uint64 uid, uint32 first_page, uint32 npages)
{
	Assert(sink->npages == 0 && sink->npending == 0);
	sink->uid = uid;
	sink->first_page = first_page;
	sink->coming_pages = npages;
}

LsmSegmentSink *
lsm_pagesink_sink(LsmPageSink *sink)
{
	return &sink->sink;
}

uint64
lsm_pagesink_uid(LsmPageSink *sink)
{
	return sink->uid;
}

static void
lsm_pagesink_free(LsmPageSink *sink)
{
	FreeAccessStrategy(sink->strategy);
	pfree(sink->pending);
	pfree(sink);
}

void
lsm_pagesink_finish(LsmPageSink *sink, LsmManifestEntry *entry)
{
	Size		over = sink->npending % LSM_PAGE_PAYLOAD;

	if (over > 0)
	{
		memset(sink->pending + sink->npending, 0, LSM_PAGE_PAYLOAD - over);
		sink->npending += LSM_PAGE_PAYLOAD - over;
	}
	while (sink->npending > 0)
		lsm_pagesink_write(sink);
	if (sink->nextents > 0)
	{
		lsm_space_give_back(sink->rel, sink->table, sink->owner,
							sink->extents[sink->nextents - 1], sink->extent_used);
		sink->extents[sink->nextents - 1].npages = sink->extent_used;
	}
	entry->uid = sink->uid;
	entry->nextents = sink->nextents;
	memcpy(entry->extents, sink->extents, sizeof(entry->extents));
	lsm_pagesink_free(sink);
}

void
lsm_pagesink_abandon(LsmPageSink *sink)
{
	Assert(sink->nextents == 0);
	lsm_pagesink_free(sink);
}
