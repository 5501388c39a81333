/*-------------------------------------------------------------------------
 *
 * lsm_store_libs3.h
 *	  Signatures of version 2, for stores that know no others, through libs3.
 *
 * There is nothing of it unless lsm is built with "make WITH_LIBS3=1".
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STORE_LIBS3_H
#define LSM_STORE_LIBS3_H

#include "lsm_store_impl.h"

#ifdef LSM_WITH_LIBS3

/* What stores of type s3 do if their signatures are of version 2. */
extern const LsmStoreOps *lsm_libs3_ops(void);

/*
 * The URL of a GET, signed as of now, palloc'd.  Path and query are encoded; the path
 * begins with the bucket.
 */
extern char *lsm_libs3_sign(const LsmStore *store, const char *host, const char *path,
							const char *query);

#endif							/* LSM_WITH_LIBS3 */

#endif							/* LSM_STORE_LIBS3_H */
