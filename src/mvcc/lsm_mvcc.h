/*-------------------------------------------------------------------------
 *
 * lsm_mvcc.h
 *	  Records of a row: finding them, judging them, building rows from them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MVCC_H
#define LSM_MVCC_H

#include "lsm.h"

#include "access/tableam.h"
#include "executor/tuptable.h"
#include "lsm_blockcache.h"
#include "lsm_manifest.h"
#include "lsm_rowlog.h"
#include "lsm_segment.h"
#include "lsm_table.h"
#include "lsm_touch.h"
#include "lsm_value.h"
#include "utils/snapmgr.h"

/* ---- floors (lsm_floor.c) ---- */

extern uint64 lsm_floor(void);
extern uint64 lsm_floor_of(int procno);
extern void lsm_floor_xact_end(void);

/* What no snapshot can tell apart any more, and what nobody can name. */
typedef struct LsmHorizons
{
	uint64		visible;		/* a committed xid before it is visible to all */
	uint64		settled;		/* and before this one, no transaction names its
								 * versions by version TID */
} LsmHorizons;
extern void lsm_horizons(Relation rel, LsmHorizons *horizons);

/* ---- versions (lsm_version.c) ---- */

/* A record as the iterator finds it. */
typedef struct LsmVersion
{
	LsmRowHead	head;
	uint32		seq;			/* row log, not INSERT */
	LsmTid		prev;
	LsmRecord  *record;			/* row log, or of a row block: a copy in the
								 * iterator; else NULL */
	Size		record_len;
	bool		memtable;		/* it is in the row log */
	LsmCachedBlock *cached;		/* segment: pinned by the iterator */
	int			row;
	bool		bottom;			/* INSERT or baseline: nothing is older */
} LsmVersion;

typedef struct LsmVersionIter
{
	Relation	rel;
	LsmTable   *table;
	LsmTid		root;
	uint64		epoch;
	uint64		counter;		/* of the view it works with */
	LsmTid		heads[2];		/* newest records in the active generation and
								 * the one being flushed */
	bool		stale;			/* out: start again */
	LsmStatLocal *stat;			/* where records are counted, NULL: nowhere */
	bool		presence;		/* columns of a cold bottom will not be asked for */
	bool		missed;			/* out: the memtable was searched in vain */
	int			met;			/* out: how often a record was asked for */
	/* private */
	int			stage;
	int			increment;
	LsmTid		chain;
	uint32		chain_seq;		/* of the record before it, 0: it is the first */
	LsmCachedBlock *cached;
	uint32		blockno;
	int			row;
	LsmVersion	version;
	LsmRecord  *loaded;			/* a record that was spilled, palloc'd */
	PGAlignedBlock copy;
} LsmVersionIter;

extern void lsm_versions_begin(LsmVersionIter *iter, Relation rel, LsmTable *table, LsmTid root);
extern LsmVersion *lsm_versions_settled(LsmVersionIter *iter);
extern LsmVersion *lsm_versions_next(LsmVersionIter *iter);
extern LsmVersion *lsm_versions_base(LsmVersionIter *iter, LsmTid base);
extern bool lsm_versions_skip_to(LsmVersionIter *iter, LsmTid vtid);
extern void lsm_versions_end(LsmVersionIter *iter);
extern bool lsm_versions_unchanged(LsmVersionIter *iter);
extern bool lsm_find_root(Relation rel, LsmTable *table, LsmTid tid, LsmTid *root);
extern void lsm_record_head(const LsmRecord *record, LsmTid tid, LsmRowHead *head);
extern void lsm_head_resolve(const LsmManifestEntry *entry, LsmSegmentReader *reader,
							 LsmRowHead *head);

/*
 * Is this record the full version that a DELTA with that base builds on?  (The
 * bottom row is, where no such version is found above it: I9.)
 */
static inline bool
lsm_version_is_base(const LsmVersion *version, LsmTid base)
{
	return version->bottom ||
		(version->head.vtid == base && LSM_REC_KIND(version->head.info) == LSM_REC_UPDATE &&
		 !(version->head.info & LSM_REC_DELTA));
}

/* ---- what an increment has touched (lsm_touched.c) ---- */

extern const LsmTouch *lsm_touched_by(Relation rel, LsmTable *table,
									  const LsmManifestEntry *entry, bool few);

/* ---- visibility (lsm_visibility.c) ---- */

typedef enum LsmXidState
{
	LSM_XID_COMMITTED,
	LSM_XID_ABORTED,
	LSM_XID_OWN,
	LSM_XID_RUNNING
} LsmXidState;

extern LsmXidState lsm_xid_state(const LsmRowHead *head);
extern bool lsm_visible_mvcc(const LsmRowHead *head, Snapshot snapshot);
extern uint16 lsm_hint_for(const LsmRowHead *head);
extern uint16 lsm_hint_for_record(const LsmRecord *record);
extern void lsm_predicate_lock_version(Relation rel, LsmTable *table, const LsmRowHead *head,
									   Snapshot snapshot);
extern void lsm_check_conflict_in(Relation rel, LsmTid root, LsmTid vtid);
extern void lsm_check_conflict_out(Relation rel, Snapshot snapshot, uint64 xid);

/* The name by which this transaction knows a version. */
static inline LsmTid
lsm_version_name(const LsmRowHead *head)
{
	return head->xid < lsm_floor() ? head->root : head->vtid;
}

/* ---- slots (lsm_slot.c) ---- */

extern const TupleTableSlotOps LsmSlotOps;

extern void lsm_slot_store(TupleTableSlot *slot, Relation rel, const LsmVersion *full,
						   uint64 xmax, uint32 cmax);
extern void lsm_slot_store_delta(TupleTableSlot *slot, Relation rel, const LsmVersion *delta);
extern void lsm_slot_ask(TupleTableSlot *slot, const int16 *asked, int n, bool copies);
extern void lsm_slot_set_whole_columns(TupleTableSlot *slot, bool whole_columns);
extern void lsm_slot_set_name(TupleTableSlot *slot, LsmTid tid);
extern LsmRecord *lsm_slot_formed(TupleTableSlot *slot, TupleDesc tupdesc, Size *len);
extern void lsm_slot_set_inserted(TupleTableSlot *slot, LsmTid tid, uint64 xid, uint32 cid,
								  uint64 xmax);
extern void lsm_slot_store_row(TupleTableSlot *slot, Relation rel, LsmCachedBlock *cached,
							   int row, const LsmRowHead *head, bool whole_columns);

struct IndexScanState;
extern void lsm_slot_set_index_scan(TupleTableSlot *slot, struct IndexScanState *scan);
extern struct IndexScanState *lsm_slot_index_scan(TupleTableSlot *slot, const int16 **asked, int *n);
extern void lsm_slot_ask_later(TupleTableSlot *slot);
extern void (*lsm_slot_decide_asked) (struct IndexScanState *scan);
extern char *lsm_slot_room(TupleTableSlot *slot);
extern void lsm_slot_begin_columns(TupleTableSlot *slot, Relation rel, LsmTid tid);

/* What is known of the version that the slot at hand has, from a view of that epoch and counter. */
typedef struct LsmNoted
{
	uint64		epoch;
	uint64		counter;
	LsmTid		root;
	LsmTid		vtid;
	LsmTid		full_tid;		/* of the full version that it is, or builds on, */
	uint16		full_natts;		/* and the columns that one knows of */
	uint16		delta_natts;	/* a DELTA that the slot has no more: columns that it knows of, */
	const bits8 *delta_cols;	/* and those that it has, a bit each; else 0 and NULL */
	uint64		xid;
	uint32		cid;
	bool		newest;			/* no record of the row was newer, nor anybody's lock below */
	LsmTid		head;			/* newest record of the active generation */
	uint32		seq;			/* newest: of the version's own record */
} LsmNoted;

extern void lsm_slot_note(TupleTableSlot *slot, const LsmNoted *noted);
extern const LsmNoted *lsm_slot_noted(void);
extern void lsm_slot_forget(void);
extern TupleTableSlot *lsm_slot_find(Relation rel, LsmTid name);
extern bool lsm_slot_is_whole(TupleTableSlot *slot);
extern LsmTid lsm_slot_full_tid(const LsmVersionIter *iter, LsmTid name, uint16 *natts);
extern uint16 lsm_slot_delta_cols(TupleTableSlot *slot, bits8 *cols);
extern bool lsm_slot_store_noted(TupleTableSlot *slot, Relation rel, LsmTid name);

/* ---- records (lsm_record.c) ---- */

/* Bytes that a record may have besides its large values. */
#define LSM_MAX_SPILLED			(64 * 1024 * 1024)

extern void lsm_record_form(Relation rel, LsmTable *table, const LsmRecord *head, Datum *values,
							bool *isnull, const bits8 *cols, LsmPointer **large,
							LsmNewRecord *new);
extern void lsm_record_free(LsmNewRecord *new);
extern bool lsm_record_form_plain(TupleDesc tupdesc, Datum *values, const bool *isnull,
								  char *buf, Size room, Size *len);
extern Size lsm_record_columns_len(const LsmRecord *record, Size len);
extern void lsm_record_form_again(const LsmRecord *head, const LsmRecord *formed,
								  Size formed_len, LsmNewRecord *new);
extern void lsm_record_renew(Relation rel, LsmTable *table, LsmNewRecord *new);
extern LsmRecord *lsm_record_load(Relation rel, LsmTable *table, const LsmRecord *record,
								  Size *len);
extern const bits8 *lsm_record_cols(const LsmRecord *record);
extern Size lsm_record_fixed(const LsmRecord *record);
extern int	lsm_record_deform_from(TupleDesc tupdesc, const LsmRecord *record, int from,
								   int natts, Size *offset, Datum *values, bool *isnull);

/* ---- rows (lsm_row.c) ---- */

/* Fetch the version of a row that a snapshot sees; slot may be NULL. */
extern bool lsm_row_fetch(Relation rel, LsmTable *table, LsmTid root, Snapshot snapshot,
						  TupleTableSlot *slot, bool *all_dead);

extern bool lsm_row_fetch_newer(Relation rel, LsmTable *table, LsmTid root, Snapshot snapshot,
								TupleTableSlot *slot);

/* Does a dirty snapshot, which has just been given a row, see another version of it? */
static inline bool
lsm_snapshot_sees_newer(Snapshot snapshot)
{
	return unlikely(snapshot->snapshot_type == SNAPSHOT_DIRTY) &&
		TransactionIdIsValid(snapshot->xmax);
}

extern bool lsm_row_is_dead(Relation rel, LsmTable *table, LsmTid root, bool marked, uint64 *xid);
extern LsmTid lsm_row_successor(Relation rel, LsmTable *table, LsmTid root, Snapshot snapshot);

/* Fetch exactly the version with that name. */
extern bool lsm_row_fetch_named(Relation rel, LsmTable *table, LsmTid tid, Snapshot snapshot,
								TupleTableSlot *slot);

/* What stands in the way of a change to, or lock of, a named version. */
typedef struct LsmJudgement
{
	TM_Result	result;
	LsmTid		root;
	LsmTid		name;			/* of the version judged */
	LsmTid		target;			/* its version TID */
	TransactionId target_xid;	/* who made it */
	uint32		target_cid;
	TM_Result	unseen_result;	/* Invisible: what it would be else */
	TransactionId wait_for;		/* BeingModified: whose end to wait for */
	uint32		cmax;			/* SelfModified, Deleted, Updated */
	TransactionId xmax;
	LsmTid		next;			/* Updated: name of the next version */
	bool		next_moved;		/* it has another root */
	LsmTid		newest;			/* name of the newest version whose transaction has ended, or
								 * is our own, if newer than the one judged */
	bool		own_change;		/* what ended the version is our own */
	bool		partition_move; /* Updated: moved to another partition */
	bool		own_lock;		/* we hold a lock at least as strong */
	bool		own_any_lock;
	bool		lockers_below;	/* a new record must say so */
	LsmTid		head;			/* newest record of the active generation */
	uint32		head_seq;
	/* what a DELTA for the next version would build on */
	LsmTid		full_tid;
	const bits8 *delta_cols;	/* columns of the version itself, if a DELTA */
	uint16		delta_natts;
	uint16		full_natts;
	LsmVersionIter iter;		/* for lsm_versions_unchanged() */
	bits8		cols_copy[MaxTupleAttributeNumber / 8 + 1];
	int			nlockers;		/* live lockers to be copied when the row moves */
	int			maxlockers;		/* places; whoever judges rows frees them */
	struct
	{
		uint64		xid;
		uint32		cid;
		uint16		strength;
	}		   *lockers;
} LsmJudgement;

/* lsm_vm.c */
#define LSM_VM_WINDOW	(128 * 1024 * 1024)

extern int	lsm_debug_vm_lbs;	/* LBs that VACUUM looks at together */

extern void lsm_vm_update(Relation rel, LsmTable *table);

extern bool lsm_row_judge_noted(Relation rel, LsmTable *table, LsmTid tid, uint32 cid,
								LsmJudgement *judgement);
extern void lsm_row_judge(Relation rel, LsmTable *table, LsmTid tid, uint32 cid,
						  LockTupleMode mode, bool last, TupleTableSlot *slot,
						  LsmJudgement *judgement);
extern bool lsm_lock_modes_conflict(LockTupleMode a, LockTupleMode b);

/* ---- the row that was written last (lsm_written.c) ---- */

extern void lsm_written_note(Relation rel, const LsmJudgement *judgement, const LsmNewRecord *new,
							 TupleTableSlot *slot);
extern bool lsm_written_fetch(const LsmVersionIter *iter, Snapshot snapshot, TupleTableSlot *slot);
extern void lsm_written_forget(void);

#endif							/* LSM_MVCC_H */
