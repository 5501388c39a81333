/*-------------------------------------------------------------------------
 *
 * lsm_store_sign.h
 *	  Signatures of requests to S3, version 4.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STORE_SIGN_H
#define LSM_STORE_SIGN_H

#include "common/sha2.h"
#include "lib/stringinfo.h"
#include "pgtime.h"

#define LSM_SHA256_HEX			(2 * PG_SHA256_DIGEST_LENGTH + 1)

/* Who signs.  The key derived from the secret is kept for the day it is good for. */
typedef struct LsmSigner
{
	const char *access_key_id;
	const char *secret_access_key;
	const char *session_token;	/* or NULL */
	const char *region;
	char		day[9];			/* YYYYMMDD; "" at first */
	uint8		key[PG_SHA256_DIGEST_LENGTH];
} LsmSigner;

typedef struct LsmSignHeader
{
	const char *name;			/* lower case */
	const char *value;			/* without blanks at its ends or runs of them */
} LsmSignHeader;

#define LSM_SIGN_TIME_BYTES		17	/* 20130524T000000Z */

extern void lsm_sign_time(pg_time_t now, char *text);
extern void lsm_sign_hash(const void *data, size_t len, char *hex);
extern void lsm_sign_encode(StringInfo out, const char *text, bool keep_slashes);

/*
 * The value of the header Authorization, palloc'd.  The headers are sorted here; path and
 * query are encoded and, the query, sorted already.
 */
extern char *lsm_sign(LsmSigner *signer, const char *method, const char *path,
					  const char *query, LsmSignHeader *headers, int nheaders,
					  const char *payload_hash, const char *time);

#endif							/* LSM_STORE_SIGN_H */
