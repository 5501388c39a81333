/*-------------------------------------------------------------------------
 *
 * lsm_options.h
 *	  Options of a table: what they are, where they are kept, how they are read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_OPTIONS_H
#define LSM_OPTIONS_H

#include "lsm.h"

#include "nodes/pg_list.h"

/* The namespace of the options in WITH (...), and the label provider. */
#define LSM_OPTIONS_NAMESPACE	"lsm"

typedef enum LsmCompression
{
	LSM_COMPRESSION_NONE,		/* encodings only, no zstd */
	LSM_COMPRESSION_ZSTD
} LsmCompression;

/*
 * Level of zstd.  At 4 lineitem takes 1.7 % less than at zstd's own default, 3, and loading
 * it 5 % more of the processor; 5 to 7 save 0.4 % more for 30 %.
 */
#define LSM_DEFAULT_LEVEL		4

/* The options of a table, those not given at their defaults. */
typedef struct LsmTableOptions
{
	int			compression;	/* LsmCompression */
	int			compression_level;	/* zstd's; 0: LSM_DEFAULT_LEVEL */
	int			block_size;		/* raw bytes of rows that end a block */
	bool		dictionary;		/* do segments get zstd dictionaries? */
	bool		auto_compact;	/* is it compacted unasked? */
	char		cold_store[NAMEDATALEN];	/* foreign server; empty: none */
} LsmTableOptions;

/*
 * The options of a table, or of the table for which a rewrite builds rel.
 * Cached in rel; reads a catalog if it is not.
 */
extern void lsm_options_get(Relation rel, LsmTableOptions *options);

extern bool lsm_auto_compact;	/* the same for all tables */

/* Is a table to be compacted unasked? */
extern bool lsm_options_auto_compact(Relation rel);

/* The level for lsm_segment_writer_create(): 0 means no zstd there. */
extern int	lsm_options_writer_level(const LsmTableOptions *options);

/*
 * Options as they were given: a list of DefElem (name without namespace, value a
 * string).  lsm_options_set() and lsm_options_reset() return a list with the
 * DefElems of SET or RESET applied, values in their canonical form; they raise
 * errors as the server does for its own.  lsm_options_store() wants a lock on the
 * table that two such callers cannot have at a time.
 */
extern List *lsm_options_load(Oid relid);
extern void lsm_options_store(Relation rel, List *given);
extern List *lsm_options_set(List *given, List *defs);
extern List *lsm_options_reset(List *given, List *defs);

/* The cold store that such a list names, NULL if none. */
extern const char *lsm_options_cold_store(List *given);

/* The options of a label, as lsm_options_set() returns them; raises errors as it does. */
extern List *lsm_options_from_label(const char *label);

/* The label that such a list makes. */
extern char *lsm_options_join(List *given);

/* All options of a table, for the user: a list of LsmOptionShown. */
typedef struct LsmOptionShown
{
	const char *name;			/* without namespace */
	char	   *value;
	bool		given;			/* for this table; else the default */
} LsmOptionShown;

extern List *lsm_options_show(Oid relid);

#endif							/* LSM_OPTIONS_H */
