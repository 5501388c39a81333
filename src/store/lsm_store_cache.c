/*-------------------------------------------------------------------------
 *
 * lsm_store_cache.c
 *	  What stores gave, kept on a local disk.
 *
 * Two files in a directory that neither base backups nor pg_rewind take with them.
 * One has the ranges, as records; it is divided into regions of 2 MB, which are
 * written from their beginning to their end and then left as they are, until all of a
 * region is given up at once to be written anew.  The other is an index, with a slot
 * for each record, of which shared memory has a copy.  (Bytes: FORMAT.md.)
 *
 * Regions wait in two queues to be given up, oldest first: that of scans as long as it
 * has more than an eighth of all regions, else that of what was read for single rows.
 * What was wanted again meanwhile is copied to a new region of the second kind, up to
 * half of the old region; the rest is gone.  So a scan of whatever length takes an
 * eighth from what is wanted for rows, and what it reads twice stays.
 *
 * TRUTH
 *	  Nothing here is synced, and whatever a crash, a full disk or a stranger has made
 *	  of the files is found out on use: a record is taken only if it has the name that
 *	  is asked for, and its own checksum is right.  Else it is forgotten.  (If a region
 *	  was given up while somebody read it, that is no damage.)  A slot is taken, when
 *	  the index is read after the start of the server, only if its checksum is right
 *	  and its number is that of the newest use of its region.
 *
 *	  Everything may fail.  Who cannot keep a range leaves it; if the disk is why, one
 *	  line goes to the log, and for a minute nobody tries.
 *
 * LOCKING
 *	  One LWLock: shared to look up and mark, exclusive for all else that is in shared
 *	  memory.  Files are read and written without it, but for the index after the
 *	  start.  Who writes has reserved its place, and counts as a writer of the region,
 *	  which keeps it from being given up; neither an error nor an interrupt is raised
 *	  meanwhile.  Who reads looks again whether the record is still there if it is not
 *	  right.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "common/hashfn.h"
#include "lsm_store_cache.h"
#include "lsm_store_impl.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

/* pg_basebackup and pg_rewind pass over what is called pgsql_tmp... */
#define LSM_KEPT_DIRECTORY		"base/pgsql_tmp_lsm_store_cache"
#define LSM_KEPT_DATA			LSM_KEPT_DIRECTORY "/data"
#define LSM_KEPT_INDEX			LSM_KEPT_DIRECTORY "/index"

#define LSM_KEPT_REGION_BYTES	(2 * 1024 * 1024)
#define LSM_KEPT_REGION_SLOTS	256

/* Regions that scans keep: one of so many. */
#define LSM_KEPT_SCAN_SHARE		8

/* So many regions are to be free: one to begin, one for what is copied meanwhile. */
#define LSM_KEPT_FREE			2

/* After a failure of the disk. */
#define LSM_KEPT_PAUSE_MS		(60 * 1000)

#define LSM_KEPT_NONE			PG_UINT32_MAX

/* ---- on disk (FORMAT.md) ---- */

#define LSM_KEPT_INDEX_MAGIC	0x49534B4C
#define LSM_KEPT_RECORD_MAGIC	0x52534B4C
#define LSM_KEPT_VERSION		1

typedef struct LsmKeptHeader
{
	uint32		magic;
	uint32		version;
	uint32		region_bytes;
	uint32		region_slots;
	uint32		crc;			/* crc32c of all before */
} LsmKeptHeader;

#define LSM_KEPT_HEADER_BYTES	4096	/* slots begin there */

typedef struct LsmKeptSlot
{
	uint64		hash;			/* of the name */
	uint64		use;			/* number of the region's use */
	uint32		pos;			/* in the region */
	uint32		bytes;			/* of the record */
	uint32		queue;
	uint32		crc;			/* crc32c of all before */
} LsmKeptSlot;

StaticAssertDecl(sizeof(LsmKeptSlot) == 32, "a slot has no padding");
StaticAssertDecl(sizeof(LsmKeptHeader) == 20, "the header has no padding");

#define LSM_KEPT_INDEX_BYTES	(LSM_KEPT_REGION_SLOTS * (int) sizeof(LsmKeptSlot))

/* A record: this, the name, the range. */
typedef struct LsmKeptRecord
{
	uint32		magic;
	uint32		crc;			/* crc32c of all behind it */
	uint32		name_bytes;
	uint32		bytes;			/* of the range */
} LsmKeptRecord;

StaticAssertDecl(sizeof(LsmKeptRecord) == 16, "the header of a record has no padding");

/* ---- in shared memory ---- */

typedef enum LsmKeptQueueName
{
	LSM_KEPT_SCAN,
	LSM_KEPT_POINT,
	LSM_KEPT_QUEUES
} LsmKeptQueueName;

/* A slot in use; those of a region are one after the other. */
typedef struct LsmKeptEntry
{
	uint64		hash;
	uint32		pos;
	uint32		bytes;			/* 0: there is no record */
	uint32		next_in_bucket;
	volatile uint8 marked;		/* set under the shared lock */
} LsmKeptEntry;

typedef struct LsmKeptRegion
{
	uint64		use;			/* uses are counted over all regions */
	uint32		used;			/* bytes, reserved ones included */
	uint32		next;			/* newer in its queue, or free */
	uint16		nslots;			/* the same */
	uint16		writers;
	uint8		queue;
} LsmKeptRegion;

typedef struct LsmKeptQueue
{
	uint32		oldest;
	uint32		newest;
	uint32		regions;
	uint32		open;			/* that is written to, not in the queue */
} LsmKeptQueue;

typedef struct LsmKeptShared
{
	pg_atomic_uint64 pause_until;	/* TimestampTz */
	pg_atomic_uint64 quiet_until;	/* the same, about damage */
	/* guarded by the lock */
	bool		loaded;
	bool		evicting;		/* somebody gives a region up */
	uint64		last_use;
	uint32		free;
	uint32		nfree;
	LsmKeptQueue queues[LSM_KEPT_QUEUES];
} LsmKeptShared;

int			lsm_store_cache_size = 0;

static LsmKeptShared *lsm_kept;
static LsmKeptRegion *lsm_kept_regions;
static LsmKeptEntry *lsm_kept_entries;
static uint32 *lsm_kept_buckets;
static LWLock *lsm_kept_lock;

/* The same in all processes, by the setting. */
static uint32 lsm_kept_nregions;
static uint32 lsm_kept_nbuckets;	/* a power of two */

/* Files of this process. */
static File lsm_kept_data = -1;
static File lsm_kept_index = -1;

/* ---- setting, shared memory ---- */

static bool
lsm_kept_check_size(int *newval, void **extra, GucSource source)
{
	if (*newval > 0 && *newval < LSM_LEAST_STORE_CACHE_KB)
	{
		GUC_check_errdetail("The cache of stores has no less than %d kB, or none with 0.",
							LSM_LEAST_STORE_CACHE_KB);
		return false;
	}
	return true;
}

void
lsm_store_cache_init(void)
{
	DefineCustomIntVariable("lsm.store_cache_size",
							"Sets the size of the local disk cache for what is read from stores.",
							"0 means none.",
							&lsm_store_cache_size, 0, 0, MAX_KILOBYTES,
							PGC_POSTMASTER, GUC_UNIT_KB, lsm_kept_check_size, NULL, NULL);
}

/* All files together are no larger than the setting. */
static void
lsm_kept_divide(void)
{
	lsm_kept_nregions = (uint32) (((uint64) lsm_store_cache_size * 1024 - LSM_KEPT_HEADER_BYTES) /
								  (LSM_KEPT_REGION_BYTES + LSM_KEPT_INDEX_BYTES));
	lsm_kept_nbuckets = pg_nextpower2_32(lsm_kept_nregions * (LSM_KEPT_REGION_SLOTS / 2));
}

static Size
lsm_kept_shmem_size(void)
{
	lsm_kept_divide();
	return MAXALIGN(sizeof(LsmKeptShared)) +
		MAXALIGN((Size) lsm_kept_nregions * sizeof(LsmKeptRegion)) +
		MAXALIGN((Size) lsm_kept_nregions * LSM_KEPT_REGION_SLOTS * sizeof(LsmKeptEntry)) +
		MAXALIGN((Size) lsm_kept_nbuckets * sizeof(uint32));
}

void
lsm_store_cache_shmem_request(void)
{
	if (lsm_store_cache_size == 0)
		return;
	RequestAddinShmemSpace(lsm_kept_shmem_size());
	RequestNamedLWLockTranche("lsm_store_cache", 1);
}

/* There is no cache any more: remove what is left of one. */
static void
lsm_kept_remove_files(void)
{
	static const char *const files[] = {LSM_KEPT_DATA, LSM_KEPT_INDEX};

	for (int i = 0; i < (int) lengthof(files); i++)
		if (unlink(files[i]) != 0 && errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", files[i])));
	(void) rmdir(LSM_KEPT_DIRECTORY);
}

void
lsm_store_cache_shmem_startup(void)
{
	bool		found;
	char	   *at;

	if (lsm_store_cache_size == 0)
	{
		if (!IsUnderPostmaster)
			lsm_kept_remove_files();
		return;
	}
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_kept = ShmemInitStruct("lsm store cache", lsm_kept_shmem_size(), &found);
	lsm_kept_lock = &GetNamedLWLockTranche("lsm_store_cache")->lock;
	at = (char *) lsm_kept + MAXALIGN(sizeof(LsmKeptShared));
	lsm_kept_regions = (LsmKeptRegion *) at;
	at += MAXALIGN((Size) lsm_kept_nregions * sizeof(LsmKeptRegion));
	lsm_kept_entries = (LsmKeptEntry *) at;
	at += MAXALIGN((Size) lsm_kept_nregions * LSM_KEPT_REGION_SLOTS * sizeof(LsmKeptEntry));
	lsm_kept_buckets = (uint32 *) at;
	if (!found)
	{
		memset(lsm_kept, 0, sizeof(LsmKeptShared));
		pg_atomic_init_u64(&lsm_kept->pause_until, 0);
		pg_atomic_init_u64(&lsm_kept->quiet_until, 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ---- failures ---- */

static bool
lsm_kept_pauses(void)
{
	return (uint64) GetCurrentTimestamp() < pg_atomic_read_u64(&lsm_kept->pause_until);
}

/* Has that time come?  Then it is put off, and only the first who asks is told so. */
static bool
lsm_kept_put_off(pg_atomic_uint64 *time)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		then = pg_atomic_read_u64(time);

	return (uint64) now >= then &&
		pg_atomic_compare_exchange_u64(time, &then,
									   (uint64) TimestampTzPlusMilliseconds(now,
																			LSM_KEPT_PAUSE_MS));
}

/* The disk has failed, and errno tells why. */
static void
lsm_kept_complain(const char *action, const char *path)
{
	int			saved = errno;

	if (!lsm_kept_put_off(&lsm_kept->pause_until))
		return;
	errno = saved;
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not %s file \"%s\" of the cache of stores: %m", action, path),
			 errdetail("Nothing more is kept for the next %d seconds.", LSM_KEPT_PAUSE_MS / 1000)));
}

static void
lsm_kept_complain_damage(uint32 region, uint32 pos)
{
	if (!lsm_kept_put_off(&lsm_kept->quiet_until))
		return;
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("damaged record at byte " UINT64_FORMAT " of file \"%s\" of the cache of stores",
					(uint64) region * LSM_KEPT_REGION_BYTES + pos, LSM_KEPT_DATA),
			 errdetail("What it had is read from its store again.")));
}

/* ---- files ---- */

static uint32
lsm_kept_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = lsm_compat_wait_event("LsmStoreCache");
	return event;
}

static off_t
lsm_kept_slot_offset(uint32 region, uint32 slot)
{
	return LSM_KEPT_HEADER_BYTES + (off_t) region * LSM_KEPT_INDEX_BYTES +
		(off_t) slot * sizeof(LsmKeptSlot);
}

static off_t
lsm_kept_record_offset(uint32 region, uint32 pos)
{
	return (off_t) region * LSM_KEPT_REGION_BYTES + pos;
}

/* All or nothing; errno tells why, 0: the file is too short. */
static bool
lsm_kept_pread(File file, void *buf, uint32 len, off_t offset)
{
	int			n = FileRead(file, buf, len, offset, lsm_kept_wait_event());

	if (n >= 0)
		errno = 0;
	return n == (int) len;
}

static bool
lsm_kept_pwrite(File file, const void *buf, uint32 len, off_t offset)
{
	int			n;

	errno = 0;
	n = FileWrite(file, (void *) buf, len, offset, lsm_kept_wait_event());
	if (n >= 0 && n < (int) len)
		errno = ENOSPC;
	return n == (int) len;
}

static uint32
lsm_kept_crc(const void *data, Size len)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data, len);
	FIN_CRC32C(crc);
	return crc;
}

static bool
lsm_kept_open_file(File *file, const char *path)
{
	if (*file < 0)
		*file = PathNameOpenFile(path, O_RDWR | O_CREAT | PG_BINARY);
	if (*file < 0)
		lsm_kept_complain("open", path);
	return *file >= 0;
}

/* False: they cannot be opened, and are not tried again for a while. */
static bool
lsm_kept_open_files(void)
{
	static TimestampTz retry_at = 0;

	if (lsm_kept_data >= 0 && lsm_kept_index >= 0)
		return true;
	(void) lsm_kept_wait_event();	/* to make it may raise an error */
	if (GetCurrentTimestamp() < retry_at)
		return false;
	if (MakePGDirectory(LSM_KEPT_DIRECTORY) != 0 && errno != EEXIST)
		lsm_kept_complain("create", LSM_KEPT_DIRECTORY);
	else if (lsm_kept_open_file(&lsm_kept_data, LSM_KEPT_DATA) &&
			 lsm_kept_open_file(&lsm_kept_index, LSM_KEPT_INDEX))
		return true;
	retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LSM_KEPT_PAUSE_MS);
	return false;
}

/* ---- entries; the lock is held ---- */

static uint32 *
lsm_kept_bucket(uint64 hash)
{
	return &lsm_kept_buckets[(uint32) hash & (lsm_kept_nbuckets - 1)];
}

static uint32
lsm_kept_find(uint64 hash)
{
	uint32		at = *lsm_kept_bucket(hash);

	while (at != LSM_KEPT_NONE && lsm_kept_entries[at].hash != hash)
		at = lsm_kept_entries[at].next_in_bucket;
	return at;
}

/* It comes before others of its hash, which are older. */
static void
lsm_kept_link(uint32 at)
{
	uint32	   *bucket = lsm_kept_bucket(lsm_kept_entries[at].hash);

	lsm_kept_entries[at].next_in_bucket = *bucket;
	*bucket = at;
}

static void
lsm_kept_drop(uint32 at)
{
	LsmKeptEntry *entry = &lsm_kept_entries[at];
	uint32	   *link = lsm_kept_bucket(entry->hash);

	while (*link != at)
		link = &lsm_kept_entries[*link].next_in_bucket;
	*link = entry->next_in_bucket;
	entry->bytes = 0;
}

static void
lsm_kept_push(uint32 number)
{
	LsmKeptRegion *region = &lsm_kept_regions[number];
	LsmKeptQueue *queue = &lsm_kept->queues[region->queue];

	region->next = LSM_KEPT_NONE;
	if (queue->newest == LSM_KEPT_NONE)
		queue->oldest = number;
	else
		lsm_kept_regions[queue->newest].next = number;
	queue->newest = number;
	queue->regions++;
}

static void
lsm_kept_push_free(uint32 number)
{
	LsmKeptRegion *region = &lsm_kept_regions[number];

	region->used = 0;
	region->nslots = 0;
	region->next = lsm_kept->free;
	lsm_kept->free = number;
	lsm_kept->nfree++;
}

/*
 * Reserve a place for a record in the open region of a queue, or open another one.
 * False: there is no room.
 */
static bool
lsm_kept_reserve(LsmKeptQueueName name, uint32 bytes, uint32 *number)
{
	LsmKeptQueue *queue = &lsm_kept->queues[name];
	LsmKeptRegion *region;

	if (queue->open != LSM_KEPT_NONE)
	{
		region = &lsm_kept_regions[queue->open];
		if (region->used + bytes > LSM_KEPT_REGION_BYTES ||
			region->nslots >= LSM_KEPT_REGION_SLOTS)
		{
			lsm_kept_push(queue->open);
			queue->open = LSM_KEPT_NONE;
		}
	}
	if (queue->open == LSM_KEPT_NONE)
	{
		if (lsm_kept->free == LSM_KEPT_NONE)
			return false;
		queue->open = lsm_kept->free;
		region = &lsm_kept_regions[queue->open];
		lsm_kept->free = region->next;
		lsm_kept->nfree--;
		region->use = ++lsm_kept->last_use;
		region->queue = name;
	}
	*number = queue->open;
	return true;
}

/* ---- the index after the start of the server ---- */

static void
lsm_kept_clear(void)
{
	LsmKeptQueue none = {LSM_KEPT_NONE, LSM_KEPT_NONE, 0, LSM_KEPT_NONE};

	memset(lsm_kept_regions, 0, lsm_kept_nregions * sizeof(LsmKeptRegion));
	memset(lsm_kept_entries, 0,
		   (Size) lsm_kept_nregions * LSM_KEPT_REGION_SLOTS * sizeof(LsmKeptEntry));
	memset(lsm_kept_buckets, 0xFF, (Size) lsm_kept_nbuckets * sizeof(uint32));
	lsm_kept->last_use = 0;
	lsm_kept->free = LSM_KEPT_NONE;
	lsm_kept->nfree = 0;
	for (int i = 0; i < LSM_KEPT_QUEUES; i++)
		lsm_kept->queues[i] = none;
}

static bool
lsm_kept_shorten(File file, off_t size)
{
	return FileSize(file) <= size || FileTruncate(file, size, lsm_kept_wait_event()) == 0;
}

/*
 * See that the files are of this version, and no larger than they may be; else begin
 * with empty ones.
 */
static bool
lsm_kept_prepare_files(void)
{
	LsmKeptHeader ours = {LSM_KEPT_INDEX_MAGIC, LSM_KEPT_VERSION, LSM_KEPT_REGION_BYTES,
	LSM_KEPT_REGION_SLOTS, 0};
	LsmKeptHeader found;

	ours.crc = lsm_kept_crc(&ours, offsetof(LsmKeptHeader, crc));
	if (lsm_kept_pread(lsm_kept_index, &found, sizeof(found), 0) &&
		memcmp(&found, &ours, sizeof(found)) == 0)
		return lsm_kept_shorten(lsm_kept_index, lsm_kept_slot_offset(lsm_kept_nregions, 0)) &&
			lsm_kept_shorten(lsm_kept_data, lsm_kept_record_offset(lsm_kept_nregions, 0));
	return lsm_kept_shorten(lsm_kept_index, 0) && lsm_kept_shorten(lsm_kept_data, 0) &&
		lsm_kept_pwrite(lsm_kept_index, &ours, sizeof(ours), 0);
}

static bool
lsm_kept_slot_good(const LsmKeptSlot *slot)
{
	return slot->crc == lsm_kept_crc(slot, offsetof(LsmKeptSlot, crc)) &&
		slot->use > 0 && slot->queue < LSM_KEPT_QUEUES &&
		slot->bytes > sizeof(LsmKeptRecord) && slot->bytes <= LSM_KEPT_REGION_BYTES &&
		slot->pos <= LSM_KEPT_REGION_BYTES - slot->bytes;
}

/* Take the slots of a region's newest use. */
static void
lsm_kept_load_region(uint32 number, const LsmKeptSlot *slots, int nslots)
{
	LsmKeptRegion *region = &lsm_kept_regions[number];
	LsmKeptEntry *entries = &lsm_kept_entries[(Size) number * LSM_KEPT_REGION_SLOTS];

	for (int i = 0; i < nslots; i++)
		if (lsm_kept_slot_good(&slots[i]) && slots[i].use > region->use)
		{
			region->use = slots[i].use;
			region->queue = slots[i].queue;
		}
	for (int i = 0; i < nslots; i++)
		if (lsm_kept_slot_good(&slots[i]) && slots[i].use == region->use)
		{
			entries[i].hash = slots[i].hash;
			entries[i].pos = slots[i].pos;
			entries[i].bytes = slots[i].bytes;
			region->nslots = i + 1;
		}
	lsm_kept->last_use = Max(lsm_kept->last_use, region->use);
}

static int
lsm_kept_compare_use(const void *a, const void *b)
{
	uint64		x = lsm_kept_regions[*(const uint32 *) a].use;
	uint64		y = lsm_kept_regions[*(const uint32 *) b].use;

	return x < y ? -1 : x > y;
}

/*
 * Put regions in their queues, and entries in their buckets, older ones first: of two
 * records of one name the newer is taken.  Free regions are used from the first on.
 */
static void
lsm_kept_load_order(uint32 *order)
{
	uint32		n = 0;

	for (uint32 i = lsm_kept_nregions; i-- > 0;)
		if (lsm_kept_regions[i].nslots > 0)
			order[n++] = i;
		else
			lsm_kept_push_free(i);
	qsort(order, n, sizeof(uint32), lsm_kept_compare_use);
	for (uint32 i = 0; i < n; i++)
	{
		uint32		first = order[i] * LSM_KEPT_REGION_SLOTS;

		for (uint32 at = first; at < first + lsm_kept_regions[order[i]].nslots; at++)
		{
			uint32		older;

			if (lsm_kept_entries[at].bytes == 0)
				continue;
			older = lsm_kept_find(lsm_kept_entries[at].hash);
			if (older != LSM_KEPT_NONE)
				lsm_kept_drop(older);
			lsm_kept_link(at);
		}
		lsm_kept_push(order[i]);
	}
}

/* Read the index; the lock is held exclusively. */
static bool
lsm_kept_load(LsmKeptSlot *slots, uint32 *order)
{
	lsm_kept_clear();
	if (!lsm_kept_prepare_files())
	{
		lsm_kept_complain("prepare", LSM_KEPT_INDEX);
		return false;
	}
	for (uint32 i = 0; i < lsm_kept_nregions; i++)
	{
		int			n = FileRead(lsm_kept_index, (char *) slots, LSM_KEPT_INDEX_BYTES,
								 lsm_kept_slot_offset(i, 0), lsm_kept_wait_event());

		if (n < 0)
			lsm_kept_complain("read", LSM_KEPT_INDEX);
		if (n <= 0)
			break;				/* the end; what cannot be read is lost */
		lsm_kept_load_region(i, slots, n / sizeof(LsmKeptSlot));
	}
	lsm_kept_load_order(order);
	return true;
}

/* Can the cache be used? */
static bool
lsm_kept_ready(void)
{
	static bool loaded = false;
	LsmKeptSlot *slots;
	uint32	   *order;

	if (lsm_kept == NULL || !lsm_kept_open_files())
		return false;
	if (loaded)
		return true;
	LWLockAcquire(lsm_kept_lock, LW_SHARED);
	loaded = lsm_kept->loaded;
	LWLockRelease(lsm_kept_lock);
	if (loaded || lsm_kept_pauses())
		return loaded;
	slots = palloc(LSM_KEPT_INDEX_BYTES);
	order = palloc_extended(lsm_kept_nregions * sizeof(uint32), MCXT_ALLOC_HUGE);
	LWLockAcquire(lsm_kept_lock, LW_EXCLUSIVE);
	if (!lsm_kept->loaded)
		lsm_kept->loaded = lsm_kept_load(slots, order);
	loaded = lsm_kept->loaded;
	LWLockRelease(lsm_kept_lock);
	pfree(order);
	pfree(slots);
	return loaded;
}

/* ---- records ---- */

/* What a range is called. */
typedef struct LsmKeptName
{
	char		text[LSM_STORE_MAX_KEY + 64];
	uint32		bytes;
	uint64		hash;
} LsmKeptName;

static void
lsm_kept_make_name(LsmKeptName *name, const LsmStoreRange *range)
{
	int			n = snprintf(name->text, sizeof(name->text), "%016llx %s " UINT64_FORMAT "+%u",
							 (unsigned long long) range->store, range->key, range->offset,
							 range->len);

	Assert(n > 0 && n < (int) sizeof(name->text));
	name->bytes = (uint32) n;
	name->hash = hash_bytes_extended((const unsigned char *) name->text, n, 0);
}

/* Is this a record of so many bytes, as it was written? */
static bool
lsm_kept_record_good(const char *bytes, uint32 len)
{
	const LsmKeptRecord *record = (const LsmKeptRecord *) bytes;
	uint32		covered = offsetof(LsmKeptRecord, name_bytes);

	return record->magic == LSM_KEPT_RECORD_MAGIC &&
		(uint64) sizeof(LsmKeptRecord) + record->name_bytes + record->bytes == len &&
		record->crc == lsm_kept_crc(bytes + covered, len - covered);
}

static bool
lsm_kept_record_is(const char *bytes, uint32 len, const LsmKeptName *name, uint32 range_bytes)
{
	const LsmKeptRecord *record = (const LsmKeptRecord *) bytes;

	return lsm_kept_record_good(bytes, len) && record->name_bytes == name->bytes &&
		record->bytes == range_bytes &&
		memcmp(bytes + sizeof(LsmKeptRecord), name->text, name->bytes) == 0;
}

/* The record of a range; NULL: there is no memory for it. */
static char *
lsm_kept_make_record(const LsmKeptName *name, const char *range, uint32 len)
{
	uint32		covered = offsetof(LsmKeptRecord, name_bytes);
	uint32		total = sizeof(LsmKeptRecord) + name->bytes + len;
	char	   *bytes = palloc_extended(total, MCXT_ALLOC_NO_OOM);
	LsmKeptRecord *record = (LsmKeptRecord *) bytes;

	if (bytes == NULL)
		return NULL;
	record->magic = LSM_KEPT_RECORD_MAGIC;
	record->name_bytes = name->bytes;
	record->bytes = len;
	memcpy(bytes + sizeof(LsmKeptRecord), name->text, name->bytes);
	memcpy(bytes + sizeof(LsmKeptRecord) + name->bytes, range, len);
	record->crc = lsm_kept_crc(bytes + covered, total - covered);
	return bytes;
}

/* ---- writing ---- */

/*
 * Write a record where there is room, and let it be found.  Interrupts are held off, so
 * nothing raises an error once a place is reserved.
 */
static void
lsm_kept_append(uint64 hash, const char *record, uint32 bytes, LsmKeptQueueName queue,
				bool again)
{
	LsmKeptSlot slot = {.hash = hash,.bytes = bytes,.queue = queue};
	LsmKeptRegion *region;
	LsmKeptEntry *entry;
	uint32		number;
	uint32		at;
	bool		written;

	LWLockAcquire(lsm_kept_lock, LW_EXCLUSIVE);
	if ((lsm_kept_find(hash) != LSM_KEPT_NONE) != again ||
		!lsm_kept_reserve(queue, bytes, &number))
	{
		LWLockRelease(lsm_kept_lock);
		return;
	}
	region = &lsm_kept_regions[number];
	slot.use = region->use;
	slot.pos = region->used;
	at = region->nslots;
	region->used += bytes;
	region->nslots++;
	region->writers++;
	LWLockRelease(lsm_kept_lock);

	slot.crc = lsm_kept_crc(&slot, offsetof(LsmKeptSlot, crc));
	written = lsm_kept_pwrite(lsm_kept_data, record, bytes,
							  lsm_kept_record_offset(number, slot.pos)) &&
		lsm_kept_pwrite(lsm_kept_index, &slot, sizeof(slot), lsm_kept_slot_offset(number, at));
	if (!written)
		lsm_kept_complain("write", LSM_KEPT_DATA);

	LWLockAcquire(lsm_kept_lock, LW_EXCLUSIVE);
	region->writers--;
	/* somebody else may have kept it, or found the old one wrong, meanwhile */
	if (written && (lsm_kept_find(hash) != LSM_KEPT_NONE) == again)
	{
		at += number * LSM_KEPT_REGION_SLOTS;
		entry = &lsm_kept_entries[at];
		entry->hash = hash;
		entry->pos = slot.pos;
		entry->bytes = bytes;
		entry->marked = 0;
		lsm_kept_link(at);
	}
	LWLockRelease(lsm_kept_lock);
}

/*
 * Take the region that is to be given up from its queue; NONE: none has to be, or somebody
 * does it, or it is still being written.
 */
static uint32
lsm_kept_choose_victim(void)
{
	LsmKeptQueue *queue = &lsm_kept->queues[LSM_KEPT_POINT];
	LsmKeptQueue *scan = &lsm_kept->queues[LSM_KEPT_SCAN];
	uint32		victim;

	if (lsm_kept->evicting || lsm_kept->nfree >= LSM_KEPT_FREE)
		return LSM_KEPT_NONE;
	if (queue->oldest == LSM_KEPT_NONE ||
		scan->regions > lsm_kept_nregions / LSM_KEPT_SCAN_SHARE)
		queue = scan;
	victim = queue->oldest;
	if (victim == LSM_KEPT_NONE || lsm_kept_regions[victim].writers > 0)
		return LSM_KEPT_NONE;
	queue->oldest = lsm_kept_regions[victim].next;
	if (queue->oldest == LSM_KEPT_NONE)
		queue->newest = LSM_KEPT_NONE;
	queue->regions--;
	lsm_kept->evicting = true;
	return victim;
}

/* Which entries of a region are worth copying?  Returns how many. */
static int
lsm_kept_choose_marked(uint32 victim, LsmKeptEntry *chosen)
{
	const LsmKeptEntry *entries = &lsm_kept_entries[(Size) victim * LSM_KEPT_REGION_SLOTS];
	uint32		bytes = 0;
	int			n = 0;

	for (int i = 0; i < lsm_kept_regions[victim].nslots; i++)
		if (entries[i].bytes > 0 && entries[i].marked &&
			bytes + entries[i].bytes <= LSM_KEPT_REGION_BYTES / 2)
		{
			bytes += entries[i].bytes;
			chosen[n++] = entries[i];
		}
	return n;
}

/* See that there are free regions.  As above, once a region is chosen. */
static void
lsm_kept_make_room(void)
{
	LsmKeptEntry *chosen = palloc(LSM_KEPT_REGION_SLOTS * sizeof(LsmKeptEntry));
	char	   *record = NULL;
	uint32		victim;
	uint32		first;
	int			n = 0;

	LWLockAcquire(lsm_kept_lock, LW_EXCLUSIVE);
	victim = lsm_kept_choose_victim();
	if (victim != LSM_KEPT_NONE)
		n = lsm_kept_choose_marked(victim, chosen);
	LWLockRelease(lsm_kept_lock);
	if (n > 0)
		record = palloc_extended(LSM_KEPT_REGION_BYTES / 2, MCXT_ALLOC_NO_OOM);
	for (int i = 0; i < n && record != NULL; i++)
		if (lsm_kept_pread(lsm_kept_data, record, chosen[i].bytes,
						   lsm_kept_record_offset(victim, chosen[i].pos)) &&
			lsm_kept_record_good(record, chosen[i].bytes))
			lsm_kept_append(chosen[i].hash, record, chosen[i].bytes, LSM_KEPT_POINT, true);
	if (record != NULL)
		pfree(record);
	pfree(chosen);
	if (victim == LSM_KEPT_NONE)
		return;

	LWLockAcquire(lsm_kept_lock, LW_EXCLUSIVE);
	first = victim * LSM_KEPT_REGION_SLOTS;
	for (uint32 at = first; at < first + lsm_kept_regions[victim].nslots; at++)
		if (lsm_kept_entries[at].bytes > 0)
			lsm_kept_drop(at);
	lsm_kept_push_free(victim);
	lsm_kept->evicting = false;
	LWLockRelease(lsm_kept_lock);
}

void
lsm_store_cache_put(const LsmStoreRange *range, const char *bytes, LsmStoreCacheUse use)
{
	LsmKeptName name;
	char	   *record;
	uint32		nfree;

	if (use == LSM_STORE_CACHE_PASS || !lsm_kept_ready() || lsm_kept_pauses())
		return;
	lsm_kept_make_name(&name, range);
	if (sizeof(LsmKeptRecord) + name.bytes + range->len > LSM_KEPT_REGION_BYTES / 2)
		return;
	LWLockAcquire(lsm_kept_lock, LW_SHARED);
	nfree = lsm_kept->nfree;
	LWLockRelease(lsm_kept_lock);
	record = lsm_kept_make_record(&name, bytes, range->len);
	if (record == NULL)
		return;
	/* a message to the log, of the server's own, would let them through */
	HOLD_INTERRUPTS();
	if (nfree < LSM_KEPT_FREE)
		lsm_kept_make_room();
	lsm_kept_append(name.hash, record, sizeof(LsmKeptRecord) + name.bytes + range->len,
					use == LSM_STORE_CACHE_POINT ? LSM_KEPT_POINT : LSM_KEPT_SCAN, false);
	RESUME_INTERRUPTS();
	pfree(record);
}

/* ---- reading ---- */

/*
 * A record was not right.  If it should have been there, it is forgotten, and the log
 * tells why.
 */
static void
lsm_kept_forget(uint32 at, const LsmKeptEntry *read, uint64 use)
{
	int			saved = errno;
	LsmKeptEntry *entry = &lsm_kept_entries[at];
	bool		same;

	LWLockAcquire(lsm_kept_lock, LW_EXCLUSIVE);
	same = entry->hash == read->hash && entry->pos == read->pos &&
		entry->bytes == read->bytes &&
		lsm_kept_regions[at / LSM_KEPT_REGION_SLOTS].use == use;
	if (same)
		lsm_kept_drop(at);
	LWLockRelease(lsm_kept_lock);
	errno = saved;
	if (same && saved != 0)
		lsm_kept_complain("read", LSM_KEPT_DATA);
	else if (same)
		lsm_kept_complain_damage(at / LSM_KEPT_REGION_SLOTS, read->pos);
}

static bool
lsm_kept_read(const LsmKeptName *name, const LsmStoreRange *range, char *buf)
{
	LsmKeptEntry entry;
	uint64		region_use;
	uint32		at;
	uint32		number;
	char	   *record;
	bool		good;

	LWLockAcquire(lsm_kept_lock, LW_SHARED);
	at = lsm_kept_find(name->hash);
	if (at == LSM_KEPT_NONE)
	{
		LWLockRelease(lsm_kept_lock);
		return false;
	}
	number = at / LSM_KEPT_REGION_SLOTS;
	if (!lsm_kept_entries[at].marked)
		lsm_kept_entries[at].marked = 1;
	entry = lsm_kept_entries[at];
	region_use = lsm_kept_regions[number].use;
	LWLockRelease(lsm_kept_lock);

	record = palloc(entry.bytes);
	good = lsm_kept_pread(lsm_kept_data, record, entry.bytes,
						  lsm_kept_record_offset(number, entry.pos)) &&
		lsm_kept_record_is(record, entry.bytes, name, range->len);
	if (good)
		memcpy(buf, record + entry.bytes - range->len, range->len);
	else
		lsm_kept_forget(at, &entry, region_use);
	pfree(record);
	return good;
}

bool
lsm_store_cache_get(const LsmStoreRange *range, char *buf, LsmStoreCacheUse use)
{
	LsmKeptName name;
	bool		hit;

	if (use == LSM_STORE_CACHE_PASS || !lsm_kept_ready())
		return false;
	lsm_kept_make_name(&name, range);
	hit = lsm_kept_read(&name, range, buf);
	lsm_store_stat_cache(range->serverid, hit, range->len);
	return hit;
}

bool
lsm_store_cache_has(const LsmStoreRange *range, LsmStoreCacheUse use)
{
	LsmKeptName name;
	uint32		at;

	if (use == LSM_STORE_CACHE_PASS || !lsm_kept_ready())
		return false;
	lsm_kept_make_name(&name, range);
	LWLockAcquire(lsm_kept_lock, LW_SHARED);
	at = lsm_kept_find(name.hash);
	LWLockRelease(lsm_kept_lock);
	return at != LSM_KEPT_NONE;
}
