/*-------------------------------------------------------------------------
 *
 * lsm_block.c
 *	  Blocks of a segment: reading one by row or by column.
 *
 * A block holds its rows column by column (PAX): a header, a directory of
 * chunks, the chunks.  First come the system chunks, which hold what a record
 * is (root TID, xid, ...), then one chunk for each column.  A system chunk in
 * which every row has the default is left out, so that a baseline block has
 * only root TIDs, info and the xids that its rows had, which mostly are one number each.
 *
 * A block that was read is an object of its own: it has copies of what it
 * needs of its reader.  Chunks are opened when first asked for.  One that is borrowed
 * has only its header and directory at first, and gets the bytes of a chunk, to the same
 * place, before it opens it: who goes through a table by one column copies little more
 * than that.
 *
 * Reading rows one by one has to be cheap: what index scans do.  Mostly that is a
 * matter of how many lines of memory are touched which are in no cache.  So a block
 * remembers its roots as a few runs, as they are in most blocks of tables at rest,
 * and whether all records have the same head but for the root.  Where there are more
 * runs, the roots are decoded into an array, once searching them where they are has
 * cost about as much.  All that is found out from chunks that have been checked, so
 * that nothing is trusted that was not before.  And what a block takes besides its
 * bytes is little, for the more blocks a session can keep.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "segment/lsm_segment_format.h"
#include "utils/memutils.h"

/* Types of the system chunks. */
const LsmColumnType lsm_block_system_types[LSM_SYS_CHUNKS] = {
	{.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE}, /* root */
	{.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE}, /* xid */
	{.typlen = 4,.typbyval = true,.typalign = TYPALIGN_INT},	/* cid */
	{.typlen = 2,.typbyval = true,.typalign = TYPALIGN_SHORT},	/* info */
	{.typlen = 2,.typbyval = true,.typalign = TYPALIGN_SHORT},	/* natts */
	{.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE}, /* vtid */
	{.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE}, /* base */
	{.typlen = -1,.typbyval = false,.typalign = TYPALIGN_INT},	/* cols */
	{.typlen = 8,.typbyval = true,.typalign = TYPALIGN_DOUBLE}	/* xmin */
};

StaticAssertDecl(LSM_BLOCK_VALUE_BYTES >= LSM_NUMERIC_MAX_BYTES &&
				 LSM_BLOCK_VALUE_BYTES == MAXALIGN(LSM_BLOCK_VALUE_BYTES),
				 "a numeric that is built fits the room for it");

/* ---------------------------------------------------------------------
 * Reading
 * --------------------------------------------------------------------- */

/* Do the records of a block differ in more than their roots and columns? */
typedef enum LsmBlockHeads
{
	LSM_HEADS_UNKNOWN,
	LSM_HEADS_ALIKE,
	LSM_HEADS_DIFFER
} LsmBlockHeads;

/* Roots that are not more runs than these are remembered as such. */
#define LSM_BLOCK_RUNS			6

/*
 * What finding a row needs comes first, in one line of cache, then what reading one needs.
 * Behind the block there are the places of its chunks (lsm_block_new()).
 */
struct LsmBlock
{
	uint16		nruns;			/* of roots; 0: not known, or too many */
	uint16		run_ends[LSM_BLOCK_RUNS];	/* rows up to the end of each */
	LsmTid		run_roots[LSM_BLOCK_RUNS];	/* with which it begins */
	LsmChunk  **columns;		/* NULL until opened */
	int			rows;
	int			natts;
	uint64		xmin;			/* of all records, if they are alike in that, too */
	uint16		info;			/* of all records, if they are alike */
	uint16		system;
	LsmBlockHeads heads;
	bool		wide;
	bool		xmins_differ;	/* of records that are alike */
	bool		dictionaries;	/* it holds the segment's */
	bool		grown;			/* memory is to be asked for again */
	bool		runs_sought;
	bool		decompressed;	/* a chunk had to be */
	bool		costly;			/* see lsm_block_is_costly() */
	int			found;			/* by lsm_block_find() last */
	uint32	   *roots;			/* their distance from the first, or NULL */
	LsmTid		first_root;		/* set with roots */
	uint64		roots_slope;	/* rows for a distance of 2^32, about */
	uint32		roots_span;		/* the last of them */
	int			roots_wait;		/* uses until they are decoded; 0: never */
	Size		memory;
	int			chunks_n;
	LsmChunk  **chunks;			/* system chunks, then columns */
	int8		system_number[LSM_SYS_CHUNKS];	/* in the directory, or -1 */
	LsmTid		first;			/* as the segment's index has them */
	LsmTid		last;
	uint32		raw_bytes;		/* of its rows, before they were encoded */
	uint32		len;
	uint32		room;			/* borrowed: bytes that data has room for */
	const uint8 *data;
	LsmBlockLender *lender;		/* of bytes that are not in data yet, or NULL */
	LsmColumnType *types;
	MemoryContext home;			/* what this struct lies in; context, or its
								 * parent */
	MemoryContext context;
	LsmSegmentSource source;	/* for messages only; nothing can be read */
	LsmCodecPlace place;
};

/* Where the places of its chunks begin. */
#define LSM_BLOCK_CHUNKS		TYPEALIGN(LSM_CACHE_LINE, sizeof(LsmBlock))

/*
 * Memory that a block gets at once besides its bytes: enough to open three columns or
 * so.  Further pieces are a little larger each.
 */
#define LSM_BLOCK_FIRST_BYTES	1024
#define LSM_BLOCK_MOST_BYTES	8192

/* The context itself, which the server does not count, takes less than that. */
#define LSM_BLOCK_CONTEXT_BYTES	256

/* What a search of the roots counts for, against asking for one of them. */
#define LSM_ROOTS_SEARCH		4

static void
lsm_block_entry(const LsmBlock *block, int number, LsmWideEntry *entry)
{
	const uint8 *directory = block->data + sizeof(LsmBlockHeader);

	if (block->wide)
		memcpy(entry, directory + number * sizeof(LsmWideEntry), sizeof(LsmWideEntry));
	else
	{
		LsmNarrowEntry narrow;

		memcpy(&narrow, directory + number * sizeof(narrow), sizeof(narrow));
		entry->encoding = narrow.encoding;
		entry->flags = narrow.flags;
		entry->reserved = 0;
		entry->offset = narrow.offset;
	}
}

/* Take the header apart. */
static void
lsm_block_open(LsmBlock *block, const LsmBlockEntry *index, int natts)
{
	LsmBlockHeader header;
	Size		entry_bytes;

	memcpy(&header, block->data, sizeof(header));
	if (header.version != LSM_BLOCK_VERSION)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"The block has the unknown format version %u.", header.version);
	if (header.flags & ~LSM_BLOCK_KNOWN_FLAGS)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"The block has the unknown flags %02X.", header.flags);
	if (header.natts != natts || header.rows != index->rows || header.rows == 0 ||
		header.rows > LSM_BLOCK_MAX_ROWS || header.raw_bytes != index->raw_bytes)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"The block has %u rows of %u columns and %u raw bytes, expected %u of %d and %u.",
							header.rows, header.natts, header.raw_bytes,
							index->rows, natts, index->raw_bytes);
	if ((header.system & (1 << LSM_SYS_ROOT)) == 0 ||
		(header.system & ~((1 << LSM_SYS_CHUNKS) - 1)) != 0)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"The block has the system chunks %04X.", header.system);

	block->first = index->first;
	block->last = index->last;
	block->rows = header.rows;
	block->raw_bytes = header.raw_bytes;
	block->natts = header.natts;
	block->system = header.system;
	block->wide = (header.flags & LSM_BLOCK_WIDE) != 0;
	block->dictionaries = (header.flags & LSM_BLOCK_DICTIONARY) != 0;
	block->chunks_n = 0;
	for (int i = 0; i < LSM_SYS_CHUNKS; i++)
		block->system_number[i] = (header.system & (1 << i)) ? block->chunks_n++ : -1;
	block->chunks_n += natts;

	entry_bytes = block->wide ? sizeof(LsmWideEntry) : sizeof(LsmNarrowEntry);
	if (sizeof(header) + block->chunks_n * entry_bytes > block->len)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"The block is too short for its %d chunks.", block->chunks_n);
	if (block->chunks == NULL)
		block->chunks = MemoryContextAlloc(block->context, block->chunks_n * sizeof(LsmChunk *));
	memset(block->chunks, 0, block->chunks_n * sizeof(LsmChunk *));
	block->columns = block->chunks + (block->chunks_n - natts);
	block->roots_wait = 2 * LSM_ROOTS_SEARCH + block->rows / 16;
}

/*
 * All that is known to be needed is one piece of memory: the block, places for its chunks,
 * its types, the name of the table, its bytes; or no bytes, if they lie elsewhere.
 */
static LsmBlock *
lsm_block_make(LsmSegmentReader *reader, uint32 blockno, uint32 len, bool elsewhere)
{
	int			natts = reader->props.natts;
	Size		types = LSM_BLOCK_CHUNKS + (LSM_SYS_CHUNKS + natts) * sizeof(LsmChunk *);
	Size		name = types + MAXALIGN(natts * sizeof(LsmColumnType));
	Size		data = name + MAXALIGN(strlen(reader->source->relname) + 1);
	Size		room = elsewhere ? 0 : (Size) len + LSM_CODEC_SLACK;
	MemoryContext context;
	LsmBlock   *block;
	char	   *memory;

	if (blockno >= reader->props.blocks)
		elog(ERROR, "block %u of a segment of %u blocks", blockno, reader->props.blocks);

	context = GenerationContextCreate(CurrentMemoryContext, "lsm block", LSM_BLOCK_FIRST_BYTES,
									  LSM_BLOCK_FIRST_BYTES, LSM_BLOCK_MOST_BYTES);
	memory = MemoryContextAlloc(context, data + room + LSM_CACHE_LINE);
	memory = (char *) TYPEALIGN(LSM_CACHE_LINE, memory);
	block = (LsmBlock *) memory;
	memset(block, 0, sizeof(LsmBlock));
	block->home = block->context = context;
	block->types = (LsmColumnType *) (memory + types);
	memcpy(block->types, reader->types, natts * sizeof(LsmColumnType));
	block->chunks = (LsmChunk **) (memory + LSM_BLOCK_CHUNKS);
	block->source.uid = reader->source->uid;
	block->source.relname = memcpy(memory + name, reader->source->relname,
								   strlen(reader->source->relname) + 1);
	block->place.source = &block->source;
	block->place.blockno = blockno;
	block->len = len;
	block->grown = true;
	if (!elsewhere)
	{
		block->data = (uint8 *) (memory + data);
		memset(memory + data + len, 0, LSM_CODEC_SLACK);
	}
	return block;
}

LsmBlock *
lsm_block_new(LsmSegmentReader *reader, uint32 blockno, char **bytes)
{
	LsmBlock   *block = lsm_block_make(reader, blockno, lsm_reader_entry(reader, blockno)->length, false);

	*bytes = unconstify(char *, (const char *) block->data);
	return block;
}

LsmBlock *
lsm_block_new_expanded(LsmSegmentReader *reader, uint32 blockno, uint32 len, char **bytes)
{
	LsmBlock   *block = lsm_block_make(reader, blockno, len, false);

	*bytes = unconstify(char *, (const char *) block->data);
	return block;
}

LsmBlock *
lsm_block_over(LsmSegmentReader *reader, uint32 blockno, uint32 len, const char *bytes)
{
	LsmBlock   *block = lsm_block_make(reader, blockno, len, true);

	block->data = (const uint8 *) bytes;
	return block;
}

static void
lsm_block_hold_dictionaries(LsmSegmentReader *reader, LsmBlock *block)
{
	if (reader->dictionaries == NULL)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"The block needs dictionaries, of which the segment has none.");
	lsm_dictionaries_hold(reader->dictionaries, block->context);
	for (int i = 0; i < block->natts; i++)
		block->types[i].dictionary = lsm_dictionaries_get(reader->dictionaries, i + 1);
}

void
lsm_block_begin(LsmSegmentReader *reader, LsmBlock *block, bool proved)
{
	const LsmBlockEntry *index = lsm_reader_entry(reader, block->place.blockno);
	MemoryContext old = MemoryContextSwitchTo(block->context);

	if (!proved)
	{
		pg_crc32c	crc = lsm_segment_crc(block->source.uid, block->data, block->len);

		if (!EQ_CRC32C(crc, index->crc))
			lsm_segment_corrupt(&block->source, block->place.blockno,
								"The block has checksum %08X, expected %08X.",
								crc, index->crc);
	}
	lsm_block_open(block, index, reader->props.natts);
	if (block->dictionaries)
		lsm_block_hold_dictionaries(reader, block);
	MemoryContextSwitchTo(old);
}

static LsmBlock *
lsm_block_create_borrowed(void)
{
	MemoryContext home = AllocSetContextCreate(CurrentMemoryContext, "lsm borrowed block", 0,
											   2 * 1024, 8 * 1024);
	LsmBlock   *block = MemoryContextAllocZero(home, sizeof(LsmBlock));

	block->home = home;
	block->context = AllocSetContextCreate(home, "lsm borrowed chunks", 0, 8 * 1024, 64 * 1024);
	block->place.source = &block->source;
	return block;
}

/* Forget which block it was; what it knows of the segment stays. */
static void
lsm_block_reset(LsmBlock *block)
{
	LsmBlock	kept = *block;

	MemoryContextReset(block->context);
	memset(block, 0, sizeof(LsmBlock));
	block->home = kept.home;
	block->context = kept.context;
	block->source = kept.source;
	block->place.source = &block->source;
	block->types = kept.types;
	block->natts = kept.natts;
	block->data = kept.data;
	block->room = kept.room;

	/* these pointed to what the context held */
	for (int i = 0; kept.dictionaries && i < kept.natts; i++)
		block->types[i].dictionary = NULL;
}

/* Have what all blocks of a segment need of it. */
static void
lsm_block_learn(LsmBlock *block, LsmSegmentReader *reader)
{
	int			natts = reader->props.natts;

	if (block->source.relname != NULL && block->source.uid == reader->source->uid)
		return;
	if (block->types != NULL)
		pfree(block->types);
	if (block->source.relname != NULL)
		pfree(unconstify(char *, block->source.relname));
	block->types = NULL;
	block->source.relname = NULL;
	block->natts = natts;
	block->types = MemoryContextAlloc(block->home, Max(natts, 1) * sizeof(LsmColumnType));
	memcpy(block->types, reader->types, natts * sizeof(LsmColumnType));
	block->source.uid = reader->source->uid;
	block->source.relname = MemoryContextStrdup(block->home, reader->source->relname);
}

static void
lsm_block_make_room(LsmBlock *block, uint32 len)
{
	if (len <= block->room)
		return;
	if (block->data != NULL)
		pfree(unconstify(uint8 *, block->data));
	block->data = NULL;
	block->room = 0;
	block->data = MemoryContextAllocZero(block->home, (Size) len + LSM_CODEC_SLACK);
	block->room = len;
}

LsmBlock *
lsm_block_borrow(LsmBlock *old, LsmSegmentReader *reader, uint32 blockno, LsmBlockLender *lender)
{
	const LsmBlockEntry *index = lsm_reader_entry(reader, blockno);
	LsmBlock   *block = old != NULL ? old : lsm_block_create_borrowed();
	int			chunks = LSM_SYS_CHUNKS + reader->props.natts;
	uint32		head = sizeof(LsmBlockHeader) + chunks * sizeof(LsmNarrowEntry);
	LsmBlockHeader header;

	Assert(blockno < reader->props.blocks);
	lsm_block_reset(block);
	lsm_block_learn(block, reader);
	lsm_block_make_room(block, index->length);
	block->place.blockno = blockno;
	block->len = index->length;
	block->grown = true;
	block->lender = lender;
	lender->copy(lender, 0, Min(head, block->len), (char *) block->data);
	memcpy(&header, block->data, sizeof(header));
	if (header.flags & LSM_BLOCK_WIDE)
	{
		head = sizeof(LsmBlockHeader) + chunks * sizeof(LsmWideEntry);
		lender->copy(lender, 0, Min(head, block->len), (char *) block->data);
	}
	lsm_block_open(block, index, reader->props.natts);
	if (block->dictionaries)
		lsm_block_hold_dictionaries(reader, block);
	return block;
}

void
lsm_block_complete_bytes(LsmBlock *block)
{
	if (block->lender == NULL)
		return;
	/* what is there gets the same bytes once more */
	block->lender->copy(block->lender, 0, block->len, (char *) block->data);
	block->lender = NULL;
}

void
lsm_block_prefetch(const LsmBlock *block)
{
	__builtin_prefetch(block);
	__builtin_prefetch((const char *) block + 64);
	__builtin_prefetch((const char *) block + 128);
}

bool
lsm_block_is_costly(LsmBlock *block)
{
	for (int i = 0; i < block->natts && !block->costly; i++)
		block->costly = block->columns[i] != NULL && block->columns[i]->values != NULL;
	return block->costly;
}

LsmBlock *
lsm_block_read(LsmSegmentReader *reader, uint32 blockno)
{
	char	   *bytes;
	LsmBlock   *block = lsm_block_new(reader, blockno, &bytes);

	reader->source->read(reader->source, lsm_reader_offset(reader, blockno), block->len, bytes);
	lsm_block_begin(reader, block, false);
	return block;
}

void
lsm_block_keep(LsmBlock *block, MemoryContext context)
{
	MemoryContextSetParent(block->home, context);
}

void
lsm_block_free(LsmBlock *block)
{
	MemoryContextDelete(block->home);
}

Size
lsm_block_memory(LsmBlock *block)
{
	if (block->grown)
	{
		block->memory = LSM_BLOCK_CONTEXT_BYTES + MemoryContextMemAllocated(block->home, true);
		block->grown = false;
	}
	return block->memory;
}

int
lsm_block_rows(LsmBlock *block)
{
	return block->rows;
}

uint32
lsm_block_raw_bytes(LsmBlock *block)
{
	return block->raw_bytes;
}

int
lsm_block_natts(LsmBlock *block)
{
	return block->natts;
}

static bool
lsm_block_entry_compressed(const LsmWideEntry *entry)
{
	return (entry->flags & LSM_CHUNK_ZSTD) || entry->encoding == LSM_ENC_BODIES;
}

/* What the directory says of a chunk; returns where it ends. */
static uint32
lsm_block_locate_chunk(LsmBlock *block, int number, LsmWideEntry *entry)
{
	LsmWideEntry next;
	uint32		end = block->len;

	lsm_block_entry(block, number, entry);
	if (number + 1 < block->chunks_n)
	{
		lsm_block_entry(block, number + 1, &next);
		end = next.offset;
	}
	if (entry->reserved != 0 || entry->offset < sizeof(LsmBlockHeader) ||
		entry->offset > end || end > block->len)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"Chunk %d lies at %u to %u of %u bytes.",
							number, entry->offset, end, block->len);
	return end;
}

const uint8 *
lsm_block_stored_chunk(LsmBlock *block, int which, LsmWideEntry *entry, uint32 *len)
{
	int			number = which < LSM_SYS_CHUNKS ? block->system_number[which] :
		block->chunks_n - block->natts + which - LSM_SYS_CHUNKS;

	Assert(block->lender == NULL);
	if (number < 0)
		return NULL;
	*len = lsm_block_locate_chunk(block, number, entry) - entry->offset;
	return block->data + entry->offset;
}

static pg_noinline LsmChunk *
lsm_block_open_chunk(LsmBlock *block, int number, const LsmColumnType *type)
{
	LsmWideEntry entry;
	uint32		end;

	block->grown = true;
	end = lsm_block_locate_chunk(block, number, &entry);
	if (lsm_block_entry_compressed(&entry))
		block->decompressed = true;
	if (block->lender != NULL)
		block->lender->copy(block->lender, entry.offset, end - entry.offset,
							(char *) block->data + entry.offset);
	block->costly |= (entry.flags & LSM_CHUNK_ZSTD) != 0 || entry.encoding == LSM_ENC_BODIES;
	block->chunks[number] = lsm_chunk_open(block->context, &block->place, type,
										   entry.encoding, entry.flags,
										   block->data + entry.offset,
										   end - entry.offset, block->rows);
	return block->chunks[number];
}

bool
lsm_block_has_decompressed(const LsmBlock *block)
{
	return block->decompressed;
}

void
lsm_block_expand(LsmBlock *block, StringInfo out)
{
	int			systems = block->chunks_n - block->natts;
	int			which = -1;
	LsmBlockHeader header;
	StringInfoData payload;

	memcpy(&header, block->data, sizeof(header));
	header.flags = LSM_BLOCK_WIDE;
	resetStringInfo(out);
	appendBinaryStringInfo(out, (char *) &header, sizeof(header));
	enlargeStringInfo(out, block->chunks_n * sizeof(LsmWideEntry) + MAXIMUM_ALIGNOF);
	memset(out->data + out->len, 0, block->chunks_n * sizeof(LsmWideEntry) + MAXIMUM_ALIGNOF);
	out->len = MAXALIGN(out->len + block->chunks_n * sizeof(LsmWideEntry));
	initStringInfo(&payload);
	for (int i = 0; i < block->chunks_n; i++)
	{
		LsmChunk   *chunk = block->chunks[i];
		LsmWideEntry entry;

		while (i < systems && block->system_number[++which] != i)
			;
		if (chunk == NULL)
			chunk = lsm_block_open_chunk(block, i, i < systems ? &lsm_block_system_types[which] :
										 &block->types[i - systems]);
		lsm_block_entry(block, i, &entry);
		resetStringInfo(&payload);
		lsm_chunk_expand(chunk, &payload, &entry.encoding, &entry.flags);
		while ((Size) out->len != MAXALIGN(out->len))
			appendStringInfoCharMacro(out, '\0');
		entry.offset = out->len;
		memcpy(out->data + sizeof(header) + i * sizeof(entry), &entry, sizeof(entry));
		appendBinaryStringInfo(out, payload.data, payload.len);
	}
	pfree(payload.data);

	/* what reads a little more than its bytes must find them */
	for (int i = 0; i < LSM_CODEC_SLACK; i++)
		appendStringInfoCharMacro(out, '\0');
}

/* A system chunk, NULL if every row has the default. */
static inline LsmChunk *
lsm_block_system(LsmBlock *block, int which)
{
	int			number = block->system_number[which];
	LsmChunk   *chunk;

	if (number < 0)
		return NULL;
	chunk = block->chunks[number];
	if (chunk == NULL)
	{
		chunk = lsm_block_open_chunk(block, number, &lsm_block_system_types[which]);
		if (which != LSM_SYS_COLS &&
			(chunk->present != NULL || chunk->vector.encoding == LSM_ENC_NULLS))
		{
			block->chunks[number] = NULL;
			lsm_segment_corrupt(&block->source, block->place.blockno,
								"System chunk %d has nulls.", which);
		}
	}
	return chunk;
}

static inline LsmChunk *
lsm_block_chunk(LsmBlock *block, int attnum)
{
	LsmChunk   *chunk = block->columns[attnum - 1];

	Assert(attnum >= 1 && attnum <= block->natts);
	if (unlikely(chunk == NULL))
		chunk = lsm_block_open_chunk(block, block->chunks_n - block->natts + attnum - 1,
									 &block->types[attnum - 1]);
	return chunk;
}

/* Remember the roots as runs, if they are few; true if they are. */
static bool
lsm_block_find_runs(LsmBlock *block)
{
	LsmChunk   *chunk = lsm_block_system(block, LSM_SYS_ROOT);

	block->runs_sought = true;
	block->nruns = lsm_chunk_tid_runs(chunk, LSM_BLOCK_RUNS, block->run_roots, block->run_ends);
	return block->nruns > 0;
}

/* The roots are used; true if they have been decoded, or are known as runs now. */
static bool
lsm_block_use_roots(LsmBlock *block, int uses)
{
	if (!block->runs_sought && lsm_block_find_runs(block))
		return true;
	if (block->roots_wait == 0)
		return false;
	if (block->roots_wait > uses)
	{
		block->roots_wait -= uses;
		return false;
	}
	block->grown = true;
	block->roots = lsm_chunk_decode_tids(lsm_block_system(block, LSM_SYS_ROOT),
										 &block->first_root);
	block->roots_wait = 0;
	if (block->roots == NULL)
		return false;
	block->roots_span = block->roots[block->rows - 1];
	block->roots_slope = ((uint64) block->rows << 32) / ((uint64) block->roots_span + 1);
	return true;
}

/* Is that row the first with a root at offset? */
static inline bool
lsm_block_first_at(const uint32 *roots, int row, uint32 offset)
{
	return roots[row] == offset && (row == 0 || roots[row - 1] < offset);
}

/* lsm_block_find() among runs. */
static inline int
lsm_block_find_in_runs(const LsmBlock *block, LsmTid tid)
{
	int			row = 0;

	for (int run = 0; run < block->nruns; run++)
	{
		if (tid <= block->run_roots[run])
			return row;
		if (tid - block->run_roots[run] < (LsmTid) (block->run_ends[run] - row))
			return row + (int) (tid - block->run_roots[run]);
		row = block->run_ends[run];
	}
	return row;
}

/* The same in the array of roots. */
static int
lsm_block_find_in_array(LsmBlock *block, LsmTid tid)
{
	const uint32 *roots = block->roots;
	uint32		offset;
	int			step = 4;
	int			low;
	int			high;

	if (tid <= block->first_root)
		return 0;
	if (tid - block->first_root > block->roots_span)
		return block->rows;
	offset = (uint32) (tid - block->first_root);

	/*
	 * Mostly a block has all roots of the end of one logical block and of the
	 * beginning of the next, so that it is as many rows from its first or its
	 * last.
	 */
	if (offset < (uint32) block->rows && lsm_block_first_at(roots, offset, offset))
		return block->found = offset;
	if (block->roots_span - offset < (uint32) block->rows)
	{
		low = block->rows - 1 - (int) (block->roots_span - offset);
		if (lsm_block_first_at(roots, low, offset))
			return block->found = low;
	}

	/* often it is the one that follows the one found last */
	low = block->found;
	if (low + 1 < block->rows && roots[low] < offset && offset <= roots[low + 1])
		return block->found = low + 1;

	/* else begin where it would be if all were as far from each other */
	low = (int) ((uint64) offset * block->roots_slope >> 32);
	if (roots[low] < offset)
	{
		high = low + step;
		while (high < block->rows && roots[high] < offset)
		{
			low = high;
			step *= 2;
			high = low + step;
		}
		high = Min(high, block->rows - 1);
	}
	else
	{
		high = low;
		low = high - step;
		while (low > 0 && roots[low] >= offset)
		{
			high = low;
			step *= 2;
			low = high - step;
		}
		low = Max(low, 0);
	}

	/* it lies behind low and is high at most */
	while (high - low > 1)
	{
		int			middle = (low + high) / 2;

		if (roots[middle] < offset)
			low = middle;
		else
			high = middle;
	}
	return block->found = high;
}

int
lsm_block_find(LsmBlock *block, LsmTid tid)
{
	if (likely(block->nruns > 0))
		return lsm_block_find_in_runs(block, tid);
	if (block->roots == NULL)
	{
		/* of a block that is gone through, roots are not even looked at */
		if (tid <= block->first)
			return 0;
		if (tid > block->last)
			return block->rows;
		if (!lsm_block_use_roots(block, LSM_ROOTS_SEARCH))
			return lsm_chunk_lower_bound(lsm_block_system(block, LSM_SYS_ROOT), tid);
	}
	return block->nruns > 0 ? lsm_block_find_in_runs(block, tid) :
		lsm_block_find_in_array(block, tid);
}

static inline LsmTid
lsm_block_root_in_runs(const LsmBlock *block, int row)
{
	int			run = 0;
	int			before = 0;

	while (row >= block->run_ends[run])
		before = block->run_ends[run++];
	return block->run_roots[run] + (LsmTid) (row - before);
}

LsmTid
lsm_block_root(LsmBlock *block, int row)
{
	Assert(row >= 0 && row < block->rows);
	if (likely(block->nruns > 0))
		return lsm_block_root_in_runs(block, row);
	if (block->roots == NULL && !lsm_block_use_roots(block, 1))
		return (LsmTid) lsm_chunk_int(lsm_block_system(block, LSM_SYS_ROOT), row);
	return block->nruns > 0 ? lsm_block_root_in_runs(block, row) :
		block->first_root + block->roots[row];
}

static inline int64
lsm_block_system_int(LsmBlock *block, int which, int row, int64 otherwise)
{
	LsmChunk   *chunk = lsm_block_system(block, which);

	if (chunk == NULL)
		return otherwise;
	if (chunk->vector.encoding == LSM_ENC_CONST)
		return (int64) chunk->vector.base;
	return lsm_chunk_int(chunk, row);
}

/* Find out whether all records have the same head, but for xmin: those of most baseline blocks. */
static void
lsm_block_compare_heads(LsmBlock *block)
{
	LsmChunk   *info = lsm_block_system(block, LSM_SYS_INFO);
	LsmChunk   *xmin = lsm_block_system(block, LSM_SYS_XMIN);

	block->heads = LSM_HEADS_DIFFER;
	if ((block->system & ~(1 << LSM_SYS_ROOT | 1 << LSM_SYS_INFO | 1 << LSM_SYS_XMIN)) != 0 ||
		(info != NULL && info->vector.encoding != LSM_ENC_CONST))
		return;
	block->info = info == NULL ? 0 : (uint16) info->vector.base;
	block->xmins_differ = xmin != NULL && xmin->vector.encoding != LSM_ENC_CONST;
	block->xmin = xmin == NULL ? 0 : (uint64) xmin->vector.base;

	/* a DELTA without a map is damage, which is reported row by row */
	if (!(block->info & LSM_REC_DELTA))
		block->heads = LSM_HEADS_ALIKE;
}

void
lsm_block_head(LsmBlock *block, int row, LsmRowHead *head)
{
	LsmChunk   *cols;
	uint64		natts;

	head->root = lsm_block_root(block, row);
	if (unlikely(block->heads == LSM_HEADS_UNKNOWN))
		lsm_block_compare_heads(block);
	if (block->heads == LSM_HEADS_ALIKE)
	{
		head->xid = 0;
		head->xmin = block->xmins_differ ?
			(uint64) lsm_chunk_int(lsm_block_system(block, LSM_SYS_XMIN), row) : block->xmin;
		head->cid = 0;
		head->info = block->info;
		head->natts = block->natts;
		head->vtid = head->root;
		head->base = LSM_INVALID_TID;
		head->cols_len = 0;
		head->cols = NULL;
		return;
	}
	head->xid = lsm_block_system_int(block, LSM_SYS_XID, row, 0);
	head->xmin = lsm_block_system_int(block, LSM_SYS_XMIN, row, 0);
	if (head->xid != 0)
		head->xmin = head->xid;
	head->cid = lsm_block_system_int(block, LSM_SYS_CID, row, 0);
	head->info = lsm_block_system_int(block, LSM_SYS_INFO, row, 0);
	head->vtid = lsm_block_system_int(block, LSM_SYS_VTID, row, head->root);
	head->base = lsm_block_system_int(block, LSM_SYS_BASE, row, 0);
	natts = lsm_block_system_int(block, LSM_SYS_NATTS, row, block->natts);
	if (natts > (uint64) block->natts)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"Row %d has " UINT64_FORMAT " columns, the block %d.",
							row, natts, block->natts);
	head->natts = natts;
	head->cols_len = 0;
	head->cols = NULL;

	cols = lsm_block_system(block, LSM_SYS_COLS);
	if (cols != NULL)
	{
		bool		isnull;
		Datum		value = lsm_chunk_value(cols, row, &isnull, NULL);

		if (!isnull)
		{
			struct varlena *map = (struct varlena *) DatumGetPointer(value);

			if (VARATT_IS_COMPRESSED(map) || VARSIZE_ANY_EXHDR(map) > PG_UINT16_MAX)
				lsm_segment_corrupt(&block->source, block->place.blockno,
									"Row %d has no sound map of columns.", row);
			head->cols_len = VARSIZE_ANY_EXHDR(map);
			head->cols = (const bits8 *) VARDATA_ANY(map);
		}
	}
	if ((head->info & LSM_REC_DELTA) && head->cols_len < (head->natts + 7) / 8)
		lsm_segment_corrupt(&block->source, block->place.blockno,
							"Row %d has a map of %u bytes for %u columns.",
							row, head->cols_len, head->natts);
}

bool
lsm_block_all_frozen(LsmBlock *block)
{
	return (block->system & (1 << LSM_SYS_XID)) == 0;
}

Datum
lsm_block_value(LsmBlock *block, int row, int attnum, bool *isnull)
{
	LsmChunk   *chunk = lsm_block_chunk(block, attnum);

	Assert(row >= 0 && row < block->rows);

	/* these are built in the block's memory */
	if (chunk->kind == LSM_CHUNK_NUMERICS)
		block->grown = true;
	return lsm_chunk_value(chunk, row, isnull, NULL);
}

Datum
lsm_block_value_in(LsmBlock *block, int row, int attnum, bool *isnull, char *room)
{
	Assert(row >= 0 && row < block->rows);
	return lsm_chunk_value(lsm_block_chunk(block, attnum), row, isnull, room);
}

void
lsm_block_values_in(LsmBlock *block, int row, int from, int to, Datum *values, bool *isnull,
					char *room)
{
	Assert(row >= 0 && row < block->rows);
	Assert(from >= 0 && to <= block->natts);
	for (int i = from; i < to; i++)
		values[i] = lsm_chunk_value(lsm_block_chunk(block, i + 1), row, &isnull[i],
									room + i * LSM_BLOCK_VALUE_BYTES);
}

bool
lsm_block_column_is_built(LsmBlock *block, int attnum)
{
	const LsmChunk *chunk = lsm_block_chunk(block, attnum);

	return chunk->kind == LSM_CHUNK_NUMERICS && chunk->values == NULL;
}

void
lsm_block_column(LsmBlock *block, int attnum, Datum **values, bool **isnull)
{
	block->grown = true;
	lsm_chunk_decode(lsm_block_chunk(block, attnum), values, isnull);
}

LsmChunk *
lsm_block_column_chunk(LsmBlock *block, int attnum)
{
	return lsm_block_chunk(block, attnum);
}

/* Has every record the same xid, command id, and info? */
bool
lsm_block_uniform(LsmBlock *block)
{
	static const int which[] = {LSM_SYS_XID, LSM_SYS_CID, LSM_SYS_INFO};

	for (int i = 0; i < (int) lengthof(which); i++)
	{
		LsmChunk   *chunk = lsm_block_system(block, which[i]);

		if (chunk != NULL && chunk->vector.encoding != LSM_ENC_CONST)
			return false;
	}
	return true;
}

bool
lsm_block_alike(LsmBlock *block)
{
	static const int which[] = {LSM_SYS_INFO, LSM_SYS_COLS};

	for (int i = 0; i < (int) lengthof(which); i++)
	{
		LsmChunk   *chunk = lsm_block_system(block, which[i]);

		if (chunk != NULL && (chunk->present != NULL || chunk->vector.encoding != LSM_ENC_CONST))
			return false;
	}
	return true;
}

/* Mostly a table has no more columns than the places in these lines. */
#define LSM_FORESEEN_LINES		2

void
lsm_block_foresee(const LsmBlock *block)
{
	lsm_prefetch(block);
	lsm_prefetch((const char *) block + LSM_CACHE_LINE);
	for (int i = 0; i < LSM_FORESEEN_LINES; i++)
		lsm_prefetch((const char *) block + LSM_BLOCK_CHUNKS + i * LSM_CACHE_LINE);
}

/* A column that has been opened, else NULL. */
static inline const LsmChunk *
lsm_block_opened(const LsmBlock *block, int column)
{
	return column < block->natts ? block->columns[column] : NULL;
}

void
lsm_block_foresee_columns(const LsmBlock *block, const int16 *asked, int n)
{
	for (int i = 0; i < n; i++)
	{
		const char *chunk = (const char *) lsm_block_opened(block, asked[i]);

		for (Size line = 0; chunk != NULL && line < sizeof(LsmChunk); line += LSM_CACHE_LINE)
			lsm_prefetch(chunk + line);
	}
}

static void
lsm_block_foresee_in_row(const LsmBlock *block, int row, const int16 *asked, int n)
{
	for (int i = 0; i < n; i++)
	{
		const LsmChunk *chunk = lsm_block_opened(block, asked[i]);

		if (chunk != NULL)
			lsm_chunk_foresee(chunk, row);
	}
}

void
lsm_block_foresee_values(const LsmBlock *block, LsmTid root, const int16 *asked, int n)
{
	int			row = lsm_block_find_in_runs(block, root);

	if (block->nruns > 0 && row < block->rows)
		lsm_block_foresee_in_row(block, row, asked, n);
}

void
lsm_block_foresee_row(const LsmBlock *block, int row, const int16 *asked, int n)
{
	lsm_block_foresee_columns(block, asked, n);
	lsm_block_foresee_in_row(block, row, asked, n);
}

/* Does every record know of all columns that the block stores? */
bool
lsm_block_complete(LsmBlock *block)
{
	return (block->system & (1 << LSM_SYS_NATTS)) == 0;
}

bool
lsm_block_column_fits(const LsmBlock *block, int attnum, Form_pg_attribute att)
{
	const LsmColumnType *type = &block->types[attnum - 1];

	return type->typid == att->atttypid ||
		(type->typlen == att->attlen && type->typbyval == att->attbyval &&
		 type->typid != NUMERICOID && att->atttypid != NUMERICOID);
}

/* The root TIDs of all rows. */
void
lsm_block_roots(LsmBlock *block, LsmTid *roots)
{
	LsmChunk   *chunk = lsm_block_system(block, LSM_SYS_ROOT);

	lsm_vector_ints(chunk, &chunk->vector, (int64 *) roots);
}
