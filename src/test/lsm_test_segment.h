/*-------------------------------------------------------------------------
 *
 * lsm_test_segment.h
 *	  Segments in memory, for the tests of src/segment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TEST_SEGMENT_H
#define LSM_TEST_SEGMENT_H

#include "lsm.h"

#include "segment/lsm_segment_format.h"
#include "utils/rel.h"

#define LSM_TEST_UID	UINT64CONST(0x123456789ABCDEF0)

typedef struct LsmTestSink
{
	LsmSegmentSink sink;
	char	   *data;
	Size		len;
	Size		max;
} LsmTestSink;

typedef struct LsmTestSource
{
	LsmSegmentSource source;
	const char *data;
} LsmTestSource;

extern LsmTestSink *lsm_test_sink(void);
extern void lsm_test_source(LsmTestSource *test, const char *data, Size len);

/* Are two Datums the same bits? */
extern bool lsm_test_same(Datum a, bool a_null, Datum b, bool b_null, bool byval, int typlen);

/* A kind, and perhaps "trained": with dictionaries. */
extern LsmSegmentKind lsm_test_kind(text *name, uint32 *samples);

/* Root TID of the n-th row: logical blocks of 50 rows, some left out. */
extern LsmTid lsm_test_root(int64 n);

/* Write all rows of a table; returns what the writer said. */
extern void lsm_test_write(Relation rel, LsmSegmentKind kind, int block_bytes, int level,
						   uint32 samples, LsmSegmentSink *sink, LsmSegmentStats *stats);

/* Write records that are made up, the same each time (lsm_test_increment.c). */
extern void lsm_test_write_increment(int roots, int natts, uint64 seed, int block_bytes,
									 int level, LsmSegmentSink *sink, LsmSegmentStats *stats);

/* Numbers that are the same on every machine. */
static inline uint64
lsm_test_random(uint64 *state)
{
	uint64		x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x * UINT64CONST(0x2545F4914F6CDD1D);
}

#endif							/* LSM_TEST_SEGMENT_H */
