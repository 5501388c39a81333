/*-------------------------------------------------------------------------
 *
 * lsm_store_s3.c
 *	  Stores of type s3: what is asked of an S3 service, and what its answers mean.
 *
 * An object is put in one request if it is not larger than part_size, else in parts,
 * of which some are under way at a time; memory is bounded by those.  Payloads are
 * signed, so that the service refuses what did not arrive as it was sent, also where
 * there is no TLS.  Where the service knows If-None-Match, an object is never
 * replaced; nothing depends on that, as keys are not used twice.
 *
 * A request that is tried again, by us or by curl on a new connection, may have done
 * its work before: then putting finds the object there, and completing finds no
 * upload.  So both are no errors yet: lsm_store_put() sees whether what is there is
 * what was put.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_stop.h"
#include "lsm_store_http.h"
#include "lsm_store_xml.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/datetime.h"

/* Parts of one object that are under way at a time, each in memory. */
#define LSM_S3_PARTS			4
#define LSM_S3_FILL_BYTES		(128 * 1024)	/* of a part, at a time */
#define LSM_S3_GIVE_UP_MS		5000
#define LSM_S3_CANCELLED_MS		100
#define LSM_S3_MAX_PARTS		10000
#define LSM_S3_MAX_LIST			(8 * 1024 * 1024)
#define LSM_S3_MAX_ANSWER		(64 * 1024)
#define LSM_S3_PAGE				1000

static void
lsm_s3_check(LsmStore *store, Oid userid)
{
	if (!lsm_store_endpoint_allowed(&store->options.endpoint, lsm_store_allowed_endpoints))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("endpoint \"%s\" of store \"%s\" is not allowed",
						store->options.endpoint_text, store->name),
				 errhint("A superuser can add it to lsm.store_allowed_endpoints.")));
}

/* ---- requests ---- */

/* The path of an object, or of the bucket if there is no key. */
static char *
lsm_s3_path(const LsmStore *store, const char *key)
{
	StringInfoData path;

	initStringInfo(&path);
	appendStringInfoChar(&path, '/');
	if (!store->options.virtual_hosted)
		lsm_sign_encode(&path, store->options.bucket, true);
	if (key != NULL)
	{
		if (!store->options.virtual_hosted)
			appendStringInfoChar(&path, '/');
		if (store->options.prefix[0] != '\0')
		{
			lsm_sign_encode(&path, store->options.prefix, true);
			appendStringInfoChar(&path, '/');
		}
		lsm_sign_encode(&path, key, true);
	}
	return path.data;
}

/* A request to be filled in further and added. */
static LsmHttpRequest *
lsm_s3_request(LsmHttpBatch *batch, const LsmStore *store, LsmStoreKind kind,
			   const char *method, const char *key)
{
	LsmHttpRequest *request = lsm_http_request(batch);
	MemoryContext old = MemoryContextSwitchTo(lsm_http_context(batch));

	request->kind = kind;
	request->method = method;
	request->path = lsm_s3_path(store, key);
	request->max_response = LSM_S3_MAX_ANSWER;
	MemoryContextSwitchTo(old);
	return request;
}

/* Add the only request of a batch, and wait for it. */
static void
lsm_s3_do(LsmHttpBatch *batch, LsmHttpRequest *request)
{
	LsmHttpRequest *over;

	lsm_http_add(request);
	over = lsm_http_next(batch, true);
	Assert(over == request);
	(void) over;
}

static void
lsm_s3_raise(LsmHttpRequest *request, const LsmStore *store, const char *action,
			 const char *key)
{
	LsmStoreError error = request->error;

	lsm_store_raise(store, action, key, &error);
}

/* ---- writing ---- */

/* The object may be there already: note the error, for what is then found. */
static bool
lsm_s3_note_conflict(LsmStoreSource *source, const LsmStoreError *error)
{
	if (error->class != LSM_STORE_EXISTS && strcmp(error->code, "NoSuchUpload") != 0)
		return false;
	source->conflict = *error;
	return true;
}

static void
lsm_s3_put_whole(LsmStore *store, LsmHttpBatch *batch, LsmStoreSource *source,
				 const char *key, const char *data, size_t len)
{
	LsmHttpRequest *request = lsm_s3_request(batch, store, LSM_STORE_PUT, "PUT", key);

	request->body = data;
	request->body_len = len;
	request->conditional = true;
	LSM_STOP("store-before-visible");
	lsm_s3_do(batch, request);
	if (request->error.class != LSM_STORE_OK && !lsm_s3_note_conflict(source, &request->error))
		lsm_s3_raise(request, store, "put", key);
	lsm_http_free(request);
}

/* An upload in parts. */
typedef struct LsmS3Upload
{
	LsmStore   *store;
	const char *key;
	char	   *id;				/* encoded for a query */
	char	  **etags;			/* by part, from 0 */
	int			nparts;			/* begun */
	int			pending;
} LsmS3Upload;

typedef struct LsmS3Part
{
	char	   *buffer;
	int			number;			/* from 0 */
	bool		busy;
} LsmS3Part;

static void
lsm_s3_upload_id(void *arg, const char *path, const char *content)
{
	char	  **id = arg;

	if (content != NULL && strcmp(path, "InitiateMultipartUploadResult/UploadId") == 0 &&
		*id == NULL)
		*id = pstrdup(content);
}

static void
lsm_s3_bad_answer(const LsmStore *store, const char *action, const char *key,
				  const char *problem)
{
	LsmStoreError error = {.class = LSM_STORE_REFUSED};

	snprintf(error.message, sizeof(error.message), "The answer of the store is not valid: %s.",
			 problem);
	lsm_store_raise(store, action, key, &error);
}

static void
lsm_s3_begin_upload(LsmS3Upload *upload, LsmHttpBatch *batch)
{
	LsmHttpRequest *request = lsm_s3_request(batch, upload->store, LSM_STORE_MULTIPART, "POST",
											 upload->key);
	StringInfoData encoded;
	char	   *id = NULL;
	const char *problem;

	request->query = MemoryContextStrdup(lsm_http_context(batch), "uploads=");
	request->body = "";
	lsm_s3_do(batch, request);
	if (request->error.class != LSM_STORE_OK)
		lsm_s3_raise(request, upload->store, "put", upload->key);
	problem = request->response == NULL ? "nothing" :
		lsm_xml_parse(request->response, request->response_len, lsm_s3_upload_id, &id);
	if (problem != NULL || id == NULL || id[0] == '\0')
		lsm_s3_bad_answer(upload->store, "put", upload->key,
						  problem != NULL ? problem : "no upload");
	initStringInfo(&encoded);
	lsm_sign_encode(&encoded, id, false);
	upload->id = encoded.data;
	lsm_http_free(request);
}

static void
lsm_s3_send_part(LsmS3Upload *upload, LsmHttpBatch *batch, LsmS3Part *part, size_t len)
{
	LsmHttpRequest *request;
	MemoryContext old;

	if (upload->nparts == LSM_S3_MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("object \"%s\" of store \"%s\" has too many parts", upload->key,
						upload->store->name),
				 errhint("Increase the option part_size of the server.")));
	part->number = upload->nparts++;
	part->busy = true;
	request = lsm_s3_request(batch, upload->store, LSM_STORE_PUT, "PUT", upload->key);
	old = MemoryContextSwitchTo(lsm_http_context(batch));
	request->query = psprintf("partNumber=%d&uploadId=%s", part->number + 1, upload->id);
	MemoryContextSwitchTo(old);
	request->body = part->buffer;
	request->body_len = len;
	request->arg = part;
	lsm_http_add(request);
	upload->pending++;
}

/* What is in it is the store's own affair, but it has to be told again in XML. */
static bool
lsm_s3_is_etag(const char *etag)
{
	for (const char *c = etag; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	return etag[0] != '\0';
}

static void
lsm_s3_append_xml(StringInfo xml, const char *text)
{
	for (const char *c = text; *c != '\0'; c++)
		switch (*c)
		{
			case '"':
				appendStringInfoString(xml, "&quot;");
				break;
			case '&':
				appendStringInfoString(xml, "&amp;");
				break;
			case '<':
				appendStringInfoString(xml, "&lt;");
				break;
			case '>':
				appendStringInfoString(xml, "&gt;");
				break;
			default:
				appendStringInfoChar(xml, *c);
		}
}

/* Take one part that has been sent; false: there is none yet, or none any more. */
static bool
lsm_s3_take_part(LsmS3Upload *upload, LsmHttpBatch *batch, bool wait)
{
	LsmHttpRequest *request = lsm_http_next(batch, wait);
	LsmS3Part  *part;

	if (request == NULL)
		return false;
	part = request->arg;
	if (request->error.class != LSM_STORE_OK)
		lsm_s3_raise(request, upload->store, "put", upload->key);
	if (!lsm_s3_is_etag(request->etag))
		lsm_s3_bad_answer(upload->store, "put", upload->key, "no ETag of a part");
	upload->etags[part->number] = MemoryContextStrdup(lsm_http_context(batch), request->etag);
	part->busy = false;
	upload->pending--;
	lsm_http_free(request);
	return true;
}

static void
lsm_s3_complete_upload(LsmS3Upload *upload, LsmHttpBatch *batch, LsmStoreSource *source)
{
	LsmHttpRequest *request = lsm_s3_request(batch, upload->store, LSM_STORE_MULTIPART, "POST",
											 upload->key);
	MemoryContext old = MemoryContextSwitchTo(lsm_http_context(batch));
	StringInfoData body;

	initStringInfo(&body);
	appendStringInfoString(&body, "<CompleteMultipartUpload>");
	for (int i = 0; i < upload->nparts; i++)
	{
		appendStringInfo(&body, "<Part><PartNumber>%d</PartNumber><ETag>", i + 1);
		lsm_s3_append_xml(&body, upload->etags[i]);
		appendStringInfoString(&body, "</ETag></Part>");
	}
	appendStringInfoString(&body, "</CompleteMultipartUpload>");
	request->query = psprintf("uploadId=%s", upload->id);
	MemoryContextSwitchTo(old);
	request->body = body.data;
	request->body_len = body.len;
	request->conditional = true;
	request->early_status = true;
	LSM_STOP("store-before-visible");
	lsm_s3_do(batch, request);
	if (request->error.class != LSM_STORE_OK && !lsm_s3_note_conflict(source, &request->error))
		lsm_s3_raise(request, upload->store, "put", upload->key);
	lsm_http_free(request);
}

/*
 * Tell the service to forget an upload.  Who has been cancelled does not wait for that
 * for long; nor does anybody else who is cancelled meanwhile.
 */
static void
lsm_s3_give_up(LsmS3Upload *upload, bool cancelled)
{
	LsmHttpBatch *batch = lsm_http_begin(upload->store);
	LsmHttpRequest *request = lsm_s3_request(batch, upload->store, LSM_STORE_MULTIPART,
											 "DELETE", upload->key);
	MemoryContext old = MemoryContextSwitchTo(lsm_http_context(batch));

	request->query = psprintf("uploadId=%s", upload->id);
	MemoryContextSwitchTo(old);
	lsm_http_add(request);
	lsm_http_detach(batch, cancelled ? LSM_S3_CANCELLED_MS : LSM_S3_GIVE_UP_MS);
}

/*
 * Fill a part.  Those before it are sent meanwhile: where they come from is read, checked
 * and hashed, which takes about as long.
 */
static size_t
lsm_s3_fill_part(LsmS3Part *part, size_t part_bytes, LsmStoreSource *source)
{
	size_t		len = 0;

	while (len < part_bytes)
	{
		size_t		step = Min(part_bytes - len, LSM_S3_FILL_BYTES);
		size_t		filled = lsm_store_source_fill(source, part->buffer + len, step);

		len += filled;
		if (filled < step)
			break;
		lsm_http_poke();
	}
	return len;
}

/* Send the part at hand, and all that the source has. */
static void
lsm_s3_send_parts(LsmS3Upload *upload, LsmHttpBatch *batch, LsmS3Part *parts, size_t first_len,
				  LsmStoreSource *source)
{
	size_t		part_bytes = upload->store->options.part_bytes;
	size_t		len = first_len;
	LsmS3Part  *part = &parts[0];

	for (;;)
	{
		lsm_s3_send_part(upload, batch, part, len);
		if (len < part_bytes)
			break;
		while (lsm_s3_take_part(upload, batch, false))
			;
		while (upload->pending == LSM_S3_PARTS)
			lsm_s3_take_part(upload, batch, true);
		for (part = parts; part->busy; part++)
			;
		if (part->buffer == NULL)
			part->buffer = MemoryContextAlloc(lsm_http_context(batch), part_bytes);
		len = lsm_s3_fill_part(part, part_bytes, source);
		if (len == 0)
			break;
	}
	while (upload->pending > 0)
		lsm_s3_take_part(upload, batch, true);
}

/* Put an object whose first part is filled in parts. */
static void
lsm_s3_put_parts(LsmS3Upload *upload, LsmHttpBatch *batch, LsmS3Part *parts, size_t first_len,
				 LsmStoreSource *source)
{
	MemoryContext old = CurrentMemoryContext;

	upload->etags = MemoryContextAlloc(lsm_http_context(batch),
									   LSM_S3_MAX_PARTS * sizeof(char *));
	lsm_s3_begin_upload(upload, batch);
	PG_TRY();
	{
		lsm_s3_send_parts(upload, batch, parts, first_len, source);
		lsm_s3_complete_upload(upload, batch, source);
	}
	PG_CATCH();
	{
		MemoryContext errors = MemoryContextSwitchTo(old);

		/*
		 * a part must not come after the service has been told to forget the upload, nor keep
		 * that from being sent; and the source may have been reading from a store
		 */
		lsm_http_stop_from(batch);
		lsm_s3_give_up(upload,
					   ERRCODE_TO_CATEGORY(geterrcode()) == ERRCODE_OPERATOR_INTERVENTION ||
					   geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE);
		MemoryContextSwitchTo(errors);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (source->conflict.class != LSM_STORE_OK)
		lsm_s3_give_up(upload, false);
}

static void
lsm_s3_put(LsmStore *store, const char *key, LsmStoreSource *source)
{
	LsmHttpBatch *batch = lsm_http_begin(store);
	size_t		part_bytes = store->options.part_bytes;
	LsmS3Part	parts[LSM_S3_PARTS] = {0};
	LsmS3Upload upload = {0};
	size_t		len;

	upload.store = store;
	upload.key = key;
	parts[0].buffer = MemoryContextAlloc(lsm_http_context(batch), part_bytes);
	len = lsm_s3_fill_part(&parts[0], part_bytes, source);
	if (len < part_bytes)
		lsm_s3_put_whole(store, batch, source, key, parts[0].buffer, len);
	else
		lsm_s3_put_parts(&upload, batch, parts, len, source);
	lsm_http_end(batch);
}

static void
lsm_s3_delete(LsmStore *store, const char *const *keys, int nkeys)
{
	LsmHttpBatch *batch = lsm_http_begin(store);
	LsmHttpRequest *request;
	LsmStoreError first_error = {.class = LSM_STORE_OK};
	const char *first_key = NULL;
	int			added = 0;
	int			pending = 0;

	while (added < nkeys || pending > 0)
	{
		/* Few more than can run, as each takes memory. */
		while (added < nkeys && pending < 2 * store->options.parallel_requests)
		{
			request = lsm_s3_request(batch, store, LSM_STORE_DELETE, "DELETE", keys[added]);
			request->arg = unconstify(char *, keys[added]);
			lsm_http_add(request);
			added++;
			pending++;
		}
		request = lsm_http_next(batch, true);
		pending--;
		if (request->error.class != LSM_STORE_OK &&
			request->error.class != LSM_STORE_NOT_FOUND && first_key == NULL)
		{
			first_error = request->error;
			first_key = request->arg;
		}
		lsm_http_free(request);
	}
	lsm_http_end(batch);
	if (first_key != NULL)
		lsm_store_raise(store, "delete", first_key, &first_error);
}

/* ---- reading ---- */

static bool
lsm_s3_tail(LsmStore *store, const char *key, LsmObjectTrailer *trailer, uint64 *object_bytes)
{
	LsmHttpBatch *batch = lsm_http_begin(store);
	LsmHttpRequest *request = lsm_s3_request(batch, store, LSM_STORE_GET, "GET", key);
	bool		found;

	memset(trailer, 0, sizeof(*trailer));
	request->buffer = (char *) trailer;
	request->len = LSM_OBJECT_TRAILER_BYTES;
	request->suffix = true;
	lsm_s3_do(batch, request);
	found = request->error.class == LSM_STORE_OK;
	*object_bytes = request->object_bytes;
	if (!found && request->error.class != LSM_STORE_NOT_FOUND)
		lsm_s3_raise(request, store, "read", key);
	lsm_http_end(batch);
	return found;
}

static void
lsm_s3_reads_begin(LsmStoreReads *reads)
{
	reads->state = lsm_http_begin(reads->store);
}

/* A read that is under way. */
typedef struct LsmS3Read
{
	LsmStoreRead *read;
	char		key[FLEXIBLE_ARRAY_MEMBER]; /* the caller's may be gone */
} LsmS3Read;

static void
lsm_s3_reads_add(LsmStoreReads *reads, LsmStoreRead *read)
{
	size_t		key_bytes = strlen(read->key) + 1;
	LsmS3Read  *waiting = MemoryContextAlloc(lsm_http_context(reads->state),
											 offsetof(LsmS3Read, key) + key_bytes);
	LsmHttpRequest *request = lsm_s3_request(reads->state, reads->store, LSM_STORE_GET, "GET",
											 read->key);

	request->buffer = read->buffer;
	request->offset = read->offset;
	request->len = read->len;
	request->arg = waiting;
	waiting->read = read;
	memcpy(waiting->key, read->key, key_bytes);
	read->state = request;
	lsm_http_add(request);
}

static bool
lsm_s3_reads_arrived(LsmStoreRead *read, size_t bytes)
{
	return lsm_http_arrived(read->state, bytes);
}

static bool
lsm_s3_reads_pending(LsmStoreRead *read, size_t bytes)
{
	return lsm_http_pending(read->state, bytes);
}

static LsmStoreRead *
lsm_s3_reads_next(LsmStoreReads *reads, bool wait)
{
	LsmHttpRequest *request = lsm_http_next(reads->state, wait);
	LsmS3Read  *waiting;
	LsmStoreRead *read;

	if (request == NULL)
		return NULL;
	waiting = request->arg;
	read = waiting->read;
	if (request->error.class == LSM_STORE_NOT_FOUND && read->missing_ok)
		read->missing = true;
	else if (request->error.class != LSM_STORE_OK)
		lsm_s3_raise(request, reads->store, "read", waiting->key);
	pfree(waiting);
	lsm_http_free(request);
	return read;
}

static void
lsm_s3_reads_end(LsmStoreReads *reads)
{
	lsm_http_end(reads->state);
}

/* ---- listing ---- */

typedef struct LsmS3Entry
{
	char	   *key;
	uint64		bytes;
	int64		modified;
} LsmS3Entry;

typedef struct LsmS3List
{
	LsmStore   *store;
	char	   *prefix;			/* with that of the server, as it is stored */
	size_t		strip;			/* bytes of each key that are the server's */
	MemoryContext page_context;
	LsmS3Entry *entries;
	int			nentries;
	int			at;
	char	   *token;			/* of the next page, or NULL; of stores that
								 * know signatures of version 2 only, the last
								 * key */
	bool		told;			/* whether there are more */
	bool		truncated;
	bool		begun;
	const char *problem;
	LsmS3Entry	entry;			/* being parsed */
} LsmS3List;

/* Keys come encoded; decode one in its place. */
static bool
lsm_s3_decode(char *content)
{
	char	   *out = content;

	for (char *in = content; *in != '\0'; in++)
	{
		if (*in == '%')
		{
			unsigned int code;
			char		digits[3] = {in[1], in[1] != '\0' ? in[2] : '\0', '\0'};

			if (strspn(digits, "0123456789abcdefABCDEF") != 2 ||
				sscanf(digits, "%2x", &code) != 1 || code == 0)
				return false;
			*out++ = (char) code;
			in += 2;
		}
		else
			*out++ = *in == '+' ? ' ' : *in;
	}
	*out = '\0';
	return true;
}

/* 2009-10-12T17:50:30.000Z: seconds since 1970, or 0 if it is something else. */
static int64
lsm_s3_time(const char *content)
{
	int			year,
				month,
				day,
				hour,
				minute,
				second;

	if (sscanf(content, "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) != 6)
		return 0;
	return ((int64) date2j(year, month, day) - UNIX_EPOCH_JDATE) * SECS_PER_DAY +
		hour * SECS_PER_HOUR + minute * SECS_PER_MINUTE + second;
}

static void
lsm_s3_list_element(void *arg, const char *path, const char *content)
{
	LsmS3List  *list = arg;
	char	   *end;

	if (strncmp(path, "ListBucketResult/", 17) != 0)
		return;
	path += 17;
	if (content == NULL)
	{
		if (strcmp(path, "Contents") == 0)
			memset(&list->entry, 0, sizeof(list->entry));
	}
	else if (strcmp(path, "Contents/Key") == 0)
	{
		list->entry.key = pstrdup(content);
		if (!lsm_s3_decode(list->entry.key))
			list->problem = "a key that is not encoded well";
	}
	else if (strcmp(path, "Contents/Size") == 0)
	{
		list->entry.bytes = strtoull(content, &end, 10);
		if (end == content || *end != '\0')
			list->problem = "a size that is no number";
	}
	else if (strcmp(path, "Contents/LastModified") == 0)
		list->entry.modified = lsm_s3_time(content);
	else if (strcmp(path, "Contents") == 0)
	{
		if (list->entry.key == NULL || list->nentries == LSM_S3_PAGE)
			list->problem = list->entry.key == NULL ? "an object without a key" : "too many objects";
		else
			list->entries[list->nentries++] = list->entry;
	}
	else if (strcmp(path, "IsTruncated") == 0)
	{
		list->truncated = strcmp(content, "true") == 0;
		list->told = list->truncated || strcmp(content, "false") == 0;
	}
	else if (strcmp(path, "NextContinuationToken") == 0)
		list->token = pstrdup(content);
}

/* The query for the next page, of the first version of listing; names are sorted. */
static char *
lsm_s3_old_list_query(const LsmS3List *list)
{
	StringInfoData query;

	initStringInfo(&query);
	appendStringInfoString(&query, "encoding-type=url&");
	if (list->token != NULL)
	{
		appendStringInfoString(&query, "marker=");
		lsm_sign_encode(&query, list->token, false);
		appendStringInfoChar(&query, '&');
	}
	appendStringInfo(&query, "max-keys=%d&prefix=", LSM_S3_PAGE);
	lsm_sign_encode(&query, list->prefix, false);
	return query.data;
}

/* The same of the second version, which all services know but very old ones. */
static char *
lsm_s3_list_query(const LsmS3List *list)
{
	StringInfoData query;

	if (list->store->options.signature_v2)
		return lsm_s3_old_list_query(list);
	initStringInfo(&query);
	if (list->token != NULL)
	{
		appendStringInfoString(&query, "continuation-token=");
		lsm_sign_encode(&query, list->token, false);
		appendStringInfoChar(&query, '&');
	}
	appendStringInfo(&query, "encoding-type=url&list-type=2&max-keys=%d&prefix=", LSM_S3_PAGE);
	lsm_sign_encode(&query, list->prefix, false);
	return query.data;
}

/* Load the next page in place of the one that has been read. */
static void
lsm_s3_list_page(LsmS3List *list)
{
	LsmStore   *store = list->store;
	LsmHttpBatch *batch = lsm_http_begin(store);
	LsmHttpRequest *request = lsm_s3_request(batch, store, LSM_STORE_LIST, "GET", NULL);
	MemoryContext old = MemoryContextSwitchTo(lsm_http_context(batch));
	char	   *token = list->token;
	char	   *first = list->nentries > 0 ? list->entries[0].key : NULL;
	const char *problem;

	request->query = lsm_s3_list_query(list);
	request->max_response = LSM_S3_MAX_LIST;
	MemoryContextSwitchTo(old);
	lsm_s3_do(batch, request);
	if (request->error.class != LSM_STORE_OK)
	{
		if (request->error.class == LSM_STORE_NOT_FOUND)
			request->error.class = LSM_STORE_REFUSED;
		lsm_s3_raise(request, store, "list", NULL);
	}
	if (token != NULL)
		token = MemoryContextStrdup(lsm_http_context(batch), token);
	if (first != NULL)
		first = MemoryContextStrdup(lsm_http_context(batch), first);
	MemoryContextReset(list->page_context);
	MemoryContextSwitchTo(list->page_context);
	list->entries = palloc(LSM_S3_PAGE * sizeof(LsmS3Entry));
	list->nentries = 0;
	list->at = 0;
	list->token = NULL;
	list->truncated = false;
	list->told = false;
	list->problem = NULL;
	problem = request->response == NULL ? "nothing" :
		lsm_xml_parse(request->response, request->response_len, lsm_s3_list_element, list);
	if (problem != NULL)
		list->problem = problem;
	else if (list->problem == NULL && !list->told)
		list->problem = "no list";	/* an error, say; it is not that there is nothing */
	if (store->options.signature_v2)
		list->token = list->truncated && list->nentries > 0 ?
			pstrdup(list->entries[list->nentries - 1].key) : NULL;
	if (list->problem == NULL && list->truncated &&
		(list->token == NULL ||
		 (token != NULL && (store->options.signature_v2 ? strcmp(token, list->token) >= 0 :
							strcmp(token, list->token) == 0))))
		list->problem = "it does not lead on to the next page";

	/* the store has not heeded the token */
	if (list->problem == NULL && first != NULL && list->nentries > 0 &&
		strcmp(first, list->entries[0].key) == 0)
		list->problem = "it does not lead on to the next page";
	MemoryContextSwitchTo(old);
	if (list->problem != NULL)
		lsm_s3_bad_answer(store, "list", NULL, list->problem);
	lsm_http_end(batch);
}

static void *
lsm_s3_list_begin(LsmStore *store, const char *prefix)
{
	LsmS3List  *list = palloc0(sizeof(LsmS3List));

	list->store = store;
	if (store->options.prefix[0] != '\0')
	{
		list->prefix = psprintf("%s/%s", store->options.prefix, prefix);
		list->strip = strlen(store->options.prefix) + 1;
	}
	else
		list->prefix = pstrdup(prefix);
	list->page_context = AllocSetContextCreate(CurrentMemoryContext, "lsm store list",
											   ALLOCSET_DEFAULT_SIZES);
	return list;
}

static bool
lsm_s3_list_next(void *state, LsmStoreListed *listed)
{
	LsmS3List  *list = state;

	while (list->at == list->nentries)
	{
		if (list->begun && !list->truncated)
			return false;
		lsm_s3_list_page(list);
		list->begun = true;
	}
	listed->key = list->entries[list->at].key;
	if (strncmp(listed->key, list->prefix, strlen(list->prefix)) != 0)
		lsm_s3_bad_answer(list->store, "list", NULL, "a key without the prefix");
	listed->key += list->strip;
	listed->bytes = list->entries[list->at].bytes;
	listed->modified = list->entries[list->at].modified;
	list->at++;
	return true;
}

static void
lsm_s3_list_end(void *state)
{
	LsmS3List  *list = state;

	MemoryContextDelete(list->page_context);
	pfree(list->prefix);
	pfree(list);
}

const LsmStoreOps lsm_store_s3_ops = {
	.check = lsm_s3_check,
	.put = lsm_s3_put,
	.tail = lsm_s3_tail,
	.delete = lsm_s3_delete,
	.reads_begin = lsm_s3_reads_begin,
	.reads_add = lsm_s3_reads_add,
	.reads_next = lsm_s3_reads_next,
	.reads_end = lsm_s3_reads_end,
	.reads_arrived = lsm_s3_reads_arrived,
	.reads_pending = lsm_s3_reads_pending,
	.reads_poke = lsm_http_poke,
	.list_begin = lsm_s3_list_begin,
	.list_next = lsm_s3_list_next,
	.list_end = lsm_s3_list_end,
};
