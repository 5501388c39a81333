/*-------------------------------------------------------------------------
 *
 * lsm.h
 *	  Types and constants that every part of lsm uses.
 *
 * Words (glossary in src/README.md): a logical block (LB) is the block part
 * of a TID; a root TID names a row in its indexes; a version TID names one
 * version; a record is one INSERT, UPDATE, DELETE, MOVED or LOCK of one row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_H
#define LSM_H

#include "postgres.h"

#include "access/transam.h"
#include "storage/block.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

#include "lsm_compat.h"

/*
 * A TID as one ordered number: logical block in the high bits, offset in the
 * low 16.  Zero is no TID, because offsets begin at 1.
 */
typedef uint64 LsmTid;

#define LSM_INVALID_TID			((LsmTid) 0)
#define LSM_MAX_TID				((((LsmTid) 0xFFFFFFFF) << 16) | 0xFFFF)
#define LSM_TID(lb, off)		((((LsmTid) (lb)) << 16) | (LsmTid) (off))
#define LSM_TID_LB(tid)			((BlockNumber) ((tid) >> 16))
#define LSM_TID_OFFSET(tid)		((OffsetNumber) ((tid) & 0xFFFF))
#define LSM_LAST_OFFSET			0xFFFF	/* where an LB ends in their order */

/* The largest offset every index and bitmap of the server can hold. */
#define LSM_MAX_OFFSET			291

/* Version LBs are a ring at the top of the LB space: its last eighth. */
#define LSM_FIRST_VERSION_LB	((BlockNumber) 0xE0000000)
#define LSM_END_VERSION_LB		((BlockNumber) 0xFFFFFFFE)
#define LSM_TID_IS_VERSION(tid) (LSM_TID_LB(tid) >= LSM_FIRST_VERSION_LB)

static inline LsmTid
lsm_tid_from_pointer(const ItemPointerData *ptr)
{
	return LSM_TID(ItemPointerGetBlockNumberNoCheck(ptr),
				   ItemPointerGetOffsetNumberNoCheck(ptr));
}

static inline void
lsm_tid_to_pointer(LsmTid tid, ItemPointer ptr)
{
	ItemPointerSet(ptr, LSM_TID_LB(tid), LSM_TID_OFFSET(tid));
}

/*
 * What a record is: the "info" of a record in the row log and in segments.
 * Values are part of the disk format (FORMAT.md) and never change meaning.
 */
#define LSM_REC_KIND_MASK		0x0007
#define LSM_REC_INSERT			0x0001
#define LSM_REC_UPDATE			0x0002
#define LSM_REC_DELETE			0x0003
#define LSM_REC_MOVED			0x0004	/* the row goes on under another root */
#define LSM_REC_LOCK			0x0005
#define LSM_REC_DELTA			0x0008	/* holds only the columns in its map */
#define LSM_REC_COMMITTED		0x0010	/* xid is known to have committed */
#define LSM_REC_ABORTED			0x0020	/* xid is known to have aborted */
#define LSM_REC_SPECULATIVE		0x0040	/* INSERT ... ON CONFLICT, undecided */
#define LSM_REC_LOCKERS_BELOW	0x0080	/* an older record may lock the row */
#define LSM_REC_STRENGTH_MASK	0x0300	/* LockTupleMode of all but INSERT */
#define LSM_REC_STRENGTH_SHIFT	8
#define LSM_REC_HASNULL			0x0400	/* row log: a null bitmap is there */
#define LSM_REC_PARTITION_MOVE	0x0800	/* DELETE: moved to another partition */
#define LSM_REC_LARGE			0x1000	/* some column is a pointer to a large value */
#define LSM_REC_SPILLED			0x2000	/* row log: what follows the fixed part lies
										 * in value pages */

/* The 64-bit form of an xid that is, or was not long ago, in use (lsm_floor.c). */
extern uint64 lsm_full_xid(TransactionId xid);

/* No record that is appended to a table from now on has an older xid (lsm_floor.c). */
extern uint64 lsm_first_xid_to_come(Relation rel);

/* Before it, nobody can name a version by its version TID (lsm_floor.c). */
extern uint64 lsm_settled_xid(Relation rel);
extern uint64 lsm_retired_horizon(Relation rel);

/* Have the processor fetch a line of memory that is going to be read. */
#ifdef __GNUC__
#define lsm_prefetch(address)	__builtin_prefetch(address)
#else
#define lsm_prefetch(address)	((void) (address))
#endif

/* What it fetches at a time. */
#define LSM_CACHE_LINE			64

#define LSM_REC_KIND(info)		((info) & LSM_REC_KIND_MASK)
#define LSM_REC_STRENGTH(info) \
	((LockTupleMode) (((info) & LSM_REC_STRENGTH_MASK) >> LSM_REC_STRENGTH_SHIFT))

#endif							/* LSM_H */
