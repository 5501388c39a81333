--
-- lsm_segments: the shape of what flush and compaction leave
--
CREATE TABLE sg (id int PRIMARY KEY, v int, t text) USING lsm WITH (autovacuum_enabled = off);
SELECT count(*) FROM lsm_segments('sg');
INSERT INTO sg SELECT i, i, 'text ' || i FROM generate_series(1, 10000) i;
-- rows in the row log are in no segment
SELECT count(*) FROM lsm_segments('sg');
SELECT rows_in = 10000 AS rows_in, rows_out = 10000 AS rows_out, segments_out > 0 AS out,
	bytes_written > 0 AS written FROM lsm_flush('sg');
-- nothing more to do
SELECT segments_out, rows_in, rows_out FROM lsm_flush('sg');

-- what holds for every table at every time
CREATE FUNCTION sg_sane(t regclass) RETURNS boolean LANGUAGE sql AS $$
	SELECT coalesce(bool_and(
		segment_id IS NOT NULL
		AND kind IN ('insert', 'increment', 'baseline')
		AND level = CASE kind WHEN 'baseline' THEN 2 ELSE 1 END
		AND first_tid <= last_tid
		AND rows >= 0 AND versions >= rows AND blocks > 0
		AND raw_bytes > 0 AND stored_bytes > 0
		AND location = 'local' AND object_key IS NULL
		AND all_visible IS NOT NULL), true)
		AND count(DISTINCT segment_id) = count(*)
		AND coalesce(sum(stored_bytes), 0) <= pg_relation_size(t)
	FROM lsm_segments(t) $$;
-- compacts until only baseline is left: an old snapshot of another session may
-- hold that back for a while
CREATE PROCEDURE sg_major(t regclass) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		PERFORM lsm_major_compact(t);
		COMMIT;
		EXIT WHEN NOT EXISTS (SELECT FROM lsm_segments(t) WHERE kind <> 'baseline' OR NOT all_visible);
		PERFORM pg_sleep(0.1);
		COMMIT;
	END LOOP;
END $$;
SELECT sg_sane('sg');
SELECT sum(rows) AS rows, sum(versions) AS versions, bool_and(kind IN ('insert', 'baseline')) AS kinds FROM lsm_segments('sg');
SELECT sum(stored_bytes) < sum(raw_bytes) AS smaller FROM lsm_segments('sg');

-- an increment for each flush of changes; minor makes fewer of them
UPDATE sg SET v = v + 1 WHERE id % 10 = 0;
SELECT count(*) AS flush FROM lsm_flush('sg');
SELECT sg_sane('sg'), count(*) FILTER (WHERE kind = 'increment') AS increments FROM lsm_segments('sg');
UPDATE sg SET v = v + 1 WHERE id % 20 = 0;
DELETE FROM sg WHERE id % 100 = 0;
SELECT count(*) AS flush FROM lsm_flush('sg');
SELECT sg_sane('sg'), count(*) FILTER (WHERE kind = 'increment') AS increments FROM lsm_segments('sg');
SELECT segments_in >= 2 AS segments_in, segments_out, rows_in >= rows_out AS rows, bytes_read > 0 AS read, bytes_written > 0 AS written
	FROM lsm_minor_compact('sg');
SELECT sg_sane('sg'), count(*) FILTER (WHERE kind = 'increment') AS increments FROM lsm_segments('sg');
SELECT count(*), sum(v) FROM sg;

-- major leaves baseline only, one version a row
CALL sg_major('sg');
SELECT sg_sane('sg'), sum(rows) AS rows, sum(versions) AS versions, bool_and(kind = 'baseline') AS baseline,
	bool_and(all_visible) AS all_visible FROM lsm_segments('sg');
SELECT count(*), sum(v) FROM sg;
SELECT segments_out, rows_in, rows_out FROM lsm_minor_compact('sg');

-- changes in one corner of a large table do not rewrite the rest of it
DELETE FROM sg WHERE id > 9990;
SELECT count(*) AS flush FROM lsm_flush('sg');
CALL sg_major('sg');
SELECT sg_sane('sg'), sum(rows) AS rows FROM lsm_segments('sg');

-- deleted for good
DELETE FROM sg;
SELECT count(*) AS flush FROM lsm_flush('sg');
CALL sg_major('sg');
VACUUM sg;
CALL sg_major('sg');
SELECT sg_sane('sg'), coalesce(sum(rows), 0) AS rows FROM lsm_segments('sg');

-- the file does not grow when the same work is done again and again
INSERT INTO sg SELECT i, i, 'text ' || i FROM generate_series(1, 5000) i;
CREATE PROCEDURE sg_work() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 10 LOOP
		UPDATE sg SET v = v + 1;
		COMMIT;
		PERFORM lsm_flush('sg');
		COMMIT;
		PERFORM lsm_minor_compact('sg');
		COMMIT;
		UPDATE sg SET v = v + 1 WHERE id % 3 = 0;
		COMMIT;
		PERFORM lsm_flush('sg');
		COMMIT;
		PERFORM lsm_major_compact('sg');
		COMMIT;
		-- space is used again once a later transaction has ended
		PERFORM pg_current_xact_id();
		COMMIT;
	END LOOP;
END $$;
CALL sg_work();
SELECT pg_relation_size('sg') AS size_before \gset
CALL sg_work();
SELECT pg_relation_size('sg') <= 1.5 * :size_before AS steady;
SELECT count(*), sum(v) FROM sg;
SELECT sg_sane('sg');

-- a table of a few rows stays a few pages
CREATE TABLE sg_small (id int PRIMARY KEY, v int) USING lsm;
SELECT pg_relation_size('sg_small') <= 8 * 8192 AS small;
INSERT INTO sg_small VALUES (1, 1), (2, 2);
SELECT pg_relation_size('sg_small') <= 64 * 8192 AS small;

SELECT c AS problem FROM lsm_check('sg') c;
SELECT c AS problem FROM lsm_check('sg_small') c;
DROP TABLE sg, sg_small;
DROP FUNCTION sg_sane(regclass);
DROP PROCEDURE sg_major(regclass), sg_work();

-- more transactions ran at the flush than the manifest has places for outcomes: if all
-- have committed, the segment becomes baseline as it is
CREATE TABLE sg_many (id int) USING lsm WITH (autovacuum_enabled = off);
BEGIN;
DO $$
BEGIN
	FOR i IN 1..100 LOOP
		BEGIN
			INSERT INTO sg_many VALUES (i);
		EXCEPTION WHEN division_by_zero THEN
		END;
	END LOOP;
END $$;
SELECT count(*) AS flush FROM lsm_flush('sg_many');
COMMIT;
SELECT segment_id, kind, rows, all_visible FROM lsm_segments('sg_many');
VACUUM sg_many;
SELECT segment_id, kind, rows, all_visible FROM lsm_segments('sg_many');
SELECT count(*), sum(id) FROM sg_many;
-- but not if one was rolled back
TRUNCATE sg_many;
BEGIN;
DO $$
BEGIN
	FOR i IN 1..100 LOOP
		BEGIN
			INSERT INTO sg_many VALUES (i);
		EXCEPTION WHEN division_by_zero THEN
		END;
	END LOOP;
END $$;
SAVEPOINT s;
INSERT INTO sg_many VALUES (1000);
SELECT count(*) AS flush FROM lsm_flush('sg_many');
ROLLBACK TO s;
COMMIT;
SELECT segment_id, kind, rows, all_visible FROM lsm_segments('sg_many');
VACUUM sg_many;
SELECT segment_id, kind, rows, all_visible FROM lsm_segments('sg_many');
SELECT count(*), sum(id) FROM sg_many;
SELECT c AS problem FROM lsm_check('sg_many') c;
DROP TABLE sg_many;
