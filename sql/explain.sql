--
-- What index scans tell in EXPLAIN (ANALYZE, LSM), which servers know from 18 on; others
-- must refuse the option.
--
CREATE TABLE ex (id int PRIMARY KEY, v int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ex SELECT i, 0, md5(i::text) FROM generate_series(1, 20000) i;
SELECT count(*) AS flush FROM lsm_flush('ex');
UPDATE ex SET v = 1 WHERE id <= 50;
CREATE TABLE ex_heap (id int PRIMARY KEY);
CREATE FUNCTION ex_lsm(query text, options text, OUT plan jsonb, OUT line text) LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json' || options || ') ' || query INTO plan;
	plan := plan->0->'Plan'->'Plans'->0;
	FOR r IN EXECUTE 'EXPLAIN (ANALYZE' || options || ') ' || query LOOP
		line := CASE WHEN r ~ 'LSM:' THEN trim(regexp_replace(r, '\d+', 'N', 'g')) ELSE line END;
	END LOOP;
END $$;
CREATE FUNCTION ex_right() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	p record;
BEGIN
	IF current_setting('server_version_num')::int < 180000 THEN
		BEGIN
			EXECUTE 'EXPLAIN (ANALYZE, LSM) SELECT 1';
			RETURN NEXT 'the option is known';
		EXCEPTION WHEN syntax_error THEN
			NULL;
		END;
		RETURN;
	END IF;
	SELECT * INTO p FROM ex_lsm('SELECT sum(v), max(t) FROM ex WHERE id BETWEEN 1 AND 200', ', LSM');
	IF (p.plan->>'LSM Rows Fetched')::int IS DISTINCT FROM 200 OR NOT (p.plan->>'LSM Records Examined')::int >= 250 THEN
		RETURN NEXT 'rows: ' || p.plan;
	END IF;
	IF p.line IS DISTINCT FROM 'LSM: rows fetched=N records examined=N blocks read=N ahead=N' THEN
		RETURN NEXT 'line: ' || p.line;
	END IF;
	-- the backend has the first blocks, and reads the others, ahead when it has seen that it walks
	SELECT * INTO p FROM ex_lsm('SELECT sum(v), max(t) FROM ex WHERE id BETWEEN 1000 AND 20000', ', LSM');
	IF NOT (p.plan->>'LSM Rows Fetched')::int = 19001 THEN
		RETURN NEXT 'walk: ' || p.plan;
	END IF;
	-- not asked for; another table
	SELECT * INTO p FROM ex_lsm('SELECT sum(v), max(t) FROM ex WHERE id BETWEEN 1 AND 200', '');
	IF p.plan ? 'LSM Rows Fetched' OR p.line IS NOT NULL THEN
		RETURN NEXT 'not asked: ' || p.plan;
	END IF;
	SELECT * INTO p FROM ex_lsm('SELECT sum(v), max(t) FROM ex WHERE id BETWEEN 1 AND 200', ', LSM off');
	IF p.plan ? 'LSM Rows Fetched' THEN
		RETURN NEXT 'off: ' || p.plan;
	END IF;
	SELECT * INTO p FROM ex_lsm('SELECT max(id) FROM ex_heap WHERE id = 5', ', LSM');
	IF p.plan ? 'LSM Rows Fetched' THEN
		RETURN NEXT 'heap: ' || p.plan;
	END IF;
END $$;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT ex_right() AS wrong;
DROP TABLE ex, ex_heap;
DROP FUNCTION ex_lsm, ex_right;
