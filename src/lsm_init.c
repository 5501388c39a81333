/*-------------------------------------------------------------------------
 *
 * lsm_init.c
 *	  Library load: settings, shared memory, resource manager, callbacks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "lsm_ahead.h"
#include "lsm_am.h"
#include "lsm_blockcache.h"
#include "lsm_cold.h"
#include "lsm_cold_ddl.h"
#include "lsm_cold_orphans.h"
#include "lsm_coldvalue.h"
#include "lsm_compact.h"
#include "lsm_exec.h"
#include "lsm_manifest.h"
#include "lsm_iostat.h"
#include "lsm_joinfilter.h"
#include "lsm_load.h"
#include "lsm_mvcc.h"
#include "lsm_options.h"
#include "lsm_pick.h"
#include "lsm_reader.h"
#include "lsm_request.h"
#include "lsm_segmentbounds.h"
#include "lsm_session.h"
#include "lsm_sharedcache.h"
#include "lsm_stat.h"
#include "lsm_stop.h"
#include "lsm_store.h"
#include "lsm_store_cache.h"
#include "lsm_table.h"
#include "lsm_wal.h"
#include "lsm_worker.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type previous_shmem_request;
static shmem_startup_hook_type previous_shmem_startup;

static void
lsm_init_shmem_request(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	lsm_shmem_request();
	lsm_stat_shmem_request();
	lsm_request_shmem_request();
	lsm_sharedcache_shmem_request();
	RequestAddinShmemSpace(lsm_iostat_shmem_size());
	RequestAddinShmemSpace(lsm_session_shmem_size());
	lsm_store_shmem_request();
	lsm_store_cache_shmem_request();
	lsm_cold_shmem_request();
}

static void
lsm_init_shmem_startup(void)
{
	if (previous_shmem_startup)
		previous_shmem_startup();
	lsm_shmem_startup();
	lsm_request_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_sharedcache_shmem_startup();
	lsm_iostat_shmem_startup();
	lsm_session_shmem_startup();
	LWLockRelease(AddinShmemInitLock);
	lsm_store_shmem_startup();
	lsm_store_cache_shmem_startup();
	lsm_cold_shmem_startup();
}

static void
lsm_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			lsm_load_before_commit();
			lsm_table_before_commit();
			lsm_relpages_before_commit();
			break;
		case XACT_EVENT_COMMIT:
			lsm_cold_ddl_committed();
			/* FALLTHROUGH */
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			lsm_cold_ddl_xact_end();
			lsm_restore_prefetch();
			lsm_fetch_counting = false;
			lsm_slot_forget();
			lsm_relpages_xact_end();
			lsm_compact_xact_end();
			lsm_vacuum_end_lists();
			lsm_rowlog_xact_end();
			lsm_load_xact_end();
			lsm_blockcache_xact_end();
			lsm_ahead_xact_end();
			lsm_coldvalue_xact_end();
			lsm_reader_xact_end();
			lsm_iostat_flush();
			lsm_floor_xact_end();
			lsm_table_xact_end();
			lsm_stat_xact_end();
			lsm_store_xact_end();
			break;
		default:
			break;
	}
}

static void
lsm_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent,
					 void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		lsm_slot_forget();
		lsm_written_forget();
		lsm_blockcache_subxact_abort();
		lsm_table_subxact_abort();
		lsm_progress_subxact_abort(subid);
		lsm_rowlog_subxact_abort(subid);
	}
}

static void
lsm_init_worker_settings(void)
{
	DefineCustomIntVariable("lsm.compaction_workers",
							"Sets the maximum number of background workers that flush and compact.",
							"0 means that only sessions and VACUUM do so.",
							&lsm_compaction_workers, 2, 0, LSM_MAX_WORKERS,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.compaction_naptime",
							"Sets the time after which a worker looks through a database without being asked.",
							NULL,
							&lsm_compaction_naptime, 3600, 1, INT_MAX / 1000,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.compaction_rate_limit",
							"Sets the rate at which all workers together may write compacted segments, in kB per second.",
							"0 means no limit.  Flushes, VACUUM and calls of functions do not keep to it.",
							&lsm_compaction_rate_limit, 0, 0, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.compaction_log_min_duration",
							"Sets the time above which flushes, compactions and moves by workers are logged.",
							"-1 logs none, 0 all of them.",
							&lsm_compaction_log_min_duration, 600000, -1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.auto_compact",
							 "Lets workers and autovacuum compact tables.",
							 "Where it is off they only flush, and workers move segments to stores and back, as for tables with this option off.",
							 &lsm_auto_compact, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Room for blocks: none, or so much that they find a place. */
static bool
lsm_init_check_cache_size(int *newval, void **extra, GucSource source)
{
	if (*newval > 0 && *newval < LSM_LEAST_CACHE_KB)
	{
		GUC_check_errdetail("The block cache has no less than %d kB, or none with 0.",
							LSM_LEAST_CACHE_KB);
		return false;
	}
	return true;
}

/*
 * Room for blocks where nothing is said of it (kB): half of shared_buffers, so that who gives
 * the server memory need not know of the setting.  What is in the one is not in the other.
 */
static int
lsm_init_cache_size(void)
{
	int64		half = (int64) NBuffers * (BLCKSZ / 1024) / 2;

	return (int) Min(Max(half, LSM_DEFAULT_CACHE_KB), MAX_KILOBYTES);
}

static void
lsm_init_settings(void)
{
	DefineCustomIntVariable("lsm.block_cache_size",
							"Sets the shared memory for blocks of segments.",
							"The default is half of shared_buffers, at least 128MB.  0 means none: then blocks read for one row are kept in shared buffers.",
							&lsm_block_cache_size, lsm_init_cache_size(), 0, MAX_KILOBYTES,
							PGC_POSTMASTER, GUC_UNIT_KB, lsm_init_check_cache_size, NULL, NULL);
	lsm_reader_define_settings();
	DefineCustomIntVariable("lsm.memtable_size",
							"Sets the shared memory for the indexes of memtables.",
							"It holds an entry for each row with changes that are not yet flushed, of all tables together.",
							&lsm_memtable_size, 64 * 1024, 4 * 1024, LSM_MAX_MEMTABLE_KB,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.segment_size",
							"Sets the stored size at which compaction ends a segment and begins another.",
							NULL,
							&lsm_segment_size, 64 * 1024, 1024, 1024 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.cold_segment_size",
							"Sets the stored size at which major compaction ends a segment of a table with a cold store.",
							"It is the size of an object.",
							&lsm_cold_segment_size, 64 * 1024, 16 * 1024, 256 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.store_read_size",
							"Sets the size up to which blocks in a store are read by one request.",
							NULL,
							&lsm_store_read_size, 4 * 1024, 16, 16 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.store_delete_delay",
							"Sets the time for which objects of stores are kept when nothing needs them any more.",
							"-1 keeps them for ever.  Restored backups may need what was kept when they were made.",
							&lsm_store_delete_delay, 24 * 3600, -1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.minor_compact_trigger",
							"Sets the number of increments over each other at which some are merged.",
							NULL,
							&lsm_minor_compact_trigger, 4, 2, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.session_cache_size",
							"Sets the memory that the caches of all sessions may take together.",
							"It is divided evenly among sessions that use lsm tables.",
							&lsm_session_cache_size, 256 * 1024, 16 * 1024, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.enable_lookahead",
							 "Lets the planner look up inner rows of nested loops ahead, where they lie in a store.",
							 NULL,
							 &lsm_enable_lookahead, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.enable_keyhint",
							 "Lets look-ups by unique keys try first where the session has found the row before.",
							 NULL,
							 &lsm_enable_keyhint, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.enable_keyorder",
							 "Lets the planner sort batches of the outer rows of nested loops by what is looked up.",
							 NULL,
							 &lsm_enable_keyorder, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.enable_joinfilter",
							 "Lets scans leave out rows that hash joins above them have no match for.",
							 NULL,
							 &lsm_enable_joinfilter, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_keyorder_pages",
							"Sets the size of an index, in pages, from which outer rows are sorted by what is looked up there.",
							"For tests.",
							&lsm_debug_keyorder_pages, 1024, 0, INT_MAX, PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.enable_lsmscan",
							 "Enables the planner's use of LsmScan, LsmBitmapScan and LsmAgg plans.",
							 NULL,
							 &lsm_enable_lsmscan, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_load_after",
							"Sets how much a transaction inserts into a table before that is a bulk load (for tests).",
							"-1 means that nothing is.",
							&lsm_debug_load_after, 1024, -1, MAX_KILOBYTES,
							PGC_USERSET, GUC_UNIT_KB | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_ring_lbs",
							"Sets the number of version LBs of tables made in the session (for tests).",
							"0 uses all of the ring.",
							&lsm_debug_ring_lbs, 0, 0, LSM_END_VERSION_LB - LSM_FIRST_VERSION_LB,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_manifest_entries",
							"Sets the number of segments and free ranges that a table may have (for tests).",
							"0 means as many as its manifest has room for.",
							&lsm_debug_manifest_entries, 0, 0, LSM_MAX_ENTRIES,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_kept_views",
							"Sets the memory of a session for copies of manifests that it keeps (for tests).",
							NULL,
							&lsm_debug_kept_views, LSM_KEPT_VIEWS_KB, 0, LSM_KEPT_VIEWS_KB,
							PGC_SUSET, GUC_UNIT_KB | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_first_lb",
							"Sets the first root LB of tables made in the session (for tests).",
							"A negative one counts from the end.",
							&lsm_debug_first_lb, 0, PG_INT32_MIN, PG_INT32_MAX,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_vm_lbs",
							"Sets the number of LBs whose bits of the visibility map VACUUM sets together (for tests).",
							NULL,
							&lsm_debug_vm_lbs, LSM_VM_WINDOW, 1, LSM_VM_WINDOW,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_reader_memory",
							"Sets the memory of a session for opened segments (for tests).",
							NULL,
							&lsm_debug_reader_memory, LSM_SESSION_READERS_KB, 1, 1024 * 1024,
							PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_bounds_from",
							"Sets the size of metadata from which a segment is not opened as a whole for its bounds, or for single rows (for tests).",
							NULL,
							&lsm_debug_bounds_from, 64, 0, 1024 * 1024,
							PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_quiet_time",
							"Sets for how long nobody has changed a table that is taken to be quiet (for tests).",
							NULL,
							&lsm_debug_quiet_time, 60 * 1000, 0, INT_MAX,
							PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.debug_segment_rows",
							"Sets the number of rows that end a segment (for tests).",
							NULL,
							&lsm_debug_segment_rows, LSM_PICK_SEGMENT_ROWS, 1, LSM_PICK_SEGMENT_ROWS,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomStringVariable("lsm.debug_stop",
							   "Makes the engine wait, fail or crash at named points (for tests).",
							   NULL,
							   &lsm_debug_stop, "", PGC_SUSET, GUC_NOT_IN_SAMPLE,
							   (GucStringCheckHook) lsm_stop_check, NULL, NULL);
	lsm_init_worker_settings();
	lsm_store_init();
	MarkGUCPrefixReserved("lsm");
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lsm must be loaded when the server starts"),
				 errhint("Add lsm to shared_preload_libraries and restart the server.")));

	lsm_init_settings();
	lsm_wal_register();
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = lsm_init_shmem_request;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = lsm_init_shmem_startup;
	RegisterXactCallback(lsm_xact_callback, NULL);
	RegisterSubXactCallback(lsm_subxact_callback, NULL);
	lsm_executor_install();
	lsm_bitmappath_install();	/* it comes first, see there */
	lsm_scanpath_install();
	lsm_aggpath_install();
	lsm_lookahead_install();
	lsm_keyorder_install();
	lsm_executor_look = lsm_joinfilter_look;
	lsm_indexpath_install();
	lsm_explain_install();
	lsm_ddl_install_hooks();
	lsm_launcher_register();
}
