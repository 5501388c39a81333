--
-- Logical blocks far beyond the end of the file, which has but a few pages
--
SET lsm.debug_first_lb = 400000;
CREATE TABLE lo (id int, k int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lo SELECT i, i % 100, repeat('x', 300) FROM generate_series(1, 3000) i;
RESET lsm.debug_first_lb;
CREATE INDEX lo_k ON lo (k);
CREATE INDEX lo_id ON lo USING brin (id) WITH (pages_per_range = 16);
SELECT min(ctid), pg_relation_size('lo') < 20 * 1024 * 1024 AS small FROM lo;
SET enable_seqscan = off;
SET enable_indexscan = off;
-- the server's executor would read ahead by logical numbers
SET lsm.enable_lsmscan = off;
SET effective_io_concurrency = 100;
CREATE VIEW lo_exact AS SELECT count(*), sum(id) FROM lo WHERE k < 20;
CREATE VIEW lo_lossy AS SELECT count(*), sum(k) FROM lo WHERE id BETWEEN 100 AND 600;
EXPLAIN (COSTS OFF) TABLE lo_exact;
EXPLAIN (COSTS OFF) TABLE lo_lossy;
TABLE lo_exact;
TABLE lo_lossy;
UPDATE lo SET t = 'u' WHERE k = 3;
DELETE FROM lo WHERE k = 4;
TABLE lo_exact;
SELECT count(*) AS flush FROM lsm_flush('lo');
TABLE lo_exact;
TABLE lo_lossy;
SELECT count(*) AS major FROM lsm_major_compact('lo');
TABLE lo_exact;
TABLE lo_lossy;
-- in a cursor, a function, a data-modifying CTE, a SubPlan of a CTE that runs at the end
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM lo WHERE k < 20;
FETCH 2 FROM c;
MOVE FORWARD ALL FROM c;
COMMIT;
CREATE FUNCTION lo_sum(int) RETURNS bigint LANGUAGE sql AS 'SELECT sum(id) FROM lo WHERE k < $1';
SELECT lo_sum(2), lo_sum(20);
DROP FUNCTION lo_sum(int);
WITH u AS (UPDATE lo SET t = 'v' WHERE k < 2 RETURNING id) SELECT count(*) FROM u;
WITH u AS (UPDATE lo SET t = 'w' || (SELECT count(*) FROM lo l WHERE l.k = lo.k AND l.id < lo.id) WHERE k < 2) SELECT 1 AS one;
SELECT count(DISTINCT t) FROM lo WHERE k < 2;
-- by several processes
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) TABLE lo_exact;
TABLE lo_exact;
TABLE lo_lossy;
-- the leader's node is run again with new workers
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT x, s FROM (SELECT sum(id) AS s FROM lo WHERE k < 20) l RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;
SELECT x, s FROM (SELECT sum(id) AS s FROM lo WHERE k < 20) l RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;
RESET ALL;
-- samples, TID ranges, sequential scans
SELECT count(*) BETWEEN 1 AND 2969 AS some FROM lo TABLESAMPLE SYSTEM (50) REPEATABLE (1);
SELECT count(*) FROM lo TABLESAMPLE BERNOULLI (100);
SELECT count(*) FROM lo WHERE ctid < '(400000,0)';
SELECT count(*) FROM lo WHERE ctid >= '(400000,0)' AND ctid < '(500000,0)';
SELECT count(*) FROM lo;
ANALYZE lo;
SELECT reltuples > 0 AS sampled FROM pg_class WHERE relname = 'lo';
SELECT c AS problem FROM lsm_check('lo') c;
DROP VIEW lo_exact, lo_lossy;
DROP TABLE lo;
