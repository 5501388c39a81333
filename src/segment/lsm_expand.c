/*-------------------------------------------------------------------------
 *
 * lsm_expand.c
 *	  Blocks in which nothing is compressed, for the block cache.
 *
 * To read one value of a chunk that zstd has compressed, all of it has to be
 * decompressed.  A block of which single rows are wanted again and again is
 * better kept in memory without that.  It is a block as FORMAT.md describes it,
 * read by the same code; what is left out is zstd: of whole payloads, and of the
 * bodies of strings, which become strings with offsets (LSM_ENC_VAR), so that they
 * need not be counted through when the chunk is opened either.
 *
 * Such a block never gets to a disk.  It has no checksum.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_segment_format.h"

static void
lsm_expand_pad(StringInfo out)
{
	while ((Size) out->len != MAXALIGN(out->len))
		appendStringInfoCharMacro(out, '\0');
}

/* The strings of a vector, each where its offset says.  The payload began at start of out. */
static void
lsm_expand_strings(const LsmVector *v, bool aligned, StringInfo out)
{
	int			width = lsm_encode_width(v->data_len);
	uint64	   *codes = palloc(v->n * sizeof(uint64));

	for (int i = 0; i < v->n; i++)
		codes[i] = v->offsets[i];
	appendStringInfoCharMacro(out, (char) width);
	appendBinaryStringInfo(out, (const char *) &v->data_len, sizeof(v->data_len));
	lsm_encode_codes(out, codes, v->n, width);
	if (aligned)
		lsm_expand_pad(out);
	appendBinaryStringInfo(out, v->data, v->data_len);
	pfree(codes);
}

void
lsm_chunk_expand(const LsmChunk *chunk, StringInfo out, uint8 *encoding, uint8 *flags)
{
	const LsmVector *v = &chunk->vector;
	bool		nested = v->child != NULL && v->child->offsets != NULL;
	Size		before;

	*flags &= ~(LSM_CHUNK_ZSTD | LSM_CHUNK_DICTIONARY);
	if (!nested && v->offsets == NULL)
	{
		appendBinaryStringInfo(out, (const char *) chunk->payload, chunk->payload_len);
		return;
	}

	/* what comes before the strings stays as it is */
	if (nested)
	{
		int			codes = v->encoding == LSM_ENC_DICT ? v->n : v->child->n;

		before = v->codes + lsm_bits_bytes(codes, v->width) - chunk->payload;
	}
	else
		before = chunk->present == NULL ? 0 : (chunk->rows + 7) / 8;
	appendBinaryStringInfo(out, (const char *) chunk->payload, before);
	if (nested)
		appendStringInfoCharMacro(out, (char) LSM_ENC_VAR);
	else
		*encoding = LSM_ENC_VAR;
	lsm_expand_strings(nested ? v->child : v, (*flags & LSM_CHUNK_ALIGNED) != 0, out);
}
