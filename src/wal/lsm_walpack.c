/*-------------------------------------------------------------------------
 *
 * lsm_walpack.c
 *	  APPEND records of the WAL, packed and unpacked.
 *
 * An APPEND is written for each row that changes, and a change is often shorter
 * than the fixed part of its record.  So numbers take as many bytes as they need,
 * and what follows from the WAL record itself or is usual is left out: the xid of
 * who writes it, a base that is the root, no previous record.  (Bytes: FORMAT.md.)
 *
 * What is unpacked is byte for byte what was packed, as the bytes that are left out
 * between maps and columns are 0: redo makes the page that was logged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_wal.h"
#include "lsm_walpack.h"

#define LSM_APPEND_TWO_PAGES	0x01
#define LSM_APPEND_NEW_FIRST	0x02
#define LSM_APPEND_NEW_SECOND	0x04
#define LSM_APPEND_CLEARS		0x08

#define LSM_PACK_XID			0x01	/* an xid follows */
#define LSM_PACK_PREV			0x02	/* a previous record follows */
#define LSM_PACK_BASE			0x04	/* a base follows */
#define LSM_PACK_BASE_IS_ROOT	0x08

/* ---- numbers: seven bits a byte, the lowest first ---- */

static inline char *
lsm_pack_number(char *to, uint64 number)
{
	while (number >= 0x80)
	{
		*to++ = (char) (number | 0x80);
		number >>= 7;
	}
	*to++ = (char) number;
	return to;
}

static inline const char *
lsm_unpack_number(const char *from, uint64 *number)
{
	int			shift = 0;
	uint8		byte;

	*number = 0;
	do
	{
		byte = (uint8) *from++;
		*number |= (uint64) (byte & 0x7F) << shift;
		shift += 7;
	} while (byte & 0x80);
	return from;
}

static inline char *
lsm_pack_tid(char *to, LsmTid tid)
{
	to = lsm_pack_number(to, LSM_TID_LB(tid));
	return lsm_pack_number(to, LSM_TID_OFFSET(tid));
}

static inline const char *
lsm_unpack_tid(const char *from, LsmTid *tid)
{
	uint64		lb;
	uint64		offset;

	from = lsm_unpack_number(from, &lb);
	from = lsm_unpack_number(from, &offset);
	*tid = LSM_TID(lb, offset);
	return from;
}

/* ---- main data ---- */

/* Returns how many bytes it takes. */
int
lsm_append_pack(const LsmAppend *append, char *to)
{
	char	   *begin = to;
	uint8		flags = 0;

	if (append->npages > 1)
		flags |= LSM_APPEND_TWO_PAGES;
	if (append->pages[0].init)
		flags |= LSM_APPEND_NEW_FIRST;
	if (append->npages > 1 && append->pages[1].init)
		flags |= LSM_APPEND_NEW_SECOND;
	if (append->clears)
		flags |= LSM_APPEND_CLEARS;
	*to++ = LSM_WAL_VERSION;
	*to++ = (char) flags;
	memcpy(to, &append->incarnation, sizeof(uint64));
	to = lsm_pack_number(to + sizeof(uint64), append->generation);
	for (int i = 0; i < append->npages; i++)
	{
		memcpy(to, &append->pages[i].lb, sizeof(BlockNumber));
		to = lsm_pack_number(to + sizeof(BlockNumber), append->pages[i].first);
		to = lsm_pack_number(to, append->pages[i].nrecords);
	}
	if (append->clears)
		to = lsm_pack_number(to, append->vm_lb);
	Assert(to - begin <= LSM_APPEND_PACKED);
	return to - begin;
}

uint8
lsm_append_version(const char *from)
{
	return (uint8) *from;
}

void
lsm_append_unpack(const char *from, Size len, LsmAppend *append)
{
	const char *end PG_USED_FOR_ASSERTS_ONLY = from + len;
	uint8		flags;
	uint64		number;

	from++;						/* version */
	flags = (uint8) *from++;
	append->npages = (flags & LSM_APPEND_TWO_PAGES) ? 2 : 1;
	append->clears = (flags & LSM_APPEND_CLEARS) != 0;
	memcpy(&append->incarnation, from, sizeof(uint64));
	from = lsm_unpack_number(from + sizeof(uint64), &number);
	append->generation = number;
	for (int i = 0; i < append->npages; i++)
	{
		LsmAppendPage *page = &append->pages[i];

		page->init = (flags & (i == 0 ? LSM_APPEND_NEW_FIRST : LSM_APPEND_NEW_SECOND)) != 0;
		memcpy(&page->lb, from, sizeof(BlockNumber));
		from = lsm_unpack_number(from + sizeof(BlockNumber), &number);
		page->first = number;
		from = lsm_unpack_number(from, &number);
		page->nrecords = number;
	}
	append->vm_lb = InvalidBlockNumber;
	if (append->clears)
	{
		from = lsm_unpack_number(from, &number);
		append->vm_lb = number;
	}
	Assert(from == end);
}

/* ---- records ---- */

static inline bool
lsm_pack_is_insert(const LsmRecord *record)
{
	return LSM_REC_KIND(record->info) == LSM_REC_INSERT;
}

/* Where a record's fixed part and its maps end, and where its columns begin. */
static void
lsm_pack_places(const LsmRecord *record, Size len, Size *fixed, Size *maps_end, Size *columns)
{
	Size		map = (record->natts + 7) / 8;

	*fixed = lsm_pack_is_insert(record) ? SizeOfLsmInsertRecord : SizeOfLsmRecord;
	*maps_end = *fixed;
	*columns = *fixed;
	if (record->info & LSM_REC_SPILLED)
		return;
	if (record->info & LSM_REC_DELTA)
		*maps_end += map;
	if (record->info & LSM_REC_HASNULL)
		*maps_end += map;
	*maps_end = Min(*maps_end, len);
	*columns = Min(MAXALIGN(*maps_end), len);
}

/*
 * Pack a record that a transaction with that xid writes; room for its length and
 * LSM_PACK_OVERHEAD is needed.  Returns how many bytes it takes.
 */
Size
lsm_record_pack(const LsmRecord *record, Size len, uint64 xid, char *to)
{
	char	   *begin = to;
	uint8		flags = 0;
	Size		fixed;
	Size		maps_end;
	Size		columns;

	lsm_pack_places(record, len, &fixed, &maps_end, &columns);
	if (record->xid != xid)
		flags |= LSM_PACK_XID;
	if (!lsm_pack_is_insert(record))
	{
		Assert(record->reserved == 0);
		if (record->prev != LSM_INVALID_TID)
			flags |= LSM_PACK_PREV;
		if (record->base == record->root)
			flags |= LSM_PACK_BASE_IS_ROOT;
		else if (record->base != LSM_INVALID_TID)
			flags |= LSM_PACK_BASE;
	}
	to = lsm_pack_number(to, len);
	*to++ = (char) flags;
	to = lsm_pack_number(to, record->info);
	to = lsm_pack_number(to, record->natts);
	to = lsm_pack_number(to, record->cid);
	if (flags & LSM_PACK_XID)
		to = lsm_pack_number(to, record->xid);
	if (!lsm_pack_is_insert(record))
	{
		to = lsm_pack_tid(to, record->root);
		to = lsm_pack_number(to, record->seq);
		if (flags & LSM_PACK_PREV)
			to = lsm_pack_tid(to, record->prev);
		if (flags & LSM_PACK_BASE)
			to = lsm_pack_tid(to, record->base);
	}
	memcpy(to, (const char *) record + fixed, maps_end - fixed);
	to += maps_end - fixed;
	memcpy(to, (const char *) record + columns, len - columns);
	to += len - columns;
	Assert((Size) (to - begin) <= len + LSM_PACK_OVERHEAD);
	return to - begin;
}

/* The reverse; record has room for LSM_MAX_RECORD bytes.  Returns where the next one begins. */
const char *
lsm_record_unpack(const char *from, uint64 xid, LsmRecord *record, Size *len)
{
	uint8		flags;
	uint64		number;
	Size		fixed;
	Size		maps_end;
	Size		columns;

	from = lsm_unpack_number(from, &number);
	*len = number;
	flags = (uint8) *from++;
	from = lsm_unpack_number(from, &number);
	record->info = number;
	from = lsm_unpack_number(from, &number);
	record->natts = number;
	from = lsm_unpack_number(from, &number);
	record->cid = number;
	record->xid = xid;
	if (flags & LSM_PACK_XID)
		from = lsm_unpack_number(from, &record->xid);
	if (!lsm_pack_is_insert(record))
	{
		from = lsm_unpack_tid(from, &record->root);
		from = lsm_unpack_number(from, &number);
		record->seq = number;
		record->reserved = 0;
		record->prev = LSM_INVALID_TID;
		record->base = (flags & LSM_PACK_BASE_IS_ROOT) ? record->root : LSM_INVALID_TID;
		if (flags & LSM_PACK_PREV)
			from = lsm_unpack_tid(from, &record->prev);
		if (flags & LSM_PACK_BASE)
			from = lsm_unpack_tid(from, &record->base);
	}
	lsm_pack_places(record, *len, &fixed, &maps_end, &columns);
	memcpy((char *) record + fixed, from, maps_end - fixed);
	from += maps_end - fixed;
	memset((char *) record + maps_end, 0, columns - maps_end);
	memcpy((char *) record + columns, from, *len - columns);
	return from + (*len - columns);
}
