/*-------------------------------------------------------------------------
 *
 * lsm_version.c
 *	  All records of a row, newest first, from wherever they are.
 *
 * Order: the active generation's chain, the chain of the generation being
 * flushed, increments from the newest to the oldest, then the bottom: the INSERT
 * record in the row log, or the row of an insert or baseline segment.
 *
 * The sources are those of the newest view, taken together with the heads of the
 * chains under gen_lock, or without it where the filters of the memtable say that there
 * are no chains.  If a flush or compaction puts pages to another use
 * meanwhile, the iterator says so (stale) and the caller starts again.
 *
 * The bottom of a row in a cold segment costs a request to its store.  Where none may be
 * made (unique checks, with the index page locked), the segment's local list of roots
 * says whether the row is there; everybody sees it, and its columns are not asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_cold.h"
#include "lsm_mvcc.h"
#include "lsm_rowblock.h"
#include "miscadmin.h"

#define LSM_STAGE_ACTIVE		0
#define LSM_STAGE_FLUSHING		1
#define LSM_STAGE_INCREMENTS	2
#define LSM_STAGE_BOTTOM		3
#define LSM_STAGE_DONE			4

/* The parts of a row-log record that every source has. */
void
lsm_record_head(const LsmRecord *record, LsmTid tid, LsmRowHead *head)
{
	bool		insert = LSM_REC_KIND(record->info) == LSM_REC_INSERT;

	head->xid = record->xid;
	head->xmin = record->xid;
	head->cid = record->cid;
	head->info = record->info;
	head->natts = record->natts;
	head->root = insert ? tid : record->root;
	head->vtid = tid;
	head->base = insert ? LSM_INVALID_TID : record->base;
	if (record->info & LSM_REC_DELTA)
	{
		head->cols = lsm_record_cols(record);
		head->cols_len = (record->natts + 7) / 8;
	}
	else
	{
		head->cols = NULL;
		head->cols_len = 0;
	}
}

/*
 * Add what the manifest knows about a stored record's transaction: it comes
 * before clog (I8).
 */
void
lsm_head_resolve(const LsmManifestEntry *entry, LsmSegmentReader *reader, LsmRowHead *head)
{
	int64		found;

	if (head->xid == 0 || (head->info & (LSM_REC_COMMITTED | LSM_REC_ABORTED)))
	{
		if (entry->flags & LSM_SEGFLAG_ALL_VISIBLE)
			head->xid = 0;
		return;
	}
	if (entry->flags & LSM_SEGFLAG_ALL_VISIBLE)
	{
		head->xid = 0;
		return;
	}
	found = lsm_segment_find_unresolved(reader, head->xid);
	if (found < 0)
		return;
	switch (lsm_entry_outcome(entry, (uint32) found))
	{
		case LSM_OUTCOME_COMMITTED:
			head->info |= LSM_REC_COMMITTED;
			break;
		case LSM_OUTCOME_ABORTED:
			head->info |= LSM_REC_ABORTED;
			break;
	}
}

/*
 * The newest records of root in both generations, LSM_INVALID_TID where there is none, as they are
 * with the view the newest.  Looks without gen_lock, which all sessions would have to write to for
 * each row; false only says that the lock has to be taken.  *searched: see lsm_memindex_peek().
 */
static bool
lsm_versions_peek(LsmTable *table, LsmTid root, LsmTid *heads, bool *searched)
{
	LsmTableShared *shared = table->shared;
	uint32		generation;
	uint32		flushing;
	uint64		changes;

	if (!lsm_table_changes(shared, &changes) ||
		!lsm_view_current(table) || !lsm_rowlog_ready(shared))
		return false;
	generation = shared->generation;
	flushing = shared->flushing;
	heads[0] = heads[1] = LSM_INVALID_TID;
	return (generation == 0 ||
			lsm_memindex_peek(lsm_table_index(shared, generation), root, &heads[0], searched)) &&
		(flushing == 0 ||
		 lsm_memindex_peek(lsm_table_index(shared, flushing), root, &heads[1], searched)) &&
		lsm_table_unchanged(shared, changes);
}

/* Begin with the newest record of a row.  lsm_versions_end() must follow. */
void
lsm_versions_begin(LsmVersionIter *iter, Relation rel, LsmTable *table, LsmTid root)
{
	LsmTableShared *shared = table->shared;
	bool		searched;

	iter->rel = rel;
	iter->table = table;
	iter->root = root;
	iter->cached = NULL;
	iter->loaded = NULL;
	iter->stale = false;
	iter->stat = NULL;
	iter->presence = false;
	iter->met = 0;
	iter->increment = 0;
	for (;;)
	{
		LsmView    *view = table->view;

		searched = false;
		if (likely(lsm_versions_peek(table, root, iter->heads, &searched)))
		{
			iter->epoch = view->epoch;
			iter->counter = view->counter;
			break;
		}
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		if (unlikely(!lsm_view_current(table)))
		{
			LWLockRelease(&shared->gen_lock);
			(void) lsm_view_get(rel, table);
			continue;
		}
		if (!lsm_rowlog_ready(shared))
		{
			LWLockRelease(&shared->gen_lock);
			lsm_rowlog_build_index(rel, table);
			continue;
		}
		iter->epoch = view->epoch;
		iter->counter = view->counter;
		iter->heads[0] = shared->generation == 0 ? LSM_INVALID_TID :
			lsm_memindex_find(lsm_table_index(shared, shared->generation), root);
		iter->heads[1] = shared->flushing == 0 ? LSM_INVALID_TID :
			lsm_memindex_find(lsm_table_index(shared, shared->flushing), root);
		LWLockRelease(&shared->gen_lock);
		break;
	}
	iter->chain = iter->heads[0];
	iter->chain_seq = 0;
	iter->missed = false;
	if (iter->heads[0] != LSM_INVALID_TID || iter->heads[1] != LSM_INVALID_TID)
	{
		iter->stage = LSM_STAGE_ACTIVE;
		return;
	}
	iter->missed = searched;
	if (lsm_view_increments_meet(table->view, root, root))
		iter->stage = LSM_STAGE_INCREMENTS;
	else
		iter->stage = LSM_STAGE_BOTTOM;
}

static void
lsm_versions_unpin(LsmVersionIter *iter)
{
	if (iter->cached != NULL)
	{
		lsm_block_unpin_now(iter->cached);
		iter->cached = NULL;
	}
}

static void
lsm_versions_unload(LsmVersionIter *iter)
{
	if (iter->loaded != NULL)
	{
		pfree(iter->loaded);
		iter->loaded = NULL;
	}
}

void
lsm_versions_end(LsmVersionIter *iter)
{
	lsm_versions_unpin(iter);
	lsm_versions_unload(iter);
	iter->stage = LSM_STAGE_DONE;
}

/* Does the view still say what it said when the iterator began? */
static bool
lsm_versions_view_ok(LsmVersionIter *iter)
{
	LsmTable   *table = iter->table;

	if (table->view != NULL && table->view->epoch == iter->epoch &&
		table->view->counter == iter->counter)
		return true;
	iter->stale = true;
	return false;
}

/*
 * Are the records that the iterator saw still all of the row's records?  gen_lock
 * is held (and the row's stripe, else the answer is old when it comes).
 */
bool
lsm_versions_unchanged(LsmVersionIter *iter)
{
	LsmTableShared *shared = iter->table->shared;
	LsmTid		head;

	if (!lsm_rowlog_ready(shared) ||
		pg_atomic_read_u64(&shared->epoch) != iter->epoch ||
		pg_atomic_read_u64(&shared->moved) > iter->counter)
		return false;
	head = shared->generation == 0 ? LSM_INVALID_TID :
		lsm_memindex_find(lsm_table_index(shared, shared->generation), iter->root);
	return head == iter->heads[0];
}

/* A row-log record by TID: NULL if there is none or the view is stale. */
static LsmVersion *
lsm_versions_fetch(LsmVersionIter *iter, LsmTid tid, bool must_exist)
{
	LsmVersion *version = &iter->version;
	LsmRecord  *record = (LsmRecord *) iter->copy.data;
	LsmFetchResult result;

	result = lsm_rowlog_fetch(iter->rel, iter->table->view, tid, record, &version->record_len,
							  lsm_hint_for_record);
	if (result != LSM_FETCH_FOUND)
	{
		LWLockAcquire(&iter->table->shared->gen_lock, LW_SHARED);
		if (!lsm_view_current(iter->table))
			iter->stale = true;
		LWLockRelease(&iter->table->shared->gen_lock);
		if (must_exist && !iter->stale)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("record (%u,%u) is missing in the row log of table \"%s\"",
							LSM_TID_LB(tid), LSM_TID_OFFSET(tid),
							RelationGetRelationName(iter->rel)),
					 errhint("Run lsm_check() on the table, then restore it from a backup.")));
		return NULL;
	}
	if (iter->stat != NULL)
		lsm_stat_record(iter->stat, iter->root, true);
	lsm_versions_unload(iter);
	if (record->info & LSM_REC_SPILLED)
		record = iter->loaded = lsm_record_load(iter->rel, iter->table, record,
												&version->record_len);
	version->record = record;
	version->cached = NULL;
	version->memtable = true;
	lsm_record_head(record, tid, &version->head);
	if (LSM_REC_KIND(record->info) == LSM_REC_INSERT)
	{
		version->seq = 0;
		version->prev = LSM_INVALID_TID;
		version->bottom = true;
	}
	else
	{
		version->seq = record->seq;
		version->prev = record->prev;
		version->bottom = false;
	}
	return version;
}

/*
 * Is a record of the row log one that may come after the one before it in the row's
 * chain?  If not, and the view is the newest, that is damage: it might lead on for
 * ever.
 */
static bool
lsm_versions_check_link(LsmVersionIter *iter, const LsmVersion *version)
{
	if (likely(!version->bottom && version->head.root == iter->root &&
			   (iter->chain_seq == 0 || version->seq < iter->chain_seq)))
		return true;
	LWLockAcquire(&iter->table->shared->gen_lock, LW_SHARED);
	if (!lsm_view_current(iter->table))
		iter->stale = true;
	LWLockRelease(&iter->table->shared->gen_lock);
	if (!iter->stale)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid record (%u,%u) in the row log of table \"%s\"",
						LSM_TID_LB(iter->chain), LSM_TID_OFFSET(iter->chain),
						RelationGetRelationName(iter->rel)),
				 errdetail("A newer record of row (%u,%u) leads to it.",
						   LSM_TID_LB(iter->root), LSM_TID_OFFSET(iter->root)),
				 errhint("Run lsm_check() on the table, then restore it from a backup.")));
	return false;
}

/* The record at (cached, row) of a segment. */
static LsmVersion *
lsm_versions_from_block(LsmVersionIter *iter, const LsmManifestEntry *entry, bool bottom)
{
	LsmVersion *version = &iter->version;
	LsmSegmentReader *reader;

	if (iter->stat != NULL)
		lsm_stat_record(iter->stat, iter->root, false);
	lsm_block_head(iter->cached->block, iter->row, &version->head);
	if (version->head.xid != 0)
	{
		reader = lsm_reader_get_for_root(iter->rel, iter->table, entry, iter->root);
		if (reader == NULL)
		{
			iter->stale = true;
			return NULL;
		}
		lsm_head_resolve(entry, reader, &version->head);
	}
	version->record = NULL;
	version->cached = iter->cached;
	version->row = iter->row;
	version->seq = 0;
	version->prev = LSM_INVALID_TID;
	version->memtable = false;
	version->bottom = bottom;
	return version;
}

/* The block of a segment that may have records of the row.  False: none, or stale. */
static bool
lsm_versions_find_block(LsmVersionIter *iter, const LsmManifestEntry *entry, bool filter)
{
	LsmSegmentReader *reader;

	if (iter->root < entry->first_tid || iter->root > entry->last_tid)
		return false;
	reader = lsm_reader_get_for_root(iter->rel, iter->table, entry, iter->root);
	if (reader == NULL)
	{
		iter->stale = true;
		return false;
	}
	if (filter && !lsm_segment_may_contain(reader, iter->root))
		return false;
	iter->blockno = lsm_segment_find_block(reader, iter->root);
	return iter->blockno < lsm_segment_reader_blocks(reader);
}

/* Position on the first record of the row in that block.  False: none, or stale. */
static bool
lsm_versions_seek_in_block(LsmVersionIter *iter, const LsmManifestEntry *entry)
{
	iter->cached = lsm_block_pin(iter->rel, iter->table, entry, iter->blockno);
	if (iter->cached == NULL)
	{
		iter->stale = true;
		return false;
	}
	iter->row = lsm_block_find(iter->cached->block, iter->root);
	if (iter->row < lsm_block_rows(iter->cached->block) &&
		lsm_block_root(iter->cached->block, iter->row) == iter->root)
		return true;
	lsm_versions_unpin(iter);
	return false;
}

/* Position on the first record of the row in a segment.  False: none, or stale. */
static bool
lsm_versions_seek(LsmVersionIter *iter, const LsmManifestEntry *entry, bool filter)
{
	return lsm_versions_find_block(iter, entry, filter) &&
		lsm_versions_seek_in_block(iter, entry);
}

/* The record of a row block that has been copied. */
static LsmVersion *
lsm_versions_from_rows(LsmVersionIter *iter)
{
	LsmVersion *version = &iter->version;

	version->record = (LsmRecord *) iter->copy.data;
	version->cached = NULL;
	lsm_record_head(version->record, iter->root, &version->head);
	version->head.xid = 0;
	return version;
}

/*
 * The bottom of a row in a segment that is visible to all: from a row block, if there is one,
 * else from its block, of which a row block may be made.  NULL: there is none, or stale.
 */
static LsmVersion *
lsm_versions_visible_bottom(LsmVersionIter *iter, const LsmManifestEntry *entry)
{
	LsmVersion *version = &iter->version;
	LsmRecord  *record = (LsmRecord *) iter->copy.data;

	version->seq = 0;
	version->prev = LSM_INVALID_TID;
	version->memtable = false;
	version->bottom = true;
	if (lsm_rowblock_get_hinted(iter->rel, iter->table, entry->uid, iter->root, record,
								&version->record_len))
		return lsm_versions_from_rows(iter);
	if (!lsm_versions_find_block(iter, entry, false))
		return NULL;
	lsm_block_foresee_pin(entry->uid, iter->blockno);
	switch (lsm_rowblock_get(iter->rel, iter->table, entry->uid, iter->blockno, iter->root,
							 record, &version->record_len))
	{
		case LSM_ROW_FOUND:
			return lsm_versions_from_rows(iter);
		case LSM_ROW_ABSENT:
			return NULL;
		case LSM_ROW_UNKNOWN:
			break;
	}
	if (!lsm_versions_seek_in_block(iter, entry))
		return NULL;
	lsm_rowblock_keep(iter->rel, iter->cached);
	lsm_block_head(iter->cached->block, iter->row, &version->head);
	version->head.xid = 0;
	version->record = NULL;
	version->cached = iter->cached;
	version->row = iter->row;
	return version;
}

/* Next record of the row in the increment that the iterator is in. */
static bool
lsm_versions_step(LsmVersionIter *iter, const LsmManifestEntry *entry)
{
	iter->row++;
	if (iter->row >= lsm_block_rows(iter->cached->block))
	{
		LsmSegmentReader *reader = lsm_reader_get(iter->rel, iter->table, entry);

		lsm_versions_unpin(iter);
		if (reader == NULL)
		{
			iter->stale = true;
			return false;
		}
		iter->blockno++;
		if (iter->blockno >= lsm_segment_reader_blocks(reader))
			return false;
		iter->cached = lsm_block_pin(iter->rel, iter->table, entry, iter->blockno);
		if (iter->cached == NULL)
		{
			iter->stale = true;
			return false;
		}
		iter->row = 0;
	}
	if (lsm_block_root(iter->cached->block, iter->row) == iter->root)
		return true;
	lsm_versions_unpin(iter);
	return false;
}

/* A cold bottom, without its columns, as far as local pages tell of it. */
static LsmVersion *
lsm_versions_cold_bottom(LsmVersionIter *iter, const LsmManifestEntry *entry)
{
	LsmVersion *version = &iter->version;

	Assert(entry->flags & LSM_SEGFLAG_ALL_VISIBLE);
	if (!lsm_reader_has_root(iter->rel, iter->table, entry, iter->root, &iter->stale))
		return NULL;
	memset(version, 0, sizeof(*version));
	version->head.root = iter->root;
	version->head.info = LSM_REC_INSERT | LSM_REC_COMMITTED;
	version->head.vtid = iter->root;
	version->bottom = true;
	return version;
}

/* Is the block of a row in a cold segment out of reach now, or not worth a request? */
static bool
lsm_versions_out_of_reach(LsmVersionIter *iter, const LsmManifestEntry *entry)
{
	LsmSegmentReader *reader;
	uint32		blockno;

	if (likely(!lsm_entry_is_cold(entry)) || !(iter->presence || lsm_cold_held_off()))
		return false;
	reader = lsm_reader_get_for_root(iter->rel, iter->table, entry, iter->root);
	if (reader == NULL)
		return true;			/* found out again */
	blockno = lsm_segment_find_block(reader, iter->root);

	/* a block that the block cache has may leave it at any moment */
	return blockno < lsm_segment_reader_blocks(reader) &&
		!lsm_block_is_own(entry->uid, blockno);
}

static LsmVersion *
lsm_versions_bottom(LsmVersionIter *iter)
{
	LsmView    *view = iter->table->view;
	int			i = lsm_view_find_base(view, iter->root);

	iter->stage = LSM_STAGE_DONE;

	/* no range of the row log lies between the roots of a base segment (I13) */
	if (i >= view->nbase || view->base[i]->first_tid > iter->root)
		return lsm_view_range(view, LSM_TID_LB(iter->root)) == NULL ? NULL :
			lsm_versions_fetch(iter, iter->root, false);
	if (unlikely(lsm_versions_out_of_reach(iter, view->base[i])))
		return lsm_versions_cold_bottom(iter, view->base[i]);
	if (view->base[i]->flags & LSM_SEGFLAG_ALL_VISIBLE)
	{
		LsmVersion *version = lsm_versions_visible_bottom(iter, view->base[i]);

		if (version != NULL && iter->stat != NULL)
			lsm_stat_record(iter->stat, iter->root, false);
		return version;
	}
	if (!lsm_versions_seek(iter, view->base[i], false))
		return NULL;
	return lsm_versions_from_block(iter, view->base[i], true);
}

/*
 * Most rows of a table at rest have no record but a bottom that everybody sees, in a
 * segment.  Is this row, with whose newest record the iterator is about to begin, one
 * of them?  Then that is its version.  If not, nothing has happened.
 */
LsmVersion *
lsm_versions_settled(LsmVersionIter *iter)
{
	LsmView    *view = iter->table->view;
	LsmVersion *version;
	uint32		probes = 0;
	int			i = -1;

	if (iter->stage < LSM_STAGE_INCREMENTS)
		return NULL;
	while (iter->stage == LSM_STAGE_INCREMENTS &&
		   (i = lsm_view_next_increment(view, iter->root, iter->root, i + 1)) < view->nincrements)
	{
		LsmSegmentReader *reader = lsm_reader_get(iter->rel, iter->table, view->increments[i]);

		if (reader == NULL || lsm_segment_may_contain(reader, iter->root))
			return NULL;
		probes++;
	}
	if (probes > 0)
		lsm_stat_probes(&iter->table->stat, iter->root, probes);
	i = lsm_view_find_base(view, iter->root);
	if (i >= view->nbase || !(view->base[i]->flags & LSM_SEGFLAG_ALL_VISIBLE))
		return NULL;
	if (unlikely(lsm_versions_out_of_reach(iter, view->base[i])))
		return NULL;
	version = lsm_versions_visible_bottom(iter, view->base[i]);
	if (version == NULL)
		iter->stale = false;	/* found out again by those who go on */
	return version;
}

static LsmVersion *
lsm_versions_advance(LsmVersionIter *iter)
{
	for (;;)
	{
		if (iter->stage == LSM_STAGE_DONE || !lsm_versions_view_ok(iter))
		{
			lsm_versions_unpin(iter);
			return NULL;
		}
		if (iter->stage <= LSM_STAGE_FLUSHING)
		{
			LsmVersion *version;

			if (iter->chain == LSM_INVALID_TID)
			{
				iter->stage++;
				if (iter->stage == LSM_STAGE_FLUSHING)
					iter->chain = iter->heads[1];
				iter->chain_seq = 0;
				continue;
			}
			CHECK_FOR_INTERRUPTS();
			version = lsm_versions_fetch(iter, iter->chain, true);
			if (version == NULL || !lsm_versions_check_link(iter, version))
				return NULL;
			iter->chain = version->prev;
			iter->chain_seq = version->seq;
			return version;
		}
		if (iter->stage == LSM_STAGE_INCREMENTS)
		{
			LsmView    *view = iter->table->view;
			const LsmManifestEntry *entry;
			bool		there;

			if (iter->cached == NULL)
				iter->increment = lsm_view_next_increment(view, iter->root, iter->root,
														  iter->increment);
			if (iter->increment >= view->nincrements)
			{
				iter->stage = LSM_STAGE_BOTTOM;
				continue;
			}
			entry = view->increments[iter->increment];
			if (iter->cached == NULL)
				there = lsm_versions_seek(iter, entry, true);
			else
				there = lsm_versions_step(iter, entry);
			if (there)
				return lsm_versions_from_block(iter, entry, false);
			if (iter->stale)
				return NULL;
			iter->increment++;
			continue;
		}
		lsm_versions_unpin(iter);
		return lsm_versions_bottom(iter);
	}
}

/*
 * The next older record, NULL after the last one or when stale is set.  What
 * it points to is good until the next call.
 */
LsmVersion *
lsm_versions_next(LsmVersionIter *iter)
{
	iter->met++;
	return lsm_versions_advance(iter);
}

/*
 * The full version that a DELTA with that base builds on, without looking at
 * what lies between: a row that is changed often has a long chain.  NULL when
 * stale is set, or if there is none.  lsm_versions_next() goes on below it.
 */
LsmVersion *
lsm_versions_base(LsmVersionIter *iter, LsmTid base)
{
	LsmVersion *version;

	if (iter->stage == LSM_STAGE_DONE || !lsm_versions_view_ok(iter))
		return NULL;
	if (LSM_TID_IS_VERSION(base))
	{
		LsmView    *view = iter->table->view;
		LsmRowRange *range = lsm_view_range(view, LSM_TID_LB(base));

		if (iter->stage <= LSM_STAGE_FLUSHING && range != NULL)
		{
			LsmRowRange *own = lsm_view_range(view, LSM_TID_LB(iter->version.head.vtid));
			bool		same = own != NULL && own->generation == range->generation;
			bool		older = own != NULL && range->generation < own->generation;
			uint32		seq = iter->version.seq;

			version = lsm_versions_fetch(iter, base, false);
			if (version == NULL && iter->stale)
				return NULL;

			/* the LB may have been used again since the base became the bottom */
			if (version != NULL && version->head.root == iter->root &&
				lsm_version_is_base(version, base) &&
				(older || (same && version->seq < seq)))
			{
				iter->chain = version->prev;
				iter->chain_seq = version->seq;
				return version;
			}
		}
		if (iter->stage < LSM_STAGE_INCREMENTS)
			iter->stage = LSM_STAGE_INCREMENTS;
		while ((version = lsm_versions_next(iter)) != NULL)
			if (lsm_version_is_base(version, base))
				return version;
		return NULL;
	}
	lsm_versions_unpin(iter);
	return lsm_versions_bottom(iter);
}

/*
 * Go on with a version in the row log, whatever lies before it: for who asks for that one only.
 * False: it lies elsewhere by now, and nothing has changed.
 */
bool
lsm_versions_skip_to(LsmVersionIter *iter, LsmTid vtid)
{
	LsmView    *view = iter->table->view;
	LsmRowRange *range;
	LsmVersion *version;
	bool		flushing;

	if (iter->stage > LSM_STAGE_FLUSHING || !LSM_TID_IS_VERSION(vtid) || !lsm_versions_view_ok(iter))
		return false;
	range = lsm_view_range(view, LSM_TID_LB(vtid));
	if (range == NULL)
		return false;
	flushing = range->generation == view->meta.flushing;
	if (!flushing && range->generation != view->meta.generation)
		return false;

	/* the LB may have been used again since the version went to an increment */
	version = lsm_versions_fetch(iter, vtid, false);
	if (version == NULL || version->bottom || version->head.root != iter->root)
	{
		iter->stale = false;	/* found out again by those who go on */
		return false;
	}
	iter->stage = flushing ? LSM_STAGE_FLUSHING : LSM_STAGE_ACTIVE;
	iter->chain = vtid;
	iter->chain_seq = 0;
	return true;
}

/*
 * The root of the row that a TID names: itself, or for a version TID what its
 * record or a FORWARD entry says.  False: there is no such version.
 */
bool
lsm_find_root(Relation rel, LsmTable *table, LsmTid tid, LsmTid *root)
{
	PGAlignedBlock copy;
	LsmRecord  *record = (LsmRecord *) copy.data;
	Size		len;

	*root = tid;
	if (!LSM_TID_IS_VERSION(tid))
		return true;

restart:
	for (;;)
	{
		LsmView    *view = lsm_view_get(rel, table);
		LsmFetchResult result = lsm_rowlog_fetch(rel, view, tid, record, &len, NULL);
		bool		current;

		if (result == LSM_FETCH_FOUND)
		{
			*root = record->root;
			return true;
		}
		LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
		current = lsm_view_current(table);
		LWLockRelease(&table->shared->gen_lock);
		if (current)
			break;
	}
	for (int i = 0; i < table->view->nincrements; i++)
	{
		LsmManifestEntry *entry = table->view->increments[i];
		LsmSegmentReader *reader;

		if (entry->forwards == 0)
			continue;
		reader = lsm_reader_get(rel, table, entry);
		if (reader == NULL)
			goto restart;
		LWLockAcquire(&table->shared->gen_lock, LW_SHARED);
		if (!lsm_view_current(table))
		{
			LWLockRelease(&table->shared->gen_lock);
			goto restart;
		}
		*root = lsm_segment_forward(reader, tid);
		LWLockRelease(&table->shared->gen_lock);
		if (*root != LSM_INVALID_TID)
			return true;
	}
	return false;
}
