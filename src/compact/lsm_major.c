/*-------------------------------------------------------------------------
 *
 * lsm_major.c
 *	  Major compaction: increments go into the base segments that they touch.
 *
 * Base segments that no increment touches stay as they are.  A table that is small
 * is done in one part.  Of a large one, each part takes what lies over one increment's
 * roots, so that it reads about lsm_job_limit() bytes, gives back what it has
 * replaced before the next one begins, and can be given up without losing much; and
 * other majors may run over other roots at the same time.
 *
 * WHICH INCREMENTS A PART TAKES
 *	  The order of a row's records must stay the order of the segments (I11).  So a
 *	  part begins with an increment below which no other lies, and adds those
 *	  above it, from older to newer, as long as their roots are within its own; the
 *	  first that has some of them and others too ends it.  Before that, minor
 *	  compactions have made increments that do not overlap (lsm_untangle.c), and have cut
 *	  them where the base segments below come to half a part's limit, or less
 *	  (lsm_minor_pass()).  A part that a worker was told to do takes the increments within
 *	  its range, after a minor has cut what reaches over its borders.  A small table is
 *	  done with all that may be taken.  (Other LSM engines cut
 *	  their files by the overlap with the level below for the same reason.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_cold.h"
#include "lsm_cold_move.h"
#include "lsm_compact.h"
#include "lsm_lbs.h"
#include "lsm_pick.h"
#include "lsm_sharedcache.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "miscadmin.h"

/* Small neighbours in the baseline that a major compaction makes one. */
#define LSM_SMALL_RUN			4

/* The part of a segment that comes after its last block, about. */
#define LSM_MAJOR_METADATA		16

/* How far a major has come. */
typedef struct LsmMajorSweep
{
	uint32		until;			/* newest generation that goes in */
	bool		whole;			/* all in one part */
	bool		range;			/* what lies within first and last, in one part */
	bool		increments;		/* first those parts that have some */
	LsmTid		first;			/* roots at which a part may begin */
	LsmTid		last;
	LsmTid		from;			/* those before it have been done */
	bool		done;
	bool		cold;			/* the part reads what lies in a store */
} LsmMajorSweep;

/* What one part takes. */
typedef struct LsmMajorPart
{
	int			n;
	LsmManifestEntry *increments;	/* newest first */
	int			nbases;
	LsmManifestEntry *bases;	/* by root; not all of them are written again */
	LsmTid		first;			/* roots of all of these */
	LsmTid		last;
	LsmMeta		meta;			/* as it was then */
} LsmMajorPart;

/* ---- choosing base segments ---- */

/*
 * Has an increment a record of a row of the base segment, or of one between its first and its last?
 * Their roots overlap.  Mostly the first or the last root of a block tells; a block that reaches over
 * all of the base segment is looked into.  The cursor is the increment's, zero at first.
 */
static bool
lsm_increment_touches(LsmCompact *compact, const LsmManifestEntry *increment, LsmCursor *cursor,
					  const LsmManifestEntry *base)
{
	LsmSegmentReader *reader;
	uint32		blockno;
	LsmTid		block_first;
	LsmTid		block_last;
	uint32		rows;
	uint64		offset;
	uint32		stored;

	if (increment->first_tid >= base->first_tid || increment->last_tid <= base->last_tid)
		return true;
	if (cursor->rel == NULL)
		lsm_cursor_init(cursor, compact->rel, compact->table, increment);
	reader = lsm_cursor_reader(cursor);
	blockno = lsm_segment_find_block(reader, base->first_tid);
	if (blockno >= cursor->nblocks)
		return false;
	lsm_segment_block_info(reader, blockno, &block_first, &block_last, &rows, &offset, &stored);
	if (block_first > base->last_tid)
		return false;
	if (block_first >= base->first_tid || block_last <= base->last_tid)
		return true;
	return lsm_cursor_seek(cursor, blockno, base->first_tid) <= base->last_tid;
}

/*
 * Choose the base segments that an increment touches.  All of them at once, as the increment
 * may have to be opened for it, and blocks of it read.
 */
static void
lsm_increment_choose(LsmCompact *compact, const LsmManifestEntry *increment,
					 const LsmManifestEntry *bases, int nbases, bool *chosen)
{
	LsmCursor	cursor = {0};
	int			at = 0;
	int			end = nbases;

	/* the first that does not end before it */
	while (at < end)
	{
		int			middle = at + (end - at) / 2;

		if (bases[middle].last_tid < increment->first_tid)
			at = middle + 1;
		else
			end = middle;
	}
	for (; at < nbases && bases[at].first_tid <= increment->last_tid; at++)
		if (!chosen[at])
			chosen[at] = lsm_increment_touches(compact, increment, &cursor, &bases[at]);
	lsm_cursor_close(&cursor);
}

/*
 * Must a base segment be written again though no increment touches it?  If it has rows of
 * rolled-back transactions while all of its others are settled.
 */
static bool
lsm_base_needs_rewrite(LsmCompact *compact, const LsmManifestEntry *entry)
{
	bool		aborted = false;

	if (entry->rows == 0)
		return true;
	if (entry->flags & LSM_SEGFLAG_ALL_VISIBLE)
		return false;
	for (uint32 i = 0; i < entry->nunresolved; i++)
	{
		int			outcome = lsm_entry_outcome(entry, i);

		if (outcome == LSM_OUTCOME_UNKNOWN && i < LSM_MAX_OUTCOMES)
			return false;
		if (outcome != LSM_OUTCOME_COMMITTED)
			aborted = true;
	}
	return aborted && entry->max_xid < compact->merge->horizons.settled;
}

static bool
lsm_compact_apart(LsmCompact *compact, const LsmManifestEntry *left, const LsmManifestEntry *right)
{
	return lsm_lbs_apart(compact->meta, compact->merge->bottom.break_lbs, left->last_tid,
						 right->first_tid);
}

/*
 * Choose the base segments to write again: those that increments touch or that need it, and
 * runs of at least LSM_SMALL_RUN neighbours that are small, as many flushes of little leave
 * them behind.
 */
static bool *
lsm_major_choose(LsmCompact *compact, const LsmManifestEntry *bases, int nbases)
{
	bool	   *chosen = palloc0(Max(nbases, 1) * sizeof(bool));
	uint64		setting = lsm_segment_bytes(0, OidIsValid(lsm_cold_attached(compact->rel)));
	uint64		small = lsm_pick_small(setting, compact->merge->bottom.segment_bytes,
									   lsm_view_get(compact->rel, compact->table)->nbase);
	int			run = 0;

	for (int i = 0; i < compact->ninputs; i++)
		lsm_increment_choose(compact, compact->inputs[i].entry, bases, nbases, chosen);
	for (int i = 0; i < nbases; i++)
	{
		if (lsm_base_needs_rewrite(compact, &bases[i]))
			chosen[i] = true;
		if (i > 0 && lsm_compact_apart(compact, &bases[i - 1], &bases[i]))
			run = 0;			/* they cannot become one */
		run = lsm_pick_is_small(bases[i].stored_bytes, bases[i].versions, small,
								lsm_debug_segment_rows) ? run + 1 : 0;
		if (run == LSM_SMALL_RUN)
			for (int j = i - run + 1; j < i; j++)
				chosen[j] = true;
		if (run >= LSM_SMALL_RUN)
			chosen[i] = true;
	}
	return chosen;
}

/* ---- what a part takes ---- */

/* May the increment go into the baseline now?  edit_lock is held. */
static bool
lsm_major_eligible(LsmTableShared *shared, uint16 owner, const LsmMajorSweep *sweep,
				   const LsmManifestEntry *entry)
{
	return entry->gen_hi <= sweep->until && entry->gen_hi < lsm_claimed_by_minor(shared) &&
		!lsm_claimed_roots(shared, owner, entry->first_tid, entry->last_tid);
}

static inline bool
lsm_entries_overlap(const LsmManifestEntry *a, const LsmManifestEntry *b)
{
	return a->first_tid <= b->last_tid && b->first_tid <= a->last_tid;
}

/* Add the base segments that have roots of the part, whose roots become the part's. */
static void
lsm_part_add_bases(LsmMajorPart *part, LsmView *view)
{
	int			from = lsm_view_find_base(view, part->first);
	int			to = from;

	while (to < view->nbase && view->base[to]->first_tid <= part->last)
		to++;
	part->nbases = to - from;
	part->bases = MemoryContextAllocHuge(CurrentMemoryContext,
										 Max(part->nbases, 1) * sizeof(LsmManifestEntry));
	for (int i = from; i < to; i++)
		part->bases[i - from] = *view->base[i];
	if (part->nbases > 0)
	{
		part->first = Min(part->first, part->bases[0].first_tid);
		part->last = Max(part->last, part->bases[part->nbases - 1].last_tid);
	}
}

/*
 * The increments that lie over the roots of the one at seed, as far as they may be
 * taken together; entries are sorted, newest first.  What stays of them becomes as new
 * as the newest of them, so all must be older than the one that ends it.
 */
static void
lsm_part_add_increments(LsmMajorPart *part, const LsmManifestEntry *entries,
						const bool *eligible, int seed)
{
	const LsmManifestEntry *oldest = &entries[seed];
	int			newest = seed;

	part->first = oldest->first_tid;
	part->last = oldest->last_tid;
	for (int i = seed - 1; i >= 0; i--)
	{
		if (!lsm_entries_overlap(&entries[i], oldest))
			continue;
		if (!eligible[i] || entries[i].first_tid < oldest->first_tid ||
			entries[i].last_tid > oldest->last_tid)
		{
			while (newest < seed && entries[newest].gen_hi == entries[i].gen_hi)
				newest++;
			break;
		}
		newest = i;
	}
	for (int i = newest; i <= seed; i++)
		if (i == seed || lsm_entries_overlap(&entries[i], oldest))
			part->increments[part->n++] = entries[i];
}

/*
 * The increments that lie within the range, but for those above one that does not, or
 * may not be taken; entries are sorted, newest first.  All are older than any that is
 * left out above one of them, for the same reason.  (Of one age they have no rows in
 * common.)
 */
static void
lsm_part_add_range(LsmMajorPart *part, const LsmMajorSweep *sweep,
				   LsmManifestEntry *entries, bool *eligible, int n)
{
	uint32		end = PG_UINT32_MAX;
	int			kept = 0;
	int		   *left;			/* those that may not be taken, from the oldest on */
	int			nleft = 0;

	/* others have no roots in common with any that lies within the range */
	for (int i = 0; i < n; i++)
	{
		if (entries[i].first_tid > sweep->last || entries[i].last_tid < sweep->first)
			continue;
		eligible[kept] = eligible[i];
		entries[kept++] = entries[i];
	}
	n = kept;

	left = palloc(Max(n, 1) * sizeof(int));
	for (int i = n - 1; i >= 0 && entries[i].gen_hi <= end; i--)
	{
		eligible[i] = eligible[i] && entries[i].first_tid >= sweep->first &&
			entries[i].last_tid <= sweep->last;
		for (int j = 0; j < nleft && eligible[i]; j++)
			eligible[i] = !lsm_entries_overlap(&entries[left[j]], &entries[i]);
		if (eligible[i])
			continue;
		left[nleft++] = i;
		for (int j = n - 1; j > i && end != entries[i].gen_hi; j--)
			if (eligible[j] && entries[j].gen_hi < entries[i].gen_hi &&
				lsm_entries_overlap(&entries[j], &entries[i]))
				end = entries[i].gen_hi;
	}
	pfree(left);
	for (int i = 0; i < n; i++)
		if (eligible[i] && entries[i].gen_hi < end)
			part->increments[part->n++] = entries[i];
	part->first = sweep->first;
	part->last = sweep->last;
}

/* Is there an older increment that has some of its roots? */
static bool
lsm_major_has_older(const LsmManifestEntry *entries, int n, int i)
{
	for (int j = i + 1; j < n; j++)
		if (lsm_entries_overlap(&entries[j], &entries[i]))
			return true;
	return false;
}

static int
lsm_entry_cmp_root(const void *a, const void *b)
{
	LsmTid		x = (*(const LsmManifestEntry *const *) a)->first_tid;
	LsmTid		y = (*(const LsmManifestEntry *const *) b)->first_tid;

	return x < y ? -1 : x > y;
}

static const LsmManifestEntry **
lsm_entries_by_root(const LsmManifestEntry *entries, int n)
{
	const LsmManifestEntry **by_root = palloc(Max(n, 1) * sizeof(LsmManifestEntry *));

	for (int i = 0; i < n; i++)
		by_root[i] = &entries[i];
	qsort(by_root, n, sizeof(LsmManifestEntry *), lsm_entry_cmp_root);
	return by_root;
}

/* The next part that has increments; false: there is none. */
static bool
lsm_major_next_increments(LsmView *view, LsmTableShared *shared, uint16 owner,
						  LsmMajorSweep *sweep, LsmMajorPart *part)
{
	int			n = view->nincrements;
	LsmManifestEntry *entries = lsm_view_copy_increments(view);
	bool	   *eligible = palloc(Max(n, 1) * sizeof(bool));
	const LsmManifestEntry **by_root;

	lsm_entries_sort_age(entries, n);
	for (int i = 0; i < n; i++)
		eligible[i] = lsm_major_eligible(shared, owner, sweep, &entries[i]);
	part->increments = lsm_view_copy_increments(view);
	if (sweep->whole)
	{
		for (int i = 0; i < n; i++)
			if (eligible[i])
				part->increments[part->n++] = entries[i];
		part->first = 0;
		part->last = LSM_MAX_TID;
		lsm_part_add_bases(part, view);
		sweep->done = true;
		return true;
	}
	if (sweep->range)
	{
		lsm_part_add_range(part, sweep, entries, eligible, n);
		if (part->n == 0 || lsm_claimed_roots(shared, owner, sweep->first, sweep->last))
			return false;
		lsm_part_add_bases(part, view);
		sweep->done = true;
		return true;
	}
	by_root = lsm_entries_by_root(entries, n);
	for (int i = 0; i < n; i++)
	{
		const LsmManifestEntry *entry = by_root[i];
		int			seed = (int) (entry - entries);

		if (!eligible[seed] || entry->first_tid < sweep->from ||
			entry->first_tid > sweep->last || lsm_major_has_older(entries, n, seed))
			continue;
		sweep->from = entry->last_tid + 1;
		lsm_part_add_increments(part, entries, eligible, seed);
		lsm_part_add_bases(part, view);
		if (!lsm_claimed_roots(shared, owner, part->first, part->last))
			return true;
		part->n = 0;
	}
	return false;
}

/* The next base segments, as many as a part may read; false: there are none. */
static bool
lsm_major_next_bases(LsmView *view, LsmTableShared *shared, uint16 owner, LsmMajorSweep *sweep,
					 LsmMajorPart *part)
{
	int			i = lsm_view_find_base(view, sweep->from);
	uint64		limit = lsm_job_limit(view);
	uint64		bytes = 0;

	while (i < view->nbase &&
		   lsm_claimed_roots(shared, owner, view->base[i]->first_tid, view->base[i]->last_tid))
		i++;
	if (i >= view->nbase || view->base[i]->first_tid > sweep->last)
		return false;
	part->first = view->base[i]->first_tid;
	for (; i < view->nbase && view->base[i]->first_tid <= sweep->last &&
		 bytes < limit &&
		 !lsm_claimed_roots(shared, owner, view->base[i]->first_tid, view->base[i]->last_tid); i++)
	{
		bytes += view->base[i]->stored_bytes;
		part->last = view->base[i]->last_tid;
	}
	sweep->from = part->last + 1;
	lsm_part_add_bases(part, view);
	return true;
}

/* Find the next part and claim it; false: the sweep is done. */
static bool
lsm_major_claim(Relation rel, LsmTable *table, uint16 owner, LsmMajorSweep *sweep,
				LsmMajorPart *part)
{
	LsmTableShared *shared = table->shared;
	LsmView    *view;
	bool		any = false;

	memset(part, 0, sizeof(*part));
	LWLockAcquire(&shared->edit_lock, LW_EXCLUSIVE);
	view = lsm_view_get(rel, table);

	/* over all roots only if nobody else is over some */
	if (lsm_claimed_roots(shared, owner, 0, LSM_MAX_TID))
		sweep->whole = false;
	if (sweep->increments)
	{
		any = lsm_major_next_increments(view, shared, owner, sweep, part);
		if (!any)
		{
			memset(part, 0, sizeof(*part));
			sweep->increments = false;
			sweep->from = sweep->first;
		}
	}
	if (!any && !sweep->done)
		any = lsm_major_next_bases(view, shared, owner, sweep, part);

	/* what is left for later parts is out of a minor's reach, too */
	if (any)
		lsm_claim_set(shared, owner, false, 0, sweep->until, part->first, part->last);
	part->meta = view->meta;
	LWLockRelease(&shared->edit_lock);
	return any;
}

/* ---- doing it ---- */

/* Merge what increments have of rows before limit: these have gone. */
static void
lsm_major_strays(LsmCompact *compact, LsmTid limit)
{
	LsmTid		stray;

	while ((stray = lsm_compact_peek(compact)) != LSM_INVALID_TID && stray < limit)
	{
		lsm_compact_pause();
		lsm_compact_take(compact, stray);
		lsm_compact_row(compact, stray, false, !lsm_compact_in_rowlog(compact, stray));
	}
}

/*
 * Copy a block that has been begun (lsm_output_begin_patch()), with what increments say of its rows; last:
 * its last root.
 */
static void
lsm_major_patch(LsmCompact *compact, LsmTid last)
{
	LsmOutput  *bottom = &compact->merge->bottom;
	LsmBlock   *block = lsm_block_patch_block(bottom->patch);
	LsmTid		next;

	while ((next = lsm_compact_peek(compact)) != LSM_INVALID_TID && next <= last)
	{
		int			row = lsm_block_find(block, next);

		lsm_compact_pause();
		lsm_major_strays(compact, lsm_block_root(block, row));
		if (lsm_compact_peek(compact) == lsm_block_root(block, row))
			lsm_compact_patch(compact, block, row);
	}
	lsm_output_end_patch(bottom);
}

/*
 * Copy a block of a base segment, whose last root it is; false: its rows have to be added one by
 * one.
 */
static bool
lsm_major_copy(LsmCompact *compact, LsmCursor *base, uint32 blockno, LsmTid last)
{
	LsmOutput  *bottom = &compact->merge->bottom;
	LsmTid		next = lsm_compact_peek(compact);

	lsm_cursor_preload(base, blockno);
	if (next == LSM_INVALID_TID || next > last)
		return lsm_output_copy_block(bottom, lsm_cursor_reader(base), blockno);
	if (!lsm_output_begin_patch(bottom, lsm_cursor_reader(base), blockno))
		return false;
	lsm_major_patch(compact, last);
	return true;
}

/*
 * Write a base segment again with what the increments say of its rows.  A block
 * of which they say nothing is copied as it is, and of others what they do not touch, where that
 * can be done.
 */
static void
lsm_major_segment(LsmCompact *compact, const LsmManifestEntry *entry)
{
	LsmCursor	base;
	uint64		coming = compact->merge->bottom.coming_bytes;

	lsm_cursor_init(&base, compact->rel, compact->table, entry);
	lsm_compact_replace(compact, entry);
	for (uint32 blockno = 0; blockno < base.nblocks; blockno++)
	{
		LsmSegmentReader *reader = lsm_cursor_reader(&base);
		LsmTid		first;
		LsmTid		last;
		uint32		rows;
		uint64		offset;
		uint32		stored;

		lsm_compact_pause();
		lsm_segment_block_info(reader, blockno, &first, &last, &rows, &offset, &stored);

		compact->merge->bottom.coming_bytes = coming -
			(uint64) ((double) entry->stored_bytes * blockno / base.nblocks);

		/* who has used the old block will want the new one, as it goes */
		lsm_output_keep(&compact->merge->bottom,
						lsm_sharedcache_has(entry->uid, blockno) ||
						lsm_sharedcache_has_rows(entry->uid, blockno));
		lsm_major_strays(compact, first);
		if (lsm_major_copy(compact, &base, blockno, last))
		{
			compact->rows += rows;
			lsm_progress_add(LSM_PROGRESS_BYTES_DONE, stored);
			lsm_progress_set(LSM_PROGRESS_RECORDS_DONE, compact->rows);
			continue;
		}
		lsm_cursor_block(&base, blockno);
		while (base.root != LSM_INVALID_TID)
		{
			LsmTid		root = base.root;

			lsm_compact_pause();
			lsm_major_strays(compact, root);
			if (lsm_compact_peek(compact) == root)
				lsm_compact_take(compact, root);
			lsm_cursor_add(&base, compact->merge);
			(void) lsm_cursor_next_in_block(&base);
			compact->rows++;
			lsm_compact_row(compact, root, true, true);
		}
	}
	lsm_ahead_end(&base.ahead.feed);
	compact->merge->bottom.coming_bytes = coming - entry->stored_bytes;
	compact->bytes += entry->stored_bytes;
	lsm_progress_add(LSM_PROGRESS_SEGMENTS_DONE, 1);
}

/* Is a base segment written after the one before, as its neighbour? */
static bool
lsm_major_follows(LsmCompact *compact, const LsmMajorPart *part, const bool *chosen, int i)
{
	return i > 0 && i < part->nbases && chosen[i] && chosen[i - 1] &&
		!lsm_compact_apart(compact, &part->bases[i - 1], &part->bases[i]);
}

/* The bytes of a base segment and of those that are written after it without a break. */
static uint64
lsm_major_coming(LsmCompact *compact, const LsmMajorPart *part, const bool *chosen, int i)
{
	uint64		bytes = part->bases[i].stored_bytes;

	while (lsm_major_follows(compact, part, chosen, ++i))
		bytes += part->bases[i].stored_bytes;
	return bytes;
}

/* Merge a part. */
static void
lsm_major_merge(LsmCompact *compact, LsmMajorSweep *sweep, LsmMajorPart *part,
				LsmJobStats *stats)
{
	bool	   *chosen = lsm_major_choose(compact, part->bases, part->nbases);
	uint64		input_bytes = compact->bytes;
	int64		written = stats->bytes_written;
	uint64		segment_bytes = compact->merge->bottom.segment_bytes;
	bool		any = part->n > 0;

	for (int i = 0; i < part->nbases; i++)
	{
		if (chosen[i])
		{
			any = true;
			input_bytes += part->bases[i].stored_bytes;
			sweep->cold = sweep->cold || lsm_entry_is_cold(&part->bases[i]);
			lsm_compact_expect(&part->bases[i]);
		}
	}

	/* who has nothing to do asks nobody: it might be he himself who comes for it, again and again */
	if (any && (part->first > 1 || part->last < LSM_MAX_TID))
		lsm_job_ask_beside(compact->rel);
	compact->merge->bottom.other_bytes = compact->bytes;
	compact->merge->bottom.expected_pages =
		Max(Min(input_bytes, segment_bytes + segment_bytes / LSM_MAJOR_METADATA) / BLCKSZ, 2);
	compact->merge->increment.expected_pages =
		Max(Min(compact->bytes / 4, (uint64) lsm_segment_size * 1024) / BLCKSZ, 2);
	for (int i = 0; i < part->nbases; i++)
	{
		if (!chosen[i])
			continue;
		if (!lsm_major_follows(compact, part, chosen, i))
		{
			lsm_merge_break(compact->merge);
			compact->merge->bottom.coming_bytes = lsm_major_coming(compact, part, chosen, i);
		}
		lsm_major_segment(compact, &part->bases[i]);
	}
	lsm_major_strays(compact, LSM_MAX_TID);
	lsm_merge_finish(compact->merge);
	Assert(binaryheap_empty(compact->heap));
	if (compact->replaced == NIL)
		return;

	lsm_progress_phase(LSM_PHASE_SWAPPING);
	LSM_STOP("major-before-swap");
	lsm_compact_swap(compact, LSM_OP_MAJOR, stats);
	LSM_STOP("major-after-swap");
	lsm_stat_report_job(RelationGetRelid(compact->rel), LSM_JOB_MAJOR, compact->bytes,
						stats->bytes_written - written, part->first, part->last);
}

/* One part of a major. */
static void
lsm_major_run(Relation rel, LsmTable *table, uint16 owner, void *arg, LsmJobStats *stats)
{
	LsmMajorSweep *sweep = arg;
	LsmMajorPart part;
	LsmCompact	compact;

	if (!lsm_major_claim(rel, table, owner, sweep, &part))
	{
		sweep->done = true;
		return;
	}
	lsm_compact_begin(&compact, rel, table, owner, part.increments, part.n, 2);
	if (OidIsValid(lsm_cold_attached(rel)))
		compact.merge->bottom.segment_bytes =
			lsm_segment_bytes(lsm_view_get(rel, table)->all_base.stored, true);
	compact.meta = &part.meta;
	lsm_major_merge(&compact, sweep, &part, stats);
	LSM_STOP("major-part");
}

/* Do one part.  If stores fail, workers leave such parts of the table alone for a while. */
static void
lsm_major_do_part(Relation rel, uint16 owner, LsmMajorSweep *sweep, LsmJobStats *stats)
{
	LsmColdRest *rest = &lsm_table_open(rel)->shared->cold_majors;
	uint64		failures = lsm_store_failures;

	sweep->cold = false;
	PG_TRY();
	{
		lsm_job_merge(rel, owner, lsm_major_run, sweep, stats);
	}
	PG_CATCH();
	{
		(void) lsm_cold_note_error(rest, failures);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (sweep->cold)
		lsm_cold_note(rest, true);
}

/* What all segments of a table hold (bytes). */
static uint64
lsm_view_stored_bytes(LsmView *view)
{
	uint64		bytes = 0;

	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_SEGMENT)
			bytes += view->entries[i].stored_bytes;
	return bytes;
}

/*
 * Between two parts: a worker may move what there is by now to a store, and the caller do
 * what he wants.  The claim stays, but not after an error, as in lsm_job_run().
 */
static void
lsm_major_between_parts(Relation rel, LsmMajorBetween between, void *arg)
{
	PG_TRY();
	{
		if (between != NULL)
			between(arg);
		if (OidIsValid(lsm_cold_attached(rel)))
			lsm_job_ask(rel);
	}
	PG_CATCH();
	{
		LWLockReleaseAll();
		lsm_claim_release(LSM_OWNER_MAJOR);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Merge increments into the baseline: all that there are now, in parts if the
 * table is large.  What workers have claimed is left to them.
 */
void
lsm_major(Relation rel, LsmMajorBetween between, void *arg, LsmJobStats *stats)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmMajorSweep sweep = {0};
	LsmView    *view;

	LSM_STOP("major-start");
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_MAJOR, 1, LSM_MAX_TID);
	lsm_job_lock(rel, LSM_OWNER_MAJOR);
	lsm_progress_phase(LSM_PHASE_PREPARING);
	lsm_resolve_segments(rel);
	view = lsm_view_get(rel, table);
	sweep.whole = lsm_view_stored_bytes(view) <= lsm_job_limit(view);
	sweep.increments = true;
	sweep.last = LSM_MAX_TID;
	if (!sweep.whole)
	{
		LsmManifestEntry *entries = lsm_view_copy_increments(view);
		bool		tangled = lsm_increments_tangled(view, entries, view->nincrements, 0);

		pfree(entries);
		if (tangled)
			lsm_untangle(rel, stats);
	}
	view = lsm_view_get(rel, table);
	for (int i = 0; i < view->nincrements; i++)
		sweep.until = Max(sweep.until, view->increments[i]->gen_hi);
	while (!sweep.done)
	{
		lsm_major_do_part(rel, LSM_OWNER_MAJOR, &sweep, stats);

		/* while the next part is merged a worker may move what this one has made */
		if (!sweep.done)
			lsm_major_between_parts(rel, between, arg);
	}
	lsm_claim_release(LSM_OWNER_MAJOR);
	lsm_job_unlock(rel, LSM_OWNER_MAJOR);
	lsm_job_ask(rel);
	lsm_progress_end();
}

/* Wait for the majors, and the moves, of workers that run now. */
void
lsm_major_wait(Relation rel)
{
	for (int slot = 1; slot < LSM_MAJOR_SLOTS; slot++)
	{
		lsm_job_lock(rel, lsm_major_owner(slot));
		lsm_job_unlock(rel, lsm_major_owner(slot));
	}
}

/*
 * The same for those who call it: when it returns, the majors of workers that ran
 * when it was called are done, too.
 */
void
lsm_major_finish(Relation rel, LsmJobStats *stats)
{
	lsm_major(rel, NULL, NULL, stats);
	lsm_major_wait(rel);
}

/* Does an increment up to a generation have roots within the range, and others too? */
static bool
lsm_major_needs_cut(LsmView *view, LsmTid first, LsmTid last, uint32 until)
{
	for (int i = 0; i < view->nincrements; i++)
	{
		const LsmManifestEntry *entry = view->increments[i];

		if (entry->gen_hi <= until && entry->first_tid <= last && entry->last_tid >= first &&
			(entry->first_tid < first || entry->last_tid > last))
			return true;
	}
	return false;
}

/*
 * One part of a major, for workers: increments up to a generation, as far as they have
 * roots of the range, go into the base segments there; increments that have others
 * too are cut first.  Where none can be taken, base segments that need it are written
 * again.
 * False: there is nothing to do, or it cannot be done now.
 */
bool
lsm_major_part(Relation rel, LsmTid first, LsmTid last, uint32 until, LsmJobStats *stats)
{
	LsmMajorSweep sweep = {.until = until,.increments = until != 0,.range = until != 0,.first = first,.last = last,.from = first};
	LsmTable   *table = lsm_table_open(rel);
	int64		before = stats->segments_in;

	if (until != 0 && lsm_major_needs_cut(lsm_view_get(rel, table), first, last, until))
	{
		LsmTid		borders[] = {Max(first, 1) - 1, last};
		LsmMinorScope scope = {.gen_hi = until,.first = first,.last = last,.nborders = lengthof(borders),.borders = borders,.least = lsm_increment_least()};

		(void) lsm_minor_part(rel, &scope, stats);
	}

	/* the first slot is for calls, so that these do not wait for workers */
	for (int slot = 1; slot < LSM_MAJOR_SLOTS; slot++)
	{
		uint16		owner = lsm_major_owner(slot);

		if (!lsm_job_lock_if_free(rel, owner))
			continue;
		lsm_resolve_segments(rel);
		lsm_major_do_part(rel, owner, &sweep, stats);
		lsm_claim_release(owner);
		lsm_job_unlock(rel, owner);
		break;
	}
	return stats->segments_in > before;
}
