--
-- Row and statement triggers: OLD and NEW, transition tables, with flush and
-- compaction inside the statement and the transaction
--
CREATE TABLE tg (id int PRIMARY KEY, v int, t text) USING lsm;
CREATE INDEX tg_v ON tg (v);
CREATE TABLE tg_log (n serial, w text) USING lsm;
CREATE FUNCTION tg_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		IF OLD.t = 'keep' THEN
			RETURN NULL;
		END IF;
		RETURN OLD;
	END IF;
	IF NEW.v = 13 THEN
		RETURN NULL;
	END IF;
	NEW.t := coalesce(NEW.t, '') || '+';
	RETURN NEW;
END $$;
CREATE FUNCTION tg_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO tg_log (w) VALUES (TG_OP || ' ' || NEW::text);
	ELSIF TG_OP = 'UPDATE' THEN
		INSERT INTO tg_log (w) VALUES (TG_OP || ' ' || OLD::text || ' > ' || NEW::text);
	ELSE
		INSERT INTO tg_log (w) VALUES (TG_OP || ' ' || OLD::text);
	END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION tg_stmt() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	o text;
	n text;
BEGIN
	IF TG_OP <> 'INSERT' THEN
		SELECT string_agg(x::text, ' ' ORDER BY id) INTO o FROM old_rows x;
	END IF;
	IF TG_OP <> 'DELETE' THEN
		SELECT string_agg(x::text, ' ' ORDER BY id) INTO n FROM new_rows x;
	END IF;
	INSERT INTO tg_log (w) VALUES (TG_OP || ' all: ' || coalesce(o, '-') || ' > ' || coalesce(n, '-'));
	RETURN NULL;
END $$;
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON tg FOR EACH ROW EXECUTE FUNCTION tg_before();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON tg FOR EACH ROW EXECUTE FUNCTION tg_after();
CREATE TRIGGER si AFTER INSERT ON tg REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tg_stmt();
CREATE TRIGGER su AFTER UPDATE ON tg REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tg_stmt();
CREATE TRIGGER sd AFTER DELETE ON tg REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tg_stmt();

INSERT INTO tg VALUES (1, 1, 'one'), (2, 2, NULL), (3, 13, 'skipped'), (4, 4, 'keep');
UPDATE tg SET t = 'keep' WHERE id = 4 RETURNING *;
ALTER TABLE tg DISABLE TRIGGER b;
UPDATE tg SET t = 'keep' WHERE id = 4;
ALTER TABLE tg ENABLE TRIGGER b;
UPDATE tg SET v = v + 10 RETURNING *;
DELETE FROM tg WHERE id IN (2, 4) RETURNING *;
SELECT w FROM tg_log ORDER BY w COLLATE "C";
TRUNCATE tg_log;
SELECT count(*) AS flush FROM lsm_flush('tg');
INSERT INTO tg SELECT i, i * 100, 'i' FROM generate_series(5, 8) i;
UPDATE tg SET t = 'no index touched' WHERE id IN (1, 5);
UPDATE tg SET v = v + 1 WHERE id IN (1, 6);
UPDATE tg SET id = id + 10 WHERE id = 7;
DELETE FROM tg WHERE id IN (8, 1);
SELECT w FROM tg_log ORDER BY w COLLATE "C";
SELECT * FROM tg ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('tg');
SELECT * FROM tg ORDER BY id;
DROP TABLE tg;
DROP FUNCTION tg_before(), tg_stmt();

-- an AFTER trigger that flushes and compacts while other rows wait for theirs
TRUNCATE tg_log;
CREATE TABLE tg2 (id int PRIMARY KEY, v int, k int) USING lsm;
CREATE INDEX tg2_k ON tg2 (k);
CREATE FUNCTION tg_compact() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM lsm_flush('tg2');
	IF TG_OP <> 'INSERT' AND OLD.id % 2 = 0 THEN
		PERFORM lsm_minor_compact('tg2');
	END IF;
	IF TG_OP <> 'INSERT' AND OLD.id % 3 = 0 THEN
		PERFORM lsm_major_compact('tg2');
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON tg2 FOR EACH ROW EXECUTE FUNCTION tg_compact();
CREATE TRIGGER z AFTER INSERT OR UPDATE OR DELETE ON tg2 FOR EACH ROW EXECUTE FUNCTION tg_after();
INSERT INTO tg2 SELECT i, i, i FROM generate_series(1, 6) i;
UPDATE tg2 SET v = v + 100;
UPDATE tg2 SET k = k + 100;
UPDATE tg2 SET v = -v, k = -k WHERE id < 4;
DELETE FROM tg2 WHERE id > 3;
SELECT w FROM tg_log ORDER BY w COLLATE "C";
SELECT * FROM tg2 ORDER BY id;

-- a trigger that changes other rows of its table, and the same row once more
TRUNCATE tg_log;
CREATE FUNCTION tg_cascade() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() < 3 THEN
		UPDATE tg2 SET v = v + 1 WHERE id = NEW.id;
		UPDATE tg2 SET k = NEW.v WHERE id = NEW.id + 1;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER c AFTER UPDATE ON tg2 FOR EACH ROW EXECUTE FUNCTION tg_cascade();
UPDATE tg2 SET v = 1000 WHERE id = 1;
SELECT w FROM tg_log ORDER BY n;
SELECT * FROM tg2 ORDER BY id;
-- a BEFORE trigger that has changed the row itself
CREATE FUNCTION tg_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE tg2 SET v = 0 WHERE id = OLD.id AND v <> 0;
	RETURN NEW;
END $$;
DROP TRIGGER c ON tg2;
CREATE TRIGGER s BEFORE UPDATE OF k ON tg2 FOR EACH ROW EXECUTE FUNCTION tg_self();
UPDATE tg2 SET k = 1 WHERE id = 2;
SELECT * FROM tg2 ORDER BY id;

SELECT c AS problem FROM lsm_check('tg2') c;
SELECT c AS problem FROM lsm_check('tg_log') c;
DROP TABLE tg2, tg_log;
DROP FUNCTION tg_after(), tg_compact(), tg_cascade(), tg_self();
