-- Bulk loads: rows that get into WAL compressed, and fill their logical blocks
SET lsm.debug_load_after = 0;

-- WAL that a statement has written, as a share of what it wrote for heap
CREATE TABLE load_wal (am text, bytes numeric);
CREATE PROCEDURE load_measure(am text, sql text) LANGUAGE plpgsql AS $$
DECLARE
	before pg_lsn;
BEGIN
	-- full page images after a checkpoint would count, too
	EXECUTE 'CREATE TABLE load_one (id int, a text, b numeric) USING ' || am;
	COMMIT;
	before := pg_current_wal_insert_lsn();
	EXECUTE sql;
	COMMIT;
	INSERT INTO load_wal VALUES (am, pg_current_wal_insert_lsn() - before);
	DROP TABLE load_one;
END $$;
CHECKPOINT;
CALL load_measure('heap', 'INSERT INTO load_one SELECT i, ''row number '' || i, i FROM generate_series(1, 200000) i');
CALL load_measure('lsm', 'INSERT INTO load_one SELECT i, ''row number '' || i, i FROM generate_series(1, 200000) i');
SELECT l.bytes < h.bytes * 0.3 AS little_wal FROM load_wal l, load_wal h WHERE l.am = 'lsm' AND h.am = 'heap';
DROP PROCEDURE load_measure;

-- one transaction: what it has loaded is there for itself, in order
CREATE TABLE load (id int, a text, b numeric) USING lsm;
CREATE TABLE load_heap (id int, a text, b numeric) USING heap;
BEGIN;
INSERT INTO load SELECT i, 'row number ' || i, i * 1.5 FROM generate_series(1, 30000) i;
SELECT count(*), sum(id), sum(b) FROM load;
SELECT count(DISTINCT (ctid::text::point)[0]) BETWEEN 30000 / 291 AND 30000 / 291 * 1.1 AS dense,
	max((ctid::text::point)[1]) AS last FROM load;
SELECT bool_and(id = lag + 1) AS in_order FROM (SELECT id, lag(id) OVER () FROM load) x WHERE lag IS NOT NULL;
DECLARE c SCROLL CURSOR FOR SELECT id FROM load;
MOVE 29990 FROM c;
FETCH 2 FROM c;
MOVE BACKWARD 29000 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD ALL FROM c;
FETCH 1 FROM c;
CLOSE c;
SELECT id, a FROM load WHERE ctid = (SELECT ctid FROM load WHERE id = 12345);
SELECT count(*) FROM load WHERE ctid >= '(10,100)' AND ctid < '(12,100)';
SELECT count(*) FROM load TABLESAMPLE system (100);
UPDATE load SET b = -1 WHERE id % 1000 = 0;
DELETE FROM load WHERE id % 1000 = 1;
SELECT count(*), sum(id), sum(b) FROM load;
SAVEPOINT s;
INSERT INTO load SELECT i, 'never', 0 FROM generate_series(30001, 60000) i;
SELECT count(*), sum(id), sum(b) FROM load;
ROLLBACK TO s;
SELECT count(*), sum(id), sum(b) FROM load;
INSERT INTO load SELECT i, 'second', 0 FROM generate_series(60001, 61000) i;
SELECT count(*), sum(id), sum(b) FROM load;
COMMIT;
SELECT count(*), sum(id), sum(b) FROM load;
SELECT lsm_check('load');
SELECT count(*) AS flush FROM lsm_flush('load');
SELECT count(*), sum(id), sum(b) FROM load;
VACUUM load;
SELECT count(*), sum(id), sum(b) FROM load;
SELECT lsm_check('load');

-- COPY: of many lines, of some of which the last is bad, and from the client
CREATE TABLE load_copy (id int, a text, b numeric, CHECK (id <> -1)) USING lsm;
BEGIN;
COPY load_copy FROM PROGRAM 'seq 1 20000 | sed "s/.*/&|line &|&.5/"' WITH (DELIMITER '|');
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM load_copy;
SELECT count(DISTINCT (ctid::text::point)[0]) BETWEEN 20000 / 291 AND 20000 / 291 * 1.1 AS dense FROM load_copy;
COMMIT;
COPY load_copy FROM PROGRAM 'seq 1 20000 | sed "s/.*/&|line &|&.5/"; echo "1|bad|none"' WITH (DELIMITER '|');
COPY load_copy FROM PROGRAM 'seq 1 20000 | sed "s/.*/&|line &|&.5/"; echo "-1|refused|1"' WITH (DELIMITER '|');
COPY load_copy FROM stdin;
-5	from the client	\N
-6	\N	7.5
\.
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM load_copy;
SELECT count(*) AS flush FROM lsm_flush('load_copy');
VACUUM load_copy;
SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM load_copy;
SELECT lsm_check('load_copy');
DROP TABLE load_copy;

-- rolled back, little and much, with and without a flush in between
BEGIN;
INSERT INTO load SELECT i, 'rolled back', 0 FROM generate_series(70001, 70100) i;
ROLLBACK;
BEGIN;
INSERT INTO load SELECT i, repeat('rolled back', 20), 0 FROM generate_series(70001, 100000) i;
SELECT count(*) AS flush FROM lsm_flush('load');
INSERT INTO load SELECT i, repeat('rolled back', 20), 0 FROM generate_series(1, 20000) i;
ROLLBACK;
SELECT count(*), sum(id), sum(b) FROM load;
SELECT lsm_check('load');
VACUUM load;
SELECT count(*), sum(id), sum(b) FROM load;
SELECT lsm_check('load');
SELECT sum(rows) AS rows, count(*) FILTER (WHERE kind = 'dead') AS dead FROM lsm_segments('load');

-- a table that is read while it is loaded
BEGIN;
INSERT INTO load_heap SELECT * FROM load;
INSERT INTO load SELECT id + 100000, a, b FROM load;
INSERT INTO load_heap SELECT id + 100000, a, b FROM load_heap;
CREATE FUNCTION load_count() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT count(*) FROM load';
CREATE FUNCTION load_heap_count() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT count(*) FROM load_heap';
INSERT INTO load SELECT i, 'volatile', load_count() FROM generate_series(200001, 200020) i;
INSERT INTO load_heap SELECT i, 'volatile', load_heap_count() FROM generate_series(200001, 200020) i;
COMMIT;
SELECT count(*) FROM (SELECT * FROM load EXCEPT SELECT * FROM load_heap) x;
SELECT count(*) FROM (SELECT * FROM load_heap EXCEPT SELECT * FROM load) x;
SELECT (SELECT count(*) FROM load) = (SELECT count(*) FROM load_heap) AS same;

-- indexes, triggers, RETURNING, constraints
CREATE TABLE load_log (n bigint);
CREATE TABLE load_parent (id int PRIMARY KEY, t text) USING lsm;
CREATE TABLE load_child (id int PRIMARY KEY, p int REFERENCES load_parent, t text, EXCLUDE USING btree (t WITH =)) USING lsm;
CREATE INDEX load_child_p ON load_child (p);
CREATE FUNCTION load_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO load_log VALUES (NEW.id);
	RETURN NULL;
END $$;
CREATE TRIGGER load_child_log AFTER INSERT ON load_child FOR EACH ROW EXECUTE FUNCTION load_log();
BEGIN;
INSERT INTO load_parent SELECT i, 'parent ' || i FROM generate_series(1, 2000) i;
INSERT INTO load_child SELECT i, i % 2000 + 1, 'child ' || i FROM generate_series(1, 5000) i;
WITH r AS (INSERT INTO load_child SELECT i, i % 2000 + 1, 'child ' || i FROM generate_series(5001, 6000) i RETURNING *)
SELECT count(*), sum(id), sum(p), min(t) FROM r;
SET LOCAL enable_seqscan = off;
SELECT * FROM load_child WHERE id = 4321;
SELECT count(*) FROM load_child WHERE p = 17;
COMMIT;
SELECT count(*), sum(n) FROM load_log;
INSERT INTO load_child SELECT i, 3000, 'orphan ' || i FROM generate_series(10001, 10100) i;
INSERT INTO load_child SELECT i % 7777, 1, 'twice ' || i FROM generate_series(7000, 20000) i;
INSERT INTO load_child SELECT i, 1, 'twice ' || i % 100 FROM generate_series(20001, 20200) i;
INSERT INTO load_child SELECT i, 1, 'conflict ' || i FROM generate_series(5901, 6100) i ON CONFLICT (id) DO NOTHING;
INSERT INTO load_child SELECT i, 1, 'conflict ' || i FROM generate_series(6001, 6200) i
ON CONFLICT (id) DO UPDATE SET p = load_child.p + 1;
SELECT count(*), sum(id), sum(p) FROM load_child;
SELECT count(*), sum(n) FROM load_log;
SELECT lsm_check('load_child');
VACUUM load_child;
SET enable_seqscan = off;
SELECT count(*), sum(id), sum(p) FROM load_child WHERE id > 0;
SELECT count(*), sum(id), sum(p) FROM load_child WHERE p > 0;
RESET enable_seqscan;
SELECT lsm_check('load_child');

-- large values, of a generation that goes on and of one that ends
BEGIN;
INSERT INTO load_parent SELECT i, (SELECT string_agg(md5(i || ' ' || j), '') FROM generate_series(1, 500) j)
FROM generate_series(3001, 3050) i;
SELECT count(*) AS flush FROM lsm_flush('load_parent');
INSERT INTO load_parent SELECT i, (SELECT string_agg(md5(i || ' ' || j), '') FROM generate_series(1, 500) j)
FROM generate_series(3051, 3100) i;
COMMIT;
SELECT count(*), sum(length(t)), count(DISTINCT t), sum(hashtext(t)::bigint) FROM load_parent WHERE id > 3000;
SELECT lsm_check('load_parent');

-- what is loaded into another file, or goes there afterwards
BEGIN;
CREATE TABLE load_as USING lsm AS SELECT * FROM load;
SELECT count(*), sum(id), sum(b) FROM load_as;
ALTER TABLE load_as ALTER COLUMN id TYPE bigint;
SELECT count(*), sum(id), sum(b) FROM load_as;
COMMIT;
SELECT count(*), sum(id), sum(b) FROM load_as;
SELECT lsm_check('load_as');
BEGIN;
INSERT INTO load_as SELECT i, 'c', i FROM generate_series(1, 10000) i;
ALTER TABLE load_as ADD COLUMN d int DEFAULT 5;
INSERT INTO load_as SELECT i, 'c', i FROM generate_series(1, 10000) i;
ALTER TABLE load_as DROP COLUMN a;
INSERT INTO load_as SELECT i, i FROM generate_series(1, 10000) i;
CREATE INDEX load_as_id ON load_as (id);
CLUSTER load_as USING load_as_id;
COMMIT;
SELECT count(*), sum(id), sum(b), sum(d) FROM load_as;
SELECT lsm_check('load_as');
BEGIN;
SAVEPOINT s;
INSERT INTO load_as SELECT i, i FROM generate_series(1, 10000) i;
TRUNCATE load_as;
INSERT INTO load_as SELECT i, i FROM generate_series(1, 5000) i;
ROLLBACK TO s;
INSERT INTO load_as SELECT -i, i FROM generate_series(1, 5000) i;
COMMIT;
SELECT count(*), sum(id), sum(b), sum(d) FROM load_as;
TRUNCATE load_as;
INSERT INTO load_as SELECT i, i FROM generate_series(1, 5000) i;
BEGIN;
TRUNCATE load_as;
INSERT INTO load_as SELECT i, i FROM generate_series(1, 3000) i;
TRUNCATE load_as;
INSERT INTO load_as SELECT i, i FROM generate_series(1, 2000) i;
COMMIT;
SELECT count(*), sum(id), sum(b), sum(d) FROM load_as;
SELECT lsm_check('load_as');
SET default_table_access_method = lsm;
SELECT * INTO load_into FROM load;
SELECT count(*), sum(id), sum(b) FROM load_into;
CREATE MATERIALIZED VIEW load_view AS SELECT * FROM load WHERE id < 50000;
SELECT count(*), sum(id), sum(b) FROM load_view;
INSERT INTO load SELECT 49999, 'again', i FROM generate_series(1, 1000) i;
REFRESH MATERIALIZED VIEW load_view;
SELECT count(*), sum(id), sum(b) FROM load_view;
SELECT lsm_check('load_view');

-- partitions
CREATE TABLE load_parts (id int, p int, t text) PARTITION BY LIST (p);
SELECT format('CREATE TABLE load_part_%s PARTITION OF load_parts FOR VALUES IN (%s)', i, i) FROM generate_series(0, 39) i \gexec
INSERT INTO load_parts SELECT i, i % 40, 'part ' || i FROM generate_series(1, 40000) i;
SELECT count(*), sum(id), count(DISTINCT p) FROM load_parts;
SELECT count(*) FROM generate_series(0, 39) i, lsm_check(('load_part_' || i)::regclass) c;
RESET default_table_access_method;

-- not in WAL at all
CREATE TEMPORARY TABLE load_temp (id int, t text) USING lsm;
INSERT INTO load_temp SELECT i, 'temporary ' || i FROM generate_series(1, 10000) i;
SELECT count(*), sum(id), count(DISTINCT (ctid::text::point)[0]) < 40 AS dense FROM load_temp;
SELECT count(*) AS flush FROM lsm_flush('load_temp');
SELECT count(*), sum(id) FROM load_temp;
SELECT lsm_check('load_temp');
CREATE UNLOGGED TABLE load_unlogged (id int, t text) USING lsm;
INSERT INTO load_unlogged SELECT i, 'unlogged ' || i FROM generate_series(1, 10000) i;
SELECT count(*), sum(id), count(DISTINCT (ctid::text::point)[0]) < 40 AS dense FROM load_unlogged;
BEGIN;
INSERT INTO load_unlogged SELECT i, 'unlogged ' || i FROM generate_series(10001, 20000) i;
ALTER TABLE load_unlogged SET LOGGED;
COMMIT;
SELECT count(*), sum(id) FROM load_unlogged;
SELECT lsm_check('load_unlogged');

-- by itself a load begins when a transaction has inserted some 1 MB
RESET lsm.debug_load_after;
CREATE TABLE load_small (id int, t text) USING lsm;
INSERT INTO load_small SELECT i, repeat('x', 90) FROM generate_series(1, 5000) i;
SELECT count(*), count(DISTINCT (ctid::text::point)[0]) > 5000 / 70 AS not_a_load FROM load_small;
INSERT INTO load_small SELECT i, repeat('x', 90) FROM generate_series(1, 80000) i;
SELECT count(*), count(DISTINCT (ctid::text::point)[0]) < 85000 / 150 AS a_load FROM load_small;
SELECT lsm_check('load_small');

DROP TABLE load_small, load_unlogged, load_temp, load_parts, load_into, load_as, load_child, load_parent, load_log, load_heap, load_wal;
DROP MATERIALIZED VIEW load_view;
DROP FUNCTION load_log(), load_count(), load_heap_count();
DROP TABLE load;
