/*-------------------------------------------------------------------------
 *
 * lsm_walpack.h
 *	  APPEND records of the WAL, packed and unpacked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WALPACK_H
#define LSM_WALPACK_H

#include "lsm_page.h"

/* A row-log page of an APPEND. */
typedef struct LsmAppendPage
{
	BlockNumber lb;
	OffsetNumber first;			/* offset of the first record */
	uint16		nrecords;
	bool		init;			/* the page is new */
} LsmAppendPage;

typedef struct LsmAppend
{
	uint64		incarnation;
	uint32		generation;
	int			npages;
	bool		clears;			/* the bit of vm_lb in the visibility map */
	BlockNumber vm_lb;
	LsmAppendPage pages[2];
} LsmAppend;

/* Room for what lsm_append_pack() makes. */
#define LSM_APPEND_PACKED		64

/* What packing may add to a record. */
#define LSM_PACK_OVERHEAD		32

extern int	lsm_append_pack(const LsmAppend *append, char *to);
extern void lsm_append_unpack(const char *from, Size len, LsmAppend *append);
extern uint8 lsm_append_version(const char *from);
extern Size lsm_record_pack(const LsmRecord *record, Size len, uint64 xid, char *to);
extern const char *lsm_record_unpack(const char *from, uint64 xid, LsmRecord *record, Size *len);

#endif							/* LSM_WALPACK_H */
