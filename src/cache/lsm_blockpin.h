/*-------------------------------------------------------------------------
 *
 * lsm_blockpin.h
 *	  Who has pinned which blocks of the cache of decoded blocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_BLOCKPIN_H
#define LSM_BLOCKPIN_H

#include "lsm.h"

#include "lib/ilist.h"
#include "utils/resowner.h"

/*
 * Whose a pin is, and since when: who holds a block for longer than one call keeps it beside
 * the block, and gives the pin back with it.
 */
typedef struct LsmPinHolder
{
	ResourceOwner owner;
	uint64		time;			/* lsm_pin_time when it was pinned */
} LsmPinHolder;

/* The pins that one resource owner has of a block. */
typedef struct LsmOwnedPins
{
	int			count;
	ResourceOwner owner;
	uint64		since;			/* lsm_pin_time when its first was taken */
	struct LsmOwnedPins *next;	/* of another owner */
} LsmOwnedPins;

/* What a block has of this. */
typedef struct LsmPinned
{
	int			count;			/* all of them */
	LsmOwnedPins first;			/* one owner is the rule */
	dlist_node	node;			/* while there are pins */
} LsmPinned;

/* Goes up whenever pins are taken away from those who have not given them back. */
extern uint64 lsm_pin_time;

extern dlist_head lsm_pinned_list;
extern int	lsm_pinned_blocks;

/* For somebody who pins a block now. */
static inline LsmPinHolder
lsm_pin_holder(void)
{
	LsmPinHolder holder = {CurrentResourceOwner, lsm_pin_time};

	return holder;
}

/* Would who pins a block now be the same holder?  Then it certainly has its pin. */
static inline bool
lsm_pin_holder_is_now(const LsmPinHolder *holder)
{
	return holder->owner == CurrentResourceOwner && holder->time == lsm_pin_time;
}

static inline void
lsm_pinned_init(LsmPinned *pinned)
{
	pinned->count = 0;
	pinned->first.count = 0;
	pinned->first.next = NULL;
}

extern LsmOwnedPins *lsm_pins_of_another(LsmPinned *pinned);

/* Are we told of ends of resource owners? */
extern bool lsm_pins_watching;

extern void lsm_pins_watch(void);

/* Before a transaction's first pin is taken, and before anything else that would be left by an error. */
static inline void
lsm_pins_prepare(void)
{
	if (unlikely(!lsm_pins_watching))
		lsm_pins_watch();
}

/* One pin more, of the current owner. */
static inline void
lsm_pins_take(LsmPinned *pinned)
{
	LsmOwnedPins *pins = &pinned->first;

	Assert(lsm_pins_watching);
	if (likely(pinned->count == 0))
	{
		pins->owner = CurrentResourceOwner;
		pins->since = lsm_pin_time;
		dlist_push_head(&lsm_pinned_list, &pinned->node);
		lsm_pinned_blocks++;
	}
	else if (unlikely(pins->owner != CurrentResourceOwner || pins->next != NULL))
		pins = lsm_pins_of_another(pinned);
	pins->count++;
	pinned->count++;
}

extern LsmOwnedPins *lsm_pins_find_other(LsmPinned *pinned, LsmPinHolder holder);

/* Those that a holder's pin is one of; NULL: it has been taken away. */
static inline LsmOwnedPins *
lsm_pins_find(LsmPinned *pinned, LsmPinHolder holder)
{
	LsmOwnedPins *pins = &pinned->first;

	if (likely(pins->owner == holder.owner && pins->count > 0 && pins->since <= holder.time))
		return pins;
	return lsm_pins_find_other(pinned, holder);
}

extern void lsm_pins_forget(LsmPinned *pinned, LsmOwnedPins *pins);

/* One of them less; there are more. */
static inline void
lsm_pins_drop(LsmPinned *pinned, LsmOwnedPins *pins)
{
	Assert(pins->count > 0 && pinned->count > 1);
	pinned->count--;
	if (unlikely(--pins->count == 0 && pins != &pinned->first))
		lsm_pins_forget(pinned, pins);
}

/* The same of the last one. */
static inline void
lsm_pins_drop_last(LsmPinned *pinned, LsmOwnedPins *pins)
{
	Assert(pins->count == 1 && pinned->count == 1);
	pinned->count = 0;
	pins->count = 0;
	if (unlikely(pins != &pinned->first))
		lsm_pins_forget(pinned, pins);
	dlist_delete(&pinned->node);
	lsm_pinned_blocks--;
}

/*
 * Take away the pins of an owner, or (NULL) all; tells of each block that has none left.
 * Returns how many there were.
 */
extern int	lsm_pins_take_away(ResourceOwner owner, void (*unpinned) (LsmPinned *pinned));

extern void lsm_pins_init(ResourceReleaseCallback owner_ends);
extern void lsm_pins_xact_end(void);

#endif							/* LSM_BLOCKPIN_H */
