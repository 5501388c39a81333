/*-------------------------------------------------------------------------
 *
 * lsm_numeric.c
 *	  Numerics as scaled integers.
 *
 * A numeric is stored by the server as a sign, a weight, a display scale and
 * digits of base 10000.  Most columns have one display scale, so the value
 * times ten to that scale is an integer that can be bit-packed.  A value is
 * taken only if building it again gives the very same bytes; NaN, infinities,
 * values that do not fit and values in another than the server's own normal
 * form are refused, and the column is then stored as byte strings.
 *
 * The layout of numerics is private to the server's numeric.c, but it is on
 * disk in every heap table, so it does not change between versions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "segment/lsm_codec.h"

/* As in numeric.c. */
#define NUMERIC_FORM_MASK		0xC000
#define NUMERIC_FORM_SHORT		0x8000
#define NUMERIC_SHORT_SIGN		0x2000
#define NUMERIC_SHORT_SCALE_MASK 0x1F80
#define NUMERIC_SHORT_SCALE_SHIFT 7
#define NUMERIC_SHORT_WEIGHT_SIGN 0x0040
#define NUMERIC_SHORT_WEIGHT_MASK 0x003F

#define NUMERIC_BASE			10000
#define NUMERIC_BASE_DIGITS		4

/* Digits of any 64-bit integer with up to LSM_NUMERIC_MAX_SCALE decimals. */
#define LSM_NUMERIC_MAX_DIGITS	9

StaticAssertDecl(VARHDRSZ + sizeof(uint16) + LSM_NUMERIC_MAX_DIGITS * sizeof(int16) <=
				 LSM_NUMERIC_MAX_BYTES,
				 "a numeric that is built does not fit its slot");

static const uint64 lsm_numeric_power[] = {
	UINT64CONST(1), UINT64CONST(10), UINT64CONST(100), UINT64CONST(1000),
	UINT64CONST(10000), UINT64CONST(100000), UINT64CONST(1000000),
	UINT64CONST(10000000), UINT64CONST(100000000), UINT64CONST(1000000000),
	UINT64CONST(10000000000), UINT64CONST(100000000000),
	UINT64CONST(1000000000000), UINT64CONST(10000000000000),
	UINT64CONST(100000000000000), UINT64CONST(1000000000000000),
	UINT64CONST(10000000000000000), UINT64CONST(100000000000000000),
	UINT64CONST(1000000000000000000)
};

#define LSM_NUMERIC_POWERS		((int) lengthof(lsm_numeric_power))

/*
 * Read a numeric of len bytes, header included.  False if it cannot be kept
 * as an integer; if *scale is not 0xFF on entry, also if its scale byte
 * differs from that.
 */
bool
lsm_numeric_parse(const char *value, Size len, uint8 *scale, int64 *result)
{
	uint8		long_header = 0;
	const char *p;
	uint16		header;
	uint8		this_scale;
	int			weight;
	int			ndigits;
	int			exponent;
	uint64		acc = 0;
	uint64		again[LSM_NUMERIC_MAX_BYTES / sizeof(uint64)];

	if (VARATT_IS_1B_E(value) || VARATT_IS_4B_C(value))
		return false;
	if (VARATT_IS_1B(value))
		p = value + VARHDRSZ_SHORT;
	else
	{
		p = value + VARHDRSZ;
		long_header = LSM_NUMERIC_LONG_HEADER;
	}
	if (len > LSM_NUMERIC_MAX_BYTES || value + len < p + sizeof(uint16))
		return false;

	memcpy(&header, p, sizeof(header));
	p += sizeof(header);
	if ((header & NUMERIC_FORM_MASK) != NUMERIC_FORM_SHORT)
		return false;
	this_scale = (header & NUMERIC_SHORT_SCALE_MASK) >> NUMERIC_SHORT_SCALE_SHIFT;
	if (this_scale > LSM_NUMERIC_MAX_SCALE)
		return false;
	if (*scale == 0xFF)
		*scale = this_scale | long_header;
	else if (*scale != (this_scale | long_header))
		return false;

	weight = header & NUMERIC_SHORT_WEIGHT_MASK;
	if (header & NUMERIC_SHORT_WEIGHT_SIGN)
		weight -= NUMERIC_SHORT_WEIGHT_MASK + 1;
	ndigits = (int) ((value + len - p) / sizeof(int16));

	for (int i = 0; i < ndigits; i++)
	{
		int16		digit;

		memcpy(&digit, p + i * sizeof(int16), sizeof(digit));
		if (digit < 0 || digit >= NUMERIC_BASE)
			return false;
		if (acc > (uint64) (PG_INT64_MAX - digit) / NUMERIC_BASE)
			return false;
		acc = acc * NUMERIC_BASE + digit;
	}

	exponent = NUMERIC_BASE_DIGITS * (weight - ndigits + 1) + this_scale;
	if (acc != 0 && exponent > 0)
	{
		if (exponent >= LSM_NUMERIC_POWERS ||
			acc > PG_INT64_MAX / lsm_numeric_power[exponent])
			return false;
		acc *= lsm_numeric_power[exponent];
	}
	else if (acc != 0 && exponent < 0)
	{
		if (-exponent >= LSM_NUMERIC_POWERS)
			return false;
		acc /= lsm_numeric_power[-exponent];
	}

	*result = (header & NUMERIC_SHORT_SIGN) ? -(int64) acc : (int64) acc;
	return lsm_numeric_build(*result, *scale, (char *) again) == len &&
		memcmp(again, value, len) == 0;
}

/* With a constant number of decimals, divisions become multiplications. */
static pg_attribute_always_inline Size
lsm_numeric_build_decimals(int64 value, uint8 scale, int decimals, char *result)
{
	int			groups = (decimals + NUMERIC_BASE_DIGITS - 1) / NUMERIC_BASE_DIGITS;
	uint64		whole = value < 0 ? -(uint64) value : (uint64) value;
	uint64		fraction = 0;
	/* twice as many, for as many are copied from any place in the first half */
	int16		digits[2 * LSM_NUMERIC_MAX_DIGITS];
	int			first = LSM_NUMERIC_MAX_DIGITS;
	int			end = LSM_NUMERIC_MAX_DIGITS;
	int			weight;
	uint16		header;
	Size		len;
	char	   *p;

	if (decimals > 0)
	{
		uint64		unit = lsm_numeric_power[decimals];
		uint64		part = whole;

		whole = part / unit;
		fraction = (part - whole * unit) *
			lsm_numeric_power[groups * NUMERIC_BASE_DIGITS - decimals];
	}
	for (int i = 0; i < groups; i++)
	{
		digits[--first] = fraction % NUMERIC_BASE;
		fraction /= NUMERIC_BASE;
	}
	while (whole != 0)
	{
		digits[--first] = whole % NUMERIC_BASE;
		whole /= NUMERIC_BASE;
	}

	/* The server stores no zero digits at either end. */
	weight = LSM_NUMERIC_MAX_DIGITS - first - groups - 1;
	while (first < end && digits[first] == 0)
	{
		first++;
		weight--;
	}
	while (first < end && digits[end - 1] == 0)
		end--;
	if (first == end)
		weight = 0;

	header = NUMERIC_FORM_SHORT | (decimals << NUMERIC_SHORT_SCALE_SHIFT) |
		(weight & NUMERIC_SHORT_WEIGHT_MASK);
	if (value < 0)
		header |= NUMERIC_SHORT_SIGN;
	if (weight < 0)
		header |= NUMERIC_SHORT_WEIGHT_SIGN;

	len = sizeof(header) + (end - first) * sizeof(int16);
	if (scale & LSM_NUMERIC_LONG_HEADER)
	{
		len += VARHDRSZ;
		SET_VARSIZE(result, len);
		p = result + VARHDRSZ;
	}
	else
	{
		len += VARHDRSZ_SHORT;
		SET_VARSIZE_SHORT(result, len);
		p = result + VARHDRSZ_SHORT;
	}
	memcpy(p, &header, sizeof(header));
	memcpy(p + sizeof(header), &digits[first], LSM_NUMERIC_MAX_DIGITS * sizeof(int16));
	return len;
}

/*
 * Build the numeric of a scaled integer, bit for bit as the server would;
 * result is aligned and has room for LSM_NUMERIC_MAX_BYTES.  Returns its length;
 * what is behind it in that room is not defined.
 */
Size
lsm_numeric_build(int64 value, uint8 scale, char *result)
{
	int			decimals = scale & ~LSM_NUMERIC_LONG_HEADER;

	Assert(decimals <= LSM_NUMERIC_MAX_SCALE);
	switch (decimals)
	{
		case 0:
			return lsm_numeric_build_decimals(value, scale, 0, result);
		case 2:
			return lsm_numeric_build_decimals(value, scale, 2, result);
		case 4:
			return lsm_numeric_build_decimals(value, scale, 4, result);
		default:
			return lsm_numeric_build_decimals(value, scale, decimals, result);
	}
}
