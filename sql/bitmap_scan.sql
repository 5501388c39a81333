--
-- Bitmap scans, by LsmBitmapScan and by the server's own node: every index type, AND
-- and OR, exact and lossy pages, in each state of the table; a heap table with the same
-- rows tells what is right
--
-- thousands of plans, each of which a server with JIT would compile
SET jit = off;
-- rows loaded in bulk fill their LBs, and there would be too few for lossy pages
SET lsm.debug_load_after = -1;
CREATE TABLE bm (id int, k int, h text, a int[], p point, r int4range, t text) USING lsm;
CREATE TABLE bm_heap (LIKE bm) USING heap;
INSERT INTO bm_heap
	SELECT i, i % 100, 'h' || i % 50, ARRAY[i % 10, 100 + i % 7], point(i % 40, i % 30),
		int4range(i, i + 5), 'row ' || i % 25
	FROM generate_series(1, 3000) i;
INSERT INTO bm SELECT * FROM bm_heap;
CREATE INDEX bm_id ON bm (id);
CREATE INDEX bm_k ON bm (k);
CREATE INDEX bm_h ON bm USING hash (h);
CREATE INDEX bm_a ON bm USING gin (a);
CREATE INDEX bm_p ON bm USING gist (p);
CREATE INDEX bm_r ON bm USING spgist (r);
CREATE INDEX bm_t ON bm USING brin (id) WITH (pages_per_range = 1);
ANALYZE bm;

-- the rows of each condition by both nodes, and whether they are right
CREATE FUNCTION bm_ask(OUT condition text, OUT bitmap bool, OUT rows bigint, OUT wrong bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	line text;
	node text;
	found bool;
	n bigint;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
		set_config('enable_indexonlyscan', 'off', true);
	FOREACH condition IN ARRAY ARRAY[
		'k = 5',
		'k = 5 AND a @> ''{5, 102}''',
		'k IN (5, 6, 7) AND id BETWEEN 500 AND 1500',
		'k = 5 OR a @> ''{4}''',
		'k IN (1, 99) OR h = ''h7'' OR id < 20',
		'h = ''h3'' AND k = 3',
		'a && ''{9, 105}''',
		'p <@ box ''(3,3),(6,9)''',
		'r @> 1234',
		'r && ''[200,260)'' OR p ~= point(1,1)',
		'id BETWEEN 100 AND 140',
		'id = -1'] LOOP
		bitmap := true;
		wrong := 0;
		FOREACH node IN ARRAY ARRAY['Bitmap Heap Scan', 'Custom Scan (LsmBitmapScan)'] LOOP
			PERFORM set_config('lsm.enable_lsmscan', (node LIKE 'Custom%')::text, true);
			found := false;
			FOR line IN EXECUTE 'EXPLAIN SELECT * FROM bm WHERE ' || condition LOOP
				found := found OR line LIKE '%' || node || ' on bm %';
			END LOOP;
			bitmap := bitmap AND found;
			EXECUTE format('WITH l AS (SELECT bm::text FROM bm WHERE %1$s),
					h AS (SELECT bm_heap::text FROM bm_heap WHERE %1$s)
				SELECT (SELECT count(*) FROM l),
					(SELECT count(*) FROM (TABLE l EXCEPT ALL TABLE h) d) +
					(SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE l) d)', condition) INTO rows, n;
			wrong := wrong + n;
			EXECUTE format('SELECT (SELECT coalesce(sum(id), 0) FROM bm WHERE %1$s AND id %% 3 <> 1 AND h <> ''h8'') -
				(SELECT coalesce(sum(id), 0) FROM bm_heap WHERE %1$s AND id %% 3 <> 1 AND h <> ''h8'')', condition) INTO n;
			wrong := wrong + (n <> 0)::int;
		END LOOP;
		RETURN NEXT;
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'on', true),
		set_config('enable_indexonlyscan', 'on', true);
END $$;
SELECT * FROM bm_ask();

-- the same changes to both; how many answers are wrong
CREATE PROCEDURE bm_do(command text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, '%I', 'bm');
	EXECUTE replace(command, '%I', 'bm_heap');
END $$;
CREATE VIEW bm_wrong AS SELECT count(*), sum(rows) AS rows, sum(wrong) AS wrong, bool_and(bitmap) AS bitmap FROM bm_ask();

CALL bm_do($$UPDATE %I SET t = t || '!' WHERE id % 5 = 0$$);
CALL bm_do('DELETE FROM %I WHERE id % 11 = 0');
CALL bm_do('UPDATE %I SET k = 5, a = ''{4, 5}'' WHERE id % 13 = 0');
TABLE bm_wrong;
SELECT count(*) AS flush FROM lsm_flush('bm');
TABLE bm_wrong;
CALL bm_do($$UPDATE %I SET t = 'two' WHERE id % 7 = 0$$);
CALL bm_do('UPDATE %I SET p = point(4, 4), r = ''[1230,1240)'' WHERE id % 17 = 0');
CALL bm_do('DELETE FROM %I WHERE id % 19 = 0');
TABLE bm_wrong;
SELECT count(*) AS flush FROM lsm_flush('bm');
TABLE bm_wrong;
CALL bm_do($$UPDATE %I SET t = 'three' WHERE id % 3 = 0$$);
CALL bm_do('INSERT INTO %I SELECT i, i % 100, ''h7'', ''{4, 102}'', point(5, 5), ''[1234,1235)'', ''new'' FROM generate_series(3001, 3300) i');
SELECT count(*) AS flush FROM lsm_flush('bm');
SELECT count(*) AS minor FROM lsm_minor_compact('bm');
TABLE bm_wrong;
SELECT count(*) AS major FROM lsm_major_compact('bm');
TABLE bm_wrong;
VACUUM bm;
TABLE bm_wrong;

-- within a transaction, with what it undoes and what is flushed of it
BEGIN;
CALL bm_do('UPDATE %I SET k = 6 WHERE k = 5 AND id < 1000');
TABLE bm_wrong;
SAVEPOINT s;
CALL bm_do($$UPDATE %I SET h = 'h3', t = 'gone'$$);
CALL bm_do('DELETE FROM %I WHERE id < 2000');
TABLE bm_wrong;
SELECT count(*) AS flush FROM lsm_flush('bm');
TABLE bm_wrong;
ROLLBACK TO s;
TABLE bm_wrong;
SELECT count(*) AS flush FROM lsm_flush('bm');
SELECT count(*) AS major FROM lsm_major_compact('bm');
TABLE bm_wrong;
ROLLBACK;
TABLE bm_wrong;

-- indexes that are built now
DROP INDEX bm_k, bm_a, bm_t;
CREATE INDEX bm_k ON bm (k);
CREATE INDEX bm_a ON bm USING gin (a);
CREATE INDEX bm_t ON bm USING brin (id) WITH (pages_per_range = 2);
TABLE bm_wrong;
REINDEX TABLE bm;
SELECT * FROM bm_ask();

-- a column that is added, one that is dropped, system columns
ALTER TABLE bm ADD COLUMN n int DEFAULT 7;
SET enable_seqscan = off;
SET enable_indexscan = off;
SELECT id, n, t, tableoid::regclass FROM bm WHERE k = 5 AND id < 300 ORDER BY id;
SELECT count(*), count(DISTINCT ctid), count(DISTINCT xmin::text) > 0 AS xmins FROM bm WHERE k < 50;
SELECT count(*) FROM bm b WHERE k = 5 AND id <> (SELECT id FROM bm c WHERE c.ctid = b.ctid);
ALTER TABLE bm DROP COLUMN n, DROP COLUMN t;
SELECT * FROM bm WHERE k = 5 AND id < 300 ORDER BY id LIMIT 3;
RESET enable_seqscan;

-- rescanned: the inner side of a join, and a SubPlan
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT g, count(b.id), sum(b.id) FROM generate_series(1, 6) g LEFT JOIN bm b ON b.k = g * 3 OR b.h = 'h' || g GROUP BY g ORDER BY g;
SELECT g, (SELECT count(*) FROM bm b WHERE b.a @> ARRAY[g, 100 + g] AND b.k > 3) FROM generate_series(1, 6) g;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;

-- changes through a bitmap scan, a cursor, row locks
SET enable_seqscan = off;
UPDATE bm SET k = k + 1 WHERE k BETWEEN 10 AND 14;
SELECT count(*), sum(k) FROM bm WHERE k BETWEEN 10 AND 20;
DELETE FROM bm WHERE k = 15 OR h = 'h7';
SELECT count(*) FROM bm WHERE k BETWEEN 10 AND 20;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM bm WHERE k = 20 FOR UPDATE;
MOVE 3 FROM c;
FETCH 2 FROM c;
SELECT count(*) AS flush FROM lsm_flush('bm');
UPDATE bm SET h = 'current' WHERE CURRENT OF c RETURNING id, h;
SELECT count(*) AS major FROM lsm_major_compact('bm');
FETCH 2 FROM c;
DELETE FROM bm WHERE CURRENT OF c RETURNING id;
COMMIT;
RESET enable_seqscan;
RESET enable_indexscan;

-- lossy pages, where work_mem is too small for all of them
CREATE TABLE bl (id int, k int, t text) USING lsm;
INSERT INTO bl SELECT i, i % 20, repeat(chr(97 + i % 26), 900) FROM generate_series(1, 12000) i;
CREATE INDEX bl_k ON bl (k);
ANALYZE bl;
CREATE FUNCTION bl_pages(OUT exact bool, OUT lossy bool, OUT same bool) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	server json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) SELECT sum(id) FROM bl WHERE k < 19' INTO plan;
	exact := (plan->0->'Plan'->'Plans'->0->>'Exact Heap Blocks')::int > 0;
	lossy := (plan->0->'Plan'->'Plans'->0->>'Lossy Heap Blocks')::int > 0;
	PERFORM set_config('lsm.enable_lsmscan', 'off', true);
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) SELECT sum(id) FROM bl WHERE k < 19' INTO server;
	PERFORM set_config('lsm.enable_lsmscan', 'on', true);
	same := (server->0->'Plan'->'Plans'->0->>'Exact Heap Blocks') = (plan->0->'Plan'->'Plans'->0->>'Exact Heap Blocks') AND
		(server->0->'Plan'->'Plans'->0->>'Lossy Heap Blocks') = (plan->0->'Plan'->'Plans'->0->>'Lossy Heap Blocks') AND
		(server->0->'Plan'->'Plans'->0->>'Rows Removed by Index Recheck') = (plan->0->'Plan'->'Plans'->0->>'Rows Removed by Index Recheck') AND
		server->0->'Plan'->'Plans'->0->>'Node Type' <> plan->0->'Plan'->'Plans'->0->>'Node Type';
END $$;
SET enable_seqscan = off;
SET enable_indexscan = off;
SET max_parallel_workers_per_gather = 0;
CREATE VIEW bl_sums AS SELECT count(*), sum(id) AS ids, sum(hashtext(t)::bigint) AS texts FROM bl WHERE k < 19;
SELECT * FROM bl_pages();
SET work_mem = '64kB';
SELECT * FROM bl_pages();
TABLE bl_sums;
UPDATE bl SET t = 'u' || id WHERE id % 6 = 0;
UPDATE bl SET k = k + 1 WHERE id % 10 = 8;
DELETE FROM bl WHERE id % 9 = 0;
TABLE bl_sums;
SELECT count(*) AS flush FROM lsm_flush('bl');
UPDATE bl SET t = 'v' || id WHERE id % 7 = 0;
SELECT * FROM bl_pages();
TABLE bl_sums;
SELECT count(*) AS flush FROM lsm_flush('bl');
SELECT count(*) AS major FROM lsm_major_compact('bl');
SELECT * FROM bl_pages();
TABLE bl_sums;
RESET work_mem;
SELECT * FROM bl_pages();
TABLE bl_sums;
SET enable_bitmapscan = off;
SET enable_seqscan = on;
TABLE bl_sums;

-- by several processes: the server's node
SET lsm.enable_lsmscan = off;
SET enable_bitmapscan = on;
SET enable_seqscan = off;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM bl WHERE k < 19;
TABLE bl_sums;
SET work_mem = '64kB';
TABLE bl_sums;
UPDATE bl SET t = 'w' || id WHERE id % 100 = 1;
TABLE bl_sums;
-- workers call versions what the leader calls them
BEGIN;
CREATE TEMP TABLE names AS SELECT id, ctid AS tid FROM bl WHERE k < 19;
SELECT count(*), count(*) FILTER (WHERE tid = (SELECT ctid FROM bl WHERE bl.ctid = n.tid AND bl.id = n.id)) AS found FROM names n;
COMMIT;
RESET ALL;

-- a table that was never analyzed is planned as one that will grow, as in heap
CREATE TABLE bw (id int PRIMARY KEY, t text) USING lsm WITH (autovacuum_enabled = off);
EXPLAIN (COSTS OFF) SELECT * FROM bw WHERE id = 1;
INSERT INTO bw VALUES (1, 'one'), (2, 'two');
EXPLAIN (COSTS OFF) SELECT * FROM bw WHERE id = 1;
ANALYZE bw;
EXPLAIN (COSTS OFF) SELECT * FROM bw WHERE id = 1;
DROP TABLE bw;

SELECT c AS problem FROM lsm_check('bm') c;
SELECT c AS problem FROM lsm_check('bl') c;
DROP VIEW bm_wrong;
DROP PROCEDURE bm_do(text);
DROP FUNCTION bm_ask(), bl_pages();
DROP VIEW bl_sums;
DROP TABLE bm, bm_heap, bl, names;
