/*-------------------------------------------------------------------------
 *
 * lsm_try.h
 *	  Steps whose errors do not end the transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TRY_H
#define LSM_TRY_H

extern ErrorData *lsm_try(void (*step) (void *arg), void *arg);
extern ErrorData *lsm_try_all(void (*step) (void *arg), void *arg);

#endif							/* LSM_TRY_H */
