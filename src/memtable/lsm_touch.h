/*-------------------------------------------------------------------------
 *
 * lsm_touch.h
 *	  What changes of rows may have touched: a set of columns, and whether rows
 *	  are there at all.
 *
 * A row whose changes have touched none of the columns that a query looks at, and
 * have not ended it, is for that query as its bottom has it, whoever has made the
 * changes and whoever sees them (I20).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TOUCH_H
#define LSM_TOUCH_H

#include "access/htup_details.h"
#include "lsm_page.h"
#include "port/atomics.h"

#define LSM_TOUCH_WORDS			(MaxTupleAttributeNumber / 32 + 1)

/* Bit 0: rows may end here; bit n: column n may differ. */
typedef struct LsmTouch
{
	uint32		words[LSM_TOUCH_WORDS];
} LsmTouch;

/* The same, to which several processes add; nobody takes anything out. */
typedef struct LsmSharedTouch
{
	pg_atomic_uint32 words[LSM_TOUCH_WORDS];
} LsmSharedTouch;

StaticAssertDecl(MaxTupleAttributeNumber % 8 == 0, "maps of columns end with a byte");

/* The bit for rows that end. */
#define LSM_TOUCH_END			0

static inline void
lsm_touch_clear(LsmTouch *touch)
{
	memset(touch, 0, sizeof(*touch));
}

static inline void
lsm_touch_set(LsmTouch *touch, int bit)
{
	touch->words[bit / 32] |= (uint32) 1 << (bit % 32);
}

static inline bool
lsm_touch_has(const LsmTouch *touch, int bit)
{
	return (touch->words[bit / 32] & ((uint32) 1 << (bit % 32))) != 0;
}

/* How many words tell of tables with so many columns. */
static inline int
lsm_touch_words(int natts)
{
	return natts / 32 + 1;
}

static inline bool
lsm_touch_overlap(const LsmTouch *a, const LsmTouch *b, int natts)
{
	for (int i = 0; i < lsm_touch_words(natts); i++)
		if (a->words[i] & b->words[i])
			return true;
	return false;
}

static inline void
lsm_touch_add(LsmTouch *to, const LsmTouch *from, int natts)
{
	for (int i = 0; i < lsm_touch_words(natts); i++)
		to->words[i] |= from->words[i];
}

extern void lsm_touch_add_kind(LsmTouch *touch, uint16 info, const bits8 *cols, int cols_len);
extern void lsm_touch_add_record(LsmTouch *touch, const LsmRecord *record);

extern void lsm_touch_share_init(LsmSharedTouch *shared);
extern void lsm_touch_share_clear(LsmSharedTouch *shared);
extern void lsm_touch_share_record(LsmSharedTouch *shared, const LsmRecord *record);
extern void lsm_touch_share(LsmSharedTouch *shared, const LsmTouch *touch);
extern void lsm_touch_add_shared(LsmTouch *to, LsmSharedTouch *shared, int natts);

#endif							/* LSM_TOUCH_H */
