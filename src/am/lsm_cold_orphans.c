/*-------------------------------------------------------------------------
 *
 * lsm_cold_orphans.c
 *	  Objects that nothing names any more: finding and deleting them.
 *
 * Nobody notes an object when the last entry that names it goes: not compaction, not
 * DROP TABLE, TRUNCATE or a rewrite, nor whoever rolls these back or dies after a put.
 * The store knows what there is, and the manifests of the database's tables what
 * is needed; the difference is found by comparing them.  A sweep does so for all
 * objects under the token of this data directory and database, which nobody else
 * may put or delete (lsm_cold_owner.c), and then for those under tokens that it has adopted
 * (lsm_cold_claims.c), where nobody puts any more:
 *
 *	1. It lists the objects.
 *	2. It waits for the puts that are under way in the database, but not for those
 *	   that begin meanwhile: each object that is listed and needed is named by now, and
 *	   what is not named never will be.  It reads the manifests of all tables, of
 *	   which no one may be locked by who drops, truncates or rewrites it, or be
 *	   damaged: then the sweep is given up.
 *	3. What no entry names and the queue does not have goes to the queue, a table of
 *	   the extension, with the time and the end of WAL.
 *	4. What the queue has had for lsm.store_delete_delay, and all standbys and slots
 *	   have gone beyond, is deleted, unless somebody else has claimed it
 *	   (lsm_cold_claims.c).  What has no object any more leaves the queue.
 *
 * Manifests tell which claims this database needs, too.  These are put whether or not
 * the sweep can go on.  A sweep that finds that somebody else has adopted its own token
 * deletes nothing, gives the database another one, and claims what it has under the first.
 *
 * What puts have left in the store that is no object yet goes with the sweep, too.
 *
 * So an entry is never without its object: who names one has put it, before the
 * sweep or after it.  What the queue has is compared anew each time.  Before
 * anything is deleted, WAL is flushed: a crash must not bring back an entry.
 *
 * Puts are those of all stores, as two servers may name one place: then the sweep of
 * one sees what is put by way of the other.  No snapshot is held while it lists and
 * waits.
 *
 * Workers sweep the stores of a database when they visit it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lsm_am.h"
#include "lsm_cold.h"
#include "lsm_cold_claims.h"
#include "lsm_cold_ddl.h"
#include "lsm_cold_orphans.h"
#include "lsm_stop.h"
#include "lsm_try.h"
#include "lsm_wal.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(lsm_store_orphans_sql);
PG_FUNCTION_INFO_V1(lsm_store_remove_orphans_sql);
PG_FUNCTION_INFO_V1(lsm_store_claim_sql);
PG_FUNCTION_INFO_V1(lsm_store_adopt_sql);

int			lsm_store_delete_delay = 24 * 3600;

/* Objects deleted by one call of the store. */
#define LSM_ORPHANS_BATCH		100

/* How often, and how long each time (microseconds), standbys are waited for. */
#define LSM_ORPHANS_STANDBY_WAITS	50
#define LSM_ORPHANS_STANDBY_WAIT	100000

/* Who may delete it. */
typedef enum LsmOrphanWhose
{
	LSM_ORPHAN_MINE,			/* this database */
	LSM_ORPHAN_DROPPED,			/* any of this data directory, as its own has been dropped */
	LSM_ORPHAN_SIBLING,			/* another database of this data directory */
	LSM_ORPHAN_OTHERS			/* somebody else */
} LsmOrphanWhose;

/* An object that the store has. */
typedef struct LsmOrphan
{
	char		key[LSM_COLD_KEY_BYTES];	/* hash key */
	uint64		bytes;
	int64		modified;		/* seconds since 1970, 0: not known */
	uint64		system;
	uint64		owner;
	Oid			database;
	bool		listed;			/* false: only an entry names it, as far as is known */
	bool		named;			/* by an entry of this database */
	LsmOrphanWhose whose;
} LsmOrphan;

/* A look at a store. */
typedef struct LsmSweep
{
	LsmStore   *store;
	Oid			serverid;
	uint64		server;			/* what entries call it */
	bool		by_worker;
	bool		unread;			/* some table could not be read */
	HTAB	   *objects;		/* that it has */
	HTAB	   *claims;			/* that it has, and that this database needs */
} LsmSweep;

static LsmSweep *
lsm_sweep_begin(Oid serverid, Oid userid)
{
	LsmSweep   *sweep = palloc(sizeof(LsmSweep));
	HASHCTL		ctl;

	sweep->store = lsm_store_open(serverid, userid);
	sweep->serverid = serverid;
	sweep->by_worker = false;
	sweep->unread = false;
	sweep->server = lsm_cold_name_hash(GetForeignServer(serverid)->servername);
	sweep->claims = lsm_claims_create();
	ctl.keysize = LSM_COLD_KEY_BYTES;
	ctl.entrysize = sizeof(LsmOrphan);
	ctl.hcxt = CurrentMemoryContext;
	sweep->objects = hash_create("lsm objects", 1024, &ctl,
								 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	return sweep;
}

static void
lsm_sweep_end(LsmSweep *sweep)
{
	hash_destroy(sweep->objects);
	hash_destroy(sweep->claims);
	pfree(sweep);
}

/* ---- what the store has ---- */

static LsmOrphan *
lsm_orphans_enter(LsmSweep *sweep, const char *key)
{
	bool		found;
	LsmOrphan  *object = hash_search(sweep->objects, key, HASH_ENTER, &found);

	if (!found)
	{
		object->listed = false;
		object->named = false;
	}
	return object;
}

/* Add the objects under a prefix; what is not named as ours are is passed over. */
static void
lsm_orphans_list(LsmSweep *sweep, const char *prefix)
{
	LsmStoreList *list = lsm_store_list_begin(sweep->store, prefix);
	LsmStoreListed listed;

	while (lsm_store_list_next(list, &listed))
	{
		unsigned long long system;
		unsigned long long owner;
		Oid			database;
		int			end = 0;
		LsmOrphan  *object;

		CHECK_FOR_INTERRUPTS();
		if (strlen(listed.key) >= LSM_COLD_KEY_BYTES ||
			sscanf(listed.key, "%llu/%16llx/%u/%*16[0-9a-f]/%*16[0-9a-f]-%*16[0-9a-f]%n",
				   &system, &owner, &database, &end) != 3 ||
			end == 0 || listed.key[end] != '\0')
			continue;
		object = lsm_orphans_enter(sweep, listed.key);
		object->listed = true;
		object->bytes = listed.bytes;
		object->modified = listed.modified;
		object->system = system;
		object->owner = owner;
		object->database = database;
	}
	lsm_store_list_end(list);
}

/*
 * The same for what this database has adopted.  No entry comes to name any of it, so
 * manifests may have been read before.
 */
static void
lsm_orphans_list_adopted(LsmSweep *sweep)
{
	ListCell   *lc;

	foreach(lc, lsm_claims_adopted_prefixes(sweep->claims))
		lsm_orphans_list(sweep, lfirst(lc));
}

static LsmOrphanWhose
lsm_orphan_whose(LsmSweep *sweep, const LsmOrphan *object)
{
	if (object->system == GetSystemIdentifier() &&
		object->owner == lsm_cold_owner_of(object->database))
		return object->database == MyDatabaseId ? LSM_ORPHAN_MINE :
			get_database_name(object->database) == NULL ? LSM_ORPHAN_DROPPED : LSM_ORPHAN_SIBLING;
	return lsm_claims_adopted(sweep->claims, object->system, object->owner, object->database,
							  object->modified) ? LSM_ORPHAN_MINE : LSM_ORPHAN_OTHERS;
}

/* When objects and claims have been listed. */
static void
lsm_orphans_tell_whose(LsmSweep *sweep)
{
	HASH_SEQ_STATUS scan;
	LsmOrphan  *object;

	hash_seq_init(&scan, sweep->objects);
	while ((object = hash_seq_search(&scan)) != NULL)
		if (object->listed)
			object->whose = lsm_orphan_whose(sweep, object);
}

/* ---- what is needed ---- */

/*
 * Mark what the entries of a table name, and the claims that follow from it.  True: some name
 * objects of this store.
 */
static bool
lsm_orphans_mark_table(LsmSweep *sweep, Relation rel)
{
	bool		in_use = lsm_table_in_use(rel);
	LsmTable   *table;
	LsmView    *view;
	bool		here = false;

	if (lsm_meta_peek(rel)->version < LSM_FORMAT_COLD)
		return false;
	table = lsm_table_open(rel);
	view = lsm_view_get(rel, table);
	for (int i = 0; i < view->nentries; i++)
	{
		const LsmManifestEntry *entry = &view->entries[i];
		char		key[LSM_COLD_KEY_BYTES];

		if (!lsm_entry_names_object(entry))
			continue;
		lsm_claims_need(sweep->claims, lsm_entry_object(entry),
						lsm_entry_object(entry)->server == sweep->server);
		here = here || lsm_entry_object(entry)->server == sweep->server;
		memset(key, 0, sizeof(key));
		lsm_cold_key(entry, key);
		lsm_orphans_enter(sweep, key)->named = true;
	}

	/* there may be more tables than one may use at a time */
	if (!in_use)
		lsm_table_unpin(table);
	return here;
}

typedef struct LsmOrphansMark
{
	LsmSweep   *sweep;
	Relation	rel;
	bool		here;			/* what lsm_orphans_mark_table() returns */
} LsmOrphansMark;

static void
lsm_orphans_mark_step(void *arg)
{
	LsmOrphansMark *mark = arg;

	mark->here = lsm_orphans_mark_table(mark->sweep, mark->rel);
}

/*
 * The same where the table may be damaged, which is told: one bad table is not to keep from
 * claiming what the others need.
 */
static bool
lsm_orphans_try_table(LsmSweep *sweep, Relation rel)
{
	LsmOrphansMark mark = {sweep, rel, false};
	ErrorData  *error = lsm_try(lsm_orphans_mark_step, &mark);

	if (error == NULL)
		return mark.here;
	sweep->unread = true;
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("could not look at table \"%s\": %s", RelationGetRelationName(rel),
					error->message),
			 errdetail("No object of store \"%s\" is deleted.", lsm_store_name(sweep->store))));
	FreeErrorData(error);
	return false;
}

/* All tables of ours that may have cold segments. */
static List *
lsm_orphans_tables(void)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *tables = NIL;
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if ((form->relkind == RELKIND_RELATION || form->relkind == RELKIND_MATVIEW) &&
			form->relpersistence == RELPERSISTENCE_PERMANENT && lsm_am_is_lsm(form->relam))
			tables = lappend_oid(tables, form->oid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return tables;
}

/*
 * Mark what the tables of the database need, of which none is passed over but those that
 * are locked or cannot be read.  False: one is.  Locks are given back at once: no entry can
 * come to name an object that is there.
 */
static bool
lsm_orphans_mark_tables(LsmSweep *sweep)
{
	List	   *tables;
	ListCell   *lc;
	bool		complete = true;

	/* a table may have a default that is toasted */
	PushActiveSnapshot(GetTransactionSnapshot());
	tables = lsm_orphans_tables();

	foreach(lc, tables)
	{
		Relation	rel;
		bool		noted = false;

		CHECK_FOR_INTERRUPTS();
		if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
		{
			complete = false;
			continue;
		}
		rel = try_relation_open(lfirst_oid(lc), NoLock);
		if (rel != NULL)
		{
			/* who drops it is to see that it depends on the store: not before that is committed */
			if (lsm_orphans_try_table(sweep, rel) && sweep->by_worker)
				noted = lsm_cold_note_segments(rel, sweep->serverid);
			relation_close(rel, NoLock);
		}
		if (!noted)
			UnlockRelationOid(lfirst_oid(lc), AccessShareLock);
	}
	PopActiveSnapshot();
	return complete && !sweep->unread;
}

/*
 * The same when nobody is between a put and the edit who was when objects were listed.  What
 * puts have left under the prefix goes, if there is one: only files, no request.
 */
static bool
lsm_orphans_mark(LsmSweep *sweep, const char *prefix)
{
	lsm_cold_wait_for_puts();
	if (prefix != NULL)
		lsm_store_clean(sweep->store, prefix);

	/* tables that were made meanwhile are to be found */
	AcceptInvalidationMessages();
	InvalidateCatalogSnapshot();
	return lsm_orphans_mark_tables(sweep);
}

static bool
lsm_orphan_is_claimed(LsmSweep *sweep, const LsmOrphan *object)
{
	return lsm_claims_cover(sweep->claims, object->system, object->owner, object->database,
							object->modified);
}

/*
 * Keys of objects of this database that nothing names, and of claims that it needs no
 * more; of these, if unclaimed, only what nobody else has claimed.
 */
static ArrayType *
lsm_orphans_unnamed(LsmSweep *sweep, bool unclaimed)
{
	List	   *done = lsm_claims_done(sweep->claims);
	Datum	   *keys = palloc((hash_get_num_entries(sweep->objects) + list_length(done) + 1) *
							  sizeof(Datum));
	HASH_SEQ_STATUS scan;
	LsmOrphan  *object;
	ListCell   *lc;
	int			n = 0;

	hash_seq_init(&scan, sweep->objects);
	while ((object = hash_seq_search(&scan)) != NULL)
		if (object->listed && object->whose == LSM_ORPHAN_MINE && !object->named &&
			!(unclaimed && lsm_orphan_is_claimed(sweep, object)))
			keys[n++] = CStringGetTextDatum(object->key);
	foreach(lc, done)
		keys[n++] = CStringGetTextDatum(lfirst(lc));
	return construct_array(keys, n, TEXTOID, -1, false, TYPALIGN_INT);
}

/* ---- deleting ---- */

typedef struct LsmOrphansBatch
{
	LsmStore   *store;
	const char **keys;
	int			n;
} LsmOrphansBatch;

static void
lsm_orphans_delete_step(void *arg)
{
	LsmOrphansBatch *batch = arg;

	lsm_store_delete(batch->store, batch->keys, batch->n);
}

/*
 * A crash must not bring back what has named them.  An object that the store does not let go is no
 * reason to keep others, unless nothing can be had from the store; it is told at the end.
 */
static void
lsm_orphans_delete(LsmStore *store, const char **keys, int n)
{
	ErrorData  *first_error = NULL;

	XLogFlush(lsm_wal_nothing());
	LSM_STOP("orphans-before-delete");
	for (int i = 0; i < n; i += LSM_ORPHANS_BATCH)
	{
		LsmOrphansBatch batch = {store, keys + i, Min(n - i, LSM_ORPHANS_BATCH)};
		ErrorData  *error;

		CHECK_FOR_INTERRUPTS();
		error = lsm_try(lsm_orphans_delete_step, &batch);
		if (first_error == NULL)
			first_error = error;
		if (error != NULL && error->sqlerrcode == ERRCODE_CONNECTION_FAILURE)
			break;
	}
	if (first_error != NULL)
		ReThrowError(first_error);
	LSM_STOP("orphans-after-delete");
}

/* ---- the queue ---- */

static char *
lsm_queue_name(void)
{
	ForeignDataWrapper *wrapper = GetForeignDataWrapperByName(LSM_STORE_FDW, false);
	Oid			schema = get_func_namespace(wrapper->fdwvalidator);

	return quote_qualified_identifier(get_namespace_name(schema), "lsm_store_queue");
}

static void
lsm_queue_run(const char *sql, int expected, Oid serverid, Datum array)
{
	Oid			types[4] = {OIDOID, TEXTARRAYOID, LSNOID, INT4OID};
	Datum		values[4] = {ObjectIdGetDatum(serverid), array,
	LSNGetDatum(GetXLogInsertRecPtr()), Int32GetDatum(lsm_store_delete_delay)};
	char	   *text = psprintf(sql, lsm_queue_name());

	if (SPI_execute_with_args(text, 4, types, values, NULL, false, 0) != expected)
		elog(ERROR, "could not run \"%s\"", text);
}

/*
 * Delete what is due.  Standbys that the server does not know where they are count as having
 * replayed nothing; who has told what WAL it has written, but not what it has replayed,
 * replays none (pg_receivewal).
 */
static void
lsm_queue_delete_due(void *arg)
{
	LsmSweep   *sweep = arg;
	const char **keys;
	int			n;

	lsm_queue_run("DELETE FROM %s WHERE server = $1 AND object_key = ANY ($2) AND $4 >= 0 AND $3 IS NOT NULL "
				  "AND since <= pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => $4) "
				  "AND lsn <= ALL (SELECT coalesce(replay_lsn, '0/0') FROM pg_catalog.pg_stat_replication "
				  "WHERE replay_lsn IS NOT NULL OR write_lsn IS NULL) "
				  "AND lsn <= ALL (SELECT restart_lsn FROM pg_catalog.pg_replication_slots "
				  "WHERE restart_lsn IS NOT NULL) RETURNING object_key",
				  SPI_OK_DELETE_RETURNING, sweep->serverid,
				  PointerGetDatum(lsm_orphans_unnamed(sweep, true)));
	n = SPI_processed;
	keys = palloc(Max(n, 1) * sizeof(char *));
	for (int i = 0; i < n; i++)
		keys[i] = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
	if (n > 0)
		lsm_orphans_delete(sweep->store, keys, n);
}

/*
 * Bring the queue up to date, and delete what is due.  If an object is refused, what has come to
 * the queue stays there, and what has been deleted leaves it the next time.
 */
static void
lsm_queue_work(LsmSweep *sweep, Oid serverid)
{
	ArrayType  *unnamed = lsm_orphans_unnamed(sweep, false);
	ErrorData  *error;

	SPI_connect();
	lsm_queue_run("DELETE FROM %s WHERE server = $1 AND object_key <> ALL ($2) AND ($3, $4) IS NOT NULL",
				  SPI_OK_DELETE, serverid, PointerGetDatum(unnamed));
	lsm_queue_run("INSERT INTO %s (server, object_key, since, lsn) "
				  "SELECT $1, k, pg_catalog.clock_timestamp(), $3 FROM pg_catalog.unnest($2) k "
				  "WHERE $4 IS NOT NULL ON CONFLICT DO NOTHING",
				  SPI_OK_INSERT, serverid, PointerGetDatum(unnamed));
	error = lsm_try(lsm_queue_delete_due, sweep);
	if (error != NULL)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not delete all objects of store \"%s\" that nothing needs: %s",
						lsm_store_name(sweep->store), error->message),
				 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0));
	SPI_finish();
}

/*
 * List claims, when manifests have told what this database needs.  False: somebody else has
 * adopted what it has put; from now on it needs that like a copy.
 */
static bool
lsm_orphans_list_claims(LsmSweep *sweep)
{
	lsm_claims_list(sweep->claims, sweep->store);
	if (!lsm_claims_lost(sweep->claims))
		return true;
	ereport(LOG,
			(errmsg("what database \"%s\" has put into store \"%s\" has been adopted by somebody else",
					get_database_name(MyDatabaseId), lsm_store_name(sweep->store)),
			 errdetail("What it puts from now on has another token.  What it has put is claimed.")));
	lsm_cold_owner_copied(MyDatabaseId);
	(void) lsm_orphans_mark_tables(sweep);
	return false;
}

/*
 * Sweep a store, if it is still there, with the rights of its owner.  False: somebody does so,
 * or has a table locked, or one cannot be read, or nothing is ever to be deleted.
 */
static bool
lsm_orphans_sweep(Oid serverid)
{
	char		prefix[LSM_COLD_KEY_BYTES];
	ForeignServer *server;
	LsmSweep   *sweep = NULL;
	bool		complete;

	/* it goes with the transaction: the queue must be seen by the next one */
	if (!lsm_cold_sweep_begin(false))
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	server = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	if (server != NULL)
	{
		sweep = lsm_sweep_begin(serverid, server->owner);
		sweep->by_worker = true;
	}
	PopActiveSnapshot();
	if (sweep == NULL)
		return true;
	if (lsm_store_delete_delay < 0)
	{
		(void) lsm_orphans_mark_tables(sweep);
		complete = false;
	}
	else
	{
		lsm_cold_own_prefix(prefix);
		lsm_orphans_list(sweep, prefix);
		complete = lsm_orphans_mark(sweep, prefix);
	}
	if (!lsm_orphans_list_claims(sweep))
		complete = false;
	if (complete)
	{
		lsm_orphans_list_adopted(sweep);
		lsm_orphans_tell_whose(sweep);
	}
	(void) lsm_claims_put(sweep->claims, sweep->store);
	if (complete)
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		lsm_queue_work(sweep, serverid);
		PopActiveSnapshot();
	}
	lsm_sweep_end(sweep);
	return complete;
}

/* The stores of the database. */
List *
lsm_orphans_stores(void)
{
	Relation	catalog = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *servers = NIL;
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tuple);

		if (strcmp(GetForeignDataWrapper(form->srvfdw)->fdwname, LSM_STORE_FDW) == 0)
			servers = lappend_oid(servers, form->oid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return servers;
}

/* For workers: sweep a store that may have gone meanwhile.  In a transaction of its own. */
void
lsm_orphans_sweep_store(Oid serverid)
{
	if (!lsm_orphans_sweep(serverid))
		ereport(DEBUG1, (errmsg_internal("nothing of store %u was deleted", serverid)));
}

/* ---- functions ---- */

/*
 * What this transaction has done may be rolled back, and what it has dropped is needed again
 * then; but the locks by which that is told of others' transactions are its own.
 */
static void
lsm_orphans_check_unchanged(const char *function)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run in a transaction that has changed something", function),
				 errdetail("If it were rolled back, objects that nothing needs now would be needed again."),
				 errhint("Call it in a transaction of its own.")));
}

/* Some table was passed over. */
static void
lsm_orphans_report_incomplete(const LsmSweep *sweep, int level)
{
	ereport(level,
			(errcode(sweep->unread ? ERRCODE_DATA_CORRUPTED : ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not look at all tables of the database"),
			 sweep->unread ? errdetail("One of them cannot be read.") :
			 errdetail("One of them is locked."),
			 sweep->unread ? errhint("Restore or drop it.") : errhint("Try again later.")));
}

/*
 * The objects that nothing needs, as far as this database can tell: its own, and
 * those of databases that are no more.  What lies under other tokens is listed with
 * them, unless this database needs it; but who put it may.
 */
static LsmSweep *
lsm_orphans_find(Oid serverid)
{
	LsmSweep   *sweep;
	ForeignServer *server = GetForeignServer(serverid);

	if (!has_privs_of_role(GetUserId(), server->owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	sweep = lsm_sweep_begin(serverid, GetUserId());
	(void) lsm_cold_sweep_begin(true);
	lsm_orphans_list(sweep, psprintf(UINT64_FORMAT "/", GetSystemIdentifier()));
	if (!lsm_orphans_mark(sweep, NULL))
		lsm_orphans_report_incomplete(sweep, ERROR);
	lsm_claims_list(sweep->claims, sweep->store);
	lsm_orphans_list_adopted(sweep);
	lsm_orphans_tell_whose(sweep);
	return sweep;
}

/* May it be removed here? */
static bool
lsm_orphan_is_removable(LsmSweep *sweep, const LsmOrphan *object)
{
	return object->listed && !object->named &&
		(object->whose == LSM_ORPHAN_MINE || object->whose == LSM_ORPHAN_DROPPED) &&
		!lsm_orphan_is_claimed(sweep, object);
}

/*
 * lsm_store_orphans(server): objects that nothing in this database needs.
 */
Datum
lsm_store_orphans_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			serverid = get_foreign_server_oid(NameStr(*PG_GETARG_NAME(0)), false);
	LsmSweep   *sweep;
	HASH_SEQ_STATUS scan;
	LsmOrphan  *object;

	PreventCommandDuringRecovery("lsm_store_orphans()");
	sweep = lsm_orphans_find(serverid);
	InitMaterializedSRF(fcinfo, 0);
	hash_seq_init(&scan, sweep->objects);
	while ((object = hash_seq_search(&scan)) != NULL)
	{
		Datum		values[5];
		bool		nulls[5] = {false};

		/* those of another database are found there */
		if (!object->listed || object->named || object->whose == LSM_ORPHAN_SIBLING)
			continue;
		values[0] = CStringGetTextDatum(object->key);
		values[1] = Int64GetDatum((int64) object->bytes);
		nulls[2] = object->modified == 0;
		values[2] = TimestampTzGetDatum(time_t_to_timestamptz((pg_time_t) object->modified));
		values[3] = ObjectIdGetDatum(object->database);
		values[4] = BoolGetDatum(lsm_orphan_is_removable(sweep, object));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	lsm_sweep_end(sweep);
	return (Datum) 0;
}

/*
 * Who has not replayed WAL to there; NULL: nobody.  The owner of a store need not be one who
 * may see positions of standbys, so that is looked up with the rights of the server.
 */
static char *
lsm_orphans_who_is_behind(Datum lsn)
{
	Oid			types[1] = {LSNOID};
	char	   *who = NULL;
	Oid			userid;
	int			context;

	GetUserIdAndSecContext(&userid, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	if (SPI_execute_with_args("SELECT pg_catalog.format('standby \"%s\"', application_name) "
							  "FROM pg_catalog.pg_stat_replication "
							  "WHERE coalesce(replay_lsn, '0/0') OPERATOR(pg_catalog.<) $1 "
							  "AND (replay_lsn IS NOT NULL OR write_lsn IS NULL) "
							  "UNION ALL SELECT pg_catalog.format('replication slot \"%s\"', slot_name) "
							  "FROM pg_catalog.pg_replication_slots "
							  "WHERE slot_type OPERATOR(pg_catalog.=) 'physical' "
							  "AND restart_lsn OPERATOR(pg_catalog.<) $1",
							  1, types, &lsn, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read positions of standbys");
	SetUserIdAndSecContext(userid, context);
	if (SPI_processed > 0)
		who = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	return who;
}

/*
 * What nothing needs here a standby may still need that has not come so far.  Streaming
 * ones are waited for a moment, with some WAL each time: they tell what they have replayed
 * when they get more.  ERROR if one, or a slot, stays behind.
 */
static void
lsm_orphans_wait_for_standbys(void)
{
	Datum		lsn;
	char	   *who = NULL;

	XLogFlush(lsm_wal_nothing());
	lsn = LSNGetDatum(GetFlushRecPtr(NULL));
	SPI_connect();
	for (int i = 0; i < LSM_ORPHANS_STANDBY_WAITS; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0)
		{
			pg_usleep(LSM_ORPHANS_STANDBY_WAIT);
			XLogFlush(lsm_wal_nothing());
		}
		pgstat_clear_backend_activity_snapshot();
		who = lsm_orphans_who_is_behind(lsn);
		if (who == NULL)
		{
			SPI_finish();
			return;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("objects may still be needed by a standby"),
			 errdetail("The %s has not come to %X/%X yet.", who, LSN_FORMAT_ARGS(DatumGetLSN(lsn))),
			 errhint("Try again when it has caught up, or drop the slot.")));
}

/*
 * lsm_store_remove_orphans(server, min_age): delete those that are removable and so
 * old, whatever the delay.  Returns how many.  ERROR if a table is locked or cannot be read, if
 * the transaction has changed something, or if a standby or slot stays behind.
 */
Datum
lsm_store_remove_orphans_sql(PG_FUNCTION_ARGS)
{
	Oid			serverid = get_foreign_server_oid(NameStr(*PG_GETARG_NAME(0)), false);
	TimestampTz oldest = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
																 TimestampTzGetDatum(GetCurrentTimestamp()),
																 PG_GETARG_DATUM(1)));
	LsmSweep   *sweep;
	const char **keys;
	HASH_SEQ_STATUS scan;
	LsmOrphan  *object;
	int			n = 0;

	PreventCommandDuringRecovery("lsm_store_remove_orphans()");
	PreventCommandIfReadOnly("lsm_store_remove_orphans()");
	lsm_orphans_check_unchanged("lsm_store_remove_orphans()");
	sweep = lsm_orphans_find(serverid);
	keys = palloc(Max(hash_get_num_entries(sweep->objects), 1) * sizeof(char *));
	hash_seq_init(&scan, sweep->objects);
	while ((object = hash_seq_search(&scan)) != NULL)
		if (lsm_orphan_is_removable(sweep, object) && object->modified != 0 &&
			time_t_to_timestamptz((pg_time_t) object->modified) <= oldest)
			keys[n++] = object->key;
	if (n > 0)
	{
		lsm_orphans_wait_for_standbys();
		lsm_orphans_delete(sweep->store, keys, n);
	}
	lsm_sweep_end(sweep);
	PG_RETURN_INT64(n);
}

/*
 * lsm_store_claim(server): put the claims of this database that are missing, which workers
 * do by themselves when they come.  Returns how many it has then.
 */
Datum
lsm_store_claim_sql(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	LsmSweep   *sweep;
	int64		n;

	PreventCommandDuringRecovery("lsm_store_claim()");
	PreventCommandIfReadOnly("lsm_store_claim()");
	if (!has_privs_of_role(GetUserId(), server->owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	sweep = lsm_sweep_begin(server->serverid, GetUserId());
	(void) lsm_cold_sweep_begin(true);
	if (!lsm_orphans_mark_tables(sweep))
		lsm_orphans_report_incomplete(sweep, WARNING);
	(void) lsm_orphans_list_claims(sweep);
	n = lsm_claims_put(sweep->claims, sweep->store);
	lsm_sweep_end(sweep);
	PG_RETURN_INT64(n);
}

/*
 * lsm_store_adopt(server, claimed): from now on delete what somebody has put who is no more,
 * by what its keys begin with.  Returns how many objects there are.  ERROR if a table is
 * locked or cannot be read, or if the transaction has changed something.
 */
Datum
lsm_store_adopt_sql(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	char	   *prefix = text_to_cstring(PG_GETARG_TEXT_PP(1));
	LsmSweep   *sweep;
	int64		n;

	PreventCommandDuringRecovery("lsm_store_adopt()");
	PreventCommandIfReadOnly("lsm_store_adopt()");
	if (!has_privs_of_role(GetUserId(), server->owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	sweep = lsm_sweep_begin(server->serverid, GetUserId());
	(void) lsm_cold_sweep_begin(true);
	lsm_claims_check_prefix(prefix);
	lsm_orphans_check_unchanged("lsm_store_adopt()");
	lsm_orphans_list(sweep, prefix);
	n = hash_get_num_entries(sweep->objects);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("store \"%s\" has no objects under \"%s\"", server->servername, prefix)));

	/* what the old owner has claimed, for us as well, is void: so claim it first */
	if (!lsm_orphans_mark_tables(sweep))
		lsm_orphans_report_incomplete(sweep, ERROR);
	lsm_claims_list(sweep->claims, sweep->store);
	(void) lsm_claims_put(sweep->claims, sweep->store);
	LSM_STOP("adopt-claimed");
	lsm_claims_adopt(sweep->claims, sweep->store, prefix);
	lsm_sweep_end(sweep);
	PG_RETURN_INT64(n);
}
