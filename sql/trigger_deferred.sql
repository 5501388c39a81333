--
-- Deferred constraint triggers fetch OLD and NEW at the end of the
-- transaction: versions that were superseded, flushed and compacted meanwhile
--
CREATE TABLE df (id int PRIMARY KEY, v int, k int, big text) USING lsm;
CREATE INDEX df_k ON df (k);
CREATE TABLE df_log (n serial, w text) USING lsm;
CREATE FUNCTION df_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO df_log (w) VALUES (format('%s: %s %s %s', TG_OP, NEW.id, NEW.v, NEW.k));
	ELSIF TG_OP = 'UPDATE' THEN
		INSERT INTO df_log (w) VALUES (format('%s: %s %s %s (%s) > %s %s %s (%s)', TG_OP,
			OLD.id, OLD.v, OLD.k, length(OLD.big), NEW.id, NEW.v, NEW.k, length(NEW.big)));
	ELSE
		INSERT INTO df_log (w) VALUES (format('%s: %s %s %s', TG_OP, OLD.id, OLD.v, OLD.k));
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER d AFTER INSERT OR UPDATE OR DELETE ON df
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION df_note();

-- without a flush
BEGIN;
INSERT INTO df VALUES (1, 1, 1, repeat('x', 10)), (2, 2, 2, repeat('x', 20)), (3, 3, 3, NULL);
UPDATE df SET v = v + 10;
UPDATE df SET k = k + 10 WHERE id = 1;
UPDATE df SET v = v + 100 WHERE id = 1;
DELETE FROM df WHERE id = 2;
SELECT w FROM df_log ORDER BY w COLLATE "C";
COMMIT;
SELECT w FROM df_log ORDER BY w COLLATE "C";
TRUNCATE df_log;

-- flush and compaction after every step
BEGIN;
INSERT INTO df VALUES (4, 4, 4, repeat('y', 4000));
SELECT count(*) AS flush FROM lsm_flush('df');
UPDATE df SET v = v + 10;
SELECT count(*) AS flush FROM lsm_flush('df');
UPDATE df SET v = v + 10;
SELECT count(*) AS flush FROM lsm_flush('df');
SELECT count(*) AS minor FROM lsm_minor_compact('df');
UPDATE df SET k = k * 2;
SELECT count(*) AS flush FROM lsm_flush('df');
UPDATE df SET id = id + 100 WHERE id = 3;
SELECT count(*) AS major FROM lsm_major_compact('df');
UPDATE df SET big = repeat('z', 30) WHERE id = 4;
UPDATE df SET v = 0 WHERE id = 4;
SELECT count(*) AS flush FROM lsm_flush('df');
DELETE FROM df WHERE id = 4;
SELECT count(*) AS flush FROM lsm_flush('df');
SELECT count(*) AS minor FROM lsm_minor_compact('df');
SELECT count(*) AS major FROM lsm_major_compact('df');
COMMIT;
SELECT w FROM df_log ORDER BY w COLLATE "C";
SELECT id, v, k, length(big) FROM df ORDER BY id;
TRUNCATE df_log;

-- fired in the middle by SET CONSTRAINTS, and with a savepoint rolled back
BEGIN;
UPDATE df SET v = 1;
SAVEPOINT a;
UPDATE df SET v = 2;
DELETE FROM df WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('df');
ROLLBACK TO a;
UPDATE df SET v = v + 2 WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('df');
SELECT count(*) AS major FROM lsm_major_compact('df');
SET CONSTRAINTS ALL IMMEDIATE;
SELECT w FROM df_log ORDER BY w COLLATE "C";
UPDATE df SET v = v + 4 WHERE id = 1;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO df VALUES (5, 5, 5, '');
SELECT count(*) AS flush FROM lsm_flush('df');
UPDATE df SET v = 55, k = 55 WHERE id = 5;
SELECT count(*) AS flush FROM lsm_flush('df');
COMMIT;
SELECT w FROM df_log ORDER BY w COLLATE "C";
TRUNCATE df_log;

-- the trigger itself flushes the table and changes rows
CREATE FUNCTION df_flush() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM lsm_flush('df');
	IF NEW.v < 5 THEN
		UPDATE df SET v = v + 1 WHERE id = NEW.id;
	END IF;
	PERFORM lsm_major_compact('df');
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER c AFTER UPDATE ON df
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION df_flush();
UPDATE df SET v = 2 WHERE id = 5;
SELECT w FROM df_log ORDER BY w COLLATE "C";
SELECT id, v, k, length(big) FROM df ORDER BY id;
TRUNCATE df_log;

-- many rows, so that versions are spread over pages and blocks
DROP TRIGGER c ON df;
BEGIN;
INSERT INTO df SELECT i, i, i, repeat('w', i % 50) FROM generate_series(1001, 2000) i;
UPDATE df SET v = v + 1 WHERE id > 1000;
SELECT count(*) AS flush FROM lsm_flush('df');
UPDATE df SET k = -k WHERE id > 1000 AND id % 2 = 0;
SELECT count(*) AS flush FROM lsm_flush('df');
DELETE FROM df WHERE id > 1000 AND id % 3 = 0;
SELECT count(*) AS minor FROM lsm_minor_compact('df');
SELECT count(*) AS major FROM lsm_major_compact('df');
COMMIT;
SELECT split_part(w, ':', 1) AS op, count(*), md5(string_agg(w, ';' ORDER BY w)) FROM df_log GROUP BY 1 ORDER BY 1;

SELECT c AS problem FROM lsm_check('df') c;
SELECT c AS problem FROM lsm_check('df_log') c;
DROP TABLE df, df_log;
DROP FUNCTION df_note(), df_flush();
