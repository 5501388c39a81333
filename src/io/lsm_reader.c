/*-------------------------------------------------------------------------
 *
 * lsm_reader.c
 *	  Reading past shared buffers: settings, files, and requests, whatever the
 *	  method that carries them out.
 *
 * Files are opened through fd.c, so that they count against
 * max_files_per_process, and closed at the end of the transaction: what was
 * dropped or truncated gives its space back then at the latest.  The kernel is
 * told that access is random: requests are planned here, and its own reading
 * ahead would only add to them.
 *
 * A request is started if fewer than lsm.io_depth are on their way, else it waits
 * in a queue.  Whatever the kernel's answer, the rest is read by lsm_io_wait():
 * after a short answer, EAGAIN or EINTR, or if the request never got its turn.
 *
 * Memory of requests is given back only after lsm_io_forget() or a successful
 * lsm_io_wait(), also after an error.  So it must not lie in a context that the
 * server frees before that: see lsm_ahead.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "lsm_compat.h"
#include "lsm_reader.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/wait_event.h"

int			lsm_io_method = LSM_IO_AUTO;
bool		lsm_direct_io = false;
int			lsm_io_depth = 8;
int			lsm_multiblock_read_size = 512;
int			lsm_multiblock_read_gap = 64;
int			lsm_debug_io = LSM_FAULT_NONE;

static const struct config_enum_entry lsm_io_method_options[] = {
	{"auto", LSM_IO_AUTO, false},
	{"io_uring", LSM_IO_URING, false},
	{"sync", LSM_IO_SYNC, false},
	{NULL, 0, false}
};

static const struct config_enum_entry lsm_debug_io_options[] = {
	{"none", LSM_FAULT_NONE, false},
	{"refuse", LSM_FAULT_REFUSE, false},
	{"full", LSM_FAULT_FULL, false},
	{"again", LSM_FAULT_AGAIN, false},
	{"short", LSM_FAULT_SHORT, false},
	{"eio", LSM_FAULT_EIO, false},
	{"stale", LSM_FAULT_STALE, false},
	{"torn", LSM_FAULT_TORN, false},
	{NULL, 0, false}
};

typedef struct LsmFileKey
{
	RelFileLocator locator;
	uint32		segno;
	uint32		direct;
} LsmFileKey;

/* One of a table's files, open. */
struct LsmFile
{
	LsmFileKey	key;			/* hash key */
	File		file;
	int			advised;		/* the descriptor that was told of random
								 * access */
};

static HTAB *lsm_files;
static int	lsm_nfiles;			/* in it: each transaction looks at its end */

/* Requests that wait for their turn, and how many are on their way. */
static dlist_head lsm_io_queue = DLIST_STATIC_INIT(lsm_io_queue);
static int	lsm_io_nstarted;

void
lsm_reader_define_settings(void)
{
	DefineCustomEnumVariable("lsm.io_method",
							 "Selects the method by which segments are read ahead.",
							 "auto uses io_uring where the kernel allows it, else sync.",
							 &lsm_io_method, LSM_IO_AUTO, lsm_io_method_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.direct_io",
							 "Reads segments without the kernel's page cache.",
							 NULL,
							 &lsm_direct_io, false, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.io_depth",
							"Sets the number of requests that a process has on their way.",
							NULL,
							&lsm_io_depth, 8, 1, 128, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.multiblock_read_size",
							"Sets the size up to which blocks are read by one request.",
							"0 reads each block by a request of its own.",
							&lsm_multiblock_read_size, 512, 0, 16 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.multiblock_read_gap",
							"Sets how much is read for nothing between two blocks rather than by two requests.",
							NULL,
							&lsm_multiblock_read_gap, 64, 0, 16 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.debug_io",
							 "Makes reading fail in some way (for tests).",
							 NULL,
							 &lsm_debug_io, LSM_FAULT_NONE, lsm_debug_io_options,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

/* ---- files ---- */

/* Open one of a table's files; false: there is none. */
static bool
lsm_file_open(LsmFile *file, Relation rel, uint32 segno)
{
	char	   *path = lsm_compat_main_path(rel);
	int			flags = O_RDONLY | PG_BINARY;

	if (segno > 0)
		path = psprintf("%s.%u", path, segno);
	if (file->key.direct)
		flags |= PG_O_DIRECT;
	file->file = PathNameOpenFile(path, flags);
	if (file->file < 0 && errno == EINVAL && file->key.direct)
	{
		/* a file system that cannot do without the page cache */
		file->file = PathNameOpenFile(path, O_RDONLY | PG_BINARY);
	}
	if (file->file < 0 && errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	file->advised = -1;
	return file->file >= 0;
}

static LsmFile *
lsm_file_get(Relation rel, uint32 segno)
{
	LsmFileKey	key;
	LsmFile    *file;
	LsmFile		opened;

	if (lsm_files == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(LsmFileKey);
		ctl.entrysize = sizeof(LsmFile);
		ctl.hcxt = TopMemoryContext;
		lsm_files = hash_create("lsm files", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	memset(&key, 0, sizeof(key));
	key.locator = LSM_RD_LOCATOR(rel);
	key.segno = segno;
	key.direct = lsm_direct_io && BLCKSZ % LSM_READ_ALIGN == 0;
	file = hash_search(lsm_files, &key, HASH_FIND, NULL);
	if (file != NULL)
		return file;
	opened.key = key;
	if (!lsm_file_open(&opened, rel, segno))
		return NULL;
	file = hash_search(lsm_files, &key, HASH_ENTER, NULL);
	*file = opened;
	lsm_nfiles++;
	return file;
}

/* The descriptor of a file, which is good until fd.c is called again. */
static int
lsm_file_descriptor(LsmFile *file)
{
	int			fd = FileGetRawDesc(file->file);

	/*
	 * fd.c closes files when there are many, and opens them when they are
	 * used
	 */
	if (fd < 0 && FileSize(file->file) >= 0)
		fd = FileGetRawDesc(file->file);
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", FilePathName(file->file))));
#if defined(USE_POSIX_FADVISE) && defined(POSIX_FADV_RANDOM)
	if (fd != file->advised)
		(void) posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif
	file->advised = fd;
	return fd;
}

void
lsm_reader_xact_end(void)
{
	HASH_SEQ_STATUS scan;
	LsmFile    *file;

	Assert(lsm_io_nstarted == 0 && dlist_is_empty(&lsm_io_queue));
	if (lsm_nfiles == 0)
		return;
	hash_seq_init(&scan, lsm_files);
	while ((file = hash_seq_search(&scan)) != NULL)
	{
		FileClose(file->file);
		hash_search(lsm_files, &file->key, HASH_REMOVE, NULL);
		lsm_nfiles--;
	}
}

/* ---- methods ---- */

static LsmReaderMethod
lsm_reader_choose(void)
{
	int			error;

	if (lsm_io_method == LSM_IO_SYNC)
		return LSM_METHOD_SYNC;
	if (lsm_uring_available(&error))
		return LSM_METHOD_URING;
	errno = error;
	if (lsm_io_method == LSM_IO_URING)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not set up io_uring: %m"),
				 errhint("Set \"lsm.io_method\" to \"auto\".")));
	if (lsm_iostat_first_refusal())
		ereport(LOG,
				(errmsg("io_uring cannot be used, segments are read by other system calls: %m"),
				 errhint("Set \"lsm.io_method\" to \"sync\" to avoid this message.")));
	return LSM_METHOD_SYNC;
}

static const LsmReaderOps *
lsm_reader_ops(LsmReaderMethod method)
{
	return method == LSM_METHOD_URING ? &lsm_reader_uring : &lsm_reader_sync;
}

/* ---- requests ---- */

bool
lsm_io_prepare(LsmIo *io, Relation rel, LsmReaderKind kind, const LsmReadRequest *request,
			   char *buf)
{
	Assert((uintptr_t) buf % LSM_READ_ALIGN == 0 || BLCKSZ % LSM_READ_ALIGN != 0);
	Assert(rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP);
	memset(io, 0, sizeof(*io));
	io->kind = kind;
	io->method = LSM_METHOD_SYNC;
	io->file = lsm_file_get(rel, request->block / (BlockNumber) RELSEG_SIZE);
	io->offset = (off_t) (request->block % (BlockNumber) RELSEG_SIZE) * BLCKSZ;
	io->buf = buf;
	io->len = (Size) request->npages * BLCKSZ;
	return io->file != NULL;
}

static void
lsm_io_leave(LsmIo *io)
{
	if (io->state == LSM_READ_QUEUED)
		dlist_delete(&io->node);
	else if (io->state == LSM_READ_STARTED || io->state == LSM_READ_ANSWERED)
		lsm_io_nstarted--;
}

/* Start those that wait for their turn, while there is room. */
static void
lsm_io_kick(void)
{
	while (lsm_io_nstarted < lsm_io_depth && !dlist_is_empty(&lsm_io_queue))
	{
		LsmIo	   *io = dlist_head_element(LsmIo, node, &lsm_io_queue);

		/* this first: it may make the ring, for which fd.c may close the file */
		io->method = lsm_reader_choose();
		if (!lsm_reader_ops(io->method)->start(io, lsm_file_descriptor(io->file)))
			return;
		io->state = LSM_READ_STARTED;
		dlist_delete(&io->node);
		lsm_io_nstarted++;
		lsm_iostat_depth(io->kind, io->method, lsm_io_nstarted);
	}
}

void
lsm_io_start(LsmIo *io)
{
	Assert(io->state == LSM_READ_NEW);
	io->state = LSM_READ_QUEUED;
	dlist_push_tail(&lsm_io_queue, &io->node);
	lsm_io_kick();
}

/* Read on where a request has stopped; 0 at the end of the file. */
static int
lsm_io_read(LsmIo *io)
{
	Size		rest = Min(io->len - io->done, (Size) INT_MAX / 2);

	(void) lsm_file_descriptor(io->file);
	return FileRead(io->file->file, io->buf + io->done, rest, io->offset + (off_t) io->done,
					WAIT_EVENT_DATA_FILE_READ);
}

/* Make an answer of n more bytes, or an error, worse than it was. */
static int
lsm_io_spoil(LsmIo *io, int n)
{
	if (lsm_debug_io == LSM_FAULT_EIO)
	{
		errno = EIO;
		return -1;
	}
	if (lsm_debug_io == LSM_FAULT_SHORT && n >= 2 * LSM_READ_ALIGN)
		return TYPEALIGN_DOWN(LSM_READ_ALIGN, n / 2);
	return n;
}

static void
lsm_io_spoil_pages(LsmIo *io)
{
	if (lsm_debug_io == LSM_FAULT_STALE)
		memset(io->buf, 0, io->len);
	else if (lsm_debug_io == LSM_FAULT_TORN)
		for (Size at = 0; at < io->len; at += BLCKSZ)
			memset(io->buf + at + BLCKSZ / 4, 0, BLCKSZ / 4);
}

/* Read what the kernel's answer has left. */
static void
lsm_io_complete(LsmIo *io)
{
	while (io->done < io->len)
	{
		int			n = lsm_io_spoil(io, lsm_io_read(io));

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read %zu bytes at " UINT64_FORMAT " in file \"%s\": %m",
							io->len - io->done, (uint64) io->offset + io->done,
							FilePathName(io->file->file))));
		if (n == 0)
			break;
		if (n > 0)
			io->done += n;
		CHECK_FOR_INTERRUPTS();
	}
	lsm_iostat_add(io->kind, io->method, LSM_IO_REQUESTS, 1);
	lsm_iostat_add(io->kind, io->method, LSM_IO_BYTES_READ, io->done);
	memset(io->buf + io->done, 0, io->len - io->done);
	if (unlikely(lsm_debug_io != LSM_FAULT_NONE))
		lsm_io_spoil_pages(io);
}

void
lsm_io_wait(LsmIo *io)
{
	if (io->state == LSM_READ_DONE)
		return;
	if (io->state == LSM_READ_STARTED)
		lsm_reader_ops(io->method)->wait(io, true);
	if (io->state == LSM_READ_ANSWERED && unlikely(lsm_debug_io != LSM_FAULT_NONE))
	{
		if (lsm_debug_io == LSM_FAULT_AGAIN)
			io->error = EAGAIN;
		else if (lsm_debug_io == LSM_FAULT_SHORT)
			io->done = TYPEALIGN_DOWN(LSM_READ_ALIGN, io->done / 2);
		else if (lsm_debug_io == LSM_FAULT_EIO)
			io->error = EIO;
		if (io->error != 0)
			io->done = 0;
	}
	if (io->error != 0 && io->error != EAGAIN && io->error != EINTR)
	{
		errno = io->error;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read %zu bytes at " UINT64_FORMAT " in file \"%s\": %m",
						io->len, (uint64) io->offset, FilePathName(io->file->file))));
	}
	lsm_io_leave(io);
	io->state = LSM_READ_NEW;	/* in no list, and nobody writes to it */
	lsm_io_kick();
	lsm_io_complete(io);
	io->state = LSM_READ_DONE;
}

void
lsm_io_forget(LsmIo *io)
{
	if (io->state == LSM_READ_STARTED)
		lsm_reader_ops(io->method)->wait(io, false);
	lsm_io_leave(io);
	io->state = LSM_READ_DONE;
}

void
lsm_reader_read(Relation rel, LsmReaderKind kind, const LsmReadRequest *requests, int nrequests,
				char *buf)
{
	for (int i = 0; i < nrequests; i++)
	{
		LsmIo		io;

		/* never started: one call is all it takes */
		if (lsm_io_prepare(&io, rel, kind, &requests[i], buf))
			lsm_io_wait(&io);
		else
			memset(buf, 0, (Size) requests[i].npages * BLCKSZ);
		buf += (Size) requests[i].npages * BLCKSZ;
	}
}
