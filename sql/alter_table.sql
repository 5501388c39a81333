--
-- ALTER TABLE: columns that come and go over generations, rewrites, renames
--
CREATE TABLE al (id int PRIMARY KEY, a int, b text) USING lsm;
INSERT INTO al SELECT i, i, 'b' || i FROM generate_series(1, 6) i;
SELECT count(*) AS flush FROM lsm_flush('al');

-- add columns: null, constant default (no rewrite), volatile default (rewrite)
ALTER TABLE al ADD COLUMN c int;
INSERT INTO al VALUES (7, 7, 'b7', 70);
SELECT * FROM al ORDER BY id;
ALTER TABLE al ADD COLUMN d text DEFAULT 'fast';
SELECT * FROM al ORDER BY id;
INSERT INTO al VALUES (8, 8, 'b8', 80, 'given'), (9, 9, 'b9', 90, NULL);
INSERT INTO al (id) VALUES (10);
UPDATE al SET a = a + 100 WHERE id IN (1, 7);
SELECT * FROM al ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('al');
SELECT * FROM al ORDER BY id;
ALTER TABLE al ALTER COLUMN d SET DEFAULT 'other';
INSERT INTO al (id) VALUES (11);
UPDATE al SET d = NULL WHERE id = 2;
UPDATE al SET c = 33 WHERE id = 3;
SELECT count(*) AS flush FROM lsm_flush('al');
SELECT * FROM al ORDER BY id;
SELECT count(*) AS minor FROM lsm_minor_compact('al');
SELECT * FROM al ORDER BY id;
ALTER TABLE al ADD COLUMN e numeric(5,1) DEFAULT 1.5, ADD COLUMN f timestamptz DEFAULT '2024-01-01 00:00+00';
SELECT count(*), sum(e), count(DISTINCT f), min(d), count(d) FROM al;
SELECT count(*) AS major FROM lsm_major_compact('al');
SELECT count(*), sum(e), count(DISTINCT f), min(d), count(d) FROM al;
SELECT id, a, b, c, d, e FROM al ORDER BY id;

-- drop columns and add others in their place
ALTER TABLE al DROP COLUMN f, DROP COLUMN b;
SELECT * FROM al ORDER BY id;
INSERT INTO al VALUES (12, 12, 120, 'twelve', 12);
UPDATE al SET a = -a WHERE id IN (4, 12);
ALTER TABLE al ADD COLUMN b int DEFAULT 5;
SELECT * FROM al ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('al');
UPDATE al SET b = 6 WHERE id = 5;
SELECT count(*) AS flush FROM lsm_flush('al');
SELECT * FROM al ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('al');
SELECT * FROM al ORDER BY id;
CREATE INDEX al_b ON al (b);
CREATE INDEX al_d ON al (d);
SET enable_seqscan = off;
SELECT id FROM al WHERE d = 'fast' ORDER BY id;
SELECT id FROM al WHERE b = 6;
RESET enable_seqscan;
ALTER TABLE al DROP COLUMN d;
SELECT * FROM al ORDER BY id;

-- an aborted ADD COLUMN whose rows were flushed, then another of another type
BEGIN;
ALTER TABLE al ADD COLUMN g int;
INSERT INTO al (id, g) SELECT i, i FROM generate_series(100, 200) i;
UPDATE al SET g = 1 WHERE id < 5;
SELECT count(*) AS flush FROM lsm_flush('al');
SELECT count(*), sum(g) FROM al;
ROLLBACK;
ALTER TABLE al ADD COLUMN g text;
SELECT count(*), count(g) FROM al;
UPDATE al SET g = 'text' WHERE id < 4;
SELECT count(*) AS flush FROM lsm_flush('al');
SELECT * FROM al ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('al');
SELECT * FROM al ORDER BY id;

-- conditions on a column, in the place of which such rows have one of another type
CREATE FUNCTION al_other(added text, next text, condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	results text[];
BEGIN
	FOR run IN 0 .. 1 LOOP
		EXECUTE format('CREATE TABLE al_other (id int, a int) USING %s', CASE run WHEN 0 THEN 'heap' ELSE 'lsm' END);
		INSERT INTO al_other SELECT i, i FROM generate_series(1, 100) i;
		BEGIN
			EXECUTE 'ALTER TABLE al_other ADD g ' || added;
			EXECUTE format('INSERT INTO al_other SELECT i, i, (CASE WHEN i %% 10 > 0 THEN i %% 100 + 1 END)::text::%s FROM generate_series(101, 400) i', added);
			IF run = 1 THEN
				PERFORM lsm_flush('al_other');
			END IF;
			DELETE FROM al_other WHERE id IN (150, 155);
			RAISE EXCEPTION 'undone';
		EXCEPTION WHEN raise_exception THEN
		END;
		EXECUTE 'ALTER TABLE al_other ADD g ' || next;
		EXECUTE format('SELECT array_append($1, (SELECT format(''%%s %%s %%s'', count(*), sum(a), count(*) FILTER (WHERE %1$s)) FROM al_other WHERE NOT %1$s IS TRUE AND id > 0) || (SELECT count(*)::text FROM al_other WHERE %1$s))', condition)
			INTO results USING results;
		DROP TABLE al_other;
	END LOOP;
	RETURN CASE WHEN results[1] = results[2] THEN 'as heap' ELSE results::text END;
END $$;
SELECT added, next, condition, al_other(added, next, condition)
FROM (VALUES ('numeric', 'int', 'g > 5'), ('numeric', 'int', 'g IN (5, 6)'), ('numeric', 'boolean', 'g'), ('numeric', 'boolean', '(NOT g)'),
		('numeric', 'float8', 'g > 5'), ('numeric', 'text', $$g = '7'$$), ('int', 'text', $$g = '7'$$), ('int', 'text', $$g LIKE '7%'$$),
		('int', 'numeric', 'g < 7'), ('text', 'numeric', 'g < 7'), ('text', 'int', 'g < 7'), ('bigint', 'smallint', 'g < 7'),
		('text', 'uuid', $$g = '00000000-0000-0000-0000-000000000007'$$), ('smallint', 'timestamptz', $$g < '2020-01-01'$$)) x (added, next, condition);
DROP FUNCTION al_other;

-- type changes without and with a rewrite
ALTER TABLE al ALTER COLUMN g TYPE varchar;
ALTER TABLE al ALTER COLUMN a TYPE bigint;
ALTER TABLE al ALTER COLUMN e TYPE text USING 'e' || e;
SELECT * FROM al ORDER BY id;
UPDATE al SET a = a + 5000000000 WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('al');
SELECT * FROM al ORDER BY id;
BEGIN;
UPDATE al SET g = 'before' WHERE id = 6;
ALTER TABLE al ALTER COLUMN b TYPE numeric USING b / 2.0;
UPDATE al SET g = g || ' and after' WHERE id = 6;
SELECT count(*) AS flush FROM lsm_flush('al');
SELECT id, b, g FROM al WHERE id IN (5, 6) ORDER BY id;
ROLLBACK;
SELECT id, b, g FROM al WHERE id IN (5, 6) ORDER BY id;
SELECT c AS problem FROM lsm_check('al') c;

-- a rewrite by volatile default or a new generated column
ALTER TABLE al ADD COLUMN h int DEFAULT (random() * 0)::int;
ALTER TABLE al ADD COLUMN twice bigint GENERATED ALWAYS AS (a * 2) STORED;
SELECT id, a, h, twice FROM al ORDER BY id;

-- constraints
ALTER TABLE al ADD CONSTRAINT positive CHECK (id > 0);
INSERT INTO al (id) VALUES (-1);
ALTER TABLE al ADD CONSTRAINT wrong CHECK (id > 5);
ALTER TABLE al ALTER COLUMN g SET NOT NULL;
UPDATE al SET g = '' WHERE g IS NULL;
ALTER TABLE al ALTER COLUMN g SET NOT NULL;
INSERT INTO al (id) VALUES (50);

-- renames, and another access method and back
ALTER TABLE al RENAME TO al2;
ALTER TABLE al2 RENAME COLUMN a TO alpha;
SELECT count(*), sum(alpha) FROM al2;
ALTER TABLE al2 SET ACCESS METHOD heap;
SELECT count(*), sum(alpha) FROM al2;
ALTER TABLE al2 SET ACCESS METHOD lsm;
SELECT count(*), sum(alpha) FROM al2;
SELECT count(*) AS flush FROM lsm_flush('al2');
SELECT count(*), sum(alpha) FROM al2;
SET enable_seqscan = off;
SELECT id, b FROM al2 WHERE b = 6;
SELECT id FROM al2 WHERE id IN (1, 12, 13) ORDER BY id;
RESET enable_seqscan;

-- persistence of the wide: many ADD and DROP COLUMN rounds with flushes between
CREATE TABLE al_many (id int PRIMARY KEY) USING lsm;
DO $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		EXECUTE format('INSERT INTO al_many (id) VALUES (%s)', i);
		EXECUTE format('ALTER TABLE al_many ADD COLUMN x%s int DEFAULT %s', i, i);
		IF i > 5 THEN
			EXECUTE format('ALTER TABLE al_many DROP COLUMN x%s', i - 5);
		END IF;
		EXECUTE format('UPDATE al_many SET x%s = x%s + 1000 WHERE id = %s', i, i, 1 + i / 2);
		IF i % 4 = 0 THEN
			PERFORM lsm_flush('al_many');
		END IF;
		IF i % 9 = 0 THEN
			PERFORM lsm_minor_compact('al_many');
		END IF;
	END LOOP;
END $$;
SELECT * FROM al_many ORDER BY id;
SELECT count(*) AS major FROM lsm_major_compact('al_many');
SELECT md5(string_agg(m::text, ';' ORDER BY id)) FROM al_many m;

-- a column is dropped for good when its transaction commits: whatever is
-- compacted before may be rolled back to
CREATE TABLE al_undrop (id int PRIMARY KEY, a text, b int) USING lsm;
INSERT INTO al_undrop SELECT i, 'row ' || i, i FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('al_undrop');
ALTER TABLE al_undrop ADD COLUMN c int DEFAULT 7;
UPDATE al_undrop SET a = 'changed', c = 8 WHERE id <= 10;
SELECT count(*) AS flush FROM lsm_flush('al_undrop');
BEGIN;
ALTER TABLE al_undrop DROP COLUMN a;
UPDATE al_undrop SET b = b + 1 WHERE id BETWEEN 6 AND 15;
SELECT count(*) AS flush FROM lsm_flush('al_undrop');
SELECT count(*) > 0 AS minor FROM lsm_minor_compact('al_undrop');
SAVEPOINT s;
ALTER TABLE al_undrop DROP COLUMN c;
SELECT count(*) > 0 AS major FROM lsm_major_compact('al_undrop');
ROLLBACK TO s;
SELECT sum(c) FROM al_undrop;
ROLLBACK;
SELECT a, c, count(*), sum(b) FROM al_undrop WHERE id <= 12 GROUP BY a, c ORDER BY min(id);
SELECT count(*), count(a), sum(c) FROM al_undrop;
BEGIN;
ALTER TABLE al_undrop DROP COLUMN a;
SELECT count(*) > 0 AS major FROM lsm_major_compact('al_undrop');
COMMIT;
SELECT count(*) > 0 AS major FROM lsm_major_compact('al_undrop');
SELECT sum(b), sum(c) FROM al_undrop;
SELECT c AS problem FROM lsm_check('al_undrop') c;
DROP TABLE al_undrop;

SELECT c AS problem FROM lsm_check('al2') c;
SELECT c AS problem FROM lsm_check('al_many') c;
DROP TABLE al_many;
