#!/bin/bash
#
# tpcb.sh [CLIENTS [SECONDS [SCALE]]]		(4, 60, 10)
#	  pgbench's TPC-B on lsm tables that are flushed and compacted all the
#	  while, then a crash: no transaction lost, none half there.
#
# Environment: see lib.sh.

. "$(dirname "$0")/lib.sh"
. "$BENCH_SRC/crash.sh"

clients=${1:-4}
seconds=${2:-60}
scale=${3:-10}

crash_tables="pgbench_accounts pgbench_tellers pgbench_branches pgbench_history"
crash_consistent_sql="
	SELECT (SELECT sum(abalance) FROM pgbench_accounts) = h.delta
	   AND (SELECT sum(tbalance) FROM pgbench_tellers) = h.delta
	   AND (SELECT sum(bbalance) FROM pgbench_branches) = h.delta
	FROM (SELECT coalesce(sum(delta), 0) AS delta FROM pgbench_history) h"
crash_count_sql="SELECT count(*) FROM pgbench_history"

# verify_balances KIND: each row's balance against the history.
verify_balances()
{
	bench_expect tpcb "balance of each of pgbench_$1 agrees with the history" 0 "
		SELECT count(*)
		FROM pgbench_$1 b
		FULL JOIN (SELECT $2 AS id, sum(delta) AS delta
				   FROM pgbench_history GROUP BY $2) h ON h.id = b.$2
		WHERE b.$2 IS NULL OR b.$3 IS DISTINCT FROM coalesce(h.delta, 0)"
}

crash_verify()
{
	bench_expect tpcb "sums of balances agree with the history" t "$crash_consistent_sql"
	verify_balances accounts aid abalance
	verify_balances tellers tid tbalance
	verify_balances branches bid bbalance
	bench_expect tpcb "number of accounts, tellers and branches" \
		"$((scale * 100000))|$((scale * 10))|$scale" "
		SELECT (SELECT count(*) FROM pgbench_accounts),
			   (SELECT count(*) FROM pgbench_tellers),
			   (SELECT count(*) FROM pgbench_branches)"
	bench_expect tpcb "index and sequential scan find the same accounts" t "
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		SET enable_indexonlyscan = off; SET max_parallel_workers_per_gather = 0;
		SELECT count(*) AS rows, sum(abalance) AS balance, sum(aid::bigint * abalance) AS product
		FROM pgbench_accounts WHERE aid > 0 \gset
		RESET ALL;
		SELECT (count(*), sum(abalance), sum(aid::bigint * abalance)) = (:rows, :balance, :product)
		FROM pgbench_accounts"
}

bench_start
bench_section "pgbench -i, scale $scale"
bench_create_database tpcb
bench_with_am "$PGBIN/pgbench" -i -q -s "$scale" tpcb 2>&1 | tail -n 1
bench_expect_am tpcb $crash_tables
crash_run tpcb "$clients" "$seconds" -b tpcb-like
bench_finish
