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
 * cache as records, as the row log has them: the search of a row is one in a hash table
 * and one among a few runs of roots, its columns follow each other, and no session keeps
 * anything.  (OceanBase and others keep a cache of rows beside that of blocks; to keep whole
 * blocks needs no entry for each row, and neighbours come along.)
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
#include "lsm_cold.h"
#include "lsm_rowblock.h"
#include "lsm_sharedcache.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

/* Records that are longer than this on average are not worth being copied for a column or two. */
#define LSM_ROWBLOCK_RECORD		2048

/* Of a record, so many lines of the processor's caches are prefetched at most. */
#define LSM_ROWBLOCK_LINES		4

/* A run of roots without a gap. */
typedef struct LsmRowRun
{
	uint32		distance;		/* of its first root from that of the block */
	uint32		row;			/* which it is, from 0 */
} LsmRowRun;

/* Then come the runs, the places of the records, one more for the end, and the records. */
typedef struct LsmRowBlock
{
	LsmTid		first_root;
	uint32		npages;			/* what reading the block counts for */
	uint16		rows;
	uint16		nruns;
} LsmRowBlock;

static const LsmRowRun *
lsm_rowblock_runs(const LsmRowBlock *block)
{
	return (const LsmRowRun *) (block + 1);
}

static const uint32 *
lsm_rowblock_places(const LsmRowBlock *block, int nruns)
{
	return (const uint32 *) (lsm_rowblock_runs(block) + nruns);
}

/* Which row has that root, by the runs of a block with that head; -1: none. */
static int
lsm_rowblock_find(const LsmRowBlock *head, const LsmRowRun *runs, LsmTid root)
{
	int			low = 0;
	int			high = head->nruns;
	uint64		distance = root - head->first_root;
	uint64		row;

	if (root < head->first_root || distance > PG_UINT32_MAX)
		return -1;
	while (high - low > 1)
	{
		int			middle = (low + high) / 2;

		if (runs[middle].distance <= distance)
			low = middle;
		else
			high = middle;
	}
	row = runs[low].row + (distance - runs[low].distance);
	return row < (high < head->nruns ? runs[high].row : head->rows) ? (int) row : -1;
}

/*
 * Where the place of a row's record is, and that of the next one; NULL: the block does not have
 * the row, or is none.
 */
static const uint32 *
lsm_rowblock_place(const LsmRowBlock *block, Size len, LsmTid root)
{
	LsmRowBlock head;
	int			row;

	if (len < sizeof(head))
		return NULL;
	memcpy(&head, block, sizeof(head));
	pg_compiler_barrier();
	if (head.nruns == 0 || sizeof(head) + head.nruns * sizeof(LsmRowRun) +
		(head.rows + 1) * sizeof(uint32) > len)
		return NULL;
	row = lsm_rowblock_find(&head, lsm_rowblock_runs(block), root);
	return row >= 0 && row < head.rows ? lsm_rowblock_places(block, head.nruns) + row : NULL;
}

/*
 * Copy the record of a row; its length, 0: the block does not have it.
 *
 * Race: what is read may be anything (lsm_sharedcache_hold_rows()), so nothing is believed that
 * leads out of the block, or out of the caller's page.
 */
static Size
lsm_rowblock_copy(const LsmRowBlock *block, Size blocklen, LsmTid root, LsmRecord *record,
				  uint32 *npages)
{
	const uint32 *place = lsm_rowblock_place(block, blocklen, root);
	uint32		from;
	uint32		to;

	*npages = block->npages;
	if (place == NULL)
		return 0;
	from = place[0];
	to = place[1];
	pg_compiler_barrier();
	if (from >= to || to > blocklen || to - from > BLCKSZ)
		return 0;
	memcpy(record, (const char *) block + from, to - from);
	return to - from;
}

LsmRowFound
lsm_rowblock_get(Relation rel, LsmTable *table, uint64 uid, uint32 blockno, LsmTid root,
				 LsmRecord *record, Size *len)
{
	LsmCacheHeld held = LSM_CACHE_HELD_NOT;
	uint32		npages;

	do
	{
		const LsmRowBlock *block = lsm_sharedcache_hold_rows(uid, blockno, &held);

		if (block == NULL)
			return LSM_ROW_UNKNOWN;
		*len = lsm_rowblock_copy(block, held.len, root, record, &npages);
	} while (!lsm_sharedcache_let_go(&held));

	lsm_stat_tick(&table->stat);
	lsm_stat_count(&table->stat, LSM_STAT_DATA_HIT);
	lsm_compat_count_hits(rel, npages);
	return *len > 0 ? LSM_ROW_FOUND : LSM_ROW_ABSENT;
}

/* Race: what is read may be anything by now; so nothing is believed that leads out of it. */
void
lsm_rowblocks_foresee(const LsmRowsForeseen *foreseen, int n)
{
	const uint32 *places[LSM_FORESEEN];

	for (int i = 0; i < n; i++)
	{
		places[i] = lsm_rowblock_place(foreseen[i].rows, foreseen[i].len, foreseen[i].root);
		if (places[i] != NULL)
			lsm_prefetch(places[i]);
	}
	for (int i = 0; i < n; i++)
	{
		uint32		from = places[i] != NULL ? *places[i] : foreseen[i].len;

		for (int line = 0; line < LSM_ROWBLOCK_LINES && from < foreseen[i].len; line++)
		{
			lsm_prefetch((const char *) foreseen[i].rows + from);
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
	LsmRowRun  *runs;
	int			nruns;
	uint32	   *places;
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
	LsmTid		expected = LSM_INVALID_TID;
	int			most = rows * LSM_ROWBLOCK_RECORD;

	for (int row = 0; row < rows; row++)
	{
		LsmTid		root = lsm_block_root(builder->block, row);

		if (root != expected)
		{
			if (root < first || root - first > PG_UINT32_MAX)
				return false;
			builder->runs[builder->nruns].distance = (uint32) (root - first);
			builder->runs[builder->nruns++].row = row;
		}
		expected = root + 1;
		builder->places[row] = builder->records.len;
		if (!lsm_rowblock_add(builder, row) || builder->records.len > most)
			return false;
	}
	builder->places[rows] = builder->records.len;
	return true;
}

/* Put the parts together, and to shared memory. */
static void
lsm_rowblock_put(LsmRowBuilder *builder, const LsmCachedBlock *cached)
{
	int			rows = lsm_block_rows(builder->block);
	Size		head = MAXALIGN(sizeof(LsmRowBlock) + builder->nruns * sizeof(LsmRowRun) +
								(rows + 1) * sizeof(uint32));
	Size		len = head + builder->records.len;
	LsmRowBlock *block = palloc0(len);
	char	   *at = (char *) (block + 1);

	block->first_root = lsm_block_root(builder->block, 0);
	block->npages = cached->npages;
	block->rows = rows;
	block->nruns = builder->nruns;
	memcpy(at, builder->runs, builder->nruns * sizeof(LsmRowRun));
	at += builder->nruns * sizeof(LsmRowRun);
	for (int row = 0; row <= rows; row++)
		builder->places[row] += head;
	memcpy(at, builder->places, (rows + 1) * sizeof(uint32));
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

	/* nor with the page of an index locked: there will be another time */
	if (likely(!cached->expands) || cached->no_rows || lsm_cold_held_off() || natts > RelationGetDescr(rel)->natts ||
		lsm_block_raw_bytes(cached->block) > (uint32) rows * LSM_ROWBLOCK_RECORD)
		return;
	if (lsm_rowblock_may_undo(rel) ||
		!lsm_sharedcache_keeps_rows(cached->uid, cached->blockno))
	{
		/* nor is it expanded: there is no room, or others would go on with that */
		cached->expands = false;
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
	builder.runs = palloc(rows * sizeof(LsmRowRun));
	builder.places = palloc((rows + 1) * sizeof(uint32));
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
