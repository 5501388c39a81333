--
-- Extensions that look at tables, and catalogs that tell of them: they work or
-- say in an error that the table is not one of heap
--
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE EXTENSION IF NOT EXISTS pageinspect;
CREATE EXTENSION IF NOT EXISTS pg_buffercache;
CREATE EXTENSION IF NOT EXISTS pg_freespacemap;
CREATE EXTENSION IF NOT EXISTS pg_prewarm;
CREATE EXTENSION IF NOT EXISTS pg_surgery;
CREATE EXTENSION IF NOT EXISTS pg_visibility;
CREATE EXTENSION IF NOT EXISTS pgrowlocks;
CREATE EXTENSION IF NOT EXISTS pgstattuple;

CREATE TABLE insp (id int PRIMARY KEY, v int, t text) USING lsm;
CREATE INDEX insp_v ON insp (v);
CREATE INDEX insp_expr ON insp ((v % 7)) WHERE id > 100;
INSERT INTO insp SELECT i, i, 't' || i FROM generate_series(1, 1000) i;
SELECT count(*) AS flush FROM lsm_flush('insp');
UPDATE insp SET v = v + 1 WHERE id % 3 = 0;
UPDATE insp SET t = 'changed' WHERE id % 4 = 0;
DELETE FROM insp WHERE id % 10 = 0;
SELECT count(*) AS flush FROM lsm_flush('insp');
UPDATE insp SET v = v + 1 WHERE id % 5 = 0;

-- indexes are checked against the table, all of its rows included
SELECT bt_index_check('insp_pkey', true), bt_index_check('insp_v', true), bt_index_check('insp_expr', true);
SELECT bt_index_parent_check('insp_pkey', true, true), bt_index_parent_check('insp_v', true);
BEGIN;
UPDATE insp SET v = v + 1 WHERE id % 7 = 0;
DELETE FROM insp WHERE id % 11 = 0;
SELECT bt_index_check('insp_v', true);
ROLLBACK;
SELECT bt_index_check('insp_v', true);
SELECT count(*) AS major FROM lsm_major_compact('insp');
VACUUM insp;
SELECT bt_index_check('insp_pkey', true), bt_index_check('insp_v', true), bt_index_check('insp_expr', true);

-- what reads heap pages refuses
SELECT * FROM verify_heapam('insp');
SELECT * FROM pgstattuple('insp');
SELECT * FROM pgstattuple_approx('insp');
SELECT * FROM pgrowlocks('insp');
SELECT heap_force_kill('insp', ARRAY['(1,1)'::tid]);
SELECT heap_force_freeze('insp', ARRAY['(1,1)'::tid]);

-- pages are raw; the physical size is that of the file
SELECT length(get_raw_page('insp', 0)), length(get_raw_page('insp', 'main', 1));
SELECT lower = 24, upper > 24, special = 8192 - 24, pagesize FROM page_header(get_raw_page('insp', 0));
SELECT get_raw_page('insp', 1000000);
SELECT count(*) > 0 AS buffers FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('insp');
SELECT leaf_pages > 0 AS leaf_pages FROM pgstatindex('insp_pkey');
SELECT pg_relation_size('insp') = 8192 * (pg_relation_size('insp') / 8192) AS whole_pages,
	pg_table_size('insp') >= pg_relation_size('insp') AS table_size,
	pg_total_relation_size('insp') > pg_table_size('insp') AS total_size;
SELECT pg_filenode_relation(reltablespace, pg_relation_filenode(oid)) FROM pg_class WHERE relname = 'insp';

-- there is no free space map; whoever asks is told so or finds nothing
SELECT count(*) FILTER (WHERE avail > 0) FROM pg_freespace('insp');

-- the planner's idea of the table
ANALYZE insp;
SELECT reltuples FROM pg_class WHERE relname = 'insp';
SELECT attname, null_frac, n_distinct FROM pg_stats WHERE tablename = 'insp' ORDER BY attname;

-- many rows have come and gone: the names of rows run far above the file's pages
CREATE TABLE insp_sparse (id int, v int, t text) USING lsm;
CREATE INDEX insp_sparse_id ON insp_sparse (id);
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		INSERT INTO insp_sparse SELECT i * 10000 + j, j % 10, repeat('x', 400) FROM generate_series(1, 500) j;
		COMMIT;
		PERFORM lsm_flush('insp_sparse');
		DELETE FROM insp_sparse WHERE id % 50 <> 0;
		COMMIT;
		PERFORM lsm_flush('insp_sparse');
		PERFORM lsm_major_compact('insp_sparse');
		COMMIT;
	END LOOP;
END $$;
VACUUM insp_sparse;
SELECT count(*), max((ctid::text::point)[0]) > 3 * pg_relation_size('insp_sparse') / 8192 AS sparse FROM insp_sparse;
SET maintenance_io_concurrency = 100;
ANALYZE insp_sparse;
SHOW maintenance_io_concurrency;
SELECT reltuples FROM pg_class WHERE relname = 'insp_sparse';
SELECT attname, null_frac, n_distinct FROM pg_stats WHERE tablename = 'insp_sparse' ORDER BY attname;
ALTER TABLESPACE pg_default SET (maintenance_io_concurrency = 100);
ANALYZE insp_sparse;
ALTER TABLESPACE pg_default RESET (maintenance_io_concurrency);
RESET maintenance_io_concurrency;
-- pg_visibility reads pages as heap's, and would set hint bits in their tuples:
-- it finds none
CREATE TABLE insp_zero (a int, b int, c int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO insp_zero SELECT 0, 0, 0 FROM generate_series(1, 20000) i;
VACUUM insp_zero;
INSERT INTO insp_zero SELECT 0, 0, 0 FROM generate_series(1, 10000) i;
SELECT count(*), sum(a), sum(b), sum(c) FROM insp_zero;
\set VERBOSITY sqlstate
SELECT pg_check_visible('insp_zero');
SELECT pg_check_frozen('insp_zero');
\set VERBOSITY default
SELECT count(*), sum(a), sum(b), sum(c) FROM insp_zero;
SELECT all_visible > 0 AS visible FROM pg_visibility_map_summary('insp_zero');
SELECT c AS problem FROM lsm_check('insp_zero') c;

-- pg_prewarm takes names for pages: an error, unless it is told what to read
\set VERBOSITY sqlstate
SELECT pg_prewarm('insp_sparse', 'buffer');
SELECT pg_prewarm('insp_sparse', 'read');
\set VERBOSITY default
SELECT pg_prewarm('insp_sparse', 'buffer', 'main', 0, pg_relation_size('insp_sparse') / 8192 - 1) = pg_relation_size('insp_sparse') / 8192 AS prewarmed;
SELECT count(*), sum(v) FROM insp_sparse;
SELECT c AS problem FROM lsm_check('insp_sparse') c;
SELECT c AS problem FROM lsm_check('insp') c;
DROP TABLE insp, insp_sparse, insp_zero;
DROP EXTENSION amcheck, pageinspect, pg_buffercache, pg_freespacemap, pg_prewarm, pg_surgery, pg_visibility, pgrowlocks, pgstattuple;

-- lsm_check() goes once through the versions of a row, however many a segment has
CREATE TABLE often (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO often SELECT i, 0 FROM generate_series(1, 10) i;
SELECT count(*) AS flush FROM lsm_flush('often');
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		UPDATE often SET v = i WHERE id = 5;
	END LOOP;
END
$$;
SELECT count(*) AS flush FROM lsm_flush('often');
COMMIT;
SELECT data_blocks_hit + data_blocks_read AS blocks FROM lsm_stat_table('often'::regclass) \gset
SELECT c AS problem FROM lsm_check('often') c;
SELECT data_blocks_hit + data_blocks_read - :blocks < 100 AS few_blocks
	FROM lsm_stat_table('often'::regclass);
DROP TABLE often;
