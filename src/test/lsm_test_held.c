/*-------------------------------------------------------------------------
 *
 * lsm_test_held.c
 *	  SQL function for the test of lsm_sharedcache.c: row blocks that are read without a lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "lsm_sharedcache.h"
#include "miscadmin.h"

#define HELD_BYTES	10000
#define HELD_UID	1			/* random ones have more bits */

PG_FUNCTION_INFO_V1(lsm_test_held_rows);

/*
 * lsm_test_held_rows(): keep a row block, find it, and let it go: kept, found, unchanged.  Find
 * it again, put another block in meanwhile, and let go, which must be refused: changed is
 * false.  Begin anew, which must take the lock, and read it all (same).  Forget it, and look
 * for it at the place where it was: it must not be found there (gone), though nothing else has
 * taken the place; kept again, it must (back).  The cache must be new, and have one partition.
 */
Datum
lsm_test_held_rows(PG_FUNCTION_ARGS)
{
	LsmCacheHeld held = LSM_CACHE_HELD_NOT;
	LsmCachePlace place = LSM_CACHE_PLACE_NONE;
	char	   *bytes = palloc(HELD_BYTES);
	const void *rows;
	Datum		values[8];
	bool		isnull[8] = {false};
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	lsm_sharedcache_set_database(MyDatabaseId);
	memset(bytes, 'a', HELD_BYTES);
	lsm_sharedcache_put_rows(HELD_UID, 1, HELD_BYTES, bytes);
	values[0] = BoolGetDatum(lsm_sharedcache_has_rows(HELD_UID, 1));
	rows = lsm_sharedcache_hold_rows(HELD_UID, 1, &place, &held);
	values[1] = BoolGetDatum(rows != NULL && held.lock == NULL && held.len == HELD_BYTES);
	values[2] = BoolGetDatum(lsm_sharedcache_let_go(&held));

	(void) lsm_sharedcache_hold_rows(HELD_UID, 1, &place, &held);
	memset(bytes, 'b', HELD_BYTES);
	lsm_sharedcache_put(HELD_UID, 2, HELD_BYTES, bytes, LSM_TOUCH_POINT);
	values[3] = BoolGetDatum(lsm_sharedcache_let_go(&held));

	memset(bytes, 'a', HELD_BYTES);
	rows = lsm_sharedcache_hold_rows(HELD_UID, 1, &place, &held);
	values[4] = BoolGetDatum(held.lock != NULL);
	values[5] = BoolGetDatum(rows != NULL && memcmp(rows, bytes, HELD_BYTES) == 0 &&
							 lsm_sharedcache_let_go(&held));

	lsm_sharedcache_forget(HELD_UID, 3);
	rows = lsm_sharedcache_hold_rows(HELD_UID, 1, &place, &held);
	values[6] = BoolGetDatum(rows == NULL);
	if (rows != NULL)
		(void) lsm_sharedcache_let_go(&held);
	memset(bytes, 'c', HELD_BYTES);
	lsm_sharedcache_put_rows(HELD_UID, 1, HELD_BYTES, bytes);
	rows = lsm_sharedcache_hold_rows(HELD_UID, 1, &place, &held);
	values[7] = BoolGetDatum(rows != NULL && memcmp(rows, bytes, HELD_BYTES) == 0 &&
							 lsm_sharedcache_let_go(&held));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, isnull)));
}
