--
-- Tables whose segments go to a store: the option, and what it takes
--
SELECT format('/tmp/lsm_regress_cold_%s', pg_backend_pid()) AS dir \gset
SELECT set_config('lsm_test.dir', :'dir', false) = :'dir' AS set;
DO $$ BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L',
        'cat; mkdir -m 700 ' || current_setting('lsm_test.dir'));
END $$;
CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory :'dir');
CREATE SERVER cold2 FOREIGN DATA WRAPPER lsm_store
    OPTIONS (type 'file', directory :'dir', prefix 'second');
CREATE FOREIGN DATA WRAPPER lsm_other;
CREATE SERVER other FOREIGN DATA WRAPPER lsm_other;
CREATE SERVER nowhere FOREIGN DATA WRAPPER lsm_store
    OPTIONS (type 'file', directory '/tmp/lsm there is no such directory');
CREATE FUNCTION places(regclass) RETURNS TABLE (kind text, location text, key bool, rows bigint)
LANGUAGE sql AS $$
    SELECT kind, location, object_key ~ ('^[0-9]+/[0-9a-f]{16}/' ||
        (SELECT oid FROM pg_database WHERE datname = current_database()) ||
        '/[0-9a-f]{16}/[0-9a-f]{16}-[0-9a-f]{16}$'), rows FROM lsm_segments($1) ORDER BY first_tid $$;

-- who cannot have one
CREATE TEMP TABLE t (a int) USING lsm WITH (lsm.cold_store = 'cold');
CREATE UNLOGGED TABLE t (a int) USING lsm WITH (lsm.cold_store = 'cold');
CREATE TABLE t (a int) USING lsm WITH (lsm.cold_store = 'none');
CREATE TABLE t (a int) USING lsm WITH (lsm.cold_store = 'other');
CREATE TABLE t (a int) USING lsm WITH (lsm.cold_store = 'nowhere');
CREATE TABLE t (a int) USING lsm WITH (lsm.cold_store = '');
CREATE TABLE t (a int) USING lsm WITH (lsm.cold_store);
CREATE TABLE t (a int) USING heap WITH (lsm.cold_store = 'cold');
CREATE TABLE t (a int) PARTITION BY LIST (a) WITH (lsm.cold_store = 'cold');
SELECT count(*) FROM pg_class WHERE relname = 't';
CREATE ROLE regress_lsm_cold;
GRANT CREATE ON SCHEMA public TO regress_lsm_cold;
SET ROLE regress_lsm_cold;
CREATE TABLE t (a int) USING lsm WITH (lsm.cold_store = 'cold');
CREATE TABLE t (a int) USING lsm;
ALTER TABLE t SET (lsm.cold_store = 'cold');
RESET ROLE;
ALTER TABLE t SET (lsm.cold_store = 'cold');
GRANT USAGE ON FOREIGN SERVER cold TO regress_lsm_cold;
ALTER TABLE t SET (lsm.cold_store = 'cold');
GRANT pg_read_server_files, pg_write_server_files TO regress_lsm_cold;
ALTER TABLE t SET (lsm.cold_store = 'cold');
SELECT value, source FROM lsm_options('t') WHERE option = 'lsm.cold_store';
SELECT label FROM pg_seclabel WHERE objoid = 't'::regclass;
REVOKE USAGE ON FOREIGN SERVER cold FROM regress_lsm_cold;
INSERT INTO t VALUES (1);
SELECT count(*) FROM lsm_flush('t');
SELECT lsm_major_compact('t');
SELECT * FROM places('t');
DROP TABLE t;
REVOKE CREATE ON SCHEMA public FROM regress_lsm_cold;
DROP ROLE regress_lsm_cold;

-- out, changed there, and back
CREATE TABLE t (id int PRIMARY KEY, a text, b int) USING lsm
    WITH (lsm.cold_store = cold, lsm.block_size = '8kB');
INSERT INTO t SELECT i, 'row ' || i, i % 7 FROM generate_series(1, 5000) i;
SELECT count(*) FROM lsm_flush('t');
SELECT count(*) FROM lsm_major_compact('t');
SELECT * FROM places('t');
SELECT moves, moved_bytes > flush_bytes_written / 2 AS bytes, write_amplification > 1.5 AS counted
    FROM lsm_stat_tables WHERE relname = 't';
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
SELECT * FROM t WHERE id IN (1, 2500, 5000) ORDER BY id;
SELECT count(*) FROM t WHERE b = 3 AND id > 4000;
UPDATE t SET b = -1 WHERE id % 500 = 0;
DELETE FROM t WHERE id BETWEEN 100 AND 200;
UPDATE t SET id = -id WHERE id = 7;
INSERT INTO t VALUES (3, 'taken', 0);
INSERT INTO t VALUES (3, 'taken', 0) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (3, 'taken', 0) ON CONFLICT (id) DO UPDATE SET a = 'put', b = 5;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
SELECT * FROM lsm_check('t');
SELECT count(*) FROM lsm_flush('t');
SELECT count(*) FROM lsm_major_compact('t');
SELECT location, count(*), sum(rows) FROM places('t') GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
SELECT * FROM lsm_check('t');
VACUUM t;
SELECT * FROM lsm_check('t');

-- it has to give the store up before it becomes unlogged
ALTER TABLE t SET UNLOGGED;
ALTER TABLE t SET UNLOGGED, SET (lsm.cold_store = 'cold2');
SELECT relpersistence, (SELECT value FROM lsm_options('t') WHERE option = 'lsm.cold_store')
FROM pg_class WHERE relname = 't';
BEGIN;
ALTER TABLE t SET UNLOGGED, RESET (lsm.cold_store);
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
ROLLBACK;
BEGIN;
ALTER TABLE t SET UNLOGGED, SET ACCESS METHOD heap;
SELECT relpersistence FROM pg_class WHERE relname = 't';
ROLLBACK;
SELECT * FROM lsm_check('t');

-- to another store, and what depends on the first until then
ALTER TABLE t SET (lsm.cold_store = 'cold2');
DROP SERVER cold;
DROP SERVER cold CASCADE;
DROP SERVER other, cold2;
ALTER SERVER cold OPTIONS (SET directory '/tmp');
ALTER SERVER cold2 OPTIONS (DROP prefix);
ALTER SERVER cold RENAME TO frost;
ALTER SERVER cold OPTIONS (ADD verify 'full');
SELECT count(*) FROM lsm_major_compact('t');
SELECT location, sum(rows) FROM places('t') GROUP BY 1 ORDER BY 1;
ALTER SERVER cold RENAME TO frost;
ALTER SERVER frost RENAME TO cold;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
ALTER TABLE t RESET (lsm.cold_store);
SELECT location, sum(rows) FROM places('t') GROUP BY 1 ORDER BY 1;
DROP SERVER cold2;
SELECT count(*) FROM lsm_major_compact('t');
SELECT location, sum(rows) FROM places('t') GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
SELECT * FROM lsm_check('t');

-- a table that has never had a segment there is free at once
ALTER TABLE t SET (lsm.cold_store = 'cold2');
ALTER TABLE t RESET (lsm.cold_store);
DROP SERVER cold2;

-- nor does it go with its owner's other things, unless the table is one of them
CREATE ROLE regress_lsm_cold;
GRANT USAGE ON FOREIGN DATA WRAPPER lsm_store TO regress_lsm_cold;
CREATE SERVER cold2 FOREIGN DATA WRAPPER lsm_store
    OPTIONS (type 'file', directory :'dir', prefix 'second');
ALTER SERVER cold2 OWNER TO regress_lsm_cold;
ALTER TABLE t SET (lsm.cold_store = 'cold2');
SET client_min_messages = warning;
DROP OWNED BY regress_lsm_cold CASCADE;
DO $$ BEGIN DROP OWNED BY regress_lsm_cold CASCADE; END $$;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
GRANT pg_read_server_files, pg_write_server_files TO regress_lsm_cold;
CREATE TABLE o (a int) USING lsm;
ALTER TABLE o OWNER TO regress_lsm_cold;
ALTER TABLE o SET (lsm.cold_store = 'cold2');
DROP OWNED BY regress_lsm_cold CASCADE;
ALTER TABLE t RESET (lsm.cold_store);
DROP OWNED BY regress_lsm_cold CASCADE;
RESET client_min_messages;
SELECT to_regclass('o'), count(*) FROM pg_foreign_server WHERE srvname = 'cold2';
DROP ROLE regress_lsm_cold;

-- who may not drop a server is told that
CREATE ROLE regress_lsm_cold;
ALTER TABLE t SET (lsm.cold_store = 'cold');
SET ROLE regress_lsm_cold;
DROP SERVER cold;
ALTER SERVER cold OPTIONS (SET directory '/tmp');
RESET ROLE;
ALTER TABLE t RESET (lsm.cold_store);
DROP ROLE regress_lsm_cold;

-- what a transaction attaches, or makes, and rolls back
BEGIN;
ALTER TABLE t SET (lsm.cold_store = 'cold');
SELECT count(*) FROM lsm_major_compact('t');
SELECT location, sum(rows) FROM places('t') GROUP BY 1;
ROLLBACK;
ALTER TABLE t SET (lsm.cold_store = 'cold');
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (1, 'new', 1);
SELECT count(*) FROM lsm_flush('t');
SELECT count(*) FROM lsm_major_compact('t');
SELECT * FROM places('t');
ROLLBACK;
SELECT count(*) FROM lsm_major_compact('t');
SELECT location, sum(rows) FROM places('t') GROUP BY 1;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;

-- rewrites, VACUUM, other access methods
CLUSTER t USING t_pkey;
SELECT location, sum(rows) FROM places('t') GROUP BY 1;
VACUUM t;
SELECT location, sum(rows) FROM places('t') GROUP BY 1;
VACUUM FULL t;
SELECT location, sum(rows) FROM places('t') GROUP BY 1;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t;
SELECT count(*) FROM lsm_major_compact('t');
ALTER TABLE t ADD COLUMN c int DEFAULT 9;
ALTER TABLE t ALTER COLUMN b TYPE bigint;
SELECT count(*), sum(id), sum(b), count(DISTINCT a), sum(c) FROM t;
SELECT count(*) FROM lsm_flush('t');
SELECT count(*) FROM lsm_major_compact('t');
SELECT location, sum(rows) FROM places('t') GROUP BY 1;
CREATE INDEX ON t (a);
SELECT id, c FROM t WHERE a = 'row 4999';
SELECT * FROM lsm_check('t');

-- dictionaries stay local, blocks that need them go
CREATE TABLE d_heap USING heap AS SELECT i AS id,
    (SELECT string_agg(substr(md5((hashint4(i * 8 + k) & 255)::text), 1, 24), ' ' ORDER BY k) FROM generate_series(1, 3) k) AS a
    FROM generate_series(1, 20000) i;
CREATE TABLE d USING lsm WITH (lsm.block_size = '8kB', lsm.dictionary) AS TABLE d_heap;
CREATE TABLE d_off USING lsm WITH (lsm.block_size = '8kB') AS TABLE d_heap;
SELECT count(*) FROM lsm_flush('d');
SELECT count(*) FROM lsm_flush('d_off');
SELECT (SELECT sum(stored_bytes) FROM lsm_segments('d')) < 0.8 * (SELECT sum(stored_bytes) FROM lsm_segments('d_off')) AS smaller;
ALTER TABLE d SET (lsm.cold_store = 'cold');
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
\c -
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT id, a = (SELECT a FROM d_heap h WHERE h.id = d.id) AS same FROM d WHERE id IN (1, 19999) ORDER BY id;
UPDATE d SET a = upper(a) WHERE id IN (5000, 15000);
UPDATE d_heap SET a = upper(a) WHERE id IN (5000, 15000);
SELECT count(*) FROM lsm_flush('d');
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT * FROM lsm_check('d');
ALTER TABLE d RESET (lsm.cold_store, lsm.dictionary);
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT * FROM lsm_check('d');
DROP TABLE d, d_off, d_heap;
SELECT set_config('lsm_test.dir', :'dir', false) = :'dir' AS set;

-- the planner knows what waiting for a store costs
CREATE TABLE p (id int, k int, a text) USING lsm;
INSERT INTO p SELECT i, i % 5000, md5(i::text) FROM generate_series(1, 20000) i;
CREATE INDEX p_id ON p (id);
CREATE INDEX p_k ON p (k);
SELECT count(*) FROM lsm_major_compact('p');
VACUUM ANALYZE p;
EXPLAIN (COSTS OFF) SELECT a FROM p WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT a FROM p WHERE k = 5;
EXPLAIN (COSTS OFF) SELECT a FROM p WHERE k < 3 ORDER BY k;
ALTER TABLE p SET (lsm.cold_store = 'cold');
SELECT count(*) FROM lsm_major_compact('p');
SELECT location, rows FROM lsm_segments('p');
EXPLAIN (COSTS OFF) SELECT a FROM p WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT a FROM p WHERE k = 5;
EXPLAIN (COSTS OFF) SELECT a FROM p WHERE k < 3 ORDER BY k;
EXPLAIN (COSTS OFF) SELECT a FROM p ORDER BY k LIMIT 1;
EXPLAIN (COSTS OFF) SELECT a FROM p ORDER BY k LIMIT 50;
EXPLAIN (COSTS OFF) SELECT a FROM p ORDER BY id LIMIT 50;
SET enable_bitmapscan = off;
SET lsm.enable_lsmscan = off;
EXPLAIN (COSTS OFF) SELECT a FROM p WHERE k = 5;
RESET enable_bitmapscan;
RESET lsm.enable_lsmscan;
SELECT a FROM p WHERE k = 5 ORDER BY id;
SELECT k, a FROM p WHERE k < 2 ORDER BY k, id;
DROP TABLE p;

-- a label, as dumps have it, makes no request
ALTER TABLE t RESET (lsm.cold_store);
SELECT count(*) FROM lsm_major_compact('t');
SECURITY LABEL FOR lsm ON TABLE t IS 'cold_store=nowhere';
SELECT lsm_major_compact('t');
SECURITY LABEL FOR lsm ON TABLE t IS 'cold_store=cold';
SECURITY LABEL FOR lsm ON TABLE t IS 'cold_store=none';
SECURITY LABEL FOR lsm ON TABLE t IS 'cold_store=other';
-- nor does a superuser who restores one wait for its owner to get rights
CREATE ROLE regress_lsm_cold;
CREATE TABLE o (a int) USING lsm;
ALTER TABLE o OWNER TO regress_lsm_cold;
SECURITY LABEL FOR lsm ON TABLE o IS 'cold_store=cold';
SELECT value FROM lsm_options('o') WHERE option = 'lsm.cold_store';
SECURITY LABEL FOR lsm ON TABLE o IS NULL;
SET SESSION AUTHORIZATION regress_lsm_cold;
SECURITY LABEL FOR lsm ON TABLE o IS 'cold_store=cold';
ALTER TABLE o SET (lsm.cold_store = 'nowhere');
RESET SESSION AUTHORIZATION;
SELECT value FROM lsm_options('o') WHERE option = 'lsm.cold_store';
DROP TABLE o;
DROP ROLE regress_lsm_cold;
-- a table that has left lsm depends on no store, also if it was detached before
CREATE TABLE left_it (a int) USING lsm WITH (lsm.cold_store = 'cold');
INSERT INTO left_it VALUES (1);
SELECT count(*) FROM lsm_flush('left_it');
SELECT count(*) FROM lsm_major_compact('left_it');
SELECT location FROM lsm_segments('left_it');
ALTER TABLE left_it RESET (lsm.cold_store);
SELECT location FROM lsm_segments('left_it');
ALTER TABLE left_it SET ACCESS METHOD heap;
ALTER TABLE t SET ACCESS METHOD heap;
SELECT count(*), sum(id), sum(b), count(DISTINCT a), sum(c) FROM t;
DROP SERVER cold, nowhere, other CASCADE;
SELECT a FROM left_it;
DROP TABLE left_it;
DROP FOREIGN DATA WRAPPER lsm_other;
DROP TABLE t;
DROP FUNCTION places;
DO $$ BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L',
        'cat; rm -r ' || current_setting('lsm_test.dir'));
END $$;
