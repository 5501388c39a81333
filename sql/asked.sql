-- Index scans decode of blocks only the columns that the plan reads of them.  The same queries on
-- heap must give the same answers: with what copies rows, compares them, and takes them whole.
CREATE TABLE asked_heap (id int, g int, a text, gone int, n numeric(10,2), d date, t text, x int) USING heap;
INSERT INTO asked_heap SELECT i, i % 50, 'a' || i % 7, i, i * 0.25, date '2020-01-01' + i % 365,
	CASE WHEN i % 11 > 0 THEN repeat(md5(i::text), 3) END, i * 7 % 3000 FROM generate_series(1, 3000) i;
CREATE TABLE asked_lsm (id int, g int, a text, gone int, n numeric(10,2), d date, t text, x int) USING lsm;
INSERT INTO asked_lsm SELECT * FROM asked_heap;
SELECT FROM lsm_flush('asked_lsm');
SELECT FROM lsm_major_compact('asked_lsm');
-- rows with changes, in an increment and in the memtable, and a column that blocks do not have
UPDATE asked_heap SET n = n + 1, t = 'new' WHERE id % 10 = 3;
UPDATE asked_lsm SET n = n + 1, t = 'new' WHERE id % 10 = 3;
SELECT FROM lsm_flush('asked_lsm');
ALTER TABLE asked_heap ADD later text DEFAULT 'later';
ALTER TABLE asked_lsm ADD later text DEFAULT 'later';
UPDATE asked_heap SET x = x + 1, later = 'now' WHERE id % 10 = 5;
UPDATE asked_lsm SET x = x + 1, later = 'now' WHERE id % 10 = 5;
CREATE TABLE asked_outer (k int, w int) USING heap;
INSERT INTO asked_outer SELECT i % 50, i FROM generate_series(1, 60) i;
ANALYZE asked_outer;
DO $$
BEGIN
	FOR i IN 1 .. 2 LOOP
		EXECUTE format('CREATE INDEX ON %I (id)', (ARRAY['asked_heap', 'asked_lsm'])[i]);
		EXECUTE format('CREATE INDEX ON %I (g, x)', (ARRAY['asked_heap', 'asked_lsm'])[i]);
		EXECUTE format('ANALYZE %I', (ARRAY['asked_heap', 'asked_lsm'])[i]);
	END LOOP;
END $$;
-- index scans wherever there can be one
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
SET lsm.enable_lsmscan = off;
SET max_parallel_workers_per_gather = 0;
-- Runs a query, in which %s stands for the table, on both, sorted; tells whether there are rows, whether
-- they are the same, and whether the nodes are in the plan.
CREATE FUNCTION asked_same(query text, nodes text[], OUT rows bool, OUT same bool, OUT planned bool) LANGUAGE plpgsql AS $$
DECLARE
	heap text;
	lsm text;
	plan jsonb;
BEGIN
	EXECUTE 'SELECT string_agg(q::text, E''\n'' ORDER BY q::text) FROM (' || replace(query, '%s', 'asked_heap') || ') q' INTO heap;
	EXECUTE 'SELECT string_agg(q::text, E''\n'' ORDER BY q::text) FROM (' || replace(query, '%s', 'asked_lsm') || ') q' INTO lsm;
	rows := heap IS NOT NULL;
	same := heap IS NOT DISTINCT FROM lsm;
	EXECUTE 'EXPLAIN (FORMAT json) ' || replace(query, '%s', 'asked_lsm') INTO plan;
	planned := nodes <@ ARRAY(SELECT p #>> '{}' FROM jsonb_path_query(plan, 'strict $.**."Node Type"') p);
END $$;
-- the inner side of a nested loop: some columns, none, all, the row as a whole, its name
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
SELECT query, r.* FROM (VALUES
	('SELECT o.w, s.n FROM asked_outer o JOIN %s s ON s.g = o.k WHERE s.d > ''2020-03-01'''),
	('SELECT o.w, s.t, s.later FROM asked_outer o JOIN %s s ON s.g = o.k AND s.x > o.w'),
	('SELECT o.w FROM asked_outer o JOIN %s s ON s.g = o.k'),
	('SELECT count(*) FROM asked_outer o JOIN %s s ON s.g = o.k'),
	('SELECT o.w, s.* FROM asked_outer o JOIN %s s ON s.g = o.k'),
	('SELECT o.w, s::text FROM asked_outer o JOIN %s s ON s.g = o.k'),
	('SELECT o.w, s.tableoid <> 0, s.x FROM asked_outer o JOIN %s s ON s.g = o.k'),
	('SELECT o.w, s.later FROM asked_outer o LEFT JOIN %s s ON s.g = o.k AND s.a = ''a3'' AND s.n > o.w'),
	('SELECT o.w FROM asked_outer o WHERE NOT EXISTS (SELECT FROM %s s WHERE s.g = o.k AND s.t IS NULL AND s.x < o.w * 20)')) q (query),
	asked_same(query, '{Nested Loop,Index Scan}') r;
-- one loop below another, whose conditions have values of it
SELECT * FROM asked_same('SELECT o.w, s.a, r.later, r.n - s.n FROM asked_outer o JOIN %s s ON s.g = o.k JOIN %s r ON r.id = s.x WHERE s.t IS NOT NULL', '{Nested Loop,Index Scan}');
SELECT * FROM asked_same('SELECT r.a, r.later FROM %s s JOIN %s r ON r.id = s.x WHERE s.id BETWEEN 1 AND 300', '{Nested Loop,Index Scan}');
-- subqueries, whose aggregates copy the first row
SELECT * FROM asked_same('SELECT o.w, (SELECT sum(s.n) FROM %s s WHERE s.g = o.k AND s.x > o.w) FROM asked_outer o', '{Aggregate,Index Scan}');
SELECT * FROM asked_same('SELECT o.w, (SELECT max(s.t || s.later) FROM %s s WHERE s.g = o.k AND s.a < ''a4'') FROM asked_outer o', '{Aggregate,Index Scan}');
SELECT * FROM asked_same('SELECT g, x % 2 AS two, count(t), min(later) FROM %s WHERE g < 10 GROUP BY g, two HAVING sum(n) > 3', '{Aggregate}');
SELECT * FROM asked_same('SELECT g, count(DISTINCT a), sum(n) FROM %s WHERE g < 20 GROUP BY g', '{Aggregate,Index Scan}');
SET enable_hashagg = off;
SELECT * FROM asked_same('SELECT g, x, max(n), string_agg(later, a) FROM %s WHERE g < 20 GROUP BY g, x', '{Aggregate,Index Scan}');
SELECT * FROM asked_same('SELECT g, x, max(n) FROM %s WHERE g < 20 GROUP BY ROLLUP (g, x)', '{Aggregate,Index Scan}');
RESET enable_hashagg;
-- what stores rows: memoize, materialize, the marks of a merge join, batches of a hash join, sorts
SET enable_memoize = on;
SET enable_material = on;
SELECT * FROM asked_same('SELECT o.w, s.n, s.t FROM asked_outer o JOIN %s s ON s.id = o.k', '{Nested Loop,Index Scan}');
SET enable_nestloop = off;
SET enable_mergejoin = on;
SELECT * FROM asked_same('SELECT s.g, s.n, r.t, r.later FROM %s s JOIN %s r ON s.g = r.g AND s.x = r.x', '{Merge Join,Index Scan}');
SET enable_mergejoin = off;
SET enable_hashjoin = on;
SELECT * FROM asked_same('SELECT s.t, s.later, o.w FROM %s s JOIN asked_outer o ON s.x = o.w WHERE s.id > 0', '{Hash Join,Index Scan}');
SET work_mem = '64kB';
SELECT * FROM asked_same('SELECT s.a, r.n, s.later FROM %s s JOIN (SELECT x, n FROM %s WHERE id > 0 OFFSET 0) r ON s.x = r.x WHERE s.id > 0', '{Hash Join,Index Scan}');
RESET work_mem;
SELECT * FROM asked_same('SELECT n, t FROM %s WHERE id BETWEEN 100 AND 900 ORDER BY a, n LIMIT 50', '{Index Scan}');
RESET enable_nestloop;
RESET enable_mergejoin;
-- Above, the column that blocks do not have makes each scan project.  In a table without one, scans
-- hand over their slots: to nested loops (values for the inner scan only, too), hash joins, whose batches
-- copy them, and aggregates.
VACUUM FULL asked_heap;
VACUUM FULL asked_lsm;
UPDATE asked_heap SET n = n + 1, t = 'newer' WHERE id % 10 = 4;
UPDATE asked_lsm SET n = n + 1, t = 'newer' WHERE id % 10 = 4;
ANALYZE asked_heap;
ANALYZE asked_lsm;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
EXPLAIN (VERBOSE, COSTS OFF) SELECT r.a FROM asked_lsm s JOIN asked_lsm r ON r.id = s.x WHERE s.id BETWEEN 1 AND 300;
SELECT query, r.* FROM (VALUES
	('SELECT r.a FROM %s s JOIN %s r ON r.id = s.x WHERE s.id BETWEEN 1 AND 300'),
	('SELECT s.n, r.later FROM %s s JOIN %s r ON r.id = s.x AND r.n > s.g WHERE s.id BETWEEN 1 AND 300 AND s.a <> ''a3'''),
	('SELECT s.later, r.t, r.n - s.n FROM %s s JOIN %s r ON r.g = s.g AND r.x = s.x WHERE s.id BETWEEN 1 AND 300'),
	('SELECT r FROM %s s JOIN %s r ON r.id = s.x WHERE s.id BETWEEN 1 AND 300'),
	('SELECT s, r.a FROM %s s JOIN %s r ON r.id = s.x WHERE s.id BETWEEN 1 AND 300'),
	('SELECT o.w, s.a, r.later, r.n - s.n FROM asked_outer o JOIN %s s ON s.g = o.k JOIN %s r ON r.id = s.x WHERE s.t IS NOT NULL'),
	('SELECT s.id, s.t FROM %s s WHERE s.id < 500 AND NOT EXISTS (SELECT FROM %s r WHERE r.id = s.x AND r.n > s.n)'),
	('SELECT s.a, r.d FROM %s s LEFT JOIN %s r ON r.id = s.x + 2000 WHERE s.id < 500')) q (query),
	asked_same(query, '{Nested Loop,Index Scan}') r;
SELECT * FROM asked_same('SELECT s.a, (SELECT max(r.t) FROM %s r WHERE r.g = s.g AND r.x < s.x) FROM %s s WHERE s.id < 100', '{Aggregate,Index Scan}');
SET enable_nestloop = off;
SET enable_hashjoin = on;
SET work_mem = '64kB';
SELECT query, r.* FROM (VALUES
	('SELECT s.a, r.n, s.later FROM %s s JOIN (SELECT x, n FROM %s WHERE id > 0 OFFSET 0) r ON s.x = r.x WHERE s.id > 0'),
	('SELECT s.t, s.later, o.w FROM %s s JOIN asked_outer o ON s.x = o.w AND s.n > o.k WHERE s.id > 0'),
	('SELECT s.t FROM %s s LEFT JOIN asked_outer o ON s.x = o.w WHERE s.id > 0 AND o.w IS NULL')) q (query),
	asked_same(query, '{Hash Join,Index Scan}') r;
SELECT query, r.* FROM (VALUES
	('SELECT g, x % 2 AS two, count(t), min(later) FROM %s WHERE g < 10 GROUP BY g, two HAVING sum(n) > 3'),
	('SELECT g, count(DISTINCT a), sum(n) FILTER (WHERE d > ''2020-06-01'') FROM %s WHERE g < 20 GROUP BY g'),
	('SELECT count(*), max(n) FROM %s WHERE id < 2000 GROUP BY d'),
	('SELECT id, a, max(x), max(n) FROM %s WHERE id < 2000 GROUP BY id, a')) q (query),
	asked_same(query, '{Aggregate,Index Scan}') r;
SET enable_hashagg = off;
SELECT query, r.* FROM (VALUES
	('SELECT g, x, max(n), string_agg(later, a) FROM %s WHERE g < 20 GROUP BY g, x'),
	('SELECT count(*), max(n) FROM %s WHERE g < 20 GROUP BY g, x'),
	('SELECT g, max(t) FROM %s WHERE g < 20 GROUP BY g HAVING min(d) > ''2020-01-01''')) q (query),
	asked_same(query, '{Aggregate,Index Scan}') r;
RESET enable_hashagg;
RESET work_mem;
RESET enable_nestloop;
RESET enable_mergejoin;
RESET enable_memoize;
RESET enable_material;
-- a cursor that goes both ways, rows that it takes as wholes, and a change by its row
BEGIN;
DECLARE asked_c SCROLL CURSOR FOR SELECT id, later, n FROM asked_lsm WHERE id BETWEEN 2993 AND 3000 ORDER BY id;
FETCH 3 FROM asked_c;
FETCH BACKWARD 2 FROM asked_c;
UPDATE asked_lsm SET later = 'cursor' WHERE CURRENT OF asked_c;
FETCH ALL FROM asked_c;
SELECT id, a, n, d, x, later FROM asked_lsm WHERE id = 2993;
ROLLBACK;
-- rows that are changed, or locked, by a join: the others of their columns stay
BEGIN;
UPDATE asked_lsm s SET n = s.n + o.w FROM asked_outer o WHERE s.g = o.k AND s.x > 2500;
UPDATE asked_heap s SET n = s.n + o.w FROM asked_outer o WHERE s.g = o.k AND s.x > 2500 AND o.w <= 49;
SELECT count(*) FROM asked_lsm l FULL JOIN asked_heap h ON l.id = h.id WHERE (l.g, l.a, l.d, l.x, l.later) IS DISTINCT FROM (h.g, h.a, h.d, h.x, h.later) OR l.t IS DISTINCT FROM h.t;
SELECT count(*) FROM (SELECT s.later FROM asked_lsm s, asked_outer o WHERE s.g = o.k AND s.x < 100 FOR UPDATE OF s) q;
ROLLBACK;
SELECT FROM lsm_check('asked_lsm');
DROP FUNCTION asked_same;
DROP TABLE asked_heap, asked_lsm, asked_outer;
RESET ALL;
