/*-------------------------------------------------------------------------
 *
 * lsm_session.h
 *	  How much each session may keep in caches of its own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SESSION_H
#define LSM_SESSION_H

extern int	lsm_session_cache_size; /* kB */

/* What a session may have of it, at least, and of that for opened segments, at most (kB). */
#define LSM_SESSION_LEAST_KB	(4 * 1024)
#define LSM_SESSION_READERS_KB	(32 * 1024)

extern Size lsm_session_shmem_size(void);
extern void lsm_session_shmem_startup(void);

/*
 * Bytes that this session may keep of opened segments, and of decoded blocks.  From the first
 * call on the session counts.
 */
extern Size lsm_session_readers_limit(void);
extern Size lsm_session_blocks_limit(void);

#endif							/* LSM_SESSION_H */
