#!/bin/bash
#
# chunk.sh [ROWS [READS]]		(1000000, 500)
#	  The chunk experiment: what a cold read of one random row takes from the device,
#	  for block sizes from 8 to 128 kB; heap beside it.
#
# The server runs in a blkio cgroup (cgroup.sh), which counts requests and bytes; where
# there is none, the script says SKIP.  Index and metadata of segments are read before,
# the blocks of the rows are not cached anywhere.  Rows are far from each other, so that
# each is another block.
#
# The kernel must not read ahead: the figures must be the same whatever the device's
# read-ahead is.  That belongs to the whole machine, so it is changed only if asked for,
# and put back at the end.
#
# Environment: see lib.sh, and
#	  BLOCK_SIZES	of lsm, in kB (8 16 32 64 128)
#	  READ_AHEAD	the device's read-ahead settings to go through, in kB, such as
#					"128 4096" (what it is)

BENCH_CONF="shared_buffers = 256MB
autovacuum = off
lsm.compaction_workers = 0
lsm.block_cache_size = 1MB
${BENCH_CONF:-}"

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/cgroup.sh"

rows=${1:-1000000}
reads=${2:-500}
sizes=${BLOCK_SIZES:-8 16 32 64 128}
queue=				# file with the device's setting, if it is changed
queue_was=

# make_table NAME ACCESS_METHOD [OPTIONS]
make_table()
{
	bench_sql chunk "CREATE TABLE $1 (id int, t text) USING $2 ${3:-}"
	bench_sql chunk "INSERT INTO $1 SELECT i, md5(i::text) || md5((i + 1)::text) FROM generate_series(1, $rows) i"
	if [ "$2" = lsm ]; then
		bench_sql chunk "SELECT lsm_flush('$1')" >/dev/null
	fi
	bench_sql chunk "CREATE INDEX ${1}_id ON $1 (id)"
	bench_sql chunk "VACUUM ANALYZE $1"
}

# measure TABLE LABEL: requests and kilobytes for each row; sets kilobytes.
measure()
{
	local before after step=$((rows / reads)) wanted

	blkio_restart
	# the index, and the metadata of segments
	bench_sql chunk "SET enable_seqscan = off; SET enable_bitmapscan = off; SET lsm.enable_lsmscan = off;
		SELECT count(*) FROM $1 WHERE id > 0" >/dev/null
	bench_sql chunk "SELECT count(*) FROM $1 WHERE id = 1" >/dev/null
	before=$(blkio_read)
	wanted=$(bench_sql chunk "SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT sum(length(r.t)) FROM generate_series($((step / 2)), $rows, $step) i,
			LATERAL (SELECT t FROM $1 WHERE id = (i * 7919::bigint) % $rows + 1 OFFSET 0) r")
	after=$(blkio_read)
	[ "$wanted" = $((64 * reads)) ] || bench_fail "$2: rows have $wanted bytes, not $((64 * reads))"
	read -r requests kilobytes < <(awk -v a="$before" -v b="$after" -v n="$reads" 'BEGIN {
		split(a, x, " "); split(b, y, " "); printf "%.2f %.1f\n", (y[1] - x[1]) / n, (y[2] - x[2]) / n / 1024 }')
	printf '%-22s read-ahead %5s   %6s requests %8s kB a row\n' "$2" "$ahead" "$requests" "$kilobytes"
}

put_back()
{
	[ -z "$queue" ] || echo "$queue_was" >"$queue"
	blkio_leave
}

bench_start
if ! blkio_enter 2048; then
	bench_say "SKIP  the chunk experiment: $blkio_why"
	bench_finish
fi
if [ -n "${READ_AHEAD:-}" ]; then
	queue=/sys/dev/block/$blkio_device/queue/read_ahead_kb
	queue_was=$(cat "$queue")
	BENCH_AT_END=put_back
fi
blkio_restart
bench_create_database chunk
for size in $sizes; do
	make_table "lsm_$size" lsm "WITH (lsm.block_size = '${size}kB')"
done
make_table heap_rows heap
bench_section "bytes read from the device for one row"
for ahead in ${READ_AHEAD:-asis}; do
	[ "$ahead" = asis ] || echo "$ahead" >"$queue"
	for size in $sizes; do
		measure "lsm_$size" "lsm, blocks of $size kB"
		stored=$(bench_sql chunk "SELECT (max(stored_bytes / blocks) / 1024.0 + 16)::numeric(10,1) FROM lsm_segments('lsm_$size')")
		if [ "$(bench_calc %d "($kilobytes <= $stored && $requests >= 0.9 && $requests <= 1.1)")" = 1 ]; then
			bench_pass "blocks of $size kB: one request for one block, $stored kB at most with its first and last page"
		else
			bench_fail "blocks of $size kB: one request for one block, $stored kB at most with its first and last page"
		fi
	done
	measure heap_rows heap
done
bench_finish
