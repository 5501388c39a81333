--
-- LsmScan: conditions by column, zone maps, and what makes rows special
--
CREATE TABLE ls (id int, i2 int2, i8 int8, d date, ts timestamp, tz timestamptz, t time, n numeric(12,3), big numeric,
	f4 float4, f8 float8, b bool, o oid, s text, v varchar(20), c char(8), u uuid, by bytea, nul int, few text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE ls_heap (LIKE ls);
CREATE FUNCTION ls_fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO ls_heap SELECT i, i % 200 - 100, i::int8 * 10000000000, '2000-01-01'::date + i / 20,
		CASE WHEN i % 997 = 0 THEN 'infinity' WHEN i % 991 = 0 THEN '-infinity' ELSE '2000-01-01'::timestamp + i * interval '7 min' END,
		'2000-01-01 00:00+00'::timestamptz + i * interval '11 min', '00:00'::time + i * interval '1 s', (i * 37 % 10000) / 1000.0 - 2,
		CASE i % 7 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN i * 1e30 ELSE i / 3.0 END,
		CASE i % 11 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '-Infinity' ELSE (i % 100 - 50) / 8.0 END,
		CASE i % 13 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'Infinity' ELSE (i % 1000 - 500) * 1.1 END,
		i % 3 = 0, CASE WHEN i % 2 = 0 THEN i ELSE 4294967295 - i END, md5(i::text), 'v' || i % 37, 'c' || i % 5, md5((i / 2)::text)::uuid,
		decode(md5(i::text), 'hex'), CASE WHEN i % 10 = 0 THEN i END, CASE WHEN i % 50 > 2 THEN 'PROMO ' || i % 4 ELSE 'other' END
		FROM generate_series(first, last) i;
	INSERT INTO ls SELECT * FROM ls_heap WHERE id BETWEEN first AND last;
$$;
SELECT ls_fill(1, 1500);

-- the conditions: those that are looked at by column, and some that are not
CREATE TABLE ls_cond (k serial, cond text);
INSERT INTO ls_cond (cond) VALUES
	('id = 77'), ('id <> 77'), ('id < 100'), ('id <= 100'), ('id > 1450'), ('id >= 1450'), ('100 > id'), ('100 <= id'), ('id BETWEEN 500 AND 700'),
	('id = 77::int8'), ('id < 99999999999'), ('id > -99999999999'), ('i2 = 5::int8'), ('i8 < 500000000000'), ('i8 = 10'), ('i2 < -90::int2'), ('id < -2147483648'),
	('id = ANY (''{5,7,1499,NULL,20000}'')'), ('id = ANY (''{}''::int[])'), ('id = ANY (NULL::int[])'), ('id <> ALL (''{5,7}'')'), ('id < ANY (''{5,7}'')'), ('id > ANY (''{1490,1495}'')'),
	('i8 IN (50000000000, 70000000000)'), ('d IN (''2000-02-01'', ''2001-01-01'')'), ('n IN (0.5, 1.25, -2)'), ('s IN (md5(''5''), md5(''6''))'),
	('d = ''2000-02-01'''), ('d < ''2000-02-01'''), ('d >= ''2001-01-01'' AND d < date ''2001-01-01'' + interval ''1 month'''), ('d > timestamp ''2000-05-05 12:00'''),
	('d <= timestamp ''2000-05-05 12:00'''), ('d = timestamp ''2000-05-05'''), ('d <> timestamp ''2000-05-05 01:00'''), ('d < timestamp ''infinity'''), ('d > timestamp ''-infinity'''), ('d < timestamp ''1999-12-31 23:59'''),
	('ts > ''infinity'''), ('ts = ''infinity'''), ('ts <= ''-infinity'''), ('ts < ''2000-01-20'''), ('tz < ''2000-01-20 00:00+00'''), ('t < ''00:10'''),
	('n = 0.5'), ('n < 0.5'), ('n <= 0.5'), ('n > 0.5005'), ('n >= 0.5005'), ('n = 0.5005'), ('n <> 0.5005'), ('n <> 0.5'), ('n < ''NaN'''), ('n > ''NaN'''), ('n < ''Infinity'''), ('n > ''-Infinity'''), ('n < -1e40'), ('n < 1e40'),
	('big = ''NaN'''), ('big > 1e33'), ('big < 100'), ('big <= ''-Infinity'''), ('big <> ''NaN'''),
	('f4 = 0'), ('f4 < 0'), ('f4 <= -6.25'), ('f4 > 6'), ('f4 = ''NaN'''), ('f4 > ''Infinity'''), ('f4 < ''-Infinity'''), ('f4 < 0.1::float8'), ('f8 = 0'), ('f8 < 0'), ('f8 >= 100.1::float4'), ('f8 = ''NaN'''), ('f8 <> ''NaN'''), ('f8 < ''NaN'''),
	('b'), ('NOT b'), ('b IS TRUE'), ('b = false'), ('o < 100'), ('o > 4294967000'), ('o = 44'), ('nul IS NULL'), ('nul IS NOT NULL'), ('nul = 50'), ('nul <> 50'), ('nul IS DISTINCT FROM 50'),
	('s = md5(''5'')'), ('s < ''1'''), ('s <> md5(''5'')'), ('s LIKE ''12%'''), ('s ~ ''^ff'''), ('v = ''v5'''), ('v LIKE ''v_'''), ('v > ''v30'''), ('v IN (''v1'', ''v2'', ''zzz'')'), ('c = ''c1'''), ('c = ''c1   '''), ('c LIKE ''c1%'''),
	('u = md5(''100'')::uuid'), ('u < ''10000000-0000-0000-0000-000000000000'''), ('by = decode(md5(''9''), ''hex'')'), ('by < ''\x10'''), ('few LIKE ''PROMO%'''), ('few = ''other'''), ('few NOT LIKE ''%1'''), ('s COLLATE "C" < ''05'''),
	('id = id'), ('id % 100 = 1 AND id < 1000'), ('id < 1000 AND nul IS NOT NULL AND b'), ('id > 1400 OR id < 10'), ('length(s) = 32 AND id < 50'), ('now() > tz AND id < 30'), ('id = (SELECT max(id) - 5 FROM ls_heap WHERE id < 5000)'), ('id < NULL::int'),
	('random() >= 0 AND id < 20');
-- how strings begin, and lists
INSERT INTO ls_cond (cond) VALUES
	('s LIKE ''ff%'''), ('s LIKE ''f%a'''), ('s LIKE ''f%%'''), ('s LIKE ''\f\f%'''), ('s LIKE ''f_f%'''), ('s LIKE ''%ff'''), ('s LIKE ''%'''), ('s LIKE '''''), ('s LIKE md5(''5'')'), ('s LIKE NULL'), ('s LIKE ''zz%'''),
	('s LIKE ''ff\%'''), ('s LIKE ''ff\_%'''), ('s NOT LIKE ''ff%'''), ('s LIKE ''changed%'''), ('s LIKE ''0%'''), ('s LIKE ''00%'''), ('s ^@ ''ff'''), ('s ^@ '''''), ('s ^@ ''ffffffffffffffffffffffffffffffffffff'''), ('''ff00'' ^@ s'), ('''ff'' LIKE s'),
	('v LIKE ''v3%'''), ('v LIKE ''v%'''), ('v LIKE ''w%'''), ('v ^@ ''v3'''), ('by LIKE ''\x0125''::bytea'), ('by LIKE ''\\001%'''), ('by LIKE md5(''x'')::bytea'), ('few LIKE ''PROMO%'''), ('few LIKE ''PROMO%1'''), ('few LIKE ''PROMO_1'''), ('few LIKE ANY (''{PROMO%,o%}'')'), ('few LIKE ALL (''{PROMO%,%1}'')'),
	('s COLLATE "C" LIKE ''1%'''), ('c LIKE ''c1%'''), ('s LIKE (SELECT ''a'' || max(''b%''::text) FROM ls_cond)'), ('s LIKE few || ''%'''), ('few LIKE ''PROMO%'' AND s LIKE ''0%'' AND id < 1000'),
	('id NOT IN (5, 7, 20000)'), ('id NOT IN (5, 7, NULL)'), ('id <> ALL (''{}''::int[])'), ('nul <> ALL (''{}''::int[])'), ('nul NOT IN (50, 51)'), ('nul NOT IN (51, 52)'), ('id <> ALL (NULL::int[])'), ('id <> ANY (''{5,7}'')'), ('id <> ALL (ARRAY[5, (SELECT 7)])'),
	('i8 NOT IN (50000000000, 99999999999999)'), ('d NOT IN (''2000-02-01'', ''2001-01-01'')'), ('b NOT IN (true, true)'), ('b IN (true, false)'), ('o IN (44, 4294967000, 4294967001)'), ('f4 IN (0, ''NaN'', 1.5)'), ('f4 NOT IN (0, ''NaN'', 1.5)'), ('f8 IN (''-0'', ''Infinity'')'),
	('n IN (0.5, 0.5005, 1e40, ''NaN'', -2, 7.999)'), ('n NOT IN (0.5, 0.5005, 1e40, ''NaN'')'), ('n IN (''NaN'', ''Infinity'')'), ('n NOT IN (''NaN'', ''-Infinity'')'), ('n IN (NULL, 0.25)'), ('big IN (''NaN'', ''Infinity'', 3)'), ('big NOT IN (''NaN'', ''Infinity'', 3)'), ('big IN (1.0000, 5e30, 33)'),
	('s NOT IN (md5(''5''), md5(''6''))'), ('s NOT IN (md5(''5''), NULL)'), ('v NOT IN (''v1'', ''v2'')'), ('c IN (''c1'', ''c3    '', ''x'')'), ('c NOT IN (''c1'', ''c3    '')'), ('u IN (md5(''100'')::uuid, md5(''7'')::uuid)'), ('by IN (decode(md5(''9''), ''hex''), ''\x00'')'), ('by NOT IN (decode(md5(''9''), ''hex''), ''\x00'')'),
	('id = ANY (ARRAY(SELECT i * 3 FROM generate_series(1, 400) i))'), ('s = ANY (ARRAY(SELECT md5((i * 3)::text) FROM generate_series(1, 400) i))'), ('n = ANY (ARRAY(SELECT i / 100.0 FROM generate_series(-300, 900) i))'), ('few IN (''other'', ''PROMO 1'', ''PROMO 3'')'), ('few NOT IN (''other'', ''PROMO 1'', ''PROMO 3'')'), ('s > ANY (''{e,f}'')');

-- for each of them, the rows that heap finds and ours finds
CREATE FUNCTION ls_check(OUT conditions bigint, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	a text;
	h text;
BEGIN
	conditions := 0;
	FOR r IN SELECT * FROM ls_cond ORDER BY k LOOP
		EXECUTE 'SELECT count(*) || '':'' || coalesce(sum(hashtextextended(ls::text, 0)::numeric), 0) FROM ls WHERE ' || r.cond INTO a;
		EXECUTE 'SELECT count(*) || '':'' || coalesce(sum(hashtextextended(ls::text, 0)::numeric), 0) FROM ls_heap ls WHERE ' || r.cond INTO h;
		IF a IS DISTINCT FROM h THEN
			wrong := concat_ws('; ', wrong, r.cond || ' ' || coalesce(a, 'null') || ' not ' || h);
		END IF;
		EXECUTE 'SELECT count(*) FROM ls WHERE ' || r.cond INTO a;
		IF a <> split_part(h, ':', 1) THEN
			wrong := concat_ws('; ', wrong, r.cond || ' count ' || a || ' not ' || h);
		END IF;
		conditions := conditions + 1;
	END LOOP;
END $$;
SELECT * FROM ls_check();
SELECT count(*) AS flush FROM lsm_flush('ls');
SELECT * FROM ls_check();
-- changed rows, in the memtable, then in increments, then in the bottom
CREATE FUNCTION ls_change(step int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	FOREACH r IN ARRAY '{ls,ls_heap}'::text[] LOOP
		EXECUTE format('UPDATE %I SET id = id + 20000, n = n + 0.5005, nul = 50 WHERE id %% 500 = %s', r, step);
		EXECUTE format('UPDATE %I SET few = ''changed'', s = ''0'' || s, d = ''2030-01-01'', f8 = 5 WHERE i8 %% 3000000000000 = %s0000000000', r, step + 1);
		EXECUTE format('DELETE FROM %I WHERE id %% 700 = %s', r, step + 2);
	END LOOP;
END $$;
SELECT ls_change(1);
SELECT * FROM ls_check();
SELECT count(*) AS flush FROM lsm_flush('ls');
SELECT * FROM ls_check();
SELECT ls_change(11), ls_fill(1501, 1800);
SELECT * FROM ls_check();
SELECT count(*) AS flush FROM lsm_flush('ls');
SELECT ls_change(21);
SELECT * FROM ls_check();
SELECT count(*) AS major FROM lsm_major_compact('ls');
SELECT * FROM ls_check();
-- columns that segments do not have, with and without a default
ALTER TABLE ls ADD COLUMN added int DEFAULT 5, ADD COLUMN empty text;
ALTER TABLE ls_heap ADD COLUMN added int DEFAULT 5, ADD COLUMN empty text;
INSERT INTO ls_cond (cond) VALUES ('added = 5'), ('added <> 5'), ('added IS NULL'), ('empty IS NULL'), ('empty = ''x'''), ('added = 5 AND id < 100 AND empty IS NULL');
UPDATE ls SET added = 6, empty = 'x' WHERE i8 % 500000000000 = 0;
UPDATE ls_heap SET added = 6, empty = 'x' WHERE i8 % 500000000000 = 0;
SELECT * FROM ls_check();
SELECT count(*) AS major FROM lsm_major_compact('ls');
SELECT * FROM ls_check();
ALTER TABLE ls DROP COLUMN i2, DROP COLUMN c;
ALTER TABLE ls_heap DROP COLUMN i2, DROP COLUMN c;
DELETE FROM ls_cond WHERE cond LIKE 'i2%' OR cond LIKE 'c %';
SELECT * FROM ls_check();
-- large values among others
UPDATE ls SET s = repeat(s, 500) WHERE i8 = 50000000000;
UPDATE ls_heap SET s = repeat(s, 500) WHERE i8 = 50000000000;
ALTER TABLE ls ALTER COLUMN by SET STORAGE EXTERNAL;
UPDATE ls SET by = decode(repeat(md5(id::text), 1000), 'hex') WHERE i8 = 60000000000;
UPDATE ls_heap SET by = decode(repeat(md5(id::text), 1000), 'hex') WHERE i8 = 60000000000;
SELECT count(*) AS major FROM lsm_major_compact('ls');
SELECT * FROM ls_check();
SELECT c AS problem FROM lsm_check('ls') c;

-- what is skipped and what is shown
CREATE FUNCTION ls_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	FOR r IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off' || CASE WHEN current_setting('server_version_num')::int >= 180000 THEN ', BUFFERS off) ' ELSE ') ' END || query LOOP
		IF r !~ 'Planning|Memory|Storage:|InitPlan 1$|InitPlan 1 .returns|Result' THEN
			r := regexp_replace(r, '\$0|\(InitPlan 1\)\.col1', 'value');
			RETURN NEXT regexp_replace(regexp_replace(r, 'actual rows=(\d+)(\.00)?', 'actual rows=\1'), '(read|skipped|counted)=[1-9]\d*', '\1=N', 'g');
		END IF;
	END LOOP;
END $$;
CREATE TABLE lz (id int, d date, s text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lz SELECT i, '2000-01-01'::date + i / 100, md5(i::text) FROM generate_series(1, 20000) i;
VACUUM ANALYZE lz;
SELECT ls_explain('SELECT s FROM lz WHERE id BETWEEN 100 AND 105');
SELECT ls_explain('SELECT * FROM lz WHERE d = ''2000-03-01'' AND length(s) = 32');
SELECT ls_explain('SELECT sum(id % 10) FROM lz WHERE id < 0');
SELECT ls_explain('SELECT sum(id % 10) FROM lz');
-- by the beginning of a string, of one that follows the order of rows, and by lists
CREATE TABLE ly (id int, s text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ly SELECT i, 'key ' || lpad(i::text, 8, '0') FROM generate_series(1, 20000) i;
VACUUM ANALYZE ly;
SELECT ls_explain('SELECT sum(id % 10) FROM ly WHERE s LIKE ''key 000012%''');
SELECT ls_explain('SELECT sum(id % 10) FROM ly WHERE s LIKE ''key 000012_1''');
SELECT ls_explain('SELECT sum(id % 10) FROM ly WHERE s ^@ ''key 000012''');
SELECT ls_explain('SELECT sum(id % 10) FROM ly WHERE s LIKE ''nothing%''');
SELECT ls_explain('SELECT sum(id % 10) FROM ly WHERE s LIKE ''%12''');
SELECT ls_explain('SELECT sum(id % 10) FROM ly WHERE s IN (''key 00000007'', ''key 00012000'', ''no key'')');
-- counted without being read: zones tell that all begin so
SELECT ls_explain('SELECT count(*) FROM ly WHERE s LIKE ''key 0%''');
SELECT ls_explain('SELECT count(*) FROM ly WHERE s LIKE ''key 0%0''');
SELECT ls_explain('SELECT count(*) FROM ly WHERE id NOT IN (-5, 30000)');
SELECT ls_explain('SELECT count(*) FROM ly WHERE id NOT IN (-5, 30000, 700)');
SET plan_cache_mode = force_generic_plan;
PREPARE ly_like (text) AS SELECT count(*), min(id), max(id) FROM ly WHERE s LIKE $1;
EXECUTE ly_like ('key 000012%');
EXECUTE ly_like ('%2');
EXECUTE ly_like (NULL);
EXECUTE ly_like ('key 00000012\');
RESET plan_cache_mode;
DROP TABLE ly;
UPDATE lz SET id = -1 WHERE id = 15000;
SELECT ls_explain('SELECT sum(id % 10) FROM lz WHERE id < 0');
-- values known only when it runs: parameters, outer rows, subqueries
SET plan_cache_mode = force_generic_plan;
PREPARE lz_by (int, int) AS SELECT count(*), min(id), max(id) FROM lz WHERE id BETWEEN $1 AND $2;
EXECUTE lz_by (500, 700);
EXECUTE lz_by (19990, 30000);
EXECUTE lz_by (NULL, 1);
RESET plan_cache_mode;
SELECT ls_explain('SELECT sum(id % 10) FROM lz WHERE id = (SELECT 5 * 5)');
SELECT x, (SELECT count(*) FROM lz WHERE id BETWEEN x AND x + 10) FROM generate_series(0, 20000, 5000) x;
SELECT x, y.n FROM generate_series(0, 20000, 10000) x, LATERAL (SELECT count(*) AS n FROM lz WHERE id < x) y;
-- a cursor that is turned around, and one that changes rows
BEGIN;
DECLARE k SCROLL CURSOR FOR SELECT id, d FROM lz WHERE id BETWEEN 9998 AND 10004;
FETCH 3 FROM k;
FETCH BACKWARD 5 FROM k;
FETCH ALL FROM k;
FETCH BACKWARD 2 FROM k;
FETCH FIRST FROM k;
FETCH ABSOLUTE 4 FROM k;
UPDATE lz SET s = 'here' WHERE CURRENT OF k;
SELECT id, s FROM lz WHERE s = 'here';
DECLARE k2 CURSOR FOR SELECT FROM lz WHERE id > 19998;
FETCH FROM k2;
DELETE FROM lz WHERE CURRENT OF k2;
SELECT max(id), count(*) FROM lz WHERE id > 19990;
ROLLBACK;
-- system columns, whole rows, own changes
BEGIN;
INSERT INTO lz VALUES (30000, '2030-01-01', 'own');
UPDATE lz SET s = 'own' WHERE id = 5;
SELECT id, xmin = pg_current_xact_id()::xid AS own, tableoid::regclass, lz FROM lz WHERE s = 'own' ORDER BY id;
SELECT count(*) FROM lz a WHERE (SELECT lz FROM lz WHERE ctid = a.ctid) = a AND id < 20;
SELECT count(*), count(*) FILTER (WHERE xmin::text <> '0') > 0 AS some FROM lz WHERE id < 100 AND xmax = 0;
ROLLBACK;
-- a security barrier comes before what a user asks
CREATE FUNCTION lz_leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'seen %', $1; RETURN true; END $$;
CREATE VIEW lz_view WITH (security_barrier) AS SELECT * FROM lz WHERE id = 3;
SELECT id FROM lz_view WHERE lz_leak(s) AND s LIKE 'e%';
EXPLAIN (COSTS off) SELECT id FROM lz_view WHERE s LIKE 'e%' AND d > '2000-01-01';
CREATE ROLE regress_lz;
CREATE POLICY lz_policy ON lz TO regress_lz USING (id < 4);
ALTER TABLE lz ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON lz TO regress_lz;
SET ROLE regress_lz;
SELECT id FROM lz WHERE lz_leak(s) AND d >= '2000-01-01' ORDER BY id;
RESET ROLE;
ALTER TABLE lz DISABLE ROW LEVEL SECURITY;
-- a test that fails for some values is made for rows that are asked for only
CREATE TABLE lt (id int, active bool, pattern text, always text, few text) USING lsm WITH (autovacuum_enabled = off);
BEGIN;
INSERT INTO lt SELECT i, false, '(' || i, '[', CASE WHEN i % 2 = 0 THEN '(' ELSE '{1' END FROM generate_series(1, 300) i;
INSERT INTO lt SELECT i, true, 'a' || i % 7, 'a', 'a' FROM generate_series(301, 900) i;
COMMIT;
SELECT count(*) AS flush FROM lsm_flush('lt');
SELECT count(*) FROM lt WHERE active AND 'a1' ~ pattern AND 'ba' ~ few AND 'a' ~ always;
SELECT count(*) FROM lt WHERE 'a1' ~ pattern;
DELETE FROM lt WHERE NOT active;
SELECT count(*), count(few) FROM lt WHERE 'a1' ~ pattern AND 'a' ~ few AND 'a' ~ always;
DROP TABLE lt;
-- in a parallel plan
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS off) SELECT count(*), sum(id % 10) FROM lz WHERE id BETWEEN 1000 AND 1999;
SELECT count(*), sum(id % 10) FROM lz WHERE id BETWEEN 1000 AND 1999;
SELECT count(*), sum(id % 10) FROM lz WHERE s LIKE 'a%';
SELECT x FROM ls_explain('SELECT sum(id % 10) FROM lz WHERE id BETWEEN 1000 AND 1999') x WHERE x ~ 'LSM:';
-- run again by a join
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
SELECT x, count(*) FROM (VALUES (1), (2)) v (x) JOIN lz ON lz.id % 1000 = x GROUP BY x ORDER BY x;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET max_parallel_workers_per_gather;
-- partitions, inheritance, updates by a join
CREATE TABLE lp (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE lp1 PARTITION OF lp FOR VALUES FROM (0) TO (100) USING lsm;
CREATE TABLE lp2 (b text, a int) USING lsm;
ALTER TABLE lp ATTACH PARTITION lp2 FOR VALUES FROM (100) TO (200);
INSERT INTO lp SELECT i, 'b' || i FROM generate_series(0, 199) i;
SELECT count(*) AS flush FROM lsm_flush('lp2');
EXPLAIN (COSTS off) SELECT * FROM lp WHERE b = 'b150' AND a > 20;
SELECT * FROM lp WHERE b = 'b150' AND a > 20;
UPDATE lp SET b = 'new' FROM lz WHERE lz.id = lp.a AND lp.a BETWEEN 95 AND 105;
SELECT count(*), min(a), max(a) FROM lp WHERE b = 'new';
MERGE INTO lp USING (SELECT id FROM lz WHERE id BETWEEN 104 AND 110) m ON lp.a = m.id WHEN MATCHED AND b = 'new' THEN DELETE WHEN MATCHED THEN UPDATE SET b = 'merged';
SELECT b, count(*) FROM lp WHERE b NOT LIKE 'b%' GROUP BY b ORDER BY b;
-- bounds that are shortened: the blank that the bound of a character(n) may then end in counts
CREATE TABLE lc (id int, c char(60)) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lc SELECT i, repeat('a', 31) || E'\x1f' || i % 3 FROM generate_series(1, 300) i;
SELECT count(*) AS flush FROM lsm_flush('lc');
SELECT count(*) AS major FROM lsm_major_compact('lc');
VACUUM lc;
SELECT count(*) FROM lc WHERE c = (repeat('a', 31) || E'\x1f2')::bpchar;
SELECT count(*) FROM lc WHERE c IN ((repeat('a', 31) || E'\x1f2')::bpchar, 'x');
SELECT count(*) FROM lc WHERE c COLLATE "C" >= (repeat('a', 31) || E'\x1f2')::bpchar;
SELECT count(*) FROM lc WHERE c COLLATE "C" < (repeat('a', 31) || E'\x1f1')::bpchar;
SELECT count(*) FROM lc WHERE c <> (repeat('a', 31))::bpchar;
UPDATE lc SET c = repeat('a', 31) || ' ' || id % 3;
SELECT count(*) AS flush FROM lsm_flush('lc');
SELECT count(*) AS major FROM lsm_major_compact('lc');
VACUUM lc;
SELECT count(*) FROM lc WHERE c = (repeat('a', 31) || ' 2  ')::bpchar;
SELECT count(*) FROM lc WHERE c COLLATE "C" > (repeat('a', 31))::bpchar;
SELECT count(*) FROM lc WHERE c = (repeat('a', 31))::bpchar;
DROP TABLE lc;
-- switched off
SET lsm.enable_lsmscan = off;
EXPLAIN (COSTS off) SELECT * FROM lz WHERE id = 5;
RESET lsm.enable_lsmscan;
SET enable_seqscan = off;
CREATE INDEX lz_id ON lz (id);
EXPLAIN (COSTS off) SELECT * FROM lz WHERE id = 5;
EXPLAIN (COSTS off) SELECT * FROM lz WHERE id > 0;
RESET enable_seqscan;
DROP TABLE ls, ls_heap, ls_cond, lp;
DROP VIEW lz_view;
DROP TABLE lz;
DROP ROLE regress_lz;
DROP FUNCTION ls_fill, ls_check, ls_change, ls_explain, lz_leak;
