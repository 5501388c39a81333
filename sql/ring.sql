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
SELECT pg_current_xact_id() IS NOT NULL AS later;
VACUUM ri;
CALL ri_rounds(61, 90);
SELECT * FROM ri EXCEPT TABLE ri_heap;
SELECT count(*), min(v), max(v) FROM ri;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri, ri_heap;
DROP PROCEDURE ri_rounds(int, int);

-- Increments that are hardly worth a compaction.  Each flush takes some version LBs, and leaves one.
CREATE FUNCTION lsm_test_job(regclass, kind text, gen_lo int, gen_hi int, first_lb int8, last_lb int8)
	RETURNS int8 LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_chosen(regclass) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION ri_make() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL lsm.debug_ring_lbs = 64;
	CREATE TABLE ri (id int PRIMARY KEY, v int, t text) USING lsm WITH (autovacuum_enabled = off);
	INSERT INTO ri SELECT i, 0, repeat('t', 500) FROM generate_series(1, 3000) i;
	CREATE TABLE ri_heap (id int PRIMARY KEY, v int, t text) USING heap;
	INSERT INTO ri_heap SELECT * FROM ri;
END $$;
-- at: the version LB of the first row, from 0 to 63
CREATE PROCEDURE ri_change(ids int[], INOUT at int) LANGUAGE plpgsql AS $$
BEGIN
	WITH changed AS (UPDATE ri SET v = v + 1 WHERE id = ANY (ids) RETURNING ctid)
		SELECT min((ctid::text::point)[0]::int8 - 3758096384) INTO at FROM changed;
	UPDATE ri_heap SET v = v + 1 WHERE id = ANY (ids);
	COMMIT;
	PERFORM lsm_flush('ri');
	COMMIT;
END $$;
-- go on until a change is in a sector of the ring; rows of the first blocks are changed, and compacted
CREATE PROCEDURE ri_go_to(sector int, INOUT at int DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		CALL ri_change(ARRAY[1], at);
		PERFORM lsm_test_job('ri', 'major', 0, 1000000, 0, 50);
		COMMIT;
		EXIT WHEN at / 4 = sector;
	END LOOP;
END $$;

-- one that was merged over the end of the ring has the last sector and the first two: not all
SELECT ri_make();
CALL ri_go_to(13);
CALL ri_go_to(14);
CALL ri_change('{2001}', NULL);
CALL ri_go_to(0);
CALL ri_change('{2002}', NULL);
SELECT lsm_test_job('ri', 'minor', 0, 1000000, 60, 1000000);
SELECT c AS problem FROM lsm_check('ri') c;
CALL ri_go_to(11);
SELECT count(*) AS increments FROM lsm_segments('ri') WHERE kind = 'increment';
-- then the ring comes to its oldest version, after warnings
CALL ri_go_to(15);
SELECT * FROM ri EXCEPT TABLE ri_heap;
SELECT c AS problem FROM lsm_check('ri') c;
-- until it is compacted
VACUUM ri;
CALL ri_go_to(15);
CALL ri_go_to(3);
SELECT * FROM ri EXCEPT TABLE ri_heap;
-- VACUUM can do nothing against who may still name versions, and says so
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS pinned;
PREPARE TRANSACTION 'ri';
CALL ri_go_to(0);
CALL ri_go_to(15);
VACUUM ri;
SELECT version_ids_used > 0.99 AS nearly_all FROM lsm_stat_tables WHERE relname = 'ri';
COMMIT PREPARED 'ri';
VACUUM ri;
SELECT version_ids_used < 0.5 AS few FROM lsm_stat_tables WHERE relname = 'ri';
CALL ri_go_to(15);
SELECT * FROM ri EXCEPT TABLE ri_heap;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri, ri_heap;

-- what is chosen keeps the ring free: some rows are changed once, the others go round it five times
SELECT ri_make();
CREATE TABLE ri_done (why text);
CREATE PROCEDURE ri_live(n int) LANGUAGE plpgsql AS $$
DECLARE
	at int;
	done text;
BEGIN
	FOR i IN 1 .. n LOOP
		CALL ri_change(ARRAY[i % 100 + 1], at);
		LOOP
			done := lsm_test_chosen('ri');
			COMMIT;
			EXIT WHEN done IS NULL;
			INSERT INTO ri_done VALUES (done);
			COMMIT;
		END LOOP;
	END LOOP;
END $$;
CALL ri_change('{2001,2002,2003}', NULL);
CALL ri_live(80);
SELECT DISTINCT why FROM ri_done ORDER BY why;
SELECT count(*) FILTER (WHERE why LIKE '%version identifiers%') BETWEEN 2 AND 20 AS few FROM ri_done;
SELECT * FROM ri EXCEPT TABLE ri_heap;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri, ri_heap, ri_done;
DROP PROCEDURE ri_change(int[], int), ri_go_to(int, int), ri_live(int);
DROP FUNCTION ri_make(), lsm_test_chosen(regclass), lsm_test_job(regclass, text, int, int, int8, int8);
