/*-------------------------------------------------------------------------
 *
 * lsm_iostat.c
 *	  What reading past shared buffers has done.
 *
 * Of the whole server.  A process counts for itself and gives that to shared
 * memory now and then, and at the end of each transaction: the counters are few,
 * and those of short transactions would meet on them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_iostat.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define LSM_IOSTAT_BATCH		1024

typedef struct LsmIoStatShared
{
	pg_atomic_flag refused;		/* io_uring was, and it has been logged */
	pg_atomic_uint64 reset_time;
	pg_atomic_uint64 depths[LSM_READER_KINDS][LSM_READER_METHODS];
	pg_atomic_uint64 counts[LSM_READER_KINDS][LSM_READER_METHODS][LSM_IO_COUNTERS];
} LsmIoStatShared;

static LsmIoStatShared *lsm_iostat_shared;
static uint64 lsm_iostat_counts[LSM_READER_KINDS][LSM_READER_METHODS][LSM_IO_COUNTERS];
LsmIoTotals lsm_iostat_totals;
static int	lsm_iostat_pending; /* counts since the last flush */

Size
lsm_iostat_shmem_size(void)
{
	return MAXALIGN(sizeof(LsmIoStatShared));
}

/* AddinShmemInitLock is held. */
void
lsm_iostat_shmem_startup(void)
{
	bool		found;

	lsm_iostat_shared = ShmemInitStruct("lsm input", sizeof(LsmIoStatShared), &found);
	if (found)
		return;
	pg_atomic_init_flag(&lsm_iostat_shared->refused);
	pg_atomic_init_u64(&lsm_iostat_shared->reset_time, 0);
	for (int i = 0; i < LSM_READER_KINDS; i++)
	{
		for (int j = 0; j < LSM_READER_METHODS; j++)
		{
			pg_atomic_init_u64(&lsm_iostat_shared->depths[i][j], 0);
			for (int k = 0; k < LSM_IO_COUNTERS; k++)
				pg_atomic_init_u64(&lsm_iostat_shared->counts[i][j][k], 0);
		}
	}
}

void
lsm_iostat_add(LsmReaderKind kind, LsmReaderMethod method, LsmIoCounter counter, uint64 more)
{
	lsm_iostat_counts[kind][method][counter] += more;
	lsm_iostat_totals.counts[counter] += more;
	if (++lsm_iostat_pending >= LSM_IOSTAT_BATCH)
		lsm_iostat_flush();
}

/* So many requests are on their way. */
void
lsm_iostat_depth(LsmReaderKind kind, LsmReaderMethod method, int depth)
{
	pg_atomic_uint64 *greatest = &lsm_iostat_shared->depths[kind][method];
	uint64		known = pg_atomic_read_u64(greatest);

	while (known < (uint64) depth && !pg_atomic_compare_exchange_u64(greatest, &known, depth))
		;
}

void
lsm_iostat_flush(void)
{
	if (lsm_iostat_pending == 0)
		return;
	lsm_iostat_pending = 0;
	for (int i = 0; i < LSM_READER_KINDS; i++)
		for (int j = 0; j < LSM_READER_METHODS; j++)
			for (int k = 0; k < LSM_IO_COUNTERS; k++)
				if (lsm_iostat_counts[i][j][k] != 0)
					pg_atomic_fetch_add_u64(&lsm_iostat_shared->counts[i][j][k],
											lsm_iostat_counts[i][j][k]);
	memset(lsm_iostat_counts, 0, sizeof(lsm_iostat_counts));
}

void
lsm_iostat_reset(void)
{
	lsm_iostat_flush();
	for (int i = 0; i < LSM_READER_KINDS; i++)
	{
		for (int j = 0; j < LSM_READER_METHODS; j++)
		{
			pg_atomic_write_u64(&lsm_iostat_shared->depths[i][j], 0);
			for (int k = 0; k < LSM_IO_COUNTERS; k++)
				pg_atomic_write_u64(&lsm_iostat_shared->counts[i][j][k], 0);
		}
	}
	pg_atomic_write_u64(&lsm_iostat_shared->reset_time, (uint64) GetCurrentTimestamp());
}

bool
lsm_iostat_first_refusal(void)
{
	return pg_atomic_test_set_flag(&lsm_iostat_shared->refused);
}

uint64
lsm_iostat_read(LsmReaderKind kind, LsmReaderMethod method, LsmIoCounter counter)
{
	return pg_atomic_read_u64(&lsm_iostat_shared->counts[kind][method][counter]);
}

uint64
lsm_iostat_read_depth(LsmReaderKind kind, LsmReaderMethod method)
{
	return pg_atomic_read_u64(&lsm_iostat_shared->depths[kind][method]);
}

TimestampTz
lsm_iostat_reset_time(void)
{
	return (TimestampTz) pg_atomic_read_u64(&lsm_iostat_shared->reset_time);
}
