--
-- A scan that has found its end leaves room to the others of its query
--
CREATE TABLE ends (part int, id int, t text) PARTITION BY LIST (part);
DO $$
BEGIN
	FOR i IN 1 .. 12 LOOP
		EXECUTE format('CREATE TABLE ends_%s PARTITION OF ends FOR VALUES IN (%s) USING lsm WITH (lsm.block_size = 8192, autovacuum_enabled = off)', i, i);
		EXECUTE format('INSERT INTO ends SELECT %s, j, md5(j::text) FROM generate_series(1, 5000) j', i);
		PERFORM lsm_flush(format('ends_%s', i)::regclass);
		-- increments, which are read ahead, too
		EXECUTE format('UPDATE ends_%s SET t = md5(t) WHERE id %% 2 = 0', i);
		PERFORM lsm_flush(format('ends_%s', i)::regclass);
	END LOOP;
END $$;

-- windows of reading ahead, near the end of the last partition
CREATE VIEW ends_ahead AS SELECT count(*) AS windows, coalesce(sum(total_bytes), 0) AS bytes
	FROM pg_backend_memory_contexts WHERE name = 'lsm ahead';
\c -
SET max_parallel_workers_per_gather = 0;
BEGIN;
DECLARE batches CURSOR FOR SELECT id, t FROM ends;
MOVE 2000 FROM batches;
SELECT windows BETWEEN 1 AND 2 AS of_one FROM ends_ahead;
MOVE 57900 FROM batches;
SELECT windows <= 2 AS of_one FROM ends_ahead;
MOVE ALL FROM batches;
SELECT windows FROM ends_ahead;
COMMIT;

-- other memory: what is needed again is made again
BEGIN;
DECLARE batches CURSOR FOR SELECT id, t FROM ends WHERE id > 0 AND t > '' AND t <> 'x';
MOVE 100 FROM batches;
SELECT count(*) <= 2 AS of_one FROM pg_backend_memory_contexts WHERE name = 'lsm predicate test';
SELECT total_bytes - free_bytes AS bytes FROM pg_backend_memory_contexts WHERE name = 'ExecutorState' ORDER BY 1 DESC LIMIT 1 \gset one_
MOVE 59850 FROM batches;
SELECT count(*) <= 2 AS of_one FROM pg_backend_memory_contexts WHERE name = 'lsm predicate test';
SELECT total_bytes - free_bytes AS bytes FROM pg_backend_memory_contexts WHERE name = 'ExecutorState' ORDER BY 1 DESC LIMIT 1 \gset all_
SELECT (:all_bytes - :one_bytes) / 11 < 20000 AS little;
COMMIT;
SELECT count(*), sum(s) FROM generate_series(1, 3) n, LATERAL (SELECT sum(id + n) AS s FROM ends WHERE id > n AND t > '') x;

-- the same by row, there and back
TRUNCATE ends;
DO $$
BEGIN
	FOR i IN 1 .. 12 LOOP
		EXECUTE format('INSERT INTO ends SELECT %s, j, md5(j::text) FROM generate_series(1, 5000) j', i);
		PERFORM lsm_flush(format('ends_%s', i)::regclass);
	END LOOP;
END $$;
SET lsm.enable_lsmscan = off;
BEGIN;
DECLARE rows SCROLL CURSOR FOR SELECT part, id, t FROM ends;
MOVE 59900 FROM rows;
SELECT windows BETWEEN 1 AND 2 AS of_one FROM ends_ahead;
MOVE ALL FROM rows;
SELECT windows FROM ends_ahead;
FETCH BACKWARD 1 FROM rows;
MOVE BACKWARD ALL FROM rows;
FETCH 1 FROM rows;
FETCH ABSOLUTE 30001 FROM rows;
COMMIT;
RESET lsm.enable_lsmscan;

DROP VIEW ends_ahead;
DROP TABLE ends;
