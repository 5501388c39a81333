/*-------------------------------------------------------------------------
 *
 * lsm_store_impl.h
 *	  What the files of the store share, and nobody else needs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STORE_IMPL_H
#define LSM_STORE_IMPL_H

#include "lsm.h"

#include "lsm_store.h"
#include "lsm_store_sign.h"
#include "nodes/pg_list.h"

struct sockaddr;

/* ---- trailer of an object (FORMAT.md) ---- */

#define LSM_OBJECT_MAGIC		0x4F4D534C
#define LSM_OBJECT_VERSION		1

typedef struct LsmObjectTrailer
{
	uint32		magic;
	uint16		version;
	uint16		reserved;		/* 0 */
	uint64		bytes;			/* before the trailer */
	uint32		crc;			/* crc32c of them */
	uint32		trailer_crc;	/* crc32c of all before this field, then the
								 * key */
} LsmObjectTrailer;

#define LSM_OBJECT_TRAILER_BYTES	24

StaticAssertDecl(sizeof(LsmObjectTrailer) == LSM_OBJECT_TRAILER_BYTES,
				 "an object's trailer has no padding");
StaticAssertDecl(offsetof(LsmObjectTrailer, bytes) == 8 &&
				 offsetof(LsmObjectTrailer, crc) == 16 &&
				 offsetof(LsmObjectTrailer, trailer_crc) == 20,
				 "fields of an object's trailer are where FORMAT.md has them");

extern void lsm_object_trailer_make(LsmObjectTrailer *trailer, const char *key, uint64 bytes,
									pg_crc32c crc);

/* NULL if it is sound, else what is wrong; object_bytes counts the trailer. */
extern const char *lsm_object_trailer_check(const LsmObjectTrailer *trailer, const char *key,
											uint64 object_bytes);

/* ---- errors ---- */

typedef enum LsmStoreErrorClass
{
	LSM_STORE_OK,
	LSM_STORE_NOT_FOUND,
	LSM_STORE_EXISTS,
	LSM_STORE_PERMISSION,		/* credentials, or the store's rules */
	LSM_STORE_BUSY,				/* throttled, or an error on its side */
	LSM_STORE_NETWORK,
	LSM_STORE_TIMED_OUT,
	LSM_STORE_CORRUPT,			/* the object is not what it must be */
	LSM_STORE_REFUSED,			/* any other answer */
	LSM_STORE_ADDRESS			/* must not be connected to */
} LsmStoreErrorClass;

typedef struct LsmStoreError
{
	LsmStoreErrorClass class;
	int			http_status;	/* 0: none */
	int			attempts;
	char		code[64];		/* the store's name for the error */
	char		request_id[96];
	char		message[256];	/* more about it; may be empty */
} LsmStoreError;

/* Does it make sense to try again? */
#define lsm_store_transient(class) \
	((class) == LSM_STORE_BUSY || (class) == LSM_STORE_NETWORK || (class) == LSM_STORE_TIMED_OUT)

extern LsmStoreErrorClass lsm_store_classify(int http_status, const char *code);

/* action: "read", "list" ...; key may be NULL. */
pg_noreturn extern void lsm_store_raise(const LsmStore *store, const char *action,
										const char *key, const LsmStoreError *error);
extern char *lsm_store_error_detail(const LsmStoreError *error);

/* ---- options ---- */

typedef enum LsmStoreType
{
	LSM_STORE_FILE,
	LSM_STORE_S3
} LsmStoreType;

typedef struct LsmStoreEndpoint
{
	bool		tls;
	char		host[256];		/* lower case; of an IPv6 address without
								 * brackets */
	int			port;
	bool		wildcard;		/* of the list: all hosts below this domain */
} LsmStoreEndpoint;

/* Requests of a session to a store at a time at most, and connections that it keeps. */
#define LSM_STORE_MAX_PARALLEL	256

typedef struct LsmStoreOptions
{
	LsmStoreType type;
	char	   *prefix;			/* "" or without slashes at its ends */
	bool		verify_full;
	int			parallel_requests;
	/* file */
	char	   *directory;
	/* s3 */
	char	   *endpoint_text;
	LsmStoreEndpoint endpoint;
	char	   *bucket;
	char	   *region;
	bool		virtual_hosted;
	bool		signature_v2;	/* through libs3 */
	bool		from_environment;
	char	   *ca_file;		/* or NULL */
	char	   *proxy;			/* or NULL */
	int			connect_timeout_ms;
	int			stall_timeout_ms;
	int			request_timeout_ms;
	size_t		part_bytes;
} LsmStoreOptions;

typedef struct LsmStoreCredentials
{
	char	   *access_key_id;
	char	   *secret_access_key;
	char	   *session_token;	/* or NULL */
} LsmStoreCredentials;

extern void lsm_store_options_read(LsmStoreOptions *options, List *defs);
extern void lsm_store_credentials_read(LsmStoreCredentials *credentials, List *defs);
extern bool lsm_store_key_valid(const char *key);

/* NULL, or what is wrong with it. */
extern const char *lsm_store_endpoint_parse(const char *text, bool in_list,
											LsmStoreEndpoint *endpoint);
extern bool lsm_store_endpoint_allowed(const LsmStoreEndpoint *endpoint, const char *list);
extern bool lsm_store_endpoints_check(char **newval, void **extra, int source);

/* Addresses that no store is at, but services that give out credentials. */
extern bool lsm_store_address_refused(const struct sockaddr *address);

/* ---- a store ---- */

/* What a put reads: the caller's bytes, then the trailer. */
typedef struct LsmStoreSource
{
	LsmStorePull pull;
	void	   *arg;
	const char *key;
	uint64		bytes;			/* pulled so far */
	pg_crc32c	crc;
	bool		pulled;			/* the caller's bytes are at their end */
	size_t		trailer_done;	/* bytes of it that were given */
	LsmObjectTrailer trailer;
	LsmStoreError conflict;		/* why it may have been put before; set by put */
} LsmStoreSource;

/* Fill the buffer; less only at the end.  May raise errors. */
extern size_t lsm_store_source_fill(LsmStoreSource *source, char *buffer, size_t len);

typedef struct LsmStoreOps
{
	/* Further checks each time it is opened. */
	void		(*check) (LsmStore *store, Oid userid);
	void		(*put) (LsmStore *store, const char *key, LsmStoreSource *source);
	/* The trailer as it is, and the size of the object; false: not found. */
	bool		(*tail) (LsmStore *store, const char *key, LsmObjectTrailer *trailer,
						 uint64 *object_bytes);
	void		(*delete) (LsmStore *store, const char *const *keys, int nkeys);
	/* Remove leftovers of puts; NULL: there are none, or others see to them. */
	void		(*clean) (LsmStore *store, const char *prefix);
	void		(*reads_begin) (LsmStoreReads *reads);
	void		(*reads_add) (LsmStoreReads *reads, LsmStoreRead *read);
	LsmStoreRead *(*reads_next) (LsmStoreReads *reads, bool wait);
	void		(*reads_end) (LsmStoreReads *reads);

	/*
	 * Wait for the first bytes of a read; false: it is over.  Would that have
	 * to wait?  And let all go on.  NULL: reads are done when they are waited
	 * for.
	 */
	bool		(*reads_arrived) (LsmStoreRead *read, size_t bytes);
	bool		(*reads_pending) (LsmStoreRead *read, size_t bytes);
	void		(*reads_poke) (void);

	/*
	 * private state of a listing; the key with the prefix of the server cut
	 * off
	 */
	void	   *(*list_begin) (LsmStore *store, const char *prefix);
	bool		(*list_next) (void *list, LsmStoreListed *listed);
	void		(*list_end) (void *list);
} LsmStoreOps;

extern const LsmStoreOps lsm_store_file_ops;
extern const LsmStoreOps lsm_store_s3_ops;

struct LsmStore
{
	Oid			serverid;
	Oid			userid;
	char	   *name;
	const LsmStoreOps *ops;
	LsmStoreOptions options;
	MemoryContext context;		/* all of this */
	bool		stale;			/* not to be opened any more */
	/* s3 */
	LsmSigner	signer;
	int			active;			/* requests that curl has */
	int			batches;		/* LsmHttpBatch that refer to this */
	bool		no_conditions;	/* it does not know If-None-Match */
	char		address[64];	/* that answered last, checked; of signature
								 * v2 only */
};

struct LsmStoreReads
{
	LsmStore   *store;
	void	   *state;			/* of the type of store */
};

/* ---- counters ---- */

typedef enum LsmStoreKind
{
	LSM_STORE_GET,
	LSM_STORE_PUT,				/* objects, and parts of them */
	LSM_STORE_MULTIPART,		/* begin, complete or give up what has parts */
	LSM_STORE_LIST,
	LSM_STORE_DELETE,
	LSM_STORE_KINDS				/* how many there are */
} LsmStoreKind;

typedef struct LsmStoreStat
{
	uint64		requests[LSM_STORE_KINDS];	/* attempts; a retry is another
											 * one */
	uint64		bytes_read;
	uint64		bytes_written;
	uint64		retries;
	uint64		errors;			/* that were given to a caller */
	uint64		time_us;		/* sum over requests */
	uint64		cache_hits;		/* ranges found in the disk cache */
	uint64		cache_misses;
	uint64		cache_bytes;	/* of hits */
	int64		error_time;		/* TimestampTz; 0: none */
	int64		reset_time;
	char		error_message[512];
} LsmStoreStat;

extern void lsm_store_stat_count(Oid serverid, LsmStoreKind kind, uint64 bytes_read,
								 uint64 bytes_written, uint64 time_us, bool retry);
extern void lsm_store_stat_cache(Oid serverid, bool hit, uint64 bytes);
extern void lsm_store_stat_error(Oid serverid, const char *message);
extern bool lsm_store_stat_read(Oid serverid, LsmStoreStat *stat);

/* Wait event for requests. */
extern uint32 lsm_store_wait_event(void);

/* Microseconds of a clock that nobody sets. */
extern int64 lsm_store_clock_us(void);

/* CHECK_FOR_INTERRUPTS() for who waits for a store. */
static inline void
lsm_store_check(void)
{
	CHECK_FOR_INTERRUPTS();
	if (lsm_store_idle != NULL)
		lsm_store_idle();
}

#endif							/* LSM_STORE_IMPL_H */
