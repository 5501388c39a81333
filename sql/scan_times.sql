--
-- Conditions on times of one type by values of another; the time zone counts.  Beside heap.
--
SET timezone = 'UTC';
SET datestyle = 'ISO';
CREATE TABLE st (id int, ts timestamp, tz timestamptz, d date, pad text) USING lsm WITH (autovacuum_enabled = off, lsm.block_size = '8kB');
CREATE TABLE st_heap (LIKE st);
-- days around which clocks are turned back and forth, or leave a day out
INSERT INTO st_heap
	SELECT row_number() OVER (ORDER BY m), m, m, m, md5(m::text) || md5(m::date::text)
	FROM unnest('{2011-12-29, 2018-02-17, 2018-03-24, 2018-10-27, 2018-11-03}'::timestamp[]) day,
		generate_series(day, day + interval '3 days', interval '25 min') m;
INSERT INTO st_heap VALUES (0, '-infinity', '-infinity', '-infinity', ''), (-1, '4713-01-01 00:00 BC', '4713-01-01 00:00+00 BC', '4713-01-01 BC', ''),
	(9998, '294276-12-31 23:59', '294276-12-31 23:59+00', '5874897-12-31', ''), (9999, 'infinity', 'infinity', 'infinity', '');
INSERT INTO st SELECT * FROM st_heap ORDER BY ts;
SELECT count(*) AS flush FROM lsm_flush('st');

CREATE FUNCTION st_compare(zone text, OUT conditions bigint, OUT rows bigint, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	c text;
	a text;
	h text;
BEGIN
	conditions := 0;
	rows := 0;
	PERFORM set_config('timezone', zone, false);
	FOR c IN
		SELECT format('%s %s %L::%s', col, op, val, typ) FROM (VALUES
			('ts', 'date'), ('ts', 'timestamptz'), ('tz', 'date'), ('tz', 'timestamp'), ('d', 'timestamp'), ('d', 'timestamptz')) p (col, typ),
			unnest('{<,<=,=,>=,>,<>}'::text[]) op,
			unnest('{2011-12-29 22:00, 2011-12-30 00:00, 2011-12-31 00:00, 2018-02-17 23:10, 2018-02-18 00:00, 2018-03-25 02:30, 2018-10-28 00:00, 2018-10-28 02:05, 2018-11-04 01:15, infinity, -infinity, 294276-12-01 00:00}'::text[]) val
		UNION ALL VALUES ('''2018-02-18''::date <= tz'), ('''2018-02-18''::timestamp > tz'), ('ts < ''5874897-01-01''::date'), ('tz < ''5874897-01-01''::date'), ('ts >= ''4714-12-01 BC''::date'),
			('tz BETWEEN ''2018-02-18''::date AND ''2018-02-18 01:00''::timestamp'), ('tz = ANY (''{2018-02-18,2018-03-25}''::date[])'), ('ts = ANY (''{2018-02-18,2018-03-25,infinity}''::date[])'), ('d >= ''2018-02-18''::date + interval ''6 h'''),
			('d = ANY (''{2018-02-18 00:00,2018-03-25 00:00}''::timestamptz[])'), ('ts < now()'), ('ts > now()'), ('tz > current_date'), ('d <= now()'), ('tz < NULL::date')
	LOOP
		EXECUTE 'SELECT count(*) || '':'' || coalesce(sum(id), 0) FROM st WHERE ' || c INTO a;
		EXECUTE 'SELECT count(*) || '':'' || coalesce(sum(id), 0) FROM st_heap WHERE ' || c INTO h;
		IF a IS DISTINCT FROM h THEN
			wrong := concat_ws('; ', wrong, c || ' ' || coalesce(a, 'null') || ' not ' || h);
		END IF;
		conditions := conditions + 1;
		rows := rows + split_part(h, ':', 1)::bigint;
	END LOOP;
END $$;
SELECT zone, (st_compare(zone)).* FROM unnest('{UTC,America/Sao_Paulo,Europe/Berlin,Pacific/Apia,America/New_York,"<+30>-30"}'::text[]) zone;
-- changed rows are asked one by one
UPDATE st SET ts = ts + interval '1 h', tz = tz - interval '1 h', d = d + 1 WHERE id % 50 = 0;
UPDATE st_heap SET ts = ts + interval '1 h', tz = tz - interval '1 h', d = d + 1 WHERE id % 50 = 0;
SELECT zone, (st_compare(zone)).* FROM unnest('{America/Sao_Paulo,Pacific/Apia}'::text[]) zone;
SELECT count(*) AS flush FROM lsm_flush('st');
SELECT count(*) AS major FROM lsm_major_compact('st');
SET timezone = 'Europe/Berlin';

-- zone maps skip blocks: most of them
CREATE FUNCTION st_skips(cond text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	read int;
	skipped int;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, FORMAT json) SELECT id FROM st WHERE ' || cond INTO plan;
	plan := plan->0->'Plan';
	read := plan->>'LSM Blocks Read';
	skipped := plan->>'LSM Blocks Skipped';
	RETURN CASE WHEN skipped > 2 * read THEN 'most' WHEN skipped > 0 THEN 'some' ELSE 'none' END;
END $$;
SELECT cond, st_skips(cond) AS skipped FROM unnest(ARRAY[
	'tz < ''2012-01-01''::date', 'tz < ''2012-01-01''::timestamp', 'ts < ''2012-01-01''::date', 'ts < ''2012-01-01''::timestamptz', 'd < ''2012-01-01''::timestamptz', 'd < ''2012-01-01''::timestamp',
	'ts > now() AND ts < ''infinity''', 'tz >= current_date AND tz < ''infinity''', 'd = ''2018-03-25''::timestamptz', 'ts = ''2018-03-25 12:00''::timestamptz', 'ts <> ''2018-03-25 12:00''::timestamptz']) cond;
DROP TABLE st, st_heap;

-- a list of values: each of them counts, not only the span
CREATE TABLE st (id int, i8 int8, d date, tz timestamptz, f8 float8, n numeric(12,2), c char(12), t text COLLATE "C", nul int, pad text) USING lsm WITH (autovacuum_enabled = off, lsm.block_size = '8kB');
INSERT INTO st SELECT i, i, '2000-01-01'::date + i, '2000-01-01 00:00+00'::timestamptz + i * interval '1 h', i, i, lpad(i::text, 6, '0') || CASE WHEN i % 2 = 0 THEN '' ELSE ' ' END, lpad(i::text, 6, '0'),
	CASE WHEN i > 2950 THEN i END, md5(i::text) FROM generate_series(1, 3000) i;
SELECT count(*) AS flush FROM lsm_flush('st');
VACUUM ANALYZE st;
SELECT cond, st_skips(cond) AS skipped FROM unnest(ARRAY[
	'id IN (5, 2990)', 'i8 = ANY (''{5,2990}'')', 'd IN (''2000-01-05'', ''2008-03-01'')', 'tz IN (''2000-01-01 05:00+00'', ''2000-05-04 00:00+00'')', 'f8 IN (5, 2990)', 'n IN (5, 2990)',
	'c IN (''000005'', ''002990'')', 'c = ''000005''', 'c COLLATE "C" < ''000005''', 't IN (''000005'', ''002990'')', 't < ''000005''', 't = ''000005''', 'nul IS NOT NULL', 'nul = 2970', 'id IN (-5, 5000)']) cond;
SELECT id FROM st WHERE c = '000005' OR c = '000006   ' ORDER BY id;
SELECT id FROM st WHERE id IN (5, 2990, 4000) ORDER BY id;
SELECT count(*) FROM st WHERE nul IS NULL;
-- values that a generic plan gets when it runs
SET plan_cache_mode = force_generic_plan;
PREPARE st_by (int, int, char(12)) AS SELECT id FROM st WHERE id = ANY (ARRAY[$1, $2]) OR c = $3;
EXECUTE st_by (7, 2800, '000100');
PREPARE st_skip (text[]) AS SELECT id FROM st WHERE t = ANY ($1);
CREATE FUNCTION st_generic() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, FORMAT json) EXECUTE st_skip (''{000005,002990}'')' INTO plan;
	plan := plan->0->'Plan';
	RETURN (plan->>'Actual Rows')::float::int || CASE WHEN (plan->>'LSM Blocks Skipped')::int > 2 * (plan->>'LSM Blocks Read')::int THEN ' most' ELSE ' few' END;
END $$;
SELECT st_generic();
DROP TABLE st;
DROP FUNCTION st_compare, st_skips, st_generic;
