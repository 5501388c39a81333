/*-------------------------------------------------------------------------
 *
 * lsm_session.c
 *	  How much each session may keep in caches of its own.
 *
 * A session has two caches, of decoded blocks and of opened segments.  What the
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

#define LSM_SESSION_CACHES		2

int			lsm_session_cache_size = 512 * 1024;

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

Size
lsm_session_cache_limit(void)
{
	static bool joined = false;
	int			share;

	if (!joined)
	{
		on_shmem_exit(lsm_session_leave, 0);
		pg_atomic_fetch_add_u32(lsm_sessions, 1);
		joined = true;
	}
	share = lsm_session_cache_size / (int) Max(pg_atomic_read_u32(lsm_sessions), 1);
	share = Min(Max(share, LSM_SESSION_LEAST_KB), LSM_SESSION_MOST_KB);
	return (Size) share * 1024 / LSM_SESSION_CACHES;
}
