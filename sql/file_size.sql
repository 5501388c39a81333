-- VACUUM gives back the pages of the row log, though segments lie behind them

-- pages of the file beside those that segments have, and a few for the metapage and the manifest
CREATE FUNCTION fs_surplus(t regclass) RETURNS numeric LANGUAGE sql AS $$
	SELECT pg_table_size(t) / 8192 - (SELECT sum(ceil(stored_bytes / 8144.0)) FROM lsm_segments(t))
$$;
CREATE FUNCTION fs_rows(from_id int, to_id int) RETURNS TABLE (id int, a text, b text) LANGUAGE sql AS $$
	SELECT i, md5(i::text), md5((-i)::text) || md5((2 * i)::text || 'a') || md5(i::text || 'b') || md5(i::text || 'c') ||
		md5(i::text || 'd') || md5(i::text || 'e') || md5(i::text || 'f') || md5(i::text || 'g')
	FROM generate_series(from_id, to_id) i
$$;

-- a load: the row log comes first in the file
CREATE TABLE fs (id int, a text, b text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE fs_heap (id int, a text, b text) USING heap;
INSERT INTO fs SELECT * FROM fs_rows(1, 80000);
INSERT INTO fs_heap SELECT * FROM fs_rows(1, 80000);
SELECT count(*) AS flush FROM lsm_flush('fs');
SELECT fs_surplus('fs') > 1500 AS before, sum(stored_bytes) > 1024 * 8192 AS large FROM lsm_segments('fs');
VACUUM (TRUNCATE off) fs;
SELECT fs_surplus('fs') > 1500 AS truncate_off;
VACUUM fs;
SELECT fs_surplus('fs') < 40 AS loaded;
SELECT lsm_check('fs');
SELECT * FROM fs EXCEPT SELECT * FROM fs_heap;
SELECT count(*), sum(id) FROM fs;

-- ordinary writes, flushed and compacted
UPDATE fs SET a = md5(a) WHERE id % 3 = 0;
UPDATE fs_heap SET a = md5(a) WHERE id % 3 = 0;
INSERT INTO fs SELECT * FROM fs_rows(80001, 81000);
INSERT INTO fs_heap SELECT * FROM fs_rows(80001, 81000);
DELETE FROM fs WHERE id % 10 = 0;
DELETE FROM fs_heap WHERE id % 10 = 0;
VACUUM fs;
SELECT fs_surplus('fs') < 40 AS written;
SELECT lsm_check('fs');
SELECT * FROM fs EXCEPT SELECT * FROM fs_heap;
SELECT count(*), sum(id) FROM fs;

-- several segments, in free pages that are not one behind the other
CREATE TABLE fs_many (id int, a text, b text) USING lsm WITH (autovacuum_enabled = off);
DO $$
BEGIN
	FOR i IN 0 .. 9 LOOP
		INSERT INTO fs_many SELECT * FROM fs_rows(i * 8000 + 1, i * 8000 + 8000);
		PERFORM lsm_flush('fs_many');
		UPDATE fs_many SET b = md5(b) WHERE id > i * 8000 + 7000;
		PERFORM lsm_flush('fs_many');
	END LOOP;
END $$;
VACUUM fs_many;
SELECT fs_surplus('fs_many') < 40 AS many;
SELECT lsm_check('fs_many');
SELECT count(*), sum(id), count(DISTINCT b) FROM fs_many;

-- what segments with large values leave is free while nobody else has pointers to it
CREATE TABLE fs_values (id int, v text) USING lsm WITH (autovacuum_enabled = off);
ALTER TABLE fs_values ALTER v SET STORAGE EXTERNAL;
INSERT INTO fs_values SELECT i, repeat(md5(i::text), 1000) FROM generate_series(1, 20) i;
INSERT INTO fs_values SELECT * FROM generate_series(21, 20000) i, md5(i::text);
VACUUM fs_values;
SELECT lsm_check('fs_values');
SELECT count(*), sum(length(v)) FROM fs_values;

-- a temporary and an unlogged table
CREATE TEMPORARY TABLE fs_temp (id int, a text, b text) USING lsm;
INSERT INTO fs_temp SELECT * FROM fs_rows(1, 80000);
VACUUM fs_temp;
SELECT fs_surplus('fs_temp') < 40 AS temporary, count(*), sum(id) FROM fs_temp;
CREATE UNLOGGED TABLE fs_unlogged (id int, a text, b text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO fs_unlogged SELECT * FROM fs_rows(1, 80000);
VACUUM fs_unlogged;
SELECT fs_surplus('fs_unlogged') < 40 AS unlogged, count(*), sum(id) FROM fs_unlogged;
SELECT lsm_check('fs_unlogged');

DROP TABLE fs, fs_heap, fs_many, fs_values, fs_temp, fs_unlogged;
DROP FUNCTION fs_surplus(regclass), fs_rows(int, int);
