--
-- Row locks within one session (between sessions: src/test/specs)
--
CREATE TABLE rl (id int PRIMARY KEY, v int, k int) USING lsm;
CREATE INDEX rl_k ON rl (k);
INSERT INTO rl SELECT i, i, i FROM generate_series(1, 10) i;

BEGIN;
SELECT * FROM rl WHERE id <= 3 ORDER BY id FOR KEY SHARE;
SELECT * FROM rl WHERE id <= 3 ORDER BY id FOR SHARE;
SELECT * FROM rl WHERE id <= 3 ORDER BY id FOR NO KEY UPDATE;
SELECT * FROM rl WHERE id <= 3 ORDER BY id FOR UPDATE;
SELECT * FROM rl WHERE id <= 3 ORDER BY id FOR KEY SHARE;
UPDATE rl SET v = 100 WHERE id = 1;
SELECT * FROM rl WHERE id = 1 FOR UPDATE;
UPDATE rl SET k = 200 WHERE id = 2;
SELECT * FROM rl WHERE id = 2 FOR KEY SHARE;
UPDATE rl SET id = 300 WHERE id = 3;
SELECT * FROM rl WHERE id = 300 FOR UPDATE;
DELETE FROM rl WHERE id = 300;
COMMIT;
SELECT * FROM rl ORDER BY id;

-- a lock changes nothing, and a flush of locks leaves nothing behind
BEGIN;
SELECT count(*) FROM (SELECT * FROM rl FOR UPDATE) s;
SELECT count(*) AS flush FROM lsm_flush('rl');
SELECT * FROM rl ORDER BY id FOR SHARE LIMIT 2;
SELECT count(*) AS minor FROM lsm_minor_compact('rl');
UPDATE rl SET v = v + 1;
SELECT count(*) AS flush FROM lsm_flush('rl');
SELECT * FROM rl ORDER BY id FOR UPDATE;
COMMIT;
SELECT count(*) AS flush FROM lsm_flush('rl');
SELECT count(*) AS major FROM lsm_major_compact('rl');
SELECT * FROM rl ORDER BY id;
BEGIN;
SELECT id FROM rl ORDER BY id FOR UPDATE;
ROLLBACK;
SELECT count(*) AS flush FROM lsm_flush('rl');
SELECT * FROM rl ORDER BY id;

-- with SKIP LOCKED and NOWAIT, own locks do not count
BEGIN;
SELECT id FROM rl WHERE id = 4 FOR UPDATE;
SELECT id FROM rl WHERE id < 6 ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM rl WHERE id < 6 ORDER BY id FOR UPDATE NOWAIT;
COMMIT;

-- joins, subqueries, several tables, OF
CREATE TABLE rl2 (id int, r int) USING lsm;
INSERT INTO rl2 SELECT i, i % 5 FROM generate_series(1, 10) i;
SELECT count(*) AS flush FROM lsm_flush('rl2');
BEGIN;
SELECT rl.id, rl2.id FROM rl JOIN rl2 ON rl.id = rl2.r WHERE rl.id > 2 ORDER BY 1, 2 FOR UPDATE;
SELECT rl.id, rl2.id FROM rl JOIN rl2 ON rl.id = rl2.r WHERE rl.id > 2 ORDER BY 1, 2 FOR SHARE OF rl2;
SELECT rl.id, rl2.id FROM rl LEFT JOIN rl2 ON rl.id = rl2.r WHERE rl.id > 3 ORDER BY 1, 2 FOR UPDATE OF rl;
SELECT * FROM rl WHERE id IN (SELECT r FROM rl2) ORDER BY id FOR NO KEY UPDATE;
WITH l AS (SELECT id FROM rl WHERE id = 5 FOR UPDATE)
	UPDATE rl SET v = -5 FROM l WHERE rl.id = l.id RETURNING rl.*;
COMMIT;
-- a queue as applications write it
BEGIN;
DELETE FROM rl2 WHERE id = (SELECT id FROM rl2 ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING *;
DELETE FROM rl2 WHERE id = (SELECT id FROM rl2 ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING *;
SELECT count(*) AS flush FROM lsm_flush('rl2');
DELETE FROM rl2 WHERE id = (SELECT id FROM rl2 ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING *;
ROLLBACK;
SELECT count(*) FROM rl2;

-- a row changed by a function that the locking query calls
CREATE FUNCTION rl_bump(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE rl SET v = v + 1 WHERE id = $1;
	RETURN $1;
END $$;
SELECT id, v FROM rl WHERE id = rl_bump(6) AND id = 6 FOR UPDATE;
SELECT id, v FROM rl WHERE id = 6;

-- LOCK TABLE modes
BEGIN;
LOCK TABLE rl IN SHARE ROW EXCLUSIVE MODE;
SELECT count(*) AS flush FROM lsm_flush('rl');
LOCK TABLE rl IN ACCESS EXCLUSIVE MODE;
SELECT count(*) AS major FROM lsm_major_compact('rl');
SELECT count(*) FROM rl;
COMMIT;

-- rows that are changed by who has locked them before leave no memory behind, until
-- the statement ends
CREATE TABLE rl_many (id int, v int) USING lsm;
INSERT INTO rl_many SELECT i, 0 FROM generate_series(1, 20000) i;
CREATE FUNCTION rl_memory() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% has less than 8 MB: %', TG_OP,
		(SELECT sum(used_bytes) < 8388608 FROM pg_backend_memory_contexts WHERE name = 'ExecutorState');
	RETURN NULL;
END $$;
CREATE TRIGGER t AFTER UPDATE OR DELETE ON rl_many FOR EACH STATEMENT EXECUTE FUNCTION rl_memory();
BEGIN;
SELECT count(*) FROM (SELECT id FROM rl_many FOR UPDATE) s;
UPDATE rl_many SET v = v + 1;
COMMIT;
BEGIN;
SELECT count(*) FROM (SELECT id FROM rl_many FOR KEY SHARE) s;
SELECT count(*) AS flush FROM lsm_flush('rl_many');
SELECT count(*) FROM (SELECT id FROM rl_many FOR UPDATE) s;
DELETE FROM rl_many WHERE id > 100;
ROLLBACK;
DROP TABLE rl_many;
DROP FUNCTION rl_memory();

SELECT c AS problem FROM lsm_check('rl') c;
SELECT c AS problem FROM lsm_check('rl2') c;
DROP TABLE rl, rl2;
DROP FUNCTION rl_bump(int);
