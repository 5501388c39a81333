#!/bin/bash
#
# lineitem.sh [SCALE]		(1)
#	  TPC-H lineitem in heap and lsm: the same answers at every stage of a
#	  segment's life, and the room that the rows take.
#
# The answers are queries 1 and 6, the count, and one hash over all columns of
# all rows, compared before and after flush, after an update of a tenth of the
# rows, and after minor and major compaction.
#
# Environment: see lib.sh, and
#	  LINEITEM_FILE	rows to load instead of generated ones ('|' between
#					columns, none after the last)

. "$(dirname "$0")/lib.sh"

scale=${1:-1}
floor=4.5

q1="
	SELECT l_returnflag, l_linestatus,
		   sum(l_quantity) AS sum_qty,
		   sum(l_extendedprice) AS sum_base_price,
		   sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
		   sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
		   avg(l_quantity) AS avg_qty,
		   avg(l_extendedprice) AS avg_price,
		   avg(l_discount) AS avg_disc,
		   count(*) AS count_order
	FROM @
	WHERE l_shipdate <= date '1998-12-01' - interval '90' day
	GROUP BY l_returnflag, l_linestatus
	ORDER BY l_returnflag, l_linestatus"
q6="
	SELECT sum(l_extendedprice * l_discount) AS revenue
	FROM @
	WHERE l_shipdate >= date '1994-01-01'
	  AND l_shipdate < date '1994-01-01' + interval '1' year
	  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01
	  AND l_quantity < 24"
count="SELECT count(*) FROM @"
hash="SELECT sum(hashtextextended(l::text, 0)::numeric) FROM @ l"

# One row in ten, scattered, the same ones in both tables.
update="
	WITH u AS (
	UPDATE @ SET l_quantity = l_quantity + 1,
				 l_discount = 0.10 - l_discount,
				 l_shipdate = l_shipdate + 7,
				 l_shipmode = 'CARRIER',
				 l_comment = left(reverse(l_comment), 40)
	WHERE (l_orderkey::bigint * 7 + l_linenumber) % 10 = 3
	RETURNING l_orderkey, l_linenumber)
	SELECT count(*), sum(hashtextextended(u::text, 0)::numeric) FROM u"

# timed SQL TABLE: the answer in timed_answer, seconds in timed_seconds.
timed()
{
	local start=$EPOCHREALTIME

	timed_answer=$(bench_sql lineitem "${1//@/$2}" 2>&1) || timed_answer="error: $timed_answer"
	timed_seconds=$(bench_calc %.2f "$EPOCHREALTIME - $start")
}

declare -A heap_answer heap_seconds

# Heap's answers change with the update only.
ask_heap()
{
	local query

	for query in count q1 q6 hash; do
		timed "${!query}" lineitem_heap
		case $timed_answer in
			error:* | '') bench_die "heap does not answer $query: $timed_answer" ;;
		esac
		heap_answer[$query]=$timed_answer
		heap_seconds[$query]=$timed_seconds
	done
}

# compare STAGE
compare()
{
	local query

	for query in count q1 q6 hash; do
		timed "${!query}" lineitem_test
		bench_check "$query $1 (heap ${heap_seconds[$query]} s, $AM $timed_seconds s)" \
			"${heap_answer[$query]}" "$timed_answer"
	done
}

# work STAGE FUNCTION: one function of lsm with its row, then the answers.
work()
{
	bench_section "$1"
	bench_lsm lineitem "$2" lineitem_test || bench_fail "lsm_$2"
	compare "$1"
}

show_sizes()
{
	local heap_bytes=$1 stored ratio

	"$PGBIN/psql" -X -q -d lineitem -P footer=off -c "
		SELECT level, kind, count(*) AS segments, sum(rows) AS rows,
			   sum(versions) AS versions, sum(blocks) AS blocks,
			   sum(raw_bytes) AS raw_bytes, sum(stored_bytes) AS stored_bytes
		FROM lsm_segments('lineitem_test') GROUP BY level, kind ORDER BY level, kind"
	stored=$(bench_sql lineitem "SELECT sum(stored_bytes) FROM lsm_segments('lineitem_test')")
	bench_expect lineitem "after major compaction segments hold every row, and no increments are left" t "
		SELECT sum(rows) = (SELECT count(*) FROM lineitem_heap)
		   AND count(*) FILTER (WHERE kind = 'increment') = 0
		FROM lsm_segments('lineitem_test')"
	bench_say "heap as loaded, pg_table_size:              $heap_bytes"
	bench_say "heap now, pg_table_size:                    $(bench_sql lineitem "SELECT pg_table_size('lineitem_heap')")"
	bench_say "lsm, sum of stored_bytes:                   $stored"
	bench_say "lsm, pg_table_size (free ranges included):  $(bench_sql lineitem "SELECT pg_table_size('lineitem_test')")"
	if [ "${stored:-0}" = 0 ]; then
		bench_fail "there are no segments"
		return
	fi
	ratio=$(bench_calc %.2f "$heap_bytes / $stored")
	if awk "BEGIN { exit !($ratio >= $floor) }"; then
		bench_pass "heap as loaded / stored_bytes = $ratio, required: at least $floor"
	else
		bench_fail "heap as loaded / stored_bytes = $ratio, required: at least $floor"
	fi
}

file=${LINEITEM_FILE:-$(bench_lineitem_file "$scale")}
file=$(realpath "$file")
bench_start

bench_section "load of $file, $(wc -l <"$file") rows"
bench_create_database lineitem
bench_sql lineitem "$(bench_lineitem_ddl lineitem_heap heap)"
bench_sql lineitem "$(bench_lineitem_ddl lineitem_test "$AM")"
bench_expect_am lineitem lineitem_test
for table in lineitem_heap lineitem_test; do
	start=$EPOCHREALTIME
	bench_lineitem_copy lineitem "$table" "$file"
	bench_say "      COPY $table: $(bench_calc %.1f "$EPOCHREALTIME - $start") s"
done
heap_bytes=$(bench_sql lineitem "SELECT pg_table_size('lineitem_heap')")

# Outside of the timing, and without it the first query would set heap's hint bits.
bench_sql lineitem "VACUUM ANALYZE lineitem_heap"
bench_sql lineitem "ANALYZE lineitem_test"
ask_heap
compare "before flush"
work "after flush" flush

bench_section "update of a tenth of the rows"
timed "$update" lineitem_heap
rows=${timed_answer%%|*}
heap_answer[update]=$timed_answer heap_seconds[update]=$timed_seconds
timed "$update" lineitem_test
bench_check "the same $rows rows updated (heap ${heap_seconds[update]} s, $AM $timed_seconds s)" \
	"${heap_answer[update]}" "$timed_answer"
ask_heap
compare "after the update"
work "after flush of the update" flush
work "after minor compaction" minor_compact
work "after major compaction" major_compact

bench_section "soundness and size"
bench_verify lineitem
if [ "$AM" = lsm ]; then
	show_sizes "$heap_bytes"
else
	bench_say "heap as loaded, pg_table_size: $heap_bytes"
fi
bench_finish
