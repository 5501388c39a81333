#!/bin/bash
#
# update_load.sh [SECONDS [CLIENTS [ROWS]]]		(600, 8, 2000000)
#	  Random updates at full speed, heap first, then the other: rate, longest pause, 99.9
#	  percentile, and how many increments lay over each other meanwhile.
#
# Writers are slowed when flushes or compactions fall behind, so full speed is the load that
# compaction can just about follow.  Each transaction updates one row: of four, three a column
# without an index, and one a column that has one.  The table is larger than its memtables, so that
# flushes, minors and majors run all the time.  A pause is the time that one transaction took;
# a second in which none of the clients committed anything is counted as one without commits.
# Nothing is flushed or compacted by a call.
#
# Environment: see lib.sh and compare.sh, and
#	  HEAP_SECONDS	length of heap's run (as the other)
#	  RATE			transactions a second, the same on both sides (0: as many as go)
#	  PAUSE_LIMIT	most ms that a transaction may take (1000)
#	  P999_LIMIT	most ms for the 99.9 percentile, over heap's (5)

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"

seconds=${1:-600}
clients=${2:-8}
rows=${3:-2000000}
heap_seconds=${HEAP_SECONDS:-$seconds}
rate=${RATE:-0}
pause_limit=${PAUSE_LIMIT:-1000}
p999_limit=${P999_LIMIT:-5}

make_table()
{
	bench_sql "update_$1" "
		CREATE TABLE orders (
			id		bigint PRIMARY KEY,
			state	integer NOT NULL,
			amount	bigint NOT NULL,
			at		timestamptz NOT NULL,
			note	text NOT NULL
		) USING $(compare_am "$1");
		INSERT INTO orders
		SELECT i, 0, i % 1000, '2026-01-01 UTC'::timestamptz + i * interval '7 s',
			   md5(i::text) || md5((i + 1)::text) || md5((i + 2)::text)
		FROM generate_series(1, $rows) i;
		CREATE INDEX ON orders (state);
		VACUUM ANALYZE orders;"
}

update_script()
{
	cat <<-SQL
	\\set id random(1, $rows)
	\\set kind random(1, 4)
	\\set v random(1, 1000000000)
	\\if :kind = 1
	UPDATE orders SET state = :v WHERE id = :id;
	\\else
	UPDATE orders SET amount = :v WHERE id = :id;
	\\endif
	SQL
}

# watch_depth: until it is told to stop; the most increments that lie over one of them, and most
# segments, so far.
watch_depth()
{
	local depth=0 now

	while :; do
		now=$(bench_sql update_test "
			SELECT coalesce(max(n), 0) FROM (
				SELECT count(*) AS n FROM lsm_segments('orders') a
				JOIN lsm_segments('orders') b ON b.kind = 'increment'
					AND b.first_tid <= a.first_tid AND b.last_tid >= a.first_tid
				WHERE a.kind = 'increment' GROUP BY a.segment_id) x")
		if [ "$now" -gt "$depth" ]; then
			depth=$now
		fi
		printf '%s\n' "$depth" >"$BENCH_ROOT/depth.new"
		mv "$BENCH_ROOT/depth.new" "$BENCH_ROOT/depth"
		compare_watching 1 || return 0
	done
}

# measure SIDE SECONDS
measure()
{
	local side=$1 am limits=() watch= overall

	am=$(compare_am "$side")
	bench_section "updates of $rows rows, $clients clients, $2 s: $am"
	make_table "$side"
	update_script >"$BENCH_ROOT/update.pgbench"
	bench_sql postgres CHECKPOINT
	if [ "$rate" != 0 ]; then
		limits=(-R "$rate")
	fi
	rm -f "$BENCH_ROOT"/latency.*
	if compare_is_lsm "$side"; then
		watch_depth 2>"$BENCH_ROOT/watch.err" &
		watch=$!
		bench_remember_job "$watch"
	fi
	"$PGBIN/pgbench" -n -M prepared -c "$clients" -j 2 -T "$2" ${limits[@]+"${limits[@]}"} \
		-l --log-prefix="$BENCH_ROOT/latency" -f "$BENCH_ROOT/update.pgbench" "update_$side" \
		>"$BENCH_ROOT/run.out" 2>"$BENCH_ROOT/run.err" ||
		bench_fail "pgbench ended with an error on $am: $(sed -n 1,3p "$BENCH_ROOT/run.err")"
	if [ -n "$watch" ]; then
		compare_stop_watching "$watch"
		if [ -s "$BENCH_ROOT/watch.err" ]; then
			bench_fail "increments were counted: $(sed -n 1,3p "$BENCH_ROOT/watch.err")"
		fi
		compare_record "increments over each other" "$side" 1 "$(cat "$BENCH_ROOT/depth")"
		bench_sql update_test "
			SELECT '      ' || flushes || ' flushes, ' || minor_compactions || ' minors, ' || major_compactions ||
				' majors; writers were slowed ' || stalls || ' times, ' || round(stall_time) || ' ms in all, ' ||
				round(longest_stall) || ' ms at most'
			FROM lsm_stat_tables WHERE relname = 'orders'"
	fi

	compare_latencies 1 "$BENCH_ROOT"/latency.* >"$BENCH_ROOT/seconds.$side"
	overall=$(compare_latencies 1000000000 "$BENCH_ROOT"/latency.*)
	compare_record "updates a second" "$side" 1 "$(bench_pgbench_tps "$BENCH_ROOT/run.out")"
	compare_record "median" "$side" 1 "$(cut -d ' ' -f 3 <<<"$overall")"
	compare_record "99 %" "$side" 1 "$(cut -d ' ' -f 4 <<<"$overall")"
	compare_record "99.9 %" "$side" 1 "$(cut -d ' ' -f 5 <<<"$overall")"
	compare_record "longest pause" "$side" 1 "$(cut -d ' ' -f 6 <<<"$overall")"
	compare_record "seconds without commits" "$side" 1 "$(awk '$2 == 0' "$BENCH_ROOT/seconds.$side" | wc -l)"
	compare_record "slowest tenth of seconds" "$side" 1 "$(sort -n -k 2,2 "$BENCH_ROOT/seconds.$side" |
		awk '{ v[NR] = $2 } END { print v[int(NR / 10) + 1] }')"
	compare_record "size on disk" "$side" 1 "$(bench_calc %.1f "$(compare_disk_bytes "update_$side" orders) / 1048576")"
	compare_settle "update_$side"
	compare_record "size on disk, at rest" "$side" 1 "$(bench_calc %.1f "$(compare_disk_bytes "update_$side" orders) / 1048576")"
	bench_expect "update_$side" "all rows are there on $am" "$rows" "SELECT count(*) FROM orders"
	if [ "$side" = heap ]; then
		bench_sql update_heap "DROP TABLE orders"
	fi
}

bench_start
bench_say "updates a second at most: $rate (0: no limit)"
compare_make_databases update
measure heap "$heap_seconds"
measure test "$seconds"

bench_section "soundness"
if [ "$AM" = lsm ]; then
	bench_expect update_test "lsm_check is empty" "" "SELECT p FROM lsm_check('orders') p LIMIT 10"
fi

bench_section "floors"
compare_judge "updates a second" 1/s told -
compare_judge "slowest tenth of seconds" 1/s told -
for figure in "median" "99 %" "longest pause"; do
	compare_judge "$figure" ms told -
done
compare_judge "99.9 %" ms most "$p999_limit"
compare_judge "seconds without commits" seconds told -
compare_judge "size on disk" MB told -
compare_judge "size on disk, at rest" MB told -
if [ "$AM" = lsm ]; then
	bench_say "      increments over each other, at most: $(compare_median "increments over each other" test)"
fi
compare_verdict "longest pause in ms: $AM" "$(compare_median "longest pause" test)" most "$pause_limit"
compare_print_results
bench_finish
