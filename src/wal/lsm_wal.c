/*-------------------------------------------------------------------------
 *
 * lsm_wal.c
 *	  The resource manager: redo, description, masking.
 *
 * Redo changes pages, and on a standby the shared state and memtable index that
 * readers there have built (where they have).  gen_lock is taken before any
 * buffer lock, as everywhere else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "catalog/pg_control.h"
#include "lsm_logical.h"
#include "lsm_manifest.h"
#include "lsm_mvcc.h"
#include "lsm_vmpage.h"
#include "lsm_wal.h"
#include "lsm_walpack.h"
#include "storage/bufmgr.h"
#include "storage/standby.h"

XLogRecPtr
lsm_wal_nothing(void)
{
	char		nothing = 0;

	XLogBeginInsert();
	XLogRegisterData(&nothing, sizeof(nothing));
	return XLogInsert(RM_XLOG_ID, XLOG_NOOP);
}

void
lsm_wal_conflict(Relation rel, uint64 xid)
{
	xl_lsm_conflict xlrec = {0};

	if (xid == 0 || !RelationNeedsWAL(rel) || !XLogStandbyInfoActive())
		return;
	xlrec.conflict_xid = xid;
	xlrec.locator = LSM_RD_LOCATOR(rel);
	xlrec.version = LSM_WAL_VERSION;
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, sizeof(xlrec));
	(void) XLogInsert(LSM_RMGR_ID, XLOG_LSM_CONFLICT);
}

static void
lsm_redo_check_version(uint8 version)
{
	if (version != LSM_WAL_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("WAL of lsm has version %u, which this library cannot replay", version),
				 errhint("Install the version of lsm that has written it, then restart.")));
}

/*
 * It may be an xid of the primary's that no record has had: for the server that would be one
 * from long ago, which nobody is in conflict with.
 */
static void
lsm_redo_conflict(uint64 conflict_xid, RelFileLocator locator)
{
	uint64		next = U64FromFullTransactionId(lsm_compat_next_full_xid());

	if (conflict_xid != 0 && InHotStandby)
		lsm_compat_resolve_conflict(FullTransactionIdFromU64(Min(conflict_xid, next)), locator);
}

static void
lsm_redo_meta(XLogReaderState *record)
{
	xl_lsm_meta *xlrec = (xl_lsm_meta *) XLogRecGetData(record);
	RelFileLocator locator;
	ForkNumber	fork;
	BlockNumber block;
	LsmTableShared *shared;
	Buffer		buffer;
	Page		page;
	Size		len;
	char	   *data;
	LsmMeta    *meta;

	lsm_redo_check_version(xlrec->version);
	XLogRecGetBlockTag(record, 0, &locator, &fork, &block);
	lsm_redo_conflict(xlrec->conflict_xid, locator);

	shared = lsm_table_redo_begin(locator);
	data = XLogRecGetBlockData(record, 0, &len);
	meta = (LsmMeta *) data;
	buffer = XLogInitBufferForRedo(record, 0);
	page = BufferGetPage(buffer);
	lsm_page_init(page, LSM_PAGE_META, meta->incarnation, 0, 0);
	lsm_page_set_content(page, data, len);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buffer);
	if (shared != NULL && shared->known)
	{
		/*
		 * Those who have it pinned do not look at block 0 again.  If this is
		 * not the next change of the file as the entry knows it, the file was
		 * elsewhere meanwhile (a database that was moved away and back), and
		 * what was appended there is not in the indexes.
		 */
		if (shared->incarnation != meta->incarnation ||
			meta->counter != pg_atomic_read_u64(&shared->counter) + 1)
			lsm_table_reset_shared(shared);
		lsm_table_adopt_meta(shared, meta, true);
	}
	UnlockReleaseBuffer(buffer);
	lsm_table_redo_done(shared);
}

/* Put the records of one block reference on its page. */
static void
lsm_redo_append_page(XLogReaderState *record, int block_id, const LsmAppend *append)
{
	const LsmAppendPage *appended = &append->pages[block_id];
	uint64		xid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	Buffer		buffer;
	XLogRedoAction action;
	Page		page;
	Size		len;
	const char *data;

	if (appended->init)
	{
		buffer = XLogInitBufferForRedo(record, block_id);
		lsm_page_init(BufferGetPage(buffer), LSM_PAGE_ROWLOG, append->incarnation, appended->lb,
					  append->generation);
		action = BLK_NEEDS_REDO;
	}
	else
		action = XLogReadBufferForRedo(record, block_id, &buffer);
	if (action == BLK_NEEDS_REDO)
	{
		data = XLogRecGetBlockData(record, block_id, &len);
		page = BufferGetPage(buffer);
		for (int i = 0; i < appended->nrecords; i++)
		{
			PGAlignedBlock item;
			Size		item_len;

			data = lsm_record_unpack(data, xid, (LsmRecord *) item.data, &item_len);
			lsm_page_add_record(page, item.data, item_len, appended->first + i);
		}
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

/*
 * Tell a memtable index that is there of the records, also where the page
 * came from a full image or was newer already.
 */
static void
lsm_redo_append_index(XLogReaderState *record, int block_id, LsmTableShared *shared,
					  const LsmAppend *append)
{
	const LsmAppendPage *appended = &append->pages[block_id];
	uint64		xid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	LsmMemIndex *index = lsm_table_index(shared, append->generation);
	Size		len;
	const char *data = XLogRecGetBlockData(record, block_id, &len);

	if (index->state != LSM_INDEX_READY || index->generation != append->generation)
		return;
	for (int i = 0; i < appended->nrecords; i++)
	{
		PGAlignedBlock item;
		LsmRecord  *row = (LsmRecord *) item.data;
		Size		item_len;
		uint32		node;

		data = lsm_record_unpack(data, xid, row, &item_len);
		if (LSM_REC_KIND(row->info) == LSM_REC_INSERT)
		{
			pg_atomic_fetch_add_u32(&index->inserts, 1);
			continue;
		}
		node = lsm_memindex_reserve(index, row->root);
		if (node == 0)
		{
			/* no memory: do without, the next reader builds it again */
			lsm_table_change(shared);
			lsm_memindex_reset(index, LSM_INDEX_ABSENT, 0);
			lsm_table_changed(shared);
			return;
		}
		lsm_touch_share_record(&index->touched, row);
		lsm_memindex_publish(index, node, row->root, LSM_TID(appended->lb, appended->first + i));
		lsm_memindex_count(index, LSM_REC_KIND(row->info));
	}
}

static void
lsm_redo_clear_visible(XLogReaderState *record, int block_id, BlockNumber lb)
{
	Buffer		buffer;

	if (lsm_vm_redo_page(record, block_id, &buffer))
	{
		lsm_vm_page_clear(BufferGetPage(buffer), lb);
		PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

static void
lsm_redo_append(XLogReaderState *record)
{
	LsmAppend	append;
	RelFileLocator locator;
	ForkNumber	fork;
	BlockNumber block;
	LsmTableShared *shared;

	lsm_redo_check_version(lsm_append_version(XLogRecGetData(record)));
	lsm_append_unpack(XLogRecGetData(record), XLogRecGetDataLen(record), &append);
	XLogRecGetBlockTag(record, 0, &locator, &fork, &block);
	shared = lsm_table_redo_begin(locator);
	for (int i = 0; i < append.npages; i++)
		lsm_redo_append_page(record, i, &append);
	if (append.clears)
		lsm_redo_clear_visible(record, append.npages, append.vm_lb);
	if (shared != NULL && shared->known && shared->incarnation == append.incarnation)
		for (int i = 0; i < append.npages; i++)
			lsm_redo_append_index(record, i, shared, &append);
	lsm_table_redo_done(shared);
}

static void
lsm_redo_speculative(XLogReaderState *record)
{
	xl_lsm_speculative *xlrec = (xl_lsm_speculative *) XLogRecGetData(record);
	Buffer		buffer;

	lsm_redo_check_version(xlrec->version);
	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);

		lsm_rowlog_decide((LsmRecord *) PageGetItem(page, PageGetItemId(page, xlrec->offset)),
						  xlrec->succeeded, xlrec->cid);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

static void
lsm_redo_begin(XLogReaderState *record)
{
	xl_lsm_begin *xlrec = (xl_lsm_begin *) XLogRecGetData(record);

	lsm_redo_check_version(xlrec->version);
	for (int i = 0; i < xlrec->npages; i++)
	{
		Buffer		buffer = XLogInitBufferForRedo(record, i);

		lsm_page_init(BufferGetPage(buffer), LSM_PAGE_ROWLOG, xlrec->incarnation,
					  xlrec->lb + (xlrec->first + i) / xlrec->lb_pages, xlrec->generation);
		PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
		MarkBufferDirty(buffer);
		UnlockReleaseBuffer(buffer);
	}
}

static void
lsm_redo_visible(XLogReaderState *record)
{
	xl_lsm_visible *xlrec = (xl_lsm_visible *) XLogRecGetData(record);
	xl_lsm_visible_run *runs = (xl_lsm_visible_run *) (xlrec + 1);
	RelFileLocator locator;
	ForkNumber	fork;
	BlockNumber block;
	LsmTableShared *shared;
	Buffer		buffer;

	lsm_redo_check_version(xlrec->version);
	XLogRecGetBlockTag(record, 0, &locator, &fork, &block);
	if (lsm_vm_redo_page(record, 0, &buffer))
	{
		for (int i = 0; i < xlrec->nruns; i++)
			lsm_vm_page_set(BufferGetPage(buffer), runs[i].lb, runs[i].nlbs);
		PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);

	/* who writes after a promotion goes by it */
	shared = lsm_table_lookup(locator, -1);
	if (shared != NULL)
	{
		LWLockAcquire(&shared->gen_lock, LW_EXCLUSIVE);
		shared->vm_lbs = MaxBlockNumber;
		LWLockRelease(&shared->gen_lock);
		lsm_table_release(shared);
	}
}

static void
lsm_redo(XLogReaderState *record)
{
	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case XLOG_LSM_META:
			lsm_redo_meta(record);
			break;
		case XLOG_LSM_APPEND:
			lsm_redo_append(record);
			break;
		case XLOG_LSM_SPECULATIVE:
			lsm_redo_speculative(record);
			break;
		case XLOG_LSM_LOGICAL:
			break;				/* only decoding needs it */
		case XLOG_LSM_VISIBLE:
			lsm_redo_visible(record);
			break;
		case XLOG_LSM_BEGIN:
			lsm_redo_begin(record);
			break;
		case XLOG_LSM_CONFLICT:
			{
				xl_lsm_conflict *xlrec = (xl_lsm_conflict *) XLogRecGetData(record);

				lsm_redo_check_version(xlrec->version);
				lsm_redo_conflict(xlrec->conflict_xid, xlrec->locator);
				break;
			}
		default:
			elog(PANIC, "lsm_redo: unknown op code %u", XLogRecGetInfo(record));
	}
}

static const char *
lsm_op_name(uint8 op)
{
	static const char *const names[] = {
		"none", "none", "range", "switch", "alloc", "flush", "minor", "major", "vacuum", "free",
		"rewrite", "truncate", "punch", "values", "load", "seal", "cold",
		"relocate"
	};

	return op < lengthof(names) ? names[op] : "unknown";
}

static void
lsm_desc(StringInfo buf, XLogReaderState *record)
{
	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case XLOG_LSM_META:
			{
				xl_lsm_meta *xlrec = (xl_lsm_meta *) XLogRecGetData(record);

				appendStringInfo(buf, "op: %s, conflict xid: " UINT64_FORMAT,
								 lsm_op_name(xlrec->op), xlrec->conflict_xid);
				break;
			}
		case XLOG_LSM_APPEND:
			{
				LsmAppend	append;

				if (lsm_append_version(XLogRecGetData(record)) != LSM_WAL_VERSION)
					break;
				lsm_append_unpack(XLogRecGetData(record), XLogRecGetDataLen(record), &append);
				appendStringInfo(buf, "generation: %u", append.generation);
				for (int i = 0; i < append.npages; i++)
					appendStringInfo(buf, ", lb: %u, first: %u, records: %u%s", append.pages[i].lb,
									 append.pages[i].first, append.pages[i].nrecords,
									 append.pages[i].init ? ", new page" : "");
				if (append.clears)
					appendStringInfo(buf, ", not all visible: %u", append.vm_lb);
				break;
			}
		case XLOG_LSM_SPECULATIVE:
			{
				xl_lsm_speculative *xlrec = (xl_lsm_speculative *) XLogRecGetData(record);

				appendStringInfo(buf, "offset: %u, %s", xlrec->offset,
								 xlrec->succeeded ? "confirmed" : "killed");
				break;
			}
		case XLOG_LSM_VISIBLE:
			{
				xl_lsm_visible *xlrec = (xl_lsm_visible *) XLogRecGetData(record);
				xl_lsm_visible_run *runs = (xl_lsm_visible_run *) (xlrec + 1);

				for (int i = 0; i < xlrec->nruns; i++)
					appendStringInfo(buf, "%slb: %u, lbs: %u", i > 0 ? ", " : "",
									 runs[i].lb, runs[i].nlbs);
				break;
			}
		case XLOG_LSM_BEGIN:
			{
				xl_lsm_begin *xlrec = (xl_lsm_begin *) XLogRecGetData(record);

				appendStringInfo(buf, "generation: %u, lb: %u, first page: %u, pages: %u, an LB: %u",
								 xlrec->generation, xlrec->lb, xlrec->first, xlrec->npages,
								 xlrec->lb_pages);
				break;
			}
		case XLOG_LSM_LOGICAL:
			lsm_logical_desc(buf, record);
			break;
		case XLOG_LSM_CONFLICT:
			appendStringInfo(buf, "conflict xid: " UINT64_FORMAT,
							 ((xl_lsm_conflict *) XLogRecGetData(record))->conflict_xid);
			break;
	}
}

static const char *
lsm_identify(uint8 info)
{
	switch (info & ~XLR_INFO_MASK)
	{
		case XLOG_LSM_META:
			return "META";
		case XLOG_LSM_APPEND:
			return "APPEND";
		case XLOG_LSM_CONFLICT:
			return "CONFLICT";
		case XLOG_LSM_SPECULATIVE:
			return "SPECULATIVE";
		case XLOG_LSM_VISIBLE:
			return "VISIBLE";
		case XLOG_LSM_BEGIN:
			return "BEGIN";
		case XLOG_LSM_LOGICAL:
			return "LOGICAL";
		default:
			return NULL;
	}
}

/* Hide what redo need not reproduce: hint bits and what lies between. */
static void
lsm_mask(char *pagedata, BlockNumber block)
{
	Page		page = (Page) pagedata;

	mask_page_lsn_and_checksum(page);
	if (PageGetSpecialSize(page) == 0)
		return;					/* of the visibility map, all of which counts */
	mask_page_hint_bits(page);
	mask_unused_space(page);
	if (LSM_PAGE_SPECIAL(page)->kind != LSM_PAGE_ROWLOG)
		return;
	for (OffsetNumber offset = FirstOffsetNumber; offset <= PageGetMaxOffsetNumber(page); offset++)
	{
		LsmRecord  *row = (LsmRecord *) PageGetItem(page, PageGetItemId(page, offset));

		row->info &= ~(LSM_REC_COMMITTED | LSM_REC_ABORTED);
	}
}

static LSM_RMGR_CONST RmgrData lsm_rmgr =
{
	.rm_name = LSM_RMGR_NAME,
	.rm_redo = lsm_redo,
	.rm_desc = lsm_desc,
	.rm_identify = lsm_identify,
	.rm_mask = lsm_mask,
	.rm_decode = lsm_logical_decode,
};

void
lsm_wal_register(void)
{
	RegisterCustomRmgr(LSM_RMGR_ID, &lsm_rmgr);
}
