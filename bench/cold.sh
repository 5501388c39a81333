#!/bin/bash
#
# cold.sh [ROWS [SECONDS [ROUNDS [DELAY]]]]		(20000000, 600, 5, 20)
#	  Tables in a store beside the same tables at home: inserts, single rows, lists of
#	  keys, sums over ranges, compaction, moving out; requests, bytes and times.
#
# The store is an S3 server of the script's own (versitygw, see scripts/lib.sh), once as it
# is and once behind a proxy that adds DELAY milliseconds to each request (delay_proxy.py).
# There is no block cache in shared memory but for the inserts, and each query has a session
# of its own: what is read comes from the store.  The files themselves, of the table at home
# and of the store, may be in the kernel's page cache; a second figure reads those at home
# without it (lsm.direct_io).
#
# Keys have 150 rows each, at random places.  Workers run only while tables are compacted (two
# of them, as servers have: while lsm_major_compact() merges, they move what is done) and while
# rows are inserted.
#
# "cold.sh 300000 15 3" is a quick try of two minutes.  PARTS chooses from
# "move points lists ranges sizes major inserts".
#
# Environment: see lib.sh, and
#	  PARTS			(all)
#	  CLIENTS		who insert (4)
#	  LSM_S3_SERVER	a versitygw that is there already

BENCH_CONF="shared_buffers = 256MB
max_worker_processes = 16
autovacuum = off
lsm.compaction_workers = 0
lsm.compaction_naptime = 1s
lsm.block_cache_size = 0
lsm.store_delete_delay = 0
${BENCH_CONF:-}"

. "$(dirname "$0")/lib.sh"

[ "$AM" = lsm ] || bench_die "only lsm has a cold store"
rows=${1:-20000000}
seconds=${2:-600}
rounds=${3:-5}
delay=${4:-20}
parts=${PARTS:-move points lists ranges sizes major inserts}
clients=${CLIENTS:-4}
keys=$((rows / 150))
seed=0

# ---- the store ----

start_job()
{
	"$@" >>"$BENCH_ROOT/jobs.log" 2>&1 &
	bench_remember_job $!
}

wait_for_port()
{
	local try

	for try in $(seq 300); do
		! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
		sleep 0.1
	done
	bench_die "nothing listens on port $1: $(tail -n 5 "$BENCH_ROOT/jobs.log")"
}

start_store()
{
	local program port

	program=$(WORK_DIR=$BENCH_ROOT && . "$BENCH_SRC/../scripts/lib.sh" && find_s3_server >&2 &&
		echo "${LSM_S3_SERVER:-}")
	[ -n "$program" ] || bench_die "no S3 server; it is built where Go is installed, or named by LSM_S3_SERVER"
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	mkdir -p "$BENCH_ROOT/s3/bucket"
	start_job "$program" -a key -s secret -p "127.0.0.1:$port" -q --keep-alive \
		--health /healthz posix "$BENCH_ROOT/s3"
	store_pid=$!
	wait_for_port "$port"
	start_job python3 "$BENCH_SRC/delay_proxy.py" "$delay" "127.0.0.1:$port" "$BENCH_ROOT/proxy.port"
	while [ ! -s "$BENCH_ROOT/proxy.port" ]; do sleep 0.1; done
	near=http://127.0.0.1:$port
	far=http://127.0.0.1:$(cat "$BENCH_ROOT/proxy.port")
	bench_sql bench "ALTER SYSTEM SET lsm.store_allowed_endpoints = '$near', '$far'; SELECT pg_reload_conf()" >/dev/null
	bench_sql bench "CREATE SERVER near FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', endpoint '$near', bucket 'bucket');
		CREATE SERVER far FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', endpoint '$far', bucket 'bucket');
		CREATE USER MAPPING FOR PUBLIC SERVER near OPTIONS (access_key_id 'key', secret_access_key 'secret');
		CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (access_key_id 'key', secret_access_key 'secret')"
}

# ---- measuring ----

# stat COLUMN...: sums of both stores
stat()
{
	bench_sql bench "SELECT $1 FROM lsm_stat_store"
}

# Nanoseconds that the store's process has computed so far, on all its threads.
store_ns()
{
	cat "/proc/$store_pid/task"/*/schedstat 2>/dev/null | awk '{ n += $1 } END { printf "%.0f", n }'
}

# timed SQL: runs it in a session of its own, after what "prepare" has; sets ms (of its last
# statement), gets and answer; in milliseconds, what the session computed (cpu) and waited for a
# processor (queued), and what the store computed for the session (store_cpu).
timed()
{
	local out ns clock="SELECT 'clock ' || pg_read_file('/proc/self/schedstat');"
	local count="SELECT 'gets ' || coalesce(sum(get_requests), 0) FROM lsm_stat_store;"

	ns=$(store_ns)
	out=$(printf '%s\n' "${prepare:-}" "$count" "$clock" '\timing on' "$1" '\timing off' "$clock" "$count" | bench_psql bench)
	store_cpu=$(bench_calc %.1f "($(store_ns) - $ns) / 1000000")
	gets=$(awk '/^gets/ { n = $2 - last; last = $2 } END { print n }' <<<"$out")
	read -r cpu queued < <(awk '/^clock/ { c = $2 - last_c; q = $3 - last_q; last_c = $2; last_q = $3 }
		END { printf "%.1f %.1f\n", c / 1000000, q / 1000000 }' <<<"$out")
	ms=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$out" | tail -n 1)
	answer=$(grep -Ev '^(Time:|clock|gets|$)' <<<"$out" || true)
}

# repeated SQL_FUNCTION ARGUMENT...: rounds times; sets what timed sets to medians.
repeated()
{
	local all_ms=() all_gets=() all_cpu=() all_queued=() all_store=() i

	for i in $(seq "$rounds"); do
		timed "$("$@")"
		all_ms+=("$ms")
		all_gets+=("$gets")
		all_cpu+=("$cpu")
		all_queued+=("$queued")
		all_store+=("$store_cpu")
	done
	ms=$(bench_median "${all_ms[@]}")
	gets=$(bench_median "${all_gets[@]}")
	cpu=$(bench_median "${all_cpu[@]}")
	queued=$(bench_median "${all_queued[@]}")
	store_cpu=$(bench_median "${all_store[@]}")
}

# What the time of the last query went into.
spent()
{
	echo "(session $cpu ms, waiting for a processor $queued ms, store $store_cpu ms)"
}

# at_most NAME LIMIT VALUE; at_least NAME LIMIT VALUE
at_most()
{
	if [ "$(bench_calc %d "($3 <= $2)")" = 1 ]; then
		bench_pass "$1: $3, at most $2"
	else
		bench_fail "$1: $3, more than $2"
	fi
}

at_least()
{
	if [ "$(bench_calc %d "($3 >= $2)")" = 1 ]; then
		bench_pass "$1: $3, at least $2"
	else
		bench_fail "$1: $3, less than $2"
	fi
}

# on_disk TABLE: bytes that its files take, holes left out.
on_disk()
{
	local path

	path=$BENCH_ROOT/data/$(bench_sql bench "SELECT pg_relation_filepath('$1')")
	"${BENCH_RUNAS[@]}" sh -c "du -cB1 '$path' '$path'.* '$path'_* 2>/dev/null || :" | sed -n '$s/[^0-9].*//p'
}

mb()
{
	bench_calc "%.1f MB" "$1 / 1048576"
}

# ---- tables ----

make_table()
{
	bench_sql bench "CREATE TABLE $1 (id bigint, k int, v int, t text) USING lsm"
	bench_sql bench "INSERT INTO $1 SELECT i, (hashint8(i) & 2147483647) % $keys, i % 1000,
			md5(i::text) || md5((-i)::text) || repeat('x', 20) || md5((i * 7)::text)
		FROM generate_series(1, $rows) i"
	bench_sql bench "ALTER TABLE $1 ADD PRIMARY KEY (id);
		CREATE INDEX ${1}_k ON $1 (k)"
	bench_sql bench "SELECT lsm_major_compact('$1')" >/dev/null
	bench_sql bench "VACUUM ANALYZE $1"
}

# Let workers see to it that all of a table is where it belongs.
move()
{
	bench_sql bench "SELECT lsm_major_compact('$1')" >/dev/null
	bench_sql bench "CHECKPOINT; VACUUM $1"
	bench_sql bench "CHECKPOINT; VACUUM $1"
}

# ---- parts ----

part_move()
{
	local table stored before after server

	bench_section "moving out"
	for table in cold_near cold_far; do
		server=${table#cold_}
		stored=$(bench_sql bench "SELECT sum(stored_bytes) FROM lsm_segments('$table')")
		before=$(on_disk "$table")
		timed "ALTER TABLE $table SET (lsm.cold_store = '$server');"
		at_most "$server: ALTER TABLE on $(mb "$stored"), ms" 1000 "$ms"
		timed "SELECT lsm_major_compact('$table');"
		bench_say "$server: moved in $ms ms $(spent), $(mb "$(bench_calc %.0f "$stored / $ms * 1000")") a second"
		move "$table"
		after=$(on_disk "$table")
		bench_say "$server: at home $(mb "$before") before, $(mb "$after") after;" \
			"in the store $(bench_sql bench "SELECT count(*) FROM lsm_segments('$table') WHERE location = '$server'") objects"
		at_most "$server: share of the stored bytes that stays at home" 0.05 \
			"$(bench_calc %.3f "$after / $stored")"
	done
}

point_query()
{
	seed=$((seed + 1))
	echo "SELECT length(t) FROM $1 WHERE id = $(((seed * 7919 * 104729) % rows + 1));"
}

part_points()
{
	local server i query wrong again

	bench_section "single rows by primary key"
	for server in near far; do
		wrong=0
		again=0
		for i in $(seq 20); do
			query=$(point_query "cold_$server")
			timed "$query"
			[ "$gets" = 1 ] || wrong=$((wrong + 1))
			timed "$query $query $query"
			[ "$gets" = 1 ] || again=$((again + 1))
		done
		bench_check "$server: each of 20 rows took one GET" 0 "$wrong"
		bench_check "$server: read three times in a session, one GET, too" 0 "$again"
		repeated point_query "cold_$server"
		bench_say "$server: $ms ms $(spent)"
	done
}

# list_query TABLE N: N keys that were not asked for before
list_query()
{
	local list="" i

	for i in $(seq "$2"); do
		list="$list, $(((RANDOM * 32768 + RANDOM) % keys))"
	done
	echo "SELECT count(v), sum(length(t)) FROM $1 WHERE k IN (${list#, });"
}

# list_by_curl N: N requests for a block each, at random places of the table's objects, by the curl
# program, 64 at a time as a session has them; sets ms.
list_by_curl()
{
	local config=$BENCH_ROOT/requests keys key least from started i

	mapfile -t keys < <(objects cold_far)
	least=$(bench_sql bench "SELECT min(stored_bytes) * 9 / 10 FROM lsm_segments('cold_far') WHERE object_key IS NOT NULL")
	for i in $(seq "$1"); do
		key=${keys[$((RANDOM % ${#keys[@]}))]}
		from=$(((RANDOM * 32768 + RANDOM) % least))
		[ "$i" = 1 ] || echo next
		printf 'url = "%s/bucket/%s"\nrange = "%s-%s"\noutput = "/dev/null"\n' "$far" "$key" "$from" "$((from + 9999))"
		printf 'header = "x-amz-content-sha256: UNSIGNED-PAYLOAD"\nuser = "key:secret"\naws-sigv4 = "aws:amz:us-east-1:s3"\nfail\nsilent\n'
	done >"$config"
	started=$(date +%s%N)
	curl --no-progress-meter --parallel --parallel-immediate --parallel-max 64 -K "$config" ||
		bench_fail "curl could not read the objects"
	ms=$(bench_calc %.1f "($(date +%s%N) - $started) / 1000000")
}

part_lists()
{
	local server n first i
	local -a by_curl=()

	bench_section "lists of keys with 150 rows each, at random places"
	bench_sql bench "EXPLAIN $(list_query cold_far 4)"
	for server in home near far; do
		for n in 1 2 4; do
			repeated list_query "cold_$server" "$n"
			[ "$n" != 1 ] || first=$ms
			bench_say "$server: $n keys: $ms ms $(spent), $gets GETs, $(bench_calc %.2f "$ms / $first") of one key's time"
		done
		[ "$server" != far ] ||
			at_most "$server: 600 rows, over the time of 150" 1.5 "$(bench_calc %.2f "$ms / $first")"
	done
	command -v curl >/dev/null || return 0
	for i in $(seq "$rounds"); do
		for n in 150 600; do
			list_by_curl "$n"
			by_curl[n]="${by_curl[n]:-} $ms"
		done
	done
	# shellcheck disable=SC2086
	bench_say "far: as many requests by curl alone, without a database: 150 in $(bench_median ${by_curl[150]}) ms," \
		"600 in $(bench_median ${by_curl[600]}) ms, $(bench_calc %.2f "$(bench_median ${by_curl[600]}) / $(bench_median ${by_curl[150]})") of that"
}

range_query()
{
	local from=$((((RANDOM * 32768 + RANDOM) % rows) * 9 / 10))

	echo "SELECT sum(v) FROM $1 WHERE id BETWEEN $from AND $((from + $2 - 1));"
}

part_ranges()
{
	local n base direct

	bench_section "sums over ranges of rows"
	repeated range_query cold_home 50
	base=$ms
	repeated range_query cold_near 50
	bench_say "50 rows, the first query of a session: $base ms at home, $ms ms in the store $(spent), $gets GETs"
	bench_say "from here on after a sum over another range, of 50 rows"
	for n in 50 500 50000; do
		prepare="SET lsm.direct_io = on; $(range_query cold_home 50)" repeated range_query cold_home "$n"
		direct=$ms
		prepare=$(range_query cold_home 50) repeated range_query cold_home "$n"
		base=$ms
		bench_say "$n rows: $ms ms at home $(spent), $direct ms past the page cache"
		prepare=$(range_query cold_near 50) repeated range_query cold_near "$n"
		bench_say "$n rows: $ms ms in the store $(spent), $gets GETs"
		[ "$n" != 50000 ] || at_least "50000 rows, speed over that at home" 0.9 "$(bench_calc %.2f "$base / $ms")"
		prepare=$(range_query cold_far 50) repeated range_query cold_far "$n"
		bench_say "$n rows: $ms ms in the store behind the proxy $(spent), $gets GETs"
	done
}

# sizes_query TABLE: a sum over a quarter of the table, which reads all of its blocks
sizes_query()
{
	echo "SELECT sum(v) FROM $1 WHERE id <= $((rows / 4));"
}

# Time against the size of requests, by medium: at home past the page cache.  The default must
# not be far from the best.
part_sizes()
{
	local place size setting bytes best default default_ms

	bench_section "size of requests"
	for place in home near far; do
		best=
		default=512
		[ "$place" = home ] || default=4096
		bytes=$(bench_sql bench "SELECT sum(stored_bytes) / 4 FROM lsm_segments('cold_$place')")
		for size in 16 64 256 512 1024 2048 4096 8192; do
			setting="SET lsm.store_read_size = $size;"
			[ "$place" != home ] || setting="SET lsm.direct_io = on; SET lsm.multiblock_read_size = $size;"
			prepare=$setting repeated sizes_query "cold_$place"
			bench_say "$place: $size kB: $ms ms $(spent), $gets GETs, $(mb "$(bench_calc %.0f "$bytes / $ms * 1000")") a second"
			best=$(bench_calc %.1f "${best:-$ms} < $ms ? ${best:-$ms} : $ms")
			[ "$size" != "$default" ] || default_ms=$ms
		done
		at_most "$place: time with $default kB (default), over the best" 1.25 "$(bench_calc %.2f "$default_ms / $best")"
	done
}

# objects SERVER_TABLE: keys of its objects
objects()
{
	bench_sql bench "SELECT object_key FROM lsm_segments('$1') WHERE object_key IS NOT NULL" | sort
}

start_workers()
{
	bench_sql bench "ALTER SYSTEM SET lsm.compaction_workers = 2"
	bench_server_stop fast
	bench_server_start
}

part_major()
{
	local table before after new old base ratio i first=$((rows / 3))
	local -A all=() last=()

	bench_section "compaction"
	start_workers
	for i in $(seq "$rounds"); do
		for table in cold_home cold_near cold_far; do
			bench_sql bench "UPDATE $table SET v = v + 1 WHERE id % 10 = $i" >/dev/null
			bench_sql bench "SELECT lsm_flush('$table'); CHECKPOINT" >/dev/null
			timed "SELECT lsm_major_compact('$table');"
			all[$table]="${all[$table]:-} $ms"
			last[$table]=$(spent)
		done
	done
	# shellcheck disable=SC2086
	for table in cold_home cold_near cold_far; do
		ms=$(bench_median ${all[$table]})
		bench_say "${table#cold_}: every tenth row updated, compacted in $ms ms ($(bench_spread ${all[$table]})); the last time ${last[$table]}"
		[ "$table" != cold_home ] || base=$ms
		ratio=$(bench_calc %.2f "$ms / $base")
		[ "$table" != cold_near ] || at_most "near: compaction, over the time at home" 1.25 "$ratio"
		[ "$table" != cold_far ] || bench_say "far: compaction, over the time at home: $ratio"
	done

	for table in cold_near; do
		objects "$table" >"$BENCH_ROOT/before"
		before=$(stat "sum(bytes_written), sum(bytes_read)")
		bench_sql bench "UPDATE $table SET v = v + 1 WHERE id BETWEEN $first AND $((first + rows / 100));
			SELECT lsm_flush('$table'); SELECT lsm_major_compact('$table')" >/dev/null
		after=$(stat "sum(bytes_written), sum(bytes_read)")
		objects "$table" >"$BENCH_ROOT/after"
		new=$(comm -13 "$BENCH_ROOT/before" "$BENCH_ROOT/after" | wc -l)
		old=$(comm -23 "$BENCH_ROOT/before" "$BENCH_ROOT/after" | wc -l)
		bench_say "1 % of the rows updated in one range: of $(wc -l <"$BENCH_ROOT/before") objects $old were rewritten as $new;" \
			"put $(mb "$((${after%|*} - ${before%|*}))"), got $(mb "$((${after#*|} - ${before#*|}))")"
		at_most "objects rewritten for 1 % of the rows in one range" \
			"$(($(wc -l <"$BENCH_ROOT/before") / 50 + 2))" "$old"
	done
}

# insert_run TABLE SECONDS: inserts, while workers look after that table; sets tps.  What was
# inserted before is flushed first, so that there is something to compact and to move.
insert_run()
{
	bench_sql bench "SELECT lsm_flush('$1'); ALTER TABLE $1 RESET (lsm.auto_compact)" >/dev/null
	echo "INSERT INTO $1 (k, t) SELECT (random() * 1000000)::int, md5(random()::text) || md5(random()::text)
		FROM generate_series(1, 20)" >"$BENCH_ROOT/insert.sql"
	"$PGBIN/pgbench" -n -f "$BENCH_ROOT/insert.sql" -c "$clients" -j 2 -T "$2" bench \
		>"$BENCH_ROOT/pgbench.$1" 2>&1 || { cat "$BENCH_ROOT/pgbench.$1"; bench_die "pgbench failed"; }
	tps=$(bench_pgbench_tps "$BENCH_ROOT/pgbench.$1")
	bench_sql bench "ALTER TABLE $1 SET (lsm.auto_compact = off)"
	while [ "$(bench_sql bench "SELECT count(*) FROM lsm_stat_progress_compaction")" != 0 ]; do sleep 0.1; done
}

part_inserts()
{
	local base objects order i
	local -A all=()

	bench_section "inserts while workers move segments out, the tables in turn"
	bench_sql bench "ALTER SYSTEM SET lsm.block_cache_size = '64MB'"
	start_workers
	for table in ins_home ins_near ins_far; do
		bench_sql bench "CREATE TABLE $table (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k int, t text)
			USING lsm WITH (lsm.auto_compact = off)"
		[ "$table" = ins_home ] || bench_sql bench "ALTER TABLE $table SET (lsm.cold_store = '${table#ins_}')"
		insert_run "$table" "$((seconds / rounds + 1))"
	done
	# rates change as tables grow, so every second round goes the other way
	for i in $(seq "$rounds"); do
		[ $((i % 2)) = 1 ] && order="ins_home ins_near ins_far" || order="ins_far ins_near ins_home"
		for table in $order; do
			insert_run "$table" "$((seconds / rounds + 1))"
			all[$table]="${all[$table]:-} $tps"
		done
	done
	# shellcheck disable=SC2086
	for table in ins_home ins_near ins_far; do
		tps=$(bench_median ${all[$table]})
		objects=$(bench_sql bench "SELECT count(*) FILTER (WHERE location <> 'local') || ' of ' || count(*) FROM lsm_segments('$table')")
		bench_say "${table#ins_}: $(bench_calc %.0f "$tps * 20") rows a second ($(bench_spread ${all[$table]}) times 20);" \
			"$objects segments in a store at the end, $(bench_sql bench "SELECT major_compactions || ' majors' FROM lsm_stat_tables WHERE relname = '$table'")"
		[ "$table" != ins_home ] || base=$tps
		[ "$table" = ins_home ] || [ "${objects%% *}" != 0 ] ||
			bench_fail "${table#ins_}: no segment was moved: the run was too short to say anything"
		[ "$table" = ins_home ] ||
			at_least "${table#ins_}: rows a second, over those at home" 0.95 "$(bench_calc %.2f "$tps / $base")"
	done
}

bench_start
bench_create_database bench
start_store
for table in cold_home cold_near cold_far; do
	make_table "$table"
done
bench_say "tables of $rows rows, $(bench_sql bench "SELECT round(sum(stored_bytes) / 1048576.0) || ' MB in ' || count(*) || ' segments' FROM lsm_segments('cold_near')"); $delay ms are added to each request of server \"far\""
case " $parts " in
	*" move "*) part_move ;;
	*)
		for table in near far; do
			bench_sql bench "ALTER TABLE cold_$table SET (lsm.cold_store = '$table')"
			move "cold_$table"
		done ;;
esac
for part in points lists ranges sizes major inserts; do
	case " $parts " in *" $part "*) "part_$part" ;; esac
done
bench_finish
