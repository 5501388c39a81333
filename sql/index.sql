--
-- btree indexes: unique, of several columns, on expressions, partial; index,
-- index-only and bitmap scans over row log, increments and baseline
--
CREATE TABLE ix (id int PRIMARY KEY, a int, b text, c int, d date) USING lsm;
INSERT INTO ix SELECT i, i % 10, 'text ' || i % 25, i, date '2024-01-01' + i % 30
	FROM generate_series(1, 500) i;
CREATE INDEX ix_ab ON ix (a, b);
CREATE INDEX ix_lower ON ix (upper(b));
CREATE INDEX ix_part ON ix (c) WHERE a = 3;
CREATE UNIQUE INDEX ix_uniq ON ix (c, id);
CREATE INDEX ix_incl ON ix (d) INCLUDE (c);
CREATE INDEX ix_desc ON ix (c DESC NULLS LAST);

-- the same questions for every way of reading, in every state of the table
CREATE FUNCTION ix_ask() RETURNS TABLE (way text, q1 text, q2 text, q3 text, q4 text, q5 text) LANGUAGE plpgsql AS $$
DECLARE
	w text;
BEGIN
	FOREACH w IN ARRAY array['seq', 'index', 'only', 'bitmap'] LOOP
		PERFORM set_config('enable_seqscan', (w = 'seq')::text, true),
			set_config('enable_indexscan', (w = 'index' OR w = 'only')::text, true),
			set_config('enable_indexonlyscan', (w = 'only')::text, true),
			set_config('enable_bitmapscan', (w = 'bitmap')::text, true);
		way := w;
		EXECUTE 'SELECT count(*) || ''/'' || coalesce(sum(id), 0) FROM ix WHERE a = 4 AND b = ''text 14''' INTO q1;
		EXECUTE 'SELECT count(*) || ''/'' || coalesce(sum(id), 0) FROM ix WHERE upper(b) = ''TEXT 7''' INTO q2;
		EXECUTE 'SELECT count(*) || ''/'' || coalesce(sum(c), 0) FROM ix WHERE a = 3 AND c BETWEEN 50 AND 900' INTO q3;
		EXECUTE 'SELECT count(*) || ''/'' || coalesce(sum(c), 0) FROM ix WHERE d >= ''2024-01-25''' INTO q4;
		EXECUTE 'SELECT string_agg(c::text, '','') FROM (SELECT c FROM ix WHERE c < 100000 ORDER BY c DESC LIMIT 5) s' INTO q5;
		RETURN NEXT;
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'on', true),
		set_config('enable_indexonlyscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
END $$;
SELECT * FROM ix_ask();
SELECT count(*) AS flush FROM lsm_flush('ix');
SELECT * FROM ix_ask();
UPDATE ix SET a = 4, b = 'text 14' WHERE id IN (1, 2, 3);
UPDATE ix SET b = 'Text 7' WHERE id BETWEEN 100 AND 105;
UPDATE ix SET d = '2024-01-31' WHERE id = 200;
UPDATE ix SET c = c + 1000 WHERE id > 495;
DELETE FROM ix WHERE id % 50 = 0;
INSERT INTO ix VALUES (1001, 3, 'text 7', 60, '2024-01-30'), (1002, 4, 'text 14', NULL, NULL);
SELECT * FROM ix_ask();
SELECT count(*) AS flush FROM lsm_flush('ix');
SELECT * FROM ix_ask();
VACUUM ix;
SELECT * FROM ix_ask();
UPDATE ix SET a = 3 WHERE a = 4;
UPDATE ix SET a = 4 WHERE id BETWEEN 300 AND 310;
SELECT * FROM ix_ask();
SELECT count(*) AS flush FROM lsm_flush('ix');
SELECT count(*) AS minor FROM lsm_minor_compact('ix');
SELECT * FROM ix_ask();
SELECT count(*) AS major FROM lsm_major_compact('ix');
SELECT * FROM ix_ask();
VACUUM ix;
SELECT * FROM ix_ask();
-- after VACUUM made all visible: a delete must be noticed by index-only scans
DELETE FROM ix WHERE d >= '2024-01-28';
SELECT * FROM ix_ask();
SELECT count(*) AS flush FROM lsm_flush('ix');
SELECT * FROM ix_ask();
BEGIN;
UPDATE ix SET c = -c, a = a + 1, b = upper(b), d = d - 1;
SELECT * FROM ix_ask();
SELECT count(*) AS flush FROM lsm_flush('ix');
SELECT * FROM ix_ask();
ROLLBACK;
SELECT * FROM ix_ask();

-- uniqueness
INSERT INTO ix (id) VALUES (1);
UPDATE ix SET id = 2 WHERE id = 1;
\set VERBOSITY terse
CREATE UNIQUE INDEX ix_b ON ix (b);
\set VERBOSITY default
CREATE UNIQUE INDEX ix_id_expr ON ix ((id * 2));
INSERT INTO ix (id) VALUES (5001);
INSERT INTO ix (id) VALUES (5001);
SELECT count(*) AS flush FROM lsm_flush('ix');
INSERT INTO ix (id) VALUES (5001);
SELECT count(*) AS major FROM lsm_major_compact('ix');
INSERT INTO ix (id) VALUES (5001);
DELETE FROM ix WHERE id = 5001;
INSERT INTO ix (id) VALUES (5001);
BEGIN;
DELETE FROM ix WHERE id = 5001;
INSERT INTO ix (id, a) VALUES (5001, 1);
SELECT count(*) AS flush FROM lsm_flush('ix');
DELETE FROM ix WHERE id = 5001;
INSERT INTO ix (id, a) VALUES (5001, 2);
COMMIT;
SELECT id, a FROM ix WHERE id = 5001;
-- a key that is changed away and back
UPDATE ix SET id = 5002 WHERE id = 5001;
INSERT INTO ix (id, a) VALUES (5001, 3);
DELETE FROM ix WHERE id = 5001;
UPDATE ix SET id = 5001 WHERE id = 5002;
SELECT count(*) AS flush FROM lsm_flush('ix');
UPDATE ix SET id = 5002 WHERE id = 5001;
UPDATE ix SET id = 5001 WHERE id = 5002;
SET enable_seqscan = off;
SELECT id, a FROM ix WHERE id BETWEEN 5001 AND 5002;
SELECT count(*) AS major FROM lsm_major_compact('ix');
SELECT id, a FROM ix WHERE id BETWEEN 5001 AND 5002;
VACUUM ix;
SELECT id, a FROM ix WHERE id BETWEEN 5001 AND 5002;
RESET enable_seqscan;
-- nulls
CREATE TABLE ix_null (a int UNIQUE, b int) USING lsm;
INSERT INTO ix_null VALUES (NULL, 1), (NULL, 2), (1, 3);
SELECT count(*) AS flush FROM lsm_flush('ix_null');
INSERT INTO ix_null VALUES (NULL, 4);
UPDATE ix_null SET a = NULL WHERE a = 1;
UPDATE ix_null SET a = b WHERE b = 2;
SET enable_seqscan = off;
SELECT * FROM ix_null WHERE a IS NULL ORDER BY b;
SELECT * FROM ix_null WHERE a IS NOT NULL ORDER BY a;
RESET enable_seqscan;

-- a partial index that a row enters and leaves
CREATE TABLE ix_flag (id int PRIMARY KEY, open bool, v int) USING lsm;
CREATE INDEX ix_flag_open ON ix_flag (v) WHERE open;
INSERT INTO ix_flag SELECT i, i % 10 = 0, i FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('ix_flag');
UPDATE ix_flag SET open = true WHERE id IN (1, 2, 3);
UPDATE ix_flag SET open = false WHERE id IN (10, 2);
UPDATE ix_flag SET open = true WHERE id = 2;
SET enable_seqscan = off;
SELECT id FROM ix_flag WHERE open AND v < 1000 ORDER BY v;
SELECT count(*) AS flush FROM lsm_flush('ix_flag');
SELECT id FROM ix_flag WHERE open AND v < 1000 ORDER BY v;
SELECT count(*) AS major FROM lsm_major_compact('ix_flag');
VACUUM ix_flag;
SELECT id FROM ix_flag WHERE open AND v < 1000 ORDER BY v;
RESET enable_seqscan;

-- joins and merge append over index order
SET enable_hashjoin = off;
SET enable_seqscan = off;
SELECT count(*), sum(x.id) FROM ix x JOIN ix y ON x.id = y.c;
RESET enable_seqscan;
RESET enable_hashjoin;
SELECT id FROM ix WHERE id IN (7, 300, 8, 5001, 9999, -1) ORDER BY id DESC;

SELECT c AS problem FROM lsm_check('ix') c;
SELECT c AS problem FROM lsm_check('ix_null') c;
SELECT c AS problem FROM lsm_check('ix_flag') c;
DROP FUNCTION ix_ask();
DROP TABLE ix_null, ix_flag;
