/*-------------------------------------------------------------------------
 *
 * lsm_zone.c
 *	  Zone maps: bounds of each column over some consecutive blocks.
 *
 * A zone covers a power of two of blocks, the same for the whole segment.
 * Zones are collected block by block and merged in pairs until all of them
 * together are about 1.5 % of the data.
 *
 * Only types whose order this file knows have bounds.  Strings are compared
 * as bytes, whatever their collation: that is good for equality under every
 * deterministic collation and for ranges under C, and does not change when a
 * collation does.  Bounds longer than LSM_ZONE_MAX_BYTES are shortened, the
 * upper one upwards, so bounds of strings need not be values, nor even valid
 * text: they may be compared as bytes and not shown.
 *
 * A block that is copied from another segment gets the zone that it had there, which may
 * have been that of others as well: then it is made anew for columns of numbers.  That of another
 * column is LOOSE: what it says of all rows (no null, none below the minimum) is true, but the
 * minimum need not be there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "segment/lsm_segment_format.h"
#include "segment/lsm_select.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#define LSM_ZONE_MAX_BLOCKS		1024

/* Merge pairs early when the collected ones need this much memory. */
#define LSM_ZONE_MAX_MEMORY		(4 * 1024 * 1024)

/* The order of a type (of the base type, for a domain). */
uint8
lsm_zone_order(Oid basetype)
{
	switch (basetype)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case MONEYOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return LSM_ORDER_SIGNED;
		case BOOLOID:
		case CHAROID:
		case OIDOID:
		case XID8OID:
		case PG_LSNOID:
			return LSM_ORDER_UNSIGNED;
		case FLOAT4OID:
			return LSM_ORDER_FLOAT4;
		case FLOAT8OID:
			return LSM_ORDER_FLOAT8;
		case NUMERICOID:
			return LSM_ORDER_NUMERIC;
		case TEXTOID:
		case VARCHAROID:
		case BYTEAOID:
		case UUIDOID:
			return LSM_ORDER_BYTES;
		case BPCHAROID:
			return LSM_ORDER_BLANKS;
	}
	return LSM_ORDER_NONE;
}

/* Can a column of that type have bounds of that order? */
bool
lsm_zone_order_fits(uint8 order, const LsmColumnType *type)
{
	switch (order)
	{
		case LSM_ORDER_NONE:
			return true;
		case LSM_ORDER_SIGNED:
		case LSM_ORDER_UNSIGNED:
			return type->typbyval;
		case LSM_ORDER_FLOAT4:
			return type->typbyval && type->typlen == 4;
		case LSM_ORDER_FLOAT8:
			return type->typbyval && type->typlen == 8;
		case LSM_ORDER_NUMERIC:
		case LSM_ORDER_BLANKS:
			return type->typlen == -1;
		case LSM_ORDER_BYTES:
			return !type->typbyval && (type->typlen == -1 ||
									   (type->typlen > 0 && type->typlen <= LSM_ZONE_MAX_BYTES));
	}
	return false;
}

static inline bool
lsm_zone_is_number(uint8 order)
{
	return order >= LSM_ORDER_SIGNED && order <= LSM_ORDER_FLOAT8;
}

LsmZoneMap *
lsm_zone_create(int natts, const LsmColumnEntry *columns)
{
	LsmZoneMap *map = palloc0(sizeof(LsmZoneMap));

	map->natts = natts;
	map->orders = palloc(Max(natts, 1) * sizeof(uint8));
	map->typlens = palloc(Max(natts, 1) * sizeof(int16));
	for (int i = 0; i < natts; i++)
	{
		map->orders[i] = columns[i].order;
		map->typlens[i] = columns[i].typlen;
	}
	map->zone_blocks = 1;
	return map;
}

/* ---------------------------------------------------------------------
 * Bounds
 * --------------------------------------------------------------------- */

static float8
lsm_zone_float(uint8 order, int64 number)
{
	if (order == LSM_ORDER_FLOAT4)
		return (float8) DatumGetFloat4(Int32GetDatum((int32) number));
	return DatumGetFloat8(Int64GetDatum(number));
}

/* Is a below b? */
static inline bool
lsm_zone_number_less(uint8 order, int64 a, int64 b)
{
	switch (order)
	{
		case LSM_ORDER_SIGNED:
			return a < b;
		case LSM_ORDER_UNSIGNED:
			return (uint64) a < (uint64) b;
		default:
			return float8_lt(lsm_zone_float(order, a), lsm_zone_float(order, b));
	}
}

static int
lsm_zone_compare(uint8 order, const LsmZoneBound *a, const LsmZoneBound *b)
{
	if (lsm_zone_is_number(order))
	{
		if (lsm_zone_number_less(order, a->u.number, b->u.number))
			return -1;
		return lsm_zone_number_less(order, b->u.number, a->u.number);
	}
	if (order == LSM_ORDER_NUMERIC)
		return DatumGetInt32(DirectFunctionCall2(numeric_cmp,
												 PointerGetDatum(a->u.bytes),
												 PointerGetDatum(b->u.bytes)));
	else
	{
		int			cmp = memcmp(a->u.bytes, b->u.bytes, Min(a->len, b->len));

		return cmp != 0 ? cmp : (int) a->len - (int) b->len;
	}
}

/* Shorten a string to a bound; false if there is none. */
static bool
lsm_zone_set_bytes(LsmZoneBound *bound, const char *value, Size len, bool upper)
{
	bound->len = Min(len, LSM_ZONE_MAX_BYTES);
	memcpy(bound->u.bytes, value, bound->len);
	if (len > LSM_ZONE_MAX_BYTES && upper)
	{
		while (bound->len > 0 && bound->u.bytes[bound->len - 1] == 0xFF)
			bound->len--;
		if (bound->len == 0)
			return false;
		bound->u.bytes[bound->len - 1]++;
	}
	return true;
}

/* Put b into a. */
static void
lsm_zone_merge(uint8 order, LsmZoneColumn *a, const LsmZoneColumn *b)
{
	if ((b->flags & LSM_ZONE_VALUE) && !(b->flags & LSM_ZONE_UNBOUNDED) &&
		!(a->flags & LSM_ZONE_UNBOUNDED))
	{
		if (!(a->flags & LSM_ZONE_VALUE) || lsm_zone_compare(order, &b->min, &a->min) < 0)
			a->min = b->min;
		if (!(a->flags & LSM_ZONE_VALUE) || lsm_zone_compare(order, &b->max, &a->max) > 0)
			a->max = b->max;
	}
	a->flags |= b->flags;
}

/* ---------------------------------------------------------------------
 * Collecting
 * --------------------------------------------------------------------- */

static void
lsm_zone_coarsen(LsmZoneMap *map)
{
	uint32		zones = (map->zones + 1) / 2;

	for (uint32 zone = 0; zone < zones; zone++)
	{
		LsmZoneColumn *to = map->columns + (Size) zone * map->natts;
		LsmZoneColumn *from = map->columns + (Size) zone * 2 * map->natts;

		memmove(to, from, map->natts * sizeof(LsmZoneColumn));
		if (zone * 2 + 1 < map->zones)
		{
			for (int i = 0; i < map->natts; i++)
				lsm_zone_merge(map->orders[i], &to[i], &from[map->natts + i]);
		}
	}
	map->zones = zones;
	map->zone_blocks *= 2;
}

void
lsm_zone_begin_block(LsmZoneMap *map)
{
	Size		zone_bytes = map->natts * sizeof(LsmZoneColumn);

	if (map->blocks++ % map->zone_blocks != 0 || map->natts == 0)
		return;
	if (map->zones > 1 && map->zones % 2 == 0 &&
		map->zones * zone_bytes > LSM_ZONE_MAX_MEMORY &&
		map->zone_blocks < LSM_ZONE_MAX_BLOCKS)
	{
		lsm_zone_coarsen(map);

		/* The zone that begins now is a whole one, since zones was even. */
	}
	if (map->zones == map->max_zones)
	{
		uint32		max_zones = Max(map->max_zones * 2, 16);

		if (map->columns == NULL)
			map->columns = palloc_extended(max_zones * zone_bytes, MCXT_ALLOC_HUGE);
		else
			map->columns = repalloc_huge(map->columns, max_zones * zone_bytes);
		map->max_zones = max_zones;
	}
	memset(map->columns + (Size) map->zones * map->natts, 0, zone_bytes);
	map->zones++;
}

/* Bounds of numbers, of which there are some. */
static void
lsm_zone_of_numbers(LsmZoneColumn *zone, uint8 order, int16 typlen, const int64 *numbers, int n)
{
	int64		min = numbers[0];
	int64		max = numbers[0];

	/* Integers of 4 bytes come sign-extended. */
	if (order == LSM_ORDER_UNSIGNED && typlen == 4)
	{
		min = max = (uint32) min;
		for (int i = 1; i < n; i++)
		{
			min = Min(min, (int64) (uint32) numbers[i]);
			max = Max(max, (int64) (uint32) numbers[i]);
		}
	}
	else
		for (int i = 1; i < n; i++)
		{
			if (lsm_zone_number_less(order, numbers[i], min))
				min = numbers[i];
			if (lsm_zone_number_less(order, max, numbers[i]))
				max = numbers[i];
		}
	zone->min.u.number = min;
	zone->max.u.number = max;
}

static void
lsm_zone_of_scaled(LsmZoneColumn *zone, int64 min, int64 max, uint8 scale)
{
	zone->min.len = lsm_numeric_build(min, scale, (char *) zone->min.u.bytes);
	zone->max.len = lsm_numeric_build(max, scale, (char *) zone->max.u.bytes);
}

/* Bounds of numerics that were not scaled; false if there are none. */
static bool
lsm_zone_add_numerics(LsmZoneColumn *zone, const LsmStrings *strings)
{
	for (int i = 0; i < strings->n; i++)
	{
		const char *value = strings->data + strings->offsets[i];
		LsmZoneBound bound;

		if (VARATT_IS_4B_C(value) || VARATT_IS_1B_E(value) ||
			!lsm_zone_set_bytes(&bound, value, strings->lengths[i], false) ||
			strings->lengths[i] > LSM_ZONE_MAX_BYTES)
			return false;
		if (i == 0 || lsm_zone_compare(LSM_ORDER_NUMERIC, &bound, &zone->min) < 0)
			zone->min = bound;
		if (i == 0 || lsm_zone_compare(LSM_ORDER_NUMERIC, &bound, &zone->max) > 0)
			zone->max = bound;
	}
	return true;
}

static bool
lsm_zone_add_strings(LsmZoneColumn *zone, uint8 order, const LsmColumn *column,
					 const LsmStrings *strings)
{
	const char *min = NULL;
	const char *max = NULL;
	Size		min_len = 0;
	Size		max_len = 0;

	for (int i = 0; i < strings->n; i++)
	{
		const char *value = strings->data + strings->offsets[i];
		Size		len = strings->lengths[i];
		int			cmp;

		if (column->type.typlen == -1)
		{
			if (VARATT_IS_4B_C(value) || VARATT_IS_1B_E(value))
				return false;
			len = VARSIZE_ANY_EXHDR(value);
			value = VARDATA_ANY(value);
		}
		if (order == LSM_ORDER_BLANKS)
		{
			while (len > 0 && value[len - 1] == ' ')
				len--;
		}
		if (min == NULL)
		{
			min = max = value;
			min_len = max_len = len;
			continue;
		}
		cmp = memcmp(value, min, Min(len, min_len));
		if (cmp < 0 || (cmp == 0 && len < min_len))
		{
			min = value;
			min_len = len;
			continue;
		}
		cmp = memcmp(value, max, Min(len, max_len));
		if (cmp > 0 || (cmp == 0 && len > max_len))
		{
			max = value;
			max_len = len;
		}
	}
	return lsm_zone_set_bytes(&zone->min, min, min_len, false) &&
		lsm_zone_set_bytes(&zone->max, max, max_len, true);
}

/* Put a column of the open block, just encoded, into the open zone. */
void
lsm_zone_add(LsmZoneMap *map, int attno, const LsmColumn *column, const LsmChunkFacts *facts)
{
	uint8		order = map->orders[attno];
	LsmZoneColumn zone;
	bool		bounded = true;

	zone.flags = column->n < column->rows ? LSM_ZONE_NULL : 0;
	if (column->n > 0)
	{
		zone.flags |= LSM_ZONE_VALUE;
		if (order == LSM_ORDER_NONE)
			bounded = false;
		else if (order == LSM_ORDER_SIGNED)
		{
			zone.min.u.number = facts->min;
			zone.max.u.number = facts->max;
		}
		else if (lsm_zone_is_number(order))
			lsm_zone_of_numbers(&zone, order, column->type.typlen, column->ints, column->n);
		else if (facts->scaled)
			lsm_zone_of_scaled(&zone, facts->min, facts->max, facts->scale);
		else if (order == LSM_ORDER_NUMERIC)
			bounded = lsm_zone_add_numerics(&zone, facts->distinct);
		else
			bounded = lsm_zone_add_strings(&zone, order, column, facts->distinct);
		if (!bounded)
			zone.flags |= LSM_ZONE_UNBOUNDED;
	}
	lsm_zone_merge(order, map->columns + (Size) (map->zones - 1) * map->natts + attno, &zone);
}

/* ---------------------------------------------------------------------
 * Bytes
 * --------------------------------------------------------------------- */

static void
lsm_zone_put_bound(StringInfo out, uint8 order, const LsmZoneBound *bound)
{
	if (lsm_zone_is_number(order))
	{
		int			bytes = lsm_encode_signed_bytes(bound->u.number);

		appendStringInfoCharMacro(out, (char) bytes);
		lsm_encode_signed(out, bound->u.number, bytes);
	}
	else
	{
		appendStringInfoCharMacro(out, (char) bound->len);
		appendBinaryStringInfo(out, (const char *) bound->u.bytes, bound->len);
	}
}

static void
lsm_zone_put(StringInfo out, uint8 order, const LsmZoneColumn *zone)
{
	appendStringInfoCharMacro(out, (char) zone->flags);
	if ((zone->flags & LSM_ZONE_VALUE) && !(zone->flags & LSM_ZONE_UNBOUNDED))
	{
		lsm_zone_put_bound(out, order, &zone->min);
		lsm_zone_put_bound(out, order, &zone->max);
	}
}

/*
 * Append all zones, merged until they are a small part of stored_bytes.
 */
void
lsm_zone_finish(LsmZoneMap *map, uint64 stored_bytes, StringInfo out)
{
	uint64		budget = stored_bytes / LSM_ZONE_DIVISOR + LSM_ZONE_MIN_BUDGET;
	int			start = out->len;

	for (;;)
	{
		for (Size i = 0; i < (Size) map->zones * map->natts; i++)
			lsm_zone_put(out, map->orders[i % map->natts], &map->columns[i]);
		if ((uint64) (out->len - start) <= budget || map->zones <= 1 ||
			map->zone_blocks >= LSM_ZONE_MAX_BLOCKS)
			break;
		out->len = start;
		lsm_zone_coarsen(map);
	}
}

/* Step over one bound; false if it is not sound. */
static bool
lsm_zone_skip_bound(const uint8 **p, const uint8 *end, uint8 order, int16 typlen)
{
	uint8		len;

	if (*p >= end)
		return false;
	len = *(*p)++;
	if (lsm_zone_is_number(order) ? len > 8 : len > LSM_ZONE_MAX_BYTES)
		return false;
	if (len > end - *p)
		return false;
	if (typlen > 0 && !lsm_zone_is_number(order) && len != typlen)
		return false;
	if (order == LSM_ORDER_NUMERIC)
	{
		LsmZoneBound bound;

		/* A whole varlena with at least a numeric's header. */
		memcpy(bound.u.bytes, *p, len);
		if (len < VARHDRSZ_SHORT + sizeof(uint16) || VARATT_IS_1B_E(bound.u.bytes) ||
			VARATT_IS_4B_C(bound.u.bytes) ||
			VARSIZE_ANY(bound.u.bytes) != len ||
			VARSIZE_ANY_EXHDR(bound.u.bytes) < sizeof(uint16))
			return false;
	}
	*p += len;
	return true;
}

/* Step over the bounds of one column; false if they are not sound. */
bool
lsm_zone_skip(const uint8 **p, const uint8 *end, uint8 order, int16 typlen)
{
	uint8		flags;

	if (*p >= end)
		return false;
	flags = *(*p)++;
	if (flags & ~LSM_ZONE_KNOWN_FLAGS)
		return false;
	if (!(flags & LSM_ZONE_VALUE) || (flags & LSM_ZONE_UNBOUNDED))
		return true;
	if (order == LSM_ORDER_NONE)
		return false;
	return lsm_zone_skip_bound(p, end, order, typlen) &&
		lsm_zone_skip_bound(p, end, order, typlen);
}

/* The same where lsm_zone_skip() has been before, and found them sound. */
const uint8 *
lsm_zone_step(const uint8 *p)
{
	uint8		flags = *p++;

	if (!(flags & LSM_ZONE_VALUE) || (flags & LSM_ZONE_UNBOUNDED))
		return p;
	p += 1 + *p;
	return p + 1 + *p;
}

static int64
lsm_zone_get_number(const uint8 *bytes, uint8 len)
{
	uint64		number = 0;

	for (int i = 0; i < len; i++)
		number |= (uint64) bytes[i] << (8 * i);
	if (len > 0 && len < 8 && (bytes[len - 1] & 0x80))
		number |= ~UINT64CONST(0) << (8 * len);
	return (int64) number;
}

static Datum
lsm_zone_get_bound(const uint8 **p, uint8 order, const LsmColumnType *type)
{
	uint8		len = *(*p)++;
	const uint8 *bytes = *p;

	*p += len;
	if (lsm_zone_is_number(order))
	{
		int64		number = lsm_zone_get_number(bytes, len);

		switch (type->typlen)
		{
			case 1:
				return CharGetDatum((char) number);
			case 2:
				return Int16GetDatum((int16) number);
			case 4:
				return Int32GetDatum((int32) number);
			default:
				return Int64GetDatum((int64) number);
		}
	}
	if (order == LSM_ORDER_NUMERIC || type->typlen > 0)
	{
		void	   *result = palloc(len);

		memcpy(result, bytes, len);
		return PointerGetDatum(result);
	}
	return PointerGetDatum(cstring_to_text_with_len((const char *) bytes, len));
}

/* A bound as it was when it was put. */
static void
lsm_zone_load_bound(const uint8 **p, uint8 order, LsmZoneBound *bound)
{
	memset(bound, 0, sizeof(*bound));
	bound->len = **p;
	if (lsm_zone_is_number(order))
		bound->u.number = lsm_zone_get_number(*p + 1, bound->len);
	else
		memcpy(bound->u.bytes, *p + 1, bound->len);
	*p += 1 + bound->len;
}

/*
 * The zone of a column of a block that is there as bytes, if it has numbers.  rows: one for each
 * row of the block, in room for as many numbers and marks.
 */
static bool
lsm_zone_of_block(LsmBlock *block, int attnum, uint8 order, int16 typlen, const uint16 *rows,
				  LsmNumbers *numbers, LsmZoneColumn *zone)
{
	int			n = lsm_block_rows(block);
	int			some = 0;

	if ((!lsm_zone_is_number(order) && order != LSM_ORDER_NUMERIC) ||
		!lsm_block_numbers(block, attnum, rows, n, numbers))
		return false;
	for (int i = 0; i < n; i++)
		if (!numbers->nulls || numbers->present[i])
			numbers->values[some++] = numbers->values[i];
	zone->flags = some < n ? LSM_ZONE_NULL : 0;
	if (some == 0)
		return true;
	zone->flags |= LSM_ZONE_VALUE;
	lsm_zone_of_numbers(zone, lsm_zone_is_number(order) ? order : LSM_ORDER_SIGNED, typlen,
						numbers->values, some);
	if (order == LSM_ORDER_NUMERIC)
		lsm_zone_of_scaled(zone, zone->min.u.number, zone->max.u.number, numbers->scale);
	return true;
}

/*
 * Put a zone of another segment with the same columns, found sound, into the open
 * one: for a block that is copied.  p: NULL if it has none.  block: NULL if the zone is that of
 * this block alone, and its bounds are values of rows.  Else it may be looser than it would have
 * to be, and stay so: where the block has numbers, their own bounds take its place.  except: the
 * columns whose values are not those of the block, by number from 0; NULL: there are none.
 */
void
lsm_zone_copy(LsmZoneMap *map, const uint8 *p, const uint8 *end, LsmBlock *block,
			  const bool *except)
{
	LsmNumbers	numbers;
	uint16	   *rows = NULL;

	if (block != NULL)
	{
		int			n = lsm_block_rows(block);

		rows = palloc(n * sizeof(uint16));
		for (int i = 0; i < n; i++)
			rows[i] = i;
		numbers.values = palloc(n * sizeof(int64));
		numbers.present = palloc(n);
	}

	for (int i = 0; i < map->natts; i++)
	{
		LsmZoneColumn zone;

		zone.flags = LSM_ZONE_NULL | LSM_ZONE_VALUE | LSM_ZONE_UNBOUNDED;
		if (p != NULL)
		{
			const uint8 *at = p;

			zone.flags = *at++;
			if ((zone.flags & LSM_ZONE_VALUE) && !(zone.flags & LSM_ZONE_UNBOUNDED))
			{
				lsm_zone_load_bound(&at, map->orders[i], &zone.min);
				lsm_zone_load_bound(&at, map->orders[i], &zone.max);
			}
			(void) lsm_zone_skip(&p, end, map->orders[i], map->typlens[i]);
			Assert(p == at);
			if (block != NULL)
				zone.flags |= LSM_ZONE_LOOSE;
		}
		if (except != NULL && except[i])
			continue;
		if (block != NULL)
			(void) lsm_zone_of_block(block, i + 1, map->orders[i], map->typlens[i], rows, &numbers,
									 &zone);
		lsm_zone_merge(map->orders[i], map->columns + (Size) (map->zones - 1) * map->natts + i,
					   &zone);
	}
	if (block != NULL)
	{
		pfree(rows);
		pfree(numbers.values);
		pfree(numbers.present);
	}
}

/* Append the bounds of all columns over all zones, like one zone. */
void
lsm_zone_put_bounds(LsmZoneMap *map, StringInfo out)
{
	for (int i = 0; i < map->natts; i++)
	{
		LsmZoneColumn all = {0};

		for (uint32 zone = 0; zone < map->zones; zone++)
			lsm_zone_merge(map->orders[i], &all, map->columns + (Size) zone * map->natts + i);
		lsm_zone_put(out, map->orders[i], &all);
	}
}

/* Append one column's bounds over all zones, which are sound and begin at starts. */
void
lsm_zone_unite(const uint8 *zones, const uint32 *starts, uint32 n, int column, uint8 order,
			   StringInfo out)
{
	LsmZoneColumn all = {0};

	for (uint32 i = 0; i < n; i++)
	{
		const uint8 *p = zones + starts[i];
		LsmZoneColumn zone;

		for (int j = 0; j < column; j++)
			p = lsm_zone_step(p);
		zone.flags = *p++;
		if ((zone.flags & LSM_ZONE_VALUE) && !(zone.flags & LSM_ZONE_UNBOUNDED))
		{
			lsm_zone_load_bound(&p, order, &zone.min);
			lsm_zone_load_bound(&p, order, &zone.max);
		}
		lsm_zone_merge(order, &all, &zone);
	}
	lsm_zone_put(out, order, &all);
}

/*
 * Read the bounds of one column, which lsm_zone_skip has found sound.  False
 * if they are not known.  Results that are not passed by value are palloc'd.
 */
bool
lsm_zone_get(const uint8 *p, uint8 order, const LsmColumnType *type, LsmZone *zone)
{
	uint8		flags = *p++;

	zone->has_null = (flags & LSM_ZONE_NULL) != 0;
	zone->has_value = (flags & LSM_ZONE_VALUE) != 0;
	zone->loose = (flags & LSM_ZONE_LOOSE) != 0;
	zone->min = zone->max = (Datum) 0;
	if (flags & LSM_ZONE_UNBOUNDED)
		return false;
	if (zone->has_value)
	{
		zone->min = lsm_zone_get_bound(&p, order, type);
		zone->max = lsm_zone_get_bound(&p, order, type);
	}
	return true;
}
