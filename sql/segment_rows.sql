--
-- Segments end at a number of rows, however few bytes these have
--
CREATE FUNCTION lsm_test_pick_table(regclass) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE many_rows (id int PRIMARY KEY, v int) USING lsm WITH (autovacuum_enabled = off, lsm.block_size = '8kB');
CREATE TABLE many_rows_heap (id int PRIMARY KEY, v int) USING heap;
CREATE VIEW many_rows_segments AS
	SELECT replace(kind, 'insert', 'baseline') AS kind, count(*), sum(rows) AS rows, min(rows) > 500 AS least, max(rows) < 2000 AS most
	FROM lsm_segments('many_rows') GROUP BY 1 ORDER BY 1;
CREATE FUNCTION many_rows_differ() RETURNS SETOF many_rows LANGUAGE sql AS $$
	(SELECT * FROM many_rows EXCEPT SELECT * FROM many_rows_heap)
	UNION ALL (SELECT * FROM many_rows_heap EXCEPT SELECT * FROM many_rows) LIMIT 10 $$;
-- compacts until only baseline is left: an old snapshot of another session may
-- hold that back for a while
CREATE PROCEDURE many_rows_major() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		PERFORM lsm_major_compact('many_rows');
		COMMIT;
		EXIT WHEN NOT EXISTS (SELECT FROM lsm_segments('many_rows') WHERE kind <> 'baseline' OR NOT all_visible);
		PERFORM pg_sleep(0.1);
		COMMIT;
	END LOOP;
END $$;

SET lsm.debug_segment_rows = 1000;
INSERT INTO many_rows SELECT i, 1 FROM generate_series(1, 40000) i;
INSERT INTO many_rows_heap SELECT * FROM many_rows;
SELECT segments_out FROM lsm_flush('many_rows');
SELECT * FROM many_rows_segments;

-- increments
UPDATE many_rows SET v = 2 WHERE id <= 20000;
UPDATE many_rows_heap SET v = 2 WHERE id <= 20000;
SELECT segments_out FROM lsm_flush('many_rows');
DELETE FROM many_rows WHERE id BETWEEN 10001 AND 30000 AND id % 2 = 0;
DELETE FROM many_rows_heap WHERE id BETWEEN 10001 AND 30000 AND id % 2 = 0;
SELECT segments_out FROM lsm_flush('many_rows');
SELECT * FROM many_rows_differ();
-- a minor ends them as well, and has nothing more to do
SELECT segments_in, segments_out > 20 AS many FROM lsm_minor_compact('many_rows');
SELECT kind, count(*) > 20 AS many, max(versions) < 1100 AS most FROM lsm_segments('many_rows') WHERE kind = 'increment' GROUP BY kind;
SELECT segments_in FROM lsm_minor_compact('many_rows');
SELECT * FROM many_rows_differ();
SET enable_seqscan = off;
SELECT id, v FROM many_rows WHERE id IN (1, 1000, 1001, 1002, 15000, 15001, 29999, 30000, 40000) ORDER BY id;
RESET enable_seqscan;
SELECT c AS problem FROM lsm_check('many_rows') c;

-- a major, too; what it has written is not small, though it has few bytes
CALL many_rows_major();
SELECT * FROM many_rows_segments;
SELECT segments_in FROM lsm_major_compact('many_rows');
SELECT lsm_test_pick_table('many_rows');
SELECT * FROM many_rows_differ();
SELECT c AS problem FROM lsm_check('many_rows') c;

-- and a rewrite
VACUUM FULL many_rows;
SELECT * FROM many_rows_segments;
SELECT * FROM many_rows_differ();
SELECT c AS problem FROM lsm_check('many_rows') c;

-- segments of fewer rows become larger when the setting does
RESET lsm.debug_segment_rows;
CALL many_rows_major();
SELECT kind, count(*), sum(rows) AS rows FROM lsm_segments('many_rows') GROUP BY kind;
SELECT * FROM many_rows_differ();

-- the versions of one row are not divided
SET lsm.debug_segment_rows = 3;
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 10 LOOP
		UPDATE many_rows SET v = v + i WHERE id BETWEEN 1 AND 3;
	END LOOP;
END $$;
SELECT segments_out FROM lsm_flush('many_rows');
SELECT rows, versions FROM lsm_segments('many_rows') WHERE kind = 'increment' ORDER BY first_tid;
SELECT * FROM many_rows WHERE id < 5;
COMMIT;
SELECT * FROM many_rows WHERE id < 5;
SELECT c AS problem FROM lsm_check('many_rows') c;
RESET lsm.debug_segment_rows;
DROP VIEW many_rows_segments;
DROP FUNCTION many_rows_differ();
DROP TABLE many_rows, many_rows_heap;
DROP PROCEDURE many_rows_major();
DROP FUNCTION lsm_test_pick_table(regclass);
