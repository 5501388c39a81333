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

-- if they take too much memory, those go that have not been used for the longest time
SELECT count(*) FROM views_2;
SELECT count(*) FROM views_1;
SELECT views, bytes AS of_two FROM views_kept \gset
SELECT :views AS views;
SELECT set_config('lsm.debug_kept_views', (:of_two / 1024 + 1)::int::text, false) IS NOT NULL AS set;
SELECT count(*) FROM views_3;
SELECT views FROM views_kept;
-- that of the first table is there: no other is made
BEGIN;
SELECT count(*) FROM views_1;
SELECT views FROM views_kept;
SELECT count(*) FROM views_2;
SELECT views FROM views_kept;
COMMIT;
SELECT views FROM views_kept;
-- never all of those of a transaction, but what is too much
BEGIN;
SELECT (SELECT count(*) FROM views_1), (SELECT count(*) FROM views_2), (SELECT count(*) FROM views_3);
SELECT views FROM views_kept;
COMMIT;
SELECT views FROM views_kept;
SET lsm.debug_kept_views = 0;
SELECT count(*) FROM views_1;
SELECT views FROM views_kept;
RESET lsm.debug_kept_views;

DROP VIEW views_kept;
DROP TABLE views_1, views_2, views_3;
