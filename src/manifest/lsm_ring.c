/*-------------------------------------------------------------------------
 *
 * lsm_ring.c
 *	  The ring of version LBs: what it holds, and what is left of it.
 *
 * The ring is entered a sector at a time.  A sector is entered again when nothing
 * that is there names a version in it, and nobody can any more: no range of the row
 * log, no UPDATE record of an increment, and all who had names from the last time have
 * ended.
 *
 * BOUNDS OF AN INCREMENT
 *	  LBs before next_version_lb are of this lap, those from there on of the lap
 *	  before.  So the version TIDs of an increment have an order: that in which they were given
 *	  out.  It stays as long as the increment is there, as no sector that it has is
 *	  entered.  An entry has the least and the greatest of them as numbers, which say all
 *	  if the increment has TIDs of one lap.  If it was merged over the end of the ring,
 *	  they are some of the first sectors and some of the last, and the bounds seem to have all
 *	  that are between.  Then its flags tell the sectors of its oldest and its newest
 *	  TID, too.  Who does not know these flags takes more sectors for used than are, and
 *	  so does who meets an entry without them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/transam.h"
#include "lsm_manifest.h"

/* ---- bounds ---- */

/* Begin with no version TID; the table has a metapage by the time that there is one. */
void
lsm_ring_bounds_begin(LsmRingBounds *bounds, const LsmMeta *meta)
{
	memset(bounds, 0, sizeof(*bounds));
	bounds->next = meta->next_version_lb;
}

/* Was the one version TID given out before the other? */
static bool
lsm_ring_is_older(const LsmRingBounds *bounds, LsmTid vtid, LsmTid than)
{
	bool		before = LSM_TID_LB(vtid) >= bounds->next;	/* of the lap before */
	bool		than_before = LSM_TID_LB(than) >= bounds->next;

	return before != than_before ? before : vtid < than;
}

void
lsm_ring_bounds_add(LsmRingBounds *bounds, LsmTid vtid)
{
	if (bounds->least == LSM_INVALID_TID)
	{
		bounds->least = bounds->greatest = bounds->oldest = bounds->newest = vtid;
		return;
	}
	bounds->least = Min(bounds->least, vtid);
	bounds->greatest = Max(bounds->greatest, vtid);
	if (lsm_ring_is_older(bounds, vtid, bounds->oldest))
		bounds->oldest = vtid;
	if (lsm_ring_is_older(bounds, bounds->newest, vtid))
		bounds->newest = vtid;
}

/* Note them in the entry. */
void
lsm_ring_bounds_note(const LsmRingBounds *bounds, const LsmMeta *meta, LsmManifestEntry *entry)
{
	uint32		oldest;
	uint32		newest;

	entry->first_vtid = bounds->least;
	entry->last_vtid = bounds->greatest;
	if (bounds->least == LSM_INVALID_TID)
		return;
	oldest = lsm_ring_sector(meta, LSM_TID_LB(bounds->oldest));
	newest = lsm_ring_sector(meta, LSM_TID_LB(bounds->newest));

	/* in one lap the numbers say as much; 0 is never the oldest sector of two laps */
	if (oldest > newest)
		entry->flags |= oldest << LSM_SEGFLAG_OLDEST_SHIFT | newest << LSM_SEGFLAG_NEWEST_SHIFT;
}

/* Sectors from one to another, around the ring. */
static inline uint32
lsm_ring_distance(uint32 from, uint32 to)
{
	return (to + LSM_RING_SECTORS - from) % LSM_RING_SECTORS;
}

/* May an entry have version TIDs in a sector? */
bool
lsm_ring_entry_has(const LsmMeta *meta, const LsmManifestEntry *entry, uint32 sector)
{
	uint32		oldest = lsm_entry_oldest_sector(entry);

	if (entry->type != LSM_ENTRY_SEGMENT || entry->first_vtid == LSM_INVALID_TID)
		return false;
	if (sector < lsm_ring_sector(meta, LSM_TID_LB(entry->first_vtid)) ||
		sector > lsm_ring_sector(meta, LSM_TID_LB(entry->last_vtid)))
		return false;
	return oldest == 0 || lsm_ring_distance(oldest, sector) <=
		lsm_ring_distance(oldest, lsm_entry_newest_sector(entry));
}

/* ---- what is left ---- */

/* The part of the ring that is left before its n-th sector from here on is entered. */
static double
lsm_ring_part(const LsmMeta *meta, uint32 n)
{
	uint32		sector_lbs = meta->ring_lbs / LSM_RING_SECTORS;
	BlockNumber end = LSM_FIRST_VERSION_LB + (meta->ring_sector + 1) * sector_lbs;

	return ((double) (n - 1) * sector_lbs + (end - meta->next_version_lb)) / meta->ring_lbs;
}

/* The same, for the first sector that an entry may have; 1: it has none. */
double
lsm_ring_entry_left(const LsmMeta *meta, const LsmManifestEntry *entry)
{
	if (entry->type != LSM_ENTRY_SEGMENT || entry->first_vtid == LSM_INVALID_TID)
		return 1;
	for (uint32 n = 1; n <= LSM_RING_SECTORS; n++)
		if (lsm_ring_entry_has(meta, entry, (meta->ring_sector + n) % LSM_RING_SECTORS))
			return lsm_ring_part(meta, n);
	return 1;
}

/*
 * Has the table anything that a version TID in that sector of the ring names?  meta may
 * be newer than the view, whose segments count.
 */
static bool
lsm_ring_sector_used(const LsmMeta *meta, const LsmView *view, uint64 settled, uint32 sector)
{
	uint32		sector_lbs = meta->ring_lbs / LSM_RING_SECTORS;
	BlockNumber first = LSM_FIRST_VERSION_LB + sector * sector_lbs;
	BlockNumber last = first + sector_lbs - 1;

	if (meta->ring_stamps[sector] == 0)
		return false;			/* never been there */
	for (uint32 i = 0; i < meta->nranges; i++)
		if (meta->ranges[i].kind == LSM_RANGE_VERSION && meta->ranges[i].lb <= last &&
			lsm_range_end_lb(&meta->ranges[i]) > first)
			return true;
	for (int i = 0; i < view->nentries; i++)
		if (lsm_ring_entry_has(meta, &view->entries[i], sector))
			return true;
	return meta->ring_stamps[sector] >= settled;
}

/*
 * The part of the ring that is left until there is something in the way: 1, if nothing
 * is.  settled: what lsm_settled_xid() says.
 */
double
lsm_ring_left(const LsmMeta *meta, const LsmView *view, uint64 settled)
{
	if (meta->ring_lbs == 0)
		return 1;				/* an empty file */
	for (uint32 n = 1; n < LSM_RING_SECTORS; n++)
		if (lsm_ring_sector_used(meta, view, settled, (meta->ring_sector + n) % LSM_RING_SECTORS))
			return lsm_ring_part(meta, n);
	return 1;
}

/* Say so long before changes fail. */
void
lsm_ring_warn(Relation rel, double left)
{
	ereport(WARNING,
			(errmsg("table \"%s\" has used %.0f%% of its version identifiers",
					RelationGetRelationName(rel), floor(100.0 * (1 - left))),
			 errdetail("Updates, deletes and row locks fail when there are none left."),
			 errhint("End transactions that have been open for long, then run VACUUM on the table.")));
}

/*
 * The next npages version LBs, in one sector of the ring.  What a sector holds is looked
 * for in the edit's view: it must not have changed segments.
 */
BlockNumber
lsm_ring_take(LsmEdit *edit, uint32 npages)
{
	LsmMeta    *meta = &edit->meta;
	uint32		sector_lbs = meta->ring_lbs / LSM_RING_SECTORS;
	BlockNumber end = LSM_FIRST_VERSION_LB + (meta->ring_sector + 1) * sector_lbs;
	BlockNumber lb;

	if (meta->next_version_lb + npages > end)
	{
		uint32		sector = (meta->ring_sector + 1) % LSM_RING_SECTORS;
		uint64		settled = lsm_settled_xid(edit->rel);

		if (lsm_ring_sector_used(meta, edit->table->view, settled, sector))
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("table \"%s\" has used up its version identifiers",
							RelationGetRelationName(edit->rel)),
					 errhint("End transactions that have been open for long, then run VACUUM on the table.")));
		meta->ring_stamps[meta->ring_sector] =
			U64FromFullTransactionId(ReadNextFullTransactionId());
		meta->ring_sector = sector;
		meta->next_version_lb = LSM_FIRST_VERSION_LB + sector * sector_lbs;
		edit->ring_left = lsm_ring_left(meta, edit->table->view, settled);
	}
	lb = meta->next_version_lb;
	meta->next_version_lb += npages;
	return lb;
}
