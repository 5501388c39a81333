/*-------------------------------------------------------------------------
 *
 * lsm_store_stat.c
 *	  Counters of stores in shared memory, and the wait event.
 *
 * An entry for each server, by database and OID.  A request takes far longer than
 * counting it, so each is counted at once.  When the table is full, further
 * servers are not counted until others have been dropped and the server restarted.
 *
 * LOCKING
 *	  The lock, shared, keeps entries where they are; counters are atomic.
 *	  Exclusive: entries come, the last error, reset.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_store_impl.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#define LSM_STORE_STATS			512

typedef struct LsmStoreStatKey
{
	Oid			dboid;
	Oid			serverid;
} LsmStoreStatKey;

typedef struct LsmStoreStatEntry
{
	LsmStoreStatKey key;		/* hash key */
	pg_atomic_uint64 requests[LSM_STORE_KINDS];
	pg_atomic_uint64 bytes_read;
	pg_atomic_uint64 bytes_written;
	pg_atomic_uint64 retries;
	pg_atomic_uint64 errors;
	pg_atomic_uint64 time_us;
	pg_atomic_uint64 cache_hits;
	pg_atomic_uint64 cache_misses;
	pg_atomic_uint64 cache_bytes;
	/* guarded by the lock */
	TimestampTz error_time;
	TimestampTz reset_time;
	char		error_message[sizeof(((LsmStoreStat *) 0)->error_message)];
} LsmStoreStatEntry;

typedef struct LsmStoreStatShared
{
	LWLock		lock;
} LsmStoreStatShared;

static LsmStoreStatShared *lsm_store_stat_shared;
static HTAB *lsm_store_stat_entries;

void
lsm_store_shmem_request(void)
{
	RequestAddinShmemSpace(add_size(MAXALIGN(sizeof(LsmStoreStatShared)),
									hash_estimate_size(LSM_STORE_STATS,
													   sizeof(LsmStoreStatEntry))));
	RequestNamedLWLockTranche("lsm_store_stat", 1);
}

void
lsm_store_shmem_startup(void)
{
	HASHCTL		ctl;
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_store_stat_shared = ShmemInitStruct("lsm statistics of stores lock",
											sizeof(LsmStoreStatShared), &found);
	if (!found)
		LWLockInitialize(&lsm_store_stat_shared->lock,
						 GetNamedLWLockTranche("lsm_store_stat")->lock.tranche);
	ctl.keysize = sizeof(LsmStoreStatKey);
	ctl.entrysize = sizeof(LsmStoreStatEntry);
	lsm_store_stat_entries = ShmemInitHash("lsm statistics of stores", LSM_STORE_STATS,
										   LSM_STORE_STATS, &ctl,
										   HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	LWLockRelease(AddinShmemInitLock);
}

static void
lsm_store_stat_clear(LsmStoreStatEntry *entry, TimestampTz reset_time)
{
	for (int i = 0; i < LSM_STORE_KINDS; i++)
		pg_atomic_init_u64(&entry->requests[i], 0);
	pg_atomic_init_u64(&entry->bytes_read, 0);
	pg_atomic_init_u64(&entry->bytes_written, 0);
	pg_atomic_init_u64(&entry->retries, 0);
	pg_atomic_init_u64(&entry->errors, 0);
	pg_atomic_init_u64(&entry->time_us, 0);
	pg_atomic_init_u64(&entry->cache_hits, 0);
	pg_atomic_init_u64(&entry->cache_misses, 0);
	pg_atomic_init_u64(&entry->cache_bytes, 0);
	entry->error_time = 0;
	entry->reset_time = reset_time;
	entry->error_message[0] = '\0';
}

/* The entry of a server, or NULL if there is no room; the lock is held then too. */
static LsmStoreStatEntry *
lsm_store_stat_lock_entry(Oid serverid, LWLockMode mode)
{
	LsmStoreStatKey key = {MyDatabaseId, serverid};
	LsmStoreStatEntry *entry;
	bool		found = true;

	LWLockAcquire(&lsm_store_stat_shared->lock, mode);
	entry = hash_search(lsm_store_stat_entries, &key, HASH_FIND, NULL);
	if (entry != NULL)
		return entry;
	if (mode == LW_SHARED)
	{
		LWLockRelease(&lsm_store_stat_shared->lock);
		LWLockAcquire(&lsm_store_stat_shared->lock, LW_EXCLUSIVE);
	}
	entry = hash_search(lsm_store_stat_entries, &key, HASH_ENTER_NULL, &found);
	if (entry != NULL && !found)
		lsm_store_stat_clear(entry, 0);
	return entry;
}

/* A request, or an attempt at one, is over. */
void
lsm_store_stat_count(Oid serverid, LsmStoreKind kind, uint64 bytes_read, uint64 bytes_written,
					 uint64 time_us, bool retry)
{
	LsmStoreStatEntry *entry = lsm_store_stat_lock_entry(serverid, LW_SHARED);

	if (entry != NULL)
	{
		pg_atomic_fetch_add_u64(&entry->requests[kind], 1);
		pg_atomic_fetch_add_u64(&entry->bytes_read, bytes_read);
		pg_atomic_fetch_add_u64(&entry->bytes_written, bytes_written);
		pg_atomic_fetch_add_u64(&entry->time_us, time_us);
		if (retry)
			pg_atomic_fetch_add_u64(&entry->retries, 1);
	}
	LWLockRelease(&lsm_store_stat_shared->lock);
}

/* A range was looked for in the disk cache. */
void
lsm_store_stat_cache(Oid serverid, bool hit, uint64 bytes)
{
	LsmStoreStatEntry *entry = lsm_store_stat_lock_entry(serverid, LW_SHARED);

	if (entry != NULL)
	{
		pg_atomic_fetch_add_u64(hit ? &entry->cache_hits : &entry->cache_misses, 1);
		if (hit)
			pg_atomic_fetch_add_u64(&entry->cache_bytes, bytes);
	}
	LWLockRelease(&lsm_store_stat_shared->lock);
}

/* An error is about to be raised. */
void
lsm_store_stat_error(Oid serverid, const char *message)
{
	TimestampTz now = GetCurrentTimestamp();
	LsmStoreStatEntry *entry = lsm_store_stat_lock_entry(serverid, LW_EXCLUSIVE);

	lsm_store_failures++;
	if (entry != NULL)
	{
		int			len = pg_mbcliplen(message, strlen(message),
									   sizeof(entry->error_message) - 1);

		pg_atomic_fetch_add_u64(&entry->errors, 1);
		entry->error_time = now;
		memcpy(entry->error_message, message, len);
		entry->error_message[len] = '\0';
	}
	LWLockRelease(&lsm_store_stat_shared->lock);
}

/* False, and all of it 0: nothing has been counted. */
bool
lsm_store_stat_read(Oid serverid, LsmStoreStat *stat)
{
	LsmStoreStatKey key = {MyDatabaseId, serverid};
	LsmStoreStatEntry *entry;

	memset(stat, 0, sizeof(*stat));
	LWLockAcquire(&lsm_store_stat_shared->lock, LW_SHARED);
	entry = hash_search(lsm_store_stat_entries, &key, HASH_FIND, NULL);
	if (entry != NULL)
	{
		for (int i = 0; i < LSM_STORE_KINDS; i++)
			stat->requests[i] = pg_atomic_read_u64(&entry->requests[i]);
		stat->bytes_read = pg_atomic_read_u64(&entry->bytes_read);
		stat->bytes_written = pg_atomic_read_u64(&entry->bytes_written);
		stat->retries = pg_atomic_read_u64(&entry->retries);
		stat->errors = pg_atomic_read_u64(&entry->errors);
		stat->time_us = pg_atomic_read_u64(&entry->time_us);
		stat->cache_hits = pg_atomic_read_u64(&entry->cache_hits);
		stat->cache_misses = pg_atomic_read_u64(&entry->cache_misses);
		stat->cache_bytes = pg_atomic_read_u64(&entry->cache_bytes);
		stat->error_time = entry->error_time;
		stat->reset_time = entry->reset_time;
		memcpy(stat->error_message, entry->error_message, sizeof(stat->error_message));
	}
	LWLockRelease(&lsm_store_stat_shared->lock);
	return entry != NULL;
}

/* Set the counters of all servers of this database to zero. */
void
lsm_store_stat_reset(void)
{
	HASH_SEQ_STATUS scan;
	LsmStoreStatEntry *entry;
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&lsm_store_stat_shared->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, lsm_store_stat_entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		if (entry->key.dboid == MyDatabaseId)
			lsm_store_stat_clear(entry, now);
	LWLockRelease(&lsm_store_stat_shared->lock);
}

uint32
lsm_store_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = lsm_compat_wait_event("LsmStoreRequest");
	return event;
}

int64
lsm_store_clock_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}
