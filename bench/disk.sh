#!/bin/bash
#
# disk.sh [MEGABYTES [SECONDS [THREADS...]]]		(4096, 60, 10 20 30 40)
#	  The disk experiment: range scans of about 2 MB each at random places of a table
#	  that fits no cache, on a device that does 200 reads and 200 MB a second, with and
#	  without merging of reads.
#
# The server runs in a blkio cgroup (cgroup.sh), which limits the device and counts
# requests and bytes; where there is none, the script says SKIP.  Each run begins with
# nothing cached.  lsm reads with O_DIRECT, merging or not; heap goes through the page cache,
# which a memory cgroup bounds.
#
# Printed for each number of threads, with lsm.multiblock_read_size = 0 and 512 kB:
# queries a second, average, 95 % and greatest latency, requests and bytes a query, and
# the ratio of both.  Heap's sequential range is beside it.  "hits" is the same where
# every fourth block is in lsm's cache.
#
# Environment: see lib.sh, and
#	  PARTS			which of them to run (merge hits heap)
#	  READS, MB		limits of the device (200, 200)
#	  MEMORY		MB for the server and the page cache (512; for "hits" and the cache more)
#	  QUERY_MB		what a query reads (2)
#	  DIRECT		lsm.direct_io (on)
#	  FLOOR			ratio of queries a second, merged over not (3)
#	  SHARE			of what the device allows, of bytes or of requests, merged (0.7)

BENCH_CONF="shared_buffers = 64MB
autovacuum = off
lsm.compaction_workers = 0
lsm.block_cache_size = ${BLOCK_CACHE:-16MB}
lsm.session_cache_size = 64MB
lsm.direct_io = ${DIRECT:-on}
maintenance_work_mem = 64MB
${BENCH_CONF:-}"

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/cgroup.sh"

megabytes=${1:-4096}
seconds=${2:-60}
shift $(($# > 2 ? 2 : $#))
threads=("${@:-10 20 30 40}")
read -r -a threads <<<"${threads[*]}"
parts=" ${PARTS:-merge hits heap} "
reads=${READS:-200}
mb=${MB:-200}
query_mb=${QUERY_MB:-2}
floor=${FLOOR:-3}
least_share=${SHARE:-0.7}
memory=${MEMORY:-512}
hits=$((megabytes / 3 + 16))	# MB of cache for every fourth block

# make_table NAME ACCESS_METHOD: rows of a kilobyte that does not compress.
make_table()
{
	local rows=$((megabytes * 1000)) step=100000 at

	bench_sql disk "CREATE TABLE $1 (id int, t bytea) USING $2"
	for ((at = 0; at < rows; at += step)); do
		bench_sql disk "INSERT INTO $1 SELECT i, decode((SELECT string_agg(md5((i * 64 + j)::text), '') FROM generate_series(1, 62) j), 'hex')
			FROM generate_series($at + 1, least($at + $step, $rows)) i"
	done
	if [ "$2" = lsm ]; then
		bench_sql disk "SELECT lsm_flush('$1')" >/dev/null
	fi
	bench_sql disk "CREATE INDEX ${1}_id ON $1 (id)"
	bench_sql disk "VACUUM ANALYZE $1"
}

# range_script TABLE FILE
range_script()
{
	local rows=$((megabytes * 1000)) each=$((query_mb * 1000))

	cat >"$2" <<-SQL
	\\set a random(1, $((rows - each)))
	SELECT count(t) FROM $1 WHERE id >= :a AND id < :a + $each;
	SQL
}

# run TABLE CLIENTS: sets tps, avg, p95, max (ms), requests and kilobytes a query.
run()
{
	local before after n

	rm -f "$BENCH_ROOT"/pgbench_log*
	before=$(blkio_read)
	(cd "$BENCH_ROOT" && "$PGBIN/pgbench" -n -c "$2" -j "$2" -T "$seconds" -l -f "$BENCH_ROOT/$1.sql" disk) \
		>"$BENCH_ROOT/pgbench.out" 2>&1 || { cat "$BENCH_ROOT/pgbench.out" >&2; bench_die "pgbench failed"; }
	after=$(blkio_read)
	cat "$BENCH_ROOT"/pgbench_log* | awk '{ print $3 / 1000 }' | sort -n >"$BENCH_ROOT/latencies"
	n=$(wc -l <"$BENCH_ROOT/latencies")
	[ "$n" -gt 0 ] || bench_die "no query ended in $seconds s"
	tps=$(bench_calc %.1f "$n / $seconds")
	avg=$(awk '{ s += $1 } END { printf "%.0f", s / NR }' "$BENCH_ROOT/latencies")
	p95=$(sed -n "$(((n * 95 + 99) / 100))p" "$BENCH_ROOT/latencies" | cut -d. -f1)
	max=$(sed -n '$p' "$BENCH_ROOT/latencies" | cut -d. -f1)
	read -r requests kilobytes < <(awk -v a="$before" -v b="$after" -v n="$n" 'BEGIN {
		split(a, x, " "); split(b, y, " "); printf "%.1f %.0f\n", (y[1] - x[1]) / n, (y[2] - x[2]) / n / 1024 }')
}

# compare TABLE [WARM]: merging off and on, for each number of threads.
compare()
{
	local clients size off=

	for clients in "${threads[@]}"; do
		for size in 0 512; do
			bench_sql postgres "ALTER SYSTEM SET lsm.multiblock_read_size = $size"
			blkio_limit 0 0
			blkio_restart
			[ -z "${2:-}" ] || "$2" "$1"
			blkio_limit "$reads" "$mb"
			run "$1" "$clients"
			printf '%3d threads, merging %-6s %8s queries/s  avg %6s  95 %% %6s  max %6s ms  %7s requests %7s kB a query\n' \
				"$clients" "$([ $size = 0 ] && echo off || echo 512kB)" "$tps" "$avg" "$p95" "$max" "$requests" "$kilobytes"
			[ $size = 0 ] && off=$tps
		done
		if [ "$(bench_calc %d "($tps >= $floor * $off)")" = 1 ]; then
			bench_pass "$clients threads: $(bench_calc %.2f "$tps / $off") times as many queries, at least $floor"
		else
			bench_fail "$clients threads: $(bench_calc %.2f "$tps / $off") times as many queries, at least $floor"
		fi
		share_bytes=$(bench_calc %.2f "$tps * $kilobytes / 1024 / $mb")
		share_requests=$(bench_calc %.2f "$tps * $requests / $reads")
		share="$clients threads: $share_bytes of the bytes and $share_requests of the requests that the device allows"
		if [ "$(bench_calc %d "($share_bytes >= $least_share || $share_requests >= $least_share)")" = 1 ]; then
			bench_pass "$share, at least $least_share of either"
		else
			bench_fail "$share, at least $least_share of either"
		fi
	done
}

# Every fourth block of the table gets into lsm's cache, by a look at one row of it.
warm_fourth()
{
	bench_sql disk "SELECT sum(length(t)) FROM generate_series(1, $((megabytes * 1000)), 4 * (SELECT max(rows / blocks) FROM lsm_segments('$1'))) i,
		LATERAL (SELECT t FROM $1 WHERE id = i OFFSET 0) r" >/dev/null
}

bench_start
if ! blkio_enter "$memory"; then
	bench_say "SKIP  the disk experiment: $blkio_why"
	bench_finish
fi
blkio_restart
bench_create_database disk
case $parts in
	*" merge "*)
		bench_section "$query_mb MB ranges of $megabytes MB, $reads reads and $mb MB a second"
		make_table ranges lsm
		range_script ranges "$BENCH_ROOT/ranges.sql"
		compare ranges
		;;
esac
case $parts in
	*" hits "*)
		bench_section "the same where every fourth block is a hit"
		[ "$(bench_sql disk "SELECT to_regclass('ranges') IS NULL")" = f ] || make_table ranges lsm
		range_script ranges "$BENCH_ROOT/ranges.sql"
		bench_sql postgres "ALTER SYSTEM SET lsm.block_cache_size = '${hits}MB'"
		blkio_bound $((memory + hits))
		compare ranges warm_fourth
		;;
esac
case $parts in
	*" heap "*)
		bench_sql postgres "ALTER SYSTEM RESET lsm.block_cache_size"
		blkio_restart
		blkio_bound "$memory"
		bench_section "heap, the kernel reading ahead as it does"
		make_table heap_ranges heap
		range_script heap_ranges "$BENCH_ROOT/heap_ranges.sql"
		for clients in "${threads[@]}"; do
			blkio_limit 0 0
			blkio_restart
			blkio_limit "$reads" "$mb"
			run heap_ranges "$clients"
			printf '%3d threads, heap           %8s queries/s  avg %6s  95 %% %6s  max %6s ms  %7s requests %7s kB a query\n' \
				"$clients" "$tps" "$avg" "$p95" "$max" "$requests" "$kilobytes"
		done
		;;
esac
blkio_limit 0 0
bench_finish
