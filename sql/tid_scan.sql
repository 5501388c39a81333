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

SELECT c AS problem FROM lsm_check('ti') c;
DROP FUNCTION ti_ask();
DROP TABLE ti;
