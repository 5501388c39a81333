/*-------------------------------------------------------------------------
 *
 * lsm_reader_sync.c
 *	  Reading by the system calls that every kernel has.
 *
 * To start a request is to advise the kernel of it, so that it reads into its
 * page cache; the bytes are taken from there when they are waited for
 * (lsm_io_wait()).  Where the page cache is passed by, nothing can be done ahead.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>

#include "lsm_reader.h"

static bool
lsm_sync_start(LsmIo *io, int fd)
{
#if defined(USE_POSIX_FADVISE) && defined(POSIX_FADV_WILLNEED)
	if (!lsm_direct_io)
		return posix_fadvise(fd, io->offset, io->len, POSIX_FADV_WILLNEED) == 0;
#endif
	return false;
}

static void
lsm_sync_wait(LsmIo *io, bool cancel)
{
	io->state = LSM_READ_ANSWERED;
}

const LsmReaderOps lsm_reader_sync = {lsm_sync_start, lsm_sync_wait};
