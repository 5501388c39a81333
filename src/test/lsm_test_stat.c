/*-------------------------------------------------------------------------
 *
 * lsm_test_stat.c
 *	  Reports of jobs in the background, made by sql/stat_tables.sql.
 *
 * The functions here are not part of the extension's SQL: the test declares them
 * itself.
 *
 *	  lsm_test_stat_error(oid, text, text)	a job has failed: code, message
 *	  lsm_test_stat_stall(oid, bigint)		a writer has waited: microseconds
 *	  lsm_test_stat_fill(int, int)			entries of so many other tables, from one on
 *	  lsm_test_stat_kept(int, int)			how many of them are there
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lsm_stat.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsm_test_stat_error);
PG_FUNCTION_INFO_V1(lsm_test_stat_stall);
PG_FUNCTION_INFO_V1(lsm_test_stat_fill);
PG_FUNCTION_INFO_V1(lsm_test_stat_kept);

Datum
lsm_test_stat_error(PG_FUNCTION_ARGS)
{
	const char *code = text_to_cstring(PG_GETARG_TEXT_PP(1));

	if (strlen(code) != 5)
		elog(ERROR, "no SQLSTATE: %s", code);
	lsm_stat_report_error(PG_GETARG_OID(0),
						  MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]),
						  text_to_cstring(PG_GETARG_TEXT_PP(2)));
	PG_RETURN_VOID();
}

Datum
lsm_test_stat_stall(PG_FUNCTION_ARGS)
{
	lsm_stat_report_stall(PG_GETARG_OID(0), (uint64) PG_GETARG_INT64(1));
	PG_RETURN_VOID();
}

/* OIDs from the top of their range, where this database has no table. */
Datum
lsm_test_stat_fill(PG_FUNCTION_ARGS)
{
	int			first = PG_GETARG_INT32(0);

	for (int i = first; i < first + PG_GETARG_INT32(1); i++)
		lsm_stat_report_stall(OID_MAX - i, 1);
	PG_RETURN_VOID();
}

Datum
lsm_test_stat_kept(PG_FUNCTION_ARGS)
{
	int			first = PG_GETARG_INT32(0);
	LsmStatCopy copy;
	int			n = 0;

	for (int i = first; i < first + PG_GETARG_INT32(1); i++)
		n += lsm_stat_read(OID_MAX - i, &copy);
	PG_RETURN_INT32(n);
}
