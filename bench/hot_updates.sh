#!/bin/bash
#
# hot_updates.sh [ROWS [SECONDS [CLIENTS]]]		(6000000, 600, 4)
#	  Random updates of a column without an index, in a table with five
#	  secondary indexes, a checkpoint every 30 s and no old snapshot: WAL for an
#	  update, growth of the indexes, room that the table takes all the while.
#
# The default is a table of 20 memtables: about 1.3 GB of rows at 64 MB each.
# Heap first, then the other; each begins as VACUUM FULL and VACUUM leave it, and
# what it takes on disk then is its compacted size.  Room is what the file and its
# maps take on disk (holes do not count), looked at twice a second from the first
# update until the background has come to rest.  Nothing is flushed or compacted
# by a call.  WAL is what the server wrote from the first update until the
# background has come to rest, so that no work is left out that is owed for them.
#
# Environment: see lib.sh and compare.sh, and
#	  RATE			updates a second, the same on both sides (0: as fast as it goes)
#	  MEMTABLE		bytes that a memtable may take (67108864)

BENCH_CONF="checkpoint_timeout = 30s
${BENCH_CONF:-}"
. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/compare.sh"

rows=${1:-6000000}
seconds=${2:-600}
clients=${3:-4}
rate=${RATE:-0}
memtable=${MEMTABLE:-67108864}

wal_limit=0.2
space_limit=1.4

update_script()
{
	cat <<-SQL
	\\set id random(1, $rows)
	\\set v random(1, 1000000000)
	UPDATE hot SET hits = :v WHERE id = :id;
	SQL
}

# The columns differ in how often a value comes and whether rows lie in its order.
make_table()
{
	bench_sql "hot_$1" "
		CREATE TABLE hot (
			id			bigint NOT NULL,
			hits		bigint NOT NULL,
			at			timestamptz NOT NULL,
			customer	integer NOT NULL,
			country		smallint NOT NULL,
			token		uuid NOT NULL,
			mail		text NOT NULL,
			note		text NOT NULL
		) USING $(compare_am "$1");
		SELECT setseed(0.5);
		INSERT INTO hot
		SELECT i, (random() * 1e9)::bigint,
			   '2024-01-01 UTC'::timestamptz + i * interval '7 s',
			   (random() * $rows / 20)::integer, (random() * 200)::smallint,
			   md5(i::text)::uuid,
			   'c' || (random() * $rows)::integer || '@example.org',
			   md5((i + 1)::text) || md5((i + 2)::text)
		FROM generate_series(1, $rows) i;
		ALTER TABLE hot ADD PRIMARY KEY (id);
		CREATE INDEX ON hot (at);
		CREATE INDEX ON hot (customer, at);
		CREATE INDEX ON hot (country);
		CREATE INDEX ON hot (token);
		CREATE INDEX ON hot (mail);
		VACUUM FULL hot;
		VACUUM ANALYZE hot;" >/dev/null
}

# watch_space SIDE: until it is told to stop; the largest is in space.max.
watch_space()
{
	local now most=0

	while :; do
		now=$(compare_disk_bytes "hot_$1" hot)
		if [ "$now" -gt "$most" ]; then
			most=$now
			printf '%s\n' "$most" >"$BENCH_ROOT/space.new"
			mv "$BENCH_ROOT/space.new" "$BENCH_ROOT/space.max"
		fi
		compare_watching 0.5 || return 0
	done
}

megabytes()
{
	bench_calc %.1f "$1 / 1048576"
}

measure()
{
	local side=$1 am limits=() compacted indexes start end settled count most watch

	am=$(compare_am "$side")
	bench_section "$rows rows, $clients clients, $seconds s: $am"
	make_table "$side"
	compacted=$(compare_disk_bytes "hot_$side" hot)
	indexes=$(compare_index_bytes "hot_$side" hot)
	if [ "$rate" != 0 ]; then
		limits=(-R "$rate")
	fi
	update_script >"$BENCH_ROOT/update.pgbench"
	bench_sql postgres CHECKPOINT

	rm -f "$BENCH_ROOT/space.max"
	watch_space "$side" 2>"$BENCH_ROOT/watch.err" &
	watch=$!
	bench_remember_job "$watch"
	start=$(bench_sql postgres "SELECT pg_current_wal_insert_lsn()")
	"$PGBIN/pgbench" -n -M prepared -c "$clients" -j 2 -T "$seconds" ${limits[@]+"${limits[@]}"} \
		-f "$BENCH_ROOT/update.pgbench" "hot_$side" >"$BENCH_ROOT/run.out" 2>"$BENCH_ROOT/run.err" ||
		bench_fail "pgbench ended with an error on $am: $(sed -n 1,3p "$BENCH_ROOT/run.err")"
	end=$(bench_sql postgres "SELECT pg_current_wal_insert_lsn()")
	compare_settle "hot_$side"
	settled=$(bench_sql postgres "SELECT pg_current_wal_insert_lsn()")
	compare_stop_watching "$watch"
	if [ -s "$BENCH_ROOT/watch.err" ]; then
		bench_fail "the room was looked at: $(sed -n 1,3p "$BENCH_ROOT/watch.err")"
	fi

	count=$(bench_pgbench_count "$BENCH_ROOT/run.out")
	most=$(cat "$BENCH_ROOT/space.max")
	compare_record "updates a second" "$side" 1 "$(bench_pgbench_tps "$BENCH_ROOT/run.out")"
	compare_record "WAL for an update, in the run" "$side" 1 "$(bench_sql postgres "SELECT round(('$end'::pg_lsn - '$start') / $count, 1)")"
	compare_record "WAL for an update, till at rest" "$side" 1 "$(bench_sql postgres "SELECT round(('$settled'::pg_lsn - '$start') / $count, 1)")"
	compare_record "compacted" "$side" 1 "$(megabytes "$compacted")"
	compare_record "most room" "$side" 1 "$(megabytes "$most")"
	compare_record "room at rest" "$side" 1 "$(megabytes "$(compare_disk_bytes "hot_$side" hot)")"
	compare_record "indexes before" "$side" 1 "$(megabytes "$indexes")"
	compare_record "indexes after" "$side" 1 "$(megabytes "$(compare_index_bytes "hot_$side" hot)")"
	compare_record "room over limit" "$side" 1 "$(bench_calc %.3f "$most / ($space_limit * $compacted + $memtable)")"
	compare_record "index growth" "$side" 1 "$(($(compare_index_bytes "hot_$side" hot) - indexes))"
	bench_expect "hot_$side" "all rows are there on $am" "$rows" "SELECT count(*) FROM hot"

	# What autovacuum may still owe to heap must not be in the other's WAL.
	if [ "$side" = heap ]; then
		bench_sql hot_heap "DROP TABLE hot"
	fi
}

bench_start
bench_say "updates a second at most: $rate (0: no limit)"
compare_make_databases hot
measure heap
measure test

bench_section "soundness"
if [ "$AM" = lsm ]; then
	bench_expect hot_test "lsm_check is empty" "" "SELECT p FROM lsm_check('hot') p LIMIT 10"
fi

bench_section "floors"
compare_judge "updates a second" 1/s told -
compare_judge "WAL for an update, in the run" bytes told -
compare_judge "WAL for an update, till at rest" bytes most "$wal_limit"
for name in "compacted" "most room" "room at rest" "indexes before" "indexes after"; do
	compare_judge "$name" MB told -
done
compare_verdict "$AM: most room / ($space_limit x compacted + memtable)" "$(compare_median "room over limit" test)" most 1
compare_verdict "$AM: bytes by which indexes grew" "$(compare_median "index growth" test)" most 0
compare_print_results
bench_finish
