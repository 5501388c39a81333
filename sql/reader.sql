--
-- Reading past shared buffers: the block cache, requests, and what is done when
-- reading fails in some way.  Counters are of the whole server, which has no
-- other client here.
--
CREATE TABLE reader (id int PRIMARY KEY, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO reader SELECT i, md5(i::text) || md5((i + 1)::text) FROM generate_series(1, 20000) i;
SELECT segments_out, rows_out FROM lsm_flush('reader');
CHECKPOINT;
CREATE FUNCTION io(of_reader text, OUT requests bigint, OUT wanted bigint, OUT hit bigint,
	OUT merged bigint, OUT whole boolean, OUT by_buffers bigint)
LANGUAGE sql AS $$
	SELECT sum(i.requests) FILTER (WHERE method <> 'buffers'), sum(blocks_wanted), sum(blocks_hit),
		sum(blocks_merged), sum(bytes_wanted) > 0 AND sum(bytes_read) FILTER (WHERE method <> 'buffers') % 8192 = 0,
		sum(i.requests) FILTER (WHERE method = 'buffers')
	FROM lsm_stat_io i WHERE reader = of_reader
$$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- a cold row: one request of its block's pages, and one that opens the segment
SELECT lsm_stat_reset();
SELECT t = md5('5000') || md5('5001') FROM reader WHERE id = 5000;
SELECT requests, wanted, hit, whole FROM io('point');
SELECT requests, wanted, hit, whole FROM io('metadata');
SELECT bytes_wanted <= bytes_read AND bytes_read < bytes_wanted + 2 * 8192 AS no_more
FROM lsm_stat_io WHERE reader = 'point' AND method = 'sync';
-- the same session has it decoded
SELECT t = md5('5000') || md5('5001') FROM reader WHERE id = 5000;
SELECT requests, wanted, hit FROM io('point');
-- another one finds both in the cache, and may expand the block
\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT t = md5('5000') || md5('5001') FROM reader WHERE id = 5000;
SELECT requests, wanted, hit FROM io('point');
SELECT requests, wanted, hit FROM io('metadata');
SELECT used_bytes <= size_bytes AS used, warm_bytes BETWEEN 1 AND used_bytes AS warm, blocks >= 2 AS blocks, hits >= 2 AS hits, insertions BETWEEN 2 AND 3 AS insertions
FROM lsm_stat_cache;

-- EXPLAIN tells of pages read and found as it does of shared buffers
CREATE FUNCTION pages(statement text, what text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
	RETURN plan->0->'Plan'->>(what || ' Blocks');
END;
$$;
SELECT pages('SELECT t FROM reader WHERE id = 15000', 'Shared Read') > 0 AS read;
\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT pages('SELECT t FROM reader WHERE id = 15000', 'Shared Read') AS read,
	pages('SELECT t FROM reader WHERE id = 15000', 'Shared Hit') > 0 AS hit;

-- whatever happens to requests, rows are right
RESET enable_seqscan;
CREATE TABLE fault (id int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out, rows_out FROM lsm_flush('fault');
CREATE FUNCTION fault_sum() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT count(*) || ' ' || sum(id) || ' ' || sum(length(t)) FROM fault);
END;
$$;
-- (each of these times a new segment, which no cache has)
SELECT fault_sum();
DO $$
DECLARE
	way text;
	fault text;
	result text;
BEGIN
	FOREACH way IN ARRAY ARRAY['sync', 'auto'] LOOP
		FOREACH fault IN ARRAY ARRAY['none', 'refuse', 'full', 'again', 'short', 'stale', 'torn'] LOOP
			TRUNCATE fault;
			INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
			PERFORM lsm_flush('fault');
			PERFORM set_config('lsm.io_method', way, false);
			PERFORM set_config('lsm.debug_io', fault, false);
			result := fault_sum();
			PERFORM set_config('lsm.debug_io', 'none', false);
			IF result <> '20000 200010000 640000' THEN
				RAISE WARNING '% %: %', way, fault, result;
			END IF;
		END LOOP;
	END LOOP;
END;
$$;
-- pages that do not prove are read through shared buffers
SELECT by_buffers > 0 AS by_buffers FROM io('scan');
-- an error names the file, and leaves nothing behind
\set VERBOSITY sqlstate
SET lsm.debug_io = 'eio';
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
SELECT fault_sum();
BEGIN;
SAVEPOINT s;
SELECT fault_sum();
ROLLBACK TO s;
SET LOCAL lsm.debug_io = 'none';
SELECT fault_sum();
COMMIT;
-- so does one with requests on their way, in a transaction that goes on
RESET lsm.debug_io;
SET lsm.debug_stop = 'ahead-started:error';
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
BEGIN;
DECLARE before_it CURSOR FOR SELECT id FROM fault;
FETCH 1 FROM before_it;
SAVEPOINT s;
SELECT fault_sum();
ROLLBACK TO s;
SET LOCAL lsm.debug_stop = '';
MOVE 19000 FROM before_it;
FETCH 1 FROM before_it;
SELECT fault_sum();
COMMIT;
RESET lsm.debug_stop;
\set VERBOSITY default
SELECT fault_sum();

-- LIMIT reads little ahead
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
SELECT lsm_stat_reset();
SELECT id FROM fault LIMIT 1;
SELECT requests, wanted FROM io('scan');
\c -
-- and a whole scan does so by few requests
SELECT lsm_stat_reset();
SELECT fault_sum();
SELECT wanted > 20 AS many_wanted, requests < wanted / 3 AS few_requests, hit, merged > 0 AS merged, whole FROM io('scan');
-- but by one for each block, if that is asked for
SET lsm.multiblock_read_size = 0;
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
SELECT lsm_stat_reset();
SELECT fault_sum();
-- (a block at the end of an extent may take two)
SELECT requests BETWEEN wanted AND wanted + 3 AS one_each, merged FROM io('scan');
RESET lsm.multiblock_read_size;

-- a block that the cache has is read over
CREATE INDEX fault_id ON fault (id);
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
SET enable_seqscan = off;
SELECT count(t) FROM fault WHERE id = 15000;
RESET enable_seqscan;
\c -
SELECT lsm_stat_reset();
SELECT fault_sum();
SELECT hit FROM io('scan');
SELECT sum(blocks_read_over) AS read_over FROM lsm_stat_io WHERE reader = 'scan';

-- a bitmap scan reads ahead
SET enable_seqscan = off;
SET enable_indexscan = off;
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
SELECT lsm_stat_reset();
SELECT count(t), sum(id) FROM fault WHERE id % 2 = 0 AND id > 100;
SELECT wanted > 20 AS many_wanted, requests < wanted / 3 AS few_requests FROM io('bitmap');
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
SELECT lsm_stat_reset();
SELECT count(t), sum(id) FROM fault WHERE id = ANY (ARRAY(SELECT 200 * i FROM generate_series(1, 100) i));
SELECT requests < 15 AS few_requests
FROM (SELECT sum(requests) AS requests FROM lsm_stat_io WHERE reader IN ('bitmap', 'point') AND method <> 'buffers') r;
RESET enable_seqscan;
RESET enable_indexscan;

-- an index scan that walks forward reads ahead, and no more than it has read before; others do not
CREATE TABLE walk (id int PRIMARY KEY, r int, t text) USING lsm WITH (autovacuum_enabled = off, lsm.block_size = 8192);
CREATE INDEX walk_r ON walk (r);
SET enable_seqscan = off; SET enable_bitmapscan = off;
CREATE FUNCTION walk_again() RETURNS void LANGUAGE sql AS $$
	TRUNCATE walk;
	INSERT INTO walk SELECT i, i * 7919 % 20000, md5(i::text) FROM generate_series(1, 20000) i;
	SELECT lsm_flush('walk');
	SELECT lsm_stat_reset();
$$;
SELECT walk_again();
SELECT count(t), sum(r) FROM walk WHERE id > 0;
SELECT wanted > 50 AS many_wanted, requests < wanted / 2 AS few_requests FROM io('index');
SELECT sum(requests) < 10 AS few FROM lsm_stat_io WHERE reader = 'point' AND method <> 'buffers';
SELECT walk_again();
SELECT count(t) FROM (SELECT t FROM walk WHERE id > 0 ORDER BY id LIMIT 2000) x;
SELECT sum(bytes_read) <= 3 * sum(bytes_wanted) AS no_more FROM lsm_stat_io WHERE reader IN ('index', 'point') AND method <> 'buffers';
SELECT walk_again();
SELECT count(t) FROM (SELECT t FROM walk WHERE id > 0 ORDER BY id DESC LIMIT 2000) x;
SELECT count(t) FROM walk WHERE r BETWEEN 1 AND 100;
SELECT count(t) FROM generate_series(1, 20000, 500) i, LATERAL (SELECT t FROM walk WHERE id = i OFFSET 0) x;
SELECT wanted FROM io('index');
-- changed rows, and rows of the row log, between
SELECT walk_again();
UPDATE walk SET t = 'changed' WHERE id % 100 = 0;
DELETE FROM walk WHERE id BETWEEN 5000 AND 5999;
INSERT INTO walk SELECT i, i, 'new' FROM generate_series(20001, 21000) i;
SELECT count(t), sum(id), count(*) FILTER (WHERE t = 'changed'), count(*) FILTER (WHERE t = 'new') FROM walk WHERE id > 0;
SELECT count(*) AS major FROM lsm_major_compact('walk');
SELECT count(t), sum(id), count(*) FILTER (WHERE t = 'changed'), count(*) FILTER (WHERE t = 'new') FROM walk WHERE id > 0;
RESET enable_seqscan; RESET enable_bitmapscan;
DROP FUNCTION walk_again;
DROP TABLE walk;

-- compaction reads ahead; what it reads is not kept, what it writes instead of cached blocks is
CREATE TABLE job (id int PRIMARY KEY, v int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO job SELECT i, i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('job');
UPDATE job SET v = v + 1 WHERE id % 3 = 0;
SELECT segments_out FROM lsm_flush('job');
\c -
SELECT lsm_stat_reset();
SELECT segments_out FROM lsm_major_compact('job');
SELECT wanted > 20 AS many_wanted, requests < wanted / 3 AS few_requests, merged > 0 AS merged FROM io('compaction');
SELECT insertions BETWEEN written AND written + 3 AS only_new_blocks FROM lsm_stat_cache, (SELECT sum(blocks) AS written FROM lsm_segments('job')) s;
SELECT count(*), sum(v), sum(length(t)) FROM job;
-- blocks that are copied as they are, and those that are not; with faults
DO $$
DECLARE
	fault text;
	result text;
BEGIN
	FOREACH fault IN ARRAY ARRAY['none', 'full', 'again', 'short', 'stale', 'torn'] LOOP
		UPDATE job SET v = v + 1 WHERE id BETWEEN 5000 AND 5100;
		PERFORM lsm_flush('job');
		PERFORM set_config('lsm.debug_io', fault, false);
		PERFORM lsm_major_compact('job');
		PERFORM set_config('lsm.debug_io', 'none', false);
		SELECT count(*) || ' ' || sum(v) || ' ' || sum(length(t)) INTO result FROM job;
		RAISE NOTICE '% %', fault, result;
	END LOOP;
END;
$$;
SELECT c AS problem FROM lsm_check('job') c;
DROP TABLE job;

-- reading ahead, who wants few rows does not look through all segments for more; and the segment
-- of which a block is being read stays open
CREATE TABLE skips (id int, k int, t text) USING lsm WITH (autovacuum_enabled = off);
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		INSERT INTO skips SELECT i, CASE WHEN i <= 5 OR i > 55 THEN 0 ELSE i END, md5(n::text) FROM generate_series(1, 20) n;
		PERFORM lsm_flush('skips');
	END LOOP;
END $$;
\c -
SET cpu_operator_cost = 0;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT id, t FROM skips WHERE k = 0;
SELECT lsm_stat_reset();
SELECT id FROM skips WHERE k = 0 OFFSET 50 LIMIT 1;
SELECT wanted < 15 AS few FROM io('metadata');
\c -
SET cpu_operator_cost = 0;
SET max_parallel_workers_per_gather = 0;
SET lsm.debug_reader_memory = '1kB';
SELECT count(*), sum(id), max(t) FROM skips WHERE k = 0;
RESET cpu_operator_cost;
RESET max_parallel_workers_per_gather;
RESET lsm.debug_reader_memory;
DROP TABLE skips;

-- direct input
SET lsm.direct_io = on;
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
CHECKPOINT;
SELECT fault_sum();
SET lsm.debug_io = 'short';
TRUNCATE fault;
INSERT INTO fault SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('fault');
CHECKPOINT;
SELECT fault_sum();
RESET lsm.debug_io;
RESET lsm.direct_io;

-- temporary tables are read through local buffers
CREATE TEMP TABLE reader_temp USING lsm AS SELECT i AS id FROM generate_series(1, 20000) i;
SELECT segments_out FROM lsm_flush('reader_temp');
SELECT lsm_stat_reset();
SELECT count(*), sum(id) FROM reader_temp;
SELECT sum(requests) AS requests FROM lsm_stat_io WHERE method <> 'buffers';

-- settings
SET lsm.io_depth = 0;
SET lsm.io_method = 'fast';
ALTER SYSTEM SET lsm.block_cache_size = '100kB';
SHOW lsm.block_cache_size;

SELECT c AS problem FROM lsm_check('reader') c;
SELECT c AS problem FROM lsm_check('fault') c;
DROP TABLE reader, fault, reader_temp;
DROP FUNCTION io, pages, fault_sum;
