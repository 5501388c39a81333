-- Index scans that find rows all over a table of many blocks: rows that are foreseen, blocks that
-- stay in the session's cache.  The same queries on heap must give the same answers.
CREATE TABLE lookups_heap (id int, k int, h text, n numeric(12,2), m numeric, c text) USING heap;
INSERT INTO lookups_heap SELECT i, i::int8 * 7919 % 4001, 'h' || i % 997, i * 0.25, CASE WHEN i % 9 > 0 THEN i * 1000.5 END, md5(i::text) || i
	FROM generate_series(1, 40000) i;
CREATE TABLE lookups_lsm (LIKE lookups_heap) USING lsm WITH (lsm.block_size = '8kB', autovacuum_enabled = off);
INSERT INTO lookups_lsm SELECT * FROM lookups_heap;
SELECT FROM lsm_flush('lookups_lsm');
SELECT FROM lsm_major_compact('lookups_lsm');
DO $$
BEGIN
	FOR i IN 1 .. 2 LOOP
		EXECUTE format('CREATE INDEX ON %I (k, id)', (ARRAY['lookups_heap', 'lookups_lsm'])[i]);
		EXECUTE format('CREATE INDEX ON %I (id)', (ARRAY['lookups_heap', 'lookups_lsm'])[i]);
		EXECUTE format('CREATE INDEX ON %I USING hash (h)', (ARRAY['lookups_heap', 'lookups_lsm'])[i]);
		EXECUTE format('ANALYZE %I', (ARRAY['lookups_heap', 'lookups_lsm'])[i]);
	END LOOP;
END $$;
SELECT sum(blocks) > 256 AS many_blocks FROM lsm_segments('lookups_lsm') WHERE kind <> 'dead list';
CREATE TABLE lookups_outer (k int, h text) USING heap;
INSERT INTO lookups_outer SELECT i * 31, 'h' || i FROM generate_series(1, 120) i;
ANALYZE lookups_outer;
-- Of a session that has decoded no columns: opened blocks take little besides what is stored of them, also
-- when all their numerics have been asked for, one by one.
\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
SET lsm.enable_lsmscan = off;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS off) SELECT sum(n), sum(m) FROM lookups_lsm WHERE id > 0;
SELECT sum(n), sum(m) FROM lookups_lsm WHERE id > 0;
SELECT count(*) > 256 AS many, avg(total_bytes) < 6144 AS small FROM pg_backend_memory_contexts WHERE name = 'lsm block';
CREATE FUNCTION lookups_same(query text, OUT rows bool, OUT same bool, OUT planned bool) LANGUAGE plpgsql AS $$
DECLARE
	heap text;
	lsm text;
	plan jsonb;
BEGIN
	EXECUTE 'SELECT string_agg(q::text, E''\n'') FROM (' || replace(query, '%s', 'lookups_heap') || ') q' INTO heap;
	EXECUTE 'SELECT string_agg(q::text, E''\n'') FROM (' || replace(query, '%s', 'lookups_lsm') || ') q' INTO lsm;
	rows := heap IS NOT NULL;
	same := heap IS NOT DISTINCT FROM lsm;
	EXECUTE 'EXPLAIN (FORMAT json) ' || replace(query, '%s', 'lookups_lsm') INTO plan;
	planned := jsonb_path_exists(plan, 'strict $.** ? (@."Node Type" == "Index Scan" && @."Relation Name" == "lookups_lsm")');
END $$;
CREATE TABLE lookups_queries (number int, query text);
INSERT INTO lookups_queries VALUES
	(1, 'SELECT o.k, sum(s.n), count(s.m), max(s.c) FROM lookups_outer o JOIN %s s ON s.k = o.k GROUP BY o.k ORDER BY o.k'),
	(2, 'SELECT o.k, (SELECT sum(s.n - s.m) FROM %s s WHERE s.k = o.k) FROM lookups_outer o ORDER BY o.k'),
	(3, 'SELECT o.k FROM lookups_outer o WHERE EXISTS (SELECT FROM %s s WHERE s.k = o.k AND s.n > 5000) ORDER BY o.k'),
	(4, 'SELECT o.k, l.* FROM lookups_outer o, LATERAL (SELECT n, c FROM %s s WHERE s.k = o.k ORDER BY id LIMIT 3) l ORDER BY o.k, l.n'),
	(5, 'SELECT o.k, l.* FROM lookups_outer o, LATERAL (SELECT n, m FROM %s s WHERE s.k = o.k ORDER BY id DESC LIMIT 4) l ORDER BY o.k, l.n'),
	(6, 'SELECT o.k, r.n, r.m, s.c FROM lookups_outer o JOIN %s s ON s.k = o.k JOIN %s r ON r.k = s.id % 4001 WHERE o.k < 500 ORDER BY o.k, r.id, s.id'),
	-- an index that finds rows which have to be checked
	(7, 'SELECT o.h, s.n FROM lookups_outer o JOIN %s s ON s.h = o.h WHERE o.k < 2000 ORDER BY o.h, s.n'),
	(8, 'SELECT * FROM %s WHERE k BETWEEN 100 AND 130 ORDER BY k, id'),
	(9, 'SELECT n, m FROM %s WHERE k IN (1, 77, 77, 3999) AND m > 100 ORDER BY k, id'),
	(10, 'SELECT sum(n), sum(m), count(c) FROM %s WHERE id > 0');
SELECT number, r.* FROM lookups_queries, lookups_same(query) r ORDER BY number;
-- with changes in the memtable, in an increment, and rows that have moved or gone
UPDATE lookups_heap SET n = n + 1, c = 'new' WHERE id % 7 = 1;
UPDATE lookups_lsm SET n = n + 1, c = 'new' WHERE id % 7 = 1;
DELETE FROM lookups_heap WHERE id % 50 = 3;
DELETE FROM lookups_lsm WHERE id % 50 = 3;
SELECT number, r.* FROM lookups_queries, lookups_same(query) r ORDER BY number;
SELECT FROM lsm_flush('lookups_lsm');
UPDATE lookups_heap SET k = k + 1, m = NULL WHERE id % 40 = 11;
UPDATE lookups_lsm SET k = k + 1, m = NULL WHERE id % 40 = 11;
SELECT number, r.* FROM lookups_queries, lookups_same(query) r ORDER BY number;
-- after a major compaction roots are more runs than a block remembers as such
SELECT FROM lsm_flush('lookups_lsm');
SELECT FROM lsm_major_compact('lookups_lsm');
SELECT number, r.* FROM lookups_queries, lookups_same(query) r ORDER BY number;
-- a cursor that turns around in what has been foreseen
BEGIN;
DECLARE lookups_cursor SCROLL CURSOR FOR SELECT k, id, n FROM lookups_lsm WHERE k BETWEEN 10 AND 2000 ORDER BY k, id;
FETCH 3 FROM lookups_cursor;
MOVE 20 IN lookups_cursor;
FETCH 2 FROM lookups_cursor;
FETCH BACKWARD 3 FROM lookups_cursor;
FETCH 4 FROM lookups_cursor;
ROLLBACK;
-- an update of what it finds
UPDATE lookups_heap s SET m = s.n FROM lookups_outer o WHERE s.k = o.k;
UPDATE lookups_lsm s SET m = s.n FROM lookups_outer o WHERE s.k = o.k;
SELECT number, r.* FROM lookups_queries, lookups_same(query) r ORDER BY number;
SELECT FROM lsm_check('lookups_lsm');
DROP FUNCTION lookups_same;
DROP TABLE lookups_heap, lookups_lsm, lookups_outer, lookups_queries;
RESET ALL;

-- what a session keeps of a table that it has read does not begin with a large piece
CREATE SCHEMA lo_many;
DO $$
DECLARE
	n int;
BEGIN
	FOR i IN 1 .. 10 LOOP
		EXECUTE format('CREATE TABLE lo_many.t%s (a int) USING lsm', i);
		EXECUTE format('INSERT INTO lo_many.t%s VALUES (%1$s)', i);
		PERFORM lsm_flush(format('lo_many.t%s', i)::regclass);
		EXECUTE format('SELECT a FROM lo_many.t%s', i) INTO n;
		ASSERT n = i;
	END LOOP;
END
$$;
SELECT count(*) AS contexts FROM pg_backend_memory_contexts WHERE name = 'lsm segments';
SET client_min_messages = warning;
DROP SCHEMA lo_many CASCADE;
RESET client_min_messages;
