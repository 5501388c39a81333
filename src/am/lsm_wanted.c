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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "lsm_compat.h"
#include "lsm_wanted.h"

/* So many pages are taken before they are needed, at most. */
#define LSM_WANTED_AHEAD		1024

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
	LsmBitmapIterator *iterator;
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
};

LsmWanted *
lsm_wanted_begin(TIDBitmap *bitmap)
{
	LsmWanted  *wanted = palloc0(sizeof(LsmWanted));

	wanted->context = CurrentMemoryContext;
	wanted->bitmap = bitmap;
	wanted->iterator = lsm_compat_bitmap_begin(bitmap);
	wanted->maxpages = 64;
	wanted->pages = palloc(wanted->maxpages * sizeof(LsmWantedPage));
	wanted->maxoffsets = 8 * MaxHeapTuplesPerPage;
	wanted->offsets = palloc(wanted->maxoffsets * sizeof(OffsetNumber));
	return wanted;
}

void
lsm_wanted_end(LsmWanted *wanted)
{
	lsm_compat_bitmap_end(wanted->iterator);
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
lsm_wanted_take(LsmWanted *wanted)
{
	LsmWantedPage *page;

	if (wanted->ended)
		return false;
	lsm_wanted_make_room(wanted);
	page = &wanted->pages[wanted->npages];
	page->at = wanted->noffsets;
	page->entered = false;
	if (!lsm_compat_bitmap_next(wanted->iterator, &page->lb, &page->n, &page->recheck,
								wanted->offsets + page->at))
	{
		wanted->ended = true;
		return false;
	}
	wanted->npages++;
	wanted->noffsets += Max(page->n, 0);
	return true;
}

/* The first page in use with that LB or a greater one; it, and those up to hi, are there. */
static int
lsm_wanted_find(LsmWanted *wanted, BlockNumber lb, BlockNumber hi)
{
	int			from;
	int			to;

	while (wanted->npages <= wanted->first || wanted->pages[wanted->npages - 1].lb <= hi)
		if (!lsm_wanted_take(wanted))
			break;
	from = wanted->first;
	to = wanted->npages;
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

	for (int i = lsm_wanted_find(wanted, LSM_TID_LB(lo), LSM_TID_LB(hi));
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
	int			i = lsm_wanted_find(wanted, LSM_TID_LB(root), LSM_TID_LB(root));
	const LsmWantedPage *page = &wanted->pages[i];
	int			at;

	if (i >= wanted->npages || page->lb != LSM_TID_LB(root))
		return false;
	if (page->n < 0)
		return true;
	at = lsm_wanted_offset(wanted, page, LSM_TID_OFFSET(root));
	return at < page->n && wanted->offsets[page->at + at] == LSM_TID_OFFSET(root);
}

int
lsm_wanted_mask(LsmWanted *wanted, LsmBlock *block, LsmTid lo, LsmTid hi, uint8 *mask)
{
	int			nrows = lsm_block_rows(block);
	int			n = 0;

	for (int i = lsm_wanted_find(wanted, LSM_TID_LB(lo), LSM_TID_LB(hi));
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

	(void) lsm_wanted_find(wanted, 0, LSM_TID_LB(hi));
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
lsm_wanted_pages(LsmWanted *wanted, uint64 *exact, uint64 *lossy)
{
	*exact += wanted->exact;
	*lossy += wanted->lossy;
	wanted->exact = 0;
	wanted->lossy = 0;
}

/* ---- reading ahead ---- */

LsmTid
lsm_wanted_tell(LsmWanted *wanted, LsmTid tid, LsmTid *last)
{
	for (wanted->told = Max(wanted->told, wanted->first);; wanted->told++)
	{
		LsmWantedPage *page;
		int			i;

		if (wanted->told >= wanted->npages &&
			(wanted->npages - wanted->first >= LSM_WANTED_AHEAD || !lsm_wanted_take(wanted)))
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

void
lsm_wanted_tell_again(LsmWanted *wanted)
{
	wanted->told = wanted->first;
}
