#!/bin/bash
#
# mixed.sh [CLIENTS [SECONDS [ROWS]]]		(4, 60, 50000)
#	  Inserts, updates of indexed and unindexed columns, deletes, savepoints
#	  and rollbacks on lsm tables that are flushed and compacted all the while,
#	  then a crash: the rows are what the ledger says.
#
# Environment: see lib.sh.

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/crash.sh"

clients=${1:-4}
seconds=${2:-60}
rows=${3:-50000}

crash_tables="mixed_item mixed_ledger"

# Rows that differ from the ledger, or from themselves.
wrong_rows="
	SELECT count(*)
	FROM (SELECT id, sum(drows) AS rows, sum(dbucket) AS bucket,
				 sum(dqty) AS qty, sum(dchanges) AS changes
		  FROM mixed_ledger WHERE op <> 'T' GROUP BY id) l
	FULL JOIN mixed_item i ON i.id = l.id
	WHERE l.id IS NULL
	   OR (l.rows, l.bucket, l.qty, l.changes) IS DISTINCT FROM
		  ((i.id IS NOT NULL)::integer::bigint, coalesce(i.bucket, 0)::bigint,
		   coalesce(i.qty, 0)::bigint, coalesce(i.changes, 0)::bigint)
	   OR i.code <> i.id || '.' || i.bucket
	   OR i.note <> mixed_note(i.qty)
	   OR i.price <> round(i.id / 8.0, 2)"
crash_consistent_sql="SELECT ($wrong_rows) = 0"
crash_count_sql="SELECT count(*) FROM mixed_ledger WHERE op = 'T'"

# verify_index INDEXED_COLUMN CONDITION
verify_index()
{
	bench_expect mixed "index on $1 and sequential scan find the same rows" t "
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		SET enable_indexonlyscan = off; SET max_parallel_workers_per_gather = 0;
		SELECT count(*) AS rows, coalesce(sum(hashtextextended(i::text, 0)::numeric), 0) AS hash
		FROM mixed_item i WHERE $2 \gset
		RESET ALL;
		SET enable_indexscan = off; SET enable_bitmapscan = off;
		SELECT (count(*), coalesce(sum(hashtextextended(i::text, 0)::numeric), 0)) = (:rows, :hash)
		FROM mixed_item i WHERE $2"
}

crash_verify()
{
	bench_expect mixed "rows agree with the ledger and with themselves" 0 "$wrong_rows"
	bench_expect mixed "there are rows, inserts, updates of both kinds and deletes" t "
		SELECT (SELECT count(*) FROM mixed_item) > 0
		   AND count(DISTINCT op) FILTER (WHERE op IN ('I', 'U', 'K', 'D')) = 4
		FROM mixed_ledger"
	verify_index id "id > 0"
	verify_index bucket "bucket BETWEEN -20 AND 60"
	verify_index code "code > ''"
}

bench_start
bench_section "$rows first rows"
bench_create_database mixed
bench_with_am bench_psql mixed -v rows="$rows" -f "$BENCH_SRC/mixed.sql"
bench_expect_am mixed $crash_tables
crash_run mixed "$clients" "$seconds" -f "$BENCH_SRC/mixed.pgbench"
bench_sql mixed "
	SELECT '      ' || count(*) || ' rows now; ledger: ' ||
		   (SELECT string_agg(op::text || ' ' || n, ', ' ORDER BY op)
			FROM (SELECT op, count(*) AS n FROM mixed_ledger GROUP BY op) s)
	FROM mixed_item"
bench_finish
