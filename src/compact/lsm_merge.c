/*-------------------------------------------------------------------------
 *
 * lsm_merge.c
 *	  What becomes of one row's records, and the segments they are written to.
 *
 * Of a row's records, newest first, go: those of aborted transactions, locks of
 * ended ones, and whatever is older than the first one that every snapshot sees.
 * That first one, if no transaction can name it by its version TID any more,
 * becomes the bottom row where the bottom is at hand (flush of the INSERT's own
 * generation, major compaction).
 *
 * A full version that a kept DELTA builds on is kept with it, unless the bottom
 * row takes its place (I9).  A row that is gone for everybody leaves its root on
 * the dead list, for VACUUM to remove it from the indexes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "lsm_cold.h"
#include "lsm_compact.h"
#include "lsm_lbs.h"
#include "lsm_options.h"
#include "lsm_pick.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"


/* Large values are copied in pieces of so many bytes. */
#define LSM_VALUE_PIECE			(LSM_PAGE_BATCH * LSM_PAGE_PAYLOAD)

/* A segment that is ended for its dictionaries has this part of what ends it otherwise. */
#define LSM_OUTPUT_PART_DIVISOR	4

/* No base segment is begun for so much of one, if a major has nothing else to write next to it. */
#define LSM_OUTPUT_REST_DIVISOR	4

/* So many small dead lists are merged into one, up to about so many roots at a time. */
#define LSM_DEAD_LISTS			64
#define LSM_DEAD_MERGED_ROOTS	(1024 * 1024)

/* Segments of large tables grow to that, and are objects of a store to that (bytes). */
#define LSM_SEGMENT_MOST		((uint64) 1024 * 1024 * 1024)
#define LSM_COLD_SEGMENT_MOST	((uint64) 256 * 1024 * 1024)

int			lsm_segment_size = 64 * 1024;
int			lsm_debug_segment_rows = LSM_PICK_SEGMENT_ROWS;

uint64
lsm_segment_bytes(uint64 base_bytes, bool cold)
{
	if (cold)
		return lsm_pick_segment_bytes((uint64) lsm_cold_segment_size * 1024,
									  LSM_COLD_SEGMENT_MOST, base_bytes);
	return lsm_pick_segment_bytes((uint64) lsm_segment_size * 1024, LSM_SEGMENT_MOST, base_bytes);
}

uint64
lsm_job_limit(const LsmView *view)
{
	return lsm_pick_job_bytes((uint64) lsm_segment_size * 1024,
							  lsm_segment_bytes(view->all_base.stored, false));
}

/* ---- outputs ---- */

void
lsm_output_init(LsmOutput *output, Relation rel, LsmTable *table, uint16 owner,
				LsmSegmentKind kind, uint32 gen_lo, uint32 gen_hi, uint32 expected_pages)
{
	memset(output, 0, sizeof(*output));
	output->rel = output->source = rel;
	output->table = output->source_table = table;
	output->owner = owner;
	output->kind = kind;
	output->gen_lo = gen_lo;
	output->gen_hi = gen_hi;
	output->expected_pages = expected_pages;
	output->segment_bytes = (uint64) lsm_segment_size * 1024;
	output->coming_bytes = PG_UINT64_MAX;
}

/*
 * The pages that the next segment is given at first.  What it does not use it gives back when it is
 * finished, or with the manifest half full when the job is: segments that are cut short must not
 * each have the room of a whole one.
 */
static uint32
lsm_output_expects(const LsmOutput *output)
{
	uint32		like_last = output->last_pages + output->last_pages / 4 + 2;
	uint64		coming = output->coming_bytes / BLCKSZ;
	uint64		most = coming + coming / 8 + output->other_bytes / BLCKSZ + 2;
	uint32		expected = Min(output->expected_pages, most);

	return output->last_pages == 0 ? expected : Min(expected, Max(like_last, expected / 8));
}

static void
lsm_output_open(LsmOutput *output)
{
	LsmSegmentOptions options;
	LsmTableOptions table_options;

	if (output->writer != NULL)
		return;
	lsm_options_get(output->rel, &table_options);
	output->sink = lsm_pagesink_create(output->rel, output->table, output->owner,
									   lsm_output_expects(output));
	lsm_pagesink_keep(output->sink, output->keep);
	options.kind = output->kind;
	options.uid = lsm_pagesink_uid(output->sink);
	options.block_bytes = table_options.block_size;
	options.compression_level = lsm_options_writer_level(&table_options);

	/*
	 * Increments are soon merged into others.  What a flush writes of new rows is often
	 * there to stay: it becomes baseline by a change of its entry.
	 */
	options.dictionary_samples =
		table_options.dictionary && output->kind != LSM_SEGKIND_INCREMENT ?
		LSM_DICTIONARY_SAMPLES : 0;
	output->writer = lsm_segment_writer_create(RelationGetDescr(output->rel), &options,
											   lsm_pagesink_sink(output->sink));
	lsm_ring_bounds_begin(&output->vtids, &lsm_view_get(output->rel, output->table)->meta);
	output->first_dead = output->last_dead = LSM_INVALID_TID;
	output->ends = 0;
}

/* From now on: put the blocks that are written into the block cache, too? */
void
lsm_output_keep(LsmOutput *output, bool keep)
{
	output->keep = keep;
	if (output->sink != NULL)
		lsm_pagesink_keep(output->sink, keep);
}

/* Finish the open segment; its manifest entry goes to the list. */
static void
lsm_output_close(LsmOutput *output)
{
	LsmManifestEntry *entry;
	LsmSegmentStats stats;

	if (output->writer == NULL)
		return;
	if (lsm_segment_writer_is_empty(output->writer))
	{
		/* opened for a block that could not be copied, of which no row is left */
		lsm_segment_writer_abandon(output->writer);
		lsm_pagesink_abandon(output->sink);
		output->writer = NULL;
		output->sink = NULL;
		return;
	}
	entry = palloc0(sizeof(LsmManifestEntry));
	lsm_segment_writer_finish(output->writer, &stats);
	lsm_pagesink_finish(output->sink, entry);
	output->writer = NULL;
	output->sink = NULL;
	entry->type = LSM_ENTRY_SEGMENT;
	entry->kind = output->kind;
	entry->gen_lo = output->gen_lo;
	entry->gen_hi = output->gen_hi;
	entry->first_tid = stats.first_tid;
	entry->last_tid = stats.last_tid;
	lsm_ring_bounds_note(&output->vtids, &lsm_view_get(output->rel, output->table)->meta, entry);
	entry->rows = stats.rows;
	entry->versions = stats.versions;
	entry->raw_bytes = stats.raw_bytes;
	entry->stored_bytes = stats.stored_bytes;
	entry->max_xid = stats.max_xid;
	entry->blocks = stats.blocks;
	entry->forwards = stats.forwards;
	entry->dead = output->kind == LSM_SEGKIND_INCREMENT ? output->ends : stats.dead;
	entry->nunresolved = stats.unresolved;
	entry->min_unresolved = stats.min_unresolved;
	if (stats.value_bytes > 0)
		entry->flags |= LSM_SEGFLAG_VALUES;
	entry->flags |= stats.dictionaries << LSM_SEGFLAG_DICTIONARIES_SHIFT;
	if (output->kind == LSM_SEGKIND_INSERT && stats.max_xid == 0)
	{
		entry->kind = LSM_SEGKIND_BASELINE;
		entry->flags |= LSM_SEGFLAG_ALL_VISIBLE;
	}
	if (output->kind == LSM_SEGKIND_DEAD)
	{
		entry->first_tid = output->first_dead;
		entry->last_tid = output->last_dead;
	}
	output->rows += stats.versions;
	output->bytes += stats.stored_bytes;
	output->last_pages = (uint32) (stats.stored_bytes / BLCKSZ) + 1;
	output->entries = lappend(output->entries, entry);
}

static void
lsm_output_value_bytes(void *arg, const char *bytes, uint32 len)
{
	lsm_job_check();
	lsm_segment_writer_value_bytes(((LsmOutput *) arg)->writer, bytes, len);
}

/*
 * Copy a large value into the open segment; the pointer is located, and stored then.
 * coming: bytes of the row's values from this one on.  A row is not divided among
 * segments, so its values must not take more extents than a segment can have.
 */
static void
lsm_output_copy_value(LsmOutput *output, char *datum, uint64 coming)
{
	LsmSegmentSink *sink = lsm_pagesink_sink(output->sink);
	LsmPointer	pointer;
	uint32		size;
	uint32		piece_bytes;
	char	   *piece;
	uint64		offset;

	lsm_pointer_get(datum, &pointer);
	size = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	offset = lsm_segment_writer_begin_value(output->writer, size);
	sink->expect(sink, coming);
	piece_bytes = Min(size, LSM_VALUE_PIECE);
	piece = MemoryContextAlloc(output->row_context, piece_bytes);
	lsm_value_read_all(output->source, output->source_table, pointer.va_valueid, size, piece,
					   piece_bytes, lsm_output_value_bytes, output);
	lsm_segment_writer_end_value(output->writer);
	lsm_pointer_set_offset(&pointer, offset);
	lsm_pointer_set(datum, &pointer);
	pfree(piece);
}

/* The stored bytes of a row's i-th column if it is a large value, else 0. */
static uint32
lsm_output_large_size(const LsmOutput *output, const Datum *values, const bool *isnull, int i)
{
	LsmPointer	pointer;

	if (isnull[i] || TupleDescAttr(RelationGetDescr(output->rel), i)->attlen != -1 ||
		!VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
		return 0;
	lsm_pointer_get(DatumGetPointer(values[i]), &pointer);
	return VARATT_EXTERNAL_GET_EXTSIZE(pointer);
}

/* Copy all large values of a row. */
static void
lsm_output_copy_values(LsmOutput *output, int natts, const Datum *values, const bool *isnull)
{
	uint64		coming = 0;

	for (int i = 0; i < natts; i++)
		coming += lsm_output_large_size(output, values, isnull, i);
	for (int i = 0; i < natts; i++)
	{
		uint32		size = lsm_output_large_size(output, values, isnull, i);

		if (size > 0)
			lsm_output_copy_value(output, DatumGetPointer(values[i]), coming);
		coming -= size;
	}
}

/*
 * Is the open segment large enough?  What is left for the next one should not be small: a base
 * segment that has grown a little by a major stays one.
 */
static bool
lsm_output_is_full(const LsmOutput *output)
{
	uint64		bytes = lsm_segment_writer_bytes(output->writer);
	uint64		some = output->segment_bytes / LSM_OUTPUT_REST_DIVISOR;

	return bytes >= output->segment_bytes &&
		(output->coming_bytes >= some || bytes >= output->segment_bytes + some);
}

/* Get ready for a row: a new segment if the open one is large enough, or far away. */
static void
lsm_output_begin_row(LsmOutput *output, LsmTid root)
{
	if (output->writer != NULL && root != output->last_root &&
		(lsm_output_is_full(output) ||
		 lsm_segment_writer_records(output->writer) >= (uint64) lsm_debug_segment_rows ||
		 (output->break_lbs > 0 &&
		  LSM_TID_LB(root) - LSM_TID_LB(output->last_root) > output->break_lbs)))
		lsm_output_close(output);
	lsm_output_open(output);
}

void
lsm_output_add(LsmOutput *output, const LsmRowHead *head, const Datum *values,
			   const bool *isnull)
{
	lsm_output_begin_row(output, head->root);
	output->last_root = head->root;
	if (LSM_REC_KIND(head->info) == LSM_REC_UPDATE)
		lsm_ring_bounds_add(&output->vtids, head->vtid);
	else if (LSM_REC_KIND(head->info) == LSM_REC_DELETE || LSM_REC_KIND(head->info) == LSM_REC_MOVED)
		output->ends++;
	if (head->info & LSM_REC_LARGE)
		lsm_output_copy_values(output, head->natts, values, isnull);
	lsm_segment_writer_add(output->writer, head, values, isnull);
	if (head->xid != 0 && !(head->info & LSM_REC_COMMITTED))
		lsm_segment_writer_add_unresolved(output->writer, head->xid);
}

/* Get ready for a block of a base segment that is to be copied; first: its first root. */
static void
lsm_output_begin_block(LsmOutput *output, LsmSegmentReader *reader, LsmTid first)
{
	/* rather than writing them anew: another segment, with the dictionaries of this one */
	if (output->writer != NULL &&
		lsm_segment_writer_bytes(output->writer) >= output->segment_bytes / LSM_OUTPUT_PART_DIVISOR &&
		lsm_segment_writer_rejects(output->writer, reader))
		lsm_output_close(output);
	lsm_output_begin_row(output, first);
}

/*
 * Copy a block of a base segment whose rows stay as they are.  False: it has to be
 * added row by row.
 */
bool
lsm_output_copy_block(LsmOutput *output, LsmSegmentReader *reader, uint32 blockno)
{
	LsmTid		first;
	LsmTid		last;

	lsm_segment_block_info(reader, blockno, &first, &last, NULL, NULL, NULL);
	lsm_output_begin_block(output, reader, first);
	if (!lsm_segment_writer_copy_block(output->writer, reader, blockno))
		return false;
	output->last_root = last;
	return true;
}

/*
 * The same for one of which rows change, or go: what becomes of them is told by lsm_merge_patch().
 * Then lsm_output_end_patch().
 */
bool
lsm_output_begin_patch(LsmOutput *output, LsmSegmentReader *reader, uint32 blockno)
{
	LsmTid		first;

	lsm_segment_block_info(reader, blockno, &first, NULL, NULL, NULL, NULL);
	lsm_output_begin_block(output, reader, first);
	output->patch = lsm_segment_writer_begin_patch(output->writer, reader, blockno);
	return output->patch != NULL;
}

/* Add what is to be in the place of a block row by row: the segment may have to end among them. */
static void
lsm_output_add_patch(LsmOutput *output)
{
	int			natts = Max(RelationGetDescr(output->rel)->natts, 1);
	Datum	   *values = palloc(natts * sizeof(Datum));
	bool	   *isnull = palloc(natts * sizeof(bool));
	LsmRowHead	head;

	while (lsm_block_patch_next(output->patch, &head, values, isnull))
	{
		lsm_compact_pause();
		lsm_output_add(output, &head, values, isnull);
		MemoryContextReset(output->row_context);
	}
	pfree(values);
	pfree(isnull);
}

void
lsm_output_end_patch(LsmOutput *output)
{
	LsmBlock   *block = lsm_block_patch_block(output->patch);

	if (lsm_segment_writer_put_patch(output->writer, output->patch))
		output->last_root = lsm_block_root(block, lsm_block_rows(block) - 1);
	else
		lsm_output_add_patch(output);
	lsm_block_patch_free(output->patch);
	output->patch = NULL;
}

/* ---- merging ---- */

/*
 * Has a column been dropped for good?  Our own transaction may have dropped it
 * and may still be rolled back; that of another is over, because it had the
 * table locked.
 */
static bool
lsm_merge_is_dropped(Relation rel, AttrNumber attnum)
{
	HeapTuple	tuple;
	bool		ours;

	if (!TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attisdropped)
		return false;
	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(rel)),
							Int16GetDatum(attnum));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for attribute %d of relation %u",
			 attnum, RelationGetRelid(rel));
	ours = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	ReleaseSysCache(tuple);
	return !ours;
}

LsmMerge *
lsm_merge_create(Relation rel, LsmTable *table, uint16 owner, uint32 gen_lo, uint32 gen_hi,
				 uint32 expected_pages)
{
	LsmMerge   *merge = palloc0(sizeof(LsmMerge));
	const LsmView *view;
	int			natts = Max(RelationGetDescr(rel)->natts, 1);

	merge->rel = rel;
	merge->table = table;
	merge->tupdesc = RelationGetDescr(rel);
	lsm_horizons(rel, &merge->horizons);
	lsm_output_init(&merge->bottom, rel, table, owner, LSM_SEGKIND_INSERT, gen_lo, gen_hi,
					expected_pages);
	view = lsm_view_get(rel, table);
	merge->bottom.break_lbs = lsm_lbs_break(&view->meta);
	merge->bottom.segment_bytes = lsm_segment_bytes(view->all_base.stored, false);
	lsm_output_init(&merge->increment, rel, table, owner, LSM_SEGKIND_INCREMENT, gen_lo, gen_hi,
					Max(expected_pages / 8, 2));
	lsm_output_init(&merge->dead, rel, table, owner, LSM_SEGKIND_DEAD, gen_lo, gen_hi, 2);
	lsm_output_init(&merge->lists, rel, table, owner, LSM_SEGKIND_DEAD, gen_lo, gen_hi, 2);
	merge->row_context = AllocSetContextCreate(CurrentMemoryContext, "lsm merge row",
											   ALLOCSET_DEFAULT_SIZES);
	merge->bottom.row_context = merge->increment.row_context = merge->row_context;
	merge->maxrecords = 64;
	merge->records = palloc(merge->maxrecords * sizeof(LsmMergeRecord));
	merge->values = palloc(natts * sizeof(Datum));
	merge->isnull = palloc(natts * sizeof(bool));
	merge->base_values = palloc(natts * sizeof(Datum));
	merge->base_isnull = palloc(natts * sizeof(bool));
	merge->dropped = palloc(natts * sizeof(bool));
	for (int i = 0; i < merge->tupdesc->natts; i++)
		merge->dropped[i] = lsm_merge_is_dropped(rel, i + 1);
	return merge;
}

/* Room for the next older record of the present row. */
LsmMergeRecord *
lsm_merge_add(LsmMerge *merge)
{
	LsmMergeRecord *record;

	if (merge->nrecords >= merge->maxrecords)
	{
		merge->maxrecords *= 2;
		merge->records = repalloc_huge(merge->records,
									   merge->maxrecords * sizeof(LsmMergeRecord));
	}
	record = &merge->records[merge->nrecords++];
	memset(record, 0, sizeof(*record));
	return record;
}

/* Make a copy of each pointer to a large value, and make it live. */
static void
lsm_merge_resolve(LsmMerge *merge, const LsmMergeRecord *record, Datum *values,
				  const bool *isnull, int natts)
{
	for (int i = 0; i < natts; i++)
	{
		char	   *copy;

		if (isnull[i] || TupleDescAttr(merge->tupdesc, i)->attlen != -1 ||
			!VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			continue;
		copy = MemoryContextAlloc(merge->row_context, TOAST_POINTER_SIZE);
		memcpy(copy, DatumGetPointer(values[i]), TOAST_POINTER_SIZE);
		lsm_value_locate(merge->bottom.source_table, copy, record->cached);
		values[i] = PointerGetDatum(copy);
	}
}

/* Load the columns of a record; those of dropped columns become null. */
void
lsm_merge_load(LsmMerge *merge, const LsmMergeRecord *record, Datum *values, bool *isnull)
{
	int			natts = Min(record->head.natts, merge->tupdesc->natts);

	if (record->record != NULL)
	{
		Size		offset = 0;

		(void) lsm_record_deform_from(merge->tupdesc, record->record, 0, natts, &offset,
									  values, isnull);
	}
	else
	{
		LsmBlock   *block = record->cached != NULL ? record->cached->block : record->patched;

		for (int i = 0; i < natts; i++)
		{
			if (i < lsm_block_natts(block))
				values[i] = lsm_block_value(block, record->row, i + 1, &isnull[i]);
			else
				isnull[i] = true;
		}
	}
	for (int i = 0; i < natts; i++)
		if (merge->dropped[i])
			isnull[i] = true;
	if (record->head.info & LSM_REC_LARGE)
		lsm_merge_resolve(merge, record, values, isnull, natts);
}

/* A committed record, as it is kept: frozen once nobody asks for its xid, but as xmin. */
void
lsm_merge_mark(LsmMerge *merge, LsmRowHead *head, LsmXidState state)
{
	uint64		frozen = lsm_merge_has_columns(head) ? merge->horizons.settled :
	merge->horizons.visible;

	if (state != LSM_XID_COMMITTED)
		return;
	if (head->xid < frozen)
	{
		merge->conflict_xid = Max(merge->conflict_xid, head->xid);
		head->xid = 0;
		head->cid = 0;
		if (!lsm_merge_has_columns(head))
			head->xmin = 0;		/* nobody can ask for that */
		head->info &= ~(LSM_REC_COMMITTED | LSM_REC_ABORTED);
	}
	else
		head->info |= LSM_REC_COMMITTED;
}

/* Write a record to the increment. */
static void
lsm_merge_keep(LsmMerge *merge, LsmMergeRecord *record, LsmXidState state)
{
	LsmRowHead	head = record->head;

	lsm_merge_mark(merge, &head, state);
	head.info &= ~LSM_REC_HASNULL;
	head.natts = Min(head.natts, merge->tupdesc->natts);
	if (lsm_merge_has_columns(&head))
	{
		lsm_merge_load(merge, record, merge->values, merge->isnull);
		lsm_output_add(&merge->increment, &head, merge->values, merge->isnull);
		if (head.xid != 0 && LSM_TID_IS_VERSION(head.vtid))
			lsm_segment_writer_add_forward(merge->increment.writer, head.vtid, head.root);
	}
	else
		lsm_output_add(&merge->increment, &head, NULL, NULL);
}

/* Write the bottom row as it is. */
static void
lsm_merge_keep_bottom(LsmMerge *merge, LsmMergeRecord *record, LsmXidState state)
{
	LsmRowHead	head = record->head;

	lsm_merge_mark(merge, &head, state);
	head.info &= ~LSM_REC_HASNULL;
	head.natts = Min(head.natts, merge->tupdesc->natts);
	lsm_merge_load(merge, record, merge->values, merge->isnull);
	lsm_output_add(&merge->bottom, &head, merge->values, merge->isnull);
}

/* The record of the present row that a DELTA builds on; after it in the list. */
int
lsm_merge_base(LsmMerge *merge, int delta, bool has_bottom)
{
	LsmTid		base = merge->records[delta].head.base;

	/* a root TID is the bottom's */
	for (int i = delta + 1; i < merge->nrecords && LSM_TID_IS_VERSION(base); i++)
	{
		LsmRowHead *head = &merge->records[i].head;

		if (head->vtid == base && LSM_REC_KIND(head->info) == LSM_REC_UPDATE &&
			!(head->info & LSM_REC_DELTA))
			return i;
	}
	return has_bottom ? merge->nrecords - 1 : -1;
}

/*
 * The columns of the i-th record in merge->values, completed; returns how many.
 * merge->large says whether one of them is large.
 */
int
lsm_merge_complete(LsmMerge *merge, int i)
{
	LsmMergeRecord *record = &merge->records[i];
	const LsmRowHead *head = &record->head;
	int			natts = Min(head->natts, merge->tupdesc->natts);
	LsmMergeRecord *base;

	lsm_merge_load(merge, record, merge->values, merge->isnull);
	merge->large = head->info & LSM_REC_LARGE;
	if (!(head->info & LSM_REC_DELTA))
		return natts;
	base = &merge->records[lsm_merge_base(merge, i, true)];
	lsm_merge_load(merge, base, merge->base_values, merge->base_isnull);
	merge->large |= base->head.info & LSM_REC_LARGE;
	for (int j = 0; j < natts; j++)
	{
		if (j / 8 < head->cols_len && (head->cols[j / 8] & (1 << (j % 8))))
			continue;
		if (j < base->head.natts)
		{
			merge->values[j] = merge->base_values[j];
			merge->isnull[j] = merge->base_isnull[j];
		}
		else
			merge->isnull[j] = true;	/* cannot be: a DELTA has these
										 * columns */
	}
	return natts;
}

/* What a version, just completed, is once it is the bottom row that everybody sees. */
void
lsm_merge_settled_head(const LsmMerge *merge, const LsmRowHead *version, int natts,
					   LsmRowHead *head)
{
	memset(head, 0, sizeof(*head));
	head->root = version->root;
	head->xmin = version->xmin;
	head->vtid = version->root;
	head->info = LSM_REC_INSERT | merge->large;
	head->natts = natts;
}

/* A settled version becomes the bottom row. */
static void
lsm_merge_settle(LsmMerge *merge, int i)
{
	LsmRowHead	head;
	int			natts = lsm_merge_complete(merge, i);

	lsm_merge_settled_head(merge, &merge->records[i].head, natts, &head);
	lsm_output_add(&merge->bottom, &head, merge->values, merge->isnull);
}

static void
lsm_output_add_dead(LsmOutput *output, LsmTid root)
{
	lsm_output_open(output);
	output->first_dead = output->first_dead == LSM_INVALID_TID ? root : Min(output->first_dead, root);
	output->last_dead = Max(output->last_dead, root);
	lsm_segment_writer_add_dead(output->writer, root);
}

/* A root that is gone for good. */
void
lsm_merge_dead(LsmMerge *merge, LsmTid root)
{
	lsm_output_add_dead(&merge->dead, root);
}

/* ---- dead lists ---- */

/* Is it a list that may become part of another one?  Those before that segment are VACUUM's. */
static bool
lsm_dead_list_is_small(const LsmManifestEntry *entry, uint64 first_id)
{
	return entry->type == LSM_ENTRY_SEGMENT && entry->kind == LSM_SEGKIND_DEAD &&
		entry->dead <= LSM_DEAD_LIST_ROOTS && entry->segment_id >= first_id;
}

/*
 * A job that drops rows leaves a list of their roots until VACUUM has cleaned the indexes, which
 * may be told not to, or come after days; and a queue is flushed each second.  So that lists do
 * not fill the manifest, many small ones become one.  For flushes, before lsm_merge_finish().
 */
void
lsm_merge_dead_lists(LsmMerge *merge)
{
	LsmView    *view = lsm_view_get(merge->rel, merge->table);
	uint64		first_id = pg_atomic_read_u64(&merge->table->shared->vacuum_lists);
	uint64	   *uids = palloc(Max(view->nentries, 1) * sizeof(uint64));
	uint64		nroots = 0;
	int			n = 0;

	for (int i = 0; i < view->nentries; i++)
		if (lsm_dead_list_is_small(&view->entries[i], first_id))
			uids[n++] = view->entries[i].uid;
	merge->merged = uids;
	for (int i = 0; n >= LSM_DEAD_LISTS && i < n && nroots < LSM_DEAD_MERGED_ROOTS; i++)
	{
		LsmTid	   *roots;
		uint64		nits;

		lsm_job_check();
		if (!lsm_reader_dead_list_of(merge->rel, merge->table, uids[i], &roots, &nits))
			continue;
		for (uint64 j = 0; j < nits; j++)
			lsm_output_add_dead(&merge->lists, roots[j]);
		if (roots != NULL)
			pfree(roots);
		nroots += nits;
		merge->merged[merge->nmerged++] = uids[i];
	}
}

/*
 * Decide what becomes of the records that have been added.  has_bottom: the last
 * one is the row's INSERT or baseline row.  bottom_known: if there is none here,
 * there is none anywhere.  What fate points to lives until the next row.
 */
void
lsm_merge_judge(LsmMerge *merge, bool has_bottom, bool bottom_known, LsmFate *fate)
{
	int			n = merge->nrecords;
	uint64		horizon = merge->horizons.visible;
	LsmXidState *states = MemoryContextAllocHuge(merge->row_context, n * sizeof(LsmXidState));
	bool	   *keep = MemoryContextAllocHuge(merge->row_context, n * sizeof(bool));
	int			cut = -1;
	int			kept = 0;
	LsmTid		known_base = LSM_INVALID_TID;
	int			base = -1;

	memset(fate, 0, sizeof(*fate));
	fate->states = states;
	fate->keep = keep;
	for (int i = 0; i < n; i++)
	{
		LsmRowHead *head = &merge->records[i].head;

		states[i] = lsm_xid_state(head);
		if (LSM_REC_KIND(head->info) == LSM_REC_LOCK)
			keep[i] = states[i] == LSM_XID_OWN || states[i] == LSM_XID_RUNNING;
		else
			keep[i] = cut < 0 && states[i] != LSM_XID_ABORTED;
		if (!keep[i])
		{
			/* a snapshot that does not see the cut would need this one */
			if (states[i] == LSM_XID_COMMITTED && LSM_REC_KIND(head->info) != LSM_REC_LOCK)
				merge->conflict_xid = Max(merge->conflict_xid, merge->records[cut].head.xid);
			continue;
		}
		kept++;
		if (LSM_REC_KIND(head->info) != LSM_REC_LOCK &&
			states[i] == LSM_XID_COMMITTED && head->xid < horizon)
			cut = i;
	}

	/* gone for good: deleted for everybody, or its INSERT was rolled back */
	fate->gone = has_bottom && (kept == 0 ||
								(cut >= 0 && !lsm_merge_has_columns(&merge->records[cut].head)));
	if (fate->gone)
	{
		if (cut >= 0)
			merge->conflict_xid = Max(merge->conflict_xid, merge->records[cut].head.xid);
		return;
	}
	if (!has_bottom && bottom_known)
	{
		/* records of a row that has gone: only running transactions matter */
		for (int i = 0; i < n; i++)
			keep[i] = keep[i] && (states[i] == LSM_XID_OWN || states[i] == LSM_XID_RUNNING);
		cut = -1;
	}

	fate->cut = cut;
	fate->settled = has_bottom && cut >= 0 && cut < n - 1 &&
		merge->records[cut].head.xid < merge->horizons.settled;
	if (fate->settled)
	{
		merge->conflict_xid = Max(merge->conflict_xid, merge->records[cut].head.xid);
		keep[cut] = false;
	}
	for (int i = 0; i < n; i++)
	{
		const LsmRowHead *head = &merge->records[i].head;

		/* nothing above a settled version needs what is below it */
		if (!keep[i] || !(head->info & LSM_REC_DELTA) || fate->settled)
			continue;

		/* neighbours build on the same: a row may have very many versions */
		if (head->base != known_base || (base >= 0 && base <= i))
			base = lsm_merge_base(merge, i, has_bottom);
		known_base = head->base;
		if (base >= 0)
			keep[base] = true;
	}
}

/* Write those of the n newest records that stay to the increment. */
static void
lsm_merge_keep_above(LsmMerge *merge, int n, const LsmFate *fate)
{
	for (int i = 0; i < n; i++)
		if (fate->keep[i])
			lsm_merge_keep(merge, &merge->records[i], fate->states[i]);
}

static void
lsm_merge_end_row(LsmMerge *merge)
{
	merge->nrecords = 0;
	MemoryContextReset(merge->row_context);
}

/*
 * Merge the records that have been added and write what is left of the row; see
 * lsm_merge_judge().  Then the next row can begin.
 */
void
lsm_merge_row(LsmMerge *merge, LsmTid root, bool has_bottom, bool bottom_known)
{
	int			n = merge->nrecords;
	LsmFate		fate;

	lsm_merge_judge(merge, has_bottom, bottom_known, &fate);
	if (fate.gone)
		lsm_merge_dead(merge, root);
	else
	{
		lsm_merge_keep_above(merge, has_bottom ? n - 1 : n, &fate);
		if (has_bottom && fate.settled)
			lsm_merge_settle(merge, fate.cut);
		else if (has_bottom)
			lsm_merge_keep_bottom(merge, &merge->records[n - 1], fate.states[n - 1]);
	}
	lsm_merge_end_row(merge);
}

/*
 * A settled version becomes the row of the block that is copied.  Of a DELTA that builds on
 * the row itself only its own columns are looked at.
 */
static void
lsm_merge_settle_patch(LsmMerge *merge, int i, int row)
{
	LsmMergeRecord *record = &merge->records[i];
	LsmRowHead	head;
	const bits8 *cols = NULL;
	int			natts;

	if ((record->head.info & LSM_REC_DELTA) && lsm_merge_base(merge, i, true) == merge->nrecords - 1)
	{
		natts = Min(record->head.natts, merge->tupdesc->natts);
		lsm_merge_load(merge, record, merge->values, merge->isnull);
		merge->large = record->head.info & LSM_REC_LARGE;
		cols = record->head.cols;
	}
	else
		natts = lsm_merge_complete(merge, i);
	lsm_merge_settled_head(merge, &record->head, natts, &head);
	lsm_block_patch_row(merge->bottom.patch, row, &head, cols, merge->values, merge->isnull);
}

/*
 * The same as lsm_merge_row() for a row of the block that is copied (lsm_output_begin_patch()), which is
 * the last of the records.
 */
void
lsm_merge_patch(LsmMerge *merge, LsmTid root, int row)
{
	LsmFate		fate;

	lsm_merge_judge(merge, true, true, &fate);
	if (fate.gone)
	{
		lsm_merge_dead(merge, root);
		lsm_block_patch_drop(merge->bottom.patch, row);
	}
	else
	{
		lsm_merge_keep_above(merge, merge->nrecords - 1, &fate);
		if (fate.settled)
			lsm_merge_settle_patch(merge, fate.cut, row);
	}
	lsm_merge_end_row(merge);
}

/* End the open base segment: what comes next is not its neighbour. */
void
lsm_merge_break(LsmMerge *merge)
{
	lsm_output_close(&merge->bottom);
}

/* What the open increment has so far (bytes). */
uint64
lsm_merge_increment_bytes(LsmMerge *merge)
{
	return merge->increment.writer == NULL ? 0 : lsm_segment_writer_bytes(merge->increment.writer);
}

/* End the open increment, so that what comes next can be merged by itself. */
void
lsm_merge_break_increment(LsmMerge *merge)
{
	lsm_output_close(&merge->increment);
}

void
lsm_merge_finish(LsmMerge *merge)
{
	lsm_output_close(&merge->bottom);
	lsm_output_close(&merge->increment);
	lsm_output_close(&merge->dead);
	lsm_output_close(&merge->lists);
}

static void
lsm_output_publish(LsmOutput *output, LsmEdit *edit, LsmJobStats *stats)
{
	ListCell   *lc;

	foreach(lc, output->entries)
	{
		LsmManifestEntry *entry = lfirst(lc);

		for (int i = 0; i < entry->nextents; i++)
			lsm_edit_take_pending(edit, output->owner, entry->extents[i]);
		entry->segment_id = edit->meta.next_segment_id++;
		lsm_edit_add(edit, entry);
		if (output->kind != LSM_SEGKIND_DEAD)
			stats->segments_out++;
		stats->bytes_written += entry->stored_bytes;
		if (output->kind != LSM_SEGKIND_DEAD)
			stats->rows_out += entry->versions;
	}
}

/*
 * The list that has been made of others takes their place.  Not if one of them has gone: the LBs
 * of its roots may be used again.  Then the pages are left to whoever next has the job's lock.
 */
static void
lsm_merge_publish_lists(LsmMerge *merge, LsmEdit *edit, LsmJobStats *stats)
{
	for (int i = 0; i < merge->nmerged; i++)
		if (lsm_edit_change(edit, merge->merged[i]) == NULL)
			return;
	for (int i = 0; i < merge->nmerged; i++)
		lsm_edit_remove_segment(edit, merge->merged[i]);
	lsm_output_publish(&merge->lists, edit, stats);
}

/* Add the new segments to an edit. */
void
lsm_merge_publish(LsmMerge *merge, LsmEdit *edit, LsmJobStats *stats)
{
	lsm_output_publish(&merge->bottom, edit, stats);
	lsm_output_publish(&merge->increment, edit, stats);
	lsm_output_publish(&merge->dead, edit, stats);
	lsm_merge_publish_lists(merge, edit, stats);
	edit->conflict_xid = Max(edit->conflict_xid, merge->conflict_xid);
}
