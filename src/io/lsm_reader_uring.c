/*-------------------------------------------------------------------------
 *
 * lsm_reader_uring.c
 *	  Reading by io_uring: requests that go on while the process works.
 *
 * The ring belongs to the process that made it, when it first needed it; the
 * postmaster makes none, so none is inherited.  Its descriptor is counted as one
 * of the process's (AcquireExternalFD()).
 *
 * A request is handed to the kernel at once, which from then on holds the file,
 * whatever fd.c does with the descriptor.  One that the kernel does not take is
 * made a no-operation, so that no descriptor outlives the call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <liburing.h>

#include "lsm_reader.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/wait_event.h"

/* At least as many as lsm.io_depth may be; the kernel keeps twice as many answers. */
#define LSM_URING_ENTRIES		256

#define LSM_URING_TRIES			10

static struct io_uring lsm_ring;
static int	lsm_ring_pid;		/* process that made the ring, or was refused */
static int	lsm_ring_error;		/* why there is none, or 0 */

/* Does the kernel know the request that we make?  (Linux does from 5.6 on, rings from 5.1.) */
static bool
lsm_uring_can_read(void)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&lsm_ring);
	bool		can = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_READ);

	if (probe != NULL)
		io_uring_free_probe(probe);
	return can;
}

bool
lsm_uring_available(int *error)
{
	if (lsm_debug_io == LSM_FAULT_REFUSE)
	{
		*error = EPERM;
		return false;
	}
	if (lsm_ring_pid != MyProcPid)
	{
		if (!AcquireExternalFD())
		{
			*error = errno;
			return false;
		}
		lsm_ring_error = -io_uring_queue_init(LSM_URING_ENTRIES, &lsm_ring, 0);
		if (lsm_ring_error == 0 && !lsm_uring_can_read())
		{
			io_uring_queue_exit(&lsm_ring);
			lsm_ring_error = ENOSYS;
		}
		if (lsm_ring_error != 0)
			ReleaseExternalFD();
		lsm_ring_pid = MyProcPid;
	}
	*error = lsm_ring_error;
	return lsm_ring_error == 0;
}

/* Take an answer. */
static void
lsm_uring_take(struct io_uring_cqe *cqe)
{
	LsmIo	   *io = io_uring_cqe_get_data(cqe);

	if (io != NULL)
	{
		Assert(io->state == LSM_READ_STARTED);
		if (cqe->res < 0)
			io->error = -cqe->res;
		else
			io->done += cqe->res;
		io->state = LSM_READ_ANSWERED;
	}
	io_uring_cqe_seen(&lsm_ring, cqe);
}

/* Take what answers there are. */
static void
lsm_uring_take_all(void)
{
	struct io_uring_cqe *cqe;

	while (io_uring_peek_cqe(&lsm_ring, &cqe) == 0)
		lsm_uring_take(cqe);
}

static bool
lsm_uring_start(LsmIo *io, int fd)
{
	struct io_uring_sqe *sqe;

	if (lsm_debug_io == LSM_FAULT_FULL)
		return false;
	sqe = io_uring_get_sqe(&lsm_ring);
	if (sqe == NULL)
		return false;
	io_uring_prep_read(sqe, fd, io->buf, io->len, io->offset);
	io_uring_sqe_set_data(sqe, io);
	io->state = LSM_READ_STARTED;
	for (int i = 0; i < LSM_URING_TRIES; i++)
	{
		(void) io_uring_submit(&lsm_ring);
		if (io_uring_sq_ready(&lsm_ring) == 0)
			return true;
		/* interrupted, or short of memory, or of room for answers */
		lsm_uring_take_all();
	}
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL);
	io->state = LSM_READ_QUEUED;
	return false;
}

static void
lsm_uring_wait(LsmIo *io, bool cancel)
{
	lsm_uring_take_all();
	if (io->state == LSM_READ_STARTED)
		lsm_iostat_add(io->kind, io->method, LSM_IO_WAITS, 1);
	while (io->state == LSM_READ_STARTED)
	{
		struct io_uring_cqe *cqe;
		int			result;

		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_READ);
		result = io_uring_wait_cqe(&lsm_ring, &cqe);
		pgstat_report_wait_end();
		if (result == 0)
			lsm_uring_take(cqe);
		else if (result != -EINTR && result != -EAGAIN)
		{
			/* the kernel may write to memory that nobody can give back */
			errno = -result;
			elog(FATAL, "could not wait for io_uring: %m");
		}
		if (cancel)
			CHECK_FOR_INTERRUPTS();
	}
}

const LsmReaderOps lsm_reader_uring = {lsm_uring_start, lsm_uring_wait};
