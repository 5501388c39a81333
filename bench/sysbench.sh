#!/bin/bash
#
# sysbench.sh [ROWS [SECONDS [RUNS [TABLES [THREADS]]]]]		(200000, 60, 5, 10, 16)
#	  sysbench's oltp_read_only before updates, right after oltp_write_only has
#	  updated as many rows as half of the tables hold, and when the background
#	  has come to rest by itself.  Nothing is flushed or compacted by a call.
#
# Keys are drawn uniformly.  The runs right after the writes follow each other,
# first heap's writes and runs, then the other's, so that neither is measured
# while the other's background works; the runs of the other stages are
# interleaved.  Each ratio is the median of a stage over that of the first.
#
# Beside the rates, by stage: how many records were examined for a row returned
# (from lsm_stat_tables), for heap index entries for a row fetched.
#
# Environment: see lib.sh and compare.sh, and
#	  SYSBENCH			the program (sysbench)
#	  AFTER_FLOOR		ratio right after the writes (0.9)
#	  SETTLED_FLOOR		ratio at rest (0.97: 1.0, less what runs differ by)
#	  WRITE_OPTIONS		for oltp_write_only, and UPDATES, how many rows one of its
#						transactions updates then (2): with "--index_updates=0
#						--delete_inserts=0" and 1 no row leaves its place

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"

rows=${1:-200000}
seconds=${2:-60}
runs=${3:-5}
tables=${4:-10}
threads=${5:-16}
sysbench=${SYSBENCH:-sysbench}
after_floor=${AFTER_FLOOR:-0.9}
settled_floor=${SETTLED_FLOOR:-0.97}

read -ra write_options <<<"${WRITE_OPTIONS:-}"

# Each transaction of oltp_write_only updates two rows; it also deletes one and
# inserts it again, which is not counted here.
updates=${UPDATES:-2}
events=$((rows * tables / 2 / updates))

# run_sysbench SIDE SCRIPT COMMAND [arguments]: report in sysbench.out.
run_sysbench()
{
	local side=$1 script=$2 command=$3
	shift 3

	if ! compare_with_am "$side" "$sysbench" "$script" --db-driver=pgsql --pgsql-host="$PGHOST" --pgsql-port="$PGPORT" \
		--pgsql-user="$PGUSER" --pgsql-db="sysbench_$side" --tables="$tables" --table-size="$rows" \
		--rand-type=uniform "$@" "$command" >"$BENCH_ROOT/sysbench.out" 2>&1; then
		grep -m 5 FATAL "$BENCH_ROOT/sysbench.out" || true
		bench_fail "$script $command ended with an error on $(compare_am "$side")"
	fi
}

# sysbench_count NAME: from the report's "    NAME:   123   (4.5 per sec.)".
sysbench_count()
{
	sed -n "s/^ *$1: *\([0-9]*\) .*/\1/p" "$BENCH_ROOT/sysbench.out"
}

sysbench_rate()
{
	local rate

	rate=$(sed -n 's/^ *transactions: .*(\([0-9.]*\) per sec.*/\1/p' "$BENCH_ROOT/sysbench.out")
	printf '%s\n' "${rate:-0}"
}

# examined SIDE: records or index entries examined, and rows returned, so far.
# Empty if there is no way to know.
examined()
{
	if compare_is_lsm "$1"; then
		if compare_has_stats sysbench_test; then
			bench_sql sysbench_test "
				SELECT sum(records_memtable + records_segments), sum(rows_read)
				FROM lsm_stat_tables"
		fi
	else
		bench_sql "sysbench_$1" "
			SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes),
				   (SELECT sum(idx_tup_fetch) FROM pg_stat_user_tables)"
	fi
}

# read_only STAGE SIDE ROUND
read_only()
{
	local before after

	before=$(examined "$2")
	run_sysbench "$2" oltp_read_only run --threads="$threads" --time="$seconds"
	compare_record "$1" "$2" "$3" "$(sysbench_rate)"
	after=$(examined "$2")
	if [ -n "$before" ] && [ "${before#*|}" != "${after#*|}" ]; then
		compare_record "$1, examined/row" "$2" "$3" \
			"$(bench_calc %.3f "(${after%|*} - ${before%|*}) / (${after#*|} - ${before#*|})")"
	fi
}

# read_only_interleaved STAGE
read_only_interleaved()
{
	local round side

	for ((round = 1; round <= runs; round++)); do
		for side in $(compare_sides "$round"); do
			read_only "$1" "$side" "$round"
		done
	done
}

write_only()
{
	local start=$EPOCHREALTIME

	run_sysbench "$1" oltp_write_only run --threads="$threads" --time=0 --events="$events" "${write_options[@]}"
	compare_record "write_only" "$1" 1 "$(sysbench_rate)"
	bench_say "      $(sysbench_count transactions) transactions in $(bench_calc %.0f "$EPOCHREALTIME - $start") s," \
		"$(sysbench_count 'ignored errors') repeated"
}

# space SIDE: bytes of tables, and with indexes.
space()
{
	bench_sql "sysbench_$1" "
		SELECT pg_size_pretty(sum(pg_table_size(oid))) || ' in tables, '
			|| pg_size_pretty(sum(pg_indexes_size(oid))) || ' in indexes'
		FROM pg_class WHERE relname LIKE 'sbtest%' AND relkind = 'r'"
}

spaces()
{
	local side

	for side in heap test; do
		bench_say "      $(printf %-5s "$(compare_am "$side")") $(space "$side")"
	done
}

# judge_stage STAGE FLOOR: against the first stage, on the same side.
judge_stage()
{
	local side before ratio

	for side in heap test; do
		before=$(compare_median "before" "$side")
		ratio=$(bench_calc %.3f "$before ? $(compare_median "$1" "$side") / $before : 0")
		if [ "$side" = test ]; then
			compare_verdict "read_only $1, over before: $AM" "$ratio" least "$2"
		else
			bench_say "      read_only $1, over before: heap = $ratio"
		fi
	done
}

# as much for blocks as heap has in shared buffers
BENCH_CONF="lsm.block_cache_size = 1GB
${BENCH_CONF:-}"
command -v "$sysbench" >/dev/null || bench_die "no sysbench: Debian's package of that name has it"
bench_start
bench_say "sysbench: $("$sysbench" --version); $tables tables x $rows rows, $threads threads, $seconds s a run, $runs runs"

bench_section "prepare"
compare_make_databases sysbench
for side in heap test; do
	run_sysbench "$side" oltp_read_only prepare --threads=1
done
bench_expect_am sysbench_test sbtest1 "sbtest$tables"
bench_sql postgres CHECKPOINT
compare_settle sysbench_heap sysbench_test
spaces

bench_section "read_only, before updates"
for side in heap test; do
	run_sysbench "$side" oltp_read_only run --threads="$threads" --time=$(((seconds + 5) / 6))	# not measured
done
read_only_interleaved "before"

for side in heap test; do
	bench_section "write_only, $((events * updates)) rows updated, and read_only right after: $(compare_am "$side")"
	bench_sql postgres CHECKPOINT
	write_only "$side"
	bench_say "      $(space "$side")"
	for ((round = 1; round <= runs; round++)); do
		read_only "right after" "$side" "$round"
	done
	compare_settle sysbench_heap sysbench_test
done

bench_section "read_only, when the background is at rest"
spaces
read_only_interleaved "settled"

bench_section "soundness"
for side in heap test; do
	bench_expect "sysbench_$side" "number of rows on $(compare_am "$side")" "$((rows * tables))" "
		SELECT $(seq -s ' + ' -f '(SELECT count(*) FROM sbtest%.0f)' "$tables")"
done
if [ "$AM" = lsm ]; then
	bench_expect sysbench_test "lsm_check('sbtest1') is empty" "" "SELECT p FROM lsm_check('sbtest1') p LIMIT 10"
fi

bench_section "stages over the first"
judge_stage "right after" "$after_floor"
judge_stage "settled" "$settled_floor"
for stage in "before" "write_only" "right after" "settled"; do
	compare_judge "$stage" tps told -
	if [ -n "${figures[$stage, examined/row,heap]:-}" ] && [ -n "${figures[$stage, examined/row,test]:-}" ]; then
		compare_judge "$stage, examined/row" records told -
	fi
done
if [ "$AM" = lsm ] && [ -z "${figures[before, examined/row,test]:-}" ]; then
	bench_say "SKIP  records examined for a row on lsm: no view lsm_stat_tables"
fi
compare_print_results
bench_finish
