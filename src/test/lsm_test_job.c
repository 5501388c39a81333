/*-------------------------------------------------------------------------
 *
 * lsm_test_job.c
 *	  Runs a job as a worker would that was told to, called from sql/jobs.sql and
 *	  specs.
 *
 * The functions are not part of the extension's SQL: the test declares them itself.
 *
 *	  lsm_test_job(regclass, kind text, gen_lo int, gen_hi int, first_lb int8,
 *				   last_lb int8)	how many segments it has read, -1 if it came
 *									to nothing
 *	  lsm_test_no_turn(regclass)	is a table that has got no turn for its major
 *									looked at soon, when no other major runs?
 *	  lsm_test_extents(regclass)	the most extents that a segment has
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "fmgr.h"
#include "lsm_compact.h"
#include "lsm_pick.h"
#include "lsm_request.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsm_test_job);
PG_FUNCTION_INFO_V1(lsm_test_no_turn);
PG_FUNCTION_INFO_V1(lsm_test_extents);

Datum
lsm_test_job(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	const char *kind = text_to_cstring(PG_GETARG_TEXT_PP(1));
	LsmPickDecision decision = {0};
	LsmJobStats stats = {0};
	bool		done;

	if (strcmp(kind, "minor") == 0)
		decision.kind = LSM_JOB_MINOR;
	else if (strcmp(kind, "major") == 0)
		decision.kind = LSM_JOB_MAJOR;
	else
		elog(ERROR, "no job: %s", kind);
	decision.gen_lo = PG_GETARG_INT32(2);
	decision.gen_hi = PG_GETARG_INT32(3);
	decision.first_root = LSM_TID((BlockNumber) PG_GETARG_INT64(4), 0);
	decision.last_root = LSM_TID((BlockNumber) PG_GETARG_INT64(5), 0xFFFF);
	done = lsm_job_call(rel, &decision, &stats);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(done ? stats.segments_in : -1);
}

Datum
lsm_test_no_turn(PG_FUNCTION_ARGS)
{
	LsmWorkerStatus status;
	Oid			relid = PG_GETARG_OID(0);

	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_NO_TURN, NULL);
	if (!lsm_worker_status(MyDatabaseId, relid, &status))
		elog(ERROR, "no request");
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_GONE, NULL);
	PG_RETURN_BOOL(status.waiting && status.due != DT_NOEND);
}

Datum
lsm_test_extents(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));
	int			most = 0;

	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_SEGMENT)
			most = Max(most, view->entries[i].nextents);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32(most);
}
