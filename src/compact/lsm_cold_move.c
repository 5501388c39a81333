/*-------------------------------------------------------------------------
 *
 * lsm_cold_move.c
 *	  Moving segments of the baseline to a store, and back.
 *
 * A table with the option lsm.cold_store has its baseline segments moved to that
 * store, one object each; what lies in another store, or in any after the option
 * was reset, is brought back.  A move takes the lock of a major compaction and
 * claims the segment's roots, so that no major writes it again meanwhile.
 *
 * OUT
 *	  The blocks and large values are put, each checked before it is sent (a value that is
 *	  found damaged when its last piece is read breaks the put off), and the store verifies
 *	  what it has.  Then the end of the stream and a list of the segment's roots are
 *	  written to new local pages; then an edit makes the entry that of a cold
 *	  segment, and frees the pages that it had.  The uid stays, and so does all that
 *	  caches have.
 *
 * BACK
 *	  The blocks are read as a scan reads them and written to new local pages, with
 *	  the end of the stream; then the edit.
 *
 * LARGE VALUES
 *	  Somebody may have live pointers to the values of the segment, by its pages or by its
 *	  numbers (lsm_valuenum.c).  So what the entry was is retired by the same edit, and
 *	  goes, with its pages or its object, when nobody can have any more (I15).
 *
 * Segments of a file that our own transaction has made stay local: if it is rolled back,
 * nobody will know of the object.  So do segments with more large values than there are
 * numbers left.
 *
 * An error (the store is away) is the caller's.  For workers a table then rests for
 * a while, as far as moving is concerned, longer each time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "foreign/foreign.h"
#include "lsm_cold.h"
#include "lsm_cold_move.h"
#include "lsm_coldvalue.h"
#include "lsm_request.h"
#include "lsm_stop.h"
#include "lsm_wal.h"
#include "utils/inval.h"
#include "utils/timestamp.h"

/* Large values are read in pieces of so many bytes. */
#define LSM_COLD_PIECE_BYTES	(LSM_PAGE_BATCH * LSM_PAGE_PAYLOAD)

#define LSM_COLD_LONGEST_REST_S	3600

/* A move that runs. */
typedef struct LsmColdMove
{
	Relation	rel;
	LsmTable   *table;
	uint16		owner;
	LsmCursor	cursor;			/* its entry is the segment's */
	uint32		next_block;
	uint64		at;				/* in the stream, behind what follows */
	char	   *piece;			/* bytes of the block before that one, or of a value */
	uint32		piece_bytes;
	uint32		piece_room;
	uint32		piece_given;	/* of them, taken */
	LsmSegmentValue value;		/* the large value that is being read; length 0: none */
	uint32		value_done;
	pg_crc32c	value_crc;
	uint64		nroots;
	LsmTid	   *roots;
} LsmColdMove;

/* ---- what is to be moved ---- */

/* Is the file one that others can see? */
static bool
lsm_cold_file_is_committed(Relation rel)
{
	return rel->rd_createSubid == InvalidSubTransactionId &&
		lsm_compat_new_file_subid(rel) == InvalidSubTransactionId;
}

static bool
lsm_cold_goes_out(const LsmManifestEntry *entry)
{
	return entry->type == LSM_ENTRY_SEGMENT && entry->kind == LSM_SEGKIND_BASELINE &&
		!lsm_entry_is_cold(entry) && (entry->flags & LSM_SEGFLAG_ALL_VISIBLE) &&
		entry->forwards == 0 && entry->dead == 0 && entry->rows > 0;
}

/* Where the table's segments belong. */
typedef struct LsmColdPlace
{
	Oid			serverid;		/* InvalidOid: they are local */
	uint64		hash;			/* of its name */
	bool		out;			/* they may be moved there */
	uint32		numbers;		/* pages that one with large values may have */
} LsmColdPlace;

static void
lsm_cold_find_place(Relation rel, const LsmView *view, LsmColdPlace *place)
{
	memset(place, 0, sizeof(*place));
	place->serverid = lsm_cold_attached(rel);
	if (!OidIsValid(place->serverid))
		return;
	place->hash = lsm_cold_name_hash(GetForeignServer(place->serverid)->servername);

	/* what an open transaction has attached may be detached by its rollback */
	place->out = lsm_cold_file_is_committed(rel) &&
		lsm_cold_depends(RelationGetRelid(rel), place->serverid);
	place->numbers = lsm_view_numbers_left(view);
}

/* Is a segment not where it should be?  No catalog is read. */
static bool
lsm_cold_misplaced(const LsmManifestEntry *entry, const LsmColdPlace *place)
{
	if (entry->type != LSM_ENTRY_SEGMENT)
		return false;
	if (lsm_entry_is_cold(entry))
		return !OidIsValid(place->serverid) || lsm_entry_object(entry)->server != place->hash;
	return place->out && lsm_cold_goes_out(entry) &&
		(!(entry->flags & LSM_SEGFLAG_VALUES) ||
		 entry->stored_bytes / LSM_PAGE_PAYLOAD < place->numbers);
}

/* How many are not, and the bytes of their moves; from one store to another they move twice. */
static int
lsm_cold_sum_misplaced(Relation rel, LsmView *view, uint64 *bytes)
{
	LsmColdPlace place;
	int			n = 0;

	*bytes = 0;
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		return 0;
	if (!OidIsValid(lsm_cold_attached(rel)) && view->meta.version < LSM_FORMAT_COLD)
		return 0;
	lsm_cold_find_place(rel, view, &place);
	for (int i = 0; i < view->nentries; i++)
	{
		const LsmManifestEntry *entry = &view->entries[i];

		if (!lsm_cold_misplaced(entry, &place))
			continue;
		n++;
		*bytes += entry->stored_bytes * (lsm_entry_is_cold(entry) && place.out ? 2 : 1);
	}
	return n;
}

int
lsm_cold_count_misplaced(Relation rel, LsmView *view)
{
	uint64		bytes;

	return lsm_cold_sum_misplaced(rel, view, &bytes);
}

/* ---- rests, after errors ---- */

bool
lsm_cold_may_try(LsmColdRest *rest)
{
	return (TimestampTz) pg_atomic_read_u64(&rest->until) <= GetCurrentTimestamp();
}

void
lsm_cold_note(LsmColdRest *rest, bool good)
{
	uint32		failures;

	if (good)
	{
		pg_atomic_write_u32(&rest->failures, 0);
		pg_atomic_write_u64(&rest->until, 0);
		return;
	}
	failures = pg_atomic_add_fetch_u32(&rest->failures, 1);
	pg_atomic_write_u64(&rest->until,
						(uint64) TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
															 lsm_backoff_ms(Min(failures, 100),
																			LSM_COLD_LONGEST_REST_S)));
}

/* Is the error that is being handled one of the job's own? */
static bool
lsm_cold_is_failure(void)
{
	return !lsm_job_gave_way() && geterrcode() != ERRCODE_QUERY_CANCELED &&
		geterrcode() != ERRCODE_ADMIN_SHUTDOWN;
}

bool
lsm_cold_note_error(LsmColdRest *rest, uint64 failures)
{
	if (lsm_store_failures == failures || !lsm_cold_is_failure())
		return false;
	lsm_cold_note(rest, false);
	return true;
}

/* ---- reading the segment ---- */

static void
lsm_cold_begin(LsmColdMove *move, Relation rel, LsmTable *table, uint16 owner,
			   const LsmManifestEntry *entry)
{
	memset(move, 0, sizeof(*move));
	move->rel = rel;
	move->table = table;
	move->owner = owner;
	lsm_cursor_init(&move->cursor, rel, table, entry);
}

/* Have room for a piece of the stream. */
static void
lsm_cold_begin_piece(LsmColdMove *move, uint32 bytes)
{
	if (move->piece_room < bytes)
	{
		if (move->piece != NULL)
			pfree(move->piece);
		move->piece_room = bytes * 2;
		move->piece = palloc(move->piece_room);
	}
	move->piece_bytes = bytes;
	move->piece_given = 0;
}

/* A piece has been read. */
static bool
lsm_cold_end_piece(LsmColdMove *move)
{
	move->at += move->piece_bytes;
	lsm_progress_add(LSM_PROGRESS_BYTES_DONE, move->piece_bytes);
	return true;
}

/* Read the next block, and check it.  False: there is none. */
static bool
lsm_cold_next_block(LsmColdMove *move)
{
	LsmSegmentReader *reader;
	uint32		rows;
	uint32		bytes;

	if (move->next_block >= move->cursor.nblocks)
		return false;
	lsm_cursor_preload(&move->cursor, move->next_block);
	reader = lsm_cursor_reader(&move->cursor);
	lsm_segment_block_info(reader, move->next_block, NULL, NULL, &rows, NULL, &bytes);
	lsm_cold_begin_piece(move, bytes);
	lsm_segment_block_bytes(reader, move->next_block, move->piece);
	if (move->roots != NULL)
	{
		LsmBlock   *block = lsm_block_read(reader, move->next_block);

		if (move->nroots + rows > move->cursor.entry.rows)
			lsm_segment_corrupt_entry(move->rel, &move->cursor.entry,
									  "it has more rows than the manifest says");
		lsm_block_roots(block, move->roots + move->nroots);
		move->nroots += rows;
		lsm_block_free(block);
	}
	move->next_block++;
	return lsm_cold_end_piece(move);
}

/* Does a large value come next?  Then it is begun. */
static bool
lsm_cold_begin_value(LsmColdMove *move)
{
	LsmSegmentReader *reader = lsm_cursor_reader(&move->cursor);

	if (!lsm_segment_find_value(reader, move->at, &move->value) ||
		move->value.offset != move->at)
	{
		move->value.length = 0;
		return false;
	}
	move->value_done = 0;
	INIT_CRC32C(move->value_crc);
	COMP_CRC32C(move->value_crc, &move->cursor.entry.uid, sizeof(uint64));
	return true;
}

/* Read the next piece of a large value; with the last one the value is checked. */
static bool
lsm_cold_next_value(LsmColdMove *move)
{
	const LsmManifestEntry *entry = &move->cursor.entry;
	LsmSegmentValue *value = &move->value;
	uint32		bytes = Min(value->length - move->value_done, LSM_COLD_PIECE_BYTES);

	lsm_cold_begin_piece(move, bytes);
	if (lsm_entry_is_cold(entry))
		lsm_coldvalue_read(move->rel, move->table, entry, value, move->value_done, bytes,
						   LSM_READER_COMPACTION, move->piece);
	else if (!lsm_segpages_read(move->rel, entry, move->at, bytes, move->piece))
		lsm_segment_corrupt_entry(move->rel, entry, "a page of a large value is not the segment's");
	COMP_CRC32C(move->value_crc, move->piece, bytes);
	move->value_done += bytes;
	if (move->value_done == value->length)
	{
		FIN_CRC32C(move->value_crc);
		if (!EQ_CRC32C(move->value_crc, value->crc) && lsm_entry_is_cold(entry))
			lsm_cold_raise_damaged_value(move->rel, entry, value->offset);
		if (!EQ_CRC32C(move->value_crc, value->crc))
			lsm_segment_corrupt_entry(move->rel, entry, "a large value has a wrong checksum");
		value->length = 0;
	}
	return lsm_cold_end_piece(move);
}

/* Read what comes next in the stream; false: all blocks and large values have come. */
static bool
lsm_cold_next_piece(LsmColdMove *move)
{
	lsm_compact_pause();
	if (move->value.length > 0 ||
		((move->cursor.entry.flags & LSM_SEGFLAG_VALUES) && lsm_cold_begin_value(move)))
		return lsm_cold_next_value(move);
	return lsm_cold_next_block(move);
}

static size_t
lsm_cold_pull(void *arg, char *buffer, size_t len)
{
	LsmColdMove *move = arg;
	size_t		filled = 0;

	while (filled < len)
	{
		size_t		n;

		if (move->piece_given >= move->piece_bytes && !lsm_cold_next_piece(move))
			break;
		n = Min(len - filled, move->piece_bytes - move->piece_given);
		memcpy(buffer + filled, move->piece + move->piece_given, n);
		move->piece_given += n;
		filled += n;
		lsm_bytes_to_pace += n;
	}
	return filled;
}

/* ---- writing local pages ---- */

/* A stream in memory. */
typedef struct LsmColdSink
{
	LsmSegmentSink sink;		/* must be first */
	StringInfoData bytes;
} LsmColdSink;

static void
lsm_cold_sink_append(LsmSegmentSink *sink, const void *data, Size len)
{
	enlargeStringInfo(&((LsmColdSink *) sink)->bytes, len);
	appendBinaryStringInfoNT(&((LsmColdSink *) sink)->bytes, data, len);
}

/* The stream of the list of roots. */
static void
lsm_cold_write_roots(LsmColdMove *move, LsmColdSink *sink)
{
	LsmSegmentOptions options = {.kind = LSM_SEGKIND_DEAD,.uid = move->cursor.entry.uid,.block_bytes = 32 * 1024,.compression_level = 0};
	LsmSegmentWriter *writer;

	memset(sink, 0, sizeof(*sink));
	sink->sink.append = lsm_cold_sink_append;
	initStringInfo(&sink->bytes);
	writer = lsm_segment_writer_create(RelationGetDescr(move->rel), &options, &sink->sink);
	for (uint64 i = 0; i < move->nroots; i++)
		lsm_segment_writer_add_dead(writer, move->roots[i]);
	lsm_segment_writer_finish(writer, NULL);
}

/* Append bytes of the segment's local stream, from a page border to its end. */
static void
lsm_cold_copy_tail(LsmColdMove *move, LsmSegmentSink *sink, uint64 from)
{
	const LsmManifestEntry *entry = &move->cursor.entry;
	uint64		end = (uint64) lsm_entry_roots_page(entry) * LSM_PAGE_PAYLOAD;
	char	   *page = palloc(LSM_PAGE_PAYLOAD);

	for (; from < end; from += LSM_PAGE_PAYLOAD)
	{
		lsm_job_check();
		if (!lsm_segpages_read(move->rel, entry, from, LSM_PAGE_PAYLOAD, page))
			lsm_segment_corrupt_entry(move->rel, entry, "a page is not the segment's");
		sink->append(sink, page, LSM_PAGE_PAYLOAD);
	}
	pfree(page);
}

/* Write the pages of a segment that has become cold; the entry gets their places. */
static void
lsm_cold_write_local(LsmColdMove *move, LsmManifestEntry *entry, LsmColdObject *object)
{
	LsmPageSink *sink;
	LsmColdSink roots;
	LsmManifestEntry written = {0};
	uint32		first_page = lsm_entry_first_page(entry);
	uint32		npages;

	lsm_cold_write_roots(move, &roots);
	npages = lsm_entry_roots_page(entry) - first_page +
		roots.bytes.len / LSM_PAGE_PAYLOAD + 1;
	sink = lsm_pagesink_create(move->rel, move->table, move->owner, npages);
	lsm_pagesink_continue(sink, entry->uid, first_page, npages);
	lsm_cold_copy_tail(move, lsm_pagesink_sink(sink), (uint64) first_page * LSM_PAGE_PAYLOAD);
	lsm_pagesink_sink(sink)->append(lsm_pagesink_sink(sink), roots.bytes.data, roots.bytes.len);
	lsm_pagesink_finish(sink, &written);
	if (written.nextents > lsm_entry_max_extents(entry))
		elog(ERROR, "a cold segment has %u extents", written.nextents);
	object->roots_bytes = roots.bytes.len;
	entry->nextents = written.nextents;
	memset(entry->extents, 0, sizeof(entry->extents));
	memcpy(entry->extents, written.extents, written.nextents * sizeof(LsmExtent));
	memcpy(&entry->extents[LSM_COLD_EXTENTS], object, sizeof(LsmColdObject));
	pfree(roots.bytes.data);
}

/* ---- the swap ---- */

/*
 * The segment's entry becomes another one, whose pages are PENDING.  Its own are free; but
 * with large values, what it was is retired.
 */
static void
lsm_cold_swap(LsmColdMove *move, const LsmManifestEntry *new)
{
	LsmEdit    *edit = lsm_edit_begin(move->rel, move->table, LSM_OP_COLD);
	LsmManifestEntry *entry = lsm_edit_change(edit, new->uid);
	LsmManifestEntry old = *entry;
	LsmExtent	numbers = new->extents[LSM_COLD_EXTENTS - 1];

	if (lsm_entry_has_numbers(new))
		lsm_edit_take_numbers(edit, lsm_object_pages(lsm_entry_object(new)), &numbers);
	entry->flags = new->flags;
	entry->nextents = new->nextents;
	memcpy(entry->extents, new->extents, sizeof(entry->extents));
	entry->extents[LSM_COLD_EXTENTS - 1] = numbers;
	for (int i = 0; i < new->nextents; i++)
		lsm_edit_take_pending(edit, move->owner, new->extents[i]);
	if (old.flags & LSM_SEGFLAG_VALUES)
	{
		lsm_edit_check_room(edit);
		lsm_edit_add_retired(edit, &old);
	}
	else
		for (int i = 0; i < old.nextents; i++)
			lsm_edit_free_extent(edit, old.extents[i]);
	edit->meta.version = Max(edit->meta.version, old.flags & LSM_SEGFLAG_VALUES ?
							 LSM_FORMAT_COLD_VALUES : LSM_FORMAT_COLD);
	lsm_edit_commit(edit);
}

/* ---- moves ---- */

static void
lsm_cold_move_out(LsmColdMove *move, Oid serverid, LsmJobStats *stats)
{
	LsmStore   *store = lsm_store_open(serverid, move->rel->rd_rel->relowner);
	LsmManifestEntry entry = move->cursor.entry;
	LsmColdObject object = {0};
	LsmObjectInfo info;
	char		key[LSM_COLD_KEY_BYTES];

	object.system = GetSystemIdentifier();
	object.owner = lsm_cold_owner();
	object.database = MyDatabaseId;
	object.incarnation = lsm_view_get(move->rel, move->table)->meta.incarnation;
	object.server = lsm_cold_name_hash(lsm_store_name(store));
	if (!pg_strong_random(&object.random, sizeof(object.random)))
		elog(ERROR, "could not get random numbers");
	memcpy(&entry.extents[LSM_COLD_EXTENTS], &object, sizeof(object));
	entry.flags |= LSM_SEGFLAG_COLD;
	lsm_cold_key(&entry, key);
	move->roots = MemoryContextAllocHuge(CurrentMemoryContext, entry.rows * sizeof(LsmTid));

	/* until the edit nobody knows of it (lsm_cold_orphans.c) */
	lsm_cold_put_begin();
	LSM_STOP("cold-before-put");
	lsm_store_put(store, key, lsm_cold_pull, move, &info);
	LSM_STOP("cold-after-put");
	lsm_ahead_end(&move->cursor.ahead.feed);
	if (move->nroots != entry.rows)
		lsm_segment_corrupt_entry(move->rel, &entry, "it has not the rows that the manifest says");
	object.bytes = info.bytes;
	memcpy(&entry.extents[LSM_COLD_EXTENTS], &object, sizeof(object));
	lsm_cold_write_local(move, &entry, &object);
	lsm_progress_phase(LSM_PHASE_SWAPPING);
	LSM_STOP("cold-before-swap");
	lsm_cold_swap(move, &entry);
	LSM_STOP("cold-after-swap");
	lsm_cold_put_end();
	lsm_stat_report_move(RelationGetRelid(move->rel), info.bytes);
	stats->bytes_read += info.bytes;
	stats->bytes_written += info.bytes;
}

static void
lsm_cold_move_back(LsmColdMove *move, LsmJobStats *stats)
{
	LsmManifestEntry entry = move->cursor.entry;
	uint64		bytes = lsm_entry_object(&entry)->bytes;
	uint64		given = 0;
	uint64		tail;
	LsmPageSink *sink;
	LsmSegmentSink *pages;

	sink = lsm_pagesink_create(move->rel, move->table, move->owner,
							   lsm_entry_roots_page(&entry));
	lsm_pagesink_continue(sink, entry.uid, 0, lsm_entry_roots_page(&entry));
	pages = lsm_pagesink_sink(sink);
	while (lsm_cold_next_piece(move))
	{
		pages->append(pages, move->piece, move->piece_bytes);
		given += move->piece_bytes;
	}
	lsm_ahead_end(&move->cursor.ahead.feed);
	if (given != bytes)
		lsm_segment_corrupt_entry(move->rel, &entry, "its object has not the length of its blocks and values");

	/* what is left of a page that begins with the end of the last block */
	tail = (bytes + LSM_PAGE_PAYLOAD - 1) / LSM_PAGE_PAYLOAD * LSM_PAGE_PAYLOAD;
	if (tail > bytes)
	{
		char	   *rest = palloc(LSM_PAGE_PAYLOAD);

		if (!lsm_segpages_read(move->rel, &entry, bytes, tail - bytes, rest))
			lsm_segment_corrupt_entry(move->rel, &entry, "a page is not the segment's");
		pages->append(pages, rest, tail - bytes);
		pfree(rest);
	}
	lsm_cold_copy_tail(move, pages, tail);
	memset(entry.extents, 0, sizeof(entry.extents));
	lsm_pagesink_finish(sink, &entry);
	entry.flags &= ~LSM_SEGFLAG_COLD;
	lsm_progress_phase(LSM_PHASE_SWAPPING);
	LSM_STOP("cold-before-return");
	lsm_cold_swap(move, &entry);
	lsm_stat_report_move(RelationGetRelid(move->rel), bytes);
	stats->bytes_read += bytes;
	stats->bytes_written += bytes;
}

/* Find a segment that is not where it should be and claim it; false: there is none. */
static bool
lsm_cold_claim(Relation rel, LsmTable *table, uint16 owner, const LsmColdPlace *place,
			   LsmTid from, LsmManifestEntry *found)
{
	LsmTableShared *shared = table->shared;
	LsmView    *view;
	bool		full;
	bool		any = false;

	LWLockAcquire(&shared->edit_lock, LW_EXCLUSIVE);
	view = lsm_view_get(rel, table);

	/* what has large values is retired when it has moved, which takes a place */
	full = lsm_manifest_fill(view->nentries) >= 1;
	for (int i = lsm_view_find_base(view, from); i < view->nbase && !any; i++)
	{
		if (!lsm_cold_misplaced(view->base[i], place) ||
			(full && (view->base[i]->flags & LSM_SEGFLAG_VALUES)) ||
			lsm_claimed_roots(shared, owner, view->base[i]->first_tid, view->base[i]->last_tid))
			continue;
		*found = *view->base[i];
		lsm_claim_set(shared, owner, !lsm_entry_is_cold(found), 0, 0, found->first_tid,
					  found->last_tid);
		any = true;
	}
	LWLockRelease(&shared->edit_lock);
	return any;
}

/* A sweep over the baseline. */
typedef struct LsmColdSweep
{
	LsmTid		from;			/* roots before it have been looked at */
	bool		done;
	int			moved;
	uint64		bytes;			/* stored, of what was moved */
} LsmColdSweep;

static void
lsm_cold_run(Relation rel, LsmTable *table, uint16 owner, void *arg, LsmJobStats *stats)
{
	LsmColdSweep *sweep = arg;
	LsmManifestEntry entry;
	LsmColdMove move;
	LsmColdPlace place;

	/*
	 * who detaches the table waits for our lock, or we see it
	 * (lsm_cold_ddl.c)
	 */
	AcceptInvalidationMessages();
	lsm_cold_find_place(rel, lsm_view_get(rel, table), &place);
	if (!lsm_cold_claim(rel, table, owner, &place, sweep->from, &entry))
	{
		sweep->done = true;
		return;
	}
	sweep->from = entry.last_tid + 1;
	lsm_progress_phase(LSM_PHASE_MOVING);
	lsm_cold_begin(&move, rel, table, owner, &entry);
	if (lsm_entry_is_cold(&entry))
	{
		lsm_cold_move_back(&move, stats);

		/* it may belong to another store */
		sweep->from = entry.first_tid;
	}
	else
		lsm_cold_move_out(&move, place.serverid, stats);
	sweep->moved++;
	sweep->bytes += entry.stored_bytes;
	lsm_progress_set(LSM_PROGRESS_BYTES_DONE, sweep->bytes);
	if (!lsm_entry_is_cold(&entry) || !place.out)
		lsm_progress_add(LSM_PROGRESS_SEGMENTS_DONE, 1);
}

/* Move up to max segments with a lock that is held; returns how many were. */
static int
lsm_cold_sweep(Relation rel, uint16 owner, int max, LsmJobStats *stats)
{
	LsmTable   *table = lsm_table_open(rel);
	LsmColdSweep sweep = {0};
	uint64		bytes;

	lsm_progress_phase(LSM_PHASE_PREPARING);
	lsm_progress_set(LSM_PROGRESS_SEGMENTS_TOTAL,
					 lsm_cold_sum_misplaced(rel, lsm_view_get(rel, table), &bytes));
	lsm_progress_set(LSM_PROGRESS_BYTES_TOTAL, bytes);
	PG_TRY();
	{
		while (!sweep.done && sweep.moved < max)
			lsm_job_run(rel, owner, lsm_cold_run, &sweep, stats);
	}
	PG_CATCH();
	{
		if (lsm_cold_is_failure())
			lsm_cold_note(&table->shared->cold_moves, false);
		PG_RE_THROW();
	}
	PG_END_TRY();
	lsm_claim_release(owner);
	if (sweep.moved > 0)
		lsm_cold_note(&table->shared->cold_moves, true);
	return sweep.moved;
}

/* Move all that is not where it should be. */
void
lsm_cold_move_all(Relation rel, LsmJobStats *stats)
{
	if (lsm_cold_count_misplaced(rel, lsm_view_get(rel, lsm_table_open(rel))) == 0)
		return;
	lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_MOVE, 1, LSM_MAX_TID);
	lsm_job_lock(rel, LSM_OWNER_MAJOR);
	(void) lsm_cold_sweep(rel, LSM_OWNER_MAJOR, INT_MAX, stats);
	lsm_job_unlock(rel, LSM_OWNER_MAJOR);
	lsm_progress_end();
}

/* A segment, for workers, if there is a lock for it.  False: none was moved. */
bool
lsm_cold_move_one(Relation rel, LsmJobStats *stats)
{
	int			moved = 0;

	for (int slot = 1; slot < LSM_MAJOR_SLOTS; slot++)
	{
		uint16		owner = lsm_major_owner(slot);

		if (!lsm_job_lock_if_free(rel, owner))
			continue;
		lsm_progress_begin(RelationGetRelid(rel), LSM_JOB_MOVE, 1, LSM_MAX_TID);
		moved = lsm_cold_sweep(rel, owner, 1, stats);
		lsm_job_unlock(rel, owner);
		lsm_progress_end();
		break;
	}
	return moved > 0;
}
