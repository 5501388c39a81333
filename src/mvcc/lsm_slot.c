/*-------------------------------------------------------------------------
 *
 * lsm_slot.c
 *	  Tuple table slots for rows of lsm tables.
 *
 * A slot refers to a full version (a copy of a record of the row log or of a row block,
 * or a row of a pinned block) and perhaps to a DELTA on top of it; columns are decoded when
 * asked for.  Filled by others (executor, triggers) it is like a virtual slot.
 * Large values come out as TOAST pointers (lsm_value.h), so that whoever sorts,
 * joins or samples rows carries no more of them than with heap.
 *
 * THE SLOT AT HAND
 *	  An UPDATE reads a row three times: the scan, the executor that fetches by name what it
 *	  is about to change, and lsm_tuple_update(), which compares.  In one transaction a name
 *	  stands for one version (I7), whose columns never change, so whoever has got it with its
 *	  name does not need to look for it again.  The slot that has last got a version by a
 *	  fetch is at hand until it is cleared, gets something else, or a change of ours, a plan,
 *	  or the end of a transaction or subtransaction comes between.  Only versions are noted
 *	  that are committed or our own: what is being made by others may be rolled back.
 *	  Of what others do to the row meanwhile xmax tells only as of the scan.  If the version was
 *	  the row's newest record, a change of it is judged by that (lsm_row_judge_noted()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "lsm_mvcc.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"
#include "utils/relcache.h"

/* Buffers for copies of records are at least so long. */
#define LSM_SLOT_LEAST_BUF		512

typedef struct LsmSlot
{
	TupleTableSlot base;
	bool		stored;			/* refers to a stored row: has system columns */
	uint64		xid;			/* 0: frozen */
	uint64		xmin;			/* xid, or what it was; 0: not known */
	uint32		cid;
	uint64		xmax;
	uint32		cmax;
	int			natts;			/* columns that the version knows of */
	/* where the full version is */
	LsmRecord  *record;			/* in recbuf, or NULL */
	Size		offset;			/* of the next column of it */
	int			decoded;		/* columns of it decoded so far */
	char	   *recbuf;
	Size		recbuf_len;
	LsmCachedBlock *cached;		/* pinned, or NULL */
	LsmPinHolder cached_holder;
	int			row;
	bool		out_of_reach;	/* the version is known to be there, no more */
	bool		whole_columns;	/* a scan: decode whole columns of the block */
	bool		by_columns;		/* see lsm_slot_begin_columns() */
	/* columns that are decoded of a block, if not all are (lsm_asked.c) */
	const int16 *asked;			/* from 0; NULL: all */
	int			nasked;
	bool		asked_copies;	/* nor are they in copies */
	bool		partial;		/* some before tts_nvalid are not */
	struct IndexScanState *index_scan;	/* whose slot it is, if that is of use */
	bool		ask_later;		/* asked is not known yet, but that scan tells */
	char	   *room;			/* for values that are built of a block, or NULL */
	/* large values of the full version */
	bool		large;			/* it has some */
	Oid			relid;
	LsmTable   *table;			/* if it has some */
	uint32		salt;			/* of live pointers */
	char	   *pointers;		/* a place for the pointer of each column, or NULL */
	/* DELTA on top */
	bool		has_delta;
	bool		awaits_full;	/* lsm_slot_store() comes next */
	int			delta_natts;
	bool	   *delta_has;		/* natts of the tuple descriptor, kept as */
	Datum	   *delta_values;	/* the next two until the slot is released */
	bool	   *delta_isnull;
	char	   *delta_buf;		/* for a copy of its record, kept too, */
	Size		delta_buf_len;	/* so many bytes */
	MemoryContext delta_context;	/* what else it takes */
	char	   *data;			/* materialized values */
	Size		formed_len;		/* materialized as a record (in recbuf), of that
								 * length; 0: it is not */
	/* for the slot at hand */
	Size		record_len;		/* of record */
	Size		delta_len;		/* of the DELTA's record in delta_buf; 0: it is elsewhere */
} LsmSlot;

static LsmSlot *lsm_slot_at_hand;	/* or NULL */
static LsmTid lsm_slot_name;	/* what was noted: the executor may set the slot's */
static Oid	lsm_slot_relid;
static LsmNoted lsm_slot_known;

void		(*lsm_slot_decide_asked) (struct IndexScanState *scan) = NULL;

static void
lsm_slot_init(TupleTableSlot *slot)
{
	/* it comes with zeros, which is nothing in all there is */
}

static void
lsm_slot_release(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (lsm_slot_at_hand == lslot)
		lsm_slot_at_hand = NULL;
	if (lslot->cached != NULL)
	{
		lsm_block_unpin(lslot->cached, lslot->cached_holder);
		lslot->cached = NULL;
	}
	if (lslot->has_delta)
	{
		if (lslot->delta_context != NULL)
			MemoryContextReset(lslot->delta_context);
		lslot->has_delta = false;
	}
	lslot->awaits_full = false;
	lslot->record = NULL;
	lslot->formed_len = 0;
	lslot->out_of_reach = false;
	lslot->by_columns = false;
	lslot->partial = false;
}

/* Have recbuf hold so many bytes. */
static void
lsm_slot_make_recbuf(LsmSlot *lslot, Size len)
{
	if (lslot->recbuf_len >= len)
		return;
	if (lslot->recbuf != NULL)
		pfree(lslot->recbuf);
	lslot->recbuf = NULL;
	lslot->recbuf_len = 0;
	lslot->recbuf = MemoryContextAlloc(lslot->base.tts_mcxt, Max(len, LSM_SLOT_LEAST_BUF));
	lslot->recbuf_len = Max(len, LSM_SLOT_LEAST_BUF);
}

static void
lsm_slot_clear(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (TTS_EMPTY(slot) && lslot->record == NULL && lslot->cached == NULL && !lslot->has_delta)
	{
		/* as it was made, or has been cleared; what an error has left is not */
		Assert(lslot->formed_len == 0 && !TTS_SHOULDFREE(slot) && lsm_slot_at_hand != lslot);
		slot->tts_nvalid = 0;
		ItemPointerSetInvalid(&slot->tts_tid);
		return;
	}
	lsm_slot_release(slot);
	if (unlikely(TTS_SHOULDFREE(slot)))
	{
		pfree(lslot->data);
		lslot->data = NULL;
		slot->tts_flags &= ~TTS_FLAG_SHOULDFREE;
	}
	lslot->stored = false;
	slot->tts_nvalid = 0;
	slot->tts_flags |= TTS_FLAG_EMPTY;
	ItemPointerSetInvalid(&slot->tts_tid);
}

static void
lsm_slot_release_all(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	/* it has been cleared, and nobody looks at it again */
	Assert(lslot->cached == NULL && !lslot->has_delta && lsm_slot_at_hand != lslot);
	if (lslot->recbuf != NULL)
		pfree(lslot->recbuf);
	if (lslot->pointers != NULL)
		pfree(lslot->pointers);
	if (lslot->room != NULL)
		pfree(lslot->room);
	if (lslot->delta_has != NULL)
	{
		pfree(lslot->delta_values);
		if (lslot->delta_buf_len > 0)
			pfree(lslot->delta_buf);
		if (lslot->delta_context != NULL)
			MemoryContextDelete(lslot->delta_context);
	}
}

/* Room for values that are built: LSM_BLOCK_VALUE_BYTES for each column. */
char *
lsm_slot_room(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (unlikely(lslot->room == NULL))
		lslot->room = MemoryContextAlloc(slot->tts_mcxt, slot->tts_tupleDescriptor->natts *
										 LSM_BLOCK_VALUE_BYTES);
	return lslot->room;
}

/*
 * A column of a block's row.  That of a dropped column is not asked for: the
 * block has its value by the type that it was written with, which may not be
 * what the slot's descriptor says (pg_upgrade makes dropped columns anew with
 * attbyval off).
 */
static inline Datum
lsm_slot_block_value(TupleDesc tupdesc, LsmBlock *block, int row, int attnum, bool *isnull)
{
	if (TupleDescAttr(tupdesc, attnum - 1)->attisdropped)
	{
		*isnull = true;
		return (Datum) 0;
	}
	return lsm_block_value(block, row, attnum, isnull);
}

/* Columns from + 1 to to. */
static inline void
lsm_slot_block_values(TupleTableSlot *slot, LsmBlock *block, int row, int from, int to)
{
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;
	char	   *room = lsm_slot_room(slot);

	while (from < to)
	{
		int			end = from;

		while (end < to && !TupleDescCompactAttr(tupdesc, end)->attisdropped)
			end++;
		lsm_block_values_in(block, row, from, end, slot->tts_values, slot->tts_isnull, room);
		for (; end < to && TupleDescCompactAttr(tupdesc, end)->attisdropped; end++)
		{
			slot->tts_values[end] = (Datum) 0;
			slot->tts_isnull[end] = true;
		}
		from = end;
	}
}

/*
 * Columns from + 1 to to, as far as they are asked for, and no DELTA has them; the
 * others seem null.
 */
static void
lsm_slot_asked_values(LsmSlot *lslot, LsmBlock *block, int from, int to)
{
	TupleTableSlot *slot = &lslot->base;
	char	   *room = lsm_slot_room(slot);

	if (from >= to)
		return;
	memset(slot->tts_isnull + from, true, (to - from) * sizeof(bool));
	memset(slot->tts_values + from, 0, (to - from) * sizeof(Datum));
	lslot->partial = true;
	if (lslot->nasked > 1 && !lslot->whole_columns)
		lsm_block_foresee_row(block, lslot->row, lslot->asked, lslot->nasked);
	for (int i = 0; i < lslot->nasked && lslot->asked[i] < to; i++)
	{
		int			at = lslot->asked[i];

		if (at < from ||
			(lslot->has_delta && at < lslot->delta_natts && lslot->delta_has[at]))
			continue;
		if (lslot->whole_columns)
		{
			Datum	   *values;
			bool	   *isnull;

			lsm_block_column(block, at + 1, &values, &isnull);
			slot->tts_values[at] = values[lslot->row];
			slot->tts_isnull[at] = isnull[lslot->row];
		}
		else
			slot->tts_values[at] = lsm_block_value_in(block, lslot->row, at + 1,
													  &slot->tts_isnull[at],
													  room + at * LSM_BLOCK_VALUE_BYTES);
	}
}

/* Columns that the version is older than. */
static void
lsm_slot_missing(TupleTableSlot *slot, int from, int natts)
{
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;

	for (int i = from; i < natts; i++)
		slot->tts_values[i] = getmissingattr(tupdesc, i + 1, &slot->tts_isnull[i]);
}

/*
 * Make the pointers among columns from..natts-1 live: those of a record in our
 * copy of it, those of a block, which others read too, in a place of our own.
 */
static pg_noinline void
lsm_slot_resolve(LsmSlot *lslot, int from, int natts)
{
	TupleTableSlot *slot = &lslot->base;
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;

	for (int i = from; i < natts; i++)
	{
		char	   *datum = DatumGetPointer(slot->tts_values[i]);

		if (slot->tts_isnull[i] || TupleDescAttr(tupdesc, i)->attlen != -1 ||
			!VARATT_IS_EXTERNAL(datum))
			continue;
		if (lslot->record == NULL)
		{
			char	   *place;

			if (lslot->pointers == NULL)
				lslot->pointers = MemoryContextAlloc(slot->tts_mcxt,
													 tupdesc->natts * TOAST_POINTER_SIZE);
			place = lslot->pointers + i * TOAST_POINTER_SIZE;
			memcpy(place, datum, TOAST_POINTER_SIZE);
			slot->tts_values[i] = PointerGetDatum(place);
			datum = place;
		}
		lsm_value_resolve(lslot->table, datum, lslot->relid, lslot->salt,
						  lslot->record == NULL ? lslot->cached : NULL);
	}
}

/* Which columns are asked for is found out when it matters for the first time. */
static inline void
lsm_slot_learn_asked(LsmSlot *lslot)
{
	if (unlikely(lslot->ask_later))
	{
		lslot->ask_later = false;
		lsm_slot_decide_asked(lslot->index_scan);
	}
}

static void
lsm_slot_getsomeattrs(TupleTableSlot *slot, int natts)
{
	LsmSlot    *lslot = (LsmSlot *) slot;
	int			from = slot->tts_nvalid;
	int			have;

	Assert(!TTS_EMPTY(slot));

	if (lslot->record != NULL)
	{
		int			decoded = lslot->decoded;

		have = lsm_record_deform_from(slot->tts_tupleDescriptor, lslot->record,
									  lslot->decoded, natts, &lslot->offset,
									  slot->tts_values, slot->tts_isnull);
		lslot->decoded = Max(lslot->decoded, have);
		if (lslot->large)
			lsm_slot_resolve(lslot, decoded, lslot->decoded);
	}
	else if (lslot->cached != NULL)
	{
		LsmBlock   *block = lslot->cached->block;

		/* the caller's context may be one that cannot free (a sort's) */
		MemoryContext caller = MemoryContextSwitchTo(slot->tts_mcxt);

		have = Min(natts, lslot->natts);
		have = Min(have, lsm_block_natts(block));
		lsm_slot_learn_asked(lslot);
		if (lslot->asked != NULL)
			lsm_slot_asked_values(lslot, block, from, have);
		else if (lslot->whole_columns)
		{
			for (int i = from; i < have; i++)
			{
				Datum	   *values;
				bool	   *isnull;

				if (TupleDescAttr(slot->tts_tupleDescriptor, i)->attisdropped)
				{
					slot->tts_values[i] = (Datum) 0;
					slot->tts_isnull[i] = true;
					continue;
				}
				lsm_block_column(block, i + 1, &values, &isnull);
				slot->tts_values[i] = values[lslot->row];
				slot->tts_isnull[i] = isnull[lslot->row];
			}
		}
		else
			lsm_slot_block_values(slot, block, lslot->row, from, have);
		if (lslot->large)
			lsm_slot_resolve(lslot, from, have);
		MemoryContextSwitchTo(caller);
	}
	else
	{
		if (lslot->out_of_reach)
			elog(ERROR, "columns of a row of a store are wanted where nobody can wait for them");
		have = from;
	}
	if (have < natts)
		lsm_slot_missing(slot, Max(have, from), natts);
	if (lslot->has_delta)
	{
		for (int i = from; i < Min(natts, lslot->delta_natts); i++)
		{
			if (lslot->delta_has[i])
			{
				slot->tts_values[i] = lslot->delta_values[i];
				slot->tts_isnull[i] = lslot->delta_isnull[i];
			}
		}
	}
	slot->tts_nvalid = natts;
}

/* Decode what has been left out, and the rest: somebody is about to take the row as a whole. */
static void
lsm_slot_complete(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;
	const int16 *asked = lslot->asked;
	bool		ask_later = lslot->ask_later;

	if (!lslot->partial &&
		(lslot->cached == NULL || (lslot->asked == NULL && !lslot->ask_later)))
		return;
	lslot->asked = NULL;
	lslot->ask_later = false;
	slot->tts_nvalid = 0;
	lsm_slot_getsomeattrs(slot, slot->tts_tupleDescriptor->natts);
	lslot->asked = asked;
	lslot->ask_later = ask_later;
	lslot->partial = false;
}

/*
 * The xid that has written a row, which may be frozen.  What COPY FREEZE writes has none; but to
 * the transaction whose file it is, it is its own.
 */
static TransactionId
lsm_slot_xmin(const LsmSlot *lslot)
{
	TransactionId own = GetTopTransactionIdIfAny();
	Relation	rel;

	if (lslot->xmin != 0)
		return (TransactionId) lslot->xmin;
	if (!TransactionIdIsValid(own) || !OidIsValid(lslot->base.tts_tableOid))
		return FrozenTransactionId;
	rel = RelationIdGetRelation(lslot->base.tts_tableOid);
	if (!RelationIsValid(rel))
		return FrozenTransactionId;
	if (lsm_table_open(rel)->frozen_by != lsm_xact_number)
		own = FrozenTransactionId;
	RelationClose(rel);
	return own;
}

static Datum
lsm_slot_getsysattr(TupleTableSlot *slot, int attnum, bool *isnull)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	if (!lslot->stored)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot retrieve a system column in this context")));
	*isnull = false;
	switch (attnum)
	{
		case MinTransactionIdAttributeNumber:
			return TransactionIdGetDatum(lsm_slot_xmin(lslot));
		case MaxTransactionIdAttributeNumber:
			return TransactionIdGetDatum((TransactionId) lslot->xmax);
		case MinCommandIdAttributeNumber:
			return CommandIdGetDatum(lslot->cid);
		case MaxCommandIdAttributeNumber:
			return CommandIdGetDatum(lslot->cmax);
		default:
			elog(ERROR, "invalid system attribute %d", attnum);
	}
	return 0;					/* keep compiler quiet */
}

pg_attribute_unused()
static bool
lsm_slot_is_current_xact(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (!lslot->stored)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("don't have transaction information for this type of tuple")));
	/* a frozen one that is known may be of an epoch long past */
	return (lslot->xid != 0 || lslot->xmin == 0) &&
		TransactionIdIsCurrentTransactionId(lsm_slot_xmin(lslot));
}

/*
 * Materialize columns as the record that an INSERT of them will write, as rows that are
 * collected for that are copied once so, not twice.  False: they are not fit for it.
 */
static bool
lsm_slot_form(LsmSlot *lslot)
{
	TupleTableSlot *slot = &lslot->base;
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;
	Size		room;
	Size		len;
	bool		formed;

	if (lslot->record != NULL || slot->tts_nvalid < tupdesc->natts)
		return false;			/* columns may be in recbuf */
	lsm_slot_make_recbuf(lslot, 1);
	room = Min(lslot->recbuf_len, LSM_MAX_RECORD);
	formed = lsm_record_form_plain(tupdesc, slot->tts_values, slot->tts_isnull, lslot->recbuf,
								   room, &len);
	while (formed && len == 0 && room < LSM_MAX_RECORD)
	{
		/* values point into what has been too small, up to where it has got */
		char	   *small = lslot->recbuf;

		lslot->recbuf = NULL;
		lslot->recbuf_len = 0;
		lsm_slot_make_recbuf(lslot, 2 * room);
		room = Min(lslot->recbuf_len, LSM_MAX_RECORD);
		formed = lsm_record_form_plain(tupdesc, slot->tts_values, slot->tts_isnull, lslot->recbuf,
									   room, &len);
		pfree(small);
	}
	if (!formed || len == 0)
		return false;
	lsm_slot_release(slot);
	lslot->record = (LsmRecord *) lslot->recbuf;
	lslot->formed_len = len;
	lslot->natts = lslot->decoded = tupdesc->natts;
	lslot->large = false;
	return true;
}

/* Make the slot independent of blocks and of memory that is not its own. */
static void
lsm_slot_materialize(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;
	Size		size = 0;
	char	   *data;

	if (TTS_SHOULDFREE(slot) || lslot->formed_len > 0)
		return;
	lsm_slot_complete(slot);
	if (slot->tts_nvalid < tupdesc->natts &&
		(lslot->record || lslot->cached || lslot->out_of_reach))
		lsm_slot_getsomeattrs(slot, tupdesc->natts);
	if (lsm_slot_form(lslot))
		return;

	for (int pass = 0; pass < 2; pass++)
	{
		data = lslot->data;
		for (int i = 0; i < tupdesc->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(tupdesc, i);
			Datum		value = slot->tts_values[i];
			Size		len;

			if (att->attbyval || slot->tts_isnull[i])
				continue;
			if (att->attlen == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
			{
				ExpandedObjectHeader *expanded = DatumGetEOHP(value);

				len = EOH_get_flat_size(expanded);
				if (pass == 1)
				{
					data = (char *) att_align_nominal(data, att->attalign);
					EOH_flatten_into(expanded, data, len);
				}
				else
					size = att_align_nominal(size, att->attalign);
			}
			else
			{
				len = att_addlength_datum(0, att->attlen, value);
				if (pass == 1)
				{
					data = (char *) att_align_nominal(data, att->attalign);
					memcpy(data, DatumGetPointer(value), len);
				}
				else
					size = att_align_nominal(size, att->attalign);
			}
			if (pass == 1)
			{
				slot->tts_values[i] = PointerGetDatum(data);
				data += len;
			}
			else
				size += len;
		}
		if (pass == 0)
		{
			lslot->data = MemoryContextAllocHuge(slot->tts_mcxt, MAXALIGN(size) + 8);
			slot->tts_flags |= TTS_FLAG_SHOULDFREE;
		}
	}
	lsm_slot_release(slot);
}

static void
lsm_slot_copyslot(TupleTableSlot *dst, TupleTableSlot *src)
{
	LsmSlot    *ldst = (LsmSlot *) dst;
	TupleDesc	tupdesc = dst->tts_tupleDescriptor;

	if (src->tts_ops == &LsmSlotOps)
		lsm_slot_complete(src);
	slot_getallattrs(src);
	lsm_slot_clear(dst);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		dst->tts_values[i] = src->tts_values[i];
		dst->tts_isnull[i] = src->tts_isnull[i];
	}
	dst->tts_nvalid = tupdesc->natts;
	dst->tts_flags &= ~TTS_FLAG_EMPTY;
	if (src->tts_ops == &LsmSlotOps && ((LsmSlot *) src)->stored)
	{
		LsmSlot    *lsrc = (LsmSlot *) src;

		ldst->stored = true;
		ldst->xid = lsrc->xid;
		ldst->xmin = lsrc->xmin;
		ldst->cid = lsrc->cid;
		ldst->xmax = lsrc->xmax;
		ldst->cmax = lsrc->cmax;
	}
	lsm_slot_materialize(dst);
	dst->tts_tid = src->tts_tid;
	dst->tts_tableOid = src->tts_tableOid;
}

static HeapTuple
lsm_slot_copy_heap_tuple(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;
	HeapTuple	tuple;

	if (!lslot->asked_copies)
		lsm_slot_complete(slot);
	slot_getallattrs(slot);
	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);
	tuple->t_self = slot->tts_tid;
	tuple->t_tableOid = slot->tts_tableOid;
	if (lslot->stored)
	{
		/* heap_form_tuple() makes a composite datum; this is a stored row */
		tuple->t_data->t_infomask &= ~HEAP_XACT_MASK;
		tuple->t_data->t_infomask2 &= ~HEAP2_XACT_MASK;
		if (lslot->xmax == 0)
			tuple->t_data->t_infomask |= HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmin(tuple->t_data, lsm_slot_xmin(lslot));
		if (lslot->xid == 0)
			HeapTupleHeaderSetXminFrozen(tuple->t_data);
		HeapTupleHeaderSetCmin(tuple->t_data, lslot->cid);
		HeapTupleHeaderSetXmax(tuple->t_data, (TransactionId) lslot->xmax);
	}
	return tuple;
}

static MinimalTuple
lsm_slot_copy_minimal_tuple(LSM_SLOT_COPY_MINIMAL_ARGS)
{
	lsm_slot_complete(slot);
	slot_getallattrs(slot);
	return lsm_compat_form_minimal(slot->tts_tupleDescriptor, slot->tts_values,
								   slot->tts_isnull);
}

const TupleTableSlotOps LsmSlotOps = {
	.base_slot_size = sizeof(LsmSlot),
	.init = lsm_slot_init,
	.release = lsm_slot_release_all,
	.clear = lsm_slot_clear,
	.getsomeattrs = lsm_slot_getsomeattrs,
	.getsysattr = lsm_slot_getsysattr,
	LSM_SLOT_IS_CURRENT_XACT(lsm_slot_is_current_xact)
	.materialize = lsm_slot_materialize,
	.copyslot = lsm_slot_copyslot,
	.get_heap_tuple = NULL,
	.get_minimal_tuple = NULL,
	.copy_heap_tuple = lsm_slot_copy_heap_tuple,
	.copy_minimal_tuple = lsm_slot_copy_minimal_tuple,
};

static void
lsm_slot_set_head(LsmSlot *lslot, const LsmRowHead *head)
{
	if (unlikely(lsm_slot_at_hand == lslot))
		lsm_slot_at_hand = NULL;
	lslot->stored = true;
	lslot->xid = head->xid;
	lslot->xmin = head->xmin;
	lslot->cid = head->cid;
	lslot->natts = head->natts;
	lslot->large = (head->info & LSM_REC_LARGE) != 0;
	lslot->xmax = 0;
	lslot->cmax = 0;
	lslot->base.tts_flags &= ~TTS_FLAG_EMPTY;
	lslot->base.tts_nvalid = 0;
	lslot->partial = false;
}

/* Arrays for a DELTA's columns: one piece of memory, which begins with the values. */
static void
lsm_slot_make_delta_arrays(LsmSlot *lslot)
{
	int			natts = lslot->base.tts_tupleDescriptor->natts;

	lslot->delta_values = MemoryContextAlloc(lslot->base.tts_mcxt,
											 natts * (sizeof(Datum) + 2 * sizeof(bool)) + 1);
	lslot->delta_isnull = (bool *) (lslot->delta_values + natts);
	lslot->delta_has = lslot->delta_isnull + natts;
}

/* What a DELTA takes besides, until the slot is cleared: most take nothing. */
static MemoryContext
lsm_slot_delta_context(LsmSlot *lslot)
{
	if (lslot->delta_context == NULL)
		lslot->delta_context = AllocSetContextCreate(lslot->base.tts_mcxt, "lsm delta",
													 ALLOCSET_SMALL_SIZES);
	return lslot->delta_context;
}

/* Have delta_buf hold so many bytes. */
static void
lsm_slot_make_delta_buf(LsmSlot *lslot, Size len)
{
	if (lslot->delta_buf_len >= len)
		return;
	if (lslot->delta_buf_len > 0)
		pfree(lslot->delta_buf);
	lslot->delta_buf_len = 0;
	lslot->delta_buf = MemoryContextAlloc(lslot->base.tts_mcxt, Max(len, LSM_SLOT_LEAST_BUF));
	lslot->delta_buf_len = Max(len, LSM_SLOT_LEAST_BUF);
}

/* Copy a DELTA's record: into the buffer that is kept, if it is not larger than a page. */
static LsmRecord *
lsm_slot_copy_delta(LsmSlot *lslot, const LsmVersion *delta)
{
	char	   *copy;

	if (delta->record_len > BLCKSZ)
		copy = MemoryContextAllocHuge(lsm_slot_delta_context(lslot), delta->record_len);
	else
	{
		lsm_slot_make_delta_buf(lslot, delta->record_len);
		copy = lslot->delta_buf;
		if (!(delta->head.info & LSM_REC_LARGE))
			lslot->delta_len = delta->record_len;
	}
	memcpy(copy, delta->record, delta->record_len);
	return (LsmRecord *) copy;
}

/*
 * First step of storing a version that is a DELTA: clear the slot and keep the
 * DELTA.  lsm_slot_store() with the full version must follow.
 */
void
lsm_slot_store_delta(TupleTableSlot *slot, Relation rel, const LsmVersion *delta)
{
	LsmSlot    *lslot = (LsmSlot *) slot;
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;
	MemoryContext caller;
	int			natts = Min(delta->head.natts, tupdesc->natts);

	lsm_slot_clear(slot);
	if (lslot->delta_has == NULL)
		lsm_slot_make_delta_arrays(lslot);
	memset(lslot->delta_has, 0, tupdesc->natts * sizeof(bool));
	lslot->has_delta = true;
	lslot->awaits_full = true;
	lslot->delta_natts = natts;
	lslot->delta_len = 0;
	if (delta->record != NULL)
	{
		Size		offset = 0;

		(void) lsm_record_deform_from(tupdesc, lsm_slot_copy_delta(lslot, delta), 0, natts,
									  &offset, lslot->delta_values, lslot->delta_isnull);
	}
	caller = CurrentMemoryContext;
	if (delta->record == NULL || (delta->head.info & LSM_REC_LARGE))
		MemoryContextSwitchTo(lsm_slot_delta_context(lslot));
	for (int i = 0; i < natts; i++)
	{
		if (i / 8 >= delta->head.cols_len || !(delta->head.cols[i / 8] & (1 << (i % 8))))
			continue;
		lslot->delta_has[i] = true;
		if (delta->record == NULL)
		{
			if (i < lsm_block_natts(delta->cached->block))
			{
				Datum		value = lsm_slot_block_value(tupdesc, delta->cached->block, delta->row,
														 i + 1, &lslot->delta_isnull[i]);

				lslot->delta_values[i] = lslot->delta_isnull[i] ? (Datum) 0 :
					datumCopy(value, TupleDescAttr(tupdesc, i)->attbyval,
							  TupleDescAttr(tupdesc, i)->attlen);
			}
			else
			{
				lslot->delta_values[i] = (Datum) 0;
				lslot->delta_isnull[i] = true;
			}
		}
		if ((delta->head.info & LSM_REC_LARGE) && !lslot->delta_isnull[i] &&
			TupleDescAttr(tupdesc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(lslot->delta_values[i])))
			lsm_value_resolve(lsm_table_open(rel), DatumGetPointer(lslot->delta_values[i]),
							  RelationGetRelid(rel), lsm_value_salt(rel),
							  delta->record == NULL ? delta->cached : NULL);
	}
	MemoryContextSwitchTo(caller);
	lsm_slot_set_head(lslot, &delta->head);
}

/* Large values of the full version are in that table's file. */
static inline void
lsm_slot_set_file(LsmSlot *lslot, Relation rel)
{
	lslot->relid = RelationGetRelid(rel);
	if (lslot->large)
	{
		lslot->table = lsm_table_open(rel);
		lslot->salt = lsm_value_salt(rel);
	}
}

/* Is the slot at a row of that block, with nothing else to let go of?  It keeps the pin. */
static inline bool
lsm_slot_has_pin(LsmSlot *lslot, LsmCachedBlock *cached)
{
	return lslot->cached == cached && lsm_pin_holder_is_now(&lslot->cached_holder) &&
		!TTS_SHOULDFREE(&lslot->base) && !lslot->has_delta && lslot->record == NULL;
}

/*
 * Store a full version, or the one that the slot's DELTA builds on.  The caller
 * names it with lsm_slot_set_name().
 */
void
lsm_slot_store(TupleTableSlot *slot, Relation rel, const LsmVersion *full,
			   uint64 xmax, uint32 cmax)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (!lslot->awaits_full)
	{
		if (full->record != NULL || full->cached == NULL || !lsm_slot_has_pin(lslot, full->cached))
			lsm_slot_clear(slot);
		lsm_slot_set_head(lslot, &full->head);
	}
	else
	{
		lslot->natts = full->head.natts;
		lslot->large = (full->head.info & LSM_REC_LARGE) != 0;
	}
	lsm_slot_set_file(lslot, rel);
	lslot->awaits_full = false;
	lslot->xmax = xmax;
	lslot->cmax = cmax;
	slot->tts_tableOid = RelationGetRelid(rel);
	if (full->record != NULL)
	{
		lsm_slot_make_recbuf(lslot, full->record_len);
		memcpy(lslot->recbuf, full->record, full->record_len);
		lslot->record = (LsmRecord *) lslot->recbuf;
		lslot->record_len = full->record_len;
		lslot->offset = 0;
		lslot->decoded = 0;
	}
	else if (full->cached == NULL)
		lslot->out_of_reach = true;
	else
	{
		if (lslot->cached == NULL)
		{
			lslot->cached = lsm_block_repin(full->cached);
			lslot->cached_holder = lsm_pin_holder();
		}
		lslot->row = full->row;
		lslot->whole_columns = false;
	}
}

/*
 * Of rows in blocks only the n columns asked, from 0 and ascending, will be looked at;
 * copies: of their copies as heap tuples, too.
 */
void
lsm_slot_ask(TupleTableSlot *slot, const int16 *asked, int n, bool copies)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	lslot->asked = asked;
	lslot->nasked = n;
	lslot->asked_copies = copies;
}

/* The slot is that of an index scan, of which rows can be foreseen (lsm_foresee.c). */
void
lsm_slot_set_index_scan(TupleTableSlot *slot, struct IndexScanState *scan)
{
	((LsmSlot *) slot)->index_scan = scan;
}

/* The scan whose slot it is tells later which columns are asked for (lsm_asked.c). */
void
lsm_slot_ask_later(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	lslot->ask_later = lslot->index_scan != NULL && lslot->asked == NULL;
}

/* NULL: it is not.  Also tells which columns are asked for. */
struct IndexScanState *
lsm_slot_index_scan(TupleTableSlot *slot, const int16 **asked, int *n)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	lsm_slot_learn_asked(lslot);
	*asked = lslot->asked;
	*n = lslot->nasked;
	return lslot->index_scan;
}

/* The full row that was stored is one of many that are read from its block. */
void
lsm_slot_set_whole_columns(TupleTableSlot *slot, bool whole_columns)
{
	((LsmSlot *) slot)->whole_columns = whole_columns;
}

/* For scans: a full row of a block, by whole columns if asked for. */
void
lsm_slot_store_row(TupleTableSlot *slot, Relation rel, LsmCachedBlock *cached,
				   int row, const LsmRowHead *head, bool whole_columns)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (!lsm_slot_has_pin(lslot, cached))
	{
		lsm_slot_clear(slot);
		lslot->cached = lsm_block_repin(cached);
		lslot->cached_holder = lsm_pin_holder();
	}
	lsm_slot_set_head(lslot, head);
	lsm_slot_set_file(lslot, rel);
	lslot->row = row;
	lslot->whole_columns = whole_columns;
	slot->tts_tableOid = RelationGetRelid(rel);
	lsm_slot_set_name(slot, lsm_version_name(head));
}

/*
 * For scans by column: the slot gets a row with that name, whose columns the caller
 * sets; those that it does not set are null.  It has no system columns but
 * ctid and tableoid.
 */
void
lsm_slot_begin_columns(TupleTableSlot *slot, Relation rel, LsmTid tid)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (!lslot->by_columns || TTS_SHOULDFREE(slot) || TTS_EMPTY(slot))
	{
		lsm_slot_clear(slot);
		memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
		lslot->by_columns = true;
		slot->tts_tableOid = RelationGetRelid(rel);
		slot->tts_flags &= ~TTS_FLAG_EMPTY;
	}
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	lsm_slot_set_name(slot, tid);
}

/*
 * The INSERT record that a slot was materialized as, of a relation with these columns, for the
 * caller to set xid, cid and flags in; the slot keeps it.  NULL: there is none.
 */
LsmRecord *
lsm_slot_formed(TupleTableSlot *slot, TupleDesc tupdesc, Size *len)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (slot->tts_ops != &LsmSlotOps || lslot->formed_len == 0 ||
		slot->tts_tupleDescriptor != tupdesc)
		return NULL;
	*len = lslot->formed_len;
	return lslot->record;
}

void
lsm_slot_set_name(TupleTableSlot *slot, LsmTid tid)
{
	lsm_tid_to_pointer(tid, &slot->tts_tid);
}

/* A slot whose columns have just been stored as a version with that TID; xmax: its locker. */
void
lsm_slot_set_inserted(TupleTableSlot *slot, LsmTid tid, uint64 xid, uint32 cid, uint64 xmax)
{
	lsm_slot_set_name(slot, tid);
	if (slot->tts_ops == &LsmSlotOps)
	{
		LsmSlot    *lslot = (LsmSlot *) slot;

		if (lsm_slot_at_hand == lslot)
			lsm_slot_at_hand = NULL;
		/* system columns are now those of the new version */
		lslot->stored = true;
		lslot->xid = lslot->xmin = xid;
		lslot->cid = cid;
		lslot->xmax = xmax;
		lslot->cmax = 0;
	}
}

/* ---- the slot at hand ---- */

/* That version has just been stored in the slot under a name, and is committed or our own. */
void
lsm_slot_note(TupleTableSlot *slot, const LsmNoted *noted)
{
	if (slot->tts_ops != &LsmSlotOps)
		return;
	lsm_slot_known = *noted;
	lsm_slot_at_hand = (LsmSlot *) slot;
	lsm_slot_name = lsm_tid_from_pointer(&slot->tts_tid);
	lsm_slot_relid = slot->tts_tableOid;
}

/* What was noted is of no use any more: what its name stands for, or its memory, may have gone. */
void
lsm_slot_forget(void)
{
	lsm_slot_at_hand = NULL;
}

/* The slot at hand, if it has the version of that name; else NULL. */
TupleTableSlot *
lsm_slot_find(Relation rel, LsmTid name)
{
	LsmSlot    *lslot = lsm_slot_at_hand;

	if (lslot == NULL || lsm_slot_name != name || lsm_slot_relid != RelationGetRelid(rel) ||
		lslot->base.tts_tableOid != lsm_slot_relid ||
		lsm_tid_from_pointer(&lslot->base.tts_tid) != name ||
		lslot->base.tts_tupleDescriptor->natts != RelationGetDescr(rel)->natts)
		return NULL;
	return &lslot->base;
}

/* What was noted of the version that lsm_slot_find() has found. */
const LsmNoted *
lsm_slot_noted(void)
{
	return &lsm_slot_known;
}

/* Does it give all columns of its row to whoever asks for them? */
bool
lsm_slot_is_whole(TupleTableSlot *slot)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	return lslot->asked == NULL && !lslot->ask_later && !lslot->out_of_reach;
}

/*
 * The TID of the full version that the version of that name is, or builds on, and how many
 * columns that one knows of, if the slot at hand has it from the view that the iterator works
 * with.  Else LSM_INVALID_TID.
 */
LsmTid
lsm_slot_full_tid(const LsmVersionIter *iter, LsmTid name, uint16 *natts)
{
	TupleTableSlot *slot = lsm_slot_find(iter->rel, name);

	if (slot == NULL || lsm_slot_known.epoch != iter->epoch ||
		lsm_slot_known.counter != iter->counter)
		return LSM_INVALID_TID;
	*natts = lsm_slot_known.full_natts;
	return lsm_slot_known.full_tid;
}

/*
 * The columns that the DELTA of the slot at hand has, a bit each, and how many it knows of; 0: there
 * is none.
 */
uint16
lsm_slot_delta_cols(TupleTableSlot *slot, bits8 *cols)
{
	LsmSlot    *lslot = (LsmSlot *) slot;

	if (lsm_slot_known.delta_cols != NULL)
	{
		memcpy(cols, lsm_slot_known.delta_cols, (lsm_slot_known.delta_natts + 7) / 8);
		return lsm_slot_known.delta_natts;
	}
	if (!lslot->has_delta)
		return 0;
	memset(cols, 0, (lslot->delta_natts + 7) / 8);
	for (int i = 0; i < lslot->delta_natts; i++)
		if (lslot->delta_has[i])
			cols[i / 8] |= 1 << (i % 8);
	return lslot->delta_natts;
}

/* A copy of a DELTA that has no large values. */
static void
lsm_slot_copy_noted_delta(LsmSlot *dst, const LsmSlot *src)
{
	TupleDesc	tupdesc = dst->base.tts_tupleDescriptor;
	int			natts = tupdesc->natts;

	if (dst->delta_has == NULL)
		lsm_slot_make_delta_arrays(dst);
	lsm_slot_make_delta_buf(dst, src->delta_len);
	memcpy(dst->delta_buf, src->delta_buf, src->delta_len);
	memcpy(dst->delta_has, src->delta_has, natts * sizeof(bool));
	for (int i = 0; i < src->delta_natts; i++)
	{
		if (!src->delta_has[i])
			continue;
		dst->delta_isnull[i] = src->delta_isnull[i];
		dst->delta_values[i] = src->delta_values[i];
		if (!TupleDescCompactAttr(tupdesc, i)->attbyval && !src->delta_isnull[i])
			dst->delta_values[i] = PointerGetDatum(dst->delta_buf +
												   (DatumGetPointer(src->delta_values[i]) -
													src->delta_buf));
	}
	dst->delta_natts = src->delta_natts;
	dst->delta_len = src->delta_len;
	dst->has_delta = true;
}

/*
 * Store the version of that name in a slot, from the slot at hand, which it is then.  False: that
 * has another one, or one that cannot be copied as it is.
 */
bool
lsm_slot_store_noted(TupleTableSlot *slot, Relation rel, LsmTid name)
{
	LsmSlot    *dst = (LsmSlot *) slot;
	LsmSlot    *src = (LsmSlot *) lsm_slot_find(rel, name);

	if (src == NULL || src == dst || slot->tts_ops != &LsmSlotOps ||
		(src->record == NULL && src->cached == NULL) ||
		src->formed_len > 0 || src->large || (src->has_delta && src->delta_len == 0) ||
		slot->tts_tupleDescriptor->natts != src->base.tts_tupleDescriptor->natts)
		return false;
	lsm_slot_clear(slot);
	if (src->record != NULL)
	{
		lsm_slot_make_recbuf(dst, src->record_len);
		memcpy(dst->recbuf, src->recbuf, src->record_len);
		dst->record = (LsmRecord *) dst->recbuf;
		dst->record_len = src->record_len;
		dst->offset = 0;
		dst->decoded = 0;
	}
	else
	{
		dst->cached = lsm_block_repin(src->cached);
		dst->cached_holder = lsm_pin_holder();
		dst->row = src->row;
		dst->whole_columns = false;
	}
	dst->stored = true;
	dst->xid = src->xid;
	dst->xmin = src->xmin;
	dst->cid = src->cid;
	dst->xmax = src->xmax;
	dst->cmax = src->cmax;
	dst->natts = src->natts;
	dst->large = false;
	dst->relid = src->relid;
	if (src->has_delta)
		lsm_slot_copy_noted_delta(dst, src);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	slot->tts_tableOid = RelationGetRelid(rel);
	slot->tts_tid = src->base.tts_tid;
	lsm_slot_at_hand = dst;
	return true;
}
