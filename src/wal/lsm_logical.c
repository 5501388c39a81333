/*-------------------------------------------------------------------------
 *
 * lsm_logical.c
 *	  Changes of rows for logical decoding.
 *
 * Decoding cannot work from the records of the row log: a DELTA has not all columns,
 * large values lie on pages, and neither may be read while WAL is decoded.  So a
 * table that is logically logged has another record for each change, behind the one
 * that redo needs: whole rows, in the form of heap tuples, as output plugins get
 * them.  Redo passes it over.  A row is logged twice then; for tables that are not
 * decoded nothing is.
 *
 * WHAT IS LOGGED
 *	  What heap logs.  Of a new row all columns, with large values read, but for
 *	  those of an UPDATE that has left them alone: these stay pointers, which output
 *	  plugins know as unchanged.  (Not where the old row had no pointer, and the same
 *	  value has come from another table: then subscribers could not know the row.)  Of
 *	  an old row what REPLICA IDENTITY asks for: all columns, or those of the key, for an
 *	  UPDATE only if one of them has changed or is large.  An INSERT ... ON CONFLICT is
 *	  logged when it has been decided.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "lsm_logical.h"
#include "lsm_wal.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "replication/snapbuild.h"
#include "utils/memutils.h"

/* Rows of one statement that fit into so many bytes share a record. */
#define LSM_LOGICAL_BYTES		65536

/* The reader of WAL has a record in one piece of memory. */
#define LSM_LOGICAL_MAX_BYTES	((Size) 1000 * 1024 * 1024)

/* ---- writing ---- */

/*
 * A row as a heap tuple.  Large values are read in the columns of the map fetch (NULL:
 * in all), and stay pointers in others.
 */
static HeapTuple
lsm_logical_form(Relation rel, const Datum *from, const bool *isnull, const bits8 *fetch)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	Datum	   *values = palloc(tupdesc->natts * sizeof(Datum));
	Size		total = 0;

	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		values[i] = from[i];
		if (isnull[i] || att->attlen != -1 || att->attisdropped)
			continue;
		if (VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(from[i])) &&
			(fetch == NULL || (fetch[i / 8] & (1 << (i % 8)))))
			values[i] = PointerGetDatum(detoast_external_attr((struct varlena *)
															  DatumGetPointer(from[i])));
		total += VARSIZE_ANY(DatumGetPointer(values[i]));
	}
	if (total > LSM_LOGICAL_MAX_BYTES / 2)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row of table \"%s\" is too large for logical decoding",
						RelationGetRelationName(rel)),
				 errdetail("Its values take %zu bytes, the maximum is %zu.", total,
						   LSM_LOGICAL_MAX_BYTES / 2)));
	return heap_form_tuple(tupdesc, values, unconstify(bool *, isnull));
}

/*
 * What subscribers know the old row by; NULL: nothing, or the same as the new row
 * tells.  changed is NULL for a DELETE.
 */
static HeapTuple
lsm_logical_identity(Relation rel, TupleTableSlot *old, const bits8 *changed)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	Bitmapset  *keys;
	bool	   *isnull;
	bool		needed = changed == NULL;

	if (rel->rd_rel->relreplident == REPLICA_IDENTITY_NOTHING)
		return NULL;
	slot_getallattrs(old);
	if (rel->rd_rel->relreplident == REPLICA_IDENTITY_FULL)
		return lsm_logical_form(rel, old->tts_values, old->tts_isnull, NULL);

	keys = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	if (bms_is_empty(keys))
		return NULL;
	isnull = palloc(tupdesc->natts * sizeof(bool));
	for (int i = 0; i < tupdesc->natts; i++)
	{
		bool		key = bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, keys);

		isnull[i] = old->tts_isnull[i] || !key;
		if (isnull[i] || changed == NULL)
			continue;
		if ((changed[i / 8] & (1 << (i % 8))) ||
			(TupleDescAttr(tupdesc, i)->attlen == -1 &&
			 VARATT_IS_EXTERNAL(DatumGetPointer(old->tts_values[i]))))
			needed = true;
	}
	return needed ? lsm_logical_form(rel, old->tts_values, isnull, NULL) : NULL;
}

static void
lsm_logical_add(StringInfo buf, HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;
	xl_lsm_logical_tuple xltuple = {0};

	xltuple.len = tuple->t_len - SizeofHeapTupleHeader;
	xltuple.infomask2 = header->t_infomask2;
	xltuple.infomask = header->t_infomask;
	xltuple.hoff = header->t_hoff;
	appendBinaryStringInfo(buf, (char *) &xltuple, sizeof(xltuple));
	appendBinaryStringInfo(buf, (char *) header + SizeofHeapTupleHeader, xltuple.len);
}

static void
lsm_logical_write(Relation rel, uint8 action, uint8 flags, uint16 ntuples, StringInfo tuples)
{
	xl_lsm_logical xlrec = {0};

	xlrec.locator = LSM_RD_LOCATOR(rel);
	xlrec.version = LSM_WAL_VERSION;
	xlrec.action = action;
	xlrec.flags = flags;
	xlrec.ntuples = ntuples;
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, sizeof(xlrec));
	XLogRegisterData(tuples->data, tuples->len);
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	(void) XLogInsert(LSM_RMGR_ID, XLOG_LSM_LOGICAL);
	resetStringInfo(tuples);
}

static MemoryContext
lsm_logical_begin(StringInfo tuples)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm logical change",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	initStringInfo(tuples);
	return old;
}

static void
lsm_logical_end(MemoryContext old)
{
	MemoryContext context = MemoryContextSwitchTo(old);

	MemoryContextDelete(context);
}

void
lsm_logical_insert(Relation rel, TupleTableSlot **slots, int nslots, int options)
{
	StringInfoData tuples;
	MemoryContext old;
	int			n = 0;

	if (!RelationIsLogicallyLogged(rel) || (options & TABLE_INSERT_NO_LOGICAL))
		return;
	old = lsm_logical_begin(&tuples);
	for (int i = 0; i < nslots; i++)
	{
		HeapTuple	tuple;

		slot_getallattrs(slots[i]);
		tuple = lsm_logical_form(rel, slots[i]->tts_values, slots[i]->tts_isnull, NULL);
		if (n > 0 && tuples.len + tuple->t_len > LSM_LOGICAL_BYTES)
		{
			lsm_logical_write(rel, LSM_LOGICAL_INSERT, LSM_LOGICAL_HAS_NEW, n, &tuples);
			n = 0;
		}
		lsm_logical_add(&tuples, tuple);
		heap_freetuple(tuple);
		n++;
	}
	lsm_logical_write(rel, LSM_LOGICAL_INSERT, LSM_LOGICAL_HAS_NEW, n, &tuples);
	lsm_logical_end(old);
}

/* Which columns of the new row cannot stay pointers: those that have changed, or were none. */
static bits8 *
lsm_logical_fetched(TupleTableSlot *old, const bits8 *changed)
{
	int			natts = old->tts_tupleDescriptor->natts;
	bits8	   *fetch = palloc0((natts + 7) / 8);

	slot_getallattrs(old);
	for (int i = 0; i < natts; i++)
		if ((changed[i / 8] & (1 << (i % 8))) || old->tts_isnull[i] ||
			TupleDescAttr(old->tts_tupleDescriptor, i)->attlen != -1 ||
			!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(old->tts_values[i])))
			fetch[i / 8] |= 1 << (i % 8);
	return fetch;
}

void
lsm_logical_update(Relation rel, TupleTableSlot *oldslot, TupleTableSlot *newslot,
				   const bits8 *changed)
{
	StringInfoData tuples;
	MemoryContext old;
	HeapTuple	identity;
	uint8		flags = LSM_LOGICAL_HAS_NEW;

	if (!RelationIsLogicallyLogged(rel))
		return;
	old = lsm_logical_begin(&tuples);
	identity = lsm_logical_identity(rel, oldslot, changed);
	if (identity != NULL)
	{
		lsm_logical_add(&tuples, identity);
		flags |= LSM_LOGICAL_HAS_OLD;
	}
	slot_getallattrs(newslot);
	lsm_logical_add(&tuples,
					lsm_logical_form(rel, newslot->tts_values, newslot->tts_isnull,
									 lsm_logical_fetched(oldslot, changed)));
	lsm_logical_write(rel, LSM_LOGICAL_UPDATE, flags, 1, &tuples);
	lsm_logical_end(old);
}

void
lsm_logical_delete(Relation rel, TupleTableSlot *oldslot)
{
	StringInfoData tuples;
	MemoryContext old;
	HeapTuple	identity;

	if (!RelationIsLogicallyLogged(rel))
		return;
	old = lsm_logical_begin(&tuples);
	identity = lsm_logical_identity(rel, oldslot, NULL);
	if (identity != NULL)
		lsm_logical_add(&tuples, identity);
	lsm_logical_write(rel, LSM_LOGICAL_DELETE, identity != NULL ? LSM_LOGICAL_HAS_OLD : 0, 1,
					  &tuples);
	lsm_logical_end(old);
}

/* ---- decoding ---- */

/* Take the next tuple of a record, into one of the change's; returns where it ends. */
static const char *
lsm_logical_take(ReorderBuffer *reorder, ReorderBufferChange *change, bool old, const char *data)
{
	xl_lsm_logical_tuple xltuple;
	HeapTuple	tuple;

	memcpy(&xltuple, data, sizeof(xltuple));
	data += sizeof(xltuple);
	tuple = lsm_compat_change_tuple(reorder, change, old, xltuple.len);
	tuple->t_len = xltuple.len + SizeofHeapTupleHeader;
	tuple->t_tableOid = InvalidOid;
	ItemPointerSetInvalid(&tuple->t_self);
	memset(tuple->t_data, 0, SizeofHeapTupleHeader);
	tuple->t_data->t_infomask2 = xltuple.infomask2;
	tuple->t_data->t_infomask = xltuple.infomask;
	tuple->t_data->t_hoff = xltuple.hoff;
	memcpy((char *) tuple->t_data + SizeofHeapTupleHeader, data, xltuple.len);
	return data + xltuple.len;
}

static void
lsm_logical_queue(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	XLogReaderState *record = buf->record;
	const xl_lsm_logical *xlrec = (const xl_lsm_logical *) XLogRecGetData(record);
	const char *data = (const char *) (xlrec + 1);

	if (xlrec->version != LSM_WAL_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("WAL of lsm has version %u, which this library cannot decode",
						xlrec->version)));
	if (LSM_LOCATOR_DB(xlrec->locator) != ctx->slot->data.database)
		return;
	if (ctx->callbacks.filter_by_origin_cb != NULL &&
		filter_by_origin_cb_wrapper(ctx, XLogRecGetOrigin(record)))
		return;
	for (int i = 0; i < xlrec->ntuples; i++)
	{
		ReorderBufferChange *change = lsm_compat_change_create(ctx->reorder);

		change->action = xlrec->action == LSM_LOGICAL_INSERT ? REORDER_BUFFER_CHANGE_INSERT :
			xlrec->action == LSM_LOGICAL_UPDATE ? REORDER_BUFFER_CHANGE_UPDATE :
			REORDER_BUFFER_CHANGE_DELETE;
		change->origin_id = XLogRecGetOrigin(record);
		LSM_CHANGE_LOCATOR(change) = xlrec->locator;
		change->data.tp.clear_toast_afterwards = true;
		if (xlrec->flags & LSM_LOGICAL_HAS_OLD)
			data = lsm_logical_take(ctx->reorder, change, true, data);
		if (xlrec->flags & LSM_LOGICAL_HAS_NEW)
			data = lsm_logical_take(ctx->reorder, change, false, data);
		ReorderBufferQueueChange(ctx->reorder, XLogRecGetXid(record), buf->origptr, change, false);
	}
}

void
lsm_logical_decode(struct LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	TransactionId xid = XLogRecGetXid(buf->record);

	ReorderBufferProcessXid(ctx->reorder, xid, buf->origptr);
	if ((XLogRecGetInfo(buf->record) & ~XLR_INFO_MASK) != XLOG_LSM_LOGICAL ||
		SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_FULL_SNAPSHOT)
		return;
	if (SnapBuildProcessChange(ctx->snapshot_builder, xid, buf->origptr) && !ctx->fast_forward)
		lsm_logical_queue(ctx, buf);
}

void
lsm_logical_desc(StringInfo buf, XLogReaderState *record)
{
	const xl_lsm_logical *xlrec = (const xl_lsm_logical *) XLogRecGetData(record);

	appendStringInfo(buf, "%s, rel: %u/%u/%u, rows: %u%s",
					 xlrec->action == LSM_LOGICAL_INSERT ? "insert" :
					 xlrec->action == LSM_LOGICAL_UPDATE ? "update" : "delete",
					 LSM_LOCATOR_SPC(xlrec->locator), LSM_LOCATOR_DB(xlrec->locator),
					 LSM_LOCATOR_NUMBER(xlrec->locator), xlrec->ntuples,
					 xlrec->flags & LSM_LOGICAL_HAS_OLD ? ", with identity" : "");
}
