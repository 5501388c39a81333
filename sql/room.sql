--
-- The room that a table takes while all of its rows are updated again and again, and every job is
-- done that workers would do: a major writes a part of it at a time, where the part before has been
--
CREATE FUNCTION lsm_test_chosen(regclass) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
-- ---- the extents of a segment: one that becomes a little larger than expected has not twice the room
CREATE FUNCTION lsm_test_extent_pages(expected int, written int, run int) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
SELECT written, lsm_test_extent_pages(8192, written, 0), lsm_test_extent_pages(8192, written, 2048) AS in_pieces
	FROM unnest('{100,8192,8193,9000,10000,12000,20000,40000}'::int[]) written;
SELECT written, lsm_test_extent_pages(64, written, 0) FROM unnest('{64,65,200,600,768,1024,1025}'::int[]) written;
SELECT expected, lsm_test_extent_pages(expected, 8200, 0), lsm_test_extent_pages(expected, 8200, 1024) AS in_pieces
	FROM unnest('{128,512,1024,1088,2048,4096}'::int[]) expected;
-- whatever was expected and however free space lies: there is room for the largest
SELECT expected, run, lsm_test_extent_pages(expected, 5 * 32768, run)
	FROM generate_series(1, 200) i, LATERAL (SELECT (2 * 1.06 ^ i)::int) e (expected),
		LATERAL (SELECT (2 * 1.06 ^ j)::int FROM generate_series(1, 200) j) r (run)
	WHERE lsm_test_extent_pages(expected, 5 * 32768, run) IS NULL;
DROP FUNCTION lsm_test_extent_pages(int, int, int);

-- ---- a table
CREATE TABLE rm (id int PRIMARY KEY, v int, t text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE rm_done (why text) USING heap;
SET lsm.segment_size = '1MB';
INSERT INTO rm SELECT i, 0, md5(i::text) || md5((-i)::text) FROM generate_series(1, 200000) i;
VACUUM FULL rm;
SELECT count(*) > 6 AS many, sum(stored_bytes) > 6000000 AS large FROM lsm_segments('rm');
-- what a segment has been given and does not use is there for the next one
SELECT pg_relation_size('rm') < 1.15 * sum(stored_bytes) AS rewritten FROM lsm_segments('rm');
SELECT sum(stored_bytes) AS stored FROM lsm_segments('rm') \gset
CREATE PROCEDURE rm_live(rounds int) LANGUAGE plpgsql AS $$
DECLARE
	done text;
BEGIN
	FOR i IN 1 .. rounds LOOP
		UPDATE rm SET v = i WHERE id % 40 = i * 7 % 40;
		COMMIT;
		PERFORM lsm_flush('rm');
		COMMIT;
		LOOP
			done := lsm_test_chosen('rm');
			COMMIT;
			EXIT WHEN done IS NULL;
			INSERT INTO rm_done VALUES (done);
			COMMIT;
		END LOOP;
	END LOOP;
END $$;
CALL rm_live(80);
SELECT split_part(why, ' ', 1) AS job, count(*) > 10 AS many FROM rm_done GROUP BY job ORDER BY job;
-- beside it: increments, twice while they are cut, one segment, and the row log
SELECT pg_relation_size('rm') < 1.8 * :stored AS bounded;
-- segments that have grown a little are not divided
SELECT min(stored_bytes) > 250000 AS whole FROM lsm_segments('rm') WHERE kind <> 'increment';
SELECT count(*), min(v), max(v), count(DISTINCT t) FROM rm;
SELECT c AS problem FROM lsm_check('rm') c;
RESET lsm.segment_size;
DROP TABLE rm, rm_done;
DROP PROCEDURE rm_live(int);
DROP FUNCTION lsm_test_chosen(regclass);
