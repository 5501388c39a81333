/*-------------------------------------------------------------------------
 *
 * lsm_cold_owner.c
 *	  Whose objects they are.
 *
 * A copy of a cluster has the manifests of the original, and reads its objects.
 * Neither may delete what the other needs, and neither can ask.  So each data
 * directory has a token of its own, which is part of the keys of all that it puts;
 * what it finds under other tokens it reads, and never deletes.  That the original
 * does not delete it either is what claims are for (lsm_cold_claims.c).
 *
 * The token is in a file of the data directory, lsm.owner, with what tells that
 * this is the directory for which it was made: system identifier, timeline, and
 * inode and time of birth of PG_VERSION, a file that is written once, and of which
 * no copy has the same (where the file system knows no birth, the time of change; but that
 * changes with owner and rights, too).  Where that does not fit there is a new token: after
 * promotion, point-in-time recovery, restoring a backup, pg_rewind, pg_upgrade, and
 * where the directory is only moved, to another file system.  Then what was put before stays for ever,
 * which costs space and loses nothing.  (A clone of the block device cannot be
 * told from the original; README says what to do.)
 *
 * A database that is a template for another one is copied as well.  So the token of a
 * database is made of that of the directory and of how often it has been copied:
 * the file has a line for each such database, written when it has been copied, and before
 * anybody can connect to it again.
 *
 * The file is read once after the server's start; then shared memory has it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "lsm_cold.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#define LSM_OWNER_FILE			"lsm.owner"
#define LSM_OWNER_TEMPORARY		"lsm.owner.new"

/* Databases that have been copied; more are taken together. */
#define LSM_OWNER_COPIED		1000

/* A database that has been copied more often is not found to be its directory's. */
#define LSM_OWNER_MOST_TIMES	100000

typedef struct LsmOwnerCopied
{
	Oid			database;		/* InvalidOid: all that have no place */
	uint32		times;
} LsmOwnerCopied;

/* What the file says; guarded by the lock. */
typedef struct LsmOwner
{
	bool		known;
	uint64		token;
	int			ncopied;
	LsmOwnerCopied copied[LSM_OWNER_COPIED];
} LsmOwner;

static LsmOwner *lsm_owner;
static LWLock *lsm_owner_lock;

void
lsm_cold_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(LsmOwner)));
	RequestNamedLWLockTranche("lsm_cold_owner", 1);
}

void
lsm_cold_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_owner = ShmemInitStruct("lsm cold owner", sizeof(LsmOwner), &found);
	if (!found)
		memset(lsm_owner, 0, sizeof(LsmOwner));
	lsm_owner_lock = &GetNamedLWLockTranche("lsm_cold_owner")->lock;
	LWLockRelease(AddinShmemInitLock);
}

/*
 * The first line of the file, as it is written now, or as it was by versions that did not look at
 * births, and is where there is none.
 */
static char *
lsm_owner_place(bool births)
{
	struct statx st;
	bool		born;

	if (statx(AT_FDCWD, "PG_VERSION", 0, STATX_INO | STATX_CTIME | STATX_BTIME, &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", "PG_VERSION")));
	born = births && (st.stx_mask & STATX_BTIME) != 0;
	return psprintf("system " UINT64_FORMAT " timeline %u inode %llu %s %lld.%09ld",
					GetSystemIdentifier(), GetWALInsertionTimeLine(),
					(unsigned long long) st.stx_ino, born ? "born" : "changed",
					(long long) (born ? st.stx_btime.tv_sec : st.stx_ctime.tv_sec),
					(long) (born ? st.stx_btime.tv_nsec : st.stx_ctime.tv_nsec));
}

/*
 * Read the file; false: there is none, or it is not this directory's.  The token that it has is
 * *token then as well; 0: none.
 */
static bool
lsm_owner_read(const char *place, uint64 *token)
{
	FILE	   *file = AllocateFile(LSM_OWNER_FILE, "r");
	char		line[256];
	unsigned long long found = 0;
	Oid			database;
	uint32		times;
	bool		ours;
	bool		good;

	*token = 0;
	if (file == NULL && errno == ENOENT)
		return false;
	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", LSM_OWNER_FILE)));
	good = fgets(line, sizeof(line), file) != NULL;
	ours = good && strlen(line) == strlen(place) + 1 && strncmp(line, place, strlen(place)) == 0;
	good = good && fgets(line, sizeof(line), file) != NULL &&
		sscanf(line, "token %llx", &found) == 1;
	lsm_owner->ncopied = 0;
	while (good && fgets(line, sizeof(line), file) != NULL &&
		   lsm_owner->ncopied < LSM_OWNER_COPIED)
	{
		good = sscanf(line, "copied %u times %u", &database, &times) == 2;
		lsm_owner->copied[lsm_owner->ncopied].database = database;
		lsm_owner->copied[lsm_owner->ncopied++].times = times;
	}
	if (ferror(file))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", LSM_OWNER_FILE)));
	FreeFile(file);
	*token = found;
	return good && ours;
}

/* Write the file anew, durably. */
static void
lsm_owner_write(const char *place)
{
	StringInfoData text;
	int			fd;

	initStringInfo(&text);
	appendStringInfo(&text, "%s\ntoken %016llx\n", place, (unsigned long long) lsm_owner->token);
	for (int i = 0; i < lsm_owner->ncopied; i++)
		appendStringInfo(&text, "copied %u times %u\n", lsm_owner->copied[i].database,
						 lsm_owner->copied[i].times);
	fd = OpenTransientFile(LSM_OWNER_TEMPORARY, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	if (fd < 0 || write(fd, text.data, text.len) != text.len)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", LSM_OWNER_TEMPORARY)));
	CloseTransientFile(fd);
	(void) durable_rename(LSM_OWNER_TEMPORARY, LSM_OWNER_FILE, ERROR);
	pfree(text.data);
}

/* See that shared memory has what the file says; the lock is held exclusively. */
static void
lsm_owner_load(void)
{
	char	   *place;
	char	   *older;
	uint64		token;

	if (lsm_owner->known)
		return;
	place = lsm_owner_place(true);
	older = lsm_owner_place(false);
	if (lsm_owner_read(place, &token))
		lsm_owner->token = token;
	else if (lsm_owner_read(older, &token))
	{
		lsm_owner->token = token;
		lsm_owner_write(place);
	}
	else
	{
		lsm_owner->ncopied = 0;
		if (!pg_strong_random(&lsm_owner->token, sizeof(lsm_owner->token)))
			elog(ERROR, "could not get random numbers");
		lsm_owner_write(place);
		if (token != 0)
			ereport(LOG,
					(errmsg("file \"%s\" was made for another data directory, or before promotion",
							LSM_OWNER_FILE),
					 errdetail("What has been put into stores under token %016llx is not deleted by this server; it goes on under token %016llx.",
							   (unsigned long long) token, (unsigned long long) lsm_owner->token),
					 errhint("If the other data directory is no more, call lsm_store_adopt().")));
	}
	lsm_owner->known = true;
	pfree(place);
	pfree(older);
}

static LsmOwnerCopied *
lsm_owner_find(Oid database)
{
	for (int i = 0; i < lsm_owner->ncopied; i++)
		if (lsm_owner->copied[i].database == database)
			return &lsm_owner->copied[i];
	return NULL;
}

uint64
lsm_cold_owner_of(Oid database)
{
	LsmOwnerCopied *copied;
	LsmOwnerCopied *others;
	uint64		token;

	Assert(!RecoveryInProgress());
	LWLockAcquire(lsm_owner_lock, LW_EXCLUSIVE);
	lsm_owner_load();
	token = lsm_owner->token;
	copied = lsm_owner_find(database);
	others = lsm_owner_find(InvalidOid);
	if (copied != NULL)
		token = hash_combine64(token, copied->times);
	if (others != NULL)
		token = hash_combine64(token, (uint64) others->times << 32);
	LWLockRelease(lsm_owner_lock);
	return token;
}

bool
lsm_cold_is_owner_of(uint64 directory, uint64 token)
{
	for (uint32 times = 1; times <= LSM_OWNER_MOST_TIMES && directory != token; times++)
		if (hash_combine64(directory, times) == token)
			return true;
	return directory == token;
}

uint64
lsm_cold_directory(void)
{
	uint64		token;

	Assert(!RecoveryInProgress());
	LWLockAcquire(lsm_owner_lock, LW_EXCLUSIVE);
	lsm_owner_load();
	token = lsm_owner->token;
	LWLockRelease(lsm_owner_lock);
	return token;
}

/*
 * Race: whoever puts or deletes objects of that database is connected to it, which nobody is
 * from before CREATE DATABASE copies it until it commits: so what the copy names has all been
 * put under the old token, and nobody goes on with that.  (A new token before the copying does
 * not do: who is connected then may put something under it before he leaves, for which the
 * server waits some seconds.)  After an adoption somebody may, for one put: what it puts is younger than the
 * adoption, which leaves it alone, and is claimed by the next sweep.
 */
void
lsm_cold_owner_copied(Oid database)
{
	LsmOwnerCopied *copied;
	char	   *place;

	LWLockAcquire(lsm_owner_lock, LW_EXCLUSIVE);
	lsm_owner_load();
	copied = lsm_owner_find(database);
	if (copied == NULL && lsm_owner->ncopied >= LSM_OWNER_COPIED - 1)
		copied = lsm_owner_find(InvalidOid);
	if (copied == NULL)
	{
		copied = &lsm_owner->copied[lsm_owner->ncopied];
		copied->database = lsm_owner->ncopied < LSM_OWNER_COPIED - 1 ? database : InvalidOid;
		copied->times = 0;
		lsm_owner->ncopied++;
	}
	copied->times++;
	lsm_owner->known = false;	/* until it is written */
	place = lsm_owner_place(true);
	lsm_owner_write(place);
	lsm_owner->known = true;
	pfree(place);
	LWLockRelease(lsm_owner_lock);
}
