#!/bin/bash
#
# tpcb_large.sh [MEMORY [SECONDS [ROUNDS [CLIENTS]]]]		(512, 120, 3, 4)
#	  TPC-B beside heap, once where everything is cached, once where heap's accounts
#	  take ten times the memory (MB) that the server has, and once more on a disk
#	  that does no more than so many reads a second.
#
# Where everything is cached it is also run on both sides at the same time, which share
# processors and disk: what a busy neighbour takes from one run in turn and not from the
# other is taken from both.  A side that needs more of the processor for a transaction gets
# fewer done.  Each has a server of its own, with the same settings: in one WAL each would
# wait for what the other writes, and write it.  Once more so that each side has a processor for
# itself, with its background and its clients, and they change places every second: a processor that
# is slower, or serves the disk's interrupts, is so for both, and none takes time from the other.
#
# In the second part the server runs in a memory cgroup, so that shared buffers,
# page cache and processes together have no more than MEMORY; the tables are
# filled there, so that none of their pages is cached elsewhere.  A quarter of it
# is shared_buffers, and as much is what lsm may have for blocks, sessions and the
# memtable.  Root may do that with cgroup v1, or with v2 under systemd; where it is
# not possible the part says SKIP.  What the device reads for a transaction is counted,
# and bounded in the third part, with cgroup v1 only.
#
# Environment: see lib.sh and compare.sh, and
#	  PARTS			which parts to run (cached together large disk); disk means large,
#					too; pinned: a processor for each side
#	  CACHED_SCALE	scale of the first part (20)
#	  LARGE_SCALE	scale of the others (what makes 10 times the memory)
#	  FILLER		accounts' filler: "blank", as pgbench fills it, or "random",
#					which does not compress to nothing (blank)
#	  DISK_READS	reads a second in the third part (3000)
#	  CACHED_FLOOR, LARGE_FLOOR		(1.0, 1.5)

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"
. "$BENCH_SRC/cgroup.sh"

memory=${1:-512}
seconds=${2:-120}
rounds=${3:-3}
clients=${4:-4}
parts=" ${PARTS:-cached together large disk} "
cached_scale=${CACHED_SCALE:-20}
large_scale=${LARGE_SCALE:-$(((memory * 10 * 10 + 127) / 128))}		# 12.8 MB of accounts for each
filler=${FILLER:-blank}
cached_floor=${CACHED_FLOOR:-1.0}
large_floor=${LARGE_FLOOR:-1.5}
disk_reads=${DISK_READS:-3000}

cgroup_why=			# why there is none
server_runas=()		# BENCH_RUNAS outside of the cgroup

wanted()
{
	case $parts in *" $1 "*) return 0 ;; esac
	return 1
}

#
# The memory cgroup
#

# enter_cgroup: from here on BENCH_RUNAS starts what it starts with bounded
# memory.  False, with the reason in cgroup_why, where that cannot be.
enter_cgroup()
{
	server_runas=("${BENCH_RUNAS[@]}")
	if blkio_enter "$memory"; then
		return 0
	elif [ "$(id -u)" != 0 ]; then
		cgroup_why="only root can bound the server's memory"
		return 1
	elif [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
		BENCH_RUNAS=(systemd-run --scope --quiet --collect -p "MemoryMax=${memory}M" -p MemorySwapMax=0 --
			"${server_runas[@]}")
		if ! "${BENCH_RUNAS[@]}" true 2>"$BENCH_ROOT/cgroup.err"; then
			BENCH_RUNAS=("${server_runas[@]}")
			cgroup_why="systemd-run: $(sed -n 1p "$BENCH_ROOT/cgroup.err")"
			return 1
		fi
	else
		cgroup_why="neither cgroups of version 1 ($blkio_why) nor systemd"
		return 1
	fi
}

# tell_memory: that the bound holds, by what the kernel counted.
tell_memory()
{
	local pid dir most

	pid=$(sed -n 1p "$BENCH_ROOT/data/postmaster.pid")
	if [ -n "$blkio" ]; then
		most=$(cat "$blkio_memory/memory.max_usage_in_bytes")
		bench_check "the server is in the cgroup" 1 "$(grep -cx "$pid" "$blkio_memory/cgroup.procs")"
	else
		dir=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup")
		bench_check "the server is in the cgroup" $((memory * 1048576)) "$(cat "$dir/memory.max")"
		most=$(cat "$dir/memory.peak" 2>/dev/null || cat "$dir/memory.current")
	fi
	compare_verdict "MB that the server and its page cache took" "$(bench_calc %.0f "$most / 1048576")" most "$memory"
}

#
# TPC-B
#

# make_tables PREFIX SCALE
make_tables()
{
	local side value="''"

	[ "$filler" = blank ] || value="md5(i::text) || md5((-i)::text)"
	compare_make_databases "$1"
	for side in heap test; do
		# as pgbench -i -I dtGvp, but for the filler
		compare_with_am "$side" "$PGBIN/pgbench" -i -q -I dt "$1_$side" >"$BENCH_ROOT/init.out" 2>&1
		bench_sql "$1_$side" "
			INSERT INTO pgbench_branches (bid, bbalance) SELECT i, 0 FROM generate_series(1, $2) i;
			INSERT INTO pgbench_tellers (tid, bid, tbalance)
				SELECT i, (i - 1) / 10 + 1, 0 FROM generate_series(1, 10 * $2) i;
			INSERT INTO pgbench_accounts (aid, bid, abalance, filler)
				SELECT i, (i - 1) / 100000 + 1, 0, $value FROM generate_series(1, 100000 * $2::bigint) i;
			CHECKPOINT;"
		"$PGBIN/pgbench" -i -q -I vp "$1_$side" >"$BENCH_ROOT/init.out" 2>&1
	done
	bench_expect_am "$1_test" pgbench_accounts pgbench_tellers pgbench_branches pgbench_history
	bench_sql postgres CHECKPOINT
	compare_settle "$1_heap" "$1_test"
}

# tell_sizes PREFIX
tell_sizes()
{
	local side

	for side in heap test; do
		bench_say "      $(printf %-5s "$(compare_am "$side")") accounts: $(bench_sql "$1_$side" "
			SELECT pg_size_pretty(pg_table_size('pgbench_accounts')) || ', indexes '
				|| pg_size_pretty(pg_indexes_size('pgbench_accounts'))")," \
			"on disk $(bench_calc %.0f "$(compare_disk_bytes "$1_$side" pgbench_accounts) / 1048576") MB"
	done
}

# run_tpcb PREFIX SIDE SECONDS [NAME]: what pgbench says is in NAME.out
run_tpcb()
{
	local name=$BENCH_ROOT/${4:-run}

	"$PGBIN/pgbench" -n -M prepared -c "$clients" -j 2 -T "$3" "$1_$2" >"$name.out" 2>"$name.err" ||
		bench_fail "pgbench ended with an error on $(compare_am "$2"): $(sed -n 1,3p "$name.err")"
}

# tell_reads BEFORE AFTER: of the device, for a transaction of the last run
tell_reads()
{
	local transactions

	transactions=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$BENCH_ROOT/run.out")
	bench_say "      reads for a transaction: $(bench_calc %.2f "(${2% *} - ${1% *}) / $transactions")," \
		"kB: $(bench_calc %.1f "(${2#* } - ${1#* }) / 1024 / $transactions")"
}

# warm PREFIX SIDE
warm()
{
	run_tpcb "$1" "$2" $(((seconds + 5) / 6))
	compare_settle "$1_heap" "$1_test"
}

# measure PREFIX FIGURE FLOOR [bounded]: the background goes on as it likes in each run, and
# what a run has left to do is done before the other side's.  Where memory is bounded the
# server starts anew for each side, which so has all of it.
measure()
{
	local round side before

	for side in heap test; do
		warm "$1" "$side"
	done
	for ((round = 1; round <= rounds; round++)); do
		for side in $(compare_sides "$round"); do
			if [ "${4:-}" = bounded ]; then
				bench_server_stop fast
				bench_server_start
				run_tpcb "$1" "$side" $(((seconds + 5) / 6))
			fi
			bench_sql postgres CHECKPOINT
			before=$([ -z "$blkio" ] || blkio_read)
			run_tpcb "$1" "$side" "$seconds"
			compare_record "$2" "$side" "$round" "$(bench_pgbench_tps "$BENCH_ROOT/run.out")"
			[ -z "$blkio" ] || tell_reads "$before" "$(blkio_read)"
			compare_settle "$1_heap" "$1_test"
		done
	done
	tell_sizes "$1"
	compare_judge "$2" tps least "$3"
	expect_sums "$1" heap test
}

# expect_sums PREFIX SIDE...
expect_sums()
{
	local prefix=$1 side

	shift
	for side in "$@"; do
		bench_expect "${prefix}_$side" "sums of balances agree with the history on $(compare_am "$side")" t "
			SELECT (SELECT sum(abalance) FROM pgbench_accounts) = coalesce(sum(delta), 0) FROM pgbench_history"
	done
}

make_cached()
{
	bench_section "TPC-B, all cached: scale $cached_scale, $clients clients, $seconds s a run"
	make_tables cached "$cached_scale"
	tell_sizes cached
}

# on_heap COMMAND...: on the server that heap has while both sides run
on_heap()
{
	PGPORT=5433 "$@"
}

# wal_bytes: written so far
wal_bytes()
{
	bench_sql postgres "SELECT pg_current_wal_insert_lsn() - '0/0'"
}

# tell_wal SIDE BEFORE AFTER
tell_wal()
{
	bench_say "      $(printf %-5s "$(compare_am "$1")") WAL for a transaction:" \
		"$(bench_calc %.0f "($3 - $2) / $(bench_pgbench_count "$BENCH_ROOT/$1.out")") bytes"
}

# pin PROCESSORS SIDE: where all that belongs to a side runs; new processes do as their parent does
pin()
{
	local pid server directory=data

	[ "$2" = test ] || directory=data_heap
	server=$(sed -n 1p "$BENCH_ROOT/$directory/postmaster.pid")
	for pid in "$server" $(pgrep -P "$server") $(pgrep -f "pgbench .* cached_$2\$"); do
		taskset -a -c -p "$1" "$pid" >"$BENCH_ROOT/pin.out" 2>&1 || true	# one that has just ended
	done
}

# change_places: until it is killed
change_places()
{
	while true; do
		pin 0 heap
		pin 1 test
		sleep 1
		pin 1 heap
		pin 0 test
		sleep 1
	done
}

# measure_together FIGURE [pinned]: what one round leaves to the background is done during the next
# one.
measure_together()
{
	local round side heap before_heap before_test places=

	if [ -z "${2:-}" ]; then
		bench_section "the same on both sides at a time, $clients clients each"
	else
		bench_section "the same on both sides at a time, each with a processor for itself"
		if [ "$(nproc)" -lt 2 ] || ! taskset -c 0,1 true 2>"$BENCH_ROOT/pin.out"; then
			bench_say "SKIP  a processor for each side: there are not two"
			return 0
		fi
	fi
	bench_server_stop fast
	cp -a "$BENCH_ROOT/data" "$BENCH_ROOT/data_heap"
	echo "port = 5433" >>"$BENCH_ROOT/data_heap/postgresql.conf"
	bench_server_start
	bench_server_start data_heap
	on_heap warm cached heap
	warm cached test
	for ((round = 1; round <= rounds; round++)); do
		on_heap bench_sql postgres CHECKPOINT
		bench_sql postgres CHECKPOINT
		before_heap=$(on_heap wal_bytes)
		before_test=$(wal_bytes)
		if [ -n "${2:-}" ]; then
			change_places &
			places=$!
			bench_remember_job "$places"
		fi
		(
			BENCH_FAILED=0
			on_heap run_tpcb cached heap "$seconds" heap
			[ "$BENCH_FAILED" = 0 ]
		) &
		heap=$!
		bench_remember_job "$heap"
		run_tpcb cached test "$seconds" test
		wait "$heap" || BENCH_FAILED=$((BENCH_FAILED + 1))
		bench_forget_job "$heap"
		if [ -n "$places" ]; then
			kill "$places"
			wait "$places" 2>"$BENCH_ROOT/pin.out" || true
			bench_forget_job "$places"
			pin "0-$(($(nproc) - 1))" heap
			pin "0-$(($(nproc) - 1))" test
		fi
		for side in heap test; do
			compare_record "$1" "$side" "$round" "$(bench_pgbench_tps "$BENCH_ROOT/$side.out")"
		done
		tell_wal heap "$before_heap" "$(on_heap wal_bytes)"
		tell_wal test "$before_test" "$(wal_bytes)"
	done
	compare_judge "$1" tps least "$cached_floor"
	on_heap expect_sums cached heap
	expect_sums cached test
	bench_server_stop fast data_heap
	rm -rf "$BENCH_ROOT/data_heap"
}

measure_large()
{
	bench_section "TPC-B with $memory MB of memory: scale $large_scale, $clients clients, $seconds s a run"
	if ! enter_cgroup; then
		bench_say "SKIP  accounts of 10 times the memory: $cgroup_why"
		return 0
	fi
	bench_sql postgres "ALTER SYSTEM SET shared_buffers = '$((memory / 4))MB'"
	bench_sql postgres "ALTER SYSTEM SET maintenance_work_mem = '$((memory / 16 + 1))MB'"
	bench_sql postgres "ALTER SYSTEM SET work_mem = '4MB'"
	if [ "$AM" = lsm ]; then
		bench_sql postgres "ALTER SYSTEM SET lsm.block_cache_size = '$((memory / 8))MB'"
		bench_sql postgres "ALTER SYSTEM SET lsm.session_cache_size = '$((memory / 16))MB'"
		bench_sql postgres "ALTER SYSTEM SET lsm.memtable_size = '$((memory / 16))MB'"
	fi
	bench_sql postgres "ALTER SYSTEM SET checkpoint_timeout = '5min'"
	bench_server_stop fast
	bench_server_start
	make_tables large "$large_scale"
	tell_sizes large
	compare_verdict "heap's accounts over the memory" \
		"$(bench_sql large_heap "SELECT round(pg_table_size('pgbench_accounts') / ($memory * 1048576.0), 2)")" least 10
	if wanted large; then
		measure large "TPC-B, 10 times the memory" "$large_floor" bounded
	fi
	if wanted disk; then
		measure_disk
	fi
	tell_memory
	bench_server_stop fast
	blkio_leave
	BENCH_RUNAS=("${server_runas[@]}")
	bench_server_start
}

measure_disk()
{
	bench_section "the same with $disk_reads reads a second"
	if [ -z "$blkio" ]; then
		bench_say "SKIP  reads cannot be bounded: $blkio_why"
		return 0
	fi
	blkio_limit "$disk_reads" 1000
	measure large "TPC-B, 10 times the memory, $disk_reads reads/s" "$large_floor" bounded
	blkio_limit 0 0
}

bench_start
bench_say "filler:   $filler"
if wanted cached || wanted together || wanted pinned; then
	make_cached
fi
if wanted cached; then
	measure cached "TPC-B, cached" "$cached_floor"
fi
if wanted together; then
	measure_together "TPC-B, cached, together"
fi
if wanted pinned; then
	measure_together "TPC-B, cached, a processor each" pinned
fi
if wanted large || wanted disk; then
	measure_large
fi
compare_print_results
bench_finish
