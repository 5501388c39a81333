/*-------------------------------------------------------------------------
 *
 * lsm_try.c
 *	  Steps whose errors do not end the transaction: each is a subtransaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lsm_try.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/*
 * Do a step in a subtransaction, in the caller's memory context.  NULL: it is done.  Otherwise
 * what it did is rolled back, and this is the error that it raised, whatever it was, in the
 * caller's context: a caller that does not know it raises it (ReThrowError()).  No LWLock may
 * be held.
 */
ErrorData *
lsm_try_all(void (*step) (void *arg), void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		step(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	return error;
}

/* The same, but that the session is to end what it does (cancellation, a timeout) is raised. */
ErrorData *
lsm_try(void (*step) (void *arg), void *arg)
{
	ErrorData  *error = lsm_try_all(step, arg);

	if (error != NULL && ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION)
		ReThrowError(error);
	return error;
}
