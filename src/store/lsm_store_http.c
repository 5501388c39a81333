/*-------------------------------------------------------------------------
 *
 * lsm_store_http.c
 *	  Requests to S3, many at a time, signed and tried again.
 *
 * libcurl in a backend.  One multi handle does the requests of all batches, and keeps
 * connections alive for the next ones; there is one thread, and nothing is sent or
 * received but in lsm_http_drive().
 *
 * ERRORS AND CURL
 *	  Functions that curl calls back must not raise errors, as that would jump
 *	  over curl's frames: they allocate without raising, and note what is wrong in
 *	  the request.  All else that may fail is done before curl gets a request or
 *	  after it has given it back.  An error or a cancel while others wait leaves
 *	  requests as they are; the release of their resource owner ends them.  What
 *	  they point to may be gone by then, but nothing looks at it: removing a
 *	  transfer touches curl's memory only.
 *
 * THREADS AND SIGNALS
 *	  curl resolves names in a thread that does nothing but getaddrinfo(): the
 *	  only way not to block in it.  Signal handlers of the server must not run
 *	  there, so all signals are blocked while curl runs, and threads inherit that.
 *	  When a request is given up while its name is being resolved, the thread is
 *	  left to end by itself (CURLOPT_QUICK_EXIT), and frees what it has; it shares
 *	  nothing with the backend.  curl sets no signal handlers (CURLOPT_NOSIGNAL).
 *	  Interrupts are looked at every 100 ms and whenever a signal ends the wait.
 *
 * LIMITS
 *	  Of a store, parallel_requests are with curl at a time, in each backend; the
 *	  others wait in the order in which they came.  Bodies of answers are bounded.
 *	  Sockets count as files of the server (AcquireExternalFD).
 *
 * TIME
 *	  Who reads ahead takes what he has asked for when he comes to it, which may be
 *	  much later: nobody drives curl meanwhile, and answers wait in sockets.  That is
 *	  no time of the request's (lsm_http_pass_pause()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/pg_prng.h"
#include "lsm_store_http.h"
#include "lsm_store_libs3.h"
#include "lsm_store_xml.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#if LIBCURL_VERSION_NUM < 0x075700
#error "lsm needs libcurl 7.87 or later"
#endif

#define LSM_HTTP_WAIT_MS		100
#define LSM_HTTP_PAUSE_US		(LSM_HTTP_WAIT_MS * 1000)	/* who waits comes sooner */
#define LSM_HTTP_POKE_US		200 /* what comes meanwhile has room in
									 * sockets */
#define LSM_HTTP_MAX_ERROR		(16 * 1024) /* bytes of an answer that is an
											 * error */
#define LSM_HTTP_FIRST_DELAY_US 50000
#define LSM_HTTP_LAST_DELAY_US	5000000
#define LSM_HTTP_NO_RANGE		"The store does not answer with the range that was asked for."
#define LSM_HTTP_IDLE			64	/* easy handles that are kept */
#define LSM_HTTP_STALLED		1L	/* bytes a second */

/* What curl has of a request. */
typedef struct LsmHttpTransfer
{
	CURL	   *easy;
	struct curl_slist *headers;
	char		error[CURL_ERROR_SIZE];
} LsmHttpTransfer;

struct LsmHttpBatch
{
	dlist_node	node;			/* in lsm_http_batches */
	LsmStore   *store;
	MemoryContext context;
	ResourceOwner owner;		/* NULL: detached */
	int			unfinished;		/* waiting or with curl */
	dlist_head	waiting;		/* in the order in which they came */
	dlist_head	running;
	dlist_head	over;
};

static dlist_head lsm_http_batches = DLIST_STATIC_INIT(lsm_http_batches);
static CURLM *lsm_http_multi;
static CURL *lsm_http_idle[LSM_HTTP_IDLE];
static int	lsm_http_nidle;
static int64 lsm_http_driven_us;	/* when requests made progress last */

/* ---- calls into curl ---- */

/* Signals are blocked while curl runs, for the sake of the threads that it makes. */
void
lsm_http_enter(sigset_t *saved)
{
	sigset_t	all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, saved);
}

void
lsm_http_leave(const sigset_t *saved)
{
	pthread_sigmask(SIG_SETMASK, saved, NULL);
}

static void
lsm_http_start_curl(void)
{
	if (lsm_http_multi != NULL)
		return;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
		(lsm_http_multi = curl_multi_init()) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not initialize libcurl")));
	curl_multi_setopt(lsm_http_multi, CURLMOPT_MAXCONNECTS, (long) LSM_STORE_MAX_PARALLEL);
	curl_multi_setopt(lsm_http_multi, CURLMOPT_PIPELINING, (long) CURLPIPE_NOTHING);
}

/* ---- what curl calls; no errors may be raised here ---- */

/*
 * The sockets that count as files of the server.  libcurl from 7.88.0 to 8.1.2 closes one that
 * has not been connected yet without telling us: so each is known by its inode as well, and
 * who wants one looks whether the others still are what they were.
 */
typedef struct LsmHttpSocket
{
	int			fd;
	dev_t		device;
	ino_t		inode;
} LsmHttpSocket;

static LsmHttpSocket *lsm_http_sockets;
static int	lsm_http_nsockets;
static int	lsm_http_maxsockets;

static void
lsm_http_forget_socket(int i)
{
	lsm_http_sockets[i] = lsm_http_sockets[--lsm_http_nsockets];
	ReleaseExternalFD();
}

/* Those that have been closed do not count any more. */
static void
lsm_http_settle_sockets(void)
{
	for (int i = lsm_http_nsockets - 1; i >= 0; i--)
	{
		LsmHttpSocket *known = &lsm_http_sockets[i];
		struct stat st;

		if (fstat(known->fd, &st) != 0 || st.st_dev != known->device || st.st_ino != known->inode)
			lsm_http_forget_socket(i);
	}
}

/* Have one that counts; -1 and errno: there is none. */
static int
lsm_http_make_socket(const struct curl_sockaddr *address)
{
	LsmHttpSocket *known;
	struct stat st;
	int			fd;
	int			error;

	lsm_http_settle_sockets();
	if (lsm_http_nsockets >= lsm_http_maxsockets)
	{
		int			most = Max(2 * lsm_http_maxsockets, 64);
		LsmHttpSocket *sockets = realloc(lsm_http_sockets, most * sizeof(LsmHttpSocket));

		if (sockets == NULL)
			return -1;
		lsm_http_sockets = sockets;
		lsm_http_maxsockets = most;
	}
	if (!AcquireExternalFD())
		return -1;
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd >= 0 && fstat(fd, &st) == 0)
	{
		known = &lsm_http_sockets[lsm_http_nsockets++];
		known->fd = fd;
		known->device = st.st_dev;
		known->inode = st.st_ino;
		return fd;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	ReleaseExternalFD();
	errno = error;
	return -1;
}

static curl_socket_t
lsm_http_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	LsmHttpRequest *request = arg;
	int			fd;

	if (lsm_store_address_refused(&address->addr))
	{
		const void *in = address->family == AF_INET6 ?
		(const void *) &((struct sockaddr_in6 *) &address->addr)->sin6_addr :
		(const void *) &((struct sockaddr_in *) &address->addr)->sin_addr;

		if (inet_ntop(address->family, in, request->refused, sizeof(request->refused)) == NULL)
			strlcpy(request->refused, "unknown", sizeof(request->refused));
		return CURL_SOCKET_BAD;
	}
	fd = lsm_http_make_socket(address);
	if (fd >= 0)
		return fd;
	request->socket_errno = errno;
	return CURL_SOCKET_BAD;
}

static int
lsm_http_close_socket(void *arg, curl_socket_t fd)
{
	for (int i = 0; i < lsm_http_nsockets; i++)
	{
		if (lsm_http_sockets[i].fd == fd)
		{
			lsm_http_forget_socket(i);
			break;
		}
	}
	return close(fd);
}

static bool
lsm_http_grow(LsmHttpRequest *request, size_t more, size_t limit)
{
	size_t		need = request->response_len + more + 1;
	size_t		size = Max(Max(need, 2 * request->response_size), 1024);
	char	   *response;

	if (need > limit + 1)
		return false;
	if (need <= request->response_size)
		return true;
	response = MemoryContextAllocExtended(request->batch->context, size, MCXT_ALLOC_NO_OOM);
	if (response == NULL)
		return false;
	if (request->response != NULL)
	{
		memcpy(response, request->response, request->response_len);
		pfree(request->response);
	}
	request->response = response;
	request->response_size = size;
	return true;
}

static void
lsm_http_keep(LsmHttpRequest *request, const char *data, size_t len)
{
	memcpy(request->response + request->response_len, data, len);
	request->response_len += len;
	request->response[request->response_len] = '\0';
}

/* Bytes of a body: of a range into the buffer, of all else into the response. */
static size_t
lsm_http_write(char *data, size_t size, size_t n, void *arg)
{
	LsmHttpRequest *request = arg;
	size_t		len = size * n;
	bool		good = request->status >= 200 && request->status < 300;

	if (!good)
	{
		/* Of an error, the beginning will do. */
		size_t		n_kept = Min(len, LSM_HTTP_MAX_ERROR - request->response_len);

		if (lsm_http_grow(request, n_kept, LSM_HTTP_MAX_ERROR))
			lsm_http_keep(request, data, n_kept);
	}
	else if (request->len > 0)
	{
		if (len > request->len - request->received)
			request->overflow = true;
		else
			memcpy(request->buffer + request->received, data, len);
	}
	else if (lsm_http_grow(request, len, request->max_response))
		lsm_http_keep(request, data, len);
	else
		request->overflow = true;
	if (request->overflow)
		return 0;
	request->received += len;
	return len;
}

/* The value of a header of that name in lower case, or NULL. */
static const char *
lsm_http_header_value(const char *line, const char *name)
{
	size_t		len = strlen(name);

	if (pg_strncasecmp(line, name, len) != 0 || line[len] != ':')
		return NULL;
	line += len + 1;
	return line + strspn(line, " \t");
}

static bool
lsm_http_parse_range(LsmHttpRequest *request, const char *value)
{
	unsigned long long first,
				last,
				total;
	int			end = 0;

	if (sscanf(value, "bytes %19llu-%19llu/%19llu%n", &first, &last, &total, &end) != 3 ||
		value[end] != '\0' || first > last || last >= total)
		return false;
	request->range_first = first;
	request->range_last = last;
	request->object_bytes = total;
	return true;
}

static size_t
lsm_http_header(char *data, size_t size, size_t n, void *arg)
{
	LsmHttpRequest *request = arg;
	size_t		len = size * n;
	char		line[1024];
	const char *value;

	while (len > 0 && (data[len - 1] == '\r' || data[len - 1] == '\n' || data[len - 1] == ' '))
		len--;
	if (len >= sizeof(line))
		return size * n;		/* none that we want is so long */
	memcpy(line, data, len);
	line[len] = '\0';
	if (strncmp(line, "HTTP/", 5) == 0)
	{
		const char *blank = strchr(line, ' ');

		request->status = blank != NULL ? atoi(blank + 1) : 0;
		request->has_range = false;
		request->etag[0] = '\0';
	}
	else if ((value = lsm_http_header_value(line, "content-range")) != NULL)
		request->has_range = lsm_http_parse_range(request, value);
	else if ((value = lsm_http_header_value(line, "etag")) != NULL)
	{
		if (strlcpy(request->etag, value, sizeof(request->etag)) >= sizeof(request->etag))
			request->etag[0] = '\0';
	}
	else if ((value = lsm_http_header_value(line, "x-amz-request-id")) != NULL)
		strlcpy(request->error.request_id, value, sizeof(request->error.request_id));
	else if ((value = lsm_http_header_value(line, "retry-after")) != NULL)
		request->retry_after = Min(Max(atoi(value), 0), 3600);
	return size * n;
}

/* ---- a request goes to curl ---- */

static char *
lsm_http_host(const LsmStore *store)
{
	const LsmStoreEndpoint *endpoint = &store->options.endpoint;
	StringInfoData host;

	initStringInfo(&host);
	if (store->options.virtual_hosted)
		appendStringInfo(&host, "%s.", store->options.bucket);
	appendStringInfo(&host, strchr(endpoint->host, ':') != NULL ? "[%s]" : "%s", endpoint->host);
	if (endpoint->port != (endpoint->tls ? 443 : 80))
		appendStringInfo(&host, ":%d", endpoint->port);
	return host.data;
}

static void
lsm_http_add_header(LsmSignHeader *headers, int *n, const char *name, const char *value)
{
	headers[*n].name = name;
	headers[*n].value = value;
	(*n)++;
}

/* The bytes that are wanted of an object, as the header Range has them. */
static char *
lsm_http_range(const LsmHttpRequest *request)
{
	if (request->suffix)
		return psprintf("bytes=-%zu", request->len);
	return psprintf("bytes=" UINT64_FORMAT "-" UINT64_FORMAT, request->offset,
					request->offset + request->len - 1);
}

/* Headers, signed now, as lines; palloc'd. */
static List *
lsm_http_headers(LsmHttpRequest *request, const char *host)
{
	LsmStore   *store = request->batch->store;
	LsmSigner  *signer = &store->signer;
	LsmSignHeader headers[8];
	int			n = 0;
	char		time_text[LSM_SIGN_TIME_BYTES];
	List	   *lines = NIL;

	lsm_sign_time((pg_time_t) time(NULL), time_text);
	lsm_http_add_header(headers, &n, "host", host);
	lsm_http_add_header(headers, &n, "x-amz-content-sha256", request->payload_hash);
	lsm_http_add_header(headers, &n, "x-amz-date", time_text);
	if (signer->session_token != NULL)
		lsm_http_add_header(headers, &n, "x-amz-security-token", signer->session_token);
	if (request->conditional && !store->no_conditions)
		lsm_http_add_header(headers, &n, "if-none-match", "*");
	if (request->len > 0)
		lsm_http_add_header(headers, &n, "range", lsm_http_range(request));
	Assert(n <= (int) lengthof(headers));
	lines = lappend(lines, psprintf("Authorization: %s",
									lsm_sign(signer, request->method, request->path,
											 request->query, headers, n,
											 request->payload_hash, time_text)));
	for (int i = 0; i < n; i++)
		lines = lappend(lines, psprintf("%s: %s", headers[i].name, headers[i].value));
	if (request->body != NULL)
		lines = lappend(lines, "Content-Type: application/octet-stream");
	lines = lappend(lines, "Expect:");
	lines = lappend(lines, "Accept:");
	return lines;
}

#ifdef LSM_WITH_LIBS3
/* Those of a request whose URL is signed; there are no others that need be. */
static List *
lsm_http_plain_headers(const LsmHttpRequest *request)
{
	List	   *lines = NIL;

	Assert(strcmp(request->method, "GET") == 0 && request->body == NULL);
	if (request->len > 0)
		lines = lappend(lines, psprintf("Range: %s", lsm_http_range(request)));
	return lappend(lines, "Accept:");
}
#endif

/* URL and headers, signed now; palloc'd. */
static char *
lsm_http_sign(LsmHttpRequest *request, List **lines)
{
	LsmStore   *store = request->batch->store;
	char	   *host = lsm_http_host(store);

#ifdef LSM_WITH_LIBS3
	if (store->options.signature_v2)
	{
		*lines = lsm_http_plain_headers(request);
		return lsm_libs3_sign(store, host, request->path, request->query);
	}
#endif
	*lines = lsm_http_headers(request, host);
	return psprintf("%s://%s%s%s%s", store->options.endpoint.tls ? "https" : "http",
					host, request->path, request->query[0] != '\0' ? "?" : "",
					request->query);
}

/* Options that never differ between requests of a store. */
static void
lsm_http_set_store(CURL *easy, const LsmStoreOptions *options)
{
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, options->endpoint.tls ? "https" : "http");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 128L * 1024);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L * 1024);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
	if (options->ca_file != NULL)
	{
		/* these, and not the system's as well */
		curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}

	/* An empty one keeps curl from looking into the environment. */
	curl_easy_setopt(easy, CURLOPT_PROXY, options->proxy != NULL ? options->proxy : "");
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) options->connect_timeout_ms);

	/* Stalled: less than so many bytes a second, for so many seconds. */
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, LSM_HTTP_STALLED);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
					 (long) Max((options->stall_timeout_ms + 999) / 1000, 1));
}

static void
lsm_http_set_request(CURL *easy, LsmHttpRequest *request, const char *url)
{
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->transfer->headers);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->transfer->error);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, lsm_http_open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, request);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, lsm_http_close_socket);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, lsm_http_write);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, lsm_http_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	if (request->body != NULL)
	{
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
	}
}

/* Give a request to curl, signed as of now.  It stays in the waiting list if that fails. */
static void
lsm_http_start(LsmHttpRequest *request)
{
	LsmHttpBatch *batch = request->batch;
	LsmStore   *store = batch->store;
	MemoryContext attempt = AllocSetContextCreate(CurrentMemoryContext, "lsm http attempt",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(attempt);
	LsmHttpTransfer *transfer = MemoryContextAllocZero(batch->context, sizeof(LsmHttpTransfer));
	List	   *lines;
	char	   *url = lsm_http_sign(request, &lines);
	ListCell   *cell;
	bool		failed = false;
	sigset_t	saved;

	/* Nothing raises an error from here to the end. */
	lsm_http_enter(&saved);
	transfer->easy = lsm_http_nidle > 0 ? lsm_http_idle[--lsm_http_nidle] : curl_easy_init();
	foreach(cell, lines)
	{
		struct curl_slist *more = curl_slist_append(transfer->headers, lfirst(cell));

		failed |= more == NULL;
		if (more != NULL)
			transfer->headers = more;
	}
	request->transfer = transfer;
	request->received = 0;
	request->status = 0;
	request->overflow = false;
	request->has_range = false;
	request->retry_after = 0;
	request->response_len = 0;
	request->refused[0] = '\0';
	request->socket_errno = 0;
	request->etag[0] = '\0';
	request->error.request_id[0] = '\0';
	request->paused_us = 0;
	if (!failed && transfer->easy != NULL)
	{
		lsm_http_set_store(transfer->easy, &store->options);
		lsm_http_set_request(transfer->easy, request, url);
		failed = curl_multi_add_handle(lsm_http_multi, transfer->easy) != CURLM_OK;
	}
	else
		failed = true;
	if (failed)
	{
		curl_slist_free_all(transfer->headers);
		if (transfer->easy != NULL)
			curl_easy_cleanup(transfer->easy);
		request->transfer = NULL;
	}
	else
	{
		dlist_delete(&request->node);
		dlist_push_tail(&batch->running, &request->node);
		store->active++;
		request->start_us = lsm_store_clock_us();
		if (request->error.attempts++ == 0)
			request->first_us = request->start_us;
	}
	lsm_http_leave(&saved);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(attempt);
	if (failed)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("libcurl could not take a request.")));
}

/* ---- and comes back ---- */

/* Note the address that answered. */
static void
lsm_http_note_address(LsmHttpRequest *request)
{
	LsmStore   *store = request->batch->store;
	char	   *address;

	if (curl_easy_getinfo(request->transfer->easy, CURLINFO_PRIMARY_IP, &address) == CURLE_OK &&
		address != NULL)
		strlcpy(store->address, address, sizeof(store->address));
}

/* Take a request away from curl, whether it has ended or not.  Raises no error. */
static void
lsm_http_remove(LsmHttpRequest *request)
{
	LsmHttpTransfer *transfer = request->transfer;
	sigset_t	saved;

	lsm_http_enter(&saved);
	curl_multi_remove_handle(lsm_http_multi, transfer->easy);
	curl_easy_reset(transfer->easy);
	if (lsm_http_nidle < LSM_HTTP_IDLE)
		lsm_http_idle[lsm_http_nidle++] = transfer->easy;
	else
		curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	lsm_http_leave(&saved);
	pfree(transfer);
	request->transfer = NULL;
	request->batch->store->active--;
}

/* Text from the network, for a message: printable ASCII only. */
void
lsm_http_clean(char *to, const char *from, size_t size)
{
	size_t		i;

	for (i = 0; i < size - 1 && from[i] != '\0'; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[i] = '\0';
}

/* What an answer that is an error says of itself. */
static void
lsm_http_error_element(void *arg, const char *path, const char *text)
{
	LsmStoreError *error = arg;

	if (text == NULL)
		return;
	if (strcmp(path, "Error/Code") == 0)
		lsm_http_clean(error->code, text, sizeof(error->code));
	else if (strcmp(path, "Error/Message") == 0)
		lsm_http_clean(error->message, text, sizeof(error->message));
	else if (strcmp(path, "Error/RequestId") == 0 && error->request_id[0] == '\0')
		lsm_http_clean(error->request_id, text, sizeof(error->request_id));
}

static void
lsm_http_fail(LsmHttpRequest *request, LsmStoreErrorClass class, const char *message)
{
	request->error.class = class;
	lsm_http_clean(request->error.message, message, sizeof(request->error.message));
}

/* Does the answer begin to be the range that is wanted? */
static bool
lsm_http_is_range(const LsmHttpRequest *request)
{
	return request->status >= 200 && request->status < 300 && request->has_range &&
		!request->suffix && request->range_first == request->offset &&
		request->range_last == request->offset + request->len - 1;
}

/* Was the range that came the one that was wanted? */
static void
lsm_http_judge_range(LsmHttpRequest *request)
{
	uint64		first;

	if (!request->has_range)
	{
		lsm_http_fail(request, LSM_STORE_REFUSED, LSM_HTTP_NO_RANGE);
		return;
	}
	first = request->suffix ? request->object_bytes - Min(request->object_bytes, request->len) :
		request->offset;
	if (request->range_first != first ||
		(!request->suffix && request->range_last != first + request->len - 1) ||
		(request->suffix && request->range_last != request->object_bytes - 1))
		lsm_http_fail(request, LSM_STORE_CORRUPT, "It is shorter than it must be.");
	else if (request->received != request->range_last - request->range_first + 1)
		lsm_http_fail(request, LSM_STORE_NETWORK, "The answer was cut off.");
}

/* What curl says went wrong. */
static void
lsm_http_judge_curl(LsmHttpRequest *request, CURLcode code)
{
	const char *text = request->transfer->error[0] != '\0' ? request->transfer->error :
	curl_easy_strerror(code);

	switch (code)
	{
		case CURLE_WRITE_ERROR:
			if (request->len > 0 && !request->has_range)
				lsm_http_fail(request, LSM_STORE_REFUSED, LSM_HTTP_NO_RANGE);
			else
				lsm_http_fail(request, LSM_STORE_CORRUPT, "The answer is longer than it may be.");
			break;
		case CURLE_OPERATION_TIMEDOUT:
			lsm_http_fail(request, LSM_STORE_TIMED_OUT, text);
			break;
		case CURLE_PEER_FAILED_VERIFICATION:
		case CURLE_SSL_CACERT_BADFILE:
		case CURLE_SSL_CERTPROBLEM:
		case CURLE_URL_MALFORMAT:
		case CURLE_UNSUPPORTED_PROTOCOL:
			lsm_http_fail(request, LSM_STORE_REFUSED, text);
			break;
		default:
			lsm_http_fail(request, LSM_STORE_NETWORK, text);
	}
	if (request->refused[0] != '\0' && request->received == 0)
	{
		lsm_http_fail(request, LSM_STORE_ADDRESS, "");
		snprintf(request->error.message, sizeof(request->error.message),
				 "The name of the endpoint stands for address %s, which is not allowed.",
				 request->refused);
	}
	else if (request->socket_errno != 0 && request->received == 0)
	{
		errno = request->socket_errno;
		lsm_http_fail(request, LSM_STORE_NETWORK, "");
		snprintf(request->error.message, sizeof(request->error.message),
				 "There is no socket to be had: %m.");
	}
}

/* Set request->error from all that came. */
static void
lsm_http_judge(LsmHttpRequest *request, CURLcode code)
{
	LsmStoreError *error = &request->error;
	bool		success = request->status >= 200 && request->status < 300;
	char		request_id[sizeof(error->request_id)];

	error->class = LSM_STORE_OK;
	error->code[0] = '\0';
	error->message[0] = '\0';
	error->http_status = request->status;
	lsm_http_clean(request_id, error->request_id, sizeof(request_id));
	strlcpy(error->request_id, request_id, sizeof(error->request_id));
	if (code != CURLE_OK)
	{
		lsm_http_judge_curl(request, code);
		return;
	}
	if ((!success || request->early_status) && request->response_len > 0)
		lsm_xml_parse(request->response, request->response_len, lsm_http_error_element, error);

	/* then the status tells nothing */
	error->class = lsm_store_classify(success && error->code[0] != '\0' ? 0 : request->status,
									  error->code);
	if (error->class == LSM_STORE_OK && request->len > 0)
		lsm_http_judge_range(request);
}

/*
 * How long to wait after so many attempts, in microseconds: drawn at random from ever
 * longer spans, so that those who failed together do not come back together.
 */
int64
lsm_http_retry_delay(int attempts)
{
	int64		span = LSM_HTTP_FIRST_DELAY_US;

	for (int i = 1; i < attempts && span < LSM_HTTP_LAST_DELAY_US; i++)
		span *= 2;
	span = Min(span, LSM_HTTP_LAST_DELAY_US);
	return span / 2 + (int64) (pg_prng_double(&pg_global_prng_state) * span);
}

/*
 * Shall it be tried again?  Then it is told when.  One that was sent after a pause may have been
 * refused for its signature, which was too old by then.
 */
static bool
lsm_http_try_again(LsmHttpRequest *request)
{
	const LsmStore *store = request->batch->store;
	int64		now = lsm_store_clock_us();
	int64		limit = request->first_us + (int64) store->options.request_timeout_ms * 1000;
	int64		delay;

	if (!lsm_store_transient(request->error.class) &&
		!(request->paused_us > 0 && request->error.class == LSM_STORE_PERMISSION))
		return false;
	delay = Max(lsm_http_retry_delay(request->error.attempts),
				(int64) request->retry_after * 1000000);
	if (now + delay >= limit)
		return false;
	request->due_us = now + delay;
	return true;
}

/* A transfer is over: remove it, judge it, and hand it back or try it again. */
static void
lsm_http_complete(LsmHttpRequest *request, CURLcode code)
{
	LsmHttpBatch *batch = request->batch;
	LsmStore   *store = batch->store;
	bool		again;

	lsm_http_judge(request, code);
	if (code == CURLE_OK && store->options.signature_v2)
		lsm_http_note_address(request);
	lsm_http_remove(request);
	dlist_delete(&request->node);
	if (request->error.http_status == 501 && request->conditional && !store->no_conditions)
	{
		/*
		 * It does not know conditions; without them keys are unique all the
		 * same.
		 */
		store->no_conditions = true;
		request->due_us = 0;
		again = true;
	}
	else
		again = lsm_http_try_again(request);
	if (again)
		dlist_push_head(&batch->waiting, &request->node);
	else
	{
		dlist_push_tail(&batch->over, &request->node);
		batch->unfinished--;
	}
	lsm_store_stat_count(store->serverid, request->kind,
						 request->received, request->body != NULL ? request->body_len : 0,
						 lsm_store_clock_us() - request->start_us, again);
}

/* ---- progress ---- */

/* Give curl what it may have, and tell when the next one is due (0: none waits). */
static int64
lsm_http_start_due(void)
{
	int64		now = lsm_store_clock_us();
	int64		next_due = 0;
	dlist_iter	at;

	dlist_foreach(at, &lsm_http_batches)
	{
		LsmHttpBatch *batch = dlist_container(LsmHttpBatch, node, at.cur);
		dlist_mutable_iter waiting;

		dlist_foreach_modify(waiting, &batch->waiting)
		{
			LsmHttpRequest *request = dlist_container(LsmHttpRequest, node, waiting.cur);

			if (batch->store->active >= batch->store->options.parallel_requests)
				break;
			if (request->due_us > now)
				next_due = next_due == 0 ? request->due_us : Min(next_due, request->due_us);
			else
				lsm_http_start(request);
		}
	}
	return next_due;
}

static void
lsm_http_collect(void)
{
	CURLMsg    *message;
	int			left;

	while ((message = curl_multi_info_read(lsm_http_multi, &left)) != NULL)
	{
		char	   *request;
		CURLcode	code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
		lsm_http_complete((LsmHttpRequest *) request, code);
	}
}

/* End attempts that take longer than a request may with all its retries. */
static void
lsm_http_end_late(void)
{
	int64		now = lsm_store_clock_us();
	dlist_iter	at;

	dlist_foreach(at, &lsm_http_batches)
	{
		LsmHttpBatch *batch = dlist_container(LsmHttpBatch, node, at.cur);
		int64		timeout_us = (int64) batch->store->options.request_timeout_ms * 1000;
		dlist_mutable_iter running;

		dlist_foreach_modify(running, &batch->running)
		{
			LsmHttpRequest *request = dlist_container(LsmHttpRequest, node, running.cur);

			if (now - request->first_us > timeout_us)
				lsm_http_complete(request, CURLE_OPERATION_TIMEDOUT);
		}
	}
}

/* What is too slow, for all that curl has; 0: nothing is, and what was so far is forgotten. */
static void
lsm_http_set_stalled(long bytes)
{
	dlist_iter	at;

	dlist_foreach(at, &lsm_http_batches)
	{
		LsmHttpBatch *batch = dlist_container(LsmHttpBatch, node, at.cur);
		dlist_iter	running;

		dlist_foreach(running, &batch->running)
		{
			LsmHttpRequest *request = dlist_container(LsmHttpRequest, node, running.cur);

			curl_easy_setopt(request->transfer->easy, CURLOPT_LOW_SPEED_LIMIT, bytes);
		}
	}
}

static void
lsm_http_add_pause(LsmHttpRequest *request, int64 pause_us)
{
	/* one that has not been started gets its time then */
	request->first_us += pause_us;
	if (request->transfer == NULL)
		return;
	request->paused_us += pause_us;
	curl_easy_setopt(request->transfer->easy, CURLOPT_CONNECTTIMEOUT_MS,
					 (long) (request->batch->store->options.connect_timeout_ms +
							 request->paused_us / 1000));
}

/*
 * Has nobody driven curl for a while?  That is no time of those who are waited for; it is of
 * batches that are detached.
 */
static bool
lsm_http_pass_pause(void)
{
	int64		pause_us = lsm_store_clock_us() - lsm_http_driven_us;
	dlist_iter	at;

	if (pause_us < LSM_HTTP_PAUSE_US)
		return false;
	dlist_foreach(at, &lsm_http_batches)
	{
		LsmHttpBatch *batch = dlist_container(LsmHttpBatch, node, at.cur);
		dlist_iter	it;

		if (batch->owner == NULL)
			continue;
		dlist_foreach(it, &batch->waiting)
			lsm_http_add_pause(dlist_container(LsmHttpRequest, node, it.cur), pause_us);
		dlist_foreach(it, &batch->running)
			lsm_http_add_pause(dlist_container(LsmHttpRequest, node, it.cur), pause_us);
	}
	return true;
}

static void
lsm_http_perform(bool paused)
{
	sigset_t	saved;
	int			running;

	if (paused)
		lsm_http_set_stalled(0);
	lsm_http_enter(&saved);
	curl_multi_perform(lsm_http_multi, &running);
	lsm_http_leave(&saved);
	if (paused)
		lsm_http_set_stalled(LSM_HTTP_STALLED);
	lsm_http_collect();
	lsm_http_end_late();
	lsm_http_driven_us = lsm_store_clock_us();
}

/* Free batches that nobody waits for, once their requests are over. */
static void
lsm_http_end_detached(void)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &lsm_http_batches)
	{
		LsmHttpBatch *batch = dlist_container(LsmHttpBatch, node, at.cur);

		if (batch->owner == NULL && batch->unfinished == 0)
			lsm_http_end(batch);
	}
}

/* Let all requests make progress, and wait for it for a moment at most. */
static void
lsm_http_drive(bool wait)
{
	int64		next_due;
	int64		timeout_ms = LSM_HTTP_WAIT_MS;
	bool		paused = lsm_http_pass_pause();

	next_due = lsm_http_start_due();
	if (wait)
	{
		if (next_due != 0)
			timeout_ms = Max(Min(timeout_ms, (next_due - lsm_store_clock_us()) / 1000 + 1), 0);
		pgstat_report_wait_start(lsm_store_wait_event());
		curl_multi_poll(lsm_http_multi, NULL, 0, (int) timeout_ms, NULL);
		pgstat_report_wait_end();
	}
	lsm_http_perform(paused);
	lsm_http_end_detached();
}

/* ---- batches ---- */

LsmHttpBatch *
lsm_http_begin(LsmStore *store)
{
	MemoryContext context;
	LsmHttpBatch *batch;

	lsm_http_start_curl();
	lsm_store_watch_owners();
	Assert(CurrentResourceOwner != NULL);
	context = AllocSetContextCreate(TopMemoryContext, "lsm http batch", ALLOCSET_DEFAULT_SIZES);
	batch = MemoryContextAllocZero(context, sizeof(LsmHttpBatch));
	batch->context = context;
	batch->store = store;
	batch->owner = CurrentResourceOwner;
	dlist_init(&batch->waiting);
	dlist_init(&batch->running);
	dlist_init(&batch->over);
	dlist_push_tail(&lsm_http_batches, &batch->node);
	store->batches++;
	return batch;
}

MemoryContext
lsm_http_context(LsmHttpBatch *batch)
{
	return batch->context;
}

LsmHttpRequest *
lsm_http_request(LsmHttpBatch *batch)
{
	LsmHttpRequest *request = MemoryContextAllocZero(batch->context, sizeof(LsmHttpRequest));

	request->batch = batch;
	request->query = "";
	return request;
}

void
lsm_http_add(LsmHttpRequest *request)
{
	Assert(request->len == 0 || request->buffer != NULL);
	lsm_sign_hash(request->body != NULL ? request->body : "", request->body_len,
				  request->payload_hash);
	memset(&request->error, 0, sizeof(request->error));
	request->due_us = 0;
	request->batch->unfinished++;
	dlist_push_tail(&request->batch->waiting, &request->node);
}

/* One step of whoever waits. */
static void
lsm_http_step(bool wait)
{
	lsm_store_check();
	if (IsUnderPostmaster && !PostmasterIsAlive())
		proc_exit(1);
	lsm_http_drive(wait);
}

LsmHttpRequest *
lsm_http_next(LsmHttpBatch *batch, bool wait)
{
	bool		driven = false;

	for (;;)
	{
		if (!dlist_is_empty(&batch->over))
			return dlist_container(LsmHttpRequest, node, dlist_pop_head_node(&batch->over));
		if (batch->unfinished == 0 || (driven && !wait))
			return NULL;
		lsm_http_step(wait && driven);
		driven = true;
	}
}

bool
lsm_http_pending(const LsmHttpRequest *request, size_t bytes)
{
	Assert(request->len > 0);
	return request->batch->unfinished > 0 &&
		!(request->received >= bytes && lsm_http_is_range(request));
}

bool
lsm_http_arrived(LsmHttpRequest *request, size_t bytes)
{
	LsmHttpBatch *batch = request->batch;
	bool		driven = false;

	while (lsm_http_pending(request, bytes))
	{
		Assert(batch->unfinished == 1);
		lsm_http_step(driven);
		driven = true;
	}
	return batch->unfinished > 0;
}

void
lsm_http_poke(void)
{
	if (lsm_store_clock_us() - lsm_http_driven_us >= LSM_HTTP_POKE_US)
		lsm_http_step(false);
}

/* Free a request that has been handed back. */
void
lsm_http_free(LsmHttpRequest *request)
{
	if (request->response != NULL)
		pfree(request->response);
	if (request->query[0] != '\0')
		pfree(request->query);
	pfree(request->path);
	pfree(request);
}

/* Cancel what is under way.  Raises no error. */
void
lsm_http_end(LsmHttpBatch *batch)
{
	dlist_mutable_iter running;

	dlist_foreach_modify(running, &batch->running)
		lsm_http_remove(dlist_container(LsmHttpRequest, node, running.cur));
	if (!dlist_is_empty(&batch->running))
		lsm_http_settle_sockets();
	dlist_delete(&batch->node);
	batch->store->batches--;
	MemoryContextDelete(batch->context);
}

/* Hand back, as failed, what has not ended. */
static void
lsm_http_stop(LsmHttpBatch *batch)
{
	dlist_head *lists[] = {&batch->running, &batch->waiting};

	for (int i = 0; i < (int) lengthof(lists); i++)
	{
		dlist_mutable_iter at;

		dlist_foreach_modify(at, lists[i])
		{
			LsmHttpRequest *request = dlist_container(LsmHttpRequest, node, at.cur);

			if (request->transfer != NULL)
				lsm_http_remove(request);
			lsm_http_fail(request, LSM_STORE_NETWORK, "It was given up.");
			dlist_delete(&request->node);
			dlist_push_tail(&batch->over, &request->node);
			batch->unfinished--;
		}
	}
}

void
lsm_http_stop_from(LsmHttpBatch *batch)
{
	dlist_node *at = &batch->node;

	lsm_http_stop(batch);
	while (dlist_has_next(&lsm_http_batches, at))
	{
		LsmHttpBatch *newer;

		at = dlist_next_node(&lsm_http_batches, at);
		newer = dlist_container(LsmHttpBatch, node, at);
		if (newer->owner != NULL)
			lsm_http_stop(newer);
	}
}

void
lsm_http_detach(LsmHttpBatch *batch, int wait_ms)
{
	int64		until = lsm_store_clock_us() + (int64) wait_ms * 1000;

	batch->owner = NULL;
	while (batch->unfinished > 0 && !InterruptPending && lsm_store_clock_us() < until)
	{
		bool		paused = lsm_http_pass_pause();

		lsm_http_start_due();
		lsm_http_perform(paused);
		if (batch->unfinished > 0)
			curl_multi_poll(lsm_http_multi, NULL, 0, 10, NULL);
	}
	lsm_http_end_detached();
}

/* A resource owner goes: so do its batches. */
static void
lsm_http_release(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	dlist_mutable_iter at;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	dlist_foreach_modify(at, &lsm_http_batches)
	{
		LsmHttpBatch *batch = dlist_container(LsmHttpBatch, node, at.cur);

		if (batch->owner != CurrentResourceOwner)
			continue;
		if (commit)
			elog(WARNING, "requests to store \"%s\" were not ended", batch->store->name);
		lsm_http_end(batch);
	}
}

void
lsm_store_watch_owners(void)
{
	static bool watching = false;

	if (!watching)
		RegisterResourceReleaseCallback(lsm_http_release, NULL);
	watching = true;
}
