/*-------------------------------------------------------------------------
 *
 * lsm_bounds.c
 *	  Bounds of the columns of a whole segment, also of one that is not opened.
 *
 * They are all zones merged into one, and lie in a section of their own right before the
 * properties, so that the last pages of a segment tell them, with the types of its columns.
 * Segments that were written before there was that section have them made of their zones
 * when they are open.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_segment_format.h"

struct LsmBounds
{
	uint64		uid;
	uint32		natts;			/* 0: nothing is known */
	uint32		zone_bytes;
	LsmColumnEntry columns[FLEXIBLE_ARRAY_MEMBER];	/* then the zone, of its first column on */
};

static inline Size
lsm_bounds_room(uint32 natts, Size zone_bytes)
{
	return offsetof(LsmBounds, columns) + natts * sizeof(LsmColumnEntry) + zone_bytes;
}

static inline uint8 *
lsm_bounds_of_columns(const LsmBounds *bounds)
{
	return (uint8 *) (bounds->columns + bounds->natts);
}

static LsmBounds *
lsm_bounds_make(MemoryContext context, uint64 uid, uint32 natts, const LsmColumnEntry *columns,
				const uint8 *zone, Size zone_bytes)
{
	LsmBounds  *bounds = MemoryContextAlloc(context, lsm_bounds_room(natts, zone_bytes));

	bounds->uid = uid;
	bounds->natts = natts;
	bounds->zone_bytes = (uint32) zone_bytes;
	if (natts > 0)
	{
		memcpy(bounds->columns, columns, natts * sizeof(LsmColumnEntry));
		memcpy(lsm_bounds_of_columns(bounds), zone, zone_bytes);
	}
	return bounds;
}

/* Is it one zone of these columns, no more and no less? */
static bool
lsm_bounds_sound(uint32 natts, const LsmColumnEntry *columns, const uint8 *zone, Size len)
{
	const uint8 *p = zone;
	LsmColumnType type;

	for (uint32 i = 0; i < natts; i++)
		if (!lsm_reader_column_type(&columns[i], &type) ||
			!lsm_zone_skip(&p, zone + len, columns[i].order, columns[i].typlen))
			return false;
	return p == zone + len;
}

/* ---- of an opened segment ---- */

/* Append bounds of all columns, made of the segment's zones. */
static void
lsm_bounds_unite(LsmSegmentReader *reader, StringInfo out)
{
	LsmProperties *props = &reader->props;
	Size		len;
	const uint8 *zones = lsm_reader_section(reader, LSM_SECTION_ZONES, &len);

	for (int i = 0; i < props->natts; i++)
		lsm_zone_unite(zones, reader->zones, (props->blocks - 1) / props->zone_blocks + 1, i,
					   reader->columns[i].order, out);
}

LsmBounds *
lsm_segment_bounds(LsmSegmentReader *reader)
{
	LsmProperties *props = &reader->props;
	Size		len;
	const uint8 *section;
	StringInfoData zone;

	if (reader->bounds != NULL || reader->zones == NULL)
		return reader->bounds;
	section = lsm_reader_section(reader, LSM_SECTION_BOUNDS, &len);
	if (section != NULL)
	{
		reader->bounds = lsm_bounds_make(reader->context, reader->source->uid, props->natts,
										 reader->columns, section, len);
		return reader->bounds;
	}
	initStringInfo(&zone);
	lsm_bounds_unite(reader, &zone);
	reader->bounds = lsm_bounds_make(reader->context, reader->source->uid, props->natts,
									 reader->columns, (uint8 *) zone.data, zone.len);
	pfree(zone.data);
	return reader->bounds;
}

bool
lsm_segment_bounds_agree(LsmSegmentReader *reader)
{
	Size		len;
	const uint8 *section = lsm_reader_section(reader, LSM_SECTION_BOUNDS, &len);
	StringInfoData zone;
	bool		agree;

	if (section == NULL || reader->zones == NULL)
		return section == NULL;
	initStringInfo(&zone);
	lsm_bounds_unite(reader, &zone);
	agree = zone.len == (int) len && memcmp(zone.data, section, len) == 0;
	pfree(zone.data);
	return agree;
}

/* Opening: what the section has must be bounds of these columns. */
void
lsm_reader_check_bounds(LsmSegmentReader *reader)
{
	Size		len;
	const uint8 *section = lsm_reader_section(reader, LSM_SECTION_BOUNDS, &len);

	if (section != NULL &&
		!lsm_bounds_sound(reader->props.natts, reader->columns, section, len))
		lsm_segment_corrupt(reader->source, -1, "The bounds of columns are not sound.");
}

/* ---- of the last bytes of one ---- */

/* The section of that kind, if all of it is in the tail, else NULL.  False: it does not prove. */
static bool
lsm_tail_section(uint64 uid, const LsmSegmentTrailer *trailer, const uint8 *entries, int kind,
				 const uint8 *tail, Size tail_bytes, uint64 tail_offset, const uint8 **bytes,
				 Size *len)
{
	*bytes = NULL;
	*len = 0;
	for (uint32 i = 0; i < trailer->sections; i++)
	{
		LsmSectionEntry section;

		memcpy(&section, entries + i * sizeof(section), sizeof(section));
		if (section.kind != kind)
			continue;
		if (section.offset < tail_offset || section.offset - tail_offset > tail_bytes ||
			section.length > tail_bytes - (section.offset - tail_offset))
			break;
		*bytes = tail + (section.offset - tail_offset);
		*len = section.length;
		return EQ_CRC32C(lsm_segment_crc(uid, *bytes, section.length), section.crc);
	}
	return true;
}

LsmBounds *
lsm_segment_tail_bounds(uint64 uid, uint64 total_bytes, const void *tail, Size tail_bytes)
{
	uint64		tail_offset = total_bytes - tail_bytes;
	LsmSegmentTrailer trailer;
	const uint8 *entries = lsm_segment_footer(uid, total_bytes, tail, tail_bytes, &trailer);
	const uint8 *zone;
	const uint8 *properties;
	Size		zone_bytes;
	Size		len;
	LsmProperties props;
	LsmColumnEntry *columns;
	LsmBounds  *bounds = NULL;

	if (entries == NULL ||
		!lsm_tail_section(uid, &trailer, entries, LSM_SECTION_BOUNDS, tail, tail_bytes,
						  tail_offset, &zone, &zone_bytes) ||
		!lsm_tail_section(uid, &trailer, entries, LSM_SECTION_PROPERTIES, tail, tail_bytes,
						  tail_offset, &properties, &len))
		return NULL;
	if (!LSM_SEGMENT_VERSION_KNOWN(trailer.version) || zone == NULL || properties == NULL ||
		len < sizeof(props))
		return lsm_bounds_make(CurrentMemoryContext, uid, 0, NULL, NULL, 0);
	memcpy(&props, properties, sizeof(props));
	if (props.natts > (len - sizeof(props)) / sizeof(LsmColumnEntry))
		return NULL;
	columns = palloc(Max(props.natts, 1) * sizeof(LsmColumnEntry));
	memcpy(columns, properties + sizeof(props), props.natts * sizeof(LsmColumnEntry));
	if (lsm_bounds_sound(props.natts, columns, zone, zone_bytes))
		bounds = lsm_bounds_make(CurrentMemoryContext, uid, props.natts, columns, zone, zone_bytes);
	pfree(columns);
	return bounds;
}

/* ---- asking ---- */

Size
lsm_bounds_bytes(const LsmBounds *bounds)
{
	return lsm_bounds_room(bounds->natts, bounds->zone_bytes);
}

uint64
lsm_bounds_uid(const LsmBounds *bounds)
{
	return bounds->uid;
}

bool
lsm_bounds_are_known(const LsmBounds *bounds)
{
	return bounds->natts > 0;
}

Oid
lsm_bounds_column_type(const LsmBounds *bounds, int attnum)
{
	if (attnum < 1 || attnum > (int) bounds->natts)
		return InvalidOid;
	return bounds->columns[attnum - 1].typid;
}

bool
lsm_bounds_get(const LsmBounds *bounds, int attnum, LsmZone *zone)
{
	const uint8 *p = lsm_bounds_of_columns(bounds);
	LsmColumnType type;

	if (attnum < 1 || attnum > (int) bounds->natts)
		return false;
	for (int i = 0; i < attnum - 1; i++)
		p = lsm_zone_step(p);
	(void) lsm_reader_column_type(&bounds->columns[attnum - 1], &type);
	return lsm_zone_get(p, bounds->columns[attnum - 1].order, &type, zone);
}
