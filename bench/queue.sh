#!/bin/bash
#
# queue.sh [SECONDS [CLIENTS [ROWS]]]		(3600, 4, 1000)
#	  A queue of constant small size: each client puts an entry in, takes the
#	  oldest that nobody else holds (FOR UPDATE SKIP LOCKED), and deletes it.
#	  Size and latency must stay flat over the time; heap's run comes first.
#
# A latency is that of one entry put in and one taken, two transactions.  Median,
# 99 and 99.9 percentile are taken of each of 12 intervals of the run.  Flat means:
# the median over the last third of the intervals is not much above that over the
# second to the fourth (the first is left out: it holds the growth from an empty
# table); and the table, with its indexes, was never much larger in the second half
# than it was in the first.  Nothing is flushed, compacted or vacuumed by a call.
#
# Environment: see lib.sh and compare.sh, and
#	  RATE			entries a second, the same on both sides (0: as fast as it goes)
#	  HEAP_SECONDS	length of heap's run (as the other)
#	  LATENCY_FLAT	how much a median or 99 percentile may grow (1.25)
#	  TAIL_FLAT		how much a 99.9 percentile may grow (1.5)
#	  SIZE_FLAT		how much the size may grow (1.25)

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"

seconds=${1:-3600}
clients=${2:-4}
rows=${3:-1000}
rate=${RATE:-0}
heap_seconds=${HEAP_SECONDS:-$seconds}
latency_flat=${LATENCY_FLAT:-1.25}
tail_flat=${TAIL_FLAT:-1.5}
size_flat=${SIZE_FLAT:-1.25}

intervals=12

make_queue()
{
	bench_sql "queue_$1" "
		CREATE TABLE queue (
			id		bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			at		timestamptz NOT NULL DEFAULT now(),
			job		text NOT NULL
		) USING $(compare_am "$1");
		INSERT INTO queue (job) SELECT md5(i::text) FROM generate_series(1, $rows) i;"
	bench_sql "queue_$1" "ANALYZE queue"
}

queue_script()
{
	cat <<-'SQL'
	\set job random(1, 1000000000)
	INSERT INTO queue (job) VALUES ('job ' || :job);
	BEGIN;
	SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1 \gset
	DELETE FROM queue WHERE id = :id;
	COMMIT;
	SQL
}

# watch_size SIDE: bytes of the table on disk and of its indexes, five times in an
# interval of the run, until it is told to stop.
watch_size()
{
	while :; do
		printf '%s %s %s\n' "$EPOCHSECONDS" "$(compare_disk_bytes "queue_$1" queue)" \
			"$(compare_index_bytes "queue_$1" queue)"
		compare_watching "$2" || return 0
	done
}

# median_of COLUMN FIRST LAST: of the intervals from FIRST to LAST.
median_of()
{
	bench_median $(awk -v c="$1" -v a="$2" -v b="$3" '$1 >= a && $1 <= b { print $c }' "$BENCH_ROOT/intervals")
}

# largest_of FIRST LAST: kB of table and indexes in intervals from FIRST to LAST.
largest_of()
{
	awk -v a="$1" -v b="$2" -v len="$interval" '
		NR == 1 { start = $1 }
		{ i = int(($1 - start) / len) }
		i >= a && i <= b && $2 + $3 > most { most = $2 + $3 }
		END { printf "%.0f\n", most / 1024 }' "$BENCH_ROOT/size.out"
}

# print_intervals: latencies, and the largest size of each.
print_intervals()
{
	local i count rest

	printf '%10s %10s %10s %10s %10s %10s %12s\n' "from s" "entries/s" "median ms" "99 %" "99.9 %" longest "largest kB"
	while read -r i count rest; do
		printf '%10d %10.0f %10.3f %10.3f %10.3f %10.1f %12d\n' $((i * interval)) \
			"$(bench_calc %.0f "$count / $interval")" $rest "$(largest_of "$i" "$i")"
	done <"$BENCH_ROOT/intervals"
}

# measure SIDE SECONDS
measure()
{
	local side=$1 am limits=() watch third=$((intervals / 3)) name column

	am=$(compare_am "$side")
	interval=$((($2 + intervals - 1) / intervals))
	bench_section "queue of $rows entries, $clients clients, $((interval * intervals)) s: $am"
	make_queue "$side"
	bench_sql postgres CHECKPOINT
	if [ "$rate" != 0 ]; then
		limits=(-R "$rate")
	fi
	queue_script >"$BENCH_ROOT/queue.pgbench"
	rm -f "$BENCH_ROOT"/latency.*
	watch_size "$side" "$(bench_calc %.2f "$interval / 5")" >"$BENCH_ROOT/size.out" 2>"$BENCH_ROOT/size.err" &
	watch=$!
	bench_remember_job "$watch"
	"$PGBIN/pgbench" -n -M prepared -c "$clients" -j 2 -T $((interval * intervals)) ${limits[@]+"${limits[@]}"} \
		-l --log-prefix="$BENCH_ROOT/latency" -f "$BENCH_ROOT/queue.pgbench" "queue_$side" \
		>"$BENCH_ROOT/run.out" 2>"$BENCH_ROOT/run.err" ||
		bench_fail "pgbench ended with an error on $am: $(sed -n 1,3p "$BENCH_ROOT/run.err")"
	compare_stop_watching "$watch"
	if [ -s "$BENCH_ROOT/size.err" ]; then
		bench_fail "the size was looked at: $(sed -n 1,3p "$BENCH_ROOT/size.err")"
	fi

	# What was begun in the last interval ends a little later.
	compare_latencies "$interval" "$BENCH_ROOT"/latency.* | awk -v n="$intervals" '$1 < n' >"$BENCH_ROOT/intervals"
	print_intervals
	compare_record "entries a second" "$side" 1 "$(bench_pgbench_tps "$BENCH_ROOT/run.out")"
	column=3
	for name in "median" "99 %" "99.9 %"; do
		compare_record "$name, first third" "$side" 1 "$(median_of $column 1 $((third - 1)))"
		compare_record "$name, last third" "$side" 1 "$(median_of $column $((intervals - third)) $((intervals - 1)))"
		column=$((column + 1))
	done
	compare_record "longest" "$side" 1 "$(cut -d ' ' -f 6 "$BENCH_ROOT/intervals" | sort -g | sed -n '$p')"
	compare_record "largest, first half" "$side" 1 "$(largest_of 0 $((intervals / 2 - 1)))"
	compare_record "largest, second half" "$side" 1 "$(largest_of $((intervals / 2)) $((intervals - 1)))"
	bench_expect "queue_$side" "the queue has as many entries as at first on $am" "$rows" "SELECT count(*) FROM queue"
}

# judge_flat WHAT FIRST LAST UNIT LIMIT
judge_flat()
{
	local side growth

	compare_judge "$2" "$4" told -
	compare_judge "$3" "$4" told -
	for side in heap test; do
		growth=$(bench_calc %.3f "$(compare_median "$3" "$side") / $(compare_median "$2" "$side")")
		if [ "$side" = test ]; then
			compare_verdict "growth of $1: $AM" "$growth" most "$5"
		else
			bench_say "      growth of $1: heap = $growth"
		fi
	done
}

bench_start
bench_say "entries a second at most: $rate (0: no limit)"
compare_make_databases queue
measure heap "$heap_seconds"
bench_sql queue_heap "DROP TABLE queue"		# no autovacuum of it in the other's time
measure test "$seconds"

bench_section "soundness"
if [ "$AM" = lsm ]; then
	bench_expect queue_test "lsm_check is empty" "" "SELECT p FROM lsm_check('queue') p LIMIT 10"
fi
bench_expect queue_test "bt_index_check(heapallindexed)" "" "SELECT bt_index_check('queue_pkey', true)"

bench_section "flat or not"
compare_judge "entries a second" 1/s told -
judge_flat "the median" "median, first third" "median, last third" ms "$latency_flat"
judge_flat "the 99 percentile" "99 %, first third" "99 %, last third" ms "$latency_flat"
judge_flat "the 99.9 percentile" "99.9 %, first third" "99.9 %, last third" ms "$tail_flat"
compare_judge "longest" ms told -
judge_flat "the size" "largest, first half" "largest, second half" kB "$size_flat"
compare_print_results
bench_finish
