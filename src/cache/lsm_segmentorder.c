/*-------------------------------------------------------------------------
 *
 * lsm_segmentorder.c
 *	  Reading ahead of what is kept of each segment, in the order of the view.
 *
 * Who asks for a segment and then for one of the next few in the order of the view will go
 * on so: a scan of many does, whose blocks zone maps rule out.  What it will want of those that
 * come next is read ahead then (lsm_ahead.c), of a few segments at first.  Of each thing one
 * order is known in a process at a time, that of base segments or of increments of a table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_segmentorder.h"

/* Segments that are left out between two do not end the order. */
#define LSM_ORDER_LEFT_OUT		8

static int
lsm_segment_order_list(LsmView *view, bool base, LsmManifestEntry ***list)
{
	*list = base ? view->base : view->increments;
	return base ? view->nbase : view->nincrements;
}

static bool
lsm_segment_order_next(void *arg, const LsmManifestEntry **entry, uint32 *blockno)
{
	LsmSegmentOrder *order = arg;
	LsmView    *view = order->table->view;
	LsmManifestEntry **list;
	int			n;

	if (view == NULL || view->epoch != order->epoch || view->counter != order->counter)
		return false;
	n = lsm_segment_order_list(view, order->base, &list);
	do
	{
		if (++order->told >= n)
			return false;
	} while (order->has(order->table, list[order->told]));
	*entry = list[order->told];
	*blockno = order->what;
	return true;
}

static void
lsm_segment_order_restart(void *arg)
{
	LsmSegmentOrder *order = arg;

	order->told = order->asked;
}

/* The place of an entry among those of its kind in the view at hand; -1: none. */
static int
lsm_segment_order_place(LsmView *view, const LsmManifestEntry *entry, bool *base)
{
	int			at = lsm_view_find_base(view, entry->first_tid);

	*base = at < view->nbase && view->base[at]->uid == entry->uid;
	return *base ? at : lsm_view_find_increment(view, entry);
}

LsmAheadFeed *
lsm_segment_order_feed(LsmSegmentOrder *order, LsmTable *table, const LsmManifestEntry *entry)
{
	LsmView    *view = table->view;
	bool		base = false;
	int			at = view == NULL ? -1 : lsm_segment_order_place(view, entry, &base);

	if (at < 0)
		return NULL;
	if (order->table != table || order->base != base ||
		order->epoch != view->epoch || order->counter != view->counter ||
		at <= order->asked || at > order->asked + LSM_ORDER_LEFT_OUT + 1)
	{
		lsm_ahead_end(&order->feed);
		memset(&order->feed, 0, sizeof(order->feed));
		order->feed.kind = LSM_READER_METADATA;
		order->feed.next = lsm_segment_order_next;
		order->feed.restart = lsm_segment_order_restart;
		order->feed.arg = order;
		order->feed.sure = true;
		order->table = table;
		order->epoch = view->epoch;
		order->counter = view->counter;
		order->base = base;
		order->told = 0;
	}
	order->asked = at;
	return &order->feed;
}
