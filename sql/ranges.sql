--
-- How a table is divided among the processes of a parallel scan.  The functions used
-- here are in the library for this test only; what the words mean is told in
-- lsm_test_ranges.c.
--
CREATE FUNCTION lsm_test_ranges(text) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_ranges_random(seed int, rounds int) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_table_ranges(regclass, OUT lb bigint, OUT bytes bigint) RETURNS SETOF record LANGUAGE C STRICT AS '$libdir/lsm';

-- nothing to read: one range with all roots
SELECT lsm_test_ranges('request=100');
-- a unit is not divided
SELECT lsm_test_ranges('request=100 65536:1000000b');
-- a small table: a sixty-fourth of it, or the units that there are
SELECT lsm_test_ranges('request=1000 1000+1000*8:100b');
SELECT count(*), min(split_part(r, ':', 2)::int), max(split_part(r, ':', 2)::int)
	FROM regexp_split_to_table(lsm_test_ranges('request=1000 1000+10*1280:1b'), ' ') r;
-- then some requests
SELECT count(*), min(split_part(r, ':', 2)::int), max(split_part(r, ':', 2)::int)
	FROM regexp_split_to_table(lsm_test_ranges('request=10 1000+10*5000:1b'), ' ') r;
-- a large one
SELECT count(*), min(split_part(r, ':', 2)::int), max(split_part(r, ':', 2)::int)
	FROM regexp_split_to_table(lsm_test_ranges('request=1 1000+10*5120:1b'), ' ') r;
-- anchors come in any order; of those of one root the bytes are added; invalid ones are left out
SELECT lsm_test_ranges('request=1 3000:7b 1000:5b 2000:5b 1000:2 0:99b 999999999999999:99b');
-- what is no border divides nothing, but counts
SELECT lsm_test_ranges('request=1 1000:5b 1500:500 2000:5b 3000:5b');
SELECT lsm_test_ranges('request=1 500:3 1000:5b 2000:5b');

-- properties
SELECT lsm_test_ranges_random(1, 200);
SELECT lsm_test_ranges_random(2, 200);

-- a table: ranges of like bytes, though all lies in a small part of the LBs there may be
SET lsm.debug_first_lb = 100000000;
CREATE TABLE pr (id int, v text) USING lsm WITH (autovacuum_enabled = off, parallel_workers = 2, lsm.block_size = 8192);
INSERT INTO pr SELECT i, md5(i::text) || md5((i + 1)::text) FROM generate_series(1, 60000) i;
CREATE VIEW pr_ranges AS SELECT count(*) >= 20 AS many, max(bytes) < 0.1 * sum(bytes) AS even FROM lsm_test_table_ranges('pr');
SELECT * FROM pr_ranges;
SELECT count(*) AS flush FROM lsm_flush('pr');
SELECT * FROM pr_ranges;
-- most of its LBs empty
DELETE FROM pr WHERE id > 300 AND id <= 55000;
SELECT count(*) AS flush FROM lsm_flush('pr');
SELECT count(*) AS major FROM lsm_major_compact('pr');
VACUUM pr;
INSERT INTO pr SELECT i, md5(i::text) || md5((i + 1)::text) FROM generate_series(60001, 80000) i;
SELECT count(*) AS flush FROM lsm_flush('pr');
SELECT * FROM pr_ranges;
-- a corner with many changes has ranges of less roots, whether these are in increments or in the memtable
CREATE FUNCTION pr_corner(OUT of_bytes numeric, OUT of_ranges numeric) LANGUAGE sql AS $$
	SELECT round(sum(bytes) FILTER (WHERE lb >= c) / sum(bytes), 1), round(count(*) FILTER (WHERE lb >= c)::numeric / count(*), 1)
	FROM lsm_test_table_ranges('pr'), (SELECT min((ctid::text::point)[0]) AS c FROM pr WHERE id = 78000) corner
$$;
SELECT * FROM pr_corner();
DO $$ BEGIN FOR i IN 1..3 LOOP UPDATE pr SET v = v || i WHERE id > 78000; PERFORM lsm_flush('pr'); END LOOP; END $$;
SELECT * FROM pr_corner();
SELECT * FROM pr_ranges;
SELECT count(*) AS major FROM lsm_major_compact('pr');
UPDATE pr SET v = v || 'm' WHERE id > 70000;
SELECT * FROM pr_ranges;

-- scans of all kinds get each row once: beside heap
CREATE TABLE pr_heap AS SELECT * FROM pr;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
CREATE FUNCTION pr_compare() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text;
	s text;
	a text;
	h text;
BEGIN
	FOREACH q IN ARRAY '{"SELECT count(*) || '':'' || sum(hashtext(v) + id::int8) FROM %I","SELECT string_agg(id::text, '' '' ORDER BY id) FROM %I WHERE id % 1000 = 5",
		"SELECT count(*) FROM (SELECT id FROM %I LIMIT 700) x","SELECT count(*) || '':'' || sum(a.id::int8) FROM %I a JOIN %I b USING (id) WHERE b.v > ''8''"}'::text[] LOOP
		FOREACH s IN ARRAY '{on,off}'::text[] LOOP
			PERFORM set_config('lsm.enable_lsmscan', s, false);
			EXECUTE replace(q, '%I', 'pr') INTO a;
			EXECUTE replace(q, '%I', 'pr_heap') INTO h;
			IF a IS DISTINCT FROM h THEN
				RETURN NEXT q;
			END IF;
		END LOOP;
	END LOOP;
	RESET lsm.enable_lsmscan;
END $$;
SELECT * FROM pr_compare();
EXPLAIN (COSTS off) SELECT sum(hashtext(v)) FROM pr;
SET lsm.enable_lsmscan = off;
EXPLAIN (COSTS off) SELECT sum(hashtext(v)) FROM pr;
RESET lsm.enable_lsmscan;
-- rows of the own transaction
BEGIN;
INSERT INTO pr SELECT i, 'own' FROM generate_series(90001, 91000) i;
UPDATE pr SET v = 'own' WHERE id <= 100;
DELETE FROM pr WHERE id BETWEEN 101 AND 200;
SELECT count(*), sum(length(v)) FROM pr WHERE v = 'own' AND id + 0 > 0;
SAVEPOINT s;
INSERT INTO pr VALUES (99999, 'own');
SELECT count(*) FROM pr WHERE v = 'own' AND id + 0 > 0;
ROLLBACK TO s;
SELECT count(*) FROM pr WHERE v = 'own' AND id + 0 > 0;
ROLLBACK;
-- begun again
SET enable_material = off;
SELECT count(*), sum(n) FROM generate_series(1, 4) g, LATERAL (SELECT count(*) AS n FROM pr WHERE id % 4 = g - 1) x;
RESET enable_material;

-- what each process has taken, all together
CREATE FUNCTION pr_workers(query text, OUT ranges text, OUT rows numeric) LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO r;
	SELECT sum((p->>'LSM Ranges')::int), sum((p->>'LSM Rows')::int) INTO ranges, rows FROM jsonb_path_query(r::jsonb, 'strict $.**."LSM Processes"[*]') p;
	ranges := CASE WHEN ranges::int = (SELECT count(*) FROM lsm_test_table_ranges('pr')) THEN 'all' ELSE ranges END;
END $$;
SELECT * FROM pr_workers('SELECT sum(hashtext(v)) FROM pr');
SELECT count(*) FROM pr_heap;
CREATE FUNCTION pr_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	FOR r IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off' || CASE WHEN current_setting('server_version_num')::int >= 180000 THEN ', BUFFERS off) ' ELSE ') ' END || query LOOP
		IF r ~ 'LSM' THEN
			RETURN NEXT regexp_replace(r, '\d+', 'N', 'g');
		END IF;
	END LOOP;
END $$;
SET parallel_leader_participation = off;
SELECT count(*) > 0, bool_and(line ~ '^ *LSM (worker N|leader): ranges=N units=N rows=N$') FROM pr_explain('SELECT sum(hashtext(v)) FROM pr') line WHERE line ~ 'ranges';
RESET parallel_leader_participation;
RESET lsm.debug_first_lb;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET max_parallel_workers_per_gather;
SELECT c AS problem FROM lsm_check('pr') c;
DROP VIEW pr_ranges;
DROP TABLE pr, pr_heap;
DROP FUNCTION pr_corner, pr_compare, pr_workers, pr_explain, lsm_test_ranges, lsm_test_ranges_random, lsm_test_table_ranges;
