--
-- TRUNCATE and DROP, rolled back and in mid-transaction
--
CREATE TABLE tr (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO tr SELECT i, i FROM generate_series(1, 1000) i;
SELECT count(*) AS flush FROM lsm_flush('tr');
UPDATE tr SET v = -v WHERE id < 100;

BEGIN;
TRUNCATE tr;
SELECT count(*) FROM tr;
INSERT INTO tr VALUES (1, 1), (2, 2);
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT * FROM tr ORDER BY id;
ROLLBACK;
SELECT count(*), sum(v) FROM tr;
SELECT c AS problem FROM lsm_check('tr') c;

TRUNCATE tr;
SELECT count(*) FROM tr;
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT count(*) AS major FROM lsm_major_compact('tr');
INSERT INTO tr SELECT i, i FROM generate_series(1, 10) i;
SELECT count(*), sum(v) FROM tr;
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT count(*), sum(v) FROM tr;
SET enable_seqscan = off;
SELECT * FROM tr WHERE id IN (1, 10, 11) ORDER BY id;
RESET enable_seqscan;

-- twice, with savepoints
BEGIN;
INSERT INTO tr VALUES (11, 11);
SAVEPOINT a;
TRUNCATE tr;
INSERT INTO tr VALUES (12, 12);
SAVEPOINT b;
TRUNCATE tr;
INSERT INTO tr VALUES (13, 13);
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT * FROM tr ORDER BY id;
ROLLBACK TO b;
SELECT * FROM tr ORDER BY id;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM tr;
COMMIT;
SELECT count(*), sum(v) FROM tr;

-- a table made and truncated in one transaction (truncated in place)
BEGIN;
CREATE TABLE tr_new (id int PRIMARY KEY, t text) USING lsm;
INSERT INTO tr_new SELECT i, 'first ' || i FROM generate_series(1, 1000) i;
UPDATE tr_new SET t = 'changed' WHERE id < 10;
SELECT count(*) AS flush FROM lsm_flush('tr_new');
INSERT INTO tr_new VALUES (2000, 'in the row log');
TRUNCATE tr_new;
SELECT count(*) FROM tr_new;
INSERT INTO tr_new SELECT i, 'second ' || i FROM generate_series(1, 5) i;
UPDATE tr_new SET t = t || '!' WHERE id = 2;
SELECT * FROM tr_new ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('tr_new');
SELECT * FROM tr_new ORDER BY id;
COMMIT;
SELECT * FROM tr_new ORDER BY id;
SELECT c AS problem FROM lsm_check('tr_new') c;

-- restart identity, several tables, cascade
CREATE TABLE tr_seq (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int) USING lsm;
CREATE TABLE tr_ref (id int REFERENCES tr_seq) USING lsm;
INSERT INTO tr_seq (v) VALUES (1), (2);
INSERT INTO tr_ref VALUES (1);
TRUNCATE tr_seq;
TRUNCATE tr_seq RESTART IDENTITY CASCADE;
INSERT INTO tr_seq (v) VALUES (3);
SELECT * FROM tr_seq;
SELECT count(*) FROM tr_ref;

-- drop, rolled back and for good; the same name again
SELECT count(*) AS flush FROM lsm_flush('tr');
BEGIN;
DROP TABLE tr;
CREATE TABLE tr (other text) USING lsm;
INSERT INTO tr VALUES ('new');
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT * FROM tr;
ROLLBACK;
SELECT count(*), sum(v) FROM tr;
DROP TABLE tr;
CREATE TABLE tr (other text) USING lsm;
SELECT * FROM tr;
INSERT INTO tr VALUES ('new');
SELECT * FROM tr;

-- many tables made and dropped
DO $$
BEGIN
	FOR i IN 1 .. 50 LOOP
		EXECUTE 'CREATE TABLE tr_many' || i || ' (id int PRIMARY KEY, v int) USING lsm';
		EXECUTE 'INSERT INTO tr_many' || i || ' SELECT g, g FROM generate_series(1, 20) g';
		EXECUTE 'UPDATE tr_many' || i || ' SET v = v + 1';
		IF i % 2 = 0 THEN
			EXECUTE 'SELECT lsm_flush(''tr_many' || i || ''')';
		END IF;
	END LOOP;
END $$;
SELECT (SELECT sum(v) FROM tr_many1) + (SELECT sum(v) FROM tr_many2) + (SELECT sum(v) FROM tr_many50) AS sum;
DO $$
BEGIN
	FOR i IN 1 .. 50 LOOP
		EXECUTE 'DROP TABLE tr_many' || i;
	END LOOP;
END $$;

SELECT c AS problem FROM lsm_check('tr') c;
DROP TABLE tr, tr_new, tr_seq, tr_ref;
