/*-------------------------------------------------------------------------
 *
 * lsm_table.c
 *	  Shared state of tables, and its hold by transactions.
 *
 * An entry is made when a transaction first touches a table and pinned until
 * that transaction ends.  What an entry says can always be found again in the
 * table's metapage, so that unpinned entries may be thrown out at any time: more
 * tables than entries work.
 *
 * A backend that comes back to a table pins the entry where it was.  That it is
 * the same table's, and has not been started afresh, is proven by its epoch,
 * which no two entries ever share.
 *
 * LOCKING
 *	  table_lock guards the hash table.  A table's gen_lock, shared, keeps its
 *	  counter, generations and memtable indexes as they are; whoever changes one
 *	  of them holds it exclusively.  edit_lock comes before gen_lock (it covers
 *	  the writing of manifest pages); stripes come before gen_lock too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/htup_details.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "lsm_manifest.h"
#include "lsm_process.h"
#include "lsm_request.h"
#include "lsm_sharedcache.h"
#include "lsm_table.h"
#include "lsm_vmpage.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/shmem.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/*
 * Entries, of 1.3 kB.  Who uses a table has it locked, and a transaction may lock as many tables
 * as the server has room for locks (pg_dump does): so there are as many entries as that.
 */
#define LSM_LEAST_TABLES		2048
#define LSM_MOST_TABLES			(64 * 1024)

#define LSM_STRIPES				1024

StaticAssertDecl(sizeof(LsmTableKey) == sizeof(RelFileLocator) + sizeof(int32),
				 "hash keys have no padding");

/* Of so many chunks of the arena the owners are looked at when memory is wanted. */
#define LSM_ROOM_SAMPLE			16

/*
 * And of so many when somebody is asked to flush, so many of them at most; which is not done more
 * often than that (us).
 */
#define LSM_ASK_SAMPLE			64
#define LSM_ASK_MOST			16
#define LSM_ASK_US				200000

typedef struct LsmShared
{
	LWLock		table_lock;
	pg_atomic_uint64 next_epoch;
	uint32		lifetime;		/* random; of this memory */
	pg_atomic_uint64 asked_at;	/* for memory for indexes */
	LWLockPadded stripes[LSM_STRIPES];
} LsmShared;

int			lsm_memtable_size = 64 * 1024;
uint64		lsm_xact_number = 1;

static LsmShared *lsm_shared;
static HTAB *lsm_shared_tables;
static HTAB *lsm_local_tables;

/* Tables that this transaction has pinned. */
typedef struct LsmPinnedTable
{
	LsmTable   *table;
	bool		named;			/* by the process, and not counted by the entry */
} LsmPinnedTable;

static LsmPinnedTable *pinned_tables;
static int	npinned;
static int	maxpinned;
static int	nnamed;				/* of them */

/* The tables that the session has opened last, by their numbers. */
#define LSM_RECENT_TABLES		16

static LsmTable *recent_tables[LSM_RECENT_TABLES];

static int
lsm_table_entries(void)
{
	int64		locks = (int64) max_locks_per_xact * (MaxBackends + max_prepared_xacts);

	return (int) Min(Max(locks, LSM_LEAST_TABLES), LSM_MOST_TABLES);
}

static Size
lsm_shared_hash_size(void)
{
	return hash_estimate_size(lsm_table_entries(), sizeof(LsmTableShared));
}

void
lsm_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(LsmShared)));
	RequestAddinShmemSpace(lsm_memindex_arena_size(lsm_memtable_size));
	RequestAddinShmemSpace(lsm_process_shmem_size());
	RequestAddinShmemSpace(lsm_shared_hash_size());
	RequestNamedLWLockTranche("lsm_table", 1);
	RequestNamedLWLockTranche("lsm_generation", 1);
	RequestNamedLWLockTranche("lsm_manifest", 1);
	RequestNamedLWLockTranche("lsm_row", 1);
	RequestNamedLWLockTranche("lsm_memtable", 1);
}

static int
lsm_tranche(const char *name)
{
	return GetNamedLWLockTranche(name)->lock.tranche;
}

void
lsm_shmem_startup(void)
{
	bool		found;
	Size		arena_bytes = lsm_memindex_arena_size(lsm_memtable_size);
	void	   *place;
	HASHCTL		ctl;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_shared = ShmemInitStruct("lsm", sizeof(LsmShared), &found);
	if (!found)
	{
		LWLockInitialize(&lsm_shared->table_lock, lsm_tranche("lsm_table"));
		pg_atomic_init_u64(&lsm_shared->next_epoch, 1);
		pg_atomic_init_u64(&lsm_shared->asked_at, 0);
		if (!pg_strong_random(&lsm_shared->lifetime, sizeof(lsm_shared->lifetime)))
			elog(ERROR, "could not generate a random number");
		for (int i = 0; i < LSM_STRIPES; i++)
			LWLockInitialize(&lsm_shared->stripes[i].lock, lsm_tranche("lsm_row"));
	}
	place = ShmemInitStruct("lsm memtable indexes", arena_bytes, &found);
	lsm_memindex_arena_init(place, arena_bytes, lsm_tranche("lsm_memtable"), !found);
	place = ShmemInitStruct("lsm processes", lsm_process_shmem_size(), &found);
	lsm_process_shmem_init(place, !found);

	ctl.keysize = sizeof(LsmTableKey);
	ctl.entrysize = sizeof(LsmTableShared);
	lsm_stat_shmem_startup();
	lsm_shared_tables = ShmemInitHash("lsm tables", lsm_table_entries(), lsm_table_entries(),
									  &ctl, HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	LWLockRelease(AddinShmemInitLock);
}

/* Has the server been started with lsm in shared_preload_libraries? */
bool
lsm_shmem_ready(void)
{
	return lsm_shared != NULL;
}

/*
 * A number for the time since shared memory was made: since the server was started, or
 * has recovered from a crash.
 */
uint32
lsm_table_lifetime(void)
{
	return lsm_shared->lifetime;
}

/* No open pages, and pages of the active generation so far; gen_lock is held. */
static void
lsm_table_reset_pages(LsmTableShared *shared, uint32 gen_pages)
{
	SpinLockAcquire(&shared->mutex);
	for (int kind = 0; kind < 2; kind++)
	{
		for (int i = 0; i < LSM_OPEN_PAGES; i++)
			shared->open[kind][i].block = InvalidBlockNumber;
		shared->rest[kind].npages = 0;
	}
	shared->value_rest.npages = 0;
	shared->gen_pages = gen_pages;
	SpinLockRelease(&shared->mutex);
}

/*
 * Around each change of what readers without gen_lock go by, which is held exclusively.
 * After an error between them, the count stays odd until the next change has ended:
 * readers take the lock meanwhile.
 */
void
lsm_table_change(LsmTableShared *shared)
{
	pg_atomic_write_u64(&shared->changes, pg_atomic_read_u64(&shared->changes) | 1);
	pg_memory_barrier();
}

void
lsm_table_changed(LsmTableShared *shared)
{
	pg_write_barrier();
	pg_atomic_write_u64(&shared->changes, pg_atomic_read_u64(&shared->changes) + 1);
}

/* Start an entry afresh; gen_lock is held exclusively or nobody knows it. */
void
lsm_table_reset_shared(LsmTableShared *shared)
{
	lsm_table_change(shared);
	pg_atomic_write_u64(&shared->epoch,
						pg_atomic_fetch_add_u64(&lsm_shared->next_epoch, 1));
	pg_atomic_write_u64(&shared->counter, 0);
	pg_atomic_write_u64(&shared->moved, 0);
	pg_atomic_write_u64(&shared->vacuum_lists, 0);
	shared->known = false;
	shared->depth = 0;
	shared->incarnation = 0;
	shared->generation = shared->flushing = 0;
	shared->vm_lbs = MaxBlockNumber;
	for (int i = 0; i < 2; i++)
		lsm_memindex_reset(&shared->index[i], LSM_INDEX_ABSENT, 0);
	lsm_table_reset_pages(shared, 0);
	lsm_table_changed(shared);
}

static void
lsm_table_init_shared(LsmTableShared *shared)
{
	pg_atomic_init_u32(&shared->pins, 0);
	pg_atomic_init_u64(&shared->changes, 0);
	pg_atomic_init_u64(&shared->epoch, 0);
	pg_atomic_init_u64(&shared->counter, 0);
	pg_atomic_init_u64(&shared->moved, 0);
	pg_atomic_init_u64(&shared->vacuum_lists, 0);
	pg_atomic_init_u64(&shared->cold_moves.until, 0);
	pg_atomic_init_u32(&shared->cold_moves.failures, 0);
	pg_atomic_init_u64(&shared->cold_majors.until, 0);
	pg_atomic_init_u32(&shared->cold_majors.failures, 0);
	LWLockInitialize(&shared->edit_lock, lsm_tranche("lsm_manifest"));
	LWLockInitialize(&shared->gen_lock, lsm_tranche("lsm_generation"));
	SpinLockInit(&shared->mutex);
	lsm_memindex_init(&shared->index[0], shared);
	lsm_memindex_init(&shared->index[1], shared);
	for (int i = 0; i < LSM_SPECULATIVE_BUCKETS; i++)
		pg_atomic_init_u32(&shared->speculative[i], 0);
	memset(shared->claims, 0, sizeof(shared->claims));
	shared->relid = InvalidOid;
	shared->flush_failed_s = 0;
	shared->flush_error = 0;
	lsm_table_reset_shared(shared);
}

/* Throw out an entry, unless it is pinned; table_lock is held exclusively. */
static bool
lsm_table_throw_out(LsmTableShared *shared)
{
	uint32		pins = 0;

	/* lsm_table_repin() pins without table_lock */
	if (!pg_atomic_compare_exchange_u32(&shared->pins, &pins, LSM_PINS_EVICTED))
		return false;
	pg_memory_barrier();
	if (lsm_process_any_uses(shared))
	{
		pg_atomic_write_u32(&shared->pins, 0);
		return false;
	}
	lsm_table_reset_shared(shared);
	hash_search(lsm_shared_tables, &shared->key, HASH_REMOVE, NULL);
	return true;
}

static inline uint32
lsm_table_index_chunks(const LsmTableShared *shared)
{
	return shared->index[0].nchunks + shared->index[1].nchunks;
}

/*
 * Throw out an unpinned entry; table_lock is held exclusively.  One without memtable index if
 * there is one: visits of workers come to all tables, and would have those indexes made anew
 * that are in use.
 */
static bool
lsm_table_evict(void)
{
	for (int most = 0; most <= 1; most++)
	{
		HASH_SEQ_STATUS scan;
		LsmTableShared *shared;

		hash_seq_init(&scan, lsm_shared_tables);
		while ((shared = hash_seq_search(&scan)) != NULL)
			if ((most > 0 || lsm_table_index_chunks(shared) == 0) && lsm_table_throw_out(shared))
			{
				hash_seq_term(&scan);
				return true;
			}
	}
	return false;
}

void
lsm_table_forget_database(Oid dbid)
{
	HASH_SEQ_STATUS scan;
	LsmTableShared *shared;

	if (lsm_shared == NULL)
		return;
	LWLockAcquire(&lsm_shared->table_lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, lsm_shared_tables);
	while ((shared = hash_seq_search(&scan)) != NULL)
		if (LSM_LOCATOR_DB(shared->key.locator) == dbid)
			(void) lsm_table_throw_out(shared);
	LWLockRelease(&lsm_shared->table_lock);
}

/* The entry of a table if there is one, pinned.  table_lock is held. */
static LsmTableShared *
lsm_table_find(const LsmTableKey *key)
{
	LsmTableShared *shared = hash_search(lsm_shared_tables, key, HASH_FIND, NULL);

	if (shared != NULL)
		pg_atomic_fetch_add_u32(&shared->pins, 1);
	return shared;
}

/* Find or make the entry of a table and pin it. */
static LsmTableShared *
lsm_table_pin(const LsmTableKey *key)
{
	LsmTableShared *shared;
	bool		found;

	LWLockAcquire(&lsm_shared->table_lock, LW_SHARED);
	shared = lsm_table_find(key);
	LWLockRelease(&lsm_shared->table_lock);
	if (shared != NULL)
		return shared;

	LWLockAcquire(&lsm_shared->table_lock, LW_EXCLUSIVE);
	while ((shared = hash_search(lsm_shared_tables, key, HASH_ENTER_NULL, &found)) == NULL)
	{
		if (!lsm_table_evict())
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many lsm tables are in use by running transactions"),
					 errdetail("At most %d can be.", lsm_table_entries()),
					 errhint("You might need to increase max_locks_per_transaction.")));
	}
	if (!found)
		lsm_table_init_shared(shared);
	pg_atomic_fetch_add_u32(&shared->pins, 1);
	LWLockRelease(&lsm_shared->table_lock);
	return shared;
}

/* Is the entry still the table's that the backend knew?  It has been pinned before that is asked. */
static inline bool
lsm_table_still_there(const LsmTable *table)
{
	if (pg_atomic_read_u32(&table->shared->pins) == LSM_PINS_EVICTED)
		return false;

	/* the pins of an entry that has been made since come after its epoch */
	pg_read_barrier();
	return pg_atomic_read_u64(&table->shared->epoch) == table->verified;
}

/*
 * Pin the entry that the backend knows, if it is still the table's.  *named: the process says that it
 * uses it, in a line of the processor's cache of its own, as long as there is room; a count in the
 * entry would go from processor to processor with each transaction.  (Hazard pointers: Michael, 2004.)
 *
 * Race: somebody throws the entry out.  He says so in the entry and then looks what processes name;
 * here it is named and then looked at.  So one sees the other at least, and if both do, the entry
 * stays, which is found out under table_lock.
 */
static bool
lsm_table_repin(const LsmTable *table, bool *named)
{
	LsmTableShared *shared = table->shared;
	uint32		pins;

	*named = false;
	if (table->verified == 0)
		return false;
	if (likely(nnamed < LSM_PROCESS_TABLES))
	{
		pg_atomic_uint64 *name = &lsm_my_process()->tables[nnamed];

		pg_atomic_write_u64(name, (uint64) (uintptr_t) shared);
		pg_memory_barrier();
		if (likely(lsm_table_still_there(table)))
		{
			nnamed++;
			*named = true;
			return true;
		}
		pg_atomic_write_u64(name, 0);
		return false;
	}
	pins = pg_atomic_read_u32(&shared->pins);
	do
	{
		if (pins == LSM_PINS_EVICTED)
			return false;
	} while (!pg_atomic_compare_exchange_u32(&shared->pins, &pins, pins + 1));
	if (lsm_table_still_there(table))
		return true;
	lsm_table_release(shared);
	return false;
}

/* Give up the tables that the process names, but for the first n. */
static void
lsm_table_unname(int n)
{
	LsmProcess *process = lsm_my_process();

	/* what was done with them comes before */
	pg_memory_barrier();
	while (nnamed > n)
		pg_atomic_write_u64(&process->tables[--nnamed], 0);
}

/* The entry of a table if there is one, pinned; for redo. */
LsmTableShared *
lsm_table_lookup(RelFileLocator locator, int32 backend)
{
	LsmTableKey key = {locator, backend};
	LsmTableShared *shared;

	if (lsm_shared == NULL)
		return NULL;
	LWLockAcquire(&lsm_shared->table_lock, LW_SHARED);
	shared = lsm_table_find(&key);
	LWLockRelease(&lsm_shared->table_lock);
	return shared;
}

/*
 * The same, with gen_lock exclusively, as the index may have to be dropped.  Race: if there is no
 * entry, a reader might make one, and look at the file, before redo has changed it, and be told
 * of nothing: so nobody makes an entry until lsm_table_redo_done().  No other entry may be asked
 * for meanwhile.
 */
LsmTableShared *
lsm_table_redo_begin(RelFileLocator locator)
{
	LsmTableKey key = {locator, -1};
	LsmTableShared *shared;

	if (lsm_shared == NULL)
		return NULL;
	LWLockAcquire(&lsm_shared->table_lock, LW_SHARED);
	shared = lsm_table_find(&key);
	if (shared == NULL)
		return NULL;
	LWLockRelease(&lsm_shared->table_lock);
	LWLockAcquire(&shared->gen_lock, LW_EXCLUSIVE);
	return shared;
}

void
lsm_table_redo_done(LsmTableShared *shared)
{
	if (shared != NULL)
	{
		LWLockRelease(&shared->gen_lock);
		lsm_table_release(shared);
	}
	else if (lsm_shared != NULL)
		LWLockRelease(&lsm_shared->table_lock);
}

void
lsm_table_release(LsmTableShared *shared)
{
	pg_atomic_fetch_sub_u32(&shared->pins, 1);
}

/* Forget what is known of a file that is new, emptied or gone. */
void
lsm_table_forget(RelFileLocator locator, int32 backend)
{
	LsmTableShared *shared = lsm_table_lookup(locator, backend);

	if (shared == NULL)
		return;
	LWLockAcquire(&shared->gen_lock, LW_EXCLUSIVE);
	lsm_table_reset_shared(shared);
	LWLockRelease(&shared->gen_lock);
	lsm_table_release(shared);
}

/*
 * Take over what the metapage says; gen_lock is held exclusively.  moved: records may be
 * elsewhere now, or others.  A new generation begins with an empty index, one that has been
 * flushed loses its.  May be called in a critical section.
 */
void
lsm_table_adopt_meta(LsmTableShared *shared, const LsmMeta *meta, bool moved)
{
	lsm_table_change(shared);
	if (!shared->known)
	{
		uint32		pages = 0;

		for (uint32 i = 0; i < meta->nranges; i++)
			if (meta->ranges[i].kind != LSM_RANGE_FREE &&
				meta->ranges[i].generation == meta->generation)
				pages += meta->ranges[i].pages.npages;
		lsm_table_reset_pages(shared, pages);
	}
	else
	{
		if (shared->flushing != 0 && shared->flushing != meta->flushing)
			lsm_memindex_reset(lsm_table_index(shared, shared->flushing), LSM_INDEX_ABSENT, 0);
		if (shared->generation != meta->generation)
		{
			lsm_memindex_reset(lsm_table_index(shared, meta->generation), LSM_INDEX_READY,
							   meta->generation);
			lsm_table_reset_pages(shared, 0);
		}
	}
	shared->known = true;
	shared->incarnation = meta->incarnation;
	shared->generation = meta->generation;
	shared->flushing = meta->flushing;
	pg_atomic_write_u64(&shared->counter, meta->counter);
	if (moved)
		pg_atomic_write_u64(&shared->moved, meta->counter);
	lsm_table_changed(shared);
}

static bool
lsm_table_agrees(LsmTableShared *shared, const LsmMeta *meta)
{
	return shared->known && shared->incarnation == meta->incarnation &&
		pg_atomic_read_u64(&shared->counter) == meta->counter;
}

/*
 * Make the entry agree with block 0.  It can disagree if the entry is new, or
 * if the file was changed behind it: a database that was moved away and back
 * before this backend connected to it; on a standby, a file made anew.
 */
static void
lsm_table_verify(Relation rel, LsmTable *table)
{
	LsmTableShared *shared = table->shared;
	LsmMeta    *meta;
	BlockNumber vm_lbs;

	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	meta = lsm_meta_peek(rel);
	vm_lbs = lsm_vm_size(rel);
	if (!lsm_table_agrees(shared, meta) || shared->vm_lbs < vm_lbs)
	{
		LWLockRelease(&shared->gen_lock);
		LWLockAcquire(&shared->gen_lock, LW_EXCLUSIVE);
		meta = lsm_meta_read(rel);
		if (!lsm_table_agrees(shared, meta))
		{
			lsm_table_reset_shared(shared);
			lsm_table_adopt_meta(shared, meta, true);
			shared->vm_lbs = lsm_vm_size(rel);
		}

		/* bits are set without an edit */
		shared->vm_lbs = Max(shared->vm_lbs, vm_lbs);
	}
	table->verified = RecoveryInProgress() ? 0 : pg_atomic_read_u64(&shared->epoch);
	LWLockRelease(&shared->gen_lock);
}

/*
 * What the database of this process is known by: its number, and who made its row in the
 * catalog.  (Another one under the same number has another; ALTER DATABASE, too, which costs a
 * few look-ups.)  Found out when the first table is opened, as later it may not be the time
 * for a look at the catalog.
 */
static void
lsm_table_know_database(void)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	lsm_sharedcache_set_database(((uint64) MyDatabaseId << 32) |
								 HeapTupleHeaderGetRawXmin(tuple->t_data));
	ReleaseSysCache(tuple);
}

/* The backend's hold on a table. */
static LsmTable *
lsm_table_local(const LsmTableKey *key)
{
	LsmTable   *table;
	bool		found;

	if (lsm_local_tables == NULL)
	{
		HASHCTL		ctl;

		lsm_table_know_database();
		ctl.keysize = sizeof(LsmTableKey);
		ctl.entrysize = sizeof(LsmTable);
		ctl.hcxt = TopMemoryContext;
		lsm_local_tables = hash_create("lsm local tables", 64, &ctl,
									   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	table = hash_search(lsm_local_tables, key, HASH_ENTER, &found);
	if (!found)
	{
		table->relid = InvalidOid;
		table->pinned = 0;
		table->shared = NULL;
		table->verified = 0;
		table->asked_flush = 0;
		table->bounds_left = 0;
		table->bounds_pages = 0;
		table->open_slot[0] = table->open_slot[1] = 0;
		table->view = NULL;
		table->load = NULL;
		table->frozen_by = 0;
		table->ended_by = 0;
		table->deleted_by = 0;
		table->near_due = false;
		table->primary_index = InvalidOid;
		table->ended_in = table->ended = 0;
		table->ended_known = false;
		memset(&table->stat, 0, sizeof(table->stat));
	}
	return table;
}

/* Pin the shared entry of a table; the first time in a transaction. */
static void
lsm_table_begin(Relation rel, LsmTable *table)
{
	bool		named;
	bool		again;

	if (npinned >= maxpinned)
	{
		int			n = Max(16, maxpinned * 2);

		if (pinned_tables == NULL)
			pinned_tables = MemoryContextAlloc(TopMemoryContext, n * sizeof(LsmPinnedTable));
		else
			pinned_tables = repalloc(pinned_tables, n * sizeof(LsmPinnedTable));
		maxpinned = n;
	}
	again = lsm_table_repin(table, &named);
	if (!again)
		table->shared = lsm_table_pin(&table->key);
	if (table->shared->relid != table->relid)
		table->shared->relid = table->relid;
	pinned_tables[npinned].table = table;
	pinned_tables[npinned++].named = named;
	lsm_view_used(table);
	if (!again)
		lsm_table_verify(rel, table);

	/* after an error it is done, and pinned, once more */
	table->pinned = lsm_xact_number;
}

/*
 * The backend's hold on a table, with its shared entry pinned until the
 * transaction ends.  Takes no lock that outlasts the call.
 */
LsmTable *
lsm_table_open(Relation rel)
{
	LsmTableKey key = {LSM_RD_LOCATOR(rel), rel->rd_backend};
	LsmTable  **recent = &recent_tables[LSM_LOCATOR_NUMBER(key.locator) % LSM_RECENT_TABLES];
	LsmTable   *table = *recent;

	if (unlikely(table == NULL || table->key.backend != key.backend ||
				 !RelFileLocatorEquals(table->key.locator, key.locator)))
		*recent = table = lsm_table_local(&key);
	if (unlikely(table->relid != RelationGetRelid(rel)))
	{
		lsm_stat_begin(&table->stat, RelationGetRelid(rel));
		table->relid = RelationGetRelid(rel);
	}
	if (table->pinned != lsm_xact_number)
		lsm_table_begin(rel, table);
	return table;
}

/* Has this transaction opened the table? */
bool
lsm_table_in_use(Relation rel)
{
	LsmTableKey key = {LSM_RD_LOCATOR(rel), rel->rd_backend};
	LsmTable   *table = NULL;

	if (lsm_local_tables != NULL)
		table = hash_search(lsm_local_tables, &key, HASH_FIND, NULL);
	return table != NULL && table->pinned == lsm_xact_number;
}

/* Give what this transaction has counted so far to shared memory. */
void
lsm_table_give_counts(void)
{
	for (int i = 0; i < npinned; i++)
		lsm_stat_pend(&pinned_tables[i].table->stat);
	lsm_stat_flush();
}

/*
 * Give up the pin that was taken last, and the view: for those who look at all
 * tables, one after the other, and use none.
 */
void
lsm_table_unpin(LsmTable *table)
{
	Assert(npinned > 0 && pinned_tables[npinned - 1].table == table);
	npinned--;
	if (pinned_tables[npinned].named)
		lsm_table_unname(nnamed - 1);
	else
		lsm_table_release(table->shared);
	table->pinned = 0;
	lsm_view_drop(table);
	lsm_stat_pend(&table->stat);
}

/* ---- rows that transactions end, for estimates ---- */

/*
 * What was ended in another generation is in an increment soon, which counts by itself; what was
 * before an index was built from pages has been counted there.
 */
static bool
lsm_table_ended_there(const LsmTable *table, uint32 generation)
{
	return table->ended_in == generation &&
		table->ended_known == lsm_table_index(table->shared, generation)->counts_inserts;
}

void
lsm_table_note_end(LsmTable *table)
{
	uint32		generation = table->shared->generation;

	if (table->ended_by != lsm_xact_number || !lsm_table_ended_there(table, generation))
		table->ended = 0;
	table->ended_by = lsm_xact_number;
	table->ended_in = generation;
	table->ended_known = lsm_table_index(table->shared, generation)->counts_inserts;
	table->ended++;
}

void
lsm_table_before_commit(void)
{
	for (int i = 0; i < npinned; i++)
	{
		LsmTable   *table = pinned_tables[i].table;
		LsmTableShared *shared = table->shared;

		if (table->ended_by != lsm_xact_number || table->ended == 0)
			continue;
		LWLockAcquire(&shared->gen_lock, LW_SHARED);
		if ((shared->generation == table->ended_in || shared->flushing == table->ended_in) &&
			lsm_table_ended_there(table, table->ended_in))
			pg_atomic_fetch_add_u32(&lsm_table_index(shared, table->ended_in)->ends, table->ended);
		LWLockRelease(&shared->gen_lock);
		table->ended = 0;
	}
}

/* Which of them are the subtransaction's is not known: none counts, until the next flush. */
void
lsm_table_subxact_abort(void)
{
	for (int i = 0; i < npinned; i++)
		if (pinned_tables[i].table->ended_by == lsm_xact_number)
			pinned_tables[i].table->ended = 0;
}

/* Give up all pins; at the end of each top transaction. */
void
lsm_table_xact_end(void)
{
	for (int i = 0; i < npinned; i++)
	{
		if (!pinned_tables[i].named)
			lsm_table_release(pinned_tables[i].table->shared);
		lsm_stat_pend(&pinned_tables[i].table->stat);
	}
	npinned = 0;
	if (nnamed > 0)
		lsm_table_unname(0);
	lsm_xact_number++;
	lsm_views_xact_end();
}

/* Drop the indexes of a table whose lock is free; false: it is not, or there are none. */
static bool
lsm_table_drop_indexes(LsmTableShared *shared)
{
	bool		dropped = false;

	if (!LWLockConditionalAcquire(&shared->gen_lock, LW_EXCLUSIVE))
		return false;
	for (int i = 0; i < 2; i++)
	{
		if (shared->index[i].nchunks > 0)
		{
			lsm_table_change(shared);
			lsm_memindex_reset(&shared->index[i], LSM_INDEX_ABSENT, 0);
			lsm_table_changed(shared);
			dropped = true;
		}
	}
	LWLockRelease(&shared->gen_lock);
	return dropped;
}

/*
 * Free memory of the arena: drop the indexes of some other table whose lock is
 * free.  They are built again when that table is used next, which costs the less the smaller
 * they are: so of some tables, each time others, the one with the least memory goes.  False:
 * there is none.  Others look for memory, too, so what is free now may be gone.
 */
bool
lsm_table_make_room(LsmTableShared *keep)
{
	uint32		turn = lsm_memindex_arena_turn();
	uint32		rounds = lsm_memindex_arena_rounds(LSM_ROOM_SAMPLE);
	bool		dropped = false;

	/* no entry comes to be another table's meanwhile */
	LWLockAcquire(&lsm_shared->table_lock, LW_SHARED);
	for (uint32 round = 0; round < rounds && !dropped; round++)
	{
		LsmMemIndex *indexes[LSM_ROOM_SAMPLE];
		LsmTableShared *least = NULL;
		int			n = lsm_memindex_arena_sample(turn, round, indexes, LSM_ROOM_SAMPLE);

		for (int i = 0; i < n; i++)
		{
			LsmTableShared *shared = indexes[i]->owner;
			uint32		chunks = lsm_table_index_chunks(shared);

			if (shared != keep && chunks > 0 &&
				(least == NULL || chunks < lsm_table_index_chunks(least)))
				least = shared;
		}
		if (least == NULL)
			continue;
		dropped = lsm_table_drop_indexes(least);
		for (int i = 0; i < n && !dropped; i++)
			if (indexes[i]->owner != keep && indexes[i]->owner != least)
				dropped = lsm_table_drop_indexes(indexes[i]->owner);
	}
	LWLockRelease(&lsm_shared->table_lock);
	return dropped;
}

/*
 * Has the file gone, or been emptied, as DROP, TRUNCATE, rewrites, rolling back and the end of a
 * session leave it?
 */
static bool
lsm_table_is_dead(const LsmTableKey *key)
{
	char	   *path = lsm_compat_path(key->locator, key->backend);
	struct stat st;
	bool		dead = stat(path, &st) != 0 ? errno == ENOENT : st.st_size == 0;

	pfree(path);
	return dead;
}

/*
 * Drop the indexes of some tables that are no more, of those that nobody uses now: no end of a table
 * tells us, and nobody will come to them again.  (If one is in use after all, as its file has come
 * since, its indexes are built again.)
 */
static void
lsm_table_drop_dead(void)
{
	LsmMemIndex *indexes[LSM_ASK_SAMPLE];
	LsmTableKey keys[LSM_ASK_SAMPLE];
	int			nkeys = 0;
	int			n;

	LWLockAcquire(&lsm_shared->table_lock, LW_SHARED);
	n = lsm_memindex_arena_sample(lsm_memindex_arena_turn(), 0, indexes, LSM_ASK_SAMPLE);
	for (int i = 0; i < n; i++)
	{
		LsmTableShared *shared = indexes[i]->owner;

		/* an entry may have been thrown out meanwhile */
		if (pg_atomic_read_u32(&shared->pins) == 0 && lsm_table_index_chunks(shared) > 0 &&
			!lsm_process_any_uses(shared))
			keys[nkeys++] = shared->key;
	}
	LWLockRelease(&lsm_shared->table_lock);
	for (int i = 0; i < nkeys; i++)
	{
		LsmTableShared *shared;

		if (!lsm_table_is_dead(&keys[i]))
			continue;
		shared = lsm_table_lookup(keys[i].locator, keys[i].backend);
		if (shared == NULL)
			continue;
		(void) lsm_table_drop_indexes(shared);
		lsm_table_release(shared);
	}
}

/*
 * Memory for indexes is nearly used up, perhaps by tables none of which is near its own bound: ask
 * workers to flush one that has a good part of it, by chance, the more likely the more it has;
 * where all is used up, some, whatever they have.
 * (What is dropped must be built again, what is flushed must not.  The greatest may be one that
 * cannot be flushed now.)  At most some times a second, by all together.  Tables that are no more
 * give theirs first.
 */
void
lsm_table_ask_for_memory(void)
{
	uint64		now = (uint64) GetCurrentTimestamp();
	uint64		asked_at = pg_atomic_read_u64(&lsm_shared->asked_at);
	double		fill;
	int			most;
	LsmMemIndex *indexes[LSM_ASK_SAMPLE];
	Oid			dbids[LSM_ASK_SAMPLE];
	Oid			relids[LSM_ASK_SAMPLE];
	int			asked = 0;
	int			n;

	if ((now - asked_at < LSM_ASK_US && now >= asked_at) || RecoveryInProgress() ||
		!pg_atomic_compare_exchange_u64(&lsm_shared->asked_at, &asked_at, now))
		return;
	lsm_table_drop_dead();
	fill = lsm_memindex_arena_fill();
	if (fill <= 1 - 1.0 / LSM_ARENA_SHORT)
		return;
	most = fill >= LSM_ARENA_USED_UP ? LSM_ASK_MOST : 1;
	LWLockAcquire(&lsm_shared->table_lock, LW_SHARED);
	n = lsm_memindex_arena_sample(lsm_memindex_arena_turn(), 0, indexes, LSM_ASK_SAMPLE);
	for (int i = 0; i < n && asked < most; i++)
	{
		LsmTableShared *shared = indexes[i]->owner;

		/* nobody else can flush a temporary table; an entry may have been thrown out meanwhile */
		if (shared->key.backend != -1 || shared->flushing != 0 || !OidIsValid(shared->relid) ||
			lsm_table_index_chunks(shared) == 0 ||
			!lsm_memindex_is_much(fill, (double) lsm_table_index_chunks(shared) /
								  lsm_memindex_arena_chunks()))
			continue;
		dbids[asked] = LSM_LOCATOR_DB(shared->key.locator);
		relids[asked++] = shared->relid;
	}
	LWLockRelease(&lsm_shared->table_lock);
	for (int i = 0; i < asked; i++)
		lsm_worker_request_flush(dbids[i], relids[i]);
}

/*
 * The lock that stands in for heap's page lock for all that happens to one
 * row (I2).
 */
LWLock *
lsm_stripe_lock(LsmTable *table, LsmTid root)
{
	uint32		hash = murmurhash32(LSM_TID_LB(root) ^
									(LSM_LOCATOR_NUMBER(table->key.locator) * 0x9E3779B1) ^
									(LSM_TID_OFFSET(root) << 20));

	return &lsm_shared->stripes[hash % LSM_STRIPES].lock;
}
