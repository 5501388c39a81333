--
-- CLUSTER and VACUUM FULL
--
CREATE TABLE cl (id int PRIMARY KEY, k int, v text) USING lsm;
CREATE INDEX cl_k ON cl (k);
-- of an empty table: an empty file
VACUUM FULL cl;
SELECT pg_relation_size('cl') AS bytes;
INSERT INTO cl SELECT i, i, 'first' FROM generate_series(1, 10) i;
UPDATE cl SET k = 20 - k;
VACUUM FULL cl;
SELECT * FROM cl ORDER BY id;
SELECT kind, rows, versions, all_visible FROM lsm_segments('cl');
SELECT count(*) AS flush FROM lsm_flush('cl');
DELETE FROM cl WHERE id = 5;
UPDATE cl SET v = 'changed' WHERE id = 6;
CLUSTER cl USING cl_k;
SELECT * FROM cl ORDER BY ctid;
SET enable_seqscan = off;
SELECT id FROM cl WHERE k BETWEEN 12 AND 17 ORDER BY k;
RESET enable_seqscan;

-- in a transaction that has changed the table, and rolled back
BEGIN;
UPDATE cl SET v = 'mine' WHERE id = 1;
UPDATE cl SET v = 'mine too' WHERE id = 1;
SAVEPOINT s;
UPDATE cl SET v = 'gone' WHERE id = 1;
INSERT INTO cl VALUES (12, 12, 'gone');
ROLLBACK TO s;
DELETE FROM cl WHERE id = 2;
UPDATE cl SET k = 100 WHERE id = 3;
INSERT INTO cl VALUES (11, 11, 'mine');
SELECT id FROM cl WHERE id = 4 FOR UPDATE;
CLUSTER cl;
SELECT * FROM cl ORDER BY ctid;
UPDATE cl SET v = v || '!' WHERE id IN (1, 4, 11);
SELECT count(*) AS flush FROM lsm_flush('cl');
SELECT xmin = pg_current_xact_id()::xid AS mine, * FROM cl ORDER BY id;
SAVEPOINT s;
CLUSTER cl USING cl_pkey;
SELECT * FROM cl ORDER BY ctid;
ROLLBACK TO s;
SELECT c AS problem FROM lsm_check('cl') c;
ROLLBACK;
SELECT * FROM cl ORDER BY id;
BEGIN;
UPDATE cl SET v = 'kept' WHERE id = 1;
DELETE FROM cl WHERE id = 2;
UPDATE cl SET k = 100 WHERE id = 3;
INSERT INTO cl VALUES (11, 11, 'kept');
CLUSTER cl;
COMMIT;
SELECT * FROM cl ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('cl');
SELECT * FROM cl ORDER BY id;
CLUSTER cl;
SELECT * FROM cl ORDER BY ctid;
SELECT c AS problem FROM lsm_check('cl') c;

-- emptied again
DELETE FROM cl;
VACUUM FULL cl;
SELECT pg_relation_size('cl') AS bytes;
INSERT INTO cl VALUES (1, 1, 'again');
TRUNCATE cl;
INSERT INTO cl VALUES (2, 1, 'again');
SELECT * FROM cl;
SELECT c AS problem FROM lsm_check('cl') c;
DROP TABLE cl;

-- many rows, every kind of source at once, by scan and sort and by index scan
CREATE TABLE clm (id int PRIMARY KEY, k int, v text) USING lsm;
CREATE INDEX clm_k ON clm (k, id);
INSERT INTO clm SELECT i, (i * 7919) % 5000, 'base' || i FROM generate_series(1, 20000) i;
SELECT count(*) AS flush FROM lsm_flush('clm');
UPDATE clm SET v = 'second' || id WHERE id % 5 = 0;
DELETE FROM clm WHERE id % 11 = 0;
SELECT count(*) AS flush FROM lsm_flush('clm');
SELECT count(*) AS major FROM lsm_major_compact('clm');
UPDATE clm SET v = 'third' || id WHERE id % 7 = 0;
UPDATE clm SET k = k + 5000 WHERE id % 13 = 0;
SELECT count(*) AS flush FROM lsm_flush('clm');
UPDATE clm SET v = 'fourth' || id WHERE id % 17 = 0;
SELECT count(*) AS minor FROM lsm_minor_compact('clm');
CREATE TABLE clm_copy USING heap AS SELECT * FROM clm;
SET enable_indexscan = off;
CLUSTER clm USING clm_k;
RESET enable_indexscan;
SELECT count(*) FROM clm;
SELECT count(*) AS differ FROM ((TABLE clm EXCEPT TABLE clm_copy) UNION ALL (TABLE clm_copy EXCEPT TABLE clm)) d;
SELECT count(*) AS out_of_order
FROM (SELECT (k, id) < lag((k, id)) OVER (ORDER BY ctid) AS less FROM clm) s WHERE less;
SELECT c AS problem FROM lsm_check('clm') c;
UPDATE clm SET v = 'fifth' || id WHERE id % 19 = 0;
UPDATE clm_copy SET v = 'fifth' || id WHERE id % 19 = 0;
SET enable_seqscan = off;
SET enable_sort = off;
CLUSTER clm USING clm_pkey;
RESET enable_seqscan;
RESET enable_sort;
SELECT count(*) AS differ FROM ((TABLE clm EXCEPT TABLE clm_copy) UNION ALL (TABLE clm_copy EXCEPT TABLE clm)) d;
SELECT count(*) AS out_of_order
FROM (SELECT id < lag(id) OVER (ORDER BY ctid) AS less FROM clm) s WHERE less;
SELECT c AS problem FROM lsm_check('clm') c;
-- a sort that does not fit into memory
SET maintenance_work_mem = '1MB';
SET enable_indexscan = off;
CLUSTER clm USING clm_k;
RESET enable_indexscan;
RESET maintenance_work_mem;
SELECT count(*) AS differ FROM ((TABLE clm EXCEPT TABLE clm_copy) UNION ALL (TABLE clm_copy EXCEPT TABLE clm)) d;
-- the pages of the table
SELECT relpages BETWEEN 5 AND 50 AS pages, reltuples = (SELECT count(*) FROM clm) AS tuples
FROM pg_class WHERE oid = 'clm'::regclass;
-- frozen
SELECT age(relfrozenxid) < 100 AS young FROM pg_class WHERE oid = 'clm'::regclass;
DROP TABLE clm, clm_copy;

-- indexes on expressions, partial ones, descending; GiST by index scan
CREATE TABLE cle (id int, v text, p point) USING lsm;
CREATE INDEX cle_expr ON cle (lower(v) DESC, (id % 3));
CREATE INDEX cle_partial ON cle (id) WHERE id % 2 = 0;
CREATE INDEX cle_gist ON cle USING gist (p);
INSERT INTO cle SELECT i, CASE WHEN i % 2 = 0 THEN 'A' ELSE 'a' END || i % 5, point(i, -i) FROM generate_series(1, 10) i;
UPDATE cle SET v = v WHERE id = 3;
SET enable_indexscan = off;
CLUSTER cle USING cle_expr;
RESET enable_indexscan;
SELECT id, lower(v), id % 3 AS r FROM cle ORDER BY ctid;
CLUSTER cle USING cle_partial;
CLUSTER cle USING cle_gist;
SELECT count(*), sum(id) FROM cle;
SET enable_seqscan = off;
SELECT id FROM cle WHERE id % 2 = 0 AND id < 6 ORDER BY id;
SELECT id FROM cle WHERE lower(v) = 'a2' ORDER BY id;
RESET enable_seqscan;
SELECT c AS problem FROM lsm_check('cle') c;
DROP TABLE cle;

-- by an expression over large values
CREATE TABLE clb (id int, big text, k int) USING lsm;
ALTER TABLE clb ALTER big SET STORAGE EXTERNAL;
INSERT INTO clb SELECT i, repeat(md5(i::text), 1000), -i FROM generate_series(1, 50) i;
CREATE INDEX clb_expr ON clb (md5(big));
CREATE INDEX clb_k ON clb (k);
SET enable_indexscan = off;
CLUSTER clb USING clb_expr;
SELECT count(*), sum(id), bool_and(big = repeat(md5(id::text), 1000)) AS same,
	count(*) FILTER (WHERE less) AS out_of_order
FROM (SELECT *, md5(big) < lag(md5(big)) OVER (ORDER BY ctid) AS less FROM clb) s;
CLUSTER clb USING clb_k;
SELECT string_agg(id::text, ' ' ORDER BY ctid) FROM clb;
UPDATE clb SET big = repeat(md5(big), 600) WHERE id % 5 = 0;
SELECT count(*) AS flush FROM lsm_flush('clb');
CLUSTER clb USING clb_expr;
SELECT count(*), sum(id), bool_and(big = repeat(md5(id::text), 1000)) FILTER (WHERE id % 5 <> 0) AS same,
	count(*) FILTER (WHERE less) AS out_of_order
FROM (SELECT *, md5(big) < lag(md5(big)) OVER (ORDER BY ctid) AS less FROM clb) s;
RESET enable_indexscan;
SELECT c AS problem FROM lsm_check('clb') c;
DROP TABLE clb;

-- columns: dropped, added with a default, system columns
CREATE TABLE clc (a int, b text, c numeric) USING lsm;
INSERT INTO clc VALUES (3, 'three', 3.3), (1, 'one', NULL);
SELECT count(*) AS flush FROM lsm_flush('clc');
ALTER TABLE clc ADD COLUMN d int DEFAULT 42;
ALTER TABLE clc DROP COLUMN b;
INSERT INTO clc VALUES (2, 2.2, NULL);
UPDATE clc SET c = 1.1 WHERE a = 1;
CREATE INDEX clc_a ON clc (a);
BEGIN;
UPDATE clc SET d = 7 WHERE a = 2;
ALTER TABLE clc ADD COLUMN e text DEFAULT 'later';
UPDATE clc SET c = 9.9 WHERE a = 3;
CLUSTER clc USING clc_a;
SELECT * FROM clc ORDER BY ctid;
COMMIT;
SELECT atthasmissing FROM pg_attribute WHERE attrelid = 'clc'::regclass AND attnum > 0 AND atthasmissing;
SELECT ctid, tableoid::regclass, xmin <> 0 AS xmin, xmax, * FROM clc ORDER BY a;
VACUUM FULL clc;
SELECT * FROM clc ORDER BY a;
SELECT c AS problem FROM lsm_check('clc') c;
DROP TABLE clc;

-- temporary, unlogged and partitioned tables, materialized views
CREATE TEMP TABLE clt (a int PRIMARY KEY, b text) USING lsm;
INSERT INTO clt SELECT i, 't' FROM generate_series(10, 1, -1) i;
UPDATE clt SET b = 'u' WHERE a = 3;
CLUSTER clt USING clt_pkey;
SELECT string_agg(a || b, ' ' ORDER BY ctid) FROM clt;
BEGIN;
DELETE FROM clt WHERE a > 5;
CLUSTER clt;
ROLLBACK;
VACUUM FULL clt;
SELECT count(*) FROM clt;
SELECT c AS problem FROM lsm_check('clt') c;
DROP TABLE clt;
CREATE UNLOGGED TABLE clu (a int PRIMARY KEY, b text) USING lsm;
INSERT INTO clu SELECT i, 't' FROM generate_series(10, 1, -1) i;
CLUSTER clu USING clu_pkey;
SELECT string_agg(a || b, ' ' ORDER BY ctid) FROM clu;
DROP TABLE clu;
CREATE TABLE clp (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE clp1 PARTITION OF clp FOR VALUES FROM (1) TO (6) USING lsm;
CREATE TABLE clp2 PARTITION OF clp FOR VALUES FROM (6) TO (11) USING lsm;
CREATE INDEX clp_a ON clp (a);
INSERT INTO clp SELECT i, 'p' FROM generate_series(10, 1, -1) i;
CLUSTER clp USING clp_a;
SELECT string_agg(a || b, ' ' ORDER BY tableoid, ctid) FROM clp;
VACUUM FULL clp;
SELECT count(*) FROM clp;
DROP TABLE clp;
CREATE MATERIALIZED VIEW clv USING lsm AS SELECT i FROM generate_series(5, 1, -1) i;
CREATE INDEX clv_i ON clv (i);
CLUSTER clv USING clv_i;
SELECT string_agg(i::text, ' ' ORDER BY ctid) FROM clv;
DROP MATERIALIZED VIEW clv;

-- what stands in the way
CREATE TABLE clx (a int PRIMARY KEY) USING lsm;
INSERT INTO clx VALUES (1), (2);
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM clx;
FETCH c;
CLUSTER clx USING clx_pkey;
ROLLBACK;
SET lsm.debug_stop = 'rewrite-before-swap:error';
VACUUM FULL clx;
RESET lsm.debug_stop;
SELECT * FROM clx ORDER BY a;
VACUUM FULL clx;
-- rows that are created, written and clustered by one transaction
BEGIN;
CREATE TABLE cly (a int PRIMARY KEY) USING lsm;
INSERT INTO cly VALUES (2), (1);
DELETE FROM cly WHERE a = 2;
CLUSTER cly USING cly_pkey;
INSERT INTO cly VALUES (3);
COMMIT;
SELECT * FROM cly ORDER BY a;
SELECT c AS problem FROM lsm_check('cly') c;
DROP TABLE clx, cly;
