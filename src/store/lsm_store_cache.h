/*-------------------------------------------------------------------------
 *
 * lsm_store_cache.h
 *	  What stores gave, kept on a local disk.
 *
 * Ranges of objects, under the names under which they are asked for again: store,
 * key, offset, length.  A key is never used twice, so nothing has to be invalidated.
 * What is kept is lost at any time, and never wrong.
 *
 * No function here raises an error because of the disk, or makes a request.  No LWLock
 * may be held by who puts, nor may it be a critical section; has and get take an LWLock
 * inside which nothing else is taken.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STORE_CACHE_H
#define LSM_STORE_CACHE_H

#include "lsm.h"

extern int	lsm_store_cache_size;	/* kB; 0: there is none */

#define LSM_LEAST_STORE_CACHE_KB	(16 * 1024)

/* How a range is wanted. */
typedef enum LsmStoreCacheUse
{
	LSM_STORE_CACHE_POINT,		/* it may well be wanted again */
	LSM_STORE_CACHE_SCAN,		/* it was one of many */
	LSM_STORE_CACHE_PASS		/* from the store: neither looked for nor kept */
} LsmStoreCacheUse;

typedef struct LsmStoreRange
{
	Oid			serverid;		/* in whose statistics it is counted */
	uint64		store;			/* what tells stores apart, also after a
								 * restart */
	const char *key;
	uint64		offset;
	uint32		len;
} LsmStoreRange;

/* Copy a range; false: it is not there.  Counted. */
extern bool lsm_store_cache_get(const LsmStoreRange *range, char *buf, LsmStoreCacheUse use);

/* Does it seem to be there, for such use? */
extern bool lsm_store_cache_has(const LsmStoreRange *range, LsmStoreCacheUse use);

/* Keep a range that has been found right. */
extern void lsm_store_cache_put(const LsmStoreRange *range, const char *bytes,
								LsmStoreCacheUse use);

extern void lsm_store_cache_init(void);
extern void lsm_store_cache_shmem_request(void);
extern void lsm_store_cache_shmem_startup(void);

#endif							/* LSM_STORE_CACHE_H */
