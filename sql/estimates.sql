-- What the planner is told of a table: rows, and what ways to read it cost.
CREATE FUNCTION es_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	plan := plan->0->'Plan';
	RETURN coalesce(plan->>'Custom Plan Provider', plan->>'Node Type');
END $$;

CREATE FUNCTION es_rows(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Plan Rows')::float;
END $$;

CREATE TABLE es (id int PRIMARY KEY, k int, c text) USING lsm;
CREATE INDEX ON es (k);
INSERT INTO es SELECT i, i * 7919 % 10007, md5(i::text) || md5((i + 1)::text) FROM generate_series(1, 10000) i;
VACUUM ANALYZE es;
SELECT es_rows('SELECT * FROM es');
SELECT es_plan('SELECT c FROM es WHERE id = 600');
SELECT es_plan('SELECT c FROM es WHERE id BETWEEN 600 AND 650');
SELECT es_plan('SELECT c FROM es WHERE c < ''8''');

-- rows that get a new root count once: in the memtable, in increments, in the end
UPDATE es SET k = k + 1 WHERE id % 2 = 0;
SELECT es_rows('SELECT * FROM es');
SELECT es_plan('SELECT c FROM es WHERE id = 600');
SELECT es_plan('SELECT c FROM es WHERE id BETWEEN 600 AND 650');
SELECT FROM lsm_flush('es');
SELECT es_rows('SELECT * FROM es');
SELECT es_plan('SELECT c FROM es WHERE id = 600');
ANALYZE es;
SELECT es_rows('SELECT * FROM es');
-- a range of keys is spread over the table now: it is no cheaper by a bitmap
SELECT es_plan('SELECT c FROM es WHERE id BETWEEN 600 AND 650');

-- rows that are deleted
DELETE FROM es WHERE id % 5 = 0;
SELECT es_rows('SELECT * FROM es');
SELECT FROM lsm_flush('es');
SELECT es_rows('SELECT * FROM es');
SELECT FROM lsm_minor_compact('es');
SELECT es_rows('SELECT * FROM es');
SELECT FROM lsm_major_compact('es');
SELECT es_rows('SELECT * FROM es');
SELECT count(*) FROM es;

-- conditions that need two indexes, or either of two, and partial indexes
CREATE INDEX es_part ON es (id) WHERE k < 100;
EXPLAIN (COSTS OFF) SELECT c FROM es WHERE id IN (3, 700, 9001) OR k = 5;
SELECT count(*) FROM es WHERE id IN (3, 700, 9001) OR k = 5;
SELECT count(*) FROM es WHERE id BETWEEN 100 AND 3000 AND k BETWEEN 100 AND 3000;
SET enable_indexscan = off;
SELECT count(*) FROM es WHERE id IN (3, 700, 9001) OR k = 5;
SELECT count(*) FROM es WHERE id BETWEEN 100 AND 3000 AND k BETWEEN 100 AND 3000;
RESET enable_indexscan;
SELECT lsm_check('es');

-- a queue: many more rows have come and gone in the memtable than there are
CREATE TABLE es_queue (id int PRIMARY KEY, job text) USING lsm;
INSERT INTO es_queue SELECT i, md5(i::text) FROM generate_series(1, 10000) i;
ANALYZE es_queue;
DELETE FROM es_queue WHERE id <= 9900;
SELECT es_rows('SELECT * FROM es_queue');
SELECT count(*) AS flush FROM lsm_flush('es_queue');
SELECT es_rows('SELECT * FROM es_queue');
INSERT INTO es_queue SELECT i, md5(i::text) FROM generate_series(10001, 20000) i;
DELETE FROM es_queue WHERE id <= 19900;
SELECT es_rows('SELECT * FROM es_queue');
SELECT lsm_check('es_queue');
-- zone maps leave out segments only: the row log is read by each scan
CREATE TABLE es_log (id int PRIMARY KEY, t text) USING lsm;
INSERT INTO es_log SELECT i, md5(i::text) FROM generate_series(1, 1100) i;
VACUUM ANALYZE es_log;
SELECT es_plan('SELECT t FROM es_log WHERE id = 5');
INSERT INTO es_log SELECT i, md5(i::text) FROM generate_series(1101, 3000) i;
SELECT es_plan('SELECT t FROM es_log WHERE id = 5');
DROP TABLE es_log;
-- rows that have changed cost more to scan, in the memtable and in increments, until a major has fused them
CREATE FUNCTION es_cost(query text) RETURNS float LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Total Cost')::float;
END $$;
CREATE TABLE es_fuse (id int, t text, n int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO es_fuse SELECT i, md5(i::text), 0 FROM generate_series(1, 20000) i;
SELECT count(*) AS flush FROM lsm_flush('es_fuse');
VACUUM ANALYZE es_fuse;
SET max_parallel_workers_per_gather = 0;
CREATE TEMP TABLE es_costs AS SELECT 'unchanged' AS rows, es_cost('SELECT t, n FROM es_fuse') AS cost;
UPDATE es_fuse SET n = 1;
INSERT INTO es_costs SELECT 'in the memtable', es_cost('SELECT t, n FROM es_fuse');
SELECT count(*) AS flush FROM lsm_flush('es_fuse');
INSERT INTO es_costs SELECT 'in an increment', es_cost('SELECT t, n FROM es_fuse');
VACUUM es_fuse;
INSERT INTO es_costs SELECT 'fused', es_cost('SELECT t, n FROM es_fuse');
SELECT rows, cost / min(cost) OVER () > 2 AS much_more FROM es_costs;
RESET max_parallel_workers_per_gather;
DROP TABLE es_fuse, es_costs;
DROP FUNCTION es_cost;
-- rows that a transaction has ended count when it has committed: others still have them
CREATE TABLE es_end (id int PRIMARY KEY) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO es_end SELECT generate_series(1, 10000);
VACUUM ANALYZE es_end;
BEGIN;
DELETE FROM es_end;
SELECT es_rows('SELECT * FROM es_end') AS running;
SELECT count(*) AS flush FROM lsm_flush('es_end');
SELECT es_rows('SELECT * FROM es_end') AS running;
DELETE FROM es_end WHERE id = 1;
ROLLBACK;
SELECT es_rows('SELECT * FROM es_end') AS rolled_back;
SELECT count(*) AS flush FROM lsm_flush('es_end');
SELECT es_rows('SELECT * FROM es_end') AS rolled_back;
BEGIN;
DELETE FROM es_end WHERE id <= 1000;
SAVEPOINT s;
DELETE FROM es_end WHERE id > 5000;
ROLLBACK TO s;
DELETE FROM es_end WHERE id <= 2000;
COMMIT;
SELECT es_rows('SELECT * FROM es_end') BETWEEN 8000 AND 9000 AS some;
SELECT count(*) AS flush FROM lsm_flush('es_end');
SELECT es_rows('SELECT * FROM es_end') AS committed;
DELETE FROM es_end;
SELECT es_rows('SELECT * FROM es_end') AS committed;
-- rows that have moved count once
TRUNCATE es_end;
INSERT INTO es_end SELECT generate_series(1, 10000);
VACUUM ANALYZE es_end;
BEGIN;
UPDATE es_end SET id = id + 100000;
SELECT es_rows('SELECT * FROM es_end') AS running;
SELECT count(*) AS flush FROM lsm_flush('es_end');
SELECT es_rows('SELECT * FROM es_end') AS running;
ROLLBACK;
SELECT es_rows('SELECT * FROM es_end') AS rolled_back;
DROP TABLE es_end;
DROP TABLE es_queue;
DROP TABLE es;
DROP FUNCTION es_plan, es_rows;
