/*-------------------------------------------------------------------------
 *
 * lsm_cold.c
 *	  Segments whose blocks lie in an object of a store: where that is, and
 *	  reading it.
 *
 * A manifest entry names its server by a hash of the name: OIDs of servers do not
 * outlive pg_upgrade.  A server cannot be renamed while a table depends on it
 * (lsm_cold_ddl.c).
 *
 * Stores are opened with the rights of the table's owner, whoever reads.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_foreign_server.h"
#include "common/hashfn.h"
#include "foreign/foreign.h"
#include "lsm_cold.h"
#include "lsm_options.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/syscache.h"

int			lsm_cold_segment_size = 64 * 1024;
int			lsm_store_read_size = 4 * 1024;

/* ---- servers ---- */

uint64
lsm_cold_name_hash(const char *name)
{
	return hash_bytes_extended((const unsigned char *) name, strlen(name), 0);
}

/* The server that was found last. */
static uint64 lsm_cold_found_hash;
static Oid	lsm_cold_found = InvalidOid;

static void
lsm_cold_invalidate(Datum arg, int cacheid, uint32 hashvalue)
{
	lsm_cold_found = InvalidOid;
}

Oid
lsm_cold_find_server(uint64 hash)
{
	static bool registered = false;
	Relation	catalog;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			found = InvalidOid;

	if (OidIsValid(lsm_cold_found) && lsm_cold_found_hash == hash)
		return lsm_cold_found;
	if (!registered)
	{
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, lsm_cold_invalidate, (Datum) 0);
		registered = true;
	}
	catalog = table_open(ForeignServerRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tuple);

		if (lsm_cold_name_hash(NameStr(form->srvname)) == hash)
			found = form->oid;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	lsm_cold_found = found;
	lsm_cold_found_hash = hash;
	return found;
}

char *
lsm_cold_server_name(const LsmColdObject *object)
{
	Oid			serverid = lsm_cold_find_server(object->server);

	if (!OidIsValid(serverid))
		return psprintf("server %016llX, which does not exist",
						(unsigned long long) object->server);
	return pstrdup(GetForeignServer(serverid)->servername);
}

Oid
lsm_cold_attached(Relation rel)
{
	LsmTableOptions options;

	lsm_options_get(rel, &options);
	if (options.cold_store[0] == '\0' ||
		rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		return InvalidOid;
	return get_foreign_server_oid(options.cold_store, true);
}

bool
lsm_cold_depends(Oid relid, Oid serverid)
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, DependDependerIndexId, true, NULL, 2, keys);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->refclassid == ForeignServerRelationId && form->refobjid == serverid &&
			!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
			found = true;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* No server has that OID, nor sub-objects. */
#define LSM_COLD_LOCK_SUBID		0xF000

/* Two for puts, and one for sweeps. */
#define LSM_COLD_PUT_LOCKS		2
#define LSM_COLD_SWEEP_LOCK		LSM_COLD_PUT_LOCKS

/* The one that our put has. */
static int	lsm_cold_put_lock;

static bool
lsm_cold_lock(int number, LOCKMODE mode, bool wait)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ForeignServerRelationId, InvalidOid,
					   LSM_COLD_LOCK_SUBID + number);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

static void
lsm_cold_unlock(int number, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ForeignServerRelationId, InvalidOid,
					   LSM_COLD_LOCK_SUBID + number);
	(void) LockRelease(&tag, mode, false);
}

/*
 * There is one sweep at a time, which waits for one of the two locks at a time: so the
 * other one can be had, or can be in a moment.
 */
void
lsm_cold_put_begin(void)
{
	lsm_cold_put_lock = 0;
	while (!lsm_cold_lock(lsm_cold_put_lock, RowExclusiveLock, false))
	{
		CHECK_FOR_INTERRUPTS();
		lsm_cold_put_lock = (lsm_cold_put_lock + 1) % LSM_COLD_PUT_LOCKS;
	}
}

void
lsm_cold_put_end(void)
{
	lsm_cold_unlock(lsm_cold_put_lock, RowExclusiveLock);
}

bool
lsm_cold_sweep_begin(bool wait)
{
	return lsm_cold_lock(LSM_COLD_SWEEP_LOCK, ShareUpdateExclusiveLock, wait);
}

/*
 * Who waits for a lock is let in before others that come later; these take the other lock.
 * So this waits for a put or two, however many come (as grace periods of SRCU do).
 */
void
lsm_cold_wait_for_puts(void)
{
	for (int i = 0; i < LSM_COLD_PUT_LOCKS; i++)
	{
		(void) lsm_cold_lock(i, ExclusiveLock, true);
		lsm_cold_unlock(i, ExclusiveLock);
	}
}

/* ---- objects ---- */

void
lsm_cold_key(const LsmManifestEntry *entry, char *key)
{
	const LsmColdObject *object = lsm_entry_object(entry);

	snprintf(key, LSM_COLD_KEY_BYTES, UINT64_FORMAT "/%016llx/%u/%016llx/%016llx-%016llx",
			 object->system, (unsigned long long) object->owner, object->database,
			 (unsigned long long) object->incarnation, (unsigned long long) entry->uid,
			 (unsigned long long) object->random);
}

void
lsm_cold_own_prefix(char *prefix)
{
	snprintf(prefix, LSM_COLD_KEY_BYTES, UINT64_FORMAT "/%016llx/%u/", GetSystemIdentifier(),
			 (unsigned long long) lsm_cold_owner(), MyDatabaseId);
}

LsmStore *
lsm_cold_open(Relation rel, const LsmManifestEntry *entry)
{
	Oid			serverid = lsm_cold_find_server(lsm_entry_object(entry)->server);

	if (!OidIsValid(serverid))
	{
		lsm_store_failures++;
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the store of segment " UINT64_FORMAT " of table \"%s\" does not exist",
						entry->segment_id, RelationGetRelationName(rel)),
				 errhint("Create the server again, with the name and the options that it had.")));
	}
	return lsm_store_open(serverid, rel->rd_rel->relowner);
}

bool
lsm_cold_read(Relation rel, const LsmManifestEntry *entry, uint64 offset, Size len, char *buf)
{
	char		key[LSM_COLD_KEY_BYTES];

	Assert(lsm_entry_is_cold(entry));
	Assert(offset + len <= lsm_entry_object(entry)->bytes);
	Assert(!lsm_cold_held_off());
	lsm_cold_key(entry, key);
	return lsm_store_read_if_exists(lsm_cold_open(rel, entry), key, offset, len, buf);
}

/* ---- the disk cache ---- */

/* What is kept of an object goes by its store as the entry names it, and its key. */
static void
lsm_cold_range(const LsmManifestEntry *entry, uint64 offset, uint32 len, char *key,
			   LsmStoreRange *range)
{
	lsm_cold_key(entry, key);
	range->serverid = InvalidOid;
	range->store = lsm_entry_object(entry)->server;
	range->key = key;
	range->offset = offset;
	range->len = len;
}

/* The owner needs USAGE of the store for what it has given, too. */
bool
lsm_cold_cache_get(Relation rel, const LsmManifestEntry *entry, uint64 offset, uint32 len,
				   char *buf, LsmStoreCacheUse use)
{
	char		key[LSM_COLD_KEY_BYTES];
	LsmStoreRange range;

	if (lsm_store_cache_size == 0)
		return false;
	lsm_cold_range(entry, offset, len, key, &range);
	range.serverid = lsm_cold_find_server(range.store);
	return OidIsValid(range.serverid) &&
		lsm_compat_server_usage(range.serverid, rel->rd_rel->relowner) == ACLCHECK_OK &&
		lsm_store_cache_get(&range, buf, use);
}

bool
lsm_cold_cache_has(const LsmManifestEntry *entry, uint64 offset, uint32 len,
				   LsmStoreCacheUse use)
{
	char		key[LSM_COLD_KEY_BYTES];
	LsmStoreRange range;

	if (lsm_store_cache_size == 0)
		return false;
	lsm_cold_range(entry, offset, len, key, &range);
	return lsm_store_cache_has(&range, use);
}

void
lsm_cold_cache_put(const LsmManifestEntry *entry, uint64 offset, uint32 len, const char *bytes,
				   LsmStoreCacheUse use)
{
	char		key[LSM_COLD_KEY_BYTES];
	LsmStoreRange range;

	if (lsm_store_cache_size == 0)
		return;
	lsm_cold_range(entry, offset, len, key, &range);
	lsm_store_cache_put(&range, bytes, use);
}

void
lsm_cold_raise_missing(const LsmManifestEntry *entry)
{
	char		key[LSM_COLD_KEY_BYTES];

	lsm_cold_key(entry, key);
	lsm_store_failures++;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FILE),
			 errmsg("could not read object \"%s\" of store \"%s\"", key,
					lsm_cold_server_name(lsm_entry_object(entry))),
			 errdetail("It does not exist."),
			 errhint("Restore the object from a copy of the store.")));
}

void
lsm_cold_raise_damaged(Relation rel, const LsmManifestEntry *entry, uint32 blockno)
{
	char		key[LSM_COLD_KEY_BYTES];

	lsm_cold_key(entry, key);
	lsm_store_failures++;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("invalid block %u in object \"%s\" of store \"%s\"", blockno, key,
					lsm_cold_server_name(lsm_entry_object(entry))),
			 errdetail("Its checksum is not the one that segment " UINT64_FORMAT " of table \"%s\" has.",
					   entry->segment_id, RelationGetRelationName(rel)),
			 errhint("Restore the object from a copy of the store.")));
}

void
lsm_cold_raise_damaged_value(Relation rel, const LsmManifestEntry *entry, uint64 offset)
{
	char		key[LSM_COLD_KEY_BYTES];

	lsm_cold_key(entry, key);
	lsm_store_failures++;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("invalid large value at byte " UINT64_FORMAT " of object \"%s\" of store \"%s\"",
					offset, key, lsm_cold_server_name(lsm_entry_object(entry))),
			 errdetail("Its checksum is not the one that segment " UINT64_FORMAT " of table \"%s\" has.",
					   entry->segment_id, RelationGetRelationName(rel)),
			 errhint("Restore the object from a copy of the store.")));
}
