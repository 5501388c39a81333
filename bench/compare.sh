# compare.sh
#	  What the scripts share that hold lsm against heap: figures of rounds,
#	  floors, work in the background, waiting for it to end.
#
# Sourced after lib.sh.  A figure has two sides, "heap" and "test": the access
# method under test.  Each side has a database of its own in one cluster, named
# PREFIX_heap and PREFIX_test.
#
# ENVIRONMENT
#	  SETTLE_QUIET	seconds without work in the background that count as settled
#					(75; autovacuum looks at each database once in 60)
#	  SETTLE_LIMIT	seconds to wait for that; then it is a failed check (3600)

settle_quiet=${SETTLE_QUIET:-75}
settle_limit=${SETTLE_LIMIT:-3600}

compare_results=	# lines of the closing table

# Figures by name, side and round, separated by spaces.
declare -A figures heap_first heap_last

#
# Rounds and sides
#

# compare_sides ROUND: the order of the two in this round.
compare_sides()
{
	if [ $(($1 % 2)) = 1 ]; then
		echo heap test
	else
		echo test heap
	fi
}

# compare_am SIDE: its access method.
compare_am()
{
	if [ "$1" = heap ]; then
		echo heap
	else
		echo "$AM"
	fi
}

# compare_is_lsm SIDE
compare_is_lsm()
{
	[ "$1" = test ] && [ "$AM" = lsm ]
}

# compare_with_am SIDE COMMAND...: tables that it makes get the side's access
# method.
compare_with_am()
{
	local am

	am=$(compare_am "$1")
	shift
	PGOPTIONS="-c default_table_access_method=$am" "$@"
}

# compare_make_databases PREFIX
compare_make_databases()
{
	bench_create_database "$1_heap"
	bench_create_database "$1_test"
}

#
# Figures
#

# compare_record NAME SIDE ROUND VALUE
compare_record()
{
	figures[$1,$2]+=" $4"
	if [ "$2" = heap ]; then
		if [ $(($3 % 2)) = 1 ]; then
			heap_first[$1]+=" $4"
		else
			heap_last[$1]+=" $4"
		fi
	fi
	printf '      round %d  %-5s %-32s %12.6g\n' "$3" "$(compare_am "$2")" "$1" "$4"
}

# compare_median NAME SIDE
compare_median()
{
	bench_median ${figures[$1,$2]}
}

# compare_geometric_mean RATIO...
compare_geometric_mean()
{
	printf '%s\n' "$@" | awk '$1 > 0 { s += log($1); n++ } END { printf "%.3f", n ? exp(s / n) : 0 }'
}

# compare_verdict WHAT VALUE KIND LIMIT: KIND is "least" or "most".
compare_verdict()
{
	local rule

	case $3 in
		least) rule="$2 >= $4" ;;
		most) rule="$2 <= $4" ;;
	esac
	if awk "BEGIN { exit !($rule) }"; then
		bench_pass "$1 = $2, required: at $3 $4"
	else
		bench_fail "$1 = $2, required: at $3 $4"
	fi
}

# compare_judge NAME UNIT KIND LIMIT: lsm over heap; KIND is "least" or "most",
# or "told" for a figure without a floor.
compare_judge()
{
	local name=$1 heap test ratio control=- rule

	heap=$(compare_median "$name" heap)
	test=$(compare_median "$name" test)
	ratio=$(bench_calc %.3f "$heap ? $test / $heap : 0")
	if [ -n "${heap_last[$name]:-}" ]; then
		control=$(bench_calc %.2f "$(bench_median ${heap_last[$name]}) / $(bench_median ${heap_first[$name]})")
	fi
	case $3 in
		told) rule=- ;;
		*) rule="at $3 $4" ;;
	esac
	compare_results+=$(printf '%-34s %-9s %10.6g %10.6g %7s  %-13s %7s   %s  %s' "$name" "$2" "$heap" "$test" \
		"$ratio" "$rule" "$control" "$(bench_spread ${figures[$name,heap]})" \
		"$(bench_spread ${figures[$name,test]})")$'\n'
	if [ "$3" != told ]; then
		compare_verdict "$name: $AM / heap" "$ratio" "$3" "$4"
	fi
}

compare_print_results()
{
	bench_section "$AM beside heap: medians"
	printf '%-34s %-9s %10s %10s %7s  %-13s %7s   %s\n' figure unit heap "$AM" ratio required control "spread of heap, of $AM"
	printf '%s' "$compare_results"
}

#
# Work in the background
#

# compare_in_background SECONDS DATABASE SQL: again and again, until
# compare_stop_background.
compare_in_background()
{
	local interval=$1 db=$2 sql=$3

	(
		nap=
		trap '[ -z "$nap" ] || kill "$nap"; exit 0' TERM
		while :; do
			sleep "$interval" &
			nap=$!
			wait "$nap"
			nap=
			bench_sql "$db" "$sql" >>"$BENCH_ROOT/background.out"
		done
	) 2>>"$BENCH_ROOT/background.err" &
	background_pid=$!
	bench_remember_job "$background_pid"
}

# Lets a statement that runs end first.  What the statements gave is in
# background.out until the next compare_in_background.
compare_stop_background()
{
	kill "$background_pid" 2>/dev/null || true
	wait "$background_pid" || true
	bench_forget_job "$background_pid"
	if [ -s "$BENCH_ROOT/background.err" ]; then
		bench_fail "background statements: $(sed -n 1,3p "$BENCH_ROOT/background.err")"
		: >"$BENCH_ROOT/background.err"
	fi
}

# compare_has_stats DATABASE: is there a view lsm_stat_tables?
compare_has_stats()
{
	[ "$(bench_sql "$1" "SELECT to_regclass('lsm_stat_tables') IS NOT NULL")" = t ]
}

# compare_work DATABASE: what is at work now, and what has been done so far.  Two
# equal answers that begin with 0, and all those between them: nothing is going on.
compare_work()
{
	local jobs="0"

	if compare_has_stats "$1"; then
		jobs="(SELECT coalesce(sum(flushes + minor_compactions + major_compactions), 0) FROM lsm_stat_tables)"
	fi
	bench_sql "$1" "
		SELECT (SELECT count(*) FROM pg_stat_activity
				WHERE backend_type IN ('lsm worker', 'autovacuum worker')), $jobs"
}

# compare_settle DATABASE...: waits until neither autovacuum nor lsm's workers
# have done anything for a while.  Calls nothing that would do their work.
compare_settle()
{
	local db work last='' quiet_since=$SECONDS start=$SECONDS

	while [ $((SECONDS - quiet_since)) -lt "$settle_quiet" ]; do
		if [ $((SECONDS - start)) -ge "$settle_limit" ]; then
			bench_fail "the background came to rest within $settle_limit s"
			return 0
		fi
		work=
		for db in "$@"; do
			work+="$(compare_work "$db") "
		done
		if [ "${work%%|*}" != 0 ] || [ "$work" != "$last" ]; then
			quiet_since=$SECONDS
		fi
		last=$work
		sleep 0.5
	done
	bench_say "      the background was at rest after $((quiet_since - start)) s"
}

#
# Space
#

# compare_disk_bytes DATABASE TABLE: what the table's file and its maps take on
# disk; holes do not count, nor do indexes.
compare_disk_bytes()
{
	local path

	path=$(bench_sql "$1" "SELECT pg_relation_filepath('$2')")
	find "$BENCH_ROOT/data/${path%/*}" -maxdepth 1 -regex ".*/${path##*/}\(_[a-z]+\)?\(\.[0-9]+\)?" \
		-printf '%b\n' | awk '{ n += $1 } END { printf "%.0f\n", n * 512 }'
}

# compare_index_bytes DATABASE TABLE
compare_index_bytes()
{
	bench_sql "$1" "SELECT pg_indexes_size('$2')"
}

#
# Latencies: from the logs of pgbench -l, whose third field is the time that the
# transaction took, in microseconds, and whose fifth and sixth are when it ended.
#

# compare_latencies SECONDS FILE...: a line for each interval: its number from 0
# on, transactions, and in ms the median, the 99 and 99.9 percentiles and the
# longest.  Percentiles are exact to 1 %.
compare_latencies()
{
	local interval=$1
	shift

	# The first line of each file is its earliest, or nearly.
	awk -v interval="$interval" '
		function at(i, part,		b, n)
		{
			for (b = 0; b <= top; b++)
			{
				n += h[i, b]
				if (n >= part * count[i])
					break
			}
			return exp(b / 50) / 1000
		}
		FNR == 1 { if (!start || $5 < start) start = $5 }
		{
			i = int(($5 - start) / interval)
			if (i < 0)
				i = 0
			if (i > last)
				last = i
			b = int(log($3 + 1) * 50 + 0.5)
			if (b > top)
				top = b
			h[i, b]++
			count[i]++
			if ($3 > longest[i])
				longest[i] = $3
		}
		END {
			for (i = 0; i <= last; i++)
				printf "%d %d %.3f %.3f %.3f %.3f\n", i, count[i], at(i, 0.5), at(i, 0.99), at(i, 0.999), longest[i] / 1000
		}' "$@"
}

#
# Watching beside a run
#
# A watcher is a background process that goes on until it is told to stop by a
# file: bash may run a trap in the middle of a command substitution, and then
# complains about its syntax.
#

# compare_watching SECONDS: sleeps so long; fails when it is time to stop.
compare_watching()
{
	local until

	until=$(bench_calc %.0f "($EPOCHREALTIME + $1) * 1000")
	while [ ! -e "$BENCH_ROOT/watch.stop" ]; do
		if [ "$(bench_calc %.0f "$EPOCHREALTIME * 1000")" -ge "$until" ]; then
			return 0
		fi
		sleep "$(bench_calc %.2f "$1 < 0.5 ? $1 : 0.5")"
	done
	return 1
}

# compare_stop_watching PID
compare_stop_watching()
{
	touch "$BENCH_ROOT/watch.stop"
	wait "$1" || true
	bench_forget_job "$1"
	rm -f "$BENCH_ROOT/watch.stop"
}
