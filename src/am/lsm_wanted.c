/*-------------------------------------------------------------------------
 *
 * lsm_wanted.c
 *	  The roots that a bitmap tells of, in their order.
 *
 * Pages of a bitmap are root LBs.  An exact one lists roots, a lossy one stands for
 * all of its LB.  They are taken from the bitmap when they are needed, or up to
 * LSM_WANTED_AHEAD of them before that, when reading ahead wants to know what comes
 * next.  Offsets of all pages are in one array, as most pages have few.
 *
 * Of a bitmap that processes share, each has some of the pages, in their order
 * (lsm_wantedshare.c).  It takes a run of them at a time, and the next one before it
 * has done with the last: when less than a run is left, or, where requests to a store
 * are to be waited for, as soon as it can ask for more.  A run ends where a block does;
 * roots of the last page that lie behind that are the next run's.  So there may be two
 * pages of one LB.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "lsm_compat.h"
#include "lsm_wanted.h"

/* So many pages are taken before they are needed, at most. */
#define LSM_WANTED_AHEAD		1024

/* The same of a bitmap that is shared, where what they stand for comes from a store. */
#define LSM_WANTED_AHEAD_COLD	32

typedef struct LsmWantedPage
{
	BlockNumber lb;
	int			n;				/* offsets; -1: lossy */
	int			at;				/* of them, in the array */
	bool		recheck;
	bool		entered;
} LsmWantedPage;

struct LsmWanted
{
	MemoryContext context;
	TIDBitmap  *bitmap;
	LsmBitmapIterator iterator;
	LsmWantedShare *share;		/* NULL: the bitmap is this process's alone */
	int			run;			/* shared: pages of the last run */
	bool		cold;			/* there is a block in a store */
	LsmTid		run_end;		/* what comes up to here is taken, by someone */
	LsmTid		(*border) (void *arg, LsmTid root, uint64 *bytes);
	void	   *border_arg;
	bool		ended;			/* the bitmap has no more */
	int			first;			/* page in use */
	int			npages;			/* behind the last one */
	int			maxpages;
	LsmWantedPage *pages;
	int			noffsets;
	int			maxoffsets;
	OffsetNumber *offsets;
	int			told;			/* page that lsm_wanted_tell() has come to */
	uint64		exact;
	uint64		lossy;
	uint64		runs;
};

static LsmWanted *
lsm_wanted_make(TIDBitmap *bitmap)
{
	LsmWanted  *wanted = palloc0(sizeof(LsmWanted));

	wanted->context = CurrentMemoryContext;
	wanted->bitmap = bitmap;
	wanted->maxpages = 64;
	wanted->pages = palloc(wanted->maxpages * sizeof(LsmWantedPage));
	wanted->maxoffsets = 8 * MaxHeapTuplesPerPage;
	wanted->offsets = palloc(wanted->maxoffsets * sizeof(OffsetNumber));
	return wanted;
}

LsmWanted *
lsm_wanted_begin(TIDBitmap *bitmap)
{
	LsmWanted  *wanted = lsm_wanted_make(bitmap);

	wanted->iterator = lsm_compat_bitmap_begin(bitmap, NULL, InvalidDsaPointer);
	return wanted;
}

LsmWanted *
lsm_wanted_attach(LsmWantedShare *share, dsa_area *dsa, TIDBitmap *bitmap)
{
	LsmWanted  *wanted = lsm_wanted_make(bitmap);

	wanted->share = share;
	wanted->iterator = lsm_compat_bitmap_begin(bitmap, dsa, share->bitmap);
	return wanted;
}

void
lsm_wanted_set_border(LsmWanted *wanted,
					  LsmTid (*border) (void *arg, LsmTid root, uint64 *bytes), void *arg)
{
	wanted->border = border;
	wanted->border_arg = arg;
}

/* Shared memory of the query may be gone by now, and is not touched. */
void
lsm_wanted_end(LsmWanted *wanted)
{
	lsm_compat_bitmap_end(&wanted->iterator);
	if (wanted->bitmap != NULL)
		tbm_free(wanted->bitmap);
	pfree(wanted->pages);
	pfree(wanted->offsets);
	pfree(wanted);
}

/* ---- pages ---- */

/* Forget the pages that were given up. */
static void
lsm_wanted_compact(LsmWanted *wanted)
{
	int			gone = wanted->first < wanted->npages ? wanted->pages[wanted->first].at :
	wanted->noffsets;

	wanted->npages -= wanted->first;
	memmove(wanted->pages, wanted->pages + wanted->first,
			wanted->npages * sizeof(LsmWantedPage));
	wanted->told = Max(wanted->told - wanted->first, 0);
	wanted->first = 0;
	wanted->noffsets -= gone;
	memmove(wanted->offsets, wanted->offsets + gone, wanted->noffsets * sizeof(OffsetNumber));
	for (int i = 0; i < wanted->npages; i++)
		wanted->pages[i].at -= gone;
}

/* Have room for another page. */
static void
lsm_wanted_make_room(LsmWanted *wanted)
{
	if (wanted->npages < wanted->maxpages &&
		wanted->maxoffsets - wanted->noffsets >= MaxHeapTuplesPerPage)
		return;
	if (wanted->first > wanted->npages / 2)
		lsm_wanted_compact(wanted);
	if (wanted->npages >= wanted->maxpages)
	{
		wanted->maxpages *= 2;
		wanted->pages = repalloc_huge(wanted->pages,
									  wanted->maxpages * sizeof(LsmWantedPage));
	}
	if (wanted->maxoffsets - wanted->noffsets < MaxHeapTuplesPerPage)
	{
		wanted->maxoffsets *= 2;
		wanted->offsets = repalloc_huge(wanted->offsets,
										wanted->maxoffsets * sizeof(OffsetNumber));
	}
}

/* Take another page from the bitmap; false: it has no more. */
static bool
lsm_wanted_take_page(LsmWanted *wanted)
{
	LsmWantedPage *page;

	lsm_wanted_make_room(wanted);
	page = &wanted->pages[wanted->npages];
	page->at = wanted->noffsets;
	page->entered = false;
	if (!lsm_compat_bitmap_next(&wanted->iterator, &page->lb, &page->n, &page->recheck,
								wanted->offsets + page->at))
	{
		wanted->ended = true;
		return false;
	}
	wanted->npages++;
	wanted->noffsets += Max(page->n, 0);
	return true;
}

/* The first of a page's offsets that is not less; their number if there is none. */
static int
lsm_wanted_offset(const LsmWanted *wanted, const LsmWantedPage *page, OffsetNumber offset)
{
	const OffsetNumber *offsets = wanted->offsets + page->at;
	int			from = 0;
	int			to = page->n;

	while (from < to)
	{
		int			mid = (from + to) / 2;

		if (offsets[mid] < offset)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* ---- runs ---- */

/* Take what was left over first. */
static bool
lsm_wanted_take_shared(LsmWanted *wanted)
{
	LsmWantedRest *rest = &wanted->share->rest;
	LsmWantedPage *page;

	if (!rest->valid)
		return lsm_wanted_take_page(wanted);
	lsm_wanted_make_room(wanted);
	page = &wanted->pages[wanted->npages++];
	page->lb = rest->lb;
	page->n = rest->n;
	page->at = wanted->noffsets;
	page->recheck = rest->recheck;
	page->entered = rest->part; /* it counts once */
	if (page->n > 0)
	{
		memcpy(wanted->offsets + page->at, rest->offsets, page->n * sizeof(OffsetNumber));
		wanted->noffsets += page->n;
	}
	rest->valid = false;
	return true;
}

/* Leave the last page to others, from one of its offsets on. */
static void
lsm_wanted_leave(LsmWanted *wanted, int from)
{
	LsmWantedRest *rest = &wanted->share->rest;
	LsmWantedPage *page = &wanted->pages[wanted->npages - 1];

	Assert(!rest->valid);
	rest->valid = true;
	rest->part = page->entered || from > 0;
	rest->recheck = page->recheck;
	rest->lb = page->lb;
	rest->n = page->n;
	if (page->n > 0)
	{
		rest->n = page->n - from;
		memcpy(rest->offsets, wanted->offsets + page->at + from, rest->n * sizeof(OffsetNumber));
		wanted->noffsets -= rest->n;
		page->n = from;
	}
	if (from == 0)
		wanted->npages--;
}

/*
 * If the last page goes beyond the end of the run, leave to others what does.  A lossy one
 * cannot be divided: then the run ends with it.
 */
static bool
lsm_wanted_leave_beyond(LsmWanted *wanted)
{
	const LsmWantedPage *page = &wanted->pages[wanted->npages - 1];
	LsmTid		end = wanted->run_end;
	int			from = 0;

	if (page->lb < LSM_TID_LB(end))
		return false;
	if (page->lb == LSM_TID_LB(end))
	{
		if (page->n < 0)
		{
			wanted->run_end = LSM_TID(page->lb, LSM_LAST_OFFSET);
			return false;
		}
		if (LSM_TID_OFFSET(end) == LSM_LAST_OFFSET)
			return false;
		from = lsm_wanted_offset(wanted, page, LSM_TID_OFFSET(end) + 1);
		if (from == page->n)
			return false;
	}
	lsm_wanted_leave(wanted, from);
	return true;
}

/*
 * The run goes to the end of the last block that the last page has roots in.  Returns bytes
 * of blocks that are new to it.
 */
static uint64
lsm_wanted_cover(LsmWanted *wanted)
{
	const LsmWantedPage *page = &wanted->pages[wanted->npages - 1];
	const OffsetNumber *offsets = wanted->offsets + page->at;
	LsmTid		first = LSM_TID(page->lb, page->n < 0 ? FirstOffsetNumber : offsets[0]);
	LsmTid		last = LSM_TID(page->lb, page->n < 0 ? LSM_MAX_OFFSET : offsets[page->n - 1]);
	uint64		bytes = 0;

	for (LsmTid tid = Max(first, wanted->run_end + 1); tid <= last; tid = wanted->run_end + 1)
	{
		uint64		more;

		wanted->run_end = wanted->border(wanted->border_arg, tid, &more);
		bytes += more;
	}
	return bytes;
}

/* Take a run of pages; false: there are no more. */
static bool
lsm_wanted_take_run(LsmWanted *wanted)
{
	uint64		goal = lsm_wantedshare_begin_run(wanted->share, wanted->cold);
	uint64		bytes = 0;
	int			n = 0;

	while (lsm_wanted_take_shared(wanted))
	{
		if (bytes >= goal && lsm_wanted_leave_beyond(wanted))
			break;
		if (bytes < goal)
			bytes += lsm_wanted_cover(wanted);
		n++;
	}
	lsm_wantedshare_end_run(wanted->share, bytes);
	wanted->run = n;
	wanted->runs += n > 0;
	return n > 0;
}

/* ---- pages and runs ---- */

/* Take one page or more from the bitmap; false: it has no more. */
static bool
lsm_wanted_take(LsmWanted *wanted)
{
	if (wanted->ended)
		return false;
	if (wanted->share != NULL)
		return lsm_wanted_take_run(wanted);
	return lsm_wanted_take_page(wanted);
}

/* May pages up to a root still have to be taken? */
static bool
lsm_wanted_lacks(const LsmWanted *wanted, LsmTid hi)
{
	if (wanted->share != NULL)
		return wanted->run_end < hi;
	return wanted->npages <= wanted->first ||
		wanted->pages[wanted->npages - 1].lb <= LSM_TID_LB(hi);
}

/* Have all pages up to a root, and if there is none in use, the next one. */
static void
lsm_wanted_take_to(LsmWanted *wanted, LsmTid hi)
{
	while (lsm_wanted_lacks(wanted, hi))
		if (!lsm_wanted_take(wanted))
			break;
}

/* The first page in use with that LB or a greater one; it, and those up to hi, are there. */
static int
lsm_wanted_find(LsmWanted *wanted, BlockNumber lb, LsmTid hi)
{
	int			from;
	int			to;

	lsm_wanted_take_to(wanted, hi);
	from = wanted->first;
	to = wanted->npages;
	if (from < to && wanted->pages[from].lb >= lb)
		return from;			/* most often */
	while (from < to)
	{
		int			mid = (from + to) / 2;

		if (wanted->pages[mid].lb < lb)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* ---- roots ---- */

LsmTid
lsm_wanted_next(LsmWanted *wanted, LsmTid tid)
{
	for (;;)
	{
		LsmWantedPage *page;
		int			i;

		if (wanted->first >= wanted->npages && !lsm_wanted_take(wanted))
			return LSM_INVALID_TID;
		page = &wanted->pages[wanted->first];
		if (page->lb > LSM_TID_LB(tid))
			tid = LSM_TID(page->lb, FirstOffsetNumber);
		if (page->lb == LSM_TID_LB(tid))
		{
			if (page->n < 0)
				return tid;
			i = lsm_wanted_offset(wanted, page, LSM_TID_OFFSET(tid));
			if (i < page->n)
				return LSM_TID(page->lb, wanted->offsets[page->at + i]);
		}
		wanted->first++;
	}
}

int
lsm_wanted_list(LsmWanted *wanted, LsmTid lo, LsmTid hi, LsmTid *roots, int max)
{
	int			n = 0;

	for (int i = lsm_wanted_find(wanted, LSM_TID_LB(lo), hi);
		 i < wanted->npages && wanted->pages[i].lb <= LSM_TID_LB(hi); i++)
	{
		const LsmWantedPage *page = &wanted->pages[i];

		if (page->n < 0)
			return -1;
		for (int j = 0; j < page->n; j++)
		{
			LsmTid		root = LSM_TID(page->lb, wanted->offsets[page->at + j]);

			if (root < lo || root > hi)
				continue;
			if (n >= max)
				return -1;
			roots[n++] = root;
		}
	}
	return n;
}

bool
lsm_wanted_has(LsmWanted *wanted, LsmTid root)
{
	for (int i = lsm_wanted_find(wanted, LSM_TID_LB(root), root);
		 i < wanted->npages && wanted->pages[i].lb == LSM_TID_LB(root); i++)
	{
		const LsmWantedPage *page = &wanted->pages[i];
		int			at;

		if (page->n < 0)
			return true;
		at = lsm_wanted_offset(wanted, page, LSM_TID_OFFSET(root));
		if (at < page->n && wanted->offsets[page->at + at] == LSM_TID_OFFSET(root))
			return true;
	}
	return false;
}

int
lsm_wanted_mask(LsmWanted *wanted, LsmBlock *block, LsmTid lo, LsmTid hi, uint8 *mask)
{
	int			nrows = lsm_block_rows(block);
	int			n = 0;

	for (int i = lsm_wanted_find(wanted, LSM_TID_LB(lo), hi);
		 i < wanted->npages && wanted->pages[i].lb <= LSM_TID_LB(hi); i++)
	{
		const LsmWantedPage *page = &wanted->pages[i];

		if (page->n < 0)
		{
			int			from = lsm_block_find(block, Max(lo, LSM_TID(page->lb, 0)));
			int			to = lsm_block_find(block, Min(hi, LSM_TID(page->lb, PG_UINT16_MAX)) + 1);

			memset(mask + from, 1, Max(to - from, 0));
			n += Max(to - from, 0);
			continue;
		}
		for (int j = 0; j < page->n; j++)
		{
			LsmTid		root = LSM_TID(page->lb, wanted->offsets[page->at + j]);
			int			row;

			if (root < lo || root > hi)
				continue;
			row = lsm_block_find(block, root);
			if (row < nrows && lsm_block_root(block, row) == root)
			{
				mask[row] = 1;
				n++;
			}
		}
	}
	return n;
}

bool
lsm_wanted_enter(LsmWanted *wanted, LsmTid hi)
{
	bool		recheck = false;

	lsm_wanted_take_to(wanted, hi);
	for (int i = wanted->first; i < wanted->npages && wanted->pages[i].lb <= LSM_TID_LB(hi); i++)
	{
		LsmWantedPage *page = &wanted->pages[i];

		recheck |= page->recheck;
		if (!page->entered)
			*(page->n < 0 ? &wanted->lossy : &wanted->exact) += 1;
		page->entered = true;
	}
	return recheck;
}

void
lsm_wanted_count(LsmWanted *wanted, uint64 *exact, uint64 *lossy, uint64 *runs)
{
	*exact += wanted->exact;
	*lossy += wanted->lossy;
	*runs += wanted->runs;
	wanted->exact = 0;
	wanted->lossy = 0;
	wanted->runs = 0;
}

/* ---- reading ahead ---- */

/* Who shares the bitmap leaves pages that are not needed soon to others. */
static bool
lsm_wanted_take_ahead(LsmWanted *wanted)
{
	int			most = LSM_WANTED_AHEAD;

	if (wanted->share != NULL)
		most = Max(wanted->cold ? LSM_WANTED_AHEAD_COLD : 0, wanted->run);
	return wanted->npages - wanted->first < most && lsm_wanted_take(wanted);
}

LsmTid
lsm_wanted_tell(LsmWanted *wanted, LsmTid tid, LsmTid *last)
{
	for (wanted->told = Max(wanted->told, wanted->first);; wanted->told++)
	{
		LsmWantedPage *page;
		int			i;

		if (wanted->told >= wanted->npages && !lsm_wanted_take_ahead(wanted))
			return LSM_INVALID_TID;
		page = &wanted->pages[wanted->told];
		if (page->lb < LSM_TID_LB(tid))
			continue;
		if (page->lb > LSM_TID_LB(tid))
			tid = LSM_TID(page->lb, FirstOffsetNumber);
		if (page->n < 0)
		{
			*last = LSM_TID(page->lb, LSM_MAX_OFFSET);
			if (tid <= *last)
				return tid;
			continue;
		}
		i = lsm_wanted_offset(wanted, page, LSM_TID_OFFSET(tid));
		if (i < page->n)
			return *last = LSM_TID(page->lb, wanted->offsets[page->at + i]);
	}
}

int
lsm_wanted_peek(LsmWanted *wanted, LsmTid tid, LsmTid *roots, int max)
{
	int			n = 0;

	while (wanted->share == NULL && wanted->npages - wanted->first <= max)
		if (wanted->ended || !lsm_wanted_take_page(wanted))
			break;
	for (int i = wanted->first; i < wanted->npages && n < max; i++)
	{
		const LsmWantedPage *page = &wanted->pages[i];

		if (page->lb < LSM_TID_LB(tid))
			continue;
		if (page->n < 0)
			break;
		for (int j = 0; j < page->n && n < max; j++)
		{
			LsmTid		root = LSM_TID(page->lb, wanted->offsets[page->at + j]);

			if (root >= tid)
				roots[n++] = root;
		}
	}
	return n;
}

void
lsm_wanted_set_cold(LsmWanted *wanted)
{
	wanted->cold = true;
}

void
lsm_wanted_tell_again(LsmWanted *wanted)
{
	wanted->told = wanted->first;
}
