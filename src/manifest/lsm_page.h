/*-------------------------------------------------------------------------
 *
 * lsm_page.h
 *	  The pages of a table's main fork: special space, metapage, manifest.
 *
 * Every page is a standard page whose special space says what it is, so that
 * a reader proves a page before it believes it.  Bytes: FORMAT.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PAGE_H
#define LSM_PAGE_H

#include "lsm.h"

#include "storage/bufpage.h"

#define LSM_META_BLOCK			0
#define LSM_MAGIC				0x4C534D31	/* "LSM1" */
#define LSM_FORMAT_VERSION		1

/*
 * Version of the metapage of a table that has, or has had, segments in a store.
 * That of all others is LSM_FORMAT_VERSION, as is that of pages.
 */
#define LSM_FORMAT_COLD			2

/* The same of one that has, or has had, such segments with large values. */
#define LSM_FORMAT_COLD_VALUES	3

/* Kinds of pages; part of the disk format. */
#define LSM_PAGE_META			0x4C01
#define LSM_PAGE_ROWLOG			0x4C02
#define LSM_PAGE_MANIFEST_ROOT	0x4C03
#define LSM_PAGE_MANIFEST_LEAF	0x4C04
#define LSM_PAGE_SEGMENT		0x4C05
#define LSM_PAGE_FREE			0x4C06	/* empty: a hole was to be punched */
#define LSM_PAGE_VALUE			0x4C07	/* large values of the row log */

typedef struct LsmPageSpecial
{
	uint64		uid;			/* incarnation; on segment pages segment uid */
	uint32		number;			/* row log: LB; segment: page in the segment;
								 * value: page in the value */
	uint32		generation;		/* row log and values only, else 0 */
	uint16		kind;			/* LSM_PAGE_xxx */
	uint16		version;		/* LSM_FORMAT_VERSION */
	uint32		before;			/* row log: items on earlier pages of the same LB;
								 * else 0 */
} LsmPageSpecial;

StaticAssertDecl(sizeof(LsmPageSpecial) == 24, "special space is part of the disk format");

#define LSM_PAGE_SPECIAL(page) ((LsmPageSpecial *) PageGetSpecialPointer(page))
#define LSM_PAGE_PAYLOAD \
	(BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(LsmPageSpecial)))

/*
 * Extensions such as pg_visibility read the pages of any table as heap's, and set
 * hint bits in what they take for tuples.  So only pages of the row log have line
 * pointers, and these look like redirections, which such code passes over.
 */

/* What a page without items holds: up to the special space. */
static inline char *
lsm_page_content(Page page)
{
	return (char *) page + ((PageHeader) page)->pd_upper;
}

static inline Size
lsm_page_content_len(Page page)
{
	return ((PageHeader) page)->pd_special - ((PageHeader) page)->pd_upper;
}

/* Fill a page that lsm_page_init() has made; the free space before it is its hole. */
static inline void
lsm_page_set_content(Page page, const void *data, Size len)
{
	PageHeader	header = (PageHeader) page;

	header->pd_upper = header->pd_special - MAXALIGN(len);
	memcpy(lsm_page_content(page), data, len);
}

/* Add a record to a page of the row log as its next item; in a critical section. */
static inline void
lsm_page_add_record(Page page, const void *record, Size len, OffsetNumber offset)
{
	if (PageAddItem(page, (Item) record, len, offset, false, true) != offset)
		elog(PANIC, "could not add a record to a page of the row log");
	PageGetItemId(page, offset)->lp_flags = LP_REDIRECT;
}

/* A run of pages of the main fork. */
typedef struct LsmExtent
{
	BlockNumber start;
	uint32		npages;
} LsmExtent;

/* What a row-log range is used for; part of the disk format. */
#define LSM_RANGE_FREE			0	/* kept for the next generation */
#define LSM_RANGE_ROOT			1	/* INSERT records */
#define LSM_RANGE_VERSION		2	/* all other records */

/*
 * Flags of a range.  The pages of an unlogged one are a bulk load's: not in WAL, so
 * good only in the server's lifetime in which they are written (lsm_load.c).  A free range
 * keeps the mark until its pages have been made empty.
 */
#define LSM_RANGE_UNLOGGED		0x0001
#define LSM_RANGE_LB_PAGES_SHIFT 8	/* above it: pages of an LB, less one */
#define LSM_MAX_LB_PAGES		32

typedef struct LsmRowRange
{
	LsmExtent	pages;
	BlockNumber lb;				/* LB of the first page; consecutive */
	uint32		generation;		/* 0 if free */
	uint16		kind;			/* LSM_RANGE_xxx */
	uint16		flags;			/* LSM_RANGE_xxx, pages of an LB */
	uint32		lifetime;		/* of an unlogged range, else 0 */
} LsmRowRange;

/* How many pages of a range have one LB, and what LB its n-th page has. */
static inline uint32
lsm_range_lb_pages(const LsmRowRange *range)
{
	return (range->flags >> LSM_RANGE_LB_PAGES_SHIFT) + 1;
}

static inline BlockNumber
lsm_range_page_lb(const LsmRowRange *range, uint32 n)
{
	return range->lb + n / lsm_range_lb_pages(range);
}

/* The last LB of a range, and one more. */
static inline BlockNumber
lsm_range_last_lb(const LsmRowRange *range)
{
	return lsm_range_page_lb(range, range->pages.npages - 1);
}

static inline BlockNumber
lsm_range_end_lb(const LsmRowRange *range)
{
	return lsm_range_last_lb(range) + 1;
}

#define LSM_MAX_RANGES			200

/* Root LBs below next_root_lb that nothing has and new ranges may take. */
typedef struct LsmFreeLbs
{
	BlockNumber lb;
	uint32		nlbs;
} LsmFreeLbs;

#define LSM_MAX_FREE_LBS		16

/*
 * The ring of version LBs is entered a sector at a time; a sector is used again
 * when nobody can name a version in it any more.
 */
#define LSM_RING_SECTORS		16
#define LSM_MAX_MANIFEST_EXTENTS 32

/*
 * The metapage.  It is always logged as a whole (the used part of it), so its
 * redo is a copy.
 */
typedef struct LsmMeta
{
	uint32		magic;
	uint32		version;
	uint64		incarnation;	/* random; new at TRUNCATE and rewrite */
	uint64		counter;		/* goes up with every change of this page */
	uint64		manifest_counter;	/* counter when the manifest last changed */
	uint64		next_segment_id;
	uint64		generation_xid; /* no record of the active generation has an
								 * xid before this one */
	uint64		flushing_xid;	/* the same for the generation being flushed */
	uint64		leftover_xid;	/* and for ranges of flushed generations that
								 * wait for the next flush; 0: none */
	uint64		retired_xid;	/* next xid when pages were last retired: stamp of
								 * the RETIRED entries that have none */
	BlockNumber npages;			/* pages of the file that are accounted for */
	BlockNumber first_root_lb;	/* 0, but for tests */
	BlockNumber next_root_lb;
	BlockNumber next_version_lb;
	uint32		ring_lbs;		/* LBs in the ring, a multiple of the sectors */
	uint32		ring_sector;	/* the one that next_version_lb is in */
	uint64		ring_stamps[LSM_RING_SECTORS];	/* next xid when the sector was
												 * left; 0: not yet */
	uint32		generation;		/* the active one, from 1 */
	uint32		flushing;		/* the one being flushed, 0 if none */
	BlockNumber manifest_root;	/* 0: no segments, no free ranges */
	uint32		nextents;
	uint32		nranges;
	uint32		nfree_lbs;
	LsmFreeLbs	free_lbs[LSM_MAX_FREE_LBS]; /* those behind nfree_lbs are 0 */
	LsmExtent	extents[LSM_MAX_MANIFEST_EXTENTS];	/* pages of the manifest */
	LsmRowRange ranges[LSM_MAX_RANGES];
} LsmMeta;

/* The sector of the ring that has a version LB. */
static inline uint32
lsm_ring_sector(const LsmMeta *meta, BlockNumber lb)
{
	return (lb - LSM_FIRST_VERSION_LB) / (meta->ring_lbs / LSM_RING_SECTORS);
}

#define LSM_META_BYTES(meta) \
	(offsetof(LsmMeta, ranges) + (meta)->nranges * sizeof(LsmRowRange))

StaticAssertDecl(sizeof(LsmMeta) <= LSM_PAGE_PAYLOAD, "the metapage must fit a page");
StaticAssertDecl(sizeof(LsmExtent) == 8 && sizeof(LsmFreeLbs) == 8 && sizeof(LsmRowRange) == 24,
				 "the metapage is part of the disk format");
StaticAssertDecl(offsetof(LsmMeta, npages) == 72 && offsetof(LsmMeta, ring_stamps) == 96 &&
				 offsetof(LsmMeta, generation) == 224 && offsetof(LsmMeta, free_lbs) == 248 &&
				 offsetof(LsmMeta, extents) == 376 && offsetof(LsmMeta, ranges) == 632,
				 "the metapage is part of the disk format");

/* Types of manifest entries; part of the disk format. */
#define LSM_ENTRY_SEGMENT		1
#define LSM_ENTRY_FREE			2	/* one extent that nobody uses */
#define LSM_ENTRY_PENDING		3	/* one extent given to a running operation */
#define LSM_ENTRY_VALUES		4	/* one extent with large values of a generation */
#define LSM_ENTRY_RETIRED		5	/* had large values, which a query may still
									 * read: free when the horizon is beyond its stamp */

/* Who a PENDING extent was given to: whoever holds that lock may free it. */
#define LSM_OWNER_NONE			0
#define LSM_OWNER_FLUSH			1
#define LSM_OWNER_MINOR			2
#define LSM_OWNER_MAJOR			3
#define LSM_OWNER_PUNCH			4
#define LSM_OWNER_LAST			7	/* 5 to 7: majors over other roots */

#define LSM_SEGFLAG_ALL_VISIBLE 0x0001	/* every xid in it counts as frozen */
#define LSM_SEGFLAG_VALUES		0x0002	/* it has large values */
#define LSM_SEGFLAG_ABORTED		0x0004	/* an outcome without a place is
										 * "aborted" */
#define LSM_SEGFLAG_COLD		0x0008	/* its blocks lie in an object of a store */
#define LSM_SEGFLAG_DICTIONARIES 0x00F0 /* how many zstd dictionaries it has:
										 * a hint for reading its metadata */
#define LSM_SEGFLAG_DICTIONARIES_SHIFT 4

/*
 * Of an increment that has version TIDs of two laps of the ring: the sector of its newest
 * one, and that of its oldest, which is never 0 then.  Both 0: see lsm_ring.c.
 */
#define LSM_SEGFLAG_NEWEST		0x0F00
#define LSM_SEGFLAG_NEWEST_SHIFT 8
#define LSM_SEGFLAG_OLDEST		0xF000
#define LSM_SEGFLAG_OLDEST_SHIFT 12

#define LSM_SEGMENT_EXTENTS		10
#define LSM_COLD_EXTENTS		3	/* of a cold segment; then comes its object.
									 * With large values one less */
#define LSM_MAX_OUTCOMES		64	/* unresolved xids with a place below */

/* Outcomes of xids that were running at the flush: two bits each. */
#define LSM_OUTCOME_UNKNOWN		0
#define LSM_OUTCOME_COMMITTED	1
#define LSM_OUTCOME_ABORTED		2

typedef struct LsmManifestEntry
{
	uint64		uid;			/* segments: random, never used twice */
	uint64		segment_id;		/* segments: number for people; free extents: see
								 * below */
	uint16		type;			/* LSM_ENTRY_xxx */
	uint16		kind;			/* LsmSegmentKind or LSM_OWNER_xxx */
	uint16		flags;			/* LSM_SEGFLAG_xxx */
	uint16		nextents;
	uint32		gen_lo;			/* generations that its records (VALUES: its
								 * values) come from */
	uint32		gen_hi;
	LsmTid		first_tid;
	LsmTid		last_tid;
	LsmTid		first_vtid;		/* version TIDs of its UPDATE records as numbers,
								 * 0: none */
	LsmTid		last_vtid;
	uint64		rows;
	uint64		versions;
	uint64		raw_bytes;
	uint64		stored_bytes;
	uint64		max_xid;		/* greatest xid in it, 0 if all are frozen */
	uint64		min_unresolved; /* least xid whose outcome is not known, or 0 */
	uint64		forwards;
	uint64		dead;			/* dead roots in its list; increments: records that
								 * end a row (DELETE, MOVED) */
	uint32		blocks;
	uint32		nunresolved;	/* xids in the segment's list */
	uint8		outcomes[LSM_MAX_OUTCOMES / 4];
	LsmExtent	extents[LSM_SEGMENT_EXTENTS];
} LsmManifestEntry;

/*
 * Where the blocks of a cold segment lie: in the place of its extents from
 * LSM_COLD_EXTENTS on.  The object has the first bytes of the segment's stream,
 * all that comes before its lists and metadata.  The segment's local pages have
 * the numbers that they would have if all of it were local: those from
 * lsm_entry_first_page() on, and behind the stream those of the list of its roots,
 * which is a stream of its own (kind LSM_SEGKIND_DEAD).
 */
typedef struct LsmColdObject
{
	uint64		system;			/* of the cluster that put it: its identifier */
	uint64		owner;			/* its token (lsm_cold_owner.c) */
	uint64		incarnation;	/* of the table then */
	uint64		random;
	uint64		bytes;			/* without the trailer */
	uint64		server;			/* lsm_cold_name_hash() of the server's name */
	Oid			database;		/* of that cluster */
	uint32		roots_bytes;	/* length of the list's stream */
} LsmColdObject;

StaticAssertDecl(sizeof(LsmColdObject) ==
				 (LSM_SEGMENT_EXTENTS - LSM_COLD_EXTENTS) * sizeof(LsmExtent),
				 "the object of a cold segment takes the place of extents");
StaticAssertDecl((offsetof(LsmManifestEntry, extents) +
				  LSM_COLD_EXTENTS * sizeof(LsmExtent)) % sizeof(uint64) == 0,
				 "the object of a cold segment is aligned");

static inline bool
lsm_entry_is_cold(const LsmManifestEntry *entry)
{
	return (entry->flags & LSM_SEGFLAG_COLD) != 0;
}

/* Retired entries name the objects of large values that may still be read. */
static inline bool
lsm_entry_names_object(const LsmManifestEntry *entry)
{
	return (entry->type == LSM_ENTRY_SEGMENT || entry->type == LSM_ENTRY_RETIRED) &&
		lsm_entry_is_cold(entry);
}

static inline uint32
lsm_entry_dictionaries(const LsmManifestEntry *entry)
{
	return (entry->flags & LSM_SEGFLAG_DICTIONARIES) >> LSM_SEGFLAG_DICTIONARIES_SHIFT;
}

/* Compare increments by age, the newest first. */
static inline int
lsm_entry_cmp_age(const LsmManifestEntry *x, const LsmManifestEntry *y)
{
	if (x->gen_hi != y->gen_hi)
		return x->gen_hi > y->gen_hi ? -1 : 1;
	return x->segment_id > y->segment_id ? -1 : x->segment_id < y->segment_id;
}

static inline uint32
lsm_entry_oldest_sector(const LsmManifestEntry *entry)
{
	return (entry->flags & LSM_SEGFLAG_OLDEST) >> LSM_SEGFLAG_OLDEST_SHIFT;
}

static inline uint32
lsm_entry_newest_sector(const LsmManifestEntry *entry)
{
	return (entry->flags & LSM_SEGFLAG_NEWEST) >> LSM_SEGFLAG_NEWEST_SHIFT;
}

static inline const LsmColdObject *
lsm_entry_object(const LsmManifestEntry *entry)
{
	return (const LsmColdObject *) &entry->extents[LSM_COLD_EXTENTS];
}

/*
 * Live pointers to large values of a cold segment have numbers in the place of blocks, of
 * a run above all blocks of the file: one for each page that the object would have
 * (lsm_valuenum.c).  The run stands in the place of the last of its extents.
 */
static inline bool
lsm_entry_has_numbers(const LsmManifestEntry *entry)
{
	return (entry->flags & LSM_SEGFLAG_COLD) != 0 && (entry->flags & LSM_SEGFLAG_VALUES) != 0;
}

static inline LsmExtent
lsm_entry_numbers(const LsmManifestEntry *entry)
{
	return entry->extents[LSM_COLD_EXTENTS - 1];
}

static inline uint32
lsm_object_pages(const LsmColdObject *object)
{
	return (uint32) ((object->bytes + LSM_PAGE_PAYLOAD - 1) / LSM_PAGE_PAYLOAD);
}

/* How many extents a segment's local pages may have. */
static inline int
lsm_entry_max_extents(const LsmManifestEntry *entry)
{
	if (!lsm_entry_is_cold(entry))
		return LSM_SEGMENT_EXTENTS;
	return lsm_entry_has_numbers(entry) ? LSM_COLD_EXTENTS - 1 : LSM_COLD_EXTENTS;
}

/* Are there live pointers to its pages, by their blocks? */
static inline bool
lsm_entry_is_pointed_to(const LsmManifestEntry *entry)
{
	return (entry->flags & LSM_SEGFLAG_VALUES) != 0 && !lsm_entry_is_cold(entry);
}

/* The end of a stream is local, whatever it holds: who opens a segment reads so much. */
#define LSM_LOCAL_TAIL			(16 * 1024)

/* The number of the first page of a segment that is local. */
static inline uint32
lsm_entry_first_page(const LsmManifestEntry *entry)
{
	uint64		tail = entry->stored_bytes - Min(entry->stored_bytes, LSM_LOCAL_TAIL);

	return lsm_entry_is_cold(entry) ?
		(uint32) (Min(lsm_entry_object(entry)->bytes, tail) / LSM_PAGE_PAYLOAD) : 0;
}

/* The number of the page with which the list of a cold segment's roots begins. */
static inline uint32
lsm_entry_roots_page(const LsmManifestEntry *entry)
{
	return (uint32) ((entry->stored_bytes + LSM_PAGE_PAYLOAD - 1) / LSM_PAGE_PAYLOAD);
}

/*
 * Of a free extent: position of WAL when the last of its pages became free, 0 if
 * all have been punched since.
 */
#define LSM_ENTRY_FREED_AT(entry) ((entry)->segment_id)

/*
 * Of a RETIRED entry: its stamp, the next xid when it was retired.  0: it is
 * retired_xid of the metapage, as the stamp is taken after the entry is written.
 */
#define LSM_ENTRY_STAMP(entry) ((entry)->max_xid)

StaticAssertDecl(sizeof(LsmManifestEntry) == 232, "manifest entries are part of the disk format");

/* A manifest root page: this header, then the block numbers of the leaves. */
typedef struct LsmManifestRoot
{
	uint32		nleaves;
	uint32		nentries;		/* in all leaves */
	BlockNumber leaves[FLEXIBLE_ARRAY_MEMBER];
} LsmManifestRoot;

typedef struct LsmManifestLeaf
{
	uint32		nentries;
	uint32		reserved;
	LsmManifestEntry entries[FLEXIBLE_ARRAY_MEMBER];
} LsmManifestLeaf;

StaticAssertDecl(offsetof(LsmManifestRoot, leaves) == 8 &&
				 offsetof(LsmManifestLeaf, entries) == 8,
				 "the manifest is part of the disk format");

#define LSM_MAX_LEAVES \
	((LSM_PAGE_PAYLOAD - offsetof(LsmManifestRoot, leaves)) / sizeof(BlockNumber))
#define LSM_ENTRIES_PER_LEAF \
	((LSM_PAGE_PAYLOAD - offsetof(LsmManifestLeaf, entries)) / sizeof(LsmManifestEntry))

#define LSM_MAX_ENTRIES			((int) (LSM_MAX_LEAVES * LSM_ENTRIES_PER_LEAF))

/*
 * A record in the row log, one item of a standard page.  INSERT ends after
 * natts; its data follow.  After the fixed part: DELTA: the map of its columns
 * ((natts + 7) / 8 bytes), HASNULL: the null bitmap, then from the next
 * MAXALIGN boundary the columns as heap tuples have them.
 */
typedef struct LsmRecord
{
	uint64		xid;
	uint32		cid;
	uint16		info;			/* LSM_REC_xxx */
	uint16		natts;
	/* not in INSERT: */
	LsmTid		root;
	LsmTid		prev;			/* record before it in its generation, or 0 */
	LsmTid		base;			/* DELTA: full version it builds on; MOVED:
								 * successor's root */
	uint32		seq;			/* 1 + seq of prev: newest has the greatest */
	uint32		reserved;
} LsmRecord;

#define SizeOfLsmInsertRecord	offsetof(LsmRecord, root)
#define SizeOfLsmRecord			sizeof(LsmRecord)
StaticAssertDecl(offsetof(LsmRecord, root) == 16, "records are part of the disk format");
StaticAssertDecl(sizeof(LsmRecord) == 48, "records are part of the disk format");

/* The largest record that fits a page. */
#define LSM_MAX_RECORD \
	MAXALIGN_DOWN(LSM_PAGE_PAYLOAD - sizeof(ItemIdData))

/*
 * A value of at least so many bytes (without header, compressed if it is) does
 * not fit into a record, and lies by itself.  It fills a page, so that at most
 * one such value begins in any page: a block number names it.
 */
#define LSM_LARGE_VALUE			LSM_PAGE_PAYLOAD

extern void lsm_page_init(Page page, uint16 kind, uint64 uid, uint32 number,
						  uint32 generation);
extern bool lsm_page_is_ours(Page page);
extern bool lsm_page_is(Page page, uint16 kind, uint64 uid, uint32 number,
						uint32 generation);

#endif							/* LSM_PAGE_H */
