-- Versions that deferred triggers ask for by their names, of a row that their transaction has changed
-- very often: each is found without a walk over all that are newer.

CREATE TABLE nvo (id int PRIMARY KEY) USING lsm;
CREATE TABLE nv (id int PRIMARY KEY, n int, o int REFERENCES nvo DEFERRABLE INITIALLY DEFERRED)
	USING lsm WITH (autovacuum_enabled = off);
INSERT INTO nvo VALUES (1);
INSERT INTO nv VALUES (1, 0, 1), (2, 0, 1);

-- what a trigger is given
CREATE TABLE nv_log (seq int GENERATED ALWAYS AS IDENTITY, old_n int, new_n int);
CREATE FUNCTION nv_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO nv_log (old_n, new_n) VALUES (OLD.n, NEW.n);
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER nv_note AFTER UPDATE ON nv DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION nv_note();

CREATE PROCEDURE nv_change(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		UPDATE nv SET n = n + 1 WHERE id = 1;
		IF i % 7 = 0 THEN
			BEGIN
				UPDATE nv SET n = -1 WHERE id = 1;
				RAISE 'undone';
			EXCEPTION WHEN raise_exception THEN NULL;
			END;
		END IF;
	END LOOP;
END $$;

BEGIN;
CALL nv_change(1000);
SELECT pg_stat_get_xact_blocks_fetched('nv'::regclass) AS before \gset
SET CONSTRAINTS ALL IMMEDIATE;
SELECT pg_stat_get_xact_blocks_fetched('nv'::regclass) - :before < 300000 AS few_blocks;
COMMIT;
SELECT count(*), count(*) FILTER (WHERE new_n = old_n + 1 AND new_n = seq) AS right FROM nv_log;

-- of an earlier generation, and in part of an increment
UPDATE nv SET n = 0;
TRUNCATE nv_log RESTART IDENTITY;
BEGIN;
CALL nv_change(100);
SELECT count(*) FROM lsm_flush('nv');
CALL nv_change(100);
COMMIT;
SELECT count(*), count(*) FILTER (WHERE new_n = old_n + 1 AND new_n = seq) AS right FROM nv_log;

-- the row moves, and is changed where it is then
ALTER TABLE nv ADD m int;
CREATE INDEX ON nv (m);
UPDATE nv SET n = 0;
TRUNCATE nv_log RESTART IDENTITY;
BEGIN;
CALL nv_change(50);
UPDATE nv SET m = 1, n = n + 1 WHERE id = 1;
CALL nv_change(50);
COMMIT;
SELECT count(*), count(*) FILTER (WHERE new_n = old_n + 1 AND new_n = seq) AS right FROM nv_log;
SELECT * FROM nv ORDER BY id;
SELECT c AS problem FROM lsm_check('nv') c;
DROP TABLE nv, nvo, nv_log;
DROP FUNCTION nv_note();
DROP PROCEDURE nv_change(int);
