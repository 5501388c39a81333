/*-------------------------------------------------------------------------
 *
 * lsm_stop.c
 *	  Stop points for tests (see lsm_stop.h).
 *
 * lsm.debug_stop is a list such as 'flush-before-swap:crash,minor-start:wait'.
 * error raises an ERROR, crash ends the backend as a crash would (so that the
 * whole server restarts), wait takes and releases an advisory lock that a test
 * holds with pg_advisory_lock(LSM_STOP_KEY): the isolation tester can see that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "lsm_stop.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/guc.h"

#define LSM_STOP_KEY 7107437	/* "lsm" */

char	   *lsm_debug_stop = NULL;

static void
lsm_stop_wait(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, LSM_STOP_KEY, 1);
	(void) LockAcquire(&tag, ShareLock, false, false);
	(void) LockRelease(&tag, ShareLock, false);
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
	else if (strncmp(action, "crash", 5) == 0)
	{
		elog(LOG, "crash at \"%s\" by lsm.debug_stop", name);
		kill(getpid(), SIGKILL);
		pg_usleep(10 * 1000000L);
	}
	else if (strncmp(action, "wait", 4) == 0)
		lsm_stop_wait();
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
			 strncmp(colon + 1, "crash", 5) != 0 &&
			 strncmp(colon + 1, "wait", 4) != 0))
		{
			GUC_check_errdetail("Entries look like \"name:error\", \"name:crash\" or \"name:wait\".");
			return false;
		}
		at = strchr(at, ',');
		if (at != NULL)
			at++;
	}
	return true;
}
