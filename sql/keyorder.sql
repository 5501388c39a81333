-- LsmKeyOrder: the outer rows of nested loops in the order of what they look up.  Plans with and
-- without it have the same rows.
SET lsm.debug_keyorder_pages = 0;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
SET max_parallel_workers_per_gather = 0;
SET work_mem = '64kB';

CREATE TABLE ko_in (id int PRIMARY KEY, b bigint, t text COLLATE "C", n numeric, v int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ko_in SELECT i, i, 'key ' || i, i, i % 100 FROM generate_series(1, 20000) i;
CREATE INDEX ko_in_b ON ko_in (b, v);
CREATE INDEX ko_in_t ON ko_in (t);
CREATE INDEX ko_in_n ON ko_in (n);
SELECT lsm_flush('ko_in') IS NOT NULL AS flushed;
CREATE TABLE ko_out (k int, c text COLLATE "C", wide text, at int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ko_out SELECT CASE WHEN i % 50 > 0 THEN hashint4(i) & 32767 END, 'key ' || (hashint4(i) & 32767), repeat('w', 100), i FROM generate_series(1, 5000) i;
VACUUM ANALYZE ko_in;
VACUUM ANALYZE ko_out;

-- The plan; whether there is a node; whether both ways give the same rows, and how many.
CREATE FUNCTION ko_same(query text) RETURNS TABLE (ordered bool, rows bigint, same bool) LANGUAGE plpgsql AS $$
DECLARE
    line text;
    with_node text;
    without text;
BEGIN
    ordered := false;
    FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
        ordered := ordered OR line ~ 'LsmKeyOrder';
    END LOOP;
    EXECUTE format('SELECT count(*), md5(string_agg(q::text, '';'' ORDER BY q::text)) FROM (%s) q', query) INTO rows, with_node;
    PERFORM set_config('lsm.enable_keyorder', 'off', true);
    EXECUTE format('SELECT md5(string_agg(q::text, '';'' ORDER BY q::text)) FROM (%s) q', query) INTO without;
    PERFORM set_config('lsm.enable_keyorder', 'on', true);
    same := with_node IS NOT DISTINCT FROM without;
    RETURN NEXT;
END $$;

EXPLAIN (COSTS off) SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.id = o.k;
SELECT * FROM ko_same('SELECT o.at, i.v, o.wide FROM ko_out o JOIN ko_in i ON i.id = o.k');
-- rows that have none, keys that are null
SELECT * FROM ko_same('SELECT o.at, i.v, o.k FROM ko_out o LEFT JOIN ko_in i ON i.id = o.k');
SELECT * FROM ko_same('SELECT o.at FROM ko_out o WHERE EXISTS (SELECT FROM ko_in i WHERE i.id = o.k AND i.v < 50)');
SELECT * FROM ko_same('SELECT o.at FROM ko_out o WHERE NOT EXISTS (SELECT FROM ko_in i WHERE i.id = o.k AND i.v < 50)');
-- keys of another type, of a type by reference, text, several columns, an index without the table
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.b = o.k');
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.b = o.k AND i.v = o.at % 100');
SELECT * FROM ko_same('SELECT o.at, i.b FROM ko_out o JOIN ko_in i ON i.b = o.k');
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.t = o.c');
SELECT * FROM ko_same('SELECT o.at, i.v FROM (SELECT at, k::numeric AS n FROM ko_out OFFSET 0) o JOIN ko_in i ON i.n = o.n');
-- of a type that only stands for the index's, of arrays
CREATE DOMAIN ko_domain AS int;
CREATE TABLE ko_types (k ko_domain, c varchar(30) COLLATE "C", a int[], at int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ko_types SELECT k, c, ARRAY[k, k], at FROM ko_out;
CREATE TABLE ko_arrays (a int[], v int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ko_arrays SELECT ARRAY[id, id], v FROM ko_in;
CREATE INDEX ON ko_arrays (a);
VACUUM ANALYZE ko_types;
VACUUM ANALYZE ko_arrays;
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_types o JOIN ko_in i ON i.id = o.k');
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_types o JOIN ko_in i ON i.t = o.c');
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_types o JOIN ko_arrays i ON i.a = o.a');
DROP TABLE ko_types, ko_arrays;
DROP DOMAIN ko_domain;
-- its first rows come as they are, the others in order
SELECT bool_and(at = number) AS first FROM (SELECT o.at, row_number() OVER () AS number FROM (SELECT o.at FROM ko_out o LEFT JOIN ko_in i ON i.id = o.k) o) q WHERE number <= 64;
SELECT count(*) FILTER (WHERE k < before) < 100 AS in_order FROM (SELECT k, lag(k) OVER () AS before FROM (SELECT o.k FROM ko_out o JOIN ko_in i ON i.id = o.k) q) q WHERE before IS NOT NULL;
SET lsm.enable_keyorder = off;
SELECT count(*) FILTER (WHERE k < before) < 100 AS in_order FROM (SELECT k, lag(k) OVER () AS before FROM (SELECT o.k FROM ko_out o JOIN ko_in i ON i.id = o.k) q) q WHERE before IS NOT NULL;
RESET lsm.enable_keyorder;

-- what it has done
CREATE FUNCTION ko_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) ' || query LOOP
        IF line ~ 'LsmKeyOrder|Sorted' THEN
            RETURN NEXT regexp_replace(line, 'rows=(\d+)\.00', 'rows=\1');
        END IF;
    END LOOP;
END $$;
SELECT ko_explain('SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.id = o.k');

-- run again and again
SELECT * FROM ko_same('SELECT g, (SELECT sum(i.v) FROM ko_out o JOIN ko_in i ON i.id = o.k WHERE o.at > g * 100) FROM generate_series(1, 40) g');
SELECT * FROM ko_same('SELECT g, s FROM generate_series(1, 40) g, LATERAL (SELECT sum(i.v) AS s FROM ko_out o JOIN ko_in i ON i.id = o.k WHERE o.at BETWEEN g AND g * g) q');
-- joins of joins
SELECT * FROM ko_same('SELECT o.at, i.v, j.id FROM ko_out o JOIN ko_in i ON i.id = o.k JOIN ko_in j ON j.b = i.id + 0 JOIN ko_in l ON l.id = o.at');

-- not where somebody may want few rows, sees them in some order, or would see what comes of them
EXPLAIN (COSTS off) SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.id = o.k LIMIT 5;
EXPLAIN (COSTS off) DECLARE c CURSOR FOR SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.id = o.k;
EXPLAIN (COSTS off) SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.id = o.k WHERE random() < 2;
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.id = o.k WHERE o.at < 10');
CREATE INDEX ko_out_at ON ko_out (at);
SELECT bool_and(at > before) FROM (SELECT at, lag(at) OVER () AS before FROM (SELECT o.at FROM ko_out o JOIN ko_in i ON i.id = o.k ORDER BY o.at) q) q WHERE before IS NOT NULL;

-- into partitions, some of which are heap's; of several processes
CREATE TABLE ko_parts (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE ko_parts_1 PARTITION OF ko_parts FOR VALUES FROM (0) TO (10000) USING heap;
CREATE TABLE ko_parts_2 PARTITION OF ko_parts FOR VALUES FROM (10000) TO (40000) USING lsm;
ALTER TABLE ko_parts ADD PRIMARY KEY (id);
INSERT INTO ko_parts SELECT id, v FROM ko_in;
VACUUM ANALYZE ko_parts;
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_out o JOIN ko_parts i ON i.id = o.k');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM ko_same('SELECT o.at, i.v FROM ko_out o JOIN ko_in i ON i.id = o.k');
RESET max_parallel_workers_per_gather;

-- what is changed by a join
BEGIN;
UPDATE ko_in i SET v = o.at FROM ko_out o WHERE o.k = i.id AND o.at % 2 = 0;
SELECT count(*) FROM ko_in i WHERE EXISTS (SELECT FROM ko_out o WHERE o.k = i.id AND o.at = i.v);
DELETE FROM ko_out o USING ko_in i WHERE i.id = o.k AND i.v % 2 = 0;
SELECT count(*) > 0 AS some, bool_and(i.v % 2 <> 0) AS odd FROM ko_out o JOIN ko_in i ON i.id = o.k;
ROLLBACK;

DROP TABLE ko_in, ko_out, ko_parts;
DROP FUNCTION ko_same, ko_explain;
