/*-------------------------------------------------------------------------
 *
 * lsm_near.c
 *	  Root pages for rows that move: which one, by where the row belongs.
 *
 * A row that moves (UPDATE of an indexed column), or comes back after a DELETE in the same
 * transaction, gets a new root.  On whatever page is open it would lie among rows that
 * only moved at the same time, and who reads a hundred neighbours of an index would come to as
 * many pages, later blocks, as have moved.  So a batch of root pages is filled side by
 * side, each with the rows of one span: neighbours stay neighbours.
 *
 * WHAT NEIGHBOURS ARE
 *	  Rows whose roots were near each other.  But the order of roots fades: rows that have moved
 *	  in different batches are apart from then on.  So if the table has a primary key of one
 *	  column that is an integer or a time, and roots are mostly in its order, neighbours are
 *	  those by the key.  A sample of the latest moves, roots and keys, tells whether it is so.
 *	  A row that is inserted has no root before; it is placed only by its key.
 *
 * SPANS
 *	  They are such that each is likely to get as many rows: quantiles of the sample (knots), and
 *	  between these parts of equal length, as a few moves say little of where the next ones go.  A
 *	  span has a page of its own, and another one of the batch's last pages, which are kept for
 *	  that, when it is full.  When these are gone a row goes to the page of a span beside its own,
 *	  and if these have no room, either, to any open page.  Pages of one range follow each other in
 *	  LBs as their spans do.
 *
 * BATCHES
 *	  Rows of different batches are apart, also if they are neighbours, so there should be few in
 *	  a generation.  The first one is a trial, with up to four times as many pages as moved rows
 *	  have filled before it.  If it finds its rows, the next one is to last to the end of the
 *	  generation: it has what moves fill until then if they go on as they did, and a quarter more,
 *	  as pages do not fill evenly; but no more than LSM_NEAR_PAGES, and no more than half of what
 *	  the table's rows fill, about, or neighbours would be of different spans, and it is all in
 *	  vain if moves end.  Another one is made when this one is nearly full, or rows find no room in
 *	  it.  One that is too large, as VACUUM ends the generation, costs less than two: spans are
 *	  shorter, and pages not as full.
 *
 *	  A generation whose forerunner placed its rows, and is still being flushed, needs no trial: it
 *	  takes over the sample, and has as many pages as moves have filled there, and a quarter more.
 *
 *	  Where moves do not come back to where they were (a queue, whose rows change once, soon
 *	  after they were inserted), all of them belong behind the last quantile, and most of the batch
 *	  is never begun.  The next one waits until four times as many rows, or those of
 *	  LSM_NEAR_UNIT pages, have found no room, and has but a quarter of the pages that moved rows
 *	  have filled; if it is no better there is none after it.
 *
 * All of it is a hint that goes with the memtable index of the generation: if that is dropped,
 * what is left of a batch is never begun, as after a restart.  Readers find pages in a range
 * that nobody has begun in any case.
 *
 * LOCKING
 *	  Where rows are appended gen_lock is held shared, so that the index stays.  What is not
 *	  atomic is guarded by the index's mutex, but for the knots: they are written while
 *	  there is no batch, and who has searched them looks whether the batch is still the same.
 *	  Nor is the sample guarded, in which a key may come with another's root.
 *
 *	  A batch is made with no lock held, as that changes the metapage.  Who finds that
 *	  one is due makes it, once he has appended his row, and others leave it to him, unless
 *	  LSM_NEAR_PATIENCE moves go by: an error may have stopped him.  Of two the second finds
 *	  out once he is the editor of the metapage.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "lsm_manifest.h"
#include "lsm_near.h"
#include "lsm_rowlog.h"
#include "lsm_stop.h"
#include "lsm_try.h"
#include "lsm_wal.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/date.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* Rows that a memtable has changed, and pages that moved rows have filled, before it is worth it. */
#define LSM_NEAR_ROWS			512
#define LSM_NEAR_LEAST			4

/* Moves after which who was to make a batch is not waited for any more. */
#define LSM_NEAR_PATIENCE		1024

/* Pages of a batch: a range is the unit of large ones. */
#define LSM_NEAR_MIN_PAGES		16
#define LSM_NEAR_UNIT			128
#define LSM_NEAR_PAGES			(LSM_NEAR_UNIT * LSM_NEAR_PIECES)

/* Of a trial, times those that were filled before it; what comes after a poor one, and waits for. */
#define LSM_NEAR_GROWTH			4
#define LSM_NEAR_POOR			4
#define LSM_NEAR_MAX_POOR		2

/* The next ones have so many for each that is likely to be filled. */
#define LSM_NEAR_SLACK			1.25

/* And no more than one for so many that the table's rows would fill. */
#define LSM_NEAR_SHARE			2

/* At least that part of its bound is thought to be left of a generation. */
#define LSM_NEAR_REST			0.125

/* One page in so many has no span at first. */
#define LSM_NEAR_SPARE			8

/* Another batch is due when one row in so many has found no room. */
#define LSM_NEAR_PASSED			128

/* Pages beside a span's own that its rows may go to. */
#define LSM_NEAR_REACH			16

/* Moves by which spans are chosen, and how many there are between two quantiles. */
#define LSM_NEAR_SAMPLE			1536
#define LSM_NEAR_STEP			32
#define LSM_NEAR_KNOTS			(LSM_NEAR_SAMPLE / LSM_NEAR_STEP + 1)

/* Places by roots: parts of an LB. */
#define LSM_NEAR_LB_BITS		8
#define LSM_NEAR_NO_ROOT		PG_UINT32_MAX

/* No batch is made any more for a memtable that is as full as this. */
#define LSM_NEAR_FILL			0.9

/* A move of the sample. */
typedef struct LsmNearMove
{
	uint32		root;			/* its place, or LSM_NEAR_NO_ROOT */
	int64		key;			/* 0: none */
} LsmNearMove;

typedef struct LsmNear
{
	pg_atomic_uint32 moves;		/* in this generation, from some time on, and those taken over */
	uint32		shift;			/* of roots, so that their places fit 32 bits */
	double		fill;			/* of the generation, at that time */
	uint64		bytes;			/* of rows that have moved, or come; */
	uint64		came;			/* of these the latter */
	uint64		before;			/* bytes in the generation before of rows such as it placed */
	bool		making;			/* somebody makes a batch, */
	uint32		making_since;	/* when there were so many moves */
	uint32		npoor;			/* batches that ended as poor ones, */
	bool		proven;			/* and one that did not, after these */
	bool		by_key;			/* of the batch */
	uint32		batch;			/* its number, or of the one that is being made */
	uint32		npages;			/* 0: there is none */
	uint32		nspans;
	uint32		nused;			/* pages that belong to a span, the first ones */
	LsmOpenPage pieces[LSM_NEAR_PIECES];	/* its pages: where these begin */
	uint32		ends[LSM_NEAR_PIECES];	/* and how many there are up to the end of each */
	uint64		placed;			/* bytes of rows that went to it, */
	uint64		passed;			/* and of those for which there was no room */
	bits8		begun[LSM_NEAR_PAGES / 8];
	bits8		full[LSM_NEAR_PAGES / 8];
	uint16		pages[LSM_NEAR_PAGES];	/* of each span, that is filled now */
	uint32		nknots;
	int64		knots[LSM_NEAR_KNOTS];	/* places, between which there are as many spans each */
	uint32		roots[LSM_NEAR_SAMPLE];
	int64		keys[LSM_NEAR_SAMPLE];
} LsmNear;

StaticAssertDecl(sizeof(LsmNear) <= LSM_EXTRA_BYTES, "the index has room for it");

#define lsm_near_bit(bits, n)	((bits)[(n) / 8] & (1 << (n) % 8))
#define lsm_near_set(bits, n)	((bits)[(n) / 8] |= 1 << (n) % 8)

/* ---- where rows belong ---- */

/*
 * The column whose values are the primary key and can be taken for numbers, 0 if there is none,
 * and its type, below domains.
 */
static AttrNumber
lsm_near_key_column(Relation rel, LsmTable *table)
{
	Oid			primary = lsm_compat_primary_index(rel);
	HeapTuple	tuple;
	Form_pg_index index;

	if (!OidIsValid(primary))
		return 0;
	if (table->primary_index == primary)
		return table->primary_column;
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(primary));
	if (!HeapTupleIsValid(tuple))
		return 0;
	index = (Form_pg_index) GETSTRUCT(tuple);
	table->primary_column = index->indnkeyatts == 1 ? index->indkey.values[0] : 0;
	ReleaseSysCache(tuple);
	if (table->primary_column > 0)
		table->primary_type = getBaseType(TupleDescAttr(RelationGetDescr(rel),
														table->primary_column - 1)->atttypid);
	table->primary_index = primary;
	return table->primary_column;
}

/* A value as a number that is in the order of its type; false: there is none. */
static bool
lsm_near_number(Oid type, Datum value, int64 *number)
{
	switch (type)
	{
		case INT2OID:
			*number = DatumGetInt16(value);
			return true;
		case INT4OID:
			*number = DatumGetInt32(value);
			return true;
		case INT8OID:
			*number = DatumGetInt64(value);
			return true;
		case OIDOID:
			*number = DatumGetObjectId(value);
			return true;
		case DATEOID:
			*number = DatumGetDateADT(value);
			return true;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*number = DatumGetTimestampTz(value);
			return true;
		default:
			return false;
	}
}

/* Has the generation that is flushed now something of this?  gen_lock is held, or it is a hint. */
static inline bool
lsm_near_has_before(LsmTableShared *shared)
{
	LsmMemIndex *before = lsm_table_index(shared, shared->flushing);

	return shared->flushing != 0 && before->generation == shared->flushing && before->extra != 0;
}

static inline bool
lsm_near_likely(LsmTable *table)
{
	LsmTableShared *shared = table->shared;
	LsmMemIndex *index = lsm_table_index(shared, shared->generation);

	return index->extra != 0 || pg_atomic_read_u32(&index->entries) >= LSM_NEAR_ROWS ||
		lsm_near_has_before(shared);
}

bool
lsm_near_find(Relation rel, LsmTable *table, TupleTableSlot *slot, LsmTid root, bool comes,
			  LsmNeighbour *row)
{
	AttrNumber	column;

	if (!lsm_near_likely(table))
		return false;
	row->root = root;
	row->comes = comes;
	row->has_key = false;
	column = lsm_near_key_column(rel, table);
	if (column > 0)
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, column, &isnull);

		row->has_key = !isnull && lsm_near_number(table->primary_type, value, &row->key);
	}
	return row->has_key || !comes;
}

static inline uint32
lsm_near_root(const LsmNear *near, LsmTid root)
{
	uint64		place = (uint64) LSM_TID_LB(root) << LSM_NEAR_LB_BITS |
		((LSM_TID_OFFSET(root) << LSM_NEAR_LB_BITS) / (LSM_MAX_OFFSET + 1));

	return root == LSM_INVALID_TID ? LSM_NEAR_NO_ROOT :
		(uint32) Min(place >> near->shift, LSM_NEAR_NO_ROOT - 1);
}

/* The number of a place's span. */
static uint32
lsm_near_span(const LsmNear *near, uint32 nspans, int64 place)
{
	const int64 *knots = near->knots;
	uint32		lo = 0;
	uint32		hi = near->nknots;
	double		part;

	/* the last knot at or before it */
	while (lo < hi)
	{
		uint32		mid = (lo + hi) / 2;

		if (knots[mid] <= place)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return 0;
	if (lo >= near->nknots)
		return nspans - 1;
	part = (double) ((uint64) place - knots[lo - 1]) / ((uint64) knots[lo] - knots[lo - 1]);
	return Min((lo - 1 + part) / (near->nknots - 1) * nspans, nspans - 1);
}

/* ---- the batch ---- */

/*
 * What the generation before has found out holds for this one, if one of its batches has found
 * its rows, or the last one does so.
 */
static void
lsm_near_inherit(LsmNear *near, LsmNear *before)
{
	if (before->shift != near->shift || before->npoor > 0 ||
		(!before->proven && (before->placed < LSM_NEAR_MIN_PAGES * LSM_PAGE_PAYLOAD ||
							 before->passed > before->placed / LSM_NEAR_SPARE)))
		return;
	near->before = before->bytes - (before->by_key ? 0 : before->came);
	pg_atomic_write_u32(&near->moves, Min(pg_atomic_read_u32(&before->moves), LSM_NEAR_SAMPLE));
	memcpy(near->roots, before->roots, sizeof(near->roots));
	memcpy(near->keys, before->keys, sizeof(near->keys));
}

/* Under the index's mutex, before anybody else sees it.  gen_lock is held. */
static void
lsm_near_init(void *extra, void *arg)
{
	LsmNear    *near = extra;
	LsmTable   *table = arg;
	uint64		lbs = table->view != NULL ? table->view->meta.next_root_lb : 0;

	memset(near, 0, offsetof(LsmNear, pages));
	pg_atomic_init_u32(&near->moves, 0);
	near->fill = lsm_rowlog_fill(table);
	/* another one than before the index was dropped, whose maker may still be at it */
	near->batch = pg_prng_uint32(&pg_global_prng_state);
	/* as many LBs again may come */
	while ((lbs * 2) << LSM_NEAR_LB_BITS >> near->shift > PG_UINT32_MAX)
		near->shift++;
	if (lsm_near_has_before(table->shared))
		lsm_near_inherit(near, lsm_memindex_extra(lsm_table_index(table->shared,
																  table->shared->flushing),
												  sizeof(LsmNear), NULL, NULL));
}

/* What the active generation of the table has of this; NULL: nothing. */
static LsmNear *
lsm_near_get(LsmTable *table, LsmMemIndex *index)
{
	/* it may be another generation than it was when the row was looked at */
	if (!lsm_near_likely(table))
		return NULL;
	return lsm_memindex_extra(index, sizeof(LsmNear), lsm_near_init, table);
}

/* Did most of the batch find no rows?  The mutex is held. */
static inline bool
lsm_near_is_poor(const LsmNear *near)
{
	return near->placed < (uint64) near->npages * LSM_PAGE_PAYLOAD / 2;
}

/* Is another batch to be made?  The mutex is held. */
static bool
lsm_near_is_due(const LsmNear *near)
{
	uint64		room = (uint64) near->npages * LSM_PAGE_PAYLOAD;

	if (near->bytes < LSM_NEAR_LEAST * LSM_PAGE_PAYLOAD)
		return false;
	if (lsm_near_is_poor(near))
		return near->passed >= Min(room * LSM_NEAR_POOR, LSM_NEAR_UNIT * LSM_PAGE_PAYLOAD) &&
			near->npoor + 1 < LSM_NEAR_MAX_POOR;
	return near->placed + near->passed >= room / 8 * 7 ||
		(near->nused == near->npages && near->passed >= room / LSM_NEAR_PASSED);
}

bool
lsm_near_begin(LsmTable *table, const LsmNeighbour *row, Size len, LsmNearSearch *search)
{
	LsmMemIndex *index = lsm_table_index(table->shared, table->shared->generation);
	LsmNear    *near = lsm_near_get(table, index);
	uint32		moves;
	uint32		nspans;
	bool		by_key;

	if (near == NULL)
		return false;
	/* that it takes of a page */
	len = MAXALIGN(len) + sizeof(ItemIdData);
	moves = pg_atomic_fetch_add_u32(&near->moves, 1);
	near->roots[moves % LSM_NEAR_SAMPLE] = lsm_near_root(near, row->root);
	near->keys[moves % LSM_NEAR_SAMPLE] = row->has_key ? row->key : 0;

	SpinLockAcquire(&index->mutex);
	near->bytes += len;
	if (row->comes)
		near->came += len;
	if (lsm_near_is_due(near) &&
		(!near->making || (int32) (moves - near->making_since) >= LSM_NEAR_PATIENCE))
	{
		near->making = true;
		near->making_since = moves;
		table->near_due = true;
	}
	search->batch = near->batch;
	nspans = near->npages > 0 ? near->nspans : 0;
	by_key = near->by_key;
	SpinLockRelease(&index->mutex);
	if (nspans == 0 || (by_key ? !row->has_key : row->comes))
		return false;
	search->len = len;
	search->tried = 0;
	search->given = false;
	search->span = lsm_near_span(near, nspans,
								 by_key ? row->key : lsm_near_root(near, row->root));
	return true;
}

/* The n-th span whose page is looked at: those beside the row's own, the next ones first. */
static inline uint32
lsm_near_nth(uint32 span, uint32 n)
{
	return n % 2 == 1 ? span + (n + 1) / 2 : span - n / 2;
}

bool
lsm_near_next(LsmTable *table, LsmNearSearch *search)
{
	LsmMemIndex *index = lsm_table_index(table->shared, table->shared->generation);
	LsmNear    *near = lsm_near_get(table, index);
	bool		found = false;

	if (near == NULL)
		return false;
	SpinLockAcquire(&index->mutex);
	/* else it has ended, and knots may be others */
	if (near->batch == search->batch && near->npages > 0)
	{
		/* in a trial a span is not to have all of it */
		uint32		reach = Min(LSM_NEAR_REACH, near->nspans / 4);

		if (search->given)
			near->placed -= Min(search->len, near->placed);
		while (!found && search->tried <= reach)
		{
			/* before the first one it is a very large number */
			search->at = lsm_near_nth(search->span, search->tried++);
			if (search->at >= near->nspans)
				continue;
			search->page = near->pages[search->at];
			found = !lsm_near_bit(near->full, search->page);
		}
		search->given = found;
		if (found)
		{
			int			piece = 0;
			uint32		from;

			while (near->ends[piece] <= search->page)
				piece++;
			from = piece == 0 ? 0 : near->ends[piece - 1];
			search->block = near->pieces[piece].block + (search->page - from);
			search->lb = near->pieces[piece].lb + (search->page - from);
			search->fresh = !lsm_near_bit(near->begun, search->page);
			lsm_near_set(near->begun, search->page);
			near->placed += search->len;
		}
		else
			near->passed += search->len;
	}
	SpinLockRelease(&index->mutex);
	if (found && search->fresh)
		pg_atomic_fetch_sub_u32(&index->unbegun, 1);
	return found;
}

void
lsm_near_full(LsmTable *table, LsmNearSearch *search, bool another)
{
	LsmMemIndex *index = lsm_table_index(table->shared, table->shared->generation);
	LsmNear    *near = lsm_near_get(table, index);

	if (near == NULL)
		return;
	SpinLockAcquire(&index->mutex);
	if (near->batch == search->batch && near->npages > 0)
	{
		lsm_near_set(near->full, search->page);
		if (another && near->pages[search->at] == search->page && near->nused < near->npages)
			near->pages[search->at] = near->nused++;
		if (near->pages[search->at] != search->page)
			search->tried--;	/* it has another one now */
	}
	SpinLockRelease(&index->mutex);
}

/* ---- making one ---- */

/* What is known of the batch that is to be made. */
typedef struct LsmNearPlan
{
	Relation	rel;
	LsmTable   *table;
	uint64		incarnation;
	uint32		generation;
	uint32		batch;			/* that it is to follow */
	uint32		npages;			/* that it may have */
	bool		by_key;
	uint32		n;				/* moves of the sample */
	LsmNearMove *moves;
	uint32		npieces;
	LsmRowRange pieces[LSM_NEAR_PIECES];
} LsmNearPlan;

/* What there has been of this generation. */
typedef struct LsmNearPast
{
	uint64		moved;			/* bytes of rows that had a root, */
	uint64		came;			/* and of those that came back */
	uint64		before;			/* in the one before, of such as it placed */
	bool		first;			/* there is no batch, */
	bool		poor;			/* or it has found too few rows */
	uint32		shift;
	double		fill;			/* of the generation before the first move */
} LsmNearPast;

static int
lsm_near_cmp_roots(const void *a, const void *b)
{
	uint32		x = ((const LsmNearMove *) a)->root;
	uint32		y = ((const LsmNearMove *) b)->root;

	return x < y ? -1 : x > y;
}

static int
lsm_near_cmp_keys(const void *a, const void *b)
{
	int64		x = ((const LsmNearMove *) a)->key;
	int64		y = ((const LsmNearMove *) b)->key;

	return x < y ? -1 : x > y;
}

/*
 * Are moves, sorted by roots, also in the order of keys?  Compared are those that are some steps
 * apart and not of one LB, where rows have no order, and three of each five have to ascend.
 */
static bool
lsm_near_ordered(const LsmNearMove *moves, uint32 n, uint32 shift)
{
	uint32		lb_bits = LSM_NEAR_LB_BITS - Min(shift, LSM_NEAR_LB_BITS);
	uint32		apart = n / 128 + 1;
	uint32		pairs = 0;
	uint32		ascend = 0;

	for (uint32 i = apart; i < n; i++)
	{
		if (moves[i].root >> lb_bits == moves[i - apart].root >> lb_bits)
			continue;
		pairs++;
		ascend += moves[i].key > moves[i - apart].key;
	}
	return ascend * UINT64CONST(5) > pairs * UINT64CONST(3);
}

static inline int64
lsm_near_place(const LsmNearMove *move, bool by_key)
{
	return by_key ? move->key : (int64) move->root;
}

/* Sorted moves to different places: if most are, the sample does not know them all. */
static uint32
lsm_near_distinct(const LsmNearPlan *plan)
{
	uint32		distinct = 1;

	for (uint32 i = 1; i < plan->n; i++)
		distinct += lsm_near_place(&plan->moves[i], plan->by_key) !=
			lsm_near_place(&plan->moves[i - 1], plan->by_key);
	return distinct > plan->n / 2 ? PG_UINT32_MAX : distinct;
}

/*
 * Quantiles of the sorted moves, with the first and the last of them, but of equal ones only one;
 * their number.
 */
static uint32
lsm_near_divide(const LsmNearPlan *plan, int64 *knots)
{
	uint32		steps = Max(plan->n / LSM_NEAR_STEP, 1);
	uint32		nknots = 0;

	for (uint32 i = 0; i <= steps; i++)
	{
		uint32		at = Min(i * plan->n / steps, plan->n - 1);
		int64		place = lsm_near_place(&plan->moves[at], plan->by_key);

		if (nknots == 0 || place > knots[nknots - 1])
			knots[nknots++] = place;
	}
	return nknots;
}

/* The sample, and what there has been of this generation; false: no batch is due. */
static bool
lsm_near_look(LsmNearPlan *plan, LsmNearPast *past)
{
	LsmTable   *table = plan->table;
	LsmTableShared *shared = table->shared;
	LsmMemIndex *index;
	LsmNear    *near;
	bool		due = false;

	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	index = lsm_table_index(shared, shared->generation);
	near = lsm_near_get(table, index);
	if (near != NULL)
	{
		plan->incarnation = shared->incarnation;
		plan->generation = shared->generation;
		plan->n = Min(pg_atomic_read_u32(&near->moves), LSM_NEAR_SAMPLE);
		for (uint32 i = 0; i < plan->n; i++)
		{
			plan->moves[i].root = near->roots[i];
			plan->moves[i].key = near->keys[i];
		}
		past->shift = near->shift;
		SpinLockAcquire(&index->mutex);
		due = plan->n > 0 && lsm_near_is_due(near);
		past->moved = near->bytes - near->came;
		past->came = near->came;
		past->fill = near->fill;
		past->before = near->before;
		past->first = near->npages == 0;
		past->poor = lsm_near_is_poor(near);
		plan->batch = near->batch;
		SpinLockRelease(&index->mutex);
	}
	LWLockRelease(&shared->gen_lock);
	return due;
}

/* Pages that the table's rows fill, or would fill, about, but for those that have moved just now. */
static uint64
lsm_near_table_pages(LsmTable *table, uint64 filled)
{
	const LsmView *view = table->view;
	uint32		begun = table->shared->gen_pages;
	uint32		flushing = table->shared->flushing;
	uint64		pages = begun - Min(begun, filled);
	uint64		bytes = 0;

	for (int i = 0; view != NULL && i < view->nbase; i++)
		bytes += view->base[i]->raw_bytes;
	for (uint32 i = 0; view != NULL && flushing != 0 && i < view->meta.nranges; i++)
		if (view->meta.ranges[i].kind == LSM_RANGE_ROOT &&
			view->meta.ranges[i].generation <= flushing)
			pages += view->meta.ranges[i].pages.npages;
	return pages + bytes / LSM_PAGE_PAYLOAD;
}

/*
 * How many pages the batch may have, as moved rows have filled so many in this generation, which
 * has come to that part of its bound.
 */
static uint32
lsm_near_most(LsmNearPlan *plan, const LsmNearPast *past, uint64 filled, double fill)
{
	uint32		buffers = RelationUsesLocalBuffers(plan->rel) ? num_temp_buffers / 8 : NBuffers / 32;
	uint64		most = Min(buffers, LSM_NEAR_PAGES);
	double		left = Max(LSM_FLUSH_FILL - fill, LSM_NEAR_REST);
	double		rest;

	most = Min(most, lsm_near_distinct(plan) / 8);
	if (past->poor)
		return Min(most, filled / LSM_NEAR_POOR);
	if (past->first && past->before > 0)
		rest = past->before / LSM_PAGE_PAYLOAD * (left / LSM_FLUSH_FILL);
	else if (!past->first && fill > past->fill)
		rest = filled / (fill - past->fill) * left;
	else
		return Min(most, Min(filled * LSM_NEAR_GROWTH, LSM_NEAR_UNIT));
	most = Min(most, lsm_near_table_pages(plan->table, filled) / LSM_NEAR_SHARE);
	return Min(most, rest * LSM_NEAR_SLACK);
}

/* Choose order and size of the batch; false: there is to be none. */
static bool
lsm_near_choose(LsmNearPlan *plan)
{
	LsmNearPast past;
	uint32		rooted;
	uint64		filled;
	uint32		most;
	double		fill = lsm_rowlog_fill(plan->table);

	if (!lsm_near_look(plan, &past) || fill > LSM_NEAR_FILL)
		return false;
	qsort(plan->moves, plan->n, sizeof(LsmNearMove), lsm_near_cmp_roots);
	for (rooted = plan->n; rooted > 0 && plan->moves[rooted - 1].root == LSM_NEAR_NO_ROOT;)
		rooted--;
	plan->by_key = lsm_near_ordered(plan->moves, rooted, past.shift);
	if (plan->by_key)
		qsort(plan->moves, plan->n, sizeof(LsmNearMove), lsm_near_cmp_keys);
	else
		plan->n = rooted;		/* others are not placed */
	filled = (past.moved + (plan->by_key ? past.came : 0)) / LSM_PAGE_PAYLOAD;
	if (plan->n == 0 || filled < LSM_NEAR_LEAST)
		return false;

	most = lsm_near_most(plan, &past, filled, fill);
	if (most < LSM_NEAR_MIN_PAGES)
		return false;
	/* ranges that are left are of some use if all have such sizes */
	plan->npages = most - most % LSM_NEAR_UNIT;
	if (plan->npages == 0)
		plan->npages = pg_prevpower2_32(most);
	return true;
}

/*
 * As the editor of the metapage: has nobody else made it, and is the generation still the active
 * one?  claim: then the batch that is there ends, and the next one is ours.
 */
static bool
lsm_near_is_ours(LsmNearPlan *plan, bool claim)
{
	LsmTableShared *shared = plan->table->shared;
	LsmMemIndex *index;
	LsmNear    *near;
	bool		ours = false;

	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	index = lsm_table_index(shared, shared->generation);
	if (shared->incarnation == plan->incarnation && shared->generation == plan->generation &&
		(near = lsm_near_get(plan->table, index)) != NULL)
	{
		SpinLockAcquire(&index->mutex);
		ours = near->batch == plan->batch;
		if (ours && claim)
		{
			if (near->npages > 0)
			{
				near->proven = !lsm_near_is_poor(near);
				near->npoor = near->proven ? 0 : near->npoor + 1;
			}
			near->npages = 0;
			near->placed = near->passed = 0;
			plan->batch = ++near->batch;
		}
		SpinLockRelease(&index->mutex);
	}
	LWLockRelease(&shared->gen_lock);
	return ours;
}

static void
lsm_near_take(void *arg)
{
	LsmNearPlan *plan = arg;
	LsmEdit    *edit = lsm_edit_begin(plan->rel, plan->table, LSM_OP_RANGE);

	if (lsm_near_is_ours(plan, false))
		plan->npieces = lsm_space_near_ranges(edit, plan->npages, plan->pieces);
	if (plan->npieces > 0 && lsm_near_is_ours(plan, true))
		lsm_edit_commit(edit);
	else
	{
		plan->npieces = 0;
		lsm_edit_abandon(edit);
	}
}

/* The batch is there, unless its generation is not the active one any more. */
static void
lsm_near_install(LsmNearPlan *plan)
{
	LsmTableShared *shared = plan->table->shared;
	LsmMemIndex *index;
	LsmNear    *near;

	LWLockAcquire(&shared->gen_lock, LW_SHARED);
	index = lsm_table_index(shared, shared->generation);
	if (shared->incarnation == plan->incarnation && shared->generation == plan->generation &&
		(near = lsm_near_get(plan->table, index)) != NULL)
	{
		uint32		npages = 0;
		uint32		steps = Max(plan->n / LSM_NEAR_STEP, 1);
		uint32		nknots;
		int64		knots[LSM_NEAR_KNOTS];

		for (uint32 i = 0; i < plan->npieces; i++)
			npages += plan->pieces[i].pages.npages;
		pg_atomic_fetch_add_u32(&index->unbegun, npages);
		nknots = lsm_near_divide(plan, knots);

		SpinLockAcquire(&index->mutex);
		if (near->batch == plan->batch)
		{
			uint32		end = 0;

			memcpy(near->knots, knots, nknots * sizeof(int64));
			near->nknots = nknots;
			/* of quantiles that are equal the pages are spare ones, too */
			near->nspans = (npages - npages / LSM_NEAR_SPARE) * (nknots - 1) / steps;
			near->nspans = Max(near->nspans, 1);
			for (uint32 i = 0; i < plan->npieces; i++)
			{
				near->pieces[i].block = plan->pieces[i].pages.start;
				near->pieces[i].lb = plan->pieces[i].lb;
				near->ends[i] = end += plan->pieces[i].pages.npages;
			}
			for (uint32 i = 0; i < near->nspans; i++)
				near->pages[i] = i;
			near->npages = npages;
			near->nused = near->nspans;
			near->by_key = plan->by_key;
			near->placed = near->passed = 0;
			memset(near->begun, 0, sizeof(near->begun));
			memset(near->full, 0, sizeof(near->full));
			near->making = false;
		}
		SpinLockRelease(&index->mutex);
	}
	LWLockRelease(&shared->gen_lock);
}

/*
 * It is only a hint: nobody's statement fails for it.  (After an error, rows that this transaction
 * has deleted do not count as such in estimates: lsm_table_subxact_abort().)
 */
void
lsm_near_make(Relation rel, LsmTable *table)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm near pages",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	LsmNearPlan *plan = palloc0(sizeof(LsmNearPlan));

	table->near_due = false;
	plan->rel = rel;
	plan->table = table;
	plan->moves = palloc(LSM_NEAR_SAMPLE * sizeof(LsmNearMove));
	if (lsm_near_choose(plan))
	{
		ErrorData  *error;

		LSM_STOP("near-range");
		error = lsm_try(lsm_near_take, plan);
		LSM_STOP("near-install");
		if (error == NULL && plan->npieces > 0)
			lsm_near_install(plan);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}
