/*-------------------------------------------------------------------------
 *
 * lsm_logical.h
 *	  Changes of rows for logical decoding.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LOGICAL_H
#define LSM_LOGICAL_H

#include "lsm.h"

#include "access/xlogreader.h"
#include "executor/tuptable.h"
#include "replication/decode.h"
#include "utils/rel.h"

/*
 * Log what a change has done to rows, if the table is logically logged: called when
 * the change itself has been logged, by the same transaction.  options: of
 * table_tuple_insert().  changed: map of the columns that differ; large values of
 * others are not logged again.  Errors end the transaction, and with it the change.
 */
extern void lsm_logical_insert(Relation rel, TupleTableSlot **slots, int nslots, int options);
extern void lsm_logical_update(Relation rel, TupleTableSlot *old, TupleTableSlot *new,
							   const bits8 *changed);
extern void lsm_logical_delete(Relation rel, TupleTableSlot *old);

/* rm_decode: hand changes to the transaction that is being decoded. */
extern void lsm_logical_decode(struct LogicalDecodingContext *ctx, XLogRecordBuffer *buf);

extern void lsm_logical_desc(StringInfo buf, XLogReaderState *record);

#endif							/* LSM_LOGICAL_H */
