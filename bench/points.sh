#!/bin/bash
#
# points.sh [ROWS [SECONDS [ROUNDS [CLIENTS]]]]		(20000000, 20, 3, 16)
#	  Rows by primary key, all over a table of whose metadata no session can keep much:
#	  lsm, lsm that opens segments as a whole to look up a row, and heap.
#
# Segments are small, so that a table of this size has many; each session may keep 1 MB
# of metadata, or 16 segments.  Required is that opening parts is no slower than opening
# segments as a whole, and that a session's first row reads fewer pages; the rest is told
# only.
#
# Environment: see lib.sh, and
#	  SEGMENT		stored size of segments (8MB)

BENCH_CONF="shared_buffers = 512MB
autovacuum = off
lsm.compaction_workers = 0
lsm.debug_reader_memory = 1024
${BENCH_CONF:-}"

. "$(dirname "$0")/lib.sh"

rows=${1:-20000000}
seconds=${2:-20}
rounds=${3:-3}
clients=${4:-16}
segment=${SEGMENT:-8MB}
whole='-c lsm.debug_bounds_from=1GB'

# make_table NAME ACCESS_METHOD
make_table()
{
	bench_sql points "CREATE TABLE $1 (id bigint, k int, at timestamptz, t text) USING $2"
	bench_sql points "INSERT INTO $1 SELECT i, hashint4(i), '2026-01-01'::timestamptz + i * interval '1 ms',
		md5(i::text) || md5((i + 1)::text) FROM generate_series(1, $rows) i"
	if [ "$2" = lsm ]; then
		bench_sql points "SELECT lsm_flush('$1')" >/dev/null
		# once more, for segments of that size
		bench_sql points "SET lsm.segment_size = '$segment'; VACUUM FULL $1"
	fi
	bench_sql points "ALTER TABLE $1 ADD PRIMARY KEY (id)"
	bench_sql points "VACUUM ANALYZE $1"
	printf '\\set id random(1, %d)\nSELECT t FROM %s WHERE id = :id;\n' "$rows" "$1" >"$BENCH_ROOT/$1.sql"
}

# rate TABLE OPTIONS: looks up rows for a while; prints how many a second.
rate()
{
	PGOPTIONS="$2" "$PGBIN/pgbench" -n -M prepared -f "$BENCH_ROOT/$1.sql" -c "$clients" -j 2 \
		-T "$seconds" points >"$BENCH_ROOT/pgbench.log" 2>&1 ||
		{ cat "$BENCH_ROOT/pgbench.log" >&2; bench_die "pgbench failed"; }
	bench_pgbench_tps "$BENCH_ROOT/pgbench.log"
}

# first_row OPTIONS: pages that the first row of a session reads.
first_row()
{
	PGOPTIONS="$1 -c enable_bitmapscan=off" bench_sql points "EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json)
		SELECT t FROM points_lsm WHERE id = $((rows / 3))" |
		awk -F'[:,]' '/"Shared (Hit|Read) Blocks"/ && !planning { pages += $2; n++; planning = n == 2 }
			END { print pages }'
}

bench_start
bench_create_database points
make_table points_lsm lsm
make_table points_heap heap
bench_section "segments"
bench_sql points "SELECT count(*) || ' segments of ' || pg_size_pretty(avg(stored_bytes)::bigint) || ', ' ||
	avg(blocks)::int || ' blocks each' FROM lsm_segments('points_lsm')"

bench_section "rows a second, $clients sessions"
parts=() wholes=() heaps=()
for ((round = 1; round <= rounds; round++)); do
	parts+=("$(rate points_lsm '')")
	wholes+=("$(rate points_lsm "$whole")")
	heaps+=("$(rate points_heap '')")
	printf 'round %d: lsm %.0f, with whole segments %.0f, heap %.0f\n' \
		"$round" "${parts[-1]}" "${wholes[-1]}" "${heaps[-1]}"
done
lsm=$(bench_median "${parts[@]}")
lsm_whole=$(bench_median "${wholes[@]}")
heap=$(bench_median "${heaps[@]}")
printf 'median:  lsm %.0f, %.2f of the rate with whole segments, %.3f of heap'"'"'s\n' \
	"$lsm" "$(bench_calc %.4f "$lsm / $lsm_whole")" "$(bench_calc %.4f "$lsm / $heap")"
if [ "$(bench_calc %d "($lsm >= 0.97 * $lsm_whole)")" = 1 ]; then
	bench_pass "parts are no slower than whole segments"
else
	bench_fail "parts are slower than whole segments"
fi

bench_section "pages for the first row of a session"
first=$(first_row '')
first_whole=$(first_row "$whole")
printf 'lsm %d, with a whole segment %d\n' "$first" "$first_whole"
if [ "$first" -lt "$first_whole" ]; then
	bench_pass "a part is less than a segment"
else
	bench_fail "a part is no less than a segment"
fi
bench_verify points
bench_finish
