--
-- VACUUM and ANALYZE
--
CREATE TABLE va (id int PRIMARY KEY, k int, v text) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX va_k ON va (k);
VACUUM va;
ANALYZE va;
INSERT INTO va SELECT i, i % 100, 'v' || i % 10 FROM generate_series(1, 5000) i;
VACUUM va;
SELECT count(*), sum(k) FROM va;
ANALYZE va;
-- the planner's figures are near the truth
SELECT reltuples BETWEEN 4000 AND 6000 AS tuples, relpages > 0 AS pages FROM pg_class WHERE oid = 'va'::regclass;
SELECT attname, n_distinct, null_frac FROM pg_stats WHERE tablename = 'va' AND attname <> 'id' ORDER BY attname;
SELECT correlation > 0.99 AS in_order FROM pg_stats WHERE tablename = 'va' AND attname = 'id';

SELECT count(*) AS flush FROM lsm_flush('va');
ANALYZE va;
SELECT reltuples BETWEEN 4000 AND 6000 AS tuples, relpages > 0 AS pages FROM pg_class WHERE oid = 'va'::regclass;
UPDATE va SET v = 'changed';
ANALYZE va;
SELECT reltuples BETWEEN 4000 AND 6000 AS tuples FROM pg_class WHERE oid = 'va'::regclass;
SELECT most_common_vals FROM pg_stats WHERE tablename = 'va' AND attname = 'v';
DELETE FROM va WHERE id > 1000;
ANALYZE va;
SELECT reltuples BETWEEN 800 AND 1200 AS tuples FROM pg_class WHERE oid = 'va'::regclass;

-- dead rows and index entries go; the rest stays
VACUUM va;
SELECT count(*), sum(k) FROM va;
SELECT count(*) AS major FROM lsm_major_compact('va');
VACUUM va;
SELECT count(*), sum(k) FROM va;
SELECT reltuples BETWEEN 800 AND 1200 AS tuples FROM pg_class WHERE oid = 'va'::regclass;
SELECT reltuples BETWEEN 800 AND 1200 AS tuples FROM pg_class WHERE oid = 'va_k'::regclass;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM va WHERE k = 7;
INSERT INTO va SELECT i, i % 100, 'second' FROM generate_series(1001, 3000) i;
SELECT count(*), sum(id) FROM va WHERE k = 7;
UPDATE va SET k = k + 1 WHERE k = 7;
VACUUM va;
SELECT count(*), sum(id) FROM va WHERE k = 7;
SELECT count(*), sum(id) FROM va WHERE k = 8;
RESET enable_seqscan;

-- aborted inserts leave dead roots, which are used again some day
BEGIN;
INSERT INTO va SELECT i, 7, 'aborted' FROM generate_series(10001, 12000) i;
SELECT count(*) AS flush FROM lsm_flush('va');
ROLLBACK;
SELECT count(*) AS flush FROM lsm_flush('va');
VACUUM va;
VACUUM va;
INSERT INTO va SELECT i, 9, 'after' FROM generate_series(20001, 22000) i;
SET enable_seqscan = off;
SELECT count(*) FROM va WHERE k = 7;
SELECT count(*) FROM va WHERE k = 9 AND v = 'after';
RESET enable_seqscan;

-- options
VACUUM (FREEZE) va;
VACUUM (INDEX_CLEANUP off, TRUNCATE off) va;
VACUUM (DISABLE_PAGE_SKIPPING, PROCESS_TOAST off) va;
VACUUM (ANALYZE) va;
SELECT count(*), sum(k) FROM va;
-- freezing brings relfrozenxid close to now
SELECT age(relfrozenxid) < 1000 AS young, age(relfrozenxid) >= 0 AS valid FROM pg_class WHERE oid = 'va'::regclass;

-- all rows deleted: the file gets small again
DELETE FROM va;
VACUUM va;
SELECT count(*) AS major FROM lsm_major_compact('va');
VACUUM va;
SELECT count(*) FROM va;
INSERT INTO va SELECT i, i, 'third' FROM generate_series(1, 10) i;
SELECT count(*), sum(k) FROM va;

SELECT c AS problem FROM lsm_check('va') c;

-- a table without rows is an empty file, and begins anew
DELETE FROM va;
VACUUM va;
SELECT pg_relation_size('va') AS bytes;
SELECT relpages, reltuples FROM pg_class WHERE oid = 'va'::regclass;
SELECT count(*) FROM va;
VACUUM va;
INSERT INTO va SELECT i, i % 7, 'anew' FROM generate_series(1, 100) i;
SELECT min(ctid) AS first FROM va;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM va WHERE k = 3;
RESET enable_seqscan;
UPDATE va SET v = 'changed' WHERE id = 50;
SELECT * FROM va WHERE id IN (50, 51) ORDER BY id;
SELECT c AS problem FROM lsm_check('va') c;
-- not if it is told not to, nor while indexes still have the rows
DELETE FROM va;
VACUUM (TRUNCATE off) va;
SELECT pg_relation_size('va') > 0 AS bytes;
ALTER TABLE va SET (vacuum_truncate = off);
VACUUM va;
SELECT pg_relation_size('va') > 0 AS bytes;
ALTER TABLE va RESET (vacuum_truncate);
INSERT INTO va VALUES (1, 1, 'one');
DELETE FROM va;
VACUUM (INDEX_CLEANUP off) va;
SELECT pg_relation_size('va') > 0 AS bytes;
VACUUM (INDEX_CLEANUP on) va;
SELECT pg_relation_size('va') AS bytes;
-- rolled-back inserts count as nothing, too
BEGIN;
INSERT INTO va VALUES (1, 1, 'one');
ROLLBACK;
VACUUM va;
SELECT pg_relation_size('va') AS bytes;
SELECT c AS problem FROM lsm_check('va') c;
DROP TABLE va;

-- of a table with rows the free end goes
CREATE TABLE vt (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO vt SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT count(*) AS flush FROM lsm_flush('vt');
UPDATE vt SET v = md5(v);
DELETE FROM vt WHERE id > 100;
SELECT pg_relation_size('vt') AS before \gset
VACUUM vt;
SELECT pg_relation_size('vt') < :before / 10 AS shorter FROM vt LIMIT 1;
SELECT count(*), count(*) FILTER (WHERE v = md5(md5(id::text))) AS good FROM vt;
SELECT c AS problem FROM lsm_check('vt') c;
INSERT INTO vt SELECT i, md5(i::text) FROM generate_series(101, 5000) i;
UPDATE vt SET v = 'changed' WHERE id % 2 = 0;
VACUUM vt;
SELECT count(*), count(*) FILTER (WHERE v = 'changed') AS changed FROM vt;
SELECT c AS problem FROM lsm_check('vt') c;
DROP TABLE vt;

-- BRIN over a table that begins anew
CREATE TABLE vb (a int) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX vb_a ON vb USING brin (a) WITH (pages_per_range = 1);
INSERT INTO vb SELECT i FROM generate_series(1, 20000) i;
DELETE FROM vb;
VACUUM vb;
INSERT INTO vb SELECT -i FROM generate_series(1, 20000) i;
SET enable_seqscan = off;
SELECT count(*) FROM vb WHERE a BETWEEN -300 AND -201;
RESET enable_seqscan;
VACUUM vb;
SELECT c AS problem FROM lsm_check('vb') c;
DROP TABLE vb;

-- temporary tables, and indexes in parallel
CREATE TEMP TABLE vtemp (a int PRIMARY KEY, b int) USING lsm;
CREATE INDEX vtemp_b ON vtemp (b);
INSERT INTO vtemp SELECT i, i FROM generate_series(1, 1000) i;
DELETE FROM vtemp WHERE a > 10;
VACUUM (PARALLEL 1) vtemp;
DELETE FROM vtemp;
VACUUM vtemp;
SELECT pg_relation_size('vtemp') AS bytes;
INSERT INTO vtemp VALUES (1, 1);
SELECT * FROM vtemp;
DROP TABLE vtemp;
SET min_parallel_index_scan_size = 0;
CREATE TABLE vp (a int PRIMARY KEY, b int, c int) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX vp_b ON vp (b);
CREATE INDEX vp_c ON vp USING brin (c);
INSERT INTO vp SELECT i, i % 100, i FROM generate_series(1, 5000) i;
DELETE FROM vp WHERE a % 3 = 0;
VACUUM (PARALLEL 2) vp;
INSERT INTO vp SELECT i, i % 100, i FROM generate_series(3, 5000, 3) i;
SET enable_seqscan = off;
SELECT count(*), sum(a) FROM vp WHERE b = 7;
RESET enable_seqscan;
DELETE FROM vp WHERE a % 3 = 1;
VACUUM (PARALLEL 0) vp;
SELECT count(*) FROM vp;
SELECT c AS problem FROM lsm_check('vp') c;
RESET min_parallel_index_scan_size;
DROP TABLE vp;

-- lists of dead roots become one, where VACUUM is not to clean indexes
CREATE FUNCTION lsm_test_entries(regclass) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE vl (a int PRIMARY KEY, b text) USING lsm WITH (autovacuum_enabled = off, vacuum_index_cleanup = off);
INSERT INTO vl SELECT i, 'kept' FROM generate_series(1, 10) i;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			INSERT INTO vl SELECT j, 'gone' FROM generate_series(i * 100, i * 100 + 9) j;
			RAISE EXCEPTION 'undone';
		EXCEPTION WHEN raise_exception THEN
			PERFORM lsm_flush('vl');
		END;
	END LOOP;
END $$;
SELECT lsm_test_entries('vl') BETWEEN 20 AND 120 AS few;
SELECT c AS problem FROM lsm_check('vl') c;
VACUUM vl;
SELECT lsm_test_entries('vl') BETWEEN 20 AND 120 AS few;
ALTER TABLE vl RESET (vacuum_index_cleanup);
VACUUM vl;
SELECT lsm_test_entries('vl') < 10 AS few;
SELECT c AS problem FROM lsm_check('vl') c;
INSERT INTO vl SELECT i, 'new' FROM generate_series(11, 5000) i;
SET enable_seqscan = off;
SELECT count(*), sum(a) FROM vl WHERE a > 0;
RESET enable_seqscan;
DROP TABLE vl;
DROP FUNCTION lsm_test_entries(regclass);
