-- Of segments with much metadata, who looks up few rows reads a part.
CREATE TABLE parts (id int PRIMARY KEY, v int, t text, n numeric(12,2)) USING lsm
	WITH (lsm.auto_compact = off, lsm.block_size = 8192, autovacuum_enabled = off);
CREATE TABLE plain_parts (id int PRIMARY KEY, v int, t text, n numeric(12,2));
INSERT INTO plain_parts SELECT i, i % 1000, md5(i::text) || md5((-i)::text), i / 3.0 FROM generate_series(1, 300000) i;
INSERT INTO parts SELECT * FROM plain_parts;
SELECT rows_in > 0 AS flushed FROM lsm_flush('parts');
SELECT rows_in > 0 AS merged FROM lsm_major_compact('parts');
VACUUM parts;
SELECT sum(rows) AS rows, max(blocks) > 8 * 256 AS sliced FROM lsm_segments('parts');

-- pages that queries read, whether they are cached or not
CREATE FUNCTION pages(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT json) ' || query INTO plan;
  RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::int + (plan->0->'Plan'->>'Shared Read Blocks')::int;
END $$;

-- rows that are looked up one by one, and how many of them are other ones than heap's
CREATE FUNCTION looked_up(step int) RETURNS TABLE (rows bigint, others bigint) LANGUAGE plpgsql AS $$
DECLARE
  r record;
BEGIN
  rows := 0;
  others := 0;
  FOR i IN 0 .. 400 LOOP
    SELECT p IS NOT DISTINCT FROM h AS same INTO r
      FROM (SELECT (i * step) % 300500 - 5 AS id) k LEFT JOIN parts p USING (id) LEFT JOIN plain_parts h USING (id);
    rows := rows + 1;
    IF NOT r.same THEN others := others + 1; END IF;
  END LOOP;
  RETURN NEXT;
END $$;

-- a session that looks up one row has far less than all metadata; then all for a scan
\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET lsm.enable_lsmscan = off;
SELECT pages('SELECT t FROM parts WHERE id = 170000') BETWEEN 4 AND 16 AS one_row;
SELECT pages('SELECT t FROM parts WHERE id = 170001') <= 4 AS the_next_one;
SELECT pages('SELECT t FROM parts WHERE id = 10') <= 9 AS far_away;
SELECT * FROM looked_up(7919);
SET enable_seqscan = on;
SET enable_indexscan = off;
SELECT count(*), sum(v), sum(n) FROM parts WHERE t > 'a';
SET enable_indexscan = on;
SET enable_seqscan = off;
SELECT * FROM looked_up(1237);

\c -
SET enable_seqscan = off;
SET lsm.enable_lsmscan = off;
SET lsm.debug_bounds_from = '1GB';
SELECT pages('SELECT t FROM parts WHERE id = 170000') > 24 AS all_of_it;

-- with so little room that segments are closed all the time
\c -
SET enable_seqscan = off;
SET lsm.enable_lsmscan = off;
SET lsm.debug_reader_memory = 64;
SELECT * FROM looked_up(99991);
SELECT h.id, p.v IS NOT DISTINCT FROM h.v AS same FROM plain_parts h LEFT JOIN parts p USING (id) WHERE h.id IN (1, 2, 50000, 299999, 300000) ORDER BY id;

-- changed rows, and segments that take their place
UPDATE parts SET v = -v, t = 'changed ' || id WHERE id % 97 = 0;
UPDATE plain_parts SET v = -v, t = 'changed ' || id WHERE id % 97 = 0;
DELETE FROM parts WHERE id BETWEEN 40000 AND 40500;
DELETE FROM plain_parts WHERE id BETWEEN 40000 AND 40500;
SELECT * FROM looked_up(97);
INSERT INTO parts VALUES (70000, 0, 'twice', 0);
INSERT INTO parts VALUES (70000, 1, 'instead', 1) ON CONFLICT (id) DO UPDATE SET t = excluded.t;
INSERT INTO plain_parts VALUES (70000, 1, 'instead', 1) ON CONFLICT (id) DO UPDATE SET t = excluded.t;
SELECT rows_in > 0 AS flushed FROM lsm_flush('parts');
SELECT * FROM looked_up(97);
SELECT rows_in > 0 AS merged FROM lsm_major_compact('parts');
SELECT * FROM looked_up(97);
SELECT * FROM lsm_check('parts');
SELECT count(*) AS others FROM (TABLE parts EXCEPT ALL TABLE plain_parts) x;
DROP TABLE parts, plain_parts;
DROP FUNCTION pages, looked_up;
