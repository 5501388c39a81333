--
-- One row set through many generations: every kind of change meets every place
-- where its row may be (row log, increments, baseline)
--
-- thousands of plans, each of which a server with JIT would compile
SET jit = off;
CREATE TABLE ge (id int PRIMARY KEY, a int, b int, k int, t text) USING lsm;
CREATE INDEX ge_k ON ge (k);
CREATE TABLE ge_heap (id int PRIMARY KEY, a int, b int, k int, t text) USING heap;
CREATE INDEX ge_heap_k ON ge_heap (k);

-- Applies statement s to both tables; then flush, minor or major; then compares
-- the rows by a sequential scan, the key and the second index.
CREATE FUNCTION ge_step(s text, what text, OUT rows bigint, OUT diff bigint) LANGUAGE plpgsql AS $$
DECLARE
	way text;
	d bigint;
BEGIN
	EXECUTE replace(s, '@', 'ge');
	EXECUTE replace(s, '@', 'ge_heap');
	IF what = 'flush' THEN
		PERFORM lsm_flush('ge');
	ELSIF what = 'minor' THEN
		PERFORM lsm_minor_compact('ge');
	ELSIF what = 'major' THEN
		PERFORM lsm_major_compact('ge');
	END IF;
	SELECT count(*) INTO rows FROM ge;
	diff := 0;
	FOREACH way IN ARRAY array['enable_seqscan', 'enable_indexscan', 'enable_bitmapscan'] LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_bitmapscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
		PERFORM set_config(way, 'on', true);
		EXECUTE 'SELECT count(*) FROM ((SELECT * FROM ge WHERE id > -1000 EXCEPT ALL TABLE ge_heap)
			UNION ALL (TABLE ge_heap EXCEPT ALL SELECT * FROM ge WHERE id > -1000)) d' INTO d;
		diff := diff + d;
		EXECUTE 'SELECT count(*) FROM ((SELECT * FROM ge WHERE k > -1000 EXCEPT ALL SELECT * FROM ge_heap WHERE k > -1000)
			UNION ALL (SELECT * FROM ge_heap WHERE k > -1000 EXCEPT ALL SELECT * FROM ge WHERE k > -1000)) d' INTO d;
		diff := diff + d;
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'on', true),
		set_config('enable_bitmapscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
END $$;
CREATE TABLE ge_steps (n int GENERATED ALWAYS AS IDENTITY, s text) USING heap;
INSERT INTO ge_steps (s) VALUES
	('INSERT INTO @ SELECT i, i, i, i % 10, ''t'' || i FROM generate_series(1, 200) i'),
	('UPDATE @ SET a = a + 1 WHERE id % 3 = 0'),
	('UPDATE @ SET b = b + 1 WHERE id % 6 = 0'),
	('UPDATE @ SET k = k + 10 WHERE id % 5 = 0'),
	('DELETE FROM @ WHERE id % 11 = 0'),
	('INSERT INTO @ SELECT i * 11, 0, 0, NULL, NULL FROM generate_series(1, 9) i'),
	('UPDATE @ SET t = NULL, a = NULL WHERE id % 7 = 0'),
	('UPDATE @ SET id = id + 1000 WHERE id % 13 = 0'),
	('UPDATE @ SET id = id - 1000, a = -1 WHERE id > 1100'),
	('UPDATE @ SET t = repeat(coalesce(t, ''z''), 50) WHERE id % 9 = 0'),
	('UPDATE @ SET a = 1, b = 2, k = 3, t = ''all'' WHERE id % 17 = 0'),
	('DELETE FROM @ WHERE k = 3'),
	('INSERT INTO @ SELECT i * 17, 9, 9, 9, ''back'' FROM generate_series(1, 11) i WHERE i * 17 NOT IN (SELECT id FROM @)'),
	('UPDATE @ SET k = NULL WHERE k IN (1, 2)'),
	('UPDATE @ SET b = coalesce(b, 0) + id'),
	('UPDATE @ SET k = 5 WHERE k IS NULL AND id < 100'),
	('DELETE FROM @ WHERE id BETWEEN 60 AND 90'),
	('INSERT INTO @ SELECT i, i, i, i, ''r'' FROM generate_series(60, 90) i'),
	('DELETE FROM @ WHERE id > 190');

-- never flushed; flushed after every step; and compactions in between
SELECT n, r.* FROM ge_steps, ge_step(s, '') r ORDER BY n;
SELECT * FROM ge_step('DELETE FROM @', 'major');
SELECT n, r.* FROM ge_steps, ge_step(s, 'flush') r ORDER BY n;
SELECT * FROM ge_step('DELETE FROM @', 'major');
SELECT n, r.* FROM ge_steps, ge_step(s, CASE n % 3 WHEN 0 THEN 'minor' ELSE 'flush' END) r ORDER BY n;
SELECT * FROM ge_step('TRUNCATE @', '');
SELECT n, r.* FROM ge_steps, ge_step(s, CASE n % 4 WHEN 0 THEN 'major' WHEN 2 THEN 'minor' ELSE 'flush' END) r ORDER BY n;
SELECT c AS problem FROM lsm_check('ge') c;
-- the steps again over what is there, in one transaction each time
DELETE FROM ge;
DELETE FROM ge_heap;
VACUUM ge;
DO $$
DECLARE
	r record;
	g record;
BEGIN
	FOR r IN SELECT * FROM ge_steps ORDER BY n LOOP
		SELECT * INTO g FROM ge_step(r.s, (array['flush', 'minor', 'major'])[1 + r.n % 3]);
		IF g.diff <> 0 THEN
			RAISE NOTICE 'step % differs', r.n;
		END IF;
		IF r.n % 2 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
SELECT * FROM ge_step('UPDATE @ SET a = 0', 'major');
SELECT count(*), sum(id), sum(b), count(k), count(t) FROM ge;

SELECT c AS problem FROM lsm_check('ge') c;
DROP FUNCTION ge_step(text, text);
DROP TABLE ge_heap, ge_steps;
