--
-- Who may run the maintenance functions and see the statistics
--
SELECT current_setting('server_version_num')::int >= 170000 AS maintain \gset
CREATE ROLE regress_lsm_owner;
CREATE ROLE regress_lsm_reader;
CREATE ROLE regress_lsm_other;
CREATE ROLE regress_lsm_monitor;
GRANT pg_read_all_stats TO regress_lsm_monitor;
CREATE TABLE sr (id int, v int) USING lsm WITH (autovacuum_enabled = off);
ALTER TABLE sr OWNER TO regress_lsm_owner;
GRANT SELECT ON sr TO regress_lsm_reader;
INSERT INTO sr VALUES (1, 1);

-- the owner may, in no transaction that is read only
SET ROLE regress_lsm_owner;
SELECT rows_out FROM lsm_flush('sr');
SELECT segments_in FROM lsm_minor_compact('sr');
SELECT segments_in FROM lsm_major_compact('sr');
SELECT relname, flushes FROM lsm_stat_tables WHERE relname = 'sr';
SELECT rows_read FROM lsm_stat_key_ranges('sr');
BEGIN READ ONLY;
SELECT lsm_flush('sr');
ROLLBACK;
BEGIN READ ONLY;
SELECT lsm_minor_compact('sr');
ROLLBACK;
BEGIN READ ONLY;
SELECT lsm_major_compact('sr');
ROLLBACK;
BEGIN READ ONLY;
SELECT count(*) FROM lsm_stat_tables WHERE relname = 'sr';
SELECT count(*) FROM lsm_stat_progress_compaction;
ROLLBACK;
-- counters are not the owner's to reset
SELECT lsm_stat_reset();

-- who may read may look; SQLSTATEs, as the words for "may not" are the server's
SET ROLE regress_lsm_reader;
SELECT relname, flushes FROM lsm_stat_tables WHERE relname = 'sr';
SELECT count(*) FROM lsm_segments('sr');
\set VERBOSITY sqlstate
-- this keeps VACUUM and flushes waiting
SELECT lsm_check('sr');
SELECT lsm_flush('sr');
SELECT lsm_minor_compact('sr');
SELECT lsm_major_compact('sr');
SELECT lsm_stat_reset();

-- others see nothing, unless they may see all statistics
SET ROLE regress_lsm_other;
SELECT relname FROM lsm_stat_tables WHERE relname = 'sr';
SELECT * FROM lsm_stat_table('sr'::regclass);
SELECT * FROM lsm_stat_key_ranges('sr');
SELECT lsm_segments('sr');
SELECT lsm_check('sr');
SELECT lsm_flush('sr');
\set VERBOSITY default
SET ROLE regress_lsm_monitor;
SELECT relname, flushes FROM lsm_stat_tables WHERE relname = 'sr';
\set VERBOSITY sqlstate
SELECT lsm_flush('sr');
\set VERBOSITY default
RESET ROLE;

-- it can be granted
GRANT EXECUTE ON FUNCTION lsm_stat_reset() TO regress_lsm_other;
SET ROLE regress_lsm_other;
SELECT lsm_stat_reset();
SET ROLE regress_lsm_owner;
SELECT relname, flushes FROM lsm_stat_tables WHERE relname = 'sr';
RESET ROLE;
REVOKE EXECUTE ON FUNCTION lsm_stat_reset() FROM regress_lsm_other;

-- MAINTAIN, where the server has it, lets others do what the owner may
\if :maintain
GRANT MAINTAIN ON sr TO regress_lsm_reader;
\else
GRANT regress_lsm_owner TO regress_lsm_reader;
\endif
SET ROLE regress_lsm_reader;
SELECT count(*) FROM lsm_flush('sr');
SELECT count(*) FROM lsm_minor_compact('sr');
SELECT count(*) FROM lsm_major_compact('sr');
RESET ROLE;
\if :maintain
REVOKE MAINTAIN ON sr FROM regress_lsm_reader;
\else
REVOKE regress_lsm_owner FROM regress_lsm_reader;
\endif
SET ROLE regress_lsm_reader;
\set VERBOSITY sqlstate
SELECT lsm_flush('sr');
\set VERBOSITY default
RESET ROLE;

DROP TABLE sr;
DROP ROLE regress_lsm_owner, regress_lsm_reader, regress_lsm_other, regress_lsm_monitor;

-- whoever runs lsm_check(), the functions of a table's owner run with the owner's rights
CREATE ROLE regress_lsm_owner;
GRANT CREATE ON SCHEMA public TO regress_lsm_owner;
SET ROLE regress_lsm_owner;
CREATE TABLE owned (a int) USING lsm;
CREATE FUNCTION owned_who(a int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'asked as %', current_user;
	RETURN a > 0;
END $$;
CREATE INDEX owned_a ON owned (a) WHERE owned_who(a);
INSERT INTO owned VALUES (1);
RESET ROLE;
SELECT * FROM lsm_check('owned');
SELECT current_user = session_user AS same;
DROP TABLE owned;
DROP FUNCTION owned_who(int);
REVOKE CREATE ON SCHEMA public FROM regress_lsm_owner;
DROP ROLE regress_lsm_owner;
