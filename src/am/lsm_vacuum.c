/*-------------------------------------------------------------------------
 *
 * lsm_vacuum.c
 *	  VACUUM: flush, compaction, removal of dead roots from indexes, statistics.
 *
 * Order: what is dead is put on dead lists by flush and compaction; the roots on
 * the lists are removed from all indexes; then the lists go.  Nothing else says
 * that a root is dead: that it cannot be found is no proof (I12).
 *
 * VACUUM has PROC_IN_VACUUM set: it is given no xid and its snapshot protects
 * nothing.  All it does are edits, which need neither.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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
#include "lsm_am.h"
#include "lsm_compact.h"
#include "lsm_options.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/pg_rusage.h"
#include "utils/timestamp.h"

/* Dead roots of one pass over the indexes. */
typedef struct LsmDeadRoots
{
	LsmTid	   *roots;			/* sorted */
	uint64		n;
	uint64		max;
	List	   *uids;			/* of the lists that they come from: uint64 * */
	int64		removed;		/* index entries */
} LsmDeadRoots;

static int
lsm_tid_cmp(const void *a, const void *b)
{
	LsmTid		x = *(const LsmTid *) a;
	LsmTid		y = *(const LsmTid *) b;

	return x < y ? -1 : x > y;
}

static bool
lsm_dead_callback(ItemPointer itemptr, void *state)
{
	LsmDeadRoots *dead = state;
	LsmTid		root = lsm_tid_from_pointer(itemptr);

	return bsearch(&root, dead->roots, dead->n, sizeof(LsmTid), lsm_tid_cmp) != NULL;
}

/*
 * Read dead lists until there are enough roots for one pass; those that are
 * left come with the next.  A list is taken whole.
 */
static void
lsm_dead_collect(Relation rel, LsmTable *table, LsmDeadRoots *dead)
{
	LsmView    *view;

restart:
	dead->n = 0;
	dead->uids = NIL;
	view = lsm_view_get(rel, table);
	for (int i = 0; i < view->nentries; i++)
	{
		LsmManifestEntry *entry = &view->entries[i];
		LsmSegmentReader *reader;
		uint64		n;
		LsmTid	   *roots;
		uint64	   *uid;

		if (entry->type != LSM_ENTRY_SEGMENT || entry->kind != LSM_SEGKIND_DEAD)
			continue;
		if (dead->n > 0 && dead->n + entry->dead > dead->max)
			continue;
		reader = lsm_reader_get(rel, table, entry);
		if (reader == NULL)
			goto restart;
		roots = lsm_segment_read_dead(reader, &n);
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
		qsort(dead->roots, dead->n, sizeof(LsmTid), lsm_tid_cmp);
}

/*
 * A standby's snapshot may still see rows whose index entries go now; the
 * records that dropped the rows carried their xids, this one speaks for all.
 */
static void
lsm_dead_log_conflict(Relation rel)
{
	xl_lsm_conflict xlrec = {0};
	LsmHorizons horizons;

	if (!RelationNeedsWAL(rel) || !XLogStandbyInfoActive())
		return;
	lsm_horizons(rel, &horizons);
	xlrec.conflict_xid = horizons.visible > 0 ? horizons.visible - 1 : 0;
	xlrec.locator = LSM_RD_LOCATOR(rel);
	xlrec.version = LSM_WAL_VERSION;
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, sizeof(xlrec));
	(void) XLogInsert(LSM_RMGR_ID, XLOG_LSM_CONFLICT);
}

/* Drop the lists whose roots no index holds any more. */
static void
lsm_dead_forget(Relation rel, LsmTable *table, LsmDeadRoots *dead)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_VACUUM);
	ListCell   *lc;

	foreach(lc, dead->uids)
		lsm_edit_remove_segment(edit, *(uint64 *) lfirst(lc));
	lsm_edit_commit(edit);
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

/* Is there anything in the memtable? */
static bool
lsm_vacuum_should_flush(Relation rel, LsmTable *table)
{
	LsmView    *view = lsm_view_get(rel, table);

	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind != LSM_RANGE_FREE)
			return true;
	return false;
}

/* Live rows, as far as the manifest tells. */
static double
lsm_vacuum_count_rows(Relation rel, LsmTable *table, double *dead_versions)
{
	LsmView    *view = lsm_view_get(rel, table);
	double		rows = 0;

	*dead_versions = 0;
	for (int i = 0; i < view->nbase; i++)
		rows += view->base[i]->rows;
	for (int i = 0; i < view->nincrements; i++)
		*dead_versions += view->increments[i]->versions;
	return rows;
}

/* Rows that only the row log holds, counted by a look at its pages. */
static double
lsm_vacuum_count_memtable(Relation rel, LsmTable *table)
{
	PGAlignedBlock copy;
	double		rows = 0;

restart:
	rows = 0;
	for (uint32 i = 0; i < lsm_view_get(rel, table)->meta.nranges; i++)
	{
		LsmView    *view = lsm_view_get(rel, table);
		LsmRowRange range = view->meta.ranges[i];
		uint64		counter = view->counter;

		if (range.kind != LSM_RANGE_ROOT)
			continue;
		for (uint32 j = 0; j < range.pages.npages; j++)
		{
			view = lsm_view_get(rel, table);
			if (view->counter != counter)
				goto restart;
			if (lsm_rowlog_copy_page(rel, view, &range, range.lb + j, copy.data))
				rows += PageGetMaxOffsetNumber((Page) copy.data);
		}
	}
	return rows;
}

/*
 * VACUUM compacts, because nothing else removes rows that are dead.  Autovacuum
 * does not if the table's owner says so, except where it has to freeze.
 */
static bool
lsm_vacuum_should_compact(Relation rel, bool aggressive)
{
	LsmTableOptions options;

	lsm_options_get(rel, &options);
	return options.auto_compact || aggressive || !AmAutoVacuumWorkerProcess();
}

void
lsm_vacuum_rel(Relation rel, VacuumParams *params, BufferAccessStrategy strategy)
{
	LsmTable   *table = lsm_table_open(rel);
	bool		verbose = (params->options & VACOPT_VERBOSE) != 0;
	LsmCutoffs	cutoffs;
	LsmJobStats flushed = {0};
	LsmJobStats compacted = {0};
	LsmDeadRoots dead = {0};
	Relation   *indexes;
	int			nindexes;
	IndexBulkDeleteResult **results;
	int64		removed = 0;
	int			passes = 0;
	TimestampTz start = GetCurrentTimestamp();
	PGRUsage	ru0;
	uint64		oldest_xid;
	BlockNumber visible;
	double		rows;
	double		versions;
	bool		cleanup = params->index_cleanup != VACOPTVALUE_DISABLED;

	pg_rusage_init(&ru0);
	(void) lsm_floor();
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	lsm_compat_cutoffs(rel, params, &cutoffs);

	/* 1. drop what is dead */
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	if (lsm_vacuum_should_flush(rel, table))
		lsm_flush(rel, &flushed);
	if (lsm_vacuum_should_compact(rel, cutoffs.aggressive))
		lsm_major(rel, &compacted);

	/* 2. take dead roots out of the indexes */
	vac_open_indexes(rel, RowExclusiveLock, &nindexes, &indexes);
	results = palloc0(Max(nindexes, 1) * sizeof(IndexBulkDeleteResult *));
	dead.max = Max((uint64) (autovacuum_work_mem >= 0 && AmAutoVacuumWorkerProcess() ?
							 autovacuum_work_mem : maintenance_work_mem) * 1024 / sizeof(LsmTid),
				   1024);
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
	while (cleanup)
	{
		lsm_dead_collect(rel, table, &dead);
		if (dead.uids == NIL)
			break;
		if (nindexes > 0 && dead.n > 0)
		{
			lsm_dead_log_conflict(rel);
			for (int i = 0; i < nindexes; i++)
			{
				IndexVacuumInfo info = {0};

				lsm_compat_index_vacuum_info(&info, indexes[i], rel, strategy);
				info.estimated_count = true;
				info.num_heap_tuples = rel->rd_rel->reltuples;
				results[i] = index_bulk_delete(&info, results[i], lsm_dead_callback, &dead);
			}
			passes++;
			removed += dead.n;
		}
		lsm_dead_forget(rel, table, &dead);
	}

	/* 3. statistics and freezing */
	rows = lsm_vacuum_count_rows(rel, table, &versions);
	rows += lsm_vacuum_count_memtable(rel, table);
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
	for (int i = 0; i < nindexes && cleanup; i++)
	{
		IndexVacuumInfo info = {0};

		lsm_compat_index_vacuum_info(&info, indexes[i], rel, strategy);
		info.estimated_count = versions > 0;
		info.num_heap_tuples = rows;
		results[i] = index_vacuum_cleanup(&info, results[i]);
		if (results[i] != NULL && !results[i]->estimated_count)
			lsm_compat_update_relstats(indexes[i], results[i]->num_pages,
									   results[i]->num_index_tuples, 0, false,
									   InvalidTransactionId, InvalidMultiXactId);
	}
	vac_close_indexes(nindexes, indexes, NoLock);

	oldest_xid = lsm_vacuum_oldest_xid(rel, table, lsm_full_xid(cutoffs.oldest_xmin));
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	lsm_vm_update(rel, table);
	visibilitymap_count(rel, &visible, NULL);
	lsm_compat_update_relstats(rel, (BlockNumber) Min(lsm_vacuum_pages(rel), MaxBlockNumber), rows,
							   visible, nindexes > 0, (TransactionId) oldest_xid, cutoffs.oldest_mxact);
	lsm_compat_report_vacuum(rel, rows, versions, start);
	pgstat_progress_end_command();

	if (verbose || (AmAutoVacuumWorkerProcess() && params->log_min_duration >= 0 &&
					(params->log_min_duration == 0 ||
					 TimestampDifferenceExceeds(start, GetCurrentTimestamp(),
												params->log_min_duration))))
		ereport(verbose ? INFO : LOG,
				(errmsg("finished vacuuming \"%s.%s.%s\": index scans: %d",
						get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel), passes),
				 errdetail("Flushed %lld records to %lld segments.\n"
						   "Compacted %lld segments with %lld records to %lld segments with %lld records.\n"
						   "Removed the index entries of %lld dead rows.\n"
						   "%.0f rows and %.0f versions remain; new relfrozenxid: %u.\n"
						   "System usage: %s",
						   (long long) flushed.rows_in, (long long) flushed.segments_out,
						   (long long) compacted.segments_in, (long long) compacted.rows_in,
						   (long long) compacted.segments_out, (long long) compacted.rows_out,
						   (long long) removed, rows, versions, (TransactionId) oldest_xid,
						   pg_rusage_show(&ru0))));
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
