--
-- Cursors: forwards and backwards, over flush and compaction, WHERE CURRENT OF
--
CREATE TABLE cu (id int PRIMARY KEY, v int, t text) USING lsm;
INSERT INTO cu SELECT i, i, 'row ' || i FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('cu');
INSERT INTO cu SELECT i, i, 'row ' || i FROM generate_series(101, 200) i;
UPDATE cu SET v = -v WHERE id % 10 = 0;

-- what a cursor sees does not move, whatever happens to the table
SET enable_sort = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM cu ORDER BY id;
FETCH 5 FROM c;
UPDATE cu SET v = 0;
DELETE FROM cu WHERE id BETWEEN 6 AND 8;
INSERT INTO cu VALUES (-1, 0, 'new');
FETCH 3 FROM c;
SELECT count(*) AS flush FROM lsm_flush('cu');
FETCH 3 FROM c;
FETCH BACKWARD 5 FROM c;
SELECT count(*) AS minor FROM lsm_minor_compact('cu');
SELECT count(*) AS major FROM lsm_major_compact('cu');
FETCH ABSOLUTE 110 FROM c;
FETCH RELATIVE 5 FROM c;
FETCH LAST FROM c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
FETCH FIRST FROM c;
MOVE FORWARD 8 FROM c;
FETCH BACKWARD 3 FROM c;
ROLLBACK;
RESET enable_sort;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- a sequential scan read in pieces, with all kinds of changes between them
CREATE FUNCTION cu_drain(c refcursor, n int, OUT rows bigint, OUT ids bigint, OUT vs bigint) LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	rows := 0; ids := 0; vs := 0;
	FOR i IN 1 .. n LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows + 1; ids := ids + r.id; vs := vs + r.v;
	END LOOP;
END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT id, v FROM cu;
DECLARE part CURSOR FOR SELECT id, v FROM cu;
SELECT count(*) AS part FROM cu_drain('part', 50);
UPDATE cu SET v = v + 1000;
SELECT count(*) AS flush FROM lsm_flush('cu');
INSERT INTO cu SELECT i, 0, NULL FROM generate_series(1001, 1100) i;
DELETE FROM cu WHERE id % 2 = 0;
SELECT count(*) AS flush FROM lsm_flush('cu');
SELECT count(*) AS minor FROM lsm_minor_compact('cu');
SELECT count(*) AS part FROM cu_drain('part', 70);
SELECT count(*) AS major FROM lsm_major_compact('cu');
SELECT * FROM cu_drain('c', 1000);
SELECT rows FROM cu_drain('part', 1000);
SELECT count(*), sum(id), sum(v) FROM cu;
ROLLBACK;
SELECT count(*), sum(id), sum(v) FROM cu;

-- backwards over a sequential scan gives the same rows
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM cu;
SELECT * FROM cu_drain('c', 1000);
UPDATE cu SET v = 5 WHERE id < 50;
SELECT count(*) AS flush FROM lsm_flush('cu');
CREATE FUNCTION cu_back(c refcursor, OUT rows bigint, OUT ids bigint, OUT vs bigint) LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	rows := 0; ids := 0; vs := 0;
	LOOP
		FETCH PRIOR FROM c INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows + 1; ids := ids + r.id; vs := vs + r.v;
	END LOOP;
END $$;
SELECT * FROM cu_back('c');
SELECT count(*) AS major FROM lsm_major_compact('cu');
SELECT * FROM cu_drain('c', 1000);
SELECT * FROM cu_back('c');
COMMIT;

-- WITH HOLD
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id, v FROM cu ORDER BY id;
FETCH 2 FROM h;
COMMIT;
UPDATE cu SET v = 7;
SELECT count(*) AS major FROM lsm_major_compact('cu');
FETCH 2 FROM h;
CLOSE h;

-- WHERE CURRENT OF
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM cu WHERE id IN (1, 2, 3) ORDER BY id FOR UPDATE;
FETCH 1 FROM c;
UPDATE cu SET v = 11 WHERE CURRENT OF c RETURNING id, v;
UPDATE cu SET v = 12 WHERE CURRENT OF c RETURNING id, v;
SELECT count(*) AS flush FROM lsm_flush('cu');
UPDATE cu SET v = 13 WHERE CURRENT OF c RETURNING id, v;
FETCH 1 FROM c;
DELETE FROM cu WHERE CURRENT OF c RETURNING id;
DELETE FROM cu WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
SELECT count(*) AS major FROM lsm_major_compact('cu');
UPDATE cu SET id = 300 WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
COMMIT;
SELECT id, v FROM cu WHERE id < 5 OR id = 300 ORDER BY id;

BEGIN;
DECLARE c CURSOR FOR SELECT * FROM cu WHERE v = 7 AND id = 20;
FETCH 1 FROM c;
SELECT count(*) AS flush FROM lsm_flush('cu');
UPDATE cu SET v = 20 WHERE CURRENT OF c;
COMMIT;
SELECT id, v FROM cu WHERE id = 20;

-- a loop over a query that changes what it reads
DO $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR r IN SELECT id FROM cu WHERE id > 50 LOOP
		UPDATE cu SET v = v + 1, id = id + 10000 WHERE id = r.id;
		n := n + 1;
		IF n % 40 = 0 THEN
			PERFORM lsm_flush('cu');
			PERFORM lsm_major_compact('cu');
		END IF;
	END LOOP;
	RAISE NOTICE 'rows: %', n;
END $$;
SELECT count(*), sum(id), sum(v) FROM cu;

-- a procedure that commits in its loop
CREATE PROCEDURE cu_commit() LANGUAGE plpgsql AS $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR r IN SELECT id FROM cu ORDER BY id LIMIT 30 LOOP
		UPDATE cu SET t = 'committed' WHERE id = r.id;
		n := n + 1;
		IF n % 10 = 0 THEN
			COMMIT;
			PERFORM lsm_flush('cu');
		END IF;
	END LOOP;
END $$;
CALL cu_commit();
SELECT count(*) FROM cu WHERE t = 'committed';

SELECT c AS problem FROM lsm_check('cu') c;
DROP PROCEDURE cu_commit();
DROP FUNCTION cu_drain(refcursor, int), cu_back(refcursor);
