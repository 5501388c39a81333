--
-- Columns of enums, composites, ranges, arrays and domains: conditions, groups and aggregates,
-- over a table at all its stages; HAVING with subqueries, groups by a column that a condition
-- fixes.  Each query has what it has of heap, or its error.
--
SET max_parallel_workers_per_gather = 0;
CREATE TYPE ut_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE ut_pair AS (x int, y text);
CREATE DOMAIN ut_small AS int CHECK (value > 0);
CREATE DOMAIN ut_word AS text CHECK (value <> 'none');
CREATE DOMAIN ut_price AS numeric(10,2);
CREATE DOMAIN ut_day AS date;
CREATE DOMAIN ut_list AS int[];
CREATE TABLE ut (id int, m ut_mood, p ut_pair, r int4range, a int[], t text[], ms ut_mood[], small ut_small, w ut_word, n ut_price, d ut_day, l ut_list, k int) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE ut_heap (LIKE ut) USING heap;
CREATE FUNCTION ut_both(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, 'ut#', 'ut_heap');
	EXECUTE replace(command, 'ut#', 'ut');
END $$;
SELECT ut_both($$INSERT INTO ut# SELECT i, (ARRAY['sad', 'ok', 'happy', NULL]::ut_mood[])[1 + i / 7 % 4], CASE WHEN i % 13 > 0 THEN ROW(i % 10, CASE WHEN i % 6 > 0 THEN 'y' || i % 3 END)::ut_pair END, CASE WHEN i % 40 = 0 THEN 'empty' WHEN i % 17 > 0 THEN int4range(i % 20, i % 20 + 5) END,
	CASE WHEN i % 11 > 0 THEN ARRAY[i % 5, i % 7] END, ARRAY['t' || i % 4, NULL], ARRAY[(ARRAY['sad', 'ok']::ut_mood[])[1 + i % 2]], CASE WHEN i % 9 > 0 THEN 1 + i % 50 END, 'w' || i % 30, (i % 100) / 4.0, date '2020-01-01' + i / 50, ARRAY[i % 3], i % 5 FROM generate_series(1, 3000) i$$);

CREATE TABLE ut_cond (cond text);
INSERT INTO ut_cond VALUES
	('true'), ('m = ''ok'''), ('m <> ''ok'''), ('m < ''happy'''), ('m >= ''ok'''), ('m IN (''sad'', ''happy'')'), ('m NOT IN (''sad'', ''happy'')'), ('m = ANY (''{sad,ok,NULL}'')'), ('m IS NULL'), ('m IS NOT NULL AND k = 1'), ('m = (SELECT max(m) FROM ut_heap)'), ('m::text LIKE ''s%'''), ('m = ''unknown'''), ('m > ''happy'''), ('''ok'' = m'),
	('p = ROW(3, ''y0'')::ut_pair'), ('p < ROW(5, '''')::ut_pair'), ('p >= ROW(9, NULL)::ut_pair'), ('p <> ROW(3, ''y0'')::ut_pair'), ('p IN (ROW(3, ''y0'')::ut_pair, ROW(4, ''y1'')::ut_pair)'), ('p = ROW(6, NULL)::ut_pair'), ('p = ROW(3, ''y0'')'), ('(p).x = 3'), ('(p).y IS NULL'), ('p IS NULL'), ('p IS NOT NULL'), ('p *= ROW(6, NULL)::ut_pair'), ('p = ROW(3, 4)'),
	('r = ''[3,8)'''), ('r <> ''[3,8)'''), ('r @> 5'), ('5 <@ r'), ('r && ''[3,5)'''), ('r << ''[10,12)'''), ('r -|- ''[8,9)'''), ('r < ''[5,10)'''), ('r >= ''[18,19)'''), ('r IN (''[3,8)'', ''empty'')'), ('isempty(r)'), ('r IS NULL'), ('r = ''[9,3)'''), ('r @> ''[4,5]''::int4range'),
	('a = ''{1,2}'''), ('a <> ''{1,2}'''), ('a < ''{2}'''), ('a @> ''{3}'''), ('a <@ ''{1,2,3}'''), ('a && ''{4,6}'''), ('3 = ANY (a)'), ('a[1] = 2'), ('a IN (''{1,2}'', ''{3,4}'')'), ('a IS NULL'), ('t = ''{t1,NULL}'''), ('t @> ''{t2}'''), ('t < ''{t2}'''), ('t[1] LIKE ''t3'''), ('ms = ''{ok}'''), ('ms @> ''{sad}'''), ('''ok'' = ANY (ms)'),
	('small = 7'), ('small = 7::ut_small'), ('small < 10'), ('small > 48 OR small IS NULL'), ('small IN (1, 2, 3)'), ('small NOT IN (1, 2, 3)'), ('small BETWEEN 5 AND 8'), ('small = -7'), ('small = (-7)::ut_small'), ('k = 9 AND small = (k - 20)::ut_small'), ('w = ''w5'''), ('w <> ''w5'''), ('w < ''w2'''), ('w LIKE ''w1%'''), ('w IN (''w1'', ''w29'')'), ('w = ''none''::ut_word'), ('w ^@ ''w2'''),
	('n = 2.25'), ('n > 20'), ('n <= 0.5'), ('n IN (1, 2.5, 3.1)'), ('n <> 2.25'), ('d = ''2020-02-01'''), ('d < ''2020-01-10'''), ('d >= timestamp ''2020-02-20 12:00'''), ('d IN (''2020-02-01'', ''2020-02-02'')'), ('l = ''{1}'''), ('l @> ''{2}'''), ('l[1] = 1'), ('k = 2 AND m = ''ok'' AND small < 20 AND a @> ''{1}''');
CREATE TABLE ut_what (what text);
INSERT INTO ut_what VALUES
	('SELECT concat(count(*), '' '', sum(id)) FROM ut# x WHERE %s'),
	('SELECT concat(count(*), '' '', sum(hashtext(q::text)::bigint)) FROM (SELECT * FROM ut# x WHERE %s OFFSET 0) q'),
	('SELECT concat(count(*) FILTER (WHERE %1$s), '' '', sum(k) FILTER (WHERE %1$s)) FROM ut#'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k, count(*), sum(small), max(n) FROM ut# x WHERE %s GROUP BY k) q');
CREATE TABLE ut_query (query text);
INSERT INTO ut_query SELECT format('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT %1$s, count(*), sum(id), count(m), min(small), max(w) FROM ut# GROUP BY %1$s) q', g) FROM unnest('{m,p,r,a,t,ms,small,w,n,d,l,"m, small","w, k","small, w","k, a"}'::text[]) g;
INSERT INTO ut_query SELECT format('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT DISTINCT %s FROM ut#) q', g) FROM unnest('{m,p,r,a,t,ms,small,w,n,d,l,"m, k","small, k"}'::text[]) g;
INSERT INTO ut_query SELECT format('SELECT concat_ws('' '', min(%1$s), max(%1$s), count(%1$s), count(DISTINCT %1$s)) FROM ut# %2$s', g, c) FROM unnest('{m,a,t,ms,small,w,n,d,l}'::text[]) g, unnest('{"",WHERE id > 2000,WHERE k = 9}'::text[]) c;
INSERT INTO ut_query VALUES
	('SELECT count(1) FROM ut#'), ('SELECT count(1) FROM ut# WHERE m = ''ok'''), ('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k, count(1), sum(id) FROM ut# GROUP BY k) q'), ('SELECT concat(count(1), '' '', max(id)) FROM ut#'), ('SELECT count(1 + 1) FROM ut# WHERE id > 100'), ('SELECT count(NULL) FROM ut#'), ('SELECT concat_ws('' '', sum(small), avg(small), sum(n), avg(n), sum(small * n), sum(1), min(1), max(2)) FROM ut#'),
	('SELECT concat_ws('' '', sum(small), count(1), min(d)) FROM ut# WHERE id < 0'),
	-- HAVING
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k, count(*) FROM ut# GROUP BY k HAVING sum(id) > (SELECT avg(id) * 600 FROM ut#)) q'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT small, count(*) FROM ut# GROUP BY small HAVING count(*) > (SELECT count(*) / 56 FROM ut# WHERE m IS NOT NULL)) q'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k, max(id) FROM ut# x GROUP BY k HAVING max(id) > (SELECT count(*) - 3 FROM ut# y WHERE y.k >= x.k)) q'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k, sum(n) FROM ut# x GROUP BY k HAVING EXISTS (SELECT FROM ut# y WHERE y.k = x.k AND y.small = 3 AND y.id > 2950)) q'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k FROM ut# GROUP BY k HAVING k IN (SELECT (p).x FROM ut# WHERE id < 5)) q'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k, count(*) FROM ut# WHERE small > (SELECT 40) GROUP BY k HAVING min(id) < (SELECT max(id) FROM ut# WHERE k = 1)) q'),
	('SELECT count(*) FROM ut# HAVING count(*) > (SELECT max(k) FROM ut#)'), ('SELECT count(*) FROM ut# HAVING count(*) < (SELECT max(k) FROM ut#)'), ('SELECT sum(id) FROM ut# WHERE id < 0 HAVING count(*) = (SELECT count(*) FROM ut# WHERE k = 9)'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k FROM ut# GROUP BY k HAVING 1 / (k - (SELECT 3)) > 0) q');
-- groups by a column that can have but one value
INSERT INTO ut_query SELECT format('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT %s, count(*), sum(id), avg(n), sum(small) FROM ut# WHERE %s GROUP BY %s) q', o, c, g)
	FROM (VALUES ('k', 'k = 3', 'k'), ('k', 'k = 9', 'k'), ('k + 1', 'k = 3', 'k'), ('7', 'k = 3', 'k'), ('small', 'small = 7', 'small'), ('w', 'w = ''w5''', 'w'), ('m', 'm = ''ok''', 'm'), ('k, small', 'k = 3', 'k, small'), ('k, small', 'k = 3 AND small = 4', 'small, k'), ('k', 'k = (SELECT 3)', 'k'), ('k', 'k = 3', 'k HAVING count(*) > (SELECT 10)'), ('k', 'k = 3', 'k HAVING count(*) < (SELECT 10)'), ('d, k', 'k = 3 AND d < ''2020-01-20''', 'd, k'), ('k', 'k = 3 AND k = 4', 'k')) x(o, c, g);
CREATE FUNCTION ut_answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE query INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION ut_check() RETURNS TABLE (queries bigint, wrong text) LANGUAGE sql AS $$
	SELECT count(*), string_agg(query || ': ' || concat(l, ' not ', h), E'\n') FILTER (WHERE l IS DISTINCT FROM h)
	FROM (SELECT format(what, cond) AS query FROM ut_what, ut_cond UNION ALL SELECT query FROM ut_query OFFSET 0) q, ut_answer(replace(query, 'ut#', 'ut')) l, ut_answer(replace(query, 'ut#', 'ut_heap')) h;
$$;

SELECT * FROM ut_check();
SELECT count(*) AS flush FROM lsm_flush('ut');
SELECT * FROM ut_check();
-- a value between others, which has a number behind theirs
ALTER TYPE ut_mood ADD VALUE 'fine' BEFORE 'happy';
INSERT INTO ut_cond VALUES ('m = ''fine'''), ('m > ''ok'''), ('m < ''fine'''), ('m NOT IN (''fine'', ''sad'')');
SELECT ut_both($$UPDATE ut# SET m = 'fine', small = 8, a = a || 1 WHERE id % 50 = 3$$), ut_both($$UPDATE ut# SET p.y = 'changed', n = n + 1 WHERE id % 60 = 7$$), ut_both($$UPDATE ut# SET r = '[1,2)', w = 'w5', k = 3 WHERE id % 70 = 11$$), ut_both('DELETE FROM ut# WHERE id % 80 = 13');
SELECT * FROM ut_check();
SELECT count(*) AS flush FROM lsm_flush('ut');
SELECT ut_both($$UPDATE ut# SET m = NULL, l = '{7}', d = '2030-01-01' WHERE id % 90 = 17$$), ut_both($$INSERT INTO ut# (id, m, small, w, k) SELECT i, 'fine', 7, 'w', 3 FROM generate_series(3001, 3100) i$$);
SELECT * FROM ut_check();
SELECT count(*) AS flush FROM lsm_flush('ut');
SELECT count(*) AS major FROM lsm_major_compact('ut');
SELECT * FROM ut_check();
VACUUM ANALYZE ut;
SELECT * FROM ut_check();

-- parallel plans
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
CREATE FUNCTION ut_parallel(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found text = '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
		found := found || line;
	END LOOP;
	RETURN found LIKE '%Gather%(LsmAgg)%';
END $$;
SELECT ut_parallel('SELECT k, count(*), sum(id) FROM ut WHERE k = 3 GROUP BY k'), ut_parallel('SELECT count(*) FROM ut WHERE m = ''ok'''), ut_parallel('SELECT w, sum(small) FROM ut GROUP BY w HAVING count(*) > (SELECT 99)');
DELETE FROM ut_cond WHERE cond NOT LIKE 'm %' AND cond NOT LIKE 'small%' AND cond NOT LIKE 'a%';
SELECT * FROM ut_check();
SET max_parallel_workers = 0;
SELECT * FROM ut_check();
RESET max_parallel_workers;
SELECT ut_both($$UPDATE ut# SET small = 7, k = 3 WHERE id % 100 = 19$$);
SELECT * FROM ut_check();
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

SELECT c AS problem FROM lsm_check('ut') c;
DROP TABLE ut, ut_heap, ut_cond, ut_what, ut_query;
DROP FUNCTION ut_both, ut_answer, ut_check, ut_parallel;
DROP TYPE ut_mood, ut_pair;
DROP DOMAIN ut_small, ut_word, ut_price, ut_day, ut_list;
