/*-------------------------------------------------------------------------
 *
 * lsm_cold_ddl.c
 *	  The option lsm.cold_store in DDL, and what servers may not be altered.
 *
 * A table depends on its server (pg_depend) from when it is attached until it is
 * not, and no segment of it lies there.  While a table depends on a server that
 * cannot be dropped (with CASCADE it would take the table along, so that is refused
 * as well), renamed, or made to mean another place.
 *
 * DROPPING
 *	  A server may go in many ways: DROP OWNED, say.  So the object access hook notes what
 *	  servers and which of their tables a statement drops, and when it is done, it is
 *	  refused if it has taken a table along with the server.  It may do so only where the
 *	  table goes for a reason of its own: with the access method (DROP EXTENSION), or with
 *	  its owner's other things (DROP OWNED).
 *
 * LOCKS
 *	  Race: a transaction attaches a table to a server that another one drops, renames or
 *	  alters; neither sees what the other has not committed.  So who attaches has
 *	  AccessShareLock on the server until the transaction ends, and who would refuse
 *	  looks for tables, takes AccessExclusiveLock, and looks again.  (The server itself
 *	  takes no lock for ALTER SERVER, and one for DROP and RENAME only after we have looked.)
 *	  Movers need no lock: they have a table that depends on the server, for good, and
 *	  go on doing so as below.  So they are found by the first look, and nobody waits for them.
 *
 * DETACHING
 *	  The dependency goes if nothing lies in the server.  Race: a mover may be about
 *	  to put a segment there.  It has a lock of a major compaction, and looks, after it
 *	  has got that, whether the table is attached and depends on the server.  So whoever
 *	  removes the dependency takes all these locks, and keeps them until the
 *	  transaction ends: movers see the change, or have ended before it.  If not all
 *	  are free, the dependency stays for the next one who comes here, at the latest
 *	  lsm_major_compact().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_foreign_server.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/user.h"
#include "foreign/foreign.h"
#include "lsm_am.h"
#include "lsm_cold.h"
#include "lsm_cold_ddl.h"
#include "lsm_compact.h"
#include "lsm_request.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Tables whose cold store this transaction has changed; in its memory. */
static List *lsm_cold_changed;

void
lsm_cold_ddl_committed(void)
{
	ListCell   *lc;

	foreach(lc, lsm_cold_changed)
		lsm_request_put_back(MyDatabaseId, lfirst_oid(lc));
}

void
lsm_cold_ddl_xact_end(void)
{
	lsm_cold_changed = NIL;
}

/* Workers are to look at a table when this transaction is committed. */
void
lsm_cold_note_change(Oid relid)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);

	lsm_cold_changed = list_append_unique_oid(lsm_cold_changed, relid);
	MemoryContextSwitchTo(caller);
}

/* ---- dependencies ---- */

/* Is there a dependency, ours or others'? */
static bool
lsm_cold_has_dependency(Oid relid, Oid serverid)
{
	return list_member_oid(lsm_cold_servers_of(relid), serverid);
}

/* From now on, if it has not before. */
static void
lsm_cold_depend(Relation rel, Oid serverid)
{
	ObjectAddress table;
	ObjectAddress server;

	if (lsm_cold_has_dependency(RelationGetRelid(rel), serverid))
		return;
	ObjectAddressSet(table, RelationRelationId, RelationGetRelid(rel));
	ObjectAddressSet(server, ForeignServerRelationId, serverid);
	recordDependencyOn(&table, &server, DEPENDENCY_NORMAL);
}

/* The servers that a table depends on. */
List *
lsm_cold_servers_of(Oid relid)
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	List	   *servers = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, DependDependerIndexId, true, NULL, 2, keys);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->refclassid == ForeignServerRelationId)
			servers = list_append_unique_oid(servers, form->refobjid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return servers;
}

/* A table of ours that depends on a server; InvalidOid: there is none. */
static Oid
lsm_cold_dependent(Oid serverid)
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			found = InvalidOid;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ForeignServerRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(serverid));
	scan = systable_beginscan(catalog, DependReferenceIndexId, true, NULL, 2, keys);
	while (!OidIsValid(found) && (tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == RelationRelationId && lsm_relid_is_lsm(form->objid))
			found = form->objid;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * Lock a server until the transaction ends.  Who waits may find that another one has the
 * name by then, or none (InvalidOid, if missing_ok).
 */
static Oid
lsm_cold_lock_server(const char *name, LOCKMODE mode, bool missing_ok)
{
	Oid			locked = InvalidOid;

	for (;;)
	{
		Oid			serverid = get_foreign_server_oid(name, missing_ok);

		if (OidIsValid(locked) && serverid != locked)
			UnlockDatabaseObject(ForeignServerRelationId, locked, 0, mode);
		if (serverid == locked || !OidIsValid(serverid))
			return serverid;
		LockDatabaseObject(ForeignServerRelationId, serverid, 0, mode);
		locked = serverid;
	}
}

/* ---- tables ---- */

/*
 * A table is to depend on a store that is not opened.  Its owner needs the right to use it, or
 * anybody could keep a server from being dropped; but a superuser who restores a dump, in whose
 * name ever, has not granted that yet.
 */
static void
lsm_cold_check_usage(Relation rel, Oid serverid, const char *name)
{
	AclResult	result;

	if (superuser() || superuser_arg(GetAuthenticatedUserId()))
		return;
	result = lsm_compat_server_usage(serverid, rel->rd_rel->relowner);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FOREIGN_SERVER, name);
}

/*
 * A table is to have a cold store.  test: see whether it can be used, which takes a few
 * requests; not when a dump is restored.
 */
void
lsm_cold_attach(Relation rel, const char *name, bool test)
{
	Oid			serverid;

	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ?
				 errmsg("temporary table \"%s\" cannot have a cold store",
						RelationGetRelationName(rel)) :
				 errmsg("unlogged table \"%s\" cannot have a cold store",
						RelationGetRelationName(rel))));
	serverid = lsm_cold_lock_server(name, AccessShareLock, false);
	if (strcmp(GetForeignDataWrapper(GetForeignServer(serverid)->fdwid)->fdwname,
			   LSM_STORE_FDW) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a store", name),
				 errhint("Stores are servers of foreign-data wrapper \"%s\".", LSM_STORE_FDW)));
	if (test)
		lsm_store_test(lsm_store_open(serverid, rel->rd_rel->relowner));
	else
		lsm_cold_check_usage(rel, serverid, name);
	lsm_cold_depend(rel, serverid);
}

/*
 * A table has segments in a server: so it depends on it.  It does already, but where a dump has
 * not said so: pg_upgrade's of a table that was being detached.  True: it does from now on.
 */
bool
lsm_cold_note_segments(Relation rel, Oid serverid)
{
	if (lsm_cold_has_dependency(RelationGetRelid(rel), serverid))
		return false;
	LockDatabaseObject(ForeignServerRelationId, serverid, 0, AccessShareLock);
	if (!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid)))
		return false;
	lsm_cold_depend(rel, serverid);
	CommandCounterIncrement();
	return true;
}

/* Does a segment lie in that server, or what somebody may still read of one that has? */
static bool
lsm_cold_is_used(LsmView *view, Oid serverid)
{
	ForeignServer *server = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	uint64		hash;

	if (server == NULL)
		return false;
	hash = lsm_cold_name_hash(server->servername);
	for (int i = 0; i < view->nentries; i++)
		if (lsm_entry_names_object(&view->entries[i]) &&
			lsm_entry_object(&view->entries[i])->server == hash)
			return true;
	return false;
}

/*
 * Remove the dependencies of a table on servers to which it is not attached and where
 * nothing of it lies.  The caller has ShareUpdateExclusiveLock on it.
 */
void
lsm_cold_release_servers(Relation rel, Oid attached)
{
	List	   *servers = lsm_cold_servers_of(RelationGetRelid(rel));
	ListCell   *lc;
	LsmView    *view;

	servers = list_delete_oid(servers, attached);
	if (servers == NIL)
		return;
	for (int slot = 0; slot < LSM_MAJOR_SLOTS; slot++)
		if (!lsm_job_keep_off(rel, lsm_major_owner(slot)))
			return;
	view = lsm_view_get(rel, lsm_table_open(rel));
	foreach(lc, servers)
	{
		if (!lsm_cold_is_used(view, lfirst_oid(lc)))
			(void) deleteDependencyRecordsForSpecific(RelationRelationId, RelationGetRelid(rel),
													  DEPENDENCY_NORMAL, ForeignServerRelationId,
													  lfirst_oid(lc));
	}
}

/* The same by who moves segments, if nobody alters the table. */
void
lsm_cold_tidy(Relation rel)
{
	List	   *servers = lsm_cold_servers_of(RelationGetRelid(rel));

	servers = list_delete_oid(servers, lsm_cold_attached(rel));
	if (servers == NIL ||
		!ConditionalLockRelationOid(RelationGetRelid(rel), ShareUpdateExclusiveLock))
		return;
	lsm_cold_release_servers(rel, lsm_cold_attached(rel));
}

/*
 * What moves have retired goes when the horizon is beyond what was the next xid then, which
 * in a server at rest nobody takes.  So who has moved something does, at the end.
 */
void
lsm_cold_pass_stamps(Relation rel)
{
	if (lsm_view_get(rel, lsm_table_open(rel))->meta.version >= LSM_FORMAT_COLD_VALUES)
		(void) GetTopTransactionId();
}

/* The table is of another access method now. */
void
lsm_cold_forget(Oid relid)
{
	List	   *servers = lsm_cold_servers_of(relid);
	ListCell   *lc;

	foreach(lc, servers)
		(void) deleteDependencyRecordsForSpecific(RelationRelationId, relid, DEPENDENCY_NORMAL,
												  ForeignServerRelationId, lfirst_oid(lc));
}

/* ---- servers ---- */

pg_noreturn static void
lsm_cold_raise_attached(const char *what, const char *server, const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot %s server \"%s\" because it is the cold store of tables", what, server),
			 errdetail("Table \"%s\" is attached to it, or has segments there.", table),
			 errhint("Use ALTER TABLE ... RESET (lsm.cold_store), then lsm_major_compact().")));
}

/* Is it a store that the user may do that to?  (If not, the server has its own to say.) */
static bool
lsm_cold_is_users_store(Oid serverid)
{
	ForeignServer *server = GetForeignServer(serverid);

	return strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, LSM_STORE_FDW) == 0 &&
		has_privs_of_role(GetUserId(), server->owner);
}

/* Refuse something, or see that until the transaction ends no table is attached. */
static void
lsm_cold_refuse(const char *name, const char *what)
{
	Oid			serverid = get_foreign_server_oid(name, true);
	Oid			relid;

	if (!OidIsValid(serverid) || RecoveryInProgress() || !lsm_cold_is_users_store(serverid))
		return;
	relid = lsm_cold_dependent(serverid);
	if (!OidIsValid(relid))
	{
		serverid = lsm_cold_lock_server(name, AccessExclusiveLock, true);
		relid = OidIsValid(serverid) ? lsm_cold_dependent(serverid) : InvalidOid;
	}
	if (OidIsValid(relid))
		lsm_cold_raise_attached(what, name, get_rel_name(relid));
}

/* Options that say where the objects are. */
static bool
lsm_cold_option_is_place(const char *name)
{
	static const char *const places[] = {"type", "endpoint", "bucket", "prefix", "directory"};

	for (size_t i = 0; i < lengthof(places); i++)
		if (strcmp(name, places[i]) == 0)
			return true;
	return false;
}

/* Refuse statements that would take objects away from tables. */
void
lsm_cold_check_statement(Node *stmt)
{
	ListCell   *lc;

	if (IsA(stmt, AlterForeignServerStmt))
	{
		AlterForeignServerStmt *alter = (AlterForeignServerStmt *) stmt;

		foreach(lc, alter->options)
			if (lsm_cold_option_is_place(((DefElem *) lfirst(lc))->defname))
			lsm_cold_refuse(alter->servername,
							psprintf("alter option \"%s\" of",
									 ((DefElem *) lfirst(lc))->defname));
	}
	else if (IsA(stmt, RenameStmt) && ((RenameStmt *) stmt)->renameType == OBJECT_FOREIGN_SERVER)
		lsm_cold_refuse(strVal(((RenameStmt *) stmt)->object), "rename");
	else if (IsA(stmt, DropStmt) && ((DropStmt *) stmt)->removeType == OBJECT_FOREIGN_SERVER)
	{
		foreach(lc, ((DropStmt *) stmt)->objects)
			lsm_cold_refuse(strVal(lfirst(lc)), "drop");
	}
}

/* ---- what a statement drops ---- */

/* Of the innermost statement; NULL: none runs. */
static LsmColdDrops *lsm_cold_drops;

typedef struct LsmColdDroppedServer
{
	Oid			serverid;
	char	   *name;
} LsmColdDroppedServer;

typedef struct LsmColdDroppedTable
{
	char	   *name;
	Oid			owner;
	Oid			am;
	List	   *servers;		/* on which it depended */
} LsmColdDroppedTable;

void
lsm_cold_drops_begin(LsmColdDrops *drops)
{
	drops->context = CurrentMemoryContext;
	drops->tables = drops->servers = NIL;
	drops->outer = lsm_cold_drops;
	lsm_cold_drops = drops;
}

void
lsm_cold_drops_end(const LsmColdDrops *drops)
{
	lsm_cold_drops = drops->outer;
}

static void
lsm_cold_note_dropped_table(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	List	   *servers = lsm_am_is_lsm(form->relam) ? lsm_cold_servers_of(relid) : NIL;

	if (servers != NIL)
	{
		LsmColdDroppedTable *table = palloc(sizeof(LsmColdDroppedTable));

		table->name = pstrdup(NameStr(form->relname));
		table->owner = form->relowner;
		table->am = form->relam;
		table->servers = servers;
		lsm_cold_drops->tables = lappend(lsm_cold_drops->tables, table);
	}
	ReleaseSysCache(tuple);
}

/* The server is about to drop an object, those that depend on it before. */
void
lsm_cold_note_drop(Oid class_id, Oid object_id)
{
	MemoryContext caller;

	if (lsm_cold_drops == NULL ||
		(class_id != RelationRelationId && class_id != ForeignServerRelationId))
		return;
	caller = MemoryContextSwitchTo(lsm_cold_drops->context);
	if (class_id == RelationRelationId)
		lsm_cold_note_dropped_table(object_id);
	else
	{
		LsmColdDroppedServer *server = palloc(sizeof(LsmColdDroppedServer));

		server->serverid = object_id;
		server->name = GetForeignServer(object_id)->servername;
		lsm_cold_drops->servers = lappend(lsm_cold_drops->servers, server);
	}
	MemoryContextSwitchTo(caller);
}

/* Has the table gone for a reason of its own? */
static bool
lsm_cold_was_to_go(const LsmColdDroppedTable *table, Node *stmt)
{
	return !SearchSysCacheExists1(AMOID, ObjectIdGetDatum(table->am)) ||
		(IsA(stmt, DropOwnedStmt) &&
		 list_member_oid(roleSpecsToIds(((DropOwnedStmt *) stmt)->roles), table->owner));
}

/* A statement is done: refuse it if it has dropped tables along with their server. */
void
lsm_cold_drops_check(const LsmColdDrops *drops, Node *stmt)
{
	ListCell   *server_cell;
	ListCell   *table_cell;

	foreach(server_cell, drops->servers)
	{
		LsmColdDroppedServer *server = lfirst(server_cell);

		foreach(table_cell, drops->tables)
		{
			LsmColdDroppedTable *table = lfirst(table_cell);

			if (list_member_oid(table->servers, server->serverid) &&
				!lsm_cold_was_to_go(table, stmt))
				lsm_cold_raise_attached("drop", server->name, table->name);
		}
	}
}

/* ---- copies ---- */

/*
 * A database has been copied: what it has put until now is not its alone.  Nobody can connect
 * to it, or to the copy, until the transaction ends.
 */
void
lsm_cold_note_copy(Node *stmt)
{
	const char *template = "template1";
	ListCell   *lc;
	Oid			database;

	if (!IsA(stmt, CreatedbStmt))
		return;
	foreach(lc, ((CreatedbStmt *) stmt)->options)
	{
		DefElem    *def = lfirst(lc);

		if (strcmp(def->defname, "template") == 0 && def->arg != NULL)
			template = defGetString(def);
	}
	database = get_database_oid(template, true);
	if (OidIsValid(database) && strcmp(template, "template0") != 0)
		lsm_cold_owner_copied(database);
}
