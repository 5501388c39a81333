/*-------------------------------------------------------------------------
 *
 * lsm_predicate_time.c
 *	  Dates and timestamps that are compared with another type of time.
 *
 * Which moment a date or a timestamp without time zone means depends on the setting
 * TimeZone, so the server's operators are only stable.  Where it is the value that has to be
 * converted, that is done once, when a scan starts.  Where it is the column (a timestamp, or a
 * date, beside a timestamp with time zone), rows are compared by the operator, because such
 * moments have not always the order of the columns: a clock is turned back.  Their zone maps
 * are asked for a range that is wider by as much as clocks are turned around that time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lsm_predicate.h"
#include "pgtime.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

/*
 * Clocks differ from UTC by a week less an hour at most (that is what a time zone can be set
 * to), so two readings by two weeks.  Some more, because the moments are not known exactly.
 */
#define LSM_CLOCK_DAYS 32

bool
lsm_predicate_time_converts(Oid coltype, Oid valtype)
{
	switch (coltype)
	{
		case DATEOID:
			return valtype == TIMESTAMPOID;
		case TIMESTAMPOID:
			return valtype == DATEOID;
		case TIMESTAMPTZOID:
			return valtype == DATEOID || valtype == TIMESTAMPOID;
	}
	return false;
}

bool
lsm_predicate_time_is_near(Oid coltype, Oid valtype)
{
	return valtype == TIMESTAMPTZOID && (coltype == DATEOID || coltype == TIMESTAMPOID);
}

static int64
lsm_predicate_day_of(Timestamp value)
{
	int64		day = value / USECS_PER_DAY;

	return day * USECS_PER_DAY > value ? day - 1 : day;
}

int64
lsm_predicate_time_at(Oid coltype, Oid valtype, Datum value, bool *exact)
{
	int			overflow = 0;
	int64		at;

	*exact = true;
	if (coltype == DATEOID)
	{
		Timestamp	time = DatumGetTimestamp(value);

		if (TIMESTAMP_IS_NOBEGIN(time))
			return DATEVAL_NOBEGIN;
		if (TIMESTAMP_IS_NOEND(time))
			return DATEVAL_NOEND;
		at = lsm_predicate_day_of(time);
		*exact = at * USECS_PER_DAY == time;
		return at;
	}
	if (valtype == TIMESTAMPOID)
		at = timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value), &overflow);
	else if (coltype == TIMESTAMPOID)
		at = date2timestamp_opt_overflow(DatumGetDateADT(value), &overflow);
	else
		at = date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow);

	/* beyond what timestamps can be, yet not infinite */
	if (overflow != 0)
	{
		*exact = false;
		at = overflow > 0 ? DT_NOEND - 1 : DT_NOBEGIN;
	}
	return at;
}

/* By how many microseconds clocks are turned around a moment; -1: not known. */
static int64
lsm_clock_turns(TimestampTz value)
{
	pg_time_t	at = timestamptz_to_time_t(value) - LSM_CLOCK_DAYS * SECS_PER_DAY;
	pg_time_t	end = timestamptz_to_time_t(value) + LSM_CLOCK_DAYS * SECS_PER_DAY;
	long		least = 0;
	long		most = 0;
	bool		first = true;

	for (;;)
	{
		long		before;
		long		after;
		int			before_isdst;
		int			after_isdst;
		pg_time_t	boundary;
		int			found = pg_next_dst_boundary(&at, &before, &before_isdst, &boundary, &after,
												 &after_isdst, session_timezone);

		if (found < 0)
			return -1;
		least = first ? before : Min(least, before);
		most = first ? before : Max(most, before);
		first = false;
		if (found == 0 || boundary > end)
			return (most - least) * USECS_PER_SEC;
		least = Min(least, after);
		most = Max(most, after);
		at = boundary;
	}
}

void
lsm_predicate_time_near(Oid coltype, TimestampTz value, int64 *lo, int64 *hi)
{
	const int64 margin = LSM_CLOCK_DAYS * USECS_PER_DAY;
	struct pg_tm tm;
	fsec_t		fsec;
	int			zone;
	int64		turns = -1;

	*lo = PG_INT64_MIN;
	*hi = PG_INT64_MAX;
	if (value > MIN_TIMESTAMP + margin && value < END_TIMESTAMP - margin)
		turns = lsm_clock_turns(value);
	if (turns < 0 || timestamp2tm(value, &zone, &tm, &fsec, NULL, NULL) != 0)
		return;
	value -= (int64) zone * USECS_PER_SEC;
	*lo = value - turns;
	*hi = value + turns;
	if (coltype == DATEOID)
	{
		*lo = lsm_predicate_day_of(*lo);
		*hi = lsm_predicate_day_of(*hi);
	}
}
