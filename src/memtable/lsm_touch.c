/*-------------------------------------------------------------------------
 *
 * lsm_touch.c
 *	  What changes of rows may have touched.
 *
 * The memtable index of each generation keeps the union over all its records.  It is
 * added to before a record can be found by the index, and before its transaction can
 * commit: so of whatever a snapshot sees, who looks under gen_lock finds all that it
 * has touched (I20).  That of a segment is made by lsm_touched.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_touch.h"

/* What a record touches with that info and, if it is a DELTA, that map of columns. */
void
lsm_touch_add_kind(LsmTouch *touch, uint16 info, const bits8 *cols, int cols_len)
{
	switch (LSM_REC_KIND(info))
	{
		case LSM_REC_INSERT:
		case LSM_REC_LOCK:
			return;
		case LSM_REC_UPDATE:
			break;
		default:
			lsm_touch_set(touch, LSM_TOUCH_END);
			return;
	}
	if (!(info & LSM_REC_DELTA) || cols == NULL)
	{
		touch->words[0] |= ~((uint32) 1 << LSM_TOUCH_END);
		for (int i = 1; i < LSM_TOUCH_WORDS; i++)
			touch->words[i] = ~(uint32) 0;
		return;
	}
	/* there are no columns beyond, whatever a damaged record says */
	for (int i = 0; i < Min(cols_len, MaxTupleAttributeNumber / 8); i++)
		for (int bit = 0; bit < 8 && cols[i] != 0; bit++)
			if (cols[i] & (1 << bit))
				lsm_touch_set(touch, i * 8 + bit + 1);
}

/* The same of a record of the row log; of one that is spilled, its map is elsewhere. */
void
lsm_touch_add_record(LsmTouch *touch, const LsmRecord *record)
{
	bool		mapped = (record->info & LSM_REC_DELTA) && !(record->info & LSM_REC_SPILLED);

	lsm_touch_add_kind(touch, record->info,
					   mapped ? (const bits8 *) record + SizeOfLsmRecord : NULL,
					   (record->natts + 7) / 8);
}

/* Mostly it is all there, and nothing is written. */
static inline void
lsm_touch_share_word(LsmSharedTouch *shared, int i, uint32 word)
{
	if (word != 0 && (word & ~pg_atomic_read_u32(&shared->words[i])))
		pg_atomic_fetch_or_u32(&shared->words[i], word);
}

/*
 * Share what a record touches.  For a change of few columns that is the first word or two, mostly
 * there already; that of all columns is shared if the last word is full, which comes last, and
 * which nothing else fills.
 */
void
lsm_touch_share_record(LsmSharedTouch *shared, const LsmRecord *record)
{
	LsmTouch	touch;
	int			words = LSM_TOUCH_WORDS;

	if (LSM_REC_KIND(record->info) != LSM_REC_UPDATE)
		words = lsm_touch_words(LSM_TOUCH_END);
	else if ((record->info & LSM_REC_DELTA) && !(record->info & LSM_REC_SPILLED))
		words = Min(lsm_touch_words(TYPEALIGN(8, record->natts)), LSM_TOUCH_WORDS);
	else if (pg_atomic_read_u32(&shared->words[LSM_TOUCH_WORDS - 1]) == PG_UINT32_MAX)
		return;
	memset(touch.words, 0, words * sizeof(touch.words[0]));
	lsm_touch_add_record(&touch, record);
	for (int i = 0; i < words; i++)
		lsm_touch_share_word(shared, i, touch.words[i]);
}

void
lsm_touch_share_init(LsmSharedTouch *shared)
{
	for (int i = 0; i < LSM_TOUCH_WORDS; i++)
		pg_atomic_init_u32(&shared->words[i], 0);
}

void
lsm_touch_share_clear(LsmSharedTouch *shared)
{
	for (int i = 0; i < LSM_TOUCH_WORDS; i++)
		pg_atomic_write_u32(&shared->words[i], 0);
}

void
lsm_touch_share(LsmSharedTouch *shared, const LsmTouch *touch)
{
	for (int i = 0; i < LSM_TOUCH_WORDS; i++)
		lsm_touch_share_word(shared, i, touch->words[i]);
}

void
lsm_touch_add_shared(LsmTouch *to, LsmSharedTouch *shared, int natts)
{
	for (int i = 0; i < lsm_touch_words(natts); i++)
		to->words[i] |= pg_atomic_read_u32(&shared->words[i]);
}
