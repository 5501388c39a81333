/*-------------------------------------------------------------------------
 *
 * lsm_coldvalue.c
 *	  Reading large values that lie in an object of a store.
 *
 * A value has a request of its own, which asks for no more than is wanted; a long one
 * several, of LSM_COLD_READ_BYTES each, that are under way together.  Values that are read
 * one after the other, as they lie in the object, come through a window: much of the
 * object at once.  So a query that reads the values of many rows in their order, and a
 * compaction, wait for the store once for many values.  There is one window in a process,
 * until the transaction ends; it begins small, grows as long as what it has is wanted, and
 * is given up when less than half of it was.
 *
 * A value that is read as a whole is checked against its checksum, and then kept, if it is
 * not long: in the block cache, and in the disk cache.  A slice is found in them, but not
 * kept, as nothing proves it.  What compactions read is neither looked for nor kept.
 *
 * BRIN computes with the values of a new row while it has a page locked, where no request
 * can be made (I19).  They have been read before, when the row was written.  So the last
 * values that did not come from the block cache are remembered, until the transaction ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_cold.h"
#include "lsm_coldvalue.h"
#include "utils/memutils.h"

/* Values of so many bytes at most are kept in the block cache, and in the disk cache. */
#define LSM_VALUE_SHARED_BYTES	(256 * 1024)
#define LSM_VALUE_KEPT_BYTES	(1024 * 1024)

/* A value's key in the block cache, beside the blocks of its segment. */
#define LSM_VALUE_BLOCKNO(page) ((uint32) (page) | LSM_CACHE_VALUES)

/* The first window, and the largest. */
#define LSM_WINDOW_BYTES		((Size) 1024 * 1024)
#define LSM_WINDOW_MOST			((Size) 4 * LSM_COLD_READ_BYTES)
#define LSM_WINDOW_GROWTH		4

/*
 * What is wanted next follows what was wanted before, if no more is left out than it has
 * itself, or, of whole values, than a block that lies between them.
 */
#define LSM_WINDOW_GAP_BYTES	(64 * 1024)

/* Bytes of a segment's stream, read before they are wanted. */
typedef struct LsmValueWindow
{
	uint64		uid;			/* the segment read last; 0: none */
	uint64		reached;		/* end of what was wanted last of it */
	uint64		from;			/* of the bytes that are there */
	Size		bytes;			/* 0: none are */
	Size		used;			/* so many were wanted */
	Size		next;			/* what the next window will have at least; 0: the
								 * first one's */
	char	   *buf;
	Size		room;
} LsmValueWindow;

static LsmValueWindow lsm_window;

/* So many values are remembered, and so many bytes of them. */
#define LSM_LAST_VALUES			16
#define LSM_LAST_BYTES			((Size) 16 * 1024 * 1024)

/* A large value that was read as a whole. */
typedef struct LsmLastValue
{
	uint64		uid;			/* of its segment */
	uint64		offset;
	uint32		length;			/* 0: none is here */
	char	   *bytes;
} LsmLastValue;

static LsmLastValue lsm_last[LSM_LAST_VALUES];	/* a ring */
static int	lsm_last_next;		/* where the next comes to; the oldest is there */
static Size lsm_last_bytes;

/* ---- the values that were read last ---- */

static void
lsm_last_drop(LsmLastValue *last)
{
	if (last->length == 0)
		return;
	lsm_last_bytes -= last->length;
	last->length = 0;
	pfree(last->bytes);
}

void
lsm_coldvalue_xact_end(void)
{
	if (lsm_window.buf != NULL)
		pfree(lsm_window.buf);
	memset(&lsm_window, 0, sizeof(lsm_window));
	for (int i = 0; i < LSM_LAST_VALUES; i++)
		lsm_last_drop(&lsm_last[i]);
}

static const LsmLastValue *
lsm_last_find(const LsmManifestEntry *entry, const LsmSegmentValue *value)
{
	for (int i = 0; i < LSM_LAST_VALUES; i++)
		if (lsm_last[i].length == value->length && lsm_last[i].uid == entry->uid &&
			lsm_last[i].offset == value->offset)
			return &lsm_last[i];
	return NULL;
}

/* Remember a value that has been found right. */
static void
lsm_last_keep(const LsmManifestEntry *entry, const LsmSegmentValue *value, const char *bytes)
{
	LsmLastValue *last;

	if (value->length > LSM_LAST_BYTES || lsm_last_find(entry, value) != NULL)
		return;
	for (int i = 0; i < LSM_LAST_VALUES; i++)
		if (i == 0 || lsm_last_bytes + value->length > LSM_LAST_BYTES)
			lsm_last_drop(&lsm_last[(lsm_last_next + i) % LSM_LAST_VALUES]);
	last = &lsm_last[lsm_last_next];
	last->bytes = MemoryContextAlloc(TopMemoryContext, value->length);
	memcpy(last->bytes, bytes, value->length);
	last->uid = entry->uid;
	last->offset = value->offset;
	last->length = value->length;
	lsm_last_bytes += value->length;
	lsm_last_next = (lsm_last_next + 1) % LSM_LAST_VALUES;
}

/* ---- requests ---- */

/* Count what has been asked of stores meanwhile. */
static void
lsm_coldvalue_count(LsmTable *table, LsmReaderKind kind, const LsmStoreAsked *before)
{
	uint64		requests = lsm_store_asked.requests - before->requests;
	uint64		bytes = lsm_store_asked.bytes - before->bytes;

	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_REQUESTS, requests);
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_BYTES_READ, bytes);
	table->stat.counts[LSM_STAT_STORE_REQUESTS] += requests;
	table->stat.counts[LSM_STAT_STORE_BYTES_READ] += bytes;
}

/* Read bytes of an object, by requests that are under way together. */
static void
lsm_coldvalue_request(Relation rel, const LsmManifestEntry *entry, uint64 from, Size bytes,
					  char *buf)
{
	char		key[LSM_COLD_KEY_BYTES];
	Size		n = (bytes + LSM_COLD_READ_BYTES - 1) / LSM_COLD_READ_BYTES;
	LsmStoreRead *pieces = palloc0(n * sizeof(LsmStoreRead));
	LsmStoreReads *reads = lsm_store_reads_begin(lsm_cold_open(rel, entry));
	LsmStoreRead *read;

	Assert(from + bytes <= lsm_entry_object(entry)->bytes);
	lsm_cold_key(entry, key);
	for (Size i = 0; i < n; i++)
	{
		Size		at = i * LSM_COLD_READ_BYTES;

		pieces[i].key = key;
		pieces[i].offset = from + at;
		pieces[i].len = Min(bytes - at, LSM_COLD_READ_BYTES);
		pieces[i].buffer = buf + at;
		pieces[i].missing_ok = true;
		lsm_store_reads_add(reads, &pieces[i]);
	}
	while ((read = lsm_store_reads_next(reads, true)) != NULL)
		if (read->missing)
			lsm_cold_raise_missing(entry);
	lsm_store_reads_end(reads);
	pfree(pieces);
}

/* ---- the window ---- */

/* Is a read the next one of many?  Notes where it ends. */
static bool
lsm_window_follows(uint64 uid, uint64 at, uint32 len)
{
	LsmValueWindow *window = &lsm_window;
	uint64		gap = len >= LSM_LARGE_VALUE ? Max(len, LSM_WINDOW_GAP_BYTES) : len;
	bool		follows = window->uid == uid && at >= window->reached &&
		at - window->reached <= gap;

	if (window->uid != uid)
	{
		window->uid = uid;
		window->bytes = 0;
	}
	if (!follows)
		window->next = 0;
	window->reached = at + len;
	return follows;
}

/* How much is to be read from there on; 0: no more than is wanted. */
static Size
lsm_window_size(const LsmManifestEntry *entry, uint64 at)
{
	LsmValueWindow *window = &lsm_window;
	Size		size = Max(window->next, LSM_WINDOW_BYTES);

	if (window->bytes > 0 && window->used < window->bytes / 2)
	{
		window->bytes = window->next = 0;
		return 0;
	}
	window->next = Min(size * LSM_WINDOW_GROWTH, LSM_WINDOW_MOST);
	return Min(size, lsm_entry_object(entry)->bytes - at);
}

static void
lsm_window_fill(Relation rel, const LsmManifestEntry *entry, uint64 from, Size bytes)
{
	LsmValueWindow *window = &lsm_window;

	window->bytes = window->used = 0;
	if (window->room < bytes)
	{
		if (window->buf != NULL)
			pfree(window->buf);
		window->buf = NULL;
		window->room = 0;
		window->buf = MemoryContextAllocHuge(TopMemoryContext, bytes);
		window->room = bytes;
	}
	lsm_coldvalue_request(rel, entry, from, bytes, window->buf);
	window->from = from;
	window->bytes = bytes;
}

/* Copy what the window has from there on; returns how much. */
static uint32
lsm_window_copy(uint64 at, uint32 len, char *buf)
{
	LsmValueWindow *window = &lsm_window;
	uint32		n;

	if (at < window->from || at >= window->from + window->bytes)
		return 0;
	n = (uint32) Min(len, window->from + window->bytes - at);
	memcpy(buf, window->buf + (at - window->from), n);
	window->used += n;
	return n;
}

/* Read bytes of a segment's stream, all of which lie in its object. */
static void
lsm_coldvalue_ask(Relation rel, const LsmManifestEntry *entry, uint64 at, uint32 len,
				  bool follows, char *buf)
{
	while (len > 0)
	{
		uint32		n = lsm_window_copy(at, len, buf);
		Size		size = 0;

		at += n;
		buf += n;
		len -= n;
		if (len == 0)
			break;
		if (follows)
			size = lsm_window_size(entry, at);
		if (size <= len)
		{
			lsm_coldvalue_request(rel, entry, at, len, buf);
			break;
		}
		lsm_window_fill(rel, entry, at, size);
	}
}

/* ---- caches ---- */

/* A whole value, from the block cache or the disk cache. */
static bool
lsm_coldvalue_find(Relation rel, const LsmManifestEntry *entry, const LsmSegmentValue *value,
				   LsmReaderKind kind, LsmCacheTouch touch, char *buf)
{
	uint64		page = value->offset / LSM_PAGE_PAYLOAD;
	uint32		span = lsm_segpages_span(value->offset, value->length);

	if (value->length <= LSM_VALUE_SHARED_BYTES && page <= LSM_CACHE_LAST_NUMBER &&
		lsm_sharedcache_get(entry->uid, LSM_VALUE_BLOCKNO(page), value->length, buf, touch))
	{
		lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_HIT, 1);
		lsm_segpages_count(rel, span, true);
		return true;
	}
	if (lsm_cold_held_off() || value->length > LSM_VALUE_KEPT_BYTES ||
		!lsm_cold_cache_get(rel, entry, value->offset, value->length, buf,
							lsm_block_disk_use(kind)) ||
		!lsm_segment_value_good(entry->uid, value, buf))
		return false;
	lsm_segpages_count(rel, span, false);
	lsm_last_keep(entry, value, buf);
	if (value->length <= LSM_VALUE_SHARED_BYTES && page <= LSM_CACHE_LAST_NUMBER)
		lsm_sharedcache_put(entry->uid, LSM_VALUE_BLOCKNO(page), value->length, buf, touch);
	return true;
}

/* Keep a value that has been found right. */
static void
lsm_coldvalue_keep(const LsmManifestEntry *entry, const LsmSegmentValue *value,
				   LsmReaderKind kind, LsmCacheTouch touch, const char *buf)
{
	uint64		page = value->offset / LSM_PAGE_PAYLOAD;

	lsm_last_keep(entry, value, buf);
	if (value->length <= LSM_VALUE_KEPT_BYTES)
		lsm_cold_cache_put(entry, value->offset, value->length, buf, lsm_block_disk_use(kind));
	if (value->length <= LSM_VALUE_SHARED_BYTES && page <= LSM_CACHE_LAST_NUMBER)
		lsm_sharedcache_put(entry->uid, LSM_VALUE_BLOCKNO(page), value->length, buf, touch);
}

/* The same for a part of it. */
static bool
lsm_coldvalue_find_part(Relation rel, const LsmManifestEntry *entry,
						const LsmSegmentValue *value, uint32 offset, uint32 len,
						LsmReaderKind kind, LsmCacheTouch touch, char *buf)
{
	char	   *all;
	bool		found;

	if (value->length > LSM_VALUE_KEPT_BYTES)
		return false;
	if (len == value->length)
		return lsm_coldvalue_find(rel, entry, value, kind, touch, buf);
	all = palloc(value->length);
	found = lsm_coldvalue_find(rel, entry, value, kind, touch, all);
	if (found)
		memcpy(buf, all + offset, len);
	pfree(all);
	return found;
}

void
lsm_coldvalue_read(Relation rel, LsmTable *table, const LsmManifestEntry *entry,
				   const LsmSegmentValue *value, uint32 offset, uint32 len,
				   LsmReaderKind kind, char *buf)
{
	uint64		at = value->offset + offset;
	bool		follows = lsm_window_follows(entry->uid, at, len);
	LsmStoreAsked before;
	LsmCacheTouch touch;

	Assert(offset + len <= value->length);
	if (len == 0)
		return;
	if (kind == LSM_READER_POINT && follows)
		kind = LSM_READER_SCAN;
	touch = kind == LSM_READER_POINT ? LSM_TOUCH_POINT : LSM_TOUCH_SCAN;
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_WANTED, 1);
	if (kind != LSM_READER_COMPACTION &&
		lsm_coldvalue_find_part(rel, entry, value, offset, len, kind, touch, buf))
		return;
	if (lsm_cold_held_off())
	{
		const LsmLastValue *last = lsm_last_find(entry, value);

		if (last == NULL)
			elog(ERROR, "a large value of a store is wanted where nobody can wait for it");
		memcpy(buf, last->bytes + offset, len);
		return;
	}
	lsm_iostat_add(kind, LSM_METHOD_STORE, LSM_IO_BYTES_WANTED, len);
	lsm_segpages_count(rel, lsm_segpages_span(at, len), false);

	before = lsm_store_asked;
	lsm_coldvalue_ask(rel, entry, at, len, follows, buf);
	lsm_coldvalue_count(table, kind, &before);
	if (len < value->length)
		return;
	if (!lsm_segment_value_good(entry->uid, value, buf))
	{
		lsm_window.bytes = 0;
		lsm_cold_raise_damaged_value(rel, entry, value->offset);
	}
	if (kind != LSM_READER_COMPACTION)
		lsm_coldvalue_keep(entry, value, kind, touch, buf);
}
