/*-------------------------------------------------------------------------
 *
 * lsm_lbs.h
 *	  Logical blocks that new rows may have again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LBS_H
#define LSM_LBS_H

#include "lsm_manifest.h"
#include "lsm_table.h"

/* Fewer free LBs in a row are left alone. */
#define LSM_LBS_LEAST_RUN		4

/* Few are left if less than that part is: VACUUM warns, and whatever is free is used again. */
#define LSM_LBS_FEW_DIVISOR		4

/* More LBs without rows than that end a base segment, that they can be found free. */
static inline uint32
lsm_lbs_break(const LsmMeta *meta)
{
	uint32		lbs = meta->next_root_lb - meta->first_root_lb;

	/* not so many that the segments become too many: 64 of them end there, later up to 1024 */
	return Max(Max(Min(lbs / 64, 1024 * 1024), lbs / 1024), LSM_LBS_LEAST_RUN);
}

extern bool lsm_lbs_apart(const LsmMeta *meta, uint32 break_lbs, LsmTid left, LsmTid right);
extern void lsm_lbs_reuse(Relation rel, LsmTable *table);
extern void lsm_lbs_find(Relation rel, LsmTable *table);
extern uint64 lsm_lbs_left(const LsmMeta *meta);
extern bool lsm_lbs_few(const LsmMeta *meta);
extern void lsm_lbs_warn(Relation rel, const LsmMeta *meta);

#endif							/* LSM_LBS_H */
