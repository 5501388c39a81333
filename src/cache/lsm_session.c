/*-------------------------------------------------------------------------
 *
 * lsm_session.c
 *	  How much each session may keep in caches of its own.
 *
 * A session has two caches, of decoded blocks and of opened segments (bounds of others may take
 * an eighth of the room of the latter, beside it: lsm_segmentbounds.c).  What the
 * caches of all sessions may take together (lsm.session_cache_size) is divided evenly
 * among the sessions that have any; each gives up what is too much when it next
 * uses the cache.  So a few sessions have much, and many do not exhaust the machine.
 * One that is idle keeps what it has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_session.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

int			lsm_session_cache_size = 256 * 1024;

/* Sessions that have such caches. */
static pg_atomic_uint32 *lsm_sessions;

Size
lsm_session_shmem_size(void)
{
	return MAXALIGN(sizeof(pg_atomic_uint32));
}

/* The caller holds AddinShmemInitLock. */
void
lsm_session_shmem_startup(void)
{
	bool		found;

	lsm_sessions = ShmemInitStruct("lsm sessions", lsm_session_shmem_size(), &found);
	if (!found)
		pg_atomic_init_u32(lsm_sessions, 0);
}

static void
lsm_session_leave(int code, Datum arg)
{
	pg_atomic_fetch_sub_u32(lsm_sessions, 1);
}

static int
lsm_session_share_kb(void)
{
	static bool joined = false;

	if (!joined)
	{
		on_shmem_exit(lsm_session_leave, 0);
		pg_atomic_fetch_add_u32(lsm_sessions, 1);
		joined = true;
	}
	return Max(lsm_session_cache_size / (int) Max(pg_atomic_read_u32(lsm_sessions), 1),
			   LSM_SESSION_LEAST_KB);
}

static int
lsm_session_readers_kb(int share)
{
	return Min(share / 2, LSM_SESSION_READERS_KB);
}

Size
lsm_session_readers_limit(void)
{
	return (Size) lsm_session_readers_kb(lsm_session_share_kb()) * 1024;
}

Size
lsm_session_blocks_limit(void)
{
	int			share = lsm_session_share_kb();

	return (Size) (share - lsm_session_readers_kb(share)) * 1024;
}
