/*-------------------------------------------------------------------------
 *
 * lsm_stop.c
 *	  Stop points for tests (see lsm_stop.h).
 *
 * lsm.debug_stop is a list such as 'flush-before-swap:crash,minor-start:wait'.
 * error raises an ERROR, full that of a full disk, crash ends the backend as a crash would (so that the
 * whole server restarts), wait takes and releases an advisory lock that a test
 * holds with pg_advisory_lock(LSM_STOP_KEY): the isolation tester can see that.
 * hang stays until the process is told to give up what it does, or to end: so
 * a background worker can be held without a session in its database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "lsm_compat.h"
#include "lsm_stop.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/guc.h"

#define LSM_STOP_KEY 7107437	/* "lsm" */

#define LSM_STOP_POLL_MS 20

char	   *lsm_debug_stop = NULL;
void		(*lsm_stop_idle) (void) = NULL;

static void
lsm_stop_wait(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, LSM_STOP_KEY, 1);
	(void) LockAcquire(&tag, ShareLock, false, false);
	(void) LockRelease(&tag, ShareLock, false);
}

static void
lsm_stop_hang(void)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (lsm_stop_idle != NULL)
			lsm_stop_idle();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LSM_STOP_POLL_MS, lsm_compat_wait_event("LsmStop"));
		ResetLatch(MyLatch);
	}
}

/* What the setting asks for at this point: NULL or the word after the colon. */
static const char *
lsm_stop_find(const char *name)
{
	const char *at = lsm_debug_stop;
	size_t		len = strlen(name);

	while (at != NULL && *at != '\0')
	{
		while (*at == ',' || *at == ' ')
			at++;
		if (strncmp(at, name, len) == 0 && at[len] == ':')
			return at + len + 1;
		at = strchr(at, ',');
	}
	return NULL;
}

void
lsm_stop(const char *name)
{
	const char *action = lsm_stop_find(name);

	if (action == NULL)
		return;
	if (strncmp(action, "error", 5) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OPERATOR_INTERVENTION),
				 errmsg("stopped at \"%s\" by lsm.debug_stop", name)));
	else if (strncmp(action, "full", 4) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("disk is full at \"%s\" by lsm.debug_stop", name)));
	else if (strncmp(action, "crash", 5) == 0)
	{
		elog(LOG, "crash at \"%s\" by lsm.debug_stop", name);
		kill(getpid(), SIGKILL);
		pg_usleep(10 * 1000000L);
	}
	else if (strncmp(action, "wait", 4) == 0)
		lsm_stop_wait();
	else if (strncmp(action, "hang", 4) == 0)
		lsm_stop_hang();
}

/* GUC check hook: only name:action pairs with a known action. */
bool
lsm_stop_check(char **newval, void **extra, int source)
{
	const char *at = *newval;

	while (at != NULL && *at != '\0')
	{
		const char *colon = strchr(at, ':');

		if (colon == NULL || colon == at ||
			(strncmp(colon + 1, "error", 5) != 0 &&
			 strncmp(colon + 1, "full", 4) != 0 &&
			 strncmp(colon + 1, "crash", 5) != 0 &&
			 strncmp(colon + 1, "wait", 4) != 0 &&
			 strncmp(colon + 1, "hang", 4) != 0))
		{
			GUC_check_errdetail("Entries look like \"name:error\", \"name:full\", \"name:crash\", \"name:wait\" or \"name:hang\".");
			return false;
		}
		at = strchr(at, ',');
		if (at != NULL)
			at++;
	}
	return true;
}
