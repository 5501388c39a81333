--
-- zstd dictionaries of segments: the option, sizes, all ways to read, and blocks
-- that compaction copies
--
SET lsm.segment_size = '1MB';
-- words at random, of other ones from row 30001 on; the same on every machine
CREATE FUNCTION dict_word(i int, k int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(md5(((hashint4(i * 8 + k) & 511) * (hashint4(k - i * 8) & 511) / 512 + CASE WHEN i > 30000 THEN 1000 ELSE 0 END)::text), 1, 22) $$;
CREATE TABLE dict_heap USING heap AS
	SELECT i AS id, i % 100 AS n, dict_word(i, 1) || ' ' || dict_word(i, 2) || ' ' || dict_word(i, 3) AS line, i % 7 AS extra,
		CASE WHEN i % 3 > 0 THEN dict_word(i, 4) || '/' || dict_word(i, 5) END AS sometimes
	FROM generate_series(1, 60000) i;
CREATE INDEX dict_heap_id ON dict_heap (id);
CREATE FUNCTION dict_bytes(regclass) RETURNS numeric LANGUAGE sql AS
	$$ SELECT sum(stored_bytes) FROM lsm_segments($1) $$;
-- does it have the rows of heap?
CREATE FUNCTION dict_same(regclass) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE same bool;
BEGIN
	EXECUTE format('SELECT (SELECT row(count(*), sum(hashtextextended(x::text, 0))) FROM %s x) = (SELECT row(count(*), sum(hashtextextended(x::text, 0))) FROM dict_heap x)', $1) INTO same;
	RETURN same;
END $$;

-- what a flush writes is smaller with the option
CREATE TABLE dict_off (LIKE dict_heap) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE dict_on (LIKE dict_heap) USING lsm WITH (autovacuum_enabled = off, lsm.dictionary);
INSERT INTO dict_off TABLE dict_heap;
INSERT INTO dict_on TABLE dict_heap;
SELECT count(*) FROM lsm_flush('dict_off');
SELECT count(*) FROM lsm_flush('dict_on');
SELECT dict_bytes('dict_on') < 0.9 * dict_bytes('dict_off') AS smaller;
SELECT dict_same('dict_on');
-- a table whose text is too little, or no text, has the same bytes with it and without
CREATE TABLE dict_small_off USING lsm AS SELECT * FROM dict_heap WHERE id < 2000;
CREATE TABLE dict_small_on USING lsm WITH (lsm.dictionary = on) AS SELECT * FROM dict_heap WHERE id < 2000;
CREATE TABLE dict_noise_off USING lsm AS SELECT id, md5(id::text) AS noise FROM dict_heap;
CREATE TABLE dict_noise_on USING lsm WITH (lsm.dictionary = on) AS SELECT id, md5(id::text) AS noise FROM dict_heap;
CREATE TABLE dict_plain_off USING lsm WITH (lsm.compression = none) AS TABLE dict_heap;
CREATE TABLE dict_plain_on USING lsm WITH (lsm.compression = none, lsm.dictionary = on) AS TABLE dict_heap;
DO $$ BEGIN
	FOR i IN 0..5 LOOP
		PERFORM lsm_flush((ARRAY['dict_small_off', 'dict_small_on', 'dict_noise_off', 'dict_noise_on', 'dict_plain_off', 'dict_plain_on'])[i + 1]::regclass);
	END LOOP;
END $$;
SELECT dict_bytes('dict_small_on') = dict_bytes('dict_small_off') AS same_small,
	dict_bytes('dict_noise_on') = dict_bytes('dict_noise_off') AS same_noise,
	dict_bytes('dict_plain_on') = dict_bytes('dict_plain_off') AS same_plain;
DROP TABLE dict_small_off, dict_small_on, dict_noise_off, dict_noise_on, dict_plain_off, dict_plain_on;

-- a rewrite obeys the option of the moment: off, on, and with other levels
ALTER TABLE dict_on RESET (lsm.dictionary);
VACUUM FULL dict_on;
VACUUM FULL dict_off;
SELECT dict_bytes('dict_on') = dict_bytes('dict_off') AS same;
ALTER TABLE dict_on SET (lsm.dictionary = true, lsm.compression_level = -5);
VACUUM FULL dict_on;
SELECT dict_same('dict_on');
ALTER TABLE dict_on SET (lsm.compression_level = 9);
VACUUM FULL dict_on;
SELECT dict_same('dict_on');
ALTER TABLE dict_on RESET (lsm.compression_level);
VACUUM FULL dict_on;
SELECT dict_bytes('dict_on') < dict_bytes('dict_off') AS smaller, count(*) > 1 AS segments FROM lsm_segments('dict_on');
SELECT c AS problem FROM lsm_check('dict_on') c;

-- all ways to read it
CREATE INDEX dict_on_id ON dict_on (id);
CREATE INDEX dict_on_line ON dict_on (line COLLATE "C");
ANALYZE dict_on;
SELECT count(*), md5(string_agg(line || coalesce(sometimes, '-'), '' ORDER BY id)) AS rows FROM dict_heap \gset heap_
SELECT count(*) = :heap_count AND md5(string_agg(line || coalesce(sometimes, '-'), '' ORDER BY id)) = :'heap_rows' AS lsmscan FROM dict_on;
SET lsm.enable_lsmscan = off;
SELECT count(*) = :heap_count AND md5(string_agg(line || coalesce(sometimes, '-'), '' ORDER BY id)) = :'heap_rows' AS seqscan FROM dict_on;
RESET lsm.enable_lsmscan;
SET enable_seqscan = off;
SET lsm.enable_lsmscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
SELECT count(*) = :heap_count AND md5(string_agg(line || coalesce(sometimes, '-'), '' ORDER BY id)) = :'heap_rows' AS indexscan
	FROM (SELECT * FROM dict_on WHERE id > 0 ORDER BY id) x;
RESET enable_sort;
RESET enable_bitmapscan;
SET enable_indexscan = off;
SELECT (SELECT count(*) FROM dict_on WHERE id BETWEEN 29000 AND 31000 AND line LIKE '%a%') =
	(SELECT count(*) FROM dict_heap WHERE id BETWEEN 29000 AND 31000 AND line LIKE '%a%') AS bitmapscan;
RESET enable_indexscan;
RESET enable_seqscan;
RESET lsm.enable_lsmscan;
SELECT bool_and(h.line = d.line AND h.sometimes IS NOT DISTINCT FROM d.sometimes) AS by_key, count(*)
	FROM dict_heap h JOIN dict_on d USING (id) WHERE h.id % 997 = 0;
SELECT count(*), bool_and(h.line = d.line) AS sample FROM dict_on d TABLESAMPLE BERNOULLI (100) JOIN dict_heap h USING (id) WHERE h.n = 17;
SELECT (SELECT row(count(line), count(sometimes), min(line COLLATE "C"), max(sometimes COLLATE "C")) FROM dict_on) =
	(SELECT row(count(line), count(sometimes), min(line COLLATE "C"), max(sometimes COLLATE "C")) FROM dict_heap) AS aggregates;
SELECT (SELECT array_agg(id ORDER BY id) FROM dict_on WHERE line LIKE 'c4ca%' OR line = (SELECT line FROM dict_heap WHERE id = 4711)) =
	(SELECT array_agg(id ORDER BY id) FROM dict_heap WHERE line LIKE 'c4ca%' OR line = (SELECT line FROM dict_heap WHERE id = 4711)) AS filters;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, md5(line) FROM dict_on;
FETCH ABSOLUTE 50000 FROM c;
FETCH RELATIVE -49000 FROM c;
SELECT id, md5(line) FROM dict_heap WHERE id IN (1000, 50000) ORDER BY id DESC;
SELECT d.id, d.line = h.line AS same FROM dict_on d JOIN dict_heap h USING (id)
	WHERE d.ctid = (SELECT ctid FROM dict_on WHERE id = 57777);
COMMIT;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT count(*) = :heap_count AS parallel, sum(hashtext(line)::bigint) = (SELECT sum(hashtext(line)::bigint) FROM dict_heap) AS lines FROM dict_on;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

-- changes, and compactions that copy what they do not touch, of two segments with
-- dictionaries of their own
ALTER TABLE dict_on SET (lsm.compression_level = -5);
VACUUM FULL dict_on;
ALTER TABLE dict_on RESET (lsm.compression_level);
SELECT count(*) AS segments FROM lsm_segments('dict_on');
UPDATE dict_on SET n = n + 1 WHERE id IN (100, 15000, 45000);
UPDATE dict_heap SET n = n + 1 WHERE id IN (100, 15000, 45000);
SELECT count(*) FROM lsm_flush('dict_on');
UPDATE dict_on SET line = upper(line) WHERE id % 20000 = 5;
UPDATE dict_heap SET line = upper(line) WHERE id % 20000 = 5;
DELETE FROM dict_on WHERE id BETWEEN 55000 AND 58000 AND n < 90;
DELETE FROM dict_heap WHERE id BETWEEN 55000 AND 58000 AND n < 90;
SELECT count(*) FROM lsm_flush('dict_on');
SELECT segments_in, segments_out FROM lsm_minor_compact('dict_on');
SELECT dict_same('dict_on');
SELECT c AS problem FROM lsm_check('dict_on') c;
-- segments that are large enough stay apart for their dictionaries
SELECT segments_in, segments_out FROM lsm_major_compact('dict_on');
SELECT dict_same('dict_on');
SELECT c AS problem FROM lsm_check('dict_on') c;
-- those of small ones become one: of the second the blocks are written anew
UPDATE dict_on SET n = n + 1 WHERE id IN (200, 15000, 45000);
UPDATE dict_heap SET n = n + 1 WHERE id IN (200, 15000, 45000);
SELECT count(*) FROM lsm_flush('dict_on');
RESET lsm.segment_size;
SELECT segments_in, segments_out FROM lsm_major_compact('dict_on');
SELECT dict_same('dict_on');
SELECT c AS problem FROM lsm_check('dict_on') c;
SET lsm.segment_size = '1MB';

-- with the option off, blocks that need dictionaries are not copied
VACUUM FULL dict_on;
UPDATE dict_heap SET n = 0 WHERE id IN (5, 59999);
UPDATE dict_on SET n = 0 WHERE id IN (5, 59999);
ALTER TABLE dict_on SET (lsm.dictionary = off);
SELECT dict_bytes('dict_on') AS before \gset
SELECT count(*) FROM lsm_flush('dict_on');
SELECT count(*) FROM lsm_major_compact('dict_on');
SELECT dict_bytes('dict_on') > :before AS larger;
SELECT dict_same('dict_on');
SELECT c AS problem FROM lsm_check('dict_on') c;

-- blocks without them are copied into segments with them, and followed by others
ALTER TABLE dict_on SET (lsm.dictionary = on);
UPDATE dict_on SET line = line || ' and more' WHERE id % 10 = 0 AND id > 30000;
UPDATE dict_heap SET line = line || ' and more' WHERE id % 10 = 0 AND id > 30000;
SELECT count(*) FROM lsm_flush('dict_on');
SELECT count(*) FROM lsm_major_compact('dict_on');
SELECT dict_same('dict_on');
SELECT c AS problem FROM lsm_check('dict_on') c;

-- columns that come and go
VACUUM FULL dict_on;
ALTER TABLE dict_on DROP COLUMN extra, ADD COLUMN late text;
ALTER TABLE dict_heap DROP COLUMN extra, ADD COLUMN late text;
UPDATE dict_on SET late = reverse(line) WHERE id % 2 = 0;
UPDATE dict_heap SET late = reverse(line) WHERE id % 2 = 0;
SELECT count(*) FROM lsm_flush('dict_on');
SELECT count(*) FROM lsm_major_compact('dict_on');
SELECT dict_same('dict_on');

-- more segments than may be open at a time: dictionaries are loaded again
SET lsm.debug_reader_memory = '1kB';
SELECT dict_same('dict_on');
RESET lsm.debug_reader_memory;
-- more columns than may have one
CREATE TABLE dict_wide USING lsm WITH (lsm.dictionary) AS
	SELECT id, line AS a, line || ' ' AS b, line || '!' AS c, line || '?' AS d, line || ';' AS e, line || ',' AS f,
		line || ':' AS g, line || '.' AS h, line || '-' AS i, line || '/' AS j FROM dict_heap WHERE id <= 12000;
SELECT count(*) FROM lsm_flush('dict_wide');
SELECT count(*), bool_and(a || ' ' = b AND a || '!' = c AND a || '?' = d AND a || ';' = e AND a || ',' = f AND a || ':' = g AND
	a || '.' = h AND a || '-' = i AND a || '/' = j) AS right FROM dict_wide;
SELECT c AS problem FROM lsm_check('dict_wide') c;
DROP TABLE dict_heap, dict_off, dict_on, dict_wide;
DROP FUNCTION dict_word, dict_bytes, dict_same;
RESET lsm.segment_size;
