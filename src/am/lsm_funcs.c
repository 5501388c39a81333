/*-------------------------------------------------------------------------
 *
 * lsm_funcs.c
 *	  SQL functions: flush, compaction, list of segments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lsm_am.h"
#include "lsm_check.h"
#include "lsm_cold.h"
#include "lsm_cold_ddl.h"
#include "lsm_cold_move.h"
#include "lsm_compact.h"
#include "lsm_options.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(lsm_flush_sql);
PG_FUNCTION_INFO_V1(lsm_minor_compact_sql);
PG_FUNCTION_INFO_V1(lsm_major_compact_sql);
PG_FUNCTION_INFO_V1(lsm_segments_sql);
PG_FUNCTION_INFO_V1(lsm_check_sql);
PG_FUNCTION_INFO_V1(lsm_options_sql);

/* Raise an error unless the user may read, or maintain, a relation. */
static void
lsm_funcs_check_rights(Oid relid, bool maintain)
{
	char	   *name = get_rel_name(relid);
	AclResult	result;

	if (name == NULL)
		return;					/* try_relation_open() finds none either */
	if (maintain)
		result = lsm_compat_maintain_check(relid);
	else if (lsm_compat_owns(relid))
		result = ACLCHECK_OK;
	else
		result = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), name);
}

/*
 * Open a table for one of the functions: it must be of this access method, and
 * the caller must have the right to maintain it, or to SELECT where reading is
 * enough.  Without it, the caller does not get to wait for the lock.
 */
static Relation
lsm_funcs_open(Oid relid, LOCKMODE lockmode, bool maintain)
{
	Relation	rel;
	char		relkind;

	lsm_funcs_check_rights(relid, maintain);
	rel = try_relation_open(relid, lockmode);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	relkind = rel->rd_rel->relkind;
	if ((relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW) || !lsm_relation_is_lsm(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table of access method \"lsm\"",
						RelationGetRelationName(rel)),
				 relkind != RELKIND_PARTITIONED_TABLE ? 0 :
				 errhint("It is partitioned: call the function for its leaf partitions.")));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));
	if (RecoveryInProgress() && rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary or unlogged relations during recovery")));
	return rel;
}

static Datum
lsm_funcs_job(FunctionCallInfo fcinfo, const char *name, void (*job) (Relation, LsmJobStats *))
{
	Relation	rel;
	LsmJobStats stats = {0};
	TupleDesc	tupdesc;
	Datum		values[6];
	bool		nulls[6] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PreventCommandDuringRecovery(name);
	PreventCommandIfReadOnly(name);
	PreventCommandIfParallelMode(name);
	rel = lsm_funcs_open(PG_GETARG_OID(0), AccessShareLock, true);
	(void) lsm_floor();
	job(rel, &stats);
	relation_close(rel, AccessShareLock);

	values[0] = Int64GetDatum(stats.segments_in);
	values[1] = Int64GetDatum(stats.segments_out);
	values[2] = Int64GetDatum(stats.rows_in);
	values[3] = Int64GetDatum(stats.rows_out);
	values[4] = Int64GetDatum(stats.bytes_read);
	values[5] = Int64GetDatum(stats.bytes_written);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls));
}

/*
 * lsm_flush(regclass): write what is in the memtable to segments.  Counts
 * segments, records and bytes.  Takes AccessShareLock and waits for a flush of
 * the table that runs.
 */
Datum
lsm_flush_sql(PG_FUNCTION_ARGS)
{
	return lsm_funcs_job(fcinfo, "lsm_flush()", lsm_flush);
}

/* lsm_minor_compact(regclass): merge increments; waits for another one only. */
Datum
lsm_minor_compact_sql(PG_FUNCTION_ARGS)
{
	return lsm_funcs_job(fcinfo, "lsm_minor_compact()", lsm_minor);
}

/* The same, and then what is not where the table's cold store wants it is moved. */
static void
lsm_funcs_major(Relation rel, LsmJobStats *stats)
{
	lsm_major_finish(rel, stats);
	lsm_cold_move_all(rel, stats);

	/* wait for those that workers are moving, and move what they have not */
	lsm_major_wait(rel);
	lsm_cold_move_all(rel, stats);
	lsm_cold_tidy(rel);
	lsm_cold_pass_stamps(rel);
}

/*
 * lsm_major_compact(regclass): merge increments into the baseline; waits for those
 * of workers, too.
 */
Datum
lsm_major_compact_sql(PG_FUNCTION_ARGS)
{
	return lsm_funcs_job(fcinfo, "lsm_major_compact()", lsm_funcs_major);
}

static const char *
lsm_kind_name(uint16 kind)
{
	switch (kind)
	{
		case LSM_SEGKIND_INSERT:
			return "insert";
		case LSM_SEGKIND_INCREMENT:
			return "increment";
		case LSM_SEGKIND_BASELINE:
			return "baseline";
		default:
			return "dead";
	}
}

static Datum
lsm_tid_datum(LsmTid tid)
{
	ItemPointer pointer = palloc(sizeof(ItemPointerData));

	lsm_tid_to_pointer(tid, pointer);
	return PointerGetDatum(pointer);
}

/* lsm_segments(regclass): the segments that hold rows, oldest number first. */
Datum
lsm_segments_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel = lsm_funcs_open(PG_GETARG_OID(0), AccessShareLock, false);
	LsmView    *view = lsm_view_get(rel, lsm_table_open(rel));

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry *entry = &view->entries[i];
		Datum		values[13];
		bool		nulls[13] = {false};

		if (entry->type != LSM_ENTRY_SEGMENT || entry->kind == LSM_SEGKIND_DEAD)
			continue;
		values[0] = Int64GetDatum((int64) entry->segment_id);
		values[1] = Int32GetDatum(entry->kind == LSM_SEGKIND_BASELINE ? 2 : 1);
		values[2] = CStringGetTextDatum(lsm_kind_name(entry->kind));
		values[3] = lsm_tid_datum(entry->first_tid);
		values[4] = lsm_tid_datum(entry->last_tid);
		values[5] = Int64GetDatum((int64) entry->rows);
		values[6] = Int64GetDatum((int64) entry->versions);
		values[7] = Int64GetDatum((int64) entry->blocks);
		values[8] = Int64GetDatum((int64) entry->raw_bytes);
		values[9] = Int64GetDatum((int64) entry->stored_bytes);
		values[10] = BoolGetDatum((entry->flags & LSM_SEGFLAG_ALL_VISIBLE) != 0);
		nulls[12] = !lsm_entry_is_cold(entry);
		if (nulls[12])
			values[11] = CStringGetTextDatum("local");
		else
		{
			char		key[LSM_COLD_KEY_BYTES];

			lsm_cold_key(entry, key);
			values[11] = CStringGetTextDatum(lsm_cold_server_name(lsm_entry_object(entry)));
			values[12] = CStringGetTextDatum(key);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

static void
lsm_check_report(void *arg, const char *problem)
{
	ReturnSetInfo *rsinfo = arg;
	Datum		value = CStringGetTextDatum(problem);
	bool		null = false;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &null);
}

/*
 * lsm_check(regclass): a row for each problem.  Takes ShareUpdateExclusiveLock
 * and keeps flushes and compactions of the table waiting; reads all of it.  So it
 * takes the right to maintain the table, except on a standby.
 */
Datum
lsm_check_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;

	rel = lsm_funcs_open(PG_GETARG_OID(0), RecoveryInProgress() ? AccessShareLock :
						 ShareUpdateExclusiveLock, !RecoveryInProgress());
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	lsm_check(rel, lsm_check_report, rsinfo);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/*
 * lsm_options(regclass): a row for each option of a table.  None for relations
 * that are no tables of this access method, so that it can be joined with
 * pg_class.  Like storage parameters, options are open to everybody.
 */
Datum
lsm_options_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relid = PG_GETARG_OID(0);
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	if (!lsm_relid_is_lsm(relid))
		return (Datum) 0;
	foreach(lc, lsm_options_show(relid))
	{
		LsmOptionShown *shown = lfirst(lc);
		Datum		values[3];
		bool		nulls[3] = {false};

		values[0] = CStringGetTextDatum(psprintf(LSM_OPTIONS_NAMESPACE ".%s", shown->name));
		values[1] = CStringGetTextDatum(shown->value);
		values[2] = CStringGetTextDatum(shown->given ? "table" : "default");
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
