/*-------------------------------------------------------------------------
 *
 * lsm_cold_claims.h
 *	  Claims: who else needs the objects that a data directory has put.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLD_CLAIMS_H
#define LSM_COLD_CLAIMS_H

#include "lsm.h"

#include "lsm_cold.h"
#include "utils/hsearch.h"

/* The claims that there are in a store, and those that this database needs. */
extern HTAB *lsm_claims_create(void);

/*
 * A manifest of this database names the object, by the server whose store is looked at
 * (here), or by another one, which may name the same place.
 */
extern void lsm_claims_need(HTAB *claims, const LsmColdObject *object, bool here);

/* Add what the store has, and remove what puts of claims have left.  A request. */
extern void lsm_claims_list(HTAB *claims, LsmStore *store);

/* Put what is needed and was not listed; returns how many this database has then. */
extern int64 lsm_claims_put(HTAB *claims, LsmStore *store);

/*
 * Keys of claims of this database that it needs no more, and of databases of this data
 * directory that have been dropped; palloc'd.
 */
extern List *lsm_claims_done(HTAB *claims);

/*
 * May somebody else need an object that was put then (by the store's clock, 0: not known)?
 */
extern bool lsm_claims_cover(HTAB *claims, uint64 system, uint64 owner, Oid database,
							 int64 modified);

/* ---- adoptions ---- */

/*
 * Has this database adopted an object of others that was put then, or one of this data
 * directory that has been dropped?  (Which says that there still is something to adopt, too:
 * lsm_claims_done() gives up all other adoptions.)
 */
extern bool lsm_claims_adopted(HTAB *claims, uint64 system, uint64 owner, Oid database,
							   int64 modified);

/* What the keys begin with of which that may be so; palloc'd. */
extern List *lsm_claims_adopted_prefixes(HTAB *claims);

/* Has somebody else adopted what this database puts? */
extern bool lsm_claims_lost(HTAB *claims);

/* ERROR if keys do not begin like that, or those do that this data directory puts. */
extern void lsm_claims_check_prefix(const char *prefix);

/*
 * Adopt what somebody has put who is no more, by what its keys begin with, which has been
 * checked; the claims have been listed.
 */
extern void lsm_claims_adopt(HTAB *claims, LsmStore *store, const char *prefix);

#endif							/* LSM_COLD_CLAIMS_H */
