--
-- Major compaction of a table that is larger than one part of it
--
SET lsm.segment_size = '1MB';
-- the sizes below are those of LBs with as many rows as a page has
SET lsm.debug_load_after = -1;
CREATE TABLE mp (id int PRIMARY KEY, n int, pad text) USING lsm WITH (autovacuum_enabled = off);
-- one part reads about 16 MB; this is about 37 MB stored
INSERT INTO mp SELECT i, 0, string_agg(md5(i || '.' || k), '') FROM generate_series(1, 80000) i, generate_series(1, 28) k GROUP BY i ORDER BY i;
SELECT count(*) AS flush FROM lsm_flush('mp');
SELECT sum(stored_bytes) > 32000000 AS large, count(*) > 30 AS many FROM lsm_segments('mp');

-- increments that reach over all of it
UPDATE mp SET n = n + 1, pad = reverse(pad) WHERE id % 20 = 1;
SELECT count(*) AS flush FROM lsm_flush('mp');
UPDATE mp SET n = n + 1, pad = 'short' WHERE id % 30 = 1;
DELETE FROM mp WHERE id % 100 = 7;
SELECT count(*) AS flush FROM lsm_flush('mp');
SELECT count(*) AS increments, max(last_tid) > '(9000,1)' AND min(first_tid) < '(1000,1)' AS wide
	FROM lsm_segments('mp') WHERE kind = 'increment';
SELECT count(*), sum(n), sum(length(pad)) FROM mp;

-- minor merges them and cuts the result by what lies below
SELECT segments_in, segments_out > 2 AS cut FROM lsm_minor_compact('mp');
SELECT count(*) AS overlaps FROM lsm_segments('mp') a JOIN lsm_segments('mp') b
	ON a.segment_id < b.segment_id AND a.kind = 'increment' AND b.kind = 'increment' AND a.first_tid <= b.last_tid AND b.first_tid <= a.last_tid;
SELECT max(below) < 16 * 1024 * 1024 AS bounded FROM
	(SELECT sum(b.stored_bytes) AS below FROM lsm_segments('mp') a JOIN lsm_segments('mp') b
	 ON a.kind = 'increment' AND b.kind <> 'increment' AND a.first_tid <= b.last_tid AND b.first_tid <= a.last_tid GROUP BY a.segment_id) x;
-- once more changes nothing
SELECT segments_in, segments_out FROM lsm_minor_compact('mp');
SELECT count(*), sum(n), sum(length(pad)) FROM mp;
SELECT c AS problem FROM lsm_check('mp') c;

-- an error after the first part leaves that done
CREATE FUNCTION mp_increments() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM lsm_segments('mp') WHERE kind = 'increment' $$;
SELECT mp_increments() AS before \gset
SET lsm.debug_stop = 'major-part:error';
SELECT count(*) FROM lsm_major_compact('mp');
RESET lsm.debug_stop;
SELECT :before - mp_increments() AS parts_done;
SELECT count(*), sum(n), sum(length(pad)) FROM mp;
SELECT c AS problem FROM lsm_check('mp') c;
-- newer ones above; all go in
UPDATE mp SET n = n + 1 WHERE id BETWEEN 60000 AND 60100;
SELECT count(*) AS flush FROM lsm_flush('mp');
UPDATE mp SET n = n + 1 WHERE id % 500 = 1;
SELECT count(*) AS flush FROM lsm_flush('mp');
SELECT count(*) AS major FROM lsm_major_compact('mp');
SELECT kind, count(*) > 0 AS some FROM lsm_segments('mp') GROUP BY kind ORDER BY kind;
SELECT count(*), sum(n), sum(length(pad)) FROM mp;
SELECT c AS problem FROM lsm_check('mp') c;

-- a local change costs a part, not the table
UPDATE mp SET n = n + 1 WHERE id BETWEEN 40000 AND 40100;
SELECT count(*) AS flush FROM lsm_flush('mp');
SELECT bytes_read < 4 * 1024 * 1024 AS little, segments_in < 5 AS few FROM lsm_major_compact('mp');
SELECT sum(n) FROM mp WHERE id BETWEEN 39990 AND 40110;

-- rows of rolled-back transactions, and small segments, without any increment
BEGIN;
INSERT INTO mp SELECT i, 0, md5(i::text) FROM generate_series(80001, 90000) i;
ROLLBACK;
INSERT INTO mp VALUES (90001, 0, 'a');
SELECT count(*) AS flush FROM lsm_flush('mp');
INSERT INTO mp VALUES (90002, 0, 'a');
SELECT count(*) AS flush FROM lsm_flush('mp');
INSERT INTO mp VALUES (90003, 0, 'a');
SELECT count(*) AS flush FROM lsm_flush('mp');
INSERT INTO mp VALUES (90004, 0, 'a');
SELECT count(*) AS flush FROM lsm_flush('mp');
SELECT segments_in BETWEEN 4 AND 8 AS small_ones FROM lsm_major_compact('mp');
SELECT count(*), sum(n), sum(length(pad)) FROM mp;
SELECT c AS problem FROM lsm_check('mp') c;

-- increments over each other that are too much for one minor: several, by age and then by
-- roots; an error after the first one leaves that done
CREATE FUNCTION mp_minors() RETURNS bigint LANGUAGE sql AS $$ SELECT minor_compactions FROM lsm_stat_tables WHERE relname = 'mp' $$;
SELECT format('UPDATE mp SET n = n + 1, pad = reverse(pad) WHERE id %% 6 = %s', k), $$SELECT count(*) AS flush FROM lsm_flush('mp')$$
	FROM generate_series(0, 5) k \gexec
SELECT sum(stored_bytes) > 32000000 AS large FROM lsm_segments('mp') WHERE kind = 'increment';
SELECT mp_minors() AS before \gset
SET lsm.debug_stop = 'minor-part:error';
SELECT count(*) FROM lsm_major_compact('mp');
RESET lsm.debug_stop;
SELECT mp_minors() - :before AS minors_done, mp_increments() > 0 AS some;
SELECT count(*), sum(n), sum(length(pad)) FROM mp;
SELECT c AS problem FROM lsm_check('mp') c;
VACUUM mp;
SELECT mp_minors() - :before > 5 AS minors, mp_increments();
SELECT count(*), sum(n), sum(length(pad)) FROM mp;
SELECT c AS problem FROM lsm_check('mp') c;
DROP FUNCTION mp_minors();
DROP TABLE mp;

-- of a table that is done in one part, what lies between rows that have changed stays as it is: in one
-- block of an increment, or in several
CREATE TABLE mw (id int PRIMARY KEY, n int, pad text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO mw SELECT i, 0, string_agg(md5(i || '.' || k), '') FROM generate_series(1, 20000) i, generate_series(1, 28) k GROUP BY i ORDER BY i;
VACUUM mw;
SELECT sum(stored_bytes) < 16 * 1024 * 1024 AS whole, count(*) > 8 AS many FROM lsm_segments('mw');
CREATE FUNCTION mw_touched(VARIADIC ids int[]) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(DISTINCT s.segment_id) FROM mw m, lsm_segments('mw') s
	WHERE m.id = ANY (ids) AND s.level = 2 AND m.ctid BETWEEN s.first_tid AND s.last_tid $$;
SELECT mw_touched(1, 20000) AS touched;
UPDATE mw SET n = n + 1 WHERE id IN (1, 20000);
SELECT segments_out FROM lsm_flush('mw');
SELECT segments_in FROM lsm_major_compact('mw');
SELECT array_agg(i) AS ids FROM (SELECT generate_series(1, 40) UNION ALL SELECT generate_series(7000, 20000, 6500)) g (i) \gset
SELECT mw_touched(VARIADIC :'ids') AS touched;
UPDATE mw SET n = n + 1, pad = reverse(pad) WHERE id = ANY (:'ids');
SELECT segments_out FROM lsm_flush('mw');
SELECT blocks > 1 AS blocks FROM lsm_segments('mw') WHERE kind = 'increment';
SELECT segments_in FROM lsm_major_compact('mw');
SELECT count(*), sum(n), sum(length(pad)) FROM mw;
SELECT c AS problem FROM lsm_check('mw') c;
DROP FUNCTION mw_touched(VARIADIC int[]);
DROP TABLE mw;

-- blocks behind a gap are copied as they are, uncompressed as they were written
CREATE TABLE mp_gap (id int, t text) USING lsm WITH (lsm.compression = none, lsm.block_size = '8kB');
INSERT INTO mp_gap SELECT i, repeat(md5(i::text), 4) FROM generate_series(1, 20000) i;
VACUUM FREEZE mp_gap;
ALTER TABLE mp_gap SET (lsm.compression = zstd);
CREATE TEMP TABLE before AS SELECT stored_bytes, blocks FROM lsm_segments('mp_gap');
DELETE FROM mp_gap WHERE id <= 50;
SELECT count(*) AS flush FROM lsm_flush('mp_gap');
SELECT count(*) AS major FROM lsm_major_compact('mp_gap');
SELECT sum(s.stored_bytes) > 0.95 * (SELECT sum(stored_bytes) FROM before) AS copied,
	sum(s.blocks) > (SELECT sum(blocks) FROM before) - 3 AS blocks FROM lsm_segments('mp_gap') s;
SELECT count(*), sum(id), sum(length(t)) FROM mp_gap;
SELECT c AS problem FROM lsm_check('mp_gap') c;
DROP TABLE mp_gap, before;
DROP FUNCTION mp_increments();
