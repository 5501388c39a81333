/*-------------------------------------------------------------------------
 *
 * lsm_ddl.c
 *	  Options of tables in CREATE TABLE, ALTER TABLE and SECURITY LABEL.
 *
 * The server refuses storage parameters that it does not know.  So before it runs
 * a statement with lsm.* parameters they are taken out of (a copy of) it, and
 * kept in a frame until the server, in the middle of the statement, tells the
 * object access hook that the table has been made, or its parameters changed.
 * There they are applied, just when the server's own are: after it has checked
 * permissions and taken its locks, before the first row is written by CREATE
 * TABLE AS or a rewrite, and in the same transaction.  Nothing is looked up by
 * name that the server has not looked up itself.
 *
 * An ALTER TABLE that sets nothing but lsm.* parameters runs as a RESET of the
 * same names, which the server ignores, with all that is around it: checks,
 * ShareUpdateExclusiveLock, event triggers, an update of the table's pg_class row.
 *
 * Frames are a stack: each statement that runs inside another (functions, event
 * triggers, parts of the other) has its own or none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/toasting.h"
#include "commands/defrem.h"
#include "commands/seclabel.h"
#include "foreign/foreign.h"
#include "lsm_am.h"
#include "lsm_cold_ddl.h"
#include "lsm_options.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

/* Parameters of one WITH, SET or RESET. */
typedef struct LsmDdlChange
{
	bool		reset;
	List	   *defs;			/* DefElem */
} LsmDdlChange;

/* What a statement says about lsm, until it is done. */
typedef struct LsmDdlFrame
{
	bool		create;			/* CREATE TABLE or the like; else ALTER TABLE */
	RangeVar   *relation;
	List	   *changes;		/* LsmDdlChange; NIL once they are applied */
	bool		sets_am;		/* ALTER TABLE ... SET ACCESS METHOD */
	char	   *am_name;
} LsmDdlFrame;

static LsmDdlFrame *lsm_ddl_frame = NULL;	/* of the innermost statement */

static ProcessUtility_hook_type previous_process_utility;
static object_access_hook_type previous_object_access;

/* ---- what a statement has ---- */

static bool
lsm_ddl_is_ours(const DefElem *def)
{
	return def->defnamespace != NULL && strcmp(def->defnamespace, LSM_OPTIONS_NAMESPACE) == 0;
}

static bool
lsm_ddl_has_ours(List *defs)
{
	ListCell   *lc;

	foreach(lc, defs)
	{
		if (lsm_ddl_is_ours(lfirst(lc)))
			return true;
	}
	return false;
}

/* The CREATE TABLE AS or CREATE MATERIALIZED VIEW, perhaps below EXPLAIN. */
static CreateTableAsStmt *
lsm_ddl_create_as(Node *stmt)
{
	if (IsA(stmt, ExplainStmt))
	{
		Query	   *query = castNode(Query, ((ExplainStmt *) stmt)->query);

		stmt = query->commandType == CMD_UTILITY ? query->utilityStmt : NULL;
	}
	return stmt != NULL && IsA(stmt, CreateTableAsStmt) ? (CreateTableAsStmt *) stmt : NULL;
}

static bool
lsm_ddl_concerns_us(Node *stmt)
{
	CreateTableAsStmt *create_as = lsm_ddl_create_as(stmt);
	ListCell   *lc;

	if (create_as != NULL)
		return lsm_ddl_has_ours(create_as->into->options);
	if (IsA(stmt, CreateStmt))
		return lsm_ddl_has_ours(((CreateStmt *) stmt)->options);
	if (!IsA(stmt, AlterTableStmt) || (((AlterTableStmt *) stmt)->objtype != OBJECT_TABLE &&
									   ((AlterTableStmt *) stmt)->objtype != OBJECT_MATVIEW))
		return false;
	foreach(lc, ((AlterTableStmt *) stmt)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_SetAccessMethod ||
			((cmd->subtype == AT_SetRelOptions || cmd->subtype == AT_ResetRelOptions) &&
			 lsm_ddl_has_ours((List *) cmd->def)))
			return true;
	}
	return false;
}

/* ---- taking it out ---- */

/* Move our parameters from a list to the frame. */
static void
lsm_ddl_take_options(LsmDdlFrame *frame, List **defs, bool reset)
{
	LsmDdlChange *change;
	List	   *theirs = NIL;
	ListCell   *lc;

	if (!lsm_ddl_has_ours(*defs))
		return;
	change = palloc0(sizeof(LsmDdlChange));
	change->reset = reset;
	foreach(lc, *defs)
	{
		if (lsm_ddl_is_ours(lfirst(lc)))
			change->defs = lappend(change->defs, lfirst(lc));
		else
			theirs = lappend(theirs, lfirst(lc));
	}
	frame->changes = lappend(frame->changes, change);
	*defs = theirs;
}

static void
lsm_ddl_take_set(LsmDdlFrame *frame, AlterTableCmd *cmd)
{
	List	   *all = (List *) copyObject(cmd->def);

	lsm_ddl_take_options(frame, (List **) &cmd->def, false);
	if (cmd->def == NULL && all != NIL)
	{
		ListCell   *lc;

		cmd->subtype = AT_ResetRelOptions;
		cmd->def = (Node *) all;
		foreach(lc, all)
			((DefElem *) lfirst(lc))->arg = NULL;
	}
}

static void
lsm_ddl_take_reset(LsmDdlFrame *frame, AlterTableCmd *cmd)
{
	List	   *all = (List *) cmd->def;

	/* it stays in the statement: the server refuses values, ignores names */
	lsm_ddl_take_options(frame, &all, true);
}

/* Fill the frame of a statement, a copy, and make it one that the server takes. */
static void
lsm_ddl_take(LsmDdlFrame *frame, Node *stmt)
{
	CreateTableAsStmt *create_as = lsm_ddl_create_as(stmt);
	ListCell   *lc;

	memset(frame, 0, sizeof(*frame));
	if (create_as != NULL)
	{
		frame->create = true;
		frame->relation = create_as->into->rel;
		lsm_ddl_take_options(frame, &create_as->into->options, false);
	}
	else if (IsA(stmt, CreateStmt))
	{
		frame->create = true;
		frame->relation = ((CreateStmt *) stmt)->relation;
		lsm_ddl_take_options(frame, &((CreateStmt *) stmt)->options, false);
	}
	else
	{
		frame->relation = castNode(AlterTableStmt, stmt)->relation;
		foreach(lc, ((AlterTableStmt *) stmt)->cmds)
		{
			AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

			if (cmd->subtype == AT_SetRelOptions)
				lsm_ddl_take_set(frame, cmd);
			else if (cmd->subtype == AT_ResetRelOptions)
				lsm_ddl_take_reset(frame, cmd);
			else if (cmd->subtype == AT_SetAccessMethod)
			{
				frame->sets_am = true;
				frame->am_name = cmd->name != NULL ? cmd->name : default_table_access_method;
			}
		}
	}
}

/* ---- applying it ---- */

static void
lsm_ddl_refuse(Relation rel)
{
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot specify storage parameters for a partitioned table"),
				 errhint("Specify storage parameters for its leaf partitions instead.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized parameter namespace \"" LSM_OPTIONS_NAMESPACE "\""),
			 errdetail("\"%s\" is not a table of access method \"lsm\".",
					   RelationGetRelationName(rel)),
			 errhint("Make it one with USING lsm or SET ACCESS METHOD lsm.")));
}

static bool
lsm_ddl_is_table(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_MATVIEW;
}

/* May the changes be applied to this relation, as it will be? */
static bool
lsm_ddl_fits(LsmDdlFrame *frame, Relation rel)
{
	bool		sets = false;
	bool		will_be_lsm = lsm_relation_is_lsm(rel);
	ListCell   *lc;

	if (!lsm_ddl_is_table(rel))
		return false;
	foreach(lc, frame->changes)
	{
		if (!((LsmDdlChange *) lfirst(lc))->reset)
			sets = true;
	}
	if (frame->sets_am)
		will_be_lsm = lsm_am_is_lsm(get_table_am_oid(frame->am_name, false));
	return will_be_lsm || (!sets && lsm_relation_is_lsm(rel));
}

/* The options of a table change from one list to another: so does its cold store. */
static void
lsm_ddl_change_store(Relation rel, List *from, List *to, bool test)
{
	const char *old = lsm_options_cold_store(from);
	const char *new = lsm_options_cold_store(to);

	if (new != NULL && (old == NULL || strcmp(old, new) != 0))
		lsm_cold_attach(rel, new, test);
	if (old != NULL && (new == NULL || strcmp(old, new) != 0))
		lsm_cold_release_servers(rel, new == NULL ? InvalidOid :
								 get_foreign_server_oid(new, false));
	if (new != old)
		lsm_cold_note_change(RelationGetRelid(rel));
}

static void
lsm_ddl_apply(LsmDdlFrame *frame, Relation rel)
{
	List	   *given;
	List	   *before;
	ListCell   *lc;

	if (!lsm_ddl_fits(frame, rel))
		lsm_ddl_refuse(rel);
	before = given = lsm_options_load(RelationGetRelid(rel));
	foreach(lc, frame->changes)
	{
		LsmDdlChange *change = lfirst(lc);

		given = change->reset ? lsm_options_reset(given, change->defs) :
			lsm_options_set(given, change->defs);
	}
	lsm_ddl_change_store(rel, before, given, true);
	lsm_options_store(rel, given);
	frame->changes = NIL;
}

/*
 * SET ACCESS METHOD to one that has TOAST tables: the server makes one for the
 * table's new file only if the old file had one, and an lsm table has none.  With the
 * owner in the place of the old TOAST table it is marked as part of a rewrite, until
 * the server has swapped the files: else logical decoding would collect its chunks and,
 * as it passes over their rows, not let go of them.
 */
static void
lsm_ddl_add_toast_table(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	Oid			owner = rel->rd_rel->relrewrite;
	bool		leaves = OidIsValid(owner) && lsm_ddl_is_table(rel) &&
		!lsm_relation_is_lsm(rel) && lsm_relid_is_lsm(owner);

	RelationClose(rel);
	if (!leaves)
		return;
	CommandCounterIncrement();
	NewHeapCreateToastTable(relid, (Datum) 0, AccessExclusiveLock, owner);
}

/*
 * SET UNLOGGED, just before the rows are written to the table's new file: unlogged
 * tables have no cold store, and dumps of one that had could not be restored.
 */
static void
lsm_ddl_check_unlogged(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	Oid			owner = rel->rd_rel->relrewrite;
	bool		gets_unlogged = OidIsValid(owner) && lsm_relation_is_lsm(rel) &&
		rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
		get_rel_persistence(owner) == RELPERSISTENCE_PERMANENT;

	RelationClose(rel);
	if (gets_unlogged && lsm_options_cold_store(lsm_options_load(owner)) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change table \"%s\" to unlogged because it has a cold store",
						get_rel_name(owner)),
				 errhint("Use ALTER TABLE ... RESET (lsm.cold_store).")));
}

/*
 * The server has made a relation or changed the pg_class row of one.  Is it the
 * one that the innermost statement is about?
 */
static void
lsm_ddl_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
					  void *arg)
{
	LsmDdlFrame *frame = lsm_ddl_frame;
	Relation	rel;

	if (previous_object_access)
		previous_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_DROP && sub_id == 0)
		lsm_cold_note_drop(class_id, object_id);
	if (access == OAT_POST_CREATE && class_id == DatabaseRelationId)
		lsm_table_forget_database(object_id);
	if (access == OAT_POST_CREATE && class_id == RelationRelationId && sub_id == 0)
	{
		lsm_ddl_check_unlogged(object_id);
		lsm_ddl_add_toast_table(object_id);
	}
	if (frame == NULL || frame->changes == NIL || class_id != RelationRelationId || sub_id != 0)
		return;

	/* made a moment ago, a relation cannot be found by name yet */
	if (access == OAT_POST_CREATE && frame->create)
	{
		rel = RelationIdGetRelation(object_id);
		if (strcmp(RelationGetRelationName(rel), frame->relation->relname) == 0)
			lsm_ddl_apply(frame, rel);
		RelationClose(rel);
	}
	else if (access == OAT_POST_ALTER && !frame->create &&
			 RangeVarGetRelid(frame->relation, NoLock, true) == object_id)
	{
		rel = RelationIdGetRelation(object_id);
		lsm_ddl_apply(frame, rel);
		RelationClose(rel);
	}
}

/*
 * May it be that the server has made or changed no table, and that this is no
 * error?  (If it has, the object access hook must have been called.)
 */
static bool
lsm_ddl_was_skipped(LsmDdlFrame *frame, Node *stmt)
{
	if (IsA(stmt, ExplainStmt))
		return true;			/* without ANALYZE */
	if (IsA(stmt, CreateTableAsStmt))
		return ((CreateTableAsStmt *) stmt)->if_not_exists;
	if (IsA(stmt, CreateStmt))
		return ((CreateStmt *) stmt)->if_not_exists;
	return ((AlterTableStmt *) stmt)->missing_ok;
}

/*
 * A table that has become one of another access method has no options of ours, and depends on no
 * store, to which it may have been attached before.
 */
static void
lsm_ddl_forget(LsmDdlFrame *frame)
{
	Oid			relid = RangeVarGetRelid(frame->relation, AccessShareLock, true);
	List	   *given;
	Relation	rel;

	if (!OidIsValid(relid))
		return;
	rel = relation_open(relid, NoLock);
	if (lsm_ddl_is_table(rel) && !lsm_relation_is_lsm(rel))
	{
		lsm_cold_forget(relid);
		given = lsm_options_load(relid);
		if (given != NIL)
		{
			lsm_options_store(rel, NIL);
			ereport(NOTICE,
					(errmsg("options of access method \"lsm\" of table \"%s\" are dropped",
							RelationGetRelationName(rel)),
					 errdetail("They were: %s.", lsm_options_join(given))));
		}
	}
	relation_close(rel, NoLock);
}

/* ---- SECURITY LABEL FOR lsm, as dumps have it ---- */

/* A label is about to be set; the server has checked who does it, and locked the table. */
static void
lsm_ddl_check_label(const ObjectAddress *object, const char *label)
{
	Relation	rel;
	List	   *given = NIL;

	if (object->classId != RelationRelationId || object->objectSubId != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("security labels of provider \"" LSM_OPTIONS_NAMESPACE "\" are options of tables")));
	rel = relation_open(object->objectId, NoLock);
	if (label != NULL)
	{
		if (!lsm_ddl_is_table(rel) || !lsm_relation_is_lsm(rel))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is not a table of access method \"lsm\"",
							RelationGetRelationName(rel))));
		given = lsm_options_from_label(label);
	}
	if (lsm_relation_is_lsm(rel))
		lsm_ddl_change_store(rel, lsm_options_load(object->objectId), given, false);
	CacheInvalidateRelcache(rel);
	relation_close(rel, NoLock);
}

/*
 * The provider is made known when it is asked for by name, not at library load:
 * SECURITY LABEL without FOR is for the only provider there is, and that one
 * should not be us, nor should we make it ambiguous.
 */
static void
lsm_ddl_register_provider(SecLabelStmt *stmt)
{
	static bool registered = false;

	if (registered || stmt->provider == NULL ||
		strcmp(stmt->provider, LSM_OPTIONS_NAMESPACE) != 0)
		return;
	register_label_provider(LSM_OPTIONS_NAMESPACE, lsm_ddl_check_label);
	registered = true;
}

/* ---- hooks ---- */

/* Run a statement, our part of it being in the frame; NULL if it has none. */
static void
lsm_ddl_run(LsmDdlFrame *frame, PlannedStmt *pstmt, const char *query_string,
			bool read_only_tree, ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	LsmDdlFrame *outer = lsm_ddl_frame;
	LsmColdDrops drops;

	lsm_ddl_frame = frame;
	lsm_cold_drops_begin(&drops);
	PG_TRY();
	{
		if (previous_process_utility)
			previous_process_utility(pstmt, query_string, read_only_tree, context, params,
									 query_env, dest, qc);
		else
			standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params,
									query_env, dest, qc);
	}
	PG_FINALLY();
	{
		lsm_ddl_frame = outer;
		lsm_cold_drops_end(&drops);
	}
	PG_END_TRY();
	lsm_cold_drops_check(&drops, pstmt->utilityStmt);
	lsm_cold_note_copy(pstmt->utilityStmt);
}

static void
lsm_ddl_process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
						ProcessUtilityContext context, ParamListInfo params,
						QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	LsmDdlFrame frame;

	if (IsA(pstmt->utilityStmt, SecLabelStmt))
		lsm_ddl_register_provider((SecLabelStmt *) pstmt->utilityStmt);
	lsm_cold_check_statement(pstmt->utilityStmt);
	if (!lsm_ddl_concerns_us(pstmt->utilityStmt))
	{
		lsm_ddl_run(NULL, pstmt, query_string, read_only_tree, context, params, query_env,
					dest, qc);
		return;
	}
	pstmt = copyObject(pstmt);
	lsm_ddl_take(&frame, pstmt->utilityStmt);
	lsm_ddl_run(&frame, pstmt, query_string, false, context, params, query_env, dest, qc);
	if (frame.changes != NIL && !lsm_ddl_was_skipped(&frame, pstmt->utilityStmt))
		elog(ERROR, "options of table \"%s\" were not stored", frame.relation->relname);
	if (frame.sets_am)
		lsm_ddl_forget(&frame);
}

void
lsm_ddl_install_hooks(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = lsm_ddl_process_utility;
	previous_object_access = object_access_hook;
	object_access_hook = lsm_ddl_object_access;
}
