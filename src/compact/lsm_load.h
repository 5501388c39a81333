/*-------------------------------------------------------------------------
 *
 * lsm_load.h
 *	  Bulk loads: rows that get into WAL compressed, or not at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LOAD_H
#define LSM_LOAD_H

#include "lsm.h"

#include "lsm_rowlog.h"

extern int	lsm_debug_load_after;	/* kB; -1: never */

/*
 * Append INSERT records, to pages of a load if the transaction has inserted so much
 * already, else as lsm_rowlog_insert() does.  Returns how many: up to the first whose
 * large values have to be written again.
 */
extern int	lsm_load_insert(Relation rel, LsmTable *table, LsmNewRecord *records, int n);

/* All that the transaction has loaded gets into WAL: of one table, or of all before the end. */
extern void lsm_load_seal(Relation rel);
extern void lsm_load_before_commit(void);
extern void lsm_load_xact_end(void);

/* Make the pages of a range empty, in WAL too. */
extern void lsm_load_begin_pages(Relation rel, LsmTable *table, const LsmRowRange *range,
								 bool flushing);
extern void lsm_load_clean_range(LsmEdit *edit, LsmRowRange *range);

#endif							/* LSM_LOAD_H */
