/*-------------------------------------------------------------------------
 *
 * lsm_test_scan.c
 *	  Scans as C code of extensions may ask for them, called from sql/scan_changes.sql.
 *
 * The functions are not part of the extension's SQL: the test declares them itself.
 *
 *	  lsm_test_scan_key(regclass, column int, value int)	how many rows a scan gives whose
 *									key says that the column has the value; it is rescanned
 *									with the value plus 1, which counts for a thousand each
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "fmgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(lsm_test_scan_key);

static int64
lsm_test_scan_count(TableScanDesc scan, TupleTableSlot *slot)
{
	int64		n = 0;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
		n++;
	return n;
}

Datum
lsm_test_scan_key(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ScanKeyData key;
	TableScanDesc scan;
	int64		n;

	ScanKeyInit(&key, (AttrNumber) PG_GETARG_INT32(1), BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(PG_GETARG_INT32(2)));
	scan = table_beginscan(rel, GetActiveSnapshot(), 1, &key);
	n = lsm_test_scan_count(scan, slot);
	key.sk_argument = Int32GetDatum(PG_GETARG_INT32(2) + 1);
	table_rescan(scan, &key);
	n += 1000 * lsm_test_scan_count(scan, slot);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(n);
}
