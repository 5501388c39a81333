--
-- Foreign keys between lsm tables, and between lsm and heap
--
CREATE TABLE fk_p (id int PRIMARY KEY, code text UNIQUE, status int) USING lsm;
CREATE INDEX fk_p_status ON fk_p (status);
CREATE TABLE fk_c (id int PRIMARY KEY, p int REFERENCES fk_p ON UPDATE CASCADE ON DELETE CASCADE,
	code text REFERENCES fk_p (code) ON UPDATE SET NULL ON DELETE SET NULL) USING lsm;
CREATE INDEX fk_c_p ON fk_c (p);
CREATE TABLE fk_r (id int, p int REFERENCES fk_p) USING lsm;
CREATE TABLE fk_h (id int, p int REFERENCES fk_p) USING heap;
INSERT INTO fk_p SELECT i, 'code ' || i, 0 FROM generate_series(1, 10) i;
INSERT INTO fk_c SELECT i, 1 + i % 5, 'code ' || 1 + i % 4 FROM generate_series(1, 20) i;
INSERT INTO fk_r VALUES (1, 9), (2, NULL);
INSERT INTO fk_h VALUES (1, 10);

INSERT INTO fk_c VALUES (100, 99, NULL);
INSERT INTO fk_r VALUES (100, 99);
DELETE FROM fk_p WHERE id = 9;
DELETE FROM fk_p WHERE id = 10;
UPDATE fk_p SET id = 99 WHERE id = 9;
SELECT count(*) AS flush FROM lsm_flush('fk_p');
SELECT count(*) AS flush FROM lsm_flush('fk_c');
SELECT count(*) AS flush FROM lsm_flush('fk_r');
INSERT INTO fk_c VALUES (100, 99, NULL);
INSERT INTO fk_r VALUES (100, 99);
DELETE FROM fk_p WHERE id = 9;
DELETE FROM fk_p WHERE id = 10;
UPDATE fk_p SET status = 1 WHERE id IN (1, 9);
UPDATE fk_p SET id = 11 WHERE id = 1;
UPDATE fk_p SET code = 'new 2' WHERE id = 2;
DELETE FROM fk_p WHERE id = 3;
SELECT * FROM fk_p ORDER BY id;
SELECT * FROM fk_c ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('fk_p');
SELECT count(*) AS major FROM lsm_major_compact('fk_c');
SELECT * FROM fk_c ORDER BY id;
DELETE FROM fk_p WHERE id = 9;
INSERT INTO fk_r VALUES (3, 11), (4, 2);
DELETE FROM fk_p WHERE id IN (2, 4);
SELECT * FROM fk_c ORDER BY id;

-- deferred, with a flush between cause and check
CREATE TABLE fk_d (id int PRIMARY KEY, p int REFERENCES fk_p DEFERRABLE INITIALLY DEFERRED) USING lsm;
BEGIN;
INSERT INTO fk_d VALUES (1, 50);
SELECT count(*) AS flush FROM lsm_flush('fk_d');
INSERT INTO fk_p VALUES (50, 'fifty', 0);
SELECT count(*) AS flush FROM lsm_flush('fk_p');
COMMIT;
BEGIN;
INSERT INTO fk_d VALUES (2, 51);
SELECT count(*) AS flush FROM lsm_flush('fk_d');
COMMIT;
BEGIN;
DELETE FROM fk_p WHERE id = 50;
SELECT count(*) AS flush FROM lsm_flush('fk_p');
SELECT count(*) AS major FROM lsm_major_compact('fk_p');
INSERT INTO fk_p VALUES (50, 'fifty again', 0);
COMMIT;
BEGIN;
DELETE FROM fk_p WHERE id = 50;
SELECT count(*) AS flush FROM lsm_flush('fk_p');
COMMIT;
BEGIN;
DELETE FROM fk_p WHERE id = 50;
UPDATE fk_d SET p = NULL WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('fk_d');
SELECT count(*) AS flush FROM lsm_flush('fk_p');
COMMIT;
SELECT * FROM fk_d ORDER BY id;

-- to itself
CREATE TABLE fk_self (id int PRIMARY KEY, up int REFERENCES fk_self ON DELETE CASCADE) USING lsm;
INSERT INTO fk_self VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, 4), (6, 1);
SELECT count(*) AS flush FROM lsm_flush('fk_self');
DELETE FROM fk_self WHERE id = 3;
SELECT * FROM fk_self ORDER BY id;
UPDATE fk_self SET up = 77 WHERE id = 2;
DELETE FROM fk_self WHERE id = 1;
SELECT * FROM fk_self ORDER BY id;

-- added to tables that are full
CREATE TABLE fk_late (id int, p int) USING lsm;
INSERT INTO fk_late SELECT i, 6 FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('fk_late');
ALTER TABLE fk_late ADD FOREIGN KEY (p) REFERENCES fk_p;
UPDATE fk_late SET p = 6060 WHERE id = 50;
ALTER TABLE fk_late DROP CONSTRAINT fk_late_p_fkey;
UPDATE fk_late SET p = 6060 WHERE id = 50;
ALTER TABLE fk_late ADD FOREIGN KEY (p) REFERENCES fk_p;

-- who has written frozen rows has inserted them all the same: the check of that, which is
-- deferred, is not spared because an UPDATE leaves the key alone
CREATE TABLE fk_frozen (p int REFERENCES fk_p DEFERRABLE INITIALLY DEFERRED, v int) USING lsm;
BEGIN;
TRUNCATE fk_frozen;
COPY fk_frozen FROM stdin (FREEZE);
7000	1
\.
UPDATE fk_frozen SET v = 2;
COMMIT;
BEGIN;
TRUNCATE fk_frozen;
COPY fk_frozen FROM stdin (FREEZE);
7000	1
\.
SELECT count(*) AS flush FROM lsm_flush('fk_frozen');
SAVEPOINT s;
UPDATE fk_frozen SET v = 2;
SELECT count(*) AS flush FROM lsm_flush('fk_frozen');
COMMIT;
SELECT * FROM fk_frozen;
BEGIN;
TRUNCATE fk_frozen;
COPY fk_frozen FROM stdin (FREEZE);
6	1
\.
UPDATE fk_frozen SET v = 2;
COMMIT;
UPDATE fk_frozen SET v = 3;
SELECT * FROM fk_frozen;

SELECT c AS problem FROM lsm_check('fk_frozen') c;
SELECT c AS problem FROM lsm_check('fk_p') c;
SELECT c AS problem FROM lsm_check('fk_c') c;
SELECT c AS problem FROM lsm_check('fk_r') c;
SELECT c AS problem FROM lsm_check('fk_d') c;
SELECT c AS problem FROM lsm_check('fk_self') c;
DROP TABLE fk_c, fk_r, fk_h, fk_d, fk_self, fk_late, fk_frozen, fk_p;
