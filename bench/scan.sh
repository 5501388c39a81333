#!/bin/bash
#
# scan.sh [SCALE [ROUNDS]]		(1, 5)
#	  Queries over all of TPC-H lineitem, warm and cold, without parallelism: lsm
#	  beside heap.
#
# Heap and the access method under test run in turn, heap first in one round and
# last in the next; each figure is the median of the rounds, as queries a second, of
# the second run of a query in a session.
# The answers of both must be equal.  "After updates" is the same with one row in a
# hundred changed, and not compacted: rates must be half of those before, beside heap's and beside
# the own ones (of a copy from before, in turn with it).  "Others changed" is told only: what the
# sums and bounds are of has changed then.
#
# "Cold" is told, too: the server has just been started, and the kernel has none of its files in its
# page cache; the figure is that of the first run.
#
# All rows are in memory on both sides: shared_buffers has room for heap's, and the block cache,
# which by default has not, for those of lsm at scale 1.
#
# Beside it, where Python has the module duckdb, is DuckDB (duckdb.sh).
#
# Environment: see lib.sh, duckdb.sh, and
#	  LINEITEM_FILE	rows to load instead of generated ones

BENCH_CONF="lsm.block_cache_size = 256MB
${BENCH_CONF:-}"

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"
. "$BENCH_SRC/cgroup.sh"
. "$BENCH_SRC/duckdb.sh"

scale=${1:-1}
rounds=${2:-5}

names=(count "sum of an int" "min and max" Q6 Q1 "1 % range" "LIKE and equality" "sum of l_partkey" "all columns" "point reads")
floors=(50 8 50 8 3 20 told 8 0.9 0.9)
queries=(
	"SELECT count(*) FROM lineitem"
	"SELECT sum(l_linenumber) FROM lineitem"
	"SELECT min(l_shipdate), max(l_extendedprice) FROM lineitem"
	"SELECT sum(l_extendedprice * l_discount) FROM lineitem
	 WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-01' + interval '1' year
		AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24"
	"SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
		sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
	 FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day GROUP BY 1, 2 ORDER BY 1, 2"
	"SELECT count(*), sum(l_quantity) FROM lineitem WHERE l_orderkey BETWEEN :low AND :high"
	"SELECT count(*) FROM lineitem WHERE l_shipmode = 'AIR' AND l_comment LIKE '%express%'"
	"SELECT sum(l_partkey) FROM lineitem"
	"COPY (SELECT * FROM lineitem) TO '/dev/null'"
	"DO \$\$ DECLARE x numeric; BEGIN FOR i IN 1 .. 20000 LOOP SELECT l_extendedprice INTO x FROM lineitem WHERE l_orderkey = (i * 7919::bigint) % 1000 * 32 + 1 AND l_linenumber = 1; END LOOP; END \$\$")

# for the query with that number: a range without its index
settings=([5]="SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
	SELECT max(l_orderkey) * 50 / 100 AS low, max(l_orderkey) * 51 / 100 AS high FROM lineitem \\gset")

# run_query SIDE QUERY [SETTINGS]: its answer in answer, milliseconds in took: of the
# second time in a session.
run_query()
{
	local out

	out=$(printf '%s\n' "SET max_parallel_workers_per_gather = 0;" "${3:-}" "$2;" '\timing on' "$2;" |
		bench_psql "scan_$1" -At)
	answer=$(sed '/^Time: /d' <<<"$out")
	took=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$out" | tail -n 1)
}

# run_cold: the same of the first time after a start, with nothing cached.
run_cold()
{
	local out

	blkio_restart
	out=$(printf '%s\n' "SET max_parallel_workers_per_gather = 0;" "${3:-}" '\timing on' "$2;" |
		bench_psql "scan_$1" -At)
	answer=$(sed '/^Time: /d' <<<"$out")
	took=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$out" | tail -n 1)
}

# measure STAGE FACTOR [RUN NUMBER...]: the floors are taken times that factor; "told": none.
# RUN is run_query or run_cold, NUMBERs are those of queries (all).
measure()
{
	local i side round answers floor run=${3:-run_query} numbers=("${!queries[@]}")

	[ $# -le 3 ] || numbers=("${@:4}")
	bench_section "$1"
	for i in "${numbers[@]}"; do
		for ((round = 0; round <= rounds; round++)); do
			answers=()
			for side in $(compare_sides "$round"); do
				"$run" "$side" "${queries[$i]}" "${settings[$i]:-}"
				answers+=("$answer")
				[ "$round" = 0 ] ||
					compare_record "${names[$i]}, $1" "$side" "$round" "$(bench_calc %.6g "1000 / $took")"
			done
			[ "${answers[0]}" = "${answers[1]}" ] || bench_fail "${names[$i]}, $1: the answers differ"
		done
		floor=${floors[$i]}
		if [ "$floor" = told ] || [ "$2" = told ]; then
			compare_judge "${names[$i]}, $1" /s told -
		else
			compare_judge "${names[$i]}, $1" /s least "$(bench_calc %.3g "$floor * $2")"
		fi
	done
}

# beside_before: of the queries over all rows, the rate after updates over that of a copy from
# before, in turn with it.
beside_before()
{
	local i side round

	for i in 0 1 2 3 4 7; do
		for ((round = 0; round <= 2 * rounds; round++)); do
			for side in before test; do
				run_query "$side" "${queries[$i]}"
				[ "$round" = 0 ] ||
					compare_record "${names[$i]}, beside its copy" "$side" "$round" "$(bench_calc %.6g "1000 / $took")"
			done
		done
		compare_verdict "${names[$i]}: $AM after updates / before" "$(bench_calc %.3f \
			"$(compare_median "${names[$i]}, beside its copy" test) / $(compare_median "${names[$i]}, beside its copy" before)")" least 0.5
	done
}

# The queries that are the same in DuckDB: all but the last two.
duckdb_queries()
{
	local i bounds

	bounds=$(bench_sql scan_test "SELECT max(l_orderkey) * 50 / 100, max(l_orderkey) * 51 / 100 FROM lineitem")
	for i in 0 1 2 3 4 5 6 7; do
		printf '%s\t%s\n' "${names[$i]}" "$(tr '\n\t' '  ' <<<"${queries[$i]}" | sed "s/:low/${bounds%|*}/; s/:high/${bounds#*|}/")"
	done
}

bench_start
file=$(realpath "${LINEITEM_FILE:-$(bench_lineitem_file "$scale")}")
bench_say "rows:     $(wc -l <"$file"), rounds: $rounds"
compare_make_databases scan
for side in heap test; do
	bench_sql "scan_$side" "$(bench_lineitem_ddl lineitem "$(compare_am $side)")"
	bench_lineitem_copy "scan_$side" lineitem "$file"
	bench_sql "scan_$side" "ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)"
	bench_sql "scan_$side" "ALTER TABLE lineitem SET (autovacuum_enabled = off)"
	bench_sql "scan_$side" "VACUUM ANALYZE lineitem"
done
measure "at rest" 1
if duckdb_at_hand; then
	bench_lineitem_ddl lineitem heap >"$BENCH_ROOT/schema"
	duckdb_beside "$rounds" ", at rest" /s "$(bench_sql scan_test "SELECT pg_table_size('lineitem')")" \
		"$BENCH_ROOT/schema" "lineitem=$file" < <(duckdb_queries)
fi
measure "cold" told run_cold 0 1 2 3 4 5 6 7
bench_sql postgres "CREATE DATABASE scan_before TEMPLATE scan_test"
compare_is_lsm test && bench_sql scan_test "ALTER TABLE lineitem SET (lsm.auto_compact = off)"
for side in heap test; do
	bench_sql "scan_$side" "UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE (l_orderkey::bigint * 7 + l_linenumber) % 100 = 3"
done
measure "after updates" 0.5
beside_before
for side in heap test; do
	bench_sql "scan_$side" "UPDATE lineitem SET l_partkey = l_partkey + 1, l_extendedprice = l_extendedprice + 1, l_shipdate = l_shipdate + 1
		WHERE (l_orderkey::bigint * 7 + l_linenumber) % 100 = 4"
done
measure "others changed" told run_query 2 3 4 7
compare_print_results
bench_finish
