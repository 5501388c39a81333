/*-------------------------------------------------------------------------
 *
 * lsm_blockpin.c
 *	  Who has pinned which blocks of the cache of decoded blocks.
 *
 * Pins belong to the resource owner that was the current one when they were taken, as pins of
 * buffers do: to a portal's, if a plan runs in a portal, so that a cursor that is fetched from
 * inside of a subtransaction keeps what it has pinned when that fails; else to that of the
 * subtransaction.  What an owner has not given back by its end has been left by an error, and
 * is taken away.
 *
 * Holders outlive that: a slot is not cleared when its plan fails, or later, by somebody who
 * does not know.  So a holder keeps its owner and the time (which goes up whenever pins are
 * taken away) beside its block.  A pin that has been taken away is older than all that are
 * there of an owner at the same address: what gives it back finds none, and does nothing.
 * (Where its block was may be another one by then; places of blocks are never unmapped.)
 *
 * Each statement ends several resource owners, each in three phases.  So only transactions that pin
 * a block are told of them, from the first one on.
 *
 * OWNS
 *	  The list of pinned blocks.  A block has one entry for each owner that has pins of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_blockpin.h"
#include "utils/memutils.h"

uint64		lsm_pin_time = 1;
dlist_head	lsm_pinned_list = DLIST_STATIC_INIT(lsm_pinned_list);
int			lsm_pinned_blocks;	/* how many are in it */
bool		lsm_pins_watching;

static ResourceReleaseCallback lsm_pins_owner_ends;

/* owner_ends: what is to be called at the end of resource owners. */
void
lsm_pins_init(ResourceReleaseCallback owner_ends)
{
	lsm_pins_owner_ends = owner_ends;
}

void
lsm_pins_watch(void)
{
	RegisterResourceReleaseCallback(lsm_pins_owner_ends, NULL);
	lsm_pins_watching = true;
}

/* There are no pins any more, and no transaction. */
void
lsm_pins_xact_end(void)
{
	if (!lsm_pins_watching)
		return;
	UnregisterResourceReleaseCallback(lsm_pins_owner_ends, NULL);
	lsm_pins_watching = false;
}

/* The entry of the current owner in a block that others have pinned, made if need be. */
LsmOwnedPins *
lsm_pins_of_another(LsmPinned *pinned)
{
	LsmOwnedPins *pins;

	for (pins = &pinned->first; pins != NULL; pins = pins->next)
		if (pins->count > 0 && pins->owner == CurrentResourceOwner)
			return pins;
	if (pinned->first.count == 0)
		pins = &pinned->first;
	else
	{
		pins = MemoryContextAlloc(TopMemoryContext, sizeof(LsmOwnedPins));
		pins->count = 0;
		pins->next = pinned->first.next;
		pinned->first.next = pins;
	}
	pins->owner = CurrentResourceOwner;
	pins->since = lsm_pin_time;
	return pins;
}

LsmOwnedPins *
lsm_pins_find_other(LsmPinned *pinned, LsmPinHolder holder)
{
	for (LsmOwnedPins *pins = pinned->first.next; pins != NULL; pins = pins->next)
		if (pins->owner == holder.owner && pins->since <= holder.time)
			return pins;
	return NULL;
}

/* Free an entry without pins, other than the first. */
void
lsm_pins_forget(LsmPinned *pinned, LsmOwnedPins *pins)
{
	LsmOwnedPins *before = &pinned->first;

	while (before->next != pins)
		before = before->next;
	before->next = pins->next;
	pfree(pins);
}

/* Take the pins of an owner (NULL: of all) away from a block; how many there were. */
static int
lsm_pinned_take_away(LsmPinned *pinned, ResourceOwner owner)
{
	LsmOwnedPins *pins = &pinned->first;
	int			before = pinned->count;

	while (pins != NULL)
	{
		LsmOwnedPins *next = pins->next;

		if (owner == NULL || pins->owner == owner)
		{
			pinned->count -= pins->count;
			pins->count = 0;
			if (pins != &pinned->first)
				lsm_pins_forget(pinned, pins);
		}
		pins = next;
	}
	return before - pinned->count;
}

int
lsm_pins_take_away(ResourceOwner owner, void (*unpinned) (LsmPinned *pinned))
{
	dlist_mutable_iter iter;
	int			taken = 0;

	dlist_foreach_modify(iter, &lsm_pinned_list)
	{
		LsmPinned  *pinned = dlist_container(LsmPinned, node, iter.cur);

		taken += lsm_pinned_take_away(pinned, owner);
		if (pinned->count > 0)
			continue;
		dlist_delete(&pinned->node);
		lsm_pinned_blocks--;
		unpinned(pinned);
	}
	if (taken > 0)
		lsm_pin_time++;
	return taken;
}
