--
-- LsmAgg: aggregates that are computed inside the scan
--
CREATE TABLE la (id int, i2 int2, i4 int4, i8 int8, n numeric(10,2), x numeric, d date, t time, ts timestamp, tz timestamptz, f4 float4, f8 float8,
	s text, v varchar(10), nul int, wide int8) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE la_heap (LIKE la);
CREATE FUNCTION la_fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO la_heap SELECT i, i % 1000 - 500, i * 1000, i::int8 << 40, (i % 977) / 100.0 - 3,
		CASE WHEN i % 5 = 0 THEN i * 1e25 WHEN i % 7 = 0 THEN 1.0 WHEN i % 11 = 0 THEN 1.000 ELSE i / 3.0 END,
		'2000-01-01'::date + i % 300, '00:00'::time + i * interval '1 s', '2000-01-01'::timestamp + i * interval '1 h', '2000-01-01'::timestamptz - i * interval '1 h',
		CASE WHEN i % 100 = 0 THEN '-0' WHEN i % 3 = 0 THEN 0 ELSE -(i % 50) / 4.0 END, CASE WHEN i % 101 = 0 THEN 'NaN' ELSE i * 1.5 END,
		's' || i, CASE WHEN i % 2 = 0 THEN 'v' END, CASE WHEN i % 4 = 0 THEN i END, CASE WHEN i % 2 = 0 THEN 9223372036854775807 ELSE -9223372036854775808 END
		FROM generate_series(first, last) i;
	INSERT INTO la SELECT * FROM la_heap WHERE id BETWEEN first AND last;
$$;
SELECT la_fill(1, 3000);
CREATE TABLE la_asked (k serial, what text);
INSERT INTO la_asked (what) VALUES ('count(*)'), ('count(*), count(nul), count(v), count(s), count(id)'), ('sum(i2), sum(i4), sum(i8), sum(n), sum(x), sum(nul), sum(wide)'),
	('avg(i2), avg(i4), avg(i8), avg(n), avg(x), avg(nul), avg(wide)'), ('min(i2), min(i4), min(i8), min(n), min(x), min(d), min(t), min(ts), min(tz), min(f4), min(f8), min(nul), min(wide)'),
	('max(i2), max(i4), max(i8), max(n), max(x), max(d), max(t), max(ts), max(tz), max(f4), max(f8), max(nul), max(wide)'),
	('sum(i4) / count(*) + max(nul), round(avg(n), 3), count(*) > 10, 5, now() IS NULL'), ('count(*), sum(f8), max(s)'), ('count(DISTINCT i2), sum(i4) FILTER (WHERE id > 5)'), ('sum(i4 + 1), count(*)'),
	('sum(-i2), sum(-i4), avg(-i8), sum(-n), min(-n), avg(-nul), max(-(n * 2) - i4)'), ('sum(-f4), sum(-f8), min(-f4), max(-f8), avg(-(f8 * 2))'),
	('sum(d - date ''2000-01-01''), min(d - d), max(date ''2001-01-01'' - d), avg(d - date ''1999-05-05''), sum((d - date ''2000-01-01'') * i2)');
CREATE TABLE la_where (w text);
INSERT INTO la_where VALUES ('true'), ('id BETWEEN 100 AND 900'), ('nul IS NULL'), ('id < 0'), ('n > 1.5 AND d < ''2000-05-01'''), ('v = ''v'' AND i2 <> 7'), ('x = 1'), ('s LIKE ''s1%''');
CREATE FUNCTION la_check(OUT queries bigint, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	a text;
	h text;
BEGIN
	queries := 0;
	FOR r IN SELECT * FROM la_asked, la_where ORDER BY k, w LOOP
		EXECUTE format('SELECT q::text FROM (SELECT %s FROM la WHERE %s) q', r.what, r.w) INTO a;
		EXECUTE format('SELECT q::text FROM (SELECT %s FROM la_heap WHERE %s) q', r.what, r.w) INTO h;
		IF a IS DISTINCT FROM h THEN
			wrong := concat_ws(E'\n', wrong, format('%s WHERE %s: %s not %s', r.what, r.w, a, h));
		END IF;
		queries := queries + 1;
	END LOOP;
END $$;
SELECT * FROM la_check();
SELECT count(*) AS flush FROM lsm_flush('la');
SELECT * FROM la_check();
VACUUM la;
SELECT * FROM la_check();
UPDATE la SET n = n + 1, i4 = -i4, x = 'NaN' WHERE id % 300 = 1;
UPDATE la_heap SET n = n + 1, i4 = -i4, x = 'NaN' WHERE id % 300 = 1;
DELETE FROM la WHERE id % 500 = 2;
DELETE FROM la_heap WHERE id % 500 = 2;
SELECT * FROM la_check();
SELECT count(*) AS flush FROM lsm_flush('la');
SELECT la_fill(3001, 3300);
UPDATE la SET x = CASE WHEN id % 2 = 0 THEN 'Infinity'::numeric ELSE 12345678901234567890.123 END, nul = 7 WHERE id % 400 = 3;
UPDATE la_heap SET x = CASE WHEN id % 2 = 0 THEN 'Infinity'::numeric ELSE 12345678901234567890.123 END, nul = 7 WHERE id % 400 = 3;
SELECT * FROM la_check();
SELECT count(*) AS major FROM lsm_major_compact('la');
SELECT * FROM la_check();
ALTER TABLE la ADD COLUMN more int DEFAULT 3, ADD COLUMN none int, DROP COLUMN i2;
ALTER TABLE la_heap ADD COLUMN more int DEFAULT 3, ADD COLUMN none int, DROP COLUMN i2;
DELETE FROM la_where WHERE w LIKE '%i2%';
UPDATE la_asked SET what = replace(what, 'i2', 'i4');
INSERT INTO la_asked (what) VALUES ('count(*), sum(more), max(none), count(none), count(more), avg(more)');
SELECT * FROM la_check();
UPDATE la SET s = repeat(s, 5000) WHERE id = 77;
UPDATE la_heap SET s = repeat(s, 5000) WHERE id = 77;
SELECT count(*) AS major FROM lsm_major_compact('la');
SELECT * FROM la_check();

-- there is no difference from an infinite date, if somebody asks for it; and no negative of some numbers
UPDATE la SET d = 'infinity' WHERE id = 50;
SELECT count(*) AS major FROM lsm_major_compact('la');
SELECT sum(d - date '2000-01-01') = (SELECT sum(d - date '2000-01-01') FROM la_heap WHERE id <> 50) AS same FROM la WHERE id <> 50;
SELECT sum(d - date '2000-01-01') FROM la;
SELECT sum(-wide) FROM la;
SELECT sum(-wide) FROM la WHERE wide > 0 AND id < 5;

-- plans, and what is not read
CREATE FUNCTION la_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	FOR r IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off' || CASE WHEN current_setting('server_version_num')::int >= 180000 THEN ', BUFFERS off) ' ELSE ') ' END || query LOOP
		IF r !~ 'Planning|Memory|Storage:' THEN
			RETURN NEXT regexp_replace(regexp_replace(r, 'actual rows=(\d+)(\.00)?', 'actual rows=\1'), '(read|skipped|counted)=[1-9]\d*', '\1=N', 'g');
		END IF;
	END LOOP;
END $$;
CREATE TABLE lc (id int, v int, s text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lc SELECT i, i % 10, md5(i::text) FROM generate_series(1, 20000) i;
VACUUM ANALYZE lc;
SELECT la_explain('SELECT count(*) FROM lc');
SELECT la_explain('SELECT count(*), sum(v), min(id) FROM lc WHERE id < 500');
SELECT la_explain('SELECT count(*) FROM lc WHERE length(s) = 32 AND id < 500');
SELECT la_explain('SELECT v, count(*) FROM lc GROUP BY v HAVING count(*) > 99999');
SELECT la_explain('SELECT sum(v) FROM lc HAVING sum(v) > 99999999');
SELECT la_explain('SELECT sum(v) FROM lc WHERE 1 = 2');
EXPLAIN (COSTS off) SELECT sum(-i4), max(-f8), avg(d - date '2000-01-01') FROM la;
EXPLAIN (VERBOSE, COSTS off) SELECT sum(v) + 1 AS more, count(*) FROM lc WHERE id < 500 AND s LIKE '1%';
-- exact counts: own rows, others' snapshots, deleted rows, savepoints
BEGIN;
DELETE FROM lc WHERE id = 100;
INSERT INTO lc VALUES (30000, 1, 'new'), (30001, 1, 'new');
SELECT la_explain('SELECT count(*) FROM lc');
SELECT count(*) FROM lc;
SAVEPOINT s;
DELETE FROM lc WHERE id < 1000;
SELECT count(*), sum(v) FROM lc;
ROLLBACK TO s;
SELECT count(*), sum(v) FROM lc;
ROLLBACK;
SELECT count(*), sum(v) FROM lc;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM lc;
SELECT count(*), max(id) FROM lc WHERE v = 3;
COMMIT;
-- run again with other parameters; in subqueries; with a union of tables
SELECT x, (SELECT count(*) FROM lc WHERE id <= x), (SELECT sum(id) FROM lc WHERE id BETWEEN x AND x + 1) FROM generate_series(0, 20000, 5000) x;
PREPARE lc_of (int) AS SELECT count(*), min(id), max(id) FROM lc WHERE v = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE lc_of (3);
EXECUTE lc_of (NULL);
RESET plan_cache_mode;
SELECT count(*) FROM (SELECT * FROM lc WHERE id < 10 UNION ALL SELECT * FROM lc WHERE id > 19990) u;
SELECT * FROM (SELECT count(*) AS n FROM lc) a, (SELECT sum(v) AS s FROM lc WHERE id < 100) b WHERE a.n > b.s;
WITH c AS (SELECT max(id) AS m FROM lc) UPDATE lc SET v = -1 FROM c WHERE id = m RETURNING id, v;
SELECT min(v) FROM lc;
-- partial aggregates of partitions, rules of rows
SET enable_partitionwise_aggregate = on;
CREATE TABLE lq (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE lq1 PARTITION OF lq FOR VALUES FROM (0) TO (100) USING lsm;
CREATE TABLE lq2 PARTITION OF lq FOR VALUES FROM (100) TO (200) USING lsm;
INSERT INTO lq SELECT i, i FROM generate_series(0, 199) i;
SELECT count(*), sum(b), avg(b) FROM lq WHERE a > 50;
RESET enable_partitionwise_aggregate;
CREATE ROLE regress_lc;
CREATE POLICY lc_policy ON lc TO regress_lc USING (v = 5);
ALTER TABLE lc ENABLE ROW LEVEL SECURITY;
GRANT SELECT (id, v) ON lc TO regress_lc;
SET ROLE regress_lc;
SELECT count(*), sum(v), min(id) FROM lc WHERE id < 100;
SELECT max(s) FROM lc;
RESET ROLE;
BEGIN;
REVOKE EXECUTE ON FUNCTION avg(int) FROM public;
SET LOCAL ROLE regress_lc;
SELECT avg(v) FROM lc;
ROLLBACK;
DROP TABLE la, la_heap, la_asked, la_where, lc, lq;
DROP ROLE regress_lc;
DROP FUNCTION la_fill, la_check, la_explain;

-- numbers stored in any number of bits, plain, multiplied, in runs and distinct ones; ranges of them from two sides
CREATE TABLE lw (id int) USING lsm WITH (autovacuum_enabled = off);
CREATE FUNCTION lw_check(OUT queries bigint, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	form text;
	a text;
	h text;
	lo int8;
	hi int8;
BEGIN
	queries := 0;
	FOR w IN 1 .. 20 LOOP
		FOREACH form IN ARRAY ARRAY['v', 'v * 37 - 5', '(v % 9) * 1000003 * (1::int8 << bits)', '(i / 7 * 7919) % 64 + i % 7',
			'v / 100.0', 'CASE WHEN i % 5 <> 2 THEN v END'] LOOP
			DROP TABLE IF EXISTS lw, lw_heap;
			EXECUTE format('CREATE TABLE lw_heap AS SELECT i AS id, %s AS c FROM (SELECT i, hashint8extended(i, %s) & ((1::int8 << %s) - 1) AS v
				FROM generate_series(1, %s) i) q', replace(form, 'bits', w::text), w, w, 1003 + w);
			CREATE TABLE lw USING lsm WITH (autovacuum_enabled = off) AS SELECT * FROM lw_heap;
			PERFORM lsm_flush('lw');
			SELECT min(c) + (max(c) - min(c)) / 4, max(c) - (max(c) - min(c)) / 3 INTO lo, hi FROM lw_heap;
			EXECUTE format('SELECT q::text FROM (SELECT count(*), sum(c), sum(id), min(c), avg(c) FILTER (WHERE id > 77), (SELECT count(*) FROM lw WHERE c >= %s AND c < %s AND c <> %s),
				(SELECT sum(c) FROM lw WHERE c BETWEEN %s AND %s AND id < 900 AND id >= 13), (SELECT sum(id) FROM lw WHERE c > %s AND c < %s), (SELECT count(*) FROM lw WHERE id < 3 AND c <= %s) FROM lw) q',
				lo, hi, lo, lo, hi, hi, lo, hi) INTO a;
			EXECUTE format('SELECT q::text FROM (SELECT count(*), sum(c), sum(id), min(c), avg(c) FILTER (WHERE id > 77), (SELECT count(*) FROM lw_heap WHERE c >= %s AND c < %s AND c <> %s),
				(SELECT sum(c) FROM lw_heap WHERE c BETWEEN %s AND %s AND id < 900 AND id >= 13), (SELECT sum(id) FROM lw_heap WHERE c > %s AND c < %s), (SELECT count(*) FROM lw_heap WHERE id < 3 AND c <= %s) FROM lw_heap) q',
				lo, hi, lo, lo, hi, hi, lo, hi) INTO h;
			IF a IS DISTINCT FROM h THEN
				wrong := concat_ws(E'\n', wrong, format('%s of %s bits: %s not %s', form, w, a, h));
			END IF;
			queries := queries + 1;
		END LOOP;
	END LOOP;
END $$;
SET client_min_messages = warning;
SELECT * FROM lw_check();
RESET client_min_messages;
DROP TABLE lw_heap;
DROP FUNCTION lw_check;

-- a cursor over an aggregate has no current row
BEGIN;
EXPLAIN (COSTS off) SELECT count(*), sum(id) FROM lw;
DECLARE c CURSOR FOR SELECT count(*), sum(id) FROM lw;
MOVE c;
UPDATE lw SET id = 0 WHERE CURRENT OF c;
ROLLBACK;
DROP TABLE lw;
