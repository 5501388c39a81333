/*-------------------------------------------------------------------------
 *
 * lsm_test_numbers.c
 *	  SQL function for the test of lsm_valuenum.c: where a run of numbers is put.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lsm_manifest.h"
#include "utils/array.h"

PG_FUNCTION_INFO_V1(lsm_test_numbers);

/*
 * lsm_test_numbers(above, npages, runs): the first of npages numbers above so many blocks,
 * beside runs (first and length of each, from the highest to the lowest), or null.
 */
Datum
lsm_test_numbers(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(2);
	LsmExtent  *runs;
	BlockNumber start;
	Datum	   *values;
	int			n;

	deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values,
					  NULL, &n);
	runs = palloc((n / 2 + 1) * sizeof(LsmExtent));
	for (int i = 0; i < n / 2; i++)
	{
		runs[i].start = (BlockNumber) DatumGetInt64(values[2 * i]);
		runs[i].npages = (uint32) DatumGetInt64(values[2 * i + 1]);
	}
	if (!lsm_numbers_place(runs, n / 2, (BlockNumber) PG_GETARG_INT64(0),
						   (uint32) PG_GETARG_INT64(1), &start))
		PG_RETURN_NULL();
	PG_RETURN_INT64(start);
}
