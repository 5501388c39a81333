/*-------------------------------------------------------------------------
 *
 * lsm_store_sign.c
 *	  Signatures of requests to S3, version 4.
 *
 * On the hash functions of the server, so that a server that is confined to
 * certified cryptography stays so.  Not curl's own: what its versions want encoded
 * how differs, and it takes no other headers away.
 *
 * Nothing here makes requests or knows of stores; lsm_test_store.c holds it against
 * the examples that S3's documentation gives.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/hmac.h"
#include "lsm_store_sign.h"

static void
lsm_sign_hex(const uint8 *bytes, size_t len, char *hex)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++)
	{
		hex[2 * i] = digits[bytes[i] >> 4];
		hex[2 * i + 1] = digits[bytes[i] & 15];
	}
	hex[2 * len] = '\0';
}

/* SHA-256 of some bytes, in hexadecimal: LSM_SHA256_HEX of them. */
void
lsm_sign_hash(const void *data, size_t len, char *hex)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	uint8		digest[PG_SHA256_DIGEST_LENGTH];

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, data, len) < 0 ||
		pg_cryptohash_final(ctx, digest, sizeof(digest)) < 0)
		elog(ERROR, "could not compute a SHA-256 hash");
	pg_cryptohash_free(ctx);
	lsm_sign_hex(digest, sizeof(digest), hex);
}

static void
lsm_sign_hmac(const void *key, size_t key_len, const char *text, uint8 *digest)
{
	pg_hmac_ctx *ctx = pg_hmac_create(PG_SHA256);

	if (ctx == NULL || pg_hmac_init(ctx, key, key_len) < 0 ||
		pg_hmac_update(ctx, (const uint8 *) text, strlen(text)) < 0 ||
		pg_hmac_final(ctx, digest, PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not compute a SHA-256 message authentication code");
	pg_hmac_free(ctx);
}

/* A time as S3 writes it. */
void
lsm_sign_time(pg_time_t now, char *text)
{
	struct pg_tm *tm = pg_gmtime(&now);

	snprintf(text, LSM_SIGN_TIME_BYTES, "%04d%02d%02dT%02d%02d%02dZ", tm->tm_year + 1900,
			 tm->tm_mon + 1, tm->tm_mday, tm->tm_hour, tm->tm_min, tm->tm_sec);
}

/* Percent signs for all but the characters that RFC 3986 leaves alone. */
void
lsm_sign_encode(StringInfo out, const char *text, bool keep_slashes)
{
	for (const char *c = text; *c != '\0'; c++)
	{
		if ((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') ||
			strchr("-._~", *c) != NULL || (keep_slashes && *c == '/'))
			appendStringInfoChar(out, *c);
		else
			appendStringInfo(out, "%%%02X", (unsigned char) *c);
	}
}

/* Derive the key of the day. */
static void
lsm_sign_key(LsmSigner *signer, const char *time)
{
	char	   *secret;
	uint8		key[PG_SHA256_DIGEST_LENGTH];
	char		day[sizeof(signer->day)];

	strlcpy(day, time, sizeof(day));
	if (strcmp(signer->day, day) == 0)
		return;
	secret = psprintf("AWS4%s", signer->secret_access_key);
	signer->day[0] = '\0';
	lsm_sign_hmac(secret, strlen(secret), day, key);
	explicit_bzero(secret, strlen(secret));
	pfree(secret);
	lsm_sign_hmac(key, sizeof(key), signer->region, key);
	lsm_sign_hmac(key, sizeof(key), "s3", key);
	lsm_sign_hmac(key, sizeof(key), "aws4_request", signer->key);
	explicit_bzero(key, sizeof(key));
	strlcpy(signer->day, day, sizeof(signer->day));
}

static int
lsm_sign_compare(const void *a, const void *b)
{
	return strcmp(((const LsmSignHeader *) a)->name, ((const LsmSignHeader *) b)->name);
}

char *
lsm_sign(LsmSigner *signer, const char *method, const char *path, const char *query,
		 LsmSignHeader *headers, int nheaders, const char *payload_hash, const char *time)
{
	StringInfoData request;
	StringInfoData names;
	char		hex[LSM_SHA256_HEX];
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	char	   *to_sign;
	char	   *result;

	lsm_sign_key(signer, time);
	qsort(headers, nheaders, sizeof(LsmSignHeader), lsm_sign_compare);
	initStringInfo(&request);
	initStringInfo(&names);
	appendStringInfo(&request, "%s\n%s\n%s\n", method, path, query);
	for (int i = 0; i < nheaders; i++)
	{
		appendStringInfo(&request, "%s:%s\n", headers[i].name, headers[i].value);
		appendStringInfo(&names, "%s%s", i > 0 ? ";" : "", headers[i].name);
	}
	appendStringInfo(&request, "\n%s\n%s", names.data, payload_hash);
	lsm_sign_hash(request.data, request.len, hex);

	to_sign = psprintf("AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", time, signer->day,
					   signer->region, hex);
	lsm_sign_hmac(signer->key, sizeof(signer->key), to_sign, digest);
	lsm_sign_hex(digest, sizeof(digest), hex);
	result = psprintf("AWS4-HMAC-SHA256 Credential=%s/%s/%s/s3/aws4_request,SignedHeaders=%s,Signature=%s",
					  signer->access_key_id, signer->day, signer->region, names.data, hex);
	pfree(to_sign);
	pfree(names.data);
	pfree(request.data);
	return result;
}
