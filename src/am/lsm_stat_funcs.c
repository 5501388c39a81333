/*-------------------------------------------------------------------------
 *
 * lsm_stat_funcs.c
 *	  SQL functions behind lsm_stat_tables and lsm_stat_progress_compaction.
 *
 * Monitoring waits for nobody: a table that is locked exclusively, or damaged,
 * shows its counters, and nulls for what would have to be read from it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/twophase.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lsm_am.h"
#include "lsm_iostat.h"
#include "lsm_lbs.h"
#include "lsm_manifest.h"
#include "lsm_mvcc.h"
#include "lsm_request.h"
#include "lsm_sharedcache.h"
#include "lsm_stat.h"
#include "lsm_store.h"
#include "lsm_try.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(lsm_stat_table_sql);
PG_FUNCTION_INFO_V1(lsm_stat_key_ranges_sql);
PG_FUNCTION_INFO_V1(lsm_stat_progress_sql);
PG_FUNCTION_INFO_V1(lsm_stat_reset_sql);

/* A row of results that is filled from left to right. */
typedef struct LsmStatRow
{
	int			n;
	Datum		values[48];
	bool		nulls[48];
} LsmStatRow;

static void
lsm_stat_put(LsmStatRow *row, Datum value)
{
	row->nulls[row->n] = false;
	row->values[row->n++] = value;
}

static void
lsm_stat_put_int(LsmStatRow *row, uint64 value)
{
	lsm_stat_put(row, Int64GetDatum((int64) value));
}

static void
lsm_stat_put_text(LsmStatRow *row, const char *value)
{
	lsm_stat_put(row, CStringGetTextDatum(value));
}

static void
lsm_stat_put_null(LsmStatRow *row)
{
	row->nulls[row->n] = true;
	row->values[row->n++] = (Datum) 0;
}

/* Null where there is nothing to divide by. */
static void
lsm_stat_put_ratio(LsmStatRow *row, uint64 of, uint64 by)
{
	if (by == 0)
		lsm_stat_put_null(row);
	else
		lsm_stat_put(row, Float8GetDatum((double) of / by));
}

static void
lsm_stat_put_time(LsmStatRow *row, TimestampTz time)
{
	if (time == 0)
		lsm_stat_put_null(row);
	else
		lsm_stat_put(row, TimestampTzGetDatum(time));
}

/* ---- who keeps old versions ---- */

/* What holds the horizon of this database back. */
typedef struct LsmStatPin
{
	uint64		xid;			/* the oldest that somebody needs; 0: nobody
								 * does */
	int			pid;			/* 0: no process */
	const char *by;
} LsmStatPin;

/*
 * Somebody needs an xid.  While its transaction runs, all snapshots need it as
 * well, so the transaction itself is the one to name.
 */
static void
lsm_stat_pin_by(LsmStatPin *pin, uint64 xid, bool own, int pid, const char *by)
{
	if (xid == 0 || (pin->xid != 0 && (pin->xid < xid || (pin->xid == xid && !own))))
		return;
	pin->xid = xid;
	pin->pid = pid;
	pin->by = by;
}

/*
 * Who has the oldest snapshot, transaction, floor or slot?  Read without locks,
 * as good as pg_stat_activity.
 */
static void
lsm_stat_find_pin(LsmStatPin *pin)
{
	TransactionId slot_xmin;
	TransactionId catalog_xmin;

	memset(pin, 0, sizeof(*pin));

	/* those of prepared transactions come last, and are not counted */
	for (uint32 i = 0; i < ProcGlobal->allProcCount + max_prepared_xacts; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		int			pid = proc->pid;
		TransactionId xid = proc->xid;

		if ((proc->databaseId != MyDatabaseId &&
			 !(proc->statusFlags & PROC_AFFECTS_ALL_HORIZONS)) ||
			(proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)))
			continue;
		if (pid != 0)
		{
			lsm_stat_pin_by(pin, lsm_full_xid(proc->xmin), false, pid, "snapshot");
			lsm_stat_pin_by(pin, lsm_full_xid(xid), true, pid, "transaction");
			lsm_stat_pin_by(pin, lsm_floor_of(i), false, pid, "transaction");
		}
		else if (TransactionIdIsNormal(xid) && TransactionIdIsInProgress(xid))
			lsm_stat_pin_by(pin, lsm_full_xid(xid), true, 0, "prepared transaction");
	}
	ProcArrayGetReplicationSlotXmin(&slot_xmin, &catalog_xmin);
	lsm_stat_pin_by(pin, lsm_full_xid(slot_xmin), false, 0, "replication slot");

	/* who needs all that is still to come keeps nothing */
	if (pin->xid >= U64FromFullTransactionId(ReadNextFullTransactionId()))
		pin->xid = 0;
}

/*
 * What is the same for all tables, or nearly all, and found by looks through all processes: once
 * for a statement, which calls the function for each table.
 */
typedef struct LsmStatShare
{
	LsmStatPin	pin;
	uint64		settled;		/* see lsm_stat_settled(); 0: not known yet */
} LsmStatShare;

static LsmStatShare *
lsm_stat_share(FmgrInfo *flinfo)
{
	LsmStatShare *share = flinfo->fn_extra;

	if (share != NULL)
		return share;
	share = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(LsmStatShare));
	if (!RecoveryInProgress())
		lsm_stat_find_pin(&share->pin);
	flinfo->fn_extra = share;
	return share;
}

/*
 * Whose old names are in the way of version identifiers?  On a standby nobody's, as nothing is
 * written there.  Temporary tables, and those that logical decoding reads, have horizons of
 * their own.
 */
static uint64
lsm_stat_settled(LsmStatShare *share, Relation rel)
{
	if (RecoveryInProgress())
		return PG_UINT64_MAX;
	if (RelationUsesLocalBuffers(rel) || RelationIsUsedAsCatalogTable(rel))
		return lsm_settled_xid(rel);
	if (share->settled == 0)
		share->settled = lsm_settled_xid(rel);
	return share->settled;
}

/* ---- what a table consists of ---- */

typedef struct LsmStatSizes
{
	uint64		memtable_bytes;
	uint64		increments;
	uint64		increment_bytes;
	uint64		dead_versions;
	uint64		dead_rows;
	uint64		used_bytes;		/* pages of the file that are not holes */
	uint64		bottom_bytes;	/* pages that rows' first versions take */
	double		row_ids_used;	/* part of the row identifiers that is used up */
	double		version_ids_used;	/* the same of version identifiers */
	double		manifest_used;	/* part of the manifest's places */
} LsmStatSizes;

/* Pages of the row log: all, or those that hold INSERTs. */
static uint64
lsm_stat_log_pages(const LsmMeta *meta, bool all)
{
	uint64		pages = 0;

	for (uint32 i = 0; i < meta->nranges; i++)
		if (meta->ranges[i].kind == LSM_RANGE_ROOT ||
			(all && meta->ranges[i].kind == LSM_RANGE_VERSION))
			pages += meta->ranges[i].pages.npages;
	return pages;
}

static uint64
lsm_stat_entry_pages(const LsmManifestEntry *entry)
{
	uint64		pages = 0;

	for (int i = 0; i < entry->nextents; i++)
		pages += entry->extents[i].npages;
	return pages;
}

/* settled: xids before it are nobody's any more. */
static void
lsm_stat_measure(const LsmView *view, uint64 settled, LsmStatSizes *sizes)
{
	uint64		used = view->meta.npages;
	uint64		bottom = lsm_stat_log_pages(&view->meta, false);

	memset(sizes, 0, sizeof(*sizes));
	sizes->memtable_bytes = lsm_stat_log_pages(&view->meta, true) * BLCKSZ;
	for (int i = 0; i < view->nentries; i++)
	{
		const LsmManifestEntry *entry = &view->entries[i];

		switch (entry->type)
		{
			case LSM_ENTRY_FREE:
				if (LSM_ENTRY_FREED_AT(entry) == 0)
					used -= lsm_stat_entry_pages(entry);
				break;
			case LSM_ENTRY_VALUES:
				bottom += lsm_stat_entry_pages(entry);
				sizes->memtable_bytes += lsm_stat_entry_pages(entry) * BLCKSZ;
				break;
			case LSM_ENTRY_SEGMENT:
				if (entry->kind == LSM_SEGKIND_DEAD)
					sizes->dead_rows += entry->dead;
				else if (entry->kind == LSM_SEGKIND_INCREMENT)
				{
					sizes->increments++;
					sizes->increment_bytes += entry->stored_bytes;
					sizes->dead_versions += entry->versions;
				}
				else
					bottom += lsm_stat_entry_pages(entry);
				break;
		}
	}
	sizes->version_ids_used = 1 - lsm_ring_left(&view->meta, view, settled);
	sizes->manifest_used = lsm_manifest_fill(view->nentries);
	if (view->meta.incarnation != 0)
		sizes->row_ids_used = 1 - (double) lsm_lbs_left(&view->meta) / LSM_FIRST_VERSION_LB;
	sizes->used_bytes = used * BLCKSZ;
	sizes->bottom_bytes = bottom * BLCKSZ;
}

/* A table that is locked, and what it is found to have. */
typedef struct LsmStatStep
{
	Relation	rel;
	LsmStatShare *share;
	LsmStatSizes *sizes;
} LsmStatStep;

static void
lsm_stat_measure_step(void *arg)
{
	LsmStatStep *step = arg;
	bool		in_use = lsm_table_in_use(step->rel);
	LsmTable   *table = lsm_table_open(step->rel);

	lsm_stat_measure(lsm_view_get(step->rel, table), lsm_stat_settled(step->share, step->rel),
					 step->sizes);
	if (!in_use)
		lsm_table_unpin(table);
}

/*
 * Read metapage and manifest of a table that is locked; false: they are damaged, or gone.  One
 * bad table is not to hide the others.
 */
static bool
lsm_stat_read_manifest(Relation rel, LsmStatShare *share, LsmStatSizes *sizes)
{
	LsmStatStep step = {rel, share, sizes};
	ErrorData  *error = lsm_try(lsm_stat_measure_step, &step);

	if (error == NULL)
		return true;
	if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED &&
		error->sqlerrcode != ERRCODE_UNDEFINED_FILE &&
		error->sqlerrcode != ERRCODE_IO_ERROR &&
		error->sqlerrcode != ERRCODE_INSUFFICIENT_PRIVILEGE)
		ReThrowError(error);
	FreeErrorData(error);
	return false;
}

/* Has this session, on this server, a file to look at? */
static bool
lsm_stat_has_file(Relation rel)
{
	if (RELATION_IS_OTHER_TEMP(rel))
		return false;
	return rel->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED || !RecoveryInProgress();
}

/*
 * What the table consists of now.  False if it is gone; *known is false if it is
 * locked exclusively or damaged, or unlogged on a standby, and could not be looked at.
 */
static bool
lsm_stat_look(Oid relid, LsmStatShare *share, LsmStatSizes *sizes, bool *known)
{
	Relation	rel;

	*known = false;
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return true;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, AccessShareLock);
		return false;
	}
	if (lsm_relation_is_lsm(rel) && lsm_stat_has_file(rel))
		*known = lsm_stat_read_manifest(rel, share, sizes);
	relation_close(rel, AccessShareLock);
	return true;
}

/* May the user see the figures of a table? */
static bool
lsm_stat_may_see(Oid relid)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		lsm_compat_owns(relid) ||
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

static void
lsm_stat_put_sizes(LsmStatRow *row, const LsmStatSizes *sizes, bool known)
{
	if (!known)
	{
		for (int i = 0; i < 7; i++)
			lsm_stat_put_null(row);
		return;
	}
	lsm_stat_put_ratio(row, sizes->used_bytes, sizes->bottom_bytes);
	lsm_stat_put(row, Float8GetDatum(sizes->row_ids_used));
	lsm_stat_put_int(row, sizes->memtable_bytes);
	lsm_stat_put_int(row, sizes->increments);
	lsm_stat_put_int(row, sizes->increment_bytes);
	lsm_stat_put_int(row, sizes->dead_versions);
	lsm_stat_put_int(row, sizes->dead_rows);
}

/* How near the table is to its limits, those that came later than the first. */
static void
lsm_stat_put_limits(LsmStatRow *row, const LsmStatSizes *sizes, bool known)
{
	if (!known)
	{
		lsm_stat_put_null(row);
		lsm_stat_put_null(row);
		return;
	}
	lsm_stat_put(row, Float8GetDatum(sizes->version_ids_used));
	lsm_stat_put(row, Float8GetDatum(sizes->manifest_used));
}

static void
lsm_stat_put_pin(LsmStatRow *row, const LsmStatPin *pin)
{
	if (pin->xid == 0)
	{
		for (int i = 0; i < 3; i++)
			lsm_stat_put_null(row);
		return;
	}
	lsm_stat_put(row, FullTransactionIdGetDatum(FullTransactionIdFromU64(pin->xid)));
	if (pin->pid != 0)
		lsm_stat_put(row, Int32GetDatum(pin->pid));
	else
		lsm_stat_put_null(row);
	lsm_stat_put_text(row, pin->by);
}

static void
lsm_stat_put_error(LsmStatRow *row, const LsmStatCopy *copy)
{
	lsm_stat_put_int(row, copy->counts[LSM_STAT_ERRORS]);
	if (copy->error_time == 0)
	{
		for (int i = 0; i < 3; i++)
			lsm_stat_put_null(row);
		return;
	}
	lsm_stat_put_text(row, copy->error_message);
	lsm_stat_put_text(row, unpack_sql_state(copy->error_code));
	lsm_stat_put_time(row, copy->error_time);
}

/* How the table fares with workers.  While one is at it, nobody knows when it will be tried again. */
static void
lsm_stat_put_status(LsmStatRow *row, Oid relid)
{
	LsmWorkerStatus status = {0};

	(void) lsm_worker_status(MyDatabaseId, relid, &status);
	lsm_stat_put(row, Int32GetDatum(status.failures));
	if (status.failures > 0 && status.waiting)
		lsm_stat_put_time(row, status.due);
	else
		lsm_stat_put_null(row);
}

/*
 * lsm_stat_table(oid): the row of lsm_stat_tables for a table, none if it is no
 * lsm table (any more), another session's temporary one, or not for the user to
 * see.  Never waits for a lock.
 */
Datum
lsm_stat_table_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relid = PG_GETARG_OID(0);
	LsmStatRow	row = {0};
	LsmStatCopy copy;
	LsmStatSizes sizes;
	LsmStatShare *share;
	bool		known = false;
	const uint64 *counts = copy.counts;
	uint64		rows;
	uint64		written;

	InitMaterializedSRF(fcinfo, 0);
	if (!lsm_relid_is_lsm(relid) || !lsm_stat_may_see(relid))
		return (Datum) 0;
	share = lsm_stat_share(fcinfo->flinfo);
	if (!lsm_stat_look(relid, share, &sizes, &known))
		return (Datum) 0;
	lsm_table_give_counts();
	(void) lsm_stat_read(relid, &copy);

	rows = counts[LSM_STAT_ROWS_MEMTABLE] + counts[LSM_STAT_ROWS_SEGMENTS];
	written = counts[LSM_STAT_FLUSH_BYTES_WRITTEN] + counts[LSM_STAT_MINOR_BYTES_WRITTEN] +
		counts[LSM_STAT_MAJOR_BYTES_WRITTEN] + counts[LSM_STAT_MOVED_BYTES];
	lsm_stat_put_int(&row, rows);
	for (int i = LSM_STAT_ROWS_MEMTABLE; i <= LSM_STAT_INDEX_HIT; i++)
		lsm_stat_put_int(&row, counts[i]);
	lsm_stat_put_ratio(&row, counts[LSM_STAT_RECORDS_MEMTABLE] + counts[LSM_STAT_RECORDS_SEGMENTS],
					   rows);
	lsm_stat_put_ratio(&row, written, counts[LSM_STAT_FLUSH_BYTES_WRITTEN]);
	lsm_stat_put_sizes(&row, &sizes, known);
	lsm_stat_put_pin(&row, &share->pin);
	for (int i = LSM_STAT_FLUSHES; i <= LSM_STAT_STALLS; i++)
		lsm_stat_put_int(&row, counts[i]);
	lsm_stat_put(&row, Float8GetDatum(counts[LSM_STAT_STALL_US] / 1000.0));
	lsm_stat_put(&row, Float8GetDatum(copy.longest_stall_us / 1000.0));
	lsm_stat_put_error(&row, &copy);
	lsm_stat_put_time(&row, copy.reset_time);
	lsm_stat_put_int(&row, counts[LSM_STAT_STORE_REQUESTS]);
	lsm_stat_put_int(&row, counts[LSM_STAT_STORE_BYTES_READ]);
	lsm_stat_put_limits(&row, &sizes, known);
	lsm_stat_put_int(&row, counts[LSM_STAT_MOVES]);
	lsm_stat_put_int(&row, counts[LSM_STAT_MOVED_BYTES]);
	lsm_stat_put_status(&row, relid);
	Assert(row.n == rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	return (Datum) 0;
}

/*
 * lsm_stat_key_ranges(regclass): what reading segments has cost by key range, since a
 * major compaction last went over it.  None for the tables above.
 */
Datum
lsm_stat_key_ranges_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relid = PG_GETARG_OID(0);
	LsmStatCopy copy;

	InitMaterializedSRF(fcinfo, 0);
	if (!lsm_relid_is_lsm(relid) || !lsm_stat_may_see(relid))
		return (Datum) 0;
	lsm_table_give_counts();
	(void) lsm_stat_read(relid, &copy);
	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
	{
		LsmStatRow	row = {0};

		if (copy.buckets[i].records == 0 && copy.buckets[i].rows == 0)
			continue;
		lsm_stat_put_int(&row, (uint64) i << copy.shift);
		lsm_stat_put_int(&row, ((uint64) (i + 1) << copy.shift) - 1);
		lsm_stat_put_int(&row, copy.buckets[i].rows);
		lsm_stat_put_int(&row, copy.buckets[i].records);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

static const char *
lsm_stat_kind_name(LsmJobKind kind)
{
	switch (kind)
	{
		case LSM_JOB_FLUSH:
			return "flush";
		case LSM_JOB_MINOR:
			return "minor compaction";
		case LSM_JOB_MOVE:
			return "move";
		case LSM_JOB_TRIM:
			return "trim";
		default:
			return "major compaction";
	}
}

static const char *
lsm_stat_phase_name(LsmJobPhase phase)
{
	switch (phase)
	{
		case LSM_PHASE_WAITING:
			return "waiting for another job";
		case LSM_PHASE_PREPARING:
			return "preparing";
		case LSM_PHASE_MERGING:
			return "merging";
		case LSM_PHASE_MOVING:
			return "moving segments";
		case LSM_PHASE_GIVING_BACK:
			return "giving back space";
		default:
			return "swapping segments";
	}
}

/*
 * lsm_stat_progress(): the jobs that run now, in all databases.  Like the server's
 * progress views, it shows only process and database of jobs of other users.
 */
Datum
lsm_stat_progress_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	LsmJobProgress *jobs;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	n = lsm_progress_list(&jobs);
	for (int i = 0; i < n; i++)
	{
		LsmJobProgress *job = &jobs[i];
		LsmStatRow	row = {0};

		lsm_stat_put(&row, Int32GetDatum(job->pid));
		lsm_stat_put(&row, ObjectIdGetDatum(job->dboid));
		if (all || has_privs_of_role(GetUserId(), job->userid))
		{
			lsm_stat_put(&row, ObjectIdGetDatum(job->relid));
			lsm_stat_put_text(&row, lsm_stat_kind_name(job->kind));
			lsm_stat_put_text(&row, lsm_stat_phase_name(job->phase));
			for (int j = 0; j < LSM_PROGRESS_PARAMS; j++)
				lsm_stat_put_int(&row, job->params[j]);
			lsm_stat_put_time(&row, job->start);
		}
		while (row.n < rsinfo->setDesc->natts)
			lsm_stat_put_null(&row);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

/*
 * lsm_stat_reset(): begin to count anew, for all tables and stores of the database,
 * and what is counted for the whole server.  Who may
 * is a matter of the function's privileges.
 */
Datum
lsm_stat_reset_sql(PG_FUNCTION_ARGS)
{
	lsm_stat_reset();
	lsm_iostat_reset();
	lsm_sharedcache_stat_reset();
	lsm_store_stat_reset();
	PG_RETURN_VOID();
}
