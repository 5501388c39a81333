/*-------------------------------------------------------------------------
 *
 * lsm_launcher.c
 *	  The process that starts workers where there is something to do.
 *
 * It is connected to no database, but reads pg_database.  A worker is started
 * for a database
 *
 * - that has requests which are due (lsm_request.c), or
 * - that has not been visited for lsm.compaction_naptime, or since the server was
 *	 started, since it was created, or since requests of it were dropped: then the worker
 *	 looks at all tables.
 *
 * At most lsm.compaction_workers run at a time, several in one database if it has
 * several requests.  Where databases wait though all workers are taken, or all processes
 * that the server has for them, workers leave theirs after the table they are at, though not before
 * half a second, and visits after five; the longest waiting comes next.  Visits let requests pass for a minute: of a thousand databases that
 * nobody uses, visits take long after a start, and a memtable that is half full cannot wait
 * for them.  For the same reason one worker, if there are several, is kept free of visits.
 *
 * A database that is locked by someone who creates, drops, copies or moves it
 * is left alone until that is over: a worker would wait for it and be of no use to
 * others.  The worker itself is what must not be in the way: see lsm_worker.c.
 *
 * FAILURES
 *	  A worker that did not come to its end (it could not connect, or was
 *	  terminated) has its database wait, each time twice as long.  The slots of
 *	  workers are in shared memory: a launcher that was terminated and
 *	  started anew by the server goes on with those that run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "lsm_request.h"
#include "lsm_worker.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* The server starts a launcher that has been terminated again after so long. */
#define LSM_LAUNCHER_RESTART_S	5

/* A process that has not come up by then will not. */
#define LSM_START_TIMEOUT_MS	60000

/*
 * Requests that were dropped make no more than one round of visits in so long, unless most of
 * those that were not have been served.
 */
#define LSM_OVERFLOW_WAIT_MS	60000

/* What is asked for in so long after a visit was due comes before it. */
#define LSM_VISIT_WAITS_MS		60000

/* pg_database is read at least that often, for new databases. */
#define LSM_LIST_MAX_S			60

#define LSM_LOCKED_WAIT_MS		500
#define LSM_NO_PROCESS_WAIT_MS	5000
#define LSM_DATABASE_WAIT_MAX_S 3600

/* A worker that has gone may be a process for so long, and is looked for again so often. */
#define LSM_PROCESS_ENDS_MS		1000
#define LSM_PROCESS_WAIT_MS		50

/* What the launcher knows of a database. */
typedef struct LsmDatabase
{
	Oid			dbid;			/* hash key */
	bool		listed;			/* found when pg_database was last read */
	bool		open;			/* workers may connect to it unasked */
	TimestampTz visited_at;		/* 0: not yet, */
	TimestampTz unvisited_since;	/* since then */
	TimestampTz served_at;		/* when a worker of it has left */
	TimestampTz not_before;
	int			failures;		/* in a row */
} LsmDatabase;

static HTAB *lsm_databases;
static TimestampTz lsm_list_at; /* when pg_database is to be read again */
static MemoryContext lsm_round_context;

/* The server has no process for any database; it is asked again then. */
static TimestampTz lsm_no_process_until;
static TimestampTz lsm_worker_gone_at;

/* Of the processes that this launcher has started, by slot; NULL: none. */
static BackgroundWorkerHandle *lsm_handles[LSM_MAX_WORKERS];

/* ---- databases ---- */

static LsmDatabase *
lsm_database_get(Oid dbid)
{
	bool		found;
	LsmDatabase *database = hash_search(lsm_databases, &dbid, HASH_ENTER, &found);

	if (!found)
	{
		database->listed = database->open = false;
		database->visited_at = database->served_at = database->not_before = 0;
		database->unvisited_since = GetCurrentTimestamp();
		database->failures = 0;
	}
	return database;
}

/* It is to be visited now. */
static void
lsm_database_want_visit(LsmDatabase *database)
{
	if (database->visited_at == 0)
		return;
	database->visited_at = 0;
	database->unvisited_since = GetCurrentTimestamp();
}

/* When a worker is to look at all tables of the database. */
static TimestampTz
lsm_database_visit_at(const LsmDatabase *database)
{
	if (!database->open)
		return DT_NOEND;
	if (database->visited_at == 0)
		return database->unvisited_since;
	return TimestampTzPlusMilliseconds(database->visited_at,
									   (int64) lsm_compaction_naptime * 1000);
}

static bool
lsm_database_listed(Oid dbid)
{
	LsmDatabase *database = hash_search(lsm_databases, &dbid, HASH_FIND, NULL);

	return database != NULL && database->listed;
}

/* A DROP DATABASE that was interrupted leaves what can only be dropped. */
static bool
lsm_database_is_valid(Form_pg_database form)
{
	return form->datconnlimit != DATCONNLIMIT_INVALID_DB;
}

/* Read pg_database. */
static void
lsm_databases_read(void)
{
	HASH_SEQ_STATUS seq;
	LsmDatabase *database;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	hash_seq_init(&seq, lsm_databases);
	while ((database = hash_seq_search(&seq)) != NULL)
		database->listed = false;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (!lsm_database_is_valid(form))
			continue;
		database = lsm_database_get(form->oid);
		database->listed = true;
		database->open = form->datallowconn;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(lsm_round_context);

	lsm_request_drop_databases(lsm_database_listed);
	hash_seq_init(&seq, lsm_databases);
	while ((database = hash_seq_search(&seq)) != NULL)
		if (!database->listed)
			hash_search(lsm_databases, &database->dbid, HASH_REMOVE, NULL);
	lsm_list_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
											  (int64) 1000 * Min(lsm_compaction_naptime,
																 LSM_LIST_MAX_S));
}

/* Have those visited of which requests were dropped; false: none were. */
static bool
lsm_databases_overflown(void)
{
	Oid			dbids[LSM_MAX_OVERFLOWN];
	int			n = lsm_request_take_overflown(dbids);
	HASH_SEQ_STATUS seq;
	LsmDatabase *database;

	for (int i = 0; i < n; i++)
		lsm_database_want_visit(lsm_database_get(dbids[i]));
	if (n >= 0)
		return n > 0;
	hash_seq_init(&seq, lsm_databases);
	while ((database = hash_seq_search(&seq)) != NULL)
		lsm_database_want_visit(database);
	return true;
}

/* Is there such a database, and may anybody connect to it?  In a transaction. */
static bool
lsm_database_exists(Oid dbid)
{
	Relation	rel = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	PushActiveSnapshot(GetTransactionSnapshot());
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (!found && (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		found = form->oid == dbid && lsm_database_is_valid(form);
	}
	table_endscan(scan);
	PopActiveSnapshot();
	table_close(rel, AccessShareLock);
	return found;
}

/* May a worker connect: is there no one who has the database locked? */
static bool
lsm_database_is_free(Oid dbid, bool *exists)
{
	LOCKTAG		tag;
	bool		is_free;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, dbid, 0);
	StartTransactionCommand();
	is_free = LockAcquire(&tag, RowExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
	*exists = !is_free || lsm_database_exists(dbid);
	CommitTransactionCommand();
	MemoryContextSwitchTo(lsm_round_context);
	return is_free;
}

static void
lsm_database_wait(LsmDatabase *database, int64 wait_ms)
{
	database->not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), wait_ms);
}

/* ---- workers ---- */

/* A worker of the database has gone. */
static void
lsm_launcher_ended(const LsmWorkerSlot *slot)
{
	LsmDatabase *database = lsm_database_get(slot->dbid);

	database->served_at = GetCurrentTimestamp();
	if (slot->visit)
		lsm_database_want_visit(database);	/* it has not come to an end */
	if (slot->complete)
	{
		database->failures = 0;
		return;
	}
	database->failures++;
	lsm_database_wait(database, (int64) 1000 *
					  Min(1 << Min(database->failures - 1, 16), LSM_DATABASE_WAIT_MAX_S));
}

/* Free the slots of workers that have gone. */
static void
lsm_launcher_collect(LsmWorkerSlot *slots)
{
	lsm_slots_read(slots);
	for (int i = 0; i < LSM_MAX_WORKERS; i++)
	{
		bool		gone = slots[i].state == LSM_SLOT_ENDED;
		pid_t		pid;

		if (slots[i].state == LSM_SLOT_FREE)
			continue;
		if (slots[i].state == LSM_SLOT_STARTING && lsm_handles[i] != NULL)
			gone = GetBackgroundWorkerPid(lsm_handles[i], &pid) == BGWH_STOPPED;
		else if (slots[i].state == LSM_SLOT_STARTING)
			gone = TimestampDifferenceExceeds(slots[i].since, GetCurrentTimestamp(),
											  LSM_START_TIMEOUT_MS);
		if (!gone)
			continue;

		/*
		 * Race: a process may have come up, and gone, since the slots were
		 * read.  Then its slot says so by now.
		 */
		lsm_slots_read(slots);
		if (slots[i].state == LSM_SLOT_RUNNING && lsm_handles[i] == NULL)
			continue;
		lsm_launcher_ended(&slots[i]);
		lsm_worker_gone_at = GetCurrentTimestamp();
		lsm_no_process_until = 0;
		lsm_workers_set_no_process(false);
		lsm_slot_free(i);
		slots[i].state = LSM_SLOT_FREE;
		if (lsm_handles[i] != NULL)
			pfree(lsm_handles[i]);
		lsm_handles[i] = NULL;
	}
}

/* Start a worker.  False: the server has no process for it. */
static bool
lsm_launcher_start(int n, LsmDatabase *database, bool visit)
{
	BackgroundWorker worker;
	MemoryContext caller;
	bool		started;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name), "lsm");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name), "lsm_worker_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "lsm worker");
	snprintf(worker.bgw_type, BGW_MAXLEN, "lsm worker");
	worker.bgw_main_arg = Int32GetDatum(n);
	worker.bgw_notify_pid = MyProcPid;

	lsm_slot_start(n, database->dbid, visit);
	caller = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &lsm_handles[n]);
	MemoryContextSwitchTo(caller);
	if (started)
	{
		lsm_workers_set_no_process(false);
		if (visit)
			database->visited_at = GetCurrentTimestamp();
		return true;
	}
	lsm_handles[n] = NULL;
	lsm_slot_free(n);
	return false;
}

/* The server has had no process for a worker. */
static void
lsm_launcher_lacks_process(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		ends = !TimestampDifferenceExceeds(lsm_worker_gone_at, now, LSM_PROCESS_ENDS_MS);
	static bool warned = false;

	lsm_no_process_until = TimestampTzPlusMilliseconds(now, ends ? LSM_PROCESS_WAIT_MS :
													   LSM_NO_PROCESS_WAIT_MS);
	if (ends)
		return;
	lsm_workers_set_no_process(true);
	if (warned)
		return;
	ereport(LOG,
			(errmsg("could not start an lsm worker: out of background worker slots"),
			 errhint("You might need to increase max_worker_processes.")));
	warned = true;
}

/*
 * Since when has a database waited?  Not from before a worker has left it: that was for others.  0:
 * there is nothing to do there now.
 */
static TimestampTz
lsm_launcher_waits_since(const LsmDatabase *database, const LsmDemand *demand,
						 const LsmWorkerSlot *slots, TimestampTz now, bool *visit)
{
	TimestampTz visit_at = lsm_database_visit_at(database);
	TimestampTz since = 0;
	int			starting = 0;
	int			visits = 0;

	*visit = false;
	if (database->not_before > now)
		return 0;
	for (int i = 0; i < LSM_MAX_WORKERS; i++)
	{
		if (slots[i].state == LSM_SLOT_FREE)
			continue;
		visits += slots[i].visit;
		if (slots[i].dbid != database->dbid)
			continue;
		if (slots[i].state == LSM_SLOT_STARTING)
			starting++;
		if (slots[i].visit)
			*visit = true;		/* one is enough */
	}
	/* one is kept free of visits: of many tables, or from a slow disk, they take minutes */
	*visit = !*visit && starting == 0 && visit_at <= now &&
		visits < Max(lsm_compaction_workers - 1, 1);
	if (demand != NULL && demand->due > starting)
		since = demand->first;
	if (*visit)
	{
		visit_at = TimestampTzPlusMilliseconds(visit_at, LSM_VISIT_WAITS_MS);

		/* who visits may have to leave before he comes to requests */
		if (since != 0 && visit_at > now)
			*visit = false;
		else
			since = since == 0 ? visit_at : Min(since, visit_at);
	}
	return since == 0 ? 0 : Max(since, database->served_at);
}

/*
 * Has the database a worker that will come to what is asked for?  Not one that does what takes
 * long, where another is kept free of that.
 */
static bool
lsm_launcher_has_worker(const LsmWorkerSlot *slots, Oid dbid)
{
	for (int i = 0; i < LSM_MAX_WORKERS; i++)
		if (slots[i].state != LSM_SLOT_FREE && slots[i].dbid == dbid &&
			!(slots[i].turn && lsm_compaction_workers > 1))
			return true;
	return false;
}

/*
 * The database that has waited longest; NULL: none waits.  unserved: of those that have no worker for it.
 * These go first, and others are to leave theirs for them.
 */
static LsmDatabase *
lsm_launcher_next(HTAB *demands, const LsmWorkerSlot *slots, bool unserved, bool *visit)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz longest = 0;
	LsmDatabase *next = NULL;
	LsmDatabase *database;
	HASH_SEQ_STATUS seq;

	hash_seq_init(&seq, lsm_databases);
	while ((database = hash_seq_search(&seq)) != NULL)
	{
		bool		its_visit;
		TimestampTz since = lsm_launcher_waits_since(database,
													 hash_search(demands, &database->dbid,
																 HASH_FIND, NULL),
													 slots, now, &its_visit);

		if (since != 0 && (longest == 0 || since < longest) &&
			!(unserved && (since > now || lsm_launcher_has_worker(slots, database->dbid))))
		{
			longest = since;
			next = database;
			*visit = its_visit;
		}
	}
	return next;
}

/*
 * Start what can be started; tells workers whether someone waits for them: for their slots,
 * or for their processes, if the server has no other one.
 */
static void
lsm_launcher_round(LsmWorkerSlot *slots)
{
	HTAB	   *demands = lsm_request_demands(GetCurrentTimestamp());
	LsmDatabase *database;
	LsmDemand  *demand;
	HASH_SEQ_STATUS seq;
	bool		visit = false;
	int			n = 0;

	/* databases that are younger than the list of them */
	hash_seq_init(&seq, demands);
	while ((demand = hash_seq_search(&seq)) != NULL)
		(void) lsm_database_get(demand->dbid);

	for (;;)
	{
		bool		exists;
		bool		full;

		while (n < lsm_compaction_workers && slots[n].state != LSM_SLOT_FREE)
			n++;
		full = n >= lsm_compaction_workers || lsm_no_process_until > GetCurrentTimestamp();
		database = lsm_launcher_next(demands, slots, true, &visit);
		if (database == NULL && !full)
			database = lsm_launcher_next(demands, slots, false, &visit);
		if (database == NULL || full)
			break;
		if (!lsm_database_is_free(database->dbid, &exists))
			lsm_database_wait(database, LSM_LOCKED_WAIT_MS);
		else if (!exists)
			lsm_databases_read();
		else if (!lsm_launcher_start(n, database, visit))
			lsm_launcher_lacks_process();
		else
		{
			slots[n].state = LSM_SLOT_STARTING;
			slots[n].dbid = database->dbid;
			slots[n].visit = visit;
			slots[n].since = GetCurrentTimestamp();
		}
	}
	lsm_slots_set_crowded(database != NULL);
}

/* When to wake up unasked: when something that is not to be done now will be. */
static long
lsm_launcher_sleep_ms(const LsmWorkerSlot *slots)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = lsm_list_at;
	HTAB	   *demands = lsm_request_demands(now);
	HASH_SEQ_STATUS seq;
	LsmDatabase *database;

	if (lsm_compaction_workers == 0)
		return LSM_START_TIMEOUT_MS;
	if (lsm_no_process_until > now)
		until = Min(until, lsm_no_process_until);
	for (int i = 0; i < LSM_MAX_WORKERS; i++)
		if (slots[i].state == LSM_SLOT_STARTING)
			until = Min(until, TimestampTzPlusMilliseconds(slots[i].since, LSM_START_TIMEOUT_MS));
	hash_seq_init(&seq, lsm_databases);
	while ((database = hash_seq_search(&seq)) != NULL)
	{
		LsmDemand  *demand = hash_search(demands, &database->dbid, HASH_FIND, NULL);

		/* what is due by now waits for a worker, whose end wakes us up */
		if (demand != NULL && Max(demand->first, database->not_before) > now)
			until = Min(until, Max(demand->first, database->not_before));
		if (demand != NULL && demand->next != 0)
			until = Min(until, Max(demand->next, database->not_before));
		if (Max(lsm_database_visit_at(database), database->not_before) > now)
			until = Min(until, Max(lsm_database_visit_at(database), database->not_before));
	}
	return Max(TimestampDifferenceMilliseconds(now, until), 10);
}

/* ---- the process ---- */

static void
lsm_launcher_detach(int code, Datum arg)
{
	lsm_launcher_attach(NULL);
}

static void
lsm_launcher_begin(void)
{
	HASHCTL		ctl;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgstat_report_activity(STATE_IDLE, NULL);

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(LsmDatabase);
	ctl.hcxt = TopMemoryContext;
	lsm_databases = hash_create("lsm databases", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	lsm_round_context = AllocSetContextCreate(TopMemoryContext, "lsm launcher round",
											  ALLOCSET_DEFAULT_SIZES);
	lsm_launcher_attach(MyLatch);
	before_shmem_exit(lsm_launcher_detach, 0);
}

void
lsm_launcher_main(Datum arg)
{
	TimestampTz overflow_at = 0;

	lsm_launcher_begin();
	for (;;)
	{
		LsmWorkerSlot slots[LSM_MAX_WORKERS];

		CHECK_FOR_INTERRUPTS();

		/* not 0: unless the server stops, another one is to be started */
		if (ShutdownRequestPending)
			proc_exit(1);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);

			/* they may have to be sooner than was planned */
			lsm_list_at = 0;
			lsm_request_settings_changed();
		}
		MemoryContextSwitchTo(lsm_round_context);
		MemoryContextReset(lsm_round_context);
		lsm_launcher_collect(slots);
		if (lsm_compaction_workers > 0)
		{
			TimestampTz now = GetCurrentTimestamp();
			bool		overflown = (now >= overflow_at || lsm_request_is_room()) &&
				lsm_databases_overflown();

			if (overflown)
				overflow_at = TimestampTzPlusMilliseconds(now, LSM_OVERFLOW_WAIT_MS);
			if (overflown || now >= lsm_list_at)
				lsm_databases_read();
			lsm_launcher_round(slots);
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 lsm_launcher_sleep_ms(slots),
						 lsm_compat_wait_event("LsmLauncherMain"));
		ResetLatch(MyLatch);
	}
}

void
lsm_launcher_register(void)
{
	BackgroundWorker worker;

	/* pg_upgrade wants nobody to change what it copies */
	if (IsBinaryUpgrade)
		return;
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = LSM_LAUNCHER_RESTART_S;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name), "lsm");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name), "lsm_launcher_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "lsm launcher");
	snprintf(worker.bgw_type, BGW_MAXLEN, "lsm launcher");
	RegisterBackgroundWorker(&worker);
}
