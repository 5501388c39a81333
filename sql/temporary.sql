--
-- Temporary tables: what becomes of their rows at commit and rollback, changes
-- of their definition, and what they share with no other session
--
CREATE TEMP TABLE te_keep (id int PRIMARY KEY, v int) USING lsm ON COMMIT PRESERVE ROWS;
CREATE TEMP TABLE te_rows (id int PRIMARY KEY, v int) USING lsm ON COMMIT DELETE ROWS;
CREATE INDEX te_rows_v ON te_rows (v);
-- each transaction begins with no rows, whatever was flushed
BEGIN;
INSERT INTO te_rows SELECT i, i FROM generate_series(1, 500) i;
SELECT count(*) AS flush FROM lsm_flush('te_rows');
UPDATE te_rows SET v = v + 1 WHERE id % 2 = 0;
SELECT count(*), sum(v) FROM te_rows;
COMMIT;
SELECT count(*) FROM te_rows;
BEGIN;
INSERT INTO te_rows SELECT i, -i FROM generate_series(1, 100) i;
SAVEPOINT s;
UPDATE te_rows SET v = 7;
SELECT count(*) AS flush FROM lsm_flush('te_rows');
ROLLBACK TO s;
SELECT count(*) AS flush FROM lsm_flush('te_rows');
SELECT count(*), sum(v) FROM te_rows;
SET LOCAL enable_seqscan = off;
SELECT id FROM te_rows WHERE v = -5;
SELECT count(*) AS major FROM lsm_major_compact('te_rows');
SELECT count(*), sum(v) FROM te_rows;
COMMIT;
SELECT count(*) FROM te_rows;
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		INSERT INTO te_rows SELECT j, j FROM generate_series(1, i) j;
		IF i % 3 = 0 THEN
			PERFORM lsm_flush('te_rows');
		END IF;
		IF (SELECT count(*) FROM te_rows) <> i THEN
			RAISE EXCEPTION 'round %', i;
		END IF;
		IF i % 2 = 0 THEN
			COMMIT;
		ELSE
			ROLLBACK;
		END IF;
	END LOOP;
END $$;
SELECT c AS problem FROM lsm_check('te_rows') c;

-- rolled back with the table, and dropped at commit
BEGIN;
CREATE TEMP TABLE te_gone (id int PRIMARY KEY) USING lsm ON COMMIT DROP;
INSERT INTO te_gone SELECT generate_series(1, 100);
SELECT count(*) AS flush FROM lsm_flush('te_gone');
DELETE FROM te_gone WHERE id > 10;
SELECT count(*) FROM te_gone;
COMMIT;
SELECT count(*) FROM te_gone;
BEGIN;
CREATE TEMP TABLE te_gone USING lsm ON COMMIT DROP AS SELECT i FROM generate_series(1, 10) i;
SELECT count(*) FROM te_gone;
ROLLBACK;

-- what other commands make of one
INSERT INTO te_keep SELECT i, i FROM generate_series(1, 300) i;
SELECT count(*) AS flush FROM lsm_flush('te_keep');
UPDATE te_keep SET v = 0 WHERE id <= 10;
BEGIN;
TRUNCATE te_keep;
INSERT INTO te_keep VALUES (1, 1);
SELECT count(*) AS flush FROM lsm_flush('te_keep');
SELECT * FROM te_keep;
ROLLBACK;
SELECT count(*), sum(v) FROM te_keep;
ALTER TABLE te_keep ADD COLUMN w int DEFAULT 3;
ALTER TABLE te_keep ALTER COLUMN v TYPE text;
ALTER TABLE te_keep SET ACCESS METHOD heap;
ALTER TABLE te_keep SET ACCESS METHOD lsm;
SELECT count(*), max(v), sum(w) FROM te_keep;
INSERT INTO te_keep VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET v = 'conflict';
VACUUM (ANALYZE) te_keep;
REINDEX TABLE te_keep;
DELETE FROM te_keep WHERE id > 1;
VACUUM te_keep;
SELECT * FROM te_keep;
TRUNCATE te_keep;
SELECT count(*) FROM te_keep;
SELECT c AS problem FROM lsm_check('te_keep') c;

-- partitions, inheritance, a foreign key, a sequence
CREATE TEMP TABLE te_part (id int GENERATED ALWAYS AS IDENTITY, k int, v int) PARTITION BY LIST (k);
CREATE TEMP TABLE te_part_1 PARTITION OF te_part FOR VALUES IN (1) USING lsm;
CREATE TEMP TABLE te_part_2 PARTITION OF te_part FOR VALUES IN (2) USING lsm ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO te_part (k, v) SELECT 1 + i % 2, i FROM generate_series(1, 100) i;
UPDATE te_part SET k = 2 WHERE v = 50;
SELECT tableoid::regclass, count(*) FROM te_part GROUP BY 1 ORDER BY 1;
COMMIT;
SELECT tableoid::regclass, count(*) FROM te_part GROUP BY 1 ORDER BY 1;
CREATE TEMP TABLE te_ref (id int PRIMARY KEY, r int REFERENCES te_ref DEFERRABLE INITIALLY DEFERRED) USING lsm;
BEGIN;
INSERT INTO te_ref VALUES (1, 2);
SELECT count(*) AS flush FROM lsm_flush('te_ref');
INSERT INTO te_ref VALUES (2, 1);
COMMIT;
INSERT INTO te_ref VALUES (3, 4);
SELECT * FROM te_ref ORDER BY id;

-- another session's cannot be looked into
SELECT relpersistence, relnamespace = pg_my_temp_schema() AS mine FROM pg_class WHERE relname = 'te_keep';
-- and in a session with the same temporary schema as one that has ended, all is new
\c
CREATE TEMP TABLE te_keep (id int PRIMARY KEY, v int) USING lsm;
SELECT count(*) FROM te_keep;
INSERT INTO te_keep SELECT i, i FROM generate_series(1, 10) i;
SELECT count(*) AS flush FROM lsm_flush('te_keep');
SELECT count(*) FROM te_keep;
DISCARD TEMP;
SELECT count(*) FROM te_keep;
