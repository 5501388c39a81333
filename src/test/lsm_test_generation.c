/*-------------------------------------------------------------------------
 *
 * lsm_test_generation.c
 *	  SQL functions for the tests of readers that do without a table's gen_lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "lsm_stop.h"
#include "lsm_table.h"

PG_FUNCTION_INFO_V1(lsm_test_hold_generation);

/*
 * lsm_test_hold_generation(regclass): hold the table's gen_lock exclusively at stop point
 * test-generation.  Says whether readers without the lock see nothing wrong before a change,
 * go to the lock during one, also after an error in one, and see it afterwards.
 */
Datum
lsm_test_hold_generation(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	LsmTableShared *shared = lsm_table_open(rel)->shared;
	uint64		before;
	uint64		during;
	bool		right;

	LWLockAcquire(&shared->gen_lock, LW_EXCLUSIVE);
	LSM_STOP("test-generation");
	right = lsm_table_changes(shared, &before) && lsm_table_unchanged(shared, before);
	lsm_table_change(shared);
	right = right && !lsm_table_changes(shared, &during) && !lsm_table_unchanged(shared, before);
	lsm_table_change(shared);	/* as after an error */
	right = right && !lsm_table_changes(shared, &during);
	lsm_table_changed(shared);
	right = right && lsm_table_changes(shared, &during) && !lsm_table_unchanged(shared, before);
	LWLockRelease(&shared->gen_lock);
	table_close(rel, AccessShareLock);
	PG_RETURN_BOOL(right);
}

PG_FUNCTION_INFO_V1(lsm_test_peek);

/* Rows of a memtable that the test looks at. */
#define LSM_TEST_PEEK_ROWS	1000

/*
 * Fill memory with the address of its middle: what is taken there for a directory, a bucket or a
 * node leads to a node that is its own successor.
 */
static void
lsm_test_fill_circle(void *extra, void *arg)
{
	LsmMemIndex *index = (LsmMemIndex *) arg;
	uint32		middle = (uint32) ((index->first_chunk - 1) * (LSM_CHUNK_BYTES / 8)) + LSM_CHUNK_BYTES / 16;

	for (int i = 0; i < LSM_EXTRA_BYTES / (int) sizeof(uint32); i++)
		((uint32 *) extra)[i] = middle;
}

/*
 * lsm_test_peek(regclass, tries int): does the memtable index of the active generation give the
 * same without gen_lock as with it?  Then looks, as often as asked, where other memory of the
 * indexes is taken for filter and buckets, as it is when an index has been reset under a reader:
 * whatever is found, that must end, and read nothing beyond the arena.  Some of it has circles, which
 * must be given up; the table is of no use for rows that move afterwards (lsm_near.c).
 */
Datum
lsm_test_peek(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	LsmTableShared *shared = lsm_table_open(rel)->shared;
	LsmTid		roots[LSM_TEST_PEEK_ROWS];
	LsmTid		heads[LSM_TEST_PEEK_ROWS];
	LsmTid		newest;
	LsmMemIndex *index;
	LsmMemIndex *copy = palloc(sizeof(LsmMemIndex));
	uint32		chunks = lsm_memindex_arena_chunks() - lsm_memindex_arena_free();
	uint32		room = LSM_CHUNK_BYTES / 8;
	pg_prng_state prng;
	bool		right;
	int			circles = 0;
	int			n;

	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	index = lsm_table_index(shared, shared->generation);
	n = lsm_memindex_collect(index, 1, LSM_MAX_TID, roots, heads, LSM_TEST_PEEK_ROWS);
	right = n > 0 && index->ntables > 1;
	for (int i = 0; i < n; i++)
	{
		bool		searched = false;

		right = right && lsm_memindex_peek(index, roots[i], &newest, &searched) &&
			searched && newest == heads[i] && newest == lsm_memindex_find(index, roots[i]);
		/* no row has such an offset */
		right = right && lsm_memindex_peek(index, roots[i] | PG_UINT16_MAX, &newest, &searched) &&
			newest == LSM_INVALID_TID;
	}
	memcpy(copy, index, sizeof(LsmMemIndex));
	pg_prng_seed(&prng, 1);
	for (int i = 0; i < PG_GETARG_INT32(1) && n > 0; i++)
	{
		bool		searched;

		/* a whole chunk of the used ones lies behind them, or of those that are free */
		copy->buckets = 1 + (uint32) pg_prng_uint64_range(&prng, 0, (uint64) chunks * room - room);
		copy->filter = i % 2 == 0 ? index->filter :
			1 + (uint32) pg_prng_uint64_range(&prng, 0, (uint64) chunks * room - room);
		copy->ntables = 1 + i % 5;
		(void) lsm_memindex_peek(copy, roots[i % n], &newest, &searched);
	}
	right = right && lsm_memindex_extra(index, LSM_EXTRA_BYTES, lsm_test_fill_circle, index) != NULL;
	copy->buckets = copy->filter = index->extra;
	copy->ntables = 1;
	for (int i = 0; i < n && right; i++)
	{
		bool		searched;

		if (!lsm_memindex_peek(copy, roots[i], &newest, &searched))
			circles++;
	}
	right = right && circles > 0;
	LWLockRelease(&shared->gen_lock);
	pfree(copy);
	table_close(rel, AccessShareLock);
	PG_RETURN_BOOL(right);
}
