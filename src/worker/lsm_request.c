/*-------------------------------------------------------------------------
 *
 * lsm_request.c
 *	  What backends, launcher and workers tell each other.
 *
 * A request says that a worker shall look at a table; what is to be done there
 * is found out by the worker.  The table of requests is bounded.  Where it is
 * full, what is only to be looked at again later goes first, then what cannot be done now; if
 * that is not enough, requests are refused.  The launcher is told of which databases requests were
 * refused or dropped, so that it has these visited (but not for tables that fail: these wait for
 * the next visit).  So requests may be lost without harm, and after a restart there are none.
 *
 * In place of a table there may be LSM_REQUEST_STORES: look at the stores of the database.
 *
 * An entry stays after its request was served for as long as there is room: it
 * has the back-off, and the last error for whoever wants to show it.
 *
 * A kind of job that has failed rests, each time twice as long; others of the table are
 * asked for and done meanwhile.  If nothing could be chosen, all of it rests.
 *
 * WHICH REQUEST IS SERVED
 *	  Flushes that writers ask for go first, as these will have no room before long, and a worker that
 *	  has done a job of its table leaves the others of that for later if a flush is asked for.
 *	  But what has been due for LSM_FLUSH_FIRST_S goes before every second of them.  (One worker is
 *	  kept free of what takes long, see below.)
 *
 * TURNS
 *	  What takes long needs a turn, of which there is one less than workers.  Of those that
 *	  wait for one, the one that has waited longest is told when there is one again, and when it
 *	  has been served, the next, if there still is.  The others are looked at now and then all
 *	  the same: the one that was told may belong to a database that no worker can connect to.
 *
 * LOCKING
 *	  One LWLock guards all of it.  No other lock is taken inside, and it is held
 *	  for a look at the entries of the table at most.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/pg_prng.h"
#include "lsm_request.h"
#include "lsm_stat.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define LSM_MAX_REQUESTS		1024

/* Seconds: each failure in a row doubles the wait, up to a limit (lsm_backoff_ms()). */
#define LSM_FAILURE_MAX_S		3600
#define LSM_GAVE_WAY_MAX_S		60
#define LSM_LOOK_AGAIN_S		5

/* Who waits for a turn looks after so long whether there is one, though nobody has told. */
#define LSM_TURN_WAIT_MS		60000

/* What has been due for so long takes turns with flushes. */
#define LSM_FLUSH_FIRST_S		10

#define LSM_ALL_KINDS			PG_UINT32_MAX

typedef struct LsmRequestKey
{
	Oid			dbid;
	Oid			relid;
} LsmRequestKey;

typedef struct LsmRequest
{
	LsmRequestKey key;			/* hash key */
	bool		asked;			/* by a backend, or to be tried again */
	bool		served;			/* a worker has taken it */
	bool		flush;			/* a flush is asked for: that goes first */
	bool		passed;			/* was due for long, and a flush was served before it */
	bool		no_turn;		/* waits until another gives its turn back */
	TimestampTz turn_since;		/* has wanted a turn, and not had it; 0: no */
	int			again_s;		/* present wait until it is looked at unasked */
	int			gave_way;		/* times in a row */
	uint32		resting;		/* kinds of jobs, as bits, that have failed */
	TimestampTz rest_until;		/* they are left alone till then */
	LsmWorkerStatus status;
} LsmRequest;

typedef struct LsmWorkerShared
{
	LWLock		lock;
	struct Latch *launcher;		/* NULL: none runs */
	bool		no_process;		/* the server has none for a worker */
	int			noverflown;		/* databases whose requests were dropped; -1:
								 * more than there is room for */
	Oid			overflown[LSM_MAX_OVERFLOWN];
	bool		crowded;		/* a database waits for a worker */
	TimestampTz taken_until;	/* time that compactions have used up */
	int			taken_rate;		/* at this rate */
	LsmWorkerSlot slots[LSM_MAX_WORKERS];
} LsmWorkerShared;

int			lsm_compaction_workers = 2;
int			lsm_compaction_naptime = 3600;

uint64		lsm_requests_refused = 0;

static LsmWorkerShared *lsm_workers;
static HTAB *lsm_requests;

void
lsm_request_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(LsmWorkerShared)));
	RequestAddinShmemSpace(hash_estimate_size(LSM_MAX_REQUESTS, sizeof(LsmRequest)));
	RequestNamedLWLockTranche("lsm_worker", 1);
}

void
lsm_request_shmem_startup(void)
{
	bool		found;
	HASHCTL		ctl;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_workers = ShmemInitStruct("lsm workers", sizeof(LsmWorkerShared), &found);
	if (!found)
	{
		memset(lsm_workers, 0, sizeof(LsmWorkerShared));
		LWLockInitialize(&lsm_workers->lock, GetNamedLWLockTranche("lsm_worker")->lock.tranche);
	}
	ctl.keysize = sizeof(LsmRequestKey);
	ctl.entrysize = sizeof(LsmRequest);
	lsm_requests = ShmemInitHash("lsm requests", LSM_MAX_REQUESTS, LSM_MAX_REQUESTS, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	LWLockRelease(AddinShmemInitLock);
}

int64
lsm_backoff_ms(int n, int limit_s)
{
	int			seconds = n > 16 ? limit_s : Min(1 << (n - 1), limit_s);

	return (int64) (seconds * (750 + 500 * pg_prng_double(&pg_global_prng_state)));
}

/* ---- entries; the lock is held exclusively ---- */

/* A request of the database is dropped. */
static void
lsm_request_lost(Oid dbid)
{
	for (int i = 0; i < lsm_workers->noverflown; i++)
		if (lsm_workers->overflown[i] == dbid)
			return;
	if (lsm_workers->noverflown < 0)
		return;
	if (lsm_workers->noverflown < LSM_MAX_OVERFLOWN)
		lsm_workers->overflown[lsm_workers->noverflown++] = dbid;
	else
		lsm_workers->noverflown = -1;
}

/* What an entry is worth, the least first. */
typedef enum LsmRequestWorth
{
	LSM_WORTH_NOTHING,
	LSM_WORTH_ERROR,			/* it only has the last error */
	LSM_WORTH_LATER,			/* it is only to be looked at again */
	LSM_WORTH_FAILED,			/* it could not be served, and waits for another attempt */
	LSM_WORTH_NO_TURN,			/* it waits for a turn */
	LSM_WORTH_ASKED,			/* it is asked for, but for no flush: stays but for one */
	LSM_WORTH_ALL				/* it must stay */
} LsmRequestWorth;

static LsmRequestWorth
lsm_request_worth(const LsmRequest *request, TimestampTz now)
{
	const LsmWorkerStatus *status = &request->status;

	if (request->served)
		return LSM_WORTH_ALL;
	if (status->waiting && (status->failures > 0 || request->gave_way > 0) && status->due > now)
		return LSM_WORTH_FAILED;
	if (request->asked && request->flush)
		return LSM_WORTH_ALL;
	if (request->turn_since != 0)
		return LSM_WORTH_NO_TURN;
	if (request->asked)
		return LSM_WORTH_ASKED;
	if (status->waiting)
		return LSM_WORTH_LATER;
	return status->error_at != 0 ? LSM_WORTH_ERROR : LSM_WORTH_NOTHING;
}

/* Of two that are worth the same, is it this one that can be missed sooner? */
static bool
lsm_request_before(const LsmRequest *request, const LsmRequest *other, LsmRequestWorth worth)
{
	if (worth == LSM_WORTH_FAILED)
		return request->status.due > other->status.due;
	if (worth == LSM_WORTH_NO_TURN)
		return request->turn_since > other->turn_since;
	return false;
}

/*
 * Throw out an entry: one that nobody waits for, without an error if there is such, else one
 * that is only to be looked at again, else the one that waits longest after it could not be
 * served: tables that fail, or are locked, must not keep others waiting, however many they are.
 * Nor must those that wait for a turn, of which the last goes: flushes need none.  For a flush that
 * is asked for, anything else that is asked for goes in the end.
 */
static bool
lsm_request_evict(bool for_flush)
{
	TimestampTz now = GetCurrentTimestamp();
	HASH_SEQ_STATUS scan;
	LsmRequest *request;
	LsmRequest *victim = NULL;
	LsmRequestWorth worth = for_flush ? LSM_WORTH_ALL : LSM_WORTH_ASKED;

	hash_seq_init(&scan, lsm_requests);
	while ((request = hash_seq_search(&scan)) != NULL)
	{
		LsmRequestWorth its = lsm_request_worth(request, now);

		if (its < worth ||
			(victim != NULL && its == worth && lsm_request_before(request, victim, its)))
		{
			worth = its;
			victim = request;
		}
	}
	if (victim == NULL)
		return false;
	if (worth == LSM_WORTH_NO_TURN || worth == LSM_WORTH_ASKED || victim->gave_way > 0)
		lsm_request_lost(victim->key.dbid);
	hash_search(lsm_requests, &victim->key, HASH_REMOVE, NULL);
	return true;
}

/* The entry of a table; NULL if there is none, or no room to make it. */
static LsmRequest *
lsm_request_get_for(Oid dbid, Oid relid, bool make, bool for_flush)
{
	LsmRequestKey key = {dbid, relid};
	LsmRequest *request = hash_search(lsm_requests, &key, HASH_FIND, NULL);

	if (request != NULL || !make)
		return request;
	if (hash_get_num_entries(lsm_requests) >= LSM_MAX_REQUESTS && !lsm_request_evict(for_flush))
		return NULL;
	request = hash_search(lsm_requests, &key, HASH_ENTER_NULL, NULL);
	if (request != NULL)
		memset((char *) request + sizeof(LsmRequestKey), 0,
			   sizeof(LsmRequest) - sizeof(LsmRequestKey));
	return request;
}

static LsmRequest *
lsm_request_get(Oid dbid, Oid relid, bool make)
{
	return lsm_request_get_for(dbid, relid, make, false);
}

static void
lsm_request_set(LsmRequest *request, bool asked, int64 ms)
{
	request->asked = asked;
	request->no_turn = false;
	request->status.waiting = true;
	request->status.due = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);
}

static void
lsm_launcher_wake(void)
{
	if (lsm_workers->launcher != NULL)
		SetLatch(lsm_workers->launcher);
}

/* ---- asking ---- */

/* Does a kind of job rest, so that there is no use in asking for it?  0: what is to be done is open. */
static bool
lsm_request_rests(const LsmRequest *request, uint32 kinds)
{
	return request->resting == LSM_ALL_KINDS ||
		(kinds != 0 && (request->resting & kinds) == kinds &&
		 request->rest_until > GetCurrentTimestamp());
}

/* kinds: what is asked for, as bits; 0: what the worker finds. */
static void
lsm_request_ask(Oid dbid, Oid relid, uint32 kinds, int seconds)
{
	bool		flush = (kinds & (1 << LSM_JOB_FLUSH)) != 0;
	LsmRequest *request;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	request = lsm_request_get_for(dbid, relid, true, flush);
	if (request == NULL)
	{
		lsm_request_lost(dbid);
		lsm_requests_refused++;
	}
	else
	{
		if (!request->status.waiting ||
			(!lsm_request_rests(request, kinds) && request->gave_way == 0 &&
			 request->status.due > TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
															   (int64) seconds * 1000)))
		{
			request->again_s = 0;
			lsm_request_set(request, seconds == 0, (int64) seconds * 1000);
			lsm_launcher_wake();
		}
		request->flush = request->flush || flush;
	}
	LWLockRelease(&lsm_workers->lock);
}

void
lsm_worker_request_later(Relation rel, int seconds)
{
	if (lsm_workers == NULL || lsm_compaction_workers == 0 || IsBinaryUpgrade ||
		RelationUsesLocalBuffers(rel))
		return;
	lsm_request_ask(MyDatabaseId, RelationGetRelid(rel), 0, seconds);
}

void
lsm_worker_request_flush(Oid dbid, Oid relid)
{
	if (lsm_workers != NULL && lsm_compaction_workers > 0 && !IsBinaryUpgrade)
		lsm_request_ask(dbid, relid, 1 << LSM_JOB_FLUSH, 0);
}

void
lsm_request_stores(void)
{
	lsm_request_ask(MyDatabaseId, LSM_REQUEST_STORES, 0, 0);
}

void
lsm_worker_request(Relation rel)
{
	lsm_worker_request_later(rel, 0);
}

bool
lsm_worker_status(Oid dbid, Oid relid, LsmWorkerStatus *status)
{
	LsmRequest *request;

	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	request = lsm_request_get(dbid, relid, false);
	if (request != NULL)
		*status = request->status;
	LWLockRelease(&lsm_workers->lock);
	return request != NULL;
}

TimestampTz
lsm_worker_take_time(int rate, int64 us)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	if (lsm_workers->taken_rate != rate)
		lsm_workers->taken_until = 0;
	lsm_workers->taken_rate = rate;
	lsm_workers->taken_until = until = Max(lsm_workers->taken_until, now) + us;
	LWLockRelease(&lsm_workers->lock);
	return until;
}

/* ---- serving ---- */

/* Which of the requests that are due. */
typedef enum LsmRequestOrder
{
	LSM_FIRST_DUE,				/* the one that has been for longest */
	LSM_FIRST_FLUSH,			/* that, of those that ask for a flush */
	LSM_FIRST_TURN				/* of those that want a turn the one that has wanted it
								 * longest, however often others have come before it */
} LsmRequestOrder;

/* A request of a database that is due; NULL: there is none.  The lock is held. */
static LsmRequest *
lsm_request_first(Oid dbid, TimestampTz now, LsmRequestOrder order)
{
	HASH_SEQ_STATUS scan;
	LsmRequest *request;
	LsmRequest *first = NULL;

	hash_seq_init(&scan, lsm_requests);
	while ((request = hash_seq_search(&scan)) != NULL)
	{
		if (request->key.dbid != dbid || !request->status.waiting || request->status.due > now ||
			(order == LSM_FIRST_TURN && request->turn_since == 0) ||
			(order == LSM_FIRST_FLUSH && !request->flush))
			continue;
		if (first == NULL ||
			(order == LSM_FIRST_TURN ? request->turn_since < first->turn_since :
			 request->status.due < first->status.due))
			first = request;
	}
	return first;
}

/* The one to be served next; NULL: there is none.  The lock is held exclusively. */
static LsmRequest *
lsm_request_next(Oid dbid, TimestampTz now)
{
	LsmRequest *first = lsm_request_first(dbid, now, LSM_FIRST_DUE);
	LsmRequest *flush = lsm_request_first(dbid, now, LSM_FIRST_FLUSH);
	bool		aged;

	if (first == NULL)
		return NULL;
	aged = TimestampDifferenceExceeds(first->status.due, now, LSM_FLUSH_FIRST_S * 1000);
	if (flush != NULL && !(aged && first->passed))
	{
		first->passed = aged;
		return flush;
	}
	first->passed = false;
	return first->turn_since != 0 ? lsm_request_first(dbid, now, LSM_FIRST_TURN) : first;
}

/* A table of the database that is due; InvalidOid: none. */
Oid
lsm_request_take(Oid dbid, uint32 *resting)
{
	TimestampTz now = GetCurrentTimestamp();
	LsmRequest *first;
	Oid			relid = InvalidOid;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	first = lsm_request_next(dbid, now);
	if (first != NULL)
	{
		first->asked = first->flush = first->passed = first->no_turn = first->status.waiting = false;
		first->served = true;
		if (first->rest_until <= now)
			first->resting = 0;
		*resting = first->resting;
		relid = first->key.relid;
	}
	LWLockRelease(&lsm_workers->lock);
	return relid;
}

/* Does a table of the database wait for a flush that was asked for? */
bool
lsm_request_flush_waits(Oid dbid)
{
	bool		waits;

	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	waits = lsm_request_first(dbid, GetCurrentTimestamp(), LSM_FIRST_FLUSH) != NULL;
	LWLockRelease(&lsm_workers->lock);
	return waits;
}

/* The worker has to leave before it has served a request. */
void
lsm_request_put_back(Oid dbid, Oid relid)
{
	LsmRequest *request;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	request = lsm_request_get(dbid, relid, true);
	if (request == NULL)
		lsm_request_lost(dbid);
	else
	{
		request->served = false;
		if (!request->status.waiting)
		{
			lsm_request_set(request, true, 1000);
			lsm_launcher_wake();
		}
	}
	LWLockRelease(&lsm_workers->lock);
}

/* How many more workers may do what takes long?  The lock is held. */
static int
lsm_slots_turns(void)
{
	int			turns = Max(lsm_compaction_workers - 1, 1);

	for (int i = 0; i < LSM_MAX_WORKERS; i++)
		if (lsm_workers->slots[i].state == LSM_SLOT_RUNNING && lsm_workers->slots[i].turn)
			turns--;
	return turns;
}

/*
 * As many of those that wait for a turn as there are turns may try, the ones that have waited
 * longest.  True: some are of other databases than that one.  The lock is held exclusively.
 */
static bool
lsm_request_tell_turns(Oid dbid)
{
	bool		others = false;

	for (int turns = lsm_slots_turns(); turns > 0; turns--)
	{
		HASH_SEQ_STATUS scan;
		LsmRequest *request;
		LsmRequest *first = NULL;

		hash_seq_init(&scan, lsm_requests);
		while ((request = hash_seq_search(&scan)) != NULL)
			if (request->no_turn && (first == NULL || request->turn_since < first->turn_since))
				first = request;
		if (first == NULL)
			break;
		lsm_request_set(first, true, 0);
		others |= first->key.dbid != dbid;
		lsm_launcher_wake();
	}
	return others;
}

/* Would lsm_slot_take_turn() succeed? */
bool
lsm_slots_turn_left(void)
{
	bool		left;

	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	left = lsm_slots_turns() > 0;
	LWLockRelease(&lsm_workers->lock);
	return left;
}

/* Such jobs have failed.  The lock is held exclusively. */
static void
lsm_request_let_rest(LsmRequest *request, uint32 kinds, const ErrorData *error)
{
	LsmWorkerStatus *status = &request->status;

	status->errors++;
	status->failures++;
	status->error_at = GetCurrentTimestamp();
	status->error_code = error->sqlerrcode;
	strlcpy(status->error, error->message, LSM_ERROR_LENGTH);
	request->resting |= kinds;
	request->rest_until = TimestampTzPlusMilliseconds(status->error_at,
													  lsm_backoff_ms(status->failures,
																	 LSM_FAILURE_MAX_S));
}

/* The same, for workers, before the end of an attempt in which others went on. */
void
lsm_request_failed(Oid dbid, Oid relid, uint32 kinds, const ErrorData *error)
{
	LsmRequest *request;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	request = lsm_request_get(dbid, relid, true);
	if (request == NULL)
		lsm_request_lost(dbid);
	else
		lsm_request_let_rest(request, kinds, error);
	LWLockRelease(&lsm_workers->lock);
}

/*
 * What has failed, and rests, works again: somebody else has done it.  If that was all, there is an
 * attempt at once.
 */
void
lsm_request_recovered(Oid dbid, Oid relid, uint32 kinds)
{
	LsmRequest *request;

	if (lsm_workers == NULL)
		return;
	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	request = lsm_request_get(dbid, relid, false);
	if (request != NULL && request->resting != LSM_ALL_KINDS && (request->resting & kinds) != 0)
	{
		request->resting &= ~kinds;
		if (request->resting == 0)
		{
			request->status.failures = 0;
			if (!request->served)
			{
				lsm_request_set(request, true, 0);
				lsm_launcher_wake();
			}
		}
	}
	LWLockRelease(&lsm_workers->lock);
}

/* Note how an attempt ended, and when there will be another. */
void
lsm_request_end(Oid dbid, Oid relid, LsmAttempt outcome, const ErrorData *error)
{
	LsmRequestKey key = {dbid, relid};
	LsmRequest *request;
	LsmWorkerStatus *status;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	if (outcome == LSM_ATTEMPT_GONE)
	{
		hash_search(lsm_requests, &key, HASH_REMOVE, NULL);
		(void) lsm_request_tell_turns(InvalidOid);
		LWLockRelease(&lsm_workers->lock);
		return;
	}
	request = lsm_request_get(dbid, relid, outcome != LSM_ATTEMPT_DONE);
	if (request == NULL)
	{
		if (outcome != LSM_ATTEMPT_DONE)
			lsm_request_lost(dbid);
		LWLockRelease(&lsm_workers->lock);
		return;
	}
	request->served = false;
	status = &request->status;
	request->gave_way = outcome == LSM_ATTEMPT_GAVE_WAY ? request->gave_way + 1 : 0;
	if (outcome != LSM_ATTEMPT_NO_TURN && outcome != LSM_ATTEMPT_PASSED && outcome != LSM_ATTEMPT_MORE &&
		request->turn_since != 0)
	{
		/* it was told of a turn, and has none any more */
		request->turn_since = 0;
		(void) lsm_request_tell_turns(InvalidOid);
	}
	switch (outcome)
	{
		case LSM_ATTEMPT_FAILED:
			lsm_request_let_rest(request, LSM_ALL_KINDS, error);
			status->waiting = false;
			break;
		case LSM_ATTEMPT_GAVE_WAY:
			status->given_up++;
			lsm_request_set(request, true, lsm_backoff_ms(request->gave_way, LSM_GAVE_WAY_MAX_S));
			break;
		case LSM_ATTEMPT_MORE:
			lsm_request_set(request, true, 0);
			break;
		case LSM_ATTEMPT_PASSED:
			lsm_request_set(request, true, LSM_PASSED_MS);
			break;
		case LSM_ATTEMPT_NO_TURN:
			if (status->waiting)
				break;

			/* whoever was in the way may have ended meanwhile */
			lsm_request_set(request, true, 0);
			if (request->turn_since == 0)
				request->turn_since = status->due;
			if (lsm_slots_turns() <= 0)
			{
				request->no_turn = true;
				status->due = TimestampTzPlusMilliseconds(status->due, LSM_TURN_WAIT_MS);
			}
			break;
		case LSM_ATTEMPT_LATER:
			/* asked again meanwhile: that is sooner */
			if (status->waiting)
				break;
			request->again_s = Min(Max(request->again_s * 2, LSM_LOOK_AGAIN_S),
								   Max(lsm_compaction_naptime, LSM_LOOK_AGAIN_S));
			lsm_request_set(request, false, (int64) request->again_s * 1000);
			break;
		default:
			request->again_s = 0;
			break;
	}

	/* what has failed is tried again then, if nothing is to be done before */
	if (request->resting == 0)
		status->failures = 0;
	else if (!status->waiting || status->due > request->rest_until)
	{
		request->asked = status->waiting = true;
		status->due = request->rest_until;
	}
	LWLockRelease(&lsm_workers->lock);
}

/* ---- for the launcher ---- */

/* All that is waited for, by database; in the current memory context. */
HTAB *
lsm_request_demands(TimestampTz now)
{
	HASHCTL		ctl;
	HTAB	   *demands;
	HASH_SEQ_STATUS scan;
	LsmRequest *request;

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(LsmDemand);
	ctl.hcxt = CurrentMemoryContext;
	demands = hash_create("lsm demands", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	hash_seq_init(&scan, lsm_requests);
	while ((request = hash_seq_search(&scan)) != NULL)
	{
		LsmDemand  *demand;
		bool		found;

		if (!request->status.waiting)
			continue;
		demand = hash_search(demands, &request->key.dbid, HASH_ENTER, &found);
		if (!found)
		{
			demand->due = 0;
			demand->first = request->status.due;
			demand->next = 0;
		}
		if (request->status.due <= now)
			demand->due++;
		else if (demand->next == 0 || request->status.due < demand->next)
			demand->next = request->status.due;
		demand->first = Min(demand->first, request->status.due);
	}
	LWLockRelease(&lsm_workers->lock);
	return demands;
}

/* Of which databases have requests been dropped since the last call?  -1: of more than these. */
int
lsm_request_take_overflown(Oid *dbids)
{
	int			n;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	n = lsm_workers->noverflown;
	memcpy(dbids, lsm_workers->overflown, Max(n, 0) * sizeof(Oid));
	lsm_workers->noverflown = 0;
	LWLockRelease(&lsm_workers->lock);
	return n;
}

/* Is at least half of the places for requests free of such as wait? */
bool
lsm_request_is_room(void)
{
	HASH_SEQ_STATUS scan;
	LsmRequest *request;
	int			waiting = 0;

	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	hash_seq_init(&scan, lsm_requests);
	while ((request = hash_seq_search(&scan)) != NULL)
		waiting += request->status.waiting;
	LWLockRelease(&lsm_workers->lock);
	return waiting < LSM_MAX_REQUESTS / 2;
}

/* Forget what belongs to databases that have gone. */
void
lsm_request_drop_databases(bool (*exists) (Oid dbid))
{
	HASH_SEQ_STATUS scan;
	LsmRequest *request;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, lsm_requests);
	while ((request = hash_seq_search(&scan)) != NULL)
		if (!exists(request->key.dbid))
			hash_search(lsm_requests, &request->key, HASH_REMOVE, NULL);
	LWLockRelease(&lsm_workers->lock);
}

/* ---- workers ---- */

/* The server has, or has not, had a process for a worker. */
void
lsm_workers_set_no_process(bool no_process)
{
	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	lsm_workers->no_process = no_process;
	LWLockRelease(&lsm_workers->lock);
}

bool
lsm_workers_may_come(void)
{
	bool		may;

	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	may = lsm_workers->launcher != NULL && !lsm_workers->no_process;
	for (int i = 0; i < LSM_MAX_WORKERS && !may; i++)
		may = lsm_workers->slots[i].state == LSM_SLOT_RUNNING;
	LWLockRelease(&lsm_workers->lock);
	return may;
}

/* The launcher's latch, or NULL when it goes. */
void
lsm_launcher_attach(struct Latch *latch)
{
	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	lsm_workers->launcher = latch;
	LWLockRelease(&lsm_workers->lock);
}

void
lsm_slots_read(LsmWorkerSlot *slots)
{
	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	memcpy(slots, lsm_workers->slots, sizeof(lsm_workers->slots));
	LWLockRelease(&lsm_workers->lock);
}

void
lsm_slot_start(int n, Oid dbid, bool visit)
{
	LsmWorkerSlot *slot = &lsm_workers->slots[n];

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	memset(slot, 0, sizeof(*slot));
	slot->state = LSM_SLOT_STARTING;
	slot->dbid = dbid;
	slot->visit = visit;
	slot->since = GetCurrentTimestamp();
	LWLockRelease(&lsm_workers->lock);
}

/* The worker has looked at all tables of its database: it may be another one's turn. */
void
lsm_slot_visited(int n)
{
	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	lsm_workers->slots[n].visit = false;
	lsm_launcher_wake();
	LWLockRelease(&lsm_workers->lock);
}

void
lsm_slot_free(int n)
{
	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	lsm_workers->slots[n].state = LSM_SLOT_FREE;
	LWLockRelease(&lsm_workers->lock);
}

/* A worker has come up; false if the launcher has given it up. */
bool
lsm_slot_attach(int n, LsmWorkerSlot *slot)
{
	bool		mine;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	mine = lsm_workers->slots[n].state == LSM_SLOT_STARTING;
	if (mine)
		lsm_workers->slots[n].state = LSM_SLOT_RUNNING;
	*slot = lsm_workers->slots[n];
	LWLockRelease(&lsm_workers->lock);
	return mine;
}

/* The settings have changed: there may be more turns. */
void
lsm_request_settings_changed(void)
{
	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	(void) lsm_request_tell_turns(InvalidOid);
	LWLockRelease(&lsm_workers->lock);
}

/* A worker gives its turn back, if it has one.  The lock is held exclusively. */
static bool
lsm_slot_pass_turn(LsmWorkerSlot *slot)
{
	if (!slot->turn)
		return false;
	slot->turn = false;
	return lsm_request_tell_turns(slot->dbid);
}

void
lsm_slot_end(int n, bool complete)
{
	LsmWorkerSlot *slot = &lsm_workers->slots[n];

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	slot->state = LSM_SLOT_ENDED;
	slot->complete = complete;
	(void) lsm_slot_pass_turn(slot);
	lsm_launcher_wake();
	LWLockRelease(&lsm_workers->lock);
}

/*
 * May this worker do to a table what takes long: a compaction of much, or something with a
 * store, which may not answer?  Where there are several, one is kept free of these, so that
 * flushes never wait for them.
 */
bool
lsm_slot_take_turn(int n, Oid dbid, Oid relid)
{
	bool		may;
	LsmRequest *request;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	may = lsm_slots_turns() > 0;
	lsm_workers->slots[n].turn = may;
	request = may ? lsm_request_get(dbid, relid, false) : NULL;
	if (request != NULL)
		request->turn_since = 0;

	/* what else its database has asked for needs another worker */
	if (may)
		lsm_launcher_wake();
	LWLockRelease(&lsm_workers->lock);
	return may;
}

/* Give it back, if there is one.  True: other databases have waited for it. */
bool
lsm_slot_give_turn(int n)
{
	bool		wanted;

	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	wanted = lsm_slot_pass_turn(&lsm_workers->slots[n]);
	LWLockRelease(&lsm_workers->lock);
	return wanted;
}

/* Does a database wait for a worker, while all are at work in others? */
void
lsm_slots_set_crowded(bool crowded)
{
	LWLockAcquire(&lsm_workers->lock, LW_EXCLUSIVE);
	lsm_workers->crowded = crowded;
	LWLockRelease(&lsm_workers->lock);
}

bool
lsm_slots_crowded(void)
{
	bool		crowded;

	LWLockAcquire(&lsm_workers->lock, LW_SHARED);
	crowded = lsm_workers->crowded;
	LWLockRelease(&lsm_workers->lock);
	return crowded;
}
