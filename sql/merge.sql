--
-- MERGE
--
CREATE TABLE me (id int PRIMARY KEY, v int, t text) USING lsm;
CREATE TABLE me_src (id int, v int) USING lsm;
INSERT INTO me SELECT i, i, 'old' FROM generate_series(1, 10) i;
INSERT INTO me_src SELECT i, i * 10 FROM generate_series(6, 15) i;
SELECT count(*) AS flush FROM lsm_flush('me');
UPDATE me SET v = v + 100 WHERE id IN (7, 8);

MERGE INTO me USING me_src s ON me.id = s.id
	WHEN MATCHED AND me.id = 10 THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = me.v + s.v, t = 'merged'
	WHEN NOT MATCHED AND s.id = 15 THEN DO NOTHING
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 'new');
SELECT * FROM me ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('me');
BEGIN;
MERGE INTO me USING me_src s ON me.id = s.id
	WHEN MATCHED THEN UPDATE SET id = me.id + 100
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 'new');
SELECT count(*) AS flush FROM lsm_flush('me');
SELECT count(*), sum(id), sum(v) FROM me;
ROLLBACK;
SELECT count(*), sum(id), sum(v) FROM me;
-- a row that meets two partners
INSERT INTO me_src VALUES (6, 0);
MERGE INTO me USING me_src s ON me.id = s.id
	WHEN MATCHED THEN UPDATE SET v = 0;
SELECT count(*) AS major FROM lsm_major_compact('me');
SELECT * FROM me ORDER BY id;
SELECT c AS problem FROM lsm_check('me') c;
DROP TABLE me, me_src;
