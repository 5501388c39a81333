--
-- Large values of tables whose segments go to a store
--
SELECT format('/tmp/lsm_regress_cold_values_%s', pg_backend_pid()) AS dir \gset
SELECT set_config('lsm_test.dir', :'dir', false) = :'dir' AS set;
DO $$ BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L',
        'cat; mkdir -m 700 ' || current_setting('lsm_test.dir'));
END $$;
CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory :'dir');
CREATE SERVER cold2 FOREIGN DATA WRAPPER lsm_store
    OPTIONS (type 'file', directory :'dir', prefix 'second');
-- noise, so that nothing makes it smaller; the number says whose it is
CREATE FUNCTION doc(i int, kb int) RETURNS text LANGUAGE sql AS
    $$ SELECT repeat((SELECT string_agg(md5(i::text || k::text), '') FROM generate_series(1, 32) k), kb) $$;
CREATE FUNCTION places(regclass) RETURNS TABLE (location text, segments bigint, rows numeric)
LANGUAGE sql AS $$ SELECT location, count(*), sum(rows) FROM lsm_segments($1) GROUP BY 1 ORDER BY 1 $$;
-- numbers: the highest that are free, and none that a block may have
CREATE FUNCTION lsm_test_numbers(bigint, bigint, bigint[])
    RETURNS bigint LANGUAGE C STRICT AS '$libdir/lsm';
SELECT lsm_test_numbers(100, 1, '{}'), lsm_test_numbers(100, 1000, '{}');
SELECT lsm_test_numbers(100, 5, '{4294967290,5}'), lsm_test_numbers(100, 5, '{4294967000,5}');
SELECT lsm_test_numbers(100, 5, '{4294967290,5,4294967285,5}'),
    lsm_test_numbers(100, 5, '{4294967290,5,4294967280,5}'),
    lsm_test_numbers(100, 6, '{4294967290,5,4294967280,5}');
SELECT lsm_test_numbers(4294967280, 15, '{}'), lsm_test_numbers(4294967280, 16, '{}'),
    lsm_test_numbers(4294967280, 5, '{4294967285,10}'), lsm_test_numbers(4294967280, 6, '{4294967285,10}'),
    lsm_test_numbers(4294967295, 1, '{}');
DROP FUNCTION lsm_test_numbers;

CREATE TABLE d_heap (id int PRIMARY KEY, n int, v text, w text, c text) USING heap;
ALTER TABLE d_heap ALTER v SET STORAGE EXTERNAL, ALTER w SET STORAGE EXTERNAL;
INSERT INTO d_heap SELECT i, 0, doc(i, 30), CASE WHEN i % 10 = 0 THEN doc(-i, 12) END,
    'short ' || i FROM generate_series(1, 120) i;
INSERT INTO d_heap VALUES (121, 0, doc(121, 3000), NULL, NULL), (122, 0, NULL, doc(122, 9), 'x');
CREATE TABLE d (LIKE d_heap INCLUDING INDEXES INCLUDING STORAGE) USING lsm WITH (lsm.cold_store = 'cold');
INSERT INTO d TABLE d_heap ORDER BY id;
SELECT count(*) FROM lsm_flush('d');
SELECT * FROM places('d');
SELECT count(*) FROM lsm_major_compact('d');
SELECT * FROM places('d');
SELECT stored_bytes > 6000000 AS large FROM lsm_segments('d');
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT id, v = (SELECT v FROM d_heap h WHERE h.id = d.id) AS v, length(w) FROM d
    WHERE id IN (1, 60, 121, 122) ORDER BY id;
SELECT * FROM lsm_check('d');

\c -
-- changes: of other columns, of the values, of what is indexed
UPDATE d SET n = n + 1 WHERE id % 3 = 0;
UPDATE d SET n = n + 1 WHERE id % 6 = 0;
SELECT count(*) FROM lsm_flush('d');
UPDATE d SET v = doc(id, 11) WHERE id % 20 = 1;
UPDATE d SET id = -id WHERE id = 2;
DELETE FROM d WHERE id = 3;
INSERT INTO d VALUES (3, 9, doc(3, 40), 'w', 'c'), (5, 9, doc(5, 40), 'w', 'c') ON CONFLICT (id) DO UPDATE SET w = d.v;
UPDATE d_heap SET n = n + 1 WHERE id % 3 = 0;
UPDATE d_heap SET n = n + 1 WHERE id % 6 = 0;
UPDATE d_heap SET v = doc(id, 11) WHERE id % 20 = 1;
UPDATE d_heap SET id = -id WHERE id = 2;
DELETE FROM d_heap WHERE id = 3;
INSERT INTO d_heap VALUES (3, 9, doc(3, 40), 'w', 'c'), (5, 9, doc(5, 40), 'w', 'c') ON CONFLICT (id) DO UPDATE SET w = d_heap.v;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT count(*) FROM (TABLE d_heap EXCEPT ALL TABLE d) x;
SELECT count(*) FROM lsm_flush('d');
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT * FROM lsm_check('d');
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT count(*) FROM (TABLE d_heap EXCEPT ALL TABLE d) x;
SELECT * FROM lsm_check('d');
VACUUM d;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT * FROM lsm_check('d');

-- to another store, back, and out again
ALTER TABLE d SET (lsm.cold_store = 'cold2');
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT * FROM lsm_check('d');
ALTER TABLE d RESET (lsm.cold_store);
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT * FROM lsm_check('d');
-- once nobody can have a pointer to what was there, the servers are free
SELECT count(*) FROM lsm_major_compact('d');
DROP SERVER cold2;
ALTER TABLE d SET (lsm.cold_store = 'cold');
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;

-- what is rolled back, and rewrites, read from there
BEGIN;
TRUNCATE d;
INSERT INTO d VALUES (1, 1, doc(1, 20), NULL, NULL);
SELECT count(*) FROM d;
ROLLBACK;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
CLUSTER d USING d_pkey;
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
ALTER TABLE d ADD x int DEFAULT 5, ALTER n TYPE bigint;
SELECT count(*) FROM lsm_flush('d');
SELECT count(*) FROM lsm_major_compact('d');
ALTER TABLE d DROP COLUMN x;
ALTER TABLE d DROP COLUMN w;
ALTER TABLE d_heap DROP COLUMN w, ALTER n TYPE bigint;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
CREATE INDEX ON d (md5(v));
SELECT id FROM d WHERE md5(v) = md5(doc(77, 30));
SELECT * FROM lsm_check('d');
-- BRIN reads values of rows that it gets with a page locked
CREATE INDEX d_brin ON d USING brin (v text_bloom_ops);
CREATE INDEX d_n ON d (n);
INSERT INTO d VALUES (200, 0, doc(200, 400), 'c');
INSERT INTO d_heap VALUES (200, 0, doc(200, 400), 'c');
SELECT count(*) FROM lsm_flush('d');
SELECT count(*) FROM lsm_major_compact('d');
SELECT location, sum(rows) FROM places('d') GROUP BY 1;
\c -
UPDATE d SET n = n + 1 WHERE id IN (77, 200);
UPDATE d_heap SET n = n + 1 WHERE id IN (77, 200);
CREATE TABLE d_copy (v text) USING heap;
INSERT INTO d_copy VALUES ('');
CREATE INDEX ON d_copy USING brin (v text_bloom_ops);
INSERT INTO d_copy SELECT v FROM d WHERE id = 200;
SELECT length(v) FROM d_copy;
DROP TABLE d_copy;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
ALTER TABLE d SET ACCESS METHOD heap;
SELECT count(*) FROM (TABLE d EXCEPT ALL TABLE d_heap) x;
DROP TABLE d, d_heap;
DROP SERVER cold;
DROP FUNCTION places, doc;
SELECT set_config('lsm_test.dir', :'dir', false) = :'dir' AS set;
DO $$ BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L',
        'cat; rm -r ' || current_setting('lsm_test.dir'));
END $$;
