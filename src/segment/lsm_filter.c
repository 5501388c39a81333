/*-------------------------------------------------------------------------
 *
 * lsm_filter.c
 *	  Filter of the roots that an increment segment has records of.
 *
 * A split-block Bloom filter: a root touches one group of 32 bytes, in which
 * it has one bit in each of eight words.  At 12 bits a root about one root in
 * 200 passes by chance.  A filter answers "no" only for roots that were not
 * put in, also when its bytes are damaged but its checksum is right: there is
 * no pointer in it to follow.
 *
 * Considered: binary fuse filters need a quarter less space, but building one
 * can fail and needs three times the memory.  A new kind can be added: a
 * reader treats a filter of a kind it does not know as absent.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_segment_format.h"
#include "utils/memutils.h"

#define LSM_FILTER_BLOOM		1	/* kind; part of the disk format */
#define LSM_FILTER_WORDS		8
#define LSM_FILTER_GROUP_BYTES	(LSM_FILTER_WORDS * sizeof(uint32))

typedef struct LsmFilterHeader
{
	uint32		kind;
	uint32		groups;
	uint64		roots;
} LsmFilterHeader;

StaticAssertDecl(sizeof(LsmFilterHeader) == 16, "filter is part of the disk format");

/* Part of the disk format. */
static const uint32 lsm_filter_salts[LSM_FILTER_WORDS] = {
	0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D,
	0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31
};

/* Mix a TID's bits (the finalizer of splitmix64); part of the disk format. */
uint64
lsm_filter_hash(LsmTid tid)
{
	uint64		hash = tid + UINT64CONST(0x9E3779B97F4A7C15);

	hash = (hash ^ (hash >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	hash = (hash ^ (hash >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return hash ^ (hash >> 31);
}

static inline uint32
lsm_filter_group(uint64 hash, uint32 groups)
{
	return (uint32) (((hash >> 32) * groups) >> 32);
}

static inline uint32
lsm_filter_bit(uint64 hash, int word)
{
	return UINT32_C(1) << (((uint32) hash * lsm_filter_salts[word]) >> 27);
}

void
lsm_filter_build(const uint64 *hashes, uint64 n, StringInfo out)
{
	LsmFilterHeader header;
	uint32	   *words;
	Size		bytes;

	header.kind = LSM_FILTER_BLOOM;
	header.roots = n;
	header.groups = Max(1, Min((n * LSM_FILTER_BITS + 255) / 256,
							   LSM_SEGMENT_META_MOST / 2 / LSM_FILTER_GROUP_BYTES));
	bytes = header.groups * LSM_FILTER_GROUP_BYTES;
	words = palloc0(bytes);
	for (uint64 i = 0; i < n; i++)
	{
		uint32	   *group = words +
		(Size) lsm_filter_group(hashes[i], header.groups) * LSM_FILTER_WORDS;

		for (int word = 0; word < LSM_FILTER_WORDS; word++)
			group[word] |= lsm_filter_bit(hashes[i], word);
	}
	appendBinaryStringInfo(out, (char *) &header, sizeof(header));
	appendBinaryStringInfo(out, (char *) words, bytes);
	pfree(words);
}

/* Can this reader use the filter: is its kind known, its length right? */
bool
lsm_filter_check(const uint8 *filter, Size len)
{
	LsmFilterHeader header;

	if (len < sizeof(header))
		return false;
	memcpy(&header, filter, sizeof(header));
	return header.kind == LSM_FILTER_BLOOM && header.groups > 0 &&
		len == sizeof(header) + header.groups * LSM_FILTER_GROUP_BYTES;
}

bool
lsm_filter_may_contain(const uint8 *filter, uint64 hash)
{
	LsmFilterHeader header;
	const uint8 *group;

	memcpy(&header, filter, sizeof(header));
	group = filter + sizeof(header) +
		(Size) lsm_filter_group(hash, header.groups) * LSM_FILTER_GROUP_BYTES;
	for (int word = 0; word < LSM_FILTER_WORDS; word++)
	{
		uint32		bits;

		memcpy(&bits, group + word * sizeof(bits), sizeof(bits));
		if ((bits & lsm_filter_bit(hash, word)) == 0)
			return false;
	}
	return true;
}
