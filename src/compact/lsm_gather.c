/*-------------------------------------------------------------------------
 *
 * lsm_gather.c
 *	  The facts of a table that the choice of jobs rests on (lsm_pick.h).
 *
 * They come from the newest view, the counters, the claims of running jobs and
 * their progress.  All may be a moment old: a job takes its locks and claims, and
 * looks again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_cold.h"
#include "lsm_cold_move.h"
#include "lsm_compact.h"
#include "lsm_lbs.h"
#include "lsm_options.h"
#include "lsm_pick.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* What writing costs: to the local disk, and if it goes on from there to a store. */
#define LSM_MEDIUM_LOCAL		1.0
#define LSM_MEDIUM_COLD			4.0

/*
 * Space is given back when a table has been quiet for so many times what makes it quiet: the
 * end of the file needs a lock, and who changes the table every now and then would only
 * have to make it longer again.
 */
#define LSM_TRIM_QUIET_TIMES	5

int			lsm_minor_compact_trigger = 4;

/* What the manifest knows of a segment's xids that were running when it was written. */
typedef struct LsmGatherOutcomes
{
	bool		unknown;		/* some that has a place has not been noted */
	bool		lost;			/* some has no place */
	bool		aborted;
} LsmGatherOutcomes;

static void
lsm_gather_outcomes(const LsmManifestEntry *entry, LsmGatherOutcomes *outcomes)
{
	memset(outcomes, 0, sizeof(*outcomes));
	outcomes->lost = entry->nunresolved > LSM_MAX_OUTCOMES;
	outcomes->aborted = (entry->flags & LSM_SEGFLAG_ABORTED) != 0;
	for (uint32 i = 0; i < Min(entry->nunresolved, LSM_MAX_OUTCOMES); i++)
	{
		int			outcome = lsm_entry_outcome(entry, i);

		if (outcome == LSM_OUTCOME_UNKNOWN)
			outcomes->unknown = true;
		else if (outcome == LSM_OUTCOME_ABORTED)
			outcomes->aborted = true;
	}
}

/* Does lsm_resolve_segments() have something to note of a segment? */
static bool
lsm_gather_resolvable(const LsmManifestEntry *entry, const LsmHorizons *horizons)
{
	LsmGatherOutcomes outcomes;

	if (entry->flags & LSM_SEGFLAG_ALL_VISIBLE)
		return false;
	lsm_gather_outcomes(entry, &outcomes);
	if (outcomes.unknown)
		return entry->min_unresolved < horizons->visible;
	return entry->kind == LSM_SEGKIND_INSERT &&
		(entry->min_unresolved == 0 || outcomes.lost) && !outcomes.aborted && entry->max_xid < horizons->settled;
}

static void
lsm_gather_segment(const LsmManifestEntry *entry, const LsmHorizons *horizons,
				   LsmPickSegment *segment)
{
	LsmGatherOutcomes outcomes;

	memset(segment, 0, sizeof(*segment));
	segment->first_tid = entry->first_tid;
	segment->last_tid = entry->last_tid;
	segment->bytes = entry->stored_bytes;
	segment->versions = entry->versions;
	if (entry->kind == LSM_SEGKIND_INCREMENT)
		segment->ends = entry->dead;
	segment->gen_lo = entry->gen_lo;
	segment->gen_hi = entry->gen_hi;
	segment->cold = lsm_entry_is_cold(entry);
	if (entry->flags & LSM_SEGFLAG_ALL_VISIBLE)
		return;
	segment->max_xid = entry->max_xid;
	lsm_gather_outcomes(entry, &outcomes);

	/* as lsm_base_needs_rewrite() */
	if (outcomes.lost && !outcomes.unknown &&
		(entry->kind == LSM_SEGKIND_INCREMENT || entry->max_xid < horizons->settled))
		segment->stuck_xid = entry->min_unresolved;

	segment->aborted = outcomes.aborted && !outcomes.unknown &&
		entry->max_xid < horizons->settled;
}

static void
lsm_gather_view(const LsmView *view, const LsmHorizons *horizons, LsmPickFacts *facts)
{
	facts->next_root_lb = view->meta.next_root_lb;
	facts->file_bytes = (uint64) view->meta.npages * BLCKSZ;
	facts->nbase = view->nbase;
	facts->base = MemoryContextAllocHuge(CurrentMemoryContext,
										 Max(view->nbase, 1) * sizeof(LsmPickSegment));
	for (int i = 0; i < view->nbase; i++)
	{
		lsm_gather_segment(view->base[i], horizons, &facts->base[i]);

		/* this counts for small ones only */
		if (i > 0 && view->base[i]->stored_bytes < facts->segment_bytes / 4 &&
			view->base[i - 1]->stored_bytes < facts->segment_bytes / 4)
			facts->base[i].apart = lsm_lbs_apart(&view->meta, lsm_lbs_break(&view->meta),
												 view->base[i - 1]->last_tid,
												 view->base[i]->first_tid);
	}
	facts->nincrements = view->nincrements;
	facts->increments = MemoryContextAllocHuge(CurrentMemoryContext,
											   Max(view->nincrements, 1) * sizeof(LsmPickSegment));
	for (int i = 0; i < view->nincrements; i++)
	{
		lsm_gather_segment(view->increments[i], horizons, &facts->increments[i]);
		facts->increments[i].lap = 1 - lsm_ring_entry_left(&view->meta, view->increments[i]);
	}
	for (int i = 0; i < view->nentries; i++)
	{
		const LsmManifestEntry *entry = &view->entries[i];

		if (entry->type == LSM_ENTRY_FREE)
			facts->free_bytes += (uint64) entry->extents[0].npages * BLCKSZ;
		else if (entry->type == LSM_ENTRY_SEGMENT && entry->kind != LSM_SEGKIND_DEAD &&
				 lsm_gather_resolvable(entry, horizons))
			facts->nresolvable++;
	}
}

/* Pages of the row log that a switch would end.  0: there are no records. */
static uint32
lsm_gather_memtable_pages(LsmTable *table, const LsmView *view)
{
	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind != LSM_RANGE_FREE &&
			view->meta.ranges[i].generation != view->meta.flushing)
			return Max(table->shared->gen_pages, 1);
	return 0;
}

static void
lsm_gather_memtable(LsmTable *table, const LsmView *view, LsmPickFacts *facts)
{
	LsmTableShared *shared = table->shared;

	facts->generation_waits = view->meta.flushing != 0;
	facts->arena_fill = lsm_memindex_arena_fill();
	facts->memtable_pages = lsm_gather_memtable_pages(table, view);
	if (facts->memtable_pages == 0)
		return;
	facts->memtable_fill = lsm_rowlog_fill(table);
	facts->memtable_xid = view->meta.generation_xid;
	if (view->meta.leftover_xid != 0)
		facts->memtable_xid = Min(facts->memtable_xid, view->meta.leftover_xid);
	facts->arena_share = (double) lsm_table_index(shared, shared->generation)->nchunks /
		lsm_memindex_arena_chunks();
}

/* Has nobody changed a table for long? */
static bool
lsm_gather_rests(Relation rel)
{
	TimestampTz changed_at = lsm_stat_changed_at(RelationGetRelid(rel));
	int64		ms = (int64) lsm_debug_quiet_time * LSM_TRIM_QUIET_TIMES;

	return GetCurrentTimestamp() >= TimestampTzPlusMilliseconds(changed_at, ms);
}

static void
lsm_gather_counters(Relation rel, LsmPickFacts *facts)
{
	LsmStatCopy copy;

	lsm_table_give_counts();
	(void) lsm_stat_read(RelationGetRelid(rel), &copy);

	/* small increments that nobody would merge are dearer than the memtable */
	facts->memtable_waste = copy.memtable_waste + (facts->compact ? copy.memtable_quiet : 0);
	facts->shift = copy.shift;
	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
		if (copy.buckets[i].records > copy.buckets[i].rows)
			facts->waste[i] = copy.buckets[i].records - copy.buckets[i].rows;
}

/* Jobs of the table, other than one of this process. */
static void
lsm_gather_running(Relation rel, LsmTable *table, const LsmView *view, LsmPickFacts *facts)
{
	LsmJobProgress *jobs;
	int			n = lsm_progress_list(&jobs);
	uint32		majors = 0;		/* owners, as bits */

	facts->majors = palloc(LSM_MAJOR_SLOTS * sizeof(LsmPickRange));
	LWLockAcquire(&table->shared->edit_lock, LW_SHARED);
	for (int i = 0; i < LSM_CLAIMS; i++)
	{
		const LsmClaim *claim = &table->shared->claims[i];

		if (!claim->used)
			continue;
		if (i == 0)
			facts->minor_lo = claim->gen_lo;
		else
		{
			facts->major_hi = Max(facts->major_hi, claim->gen_hi);
			facts->majors[facts->nmajors].first_root = claim->first;
			facts->majors[facts->nmajors].last_root = claim->last;
			facts->majors[facts->nmajors++].moves = claim->moves;
			if (!claim->moves)
				majors |= 1 << lsm_major_owner(i - 1);
		}
	}
	LWLockRelease(&table->shared->edit_lock);

	/* what dead ones had been given is nobody's */
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_PENDING &&
			(majors & (1 << view->entries[i].kind)) != 0)
			facts->given_bytes += (uint64) view->entries[i].extents[0].npages * BLCKSZ;
	for (int i = 0; i < n; i++)
	{
		if (jobs[i].dboid != MyDatabaseId || jobs[i].relid != RelationGetRelid(rel) ||
			jobs[i].pid == MyProcPid)
			continue;
		/* one that waits may find that it is not needed any more */
		if (jobs[i].kind == LSM_JOB_FLUSH && jobs[i].phase != LSM_PHASE_WAITING)
			facts->flush_runs = true;
		else if (jobs[i].kind == LSM_JOB_MINOR)
			facts->minor_runs = true;
	}
	pfree(jobs);
}

/*
 * Entries that the next job frees.  No job may come to a table that is at rest after its
 * segments have gone to a store.
 */
static int
lsm_gather_retired(Relation rel, const LsmView *view)
{
	uint64		horizon = 0;
	int			n = 0;

	for (int i = 0; i < view->nentries; i++)
	{
		if (view->entries[i].type != LSM_ENTRY_RETIRED)
			continue;
		if (horizon == 0)
			horizon = lsm_retired_horizon(rel);
		n += lsm_entry_retired_xid(&view->meta, &view->entries[i]) < horizon;
	}
	return n;
}

/* The facts of a table; what they point to is palloc'd. */
void
lsm_pick_gather(Relation rel, LsmPickFacts *facts)
{
	LsmTable   *table = lsm_table_open(rel);
	bool		cold = OidIsValid(lsm_cold_attached(rel));
	LsmHorizons horizons;
	LsmView    *view;

	memset(facts, 0, sizeof(*facts));
	lsm_horizons(rel, &horizons);
	view = lsm_view_get(rel, table);
	facts->compact = lsm_options_auto_compact(rel);
	facts->minor_trigger = lsm_minor_compact_trigger;
	facts->job_bytes = lsm_job_limit(view);
	facts->increment_least = lsm_increment_least();
	facts->manifest_fill = lsm_manifest_fill(view->nentries);
	facts->freeze_age = (uint64) autovacuum_freeze_max_age / 2;
	facts->medium = cold ? LSM_MEDIUM_COLD : LSM_MEDIUM_LOCAL;
	facts->segment_setting = lsm_segment_bytes(0, cold);
	facts->segment_bytes = lsm_segment_bytes(view->all_base.stored, cold);
	facts->segment_rows = lsm_debug_segment_rows;
	facts->cold_rests = !lsm_cold_may_try(&table->shared->cold_majors);
	if (lsm_cold_may_try(&table->shared->cold_moves))
		facts->nmisplaced = lsm_cold_count_misplaced(rel, view);
	facts->nretired = lsm_gather_retired(rel, view);
	facts->next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	facts->visible_xid = horizons.visible;
	facts->settled_xid = horizons.settled;
	lsm_gather_view(view, &horizons, facts);
	lsm_gather_memtable(table, view, facts);
	lsm_gather_counters(rel, facts);
	facts->at_rest = lsm_gather_rests(rel);
	facts->trim = facts->compact && facts->at_rest && lsm_trim_worth(rel, table, false);
	lsm_gather_running(rel, table, lsm_view_get(rel, table), facts);
}

bool
lsm_pick_job(Relation rel, int spent, LsmPickDecision *decision)
{
	LsmPickFacts facts;

	lsm_pick_gather(rel, &facts);
	facts.spent = spent;
	lsm_table_open(rel)->shared->depth = (uint16) Min(lsm_pick_depth(&facts), PG_UINT16_MAX);
	lsm_pick(&facts, decision);
	pfree(facts.base);
	pfree(facts.increments);
	pfree(facts.majors);
	return decision->kind != LSM_JOB_NONE;
}

/*
 * Is there something that nobody can do now, but later, when the horizons have moved,
 * the store is back or the table has been quiet?  Increments, segments that are not at their
 * place, rows whose transactions will be visible to all, large values that somebody may still
 * read, much of the file in the row log, and free space.
 */
bool
lsm_pick_later(Relation rel)
{
	const LsmHorizons last = {PG_UINT64_MAX, PG_UINT64_MAX};
	LsmTable   *table = lsm_table_open(rel);
	LsmView    *view = lsm_view_get(rel, table);
	bool		compact = lsm_options_auto_compact(rel);

	if (compact && (view->nincrements > 0 ||
					lsm_pick_memtable_is_much(lsm_gather_memtable_pages(table, view),
											  (uint64) view->meta.npages * BLCKSZ)))
		return true;
	for (int i = 0; i < view->nentries; i++)
	{
		const LsmManifestEntry *entry = &view->entries[i];

		if (entry->type == LSM_ENTRY_SEGMENT && entry->kind == LSM_SEGKIND_INSERT &&
			lsm_gather_resolvable(entry, &last))
			return true;
		if (entry->type == LSM_ENTRY_RETIRED)
			return true;
	}
	if (lsm_cold_count_misplaced(rel, view) > 0)
		return true;

	/* last, as the view may be another then */
	return compact && lsm_trim_worth(rel, table, true);
}
