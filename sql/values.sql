--
-- Values of all builtin types that a column can have, with their extremes, go
-- through the row log, segments of each kind and DELTAs unchanged: their bytes
-- are compared with those in a heap table
--
SET client_min_messages = warning;
CREATE TYPE va_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE va_inner AS (m va_mood, ts timestamp[]);
CREATE TYPE va_outer AS (i va_inner, n numeric, t text);
CREATE DOMAIN va_positive AS int CHECK (value > 0);
CREATE DOMAIN va_pair AS va_outer CHECK ((value).n IS NULL OR (value).n > 0);
CREATE DOMAIN va_words AS text[] CHECK (array_length(value, 1) < 5);
CREATE TYPE va_range AS RANGE (subtype = text, collation = "C");
CREATE TABLE va_values (type text, v text);
INSERT INTO va_values
	SELECT type, unnest(v) FROM (VALUES
	('bool', ARRAY['t', 'f']),
	('"char"', ARRAY['a', '']),
	('name', ARRAY['', 'x', repeat('n', 63)]),
	('int2', ARRAY['-32768', '0', '32767']),
	('int4', ARRAY['-2147483648', '0', '2147483647']),
	('int8', ARRAY['-9223372036854775808', '0', '9223372036854775807']),
	('float4', ARRAY['NaN', 'Infinity', '-Infinity', '-0', '1.17549435e-38', '3.4028235e+38']),
	('float8', ARRAY['NaN', 'Infinity', '-Infinity', '-0', '5e-324', '1.7976931348623157e+308', '0.1']),
	('numeric', ARRAY['NaN', 'Infinity', '-Infinity', '0', '0.00', '1e-1000', '1e1000', '-123456789012345678901234567890.12345']),
	('numeric(20,5)', ARRAY['NaN', '0', '-999999999999999.99999', '0.00001']),
	('numeric(3,-2)', ARRAY['99900', '-100']),
	('money', ARRAY['-92233720368547758.08', '0', '92233720368547758.07']),
	('oid', ARRAY['0', '4294967295']),
	('xid', ARRAY['0', '4294967295']),
	('xid8', ARRAY['0', '18446744073709551615']),
	('cid', ARRAY['0', '4294967295']),
	('tid', ARRAY['(0,0)', '(4294967295,65535)']),
	('pg_lsn', ARRAY['0/0', 'FFFFFFFF/FFFFFFFF']),
	('pg_snapshot', ARRAY['10:20:10,14,15', '1:1:']),
	('txid_snapshot', ARRAY['10:20:10,14,15']),
	('text', ARRAY['', ' ', 'x', repeat('compressible ', 500), E'tab\tnewline\nbackslash\\', U&'\00e4\20ac\+01f600']),
	('varchar(10)', ARRAY['', 'ten chars!']),
	('bpchar', ARRAY['', 'x  ']),
	('char(5)', ARRAY['', 'x', 'five!']),
	('bytea', ARRAY['', '\x00', '\x' || repeat('00ff', 1000)]),
	('bit(9)', ARRAY['000000000', '101010101']),
	('varbit', ARRAY['', '1', repeat('10', 100)]),
	('varbit(7)', ARRAY['1010101']),
	('date', ARRAY['4713-01-01 BC', '5874897-12-31', 'infinity', '-infinity', '2000-01-01']),
	('time', ARRAY['00:00', '24:00:00', '23:59:59.999999']),
	('time(0)', ARRAY['12:34:56']),
	('timetz', ARRAY['00:00+15:59', '24:00:00-15:59']),
	('timestamp', ARRAY['4713-01-01 00:00:00 BC', '294276-12-31 23:59:59.999999', 'infinity', '-infinity']),
	('timestamptz', ARRAY['4713-01-01 00:00:00+00 BC', '294276-12-31 23:59:59.999999+00', 'infinity', '-infinity']),
	('interval', ARRAY['0', '-178000000 years', '178000000 years', '1 mon -1 days 00:00:00.000001']),
	('interval day to second(3)', ARRAY['1 day 00:00:00.123']),
	('uuid', ARRAY['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']),
	('json', ARRAY['null', '{"a" : [1, 2,  3], "a": 2}', '"\u00e4"']),
	('jsonb', ARRAY['null', '{"a": {"b": [1, "x", null, 1.500]}}', '[]', '{}', '1e100']),
	('jsonpath', ARRAY['$.a[*] ? (@ > 1)']),
	('tsvector', ARRAY['', 'a:1A fat:2B cat:3', '''with space'':5']),
	('tsquery', ARRAY['', 'fat & (rat | !cat:AB*)', 'a <-> b']),
	('inet', ARRAY['0.0.0.0', '192.168.1.5/24', '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/1']),
	('cidr', ARRAY['0.0.0.0/0', '10.0.0.0/8', '::/0', '2001:db8::/32']),
	('macaddr', ARRAY['00:00:00:00:00:00', 'ff:ff:ff:ff:ff:ff']),
	('macaddr8', ARRAY['00:00:00:00:00:00:00:00', 'ff:ff:ff:ff:ff:ff:ff:ff']),
	('point', ARRAY['(0,-0)', '(NaN,Infinity)']),
	('line', ARRAY['{1,2,3}']),
	('lseg', ARRAY['[(0,0),(1,1)]']),
	('box', ARRAY['(1,1),(0,0)']),
	('path', ARRAY['((0,0),(1,1),(2,0))', '[(0,0),(1,1)]']),
	('polygon', ARRAY['((0,0),(1,1),(2,0))']),
	('circle', ARRAY['<(0,0),5>']),
	('int4range', ARRAY['empty', '(,)', '[1,5)', '[1,)']),
	('int8range', ARRAY['empty', '[-9223372036854775808,9223372036854775807)']),
	('numrange', ARRAY['empty', '(1.50,2.5]', '(,NaN]']),
	('tsrange', ARRAY['[2024-01-01,infinity)', '(,)']),
	('tstzrange', ARRAY['[2024-01-01 00:00+00,2024-01-02 00:00+00]']),
	('daterange', ARRAY['[2024-01-01,2024-02-01)']),
	('va_range', ARRAY['[a,b)', 'empty']),
	('int4multirange', ARRAY['{}', '{[1,2),[5,9)}']),
	('nummultirange', ARRAY['{[1.5,2.5],(3,)}']),
	('datemultirange', ARRAY['{[2024-01-01,2024-02-01)}']),
	('int8multirange', ARRAY['{(,0),[10,20)}']),
	('tsmultirange', ARRAY['{[2024-01-01,infinity)}', '{}']),
	('tstzmultirange', ARRAY['{[2024-01-01 00:00+00,2024-01-02 00:00+00]}']),
	('va_mood', ARRAY['sad', 'ok', 'happy']),
	('va_inner', ARRAY['(,)', '(ok,"{""2024-01-01 00:00:00"",NULL}")']),
	('va_outer', ARRAY['("(happy,{})",1.50,text)', '(,,)']),
	('va_positive', ARRAY['1']),
	('va_pair', ARRAY['("(sad,{infinity})",0.1,"a ""quoted"" text")']),
	('va_words', ARRAY['{a,NULL,"c d"}', '{}']),
	('oidvector', ARRAY['', '1 2 4294967295']),
	('int2vector', ARRAY['', '1 -2 3']),
	('regclass', ARRAY['pg_class']),
	('regtype', ARRAY['integer']),
	('regproc', ARRAY['now']),
	('regprocedure', ARRAY['now()']),
	('regoper', ARRAY['pg_catalog.||/']),
	('regoperator', ARRAY['+(integer,integer)']),
	('regrole', ARRAY['pg_monitor']),
	('regnamespace', ARRAY['pg_catalog']),
	('regconfig', ARRAY['simple']),
	('regdictionary', ARRAY['simple']),
	('regcollation', ARRAY['"C"']),
	('refcursor', ARRAY['cursor']),
	('aclitem', ARRAY['=r/' || quote_ident(current_user)]),
	('int4[]', ARRAY['{}', '{1,NULL,3}', '[-1:0][5:6]={{1,2},{3,4}}']),
	('text[]', ARRAY['{}', '{"",NULL,"with \"quotes\""}']),
	('va_outer[]', ARRAY['{}', '{NULL,"(\"(ok,)\",1.0,x)"}']),
	('va_mood[]', ARRAY['{sad,happy,NULL}']),
	('va_positive[]', ARRAY['{1,2}']),
	('int4range[]', ARRAY['{"[1,5)",empty}']),
	('jsonb[]', ARRAY['{"{\"a\": 1}",NULL}']),
	('"char"[]', ARRAY['{a,b}']),
	('name[]', ARRAY['{a,b}']),
	('numeric(10,2)[]', ARRAY['{1.5,NaN}'])) t(type, v);

-- where the server knows XML
INSERT INTO va_values SELECT 'xml', '<a b="c">&amp;</a>' FROM pg_config WHERE name = 'CONFIGURE' AND setting LIKE '%libxml%';

-- every builtin type is there but those that only catalogs and indexes use
SELECT typname FROM pg_type t
	WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A'
	AND NOT EXISTS (SELECT FROM va_values v WHERE to_regtype(v.type) = t.oid)
	AND typname NOT IN ('xml', 'regdatabase')
	ORDER BY 1;

-- a column for each type, its values in turn and nulls
CREATE PROCEDURE va_create() LANGUAGE plpgsql AS $$
DECLARE
	types text[];
	columns text;
BEGIN
	SELECT array_agg(DISTINCT type COLLATE "C" ORDER BY type COLLATE "C") INTO types FROM va_values;
	SELECT string_agg(format('c%s %s', i, types[i]), ', ') INTO columns FROM generate_subscripts(types, 1) i;
	EXECUTE format('CREATE TABLE va_heap (id int PRIMARY KEY, %s) USING heap', columns);
	EXECUTE format('CREATE TABLE va (id int PRIMARY KEY, %s) USING lsm', columns);
	FOR r IN 1 .. 24 LOOP
		SELECT string_agg(CASE WHEN (r + i) % 9 = 0 THEN 'NULL' ELSE format('%L::%s', v.vals[1 + (r + i) % array_length(v.vals, 1)], types[i]) END, ', ' ORDER BY i)
			INTO columns
			FROM generate_subscripts(types, 1) i, LATERAL (SELECT array_agg(v) AS vals FROM va_values WHERE type = types[i]) v;
		EXECUTE format('INSERT INTO va_heap VALUES (%s, %s)', r, columns);
	END LOOP;
	INSERT INTO va SELECT * FROM va_heap ORDER BY id;
END $$;
CALL va_create();
SELECT count(*) > 90 AS columns FROM pg_attribute WHERE attrelid = 'va'::regclass AND attnum > 1;

-- rows whose bytes differ
CREATE FUNCTION va_diff() RETURNS SETOF int LANGUAGE sql AS
	$$ SELECT id FROM va FULL JOIN va_heap h USING (id) WHERE NOT coalesce(va *= h, false) ORDER BY id $$;
-- each column of a row takes the value of another row, some in one UPDATE, most by one each
CREATE PROCEDURE va_change(step int) LANGUAGE plpgsql AS $$
DECLARE
	natts int := (SELECT max(attnum) - 1 FROM pg_attribute WHERE attrelid = 'va'::regclass);
	command text;
BEGIN
	FOR i IN 1 .. natts LOOP
		command := format('UPDATE $t t SET c%1$s = h.c%1$s FROM va_heap_old h WHERE h.id = %2$s AND t.id = %3$s',
						  i, 1 + (i + step) % 24, 1 + (i * 5 + step) % 24);
		EXECUTE replace(command, '$t', 'va');
		EXECUTE replace(command, '$t', 'va_heap');
		IF i % 10 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
	SELECT 'UPDATE $t t SET ' || string_agg(format('c%1$s = h.c%1$s', i), ', ') || ' FROM va_heap_old h WHERE h.id = 1 + t.id % 24 AND t.id % 5 = ' || step % 5
		INTO command FROM generate_series(1, natts, 3) i;
	EXECUTE replace(command, '$t', 'va');
	EXECUTE replace(command, '$t', 'va_heap');
END $$;
CREATE TABLE va_heap_old AS SELECT * FROM va_heap;

SELECT va_diff();
SELECT count(*) AS flush FROM lsm_flush('va');
SELECT va_diff();
CALL va_change(1);
SELECT va_diff();
SELECT count(*) AS flush FROM lsm_flush('va');
SELECT va_diff();
CALL va_change(2);
SELECT va_diff();
SELECT count(*) AS flush FROM lsm_flush('va');
SELECT count(*) AS minor FROM lsm_minor_compact('va');
SELECT va_diff();
SELECT count(*) AS major FROM lsm_major_compact('va');
SELECT va_diff();
CALL va_change(3);
SELECT va_diff();
SELECT count(*) AS flush FROM lsm_flush('va');
SELECT count(*) AS major FROM lsm_major_compact('va');
VACUUM (FREEZE) va;
SELECT va_diff();
SELECT count(*) AS rows, count(DISTINCT va::text) > 20 AS differ FROM va;

-- pseudo-types cannot be columns, with any access method
CREATE TABLE va_pseudo (a cstring) USING lsm;
CREATE TABLE va_pseudo (a anyelement) USING lsm;
CREATE TABLE va_pseudo (a record) USING lsm;
CREATE TABLE va_pseudo () USING lsm;
INSERT INTO va_pseudo DEFAULT VALUES;
SELECT count(*) FROM va_pseudo;
SELECT count(*) AS flush FROM lsm_flush('va_pseudo');
SELECT count(*) FROM va_pseudo;

SELECT c AS problem FROM lsm_check('va') c;
SELECT c AS problem FROM lsm_check('va_pseudo') c;
DROP TABLE va, va_heap, va_heap_old, va_values, va_pseudo;
DROP FUNCTION va_diff;
DROP PROCEDURE va_create, va_change;
DROP TYPE va_range;
DROP DOMAIN va_pair, va_words, va_positive;
DROP TYPE va_outer, va_inner, va_mood;
