/*-------------------------------------------------------------------------
 *
 * lsm_coldvalue.h
 *	  Reading large values that lie in an object of a store.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLDVALUE_H
#define LSM_COLDVALUE_H

#include "lsm.h"

#include "lsm_blockcache.h"

/*
 * Read a part of a value of a cold segment: from a cache, or by requests.  If it is all of
 * it, it is checked.
 */
extern void lsm_coldvalue_read(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
							   const LsmSegmentValue *value, uint32 offset, uint32 len,
							   LsmReaderKind kind, char *buf);

extern void lsm_coldvalue_xact_end(void);

#endif							/* LSM_COLDVALUE_H */
