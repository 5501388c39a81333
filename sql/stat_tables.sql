--
-- lsm_stat_tables: what is counted, and what it comes to
--
CREATE FUNCTION lsm_test_stat_error(oid, text, text) RETURNS void LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_stat_stall(oid, bigint) RETURNS void LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_stat_fill(int, int) RETURNS void LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_stat_kept(int, int) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
SET max_parallel_workers_per_gather = 0;
SET enable_indexonlyscan = off;

CREATE TABLE st (id int PRIMARY KEY, v int, t text) USING lsm WITH (autovacuum_enabled = off);
CREATE VIEW st_reads AS SELECT rows_read, rows_memtable, rows_segments, records_memtable, records_segments,
	round(read_amplification::numeric, 2) AS amplification FROM lsm_stat_tables WHERE relname = 'st';
CREATE VIEW st_table AS SELECT memtable_bytes > 0 AS memtable, increments, increment_bytes > 0 AS bytes,
	dead_versions, dead_rows FROM lsm_stat_tables WHERE relname = 'st';
CREATE VIEW st_jobs AS SELECT flushes, flush_bytes_read > 0 AS read, flush_bytes_written > 0 AS written,
	minor_compactions AS minor, minor_bytes_read > 0 AS minor_read, minor_bytes_written > 0 AS minor_written,
	major_compactions AS major, major_bytes_read > 0 AS major_read, major_bytes_written > 0 AS major_written
	FROM lsm_stat_tables WHERE relname = 'st';

-- nothing yet
SELECT * FROM st_reads;
SELECT * FROM st_table;
SELECT * FROM st_jobs;
SELECT write_amplification, space_amplification FROM lsm_stat_tables WHERE relname = 'st';

-- reading the memtable
INSERT INTO st SELECT i, i, 'row ' || i FROM generate_series(1, 1000) i;
SELECT count(ctid) AS count FROM st;
SELECT * FROM st_reads;
SELECT v FROM st WHERE id = 17;
SELECT * FROM st_reads;
SELECT * FROM st_table;
-- rows that are gone are examined, and not returned
BEGIN;
DELETE FROM st WHERE id > 500;
SELECT lsm_stat_reset();
SELECT count(ctid) AS count FROM st;
SELECT * FROM st_reads;
ROLLBACK;

-- reading segments: one record a row
SELECT rows_in, rows_out FROM lsm_flush('st');
SELECT lsm_stat_reset();
SELECT count(ctid) AS count FROM st;
SELECT * FROM st_reads;
SELECT * FROM st_table;
-- one block, one index; looking at the same row again finds both
SELECT data_blocks_read + data_blocks_hit > 0 AS data, index_blocks_read + index_blocks_hit > 0 AS index
	FROM lsm_stat_tables WHERE relname = 'st';
SELECT lsm_stat_reset();
SELECT v FROM st WHERE id = 17;
SELECT v FROM st WHERE id = 17;
SELECT rows_read, data_blocks_read, data_blocks_hit, index_blocks_read, index_blocks_hit > 0 AS index_hit
	FROM lsm_stat_tables WHERE relname = 'st';
\c -
SET max_parallel_workers_per_gather = 0;
SET enable_indexonlyscan = off;
SELECT lsm_stat_reset();
SELECT v FROM st WHERE id = 17;
SELECT rows_read, data_blocks_read, data_blocks_hit, index_blocks_read FROM lsm_stat_tables WHERE relname = 'st';

-- increments cost reading: an updated row has a record there besides its first
UPDATE st SET v = v + 1, t = 'changed ' || id WHERE id <= 200;
SELECT rows_in, rows_out FROM lsm_flush('st');
DELETE FROM st WHERE id > 900;
SELECT rows_in, rows_out FROM lsm_flush('st');
SELECT * FROM st_table;
SELECT lsm_stat_reset();
SELECT count(*), sum(v) FROM st;
SELECT * FROM st_reads;
SELECT sum(rows_read) AS rows_read, sum(records) AS records, count(*) > 1 AS ranges,
	bool_and(first_block <= last_block) AS valid FROM lsm_stat_key_ranges('st');

-- jobs; one that finds nothing to do is none
SELECT segments_in, rows_in FROM lsm_minor_compact('st');
SELECT segments_in, rows_in FROM lsm_minor_compact('st');
SELECT * FROM st_jobs;
SELECT * FROM st_table;
SELECT segments_in, rows_in, rows_out FROM lsm_major_compact('st');
SELECT * FROM st_jobs;
SELECT * FROM st_table;
-- key ranges begin anew
SELECT count(*) FROM lsm_stat_key_ranges('st');
VACUUM st;
SELECT * FROM st_table;
SELECT lsm_stat_reset();
SELECT count(*), sum(v) FROM st;
SELECT * FROM st_reads;

-- parallel workers count, too
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT lsm_stat_reset();
SELECT count(*), sum(v) FROM st;
SELECT * FROM st_reads;
SET max_parallel_workers_per_gather = 0;

-- bytes are those that the functions tell
CREATE TABLE st2 (id int, v int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO st2 SELECT i, i FROM generate_series(1, 2000) i;
SELECT bytes_read AS fr, bytes_written AS fw FROM lsm_flush('st2') \gset
UPDATE st2 SET v = -v WHERE id % 2 = 0;
SELECT bytes_read + :fr AS fr, bytes_written + :fw AS fw FROM lsm_flush('st2') \gset
SELECT bytes_read AS mr, bytes_written AS mw FROM lsm_major_compact('st2') \gset
SELECT flushes, flush_bytes_read = :fr AS flush_read, flush_bytes_written = :fw AS flush_written,
	major_compactions, major_bytes_read = :mr AS major_read, major_bytes_written = :mw AS major_written,
	write_amplification = (:fw + :mw)::float8 / :fw AS write_amplification,
	space_amplification >= 1 AS space_amplification
	FROM lsm_stat_tables WHERE relname = 'st2';
-- segments that are moved as they are have been written, too
CREATE TABLE st5 (id int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO st5 SELECT i, md5(i::text) FROM generate_series(1, 40000) i;
SELECT count(*) AS flush FROM lsm_flush('st5');
SELECT moves, moved_bytes, write_amplification FROM lsm_stat_tables WHERE relname = 'st5';
VACUUM st5;
SELECT moves > 0 AS moves, moved_bytes >= 64 * 8192 AS bytes, moved_bytes % 8192 AS rest,
	write_amplification = (flush_bytes_written + moved_bytes)::float8 / flush_bytes_written AS write_amplification
	FROM lsm_stat_tables WHERE relname = 'st5';
DROP TABLE st5;
-- TRUNCATE and rewrites keep the counters
TRUNCATE st2;
VACUUM FULL st2;
SELECT flushes, major_compactions, increments, memtable_bytes FROM lsm_stat_tables WHERE relname = 'st2';
-- a rolled-back transaction has read what it has read
SELECT lsm_stat_reset();
INSERT INTO st2 VALUES (1, 1), (2, 2);
BEGIN;
SELECT count(ctid) AS count FROM st2;
ROLLBACK;
SELECT rows_read FROM lsm_stat_tables WHERE relname = 'st2';
-- in the same transaction, and in a failed subtransaction
BEGIN;
SAVEPOINT s;
SELECT count(ctid) AS count FROM st2;
SELECT 1 / 0;
ROLLBACK TO s;
SELECT rows_read FROM lsm_stat_tables WHERE relname = 'st2';
COMMIT;
SELECT rows_read FROM lsm_stat_tables WHERE relname = 'st2';

-- what other processes have to say
SELECT lsm_test_stat_stall('st'::regclass, 1500), lsm_test_stat_stall('st'::regclass, 2500),
	lsm_test_stat_stall('st'::regclass, 500);
SELECT stalls, stall_time, longest_stall FROM lsm_stat_tables WHERE relname = 'st';
SELECT errors, last_error, last_error_code, last_error_time FROM lsm_stat_tables WHERE relname = 'st';
SELECT lsm_test_stat_error('st'::regclass, '53100', 'could not extend file: no space');
SELECT lsm_test_stat_error('st'::regclass, 'XX001', repeat('ä', 200));
SELECT errors, last_error = left(repeat('ä', 200), length(last_error)) AS cut, octet_length(last_error) BETWEEN 250 AND 255 AS length,
	last_error_code, last_error_time BETWEEN now() - interval '1 h' AND clock_timestamp() AS time
	FROM lsm_stat_tables WHERE relname = 'st';
SELECT lsm_stat_reset();
SELECT stalls, stall_time, longest_stall, errors, last_error, last_error_time,
	stats_reset BETWEEN now() - interval '1 h' AND clock_timestamp() AS reset FROM lsm_stat_tables WHERE relname = 'st';

-- what jobs are chosen by stays as it is: records that were read in vain
CREATE FUNCTION lsm_test_pick_table(regclass) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE st6 (id int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO st6 SELECT generate_series(1, 2000);
DELETE FROM st6 WHERE id > 10;
SELECT sum(c) FROM (SELECT (SELECT count(ctid) FROM st6 WHERE id <> -i) AS c FROM generate_series(1, 20) i OFFSET 0) x;
SELECT split_part(lsm_test_pick_table('st6'), ',', 1) AS choice;
SELECT lsm_stat_reset();
SELECT rows_read, records_memtable FROM lsm_stat_tables WHERE relname = 'st6';
SELECT split_part(lsm_test_pick_table('st6'), ',', 1) AS choice;
DROP TABLE st6;
DROP FUNCTION lsm_test_pick_table(regclass);

-- a row log that is full makes its writer wait
CREATE TABLE st3 (id int, v int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO st3 SELECT i, i, repeat('x', 2000) FROM generate_series(1, 40000) i;
SELECT flushes > 0 AS flushes, stalls > 0 AS stalls, stall_time >= longest_stall AS time, longest_stall > 0 AS longest
	FROM lsm_stat_tables WHERE relname = 'st3';

-- who keeps old versions: we do
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_current_xact_id() IS NOT NULL AS xid;
SELECT pinned_pid = pg_backend_pid() AS me, pinned_xid <= pg_current_xact_id() AS xid, pinned_by
	FROM lsm_stat_tables WHERE relname = 'st';
COMMIT;

-- partitioned tables, views, heap tables and what does not exist have no row
CREATE TABLE st_heap (a int) USING heap;
CREATE TABLE st_part (a int) PARTITION BY LIST (a);
CREATE MATERIALIZED VIEW st_mat USING lsm AS SELECT 1 AS a;
SELECT relname FROM lsm_stat_tables WHERE relname LIKE 'st%' ORDER BY relname;
SELECT count(*) FROM lsm_stat_table('st_heap'::regclass);
SELECT count(*) FROM lsm_stat_table('st_reads'::regclass);
SELECT count(*) FROM lsm_stat_table('st_pkey'::regclass);
SELECT count(*) FROM lsm_stat_table(0);
SELECT count(*) FROM lsm_stat_key_ranges('st_heap');
SELECT rows_read FROM lsm_stat_table('st_mat'::regclass);

-- more tables than there are entries: those that rest make room for others
SELECT count(ctid) AS count FROM st2;
SELECT rows_read > 0 AS counted FROM lsm_stat_tables WHERE relname = 'st2';
SELECT lsm_test_stat_fill(0, 5000);
SELECT rows_read, errors, stats_reset FROM lsm_stat_tables WHERE relname = 'st2';
SELECT count(ctid) AS count FROM st2;
SELECT rows_read > 0 AS counted FROM lsm_stat_tables WHERE relname = 'st2';

-- many of them at a time, those that have rested for the longest time; each is found once
DO $$
DECLARE
	kept int[];
BEGIN
	FOR i IN 5000 .. 5299 LOOP
		PERFORM lsm_test_stat_fill(i, 1);
		kept := kept || lsm_test_stat_kept(0, 5300);
		IF i % 20 = 0 AND lsm_test_stat_kept(i - 3499, 3500) <> 3500 THEN
			RAISE WARNING 'one of the last tables is gone at %', i;
		END IF;
	END LOOP;
	RAISE NOTICE 'they make room for more: %', (SELECT max(k) - min(k) BETWEEN 200 AND 300 FROM unnest(kept) k);
END $$;

-- many blocks: the key ranges get wider, and lose nothing
CREATE TABLE st4 (id int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO st4 SELECT i, repeat('x', 1000) FROM generate_series(1, 1000) i;
SELECT rows_out FROM lsm_flush('st4');
SELECT count(ctid) AS count FROM st4;
INSERT INTO st4 SELECT i, repeat('x', 1000) FROM generate_series(1001, 3000) i;
SELECT rows_out FROM lsm_flush('st4');
SELECT count(ctid) AS count FROM st4;
SELECT sum(rows_read), sum(records), max(last_block) >= 3000 / 7 AS wide, count(*) <= 32 AS few
	FROM lsm_stat_key_ranges('st4');

DROP VIEW st_reads, st_table, st_jobs;
DROP MATERIALIZED VIEW st_mat;
DROP TABLE st, st2, st3, st4, st_heap, st_part;
DROP FUNCTION lsm_test_stat_error(oid, text, text);
DROP FUNCTION lsm_test_stat_stall(oid, bigint);
DROP FUNCTION lsm_test_stat_fill(int, int);
DROP FUNCTION lsm_test_stat_kept(int, int);
