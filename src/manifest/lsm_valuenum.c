/*-------------------------------------------------------------------------
 *
 * lsm_valuenum.c
 *	  Numbers for large values that lie in objects of a store.
 *
 * A live pointer has 32 bits to say where its value begins: a block of the file.  Of a
 * value in an object it has a number instead.  Numbers are what is left of all blocks that
 * there could be: the manifest entry of a cold segment with large values has a run of
 * them, as long as its object would have pages, so that a number tells the page as a block
 * does.  Runs are taken downward from the last block, in the gap nearest to it, and the
 * file does not grow into them.
 *
 * A number is used again when the entry that has it goes.  That is retired first, and goes
 * when nobody can have a live pointer that was made from it (I15), like the pages of local
 * segments.  So a segment that goes out, or comes back, has two entries for a while: the
 * one that it has now, and a retired one with the pages or the numbers of before.
 *
 * LOCKING
 *	  Taking numbers is a part of an edit.  A view is its backend's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_manifest.h"

/* So many blocks are left to the file, beyond those that it has. */
#define LSM_NUMBERS_ABOVE		(1U << 28)

/* ---- looking up ---- */

static inline bool
lsm_entry_is_valued(const LsmManifestEntry *entry)
{
	return (entry->type == LSM_ENTRY_SEGMENT || entry->type == LSM_ENTRY_RETIRED) &&
		(entry->flags & LSM_SEGFLAG_VALUES) != 0;
}

/*
 * The entry for new pointers comes first: the segment's, else the one that was retired last,
 * as whoever still reads the segment has begun before that.
 */
static int
lsm_valued_cmp(const void *a, const void *b)
{
	const LsmManifestEntry *x = *(LsmManifestEntry *const *) a;
	const LsmManifestEntry *y = *(LsmManifestEntry *const *) b;
	uint64		stamp_x;
	uint64		stamp_y;

	if (x->uid != y->uid)
		return x->uid < y->uid ? -1 : 1;
	if (x->type != y->type)
		return x->type == LSM_ENTRY_SEGMENT ? -1 : 1;

	/* 0 is the stamp of the last edit that has retired something */
	stamp_x = LSM_ENTRY_STAMP(x) - 1;
	stamp_y = LSM_ENTRY_STAMP(y) - 1;
	return stamp_x > stamp_y ? -1 : stamp_x < stamp_y;
}

static int
lsm_numbered_cmp(const void *a, const void *b)
{
	BlockNumber x = lsm_entry_numbers(*(LsmManifestEntry *const *) a).start;
	BlockNumber y = lsm_entry_numbers(*(LsmManifestEntry *const *) b).start;

	return x < y ? -1 : x > y;
}

void
lsm_view_sort_valued(LsmView *view)
{
	int			n = 0;

	for (int i = 0; i < view->nentries; i++)
		n += lsm_entry_is_valued(&view->entries[i]);
	view->nvalued = view->nnumbered = 0;
	view->valued = palloc(Max(n, 1) * sizeof(LsmManifestEntry *));
	view->numbered = palloc(Max(n, 1) * sizeof(LsmManifestEntry *));
	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry *entry = &view->entries[i];

		if (!lsm_entry_is_valued(entry))
			continue;
		view->valued[view->nvalued++] = entry;
		if (lsm_entry_has_numbers(entry))
			view->numbered[view->nnumbered++] = entry;
	}
	qsort(view->valued, view->nvalued, sizeof(LsmManifestEntry *), lsm_valued_cmp);
	qsort(view->numbered, view->nnumbered, sizeof(LsmManifestEntry *), lsm_numbered_cmp);
}

LsmManifestEntry **
lsm_view_find_valued(const LsmView *view, uint64 uid, int *n)
{
	int			low = 0;
	int			high = view->nvalued;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (view->valued[middle]->uid < uid)
			low = middle + 1;
		else
			high = middle;
	}
	*n = 0;
	while (low + *n < view->nvalued && view->valued[low + *n]->uid == uid)
		(*n)++;
	return *n > 0 ? view->valued + low : NULL;
}

const LsmManifestEntry *
lsm_view_find_number(const LsmView *view, BlockNumber number)
{
	int			low = 0;
	int			high = view->nnumbered;
	LsmExtent	run;

	/* the first that begins behind it */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lsm_entry_numbers(view->numbered[middle]).start <= number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	run = lsm_entry_numbers(view->numbered[low - 1]);
	return number - run.start < run.npages ? view->numbered[low - 1] : NULL;
}

/* ---- taking ---- */

/*
 * Find a place for so many numbers: the highest, above all that number of blocks, and
 * between runs that are used, which come from the highest to the lowest.
 */
bool
lsm_numbers_place(const LsmExtent *runs, int nruns, BlockNumber above, uint32 npages,
				  BlockNumber *start)
{
	BlockNumber end = InvalidBlockNumber;

	for (int i = 0; i < nruns; i++)
	{
		if (end - (runs[i].start + runs[i].npages) >= npages)
			break;
		end = runs[i].start;
	}
	if (end < above || end - above < npages)
		return false;
	*start = end - npages;
	return true;
}

/* What the file may have one day. */
static inline BlockNumber
lsm_numbers_above(const LsmMeta *meta)
{
	return meta->npages > InvalidBlockNumber - LSM_NUMBERS_ABOVE ? InvalidBlockNumber :
		meta->npages + LSM_NUMBERS_ABOVE;
}

uint32
lsm_view_numbers_left(const LsmView *view)
{
	BlockNumber above = lsm_numbers_above(&view->meta);
	BlockNumber end = InvalidBlockNumber;
	uint32		most = 0;

	for (int i = view->nnumbered - 1; i >= 0; i--)
	{
		LsmExtent	run = lsm_entry_numbers(view->numbered[i]);

		most = Max(most, end - (run.start + run.npages));
		end = run.start;
	}
	return end > above ? Max(most, end - above) : most;
}

static int
lsm_run_cmp(const void *a, const void *b)
{
	BlockNumber x = ((const LsmExtent *) a)->start;
	BlockNumber y = ((const LsmExtent *) b)->start;

	return x > y ? -1 : x < y;
}

/* The numbers that are used, from the highest to the lowest. */
static LsmExtent *
lsm_edit_runs(LsmEdit *edit, int *n)
{
	LsmExtent  *runs = NULL;
	int			max = 0;

	*n = 0;
	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (!lsm_entry_is_valued(entry) || !lsm_entry_has_numbers(entry))
				continue;
			if (*n >= max)
			{
				max = Max(2 * max, 64);
				runs = runs == NULL ? palloc(max * sizeof(LsmExtent)) :
					repalloc_huge(runs, max * sizeof(LsmExtent));
			}
			runs[(*n)++] = lsm_entry_numbers(entry);
		}
	}
	if (*n > 1)
		qsort(runs, *n, sizeof(LsmExtent), lsm_run_cmp);
	return runs;
}

/* Numbers for an entry that the edit is going to make. */
void
lsm_edit_take_numbers(LsmEdit *edit, uint32 npages, LsmExtent *run)
{
	int			n;
	LsmExtent  *runs = lsm_edit_runs(edit, &n);

	if (!lsm_numbers_place(runs, n, lsm_numbers_above(&edit->meta), npages, &run->start))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has no more room for large values in a store",
						RelationGetRelationName(edit->rel))));
	run->npages = npages;
	if (runs != NULL)
		pfree(runs);
}

/* Is there room for more blocks?  The file does not grow into numbers. */
void
lsm_edit_check_growth(LsmEdit *edit, uint32 npages)
{
	int			n;
	LsmExtent  *runs = lsm_edit_runs(edit, &n);
	BlockNumber end = n > 0 ? runs[n - 1].start : MaxBlockNumber;

	if (runs != NULL)
		pfree(runs);
	if (edit->meta.npages > end || end - edit->meta.npages < npages)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has reached the largest size that a table can have",
						RelationGetRelationName(edit->rel))));
}
