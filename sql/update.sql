--
-- UPDATE: unindexed and indexed columns, over generations and segments
--
CREATE TABLE upd (
	id int PRIMARY KEY,
	k int,					-- indexed, not unique
	a int, b text, c int,	-- not indexed
	pad text
) USING lsm;
CREATE INDEX upd_k ON upd (k);
INSERT INTO upd SELECT i, i % 5, i, 'row ' || i, NULL, repeat('p', 100) FROM generate_series(1, 20) i;

-- in the row log
UPDATE upd SET a = a + 100 WHERE id = 1;
UPDATE upd SET a = a + 100 WHERE id = 1 RETURNING id, a, b, c;
UPDATE upd SET b = 'changed', c = 2 WHERE id IN (2, 3) RETURNING id, k, a, b, c;
UPDATE upd SET k = 50 WHERE id = 4 RETURNING id, k, a;
UPDATE upd SET id = 1005 WHERE id = 5 RETURNING id, k, a;
UPDATE upd SET a = a WHERE id = 6 RETURNING a;
UPDATE upd SET a = NULL, b = NULL WHERE id = 7 RETURNING id, a, b;
UPDATE upd SET a = 0 WHERE id = 999;
SELECT id, k, a, b, c, length(pad) AS p FROM upd ORDER BY id;

-- rows that are in a segment
SELECT count(*) AS flush FROM lsm_flush('upd');
SELECT id, k, a, b, c FROM upd WHERE id < 8 OR id > 1000 ORDER BY id;
UPDATE upd SET a = a + 1000 WHERE id IN (1, 8);
UPDATE upd SET k = 51 WHERE id = 9;
UPDATE upd SET id = 1010 WHERE id = 10;
UPDATE upd SET a = 5 WHERE id = 1005;
UPDATE upd SET b = b || '!' WHERE k = 50;
SELECT id, k, a, b, c, length(pad) AS p FROM upd ORDER BY id;

-- rows with records in an increment, too; each column in another generation
SELECT count(*) AS flush FROM lsm_flush('upd');
UPDATE upd SET c = 11 WHERE id = 11;
SELECT count(*) AS flush FROM lsm_flush('upd');
UPDATE upd SET b = 'eleven' WHERE id = 11;
SELECT count(*) AS flush FROM lsm_flush('upd');
UPDATE upd SET a = 1111 WHERE id = 11;
SELECT count(*) AS flush FROM lsm_flush('upd');
SELECT id, k, a, b, c, length(pad) AS p FROM upd WHERE id = 11;
SELECT count(*) AS minor FROM lsm_minor_compact('upd');
SELECT id, k, a, b, c, length(pad) AS p FROM upd WHERE id = 11;
UPDATE upd SET pad = 'short' WHERE id = 11;
SELECT id, k, a, b, c, length(pad) AS p FROM upd ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('upd');
SELECT id, k, a, b, c, length(pad) AS p FROM upd ORDER BY id;

-- the same row many times, in one transaction and in many
BEGIN;
UPDATE upd SET a = 1 WHERE id = 12;
UPDATE upd SET a = a + 1, c = 1 WHERE id = 12;
UPDATE upd SET k = 60 WHERE id = 12;
UPDATE upd SET b = 'twelve' WHERE id = 12;
SELECT id, k, a, b, c FROM upd WHERE id = 12;
SELECT count(*) AS flush FROM lsm_flush('upd');
UPDATE upd SET a = a + 1 WHERE id = 12;
UPDATE upd SET k = 61 WHERE k = 60;
SELECT count(*) AS minor FROM lsm_minor_compact('upd');
SELECT id, k, a, b, c FROM upd WHERE id = 12;
COMMIT;
SELECT id, k, a, b, c FROM upd WHERE id = 12;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		UPDATE upd SET a = a + 1, k = CASE WHEN i % 50 = 0 THEN k + 1 ELSE k END WHERE id = 13;
		IF i % 100 = 0 THEN
			PERFORM lsm_flush('upd');
		END IF;
	END LOOP;
END $$;
SELECT id, k, a FROM upd WHERE id = 13;

-- a rolled back update is gone, before and after flush
BEGIN;
UPDATE upd SET a = -1, k = -1, id = -id;
SELECT count(*), sum(a), sum(k), sum(id) FROM upd;
ROLLBACK;
SELECT count(*), sum(a), sum(k), sum(id) FROM upd;
BEGIN;
UPDATE upd SET a = -1;
SELECT count(*) AS flush FROM lsm_flush('upd');
UPDATE upd SET b = 'never';
SELECT count(*) AS flush FROM lsm_flush('upd');
SELECT count(*), sum(a), sum(k), sum(id) FROM upd;
ROLLBACK;
SELECT count(*), sum(a), sum(k), sum(id), count(b) FROM upd;
-- an update of one column on top of an aborted one of another
BEGIN;
UPDATE upd SET b = 'aborted' WHERE id = 14;
ROLLBACK;
UPDATE upd SET c = 14 WHERE id = 14;
SELECT id, k, a, b, c FROM upd WHERE id = 14;
SELECT count(*) AS flush FROM lsm_flush('upd');
SELECT id, k, a, b, c FROM upd WHERE id = 14;
SELECT count(*) AS major FROM lsm_major_compact('upd');
SELECT id, k, a, b, c FROM upd WHERE id = 14;

-- every row, with and without an index in the way
UPDATE upd SET a = id, k = id % 3, c = NULL;
UPDATE upd SET id = id + 5000;
SELECT id, k, a, b, c FROM upd ORDER BY id;
SET enable_seqscan = off;
SELECT id FROM upd WHERE k = 1 ORDER BY id;
SELECT id FROM upd WHERE id BETWEEN 1 AND 100;
SELECT count(*) AS major FROM lsm_major_compact('upd');
SELECT id FROM upd WHERE k = 1 ORDER BY id;
SELECT id FROM upd WHERE id > 5015 ORDER BY id;
RESET enable_seqscan;

-- an update does not meet its own new rows (Halloween)
CREATE INDEX upd_a ON upd (a);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
UPDATE upd SET a = a + 1 WHERE a > 0;
UPDATE upd SET a = a + 1 WHERE a > 0;
RESET enable_bitmapscan;
RESET enable_seqscan;
SELECT count(*), sum(a), min(a), max(a) FROM upd;

-- UPDATE ... FROM, self join, CTE; a row that meets two partners changes once
CREATE TABLE upd_src (id int, v int) USING lsm;
INSERT INTO upd_src SELECT 5000 + i, i * 7 FROM generate_series(1, 10) i;
INSERT INTO upd_src SELECT * FROM upd_src WHERE id = 5001;
SELECT count(*) AS flush FROM lsm_flush('upd_src');
WITH changed AS (UPDATE upd SET a = upd_src.v FROM upd_src WHERE upd.id = upd_src.id RETURNING upd.id, upd.a)
	SELECT * FROM changed ORDER BY id;
UPDATE upd u SET c = u2.a FROM upd u2 WHERE u2.id = u.id - 1;
WITH changed AS (UPDATE upd SET b = 'cte' WHERE id <= 5003 RETURNING id, b)
	SELECT c.id, c.b, u.b <> 'cte' AS old_is_seen FROM changed c JOIN upd u USING (id) ORDER BY id;
WITH moved AS (DELETE FROM upd_src WHERE v < 30 RETURNING *)
	UPDATE upd SET c = -moved.v FROM moved WHERE upd.id = moved.id;
SELECT count(*) AS flush FROM lsm_flush('upd');
SELECT id, k, a, b, c FROM upd ORDER BY id;
SELECT * FROM upd_src ORDER BY id;
WITH twice AS (UPDATE upd SET a = 1 WHERE id = 5001 RETURNING id)
	UPDATE upd SET a = 2 WHERE id = 5001;
SELECT a FROM upd WHERE id = 5001;
UPDATE upd SET (a, b) = (SELECT v, 'sub' FROM upd_src WHERE upd_src.id = upd.id) WHERE id > 5005;
SELECT id, k, a, b, c FROM upd ORDER BY id;

-- errors leave all as it was
UPDATE upd SET id = 5002 WHERE id = 5001;
UPDATE upd SET a = 1 / (id - 5010);
SELECT count(*), count(DISTINCT id), sum(a) FROM upd;
-- keys that swap places in one statement collide for a moment
CREATE TABLE upd_def (id int PRIMARY KEY DEFERRABLE INITIALLY IMMEDIATE, v int) USING lsm;
INSERT INTO upd_def SELECT i, i FROM generate_series(1, 10) i;
SELECT count(*) AS flush FROM lsm_flush('upd_def');
UPDATE upd_def SET id = id + 1;
SELECT count(*) AS flush FROM lsm_flush('upd_def');
UPDATE upd_def SET id = 13 - id;
SELECT * FROM upd_def ORDER BY id;
UPDATE upd_def SET id = 2 WHERE id = 3;

SELECT c AS problem FROM lsm_check('upd') c;
SELECT c AS problem FROM lsm_check('upd_src') c;
SELECT c AS problem FROM lsm_check('upd_def') c;
DROP TABLE upd_src, upd_def;

-- so many rows in one memtable that its index has several hash tables
CREATE TABLE up_many (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO up_many SELECT i, 0 FROM generate_series(1, 40000) i;
SELECT count(*) FROM lsm_flush('up_many');
UPDATE up_many SET v = id WHERE id <= 20000;
UPDATE up_many SET v = -id WHERE id > 20000;
UPDATE up_many SET v = v + 1 WHERE id % 100 = 0;
DELETE FROM up_many WHERE id % 1000 = 1;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*), sum(v), sum(abs(v)) FROM generate_series(1, 40000) i JOIN up_many ON id = i;
RESET enable_seqscan;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*), sum(v), sum(abs(v)) FROM up_many;
SELECT lsm_check('up_many');
SELECT count(*) FROM lsm_flush('up_many');
SELECT count(*), sum(v), sum(abs(v)) FROM up_many;
DROP TABLE up_many;
