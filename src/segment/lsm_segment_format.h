/*-------------------------------------------------------------------------
 *
 * lsm_segment_format.h
 *	  The fixed structures of a segment, and what its files share.
 *
 * Private to src/segment.  FORMAT.md describes every structure here; a change
 * to one is a change to the disk format.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SEGMENT_FORMAT_H
#define LSM_SEGMENT_FORMAT_H

#include "port/pg_crc32c.h"
#include "segment/lsm_codec.h"
#include "segment/lsm_dictionary.h"

#define LSM_SEGMENT_MAGIC		UINT64CONST(0x4753454D534C2E31)
#define LSM_SEGMENT_BYTE_ORDER	0x01020304
#define LSM_SEGMENT_VERSION		3	/* that is written */
#define LSM_SEGMENT_VERSION_KNOWN(version)	((version) >= 1 && (version) <= LSM_SEGMENT_VERSION)
#define LSM_BLOCK_VERSION		1
#define LSM_LIST_VERSION		1

/* ---- blocks ---- */

typedef struct LsmBlockHeader
{
	uint8		version;
	uint8		flags;			/* LSM_BLOCK_WIDE */
	uint16		natts;			/* chunks of columns */
	uint16		rows;
	uint16		system;			/* bit LSM_SYS_xxx: the chunk is there */
	uint32		raw_bytes;
} LsmBlockHeader;

StaticAssertDecl(sizeof(LsmBlockHeader) == 12, "block header is part of the disk format");

#define LSM_BLOCK_WIDE			0x01	/* directory has LsmWideEntry */
#define LSM_BLOCK_DICTIONARY	0x02	/* chunks need the segment's
										 * dictionaries */
#define LSM_BLOCK_KNOWN_FLAGS	0x03

/* One chunk in the directory; it ends where the next one begins. */
typedef struct LsmNarrowEntry
{
	uint8		encoding;
	uint8		flags;
	uint16		offset;			/* in the block */
} LsmNarrowEntry;

typedef struct LsmWideEntry
{
	uint8		encoding;
	uint8		flags;
	uint16		reserved;
	uint32		offset;
} LsmWideEntry;

StaticAssertDecl(sizeof(LsmNarrowEntry) == 4, "chunk directory is part of the disk format");
StaticAssertDecl(sizeof(LsmWideEntry) == 8, "chunk directory is part of the disk format");

/* System chunks.  One that is not there has its default in every row. */
#define LSM_SYS_ROOT			0	/* root TID; always there */
#define LSM_SYS_XID				1	/* default 0: frozen */
#define LSM_SYS_CID				2	/* default 0 */
#define LSM_SYS_INFO			3	/* default 0 */
#define LSM_SYS_NATTS			4	/* default natts of the block */
#define LSM_SYS_VTID			5	/* default: the root TID */
#define LSM_SYS_BASE			6	/* default 0 */
#define LSM_SYS_COLS			7	/* default: none */
#define LSM_SYS_XMIN			8	/* of frozen records; default 0: not known */
#define LSM_SYS_CHUNKS			9

/* ---- sections behind the blocks ---- */

#define LSM_SECTION_BLOCKS			1
#define LSM_SECTION_FORWARD_DATA	2
#define LSM_SECTION_DEAD_DATA		3
#define LSM_SECTION_BLOCK_INDEX		4
#define LSM_SECTION_ZONES			5
#define LSM_SECTION_FILTER			6
#define LSM_SECTION_FORWARD_INDEX	7
#define LSM_SECTION_DEAD_INDEX		8
#define LSM_SECTION_PROPERTIES		9
#define LSM_SECTION_VALUES			10
#define LSM_SECTION_DICTIONARIES	11
#define LSM_SECTION_BOUNDS			12
#define LSM_SECTION_SLICES			13
#define LSM_SECTION_LAST			13

/* A reader that does not know the section must refuse the segment. */
#define LSM_SECTION_REQUIRED		0x0001
#define LSM_SECTION_KNOWN_FLAGS		0x0001

typedef struct LsmSectionEntry
{
	uint16		kind;
	uint16		flags;
	uint32		crc;			/* 0 for sections whose parts have their own */
	uint64		offset;			/* in the stream */
	uint64		length;
} LsmSectionEntry;

StaticAssertDecl(sizeof(LsmSectionEntry) == 24, "footer is part of the disk format");

typedef struct LsmSegmentTrailer
{
	uint64		uid;
	uint64		meta_offset;	/* of the first section that opening needs */
	uint32		sections;		/* entries right before the trailer */
	uint32		byte_order;
	uint16		version;
	uint16		reserved;
	uint32		crc;			/* of the entries and the fields above */
	uint64		magic;
} LsmSegmentTrailer;

StaticAssertDecl(sizeof(LsmSegmentTrailer) == 40, "trailer is part of the disk format");
StaticAssertDecl(offsetof(LsmSegmentTrailer, crc) == 28, "trailer is part of the disk format");

typedef struct LsmBlockEntry
{
	uint64		first;			/* root TIDs */
	uint64		last;
	uint32		length;
	uint32		crc;
	uint32		rows;
	uint32		raw_bytes;
} LsmBlockEntry;

StaticAssertDecl(sizeof(LsmBlockEntry) == 32, "block index is part of the disk format");

/* The block index is divided into slices, see lsm_segment.h. */
typedef struct LsmSlicesHeader
{
	uint32		blocks;			/* of a slice; the last one may have fewer */
	uint32		count;			/* of entries that follow */
} LsmSlicesHeader;

typedef struct LsmSliceEntry
{
	uint64		first;			/* root of the first record of its first block */
	uint64		offset;			/* of that block in the stream */
	uint32		crc;			/* of its part of the block index */
	uint32		reserved;
} LsmSliceEntry;

StaticAssertDecl(sizeof(LsmSlicesHeader) == 8, "slices are part of the disk format");
StaticAssertDecl(sizeof(LsmSliceEntry) == 24, "slices are part of the disk format");

/* ---- large values, between blocks ---- */

typedef struct LsmValueEntry
{
	uint64		offset;			/* in the stream */
	uint32		length;
	uint32		crc;
	uint32		block;			/* the block that comes after it */
	uint32		reserved;
} LsmValueEntry;

StaticAssertDecl(sizeof(LsmValueEntry) == 24, "value index is part of the disk format");

/* ---- dictionaries ---- */

typedef struct LsmDictionaryHeader
{
	uint32		count;			/* LsmDictionaryEntry for each follows */
	uint32		reserved;
} LsmDictionaryHeader;

typedef struct LsmDictionaryEntry
{
	uint16		column;			/* from 1 on */
	uint16		reserved;
	uint32		length;			/* of the dictionary; they follow each other */
} LsmDictionaryEntry;

StaticAssertDecl(sizeof(LsmDictionaryHeader) == 8, "dictionaries are part of the disk format");
StaticAssertDecl(sizeof(LsmDictionaryEntry) == 8, "dictionaries are part of the disk format");

/* ---- lists: forward entries and dead roots ---- */

/* Most entries of a chunk of a list. */
#define LSM_LIST_CHUNK			1024

typedef struct LsmListHeader
{
	uint16		version;
	uint16		columns;		/* LsmWideEntry for each follows */
	uint32		count;
} LsmListHeader;

typedef struct LsmListEntry
{
	uint64		first;			/* key of the first entry of the chunk */
	uint32		length;
	uint32		crc;
	uint32		count;
	uint32		reserved;
} LsmListEntry;

StaticAssertDecl(sizeof(LsmListHeader) == 8, "lists are part of the disk format");
StaticAssertDecl(sizeof(LsmListEntry) == 24, "lists are part of the disk format");

/* ---- properties ---- */

typedef struct LsmProperties
{
	uint8		kind;			/* LsmSegmentKind */
	uint8		flags;			/* 0 */
	uint16		natts;
	uint32		blocks;
	uint64		first_tid;
	uint64		last_tid;
	uint64		rows;
	uint64		versions;
	uint64		raw_bytes;
	uint64		max_xid;
	uint64		min_uncommitted_xid;
	uint64		forwards;
	uint64		dead;
	uint32		zone_blocks;	/* blocks of a zone */
	uint32		unresolved;		/* xids, behind the columns */
} LsmProperties;

typedef struct LsmColumnEntry
{
	uint32		typid;
	int32		typmod;
	uint32		collation;
	uint32		opclass;		/* default btree one, 0 if there is none */
	int16		typlen;
	uint8		typbyval;
	char		typalign;
	uint8		order;			/* of zones, LSM_ORDER_xxx */
	uint8		reserved[3];
} LsmColumnEntry;

StaticAssertDecl(sizeof(LsmProperties) == 88, "properties are part of the disk format");
StaticAssertDecl(sizeof(LsmColumnEntry) == 24, "properties are part of the disk format");

/* ---- zones ---- */

/* How the bounds of a column are ordered.  Never change meaning. */
#define LSM_ORDER_NONE			0
#define LSM_ORDER_SIGNED		1
#define LSM_ORDER_UNSIGNED		2
#define LSM_ORDER_FLOAT4		3
#define LSM_ORDER_FLOAT8		4
#define LSM_ORDER_NUMERIC		5
#define LSM_ORDER_BYTES			6	/* memcmp, shorter first */
#define LSM_ORDER_BLANKS		7	/* the same, without trailing blanks */
#define LSM_ORDER_LAST			7

#define LSM_ZONE_NULL			0x01	/* some row is null */
#define LSM_ZONE_VALUE			0x02	/* some row is not */
#define LSM_ZONE_UNBOUNDED		0x04	/* bounds are not known */
#define LSM_ZONE_LOOSE			0x08	/* bounds need not be values of rows */
#define LSM_ZONE_KNOWN_FLAGS	0x0F

/* Before that version no zone said so, and any may be. */
#define LSM_ZONE_LOOSE_VERSION	3

#define LSM_ZONE_MAX_BYTES		32

typedef struct LsmZoneBound
{
	uint8		len;			/* of bytes */
	union
	{
		int64		number;
		uint8		bytes[LSM_ZONE_MAX_BYTES];
	}			u;
} LsmZoneBound;

typedef struct LsmZoneColumn
{
	uint8		flags;
	LsmZoneBound min;
	LsmZoneBound max;
} LsmZoneColumn;

/* Zones that are being collected. */
typedef struct LsmZoneMap
{
	int			natts;
	uint8	   *orders;
	int16	   *typlens;
	uint32		zone_blocks;
	uint32		blocks;
	uint32		zones;
	uint32		max_zones;
	LsmZoneColumn *columns;		/* zones times natts */
} LsmZoneMap;

/* lsm_zone.c */
extern uint8 lsm_zone_order(Oid basetype);
extern bool lsm_zone_order_fits(uint8 order, const LsmColumnType *type);

/* Zones may take this part of the data. */
#define LSM_ZONE_DIVISOR		64
#define LSM_ZONE_MIN_BUDGET		1024

extern LsmZoneMap *lsm_zone_create(int natts, const LsmColumnEntry *columns);
extern void lsm_zone_begin_block(LsmZoneMap *map);
extern void lsm_zone_add(LsmZoneMap *map, int attno, const LsmColumn *column,
						 const LsmChunkFacts *facts);
extern void lsm_zone_copy(LsmZoneMap *map, const uint8 *p, const uint8 *end, LsmBlock *block,
						  const bool *except);
extern void lsm_zone_finish(LsmZoneMap *map, uint64 stored_bytes, StringInfo out);
extern bool lsm_zone_skip(const uint8 **p, const uint8 *end, uint8 order, int16 typlen);
extern const uint8 *lsm_zone_step(const uint8 *p);
extern void lsm_zone_unite(const uint8 *zones, const uint32 *starts, uint32 n, int column,
						   uint8 order, StringInfo out);
extern void lsm_zone_put_bounds(LsmZoneMap *map, StringInfo out);
extern bool lsm_zone_get(const uint8 *p, uint8 order, const LsmColumnType *type, LsmZone *zone);

/* All that opening a segment reads is one piece of memory; with more than that it is damaged. */
#define LSM_SEGMENT_META_MOST	(MaxAllocSize / 2)

/* lsm_filter.c */
#define LSM_FILTER_BITS			12	/* a root */

extern void lsm_filter_build(const uint64 *hashes, uint64 n, StringInfo out);
extern bool lsm_filter_check(const uint8 *filter, Size len);
extern bool lsm_filter_may_contain(const uint8 *filter, uint64 hash);
extern uint64 lsm_filter_hash(LsmTid tid);

/* lsm_block_build.c */
typedef struct LsmBlockBuilder
{
	int			natts;
	int			rows;
	uint16		system;			/* chunks that have more than the default */
	LsmColumn  *system_columns[LSM_SYS_CHUNKS];
	LsmColumn **columns;
	char	   *cols;			/* scratch for a varlena */
} LsmBlockBuilder;

extern LsmBlockBuilder *lsm_block_builder_create(int natts, const LsmColumnType *types,
												 const bool *numeric, LsmTrainer *trainer);
extern Size lsm_block_value_bytes(const LsmColumnType *type, Datum value);
extern Size lsm_block_row_bytes(LsmBlockBuilder *builder, const LsmRowHead *head,
								const Datum *values, const bool *isnull);
extern void lsm_block_builder_add(LsmBlockBuilder *builder, const LsmRowHead *head,
								  const Datum *values, const bool *isnull);
extern int	lsm_block_builder_rows(LsmBlockBuilder *builder);
extern void lsm_block_put_chunk(LsmEncoder *encoder, LsmColumn *column, StringInfo body,
								LsmWideEntry *entry, LsmChunkFacts *facts);
extern void lsm_block_put_head(LsmBlockHeader *header, LsmWideEntry *entries, int chunks,
							   int body_bytes, StringInfo head);
extern bool lsm_block_builder_finish(LsmBlockBuilder *builder, LsmEncoder *encoder,
									 uint32 raw_bytes, LsmZoneMap *zones,
									 StringInfo head, StringInfo body);

/* lsm_block.c */
extern const LsmColumnType lsm_block_system_types[LSM_SYS_CHUNKS];

/*
 * The bytes of a chunk as they are stored, which may be compressed, and what the directory says of
 * it.  which: LSM_SYS_xxx, or LSM_SYS_CHUNKS and the number of a column, from 0.  NULL: it is a
 * system chunk that the block does not have.  Raises an error if the directory is damaged.
 */
extern const uint8 *lsm_block_stored_chunk(LsmBlock *block, int which, LsmWideEntry *entry,
										   uint32 *len);

/* lsm_block_patch.c; more in lsm_segment.h */
extern LsmBlockPatch *lsm_block_patch_create(LsmSegmentReader *reader, uint32 blockno,
											 uint8 *data);
extern bool lsm_block_patch_fits(const LsmBlockPatch *patch, Size block_bytes);
extern int64 lsm_block_patch_raw_bytes(const LsmBlockPatch *patch);
extern bool lsm_block_patch_finish(LsmBlockPatch *patch, LsmBlockBuilder *builder,
								   LsmEncoder *encoder, LsmZoneMap *zones, LsmBlockEntry *entry,
								   StringInfo head, StringInfo body);

/* lsm_segment_reader.c */
/*
 * A slice of the block index, as a part of a segment has it; and the LBs that it has, by runs of
 * 2 ^ shift: which block is the first that may have roots of the run, or of a later one.  Blocks
 * have about as many LBs each, so hardly anything is left to search.  Behind the last run comes
 * the last block.
 */
#define LSM_SLICE_RUNS			256

typedef struct LsmSlice
{
	uint32		first_lb;
	uint8		shift;
	uint8		runs[LSM_SLICE_RUNS + 1];
	LsmBlockEntry index[LSM_SLICE_BLOCKS];
	uint64		offsets[LSM_SLICE_BLOCKS];
} LsmSlice;

struct LsmSegmentReader
{
	MemoryContext context;
	LsmSegmentSource *source;
	uint8	   *meta;			/* sections, from meta_offset on */
	uint64		meta_offset;
	LsmSectionEntry sections[LSM_SECTION_LAST + 1];
	LsmProperties props;
	bool		loose_zones;	/* those do not say whether they are loose */
	const LsmColumnEntry *columns;	/* in meta */
	LsmColumnType *types;
	const uint64 *unresolved;	/* in meta */
	const LsmBlockEntry *index; /* in meta; NULL: of a part, see slices */
	uint64	   *offsets;		/* of blocks in the stream */
	const LsmSliceEntry *slices;	/* of a part, in meta */
	uint32		nslices;
	LsmSlice  **sliced;			/* those that are there, others are NULL */
	uint32		found;			/* by lsm_segment_find_block() last */
	const LsmValueEntry *values;	/* in meta; NULL if none */
	uint32		nvalues;
	LsmDictionaries *dictionaries;	/* NULL if none */
	uint32	   *zones;			/* of zones in their section; NULL if none */
	LsmBounds  *bounds;			/* NULL: not asked for yet */
	const uint8 *filter;		/* in meta; NULL if none */
	LsmForward *forwards;		/* the chunk read last */
	int64		forwards_chunk; /* its number, -1 if none */
	uint32		forwards_n;
	uint64	   *forward_offsets;
	uint64	   *dead_offsets;
	void	   *note;			/* NULL: none */
};

extern bool lsm_reader_column_type(const LsmColumnEntry *column, LsmColumnType *type);
extern const uint8 *lsm_segment_footer(uint64 uid, uint64 total_bytes, const void *tail,
									   Size tail_bytes, LsmSegmentTrailer *trailer);
extern bool lsm_block_entry_sound(const LsmBlockEntry *entry, const LsmBlockEntry *previous,
								  bool many);
extern const uint8 *lsm_reader_section(LsmSegmentReader *reader, int kind, Size *len);
extern const uint8 *lsm_reader_zone(LsmSegmentReader *reader, uint32 blockno, const uint8 **end);

/* lsm_bounds.c */
extern void lsm_reader_check_bounds(LsmSegmentReader *reader);

/* lsm_slices.c */
extern void lsm_slices_put(uint64 uid, const LsmBlockEntry *index, uint32 blocks, StringInfo out);
extern void lsm_reader_slices(LsmSegmentReader *reader);
extern uint32 lsm_slices_find_block(const LsmSegmentReader *reader, LsmTid tid);
extern void lsm_slices_foresee(const LsmSegmentReader *reader, LsmTid tid, bool entry);

/* The first block from low on, high if there is none before it, that may have a root or later ones. */
static inline uint32
lsm_block_entries_search(const LsmBlockEntry *index, uint32 low, uint32 high, LsmTid tid)
{
	while (low < high)
	{
		uint32		middle = low + (high - low) / 2;

		if (index[middle].last < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What the block index says of a block; of a part, its slice has to be there. */
static inline const LsmBlockEntry *
lsm_reader_entry(const LsmSegmentReader *reader, uint32 blockno)
{
	if (likely(reader->index != NULL))
		return &reader->index[blockno];
	return &reader->sliced[blockno / LSM_SLICE_BLOCKS]->index[blockno % LSM_SLICE_BLOCKS];
}

static inline uint64
lsm_reader_offset(const LsmSegmentReader *reader, uint32 blockno)
{
	if (likely(reader->index != NULL))
		return reader->offsets[blockno];
	return reader->sliced[blockno / LSM_SLICE_BLOCKS]->offsets[blockno % LSM_SLICE_BLOCKS];
}

/* CRC-32C of the uid and then the bytes. */
static inline pg_crc32c
lsm_segment_crc(uint64 uid, const void *data, Size len)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &uid, sizeof(uid));
	COMP_CRC32C(crc, data, len);
	FIN_CRC32C(crc);
	return crc;
}

#endif							/* LSM_SEGMENT_FORMAT_H */
