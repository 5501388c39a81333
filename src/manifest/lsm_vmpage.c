/*-------------------------------------------------------------------------
 *
 * lsm_vmpage.c
 *	  Pages of the visibility map, by root LB: see lsm_vm.c.
 *
 * The fork, its pages and the meaning of two bits are the server's; reading, and
 * lengthening the fork, is done by the server's functions.  Its functions that set
 * and clear bits want heap pages beside them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "lsm_vmpage.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"

BlockNumber
lsm_vm_size(Relation rel)
{
	SMgrRelation reln = RelationGetSmgr(rel);

	if (!smgrexists(reln, VISIBILITYMAP_FORKNUM))
		return 0;
	return (BlockNumber) Min((uint64) smgrnblocks(reln, VISIBILITYMAP_FORKNUM) *
							 LSM_VM_LBS_PER_PAGE, MaxBlockNumber);
}

void
lsm_vm_clear(Relation rel)
{
	BlockNumber nblocks = lsm_vm_size(rel) / LSM_VM_LBS_PER_PAGE;

	for (BlockNumber block = 0; block < nblocks; block++)
	{
		Buffer		buffer = ReadBufferExtended(rel, VISIBILITYMAP_FORKNUM, block,
												RBM_ZERO_ON_ERROR, NULL);

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		START_CRIT_SECTION();
		PageInit(BufferGetPage(buffer), BLCKSZ, 0);
		MarkBufferDirty(buffer);
		if (RelationNeedsWAL(rel))
			log_newpage_buffer(buffer, false);
		END_CRIT_SECTION();
		UnlockReleaseBuffer(buffer);
	}
}

void
lsm_vm_clear_lbs(Relation rel, BlockNumber lb, uint32 nlbs)
{
	BlockNumber end = Min(lb + nlbs, lsm_vm_size(rel));

	while (lb < end)
	{
		BlockNumber page_end = Min(end, lsm_vm_page_end(lb));
		Buffer		buffer = ReadBufferExtended(rel, VISIBILITYMAP_FORKNUM,
												lb / LSM_VM_LBS_PER_PAGE, RBM_ZERO_ON_ERROR, NULL);
		Page		page = BufferGetPage(buffer);
		bool		any = false;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		for (BlockNumber i = lb; i < page_end && !PageIsNew(page) && !any; i++)
			any = lsm_vm_page_test(page, i);
		if (any)
		{
			START_CRIT_SECTION();
			for (; lb < page_end; lb++)
				lsm_vm_page_clear(page, lb);
			MarkBufferDirty(buffer);
			if (RelationNeedsWAL(rel))
				log_newpage_buffer(buffer, false);
			END_CRIT_SECTION();
		}
		UnlockReleaseBuffer(buffer);
		lb = page_end;
	}
}

/* The byte of an LB, and how far its bits are shifted in it. */
static inline uint8 *
lsm_vm_byte(Page page, BlockNumber lb, int *shift)
{
	*shift = lb % (BITS_PER_BYTE / BITS_PER_HEAPBLOCK) * BITS_PER_HEAPBLOCK;
	return (uint8 *) PageGetContents(page) +
		lb % LSM_VM_LBS_PER_PAGE / (BITS_PER_BYTE / BITS_PER_HEAPBLOCK);
}

bool
lsm_vm_page_test(Page page, BlockNumber lb)
{
	int			shift;
	uint8	   *byte = lsm_vm_byte(page, lb, &shift);

	return (*byte >> shift) & VISIBILITYMAP_ALL_VISIBLE;
}

void
lsm_vm_page_set(Page page, BlockNumber lb, uint32 nlbs)
{
	for (uint32 i = 0; i < nlbs; i++)
	{
		int			shift;
		uint8	   *byte = lsm_vm_byte(page, lb + i, &shift);

		*byte |= VISIBILITYMAP_ALL_VISIBLE << shift;
	}
}

void
lsm_vm_page_clear(Page page, BlockNumber lb)
{
	int			shift;
	uint8	   *byte = lsm_vm_byte(page, lb, &shift);

	*byte &= ~(VISIBILITYMAP_VALID_BITS << shift);
}

bool
lsm_vm_redo_page(XLogReaderState *record, int block_id, Buffer *buffer)
{
	if (XLogReadBufferForRedoExtended(record, block_id, RBM_ZERO_ON_ERROR, false,
									  buffer) != BLK_NEEDS_REDO)
		return false;
	/* lengthening the fork is not logged */
	if (PageIsNew(BufferGetPage(*buffer)))
		PageInit(BufferGetPage(*buffer), BLCKSZ, 0);
	return true;
}
