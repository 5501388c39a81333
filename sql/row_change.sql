--
-- Rows changed more than once by one command, and what changes and locks leave
-- behind in system columns
--
\set VERBOSITY terse
CREATE TABLE rc (id int PRIMARY KEY, parent int, children int DEFAULT 0, v text) USING lsm;

-- BEFORE triggers that change the row of the command itself
CREATE FUNCTION rc_del() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE rc SET children = children - 1 WHERE id = OLD.parent;
	RETURN OLD;
END $$;
CREATE TRIGGER rc_del BEFORE DELETE ON rc FOR EACH ROW EXECUTE FUNCTION rc_del();
CREATE FUNCTION rc_upd() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v = 'again' THEN
		UPDATE rc SET v = 'by trigger' WHERE id = NEW.id;
	ELSIF NEW.v = 'delete' THEN
		DELETE FROM rc WHERE id = NEW.id;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER rc_upd BEFORE UPDATE ON rc FOR EACH ROW EXECUTE FUNCTION rc_upd();
-- children come before their parents in the table, so that these come last
INSERT INTO rc VALUES (3, 1, 0), (2, 1, 0), (1, NULL, 2);
DELETE FROM rc;
SELECT count(*) AS flush FROM lsm_flush('rc');
DELETE FROM rc;
UPDATE rc SET v = 'again' WHERE id = 3;
UPDATE rc SET v = 'delete' WHERE id = 3;
SELECT * FROM rc ORDER BY id;
DROP TRIGGER rc_upd ON rc;
DROP TRIGGER rc_del ON rc;

-- twice in one command without a trigger: the first change counts
UPDATE rc SET v = 'j' || x FROM generate_series(1, 3) x WHERE id = 1;
SELECT v IN ('j1', 'j2', 'j3') AS one_of_them FROM rc WHERE id = 1;
WITH u AS (UPDATE rc SET v = 'cte' WHERE id = 2 RETURNING id)
	DELETE FROM rc USING u WHERE rc.id = u.id RETURNING rc.*;
MERGE INTO rc USING (VALUES (1), (1)) x (i) ON id = i WHEN MATCHED THEN UPDATE SET v = 'merge';
INSERT INTO rc VALUES (7, 1), (7, 2) ON CONFLICT (id) DO UPDATE SET v = 'twice';
SELECT id, parent FROM rc ORDER BY id;

-- the version that a cursor is on has been changed since, by and for it
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM rc WHERE id < 3 ORDER BY id FOR UPDATE;
FETCH 1 FROM c;
UPDATE rc SET v = 'one' WHERE CURRENT OF c RETURNING *;
SELECT count(*) AS flush FROM lsm_flush('rc');
UPDATE rc SET v = v || ' two' WHERE CURRENT OF c RETURNING *;
SELECT count(*) AS flush FROM lsm_flush('rc');
SELECT count(*) AS major FROM lsm_major_compact('rc');
UPDATE rc SET id = 101 WHERE CURRENT OF c RETURNING *;
DELETE FROM rc WHERE CURRENT OF c RETURNING *;
DELETE FROM rc WHERE CURRENT OF c RETURNING *;
ROLLBACK;

-- WHERE CURRENT OF where the cursor is an index-only scan
INSERT INTO rc SELECT i, 1 FROM generate_series(10, 1000) i;
VACUUM ANALYZE rc;
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM rc WHERE id BETWEEN 20 AND 30;
DECLARE c CURSOR FOR SELECT id FROM rc WHERE id BETWEEN 20 AND 30;
FETCH 2 FROM c;
UPDATE rc SET v = 'current' WHERE CURRENT OF c RETURNING id, v;
FETCH 1 FROM c;
SELECT count(*) AS flush FROM lsm_flush('rc');
DELETE FROM rc WHERE CURRENT OF c RETURNING id, v;
FETCH 1 FROM c;
UPDATE rc SET id = 1001 WHERE CURRENT OF c RETURNING id, v;
SELECT count(*) AS major FROM lsm_major_compact('rc');
FETCH 1 FROM c;
UPDATE rc SET v = 'after it' WHERE CURRENT OF c RETURNING id, v;
COMMIT;
SELECT id, v FROM rc WHERE id BETWEEN 20 AND 25 OR id > 1000 ORDER BY id;

-- xmax: who locks the new version; INSERT ... ON CONFLICT tells by it what it did
INSERT INTO rc VALUES (5), (20) ON CONFLICT (id) DO UPDATE SET v = 'upsert'
	RETURNING id, xmax = 0 AS inserted, xmax = pg_current_xact_id()::xid AS updated;
BEGIN;
SELECT id FROM rc WHERE id = 21 FOR NO KEY UPDATE;
UPDATE rc SET v = 'locked' WHERE id = 21 RETURNING xmin = xmax AS locked;
UPDATE rc SET v = 'not locked' WHERE id = 24 RETURNING xmax;
DELETE FROM rc WHERE id = 25 RETURNING xmax = pg_current_xact_id()::xid AS deleted;
COMMIT;

-- ctid from one statement used in the next ones, whatever happens between
BEGIN;
SELECT ctid AS t FROM rc WHERE id = 30 \gset
UPDATE rc SET v = 'by ctid' WHERE ctid = :'t' RETURNING id, v, ctid AS t2 \gset
SELECT count(*) AS flush FROM lsm_flush('rc');
SELECT id, v FROM rc WHERE ctid = :'t2';
SELECT count(*) AS gone FROM rc WHERE ctid = :'t';
UPDATE rc SET id = 1030 WHERE ctid = :'t2' RETURNING id, ctid AS t3 \gset
SELECT count(*) AS flush FROM lsm_flush('rc');
SELECT count(*) AS minor FROM lsm_minor_compact('rc');
SELECT id, v FROM rc WHERE ctid IN (:'t', :'t2', :'t3');
SELECT currtid2('rc', :'t') = :'t3'::tid AS newest;
DELETE FROM rc WHERE ctid = :'t3' RETURNING id;
SELECT count(*) AS flush FROM lsm_flush('rc');
SELECT count(*) AS major FROM lsm_major_compact('rc');
SELECT count(*) AS gone FROM rc WHERE ctid IN (:'t', :'t2', :'t3');
COMMIT;
-- self-join on ctid, with versions of every age
UPDATE rc SET v = 'x' WHERE id % 3 = 0;
SELECT count(*) AS flush FROM lsm_flush('rc');
UPDATE rc SET v = 'y' WHERE id % 5 = 0;
SELECT count(*), count(a.id = b.id OR NULL) AS same FROM rc a JOIN rc b ON a.ctid = b.ctid;
BEGIN;
UPDATE rc SET v = 'z' WHERE id % 7 = 0;
SELECT count(*) AS flush FROM lsm_flush('rc');
UPDATE rc SET id = -id WHERE id % 11 = 0;
SELECT count(*), count(a.id = b.id OR NULL) AS same FROM rc a JOIN rc b ON a.ctid = b.ctid;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SELECT count(*), count(a.id = b.id OR NULL) AS same FROM rc a JOIN rc b ON a.ctid = b.ctid;
UPDATE rc SET v = 'joined' FROM (SELECT ctid AS t FROM rc WHERE id BETWEEN 40 AND 49) s WHERE rc.ctid = s.t;
SELECT count(*) FROM rc WHERE v = 'joined';
COMMIT;

-- a TID that no row of the table can have
CREATE MATERIALIZED VIEW rc_empty USING lsm AS SELECT 1 AS a WHERE false;
SELECT currtid2('rc_empty', '(0,1)');
SELECT currtid2('rc', '(0,1)') IS NOT NULL AS valid;
SELECT currtid2('rc', '(0,1000)');
SELECT currtid2('rc', '(3000000000,1)');
DROP MATERIALIZED VIEW rc_empty;

-- deferred unique and exclusion constraints: rows inserted, then changed in place
CREATE TABLE rc_ex (id int, during int4range, note text,
	UNIQUE (id) DEFERRABLE INITIALLY DEFERRED,
	EXCLUDE USING gist (during WITH &&) DEFERRABLE INITIALLY DEFERRED) USING lsm;
INSERT INTO rc_ex VALUES (1, '[1,10)'), (2, '[20,30)');
BEGIN;
INSERT INTO rc_ex VALUES (3, '[5,6)', 'overlaps');
UPDATE rc_ex SET note = 'changed' WHERE id = 3;
SELECT count(*) AS flush FROM lsm_flush('rc_ex');
UPDATE rc_ex SET note = 'changed again' WHERE id = 3;
COMMIT;
BEGIN;
INSERT INTO rc_ex VALUES (1, '[40,50)', 'twice');
SELECT count(*) AS flush FROM lsm_flush('rc_ex');
UPDATE rc_ex SET note = 'changed' WHERE note = 'twice';
COMMIT;
BEGIN;
INSERT INTO rc_ex VALUES (3, '[5,6)', 'overlaps');
UPDATE rc_ex SET note = 'changed' WHERE id = 3;
SELECT count(*) AS flush FROM lsm_flush('rc_ex');
UPDATE rc_ex SET during = '[10,20)' WHERE id = 3;
UPDATE rc_ex SET note = 'in place' WHERE id = 3;
UPDATE rc_ex SET note = 'in place' WHERE id = 1;
COMMIT;
BEGIN;
UPDATE rc_ex SET during = int4range(lower(during) + 5, upper(during) + 5), id = 4 - id;
UPDATE rc_ex SET note = 'moved';
SELECT count(*) AS flush FROM lsm_flush('rc_ex');
SELECT count(*) AS major FROM lsm_major_compact('rc_ex');
COMMIT;
BEGIN;
UPDATE rc_ex SET during = '[1,100)' WHERE id = 1;
UPDATE rc_ex SET note = 'overlaps now' WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('rc_ex');
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
SELECT * FROM rc_ex ORDER BY id;
SELECT c AS problem FROM lsm_check('rc_ex') c;

SELECT c AS problem FROM lsm_check('rc') c;
DROP TABLE rc, rc_ex;
DROP FUNCTION rc_del(), rc_upd();
