-- Segments of which no row can meet a condition are passed over as a whole, but for rows
-- that have changed.
CREATE TABLE bounds (id int, v int, n numeric(10,2), t text, f float8, d date) USING lsm WITH (lsm.auto_compact = off, autovacuum_enabled = off);
CREATE TABLE plain (LIKE bounds);

CREATE FUNCTION bounds_fill(first int, rows int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO plain SELECT i, i % 100, i / 4.0, 'row ' || lpad(i::text, 6, '0'), i / 8.0, date '2026-01-01' + i / 100
    FROM generate_series(first, first + rows - 1) i;
  INSERT INTO bounds SELECT * FROM plain WHERE id BETWEEN first AND first + rows - 1;
$$;

-- conditions: each is to match a few segments only
CREATE TABLE conditions (condition text);
INSERT INTO conditions VALUES
  ('id BETWEEN 7000 AND 7100'), ('id < 0'), ('id = 4242'), ('id IN (1, 11999, 20000)'), ('id > 9990 AND v < 5'),
  ('n BETWEEN 500.25 AND 510'), ('n > 100000'), ('t = ''row 003333'''), ('t > ''row 011990'''), ('f < 3'),
  ('f = ''NaN'''), ('d = ''2026-02-01'''), ('d > ''2027-01-01'''), ('v < 0'), ('v IS NULL'), ('id IS NOT NULL AND n IS NULL'),
  ('id BETWEEN 1000 AND 1010 OR v = -1'), ('t LIKE ''row 0042%'''), ('t LIKE ''nul_'''), ('t ^@ ''row 01'''), ('n IN (500.25, 2000.5, 1e9)'),
  ('t IN (''row 000007'', ''row 009999'', ''no row'')'), ('id < 30 AND id NOT IN (5, 7)');

CREATE FUNCTION bounds_differ() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  c text;
  expected text;
  got text;
  how text;
BEGIN
  FOR c IN SELECT condition FROM conditions LOOP
    FOREACH how IN ARRAY ARRAY['count(*), sum(id), sum(n), min(t), max(v)', 'string_agg(id::text, '' '' ORDER BY id)'] LOOP
      EXECUTE format('SELECT x::text FROM (SELECT %s FROM plain WHERE %s) x', how, c) INTO expected;
      EXECUTE format('SELECT x::text FROM (SELECT %s FROM bounds WHERE %s) x', how, c) INTO got;
      IF expected IS DISTINCT FROM got THEN
        RETURN NEXT format('%s, %s: %s, not %s', c, how, got, expected);
      END IF;
    END LOOP;
  END LOOP;
END $$;

-- blocks that were read of all
CREATE FUNCTION bounds_blocks(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
    IF line ~ 'LSM: blocks' THEN
      RETURN regexp_replace(line, '^.*LSM: ', '');
    END IF;
  END LOOP;
END $$;

SELECT bounds_fill(1, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_fill(2001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_fill(4001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
INSERT INTO plain VALUES (NULL, NULL, NULL, NULL, NULL, NULL), (6000, NULL, NULL, 'null', 'NaN', 'infinity');
INSERT INTO bounds SELECT * FROM plain WHERE id IS NULL OR t = 'null';
SELECT bounds_fill(6001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_fill(8001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_fill(10001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT count(*) >= 6 AS segments FROM lsm_segments('bounds');
SELECT bounds_differ();
SELECT bounds_blocks('SELECT sum(v) FROM bounds WHERE id = 4242');
SELECT bounds_blocks('SELECT sum(v) FROM bounds WHERE id < 0');
SELECT bounds_blocks('SELECT * FROM bounds WHERE id < 0');

-- changes in the memtable: rows that come to meet a condition, and others that do no more
UPDATE bounds SET id = 7050, t = 'row 003333' WHERE id IN (3, 4003);
UPDATE plain SET id = 7050, t = 'row 003333' WHERE id IN (3, 4003);
DELETE FROM bounds WHERE id IN (4242, 11999);
DELETE FROM plain WHERE id IN (4242, 11999);
SELECT bounds_differ();
SELECT bounds_blocks('SELECT sum(v) FROM bounds WHERE id = 4242');
-- of a column that no change has touched, segments are passed over
SELECT bounds_blocks('SELECT sum(v) FROM bounds WHERE f < 0');

-- our own, in an increment, and rolled back
BEGIN;
UPDATE bounds SET v = -1, f = 1 WHERE id = 9000;
UPDATE plain SET v = -1, f = 1 WHERE id = 9000;
SELECT bounds_differ();
ROLLBACK;
SELECT bounds_differ();
SELECT lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_differ();
UPDATE bounds SET d = '2027-02-02', n = 100001 WHERE id BETWEEN 100 AND 103;
UPDATE plain SET d = '2027-02-02', n = 100001 WHERE id BETWEEN 100 AND 103;
SELECT bounds_differ();

-- serializable readers meet what they do not see
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT bounds_differ();
COMMIT;

-- a cursor goes on over a flush and a compaction
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM bounds WHERE id BETWEEN 1999 AND 2002 OR id BETWEEN 9999 AND 10002 ORDER BY ctid;
FETCH 2 FROM c;
SELECT lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT lsm_major_compact('bounds') IS NOT NULL AS compacted;
FETCH ALL FROM c;
COMMIT;
SELECT bounds_differ();
SELECT lsm_major_compact('bounds') IS NOT NULL AS compacted;
SELECT bounds_differ();

-- columns that older segments do not have
ALTER TABLE bounds ADD COLUMN later int DEFAULT 5, DROP COLUMN v;
ALTER TABLE plain ADD COLUMN later int DEFAULT 5, DROP COLUMN v;
SELECT (SELECT count(*) FROM bounds WHERE later = 5 AND id < 1000) = (SELECT count(*) FROM plain WHERE later = 5 AND id < 1000) AS equal,
  (SELECT count(*) FROM bounds WHERE later = 6) AS none,
  (SELECT sum(id) FROM bounds WHERE f > 1400) = (SELECT sum(id) FROM plain WHERE f > 1400) AS behind_a_dropped_one;

-- sessions that have opened no segment ask the last pages of each, here of small ones too, and
-- open those only that these do not rule out
ALTER TABLE bounds ADD COLUMN v int;
ALTER TABLE plain ADD COLUMN v int;
ALTER TABLE bounds DROP COLUMN later;
ALTER TABLE plain DROP COLUMN later;
CREATE OR REPLACE FUNCTION bounds_fill(first int, rows int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO plain SELECT i, i / 4.0, 'row ' || lpad(i::text, 6, '0'), i / 8.0, date '2026-01-01' + i / 100, i % 100
    FROM generate_series(first, first + rows - 1) i;
  INSERT INTO bounds SELECT * FROM plain WHERE id BETWEEN first AND first + rows - 1;
$$;
SELECT bounds_fill(12001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_fill(14001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_fill(16001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
SELECT bounds_fill(18001, 2000), lsm_flush('bounds') IS NOT NULL AS flushed;
UPDATE bounds SET n = 505 WHERE id = 15000;
UPDATE plain SET n = 505 WHERE id = 15000;
CREATE FUNCTION bounds_opened() RETURNS bigint LANGUAGE sql AS
  $$ SELECT index_blocks_read FROM lsm_stat_tables WHERE relname = 'bounds' $$;
SELECT count(*) AS segments FROM lsm_segments('bounds') \gset
SELECT :segments >= 5 AS enough;

-- a session gives its counts when it ends (who is there is looked up once in a transaction)
CREATE FUNCTION bounds_gone(old int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1 .. 18000 LOOP
    PERFORM pg_stat_clear_snapshot();
    IF NOT EXISTS (SELECT FROM pg_stat_get_activity(old)) THEN
      RETURN;
    END IF;
    PERFORM pg_sleep(0.01);
  END LOOP;
  RAISE 'session % does not end', old;
END $$;
SELECT pg_backend_pid() AS old \gset
\c -
SET lsm.debug_bounds_from = 0;
SELECT FROM bounds_gone(:old) \gset
SELECT bounds_opened() AS before \gset
SELECT sum(id) FROM bounds WHERE f < 0;
SELECT count(*) FROM bounds WHERE id BETWEEN 16100 AND 16110;
SELECT bounds_opened() - :before AS opened;
SELECT bounds_differ();
SELECT sum(id) FROM bounds;
SELECT bounds_opened() - :before = :segments AS all_opened;

-- without that all are
SELECT pg_backend_pid() AS old \gset
\c -
SELECT FROM bounds_gone(:old) \gset
SELECT bounds_opened() AS before \gset
SELECT sum(id) FROM bounds WHERE f < 0;
SELECT bounds_opened() - :before = :segments AS all_opened;

-- what a column is compared with is found before anything is passed over: it may flush and compact
CREATE TABLE late (id int, v int, t text) USING lsm WITH (lsm.auto_compact = off);
INSERT INTO late SELECT i, i % 100, repeat(md5(i::text), 10) FROM generate_series(1, 5000) i;
SELECT lsm_flush('late') IS NOT NULL AS flushed;
SELECT lsm_major_compact('late') IS NOT NULL AS compacted;
CREATE FUNCTION late_flush(compact bool) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lsm_flush('late');
  IF compact THEN
    PERFORM lsm_major_compact('late');
  END IF;
  RETURN 1000;
END $$;
UPDATE late SET v = 1000 WHERE id = 5;
SELECT id FROM late WHERE v = (SELECT late_flush(false));
UPDATE late SET v = 1000 WHERE id = 4000;
SELECT id FROM late WHERE v = (SELECT late_flush(true));
UPDATE late SET v = 1000 WHERE id = 3000;
SELECT count(*), sum(id) FROM late WHERE v = (SELECT late_flush(true));
SELECT lsm_check('late');
DROP FUNCTION late_flush;
DROP TABLE late;

SELECT lsm_check('bounds');
DROP FUNCTION bounds_opened, bounds_gone;
DROP TABLE bounds, plain, conditions;
DROP FUNCTION bounds_fill, bounds_differ, bounds_blocks;
