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

/* A manifest of this database names the object. */
extern void lsm_claims_need(HTAB *claims, const LsmColdObject *object);

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
 * May somebody else need an object of this cluster that was put then (by the store's clock,
 * 0: not known)?
 */
extern bool lsm_claims_cover(HTAB *claims, uint64 owner, Oid database, int64 modified);

#endif							/* LSM_COLD_CLAIMS_H */
