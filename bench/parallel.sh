#!/bin/bash
#
# parallel.sh [SCALE [ROUNDS]]		(5, 5)
#	  Parallel scans, and cold ones.
#
# The sum of an expression over lineitem goes through the server's aggregate node
# (LsmAgg does not know it), by one worker and by two, the leader not taking part, in
# turn; two must be at least 1.7 times as fast as one.  "Skewed" is the same with a
# table of which most rows were deleted, all that is left lies together, and a corner has
# been changed since: its ranges must be as even.  EXPLAIN (ANALYZE) is shown for both.
#
# "Aggregates" are computed inside the scan (LsmAgg), partially, by one worker and by two: told.
#
# "Bitmap" is the same of a third of the rows, anywhere, through a bitmap that one process
# makes: it is printed only.
#
# "Cold" is a scan of all of the table with nothing cached, beside heap: of one column's sum, which
# reads all blocks, it must be as fast as heap times half the ratio of their sizes.  All columns as
# text take the processor more time than reading takes the disk; that is printed only, with
# the same once more, when all is in memory.
#
# Environment: see lib.sh, and
#	  LINEITEM_FILE	rows to load instead of generated ones
#	  PARTS			which of them to run (workers bitmap cold)
#	  FLOOR			of two workers over one (1.7)

BENCH_CONF="autovacuum = off
lsm.compaction_workers = 0
${BENCH_CONF:-}"

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/cgroup.sh"

scale=${1:-5}
rounds=${2:-5}
parts=" ${PARTS:-workers bitmap cold} "
floor=${FLOOR:-1.7}
sum="SELECT sum(l_extendedprice * l_discount + abs(l_tax)), count(*) FROM %s"

# timed QUERY SETTINGS: milliseconds of the second run in a session.
timed()
{
	printf '%s\n' "$2" "$1;" '\timing on' "$1;" | bench_psql parallel -At |
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1
}

# One worker would be no faster than none, so the planner has to be told to take it: the session
# itself would go on with blocks that it has decoded before.
workers_settings()
{
	[ "$1" != 1 ] || printf "SELECT set_config(CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'debug_parallel_query' ELSE 'force_parallel_mode' END, 'on', false);"
	printf 'SET max_parallel_workers_per_gather = %d; SET parallel_leader_participation = off; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;' "$1"
}

# compare_workers TABLE LABEL NODE [SETTINGS]: leaves how many times as fast two are in ratio.
compare_workers()
{
	local query plan n round one=() two=()

	# shellcheck disable=SC2059
	query=$(printf "$sum" "$1")
	plan=$(bench_psql parallel -c "$(workers_settings 2)${4:-}" -c "EXPLAIN (ANALYZE, COSTS off, TIMING off) $query")
	grep -E 'LSM|Custom' <<<"$plan"
	if ! grep -q "Partial Aggregate" <<<"$plan" || ! grep -q "Parallel Custom Scan ($3)" <<<"$plan"; then
		bench_die "the plan is not the server's aggregate node over $3"
	fi
	for ((round = 0; round < rounds; round++)); do
		for n in 1 2; do
			if [ $n = 1 ]; then one+=("$(timed "$query" "$(workers_settings 1)${4:-}")"); else two+=("$(timed "$query" "$(workers_settings 2)${4:-}")"); fi
		done
	done
	ratio=$(bench_calc %.2f "$(bench_median "${one[@]}") / $(bench_median "${two[@]}")")
	bench_say "$2: one worker $(bench_median "${one[@]}") ms, two $(bench_median "${two[@]}") ms"
}

# judge_workers TABLE LABEL
judge_workers()
{
	compare_workers "$1" "$2" LsmScan
	if [ "$(bench_calc %d "($ratio >= $floor)")" = 1 ]; then
		bench_pass "$2: two workers $ratio times as fast, at least $floor"
	else
		bench_fail "$2: two workers $ratio times as fast, at least $floor"
	fi
}

# tell_aggregates: what the scan computes itself.
tell_aggregates()
{
	local query="SELECT sum(l_extendedprice * (1 - l_discount)), avg(l_quantity), count(*) FROM lineitem"
	local n round one=() two=()

	bench_psql parallel -c "$(workers_settings 2)" -c "EXPLAIN (COSTS off) $query" | grep -q "Parallel Custom Scan (LsmAgg)" ||
		bench_die "the plan is not LsmAgg by workers"
	for ((round = 0; round < rounds; round++)); do
		for n in 1 2; do
			if [ $n = 1 ]; then one+=("$(timed "$query" "$(workers_settings 1)")"); else two+=("$(timed "$query" "$(workers_settings 2)")"); fi
		done
	done
	bench_say "aggregates: one worker $(bench_median "${one[@]}") ms, two $(bench_median "${two[@]}") ms," \
		"$(bench_calc %.2f "$(bench_median "${one[@]}") / $(bench_median "${two[@]}")") times as fast"
}

# compare_cold LABEL QUERY: leaves how many times as fast as heap lsm is in ratio.
compare_cold()
{
	local round table query took lsm_ms=() heap_ms=() lsm_warm=() heap_warm=()

	for ((round = 0; round < rounds; round++)); do
		for table in heap_lineitem lineitem; do
			# shellcheck disable=SC2059
			query=$(printf "$2" "$table")
			bench_server_stop fast
			blkio_forget
			bench_server_start
			took=$(printf '%s\n' "SET max_parallel_workers_per_gather = 0;" '\timing on' "$query;" "$query;" |
				bench_psql parallel -At | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p')
			if [ $table = lineitem ]; then
				lsm_ms+=("${took%%$'\n'*}")
				lsm_warm+=("${took##*$'\n'}")
			else
				heap_ms+=("${took%%$'\n'*}")
				heap_warm+=("${took##*$'\n'}")
			fi
		done
	done
	ratio=$(bench_calc %.2f "$(bench_median "${heap_ms[@]}") / $(bench_median "${lsm_ms[@]}")")
	bench_say "$1: heap $(bench_median "${heap_ms[@]}") ms, lsm $(bench_median "${lsm_ms[@]}") ms, $ratio times as fast;" \
		"once more: heap $(bench_median "${heap_warm[@]}") ms, lsm $(bench_median "${lsm_warm[@]}") ms"
}

bench_start
file=$(realpath "${LINEITEM_FILE:-$(bench_lineitem_file "$scale")}")
bench_create_database parallel
bench_sql parallel "$(bench_lineitem_ddl lineitem lsm)"
bench_lineitem_copy parallel lineitem "$file"
bench_sql parallel "SELECT lsm_flush('lineitem')" >/dev/null
bench_sql parallel "VACUUM ANALYZE lineitem"
case $parts in
	*" workers "*)
		bench_section "workers"
		judge_workers lineitem even
		tell_aggregates
		bench_sql parallel "$(bench_lineitem_ddl skewed lsm)"
		bench_lineitem_copy parallel skewed "$file"
		bench_sql parallel "DELETE FROM skewed WHERE l_orderkey < (SELECT max(l_orderkey) * 9 / 10 FROM lineitem)"
		bench_sql parallel "SELECT lsm_flush('skewed'), lsm_major_compact('skewed')" >/dev/null
		bench_sql parallel "UPDATE skewed SET l_quantity = l_quantity + 1 WHERE l_orderkey > (SELECT max(l_orderkey) / 100.0 * 98 FROM lineitem)"
		bench_sql parallel "SELECT lsm_flush('skewed')" >/dev/null
		bench_sql parallel "ANALYZE skewed"
		judge_workers skewed skewed
		;;
esac
case $parts in
	*" bitmap "*)
		bench_section "bitmap"
		bench_sql parallel "CREATE INDEX lineitem_partkey ON lineitem (l_partkey)"
		limit=$(bench_sql parallel "SELECT max(l_partkey) / 3 FROM lineitem")
		compare_workers "lineitem WHERE l_partkey < $limit" bitmap LsmBitmapScan \
			" SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;"
		bench_say "bitmap: two workers $ratio times as fast"
		;;
esac
case $parts in
	*" cold "*)
		bench_section "cold"
		bench_sql parallel "$(bench_lineitem_ddl heap_lineitem heap)"
		bench_lineitem_copy parallel heap_lineitem "$file"
		bench_sql parallel "VACUUM ANALYZE heap_lineitem"
		sizes=$(bench_sql parallel "SELECT (pg_relation_size('heap_lineitem')::numeric / (SELECT sum(stored_bytes) FROM lsm_segments('lineitem')))::numeric(10,2)")
		least=$(bench_calc %.2f "$sizes / 2")
		compare_cold "sum of a column" "SELECT sum(l_partkey) FROM %s"
		if [ "$(bench_calc %d "($ratio >= $least)")" = 1 ]; then
			bench_pass "cold: $ratio times heap's speed, at least $least: half of $sizes"
		else
			bench_fail "cold: $ratio times heap's speed, at least $least: half of $sizes"
		fi
		compare_cold "all columns as text" "COPY (SELECT * FROM %s) TO '/dev/null'"
		;;
esac
bench_finish
