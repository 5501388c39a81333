-- A flush of rows that have been changed very often: it reads of their records what it keeps, and little more.

CREATE TABLE fc (id int PRIMARY KEY, a int, b int, c text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO fc VALUES (1, 0, 0, 'one'), (2, 0, 0, 'two'), (3, 0, 0, 'three'), (4, 0, 0, 'four');
SELECT count(*) FROM lsm_flush('fc');

-- what a statement reads of pages
CREATE FUNCTION fc_pages(sql text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || sql INTO plan;
	RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;
CREATE PROCEDURE fc_change(row_id int, times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		UPDATE fc SET a = a + 1 WHERE id = row_id;
	END LOOP;
END $$;

-- what DELTAs build on is the bottom
CALL fc_change(1, 5000);
SELECT records_memtable > 0 OR memtable_bytes > 0 AS changed FROM lsm_stat_tables WHERE relid = 'fc'::regclass;
SELECT fc_pages('SELECT * FROM lsm_flush(''fc'')') < 2500 AS few;
SELECT * FROM fc ORDER BY id;

-- or lies in an increment; records that are not read count
CALL fc_change(1, 1000);
SELECT rows_in, rows_out FROM lsm_flush('fc');
SELECT * FROM fc ORDER BY id;

-- or is a version of the same generation: all columns of a row change, then one, many times
CREATE TABLE fd (a int, b int, c text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO fd SELECT 0, i, repeat('c', i) FROM generate_series(1, 9) i;
SELECT count(*) FROM lsm_flush('fd');
CREATE PROCEDURE fd_change(row_b int, times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		UPDATE fd SET a = a + 1 WHERE b = row_b;
	END LOOP;
END $$;
UPDATE fd SET a = b, b = 10 * b, c = repeat('d', 100);
CALL fd_change(10, 100);
CALL fd_change(20, 2);
-- of one row, more of them than are noted
UPDATE fd SET a = 0, b = 101, c = repeat('e', 100) WHERE b = 90;
BEGIN;
CALL fd_change(101, 2);
UPDATE fd SET a = a + 1, b = 102, c = repeat('f', 100) WHERE b = 101;
CALL fd_change(102, 2);
UPDATE fd SET a = a + 1, b = 103, c = repeat('g', 100) WHERE b = 102;
CALL fd_change(103, 2);
UPDATE fd SET a = a + 1, b = 104, c = repeat('h', 100) WHERE b = 103;
CALL fd_change(104, 2);
UPDATE fd SET a = a + 1, b = 105, c = repeat('i', 100) WHERE b = 104;
CALL fd_change(105, 2);
UPDATE fd SET a = a + 1, b = 106, c = repeat('j', 100) WHERE b = 105;
CALL fd_change(106, 2);
SELECT count(*) FROM lsm_flush('fd');
COMMIT;
SELECT a, b, left(c, 1) AS c, length(c) FROM fd ORDER BY b;
CALL fd_change(106, 2);
CALL fd_change(20, 3);
SELECT count(*) FROM lsm_flush('fd');
SELECT a, b, left(c, 1) AS c, length(c) FROM fd ORDER BY b;
SELECT count(*) FROM lsm_major_compact('fd');
SELECT a, b, left(c, 1) AS c, length(c) FROM fd ORDER BY b;
SELECT * FROM lsm_check('fd');

-- versions that were rolled back lie between, and on top
BEGIN;
CALL fc_change(4, 2);
SAVEPOINT s;
CALL fc_change(4, 5);
UPDATE fc SET a = 40, b = 41, c = 'not of four' WHERE id = 4;
ROLLBACK TO s;
CALL fc_change(4, 1);
COMMIT;
BEGIN;
CALL fc_change(4, 3);
ROLLBACK;
SELECT count(*) FROM lsm_flush('fc');
SELECT * FROM fc ORDER BY id;

-- a deleted row
CALL fc_change(4, 10);
DELETE FROM fc WHERE id = 4;
SELECT count(*) FROM lsm_flush('fc');
SELECT * FROM fc ORDER BY id;
SELECT count(*) FROM lsm_major_compact('fc');
SELECT * FROM fc ORDER BY id;
SELECT * FROM lsm_check('fc');

DROP TABLE fc, fd;
DROP FUNCTION fc_pages(text);
DROP PROCEDURE fc_change(int, int);
DROP PROCEDURE fd_change(int, int);
