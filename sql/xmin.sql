--
-- xmin is the xid that has written a row, also when it is frozen: as in heap
--
SET client_min_messages = warning;
CREATE TABLE xm_h (id int PRIMARY KEY, k int, v text);
CREATE TABLE xm_l (id int PRIMARY KEY, k int, v text) USING lsm;
CREATE INDEX ON xm_l (k);

-- both are changed by the same transactions, so have the same xmin in each row
CREATE PROCEDURE xm_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, 'TWIN', 'xm_h');
	EXECUTE replace(statement, 'TWIN', 'xm_l');
END
$$;

-- how many rows there are, and how many differ: by a scan, by index, by a bitmap, as they are sorted
CREATE FUNCTION xm_differ(OUT rows bigint, OUT scan bigint, OUT index bigint, OUT again bigint,
						  OUT bitmap bigint, OUT sorted bigint, OUT locked bigint)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT count(*) INTO rows FROM xm_h;
	SELECT count(*) INTO scan FROM (SELECT xmin::text, * FROM xm_h) h FULL JOIN (SELECT xmin::text, * FROM xm_l) l USING (id)
	WHERE h.xmin IS DISTINCT FROM l.xmin OR h.v IS DISTINCT FROM l.v;
	SET enable_seqscan = off;
	SET enable_bitmapscan = off;
	SELECT count(*) INTO index FROM xm_h h, LATERAL (SELECT xmin FROM xm_l WHERE id = h.id OFFSET 0) l WHERE h.xmin <> l.xmin;
	SELECT count(*) INTO again FROM xm_h h, LATERAL (SELECT xmin, v FROM xm_l WHERE id = h.id OFFSET 0) l
	WHERE h.xmin = l.xmin AND h.v IS NOT DISTINCT FROM l.v;
	again = rows - again;
	SET enable_bitmapscan = on;
	SET enable_indexscan = off;
	SELECT count(*) INTO bitmap FROM xm_h h, (SELECT xmin, id FROM xm_l WHERE k >= 0) l WHERE h.id = l.id AND h.xmin <> l.xmin;
	RESET enable_indexscan;
	RESET enable_seqscan;
	SELECT count(*) INTO sorted FROM xm_h h, (SELECT xmin, id FROM xm_l ORDER BY v, id OFFSET 0) l
	WHERE h.id = l.id AND h.xmin <> l.xmin;
	SELECT count(*) INTO locked FROM xm_h h, (SELECT xmin, id FROM xm_l ORDER BY v, id FOR KEY SHARE) l
	WHERE h.id = l.id AND h.xmin <> l.xmin;
END
$$;

CALL xm_both('INSERT INTO TWIN SELECT i, i, ''new '' || i FROM generate_series(1, 500) i');
CALL xm_both('INSERT INTO TWIN SELECT i, i, ''second '' || i FROM generate_series(501, 1000) i');
BEGIN;
CALL xm_both('INSERT INTO TWIN VALUES (1001, 1001, ''a'')');
SAVEPOINT s;
CALL xm_both('INSERT INTO TWIN VALUES (1002, 1002, ''b'')');
RELEASE s;
COMMIT;
-- rows of a transaction each
DO $$
BEGIN
	FOR i IN 1003..1100 LOOP
		CALL xm_both(format('INSERT INTO TWIN VALUES (%s, %s, ''single'')', i, i));
		COMMIT;
	END LOOP;
END
$$;
SELECT * FROM xm_differ();
SELECT count(DISTINCT xmin::text) FROM xm_l;
SELECT FROM lsm_flush('xm_l');
SELECT * FROM xm_differ();
SELECT FROM lsm_major_compact('xm_l');
SELECT * FROM xm_differ();
VACUUM (FREEZE) xm_l, xm_h;
SELECT * FROM xm_differ();

-- changed rows: others keep theirs, in the same blocks
CALL xm_both('UPDATE TWIN SET v = v || ''.'' WHERE id % 10 = 3');
CALL xm_both('UPDATE TWIN SET k = k + 5000 WHERE id % 10 = 4');
CALL xm_both('DELETE FROM TWIN WHERE id % 10 = 5');
CALL xm_both('UPDATE TWIN SET v = NULL WHERE id % 20 = 3');
CALL xm_both('UPDATE TWIN SET v = ''x'', k = k - 1 WHERE id % 30 = 3');
SELECT * FROM xm_differ();
SELECT FROM lsm_flush('xm_l');
SELECT * FROM xm_differ();
CALL xm_both('UPDATE TWIN SET v = v || ''!'' WHERE id % 10 = 3');
SELECT FROM lsm_flush('xm_l'), lsm_minor_compact('xm_l');
SELECT * FROM xm_differ();
SELECT FROM lsm_major_compact('xm_l');
SELECT * FROM xm_differ();
VACUUM (FREEZE) xm_l;
SELECT kind, sum(versions) = (SELECT count(*) FROM xm_h) AS versions FROM lsm_segments('xm_l') GROUP BY 1;
SELECT count(DISTINCT xmin::text) > 50 AS xids, count(*) FILTER (WHERE xmin = '2') AS frozen FROM xm_l;

-- rolled back and not, in parts of transactions; told by who writes; what a trigger sees
BEGIN;
CALL xm_both('UPDATE TWIN SET v = ''kept'' WHERE id = 20');
SAVEPOINT a;
CALL xm_both('UPDATE TWIN SET v = ''lost'' WHERE id IN (20, 21)');
ROLLBACK TO a;
SAVEPOINT b;
CALL xm_both('UPDATE TWIN SET v = ''sub'', k = -1 WHERE id IN (22, 24)');
CALL xm_both('INSERT INTO TWIN VALUES (26, 1, ''first'') ON CONFLICT (id) DO UPDATE SET v = ''upsert''');
RELEASE b;
COMMIT;
SELECT * FROM xm_differ();
CREATE FUNCTION xm_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% %', OLD.id, OLD.xmin = (SELECT xmin FROM xm_h WHERE id = OLD.id);
	RETURN NEW;
END
$$;
CREATE TRIGGER t BEFORE UPDATE ON xm_l FOR EACH ROW EXECUTE FUNCTION xm_trigger();
SET client_min_messages = notice;
BEGIN;
UPDATE xm_l SET v = 'told' WHERE id IN (20, 22, 24, 26, 700) RETURNING id, xmin = pg_current_xact_id()::xid AS mine;
UPDATE xm_h SET v = 'told' WHERE id IN (20, 22, 24, 26, 700);
COMMIT;
DELETE FROM xm_l WHERE id = 700 RETURNING xmin = (SELECT xmin FROM xm_h WHERE id = 700) AS same;
DELETE FROM xm_h WHERE id = 700;
SET client_min_messages = warning;
DROP TRIGGER t ON xm_l;
SELECT * FROM xm_differ();
SELECT FROM lsm_flush('xm_l'), lsm_major_compact('xm_l');
VACUUM (FREEZE) xm_l;
SELECT * FROM xm_differ();

-- written anew
CALL xm_both('UPDATE TWIN SET v = ''recent'' WHERE id < 10');
VACUUM (FULL) xm_l;
SELECT * FROM xm_differ();
CLUSTER xm_l USING xm_l_k_idx;
SELECT * FROM xm_differ();
SET enable_indexscan = off;
CLUSTER xm_l USING xm_l_pkey;
RESET enable_indexscan;
SELECT * FROM xm_differ();
SELECT * FROM lsm_check('xm_l');

-- xmin as the version of a row: nothing is overwritten, whatever has become of the versions meanwhile
SELECT xmin AS seen FROM xm_l WHERE id = 7 \gset
UPDATE xm_l SET v = 'theirs' WHERE id = 7;
SELECT FROM lsm_flush('xm_l'), lsm_major_compact('xm_l');
VACUUM (FREEZE) xm_l;
UPDATE xm_l SET v = 'mine' WHERE id = 7 AND xmin = :'seen' RETURNING v;
SELECT xmin AS seen FROM xm_l WHERE id = 7 \gset
SELECT FROM lsm_flush('xm_l'), lsm_major_compact('xm_l');
UPDATE xm_l SET v = 'mine' WHERE id = 7 AND xmin = :'seen' RETURNING v;
UPDATE xm_l SET v = 'again' WHERE id = 7 AND xmin = :'seen' RETURNING v;

DROP TABLE xm_h, xm_l;
DROP PROCEDURE xm_both;
DROP FUNCTION xm_trigger;
DROP FUNCTION xm_differ;
