--
-- Values that heap would move out of line or compress, and that fit a page here
--
CREATE TABLE lv (id int PRIMARY KEY, a text, b bytea, c jsonb, n int) USING lsm;
CREATE TABLE lv_heap (LIKE lv INCLUDING ALL) USING heap;
ALTER TABLE lv_heap ALTER a SET STORAGE external;

-- compressible and incompressible, from constants and from an out-of-line value
CREATE FUNCTION noise(seed int, bytes int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT left(string_agg(md5(seed::text || ':' || i::text), ''), bytes)
	   FROM generate_series(1, bytes / 32 + 1) i $$;
INSERT INTO lv_heap SELECT i,
	CASE i % 3 WHEN 0 THEN repeat('compressible ', i * 20) WHEN 1 THEN noise(i, i * 200) END,
	convert_to(noise(-i, i * 50), 'UTF8'),
	jsonb_build_object('i', i, 'pad', repeat('x', i * 10)), i
	FROM generate_series(1, 25) i;
INSERT INTO lv SELECT * FROM lv_heap;
INSERT INTO lv VALUES (26, repeat('a', 6000), NULL, NULL, 26), (27, noise(27, 6000), NULL, NULL, 27);
INSERT INTO lv_heap VALUES (26, repeat('a', 6000), NULL, NULL, 26), (27, noise(27, 6000), NULL, NULL, 27);
SELECT id, length(a), length(b), length(c::text), md5(a) FROM lv WHERE id IN (3, 24, 25, 26, 27) ORDER BY id;
TABLE lv EXCEPT TABLE lv_heap;
TABLE lv_heap EXCEPT TABLE lv;
-- the source's out-of-line values may go: what is stored here is whole
CREATE TEMP TABLE lv_copy AS SELECT * FROM lv_heap;
TRUNCATE lv_heap;
INSERT INTO lv_heap SELECT * FROM lv_copy;
TABLE lv EXCEPT TABLE lv_copy;

SELECT count(*) AS flush FROM lsm_flush('lv');
TABLE lv EXCEPT TABLE lv_heap;
TABLE lv_heap EXCEPT TABLE lv;

-- a small column of a row with large ones; then a large one
UPDATE lv SET n = n + 1;
UPDATE lv_heap SET n = n + 1;
TABLE lv EXCEPT TABLE lv_heap;
UPDATE lv SET a = a || 'tail', c = c || '{"j": 1}' WHERE id % 2 = 0;
UPDATE lv_heap SET a = a || 'tail', c = c || '{"j": 1}' WHERE id % 2 = 0;
TABLE lv EXCEPT TABLE lv_heap;
TABLE lv_heap EXCEPT TABLE lv;
SELECT count(*) AS flush FROM lsm_flush('lv');
TABLE lv EXCEPT TABLE lv_heap;
SELECT count(*) AS minor FROM lsm_minor_compact('lv');
TABLE lv EXCEPT TABLE lv_heap;
SELECT count(*) AS major FROM lsm_major_compact('lv');
TABLE lv EXCEPT TABLE lv_heap;
TABLE lv_heap EXCEPT TABLE lv;

-- from the same table, from a join, and through plpgsql's expanded arrays
INSERT INTO lv SELECT id + 100, a, b, c, n FROM lv WHERE id > 20;
INSERT INTO lv_heap SELECT id + 100, a, b, c, n FROM lv_heap WHERE id > 20;
UPDATE lv SET a = l2.a FROM lv l2 WHERE lv.id = l2.id + 100 AND l2.id % 2 = 1;
UPDATE lv_heap SET a = l2.a FROM lv_heap l2 WHERE lv_heap.id = l2.id + 100 AND l2.id % 2 = 1;
TABLE lv EXCEPT TABLE lv_heap;
TABLE lv_heap EXCEPT TABLE lv;
CREATE TABLE lv_array (id int, v int[]) USING lsm;
DO $$
DECLARE
	v int[] := '{}';
BEGIN
	FOR i IN 1 .. 500 LOOP
		v := v || i;
		IF i % 100 = 0 THEN
			INSERT INTO lv_array VALUES (i, v);
		END IF;
	END LOOP;
	v[1] := -1;
	UPDATE lv_array SET v = array_append(lv_array.v, 0) WHERE id = 300;
END $$;
SELECT id, array_length(v, 1), (SELECT sum(u) FROM unnest(v) u) FROM lv_array ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('lv_array');
SELECT id, array_length(v, 1), (SELECT sum(u) FROM unnest(v) u) FROM lv_array ORDER BY id;

-- many large rows: several blocks and pages
CREATE TABLE lv_many (id int, t text) USING lsm;
INSERT INTO lv_many SELECT i, noise(i, 100 + i % 5900) FROM generate_series(1, 60) i;
INSERT INTO lv_many SELECT i, noise(i, 5000) FROM generate_series(61, 120) i;
SELECT count(*), sum(length(t)), md5(string_agg(t, '' ORDER BY id)) FROM lv_many;
SELECT count(*) AS flush FROM lsm_flush('lv_many');
SELECT count(*), sum(length(t)), md5(string_agg(t, '' ORDER BY id)) FROM lv_many;
DELETE FROM lv_many WHERE id % 3 = 0;
SELECT count(*) AS major FROM lsm_major_compact('lv_many');
SELECT count(*), sum(length(t)), md5(string_agg(t, '' ORDER BY id)) FROM lv_many;

SELECT c AS problem FROM lsm_check('lv') c;
SELECT c AS problem FROM lsm_check('lv_array') c;
SELECT c AS problem FROM lsm_check('lv_many') c;
DROP TABLE lv_heap, lv_copy, lv_array;
DROP FUNCTION noise(int, int);
