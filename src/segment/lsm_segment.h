/*-------------------------------------------------------------------------
 *
 * lsm_segment.h
 *	  Immutable sorted runs: how a segment is written and read.
 *
 * A segment is a byte stream: blocks and large values, forward blocks,
 * dead-root list, block index, dictionaries, filter, slices, bounds, properties, footer.  This layer
 * knows nothing of pages, buffers or stores: it writes to an LsmSegmentSink and reads from an
 * LsmSegmentSource.  Bytes: FORMAT.md.
 *
 * Errors: whatever does not decode, or fails its checksum, is reported
 * through lsm_segment_corrupt(), the one place that raises it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SEGMENT_H
#define LSM_SEGMENT_H

#include "lsm.h"

#include "access/tupdesc.h"
#include "lib/stringinfo.h"

/* Kinds of segments; part of the disk format. */
typedef enum LsmSegmentKind
{
	LSM_SEGKIND_INSERT = 1,		/* INSERT records, one a root, by root TID */
	LSM_SEGKIND_INCREMENT = 2,	/* later records, by (root TID, newest first) */
	LSM_SEGKIND_BASELINE = 3,	/* one version a root, visible to all */
	LSM_SEGKIND_DEAD = 4		/* no rows, only a list of dead roots */
} LsmSegmentKind;

/* One record as it goes into or comes out of a segment (values apart). */
typedef struct LsmRowHead
{
	LsmTid		root;
	uint64		xid;			/* 64-bit xid; 0: frozen, visible to all */
	uint32		cid;
	uint16		info;			/* LSM_REC_xxx */
	uint16		natts;			/* columns that the record knows of */
	LsmTid		vtid;			/* version TID; root for INSERT and baseline */
	LsmTid		base;			/* DELTA: version it was made from; MOVED:
								 * successor's root; else 0 */
	uint16		cols_len;		/* DELTA: bytes of cols */
	const bits8 *cols;			/* DELTA: bit i set: column i+1 is there */
	uint64		xmin;			/* what the column xmin shows: xid, or if that is 0 the one
								 * that it was; 0: not known */
} LsmRowHead;

/* Where a writer's bytes go, in order. */
typedef struct LsmSegmentSink
{
	void		(*append) (struct LsmSegmentSink *sink, const void *data, Size len);

	/* so many bytes come next, in pieces; NULL: it does not want to know */
	void		(*expect) (struct LsmSegmentSink *sink, uint64 bytes);

	/* so many bytes come next, which are that block; NULL: the same */
	void		(*begin_block) (struct LsmSegmentSink *sink, uint32 blockno, uint32 len);
} LsmSegmentSink;

/* Where a reader's bytes come from; read() either fills buf or raises. */
typedef struct LsmSegmentSource
{
	void		(*read) (struct LsmSegmentSource *source, uint64 offset, Size len, void *buf);
	uint64		total_bytes;	/* length of the stream */
	uint64		uid;			/* checksum seed, page stamp, cache key */
	const char *relname;		/* for messages */

	/*
	 * All metadata, which has proved (lsm_segment_meta_good()), if somebody has read them
	 * before: aligned, with LSM_CODEC_SLACK bytes behind.  A reader uses them where they are,
	 * as long as it lives.
	 */
	uint8	   *meta;
	Size		meta_bytes;
	bool		part;			/* it is lsm_segment_part_bytes() of them */
} LsmSegmentSource;

typedef struct LsmSegmentWriter LsmSegmentWriter;
typedef struct LsmSegmentReader LsmSegmentReader;
typedef struct LsmBlock LsmBlock;

/* Bytes of a column's chunks that a zstd dictionary is made from, in tables. */
#define LSM_DICTIONARY_SAMPLES	(320 * 1024)

typedef struct LsmSegmentOptions
{
	LsmSegmentKind kind;
	uint64		uid;
	uint32		block_bytes;	/* raw bytes of rows that end a block: 32 kB */
	int			compression_level;	/* zstd; 0: none */
	uint32		dictionary_samples; /* LSM_DICTIONARY_SAMPLES, or less in
									 * tests; 0: no dictionaries */
} LsmSegmentOptions;

typedef struct LsmSegmentStats
{
	LsmTid		first_tid;		/* roots; 0 if there are no rows */
	LsmTid		last_tid;
	uint64		rows;			/* distinct roots */
	uint64		versions;		/* records */
	uint32		blocks;			/* row blocks */
	uint64		raw_bytes;
	uint64		value_bytes;	/* of large values */
	uint64		stored_bytes;	/* length of the stream */
	uint64		max_xid;		/* greatest xid stored, 0 if none */
	uint64		min_uncommitted_xid;	/* least xid without LSM_REC_COMMITTED */
	uint64		forwards;
	uint64		dead;
	int			dictionaries;
	uint32		unresolved;		/* xids that were running, */
	uint64		min_unresolved; /* and the least of them, 0 if there are none */
} LsmSegmentStats;

/* ---- writing (lsm_segment_writer.c) ---- */

/*
 * Begin a segment of rows that look like tupdesc.  Everything is allocated in
 * a context of its own below CurrentMemoryContext.
 */
extern LsmSegmentWriter *lsm_segment_writer_create(TupleDesc tupdesc,
												   const LsmSegmentOptions *options,
												   LsmSegmentSink *sink);

/*
 * Add one record.  Records come by (root, newest first), for INSERT and
 * BASELINE one a root.  values/isnull have head->natts entries (for DELETE,
 * MOVED, LOCK they may be NULL: all columns are null; for DELTA the columns
 * not in head->cols are ignored).  Values are copied; expanded datums have
 * been flattened by the caller, inline-compressed and short ones are stored bit
 * for bit as they are.  An external datum points to a large value that has been
 * added to the same segment before.
 */
extern void lsm_segment_writer_add(LsmSegmentWriter *writer, const LsmRowHead *head,
								   const Datum *values, const bool *isnull);

/*
 * Add a large value, at least as long as a page: begin (returns where it is in
 * the stream), its bytes in any number of pieces, end.
 */
extern uint64 lsm_segment_writer_begin_value(LsmSegmentWriter *writer, uint32 length);
extern void lsm_segment_writer_value_bytes(LsmSegmentWriter *writer, const void *data, Size len);
extern void lsm_segment_writer_end_value(LsmSegmentWriter *writer);

/* Add a FORWARD entry; any order, sorted at the end. */
extern void lsm_segment_writer_add_forward(LsmSegmentWriter *writer, LsmTid vtid, LsmTid root);

/* Add a root that is gone for good; any order, sorted at the end. */
extern void lsm_segment_writer_add_dead(LsmSegmentWriter *writer, LsmTid root);

/* Add an xid that was running when the records were written (sorted at the end; duplicates
 * are ignored). */
extern void lsm_segment_writer_add_unresolved(LsmSegmentWriter *writer, uint64 xid);

/*
 * Copy a block of another segment without decoding it; its roots come next.  False:
 * its rows have to be added one by one, because it has xids or large values, or other
 * columns or dictionaries than the writer's, or is so small that it had better join its
 * neighbours.
 */
extern bool lsm_segment_writer_copy_block(LsmSegmentWriter *writer, LsmSegmentReader *reader,
										  uint32 blockno);

/*
 * Begin to copy a block of another segment in which rows are to change; its roots come next.  NULL: as
 * for lsm_segment_writer_copy_block().  Else, by row and each row once at most, in order, what is to become
 * of it: lsm_block_patch_row(), as this record, which is frozen and whose TID is its root (cols: only these
 * columns, as in a DELTA, can have other values, and only these are looked at; NULL: all may have; values
 * are copied), or lsm_block_patch_drop(), it is to go.  lsm_block_patch_block() is the block as it was.
 * Then put_patch() writes it.  False: it cannot stay a block, and lsm_block_patch_next() gives the rows that
 * stay, to be added one by one, with values that are there until the patch is freed, large ones where
 * they were.  The patch is in the current context.
 */
typedef struct LsmBlockPatch LsmBlockPatch;

extern LsmBlockPatch *lsm_segment_writer_begin_patch(LsmSegmentWriter *writer,
													 LsmSegmentReader *reader, uint32 blockno);
extern LsmBlock *lsm_block_patch_block(LsmBlockPatch *patch);
extern void lsm_block_patch_row(LsmBlockPatch *patch, int row, const LsmRowHead *head,
								const bits8 *cols, const Datum *values, const bool *isnull);
extern void lsm_block_patch_drop(LsmBlockPatch *patch, int row);
extern bool lsm_segment_writer_put_patch(LsmSegmentWriter *writer, LsmBlockPatch *patch);
extern bool lsm_block_patch_next(LsmBlockPatch *patch, LsmRowHead *head, Datum *values,
								 bool *isnull);
extern void lsm_block_patch_free(LsmBlockPatch *patch);

/* Is it for their dictionaries alone that blocks of that segment cannot be copied? */
extern bool lsm_segment_writer_rejects(LsmSegmentWriter *writer, LsmSegmentReader *reader);

/* Bytes that the stream has so far, the open block estimated. */
extern uint64 lsm_segment_writer_bytes(LsmSegmentWriter *writer);

/* Records that it has so far. */
extern uint64 lsm_segment_writer_records(LsmSegmentWriter *writer);

/* Has nothing been added?  Then the writer may be given up. */
extern bool lsm_segment_writer_is_empty(LsmSegmentWriter *writer);
extern void lsm_segment_writer_abandon(LsmSegmentWriter *writer);

/* Write what is open, index, filter, properties and footer; frees the writer. */
extern void lsm_segment_writer_finish(LsmSegmentWriter *writer, LsmSegmentStats *stats);

/* ---- reading (lsm_segment_reader.c) ---- */

/* Bytes at the end that are read before it is known where metadata begins. */
#define LSM_READER_TAIL			(16 * 1024)

/*
 * Open: reads and verifies footer, block index, filter and properties.  The
 * reader is allocated in CurrentMemoryContext's child; source must live as long.
 */
extern LsmSegmentReader *lsm_segment_reader_open(LsmSegmentSource *source);

/*
 * For who wants to read metadata in one piece.  Estimate its length, generously;
 * then, from the last bytes of the stream, learn it (0: they are not a segment's
 * end), and see whether all of it, up to the end, is sound.
 */
typedef struct LsmSegmentFacts
{
	LsmSegmentKind kind;
	uint64		stored_bytes;
	uint64		versions;
	uint64		list_entries;	/* forwards and dead roots */
	uint32		blocks;
	uint32		unresolved;
	uint32		dictionaries;
} LsmSegmentFacts;
extern uint64 lsm_segment_meta_estimate(const LsmSegmentFacts *facts);
extern uint64 lsm_segment_meta_bytes(uint64 uid, uint64 total_bytes, const void *tail,
									 Size tail_bytes);
extern bool lsm_segment_meta_good(uint64 uid, uint64 total_bytes, const void *meta,
								  Size meta_bytes);

/* A slice of the block index has so many blocks. */
#define LSM_SLICE_BLOCKS		256

/*
 * Who looks up few rows need not have all metadata: a part at the end tells of slices of the
 * block index, which are read one by one (lsm_slices.c).  How many bytes at the end that part
 * has, of the last bytes of a stream, which prove; 0: it has no slices, or more than that has
 * to be read for them.
 *
 * A reader of a part has no zones, filter or lists.  Before its block index is asked for a root
 * or a block, what that needs has to be there: the slice that is not, -1: all is.
 */
extern uint64 lsm_segment_part_bytes(uint64 uid, uint64 total_bytes, const void *tail,
									 Size tail_bytes);
extern int64 lsm_segment_missing_for_root(const LsmSegmentReader *reader, LsmTid root);
extern int64 lsm_segment_missing_for_block(const LsmSegmentReader *reader, uint32 blockno);
extern void lsm_segment_slice_place(const LsmSegmentReader *reader, uint32 slice, uint64 *offset,
									uint32 *len);

/* The bytes of a slice.  False: their checksum is not right.  Raises if they are not sound. */
extern bool lsm_segment_slice_add(LsmSegmentReader *reader, uint32 slice, const void *bytes);

/* Bytes of memory that a slice takes. */
extern Size lsm_segment_slice_memory(void);

/* Are slices, if the segment has them, what its block index says? */
extern bool lsm_segment_slices_agree(LsmSegmentReader *reader);

extern void lsm_segment_reader_close(LsmSegmentReader *reader);
extern LsmSegmentKind lsm_segment_reader_kind(LsmSegmentReader *reader);
extern uint32 lsm_segment_reader_blocks(LsmSegmentReader *reader);

/* A place, zeroed at first, for what its reader learns of a segment. */
extern void *lsm_segment_reader_note(LsmSegmentReader *reader, Size bytes);

/*
 * Bytes of memory that its dictionaries have, besides what is in the memory context it
 * was opened in; and those of all dictionaries that only blocks hold any more.
 */
extern Size lsm_segment_dictionaries_memory(LsmSegmentReader *reader);
extern Size lsm_segment_dictionaries_adrift(void);

/* The first block whose last TID is >= tid; the number of blocks if none. */
extern uint32 lsm_segment_find_block(LsmSegmentReader *reader, LsmTid tid);

/* TIDs and place of one block. */
extern void lsm_segment_block_info(LsmSegmentReader *reader, uint32 blockno,
								   LsmTid *first, LsmTid *last, uint32 *rows,
								   uint64 *offset, uint32 *stored_bytes);

/* False: the segment certainly has no record of that root. */
extern bool lsm_segment_may_contain(LsmSegmentReader *reader, LsmTid root);

/* Root of a version TID, LSM_INVALID_TID if the segment has no such entry. */
extern LsmTid lsm_segment_forward(LsmSegmentReader *reader, LsmTid vtid);

/* Copy the bytes of a block, all of them, and see that they are sound. */
extern void lsm_segment_block_bytes(LsmSegmentReader *reader, uint32 blockno, void *bytes);

/* Are these the bytes of a block, all of them? */
extern bool lsm_segment_block_good(LsmSegmentReader *reader, uint32 blockno, const void *bytes);

/* A large value in the stream. */
typedef struct LsmSegmentValue
{
	uint64		offset;
	uint32		length;
	uint32		crc;
} LsmSegmentValue;

/* The first large value that begins at offset or behind it. */
extern bool lsm_segment_find_value(LsmSegmentReader *reader, uint64 offset,
								   LsmSegmentValue *value);

/* Are these the bytes of the value, all of them? */
extern bool lsm_segment_value_good(uint64 uid, const LsmSegmentValue *value, const char *bytes);

/* All forward entries, dead roots, unresolved xids (sorted, palloc'd). */
typedef struct LsmForward
{
	LsmTid		vtid;
	LsmTid		root;
} LsmForward;
extern LsmForward *lsm_segment_read_forwards(LsmSegmentReader *reader, uint64 *n);
extern LsmTid *lsm_segment_read_dead(LsmSegmentReader *reader, uint64 *n);
extern bool lsm_segment_has_dead(LsmSegmentReader *reader, LsmTid root);
extern uint64 *lsm_segment_unresolved(LsmSegmentReader *reader, uint32 *n);

/* Which of the unresolved xids that is; -1: none. */
extern int64 lsm_segment_find_unresolved(LsmSegmentReader *reader, uint64 xid);

/*
 * Zone map of the group of blocks that blockno is in, for column attnum
 * (1-based): false if there is none.  has_value false: all null.  Only for
 * types whose default btree order is usable; see FORMAT.md.
 */
typedef struct LsmZone
{
	bool		has_null;
	bool		has_value;
	bool		loose;			/* min and max need not be values of rows */
	Datum		min;
	Datum		max;
} LsmZone;
extern bool lsm_segment_zone(LsmSegmentReader *reader, uint32 blockno, int attnum, LsmZone *zone);

/*
 * The same of a segment as a whole (lsm_bounds.c): NULL if it has no zones.  Good as long as
 * the reader.
 */
typedef struct LsmBounds LsmBounds;
extern LsmBounds *lsm_segment_bounds(LsmSegmentReader *reader);

/* Are those that the segment has, if it has any, what its zones say? */
extern bool lsm_segment_bounds_agree(LsmSegmentReader *reader);

/*
 * What the last bytes of a segment tell of them, as one piece of memory of
 * lsm_bounds_bytes(), palloc'd, which may be copied to any process.  They may be known of no
 * column: the segment has no such section, or it begins before these bytes.  NULL: the bytes
 * are not the end of that segment, or damaged.
 */
extern LsmBounds *lsm_segment_tail_bounds(uint64 uid, uint64 total_bytes, const void *tail,
										  Size tail_bytes);
extern Size lsm_bounds_bytes(const LsmBounds *bounds);
extern uint64 lsm_bounds_uid(const LsmBounds *bounds);
extern bool lsm_bounds_are_known(const LsmBounds *bounds);
extern Oid	lsm_bounds_column_type(const LsmBounds *bounds, int attnum);
extern bool lsm_bounds_get(const LsmBounds *bounds, int attnum, LsmZone *zone);

/* Which group that is; no group has 0 for uid. */
typedef struct LsmZoneName
{
	uint64		uid;
	uint32		number;
} LsmZoneName;
extern LsmZoneName lsm_segment_name_zone(LsmSegmentReader *reader, uint32 blockno);
extern bool lsm_segment_is_zone(LsmSegmentReader *reader, uint32 blockno,
								const LsmZoneName *name);

/* The roots, from first to last, of all blocks of that group. */
extern void lsm_segment_zone_roots(LsmSegmentReader *reader, uint32 blockno, LsmTid *first,
								   LsmTid *last);
extern Oid	lsm_segment_column_type(LsmSegmentReader *reader, int attnum);
extern int	lsm_segment_column_length(LsmSegmentReader *reader, int attnum);

/* ---- blocks (lsm_block.c) ---- */

/*
 * Read and verify one block and make it ready; chunks are decompressed and
 * decoded when asked for.  Allocated in a context of its own that is a child of
 * CurrentMemoryContext, until it is to be kept in another; lsm_block_memory() tells
 * what it holds at present.  The block stays valid after its reader is closed.
 *
 * Or in two steps: *bytes is where its bytes go, and if they are proved, their
 * checksum is not looked at (lsm_segment_block_good() has been, since they were read).
 */
extern LsmBlock *lsm_block_read(LsmSegmentReader *reader, uint32 blockno);

/*
 * Who has the bytes of a block, which are sound, and gives out parts of them as the block
 * asks for them.  It must be there until all are given (lsm_block_complete_bytes()), or the
 * block is not used any more.
 */
typedef struct LsmBlockLender
{
	void		(*copy) (struct LsmBlockLender *lender, uint32 from, uint32 len, char *to);
} LsmBlockLender;

/*
 * A block of which only the chunks that are looked at are copied.  An old one, made so
 * and not used any more, may become the new one: that spares most of the work.
 */
extern LsmBlock *lsm_block_borrow(LsmBlock *old, LsmSegmentReader *reader, uint32 blockno,
								  LsmBlockLender *lender);
extern void lsm_block_complete_bytes(LsmBlock *block);

/* Have the processor fetch what every use of a block begins with. */
extern void lsm_block_prefetch(const LsmBlock *block);

/* Has something been decoded that costs more than to copy the block? */
extern bool lsm_block_is_costly(LsmBlock *block);
extern LsmBlock *lsm_block_new(LsmSegmentReader *reader, uint32 blockno, char **bytes);
extern LsmBlock *lsm_block_new_expanded(LsmSegmentReader *reader, uint32 blockno, uint32 len,
										char **bytes);
extern void lsm_block_begin(LsmSegmentReader *reader, LsmBlock *block, bool proved);

/*
 * The bytes of the same block in which nothing is compressed (lsm_expand.c), which a
 * block of lsm_block_new_expanded() is made of.  They have no checksum.  The other is over
 * bytes that lie elsewhere, expanded or as stored, aligned, and stay as long as it is used.
 */
extern LsmBlock *lsm_block_over(LsmSegmentReader *reader, uint32 blockno, uint32 len,
								const char *bytes);
extern void lsm_block_expand(LsmBlock *block, StringInfo out);

/*
 * Has a chunk had to be decompressed, of those that were looked at so far?  False also if
 * only distinct values have been.
 */
extern bool lsm_block_has_decompressed(const LsmBlock *block);
extern void lsm_block_keep(LsmBlock *block, MemoryContext context);
extern void lsm_block_free(LsmBlock *block);
extern Size lsm_block_memory(LsmBlock *block);
extern int	lsm_block_rows(LsmBlock *block);
extern uint32 lsm_block_raw_bytes(LsmBlock *block); /* of all rows, about */
extern int	lsm_block_natts(LsmBlock *block);	/* columns stored */

/* First row whose root is >= tid; the number of rows if none. */
extern int	lsm_block_find(LsmBlock *block, LsmTid tid);
extern LsmTid lsm_block_root(LsmBlock *block, int row);

/*
 * Rows are going to be looked at: have the processor fetch, in this order, the place where
 * the index of the segment has a root (two steps); what finds rows in a block; what tells of
 * the columns of a row (asked, n of them, from 0); its values.  For each of several rows it takes
 * as long as for one.  The last does the last two for one row, whose columns then come together.
 * Only hints: what they are about need not be there.
 */
extern void lsm_segment_foresee(const LsmSegmentReader *reader, LsmTid root);
extern void lsm_segment_foresee_entry(const LsmSegmentReader *reader, LsmTid root);
extern void lsm_block_foresee(const LsmBlock *block);
extern void lsm_block_foresee_columns(const LsmBlock *block, const int16 *asked, int n);
extern void lsm_block_foresee_values(const LsmBlock *block, LsmTid root, const int16 *asked, int n);
extern void lsm_block_foresee_row(const LsmBlock *block, int row, const int16 *asked, int n);

/* Everything of a record but its columns. */
extern void lsm_block_head(LsmBlock *block, int row, LsmRowHead *head);

/* True if every record has xid 0 (frozen). */
extern bool lsm_block_all_frozen(LsmBlock *block);

/* Has every record the same xid, command id and info? */
extern bool lsm_block_uniform(LsmBlock *block);

/* Do all records surely have the same info and the same map of columns? */
extern bool lsm_block_alike(LsmBlock *block);

/* Does every record know of all columns that the block stores? */
extern bool lsm_block_complete(LsmBlock *block);

/*
 * Are values of a column, one of those stored, what values of an attribute are?  If not, they are
 * of rows of aborted transactions, which had added another column in its place.
 */
extern bool lsm_block_column_fits(const LsmBlock *block, int attnum, Form_pg_attribute att);

/* The root TIDs of all rows: lsm_block_rows() of them. */
extern void lsm_block_roots(LsmBlock *block, LsmTid *roots);

/*
 * One column of one row (attnum 1-based, <= lsm_block_natts).  A value that is
 * not passed by value points into the block's memory and lives as long as it.
 */
extern Datum lsm_block_value(LsmBlock *block, int row, int attnum, bool *isnull);

/*
 * The same; but a value that has to be built may be built in room, which has
 * LSM_BLOCK_VALUE_BYTES (MAXALIGN'd), and lives as long as that is left alone.  So the
 * block does not grow by values that are asked for one by one.
 */
#define LSM_BLOCK_VALUE_BYTES	24
extern Datum lsm_block_value_in(LsmBlock *block, int row, int attnum, bool *isnull, char *room);

/*
 * The same for columns from + 1 to to, which go to the arrays' places from to to - 1; room
 * is that of an array, too.
 */
extern void lsm_block_values_in(LsmBlock *block, int row, int from, int to,
								Datum *values, bool *isnull, char *room);

/* Have the values of a column to be built, and have not been yet?  (Numerics are.) */
extern bool lsm_block_column_is_built(LsmBlock *block, int attnum);

/* The whole column, decoded once and kept: arrays of lsm_block_rows entries. */
extern void lsm_block_column(LsmBlock *block, int attnum, Datum **values, bool **isnull);

/* ---- corruption ---- */
pg_noreturn extern void lsm_segment_corrupt(LsmSegmentSource *source, int64 blockno,
											const char *fmt,...) pg_attribute_printf(3, 4);

#endif							/* LSM_SEGMENT_H */
