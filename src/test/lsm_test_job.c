/*-------------------------------------------------------------------------
 *
 * lsm_test_job.c
 *	  Runs a job as a worker would that was told to, called from sql/jobs.sql, other
 *	  tests and specs.
 *
 * The functions are not part of the extension's SQL: the test declares them itself.
 *
 *	  lsm_test_job(regclass, kind text, gen_lo int, gen_hi int, first_lb int8,
 *				   last_lb int8)	how many segments it has read, -1 if it came
 *									to nothing
 *	  lsm_test_chosen(regclass)		does the job that is worth it, as a worker would:
 *									which kind, and why; null: none is
 *	  lsm_test_no_turn(regclass)	is a table that has got no turn for its major
 *									looked at soon, when no other major runs?
 *	  lsm_test_turns()				tables that were refused a turn twice, the second time in
 *									another order: are they tried as they first came?
 *	  lsm_test_turn_told()			are those that wait for a turn told of it one by one, as
 *									they came, each when the one before makes nothing of it?
 *	  lsm_test_turns_full()			more tables wait for a turn than there is room for: is there
 *									room for a flush, and for those that wait longest?
 *	  lsm_test_flush_place()		more tables than there is room for have been asked for: is there
 *									for a flush, and is the database visited for what has gone?
 *	  lsm_test_flush_rests(regclass)	does a flush that has failed rest though it is asked
 *									for, until somebody asks for something else?
 *	  lsm_test_flush_first(regclass)	is a flush that was asked for served before what was due
 *									earlier, and of two one after what has been for long?
 *	  lsm_test_request(regclass)	asks for a look at a table; how often workers have
 *									let it rest after an error
 *	  lsm_test_due(regclass)		in how many seconds a worker will look at the table;
 *									null: none is to, or one does
 *	  lsm_test_backoff(regclass, int)	seconds that it rests after so many
 *	  lsm_test_rest(regclass, int)	has its majors rest as after so many errors
 *	  lsm_test_waiting(oid)			is there a table of a database for workers to look at?
 *	  lsm_test_overflow()			asks for looks at more tables than there is room for
 *									requests, and takes that back
 *	  lsm_test_crowded()			have workers been told that a database waits for one?
 *	  lsm_test_resolve(regclass, int)	looks for outcomes of transactions so many times;
 *									bytes of memory that this has taken and not given back
 *	  lsm_test_extents(regclass)	the most extents that a segment has
 *	  lsm_test_extent_pages(expected int, written int, run int)
 *									pages that a segment is given if so many are expected
 *									and written, and each free run has that many; null: it
 *									is too large
 *	  lsm_test_generation(regclass)	the active generation
 *	  lsm_test_generation_xid(regclass)	the oldest xid that it may have
 *	  lsm_test_arena_fill()			share of the memory for memtable indexes that is used
 *	  lsm_test_next_due()			is it known when the next table is due, though another is by now?
 *	  lsm_test_entries(regclass)	how many entries its manifest has
 *	  lsm_test_pending(regclass)	pages that running jobs, or dead ones, have been given
 *	  lsm_test_swap_ages(regclass)	damages the order of increments: the oldest
 *									one and the newest one change places
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_database_d.h"
#include "fmgr.h"
#include "lsm_compact.h"
#include "lsm_pick.h"
#include "lsm_request.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/xid8.h"
#include "utils/timestamp.h"

/*
 * A database without tables of ours, for requests of tables that are not there.  The launcher
 * forgets those of databases that do not exist, at any moment.
 */
#define LSM_TEST_DATABASE		Template1DbOid

PG_FUNCTION_INFO_V1(lsm_test_job);
PG_FUNCTION_INFO_V1(lsm_test_chosen);
PG_FUNCTION_INFO_V1(lsm_test_no_turn);
PG_FUNCTION_INFO_V1(lsm_test_turns);
PG_FUNCTION_INFO_V1(lsm_test_turn_told);
PG_FUNCTION_INFO_V1(lsm_test_turns_full);
PG_FUNCTION_INFO_V1(lsm_test_flush_rests);
PG_FUNCTION_INFO_V1(lsm_test_flush_first);
PG_FUNCTION_INFO_V1(lsm_test_next_due);
PG_FUNCTION_INFO_V1(lsm_test_flush_place);
PG_FUNCTION_INFO_V1(lsm_test_generation_xid);
PG_FUNCTION_INFO_V1(lsm_test_arena_fill);
PG_FUNCTION_INFO_V1(lsm_test_request);
PG_FUNCTION_INFO_V1(lsm_test_due);
PG_FUNCTION_INFO_V1(lsm_test_backoff);
PG_FUNCTION_INFO_V1(lsm_test_rest);
PG_FUNCTION_INFO_V1(lsm_test_waiting);
PG_FUNCTION_INFO_V1(lsm_test_overflow);
PG_FUNCTION_INFO_V1(lsm_test_crowded);
PG_FUNCTION_INFO_V1(lsm_test_resolve);
PG_FUNCTION_INFO_V1(lsm_test_extents);
PG_FUNCTION_INFO_V1(lsm_test_extent_pages);
PG_FUNCTION_INFO_V1(lsm_test_generation);
PG_FUNCTION_INFO_V1(lsm_test_entries);
PG_FUNCTION_INFO_V1(lsm_test_pending);
PG_FUNCTION_INFO_V1(lsm_test_swap_ages);

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
lsm_test_chosen(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	LsmPickDecision decision;
	LsmJobStats stats = {0};
	bool		any = lsm_pick_job(rel, 0, &decision);

	if (any && !lsm_job_call(rel, &decision, &stats))
		elog(ERROR, "the %s table \"%s\" came to nothing", lsm_job_name(decision.kind),
			 RelationGetRelationName(rel));
	relation_close(rel, AccessShareLock);
	if (!any)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s: %s", lsm_job_name(decision.kind),
											  lsm_pick_reason(decision.reason))));
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
	PG_RETURN_BOOL(status.waiting && status.due <= GetCurrentTimestamp());
}

/* The table gets no turn, not in the moment when another one has got none. */
static void
lsm_test_refuse_table(Oid dbid, Oid relid)
{
	TimestampTz now = GetCurrentTimestamp();

	while (GetCurrentTimestamp() == now)
		;
	lsm_request_end(dbid, relid, LSM_ATTEMPT_NO_TURN, NULL);
}

/* The same for one of ten. */
static void
lsm_test_refuse(Oid dbid, int i)
{
	lsm_test_refuse_table(dbid, OID_MAX - i * 3 % 10);
}

Datum
lsm_test_turns(PG_FUNCTION_ARGS)
{
	const Oid	dbid = LSM_TEST_DATABASE;
	uint32		resting;
	bool		fair = true;

	for (int i = 0; i < 10; i++)
		lsm_test_refuse(dbid, i);
	for (int i = 0; i < 10; i++)
		(void) lsm_request_take(dbid, &resting);
	for (int i = 9; i >= 0; i--)
		lsm_test_refuse(dbid, i);
	for (int i = 0; i < 10; i++)
		fair &= lsm_request_take(dbid, &resting) == OID_MAX - i * 3 % 10;
	for (int i = 0; i < 10; i++)
		lsm_request_end(dbid, OID_MAX - i, LSM_ATTEMPT_GONE, NULL);
	PG_RETURN_BOOL(fair);
}

/* A slot of no worker has the only turn that there is of two workers, of which this process knows. */
#define LSM_TEST_SLOT	(LSM_MAX_WORKERS - 1)

static void
lsm_test_hold_turn(Oid dbid)
{
	LsmWorkerSlot slot;

	Assert(lsm_compaction_workers == 0);
	lsm_compaction_workers = 2;
	lsm_slot_start(LSM_TEST_SLOT, dbid, false);
	if (!lsm_slot_attach(LSM_TEST_SLOT, &slot) ||
		!lsm_slot_take_turn(LSM_TEST_SLOT, dbid, InvalidOid) || lsm_slots_turn_left())
		elog(ERROR, "the turn is not to be had");
}

static void
lsm_test_drop_turn(void)
{
	Oid			dbids[LSM_MAX_OVERFLOWN];

	(void) lsm_request_take_overflown(dbids);
	lsm_slot_free(LSM_TEST_SLOT);
	lsm_compaction_workers = 0;
}

/* How many tables of a database are due? */
static int
lsm_test_ndue(Oid dbid)
{
	LsmDemand  *demand = hash_search(lsm_request_demands(GetCurrentTimestamp()), &dbid, HASH_FIND,
									 NULL);

	return demand == NULL ? 0 : demand->due;
}

Datum
lsm_test_turn_told(PG_FUNCTION_ARGS)
{
	const Oid	dbid = LSM_TEST_DATABASE;
	uint32		resting;
	bool		good;

	lsm_test_hold_turn(dbid);
	for (int i = 0; i < 10; i++)
		lsm_test_refuse(dbid, i);
	good = lsm_test_ndue(dbid) == 0;
	(void) lsm_slot_give_turn(LSM_TEST_SLOT);
	for (int i = 0; i < 5; i++)
	{
		Oid			relid = OID_MAX - i * 3 % 10;

		good &= lsm_test_ndue(dbid) == 1 && lsm_request_take(dbid, &resting) == relid;
		lsm_request_end(dbid, relid, i % 2 == 0 ? LSM_ATTEMPT_DONE : LSM_ATTEMPT_GONE, NULL);
	}
	good &= lsm_slot_take_turn(LSM_TEST_SLOT, dbid, lsm_request_take(dbid, &resting)) &&
		lsm_test_ndue(dbid) == 0;
	for (int i = 0; i < 10; i++)
		lsm_request_end(dbid, OID_MAX - i, LSM_ATTEMPT_GONE, NULL);
	lsm_test_drop_turn();
	PG_RETURN_BOOL(good);
}

Datum
lsm_test_turns_full(PG_FUNCTION_ARGS)
{
	const Oid	dbid = LSM_TEST_DATABASE;
	LsmWorkerStatus status;
	bool		good;

	lsm_test_hold_turn(dbid);
	for (Oid i = 1; i < 2000; i++)
		lsm_test_refuse_table(dbid, OID_MAX - i);
	lsm_worker_request_flush(dbid, OID_MAX);
	good = lsm_worker_status(dbid, OID_MAX, &status) && status.waiting && lsm_test_ndue(dbid) == 1;
	for (Oid i = 1; i < 500; i++)
		good &= lsm_worker_status(dbid, OID_MAX - i, &status);
	for (Oid i = 0; i < 2000; i++)
		lsm_request_end(dbid, OID_MAX - i, LSM_ATTEMPT_GONE, NULL);
	lsm_test_drop_turn();
	PG_RETURN_BOOL(good);
}

Datum
lsm_test_flush_place(PG_FUNCTION_ARGS)
{
	const Oid	dbid = LSM_TEST_DATABASE;
	Oid			overflown[LSM_MAX_OVERFLOWN];
	uint32		resting;
	bool		good = true;
	uint64		refused = lsm_requests_refused;

	Assert(lsm_compaction_workers == 0);
	lsm_compaction_workers = 2;
	for (Oid i = 1; i < 2000; i++)
		lsm_request_put_back(dbid, OID_MAX - i);
	(void) lsm_request_take_overflown(overflown);
	for (Oid i = 0; i < 100; i++)
	{
		lsm_worker_request_flush(dbid, OID_MAX - 3000 - i);
		good &= lsm_request_take(dbid, &resting) == OID_MAX - 3000 - i;
	}
	good &= lsm_requests_refused == refused &&
		lsm_request_take_overflown(overflown) == 1 && overflown[0] == dbid;
	for (Oid i = 0; i < 4000; i++)
		lsm_request_end(dbid, OID_MAX - i, LSM_ATTEMPT_GONE, NULL);
	lsm_compaction_workers = 0;
	PG_RETURN_BOOL(good);
}

/* Seconds until a table is due. */
static double
lsm_test_seconds(Oid relid)
{
	LsmWorkerStatus status;

	if (!lsm_worker_status(MyDatabaseId, relid, &status) || !status.waiting)
		elog(ERROR, "nobody waits for the table");
	return (status.due - GetCurrentTimestamp()) / (double) USECS_PER_SEC;
}

Datum
lsm_test_flush_rests(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel = relation_open(relid, AccessShareLock);
	ErrorData	error = {.message = "tested"};
	LsmJobStats stats = {0};
	uint32		resting;
	bool		good;

	for (int i = 0; i < 15; i++)
		lsm_request_failed(MyDatabaseId, relid, 1 << LSM_JOB_FLUSH, &error);
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_DONE, NULL);
	Assert(lsm_compaction_workers == 0);
	lsm_compaction_workers = 2;
	lsm_worker_request_flush(MyDatabaseId, relid);
	good = lsm_test_seconds(relid) > 1000;
	lsm_worker_request(rel);
	lsm_compaction_workers = 0;
	good &= lsm_test_seconds(relid) < 1;

	/* until somebody else has flushed, as after a full disk */
	lsm_compaction_workers = 2;
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_GONE, NULL);
	for (int i = 0; i < 15; i++)
		lsm_request_failed(MyDatabaseId, relid, 1 << LSM_JOB_FLUSH, &error);
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_DONE, NULL);
	lsm_worker_request_flush(MyDatabaseId, relid);
	good &= lsm_test_seconds(relid) > 1000;
	lsm_flush(rel, &stats);
	good &= lsm_request_take(MyDatabaseId, &resting) == relid && resting == 0;
	lsm_compaction_workers = 0;
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_GONE, NULL);
	relation_close(rel, AccessShareLock);
	PG_RETURN_BOOL(good);
}

Datum
lsm_test_flush_first(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	const Oid	other = OID_MAX;
	Relation	rel = relation_open(relid, AccessShareLock);
	Oid			left;
	uint32		resting;
	bool		good;

	Assert(lsm_compaction_workers == 0);
	lsm_compaction_workers = 2;

	/* what other tests have left */
	while (OidIsValid(left = lsm_request_take(MyDatabaseId, &resting)))
		lsm_request_end(MyDatabaseId, left, LSM_ATTEMPT_GONE, NULL);
	lsm_worker_request(rel);
	good = !lsm_request_flush_waits(MyDatabaseId);
	lsm_worker_request_flush(MyDatabaseId, other);
	good &= lsm_request_flush_waits(MyDatabaseId) &&
		lsm_request_take(MyDatabaseId, &resting) == other && !lsm_request_flush_waits(MyDatabaseId);
	lsm_request_end(MyDatabaseId, other, LSM_ATTEMPT_DONE, NULL);

	/* also of a table that waits already */
	lsm_request_end(MyDatabaseId, other, LSM_ATTEMPT_MORE, NULL);
	lsm_worker_request_flush(MyDatabaseId, other);
	good &= lsm_request_take(MyDatabaseId, &resting) == other &&
		lsm_request_take(MyDatabaseId, &resting) == relid;
	lsm_request_end(MyDatabaseId, other, LSM_ATTEMPT_DONE, NULL);
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_DONE, NULL);

	lsm_worker_request_later(rel, -60);
	lsm_worker_request_flush(MyDatabaseId, other);
	lsm_worker_request_flush(MyDatabaseId, other - 1);
	good &= lsm_request_take(MyDatabaseId, &resting) >= other - 1;

	/* what is served in other databases meanwhile changes nothing */
	lsm_worker_request_flush(LSM_TEST_DATABASE, other);
	good &= lsm_request_take(LSM_TEST_DATABASE, &resting) == other;
	lsm_request_end(LSM_TEST_DATABASE, other, LSM_ATTEMPT_GONE, NULL);
	good &= lsm_request_take(MyDatabaseId, &resting) == relid &&
		lsm_request_take(MyDatabaseId, &resting) >= other - 1;

	/* of several that wait for a turn, one */
	lsm_test_refuse_table(MyDatabaseId, other);
	lsm_test_refuse_table(MyDatabaseId, other - 1);
	lsm_test_refuse_table(MyDatabaseId, relid);
	lsm_worker_request_later(rel, -60);
	lsm_worker_request_flush(MyDatabaseId, other - 2);
	good &= lsm_request_take(MyDatabaseId, &resting) == other - 2;
	lsm_worker_request_flush(MyDatabaseId, other - 2);
	good &= lsm_request_take(MyDatabaseId, &resting) >= other - 1 &&
		lsm_request_take(MyDatabaseId, &resting) == other - 2;
	for (Oid i = 0; i < 3; i++)
		lsm_request_end(MyDatabaseId, other - i, LSM_ATTEMPT_GONE, NULL);
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_GONE, NULL);
	lsm_compaction_workers = 0;
	relation_close(rel, AccessShareLock);
	PG_RETURN_BOOL(good);
}

Datum
lsm_test_next_due(PG_FUNCTION_ARGS)
{
	const Oid	dbid = LSM_TEST_DATABASE;
	TimestampTz now;
	LsmDemand  *demand;
	bool		good;

	lsm_compaction_workers = 2;
	lsm_worker_request_flush(dbid, OID_MAX);
	lsm_request_put_back(dbid, OID_MAX - 1);
	lsm_compaction_workers = 0;
	now = GetCurrentTimestamp();
	demand = hash_search(lsm_request_demands(now), &dbid, HASH_FIND, NULL);
	good = demand->due == 1 && demand->first <= now && demand->next > now;
	for (int i = 0; i < 2; i++)
		lsm_request_end(dbid, OID_MAX - i, LSM_ATTEMPT_GONE, NULL);
	PG_RETURN_BOOL(good);
}

Datum
lsm_test_request(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	LsmWorkerStatus status;

	lsm_worker_request(rel);
	if (!lsm_worker_status(MyDatabaseId, RelationGetRelid(rel), &status))
		elog(ERROR, "no request");
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(status.errors);
}

Datum
lsm_test_due(PG_FUNCTION_ARGS)
{
	LsmWorkerStatus status;

	if (!lsm_worker_status(MyDatabaseId, PG_GETARG_OID(0), &status) || !status.waiting)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8((status.due - GetCurrentTimestamp()) / (double) USECS_PER_SEC);
}

Datum
lsm_test_backoff(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	ErrorData	error = {.message = "tested"};
	LsmWorkerStatus status;

	for (int i = 0; i < PG_GETARG_INT32(1); i++)
		lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_FAILED, &error);
	if (!lsm_worker_status(MyDatabaseId, relid, &status))
		elog(ERROR, "no request");
	lsm_request_end(MyDatabaseId, relid, LSM_ATTEMPT_GONE, NULL);
	PG_RETURN_FLOAT8((status.due - status.error_at) / (double) USECS_PER_SEC);
}

Datum
lsm_test_rest(PG_FUNCTION_ARGS)
{
	ErrorData	error = {.message = "tested"};

	for (int i = 0; i < PG_GETARG_INT32(1); i++)
		lsm_request_failed(MyDatabaseId, PG_GETARG_OID(0), 1 << LSM_JOB_MAJOR, &error);
	lsm_request_end(MyDatabaseId, PG_GETARG_OID(0), LSM_ATTEMPT_DONE, NULL);
	PG_RETURN_VOID();
}

Datum
lsm_test_waiting(PG_FUNCTION_ARGS)
{
	Oid			dbid = PG_GETARG_OID(0);

	PG_RETURN_BOOL(hash_search(lsm_request_demands(GetCurrentTimestamp()), &dbid, HASH_FIND,
							   NULL) != NULL);
}

Datum
lsm_test_overflow(PG_FUNCTION_ARGS)
{
	for (Oid i = 0; i < 2000; i++)
		lsm_request_put_back(MyDatabaseId, OID_MAX - i);
	for (Oid i = 0; i < 2000; i++)
		lsm_request_end(MyDatabaseId, OID_MAX - i, LSM_ATTEMPT_GONE, NULL);
	PG_RETURN_VOID();
}

Datum
lsm_test_crowded(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lsm_slots_crowded());
}

Datum
lsm_test_resolve(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	Size		before;

	lsm_resolve_segments(rel);
	before = MemoryContextMemAllocated(CurrentMemoryContext, true);
	for (int i = 0; i < PG_GETARG_INT32(1); i++)
		lsm_resolve_segments(rel);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(MemoryContextMemAllocated(CurrentMemoryContext, true) - before);
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

Datum
lsm_test_extent_pages(PG_FUNCTION_ARGS)
{
	uint32		expected = PG_GETARG_INT32(0);
	uint32		written = PG_GETARG_INT32(1);
	uint32		run = PG_GETARG_INT32(2);
	uint32		given = 0;
	int			unexpected = 0;

	for (int nextents = 0; given < written; nextents++)
	{
		uint32		least;
		uint32		want;

		if (nextents >= LSM_SEGMENT_EXTENTS)
			PG_RETURN_NULL();
		want = lsm_extent_pages(nextents, given, expected, &unexpected, &least);
		given += run >= least ? Min(want, run) : want;
	}
	PG_RETURN_INT32(given);
}

Datum
lsm_test_generation(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	uint32		generation = lsm_view_get(rel, lsm_table_open(rel))->meta.generation;

	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32((int32) generation);
}

Datum
lsm_test_generation_xid(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	uint64		xid = lsm_view_get(rel, lsm_table_open(rel))->meta.generation_xid;

	relation_close(rel, AccessShareLock);
	PG_RETURN_DATUM(FullTransactionIdGetDatum(FullTransactionIdFromU64(xid)));
}

Datum
lsm_test_arena_fill(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(lsm_memindex_arena_fill());
}

Datum
lsm_test_entries(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	int			nentries = lsm_view_get(rel, lsm_table_open(rel))->nentries;

	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32(nentries);
}

Datum
lsm_test_pending(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));
	int64		npages = 0;

	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_PENDING)
			npages += view->entries[i].extents[0].npages;
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(npages);
}

Datum
lsm_test_swap_ages(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	LsmTable   *table = lsm_table_open(rel);
	LsmView    *view = lsm_view_get(rel, table);
	LsmManifestEntry newest = *view->increments[0];
	LsmManifestEntry oldest = *view->increments[view->nincrements - 1];
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_MINOR);
	LsmManifestEntry *entry = lsm_edit_change(edit, newest.uid);

	entry->gen_lo = oldest.gen_lo;
	entry->gen_hi = oldest.gen_hi;
	entry = lsm_edit_change(edit, oldest.uid);
	entry->gen_lo = newest.gen_lo;
	entry->gen_hi = newest.gen_hi;
	lsm_edit_commit(edit);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}
