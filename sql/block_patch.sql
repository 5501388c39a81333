-- major compactions copy what no increment touches of a block (lsm_block_patch.c): each time
-- the table must be as its heap twin
SET default_table_access_method = lsm;
CREATE TABLE bp (id int PRIMARY KEY, a int, b text, c numeric(8, 2), d char(12) DEFAULT 'd', e bigint, f float8, g text)
	WITH (autovacuum_enabled = off, lsm.block_size = '8kB');
INSERT INTO bp SELECT i, i % 100, repeat('text ' || i % 13, i % 5), i / 7.0, 'char ' || i % 9,
	CASE WHEN i % 3 > 0 THEN i * 1000000007::bigint END, i / 3.0, md5(i::text)
	FROM generate_series(1, 6000) i;
CREATE TABLE bp_twin (LIKE bp INCLUDING ALL) USING heap;
INSERT INTO bp_twin SELECT * FROM bp;

-- a change of both
CREATE FUNCTION bp_both(change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format(change, 'bp');
	EXECUTE format(change, 'bp_twin');
END $$;
CREATE VIEW bp_differences AS
	SELECT count(*) FROM (SELECT id, bp::text AS row FROM bp) a FULL JOIN (SELECT id, bp_twin::text AS row FROM bp_twin) b USING (id)
	WHERE a.row IS DISTINCT FROM b.row;
CREATE VIEW bp_problems AS SELECT * FROM lsm_check('bp');
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT count(*) AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;

-- one column, the next time another one; values of the same size, longer, shorter, null
SELECT bp_both($$UPDATE %s SET a = a + 1 WHERE id %% 10 = 3$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT bp_both($$UPDATE %s SET b = b || 'x' WHERE id %% 50 = 7$$);
SELECT bp_both($$UPDATE %s SET c = NULL, d = upper(d) WHERE id %% 33 = 1$$);
SELECT bp_both($$UPDATE %s SET e = id, f = -f WHERE id %% 20 < 3$$);
SELECT bp_both($$UPDATE %s SET g = NULL WHERE id %% 40 = 3$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT bp_both($$UPDATE %s SET g = md5(id::text), e = NULL WHERE id %% 80 = 3$$);
SELECT bp_both($$UPDATE %s SET a = a WHERE id %% 7 = 0$$);
SELECT bp_both($$UPDATE %s SET (a, b, c, d, e, f, g) = (1, 'b', 2.5, 'd', 3, 4.5, 'g') WHERE id %% 90 = 5$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;

-- bounds are those of what is there now
SELECT bp_both($$UPDATE %s SET a = 100000 WHERE id = 3000$$);
SELECT bp_both($$UPDATE %s SET b = '~' WHERE id = 4000$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT id FROM bp WHERE a > 1000;
SELECT id FROM bp WHERE b = '~';
SELECT * FROM bp_differences;

-- rows that are gone, roots that are not there any more, blocks that grow beyond what a block has
SELECT bp_both($$DELETE FROM %s WHERE id %% 500 = 9$$);
SELECT bp_both($$UPDATE %s SET a = -1 WHERE id %% 10 = 9$$);
SELECT bp_both($$DELETE FROM %s WHERE id BETWEEN 2000 AND 2600$$);
SELECT bp_both($$UPDATE %s SET b = repeat(g, 5) WHERE id BETWEEN 5000 AND 5100$$);
SELECT bp_both($$UPDATE %s SET g = 's' WHERE id BETWEEN 1000 AND 1400$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
-- (one segment ends where many rows have gone, so that their identifiers can be used again)
SELECT count(*) AS segments FROM lsm_segments('bp');
SELECT * FROM bp_differences;
SELECT bp_both($$UPDATE %s SET b = 'after', a = a + 1 WHERE id %% 11 = 0$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT * FROM bp_problems;

-- columns that came later, and one that has gone
SELECT bp_both($$ALTER TABLE %s ADD COLUMN h int DEFAULT 77, ADD COLUMN i text$$);
SELECT bp_both($$UPDATE %s SET a = a + 1 WHERE id %% 15 = 0$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT bp_both($$UPDATE %s SET h = 78 WHERE id %% 15 = 1$$);
SELECT bp_both($$UPDATE %s SET i = 'i' WHERE id %% 15 = 2$$);
SELECT bp_both($$UPDATE %s SET a = NULL WHERE id %% 15 = 3$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT bp_both($$ALTER TABLE %s DROP COLUMN c$$);
SELECT bp_both($$UPDATE %s SET a = 5 WHERE id %% 15 = 4$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT bp_both($$UPDATE %s SET a = 6 WHERE id %% 15 = 5$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT * FROM bp_problems;

-- large values come, beside changes of rows before and behind them, and go
ALTER TABLE bp ALTER b SET STORAGE EXTERNAL;
ALTER TABLE bp_twin ALTER b SET STORAGE EXTERNAL;
SELECT bp_both($$UPDATE %s SET b = repeat(md5(id::text), 400) WHERE id %% 700 = 15$$);
SELECT bp_both($$UPDATE %s SET a = 8 WHERE id %% 25 = 15$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT bp_both($$UPDATE %s SET a = 9 WHERE id %% 25 = 16$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT bp_both($$UPDATE %s SET b = 'short' WHERE id %% 700 = 15$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT bp_both($$UPDATE %s SET a = 10 WHERE id %% 25 = 17$$);
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT * FROM bp_differences;
SELECT * FROM bp_problems;

-- xmin of changed rows, and of those beside them
SELECT id, xmin = 2 AS unknown FROM bp WHERE id IN (100, 101);
BEGIN;
UPDATE bp SET a = 1 WHERE id = 100;
SELECT pg_current_xact_id()::xid AS changed \gset
COMMIT;
SELECT xmin AS beside FROM bp WHERE id = 101 \gset
SELECT count(*) AS flush FROM lsm_flush('bp');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp');
SELECT id, xmin = CASE id WHEN 100 THEN :'changed'::xid ELSE :'beside'::xid END AS good FROM bp WHERE id IN (100, 101);

-- segments end where rows have gone from within a block, and among rows that get large values
CREATE TABLE bp_gap (id int PRIMARY KEY, a int) WITH (autovacuum_enabled = off, lsm.block_size = '128kB');
INSERT INTO bp_gap SELECT i, i FROM generate_series(1, 8000) i;
SELECT count(*) AS flush FROM lsm_flush('bp_gap');
SELECT count(*) AS major FROM lsm_major_compact('bp_gap');
SELECT blocks FROM lsm_segments('bp_gap');
DELETE FROM bp_gap WHERE id BETWEEN 2000 AND 5000;
UPDATE bp_gap SET a = a + 1 WHERE id % 3 = 0;
SELECT count(*) AS flush FROM lsm_flush('bp_gap');
SELECT rows_out AS major FROM lsm_major_compact('bp_gap');
SELECT count(*) AS segments FROM lsm_segments('bp_gap') WHERE level = 2;
SELECT count(*), sum(a) FROM bp_gap;
CREATE TABLE bp_many (id int PRIMARY KEY, a int, b text) WITH (autovacuum_enabled = off);
ALTER TABLE bp_many ALTER b SET STORAGE EXTERNAL;
INSERT INTO bp_many SELECT i, i FROM generate_series(1, 8000) i;
SELECT count(*) AS flush FROM lsm_flush('bp_many');
SELECT count(*) AS major FROM lsm_major_compact('bp_many');
SET lsm.segment_size = '1MB';
UPDATE bp_many SET b = repeat(md5(id::text), 400) WHERE id BETWEEN 500 AND 800;
SELECT count(*) AS flush FROM lsm_flush('bp_many');
SELECT rows_out > 0 AS major FROM lsm_major_compact('bp_many');
SELECT count(*) > 2 AS segments FROM lsm_segments('bp_many') WHERE level = 2;
RESET lsm.segment_size;
SELECT count(*), sum(a), count(*) FILTER (WHERE b = repeat(md5(id::text), 400)) AS large FROM bp_many;
SELECT * FROM lsm_check('bp_gap') UNION ALL SELECT * FROM lsm_check('bp_many');

-- what is not touched is not written anew: compression that comes later is not seen in it
CREATE TABLE bp_stored (id int PRIMARY KEY, a int, b text) WITH (autovacuum_enabled = off, lsm.compression = none);
INSERT INTO bp_stored SELECT i, 0, repeat('compressible ', 20) || i FROM generate_series(1, 5000) i;
SELECT count(*) AS flush FROM lsm_flush('bp_stored');
SELECT count(*) AS major FROM lsm_major_compact('bp_stored');
ALTER TABLE bp_stored SET (lsm.compression = zstd);
SELECT sum(stored_bytes) AS before FROM lsm_segments('bp_stored') \gset
UPDATE bp_stored SET a = 1 WHERE id % 20 = 3;
SELECT count(*) AS flush FROM lsm_flush('bp_stored');
SELECT rows_out AS major FROM lsm_major_compact('bp_stored');
SELECT sum(stored_bytes) > 0.9 * :before AS copied FROM lsm_segments('bp_stored');
UPDATE bp_stored SET b = b || 'x' WHERE id % 20 = 3;
SELECT count(*) AS flush FROM lsm_flush('bp_stored');
SELECT rows_out AS major FROM lsm_major_compact('bp_stored');
SELECT sum(stored_bytes) < 0.5 * :before AS written FROM lsm_segments('bp_stored');
SELECT * FROM lsm_check('bp_stored');
DROP VIEW bp_differences, bp_problems;
DROP FUNCTION bp_both;
DROP TABLE bp, bp_twin, bp_gap, bp_many, bp_stored;
