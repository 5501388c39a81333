/*-------------------------------------------------------------------------
 *
 * lsm_compat_vacuum.h
 *	  The part of lsm_compat.h that only VACUUM needs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPAT_VACUUM_H
#define LSM_COMPAT_VACUUM_H

#include "lsm_compat.h"

#include "access/genam.h"
#include "access/multixact.h"
#include "commands/vacuum.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"

typedef struct LsmCutoffs
{
	TransactionId oldest_xmin;
	MultiXactId oldest_mxact;
	bool		aggressive;		/* relfrozenxid has to advance */
} LsmCutoffs;

static inline void
lsm_compat_cutoffs(Relation rel, VacuumParams *params, LsmCutoffs *cutoffs)
{
#if PG_VERSION_NUM < 170000
	TransactionId freeze_limit;
	MultiXactId multi_cutoff;

	cutoffs->aggressive = vacuum_set_xid_limits(rel, params->freeze_min_age,
												params->freeze_table_age,
												params->multixact_freeze_min_age,
												params->multixact_freeze_table_age,
												&cutoffs->oldest_xmin, &cutoffs->oldest_mxact,
												&freeze_limit, &multi_cutoff);
#else
	struct VacuumCutoffs limits;

	cutoffs->aggressive = vacuum_get_cutoffs(rel, params, &limits);
	cutoffs->oldest_xmin = limits.OldestXmin;
	cutoffs->oldest_mxact = limits.OldestMxact;
#endif
}

static inline void
lsm_compat_index_vacuum_info(IndexVacuumInfo *info, Relation index, Relation rel,
							 BufferAccessStrategy strategy)
{
	info->index = index;
#if PG_VERSION_NUM >= 170000
	info->heaprel = rel;
#endif
	info->analyze_only = false;
	info->report_progress = false;
	info->message_level = DEBUG2;
	info->strategy = strategy;
}

static inline void
lsm_compat_update_relstats(Relation rel, BlockNumber pages, double rows, bool hasindex,
						   TransactionId frozenxid, MultiXactId minmulti)
{
	bool		frozenxid_updated;
	bool		minmulti_updated;

#if PG_VERSION_NUM < 180000
	vac_update_relstats(rel, pages, rows, 0, hasindex, frozenxid, minmulti,
						&frozenxid_updated, &minmulti_updated, false);
#else
	vac_update_relstats(rel, pages, rows, 0, 0, hasindex, frozenxid, minmulti,
						&frozenxid_updated, &minmulti_updated, false);
#endif
}

static inline void
lsm_compat_report_vacuum(Relation rel, double live, double dead, TimestampTz start)
{
#if PG_VERSION_NUM < 180000
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, (PgStat_Counter) live,
						 (PgStat_Counter) dead);
#else
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, (PgStat_Counter) live,
						 (PgStat_Counter) dead, start);
#endif
}

#endif							/* LSM_COMPAT_VACUUM_H */
