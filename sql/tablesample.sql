--
-- TABLESAMPLE: samples of logical blocks and of rows
--
CREATE TABLE sa (id int, v int, t text) USING lsm;
SELECT count(*) FROM sa TABLESAMPLE SYSTEM (100);
SELECT count(*) FROM sa TABLESAMPLE BERNOULLI (100);
INSERT INTO sa SELECT i, 0, repeat('s', 100) FROM generate_series(1, 10000) i;
-- all, none, and some
SELECT count(*), sum(id) FROM sa TABLESAMPLE SYSTEM (100);
SELECT count(*), sum(id) FROM sa TABLESAMPLE BERNOULLI (100);
SELECT count(*) FROM sa TABLESAMPLE SYSTEM (0);
SELECT count(*) FROM sa TABLESAMPLE BERNOULLI (0);
SELECT count(*) BETWEEN 2000 AND 8000 AS half, count(DISTINCT id) = count(*) AS once FROM sa TABLESAMPLE SYSTEM (50) REPEATABLE (1);
SELECT count(*) BETWEEN 4500 AND 5500 AS half, count(DISTINCT id) = count(*) AS once FROM sa TABLESAMPLE BERNOULLI (50) REPEATABLE (1);
SELECT count(*) BETWEEN 50 AND 200 AS few FROM sa TABLESAMPLE BERNOULLI (1) REPEATABLE (2);
-- whole blocks
CREATE VIEW sa_broken AS
	SELECT count(*) FROM
		(SELECT (ctid::text::point)[0] AS lb, count(*) AS n FROM sa GROUP BY 1) a JOIN
		(SELECT (ctid::text::point)[0] AS lb, count(*) AS n FROM sa TABLESAMPLE SYSTEM (30) REPEATABLE (7) GROUP BY 1) s USING (lb)
	WHERE a.n <> s.n;
TABLE sa_broken;
-- a repeatable sample is the same whatever becomes of the rows' storage
CREATE TABLE sa_system AS SELECT id FROM sa TABLESAMPLE SYSTEM (30) REPEATABLE (7);
CREATE TABLE sa_rows AS SELECT id FROM sa TABLESAMPLE BERNOULLI (30) REPEATABLE (7);
CREATE VIEW sa_same AS
	WITH s AS (SELECT id FROM sa TABLESAMPLE SYSTEM (30) REPEATABLE (7)),
		r AS (SELECT id FROM sa TABLESAMPLE BERNOULLI (30) REPEATABLE (7))
	SELECT (SELECT count(*) FROM (TABLE s EXCEPT ALL TABLE sa_system) d) AS system_more,
		(SELECT count(*) FROM (TABLE sa_system EXCEPT ALL TABLE s) d) AS system_less,
		(SELECT count(*) FROM (TABLE r EXCEPT ALL TABLE sa_rows) d) AS rows_more,
		(SELECT count(*) FROM (TABLE sa_rows EXCEPT ALL TABLE r) d) AS rows_less;
TABLE sa_same;
UPDATE sa SET v = v + 1 WHERE id % 3 = 0;
TABLE sa_same;
SELECT count(*) AS flush FROM lsm_flush('sa');
TABLE sa_same;
TABLE sa_broken;
UPDATE sa SET v = v + 1 WHERE id % 5 = 0;
SELECT count(*) AS flush FROM lsm_flush('sa');
UPDATE sa SET v = v + 1 WHERE id % 7 = 0;
TABLE sa_same;
SELECT count(*) AS flush FROM lsm_flush('sa');
SELECT count(*) AS minor FROM lsm_minor_compact('sa');
TABLE sa_same;
SELECT count(*) AS major FROM lsm_major_compact('sa');
TABLE sa_same;
TABLE sa_broken;
SELECT count(*), sum(v) FROM sa TABLESAMPLE SYSTEM (100);
SELECT count(*), sum(v) FROM sa TABLESAMPLE BERNOULLI (100);
SELECT count(*) = 0 AS none_missing FROM sa_system s JOIN sa USING (id) WHERE v <> (id % 3 = 0)::int + (id % 5 = 0)::int + (id % 7 = 0)::int;
-- rows that are deleted, and rows that are not visible
DELETE FROM sa WHERE id % 2 = 0;
DELETE FROM sa_system WHERE id % 2 = 0;
DELETE FROM sa_rows WHERE id % 2 = 0;
TABLE sa_same;
SELECT count(*) AS flush FROM lsm_flush('sa');
SELECT count(*) AS major FROM lsm_major_compact('sa');
VACUUM sa;
TABLE sa_same;
BEGIN;
DELETE FROM sa WHERE id > 100;
SAVEPOINT s;
INSERT INTO sa SELECT i, 0, 'x' FROM generate_series(20001, 20010) i;
SELECT count(*), sum(id) FROM sa TABLESAMPLE BERNOULLI (100);
ROLLBACK TO s;
SELECT count(*), sum(id) FROM sa TABLESAMPLE SYSTEM (100);
ROLLBACK;
TABLE sa_same;
-- a sample that is read in pieces
BEGIN;
DECLARE s CURSOR FOR SELECT id FROM sa TABLESAMPLE SYSTEM (30) REPEATABLE (7);
DECLARE r CURSOR FOR SELECT id FROM sa TABLESAMPLE BERNOULLI (30) REPEATABLE (7);
MOVE 100 FROM s;
MOVE 100 FROM r;
UPDATE sa SET v = -1;
DELETE FROM sa WHERE id % 3 = 0;
SELECT count(*) AS flush FROM lsm_flush('sa');
SELECT count(*) AS major FROM lsm_major_compact('sa');
CREATE FUNCTION sa_rest(c refcursor) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint := 0;
	r record;
BEGIN
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
SELECT sa_rest('s') + 100 = (SELECT count(*) FROM sa_system) AS system, sa_rest('r') + 100 = (SELECT count(*) FROM sa_rows) AS rows;
ROLLBACK;
-- scanned again and again, with other parameters
SELECT p, (SELECT count(*) FROM sa TABLESAMPLE BERNOULLI (p) REPEATABLE (3)) > 0 AS some FROM (VALUES (0), (50), (100)) x (p);
SELECT p, (SELECT count(*) FROM sa TABLESAMPLE SYSTEM (p) REPEATABLE (3)) AS rows FROM (VALUES (100), (0), (100)) x (p);
-- in partitions, in a join, under a row lock
CREATE TABLE sp (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE sp1 PARTITION OF sp FOR VALUES FROM (0) TO (1000) USING lsm;
CREATE TABLE sp2 PARTITION OF sp FOR VALUES FROM (1000) TO (2000) USING heap;
INSERT INTO sp SELECT i, i FROM generate_series(0, 1999) i;
SELECT count(*), count(DISTINCT tableoid) FROM sp TABLESAMPLE BERNOULLI (100);
SELECT count(*) FROM sp s TABLESAMPLE SYSTEM (100) JOIN sa ON sa.id = s.id;
SELECT count(*) > 0 AS some FROM (SELECT * FROM sp1 TABLESAMPLE BERNOULLI (10) REPEATABLE (1) FOR UPDATE) x;
SELECT c AS problem FROM lsm_check('sa') c;
DROP VIEW sa_same, sa_broken;
DROP TABLE sa, sa_system, sa_rows, sp;
