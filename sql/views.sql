--
-- Copies of manifests that a session keeps
--
CREATE TABLE views_1 (id int, t text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE views_2 (LIKE views_1) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE views_3 (LIKE views_1) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO views_1 SELECT i, md5(i::text) FROM generate_series(1, 100) i;
INSERT INTO views_2 TABLE views_1;
INSERT INTO views_3 TABLE views_1;
SELECT (SELECT count(*) FROM lsm_flush(t)) AS flushed FROM unnest('{views_1,views_2,views_3}'::regclass[]) t;
CREATE VIEW views_kept AS SELECT count(*) AS views, coalesce(sum(total_bytes), 0) AS bytes
	FROM pg_backend_memory_contexts WHERE name = 'lsm manifest';

-- an error while one is read leaves nothing
\c -
SET lsm.debug_stop = 'view-read:error';
SELECT count(*) FROM views_1;
SELECT count(*) FROM views_1;
SELECT views FROM views_kept;
RESET lsm.debug_stop;
SELECT count(*) FROM views_1;
SELECT views FROM views_kept;

DROP VIEW views_kept;
DROP TABLE views_1, views_2, views_3;
