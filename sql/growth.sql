--
-- A compaction whose output is far larger than its first input
--
CREATE TABLE gr (id int, v int, t text) USING lsm;
INSERT INTO gr VALUES (0, 0, 'first');
SELECT count(*) AS flush FROM lsm_flush('gr');
INSERT INTO gr SELECT i, 0, md5(i::text) || md5((-i)::text) FROM generate_series(1, 300000) i;
SELECT count(*) AS flush FROM lsm_flush('gr');
UPDATE gr SET v = v + 1;
SELECT count(*) AS flush FROM lsm_flush('gr');
SELECT segments_out > 0 AS wrote FROM lsm_major_compact('gr');
SELECT count(*), sum(v), sum(length(t)) FROM gr;
SELECT sum(stored_bytes) > 8 * 1024 * 1024 AS large FROM lsm_segments('gr');
VACUUM gr;
SELECT c AS problem FROM lsm_check('gr') c;
DROP TABLE gr;
--
-- A table that nobody has vacuumed or analyzed counts as heap's does: it will grow
--
CREATE FUNCTION gr_estimate(relation regclass) RETURNS float LANGUAGE plpgsql AS $$
DECLARE
  plan jsonb;
BEGIN
  EXECUTE format('EXPLAIN (FORMAT JSON) SELECT * FROM %s', relation) INTO plan;
  RETURN plan -> 0 -> 'Plan' -> 'Plan Rows';
END $$;
CREATE TABLE gr_new (a int) USING lsm;
CREATE TABLE gr_new_wide (a int, b numeric, c text, d name) USING lsm;
CREATE TABLE gr_new_heap (a int) USING heap;
CREATE TABLE gr_new_wide_heap (a int, b numeric, c text, d name) USING heap;
SELECT gr_estimate('gr_new') = gr_estimate('gr_new_heap') AS as_heap,
  gr_estimate('gr_new_wide') = gr_estimate('gr_new_wide_heap') AS wide_as_heap;
INSERT INTO gr_new SELECT i FROM generate_series(1, 10) i;
SELECT gr_estimate('gr_new') = gr_estimate('gr_new_heap') AS as_heap;
-- known, it has the rows that it has: in the row log, and after a flush
ANALYZE gr_new;
SELECT gr_estimate('gr_new');
VACUUM gr_new;
SELECT gr_estimate('gr_new');
DROP TABLE gr_new, gr_new_wide, gr_new_heap, gr_new_wide_heap;
DROP FUNCTION gr_estimate(regclass);
