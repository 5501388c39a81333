/*-------------------------------------------------------------------------
 *
 * lsm_blockborrow.h
 *	  Blocks that lie in shared memory, borrowed by scans.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_BLOCKBORROW_H
#define LSM_BLOCKBORROW_H

#include "lsm.h"

#include "lsm_ahead.h"
#include "lsm_blockcache.h"
#include "lsm_iostat.h"
#include "lsm_segment.h"
#include "lsm_table.h"

/* Pin a block where it is in shared memory; NULL: it has to be copied. */
extern LsmCachedBlock *lsm_block_borrow_shared(Relation rel, const LsmAheadPlace *place);

/*
 * Open it, when the caller has pinned it.  What is decoded of it is allocated in that context.
 */
extern void lsm_borrowed_open(Relation rel, LsmTable *table, LsmSegmentReader *reader,
							  LsmCachedBlock *cached, const LsmAheadPlace *place,
							  LsmReaderKind kind, MemoryContext context);

/* The block is not used any more: its memory may serve for another one. */
extern void lsm_borrowed_release(LsmCachedBlock *cached);

/* Have the processor fetch what borrowing this block will look at; a hint. */
extern void lsm_borrowed_prefetch(uint64 uid, uint32 blockno);

#endif							/* LSM_BLOCKBORROW_H */
