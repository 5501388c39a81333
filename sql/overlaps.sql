--
-- Many increments over each other, merged by root: a heap table gets the same changes.
--
CREATE TABLE ov (id int PRIMARY KEY, n int, s text) USING lsm
	WITH (autovacuum_enabled = off, lsm.block_size = '8kB', lsm.compression = none);
CREATE TABLE ov_heap (id int PRIMARY KEY, n int, s text) USING heap;
INSERT INTO ov SELECT i, 0, md5(i::text) FROM generate_series(1, 3000) i;
INSERT INTO ov_heap SELECT * FROM ov;
SELECT count(*) AS flush FROM lsm_flush('ov');

CREATE FUNCTION ov_change(change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format(change, 'ov');
	EXECUTE format(change, 'ov_heap');
END $$;

-- One increment.  Some kinds lie all over the table, some begin behind older ones of the same
-- kind, some before them, some at the same row; some have many blocks, some a row or two.
CREATE FUNCTION ov_generation(g int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	rows text := CASE g % 6
		WHEN 0 THEN 'id % 37 = ' || g % 37
		WHEN 1 THEN 'id BETWEEN ' || 25 * g || ' AND ' || 25 * g + 400
		WHEN 2 THEN 'id BETWEEN ' || 3000 - 25 * g || ' AND ' || 3400 - 25 * g
		WHEN 3 THEN 'id = 1500'
		WHEN 4 THEN 'id IN (1, 3000)'
		ELSE 'id % 100 = ' || g % 100 END;
BEGIN
	rows := replace(rows, '%', '%%');
	PERFORM ov_change('UPDATE %s SET n = (n * 3 + ' || g || ') %% 1000003 WHERE ' || rows);
	IF g % 4 = 3 THEN
		PERFORM ov_change('UPDATE %s SET s = md5(s) || repeat(md5(id || s), 5) WHERE ' || rows);
	END IF;
	IF g % 7 = 5 THEN
		PERFORM ov_change('DELETE FROM %s WHERE id %% 211 = ' || g);
	END IF;
	IF g % 9 = 8 THEN
		PERFORM ov_change('UPDATE %s SET id = id + 10000 WHERE id < 10000 AND id %% 197 = ' || g);
	END IF;
	IF g % 8 = 4 THEN
		BEGIN
			UPDATE ov SET n = -1, s = 'rolled back' WHERE id BETWEEN 1000 AND 1000 + g;
			PERFORM lsm_flush('ov');
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
		END;
	END IF;
	PERFORM lsm_flush('ov');
END $$;

CREATE PROCEDURE ov_generations(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR g IN first .. last LOOP
		PERFORM ov_generation(g);
		COMMIT;
	END LOOP;
END $$;

CREATE VIEW ov_differences AS
	SELECT has, id, n, left(s, 12) AS s FROM (
		SELECT 'lsm' AS has, o.* FROM (SELECT * FROM ov EXCEPT SELECT * FROM ov_heap) o
		UNION ALL SELECT 'heap', o.* FROM (SELECT * FROM ov_heap EXCEPT SELECT * FROM ov) o) x
	ORDER BY id LIMIT 10;
-- how many there are, and how many of them reach over a root, at most
CREATE VIEW ov_increments AS
	SELECT count(*) AS increments, max(blocks) > 5 AS large, max(depth) AS depth FROM lsm_segments('ov') s,
		LATERAL (SELECT count(*) AS depth FROM lsm_segments('ov') o WHERE o.kind = 'increment'
				 AND o.first_tid <= s.first_tid AND o.last_tid >= s.first_tid) o
	WHERE s.kind = 'increment';

CALL ov_generations(1, 90);
SELECT * FROM ov_increments;
SELECT count(*), count(DISTINCT n) > 500 AS many, count(DISTINCT s) FROM ov_heap;
SELECT * FROM ov_differences;
SELECT segments_in, segments_out FROM lsm_minor_compact('ov');
SELECT * FROM ov_differences;
SELECT c AS problem FROM lsm_check('ov') c;

-- above the one that this has made, into the baseline
CALL ov_generations(30, 70);
SELECT * FROM ov_increments;
SELECT count(*) AS major FROM lsm_major_compact('ov');
SELECT count(*) AS increments FROM lsm_segments('ov') WHERE kind = 'increment';
SELECT * FROM ov_differences;
SELECT c AS problem FROM lsm_check('ov') c;

-- Versions that a cursor sees, and those above them of a transaction that is under way:
-- their order is that of the increments and nothing else.
CALL ov_generations(1, 20);
BEGIN;
DECLARE seen CURSOR FOR SELECT count(*), sum(n::numeric), md5(string_agg(id || s, ',' ORDER BY id)) FROM ov;
DECLARE seen_heap CURSOR FOR SELECT count(*), sum(n::numeric), md5(string_agg(id || s, ',' ORDER BY id)) FROM ov_heap;
DECLARE later CURSOR FOR SELECT count(*), sum(n::numeric), md5(string_agg(id || s, ',' ORDER BY id)) FROM ov;
SELECT count(ov_generation(g)) AS generations FROM generate_series(21, 60) g;
SELECT segments_in, segments_out FROM lsm_minor_compact('ov');
SELECT * FROM ov_differences;
SELECT count(ov_generation(g)) AS generations FROM generate_series(61, 80) g;
SELECT segments_in, segments_out FROM lsm_minor_compact('ov');
SELECT * FROM ov_differences;
FETCH seen \gset lsm_
FETCH seen_heap \gset heap_
SELECT :lsm_count = :heap_count AND :lsm_sum = :heap_sum AND :'lsm_md5' = :'heap_md5' AS same;
SELECT count(ov_generation(g)) AS generations FROM generate_series(10, 30) g;
SELECT count(*) AS major FROM lsm_major_compact('ov');
SELECT * FROM ov_differences;
FETCH later \gset lsm_
SELECT :lsm_count = :heap_count AND :lsm_sum = :heap_sum AND :'lsm_md5' = :'heap_md5' AS same;
COMMIT;
SELECT * FROM ov_differences;

-- errors, while increments are open and at the end, leave all as it was
CALL ov_generations(81, 90);
DO $$
BEGIN
	SET LOCAL lsm.debug_stop = 'alloc-range-after:error';
	PERFORM lsm_minor_compact('ov');
EXCEPTION WHEN OTHERS THEN
	RAISE NOTICE '%', SQLERRM;
	PERFORM ov_generation(91);
END $$;
SET lsm.debug_stop = 'minor-before-swap:error';
SELECT count(*) FROM lsm_minor_compact('ov');
RESET lsm.debug_stop;
SELECT * FROM ov_increments;
SELECT * FROM ov_differences;
VACUUM ov;
SELECT * FROM ov_differences;
SELECT c AS problem FROM lsm_check('ov') c;
DROP VIEW ov_differences, ov_increments;
DROP TABLE ov, ov_heap;
DROP FUNCTION ov_generation, ov_change;
DROP PROCEDURE ov_generations;
