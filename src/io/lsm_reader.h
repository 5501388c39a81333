/*-------------------------------------------------------------------------
 *
 * lsm_reader.h
 *	  Reads pages of a table's main fork from its files into private memory,
 *	  past shared buffers.
 *
 * What is read proves nothing: a page may be newer in shared buffers, torn, or
 * somebody else's by now.  Callers look at stamps and checksums, and have what
 * does not prove read through shared buffers (I16).  Never for temporary tables,
 * whose pages may be in local buffers only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_READER_H
#define LSM_READER_H

#include "lsm.h"

#include "lib/ilist.h"
#include "lsm_iostat.h"
#include "lsm_readplan.h"
#include "utils/rel.h"

/* Memory that pages are read into begins at a multiple of this. */
#define LSM_READ_ALIGN			4096

/* Settings. */
typedef enum LsmIoMethodSetting
{
	LSM_IO_AUTO,
	LSM_IO_URING,
	LSM_IO_SYNC
} LsmIoMethodSetting;

typedef enum LsmIoFault
{
	LSM_FAULT_NONE,
	LSM_FAULT_REFUSE,			/* io_uring cannot be set up */
	LSM_FAULT_FULL,				/* its queue takes no request */
	LSM_FAULT_AGAIN,			/* the first answer is EAGAIN */
	LSM_FAULT_SHORT,			/* answers are half as long */
	LSM_FAULT_EIO,
	LSM_FAULT_STALE,			/* pages are not the ones that were asked for */
	LSM_FAULT_TORN				/* pages are, but half of each is old */
} LsmIoFault;

extern int	lsm_io_method;
extern bool lsm_direct_io;
extern int	lsm_io_depth;
extern int	lsm_multiblock_read_size;	/* kB */
extern int	lsm_multiblock_read_gap;	/* kB */
extern int	lsm_debug_io;

extern void lsm_reader_define_settings(void);

typedef enum LsmIoState
{
	LSM_READ_NEW,				/* nobody knows of it yet */
	LSM_READ_QUEUED,			/* waits for others to be answered */
	LSM_READ_STARTED,			/* the kernel has it */
	LSM_READ_ANSWERED,			/* perhaps with less than was asked for */
	LSM_READ_DONE
} LsmIoState;

typedef struct LsmFile LsmFile;

/* One request. */
typedef struct LsmIo
{
	dlist_node	node;			/* while queued */
	LsmIoState	state;
	LsmReaderKind kind;
	LsmReaderMethod method;
	LsmFile    *file;			/* good until the end of the transaction */
	off_t		offset;
	char	   *buf;
	Size		len;
	Size		done;			/* bytes read so far */
	int			error;			/* errno of the answer, or 0 */
} LsmIo;

/*
 * Name what is to be read, into buf, which has the alignment above.  False: there
 * is no such file.
 */
extern bool lsm_io_prepare(LsmIo *io, Relation rel, LsmReaderKind kind,
						   const LsmReadRequest *request, char *buf);

/* Ask for it, or leave it for later if lsm.io_depth requests are on their way. */
extern void lsm_io_start(LsmIo *io);

/*
 * Have it read.  What lies beyond the end of the file becomes zero.  Raises, also
 * on cancel; then it may still be on its way.
 */
extern void lsm_io_wait(LsmIo *io);

/* After this nobody writes to its memory.  Does not raise. */
extern void lsm_io_forget(LsmIo *io);

/* Read requests one after the other into memory where they lie together. */
extern void lsm_reader_read(Relation rel, LsmReaderKind kind, const LsmReadRequest *requests,
							int nrequests, char *buf);

/* Close all files; no request may be left. */
extern void lsm_reader_xact_end(void);

/* ---- methods ---- */

typedef struct LsmReaderOps
{
	/*
	 * Give the kernel a request; false: it is to be read when it is waited
	 * for.
	 */
	bool		(*start) (LsmIo *io, int fd);

	/*
	 * Wait for the answer to a request that was started; raises only on
	 * cancel.
	 */
	void		(*wait) (LsmIo *io, bool cancel);
} LsmReaderOps;

extern const LsmReaderOps lsm_reader_sync;
extern const LsmReaderOps lsm_reader_uring;

/* Can this process use io_uring?  Tries once; *error is the errno of the refusal. */
extern bool lsm_uring_available(int *error);

#endif							/* LSM_READER_H */
