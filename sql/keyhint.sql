-- Rows that a session has looked up by a unique key, and looks up again.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET lsm.enable_lsmscan = off;

-- What a query gives, how often it has been counted as a scan of an index, and whether that has been read.
CREATE FUNCTION looked_up(query text, index regclass, OUT result text, OUT scans bigint, OUT index_read boolean)
LANGUAGE plpgsql AS $$
DECLARE
    read bigint := pg_stat_get_xact_blocks_fetched(index);
    before bigint := pg_stat_get_xact_numscans(index);
BEGIN
    EXECUTE query INTO result;
    scans := pg_stat_get_xact_numscans(index) - before;
    index_read := pg_stat_get_xact_blocks_fetched(index) > read;
END $$;

CREATE TABLE keyed (id int PRIMARY KEY, name text UNIQUE, v int, pad text) USING lsm;
INSERT INTO keyed SELECT i, 'name ' || i, 0, repeat('x', 100) FROM generate_series(1, 3000) i;
SELECT lsm_flush('keyed') IS NOT NULL AS flushed;
VACUUM ANALYZE keyed;
EXPLAIN (COSTS OFF) SELECT name FROM keyed WHERE id = 5;

-- The first time it is found by the index, then without.
BEGIN;
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5', 'keyed_pkey');
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5', 'keyed_pkey');
SELECT * FROM looked_up('SELECT keyed FROM keyed WHERE id = 5', 'keyed_pkey');
SELECT * FROM looked_up('SELECT id FROM keyed WHERE id = 5 FOR UPDATE', 'keyed_pkey');
SELECT * FROM looked_up('UPDATE keyed SET v = v + 1 WHERE id = 5 RETURNING v', 'keyed_pkey');
SELECT * FROM looked_up('UPDATE keyed SET v = v + 1 WHERE id = 5 RETURNING v', 'keyed_pkey');
SELECT * FROM looked_up('SELECT v FROM keyed WHERE id = 5', 'keyed_pkey');
SELECT * FROM looked_up('SELECT v FROM keyed WHERE name = ''name 5''', 'keyed_name_key');
SELECT * FROM looked_up('SELECT v FROM keyed WHERE name = ''name 5''', 'keyed_name_key');
-- other conditions
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5 AND v = 3', 'keyed_pkey');
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5 AND v = 2', 'keyed_pkey');
-- what is not there, and null
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 100000', 'keyed_pkey');
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 100000', 'keyed_pkey');
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = (SELECT NULL::int)', 'keyed_pkey');
-- a value of another type, and two of them
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5::bigint', 'keyed_pkey');
SELECT result, index_read FROM looked_up('SELECT count(*) FROM keyed WHERE id IN (5, 6)', 'keyed_pkey');
SET lsm.enable_keyhint = off;
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5', 'keyed_pkey');
RESET lsm.enable_keyhint;
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5', 'keyed_pkey');
SELECT * FROM looked_up('DELETE FROM keyed WHERE id = 5 RETURNING name', 'keyed_pkey');
SELECT * FROM looked_up('SELECT name FROM keyed WHERE id = 5', 'keyed_pkey');
ROLLBACK;
SELECT * FROM looked_up('SELECT v FROM keyed WHERE id = 5', 'keyed_pkey');

-- A key that goes on to another row, and comes back.
BEGIN;
SELECT result, index_read FROM looked_up('SELECT name FROM keyed WHERE id = 7', 'keyed_pkey');
UPDATE keyed SET id = -7 WHERE id = 7;
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = 7', 'keyed_pkey');
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = -7', 'keyed_pkey');
INSERT INTO keyed VALUES (7, 'another', 0, '');
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = 7', 'keyed_pkey');
SELECT result, index_read FROM looked_up('SELECT name FROM keyed WHERE id = 7', 'keyed_pkey');
SAVEPOINT a;
DELETE FROM keyed WHERE id = 7;
UPDATE keyed SET id = 7 WHERE id = -7;
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = 7', 'keyed_pkey');
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = -7', 'keyed_pkey');
ROLLBACK TO a;
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = 7', 'keyed_pkey');
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = -7', 'keyed_pkey');
ROLLBACK;
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = 7', 'keyed_pkey');
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = -7', 'keyed_pkey');

-- A statement that looks up what it changes, under the snapshot that it has begun with.
CREATE FUNCTION name_of(int) RETURNS text LANGUAGE sql STABLE AS 'SELECT name FROM keyed WHERE id = $1';
CREATE FUNCTION name_now(int) RETURNS text LANGUAGE plpgsql VOLATILE AS
    'BEGIN RETURN (SELECT name FROM keyed WHERE id = $1); END';
SELECT name_of(8), name_now(8);
BEGIN;
UPDATE keyed SET name = 'new' WHERE id = 8 RETURNING name_of(8), name_now(8);
UPDATE keyed SET id = 80000 WHERE id = 8 RETURNING name_of(8), name_now(8), name_of(80000), name_now(80000);
SELECT name_of(8), name_now(8), name_of(80000), name_now(80000);
ROLLBACK;

-- Keys of several columns, and of many types.
CREATE TABLE wide (a int, b text, c numeric, d uuid, e name, f timestamptz, g bytea, h char(10), i float8, j varchar(20),
    k int[], PRIMARY KEY (a, b)) USING lsm;
INSERT INTO wide SELECT i, 't' || i, i + 0.50, ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, 'n' || i,
    '2026-01-01 00:00+00'::timestamptz + i * interval '1 day', decode(lpad(i::text, 8, '0'), 'hex'), 'c' || i, i / 4.0, 'v' || i, ARRAY[i, i]
    FROM generate_series(0, 2000) i;
CREATE UNIQUE INDEX wide_c ON wide (c);
CREATE UNIQUE INDEX wide_d ON wide (d);
CREATE UNIQUE INDEX wide_e ON wide (e);
CREATE UNIQUE INDEX wide_f ON wide (f);
CREATE UNIQUE INDEX wide_g ON wide (g);
CREATE UNIQUE INDEX wide_h ON wide (h);
CREATE UNIQUE INDEX wide_i ON wide (i);
CREATE UNIQUE INDEX wide_j ON wide (j) INCLUDE (a);
CREATE UNIQUE INDEX wide_k ON wide (k);
SELECT lsm_flush('wide') IS NOT NULL AS flushed;
VACUUM ANALYZE wide;
BEGIN;
SELECT condition, first.result, second.result AS again, second.scans, second.index_read
    FROM (VALUES ('wide_c', 'c = 4.5'), ('wide_pkey', 'a = 3 AND b = ''t3'''), ('wide_c', 'c = 3.5'), ('wide_c', 'c = 3.5000'),
        ('wide_d', 'd = ''00000000-0000-0000-0000-000000000003'''), ('wide_e', 'e = ''n3'''),
        ('wide_f', 'f = ''2026-01-04 00:00+00'''), ('wide_g', 'g = ''\x00000003'''), ('wide_h', 'h = ''c3'''),
        ('wide_i', 'i = 0'), ('wide_i', 'i = ''-0'''), ('wide_j', 'j = ''v3'''), ('wide_k', 'k = ''{3,3}''')) AS t (index, condition),
    LATERAL looked_up('SELECT (a, b, g) FROM wide WHERE ' || condition, index) AS first,
    LATERAL looked_up('SELECT (a, b, g) FROM wide WHERE ' || condition || coalesce(left(first.result, 0), ''), index) AS second;
SELECT * FROM looked_up('SELECT a FROM wide WHERE a = 3', 'wide_pkey');
SELECT * FROM looked_up('SELECT a FROM wide WHERE a = 3', 'wide_pkey');
ROLLBACK;

-- Indexes that do not say that there is one such row.
CREATE TABLE loose (id int, k int, live boolean, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED) USING lsm;
INSERT INTO loose SELECT i, i, i > 10 FROM generate_series(1, 2000) i;
INSERT INTO loose VALUES (-1, 100, false);
CREATE UNIQUE INDEX loose_live ON loose (k) WHERE live;
CREATE UNIQUE INDEX loose_half ON loose ((k / 2), id);
SELECT lsm_flush('loose') IS NOT NULL AS flushed;
VACUUM ANALYZE loose;
BEGIN;
SELECT * FROM looked_up('SELECT k FROM loose WHERE id = 50', 'loose_id_key');
INSERT INTO loose VALUES (50, -50, false);
SELECT k FROM loose WHERE id = 50;
ROLLBACK;
BEGIN;
SELECT result FROM looked_up('SELECT id FROM loose WHERE k = 100 AND live', 'loose_live');
SELECT result, index_read FROM looked_up('SELECT id FROM loose WHERE k = 100 AND live', 'loose_live');
SELECT result FROM looked_up('SELECT id FROM loose WHERE k / 2 = 40 AND id = 80', 'loose_half');
SELECT result, index_read FROM looked_up('SELECT id FROM loose WHERE k / 2 = 40 AND id = 80', 'loose_half');
ROLLBACK;

-- Cursors may go back; a serializable transaction locks pages of the index.
BEGIN;
SELECT result FROM looked_up('SELECT v FROM keyed WHERE id = 9', 'keyed_pkey');
DECLARE back SCROLL CURSOR FOR SELECT id, v FROM keyed WHERE id = 9;
FETCH back;
FETCH back;
FETCH BACKWARD back;
FETCH FIRST back;
DECLARE onward NO SCROLL CURSOR FOR SELECT id, v FROM keyed WHERE id = 9;
FETCH onward;
UPDATE keyed SET v = v + 1 WHERE CURRENT OF onward RETURNING id, v;
FETCH onward;
FETCH onward;
UPDATE keyed SET v = v + 1 WHERE CURRENT OF onward;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT result, index_read FROM looked_up('SELECT v FROM keyed WHERE id = 9', 'keyed_pkey');
ROLLBACK;
BEGIN;
SELECT index_read FROM looked_up('SELECT v FROM keyed WHERE id = 9', 'keyed_pkey');
SELECT index_read FROM looked_up('SELECT v FROM keyed WHERE id = 9', 'keyed_pkey');
SELECT index_read FROM looked_up('EXPLAIN (ANALYZE) SELECT v FROM keyed WHERE id = 9', 'keyed_pkey');
ROLLBACK;

-- A table that is emptied, gets its index anew, or a column.
TRUNCATE keyed;
SELECT result FROM looked_up('SELECT v FROM keyed WHERE id = 9', 'keyed_pkey');
INSERT INTO keyed SELECT i, 'again ' || i, i, '' FROM generate_series(3000, 1, -1) i;
SELECT result FROM looked_up('SELECT name FROM keyed WHERE id = 9', 'keyed_pkey');
ALTER TABLE keyed DROP CONSTRAINT keyed_pkey;
ALTER TABLE keyed ADD PRIMARY KEY (id);
ALTER TABLE keyed ADD more int DEFAULT 4;
SELECT result FROM looked_up('SELECT name || more FROM keyed WHERE id = 9', 'keyed_pkey');
SELECT result FROM looked_up('SELECT name || more FROM keyed WHERE id = 9', 'keyed_pkey');
ALTER TABLE keyed SET ACCESS METHOD heap;
SELECT result FROM looked_up('SELECT name || more FROM keyed WHERE id = 9', 'keyed_pkey');
SELECT result FROM looked_up('SELECT name || more FROM keyed WHERE id = 9', 'keyed_pkey');
ALTER TABLE keyed SET ACCESS METHOD lsm;

-- Many keys, as each session notes a few thousand.
DO $$
DECLARE
    found int := 0;
    row record;
BEGIN
    FOR again IN 1..2 LOOP
        FOR i IN 1..3000 LOOP
            SELECT * INTO row FROM keyed WHERE id = i;
            found := found + (row.name = 'again ' || i)::int;
        END LOOP;
    END LOOP;
    RAISE NOTICE '% found', found;
END $$;
SELECT lsm_check('keyed');
DROP TABLE keyed, wide, loose;
DROP FUNCTION looked_up, name_of, name_now;
