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
