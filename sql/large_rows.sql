--
-- Rows larger than a page: values of any size, and many columns
--
CREATE FUNCTION noise(seed int, bytes int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT left(string_agg(md5(seed::text || ':' || i::text), ''), bytes)
	   FROM generate_series(1, bytes / 32 + 1) i $$;
-- a large one without much work
CREATE FUNCTION block(seed int, bytes int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT left(repeat(noise(seed, 65537), bytes / 65537 + 1), bytes) $$;

-- sizes around each bound: of a record, a page, two, a value with an extent of
-- its own (64 pages), and a generation's share (1024 pages)
CREATE TABLE lr (id int PRIMARY KEY, n int, v text, w bytea) USING lsm;
ALTER TABLE lr ALTER v SET STORAGE external, ALTER w SET STORAGE external;
CREATE TABLE lr_size (id int PRIMARY KEY, bytes int, sum text, sum2 text);
INSERT INTO lr_size SELECT row_number() OVER (), bytes FROM unnest(ARRAY[0, 1, 126, 127, 1000, 4000, 8000,
	8090, 8091, 8092, 8093, 8094, 8095, 8096, 8097, 8098, 8099, 8100, 8101, 8102, 8103, 8104, 8105, 8106,
	8136, 8139, 8140, 8141, 8142, 8143, 8144, 8145, 8146, 8147, 8148, 16287, 16288, 16289, 24432, 260607, 260608, 260609,
	521215, 521216, 521217, 8339457, 20000000]) bytes;
UPDATE lr_size SET sum = md5(block(id, bytes)), sum2 = md5(block(id, bytes) || 'x');
INSERT INTO lr SELECT id, id, block(id, bytes), NULL FROM lr_size;
INSERT INTO lr SELECT id + 1000, id, 'small', convert_to(block(id, bytes), 'UTF8') FROM lr_size WHERE bytes < 1000000;
CREATE VIEW lr_wrong AS
	SELECT lr.id, bytes, length(v) AS v, length(w) AS w FROM lr JOIN lr_size s ON s.id = lr.id % 1000
	WHERE CASE WHEN lr.id < 1000 THEN md5(v) IS DISTINCT FROM sum OR w IS NOT NULL
		ELSE v <> 'small' OR md5(w) IS DISTINCT FROM sum END;
SELECT count(*), sum(length(v)), sum(length(w)) FROM lr;
TABLE lr_wrong;
SELECT c AS problem FROM lsm_check('lr') c;
SELECT count(*) AS flush FROM lsm_flush('lr');
TABLE lr_wrong;
SELECT c AS problem FROM lsm_check('lr') c;

-- another column: the large ones are not written again
UPDATE lr SET n = n + 1;
SELECT sum(n), count(*) FROM lr;
TABLE lr_wrong;
SELECT bytes_written < 100000 AS small FROM lsm_flush('lr');
TABLE lr_wrong;
UPDATE lr SET n = n + 1 WHERE id % 2 = 0;
SELECT bytes_written < 100000 AS small FROM lsm_flush('lr');
SELECT bytes_written < 100000 AS small FROM lsm_minor_compact('lr');
SELECT sum(n), count(*) FROM lr;
TABLE lr_wrong;
-- part of one, which is not read as a whole; and another column of a slice
SELECT id, substr(v, bytes - 5, 20) = substr(block(id, bytes), bytes - 5, 20) AS tail,
	substr(v, 70000, 10) = substr(noise(id, 65537), 70000 - 65537, 10) AS middle
	FROM lr JOIN lr_size USING (id) WHERE bytes > 500000 ORDER BY id;
SELECT id, octet_length(w), substr(w, 5, 3) FROM lr WHERE id IN (1003, 1020, 1040);
SELECT count(*) AS major FROM lsm_major_compact('lr');
SELECT sum(n), count(*) FROM lr;
TABLE lr_wrong;
SELECT c AS problem FROM lsm_check('lr') c;

-- a large column; another indexed column; both; away
UPDATE lr SET v = v || 'x' WHERE id % 3 = 0 AND id < 1000;
UPDATE lr SET n = n + 1 WHERE id % 3 = 0;
UPDATE lr SET id = id + 100 WHERE id BETWEEN 20 AND 40;
DELETE FROM lr WHERE id > 1020;
SELECT count(*), count(*) FILTER (WHERE md5(v) = sum2) AS changed, count(*) FILTER (WHERE md5(v) = sum) AS as_before
	FROM lr JOIN lr_size s ON s.id = lr.id % 100 WHERE lr.id < 1000;
SELECT count(*) AS flush FROM lsm_flush('lr');
SELECT count(*) AS major FROM lsm_major_compact('lr');
SELECT count(*), count(*) FILTER (WHERE md5(v) = sum2) AS changed, count(*) FILTER (WHERE md5(v) = sum) AS as_before
	FROM lr JOIN lr_size s ON s.id = lr.id % 100 WHERE lr.id < 1000;
SELECT c AS problem FROM lsm_check('lr') c;
VACUUM lr;
ANALYZE lr;
-- samples have pointers, as with heap
SELECT attname, avg_width < 9000 AS narrow FROM pg_stats WHERE tablename = 'lr' ORDER BY attname;
-- in a plan that carries rows about
SET work_mem = '64kB';
SELECT md5(string_agg(left(a.v, 10) || length(b.v), ',' ORDER BY a.n, a.id, b.id)) FROM lr a JOIN lr b ON b.n = a.n AND a.id < 1000 AND b.id < 1000;
RESET work_mem;
-- pointers go from a worker to its leader
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
CREATE TABLE lr_parallel USING heap AS SELECT * FROM lr;
SELECT count(*), count(*) FILTER (WHERE a.v IS DISTINCT FROM b.v OR a.w IS DISTINCT FROM b.w) AS wrong
	FROM (SELECT * FROM lr OFFSET 0) a JOIN lr_parallel b USING (id);
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
DROP TABLE lr_parallel;
SELECT n, max(length(v)) FROM lr WHERE id < 60 GROUP BY n, v HAVING max(length(v)) > 8000000 ORDER BY n;

-- what the server says of them is what it says with heap
CREATE TABLE lr_kind (id int, e text, m text, x text) USING lsm;
ALTER TABLE lr_kind ALTER e SET STORAGE external, ALTER m SET STORAGE main, ALTER m SET COMPRESSION pglz, ALTER x SET COMPRESSION pglz;
CREATE TABLE lr_kind_heap (LIKE lr_kind INCLUDING ALL) USING heap;
INSERT INTO lr_kind_heap VALUES (1, repeat('e', 40000), NULL, NULL), (2, NULL, repeat('m', 40000), NULL), (3, NULL, NULL, repeat('x', 40000)),
	(4, repeat('e', 40000), repeat('m', 40000), repeat('x', 40000)), (5, NULL, NULL, noise(5, 40000)), (6, NULL, NULL, repeat(noise(6, 20000), 2)),
	(7, NULL, NULL, (SELECT string_agg(i::text || repeat('-', 20), '') FROM generate_series(1, 20000) i));
INSERT INTO lr_kind SELECT id, e, m, x FROM lr_kind_heap;
CREATE VIEW lr_kind_differs AS
	SELECT id, pg_column_size(a.e) AS e, pg_column_size(b.e) AS e_heap, pg_column_size(a.m) AS m, pg_column_size(b.m) AS m_heap, pg_column_size(a.x) AS x, pg_column_size(b.x) AS x_heap
	FROM lr_kind a JOIN lr_kind_heap b USING (id)
	WHERE (a.e, a.m, a.x) IS DISTINCT FROM (b.e, b.m, b.x) OR
		(pg_column_compression(a.e), pg_column_compression(a.m), pg_column_compression(a.x)) IS DISTINCT FROM
		(pg_column_compression(b.e), pg_column_compression(b.m), pg_column_compression(b.x)) OR
		-- heap moves values out earlier, and then the header does not count
		pg_column_size(a.e) - pg_column_size(b.e) NOT BETWEEN 0 AND 4 OR
		pg_column_size(a.m) - pg_column_size(b.m) NOT BETWEEN 0 AND 4 OR
		pg_column_size(a.x) - pg_column_size(b.x) NOT BETWEEN 0 AND 4;
SELECT id, pg_column_compression(e) AS ec, pg_column_size(e) AS es, pg_column_compression(m) AS mc, pg_column_size(m) AS ms,
	pg_column_compression(x) AS xc, pg_column_size(x) < length(x) AS smaller FROM lr_kind ORDER BY id;
TABLE lr_kind_differs;
SELECT count(*) AS flush FROM lsm_flush('lr_kind');
TABLE lr_kind_differs;
INSERT INTO lr_kind SELECT id + 100, e, m, x FROM lr_kind;
INSERT INTO lr_kind_heap SELECT id + 100, e, m, x FROM lr_kind;
TABLE lr_kind_differs;
TRUNCATE lr_kind;
INSERT INTO lr_kind SELECT * FROM lr_kind_heap;
SELECT count(*) AS flush FROM lsm_flush('lr_kind');
TABLE lr_kind_differs;

-- an UPDATE with the same value, compressed by another method, takes that over
DO $$
DECLARE
	taken bool := true;
BEGIN
	IF 'lz4' = ANY (SELECT unnest(enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
		ALTER TABLE lr_kind_heap ALTER x SET COMPRESSION lz4;
		INSERT INTO lr_kind_heap (id, x) VALUES (200, repeat('x', 40000));
		UPDATE lr_kind a SET x = b.x FROM lr_kind_heap b WHERE a.id = 3 AND b.id = 200;
		taken := pg_column_compression(x) = 'lz4' FROM lr_kind WHERE id = 3;
		DELETE FROM lr_kind_heap WHERE id = 200;
	END IF;
	RAISE NOTICE 'taken: %', taken;
END $$;

-- nor does what is stored otherwise now stay as it is
CREATE TABLE lr_other (id int PRIMARY KEY, c text COMPRESSION pglz, d text COMPRESSION pglz) USING lsm;
INSERT INTO lr_other VALUES (1, repeat('x', 40000), repeat('y', 40000)), (2, repeat('x', 40000), repeat('y', 40000));
ALTER TABLE lr_other ALTER c SET STORAGE EXTERNAL;
UPDATE lr_other SET c = c || '', d = d || '' WHERE id = 1;
SELECT id, pg_column_compression(c), pg_column_compression(d), length(c), length(d) FROM lr_other ORDER BY id;
DROP TABLE lr_other;

-- plain: stored with the row, whatever its size, up to a limit
CREATE TABLE lr_plain (id int, v text) USING lsm;
ALTER TABLE lr_plain ALTER v SET STORAGE plain;
INSERT INTO lr_plain VALUES (1, noise(1, 30000)), (2, repeat('p', 3000000)), (3, 'short');
SELECT id, length(v), pg_column_size(v), v IN (noise(1, 30000), repeat('p', 3000000), 'short') AS good FROM lr_plain ORDER BY id;
UPDATE lr_plain SET v = v || '!' WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('lr_plain');
SELECT id, length(v), pg_column_size(v), v IN (noise(1, 30000) || '!', repeat('p', 3000000), 'short') AS good FROM lr_plain ORDER BY id;
SET statement_timeout = '60s';
UPDATE lr_plain SET v = v || '!' WHERE id = 2;
CREATE INDEX ON lr_plain (id);
UPDATE lr_plain SET id = 12, v = v || '?' WHERE id = 2;
RESET statement_timeout;
SELECT id, length(v), v = repeat('p', 3000000) || '!?' AS good FROM lr_plain WHERE id = 12;
SELECT count(*) AS flush FROM lsm_flush('lr_plain');
SELECT id, length(v), v = repeat('p', 3000000) || '!?' AS good FROM lr_plain WHERE id = 12;
\set VERBOSITY sqlstate
INSERT INTO lr_plain VALUES (4, repeat('p', 70000000));
\set VERBOSITY default
SELECT c AS problem FROM lsm_check('lr_plain') c;

-- 1,600 columns: of all that can be moved out, of what cannot, and little of it changed
CREATE FUNCTION wide_create() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE (SELECT format('CREATE TABLE lr_wide (%s) USING lsm', string_agg(format('c%s text', i), ', ')) FROM generate_series(1, 1600) i);
END $$;
CREATE FUNCTION wide_fill(seed int, bytes int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE (SELECT format('INSERT INTO lr_wide SELECT %s FROM (SELECT noise(%s, %s) AS a) x', string_agg('a || ' || i, ', '), seed, bytes)
		FROM generate_series(1, 1600) i);
END $$;
SELECT wide_create();
SELECT wide_fill(1, 3), wide_fill(2, 100), wide_fill(3, 1000), wide_fill(4, 9000);
SELECT length(w::text), md5(w::text) FROM lr_wide w ORDER BY 1;
SELECT count(*) AS flush FROM lsm_flush('lr_wide');
SELECT length(w::text), md5(w::text) FROM lr_wide w ORDER BY 1;
UPDATE lr_wide SET c800 = 'changed', c801 = NULL;
UPDATE lr_wide SET c1 = block(7, 30000), c1600 = noise(8, 9000), c2 = noise(9, 5000), c3 = noise(10, 5000) WHERE length(c5) <= 100;
UPDATE lr_wide SET c4 = 'later';
SELECT length(w::text), md5(w::text) FROM lr_wide w ORDER BY 1;
SELECT count(*) AS flush FROM lsm_flush('lr_wide');
SELECT length(w::text), md5(w::text) FROM lr_wide w ORDER BY 1;
SELECT count(*) AS major FROM lsm_major_compact('lr_wide');
SELECT length(w::text), md5(w::text), length(c1), c4, c801 FROM lr_wide w ORDER BY 1;
SELECT c AS problem FROM lsm_check('lr_wide') c;

-- inside arrays, composites and jsonb; indexed by expression
CREATE TYPE lr_pair AS (f1 text, f2 text);
CREATE TABLE lr_nested (id int PRIMARY KEY, a text[], c lr_pair, ca lr_pair[], j jsonb, t text) USING lsm;
CREATE INDEX lr_nested_md5 ON lr_nested (md5(t));
CREATE INDEX lr_nested_a ON lr_nested USING gin (j);
CREATE TABLE lr_src (f1 text, f2 text) USING lsm;
INSERT INTO lr_src SELECT block(i, 20000 * i), noise(-i, 3000) FROM generate_series(1, 3) i;
SELECT count(*) AS flush FROM lsm_flush('lr_src');
INSERT INTO lr_src SELECT block(i, 20000 * i), noise(-i, 3000) FROM generate_series(4, 5) i;
INSERT INTO lr_nested SELECT length(f1), ARRAY[f1, f2, f1], row(f1, f2)::lr_pair, ARRAY[row(f1, f1)::lr_pair, row(f2, f1)::lr_pair],
	jsonb_build_object('k', length(f1), 'f1', f1), f1 FROM lr_src;
-- what they were made of may go
UPDATE lr_src SET f1 = NULL;
SELECT count(*) AS flush FROM lsm_flush('lr_src');
SELECT count(*) AS major FROM lsm_major_compact('lr_src');
CREATE VIEW lr_nested_look AS
	SELECT id, a[1] = t AND a[3] = t AS a, (c).f1 = t AND length((c).f2) = 3000 AS c, (ca[2]).f2 = t AND (ca[1]).f1 = t AS ca,
		j ->> 'f1' = t AS j, t = block(id / 20000, id) AS t FROM lr_nested ORDER BY id;
TABLE lr_nested_look;
SELECT count(*) AS flush FROM lsm_flush('lr_nested');
TABLE lr_nested_look;
UPDATE lr_nested SET a = array_append(a, t), c.f2 = noise(1, 3000), ca[2].f2 = t WHERE id > 40000;
UPDATE lr_nested SET t = t || 'x' WHERE id = 20000;
SET enable_seqscan = off;
SELECT id FROM lr_nested WHERE md5(t) = md5(block(1, 20000) || 'x');
SELECT id FROM lr_nested WHERE md5(t) = md5(block(3, 60000));
SELECT id FROM lr_nested WHERE md5(t) = md5(block(1, 20000));
RESET enable_seqscan;
REINDEX TABLE lr_nested;
SELECT count(*) AS flush FROM lsm_flush('lr_nested');
SELECT count(*) AS major FROM lsm_major_compact('lr_nested');
TABLE lr_nested_look;
SELECT id, array_length(a, 1) FROM lr_nested ORDER BY id;
SELECT c AS problem FROM lsm_check('lr_nested') c;
-- larger than an index can hold
CREATE INDEX ON lr_nested (t);

-- all the ways to change a row
CREATE TABLE lr_ways (id int PRIMARY KEY, n int DEFAULT 0, v text) USING lsm;
CREATE TABLE lr_log (what text, old int, new int);
CREATE FUNCTION lr_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_WHEN = 'BEFORE' THEN
		NEW.v := NEW.v || '+';
		RETURN NEW;
	END IF;
	INSERT INTO lr_log VALUES (TG_OP, CASE WHEN TG_OP <> 'INSERT' THEN length(OLD.v) END, CASE WHEN TG_OP <> 'DELETE' THEN length(NEW.v) END);
	RETURN NULL;
END $$;
CREATE TRIGGER before BEFORE INSERT OR UPDATE OF v ON lr_ways FOR EACH ROW EXECUTE FUNCTION lr_trigger();
CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON lr_ways FOR EACH ROW EXECUTE FUNCTION lr_trigger();
CREATE CONSTRAINT TRIGGER deferred AFTER UPDATE ON lr_ways DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lr_trigger();
INSERT INTO lr_ways SELECT i, 0, noise(i, i * 10000) FROM generate_series(1, 4) i RETURNING id, length(v);
INSERT INTO lr_ways VALUES (4, 0, noise(44, 90000)) ON CONFLICT (id) DO UPDATE SET v = lr_ways.v || excluded.v RETURNING id, length(v);
INSERT INTO lr_ways VALUES (4, 0, noise(44, 90000)) ON CONFLICT (id) DO NOTHING;
INSERT INTO lr_ways VALUES (5, 0, noise(5, 90000)) ON CONFLICT (id) DO NOTHING;
BEGIN;
SAVEPOINT a;
UPDATE lr_ways SET v = noise(99, 100000) RETURNING id, length(v);
SELECT count(*) AS flush FROM lsm_flush('lr_ways');
ROLLBACK TO a;
UPDATE lr_ways SET n = n + 1, v = v || 'y' WHERE id = 1;
UPDATE lr_ways SET n = n + 1 WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('lr_ways');
UPDATE lr_ways SET n = n + 1 WHERE id = 1;
SELECT id, n, length(v) FROM lr_ways WHERE id < 3 ORDER BY id FOR UPDATE;
COMMIT;
DELETE FROM lr_ways WHERE id = 2 RETURNING length(v);
SELECT * FROM lr_log ORDER BY what, old, new;
SELECT id, n, length(v), v = noise(id, id * 10000) || '+' AS v FROM lr_ways ORDER BY id;
BEGIN;
UPDATE lr_ways SET v = noise(33, 120000) WHERE id = 3;
PREPARE TRANSACTION 'lr';
SELECT count(*) AS flush FROM lsm_flush('lr_ways');
SELECT count(*) AS major FROM lsm_major_compact('lr_ways');
SELECT length(v) FROM lr_ways WHERE id = 3;
COMMIT PREPARED 'lr';
SELECT length(v), v = noise(33, 120000) || '+' AS v FROM lr_ways WHERE id = 3;
SELECT count(*) AS flush FROM lsm_flush('lr_ways');
SELECT count(*) AS major FROM lsm_major_compact('lr_ways');
SELECT id, n, length(v) FROM lr_ways ORDER BY id;
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT id, md5(v), v FROM lr_ways ORDER BY id;
COMMIT;
UPDATE lr_ways SET v = noise(7, 20000);
SELECT count(*) AS flush FROM lsm_flush('lr_ways');
SELECT count(*) AS major FROM lsm_major_compact('lr_ways');
CREATE FUNCTION held(OUT good bool) LANGUAGE plpgsql AS $$
DECLARE
	c refcursor := 'c';
	r record;
BEGIN
	good := true;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		good := good AND md5(r.v) = r.md5;
	END LOOP;
END $$;
SELECT held();
CLOSE c;
-- a procedure keeps a value over transactions
DO $$
DECLARE
	kept text;
	sum text;
BEGIN
	SELECT v, md5(v) INTO kept, sum FROM lr_ways WHERE id = 3;
	COMMIT;
	DELETE FROM lr_ways;
	COMMIT;
	PERFORM lsm_flush('lr_ways');
	PERFORM lsm_major_compact('lr_ways');
	COMMIT;
	PERFORM pg_current_xact_id();
	COMMIT;
	INSERT INTO lr_ways SELECT i, 0, noise(-i, 30000) FROM generate_series(1, 20) i;
	PERFORM lsm_flush('lr_ways');
	RAISE NOTICE 'kept: %', md5(kept) = sum;
END $$;
SELECT c AS problem FROM lsm_check('lr_ways') c;

-- temporary and unlogged tables, rewrites, and the way to heap and back
CREATE TEMP TABLE lr_temp USING lsm AS SELECT id, block(id, bytes) AS v FROM lr_size WHERE bytes < 1000000;
SELECT count(*) AS flush FROM lsm_flush('lr_temp');
UPDATE lr_temp SET v = v || 'x';
SELECT count(*) AS flush FROM lsm_flush('lr_temp');
SELECT count(*) AS major FROM lsm_major_compact('lr_temp');
SELECT count(*) AS wrong FROM lr_temp JOIN lr_size USING (id) WHERE md5(v) <> sum2;
CREATE UNLOGGED TABLE lr_unlogged (LIKE lr_temp) USING lsm;
INSERT INTO lr_unlogged SELECT * FROM lr_temp;
SELECT count(*) AS flush FROM lsm_flush('lr_unlogged');
ALTER TABLE lr_unlogged SET LOGGED;
ALTER TABLE lr_unlogged ADD COLUMN r float8 DEFAULT random(), ALTER v TYPE varchar;
SELECT count(*) AS wrong FROM lr_unlogged JOIN lr_size USING (id) WHERE md5(v) <> sum2;
ALTER TABLE lr_unlogged SET ACCESS METHOD heap;
SELECT count(*) AS wrong FROM lr_unlogged JOIN lr_size USING (id) WHERE md5(v) <> sum2;
SELECT reltoastrelid::regclass::text = 'pg_toast.pg_toast_' || oid AS toast, pg_relation_size(reltoastrelid) > 0 AS used
FROM pg_class WHERE relname = 'lr_unlogged';
ALTER TABLE lr_unlogged SET ACCESS METHOD lsm;
SELECT count(*) AS wrong FROM lr_unlogged JOIN lr_size USING (id) WHERE md5(v) <> sum2;
CREATE TABLE lr_heap (LIKE lr_unlogged) USING heap;
INSERT INTO lr_heap SELECT * FROM lr_unlogged;
SELECT count(*) AS wrong FROM lr_unlogged JOIN lr_size USING (id) WHERE md5(v) <> sum2;
ALTER TABLE lr_heap SET ACCESS METHOD lsm;
SELECT count(*) AS wrong FROM lr_heap JOIN lr_size USING (id) WHERE md5(v) <> sum2;
SELECT count(*) AS flush FROM lsm_flush('lr_heap');
SELECT count(*) AS wrong FROM lr_heap JOIN lr_size USING (id) WHERE md5(v) <> sum2;
SELECT c AS problem FROM lsm_check('lr_unlogged') c;
SELECT c AS problem FROM lsm_check('lr_heap') c;
SELECT c AS problem FROM lsm_check('lr_temp') c;

-- VACUUM gives back what compaction has only just put by, as nobody could still read it
CREATE TABLE lr_tail (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lr_tail SELECT i, noise(i, 200000) FROM generate_series(1, 20) i;
VACUUM lr_tail;
DELETE FROM lr_tail WHERE id < 20;
VACUUM lr_tail;
SELECT pg_relation_size('lr_tail') < 1000000 AS small, count(*), min(length(v)), min(md5(v)) = md5(noise(20, 200000)) AS same FROM lr_tail;
SELECT c AS problem FROM lsm_check('lr_tail') c;

-- a variable has a pointer: once the table has got a new file it leads to nothing, in
-- particular not to another row
CREATE TABLE lr_var (id int PRIMARY KEY, k int, v text) USING lsm;
ALTER TABLE lr_var ALTER v SET STORAGE external;
CREATE INDEX lr_var_k ON lr_var (k);
CREATE FUNCTION stale(what text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	x text;
	r text;
BEGIN
	TRUNCATE lr_var;
	INSERT INTO lr_var SELECT i, -i, repeat(chr(96 + i), 20000) FROM generate_series(1, 5) i;
	SELECT v INTO x FROM lr_var WHERE id = 2;
	BEGIN
		EXECUTE what;
		IF left(x, 3) = 'bbb' THEN
			RETURN 'right';
		END IF;
		r := 'wrong';
	EXCEPTION WHEN data_corrupted THEN
		r := sqlerrm;
	END;
	-- in place of it
	BEGIN
		EXECUTE what;
		INSERT INTO lr_var VALUES (7, 7, x);
		r := r || ', ' || (SELECT left(v, 3) FROM lr_var WHERE id = 7);
	EXCEPTION WHEN data_corrupted THEN
		r := r || ', not stored';
	END;
	RETURN r;
END $$;
SELECT stale('SELECT 1');
SELECT stale('TRUNCATE lr_var; INSERT INTO lr_var SELECT i, i, repeat(chr(64 + i), 20000) FROM generate_series(1, 5) i');
SELECT stale('CLUSTER lr_var USING lr_var_k');
SELECT stale('ALTER TABLE lr_var ALTER k TYPE bigint');
SELECT stale('SELECT lsm_flush(''lr_var''), lsm_major_compact(''lr_var'')');
SELECT c AS problem FROM lsm_check('lr_var') c;
DROP TABLE lr_var;
DROP FUNCTION stale(text);

-- a dropped column gives its large values up
ALTER TABLE lr_unlogged DROP COLUMN v;
SELECT bytes_written < 100000 AS small FROM lsm_flush('lr_unlogged');
SELECT count(*), count(r) FROM lr_unlogged;

DROP VIEW lr_wrong, lr_kind_differs, lr_nested_look;
DROP TABLE lr_tail, lr_size, lr_src, lr_kind_heap, lr_log, lr_temp, lr_unlogged, lr_heap;
DROP FUNCTION wide_create(), wide_fill(int, int), held(), block(int, int), noise(int, int);
