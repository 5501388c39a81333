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
 * ADOPTIONS
 *	  Where the original is no more (the primary from before a failover, a data directory
 *	  from before pg_upgrade), nobody would ever delete what it has put.  Someone has to say
 *	  so: lsm_store_adopt() leaves an object like a claim,
 *
 *	  claims/<system>/<token>/<database>/<system>-<token>-<database>-owner
 *
 *	  and from then on sweeps of the adopter delete what lies under that token, is older than
 *	  this, and is needed by nobody: claims of others count as before.  Of several adoptions
 *	  the newest counts.  An original that lives on all the same finds it when it sweeps,
 *	  goes on under another token, and claims what it needs like any other copy
 *	  (lsm_claims_lost); so it loses nothing if it sweeps within the delay.
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
	bool		adopts;			/* says who owns the objects, not who needs them */
	bool		listed;
	bool		needed;			/* by this database, from this store */
	bool		kept;			/* as another server may name the same store */
} LsmClaim;

#define LSM_CLAIMS_ADOPTS		"-owner"

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
lsm_claim_key(const LsmClaimSide *of, const LsmClaimSide *by, bool adopts, char *key)
{
	snprintf(key, LSM_COLD_KEY_BYTES,
			 LSM_CLAIMS_PREFIX UINT64_FORMAT "/%016llx/%u/" UINT64_FORMAT "-%016llx-%u%s",
			 of->system, (unsigned long long) of->token, of->database,
			 by->system, (unsigned long long) by->token, by->database,
			 adopts ? LSM_CLAIMS_ADOPTS : "");
}

/* What the keys of somebody's objects begin with; palloc'd. */
static char *
lsm_claim_prefix(const LsmClaimSide *of)
{
	return psprintf(UINT64_FORMAT "/%016llx/%u/", of->system, (unsigned long long) of->token,
					of->database);
}

/* False: it is no such prefix. */
static bool
lsm_claim_parse_prefix(const char *prefix, LsmClaimSide *of)
{
	unsigned long long numbers[2];

	if (sscanf(prefix, "%llu/%16llx/%u/", &numbers[0], &numbers[1], &of->database) != 3)
		return false;
	of->system = numbers[0];
	of->token = numbers[1];
	return strcmp(prefix, lsm_claim_prefix(of)) == 0;
}

/* False: it is no key of a claim. */
static bool
lsm_claim_parse(const char *key, LsmClaimSide *of, LsmClaimSide *by, bool *adopts)
{
	unsigned long long numbers[4];
	char		same[LSM_COLD_KEY_BYTES];
	Size		len = strlen(key);
	Size		suffix = strlen(LSM_CLAIMS_ADOPTS);

	*adopts = len > suffix && strcmp(key + len - suffix, LSM_CLAIMS_ADOPTS) == 0;
	if (len >= LSM_COLD_KEY_BYTES ||
		sscanf(key, LSM_CLAIMS_PREFIX "%llu/%16llx/%u/%llu-%16llx-%u", &numbers[0],
			   &numbers[1], &of->database, &numbers[2], &numbers[3], &by->database) != 6)
		return false;
	of->system = numbers[0];
	of->token = numbers[1];
	by->system = numbers[2];
	by->token = numbers[3];
	lsm_claim_key(of, by, *adopts, same);
	return strcmp(key, same) == 0;
}

static LsmClaim *
lsm_claims_enter(HTAB *claims, const LsmClaimSide *of, const LsmClaimSide *by, bool adopts)
{
	char		key[LSM_COLD_KEY_BYTES] = "";
	bool		found;
	LsmClaim   *claim;

	lsm_claim_key(of, by, adopts, key);
	claim = hash_search(claims, key, HASH_ENTER, &found);
	if (!found)
	{
		claim->of = *of;
		claim->by = *by;
		claim->adopts = adopts;
		claim->since = 0;
		claim->listed = false;
		claim->needed = false;
		claim->kept = false;
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
lsm_claim_is_same(const LsmClaimSide *a, const LsmClaimSide *b)
{
	return a->system == b->system && a->token == b->token && a->database == b->database;
}

static bool
lsm_claim_is_of_directory(const LsmClaim *claim)
{
	return claim->by.system == GetSystemIdentifier() && claim->by.token == lsm_cold_directory();
}

/* Is it this database's, or that of one of this data directory that has been dropped? */
static bool
lsm_claim_is_mine(const LsmClaim *claim)
{
	return lsm_claim_is_of_directory(claim) &&
		(claim->by.database == MyDatabaseId || get_database_name(claim->by.database) == NULL);
}

void
lsm_claims_need(HTAB *claims, const LsmColdObject *object, bool here)
{
	LsmClaimSide of = {object->system, object->owner, object->database};
	LsmClaimSide self;
	LsmClaim   *claim;

	if (of.system == GetSystemIdentifier() && of.token == lsm_cold_owner() &&
		of.database == MyDatabaseId)
		return;
	lsm_claims_self(&self);
	claim = lsm_claims_enter(claims, &of, &self, false);
	claim->kept = true;
	if (here)
		claim->needed = true;
}

void
lsm_claims_list(HTAB *claims, LsmStore *store)
{
	LsmStoreList *list = lsm_store_list_begin(store, LSM_CLAIMS_PREFIX);
	LsmStoreListed listed;

	while (lsm_store_list_next(list, &listed))
	{
		LsmClaimSide of;
		LsmClaimSide by;
		bool		adopts;
		LsmClaim   *claim;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_claim_parse(listed.key, &of, &by, &adopts))
			continue;
		claim = lsm_claims_enter(claims, &of, &by, adopts);
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
	char	   *text = psprintf("Objects under \"%s\" that are older than this one\n"
								"are %s by database %u of the data directory with token %016llx.\n",
								lsm_claim_prefix(&claim->of), claim->adopts ? "owned" : "needed",
								claim->by.database, (unsigned long long) claim->by.token);
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
		if (!claim->needed || claim->adopts)
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
		if (claim->listed && !claim->needed && !claim->kept && lsm_claim_is_mine(claim))
			keys = lappend(keys, pstrdup(claim->key));
	return keys;
}

bool
lsm_claims_cover(HTAB *claims, uint64 system, uint64 owner, Oid database, int64 modified)
{
	LsmClaimSide of = {system, owner, database};
	LsmClaimSide self;
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;

	lsm_claims_self(&self);
	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
		if (!claim->adopts && lsm_claim_is_same(&claim->of, &of) &&
			!lsm_claim_is_same(&claim->by, &self) &&
			(modified == 0 || claim->since == 0 || modified <= claim->since + LSM_CLAIMS_SPARE))
		{
			hash_seq_term(&scan);
			return true;
		}
	return false;
}

/* ---- adoptions ---- */

/* The one that counts; NULL: there is none. */
static LsmClaim *
lsm_claims_adoption(HTAB *claims, const LsmClaimSide *of)
{
	LsmClaim   *newest = NULL;
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;

	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
		if (claim->adopts && lsm_claim_is_same(&claim->of, of) &&
			(newest == NULL || claim->since > newest->since ||
			 (claim->since == newest->since && strcmp(claim->key, newest->key) > 0)))
			newest = claim;
	return newest;
}

bool
lsm_claims_adopted(HTAB *claims, uint64 system, uint64 owner, Oid database, int64 modified)
{
	LsmClaimSide of = {system, owner, database};
	LsmClaim   *adoption = lsm_claims_adoption(claims, &of);

	if (adoption == NULL || !lsm_claim_is_mine(adoption))
		return false;
	adoption->needed = true;
	return modified != 0 && modified <= adoption->since;
}

List *
lsm_claims_adopted_prefixes(HTAB *claims)
{
	List	   *prefixes = NIL;
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;

	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
		if (claim->adopts && lsm_claim_is_mine(claim))
			prefixes = lappend(prefixes, lsm_claim_prefix(&claim->of));
	return prefixes;
}

bool
lsm_claims_lost(HTAB *claims)
{
	LsmClaimSide of = {GetSystemIdentifier(), lsm_cold_owner(), MyDatabaseId};
	LsmClaimSide self;
	LsmClaim   *adoption = lsm_claims_adoption(claims, &of);

	lsm_claims_self(&self);
	return adoption != NULL && !lsm_claim_is_same(&adoption->by, &self);
}

void
lsm_claims_check_prefix(const char *prefix)
{
	LsmClaimSide of;

	if (!lsm_claim_parse_prefix(prefix, &of))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is not what keys of objects begin with", prefix),
				 errdetail("It is system identifier, token and database, each with a slash behind it."),
				 errhint("Take it from column \"claimed\" of lsm_store_claims(), or from keys in lsm_store_orphans().")));
	if (of.system == GetSystemIdentifier() && of.token == lsm_cold_owner_of(of.database))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("objects under \"%s\" are those of this data directory already", prefix)));
}

/*
 * Is a claim, or an adoption, void as somebody adopts objects whose owner is no more?  It is if
 * it is that owner's, a database of ours with that number or of none: as ours may be the same
 * one, and need what that one needed, it has to have claimed that itself (lsm_store_adopt()
 * has, for this database).
 */
static bool
lsm_claim_is_void(const LsmClaim *claim, const LsmClaimSide *of)
{
	return claim->by.system == of->system && !lsm_claim_is_of_directory(claim) &&
		(claim->by.database == MyDatabaseId || get_database_name(claim->by.database) == NULL) &&
		lsm_cold_is_owner_of(claim->by.token, of->token);
}

void
lsm_claims_adopt(HTAB *claims, LsmStore *store, const char *prefix)
{
	LsmClaimSide of;
	LsmClaim	mine = {.adopts = true};
	const char *keys[1];
	HASH_SEQ_STATUS scan;
	LsmClaim   *claim;

	(void) lsm_claim_parse_prefix(prefix, &of);
	mine.of = of;
	lsm_claims_self(&mine.by);
	lsm_claim_key(&of, &mine.by, true, mine.key);
	keys[0] = mine.key;
	lsm_store_delete(store, keys, 1);
	lsm_claim_put(store, &mine);

	/* what the old owner has adopted and claimed itself is void, and so are older adoptions */
	hash_seq_init(&scan, claims);
	while ((claim = hash_seq_search(&scan)) != NULL)
	{
		keys[0] = claim->key;
		if (claim->listed && strcmp(claim->key, mine.key) != 0 &&
			(lsm_claim_is_void(claim, &of) ||
			 (claim->adopts && lsm_claim_is_same(&claim->of, &of))))
			lsm_store_delete(store, keys, 1);
	}
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
		Datum		values[6];
		bool		nulls[6] = {false};

		values[0] = CStringGetTextDatum(claim->key);
		values[1] = CStringGetTextDatum(lsm_claim_prefix(&claim->of));
		nulls[2] = claim->since == 0;
		values[2] = TimestampTzGetDatum(time_t_to_timestamptz((pg_time_t) claim->since));
		values[3] = BoolGetDatum(claim->of.system == GetSystemIdentifier() &&
								 claim->of.token == lsm_cold_owner_of(claim->of.database));
		values[4] = BoolGetDatum(lsm_claim_is_of_directory(claim));
		values[5] = BoolGetDatum(claim->adopts);
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
	bool		adopts;
	LsmObjectInfo info;

	PreventCommandIfReadOnly("lsm_store_remove_claim()");
	if (!lsm_claim_parse(key, &of, &by, &adopts) || !lsm_store_head(store, key, &info))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("store \"%s\" has no claim \"%s\"", lsm_store_name(store), key),
				 errhint("lsm_store_claims() lists the claims that there are.")));
	lsm_store_delete(store, keys, 1);
	PG_RETURN_VOID();
}
