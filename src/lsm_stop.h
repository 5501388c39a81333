/*-------------------------------------------------------------------------
 *
 * lsm_stop.h
 *	  Stop points: places where a test makes the engine wait, fail or crash.
 *
 * LSM_STOP("name") does nothing unless lsm.debug_stop names the point.  It
 * must not stand in a critical section, nor where an LWLock is held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STOP_H
#define LSM_STOP_H

extern char *lsm_debug_stop;

/* What a process that hangs calls now and then, as a long job does; or NULL. */
extern void (*lsm_stop_idle) (void);

#define LSM_STOP(name) \
	do { \
		if (unlikely(lsm_debug_stop != NULL && lsm_debug_stop[0] != '\0')) \
			lsm_stop(name); \
	} while (0)

extern void lsm_stop(const char *name);
extern bool lsm_stop_check(char **newval, void **extra, int source);

#endif							/* LSM_STOP_H */
