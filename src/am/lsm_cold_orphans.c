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
 * may put or delete (lsm_cold_owner.c):
 *
 *	1. It lists the objects.
 *	2. It takes ExclusiveLock on the stores of the database: nobody is between a put and
 *	   the edit, so each object that is listed and needed is named by now.  It reads
 *	   the manifests of all tables, of which no one may be locked by who drops, truncates
 *	   or rewrites it: then the sweep is given up.  The lock is given back: what is not
 *	   named now never will be.
 *	3. What no entry names and the queue does not have goes to the queue, a table of
 *	   the extension, with the time and the end of WAL.
 *	4. What the queue has had for lsm.store_delete_delay, and all standbys and slots
 *	   have gone beyond, is deleted.  What has no object any more leaves the queue.
 *
 * What puts have left in the store that is no object yet goes with the sweep, too.
 *
 * So an entry is never without its object: who names one has put it, before the
 * sweep or after it.  What the queue has is compared anew each time.  Before
 * anything is deleted, WAL is flushed: a crash must not bring back an entry.
 *
 * The lock is one for all stores, as two servers may name one place: then the sweep of
 * one sees what is put by way of the other.  No request is made with it, or who moves
 * segments to one store would wait for another.
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
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "catalog/pg_control.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lsm_am.h"
#include "lsm_cold.h"
#include "lsm_cold_orphans.h"
#include "lsm_stop.h"
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

int			lsm_store_delete_delay = 24 * 3600;

/* Objects deleted by one call of the store. */
#define LSM_ORPHANS_BATCH		100

/* An object that the store has. */
typedef struct LsmOrphan
{
	char		key[LSM_COLD_KEY_BYTES];	/* hash key */
	uint64		bytes;
	int64		modified;		/* seconds since 1970, 0: not known */
	Oid			database;
	bool		named;			/* by an entry of this database */
	bool		ours;			/* under a token of this data directory */
} LsmOrphan;

/* ---- what the store has ---- */

static HTAB *
lsm_orphans_create(void)
{
	HASHCTL		ctl;

	ctl.keysize = LSM_COLD_KEY_BYTES;
	ctl.entrysize = sizeof(LsmOrphan);
	ctl.hcxt = CurrentMemoryContext;
	return hash_create("lsm objects", 1024, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* Add the objects under a prefix; what is not named as ours are is passed over. */
static void
lsm_orphans_list(HTAB *objects, LsmStore *store, const char *prefix)
{
	LsmStoreList *list = lsm_store_list_begin(store, prefix);
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
			end == 0 || listed.key[end] != '\0' || system != GetSystemIdentifier())
			continue;
		object = hash_search(objects, listed.key, HASH_ENTER, NULL);
		object->bytes = listed.bytes;
		object->modified = listed.modified;
		object->database = database;
		object->named = false;
		object->ours = owner == lsm_cold_owner_of(database);
	}
	lsm_store_list_end(list);
}

/* ---- what is needed ---- */

/* Mark what the entries of a table name. */
static void
lsm_orphans_mark_table(HTAB *objects, Relation rel)
{
	LsmView    *view;

	if (lsm_meta_peek(rel)->version < LSM_FORMAT_COLD)
		return;
	view = lsm_view_get(rel, lsm_table_open(rel));
	for (int i = 0; i < view->nentries; i++)
	{
		char		key[LSM_COLD_KEY_BYTES];
		LsmOrphan  *object;

		if (!lsm_entry_names_object(&view->entries[i]))
			continue;
		memset(key, 0, sizeof(key));
		lsm_cold_key(&view->entries[i], key);
		object = hash_search(objects, key, HASH_FIND, NULL);
		if (object != NULL)
			object->named = true;
	}
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
 * Mark what the tables of the database need.  False: one of them is locked.  Its lock
 * is given back at once: no entry can come to name an object that is there.
 */
static bool
lsm_orphans_mark_tables(HTAB *objects)
{
	List	   *tables = lsm_orphans_tables();
	ListCell   *lc;

	foreach(lc, tables)
	{
		Relation	rel;

		CHECK_FOR_INTERRUPTS();
		if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
			return false;
		rel = try_relation_open(lfirst_oid(lc), NoLock);
		if (rel != NULL)
		{
			lsm_orphans_mark_table(objects, rel);
			relation_close(rel, NoLock);
		}
		UnlockRelationOid(lfirst_oid(lc), AccessShareLock);
	}
	return true;
}

/*
 * The same while nobody is between a put and the edit; false, if !wait: somebody is.  What
 * puts have left under the prefix goes, if there is one: only files, no request.
 */
static bool
lsm_orphans_mark(HTAB *objects, LsmStore *store, const char *prefix, bool wait)
{
	bool		complete;

	if (!lsm_cold_lock_stores(ExclusiveLock, wait))
		return false;

	/* tables that were made meanwhile are to be found */
	AcceptInvalidationMessages();
	InvalidateCatalogSnapshot();
	complete = lsm_orphans_mark_tables(objects);
	if (prefix != NULL)
		lsm_store_clean(store, prefix);
	lsm_cold_unlock_stores(ExclusiveLock);
	return complete;
}

/* Keys of objects of this database that nothing names. */
static ArrayType *
lsm_orphans_unnamed(HTAB *objects)
{
	Datum	   *keys = palloc(Max(hash_get_num_entries(objects), 1) * sizeof(Datum));
	HASH_SEQ_STATUS scan;
	LsmOrphan  *object;
	int			n = 0;

	hash_seq_init(&scan, objects);
	while ((object = hash_seq_search(&scan)) != NULL)
		if (object->ours && object->database == MyDatabaseId && !object->named)
			keys[n++] = CStringGetTextDatum(object->key);
	return construct_array(keys, n, TEXTOID, -1, false, TYPALIGN_INT);
}

/* ---- deleting ---- */

/* Flush all WAL that there is.  (The insert position may be behind a page header.) */
static void
lsm_orphans_flush_wal(void)
{
	char		nothing = 0;

	XLogBeginInsert();
	XLogRegisterData(&nothing, sizeof(nothing));
	XLogFlush(XLogInsert(RM_XLOG_ID, XLOG_NOOP));
}

/* A crash must not bring back what has named them. */
static void
lsm_orphans_delete(LsmStore *store, const char **keys, int n)
{
	lsm_orphans_flush_wal();
	LSM_STOP("orphans-before-delete");
	for (int i = 0; i < n; i += LSM_ORPHANS_BATCH)
	{
		CHECK_FOR_INTERRUPTS();
		lsm_store_delete(store, keys + i, Min(n - i, LSM_ORPHANS_BATCH));
	}
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
 * Bring the queue up to date, and delete what is due.  Standbys that the server does
 * not know where they are count as having replayed nothing.
 */
static void
lsm_queue_work(LsmStore *store, Oid serverid, HTAB *objects)
{
	ArrayType  *unnamed = lsm_orphans_unnamed(objects);
	const char **keys;
	int			n;

	SPI_connect();
	lsm_queue_run("DELETE FROM %s WHERE server = $1 AND object_key <> ALL ($2) AND ($3, $4) IS NOT NULL",
				  SPI_OK_DELETE, serverid, PointerGetDatum(unnamed));
	lsm_queue_run("INSERT INTO %s (server, object_key, since, lsn) "
				  "SELECT $1, k, pg_catalog.clock_timestamp(), $3 FROM pg_catalog.unnest($2) k "
				  "WHERE $4 IS NOT NULL ON CONFLICT DO NOTHING",
				  SPI_OK_INSERT, serverid, PointerGetDatum(unnamed));
	lsm_queue_run("DELETE FROM %s WHERE server = $1 AND object_key = ANY ($2) AND $4 >= 0 AND $3 IS NOT NULL "
				  "AND since <= pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => $4) "
				  "AND lsn <= ALL (SELECT coalesce(replay_lsn, '0/0') FROM pg_catalog.pg_stat_replication) "
				  "AND lsn <= ALL (SELECT restart_lsn FROM pg_catalog.pg_replication_slots "
				  "WHERE restart_lsn IS NOT NULL) RETURNING object_key",
				  SPI_OK_DELETE_RETURNING, serverid, PointerGetDatum(unnamed));
	n = SPI_processed;
	keys = palloc(Max(n, 1) * sizeof(char *));
	for (int i = 0; i < n; i++)
		keys[i] = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
	if (n > 0)
		lsm_orphans_delete(store, keys, n);
	SPI_finish();
}

/*
 * Sweep a store: with the rights of the server's owner.  Needs a snapshot.  False:
 * somebody puts objects, or has a table locked.
 */
static bool
lsm_orphans_sweep(Oid serverid)
{
	char		prefix[LSM_COLD_KEY_BYTES];
	LsmStore   *store = lsm_store_open(serverid, GetForeignServer(serverid)->owner);
	HTAB	   *objects = lsm_orphans_create();

	/* it goes with the transaction: the queue must be seen by the next one */
	if (!lsm_cold_lock_stores(ShareUpdateExclusiveLock, false))
		return false;
	lsm_cold_own_prefix(prefix);
	lsm_orphans_list(objects, store, prefix);
	if (!lsm_orphans_mark(objects, store, prefix, false))
		return false;
	lsm_queue_work(store, serverid, objects);
	hash_destroy(objects);
	return true;
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
	if (GetForeignServerExtended(serverid, FSV_MISSING_OK) != NULL &&
		!lsm_orphans_sweep(serverid))
		ereport(DEBUG1, (errmsg_internal("store %u is busy", serverid)));
}

/* ---- functions ---- */

/*
 * The objects that nothing needs, as far as this database can tell: its own, and
 * those of databases that are no more.  What lies under other tokens is listed with
 * them, unless this database needs it; but who put it may.
 */
static HTAB *
lsm_orphans_find(Oid serverid, bool all)
{
	HTAB	   *objects = lsm_orphans_create();
	LsmStore   *store;
	ForeignServer *server = GetForeignServer(serverid);

	PreventCommandDuringRecovery(all ? "lsm_store_orphans()" : "lsm_store_remove_orphans()");
	if (!has_privs_of_role(GetUserId(), server->owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	store = lsm_store_open(serverid, GetUserId());
	(void) lsm_cold_lock_stores(ShareUpdateExclusiveLock, true);
	lsm_orphans_list(objects, store, psprintf(UINT64_FORMAT "/", GetSystemIdentifier()));
	if (!lsm_orphans_mark(objects, store, NULL, true))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not look at all tables of the database"),
				 errdetail("One of them is locked."),
				 errhint("Try again later.")));
	return objects;
}

/* May it be removed? */
static bool
lsm_orphan_is_removable(const LsmOrphan *object)
{
	return object->ours && !object->named &&
		(object->database == MyDatabaseId || get_database_name(object->database) == NULL);
}

/*
 * lsm_store_orphans(server): objects that nothing in this database needs.
 */
Datum
lsm_store_orphans_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			serverid = get_foreign_server_oid(NameStr(*PG_GETARG_NAME(0)), false);
	HTAB	   *objects = lsm_orphans_find(serverid, true);
	HASH_SEQ_STATUS scan;
	LsmOrphan  *object;

	InitMaterializedSRF(fcinfo, 0);
	hash_seq_init(&scan, objects);
	while ((object = hash_seq_search(&scan)) != NULL)
	{
		Datum		values[5];
		bool		nulls[5] = {false};

		/* those of another database are found there */
		if (object->named || (object->ours && !lsm_orphan_is_removable(object)))
			continue;
		values[0] = CStringGetTextDatum(object->key);
		values[1] = Int64GetDatum((int64) object->bytes);
		nulls[2] = object->modified == 0;
		values[2] = TimestampTzGetDatum(time_t_to_timestamptz((pg_time_t) object->modified));
		values[3] = ObjectIdGetDatum(object->database);
		values[4] = BoolGetDatum(object->ours);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	hash_destroy(objects);
	return (Datum) 0;
}

/*
 * lsm_store_remove_orphans(server, min_age): delete those that are removable and so
 * old, whatever the delay.  Returns how many.
 */
Datum
lsm_store_remove_orphans_sql(PG_FUNCTION_ARGS)
{
	Oid			serverid = get_foreign_server_oid(NameStr(*PG_GETARG_NAME(0)), false);
	TimestampTz oldest = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
																 TimestampTzGetDatum(GetCurrentTimestamp()),
																 PG_GETARG_DATUM(1)));
	HTAB	   *objects = lsm_orphans_find(serverid, false);
	const char **keys = palloc(Max(hash_get_num_entries(objects), 1) * sizeof(char *));
	HASH_SEQ_STATUS scan;
	LsmOrphan  *object;
	int			n = 0;

	PreventCommandIfReadOnly("lsm_store_remove_orphans()");
	hash_seq_init(&scan, objects);
	while ((object = hash_seq_search(&scan)) != NULL)
		if (lsm_orphan_is_removable(object) && object->modified != 0 &&
			time_t_to_timestamptz((pg_time_t) object->modified) <= oldest)
			keys[n++] = object->key;
	if (n > 0)
		lsm_orphans_delete(lsm_store_open(serverid, GetUserId()), keys, n);
	hash_destroy(objects);
	PG_RETURN_INT64(n);
}
