#!/bin/bash
#
# floors.sh [COPY_SCALE [TPCB_SCALE [SECONDS [ROUNDS]]]]		(0.5, 20, 25, 3)
#	  How fast lsm is beside heap, against the floors that we promise.
#
# Heap and the access method under test run in turn in one cluster, heap first
# in one round and last in the next.  Each figure is the median of the rounds,
# with the smallest and the largest beside it.  The control is heap measured
# against itself, the rounds in which it came first against those in which it
# came last: how far it is from 1 says how far the ratios may be trusted.
#
# Environment: see lib.sh, and
#	  LINEITEM_FILE	rows for COPY instead of generated ones
#	  FLUSH_SECONDS	while TPC-B runs on lsm, flush its tables so often (0: only
#					when the memtable is full)
#	  WAL_SECONDS	length of a run that measures WAL (90)
#	  WAL_ROUNDS	how many of them (1)
#	  PARTS			which parts to run (copy tpcb select wal)

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"

copy_scale=${1:-0.5}
tpcb_scale=${2:-20}
seconds=${3:-25}
rounds=${4:-3}
flush_seconds=${FLUSH_SECONDS:-0}
wal_seconds=${WAL_SECONDS:-90}
wal_rounds=${WAL_ROUNDS:-1}
parts=" ${PARTS:-copy tpcb select wal} "
clients=4
checkpoint_seconds=30

pgbench_tables="pgbench_accounts pgbench_tellers pgbench_branches pgbench_history"

wanted()
{
	case $parts in *" $1 "*) return 0 ;; esac
	return 1
}

#
# COPY
#

measure_copy()
{
	local file round side start loaded flushed rows

	file=${LINEITEM_FILE:-$(bench_lineitem_file "$copy_scale")}
	file=$(realpath "$file")
	rows=$(wc -l <"$file")
	bench_section "COPY of $rows rows of lineitem"
	bench_create_database copying
	for ((round = 1; round <= rounds; round++)); do
		for side in $(compare_sides "$round"); do
			bench_sql copying "$(bench_lineitem_ddl lineitem "$(compare_am $side)")"
			bench_sql copying CHECKPOINT
			cat "$file" >/dev/null			# both find it in the system's cache
			start=$EPOCHREALTIME
			bench_lineitem_copy copying lineitem "$file"
			loaded=$EPOCHREALTIME
			if [ "$side" = test ]; then
				bench_lsm copying flush lineitem >"$BENCH_ROOT/flush.out"
			fi
			flushed=$EPOCHREALTIME
			compare_record "COPY" "$side" "$round" "$(bench_calc %.1f "$rows / ($loaded - $start) / 1000")"
			compare_record "COPY and flush" "$side" "$round" "$(bench_calc %.1f "$rows / ($flushed - $start) / 1000")"
			bench_expect copying "all rows are there" "$rows" "SELECT count(*) FROM lineitem"
			bench_sql copying "DROP TABLE lineitem"
		done
	done
	compare_judge "COPY" "krows/s" least 0.7
	compare_judge "COPY and flush" "krows/s" least 0.5
	bench_sql postgres "DROP DATABASE copying"
}

#
# pgbench
#

make_pgbench_databases()
{
	local side table

	bench_section "pgbench -i, scale $tpcb_scale"
	for side in heap test; do
		bench_create_database "tpcb_$side"
		compare_with_am "$side" \
			"$PGBIN/pgbench" -i -q -s "$tpcb_scale" "tpcb_$side" 2>&1 | tail -n 1
	done
	bench_expect_am tpcb_test $pgbench_tables
}

flush_sql()
{
	local table

	for table in $pgbench_tables; do
		printf "SELECT lsm_flush('%s');\n" "$table"
	done
}

# run_pgbench SIDE SECONDS [pgbench arguments]: report in run.out.
run_pgbench()
{
	local side=$1 run_seconds=$2
	shift 2

	if ! "$PGBIN/pgbench" -n -c "$clients" -j 2 -T "$run_seconds" "$@" "tpcb_$side" \
		>"$BENCH_ROOT/run.out" 2>"$BENCH_ROOT/run.err"; then
		sed -n 1,5p "$BENCH_ROOT/run.err"
		bench_fail "pgbench ended with an error on $(compare_am "$side")"
	fi
}

# Both sides, so that no autovacuum owed by one runs in the other's time.  The
# accounts are left to autovacuum.
settle()
{
	local side

	for side in heap test; do
		bench_sql "tpcb_$side" "VACUUM pgbench_branches, pgbench_tellers, pgbench_history"
	done
	bench_sql postgres CHECKPOINT
}

# A run whose figures are thrown away, so that no round is the first.
warm_up()
{
	local side

	for side in heap test; do
		run_pgbench "$side" 3 -b tpcb-like
	done
}

measure_tpcb()
{
	local round side

	bench_section "TPC-B, $clients clients, $seconds s a run"
	warm_up
	for ((round = 1; round <= rounds; round++)); do
		for side in $(compare_sides "$round"); do
			settle
			if [ "$side" = test ] && [ "$AM" = lsm ] && [ "$flush_seconds" != 0 ]; then
				compare_in_background "$flush_seconds" tpcb_test "$(flush_sql)"
				run_pgbench "$side" "$seconds" -b tpcb-like
				compare_stop_background
			else
				run_pgbench "$side" "$seconds" -b tpcb-like
			fi
			compare_record "TPC-B" "$side" "$round" "$(bench_pgbench_tps "$BENCH_ROOT/run.out")"
		done
	done
	compare_judge "TPC-B" tps least 0.8
}

# measure_select STATE
measure_select()
{
	local round side mode run_seconds=$(((seconds + 2) / 3))

	bench_section "select-only, $1, $run_seconds s a run"
	for side in heap test; do
		run_pgbench "$side" 2 -b select-only
	done
	for mode in simple prepared; do
		for ((round = 1; round <= rounds; round++)); do
			for side in $(compare_sides "$round"); do
				bench_sql "tpcb_$side" CHECKPOINT
				run_pgbench "$side" "$run_seconds" -b select-only -M "$mode"
				compare_record "select-only $mode, $1" "$side" "$round" "$(bench_pgbench_tps "$BENCH_ROOT/run.out")"
			done
		done
		compare_judge "select-only $mode, $1" tps least 0.7
	done
}

compact_test()
{
	local table job

	bench_section "flush and major compaction"
	for table in $pgbench_tables; do
		for job in flush major_compact; do
			bench_lsm tpcb_test "$job" "$table"
		done
	done
}

# wal_bytes START END COUNT
wal_bytes()
{
	bench_sql postgres "SELECT round(('$2'::pg_lsn - '$1'::pg_lsn) / $3, 1)"
}

# measure_wal: bytes from a checkpoint, with checkpoints at their usual times,
# to the end of the run; and again with the flush of what the run wrote.
measure_wal()
{
	local round side start end flushed count

	bench_section "WAL of TPC-B, a checkpoint every $checkpoint_seconds s, $wal_seconds s a run"
	for ((round = 1; round <= wal_rounds; round++)); do
		for side in $(compare_sides "$round"); do
			settle
			start=$(bench_sql "tpcb_$side" "SELECT pg_current_wal_insert_lsn()")
			compare_in_background "$checkpoint_seconds" "tpcb_$side" CHECKPOINT
			run_pgbench "$side" "$wal_seconds" -b tpcb-like
			end=$(bench_sql "tpcb_$side" "SELECT pg_current_wal_insert_lsn()")
			compare_stop_background
			count=$(bench_pgbench_count "$BENCH_ROOT/run.out")
			compare_record "WAL of TPC-B" "$side" "$round" "$(wal_bytes "$start" "$end" "$count")"
			if [ "$side" = test ] && [ "$AM" = lsm ]; then
				bench_sql tpcb_test "$(flush_sql)" >/dev/null
			fi
			flushed=$(bench_sql "tpcb_$side" "SELECT pg_current_wal_insert_lsn()")
			compare_record "WAL of TPC-B and flush" "$side" "$round" "$(wal_bytes "$start" "$flushed" "$count")"
			compare_record "TPC-B while WAL is measured" "$side" "$round" "$(bench_pgbench_tps "$BENCH_ROOT/run.out")"
		done
	done
	compare_judge "WAL of TPC-B" bytes/tx most 0.5
	compare_judge "WAL of TPC-B and flush" bytes/tx told -
	compare_judge "TPC-B while WAL is measured" tps told -
}

bench_start
bench_say "clients:  $clients, rounds: $rounds, seconds between flushes of TPC-B: $flush_seconds"

if wanted copy; then
	measure_copy
fi
if wanted tpcb || wanted select || wanted wal; then
	make_pgbench_databases
	if wanted tpcb; then
		measure_tpcb
	fi
	if wanted select; then
		measure_select "as left"
	fi
	if [ "$AM" = lsm ] && { wanted select || wanted wal; }; then
		compact_test
		if wanted select; then
			measure_select "compacted"
		fi
	fi
	if wanted wal; then
		measure_wal
	fi
	bench_expect tpcb_test "sums of balances agree with the history" t "
		SELECT (SELECT sum(abalance) FROM pgbench_accounts) = coalesce(sum(delta), 0)
		FROM pgbench_history"
fi

compare_print_results
bench_finish
