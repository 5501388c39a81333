--
-- Many increments, beside and over each other: which of them a row is looked for in, and
-- what a planner is told of all segments
--
CREATE FUNCTION lsm_test_meeting(seed int, rounds int) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
SELECT lsm_test_meeting(i, 100) FROM generate_series(1, 3) i;
DROP FUNCTION lsm_test_meeting(int, int);

CREATE TABLE layers (id int PRIMARY KEY, a int, b int) USING lsm
	WITH (autovacuum_enabled = off, lsm.auto_compact = off, lsm.block_size = '8kB');
CREATE TABLE layers_heap (id int PRIMARY KEY, a int, b int) USING heap;
SET lsm.debug_segment_rows = 500;
INSERT INTO layers SELECT i, 0, i FROM generate_series(1, 10000) i;
INSERT INTO layers_heap SELECT * FROM layers;
SELECT segments_out > 10 AS many FROM lsm_flush('layers');
-- each time others, some of them all over the table
DO $$
BEGIN
	FOR i IN 1 .. 6 LOOP
		UPDATE layers SET a = i WHERE id BETWEEN i * 1000 AND i * 1000 + 3000 AND id % i = 0;
		UPDATE layers_heap SET a = i WHERE id BETWEEN i * 1000 AND i * 1000 + 3000 AND id % i = 0;
		DELETE FROM layers WHERE id % 1000 = i;
		DELETE FROM layers_heap WHERE id % 1000 = i;
		COMMIT;
		PERFORM lsm_flush('layers');
	END LOOP;
END $$;
SELECT count(*) > 15 AS many FROM lsm_segments('layers') WHERE kind = 'increment';
-- row by row, in an order that goes to and fro
SET enable_seqscan = off;
SELECT count(*), sum(l.a), sum(l.b), sum(l.a::bigint * l.id) FROM generate_series(1, 10006) i,
	LATERAL (SELECT * FROM layers WHERE id = i * 7919 % 10007 OFFSET 0) l;
SELECT count(*), sum(a), sum(b), sum(a::bigint * id) FROM layers_heap;
RESET enable_seqscan;
-- block by block, and rows of blocks
SELECT count(*), sum(a), sum(b) FROM layers;
SELECT count(*), sum(a), sum(b) FROM layers_heap;
SET lsm.enable_lsmscan = off;
SELECT count(*), sum(a), sum(b) FROM layers;
RESET lsm.enable_lsmscan;
-- what is counted for the planner is what there is
CREATE FUNCTION planned_rows(text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT * FROM ' || $1 INTO plan;
	RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
SELECT planned_rows('layers') - (SELECT count(*) FROM layers) AS too_many;
DELETE FROM layers WHERE id > 9000;
SELECT planned_rows('layers') - (SELECT count(*) FROM layers) AS too_many;
SELECT lsm_major_compact('layers') IS NOT NULL AS compacted;
SELECT planned_rows('layers') - (SELECT count(*) FROM layers) AS too_many;
DELETE FROM layers_heap WHERE id > 9000;
SELECT count(*), sum(a), sum(b) FROM layers;
SELECT count(*), sum(a), sum(b) FROM layers_heap;
SELECT c AS problem FROM lsm_check('layers') c;
RESET lsm.debug_segment_rows;
DROP TABLE layers, layers_heap;
DROP FUNCTION planned_rows(text);
