/*-------------------------------------------------------------------------
 *
 * lsm_vacuum.c
 *	  VACUUM: flush, compaction, removal of dead roots from indexes, statistics.
 *
 * Order: what is dead is put on dead lists by flush and compaction; the roots on
 * the lists are removed from all indexes; then the lists go.  Nothing else says
 * that a root is dead: that it cannot be found is no proof (I12).
 *
 * VACUUM by hand, and one that has to freeze, compacts all there is but for what
 * compactions by workers have claimed, for whose end it does not wait.  Autovacuum
 * does what lsm_pick_job() finds worth it.  What either leaves for such a reason is not
 * reported as dead rows: else autovacuum would come again and again for the same ones.
 *
 * From the moment on in which the table is so old that the server's failsafe comes into force,
 * VACUUM makes no pauses and leaves indexes, dead lists and the end of the file alone.  It
 * compacts no less, as that is what lets it freeze.
 *
 * A store that is away is no reason for VACUUM to fail: it warns, and goes on with what
 * needs no store.  What is left so holds relfrozenxid back as far as its records do, as
 * with any increment that stays.
 *
 * Then free extents and the free end of the file go back to the file system
 * (lsm_truncate.c).
 *
 * VACUUM has PROC_IN_VACUUM set: it is given no xid and its snapshot protects
 * nothing.  All it does are edits, which need neither.  It names no version, so it has no
 * floor (I7), which would keep the versions of all tables of the database from being settled
 * for as long as it runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/index.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "lsm_am.h"
#include "lsm_cold_move.h"
#include "lsm_compact.h"
#include "lsm_lbs.h"
#include "lsm_options.h"
#include "lsm_pick.h"
#include "lsm_stop.h"
#include "lsm_store.h"
#include "lsm_try.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
#include "utils/lsyscache.h"
#include "utils/pg_rusage.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* How long VACUUM tries to get the lock for giving the end of the file back. */
#define LSM_TRUNCATE_WAIT_MS	50
#define LSM_TRUNCATE_TRIES		100

/* VACUUM warns when less than this part of the version identifiers is left. */
#define LSM_WARN_RING_DIVISOR	4

/* Compactions that one autovacuum of a table does at most. */
#define LSM_VACUUM_JOBS			100

/* Dead roots of one pass over the indexes. */
typedef struct LsmDeadRoots
{
	LsmTid	   *roots;			/* sorted */
	uint64		n;
	uint64		max;			/* for one pass, unless one list is longer */
	uint64		limit;			/* what parallel workers have room for; 0:
								 * none */
	List	   *uids;			/* of the lists that they come from: uint64 * */
	uint64	   *lists;			/* uids of all that this VACUUM takes, sorted */
	int			nlists;
} LsmDeadRoots;

/* Roots, and uids. */
StaticAssertDecl(sizeof(LsmTid) == sizeof(uint64), "a TID is compared as a uid is");

static int
lsm_dead_cmp(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

static bool
lsm_dead_callback(ItemPointer itemptr, void *state)
{
	LsmDeadRoots *dead = state;
	LsmTid		root = lsm_tid_from_pointer(itemptr);

	return bsearch(&root, dead->roots, dead->n, sizeof(LsmTid), lsm_dead_cmp) != NULL;
}

static inline bool
lsm_entry_is_dead_list(const LsmManifestEntry *entry)
{
	return entry->type == LSM_ENTRY_SEGMENT && entry->kind == LSM_SEGKIND_DEAD;
}

/* The table whose lists the VACUUM of this process takes. */
static LsmTableShared *vacuum_has_lists;

/* It does so no more: dead lists may be merged.  Also at the end of the transaction, however that ends. */
void
lsm_vacuum_end_lists(void)
{
	if (vacuum_has_lists != NULL)
		pg_atomic_write_u64(&vacuum_has_lists->vacuum_lists, 0);
	vacuum_has_lists = NULL;
}

/*
 * The lists that this VACUUM takes.  Others may come all the time, and each would have it scan
 * the indexes once more: they are left to the next one.
 */
static void
lsm_dead_note_lists(Relation rel, LsmTable *table, LsmDeadRoots *dead)
{
	LsmView    *view = lsm_view_get(rel, table);

	dead->lists = MemoryContextAllocHuge(CurrentMemoryContext,
										 Max(view->nentries, 1) * sizeof(uint64));
	dead->nlists = 0;
	for (int i = 0; i < view->nentries; i++)
		if (lsm_entry_is_dead_list(&view->entries[i]))
			dead->lists[dead->nlists++] = view->entries[i].uid;
	qsort(dead->lists, dead->nlists, sizeof(uint64), lsm_dead_cmp);
	vacuum_has_lists = table->shared;
	pg_atomic_write_u64(&table->shared->vacuum_lists, view->meta.next_segment_id);
}

static bool
lsm_dead_is_known(const LsmDeadRoots *dead, uint64 uid)
{
	return bsearch(&uid, dead->lists, dead->nlists, sizeof(uint64), lsm_dead_cmp) != NULL;
}

/*
 * Read dead lists until there are enough roots for one pass; those that are
 * left come with the next.  A list is taken whole.
 */
static void
lsm_dead_collect(Relation rel, LsmTable *table, LsmDeadRoots *dead)
{
	LsmView    *view = lsm_view_get(rel, table);
	LsmManifestEntry *lists = MemoryContextAllocHuge(CurrentMemoryContext,
													 Max(dead->nlists, 1) * sizeof(LsmManifestEntry));
	int			nlists = 0;

	dead->n = 0;
	list_free_deep(dead->uids);
	dead->uids = NIL;
	for (int i = 0; i < view->nentries && nlists < dead->nlists; i++)
		if (lsm_entry_is_dead_list(&view->entries[i]) &&
			lsm_dead_is_known(dead, view->entries[i].uid))
			lists[nlists++] = view->entries[i];
	for (int i = 0; i < nlists; i++)
	{
		const LsmManifestEntry *entry = &lists[i];
		uint64		n;
		LsmTid	   *roots;
		uint64	   *uid;

		if (dead->n > 0 && dead->n + entry->dead > dead->max)
			continue;
		if (dead->limit > 0 && dead->n + entry->dead > dead->limit)
			continue;			/* a list that is newer than the limit */
		if (!lsm_reader_dead_list_of(rel, table, entry->uid, &roots, &n))
			continue;
		if (dead->roots == NULL)
			dead->roots = MemoryContextAllocHuge(CurrentMemoryContext, Max(n, 1) * sizeof(LsmTid));
		else
			dead->roots = repalloc_huge(dead->roots, Max(dead->n + n, 1) * sizeof(LsmTid));
		memcpy(dead->roots + dead->n, roots, n * sizeof(LsmTid));
		dead->n += n;
		if (roots != NULL)
			pfree(roots);
		uid = palloc(sizeof(uint64));
		*uid = entry->uid;
		dead->uids = lappend(dead->uids, uid);
	}
	if (dead->n > 1)
		qsort(dead->roots, dead->n, sizeof(LsmTid), lsm_dead_cmp);
	pfree(lists);
}

/*
 * A standby's snapshot may still see rows whose index entries go now; the
 * records that dropped the rows carried their xids, this one speaks for all.
 */
static void
lsm_dead_log_conflict(Relation rel)
{
	LsmHorizons horizons;

	lsm_horizons(rel, &horizons);
	lsm_wal_conflict(rel, horizons.visible > 0 ? horizons.visible - 1 : 0);
}

/*
 * Drop the lists whose roots no index holds any more.  Race: a flush that had begun before they
 * were noted may have merged them with others (lsm_merge_dead_lists()): then the next VACUUM
 * looks for their roots once more.
 */
static void
lsm_dead_forget(Relation rel, LsmTable *table, LsmDeadRoots *dead)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_VACUUM);
	bool		any = false;
	ListCell   *lc;

	foreach(lc, dead->uids)
	{
		uint64		uid = *(uint64 *) lfirst(lc);

		if (lsm_edit_change(edit, uid) == NULL)
			continue;
		lsm_edit_remove_segment(edit, uid);
		any = true;
	}
	if (any)
		lsm_edit_commit(edit);
	else
		lsm_edit_abandon(edit);
}

/* The xid that no unresolved record precedes. */
static uint64
lsm_vacuum_oldest_xid(Relation rel, LsmTable *table, uint64 limit)
{
	LsmView    *view = lsm_view_get(rel, table);
	uint64		oldest = limit;

	if (view->meta.leftover_xid != 0)
		oldest = Min(oldest, view->meta.leftover_xid);
	for (uint32 i = 0; i < view->meta.nranges; i++)
	{
		/* an empty memtable holds nothing back */
		if (view->meta.ranges[i].kind == LSM_RANGE_FREE)
			continue;
		oldest = Min(oldest, view->meta.ranges[i].generation == view->meta.flushing ?
					 view->meta.flushing_xid : view->meta.generation_xid);
	}
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_SEGMENT && view->entries[i].min_unresolved != 0)
			oldest = Min(oldest, view->entries[i].min_unresolved);
	return oldest;
}

/*
 * Rows that only the row log holds, counted by a look at its pages; in *aborted those
 * of rolled-back transactions.
 */
static double
lsm_vacuum_count_memtable(Relation rel, LsmTable *table, double *aborted)
{
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;
	LsmMeta		meta = lsm_view_get(rel, table)->meta;
	double		rows = 0;

	*aborted = 0;
	for (uint32 i = 0; i < meta.nranges; i++)
	{
		const LsmRowRange *range = &meta.ranges[i];

		for (uint32 j = 0; range->kind == LSM_RANGE_ROOT && j < range->pages.npages; j++)
		{
			LsmView    *view = lsm_view_get(rel, table);
			LsmRowRange *now = lsm_view_range(view, range->lb);
			BlockNumber lb;
			OffsetNumber before;

			/* what is flushed meanwhile need not be exact: a load would have this begin anew */
			if (now == NULL || now->pages.start != range->pages.start)
				break;
			if (!lsm_rowlog_copy_page(rel, view, now, j, copy.data, &lb, &before))
				continue;
			for (OffsetNumber at = FirstOffsetNumber; at <= PageGetMaxOffsetNumber(page); at++)
			{
				LsmRowHead	head;

				lsm_record_head((LsmRecord *) PageGetItem(page, PageGetItemId(page, at)),
								LSM_TID(lb, before + at), &head);
				if (lsm_xid_state(&head) == LSM_XID_ABORTED)
					*aborted += 1;
				else
					rows += 1;
			}
		}
	}
	return rows;
}

/* Is there anything in the memtable? */
static bool
lsm_vacuum_should_flush(Relation rel, LsmTable *table)
{
	LsmView    *view = lsm_view_get(rel, table);

	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind != LSM_RANGE_FREE)
			return true;
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_VALUES)
			return true;
	return false;
}

/*
 * VACUUM compacts, because nothing else removes rows that are dead.  Autovacuum
 * does not if the table's owner says so, except where it has to freeze.
 */
static bool
lsm_vacuum_should_compact(Relation rel, bool aggressive)
{
	return aggressive || !AmAutoVacuumWorkerProcess() || lsm_options_auto_compact(rel);
}

/* What one VACUUM works with, and what it has done. */
typedef struct LsmVacuum
{
	Relation	rel;
	LsmTable   *table;
	VacuumParams *params;
	BufferAccessStrategy strategy;
	LsmCutoffs	cutoffs;
	bool		verbose;
	bool		failsafe;		/* lsm_vacuum_failsafe() */
	bool		cleanup;		/* indexes and dead lists */
	bool		truncate;
	int			nindexes;
	Relation   *indexes;
	char	  **index_names;
	IndexBulkDeleteResult **results;
	ParallelVacuumState *parallel;	/* NULL: one process does it all */
	LsmDeadRoots dead;
	LsmJobStats flushed;
	LsmJobStats compacted;
	int64		removed;		/* dead roots */
	int			passes;
	double		rows;
	double		versions;		/* in increments, and of rolled-back rows */
	double		pending;		/* of them, what has to wait for transactions */
	int			increments;		/* that are left */
	double		ends;			/* records in them that end rows */
	const char *left;			/* why they are; NULL: transactions need them */
	bool		came_to;		/* the last job has done something */
	bool		store_failed;	/* what needs a store is left */
	BlockNumber pages;			/* of the file */
	BlockNumber pages_before;	/* it was truncated */
	uint64		moved;			/* pages of segments, for that */
	uint64		holes;
	uint64		oldest_xid;
	bool		xid_updated;	/* relfrozenxid is oldest_xid now, and was not */
	bool		multi_updated;	/* the same of relminmxid, and its cutoff */
	PGRUsage	usage;
	BufferUsage buffers;
	WalUsage	wal;
	TimestampTz start;
} LsmVacuum;

/*
 * Live rows, as far as the manifest tells, and what is left in increments.  Rows
 * that these end for everybody are not live.
 */
static void
lsm_vacuum_count(LsmVacuum *vacuum)
{
	LsmView    *view = lsm_view_get(vacuum->rel, vacuum->table);
	LsmHorizons horizons;
	double		aborted;

	lsm_horizons(vacuum->rel, &horizons);
	for (int i = 0; i < view->nbase; i++)
		vacuum->rows += view->base[i]->rows;
	for (int i = 0; i < view->nincrements; i++)
	{
		const LsmManifestEntry *entry = view->increments[i];

		vacuum->increments++;
		vacuum->versions += entry->versions;
		vacuum->ends += entry->dead;
		if (entry->max_xid >= horizons.settled)
			vacuum->pending += entry->versions;
		if (entry->max_xid < horizons.visible)
			vacuum->rows = Max(vacuum->rows - entry->dead, 0);
	}
	vacuum->rows += lsm_vacuum_count_memtable(vacuum->rel, vacuum->table, &aborted);
	vacuum->versions += aborted;
	vacuum->pending += aborted;
}

/*
 * Rows to be reported as dead.  Those that were left because they are not worth it
 * must not bring autovacuum back; new ones are counted from 0.
 */
static double
lsm_vacuum_report_dead(const LsmVacuum *vacuum)
{
	return vacuum->left != NULL ? vacuum->pending : vacuum->versions;
}

/*
 * Is the table so old by now that nothing but freezing matters?  From then on VACUUM goes without
 * pauses, and leaves indexes and the end of the file alone.  It is asked at the start, and
 * again and again, as VACUUM may go on for days.
 */
static bool
lsm_vacuum_failsafe(LsmVacuum *vacuum)
{
	Relation	rel = vacuum->rel;

	if (vacuum->failsafe || !lsm_compat_failsafe(rel, &vacuum->cutoffs))
		return vacuum->failsafe;
	ereport(WARNING,
			(errmsg("bypassing nonessential maintenance of table \"%s.%s.%s\" as a failsafe after %d index scans",
					get_database_name(MyDatabaseId),
					get_namespace_name(RelationGetNamespace(rel)),
					RelationGetRelationName(rel), vacuum->passes),
			 errdetail("The table's relfrozenxid or relminmxid is too far in the past."),
			 errhint("Consider increasing configuration parameter \"maintenance_work_mem\" or \"autovacuum_work_mem\".\n"
					 "You might also need to consider other ways for VACUUM to keep up with the allocation of transaction IDs.")));
	vacuum->failsafe = true;
	vacuum->cleanup = false;
	vacuum->truncate = false;
	lsm_compat_failsafe_begins();
	return true;
}

static void
lsm_vacuum_begin(LsmVacuum *vacuum, Relation rel, VacuumParams *params,
				 BufferAccessStrategy strategy)
{
	memset(vacuum, 0, sizeof(*vacuum));
	pg_rusage_init(&vacuum->usage);
	vacuum->start = GetCurrentTimestamp();
	vacuum->buffers = pgBufferUsage;
	vacuum->wal = pgWalUsage;
	vacuum->rel = rel;
	vacuum->table = lsm_table_open(rel);
	vacuum->params = params;
	vacuum->strategy = strategy;
	vacuum->verbose = (params->options & VACOPT_VERBOSE) != 0;
	vacuum->cleanup = params->index_cleanup != VACOPTVALUE_DISABLED;
	vacuum->truncate = params->truncate != VACOPTVALUE_DISABLED;
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	lsm_compat_cutoffs(rel, params, &vacuum->cutoffs);
	if (params->options & VACOPT_DISABLE_PAGE_SKIPPING)
		vacuum->cutoffs.aggressive = true;
	if (vacuum->verbose)
		ereport(INFO,
				(vacuum->cutoffs.aggressive ?
				 errmsg("aggressively vacuuming \"%s.%s.%s\"", get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel)) :
				 errmsg("vacuuming \"%s.%s.%s\"", get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel))));
	(void) lsm_vacuum_failsafe(vacuum);
	vac_open_indexes(rel, RowExclusiveLock, &vacuum->nindexes, &vacuum->indexes);
	vacuum->results = palloc0(Max(vacuum->nindexes, 1) * sizeof(IndexBulkDeleteResult *));
	vacuum->index_names = palloc(Max(vacuum->nindexes, 1) * sizeof(char *));
	for (int i = 0; i < vacuum->nindexes; i++)
		vacuum->index_names[i] = pstrdup(RelationGetRelationName(vacuum->indexes[i]));
}

/* A step of VACUUM that may need a store; decision: what lsm_vacuum_job() does. */
typedef struct LsmVacuumStep
{
	LsmVacuum  *vacuum;
	void		(*run) (LsmVacuum *vacuum, const LsmPickDecision *decision);
	const LsmPickDecision *decision;
	bool		moves;			/* any error is a warning, not only the store's */
} LsmVacuumStep;

static void
lsm_vacuum_run_step(void *arg)
{
	LsmVacuumStep *step = arg;

	step->run(step->vacuum, step->decision);
}

/*
 * Do a step.  That the store is away is no reason for VACUUM to fail.  False: it is, and
 * has been told; what the step had done by then remains.
 */
static bool
lsm_vacuum_step(LsmVacuumStep *step)
{
	LsmVacuum  *vacuum = step->vacuum;
	uint64		failures = lsm_store_failures;
	ErrorData  *error;

	if (!step->moves && lsm_view_get(vacuum->rel, vacuum->table)->meta.version < LSM_FORMAT_COLD)
	{
		lsm_vacuum_run_step(step);
		return true;
	}
	error = lsm_try(lsm_vacuum_run_step, step);
	if (error == NULL)
		return true;
	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_INTERNAL_ERROR ||
		(!step->moves && lsm_store_failures == failures))
		ReThrowError(error);
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 step->moves ?
			 errmsg("segments of table \"%s\" were not moved: %s",
					RelationGetRelationName(vacuum->rel), error->message) :
			 errmsg("segments of table \"%s\" were not merged: %s",
					RelationGetRelationName(vacuum->rel), error->message),
			 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0));
	return false;
}

static void
lsm_vacuum_job(LsmVacuum *vacuum, const LsmPickDecision *decision)
{
	vacuum->came_to = lsm_job_call(vacuum->rel, decision, decision->kind == LSM_JOB_FLUSH ?
								   &vacuum->flushed : &vacuum->compacted);
}

/* Between two parts of a major, which may take as long as all of VACUUM. */
static void
lsm_vacuum_between_parts(void *arg)
{
	(void) lsm_vacuum_failsafe(arg);
}

static void
lsm_vacuum_major(LsmVacuum *vacuum, const LsmPickDecision *decision)
{
	lsm_major(vacuum->rel, lsm_vacuum_between_parts, vacuum, &vacuum->compacted);
}

static void
lsm_vacuum_move_all(LsmVacuum *vacuum, const LsmPickDecision *decision)
{
	lsm_cold_move_all(vacuum->rel, &vacuum->compacted);
}

/* Have compactions of others claimed increments that are left? */
static bool
lsm_vacuum_workers_have_some(LsmVacuum *vacuum)
{
	LsmTableShared *shared = vacuum->table->shared;
	LsmView    *view;
	bool		any = false;

	LWLockAcquire(&shared->edit_lock, LW_SHARED);
	view = lsm_view_get(vacuum->rel, vacuum->table);
	for (int i = 0; i < view->nincrements && !any; i++)
		any = view->increments[i]->gen_hi >= lsm_claimed_by_minor(shared) ||
			lsm_claimed_by_major(shared, view->increments[i]->first_tid,
								 view->increments[i]->last_tid);
	LWLockRelease(&shared->edit_lock);
	return any;
}

/*
 * Do what is worth it, one job after the other.  What other processes are at is left
 * to them, and so is what needs a store that has failed.
 */
static void
lsm_vacuum_compact_worth(LsmVacuum *vacuum)
{
	uint32		spent = 0;		/* kinds of jobs that have come to nothing */

	for (int i = 0; i < LSM_VACUUM_JOBS; i++)
	{
		LsmPickDecision decision;
		LsmVacuumStep step = {.vacuum = vacuum,.run = lsm_vacuum_job,.decision = &decision};
		bool		done;

		CHECK_FOR_INTERRUPTS();
		(void) lsm_vacuum_failsafe(vacuum);
		lsm_resolve_segments(vacuum->rel);
		done = !lsm_pick_job(vacuum->rel, spent, &decision) || decision.kind == LSM_JOB_RESOLVE ||
			decision.kind == LSM_JOB_MOVE || decision.kind == LSM_JOB_TRIM ||
			(decision.cold && vacuum->store_failed);
		if (done)
		{
			vacuum->left = vacuum->store_failed ? "the store has failed" :
				spent != 0 || lsm_vacuum_workers_have_some(vacuum) ? "the workers have them" :
				"compaction is not worth it yet";
			return;
		}
		if (!lsm_vacuum_step(&step))
			vacuum->store_failed = true;
		else if (!vacuum->came_to)
			spent |= 1 << decision.kind;
	}
	vacuum->left = "the workers have them";
}

/* Move segments to the cold store, and back. */
static void
lsm_vacuum_move(LsmVacuum *vacuum)
{
	LsmVacuumStep step = {.vacuum = vacuum,.run = lsm_vacuum_move_all,.moves = true};

	if (lsm_cold_count_misplaced(vacuum->rel, lsm_view_get(vacuum->rel, vacuum->table)) > 0)
		(void) lsm_vacuum_step(&step);
}

/*
 * Autovacuum that need not freeze takes only what is worth it.  So does any VACUUM whose
 * store has failed, of what is left: what old xids are overdue for, above all.
 */
static void
lsm_vacuum_compact(LsmVacuum *vacuum)
{
	LsmVacuumStep step = {.vacuum = vacuum,.run = lsm_vacuum_major};

	if (AmAutoVacuumWorkerProcess() && !vacuum->cutoffs.aggressive)
	{
		lsm_vacuum_compact_worth(vacuum);
		return;
	}
	if (!lsm_vacuum_step(&step))
	{
		vacuum->store_failed = true;
		lsm_vacuum_compact_worth(vacuum);
		return;
	}
	if (lsm_vacuum_workers_have_some(vacuum))
		vacuum->left = "the workers have them";
	if (!AmAutoVacuumWorkerProcess())
		lsm_vacuum_move(vacuum);
}

/*
 * Flush what is to be flushed.  False: the manifest has no room for that.  What makes room is all
 * that VACUUM does, so it goes on.
 */
static bool
lsm_vacuum_flush(LsmVacuum *vacuum)
{
	if (!lsm_vacuum_should_flush(vacuum->rel, vacuum->table))
		return true;
	if (lsm_manifest_fill(lsm_view_get(vacuum->rel, vacuum->table)->nentries) >= 1)
		return false;
	lsm_flush(vacuum->rel, &vacuum->flushed);
	return true;
}

/* Drop what is dead: it goes, or its roots go to dead lists. */
static void
lsm_vacuum_drop_dead(LsmVacuum *vacuum)
{
	int64		nblocks = smgrnblocks(RelationGetSmgr(vacuum->rel), MAIN_FORKNUM);
	bool		flushed;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, nblocks);
	flushed = lsm_vacuum_flush(vacuum);
	(void) lsm_vacuum_failsafe(vacuum);
	if (lsm_vacuum_should_compact(vacuum->rel, vacuum->cutoffs.aggressive))
		lsm_vacuum_compact(vacuum);
	else
		vacuum->left = "the table is not to be compacted";
	if (!flushed)
		(void) lsm_vacuum_flush(vacuum);
	(void) lsm_vacuum_failsafe(vacuum);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, nblocks);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED, nblocks);
}

/* All dead roots there are, and those of the longest list. */
static uint64
lsm_vacuum_count_dead(LsmVacuum *vacuum, uint64 *longest)
{
	LsmView    *view = lsm_view_get(vacuum->rel, vacuum->table);
	uint64		n = 0;

	*longest = 0;
	for (int i = 0; i < view->nentries; i++)
	{
		if (view->entries[i].type != LSM_ENTRY_SEGMENT ||
			view->entries[i].kind != LSM_SEGKIND_DEAD)
			continue;
		n += view->entries[i].dead;
		*longest = Max(*longest, view->entries[i].dead);
	}
	return n;
}

/* Find out how many dead roots come in one pass, and who removes them. */
static void
lsm_vacuum_begin_indexes(LsmVacuum *vacuum)
{
	int			work_mem_kb = autovacuum_work_mem >= 0 && AmAutoVacuumWorkerProcess() ?
	autovacuum_work_mem : maintenance_work_mem;
	int			nworkers = vacuum->params->nworkers;
	uint64		longest;
	uint64		n = lsm_vacuum_count_dead(vacuum, &longest);

	vacuum->dead.max = Max((uint64) work_mem_kb * 1024 / sizeof(LsmTid), 1024);
	pgstat_progress_update_param(LSM_PROGRESS_MAX_DEAD, lsm_compat_progress_dead(vacuum->dead.max));
	if (nworkers < 0 || vacuum->nindexes < 2 || !vacuum->cleanup)
		return;
	if (RelationUsesLocalBuffers(vacuum->rel))
	{
		if (nworkers > 0)
			ereport(WARNING,
					(errmsg("disabling parallel option of vacuum on \"%s\" --- cannot vacuum temporary tables in parallel",
							RelationGetRelationName(vacuum->rel))));
		return;
	}
	/* a list is taken whole, also one that is longer than a pass should be */
	vacuum->dead.limit = Max(Min(n, Max(vacuum->dead.max, longest)), 1);
	vacuum->parallel = lsm_compat_parallel_begin(vacuum->rel, vacuum->indexes, vacuum->nindexes,
												 nworkers, vacuum->dead.limit, work_mem_kb,
												 vacuum->verbose ? INFO : DEBUG2,
												 vacuum->strategy);
	if (vacuum->parallel == NULL)
		vacuum->dead.limit = 0;
}

/*
 * Remove the roots that were collected from all indexes.  False: some may have them still, as the
 * failsafe has come into force, which parallel workers do not ask for between two indexes.
 */
static bool
lsm_vacuum_pass(LsmVacuum *vacuum)
{
	bool		all = true;

	if (lsm_vacuum_failsafe(vacuum))
		return false;
	lsm_dead_log_conflict(vacuum->rel);
	lsm_compat_progress_indexes(vacuum->nindexes);
	if (vacuum->parallel != NULL)
	{
		lsm_compat_parallel_set_dead(vacuum->parallel, vacuum->dead.roots, vacuum->dead.n);
		parallel_vacuum_bulkdel_all_indexes(vacuum->parallel,
											(long) Max(vacuum->rel->rd_rel->reltuples, 0),
											vacuum->passes);
	}
	for (int i = 0; i < vacuum->nindexes && vacuum->parallel == NULL; i++)
	{
		IndexVacuumInfo info = {0};

		if (lsm_vacuum_failsafe(vacuum))
		{
			all = false;
			break;
		}
		LSM_STOP("vacuum-index");
		lsm_compat_index_vacuum_info(&info, vacuum->indexes[i], vacuum->rel, vacuum->strategy);
		info.estimated_count = true;
		info.num_heap_tuples = vacuum->rel->rd_rel->reltuples;
		vacuum->results[i] = index_bulk_delete(&info, vacuum->results[i], lsm_dead_callback,
											   &vacuum->dead);
		lsm_compat_progress_index_done(i + 1);
	}
	lsm_compat_progress_indexes(0);
	vacuum->passes++;
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_INDEX_VACUUMS, vacuum->passes);
	return all;
}

/* Take all dead roots out of the indexes, then forget them. */
static void
lsm_vacuum_indexes(LsmVacuum *vacuum)
{
	lsm_vacuum_begin_indexes(vacuum);
	LSM_STOP("vacuum-before-lists");
	lsm_dead_note_lists(vacuum->rel, vacuum->table, &vacuum->dead);
	while (vacuum->cleanup)
	{
		lsm_compat_vacuum_delay();
		lsm_dead_collect(vacuum->rel, vacuum->table, &vacuum->dead);
		if (vacuum->dead.uids == NIL)
			break;
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
		pgstat_progress_update_param(LSM_PROGRESS_NUM_DEAD,
									 lsm_compat_progress_dead(vacuum->dead.n));
		if (vacuum->nindexes > 0 && vacuum->dead.n > 0 && !lsm_vacuum_pass(vacuum))
			break;
		vacuum->removed += vacuum->dead.n;
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_HEAP);
		LSM_STOP("vacuum-before-forget");
		lsm_dead_forget(vacuum->rel, vacuum->table, &vacuum->dead);
	}
}

/* Let the indexes clean up after themselves, and keep what they count. */
static void
lsm_vacuum_cleanup_indexes(LsmVacuum *vacuum)
{
	bool		estimated = vacuum->versions > 0;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
	lsm_compat_progress_indexes(vacuum->cleanup ? vacuum->nindexes : 0);
	if (vacuum->parallel != NULL)
	{
		if (vacuum->cleanup)
			parallel_vacuum_cleanup_all_indexes(vacuum->parallel, (long) vacuum->rows,
												vacuum->passes, estimated);
		parallel_vacuum_end(vacuum->parallel, vacuum->results);
	}
	for (int i = 0; i < vacuum->nindexes && vacuum->cleanup && vacuum->parallel == NULL; i++)
	{
		IndexVacuumInfo info = {0};

		lsm_compat_index_vacuum_info(&info, vacuum->indexes[i], vacuum->rel, vacuum->strategy);
		info.estimated_count = estimated;
		info.num_heap_tuples = vacuum->rows;
		vacuum->results[i] = index_vacuum_cleanup(&info, vacuum->results[i]);
		lsm_compat_progress_index_done(i + 1);
	}
	lsm_compat_progress_indexes(0);
	for (int i = 0; i < vacuum->nindexes && vacuum->cleanup; i++)
		if (vacuum->results[i] != NULL && !vacuum->results[i]->estimated_count)
			lsm_compat_update_relstats(vacuum->indexes[i], vacuum->results[i]->num_pages,
									   vacuum->results[i]->num_index_tuples, 0, false,
									   InvalidTransactionId, InvalidMultiXactId, NULL);
	vac_close_indexes(vacuum->nindexes, vacuum->indexes, NoLock);
}

/*
 * Give the free end of the file back, if the table can be locked exclusively
 * without keeping others waiting for long.  False: it cannot.
 */
static bool
lsm_vacuum_truncate(LsmVacuum *vacuum)
{
	Relation	rel = vacuum->rel;
	int			tries = 0;

	while (!ConditionalLockRelation(rel, AccessExclusiveLock))
	{
		CHECK_FOR_INTERRUPTS();
		if (++tries > LSM_TRUNCATE_TRIES)
		{
			ereport(vacuum->verbose ? INFO : DEBUG2,
					(errmsg("\"%s\": stopping truncate due to conflicting lock request",
							RelationGetRelationName(rel))));
			return false;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LSM_TRUNCATE_WAIT_MS, WAIT_EVENT_VACUUM_TRUNCATE);
		ResetLatch(MyLatch);
	}
	vacuum->pages_before = lsm_truncate_tail(rel, vacuum->table, &vacuum->pages);
	UnlockRelation(rel, AccessExclusiveLock);
	if (vacuum->pages < vacuum->pages_before)
		ereport(vacuum->verbose ? INFO : DEBUG2,
				(errmsg("table \"%s\": truncated %u to %u pages",
						RelationGetRelationName(rel), vacuum->pages_before, vacuum->pages)));
	return true;
}

/*
 * Free pages go back to the file system.  The lock comes last: standbys have it until the end of
 * the transaction.  The end is punched where it does not go.
 */
static void
lsm_vacuum_give_back(LsmVacuum *vacuum)
{
	Relation	rel = vacuum->rel;
	bool		cut;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_TRUNCATE);
	lsm_job_free_left(rel);
	if (vacuum->truncate && lsm_relocate_worth(rel, vacuum->table, AmAutoVacuumWorkerProcess()))
		vacuum->moved = lsm_relocate(rel, vacuum->table, AmAutoVacuumWorkerProcess() ?
									 lsm_job_limit(lsm_view_get(rel, vacuum->table)) / BLCKSZ : PG_UINT64_MAX);
	cut = vacuum->truncate && lsm_truncate_worth(rel, vacuum->table);
	vacuum->holes = lsm_punch_holes(rel, vacuum->table, !cut);
	if (cut && !lsm_vacuum_truncate(vacuum))
		vacuum->holes += lsm_punch_holes(rel, vacuum->table, true);

	/* what has been left retired is free later */
	if (vacuum->moved > 0)
		lsm_job_ask(rel);
}

static void
lsm_vacuum_warn_lbs(LsmVacuum *vacuum)
{
	const LsmMeta *meta = &lsm_view_get(vacuum->rel, vacuum->table)->meta;

	if (lsm_lbs_few(meta))
		lsm_lbs_warn(vacuum->rel, meta);
}

/* The same of version identifiers: what is in the way now has not been settled. */
static void
lsm_vacuum_warn_ring(LsmVacuum *vacuum)
{
	LsmView    *view = lsm_view_get(vacuum->rel, vacuum->table);
	double		left = lsm_ring_left(&view->meta, view, lsm_settled_xid(vacuum->rel));

	if (left < 1.0 / LSM_WARN_RING_DIVISOR)
		lsm_ring_warn(vacuum->rel, left);
}

/* The same of places in the manifest: there are too many segments, or values that somebody reads. */
static void
lsm_vacuum_warn_manifest(LsmVacuum *vacuum)
{
	double		fill = lsm_manifest_fill(lsm_view_get(vacuum->rel, vacuum->table)->nentries);

	if (fill >= LSM_MANIFEST_WARN_FILL)
		lsm_manifest_warn(vacuum->rel, fill);
}

/* By whom the table was vacuumed, and why: as the server has it. */
static const char *
lsm_vacuum_title(const LsmVacuum *vacuum)
{
	if (vacuum->verbose)
		return "finished vacuuming";
	if (vacuum->params->is_wraparound)
		return vacuum->cutoffs.aggressive ?
			"automatic aggressive vacuum to prevent wraparound of table" :
			"automatic vacuum to prevent wraparound of table";
	return vacuum->cutoffs.aggressive ? "automatic aggressive vacuum of table" :
		"automatic vacuum of table";
}

/* What was done, in the server's words where it has any. */
static void
lsm_vacuum_report(LsmVacuum *vacuum)
{
	StringInfoData buf;
	BufferUsage buffers = {0};
	WalUsage	wal = {0};
	BlockNumber gone = vacuum->pages_before > vacuum->pages ?
	vacuum->pages_before - vacuum->pages : 0;
	bool		logged = AmAutoVacuumWorkerProcess() && vacuum->params->log_min_duration >= 0 &&
	(vacuum->params->log_min_duration == 0 ||
	 TimestampDifferenceExceeds(vacuum->start, GetCurrentTimestamp(),
								vacuum->params->log_min_duration));

	if (!vacuum->verbose && !logged)
		return;
	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &vacuum->buffers);
	WalUsageAccumDiff(&wal, &pgWalUsage, &vacuum->wal);
	initStringInfo(&buf);
	appendStringInfo(&buf, "%s \"%s.%s.%s\": index scans: %d\n", lsm_vacuum_title(vacuum),
					 get_database_name(MyDatabaseId),
					 get_namespace_name(RelationGetNamespace(vacuum->rel)),
					 RelationGetRelationName(vacuum->rel), vacuum->passes);
	appendStringInfo(&buf, "pages: %u removed, %u remain, " UINT64_FORMAT " given back as holes\n",
					 gone, vacuum->pages, vacuum->holes);
	if (vacuum->moved > 0)
		appendStringInfo(&buf, "moved: " UINT64_FORMAT " pages of segments, from the end of the file\n",
						 vacuum->moved);
	appendStringInfo(&buf, "flushed: %lld records to %lld segments\n",
					 (long long) vacuum->flushed.rows_in, (long long) vacuum->flushed.segments_out);
	appendStringInfo(&buf, "compacted: %lld segments with %lld records to %lld segments with %lld records\n",
					 (long long) vacuum->compacted.segments_in,
					 (long long) vacuum->compacted.rows_in,
					 (long long) vacuum->compacted.segments_out,
					 (long long) vacuum->compacted.rows_out);
	appendStringInfo(&buf, "tuples: %lld removed, %.0f remain, %.0f are dead but not yet removable\n",
					 (long long) vacuum->removed, vacuum->rows, vacuum->pending);
	if (vacuum->increments > 0)
		appendStringInfo(&buf, "increments: %d remain with %.0f records, of which %.0f end rows: %s\n",
						 vacuum->increments, vacuum->versions, vacuum->ends,
						 vacuum->left != NULL ? vacuum->left : "transactions may need them");
	appendStringInfo(&buf, "removable cutoff: %u, which was %d XIDs old when operation ended\n",
					 vacuum->cutoffs.oldest_xmin,
					 (int32) (ReadNextTransactionId() - vacuum->cutoffs.oldest_xmin));
	if (vacuum->xid_updated)
		appendStringInfo(&buf, "new relfrozenxid: %u, which is %d XIDs ahead of previous value\n",
						 (TransactionId) vacuum->oldest_xid,
						 (int32) ((TransactionId) vacuum->oldest_xid -
								  vacuum->cutoffs.relfrozenxid));
	if (vacuum->multi_updated)
		appendStringInfo(&buf, "new relminmxid: %u, which is %d MXIDs ahead of previous value\n",
						 vacuum->cutoffs.oldest_mxact,
						 (int32) (vacuum->cutoffs.oldest_mxact - vacuum->cutoffs.relminmxid));
	if (vacuum->failsafe)
		appendStringInfoString(&buf, "index scan bypassed by failsafe\n");
	else if (!vacuum->cleanup)
		appendStringInfoString(&buf, "index scan bypassed\n");
	for (int i = 0; i < vacuum->nindexes; i++)
	{
		IndexBulkDeleteResult *result = vacuum->results[i];

		if (result != NULL)
			appendStringInfo(&buf, "index \"%s\": pages: %u in total, %u newly deleted, %u currently deleted, %u reusable\n",
							 vacuum->index_names[i], result->num_pages,
							 result->pages_newly_deleted, result->pages_deleted,
							 result->pages_free);
	}
	appendStringInfo(&buf, "buffer usage: %lld hits, %lld misses, %lld dirtied\n",
					 (long long) (buffers.shared_blks_hit + buffers.local_blks_hit),
					 (long long) (buffers.shared_blks_read + buffers.local_blks_read),
					 (long long) (buffers.shared_blks_dirtied + buffers.local_blks_dirtied));
	appendStringInfo(&buf, "WAL usage: %lld records, %lld full page images, %llu bytes\n",
					 (long long) wal.wal_records, (long long) wal.wal_fpi,
					 (unsigned long long) wal.wal_bytes);
	appendStringInfo(&buf, "system usage: %s", pg_rusage_show(&vacuum->usage));
	ereport(vacuum->verbose ? INFO : LOG, (errmsg_internal("%s", buf.data)));
	pfree(buf.data);
}

static void
lsm_vacuum_run(Relation rel, VacuumParams *params, BufferAccessStrategy strategy)
{
	LsmVacuum	vacuum;
	BlockNumber visible;

	lsm_vacuum_begin(&vacuum, rel, params, strategy);
	lsm_vacuum_drop_dead(&vacuum);
	lsm_vacuum_indexes(&vacuum);
	lsm_vacuum_count(&vacuum);
	lsm_vacuum_cleanup_indexes(&vacuum);
	vacuum.pages = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	if (vacuum.cleanup)
		lsm_lbs_reuse(rel, vacuum.table);
	lsm_vm_update(rel, vacuum.table);
	lsm_vacuum_give_back(&vacuum);
	lsm_vacuum_warn_lbs(&vacuum);
	lsm_vacuum_warn_ring(&vacuum);
	lsm_vacuum_warn_manifest(&vacuum);

	vacuum.oldest_xid = lsm_vacuum_oldest_xid(rel, vacuum.table,
											  lsm_full_xid(vacuum.cutoffs.oldest_xmin));

	/* a memtable that was empty for long may name an xid from before what is frozen */
	if (lsm_full_xid(vacuum.cutoffs.relfrozenxid) <= lsm_full_xid(vacuum.cutoffs.oldest_xmin))
		vacuum.oldest_xid = Max(vacuum.oldest_xid, lsm_full_xid(vacuum.cutoffs.relfrozenxid));
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	visibilitymap_count(rel, &visible, NULL);
	vacuum.xid_updated =
		lsm_compat_update_relstats(rel, vacuum.pages == 0 ? 0 :
								   (BlockNumber) Min(lsm_vacuum_pages(rel), MaxBlockNumber),
								   vacuum.rows, visible, vacuum.nindexes > 0,
								   (TransactionId) vacuum.oldest_xid,
								   vacuum.cutoffs.oldest_mxact, &vacuum.multi_updated);
	lsm_compat_report_vacuum(rel, vacuum.rows, lsm_vacuum_report_dead(&vacuum), vacuum.start);
	pgstat_progress_end_command();
	lsm_vacuum_report(&vacuum);
}

/* The callback of VACUUM.  What it reads of segments passes through its ring. */
void
lsm_vacuum_rel(Relation rel, VacuumParams *params, BufferAccessStrategy strategy)
{
	lsm_segpages_set_ring(strategy);
	PG_TRY();
	{
		lsm_vacuum_run(rel, params, strategy);
	}
	PG_FINALLY();
	{
		lsm_vacuum_end_lists();
		lsm_segpages_set_ring(NULL);
	}
	PG_END_TRY();
}

/* Pages as the planner should count them. */
double
lsm_vacuum_pages(Relation rel)
{
	BlockNumber pages;
	double		tuples;
	double		allvisfrac;

	lsm_estimate_size(rel, NULL, &pages, &tuples, &allvisfrac);
	return pages;
}
