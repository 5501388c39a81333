# crash.sh
#	  A pgbench load with maintenance beside it, a crash, and the proof after it.
#
# Sourced by tpcb.sh and mixed.sh.  The script that sources it defines
#
#	  crash_tables			the tables, separated by spaces
#	  crash_consistent_sql	one statement, true if one snapshot is consistent
#	  crash_count_sql		number of transactions the tables tell of
#	  crash_verify			a function: checks when nobody writes
#
# While the load runs, one connection flushes, minor- and major-compacts all
# tables in a loop, and another asks crash_consistent_sql again and again.
# The server is stopped with "-m immediate" twice: once after the load has
# ended, where every transaction that pgbench counted must be there and no
# other, and once in the middle of it, where each client may have one
# transaction that is committed but was never reported.

# crash_maintain_script: the loop's body, each statement a transaction.
crash_maintain_script()
{
	local table job

	for table in $crash_tables; do
		if [ "$AM" = lsm ]; then
			for job in flush minor_compact major_compact; do
				printf "SELECT * FROM lsm_%s('%s');\n" "$job" "$table"
			done
		else
			printf 'VACUUM %s;\n' "$table"
		fi
	done >"$BENCH_ROOT/maintain.pgbench"
}

# crash_watch_snapshots DATABASE: runs until told to stop by a file; its
# report is the number of looks and the number of bad ones.
crash_watch_snapshots()
{
	local looks=0 bad=0 answer

	while [ ! -e "$BENCH_ROOT/stop-watching" ]; do
		answer=$(bench_sql "$1" "$crash_consistent_sql" 2>&1) || true
		looks=$((looks + 1))
		if [ "$answer" != t ]; then
			bad=$((bad + 1))
			printf '%s\n' "$answer" >>"$BENCH_ROOT/watch.err"
		fi
		sleep 1
	done
	printf '%d %d\n' "$looks" "$bad" >"$BENCH_ROOT/watch.out"
}

# crash_spawn NAME COMMAND...: a background job with its output in files; its
# pid is left in crash_pid.
crash_spawn()
{
	local name=$1
	shift
	"$@" >"$BENCH_ROOT/$name.out" 2>"$BENCH_ROOT/$name.err" &
	crash_pid=$!
	bench_remember_job "$crash_pid"
}

# crash_wait PID: leaves the exit status in crash_status.
crash_wait()
{
	crash_status=0
	wait "$1" || crash_status=$?
	bench_forget_job "$1"
}

# crash_restart: stop without a checkpoint, start, prove that redo was needed.
crash_restart()
{
	local before after

	before=$(grep -c 'redo starts at' "$BENCH_ROOT/server.log" || true)
	bench_server_start
	after=$(grep -c 'redo starts at' "$BENCH_ROOT/server.log" || true)
	bench_check "the restart replayed WAL" $((before + 1)) "$after"
}

crash_show_segments()
{
	local table

	for table in $crash_tables; do
		"$PGBIN/psql" -X -q -v ON_ERROR_STOP=1 -d "$1" -P footer=off -c "
			SELECT '$table' AS \"table\", level, kind, count(*) AS segments,
				   sum(rows) AS rows, sum(versions) AS versions,
				   sum(stored_bytes) AS stored_bytes
			FROM lsm_segments('$table') GROUP BY level, kind ORDER BY level, kind"
	done
}

# crash_quiet_load DATABASE CLIENTS SECONDS [pgbench arguments]
crash_quiet_load()
{
	local db=$1 clients=$2 seconds=$3 limit load maintain watch before looks bad
	shift 3

	# A load that hangs is a failed check (status 124), not a script that hangs.
	limit=$((seconds * 2 + 300))

	bench_section "load: $clients clients, $seconds s, maintenance in a loop beside it"
	before=$(bench_sql "$db" "$crash_count_sql")
	crash_maintain_script
	rm -f "$BENCH_ROOT/stop-watching"
	crash_spawn load timeout "$limit" "$PGBIN/pgbench" -n -c "$clients" -j 2 \
		-T "$seconds" "$@" "$db"
	load=$crash_pid
	crash_spawn maintain timeout "$limit" "$PGBIN/pgbench" -n -r -c 1 -T "$seconds" \
		-f "$BENCH_ROOT/maintain.pgbench" "$db"
	maintain=$crash_pid
	crash_spawn watcher crash_watch_snapshots "$db"
	watch=$crash_pid

	crash_wait "$load"
	bench_check "the load ran without an error" 0 "$crash_status"
	[ "$crash_status" = 0 ] || sed -n 1,10p "$BENCH_ROOT/load.err"
	crash_wait "$maintain"
	bench_check "the maintenance ran without an error" 0 "$crash_status"
	[ "$crash_status" = 0 ] || sed -n 1,10p "$BENCH_ROOT/maintain.err"
	touch "$BENCH_ROOT/stop-watching"
	crash_wait "$watch"
	read -r looks bad <"$BENCH_ROOT/watch.out"
	bench_check "$looks snapshots taken during the load were consistent" 0 "$bad"
	[ "$bad" = 0 ] || sed -n 1,5p "$BENCH_ROOT/watch.err"

	crash_count=$(bench_pgbench_count "$BENCH_ROOT/load.out")
	bench_say "      $crash_count transactions, $(bench_pgbench_tps "$BENCH_ROOT/load.out") tps," \
		"$(bench_pgbench_count "$BENCH_ROOT/maintain.out") rounds of maintenance over: $crash_tables"
	sed -n '/^statement latencies/,$p' "$BENCH_ROOT/maintain.out" | sed 's/^/      /'

	bench_server_stop immediate
	crash_restart
	bench_expect "$db" "every transaction is there after the crash, and no other" \
		$((before + crash_count)) "$crash_count_sql"
}

# crash_broken_load DATABASE CLIENTS SECONDS [pgbench arguments]
crash_broken_load()
{
	local db=$1 clients=$2 seconds=$3 load maintain before after reported
	shift 3

	bench_section "load killed in full flight after $seconds s"
	before=$(bench_sql "$db" "$crash_count_sql")
	crash_spawn load "$PGBIN/pgbench" -n -c "$clients" -j 2 -T 3600 "$@" "$db"
	load=$crash_pid
	crash_spawn maintain "$PGBIN/pgbench" -n -c 1 -T 3600 \
		-f "$BENCH_ROOT/maintain.pgbench" "$db"
	maintain=$crash_pid
	sleep "$seconds"
	if kill -0 "$load" 2>/dev/null && kill -0 "$maintain" 2>/dev/null; then
		bench_pass "load and maintenance were running when the server was stopped"
	else
		bench_fail "load or maintenance had ended before the server was stopped"
		sed -n 1,10p "$BENCH_ROOT/load.err" "$BENCH_ROOT/maintain.err"
	fi
	bench_server_stop immediate
	crash_wait "$load"
	crash_wait "$maintain"
	crash_restart
	reported=$(bench_pgbench_count "$BENCH_ROOT/load.out")
	reported=${reported:-0}
	if ! after=$(bench_sql "$db" "$crash_count_sql" 2>&1); then
		bench_fail "counting after the crash: $after"
	elif [ $((after - before)) -ge "$reported" ] &&
		[ $((after - before)) -le $((reported + clients)) ]; then
		bench_pass "$reported transactions were reported, $((after - before)) are there (at most $clients more)"
	else
		bench_fail "$reported transactions were reported, $((after - before)) are there"
	fi
}

# crash_final_maintenance DATABASE: what is left after a crash can be worked on.
crash_final_maintenance()
{
	local table job

	bench_section "flush, minor and major compaction after the crash"
	for table in $crash_tables; do
		for job in flush minor_compact major_compact; do
			if ! bench_lsm "$1" "$job" "$table" >"$BENCH_ROOT/job.out" 2>&1; then
				bench_fail "lsm_$job('$table'): $(sed -n 1,3p "$BENCH_ROOT/job.out")"
			fi
		done
	done
}

# crash_run DATABASE CLIENTS SECONDS [pgbench arguments]: all of it.
crash_run()
{
	local db=$1 clients=$2 seconds=$3 killed_after
	shift 3

	crash_quiet_load "$db" "$clients" "$seconds" "$@"
	crash_verify
	bench_verify "$db"

	killed_after=$((seconds / 4))
	[ "$killed_after" -ge 3 ] || killed_after=3
	crash_broken_load "$db" "$clients" "$killed_after" "$@"
	crash_verify
	bench_verify "$db"

	if [ "$AM" = lsm ]; then
		crash_final_maintenance "$db"
		crash_verify
		bench_verify "$db"
		crash_show_segments "$db"
	fi
}
