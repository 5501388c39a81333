/*-------------------------------------------------------------------------
 *
 * lsm_manifest.h
 *	  Metapage and manifest: what a table consists of, and how that changes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MANIFEST_H
#define LSM_MANIFEST_H

#include "lsm.h"

#include "lsm_page.h"
#include "lsm_table.h"

extern int	lsm_debug_first_lb; /* first root LB of tables made now */
extern int	lsm_debug_ring_lbs;	/* LBs in the ring of tables made now; 0: all */
extern int	lsm_debug_manifest_entries; /* entries that a manifest may have; 0: as
										 * many as it has room for */
extern int	lsm_debug_kept_views;	/* kB */

/* Views that a backend keeps from one transaction to the next. */
#define LSM_KEPT_VIEWS_KB		(32 * 1024)

/*
 * How many entries there may be, and from how many on no flush begins and no large value is
 * written: the rest is for compactions, which would else not be able to make room, and for what
 * frees pages.
 */
#define LSM_MANIFEST_KEPT_DIVISOR 16

static inline int
lsm_manifest_most(void)
{
	return lsm_debug_manifest_entries > 0 ? lsm_debug_manifest_entries : LSM_MAX_ENTRIES;
}

static inline int
lsm_manifest_most_written(void)
{
	return lsm_manifest_most() - lsm_manifest_most() / LSM_MANIFEST_KEPT_DIVISOR;
}

/* The part of it that so many entries are; from 1 on nothing is flushed. */
static inline double
lsm_manifest_fill(int nentries)
{
	return (double) nentries / lsm_manifest_most_written();
}

/* Warnings come from here on. */
#define LSM_MANIFEST_WARN_FILL	0.75

extern void lsm_manifest_warn(Relation rel, double fill);

/* ---- reading (lsm_view.c) ---- */

/* Block 0 as far as its fixed part goes; a static copy.  All 0: empty file. */
extern LsmMeta *lsm_meta_peek(Relation rel);

/* The same with its row-log ranges. */
extern LsmMeta *lsm_meta_read(Relation rel);

/* The newest view.  Pointers into an older one are void after this call. */
extern LsmView *lsm_view_get(Relation rel, LsmTable *table);

/* Give a table's view up. */
extern void lsm_view_drop(LsmTable *table);

extern void lsm_view_used(LsmTable *table);
extern void lsm_views_xact_end(void);

/* Is it still the newest?  Exact only while gen_lock is held. */
static inline bool
lsm_view_current(LsmTable *table)
{
	return table->view != NULL &&
		table->view->epoch == pg_atomic_read_u64(&table->shared->epoch) &&
		table->view->counter == pg_atomic_read_u64(&table->shared->counter);
}

/* The row-log range that holds an LB, NULL if none does. */
extern LsmRowRange *lsm_view_range(LsmView *view, BlockNumber lb);

/* The first insert or baseline segment whose last_tid is >= tid; nbase if none. */
extern int	lsm_view_find_base(LsmView *view, LsmTid tid);

/* The entry of a segment, NULL if it is in the view no more. */
extern const LsmManifestEntry *lsm_view_find_segment(LsmView *view, uint64 uid);

/* The place of an increment among those of the view; -1: it has none. */
extern int	lsm_view_find_increment(LsmView *view, const LsmManifestEntry *entry);

/* Have increments found by their roots; they are sorted by age. */
extern void lsm_view_order_increments(LsmView *view);

/* Is there an increment with roots between two, or around them? */
extern bool lsm_view_increments_meet(LsmView *view, LsmTid lo, LsmTid hi);

/* The first of these, from a place in view->increments on; nincrements: there is none. */
extern int	lsm_view_next_increment(LsmView *view, LsmTid lo, LsmTid hi, int from);

/* Outcome of the n-th unresolved xid of a segment. */
static inline int
lsm_entry_outcome(const LsmManifestEntry *entry, uint32 n)
{
	return n >= LSM_MAX_OUTCOMES ? LSM_OUTCOME_UNKNOWN :
		(entry->outcomes[n / 4] >> (n % 4 * 2)) & 3;
}

static inline void
lsm_entry_set_outcome(LsmManifestEntry *entry, uint32 n, int outcome)
{
	Assert(n < LSM_MAX_OUTCOMES);
	entry->outcomes[n / 4] &= ~(3 << (n % 4 * 2));
	entry->outcomes[n / 4] |= outcome << (n % 4 * 2);
}

/* ---- changing ---- */

typedef struct LsmEditLeaf
{
	BlockNumber block;			/* where it stands now, 0: new */
	bool		dirty;
	int			nentries;
	LsmManifestEntry *entries;	/* room for LSM_ENTRIES_PER_LEAF */
} LsmEditLeaf;

/* Pages that are going to be free, and where WAL was when they became so. */
typedef struct LsmFreed
{
	LsmExtent	extent;
	uint64		freed_at;
} LsmFreed;

/*
 * A change under way.  It holds edit_lock: no heavyweight lock may be waited
 * for until it is committed or given up.
 */
typedef struct LsmEdit
{
	Relation	rel;
	LsmTable   *table;
	MemoryContext context;
	LsmMeta		meta;			/* as it will be */
	int			nleaves;
	int			maxleaves;
	LsmEditLeaf *leaves;
	bool		manifest_changed;
	uint64		conflict_xid;	/* standby snapshots before it must go; 0: none */
	int			rest_kind;		/* new range for the row log: 0 root, 1 version */
	LsmRangeRest rest;			/* npages 0: no new range */
	LsmExtent	value_rest;		/* pages for large values, the same */
	uint32		own_pages;		/* pages given to one value or bulk load */
	bool		retires;		/* some entry has been retired */
	int			nfreed;			/* pages of entries that go, free with the commit */
	int			maxfreed;
	LsmFreed   *freed;
	double		ring_left;		/* part of the ring of version LBs that is left,
								 * if a sector is entered, else 1 */
	uint8		op;				/* XLOG_LSM_META's purpose, for rm_desc */
} LsmEdit;

extern LsmEdit *lsm_edit_begin(Relation rel, LsmTable *table, uint8 op);
extern int	lsm_edit_entries(const LsmEdit *edit);
extern void lsm_edit_check_room(const LsmEdit *edit);
extern void lsm_edit_add(LsmEdit *edit, const LsmManifestEntry *entry);
extern LsmManifestEntry *lsm_edit_find(LsmEdit *edit, uint64 uid);
extern LsmManifestEntry *lsm_edit_change(LsmEdit *edit, uint64 uid);
extern void lsm_edit_remove_segment(LsmEdit *edit, uint64 uid);
extern void lsm_edit_free_extent(LsmEdit *edit, LsmExtent extent);
extern void lsm_edit_free_extent_at(LsmEdit *edit, LsmExtent extent, uint64 freed_at);
extern bool lsm_edit_free_pending(LsmEdit *edit, uint16 owner);
extern bool lsm_edit_free_pending_at(LsmEdit *edit, uint16 owner, uint64 freed_at);
extern uint64 lsm_edit_take_free(LsmEdit *edit, BlockNumber start);
extern void lsm_edit_add_pending(LsmEdit *edit, uint16 owner, LsmExtent extent);
extern void lsm_edit_move_manifest(LsmEdit *edit, LsmExtent to);
extern void lsm_edit_retire_values(LsmEdit *edit, uint32 generation);
extern uint64 lsm_entry_retired_xid(const LsmMeta *meta, const LsmManifestEntry *entry);
extern bool lsm_edit_free_retired(LsmEdit *edit);
extern void lsm_edit_add_retired(LsmEdit *edit, const LsmManifestEntry *was);
extern void lsm_edit_retire_extent(LsmEdit *edit, LsmExtent extent);
extern void lsm_edit_take_pending(LsmEdit *edit, uint16 owner, LsmExtent extent);
extern void lsm_edit_commit(LsmEdit *edit);
extern void lsm_edit_abandon(LsmEdit *edit);

/* ---- large values in objects: their numbers (lsm_valuenum.c) ---- */

extern void lsm_view_sort_valued(LsmView *view);

/*
 * The entries of a segment with large values: it may be retired, also more than once; the
 * one for new pointers comes first.  NULL: there is none.
 */
extern LsmManifestEntry **lsm_view_find_valued(const LsmView *view, uint64 uid, int *n);

/* The entry that has a number; NULL: it is none, but a block, or is not used. */
extern const LsmManifestEntry *lsm_view_find_number(const LsmView *view, BlockNumber number);

/* The longest run of numbers that is to be had. */
extern uint32 lsm_view_numbers_left(const LsmView *view);

extern bool lsm_numbers_place(const LsmExtent *runs, int nruns, BlockNumber above,
							  uint32 npages, BlockNumber *start);
extern void lsm_edit_take_numbers(LsmEdit *edit, uint32 npages, LsmExtent *run);
extern void lsm_edit_check_growth(LsmEdit *edit, uint32 npages);

/* ---- space (lsm_space.c) ---- */

extern void lsm_space_ensure(Relation rel, BlockNumber nblocks);
extern LsmExtent lsm_space_alloc(Relation rel, LsmTable *table, uint16 owner, uint32 npages,
								 uint32 least);
extern void lsm_space_give_back(Relation rel, LsmTable *table, uint16 owner, LsmExtent extent,
								uint32 used);

/* What comes of asking for a range. */
typedef enum LsmSpaceResult
{
	LSM_SPACE_GIVEN,			/* somebody may have it by now */
	LSM_SPACE_NO_PLACE,			/* the metapage has no place for another one: flush first */
	LSM_SPACE_NO_LBS			/* root LBs are used up: lsm_lbs_find() */
} LsmSpaceResult;

extern LsmSpaceResult lsm_space_new_range(Relation rel, LsmTable *table, int kind);
extern LsmSpaceResult lsm_space_load_range(Relation rel, LsmTable *table, uint32 npages,
										   uint32 lb_pages, LsmRowRange *result);
extern uint32 lsm_space_near_ranges(LsmEdit *edit, uint32 npages, LsmRowRange *ranges);
extern BlockNumber lsm_space_take_values(Relation rel, LsmTable *table, uint32 npages,
										 uint32 *generation);

/* ---- the ring of version LBs (lsm_ring.c) ---- */

/* The version TIDs of an increment that is being written. */
typedef struct LsmRingBounds
{
	BlockNumber next;			/* next_version_lb: LBs from here on are of the
								 * lap before */
	LsmTid		least;			/* as numbers; 0: there are none */
	LsmTid		greatest;
	LsmTid		oldest;			/* as they were given out */
	LsmTid		newest;
} LsmRingBounds;

/* Who enters a sector with so little of the ring before him is warned. */
#define LSM_RING_WARN_LEFT		0.125

extern void lsm_ring_bounds_begin(LsmRingBounds *bounds, const LsmMeta *meta);
extern void lsm_ring_bounds_add(LsmRingBounds *bounds, LsmTid vtid);
extern void lsm_ring_bounds_note(const LsmRingBounds *bounds, const LsmMeta *meta,
								 LsmManifestEntry *entry);
extern bool lsm_ring_entry_has(const LsmMeta *meta, const LsmManifestEntry *entry, uint32 sector);
extern double lsm_ring_entry_left(const LsmMeta *meta, const LsmManifestEntry *entry);
extern double lsm_ring_left(const LsmMeta *meta, const LsmView *view, uint64 settled);
extern void lsm_ring_warn(Relation rel, double left);
extern BlockNumber lsm_ring_take(LsmEdit *edit, uint32 npages);

/* ---- giving space back (lsm_truncate.c) ---- */

extern void lsm_space_reserve(Relation rel, LsmExtent extent);
extern uint32 lsm_manifest_pages(int nleaves);
extern bool lsm_truncate_worth(Relation rel, LsmTable *table);
extern BlockNumber lsm_truncate_tail(Relation rel, LsmTable *table, BlockNumber *nblocks);
extern bool lsm_punch_worth(Relation rel, LsmTable *table, bool later, bool tail);
extern uint64 lsm_punch_holes(Relation rel, LsmTable *table, bool tail);

#endif							/* LSM_MANIFEST_H */
