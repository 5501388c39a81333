/*-------------------------------------------------------------------------
 *
 * lsm_truncate.c
 *	  Giving space back to the file system: the end of the file, and holes.
 *
 * THE END OF THE FILE
 *	  With the table locked exclusively, by VACUUM or a worker (lsm_trim.c).  A table that
 *	  has no rows and no dead roots becomes an empty file, as if it were new.  Of any other,
 *	  free pages at the end go; ranges that the row log keeps for later, and the manifest, are
 *	  first taken out of the way.  Segments have been moved before, without such a lock
 *	  (lsm_relocate.c).
 *
 *	  Nothing here is in conflict with snapshots of standbys.  A query there may have one
 *	  and wait for the lock, which it gets when replay has come to the end of our
 *	  transaction: replay would wait for it as long as max_standby_streaming_delay says,
 *	  which may be for ever.  So retired pages are freed before the lock is taken.
 *
 * WHY AN EMPTY TABLE MAY BEGIN ANEW
 *	  Its next rows get root TIDs that other rows have had.  That is safe once nobody
 *	  can take one for the other:
 *	  - No index has an entry of an old root: each was on a dead list, and a list goes
 *		only when all indexes have been cleaned (I12).  There are no lists now.
 *	  - No transaction can have a TID of the table but in a column of some other
 *		table: whoever has read the table holds a lock on it until its end, prepared
 *		transactions too, and so do triggers that wait for the end of theirs.
 *	  - No snapshot sees an old row: rows leave only when nobody does.
 *	  - A predicate lock on an old root may be met by a new row.  That is one
 *		dependency too many, never one too few.
 *	  - Memory of the old file has another incarnation, other uids, and an epoch.
 *
 * HOLES
 *	  Free extents inside the file are punched: the file keeps its length, the blocks
 *	  read as zeroes and take no space, until they are written again.
 *	  - They are PENDING meanwhile, so nobody takes them.
 *	  - Recovery must not find zeroes where it applies a change to a page.  So an
 *		extent is punched only if it was free before the last checkpoint began: no
 *		recovery begins earlier.  By then its buffers have been written, too.
 *	  - pg_rewind and incremental backups go by the blocks that WAL names; so each page
 *		is logged, as an empty one, before it goes.  That is also what a standby's
 *		pages, and the server's own after a crash, look like then.
 *	  - Whoever takes free pages reserves their space first (lsm_space_reserve), so
 *		that a full disk is met there, and not by the checkpointer.
 *
 * CRASH SAFETY
 *	  The metapage stops accounting for pages before the file loses them.  What is
 *	  beyond the account is used by the next extension.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "lsm_compact.h"
#include "lsm_load.h"
#include "lsm_manifest.h"
#include "lsm_stop.h"
#include "lsm_vmpage.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/smgr.h"

/*
 * Less is not worth an exclusive lock, which standbys replay: heap's bounds, and
 * for small files one of their own, since each flush leaves some pages free that
 * the next one uses.
 */
#define LSM_TRUNCATE_MINIMUM	1000
#define LSM_TRUNCATE_FRACTION	16
#define LSM_TRUNCATE_SMALL		64

/* Smaller free extents are left as they are. */
#define LSM_PUNCH_MINIMUM		32

#define LSM_PUNCH_BATCH			32	/* pages in one WAL record */
#define LSM_PUNCH_EXTENTS		64	/* extents in one edit */
#define LSM_PUNCH_PAGES			16384	/* pages that end one, and that are punched
										 * at once */

/* ---- the end of the file ---- */

/*
 * Has the table neither rows nor roots that an index may have, nor pages that
 * somebody may have a pointer to?
 */
static bool
lsm_view_empty(LsmView *view)
{
	if (view->meta.flushing != 0)
		return false;
	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind != LSM_RANGE_FREE)
			return false;
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_SEGMENT ||
			view->entries[i].type == LSM_ENTRY_RETIRED)
			return false;
	return true;
}

/* Where the last page is that cannot be taken out of the way, plus 1. */
static BlockNumber
lsm_view_used_end(LsmView *view)
{
	BlockNumber end = LSM_META_BLOCK + 1;

	for (uint32 i = 0; i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind != LSM_RANGE_FREE)
			end = Max(end, view->meta.ranges[i].pages.start + view->meta.ranges[i].pages.npages);
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_SEGMENT ||
			view->entries[i].type == LSM_ENTRY_VALUES ||
			view->entries[i].type == LSM_ENTRY_RETIRED)
			for (int j = 0; j < view->entries[i].nextents; j++)
				end = Max(end, view->entries[i].extents[j].start +
						  view->entries[i].extents[j].npages);
	return end;
}

/* Pages that a manifest of that many leaves needs to be changed in, with some to spare. */
uint32
lsm_manifest_pages(int nleaves)
{
	return 2 * (nleaves + 2);
}

static BlockNumber
lsm_manifest_end(const LsmMeta *meta)
{
	BlockNumber end = 0;

	for (uint32 i = 0; i < meta->nextents; i++)
		end = Max(end, meta->extents[i].start + meta->extents[i].npages);
	return end;
}

/* Are so many pages of a file worth being given back? */
static inline bool
lsm_give_back_enough(uint64 npages, BlockNumber nblocks)
{
	return npages >= LSM_TRUNCATE_MINIMUM ||
		(npages >= LSM_TRUNCATE_SMALL && npages >= nblocks / LSM_TRUNCATE_FRACTION);
}

/* Is it worth it to shorten a file from nblocks to end? */
static inline bool
lsm_truncate_enough(BlockNumber nblocks, BlockNumber end)
{
	return nblocks > end && lsm_give_back_enough(nblocks - end, nblocks);
}

/* Is there enough to be given back?  Taken without locks: a guess. */
bool
lsm_truncate_worth(Relation rel, LsmTable *table)
{
	BlockNumber nblocks = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	LsmView    *view = lsm_view_get(rel, table);

	return nblocks > 0 &&
		(lsm_view_empty(view) ||
		 lsm_truncate_enough(nblocks, lsm_view_used_end(view) + lsm_manifest_pages(view->nleaves)));
}

/* The free extent of at least npages that comes first; npages 0: none. */
static LsmExtent
lsm_edit_first_free(LsmEdit *edit, uint32 npages)
{
	LsmExtent	first = {0, 0};

	for (int i = 0; i < edit->nleaves; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries; j++)
		{
			LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (entry->type == LSM_ENTRY_FREE && entry->extents[0].npages >= npages &&
				(first.npages == 0 || entry->extents[0].start < first.start))
				first = entry->extents[0];
		}
	}
	return first;
}

/* Free what dead operations have left, and ranges from that page on that the row log keeps. */
static void
lsm_truncate_release(Relation rel, LsmTable *table, BlockNumber from)
{
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_TRUNCATE);
	LsmMeta    *meta = &edit->meta;

	for (uint16 owner = LSM_OWNER_FLUSH; owner <= LSM_OWNER_LAST; owner++)
		(void) lsm_edit_free_pending(edit, owner);
	for (uint32 i = meta->nranges; i > 0; i--)
	{
		if (meta->ranges[i - 1].kind != LSM_RANGE_FREE || meta->ranges[i - 1].pages.start < from)
			continue;
		lsm_load_clean_range(edit, &meta->ranges[i - 1]);
		lsm_edit_free_extent(edit, meta->ranges[i - 1].pages);
		meta->ranges[i - 1] = meta->ranges[--meta->nranges];
	}
	lsm_edit_commit(edit);
}

/*
 * Take the first npages of the first free extent that has as many, if it lies
 * before that page.  False: there is none.
 */
static bool
lsm_truncate_place(LsmEdit *edit, uint32 npages, BlockNumber before, LsmExtent *place)
{
	LsmExtent	rest;
	uint64		freed_at;

	*place = rest = lsm_edit_first_free(edit, npages);
	if (place->npages == 0 || place->start >= before)
		return false;
	freed_at = lsm_edit_take_free(edit, place->start);
	rest.start += npages;
	rest.npages -= npages;
	lsm_edit_free_extent_at(edit, rest, freed_at);
	place->npages = npages;
	lsm_space_reserve(edit->rel, *place);
	lsm_space_ensure(edit->rel, place->start + npages);
	return true;
}

/* Move the manifest, if that lets the file end sooner. */
static void
lsm_truncate_move_manifest(Relation rel, LsmTable *table)
{
	BlockNumber used_end = lsm_view_used_end(lsm_view_get(rel, table));
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_TRUNCATE);
	LsmMeta    *meta = &edit->meta;
	uint32		npages = lsm_manifest_pages(edit->nleaves);
	LsmExtent	place = lsm_edit_first_free(edit, npages);

	if (place.npages > 0 && Max(place.start + npages, used_end) < lsm_manifest_end(meta) &&
		lsm_truncate_place(edit, npages, lsm_manifest_end(meta), &place))
	{
		lsm_edit_move_manifest(edit, place);
		lsm_edit_commit(edit);
	}
	else
		lsm_edit_abandon(edit);
}

/*
 * Shorten the main fork to nblocks pages: what RelationTruncate() does, for this fork alone
 * (others go by logical blocks).  The table is locked exclusively.
 */
static void
lsm_truncate_file(Relation rel, BlockNumber nblocks)
{
	SMgrRelation reln = RelationGetSmgr(rel);
	BlockNumber old_nblocks;

	reln->smgr_targblock = InvalidBlockNumber;
	reln->smgr_cached_nblocks[MAIN_FORKNUM] = InvalidBlockNumber;
	old_nblocks = smgrnblocks(reln, MAIN_FORKNUM);
	RelationPreTruncate(rel);

	/* no checkpoint may come between the record, the buffers and the file */
	Assert((MyProc->delayChkptFlags & (DELAY_CHKPT_START | DELAY_CHKPT_COMPLETE)) == 0);
	MyProc->delayChkptFlags |= DELAY_CHKPT_START | DELAY_CHKPT_COMPLETE;
	START_CRIT_SECTION();
	if (RelationNeedsWAL(rel))
	{
		xl_smgr_truncate xlrec = {0};

		xlrec.blkno = nblocks;
		lsm_compat_set_truncate_locator(&xlrec, rel);
		xlrec.flags = SMGR_TRUNCATE_HEAP;
		XLogBeginInsert();
		XLogRegisterData((char *) &xlrec, sizeof(xlrec));
		XLogFlush(XLogInsert(RM_SMGR_ID, XLOG_SMGR_TRUNCATE | XLR_SPECIAL_REL_UPDATE));
	}
	lsm_compat_truncate_main(RelationGetSmgr(rel), old_nblocks, nblocks);
	END_CRIT_SECTION();
	MyProc->delayChkptFlags &= ~(DELAY_CHKPT_START | DELAY_CHKPT_COMPLETE);
}

/*
 * Make an empty table's file empty.  The metapage says so first, so that
 * redo tells a standby's shared state; between the two, such a metapage counts as
 * an empty file.  Before that the visibility map is cleared: its bits would be those
 * of the next rows (I14).  The fork stays: what redo finds of it must not be pages
 * that were made anew after a truncation that is still to come.
 */
static void
lsm_truncate_reset(Relation rel, LsmTable *table)
{
	LsmEdit    *edit;

	lsm_vm_clear(rel);
	LSM_STOP("truncate-map");
	edit = lsm_edit_begin(rel, table, LSM_OP_TRUNCATE);

	/* until the file is cut, a crash leaves its pages to those who begin anew */
	for (uint32 i = 0; i < edit->meta.nranges; i++)
		lsm_load_clean_range(edit, &edit->meta.ranges[i]);
	memset(&edit->meta, 0, sizeof(LsmMeta));
	edit->meta.magic = LSM_MAGIC;
	edit->meta.version = LSM_FORMAT_VERSION;
	edit->meta.counter = PG_UINT64_MAX; /* its commit makes it 0 */
	edit->manifest_changed = false;
	lsm_edit_commit(edit);
	lsm_table_forget(LSM_RD_LOCATOR(rel), rel->rd_backend);
	LSM_STOP("truncate-before-file");
	lsm_truncate_file(rel, 0);
	lsm_table_forget(LSM_RD_LOCATOR(rel), rel->rd_backend);
}

/*
 * Give the free end of the file back; the table is locked exclusively, and retired pages were
 * freed before (lsm_job_free_left()).  Returns how many pages there were, and in *nblocks how
 * many there are.
 */
BlockNumber
lsm_truncate_tail(Relation rel, LsmTable *table, BlockNumber *nblocks)
{
	BlockNumber before = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);
	BlockNumber npages;

	*nblocks = before;
	if (!lsm_truncate_worth(rel, table))
		return before;
	LSM_STOP("truncate-start");
	if (lsm_view_empty(lsm_view_get(rel, table)))
	{
		lsm_truncate_reset(rel, table);
		*nblocks = 0;
		return before;
	}
	lsm_truncate_release(rel, table, lsm_view_used_end(lsm_view_get(rel, table)));
	lsm_truncate_move_manifest(rel, table);

	/* the free end leaves the account at the beginning of the next edit */
	lsm_edit_commit(lsm_edit_begin(rel, table, LSM_OP_TRUNCATE));
	npages = lsm_view_get(rel, table)->meta.npages;
	LSM_STOP("truncate-before-file");
	if (npages < before)
	{
		lsm_truncate_file(rel, npages);
		*nblocks = npages;
	}
	return before;
}

/* ---- holes ---- */

#ifdef FALLOC_FL_PUNCH_HOLE

/*
 * Call fallocate() for pages of the main fork, in each of its files.  False: the
 * file system cannot do that.
 */
static bool
lsm_fallocate(Relation rel, int mode, LsmExtent extent)
{
	while (extent.npages > 0)
	{
		BlockNumber segment = extent.start / RELSEG_SIZE;
		BlockNumber at = extent.start % RELSEG_SIZE;
		uint32		n = Min(extent.npages, RELSEG_SIZE - at);
		char	   *path = lsm_compat_main_path(rel);
		int			fd;
		int			result;

		if (segment > 0)
			path = psprintf("%s.%u", path, segment);
		fd = OpenTransientFile(path, O_RDWR | PG_BINARY);

		/*
		 * That a file has been made longer is not logged: who was a standby may not have
		 * it, nor the server after a crash.  Then there is nothing to give back.
		 */
		if (fd < 0 && errno == ENOENT && (mode & FALLOC_FL_PUNCH_HOLE))
		{
			extent.start += n;
			extent.npages -= n;
			continue;
		}
		if (fd < 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", path)));
		do
		{
			result = fallocate(fd, mode, (off_t) at * BLCKSZ, (off_t) n * BLCKSZ);
		} while (result < 0 && errno == EINTR);
		if (result < 0)
		{
			int			save_errno = errno;

			CloseTransientFile(fd);
			if (save_errno == EOPNOTSUPP || save_errno == ENOSYS)
				return false;
			errno = save_errno;
			ereport(ERROR,
					(errcode_for_file_access(),
					 (mode & FALLOC_FL_PUNCH_HOLE) ?
					 errmsg("could not give back space of file \"%s\": %m", path) :
					 errmsg("could not reserve space of file \"%s\": %m", path),
					 save_errno == ENOSPC ? errhint("Check free disk space.") : 0));
		}
		if (CloseTransientFile(fd) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not close file \"%s\": %m", path)));
		extent.start += n;
		extent.npages -= n;
	}
	return true;
}

/*
 * Can the file system punch holes?  Asked with a hole that no file reaches to.
 */
static bool
lsm_punch_possible(Relation rel)
{
	char	   *path = lsm_compat_main_path(rel);
	int			fd = OpenTransientFile(path, O_RDWR | PG_BINARY);
	bool		able;

	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	able = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 (off_t) RELSEG_SIZE * BLCKSZ, BLCKSZ) == 0;
	CloseTransientFile(fd);
	return able;
}

static bool
lsm_punch_extent(Relation rel, LsmExtent extent)
{
	return lsm_fallocate(rel, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, extent);
}

/*
 * Pages that are taken into use may be holes: make sure that they have space.  What is
 * beyond the end of the file is lsm_space_ensure()'s.
 */
void
lsm_space_reserve(Relation rel, LsmExtent extent)
{
	BlockNumber have = smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM);

	if (RelationUsesLocalBuffers(rel) || extent.start >= have)
		return;
	extent.npages = Min(extent.npages, have - extent.start);
	(void) lsm_fallocate(rel, 0, extent);
}

#else

static bool
lsm_punch_possible(Relation rel)
{
	return false;
}

static bool
lsm_punch_extent(Relation rel, LsmExtent extent)
{
	return false;
}

void
lsm_space_reserve(Relation rel, LsmExtent extent)
{
}

#endif

/* Log pages as empty ones; returns the end of WAL that says so. */
static XLogRecPtr
lsm_punch_log(Relation rel, LsmExtent extent, uint64 incarnation)
{
	RelFileLocator locator = LSM_RD_LOCATOR(rel);
	PGAlignedBlock empty;
	XLogRecPtr	lsn = InvalidXLogRecPtr;

	lsm_page_init((Page) empty.data, LSM_PAGE_FREE, incarnation, 0, 0);
	XLogEnsureRecordSpace(LSM_PUNCH_BATCH, 0);
	while (extent.npages > 0)
	{
		int			n = Min(extent.npages, LSM_PUNCH_BATCH);

		lsm_job_check();
		XLogBeginInsert();
		for (int i = 0; i < n; i++)
			XLogRegisterBlock(i, &locator, MAIN_FORKNUM, extent.start + i, empty.data,
							  REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
		lsn = XLogInsert(RM_XLOG_ID, XLOG_FPI);
		extent.start += n;
		extent.npages -= n;
	}
	return lsn;
}

/* Is it a free extent that may be punched now?  tail: also at the end of what is accounted for. */
static bool
lsm_punch_ready(const LsmMeta *meta, const LsmManifestEntry *entry, XLogRecPtr redo, bool tail)
{
	return entry->type == LSM_ENTRY_FREE && entry->extents[0].npages >= LSM_PUNCH_MINIMUM &&
		LSM_ENTRY_FREED_AT(entry) != 0 && LSM_ENTRY_FREED_AT(entry) < redo &&
		(tail || entry->extents[0].start + entry->extents[0].npages < meta->npages);
}

/* Has one that has died left extents PENDING? */
static bool
lsm_punch_left(LsmView *view)
{
	for (int i = 0; i < view->nentries; i++)
		if (view->entries[i].type == LSM_ENTRY_PENDING && view->entries[i].kind == LSM_OWNER_PUNCH)
			return true;
	return false;
}

/*
 * Are there enough pages that can be punched now?  later: or after the next checkpoint.
 * A guess, taken without locks, also of what the file system can.
 */
bool
lsm_punch_worth(Relation rel, LsmTable *table, bool later, bool tail)
{
	LsmView    *view = lsm_view_get(rel, table);
	XLogRecPtr	redo = PG_UINT64_MAX;
	TimeLineID	timeline;
	uint64		pages = 0;

	if (RelationUsesLocalBuffers(rel))
		return false;
	if (lsm_punch_left(view))
		return true;
#ifndef FALLOC_FL_PUNCH_HOLE
	return false;
#endif
	if (!later)
		GetOldestRestartPoint(&redo, &timeline);
	for (int i = 0; i < view->nentries; i++)
		if (lsm_punch_ready(&view->meta, &view->entries[i], redo, tail))
			pages += view->entries[i].extents[0].npages;
	return lsm_give_back_enough(pages, view->meta.npages);
}

/*
 * Make at most LSM_PUNCH_EXTENTS such extents PENDING, until they have LSM_PUNCH_PAGES together.
 * None is divided, as free neighbours are one extent, and punched only if both are.  Returns
 * how many; *more: there are others.
 */
static int
lsm_punch_take(LsmEdit *edit, XLogRecPtr redo, bool tail, LsmExtent *extents, bool *more)
{
	uint32		pages = 0;
	int			n = 0;

	*more = false;
	for (int i = 0; i < edit->nleaves && !*more; i++)
	{
		for (int j = 0; j < edit->leaves[i].nentries && !*more; j++)
		{
			const LsmManifestEntry *entry = &edit->leaves[i].entries[j];

			if (!lsm_punch_ready(&edit->meta, entry, redo, tail))
				continue;
			*more = n == LSM_PUNCH_EXTENTS || pages >= LSM_PUNCH_PAGES;
			if (*more)
				continue;
			extents[n] = entry->extents[0];
			pages += extents[n++].npages;
		}
	}
	for (int i = 0; i < n; i++)
	{
		(void) lsm_edit_take_free(edit, extents[i].start);
		lsm_edit_add_pending(edit, LSM_OWNER_PUNCH, extents[i]);
	}
	return n;
}

/*
 * Punch some extents; their job lock is held.  Returns whether there are more, and adds the
 * pages to *pages.
 */
static bool
lsm_punch_some(Relation rel, LsmTable *table, XLogRecPtr redo, bool tail, uint64 *pages)
{
	LsmExtent	extents[LSM_PUNCH_EXTENTS];
	LsmEdit    *edit = lsm_edit_begin(rel, table, LSM_OP_PUNCH);
	uint64		incarnation = edit->meta.incarnation;
	bool		more;
	int			n = lsm_punch_take(edit, redo, tail, extents, &more);

	/* take them, so that nobody else can */
	if (n == 0)
	{
		lsm_edit_abandon(edit);
		return false;
	}
	lsm_edit_commit(edit);
	LSM_STOP("punch-taken");

	for (int i = 0; i < n; i++)
	{
		LsmExtent	left = extents[i];

		while (left.npages > 0)
		{
			LsmExtent	piece = left;

			piece.npages = Min(left.npages, LSM_PUNCH_PAGES);
			lsm_job_check();
			if (RelationNeedsWAL(rel))
				XLogFlush(lsm_punch_log(rel, piece, incarnation));
			LSM_STOP("punch-logged");
			if (lsm_punch_extent(rel, piece))
				*pages += piece.npages;
			left.start += piece.npages;
			left.npages -= piece.npages;
		}
	}

	/* free again, with nothing left to be punched */
	edit = lsm_edit_begin(rel, table, LSM_OP_PUNCH);
	(void) lsm_edit_free_pending_at(edit, LSM_OWNER_PUNCH, 0);
	lsm_edit_commit(edit);
	return more;
}

/*
 * Give the space of free extents inside the file back; tail: also of one at the end.  Some at a
 * time: if it is cancelled, those at hand will be logged and punched once more.  Returns how
 * many pages.
 */
uint64
lsm_punch_holes(Relation rel, LsmTable *table, bool tail)
{
	XLogRecPtr	redo;
	TimeLineID	timeline;
	LsmView    *view;
	uint64		pages = 0;
	bool		any;

	if (RelationUsesLocalBuffers(rel))
		return 0;
	GetOldestRestartPoint(&redo, &timeline);
	view = lsm_view_get(rel, table);
	any = lsm_punch_left(view);
	for (int i = 0; i < view->nentries && !any; i++)
		any = lsm_punch_ready(&view->meta, &view->entries[i], redo, tail);
	if (!any)
		return 0;
	lsm_job_lock(rel, LSM_OWNER_PUNCH);
	while (lsm_punch_possible(rel) && lsm_punch_some(rel, table, redo, tail, &pages))
		CHECK_FOR_INTERRUPTS();
	lsm_job_unlock(rel, LSM_OWNER_PUNCH);
	return pages;
}
