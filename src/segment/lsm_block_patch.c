/*-------------------------------------------------------------------------
 *
 * lsm_block_patch.c
 *	  Blocks of a segment: making one of another, of which some rows have changed.
 *
 * Mostly a change touches a column or two.  The chunks of the others are copied as they are
 * stored, which may be compressed: they are not even opened.  A column that has changed is decoded
 * and encoded, with what is new.  So the cost of merging a few changes into a block is that of
 * these columns and rows, not of all of the block.
 *
 * The block has the rows that it had, in the same order.  One that loses a row, gets large values, or
 * has grown or shrunk too much, is given back row by row, for blocks of the usual size to be cut, and
 * segments to be ended where they should.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_segment_format.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* So much more than a block should have it may have (part of that). */
#define LSM_PATCH_GROWTH_DIVISOR	8

/* Values that are to be in the place of some of a column, by row. */
typedef struct LsmColumnPatch
{
	int			n;
	int			max;
	int			next;			/* of those that lsm_column_patched() has not passed */
	uint16	   *rows;
	Datum	   *values;
	bool	   *isnull;
} LsmColumnPatch;

struct LsmBlockPatch
{
	MemoryContext context;		/* of all that is here */
	int			natts;
	const LsmColumnType *types; /* of columns */
	LsmBlockEntry entry;		/* what the index says of the block as it was */
	LsmBlock   *block;
	uint8	   *data;			/* its bytes */
	uint8	   *zone;			/* NULL: it has none */
	uint8	   *zone_end;
	bool		zone_loose;		/* it need not be the block's own */
	int64		raw_bytes;
	int			row;			/* the last one of which something was said, or -1 */
	bool		large;			/* a row has large values */
	int			ndropped;
	bool	   *dropped;		/* rows; NULL: none so far */
	bool	   *changed;		/* columns */
	LsmColumnPatch *patches;	/* system chunks, then columns */
	int			next;			/* row that lsm_block_patch_next() gives */
};

/* Copy the zone of the block alone. */
static void
lsm_patch_copy_zone(LsmBlockPatch *patch, LsmSegmentReader *reader, uint32 blockno)
{
	const uint8 *section_end;
	const uint8 *zone = lsm_reader_zone(reader, blockno, &section_end);
	const uint8 *end = zone;

	patch->zone_loose = zone == NULL || reader->loose_zones || reader->props.zone_blocks != 1;
	if (zone == NULL)
		return;
	for (int i = 0; i < patch->natts; i++)
		end = lsm_zone_step(end);
	patch->zone = palloc(end - zone);
	memcpy(patch->zone, zone, end - zone);
	patch->zone_end = patch->zone + (end - zone);
}

/*
 * Begin with a block as it is, whose bytes have proved, in the current context.  The segment has no
 * large values.  The reader is not needed later.
 */
LsmBlockPatch *
lsm_block_patch_create(LsmSegmentReader *reader, uint32 blockno, uint8 *data)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm block patch",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LsmBlockPatch *patch = palloc0(sizeof(LsmBlockPatch));
	int			natts = reader->props.natts;
	LsmColumnType *types = palloc(Max(natts, 1) * sizeof(LsmColumnType));

	memcpy(types, reader->types, natts * sizeof(LsmColumnType));
	patch->context = context;
	patch->natts = natts;
	patch->types = types;
	patch->entry = *lsm_reader_entry(reader, blockno);
	patch->data = data;
	patch->block = lsm_block_over(reader, blockno, patch->entry.length, (char *) data);
	lsm_block_begin(reader, patch->block, true);
	lsm_patch_copy_zone(patch, reader, blockno);
	patch->raw_bytes = patch->entry.raw_bytes;
	patch->row = -1;
	patch->changed = palloc0(Max(natts, 1) * sizeof(bool));
	patch->patches = palloc0((LSM_SYS_CHUNKS + natts) * sizeof(LsmColumnPatch));
	MemoryContextSwitchTo(old);
	return patch;
}

LsmBlock *
lsm_block_patch_block(LsmBlockPatch *patch)
{
	return patch->block;
}

void
lsm_block_patch_free(LsmBlockPatch *patch)
{
	lsm_block_free(patch->block);
	pfree(patch->data);
	MemoryContextDelete(patch->context);
}

/* ---- what is new ---- */

static const LsmColumnType *
lsm_patch_type(const LsmBlockPatch *patch, int which)
{
	return which < LSM_SYS_CHUNKS ? &lsm_block_system_types[which] :
		&patch->types[which - LSM_SYS_CHUNKS];
}

/* A copy of the value is in the place of that of a row; rows come in order. */
static void
lsm_patch_put(LsmBlockPatch *patch, int which, int row, Datum value, bool isnull)
{
	const LsmColumnType *type = lsm_patch_type(patch, which);
	LsmColumnPatch *column = &patch->patches[which];
	MemoryContext old = MemoryContextSwitchTo(patch->context);

	Assert(column->n == 0 || column->rows[column->n - 1] < row);
	if (column->n == column->max)
	{
		int			max = Max(column->max * 2, 16);

		if (column->max == 0)
		{
			column->rows = palloc(max * sizeof(uint16));
			column->values = palloc(max * sizeof(Datum));
			column->isnull = palloc(max * sizeof(bool));
		}
		else
		{
			column->rows = repalloc(column->rows, max * sizeof(uint16));
			column->values = repalloc(column->values, max * sizeof(Datum));
			column->isnull = repalloc(column->isnull, max * sizeof(bool));
		}
		column->max = max;
	}
	column->rows[column->n] = row;
	column->values[column->n] = isnull ? (Datum) 0 : datumCopy(value, type->typbyval, type->typlen);
	column->isnull[column->n] = isnull;
	column->n++;
	MemoryContextSwitchTo(old);
}

/* What a system chunk has of a record. */
static Datum
lsm_patch_system_value(const LsmRowHead *head, int which)
{
	switch (which)
	{
		case LSM_SYS_ROOT:
			return Int64GetDatum((int64) head->root);
		case LSM_SYS_CID:
			return Int32GetDatum((int32) head->cid);
		case LSM_SYS_INFO:
			return Int16GetDatum((int16) head->info);
		case LSM_SYS_NATTS:
			return Int16GetDatum((int16) head->natts);
		case LSM_SYS_XMIN:
			return Int64GetDatum((int64) head->xmin);
	}
	elog(ERROR, "system chunk %d is patched", which);
}

static void
lsm_patch_put_system(LsmBlockPatch *patch, int which, int row, const LsmRowHead *before,
					 const LsmRowHead *head)
{
	Datum		value = lsm_patch_system_value(head, which);

	if (value != lsm_patch_system_value(before, which))
		lsm_patch_put(patch, which, row, value, false);
}

void
lsm_block_patch_row(LsmBlockPatch *patch, int row, const LsmRowHead *head, const bits8 *cols,
					const Datum *values, const bool *isnull)
{
	LsmRowHead	before;

	Assert(row > patch->row && row < lsm_block_rows(patch->block));
	Assert(head->xid == 0 && head->vtid == head->root && head->base == 0 && head->cols_len == 0);
	patch->row = row;
	patch->large |= (head->info & LSM_REC_LARGE) != 0;
	lsm_block_head(patch->block, row, &before);
	Assert(before.root == head->root && before.xid == 0 && before.vtid == before.root);
	lsm_patch_put_system(patch, LSM_SYS_CID, row, &before, head);
	lsm_patch_put_system(patch, LSM_SYS_INFO, row, &before, head);
	lsm_patch_put_system(patch, LSM_SYS_NATTS, row, &before, head);
	lsm_patch_put_system(patch, LSM_SYS_XMIN, row, &before, head);
	for (int i = 0; i < patch->natts; i++)
	{
		const LsmColumnType *type = &patch->types[i];
		bool		null = i >= head->natts || isnull[i];
		bool		was_null;
		Datum		was;

		if (cols != NULL && (i >= head->natts || (cols[i / 8] & (1 << (i % 8))) == 0))
			continue;
		was = lsm_block_value(patch->block, row, i + 1, &was_null);
		if (null && was_null)
			continue;
		if (!null && !was_null && datumIsEqual(values[i], was, type->typbyval, type->typlen))
			continue;
		patch->raw_bytes += (int64) (null ? 0 : lsm_block_value_bytes(type, values[i])) -
			(int64) (was_null ? 0 : lsm_block_value_bytes(type, was));
		patch->changed[i] = true;
		lsm_patch_put(patch, LSM_SYS_CHUNKS + i, row, null ? (Datum) 0 : values[i], null);
	}
}

void
lsm_block_patch_drop(LsmBlockPatch *patch, int row)
{
	Assert(row > patch->row && row < lsm_block_rows(patch->block));
	patch->row = row;
	if (patch->dropped == NULL)
		patch->dropped = MemoryContextAllocZero(patch->context,
												lsm_block_rows(patch->block) * sizeof(bool));
	patch->dropped[row] = true;
	patch->ndropped++;
}

/* ---- one row after the other ---- */

/* Is there something new of that row?  Rows are asked for in order. */
static inline bool
lsm_column_patched(LsmColumnPatch *column, int row, Datum *value, bool *isnull)
{
	if (column->next >= column->n || column->rows[column->next] != row)
		return false;
	*value = column->values[column->next];
	*isnull = column->isnull[column->next];
	column->next++;
	return true;
}

bool
lsm_block_patch_next(LsmBlockPatch *patch, LsmRowHead *head, Datum *values, bool *isnull)
{
	int			row;
	Datum		value;
	bool		null;

	while (patch->next < lsm_block_rows(patch->block) &&
		   patch->dropped != NULL && patch->dropped[patch->next])
		patch->next++;
	if (patch->next >= lsm_block_rows(patch->block))
		return false;
	row = patch->next++;
	lsm_block_head(patch->block, row, head);
	if (lsm_column_patched(&patch->patches[LSM_SYS_CID], row, &value, &null))
		head->cid = DatumGetUInt32(value);
	if (lsm_column_patched(&patch->patches[LSM_SYS_INFO], row, &value, &null))
		head->info = DatumGetUInt16(value);
	if (lsm_column_patched(&patch->patches[LSM_SYS_NATTS], row, &value, &null))
		head->natts = DatumGetUInt16(value);
	if (lsm_column_patched(&patch->patches[LSM_SYS_XMIN], row, &value, &null))
		head->xmin = DatumGetUInt64(value);
	for (int i = 0; i < patch->natts; i++)
		if (!lsm_column_patched(&patch->patches[LSM_SYS_CHUNKS + i], row, &values[i], &isnull[i]))
			values[i] = lsm_block_value(patch->block, row, i + 1, &isnull[i]);
	return true;
}

/* ---- all at once ---- */

/*
 * Can it stay a block?  block_bytes: what ends one, raw.  Neither too little may be left of it nor
 * too much have come to it, and all rows have to be there; large values have to be written first.
 */
bool
lsm_block_patch_fits(const LsmBlockPatch *patch, Size block_bytes)
{
	return patch->ndropped == 0 && !patch->large && patch->raw_bytes >= (int64) (block_bytes / 2) &&
		patch->raw_bytes <= (int64) (block_bytes + block_bytes / LSM_PATCH_GROWTH_DIVISOR);
}

/* Raw bytes of what is to be in its place, about those where rows have gone. */
int64
lsm_block_patch_raw_bytes(const LsmBlockPatch *patch)
{
	int			rows = lsm_block_rows(patch->block);

	return patch->raw_bytes * (rows - patch->ndropped) / rows;
}

/*
 * Copy a chunk to the end of the body; false: the block has none.  Each begins where it may be
 * aligned, so that a block that is patched again does not grow by what is between chunks.
 */
static bool
lsm_patch_copy_chunk(const LsmBlockPatch *patch, int which, StringInfo body, LsmWideEntry *entry)
{
	uint32		len;
	const uint8 *bytes = lsm_block_stored_chunk(patch->block, which, entry, &len);

	if (bytes == NULL)
		return false;
	while ((Size) body->len != MAXALIGN(body->len))
		appendStringInfoCharMacro(body, '\0');
	entry->offset = body->len;
	appendBinaryStringInfo(body, (const char *) bytes, len);
	return true;
}

/* Encode a system chunk of which something is new; false: each row has the default, so there is none. */
static bool
lsm_patch_encode_system(LsmBlockPatch *patch, LsmBlockBuilder *builder, LsmEncoder *encoder,
						int which, StringInfo body, LsmWideEntry *entry)
{
	LsmColumnPatch *column = &patch->patches[which];
	LsmColumn  *to = builder->system_columns[which];
	int			rows = lsm_block_rows(patch->block);
	Datum		otherwise = which == LSM_SYS_NATTS ? Int16GetDatum((int16) patch->natts) : (Datum) 0;
	bool		any = false;
	LsmChunkFacts facts;

	for (int row = 0; row < rows; row++)
	{
		Datum		value;
		bool		isnull = false;

		if (!lsm_column_patched(column, row, &value, &isnull))
		{
			LsmRowHead	head;

			lsm_block_head(patch->block, row, &head);
			value = lsm_patch_system_value(&head, which);
		}
		any |= value != otherwise;
		lsm_column_add(to, value, isnull);
	}
	if (any)
		lsm_block_put_chunk(encoder, to, body, entry, &facts);
	lsm_column_reset(to);
	return any;
}

/* Encode a column of which something is new. */
static void
lsm_patch_encode_column(LsmBlockPatch *patch, LsmBlockBuilder *builder, LsmEncoder *encoder,
						int i, LsmZoneMap *zones, StringInfo body, LsmWideEntry *entry)
{
	LsmColumnPatch *column = &patch->patches[LSM_SYS_CHUNKS + i];
	LsmColumn  *to = builder->columns[i];
	int			rows = lsm_block_rows(patch->block);
	LsmChunkFacts facts;
	Datum	   *values;
	bool	   *isnull;

	lsm_block_column(patch->block, i + 1, &values, &isnull);
	for (int row = 0; row < rows; row++)
	{
		Datum		value;
		bool		null;

		if (lsm_column_patched(column, row, &value, &null))
			lsm_column_add(to, value, null);
		else
			lsm_column_add(to, values[row], isnull[row]);
	}
	lsm_block_put_chunk(encoder, to, body, entry, &facts);
	lsm_zone_add(zones, i, to, &facts);
	lsm_column_reset(to);
}

/*
 * Make the block, which fits: head and then body; both are emptied first.  Its zone is added to
 * zones, its entry has what is known of it.  The builder has the same columns, and is empty.
 * True: it needs the segment's dictionaries.
 */
bool
lsm_block_patch_finish(LsmBlockPatch *patch, LsmBlockBuilder *builder, LsmEncoder *encoder,
					   LsmZoneMap *zones, LsmBlockEntry *entry, StringInfo head, StringInfo body)
{
	int			natts = patch->natts;
	LsmBlockHeader header;
	LsmWideEntry *entries;
	int			chunks = 0;

	Assert(patch->ndropped == 0 && patch->next == 0);
	Assert(builder->natts == natts && builder->rows == 0);
	*entry = patch->entry;
	entry->raw_bytes = (uint32) patch->raw_bytes;
	memset(&header, 0, sizeof(header));
	header.version = LSM_BLOCK_VERSION;
	header.natts = natts;
	header.rows = lsm_block_rows(patch->block);
	header.raw_bytes = entry->raw_bytes;
	entries = palloc0((LSM_SYS_CHUNKS + natts) * sizeof(LsmWideEntry));
	resetStringInfo(body);
	for (int i = 0; i < LSM_SYS_CHUNKS; i++)
	{
		bool		there;

		if (patch->patches[i].n > 0)
			there = lsm_patch_encode_system(patch, builder, encoder, i, body, &entries[chunks]);
		else
			there = lsm_patch_copy_chunk(patch, i, body, &entries[chunks]);
		if (there)
		{
			header.system |= 1 << i;
			chunks++;
		}
	}
	lsm_zone_begin_block(zones);
	lsm_zone_copy(zones, patch->zone, patch->zone_end, patch->zone_loose ? patch->block : NULL,
				  patch->changed);
	for (int i = 0; i < natts; i++)
	{
		if (patch->changed[i])
			lsm_patch_encode_column(patch, builder, encoder, i, zones, body, &entries[chunks]);
		else
			(void) lsm_patch_copy_chunk(patch, LSM_SYS_CHUNKS + i, body, &entries[chunks]);
		chunks++;
	}
	lsm_block_put_head(&header, entries, chunks, body->len, head);
	pfree(entries);
	return (header.flags & LSM_BLOCK_DICTIONARY) != 0;
}
