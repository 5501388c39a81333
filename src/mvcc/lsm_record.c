/*-------------------------------------------------------------------------
 *
 * lsm_record.c
 *	  Records of the row log: from columns to bytes and back.
 *
 * Columns are laid out as in heap tuples (heap_fill_tuple).  There is no TOAST
 * table: what comes from elsewhere is fetched before it is stored, and a record
 * that does not fit its page has its longest values compressed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/toast_internals.h"
#include "access/tupmacs.h"
#include "lsm_mvcc.h"

/* Bytes before the maps. */
Size
lsm_record_fixed(const LsmRecord *record)
{
	return LSM_REC_KIND(record->info) == LSM_REC_INSERT ?
		SizeOfLsmInsertRecord : SizeOfLsmRecord;
}

static inline Size
lsm_map_bytes(int natts)
{
	return (natts + 7) / 8;
}

/* The map of the columns that a DELTA has. */
const bits8 *
lsm_record_cols(const LsmRecord *record)
{
	return (const bits8 *) record + lsm_record_fixed(record);
}

static const bits8 *
lsm_record_nulls(const LsmRecord *record)
{
	Size		at = lsm_record_fixed(record);

	if (record->info & LSM_REC_DELTA)
		at += lsm_map_bytes(record->natts);
	return (const bits8 *) record + at;
}

static Size
lsm_record_data_offset(const LsmRecord *record)
{
	Size		at = lsm_record_fixed(record);

	if (record->info & LSM_REC_DELTA)
		at += lsm_map_bytes(record->natts);
	if (record->info & LSM_REC_HASNULL)
		at += lsm_map_bytes(record->natts);
	return MAXALIGN(at);
}

static inline bool
lsm_map_has(const bits8 *map, int attnum0)
{
	return (map[attnum0 >> 3] & (1 << (attnum0 & 7))) != 0;
}

/*
 * Compress the longest value that is not compressed yet; false if there is
 * none left that gets smaller.
 */
static bool
lsm_record_compress(TupleDesc tupdesc, Datum *values, const bool *isnull, bool *tried)
{
	int			longest = -1;
	Size		longest_len = 128;
	Datum		compressed;

	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		Pointer		value = DatumGetPointer(values[i]);

		if (isnull[i] || tried[i] || att->attlen != -1 || att->attstorage == TYPSTORAGE_PLAIN ||
			VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
			continue;
		if (VARSIZE_ANY(value) > longest_len)
		{
			longest = i;
			longest_len = VARSIZE_ANY(value);
		}
	}
	if (longest < 0)
		return false;
	tried[longest] = true;
	compressed = toast_compress_datum(values[longest],
									  TupleDescAttr(tupdesc, longest)->attcompression);
	if (DatumGetPointer(compressed) != NULL)
		values[longest] = compressed;
	return true;
}

/*
 * Make a record from its fixed part (natts, HASNULL, DELTA are set here) and
 * columns; with cols only those.  DELETE, MOVED and LOCK have no columns:
 * values is NULL.  Palloc'd.
 */
LsmRecord *
lsm_record_form(Relation rel, const LsmRecord *head, Datum *values, bool *isnull,
				const bits8 *cols, Size *len)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	LsmRecord	fixed = *head;
	LsmRecord  *record;
	Datum	   *stored;
	bool	   *absent;
	bool	   *tried = NULL;
	bool		hasnull = cols != NULL;
	Size		data_offset;
	Size		data_len;
	uint16		infomask = 0;

	if (values == NULL)
	{
		fixed.natts = 0;
		*len = SizeOfLsmRecord;
		record = palloc(*len);
		memcpy(record, &fixed, *len);
		return record;
	}

	fixed.natts = tupdesc->natts;
	stored = palloc(tupdesc->natts * sizeof(Datum));
	absent = palloc(tupdesc->natts * sizeof(bool));
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		stored[i] = values[i];
		absent[i] = isnull[i] || att->attisdropped ||
			(cols != NULL && !lsm_map_has(cols, i));
		if (absent[i])
			hasnull = true;
		else if (att->attlen == -1 && VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			stored[i] = PointerGetDatum(detoast_external_attr((struct varlena *)
															  DatumGetPointer(values[i])));
	}
	if (hasnull)
		fixed.info |= LSM_REC_HASNULL;
	if (cols != NULL)
		fixed.info |= LSM_REC_DELTA;
	data_offset = lsm_record_data_offset(&fixed);
	data_len = heap_compute_data_size(tupdesc, stored, absent);
	while (data_offset + data_len > LSM_MAX_RECORD)
	{
		if (tried == NULL)
			tried = palloc0(tupdesc->natts * sizeof(bool));
		if (!lsm_record_compress(tupdesc, stored, absent, tried))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("row is too large for table \"%s\" of access method \"lsm\"",
							RelationGetRelationName(rel)),
					 errdetail("It takes %zu bytes after compression, the largest possible is %zu.",
							   data_offset + data_len, (Size) LSM_MAX_RECORD)));
		data_len = heap_compute_data_size(tupdesc, stored, absent);
	}

	*len = data_offset + data_len;
	record = palloc0(*len);
	memcpy(record, &fixed, lsm_record_fixed(&fixed));
	if (cols != NULL)
		memcpy((char *) record + lsm_record_fixed(&fixed), cols, lsm_map_bytes(fixed.natts));
	heap_fill_tuple(tupdesc, stored, absent, (char *) record + data_offset, data_len, &infomask,
					hasnull ? (bits8 *) lsm_record_nulls(record) : NULL);
	pfree(stored);
	pfree(absent);
	return record;
}

/*
 * Columns from..natts-1 (from 0) of a record; *offset carries on between calls
 * (0 at first).  Columns that a DELTA lacks come out as null.  Returns natts.
 */
int
lsm_record_deform_from(TupleDesc tupdesc, const LsmRecord *record, int from, int natts,
					   Size *offset, Datum *values, bool *isnull)
{
	const bits8 *nulls = (record->info & LSM_REC_HASNULL) ? lsm_record_nulls(record) : NULL;
	const char *data = (const char *) record + lsm_record_data_offset(record);
	Size		at = *offset;

	natts = Min(natts, record->natts);
	for (int i = from; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (nulls != NULL && att_isnull(i, nulls))
		{
			values[i] = (Datum) 0;
			isnull[i] = true;
			continue;
		}
		isnull[i] = false;
		if (att->attlen == -1)
			at = att_align_pointer(at, att->attalign, -1, data + at);
		else
			at = att_align_nominal(at, att->attalign);
		values[i] = fetchatt(att, data + at);
		at = att_addlength_pointer(at, att->attlen, data + at);
	}
	*offset = at;
	return natts;
}

/* All columns of a record: record->natts entries. */
void
lsm_record_deform(TupleDesc tupdesc, const LsmRecord *record, Datum *values, bool *isnull)
{
	Size		offset = 0;
	int			natts = Min(record->natts, tupdesc->natts);

	(void) lsm_record_deform_from(tupdesc, record, 0, natts, &offset, values, isnull);
	for (int i = natts; i < record->natts; i++)
	{
		/* of a column that was never committed: so is this record */
		values[i] = (Datum) 0;
		isnull[i] = true;
	}
}
