/*-------------------------------------------------------------------------
 *
 * lsm_vmpage.h
 *	  Pages of the visibility map, by root LB.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VMPAGE_H
#define LSM_VMPAGE_H

#include "lsm.h"

#include "access/visibilitymapdefs.h"
#include "access/xlogreader.h"
#include "storage/buf.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

/* The server keeps this number to itself. */
#define LSM_VM_LBS_PER_PAGE \
	((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * (BITS_PER_BYTE / BITS_PER_HEAPBLOCK))

/* The first LB of the next page. */
static inline BlockNumber
lsm_vm_page_end(BlockNumber lb)
{
	return (lb / LSM_VM_LBS_PER_PAGE + 1) * LSM_VM_LBS_PER_PAGE;
}

/* LBs from this one on have no bit in the map. */
extern BlockNumber lsm_vm_size(Relation rel);

/* Clear all bits; the table is locked exclusively. */
extern void lsm_vm_clear(Relation rel);

/* Clear the bits of LBs under which there is nothing; for VACUUM. */
extern void lsm_vm_clear_lbs(Relation rel, BlockNumber lb, uint32 nlbs);

/* Bits of a page; to change one, its content lock is held exclusively. */
extern bool lsm_vm_page_test(Page page, BlockNumber lb);
extern void lsm_vm_page_set(Page page, BlockNumber lb, uint32 nlbs);
extern void lsm_vm_page_clear(Page page, BlockNumber lb);

/* The page of a block reference, locked; true if redo has to change it. */
extern bool lsm_vm_redo_page(XLogReaderState *record, int block_id, Buffer *buffer);

#endif							/* LSM_VMPAGE_H */
