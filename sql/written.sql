-- rows that are read right after they were updated: the columns that the UPDATE had are kept
-- (lsm_written.c), so they must be those of the row, for who sees it
SET default_table_access_method = lsm;
CREATE TABLE wr (id int PRIMARY KEY, a int, b text, c numeric, d text DEFAULT 'd') WITH (autovacuum_enabled = off);
INSERT INTO wr SELECT i, i, 'b' || i, i / 10.0 FROM generate_series(1, 2000) i;
SELECT count(*) AS flush FROM lsm_flush('wr');
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- with other columns in turn: each DELTA has all that differ from the bottom
BEGIN;
UPDATE wr SET a = 70 WHERE id = 7;
SELECT *, xmin = pg_current_xact_id()::xid AS own, xmax, cmin FROM wr WHERE id = 7;
UPDATE wr SET b = NULL WHERE id = 7;
SELECT * FROM wr WHERE id = 7;
UPDATE wr SET c = 7.5 WHERE id = 7;
SELECT * FROM wr WHERE id = 7;
SELECT * FROM wr WHERE id = 8;
COMMIT;
SELECT * FROM wr WHERE id = 7;
UPDATE wr SET d = 'later' WHERE id = 7 RETURNING *;

-- a row that is smaller as a whole than as a DELTA
CREATE TABLE wr_whole (id int PRIMARY KEY, a int) WITH (autovacuum_enabled = off);
INSERT INTO wr_whole VALUES (1, 10);
SELECT count(*) AS flush FROM lsm_flush('wr_whole');
BEGIN;
UPDATE wr_whole SET a = 11 WHERE id = 1;
SELECT * FROM wr_whole WHERE id = 1;
UPDATE wr_whole SET a = a + 1 WHERE id = 1;
SELECT * FROM wr_whole WHERE id = 1;
COMMIT;
SELECT * FROM wr_whole WHERE id = 1;

-- who does not see the command: a cursor that is older, a query that is under way
BEGIN;
DECLARE before CURSOR FOR SELECT a FROM wr WHERE id = 20;
UPDATE wr SET a = a + 1 WHERE id = 20;
DECLARE between CURSOR FOR SELECT a FROM wr WHERE id = 20;
UPDATE wr SET a = a + 1 WHERE id = 20;
FETCH before;
FETCH between;
SELECT a FROM wr WHERE id = 20;
COMMIT;
CREATE FUNCTION wr_change(which int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE wr SET a = a + 100 WHERE id = which;
	RETURN (SELECT a FROM wr WHERE id = which);
END $$;
CREATE FUNCTION wr_look(which int) RETURNS int STABLE LANGUAGE sql AS 'SELECT a FROM wr WHERE id = which';
SELECT id, a, wr_change(21), wr_look(21) FROM wr WHERE id = 21;
SELECT o.id, wr_change(22), i.a FROM wr o, LATERAL (SELECT a FROM wr WHERE id = o.id - 8 OFFSET 0) i WHERE o.id IN (30, 31) ORDER BY 1;

-- rolled back
BEGIN;
UPDATE wr SET a = 400 WHERE id = 40;
SAVEPOINT s;
UPDATE wr SET a = a + 1, b = 'lost' WHERE id = 40;
SELECT a, b FROM wr WHERE id = 40;
ROLLBACK TO s;
SELECT a, b FROM wr WHERE id = 40;
UPDATE wr SET a = a + 2 WHERE id = 40;
SELECT a, b FROM wr WHERE id = 40;
SAVEPOINT s;
UPDATE wr SET a = a + 1 WHERE id = 41;
RELEASE s;
SELECT a, b FROM wr WHERE id = 41;
UPDATE wr SET b = 'kept' WHERE id = 41;
COMMIT;
SELECT a, b FROM wr WHERE id IN (40, 41);
BEGIN;
UPDATE wr SET a = 420 WHERE id = 42;
ROLLBACK;
SELECT a, b FROM wr WHERE id = 42;
BEGIN;
INSERT INTO wr (id) VALUES (3000);
SELECT a, b FROM wr WHERE id = 42;
ROLLBACK;

-- the row is locked, deleted, or inserted again after it
BEGIN;
UPDATE wr SET a = 430 WHERE id = 43;
SELECT a FROM wr WHERE id = 43 FOR UPDATE;
UPDATE wr SET a = a + 1 WHERE id = 43;
SELECT a FROM wr WHERE id = 43;
DELETE FROM wr WHERE id = 43;
SELECT a FROM wr WHERE id = 43;
INSERT INTO wr (id, a) VALUES (43, 434);
SELECT a, b FROM wr WHERE id = 43;
UPDATE wr SET id = 4300 WHERE id = 43;
SELECT id, a, b FROM wr WHERE id IN (43, 4300);
UPDATE wr SET a = a + 1 WHERE id = 4300;
SELECT id, a, b FROM wr WHERE id IN (43, 4300);
COMMIT;

-- the table is flushed, emptied, or written anew
BEGIN;
UPDATE wr SET a = 500 WHERE id = 50;
SELECT count(*) AS flush FROM lsm_flush('wr');
SELECT a, b FROM wr WHERE id = 50;
UPDATE wr SET b = 'flushed' WHERE id = 50;
SELECT count(*) AS compact FROM lsm_major_compact('wr');
SELECT a, b FROM wr WHERE id = 50;
UPDATE wr SET c = a WHERE id = 50;
SELECT a, b, c FROM wr WHERE id = 50;
ALTER TABLE wr ADD COLUMN e text DEFAULT 'missing', DROP COLUMN d;
SELECT * FROM wr WHERE id = 50;
UPDATE wr SET a = a + 1 WHERE id = 50;
SELECT * FROM wr WHERE id = 50;
ALTER TABLE wr ALTER a TYPE text;
SELECT * FROM wr WHERE id = 50;
UPDATE wr SET a = a || '+' WHERE id = 50;
SELECT * FROM wr WHERE id = 50;
COMMIT;
SELECT * FROM wr WHERE id = 50;
BEGIN;
UPDATE wr_whole SET a = 1 WHERE id = 1;
TRUNCATE wr_whole;
SELECT * FROM wr_whole WHERE id = 1;
INSERT INTO wr_whole VALUES (1, 2);
SELECT * FROM wr_whole WHERE id = 1;
UPDATE wr_whole SET a = 3 WHERE id = 1;
SELECT * FROM wr_whole WHERE id = 1;
COMMIT;
CREATE TABLE wr_again (id int PRIMARY KEY, a int, b text);
INSERT INTO wr_again VALUES (1, 1, 'first');
BEGIN;
UPDATE wr_again SET a = 2 WHERE id = 1;
TRUNCATE wr_again;
INSERT INTO wr_again VALUES (1, 3, 'second');
SELECT a FROM wr_again WHERE id = 1 FOR UPDATE;
SELECT * FROM wr_again WHERE id = 1;
DELETE FROM wr_again WHERE id = 1;
SELECT * FROM wr_again WHERE id = 1;
COMMIT;

-- columns that are made by the table, that a trigger changes, that are large, or of a long row
CREATE TABLE wr_made (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED, v text) WITH (autovacuum_enabled = off);
ALTER TABLE wr_made ALTER v SET STORAGE EXTERNAL;
INSERT INTO wr_made SELECT i, i, repeat('v', CASE i WHEN 1 THEN 10 WHEN 2 THEN 600 ELSE 20000 END) FROM generate_series(1, 3) i;
SELECT count(*) AS flush FROM lsm_flush('wr_made');
BEGIN;
UPDATE wr_made SET n = n + 10 WHERE id = 1;
SELECT id, n, twice, length(v) FROM wr_made WHERE id = 1;
UPDATE wr_made SET n = n + 10 WHERE id = 2;
SELECT id, n, twice, length(v) FROM wr_made WHERE id = 2;
UPDATE wr_made SET n = n + 10 WHERE id = 3;
SELECT id, n, twice, length(v) FROM wr_made WHERE id = 3;
COMMIT;
CREATE FUNCTION wr_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	new.v := 'by trigger';
	RETURN new;
END $$;
CREATE TRIGGER before BEFORE UPDATE ON wr_made FOR EACH ROW EXECUTE FUNCTION wr_trigger();
BEGIN;
UPDATE wr_made SET n = n + 1 WHERE id = 1;
SELECT * FROM wr_made WHERE id = 1;
COMMIT;
-- a value that is compressed stays so if it is set to what it was
CREATE TABLE wr_source (v text, pad text) USING heap WITH (toast_tuple_target = 128);
INSERT INTO wr_source SELECT repeat('x', 400), string_agg(md5(i::text), '') FROM generate_series(1, 100) i;
CREATE TABLE wr_packed (id int PRIMARY KEY, a int, v text) WITH (autovacuum_enabled = off);
INSERT INTO wr_packed SELECT 1, 1, v FROM wr_source;
SELECT count(*) AS flush FROM lsm_flush('wr_packed');
BEGIN;
SELECT a, length(v), pg_column_size(v) < 100 AS compressed FROM wr_packed WHERE id = 1;
UPDATE wr_packed SET a = a + 1, v = v || '' WHERE id = 1;
SELECT a, length(v), pg_column_size(v) < 100 AS compressed FROM wr_packed WHERE id = 1;
COMMIT;
SELECT a, length(v), pg_column_size(v) < 100 AS compressed FROM wr_packed WHERE id = 1;

-- two tables in turn, and a transaction of another isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE wr_whole SET a = a + 1 WHERE id = 1;
UPDATE wr SET a = 'x' WHERE id = 1;
SELECT * FROM wr_whole WHERE id = 1;
SELECT * FROM wr WHERE id = 1;
UPDATE wr SET b = 'y' WHERE id = 1;
UPDATE wr_whole SET a = a + 1 WHERE id = 1;
SELECT * FROM wr_whole WHERE id = 1;
SELECT * FROM wr WHERE id = 1;
COMMIT;

-- and all of it is the same when it has been merged
SELECT count(*) AS flush FROM lsm_flush('wr');
SELECT count(*) AS compact FROM lsm_major_compact('wr');
SELECT id, a, b, c, e FROM wr WHERE a <> id::text ORDER BY id;
SELECT * FROM wr_whole;
SELECT lsm_check(c) FROM (VALUES ('wr'::regclass), ('wr_whole'), ('wr_made')) t (c);
DROP TABLE wr, wr_whole, wr_again, wr_made, wr_source, wr_packed;
DROP FUNCTION wr_change, wr_look, wr_trigger;
