/*-------------------------------------------------------------------------
 *
 * lsm_io_funcs.c
 *	  SQL functions behind lsm_stat_io and lsm_stat_cache.
 *
 * Both are of the whole server, and tell nothing of what is in tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "lsm_iostat.h"
#include "lsm_sharedcache.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(lsm_stat_get_io_sql);
PG_FUNCTION_INFO_V1(lsm_stat_get_cache_sql);

#define LSM_STAT_IO_COLUMNS		(2 + LSM_IO_COUNTERS + 2)
#define LSM_STAT_CACHE_COLUMNS	11

static const char *const lsm_reader_kind_names[LSM_READER_KINDS] =
{
	"scan", "point", "bitmap", "index", "compaction", "metadata"
};

static const char *const lsm_reader_method_names[LSM_READER_METHODS] =
{
	"sync", "io_uring", "buffers", "store"
};

static void
lsm_io_put_time(Datum *value, bool *isnull, TimestampTz time)
{
	*value = TimestampTzGetDatum(time);
	*isnull = time == 0;
}

/* lsm_stat_get_io(): a row for each kind of reader and method. */
Datum
lsm_stat_get_io_sql(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	lsm_iostat_flush();
	for (int i = 0; i < LSM_READER_KINDS * LSM_READER_METHODS; i++)
	{
		LsmReaderKind kind = i / LSM_READER_METHODS;
		LsmReaderMethod method = i % LSM_READER_METHODS;
		Datum		values[LSM_STAT_IO_COLUMNS];
		bool		nulls[LSM_STAT_IO_COLUMNS] = {0};
		int			n = 0;

		values[n++] = CStringGetTextDatum(lsm_reader_kind_names[kind]);
		values[n++] = CStringGetTextDatum(lsm_reader_method_names[method]);
		for (int j = 0; j < LSM_IO_COUNTERS; j++)
			values[n++] = Int64GetDatum((int64) lsm_iostat_read(kind, method, j));
		values[n++] = Int64GetDatum((int64) lsm_iostat_read_depth(kind, method));
		lsm_io_put_time(&values[n], &nulls[n], lsm_iostat_reset_time());
		Assert(n + 1 == rsinfo->setDesc->natts);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* lsm_stat_get_cache(): the row of lsm_stat_cache. */
Datum
lsm_stat_get_cache_sql(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	LsmCacheStat stat;
	Datum		values[LSM_STAT_CACHE_COLUMNS];
	bool		nulls[LSM_STAT_CACHE_COLUMNS] = {0};
	int			n = 0;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	lsm_sharedcache_stat(&stat);
	values[n++] = Int64GetDatum((int64) stat.size_bytes);
	values[n++] = Int64GetDatum((int64) stat.used_bytes);
	values[n++] = Int64GetDatum((int64) stat.warm_bytes);
	values[n++] = Int64GetDatum((int64) stat.expanded_bytes);
	values[n++] = Int64GetDatum((int64) stat.pinned_bytes);
	values[n++] = Int64GetDatum((int64) stat.blocks);
	values[n++] = Int64GetDatum((int64) stat.hits);
	values[n++] = Int64GetDatum((int64) stat.misses);
	values[n++] = Int64GetDatum((int64) stat.insertions);
	values[n++] = Int64GetDatum((int64) stat.evictions);
	lsm_io_put_time(&values[n], &nulls[n], stat.reset_time);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
