--
-- LsmAgg: aggregates of floats, and of sums, differences and products of them
--
-- rows come in the same order from the heap table until they are changed; then the server's own nodes are asked for the same table
CREATE TABLE fa (id int, g int, k text, f4 float4, f8 float8, price float8, disc float8, tax float4, i2 int2, i4 int4, i8 int8, nul float8, odd float8, odd4 float4, huge float8, big float8, tiny float8,
	big4 float4, tiny4 float4, near4 float8) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE fa_heap (LIKE fa);
-- price, disc and tax are such that their sums and products are exact
CREATE FUNCTION fa_fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO fa_heap SELECT i, i % 5, 'k' || i % 3, sin(i), exp((i % 100) - 50) * sin(i), (i % 4001) * 0.25, (i % 11) / 16.0, (i % 9) * 0.125, i % 300 - 150, i * 7919, i * 1234567890123457,
		CASE WHEN i % 4 <> 0 THEN cos(i) END, CASE WHEN i % 997 = 0 THEN 'NaN'::float8 WHEN i % 991 = 0 THEN 'Infinity' WHEN i % 500 = 0 THEN '-Infinity' WHEN i % 2 = 0 THEN '-0' ELSE 0 END,
		CASE WHEN i % 997 = 0 THEN 'NaN'::float8 WHEN i % 991 = 0 THEN '-Infinity' WHEN i % 3 = 0 THEN '-0' WHEN i % 3 = 1 THEN 0 END,
		CASE WHEN i % 1000 = 7 THEN 1.7e308 ELSE i END, CASE WHEN i % 1000 = 8 THEN -1e200 ELSE i / 7.0 END, CASE WHEN i % 1000 = 9 THEN 1e-200 ELSE i / 3.0 END,
		CASE WHEN i % 1000 = 10 THEN 3e38 ELSE i / 9.0 END, CASE WHEN i % 1000 = 11 THEN 1e-30 ELSE i / 11.0 END, 1 + i * 5.9604644775390626e-08
		FROM generate_series(first, last) i;
	INSERT INTO fa SELECT * FROM fa_heap WHERE id BETWEEN first AND last;
$$;
SELECT fa_fill(1, 3000);
CREATE TABLE fa_asked (k serial, what text, tail text DEFAULT '', agg bool DEFAULT true);
INSERT INTO fa_asked (what) VALUES
	('sum(price), avg(price), sum(tax), avg(tax), sum(price * disc), sum(price * (1 - disc)), sum(price * (1 - disc) * (1 + tax)), avg(price - tax), count(price * disc), min(price * disc), max(tax - price)'),
	('sum(price * disc) FILTER (WHERE i2 < 0), avg(price) FILTER (WHERE nul IS NULL), count(*), count(price + tax) FILTER (WHERE id < 0), sum(disc) FILTER (WHERE id < 0)'),
	('sum(f4), sum(f8), avg(f4), avg(f8), variance(f4), variance(f8), var_samp(f4), var_pop(f8), stddev(f8), stddev_pop(f4), stddev_samp(f8), sum(nul), avg(nul), stddev(nul), count(nul)'),
	('sum(f8 + f4), sum(f4 + f8), sum(f8 - f4), sum(f4 - f8), sum(f8 * f4), sum(f4 * f8), sum(f8 + f8), sum(f8 - price), sum(f8 * f8), avg(f8 * f8), stddev(f8 * nul), variance(f4 - f8)'),
	('sum(f4 + f4), sum(f4 - tax), sum(f4 * tax), avg(f4 * f4), stddev(f4 * f4), min(f4 * f4), max(f4 - tax), sum(f4 * f4 * f4), sum((f4 - tax)::float8 * f4), sum(f4 * 0.1::float4), sum(0.3::float4 - f4)'),
	('sum(f8 + 0.1), sum(0.1 - f8), sum(f8 - 0.1), sum(f8 * 0.1), sum(0.1 * f8 + 3), sum(f4 * 2), sum(f4 * 2.5), sum(f8 - ''NaN''), max(f8 + ''Infinity''), sum(f8 * ''-0''), max(f8 * ''-0'')'),
	('sum(i2 * f8), sum(i4 * f8), sum(i8 * f8), sum(i8::float4), sum(i8::float8 - f4), sum((i4 + i2) * f8), sum((i2 * f8)::float4), sum(near4::float4), max(i8::float4 * tax), avg(i4::float4 - f4), sum(i2::float4)'),
	('sum(f8 * nul), avg(nul - f4), min(nul * f8), max(nul - nul), count(nul * f4), sum(nul * nul - nul)'),
	('sum(odd), avg(odd), stddev(odd)'), ('min(odd), max(odd), min(odd4), max(odd4), min(odd * f8), max(odd4 - f4), sum(odd * 0), min(odd + odd4), count(odd * odd4)'), ('sum(odd4), avg(odd4), variance(odd4), sum(odd4 * tax)'),
	('sum(huge)'), ('avg(huge)'), ('stddev(huge)'), ('min(huge), max(huge), count(huge)'), ('sum(huge + huge)'), ('count(huge + huge)'), ('min(-1.7e308 - huge)'), ('sum(huge * 0.5)'), ('sum(huge - huge)'),
	('sum(big), avg(big)'), ('stddev(big)'), ('sum(big * big)'), ('max(big * big * 0)'), ('count(big * big)'), ('sum(big * odd)'), ('sum(big::float4)'), ('sum(big * big) FILTER (WHERE big > 0)'), ('sum(big * nul)'),
	('sum(tiny)'), ('sum(tiny * tiny)'), ('count(tiny * tiny)'), ('sum(tiny * 1e-200)'), ('sum(tiny * 0), sum(tiny * odd4)'), ('sum(tiny::float4)'), ('min(tiny * tiny + 1)'), ('sum(tiny * 1e-150) FILTER (WHERE tiny > 1e-100)'),
	('sum(big4)'), ('avg(big4)'), ('sum(big4 + big4)'), ('sum(big4 * big4)'), ('sum(big4 - tax)'), ('sum(big4::float8 * big4)'), ('sum(tiny4 * tiny4)'), ('sum(tiny4 * tiny4::float8)'), ('sum(tiny4 - tiny4), sum(tiny4 * 1e-30::float4) FILTER (WHERE tiny4 > 1)');
INSERT INTO fa_asked (what, tail) VALUES
	('g, sum(price), avg(price), sum(price * (1 - disc)), avg(tax * disc), count(price * tax), min(price * disc), max(disc - tax)', 'GROUP BY g'),
	('g, k, sum(price * tax) FILTER (WHERE i2 < 0), stddev(price)', 'GROUP BY g, k'),
	('g, sum(f4), sum(f8), avg(f4), avg(f8), stddev(f8), sum(f8 * f4), sum(f4 * f4), sum(nul), sum(nul * f8), min(nul), max(f8 - f4), sum(f8 * 0.1), avg(i4 * f8)', 'GROUP BY g'),
	('id, sum(f8), avg(f4), sum(f8 * nul), sum(f4 * f4)', 'GROUP BY id'), ('k, sum(odd), avg(odd), sum(odd4), stddev(odd4), min(odd), max(odd * f4)', 'GROUP BY k'),
	('g, sum(huge)', 'GROUP BY g'), ('g, avg(big), sum(big * 2)', 'GROUP BY g'), ('g, sum(big * big)', 'GROUP BY g'), ('g, stddev(big)', 'GROUP BY g'), ('i2, sum(huge * 0.1)', 'GROUP BY i2'),
	('k, sum(f8)', 'GROUP BY k HAVING sum(f8 * f8) > 1 AND avg(f4 - f8) <> 0'), ('g, sum(tiny4 * tiny4)', 'GROUP BY g');
INSERT INTO fa_asked (what, agg) VALUES ('sum(f8 / 3)', false), ('sum(f8 * i4::numeric::float8)', false), ('sum(sqrt(f8 * f8))', false);
CREATE TABLE fa_where (w text);
INSERT INTO fa_where VALUES ('true'), ('id BETWEEN 100 AND 900'), ('id < 0'), ('f8 > 0'), ('huge < 1e300 AND big > 0 AND tiny > 0.1 AND big4 < 1e30 AND tiny4 > 1e-10'), ('odd = 0'), ('i4 = 134623'), ('disc > 0.3');
CREATE FUNCTION fa_answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text;
BEGIN
	EXECUTE format('SELECT concat(count(*), string_agg(q::text, E''\n'' ORDER BY q::text)) FROM (%s) q', query) INTO a;
	RETURN a;
EXCEPTION WHEN numeric_value_out_of_range THEN
	RETURN SQLSTATE || SQLERRM;
END $$;
CREATE FUNCTION fa_is_agg(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	a json;
BEGIN
	EXECUTE 'EXPLAIN (COSTS off, FORMAT JSON) ' || query INTO a;
	RETURN a::text LIKE '%"LsmAgg"%';
END $$;
CREATE FUNCTION fa_check(heap bool, OUT queries bigint, OUT overflows bigint, OUT underflows bigint, OUT plans bigint, OUT wrong text, OUT other_plans text) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	q text;
	a text;
	h text;
BEGIN
	queries := 0;
	overflows := 0;
	underflows := 0;
	plans := 0;
	FOR r IN SELECT * FROM fa_asked, fa_where ORDER BY k, w LOOP
		q := format('SELECT %s FROM fa WHERE %s %s', r.what, r.w, r.tail);
		a := fa_answer(q);
		plans := plans + fa_is_agg(q)::int;
		IF fa_is_agg(q) <> r.agg THEN
			other_plans := concat_ws(E'\n', other_plans, q);
		END IF;
		IF heap THEN
			h := fa_answer(replace(q, ' fa ', ' fa_heap '));
		ELSE
			PERFORM set_config('lsm.enable_lsmscan', 'off', true), set_config('max_parallel_workers_per_gather', '0', true);
			h := fa_answer(q);
			PERFORM set_config('lsm.enable_lsmscan', 'on', true);
		END IF;
		IF a IS DISTINCT FROM h THEN
			wrong := concat_ws(E'\n', wrong, format('%s: %s not %s', q, left(a, 500), left(h, 500)));
		END IF;
		queries := queries + 1;
		overflows := overflows + (a ~ '^22003.*overflow')::int;
		underflows := underflows + (a ~ '^22003.*underflow')::int;
	END LOOP;
END $$;
-- a sort would give groups their rows in another order
SET enable_sort = off;
SELECT * FROM fa_check(true);
SELECT count(*) AS flush FROM lsm_flush('fa');
SELECT * FROM fa_check(true);
VACUUM ANALYZE fa;
SELECT * FROM fa_check(true);
-- changed rows above blocks, and rows without a block
UPDATE fa SET f8 = cos(id), price = price + 1, nul = CASE WHEN id % 2 = 0 THEN id / 3.0 END, f4 = -f4 WHERE id % 77 = 0;
DELETE FROM fa WHERE id % 500 = 3;
SELECT fa_fill(3001, 3200);
UPDATE fa SET huge = 1, big = 1, big4 = 1, odd = 1 WHERE id % 1000 IN (7, 8, 10);
SELECT * FROM fa_check(false);
BEGIN;
UPDATE fa SET tiny = 1e-300, big = 1e300 WHERE id = 1500;
SELECT * FROM fa_check(false);
ROLLBACK;
SELECT count(*) AS flush FROM lsm_flush('fa');
UPDATE fa SET price = -price, g = 9, f4 = 'NaN' WHERE id IN (1, 1000, 2999);
SELECT * FROM fa_check(false);
-- columns that blocks do not have
ALTER TABLE fa ADD COLUMN more float8 DEFAULT 0.1, ADD COLUMN none float4, DROP COLUMN near4;
ALTER TABLE fa_heap ADD COLUMN more float8 DEFAULT 0.1, ADD COLUMN none float4, DROP COLUMN near4;
UPDATE fa_asked SET what = replace(what, 'near4', 'more');
INSERT INTO fa_asked (what, tail) VALUES ('sum(more), avg(more * f8), sum(none), sum(none * f8), max(none - f4), count(none * more), min(more - f4)', ''), ('k, sum(more), sum(more * f8), avg(none)', 'GROUP BY k');
UPDATE fa SET none = 2.5 WHERE id = 50;
SELECT * FROM fa_check(false);
SELECT count(*) AS major FROM lsm_major_compact('fa');
SELECT * FROM fa_check(false);
-- the zero that a sum has alone, and no rows at all
CREATE TABLE fz (id int, z float8, z4 float4) USING lsm WITH (autovacuum_enabled = off);
SELECT sum(z), avg(z), sum(z * 2), sum(z4), min(z - 1), stddev(z), count(z * z) FROM fz;
INSERT INTO fz SELECT i, '-0', '-0' FROM generate_series(1, 1000) i;
SELECT count(*) AS flush FROM lsm_flush('fz');
SELECT sum(z), avg(z), sum(z4), sum(z4 * 1), max(z * 5), sum(z + z), sum(z - z), sum(0 - z) FROM fz;
SELECT id % 2 = 0 AS even, sum(z) FROM fz GROUP BY 1 ORDER BY 1;
INSERT INTO fz VALUES (1001, 0, 0);
SELECT sum(z), sum(z4), sum(-1 * z), min(z * 5), max(z4) FROM fz;
-- domains, prepared plans
CREATE DOMAIN fz_domain AS float8;
ALTER TABLE fz ADD COLUMN d fz_domain;
UPDATE fz SET d = id * 0.1, z = id;
SELECT count(*) AS major FROM lsm_major_compact('fz');
SELECT fa_is_agg('SELECT sum(d), sum(d * z) FROM fz');
SELECT sum(d), sum(d * z), avg(d - z), min(d), max(d + 1) FROM fz;
PREPARE fz_of (int) AS SELECT sum(d * z), avg(z) FILTER (WHERE id > $1) FROM fz WHERE id < $1 + 10;
SET plan_cache_mode = force_generic_plan;
EXECUTE fz_of (5);
EXECUTE fz_of (-50);
RESET plan_cache_mode;
SELECT x, (SELECT sum(z * z) FROM fz WHERE id <= x) FROM generate_series(0, 1000, 500) x;
-- parallel plans, of what is exact in any order
TRUNCATE fa_heap, fa;
SELECT fa_fill(1, 3000);
UPDATE fa_heap SET big = ceil(big), tiny = CASE WHEN tiny > 0.1 THEN ceil(tiny) ELSE tiny END;
TRUNCATE fa;
INSERT INTO fa SELECT * FROM fa_heap;
SELECT count(*) AS flush FROM lsm_flush('fa');
VACUUM ANALYZE fa;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (VERBOSE, COSTS off) SELECT g, sum(price), avg(tax), sum(price * (1 - disc)), min(price - tax) FROM fa WHERE id > 5 GROUP BY g;
EXPLAIN (COSTS off) SELECT sum(price * disc), avg(price) FROM fa;
DELETE FROM fa_asked WHERE what !~ 'price|big \* big|tiny \* tiny|huge \+ huge|odd' OR what ~ 'f4|f8|stddev|variance' OR tail = '' AND NOT agg;
DELETE FROM fa_where WHERE w IN ('id < 0', 'i4 = 134623');
SELECT * FROM fa_check(true);
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;
RESET enable_sort;
DROP TABLE fa, fa_heap, fa_asked, fa_where, fz;
DROP DOMAIN fz_domain;
DROP FUNCTION fa_fill, fa_answer, fa_is_agg, fa_check;
