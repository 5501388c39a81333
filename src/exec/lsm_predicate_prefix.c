/*-------------------------------------------------------------------------
 *
 * lsm_predicate_prefix.c
 *	  Conditions that say how a string begins: LIKE 'abc%', and ^@.
 *
 * What stands before the first wildcard of a pattern is compared byte by byte by all
 * deterministic collations, and no byte of a character of a server's encoding can be taken for
 * a wildcard.  So strings that match lie between two bounds by bytes, the order of zone maps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lsm_predicate.h"
#include "utils/fmgroids.h"

bool
lsm_predicate_is_prefix(Oid function, Oid coltype)
{
	switch (function)
	{
		case F_TEXTLIKE:
		case F_STARTS_WITH:
			return coltype == TEXTOID || coltype == VARCHAROID;
		case F_BYTEALIKE:
			return coltype == BYTEAOID;
	}
	return false;
}

void
lsm_predicate_get_prefix(Oid function, Datum value, LsmPrefix *prefix)
{
	struct varlena *pattern = PG_DETOAST_DATUM_PACKED(value);
	const char *bytes = VARDATA_ANY(pattern);
	Size		len = VARSIZE_ANY_EXHDR(pattern);
	char	   *fixed = palloc(Max(len, 1));
	Size		n = 0;
	Size		i = 0;

	prefix->bytes = fixed;
	prefix->fails = false;
	if (function == F_STARTS_WITH)
	{
		memcpy(fixed, bytes, len);
		prefix->len = len;
		prefix->all = true;
		return;
	}
	while (i < len && bytes[i] != '%' && bytes[i] != '_')
	{
		/* a backslash at the end is an error, for those rows that get so far */
		if (bytes[i] == '\\' && ++i == len)
			n = 0;
		else
			fixed[n++] = bytes[i++];
	}
	prefix->len = n;
	for (Size end = len; end > 0 && bytes[end - 1] == '\\'; end--)
		prefix->fails = !prefix->fails;
	prefix->all = i < len;
	for (; i < len; i++)
		prefix->all &= bytes[i] == '%';
}

int
lsm_predicate_compare_prefix(const LsmPrefix *prefix, const char *bytes, Size len)
{
	int			result = memcmp(bytes, prefix->bytes, Min(len, prefix->len));

	return result != 0 ? result : len < prefix->len ? -1 : 0;
}
