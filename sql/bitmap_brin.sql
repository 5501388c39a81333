--
-- BRIN: its ranges are logical blocks of roots, whatever the table is made of
--
CREATE TABLE bb (id int, k int, t text, pad text) USING lsm;
CREATE INDEX bb_before ON bb USING brin (k) WITH (pages_per_range = 2);
INSERT INTO bb SELECT i, i, 'row ' || i, repeat('p', 200) FROM generate_series(1, 4000) i;
-- rows found by the index named, and by a sequential scan
CREATE FUNCTION bb_ask(condition text, OUT by_index bigint, OUT by_scan bigint, OUT bitmap bool)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	query text := 'SELECT sum(hashtext(bb::text)::bigint + (1::bigint << 32)) FROM bb WHERE ' || condition;
	i bigint;
	j bigint;
	s bigint;
BEGIN
	PERFORM set_config('enable_bitmapscan', 'off', true);
	EXECUTE query INTO s;
	EXECUTE 'SELECT count(*) FROM bb WHERE ' || condition INTO by_scan;
	PERFORM set_config('enable_bitmapscan', 'on', true), set_config('enable_seqscan', 'off', true);
	bitmap := false;
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		bitmap := bitmap OR line LIKE '%Custom Scan (LsmBitmapScan) on bb %';
	END LOOP;
	EXECUTE query INTO i;
	PERFORM set_config('lsm.enable_lsmscan', 'off', true);
	EXECUTE query INTO j;
	PERFORM set_config('lsm.enable_lsmscan', 'on', true);
	EXECUTE 'SELECT count(*) FROM bb WHERE ' || condition INTO by_index;
	PERFORM set_config('enable_seqscan', 'on', true);
	IF i IS DISTINCT FROM s OR j IS DISTINCT FROM s THEN
		RAISE EXCEPTION 'other rows by the index than by a scan: %', condition;
	END IF;
END $$;
-- how much of the table the index leaves to be read, in tenths
CREATE FUNCTION bb_read(condition text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	pages numeric;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true);
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) SELECT * FROM bb WHERE ' || condition INTO plan;
	PERFORM set_config('enable_seqscan', 'on', true);
	pages := (plan->0->'Plan'->>'Rows Removed by Index Recheck')::numeric + (plan->0->'Plan'->>'Actual Rows')::numeric;
	RETURN ceil(10 * pages / (SELECT count(*) FROM bb));
END $$;
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');
SELECT bb_read('k BETWEEN 1000 AND 1100');
SELECT brin_summarize_new_values('bb_before') > 0 AS summarized;
SELECT bb_read('k BETWEEN 1000 AND 1100');
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');

-- built after, in the memtable
CREATE INDEX bb_after ON bb USING brin (k) WITH (pages_per_range = 2);
DROP INDEX bb_before;
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');
SELECT bb_read('k BETWEEN 1000 AND 1100');

-- updates of other columns leave the root; those of k take a new one
UPDATE bb SET t = 'updated' WHERE id % 3 = 0;
UPDATE bb SET k = k + 10000 WHERE id BETWEEN 1000 AND 1050;
DELETE FROM bb WHERE id BETWEEN 1090 AND 1095;
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');
SELECT * FROM bb_ask('k > 10000');
SELECT count(*) AS flush FROM lsm_flush('bb');
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');
SELECT * FROM bb_ask('k > 10000');
UPDATE bb SET t = 'again' WHERE id % 4 = 0;
UPDATE bb SET k = k - 20000 WHERE k > 10000 AND id % 2 = 0;
SELECT count(*) AS flush FROM lsm_flush('bb');
SELECT count(*) AS minor FROM lsm_minor_compact('bb');
SELECT * FROM bb_ask('k < 0');
SELECT * FROM bb_ask('k > 10000');
SELECT count(*) AS major FROM lsm_major_compact('bb');
SELECT * FROM bb_ask('k < 0');
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');
SELECT brin_summarize_new_values('bb_after') >= 0 AS summarized;
SELECT * FROM bb_ask('k < 0');
SELECT bb_read('k BETWEEN 3000 AND 3100');

-- built over segments, with another kind of summary too
CREATE INDEX bb_segments ON bb USING brin (k) WITH (pages_per_range = 1);
DROP INDEX bb_after;
SELECT * FROM bb_ask('k < 0');
SELECT * FROM bb_ask('k > 10000');
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');
SELECT bb_read('k BETWEEN 3000 AND 3100');
REINDEX INDEX bb_segments;
SELECT * FROM bb_ask('k BETWEEN 1000 AND 1100');
CREATE INDEX bb_bloom ON bb USING brin (t text_bloom_ops, id int4_minmax_multi_ops) WITH (pages_per_range = 2);
SELECT * FROM bb_ask('t = ''row 3001''');
SELECT * FROM bb_ask('t = ''again'' AND id BETWEEN 500 AND 600');

-- ranges taken out of the index and put into it again
SELECT bool_and(brin_desummarize_range('bb_segments', lb) IS NOT NULL) FROM generate_series(0, 20) lb;
SELECT * FROM bb_ask('k BETWEEN 100 AND 400');
SELECT count(*) FILTER (WHERE brin_summarize_range('bb_segments', lb) = 1) AS summarized FROM generate_series(0, 20) lb;
SELECT * FROM bb_ask('k BETWEEN 100 AND 400');
SELECT brin_summarize_range('bb_segments', 4000000000) AS beyond;

-- rows of a transaction that has not ended, or was rolled back
BEGIN;
INSERT INTO bb SELECT i, i, 'row ' || i, repeat('p', 200) FROM generate_series(5001, 5500) i;
UPDATE bb SET k = 5100 WHERE id = 17;
SELECT * FROM bb_ask('k BETWEEN 5000 AND 5200');
SELECT count(*) AS flush FROM lsm_flush('bb');
SELECT * FROM bb_ask('k BETWEEN 5000 AND 5200');
ROLLBACK;
SELECT * FROM bb_ask('k BETWEEN 5000 AND 5200');
SELECT * FROM bb_ask('k BETWEEN 10 AND 20');
SELECT count(*) AS flush FROM lsm_flush('bb');
SELECT count(*) AS major FROM lsm_major_compact('bb');
VACUUM bb;
SELECT * FROM bb_ask('k BETWEEN 5000 AND 5200');
SELECT * FROM bb_ask('k BETWEEN 10 AND 20');

-- more rows than the index knows of, small work_mem
INSERT INTO bb SELECT i, i, 'row ' || i, repeat('p', 1000) FROM generate_series(6001, 16000) i;
SET work_mem = '64kB';
SELECT * FROM bb_ask('k BETWEEN 6100 AND 15900');
SELECT * FROM bb_ask('k BETWEEN 15990 AND 16010 OR k < 0');
SELECT brin_summarize_new_values('bb_segments') > 0 AS summarized;
SELECT * FROM bb_ask('k BETWEEN 15990 AND 16010 OR k < 0');
SELECT count(*) AS flush FROM lsm_flush('bb');
SELECT count(*) AS major FROM lsm_major_compact('bb');
SELECT * FROM bb_ask('k BETWEEN 6100 AND 15900');
DELETE FROM bb WHERE id BETWEEN 6000 AND 15000;
SELECT count(*) AS flush FROM lsm_flush('bb');
SELECT count(*) AS major FROM lsm_major_compact('bb');
VACUUM bb;
SELECT * FROM bb_ask('k BETWEEN 6100 AND 15900');
CREATE INDEX bb_late ON bb USING brin (k);
DROP INDEX bb_segments;
SELECT * FROM bb_ask('k BETWEEN 6100 AND 15900');
SELECT * FROM bb_ask('k BETWEEN 3000 AND 3010');
RESET work_mem;

SELECT c AS problem FROM lsm_check('bb') c;
DROP FUNCTION bb_ask(text), bb_read(text);
DROP TABLE bb;
