/*-------------------------------------------------------------------------
 *
 * lsm_store.c
 *	  Stores: opening them, what all types do alike, errors.
 *
 * A backend keeps the stores that it has opened, by server and user, until a change
 * of servers or user mappings is announced; those that are stale go at the end of
 * a transaction.  What depends on privileges and settings is checked each time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "lsm_stop.h"
#include "lsm_store_impl.h"
#include "lsm_store_libs3.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define LSM_STORE_VERIFY_BYTES	(4 * 1024 * 1024)
#define LSM_STORE_VERIFY_READS	4

char	   *lsm_store_allowed_endpoints;

LsmStoreAsked lsm_store_asked;
void		(*lsm_store_idle) (void) = NULL;
uint64		lsm_store_failures;

static List *lsm_stores;		/* in TopMemoryContext */
static uint32 lsm_store_changes;	/* of servers or mappings, as far as known */

/* ---- opening ---- */

static void
lsm_store_invalidate(Datum arg, int cacheid, uint32 hashvalue)
{
	ListCell   *cell;

	lsm_store_changes++;
	foreach(cell, lsm_stores)
		((LsmStore *) lfirst(cell))->stale = true;
}

/* At the end of a transaction: nobody has a stale store any more. */
void
lsm_store_xact_end(void)
{
	ListCell   *cell;

	foreach(cell, lsm_stores)
	{
		LsmStore   *store = lfirst(cell);

		if (store->stale && store->batches == 0)
		{
			lsm_stores = foreach_delete_current(lsm_stores, cell);
			MemoryContextDelete(store->context);
		}
	}
}

static char *
lsm_store_environment(const char *name)
{
	const char *value = getenv(name);

	return value == NULL || value[0] == '\0' ? NULL : pstrdup(value);
}

static void
lsm_store_get_credentials(LsmStore *store, LsmStoreCredentials *credentials)
{
	memset(credentials, 0, sizeof(*credentials));
	if (store->options.from_environment)
	{
		credentials->access_key_id = lsm_store_environment("AWS_ACCESS_KEY_ID");
		credentials->secret_access_key = lsm_store_environment("AWS_SECRET_ACCESS_KEY");
		credentials->session_token = lsm_store_environment("AWS_SESSION_TOKEN");
	}
	else
		lsm_store_credentials_read(credentials,
								   GetUserMapping(store->userid, store->serverid)->options);
	if (credentials->access_key_id == NULL || credentials->secret_access_key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("there are no credentials for store \"%s\"", store->name),
				 store->options.from_environment ?
				 errhint("Start the server with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in its environment.") :
				 errhint("Set access_key_id and secret_access_key of the user mapping.")));
}

/* Make what a store is in the memory context of its own. */
static LsmStore *
lsm_store_build(Oid serverid, Oid userid, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	ForeignServer *server = GetForeignServer(serverid);
	ForeignDataWrapper *wrapper;
	LsmStore   *store = palloc0(sizeof(LsmStore));

	LSM_STOP("store-open");
	wrapper = GetForeignDataWrapper(server->fdwid);
	if (strcmp(wrapper->fdwname, LSM_STORE_FDW) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a store", server->servername),
				 errhint("Stores are servers of foreign-data wrapper \"%s\".", LSM_STORE_FDW)));
	store->serverid = serverid;
	store->userid = userid;
	store->name = pstrdup(server->servername);
	store->context = context;
	lsm_store_options_read(&store->options, server->options);
	if (store->options.type == LSM_STORE_FILE)
		store->ops = &lsm_store_file_ops;
	else
	{
		LsmStoreCredentials credentials;

		store->ops = &lsm_store_s3_ops;
#ifdef LSM_WITH_LIBS3
		if (store->options.signature_v2)
			store->ops = lsm_libs3_ops();
#endif
		lsm_store_get_credentials(store, &credentials);
		store->signer.access_key_id = credentials.access_key_id;
		store->signer.secret_access_key = credentials.secret_access_key;
		store->signer.session_token = credentials.session_token;
		store->signer.region = store->options.region;
	}
	MemoryContextSwitchTo(old);
	return store;
}

static LsmStore *
lsm_store_find(Oid serverid, Oid userid)
{
	ListCell   *cell;

	foreach(cell, lsm_stores)
	{
		LsmStore   *store = lfirst(cell);

		if (store->serverid == serverid && store->userid == userid && !store->stale)
			return store;
	}
	return NULL;
}

static LsmStore *
lsm_store_add(Oid serverid, Oid userid)
{
	static bool registered = false;
	MemoryContext context;
	MemoryContext old;
	LsmStore   *store;
	uint32		changes;

	if (!registered)
	{
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, lsm_store_invalidate, (Datum) 0);
		CacheRegisterSyscacheCallback(USERMAPPINGOID, lsm_store_invalidate, (Datum) 0);
		registered = true;
	}

	/* Until it is complete, an error takes it away with the transaction. */
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm store", ALLOCSET_SMALL_SIZES);
	do
	{
		/* a change that is announced in the middle makes it stale, too */
		MemoryContextReset(context);
		changes = lsm_store_changes;
		store = lsm_store_build(serverid, userid, context);
	} while (changes != lsm_store_changes);
	old = MemoryContextSwitchTo(TopMemoryContext);
	lsm_stores = lappend(lsm_stores, store);
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, TopMemoryContext);
	return store;
}

static LsmStore *
lsm_store_open_checked(Oid serverid, Oid userid)
{
	LsmStore   *store = lsm_store_find(serverid, userid);

	if (store == NULL)
		store = lsm_store_add(serverid, userid);
	store->ops->check(store, userid);
	return store;
}

LsmStore *
lsm_store_open(Oid serverid, Oid userid)
{
	MemoryContext context = CurrentMemoryContext;
	AclResult	result = lsm_compat_server_usage(serverid, userid);
	LsmStore   *volatile store = NULL;

	if (result != ACLCHECK_OK)
	{
		lsm_store_failures++;
		aclcheck_error(result, OBJECT_FOREIGN_SERVER, GetForeignServer(serverid)->servername);
	}

	/* until it is open, each error is the store's: its options, its user mapping */
	PG_TRY();
	{
		store = lsm_store_open_checked(serverid, userid);
	}
	PG_CATCH();
	{
		MemoryContext errors = MemoryContextSwitchTo(context);
		ErrorData  *error = CopyErrorData();

		lsm_store_stat_error(serverid, error->message);
		FreeErrorData(error);
		MemoryContextSwitchTo(errors);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return store;
}

const char *
lsm_store_name(const LsmStore *store)
{
	return store->name;
}

int
lsm_store_parallelism(const LsmStore *store)
{
	return store->options.parallel_requests;
}

/* ---- trailers ---- */

static uint32
lsm_object_trailer_crc(const LsmObjectTrailer *trailer, const char *key)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, trailer, offsetof(LsmObjectTrailer, trailer_crc));
	COMP_CRC32C(crc, key, strlen(key));
	FIN_CRC32C(crc);
	return crc;
}

void
lsm_object_trailer_make(LsmObjectTrailer *trailer, const char *key, uint64 bytes, pg_crc32c crc)
{
	trailer->magic = LSM_OBJECT_MAGIC;
	trailer->version = LSM_OBJECT_VERSION;
	trailer->reserved = 0;
	trailer->bytes = bytes;
	trailer->crc = crc;
	trailer->trailer_crc = lsm_object_trailer_crc(trailer, key);
}

const char *
lsm_object_trailer_check(const LsmObjectTrailer *trailer, const char *key, uint64 object_bytes)
{
	if (trailer->magic != LSM_OBJECT_MAGIC)
		return "It does not end in a trailer.";
	if (trailer->version != LSM_OBJECT_VERSION || trailer->reserved != 0)
		return "Its trailer is of an unknown version.";
	if (trailer->trailer_crc != lsm_object_trailer_crc(trailer, key))
		return "The checksum of its trailer is wrong, or it belongs to another key.";
	if (object_bytes < LSM_OBJECT_TRAILER_BYTES ||
		trailer->bytes != object_bytes - LSM_OBJECT_TRAILER_BYTES)
		return "It has not the length that its trailer tells.";
	return NULL;
}

/* ---- errors ---- */

/* What an answer means; code is the name of the error, or "". */
LsmStoreErrorClass
lsm_store_classify(int http_status, const char *code)
{
	static const struct
	{
		const char *code;
		LsmStoreErrorClass class;
	}			codes[] = {
		{"RequestTimeout", LSM_STORE_BUSY},
		{"SlowDown", LSM_STORE_BUSY},
		{"InternalError", LSM_STORE_BUSY},
		{"ServiceUnavailable", LSM_STORE_BUSY},
		{"OperationAborted", LSM_STORE_BUSY},
		{"ConditionalRequestConflict", LSM_STORE_BUSY},
		/* what we sent did not arrive as it was */
		{"BadDigest", LSM_STORE_NETWORK},
		{"IncompleteBody", LSM_STORE_NETWORK},
		{"XAmzContentSHA256Mismatch", LSM_STORE_NETWORK},
		{"ExpiredToken", LSM_STORE_PERMISSION},
		{"InvalidToken", LSM_STORE_PERMISSION},
		{"AuthorizationHeaderMalformed", LSM_STORE_PERMISSION},
		{"PreconditionFailed", LSM_STORE_EXISTS},
		{"NoSuchKey", LSM_STORE_NOT_FOUND},
		{"NoSuchBucket", LSM_STORE_REFUSED},
		{"NoSuchUpload", LSM_STORE_REFUSED},
	};

	if (http_status >= 200 && http_status < 300)
		return LSM_STORE_OK;
	for (int i = 0; i < (int) lengthof(codes); i++)
		if (strcmp(codes[i].code, code) == 0)
			return codes[i].class;
	switch (http_status)
	{
		case 401:
		case 403:
			return LSM_STORE_PERMISSION;
		case 404:
			return LSM_STORE_NOT_FOUND;
		case 408:
		case 429:
		case 500:
		case 502:
		case 503:
		case 504:
			return LSM_STORE_BUSY;
		case 412:
			return LSM_STORE_EXISTS;
		case 416:
			return LSM_STORE_CORRUPT;
		default:
			return LSM_STORE_REFUSED;
	}
}

static int
lsm_store_error_sqlstate(LsmStoreErrorClass class)
{
	switch (class)
	{
		case LSM_STORE_NOT_FOUND:
			return ERRCODE_UNDEFINED_FILE;
		case LSM_STORE_EXISTS:
			return ERRCODE_DUPLICATE_FILE;
		case LSM_STORE_PERMISSION:
			return ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
		case LSM_STORE_BUSY:
		case LSM_STORE_NETWORK:
		case LSM_STORE_TIMED_OUT:
			return ERRCODE_CONNECTION_FAILURE;
		case LSM_STORE_CORRUPT:
			return ERRCODE_DATA_CORRUPTED;
		case LSM_STORE_ADDRESS:
			return ERRCODE_INSUFFICIENT_PRIVILEGE;
		default:
			return ERRCODE_FDW_ERROR;
	}
}

static const char *
lsm_store_error_hint(const LsmStoreError *error)
{
	if (strcmp(error->code, "RequestTimeTooSkewed") == 0)
		return "Set the clock of this server.";
	if (strcmp(error->code, "AuthorizationHeaderMalformed") == 0 ||
		(error->http_status >= 300 && error->http_status < 400))
		return "Check the options region and endpoint of the server.";
	if (strcmp(error->code, "NoSuchBucket") == 0)
		return "Check the option bucket of the server; lsm makes no buckets.";
	switch (error->class)
	{
		case LSM_STORE_PERMISSION:
			return "Check the user mapping of the server, and what the store lets its user do; without the right to list, a missing object is reported like this too.";
		case LSM_STORE_BUSY:
		case LSM_STORE_NETWORK:
		case LSM_STORE_TIMED_OUT:
			return "Try again when the store is available.";
		case LSM_STORE_CORRUPT:
			return "Restore the object from a copy of the store.";
		default:
			return NULL;
	}
}

/* One sentence about status, name, attempts and the like; palloc'd. */
char *
lsm_store_error_detail(const LsmStoreError *error)
{
	StringInfoData detail;

	initStringInfo(&detail);
	if (error->message[0] != '\0')
		appendStringInfoString(&detail, error->message);
	if (error->http_status != 0)
	{
		appendStringInfo(&detail, "%sHTTP status %d", detail.len > 0 ? " (" : "",
						 error->http_status);
		if (error->code[0] != '\0')
			appendStringInfo(&detail, ", error %s", error->code);
		if (error->request_id[0] != '\0')
			appendStringInfo(&detail, ", request %s", error->request_id);
		appendStringInfoString(&detail, error->message[0] != '\0' ? ")" : ".");
	}
	else if (error->code[0] != '\0')
		appendStringInfo(&detail, "%s(error %s)", detail.len > 0 ? " " : "", error->code);
	if (error->attempts > 1)
		appendStringInfo(&detail, " It was tried %d times.", error->attempts);
	return detail.data;
}

void
lsm_store_raise(const LsmStore *store, const char *action, const char *key,
				const LsmStoreError *error)
{
	char	   *detail = lsm_store_error_detail(error);
	const char *hint = lsm_store_error_hint(error);
	char	   *message;

	if (key != NULL)
		message = psprintf("could not %s object \"%s\" of store \"%s\"", action, key, store->name);
	else
		message = psprintf("could not %s objects of store \"%s\"", action, store->name);
	lsm_store_stat_error(store->serverid, psprintf("%s: %s", message, detail));
	ereport(ERROR,
			(errcode(lsm_store_error_sqlstate(error->class)),
			 errmsg("%s", message),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

pg_noreturn static void
lsm_store_raise_corrupt(const LsmStore *store, const char *action, const char *key,
						const char *problem)
{
	LsmStoreError error = {.class = LSM_STORE_CORRUPT};

	strlcpy(error.message, problem, sizeof(error.message));
	lsm_store_raise(store, action, key, &error);
}

/* ---- writing ---- */

static void
lsm_store_check_key(const char *key)
{
	if (!lsm_store_key_valid(key))
		elog(ERROR, "\"%s\" is not a key of an object", key);
}

size_t
lsm_store_source_fill(LsmStoreSource *source, char *buffer, size_t len)
{
	size_t		filled = 0;

	if (!source->pulled)
	{
		filled = source->pull(source->arg, buffer, len);
		Assert(filled <= len);
		COMP_CRC32C(source->crc, buffer, filled);
		source->bytes += filled;
		if (filled == len)
			return filled;
		source->pulled = true;
		FIN_CRC32C(source->crc);
		lsm_object_trailer_make(&source->trailer, source->key, source->bytes, source->crc);
	}
	if (source->trailer_done < LSM_OBJECT_TRAILER_BYTES)
	{
		size_t		n = Min(len - filled, LSM_OBJECT_TRAILER_BYTES - source->trailer_done);

		memcpy(buffer + filled, (char *) &source->trailer + source->trailer_done, n);
		source->trailer_done += n;
		filled += n;
	}
	return filled;
}

/*
 * Is what the store has what was put?  Size and checksum of the trailer are compared, or
 * all of it.  If putting met something that was there, that may have been this object.
 */
static void
lsm_store_verify_put(LsmStore *store, const char *key, const LsmObjectInfo *put,
					 const LsmStoreError *conflict)
{
	LsmObjectInfo found;
	bool		exists;

	if (store->options.verify_full)
		exists = lsm_store_verify(store, key, &found);
	else
		exists = lsm_store_head(store, key, &found);
	if (conflict->class != LSM_STORE_OK &&
		(!exists || found.bytes != put->bytes || found.crc != put->crc))
		lsm_store_raise(store, "put", key, conflict);
	if (!exists)
		lsm_store_raise_corrupt(store, "verify", key, "It is not there after it was put.");
	if (found.bytes != put->bytes || found.crc != put->crc)
		lsm_store_raise_corrupt(store, "verify", key, "It is not what was put.");
}

void
lsm_store_put(LsmStore *store, const char *key, LsmStorePull pull, void *arg,
			  LsmObjectInfo *info)
{
	LsmStoreSource source = {0};

	Assert(!RecoveryInProgress());
	lsm_store_check_key(key);
	source.pull = pull;
	source.arg = arg;
	source.key = key;
	INIT_CRC32C(source.crc);
	store->ops->put(store, key, &source);
	Assert(source.trailer_done == LSM_OBJECT_TRAILER_BYTES);
	LSM_STOP("store-put-before-verify");
	info->bytes = source.bytes;
	info->crc = source.crc;
	lsm_store_verify_put(store, key, info, &source.conflict);
}

typedef struct LsmStoreBytes
{
	const char *data;
	size_t		len;
} LsmStoreBytes;

static size_t
lsm_store_pull_bytes(void *arg, char *buffer, size_t len)
{
	LsmStoreBytes *bytes = arg;
	size_t		n = Min(len, bytes->len);

	memcpy(buffer, bytes->data, n);
	bytes->data += n;
	bytes->len -= n;
	return n;
}

void
lsm_store_put_bytes(LsmStore *store, const char *key, const char *data, size_t len,
					LsmObjectInfo *info)
{
	LsmStoreBytes bytes = {data, len};

	lsm_store_put(store, key, lsm_store_pull_bytes, &bytes, info);
}

void
lsm_store_delete(LsmStore *store, const char *const *keys, int nkeys)
{
	for (int i = 0; i < nkeys; i++)
		lsm_store_check_key(keys[i]);
	if (nkeys > 0)
		store->ops->delete(store, keys, nkeys);
}

void
lsm_store_clean(LsmStore *store, const char *prefix)
{
	if (store->ops->clean != NULL)
		store->ops->clean(store, prefix);
}

/* ---- reading ---- */

bool
lsm_store_head(LsmStore *store, const char *key, LsmObjectInfo *info)
{
	LsmObjectTrailer trailer;
	uint64		object_bytes;
	const char *problem;

	lsm_store_check_key(key);
	if (!store->ops->tail(store, key, &trailer, &object_bytes))
		return false;
	problem = lsm_object_trailer_check(&trailer, key, object_bytes);
	if (problem)
		lsm_store_raise_corrupt(store, "read", key, problem);
	info->bytes = trailer.bytes;
	info->crc = trailer.crc;
	return true;
}

/* Several reads are under way; checksums are computed in the order of the bytes. */
bool
lsm_store_verify(LsmStore *store, const char *key, LsmObjectInfo *info)
{
	LsmStoreReads *reads;
	LsmStoreRead slots[LSM_STORE_VERIFY_READS] = {0};
	bool		done[LSM_STORE_VERIFY_READS] = {0};
	uint64		started = 0;
	uint64		checked = 0;
	pg_crc32c	crc;

	if (!lsm_store_head(store, key, info))
		return false;
	INIT_CRC32C(crc);
	for (int i = 0; i < LSM_STORE_VERIFY_READS; i++)
		slots[i].buffer = palloc(LSM_STORE_VERIFY_BYTES);
	reads = lsm_store_reads_begin(store);
	while (checked < info->bytes)
	{
		uint64		window = checked + (uint64) LSM_STORE_VERIFY_READS * LSM_STORE_VERIFY_BYTES;
		LsmStoreRead *read;
		LsmStoreRead *next = &slots[checked / LSM_STORE_VERIFY_BYTES % LSM_STORE_VERIFY_READS];

		while (started < Min(info->bytes, window))
		{
			int			i = started / LSM_STORE_VERIFY_BYTES % LSM_STORE_VERIFY_READS;

			slots[i].key = key;
			slots[i].offset = started;
			slots[i].len = Min(info->bytes - started, LSM_STORE_VERIFY_BYTES);
			done[i] = false;
			lsm_store_reads_add(reads, &slots[i]);
			started += slots[i].len;
		}
		if (!done[next - slots])
		{
			read = lsm_store_reads_next(reads, true);
			done[read - slots] = true;
			continue;
		}
		COMP_CRC32C(crc, next->buffer, next->len);
		checked += next->len;
	}
	lsm_store_reads_end(reads);
	for (int i = 0; i < LSM_STORE_VERIFY_READS; i++)
		pfree(slots[i].buffer);
	FIN_CRC32C(crc);
	if (crc != info->crc)
		lsm_store_raise_corrupt(store, "verify", key, "Its checksum is wrong.");
	return true;
}

void
lsm_store_read(LsmStore *store, const char *key, uint64 offset, size_t len, char *buffer)
{
	LsmStoreReads *reads = lsm_store_reads_begin(store);
	LsmStoreRead read = {0};

	read.key = key;
	read.offset = offset;
	read.len = len;
	read.buffer = buffer;
	lsm_store_reads_add(reads, &read);
	lsm_store_reads_next(reads, true);
	lsm_store_reads_end(reads);
}

bool
lsm_store_read_if_exists(LsmStore *store, const char *key, uint64 offset, size_t len,
						 char *buffer)
{
	LsmStoreReads *reads = lsm_store_reads_begin(store);
	LsmStoreRead read = {0};

	read.key = key;
	read.offset = offset;
	read.len = len;
	read.buffer = buffer;
	read.missing_ok = true;
	lsm_store_reads_add(reads, &read);
	lsm_store_reads_next(reads, true);
	lsm_store_reads_end(reads);
	return !read.missing;
}

LsmStoreReads *
lsm_store_reads_begin(LsmStore *store)
{
	LsmStoreReads *reads = palloc(sizeof(LsmStoreReads));

	reads->store = store;
	store->ops->reads_begin(reads);
	return reads;
}

void
lsm_store_reads_add(LsmStoreReads *reads, LsmStoreRead *read)
{
	Assert(read->len > 0);
	read->missing = false;
	lsm_store_check_key(read->key);
	reads->store->ops->reads_add(reads, read);
	lsm_store_asked.requests++;
	lsm_store_asked.bytes += read->len;
}

LsmStoreRead *
lsm_store_reads_next(LsmStoreReads *reads, bool wait)
{
	return reads->store->ops->reads_next(reads, wait);
}

bool
lsm_store_reads_wait(LsmStoreReads *reads, LsmStoreRead *read, size_t bytes)
{
	const LsmStoreOps *ops = reads->store->ops;

	if (bytes < read->len && ops->reads_arrived != NULL && ops->reads_arrived(read, bytes))
		return false;
	(void) lsm_store_reads_next(reads, true);
	return true;
}

bool
lsm_store_reads_pending(LsmStoreReads *reads, LsmStoreRead *read, size_t bytes)
{
	const LsmStoreOps *ops = reads->store->ops;

	return ops->reads_pending == NULL || ops->reads_pending(read, bytes);
}

void
lsm_store_reads_poke(LsmStoreReads *reads)
{
	if (reads->store->ops->reads_poke != NULL)
		reads->store->ops->reads_poke();
}

void
lsm_store_reads_end(LsmStoreReads *reads)
{
	reads->store->ops->reads_end(reads);
	pfree(reads);
}

/* ---- listing ---- */

struct LsmStoreList
{
	LsmStore   *store;
	void	   *state;
};

LsmStoreList *
lsm_store_list_begin(LsmStore *store, const char *prefix)
{
	LsmStoreList *list = palloc(sizeof(LsmStoreList));

	list->store = store;
	list->state = store->ops->list_begin(store, prefix);
	return list;
}

/* What else lies there, and cannot be an object of ours, is passed over. */
bool
lsm_store_list_next(LsmStoreList *list, LsmStoreListed *listed)
{
	while (list->store->ops->list_next(list->state, listed))
		if (lsm_store_key_valid(listed->key))
			return true;
	return false;
}

void
lsm_store_list_end(LsmStoreList *list)
{
	list->store->ops->list_end(list->state);
	pfree(list);
}
