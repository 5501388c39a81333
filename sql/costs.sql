--
-- Plans of which measurements have told that none is faster by much: for a column that
-- follows the order of the rows (a), one that does so roughly (g), one that does not
-- (r), and one with few values everywhere (v), which have an index, and one that follows
-- the order and has none (n).  What is asked for is one row, some, and a great part.
--
CREATE TABLE co (a int, r int, g int, v int, n int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO co SELECT i, i::int8 * 7919 % 100000, (i + i % 7 * 300) / 1000, i % 1000, i, md5(i::text) || md5((i + 1)::text) FROM generate_series(1, 100000) i;
CREATE INDEX co_a ON co (a);
CREATE INDEX co_r ON co (r);
CREATE INDEX co_g ON co (g);
CREATE INDEX co_v ON co (v);
-- as many rows are sampled as there are, so that statistics are the same each time
SET default_statistics_target = 1000;
VACUUM ANALYZE co;
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION co_plan(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT t FROM co WHERE ' || condition INTO plan;
	plan := plan->0->'Plan';
	RETURN coalesce(plan->>'Custom Plan Provider', plan->>'Node Type');
END $$;
SELECT condition, co_plan(condition) AS plan FROM (VALUES
	('a = 5000'), ('a BETWEEN 5000 AND 5010'), ('a BETWEEN 20000 AND 30000'), ('a > 10000'),
	('g BETWEEN 50 AND 60'),
	('r = 5000'), ('r IN (7, 77, 777, 7777, 77777)'), ('r BETWEEN 5000 AND 5200'), ('r BETWEEN 20000 AND 40000'), ('r > 10000'),
	('v BETWEEN 100 AND 299'),
	('n = 5000'), ('n BETWEEN 5000 AND 6000 AND r > 5'), ('v BETWEEN 10 AND 19 AND g BETWEEN 50 AND 60'),
	('v = 7 AND r < 10000'), ('a = 5000 AND v < 900'), ('length(t) > 5')) c (condition);
-- the order that an index has, for the first rows
EXPLAIN (COSTS off) SELECT * FROM co ORDER BY r LIMIT 5;
EXPLAIN (COSTS off) SELECT * FROM co ORDER BY n LIMIT 5;
-- joins: a few outer rows by an index or by zone maps, many by a hash table
CREATE TABLE co_few (x int, y int, z int);
INSERT INTO co_few SELECT i * 20000, i * 20000 + 10, i FROM generate_series(1, 4) i;
ANALYZE co_few;
EXPLAIN (COSTS off) SELECT count(c.t) FROM co_few f JOIN co c ON c.r = f.x;
EXPLAIN (COSTS off) SELECT count(c.t) FROM co_few f JOIN co c ON c.n BETWEEN f.x AND f.y AND c.v > f.z;
EXPLAIN (COSTS off) SELECT count(c.t) FROM co_few f LEFT JOIN co c ON c.n = f.x + 1;
EXPLAIN (COSTS off) SELECT count(c.t) FROM co d JOIN co c ON c.n = d.a;
-- what zone maps leave out for outer values: each time all but a block or two
CREATE FUNCTION co_join(query text, OUT result text, OUT loops int, OUT read_each bool, OUT skipped bool) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE query INTO result;
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	SELECT (p->>'Actual Loops')::int, (p->>'LSM Blocks Read')::int <= 2 * (p->>'Actual Loops')::int, (p->>'LSM Blocks Skipped')::int > 50 * (p->>'Actual Loops')::int
		INTO loops, read_each, skipped FROM jsonb_path_query(plan, 'strict $.** ? (@."Custom Plan Provider" == "LsmScan")') p;
END $$;
SELECT * FROM co_join('SELECT count(c.t) || '':'' || sum(c.n) FROM co_few f JOIN co c ON c.n = f.x');
SELECT * FROM co_join('SELECT count(c.t) || '':'' || sum(c.n) FROM co_few f JOIN co c ON c.n BETWEEN f.x AND f.y AND c.v > f.z');
SELECT * FROM co_join('SELECT count(*) || '':'' || count(c.n) FROM co_few f LEFT JOIN co c ON c.n = f.x + 1');
UPDATE co SET n = 20000 WHERE a = 70000;
DELETE FROM co WHERE a = 40000;
INSERT INTO co_few VALUES (NULL, NULL, NULL), (-1, 5, 0);
SELECT * FROM co_join('SELECT count(c.t) || '':'' || sum(c.a) FROM co_few f JOIN co c ON c.n = f.x');
SELECT * FROM co_join('SELECT count(c.t) || '':'' || sum(c.a) FROM co_few f JOIN co c ON c.n BETWEEN f.x AND f.y AND c.v > f.z');
SET enable_nestloop = off;
SELECT count(c.t) || ':' || sum(c.a) FROM co_few f JOIN co c ON c.n = f.x;
RESET enable_nestloop;
-- rows of many keys that lie all over a large table: to scan it and find a third of its rows takes
-- half of the time in which one goes from each to the next, in whatever order; of a few keys not
CREATE TABLE co_far (k int, n int, x1 int8, x2 int8, x3 int8, x4 int8, x5 int8, x6 int8, x7 int8, x8 int8, x9 int8, x10 int8) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO co_far SELECT i::int8 * 7919 % 2500, i, hashint8extended(i, 1), hashint8extended(i, 2), hashint8extended(i, 3), hashint8extended(i, 4), hashint8extended(i, 5), hashint8extended(i, 6), hashint8extended(i, 7), hashint8extended(i, 8), hashint8extended(i, 9), hashint8extended(i, 10) FROM generate_series(1, 500000) i;
CREATE INDEX ON co_far (k);
CREATE TABLE co_keys AS SELECT i AS x FROM generate_series(1, 900) i;
VACUUM ANALYZE co_far (k), co_keys;
SET random_page_cost = 1.1;
EXPLAIN (COSTS off) SELECT sum(c.n) FROM co_keys f JOIN co_far c ON c.k = f.x;
SET enable_bitmapscan = off;
EXPLAIN (COSTS off) SELECT sum(c.n) FROM co_keys f JOIN co_far c ON c.k = f.x WHERE f.x < 4;
RESET enable_bitmapscan;
RESET random_page_cost;
DROP TABLE co_far, co_keys;
-- a small table: by its index once it has been changed, also just after a flush, as what is planned
-- then may be kept
CREATE TABLE co_small (id int PRIMARY KEY, n int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO co_small SELECT i, 0 FROM generate_series(1, 20) i;
VACUUM ANALYZE co_small;
EXPLAIN (COSTS off) UPDATE co_small SET n = n + 1 WHERE id = 7;
UPDATE co_small SET n = n + 1;
EXPLAIN (COSTS off) UPDATE co_small SET n = n + 1 WHERE id = 7;
SELECT rows_out FROM lsm_flush('co_small');
SELECT rows_out FROM lsm_major_compact('co_small');
EXPLAIN (COSTS off) UPDATE co_small SET n = n + 1 WHERE id = 7;
DROP TABLE co_small;
RESET max_parallel_workers_per_gather;
RESET default_statistics_target;
DROP TABLE co, co_few;
DROP FUNCTION co_plan, co_join;
