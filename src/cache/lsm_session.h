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

/* What a session may have of it, in kB: the least, and the most. */
#define LSM_SESSION_LEAST_KB	(4 * 1024)
#define LSM_SESSION_MOST_KB		(64 * 1024)

extern Size lsm_session_shmem_size(void);
extern void lsm_session_shmem_startup(void);

/* Bytes that a cache of this session may have.  From the first call on the session counts. */
extern Size lsm_session_cache_limit(void);

#endif							/* LSM_SESSION_H */
