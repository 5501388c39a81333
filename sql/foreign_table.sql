--
-- lsm tables behind postgres_fdw and dblink, which remember rows by ctid
-- between the statements of one transaction
--
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE EXTENSION IF NOT EXISTS dblink;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
				   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
	EXECUTE format('CREATE SERVER loopback2 FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L, async_capable ''true'')',
				   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
	EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER loopback OPTIONS (user %L)', current_user);
	EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER loopback2 OPTIONS (user %L)', current_user);
END $$;

CREATE SCHEMA remote;
CREATE TABLE remote.ft (id int PRIMARY KEY, v int, k int, t text) USING lsm;
CREATE INDEX ON remote.ft (k);
CREATE FOREIGN TABLE ft (id int, v int, k int, t text) SERVER loopback OPTIONS (schema_name 'remote', batch_size '20');
INSERT INTO ft SELECT i, i, i % 10, 't' || i FROM generate_series(1, 200) i;
SELECT count(*), sum(v) FROM ft;
SELECT count(*) AS flush FROM lsm_flush('remote.ft');

-- UPDATE and DELETE as statements that are sent as they are
EXPLAIN (VERBOSE, COSTS OFF) UPDATE ft SET v = v + 1000 WHERE k = 3;
UPDATE ft SET v = v + 1000 WHERE k = 3;
WITH u AS (UPDATE ft SET k = 30 WHERE id BETWEEN 10 AND 13 RETURNING id, k, t) SELECT * FROM u ORDER BY id;
WITH d AS (DELETE FROM ft WHERE id > 190 RETURNING id) SELECT count(*), sum(id) FROM d;
SELECT count(*), sum(v), sum(k) FROM ft;

-- by ctid: what cannot be sent is computed here, row by row
CREATE FUNCTION here(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 5; END';
EXPLAIN (VERBOSE, COSTS OFF) UPDATE ft SET v = here(v) WHERE k = 5;
UPDATE ft SET v = here(v) WHERE k = 5;
UPDATE ft SET k = here(k) WHERE id % 20 = 1;
DELETE FROM ft WHERE here(id) = 25;
SELECT count(*), sum(v), sum(k) FROM ft;
SELECT count(*) AS flush FROM lsm_flush('remote.ft');
WITH u AS (UPDATE ft SET v = here(v) WHERE k = 6 RETURNING id, v) SELECT count(*), sum(id), sum(v) FROM u;

-- the same with flush and compaction between the remote SELECT and UPDATE
CREATE FUNCTION flush_between() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM lsm_flush('remote.ft');
	PERFORM lsm_minor_compact('remote.ft');
	PERFORM lsm_major_compact('remote.ft');
	IF TG_OP = 'DELETE' THEN
		RETURN OLD;
	END IF;
	NEW.t := NEW.t || '*';
	RETURN NEW;
END $$;
CREATE TRIGGER flush_between BEFORE UPDATE OR DELETE ON ft FOR EACH ROW EXECUTE FUNCTION flush_between();
BEGIN;
UPDATE ft SET v = v + 1 WHERE id <= 5;
UPDATE ft SET v = v + 1, k = k + 1 WHERE id <= 5;
DELETE FROM ft WHERE id = 2 OR k = 8 AND id < 50;
SELECT * FROM ft WHERE id <= 6 ORDER BY id;
COMMIT;
SELECT id, t FROM ft WHERE t LIKE '%*' ORDER BY id;
SELECT count(*), sum(v), sum(k) FROM ft;
DROP TRIGGER flush_between ON ft;

-- row locks, savepoints, joins with a table that is here
CREATE TABLE ft_local (id int, w int) USING lsm;
INSERT INTO ft_local SELECT i, i * 10 FROM generate_series(1, 20) i;
BEGIN;
SELECT id, v FROM ft WHERE id BETWEEN 20 AND 22 ORDER BY id FOR UPDATE;
SELECT count(*) AS flush FROM lsm_flush('remote.ft');
SAVEPOINT s;
UPDATE ft SET v = 0;
SELECT sum(v) FROM ft;
ROLLBACK TO s;
UPDATE ft SET v = w FROM ft_local l WHERE l.id = ft.id AND here(w) > 100;
DELETE FROM ft USING ft_local l WHERE l.id = ft.id AND here(w) = 205;
COMMIT;
SELECT id, v FROM ft WHERE id BETWEEN 8 AND 22 ORDER BY id;
SELECT f.id, f.v, l.w FROM ft f JOIN ft_local l USING (id) WHERE l.w < 40 ORDER BY 1;
DECLARE c CURSOR WITH HOLD FOR SELECT id, v FROM ft ORDER BY id;
FETCH 2 FROM c;
UPDATE ft SET v = -1 WHERE id < 10;
SELECT count(*) AS major FROM lsm_major_compact('remote.ft');
FETCH 2 FROM c;
CLOSE c;

-- upserts, COPY, truncate, statistics
INSERT INTO ft VALUES (1, 1, 1, 'there'), (1000, 1, 1, 'new') ON CONFLICT DO NOTHING;
COPY ft FROM STDIN;
2001	1	1	copied
2002	2	2	copied
\.
SELECT id, t FROM ft WHERE id IN (1, 1000) OR t = 'copied' ORDER BY id;
ANALYZE ft;
SELECT reltuples = (SELECT count(*) FROM ft) AS reltuples FROM pg_class WHERE oid = 'ft'::regclass;

-- partitions on both servers, read asynchronously, and rows that move between them
CREATE TABLE remote.p1 (id int, v int) USING lsm;
CREATE TABLE remote.p2 (id int, v int) USING lsm;
CREATE TABLE ft_part (id int, v int) PARTITION BY RANGE (v);
CREATE FOREIGN TABLE ft_p1 PARTITION OF ft_part FOR VALUES FROM (0) TO (100) SERVER loopback2 OPTIONS (schema_name 'remote', table_name 'p1');
CREATE FOREIGN TABLE ft_p2 PARTITION OF ft_part FOR VALUES FROM (100) TO (200) SERVER loopback OPTIONS (schema_name 'remote', table_name 'p2', async_capable 'true');
CREATE TABLE ft_p3 PARTITION OF ft_part FOR VALUES FROM (200) TO (300) USING lsm;
INSERT INTO ft_part SELECT i, i FROM generate_series(0, 299) i;
SELECT count(*) AS flush FROM lsm_flush('remote.p1');
EXPLAIN (COSTS OFF) SELECT * FROM ft_part WHERE here(v) % 50 = 5;
SELECT * FROM ft_part WHERE here(v) % 50 = 5 ORDER BY id;
UPDATE ft_part SET v = v + 100 WHERE v BETWEEN 100 AND 110;
SELECT tableoid::regclass, count(*), sum(v) FROM ft_part GROUP BY 1 ORDER BY 1;
DELETE FROM ft_part WHERE id % 3 = 0;
SELECT tableoid::regclass, count(*), sum(v) FROM ft_part GROUP BY 1 ORDER BY 1;
TRUNCATE ft_part;
SELECT count(*) FROM remote.p1, remote.p2;

-- dblink: the statements of a transaction over one connection
SELECT dblink_connect('c', format('host=%s port=%s dbname=%s user=%s', split_part(current_setting('unix_socket_directories'), ',', 1),
	current_setting('port'), current_database(), current_user));
SELECT dblink_exec('c', 'BEGIN');
SELECT dblink_open('c', 'cur', 'SELECT ctid, id FROM remote.ft WHERE id BETWEEN 30 AND 40 ORDER BY id');
CREATE TABLE ft_names AS SELECT * FROM dblink_fetch('c', 'cur', 4) AS f(name tid, id int);
SELECT dblink_exec('c', 'SET LOCAL enable_seqscan = off');
SELECT count(*) AS flush FROM lsm_flush('remote.ft');
SELECT dblink_exec('c', format('UPDATE remote.ft SET v = v + 7, k = k + 1 WHERE ctid = %L', name)) FROM ft_names ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('remote.ft');
SELECT dblink_exec('c', format('DELETE FROM remote.ft WHERE ctid = %L AND id = 30', name)) FROM ft_names WHERE id = 30;
SELECT id FROM dblink_fetch('c', 'cur', 2) AS f(name tid, id int);
SELECT dblink_close('c', 'cur');
SELECT dblink_exec('c', 'COMMIT');
SELECT * FROM dblink('c', 'SELECT id, v, k FROM remote.ft WHERE id BETWEEN 29 AND 36 ORDER BY id') AS f(id int, v int, k int);
SELECT dblink_build_sql_update('remote.ft', '1', 1, ARRAY['31'], ARRAY['31']);
SELECT dblink_disconnect('c');

SELECT c AS problem FROM lsm_check('remote.ft') c;
SELECT c AS problem FROM lsm_check('remote.p1') c;
SET client_min_messages = warning;
DROP SCHEMA remote CASCADE;
DROP TABLE ft_part, ft_names, ft_local;
DROP FOREIGN TABLE ft;
DROP FUNCTION here, flush_between;
DROP EXTENSION postgres_fdw, dblink CASCADE;
