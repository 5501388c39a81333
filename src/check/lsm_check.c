/*-------------------------------------------------------------------------
 *
 * lsm_check.c
 *	  Verification of a table: pages, row log, segments, indexes.
 *
 * Flushes and compactions wait meanwhile; writers go on until the row log is full.  A segment that cannot
 * be read is one problem, and the check goes on with the next: each is read in a
 * subtransaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "executor/executor.h"
#include "lsm_am.h"
#include "lsm_check.h"
#include "lsm_coldvalue.h"
#include "lsm_compact.h"
#include "lsm_try.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/guc.h"

/* Large values are read in pieces of so many bytes. */
#define LSM_CHECK_PIECE			(32 * LSM_PAGE_PAYLOAD)

typedef struct LsmCheck
{
	Relation	rel;
	LsmTable   *table;
	LsmCheckReport report;
	void	   *arg;
	Snapshot	snapshot;
	LsmMeta		meta;			/* copies: views change under writers */
	int			nentries;
	LsmManifestEntry *entries;
	BlockNumber manifest_root;
	uint64		ndead;			/* all dead roots, sorted */
	LsmTid	   *dead;
} LsmCheck;

static void
			lsm_check_problem(LsmCheck *check, const char *fmt,...) pg_attribute_printf(2, 3);

static void
lsm_check_problem(LsmCheck *check, const char *fmt,...)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, fmt);
		needed = appendStringInfoVA(&buf, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&buf, needed);
	}
	check->report(check->arg, buf.data);
	pfree(buf.data);
}

static int
lsm_check_tid_cmp(const void *a, const void *b)
{
	LsmTid		x = *(const LsmTid *) a;
	LsmTid		y = *(const LsmTid *) b;

	return x < y ? -1 : x > y;
}

static bool
lsm_check_has_tid(const LsmTid *tids, uint64 n, LsmTid tid)
{
	return n > 0 && bsearch(&tid, tids, n, sizeof(LsmTid), lsm_check_tid_cmp) != NULL;
}

/* A step of the check. */
typedef struct LsmCheckStep
{
	LsmCheck   *check;
	void		(*run) (LsmCheck *check, void *arg);
	void	   *arg;
} LsmCheckStep;

static void
lsm_check_run(void *arg)
{
	LsmCheckStep *step = arg;

	step->run(step->check, step->arg);
}

/* Run a step; that it meets damage is a problem. */
static bool
lsm_check_protected(LsmCheck *check, void (*run) (LsmCheck *, void *), void *arg)
{
	LsmCheckStep step = {check, run, arg};
	ErrorData  *error = lsm_try(lsm_check_run, &step);

	if (error == NULL)
		return true;
	if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED &&
		error->sqlerrcode != ERRCODE_INDEX_CORRUPTED &&
		error->sqlerrcode != ERRCODE_UNDEFINED_FILE &&
		error->sqlerrcode != ERRCODE_IO_ERROR)
		ReThrowError(error);
	if (error->detail != NULL)
		lsm_check_problem(check, "%s: %s", error->message, error->detail);
	else
		lsm_check_problem(check, "%s", error->message);
	FreeErrorData(error);
	return false;
}

/* ---- pages ---- */

/* Claim pages for one owner; each page has exactly one. */
static void
lsm_check_claim(LsmCheck *check, uint8 *owners, LsmExtent extent, uint8 owner, const char *what)
{
	for (uint32 i = 0; i < extent.npages; i++)
	{
		BlockNumber block = extent.start + i;

		if (block >= check->meta.npages)
		{
			lsm_check_problem(check, "page %u of %s lies beyond the %u pages that are accounted for",
							  block, what, check->meta.npages);
			return;
		}
		if (owners[block] != 0)
			lsm_check_problem(check, "page %u of %s has another use too", block, what);
		owners[block] = owner;
	}
}

static void
lsm_check_pages(LsmCheck *check, void *arg)
{
	LsmMeta    *meta = &check->meta;
	uint8	   *owners = MemoryContextAllocExtended(CurrentMemoryContext, meta->npages + 1,
													MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	LsmExtent	first = {LSM_META_BLOCK, 1};
	BlockNumber lost = 0;
	BlockNumber nblocks = smgrnblocks(RelationGetSmgr(check->rel), MAIN_FORKNUM);

	lsm_check_claim(check, owners, first, 1, "the metapage");
	for (uint32 i = 0; i < meta->nextents; i++)
		lsm_check_claim(check, owners, meta->extents[i], 2, "the manifest");
	for (uint32 i = 0; i < meta->nranges; i++)
		lsm_check_claim(check, owners, meta->ranges[i].pages, 3, "the row log");
	for (int i = 0; i < check->nentries; i++)
	{
		LsmManifestEntry *entry = &check->entries[i];
		const char *what = entry->type == LSM_ENTRY_SEGMENT ? "a segment" :
		entry->type == LSM_ENTRY_FREE ? "free space" :
		entry->type == LSM_ENTRY_VALUES ? "large values" :
		entry->type == LSM_ENTRY_RETIRED ? "retired large values" : "a running operation";

		for (int j = 0; j < entry->nextents; j++)
		{
			lsm_check_claim(check, owners, entry->extents[j], 4, what);
			if (entry->type == LSM_ENTRY_SEGMENT &&
				entry->extents[j].start + entry->extents[j].npages > nblocks)
				lsm_check_problem(check, "segment " UINT64_FORMAT " lies beyond the end of the file",
								  entry->segment_id);
		}
	}
	for (BlockNumber block = 0; block < meta->npages; block++)
		if (owners[block] == 0)
			lost++;
	if (lost > 0)
		lsm_check_problem(check, "%u of %u pages belong to nothing", lost, meta->npages);
	pfree(owners);
}

/* ---- the visibility map ---- */

/* A row that ends, or may end, is in an LB without its bit (I14). */
static void
lsm_check_not_visible(LsmCheck *check, LsmTid root, int kind, Buffer *vm)
{
	if ((kind == LSM_REC_DELETE || kind == LSM_REC_MOVED) &&
		VM_ALL_VISIBLE(check->rel, LSM_TID_LB(root), vm))
		lsm_check_problem(check, "row (%u,%u) has a record of kind %d, and the visibility map has the bit of its LB",
						  LSM_TID_LB(root), LSM_TID_OFFSET(root), kind);
}

/* ---- the row log ---- */

static void
lsm_check_row_page(LsmCheck *check, LsmRowRange *range, BlockNumber lb, char *copy, Buffer *vm)
{
	Page		page = (Page) copy;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= PageGetMaxOffsetNumber(page); offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		LsmRecord  *record = (LsmRecord *) PageGetItem(page, item);
		int			kind;

		if (!ItemIdIsRedirected(item) || ItemIdGetLength(item) < SizeOfLsmInsertRecord)
		{
			lsm_check_problem(check, "item (%u,%u) of the row log is not a record", lb, offset);
			continue;
		}
		kind = LSM_REC_KIND(record->info);
		if (kind < LSM_REC_INSERT || kind > LSM_REC_LOCK ||
			(kind == LSM_REC_INSERT) != (range->kind == LSM_RANGE_ROOT))
			lsm_check_problem(check, "record (%u,%u) of the row log has kind %d in a range of kind %d",
							  lb, offset, kind, range->kind);
		else if (kind != LSM_REC_INSERT &&
				 (ItemIdGetLength(item) < SizeOfLsmRecord || LSM_TID_IS_VERSION(record->root) ||
				  (record->prev != 0 && !LSM_TID_IS_VERSION(record->prev))))
			lsm_check_problem(check, "record (%u,%u) of the row log has wrong links", lb, offset);
		else if (record->xid == 0 && kind != LSM_REC_INSERT)
			lsm_check_problem(check, "record (%u,%u) of the row log has no xid", lb, offset);
		else if (kind != LSM_REC_INSERT)
			lsm_check_not_visible(check, record->root, kind, vm);
	}
}

static void
lsm_check_rowlog(LsmCheck *check, void *arg)
{
	PGAlignedBlock copy;
	Buffer		vm = InvalidBuffer;

	for (uint32 i = 0; i < check->meta.nranges; i++)
	{
		LsmRowRange *range = &check->meta.ranges[i];

		if (range->kind == LSM_RANGE_FREE)
			continue;
		/* root ranges may be left over from a flush */
		if (range->kind > LSM_RANGE_VERSION || range->generation == 0 ||
			range->generation > check->meta.generation ||
			(range->kind == LSM_RANGE_VERSION &&
			 range->generation != check->meta.generation &&
			 range->generation != check->meta.flushing))
		{
			lsm_check_problem(check, "row-log range %u has kind %u and generation %u", i,
							  range->kind, range->generation);
			continue;
		}
		for (uint32 j = 0; j < range->pages.npages; j++)
		{
			BlockNumber lb;
			OffsetNumber before;

			CHECK_FOR_INTERRUPTS();
			if (!lsm_rowlog_copy_page(check->rel, lsm_view_get(check->rel, check->table), range, j,
									  copy.data, &lb, &before))
				continue;
			if (before != 0 && j % lsm_range_lb_pages(range) == 0)
				lsm_check_problem(check, "the first page of LB %u says that it has %u items before it",
								  lb, before);
			lsm_check_row_page(check, range, lb, copy.data, &vm);
		}
	}
	if (BufferIsValid(vm))
		ReleaseBuffer(vm);
}

/* ---- segments ---- */

/* A reader; the manifest only grows by row-log ranges meanwhile. */
static LsmSegmentReader *
lsm_check_reader(LsmCheck *check, const LsmManifestEntry *entry)
{
	LsmSegmentReader *reader;

	do
		(void) lsm_view_get(check->rel, check->table);
	while ((reader = lsm_reader_get(check->rel, check->table, entry)) == NULL);
	return reader;
}

static LsmCachedBlock *
lsm_check_block(LsmCheck *check, const LsmManifestEntry *entry, uint32 blockno)
{
	LsmCachedBlock *cached;

	do
		(void) lsm_view_get(check->rel, check->table);
	while ((cached = lsm_block_pin_for(check->rel, check->table, entry, blockno,
									   LSM_READER_COMPACTION)) == NULL);
	return cached;
}

/* The bytes of all large values of a segment. */
static void
lsm_check_values(LsmCheck *check, const LsmManifestEntry *entry)
{
	LsmSegmentValue value;
	char	   *piece = palloc(LSM_CHECK_PIECE);
	uint64		offset = 0;

	while (lsm_segment_find_value(lsm_check_reader(check, entry), offset, &value))
	{
		pg_crc32c	crc;

		INIT_CRC32C(crc);
		COMP_CRC32C(crc, &entry->uid, sizeof(uint64));
		for (uint32 done = 0; done < value.length;)
		{
			uint32		len = Min(value.length - done, LSM_CHECK_PIECE);

			CHECK_FOR_INTERRUPTS();
			if (lsm_entry_has_numbers(entry))
				lsm_coldvalue_read(check->rel, check->table, entry, &value, done, len,
								   LSM_READER_COMPACTION, piece);
			else if (!lsm_segpages_read(check->rel, entry, value.offset + done, len, piece))
				lsm_segment_corrupt_entry(check->rel, entry,
										  "a page of a large value is not the segment's");
			COMP_CRC32C(crc, piece, len);
			done += len;
		}
		FIN_CRC32C(crc);
		if (!EQ_CRC32C(crc, value.crc))
			lsm_check_problem(check, "large value at " UINT64_FORMAT " of segment " UINT64_FORMAT " has a wrong checksum",
							  value.offset, entry->segment_id);
		offset = value.offset + 1;
	}
	pfree(piece);
}

/* Each pointer of a row to a large value leads to one of this segment. */
static void
lsm_check_pointers(LsmCheck *check, const LsmManifestEntry *entry, LsmBlock *block, int row,
				   const LsmRowHead *head)
{
	for (int i = 0; i < Min(head->natts, lsm_block_natts(block)); i++)
	{
		bool		isnull;
		Datum		datum;
		LsmPointer	pointer;
		LsmSegmentValue value;

		if (lsm_segment_column_length(lsm_check_reader(check, entry), i + 1) != -1)
			continue;
		datum = lsm_block_value(block, row, i + 1, &isnull);
		if (isnull || !VARATT_IS_EXTERNAL(DatumGetPointer(datum)))
			continue;
		lsm_pointer_get(DatumGetPointer(datum), &pointer);
		if (!lsm_segment_find_value(lsm_check_reader(check, entry), lsm_pointer_offset(&pointer),
									&value) ||
			value.offset != lsm_pointer_offset(&pointer) ||
			value.length != VARATT_EXTERNAL_GET_EXTSIZE(pointer))
			lsm_check_problem(check, "column %d of row (%u,%u) of segment " UINT64_FORMAT " points to a large value that is not there",
							  i + 1, LSM_TID_LB(head->root), LSM_TID_OFFSET(head->root),
							  entry->segment_id);
	}
}

/* The local list of a cold segment's roots, to be compared with those of its blocks. */
static LsmTid *
lsm_check_roots(LsmCheck *check, const LsmManifestEntry *entry)
{
	LsmTid	   *roots;
	uint64		n;

	if (!lsm_entry_is_cold(entry))
		return NULL;
	do
		(void) lsm_view_get(check->rel, check->table);
	while ((roots = lsm_reader_roots(check->rel, check->table, entry, &n)) == NULL);
	if (n == entry->rows)
		return roots;
	lsm_check_problem(check, "segment " UINT64_FORMAT " has a list of " UINT64_FORMAT " roots, the manifest says " UINT64_FORMAT " rows",
					  entry->segment_id, n, entry->rows);
	pfree(roots);
	return NULL;
}

/* FORWARD entries of a segment, in the order of their version TIDs. */
typedef struct LsmCheckForwards
{
	uint64		n;
	LsmForward *forwards;
	bool	   *met;			/* the row that each leads to has the version */
} LsmCheckForwards;

static int
lsm_check_forward_cmp(const void *a, const void *b)
{
	LsmTid		x = ((const LsmForward *) a)->vtid;
	LsmTid		y = ((const LsmForward *) b)->vtid;

	return x < y ? -1 : x > y;
}

static void
lsm_check_forwards_begin(LsmCheck *check, const LsmManifestEntry *entry,
						 LsmCheckForwards *forwards)
{
	forwards->forwards = lsm_segment_read_forwards(lsm_check_reader(check, entry),
												   &forwards->n);
	forwards->met = MemoryContextAllocHuge(CurrentMemoryContext, Max(forwards->n, 1));
	memset(forwards->met, 0, forwards->n);
	if (forwards->n != entry->forwards)
		lsm_check_problem(check, "segment " UINT64_FORMAT " has " UINT64_FORMAT " forward entries, the manifest says " UINT64_FORMAT,
						  entry->segment_id, forwards->n, entry->forwards);
}

/*
 * A version of the segment.  (To look for each entry's version would be to go through all
 * versions of its row each time, of which there may be very many.)
 */
static void
lsm_check_forwards_meet(LsmCheckForwards *forwards, const LsmRowHead *head)
{
	LsmForward	key = {.vtid = head->vtid};
	LsmForward *forward;

	if (forwards->n == 0 || !LSM_TID_IS_VERSION(head->vtid))
		return;
	forward = bsearch(&key, forwards->forwards, forwards->n, sizeof(LsmForward),
					  lsm_check_forward_cmp);
	if (forward != NULL && forward->root == head->root)
		forwards->met[forward - forwards->forwards] = true;
}

/* Each entry leads to a row of this segment that has the version. */
static void
lsm_check_forwards_end(LsmCheck *check, const LsmManifestEntry *entry,
					   LsmCheckForwards *forwards)
{
	for (uint64 i = 0; i < forwards->n; i++)
	{
		LsmTid		vtid = forwards->forwards[i].vtid;

		if (!forwards->met[i])
			lsm_check_problem(check, "forward entry (%u,%u) of segment " UINT64_FORMAT " leads to no version",
							  LSM_TID_LB(vtid), LSM_TID_OFFSET(vtid), entry->segment_id);
	}
	if (forwards->n > 0)
		pfree(forwards->forwards);
	pfree(forwards->met);
}

/* Is that an xid, of those before the next one, or none? */
static inline bool
lsm_check_xid(uint64 xid, uint64 next_xid)
{
	return xid == 0 || (TransactionIdIsNormal((TransactionId) xid) && xid < next_xid);
}

static void
lsm_check_segment(LsmCheck *check, void *arg)
{
	LsmManifestEntry *entry = arg;
	LsmSegmentReader *reader = lsm_check_reader(check, entry);
	uint32		nblocks = lsm_segment_reader_blocks(reader);
	LsmTid		begin = entry->first_tid;
	LsmTid		previous = LSM_INVALID_TID;
	uint64		rows = 0;
	uint64		versions = 0;
	LsmCheckForwards forwards;
	LsmTid	   *roots = lsm_check_roots(check, entry);
	uint64		next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	Buffer		vm = InvalidBuffer;

	if (nblocks != entry->blocks)
		lsm_check_problem(check, "segment " UINT64_FORMAT " has %u blocks, the manifest says %u",
						  entry->segment_id, nblocks, entry->blocks);
	if (!lsm_segment_bounds_agree(reader))
		lsm_check_problem(check, "segment " UINT64_FORMAT " has bounds that are not those of its zones",
						  entry->segment_id);
	if (!lsm_segment_slices_agree(reader))
		lsm_check_problem(check, "segment " UINT64_FORMAT " has slices that are not those of its block index",
						  entry->segment_id);
	lsm_check_forwards_begin(check, entry, &forwards);
	for (uint32 blockno = 0; blockno < nblocks; blockno++)
	{
		LsmCachedBlock *cached;
		LsmBlock   *block;
		LsmTid		first;
		LsmTid		last;
		uint32		nrows;
		uint64		offset;
		uint32		stored;

		CHECK_FOR_INTERRUPTS();
		reader = lsm_check_reader(check, entry);
		lsm_segment_block_info(reader, blockno, &first, &last, &nrows, &offset, &stored);
		cached = lsm_check_block(check, entry, blockno);
		block = cached->block;
		if ((uint32) lsm_block_rows(block) != nrows || nrows == 0 ||
			lsm_block_root(block, 0) != first || lsm_block_root(block, nrows - 1) != last)
			lsm_check_problem(check, "block %u of segment " UINT64_FORMAT " is not what the block index says",
							  blockno, entry->segment_id);
		for (int row = 0; row < lsm_block_rows(block); row++)
		{
			LsmTid		root = lsm_block_root(block, row);
			LsmRowHead	head;

			lsm_block_head(block, row, &head);
			if (root < previous || (root == previous && entry->kind != LSM_SEGKIND_INCREMENT))
				lsm_check_problem(check, "row (%u,%u) in block %u of segment " UINT64_FORMAT " is out of order",
								  LSM_TID_LB(root), LSM_TID_OFFSET(root), blockno,
								  entry->segment_id);
			if (entry->kind == LSM_SEGKIND_INCREMENT &&
				!lsm_segment_may_contain(reader, root))
				lsm_check_problem(check, "row (%u,%u) of segment " UINT64_FORMAT " is not in its filter",
								  LSM_TID_LB(root), LSM_TID_OFFSET(root), entry->segment_id);
			if (!lsm_check_xid(head.xmin, next_xid))
				lsm_check_problem(check, "row (%u,%u) of segment " UINT64_FORMAT " has the xid " UINT64_FORMAT ", which nobody has had",
								  LSM_TID_LB(root), LSM_TID_OFFSET(root), entry->segment_id,
								  head.xmin);
			if ((entry->kind == LSM_SEGKIND_INCREMENT) ==
				(LSM_REC_KIND(head.info) == LSM_REC_INSERT))
				lsm_check_problem(check, "row (%u,%u) of segment " UINT64_FORMAT " has a record of kind %d",
								  LSM_TID_LB(root), LSM_TID_OFFSET(root), entry->segment_id,
								  LSM_REC_KIND(head.info));
			lsm_check_not_visible(check, root, LSM_REC_KIND(head.info), &vm);
			if (head.info & LSM_REC_LARGE)
				lsm_check_pointers(check, entry, block, row, &head);
			lsm_check_forwards_meet(&forwards, &head);
			if (roots != NULL && versions < entry->rows && roots[versions] != root)
				lsm_check_problem(check, "row (%u,%u) of segment " UINT64_FORMAT " is not in its place in the list of roots",
								  LSM_TID_LB(root), LSM_TID_OFFSET(root), entry->segment_id);
			if (versions == 0)
				begin = root;
			if (root != previous)
				rows++;
			versions++;
			previous = root;
		}
		lsm_block_unpin_now(cached);
	}
	if (rows != entry->rows || versions != entry->versions)
		lsm_check_problem(check, "segment " UINT64_FORMAT " has " UINT64_FORMAT " rows and "
						  UINT64_FORMAT " versions, the manifest says " UINT64_FORMAT " and " UINT64_FORMAT,
						  entry->segment_id, rows, versions, entry->rows, entry->versions);
	if (begin != entry->first_tid)
		lsm_check_problem(check, "segment " UINT64_FORMAT " does not begin where the manifest says",
						  entry->segment_id);
	if (rows > 0 && previous != entry->last_tid)
		lsm_check_problem(check, "segment " UINT64_FORMAT " does not end where the manifest says",
						  entry->segment_id);

	if (BufferIsValid(vm))
		ReleaseBuffer(vm);
	if (roots != NULL)
		pfree(roots);
	lsm_check_values(check, entry);
	lsm_check_forwards_end(check, entry, &forwards);
}

static void
lsm_check_dead_list(LsmCheck *check, void *arg)
{
	LsmManifestEntry *entry = arg;
	uint64		n;
	LsmTid	   *roots = lsm_segment_read_dead(lsm_check_reader(check, entry), &n);

	if (n != entry->dead)
		lsm_check_problem(check, "dead list " UINT64_FORMAT " has " UINT64_FORMAT " roots, the manifest says " UINT64_FORMAT,
						  entry->segment_id, n, entry->dead);
	if (check->dead == NULL)
		check->dead = MemoryContextAllocHuge(CurrentMemoryContext, (n + 1) * sizeof(LsmTid));
	else
		check->dead = repalloc_huge(check->dead, (check->ndead + n + 1) * sizeof(LsmTid));
	if (n > 0 && (roots[0] != entry->first_tid || roots[n - 1] != entry->last_tid))
		lsm_check_problem(check, "dead list " UINT64_FORMAT " does not have the roots that the manifest says",
						  entry->segment_id);
	memcpy(check->dead + check->ndead, roots, n * sizeof(LsmTid));
	check->ndead += n;
	if (roots != NULL)
		pfree(roots);
}

/* LBs that new rows may have: nothing has roots of them (I13, I14). */
static void
lsm_check_free_lbs(LsmCheck *check)
{
	LsmMeta    *meta = &check->meta;
	Buffer		vm = InvalidBuffer;

	for (uint32 i = 0; i < meta->nfree_lbs; i++)
	{
		LsmFreeLbs *lbs = &meta->free_lbs[i];
		BlockNumber last = lbs->lb + lbs->nlbs - 1;

		if (lbs->nlbs == 0 || lbs->lb < meta->first_root_lb || last >= meta->next_root_lb)
			lsm_check_problem(check, "free logical blocks %u to %u are not among those that were used",
							  lbs->lb, last);
		for (int j = 0; j < check->nentries; j++)
		{
			LsmManifestEntry *entry = &check->entries[j];

			if (entry->type == LSM_ENTRY_SEGMENT &&
				(entry->kind == LSM_SEGKIND_INSERT || entry->kind == LSM_SEGKIND_BASELINE) &&
				LSM_TID_LB(entry->first_tid) <= last && LSM_TID_LB(entry->last_tid) >= lbs->lb)
				lsm_check_problem(check, "segment " UINT64_FORMAT " spans free logical blocks from %u to %u",
								  entry->segment_id, lbs->lb, last);
		}
		for (uint32 j = 0; j < meta->nranges; j++)
			if (meta->ranges[j].kind == LSM_RANGE_ROOT && meta->ranges[j].lb <= last &&
				lsm_range_end_lb(&meta->ranges[j]) > lbs->lb)
				lsm_check_problem(check, "a range of the row log has free logical blocks from %u to %u",
								  lbs->lb, last);
		for (uint64 j = 0; j < check->ndead; j++)
			if (LSM_TID_LB(check->dead[j]) >= lbs->lb && LSM_TID_LB(check->dead[j]) <= last)
				lsm_check_problem(check, "dead root (%u,%u) is in free logical blocks",
								  LSM_TID_LB(check->dead[j]), LSM_TID_OFFSET(check->dead[j]));
		for (BlockNumber lb = lbs->lb; lb <= last; lb++)
		{
			CHECK_FOR_INTERRUPTS();
			if (!VM_ALL_VISIBLE(check->rel, lb, &vm))
				continue;
			lsm_check_problem(check, "the visibility map has the bit of logical block %u, which is free",
							  lb);
			break;
		}
	}
	if (BufferIsValid(vm))
		ReleaseBuffer(vm);
}

static int
lsm_check_base_cmp(const void *a, const void *b)
{
	LsmTid		x = ((const LsmManifestEntry *) a)->first_tid;
	LsmTid		y = ((const LsmManifestEntry *) b)->first_tid;

	return x < y ? -1 : x > y;
}

/* Numbers of large values in a store: no two entries have the same, nor has the file. */
static void
lsm_check_numbers(LsmCheck *check)
{
	LsmView    *view = lsm_view_get(check->rel, check->table);
	BlockNumber end = check->meta.npages;

	for (int i = 0; i < view->nnumbered; i++)
	{
		const LsmManifestEntry *entry = view->numbered[i];
		LsmExtent	run = lsm_entry_numbers(entry);

		if (run.start < end || run.npages != lsm_object_pages(lsm_entry_object(entry)) ||
			run.npages > InvalidBlockNumber - run.start)
			lsm_check_problem(check, "segment " UINT64_FORMAT " has the numbers %u to %u for large values, which are not its own",
							  entry->segment_id, run.start, run.start + run.npages - 1);
		end = run.start + run.npages;
	}
}

static bool
lsm_check_segments(LsmCheck *check)
{
	LsmManifestEntry *bases = palloc(Max(check->nentries, 1) * sizeof(LsmManifestEntry));
	int			nbases = 0;
	bool		good = true;

	for (int i = 0; i < check->nentries; i++)
	{
		LsmManifestEntry *entry = &check->entries[i];

		if (entry->type != LSM_ENTRY_SEGMENT)
			continue;
		if (entry->kind == LSM_SEGKIND_DEAD)
			good &= lsm_check_protected(check, lsm_check_dead_list, entry);
		else
			good &= lsm_check_protected(check, lsm_check_segment, entry);
		if (entry->kind == LSM_SEGKIND_INSERT || entry->kind == LSM_SEGKIND_BASELINE)
			bases[nbases++] = *entry;
	}
	qsort(bases, nbases, sizeof(LsmManifestEntry), lsm_check_base_cmp);
	for (int i = 0; i < nbases; i++)
		if (bases[i].rows == 0)
			lsm_check_problem(check, "segment " UINT64_FORMAT " has no rows", bases[i].segment_id);
	for (int i = 1; i < nbases; i++)
		if (bases[i].first_tid <= bases[i - 1].last_tid)
			lsm_check_problem(check, "segments " UINT64_FORMAT " and " UINT64_FORMAT " overlap",
							  bases[i - 1].segment_id, bases[i].segment_id);
	for (int i = 0; i < nbases; i++)
		for (uint32 j = 0; j < check->meta.nranges; j++)
			if (check->meta.ranges[j].kind == LSM_RANGE_ROOT &&
				LSM_TID_LB(bases[i].first_tid) < lsm_range_end_lb(&check->meta.ranges[j]) &&
				LSM_TID_LB(bases[i].last_tid) >= check->meta.ranges[j].lb)
				lsm_check_problem(check, "segment " UINT64_FORMAT " spans a range of the row log",
								  bases[i].segment_id);
	lsm_check_free_lbs(check);
	lsm_check_numbers(check);
	if (check->ndead > 1)
		qsort(check->dead, check->ndead, sizeof(LsmTid), lsm_check_tid_cmp);
	pfree(bases);
	return good;
}

/* ---- the age order of increments (I11) ---- */

/* A position in an increment, and what it has of the row at hand. */
typedef struct LsmOrderCursor
{
	LsmManifestEntry *entry;
	uint32		blockno;
	LsmCachedBlock *cached;		/* NULL at the end */
	int			row;
	LsmTid		root;			/* until it is opened, the entry's first */
	bool		opened;
	bool		reported;		/* one row of it is enough */
} LsmOrderCursor;

/* Increments whose ends the check has not come to, as in LsmCompact. */
typedef struct LsmOrder
{
	LsmCheck   *check;
	LsmOrderCursor *cursors;	/* newest first */
	binaryheap *heap;
} LsmOrder;

static int
lsm_order_cmp(Datum a, Datum b, void *arg)
{
	const LsmOrderCursor *x = (const LsmOrderCursor *) DatumGetPointer(a);
	const LsmOrderCursor *y = (const LsmOrderCursor *) DatumGetPointer(b);

	if (x->root != y->root)
		return x->root < y->root ? 1 : -1;
	return x < y ? 1 : x > y ? -1 : 0;
}

static inline LsmOrderCursor *
lsm_order_first(LsmOrder *order)
{
	return (LsmOrderCursor *) DatumGetPointer(binaryheap_first(order->heap));
}

/* Go to the row at cursor->row, or the first one of the next block. */
static void
lsm_order_settle(LsmOrder *order, LsmOrderCursor *cursor)
{
	while (cursor->cached == NULL || cursor->row >= lsm_block_rows(cursor->cached->block))
	{
		if (cursor->cached != NULL)
		{
			lsm_block_unpin_now(cursor->cached);
			cursor->cached = NULL;
			cursor->blockno++;
		}
		if (cursor->blockno >= cursor->entry->blocks)
			return;
		CHECK_FOR_INTERRUPTS();
		cursor->cached = lsm_check_block(order->check, cursor->entry, cursor->blockno);
		cursor->row = 0;
	}
	cursor->root = lsm_block_root(cursor->cached->block, cursor->row);
}

/* Put the first cursor where its root belongs, or drop it at its end. */
static void
lsm_order_moved(LsmOrder *order, LsmOrderCursor *cursor)
{
	if (cursor->cached != NULL)
		binaryheap_replace_first(order->heap, PointerGetDatum(cursor));
	else
		(void) binaryheap_remove_first(order->heap);
}

/* How far back in the ring an LB is. */
static uint32
lsm_order_age(const LsmMeta *meta, BlockNumber lb)
{
	return ((uint64) meta->next_version_lb + meta->ring_lbs - 1 - lb) % meta->ring_lbs;
}

/* The entry tells in which sectors of the ring the increment has version TIDs (lsm_ring.c). */
static void
lsm_order_check_bounds(LsmCheck *check, LsmOrderCursor *cursor, LsmTid vtid)
{
	if (cursor->reported ||
		(vtid >= cursor->entry->first_vtid && vtid <= cursor->entry->last_vtid &&
		 lsm_ring_entry_has(&check->meta, cursor->entry,
							lsm_ring_sector(&check->meta, LSM_TID_LB(vtid)))))
		return;
	lsm_check_problem(check, "segment " UINT64_FORMAT " has version (%u,%u), which its manifest entry does not allow for",
					  cursor->entry->segment_id, LSM_TID_LB(vtid), LSM_TID_OFFSET(vtid));
	cursor->reported = true;
}

/*
 * Read what an increment has of its row, and go past it; false: no record that tells
 * its age.  UPDATE records tell it, also frozen ones: before the ring comes to an LB again,
 * it is none of theirs (lsm_ring.c).
 */
static bool
lsm_order_read(LsmOrder *order, LsmOrderCursor *cursor, uint32 *newest, uint32 *oldest)
{
	LsmTid		root = cursor->root;

	*newest = PG_UINT32_MAX;
	*oldest = 0;
	while (cursor->cached != NULL && cursor->root == root)
	{
		LsmRowHead	head;

		lsm_block_head(cursor->cached->block, cursor->row, &head);
		if (LSM_REC_KIND(head.info) == LSM_REC_UPDATE && LSM_TID_IS_VERSION(head.vtid))
		{
			uint32		age = lsm_order_age(&order->check->meta, LSM_TID_LB(head.vtid));

			lsm_order_check_bounds(order->check, cursor, head.vtid);
			*newest = Min(*newest, age);
			*oldest = Max(*oldest, age);
		}
		cursor->row++;
		lsm_order_settle(order, cursor);
	}
	return *newest <= *oldest;
}

/*
 * What one increment has of a row is all newer than what the next one has: of one
 * generation they have nothing, and LBs of the ring are given out in the order of
 * generations.
 */
static void
lsm_order_check_row(LsmOrder *order)
{
	LsmTid		root = lsm_order_first(order)->root;
	LsmOrderCursor *above = NULL;
	uint32		above_oldest = 0;

	while (!binaryheap_empty(order->heap) && lsm_order_first(order)->root == root)
	{
		LsmOrderCursor *cursor = lsm_order_first(order);
		uint32		newest;
		uint32		oldest;
		bool		tells;

		if (!cursor->opened)
		{
			cursor->opened = true;
			lsm_order_settle(order, cursor);
			lsm_order_moved(order, cursor);
			continue;
		}
		tells = lsm_order_read(order, cursor, &newest, &oldest);
		lsm_order_moved(order, cursor);
		if (!tells)
			continue;
		if (above != NULL && !cursor->reported &&
			(newest <= above_oldest || cursor->entry->gen_hi == above->entry->gen_hi))
		{
			lsm_check_problem(order->check, "row (%u,%u) has records in segment " UINT64_FORMAT " that are not older than those in segment " UINT64_FORMAT ", which comes before it",
							  LSM_TID_LB(root), LSM_TID_OFFSET(root),
							  cursor->entry->segment_id, above->entry->segment_id);
			cursor->reported = true;
		}
		above = cursor;
		above_oldest = oldest;
	}
}

static int
lsm_order_cmp_age(const void *a, const void *b)
{
	return lsm_entry_cmp_age(((const LsmOrderCursor *) a)->entry,
							 ((const LsmOrderCursor *) b)->entry);
}

static void
lsm_check_order(LsmCheck *check, void *arg)
{
	LsmOrder	order = {.check = check};
	int			n = 0;

	order.cursors = palloc0(Max(check->nentries, 1) * sizeof(LsmOrderCursor));
	for (int i = 0; i < check->nentries; i++)
	{
		LsmManifestEntry *entry = &check->entries[i];

		if (entry->type != LSM_ENTRY_SEGMENT || entry->kind != LSM_SEGKIND_INCREMENT)
			continue;
		order.cursors[n].entry = entry;
		order.cursors[n++].root = entry->first_tid;
	}
	qsort(order.cursors, n, sizeof(LsmOrderCursor), lsm_order_cmp_age);
	order.heap = binaryheap_allocate(Max(n, 1), lsm_order_cmp, NULL);
	for (int i = 0; i < n; i++)
		binaryheap_add_unordered(order.heap, PointerGetDatum(&order.cursors[i]));
	binaryheap_build(order.heap);
	while (!binaryheap_empty(order.heap))
		lsm_order_check_row(&order);
	binaryheap_free(order.heap);
	pfree(order.cursors);
}

/* ---- indexes ---- */

/* Has a row any record at all? */
static bool
lsm_check_row_exists(LsmCheck *check, LsmTid root)
{
	LsmVersionIter iter;
	bool		found;

	do
	{
		lsm_versions_begin(&iter, check->rel, check->table, root);
		found = false;
		while (!found)
		{
			LsmVersion *version = lsm_versions_next(&iter);

			if (version == NULL)
				break;
			found = version->bottom;
		}
		lsm_versions_end(&iter);
	} while (iter.stale);
	return found;
}

/* All TIDs of an index that can be scanned without keys, sorted. */
static LsmTid *
lsm_check_index_tids(LsmCheck *check, Relation index, uint64 *n)
{
	uint64		max = 1024;
	LsmTid	   *tids = palloc(max * sizeof(LsmTid));
	IndexScanDesc scan = lsm_compat_index_beginscan(check->rel, index, SnapshotAny, 0);
	ItemPointer tid;

	*n = 0;
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (*n >= max)
		{
			max *= 2;
			tids = repalloc_huge(tids, max * sizeof(LsmTid));
		}
		tids[(*n)++] = lsm_tid_from_pointer(tid);
	}
	index_endscan(scan);
	qsort(tids, *n, sizeof(LsmTid), lsm_check_tid_cmp);
	return tids;
}

/*
 * May a root be of a load that did not live to see its rows in WAL?  The next flush
 * puts it on a dead list.
 */
static bool
lsm_check_is_lost(LsmCheck *check, LsmTid root)
{
	for (uint32 i = 0; i < check->meta.nranges; i++)
	{
		LsmRowRange *range = &check->meta.ranges[i];

		if (range->kind == LSM_RANGE_ROOT && lsm_rowlog_lost(range) &&
			LSM_TID_LB(root) >= range->lb && LSM_TID_LB(root) < lsm_range_end_lb(range))
			return true;
	}
	return false;
}

/* Each row that the snapshot sees is in the index; each entry leads to a row. */
static void
lsm_check_index(LsmCheck *check, void *arg)
{
	Relation	index = arg;
	IndexInfo  *info = BuildIndexInfo(index);
	EState	   *estate = CreateExecutorState();
	ExprContext *econtext = GetPerTupleExprContext(estate);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(check->rel), &LsmSlotOps);
	ExprState  *predicate = ExecPrepareQual(info->ii_Predicate, estate);
	uint64		n;
	LsmTid	   *tids = lsm_check_index_tids(check, index, &n);
	TableScanDesc scan = table_beginscan_strat(check->rel, check->snapshot, 0, NULL, true, false);
	LsmScanRow	row;

	econtext->ecxt_scantuple = slot;
	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0 && tids[i] == tids[i - 1])
			lsm_check_problem(check, "index \"%s\" has two entries for row (%u,%u)",
							  RelationGetRelationName(index), LSM_TID_LB(tids[i]),
							  LSM_TID_OFFSET(tids[i]));
		if (!lsm_check_row_exists(check, tids[i]) &&
			!lsm_check_has_tid(check->dead, check->ndead, tids[i]) &&
			!lsm_check_is_lost(check, tids[i]))
			lsm_check_problem(check, "an entry of index \"%s\" leads to row (%u,%u), which does not exist",
							  RelationGetRelationName(index), LSM_TID_LB(tids[i]),
							  LSM_TID_OFFSET(tids[i]));
	}
	while (lsm_scan_next_row((LsmScan) scan, ForwardScanDirection, &row))
	{
		CHECK_FOR_INTERRUPTS();
		if (!lsm_row_fetch(check->rel, check->table, row.root, check->snapshot, slot, NULL))
			continue;
		ResetExprContext(econtext);
		if (predicate != NULL && !ExecQual(predicate, econtext))
			continue;
		if (!lsm_check_has_tid(tids, n, row.root))
			lsm_check_problem(check, "row (%u,%u) is not in index \"%s\"",
							  LSM_TID_LB(row.root), LSM_TID_OFFSET(row.root),
							  RelationGetRelationName(index));
	}
	table_endscan(scan);
	pfree(tids);
	ExecDropSingleTupleTableSlot(slot);
	FreeExecutorState(estate);
}

/* Their predicates may be anything that the table's owner has made: they run with his rights. */
static void
lsm_check_indexes(LsmCheck *check)
{
	List	   *indexes = RelationGetIndexList(check->rel);
	ListCell   *lc;
	Oid			save_userid;
	int			save_sec_context;
	int			save_nestlevel = NewGUCNestLevel();

	GetUserIdAndSecContext(&save_userid, &save_sec_context);
	SetUserIdAndSecContext(check->rel->rd_rel->relowner,
						   save_sec_context | SECURITY_RESTRICTED_OPERATION);
	lsm_compat_restrict_search_path();
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		/*
		 * of the access methods, only btree scans its whole index without
		 * keys
		 */
		if (index->rd_index->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
			!index->rd_index->indcheckxmin)
			(void) lsm_check_protected(check, lsm_check_index, index);
		index_close(index, AccessShareLock);
	}
	AtEOXact_GUC(false, save_nestlevel);
	SetUserIdAndSecContext(save_userid, save_sec_context);
}

/* A large value can be read to its last byte. */
static void
lsm_check_large(LsmCheck *check, char *datum, char *piece)
{
	LsmPointer	pointer;
	BlockNumber block;
	uint32		size;

	lsm_pointer_get(datum, &pointer);
	block = lsm_pointer_block(pointer.va_valueid, lsm_value_salt(check->rel));
	size = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	for (uint32 done = 0; done < size; done += Min(size - done, LSM_CHECK_PIECE))
		lsm_value_read(check->rel, check->table, block, 0, size, done,
					   Min(size - done, LSM_CHECK_PIECE), LSM_READER_COMPACTION, piece);
}

/* Every row that can be seen can be read to its last column. */
static void
lsm_check_rows(LsmCheck *check, void *arg)
{
	TupleDesc	tupdesc = RelationGetDescr(check->rel);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(tupdesc, &LsmSlotOps);
	TableScanDesc scan = table_beginscan(check->rel, check->snapshot, 0, NULL);
	char	   *piece = palloc(LSM_CHECK_PIECE);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		for (int i = 0; i < tupdesc->natts; i++)
			if (!slot->tts_isnull[i] && TupleDescAttr(tupdesc, i)->attlen == -1 &&
				VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(slot->tts_values[i])))
				lsm_check_large(check, DatumGetPointer(slot->tts_values[i]), piece);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	pfree(piece);
}

/* Can metapage and manifest be read? */
static void
lsm_check_manifest(LsmCheck *check, void *arg)
{
	(void) lsm_view_get(check->rel, check->table);
}

void
lsm_check(Relation rel, LsmCheckReport report, void *arg)
{
	LsmCheck	check = {0};
	LsmView    *view;
	bool		standby = RecoveryInProgress();
	bool		good;

	check.rel = rel;
	check.table = lsm_table_open(rel);
	check.report = report;
	check.arg = arg;
	(void) lsm_floor();

	/* without a manifest there is nothing to go on with */
	if (!lsm_check_protected(&check, lsm_check_manifest, NULL))
		return;

	/* on a standby nothing can be kept waiting: there only what stands still */
	if (!standby)
	{
		lsm_job_lock(rel, LSM_OWNER_PUNCH);
		for (int i = 0; i < LSM_MAJOR_SLOTS; i++)
			lsm_job_lock(rel, lsm_major_owner(i));
		lsm_job_lock(rel, LSM_OWNER_MINOR);
		lsm_job_lock(rel, LSM_OWNER_FLUSH);
	}
	check.snapshot = RegisterSnapshot(GetLatestSnapshot());
	view = lsm_view_get(rel, check.table);
	if (view->meta.incarnation != 0)
	{
		memcpy(&check.meta, &view->meta, sizeof(LsmMeta));
		check.nentries = view->nentries;
		check.entries = MemoryContextAllocHuge(CurrentMemoryContext,
											   Max(view->nentries, 1) * sizeof(LsmManifestEntry));
		memcpy(check.entries, view->entries, view->nentries * sizeof(LsmManifestEntry));

		lsm_check_pages(&check, NULL);
		good = lsm_check_protected(&check, lsm_check_rowlog, NULL);
		good &= lsm_check_segments(&check);
		if (good)
			good &= lsm_check_protected(&check, lsm_check_order, NULL);
		if (good)
			good &= lsm_check_protected(&check, lsm_check_rows, NULL);
		if (good)
			lsm_check_indexes(&check);
	}
	UnregisterSnapshot(check.snapshot);
	if (!standby)
	{
		lsm_job_unlock(rel, LSM_OWNER_FLUSH);
		lsm_job_unlock(rel, LSM_OWNER_MINOR);
		for (int i = LSM_MAJOR_SLOTS; i > 0; i--)
			lsm_job_unlock(rel, lsm_major_owner(i - 1));
		lsm_job_unlock(rel, LSM_OWNER_PUNCH);

		/* workers have come in vain meanwhile */
		lsm_job_ask(rel);
	}
}
