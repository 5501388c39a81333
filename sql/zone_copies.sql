--
-- Zones of blocks that a major compaction copies: they are those of more rows than are
-- there by then, so no minimum or maximum is answered from them
--
CREATE TABLE zc (id int, v int, d date, n numeric(10,2), f text, e text)
	USING lsm WITH (autovacuum_enabled = off, lsm.auto_compact = off, lsm.block_size = '8kB');
CREATE TABLE zc_heap (LIKE zc) USING heap;
INSERT INTO zc SELECT i, CASE WHEN i = 50 THEN -1000 ELSE i % 10 END,
	'2000-01-01'::date + CASE WHEN i = 60 THEN 90000 ELSE i % 10 END, CASE WHEN i = 70 THEN 1000 ELSE i % 7 END,
	repeat('f', 40), CASE WHEN i = 80 THEN 'only' END
	FROM generate_series(1, 40000) i;
INSERT INTO zc_heap TABLE zc;
CREATE FUNCTION zc_same() RETURNS TABLE (zones bool, counted bool, min_v int, max_d date, max_n numeric, count_e int8, same bool, problems int8)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	bounds text;
BEGIN
	zones := false;
	counted := false;
	FOR line IN EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT min(v), max(d), max(n) FROM zc LOOP
		zones := zones OR line LIKE '%LsmAgg%';
		counted := counted OR line ~ 'counted=[1-9]';
	END LOOP;
	SELECT min(v), max(d), max(n), count(e) INTO min_v, max_d, max_n, count_e FROM zc;
	SELECT (min_v, max_d, max_n, count_e) IS NOT DISTINCT FROM (min(v), max(d), max(n), count(e)) INTO same FROM zc_heap;
	SELECT count(*) INTO problems FROM lsm_check('zc');
	RETURN NEXT;
END $$;
SELECT lsm_flush('zc') IS NOT NULL AS flush;
SELECT lsm_major_compact('zc') IS NOT NULL AS major;
VACUUM zc;
SELECT * FROM zc_same();
-- rows with the bounds of their zones go
DELETE FROM zc WHERE id IN (50, 60);
UPDATE zc SET n = 1, e = NULL WHERE id IN (70, 80);
DELETE FROM zc_heap WHERE id IN (50, 60);
UPDATE zc_heap SET n = 1, e = NULL WHERE id IN (70, 80);
SELECT * FROM zc_same();
SELECT lsm_flush('zc') IS NOT NULL AS flush;
SELECT * FROM zc_same();
SELECT lsm_major_compact('zc') IS NOT NULL AS major;
VACUUM zc;
SELECT * FROM zc_same();
-- and are copied once more
INSERT INTO zc VALUES (100000, -5, '2000-02-01', 70, 'f', 'e');
INSERT INTO zc_heap VALUES (100000, -5, '2000-02-01', 70, 'f', 'e');
UPDATE zc SET v = -7 WHERE id = 20000;
UPDATE zc_heap SET v = -7 WHERE id = 20000;
SELECT lsm_flush('zc') IS NOT NULL AS flush;
SELECT lsm_major_compact('zc') IS NOT NULL AS major;
VACUUM zc;
SELECT * FROM zc_same();
UPDATE zc SET v = 7 WHERE id = 20000;
UPDATE zc_heap SET v = 7 WHERE id = 20000;
SELECT lsm_flush('zc') IS NOT NULL AS flush;
SELECT lsm_major_compact('zc') IS NOT NULL AS major;
VACUUM zc;
SELECT * FROM zc_same();
TABLE zc EXCEPT TABLE zc_heap;
DROP TABLE zc, zc_heap;
DROP FUNCTION zc_same();

-- The session's limit of opened segments closes the one whose zones are asked, when those over
-- it are opened
CREATE TABLE zu (id int, v int, b int) USING lsm WITH (autovacuum_enabled = off, lsm.auto_compact = off, lsm.block_size = '8kB');
INSERT INTO zu SELECT i, i % 1000, 0 FROM generate_series(1, 20000) i;
SELECT lsm_flush('zu') IS NOT NULL AS flush;
VACUUM zu;
DO $$
BEGIN
	FOR k IN 1 .. 24 LOOP
		EXECUTE 'UPDATE zu SET b = b + 1 WHERE id % 500 = ' || k;
		PERFORM lsm_flush('zu');
	END LOOP;
END $$;
SELECT count(*) AS increments FROM lsm_segments('zu') WHERE kind = 'increment';
\c
SET lsm.debug_reader_memory = 1;
SELECT min(v), max(v), count(v) FROM zu;
DROP TABLE zu;
