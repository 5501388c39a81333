--
-- A condition raises no error for rows that are not there, or that another one before it
-- rules out, as in heap
--
SET max_parallel_workers_per_gather = 0;
CREATE TABLE ce (id int, a int, s text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE ce_heap (LIKE ce);
INSERT INTO ce_heap SELECT i, 1, CASE i WHEN 1500 THEN 'abcX' ELSE 'x' || i % 10 END FROM generate_series(1, 3000) i;
INSERT INTO ce SELECT * FROM ce_heap ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT count(*) AS major FROM lsm_major_compact('ce');

-- the pattern's end is an error where a value has got so far
CREATE FUNCTION ce_query(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE query INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION ce_queries() RETURNS TABLE (query text, result text, same bool) LANGUAGE sql AS $$
	SELECT q, r, r IS NOT DISTINCT FROM ce_query(replace(q, 'ce', 'ce_heap'))
	FROM unnest(ARRAY[
		$q$SELECT count(*) FROM ce WHERE s LIKE 'abc\'$q$,
		$q$SELECT id FROM ce WHERE s LIKE 'abc\'$q$,
		$q$SELECT count(*) FROM ce WHERE a > 0 AND s LIKE 'abc\'$q$,
		$q$SELECT count(*) FROM ce WHERE id < 1000 AND s LIKE 'abc\'$q$,
		$q$SELECT sum(id) FROM ce WHERE s LIKE 'abc%'$q$,
		$q$SELECT sum(a) FROM ce WHERE s LIKE 'x7%' AND id > 100$q$,
		$q$SELECT sum(id) FROM ce WHERE a > 0 AND s LIKE 'x7%' AND id > 100$q$]) WITH ORDINALITY x(q, n), ce_query(q) r ORDER BY n;
$$;
CREATE FUNCTION ce_both(change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(change, 'ce', 'ce_heap');
	EXECUTE change;
END $$;
SELECT * FROM ce_queries();

-- an update of another column: the row is there
BEGIN;
SELECT ce_both('UPDATE ce SET a = 2 WHERE id % 50 = 0');
SELECT * FROM ce_queries();
-- but a condition before it rules it out
SELECT ce_both('UPDATE ce SET a = 0 WHERE id = 1500');
SELECT * FROM ce_queries();
ROLLBACK;

-- deleted rows, some of them in the memtable, then in an increment
SELECT ce_both('DELETE FROM ce WHERE id % 100 = 0');
SELECT * FROM ce_queries();
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT * FROM ce_queries();
SELECT ce_both('UPDATE ce SET a = 3 WHERE id % 30 = 7');
SELECT * FROM ce_queries();
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT * FROM ce_queries();
SELECT count(*) AS major FROM lsm_major_compact('ce');
SELECT * FROM ce_queries();

-- of two rows one is there
SELECT ce_both('INSERT INTO ce SELECT i, 1, ''abcY'' FROM generate_series(3001, 3002) i');
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT count(*) AS major FROM lsm_major_compact('ce');
SELECT ce_both('DELETE FROM ce WHERE id = 3001');
SELECT * FROM ce_queries();
SELECT ce_both('DELETE FROM ce WHERE id = 3002');
SELECT * FROM ce_queries();

-- rows that were never there: their changes end none
BEGIN;
SELECT ce_both('INSERT INTO ce SELECT i, 1, CASE i WHEN 5000 THEN ''abcZ'' ELSE ''x7'' END FROM generate_series(4001, 7000) i');
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT ce_both('UPDATE ce SET a = 2 WHERE id % 50 = 0');
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT count(*) FROM ce WHERE a = 2;
ROLLBACK;
SELECT * FROM ce_queries();
SELECT c AS problem FROM lsm_check('ce') c;

DROP TABLE ce, ce_heap;
DROP FUNCTION ce_query(text);
DROP FUNCTION ce_queries();
DROP FUNCTION ce_both(text);

--
-- The same tables in two schemas: a query of each has the same result, or error
--
CREATE SCHEMA ce_lsm;
CREATE SCHEMA ce_heap;
CREATE FUNCTION ce_do(command text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	am text;
BEGIN
	FOREACH am IN ARRAY ARRAY['heap', 'lsm'] LOOP
		PERFORM set_config('search_path', 'ce_' || am || ', public', true);
		PERFORM set_config('default_table_access_method', am, true);
		EXECUTE command;
	END LOOP;
	PERFORM set_config('search_path', 'public', true);
	PERFORM set_config('default_table_access_method', 'heap', true);
END $$;
CREATE FUNCTION ce_in(am text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('search_path', 'ce_' || am || ', public', true);
	EXECUTE query INTO result;
	PERFORM set_config('search_path', 'public', true);
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION ce_compare(VARIADIC queries text[]) RETURNS TABLE (query text, result text, same bool) LANGUAGE sql AS $$
	SELECT q, r, r IS NOT DISTINCT FROM ce_in('heap', q)
	FROM unnest(queries) WITH ORDINALITY x(q, n), ce_in('lsm', q) r ORDER BY n;
$$;

-- an operator that returns null
SELECT ce_do('CREATE TABLE js (id int, d jsonb) WITH (autovacuum_enabled = off)');
SELECT ce_do($$INSERT INTO js SELECT i, CASE WHEN i % 2 = 0 THEN '{"a": 5}' ELSE '{"a": "x"}' END::jsonb FROM generate_series(1, 1500) i$$);
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.js');
SELECT * FROM ce_compare(
	$$SELECT count(*) FROM js WHERE d @@ '$.a > 1'$$,
	$$SELECT count(*) FROM js WHERE d @? 'strict $.b'$$,
	$$SELECT count(*) FILTER (WHERE d @@ '$.a > 1') FROM js$$,
	$$SELECT count(*) FROM js WHERE d @@ ANY ('{$.a > 1, $.a == 7}'::jsonpath[])$$,
	$$SELECT string_agg(id::text, ' ') FROM js WHERE d @@ '$.a > 1' AND id < 10$$);

-- conditions are looked at in the planner's order, whether all go by column or not
SELECT ce_do('CREATE TABLE pat (id int, active bool, p text) WITH (autovacuum_enabled = off)');
SELECT ce_do($$INSERT INTO pat SELECT i, i > 500, CASE WHEN i <= 500 THEN '(' ELSE 'a' END FROM generate_series(1, 1500) i$$);
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.pat');
SELECT count(*) AS major FROM lsm_major_compact('ce_lsm.pat');
SELECT * FROM ce_compare(
	$$SELECT count(*) FROM pat WHERE 'a1' ~ p AND active$$,
	$$SELECT sum(length(p)) FROM pat WHERE 'a1' ~ p AND active$$,
	$$SELECT count(p) FROM (SELECT p FROM pat WHERE active IS TRUE AND 'a1' ~ p OFFSET 0) q$$,
	$$SELECT count(p) FROM (SELECT p FROM pat WHERE active IS TRUE AND p <> '(' AND 'a1' ~ p OFFSET 0) q$$,
	$$SELECT count(p) FROM (SELECT p FROM pat WHERE active IS TRUE AND p LIKE 'a\' OFFSET 0) q$$,
	$$SELECT count(p) FROM (SELECT p FROM pat WHERE active IS FALSE AND p LIKE 'a\' OFFSET 0) q$$,
	$$SELECT count(p) FROM (SELECT p FROM pat WHERE active IS TRUE AND p LIKE 'a%' OFFSET 0) q$$,
	$$SELECT count(p) FROM (SELECT p FROM pat WHERE active IS FALSE AND 'a1' ~ p OFFSET 0) q$$);

-- FILTER is not asked about what a changed row was
BEGIN;
SELECT ce_do($$UPDATE pat SET p = 'b' WHERE id = 500$$);
SELECT * FROM ce_compare(
	$$SELECT count(*) FILTER (WHERE 'a1' ~ p) FROM pat WHERE id > 499$$,
	$$SELECT string_agg(q::text, ' ' ORDER BY active) FROM (SELECT active, count(*) FILTER (WHERE 'a1' ~ p), count(p), count(*) FROM pat WHERE id > 499 GROUP BY active) q$$,
	$$SELECT count(*) FILTER (WHERE 'a1' ~ p) FROM pat WHERE id > 498$$);
ROLLBACK;

-- what a lossy bitmap stands for comes first
SELECT ce_do('CREATE INDEX pat_id ON pat USING brin (id) WITH (pages_per_range = 1)');
SET enable_seqscan = off;
SELECT ce_do($$UPDATE pat SET p = '[' WHERE id = 400$$);
SELECT * FROM ce_compare(
	$$SELECT string_agg(id::text || p, ' ') FROM pat WHERE id BETWEEN 501 AND 504 AND 'a1' ~ p$$,
	$$SELECT string_agg(id::text || p, ' ') FROM pat WHERE id BETWEEN 500 AND 504 AND 'a1' ~ p$$);
RESET enable_seqscan;

-- strings without a collation that is known
SELECT ce_do('CREATE TABLE coll (id int, s text COLLATE "C", b bytea, c char(8) COLLATE "C") WITH (autovacuum_enabled = off)');
SELECT ce_do($$INSERT INTO coll SELECT i, 'x' || i, ('y' || i)::bytea, 'z' || i FROM generate_series(1, 1500) i$$);
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.coll');
SELECT * FROM ce_compare(
	$$SELECT id FROM coll WHERE s = (SELECT 'x5'::text COLLATE "POSIX")$$,
	$$SELECT count(*) FROM coll WHERE s <> (SELECT 'x5'::text COLLATE "POSIX")$$,
	$$SELECT count(*) FROM coll WHERE s < (SELECT 'a'::text COLLATE "POSIX")$$,
	$$SELECT count(*) FROM coll WHERE s = ANY (ARRAY[(SELECT 'x5'::text COLLATE "POSIX")])$$,
	$$SELECT count(*) FROM coll WHERE c = (SELECT 'z5'::bpchar COLLATE "POSIX")$$,
	$$SELECT count(*) FILTER (WHERE s = (SELECT 'x5'::text COLLATE "POSIX")) FROM coll$$,
	$$SELECT count(*) FROM coll WHERE id < 0 AND s = (SELECT 'x5'::text COLLATE "POSIX")$$,
	$$SELECT count(*) FROM coll WHERE s = (SELECT 'x5'::text)$$,
	$$SELECT count(*) FROM coll WHERE b = (SELECT 'y5'::bytea)$$,
	$$SELECT count(*) FROM coll WHERE b < (SELECT 'y5'::bytea)$$);

-- a subquery that no row asks for is not run
CREATE SEQUENCE ce_asked;
SELECT ce_do('CREATE TABLE none (x int)');
SELECT ce_do('CREATE TABLE num (id int, v int, s text) WITH (autovacuum_enabled = off)');
SELECT * FROM ce_compare(
	$$SELECT count(*) FROM num WHERE id = (SELECT nextval('ce_asked')::int)$$,
	$$SELECT string_agg(s, '') FROM num WHERE id = (SELECT nextval('ce_asked')::int)$$);
SELECT is_called FROM ce_asked;
CREATE FUNCTION ce_subqueries() RETURNS TABLE (query text, result text, same bool) LANGUAGE sql AS $$
	SELECT * FROM ce_compare(
		$q$SELECT count(*) FROM num WHERE id < 0 AND v = (SELECT 1 / count(*)::int FROM none)$q$,
		$q$SELECT string_agg(s, '') FROM num WHERE id < 0 AND v = (SELECT 1 / count(*)::int FROM none)$q$,
		$q$SELECT count(*) FROM num WHERE id = (SELECT x FROM none) AND v = (SELECT 1 / count(*)::int FROM none)$q$,
		$q$SELECT count(*) FROM num WHERE id < 0 AND s LIKE (SELECT 's' || 1 / count(*)::int FROM none)$q$,
		$q$SELECT count(*) FROM num WHERE s LIKE 't%' AND s <> (SELECT 's' || 1 / count(*)::int FROM none)$q$,
		$q$SELECT count(*) FILTER (WHERE v = (SELECT 1 / count(*)::int FROM none)) FROM num WHERE id < 0$q$,
		$q$SELECT count(*) FILTER (WHERE id < 0 AND v = (SELECT 1 / count(*)::int FROM none)) FROM num$q$,
		$q$SELECT count(*) FROM num WHERE id < 1000 AND v = (SELECT 1 / count(*)::int FROM none)$q$,
		$q$SELECT count(*) FILTER (WHERE id < 1000 AND v = (SELECT 1 / count(*)::int FROM none)) FROM num$q$,
		$q$SELECT count(*) FROM num WHERE id > (SELECT 1) AND v < (SELECT 9) AND s <> (SELECT 's4')$q$,
		$q$SELECT string_agg(s, ' ' ORDER BY id) FROM num WHERE id > (SELECT 1) AND v < 9 AND v > (SELECT 3) AND s <> (SELECT 's4') AND v < (SELECT 8)$q$,
		$q$SELECT string_agg(q::text, ' ') FROM (SELECT x, (SELECT count(*) FROM num WHERE v < (SELECT x + 3) AND v > (SELECT x)), (SELECT count(*) FILTER (WHERE v < (SELECT x + 3) AND v > (SELECT x)) FROM num) FROM generate_series(0, 9, 3) x) q$q$);
$$;
SELECT ce_do($$INSERT INTO num SELECT i, i, 's' || i FROM generate_series(1, 10) i$$);
SELECT * FROM ce_subqueries();
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.num');
SELECT bool_and(same) AS same FROM ce_subqueries();
SELECT ce_do($$INSERT INTO num SELECT i, i, 's' || i FROM generate_series(11, 3000) i$$);
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.num');
SELECT count(*) AS major FROM lsm_major_compact('ce_lsm.num');
SELECT bool_and(same) AS same FROM ce_subqueries();
SELECT ce_do($$UPDATE num SET v = v + 1 WHERE id % 50 = 6$$);
SELECT bool_and(same) AS same FROM ce_subqueries();
SELECT * FROM ce_compare($$SELECT count(*) FROM num WHERE id <= 3000 AND v = (SELECT max(x) FROM none) AND s = (SELECT 's' || 1 / count(*)::int FROM none)$$);

-- nor is a value computed that may be an error
CREATE FUNCTION ce_prepared(am text, query text, arg int, OUT result text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('search_path', 'ce_' || am || ', public', true);
	EXECUTE 'PREPARE ce_plan(int) AS ' || query;
	BEGIN
		EXECUTE format('EXECUTE ce_plan(%s)', arg) INTO result;
	EXCEPTION WHEN OTHERS THEN
		result := SQLERRM;
	END;
	DEALLOCATE ce_plan;
	PERFORM set_config('search_path', 'public', true);
END $$;
CREATE FUNCTION ce_values(VARIADIC args int[]) RETURNS TABLE (query text, arg int, result text, same bool) LANGUAGE sql AS $$
	SELECT q, arg, r, r IS NOT DISTINCT FROM ce_prepared('heap', q, arg)
	FROM unnest(ARRAY[
		$q$SELECT count(*) FROM val WHERE v = 10 / $1$q$,
		$q$SELECT count(*) FROM val WHERE id < 0 AND v = 10 / $1$q$,
		$q$SELECT min(s) FROM (SELECT * FROM val WHERE id < 0 AND v = 10 / $1 OFFSET 0) q$q$,
		$q$SELECT count(*) FROM val WHERE s LIKE '%x%' AND v = 10 / $1$q$,
		$q$SELECT count(*) FROM val WHERE s LIKE '%x%' AND v = ANY (ARRAY[3, 10 / $1])$q$,
		$q$SELECT count(*) FROM val WHERE s LIKE '%x%' AND v > 10 / $1 AND v < 100$q$,
		$q$SELECT count(*) FROM val WHERE length(s) = 0 AND v = 10 / $1$q$,
		$q$SELECT min(s) FROM (SELECT * FROM val WHERE length(s) = 2 AND v = 10 / $1 OFFSET 0) q$q$,
		$q$SELECT count(*) FROM val WHERE length(s) = 0 AND s = ('s' || 10 / $1)$q$,
		$q$SELECT count(*) FROM val WHERE d > 'infinity'::date AND d < date '2001-01-01' - (1000000 * (1 - $1)) * interval '1 year'$q$,
		$q$SELECT count(*) FROM val WHERE d < timestamp '2001-01-01' - (1000000 * (1 - $1)) * interval '1 year'$q$,
		$q$SELECT count(*) FROM val WHERE id < 0 AND v = current_setting('ce.unset' || $1)::int$q$,
		$q$SELECT count(*) FILTER (WHERE v = 10 / $1) FROM val WHERE id < 0$q$,
		$q$SELECT count(*) FILTER (WHERE id < 0 AND v = 10 / $1) FROM val$q$,
		$q$SELECT count(*) FILTER (WHERE v = 10 / $1) FROM val$q$,
		$q$SELECT string_agg(q::text, ' ' ORDER BY a) FROM (SELECT a, (SELECT count(*) FROM val WHERE id = k AND v = 10 / (a * $1)) FROM (VALUES (1, 5), (0, -7), (2, 8)) o(a, k)) q$q$,
		$q$SELECT string_agg(q::text, ' ' ORDER BY a) FROM (SELECT a, (SELECT count(*) FROM val WHERE id = k AND v = 10 / a) FROM (VALUES (1, 5), (1 - $1, -7), (2, 5)) o(a, k)) q$q$])
		WITH ORDINALITY x(q, n), unnest(args) arg, ce_prepared('lsm', q, arg) r ORDER BY n, arg;
$$;
SET plan_cache_mode = force_generic_plan;
SELECT ce_do('CREATE TABLE val (id int, v int, s text, d date) WITH (autovacuum_enabled = off)');
SELECT * FROM ce_values(0);
SELECT ce_do($$INSERT INTO val SELECT i, i % 20, 's' || i % 100, date '2000-01-01' + i FROM generate_series(1, 3000) i$$);
SELECT bool_and(same) AS same FROM ce_values(0, 1);
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.val');
SELECT count(*) AS major FROM lsm_major_compact('ce_lsm.val');
SELECT * FROM ce_values(0, 1);
-- the value is there before a block is read
CREATE FUNCTION ce_blocks(query text, arg int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('search_path', 'ce_lsm, public', true);
	EXECUTE 'PREPARE ce_plan(int) AS ' || query;
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) EXECUTE ce_plan(%s)', arg) LOOP
		IF line LIKE '%LSM: blocks%' THEN
			RETURN NEXT trim(line);
		END IF;
	END LOOP;
	DEALLOCATE ce_plan;
	PERFORM set_config('search_path', 'public', true);
END $$;
SELECT ce_blocks('SELECT * FROM val WHERE id < 10 / $1', 1);
SELECT ce_blocks($$SELECT * FROM val WHERE length(s) = 2 AND d < date '1999-01-01' + $1 * interval '1 day'$$, 1);
SELECT ce_blocks($$SELECT * FROM val WHERE d < now() - $1 * interval '100 years'$$, 1);
-- rows that have changed, and such that are gone
SELECT ce_do($$UPDATE val SET s = 'x' WHERE id % 50 = 6$$);
SELECT bool_and(same) AS same FROM ce_values(0, 1);
SELECT ce_do($$UPDATE val SET v = v + 1, s = 's' WHERE id % 50 = 6$$);
SELECT bool_and(same) AS same FROM ce_values(0, 1);
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.val');
SELECT bool_and(same) AS same FROM ce_values(0, 1);
SELECT ce_do('DELETE FROM val WHERE id > 10');
SELECT bool_and(same) AS same FROM ce_values(0, 1);
SELECT ce_do('DELETE FROM val');
SELECT bool_and(same) AS same FROM ce_values(0, 1);
SELECT result FROM ce_values(0) LIMIT 1;
-- a column that blocks do not have
SELECT ce_do('TRUNCATE val');
SELECT ce_do('INSERT INTO val SELECT i, i, ''s'', date ''2000-01-01'' FROM generate_series(1, 100) i');
SELECT lsm_flush('ce_lsm.val') IS NOT NULL AS flush;
SELECT ce_do('ALTER TABLE val ADD w int');
SELECT q AS query, ce_prepared('lsm', q, 0) AS result, ce_prepared('heap', q, 0) AS heap
	FROM unnest(ARRAY[
		'SELECT count(*) FROM val WHERE w = 10 / $1',
		'SELECT count(*) FROM val WHERE id < 0 AND w = 10 / $1',
		'SELECT count(*) FROM val WHERE length(s) = 1 AND w = 10 / $1',
		'SELECT count(*) FILTER (WHERE w = 10 / $1) FROM val',
		'SELECT count(*) FILTER (WHERE w = 10 / $1) FROM val WHERE id < 0']) q;
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.val');
SELECT bool_and(same) AS same FROM ce_values(0, 1);

-- that no value of a block can be better than the ones before it does not spare its rows a condition that may be an error
SELECT ce_do('CREATE TABLE late (id int, v int, w int, p text) WITH (autovacuum_enabled = off)');
SELECT ce_do($$INSERT INTO late SELECT i, 3000 - i, NULL, CASE WHEN i > 2500 THEN '(x' ELSE 'a' END FROM generate_series(1, 3000) i$$);
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.late');
CREATE FUNCTION ce_lates() RETURNS TABLE (query text, result text, same bool) LANGUAGE sql AS $$
	SELECT * FROM ce_compare(
		$q$SELECT min(id) FROM late WHERE 'a1' ~ p$q$,
		$q$SELECT concat(min(id), ' ', max(v)) FROM late WHERE id > 0 AND 'a1' ~ p$q$,
		$q$SELECT min(id) FILTER (WHERE 'a1' ~ p) FROM late$q$,
		$q$SELECT concat(min(id), ' ', max(v) FILTER (WHERE p LIKE '(\')) FROM late$q$,
		$q$SELECT min(w) FROM late WHERE p <> (SELECT '(' || 1 / count(*)::int FROM none)$q$,
		$q$SELECT min(w) FILTER (WHERE p <> (SELECT '(' || 1 / count(*)::int FROM none)) FROM late$q$,
		$q$SELECT concat(min(id), ' ', max(v)) FROM late WHERE p IN ('a', 'b') AND v > 10$q$,
		$q$SELECT min(id) FROM late WHERE 'a1' ~ p AND id < 2000$q$);
$$;
SELECT * FROM ce_lates();
SELECT count(*) AS major FROM lsm_major_compact('ce_lsm.late');
SELECT bool_and(same) AS same FROM ce_lates();
-- but where none may be one, such blocks are left out
SELECT ce_blocks('SELECT min(id), max(v) FROM late WHERE p <> ''b'' AND v >= $1', 0);
RESET plan_cache_mode;

-- rows before the one that is an error are given out first
CREATE FUNCTION ce_firsts() RETURNS TABLE (query text, result text, same bool) LANGUAGE sql AS $$
	SELECT * FROM ce_compare(
		$q$SELECT id FROM lim WHERE 'a1' ~ p LIMIT 1$q$,
		$q$SELECT count(*) FROM (SELECT FROM lim WHERE 'a1' ~ p LIMIT 3) q$q$,
		$q$SELECT count(*) FROM (SELECT FROM lim WHERE 'a1' ~ p LIMIT 700) q$q$,
		$q$SELECT sum(id) FROM (SELECT id FROM lim WHERE id > 1 AND p ~ 'a' AND 'a1' ~ p LIMIT 700) q$q$,
		$q$SELECT EXISTS (SELECT FROM lim WHERE 'a1' ~ p)$q$,
		$q$SELECT EXISTS (SELECT FROM lim WHERE id > 3 AND 'a1' ~ p)$q$,
		$q$SELECT id FROM lim WHERE id >= 3 AND 'a1' ~ p LIMIT 1$q$,
		$q$SELECT id FROM lim WHERE id > 3 AND p <> '(' AND 'a1' ~ p LIMIT 1$q$,
		$q$SELECT id FROM lim WHERE 'a1' ~ p AND id > 3 LIMIT 1$q$,
		$q$SELECT id FROM lim WHERE 'a1' ~ p AND id IN (3, 5) LIMIT 1$q$,
		$q$SELECT p FROM lim WHERE 'a1' ~ p AND 10 / (id - 4) <> 0 LIMIT 1$q$,
		$q$SELECT id FROM lim WHERE id > 3 AND p LIKE 'b\' LIMIT 1$q$,
		$q$SELECT id FROM lim WHERE p LIKE 'b\' LIMIT 1$q$,
		$q$SELECT count(*) FROM lim WHERE 'a1' ~ p$q$);
$$;
SELECT ce_do('CREATE TABLE lim (id int, v int, p text) WITH (autovacuum_enabled = off)');
SELECT ce_do($$INSERT INTO lim SELECT i, i, CASE WHEN i % 1000 = 4 THEN '(' ELSE 'a' END FROM generate_series(1, 3000) i$$);
SELECT bool_and(same) AS same FROM ce_firsts();
SELECT count(*) AS flush FROM lsm_flush('ce_lsm.lim');
SELECT count(*) AS major FROM lsm_major_compact('ce_lsm.lim');
SELECT * FROM ce_firsts();
SELECT ce_do('CREATE INDEX lim_id ON lim (id)');
SET enable_seqscan = off;
SET enable_indexscan = off;
SELECT bool_and(same) AS same FROM ce_firsts();
RESET enable_seqscan;
RESET enable_indexscan;
SELECT ce_do('DROP INDEX lim_id');
-- changed rows are in their places
BEGIN;
UPDATE ce_lsm.lim SET v = 0 WHERE id IN (2, 4, 5);
SELECT left(result, 26) AS result FROM ce_firsts();
ROLLBACK;
-- a cursor
SET search_path = ce_lsm, public;
BEGIN;
DECLARE ce_cursor SCROLL CURSOR FOR SELECT id FROM lim WHERE 'a1' ~ p;
FETCH 3 FROM ce_cursor;
FETCH BACKWARD 2 FROM ce_cursor;
SAVEPOINT s;
FETCH 3 FROM ce_cursor;
ROLLBACK;
RESET search_path;

SET client_min_messages = warning;
DROP SCHEMA ce_lsm, ce_heap CASCADE;
RESET client_min_messages;
DROP SEQUENCE ce_asked;
DROP FUNCTION ce_do(text);
DROP FUNCTION ce_in(text, text);
DROP FUNCTION ce_compare(text[]);
DROP FUNCTION ce_subqueries();
DROP FUNCTION ce_prepared(text, text, int);
DROP FUNCTION ce_values(int[]);
DROP FUNCTION ce_blocks(text, int);
DROP FUNCTION ce_lates();
DROP FUNCTION ce_firsts();
