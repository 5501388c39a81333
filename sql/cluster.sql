--
-- VACUUM FULL and CLUSTER
--
CREATE TABLE cl (id int PRIMARY KEY, k int, v text) USING lsm;
CREATE INDEX cl_k ON cl (k);
VACUUM FULL cl;
INSERT INTO cl SELECT i, i, 'third' FROM generate_series(1, 10) i;
UPDATE cl SET k = 20 - k;
VACUUM FULL cl;
SELECT * FROM cl ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('cl');
DELETE FROM cl WHERE id = 5;
UPDATE cl SET v = 'changed' WHERE id = 6;
CLUSTER cl USING cl_k;
SELECT * FROM cl ORDER BY id;
SET enable_seqscan = off;
SELECT id FROM cl WHERE k BETWEEN 12 AND 17 ORDER BY k;
RESET enable_seqscan;

-- in a transaction that has changed the table, and rolled back
BEGIN;
UPDATE cl SET v = 'mine' WHERE id = 1;
DELETE FROM cl WHERE id = 2;
INSERT INTO cl VALUES (11, 11, 'mine');
CLUSTER cl;
SELECT * FROM cl ORDER BY id;
UPDATE cl SET v = v || '!' WHERE id IN (1, 11);
SELECT count(*) AS flush FROM lsm_flush('cl');
SELECT * FROM cl ORDER BY id;
ROLLBACK;
SELECT * FROM cl ORDER BY id;
CLUSTER cl;
SELECT count(*) AS major FROM lsm_major_compact('cl');
SELECT * FROM cl ORDER BY id;
SELECT c AS problem FROM lsm_check('cl') c;
DROP TABLE cl;
