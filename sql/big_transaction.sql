--
-- Transactions larger than a memtable
--
CREATE TABLE bt (id int PRIMARY KEY, v int, t text) USING lsm;
BEGIN;
INSERT INTO bt SELECT i, 0, md5(i::text) FROM generate_series(1, 60000) i;
UPDATE bt SET v = id;
UPDATE bt SET v = v + 1 WHERE id % 2 = 0;
SAVEPOINT a;
DELETE FROM bt WHERE id % 3 = 0;
UPDATE bt SET t = 'rolled back';
SELECT count(*), sum(v), count(DISTINCT t) FROM bt;
ROLLBACK TO a;
SELECT count(*), sum(v), count(DISTINCT t) FROM bt;
DELETE FROM bt WHERE id > 50000;
COMMIT;
SELECT count(*), sum(v), min(t), max(t) FROM bt;
SELECT count(*) AS flush FROM lsm_flush('bt');
SELECT count(*), sum(v), min(t), max(t) FROM bt;

BEGIN;
UPDATE bt SET v = v + 1, t = upper(t);
SELECT count(*) AS flush FROM lsm_flush('bt');
UPDATE bt SET v = v + 1;
SELECT count(*), sum(v), min(t), max(t) FROM bt;
ROLLBACK;
SELECT count(*), sum(v), min(t), max(t) FROM bt;
SELECT count(*) AS minor FROM lsm_minor_compact('bt');
SELECT count(*), sum(v), min(t), max(t) FROM bt;
SELECT count(*) AS major FROM lsm_major_compact('bt');
SELECT count(*), sum(v), min(t), max(t) FROM bt;
SELECT id, v, t FROM bt WHERE id IN (1, 2, 3, 49999, 50001) ORDER BY id;

-- one row, very often
DO $$
BEGIN
	FOR i IN 1 .. 5000 LOOP
		UPDATE bt SET v = v + 1 WHERE id = 1;
	END LOOP;
END $$;
SELECT v FROM bt WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('bt');
SELECT v FROM bt WHERE id = 1;

-- nothing is left of a load that failed at its end
INSERT INTO bt SELECT i, 0, 'x' FROM generate_series(100001, 130001) i
	UNION ALL SELECT 1, 0, 'x';
SELECT count(*), max(id) FROM bt;
SELECT c AS problem FROM lsm_check('bt') c;
