/*-------------------------------------------------------------------------
 *
 * lsm_test_cache.c
 *	  SQL functions for tests of lsm_sharedcache.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "lsm_sharedcache.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#define CACHE_UID		2		/* random ones have more bits */
#define CACHE_FRAME		4096
#define CACHE_ROWS		19		/* row blocks, */
#define CACHE_ROWS_LEN	(10 * CACHE_FRAME)
#define CACHE_PINS		3
#define CACHE_POINT		100		/* and other blocks, from this number on */
#define CACHE_IDLE		12		/* expanded blocks that nobody uses */

PG_FUNCTION_INFO_V1(lsm_test_cache_full);
PG_FUNCTION_INFO_V1(lsm_test_cache_idle);
PG_FUNCTION_INFO_V1(lsm_test_cache_chain);
PG_FUNCTION_INFO_V1(lsm_test_cache_holds);
PG_FUNCTION_INFO_V1(lsm_test_cache_forget);

/*
 * lsm_test_cache_full(): in a new cache of 1 MB, have row blocks take three quarters, scans an
 * eighth, and what is warm be pinned; then put one block more for a single row.  Is it there?
 */
Datum
lsm_test_cache_full(PG_FUNCTION_ARGS)
{
	char	   *bytes = palloc0(CACHE_ROWS_LEN);
	LsmCachePin pins[CACHE_PINS];
	LsmCacheHeld held = LSM_CACHE_HELD_NOT;
	int			rows = 0;
	bool		there;

	lsm_sharedcache_set_database(MyDatabaseId);

	/* all of them are used, so the room grows until they fit */
	for (int i = 0; rows < CACHE_ROWS; i++)
	{
		if (i > 1000000)
			elog(ERROR, "there is room for %d row blocks only", rows);
		CHECK_FOR_INTERRUPTS();
		rows = 0;
		for (int j = 0; j < CACHE_ROWS; j++)
		{
			LsmCachePlace place = LSM_CACHE_PLACE_NONE;

			if (lsm_sharedcache_hold_rows(CACHE_UID, j, &place, &held) != NULL)
			{
				(void) lsm_sharedcache_let_go(&held);
				rows++;
			}
			else if (lsm_sharedcache_keeps_rows(CACHE_UID, j))
				lsm_sharedcache_put_rows(CACHE_UID, j, CACHE_ROWS_LEN, bytes);
		}
	}
	for (int i = 0; i < CACHE_PINS; i++)
	{
		lsm_sharedcache_put(CACHE_UID, CACHE_POINT + i, 8 * CACHE_FRAME, bytes, LSM_TOUCH_POINT);
		if (!lsm_sharedcache_pin(CACHE_UID, CACHE_POINT + i, 8 * CACHE_FRAME, LSM_TOUCH_POINT,
								 &pins[i]))
			elog(ERROR, "block %d cannot be pinned", i);
	}
	for (int i = 0; i < 8; i++)
		lsm_sharedcache_put(CACHE_UID, 2 * CACHE_POINT + i, 4 * CACHE_FRAME, bytes,
							LSM_TOUCH_SCAN);
	lsm_sharedcache_put(CACHE_UID, 3 * CACHE_POINT, 16 * CACHE_FRAME, bytes, LSM_TOUCH_POINT);
	there = lsm_sharedcache_has(CACHE_UID, 3 * CACHE_POINT);
	for (int i = 0; i < CACHE_PINS; i++)
		lsm_sharedcache_unpin(&pins[i]);
	PG_RETURN_BOOL(there);
}

/*
 * lsm_test_cache_idle(scanned): in a new cache of 1 MB, how many of 12 expanded blocks, which fit
 * the room that they have at least, are left when more other blocks than there is room for have
 * come and gone and come back, for scans or for single rows.
 */
Datum
lsm_test_cache_idle(PG_FUNCTION_ARGS)
{
	LsmCacheTouch touch = PG_GETARG_BOOL(0) ? LSM_TOUCH_SCAN : LSM_TOUCH_POINT;
	char	   *bytes = palloc0(8 * CACHE_FRAME);
	int			left = 0;

	for (int round = 0; round < 10; round++)
	{
		/* as stored, too: that is the next to go, as it is more than scans have for good */
		for (int i = 0; i < CACHE_IDLE; i++)
		{
			lsm_sharedcache_put(CACHE_UID, i, 5 * CACHE_FRAME, bytes, touch);
			if (round == 0 || lsm_sharedcache_expanded_length(CACHE_UID, i) > 0)
				lsm_sharedcache_put_expanded(CACHE_UID, i, 6 * CACHE_FRAME, bytes);
		}
		for (int i = 0; i < 40; i++)
			lsm_sharedcache_put(CACHE_UID, CACHE_POINT + i, 8 * CACHE_FRAME, bytes, touch);
	}
	for (int i = 0; i < CACHE_IDLE; i++)
		left += lsm_sharedcache_expanded_length(CACHE_UID, i) > 0;
	PG_RETURN_INT32(left);
}

/* lsm_test_cache_chain(n): of n blocks of a segment, the most that are looked for in one place. */
Datum
lsm_test_cache_chain(PG_FUNCTION_ARGS)
{
	int			n = PG_GETARG_INT32(0);
	uint32	   *places = palloc(n * sizeof(uint32));
	int			most = 0;

	for (int i = 0; i < n; i++)
	{
		int			same = 1;

		places[i] = lsm_sharedcache_place(UINT64CONST(0x0123456789ABCDEF), i);
		for (int j = 0; j < i; j++)
			same += places[j] == places[i];
		most = Max(most, same);
	}
	PG_RETURN_INT32(most);
}

/* lsm_test_cache_holds(bytes): is a block of so many bytes there when it has been put in? */
Datum
lsm_test_cache_holds(PG_FUNCTION_ARGS)
{
	int			len = PG_GETARG_INT32(0);

	lsm_sharedcache_put(CACHE_UID, LSM_CACHE_METADATA, len, palloc0(len), LSM_TOUCH_POINT);
	PG_RETURN_BOOL(lsm_sharedcache_has(CACHE_UID, LSM_CACHE_METADATA));
}

/*
 * lsm_test_cache_forget(): of a segment of three blocks in all forms, one of which is pinned,
 * and one block of another segment: what is still there when the segment is forgotten, and when
 * that was unpinned and it is forgotten once more.
 */
Datum
lsm_test_cache_forget(PG_FUNCTION_ARGS)
{
	static const uint32 forms[] = {0, LSM_CACHE_EXPANDED, LSM_CACHE_ROWS};
	char	   *bytes = palloc0(CACHE_ROWS_LEN);
	LsmCachePin pin;
	StringInfoData left;

	lsm_sharedcache_set_database(MyDatabaseId);
	for (int i = 0; i < 3; i++)
	{
		lsm_sharedcache_put_expanded(CACHE_UID, i, CACHE_FRAME, bytes);
		lsm_sharedcache_put_rows(CACHE_UID, i, CACHE_ROWS_LEN, bytes);
		lsm_sharedcache_put(CACHE_UID, i, CACHE_FRAME, bytes, LSM_TOUCH_POINT);
	}
	lsm_sharedcache_put(CACHE_UID, LSM_CACHE_METADATA, CACHE_FRAME, bytes, LSM_TOUCH_POINT);
	lsm_sharedcache_put(CACHE_UID, LSM_CACHE_TOUCHED, CACHE_FRAME, bytes, LSM_TOUCH_POINT);
	lsm_sharedcache_put(CACHE_UID + 1, 0, CACHE_FRAME, bytes, LSM_TOUCH_POINT);
	if (!lsm_sharedcache_pin(CACHE_UID, 1, CACHE_FRAME, LSM_TOUCH_POINT, &pin))
		elog(ERROR, "a block cannot be pinned");
	initStringInfo(&left);
	for (int round = 0; round < 2; round++)
	{
		lsm_sharedcache_forget(CACHE_UID, 3);
		for (uint32 form = 0; form < lengthof(forms); form++)
			for (int i = 0; i < 3; i++)
				if (forms[form] == LSM_CACHE_ROWS ? lsm_sharedcache_has_rows(CACHE_UID, i) :
					lsm_sharedcache_has(CACHE_UID, i | forms[form]))
					appendStringInfo(&left, "%d of form %u, ", i, form);
		if (lsm_sharedcache_has(CACHE_UID, LSM_CACHE_METADATA) ||
			lsm_sharedcache_has(CACHE_UID, LSM_CACHE_TOUCHED))
			appendStringInfoString(&left, "what is known of it, ");
		if (lsm_sharedcache_has(CACHE_UID + 1, 0))
			appendStringInfoString(&left, "the other one; ");
		if (round == 0)
			lsm_sharedcache_unpin(&pin);
	}
	PG_RETURN_TEXT_P(cstring_to_text(left.data));
}
