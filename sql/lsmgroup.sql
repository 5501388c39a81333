--
-- LsmAgg: groups, expressions, filters, other aggregates, parallel plans; beside heap
--
CREATE TABLE lg (id int, flag char(1), status text, kind varchar(5), i2 int2, i4 int4, i8 int8, small int4, price numeric(15,2), disc numeric(15,2), tax numeric(10,4), n numeric,
	d date, ts timestamp, ok bool, f4 float4, f8 float8, b bpchar, wide int8, nul int) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE lg_heap (LIKE lg);
CREATE FUNCTION lg_fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO lg_heap SELECT i, substr('ANR', i % 3 + 1, 1), CASE i % 4 WHEN 0 THEN 'O' WHEN 1 THEN 'F' WHEN 2 THEN '' END, 'k' || i % 7, i % 300 - 150, i * 7 % 1000003, i::int8 << 33, i % 5 - 2,
		(i * 7919 % 10494950) / 100.0, (i % 11) / 100.0, (i % 9) / 100.0, CASE WHEN i % 13 = 0 THEN i * 1e22 WHEN i % 7 = 0 THEN 1.0 WHEN i % 17 = 0 THEN NULL ELSE i / 8.0 END,
		'1995-01-01'::date + i % 40, '2000-01-01'::timestamp + (i % 50) * interval '1 h', CASE WHEN i % 10 > 0 THEN i % 2 = 0 END, i % 100, CASE WHEN i % 19 = 0 THEN NULL ELSE (i % 1000) * 0.25 END,
		CASE i % 3 WHEN 0 THEN 'x' WHEN 1 THEN 'x  ' ELSE 'y' END, CASE WHEN i % 2 = 0 THEN 9223372036854775807 - i ELSE -9223372036854775807 + i END, CASE WHEN i % 4 = 0 THEN i % 6 END
		FROM generate_series(first, last) i;
	INSERT INTO lg SELECT * FROM lg_heap WHERE id BETWEEN first AND last;
$$;
SELECT lg_fill(1, 1500);
CREATE TABLE lg_asked (k serial, what text, tail text DEFAULT '');
INSERT INTO lg_asked (what) VALUES
	('sum(price * disc), sum(price * (1 - disc)), sum(price * (1 - disc) * (1 + tax)), avg(price * disc), count(price * n)'),
	('sum(i4 + 1), sum(i4 - i2), sum(i2 * i4), sum(i8 + i4), avg(i4 * 2), sum(small * small - 3), sum(i2 + small::int2), max(i4 - i2), min(price - tax), max(1.5 - n), sum(-small)'),
	('sum(n + price), sum(n * tax), sum(n - 1.000), avg(n + n), min(n), max(n), sum(i4::numeric + price), sum(i8 * 2.5)'),
	('sum(i4 * i4)'), ('sum(i8 * 1000000000)'), ('sum(wide + wide)'), ('sum(wide + 100000)'), ('sum(i2 * 200::int2)'), ('sum(wide - 1), avg(wide)'),
	('sum(f8), avg(f8), sum(f4), avg(f4), min(f8), max(f8), bool_and(ok), bool_or(ok), every(ok), bit_or(i4), bit_and(nul), min(status), max(kind), min(rtrim(b)), max(flag)'),
	('min(status), max(kind), rtrim(min(b)), max(flag)'),
	('count(*)'), ('count(*), count(nul), count(price), count(ok)'), ('min(i4), max(i8), min(d), max(price), count(*), count(nul)'), ('max(id)'), ('min(price), max(tax), min(ts)'),
	('count(*), max(id), min(wide)'), ('min(n), max(n), min(f8), max(f4)'), ('min(nul), max(nul)'),
	('round(stddev(i4), 6), round(variance(price), 6), stddev(f8) > 0, variance(i8) > 0, stddev(i2) > 1'),
	('count(*) FILTER (WHERE i2 > 0), sum(price) FILTER (WHERE status = ''F''), avg(i4) FILTER (WHERE nul IS NULL AND id > 100), min(d) FILTER (WHERE ok), max(f8) FILTER (WHERE kind IN (''k1'', ''k2'')), sum(price * disc) FILTER (WHERE i2 < 0), count(nul) FILTER (WHERE id < 0)');
INSERT INTO lg_asked (what, tail) VALUES
	('flag, status, sum(small), sum(price), sum(price * (1 - disc)), sum(price * (1 - disc) * (1 + tax)), avg(i4), avg(price), avg(disc), count(*)', 'GROUP BY flag, status'),
	('kind, count(*), count(nul), sum(nul), min(i4), max(i8), min(n), max(n), sum(n), avg(n), max(ts), min(d), sum(wide)', 'GROUP BY kind'),
	('d, sum(i4), min(f8), max(f4), sum(f8), bool_or(ok)', 'GROUP BY d'), ('ok, nul, count(*), sum(i2)', 'GROUP BY nul, ok'), ('id, sum(i4), count(*)', 'GROUP BY id'),
	('i2, ts, kind, count(*), max(price)', 'GROUP BY i2, ts, kind'), ('status', 'GROUP BY status'), ('b = ''x'', count(*), min(id)', 'GROUP BY b'),
	('small, sum(i4) / count(*) + small, count(*) > 10', 'GROUP BY small HAVING sum(i4) > 1000 AND small <> 1'), ('flag, count(*) FILTER (WHERE ok), sum(price * tax) FILTER (WHERE d < ''1995-01-20'')', 'GROUP BY flag'),
	('sum(i4 * i4), flag', 'GROUP BY flag'), ('max(status), kind, flag', 'GROUP BY kind, flag'), ('count(*)', 'HAVING count(*) > 5'), ('count(*)', 'HAVING sum(price) < 0'),
	('n, count(*)', 'GROUP BY n'), ('id % 5, count(*)', 'GROUP BY id % 5'), ('flag, count(DISTINCT i2)', 'GROUP BY flag'), ('flag, status, count(*)', 'GROUP BY ROLLUP (flag, status)');
CREATE TABLE lg_where (w text);
INSERT INTO lg_where VALUES ('true'), ('id BETWEEN 100 AND 900'), ('id < 0'), ('disc BETWEEN 0.05 AND 0.07 AND small < 2'), ('i4 < 40000'), ('status = ''F'''), ('id >= 1'), ('price >= 0 AND wide IS NOT NULL'), ('disc <> 5 AND status COLLATE "C" <= ''P''');
CREATE FUNCTION lg_answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text;
BEGIN
	EXECUTE format('SELECT concat(count(*), string_agg(q::text, E''\n'' ORDER BY q::text)) FROM (%s) q', query) INTO a;
	RETURN a;
EXCEPTION WHEN numeric_value_out_of_range THEN
	RETURN SQLSTATE || SQLERRM;
END $$;
CREATE FUNCTION lg_check(OUT queries bigint, OUT errors bigint, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	a text;
	h text;
BEGIN
	queries := 0;
	errors := 0;
	FOR r IN SELECT * FROM lg_asked, lg_where ORDER BY k, w LOOP
		a := lg_answer(format('SELECT %s FROM lg WHERE %s %s', r.what, r.w, r.tail));
		h := lg_answer(format('SELECT %s FROM lg_heap WHERE %s %s', r.what, r.w, r.tail));
		IF a IS DISTINCT FROM h THEN
			wrong := concat_ws(E'\n', wrong, format('%s WHERE %s %s: %s not %s', r.what, r.w, r.tail, left(a, 500), left(h, 500)));
		END IF;
		queries := queries + 1;
		errors := errors + (a ~ '^22003')::int;
	END LOOP;
END $$;
SELECT * FROM lg_check();
SELECT count(*) AS flush FROM lsm_flush('lg');
SELECT * FROM lg_check();
VACUUM ANALYZE lg;
SELECT * FROM lg_check();
UPDATE lg SET price = price + 1, i4 = -i4, n = 'NaN', status = 'P' WHERE id % 300 = 1;
UPDATE lg_heap SET price = price + 1, i4 = -i4, n = 'NaN', status = 'P' WHERE id % 300 = 1;
DELETE FROM lg WHERE id % 500 = 2;
DELETE FROM lg_heap WHERE id % 500 = 2;
SELECT * FROM lg_check();
SELECT count(*) AS flush FROM lsm_flush('lg');
SELECT lg_fill(1501, 1650);
UPDATE lg SET n = CASE WHEN id % 2 = 0 THEN 'Infinity'::numeric ELSE 12345678901234567890.123 END, nul = 7, flag = 'Z' WHERE id % 400 = 3;
UPDATE lg_heap SET n = CASE WHEN id % 2 = 0 THEN 'Infinity'::numeric ELSE 12345678901234567890.123 END, nul = 7, flag = 'Z' WHERE id % 400 = 3;
BEGIN;
UPDATE lg SET flag = NULL, price = 0 WHERE id % 700 = 5;
UPDATE lg_heap SET flag = NULL, price = 0 WHERE id % 700 = 5;
SELECT * FROM lg_check();
ROLLBACK;
SELECT * FROM lg_check();
SELECT count(*) AS major FROM lsm_major_compact('lg');
VACUUM lg;
SELECT * FROM lg_check();
-- parallel plans
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
DELETE FROM lg_where WHERE w NOT IN ('true', 'id < 0', 'i4 < 40000');
SELECT * FROM lg_check();
EXPLAIN (VERBOSE, COSTS off) SELECT flag, status, sum(price * (1 - disc)), avg(i4), avg(i8), count(*), min(d), sum(f8), stddev(i4) FROM lg WHERE id > 5 GROUP BY flag, status HAVING count(*) > 1 ORDER BY 1, 2;
EXPLAIN (COSTS off) SELECT sum(price), count(*) FROM lg;
SELECT sum(i8), avg(i8), sum(i8) FILTER (WHERE id = 17), avg(wide) FILTER (WHERE id < 5), avg(price), avg(n) FILTER (WHERE id < 0), sum(wide), avg(wide) FROM lg;
SELECT sum(i8), avg(i8), sum(i8) FILTER (WHERE id = 17), avg(wide) FILTER (WHERE id < 5), avg(price), avg(n) FILTER (WHERE id < 0), sum(wide), avg(wide) FROM lg_heap;
-- with little memory it is not chosen; what if the planner expects fewer groups than there are?
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
EXPLAIN (COSTS off) SELECT id, i4, sum(price) AS s, count(*) AS c FROM lg GROUP BY id, i4;
CREATE TABLE lm (a int, b text, c numeric) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lm SELECT 1, 'x', 1 FROM generate_series(1, 5000) i;
ANALYZE lm;
TRUNCATE lm;
INSERT INTO lm SELECT i % 4000, 'some text ' || i % 4000, i FROM generate_series(1, 8000) i;
SELECT count(*) AS flush FROM lsm_flush('lm');
CREATE FUNCTION lg_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	FOR r IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off' || CASE WHEN current_setting('server_version_num')::int >= 180000 THEN ', BUFFERS off) ' ELSE ') ' END || query LOOP
		IF r !~ 'Planning|Memory|Storage:' THEN
			RETURN NEXT regexp_replace(regexp_replace(r, 'actual rows=(\d+)(\.00)?', 'actual rows=\1'), '(read=|skipped=|counted=|Passes: )[1-9]\d*', '\1N', 'g');
		END IF;
	END LOOP;
END $$;
EXPLAIN (COSTS off) SELECT a, b, sum(c), count(*) FROM lm GROUP BY a, b;
SELECT count(*), sum(s), min(n), max(n), count(DISTINCT b) FROM (SELECT a, b, sum(c) AS s, count(*) AS n FROM lm GROUP BY a, b) q;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SET max_parallel_workers_per_gather = 0;
SELECT lg_explain('SELECT a, b, sum(c), count(*) FROM lm GROUP BY a, b');
SELECT count(*), sum(s), min(n), max(n), count(DISTINCT b) FROM (SELECT a, b, sum(c) AS s, count(*) AS n FROM lm GROUP BY a, b) q;
SELECT x, (SELECT count(*) FROM (SELECT a, count(*) FROM lm WHERE a < x GROUP BY a) q) FROM generate_series(0, 4000, 2000) x;
RESET work_mem;
RESET hash_mem_multiplier;
-- the results of many groups, which are all made before the server's node gives one out, take nothing of the groups' memory
CREATE TABLE lres (g int, a numeric, b int8) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lres SELECT 1, i, i FROM generate_series(1, 5000) i;
ANALYZE lres;
TRUNCATE lres;
INSERT INTO lres SELECT i % 3000, i / 3.0, i::int8 << 33 FROM generate_series(1, 9000) i;
SELECT count(*) AS flush FROM lsm_flush('lres');
CREATE VIEW lres_groups AS SELECT g, sum(a) AS s1, avg(a + 1) AS s2, sum(b) AS s3, avg(b + 1) AS s4 FROM lres GROUP BY g;
CREATE VIEW lres_memory AS SELECT n, s, (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'lsm groups' AND n > 0) AS bytes
	FROM (SELECT count(*) AS n, sum(s1 + s2 + s3 + s4) AS s FROM (SELECT * FROM lres_groups OFFSET 0) q OFFSET 0) q;
SELECT n AS groups, s AS complete_sum, bytes AS complete FROM lres_memory \gset
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET max_parallel_workers = 0;
EXPLAIN (COSTS off) SELECT g, sum(a), avg(a + 1), sum(b), avg(b + 1) FROM lres GROUP BY g;
SELECT n, s = :complete_sum AS same, bytes > 0 AS groups, bytes <= :complete AS no_more FROM lres_memory;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS off) SELECT g, sum(a), avg(a + 1), sum(b), avg(b + 1) FROM lres GROUP BY g;
SELECT :groups AS n, :complete > 0 AS groups;
DROP VIEW lres_memory, lres_groups;
DROP TABLE lres;
-- what zone maps tell is not read
CREATE TABLE lz (id int, r int, p numeric(10,2), s text, nul int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lz SELECT i, i * 7919 % 20011, i * 7919 % 10007 / 100.0, md5(i::text), CASE WHEN i > 15000 THEN i END FROM generate_series(1, 20000) i;
VACUUM ANALYZE lz;
SELECT lg_explain('SELECT count(*), min(id), max(id), count(nul) FILTER (WHERE true) FROM lz');
SELECT lg_explain('SELECT count(*), max(p), count(s) FROM lz WHERE id > 0 AND id <= 20000 AND p < 1000 AND r <> -1 AND s IS NOT NULL');
SELECT lg_explain('SELECT count(*) FROM lz WHERE id > 7000');
SELECT lg_explain('SELECT min(r + 0), max(p) FROM lz');
SELECT count(*), max(p), count(s) FROM lz WHERE id > 0 AND id <= 20000 AND p < 1000 AND r <> -1 AND s IS NOT NULL;
SELECT count(*), count(nul), min(r), max(r), min(p), max(p), min(nul) FROM lz WHERE id > 7000;
SELECT count(*), count(nul), min(r), max(r), min(p), max(p), min(nul) FROM lz WHERE (id + 0) > 7000;
SELECT min(p), max(p), min(r) FROM lz;
UPDATE lz SET p = 5000 WHERE id = 10;
DELETE FROM lz WHERE p IN (0, 100.06);
SELECT min(p), max(p), min(r), max(id), min(id) FROM lz;
DELETE FROM lz WHERE id IN (1, 10, 20000);
SELECT min(p), max(p), min(r), max(id), min(id), count(*) FROM lz;
SELECT min(p), max(p), min(r), max(id), min(id), count(*) FROM lz WHERE (id + 0) > 0;
ALTER TABLE lz ADD COLUMN more int DEFAULT 7, ADD COLUMN none int;
SELECT count(more), min(more), max(more), count(none), min(none), count(*) FROM lz WHERE more > 0;
SELECT count(*), max(id) FROM lz WHERE none IS NULL;
SELECT count(*) AS major FROM lsm_major_compact('lz');
SELECT count(more), min(more), max(more), count(none), min(none), count(*), min(p), max(id) FROM lz WHERE more > 0;
SELECT id > 15000 AS g, count(*), count(nul), max(r) FROM lz GROUP BY id > 15000 ORDER BY 1;
-- sums of floats in the order of rows
CREATE TABLE lf (id int, g int, f4 float4, f8 float8) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lf SELECT i, i % 3, sin(i), exp((i % 100) - 50) * sin(i) FROM generate_series(1, 5000) i;
SELECT count(*) AS flush FROM lsm_flush('lf');
UPDATE lf SET f8 = cos(id) WHERE id % 77 = 0;
CREATE FUNCTION lf_all() RETURNS text LANGUAGE sql AS $$
	SELECT (SELECT q::text FROM (SELECT sum(f4), avg(f4), sum(f8), avg(f8), stddev(f8), var_pop(f8), min(f8), max(f4) FROM lf) q) ||
		(SELECT string_agg(q::text, ' ' ORDER BY g) FROM (SELECT g, sum(f4), avg(f4), sum(f8), avg(f8), stddev(f8) FROM lf GROUP BY g) q)
$$;
CREATE TABLE lf_result AS SELECT lf_all() AS a;
SET lsm.enable_lsmscan = off;
SELECT lf_all() = a AS same FROM lf_result;
RESET lsm.enable_lsmscan;
INSERT INTO lf VALUES (1, 7, '-Infinity', 'Infinity'), (2, 8, 'NaN', 'NaN'), (3, 9, 0, 1.7e308);
SELECT g, sum(f4), avg(f4), sum(f8), min(f8), max(f8) FROM lf WHERE g > 3 GROUP BY g ORDER BY g;
INSERT INTO lf VALUES (4, 9, 0, 1.7e308);
SELECT sum(f8) FROM lf WHERE g = 9;
SELECT g, sum(f8) FROM lf WHERE g > 7 GROUP BY g;
-- other types, beside the server's own nodes
CREATE TABLE lx (id int, iv interval, m money, o oid, c "char", b bool, n numeric, i8 int8, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lx SELECT i, i * interval '1 hour', i::text::money, i * 2000000::bigint, (chr(65 + i % 5))::"char", i % 3 = 0, i / 3.0, i::int8 << 40, 't' || i % 9 FROM generate_series(1, 2000) i;
SELECT count(*) AS flush FROM lsm_flush('lx');
UPDATE lx SET iv = iv * 2, m = m * 2, n = -n WHERE id % 50 = 0;
DELETE FROM lx WHERE id % 61 = 0;
CREATE FUNCTION lx_all() RETURNS text LANGUAGE sql AS $$
	SELECT (SELECT q::text FROM (SELECT sum(iv), avg(iv), min(iv), max(iv), sum(m), min(m), max(m), min(o), max(o), min(t), sum(-i8), bit_or(i8), variance(i8), stddev(n) FROM lx) q) ||
		(SELECT string_agg(q::text, ' ' ORDER BY q::text) FROM (SELECT c, b, sum(iv), avg(n), max(m), sum(i8) FROM lx GROUP BY c, b) q) ||
		(SELECT string_agg(q::text, ' ' ORDER BY q::text) FROM (SELECT o, t, avg(iv), sum(n) FROM lx GROUP BY o, t) q)
$$;
CREATE TABLE lx_result AS SELECT lx_all() AS a;
SET lsm.enable_lsmscan = off;
SELECT lx_all() = a AS same FROM lx_result;
RESET lsm.enable_lsmscan;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT lx_all() = a AS same FROM lx_result;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SET max_parallel_workers_per_gather = 0;
-- of equal numerics and floats the last one counts
CREATE TABLE lt (id int, n numeric, f float8) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lt SELECT i, 1.0, 0 FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('lt');
UPDATE lt SET n = 1.000, f = '-0' WHERE id = 50;
SELECT min(n), max(n), min(f), max(f) FROM lt;
SELECT min(n), max(n), min(f), max(f) FROM lt WHERE id <= 50;
SELECT max(n + 0), min(n * 1.0) FROM lt WHERE id <= 50;
-- partitions by themselves, formats of EXPLAIN
SET enable_partitionwise_aggregate = on;
CREATE TABLE lp (a int, b int, c numeric) PARTITION BY LIST (a);
CREATE TABLE lp1 PARTITION OF lp FOR VALUES IN (1) USING lsm;
CREATE TABLE lp2 (c numeric, b int, a int) USING lsm;
ALTER TABLE lp ATTACH PARTITION lp2 FOR VALUES IN (2);
INSERT INTO lp SELECT i % 2 + 1, i % 10, i FROM generate_series(1, 1000) i;
ANALYZE lp;
EXPLAIN (COSTS off) SELECT a, b, sum(c * 2), count(*) FROM lp WHERE b < 4 GROUP BY a, b;
SELECT a, b, sum(c * 2), count(*) FROM lp WHERE b < 4 GROUP BY a, b ORDER BY a, b;
SELECT a, max(b) FROM lp GROUP BY a HAVING max(b) > 8 ORDER BY a;
RESET enable_partitionwise_aggregate;
CREATE FUNCTION lg_plan(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	a jsonb;
BEGIN
	EXECUTE 'EXPLAIN (COSTS off, FORMAT JSON) ' || query INTO a;
	RETURN a -> 0 -> 'Plan';
END $$;
SELECT p ->> 'Custom Plan Provider' AS node, p -> 'Group Key' AS keys, p -> 'LSM Aggregates' AS aggregates, p ->> 'Filter' AS filter
	FROM lg_plan('SELECT flag, status, max(i4 + small) FROM lg WHERE id > 3 GROUP BY status, flag HAVING count(*) > 1') p;
-- parameters, prepared plans, outer rows, security barriers
PREPARE lg_of (int, text) AS SELECT flag, count(*) FILTER (WHERE i2 > $1), sum(price * disc) FROM lg WHERE status = $2 GROUP BY flag ORDER BY flag;
SET plan_cache_mode = force_generic_plan;
EXECUTE lg_of (0, 'F');
EXECUTE lg_of (140, 'O');
EXECUTE lg_of (NULL, NULL);
RESET plan_cache_mode;
SELECT x.s, q.* FROM (VALUES ('F'), ('none'), ('O')) x (s), LATERAL (SELECT count(*), sum(i4 + i2), max(d) FROM lg WHERE status = x.s) q;
SELECT x.s, q.* FROM (VALUES ('F'), ('none'), ('O')) x (s) LEFT JOIN LATERAL (SELECT flag, count(*) FROM lg WHERE status = x.s GROUP BY flag) q ON true ORDER BY 1, 2;
SELECT x.v, (SELECT count(*) FILTER (WHERE i2 > x.v) FROM lg), (SELECT max(i4) FILTER (WHERE i2 > (SELECT x.v + 100)) FROM lg) FROM (VALUES (0), (40), (140)) x (v);
CREATE ROLE regress_lg;
CREATE POLICY lg_policy ON lg TO regress_lg USING (small = 1);
ALTER TABLE lg ENABLE ROW LEVEL SECURITY;
GRANT SELECT (id, flag, small, price) ON lg TO regress_lg;
SET ROLE regress_lg;
SELECT flag, small, count(*), sum(price + small) FROM lg WHERE id < 100 GROUP BY flag, small ORDER BY 1;
SELECT flag, sum(disc) FROM lg GROUP BY flag;
RESET ROLE;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT flag, count(*) FROM lg WHERE id < 50 GROUP BY flag ORDER BY flag;
SELECT mode FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 'lg'::regclass;
COMMIT;
DROP TABLE lg, lg_heap, lg_asked, lg_where, lm, lf, lf_result, lx, lx_result, lt, lp, lz;
DROP ROLE regress_lg;
DROP FUNCTION lg_fill, lg_answer, lg_check, lg_explain, lg_plan, lf_all, lx_all;
