--
-- TID scans and TID range scans
--
CREATE TABLE ti (id int, v int) USING lsm;
INSERT INTO ti SELECT i, i FROM generate_series(1, 1000) i;

-- by every row's own TID, in each state of the table
CREATE FUNCTION ti_ask(OUT hits bigint, OUT wrong bigint) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	i int;
BEGIN
	hits := 0; wrong := 0;
	FOR r IN SELECT ctid AS tid, id FROM ti WHERE id % 10 < 3 LOOP
		SELECT id INTO i FROM ti WHERE ctid = r.tid;
		IF i = r.id THEN
			hits := hits + 1;
		ELSE
			wrong := wrong + 1;
		END IF;
	END LOOP;
END $$;
SELECT * FROM ti_ask();
UPDATE ti SET v = v + 1 WHERE id % 4 = 0;
SELECT * FROM ti_ask();
SELECT count(*) AS flush FROM lsm_flush('ti');
SELECT * FROM ti_ask();
UPDATE ti SET v = v + 1 WHERE id % 6 = 0;
DELETE FROM ti WHERE id % 7 = 0;
SELECT * FROM ti_ask();
SELECT count(*) AS flush FROM lsm_flush('ti');
SELECT * FROM ti_ask();
SELECT count(*) AS minor FROM lsm_minor_compact('ti');
SELECT * FROM ti_ask();
SELECT count(*) AS major FROM lsm_major_compact('ti');
SELECT * FROM ti_ask();

-- lists, duplicates, and TIDs of no row
SELECT array_agg(ctid ORDER BY id) AS tids FROM ti WHERE id IN (1, 2, 3) \gset
SELECT id FROM ti WHERE ctid = ANY (:'tids'::tid[]) ORDER BY id;
SELECT id FROM ti WHERE ctid = ANY (:'tids'::tid[] || :'tids'::tid[]) ORDER BY id;
SELECT id FROM ti WHERE ctid IN ('(0,0)', '(0,2000)', '(4000000000,1)', '(4294967294,1)', '(4294967295,0)');
SELECT id FROM ti WHERE ctid = NULL;
DELETE FROM ti WHERE id = 2;
SELECT id FROM ti WHERE ctid = ANY (:'tids'::tid[]) ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('ti');
SELECT id FROM ti WHERE ctid = ANY (:'tids'::tid[]) ORDER BY id;
VACUUM ti;
SELECT id FROM ti WHERE ctid = ANY (:'tids'::tid[]) ORDER BY id;

-- ranges: every row lies in one half
SELECT ctid AS middle FROM ti WHERE id = 501 \gset
SELECT count(*) FROM ti WHERE ctid < :'middle' OR ctid >= :'middle';
SELECT (SELECT count(*) FROM ti WHERE ctid < :'middle') + (SELECT count(*) FROM ti WHERE ctid = :'middle')
	+ (SELECT count(*) FROM ti WHERE ctid > :'middle') AS all;
SELECT (SELECT count(*) FROM ti WHERE ctid >= :'middle') - (SELECT count(*) FROM ti WHERE ctid > :'middle') AS one;
SELECT count(*) FROM ti WHERE ctid >= '(4294967294,1)';
SELECT count(*) FROM ti WHERE ctid < '(0,1)';
SELECT count(*) FROM ti WHERE ctid >= '(0,0)' AND ctid <= '(4294967295,65535)';
UPDATE ti SET v = 0 WHERE ctid >= :'middle';
SELECT count(*) AS flush FROM lsm_flush('ti');
SELECT count(*) FROM ti WHERE ctid >= '(0,0)';
-- by ranges in pieces, as scripts that go through a large table do
DO $$
DECLARE
	n bigint;
	total bigint := 0;
BEGIN
	FOR i IN 0 .. 40 LOOP
		SELECT count(*) INTO n FROM ti
			WHERE ctid >= ('(' || i || ',0)')::tid AND ctid < ('(' || i + 1 || ',0)')::tid;
		total := total + n;
	END LOOP;
	SELECT count(*) INTO n FROM ti WHERE ctid >= '(41,0)';
	RAISE NOTICE 'rows: %', total + n;
END $$;
DELETE FROM ti WHERE ctid < :'middle';
DELETE FROM ti WHERE ctid >= :'middle';
SELECT count(*) FROM ti;

-- by a range scan and by a filter on all rows: the same rows, by the names that
-- the transaction uses, which lie in the ring for what it has changed itself
CREATE TABLE tr (id int, v int) USING lsm;
INSERT INTO tr SELECT i, 0 FROM generate_series(1, 2000) i;
CREATE FUNCTION tr_ask(OUT scans bigint, OUT rows bigint, OUT wrong bigint, OUT ring bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	condition text;
	a text;
	b text;
BEGIN
	scans := 0; rows := 0; wrong := 0;
	FOREACH condition IN ARRAY ARRAY['ctid >= ''(2,5)'' AND ctid < ''(5,0)''', 'ctid > ''(3,1)'' AND ctid <= ''(3,1)''',
		'ctid > ''(3,1)'' AND ctid <= ''(3,2)''', 'ctid < ''(4,17)''', 'ctid >= ''(4,17)''', 'ctid > ''(3758096384,0)''',
		'ctid < ''(3758096384,0)''', 'ctid BETWEEN ''(7,200)'' AND ''(3758096384,3)''', 'ctid <= ''(4294967295,65535)''',
		'ctid >= ''(9,0)'' AND ctid < ''(2,0)'''] LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_tidscan', 'on', true);
		FOR line IN EXECUTE 'EXPLAIN SELECT * FROM tr WHERE ' || condition LOOP
			scans := scans + (line LIKE '%Tid Range Scan on tr%')::int;
		END LOOP;
		EXECUTE 'SELECT string_agg(id || '' '' || ctid, '','' ORDER BY id), count(*) + $1 FROM tr WHERE ' || condition
			INTO a, rows USING rows;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_tidscan', 'off', true);
		EXECUTE 'SELECT string_agg(id || '' '' || ctid, '','' ORDER BY id) FROM tr WHERE ' || condition INTO b;
		IF a IS DISTINCT FROM b THEN
			wrong := wrong + 1;
		END IF;
	END LOOP;
	PERFORM set_config('enable_tidscan', 'on', true);
	SELECT count(*) INTO ring FROM tr WHERE ctid >= '(3758096384,0)';
END $$;
SELECT scans, rows > 6000 AS rows, wrong, ring FROM tr_ask();
BEGIN;
UPDATE tr SET v = v + 1 WHERE id % 10 = 0;
SELECT scans, rows > 6000 AS rows, wrong, ring FROM tr_ask();
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT scans, rows > 6000 AS rows, wrong, ring FROM tr_ask();
DELETE FROM tr WHERE id % 20 = 0;
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT count(*) AS major FROM lsm_major_compact('tr');
SELECT scans, rows > 6000 AS rows, wrong, ring FROM tr_ask();
UPDATE tr SET v = v + 1 WHERE ctid >= '(3758096384,0)';
SELECT scans, rows > 6000 AS rows, wrong, ring FROM tr_ask();
COMMIT;
SELECT scans, rows > 6000 AS rows, wrong, ring FROM tr_ask();
SELECT count(*) AS flush FROM lsm_flush('tr');
SELECT count(*) AS major FROM lsm_major_compact('tr');
SELECT scans, rows > 6000 AS rows, wrong, ring FROM tr_ask();
-- forwards and backwards
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM tr WHERE ctid > '(1,3)' AND ctid < '(1,9)';
FETCH ALL FROM c;
SELECT count(*) AS flush FROM lsm_flush('tr');
FETCH BACKWARD ALL FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;
-- with bounds from another table, anew for each
SELECT b, (SELECT count(*) FROM tr WHERE ctid >= b AND ctid < '(6,0)') > 0 AS some FROM (VALUES ('(0,0)'::tid), ('(5,1)'), (NULL), ('(7,0)')) x (b);
SELECT c AS problem FROM lsm_check('tr') c;
DROP FUNCTION tr_ask();
DROP TABLE tr;

SELECT c AS problem FROM lsm_check('ti') c;
DROP FUNCTION ti_ask();
DROP TABLE ti;
