/*-------------------------------------------------------------------------
 *
 * lsm_test_walpack.c
 *	  Tests of lsm_walpack.c, called by sql/walpack.sql.
 *
 * lsm_test_walpack_random(seed, rounds): random records and heads of APPEND must be
 * the same after packing and unpacking, byte for byte, and no longer than promised;
 * the first problem, or "sound".
 *
 * lsm_test_walpack_update(lb): bytes that a short DELTA takes, of a row with that LB.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "lsm_walpack.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsm_test_walpack_random);
PG_FUNCTION_INFO_V1(lsm_test_walpack_update);

/* A number of any length, short ones being frequent. */
static uint64
lsm_test_number(pg_prng_state *state, int bits)
{
	return pg_prng_uint64(state) >> (64 - pg_prng_uint64_range(state, 1, bits));
}

static LsmTid
lsm_test_tid(pg_prng_state *state)
{
	return LSM_TID(lsm_test_number(state, 32), lsm_test_number(state, 16));
}

/* Returns its length. */
static Size
lsm_test_record(pg_prng_state *state, uint64 xid, LsmRecord *record)
{
	static const uint16 kinds[] = {LSM_REC_INSERT, LSM_REC_UPDATE, LSM_REC_DELETE, LSM_REC_MOVED,
	LSM_REC_LOCK};
	bool		usual = pg_prng_bool(state);
	Size		fixed;
	Size		at;
	Size		len;

	memset(record, 0, LSM_MAX_RECORD);
	record->info = kinds[pg_prng_uint64_range(state, 0, lengthof(kinds) - 1)] |
		(lsm_test_number(state, 14) & ~(LSM_REC_KIND_MASK | LSM_REC_DELTA));
	record->xid = usual ? xid : lsm_test_number(state, 64);
	record->cid = lsm_test_number(state, 32);
	fixed = LSM_REC_KIND(record->info) == LSM_REC_INSERT ? SizeOfLsmInsertRecord : SizeOfLsmRecord;
	if (fixed == SizeOfLsmRecord)
	{
		record->root = lsm_test_tid(state);
		record->prev = usual ? LSM_INVALID_TID : lsm_test_tid(state);
		record->base = usual ? record->root : lsm_test_number(state, 1) * lsm_test_tid(state);
		record->seq = lsm_test_number(state, 32);
	}
	if (LSM_REC_KIND(record->info) > LSM_REC_UPDATE)
	{
		record->info &= ~(LSM_REC_HASNULL | LSM_REC_SPILLED);
		return fixed;
	}
	record->natts = lsm_test_number(state, 11);
	if (LSM_REC_KIND(record->info) == LSM_REC_UPDATE && pg_prng_bool(state))
		record->info |= LSM_REC_DELTA;
	at = fixed;
	if (record->info & LSM_REC_SPILLED)
		len = at + 16;
	else
	{
		at += ((record->info & LSM_REC_DELTA) ? 1 : 0) * ((record->natts + 7) / 8);
		at += ((record->info & LSM_REC_HASNULL) ? 1 : 0) * ((record->natts + 7) / 8);
		len = MAXALIGN(at) + lsm_test_number(state, 12);
	}
	for (Size i = fixed; i < len; i++)
		if (i < at || i >= MAXALIGN(at))
			((char *) record)[i] = (char) pg_prng_uint32(state);
	return len;
}

static const char *
lsm_test_one_record(pg_prng_state *state)
{
	LsmRecord  *before = palloc(LSM_MAX_RECORD);
	LsmRecord  *after = palloc(LSM_MAX_RECORD);
	char	   *packed = palloc(LSM_MAX_RECORD + LSM_PACK_OVERHEAD);
	uint64		xid = lsm_test_number(state, 64);
	Size		len = lsm_test_record(state, xid, before);
	Size		packed_len = lsm_record_pack(before, len, xid, packed);
	Size		after_len;
	const char *problem = NULL;

	memset(after, 0x7F, LSM_MAX_RECORD);
	if (packed_len > len + LSM_PACK_OVERHEAD)
		problem = "packed record is too long";
	else if (lsm_record_unpack(packed, xid, after, &after_len) != packed + packed_len)
		problem = "unpacking ends elsewhere";
	else if (after_len != len || memcmp(before, after, len) != 0)
		problem = "unpacked record differs";
	pfree(before);
	pfree(after);
	pfree(packed);
	return problem;
}

static const char *
lsm_test_one_head(pg_prng_state *state)
{
	LsmAppend	before;
	LsmAppend	after;
	char		packed[LSM_APPEND_PACKED];

	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	before.incarnation = pg_prng_uint64(state);
	before.generation = lsm_test_number(state, 32);
	before.npages = pg_prng_bool(state) ? 2 : 1;
	before.clears = pg_prng_bool(state);
	before.vm_lb = before.clears ? lsm_test_number(state, 32) : InvalidBlockNumber;
	for (int i = 0; i < before.npages; i++)
	{
		before.pages[i].lb = lsm_test_number(state, 32);
		before.pages[i].first = pg_prng_uint64_range(state, 1, LSM_MAX_OFFSET);
		before.pages[i].nrecords = pg_prng_uint64_range(state, 1, LSM_MAX_OFFSET);
		before.pages[i].init = pg_prng_bool(state);
	}
	lsm_append_unpack(packed, lsm_append_pack(&before, packed), &after);
	return memcmp(&before, &after, sizeof(before)) == 0 ? NULL : "unpacked head differs";
}

Datum
lsm_test_walpack_random(PG_FUNCTION_ARGS)
{
	int			rounds = PG_GETARG_INT32(1);
	pg_prng_state state;
	const char *problem = NULL;

	pg_prng_seed(&state, (uint64) PG_GETARG_INT32(0));
	for (int i = 0; i < rounds && problem == NULL; i++)
	{
		problem = lsm_test_one_record(&state);
		if (problem == NULL)
			problem = lsm_test_one_head(&state);
	}
	PG_RETURN_TEXT_P(cstring_to_text(problem != NULL ? problem : "sound"));
}

/* One column of eight, of eight bytes: what a counter that goes up writes. */
Datum
lsm_test_walpack_update(PG_FUNCTION_ARGS)
{
	union
	{
		LsmRecord	record;
		char		bytes[SizeOfLsmRecord + 8 + 8];
	}			update;
	char		packed[sizeof(update) + LSM_PACK_OVERHEAD];

	memset(&update, 0, sizeof(update));
	update.record.xid = 1000000;
	update.record.info = LSM_REC_UPDATE | LSM_REC_DELTA | LSM_REC_HASNULL |
		(LockTupleNoKeyExclusive << LSM_REC_STRENGTH_SHIFT);
	update.record.natts = 8;
	update.record.root = LSM_TID((BlockNumber) PG_GETARG_INT32(0), 200);
	update.record.base = update.record.root;
	update.record.seq = 1;
	PG_RETURN_INT32(lsm_record_pack(&update.record, sizeof(update), 1000000, packed));
}
