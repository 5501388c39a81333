/*-------------------------------------------------------------------------
 *
 * lsm_store.h
 *	  The cold store: objects in a place that a foreign server of lsm_store names.
 *
 * An object is an immutable run of bytes under a key.  A key is never used twice,
 * so what was once read of it stays true; whoever makes keys gives each a random
 * part.  A store ends each object with a trailer that has the length and the
 * crc32c of what the caller gave, bound to the key (bytes: FORMAT.md); callers see
 * neither it nor the prefix of the server.
 *
 * Keys are of letters, digits and ._- in parts divided by single slashes, 256
 * bytes at most; no part begins with a period, and no key is a directory of
 * another.
 *
 * Every function here raises an error unless it says otherwise, after retries
 * where those may help, and can be cancelled while it waits for a service: then it
 * looks at interrupts every 100 ms.  (A file system that hangs, or is told to make a
 * large file durable, cannot be left.)  A transaction is needed, for
 * its resource owner: what an error leaves under way is ended by that.  No LWLock
 * may be held, nor may it be a critical section.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STORE_H
#define LSM_STORE_H

#include "port/pg_crc32c.h"

#define LSM_STORE_FDW			"lsm_store"
#define LSM_STORE_MAX_KEY		256

typedef struct LsmStore LsmStore;

/*
 * The store of a foreign server, with the user mapping and the rights of a user:
 * the owner of the table that has rows in it.  That user needs USAGE on the
 * server.  Makes no request.  The result is valid until the transaction ends; to
 * open it again is cheap.
 */
extern LsmStore *lsm_store_open(Oid serverid, Oid userid);

/* Called while a request is waited for, if set, wherever interrupts are heeded; may raise an error. */
extern void (*lsm_store_idle) (void);

extern const char *lsm_store_name(const LsmStore *store);

/*
 * Errors that this process has raised because of a store, or of what lies in it.  Who
 * catches one learns from its change whether the store was the cause.
 */
extern uint64 lsm_store_failures;

/* How many reads can be under way at once. */
extern int	lsm_store_parallelism(const LsmStore *store);

/* What the store knows of an object: bytes that were put, and their crc32c. */
typedef struct LsmObjectInfo
{
	uint64		bytes;
	pg_crc32c	crc;
} LsmObjectInfo;

/*
 * Can the store be used?  Puts a small object, reads some of it and deletes it; raises
 * what goes wrong.
 */
extern void lsm_store_test(LsmStore *store);

/* ---- writing ---- */

/*
 * Gives the next bytes of an object: fills the buffer, less only at the end of the
 * object.  May raise errors.
 */
typedef size_t (*LsmStorePull) (void *arg, char *buffer, size_t len);

/*
 * Put a new object, and see that it is there as it was put.  When this returns, it
 * is durable; when it raises an error, or the process ends, nothing is visible
 * under the key, or all of it is.  (Parts of an upload that was broken off may lie
 * about unseen until the store's own rules clear them away.)  An object that is
 * there already, and is not the same, is an error; in a directory the same one is, too.
 * Not during recovery.
 */
extern void lsm_store_put(LsmStore *store, const char *key, LsmStorePull pull, void *arg,
						  LsmObjectInfo *info);
extern void lsm_store_put_bytes(LsmStore *store, const char *key, const char *data, size_t len,
								LsmObjectInfo *info);

/* Delete objects, as many at once as the store takes.  Missing ones are no error. */
extern void lsm_store_delete(LsmStore *store, const char *const *keys, int nkeys);

/*
 * Remove what puts of processes that died have left, never to be seen, of objects under
 * a prefix.  The caller knows that nobody is putting such an object.
 */
extern void lsm_store_clean(LsmStore *store, const char *prefix);

/* ---- reading ---- */

/* False: there is no such object.  One request, and the trailer is checked. */
extern bool lsm_store_head(LsmStore *store, const char *key, LsmObjectInfo *info);

/* Read all of an object and compare it with its trailer; false as above. */
extern bool lsm_store_verify(LsmStore *store, const char *key, LsmObjectInfo *info);

/* Bytes from offset on; all must be there.  The caller checks what they say. */
extern void lsm_store_read(LsmStore *store, const char *key, uint64 offset, size_t len,
						   char *buffer);

/* The same; false: there is no such object. */
extern bool lsm_store_read_if_exists(LsmStore *store, const char *key, uint64 offset, size_t len,
									 char *buffer);

/*
 * Many reads.  Each that is added is under way as soon as the store has room for
 * it, as long as somebody waits for one; they are handed back as they complete, in
 * any order.  Reads of several lists go on side by side.
 *
 * A read is the caller's, with its buffer, and must stay where it is until it has
 * been handed back or the list is at its end; the key is copied.  An error of one
 * read is raised when its turn comes.
 */
typedef struct LsmStoreReads LsmStoreReads;

/* Reads that this process has asked for, whatever became of them, and their bytes. */
typedef struct LsmStoreAsked
{
	uint64		requests;
	uint64		bytes;
} LsmStoreAsked;

extern LsmStoreAsked lsm_store_asked;

typedef struct LsmStoreRead
{
	const char *key;
	uint64		offset;
	size_t		len;			/* at least 1 */
	char	   *buffer;
	void	   *arg;			/* the caller's */
	bool		missing_ok;		/* it is no error if there is no such object, */
	bool		missing;		/* but this tells so */
	void	   *state;			/* the store's */
} LsmStoreRead;

extern LsmStoreReads *lsm_store_reads_begin(LsmStore *store);
extern void lsm_store_reads_add(LsmStoreReads *reads, LsmStoreRead *read);

/* The next that is complete; NULL: none is left, or none is complete yet (!wait). */
extern LsmStoreRead *lsm_store_reads_next(LsmStoreReads *reads, bool wait);

/*
 * Of a list with one read: wait until so many of its first bytes have come, or it is
 * complete.  True: it is, and has been handed back.  Otherwise an error may still come
 * of it, but the bytes are those that were asked for, as far as the store's word goes.
 */
extern bool lsm_store_reads_wait(LsmStoreReads *reads, LsmStoreRead *read, size_t bytes);

/* Would that have to wait? */
extern bool lsm_store_reads_pending(LsmStoreReads *reads, LsmStoreRead *read, size_t bytes);

/*
 * Whoever is busy with what has come calls this now and then: what is under way goes on,
 * of all lists.  It waits for nothing, and costs little if it is called often.
 */
extern void lsm_store_reads_poke(LsmStoreReads *reads);
extern void lsm_store_reads_end(LsmStoreReads *reads);

/* ---- listing ---- */

/*
 * Objects whose keys begin with prefix, in no certain order, page by page.  Those
 * that come or go meanwhile may be missed.  Bytes are those of the object with its
 * trailer.
 */
typedef struct LsmStoreList LsmStoreList;

typedef struct LsmStoreListed
{
	const char *key;			/* valid until the next call */
	uint64		bytes;
	int64		modified;		/* seconds since 1970, by the store's clock;
								 * 0: unknown */
} LsmStoreListed;

extern LsmStoreList *lsm_store_list_begin(LsmStore *store, const char *prefix);
extern bool lsm_store_list_next(LsmStoreList *list, LsmStoreListed *listed);
extern void lsm_store_list_end(LsmStoreList *list);

/* ---- settings and the library's own business ---- */

extern char *lsm_store_allowed_endpoints;

extern void lsm_store_init(void);
extern void lsm_store_xact_end(void);
extern void lsm_store_shmem_request(void);
extern void lsm_store_shmem_startup(void);
extern void lsm_store_stat_reset(void);

/*
 * Have what is under way end with its resource owner.  Of callbacks for that the last registered
 * is called first: so others who hold reads from stores call this before they register theirs.
 */
extern void lsm_store_watch_owners(void);

#endif							/* LSM_STORE_H */
