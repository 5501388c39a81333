--
-- Options of tables: given in CREATE and ALTER, kept with the table, obeyed
-- by flush and compaction
--
CREATE SCHEMA topt;
SET search_path = topt, public;

-- CREATE TABLE, with parameters of the server among them
CREATE TABLE o1 (id int PRIMARY KEY WITH (fillfactor = 80), t text) USING lsm
	WITH (fillfactor = 90, lsm.block_size = '64kB', autovacuum_enabled = off,
		  lsm.compression = zstd, lsm.compression_level = 9);
SELECT * FROM lsm_table_options WHERE "table" = 'o1'::regclass ORDER BY option;
SELECT reloptions FROM pg_class WHERE oid = 'o1'::regclass;
SELECT provider, label FROM pg_seclabels WHERE objoid = 'o1'::regclass;
-- all forms of values
CREATE TABLE o2 (id int) USING lsm
	WITH (lsm.compression = none, lsm.compression_level = -5, lsm.block_size = 8192,
		  lsm.auto_compact, lsm.dictionary);
SELECT option, value, source FROM lsm_options('o2') ORDER BY option;
ALTER TABLE o2 SET (lsm.compression = 'ZSTD', lsm.compression_level = '+0',
					lsm.block_size = '1 MB', lsm.auto_compact = of, lsm.dictionary = no);
SELECT option, value FROM lsm_options('o2') ORDER BY option;
ALTER TABLE o2 SET (lsm.block_size = 10000, lsm.auto_compact = 1, lsm.dictionary = '1');
SELECT option, value FROM lsm_options('o2') ORDER BY option;
ALTER TABLE o2 RESET (lsm.dictionary);
SELECT option, value, source FROM lsm_options('o2') WHERE option = 'lsm.dictionary';
CREATE TABLE o3 (id int) USING lsm;
SELECT * FROM lsm_table_options WHERE "table" = 'o3'::regclass ORDER BY option;

-- what cannot be: the table is not made
CREATE TABLE bad (id int) USING lsm WITH (lsm.foo = 1);
CREATE TABLE bad (id int) USING lsm WITH (lsm.compression = lz4);
CREATE TABLE bad (id int) USING lsm WITH (lsm.compression);
CREATE TABLE bad (id int) USING lsm WITH (lsm.compression_level = 23);
CREATE TABLE bad (id int) USING lsm WITH (lsm.compression_level = high);
CREATE TABLE bad (id int) USING lsm WITH (lsm.compression_level = '3kB');
CREATE TABLE bad (id int) USING lsm WITH (lsm.block_size = 4096);
CREATE TABLE bad (id int) USING lsm WITH (lsm.block_size = '2MB');
CREATE TABLE bad (id int) USING lsm WITH (lsm.block_size = '64 pounds');
CREATE TABLE bad (id int) USING lsm WITH (lsm.auto_compact = maybe);
CREATE TABLE bad (id int) USING lsm WITH (lsm.dictionary = '32kB');
CREATE TABLE bad (id int) USING lsm WITH (lsm.dictionary, lsm.dictionary = off);
CREATE TABLE bad (id int) USING lsm WITH (lsm.auto_compact, lsm.block_size = '8kB', lsm.auto_compact = off);
CREATE TABLE bad (id int) USING lsm WITH (lsm.block_size = '8kB', fillfactor = 5);
CREATE TABLE bad (id int) USING lsm WITH (lsm.block_size = '8kB', other.x = 5);
CREATE TABLE bad (id int) USING heap WITH (lsm.block_size = '8kB');
CREATE TABLE bad (id int) WITH (lsm.block_size = '8kB', fillfactor = 50);
CREATE TABLE bad AS SELECT 1 / 0 AS never_computed WHERE false;
DROP TABLE bad;
CREATE TABLE bad USING heap WITH (lsm.block_size = '8kB') AS SELECT 1 AS id;
CREATE TABLE bad (id int) PARTITION BY LIST (id) WITH (lsm.block_size = '8kB');
CREATE VIEW bad WITH (lsm.block_size = '8kB') AS SELECT 1 AS id;
CREATE INDEX bad ON o1 (t) WITH (lsm.block_size = '8kB');
SELECT to_regclass('bad') AS bad;

-- ALTER TABLE: set, set again, reset, several subcommands
ALTER TABLE o1 SET (lsm.block_size = '128kB', fillfactor = 70);
ALTER TABLE o1 SET (lsm.auto_compact = off), RESET (lsm.compression_level, autovacuum_enabled),
	ADD COLUMN n int, SET (lsm.compression_level = 12), RESET (lsm.compression);
SELECT label, reloptions FROM pg_seclabels, pg_class c WHERE objoid = 'o1'::regclass AND oid = objoid;
ALTER TABLE ONLY o1 RESET (lsm.compression_level);
ALTER TABLE IF EXISTS o1 RESET (fillfactor, lsm.compression_level, lsm.block_size, lsm.auto_compact);
SELECT count(*) FROM pg_seclabels WHERE objoid = 'o1'::regclass;
SELECT reloptions FROM pg_class WHERE oid = 'o1'::regclass;
ALTER TABLE IF EXISTS nowhere SET (lsm.block_size = '8kB');
ALTER TABLE nowhere SET (lsm.block_size = '8kB');
ALTER TABLE o1 SET (lsm.block_size = '16kB');
ALTER TABLE o1 SET (lsm.foo = 1);
ALTER TABLE o1 RESET (lsm.foo);
ALTER TABLE o1 RESET (lsm.block_size = 1);
ALTER TABLE o1 SET (lsm.block_size = '16kB', lsm.block_size = '32kB');
ALTER TABLE o1 SET (lsm.block_size = '32kB', fillfactor = 5);
ALTER TABLE o1 SET (lsm.block_size = '32kB'), SET (lsm.compression_level = 99);
ALTER TABLE o1 SET (lsm.block_size = '32kB'), DROP COLUMN nowhere;
SELECT label FROM pg_seclabels WHERE objoid = 'o1'::regclass;

-- other relations
CREATE TABLE h (id int) USING heap;
CREATE VIEW v AS SELECT 1 AS id;
CREATE TABLE p (id int, k int) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1) USING lsm WITH (lsm.block_size = '256kB');
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) USING lsm;
ALTER TABLE h SET (lsm.block_size = '8kB');
ALTER TABLE h RESET (lsm.block_size);
ALTER TABLE v SET (lsm.block_size = '8kB');
ALTER VIEW v SET (lsm.block_size = '8kB');
ALTER INDEX o1_pkey SET (lsm.block_size = '8kB');
ALTER TABLE p SET (lsm.block_size = '8kB');
ALTER TABLE p ATTACH PARTITION o3 FOR VALUES IN (3);
ALTER TABLE o3 ADD COLUMN k int;
ALTER TABLE p ATTACH PARTITION o3 FOR VALUES IN (3);
ALTER TABLE p DETACH PARTITION p1;
SELECT "table", value, source FROM lsm_table_options
WHERE option = 'lsm.block_size' AND "table"::text IN ('o3', 'p1', 'p2', 'p', 'h', 'v') ORDER BY 1;
SELECT * FROM lsm_options('h');
SELECT * FROM lsm_options('p');
SELECT * FROM lsm_options('pg_class');

-- CREATE TABLE AS and the like, also below EXPLAIN
CREATE TABLE c1 USING lsm WITH (lsm.block_size = '8kB', fillfactor = 60) AS SELECT 1 AS id;
CREATE TABLE IF NOT EXISTS c1 USING lsm WITH (lsm.block_size = '16kB') AS SELECT 2 AS id;
CREATE TABLE IF NOT EXISTS c1 (id int) USING lsm WITH (lsm.block_size = '16kB');
CREATE TABLE IF NOT EXISTS c2 (id int) USING lsm WITH (lsm.block_size = '16kB');
EXPLAIN (COSTS off) CREATE TABLE c3 USING lsm WITH (lsm.block_size = '16kB') AS SELECT 1 AS id;
SELECT to_regclass('c3') AS c3;
DO $$ BEGIN
	EXECUTE 'EXPLAIN ANALYZE CREATE TABLE c3 USING lsm WITH (lsm.block_size = ''16kB'') AS SELECT 1 AS id';
END $$;
PREPARE one AS SELECT 1 AS id;
CREATE TABLE c4 USING lsm WITH (lsm.auto_compact = off) AS EXECUTE one WITH NO DATA;
CREATE MATERIALIZED VIEW m1 USING lsm WITH (lsm.block_size = '128kB') AS SELECT 1 AS id;
CREATE MATERIALIZED VIEW m2 USING lsm WITH (lsm.block_size = '256kB') AS SELECT 1 AS id WITH NO DATA;
REFRESH MATERIALIZED VIEW m2;
ALTER MATERIALIZED VIEW m2 SET (lsm.compression_level = 7, fillfactor = 50);
ALTER MATERIALIZED VIEW m1 RESET (lsm.block_size);
CREATE TEMP TABLE c5 (id int) USING lsm WITH (lsm.block_size = '512kB') ON COMMIT DELETE ROWS;
CREATE UNLOGGED TABLE c6 (id int) USING lsm WITH (lsm.block_size = '512kB');
-- the server does not copy parameters in LIKE; only columns are inherited
CREATE TABLE c7 (LIKE c1 INCLUDING ALL) USING lsm;
CREATE TABLE c8 () INHERITS (c1) USING lsm;
CREATE TYPE row_type AS (id int);
CREATE TABLE c9 OF row_type USING lsm WITH (lsm.block_size = '9kB');
CREATE TABLE "c=9, ""x""" (id serial PRIMARY KEY, k int REFERENCES o1 (id)) USING lsm
	WITH (lsm.block_size = '9kB');
SELECT c.relname, label, reloptions FROM pg_class c
	LEFT JOIN pg_seclabels ON objoid = c.oid AND classoid = 'pg_class'::regclass
WHERE (c.relnamespace = 'topt'::regnamespace AND c.relname ~ '^[cm]' OR c.relname = 'c5')
	AND c.relkind IN ('r', 'm') ORDER BY 1;

-- lsm as the default: USING is not written
SET default_table_access_method = lsm;
CREATE TABLE d1 (id int) WITH (lsm.block_size = '24kB');
CREATE TABLE d2 WITH (lsm.block_size = '24kB') AS SELECT 1 AS id;
SELECT 3 AS id INTO d3;
CREATE MATERIALIZED VIEW d4 WITH (lsm.block_size = '24kB') AS SELECT 1 AS id;
CREATE TABLE d5 PARTITION OF p FOR VALUES IN (5) WITH (lsm.block_size = '24kB');
CREATE SCHEMA topt2
	CREATE TABLE d6 (id serial PRIMARY KEY) WITH (lsm.block_size = '24kB')
	CREATE INDEX ON d6 (id)
	CREATE TABLE d7 (id int) WITH (lsm.compression = none);
ALTER TABLE d3 SET (lsm.block_size = '24kB');
RESET default_table_access_method;
SELECT "table", option, value FROM lsm_table_options
WHERE source = 'table' AND "table"::text ~ '^(topt2\.)?d' ORDER BY 1;

-- in functions, DO blocks and event triggers, which make tables of their own
CREATE FUNCTION make_tables(n int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	CREATE TABLE IF NOT EXISTS f1 (id int) USING lsm WITH (lsm.compression_level = 11);
	FOR i IN 1 .. n LOOP
		EXECUTE format('ALTER TABLE f1 SET (lsm.block_size = ''%skB'')', 8 * i);
	END LOOP;
	RETURN (SELECT label FROM pg_seclabels WHERE objoid = 'f1'::regclass);
END $$;
SELECT make_tables(1);
SELECT make_tables(3);
DO $$
BEGIN
	CREATE TABLE f2 USING lsm WITH (lsm.block_size = '16kB') AS SELECT make_tables(4) AS made;
	BEGIN
		ALTER TABLE f2 SET (lsm.block_size = '32kB');
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN raise_exception THEN
		ALTER TABLE f2 SET (lsm.compression = none);
	END;
	ALTER TABLE f2 SET (lsm.block_size = '8GB');
EXCEPTION WHEN invalid_parameter_value THEN
	RAISE NOTICE '%: %', sqlstate, sqlerrm;
END $$;
CREATE TABLE f2 USING lsm WITH (lsm.block_size = '16kB') AS SELECT make_tables(4) AS made;
DO $$
BEGIN
	ALTER TABLE f2 SET (lsm.block_size = '32kB');
	RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN
	ALTER TABLE f2 SET (lsm.compression = none);
END $$;
SELECT "table", option, value FROM lsm_table_options
WHERE source = 'table' AND "table"::text ~ '^f' ORDER BY 1, 2;

CREATE TABLE seen (n serial, event text, tag text, object text, query text) USING heap;
CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('topt.nested', true) = 'on' THEN
		RETURN;
	END IF;
	SET topt.nested = on;
	IF tg_event = 'ddl_command_start' THEN
		INSERT INTO seen (event, tag, query) VALUES (tg_event, tg_tag, current_query());
		CREATE TABLE e_inner (id int) USING lsm;
		DROP TABLE e_inner;
	ELSE
		INSERT INTO seen (event, tag, object)
		SELECT tg_event, command_tag, object_identity FROM pg_event_trigger_ddl_commands();
		CREATE TABLE IF NOT EXISTS e_inner2 (id int) USING lsm WITH (lsm.block_size = '12kB');
	END IF;
	SET topt.nested = off;
END $$;
CREATE EVENT TRIGGER see_start ON ddl_command_start
	WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE TABLE AS', 'SECURITY LABEL') EXECUTE FUNCTION see();
CREATE EVENT TRIGGER see_end ON ddl_command_end
	WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE TABLE AS', 'SECURITY LABEL') EXECUTE FUNCTION see();
CREATE TABLE e1 (id serial) USING lsm WITH (lsm.block_size = '40kB');
ALTER TABLE e1 SET (lsm.compression_level = 4);
CREATE TABLE e2 USING lsm WITH (lsm.block_size = '44kB') AS SELECT 1 AS id;
DROP EVENT TRIGGER see_start;
DROP EVENT TRIGGER see_end;
SELECT event, tag, object, query FROM seen ORDER BY n;
SELECT "table", option, value FROM lsm_table_options
WHERE source = 'table' AND "table"::text ~ '^e' ORDER BY 1, 2;

-- with the transaction
BEGIN;
ALTER TABLE o1 SET (lsm.block_size = '512kB');
CREATE TABLE r1 (id int) USING lsm WITH (lsm.block_size = '512kB');
SELECT label FROM pg_seclabels WHERE objoid = 'o1'::regclass;
SAVEPOINT s;
ALTER TABLE o1 SET (lsm.block_size = '1MB');
ALTER TABLE r1 RESET (lsm.block_size);
SELECT option, value, source FROM lsm_options('o1') WHERE option = 'lsm.block_size';
ROLLBACK TO s;
SELECT option, value, source FROM lsm_options('o1') WHERE option = 'lsm.block_size';
SELECT option, value, source FROM lsm_options('r1') WHERE option = 'lsm.block_size';
-- as the server locks for its own parameters
SELECT mode FROM pg_locks WHERE relation = 'o1'::regclass AND pid = pg_backend_pid()
	AND mode <> 'AccessShareLock' ORDER BY 1;
ROLLBACK;
SELECT option, value, source FROM lsm_options('o1') WHERE option = 'lsm.block_size';
SELECT to_regclass('r1') AS r1;
BEGIN READ ONLY;
ALTER TABLE o1 SET (lsm.block_size = '512kB');
ROLLBACK;

-- without FOR, labels are not meant for lsm
SECURITY LABEL ON TABLE o1 IS 'block_size=8kB';

-- only the owner
CREATE ROLE regress_lsm_options;
GRANT ALL ON SCHEMA topt TO regress_lsm_options;
GRANT ALL ON o1 TO regress_lsm_options;
SET ROLE regress_lsm_options;
ALTER TABLE o1 SET (lsm.block_size = '512kB');
ALTER TABLE o1 RESET (lsm.block_size);
SECURITY LABEL FOR lsm ON TABLE o1 IS NULL;
SELECT option, value FROM lsm_table_options WHERE "table" = 'o1'::regclass AND source = 'table';
CREATE TABLE mine (id int) USING lsm WITH (lsm.block_size = '20kB');
ALTER TABLE mine SET (lsm.compression_level = 2);
SECURITY LABEL FOR lsm ON TABLE mine IS 'block_size=28kB';
SELECT option, value FROM lsm_table_options WHERE "table" = 'mine'::regclass AND source = 'table';
RESET ROLE;
DROP OWNED BY regress_lsm_options;
DROP ROLE regress_lsm_options;

-- as dumps have it; by hand it is checked as well
SECURITY LABEL FOR lsm ON TABLE o1 IS 'compression_level = 5';
SECURITY LABEL FOR lsm ON TABLE o1 IS ' block_size=65536 ,"compression_level=5" ';
SELECT option, value FROM lsm_table_options WHERE "table" = 'o1'::regclass AND source = 'table' ORDER BY 1;
ALTER TABLE o1 SET (lsm.auto_compact = off);
SELECT label FROM pg_seclabels WHERE objoid = 'o1'::regclass;
SECURITY LABEL FOR lsm ON TABLE o1 IS 'foo=1';
SECURITY LABEL FOR lsm ON TABLE o1 IS 'block_size=1';
SECURITY LABEL FOR lsm ON TABLE o1 IS 'block_size=8kB, block_size=8kB';
SECURITY LABEL FOR lsm ON TABLE o1 IS 'block_size=8kB, "';
SECURITY LABEL FOR lsm ON TABLE h IS 'block_size=8kB';
SECURITY LABEL FOR lsm ON TABLE p IS 'block_size=8kB';
SECURITY LABEL FOR lsm ON VIEW v IS 'block_size=8kB';
SECURITY LABEL FOR lsm ON COLUMN o1.id IS 'block_size=8kB';
SECURITY LABEL FOR lsm ON SCHEMA topt IS 'block_size=8kB';
SECURITY LABEL FOR lsm ON MATERIALIZED VIEW m1 IS 'block_size=8kB';
SELECT option, value FROM lsm_table_options WHERE "table" = 'm1'::regclass AND source = 'table';
SECURITY LABEL FOR lsm ON MATERIALIZED VIEW m1 IS NULL;
SELECT count(*) FROM pg_seclabels WHERE objoid = 'm1'::regclass;
-- a boolean by its name alone, as in WITH
CREATE TABLE o_bare (id int) USING lsm;
SECURITY LABEL FOR lsm ON TABLE o_bare IS 'dictionary';
SELECT option, value FROM lsm_table_options WHERE "table" = 'o_bare'::regclass AND source = 'table';
ALTER TABLE o_bare SET (lsm.compression_level = 3);
SELECT option, value FROM lsm_table_options WHERE "table" = 'o_bare'::regclass AND source = 'table' ORDER BY 1;
ALTER TABLE o_bare RESET (lsm.compression_level);
SELECT label FROM pg_seclabels WHERE objoid = 'o_bare'::regclass;
SECURITY LABEL FOR lsm ON TABLE o_bare IS 'compression_level';
DROP TABLE o_bare;
-- what a later version may have written is kept, and means nothing
UPDATE pg_seclabel SET label = 'future=7, block_size=16MB, "cold=a, b", compression_level=6'
WHERE objoid = 'o2'::regclass;
SELECT option, value FROM lsm_table_options WHERE "table" = 'o2'::regclass ORDER BY 1;
ALTER TABLE o2 SET (lsm.block_size = '16kB');
SELECT label FROM pg_seclabels WHERE objoid = 'o2'::regclass;
ALTER TABLE o2 RESET (lsm.future, lsm.cold);
SELECT label FROM pg_seclabels WHERE objoid = 'o2'::regclass;

-- renames, and drops
ALTER TABLE o2 RENAME TO o2_renamed;
ALTER TABLE o2_renamed SET SCHEMA topt2;
SELECT option, value FROM lsm_options('topt2.o2_renamed') WHERE source = 'table' ORDER BY 1;
SELECT count(*) FROM pg_seclabel WHERE provider = 'lsm' AND objoid IN
	(SELECT oid FROM pg_class WHERE relnamespace = 'topt2'::regnamespace);
DROP SCHEMA topt2 CASCADE;
DROP TABLE c1 CASCADE;
SELECT count(*) FROM pg_seclabel l WHERE provider = 'lsm' AND
	NOT EXISTS (SELECT FROM pg_class WHERE oid = l.objoid);

-- the same blocks of rows at each size; a block ends before it would be larger
CREATE FUNCTION layout(regclass, OUT blocks bigint, OUT largest bigint, OUT compressed boolean)
LANGUAGE sql AS $$
	SELECT sum(blocks), ceil(max(raw_bytes::numeric / blocks) / 8192),
		sum(stored_bytes) < sum(raw_bytes) * 0.7
	FROM lsm_segments($1) $$;
CREATE TABLE u (id int PRIMARY KEY, t text, r text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO u SELECT i, 'row ' || i, repeat(md5(i::text), 4) FROM generate_series(1, 12000) i;
SELECT count(*) AS flush FROM lsm_flush('u');
SELECT blocks BETWEEN 50 AND 80 AS blocks_32kb, compressed FROM layout('u');
SELECT max(stored_bytes) AS stored FROM lsm_segments('u') \gset
-- segments that exist stay as they are, new ones obey
ALTER TABLE u SET (lsm.block_size = '1MB');
SELECT blocks BETWEEN 50 AND 80 AS blocks_32kb FROM layout('u');
UPDATE u SET t = 'changed ' || id WHERE id % 2 = 0;
SELECT count(*) AS flush FROM lsm_flush('u');
SELECT kind, blocks < 10 AS large_blocks FROM lsm_segments('u') WHERE kind = 'increment';
SELECT count(*) AS major FROM lsm_major_compact('u');
SELECT blocks < 10 AS blocks_1mb, compressed FROM layout('u');
SELECT count(*), count(*) FILTER (WHERE t = 'changed ' || id), sum(length(r)) FROM u;
ALTER TABLE u SET (lsm.block_size = '8kB', lsm.compression = none);
UPDATE u SET t = 'again ' || id WHERE id % 3 = 0;
SELECT count(*) AS minor FROM lsm_minor_compact('u');
SELECT count(*) AS flush FROM lsm_flush('u');
SELECT count(*) AS major FROM lsm_major_compact('u');
SELECT blocks > 200 AS blocks_8kb, compressed FROM layout('u');
SELECT count(*), count(*) FILTER (WHERE t = 'again ' || id), sum(length(r)) FROM u;
ALTER TABLE u SET (lsm.compression_level = 19), RESET (lsm.compression, lsm.block_size);
UPDATE u SET t = 'row ' || id;
VACUUM u;
SELECT blocks BETWEEN 50 AND 80 AS blocks_32kb, compressed,
	(SELECT sum(stored_bytes) FROM lsm_segments('u')) < :stored AS smaller FROM layout('u');
SELECT count(*), count(*) FILTER (WHERE t = 'row ' || id), sum(length(r)) FROM u;

-- options set in a transaction that is rolled back write no blocks afterwards
BEGIN;
ALTER TABLE u SET (lsm.block_size = '8kB');
UPDATE u SET t = t || 'x';
SELECT count(*) AS flush FROM lsm_flush('u');
SELECT blocks > 20 AS blocks_8kb FROM lsm_segments('u') WHERE kind = 'increment';
ROLLBACK;
UPDATE u SET t = t || 'y';
SELECT count(*) AS flush FROM lsm_flush('u');
SELECT blocks < 10 AS blocks_32kb FROM lsm_segments('u')
WHERE kind = 'increment' AND segment_id = (SELECT max(segment_id) FROM lsm_segments('u'));

-- TRUNCATE and rewrites keep them; what a rewrite writes by itself obeys them.
-- (64 MB of row log fill up while the rows go through it.)
ALTER TABLE u SET (lsm.block_size = '512kB');
TRUNCATE u;
INSERT INTO u SELECT i, 'row ' || i, repeat(md5(i::text), 4) FROM generate_series(1, 12000) i;
SELECT count(*) AS flush FROM lsm_flush('u');
SELECT blocks < 10 AS blocks_512kb FROM layout('u');
CREATE UNLOGGED TABLE w (id int, r text) USING heap;
ALTER TABLE w ALTER COLUMN r SET STORAGE PLAIN;
INSERT INTO w SELECT i, repeat(chr(65 + i % 26), 7000) FROM generate_series(1, 9500) i;
ALTER TABLE w SET ACCESS METHOD lsm, SET (lsm.block_size = '8kB', lsm.compression = none);
SELECT sum(rows) > 8000 AS flushed, sum(blocks) >= sum(rows) AS one_row_each FROM lsm_segments('w');
ALTER TABLE w ALTER COLUMN id TYPE bigint, SET (lsm.block_size = '1MB');
SELECT sum(rows) > 8000 AS flushed, sum(blocks) * 50 < sum(rows) AS many_rows_each FROM lsm_segments('w');
CREATE UNLOGGED TABLE w2 USING lsm WITH (lsm.block_size = '8kB') AS SELECT * FROM w;
SELECT sum(rows) > 8000 AS flushed, sum(blocks) >= sum(rows) AS one_row_each FROM lsm_segments('w2');
CREATE MATERIALIZED VIEW w3 USING lsm WITH (lsm.block_size = '8kB') AS SELECT * FROM w WITH NO DATA;
ALTER MATERIALIZED VIEW w3 SET (lsm.block_size = '1MB');
REFRESH MATERIALIZED VIEW w3;
SELECT sum(rows) > 8000 AS flushed, sum(blocks) * 50 < sum(rows) AS many_rows_each FROM lsm_segments('w3');
DROP MATERIALIZED VIEW w3;
DROP TABLE w2;

-- another access method has no use for them: they go, and say so
ALTER TABLE w SET ACCESS METHOD heap, SET (lsm.block_size = '8kB');
SELECT amname FROM pg_class c, pg_am a WHERE c.oid = 'w'::regclass AND a.oid = c.relam;
TRUNCATE w;
BEGIN;
ALTER TABLE w SET ACCESS METHOD heap;
SELECT count(*) FROM pg_seclabels WHERE objoid = 'w'::regclass;
ROLLBACK;
SELECT option, value FROM lsm_table_options WHERE "table" = 'w'::regclass AND source = 'table' ORDER BY 1;
ALTER TABLE w SET ACCESS METHOD heap, RESET (lsm.block_size);
SELECT count(*) FROM pg_seclabels WHERE objoid = 'w'::regclass;
ALTER TABLE w SET (lsm.block_size = '8kB');
ALTER TABLE w SET ACCESS METHOD lsm;
SELECT option, value FROM lsm_table_options WHERE "table" = 'w'::regclass AND source = 'table' ORDER BY 1;

SELECT "table", c AS problem
FROM (SELECT DISTINCT "table" FROM lsm_table_options) t, lsm_check("table") c;
DROP TABLE c5;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA topt CASCADE;
SELECT count(*) FROM pg_seclabel WHERE provider = 'lsm';
