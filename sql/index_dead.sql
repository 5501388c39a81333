--
-- Index entries of rows that are gone for everybody: marked by scans, and
-- removed by btree to make room, without VACUUM
--
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
CREATE TABLE dead (key int, data text) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX dead_key ON dead (key);
INSERT INTO dead VALUES (-1, 'the first page');
SELECT pg_relation_size('dead_key') AS size \gset

-- rows that are rolled back in a loop of subtransactions
DO $$
BEGIN
	FOR i IN 1..100 LOOP
		BEGIN
			IF EXISTS (SELECT * FROM dead WHERE key > 0 AND key < 100) THEN
				RAISE 'these rows should not exist';
			END IF;
			INSERT INTO dead SELECT g, 'rolled back' FROM generate_series(1, 100) g;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			IF i % 30 = 0 THEN
				PERFORM lsm_flush('dead');
			END IF;
		END;
	END LOOP;
END $$;
SELECT pg_relation_size('dead_key') = :size AS same_size;

-- rows deleted and rows that have moved, once nobody can see them
CREATE PROCEDURE dead_loop(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		INSERT INTO dead SELECT g, 'deleted' FROM generate_series(1, 100) g;
		COMMIT;
		UPDATE dead SET key = key + 1000 WHERE key > 0 AND key <= 100;
		COMMIT;
		DELETE FROM dead WHERE key > 1000;
		COMMIT;
		IF i % 10 = 0 THEN
			PERFORM lsm_flush('dead');
		END IF;
		IF i % 20 = 0 THEN
			PERFORM lsm_major_compact('dead');
		END IF;
		PERFORM * FROM dead WHERE key > 0;
	END LOOP;
END $$;
CALL dead_loop(3);
SELECT pg_relation_size('dead_key') AS size \gset
CALL dead_loop(60);
SELECT pg_relation_size('dead_key') <= :size + 3 * 8192 AS hardly_grown;
SELECT * FROM dead WHERE key > -5;

-- an old snapshot keeps entries in use
INSERT INTO dead SELECT g, 'kept' FROM generate_series(1, 50) g;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT count(*) FROM dead WHERE key > 0;
DELETE FROM dead WHERE key <= 25;
SELECT count(*) FROM dead WHERE key > 0;
SELECT count(*) AS flush FROM lsm_flush('dead');
SELECT count(*) FROM dead WHERE key > 0;
FETCH ALL FROM c;
ROLLBACK;
SELECT count(*) FROM dead WHERE key > 0;

-- unique checks meet dead entries
CREATE TABLE dead_u (id int PRIMARY KEY, other int UNIQUE, v int) USING lsm WITH (autovacuum_enabled = off);
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		BEGIN
			INSERT INTO dead_u VALUES (1, 1, 1);
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP;
END $$;
INSERT INTO dead_u VALUES (1, 1, 1);
INSERT INTO dead_u VALUES (1, 2, 1);

-- bottom-up deletion: updates of one indexed column leave entries in the others
CREATE INDEX dead_v ON dead_u (v);
INSERT INTO dead_u SELECT i, i, i FROM generate_series(2, 300) i;
CREATE PROCEDURE dead_move(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		UPDATE dead_u SET other = other + 1000;
		COMMIT;
	END LOOP;
END $$;
CALL dead_move(5);
SELECT pg_relation_size('dead_v') AS size \gset
CALL dead_move(60);
SELECT pg_relation_size('dead_v') < 3 * :size AS bounded;
SELECT count(*), min(other), max(other) FROM dead_u WHERE id > 0;
SELECT c AS problem FROM lsm_check('dead_u') c;
VACUUM dead_u;
SELECT c AS problem FROM lsm_check('dead_u') c;
VACUUM dead;
SELECT c AS problem FROM lsm_check('dead') c;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_indexonlyscan;
DROP PROCEDURE dead_loop(int), dead_move(int);
DROP TABLE dead, dead_u;
