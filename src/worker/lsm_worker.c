/*-------------------------------------------------------------------------
 *
 * lsm_worker.c
 *	  The process that flushes and compacts tables of one database.
 *
 * A worker is started by the launcher for one database, serves the requests
 * that are due there, one table after another, and leaves.  Each job runs in a
 * transaction of its own, by lsm_job_call(), which waits for no job of another.
 *
 * NOT IN THE WAY
 *	  - Of the database: it goes by PROC_IS_AUTOVACUUM, set before it connects.  So
 *		who creates, drops, moves or copies a database ends it (SIGTERM) as it
 *		ends autovacuum.  The server has no other way for this in 15 to 18.
 *	  - Of a table: it takes AccessShareLock if that is free, polls for those who
 *		want the table to themselves, and gives the job up for them (lsm_job.c).
 *	  - Of the horizon: it has no snapshot while a job runs.  CREATE INDEX
 *		CONCURRENTLY does not wait for it, again because of that flag.
 *
 * FAILURES
 *	  A job that fails leaves the table as it was.  The error is logged, kept for
 *	  statistics, and its kind is tried again later, each time twice as long
 *	  (lsm_request.c); the worker goes on with other jobs of the table, and with the next one.
 *	  If a store was the cause, only what needs one waits: moves, and majors over segments that
 *	  lie there.  A table of which no job could be chosen waits as a whole.  A worker that is
 *	  terminated puts back what it was at.
 *
 * SECURITY
 *	  Jobs run as the table's owner, in a security-restricted operation, with
 *	  an empty search path.  They call no function that a user can define: values
 *	  are copied as they are, index expressions are not looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "common/pg_prng.h"
#include "lsm_am.h"
#include "lsm_cold_ddl.h"
#include "lsm_cold_move.h"
#include "lsm_cold_orphans.h"
#include "lsm_store.h"
#include "lsm_compact.h"
#include "lsm_pick.h"
#include "lsm_request.h"
#include "lsm_stop.h"
#include "lsm_worker.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* How often a job looks whether someone waits for its table. */
#define LSM_WORKER_POLL_MS		100

/* After so many jobs on one table it is another's turn, or sooner if a flush is asked for. */
#define LSM_WORKER_JOBS			8

/*
 * Where other databases wait for a worker, it stays in its own for so long: to start one for each of
 * very many tables would take longer than to look at them.
 */
#define LSM_WORKER_STAY_MS		500

/* The same while it looks at all tables, as the rest of these wait for another visit then. */
#define LSM_VISIT_STAY_MS		5000

/*
 * Kinds of jobs, as bits, that take long, for which workers need a turn; and a minor, or what
 * gives space back, that reads more than that, or takes longer at the rate that compactions
 * have to keep to.
 */
#define LSM_WORKER_LONG			((1 << LSM_JOB_MAJOR) | (1 << LSM_JOB_MOVE))
#define LSM_WORKER_LONG_BYTES	((uint64) 256 * 1024 * 1024)
#define LSM_WORKER_LONG_S		5

int			lsm_compaction_log_min_duration = 600000;

static int	lsm_my_slot = -1;
static bool lsm_worker_complete;
static MemoryContext lsm_worker_context;

/* The table that is being served, or LSM_REQUEST_STORES; InvalidOid: none. */
static Oid	lsm_worker_relid;

/*
 * The kinds of jobs that were of no use to it when they ran, and so would not be now, or that
 * have failed.
 */
static uint32 lsm_worker_spent;

/* The kind that runs; LSM_JOB_NONE: it is being chosen. */
static LsmJobKind lsm_worker_job;

/*
 * A major has failed because of a store.  Majors over what lies in stores rest by themselves
 * then (lsm_cold_move.h), as moves do after any error: the others need not wait for that.
 */
static bool lsm_worker_cold_rests;

/* What errors and pg_stat_activity say of the present job. */
static char lsm_worker_activity[NAMEDATALEN * 2 + 64];

/* When it may have a turn again: other databases have waited for the one that it had. */
static TimestampTz lsm_worker_turn_after;

/* It looks at all tables, and does nothing else in between but one job for a flush that is asked for. */
static bool lsm_worker_visiting;

/* ---- turns ---- */

/* May the worker do what takes long?  Else the outcome, which otherwise stays as it is. */
static bool
lsm_worker_take_turn(LsmAttempt *outcome)
{
	if (lsm_worker_visiting || GetCurrentTimestamp() < lsm_worker_turn_after)
	{
		*outcome = LSM_ATTEMPT_PASSED;
		return false;
	}
	if (lsm_slot_take_turn(lsm_my_slot, MyDatabaseId, lsm_worker_relid))
		return true;
	*outcome = LSM_ATTEMPT_NO_TURN;
	return false;
}

/* It does so no more; true: other databases have waited for that. */
static bool
lsm_worker_give_turn(void)
{
	if (!lsm_slot_give_turn(lsm_my_slot))
		return false;
	lsm_worker_turn_after = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LSM_PASSED_MS);
	return true;
}

/* ---- one table ---- */

static void
lsm_worker_error_context(void *arg)
{
	if (lsm_worker_activity[0] != '\0')
		errcontext("%s", lsm_worker_activity);
}

/*
 * Open a table, if it is there and nobody has it locked.  Else NULL, and the
 * outcome.
 */
static Relation
lsm_worker_open(Oid relid, LsmAttempt *outcome)
{
	Relation	rel;

	*outcome = LSM_ATTEMPT_GAVE_WAY;
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return NULL;
	*outcome = LSM_ATTEMPT_GONE;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		return NULL;
	if ((rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_MATVIEW) ||
		!lsm_relation_is_lsm(rel) || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
	{
		relation_close(rel, NoLock);
		return NULL;
	}
	return rel;
}

static void
lsm_worker_log(const LsmJobStats *stats, TimestampTz start)
{
	long		ms = TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());

	if (lsm_compaction_log_min_duration < 0 || ms < lsm_compaction_log_min_duration)
		return;
	if (stats->bytes_given_back > 0)
	{
		ereport(LOG,
				(errmsg("%s: %lld bytes, took %ld ms", lsm_worker_activity,
						(long long) stats->bytes_given_back, ms), errhidecontext(true)));
		return;
	}
	ereport(LOG,
			(errmsg("%s: %lld segments and %lld records to %lld segments and %lld records, read %lld bytes, wrote %lld bytes, took %ld ms",
					lsm_worker_activity,
					(long long) stats->segments_in, (long long) stats->rows_in,
					(long long) stats->segments_out, (long long) stats->rows_out,
					(long long) stats->bytes_read, (long long) stats->bytes_written, ms),
			 errhidecontext(true)));
}

/*
 * The server cancels processes with PROC_IS_AUTOVACUUM for whoever has waited for
 * them for deadlock_timeout.  Who waits for a job of the same kind does not want
 * that, and for those who wait for the table we look ourselves.  The flag goes
 * with the transaction.
 */
static void
lsm_worker_keep_cancels_off(void)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags |= PROC_VACUUM_FOR_WRAPAROUND;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

/*
 * Do it.  A major that stores have made fail will not be chosen again at once, so that
 * there is no need for the table to wait.
 */
static bool
lsm_worker_call(Relation rel, const LsmPickDecision *decision, LsmJobStats *stats)
{
	LsmColdRest *rest = &lsm_table_open(rel)->shared->cold_majors;
	uint64		failures = lsm_store_failures;
	bool		done;

	PG_TRY();
	{
		done = lsm_job_call(rel, decision, stats);
	}
	PG_CATCH();
	{
		if (decision->cold && lsm_store_failures != failures && !lsm_cold_may_try(rest))
			lsm_worker_cold_rests = true;
		PG_RE_THROW();
	}
	PG_END_TRY();
	return done;
}

/*
 * Has a job that was done left less to do?  Then what is chosen next is not the same again,
 * though it may be of the same kind: large backlogs are worked off in parts.  That a minor
 * changes something was seen before it began (lsm_minor_claim()).
 */
static bool
lsm_worker_was_of_use(LsmJobKind job, const LsmJobStats *stats)
{
	switch (job)
	{
		case LSM_JOB_FLUSH:
			return true;
		case LSM_JOB_MOVE:
			return stats->bytes_written > 0;
		case LSM_JOB_TRIM:
			return stats->bytes_written > 0 || stats->bytes_given_back > 0;
		case LSM_JOB_MINOR:
			return stats->segments_in > 0;
		case LSM_JOB_MAJOR:
			return stats->rows_out < stats->rows_in || stats->segments_out < stats->segments_in;
		default:
			return false;
	}
}

/* Run a job; false if it came to nothing.  No snapshot is held any more. */
static bool
lsm_worker_run(Relation rel, const LsmPickDecision *decision)
{
	TimestampTz start = GetCurrentTimestamp();
	LsmJobStats stats = {0};
	Oid			save_userid;
	int			save_sec_context;
	bool		done;

	GetUserIdAndSecContext(&save_userid, &save_sec_context);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   save_sec_context | SECURITY_RESTRICTED_OPERATION);
	lsm_worker_keep_cancels_off();
	lsm_job_watch(rel, decision->kind);
	done = lsm_worker_call(rel, decision, &stats);
	lsm_job_unwatch();
	SetUserIdAndSecContext(save_userid, save_sec_context);
	if (done)
		lsm_worker_log(&stats, start);
	if (!lsm_worker_was_of_use(decision->kind, &stats))
		lsm_worker_spent |= 1 << decision->kind;
	return done;
}

static bool
lsm_worker_takes_long(const LsmPickDecision *decision)
{
	uint64		most = LSM_WORKER_LONG_BYTES;

	if (lsm_compaction_rate_limit > 0)
		most = Min(most, (uint64) lsm_compaction_rate_limit * 1024 * LSM_WORKER_LONG_S);
	return (LSM_WORKER_LONG & (1 << decision->kind)) != 0 ||
		((decision->kind == LSM_JOB_MINOR || decision->kind == LSM_JOB_TRIM) &&
		 decision->bytes > most);
}

/*
 * Choose a job.  What does not take long need not wait for a turn, however little it is worth
 * beside what does: or increments would come to lie over each other while another table has
 * the turn.  When only that is left, the outcome says so.
 */
static void
lsm_worker_choose(Relation rel, LsmPickDecision *decision, LsmAttempt *outcome)
{
	uint32		spent = lsm_worker_spent;
	LsmAttempt	refused = LSM_ATTEMPT_NO_TURN;
	bool		asked = false;

	while (lsm_pick_job(rel, spent, decision) && lsm_worker_takes_long(decision))
	{
		if (!asked && lsm_worker_take_turn(&refused))
			return;
		asked = true;
		spent |= LSM_WORKER_LONG | 1 << decision->kind;
	}
	if (asked && decision->kind == LSM_JOB_NONE)
		*outcome = refused;
}

/*
 * Choose a job and run it, in a transaction.  Returns the job, or LSM_JOB_NONE and the
 * outcome; that is LSM_ATTEMPT_PASSED after a job that other databases have waited for.
 */
static LsmJobKind
lsm_worker_step(Oid relid, LsmAttempt *outcome)
{
	Relation	rel;
	LsmPickDecision decision;
	LsmJobKind	job;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = lsm_worker_open(relid, outcome);
	if (rel == NULL)
	{
		PopActiveSnapshot();
		CommitTransactionCommand();
		return LSM_JOB_NONE;
	}
	snprintf(lsm_worker_activity, sizeof(lsm_worker_activity), "lsm: choosing a job for %s.%s",
			 get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel));
	*outcome = lsm_pick_later(rel) ? LSM_ATTEMPT_LATER : LSM_ATTEMPT_DONE;
	lsm_worker_choose(rel, &decision, outcome);
	job = decision.kind;

	/* minors that fail, or come to nothing, are nothing to wait for */
	if (lsm_worker_spent & (1 << LSM_JOB_MINOR))
		lsm_table_open(rel)->shared->depth = 0;

	PopActiveSnapshot();
	lsm_worker_job = job;
	if (job != LSM_JOB_NONE)
	{
		snprintf(lsm_worker_activity, sizeof(lsm_worker_activity), "lsm: %s %s.%s",
				 lsm_job_name(job), get_namespace_name(RelationGetNamespace(rel)),
				 RelationGetRelationName(rel));
		pgstat_report_activity(STATE_RUNNING, lsm_worker_activity);

		/*
		 * another process that does it will ask for more if there is more; but what came to
		 * nothing keeps no other kind from being done
		 */
		if (!lsm_worker_run(rel, &decision))
		{
			if ((lsm_worker_spent & (1 << job)) == 0)
				job = LSM_JOB_NONE;
		}
		else
		{
			/* each job may have freed the last entry of a server */
			lsm_cold_tidy(rel);
			if (job == LSM_JOB_MOVE)
				lsm_cold_pass_stamps(rel);
		}

		/* what was of no use rests as it would if nobody waited */
		if (lsm_worker_give_turn() && (lsm_worker_spent & (1 << decision.kind)) == 0)
			*outcome = LSM_ATTEMPT_PASSED;
	}
	else
	{
		/* so may TRUNCATE and rewrites, after which there may be no job for long */
		lsm_cold_tidy(rel);
	}
	lsm_worker_activity[0] = '\0';
	relation_close(rel, NoLock);
	CommitTransactionCommand();
	pgstat_report_stat(true);
	return job;
}

/*
 * A job has raised an error.  Ends its transaction; returns a copy of the error,
 * or NULL if the job was only cancelled, by the server or somebody, or gave way.
 */
static ErrorData *
lsm_worker_recover(void)
{
	ErrorData  *error;

	MemoryContextSwitchTo(lsm_worker_context);
	HOLD_INTERRUPTS();
	error = CopyErrorData();
	if (lsm_job_gave_way())
		ereport(DEBUG1, (errmsg_internal("%s: %s", lsm_worker_activity, error->message),
						 errhidecontext(true)));
	else
		EmitErrorReport();
	if (lsm_job_gave_way() || error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		error = NULL;
	lsm_job_unwatch();
	AbortCurrentTransaction();
	FlushErrorState();
	QueryCancelPending = false;
	lsm_worker_activity[0] = '\0';
	pgstat_report_activity(STATE_IDLE, NULL);
	pgstat_report_stat(true);
	RESUME_INTERRUPTS();
	return error;
}

/* What has failed of a table that is served: kinds of jobs, as bits, and the last error. */
typedef struct LsmWorkerFailed
{
	uint32		kinds;
	ErrorData  *error;
} LsmWorkerFailed;

/* A step has failed: which kind of job is not to be tried again at once, or even rests? */
static void
lsm_worker_note_failed(LsmWorkerFailed *failed, ErrorData *error)
{
	if (lsm_worker_cold_rests)
		return;
	if (lsm_worker_job != LSM_JOB_NONE)
		lsm_worker_spent |= 1 << lsm_worker_job;
	if (lsm_worker_job == LSM_JOB_MOVE)
		return;
	failed->error = error;
	if (lsm_worker_job != LSM_JOB_NONE)
		failed->kinds |= 1 << lsm_worker_job;
}

/*
 * Do the next job of a table.  False: there is none, and the outcome.  Where a job fails the
 * other kinds go on.
 */
static bool
lsm_worker_try(Oid relid, LsmAttempt *outcome, LsmWorkerFailed *failed)
{
	volatile bool more = false;

	lsm_worker_job = LSM_JOB_NONE;
	lsm_worker_cold_rests = false;
	PG_TRY();
	{
		more = lsm_worker_step(relid, outcome) != LSM_JOB_NONE &&
			*outcome != LSM_ATTEMPT_PASSED;
	}
	PG_CATCH();
	{
		ErrorData  *error = lsm_worker_recover();

		(void) lsm_worker_give_turn();
		if (error == NULL)
			*outcome = LSM_ATTEMPT_GAVE_WAY;
		else
		{
			lsm_stat_report_error(relid, error->sqlerrcode, error->message);
			*outcome = LSM_ATTEMPT_FAILED;
			more = lsm_worker_job != LSM_JOB_NONE;
			lsm_worker_note_failed(failed, error);
		}
	}
	PG_END_TRY();
	return more;
}

/* Do what is to be done to a table, but for kinds of jobs that rest. */
static void
lsm_worker_serve(Oid relid, uint32 resting)
{
	LsmAttempt	outcome = LSM_ATTEMPT_DONE;
	LsmWorkerFailed failed = {0};
	int			jobs = 0;

	MemoryContextReset(lsm_worker_context);
	MemoryContextSwitchTo(lsm_worker_context);
	lsm_worker_relid = relid;
	lsm_worker_spent = resting;
	while (lsm_worker_try(relid, &outcome, &failed))
	{
		/* who came back would not know what was of no use */
		if (++jobs < LSM_WORKER_JOBS && !lsm_worker_visiting &&
			(lsm_worker_spent != resting || !lsm_request_flush_waits(MyDatabaseId)))
			continue;
		outcome = LSM_ATTEMPT_MORE;
		break;
	}
	lsm_worker_relid = InvalidOid;
	if (failed.kinds != 0)
		lsm_request_failed(MyDatabaseId, relid, failed.kinds, failed.error);
	lsm_request_end(MyDatabaseId, relid, outcome, failed.error);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* ---- all tables ---- */

/* Between two tables: a worker with much to do waits for nothing, and so would not notice. */
static void
lsm_worker_check(void)
{
	CHECK_FOR_INTERRUPTS();
	if (!PostmasterIsAlive())
		proc_exit(1);
}

/* The lsm tables of the database, from pg_class. */
static List *
lsm_worker_list_tables(void)
{
	List	   *tables = NIL;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(RelationRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		MemoryContext caller;

		if ((form->relkind != RELKIND_RELATION && form->relkind != RELKIND_MATVIEW) ||
			form->relpersistence == RELPERSISTENCE_TEMP || !lsm_am_is_lsm(form->relam))
			continue;
		caller = MemoryContextSwitchTo(TopMemoryContext);
		tables = lappend_oid(tables, form->oid);
		MemoryContextSwitchTo(caller);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return tables;
}

/* Have a request made for a table, if something is to be done to it. */
static void
lsm_worker_look_at(Oid relid)
{
	PG_TRY();
	{
		LsmAttempt	outcome;
		Relation	rel;

		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		rel = lsm_worker_open(relid, &outcome);
		if (rel != NULL)
		{
			snprintf(lsm_worker_activity, sizeof(lsm_worker_activity), "lsm: looking at %s",
					 RelationGetRelationName(rel));
			lsm_job_ask(rel);
			lsm_cold_tidy(rel);
			relation_close(rel, NoLock);
		}
		else if (outcome == LSM_ATTEMPT_GAVE_WAY)
			lsm_request_put_back(MyDatabaseId, relid);
		lsm_worker_activity[0] = '\0';
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		ErrorData  *error = lsm_worker_recover();

		lsm_request_end(MyDatabaseId, relid,
						error != NULL ? LSM_ATTEMPT_FAILED : LSM_ATTEMPT_GAVE_WAY, error);
	}
	PG_END_TRY();
}

/* ---- stores ---- */

/* Delete what nothing needs of a store, if it is time, and claim what is needed. */
static void
lsm_worker_sweep(Oid serverid)
{
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		snprintf(lsm_worker_activity, sizeof(lsm_worker_activity), "lsm: looking at store %u",
				 serverid);
		pgstat_report_activity(STATE_RUNNING, lsm_worker_activity);
		lsm_orphans_sweep_store(serverid);
		lsm_worker_activity[0] = '\0';
		CommitTransactionCommand();
		pgstat_report_activity(STATE_IDLE, NULL);
	}
	PG_CATCH();
	{
		(void) lsm_worker_recover();
	}
	PG_END_TRY();
}

/* The stores of the database, by their servers. */
static List *
lsm_worker_list_stores(void)
{
	List	   *servers;
	MemoryContext caller;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	servers = lsm_orphans_stores();
	caller = MemoryContextSwitchTo(TopMemoryContext);
	servers = list_copy(servers);
	MemoryContextSwitchTo(caller);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return servers;
}

/*
 * Look at all stores of the database, when it is our turn: one that does not answer occupies
 * the worker until the timeouts of its requests have passed.
 */
static void
lsm_worker_serve_stores(void)
{
	LsmAttempt	outcome;

	lsm_worker_relid = LSM_REQUEST_STORES;
	if (lsm_worker_take_turn(&outcome))
	{
		List	   *servers = lsm_worker_list_stores();
		ListCell   *lc;

		foreach(lc, servers)
		{
			CHECK_FOR_INTERRUPTS();
			lsm_worker_sweep(lfirst_oid(lc));
		}
		list_free(servers);
		(void) lsm_worker_give_turn();
		outcome = LSM_ATTEMPT_DONE;
	}
	lsm_worker_relid = InvalidOid;
	lsm_request_end(MyDatabaseId, LSM_REQUEST_STORES, outcome, NULL);
}

/* ---- visits ---- */

/* Serve a request of the database that is due; false: there is none. */
static bool
lsm_worker_serve_next(void)
{
	uint32		resting;
	Oid			relid = lsm_request_take(MyDatabaseId, &resting);

	if (relid == LSM_REQUEST_STORES)
		lsm_worker_serve_stores();
	else if (OidIsValid(relid))
		lsm_worker_serve(relid, resting);
	return OidIsValid(relid);
}

/*
 * Should the worker leave before it has done all?  It came at that time, and stays so long though
 * other databases wait.
 */
static bool
lsm_worker_should_leave(TimestampTz since, int stay_ms)
{
	lsm_worker_check();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	return lsm_my_slot >= lsm_compaction_workers ||
		(TimestampDifferenceExceeds(since, GetCurrentTimestamp(), stay_ms) &&
		 lsm_slots_crowded());
}

/*
 * See what is to be done in the database that nobody has asked for.  Where there is no place for
 * another request, the rest has to wait for the next visit, which comes when these are served.
 * False: the worker has to leave; the launcher has the database visited again.
 *
 * Who waits for a flush does not wait for a look at very many tables: it is done in between, and
 * where the flush is of another database, the worker makes room for one that goes there.
 */
static bool
lsm_worker_visit(void)
{
	List	   *tables;
	TimestampTz since;
	bool		complete = true;
	int			n;
	int			first;

	pgstat_report_activity(STATE_RUNNING, "lsm: looking for tables with work");
	tables = lsm_worker_list_tables();
	n = list_length(tables);
	since = GetCurrentTimestamp();
	lsm_worker_visiting = true;

	/* there may be fewer requests than tables that want one: not always the same ones */
	first = n > 0 ? (int) (pg_prng_uint64(&pg_global_prng_state) % n) : 0;
	for (int i = 0; i < n && lsm_requests_refused == 0; i++)
	{
		if (lsm_worker_should_leave(since, LSM_VISIT_STAY_MS))
		{
			complete = false;
			break;
		}
		if (lsm_request_flush_waits(MyDatabaseId))
		{
			(void) lsm_worker_serve_next();
			pgstat_report_activity(STATE_RUNNING, "lsm: looking for tables with work");
		}
		lsm_worker_look_at(list_nth_oid(tables, (first + i) % n));
	}
	lsm_worker_visiting = false;
	list_free(tables);

	/* last: what tables want comes first */
	if (lsm_worker_list_stores() != NIL)
		lsm_request_stores();
	if (complete)
		lsm_slot_visited(lsm_my_slot);
	pgstat_report_activity(STATE_IDLE, NULL);
	return complete;
}

/* ---- the process ---- */

static void
lsm_worker_exit(int code, Datum arg)
{
	if (OidIsValid(lsm_worker_relid))
		lsm_request_put_back(MyDatabaseId, lsm_worker_relid);
	lsm_slot_end(lsm_my_slot, lsm_worker_complete);
}

static void
lsm_worker_timer(void)
{
	lsm_job_poll_due = true;
}

/* Settings that could keep maintenance from being done, as autovacuum has them. */
static void
lsm_worker_init_settings(void)
{
	static const char *const off[] = {LSM_TIMEOUT_SETTINGS};

	for (size_t i = 0; i < lengthof(off); i++)
		SetConfigOption(off[i], "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("search_path", "", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("role", "none", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("zero_damaged_pages", "false", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET,
					PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "false", PGC_SUSET, PGC_S_OVERRIDE);
	if (synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
}

static void
lsm_worker_connect(Oid dbid)
{
	TimeoutId	timer;

	/* before the process can be found by its database */
	MyProc->statusFlags |= PROC_IS_AUTOVACUUM;
	lsm_worker_init_settings();
	BackgroundWorkerInitializeConnectionByOid(dbid, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	lsm_worker_context = AllocSetContextCreate(TopMemoryContext, "lsm worker",
											   ALLOCSET_DEFAULT_SIZES);
	lsm_stop_idle = lsm_job_check;
	lsm_store_idle = lsm_job_check;
	timer = RegisterTimeout(USER_TIMEOUT, lsm_worker_timer);
	enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
															LSM_WORKER_POLL_MS),
						 LSM_WORKER_POLL_MS);
}

void
lsm_worker_main(Datum arg)
{
	LsmWorkerSlot slot;
	ErrorContextCallback callback;
	TimestampTz since;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	if (!lsm_slot_attach(DatumGetInt32(arg), &slot))
		proc_exit(0);
	lsm_my_slot = DatumGetInt32(arg);
	before_shmem_exit(lsm_worker_exit, 0);
	lsm_worker_connect(slot.dbid);

	callback.callback = lsm_worker_error_context;
	callback.arg = NULL;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	since = GetCurrentTimestamp();
	if (!slot.visit || lsm_worker_visit())
	{
		while (lsm_worker_serve_next() && !lsm_worker_should_leave(since, LSM_WORKER_STAY_MS))
			;
	}
	error_context_stack = callback.previous;
	lsm_worker_complete = true;
	proc_exit(0);
}
