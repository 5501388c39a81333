/*-------------------------------------------------------------------------
 *
 * lsm_block_build.c
 *	  Blocks of a segment: building one from rows.
 *
 * What blocks are, and how they are read: lsm_block.c.  Those that are made of others:
 * lsm_block_patch.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_segment_format.h"

/* Raw bytes of a row besides its values. */
#define LSM_BLOCK_ROW_OVERHEAD	8

LsmBlockBuilder *
lsm_block_builder_create(int natts, const LsmColumnType *types, const bool *numeric,
						 LsmTrainer *trainer)
{
	LsmBlockBuilder *builder = palloc0(sizeof(LsmBlockBuilder));

	builder->natts = natts;
	builder->columns = palloc(Max(natts, 1) * sizeof(LsmColumn *));
	for (int i = 0; i < natts; i++)
	{
		builder->columns[i] = lsm_column_create(&types[i], numeric[i]);
		if (trainer != NULL && !types[i].typbyval)
			builder->columns[i]->training = lsm_trainer_column(trainer, i + 1);
	}
	for (int i = 0; i < LSM_SYS_CHUNKS; i++)
		builder->system_columns[i] = lsm_column_create(&lsm_block_system_types[i], false);
	builder->cols = palloc(VARHDRSZ + PG_UINT16_MAX);
	return builder;
}

int
lsm_block_builder_rows(LsmBlockBuilder *builder)
{
	return builder->rows;
}

/* Is column i (from 0) of the record there, null or not? */
static inline bool
lsm_block_has_column(const LsmRowHead *head, const Datum *values, int i)
{
	if (values == NULL || i >= head->natts)
		return false;
	if (head->info & LSM_REC_DELTA)
		return (i >> 3) < head->cols_len && (head->cols[i >> 3] & (1 << (i & 7))) != 0;
	return true;
}

/* What a value that is not null adds to the raw bytes of its block. */
Size
lsm_block_value_bytes(const LsmColumnType *type, Datum value)
{
	if (type->typlen > 0)
		return type->typlen;
	if (type->typlen == -1)
		return VARSIZE_ANY(DatumGetPointer(value));
	return strlen(DatumGetCString(value)) + 1;
}

/* What a row adds to the raw bytes of its block. */
Size
lsm_block_row_bytes(LsmBlockBuilder *builder, const LsmRowHead *head,
					const Datum *values, const bool *isnull)
{
	Size		bytes = LSM_BLOCK_ROW_OVERHEAD;

	for (int i = 0; i < builder->natts; i++)
	{
		const LsmColumnType *type = &builder->columns[i]->type;

		if (lsm_block_has_column(head, values, i) && !isnull[i])
			bytes += lsm_block_value_bytes(type, values[i]);
	}
	return bytes;
}

void
lsm_block_builder_add(LsmBlockBuilder *builder, const LsmRowHead *head,
					  const Datum *values, const bool *isnull)
{
	LsmColumn **system = builder->system_columns;
	uint64		xmin = head->xid == 0 ? head->xmin : 0; /* else it is the xid */

	lsm_column_add(system[LSM_SYS_ROOT], Int64GetDatum((int64) head->root), false);
	lsm_column_add(system[LSM_SYS_XID], Int64GetDatum((int64) head->xid), false);
	lsm_column_add(system[LSM_SYS_CID], Int32GetDatum((int32) head->cid), false);
	lsm_column_add(system[LSM_SYS_INFO], Int16GetDatum((int16) head->info), false);
	lsm_column_add(system[LSM_SYS_NATTS], Int16GetDatum((int16) head->natts), false);
	lsm_column_add(system[LSM_SYS_VTID], Int64GetDatum((int64) head->vtid), false);
	lsm_column_add(system[LSM_SYS_BASE], Int64GetDatum((int64) head->base), false);
	if (head->cols_len > 0)
	{
		if (head->cols_len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
		{
			SET_VARSIZE_SHORT(builder->cols, head->cols_len + VARHDRSZ_SHORT);
			memcpy(builder->cols + VARHDRSZ_SHORT, head->cols, head->cols_len);
		}
		else
		{
			SET_VARSIZE(builder->cols, head->cols_len + VARHDRSZ);
			memcpy(builder->cols + VARHDRSZ, head->cols, head->cols_len);
		}
	}
	lsm_column_add(system[LSM_SYS_COLS], PointerGetDatum(builder->cols), head->cols_len == 0);
	lsm_column_add(system[LSM_SYS_XMIN], Int64GetDatum((int64) xmin), false);

	builder->system |= 1 << LSM_SYS_ROOT |
		(head->xid != 0) << LSM_SYS_XID |
		(head->cid != 0) << LSM_SYS_CID |
		(head->info != 0) << LSM_SYS_INFO |
		(head->natts != builder->natts) << LSM_SYS_NATTS |
		(head->vtid != head->root) << LSM_SYS_VTID |
		(head->base != 0) << LSM_SYS_BASE |
		(head->cols_len != 0) << LSM_SYS_COLS |
		(xmin != 0) << LSM_SYS_XMIN;

	for (int i = 0; i < builder->natts; i++)
	{
		bool		null = !lsm_block_has_column(head, values, i) || isnull[i];

		lsm_column_add(builder->columns[i], null ? (Datum) 0 : values[i], null);
	}
	builder->rows++;
}

/*
 * Make the head of a block, whose header and directory are complete but for the flags that follow
 * from the latter, and for offsets, which count from the beginning of the body.
 */
void
lsm_block_put_head(LsmBlockHeader *header, LsmWideEntry *entries, int chunks, int body_bytes,
				   StringInfo head)
{
	Size		head_bytes = MAXALIGN(sizeof(*header) + chunks * sizeof(LsmNarrowEntry));

	header->flags = 0;
	for (int i = 0; i < chunks; i++)
		if (entries[i].flags & LSM_CHUNK_DICTIONARY)
			header->flags |= LSM_BLOCK_DICTIONARY;
	if (head_bytes + body_bytes > PG_UINT16_MAX)
	{
		header->flags |= LSM_BLOCK_WIDE;
		head_bytes = MAXALIGN(sizeof(*header) + chunks * sizeof(LsmWideEntry));
	}
	resetStringInfo(head);
	appendBinaryStringInfo(head, (char *) header, sizeof(*header));
	for (int i = 0; i < chunks; i++)
	{
		entries[i].offset += head_bytes;
		if (header->flags & LSM_BLOCK_WIDE)
			appendBinaryStringInfo(head, (char *) &entries[i], sizeof(LsmWideEntry));
		else
		{
			LsmNarrowEntry narrow;

			narrow.encoding = entries[i].encoding;
			narrow.flags = entries[i].flags;
			narrow.offset = entries[i].offset;
			appendBinaryStringInfo(head, (char *) &narrow, sizeof(narrow));
		}
	}
	while ((Size) head->len < head_bytes)
		appendStringInfoCharMacro(head, '\0');
}

/* Encode the values of a column to the end of a body. */
void
lsm_block_put_chunk(LsmEncoder *encoder, LsmColumn *column, StringInfo body, LsmWideEntry *entry,
					LsmChunkFacts *facts)
{
	lsm_chunk_encode(encoder, column, body, &entry->encoding, &entry->flags, &entry->offset, facts);
}

/*
 * Encode the rows that were added and begin anew.  The block is head and then
 * body; both are emptied first.  True: it needs the segment's dictionaries.
 */
bool
lsm_block_builder_finish(LsmBlockBuilder *builder, LsmEncoder *encoder, uint32 raw_bytes,
						 LsmZoneMap *zones, StringInfo head, StringInfo body)
{
	LsmBlockHeader header;
	LsmChunkFacts facts;
	int			chunks = 0;
	LsmWideEntry *entries;

	Assert(builder->rows > 0);
	resetStringInfo(body);
	entries = palloc0((LSM_SYS_CHUNKS + builder->natts) * sizeof(LsmWideEntry));

	for (int i = 0; i < LSM_SYS_CHUNKS; i++)
	{
		if (builder->system & (1 << i))
			lsm_block_put_chunk(encoder, builder->system_columns[i], body, &entries[chunks++],
								&facts);
		lsm_column_reset(builder->system_columns[i]);
	}
	lsm_zone_begin_block(zones);
	for (int i = 0; i < builder->natts; i++)
	{
		lsm_block_put_chunk(encoder, builder->columns[i], body, &entries[chunks++], &facts);
		lsm_zone_add(zones, i, builder->columns[i], &facts);
		lsm_column_reset(builder->columns[i]);
	}

	memset(&header, 0, sizeof(header));
	header.version = LSM_BLOCK_VERSION;
	header.natts = builder->natts;
	header.rows = builder->rows;
	header.system = builder->system;
	header.raw_bytes = raw_bytes;
	lsm_block_put_head(&header, entries, chunks, body->len, head);
	pfree(entries);
	builder->rows = 0;
	builder->system = 0;
	return (header.flags & LSM_BLOCK_DICTIONARY) != 0;
}
