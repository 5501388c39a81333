/*-------------------------------------------------------------------------
 *
 * lsm_pace.c
 *	  Who has to be slower than he could: compactions by workers, and writers.
 *
 * COMPACTIONS BY WORKERS keep to lsm.compaction_rate_limit, all of them together.
 * A job that has written some pages takes as much time of the future as these cost
 * at that rate, and sleeps until its time has come.  Flushes are not held up:
 * what they wait for, writers wait for.  Nor is a job that somebody waits for
 * (lsm_job_is_urgent()); what it writes meanwhile is not charged.
 *
 * WRITERS are slowed while a flush runs and the next generation fills up: each page
 * that a backend begins costs it a pause, from nothing at LSM_SLOW_FILL to
 * LSM_SLOW_PAGE_US when the generation is full.  So the rate of writes falls to what
 * flushes can take, in steps of milliseconds, before anyone has to wait for a whole
 * flush.  (RocksDB slows writers for the same reason, by a rate that it adjusts.)  The same
 * happens when compactions fall behind, so that ever more increments lie over each other: from
 * LSM_SLOW_DEPTH times lsm.minor_compact_trigger on, two and a half times what is usual, each page
 * of versions costs a pause, the longer the more there are, so that the rate falls to what
 * compactions can take.  Here, too, nobody pauses for more than LSM_SLOW_LONGEST_US at a time.
 *
 * No lock is held while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_compact.h"
#include "lsm_options.h"
#include "lsm_pace.h"
#include "lsm_pick.h"
#include "lsm_request.h"
#include "lsm_rowlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* How full the active generation is when writers become slower. */
#define LSM_SLOW_FILL			0.6

/* What a page costs when it is full, and the longest pause at a time (us). */
#define LSM_SLOW_PAGE_US		4000.0
#define LSM_SLOW_LONGEST_US		50000

/* Increments over each other, in lsm.minor_compact_trigger, from which on they do as well. */
#define LSM_SLOW_DEPTH			5.0

int			lsm_compaction_rate_limit = 0;

static void
lsm_pace_reload(void)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Sleep until it is the time of what has been written since the last call. */
void
lsm_pace_job(void)
{
	uint64		bytes = lsm_bytes_to_pace;
	TimestampTz until;
	int			limit;

	lsm_bytes_to_pace = 0;		/* no recursion */
	lsm_pace_reload();
	limit = lsm_compaction_rate_limit;
	if (limit == 0 || lsm_job_is_urgent())
		return;
	until = lsm_worker_take_time(limit, (int64) (bytes * (1000000.0 / 1024) / limit));
	for (;;)
	{
		long		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		lsm_job_check();
		lsm_pace_reload();

		/* the rest of the time was counted at another rate */
		if (ms <= 0 || lsm_compaction_rate_limit != limit || lsm_job_is_urgent())
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
						 lsm_compat_wait_event("LsmCompactionRateLimit"));
		ResetLatch(MyLatch);
	}
}

/* How far have compactions fallen behind?  0: not, 1: a page costs LSM_SLOW_PAGE_US. */
static double
lsm_pace_backlog(Relation rel, LsmTable *table)
{
	double		usual = LSM_SLOW_DEPTH * lsm_minor_compact_trigger;
	double		depth = table->shared->depth;

	/* where nobody compacts, it is of no use to wait */
	if (likely(depth <= usual) || lsm_compaction_workers == 0 || !IsUnderPostmaster ||
		RelationUsesLocalBuffers(rel) || !lsm_options_auto_compact(rel) || !lsm_workers_may_come())
		return 0;
	return depth / usual - 1;
}

/*
 * Before a change: wait a moment if flushes or compactions fall behind.  fill: of the active
 * generation.
 */
void
lsm_pace_writer(Relation rel, LsmTable *table, double fill)
{
	double		flush = (fill - LSM_SLOW_FILL) / (1 - LSM_SLOW_FILL);
	double		backlog = lsm_pace_backlog(rel, table);
	double		us = 0;
	instr_time	start;
	instr_time	stall;

	/* increments come of versions only */
	if (flush > 0 && table->shared->flushing != 0)
		us = lsm_pages_begun * LSM_SLOW_PAGE_US * flush * flush;
	us = Max(us, lsm_version_pages_begun * LSM_SLOW_PAGE_US * backlog * backlog);
	us = Min(us, LSM_SLOW_LONGEST_US);
	lsm_pages_begun = lsm_version_pages_begun = 0;
	if (us < 1)
		return;
	INSTR_TIME_SET_CURRENT(start);
	pgstat_report_wait_start(lsm_compat_wait_event("LsmSlowWrite"));
	pg_usleep((long) us);
	pgstat_report_wait_end();
	CHECK_FOR_INTERRUPTS();
	INSTR_TIME_SET_CURRENT(stall);
	INSTR_TIME_SUBTRACT(stall, start);
	lsm_stat_report_stall(RelationGetRelid(rel), INSTR_TIME_GET_MICROSEC(stall));
}
