-- Index-only scans and the visibility map, which has a bit for each root LB.

-- rows fetched by an index-only scan over all of a table
CREATE FUNCTION vm_fetches(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	node json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	node := plan->0->'Plan';
	WHILE node->>'Node Type' <> 'Index Only Scan' LOOP
		node := node->'Plans'->0;
	END LOOP;
	RETURN format('%s rows, %s fetched', (node->>'Actual Rows')::float8::int, node->>'Heap Fetches');
END $$;
-- LBs whose bit is set
CREATE FUNCTION vm_bits(t regclass) RETURNS TABLE (visible int) LANGUAGE sql AS $$
	SELECT relallvisible FROM pg_class WHERE oid = t
$$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE vm_t (id int PRIMARY KEY, k int, v text) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX vm_t_k ON vm_t (k) INCLUDE (id);
INSERT INTO vm_t SELECT i, i % 100, repeat('v', 50) FROM generate_series(1, 5000) i;
SELECT vm_fetches('SELECT count(id) FROM vm_t');
VACUUM vm_t;
SELECT vm_fetches('SELECT count(id) FROM vm_t');
SELECT vm_fetches('SELECT k, id FROM vm_t WHERE k = 7');
SELECT visible > 0 AS some FROM vm_bits('vm_t');
SELECT vm_fetches('SELECT id FROM vm_t WHERE id = 77');

-- a change that keeps the root leaves the bit: what indexes hold is the same
UPDATE vm_t SET v = 'changed' WHERE id <= 1000;
SELECT vm_fetches('SELECT count(id) FROM vm_t');

-- one that ends the row clears it, and rolled back too
BEGIN;
DELETE FROM vm_t WHERE id = 100;
SELECT vm_fetches('SELECT id FROM vm_t WHERE id < 200');
ROLLBACK;
SELECT vm_fetches('SELECT id FROM vm_t WHERE id < 200');
DELETE FROM vm_t WHERE id = 3000;
UPDATE vm_t SET k = 1000 WHERE id = 4000;
SELECT id FROM vm_t WHERE id BETWEEN 2999 AND 3001;
SELECT k, id FROM vm_t WHERE k = 0 AND id BETWEEN 3900 AND 4100 ORDER BY id;
SELECT k, id FROM vm_t WHERE k = 1000;
SELECT vm_fetches('SELECT count(id) FROM vm_t WHERE id BETWEEN 2000 AND 2100');
VACUUM vm_t;
SELECT vm_fetches('SELECT count(id) FROM vm_t');
SELECT k, id FROM vm_t WHERE k IN (0, 1000) AND id BETWEEN 3900 AND 4100 ORDER BY id;

-- an insert that was rolled back leaves nothing behind that could be seen
BEGIN;
INSERT INTO vm_t SELECT i, i % 100, 'gone' FROM generate_series(6001, 6500) i;
SELECT count(*) FROM lsm_flush('vm_t');
ROLLBACK;
SELECT vm_fetches('SELECT id FROM vm_t WHERE id > 6000');
VACUUM vm_t;
SELECT vm_fetches('SELECT id FROM vm_t WHERE id > 6000');
SELECT count(id) FROM vm_t;

-- index entries that VACUUM was told to leave: those rows are looked at
DELETE FROM vm_t WHERE id BETWEEN 1001 AND 1010;
VACUUM (INDEX_CLEANUP off) vm_t;
SELECT id FROM vm_t WHERE id BETWEEN 999 AND 1012;
VACUUM vm_t;
SELECT vm_fetches('SELECT id FROM vm_t WHERE id BETWEEN 999 AND 1012');

-- more than one page of the map would need 32672 LBs; here the border of a segment
SET lsm.segment_size = '1MB';
INSERT INTO vm_t SELECT i, i % 100, md5(i::text) || md5((i + 1)::text) FROM generate_series(10001, 40000) i;
VACUUM vm_t;
SELECT count(*) > 1 AS several FROM lsm_segments('vm_t') WHERE kind <> 'increment';
SELECT vm_fetches('SELECT count(id) FROM vm_t');
RESET lsm.segment_size;

-- the map goes with the rows
TRUNCATE vm_t;
INSERT INTO vm_t SELECT i, i % 100, 'new' FROM generate_series(1, 500) i;
SELECT vm_fetches('SELECT count(id) FROM vm_t');
SELECT visible FROM vm_bits('vm_t');

-- also if VACUUM empties the file, and identifiers are given out again
VACUUM vm_t;
DELETE FROM vm_t WHERE id < 400;
VACUUM vm_t;
DELETE FROM vm_t;
VACUUM vm_t;
SELECT pg_relation_size('vm_t') AS size;
BEGIN;
INSERT INTO vm_t SELECT i, i % 100, 'again' FROM generate_series(1, 500) i;
SELECT vm_fetches('SELECT count(id) FROM vm_t');
COMMIT;

-- temporary and unlogged tables
CREATE TEMP TABLE vm_temp (id int PRIMARY KEY) USING lsm;
INSERT INTO vm_temp SELECT generate_series(1, 100);
VACUUM vm_temp;
SELECT vm_fetches('SELECT count(id) FROM vm_temp');
DELETE FROM vm_temp WHERE id = 50;
SELECT vm_fetches('SELECT count(id) FROM vm_temp');
CREATE UNLOGGED TABLE vm_unlogged (id int PRIMARY KEY) USING lsm;
INSERT INTO vm_unlogged SELECT generate_series(1, 100);
VACUUM vm_unlogged;
SELECT vm_fetches('SELECT count(id) FROM vm_unlogged');
DELETE FROM vm_unlogged WHERE id = 50;
SELECT count(id) FROM vm_unlogged;

-- a large table is looked at by windows of LBs
CREATE TABLE vm_w (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE vm_all (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO vm_w SELECT i, repeat('v', 500) FROM generate_series(1, 2000) i;
INSERT INTO vm_all TABLE vm_w;
SELECT count(*) FROM lsm_flush('vm_w') w, lsm_flush('vm_all') a;
DELETE FROM vm_w WHERE id IN (1, 2, 700, 1000, 1900, 2000);
DELETE FROM vm_all WHERE id IN (1, 2, 700, 1000, 1900, 2000);
UPDATE vm_w SET id = -id WHERE id IN (500, 501);
UPDATE vm_all SET id = -id WHERE id IN (500, 501);
SELECT count(*) FROM lsm_flush('vm_w') w, lsm_flush('vm_all') a;
ALTER TABLE vm_w SET (vacuum_index_cleanup = off);
ALTER TABLE vm_all SET (vacuum_index_cleanup = off);
SET lsm.debug_vm_lbs = 3;
VACUUM vm_w;
RESET lsm.debug_vm_lbs;
VACUUM vm_all;
SELECT w.visible = a.visible AS same, w.visible > 100 AS many FROM vm_bits('vm_w') w, vm_bits('vm_all') a;
SELECT vm_fetches('SELECT count(id) FROM vm_w') = vm_fetches('SELECT count(id) FROM vm_all') AS same;
SELECT id FROM vm_w WHERE id < 4 OR id BETWEEN 499 AND 502 OR id > 1998 ORDER BY id;
SELECT c AS problem FROM lsm_check('vm_w') c;
ALTER TABLE vm_w RESET (vacuum_index_cleanup);
SET lsm.debug_vm_lbs = 1;
VACUUM vm_w;
RESET lsm.debug_vm_lbs;
SELECT vm_fetches('SELECT count(id) FROM vm_w');
SELECT c AS problem FROM lsm_check('vm_w') c;
DROP TABLE vm_w, vm_all;

-- ANALYZE counts the bits, too
VACUUM vm_t;
ANALYZE vm_t;
SELECT visible > 0 AS some FROM vm_bits('vm_t');
SELECT c AS problem FROM lsm_check('vm_t') c;
DROP TABLE vm_t, vm_temp, vm_unlogged;
DROP FUNCTION vm_fetches, vm_bits;
