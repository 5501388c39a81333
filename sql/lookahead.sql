--
-- LsmLookAhead: the outer rows of nested loops, some ahead, where inner rows lie in a store.  The
-- same queries on heap must give the same answers.
--
SELECT format('/tmp/lsm_regress_lookahead_%s', pg_backend_pid()) AS dir \gset
SELECT set_config('lsm_test.dir', :'dir', false) = :'dir' AS set;
DO $$ BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L',
        'cat; mkdir -m 700 ' || current_setting('lsm_test.dir'));
END $$;
CREATE SERVER ahead FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory :'dir');
CREATE TABLE ahead_heap (id int, k int, g varchar(10), n numeric, w text) USING heap;
INSERT INTO ahead_heap SELECT i, i % 1500, 'g' || i % 4000, i * 0.5, md5(i::text) FROM generate_series(1, 20000) i;
CREATE TABLE ahead_lsm (LIKE ahead_heap) USING lsm
    WITH (lsm.block_size = '8kB', lsm.cold_store = 'ahead', autovacuum_enabled = off);
INSERT INTO ahead_lsm SELECT * FROM ahead_heap;
CREATE TABLE parts_heap (day int, id int, v text) PARTITION BY RANGE (day);
CREATE TABLE parts_lsm (day int, id int, v text) PARTITION BY RANGE (day);
CREATE TABLE ahead_outer (o int PRIMARY KEY, id int, k bigint, g text, day int, x text) USING heap;
INSERT INTO ahead_outer SELECT i, i * 7919 % 21000, i * 31 % 1600, 'g' || i * 13 % 4100, i % 4 * 10, repeat('x', i % 50)
    FROM generate_series(1, 400) i;
INSERT INTO ahead_outer VALUES (1001), (1002);
DO $$
DECLARE
    t text;
BEGIN
    FOR i IN 0 .. 3 LOOP
        FOREACH t IN ARRAY ARRAY['heap', 'lsm'] LOOP
            EXECUTE format('CREATE TABLE parts_%1$s_%2$s PARTITION OF parts_%1$s FOR VALUES FROM (%3$s) TO (%4$s) USING %1$s',
                t, i, i * 10, i * 10 + 10);
        END LOOP;
        IF i < 3 THEN
            EXECUTE format('ALTER TABLE parts_lsm_%s SET (lsm.cold_store = %L)', i, 'ahead');
        END IF;
    END LOOP;
    FOREACH t IN ARRAY ARRAY['heap', 'lsm'] LOOP
        EXECUTE format('INSERT INTO parts_%s SELECT i %% 40, i, md5(i::text) FROM generate_series(1, 8000) i', t);
        EXECUTE format('CREATE INDEX ON parts_%s (id)', t);
        EXECUTE format('ALTER TABLE ahead_%s ADD PRIMARY KEY (id)', t);
        EXECUTE format('CREATE INDEX ON ahead_%s (k, id)', t);
        EXECUTE format('CREATE INDEX ON ahead_%s (g)', t);
        EXECUTE format('CREATE INDEX ON ahead_%s ((n * 2))', t);
    END LOOP;
END $$;
SELECT count(lsm_flush(c)) FROM (SELECT oid::regclass AS c FROM pg_class WHERE relname ~ '^(ahead_lsm|parts_lsm_.)$') t;
SELECT count(lsm_major_compact(c)) FROM (SELECT oid::regclass AS c FROM pg_class WHERE relname ~ '^(ahead_lsm|parts_lsm_.)$') t;
SELECT relname, location FROM pg_class, lsm_segments(oid) WHERE relname ~ '^(ahead_lsm|parts_lsm_.)$' AND kind <> 'dead list'
    GROUP BY 1, 2 ORDER BY 1;
VACUUM ANALYZE ahead_heap, ahead_lsm, parts_heap, parts_lsm, ahead_outer;

-- Are the answers the same, and does the plan look ahead?  %s is heap or lsm.
CREATE FUNCTION ahead_same(query text) RETURNS TABLE (rows bool, same bool, ahead bool) LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb;
    answers jsonb[];
    line text;
BEGIN
    ahead := false;
    FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || replace(query, '%s', 'lsm') LOOP
        ahead := ahead OR line ~ 'LsmLookAhead';
    END LOOP;
    FOR i IN 1 .. 2 LOOP
        EXECUTE format('SELECT coalesce(jsonb_agg(q ORDER BY q::text), ''[]'') FROM (%s) q',
            replace(query, '%s', (ARRAY['heap', 'lsm'])[i])) INTO answer;
        answers[i] := answer;
    END LOOP;
    rows := jsonb_array_length(answers[1]) > 0;
    same := answers[1] = answers[2];
    RETURN NEXT;
END $$;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET enable_material = off;
SET lsm.enable_lsmscan = off;
EXPLAIN (COSTS off) SELECT o, w FROM ahead_outer o JOIN ahead_lsm t USING (id) WHERE o.o < 100 ORDER BY o;
EXPLAIN (COSTS off) SELECT o, v FROM ahead_outer o JOIN parts_lsm p USING (id) WHERE o.o < 100 ORDER BY o;

-- kinds of joins, and of keys
SELECT q, r.* FROM (VALUES
    ('SELECT o, x, w FROM ahead_outer o JOIN ahead_%s t USING (id)'),
    ('SELECT o, x, w FROM ahead_outer o LEFT JOIN ahead_%s t USING (id)'),
    ('SELECT o FROM ahead_outer o WHERE EXISTS (SELECT FROM ahead_%s t WHERE t.id = o.id AND w > ''4'')'),
    ('SELECT o FROM ahead_outer o WHERE NOT EXISTS (SELECT FROM ahead_%s t WHERE t.id = o.id AND w > ''4'')'),
    ('SELECT o, t.id, n FROM ahead_outer o JOIN ahead_%s t ON t.k = o.k'),
    ('SELECT o, t.id, n FROM ahead_outer o JOIN ahead_%s t ON t.k = o.k AND t.id > o.id'),
    ('SELECT o, t.id, n FROM ahead_outer o JOIN ahead_%s t ON t.k = o.k AND t.id > 9000'),
    ('SELECT o, t.id, n FROM ahead_outer o JOIN ahead_%s t ON t.g = o.g'),
    ('SELECT o, w FROM ahead_outer o JOIN ahead_%s t ON n * 2 = o.id'),
    ('SELECT o, w FROM ahead_outer o JOIN ahead_%s t ON t.id = o.id + 1'),
    ('SELECT a.o, b.o AS p, t.w FROM ahead_outer a LEFT JOIN ahead_outer b ON b.o = a.o + 390 LEFT JOIN ahead_%s t ON t.id = b.id'),
    ('SELECT o, t.n, u.w FROM ahead_outer o JOIN ahead_%s t USING (id) JOIN ahead_%s u ON u.k = t.k WHERE o < 40'),
    ('SELECT o, (SELECT sum(n) FROM ahead_outer p JOIN ahead_%s t ON t.id = p.id WHERE p.o BETWEEN o.o AND o.o + 9) FROM ahead_outer o WHERE o < 60'),
    ('SELECT o, w FROM (SELECT * FROM ahead_outer ORDER BY id LIMIT 50) o JOIN ahead_%s t USING (id)'),
    ('SELECT o, x, v FROM ahead_outer o JOIN parts_%s p USING (id)'),
    ('SELECT o, x, v FROM ahead_outer o LEFT JOIN parts_%s p USING (id, day)')) s (q), ahead_same(q) r;
-- an order, and a LIMIT that ends it
SELECT o, left(w, 4) AS w FROM ahead_outer o JOIN ahead_lsm t USING (id) ORDER BY o LIMIT 5;
SELECT o, left(w, 4) AS w FROM ahead_outer o JOIN ahead_heap t USING (id) ORDER BY o LIMIT 5;

-- not where an outer row that nobody comes to would be locked, or computed by what is volatile
SELECT q, r.* FROM (VALUES
    ('SELECT s.o, w FROM (SELECT o, id FROM ahead_outer OFFSET 0) s JOIN ahead_%s t USING (id)'),
    ('SELECT s.o, w FROM (SELECT o, id FROM ahead_outer FOR UPDATE SKIP LOCKED) s JOIN ahead_%s t USING (id)'),
    ('SELECT s.o, w FROM (SELECT o, id, random() < 2 AS r FROM ahead_outer OFFSET 0) s JOIN ahead_%s t USING (id) WHERE r'),
    ('SELECT o, w FROM ahead_outer o JOIN ahead_%s t USING (id) WHERE random() < 2'),
    ('SELECT o, w FROM ahead_outer o JOIN ahead_%s t USING (id) WHERE (SELECT v.x > 0 FROM (VALUES (o.o)) v (x) OFFSET 0)'),
    ('SELECT o, w FROM ahead_outer o JOIN ahead_%s t USING (id) WHERE (SELECT v.x + random() > 0 FROM (VALUES (o.o)) v (x) OFFSET 0)')) s (q), ahead_same(q) r;

-- rows that have changed, deleted ones, new ones
UPDATE ahead_heap SET w = 'new ' || id WHERE id % 3 = 0;
UPDATE ahead_lsm SET w = 'new ' || id WHERE id % 3 = 0;
UPDATE ahead_heap SET id = id + 20000 WHERE id % 5 = 0;
UPDATE ahead_lsm SET id = id + 20000 WHERE id % 5 = 0;
DELETE FROM ahead_heap WHERE id % 7 = 0;
DELETE FROM ahead_lsm WHERE id % 7 = 0;
SELECT r.* FROM ahead_same('SELECT o, x, w FROM ahead_outer o LEFT JOIN ahead_%s t USING (id)') r;
SELECT count(lsm_flush('ahead_lsm'));
SELECT r.* FROM ahead_same('SELECT o, x, w FROM ahead_outer o LEFT JOIN ahead_%s t USING (id)') r;
SELECT r.* FROM ahead_same('SELECT o, t.id, n FROM ahead_outer o JOIN ahead_%s t ON t.k = o.k AND t.id > o.id') r;

-- in statements that change or lock rows
EXPLAIN (COSTS off) UPDATE ahead_lsm t SET w = x FROM ahead_outer o WHERE o.id = t.id;
WITH c AS (UPDATE ahead_lsm t SET w = x FROM ahead_outer o WHERE o.id = t.id RETURNING t.id, w)
    SELECT count(*), sum(id), max(w) FROM c;
WITH c AS (UPDATE ahead_heap t SET w = x FROM ahead_outer o WHERE o.id = t.id RETURNING t.id, w)
    SELECT count(*), sum(id), max(w) FROM c;
BEGIN;
SELECT count(*) FROM (SELECT FROM ahead_outer o JOIN ahead_lsm t USING (id) FOR UPDATE) s;
DECLARE c SCROLL CURSOR FOR SELECT o, t.id FROM ahead_outer o JOIN ahead_lsm t USING (id) ORDER BY o;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
ROLLBACK;

-- a generic plan, parameters, none of the rows cold any more
PREPARE look (int) AS SELECT count(w), sum(o) FROM ahead_outer o JOIN ahead_lsm t USING (id) WHERE o.o < $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE look (50);
EXECUTE look (5000);
ALTER TABLE ahead_lsm RESET (lsm.cold_store);
SELECT count(lsm_major_compact('ahead_lsm'));
SELECT DISTINCT location FROM lsm_segments('ahead_lsm');
EXECUTE look (5000);
ANALYZE ahead_lsm;
EXECUTE look (5000);
RESET plan_cache_mode;
ALTER TABLE ahead_lsm SET (lsm.cold_store = 'ahead');
SELECT count(lsm_major_compact('ahead_lsm'));
EXECUTE look (5000);

-- in parallel
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS off) SELECT count(w), sum(o) FROM ahead_outer o JOIN ahead_lsm t USING (id);
SELECT r.* FROM ahead_same('SELECT count(w), sum(o) FROM ahead_outer o JOIN ahead_%s t USING (id)') r;

-- what it tells
RESET parallel_setup_cost;
CREATE FUNCTION ahead_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) ' || query LOOP
        IF line ~ 'Looked' THEN
            RETURN NEXT line;
        END IF;
    END LOOP;
END $$;
SELECT ahead_explain('SELECT o, w FROM ahead_outer o JOIN ahead_lsm t USING (id) WHERE o.o <= 20');
SET lsm.enable_lookahead = off;
SELECT ahead_explain('SELECT o, w FROM ahead_outer o JOIN ahead_lsm t USING (id) WHERE o.o <= 20');

SELECT lsm_check('ahead_lsm');
DROP TABLE ahead_heap, ahead_lsm, parts_heap, parts_lsm, ahead_outer;
DROP FUNCTION ahead_same, ahead_explain;
DROP SERVER ahead;
DO $$ BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L', 'cat; rm -r ' || current_setting('lsm_test.dir'));
END $$;
