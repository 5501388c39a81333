/*-------------------------------------------------------------------------
 *
 * lsm_ahead.c
 *	  Reading ahead.
 *
 * A window goes before the reader: blocks that its feed has told of and that are
 * read, or on their way, or known to be in a cache.  It begins with two blocks,
 * and is four times as wide each time it is filled, up to lsm.io_depth requests of
 * lsm.multiblock_read_size: who stops soon has read little for nothing, who goes
 * on soon has several requests on their way.  It is filled when half of it has
 * been used, so that requests are long.
 *
 * What the reader asks for decides: blocks before it in the window are given up,
 * and if it is not there, all of them are.  So the feed may be wrong (it knows an
 * old view, say), and costs time only.
 *
 * COLD SEGMENTS
 *	  Blocks of an object are read the same way, with requests to its store in place
 *	  of those to the kernel: longer ones, as each costs more.  They are under way
 *	  while somebody waits for one, and for a moment now and then as blocks are taken.
 *	  A block is taken as soon as its bytes have come, with those behind it in the same
 *	  request still on their way: so it is decoded while these come.
 *	  Where the feed is sure (it knows the rows), the window is as wide as may be from
 *	  the first block on, over many segments: what is read far apart takes as long as
 *	  requests have to wait for each other, so all of it is asked for at once, and
 *	  the store's parallel_requests are on their way.  What is read over between two
 *	  blocks counts as the window's, as it takes memory.
 *
 * METADATA
 *	  Of segments that are opened one after the other, the metadata is read ahead like a
 *	  block, LSM_CACHE_METADATA by number (lsm_opensegment.c); so are the last pages of those
 *	  that are asked for bounds, LSM_CACHE_BOUNDS (lsm_segmentbounds.c).  Of cold segments,
 *	  too, both are in the file.
 *
 * MEMORY
 *	  Requests write to memory of their own, below TopMemoryContext: the server
 *	  frees that of a failed query before it tells anybody.  A window belongs to
 *	  the resource owner under which it was made, and ends with it at the latest:
 *	  requests first, then their memory.  All windows of a process have
 *	  LSM_AHEAD_BYTES together.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>

#include "lsm_ahead.h"
#include "lsm_blockcache.h"
#include "lsm_cold.h"
#include "lsm_opensegment.h"
#include "lsm_segmentbounds.h"
#include "lsm_reader.h"
#include "lsm_sharedcache.h"
#include "lsm_stop.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* Of all windows of a process. */
#define LSM_AHEAD_BYTES			((Size) 64 * 1024 * 1024)

/* The first window of a cold segment. */
#define LSM_AHEAD_COLD_BYTES	((Size) 1024 * 1024)

/* A fill opens so many segments at most: those of its caller stay open. */
#define LSM_AHEAD_SEGMENTS		4

/* The same of a feed that is sure, of cold segments. */
#define LSM_AHEAD_SURE_SEGMENTS 64

/* A large page of the kernel. */
#define LSM_AHEAD_HUGE			((Size) 2 * 1024 * 1024)

/* Memory of runs that is kept for the next ones. */
#define LSM_AHEAD_SPARE			16

/* Pages that are read together. */
typedef struct LsmAheadRun
{
	char	   *raw;			/* as it was allocated */
	Size		raw_bytes;		/* but for what aligns it, which is never
								 * touched */
	char	   *pages;			/* in it, aligned */
	uint32		page;			/* of the segment */
	int			nitems;			/* blocks that wait for it */
	int			nios;
	int			nwaited;		/* of them, done */
	LsmIo	   *ios;

	/*
	 * cold: bytes of the stream, from that of the first page on, without
	 * headers
	 */
	bool		cold;
	bool		waited;			/* it was not there when it was needed */
	LsmStoreReads *reads;		/* NULL: it has arrived */
	LsmStoreRead read;
} LsmAheadRun;

/*
 * A block of the window.  Where it lies is part of it: one view may have two entries of one
 * segment, which has gone to a store or come back, of which each reads in another way.
 */
typedef struct LsmAheadItem
{
	uint64		uid;
	uint64		offset;
	uint32		blockno;
	uint32		len;
	bool		cold;
	uint32		bytes;			/* cold: with what is read over before it */
	LsmAheadRun *run;			/* NULL: a cache has it, or it cannot be read
								 * so */
} LsmAheadItem;

/* A window. */
typedef struct LsmAhead
{
	dlist_node	node;
	uint64		serial;
	ResourceOwner owner;
	MemoryContext context;
	Size		memory;			/* of its runs */
	LsmReaderKind kind;
	Size		window;			/* bytes of blocks */
	Size		bytes;			/* in it now */
	int			first;			/* item in use */
	int			nitems;			/* behind the last one */
	int			maxitems;
	LsmAheadItem *items;
	/* while a fill gathers blocks of one segment */
	int			nwants;
	int			maxwants;
	LsmReadWant *wants;
	LsmReadPlan plan;
	int			nspare;
	LsmAheadRun *spare[LSM_AHEAD_SPARE];
} LsmAhead;

/* All windows of the process, and the memory of their runs. */
static dlist_head lsm_aheads = DLIST_STATIC_INIT(lsm_aheads);
static Size lsm_ahead_bytes;
static uint64 lsm_ahead_serial;
static bool lsm_ahead_registered;

/* Ranges of objects that are on their way, or wait for their turn. */
static int	lsm_ahead_reads;

/* ---- runs ---- */

static void
lsm_ahead_free_run(LsmAhead *ahead, LsmAheadRun *run)
{
	ahead->memory -= run->raw_bytes;
	lsm_ahead_bytes -= run->raw_bytes;
	pfree(run->raw);
	pfree(run);
}

/* A run of an object has arrived, or is given up. */
static void
lsm_ahead_end_read(LsmAheadRun *run)
{
	lsm_store_reads_end(run->reads);
	run->reads = NULL;
	lsm_ahead_reads--;
}

/* Nobody waits for a run any more. */
static void
lsm_ahead_drop_run(LsmAhead *ahead, LsmAheadRun *run)
{
	for (int i = 0; i < run->nios; i++)
		lsm_io_forget(&run->ios[i]);
	if (run->ios != NULL)
		pfree(run->ios);
	run->ios = NULL;
	run->nios = 0;
	if (run->reads != NULL)
		lsm_ahead_end_read(run);
	if (ahead->nspare < LSM_AHEAD_SPARE)
		ahead->spare[ahead->nspare++] = run;
	else
		lsm_ahead_free_run(ahead, run);
}

/*
 * Memory of a run is written to once, and a fault for each of its pages would cost more
 * than the copy: so the kernel is asked for large pages, where they are at least half full.
 */
static Size
lsm_ahead_room(Size bytes)
{
	Size		rest = bytes % LSM_AHEAD_HUGE;

	return rest >= LSM_AHEAD_HUGE / 2 ? bytes - rest + LSM_AHEAD_HUGE : bytes;
}

/* Memory for so many bytes. */
static LsmAheadRun *
lsm_ahead_make_run(LsmAhead *ahead, Size bytes)
{
	Size		need = lsm_ahead_room(bytes);
	Size		align = need >= LSM_AHEAD_HUGE ? LSM_AHEAD_HUGE : LSM_READ_ALIGN;
	LsmAheadRun *run;

	for (int i = 0; i < ahead->nspare; i++)
	{
		run = ahead->spare[i];
		if (run->raw_bytes >= need && run->raw_bytes <= need * 4)
		{
			ahead->spare[i] = ahead->spare[--ahead->nspare];
			return run;
		}
	}
	if (ahead->nspare > 0)
		lsm_ahead_free_run(ahead, ahead->spare[--ahead->nspare]);
	run = MemoryContextAllocZero(ahead->context, sizeof(LsmAheadRun));
	run->raw = MemoryContextAllocHuge(ahead->context, need + align);
	run->raw_bytes = need;
	run->pages = (char *) TYPEALIGN(align, run->raw);
#ifdef MADV_HUGEPAGE
	if (need >= LSM_AHEAD_HUGE)
		(void) madvise(run->pages, need - need % LSM_AHEAD_HUGE, MADV_HUGEPAGE);
#endif
	ahead->memory += need;
	lsm_ahead_bytes += need;
	return run;
}

/* ---- windows ---- */

static void
lsm_ahead_pop(LsmAhead *ahead)
{
	LsmAheadItem *item = &ahead->items[ahead->first++];

	ahead->bytes -= item->bytes;
	if (item->run != NULL && --item->run->nitems == 0)
		lsm_ahead_drop_run(ahead, item->run);
}

static void
lsm_ahead_destroy(LsmAhead *ahead)
{
	while (ahead->first < ahead->nitems)
		lsm_ahead_pop(ahead);
	lsm_ahead_bytes -= ahead->memory;
	dlist_delete(&ahead->node);
	MemoryContextDelete(ahead->context);
}

/* End the windows of a resource owner, or (NULL) all. */
static void
lsm_ahead_release(ResourceOwner owner)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &lsm_aheads)
	{
		LsmAhead   *ahead = dlist_container(LsmAhead, node, iter.cur);

		if (owner == NULL || ahead->owner == owner)
			lsm_ahead_destroy(ahead);
	}
}

static void
lsm_ahead_owner_ends(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	if (phase == RESOURCE_RELEASE_BEFORE_LOCKS && !dlist_is_empty(&lsm_aheads))
		lsm_ahead_release(CurrentResourceOwner);
}

void
lsm_ahead_xact_end(void)
{
	lsm_ahead_release(NULL);
}

static LsmAhead *
lsm_ahead_create(LsmReaderKind kind)
{
	MemoryContext context;
	LsmAhead   *ahead;

	if (!lsm_ahead_registered)
	{
		lsm_store_watch_owners();
		RegisterResourceReleaseCallback(lsm_ahead_owner_ends, NULL);
		lsm_ahead_registered = true;
	}
	context = AllocSetContextCreate(TopMemoryContext, "lsm ahead", ALLOCSET_DEFAULT_SIZES);
	ahead = MemoryContextAllocZero(context, sizeof(LsmAhead));
	ahead->serial = ++lsm_ahead_serial;
	ahead->context = context;
	ahead->owner = CurrentResourceOwner;
	ahead->kind = kind;
	dlist_push_head(&lsm_aheads, &ahead->node);
	return ahead;
}

/* The window of a feed; NULL: it has none, or it has ended with its owner. */
static LsmAhead *
lsm_ahead_of(const LsmAheadFeed *feed)
{
	dlist_iter	iter;

	dlist_foreach(iter, &lsm_aheads)
	{
		LsmAhead   *ahead = dlist_container(LsmAhead, node, iter.cur);

		if (ahead->serial == feed->serial)
			return ahead;
	}
	return NULL;
}

void
lsm_ahead_end(LsmAheadFeed *feed)
{
	LsmAhead   *ahead = feed->serial == 0 ? NULL : lsm_ahead_of(feed);

	if (ahead != NULL)
		lsm_ahead_destroy(ahead);
	feed->serial = 0;
}

/* The longest request. */
static Size
lsm_ahead_request(bool cold)
{
	return (Size) (cold ? lsm_store_read_size : lsm_multiblock_read_size) * 1024;
}

/* The widest window. */
static Size
lsm_ahead_most(const LsmAhead *ahead, uint32 block_bytes, bool cold)
{
	Size		request = Max(lsm_ahead_request(cold), block_bytes);
	Size		others = lsm_ahead_bytes - ahead->memory;

	/* twice: runs have whole pages, and blocks between them */
	if (others >= LSM_AHEAD_BYTES)
		return 0;
	return Min(request * lsm_io_depth, (LSM_AHEAD_BYTES - others) / 2);
}

/* ---- filling ---- */

/* Is it no block, but something about the segment as a whole? */
static inline bool
lsm_ahead_is_of_segment(uint32 blockno)
{
	return blockno == LSM_CACHE_METADATA || blockno == LSM_CACHE_BOUNDS;
}

/* Does a block lie in an object?  What is about the segment never does. */
static inline bool
lsm_ahead_is_cold(const LsmManifestEntry *entry, uint32 blockno)
{
	return !lsm_ahead_is_of_segment(blockno) && lsm_entry_is_cold(entry);
}

/* What comes before the first page that the file has of a segment, for its block. */
static inline uint32
lsm_ahead_skipped(const LsmManifestEntry *entry, uint32 blockno)
{
	return lsm_ahead_is_cold(entry, blockno) ? 0 : lsm_entry_first_page(entry);
}

/* What will be read over between the block that was added last and this one. */
static uint32
lsm_ahead_gap(const LsmAhead *ahead, const LsmAheadPlace *place)
{
	uint32		page = (uint32) (place->offset / LSM_PAGE_PAYLOAD);
	uint32		last;

	if (ahead->nwants == 0 || !lsm_ahead_is_cold(place->entry, place->blockno))
		return 0;
	last = ahead->wants[ahead->nwants - 1].last_page;
	if (page <= last || page - last > LSM_COLD_GAP_BYTES / LSM_PAGE_PAYLOAD)
		return 0;
	return (page - last) * LSM_PAGE_PAYLOAD;
}

static LsmReadWant *
lsm_ahead_add_want(LsmAhead *ahead, const LsmAheadPlace *place)
{
	uint32		skipped = lsm_ahead_skipped(place->entry, place->blockno);
	LsmReadWant *want;

	if (ahead->nwants >= ahead->maxwants)
	{
		ahead->maxwants = Max(ahead->maxwants * 2, 64);
		ahead->wants = ahead->wants == NULL ?
			MemoryContextAlloc(ahead->context, ahead->maxwants * sizeof(LsmReadWant)) :
			repalloc(ahead->wants, ahead->maxwants * sizeof(LsmReadWant));
	}
	want = &ahead->wants[ahead->nwants++];
	want->first_page = (uint32) (place->offset / LSM_PAGE_PAYLOAD) - skipped;
	want->last_page = (uint32) ((place->offset + place->len - 1) / LSM_PAGE_PAYLOAD) - skipped;
	want->cached = false;
	return want;
}

static void
lsm_ahead_add_item(LsmAhead *ahead, const LsmAheadPlace *place)
{
	LsmAheadItem *item;
	uint64		uid = place->entry->uid;

	if (ahead->nitems >= ahead->maxitems)
	{
		ahead->maxitems = Max(ahead->maxitems * 2, 64);
		ahead->items = ahead->items == NULL ?
			MemoryContextAlloc(ahead->context, ahead->maxitems * sizeof(LsmAheadItem)) :
			repalloc(ahead->items, ahead->maxitems * sizeof(LsmAheadItem));
	}
	item = &ahead->items[ahead->nitems++];
	item->uid = uid;
	item->offset = place->offset;
	item->blockno = place->blockno;
	item->len = place->len;
	item->cold = lsm_ahead_is_cold(place->entry, place->blockno);
	item->bytes = place->len + lsm_ahead_gap(ahead, place);
	item->run = NULL;
	ahead->bytes += item->bytes;
	lsm_ahead_add_want(ahead, place)->cached = lsm_block_is_local(uid, place->blockno) ||
		lsm_sharedcache_has(uid, place->blockno) ||
		(lsm_ahead_is_cold(place->entry, place->blockno) &&
		 lsm_cold_cache_has(place->entry, place->offset, place->len,
							lsm_block_disk_use(ahead->kind)));
}

/* Start to read a run, of pages after those skipped; items are those that it covers. */
static void
lsm_ahead_start_run(LsmAhead *ahead, Relation rel, uint32 skipped, const LsmReadRun *planned,
					LsmAheadItem *items)
{
	const LsmReadWant *wants = &ahead->wants[planned->first_want];
	LsmAheadRun *run = lsm_ahead_make_run(ahead, (Size) planned->npages * BLCKSZ);
	char	   *at = run->pages;
	bool		good = true;

	run->page = planned->page + skipped;
	run->nitems = 0;
	run->nios = 0;
	run->nwaited = 0;
	run->cold = false;
	run->ios = MemoryContextAlloc(ahead->context, planned->nrequests * sizeof(LsmIo));
	for (int i = 0; i < planned->nrequests && good; i++)
	{
		const LsmReadRequest *request = &ahead->plan.requests[planned->first_request + i];

		good = lsm_io_prepare(&run->ios[i], rel, ahead->kind, request, at);
		at += (Size) request->npages * BLCKSZ;
		run->nios++;
	}
	if (!good)
	{
		/* no such file: whoever reads the block finds out why */
		run->nios = 0;
		lsm_ahead_drop_run(ahead, run);
		return;
	}
	for (int i = 0; i < planned->nwants; i++)
	{
		if (wants[i].cached)
			continue;
		items[i].run = run;
		run->nitems++;
	}
	for (int i = 0; i < run->nios; i++)
		lsm_io_start(&run->ios[i]);
	lsm_segpages_count(rel, planned->npages, false);
	lsm_iostat_add(ahead->kind, run->ios[0].method, LSM_IO_MERGED, planned->nmissing - 1);
	lsm_iostat_add(ahead->kind, run->ios[0].method, LSM_IO_READ_OVER,
				   planned->nwants - planned->nmissing);
}

/* The same for a run of an object. */
static void
lsm_ahead_start_cold_run(LsmAhead *ahead, Relation rel, LsmStore *store,
						 const LsmManifestEntry *entry, const LsmReadRun *planned,
						 LsmAheadItem *items)
{
	const LsmReadWant *wants = &ahead->wants[planned->first_want];
	LsmAheadRun *run = lsm_ahead_make_run(ahead, (Size) planned->npages * LSM_PAGE_PAYLOAD);
	uint64		end = (uint64) (planned->page + planned->npages) * LSM_PAGE_PAYLOAD;
	ResourceOwner owner = CurrentResourceOwner;
	char		key[LSM_COLD_KEY_BYTES];

	lsm_cold_key(entry, key);
	run->page = planned->page;
	run->nitems = 0;
	run->nios = 0;
	run->nwaited = 0;
	run->ios = NULL;
	run->cold = true;
	run->waited = false;
	memset(&run->read, 0, sizeof(run->read));
	run->read.key = key;
	run->read.offset = (uint64) planned->page * LSM_PAGE_PAYLOAD;
	run->read.len = Min(end, lsm_entry_object(entry)->bytes) - run->read.offset;
	run->read.buffer = run->pages;
	run->read.missing_ok = true;

	/* it ends with the window, not before */
	CurrentResourceOwner = ahead->owner;
	run->reads = lsm_store_reads_begin(store);
	CurrentResourceOwner = owner;
	for (int i = 0; i < planned->nwants; i++)
	{
		if (wants[i].cached)
			continue;
		items[i].run = run;
		run->nitems++;
	}
	lsm_ahead_reads++;
	lsm_store_reads_add(run->reads, &run->read);
	run->read.key = NULL;		/* it was copied */
	lsm_iostat_depth(ahead->kind, LSM_METHOD_STORE,
					 Min(lsm_ahead_reads, lsm_store_parallelism(store)));
	lsm_iostat_add(ahead->kind, LSM_METHOD_STORE, LSM_IO_MERGED, planned->nmissing - 1);
	lsm_iostat_add(ahead->kind, LSM_METHOD_STORE, LSM_IO_READ_OVER,
				   planned->nwants - planned->nmissing);
}

/* Read the blocks that were gathered, all of one cold segment, whose items are these. */
static void
lsm_ahead_start_cold(LsmAhead *ahead, Relation rel, const LsmManifestEntry *entry,
					 LsmAheadItem *items)
{
	LsmReadLimits limits = {lsm_ahead_request(true) / LSM_PAGE_PAYLOAD,
	LSM_COLD_GAP_BYTES / LSM_PAGE_PAYLOAD};
	LsmExtent	whole = {0, (uint32) (lsm_entry_object(entry)->bytes / LSM_PAGE_PAYLOAD) + 1};
	int			nwants = ahead->nwants;
	LsmStore   *store = lsm_cold_open(rel, entry);
	MemoryContext caller = MemoryContextSwitchTo(ahead->context);

	ahead->nwants = 0;
	if (lsm_readplan_make(&ahead->plan, ahead->wants, nwants, &whole, 1, &limits))
		for (int i = 0; i < ahead->plan.nruns; i++)
			lsm_ahead_start_cold_run(ahead, rel, store, entry, &ahead->plan.runs[i],
									 &items[ahead->plan.runs[i].first_want]);
	MemoryContextSwitchTo(caller);
}

/* Read the blocks that were gathered, all of one segment; items are theirs. */
static void
lsm_ahead_start_items(LsmAhead *ahead, Relation rel, const LsmManifestEntry *entry,
					  LsmAheadItem *items)
{
	LsmReadLimits limits = {(uint32) (lsm_multiblock_read_size * 1024 / BLCKSZ),
	(uint32) (lsm_multiblock_read_gap * 1024 / BLCKSZ)};
	int			nwants = ahead->nwants;
	MemoryContext caller;
	bool		good;

	if (nwants == 0)
		return;
	if (lsm_ahead_is_cold(entry, items[0].blockno))
	{
		lsm_ahead_start_cold(ahead, rel, entry, items);
		return;
	}
	ahead->nwants = 0;
	caller = MemoryContextSwitchTo(ahead->context);
	good = lsm_readplan_make(&ahead->plan, ahead->wants, nwants, entry->extents,
							 entry->nextents, &limits);
	MemoryContextSwitchTo(caller);
	for (int i = 0; good && i < ahead->plan.nruns; i++)
		lsm_ahead_start_run(ahead, rel, lsm_ahead_skipped(entry, items[0].blockno),
							&ahead->plan.runs[i], &items[ahead->plan.runs[i].first_want]);
}

/* Those of the last items. */
static void
lsm_ahead_start(LsmAhead *ahead, Relation rel, const LsmManifestEntry *entry)
{
	lsm_ahead_start_items(ahead, rel, entry, ahead->items + (ahead->nitems - ahead->nwants));
}

/* Where the block lies that the feed tells of next; false: none is told. */
static bool
lsm_ahead_next(Relation rel, LsmTable *table, LsmAheadFeed *feed, LsmAheadPlace *place)
{
	LsmOpenSegment *open;

	if (!feed->next(feed->arg, &place->entry, &place->blockno))
		return false;
	if (place->blockno == LSM_CACHE_METADATA)
	{
		lsm_segment_meta_place(place->entry, place);
		return true;
	}
	if (place->blockno == LSM_CACHE_BOUNDS)
	{
		lsm_segment_bounds_place(place->entry, place);
		return true;
	}
	open = feed->kind == LSM_READER_SCAN || feed->kind == LSM_READER_COMPACTION ?
		lsm_segment_get(rel, table, place->entry) :
		lsm_segment_get_for_block(rel, table, place->entry, place->blockno);
	if (open == NULL)
		return false;
	lsm_segment_block_info(open->reader, place->blockno, NULL, NULL, NULL, &place->offset,
						   &place->len);
	return true;
}

/*
 * Widen the window, and fill it with what the feed tells, after the block that is
 * asked for if that is not in it.
 */
static void
lsm_ahead_fill(LsmAhead *ahead, Relation rel, LsmTable *table, LsmAheadFeed *feed,
			   const LsmAheadPlace *asked, uint32 block_bytes, bool cold)
{
	LsmManifestEntry entry = {0};
	LsmAheadPlace place;
	int			segments = 0;
	int			most_segments = feed->sure && (cold || feed->kind == LSM_READER_METADATA) ?
	LSM_AHEAD_SURE_SEGMENTS : LSM_AHEAD_SEGMENTS;

	ahead->window = Max(ahead->window * 4, (Size) block_bytes * 2);
	if (cold)
		ahead->window = feed->sure ? LSM_AHEAD_BYTES :
			Max(ahead->window, LSM_AHEAD_COLD_BYTES);
	ahead->window = Min(ahead->window, lsm_ahead_most(ahead, block_bytes, cold));
	if (feed->most > 0)
		ahead->window = Min(ahead->window, feed->most);
	if (ahead->first > 0)
	{
		memmove(ahead->items, ahead->items + ahead->first,
				(ahead->nitems - ahead->first) * sizeof(LsmAheadItem));
		ahead->nitems -= ahead->first;
		ahead->first = 0;
	}
	ahead->nwants = 0;			/* an error may have left some */
	if (asked != NULL)
	{
		entry = *asked->entry;
		segments = 1;
		lsm_ahead_add_item(ahead, asked);
	}
	while (ahead->bytes < ahead->window && segments <= most_segments &&
		   lsm_ahead_next(rel, table, feed, &place))
	{
		if (segments == 0 || place.entry->uid != entry.uid)
		{
			lsm_ahead_start(ahead, rel, &entry);
			entry = *place.entry;
			segments++;
		}
		lsm_ahead_add_item(ahead, &place);
	}
	lsm_ahead_start(ahead, rel, &entry);
}

/* ---- taking ---- */

static bool
lsm_ahead_is_item(const LsmAheadItem *item, const LsmAheadPlace *place)
{
	return item->uid == place->entry->uid && item->blockno == place->blockno &&
		item->offset == place->offset && item->len == place->len &&
		item->cold == lsm_ahead_is_cold(place->entry, place->blockno);
}

/* Give up what comes before a block in the window; false: it is not there. */
static bool
lsm_ahead_find(LsmAhead *ahead, const LsmAheadPlace *place)
{
	int			at = ahead->first;

	while (at < ahead->nitems && !lsm_ahead_is_item(&ahead->items[at], place))
		at++;
	if (at >= ahead->nitems)
		return false;
	while (ahead->first < at)
		lsm_ahead_pop(ahead);
	return true;
}

/* The window is elsewhere, or empty: begin with this block. */
static void
lsm_ahead_restart(LsmAhead *ahead, Relation rel, LsmTable *table, LsmAheadFeed *feed,
				  const LsmAheadPlace *place)
{
	if (ahead->first < ahead->nitems)
		ahead->window = 0;		/* it was wrong */
	while (ahead->first < ahead->nitems)
		lsm_ahead_pop(ahead);
	feed->restart(feed->arg);
	lsm_ahead_fill(ahead, rel, table, feed, place, place->len,
				   lsm_ahead_is_cold(place->entry, place->blockno));
}

/*
 * A cache had the first block of the window when that was filled, and has it no more.  It
 * will be so with those that come next, as what a scan brings takes the place of what it
 * has yet to come to: so read as many of them as a request has, whether they are cached or
 * not.
 */
static void
lsm_ahead_again(LsmAhead *ahead, Relation rel, LsmTable *table, const LsmAheadPlace *lost)
{
	Size		most = lsm_ahead_request(lsm_entry_is_cold(lost->entry));
	LsmSegmentReader *reader = lsm_reader_get(rel, table, lost->entry);
	Size		bytes = 0;

	ahead->nwants = 0;			/* an error may have left some */
	if (reader == NULL)
		return;
	for (int at = ahead->first; at < ahead->nitems && bytes < most; at++)
	{
		LsmAheadItem *item = &ahead->items[at];
		LsmAheadPlace place = *lost;

		if (item->run != NULL || item->uid != lost->entry->uid)
			break;
		place.blockno = item->blockno;
		lsm_segment_block_info(reader, item->blockno, NULL, NULL, NULL, &place.offset, &place.len);
		(void) lsm_ahead_add_want(ahead, &place);
		bytes += place.len;
	}
	lsm_ahead_start_items(ahead, rel, lost->entry, ahead->items + ahead->first);
}

/*
 * Wait for a block of a run of an object, and copy it.  The rest of the run comes while the
 * caller is busy with that.
 */
static bool
lsm_ahead_take_cold(LsmAhead *ahead, LsmAheadRun *run, const LsmAheadPlace *place, char *buf)
{
	LsmAheadRun *last = ahead->items[ahead->nitems - 1].run;
	uint64		at = place->offset - (uint64) run->page * LSM_PAGE_PAYLOAD;

	/* with the last block to the end of the answer, or the connection would have to be closed */
	uint64		until = run->nitems > 1 ? at + place->len : run->read.len;
	bool		good;

	if (run->reads != NULL)
	{
		if (!run->waited && lsm_store_reads_pending(run->reads, &run->read, until))
		{
			lsm_iostat_add(ahead->kind, LSM_METHOD_STORE, LSM_IO_WAITS, 1);
			run->waited = true;
		}
		if (lsm_store_reads_wait(run->reads, &run->read, until))
			lsm_ahead_end_read(run);
	}
	good = !run->read.missing;
	if (good)
		memcpy(buf, run->pages + at, place->len);
	if (last != NULL && last->reads != NULL)
		lsm_store_reads_poke(last->reads);
	lsm_ahead_pop(ahead);
	return good;
}

bool
lsm_ahead_take(Relation rel, LsmTable *table, LsmAheadFeed *feed, const LsmAheadPlace *place,
			   char *buf)
{
	LsmAhead   *ahead = feed->serial == 0 ? NULL : lsm_ahead_of(feed);
	LsmAheadRun *run;
	bool		cold = lsm_ahead_is_cold(place->entry, place->blockno);

	if (ahead == NULL)
	{
		/*
		 * nobody knows yet whether there is a second one; of a store, it
		 * costs little
		 */
		if (!(feed->missed || cold) || CurrentResourceOwner == NULL)
		{
			feed->missed = true;
			return false;
		}
		ahead = lsm_ahead_create(feed->kind);
		feed->serial = ahead->serial;
	}
	if (!lsm_ahead_find(ahead, place))
		lsm_ahead_restart(ahead, rel, table, feed, place);
	else if (ahead->bytes - place->len <= ahead->window / 2)
		lsm_ahead_fill(ahead, rel, table, feed, NULL, place->len, cold);
	LSM_STOP("ahead-started");

	if (ahead->items[ahead->first].run == NULL && !lsm_ahead_is_of_segment(place->blockno))
		lsm_ahead_again(ahead, rel, table, place);
	run = ahead->items[ahead->first].run;
	if (run == NULL)
	{
		lsm_ahead_pop(ahead);
		return false;
	}
	if (run->cold)
		return lsm_ahead_take_cold(ahead, run, place, buf);
	while (run->nwaited < run->nios)
	{
		lsm_io_wait(&run->ios[run->nwaited]);
		run->nwaited++;
	}
	if (!lsm_segpages_take(rel, place->entry, feed->kind, run->pages, run->page, place->offset,
						   place->len, buf))
		return false;
	lsm_ahead_pop(ahead);
	return true;
}

/* ---- the feed of one segment ---- */

static bool
lsm_segment_feed_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmSegmentFeed *segment = arg;

	if (segment->next >= segment->end)
		return false;
	*entry = segment->entry;
	*blockno = segment->next++;
	return true;
}

static void
lsm_segment_feed_restart(void *arg)
{
	LsmSegmentFeed *segment = arg;

	segment->next = segment->asked + 1;
}

LsmAheadFeed *
lsm_segment_feed(LsmSegmentFeed *segment, LsmReaderKind kind, const LsmManifestEntry *entry,
				 uint32 blockno, uint32 end)
{
	segment->feed.kind = kind;
	segment->feed.next = lsm_segment_feed_next;
	segment->feed.restart = lsm_segment_feed_restart;
	segment->feed.arg = segment;
	segment->entry = entry;
	segment->asked = blockno;
	segment->end = end;
	return &segment->feed;
}
