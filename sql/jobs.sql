--
-- Jobs over some generations and some roots, as workers do them: what is left out
-- keeps its place in the order of a row's records.
--
CREATE FUNCTION lsm_test_job(regclass, kind text, gen_lo int, gen_hi int, first_lb int8, last_lb int8)
	RETURNS int8 LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION jb_lb(tid) RETURNS int8 LANGUAGE sql IMMUTABLE RETURN ($1::text::point)[0]::int8;
CREATE TABLE jb (id int PRIMARY KEY, lb int8, v int, pad text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO jb SELECT i, 0, 1, repeat(md5(i::text), 12) FROM generate_series(1, 3000) i;
UPDATE jb SET lb = jb_lb(ctid);
SELECT count(*) AS flush FROM lsm_flush('jb');
SELECT count(*) AS major FROM lsm_major_compact('jb');

-- A merged with B, which is newer than Y and has roots of it, but not with Y
UPDATE jb SET v = 2 WHERE lb BETWEEN 0 AND 2;
SELECT count(*) AS a FROM lsm_flush('jb');
UPDATE jb SET v = 3 WHERE lb BETWEEN 5 AND 8;
SELECT count(*) AS y FROM lsm_flush('jb');
UPDATE jb SET v = 4 WHERE lb BETWEEN 1 AND 10;
SELECT count(*) AS b FROM lsm_flush('jb');
SELECT lsm_test_job('jb', 'minor', 2, 4, 0, 0);
SELECT lb, min(v), max(v) FROM jb WHERE lb IN (0, 2, 5, 8, 10) GROUP BY lb ORDER BY lb;
-- then generations among which Y is, and the result is not
UPDATE jb SET v = 5 WHERE lb = 7;
SELECT count(*) AS c FROM lsm_flush('jb');
SELECT count(*) > 0 AS merged FROM lsm_test_job('jb', 'minor', 3, 5, 0, 1000);
SELECT lb, min(v), max(v) FROM jb WHERE lb IN (0, 2, 5, 6, 7, 8, 10) GROUP BY lb ORDER BY lb;
SELECT c AS problem FROM lsm_check('jb') c;
SELECT count(*) AS major FROM lsm_major_compact('jb');
SELECT lb, min(v), max(v) FROM jb WHERE lb IN (0, 2, 5, 6, 7, 8, 10) GROUP BY lb ORDER BY lb;

-- rows of a rolled-back transaction go also where no increment is, but elsewhere
BEGIN;
INSERT INTO jb SELECT i, 0, 1, repeat(md5(i::text), 12) FROM generate_series(3001, 6000) i;
SELECT count(*) AS flush FROM lsm_flush('jb');
ROLLBACK;
UPDATE jb SET v = 6 WHERE lb = 3;
SELECT count(*) AS flush FROM lsm_flush('jb');
SELECT sum(rows) FROM lsm_segments('jb') WHERE kind <> 'increment';
SELECT lsm_test_job('jb', 'major', 0, 7, 200, 1000000) > 0 AS some;
SELECT sum(rows) FROM lsm_segments('jb') WHERE kind <> 'increment';
SELECT count(*) AS increments FROM lsm_segments('jb') WHERE kind = 'increment';
SELECT c AS problem FROM lsm_check('jb') c;

-- a segment with more xids than have a place in the manifest, one of them rolled back
CREATE FUNCTION lsm_test_pick_table(regclass) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE jx (id int) USING lsm WITH (autovacuum_enabled = off);
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 69 LOOP
		BEGIN
			INSERT INTO jx VALUES (i);
		EXCEPTION WHEN division_by_zero THEN
			RAISE;
		END;
	END LOOP;
END $$;
SAVEPOINT last;
INSERT INTO jx VALUES (70);
SELECT count(*) AS flush FROM lsm_flush('jx');
ROLLBACK TO last;
COMMIT;
SELECT lsm_test_pick_table('jx');
SELECT segments_in FROM lsm_minor_compact('jx');
SELECT lsm_test_pick_table('jx');
SELECT lsm_test_job('jx', 'major', 0, 0, 0, 1000);
SELECT lsm_test_pick_table('jx');
SELECT count(*), max(id) FROM jx;
DROP TABLE jx;
DROP FUNCTION lsm_test_pick_table(regclass);

-- a minor takes about as much space as it needs
SET lsm.segment_size = '1MB';
ALTER TABLE jb ALTER pad SET STORAGE PLAIN;
UPDATE jb SET pad = (SELECT string_agg(md5(id || '.' || k), '') FROM generate_series(1, 64) k);
SELECT count(*) AS flush FROM lsm_flush('jb');
UPDATE jb SET pad = (SELECT string_agg(md5(id || '-' || k), '') FROM generate_series(1, 64) k);
SELECT count(*) AS flush FROM lsm_flush('jb');
SELECT sum(stored_bytes) > 4000000 AS large FROM lsm_segments('jb') WHERE kind = 'increment';
SELECT (pg_stat_file(pg_relation_filepath('jb'))).size AS before \gset
BEGIN;
SELECT segments_out > 2 AS several FROM lsm_minor_compact('jb');
SELECT (pg_stat_file(pg_relation_filepath('jb'))).size - :before < 16000000 AS little;
COMMIT;
SELECT c AS problem FROM lsm_check('jb') c;

-- a table gets its turn though the major it has waited for ended before it said so
CREATE FUNCTION lsm_test_no_turn(regclass) RETURNS bool LANGUAGE C STRICT AS '$libdir/lsm';
SELECT lsm_test_no_turn('jb');

-- who has waited for a turn longest is tried first, however often others were in the way
CREATE FUNCTION lsm_test_turns() RETURNS bool LANGUAGE C AS '$libdir/lsm';
SELECT lsm_test_turns() AS fair;
DROP FUNCTION lsm_test_turns();

-- one is told when there is a turn again, not all; where very many wait, flushes still find room
CREATE FUNCTION lsm_test_turn_told() RETURNS bool LANGUAGE C AS '$libdir/lsm';
CREATE FUNCTION lsm_test_turns_full() RETURNS bool LANGUAGE C AS '$libdir/lsm';
SELECT lsm_test_turn_told() AS one_by_one, lsm_test_turns_full() AS room;
DROP FUNCTION lsm_test_turn_told(), lsm_test_turns_full();

-- a flush that fails rests, however often it is asked for
CREATE FUNCTION lsm_test_flush_rests(regclass) RETURNS bool LANGUAGE C STRICT AS '$libdir/lsm';
INSERT INTO jb SELECT max(id) + 1 FROM jb;
SELECT lsm_test_flush_rests('jb');
DROP FUNCTION lsm_test_flush_rests(regclass);

-- flushes that are asked for go first
CREATE FUNCTION lsm_test_flush_first(regclass) RETURNS bool LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_flush_place() RETURNS bool LANGUAGE C AS '$libdir/lsm';
CREATE FUNCTION lsm_test_next_due() RETURNS bool LANGUAGE C AS '$libdir/lsm';
SELECT lsm_test_flush_first('jb') AS first, lsm_test_flush_place() AS place, lsm_test_next_due() AS next;
DROP FUNCTION lsm_test_flush_first(regclass), lsm_test_flush_place(), lsm_test_next_due();

-- a row with many large values: they do not take more extents than a segment can have
CREATE FUNCTION lsm_test_extents(regclass) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE jl (id int) USING lsm WITH (autovacuum_enabled = off);
DO $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		EXECUTE format('ALTER TABLE jl ADD c%s text', i);
		EXECUTE format('ALTER TABLE jl ALTER c%s SET STORAGE EXTERNAL', i);
	END LOOP;
	EXECUTE 'INSERT INTO jl SELECT 1' || repeat(', x', 200) || ' FROM repeat(''x'', 20000) x';
END $$;
SELECT segments_out, bytes_written > 4000000 AS large FROM lsm_flush('jl');
SELECT lsm_test_extents('jl') <= 2 AS few;
SELECT length(c1), length(c200) FROM jl;
SELECT c AS problem FROM lsm_check('jl') c;
DROP TABLE jl;
DROP FUNCTION lsm_test_extents(regclass);

-- how long a table rests whose jobs fail: each time twice as long, give or take a quarter
CREATE FUNCTION lsm_test_backoff(regclass, failures int) RETURNS float8 LANGUAGE C STRICT AS '$libdir/lsm';
SELECT failures, min(seconds) >= least(power(2, failures - 1), 3600) * 0.75 AS long,
	max(seconds) <= least(power(2, failures - 1), 3600) * 1.25 + 1 AS short,
	count(DISTINCT round(seconds::numeric, 2)) > 1 AS different
FROM unnest(ARRAY[1, 2, 5, 12, 13, 40]) failures, generate_series(1, 20) i,
	LATERAL (SELECT lsm_test_backoff('jb', failures + 0 * i) AS seconds) x GROUP BY failures ORDER BY failures;
DROP FUNCTION lsm_test_backoff(regclass, int);

DROP TABLE jb;
DROP FUNCTION lsm_test_no_turn(regclass), jb_lb(tid), lsm_test_job(regclass, text, int, int, int8, int8);

-- the order of a row's records over increments is looked at
CREATE FUNCTION lsm_test_swap_ages(regclass) RETURNS void LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE jo (id int, v int, pad text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO jo SELECT i, 0, repeat(md5(i::text), 12) FROM generate_series(1, 1000) i;
SELECT count(*) AS flush FROM lsm_flush('jo');
UPDATE jo SET v = 1 WHERE id BETWEEN 100 AND 700;
SELECT count(*) AS flush FROM lsm_flush('jo');
UPDATE jo SET v = 2 WHERE id > 600;
SELECT count(*) AS flush FROM lsm_flush('jo');
UPDATE jo SET v = 3 WHERE id BETWEEN 300 AND 400;
UPDATE jo SET v = 4 WHERE id BETWEEN 350 AND 450;
SELECT count(*) AS flush FROM lsm_flush('jo');
SELECT c AS problem FROM lsm_check('jo') c;
SELECT lsm_test_swap_ages('jo');
SELECT regexp_replace(c, '\(\d+,\d+\)', '(lb,offset)') AS problem FROM lsm_check('jo') c;
SELECT min(v), max(v) FROM jo WHERE id BETWEEN 350 AND 450;
SELECT lsm_test_swap_ages('jo');
SELECT c AS problem FROM lsm_check('jo') c;
SELECT min(v), max(v) FROM jo WHERE id BETWEEN 350 AND 450;
DROP TABLE jo;
DROP FUNCTION lsm_test_swap_ages(regclass);

-- to look for outcomes of transactions, as VACUUM does again and again, leaves no memory behind
CREATE FUNCTION lsm_test_resolve(regclass, int) RETURNS int8 LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE jr (id int) USING lsm WITH (autovacuum_enabled = off);
BEGIN;
INSERT INTO jr SELECT generate_series(1, 1000);
SAVEPOINT a;
INSERT INTO jr SELECT generate_series(1001, 2000);
RELEASE a;
SELECT count(*) AS flush FROM lsm_flush('jr');
INSERT INTO jr SELECT generate_series(2001, 3000);
SELECT count(*) AS flush FROM lsm_flush('jr');
SELECT lsm_test_resolve('jr', 2000);
COMMIT;
SELECT lsm_test_resolve('jr', 2000);
SELECT count(*) FROM jr;
SELECT c AS problem FROM lsm_check('jr') c;
DROP TABLE jr;
DROP FUNCTION lsm_test_resolve(regclass, int);
