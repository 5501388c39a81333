#!/bin/bash
#
# decode.sh [ROWS]		(4000)
#	  How fast column chunks are read: million rows a second by one process, of each
#	  encoding, for blocks of so many rows.
#
# "ints" are numbers as 64 bits each, which conditions and sums of products go by; "sum" is
# taken from what is stored; "datums" are what a slot gets.  Opening the chunk is within
# each figure.  They are told, there are no floors; chunks fit the processor's cache.
#
# Environment: see lib.sh

. "$(dirname "$0")/lib.sh"

[ "$AM" = lsm ] || bench_die "only lsm has chunks"
rows=${1:-4000}

# rate WHAT EXPRESSION: of values of an expression over i, from 1 to ROWS.
rate()
{
	bench_say "$(printf '%-34s' "$1") $(bench_sql bench "SELECT lsm_test_chunk_rate(array_agg($2 ORDER BY i)) FROM generate_series(1, $rows) i")"
}

bench_start
bench_create_database bench
bench_sql bench "CREATE FUNCTION lsm_test_chunk_rate(anyarray) RETURNS text AS 'lsm' LANGUAGE C STRICT;
	CREATE FUNCTION noise(i bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT hashint8extended(i, 0) & x''7fffffffffffffff''::bigint'"
bench_section "million rows a second, chunks of $rows rows"
rate "one value" "42"
for bits in 1 2 4 8 12 16 20 24 32 48; do
	rate "integers of $bits bits" "(noise(i) % (1::bigint << $bits))::bigint"
done
rate "a key that counts up" "i"
rate "a time that goes up unevenly" "i * 1000 + noise(i) % 700"
rate "runs of 20" "i / 20"
rate "few values, anywhere" "(noise(i) % 7) * 1000000007"
rate "numeric(12,2)" "(noise(i) % 10000000 / 100.0)::numeric(12,2)"
rate "float8" "noise(i)::float8 / 3"
rate "one in ten null" "CASE WHEN noise(i) % 10 > 0 THEN (noise(i) % 5000)::int END"
rate "seven words" "(ARRAY['AIR', 'TRUCK', 'MAIL', 'SHIP', 'RAIL', 'FOB', 'REG AIR'])[noise(i) % 7 + 1]"
rate "text of random digits" "md5(i::text)"
rate "text that compresses" "'row number ' || noise(i) % 100000 || ' of the table, as ever'"
bench_finish
