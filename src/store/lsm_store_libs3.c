/*-------------------------------------------------------------------------
 *
 * lsm_store_libs3.c
 *	  Stores of type s3 that know signatures of version 2 only, through libs3.
 *
 * Compiled with "make WITH_LIBS3=1" only: libs3 is under the GPL, and signs that
 * version only (libs3 2.0, of 2011, as Debian has it; later ones sign version 4 only).
 *
 * WHO DOES WHAT
 *	  libs3 does HTTP itself, with a libcurl that it is linked with, and lets its
 *	  callers say little of it.  So it does as little as possible.  Of all that
 *	  reads, listing too, it only signs the URL, and lsm_store_http.c does the rest as
 *	  ever.  Putting and deleting cannot be signed this way, and go through it.
 *
 * WHAT IT CANNOT DO
 *	  It verifies no certificates: endpoints are http.  It follows redirects,
 *	  wherever they lead, and its parser of errors does not look well at what it
 *	  gets: signature v2 is for superusers to set.  It uses proxies that the
 *	  environment names: a server that has such is refused.  It knows neither
 *	  conditions nor parts: what is to be put is looked for before, and kept in
 *	  memory as a whole.  It resolves names where that cannot be cancelled, and
 *	  addresses are not shown to us: it gets the address that has just answered a
 *	  read of ours, which was checked (lsm_store_address_refused()), for a name.  It
 *	  tells of errors by a list of names, and nothing of HTTP's status.  Of a put it
 *	  looks at the status before there is one: it takes an error without XML for
 *	  success if the store has said 100 Continue, and success for a lost
 *	  connection if it has not.  So we look for the object.
 *
 * TWO LIBCURLS
 *	  libs3's, which is linked with GnuTLS, and ours: their symbols have different
 *	  versions (CURL_GNUTLS_3, CURL_OPENSSL_4), and each has globals of its own.
 *
 * ERRORS
 *	  Nothing raises errors through frames of libs3: its callbacks only copy and
 *	  note.  What is under way when an error comes is ended by destroying the
 *	  context, which calls back for each, while what it points to is still there.
 *	  All signals are blocked while it runs, as in lsm_store_http.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <libs3.h>
#include <sys/select.h>

#include "common/base64.h"
#include "common/cryptohash.h"
#include "common/md5.h"
#include "lsm_stop.h"
#include "lsm_store_http.h"
#include "lsm_store_libs3.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/memutils.h"

#ifdef S3_DEFAULT_REGION
#error "this libs3 signs version 4; WITH_LIBS3=1 is for libs3 2.0, which signs version 2"
#endif

#define LSM_LIBS3_PIECE			(4 * 1024 * 1024)
#define LSM_LIBS3_WAIT_MS		100
#define LSM_LIBS3_BLIND_WAIT_MS 10	/* where select() cannot wait */
#define LSM_LIBS3_EXPECT_MS		1000	/* for 100 Continue, of a put */

/* libs3 puts it into an array of its own without looking at its length. */
#define LSM_LIBS3_MAX_KEY_ID	32
#define LSM_LIBS3_VALID_SECONDS 60	/* of a signed URL, at least */

/* What is put, in pieces. */
typedef struct LsmLibs3Body
{
	char	  **pieces;
	uint64		bytes;
	char		md5[32];		/* base64 */
} LsmLibs3Body;

typedef struct LsmLibs3Request
{
	LsmStoreKind kind;			/* LSM_STORE_PUT or LSM_STORE_DELETE */
	char	   *key;			/* with the prefix of the server */
	const LsmLibs3Body *body;	/* of a put */
	const LsmStoreSource *source;	/* of a put, at its end */
	LsmStoreError error;		/* attempts 0: not begun */
	/* of this attempt */
	bool		running;
	bool		attempted;		/* and not counted yet */
	uint64		sent;
	int64		start_us;
	int64		progress_us;	/* when it moved last */
	int64		elapsed_us;
} LsmLibs3Request;

/* ---- what can be checked ---- */

static bool
lsm_libs3_environment_is(const char *name, const char *value)
{
	const char *found = getenv(name);

	if (value == NULL)
		return found != NULL && found[0] != '\0';
	return found != NULL && strcmp(found, value) == 0;
}

/* libs3's libcurl would ask the proxies that the environment names. */
static void
lsm_libs3_check_environment(const LsmStore *store)
{
	if ((lsm_libs3_environment_is("http_proxy", NULL) ||
		 lsm_libs3_environment_is("all_proxy", NULL) ||
		 lsm_libs3_environment_is("ALL_PROXY", NULL)) &&
		!lsm_libs3_environment_is("no_proxy", "*") &&
		!lsm_libs3_environment_is("NO_PROXY", "*"))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("store \"%s\" cannot be used with signature v2", store->name),
				 errdetail("The environment of the server names a proxy."),
				 errhint("Start the server without http_proxy and all_proxy, or with no_proxy set to \"*\".")));
}

static void
lsm_libs3_check(LsmStore *store, Oid userid)
{
	const char *id = store->signer.access_key_id;
	size_t		len = strlen(id);

	lsm_store_s3_ops.check(store, userid);
	lsm_libs3_check_environment(store);
	if (store->signer.session_token != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("store \"%s\" cannot be used with signature v2", store->name),
				 errdetail("libs3 knows no session tokens.")));

	/* It goes into URLs as it is. */
	if (len > LSM_LIBS3_MAX_KEY_ID ||
		strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") != len)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("store \"%s\" cannot be used with signature v2", store->name),
				 errdetail("For libs3, access_key_id must be of at most %d letters, digits and -._~.",
						   LSM_LIBS3_MAX_KEY_ID)));
}

/* ---- signing ---- */

static S3BucketContext
lsm_libs3_bucket(const LsmStore *store, const char *host)
{
	S3BucketContext bucket = {
		.hostName = host,
		.bucketName = store->options.bucket,
		.protocol = S3ProtocolHTTP,
		.uriStyle = S3UriStylePath,
		.accessKeyId = store->signer.access_key_id,
		.secretAccessKey = store->signer.secret_access_key
	};

	return bucket;
}

char *
lsm_libs3_sign(const LsmStore *store, const char *host, const char *path, const char *query)
{
	S3BucketContext bucket = lsm_libs3_bucket(store, host);
	const char *key = path + 1 + strlen(store->options.bucket);
	int64		seconds = Max(store->options.request_timeout_ms / 1000, LSM_LIBS3_VALID_SECONDS);
	char		url[S3_MAX_AUTHENTICATED_QUERY_STRING_SIZE];
	S3Status	status;

	Assert(!store->options.endpoint.tls && !store->options.virtual_hosted);
	status = S3_generate_authenticated_query_string(url, &bucket, *key == '/' ? key + 1 : NULL,
													(int64) time(NULL) + seconds, NULL);
	if (status != S3StatusOK)
		elog(ERROR, "libs3 could not sign a request: %s", S3_get_status_name(status));
	return psprintf("%s%s%s", url, query[0] != '\0' ? "&" : "", query);
}

/* ---- what libs3 calls; no errors may be raised here ---- */

static S3Status
lsm_libs3_properties(const S3ResponseProperties *properties, void *arg)
{
	((LsmLibs3Request *) arg)->progress_us = lsm_store_clock_us();
	return S3StatusOK;
}

static int
lsm_libs3_give(int size, char *buffer, void *arg)
{
	LsmLibs3Request *request = arg;
	const LsmLibs3Body *body = request->body;
	size_t		at = request->sent % LSM_LIBS3_PIECE;
	size_t		len = Min(LSM_LIBS3_PIECE - at, body->bytes - request->sent);

	len = Min(len, (size_t) size);
	memcpy(buffer, body->pieces[request->sent / LSM_LIBS3_PIECE] + at, len);
	request->sent += len;
	request->progress_us = lsm_store_clock_us();
	return (int) len;
}

/* What a status means.  Names of errors of the store begin with Error. */
static LsmStoreErrorClass
lsm_libs3_classify(S3Status status, const char *code)
{
	switch (status)
	{
		case S3StatusOK:
			return LSM_STORE_OK;
		case S3StatusInternalError: /* of libs3: whatever ends a connection */
		case S3StatusInterrupted:
		case S3StatusNameLookupError:
		case S3StatusFailedToConnect:
		case S3StatusConnectionFailed:
			return LSM_STORE_NETWORK;
		case S3StatusErrorAccessDenied:
		case S3StatusErrorInvalidAccessKeyId:
		case S3StatusErrorRequestTimeTooSkewed:
		case S3StatusErrorSignatureDoesNotMatch:
		case S3StatusHttpErrorForbidden:
			return LSM_STORE_PERMISSION;
		case S3StatusHttpErrorNotFound:
			return LSM_STORE_NOT_FOUND;
		case S3StatusErrorUnknown:	/* libs3 does not tell which */
		case S3StatusHttpErrorUnknown:
		case S3StatusXmlParseFailure:	/* an error that is not the store's */
			return LSM_STORE_BUSY;
		default:
			return lsm_store_classify(0, code);
	}
}

static void
lsm_libs3_complete(S3Status status, const S3ErrorDetails *details, void *arg)
{
	LsmLibs3Request *request = arg;
	LsmStoreError *error = &request->error;
	const char *name = S3_get_status_name(status);

	if (!request->running)
		return;					/* it had been given up */
	request->running = false;
	if (strncmp(name, "Error", 5) == 0)
		name += 5;
	error->class = lsm_libs3_classify(status, name);
	strlcpy(error->code, name, sizeof(error->code));
	error->message[0] = '\0';
	if (details != NULL && details->message != NULL)
		lsm_http_clean(error->message, details->message, sizeof(error->message));
}

/* ---- progress ---- */

static void
lsm_libs3_initialize(void)
{
	static bool initialized = false;
	sigset_t	saved;
	S3Status	status;

	if (initialized)
		return;
	lsm_http_enter(&saved);
	status = S3_initialize("lsm", S3_INIT_ALL, NULL);
	lsm_http_leave(&saved);
	if (status != S3StatusOK)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not initialize libs3: %s", S3_get_status_name(status))));
	initialized = true;
}

static S3RequestContext *
lsm_libs3_create_context(void)
{
	S3RequestContext *context;
	sigset_t	saved;
	S3Status	status;

	lsm_libs3_initialize();
	lsm_http_enter(&saved);
	status = S3_create_request_context(&context);
	lsm_http_leave(&saved);
	if (status != S3StatusOK)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("libs3 could not take requests.")));
	return context;
}

/* Ends what is under way in it.  Raises no error. */
static void
lsm_libs3_destroy_context(S3RequestContext *context)
{
	sigset_t	saved;

	lsm_http_enter(&saved);
	S3_destroy_request_context(context);
	lsm_http_leave(&saved);
}

static void
lsm_libs3_start(LsmStore *store, const char *host, S3RequestContext *context,
				LsmLibs3Request *request)
{
	static const S3PutObjectHandler put_handler = {
		{lsm_libs3_properties, lsm_libs3_complete}, lsm_libs3_give
	};
	static const S3ResponseHandler delete_handler = {lsm_libs3_properties, lsm_libs3_complete};
	S3BucketContext bucket = lsm_libs3_bucket(store, host);
	S3PutProperties properties = {.expires = -1};
	sigset_t	saved;

	request->running = true;
	request->attempted = true;
	request->sent = 0;
	request->start_us = request->progress_us = lsm_store_clock_us();
	request->error.attempts++;
	lsm_http_enter(&saved);
	if (request->kind == LSM_STORE_PUT)
	{
		properties.contentType = "application/octet-stream";
		properties.md5 = request->body->md5;
		S3_put_object(&bucket, request->key, request->body->bytes, &properties, context,
					  &put_handler, request);
	}
	else
		S3_delete_object(&bucket, request->key, context, &delete_handler, request);
	lsm_http_leave(&saved);
}

/* Wait until something may have moved, for a moment at most. */
static void
lsm_libs3_wait(S3RequestContext *context)
{
	fd_set		fds[3];
	int			max_fd = -1;
	int64		timeout_ms;
	struct timeval timeout = {0, 0};

	for (int i = 0; i < (int) lengthof(fds); i++)
		FD_ZERO(&fds[i]);
	S3_get_request_context_fdsets(context, &fds[0], &fds[1], &fds[2], &max_fd);
	timeout_ms = S3_get_request_context_timeout(context);
	if (timeout_ms < 0 || timeout_ms > LSM_LIBS3_WAIT_MS)
		timeout_ms = LSM_LIBS3_WAIT_MS;

	/* libcurl leaves out descriptors that do not fit a set, too. */
	if (max_fd < 0)
		timeout_ms = Min(timeout_ms, LSM_LIBS3_BLIND_WAIT_MS);
	timeout.tv_usec = timeout_ms * 1000;
	pgstat_report_wait_start(lsm_store_wait_event());
	(void) select(max_fd + 1, &fds[0], &fds[1], &fds[2], &timeout);
	pgstat_report_wait_end();
}

static void
lsm_libs3_drive(S3RequestContext *context)
{
	sigset_t	saved;
	S3Status	status;
	int			remaining;

	lsm_libs3_wait(context);
	lsm_http_enter(&saved);
	status = S3_runonce_request_context(context, &remaining);
	lsm_http_leave(&saved);
	if (status != S3StatusOK)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("libs3 could not go on: %s.", S3_get_status_name(status))));
	lsm_store_check();
	if (IsUnderPostmaster && !PostmasterIsAlive())
		proc_exit(1);
}

/* ---- requests ---- */

/* Has it taken too long?  Then it has failed, and is forgotten with its context. */
static bool
lsm_libs3_end_late(const LsmStore *store, LsmLibs3Request *request, int64 limit)
{
	int64		now = lsm_store_clock_us();
	int64		stall_ms = store->options.stall_timeout_ms;

	if (request->kind == LSM_STORE_PUT && request->sent == 0)
		stall_ms += LSM_LIBS3_EXPECT_MS;
	if (now <= limit && now - request->progress_us <= stall_ms * 1000)
		return false;
	request->running = false;
	request->error.class = LSM_STORE_TIMED_OUT;
	request->error.code[0] = '\0';
	strlcpy(request->error.message, now > limit ?
			"It took longer than request_timeout." : "Nothing moved for stall_timeout.",
			sizeof(request->error.message));
	return true;
}

#define lsm_libs3_is_open(request) \
	((request)->error.attempts == 0 || lsm_store_transient((request)->error.class))

/*
 * Try once what has not succeeded or failed for good, so many at a time.  When one
 * takes too long, all that are under way end with it, and others are not begun: the
 * next pass does them.
 */
static void
lsm_libs3_pass(LsmStore *store, const char *host, S3RequestContext *context,
			   LsmLibs3Request *requests, int n, int parallel, int64 limit)
{
	LsmLibs3Request **running = palloc(parallel * sizeof(LsmLibs3Request *));
	int			nrunning = 0;
	int			next = 0;
	bool		late = false;

	while (!late && (nrunning > 0 || next < n))
	{
		for (; next < n && nrunning < parallel; next++)
		{
			if (!lsm_libs3_is_open(&requests[next]))
				continue;
			lsm_libs3_start(store, host, context, &requests[next]);
			running[nrunning++] = &requests[next];
		}
		if (nrunning > 0)
			lsm_libs3_drive(context);
		for (int i = 0; i < nrunning; i++)
		{
			if (running[i]->running && !lsm_libs3_end_late(store, running[i], limit))
				continue;
			late |= running[i]->error.class == LSM_STORE_TIMED_OUT;
			running[i]->elapsed_us = lsm_store_clock_us() - running[i]->start_us;
			running[i--] = running[--nrunning];
		}
	}
	pfree(running);
}

/* A pass, with the descriptors that it may need counted as files of the server. */
static void
lsm_libs3_try(LsmStore *store, const char *host, LsmLibs3Request *requests, int n, int64 limit)
{
	S3RequestContext *context = lsm_libs3_create_context();
	int			parallel = Min(n, store->options.parallel_requests);
	volatile int reserved = 0;

	PG_TRY();
	{
		while (reserved < parallel && AcquireExternalFD())
			reserved++;
		if (reserved == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("could not put or delete objects of store \"%s\": %m",
							store->name)));
		lsm_libs3_pass(store, host, context, requests, n, reserved, limit);
	}
	PG_FINALLY();
	{
		lsm_libs3_destroy_context(context);
		while (reserved > 0)
		{
			ReleaseExternalFD();
			reserved--;
		}
	}
	PG_END_TRY();
}

static void
lsm_libs3_sleep(int64 until)
{
	int64		left;

	while ((left = until - lsm_store_clock_us()) > 0)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) (left / 1000 + 1), lsm_store_wait_event());
		ResetLatch(MyLatch);
		lsm_store_check();
	}
}

/* Has a put succeeded?  What is there, tells. */
static void
lsm_libs3_look(LsmStore *store, LsmLibs3Request *request)
{
	const LsmStoreSource *source = request->source;
	LsmStoreError *error = &request->error;
	LsmObjectTrailer trailer;
	uint64		object_bytes;
	const char *problem = NULL;

	if (error->class != LSM_STORE_OK && !lsm_store_transient(error->class))
		return;
	if (!lsm_store_s3_ops.tail(store, source->key, &trailer, &object_bytes))
	{
		if (error->class != LSM_STORE_OK)
			return;
		error->class = LSM_STORE_NETWORK;
		problem = "It is not there after it was put.";
	}
	else if (object_bytes == source->bytes + LSM_OBJECT_TRAILER_BYTES &&
			 memcmp(&trailer, &source->trailer, sizeof(trailer)) == 0)
		error->class = LSM_STORE_OK;
	else
	{
		error->class = LSM_STORE_EXISTS;
		problem = "There is another object of that key.";
	}
	if (problem != NULL)
	{
		error->code[0] = '\0';
		strlcpy(error->message, problem, sizeof(error->message));
	}
}

/* Do requests, with retries, until each has succeeded or failed. */
static void
lsm_libs3_do(LsmStore *store, LsmLibs3Request *requests, int n)
{
	int64		limit = lsm_store_clock_us() + (int64) store->options.request_timeout_ms * 1000;
	bool		ipv6 = strchr(store->address, ':') != NULL;
	char	   *host = psprintf(ipv6 ? "[%s]:%d" : "%s:%d", store->address,
								store->options.endpoint.port);

	Assert(store->address[0] != '\0');
	for (int attempts = 1;; attempts++)
	{
		int64		next;
		bool		open = false;

		lsm_libs3_try(store, host, requests, n, limit);
		next = lsm_store_clock_us() + lsm_http_retry_delay(attempts);
		for (int i = 0; i < n; i++)
		{
			if (requests[i].kind == LSM_STORE_PUT)
				lsm_libs3_look(store, &requests[i]);
			open |= lsm_libs3_is_open(&requests[i]);
			if (requests[i].attempted)
				lsm_store_stat_count(store->serverid, requests[i].kind, 0, requests[i].sent,
									 requests[i].elapsed_us,
									 lsm_libs3_is_open(&requests[i]) && next < limit);
			requests[i].attempted = false;
		}
		if (!open || next >= limit)
			break;
		lsm_libs3_sleep(next);
	}
	pfree(host);
}

static char *
lsm_libs3_key(const LsmStore *store, const char *key)
{
	return psprintf("%s%s%s", store->options.prefix, store->options.prefix[0] != '\0' ? "/" : "",
					key);
}

/* ---- writing ---- */

/* Pull all of a source. */
static void
lsm_libs3_pull(LsmStoreSource *source, LsmLibs3Body *body)
{
	pg_cryptohash_ctx *md5 = pg_cryptohash_create(PG_MD5);
	uint8		digest[MD5_DIGEST_LENGTH];
	int			npieces = 0;
	int			encoded;
	size_t		len;

	if (md5 == NULL || pg_cryptohash_init(md5) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("could not compute an MD5 hash"),
				 errdetail("Signature v2 needs MD5 and SHA-1.")));
	body->pieces = palloc(sizeof(char *));
	body->bytes = 0;
	do
	{
		body->pieces = repalloc(body->pieces, (npieces + 1) * sizeof(char *));
		body->pieces[npieces] = palloc(LSM_LIBS3_PIECE);
		len = lsm_store_source_fill(source, body->pieces[npieces], LSM_LIBS3_PIECE);
		if (pg_cryptohash_update(md5, (uint8 *) body->pieces[npieces++], len) < 0)
			elog(ERROR, "could not compute an MD5 hash");
		body->bytes += len;
	} while (len == LSM_LIBS3_PIECE);
	if (pg_cryptohash_final(md5, digest, sizeof(digest)) < 0)
		elog(ERROR, "could not compute an MD5 hash");
	pg_cryptohash_free(md5);
	encoded = pg_b64_encode((void *) digest, sizeof(digest), body->md5, sizeof(body->md5) - 1);
	if (encoded < 0)
		elog(ERROR, "could not encode an MD5 hash");
	body->md5[encoded] = '\0';
}

/*
 * libs3 would replace an object that is there.  So look for one first, which tells the
 * address as well.  Between the two somebody else may put one; but keys are not used
 * twice.
 */
static void
lsm_libs3_put(LsmStore *store, const char *key, LsmStoreSource *source)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm libs3 put",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LsmLibs3Body body;
	LsmLibs3Request request = {.kind = LSM_STORE_PUT,.body = &body,.source = source};
	LsmObjectTrailer trailer;
	uint64		object_bytes;

	lsm_libs3_pull(source, &body);
	if (lsm_store_s3_ops.tail(store, key, &trailer, &object_bytes))
	{
		source->conflict.class = LSM_STORE_EXISTS;
		strlcpy(source->conflict.message, "There is an object of that key.",
				sizeof(source->conflict.message));
	}
	else
	{
		LSM_STOP("store-before-visible");
		request.key = lsm_libs3_key(store, key);
		lsm_libs3_do(store, &request, 1);
		if (request.error.class != LSM_STORE_OK)
			lsm_store_raise(store, "put", key, &request.error);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

static void
lsm_libs3_delete(LsmStore *store, const char *const *keys, int nkeys)
{
	LsmLibs3Request *requests = palloc0(nkeys * sizeof(LsmLibs3Request));
	LsmObjectTrailer trailer;
	uint64		object_bytes;

	/* only for the address */
	(void) lsm_store_s3_ops.tail(store, keys[0], &trailer, &object_bytes);
	for (int i = 0; i < nkeys; i++)
	{
		requests[i].kind = LSM_STORE_DELETE;
		requests[i].key = lsm_libs3_key(store, keys[i]);
	}
	lsm_libs3_do(store, requests, nkeys);
	for (int i = 0; i < nkeys; i++)
	{
		if (requests[i].error.class != LSM_STORE_OK &&
			requests[i].error.class != LSM_STORE_NOT_FOUND)
			lsm_store_raise(store, "delete", keys[i], &requests[i].error);
		pfree(requests[i].key);
	}
	pfree(requests);
}

const LsmStoreOps *
lsm_libs3_ops(void)
{
	static LsmStoreOps ops;

	ops = lsm_store_s3_ops;
	ops.check = lsm_libs3_check;
	ops.put = lsm_libs3_put;
	ops.delete = lsm_libs3_delete;
	return &ops;
}
