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

static int
lsm_root_span_cmp(const void *a, const void *b)
{
	const LsmRootSpan *x = a;
	const LsmRootSpan *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Unite the spans, which are sorted, where they overlap. */
static void
lsm_view_cover(LsmView *view, LsmRootSpan *spans)
{
	int			n = 0;

	for (int i = 0; i < view->nincrements; i++)
	{
		if (n > 0 && spans[i].first <= spans[n - 1].last)
			spans[n - 1].last = Max(spans[n - 1].last, spans[i].last);
		else
			spans[n++] = spans[i];
	}
	view->covered = spans;
	view->ncovered = n;
}

/* Which layer each of the spans, which are sorted, goes to; fills in where the layers end. */
static int *
lsm_view_choose_layers(LsmView *view, const LsmRootSpan *spans)
{
	int		   *layer_of = palloc(Max(view->nincrements, 1) * sizeof(int));
	LsmTid	   *lasts = palloc(Max(view->nincrements, 1) * sizeof(LsmTid));

	view->nlayers = 0;
	view->layer_ends = palloc0(Max(view->nincrements, 1) * sizeof(int));
	for (int i = 0; i < view->nincrements; i++)
	{
		int			layer = 0;

		while (layer < view->nlayers && lasts[layer] >= spans[i].first)
			layer++;
		view->nlayers = Max(view->nlayers, layer + 1);
		lasts[layer] = spans[i].last;
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
	LsmRootSpan *spans = palloc(Max(n, 1) * sizeof(LsmRootSpan));
	int		   *layer_of;
	int		   *at;

	for (int i = 0; i < n; i++)
	{
		spans[i].first = view->increments[i]->first_tid;
		spans[i].last = view->increments[i]->last_tid;
		spans[i].increment = i;
	}
	qsort(spans, n, sizeof(LsmRootSpan), lsm_root_span_cmp);
	layer_of = lsm_view_choose_layers(view, spans);
	view->layered = palloc(Max(n, 1) * sizeof(int));
	view->met = palloc(Max(n, 1) * sizeof(int));
	view->nmet = -1;
	at = palloc(Max(view->nlayers, 1) * sizeof(int));
	for (int i = 0; i < view->nlayers; i++)
		at[i] = i > 0 ? view->layer_ends[i - 1] : 0;
	for (int i = 0; i < n; i++)
		view->layered[at[layer_of[i]]++] = spans[i].increment;
	pfree(at);
	pfree(layer_of);
	lsm_view_cover(view, spans);
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

/* Find all increments that meet roots from lo to hi. */
static void
lsm_view_meet(LsmView *view, LsmTid lo, LsmTid hi)
{
	LsmRootSpan span = {0, PG_UINT64_MAX, -1};

	view->nmet = 0;
	for (int i = 0; i < view->nlayers; i++)
		lsm_view_meet_layer(view, i > 0 ? view->layer_ends[i - 1] : 0, view->layer_ends[i], lo, hi,
							&span);
	view->met_all_over = span.first <= lo && hi <= span.last;
	view->met_first = view->met_all_over ? span.first : lo;
	view->met_last = view->met_all_over ? span.last : hi;
}

int
lsm_view_next_increment(LsmView *view, LsmTid lo, LsmTid hi, int from)
{
	int			low = 0;
	int			high;

	if (view->nincrements <= LSM_INCREMENTS_FEW)
	{
		while (from < view->nincrements && (view->increments[from]->last_tid < lo ||
											view->increments[from]->first_tid > hi))
			from++;
		return from;
	}
	if (view->nmet < 0 || lo < view->met_first || hi > view->met_last ||
		(!view->met_all_over && (lo != view->met_first || hi != view->met_last)))
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
