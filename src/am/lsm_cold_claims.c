/*-------------------------------------------------------------------------
 *
 * lsm_cold_claims.c
 *	  Claims: who else needs the objects that a data directory has put.
 *
 * A promoted standby, a restored backup or a copy of a database reads what the original
 * has put, and the original does not know of it.  So each database whose manifests name
 * objects under another token than its own leaves a claim in the store: a small object
 * that says who needs what was put under which token.  Its key says all of it,
 *
 *	  claims/<system>/<token>/<database>/<system>-<token>-<database>
 *
 * whose objects, and who needs them; there the token is that of the data directory, which
 * copying the database does not change.
 *
 * A copy needs nothing that was put after it had become one.  So a claim keeps the
 * objects that are older than itself, by the store's clock, with an hour to spare for
 * stores that have several.  Sweeps (lsm_cold_orphans.c) put the claims that are missing,
 * delete nothing that one covers, and give up those that are not needed any more by
 * the same queue by which objects go: when all standbys have come so far.  Claims of those
 * who are no more are removed by hand.
 *
 * Between promotion and claim nothing keeps objects but lsm.store_delete_delay, for which
 * the original leaves what it does not need.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lsm_cold_claims.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(lsm_store_claims_sql);
PG_FUNCTION_INFO_V1(lsm_store_remove_claim_sql);

#define LSM_CLAIMS_PREFIX		"claims/"

/* Clocks of a store may differ by so much. */
#define LSM_CLAIMS_SPARE		3600

/* Whose objects, or who needs them. */
typedef struct LsmClaimSide
{
	uint64		system;
	uint64		token;
	Oid			database;
} LsmClaimSide;

typedef struct LsmClaim
{
	char		key[LSM_COLD_KEY_BYTES];	/* hash key */
	LsmClaimSide of;
	LsmClaimSide by;
	int64		since;			/* seconds since 1970, 0: not known */
	bool		listed;
	bool		needed;			/* by this database */
} LsmClaim;

HTAB *
lsm_claims_create(void)
{
	HASHCTL		ctl;

	ctl.keysize = LSM_COLD_KEY_BYTES;
	ctl.entrysize = sizeof(LsmClaim);
	ctl.hcxt = CurrentMemoryContext;
	return hash_create("lsm claims", 32, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

static void
lsm_claim_key(const LsmClaimSide *of, const LsmClaimSide *by, char *key)
{
	snprintf(key, LSM_COLD_KEY_BYTES,
			 LSM_CLAIMS_PREFIX UINT64_FORMAT "/%016llx/%u/" UINT64_FORMAT "-%016llx-%u",
			 of->system, (unsigned long long) of->token, of->database,
			 by->system, (unsigned long long) by->token, by->database);
}

/* False: it is no key of a claim. */
static bool
lsm_claim_parse(const char *key, LsmClaimSide *of, LsmClaimSide *by)
{
	unsigned long long numbers[4];
	char		same[LSM_COLD_KEY_BYTES];

	if (strlen(key) >= LSM_COLD_KEY_BYTES ||
		sscanf(key, LSM_CLAIMS_PREFIX "%llu/%16llx/%u/%llu-%16llx-%u", &numbers[0],
			   &numbers[1], &of->database, &numbers[2], &numbers[3], &by->database) != 6)
		return false;
	of->system = numbers[0];
	of->token = numbers[1];
	by->system = numbers[2];
	by->token = numbers[3];
	lsm_claim_key(of, by, same);
	return strcmp(key, same) == 0;
}

static LsmClaim *
lsm_claims_enter(HTAB *claims, const char *key, const LsmClaimSide *of, const LsmClaimSide *by)
{
	bool		found;
	LsmClaim   *claim = hash_search(claims, key, HASH_ENTER, &found);

	if (!found)
	{
		claim->of = *of;
		claim->by = *by;
		claim->since = 0;
		claim->listed = false;
		claim->needed = false;
	}
	return claim;
}

static void
lsm_claims_self(LsmClaimSide *self)
{
	self->system = GetSystemIdentifier();
	self->token = lsm_cold_directory();
	self->database = MyDatabaseId;
}

static bool
lsm_claim_is_of_directory(const LsmClaim *claim)
{
	return claim->by.system == GetSystemIdentifier() && claim->by.token == lsm_cold_directory();
}

void
lsm_claims_need(HTAB *claims, const LsmColdObject *object)
{
	LsmClaimSide of = {object->system, object->owner, object->database};
	LsmClaimSide self;
	char		key[LSM_COLD_KEY_BYTES] = "";

	if (of.system == GetSystemIdentifier() && of.token == lsm_cold_owner() &&
		of.database == MyDatabaseId)
		return;
	lsm_claims_self(&self);
	lsm_claim_key(&of, &self, key);
	lsm_claims_enter(claims, key, &of, &self)->needed = true;
}

void
lsm_claims_list(HTAB *claims, LsmStore *store)
{
	LsmStoreList *list = lsm_store_list_begin(store, LSM_CLAIMS_PREFIX);
	LsmStoreListed listed;

	while (lsm_store_list_next(list, &listed))
	{
		char		key[LSM_COLD_KEY_BYTES] = "";
		LsmClaimSide of;
		LsmClaimSide by;
		LsmClaim   *claim;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_claim_parse(listed.key, &of, &by))
			continue;
		strlcpy(key, listed.key, sizeof(key));
		claim = lsm_claims_enter(claims, key, &of, &by);
		claim->listed = true;
		claim->since = listed.modified;
	}
	lsm_store_list_end(list);
	lsm_store_clean(store, LSM_CLAIMS_PREFIX);
}

/* What it says is for whoever looks at the store with other tools. */
static void
lsm_claim_put(LsmStore *store, const LsmClaim *claim)
{
	char	   *text = psprintf("Objects under \"" UINT64_FORMAT "/%016llx/%u/\" that are older than this one\n"
								"are needed by database %u of the data directory with token %016llx.\n",
								claim->of.system, (unsigned long long) claim->of.token,
								claim->of.database, claim->by.database,
								(unsigned long long) claim->by.token);
	LsmObjectInfo info;

	lsm_store_put_bytes(store, claim->key, text, strlen(text), &info);
	pfree(text);
}

int64
lsm_claims_put(HTAB *claims, LsmStore *store)
{
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;
	int64		n = 0;

	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
	{
		if (!claim->needed)
			continue;
		if (!claim->listed)
			lsm_claim_put(store, claim);
		claim->listed = true;
		n++;
	}
	return n;
}

List *
lsm_claims_done(HTAB *claims)
{
	List	   *keys = NIL;
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;

	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
		if (claim->listed && !claim->needed && lsm_claim_is_of_directory(claim) &&
			(claim->by.database == MyDatabaseId ||
			 get_database_name(claim->by.database) == NULL))
			keys = lappend(keys, pstrdup(claim->key));
	return keys;
}

bool
lsm_claims_cover(HTAB *claims, uint64 owner, Oid database, int64 modified)
{
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;

	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
		if (claim->of.system == GetSystemIdentifier() && claim->of.token == owner &&
			claim->of.database == database &&
			(modified == 0 || claim->since == 0 || modified <= claim->since + LSM_CLAIMS_SPARE))
		{
			hash_seq_term(&scan);
			return true;
		}
	return false;
}

/* ---- functions ---- */

static LsmStore *
lsm_claims_open(const char *name, const char *function)
{
	ForeignServer *server = GetForeignServerByName(name, false);

	PreventCommandDuringRecovery(function);
	if (!has_privs_of_role(GetUserId(), server->owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	return lsm_store_open(server->serverid, GetUserId());
}

/*
 * lsm_store_claims(server): the claims that there are in a store.
 */
Datum
lsm_store_claims_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsmStore   *store = lsm_claims_open(NameStr(*PG_GETARG_NAME(0)), "lsm_store_claims()");
	HTAB	   *claims = lsm_claims_create();
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;

	lsm_claims_list(claims, store);
	InitMaterializedSRF(fcinfo, 0);
	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
	{
		Datum		values[5];
		bool		nulls[5] = {false};

		values[0] = CStringGetTextDatum(claim->key);
		values[1] = CStringGetTextDatum(psprintf(UINT64_FORMAT "/%016llx/%u/", claim->of.system,
												 (unsigned long long) claim->of.token,
												 claim->of.database));
		nulls[2] = claim->since == 0;
		values[2] = TimestampTzGetDatum(time_t_to_timestamptz((pg_time_t) claim->since));
		values[3] = BoolGetDatum(claim->of.system == GetSystemIdentifier() &&
								 claim->of.token == lsm_cold_owner_of(claim->of.database));
		values[4] = BoolGetDatum(lsm_claim_is_of_directory(claim));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	hash_destroy(claims);
	return (Datum) 0;
}

/*
 * lsm_store_remove_claim(server, claim_key): remove the claim of one who is no more.
 */
Datum
lsm_store_remove_claim_sql(PG_FUNCTION_ARGS)
{
	char	   *key = text_to_cstring(PG_GETARG_TEXT_PP(1));
	const char *keys[1] = {key};
	LsmStore   *store = lsm_claims_open(NameStr(*PG_GETARG_NAME(0)), "lsm_store_remove_claim()");
	LsmClaimSide of;
	LsmClaimSide by;
	LsmObjectInfo info;

	PreventCommandIfReadOnly("lsm_store_remove_claim()");
	if (!lsm_claim_parse(key, &of, &by) || !lsm_store_head(store, key, &info))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("store \"%s\" has no claim \"%s\"", lsm_store_name(store), key),
				 errhint("lsm_store_claims() lists the claims that there are.")));
	lsm_store_delete(store, keys, 1);
	PG_RETURN_VOID();
}
