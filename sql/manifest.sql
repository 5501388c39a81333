--
-- A table with as many segments and free ranges as its manifest has places for: changes fail, and
-- what makes room goes on
--
CREATE FUNCTION lsm_test_chosen(regclass) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_entries(regclass) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE mf (id int PRIMARY KEY, v int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO mf SELECT i, 0, repeat('t', 500) FROM generate_series(1, 10000) i;
SELECT count(*) AS flush FROM lsm_flush('mf');
SELECT count(*) AS major FROM lsm_major_compact('mf');
CREATE TABLE mf_heap (id int PRIMARY KEY, v int, t text) USING heap;
INSERT INTO mf_heap SELECT * FROM mf;
-- each change is flushed: an increment of its own, which lies over no other
CREATE PROCEDURE mf_change(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first .. last LOOP
		UPDATE mf SET v = v + 1 WHERE id = i * 100;
		PERFORM lsm_flush('mf');
		UPDATE mf_heap SET v = v + 1 WHERE id = i * 100;
		COMMIT;
	END LOOP;
END $$;
-- an error with its code, without numbers
CREATE PROCEDURE mf_try(statement text) LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RAISE NOTICE '%: %', SQLSTATE, SQLERRM USING DETAIL = regexp_replace(detail, '\d+', 'N', 'g'), HINT = hint;
END $$;
SET lsm.debug_manifest_entries = 64;

-- flushes warn from three quarters on, one in sixteen, and fail before the end
\set VERBOSITY terse
CALL mf_change(1, 99);
\set VERBOSITY default
SELECT lsm_test_entries('mf') AS entries;
CALL mf_try('SELECT lsm_flush(''mf'')');
-- what is in the memtable is there, and there may be more, until it is full; but a large value needs a place, too
UPDATE mf SET v = v + 1 WHERE id = 1;
UPDATE mf_heap SET v = v + 1 WHERE id = 1;
ALTER TABLE mf ALTER t SET STORAGE EXTERNAL;
CALL mf_try('UPDATE mf SET t = repeat(''l'', 20000) WHERE id = 1');
TABLE mf EXCEPT TABLE mf_heap;
SELECT c AS problem FROM lsm_check('mf') c;
-- compaction goes on, also after some that have died
SET lsm.debug_stop = 'minor-before-swap:error';
CALL mf_try('SELECT lsm_test_chosen(''mf'')');
CALL mf_try('SELECT lsm_test_chosen(''mf'')');
CALL mf_try('SELECT lsm_test_chosen(''mf'')');
RESET lsm.debug_stop;
SELECT lsm_test_entries('mf') BETWEEN 60 AND 62 AS kept, manifest_used > 0.9 AS shown FROM lsm_stat_tables WHERE relname = 'mf';
SELECT lsm_test_chosen('mf');
SELECT lsm_test_entries('mf') < 16 AS few, manifest_used < 0.3 AS shown FROM lsm_stat_tables WHERE relname = 'mf';
SELECT lsm_test_chosen('mf');
CALL mf_change(1, 20);
TABLE mf EXCEPT TABLE mf_heap;
SELECT c AS problem FROM lsm_check('mf') c;

-- VACUUM compacts before it flushes
\set VERBOSITY terse
CALL mf_change(1, 99);
\set VERBOSITY default
UPDATE mf SET v = v + 1 WHERE id = 1;
UPDATE mf_heap SET v = v + 1 WHERE id = 1;
CALL mf_try('SELECT lsm_flush(''mf'')');
VACUUM mf;
SELECT lsm_test_entries('mf') < 16 AS few;
SELECT rows_in AS left_to_flush FROM lsm_flush('mf');
TABLE mf EXCEPT TABLE mf_heap;

-- large values that somebody may still read keep their places: VACUUM goes on without a flush, and says so
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS pinned;
PREPARE TRANSACTION 'mf';
CREATE PROCEDURE mf_large(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		UPDATE mf SET t = repeat(chr(97 + i % 26), 20000) WHERE id = 1;
		PERFORM lsm_flush('mf');
		UPDATE mf_heap SET t = repeat(chr(97 + i % 26), 20000) WHERE id = 1;
		COMMIT;
	END LOOP;
END $$;
\set VERBOSITY terse
CALL mf_large(70);
\set VERBOSITY default
UPDATE mf SET v = v + 1 WHERE id = 2;
UPDATE mf_heap SET v = v + 1 WHERE id = 2;
VACUUM mf;
CALL mf_try('SELECT lsm_flush(''mf'')');
TABLE mf EXCEPT TABLE mf_heap;
-- a load that has got so far is logged when it commits, as it cannot be flushed
INSERT INTO mf SELECT i, 0, repeat('t', 500) FROM generate_series(20001, 32000) i;
INSERT INTO mf_heap SELECT i, 0, repeat('t', 500) FROM generate_series(20001, 32000) i;
TABLE mf EXCEPT TABLE mf_heap;
COMMIT PREPARED 'mf';
VACUUM mf;
SELECT lsm_test_entries('mf') < 20 AS few;
CALL mf_large(5);
TABLE mf EXCEPT TABLE mf_heap;
SELECT c AS problem FROM lsm_check('mf') c;
RESET lsm.debug_manifest_entries;
DROP TABLE mf, mf_heap;
DROP PROCEDURE mf_change(int, int), mf_large(int), mf_try(text);
DROP FUNCTION lsm_test_chosen(regclass), lsm_test_entries(regclass);
