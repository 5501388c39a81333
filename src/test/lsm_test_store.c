/*-------------------------------------------------------------------------
 *
 * lsm_test_store.c
 *	  Tests of the cold store.
 *
 * The functions here are not part of the extension's SQL: the tests declare them
 * themselves.  Called from sql/store.sql, with nothing that is outside:
 *
 *	  lsm_test_sign(...)				the signature of a request
 *	  lsm_test_xml(text)				what a document says, by path
 *	  lsm_test_endpoint(text, text)		is the endpoint in the list?
 *	  lsm_test_address(text)			must no connection go to the address?
 *	  lsm_test_classify(int, text)		what an answer means
 *	  lsm_test_key(text)				is that a key?
 *
 * From src/test/t, with stores; objects have bytes that follow from their place:
 *
 *	  lsm_test_store_put(name, text, bigint)	an object of so many bytes
 *	  lsm_test_store_head(name, text)			bytes and checksum
 *	  lsm_test_store_verify(name, text)			the same, of all of it
 *	  lsm_test_store_reads(name, text, bigint[], int)	reads, of that many bytes
 *						each from those places on; how many were as they must be
 *	  lsm_test_store_begin(name, text, bigint, int)	begins reads and ends them
 *	  lsm_test_store_pause(name, text, float8)	begins a read, does something else for so
 *						many seconds, and goes on; was all as it must be?
 *	  lsm_test_store_put_failing(name, text, text)	puts an object, the source of which
 *						begins to read another one and raises an error
 *	  lsm_test_store_list(name, text)
 *	  lsm_test_store_delete(name, text[])
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lsm_store_impl.h"
#include "lsm_store_sign.h"
#include "lsm_store_xml.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsm_test_sign);
PG_FUNCTION_INFO_V1(lsm_test_xml);
PG_FUNCTION_INFO_V1(lsm_test_endpoint);
PG_FUNCTION_INFO_V1(lsm_test_address);
PG_FUNCTION_INFO_V1(lsm_test_classify);
PG_FUNCTION_INFO_V1(lsm_test_key);
PG_FUNCTION_INFO_V1(lsm_test_store_put);
PG_FUNCTION_INFO_V1(lsm_test_store_head);
PG_FUNCTION_INFO_V1(lsm_test_store_verify);
PG_FUNCTION_INFO_V1(lsm_test_store_reads);
PG_FUNCTION_INFO_V1(lsm_test_store_begin);
PG_FUNCTION_INFO_V1(lsm_test_store_pause);
PG_FUNCTION_INFO_V1(lsm_test_store_put_failing);
PG_FUNCTION_INFO_V1(lsm_test_store_list);
PG_FUNCTION_INFO_V1(lsm_test_store_delete);

static char *
lsm_test_text(FunctionCallInfo fcinfo, int i)
{
	return text_to_cstring(PG_GETARG_TEXT_PP(i));
}

static char **
lsm_test_texts(FunctionCallInfo fcinfo, int i, int *n)
{
	Datum	   *datums;
	char	  **texts;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(i), TEXTOID, -1, false, TYPALIGN_INT, &datums, NULL,
					  n);
	texts = palloc(*n * sizeof(char *));
	for (int j = 0; j < *n; j++)
		texts[j] = TextDatumGetCString(datums[j]);
	return texts;
}

/* ---- pure functions ---- */

/*
 * lsm_test_sign(key id, secret, method, path, query, header names, header values,
 * payload, time): path and query are encoded already; the payload's hash becomes a header.
 */
Datum
lsm_test_sign(PG_FUNCTION_ARGS)
{
	LsmSigner	signer = {.region = "us-east-1"};
	int			n;
	int			n_values;
	char	  **names = lsm_test_texts(fcinfo, 5, &n);
	char	  **values = lsm_test_texts(fcinfo, 6, &n_values);
	char	   *payload = lsm_test_text(fcinfo, 7);
	LsmSignHeader *headers = palloc((n + 1) * sizeof(LsmSignHeader));
	char		hash[LSM_SHA256_HEX];

	signer.access_key_id = lsm_test_text(fcinfo, 0);
	signer.secret_access_key = lsm_test_text(fcinfo, 1);
	lsm_sign_hash(payload, strlen(payload), hash);
	for (int i = 0; i < Min(n, n_values); i++)
	{
		headers[i].name = names[i];
		headers[i].value = values[i];
	}
	headers[n].name = "x-amz-content-sha256";
	headers[n++].value = hash;
	PG_RETURN_TEXT_P(cstring_to_text(lsm_sign(&signer, lsm_test_text(fcinfo, 2),
											  lsm_test_text(fcinfo, 3),
											  lsm_test_text(fcinfo, 4), headers, n, hash,
											  lsm_test_text(fcinfo, 8))));
}

static void
lsm_test_xml_element(void *arg, const char *path, const char *content)
{
	if (content != NULL)
		appendStringInfo(arg, "%s=%s\n", path, content);
	else
		appendStringInfo(arg, "%s\n", path);
}

Datum
lsm_test_xml(PG_FUNCTION_ARGS)
{
	char	   *data = lsm_test_text(fcinfo, 0);
	StringInfoData out;
	const char *problem;

	initStringInfo(&out);
	problem = lsm_xml_parse(data, strlen(data), lsm_test_xml_element, &out);
	appendStringInfo(&out, "%s", problem == NULL ? "sound" : problem);
	PG_RETURN_TEXT_P(cstring_to_text(out.data));
}

/* Null: the endpoint itself is not valid. */
Datum
lsm_test_endpoint(PG_FUNCTION_ARGS)
{
	LsmStoreEndpoint endpoint;

	if (lsm_store_endpoint_parse(lsm_test_text(fcinfo, 0), false, &endpoint) != NULL)
		PG_RETURN_NULL();
	PG_RETURN_BOOL(lsm_store_endpoint_allowed(&endpoint, lsm_test_text(fcinfo, 1)));
}

Datum
lsm_test_address(PG_FUNCTION_ARGS)
{
	char	   *text = lsm_test_text(fcinfo, 0);
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		PG_RETURN_BOOL(lsm_store_address_refused((struct sockaddr *) &v4));
	if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
		PG_RETURN_BOOL(lsm_store_address_refused((struct sockaddr *) &v6));
	PG_RETURN_NULL();
}

Datum
lsm_test_classify(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {
		"ok", "not found", "exists", "permission", "busy", "network", "timed out", "corrupt",
		"refused", "address"
	};

	PG_RETURN_TEXT_P(cstring_to_text(names[lsm_store_classify(PG_GETARG_INT32(0),
															  lsm_test_text(fcinfo, 1))]));
}

Datum
lsm_test_key(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lsm_store_key_valid(lsm_test_text(fcinfo, 0)));
}

/* ---- stores ---- */

static LsmStore *
lsm_test_store(FunctionCallInfo fcinfo)
{
	return lsm_store_open(get_foreign_server_oid(NameStr(*PG_GETARG_NAME(0)), false),
						  GetUserId());
}

static char
lsm_test_byte(uint64 at)
{
	return (char) ((at * UINT64CONST(0x9E3779B97F4A7C15)) >> 56);
}

typedef struct LsmTestSource
{
	uint64		at;
	uint64		end;
} LsmTestSource;

static size_t
lsm_test_pull(void *arg, char *buffer, size_t len)
{
	LsmTestSource *source = arg;
	size_t		n = Min(len, source->end - source->at);

	for (size_t i = 0; i < n; i++)
		buffer[i] = lsm_test_byte(source->at++);
	return n;
}

static Datum
lsm_test_info(const LsmObjectInfo *info)
{
	return CStringGetTextDatum(psprintf(UINT64_FORMAT " %08x", info->bytes, info->crc));
}

Datum
lsm_test_store_put(PG_FUNCTION_ARGS)
{
	LsmTestSource source = {0, PG_GETARG_INT64(2)};
	LsmObjectInfo info;

	lsm_store_put(lsm_test_store(fcinfo), lsm_test_text(fcinfo, 1), lsm_test_pull, &source,
				  &info);
	PG_RETURN_DATUM(lsm_test_info(&info));
}

/* Null: there is no such object. */
Datum
lsm_test_store_head(PG_FUNCTION_ARGS)
{
	LsmObjectInfo info;

	if (!lsm_store_head(lsm_test_store(fcinfo), lsm_test_text(fcinfo, 1), &info))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(lsm_test_info(&info));
}

Datum
lsm_test_store_verify(PG_FUNCTION_ARGS)
{
	LsmObjectInfo info;

	if (!lsm_store_verify(lsm_test_store(fcinfo), lsm_test_text(fcinfo, 1), &info))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(lsm_test_info(&info));
}

Datum
lsm_test_store_reads(PG_FUNCTION_ARGS)
{
	LsmStore   *store = lsm_test_store(fcinfo);
	char	   *key = lsm_test_text(fcinfo, 1);
	int			len = PG_GETARG_INT32(3);
	LsmStoreReads *reads = lsm_store_reads_begin(store);
	LsmStoreRead *read;
	Datum	   *offsets;
	LsmStoreRead *slots;
	int			n;
	int			good = 0;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &offsets, NULL, &n);
	slots = palloc0(n * sizeof(LsmStoreRead));
	for (int i = 0; i < n; i++)
	{
		slots[i].key = key;
		slots[i].offset = DatumGetInt64(offsets[i]);
		slots[i].len = len;
		slots[i].buffer = palloc0(len);
		lsm_store_reads_add(reads, &slots[i]);
	}
	while ((read = lsm_store_reads_next(reads, true)) != NULL)
	{
		bool		same = read->arg == NULL;	/* handed back once */

		for (int i = 0; i < len; i++)
			same &= read->buffer[i] == lsm_test_byte(read->offset + i);
		read->arg = read;
		good += same;
	}
	lsm_store_reads_end(reads);
	PG_RETURN_INT32(good);
}

/* Two lists, of which one is ended after its first read, and one is left to the end. */
Datum
lsm_test_store_begin(PG_FUNCTION_ARGS)
{
	LsmStore   *store = lsm_test_store(fcinfo);
	char	   *key = lsm_test_text(fcinfo, 1);
	int			n = PG_GETARG_INT32(3);
	LsmStoreReads *lists[2] = {lsm_store_reads_begin(store), lsm_store_reads_begin(store)};
	LsmStoreRead *slots = palloc0(2 * n * sizeof(LsmStoreRead));
	int			other = 0;

	for (int i = 0; i < 2 * n; i++)
	{
		slots[i].key = key;
		slots[i].len = PG_GETARG_INT64(2) / 2;
		slots[i].offset = slots[i].len;
		slots[i].buffer = palloc(slots[i].len);
		lsm_store_reads_add(lists[i % 2], &slots[i]);
	}
	lsm_store_reads_next(lists[0], true);
	lsm_store_reads_end(lists[0]);
	for (int i = 0; i < 2 * n; i += 2)
		memset(slots[i].buffer, 0x55, slots[i].len);
	while (lsm_store_reads_next(lists[1], true) != NULL)
		other++;
	lsm_store_reads_end(lists[1]);

	/* nobody has written to buffers of the first list any more */
	for (int i = 0; i < 2 * n; i += 2)
		for (size_t j = 0; j < slots[i].len; j++)
			if (slots[i].buffer[j] != 0x55)
				elog(ERROR, "a read that was ended has written to its buffer");
	PG_RETURN_INT32(other);
}

Datum
lsm_test_store_pause(PG_FUNCTION_ARGS)
{
	LsmStoreReads *reads = lsm_store_reads_begin(lsm_test_store(fcinfo));
	char		buffer[1000];
	LsmStoreRead read = {.key = lsm_test_text(fcinfo, 1), .len = sizeof(buffer), .buffer = buffer};
	bool		good = true;

	lsm_store_reads_add(reads, &read);
	if (lsm_store_reads_next(reads, false) != NULL)
		elog(ERROR, "it has not been waited for");
	pg_usleep((long) (PG_GETARG_FLOAT8(2) * 1000000));
	if (lsm_store_reads_next(reads, true) != &read)
		elog(ERROR, "it does not come back");
	lsm_store_reads_end(reads);
	for (int i = 0; i < (int) sizeof(buffer); i++)
		good &= buffer[i] == lsm_test_byte(i);
	PG_RETURN_BOOL(good);
}

/* A source that reads another object, and where to. */
typedef struct LsmTestFailing
{
	LsmStore   *store;
	const char *key;
	char		buffer[1000];
	LsmTestSource source;
} LsmTestFailing;

static size_t
lsm_test_pull_failing(void *arg, char *buffer, size_t len)
{
	LsmTestFailing *failing = arg;
	LsmStoreReads *reads;
	LsmStoreRead read = {0};

	if (failing->source.at == 0)
		return lsm_test_pull(&failing->source, buffer, len);
	read.key = failing->key;
	read.len = sizeof(failing->buffer);
	read.buffer = failing->buffer;
	reads = lsm_store_reads_begin(failing->store);
	lsm_store_reads_add(reads, &read);
	lsm_store_reads_next(reads, false);
	elog(ERROR, "the source fails");
}

Datum
lsm_test_store_put_failing(PG_FUNCTION_ARGS)
{
	LsmTestFailing *failing = palloc0(sizeof(LsmTestFailing));
	LsmObjectInfo info;

	failing->store = lsm_test_store(fcinfo);
	failing->key = lsm_test_text(fcinfo, 2);
	failing->source.end = PG_UINT64_MAX;
	memset(failing->buffer, 0x55, sizeof(failing->buffer));
	PG_TRY();
	{
		lsm_store_put(failing->store, lsm_test_text(fcinfo, 1), lsm_test_pull_failing, failing,
					  &info);
	}
	PG_CATCH();
	{
		/* its frame has gone, and what it has read into might have, too */
		for (size_t i = 0; i < sizeof(failing->buffer); i++)
			if (failing->buffer[i] != 0x55)
				elog(PANIC, "a read that was left has written to its buffer");
		PG_RE_THROW();
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}

Datum
lsm_test_store_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsmStoreList *list = lsm_store_list_begin(lsm_test_store(fcinfo), lsm_test_text(fcinfo, 1));
	LsmStoreListed listed;

	InitMaterializedSRF(fcinfo, 0);
	while (lsm_store_list_next(list, &listed))
	{
		Datum		values[3] = {CStringGetTextDatum(listed.key),
		Int64GetDatum((int64) listed.bytes), Int64GetDatum(listed.modified)};
		bool		nulls[3] = {false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	lsm_store_list_end(list);
	return (Datum) 0;
}

Datum
lsm_test_store_delete(PG_FUNCTION_ARGS)
{
	int			n;
	char	  **keys = lsm_test_texts(fcinfo, 1, &n);

	lsm_store_delete(lsm_test_store(fcinfo), (const char *const *) keys, n);
	PG_RETURN_VOID();
}
