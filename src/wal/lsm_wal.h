/*-------------------------------------------------------------------------
 *
 * lsm_wal.h
 *	  WAL records of lsm.  (Pages of segments and of the manifest are logged as
 *	  full page images by the server's own record.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WAL_H
#define LSM_WAL_H

#include "lsm.h"

#include "access/xlogreader.h"
#include "lsm_page.h"

/* Reserved for experiments until a number has been registered. */
#define LSM_RMGR_ID				128
#define LSM_RMGR_NAME			"lsm"

#define LSM_WAL_VERSION			2

#define XLOG_LSM_META			0x00	/* block 0 as a whole */
#define XLOG_LSM_APPEND			0x10	/* records to row-log pages */
#define XLOG_LSM_CONFLICT		0x20	/* rows are removed from indexes, or all of a table */
#define XLOG_LSM_SPECULATIVE	0x30	/* a speculative INSERT is decided */
#define XLOG_LSM_VISIBLE		0x40	/* bits of the visibility map are set */
#define XLOG_LSM_LOGICAL		0x50	/* changes of rows, for logical decoding */
#define XLOG_LSM_BEGIN			0x60	/* empty pages for a bulk load */

/* Why a metapage changed; for rm_desc only. */
#define LSM_OP_RANGE			2	/* new row-log range */
#define LSM_OP_SWITCH			3	/* new generation */
#define LSM_OP_ALLOC			4	/* pages given to an operation, or back by it */
#define LSM_OP_FLUSH			5
#define LSM_OP_MINOR			6
#define LSM_OP_MAJOR			7
#define LSM_OP_VACUUM			8
#define LSM_OP_FREE				9	/* pages of a dead operation, or retired ones */
#define LSM_OP_REWRITE			10	/* CLUSTER, VACUUM FULL */
#define LSM_OP_TRUNCATE			11	/* the end of the file is given back */
#define LSM_OP_PUNCH			12	/* free pages inside are given back */
#define LSM_OP_VALUES			13	/* pages for large values */
#define LSM_OP_LOAD				14	/* new row-log range of a bulk load */
#define LSM_OP_SEAL				15	/* pages of a bulk load have been logged */
#define LSM_OP_COLD				16	/* a segment moves to a store, or back */
#define LSM_OP_RELOCATE			17	/* a segment moves to free pages before it */

/* XLOG_LSM_META: block 0, data: the used part of LsmMeta. */
typedef struct xl_lsm_meta
{
	uint64		conflict_xid;	/* full xid; 0: none */
	uint8		version;		/* LSM_WAL_VERSION */
	uint8		op;				/* LSM_OP_xxx */
	uint16		flags;
	uint32		reserved;
} xl_lsm_meta;

/* XLOG_LSM_APPEND: packed (lsm_walpack.h). */

/* XLOG_LSM_CONFLICT: no blocks. */
typedef struct xl_lsm_conflict
{
	uint64		conflict_xid;
	RelFileLocator locator;
	uint8		version;
} xl_lsm_conflict;

/* XLOG_LSM_SPECULATIVE: block 0, a root page. */
typedef struct xl_lsm_speculative
{
	uint32		cid;			/* in place of the token */
	OffsetNumber offset;
	uint8		succeeded;
	uint8		version;
} xl_lsm_speculative;

/* XLOG_LSM_VISIBLE: main data is this and the runs; block 0, of the visibility map. */
typedef struct xl_lsm_visible
{
	uint8		version;
	uint8		reserved;
	uint16		nruns;
} xl_lsm_visible;

typedef struct xl_lsm_visible_run
{
	BlockNumber lb;
	uint32		nlbs;
} xl_lsm_visible_run;

/*
 * XLOG_LSM_BEGIN: pages of one range that are empty now, each a block reference
 * without data.
 */
typedef struct xl_lsm_begin
{
	uint64		incarnation;
	uint32		generation;
	BlockNumber lb;				/* of the range */
	uint32		first;			/* number of the first page in the range */
	uint16		lb_pages;
	uint8		npages;
	uint8		version;
} xl_lsm_begin;

/*
 * XLOG_LSM_LOGICAL: no blocks; main data is this, and for each change the tuples
 * that flags tell of, the old one first: an xl_lsm_logical_tuple, then what follows
 * the fixed part of a heap tuple's header.
 */
typedef struct xl_lsm_logical
{
	RelFileLocator locator;
	uint8		version;
	uint8		action;			/* LSM_LOGICAL_xxx */
	uint8		flags;			/* LSM_LOGICAL_HAS_xxx */
	uint8		reserved;
	uint16		ntuples;		/* number of changes */
	uint16		reserved2;
} xl_lsm_logical;

#define LSM_LOGICAL_INSERT		1
#define LSM_LOGICAL_UPDATE		2
#define LSM_LOGICAL_DELETE		3

#define LSM_LOGICAL_HAS_OLD		0x01
#define LSM_LOGICAL_HAS_NEW		0x02

typedef struct xl_lsm_logical_tuple
{
	uint32		len;			/* of what follows */
	uint16		infomask2;
	uint16		infomask;
	uint8		hoff;
	uint8		reserved[3];
} xl_lsm_logical_tuple;

StaticAssertDecl(sizeof(xl_lsm_meta) == 16 && sizeof(xl_lsm_conflict) == 24 &&
				 sizeof(xl_lsm_speculative) == 8 && sizeof(xl_lsm_visible) == 4 &&
				 sizeof(xl_lsm_visible_run) == 8 && sizeof(xl_lsm_begin) == 24 &&
				 sizeof(xl_lsm_logical) == 20 && sizeof(xl_lsm_logical_tuple) == 12,
				 "WAL records are part of the disk format");

/*
 * Log a record of nothing but the current xid, if there is one.  Returns its end.  (The insert
 * position may be behind a page header: who wants all WAL flushed needs a record of his own.)
 */
extern XLogRecPtr lsm_wal_nothing(void);

/* Rows that this xid, or an older one, has removed have gone: snapshots of standbys that see them have to. */
extern void lsm_wal_conflict(Relation rel, uint64 xid);

extern void lsm_wal_register(void);

#endif							/* LSM_WAL_H */
