/*-------------------------------------------------------------------------
 *
 * lsm_group.c
 *	  Groups of rows with equal values of some columns.
 *
 * In a block, rows are told apart by the codes with which it stores their
 * values; only for a new combination of codes a group is looked up by value.
 * Where there are no codes, or too many combinations, that is done for each row.
 *
 * Groups are kept in a hash table, with copies of the values of their first row.
 *
 * MEMORY
 *	  If there are more groups than memory (hash_mem) has room for, the caller takes
 *	  several passes over the table, each for a range of hashes; or gives away what he
 *	  has so far, if it need not be complete.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "lsm_codec.h"
#include "lsm_group.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#define LSM_GROUP_FIRST_SLOTS	64

/* Most combinations of codes, for each row of a block. */
#define LSM_GROUP_MAX_CODES		8

/* ---- making ---- */

/* Types whose equality is that of their bytes, or of bytes without blanks at the end. */
bool
lsm_groups_can(Oid type, Oid collation, Oid equality)
{
	Oid			basetype = getBaseType(type);

	if (lookup_type_cache(basetype, TYPECACHE_EQ_OPR)->eq_opr != equality)
		return false;
	switch (basetype)
	{
		case BOOLOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
			return OidIsValid(collation) && get_collation_isdeterministic(collation);
	}
	return false;
}

void
lsm_groups_init(LsmGroups *groups, TupleDesc tupdesc, List *columns, LsmAggregates *aggregates)
{
	ListCell   *cell;

	memset(groups, 0, sizeof(*groups));
	groups->aggregates = aggregates;
	groups->keys = palloc0(Max(list_length(columns), 1) * sizeof(LsmGroupKey));
	groups->row_values = palloc(Max(list_length(columns), 1) * sizeof(Datum));
	groups->row_isnull = palloc(Max(list_length(columns), 1) * sizeof(bool));
	foreach(cell, columns)
	{
		LsmGroupKey *key = &groups->keys[groups->nkeys++];
		Form_pg_attribute att = TupleDescAttr(tupdesc, lfirst_int(cell) - 1);

		key->attnum = lfirst_int(cell);
		key->typlen = att->attlen;
		key->typbyval = att->attbyval;
		key->blanks = getBaseType(att->atttypid) == BPCHAROID;
		Assert(key->typbyval || key->typlen == -1);
	}
	groups->context = AllocSetContextCreate(CurrentMemoryContext, "lsm groups",
											ALLOCSET_DEFAULT_SIZES);
	groups->block_context = CurrentMemoryContext;
	groups->limit = get_hash_memory_limit();
	groups->end_hash = (uint64) PG_UINT32_MAX + 1;
}

void
lsm_groups_reset(LsmGroups *groups)
{
	MemoryContextReset(groups->context);
	groups->n = 0;
	groups->slots = LSM_GROUP_FIRST_SLOTS;
	groups->table = MemoryContextAllocZero(groups->context, groups->slots * sizeof(LsmGroup *));
	groups->all = MemoryContextAlloc(groups->context, groups->slots * sizeof(LsmGroup *));
}

bool
lsm_groups_full(LsmGroups *groups)
{
	return groups->n > 1 && groups->nkeys > 0 &&
		MemoryContextMemAllocated(groups->context, true) > groups->limit;
}

/* ---- values ---- */

/* The bytes of a string that count. */
static const char *
lsm_group_bytes(const LsmGroupKey *key, Datum value, int *len)
{
	struct varlena *string = PG_DETOAST_DATUM_PACKED(value);
	const char *bytes = VARDATA_ANY(string);

	*len = VARSIZE_ANY_EXHDR(string);
	while (key->blanks && *len > 0 && bytes[*len - 1] == ' ')
		(*len)--;
	return bytes;
}

/* A value passed by value, whatever the unused bits of its Datum are. */
static int64
lsm_group_number(const LsmGroupKey *key, Datum value)
{
	switch (key->typlen)
	{
		case 1:
			return DatumGetChar(value);
		case 2:
			return DatumGetInt16(value);
		case 4:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

static uint32
lsm_group_hash(const LsmGroups *groups, const Datum *values, const bool *isnull)
{
	uint32		hash = 0;

	for (int i = 0; i < groups->nkeys; i++)
	{
		const LsmGroupKey *key = &groups->keys[i];
		uint32		one = 0;
		int			len;

		if (isnull[i])
			one = 0x9E3779B9;
		else if (key->typbyval)
		{
			uint64		number = (uint64) lsm_group_number(key, values[i]);

			one = murmurhash32((uint32) number ^ murmurhash32((uint32) (number >> 32)));
		}
		else
		{
			const char *bytes = lsm_group_bytes(key, values[i], &len);

			one = hash_bytes((const unsigned char *) bytes, len);
		}
		hash = hash_combine(hash, one);
	}
	return murmurhash32(hash);
}

static bool
lsm_group_equal(const LsmGroups *groups, const LsmGroup *group, const Datum *values,
				const bool *isnull)
{
	for (int i = 0; i < groups->nkeys; i++)
	{
		const LsmGroupKey *key = &groups->keys[i];
		const char *a;
		const char *b;
		int			a_len;
		int			b_len;

		if (isnull[i] != group->isnull[i])
			return false;
		if (isnull[i])
			continue;
		if (key->typbyval)
		{
			if (lsm_group_number(key, values[i]) != lsm_group_number(key, group->values[i]))
				return false;
			continue;
		}
		a = lsm_group_bytes(key, values[i], &a_len);
		b = lsm_group_bytes(key, group->values[i], &b_len);
		if (a_len != b_len || memcmp(a, b, a_len) != 0)
			return false;
	}
	return true;
}

/* ---- the hash table ---- */

static void
lsm_groups_grow(LsmGroups *groups)
{
	pfree(groups->table);
	groups->slots *= 2;
	groups->all = repalloc_huge(groups->all, groups->slots * sizeof(LsmGroup *));
	groups->table = MemoryContextAllocExtended(groups->context,
											   groups->slots * sizeof(LsmGroup *),
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint32 i = 0; i < groups->n; i++)
	{
		uint32		slot = groups->all[i]->hash & (groups->slots - 1);

		while (groups->table[slot] != NULL)
			slot = (slot + 1) & (groups->slots - 1);
		groups->table[slot] = groups->all[i];
	}
}

static LsmGroup *
lsm_groups_make(LsmGroups *groups, uint32 hash, const Datum *values, const bool *isnull)
{
	MemoryContext caller = MemoryContextSwitchTo(groups->context);
	int			nstates = groups->aggregates->n;
	LsmGroup   *group = palloc(sizeof(LsmGroup));

	group->hash = hash;
	group->stamp = 0;
	group->local = 0;
	group->values = palloc(Max(groups->nkeys, 1) * sizeof(Datum));
	group->isnull = palloc(Max(groups->nkeys, 1) * sizeof(bool));
	for (int i = 0; i < groups->nkeys; i++)
	{
		LsmGroupKey *key = &groups->keys[i];

		group->isnull[i] = isnull[i];
		if (isnull[i])
			group->values[i] = 0;
		else if (key->typbyval)
			group->values[i] = values[i];
		else
			group->values[i] = PointerGetDatum(PG_DETOAST_DATUM_COPY(values[i]));
	}
	group->states = palloc(Max(nstates, 1) * sizeof(LsmAggregateState));
	MemoryContextSwitchTo(caller);
	lsm_aggregates_clear(groups->aggregates, group->states);
	return group;
}

/* The group of these values; NULL: another pass has it. */
static LsmGroup *
lsm_groups_find(LsmGroups *groups, const Datum *values, const bool *isnull)
{
	uint32		hash = lsm_group_hash(groups, values, isnull);
	uint32		slot = hash & (groups->slots - 1);
	LsmGroup   *group;

	if (hash < groups->first_hash || hash >= groups->end_hash)
		return NULL;
	while ((group = groups->table[slot]) != NULL)
	{
		if (group->hash == hash && lsm_group_equal(groups, group, values, isnull))
			return group;
		slot = (slot + 1) & (groups->slots - 1);
	}
	group = lsm_groups_make(groups, hash, values, isnull);
	groups->table[slot] = group;
	groups->all[groups->n++] = group;
	if (groups->n * 2 > groups->slots)
		lsm_groups_grow(groups);
	return group;
}

LsmGroup *
lsm_groups_find_row(LsmGroups *groups, TupleTableSlot *slot)
{
	for (int i = 0; i < groups->nkeys; i++)
		groups->row_values[i] = slot_getattr(slot, groups->keys[i].attnum,
											 &groups->row_isnull[i]);
	return lsm_groups_find(groups, groups->row_values, groups->row_isnull);
}

/* ---- blocks ---- */

/* The number of a group in the block. */
static uint16
lsm_groups_number(LsmGroups *groups, LsmGroup *group)
{
	if (group == NULL)
		return LSM_GROUP_NONE;
	if (group->stamp != groups->stamp)
	{
		group->stamp = groups->stamp;
		group->local = groups->nlocal;
		groups->locals[groups->nlocal] = group;
		groups->states[groups->nlocal] = group->states;
		groups->nlocal++;
	}
	return group->local;
}

static void
lsm_groups_make_room(LsmGroups *groups, int rows)
{
	MemoryContext caller;

	if (rows <= groups->room)
		return;
	caller = MemoryContextSwitchTo(groups->block_context);
	if (groups->room > 0)
	{
		pfree(groups->locals);
		pfree(groups->states);
		pfree(groups->group);
		for (int i = 0; i < groups->nkeys; i++)
			pfree(groups->keys[i].codes);
	}
	groups->locals = palloc(rows * sizeof(LsmGroup *));
	groups->states = palloc(rows * sizeof(LsmAggregateState *));
	groups->group = palloc(rows * sizeof(uint16));
	for (int i = 0; i < groups->nkeys; i++)
		groups->keys[i].codes = palloc(rows * sizeof(uint16));
	groups->room = rows;
	MemoryContextSwitchTo(caller);
}

/* One number for the codes of all keys, in the codes of the first; returns how many, or -1. */
static int
lsm_groups_combine(LsmGroups *groups, LsmBlock *block)
{
	int			rows = lsm_block_rows(block);
	int			max = LSM_GROUP_MAX_CODES * rows;
	uint16	   *combined = groups->keys[0].codes;
	int			all = 1;

	for (int i = 0; i < groups->nkeys; i++)
	{
		LsmGroupKey *key = &groups->keys[i];
		int			n = 1;

		if (key->attnum <= lsm_block_natts(block))
			n = lsm_block_codes(block, key->attnum, key->codes);
		else
			memset(key->codes, 0, rows * sizeof(uint16));
		if (n < 0 || (int64) n * all > Min(max, PG_UINT16_MAX))
			return -1;
		for (int row = 0; row < rows && i > 0; row++)
			combined[row] += key->codes[row] * all;
		all *= n;
	}
	return all;
}

/* The values of a row of the block. */
static void
lsm_groups_read_row(LsmGroups *groups, LsmBlock *block, int row)
{
	for (int i = 0; i < groups->nkeys; i++)
	{
		AttrNumber	attnum = groups->keys[i].attnum;

		groups->row_isnull[i] = true;
		if (attnum <= lsm_block_natts(block))
			groups->row_values[i] = lsm_block_value(block, row, attnum, &groups->row_isnull[i]);
	}
}

static uint16
lsm_groups_map_row(LsmGroups *groups, LsmBlock *block, int row)
{
	lsm_groups_read_row(groups, block, row);
	return lsm_groups_number(groups, lsm_groups_find(groups, groups->row_values,
													 groups->row_isnull));
}

/* Look a group up for each combination of codes, of which there are ncodes. */
static void
lsm_groups_map_codes(LsmGroups *groups, LsmBlock *block, const uint16 *selected, int n,
					 int ncodes)
{
	const uint16 *codes = groups->keys[0].codes;
	uint16	   *at;

	if (ncodes > groups->at_room)
	{
		if (groups->at != NULL)
			pfree(groups->at);
		groups->at_room = ncodes;
		groups->at = MemoryContextAlloc(groups->block_context, ncodes * sizeof(uint16));
	}
	at = groups->at;
	/* what is not known yet has the number that no block has groups for */
	for (int i = 0; i < ncodes; i++)
		at[i] = LSM_BLOCK_MAX_ROWS;
	for (int i = 0; i < n; i++)
	{
		int			row = selected[i];
		uint16		number = at[codes[row]];

		if (number == LSM_BLOCK_MAX_ROWS)
			number = at[codes[row]] = lsm_groups_map_row(groups, block, row);
		groups->group[row] = number;
	}
}

/* Take the rows of other passes out. */
static int
lsm_groups_drop_others(LsmGroups *groups, uint16 *selected, int n, uint8 *mask)
{
	int			kept = 0;

	for (int i = 0; i < n; i++)
	{
		int			row = selected[i];

		if (groups->group[row] == LSM_GROUP_NONE)
			mask[row] = 0;
		else
			selected[kept++] = row;
	}
	return kept;
}

int
lsm_groups_map(LsmGroups *groups, LsmBlock *block, uint16 *selected, int n, uint8 *mask)
{
	int			ncodes;

	lsm_groups_make_room(groups, lsm_block_rows(block));
	groups->nlocal = 0;
	groups->stamp++;
	ncodes = lsm_groups_combine(groups, block);
	if (ncodes >= 0)
		lsm_groups_map_codes(groups, block, selected, n, ncodes);
	else
	{
		for (int i = 0; i < n; i++)
			groups->group[selected[i]] = lsm_groups_map_row(groups, block, selected[i]);
	}
	if (groups->first_hash == 0 && groups->end_hash > PG_UINT32_MAX)
		return n;
	return lsm_groups_drop_others(groups, selected, n, mask);
}
