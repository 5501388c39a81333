/*-------------------------------------------------------------------------
 *
 * lsm_store_funcs.c
 *	  Settings and SQL functions of stores: the test of a connection, statistics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lsm_cold.h"
#include "lsm_store_cache.h"
#include "lsm_store_http.h"
#include "lsm_try.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

PG_FUNCTION_INFO_V1(lsm_store_check_sql);
PG_FUNCTION_INFO_V1(lsm_stat_store_sql);

#define LSM_STORE_CHECK_BYTES	4096
#define LSM_STORE_CHECK_FIRST	1000	/* of the range that is read back */
#define LSM_STORE_CHECK_LEN		100
#define LSM_STORE_CHECK_GIVE_UP_MS	5000	/* to delete what an error has left */
#define LSM_STORE_CHECK_CANCELLED_MS	100 /* the same of who is to end what he does */

void
lsm_store_init(void)
{
	DefineCustomStringVariable("lsm.store_allowed_endpoints",
							   "Sets the endpoints that stores of type s3 may have.",
							   "A list of HOST, https://HOST:PORT or http://HOST:PORT, where HOST may be *.DOMAIN; without a scheme, it is https.  An empty list allows none.",
							   &lsm_store_allowed_endpoints, "", PGC_SUSET, GUC_LIST_INPUT,
							   (GucStringCheckHook) lsm_store_endpoints_check, NULL, NULL);
	lsm_store_cache_init();
}

/* ---- test of a connection ---- */

typedef struct LsmStoreCheck
{
	LsmStore   *store;
	char		key[LSM_COLD_KEY_BYTES];
	char		bytes[LSM_STORE_CHECK_BYTES];
} LsmStoreCheck;

/* Each step returns a sentence about it, or raises an error. */
typedef char *(*LsmStoreStep) (LsmStoreCheck *check);

static char *
lsm_check_put(LsmStoreCheck *check)
{
	LsmObjectInfo info;

	lsm_store_put_bytes(check->store, check->key, check->bytes, sizeof(check->bytes), &info);
	return psprintf("object \"%s\" of " UINT64_FORMAT " bytes", check->key, info.bytes);
}

static char *
lsm_check_read(LsmStoreCheck *check)
{
	char		range[LSM_STORE_CHECK_LEN];

	lsm_store_read(check->store, check->key, LSM_STORE_CHECK_FIRST, sizeof(range), range);
	if (memcmp(range, check->bytes + LSM_STORE_CHECK_FIRST, sizeof(range)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("store \"%s\" gave other bytes than were put", check->store->name)));
	return psprintf("%d bytes from byte %d on, as they were put", LSM_STORE_CHECK_LEN,
					LSM_STORE_CHECK_FIRST);
}

static char *
lsm_check_list(LsmStoreCheck *check)
{
	LsmStoreList *list = lsm_store_list_begin(check->store, check->key);
	LsmStoreListed listed;
	bool		found = false;

	while (lsm_store_list_next(list, &listed))
		found |= strcmp(listed.key, check->key) == 0 &&
			listed.bytes == LSM_STORE_CHECK_BYTES + LSM_OBJECT_TRAILER_BYTES;
	lsm_store_list_end(list);
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("store \"%s\" does not list an object that was put", check->store->name)));
	return pstrdup("the object is listed");
}

static char *
lsm_check_delete(LsmStoreCheck *check)
{
	const char *key = check->key;
	LsmObjectInfo info;

	lsm_store_delete(check->store, &key, 1);
	if (lsm_store_head(check->store, key, &info))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("store \"%s\" still has an object that was deleted", check->store->name)));
	return pstrdup("the object is gone");
}

static void
lsm_check_put_row(ReturnSetInfo *rsinfo, const char *step, bool ok, const char *detail)
{
	Datum		values[3] = {CStringGetTextDatum(step), BoolGetDatum(ok),
	CStringGetTextDatum(detail)};
	bool		nulls[3] = {false, false, false};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* A step of lsm_store_check(), and what it has told. */
typedef struct LsmStoreCheckStep
{
	LsmStoreCheck *check;
	LsmStoreStep run;
	char	   *detail;
} LsmStoreCheckStep;

static void
lsm_check_run(void *arg)
{
	LsmStoreCheckStep *step = arg;

	step->detail = step->run(step->check);
}

/*
 * Do a step in a subtransaction, which ends what it has under way.  What fails becomes
 * the detail, but cancellation and the like are raised.
 */
static bool
lsm_check_step(LsmStoreCheck *check, LsmStoreStep run, char **detail)
{
	LsmStoreCheckStep step = {check, run, NULL};
	ErrorData  *error = lsm_try(lsm_check_run, &step);

	if (error == NULL)
	{
		*detail = step.detail;
		return true;
	}
	if (error->sqlerrcode == ERRCODE_INTERNAL_ERROR ||
		error->sqlerrcode == ERRCODE_OUT_OF_MEMORY)
		ReThrowError(error);
	*detail = error->detail == NULL ? error->message :
		psprintf("%s: %s", error->message, error->detail);
	return false;
}

/*
 * The object has a key like those of segments, of a table that there is not.  So what a process
 * that ends in the middle leaves is one that nothing needs, and sweeps delete it; not before
 * that, as this is a put to them.
 */
static LsmStoreCheck *
lsm_check_begin(LsmStore *store)
{
	LsmStoreCheck *check = palloc0(sizeof(LsmStoreCheck));
	char		prefix[LSM_COLD_KEY_BYTES];
	uint64		random;

	check->store = store;
	if (!pg_strong_random(&random, sizeof(random)) ||
		!pg_strong_random(check->bytes, sizeof(check->bytes)))
		elog(ERROR, "could not generate random bytes");
	lsm_cold_own_prefix(prefix);
	snprintf(check->key, sizeof(check->key), "%s%016x/%016x-%016llx", prefix, 0, 0,
			 (unsigned long long) random);
	lsm_cold_put_begin();
	return check;
}

static void
lsm_check_end(LsmStoreCheck *check)
{
	lsm_cold_put_end();
	pfree(check);
}

static char *
lsm_check_give_up_step(LsmStoreCheck *check)
{
	const char *key = check->key;

	lsm_store_delete(check->store, &key, 1);
	return NULL;
}

/* Delete an object that a step which failed may have put, if that does not take long. */
static void
lsm_check_give_up(LsmStoreCheck *check, bool cancelled)
{
	LsmStoreOptions *options = &check->store->options;
	int			timeout_ms = options->request_timeout_ms;
	char	   *detail;

	options->request_timeout_ms = Min(timeout_ms, cancelled ? LSM_STORE_CHECK_CANCELLED_MS :
									  LSM_STORE_CHECK_GIVE_UP_MS);
	PG_TRY();
	{
		(void) lsm_check_step(check, lsm_check_give_up_step, &detail);
	}
	PG_FINALLY();
	{
		options->request_timeout_ms = timeout_ms;
	}
	PG_END_TRY();
}

static void
lsm_check_use(void *arg)
{
	(void) lsm_check_put(arg);
	(void) lsm_check_read(arg);
	(void) lsm_check_list(arg);
}

/* Put, read, list and delete a small object; whatever fails or is cancelled, it does not stay. */
void
lsm_store_test(LsmStore *store)
{
	LsmStoreCheck *check = lsm_check_begin(store);
	ErrorData  *error = lsm_try_all(lsm_check_use, check);

	if (error != NULL)
	{
		lsm_check_give_up(check, ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
						  ERRCODE_OPERATOR_INTERVENTION);
		ReThrowError(error);
	}
	(void) lsm_check_delete(check);
	lsm_check_end(check);
}

/*
 * lsm_store_check(name): put a small object, read some of it, list it, delete it.  One
 * row for each step, up to the first that fails; an object that was put is deleted.
 */
Datum
lsm_store_check_sql(PG_FUNCTION_ARGS)
{
	static const struct
	{
		const char *name;
		LsmStoreStep step;
	}			steps[] = {
		{"put", lsm_check_put}, {"read", lsm_check_read}, {"list", lsm_check_list},
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			serverid = get_foreign_server_oid(NameStr(*PG_GETARG_NAME(0)), false);
	LsmStoreCheck *check;
	bool		ok = true;
	char	   *detail;

	PreventCommandDuringRecovery("lsm_store_check()");
	InitMaterializedSRF(fcinfo, 0);
	check = lsm_check_begin(lsm_store_open(serverid, GetUserId()));

	for (int i = 0; i < (int) lengthof(steps) && ok; i++)
	{
		ok = lsm_check_step(check, steps[i].step, &detail);
		lsm_check_put_row(rsinfo, steps[i].name, ok, detail);
	}
	if (ok)
	{
		ok = lsm_check_step(check, lsm_check_delete, &detail);
		lsm_check_put_row(rsinfo, "delete", ok, detail);
	}
	else
		lsm_check_give_up(check, false);
	lsm_check_end(check);
	return (Datum) 0;
}

/* ---- statistics ---- */

/*
 * lsm_stat_store(oid): counters of a server; the last error only for who may use it, or
 * see all statistics.
 */
Datum
lsm_stat_store_sql(PG_FUNCTION_ARGS)
{
	Oid			serverid = PG_GETARG_OID(0);
	TupleDesc	desc;
	LsmStoreStat stat;
	Datum		values[17];
	bool		nulls[17] = {false};
	int			n = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	lsm_store_stat_read(serverid, &stat);
	for (int i = 0; i < LSM_STORE_KINDS; i++)
		values[n++] = Int64GetDatum((int64) stat.requests[i]);
	values[n++] = Int64GetDatum((int64) stat.bytes_read);
	values[n++] = Int64GetDatum((int64) stat.bytes_written);
	values[n++] = Int64GetDatum((int64) stat.retries);
	values[n++] = Float8GetDatum(stat.time_us / 1000.0);
	values[n++] = Int64GetDatum((int64) stat.errors);
	values[n] = (Datum) 0;
	nulls[n] = stat.error_time == 0 ||
		(lsm_compat_server_usage(serverid, GetUserId()) != ACLCHECK_OK &&
		 !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS));
	if (!nulls[n])
		values[n] = CStringGetTextDatum(stat.error_message);
	n++;
	nulls[n] = stat.error_time == 0;
	values[n++] = TimestampTzGetDatum(stat.error_time);
	nulls[n] = stat.reset_time == 0;
	values[n++] = TimestampTzGetDatum(stat.reset_time);
	values[n++] = Int64GetDatum((int64) stat.cache_hits);
	values[n++] = Int64GetDatum((int64) stat.cache_misses);
	values[n++] = Int64GetDatum((int64) stat.cache_bytes);
	Assert(n == desc->natts);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
