--
-- Columns that are added with a default or dropped while their table is in each
-- state: rows in the row log, in insert segments, increments and the baseline,
-- changes above each of them.  A heap table has the same done to it.
--
CREATE TYPE co_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE co_pair AS (x int, y text);
CREATE DOMAIN co_word AS text CHECK (value <> '');
CREATE TABLE co (id int PRIMARY KEY, a int, b text) USING lsm;
CREATE TABLE co_heap (LIKE co INCLUDING ALL) USING heap;
CREATE PROCEDURE co_both(command text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, '$t', 'co');
	EXECUTE replace(command, '$t', 'co_heap');
END $$;
-- the rows that differ, by a sequential scan and by one of the index
CREATE FUNCTION co_diff() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY (SELECT 'lsm ' || t::text FROM co t EXCEPT ALL SELECT 'lsm ' || t::text FROM co_heap t)
		UNION ALL (SELECT 'heap ' || t::text FROM co_heap t EXCEPT ALL SELECT 'heap ' || t::text FROM co t);
	SET LOCAL enable_seqscan = off;
	RETURN QUERY (SELECT 'lsm, by index ' || t::text FROM co t WHERE id > 0 EXCEPT ALL SELECT 'lsm, by index ' || t::text FROM co_heap t);
	RESET enable_seqscan;
END $$;
CREATE PROCEDURE co_check(label text) LANGUAGE plpgsql AS $$
DECLARE
	row text;
BEGIN
	FOR row IN SELECT * FROM co_diff() LOOP
		RAISE NOTICE '%: %', label, row;
	END LOOP;
	FOR row IN SELECT * FROM lsm_check('co') LOOP
		RAISE NOTICE '%: lsm_check: %', label, row;
	END LOOP;
END $$;

-- Each round brings the table to a state, changes its columns, then changes
-- rows of all ages.  %s is the round.
CREATE PROCEDURE co_rounds(first int, last int) LANGUAGE plpgsql AS $$
DECLARE
	columns text[] := ARRAY[
		'bool DEFAULT true', 'int2 DEFAULT 2', 'int4 DEFAULT 4', 'int8 DEFAULT 88888888888', 'float8 DEFAULT 0.5',
		'text DEFAULT ''default''', 'numeric DEFAULT 1.50', 'numeric(10,3) DEFAULT 1.5', 'date DEFAULT ''2024-02-29''',
		'timestamptz DEFAULT ''2024-01-01 00:00+00''', 'co_mood DEFAULT ''ok''', 'co_pair DEFAULT ROW(1, ''one'')',
		'int[] DEFAULT ''{1,NULL,3}''', 'co_word DEFAULT ''word''', 'uuid DEFAULT ''a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11''',
		'"char" DEFAULT ''c''', 'name DEFAULT ''name''', 'jsonb DEFAULT ''{"a": 1}''', 'interval DEFAULT ''1 day''',
		'bytea DEFAULT ''\x00ff''', 'int4range DEFAULT ''[1,5)''', 'text', 'int4', 'text DEFAULT repeat(''long'', 400)'];
	col text;
BEGIN
	FOR i IN first .. last LOOP
		CALL co_both(format('INSERT INTO $t (id, a, b) SELECT j, j, ''b'' || j FROM generate_series(%s, %s) j', i * 100, i * 100 + 9));
		CASE i % 8
			WHEN 0 THEN NULL;		-- all that is new in the row log
			WHEN 1 THEN PERFORM lsm_flush('co');
			WHEN 2 THEN CALL co_both(format('UPDATE $t SET a = a + 1 WHERE id %% 3 = %s', i % 3));
			WHEN 3 THEN PERFORM lsm_flush('co');
			WHEN 4 THEN PERFORM lsm_minor_compact('co');
			WHEN 5 THEN CALL co_both('UPDATE $t SET b = b || ''.'' WHERE id % 5 = 0'); PERFORM lsm_flush('co');
			WHEN 6 THEN PERFORM lsm_flush('co'); PERFORM lsm_major_compact('co');
			ELSE CALL co_both(format('DELETE FROM $t WHERE id %% 100 = %s', i % 10));
		END CASE;
		COMMIT;
		col := columns[1 + i % array_length(columns, 1)];
		CALL co_both(format('ALTER TABLE $t ADD COLUMN c%s %s', i, col));
		CALL co_check('round ' || i || ', column added');
		-- a column of the one before last, given and taken
		CALL co_both(format('UPDATE $t SET c%s = NULL WHERE id %% 7 = %s', i, i % 7));
		CALL co_both(format('UPDATE $t SET a = a - 1 WHERE id %% 4 = %s', i % 4));
		IF i > first + 3 THEN
			CALL co_both(format('UPDATE $t SET c%s = t.c%s FROM $t t WHERE t.id = 100 * %s AND $t.id %% 6 = 1', i - 2, i - 2, i));
			CALL co_both(format('ALTER TABLE $t DROP COLUMN c%s', i - 3));
			CALL co_check('round ' || i || ', column dropped');
			-- another type under the same name
			CALL co_both(format('ALTER TABLE $t ADD COLUMN c%s text DEFAULT ''again''', i - 3));
			CALL co_check('round ' || i || ', another column of that name');
			CALL co_both(format('ALTER TABLE $t DROP COLUMN c%s', i - 3));
			CALL co_both(format('ALTER TABLE $t ALTER COLUMN c%s SET DEFAULT NULL', i - 1));
		END IF;
		CALL co_check('round ' || i);
		COMMIT;
	END LOOP;
END $$;
CALL co_rounds(1, 30);
SELECT count(*), sum(a), count(c28), count(c29), count(c30) FROM co;
SELECT count(*) FILTER (WHERE attisdropped) > 50 AS dropped, count(*) FILTER (WHERE atthasmissing) AS missing
	FROM pg_attribute WHERE attrelid = 'co'::regclass;

-- all of it flushed, in increments over the baseline, then as a baseline
SELECT count(*) AS flush FROM lsm_flush('co');
CALL co_check('flush');
SELECT count(*) AS minor FROM lsm_minor_compact('co');
CALL co_check('minor');
SELECT count(*) AS major FROM lsm_major_compact('co');
CALL co_check('major');
CALL co_rounds(31, 40);
VACUUM (FREEZE) co;
CALL co_check('vacuum');

-- a rewrite puts the defaults into the rows
CALL co_both('ALTER TABLE $t ALTER COLUMN a TYPE bigint');
CALL co_check('rewrite');
SELECT count(*) FILTER (WHERE atthasmissing) AS missing FROM pg_attribute WHERE attrelid = 'co'::regclass;

-- indexes, foreign keys and generated columns on fast defaults
CREATE TABLE co_idx (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO co_idx SELECT i, i FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('co_idx');
UPDATE co_idx SET v = v + 1 WHERE id % 10 = 0;
ALTER TABLE co_idx ADD COLUMN w int DEFAULT 50;
ALTER TABLE co_idx ADD FOREIGN KEY (w) REFERENCES co_idx;
CREATE INDEX co_idx_w ON co_idx (w) INCLUDE (v);
CREATE INDEX co_idx_part ON co_idx (id) WHERE w = 50;
UPDATE co_idx SET w = 51 WHERE id = 7;
DELETE FROM co_idx WHERE id = 40;
UPDATE co_idx SET w = id WHERE w = 50 AND id > 90;
SET enable_seqscan = off;
SELECT w, count(*), sum(v) FROM co_idx WHERE w >= 50 GROUP BY w ORDER BY w LIMIT 3;
SELECT count(*) FROM co_idx WHERE w = 50 AND id > 80;
RESET enable_seqscan;
INSERT INTO co_idx VALUES (200, 1) RETURNING *;
SELECT count(*) AS flush FROM lsm_flush('co_idx');
SELECT count(*) AS major FROM lsm_major_compact('co_idx');
SELECT w, count(*), sum(v) FROM co_idx GROUP BY w ORDER BY w LIMIT 3;
SELECT c AS problem FROM lsm_check('co_idx') c;
-- dropped columns as pg_upgrade makes them in the new server: by reference,
-- whatever their type was
CREATE TABLE co_up (id int PRIMARY KEY, a int, b text, c int, d bigint) USING lsm;
INSERT INTO co_up SELECT i, i, 'b' || i, i, i FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('co_up');
UPDATE co_up SET a = a + 1, d = d + 1 WHERE id % 5 = 0;
SELECT count(*) AS flush FROM lsm_flush('co_up');
UPDATE co_up SET a = a + 1, d = d + 1 WHERE id % 7 = 0;
ALTER TABLE co_up DROP COLUMN a, DROP COLUMN d, DROP COLUMN b;
UPDATE pg_attribute SET attbyval = false WHERE attrelid = 'co_up'::regclass AND attisdropped;
\c
SELECT count(*), sum(c) FROM co_up t WHERE t::text <> '';
UPDATE co_up SET c = c + 1 WHERE id % 3 = 0;
SELECT count(*) AS flush FROM lsm_flush('co_up');
SELECT count(*), sum(c) FROM co_up t WHERE t::text <> '';
SELECT count(*) AS major FROM lsm_major_compact('co_up');
SELECT count(*), sum(c) FROM co_up t WHERE t::text <> '';
SELECT c AS problem FROM lsm_check('co_up') c;
DROP TABLE co_up;
DROP TABLE co, co_heap, co_idx;
DROP FUNCTION co_diff;
DROP PROCEDURE co_both, co_check, co_rounds;
DROP TYPE co_mood, co_pair;
DROP DOMAIN co_word;
