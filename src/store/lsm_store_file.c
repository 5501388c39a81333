/*-------------------------------------------------------------------------
 *
 * lsm_store_file.c
 *	  Stores of type file: a directory of the server's machine.
 *
 * An object is a file, DIRECTORY/PREFIX/KEY.  It is written under another name, which
 * no key can have as it has a tilde, made durable, and then linked to its own name:
 * so it appears as a whole or not at all, and never takes the place of another.  A
 * crash may leave files with a tilde behind, which lsm_store_clean() finds by what
 * follows it.
 *
 * The directory is made by whoever sets up the server; those below it are made here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_authid.h"
#include "common/file_perm.h"
#include "common/pg_prng.h"
#include "lib/ilist.h"
#include "lsm_stop.h"
#include "lsm_store_impl.h"
#include "miscadmin.h"
#include "port/pg_iovec.h"
#include "storage/fd.h"
#include "utils/acl.h"

/* One system call moves no more, so that interrupts are looked at in between. */
#define LSM_FILE_PIECE			(1024 * 1024)

/* Others may take away directories that have just been made, but not so often. */
#define LSM_FILE_CREATE_TIMES	20

/* What has not been written to for so long was left. */
#define LSM_FILE_LEFT_SECONDS	3600

/* ---- places ---- */

static char *
lsm_file_root(const LsmStore *store)
{
	if (store->options.prefix[0] == '\0')
		return pstrdup(store->options.directory);
	return psprintf("%s/%s", store->options.directory, store->options.prefix);
}

static char *
lsm_file_path(const LsmStore *store, const char *key)
{
	char	   *root = lsm_file_root(store);
	char	   *path = psprintf("%s/%s", root, key);

	pfree(root);
	return path;
}

/* The name of a file before it is an object. */
static char *
lsm_file_temporary(const char *path)
{
	return psprintf("%s~%d.%08x", path, MyProcPid, pg_prng_uint32(&pg_global_prng_state));
}

static bool
lsm_file_is_temporary(const char *name)
{
	const char *tilde = strrchr(name, '~');
	int			end = 0;

	return tilde != NULL && sscanf(tilde, "~%*d.%*8[0-9a-f]%n", &end) == 0 && end > 0 &&
		tilde[end] == '\0';
}

/*
 * Raise an error of the operating system, of which errno tells.
 */
pg_noreturn static void
lsm_file_raise(LsmStore *store, const char *action, const char *path)
{
	int			saved = errno;
	char	   *message = psprintf("could not %s file \"%s\" of store \"%s\"", action, path,
								   store->name);
	char	   *cause;

	errno = saved;
	cause = psprintf("%s: %m", message);
	lsm_store_stat_error(store->serverid, cause);
	errno = saved;
	ereport(ERROR,
			(errcode_for_file_access(),
			 errmsg("%s: %m", message),
			 saved == ENOSPC ? errhint("Make room in the directory of the store.") : 0));
}

/* (Who opens a store counts the error.) */
static void
lsm_file_check(LsmStore *store, Oid userid)
{
	const char *directory = store->options.directory;
	char		real[PATH_MAX];	/* what realpath() may write */
	char		data[PATH_MAX];

	if (!has_privs_of_role(userid, ROLE_PG_READ_SERVER_FILES) ||
		!has_privs_of_role(userid, ROLE_PG_WRITE_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to use store \"%s\"", store->name),
				 errdetail("Stores of type file are for members of \"pg_read_server_files\" and \"pg_write_server_files\".")));
	if (realpath(directory, real) == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not find file \"%s\" of store \"%s\": %m", directory, store->name)));
	if (realpath(DataDir, data) != NULL && path_is_prefix_of_path(data, real))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("directory \"%s\" of store \"%s\" is in the data directory", directory,
						store->name),
				 errhint("Choose another directory.")));
}

/* ---- writing ---- */

/*
 * Make the directories of a path below the store's own; lsm_file_sync_parents() makes them
 * durable.  False: one has gone meanwhile, if again.
 */
static bool
lsm_file_make_parents(LsmStore *store, char *path, bool again)
{
	char	   *slash = path + strlen(store->options.directory);

	while ((slash = strchr(slash + 1, '/')) != NULL)
	{
		bool		made;

		*slash = '\0';
		made = MakePGDirectory(path) == 0 || errno == EEXIST;
		if (!made && !(errno == ENOENT && again))
			lsm_file_raise(store, "create", path);
		*slash = '/';
		if (!made)
			return false;
	}
	return true;
}

/*
 * Make it durable what names a directory has.  A store that fails is no reason for a
 * PANIC, as it is with files of the server (fsync_fname()): who has put something will
 * not say that it is there.  gone: one that is no more names nothing.
 */
static void
lsm_file_sync_directory(LsmStore *store, const char *path, bool gone)
{
	int			fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	int			result;

	/* one that we must not read is not ours */
	if (fd < 0 && (errno == EACCES || (errno == ENOENT && gone)))
		return;
	if (fd < 0)
		lsm_file_raise(store, "open", path);
	pgstat_report_wait_start(lsm_store_wait_event());
	result = pg_fsync(fd);
	pgstat_report_wait_end();

	/* some file systems cannot do that with directories */
	if (result != 0 && errno != EBADF && errno != EINVAL)
		lsm_file_raise(store, "fsync", path);
	if (CloseTransientFile(fd) != 0)
		lsm_file_raise(store, "close", path);
}

/*
 * The same for the directories that a path lies in, from the store's own on: others may
 * have made them, and may have failed since.
 */
static void
lsm_file_sync_parents(LsmStore *store, const char *path)
{
	size_t		own = strlen(store->options.directory);
	char	   *parent = pstrdup(path);

	do
	{
		get_parent_directory(parent);
		lsm_file_sync_directory(store, parent, false);
	} while (strlen(parent) > own);
	pfree(parent);
}

static void
lsm_file_write(LsmStore *store, int fd, const char *path, const char *buffer, size_t len,
			   off_t offset)
{
	while (len > 0)
	{
		ssize_t		n;

		lsm_store_check();
		errno = 0;
		pgstat_report_wait_start(lsm_store_wait_event());
		n = pg_pwrite(fd, buffer, Min(len, LSM_FILE_PIECE), offset);
		pgstat_report_wait_end();
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (errno == 0)
				errno = ENOSPC;
			lsm_file_raise(store, "write", path);
		}
		buffer += n;
		offset += n;
		len -= n;
	}
}

/*
 * Make a new file, with its directories.  Those that are empty may go meanwhile
 * (lsm_file_remove_parents()); then all is made again.
 */
static int
lsm_file_create(LsmStore *store, char *path)
{
	for (int i = 1;; i++)
	{
		bool		again = i < LSM_FILE_CREATE_TIMES;
		int			fd;

		lsm_store_check();
		if (!lsm_file_make_parents(store, path, again))
			continue;
		LSM_STOP("store-made-parents");
		fd = OpenTransientFile(path, O_WRONLY | O_CREAT | O_EXCL | PG_BINARY);
		if (fd >= 0)
			return fd;
		if (errno != ENOENT || !again)
			lsm_file_raise(store, "create", path);
	}
}

/* Write all of a source to a new file, and make it durable. */
static void
lsm_file_fill(LsmStore *store, char *path, LsmStoreSource *source)
{
	int			fd = lsm_file_create(store, path);
	char	   *buffer = palloc(LSM_FILE_PIECE);
	off_t		offset = 0;
	size_t		len;
	int			result;

	do
	{
		len = lsm_store_source_fill(source, buffer, LSM_FILE_PIECE);
		lsm_file_write(store, fd, path, buffer, len, offset);
		offset += len;
	} while (len == LSM_FILE_PIECE);
	pfree(buffer);
	pgstat_report_wait_start(lsm_store_wait_event());
	result = pg_fsync(fd);
	pgstat_report_wait_end();
	if (result != 0)
		lsm_file_raise(store, "fsync", path);
	if (CloseTransientFile(fd) != 0)
		lsm_file_raise(store, "close", path);
}

/* Give the file its own name, unless there is one of that name. */
static void
lsm_file_publish(LsmStore *store, const char *temporary, const char *path)
{
	if (link(temporary, path) != 0)
	{
		struct stat st;

		/* Some file systems have no links. */
		if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
			lsm_file_raise(store, "create", path);
		if (lstat(path, &st) == 0)
		{
			errno = EEXIST;
			lsm_file_raise(store, "create", path);
		}
		if (rename(temporary, path) != 0)
			lsm_file_raise(store, "create", path);
	}
	else if (unlink(temporary) != 0)
		lsm_file_raise(store, "remove", temporary);
	LSM_STOP("store-before-sync");
	lsm_file_sync_parents(store, path);
}

static void
lsm_file_put(LsmStore *store, const char *key, LsmStoreSource *source)
{
	char	   *path = lsm_file_path(store, key);
	char	   *temporary = lsm_file_temporary(path);
	int64		start = lsm_store_clock_us();

	PG_TRY();
	{
		lsm_file_fill(store, temporary, source);
		LSM_STOP("store-before-visible");
		lsm_file_publish(store, temporary, path);
	}
	PG_CATCH();
	{
		unlink(temporary);
		PG_RE_THROW();
	}
	PG_END_TRY();
	lsm_store_stat_count(store->serverid, LSM_STORE_PUT, 0,
						 source->bytes + LSM_OBJECT_TRAILER_BYTES, lsm_store_clock_us() - start,
						 false);
	pfree(temporary);
	pfree(path);
}

/*
 * Remove the directories above a file that has gone, below the store's own and its prefix, that
 * have nothing in them any more.  Those of a table, a database, a token would stay for ever.  Who wants one of
 * them meanwhile makes it again (lsm_file_create()).
 */
static void
lsm_file_remove_parents(LsmStore *store, const char *path)
{
	char	   *root = lsm_file_root(store);
	char	   *parent = pstrdup(path);

	for (;;)
	{
		get_parent_directory(parent);
		if (strlen(parent) <= strlen(root) || rmdir(parent) != 0)
			break;
	}
	pfree(parent);
	pfree(root);
}

/* What cannot be removed is told when the others have been. */
static void
lsm_file_delete(LsmStore *store, const char *const *keys, int nkeys)
{
	char	   *failed = NULL;
	int			failed_errno = 0;

	for (int i = 0; i < nkeys; i++)
	{
		char	   *path = lsm_file_path(store, keys[i]);
		char	   *parent;
		int64		start = lsm_store_clock_us();

		lsm_store_check();
		if (unlink(path) == 0)
		{
			parent = pstrdup(path);
			get_parent_directory(parent);
			LSM_STOP("store-before-sync");
			lsm_file_sync_directory(store, parent, true);
			pfree(parent);
			lsm_file_remove_parents(store, path);
		}
		else if (errno != ENOENT && errno != ENOTDIR && failed == NULL)
		{
			failed_errno = errno;
			failed = pstrdup(path);
		}
		lsm_store_stat_count(store->serverid, LSM_STORE_DELETE, 0, 0,
							 lsm_store_clock_us() - start, false);
		pfree(path);
	}
	if (failed != NULL)
	{
		errno = failed_errno;
		lsm_file_raise(store, "remove", failed);
	}
}

/* ---- reading ---- */

/* Bytes of a file; a file that is too short is damage. */
static void
lsm_file_pread(LsmStore *store, int fd, const char *path, const char *key, char *buffer,
			   size_t len, off_t offset)
{
	while (len > 0)
	{
		ssize_t		n;

		lsm_store_check();
		pgstat_report_wait_start(lsm_store_wait_event());
		n = pg_pread(fd, buffer, Min(len, LSM_FILE_PIECE), offset);
		pgstat_report_wait_end();
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			lsm_file_raise(store, "read", path);
		if (n == 0)
		{
			LsmStoreError error = {.class = LSM_STORE_CORRUPT};

			snprintf(error.message, sizeof(error.message), "It ends at byte %lld.",
					 (long long) offset);
			lsm_store_raise(store, "read", key, &error);
		}
		buffer += n;
		offset += n;
		len -= n;
	}
}

/* False: there is no such file. */
static bool
lsm_file_open(LsmStore *store, const char *path, int *fd)
{
	*fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (*fd < 0 && errno != ENOENT && errno != ENOTDIR)
		lsm_file_raise(store, "open", path);
	return *fd >= 0;
}

static bool
lsm_file_tail(LsmStore *store, const char *key, LsmObjectTrailer *trailer, uint64 *object_bytes)
{
	char	   *path = lsm_file_path(store, key);
	int64		start = lsm_store_clock_us();
	struct stat st;
	int			fd;

	if (!lsm_file_open(store, path, &fd))
		return false;
	if (fstat(fd, &st) != 0)
		lsm_file_raise(store, "stat", path);
	*object_bytes = st.st_size;
	memset(trailer, 0, sizeof(*trailer));
	if (st.st_size >= LSM_OBJECT_TRAILER_BYTES)
		lsm_file_pread(store, fd, path, key, (char *) trailer, LSM_OBJECT_TRAILER_BYTES,
					   st.st_size - LSM_OBJECT_TRAILER_BYTES);
	CloseTransientFile(fd);
	lsm_store_stat_count(store->serverid, LSM_STORE_GET, LSM_OBJECT_TRAILER_BYTES, 0,
						 lsm_store_clock_us() - start, false);
	pfree(path);
	return true;
}

/* Reads are done one after the other, when each is asked for. */
typedef struct LsmFileRead
{
	slist_node	node;
	LsmStoreRead *read;
	char		key[FLEXIBLE_ARRAY_MEMBER];
} LsmFileRead;

typedef struct LsmFileReads
{
	slist_head	waiting;
} LsmFileReads;

static void
lsm_file_reads_begin(LsmStoreReads *reads)
{
	LsmFileReads *state = palloc(sizeof(LsmFileReads));

	slist_init(&state->waiting);
	reads->state = state;
}

static void
lsm_file_reads_add(LsmStoreReads *reads, LsmStoreRead *read)
{
	LsmFileReads *state = reads->state;
	LsmFileRead *waiting = palloc(offsetof(LsmFileRead, key) + strlen(read->key) + 1);

	waiting->read = read;
	memcpy(waiting->key, read->key, strlen(read->key) + 1);
	slist_push_head(&state->waiting, &waiting->node);
}

static LsmStoreRead *
lsm_file_reads_next(LsmStoreReads *reads, bool wait)
{
	LsmFileReads *state = reads->state;
	LsmStore   *store = reads->store;
	LsmFileRead *waiting;
	LsmStoreRead *read;
	char	   *path;
	int64		start = lsm_store_clock_us();
	int			fd;

	if (slist_is_empty(&state->waiting))
		return NULL;
	waiting = slist_container(LsmFileRead, node, slist_pop_head_node(&state->waiting));
	read = waiting->read;
	path = lsm_file_path(store, waiting->key);
	if (!lsm_file_open(store, path, &fd))
	{
		LsmStoreError error = {.class = LSM_STORE_NOT_FOUND};

		if (read->missing_ok)
		{
			read->missing = true;
			return read;
		}
		strlcpy(error.message, "It does not exist.", sizeof(error.message));
		lsm_store_raise(store, "read", waiting->key, &error);
	}
	lsm_file_pread(store, fd, path, waiting->key, read->buffer, read->len, read->offset);
	CloseTransientFile(fd);
	lsm_store_stat_count(store->serverid, LSM_STORE_GET, read->len, 0,
						 lsm_store_clock_us() - start, false);
	pfree(path);
	pfree(waiting);
	return read;
}

static void
lsm_file_reads_end(LsmStoreReads *reads)
{
	pfree(reads->state);
}

/* ---- listing ---- */

/* Directories that have been opened and not read to their end. */
typedef struct LsmFileLevel
{
	DIR		   *dir;
	char	   *path;
	char	   *key;			/* of the directory, with a slash; "" for the
								 * root */
} LsmFileLevel;

typedef struct LsmFileList
{
	LsmStore   *store;
	char	   *prefix;
	bool		temporary;		/* temporary files instead of objects */
	List	   *levels;			/* the innermost comes last */
	char	   *key;			/* of the last file */
} LsmFileList;

static void
lsm_file_list_enter(LsmFileList *list, char *path, char *key)
{
	DIR		   *dir = AllocateDir(path);
	LsmFileLevel *level;

	if (dir == NULL && errno != ENOENT)
		lsm_file_raise(list->store, "open", path);
	if (dir == NULL)
		return;
	level = palloc(sizeof(LsmFileLevel));
	level->dir = dir;
	level->path = path;
	level->key = key;
	list->levels = lappend(list->levels, level);
}

static void *
lsm_file_list_begin(LsmStore *store, const char *prefix)
{
	LsmFileList *list = palloc0(sizeof(LsmFileList));

	list->store = store;
	list->prefix = pstrdup(prefix);
	lsm_file_list_enter(list, lsm_file_root(store), pstrdup(""));
	lsm_store_stat_count(store->serverid, LSM_STORE_LIST, 0, 0, 0, false);
	return list;
}

static void
lsm_file_list_leave(LsmFileList *list)
{
	LsmFileLevel *level = llast(list->levels);

	FreeDir(level->dir);
	pfree(level->path);
	pfree(level->key);
	pfree(level);
	list->levels = list_delete_last(list->levels);
}

/* May it be one of the names that are of interest, or that of a directory? */
static bool
lsm_file_list_wants(const LsmFileList *list, const char *name)
{
	return lsm_store_key_valid(name) || (list->temporary && lsm_file_is_temporary(name));
}

static bool
lsm_file_list_next(void *state, LsmStoreListed *listed)
{
	LsmFileList *list = state;

	while (list->levels != NIL)
	{
		LsmFileLevel *level = llast(list->levels);
		struct dirent *entry;
		struct stat st;
		char	   *path;
		char	   *key;
		size_t		len;

		lsm_store_check();
		entry = ReadDir(level->dir, level->path);
		if (entry == NULL)
		{
			lsm_file_list_leave(list);
			continue;
		}
		/* no object of ours, nor a directory of theirs: lost+found, say */
		if (!lsm_file_list_wants(list, entry->d_name))
			continue;
		path = psprintf("%s/%s", level->path, entry->d_name);
		key = psprintf("%s%s", level->key, entry->d_name);
		len = Min(strlen(key), strlen(list->prefix));
		if (strncmp(key, list->prefix, len) != 0)
		{
			pfree(path);
			pfree(key);
		}
		else if (lstat(path, &st) != 0)
		{
			/* it has gone just now; but what cannot be looked at is not gone */
			if (errno != ENOENT)
				lsm_file_raise(list->store, "stat", path);
			pfree(path);
			pfree(key);
		}
		else if (S_ISDIR(st.st_mode))
		{
			char	   *inner = psprintf("%s/", key);

			pfree(key);
			lsm_file_list_enter(list, path, inner);
		}
		else if (S_ISREG(st.st_mode) && strlen(key) >= strlen(list->prefix) &&
				 lsm_file_is_temporary(entry->d_name) == list->temporary)
		{
			pfree(path);
			if (list->key != NULL)
				pfree(list->key);
			list->key = key;
			listed->key = key;
			listed->bytes = st.st_size;
			listed->modified = st.st_mtime;
			return true;
		}
		else
		{
			pfree(path);
			pfree(key);
		}
	}
	return false;
}

static void
lsm_file_list_end(void *state)
{
	LsmFileList *list = state;

	while (list->levels != NIL)
		lsm_file_list_leave(list);
	pfree(list->prefix);
	pfree(list);
}

/* Temporary files of puts that were broken off a while ago. */
static void
lsm_file_clean(LsmStore *store, const char *prefix)
{
	LsmFileList *list = lsm_file_list_begin(store, prefix);
	LsmStoreListed listed;

	list->temporary = true;
	while (lsm_file_list_next(list, &listed))
	{
		char	   *path;

		if (listed.modified + LSM_FILE_LEFT_SECONDS > (int64) time(NULL))
			continue;
		path = lsm_file_path(store, listed.key);
		if (unlink(path) == 0)
			ereport(LOG,
					(errmsg("removed file \"%s\" of store \"%s\", which a put had left",
							path, store->name)));
		else if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\" of store \"%s\": %m", path,
							store->name)));
		pfree(path);
	}
	lsm_file_list_end(list);
}

const LsmStoreOps lsm_store_file_ops = {
	.check = lsm_file_check,
	.put = lsm_file_put,
	.tail = lsm_file_tail,
	.delete = lsm_file_delete,
	.clean = lsm_file_clean,
	.reads_begin = lsm_file_reads_begin,
	.reads_add = lsm_file_reads_add,
	.reads_next = lsm_file_reads_next,
	.reads_end = lsm_file_reads_end,
	.list_begin = lsm_file_list_begin,
	.list_next = lsm_file_list_next,
	.list_end = lsm_file_list_end,
};
