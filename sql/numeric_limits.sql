--
-- Numerics whose scaled integer is one of the last of 64 bits, or just does not fit
--
SET max_parallel_workers_per_gather = 0;

-- A table for each, as one that does not fit changes how all of its column are stored.
CREATE TABLE nl_value (k int, n numeric, typmod text);
INSERT INTO nl_value VALUES (1, 9223372036854775807, ''), (2, -9223372036854775807, ''),
	(3, 9223372036854775808, ''), (4, -9223372036854775808, ''), (5, 9223372036854775806, ''),
	(6, 92233720368547758.07, '(19,2)'), (7, -92233720368547758.08, '(19,2)'), (8, -92233720368547758.07, '(19,2)'),
	(9, 922.3372036854775807, '(19,16)'), (10, 5, '(19,2)');
-- what they are compared with: beside them, far away, and more than can be scaled
CREATE TABLE nl_other (n numeric, special bool);
INSERT INTO nl_other SELECT n + d, false FROM nl_value, unnest('{0,-1,1,0.5,-0.5,0.01,-0.01,0.001,-0.001}'::numeric[]) d
	UNION SELECT unnest('{NaN,Infinity,-Infinity,0,1e131071,-1e131071,1e131070,1e-16383,-1e-16383}'::numeric[]), true;

CREATE FUNCTION nl_differences() RETURNS TABLE (k int, comparison text, heap bigint, lsm bigint) LANGUAGE plpgsql AS $$
DECLARE
	v record;
	o numeric;
	op text;
BEGIN
	FOR v IN SELECT * FROM nl_value ORDER BY nl_value.k LOOP
		EXECUTE format('CREATE TEMP TABLE h (n numeric%s, m int)', v.typmod);
		EXECUTE format('CREATE TABLE nl (n numeric%s, m int) USING lsm WITH (autovacuum_enabled = off)', v.typmod);
		FOR neighbours IN 0 .. 1 LOOP
			TRUNCATE h, nl;
			INSERT INTO h VALUES (v.n, 0);
			INSERT INTO h SELECT CASE i % 3 WHEN 0 THEN 0 WHEN 1 THEN trunc(v.n * 0.999, 2) ELSE v.n END, i FROM generate_series(1, 100 * neighbours) i;
			INSERT INTO nl SELECT * FROM h;
			PERFORM lsm_flush('nl');
			FOR o IN SELECT x.n FROM nl_other x WHERE abs(x.n - v.n) <= 2 OR x.special ORDER BY x.n LOOP
				FOREACH op IN ARRAY '{=,<>,<,<=,>,>=}'::text[] LOOP
					EXECUTE format('SELECT count(*) FROM h WHERE n %s %L::numeric AND m >= 0', op, o) INTO heap;
					BEGIN
						EXECUTE format('SELECT count(*) FROM nl WHERE n %s %L::numeric AND m >= 0', op, o) INTO lsm;
					EXCEPTION WHEN numeric_value_out_of_range THEN
						lsm := -1;
					END;
					IF heap <> lsm THEN
						k := v.k;
						comparison := format('%s: %s %s %s', neighbours, v.n, op, CASE WHEN abs(o) > 1e100 THEN 'much' ELSE o::text END);
						RETURN NEXT;
					END IF;
				END LOOP;
			END LOOP;
		END LOOP;
		DROP TABLE h, nl;
	END LOOP;
END $$;
SELECT * FROM nl_differences();

-- these go by column
CREATE TABLE nl (n numeric(19,2)) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO nl SELECT CASE WHEN i < 50 THEN i ELSE 92233720368547758.07 END FROM generate_series(1, 100) i;
SELECT count(*) AS flush FROM lsm_flush('nl');
EXPLAIN (COSTS OFF) SELECT count(*) FROM nl WHERE n = 92233720368547758.07;
SELECT count(*) FROM nl WHERE n = 92233720368547758.07;
SELECT count(*) FROM nl WHERE n >= 92233720368547758.07;
SELECT count(*) FROM nl WHERE n <> 92233720368547758.07;
SELECT count(*) FROM nl WHERE n < 1e131071;
SELECT c AS problem FROM lsm_check('nl') c;

DROP TABLE nl, nl_value, nl_other;
DROP FUNCTION nl_differences();
