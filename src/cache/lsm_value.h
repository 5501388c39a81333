/*-------------------------------------------------------------------------
 *
 * lsm_value.h
 *	  Large values: what is too large for a record lies by itself.
 *
 * A record then has an external datum in the value's place, with the fields of
 * the server's TOAST pointers.  What its last two fields say differs:
 *
 *		in the row log		first block, generation
 *		in a segment		offset in the stream (64 bits)
 *		outside ("live")	first block, or number (lsm_valuenum.c) if it lies in a
 *							store, disguised (lsm_value_salt), OID of the table: a
 *							TOAST pointer that the server follows, see
 *							lsm_value_fetch_slice()
 *
 * Jobs have pointers of a fourth kind, located: first block or number, whatever was in
 * the other field.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VALUE_H
#define LSM_VALUE_H

#include "lsm.h"

#include "access/detoast.h"
#include "lsm_blockcache.h"

typedef struct varatt_external LsmPointer;

StaticAssertDecl(sizeof(LsmPointer) == 16, "pointers are part of the disk format");

static inline void
lsm_pointer_get(const void *datum, LsmPointer *pointer)
{
	memcpy(pointer, VARDATA_EXTERNAL(datum), sizeof(LsmPointer));
}

/* Overwrite a datum of TOAST_POINTER_SIZE bytes. */
static inline void
lsm_pointer_set(void *datum, const LsmPointer *pointer)
{
	SET_VARTAG_EXTERNAL(datum, VARTAG_ONDISK);
	memcpy(VARDATA_EXTERNAL(datum), pointer, sizeof(LsmPointer));
}

#define lsm_pointer_generation(pointer) ((pointer)->va_toastrelid)

static inline uint64
lsm_pointer_offset(const LsmPointer *pointer)
{
	return (uint64) pointer->va_toastrelid << 32 | pointer->va_valueid;
}

static inline void
lsm_pointer_set_offset(LsmPointer *pointer, uint64 offset)
{
	pointer->va_valueid = (Oid) offset;
	pointer->va_toastrelid = (Oid) (offset >> 32);
}

/* What disguises the blocks of a file's live pointers; takes no locks. */
extern uint32 lsm_value_salt(Relation rel);

/*
 * Make stored pointers located, or live, in place: of a row-log record (cached:
 * NULL), or of a segment's block.
 */
extern void lsm_value_locate(const LsmTable *table, void *datum, const LsmCachedBlock *cached);
extern void lsm_value_resolve(const LsmTable *table, void *datum, Oid relid, uint32 salt,
							  const LsmCachedBlock *cached);

/* Where a live pointer's value begins, if the file still is the one it was made for. */
static inline BlockNumber
lsm_pointer_block(Oid valueid, uint32 salt)
{
	return valueid ^ salt;
}

/* Store bytes in value pages of the active generation. */
extern BlockNumber lsm_value_write(Relation rel, LsmTable *table, const char *data, uint32 size,
								   uint32 *generation);

/* Store a flat datum with a 4-byte header; result is its pointer. */
extern void lsm_value_store(Relation rel, LsmTable *table, const struct varlena *value,
							LsmPointer *pointer);

/*
 * Is it a live pointer to a value that the active generation has?  Then it becomes
 * one of that generation's records.
 */
extern bool lsm_value_is_recent(Relation rel, LsmTable *table, LsmPointer *pointer);

/*
 * Read a part of a value.  generation: of a row-log pointer, 0 for located ones
 * (the generations of records that a job reads stand still).
 */
extern void lsm_value_read(Relation rel, LsmTable *table, BlockNumber block, uint32 generation,
						   uint32 size, uint32 offset, uint32 len, LsmReaderKind kind,
						   char *buf);

/*
 * For jobs: read all of a value that a located pointer leads to, in pieces, for which the
 * caller has room.  What a segment has is checked before this returns.
 */
typedef void (*LsmValueTake) (void *arg, const char *bytes, uint32 len);
extern void lsm_value_read_all(Relation rel, LsmTable *table, BlockNumber block, uint32 size,
							   char *piece, uint32 piece_bytes, LsmValueTake take, void *arg);

/* The table AM's callback: the server follows a live pointer. */
extern void lsm_value_fetch_slice(Relation rel, Oid valueid, int32 size, int32 offset, int32 len,
								  struct varlena *result);

#endif							/* LSM_VALUE_H */
