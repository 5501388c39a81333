/*-------------------------------------------------------------------------
 *
 * lsm_rowblock.c
 *	  Blocks of base segments as records, in shared memory, for single rows.
 *
 * A block holds its rows column by column.  To get one row out of it takes a place in memory
 * for each column, and before that what the session knows of the block: where its chunks are
 * and how they are encoded.  Where rows are wanted from all over a table that is larger than
 * the processor's caches, nearly each of these places is a wait, and each of many sessions
 * needs memory to know every block.  So a block that is read row by row is kept in the block
 * cache as records, as the row log has them: the search of a row is one in the hash table of
 * blocks and one in the block's own, its columns follow each other, and no session keeps
 * anything.  (OceanBase and others keep a cache of rows beside that of blocks; to keep whole
 * blocks needs no entry for each row, and neighbours come along.)
 *
 * Where a row has been found, or foreseen, is remembered for a few rows (LsmRowHint): which
 * row of which block it is never changes, so that whoever comes to it next need not search.
 * So it is for a few LBs: most rows of one are in one block, where the row behind the one that
 * was found last is tried without any search.
 *
 * Blocks whose rows have large values, or are long, are left as they are: what is asked of
 * those is mostly a small part.
 *
 * A row block has only what its block has, so it is right as long as the block is: for ever
 * (I16).  Columns that the relation has beyond those of a record are none of its business,
 * as they may be rolled back.  Nor does a transaction make one that may have dropped a column,
 * or changed one, and may yet be rolled back itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "lsm_cold.h"
#include "lsm_rowblock.h"
#include "lsm_sharedcache.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

/* Records that are longer than this on average are not worth being copied for a column or two. */
#define LSM_ROWBLOCK_RECORD		2048

/* After so many rows that were read of it a block that there was no room for is tried again. */
#define LSM_ROWBLOCK_REFUSED	64

/* A block of more rows is left as it is: their numbers have 16 bits. */
#define LSM_ROWBLOCK_ROWS		32768

/* Of a record, so many lines of the processor's caches are prefetched at most. */
#define LSM_ROWBLOCK_LINES		4

/* Slots of a block's hash table: two thirds of them are used at most, a third at least. */
#define LSM_ROWBLOCK_SLOTS(rows)	pg_nextpower2_32((rows) + (rows) / 2 + 1)

/* Places where rows are remembered, by hash of their roots; and by LB.  Powers of two. */
#define LSM_ROW_HINTS			128
#define LSM_ROW_LAST			16

/* A row: how far its root is from that of the block, and where its record begins. */
typedef struct LsmRowPlace
{
	uint32		distance;
	uint32		record;
} LsmRowPlace;

/*
 * Then come the places of the rows and that of the end, the slots of a hash table of distances
 * (the number of a row, from 1; 0: empty), searched one after the other, and the records.
 */
typedef struct LsmRowBlock
{
	LsmTid		first_root;
	uint32		npages;			/* what reading the block counts for */
	uint16		rows;
	uint16		slots;			/* less one */
} LsmRowBlock;

/* Which row a root is, of which block, and where that was in the cache. */
typedef struct LsmRowHint
{
	LsmTid		root;
	LsmTable   *table;			/* to be compared only */
	uint64		uid;
	uint32		blockno;
	uint32		row;
	LsmCachePlace place;
} LsmRowHint;

static LsmRowHint lsm_row_hints[LSM_ROW_HINTS];

/* The row found last, or foreseen, by LB: index scans come back to the one behind it, or near it. */
static LsmRowHint lsm_row_last[LSM_ROW_LAST];

static inline LsmRowHint *
lsm_row_hint(LsmTid root)
{
	return &lsm_row_hints[murmurhash32((uint32) (root ^ root >> 16)) % LSM_ROW_HINTS];
}

static inline LsmRowHint *
lsm_row_last_of(LsmTid root)
{
	return &lsm_row_last[LSM_TID_LB(root) % LSM_ROW_LAST];
}

static inline const LsmRowPlace *
lsm_rowblock_places(const LsmRowBlock *block)
{
	return (const LsmRowPlace *) (block + 1);
}

static inline Size
lsm_rowblock_slots_at(uint32 rows)
{
	return sizeof(LsmRowBlock) + (rows + 1) * sizeof(LsmRowPlace);
}

static inline uint32
lsm_rowblock_slot(uint32 distance, uint32 mask)
{
	return murmurhash32(distance) & mask;
}

/*
 * The head of a row block that seems to lie there, and how far a root is from its first one;
 * false: it does not have the root, or is none.
 *
 * Race: what is read of a row block may be anything, at any time (lsm_sharedcache_hold_rows()),
 * so nothing is believed that leads out of it, or out of the caller's page.
 */
static inline bool
lsm_rowblock_head(const LsmRowBlock *block, Size len, LsmTid root, LsmRowBlock *head,
				  uint32 *distance)
{
	if (len < sizeof(*head))
		return false;
	memcpy(head, block, sizeof(*head));
	pg_compiler_barrier();
	if (lsm_rowblock_slots_at(head->rows) + (head->slots + 1) * sizeof(uint16) > len ||
		root < head->first_root || root - head->first_root > PG_UINT32_MAX)
		return false;
	*distance = (uint32) (root - head->first_root);
	return true;
}

/* Does the block have the root as that row? */
static inline bool
lsm_rowblock_is(const LsmRowBlock *block, const LsmRowBlock *head, uint32 distance, uint32 row)
{
	return row < head->rows && lsm_rowblock_places(block)[row].distance == distance;
}

/* Which row has the root at that distance?  -1: none. */
static int
lsm_rowblock_find(const LsmRowBlock *block, const LsmRowBlock *head, uint32 distance)
{
	const volatile uint16 *slots = (const uint16 *) ((const char *) block +
													 lsm_rowblock_slots_at(head->rows));
	uint32		at = lsm_rowblock_slot(distance, head->slots);

	for (int i = 0; i <= head->slots; i++)
	{
		uint16		slot = slots[at];

		if (slot == 0)
			break;
		if (lsm_rowblock_is(block, head, distance, slot - 1))
			return slot - 1;
		at = (at + 1) & head->slots;
	}
	return -1;
}

/* Copy the record of a row that the block has; its length, 0: it seems to be none. */
static Size
lsm_rowblock_copy(const LsmRowBlock *block, Size blocklen, uint32 row, LsmRecord *record)
{
	const volatile LsmRowPlace *place = lsm_rowblock_places(block) + row;
	uint32		from = place[0].record;
	uint32		to = place[1].record;

	if (from >= to || to > blocklen || to - from > BLCKSZ)
		return 0;
	memcpy(record, (const char *) block + from, to - from);
	return to - from;
}

static void
lsm_rowblock_count(Relation rel, LsmTable *table, uint32 npages)
{
	lsm_stat_tick(&table->stat);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
	lsm_sharedcache_count_rows();
	lsm_compat_count_hits(rel, npages);
}

bool
lsm_rowblock_get_hinted(Relation rel, LsmTable *table, uint64 uid, LsmTid root,
						LsmRecord *record, Size *len)
{
	LsmCacheHeld held = LSM_CACHE_HELD_NOT;
	LsmRowHint *hint = lsm_row_hint(root);
	LsmRowHint *last = hint;
	LsmRowHint	next;
	LsmRowBlock head = {0};

	if (hint->root != root || hint->uid != uid)
	{
		/* perhaps it is the one behind the last one, or that one again; or near it */
		last = lsm_row_last_of(root);
		next = *last;
		if (next.uid != uid || LSM_TID_LB(next.root) != LSM_TID_LB(root))
		{
			/* it is of a segment that has been compacted: it leads nowhere */
			if (next.table == table && LSM_TID_LB(next.root) == LSM_TID_LB(root))
				last->uid = 0;
			return false;
		}
		next.row += next.root < root;
		next.root = root;
		hint = &next;
	}
	do
	{
		const LsmRowBlock *block = lsm_sharedcache_hold_rows(uid, hint->blockno, &hint->place,
															 &held);
		uint32		distance;
		int			row;

		if (block == NULL)
		{
			last->uid = 0;		/* it has left the cache */
			return false;
		}
		*len = 0;
		if (!lsm_rowblock_head(block, held.len, root, &head, &distance))
			continue;
		row = hint->row;
		if (!lsm_rowblock_is(block, &head, distance, row))
			row = lsm_rowblock_find(block, &head, distance);
		if (row < 0)
			continue;
		hint->row = row;
		*len = lsm_rowblock_copy(block, held.len, row, record);
	} while (!lsm_sharedcache_let_go(&held));
	if (*len == 0)
		return false;
	hint->table = table;
	*lsm_row_last_of(root) = *hint;
	lsm_rowblock_count(rel, table, head.npages);
	return true;
}

LsmRowFound
lsm_rowblock_get(Relation rel, LsmTable *table, uint64 uid, uint32 blockno, LsmTid root,
				 LsmRecord *record, Size *len)
{
	LsmCacheHeld held = LSM_CACHE_HELD_NOT;
	LsmRowHint	hint = {root, table, uid, blockno, 0, LSM_CACHE_PLACE_NONE};
	LsmRowBlock head = {0};

	do
	{
		const LsmRowBlock *block = lsm_sharedcache_hold_rows(uid, blockno, &hint.place, &held);
		uint32		distance;
		int			row;

		if (block == NULL)
			return LSM_ROW_UNKNOWN;
		*len = 0;
		if (!lsm_rowblock_head(block, held.len, root, &head, &distance))
			continue;
		row = lsm_rowblock_find(block, &head, distance);
		if (row < 0)
			continue;
		hint.row = row;
		*len = lsm_rowblock_copy(block, held.len, row, record);
	} while (!lsm_sharedcache_let_go(&held));
	lsm_rowblock_count(rel, table, head.npages);
	if (*len == 0)
		return LSM_ROW_ABSENT;
	*lsm_row_last_of(root) = hint;
	*lsm_row_hint(root) = hint;
	return LSM_ROW_FOUND;
}

int
lsm_rowblocks_known(LsmTable *table, LsmTid *roots, int *nroots, LsmRowsForeseen *foreseen)
{
	int			known = 0;
	int			left = 0;

	for (int i = 0; i < *nroots; i++)
	{
		const LsmRowHint *last = lsm_row_last_of(roots[i]);
		LsmRowsForeseen *row = &foreseen[known];

		row->segment = last->uid;
		row->blockno = last->blockno;
		row->place = last->place;
		row->root = roots[i];
		if (last->uid != 0 && last->table == table &&
			LSM_TID_LB(last->root) == LSM_TID_LB(roots[i]) &&
			lsm_sharedcache_foresee_again(row))
			known++;
		else
			roots[left++] = roots[i];
	}
	*nroots = left;
	return known;
}

void
lsm_rowblocks_remember(LsmTable *table, const LsmRowsForeseen *foreseen, int n)
{
	for (int i = 0; i < n; i++)
	{
		LsmRowHint *last = lsm_row_last_of(foreseen[i].root);

		last->root = foreseen[i].root;
		last->table = table;
		last->uid = foreseen[i].segment;
		last->blockno = foreseen[i].blockno;
		last->row = 0;
		last->place = foreseen[i].place;
	}
}

/* What is foreseen of a row. */
typedef struct LsmRowForeseen
{
	const LsmRowBlock *block;	/* NULL: it does not have the row */
	LsmRowBlock head;
	uint32		distance;
} LsmRowForeseen;

/* In steps, each of which waits for what the one before has asked for. */
void
lsm_rowblocks_foresee(const LsmRowsForeseen *foreseen, int n)
{
	LsmRowForeseen rows[LSM_FORESEEN];

	for (int i = 0; i < n; i++)
	{
		const LsmRowBlock *block = foreseen[i].rows;
		LsmRowForeseen *row = &rows[i];

		row->block = NULL;
		if (!lsm_rowblock_head(block, foreseen[i].len, foreseen[i].root, &row->head,
							   &row->distance))
			continue;
		row->block = block;
		lsm_prefetch((const uint16 *) ((const char *) block +
									   lsm_rowblock_slots_at(row->head.rows)) +
					 lsm_rowblock_slot(row->distance, row->head.slots));
	}
	for (int i = 0; i < n; i++)
	{
		const uint16 *slots;
		uint32		slot;

		if (rows[i].block == NULL)
			continue;
		slots = (const uint16 *) ((const char *) rows[i].block +
								  lsm_rowblock_slots_at(rows[i].head.rows));
		slot = slots[lsm_rowblock_slot(rows[i].distance, rows[i].head.slots)];
		if (slot > 0 && slot <= rows[i].head.rows)
			lsm_prefetch(lsm_rowblock_places(rows[i].block) + slot - 1);
		else
			rows[i].block = NULL;
	}
	for (int i = 0; i < n; i++)
	{
		LsmRowHint *hint = lsm_row_hint(foreseen[i].root);
		int			row;
		uint32		from;

		if (rows[i].block == NULL)
			continue;
		row = lsm_rowblock_find(rows[i].block, &rows[i].head, rows[i].distance);
		if (row < 0)
			continue;
		hint->root = foreseen[i].root;
		hint->uid = foreseen[i].segment;
		hint->blockno = foreseen[i].blockno;
		hint->row = row;
		hint->place = foreseen[i].place;
		from = lsm_rowblock_places(rows[i].block)[row].record;
		for (int line = 0; line < LSM_ROWBLOCK_LINES && from < foreseen[i].len; line++)
		{
			lsm_prefetch((const char *) rows[i].block + from);
			from += LSM_CACHE_LINE;
		}
	}
}

/* ---- building ---- */

typedef struct LsmRowBuilder
{
	LsmBlock   *block;
	TupleDesc	reldesc;		/* of the relation */
	TupleDesc	tupdesc;		/* the same of as many columns as the record at hand */
	int			natts;			/* of the block */
	Datum	   *values;
	bool	   *isnull;
	char	   *room;			/* for values that are built */
	LsmRowPlace *places;
	StringInfoData records;
} LsmRowBuilder;

/* Can a row be kept so?  It has nothing but columns then. */
static bool
lsm_rowblock_takes(const LsmRowBuilder *builder, const LsmRowHead *head)
{
	int			kind = LSM_REC_KIND(head->info);

	return (kind == LSM_REC_INSERT || kind == LSM_REC_UPDATE) &&
		(head->info & (LSM_REC_DELTA | LSM_REC_LARGE | LSM_REC_SPILLED)) == 0 &&
		head->vtid == head->root && head->base == LSM_INVALID_TID &&
		head->natts <= builder->natts;
}

/*
 * Have a descriptor of so many columns.  (One that is there must not be made shorter: where its
 * parts lie depends on their number.)
 */
static void
lsm_rowblock_describe(LsmRowBuilder *builder, int natts)
{
	if (builder->tupdesc != NULL && builder->tupdesc->natts == natts)
		return;
	if (builder->tupdesc != NULL)
		FreeTupleDesc(builder->tupdesc);
	builder->tupdesc = CreateTemplateTupleDesc(natts);
	for (int i = 1; i <= natts; i++)
		TupleDescCopyEntry(builder->tupdesc, i, builder->reldesc, i);
}

/* Get the columns of a row.  Are there nulls? */
static bool
lsm_rowblock_values(LsmRowBuilder *builder, int row, int natts)
{
	bool		hasnull = false;

	for (int i = 0; i < natts; i++)
	{
		/* what a dropped column was, the catalog may not know any more (lsm_slot.c) */
		builder->isnull[i] = true;
		builder->values[i] = (Datum) 0;
		if (!TupleDescAttr(builder->tupdesc, i)->attisdropped)
			builder->values[i] = lsm_block_value_in(builder->block, row, i + 1,
													&builder->isnull[i],
													builder->room + i * LSM_BLOCK_VALUE_BYTES);
		hasnull |= builder->isnull[i];
	}
	return hasnull;
}

/* Append the record of a row; false: it is not one for a row block. */
static bool
lsm_rowblock_add(LsmRowBuilder *builder, int row)
{
	LsmRowHead	head;
	LsmRecord	fixed = {0};
	Size		fixed_len;
	Size		nulls;
	Size		data;
	Size		data_len;
	char	   *record;
	uint16		infomask;
	bool		hasnull;

	lsm_block_head(builder->block, row, &head);
	if (!lsm_rowblock_takes(builder, &head))
		return false;
	lsm_rowblock_describe(builder, head.natts);
	hasnull = lsm_rowblock_values(builder, row, head.natts);
	fixed.xid = head.xmin;
	fixed.cid = head.cid;
	fixed.info = (head.info & ~LSM_REC_HASNULL) | (hasnull ? LSM_REC_HASNULL : 0);
	fixed.natts = head.natts;
	fixed.root = head.root;
	fixed_len = lsm_record_fixed(&fixed);
	nulls = hasnull ? (head.natts + 7) / 8 : 0;
	data = MAXALIGN(fixed_len + nulls);
	data_len = heap_compute_data_size(builder->tupdesc, builder->values, builder->isnull);
	if (data + data_len > LSM_MAX_RECORD)
		return false;

	enlargeStringInfo(&builder->records, MAXALIGN(data + data_len));
	record = builder->records.data + builder->records.len;
	memset(record, 0, MAXALIGN(data + data_len));
	memcpy(record, &fixed, fixed_len);
	heap_fill_tuple(builder->tupdesc, builder->values, builder->isnull, record + data, data_len,
					&infomask, hasnull ? (bits8 *) (record + fixed_len) : NULL);
	builder->records.len += MAXALIGN(data + data_len);
	return true;
}

/* All rows; false: the block is not one to be kept so. */
static bool
lsm_rowblock_build(LsmRowBuilder *builder)
{
	int			rows = lsm_block_rows(builder->block);
	LsmTid		first = lsm_block_root(builder->block, 0);
	int			most = rows * LSM_ROWBLOCK_RECORD;

	for (int row = 0; row < rows; row++)
	{
		LsmTid		root = lsm_block_root(builder->block, row);

		if (root < first || root - first > PG_UINT32_MAX)
			return false;
		builder->places[row].distance = (uint32) (root - first);
		builder->places[row].record = builder->records.len;
		if (!lsm_rowblock_add(builder, row) || builder->records.len > most)
			return false;
	}
	builder->places[rows].distance = PG_UINT32_MAX;
	builder->places[rows].record = builder->records.len;
	return true;
}

/* Put the parts together, and to shared memory. */
static void
lsm_rowblock_put(LsmRowBuilder *builder, const LsmCachedBlock *cached)
{
	uint32		rows = lsm_block_rows(builder->block);
	uint32		nslots = LSM_ROWBLOCK_SLOTS(rows);
	Size		head = MAXALIGN(lsm_rowblock_slots_at(rows) + nslots * sizeof(uint16));
	Size		len = head + builder->records.len;
	LsmRowBlock *block = palloc0(len);
	uint16	   *slots = (uint16 *) ((char *) block + lsm_rowblock_slots_at(rows));

	block->first_root = lsm_block_root(builder->block, 0);
	block->npages = cached->npages;
	block->rows = rows;
	block->slots = nslots - 1;
	for (uint32 row = 0; row < rows; row++)
	{
		uint32		at = lsm_rowblock_slot(builder->places[row].distance, nslots - 1);

		while (slots[at] != 0)
			at = (at + 1) & (nslots - 1);
		slots[at] = row + 1;
	}
	for (uint32 row = 0; row <= rows; row++)
		builder->places[row].record += head;
	memcpy(block + 1, builder->places, (rows + 1) * sizeof(LsmRowPlace));
	memcpy((char *) block + head, builder->records.data, builder->records.len);
	lsm_sharedcache_put_rows(cached->uid, cached->blockno, len, (const char *) block);
}

/*
 * May our transaction have changed the columns, so that it may yet be rolled back, and others
 * go on with what they were?  A column that it has dropped has no values here.  It has the
 * table locked then, until its end; no catalog is looked at, as the page of an index may be
 * locked.  (A parallel worker does not know of the locks of its leader.)
 */
static bool
lsm_rowblock_may_undo(Relation rel)
{
	return TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		(IsParallelWorker() || CheckRelationLockedByMe(rel, AccessExclusiveLock, true));
}

void
lsm_rowblock_keep(Relation rel, LsmCachedBlock *cached)
{
	MemoryContext context;
	MemoryContext caller;
	LsmRowBuilder builder = {0};
	int			rows = lsm_block_rows(cached->block);
	int			natts = lsm_block_natts(cached->block);

	/* what there was no room for, but is read again and again, is worth another try */
	if (unlikely(cached->refused > 0) && !lsm_cold_held_off() &&
		++cached->refused > LSM_ROWBLOCK_REFUSED)
	{
		cached->refused = 0;
		cached->expands = true;
	}
	/* nor with the page of an index locked: there will be another time */
	if (likely(!cached->expands) || cached->no_rows || lsm_cold_held_off() ||
		natts > RelationGetDescr(rel)->natts || rows > LSM_ROWBLOCK_ROWS ||
		lsm_block_raw_bytes(cached->block) > (uint32) rows * LSM_ROWBLOCK_RECORD)
		return;
	if (lsm_rowblock_may_undo(rel) ||
		!lsm_sharedcache_keeps_rows(cached->uid, cached->blockno))
	{
		/* nor is it expanded: there is no room, or others would go on with that */
		cached->expands = false;
		cached->refused = 1;
		return;
	}
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm row block", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	builder.block = cached->block;
	builder.reldesc = RelationGetDescr(rel);
	builder.natts = natts;
	builder.values = palloc(Max(natts, 1) * sizeof(Datum));
	builder.isnull = palloc(Max(natts, 1) * sizeof(bool));
	builder.room = palloc(Max(natts, 1) * LSM_BLOCK_VALUE_BYTES);
	builder.places = palloc((rows + 1) * sizeof(LsmRowPlace));
	initStringInfo(&builder.records);
	enlargeStringInfo(&builder.records, lsm_block_raw_bytes(cached->block) +
					  rows * (SizeOfLsmInsertRecord + 2 * MAXIMUM_ALIGNOF));
	if (lsm_rowblock_build(&builder))
	{
		lsm_rowblock_put(&builder, cached);
		cached->expands = false;
	}
	else
		cached->no_rows = true;
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}
