--
-- ctid, xmin, xmax, cmin, cmax, tableoid
--
CREATE TABLE sys (id int PRIMARY KEY, v int, w int) USING lsm;
INSERT INTO sys SELECT i, i, 0 FROM generate_series(1, 10) i;

SELECT count(DISTINCT ctid), bool_and(tableoid = 'sys'::regclass), bool_and(xmax::text = '0'),
	count(DISTINCT xmin::text) FROM sys;
-- one transaction made them, and it was not the next one
BEGIN;
SELECT bool_and(xmin::text <> pg_current_xact_id()::xid::text) FROM sys;
INSERT INTO sys VALUES (11, 11, 0);
INSERT INTO sys VALUES (12, 12, 0), (13, 13, 0);
SELECT id, xmin::text = pg_current_xact_id()::xid::text AS mine, cmin FROM sys WHERE id > 9 AND id <> 10 ORDER BY id;
UPDATE sys SET v = 0 WHERE id = 12;
UPDATE sys SET w = 1 WHERE id = 12;
SELECT id, xmin::text = pg_current_xact_id()::xid::text AS mine, cmin FROM sys WHERE id IN (11, 12) ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('sys');
SELECT id, xmin::text = pg_current_xact_id()::xid::text AS mine, cmin FROM sys WHERE id IN (11, 12) ORDER BY id;
COMMIT;
SELECT count(*) AS flush FROM lsm_flush('sys');
SELECT count(DISTINCT ctid), bool_and(tableoid = 'sys'::regclass) FROM sys;

-- xmax of a locked row and of a deleted one that is still seen
BEGIN;
SELECT id FROM sys WHERE id = 1 FOR UPDATE;
SELECT xmax::text = pg_current_xact_id()::xid::text AS locked FROM sys WHERE id = 1;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT id, xmax::text = pg_current_xact_id()::xid::text AS deleted FROM sys ORDER BY id LIMIT 3;
DELETE FROM sys WHERE id = 2;
UPDATE sys SET v = -1 WHERE id = 3;
COMMIT;
SELECT id, v FROM sys WHERE id < 5 ORDER BY id;

-- a row is found by the ctid it reports, through a join, an array, a temporary
-- table, and by an update or delete
SELECT a.id, b.id FROM sys a JOIN sys b ON a.ctid = b.ctid WHERE a.id < 5 ORDER BY a.id;
SELECT count(*) FROM sys WHERE ctid = ANY (ARRAY(SELECT ctid FROM sys));
UPDATE sys SET v = v + 1;
SELECT count(*) FROM sys a JOIN sys b ON a.ctid = b.ctid AND a.id = b.id;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM sys a JOIN sys b ON a.ctid = b.ctid AND a.id = b.id;
RESET enable_mergejoin;
SET enable_nestloop = off;
SELECT count(*) FROM sys a JOIN sys b ON a.ctid = b.ctid AND a.id = b.id;
RESET enable_nestloop;
RESET enable_hashjoin;
SELECT count(*) AS flush FROM lsm_flush('sys');
SELECT count(*) FROM sys a JOIN sys b ON a.ctid = b.ctid AND a.id = b.id;
SELECT count(*) FROM sys WHERE ctid = ANY (ARRAY(SELECT ctid FROM sys));
SELECT count(*) AS minor FROM lsm_minor_compact('sys');
SELECT count(*) FROM sys WHERE ctid = ANY (ARRAY(SELECT ctid FROM sys));
SELECT count(*) AS major FROM lsm_major_compact('sys');
SELECT count(*) FROM sys WHERE ctid = ANY (ARRAY(SELECT ctid FROM sys));

-- within a transaction a row keeps its name while all is flushed and compacted
BEGIN;
UPDATE sys SET w = 2 WHERE id = 4;			-- a version of our own
CREATE TEMP TABLE names ON COMMIT DROP AS SELECT id, ctid AS tid FROM sys;
SELECT count(*) AS flush FROM lsm_flush('sys');
SELECT count(*) FROM names n JOIN sys s ON s.ctid = n.tid AND s.id = n.id;
SELECT count(*) AS minor FROM lsm_minor_compact('sys');
SELECT count(*) FROM names n JOIN sys s ON s.ctid = n.tid AND s.id = n.id;
SELECT count(*) AS major FROM lsm_major_compact('sys');
SELECT count(*) FROM names n JOIN sys s ON s.ctid = n.tid AND s.id = n.id;
SELECT id, w FROM sys WHERE ctid = (SELECT tid FROM names WHERE id = 4);
WITH changed AS (UPDATE sys SET w = w + 10 FROM names n WHERE sys.ctid = n.tid AND n.id IN (4, 5) RETURNING sys.id, sys.w)
	SELECT * FROM changed ORDER BY id;
DELETE FROM sys USING names n WHERE sys.ctid = n.tid AND n.id = 6 RETURNING sys.id;
-- the version named by the old ctid is not the newest any more
SELECT id FROM names n WHERE NOT EXISTS (SELECT FROM sys s WHERE s.ctid = n.tid) ORDER BY id;
COMMIT;

-- RETURNING ctid used by the next statement
BEGIN;
UPDATE sys SET w = 100 WHERE id = 7 RETURNING ctid AS tid \gset
SELECT count(*) AS flush FROM lsm_flush('sys');
UPDATE sys SET w = w + 1 WHERE ctid = :'tid' RETURNING id, w;
INSERT INTO sys VALUES (14, 14, 14) RETURNING ctid AS tid \gset
SELECT count(*) AS flush FROM lsm_flush('sys');
SELECT count(*) AS major FROM lsm_major_compact('sys');
DELETE FROM sys WHERE ctid = :'tid' RETURNING id;
COMMIT;
SELECT * FROM sys ORDER BY id;

-- an update of a row changes its ctid, a lock or a rolled back update does not
SELECT ctid AS before FROM sys WHERE id = 8 \gset
BEGIN;
UPDATE sys SET w = -1 WHERE id = 8;
SELECT ctid <> :'before' AS changed FROM sys WHERE id = 8;
ROLLBACK;
SELECT ctid = :'before' AS same FROM sys WHERE id = 8;
BEGIN;
SELECT id FROM sys WHERE id = 8 FOR UPDATE;
SELECT ctid = :'before' AS same FROM sys WHERE id = 8;
COMMIT;

-- system columns in RETURNING, in a whole row and with nothing else
UPDATE sys SET v = 8 WHERE id = 8 RETURNING tableoid::regclass, id, xmax::text = '0' AS free, cmin;
SELECT tableoid::regclass, count(*) FROM sys GROUP BY 1;
SELECT count(*) FROM (SELECT ctid FROM sys) s;
SELECT count(*) AS major FROM lsm_major_compact('sys');
SELECT id, xmin IS NOT NULL AS x, cmin IS NOT NULL AS c, cmax IS NOT NULL AS m FROM sys WHERE id < 3 ORDER BY id;

-- an update by a subtransaction has its xid
BEGIN;
SAVEPOINT s;
UPDATE sys SET v = 80 WHERE id = 8;
SELECT xmin::text <> pg_current_xact_id()::xid::text AS sub FROM sys WHERE id = 8;
COMMIT;

-- rows that are frozen at once are still their transaction's own, as in heap, until it ends
BEGIN;
CREATE TABLE sys_frozen (id int, v int) USING lsm;
COPY sys_frozen FROM stdin (FREEZE);
1	1
2	2
3	3
\.
SELECT count(*), bool_and(xmin = pg_current_xact_id()::xid) AS mine FROM sys_frozen;
SELECT count(*) AS flush FROM lsm_flush('sys_frozen');
SELECT count(*), bool_and(xmin = pg_current_xact_id()::xid) AS mine FROM sys_frozen;
COMMIT;
SELECT count(*), bool_and(xmin = '2') AS frozen FROM sys_frozen;
BEGIN;
TRUNCATE sys_frozen;
COPY sys_frozen FROM stdin (FREEZE);
4	4
\.
UPDATE sys_frozen SET v = 5 RETURNING id, v, xmin = pg_current_xact_id()::xid AS mine;
ROLLBACK;
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS xid;
SELECT count(*), bool_and(xmin = '2') AS frozen FROM sys_frozen;
COMMIT;
-- but not the rows of others that are rewritten by it
BEGIN;
SAVEPOINT s;
TRUNCATE sys_frozen;
COPY sys_frozen FROM stdin (FREEZE);
5	5
\.
SELECT count(*), bool_and(xmin = pg_current_xact_id()::xid) AS mine FROM sys_frozen;
ROLLBACK TO s;
SELECT count(*), bool_and(xmin = '2') AS frozen FROM sys_frozen;
CREATE INDEX sys_frozen_id ON sys_frozen (id);
CLUSTER sys_frozen USING sys_frozen_id;
SELECT count(*), bool_and(xmin = '2') AS frozen FROM sys_frozen;
COMMIT;
DROP TABLE sys_frozen;

SELECT c AS problem FROM lsm_check('sys') c;
