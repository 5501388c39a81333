/*-------------------------------------------------------------------------
 *
 * lsm_iostat.h
 *	  What reading past shared buffers has done, for lsm_stat_io.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_IOSTAT_H
#define LSM_IOSTAT_H

#include "lsm.h"

#include "datatype/timestamp.h"

/* Who reads; the order of lsm_stat_io. */
typedef enum LsmReaderKind
{
	LSM_READER_SCAN,
	LSM_READER_POINT,			/* one block, for one row */
	LSM_READER_BITMAP,
	LSM_READER_INDEX,			/* an index scan that walks forward */
	LSM_READER_COMPACTION,
	LSM_READER_METADATA,		/* footer, index and filter of a segment */
	LSM_READER_KINDS			/* how many there are */
} LsmReaderKind;

typedef enum LsmReaderMethod
{
	LSM_METHOD_SYNC,
	LSM_METHOD_URING,
	LSM_METHOD_BUFFERS,			/* page by page through shared buffers */
	LSM_METHOD_STORE,			/* ranges of objects */
	LSM_READER_METHODS			/* how many there are */
} LsmReaderMethod;

typedef enum LsmIoCounter
{
	LSM_IO_REQUESTS,
	LSM_IO_WANTED,				/* blocks */
	LSM_IO_HIT,					/* of them, found in the block cache */
	LSM_IO_MERGED,				/* of them, read with the request of another */
	LSM_IO_READ_OVER,			/* blocks read for nothing, between others */
	LSM_IO_BYTES_WANTED,
	LSM_IO_BYTES_READ,
	LSM_IO_WAITS,				/* requests that were not ready when needed */
	LSM_IO_COUNTERS				/* how many there are */
} LsmIoCounter;

/* The same of this process alone, of all readers and methods, since it began. */
typedef struct LsmIoTotals
{
	uint64		counts[LSM_IO_COUNTERS];
} LsmIoTotals;

extern LsmIoTotals lsm_iostat_totals;

/* Add to sum what was counted since then. */
static inline void
lsm_iostat_since(const LsmIoTotals *before, LsmIoTotals *sum)
{
	for (int i = 0; i < LSM_IO_COUNTERS; i++)
		sum->counts[i] += lsm_iostat_totals.counts[i] - before->counts[i];
}

extern Size lsm_iostat_shmem_size(void);
extern void lsm_iostat_shmem_startup(void);

extern void lsm_iostat_add(LsmReaderKind kind, LsmReaderMethod method, LsmIoCounter counter,
						   uint64 more);
extern void lsm_iostat_depth(LsmReaderKind kind, LsmReaderMethod method, int depth);
extern void lsm_iostat_flush(void);
extern void lsm_iostat_reset(void);

/* True for the first caller since the server's start. */
extern bool lsm_iostat_first_refusal(void);

extern uint64 lsm_iostat_read(LsmReaderKind kind, LsmReaderMethod method, LsmIoCounter counter);
extern uint64 lsm_iostat_read_depth(LsmReaderKind kind, LsmReaderMethod method);
extern TimestampTz lsm_iostat_reset_time(void);

#endif							/* LSM_IOSTAT_H */
