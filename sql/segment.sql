--
-- Segments: column chunks, blocks, filters, lists, zones, damage.  The
-- functions used here are in the library for this test only.
--
CREATE FUNCTION lsm_test_chunk(anyarray, form text DEFAULT 'as is', level int DEFAULT 3)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_segment(regclass, kind text, block_bytes int, level int)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_bytes(regclass, kind text)
	RETURNS bytea LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_rows(bytea)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_fixed(bytea)
	RETURNS bytea LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_increment(roots int, natts int, seed int, block_bytes int, level int)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_damage(regclass, kind text, seed int, rounds int, fix bool)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';

CREATE FUNCTION lsm_test_slices(regclass, kind text, block_bytes int)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_tids(bigint[])
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_roots(regclass)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';

-- a number that looks random, the same everywhere
CREATE FUNCTION noise(int, text DEFAULT '') RETURNS bigint LANGUAGE SQL IMMUTABLE AS
$$ SELECT ('x' || substr(md5($1 || 'lsm' || $2), 1, 15))::bit(60)::bigint $$;

-- ---- chunks: each gives its values back; which encoding was chosen?

-- integers
SELECT lsm_test_chunk(array_agg(42)) AS same FROM generate_series(1, 1000);
SELECT lsm_test_chunk(array_agg(i)) AS sequence FROM generate_series(1, 8192) i;
SELECT lsm_test_chunk(array_agg(-i)) AS backwards FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg(i * 7 + noise(i) % 5)) AS uneven FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg(noise(i) % 1000)) AS small FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg((noise(i) % 1000) * 1000000 + 17)) AS multiples FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg((noise(i) % 3) * 123456789)) AS few FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg(noise(i / 100))) AS runs FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg(i + noise(i / 200))) AS counting_runs FROM generate_series(0, 999) i;
SELECT lsm_test_chunk(array_agg(noise(i))) AS wide FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg(CASE i % 3 WHEN 0 THEN '-9223372036854775808' WHEN 1 THEN '9223372036854775807' ELSE i::text END::bigint)) AS extremes
	FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(ARRAY['-9223372036854775808', '9223372036854775807']::bigint[]) AS two_extremes;
SELECT lsm_test_chunk(ARRAY[-2147483648, 2147483647, 0]) AS int4_extremes;
SELECT lsm_test_chunk(array_agg((i % 65536 - 32768)::smallint)) AS int2 FROM generate_series(0, 70000, 10) i;
SELECT lsm_test_chunk(array_agg((noise(i) % 4294967296)::oid)) AS oid FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(array_agg(noise(i) % 2 = 0)) AS bool FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(array_agg(chr(1 + (noise(i) % 120)::int)::"char")) AS "char" FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(array_agg('2000-01-01'::date + (noise(i) % 2500)::int)) AS date FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(ARRAY['infinity', '-infinity', '2020-01-01']::date[]) AS date_infinity;
SELECT lsm_test_chunk(array_agg('2000-01-01'::timestamptz + i * interval '1 s')) AS timestamptz FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(ARRAY[1::bigint]) AS one;

-- nulls
SELECT lsm_test_chunk(array_agg(NULL::int)) AS all_null FROM generate_series(1, 1000);
SELECT lsm_test_chunk(array_agg(CASE WHEN i % 3 > 0 THEN noise(i) % 1000 END)) AS some_null FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg(CASE WHEN i = 500 THEN 7 END)) AS one_value FROM generate_series(1, 8192) i;
SELECT lsm_test_chunk(array_agg(CASE WHEN i <> 500 THEN i END)) AS one_null FROM generate_series(1, 8192) i;
SELECT lsm_test_chunk(array_agg(CASE WHEN i % 64 = 0 THEN md5(i::text) END)) AS text_null FROM generate_series(1, 1000) i;
SELECT n, lsm_test_chunk(array_agg(CASE WHEN i % 2 = 0 THEN i END)) FROM (VALUES (2), (63), (64), (65), (127), (128), (129)) v (n),
	generate_series(1, n) i GROUP BY n ORDER BY n;

-- floats are kept bit for bit
SELECT lsm_test_chunk(ARRAY['NaN', '-0', '0', 'infinity', '-infinity', '1e-300', '1e300']::float8[]) AS float8;
SELECT lsm_test_chunk(ARRAY['NaN', '-0', '0', 'infinity', '-infinity', '1e-30', '1e30']::float4[]) AS float4;
SELECT lsm_test_chunk(array_agg((noise(i) % 1000) / 7.0::float8)) AS float8_noise FROM generate_series(1, 1000) i;
SELECT lsm_test_chunk(array_agg((noise(i) % 10) / 4.0::float8)) AS float8_few FROM generate_series(1, 1000) i;

-- numerics
SELECT form, lsm_test_chunk(array_agg((noise(i) % 1000000)::numeric(15, 2) / 100), form) AS ratio,
	lsm_test_chunk(array_agg(((noise(i) % 2000000 - 1000000) / 100.0)::numeric(15, 2)), form) AS money,
	lsm_test_chunk(array_agg(i::numeric), form) AS whole,
	lsm_test_chunk(array_agg((i % 11 / 100.0)::numeric(4, 2)), form) AS hundredths
	FROM generate_series(1, 1000) i, (VALUES ('as is'), ('short'), ('mixed')) v (form) GROUP BY form ORDER BY form;
SELECT lsm_test_chunk(ARRAY[0, 0.0, 0.00, 1.10, 1.1]::numeric[], 'short') AS scales;
SELECT lsm_test_chunk(ARRAY[0.00, 0.01, -0.01, 99.99, -99.99, 10000.00, 100000000.00]::numeric[], 'short') AS ends;
SELECT lsm_test_chunk(ARRAY[0.0000000000000001, -0.0000000000000001, 922.3372036854775807, 0.0000000000000000]::numeric[]) AS deep;
SELECT lsm_test_chunk(ARRAY[0.00000000000000001, 1.00000000000000000]::numeric[]) AS too_deep;
SELECT lsm_test_chunk(ARRAY[9223372036854775807, -9223372036854775807, 0]::numeric[]) AS int8_ends;
SELECT lsm_test_chunk(ARRAY[9223372036854775808, -9223372036854775808, 9223372036854775809]::numeric[]) AS int8_beyond;
SELECT lsm_test_chunk(ARRAY[1, 'NaN', 2]::numeric[]) AS nan, lsm_test_chunk(ARRAY[1, 'infinity', '-infinity']::numeric[]) AS infinity;
SELECT lsm_test_chunk(ARRAY[10::numeric ^ 100, 10::numeric ^ -100, 1e1000, -1e-1000]) AS huge;
SELECT s, lsm_test_chunk(array_agg(round((noise(i) % 1000000000)::numeric / 10::numeric ^ s, s)), 'short') FROM generate_series(0, 18) s,
	generate_series(1, 300) i GROUP BY s ORDER BY s;
SELECT lsm_test_chunk(array_agg(CASE WHEN i % 5 > 0 THEN (noise(i) % 100)::numeric END), 'short') AS null_numeric FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(array_agg((noise(i / 50))::numeric), 'short') AS numeric_runs FROM generate_series(1, 500) i;

-- strings
SELECT form, level,
	lsm_test_chunk(array_agg('the same'::text), form, level) AS same,
	lsm_test_chunk(array_agg('value ' || noise(i) % 5), form, level) AS few,
	lsm_test_chunk(array_agg('value ' || noise(i / 100)), form, level) AS runs,
	lsm_test_chunk(array_agg('the quick brown fox ' || noise(i) % 100000 || ' jumps over the lazy dog'), form, level) AS prose,
	lsm_test_chunk(array_agg(repeat(md5(i::text), (noise(i) % 20)::int)), form, level) AS long
	FROM generate_series(1, 500) i, (VALUES ('as is'), ('short'), ('mixed'), ('compressed')) v (form), (VALUES (0), (3)) l (level)
	GROUP BY form, level ORDER BY form, level;
SELECT lsm_test_chunk(array_agg(decode(md5(i::text), 'hex')), 'short') AS noise FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(ARRAY['', 'a', '', NULL, 'b'], 'short') AS empty, lsm_test_chunk(ARRAY['']) AS one_empty;
SELECT lsm_test_chunk(ARRAY[repeat('x', 10000000)], 'as is', 3) AS big, lsm_test_chunk(ARRAY[repeat('x', 10000000)], 'compressed', 0) AS big_compressed;
SELECT lsm_test_chunk(array_agg(md5(i::text)::uuid)) AS uuid FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(array_agg(md5((i % 3)::text)::uuid)) AS few_uuid FROM generate_series(1, 500) i;
SELECT lsm_test_chunk(array_agg(('name ' || i)::name), 'as is', 0) AS name FROM generate_series(1, 300) i;
SELECT lsm_test_chunk(array_agg(i * interval '1 day 2 hours')) AS interval FROM generate_series(1, 300) i;
SELECT lsm_test_chunk(array_agg(('12:00:00+02'::timetz + i * interval '1 s')), 'as is', 0) AS timetz FROM generate_series(1, 300) i;
SELECT lsm_test_chunk(array_agg(jsonb_build_object('id', i, 'name', md5(i::text))), form) AS jsonb FROM generate_series(1, 300) i,
	(VALUES ('as is'), ('short'), ('mixed')) v (form) GROUP BY form ORDER BY form;
SELECT lsm_test_chunk(array_agg(point(i, i))) AS point FROM generate_series(1, 300) i;
SELECT lsm_test_chunk(array_agg(cstring_send(i::text::cstring))) AS bytea FROM generate_series(1, 300) i;

-- ---- segments of whole rows

CREATE TYPE segment_pair AS (a int, b text);
CREATE DOMAIN segment_price AS numeric(10, 2);
CREATE TABLE segment_types (
	i2 smallint, i4 int, i8 bigint, o oid, b bool, c "char", f4 float4, f8 float8, n numeric, n2 numeric(15, 2),
	price segment_price, d date, t time, ts timestamp, tz timestamptz, iv interval, ttz timetz, u uuid, na name,
	gone int, tx text, vc varchar(40), bc char(12), by bytea, j jsonb, ia int[], ta text[], da float8[],
	pair segment_pair, r int4range, ip inet, bits varbit, x xid, m money, big text, nothing text, p point);
INSERT INTO segment_types
SELECT i % 30000 - 15000, noise(i, 'i4') % 100000 - 50000, noise(i, 'i8'), noise(i, 'o') % 4294967296,
	noise(i) % 3 = 0, chr(33 + i % 90)::"char", (noise(i) % 1000) / 8.0,
	CASE i % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'infinity' ELSE (noise(i) / 1e10)::text END::float8,
	CASE i % 70 WHEN 0 THEN 'NaN' WHEN 1 THEN '1e40' ELSE (noise(i) % 10000 / 8.0)::text END::numeric,
	(noise(i) % 10000000 - 5000000) / 100.0, i / 3.0, '1992-01-01'::date + (noise(i, 'd') % 2500)::int,
	'00:00'::time + i * interval '17 s', '2000-01-01'::timestamp + noise(i) % 100000 * interval '1 s',
	CASE WHEN i % 900 = 0 THEN 'infinity' ELSE '2020-01-01 00:00+00'::timestamptz + i * interval '100 ms' END,
	i * interval '1 hour', '00:00+01'::timetz + i * interval '1 s', md5(i::text)::uuid, 'name ' || i % 7, i,
	CASE WHEN i % 4 > 0 THEN repeat(md5((i % 100)::text), (noise(i) % 4)::int) END, 'varying ' || i, 'char ' || i % 20,
	decode(md5(i::text), 'hex'), jsonb_build_object('k', i, 'v', ARRAY[i, i + 1]), ARRAY[i, NULL, i + 1],
	ARRAY['a' || i, NULL, ''], ARRAY[i / 2.0, NULL], ROW(i, 'b' || i)::segment_pair, int4range(i, i + 10),
	('10.0.' || i % 200 || '.1')::inet, (i % 1000)::bit(10), (i + 3)::text::xid, (i * 1.5)::numeric::money,
	CASE WHEN i % 500 = 0 THEN repeat(md5(i::text), 3000) END, NULL, point(i, -i)
	FROM generate_series(1, 3000) i;
ALTER TABLE segment_types DROP COLUMN gone;
ALTER TABLE segment_types ALTER COLUMN big SET STORAGE EXTERNAL;
INSERT INTO segment_types (i4, big) SELECT i, repeat(md5(i::text), 5000) FROM generate_series(1, 5) i;

SELECT lsm_test_segment('segment_types', kind, block_bytes, level)
	FROM (VALUES ('insert', 32768, 3), ('baseline', 32768, 0), ('insert', 8192, 1), ('baseline', 1048576, 3)) v (kind, block_bytes, level);

-- narrow rows: the number of rows ends a block
CREATE TABLE segment_narrow AS SELECT i % 2 = 0 AS b FROM generate_series(1, 20000) i;
SELECT lsm_test_segment('segment_narrow', 'baseline', 1048576, 3);
CREATE TABLE segment_no_columns ();
INSERT INTO segment_no_columns SELECT FROM generate_series(1, 10000);
SELECT lsm_test_segment('segment_no_columns', 'insert', 32768, 3);

-- strings longer than bounds, bytes of all kinds in them
CREATE TABLE segment_strings AS SELECT repeat(chr(97 + (noise(i) % 3)::int), (noise(i, 'n') % 60)::int) AS t,
	decode(repeat('ff', (noise(i) % 60)::int), 'hex') AS b, (repeat('z', i % 70))::char(80) AS c FROM generate_series(1, 2000) i;
SELECT lsm_test_segment('segment_strings', 'baseline', 8192, 3);

-- many zones, merged
CREATE TABLE segment_many AS SELECT i AS a, noise(i) AS b, md5(i::text) AS c FROM generate_series(1, 40000) i;
SELECT lsm_test_segment('segment_many', 'baseline', 1024, 0);
-- blocks that are copied from another segment, between others that are not
SELECT block_bytes, level, lsm_test_segment('segment_types', 'copied', block_bytes, level)
	FROM (VALUES (1024, 0), (8192, 3), (32768, 3)) v(block_bytes, level);
SELECT lsm_test_segment('segment_strings', 'copied', 8192, 3);
SELECT lsm_test_segment('segment_narrow', 'copied', 8192, 3);
SELECT lsm_test_segment('segment_no_columns', 'copied', 1024, 3);
SELECT lsm_test_segment('segment_many', 'copied', 1024, 0);

-- blocks that are copied from another segment while some of their rows change: one column of a
-- row, or its head, which then is NULL or is not, of those that stay and of those that lose a row
SELECT block_bytes, level, lsm_test_segment('segment_types', 'patched', block_bytes, level)
	FROM (VALUES (1024, 0), (8192, 3), (32768, 3)) v(block_bytes, level);
SELECT lsm_test_segment('segment_strings', 'patched', 8192, 3);
SELECT lsm_test_segment('segment_narrow', 'patched', 8192, 3);
SELECT lsm_test_segment('segment_no_columns', 'patched', 1024, 3);
SELECT lsm_test_segment('segment_many', 'patched', 1024, 0);

-- zstd dictionaries: of two columns, of one that gains nothing, of none; blocks that need
-- them are copied into a segment that takes them over, not into one that is to have none
CREATE TABLE segment_trained AS SELECT i AS a, md5(i::text) AS noise,
	(SELECT string_agg(substr(md5((hashint4(i * 8 + k) & 255)::text), 1, 20), ' ') FROM generate_series(1, 3) k) AS line,
	CASE WHEN i % 5 > 0 THEN (SELECT string_agg(substr(md5((hashint4(i * 8 + k) & 63)::text), 5, 20), '/') FROM generate_series(4, 5) k) END AS path
	FROM generate_series(1, 3000) i;
SELECT kind, level, lsm_test_segment('segment_trained', kind, 4096, level)
	FROM (VALUES (3), (19)) l(level),
		(VALUES ('insert trained'), ('baseline trained'), ('copied trained'), ('copied trained to none'), ('patched trained')) k(kind);
SELECT lsm_test_segment('segment_many', 'baseline trained', 8192, 3);
SELECT lsm_test_segment('segment_types', 'baseline trained', 8192, 3);
SELECT lsm_test_segment('segment_trained', 'baseline trained', 4096, 0);

-- parts of segments: slices of the block index, one at a time
SELECT kind, lsm_test_slices('segment_many', kind, 1024)
	FROM (VALUES ('insert'), ('baseline')) k(kind);
SELECT lsm_test_slices('segment_many', 'baseline', 32768);
SELECT lsm_test_slices('segment_trained', 'baseline trained', 512);

-- the example of FORMAT.md: these bytes do not change, but for sections that come
CREATE TABLE segment_example (a int, b text, c numeric(5, 2));
INSERT INTO segment_example VALUES (1000, 'red', 1.50), (1003, 'green', 2.25), (1001, NULL, 0.10);
SELECT regexp_replace(encode(lsm_test_bytes('segment_example', 'insert'), 'hex'), '(.{64})', '\1' || chr(10), 'g') AS bytes;
SELECT lsm_test_rows(lsm_test_bytes('segment_example', 'insert'));

-- what a reader does not know: version, flags and encoding of a block, order
-- of the directory, version of the segment, sections that it needs or not
SELECT lsm_test_bytes('segment_example', 'insert') AS bytes \gset
SELECT lsm_test_rows(set_byte(:'bytes', 0, 9));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(:'bytes', 0, 9)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(:'bytes', 1, 128)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(:'bytes', 28, 200)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(:'bytes', 29, 64)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(:'bytes', 30, 255)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(:'bytes', 720, 4)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(:'bytes', 576, 77)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(set_byte(:'bytes', 576, 77), 578, 1)));
SELECT lsm_test_rows(lsm_test_fixed(set_byte(set_byte(:'bytes', 576, 77), 578, 2)));
SELECT lsm_test_rows(substr(:'bytes'::bytea, 1, 664));
SELECT lsm_test_rows(substr(:'bytes'::bytea, 698));
SELECT lsm_test_rows('');

-- ---- increments: records of all kinds, a hot row, wide maps of columns

SELECT lsm_test_increment(2000, 10, 1, 32768, 3);
SELECT lsm_test_increment(2000, 1, 2, 8192, 0);
SELECT lsm_test_increment(200, 1500, 3, 32768, 3);
SELECT lsm_test_increment(1, 4, 4, 32768, 3);

-- ---- TIDs to be searched: by encoding, too far apart, and not in order

SELECT lsm_test_tids(array_agg(i)) FROM generate_series(100, 400) i;
SELECT lsm_test_tids(array_agg(i / 30 * 65536 + i % 30)) FROM generate_series(1, 400) i;
SELECT lsm_test_tids(array_agg(i * 65536 + noise(i) % 40)) FROM generate_series(1, 400) i;
SELECT lsm_test_tids(array_agg(i / 3 * 65536)) FROM generate_series(1, 400) i;
SELECT lsm_test_tids(array_agg(i * 1000000000)) FROM generate_series(1::bigint, 400) i;
SELECT lsm_test_tids(ARRAY[7]);
SELECT lsm_test_tids(ARRAY[7, 7 + 4294967295]);
SELECT lsm_test_tids(ARRAY[7, 7 + 4294967296]);
SELECT lsm_test_tids(array_agg(CASE i WHEN 300 THEN 20 ELSE i * 65536 + noise(i) % 40 END)) FROM generate_series(1, 400) i;

-- ---- damage

CREATE TABLE segment_damage AS SELECT * FROM segment_types WHERE i4 % 7 = 0;
SELECT lsm_test_damage('segment_damage', 'insert', 1, 100, false);
SELECT lsm_test_damage('segment_damage', 'insert', 2, 300, true);
SELECT lsm_test_damage('segment_damage', 'baseline', 3, 300, true);
SELECT lsm_test_damage('segment_damage', 'increment', 4, 100, false);
SELECT lsm_test_damage('segment_damage', 'increment', 5, 300, true);
SELECT lsm_test_damage('segment_trained', 'baseline trained', 6, 60, false);
SELECT lsm_test_damage('segment_trained', 'baseline trained', 7, 100, true);
SELECT lsm_test_roots('segment_damage');
SELECT lsm_test_roots('segment_narrow');

DROP TABLE segment_trained, segment_types, segment_narrow, segment_no_columns, segment_strings, segment_many, segment_example, segment_damage;
DROP TYPE segment_pair;
DROP DOMAIN segment_price;
DROP FUNCTION noise, lsm_test_chunk, lsm_test_segment, lsm_test_bytes, lsm_test_rows, lsm_test_fixed, lsm_test_increment, lsm_test_damage, lsm_test_tids, lsm_test_roots;
