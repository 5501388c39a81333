/*-------------------------------------------------------------------------
 *
 * lsm_cold.h
 *	  Segments whose blocks lie in an object of a store: where that is, and
 *	  reading it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLD_H
#define LSM_COLD_H

#include "lsm.h"

#include "lsm_page.h"
#include "lsm_store.h"
#include "lsm_store_cache.h"
#include "miscadmin.h"
#include "utils/rel.h"

/* Room for a key. */
#define LSM_COLD_KEY_BYTES		160

/* Requests for large values have so many bytes at most; those for blocks read over so many. */
#define LSM_COLD_READ_BYTES		(4 * 1024 * 1024)
#define LSM_COLD_GAP_BYTES		(256 * 1024)

extern int	lsm_cold_segment_size;	/* kB */
extern int	lsm_store_read_size;	/* kB; of requests for blocks that lie together */

/*
 * Must no request be made now?  Who holds an LWLock (an index AM its page, in unique
 * checks) cannot be interrupted.
 */
static inline bool
lsm_cold_held_off(void)
{
	return InterruptHoldoffCount > 0 || CritSectionCount > 0;
}

/* ---- servers ---- */

extern uint64 lsm_cold_name_hash(const char *name);

/* The server with that hash of its name; InvalidOid: there is none. */
extern Oid	lsm_cold_find_server(uint64 hash);

/* Its name, or what to say if it is gone; palloc'd. */
extern char *lsm_cold_server_name(const LsmColdObject *object);

/* The server to which the table's new segments go; InvalidOid: they stay local. */
extern Oid	lsm_cold_attached(Relation rel);

/*
 * Does a table depend on a server, for good?  (Not if our own transaction has made the
 * dependency, and may be rolled back.)
 */
extern bool lsm_cold_depends(Oid relid, Oid serverid);

/*
 * The stores of the database, all together, as two servers may name one place.
 *
 * A put lasts from before the object is put until an entry names it, or the transaction
 * ends.  It waits for nobody.
 */
extern void lsm_cold_put_begin(void);
extern void lsm_cold_put_end(void);

/*
 * Who finds out what no entry names does so alone, to the end of the transaction; false:
 * somebody else does (!wait).  When all puts that began before have ended, an object
 * that was seen before is named, or never will be.
 */
extern bool lsm_cold_sweep_begin(bool wait);
extern void lsm_cold_wait_for_puts(void);

/* ---- objects ---- */

/* The key of a segment's object. */
extern void lsm_cold_key(const LsmManifestEntry *entry, char *key);

/* What all keys of this cluster and database begin with, ours to delete. */
extern void lsm_cold_own_prefix(char *prefix);

/* The store of a cold segment. */
extern LsmStore *lsm_cold_open(Relation rel, const LsmManifestEntry *entry);

/* Bytes of the stream, all of which lie in the object; false: it does not exist. */
extern bool lsm_cold_read(Relation rel, const LsmManifestEntry *entry, uint64 offset, Size len,
						  char *buf);

/*
 * The same by way of the disk cache (lsm_store_cache.h), which needs no store that can be
 * reached: false: it is not there.  Who has found bytes right lets it keep them.
 */
extern bool lsm_cold_cache_get(Relation rel, const LsmManifestEntry *entry, uint64 offset,
							   uint32 len, char *buf, LsmStoreCacheUse use);
extern bool lsm_cold_cache_has(const LsmManifestEntry *entry, uint64 offset, uint32 len,
							   LsmStoreCacheUse use);
extern void lsm_cold_cache_put(const LsmManifestEntry *entry, uint64 offset, uint32 len,
							   const char *bytes, LsmStoreCacheUse use);

/* Raise that there is no object, or that a block or large value in it is not what it was. */
pg_noreturn extern void lsm_cold_raise_missing(const LsmManifestEntry *entry);
pg_noreturn extern void lsm_cold_raise_damaged(Relation rel, const LsmManifestEntry *entry,
											   uint32 blockno);
pg_noreturn extern void lsm_cold_raise_damaged_value(Relation rel,
													 const LsmManifestEntry *entry,
													 uint64 offset);

/* ---- whose objects they are (lsm_cold_owner.c) ---- */

/* The token of this data directory and a database; makes one if there is none yet. */
extern uint64 lsm_cold_owner_of(Oid database);

static inline uint64
lsm_cold_owner(void)
{
	return lsm_cold_owner_of(MyDatabaseId);
}

/* The token of this data directory alone, which copying a database does not change. */
extern uint64 lsm_cold_directory(void);

/* Is or was the second token that of a database of the data directory with the first one? */
extern bool lsm_cold_is_owner_of(uint64 directory, uint64 token);

/*
 * A database is about to be copied, or somebody has adopted what it has put (lsm_cold_claims.c):
 * what it has put so far is not its alone any more.
 */
extern void lsm_cold_owner_copied(Oid database);

extern void lsm_cold_shmem_request(void);
extern void lsm_cold_shmem_startup(void);

#endif							/* LSM_COLD_H */
