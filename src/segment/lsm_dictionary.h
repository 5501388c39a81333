/*-------------------------------------------------------------------------
 *
 * lsm_dictionary.h
 *	  zstd dictionaries of the columns of a segment.
 *
 * Private to src/segment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_DICTIONARY_H
#define LSM_DICTIONARY_H

#include "lib/stringinfo.h"
#include "segment/lsm_segment.h"

/* Most dictionaries of a segment; readers refuse more. */
#define LSM_DICTIONARIES_MAX	8

/* Bytes of a dictionary: those that are written, and what readers take at most. */
#define LSM_DICTIONARY_BYTES	(32 * 1024)
#define LSM_DICTIONARY_MAX_BYTES	(128 * 1024)

/* libzstd's, whose header is not needed here */
struct ZSTD_CDict_s;
struct ZSTD_DDict_s;

/* ---- writing ---- */

typedef struct LsmTrainer LsmTrainer;	/* of a segment */
typedef struct LsmTraining LsmTraining; /* of one of its columns */

/*
 * Make dictionaries for a segment of natts columns: samples is how many bytes of a
 * column's chunks each is made from.  Lives in CurrentMemoryContext.  The number
 * of a column is from 1 on.
 */
extern LsmTrainer *lsm_trainer_create(int natts, int level, uint32 samples);
extern LsmTraining *lsm_trainer_column(LsmTrainer *trainer, int attno);

/* What to compress the column's chunks with, NULL: without a dictionary. */
extern struct ZSTD_CDict_s *lsm_training_dictionary(const LsmTraining *training);

/* A chunk of the column has been compressed, without a dictionary, to so many bytes. */
extern void lsm_training_add(LsmTraining *training, const char *data, Size len, Size stored);

/*
 * Blocks of another segment come, compressed with these dictionaries (the section's
 * bytes): true if they are those of this segment, or have become so by this call.  The
 * other function tells what this one would say.
 */
extern bool lsm_trainer_accepts(const LsmTrainer *trainer, const uint8 *section, Size len);
extern bool lsm_trainer_adopt(LsmTrainer *trainer, const uint8 *section, Size len);

/* The section's bytes; how many dictionaries are in it. */
extern int	lsm_trainer_section(LsmTrainer *trainer, StringInfo out);

/* ---- reading ---- */

/* The dictionaries of an opened segment, and of those of its blocks that are kept. */
typedef struct LsmDictionaries LsmDictionaries;

/*
 * Load what a section has, for a reader and the life of its memory context.  Blocks
 * hold it for the life of theirs, which may be longer.
 */
extern LsmDictionaries *lsm_dictionaries_load(LsmSegmentSource *source, int natts,
											  const uint8 *section, Size len,
											  MemoryContext context);
extern void lsm_dictionaries_hold(LsmDictionaries *dictionaries, MemoryContext context);

/* The one of a column (from 1 on), NULL if it has none. */
extern const struct ZSTD_DDict_s *lsm_dictionaries_get(const LsmDictionaries *dictionaries,
													   int attno);
extern int	lsm_dictionaries_count(const LsmDictionaries *dictionaries);
extern Size lsm_dictionaries_memory(const LsmDictionaries *dictionaries);

#endif							/* LSM_DICTIONARY_H */
