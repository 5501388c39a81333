#!/bin/bash
#
# insert_load.sh [SECONDS [CLIENTS [BATCH]]]		(1800, 4, 10)
#	  Inserts at full speed, heap first, then the other: rate, longest pause,
#	  99.9 percentile, and the number of segments by level over the time, with a
#	  plot of all that.
#
# Each transaction is one INSERT of BATCH rows of about 100 bytes into a table with
# a primary key that goes up and an index whose keys come in any order.  A pause is
# the time that one transaction took; and a second in which none of the clients
# committed anything is counted as one without commits.  Nothing is flushed or
# compacted by a call.
#
# Environment: see lib.sh and compare.sh, and
#	  HEAP_SECONDS	length of heap's run (as the other)
#	  RATE			transactions a second, the same on both sides (0: as many as go)
#	  MIN_FREE		MB that are left free on the disk: the load ends early (4096)
#	  RESULTS		where plot, its figures and the settings go (bench/results)
#	  NAME			how these files begin (insert_load)
#	  RATE_FLOOR	rows a second, over heap's (0.7)
#	  PAUSE_LIMIT	most ms that a transaction may take (1000)

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"

seconds=${1:-1800}
clients=${2:-4}
batch=${3:-10}
heap_seconds=${HEAP_SECONDS:-$seconds}
rate=${RATE:-0}
min_free=${MIN_FREE:-4096}
rate_floor=${RATE_FLOOR:-0.7}
pause_limit=${PAUSE_LIMIT:-1000}
mkdir -p "${RESULTS:-$BENCH_SRC/results}"
results=$(realpath "${RESULTS:-$BENCH_SRC/results}")
name=${NAME:-insert_load}

# How often segments are counted, and the length of an interval of the plot.
sample=$(((seconds + 359) / 360))

make_table()
{
	bench_sql "load_$1" "
		CREATE TABLE load (
			id		bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			at		timestamptz NOT NULL DEFAULT clock_timestamp(),
			device	integer NOT NULL,
			value	double precision NOT NULL,
			note	text NOT NULL
		) USING $(compare_am "$1");
		CREATE INDEX ON load (device);"
}

load_script()
{
	printf 'INSERT INTO load (device, value, note) SELECT (random() * 1e6)::integer, random(), md5(random()::text) || %s FROM generate_series(1, %d);\n' \
		"' and what was to be told of it'" "$batch"
}

# watch_segments SIDE: until it is told to stop, lines of time, what, number.  What heap has in
# the place of segments is its size alone.
watch_segments()
{
	local start=$EPOCHREALTIME

	while :; do
		printf '%.1f size %.0f\n' "$(bench_calc %.1f "$EPOCHREALTIME - $start")" "$(compare_disk_bytes "load_$1" load)"
		if compare_is_lsm "$1"; then
			bench_psql load_test -F ' ' -c "
				SELECT $(bench_calc %.1f "$EPOCHREALTIME - $start"), 'level_' || level || '_' || kind, count(*)
				FROM lsm_segments('load') GROUP BY level, kind"
		fi
		compare_watching "$sample" || return 0
	done
}

# Ends the load PID when the disk is nearly full.
watch_disk()
{
	trap 'exit 0' TERM
	while kill -0 "$1" 2>/dev/null; do
		if [ "$(df --output=avail -m "$BENCH_ROOT" | sed -n '$p')" -lt "$min_free" ]; then
			touch "$BENCH_ROOT/disk-full"
			kill -INT "$1"
			return 0
		fi
		sleep 2
	done
}

# measure SIDE SECONDS
measure()
{
	local side=$1 am limits=() segments disk load rows count overall

	am=$(compare_am "$side")
	bench_section "inserts of $batch rows, $clients clients, $2 s: $am"
	make_table "$side"
	load_script >"$BENCH_ROOT/load.pgbench"
	bench_sql postgres CHECKPOINT
	if [ "$rate" != 0 ]; then
		limits=(-R "$rate")
	fi
	rm -f "$BENCH_ROOT"/latency.*
	watch_segments "$side" >"$BENCH_ROOT/segments.$side" 2>"$BENCH_ROOT/segments.err" &
	segments=$!
	bench_remember_job "$segments"
	"$PGBIN/pgbench" -n -M prepared -c "$clients" -j 2 -T "$2" ${limits[@]+"${limits[@]}"} \
		-l --log-prefix="$BENCH_ROOT/latency" -f "$BENCH_ROOT/load.pgbench" "load_$side" \
		>"$BENCH_ROOT/run.out" 2>"$BENCH_ROOT/run.err" &
	load=$!
	bench_remember_job "$load"
	watch_disk "$load" &
	disk=$!
	bench_remember_job "$disk"
	if ! wait "$load"; then
		if [ -e "$BENCH_ROOT/disk-full" ]; then
			bench_say "      ended early: less than $min_free MB are free"
			rm "$BENCH_ROOT/disk-full"
		else
			bench_fail "pgbench ended with an error on $am: $(sed -n 1,3p "$BENCH_ROOT/run.err")"
		fi
	fi
	bench_forget_job "$load"
	kill "$disk" 2>/dev/null || true
	wait "$disk" || true
	bench_forget_job "$disk"
	compare_stop_watching "$segments"
	if [ -s "$BENCH_ROOT/segments.err" ]; then
		bench_fail "segments were counted: $(sed -n 1,3p "$BENCH_ROOT/segments.err")"
	fi

	compare_latencies "$sample" "$BENCH_ROOT"/latency.* >"$BENCH_ROOT/intervals.$side"
	compare_latencies 1 "$BENCH_ROOT"/latency.* >"$BENCH_ROOT/seconds.$side"
	overall=$(compare_latencies 1000000000 "$BENCH_ROOT"/latency.*)
	count=$(cut -d ' ' -f 2 <<<"$overall")
	rows=$((count * batch))
	compare_record "rows a second" "$side" 1 "$(bench_calc %.0f "$rows / ($(wc -l <"$BENCH_ROOT/seconds.$side"))")"
	compare_record "median" "$side" 1 "$(cut -d ' ' -f 3 <<<"$overall")"
	compare_record "99 %" "$side" 1 "$(cut -d ' ' -f 4 <<<"$overall")"
	compare_record "99.9 %" "$side" 1 "$(cut -d ' ' -f 5 <<<"$overall")"
	compare_record "longest pause" "$side" 1 "$(cut -d ' ' -f 6 <<<"$overall")"
	compare_record "seconds without commits" "$side" 1 "$(awk '$2 == 0' "$BENCH_ROOT/seconds.$side" | wc -l)"
	compare_record "slowest tenth of seconds" "$side" 1 "$(sort -n -k 2,2 "$BENCH_ROOT/seconds.$side" |
		awk -v batch="$batch" '{ v[NR] = $2 } END { print v[int(NR / 10) + 1] * batch }')"
	compare_record "size on disk" "$side" 1 "$(bench_calc %.1f "$(compare_disk_bytes "load_$side" load) / 1048576")"
	compare_settle "load_$side"
	compare_record "size on disk, at rest" "$side" 1 "$(bench_calc %.1f "$(compare_disk_bytes "load_$side" load) / 1048576")"
	# One that was cut off may have inserted what was never reported.
	bench_expect "load_$side" "all rows that were reported are there on $am" t "
		SELECT count(*) BETWEEN $rows AND $rows + $((clients * batch)) FROM load"
	if [ "$side" = test ] && [ "$AM" = lsm ]; then
		bench_sql load_test "
			SELECT '      at rest: ' || count(*) || ' segments of level ' || level || ', ' || kind
			FROM lsm_segments('load') GROUP BY level, kind ORDER BY level, kind"
	fi
	if [ "$side" = heap ]; then
		bench_sql load_heap "DROP TABLE load"
	fi
}

# write_figures: one table of all series, from which the plot can be made again.
write_figures()
{
	local side

	printf 'side,seconds,series,value\n'
	for side in heap test; do
		awk -v side="$(compare_am "$side")" -v len="$sample" -v batch="$batch" '
			FILENAME ~ /intervals/ && $1 < last_whole {
				printf "%s,%d,rows_per_second,%.0f\n", side, $1 * len, $2 * batch / len
				printf "%s,%d,median_ms,%s\n", side, $1 * len, $3
				printf "%s,%d,p999_ms,%s\n", side, $1 * len, $5
				printf "%s,%d,longest_ms,%s\n", side, $1 * len, $6
			}
			FILENAME ~ /segments/ { printf "%s,%s,%s,%s\n", side, $1, $2, $3 }' \
			last_whole="$(($(wc -l <"$BENCH_ROOT/seconds.$side") / sample))" \
			"$BENCH_ROOT/intervals.$side" "$BENCH_ROOT/segments.$side"
	done
}

make_plot()
{
	local settings python="$BENCH_CACHE/venv/bin/python"

	settings=$(bench_header)			# before its own files count as changes
	write_figures >"$results/$name.csv"
	{
		bench_say "$settings"
		bench_say "load:     $clients clients, INSERT of $batch rows, heap $heap_seconds s, $AM $seconds s," \
			"at most $rate transactions a second (0: no limit)"
		compare_print_results
	} >"$results/$name.txt"
	if bench_python_install matplotlib "$python" -c 'import matplotlib'; then
		"$python" "$BENCH_SRC/insert_load_plot.py" "$results/$name.csv" "$results/$name.png"
		bench_check "the plot was made" yes "$([ -s "$results/$name.png" ] && echo yes || echo no)"
		bench_say "      $results/$name.png"
	else
		bench_say "SKIP  plot: matplotlib could not be installed; its figures are in $results/$name.csv"
	fi
}

bench_start
bench_say "transactions a second at most: $rate (0: no limit)"
compare_make_databases load
measure heap "$heap_seconds"
measure test "$seconds"

bench_section "soundness"
if [ "$AM" = lsm ]; then
	bench_expect load_test "lsm_check is empty" "" "SELECT p FROM lsm_check('load') p LIMIT 10"
fi

bench_section "floors"
compare_judge "rows a second" rows/s least "$rate_floor"
compare_judge "slowest tenth of seconds" rows/s told -
for figure in "median" "99 %" "99.9 %" "longest pause"; do
	compare_judge "$figure" ms told -
done
compare_judge "seconds without commits" seconds told -
compare_judge "size on disk" MB told -
compare_judge "size on disk, at rest" MB told -
compare_verdict "longest pause in ms: $AM" "$(compare_median "longest pause" test)" most "$pause_limit"
compare_print_results
bench_section "plot"
make_plot
bench_finish
