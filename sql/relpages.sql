--
-- pg_class.relpages: the same after VACUUM, ANALYZE and index builds
--
CREATE TABLE rp (id int, k int, t text) USING lsm;
INSERT INTO rp SELECT i, i % 10, repeat('x', 200) FROM generate_series(1, 20000) i;
VACUUM rp;
-- far fewer pages than the rows' identifiers would take
SELECT relpages AS pages FROM pg_class WHERE oid = 'rp'::regclass \gset
SELECT :pages < 200 AS compressed;
CREATE FUNCTION rp_stored(tab regclass, OUT same boolean, OUT tuples real) LANGUAGE sql AS
	$$ SELECT relpages = current_setting('rp.pages')::int, reltuples FROM pg_class WHERE oid = tab $$;
SELECT set_config('rp.pages', :'pages', false) = :'pages' AS set;
ANALYZE rp;
SELECT * FROM rp_stored('rp');
ANALYZE rp (k);
SELECT * FROM rp_stored('rp');
CREATE INDEX rp_k ON rp (k);
SELECT * FROM rp_stored('rp');
CREATE INDEX rp_brin ON rp USING brin (id);
SELECT * FROM rp_stored('rp');
CREATE INDEX CONCURRENTLY rp_id ON rp (id);
SELECT * FROM rp_stored('rp');
REINDEX TABLE rp;
SELECT * FROM rp_stored('rp');
VACUUM ANALYZE rp;
SELECT * FROM rp_stored('rp');
VACUUM FULL rp;
SELECT relpages < 200 AS compressed FROM pg_class WHERE oid = 'rp'::regclass;
CREATE TABLE rp_full USING lsm AS TABLE rp;
VACUUM FULL rp_full;
SELECT relpages < 200 AS compressed FROM pg_class WHERE oid = 'rp_full'::regclass;
DROP TABLE rp_full;
VACUUM rp;
SELECT set_config('rp.pages', relpages::text, false) <> '' AS set FROM pg_class WHERE oid = 'rp'::regclass;

-- at the end of a transaction, whatever else it has changed
BEGIN;
ALTER TABLE rp RENAME TO rp_new;
ANALYZE rp_new;
ALTER TABLE rp_new SET (fillfactor = 90);
ALTER TABLE rp_new RENAME TO rp;
COMMIT;
SELECT * FROM rp_stored('rp');
BEGIN;
SAVEPOINT s;
ANALYZE rp;
ROLLBACK TO s;
COMMIT;
-- the server does not take back what it has stored; the next one corrects it
ANALYZE rp;
SELECT * FROM rp_stored('rp');
BEGIN;
ANALYZE rp;
ROLLBACK;
DROP INDEX rp_k;
CREATE INDEX rp_k ON rp (k);
SELECT * FROM rp_stored('rp');
BEGIN;
ANALYZE rp;
PREPARE TRANSACTION 'rp';
COMMIT PREPARED 'rp';
SELECT * FROM rp_stored('rp');
-- without the table, or without lsm
BEGIN;
CREATE TABLE rp_gone USING lsm AS SELECT * FROM rp;
ANALYZE rp_gone;
DROP TABLE rp_gone;
CREATE TABLE rp_heap USING lsm AS SELECT * FROM rp;
ANALYZE rp_heap;
CREATE INDEX rp_heap_id ON rp_heap (id);
ALTER TABLE rp_heap SET ACCESS METHOD heap;
COMMIT;
SELECT relpages > 300 AS heap_pages FROM pg_class WHERE oid = 'rp_heap'::regclass;
BEGIN;
CREATE TEMP TABLE rp_temp USING lsm ON COMMIT DROP AS TABLE rp;
ANALYZE rp_temp;
COMMIT;

-- a partitioned table's ANALYZE samples its partitions, and then analyzes them
CREATE TABLE rp_parts (id int, k int, t text) PARTITION BY RANGE (id);
CREATE TABLE rp_part PARTITION OF rp_parts FOR VALUES FROM (0) TO (100000) USING lsm;
INSERT INTO rp_parts SELECT * FROM rp;
VACUUM rp_part;
SELECT set_config('rp.pages', relpages::text, false) <> '' AS set FROM pg_class WHERE oid = 'rp_part'::regclass;
ANALYZE rp_parts;
SELECT * FROM rp_stored('rp_part');

SELECT c AS problem FROM lsm_check('rp') c;
DROP TABLE rp, rp_heap, rp_parts;
DROP FUNCTION rp_stored;
