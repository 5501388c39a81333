/*-------------------------------------------------------------------------
 *
 * lsm_written.c
 *	  The row that this transaction has updated last.
 *
 * Who changes a row often reads it again at once.  What an UPDATE writes is a DELTA, so the
 * version it builds on would have to be found once more, though all columns have just been at
 * hand.  So those of the last UPDATE are kept, as one record, if that is small.  They
 * are the row's for a snapshot that sees the command as long as the UPDATE is its newest record
 * in the memtable, in the same transaction: nobody else can write to it, and in one transaction
 * a TID stands for one version (I7).  What a subtransaction wrote is forgotten when one is rolled
 * back.  A table that is emptied or written anew has another epoch, and when a flush or a compaction
 * has moved records, the version that the DELTA builds on may have another name.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "lsm_mvcc.h"
#include "utils/rel.h"

/* A longer row is not kept. */
#define LSM_WRITTEN_BYTES		512

static struct
{
	uint64		xact;			/* lsm_xact_number; 0: there is none */
	LsmRowHead	head;			/* as of a full version */
	LsmNoted	noted;
	bits8		delta_cols[MaxHeapAttributeNumber / 8 + 1];
	Size		len;
	union
	{
		LsmRecord	record;
		char		data[LSM_WRITTEN_BYTES];
	}			row;
} lsm_written;

void
lsm_written_forget(void)
{
	lsm_written.xact = 0;
}

/*
 * An UPDATE of what was judged has been appended.  It may be the row read next, if slot,
 * which has the new version, its columns in the form that they are stored in, was materialized
 * as a record.
 */
void
lsm_written_note(Relation rel, const LsmJudgement *judgement, const LsmNewRecord *new,
				 TupleTableSlot *slot)
{
	const LsmRecord *record = new->record;
	LsmNoted   *noted = &lsm_written.noted;
	Size		len;
	LsmRecord  *row = lsm_slot_formed(slot, RelationGetDescr(rel), &len);

	lsm_written_forget();
	if (row == NULL || len > LSM_WRITTEN_BYTES ||
		(record->info & (LSM_REC_LARGE | LSM_REC_SPILLED)))
		return;
	memcpy(lsm_written.row.data, row, len);
	lsm_written.len = len;
	lsm_record_head(record, new->tid, &lsm_written.head);
	lsm_written.head.info &= ~LSM_REC_DELTA;
	lsm_written.head.base = LSM_INVALID_TID;
	lsm_written.head.cols = NULL;
	lsm_written.head.cols_len = 0;

	noted->epoch = judgement->iter.epoch;
	noted->counter = judgement->iter.counter;
	noted->root = judgement->root;
	noted->vtid = noted->head = new->tid;
	noted->seq = record->seq;
	noted->xid = record->xid;
	noted->cid = record->cid;
	noted->newest = !(record->info & LSM_REC_LOCKERS_BELOW);
	if (record->info & LSM_REC_DELTA)
	{
		noted->full_tid = record->base;
		noted->full_natts = judgement->full_natts;
		noted->delta_natts = record->natts;
		noted->delta_cols = lsm_written.delta_cols;
		memcpy(lsm_written.delta_cols, lsm_record_cols(record), (record->natts + 7) / 8);
	}
	else
	{
		noted->full_tid = new->tid;
		noted->full_natts = record->natts;
		noted->delta_natts = 0;
		noted->delta_cols = NULL;
	}
	lsm_written.xact = lsm_xact_number;
}

/*
 * Store the row that an iterator is about to begin with, if it is that one, and the snapshot (MVCC)
 * sees it.  False: nothing has happened.
 */
bool
lsm_written_fetch(const LsmVersionIter *iter, Snapshot snapshot, TupleTableSlot *slot)
{
	LsmNoted   *noted = &lsm_written.noted;
	LsmVersion	version;

	if (likely(lsm_written.xact != lsm_xact_number) || iter->heads[0] != noted->vtid ||
		iter->root != noted->root || iter->epoch != noted->epoch ||
		pg_atomic_read_u64(&iter->table->shared->moved) > noted->counter ||
		noted->cid >= snapshot->curcid)
		return false;
	version.head = lsm_written.head;
	version.record = &lsm_written.row.record;
	version.record_len = lsm_written.len;
	lsm_slot_store(slot, iter->rel, &version, 0, 0);
	lsm_slot_set_name(slot, lsm_version_name(&version.head));
	lsm_slot_note(slot, noted);
	return true;
}
