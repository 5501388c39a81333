/*-------------------------------------------------------------------------
 *
 * lsm_touched.c
 *	  What the records of an increment have touched.
 *
 * A segment's zone maps do not tell a column that was set to null from one that no
 * DELTA has, so its blocks are asked: most have DELTAs with one map of columns only,
 * which is told at once.  That reads all of the increment, so who may need little of it
 * does without: then it may have touched anything.  Who has found out leaves it in the
 * block cache, for the next session and for each process of a parallel scan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_ahead.h"
#include "lsm_mvcc.h"
#include "lsm_sharedcache.h"
#include "miscadmin.h"

/* So many blocks are soon looked at. */
#define LSM_TOUCHED_FEW			4

/* What is kept with the reader of a segment. */
typedef struct LsmTouchNote
{
	bool		known;
	LsmTouch	touch;
} LsmTouchNote;

static void
lsm_touched_add_block(LsmTouch *touch, LsmBlock *block)
{
	int			rows = lsm_block_alike(block) ? 1 : lsm_block_rows(block);

	for (int row = 0; row < rows; row++)
	{
		LsmRowHead	head;

		lsm_block_head(block, row, &head);
		lsm_touch_add_kind(touch, head.info, head.cols, head.cols_len);
	}
}

/* Anything. */
static const LsmTouch *
lsm_touched_all(void)
{
	static LsmTouch all;

	memset(&all, 0xFF, sizeof(all));
	return &all;
}

/* Ask all blocks of an increment; false: the view is old. */
static bool
lsm_touched_ask(Relation rel, LsmTable *table, const LsmManifestEntry *entry, uint32 blocks,
				LsmTouch *touch)
{
	LsmSegmentFeed ahead = {0};

	lsm_touch_clear(touch);
	for (uint32 blockno = 0; blockno < blocks; blockno++)
	{
		LsmCachedBlock *cached;

		CHECK_FOR_INTERRUPTS();
		cached = lsm_block_pin_ahead(rel, table, entry, blockno,
									 lsm_segment_feed(&ahead, LSM_READER_SCAN, entry, blockno,
													  blocks));
		if (cached == NULL)
			return false;
		lsm_touched_add_block(touch, cached->block);
		lsm_block_unpin_now(cached);
	}
	lsm_ahead_end(&ahead.feed);
	lsm_sharedcache_put(entry->uid, LSM_CACHE_TOUCHED, sizeof(*touch), (const char *) touch,
						LSM_TOUCH_POINT);
	return true;
}

/*
 * Good until the next segment is opened; NULL: the view is old.  few: the caller may
 * soon be done.
 */
const LsmTouch *
lsm_touched_by(Relation rel, LsmTable *table, const LsmManifestEntry *entry, bool few)
{
	LsmSegmentReader *reader = lsm_reader_get(rel, table, entry);
	LsmTouchNote *note;
	LsmTouch	touch;
	uint32		blocks;

	if (reader == NULL)
		return NULL;
	note = lsm_segment_reader_note(reader, sizeof(LsmTouchNote));
	if (note->known)
		return &note->touch;
	if (!lsm_sharedcache_has(entry->uid, LSM_CACHE_TOUCHED) ||
		!lsm_sharedcache_get(entry->uid, LSM_CACHE_TOUCHED, sizeof(touch), (char *) &touch,
							 LSM_TOUCH_POINT))
	{
		blocks = lsm_segment_reader_blocks(reader);
		if (few && blocks > LSM_TOUCHED_FEW)
			return lsm_touched_all();
		if (!lsm_touched_ask(rel, table, entry, blocks, &touch))
			return NULL;
	}

	/* it may have been closed and opened meanwhile */
	reader = lsm_reader_get(rel, table, entry);
	if (reader == NULL)
		return NULL;
	note = lsm_segment_reader_note(reader, sizeof(LsmTouchNote));
	note->touch = touch;
	note->known = true;
	return &note->touch;
}
