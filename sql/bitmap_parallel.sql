--
-- LsmBitmapScan in parallel plans: a heap table with the same rows tells what is right
--
-- thousands of plans, each of which a server with JIT would compile
SET jit = off;
-- rows loaded in bulk fill their LBs, and there would be too few for lossy pages
SET lsm.debug_load_after = -1;
CREATE TABLE bp (id int, k int, g int, a int[], t text) USING lsm WITH (autovacuum_enabled = off, parallel_workers = 2);
CREATE TABLE bp_heap (LIKE bp) USING heap;
INSERT INTO bp_heap SELECT i, (i * 7919::bigint) % 500, i / 100, ARRAY[i % 10, 100 + i % 7], repeat(chr(97 + i % 26), 600 + i % 400) FROM generate_series(1, 12000) i;
INSERT INTO bp SELECT * FROM bp_heap;
CREATE INDEX bp_k ON bp (k);
CREATE INDEX bp_id ON bp (id);
CREATE INDEX bp_a ON bp USING gin (a);
CREATE INDEX bp_b ON bp USING brin (id) WITH (pages_per_range = 1);
ANALYZE bp;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET cpu_tuple_cost = 1;
SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;

-- plans
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM bp WHERE k < 200 AND length(t) > 700;
EXPLAIN (COSTS OFF) SELECT id FROM bp WHERE k < 200 AND g = 7 ORDER BY id;
EXPLAIN (COSTS OFF) SELECT count(*) FROM bp WHERE k < 100 OR id BETWEEN 3000 AND 6000;
EXPLAIN (COSTS OFF) SELECT count(*) FROM bp WHERE k < 100 AND a @> '{3}';
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT v.x, b.s FROM (SELECT sum(id) AS s FROM bp WHERE k < 300) b RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;

-- the rows of each condition, and whether they are right, in a parallel plan
CREATE FUNCTION bp_ask(OUT condition text, OUT parallel bool, OUT rows bigint, OUT wrong bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOREACH condition IN ARRAY ARRAY[
		'k < 200',
		'k = 7',
		'k < 100 OR id BETWEEN 3000 AND 6000',
		'k < 300 AND a @> ''{3}''',
		'k < 200 AND g IN (7, 8, 90)',
		'id BETWEEN 3000 AND 6000 AND length(t) > 700',
		'(k < 20 OR a && ''{5, 102}'') AND t < ''m''',
		'k < 0'] LOOP
		parallel := false;
		FOR line IN EXECUTE 'EXPLAIN SELECT count(*) FROM bp WHERE ' || condition LOOP
			parallel := parallel OR line LIKE '%Parallel Custom Scan (LsmBitmapScan) on bp %';
		END LOOP;
		EXECUTE format('WITH l AS MATERIALIZED (SELECT bp::text FROM bp WHERE %1$s), h AS MATERIALIZED (SELECT bp_heap::text FROM bp_heap WHERE %1$s)
			SELECT (SELECT count(*) FROM l), (SELECT count(*) FROM (TABLE l EXCEPT ALL TABLE h) d) + (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE l) d)',
			condition) INTO rows, wrong;
		RETURN NEXT;
	END LOOP;
END $$;
-- all in the row log, then in segments, in increments and in the memtable, and merged
SELECT * FROM bp_ask();
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT * FROM bp_ask();
DO $$
BEGIN
	FOR half IN 1..2 LOOP
		FOR i IN 1..2 LOOP
			EXECUTE format('UPDATE %1$s SET t = t || ''x'' WHERE id %% 50 = %2$s OR id BETWEEN 3000 AND 3200;
				UPDATE %1$s SET k = k + 1 WHERE id %% 60 = %2$s; DELETE FROM %1$s WHERE id %% 70 = %2$s;
				INSERT INTO %1$s SELECT 12000 + 300 * %2$s + i, i, i, ARRAY[3, 105], ''new'' FROM generate_series(1, 300) i',
				CASE i WHEN 1 THEN 'bp' ELSE 'bp_heap' END, half);
		END LOOP;
		IF half = 1 THEN
			PERFORM lsm_flush('bp');
		END IF;
	END LOOP;
END $$;
SELECT * FROM bp_ask();
SET work_mem = '64kB';
SELECT * FROM bp_ask();
RESET work_mem;
SELECT count(*) > 0 AS flush FROM lsm_flush('bp');
SELECT count(*) > 0 AS major FROM lsm_major_compact('bp');
VACUUM ANALYZE bp;
SELECT * FROM bp_ask();
-- workers alone; none that could be started; in a serializable transaction
SET parallel_leader_participation = off;
SELECT * FROM bp_ask() WHERE rows > 3000;
RESET parallel_leader_participation;
SET max_parallel_workers = 0;
SELECT * FROM bp_ask() WHERE rows > 3000;
RESET max_parallel_workers;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM bp_ask() WHERE rows > 3000;
COMMIT;

-- what is counted is the same with workers and without: no block is read twice
CREATE FUNCTION bp_plan(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	plan := plan->0->'Plan';
	WHILE plan->>'Custom Plan Provider' IS NULL LOOP
		plan := plan->'Plans'->0;
	END LOOP;
	RETURN plan;
END $$;
CREATE FUNCTION bp_counts(query text, OUT provider text, OUT parallel bool, OUT exact int, OUT lossy int, OUT rechecked int, OUT blocks int, OUT fused int, OUT looked_up int)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	FOR workers IN REVERSE 2..0 BY 2 LOOP
		PERFORM set_config('max_parallel_workers_per_gather', workers::text, true);
		RETURN QUERY SELECT p->>'Custom Plan Provider', (p->>'Parallel Aware')::bool, (p->>'Exact Heap Blocks')::int, (p->>'Lossy Heap Blocks')::int,
			((p->>'Rows Removed by Index Recheck')::float * (p->>'Actual Loops')::float)::int / 10 * 10,
			(p->>'LSM Blocks Read')::int, (p->>'LSM Rows Fused')::int, (p->>'LSM Rows Looked Up')::int
			FROM bp_plan(query) p;
	END LOOP;
END $$;
UPDATE bp SET g = g + 1 WHERE id % 97 = 0;
UPDATE bp_heap SET g = g + 1 WHERE id % 97 = 0;
SELECT count(DISTINCT (exact, lossy, blocks, fused, looked_up)) AS kinds, array_agg(provider) AS nodes, array_agg(parallel) AS parallel, min(exact) > 100 AS exact, min(lossy) = 0 AS no_lossy,
	min(blocks) > 10 AS blocks, min(fused) > 10 AS fused FROM bp_counts('SELECT sum(g) FROM bp WHERE k < 300');
SELECT count(DISTINCT (exact, lossy, blocks, fused, looked_up)) AS kinds, array_agg(parallel) AS parallel, min(looked_up) > 10 AS looked_up FROM bp_counts('SELECT sum(g) FROM bp WHERE k IN (3, 300)');
SET work_mem = '64kB';
SELECT count(DISTINCT (exact, lossy)) AS kinds, array_agg(parallel) AS parallel, min(lossy) > 10 AS lossy, min(rechecked) > 0 AS rechecked
	FROM bp_counts('SELECT sum(g) FROM bp WHERE k < 400 AND t < ''m''');
RESET work_mem;
-- what each process has taken comes to the whole
SELECT sum((q->>'LSM Rows')::int) = (SELECT count(*) FROM bp_heap WHERE k < 300) AS rows, sum((q->>'LSM Ranges')::int) > 1 AS runs, sum((q->>'LSM Units')::int) > 10 AS units, count(*) AS processes
	FROM bp_plan('SELECT sum(g) FROM bp WHERE k < 300') p, json_array_elements(p->'LSM Processes') q;

-- run again with other workers, which stop early; by the leader alone after all
SELECT v.x, b.s FROM (SELECT sum(id) AS s FROM bp WHERE k < 300) b RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;
SELECT sum(id) FROM bp_heap WHERE k < 300;
SELECT v.x, b.n, b.good FROM (SELECT count(*) AS n, bool_and(k < 300) AS good FROM (SELECT k FROM bp WHERE k < 300 LIMIT 25) l) b RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;
CREATE FUNCTION bp_ids() RETURNS SETOF int LANGUAGE sql AS 'SELECT id FROM bp WHERE k < 300 AND pg_backend_pid() > 0';
SELECT count(*), sum(id) FROM (SELECT bp_ids() AS id) f;
SELECT count(*), sum(id) FROM bp_heap WHERE k < 300;
PREPARE bp_prepared (int) AS SELECT count(*), sum(id) FROM bp WHERE k < $1;
EXECUTE bp_prepared (300);
EXECUTE bp_prepared (10);
BEGIN;
DECLARE bp_cursor CURSOR FOR SELECT id FROM bp WHERE k < 300 ORDER BY id;
FETCH 3 FROM bp_cursor;
MOVE 100 FROM bp_cursor;
FETCH 2 FROM bp_cursor;
COMMIT;
-- both sides of a join, and a value that the leader finds first
RESET enable_hashjoin;
SELECT count(*), sum(a.id) FROM bp a JOIN bp b ON a.id = b.g * 100 AND b.k < 100 WHERE a.k < 300;
SELECT count(*), sum(a.id) FROM bp_heap a JOIN bp_heap b ON a.id = b.g * 100 AND b.k < 100 WHERE a.k < 300;
SELECT count(*), sum(id) FROM bp WHERE k < (SELECT max(k) FROM bp_heap WHERE id < 100);
SELECT count(*), sum(id) FROM bp_heap WHERE k < (SELECT max(k) FROM bp_heap WHERE id < 100);
-- an error in whatever process meets the row; the next statement knows nothing of it
\set VERBOSITY terse
SELECT count(*) FROM bp WHERE k < 300 AND 1000 / (id - 6000) > -2000;
SELECT count(*) FROM bp_heap WHERE id = 6000 AND k < 300;
\set VERBOSITY default
SELECT count(*), sum(id) FROM bp WHERE k < 300;
-- workers find rows that this transaction has written, by the names that the leader has for them
BEGIN;
UPDATE bp SET t = 'mine' WHERE id % 100 = 1;
RESET enable_material; RESET enable_mergejoin;
CREATE TEMP TABLE bp_names AS SELECT id, ctid AS tid FROM bp WHERE k < 300;
SELECT count(*), count(*) FILTER (WHERE tid = (SELECT ctid FROM bp WHERE bp.ctid = n.tid AND bp.id = n.id)) AS found FROM bp_names n;
ROLLBACK;

-- the server's, where ours are switched off
SET lsm.enable_lsmscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM bp WHERE k < 300 AND length(t) > 3;
RESET ALL;
SELECT c AS problem FROM lsm_check('bp') c;
DROP TABLE bp, bp_heap;
DROP FUNCTION bp_ask, bp_plan, bp_counts, bp_ids;
