--
-- Row identifiers: logical blocks of rows that have gone are used again
--
CREATE TABLE ri (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX ri_v ON ri (v);
CREATE FUNCTION fill(lo int, hi int) RETURNS void LANGUAGE sql AS
	$$ INSERT INTO ri SELECT i, md5(i::text) || repeat('x', 500) FROM generate_series(lo, hi) i $$;
CREATE FUNCTION lbs() RETURNS bigint LANGUAGE sql AS $$ SELECT pg_relation_size('ri') / 8192 $$;
-- rows that stay, at either end
SELECT fill(1, 10);
SELECT count(*) AS flush FROM lsm_flush('ri');
SELECT fill(11, 5000);
SELECT count(*) AS flush FROM lsm_flush('ri');
SELECT fill(5001, 5010);
SELECT lbs() AS before \gset
DELETE FROM ri WHERE id BETWEEN 11 AND 5000;
VACUUM ri;
SELECT c AS problem FROM lsm_check('ri') c;
-- an older snapshot would keep them; here there is none, and all fit
SELECT fill(10011, 14000);
SELECT lbs() - :before < 10 AS again;
SELECT count(*) > 3900 AS below FROM ri WHERE id > 10000 AND ctid < (SELECT max(ctid) FROM ri WHERE id <= 5010);
SELECT count(*), min(id), max(id), count(DISTINCT v) FROM ri;
SET enable_seqscan = off;
SELECT count(*) AS gone FROM generate_series(11, 5000, 100) i JOIN ri ON ri.id = i;
SELECT count(*) AS found FROM generate_series(10011, 14000) i JOIN ri ON ri.v = md5(i::text) || repeat('x', 500);
RESET enable_seqscan;
SELECT c AS problem FROM lsm_check('ri') c;
SELECT count(*) AS flush FROM lsm_flush('ri');
UPDATE ri SET v = 'new' || id WHERE id % 3 = 0;
SELECT count(*) AS flush FROM lsm_flush('ri');
SELECT count(*) AS major FROM lsm_major_compact('ri');
SELECT c AS problem FROM lsm_check('ri') c;
VACUUM ri;
SELECT c AS problem FROM lsm_check('ri') c;

-- a queue: the same ones round and round, with changes, rollbacks and the map's bits in between
CREATE FUNCTION round(lo int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fill(lo, lo + 1499);
	UPDATE ri SET v = v || '!' WHERE id >= lo AND id % 7 = 0;
	BEGIN
		PERFORM fill(lo + 1500, lo + 1700);
		UPDATE ri SET v = 'never' WHERE id BETWEEN lo + 1400 AND lo + 1600;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
	END;
	DELETE FROM ri WHERE id BETWEEN 11 AND lo - 100;
END $$;
DELETE FROM ri WHERE id BETWEEN 11 AND 15000;
VACUUM ri;
SELECT lbs() AS before \gset
SELECT round(20000);
VACUUM ri;
SELECT round(21500);
SELECT count(*) AS flush FROM lsm_flush('ri');
VACUUM ri;
SELECT round(23000);
VACUUM ri;
SELECT round(24500);
SELECT count(*) AS flush FROM lsm_flush('ri');
VACUUM ri;
SELECT round(26000);
VACUUM ri;
SELECT round(27500);
VACUUM ri;
SELECT lbs() - :before < 100 AS constant;
SELECT count(*), min(id), max(id), count(*) FILTER (WHERE v LIKE '%!') AS changed FROM ri WHERE id > 10;
SELECT c AS problem FROM lsm_check('ri') c;

-- an increment, or a snapshot, over the place: not used again
SELECT fill(40000, 44000);
SELECT count(*) AS flush FROM lsm_flush('ri');
DELETE FROM ri WHERE id > 10 AND id < 43990;
SELECT count(*) AS flush FROM lsm_flush('ri');
VACUUM (INDEX_CLEANUP off) ri;
SELECT lbs() AS before \gset
SELECT fill(50000, 51000);
SELECT lbs() > :before AS new_ones;
SELECT c AS problem FROM lsm_check('ri') c;
VACUUM ri;
SELECT lbs() AS before \gset
SELECT fill(60000, 61000);
SELECT lbs() - :before < 10 AS again;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri;

-- a warning comes when a quarter is left
SET lsm.debug_first_lb = -950000000;
CREATE TABLE ri (id int) USING lsm;
INSERT INTO ri VALUES (1);
VACUUM ri;
DROP TABLE ri;
SET lsm.debug_first_lb = -930000000;
CREATE TABLE ri (id int) USING lsm;
INSERT INTO ri VALUES (1);
VACUUM ri;
DROP TABLE ri;

-- few are left
SET lsm.debug_first_lb = -100000000;
CREATE TABLE ri (id int) USING lsm;
INSERT INTO ri VALUES (1);
VACUUM ri;
SELECT round(row_ids_used::numeric, 2) AS used FROM lsm_stat_tables WHERE relname = 'ri';
-- so does one flush in 16, for tables that VACUUM does not come to
DO $$
BEGIN
	FOR i IN 1 .. 16 LOOP
		INSERT INTO ri VALUES (i);
		PERFORM lsm_flush('ri');
	END LOOP;
END $$;
DROP TABLE ri;
-- none
SET lsm.debug_first_lb = -3;
CREATE TABLE ri (id int, v text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ri SELECT i, repeat('x', 500) FROM generate_series(1, 10) i;
INSERT INTO ri SELECT i, repeat('x', 500) FROM generate_series(11, 100) i;
SELECT count(*) FROM ri;
VACUUM FULL ri;
INSERT INTO ri SELECT i, repeat('x', 500) FROM generate_series(11, 100) i;
SELECT count(*) FROM ri;
RESET lsm.debug_first_lb;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri;

-- half of them are free, in many runs: the longest ones are used again, though they are less
CREATE FUNCTION used() RETURNS bigint LANGUAGE sql AS
	$$ SELECT round(row_ids_used * 3758096384)::bigint FROM lsm_stat_tables WHERE relname = 'ri' $$;
SET lsm.debug_load_after = -1;
CREATE TABLE ri (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
SELECT fill(1, 8000);
SELECT count(*) AS flush FROM lsm_flush('ri');
DELETE FROM ri WHERE id % 200 <> 0;
SELECT used() AS before \gset
VACUUM ri;
SELECT :before - used() > 150 AS noted, :before - used() < :before / 2 AS not_half;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri;
-- less than half: not while there are many
CREATE TABLE ri (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
SELECT fill(1, 8000);
SELECT count(*) AS flush FROM lsm_flush('ri');
DELETE FROM ri WHERE id <= 3000;
SELECT used() AS before \gset
VACUUM ri;
SELECT :before - used() AS noted;
DROP TABLE ri;
-- when few are left they are, and inserts go on
SET lsm.debug_first_lb = -800;
CREATE TABLE ri (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
SELECT fill(1, 8000);
SELECT count(*) AS flush FROM lsm_flush('ri');
DELETE FROM ri WHERE id <= 3000;
SELECT used() AS before \gset
VACUUM ri;
SELECT :before - used() > 150 AS noted;
SELECT fill(10001, 14000);
SELECT c AS problem FROM lsm_check('ri') c;
SELECT fill(14001, 18000);
SELECT count(*), min(id), max(id) FROM ri;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri;
-- all are used up but for runs that are shorter than a range would be, and for such as are not
-- noted: these are found when they are needed
CREATE TABLE ri (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
SELECT fill(1, 8000);
SELECT count(*) AS flush FROM lsm_flush('ri');
DELETE FROM ri WHERE id % 200 <> 0;
VACUUM ri;
SELECT 3758096384 - used() AS left \gset
SELECT :left < 450 AS not_enough;
SELECT fill(10001, 17000);
SELECT count(*), min(id), max(id) FROM ri;
SELECT c AS problem FROM lsm_check('ri') c;
SET enable_seqscan = off;
SELECT count(*) AS found FROM generate_series(10001, 17000, 7) i JOIN ri ON ri.id = i WHERE v LIKE md5(i::text) || '%';
SELECT count(*) AS gone FROM generate_series(1, 8000, 7) i JOIN ri ON ri.id = i WHERE i % 200 <> 0;
RESET enable_seqscan;
SELECT fill(20001, 28000);
SELECT c AS problem FROM lsm_check('ri') c;
SELECT count(*) AS flush FROM lsm_flush('ri');
SELECT c AS problem FROM lsm_check('ri') c;
-- and VACUUM helps
DELETE FROM ri WHERE id > 10000;
VACUUM ri;
SELECT fill(20001, 22000);
SELECT count(*), min(id), max(id) FROM ri;
SELECT count(*) AS flush FROM lsm_flush('ri');
UPDATE ri SET id = id + 100000 WHERE id > 20000 AND id % 2 = 0;
SELECT count(*), min(id), max(id) FROM ri;
SELECT c AS problem FROM lsm_check('ri') c;
DROP TABLE ri;
-- so does a load, of several pages to one
SET lsm.debug_first_lb = -40;
SET lsm.debug_load_after = 0;
CREATE TABLE ri (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
SELECT fill(1, 8000);
SELECT count(*) AS flush FROM lsm_flush('ri');
DELETE FROM ri WHERE id <= 4000;
VACUUM ri;
SELECT 3758096384 - used() > 15 AS enough;
SELECT fill(10001, 14500);
SELECT count(*), min(id), max(id) FROM ri;
SELECT fill(20001, 24000);
SELECT count(*), min(id), max(id) FROM ri;
SELECT c AS problem FROM lsm_check('ri') c;
RESET lsm.debug_first_lb;
RESET lsm.debug_load_after;
DROP TABLE ri;
DROP FUNCTION fill(int, int), lbs(), round(int), used();
