#!/bin/bash
#
# load.sh [SCALE [ROUNDS]]		(1, 3)
#	  Loading TPC-H lineitem: lsm beside heap in time, WAL and room.
#
# Heap and the access method under test run in turn, heap first in one round and
# last in the next; each figure is the median of the rounds.  A load of lsm ends when
# all has been flushed.  Loaded are: one table by one COPY of a file of the server's, the
# same of what a client sends (on two processors that is one process more than there is
# room for), and with a primary key, one by INSERT ... SELECT from heap, and one by many COPYs
# of 1000 rows.  Then an index is built, by one process and by several.  The rows of both must be equal.  How large the file is
# after VACUUM is told for the default settings, together with what segments have of it, and
# for those that make it smallest.
#
# Environment: see lib.sh, and
#	  LINEITEM_FILE	rows to load instead of generated ones

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"

scale=${1:-1}
rounds=${2:-3}
small_copies=200
hash="SELECT count(*), sum(hashtextextended(l::text, 0)::numeric) FROM lineitem l"

# flushed SIDE: all that has been loaded is in segments.
flushed()
{
	if compare_is_lsm "$1"; then
		bench_sql "load_$1" "SELECT count(*) FROM lsm_flush('lineitem')" >/dev/null
	fi
}

# fresh SIDE [STATEMENT]: an empty table, and a checkpoint, whose page images are not
# the load's.
fresh()
{
	bench_sql "load_$1" "DROP TABLE IF EXISTS lineitem"
	bench_sql "load_$1" "$(bench_lineitem_ddl lineitem "$(compare_am "$1")"); ALTER TABLE lineitem SET (autovacuum_enabled = off); ${2:-}"
	bench_sql "load_$1" CHECKPOINT
}

wal_position()
{
	bench_sql postgres "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
}

copy_file() { bench_sql "load_$1" "COPY lineitem FROM '$BENCH_ROOT/rows' (DELIMITER '|')"; }
copy_client() { bench_lineitem_copy "load_$1" lineitem "$file"; }
insert_select() { bench_sql "load_$1" "INSERT INTO lineitem SELECT * FROM source"; }

copy_small()
{
	local i

	for ((i = 0; i < small_copies; i++)); do
		echo "COPY lineitem FROM STDIN (DELIMITER '|');"
		sed -n "$((i * 1000 + 1)),$((i * 1000 + 1000))p" "$BENCH_ROOT/head"
		echo '\.'
	done | bench_psql "load_$1"
}

# load NAME SIDE ROUND COMMAND...: records rate and WAL.
load()
{
	local name=$1 side=$2 round=$3 start end wal rows

	shift 3
	wal=$(wal_position)
	start=$EPOCHREALTIME
	"$@" "$side"
	flushed "$side"
	end=$EPOCHREALTIME
	[ "$round" != 0 ] || return 0
	compare_record "$name, WAL" "$side" "$round" "$(bench_calc %.6g "($(wal_position) - $wal) / 1e6")"
	rows=$(bench_sql "load_$side" "SELECT count(*) FROM lineitem")
	compare_record "$name, rows" "$side" "$round" "$(bench_calc %.6g "$rows / ($end - $start)")"
}

# build SIDE ROUND WORKERS
build()
{
	local start=$EPOCHREALTIME

	bench_sql "load_$1" "SET max_parallel_maintenance_workers = $3; CREATE INDEX lineitem_index ON lineitem (l_partkey)"
	[ "$2" = 0 ] ||
		compare_record "index, $3 workers" "$1" "$2" "$(bench_calc %.6g "1 / ($EPOCHREALTIME - $start)")"
	bench_sql "load_$1" "DROP INDEX lineitem_index"
}

# smallest: the size with the settings that compress best.
smallest()
{
	fresh test "ALTER TABLE lineitem SET (lsm.compression_level = 19, lsm.block_size = '64kB')"
	insert_select test
	bench_sql load_test "VACUUM lineitem"
	bench_sql load_test "SELECT pg_table_size('lineitem') / 1e6"
}

same()
{
	bench_check "$1: the same rows" "$(bench_sql load_heap "$hash")" "$(bench_sql load_test "$hash")"
}

bench_start
file=$(realpath "${LINEITEM_FILE:-$(bench_lineitem_file "$scale")}")
file_rows=$(wc -l <"$file")
megabytes=$(bench_calc %.4g "158 * $file_rows / 6001215")
bench_say "rows:     $file_rows, rounds: $rounds"
head -n $((small_copies * 1000)) "$file" >"$BENCH_ROOT/head"
cp "$file" "$BENCH_ROOT/rows"
chmod a+r "$BENCH_ROOT/rows"
compare_make_databases load
for side in heap test; do
	bench_sql "load_$side" "$(bench_lineitem_ddl source heap)"
	bench_lineitem_copy "load_$side" source "$file"
	bench_sql "load_$side" "VACUUM source"
done

for ((round = 0; round <= rounds; round++)); do
	for side in $(compare_sides "$round"); do
		fresh "$side"
		load COPY "$side" "$round" copy_file
		build "$side" "$round" 0
		build "$side" "$round" 2
		bench_sql "load_$side" "VACUUM lineitem"
		[ "$round" = 0 ] || ! compare_is_lsm "$side" ||
			segments=$(bench_sql "load_$side" "SELECT sum(stored_bytes) / 1e6 FROM lsm_segments('lineitem')")
		[ "$round" = 0 ] ||
			compare_record "size after VACUUM" "$side" "$round" "$(bench_sql "load_$side" "SELECT pg_table_size('lineitem') / 1e6")"
	done
	[ "$round" != 0 ] || same COPY
	for side in $(compare_sides "$round"); do
		fresh "$side"
		load "COPY from a client" "$side" "$round" copy_client
		fresh "$side" "ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)"
		load "COPY, primary key" "$side" "$round" copy_file
		fresh "$side"
		load "INSERT SELECT" "$side" "$round" insert_select
	done
	[ "$round" != 0 ] || same "INSERT SELECT"
	for side in $(compare_sides "$round"); do
		fresh "$side"
		load "COPY of 1000" "$side" "$round" copy_small
	done
	[ "$round" != 0 ] || same "COPY of 1000"
done
compare_judge "COPY, rows" /s least 1.1
compare_judge "COPY, WAL" MB most 0.3
compare_judge "COPY from a client, rows" /s told -
compare_judge "COPY from a client, WAL" MB told -
compare_judge "size after VACUUM" MB told -
compare_verdict "size after VACUUM, MB" "$(compare_median "size after VACUUM" test)" most "$megabytes"
if compare_is_lsm test; then
	bench_say "segments: $segments MB of it"
	compare_verdict "size at the best setting, MB" "$(smallest)" most "$(bench_calc %.4g "145 * $file_rows / 6001215")"
fi
compare_judge "COPY, primary key, rows" /s told -
compare_judge "COPY, primary key, WAL" MB told -
compare_judge "INSERT SELECT, rows" /s told -
compare_judge "INSERT SELECT, WAL" MB most 0.3
compare_judge "COPY of 1000, rows" /s told -
compare_judge "COPY of 1000, WAL" MB told -
compare_judge "index, 0 workers" /s told -
compare_judge "index, 2 workers" /s told -
for side in heap test; do
	bench_say "index of $(compare_am $side): two workers $(bench_calc %.2f \
		"$(compare_median "index, 2 workers" $side) / $(compare_median "index, 0 workers" $side)") times as fast as none"
done
bench_verify load_test
compare_print_results
bench_finish
