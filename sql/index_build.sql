--
-- CREATE INDEX, REINDEX and DROP INDEX on tables with rows in the row log,
-- increments and baseline
--
CREATE TABLE ib (id int, a int, b text) USING lsm;
-- an index on an empty table
CREATE INDEX ib_empty ON ib (a);
INSERT INTO ib SELECT i, i % 20, 'b' || i FROM generate_series(1, 300) i;
SELECT count(*) AS flush FROM lsm_flush('ib');
INSERT INTO ib SELECT i, i % 20, 'b' || i FROM generate_series(301, 400) i;
UPDATE ib SET b = 'changed' WHERE id % 30 = 0;
SELECT count(*) AS flush FROM lsm_flush('ib');
UPDATE ib SET a = a + 100 WHERE id % 40 = 0;
DELETE FROM ib WHERE id % 70 = 0;
BEGIN;
UPDATE ib SET b = 'aborted', a = -1;
INSERT INTO ib VALUES (9999, 1, 'aborted');
ROLLBACK;

-- built from all of that: old values must not get in
CREATE INDEX ib_b ON ib (b);
CREATE UNIQUE INDEX ib_id ON ib (id);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM ib WHERE b = 'changed';
SELECT count(*) FROM ib WHERE b = 'b30';
SELECT id, a, b FROM ib WHERE id IN (30, 40, 70, 9999) ORDER BY id;
SELECT count(*), sum(id) FROM ib WHERE a > 99;
UPDATE ib SET b = 'again' WHERE id = 30;
SELECT id FROM ib WHERE b = 'again';
SELECT count(*) FROM ib WHERE b = 'changed';

-- unique violations found by the build
\set VERBOSITY terse
CREATE UNIQUE INDEX ib_bad ON ib (a);
\set VERBOSITY default
INSERT INTO ib VALUES (5000, 5000, 'b1');
CREATE UNIQUE INDEX ib_bad ON ib (b) WHERE b LIKE 'b%';
DELETE FROM ib WHERE id = 5000;
CREATE UNIQUE INDEX ib_good ON ib (b) WHERE b LIKE 'b%';
SELECT count(*) AS flush FROM lsm_flush('ib');
INSERT INTO ib VALUES (5000, 5000, 'b1');
SELECT relname FROM pg_class WHERE relname LIKE 'ib\_%' ORDER BY 1;

-- concurrently
CREATE INDEX CONCURRENTLY ib_conc ON ib (a, id);
CREATE UNIQUE INDEX CONCURRENTLY ib_conc_u ON ib (id, a);
SELECT count(*), sum(id) FROM ib WHERE a = 5 AND id > 0;
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY ib_conc_bad ON ib (a);
\set VERBOSITY default
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'ib'::regclass ORDER BY 1;
DROP INDEX ib_conc_bad;
REINDEX INDEX ib_b;
REINDEX TABLE ib;
REINDEX INDEX CONCURRENTLY ib_conc;
REINDEX TABLE CONCURRENTLY ib;
SELECT count(*), sum(id) FROM ib WHERE a = 5 AND id > 0;
SELECT id FROM ib WHERE b = 'again';
DROP INDEX CONCURRENTLY ib_conc_u;
SELECT count(*) AS minor FROM lsm_minor_compact('ib');
REINDEX INDEX ib_b;
SELECT count(*), sum(id) FROM ib WHERE b = 'changed';
SELECT count(*) AS major FROM lsm_major_compact('ib');
REINDEX TABLE ib;
SELECT count(*), sum(id) FROM ib WHERE b = 'changed';
SELECT count(*), sum(id) FROM ib WHERE a = 5 AND id > 0;
VACUUM ib;
REINDEX INDEX ib_id;
SELECT count(*), sum(id) FROM ib WHERE id BETWEEN 100 AND 200;

-- in a transaction that changed the table, with a flush in between
BEGIN;
INSERT INTO ib VALUES (6001, 6001, 'mine');
UPDATE ib SET b = 'mine too' WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('ib');
DELETE FROM ib WHERE id = 2;
UPDATE ib SET b = 'mine three' WHERE id = 3;
CREATE INDEX ib_tx ON ib (b, id);
SELECT id, b FROM ib WHERE b LIKE 'mine%' ORDER BY b;
SELECT count(*) AS flush FROM lsm_flush('ib');
SELECT id, b FROM ib WHERE b LIKE 'mine%' ORDER BY b;
SELECT id FROM ib WHERE b IN ('b1', 'b2', 'b3');
COMMIT;
SELECT id, b FROM ib WHERE b LIKE 'mine%' ORDER BY b;
BEGIN;
UPDATE ib SET b = 'gone' WHERE id = 4;
CREATE INDEX ib_gone ON ib (b);
REINDEX INDEX ib_b;
SELECT id FROM ib WHERE b = 'gone';
ROLLBACK;
SELECT id FROM ib WHERE b IN ('gone', 'b4');
RESET enable_bitmapscan;
RESET enable_seqscan;

-- primary key and constraints added later
ALTER TABLE ib ADD PRIMARY KEY (id);
ALTER TABLE ib ADD CONSTRAINT ib_unique UNIQUE (b, id) DEFERRABLE;
SELECT count(*) AS flush FROM lsm_flush('ib');
INSERT INTO ib VALUES (1, 0, 'dup');
ALTER TABLE ib DROP CONSTRAINT ib_pkey;
INSERT INTO ib VALUES (NULL, 0, 'no key');
SELECT count(*), sum(id) FROM ib;

SELECT c AS problem FROM lsm_check('ib') c;
DROP TABLE ib;

-- built by several processes
CREATE TABLE ib_parallel (id int, v text) USING lsm WITH (parallel_workers = 2);
INSERT INTO ib_parallel SELECT i, md5(i::text) FROM generate_series(1, 30000) i;
SELECT count(*) AS flush FROM lsm_flush('ib_parallel');
UPDATE ib_parallel SET v = 'changed ' || id WHERE id % 10 = 0;
INSERT INTO ib_parallel SELECT i, md5(i::text) FROM generate_series(30001, 40000) i;
DELETE FROM ib_parallel WHERE id % 7 = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
SET client_min_messages = debug1;
CREATE INDEX ib_parallel_v ON ib_parallel (v);
CREATE UNIQUE INDEX ib_parallel_id ON ib_parallel (id);
RESET client_min_messages;
SELECT c AS problem FROM lsm_check('ib_parallel') c;
SET enable_seqscan = off;
SELECT count(*), sum(id), count(*) FILTER (WHERE v LIKE 'changed%') FROM ib_parallel WHERE v > '';
SELECT count(*), sum(id) FROM ib_parallel WHERE id > 0;
RESET enable_seqscan;
INSERT INTO ib_parallel VALUES (40001, 'a'), (40001, 'b');
RESET min_parallel_table_scan_size;
RESET max_parallel_maintenance_workers;
DROP TABLE ib_parallel;
