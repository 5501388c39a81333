/*-------------------------------------------------------------------------
 *
 * lsm_record.c
 *	  Records of the row log: from columns to bytes and back.
 *
 * Columns are laid out as in heap tuples (heap_fill_tuple).  There is no TOAST
 * table: what comes from elsewhere is fetched before it is stored.  Where a record
 * does not fit its page, its longest values are compressed, and those that are
 * large then are stored by themselves (lsm_value.c).  If it still does not fit,
 * because it has many columns, it is spilled: stored like a large value.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/toast_internals.h"
#include "access/tupmacs.h"
#include "lsm_mvcc.h"
#include "miscadmin.h"
#include "utils/memutils.h"

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

/* ---- forming ---- */

/* Values of more than one generation: the record cannot be written as it is. */
#define LSM_MIXED_GENERATIONS	PG_UINT32_MAX

/* What has been done about a value to make the row fit. */
#define LSM_SHRINK_NONE			0
#define LSM_SHRINK_COMPRESSED	1	/* or found that it gets no smaller */
#define LSM_SHRINK_DONE			2	/* nothing more can be done */

typedef struct LsmForming
{
	Relation	rel;
	LsmTable   *table;
	TupleDesc	tupdesc;
	Datum	   *stored;
	bool	   *absent;
	LsmPointer **large;			/* remembered by the caller, or NULL */
	uint32		generation;		/* of large values, 0: none */
	MemoryContext context;		/* of copies; NULL until there is one */
	MemoryContext caller;
} LsmForming;

static void
lsm_note_generation(uint32 *noted, uint32 generation)
{
	if (*noted == 0)
		*noted = generation;
	else if (*noted != generation)
		*noted = LSM_MIXED_GENERATIONS;
}

/* Switch to the context for copies of values. */
static void
lsm_form_copying(LsmForming *form)
{
	if (form->context == NULL)
		form->context = AllocSetContextCreate(CurrentMemoryContext, "lsm record",
											  ALLOCSET_DEFAULT_SIZES);
	form->caller = MemoryContextSwitchTo(form->context);
}

/* A column's value is a pointer to what is stored beside the row log. */
static void
lsm_form_set_pointer(LsmForming *form, int i, const LsmPointer *pointer)
{
	char	   *datum = palloc(TOAST_POINTER_SIZE);

	lsm_pointer_set(datum, pointer);
	form->stored[i] = PointerGetDatum(datum);
	lsm_note_generation(&form->generation, lsm_pointer_generation(pointer));
}

/* Store a value by itself; the caller remembers it, as it may come again. */
static void
lsm_form_store(LsmForming *form, int i)
{
	LsmPointer	pointer;

	lsm_value_store(form->rel, form->table, (struct varlena *) DatumGetPointer(form->stored[i]),
					&pointer);
	lsm_form_set_pointer(form, i, &pointer);
	if (form->large == NULL)
		return;
	if (*form->large == NULL)
		*form->large = MemoryContextAllocZero(form->caller,
											  form->tupdesc->natts * sizeof(LsmPointer));
	(*form->large)[i] = pointer;
}

/*
 * Values that lie elsewhere, and those that an earlier try has stored.  What the
 * active generation has is pointed to once more, the rest is fetched.
 */
static void
lsm_form_external(LsmForming *form)
{
	uint32		generation = form->table->shared->generation;

	lsm_form_copying(form);
	for (int i = 0; i < form->tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(form->tupdesc, i);
		struct varlena *value = (struct varlena *) DatumGetPointer(form->stored[i]);
		LsmPointer	pointer;

		if (form->absent[i] || att->attlen != -1)
			continue;
		if (form->large != NULL && *form->large != NULL &&
			(*form->large)[i].va_valueid != 0 &&
			lsm_pointer_generation(&(*form->large)[i]) == generation)
		{
			lsm_form_set_pointer(form, i, &(*form->large)[i]);
			continue;
		}
		if (!VARATT_IS_EXTERNAL(value))
			continue;
		if (VARATT_IS_EXTERNAL_ONDISK(value))
		{
			lsm_pointer_get(value, &pointer);
			if (lsm_value_is_recent(form->rel, form->table, &pointer))
			{
				lsm_form_set_pointer(form, i, &pointer);
				continue;
			}
		}
		value = att->attstorage == TYPSTORAGE_PLAIN ? detoast_attr(value) :
			detoast_external_attr(value);
		form->stored[i] = PointerGetDatum(value);
	}
	MemoryContextSwitchTo(form->caller);
}

/* The longest value about which something can be done, -1 if there is none. */
static int
lsm_form_longest(LsmForming *form, const uint8 *state)
{
	int			longest = -1;
	Size		longest_len = 128;

	for (int i = 0; i < form->tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(form->tupdesc, i);
		Pointer		value = DatumGetPointer(form->stored[i]);

		if (form->absent[i] || state[i] == LSM_SHRINK_DONE || att->attlen != -1 ||
			att->attstorage == TYPSTORAGE_PLAIN || VARATT_IS_EXTERNAL(value))
			continue;
		if (VARSIZE_ANY(value) > longest_len)
		{
			longest = i;
			longest_len = VARSIZE_ANY(value);
		}
	}
	return longest;
}

/*
 * Make the columns smaller until they have at most so many bytes, the longest
 * first, as far as possible: compress, then store by itself.  Returns how many
 * bytes they have now.
 */
static Size
lsm_form_shrink(LsmForming *form, Size most)
{
	uint8	   *state;
	Size		len;
	int			i;

	lsm_form_copying(form);
	state = palloc0(form->tupdesc->natts);
	while ((len = heap_compute_data_size(form->tupdesc, form->stored, form->absent)) > most &&
		   (i = lsm_form_longest(form, state)) >= 0)
	{
		Form_pg_attribute att = TupleDescAttr(form->tupdesc, i);
		struct varlena *value = (struct varlena *) DatumGetPointer(form->stored[i]);

		CHECK_FOR_INTERRUPTS();
		if (state[i] == LSM_SHRINK_NONE && att->attstorage != TYPSTORAGE_EXTERNAL &&
			!VARATT_IS_COMPRESSED(value))
		{
			Datum		compressed = toast_compress_datum(form->stored[i], att->attcompression);

			if (DatumGetPointer(compressed) != NULL)
				form->stored[i] = compressed;
			state[i] = LSM_SHRINK_COMPRESSED;
		}
		else if (VARSIZE_ANY(value) >= VARHDRSZ + LSM_LARGE_VALUE)
			lsm_form_store(form, i);
		else
			state[i] = LSM_SHRINK_DONE;
	}
	MemoryContextSwitchTo(form->caller);
	return len;
}

/*
 * A record that does not fit a page: all behind its fixed part is stored as a
 * large value is, and the record keeps a pointer.
 */
static void
lsm_record_spill(Relation rel, LsmTable *table, LsmNewRecord *new)
{
	Size		fixed = lsm_record_fixed(new->record);
	uint32		size = new->len - fixed;
	LsmPointer	pointer;

	pointer.va_rawsize = size + VARHDRSZ;
	pointer.va_extinfo = size;
	pointer.va_valueid = lsm_value_write(rel, table, (char *) new->record + fixed, size,
										 &lsm_pointer_generation(&pointer));
	lsm_note_generation(&new->generation, lsm_pointer_generation(&pointer));
	new->whole = new->record;
	new->whole_len = new->len;
	new->len = fixed + sizeof(pointer);
	new->record = palloc(new->len);
	memcpy(new->record, new->whole, fixed);
	memcpy((char *) new->record + fixed, &pointer, sizeof(pointer));
	new->record->info |= LSM_REC_SPILLED;
}

/*
 * Make a record from its fixed part (natts, HASNULL, DELTA, LARGE are set here)
 * and columns; with cols only those.  DELETE, MOVED and LOCK have no columns:
 * values is NULL.  Palloc'd.  What is large is written to the file here; with
 * large (*large is NULL at first, palloc'd) it is remembered, for the case that
 * the change has to be judged again and another record formed.
 */
void
lsm_record_form(Relation rel, LsmTable *table, const LsmRecord *head, Datum *values, bool *isnull,
				const bits8 *cols, LsmPointer **large, LsmNewRecord *new)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	LsmRecord	fixed = *head;
	LsmForming	form = {0};
	bool		hasnull = cols != NULL;
	bool		external = large != NULL && *large != NULL;
	Size		data_offset;
	Size		data_len;
	uint16		infomask = 0;

	new->whole = NULL;
	new->borrowed = false;
	new->near = NULL;
	new->generation = 0;
	if (values == NULL)
	{
		fixed.natts = 0;
		new->len = SizeOfLsmRecord;
		new->record = palloc(new->len);
		memcpy(new->record, &fixed, new->len);
		return;
	}

	fixed.natts = tupdesc->natts;
	form.rel = rel;
	form.table = table;
	form.tupdesc = tupdesc;
	form.large = large;
	form.stored = palloc(tupdesc->natts * sizeof(Datum));
	form.absent = palloc(tupdesc->natts * sizeof(bool));
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		form.stored[i] = values[i];
		form.absent[i] = isnull[i] || att->attisdropped ||
			(cols != NULL && !lsm_map_has(cols, i));
		if (form.absent[i])
			hasnull = true;
		else if (att->attlen == -1 && VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			external = true;
	}
	if (hasnull)
		fixed.info |= LSM_REC_HASNULL;
	if (cols != NULL)
		fixed.info |= LSM_REC_DELTA;
	data_offset = lsm_record_data_offset(&fixed);
	if (external)
		lsm_form_external(&form);
	data_len = heap_compute_data_size(tupdesc, form.stored, form.absent);
	if (data_offset + data_len > LSM_MAX_RECORD)
		data_len = lsm_form_shrink(&form, LSM_MAX_RECORD - data_offset);
	if (data_offset + data_len > LSM_MAX_SPILLED)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too large for table \"%s\" of access method \"lsm\"",
						RelationGetRelationName(rel)),
				 errdetail("It takes %zu bytes besides the large values that are stored by themselves, the largest possible is %zu.",
						   data_offset + data_len, (Size) LSM_MAX_SPILLED),
				 errhint("Values of columns with storage PLAIN are never stored by themselves.")));
	if (form.generation != 0)
		fixed.info |= LSM_REC_LARGE;
	new->generation = form.generation;

	new->len = data_offset + data_len;
	new->record = palloc0(new->len);
	memcpy(new->record, &fixed, lsm_record_fixed(&fixed));
	if (cols != NULL)
		memcpy((char *) new->record + lsm_record_fixed(&fixed), cols, lsm_map_bytes(fixed.natts));
	heap_fill_tuple(tupdesc, form.stored, form.absent, (char *) new->record + data_offset, data_len,
					&infomask, hasnull ? (bits8 *) lsm_record_nulls(new->record) : NULL);
	pfree(form.stored);
	pfree(form.absent);
	if (form.context != NULL)
		MemoryContextDelete(form.context);
	if (new->len > LSM_MAX_RECORD)
		lsm_record_spill(rel, table, new);
}

void
lsm_record_free(LsmNewRecord *new)
{
	if (new->borrowed)
		return;
	if (new->whole != NULL)
		pfree(new->whole);
	pfree(new->record);
}

/* How a varlena that is not external lies in a record: like in a heap tuple.  Where it begins. */
static inline char *
lsm_form_varlena(Form_pg_attribute att, const char *datum, char *buf, Size *at)
{
	char	   *start = buf + *at;
	Size		len;

	if (VARATT_IS_SHORT(datum))
	{
		len = VARSIZE_SHORT(datum);
		memcpy(start, datum, len);
	}
	else if (att->attstorage != TYPSTORAGE_PLAIN && VARATT_CAN_MAKE_SHORT(datum))
	{
		len = VARATT_CONVERTED_SHORT_SIZE(datum);
		SET_VARSIZE_SHORT(start, len);
		memcpy(start + VARHDRSZ_SHORT, VARDATA(datum), len - VARHDRSZ_SHORT);
	}
	else
	{
		start = buf + att_align_nominal(*at, att->attalign);
		len = VARSIZE(datum);
		memcpy(start, datum, len);
	}
	*at = start - buf + len;
	return start;
}

/*
 * Make an INSERT record, but for xid and cid, in a buffer with that room; values that are not passed
 * by value point into it then, as far as it has got.  False: the columns are
 * not fit for it, as one is large, or somewhere else; they need lsm_record_form().  *len is 0 where
 * there may be too little room.
 *
 * This is what heap_compute_data_size() and heap_fill_tuple() do, in one go: every row that is
 * loaded comes here.
 */
bool
lsm_record_form_plain(TupleDesc tupdesc, Datum *values, const bool *isnull, char *buf,
					  Size room, Size *len)
{
	LsmRecord	fixed = {.info = LSM_REC_INSERT,.natts = tupdesc->natts};
	bits8	   *nulls = NULL;
	Size		at;

	if (memchr(isnull, true, tupdesc->natts) != NULL)
		fixed.info |= LSM_REC_HASNULL;
	at = lsm_record_data_offset(&fixed);
	*len = 0;
	if (at > room)
		return true;
	memset(buf, 0, at);
	memcpy(buf, &fixed, SizeOfLsmInsertRecord);
	if (fixed.info & LSM_REC_HASNULL)
		nulls = (bits8 *) lsm_record_nulls((LsmRecord *) buf);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		const char *datum = DatumGetPointer(values[i]);
		Size		size;

		if (isnull[i])
			continue;
		if (att->attisdropped || (att->attlen == -1 && VARATT_IS_EXTERNAL(datum)))
			return false;
		if (nulls != NULL)
			nulls[i / 8] |= 1 << (i % 8);
		size = att->attlen > 0 ? (Size) att->attlen :
			att->attlen == -1 ? VARSIZE_ANY(datum) : strlen(datum) + 1;
		if (at + size + MAXIMUM_ALIGNOF > room)
			return size <= LSM_MAX_RECORD;
		memset(buf + at, 0, MAXIMUM_ALIGNOF);	/* what alignment leaves out */
		if (att->attlen == -1)
		{
			values[i] = PointerGetDatum(lsm_form_varlena(att, datum, buf, &at));
			continue;
		}
		at = att_align_nominal(at, att->attalign);
		if (att->attbyval)
			store_att_byval(buf + at, values[i], att->attlen);
		else
		{
			memcpy(buf + at, datum, size);
			values[i] = PointerGetDatum(buf + at);
		}
		at += size;
	}
	Assert(at == lsm_record_data_offset(&fixed) +
		   heap_compute_data_size(tupdesc, values, (bool *) isnull));
	*len = at;
	return true;
}

/* How many bytes the columns of a record take that has been made so. */
Size
lsm_record_columns_len(const LsmRecord *record, Size len)
{
	return len - lsm_record_data_offset(record);
}

/*
 * Make a record of the whole row from its fixed part and a record that lsm_record_form_plain() has
 * made.  Palloc'd.
 */
void
lsm_record_form_again(const LsmRecord *head, const LsmRecord *formed, Size formed_len,
					  LsmNewRecord *new)
{
	LsmRecord	fixed = *head;
	Size		columns_len = lsm_record_columns_len(formed, formed_len);
	Size		data_offset;

	fixed.natts = formed->natts;
	fixed.info |= formed->info & LSM_REC_HASNULL;
	data_offset = lsm_record_data_offset(&fixed);
	Assert(data_offset + columns_len <= LSM_MAX_RECORD);
	new->whole = NULL;
	new->borrowed = false;
	new->near = NULL;
	new->generation = 0;
	new->len = data_offset + columns_len;
	new->record = palloc0(new->len);
	memcpy(new->record, &fixed, lsm_record_fixed(&fixed));
	if (fixed.info & LSM_REC_HASNULL)
		memcpy((char *) lsm_record_nulls(new->record), lsm_record_nulls(formed),
			   lsm_map_bytes(fixed.natts));
	memcpy((char *) new->record + data_offset,
		   (const char *) formed + lsm_record_data_offset(formed), columns_len);
}

/* Write a value of another generation again, for the active one. */
static void
lsm_record_renew_value(Relation rel, LsmTable *table, LsmNewRecord *new, char *datum)
{
	LsmPointer	pointer;

	lsm_pointer_get(datum, &pointer);
	if (lsm_pointer_generation(&pointer) != table->shared->generation)
	{
		uint32		size = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
		char	   *bytes = palloc(size);

		lsm_value_read(rel, table, pointer.va_valueid, lsm_pointer_generation(&pointer), size, 0,
					   size, LSM_READER_POINT, bytes);
		pointer.va_valueid = lsm_value_write(rel, table, bytes, size,
											 &lsm_pointer_generation(&pointer));
		lsm_pointer_set(datum, &pointer);
		pfree(bytes);
	}
	lsm_note_generation(&new->generation, lsm_pointer_generation(&pointer));
}

/*
 * The generation in which the record's large values were written is active no
 * more: write them again for the one that is.
 */
void
lsm_record_renew(Relation rel, LsmTable *table, LsmNewRecord *new)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	int			natts = Min(tupdesc->natts, new->record->natts);

	CHECK_FOR_INTERRUPTS();
	if (new->whole != NULL)
	{
		pfree(new->record);
		new->record = new->whole;
		new->len = new->whole_len;
		new->whole = NULL;
	}
	new->generation = 0;
	if (new->record->info & LSM_REC_LARGE)
	{
		Datum	   *values = palloc(natts * sizeof(Datum));
		bool	   *isnull = palloc(natts * sizeof(bool));
		Size		offset = 0;

		(void) lsm_record_deform_from(tupdesc, new->record, 0, natts, &offset, values, isnull);
		for (int i = 0; i < natts; i++)
			if (!isnull[i] && TupleDescAttr(tupdesc, i)->attlen == -1 &&
				VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
				lsm_record_renew_value(rel, table, new, DatumGetPointer(values[i]));
		pfree(values);
		pfree(isnull);
	}
	if (new->len > LSM_MAX_RECORD)
		lsm_record_spill(rel, table, new);
}

/* ---- reading ---- */

/* A record that has been spilled as it was before; palloc'd. */
LsmRecord *
lsm_record_load(Relation rel, LsmTable *table, const LsmRecord *record, Size *len)
{
	Size		fixed = lsm_record_fixed(record);
	LsmPointer	pointer;
	LsmRecord  *whole;

	memcpy(&pointer, (const char *) record + fixed, sizeof(pointer));
	*len = fixed + pointer.va_extinfo;
	whole = palloc(*len);
	memcpy(whole, record, fixed);
	whole->info &= ~LSM_REC_SPILLED;
	lsm_value_read(rel, table, pointer.va_valueid, lsm_pointer_generation(&pointer),
				   pointer.va_extinfo, 0, pointer.va_extinfo, LSM_READER_POINT,
				   (char *) whole + fixed);
	return whole;
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
