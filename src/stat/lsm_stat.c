/*-------------------------------------------------------------------------
 *
 * lsm_stat.c
 *	  Run-time counters of tables in shared memory.
 *
 * One entry for each table, by database and OID, so that TRUNCATE and rewrites
 * keep it.  The hash table has a fixed size, apart from that of LsmTableShared:
 * counters live longer than the pins of transactions.  When it is full, the entries
 * that have not been written for the longest time make room: a sixteenth of them at a
 * time, so that who goes through more tables than that does not look through all
 * entries for each.
 *
 * A backend gives its counts at the end of a transaction, though not more often
 * than LSM_STAT_FLUSHES_A_SECOND: many short transactions would meet on the same
 * cache lines.  What is left when it then falls idle comes with its next
 * transaction or its end.
 *
 * (The server's own cumulative statistics take kinds of extensions from 18 on
 * only; this is the same on all servers.)
 *
 * LOCKING
 *	  The lock, shared, keeps entries where they are; counters are atomic.
 *	  Exclusive: entries come and go, buckets get another width, reset.
 *	  Nothing is taken inside it but an entry's mutex (error).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "lsm_stat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#define LSM_STAT_TABLES			4096

/* One in so many entries goes when there is no room. */
#define LSM_STAT_EVICTED		16

#define LSM_STAT_FLUSHES_A_SECOND 20

typedef struct LsmStatKey
{
	Oid			dboid;
	Oid			relid;
} LsmStatKey;

typedef struct LsmStatEntry
{
	LsmStatKey	key;			/* hash key */
	pg_atomic_uint64 used;		/* when it was last written, by the clock
								 * below */
	pg_atomic_uint64 counts[LSM_STAT_COUNTERS];
	pg_atomic_uint64 longest_stall_us;
	pg_atomic_uint64 flushed_waste; /* waste in the memtable up to its last
									 * flush */
	pg_atomic_uint64 changed_at;	/* its last change that is known, a
									 * TimestampTz */
	pg_atomic_uint64 busy_looks;	/* of counts, as long as it is not quiet */
	pg_atomic_uint64 trimmed_in_vain[LSM_TRIM_STEPS];	/* in that state of the
														 * manifest; 0: not */
	TimestampTz reset_time;		/* guarded by the lock */
	uint64		reset_counts[LSM_STAT_COUNTERS];	/* what the counts were then;
													 * guarded by the lock */
	int			shift;			/* guarded by the lock */
	pg_atomic_uint64 bucket_records[LSM_STAT_BUCKETS];
	pg_atomic_uint64 bucket_rows[LSM_STAT_BUCKETS];
	/* guarded by mutex */
	slock_t		mutex;
	TimestampTz error_time;
	int			error_code;
	char		error_message[LSM_STAT_MESSAGE_BYTES];
} LsmStatEntry;

typedef struct LsmStatShared
{
	LWLock		lock;
	pg_atomic_uint64 clock;		/* goes up with every write to some entry */
	TimestampTz unknown;		/* tables without an entry were not changed after
								 * that; guarded by the lock */
} LsmStatShared;

int			lsm_debug_quiet_time = 60 * 1000;

static LsmStatShared *lsm_stat_shared;
static HTAB *lsm_stat_entries;

/* Counts of this backend that shared memory does not have yet. */
static dlist_head lsm_stat_pending = DLIST_STATIC_INIT(lsm_stat_pending);
static TimestampTz lsm_stat_second; /* when the present second began */
static int	lsm_stat_flushes;	/* in this second */
static bool lsm_stat_exit_registered;
uint32		lsm_stat_ticks;

/* ---- shared memory ---- */

Size
lsm_stat_shmem_size(void)
{
	return add_size(MAXALIGN(sizeof(LsmStatShared)),
					hash_estimate_size(LSM_STAT_TABLES, sizeof(LsmStatEntry)));
}

void
lsm_stat_shmem_request(void)
{
	RequestAddinShmemSpace(add_size(lsm_stat_shmem_size(), lsm_progress_shmem_size()));
	RequestNamedLWLockTranche("lsm_stat", 1);
}

/* AddinShmemInitLock is held. */
void
lsm_stat_shmem_startup(void)
{
	HASHCTL		ctl;
	bool		found;

	lsm_stat_shared = ShmemInitStruct("lsm statistics", sizeof(LsmStatShared), &found);
	if (!found)
	{
		LWLockInitialize(&lsm_stat_shared->lock,
						 GetNamedLWLockTranche("lsm_stat")->lock.tranche);
		pg_atomic_init_u64(&lsm_stat_shared->clock, 1);
		lsm_stat_shared->unknown = GetCurrentTimestamp();
	}
	ctl.keysize = sizeof(LsmStatKey);
	ctl.entrysize = sizeof(LsmStatEntry);
	lsm_stat_entries = ShmemInitHash("lsm statistics of tables", LSM_STAT_TABLES,
									 LSM_STAT_TABLES, &ctl,
									 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	lsm_progress_shmem_startup();
}

/* All zero; the lock is held exclusively. */
static void
lsm_stat_entry_init(LsmStatEntry *entry)
{
	for (int i = 0; i < LSM_STAT_COUNTERS; i++)
		pg_atomic_init_u64(&entry->counts[i], 0);
	memset(entry->reset_counts, 0, sizeof(entry->reset_counts));
	pg_atomic_init_u64(&entry->longest_stall_us, 0);
	pg_atomic_init_u64(&entry->flushed_waste, 0);

	/* nobody knows when it was changed */
	pg_atomic_init_u64(&entry->changed_at, (uint64) GetCurrentTimestamp());
	pg_atomic_init_u64(&entry->busy_looks, 0);
	for (int i = 0; i < LSM_TRIM_STEPS; i++)
		pg_atomic_init_u64(&entry->trimmed_in_vain[i], 0);
	entry->reset_time = 0;
	entry->shift = 0;
	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
	{
		pg_atomic_init_u64(&entry->bucket_records[i], 0);
		pg_atomic_init_u64(&entry->bucket_rows[i], 0);
	}
	SpinLockInit(&entry->mutex);
	entry->error_time = 0;
	entry->error_code = 0;
	entry->error_message[0] = '\0';
}

static int
lsm_stat_cmp_used(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/*
 * Throw out the entries that have rested for the longest time; lock exclusive.  It may be
 * after the end of a transaction, so nothing is allocated.
 */
static void
lsm_stat_evict(void)
{
	static uint64 used[LSM_STAT_TABLES];
	HASH_SEQ_STATUS scan;
	LsmStatEntry *entry;
	uint64		last;
	int			n = 0;

	hash_seq_init(&scan, lsm_stat_entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		Assert(n < LSM_STAT_TABLES);
		used[n++] = pg_atomic_read_u64(&entry->used);
	}
	if (n == 0)
		return;
	qsort(used, n, sizeof(uint64), lsm_stat_cmp_used);
	last = used[n / LSM_STAT_EVICTED];
	hash_seq_init(&scan, lsm_stat_entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		if (pg_atomic_read_u64(&entry->used) <= last)
		{
			lsm_stat_shared->unknown = Max(lsm_stat_shared->unknown,
										   (TimestampTz) pg_atomic_read_u64(&entry->changed_at));
			hash_search(lsm_stat_entries, &entry->key, HASH_REMOVE, NULL);
		}
}

/*
 * The entry of a table of this database, made if need be, with the lock held in
 * that mode or exclusively.
 */
static LsmStatEntry *
lsm_stat_lock_entry(Oid relid, LWLockMode mode)
{
	LsmStatKey	key = {MyDatabaseId, relid};
	LsmStatEntry *entry;
	bool		found = true;

	LWLockAcquire(&lsm_stat_shared->lock, mode);
	entry = hash_search(lsm_stat_entries, &key, HASH_FIND, NULL);
	if (entry == NULL && mode == LW_SHARED)
	{
		LWLockRelease(&lsm_stat_shared->lock);
		LWLockAcquire(&lsm_stat_shared->lock, LW_EXCLUSIVE);
	}
	while (entry == NULL)
	{
		entry = hash_search(lsm_stat_entries, &key, HASH_ENTER_NULL, &found);
		if (entry == NULL)
			lsm_stat_evict();
	}
	if (!found)
	{
		pg_atomic_init_u64(&entry->used, 0);
		lsm_stat_entry_init(entry);
	}
	pg_atomic_write_u64(&entry->used, pg_atomic_fetch_add_u64(&lsm_stat_shared->clock, 1));
	return entry;
}

static void
lsm_stat_unlock(void)
{
	LWLockRelease(&lsm_stat_shared->lock);
}

static inline void
lsm_stat_add(pg_atomic_uint64 *counter, uint64 more)
{
	if (more != 0)
		pg_atomic_fetch_add_u64(counter, more);
}

static void
lsm_stat_raise(pg_atomic_uint64 *greatest, uint64 value)
{
	uint64		known = pg_atomic_read_u64(greatest);

	while (known < value && !pg_atomic_compare_exchange_u64(greatest, &known, value))
		;
}

/* ---- key ranges ---- */

/* Make the buckets wide enough for a root. */
void
lsm_stat_widen(LsmStatLocal *stat, LsmTid root)
{
	while (LSM_TID_LB(root) >> stat->shift >= LSM_STAT_BUCKETS)
	{
		for (int i = 0; i < LSM_STAT_BUCKETS; i++)
		{
			LsmStatBucket bucket = stat->buckets[i];

			memset(&stat->buckets[i], 0, sizeof(LsmStatBucket));
			stat->buckets[i / 2].records += bucket.records;
			stat->buckets[i / 2].rows += bucket.rows;
		}
		stat->shift++;
	}
}

/* The same for an entry; the lock is held exclusively. */
static void
lsm_stat_widen_entry(LsmStatEntry *entry, int shift)
{
	while (entry->shift < shift)
	{
		for (int i = 0; i < LSM_STAT_BUCKETS; i++)
		{
			uint64		records = pg_atomic_exchange_u64(&entry->bucket_records[i], 0);
			uint64		rows = pg_atomic_exchange_u64(&entry->bucket_rows[i], 0);

			lsm_stat_add(&entry->bucket_records[i / 2], records);
			lsm_stat_add(&entry->bucket_rows[i / 2], rows);
		}
		entry->shift++;
	}
}

/* ---- from the backend to shared memory ---- */

/* Records examined in vain in the memtable, since the first of them or since its flush. */
static uint64
lsm_stat_waste(LsmStatEntry *entry)
{
	uint64		rows = pg_atomic_read_u64(&entry->counts[LSM_STAT_ROWS_MEMTABLE]);
	uint64		records = pg_atomic_read_u64(&entry->counts[LSM_STAT_RECORDS_MEMTABLE]);

	return records > rows ? records - rows : 0;
}

static uint64
lsm_stat_waste_since_flush(LsmStatEntry *entry)
{
	uint64		waste = lsm_stat_waste(entry);

	return waste - Min(waste, pg_atomic_read_u64(&entry->flushed_waste));
}

/*
 * What look-ups have paid for the memtable, in records, since the table is quiet.  Only then
 * would a flush spare it: as long as somebody changes the table, there is a memtable again at
 * once, and each flush leaves a small segment.
 */
static uint64
lsm_stat_quiet(LsmStatEntry *entry)
{
	uint64		looks = pg_atomic_read_u64(&entry->counts[LSM_STAT_LOOKS_MEMTABLE]);

	return (looks - Min(looks, pg_atomic_read_u64(&entry->busy_looks))) / LSM_STAT_LOOK_QUARTERS;
}

/* What look-ups have paid so far is not counted. */
static void
lsm_stat_is_busy(LsmStatEntry *entry)
{
	pg_atomic_write_u64(&entry->busy_looks,
						pg_atomic_read_u64(&entry->counts[LSM_STAT_LOOKS_MEMTABLE]));
}

/*
 * Counts are given late, by a second and more, those of a change as those of look-ups: so a
 * table is quiet a good while after the last change only.
 */
static void
lsm_stat_heed_changes(LsmStatEntry *entry, bool changed)
{
	TimestampTz now = GetCurrentTimestamp();

	if (changed)
		pg_atomic_write_u64(&entry->changed_at, (uint64) now);
	if (changed || RecoveryInProgress() ||
		!TimestampDifferenceExceeds((TimestampTz) pg_atomic_read_u64(&entry->changed_at),
									now, lsm_debug_quiet_time))
		lsm_stat_is_busy(entry);
}

static void
lsm_stat_give(LsmStatLocal *stat)
{
	LsmStatEntry *entry = lsm_stat_lock_entry(stat->relid, LW_SHARED);

	if (entry->shift < stat->shift)
	{
		lsm_stat_unlock();
		entry = lsm_stat_lock_entry(stat->relid, LW_EXCLUSIVE);
		lsm_stat_widen_entry(entry, stat->shift);
	}
	for (int i = 0; i < LSM_STAT_COUNTERS; i++)
		lsm_stat_add(&entry->counts[i], stat->counts[i]);
	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
	{
		int			at = i >> (entry->shift - stat->shift);

		lsm_stat_add(&entry->bucket_records[at], stat->buckets[i].records);
		lsm_stat_add(&entry->bucket_rows[at], stat->buckets[i].rows);
	}
	lsm_stat_heed_changes(entry, stat->counts[LSM_STAT_APPENDS] > 0);
	stat->memtable_waste = lsm_stat_waste_since_flush(entry);
	stat->memtable_quiet = lsm_stat_quiet(entry);
	lsm_stat_unlock();
	memset(stat->counts, 0, sizeof(stat->counts));
	memset(stat->buckets, 0, sizeof(stat->buckets));
}

/* Give all that is pending. */
void
lsm_stat_flush(void)
{
	while (!dlist_is_empty(&lsm_stat_pending))
	{
		LsmStatLocal *stat = dlist_container(LsmStatLocal, node,
											 dlist_pop_head_node(&lsm_stat_pending));

		stat->pending = false;
		lsm_stat_give(stat);
	}
}

static void
lsm_stat_exit(int code, Datum arg)
{
	lsm_stat_flush();
}

/* Count for that table from now on; the file was another's, or is new. */
void
lsm_stat_begin(LsmStatLocal *stat, Oid relid)
{
	if (stat->pending)
	{
		dlist_delete(&stat->node);
		lsm_stat_give(stat);
	}
	memset(stat, 0, sizeof(*stat));
	stat->relid = relid;
}

/* The counts of a table that the transaction has used, if there are any. */
void
lsm_stat_pend(LsmStatLocal *stat)
{
	if (stat->pending)
		return;
	for (int i = 0; i < LSM_STAT_COUNTERS; i++)
	{
		if (stat->counts[i] != 0)
		{
			stat->pending = true;
			dlist_push_tail(&lsm_stat_pending, &stat->node);
			return;
		}
	}
}

/* At the end of a transaction, when its tables' counts are pending. */
void
lsm_stat_xact_end(void)
{
	TimestampTz now;

	if (dlist_is_empty(&lsm_stat_pending))
		return;
	if (!lsm_stat_exit_registered)
	{
		before_shmem_exit(lsm_stat_exit, (Datum) 0);
		lsm_stat_exit_registered = true;
	}
	now = GetCurrentTransactionStopTimestamp();
	if (now - lsm_stat_second >= USECS_PER_SEC || now < lsm_stat_second)
	{
		lsm_stat_second = now;
		lsm_stat_flushes = 0;
	}
	if (lsm_stat_flushes++ < LSM_STAT_FLUSHES_A_SECOND)
		lsm_stat_flush();
}

/* A transaction that runs for long gives its counts every second or so. */
void
lsm_stat_tick_second(LsmStatLocal *stat)
{
	TimestampTz now = GetCurrentTimestamp();

	lsm_stat_ticks = 0;
	if (now - lsm_stat_second < USECS_PER_SEC && now >= lsm_stat_second)
		return;
	lsm_stat_second = now;
	lsm_stat_flushes = 0;
	lsm_stat_pend(stat);
	lsm_stat_flush();
}

/* ---- reports ---- */

/* Forget what reading a range of keys has cost, which is to be better now. */
static void
lsm_stat_clear_range(LsmStatEntry *entry, LsmTid first_root, LsmTid last_root)
{
	uint32		first = LSM_TID_LB(first_root) >> entry->shift;
	uint32		last = Min(LSM_TID_LB(last_root) >> entry->shift, LSM_STAT_BUCKETS - 1);

	for (uint32 i = first; i <= last; i++)
	{
		pg_atomic_write_u64(&entry->bucket_records[i], 0);
		pg_atomic_write_u64(&entry->bucket_rows[i], 0);
	}
}

/* A job on the rows from first_root to last_root is done. */
void
lsm_stat_report_job(Oid relid, LsmJobKind kind, uint64 bytes_read, uint64 bytes_written,
					LsmTid first_root, LsmTid last_root)
{
	LsmStatCounter counter = LSM_STAT_FLUSHES + 3 * (kind - LSM_JOB_FLUSH);
	LsmStatEntry *entry;

	Assert(kind >= LSM_JOB_FLUSH && kind <= LSM_JOB_MAJOR);
	entry = lsm_stat_lock_entry(relid, LW_SHARED);
	lsm_stat_add(&entry->counts[counter], 1);
	lsm_stat_add(&entry->counts[counter + 1], bytes_read);
	lsm_stat_add(&entry->counts[counter + 2], bytes_written);
	if (kind == LSM_JOB_FLUSH)
	{
		pg_atomic_write_u64(&entry->flushed_waste, lsm_stat_waste(entry));
		lsm_stat_is_busy(entry);
	}
	else if (kind == LSM_JOB_MAJOR)
		lsm_stat_clear_range(entry, first_root, last_root);
	lsm_stat_unlock();
}

/* A segment, or the end of an extent of one, has been moved. */
void
lsm_stat_report_move(Oid relid, uint64 bytes_written)
{
	LsmStatEntry *entry = lsm_stat_lock_entry(relid, LW_SHARED);

	lsm_stat_add(&entry->counts[LSM_STAT_MOVES], 1);
	lsm_stat_add(&entry->counts[LSM_STAT_MOVED_BYTES], bytes_written);
	lsm_stat_unlock();
}

/* A job in the background has failed; code as of ERRCODE_xxx. */
void
lsm_stat_report_error(Oid relid, int code, const char *message)
{
	LsmStatEntry *entry;
	TimestampTz now = GetCurrentTimestamp();
	int			len = pg_mbcliplen(message, strlen(message), LSM_STAT_MESSAGE_BYTES - 1);

	entry = lsm_stat_lock_entry(relid, LW_SHARED);
	lsm_stat_add(&entry->counts[LSM_STAT_ERRORS], 1);
	SpinLockAcquire(&entry->mutex);
	entry->error_time = now;
	entry->error_code = code;
	memcpy(entry->error_message, message, len);
	entry->error_message[len] = '\0';
	SpinLockRelease(&entry->mutex);
	lsm_stat_unlock();
}

/* A writer has waited, for a flush or to let one catch up. */
void
lsm_stat_report_stall(Oid relid, uint64 stall_us)
{
	LsmStatEntry *entry = lsm_stat_lock_entry(relid, LW_SHARED);

	lsm_stat_add(&entry->counts[LSM_STAT_STALLS], 1);
	lsm_stat_add(&entry->counts[LSM_STAT_STALL_US], stall_us);
	lsm_stat_raise(&entry->longest_stall_us, stall_us);
	lsm_stat_unlock();
}

/* A step of giving space back has gained nothing, in that state of the table's manifest. */
void
lsm_stat_trim_was_in_vain(Oid relid, LsmTrimStep step, uint64 state)
{
	LsmStatEntry *entry = lsm_stat_lock_entry(relid, LW_SHARED);

	pg_atomic_write_u64(&entry->trimmed_in_vain[step], state);
	lsm_stat_unlock();
}

/* ---- reading and resetting ---- */

/*
 * When was a table changed last?  Of one that nothing is known of: when the server started, or
 * the last change of those whose entries were given to others.
 */
TimestampTz
lsm_stat_changed_at(Oid relid)
{
	LsmStatKey	key = {MyDatabaseId, relid};
	LsmStatEntry *entry;
	TimestampTz changed_at;

	LWLockAcquire(&lsm_stat_shared->lock, LW_SHARED);
	changed_at = lsm_stat_shared->unknown;
	entry = hash_search(lsm_stat_entries, &key, HASH_FIND, NULL);
	if (entry != NULL)
		changed_at = (TimestampTz) pg_atomic_read_u64(&entry->changed_at);
	lsm_stat_unlock();
	return changed_at;
}

/* Which steps, as bits, have gained nothing in that state? */
uint32
lsm_stat_trimmed_in_vain(Oid relid, uint64 state)
{
	LsmStatKey	key = {MyDatabaseId, relid};
	LsmStatEntry *entry;
	uint32		in_vain = 0;

	LWLockAcquire(&lsm_stat_shared->lock, LW_SHARED);
	entry = hash_search(lsm_stat_entries, &key, HASH_FIND, NULL);
	for (int i = 0; i < LSM_TRIM_STEPS && entry != NULL; i++)
		if (pg_atomic_read_u64(&entry->trimmed_in_vain[i]) == state)
			in_vain |= 1 << i;
	lsm_stat_unlock();
	return in_vain;
}

/*
 * The counters of a table of this database.  False, and all of them 0: nothing
 * has been counted.
 */
bool
lsm_stat_read(Oid relid, LsmStatCopy *copy)
{
	LsmStatKey	key = {MyDatabaseId, relid};
	LsmStatEntry *entry;

	memset(copy, 0, sizeof(*copy));
	LWLockAcquire(&lsm_stat_shared->lock, LW_SHARED);
	entry = hash_search(lsm_stat_entries, &key, HASH_FIND, NULL);
	if (entry == NULL)
	{
		lsm_stat_unlock();
		return false;
	}
	for (int i = 0; i < LSM_STAT_COUNTERS; i++)
		copy->counts[i] = pg_atomic_read_u64(&entry->counts[i]) - entry->reset_counts[i];
	copy->longest_stall_us = pg_atomic_read_u64(&entry->longest_stall_us);
	copy->shift = entry->shift;
	for (int i = 0; i < LSM_STAT_BUCKETS; i++)
	{
		copy->buckets[i].records = pg_atomic_read_u64(&entry->bucket_records[i]);
		copy->buckets[i].rows = pg_atomic_read_u64(&entry->bucket_rows[i]);
	}
	copy->memtable_waste = lsm_stat_waste_since_flush(entry);
	copy->memtable_quiet = lsm_stat_quiet(entry);
	copy->reset_time = entry->reset_time;
	SpinLockAcquire(&entry->mutex);
	copy->error_time = entry->error_time;
	copy->error_code = entry->error_code;
	memcpy(copy->error_message, entry->error_message, LSM_STAT_MESSAGE_BYTES);
	SpinLockRelease(&entry->mutex);
	lsm_stat_unlock();
	return true;
}

/* What is shown of a table begins anew; the lock is held exclusively. */
static void
lsm_stat_entry_reset(LsmStatEntry *entry, TimestampTz now)
{
	for (int i = 0; i < LSM_STAT_COUNTERS; i++)
		entry->reset_counts[i] = pg_atomic_read_u64(&entry->counts[i]);
	pg_atomic_write_u64(&entry->longest_stall_us, 0);
	entry->reset_time = now;
	SpinLockAcquire(&entry->mutex);
	entry->error_time = 0;
	entry->error_code = 0;
	entry->error_message[0] = '\0';
	SpinLockRelease(&entry->mutex);
}

/*
 * Set the counters of all tables of this database to zero, as far as they are shown: what jobs
 * are chosen by (waste since the last flush, and by key range since the last major, the time of the
 * last change) stays, so that who watches the server does not change what it does.  What other
 * backends have not given yet is counted after it.
 */
void
lsm_stat_reset(void)
{
	HASH_SEQ_STATUS scan;
	LsmStatEntry *entry;
	TimestampTz now = GetCurrentTimestamp();

	lsm_stat_flush();
	LWLockAcquire(&lsm_stat_shared->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, lsm_stat_entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		if (entry->key.dboid == MyDatabaseId)
			lsm_stat_entry_reset(entry, now);
	lsm_stat_unlock();
}
