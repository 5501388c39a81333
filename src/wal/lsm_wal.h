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

#define LSM_WAL_VERSION			1

#define XLOG_LSM_META			0x00	/* block 0 as a whole */
#define XLOG_LSM_APPEND			0x10	/* records to row-log pages */
#define XLOG_LSM_CONFLICT		0x20	/* rows are removed from indexes */
#define XLOG_LSM_SPECULATIVE	0x30	/* a speculative INSERT is decided */
#define XLOG_LSM_VISIBLE		0x40	/* bits of the visibility map are set */

/* Why a metapage changed; for rm_desc only. */
#define LSM_OP_RANGE			2	/* new row-log range */
#define LSM_OP_SWITCH			3	/* new generation */
#define LSM_OP_ALLOC			4	/* pages given to an operation */
#define LSM_OP_FLUSH			5
#define LSM_OP_MINOR			6
#define LSM_OP_MAJOR			7
#define LSM_OP_VACUUM			8
#define LSM_OP_FREE				9	/* pages of a dead operation, or retired ones */
#define LSM_OP_REWRITE			10	/* CLUSTER, VACUUM FULL */
#define LSM_OP_TRUNCATE			11	/* the end of the file is given back */
#define LSM_OP_PUNCH			12	/* free pages inside are given back */
#define LSM_OP_VALUES			13	/* pages for large values */
#define LSM_OP_COLD				14	/* a segment moves to a store, or back */

/* XLOG_LSM_META: block 0, data: the used part of LsmMeta. */
typedef struct xl_lsm_meta
{
	uint64		conflict_xid;	/* full xid; 0: none */
	uint8		version;		/* LSM_WAL_VERSION */
	uint8		op;				/* LSM_OP_xxx */
	uint16		flags;
	uint32		reserved;
} xl_lsm_meta;

/*
 * XLOG_LSM_APPEND: main data is this and an xl_lsm_append_page for each block
 * reference.  Data of a block: for each record its length (uint16) and bytes.
 */
typedef struct xl_lsm_append
{
	uint64		incarnation;
	uint8		version;
	uint8		npages;
	uint16		flags;			/* LSM_APPEND_xxx */
	uint32		generation;
} xl_lsm_append;

#define LSM_APPEND_LOGICAL		0x0001	/* reserved: rows for logical decoding follow */
#define LSM_APPEND_CLEARS_VISIBLE 0x0002	/* the last block is of the visibility map;
											 * its LB (uint32) ends the main data */

typedef struct xl_lsm_append_page
{
	BlockNumber lb;
	OffsetNumber first;			/* offset of the first record */
	uint16		nrecords;
	uint16		init;			/* the page is new */
	uint16		reserved;
} xl_lsm_append_page;

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

extern void lsm_wal_register(void);

#endif							/* LSM_WAL_H */
