--
-- What the server counts as input and output of lsm tables
--
-- pg_stat_io is younger than PostgreSQL 15: NULL there
CREATE FUNCTION io_count(what text, of_object text, in_context text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	IF to_regclass('pg_catalog.pg_stat_io') IS NOT NULL THEN
		EXECUTE format('SELECT sum(%s) FROM pg_stat_io WHERE backend_type = ''client backend'' AND object = %L AND context = %L',
			what, of_object, in_context) INTO n;
	END IF;
	RETURN n;
END;
$$;
CREATE FUNCTION io_written(statement text, kind text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
	RETURN plan->0->'Plan'->>(kind || ' Written Blocks');
END;
$$;

-- pages by which a table grows are counted as written, and as extends
CREATE TABLE io_shared (id int, t text) USING lsm WITH (autovacuum_enabled = off);
SELECT pg_stat_force_next_flush();
SELECT coalesce(io_count('extends', 'relation', 'normal'), -1) AS before \gset
SELECT io_written('INSERT INTO io_shared SELECT i, repeat(''x'', 1000) FROM generate_series(1, 500) i', 'Shared') >= 60 AS written;
SELECT pg_stat_force_next_flush();
SELECT io_count('extends', 'relation', 'normal') > :before IS NOT FALSE AS extended;

CREATE TEMP TABLE io_local (id int, t text) USING lsm;
SELECT pg_stat_force_next_flush();
SELECT coalesce(io_count('extends', 'temp relation', 'normal'), -1) AS before \gset
SELECT io_written('INSERT INTO io_local SELECT i, repeat(''x'', 1000) FROM generate_series(1, 500) i', 'Local') >= 60 AS written;
SELECT pg_stat_force_next_flush();
SELECT io_count('extends', 'temp relation', 'normal') > :before IS NOT FALSE AS extended;

-- what VACUUM reads of segments passes through its ring of buffers, and what
-- others read later does not
SELECT count(*) AS flush FROM lsm_flush('io_shared');
DELETE FROM io_shared WHERE id % 2 = 0;
SELECT pg_stat_force_next_flush();
SELECT coalesce(io_count('reads + hits', 'relation', 'vacuum'), -1) AS before \gset
VACUUM io_shared;
SELECT pg_stat_force_next_flush();
SELECT io_count('reads + hits', 'relation', 'vacuum') > :before IS NOT FALSE AS through_ring;
SELECT coalesce(io_count('reads + hits', 'relation', 'vacuum'), -1) AS before \gset
SELECT count(*), sum(id) FROM io_shared;
SELECT pg_stat_force_next_flush();
SELECT io_count('reads + hits', 'relation', 'vacuum') = :before IS NOT FALSE AS not_through_ring;

SELECT c AS problem FROM lsm_check('io_shared') c;
DROP TABLE io_shared, io_local;
DROP FUNCTION io_count, io_written;
