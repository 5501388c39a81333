/*-------------------------------------------------------------------------
 *
 * lsm_test_generation.c
 *	  SQL function for the test of readers that do without a table's gen_lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
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
