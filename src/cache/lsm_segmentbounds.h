/*-------------------------------------------------------------------------
 *
 * lsm_segmentbounds.h
 *	  Bounds of the columns of segments that need not be opened for them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SEGMENTBOUNDS_H
#define LSM_SEGMENTBOUNDS_H

#include "lsm.h"

#include "lsm_ahead.h"
#include "lsm_manifest.h"
#include "lsm_segment.h"
#include "lsm_table.h"
#include "utils/rel.h"

/* Segments with less metadata (kB) are opened. */
extern int	lsm_debug_bounds_from;

/*
 * The bounds of a segment that the newest view has.  NULL: it has none, or the view is no
 * longer the newest.  Good until the next call, or until a segment is opened.
 */
extern const LsmBounds *lsm_segment_bounds_get(Relation rel, LsmTable *table,
											   const LsmManifestEntry *entry);

/* Where in the stream they are looked for. */
extern void lsm_segment_bounds_place(const LsmManifestEntry *entry, LsmAheadPlace *place);

#endif							/* LSM_SEGMENTBOUNDS_H */
