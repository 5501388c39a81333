/*-------------------------------------------------------------------------
 *
 * lsm_view_increments.c
 *	  Which increments of a view meet a row, or rows.
 *
 * A table of terabytes that is changed everywhere has thousands of increments, most of
 * which lie beside each other: few of them, about as many as flushes have left over one
 * another, reach over a row.  So increments are in layers, in each of which none meets
 * another: those over a row are found by a binary search in each.  There are as many
 * layers as increments lie over each other where they are most (the greedy partition of
 * intervals: by where they begin, each goes to the first layer that it fits into).
 *
 * Rows that are asked for one after the other are neighbours more often than not.  So what
 * was found last is kept, with the span of roots for which it would be the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_manifest.h"

/* So few increments are looked at one after the other. */
#define LSM_INCREMENTS_FEW		8

/* An increment, to be sorted by where it begins. */
typedef struct LsmIncrementSpan
{
	LsmRootSpan roots;
	int			increment;		/* of the view */
} LsmIncrementSpan;

static int
lsm_increment_span_cmp(const void *a, const void *b)
{
	LsmTid		x = ((const LsmIncrementSpan *) a)->roots.first;
	LsmTid		y = ((const LsmIncrementSpan *) b)->roots.first;

	return x < y ? -1 : x > y;
}

/* Unite the spans, which are sorted, where they overlap. */
static void
lsm_view_cover(LsmView *view, const LsmIncrementSpan *spans)
{
	LsmRootSpan *covered = palloc(Max(view->nincrements, 1) * sizeof(LsmRootSpan));
	int			n = 0;

	for (int i = 0; i < view->nincrements; i++)
	{
		if (n > 0 && spans[i].roots.first <= covered[n - 1].last)
			covered[n - 1].last = Max(covered[n - 1].last, spans[i].roots.last);
		else
			covered[n++] = spans[i].roots;
	}
	view->covered = covered;
	view->ncovered = n;
}

/* Which layer each of the spans, which are sorted, goes to; fills in where the layers end. */
static int *
lsm_view_choose_layers(LsmView *view, const LsmIncrementSpan *spans)
{
	int		   *layer_of = palloc(Max(view->nincrements, 1) * sizeof(int));
	LsmTid	   *lasts = palloc(Max(view->nincrements, 1) * sizeof(LsmTid));

	view->nlayers = 0;
	view->layer_ends = palloc0(Max(view->nincrements, 1) * sizeof(int));
	for (int i = 0; i < view->nincrements; i++)
	{
		int			layer = 0;

		while (layer < view->nlayers && lasts[layer] >= spans[i].roots.first)
			layer++;
		view->nlayers = Max(view->nlayers, layer + 1);
		lasts[layer] = spans[i].roots.last;
		layer_of[i] = layer;
		view->layer_ends[layer]++;
	}
	for (int i = 1; i < view->nlayers; i++)
		view->layer_ends[i] += view->layer_ends[i - 1];
	pfree(lasts);
	return layer_of;
}

void
lsm_view_order_increments(LsmView *view)
{
	int			n = view->nincrements;
	LsmIncrementSpan *spans = palloc(Max(n, 1) * sizeof(LsmIncrementSpan));
	int		   *layer_of;
	int		   *at;

	for (int i = 0; i < n; i++)
	{
		spans[i].roots.first = view->increments[i]->first_tid;
		spans[i].roots.last = view->increments[i]->last_tid;
		spans[i].increment = i;
	}
	qsort(spans, n, sizeof(LsmIncrementSpan), lsm_increment_span_cmp);
	layer_of = lsm_view_choose_layers(view, spans);
	view->layered = palloc(Max(n, 1) * sizeof(int));
	view->met = palloc(Max(n, 1) * sizeof(int));
	view->met_span.first = 1;
	view->met_span.last = 0;
	at = palloc(Max(view->nlayers, 1) * sizeof(int));
	for (int i = 0; i < view->nlayers; i++)
		at[i] = i > 0 ? view->layer_ends[i - 1] : 0;
	for (int i = 0; i < n; i++)
		view->layered[at[layer_of[i]]++] = spans[i].increment;
	pfree(at);
	pfree(layer_of);
	lsm_view_cover(view, spans);
	pfree(spans);
}

int
lsm_view_find_increment(LsmView *view, const LsmManifestEntry *entry)
{
	int			low = 0;
	int			high = view->nincrements;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lsm_entry_cmp_age(view->increments[middle], entry) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < view->nincrements && view->increments[low]->uid == entry->uid ? low : -1;
}

bool
lsm_view_increments_meet(LsmView *view, LsmTid lo, LsmTid hi)
{
	int			at = 0;
	int			end = view->ncovered;

	while (at < end)
	{
		int			mid = at + (end - at) / 2;

		if (view->covered[mid].last < lo)
			at = mid + 1;
		else
			end = mid;
	}
	return at < view->ncovered && view->covered[at].first <= hi;
}

/* Put a place among those that are met, which are in order, the newest first. */
static void
lsm_view_add_met(LsmView *view, int increment)
{
	int			at = view->nmet++;

	for (; at > 0 && view->met[at - 1] > increment; at--)
		view->met[at] = view->met[at - 1];
	view->met[at] = increment;
}

/*
 * Find the increments of a layer that meet roots from lo to hi.  The span becomes smaller:
 * none of those begins or ends within it, and no other one is in it.
 */
static void
lsm_view_meet_layer(LsmView *view, int begin, int end, LsmTid lo, LsmTid hi, LsmRootSpan *span)
{
	int			low = begin;
	int			high = end;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (view->increments[view->layered[middle]]->last_tid < lo)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > begin)
		span->first = Max(span->first, view->increments[view->layered[low - 1]]->last_tid + 1);
	for (; low < end; low++)
	{
		const LsmManifestEntry *entry = view->increments[view->layered[low]];

		if (entry->first_tid > hi)
		{
			span->last = Min(span->last, entry->first_tid - 1);
			break;
		}
		span->first = Max(span->first, entry->first_tid);
		span->last = Min(span->last, entry->last_tid);
		lsm_view_add_met(view, view->layered[low]);
	}
}

/*
 * Find all increments that meet roots from lo to hi.  Where one of them begins or ends there,
 * the span becomes one without these, and they are found again for the next question.
 */
static void
lsm_view_meet(LsmView *view, LsmTid lo, LsmTid hi)
{
	view->nmet = 0;
	view->met_span.first = 0;
	view->met_span.last = PG_UINT64_MAX;
	for (int i = 0; i < view->nlayers; i++)
		lsm_view_meet_layer(view, i > 0 ? view->layer_ends[i - 1] : 0, view->layer_ends[i], lo, hi,
							&view->met_span);
}

int
lsm_view_next_increment(LsmView *view, LsmTid lo, LsmTid hi, int from)
{
	int			low = 0;
	int			high;

	Assert(lo <= hi);
	if (view->nincrements <= LSM_INCREMENTS_FEW)
	{
		while (from < view->nincrements && (view->increments[from]->last_tid < lo ||
											view->increments[from]->first_tid > hi))
			from++;
		return from;
	}
	if (lo < view->met_span.first || hi > view->met_span.last)
		lsm_view_meet(view, lo, hi);
	for (high = view->nmet; low < high;)
	{
		int			middle = low + (high - low) / 2;

		if (view->met[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < view->nmet ? view->met[low] : view->nincrements;
}
