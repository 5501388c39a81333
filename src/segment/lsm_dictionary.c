/*-------------------------------------------------------------------------
 *
 * lsm_dictionary.c
 *	  zstd dictionaries of the columns of a segment.
 *
 * A chunk of a text column is a few kilobytes, too short for zstd to learn what the
 * column repeats.  With the option lsm.dictionary, the first chunks of a column that
 * zstd makes smaller are collected while they are written; from these libzstd makes a
 * dictionary, with which the column's later chunks of that segment are compressed.
 * Bytes: FORMAT.md, "Dictionaries".
 *
 * Why a dictionary for each column: one for all of them is made from text of all
 * kinds, and gains on orders of TPC-H a third of what theirs do, on customers nothing.
 * Where there is one such column (lineitem) it is the same.
 *
 * Why the first chunks: a segment is written front to back, once.  More of them do not
 * make better dictionaries: a quarter of a megabyte was as good as four on lineitem.
 *
 * A dictionary has to earn its bytes.  The last fifth of what was collected is not used
 * for making it, but compressed with and without it, and unless that saves enough the
 * column has none in this segment.  Then it waits until it would have saved as much as
 * it is long, had it been there from the beginning.  How much text is still to come is
 * not known; so a segment is never larger for its dictionaries by more than they would
 * have saved, and one with little text has none.
 *
 * A segment that gets blocks of another one as they are takes over its dictionaries,
 * all of them, and makes none itself; so it never has two for a column.  Rows that are
 * added to it are compressed with them too, whatever text they have: at worst they gain
 * nothing.
 *
 * MEMORY
 *	  libzstd allocates dictionaries with malloc; callbacks of memory contexts free
 *	  them.  Those of an opened segment count as the reader's.  If blocks still hold
 *	  them when it is closed, they are adrift, and count as the cached blocks'.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <zdict.h>
#include <zstd.h>

#include "segment/lsm_dictionary.h"
#include "segment/lsm_segment_format.h"
#include "utils/memutils.h"

/* All that is collected of a segment; then those that have a part of theirs are made. */
#define LSM_TRAINER_MAX_SAMPLES		(4 * 1024 * 1024)
#define LSM_TRAINER_PART_DIVISOR	5

/* libzstd wants many samples: chunks are cut into pieces of so many bytes. */
#define LSM_TRAINER_PIECE_BYTES		4096

/* Samples have to be so many times as long as the dictionary that is made of them. */
#define LSM_TRAINER_SAMPLES_RATIO	8

/* For judging, a part of the samples is kept back; so much has to be saved of it. */
#define LSM_TRAINER_JUDGE_DIVISOR	5
#define LSM_TRAINER_LEAST_SAVING	0.04

/* ---------------------------------------------------------------------
 * Writing
 * --------------------------------------------------------------------- */

struct LsmTraining
{
	LsmTrainer *trainer;
	bool		collecting;
	StringInfoData samples;		/* chunks, one after the other */
	size_t	   *lengths;
	int			nlengths;
	int			max_lengths;
	Size		stored;			/* bytes of chunks without a dictionary */
	bool		active;			/* the dictionary is in use */
	char	   *bytes;			/* the dictionary, NULL: none, or adopted */
	uint32		len;
	double		saving;			/* what it saves of such bytes */
	ZSTD_CDict *cdict;
};

struct LsmTrainer
{
	MemoryContext context;
	MemoryContextCallback callback;
	int			natts;
	int			level;
	uint32		samples;		/* of a column */
	Size		collected;		/* of all of them */
	int			made;			/* dictionaries */
	int			active;			/* those in use */
	uint8	   *adopted;		/* section of another segment, NULL: none */
	Size		adopted_len;
	LsmTraining columns[FLEXIBLE_ARRAY_MEMBER];
};

static void
lsm_trainer_free(void *arg)
{
	LsmTrainer *trainer = arg;

	for (int i = 0; i < trainer->natts; i++)
		ZSTD_freeCDict(trainer->columns[i].cdict);
}

LsmTrainer *
lsm_trainer_create(int natts, int level, uint32 samples)
{
	LsmTrainer *trainer = palloc0(offsetof(LsmTrainer, columns) + natts * sizeof(LsmTraining));

	Assert(level != 0 && samples > 0);
	trainer->context = CurrentMemoryContext;
	trainer->natts = natts;
	trainer->level = level;
	trainer->samples = samples;
	for (int i = 0; i < natts; i++)
	{
		trainer->columns[i].trainer = trainer;
		trainer->columns[i].collecting = true;
	}
	trainer->callback.func = lsm_trainer_free;
	trainer->callback.arg = trainer;
	MemoryContextRegisterResetCallback(trainer->context, &trainer->callback);
	return trainer;
}

LsmTraining *
lsm_trainer_column(LsmTrainer *trainer, int attno)
{
	Assert(attno >= 1 && attno <= trainer->natts);
	return &trainer->columns[attno - 1];
}

ZSTD_CDict *
lsm_training_dictionary(const LsmTraining *training)
{
	return training->active ? training->cdict : NULL;
}

/* Forget the samples. */
static void
lsm_training_end(LsmTraining *training)
{
	training->collecting = false;
	if (training->samples.data == NULL)
		return;
	training->trainer->collected -= training->samples.len;
	pfree(training->samples.data);
	pfree(training->lengths);
	training->samples.data = NULL;
	training->lengths = NULL;
}

/* How many chunks, from the first on, are for making the dictionary; the rest judges it. */
static int
lsm_training_divide(const LsmTraining *training, Size *bytes)
{
	Size		judged = 0;
	int			n = training->nlengths;

	while (n > 0 && judged < (Size) training->samples.len / LSM_TRAINER_JUDGE_DIVISOR)
		judged += training->lengths[--n];
	*bytes = training->samples.len - judged;
	return n;
}

/* Make a dictionary from so many bytes of the samples; 0: libzstd finds nothing in them. */
static Size
lsm_training_make(const LsmTraining *training, int chunks, Size bytes, char *dictionary,
				  Size room)
{
	size_t	   *pieces = palloc((bytes / LSM_TRAINER_PIECE_BYTES + chunks) * sizeof(size_t));
	unsigned	npieces = 0;
	size_t		len;

	for (int i = 0; i < chunks; i++)
		for (size_t left = training->lengths[i]; left > 0; left -= pieces[npieces++])
			pieces[npieces] = Min(left, LSM_TRAINER_PIECE_BYTES);
	len = ZDICT_trainFromBuffer(dictionary, room, training->samples.data, pieces, npieces);
	pfree(pieces);
	return ZDICT_isError(len) ? 0 : len;
}

/* What part of the chunks from there on does the dictionary save? */
static double
lsm_training_judge(const LsmTraining *training, int from, Size offset, const ZSTD_CDict *cdict)
{
	ZSTD_CCtx  *cctx = ZSTD_createCCtx();
	Size		room = ZSTD_compressBound(training->samples.len - offset);
	char	   *out = palloc(room);
	Size		with = 0;
	Size		without = 0;

	for (int i = from; cctx != NULL && i < training->nlengths; i++)
	{
		const char *data = training->samples.data + offset;
		size_t		len = training->lengths[i];

		/* an error is a very large number */
		with += Min(ZSTD_compress_usingCDict(cctx, out, room, data, len, cdict), room);
		without += Min(ZSTD_compressCCtx(cctx, out, room, data, len, training->trainer->level),
					   room);
		offset += len;
	}
	ZSTD_freeCCtx(cctx);
	pfree(out);
	return without == 0 ? 0 : 1 - (double) with / without;
}

/* Try to make the column's dictionary. */
static void
lsm_training_finish(LsmTraining *training)
{
	LsmTrainer *trainer = training->trainer;
	Size		bytes;
	int			chunks = lsm_training_divide(training, &bytes);
	Size		room = Min(LSM_DICTIONARY_BYTES, bytes / LSM_TRAINER_SAMPLES_RATIO);
	char	   *dictionary = palloc(room + 1);
	Size		len = 0;

	if (trainer->made < LSM_DICTIONARIES_MAX && chunks > 0)
		len = lsm_training_make(training, chunks, bytes, dictionary, room);
	if (len > 0)
	{
		training->cdict = ZSTD_createCDict(dictionary, len, trainer->level);
		if (training->cdict != NULL)
			training->saving = lsm_training_judge(training, chunks, bytes, training->cdict);
		if (training->saving < LSM_TRAINER_LEAST_SAVING)
		{
			ZSTD_freeCDict(training->cdict);
			training->cdict = NULL;
		}
	}
	lsm_training_end(training);
	if (training->cdict == NULL)
	{
		pfree(dictionary);
		return;
	}
	training->bytes = dictionary;
	training->len = len;
	trainer->made++;
}

/* Collect nothing more, of any column. */
static void
lsm_trainer_end(LsmTrainer *trainer)
{
	for (int i = 0; i < trainer->natts; i++)
		lsm_training_end(&trainer->columns[i]);
}

static void
lsm_training_collect(LsmTraining *training, const char *data, Size len)
{
	LsmTrainer *trainer = training->trainer;
	MemoryContext old = MemoryContextSwitchTo(trainer->context);

	if (training->samples.data == NULL)
	{
		initStringInfo(&training->samples);
		training->max_lengths = 64;
		training->lengths = palloc(training->max_lengths * sizeof(size_t));
	}
	if (training->nlengths == training->max_lengths)
	{
		training->max_lengths *= 2;
		training->lengths = repalloc(training->lengths, training->max_lengths * sizeof(size_t));
	}
	len = Min(len, trainer->samples);
	appendBinaryStringInfo(&training->samples, data, len);
	training->lengths[training->nlengths++] = len;
	trainer->collected += len;

	if ((Size) training->samples.len >= trainer->samples)
		lsm_training_finish(training);
	if (trainer->collected >= LSM_TRAINER_MAX_SAMPLES)
	{
		for (int i = 0; i < trainer->natts; i++)
			if ((Size) trainer->columns[i].samples.len >= trainer->samples / LSM_TRAINER_PART_DIVISOR &&
				trainer->columns[i].collecting)
				lsm_training_finish(&trainer->columns[i]);
		lsm_trainer_end(trainer);
	}
	if (trainer->made == LSM_DICTIONARIES_MAX)
		lsm_trainer_end(trainer);
	MemoryContextSwitchTo(old);
}

void
lsm_training_add(LsmTraining *training, const char *data, Size len, Size stored)
{
	training->stored += stored;
	if (training->collecting)
		lsm_training_collect(training, data, len);
	if (training->cdict != NULL && training->stored * training->saving >= training->len)
	{
		training->active = true;
		training->trainer->active++;
	}
}

bool
lsm_trainer_accepts(const LsmTrainer *trainer, const uint8 *section, Size len)
{
	if (trainer->adopted != NULL)
		return trainer->adopted_len == len && memcmp(trainer->adopted, section, len) == 0;
	return trainer->active == 0;
}

bool
lsm_trainer_adopt(LsmTrainer *trainer, const uint8 *section, Size len)
{
	LsmDictionaryHeader header;
	const uint8 *bytes;
	MemoryContext old;

	if (!lsm_trainer_accepts(trainer, section, len))
		return false;
	if (trainer->adopted != NULL)
		return true;

	/* what is collected, or waits to be used, gives way */
	lsm_trainer_end(trainer);
	for (int i = 0; i < trainer->natts; i++)
	{
		ZSTD_freeCDict(trainer->columns[i].cdict);
		trainer->columns[i].cdict = NULL;
	}
	old = MemoryContextSwitchTo(trainer->context);
	trainer->adopted = memcpy(palloc(len), section, len);
	trainer->adopted_len = len;
	MemoryContextSwitchTo(old);
	memcpy(&header, section, sizeof(header));
	bytes = section + sizeof(header) + header.count * sizeof(LsmDictionaryEntry);
	for (uint32 i = 0; i < header.count; i++)
	{
		LsmDictionaryEntry entry;
		LsmTraining *training;

		memcpy(&entry, section + sizeof(header) + i * sizeof(entry), sizeof(entry));
		training = lsm_trainer_column(trainer, entry.column);
		training->cdict = ZSTD_createCDict(bytes, entry.length, trainer->level);
		if (training->cdict == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory"),
					 errdetail("Could not load a zstd dictionary.")));
		training->active = true;
		trainer->active++;
		bytes += entry.length;
	}
	return true;
}

int
lsm_trainer_section(LsmTrainer *trainer, StringInfo out)
{
	LsmDictionaryHeader header = {.count = trainer->active};

	if (trainer->adopted != NULL)
	{
		appendBinaryStringInfo(out, (char *) trainer->adopted, trainer->adopted_len);
		return trainer->active;
	}
	appendBinaryStringInfo(out, (char *) &header, sizeof(header));
	for (int i = 0; i < trainer->natts; i++)
	{
		LsmDictionaryEntry entry = {.column = i + 1,.length = trainer->columns[i].len};

		if (trainer->columns[i].active)
			appendBinaryStringInfo(out, (char *) &entry, sizeof(entry));
	}
	for (int i = 0; i < trainer->natts; i++)
		if (trainer->columns[i].active)
			appendBinaryStringInfo(out, trainer->columns[i].bytes, trainer->columns[i].len);
	return trainer->active;
}

/* ---------------------------------------------------------------------
 * Reading
 * --------------------------------------------------------------------- */

struct LsmDictionaries
{
	int			holders;		/* the reader, and blocks */
	bool		opened;			/* there is a reader */
	int			count;
	Size		memory;
	struct
	{
		int			column;		/* from 1 on */
		ZSTD_DDict *ddict;
	}			each[LSM_DICTIONARIES_MAX];
};

/* Dictionaries of which there is no reader any more, in bytes. */
static Size lsm_dictionaries_adrift_bytes;

Size
lsm_segment_dictionaries_adrift(void)
{
	return lsm_dictionaries_adrift_bytes;
}

static void
lsm_dictionaries_release(void *arg)
{
	LsmDictionaries *dictionaries = arg;

	if (--dictionaries->holders > 0)
		return;
	if (!dictionaries->opened)
		lsm_dictionaries_adrift_bytes -= dictionaries->memory;
	for (int i = 0; i < dictionaries->count; i++)
		ZSTD_freeDDict(dictionaries->each[i].ddict);
	pfree(dictionaries);
}

/* The reader goes. */
static void
lsm_dictionaries_close(void *arg)
{
	LsmDictionaries *dictionaries = arg;

	dictionaries->opened = false;
	lsm_dictionaries_adrift_bytes += dictionaries->memory;
	lsm_dictionaries_release(dictionaries);
}

static MemoryContextCallback *
lsm_dictionaries_callback(MemoryContext context)
{
	return MemoryContextAllocZero(context, sizeof(MemoryContextCallback));
}

static void
lsm_dictionaries_load_one(LsmSegmentSource *source, LsmDictionaries *dictionaries,
						  int column, const uint8 *bytes, Size len)
{
	ZSTD_DDict *ddict = NULL;

	/* without a number it would be taken for a dictionary of another kind */
	if (ZSTD_getDictID_fromDict(bytes, len) != 0)
		ddict = ZSTD_createDDict(bytes, len);
	if (ddict == NULL)
		lsm_segment_corrupt(source, -1, "The dictionary of column %d cannot be loaded.", column);
	dictionaries->each[dictionaries->count].column = column;
	dictionaries->each[dictionaries->count].ddict = ddict;
	dictionaries->count++;
	dictionaries->memory += ZSTD_sizeof_DDict(ddict);
}

LsmDictionaries *
lsm_dictionaries_load(LsmSegmentSource *source, int natts, const uint8 *section, Size len,
					  MemoryContext context)
{
	MemoryContextCallback *callback = lsm_dictionaries_callback(context);
	LsmDictionaries *dictionaries = MemoryContextAllocZero(TopMemoryContext,
														   sizeof(LsmDictionaries));
	LsmDictionaryHeader header;
	int			column = 0;
	Size		at;

	dictionaries->holders = 1;
	dictionaries->opened = true;
	callback->func = lsm_dictionaries_close;
	callback->arg = dictionaries;
	MemoryContextRegisterResetCallback(context, callback);

	if (len < sizeof(header))
		lsm_segment_corrupt(source, -1, "The dictionaries have %zu bytes.", len);
	memcpy(&header, section, sizeof(header));
	at = sizeof(header) + (Size) header.count * sizeof(LsmDictionaryEntry);
	if (header.count == 0 || header.count > LSM_DICTIONARIES_MAX || header.reserved != 0 ||
		at > len)
		lsm_segment_corrupt(source, -1, "There are %u dictionaries in %zu bytes.",
							header.count, len);
	for (uint32 i = 0; i < header.count; i++)
	{
		LsmDictionaryEntry entry;

		memcpy(&entry, section + sizeof(header) + i * sizeof(entry), sizeof(entry));
		if (entry.column <= column || entry.column > natts || entry.reserved != 0 ||
			entry.length > LSM_DICTIONARY_MAX_BYTES || entry.length > len - at)
			lsm_segment_corrupt(source, -1, "The entry of dictionary %u is not sound.", i);
		column = entry.column;
		lsm_dictionaries_load_one(source, dictionaries, column, section + at, entry.length);
		at += entry.length;
	}
	if (at != len)
		lsm_segment_corrupt(source, -1, "The dictionaries have %zu bytes, expected %zu.", len, at);
	return dictionaries;
}

void
lsm_dictionaries_hold(LsmDictionaries *dictionaries, MemoryContext context)
{
	MemoryContextCallback *callback = lsm_dictionaries_callback(context);

	dictionaries->holders++;
	callback->func = lsm_dictionaries_release;
	callback->arg = dictionaries;
	MemoryContextRegisterResetCallback(context, callback);
}

const ZSTD_DDict *
lsm_dictionaries_get(const LsmDictionaries *dictionaries, int attno)
{
	for (int i = 0; i < dictionaries->count; i++)
		if (dictionaries->each[i].column == attno)
			return dictionaries->each[i].ddict;
	return NULL;
}

int
lsm_dictionaries_count(const LsmDictionaries *dictionaries)
{
	return dictionaries->count;
}

Size
lsm_dictionaries_memory(const LsmDictionaries *dictionaries)
{
	return dictionaries->memory;
}
