#!/bin/bash
#
# tpch.sh [SCALE [ROUNDS]]		(1, 3)
#	  The 22 queries of TPC-H, warm and cold, without parallelism: lsm beside heap, with
#	  the same indexes.
#
# Heap and the access method under test run in turn, heap first in one round and
# last in the next; each figure is the median of the rounds, in milliseconds, of the
# second run of a query in a session.  Answers must be equal, in the order that they
# come in: every query orders them fully, and no column is a float.
#
# Parameters are those of the standard's validation (tpch/q*.sql).
#
# All is in memory, and the planner is told so (random_page_cost).  Heap has 1 GB of shared
# buffers for about as much data; lsm, which stores it in less than half, has 512 MB of
# block cache, and 256 MB for blocks that the session has opened.
#
# "Cold" is told only, once for each query and side: the server has just been started, and the
# kernel has none of its files in its page cache.  Beside it, where Python has the module duckdb,
# is DuckDB (duckdb.sh).
#
# Environment: see lib.sh, duckdb.sh, and
#	  QUERIES		numbers of the queries to run (all)
#	  WORKERS		max_parallel_workers_per_gather (0)

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"
. "$BENCH_SRC/cgroup.sh"
. "$BENCH_SRC/duckdb.sh"

scale=${1:-1}
rounds=${2:-3}
numbers=${QUERIES:-$(seq 1 22)}
workers=${WORKERS:-0}
tables=(region nation part supplier partsupp customer orders lineitem)

# query_file NUMBER
query_file()
{
	printf '%s/tpch/q%02d.sql\n' "$BENCH_SRC" "$1"
}

# run_query SIDE NUMBER TIMES: its answer in answer, milliseconds in took: of the last time in
# a session.
run_query()
{
	local file out i

	file=$(query_file "$2")
	if ! out=$({
		printf '%s\n' "SET max_parallel_workers_per_gather = $workers;" '\timing on'
		for ((i = 0; i < $3; i++)); do
			printf '\\echo answer\n\\i %s\n' "$file"
		done
	} | bench_psql "tpch_$1" -v scale="$scale"); then
		bench_fail "Q$2 on $(compare_am "$1") raised an error"
		out='Time: 0 ms'
	fi
	answer=$(awk '/^answer$/ { rows = ""; next } !/^Time: / { rows = rows $0 "\n" } END { printf "%s", rows }' <<<"$out")
	took=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$out" | tail -n 1)
}

# answers_equal NUMBER ANSWER ANSWER
answers_equal()
{
	[ "$2" = "$3" ] || bench_fail "Q$1: the answers differ"
	[ -n "$2" ] || bench_say "      Q$1 has no rows at this scale"
}

measure_query()
{
	local side round answers

	for ((round = 0; round <= rounds; round++)); do
		answers=()
		for side in $(compare_sides "$round"); do
			run_query "$side" "$1" 2
			answers+=("$answer")
			[ "$round" = 0 ] || compare_record "Q$1" "$side" "$round" "$took"
		done
		answers_equal "$1" "${answers[@]}"
	done
	compare_judge "Q$1" ms most 1.1
	ratios+=" $(bench_calc %.6g "$(compare_median "Q$1" test) / $(compare_median "Q$1" heap)")"
}

measure_cold()
{
	local side answers=()

	for side in $(compare_sides "$1"); do
		blkio_restart
		run_query "$side" "$1" 1
		answers+=("$answer")
		compare_record "Q$1, cold" "$side" 1 "$took"
	done
	answers_equal "$1" "${answers[@]}"
	compare_judge "Q$1, cold" ms told -
	ratios+=" $(bench_calc %.6g "$(compare_median "Q$1, cold" test) / $(compare_median "Q$1, cold" heap)")"
}

# The queries on a line each, as duckdb_queries.py has them.
duckdb_queries()
{
	local number

	for number in $numbers; do
		printf 'Q%d\t%s\n' "$number" "$(sed "/^--/d; s/:scale/$scale/" "$(query_file "$number")" | tr '\n\t' '  ')"
	done
}

BENCH_CONF="random_page_cost = 1.1
lsm.block_cache_size = 512MB
${BENCH_CONF:-}"
bench_start
declare -A files
for table in "${tables[@]}"; do
	files[$table]=$(realpath "$(bench_tpch_file "$table" "$scale")")
done
bench_say "scale:    $scale, $(wc -l <"${files[lineitem]}") rows of lineitem, rounds: $rounds, workers: $workers"
compare_make_databases tpch
for side in heap test; do
	bench_psql "tpch_$side" -v am="$(compare_am $side)" -f "$BENCH_SRC/tpch/schema.sql"
	bench_sql "tpch_$side" "$(bench_lineitem_ddl lineitem "$(compare_am $side)")"
	for table in "${tables[@]}"; do
		bench_lineitem_copy "tpch_$side" "$table" "${files[$table]}"
		bench_sql "tpch_$side" "ALTER TABLE $table SET (autovacuum_enabled = off)"
	done
	bench_psql "tpch_$side" -f "$BENCH_SRC/tpch/indexes.sql"
	bench_sql "tpch_$side" "VACUUM ANALYZE"
done

bench_section "queries"
ratios=
for number in $numbers; do
	measure_query "$number"
done
mean=$(compare_geometric_mean $ratios)

bench_section "queries, cold"
ratios=
for number in $numbers; do
	measure_cold "$number"
done
cold_mean=$(compare_geometric_mean $ratios)

if duckdb_at_hand; then
	bytes=0
	names=()
	for table in "${tables[@]}"; do
		bytes=$((bytes + $(bench_sql tpch_test "SELECT pg_table_size('$table')")))
		names+=("$table=${files[$table]}")
	done
	{
		cat "$BENCH_SRC/tpch/schema.sql"
		bench_lineitem_ddl lineitem heap
		echo ';'
	} >"$BENCH_ROOT/schema"
	duckdb_beside "$rounds" "" ms "$bytes" "$BENCH_ROOT/schema" "${names[@]}" < <(duckdb_queries)
fi

compare_print_results
bench_section "geometric mean"
compare_verdict "$AM / heap" "$mean" most 0.7
bench_say "      cold: $cold_mean"
bench_finish
