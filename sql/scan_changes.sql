-- Sequential scans of tables whose rows have records in the memtable: whatever
-- they find by walking along, an index scan finds row by row.
SET enable_bitmapscan = off;
CREATE TABLE scan_changes (id int PRIMARY KEY, n int, body text) USING lsm;
INSERT INTO scan_changes SELECT i, 0, 'row ' || i FROM generate_series(1, 500) i;
SELECT lsm_major_compact('scan_changes') IS NOT NULL AS compacted;

-- Rows that a scan and an index scan tell differently: none.
CREATE FUNCTION scan_changes_differ() RETURNS TABLE (id int, what text) LANGUAGE plpgsql AS $$
DECLARE
	seq text[];
	idx text[];
BEGIN
	PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_seqscan', 'on', true);
	EXECUTE 'SELECT array_agg((s.*, s.xmin, s.cmin, s.ctid)::text ORDER BY s.id) FROM scan_changes s WHERE s.id > 0' INTO seq;
	PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'off', true);
	EXECUTE 'SELECT array_agg((s.*, s.xmin, s.cmin, s.ctid)::text ORDER BY s.id) FROM scan_changes s WHERE s.id > 0' INTO idx;
	RETURN QUERY SELECT 0, seq[i] || ' is not ' || idx[i]
		FROM generate_series(1, greatest(cardinality(seq), cardinality(idx))) i
		WHERE seq[i] IS DISTINCT FROM idx[i];
END $$;

-- Updated once and often, deleted, moved, locked, and none of it.
UPDATE scan_changes SET n = n + 1 WHERE id % 2 = 0;
UPDATE scan_changes SET n = n + 1 WHERE id % 4 = 0;
UPDATE scan_changes SET n = 100, body = NULL WHERE id % 50 = 7;
UPDATE scan_changes SET n = n + 1 WHERE id % 50 = 7;
DELETE FROM scan_changes WHERE id % 10 = 3;
UPDATE scan_changes SET id = id + 1000 WHERE id % 25 = 9;
BEGIN;
SELECT count(*) FROM (SELECT FROM scan_changes WHERE id % 5 = 1 FOR UPDATE) s;
COMMIT;
SELECT count(*), sum(n), sum(id), count(body) FROM scan_changes;
SELECT * FROM scan_changes_differ();

-- Rolled back, wholly and in part: the bottom is what is left of some rows.
BEGIN;
UPDATE scan_changes SET n = -1;
DELETE FROM scan_changes WHERE id % 3 = 0;
ROLLBACK;
BEGIN;
UPDATE scan_changes SET n = n + 1 WHERE id % 6 = 1;
SAVEPOINT a;
UPDATE scan_changes SET n = -2, body = 'gone';
ROLLBACK TO a;
SELECT count(*), sum(n), sum(id), count(body) FROM scan_changes;
SELECT * FROM scan_changes_differ();
COMMIT;
SELECT * FROM scan_changes_differ();

-- A cursor sees what it saw when it was opened, in either direction, whatever is
-- done by later commands; so does a command that changes what it scans.
BEGIN;
SET LOCAL enable_indexscan = off;
DECLARE c SCROLL CURSOR FOR SELECT id, n FROM scan_changes WHERE id <= 200;
MOVE FORWARD 100 IN c;
UPDATE scan_changes SET n = n + 1000;
DELETE FROM scan_changes WHERE id % 2 = 0;
FETCH FORWARD 3 IN c;
MOVE BACKWARD 80 IN c;
FETCH BACKWARD 3 IN c;
MOVE FORWARD ALL IN c;
FETCH BACKWARD 3 IN c;
CLOSE c;
ROLLBACK;
CREATE FUNCTION scan_changes_next(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE scan_changes SET n = 5000 WHERE id = $1 + 1;
	RETURN $1;
END $$;
BEGIN;
SELECT count(*), sum(n) < 5000 AS unseen FROM (SELECT n, scan_changes_next(id) FROM scan_changes OFFSET 0) s;
SELECT count(*) FROM scan_changes WHERE n = 5000;
ROLLBACK;

-- With an increment below the memtable, and records there on versions in it.
SELECT lsm_flush('scan_changes') IS NOT NULL AS flushed;
UPDATE scan_changes SET n = n + 1 WHERE id % 3 = 0;
SELECT * FROM scan_changes_differ();
UPDATE scan_changes SET n = n + 1, body = 'new' WHERE id % 5 = 0;
DELETE FROM scan_changes WHERE id % 7 = 0;
SELECT count(*), sum(n), sum(id), count(body) FROM scan_changes;
SELECT * FROM scan_changes_differ();

-- Rows that have their INSERT in the memtable too.
INSERT INTO scan_changes SELECT i, 0, 'late ' || i FROM generate_series(2001, 2300) i;
UPDATE scan_changes SET n = n + 1 WHERE id > 2000 AND id % 3 > 0;
SELECT count(*), sum(n), sum(id), count(body) FROM scan_changes;
SELECT * FROM scan_changes_differ();

-- Long records: more than there is room for at once.
SELECT lsm_major_compact('scan_changes') IS NOT NULL AS compacted;
ALTER TABLE scan_changes ALTER body SET STORAGE EXTERNAL;
UPDATE scan_changes SET body = repeat(chr(65 + id % 26), 3000 + id) WHERE id % 3 < 2;
SELECT count(*), sum(n), sum(id), sum(length(body)) FROM scan_changes;
SELECT * FROM scan_changes_differ();
UPDATE scan_changes SET body = repeat('x', 20000) WHERE id % 9 = 0;
SELECT count(*), sum(n), sum(id), sum(length(body)) FROM scan_changes;
SELECT * FROM scan_changes_differ();

-- A column that is older than the rows' changes, and one that is newer.
ALTER TABLE scan_changes ADD later int DEFAULT 7;
UPDATE scan_changes SET n = n + 1 WHERE id % 4 = 1;
UPDATE scan_changes SET later = 8 WHERE id % 8 = 1;
ALTER TABLE scan_changes DROP body;
SELECT count(*), sum(n), sum(later) FROM scan_changes;
SELECT * FROM scan_changes_differ();
SELECT count(*) FROM lsm_check('scan_changes');
DROP FUNCTION scan_changes_next, scan_changes_differ;
DROP TABLE scan_changes;

-- keys that C code gives to a scan
CREATE FUNCTION lsm_test_scan_key(regclass, attnum int, value int) RETURNS int8 LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE sk (a int, b int) USING lsm;
INSERT INTO sk SELECT i, CASE WHEN i % 7 > 0 THEN i % 7 END FROM generate_series(1, 70) i;
SELECT count(*) AS flush FROM lsm_flush('sk');
UPDATE sk SET b = 3 WHERE a <= 5;
SELECT lsm_test_scan_key('sk', 2, 2), count(*) FILTER (WHERE b = 2) + 1000 * count(*) FILTER (WHERE b = 3) AS same FROM sk;
DROP TABLE sk;
DROP FUNCTION lsm_test_scan_key(regclass, int, int);
