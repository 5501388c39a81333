/*-------------------------------------------------------------------------
 *
 * lsm_store_http.h
 *	  Requests to S3, many at a time, signed and tried again.
 *
 * Requests belong to batches, batches to the resource owner that is current when
 * they begin: what an error leaves is cancelled with it.  Nothing is sent but while
 * somebody waits in lsm_http_next() or lsm_http_arrived(), or comes by
 * (lsm_http_poke()); then the requests of all batches make progress.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STORE_HTTP_H
#define LSM_STORE_HTTP_H

#include <signal.h>

#include "lsm_store_impl.h"
#include "lib/ilist.h"

typedef struct LsmHttpBatch LsmHttpBatch;

typedef struct LsmHttpRequest
{
	/* set by the caller, and not changed until it is handed back */
	LsmStoreKind kind;
	const char *method;
	char	   *path;			/* encoded, with the bucket if it belongs
								 * there */
	char	   *query;			/* encoded and sorted, or "" */
	const char *body;			/* NULL: none */
	size_t		body_len;
	bool		conditional;	/* only if there is no such object */
	bool		early_status;	/* success is told before it is known: an error comes as body */

	/*
	 * Ranges: bytes from offset on, or the last ones of the object, are put
	 * into buffer, which is the caller's.  Other answers are kept whole, up
	 * to max_response bytes.
	 */
	char	   *buffer;
	uint64		offset;
	size_t		len;			/* 0: no range */
	bool		suffix;
	size_t		max_response;
	void	   *arg;

	/* results */
	LsmStoreError error;		/* class LSM_STORE_OK: success */
	char	   *response;		/* ends in a zero byte */
	size_t		response_len;
	uint64		object_bytes;	/* of ranges: size of the object */
	char		etag[512];		/* as it came; "": none, or longer */

	/* private to lsm_store_http.c */
	LsmHttpBatch *batch;
	dlist_node	node;			/* in one of the batch's lists */
	struct LsmHttpTransfer *transfer;	/* while curl has it */
	int64		first_us;		/* when curl got it first, and later by pauses */
	int64		start_us;		/* of this attempt */
	int64		paused_us;		/* of it, while nobody drove curl */
	int64		due_us;			/* not before */
	char		payload_hash[LSM_SHA256_HEX];
	size_t		received;		/* of this attempt */
	int			status;
	bool		overflow;
	bool		has_range;
	uint64		range_first;
	uint64		range_last;
	int			retry_after;	/* seconds; 0: not told */
	char		refused[64];	/* address that must not be connected to */
	int			socket_errno;	/* there was no socket to be had; 0: there was */
	size_t		response_size;
} LsmHttpRequest;

extern LsmHttpBatch *lsm_http_begin(LsmStore *store);

/* A request to fill in, in memory of the batch; zero but for the batch. */
extern LsmHttpRequest *lsm_http_request(LsmHttpBatch *batch);
extern MemoryContext lsm_http_context(LsmHttpBatch *batch);
extern void lsm_http_add(LsmHttpRequest *request);

/* One that is over, well or not; NULL: none is left, or none is over yet (!wait). */
extern LsmHttpRequest *lsm_http_next(LsmHttpBatch *batch, bool wait);

/*
 * Wait until so many bytes of a range have come, of the only request of its batch.  False:
 * it is over.  (If it is tried again later, the same bytes come to the same place.)
 */
extern bool lsm_http_arrived(LsmHttpRequest *request, size_t bytes);

/* Would that have to wait? */
extern bool lsm_http_pending(const LsmHttpRequest *request, size_t bytes);

/* Let all requests make progress, if they have not for a while.  Waits for nothing. */
extern void lsm_http_poke(void);
extern void lsm_http_free(LsmHttpRequest *request);
extern void lsm_http_end(LsmHttpBatch *batch);

/*
 * An error has come through: stop what is under way of a batch, and what was begun by those
 * whom its owner had called, for what they wanted written to may be gone with them.  Raises no
 * error.
 */
extern void lsm_http_stop_from(LsmHttpBatch *batch);

/*
 * Let the requests go on without a batch that anybody waits for: for so long, unless
 * there is an interrupt, and later while others are waited for.  Raises no interrupts.
 */
extern void lsm_http_detach(LsmHttpBatch *batch, int wait_ms);

/* Microseconds until the next attempt, after so many. */
extern int64 lsm_http_retry_delay(int attempts);

/* Around calls into libraries that may make threads: all signals are blocked. */
extern void lsm_http_enter(sigset_t *saved);
extern void lsm_http_leave(const sigset_t *saved);

/* Copy text from the network for a message: what is not printable ASCII is replaced. */
extern void lsm_http_clean(char *to, const char *from, size_t size);

#endif							/* LSM_STORE_HTTP_H */
