--
-- The ring of version TIDs comes round
--
SET lsm.debug_ring_lbs = 64;
CREATE TABLE ri (id int PRIMARY KEY, v int, t text) USING lsm;
INSERT INTO ri SELECT i, 0, repeat('t', 100) FROM generate_series(1, 500) i;
RESET lsm.debug_ring_lbs;
CREATE TABLE ri_heap (id int PRIMARY KEY, v int, t text) USING heap;
INSERT INTO ri_heap SELECT * FROM ri;
-- each round leaves several sectors behind; flush and compaction settle them
CREATE PROCEDURE ri_rounds(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first .. last LOOP
		UPDATE ri SET v = v + 1;
		UPDATE ri_heap SET v = v + 1;
		COMMIT;
		IF i % 3 = 0 THEN
			UPDATE ri SET t = repeat(chr(97 + i % 26), 100) WHERE id % 5 = 0;
			UPDATE ri_heap SET t = repeat(chr(97 + i % 26), 100) WHERE id % 5 = 0;
			COMMIT;
		END IF;
		PERFORM lsm_flush('ri');
		COMMIT;
		PERFORM lsm_major_compact('ri');
		COMMIT;
	END LOOP;
END $$;
CALL ri_rounds(1, 60);
SELECT * FROM ri EXCEPT TABLE ri_heap;
SELECT count(*), min(v), max(v) FROM ri;
SELECT c AS problem FROM lsm_check('ri') c;
-- where versions may still be named it does not: an error, and nothing is lost
BEGIN;
SELECT count(*) FROM ri WHERE ctid IS NOT NULL;
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		UPDATE ri SET v = v + 1;
		PERFORM lsm_flush('ri');
		PERFORM lsm_major_compact('ri');
	END LOOP;
END $$;
ROLLBACK;
SELECT * FROM ri EXCEPT TABLE ri_heap;
-- once they are settled it goes on
VACUUM ri;
CALL ri_rounds(61, 90);
SELECT * FROM ri EXCEPT TABLE ri_heap;
SELECT count(*), min(v), max(v) FROM ri;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri, ri_heap;
DROP PROCEDURE ri_rounds(int, int);
