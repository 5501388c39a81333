--
-- Values of all common types, and wide tables, before and after flush and
-- compaction
--
SET DateStyle = 'ISO, MDY';
SET IntervalStyle = 'postgres';
SET TimeZone = 'UTC';
SET bytea_output = 'hex';

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (x int, y text);
CREATE DOMAIN positive AS int CHECK (value > 0);

CREATE TABLE ty (
	id int,
	c_bool bool, c_char "char", c_int2 int2, c_int4 int4, c_int8 int8,
	c_float4 float4, c_float8 float8, c_numeric numeric, c_num152 numeric(15,2),
	c_money money, c_oid oid,
	c_text text, c_varchar varchar(20), c_bpchar char(8), c_name name, c_bytea bytea,
	c_date date, c_time time, c_timetz timetz, c_timestamp timestamp,
	c_timestamptz timestamptz, c_interval interval,
	c_uuid uuid, c_json json, c_jsonb jsonb, c_xid8 xid8,
	c_inet inet, c_cidr cidr, c_macaddr macaddr,
	c_bit bit(5), c_varbit varbit,
	c_point point, c_box box,
	c_int4s int4[], c_texts text[], c_matrix numeric[],
	c_range int4range, c_mood mood, c_pair pair, c_positive positive,
	c_tsvector tsvector, c_tid tid
) USING lsm;
CREATE TABLE ty_heap (LIKE ty) USING heap;

INSERT INTO ty VALUES
	(1, true, 'x', -32768, -2147483648, -9223372036854775808,
	 1.5, -2.25e-300, 12345678901234567890.123456789, 9999999999999.99,
	 12.34, 4294967295,
	 'text', 'varchar', 'bpchar', 'name', '\x00ff10',
	 '2024-02-29', '23:59:59.999999', '12:00:00+02', '1999-12-31 23:59:59.5',
	 '2000-01-01 00:00:00+00', '1 year 2 months 3 days 04:05:06.7',
	 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": [1, 2]}', '{"b": {"c": null}}', '77',
	 '192.168.1.5/24', '10.0.0.0/8', '08:00:2b:01:02:03',
	 B'10101', B'1',
	 '(1,2)', '(3,4),(1,2)',
	 '{1,NULL,3}', '{a,"b c",NULL}', '{{1.5,2.50},{3,4}}',
	 '[1,10)', 'happy', ROW(1, 'one'), 5,
	 'a fat cat', '(3,4)'),
	(2, false, '', 32767, 2147483647, 9223372036854775807,
	 'NaN', 'Infinity', 'NaN', -0.01,
	 -0.01, 0,
	 '', '', '', '', '',
	 'infinity', '00:00:00', '24:00:00-15:59', '-infinity',
	 'infinity', '-1 days',
	 '00000000-0000-0000-0000-000000000000', '0', '"s"', '0',
	 '::1', '::/0', 'ff:ff:ff:ff:ff:ff',
	 B'00000', B'',
	 '(0,0)', '(0,0),(0,0)',
	 '{}', '{}', '{}',
	 'empty', 'sad', ROW(NULL, NULL), 1,
	 '', '(0,0)');
INSERT INTO ty (id) VALUES (3);
INSERT INTO ty SELECT i, i % 2 = 0, chr(65 + i % 26)::"char", i, i * 1000, i * 10000000000,
	i / 8.0, i / 16.0, i * 1.000001, i + 0.25,
	i, i,
	'text ' || i, 'v' || i, 'c' || i, 'n' || i, decode(lpad(to_hex(i), 8, '0'), 'hex'),
	date '2024-01-01' + i, time '00:00' + i * interval '1 minute', '01:00+00', timestamp '2024-01-01' + i * interval '1 hour',
	timestamptz '2024-01-01 00:00+00' - i * interval '1 day', i * interval '1 hour',
	lpad(i::text, 32, '0')::uuid, json_build_object('i', i), jsonb_build_object('i', i), i::text::xid8,
	('10.0.0.' || i)::inet, '10.0.0.0/8', '08:00:2b:01:02:03',
	(i % 32)::bit(5), (i % 32)::bit(5)::varbit,
	point(i, -i), box(point(i, i), point(0, 0)),
	array[i, i + 1], array['e' || i], array[i / 2.0],
	int4range(i, i * 2), 'ok', ROW(i, 't' || i)::pair, i,
	to_tsvector('simple', 'word' || i), ('(' || i || ',1)')::tid
	FROM generate_series(4, 100) i;
INSERT INTO ty_heap SELECT * FROM ty;

\x on
SELECT * FROM ty WHERE id <= 4 ORDER BY id;
\x off
-- rows as text, so that types without equality can be compared
SELECT count(*) FROM (SELECT t::text FROM ty t EXCEPT SELECT t::text FROM ty_heap t) d;
SELECT count(*) AS flush FROM lsm_flush('ty');
SELECT count(*) FROM (SELECT t::text FROM ty t EXCEPT SELECT t::text FROM ty_heap t) d;
\x on
SELECT * FROM ty WHERE id <= 4 ORDER BY id;
\x off

-- change every column of some rows, one column of others, and set nulls
UPDATE ty SET c_bool = NOT c_bool, c_int2 = 1, c_numeric = c_numeric + 1, c_texts = c_texts || 'x'::text,
	c_interval = c_interval * 2, c_jsonb = c_jsonb || '{"new": 1}', c_pair.y = 'changed'
	WHERE id % 5 = 0;
UPDATE ty_heap SET c_bool = NOT c_bool, c_int2 = 1, c_numeric = c_numeric + 1, c_texts = c_texts || 'x'::text,
	c_interval = c_interval * 2, c_jsonb = c_jsonb || '{"new": 1}', c_pair.y = 'changed'
	WHERE id % 5 = 0;
UPDATE ty SET c_text = NULL, c_uuid = NULL, c_float8 = NULL WHERE id % 7 = 0;
UPDATE ty_heap SET c_text = NULL, c_uuid = NULL, c_float8 = NULL WHERE id % 7 = 0;
UPDATE ty t SET (c_bytea, c_varbit, c_matrix) = (SELECT c_bytea, c_varbit, c_matrix FROM ty_heap h WHERE h.id = 100 - t.id)
	WHERE id BETWEEN 10 AND 20;
UPDATE ty_heap t SET (c_bytea, c_varbit, c_matrix) = (SELECT c_bytea, c_varbit, c_matrix FROM ty_heap h WHERE h.id = 100 - t.id)
	WHERE id BETWEEN 10 AND 20;
SELECT count(*) FROM (SELECT t::text FROM ty t EXCEPT SELECT t::text FROM ty_heap t) d;
SELECT count(*) AS flush FROM lsm_flush('ty');
SELECT count(*) FROM (SELECT t::text FROM ty t EXCEPT SELECT t::text FROM ty_heap t) d;
SELECT count(*) AS minor FROM lsm_minor_compact('ty');
SELECT count(*) FROM (SELECT t::text FROM ty t EXCEPT SELECT t::text FROM ty_heap t) d;
SELECT count(*) AS major FROM lsm_major_compact('ty');
SELECT count(*), count(DISTINCT t::text) FROM ty t;
SELECT count(*) FROM (SELECT t::text FROM ty t EXCEPT SELECT t::text FROM ty_heap t) d;
SELECT count(*) FROM (SELECT t::text FROM ty_heap t EXCEPT SELECT t::text FROM ty t) d;

-- a numeric column in which display scales differ, and special values
CREATE TABLE ty_num (id int, n numeric, m numeric(15,2)) USING lsm;
INSERT INTO ty_num VALUES
	(1, 1, 1), (2, 1.0, 2), (3, 1.00, 3), (4, 'NaN', 'NaN'), (5, 'Infinity', NULL),
	(6, '-Infinity', -1), (7, 1e100, 0), (8, 1e-100, 0.01), (9, 0, -0.01), (10, 0.000, 9999999999999.99),
	(11, -99999999999999999999, -9999999999999.99), (12, 10000, 10000), (13, NULL, NULL);
SELECT id, n, scale(n), m FROM ty_num ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('ty_num');
SELECT id, n, scale(n), m FROM ty_num ORDER BY id;
UPDATE ty_num SET n = n * 10 WHERE id % 2 = 0;
SELECT count(*) AS flush FROM lsm_flush('ty_num');
SELECT count(*) AS major FROM lsm_major_compact('ty_num');
SELECT id, n, scale(n), m FROM ty_num ORDER BY id;

-- negative zero and other values that are equal but not the same
CREATE TABLE ty_same (id int PRIMARY KEY, f float8, n numeric, t text) USING lsm;
INSERT INTO ty_same VALUES (1, 0, 1.0, 'a'), (2, '-0', 1.00, 'A');
UPDATE ty_same SET f = -f, n = n * 1.0;
SELECT id, f, n FROM ty_same ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('ty_same');
SELECT id, f, n FROM ty_same ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('ty_same');
SELECT id, f, n FROM ty_same ORDER BY id;

-- runs, few values, constants, steps and random numbers: every encoding
CREATE TABLE ty_enc (id int, const int, step int8, few text, run date, nulls int, rnd int8, big int8, mixed text) USING lsm;
CREATE TABLE ty_enc_heap (LIKE ty_enc) USING heap;
INSERT INTO ty_enc_heap SELECT i, 42, i * 1000000::int8,
	(array['red','green','blue'])[1 + i % 3], date '2024-01-01' + i / 500,
	CASE WHEN i % 10 = 0 THEN i END, hashint4extended(i, 1), 9223372036854775807 - i % 5,
	repeat(md5(i::text), 1 + i % 3)
	FROM generate_series(1, 5000) i;
INSERT INTO ty_enc SELECT * FROM ty_enc_heap ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('ty_enc');
SELECT count(*), sum(id), sum(const), sum(step), count(DISTINCT few), min(run), max(run), count(nulls), sum(rnd), sum(big), max(mixed) FROM ty_enc;
TABLE ty_enc EXCEPT TABLE ty_enc_heap;
TABLE ty_enc_heap EXCEPT TABLE ty_enc;
UPDATE ty_enc SET few = 'other', rnd = 0 WHERE id % 100 = 0;
UPDATE ty_enc_heap SET few = 'other', rnd = 0 WHERE id % 100 = 0;
SELECT count(*) AS flush FROM lsm_flush('ty_enc');
SELECT count(*) AS major FROM lsm_major_compact('ty_enc');
TABLE ty_enc EXCEPT TABLE ty_enc_heap;
TABLE ty_enc_heap EXCEPT TABLE ty_enc;

-- a wide table: 400 columns, many null
DO $$
BEGIN
	EXECUTE 'CREATE TABLE ty_wide (id int PRIMARY KEY, '
		|| (SELECT string_agg('c' || i || CASE i % 3 WHEN 0 THEN ' int' WHEN 1 THEN ' text' ELSE ' numeric' END, ', ')
			FROM generate_series(1, 399) i) || ') USING lsm';
	EXECUTE 'INSERT INTO ty_wide SELECT i, '
		|| (SELECT string_agg(CASE i % 3
				WHEN 0 THEN 'CASE WHEN i % 3 = 0 THEN i END'
				WHEN 1 THEN '''t'' || i' ELSE 'i / 4.0' END, ', ')
			FROM generate_series(1, 399) i) || ' FROM generate_series(1, 60) i';
END $$;
SELECT count(*), sum(id), sum(c399), max(c1), max(c397), sum(c398), md5(string_agg(t::text, ',' ORDER BY id)) FROM ty_wide t;
SELECT count(*) AS flush FROM lsm_flush('ty_wide');
SELECT count(*), sum(id), sum(c399), max(c1), max(c397), sum(c398), md5(string_agg(t::text, ',' ORDER BY id)) FROM ty_wide t;
UPDATE ty_wide SET c200 = 5, c399 = NULL, c1 = 'changed' WHERE id <= 30;
SELECT c1, c200, c399 FROM ty_wide WHERE id IN (30, 31) ORDER BY id;
SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM ty_wide t;
SELECT count(*) AS flush FROM lsm_flush('ty_wide');
SELECT count(*) AS minor FROM lsm_minor_compact('ty_wide');
SELECT count(*) AS major FROM lsm_major_compact('ty_wide');
SELECT c1, c200, c399 FROM ty_wide WHERE id IN (30, 31) ORDER BY id;
SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM ty_wide t;

SELECT c AS problem FROM lsm_check('ty') c;
SELECT c AS problem FROM lsm_check('ty_num') c;
SELECT c AS problem FROM lsm_check('ty_same') c;
SELECT c AS problem FROM lsm_check('ty_enc') c;
SELECT c AS problem FROM lsm_check('ty_wide') c;
DROP TABLE ty_heap, ty_same, ty_enc_heap;
