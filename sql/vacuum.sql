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
DROP TABLE va;
