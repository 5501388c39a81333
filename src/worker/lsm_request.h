/*-------------------------------------------------------------------------
 *
 * lsm_request.h
 *	  What backends, launcher and workers tell each other: which tables are to
 *	  be looked at, how the last attempts ended, which workers there are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_REQUEST_H
#define LSM_REQUEST_H

#include "lsm.h"

#include "catalog/pg_foreign_server.h"
#include "datatype/timestamp.h"

#define LSM_MAX_WORKERS			16	/* the most that the setting allows */
#define LSM_ERROR_LENGTH		256

extern int	lsm_compaction_workers;
extern int	lsm_compaction_naptime; /* seconds */

/* ---- for everybody ---- */

extern void lsm_request_shmem_request(void);
extern void lsm_request_shmem_startup(void);

/*
 * Ask for a look at a table by a worker: now, or in so many seconds; or for a flush of one, of any
 * database.  Cheap; takes one LWLock, raises no error.  A table that could not be looked at keeps
 * its back-off, as does a kind of job that has failed.
 */
extern void lsm_worker_request(Relation rel);
extern void lsm_worker_request_later(Relation rel, int seconds);
extern void lsm_worker_request_flush(Oid dbid, Oid relid);

/* Is there a worker, or a process for one?  (Not whether the settings want any.) */
extern bool lsm_workers_may_come(void);

/* Take so many microseconds of all workers' time, at a rate: until when? */
extern TimestampTz lsm_worker_take_time(int rate, int64 us);

/* How a table fares with the workers, for statistics. */
typedef struct LsmWorkerStatus
{
	bool		waiting;		/* a worker will look at it, not before due */
	TimestampTz due;
	int64		errors;			/* jobs that failed, since the server started */
	int			failures;		/* of these, in a row until now */
	int64		given_up;		/* jobs that were cancelled, or gave way to a
								 * lock */
	TimestampTz error_at;		/* of the last error; 0: none */
	int			error_code;		/* its SQLSTATE, as MAKE_SQLSTATE() has it */
	char		error[LSM_ERROR_LENGTH];	/* its message */
} LsmWorkerStatus;

/* False: nothing is known of the table.  Old entries may have been thrown out. */
extern bool lsm_worker_status(Oid dbid, Oid relid, LsmWorkerStatus *status);

/*
 * Milliseconds to wait after the n-th failure in a row: 1, 2, 4 ... seconds up to a limit,
 * give or take a quarter, so that what has failed together is not tried again together.
 */
extern int64 lsm_backoff_ms(int n, int limit_s);

/* ---- requests, for launcher and workers ---- */

/* How an attempt ended. */
typedef enum LsmAttempt
{
	LSM_ATTEMPT_DONE,			/* nothing is left to do */
	LSM_ATTEMPT_MORE,			/* more is to do; others come first */
	LSM_ATTEMPT_PASSED,			/* the same; other databases, which have waited
								 * for the turn, come first */
	LSM_ATTEMPT_LATER,			/* something may be to do in a while */
	LSM_ATTEMPT_NO_TURN,		/* for what takes long; when another has ended */
	LSM_ATTEMPT_GAVE_WAY,		/* to someone who wants the table; or
								 * cancelled */
	LSM_ATTEMPT_FAILED,			/* before a job could be chosen */
	LSM_ATTEMPT_GONE			/* there is no such table */
} LsmAttempt;

/*
 * In place of a table: the stores of the database, of which workers delete what nothing needs.
 * No table has the OID of a catalog.
 */
#define LSM_REQUEST_STORES	ForeignServerRelationId

extern void lsm_request_stores(void);

/* So many databases whose requests were dropped are told apart. */
#define LSM_MAX_OVERFLOWN		16

/* Who has passed a turn on gives other databases that time to take it. */
#define LSM_PASSED_MS		500

/*
 * resting: kinds of jobs, as bits, that have failed and are to be left alone for now.  Those of
 * a table that have failed while it was served are told before the end of that.
 */
extern Oid	lsm_request_take(Oid dbid, uint32 *resting);
extern bool lsm_request_flush_waits(Oid dbid);
extern void lsm_request_put_back(Oid dbid, Oid relid);
extern void lsm_request_failed(Oid dbid, Oid relid, uint32 kinds, const ErrorData *error);
extern void lsm_request_recovered(Oid dbid, Oid relid, uint32 kinds);
extern void lsm_request_end(Oid dbid, Oid relid, LsmAttempt outcome, const ErrorData *error);

/* The requests of one database. */
typedef struct LsmDemand
{
	Oid			dbid;			/* hash key */
	int			due;			/* that can be worked on now */
	TimestampTz first;			/* when the first was or will be due */
	TimestampTz next;			/* when the first that is not due yet will be;
								 * 0: there is none */
} LsmDemand;

/* Requests of this process that there was no place for. */
extern uint64 lsm_requests_refused;

extern struct HTAB *lsm_request_demands(TimestampTz now);
extern bool lsm_request_is_room(void);
extern int	lsm_request_take_overflown(Oid *dbids);
extern void lsm_request_settings_changed(void);
extern void lsm_request_drop_databases(bool (*exists) (Oid dbid));

/* ---- workers ---- */

typedef enum LsmSlotState
{
	LSM_SLOT_FREE,
	LSM_SLOT_STARTING,			/* the launcher has asked for a process */
	LSM_SLOT_RUNNING,			/* it has connected to its database */
	LSM_SLOT_ENDED				/* it has gone, the launcher has not seen it */
} LsmSlotState;

typedef struct LsmWorkerSlot
{
	LsmSlotState state;
	Oid			dbid;
	bool		visit;			/* look at all tables of the database */
	bool		complete;		/* ended of its own accord */
	bool		turn;			/* runs what takes long, or looks at stores */
	TimestampTz since;
} LsmWorkerSlot;

extern void lsm_launcher_attach(struct Latch *latch);
extern void lsm_workers_set_no_process(bool no_process);
extern void lsm_slots_read(LsmWorkerSlot *slots);
extern void lsm_slot_start(int n, Oid dbid, bool visit);
extern void lsm_slot_visited(int n);
extern void lsm_slot_free(int n);
extern bool lsm_slot_attach(int n, LsmWorkerSlot *slot);
extern void lsm_slot_end(int n, bool complete);
extern bool lsm_slots_turn_left(void);
extern bool lsm_slot_take_turn(int n, Oid dbid, Oid relid);
extern bool lsm_slot_give_turn(int n);
extern void lsm_slots_set_crowded(bool crowded);
extern bool lsm_slots_crowded(void);

#endif							/* LSM_REQUEST_H */
