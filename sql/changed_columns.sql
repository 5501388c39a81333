--
-- Changed rows count for a query only if what it asks for was changed
--
SET max_parallel_workers_per_gather = 0;
CREATE TABLE cc (id int, a int, b numeric(10,2), d date, s text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE cc_heap (LIKE cc);
INSERT INTO cc_heap SELECT i, i % 100, i / 8.0, '2000-01-01'::date + i / 10, 's' || i FROM generate_series(1, 6000) i;
INSERT INTO cc SELECT * FROM cc_heap ORDER BY id;
SELECT segments_out > 0 AS flushed FROM lsm_flush('cc');
SELECT segments_out > 0 AS compacted FROM lsm_major_compact('cc');
ANALYZE cc;

-- What a query did: what the node says, blocks without their number; and is its answer heap's?
CREATE FUNCTION cc_query(select_list text, condition text DEFAULT 'true', OUT did text, OUT same bool) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	a text;
	h text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT %s FROM cc WHERE %s', select_list, condition) LOOP
		IF line LIKE '%LSM:%' THEN
			did := regexp_replace(ltrim(line), '(read|skipped|counted)=[1-9]\d*', '\1', 'g');
		END IF;
	END LOOP;
	EXECUTE format('SELECT array_agg(q::text) FROM (SELECT %s FROM cc WHERE %s) q', select_list, condition) INTO a;
	EXECUTE format('SELECT array_agg(q::text) FROM (SELECT %s FROM cc_heap WHERE %s) q', select_list, condition) INTO h;
	same := a IS NOT DISTINCT FROM h;
END $$;
CREATE FUNCTION cc_queries() RETURNS TABLE (query text, did text, same bool) LANGUAGE sql AS $$
	SELECT concat_ws(' WHERE ', q.list, nullif(q.condition, 'true')), r.*
	FROM (VALUES (1, 'count(*)', 'true'), (2, 'sum(a)', 'true'), (3, 'min(d), max(d)', 'true'), (4, 'sum(b), count(*)', 'true'),
			(5, 'sum(b + a), sum(a)', 'a < 90'), (6, 'sum(b)', 'a = 7'), (7, 'sum(b)', 'd < ''2000-02-01'''), (8, 'count(*)', 'b < 100'), (9, 'max(b)', 'true'),
			(10, 'count(*) FILTER (WHERE b > 50), sum(a)', 'true'), (11, 'count(s), sum(length(s))', 'd < ''2000-01-05'''))
		q(k, list, condition), cc_query(q.list, q.condition) r ORDER BY q.k;
$$;
CREATE FUNCTION cc_both(change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(change, 'cc', 'cc_heap');
	EXECUTE change;
END $$;
SELECT * FROM cc_queries();

-- one column of some rows: in the memtable, then in an increment
SELECT cc_both('UPDATE cc SET b = b + 1 WHERE id % 100 = 7');
SELECT * FROM cc_queries();
SELECT segments_out > 0 AS flushed FROM lsm_flush('cc');
SELECT * FROM cc_queries();

-- row locks and changes that are rolled back are changes, too, but of no column that is asked for
BEGIN;
SELECT count(*) FROM (SELECT FROM cc WHERE id % 50 = 3 FOR UPDATE) x;
SELECT * FROM cc_query('count(*), sum(a)');
UPDATE cc SET s = 'x' WHERE id % 50 = 4;
SELECT * FROM cc_query('count(*), sum(a)');
SELECT count(*) FROM cc WHERE s = 'x';
ROLLBACK;
SELECT * FROM cc_query('count(*), sum(a)');
SELECT count(*) FROM cc WHERE s = 'x';

-- rows have the names of their versions, whatever they are asked for
BEGIN;
UPDATE cc SET b = 0 WHERE id = 1000;
SELECT (SELECT max(ctid) FROM cc WHERE a = 0 AND id = 1000) = (SELECT ctid FROM cc WHERE id = 1000) AS same_name;
DECLARE c CURSOR FOR SELECT a FROM cc WHERE id = 1000;
FETCH c;
UPDATE cc SET a = 1000 WHERE CURRENT OF c;
SELECT a, b FROM cc WHERE id = 1000;
ROLLBACK;

-- deleted rows count for all but what is ruled out by a column that nobody has changed
SELECT cc_both('DELETE FROM cc WHERE id % 200 = 9');
SELECT * FROM cc_queries();
SELECT segments_out > 0 AS flushed FROM lsm_flush('cc');
SELECT * FROM cc_queries();

-- all columns; null is no absence; and a column that rows are older than
SELECT cc_both('UPDATE cc SET d = NULL WHERE id % 300 = 10');
SELECT * FROM cc_query('min(d), max(d), count(d)');
SELECT segments_out > 0 AS flushed FROM lsm_flush('cc');
SELECT * FROM cc_query('min(d), max(d), count(d)');
SELECT cc_both('UPDATE cc SET a = -1, b = -1, d = ''1999-01-01'', s = repeat(id::text, 3), id = id WHERE id % 250 = 11');
SELECT * FROM cc_queries();
SELECT cc_both('ALTER TABLE cc ADD COLUMN z int DEFAULT 5');
SELECT * FROM cc_query('sum(z), count(z), sum(a)');
SELECT cc_both('UPDATE cc SET z = id WHERE id % 400 = 12');
SELECT * FROM cc_query('sum(z), count(z), sum(a)');
SELECT * FROM cc_query('count(*)', 'z = 5');
SELECT segments_out > 0 AS compacted FROM lsm_major_compact('cc');
SELECT * FROM cc_queries();
SELECT * FROM lsm_check('cc');
DROP TABLE cc, cc_heap;
DROP FUNCTION cc_query, cc_queries, cc_both;

-- Columns are noted by words of 32: those at the borders of words, each changed by itself.
DO $$ BEGIN
	EXECUTE (SELECT 'CREATE TABLE cc_wide (' || string_agg('c' || i || ' int', ', ' ORDER BY i)
			 || ') USING lsm WITH (autovacuum_enabled = off)' FROM generate_series(1, 70) i);
	EXECUTE (SELECT 'INSERT INTO cc_wide SELECT ' || string_agg('g', ', ') || ' FROM generate_series(1, 500) g'
			 FROM generate_series(1, 70) i);
END $$;
SELECT count(*) FROM lsm_flush('cc_wide');
SELECT count(*) FROM lsm_major_compact('cc_wide');
UPDATE cc_wide SET c31 = 1031 WHERE c1 = 7;
SELECT max(c31) AS c31, max(c32) AS c32, max(c33) AS c33, max(c63) AS c63, max(c64) AS c64, max(c70) AS c70 FROM cc_wide;
UPDATE cc_wide SET c32 = 1032 WHERE c1 = 8;
SELECT max(c31) AS c31, max(c32) AS c32, max(c33) AS c33, max(c63) AS c63, max(c64) AS c64, max(c70) AS c70 FROM cc_wide;
UPDATE cc_wide SET c63 = 1063 WHERE c1 = 9;
UPDATE cc_wide SET c64 = 1064 WHERE c1 = 9;
UPDATE cc_wide SET c70 = 1070 WHERE c1 = 10;
SELECT max(c31) AS c31, max(c32) AS c32, max(c33) AS c33, max(c63) AS c63, max(c64) AS c64, max(c70) AS c70 FROM cc_wide;
SELECT count(*) FROM cc_wide WHERE c32 > 1000 OR c70 > 1000;
SELECT count(*) FROM cc_wide WHERE c64 = 9;
DELETE FROM cc_wide WHERE c1 = 8;
SELECT count(*), max(c32) FROM cc_wide;
DROP TABLE cc_wide;
