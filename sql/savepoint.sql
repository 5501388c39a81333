--
-- Savepoints, subtransactions and rollback, with flush and compaction inside
--
CREATE TABLE sp (id int PRIMARY KEY, v int, k int) USING lsm;
CREATE INDEX sp_k ON sp (k);
INSERT INTO sp SELECT i, i, i FROM generate_series(1, 10) i;

BEGIN;
INSERT INTO sp VALUES (11, 11, 11);
SAVEPOINT a;
INSERT INTO sp VALUES (12, 12, 12);
UPDATE sp SET v = 100 WHERE id = 1;
UPDATE sp SET k = 200 WHERE id = 2;
DELETE FROM sp WHERE id = 3;
SELECT * FROM sp WHERE id IN (1, 2, 3, 11, 12) ORDER BY id;
ROLLBACK TO a;
SELECT * FROM sp WHERE id IN (1, 2, 3, 11, 12) ORDER BY id;
INSERT INTO sp VALUES (12, 1212, 12);
UPDATE sp SET v = v + 1 WHERE id = 1;
UPDATE sp SET k = 201 WHERE id = 2;
COMMIT;
SELECT * FROM sp WHERE id IN (1, 2, 3, 11, 12) ORDER BY id;

-- rollback after the flush of what is rolled back
BEGIN;
SAVEPOINT a;
UPDATE sp SET v = -1;
DELETE FROM sp WHERE id > 8;
INSERT INTO sp VALUES (13, 13, 13);
SELECT count(*) AS flush FROM lsm_flush('sp');
SELECT count(*), sum(v), sum(k) FROM sp;
ROLLBACK TO a;
SELECT count(*), sum(v), sum(k) FROM sp;
SELECT count(*) AS flush FROM lsm_flush('sp');
SELECT count(*) AS minor FROM lsm_minor_compact('sp');
SELECT count(*) AS major FROM lsm_major_compact('sp');
SELECT count(*), sum(v), sum(k) FROM sp;
INSERT INTO sp VALUES (13, 1313, 13);
UPDATE sp SET v = v + 1;
COMMIT;
SELECT count(*), sum(v), sum(k) FROM sp;
SELECT count(*) AS flush FROM lsm_flush('sp');
SELECT * FROM sp ORDER BY id;

-- nested, released and rolled back; the same row in each
BEGIN;
UPDATE sp SET v = 1 WHERE id = 5;
SAVEPOINT a;
UPDATE sp SET v = 2 WHERE id = 5;
SAVEPOINT b;
UPDATE sp SET v = 3 WHERE id = 5;
SAVEPOINT c;
UPDATE sp SET v = 4 WHERE id = 5;
SELECT v FROM sp WHERE id = 5;
SELECT count(*) AS flush FROM lsm_flush('sp');
RELEASE c;
SELECT v FROM sp WHERE id = 5;
ROLLBACK TO b;
SELECT v FROM sp WHERE id = 5;
UPDATE sp SET k = 55 WHERE id = 5;
RELEASE a;
SELECT count(*) AS minor FROM lsm_minor_compact('sp');
SELECT v, k FROM sp WHERE id = 5;
COMMIT;
SELECT v, k FROM sp WHERE id = 5;
SELECT id FROM sp WHERE k = 55;

-- delete in a subtransaction, rolled back, deleted again
BEGIN;
SAVEPOINT a;
DELETE FROM sp WHERE id = 6;
SELECT count(*) AS flush FROM lsm_flush('sp');
ROLLBACK TO a;
SELECT id, v FROM sp WHERE id = 6;
UPDATE sp SET v = 66 WHERE id = 6;
SAVEPOINT b;
DELETE FROM sp WHERE id = 6;
RELEASE b;
SELECT id, v FROM sp WHERE id = 6;
ROLLBACK;
SELECT id, v FROM sp WHERE id = 6;

-- row locks taken in a subtransaction and before it
BEGIN;
SELECT id FROM sp WHERE id = 7 FOR KEY SHARE;
SAVEPOINT a;
SELECT id FROM sp WHERE id = 7 FOR UPDATE;
UPDATE sp SET v = 70 WHERE id = 7;
ROLLBACK TO a;
SELECT id, v FROM sp WHERE id = 7 FOR NO KEY UPDATE;
UPDATE sp SET v = 77 WHERE id = 7;
COMMIT;
SELECT id, v FROM sp WHERE id = 7;

-- exception blocks
CREATE FUNCTION sp_try(i int, x int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sp VALUES (i, x, x);
	RETURN 'inserted';
EXCEPTION WHEN unique_violation THEN
	UPDATE sp SET v = v + x WHERE id = i;
	RETURN 'updated';
END $$;
SELECT i, sp_try(i, 1000) FROM generate_series(9, 22, 3) i;
SELECT * FROM sp WHERE id >= 9 ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('sp');
SELECT i, sp_try(i, 1) FROM generate_series(9, 22, 3) i;
SELECT * FROM sp WHERE id >= 9 ORDER BY id;
-- an error at the top ends all of it
BEGIN;
UPDATE sp SET v = 0;
SAVEPOINT a;
SELECT count(*) AS flush FROM lsm_flush('sp');
SELECT 1 / 0;
SELECT count(*) AS flush FROM lsm_flush('sp');
ROLLBACK TO a;
SELECT sum(v) FROM sp;
ROLLBACK;
SELECT count(*), sum(v) FROM sp;

-- many subtransactions in one transaction (more than are kept in shared memory)
DO $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		BEGIN
			INSERT INTO sp VALUES (1000 + i, i, i);
			UPDATE sp SET v = v + 1 WHERE id = 4;
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'undo';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		IF i % 70 = 0 THEN
			PERFORM lsm_flush('sp');
		END IF;
	END LOOP;
END $$;
SELECT count(*), sum(id), sum(v) FROM sp WHERE id > 1000;
SELECT v FROM sp WHERE id = 4;
SELECT count(*) AS flush FROM lsm_flush('sp');
SELECT count(*) AS major FROM lsm_major_compact('sp');
SELECT count(*), sum(id), sum(v) FROM sp WHERE id > 1000;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM sp WHERE k BETWEEN 100 AND 199 AND id > 1000;
SELECT v FROM sp WHERE id = 4;
RESET enable_seqscan;

SELECT c AS problem FROM lsm_check('sp') c;
DROP FUNCTION sp_try(int, int);
DROP TABLE sp;
