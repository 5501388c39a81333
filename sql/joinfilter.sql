-- Scans that leave out rows which hash joins above them have no match for
SET enable_nestloop = off;
SET enable_mergejoin = off;
SET max_parallel_workers_per_gather = 0;
SET enable_partitionwise_join = off;
SET jit = off;

-- Does a query give the same with filters and without?  And did any scan leave rows out, or blocks?
CREATE FUNCTION joinfilter_count(plan json, counter text) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((plan ->> counter)::bigint, 0) +
        coalesce((SELECT sum(joinfilter_count(child, counter)) FROM json_array_elements(plan -> 'Plans') child), 0)::bigint
$$;
CREATE FUNCTION joinfilter_check(query text, OUT same boolean, OUT filtered boolean, OUT skipped boolean, OUT rows bigint) LANGUAGE plpgsql AS $$
DECLARE
    sum_with text;
    sum_without text;
    answer text := format('SELECT count(*) || '' '' || coalesce(sum(hashtextextended(q::text, 0)), 0) FROM (%s) q', query);
    plan json;
BEGIN
    SET LOCAL lsm.enable_joinfilter = on;
    EXECUTE answer INTO sum_with;
    EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
    SET LOCAL lsm.enable_joinfilter = off;
    EXECUTE answer INTO sum_without;
    same := sum_with = sum_without;
    filtered := joinfilter_count(plan -> 0 -> 'Plan', 'LSM Rows Without Match') > 0;
    skipped := joinfilter_count(plan -> 0 -> 'Plan', 'LSM Blocks Skipped') > 0;
    rows := split_part(sum_with, ' ', 1)::bigint;
    RESET lsm.enable_joinfilter;
END $$;

CREATE TABLE joinfilter_fact (id int, k4 int, k8 bigint, k2 smallint, ko oid, kn numeric, kt text, v text) USING lsm;
INSERT INTO joinfilter_fact
    SELECT i, CASE WHEN i % 11 <> 0 THEN i % 5000 - 2500 END, (i % 5000 - 2500) * 10000000000, i % 5000 - 2500, i % 5000,
        i % 5000, i % 5000, 'row ' || i
    FROM generate_series(1, 40000) i;
CREATE TABLE joinfilter_dim (d4 int, d8 bigint, d2 smallint, o oid, n numeric, t text, w text) USING lsm;
INSERT INTO joinfilter_dim
    SELECT i, i * 10000000000, i, i + 2500, i + 2500, i + 2500, 'dim ' || i FROM generate_series(-2600, 2600, 50) i;
INSERT INTO joinfilter_dim VALUES (NULL, NULL, NULL, NULL, NULL, NULL, 'none'), (7, 70000000000, 7, 2507, 2507, '2507', 'again'), (7, 70000000000, 7, 2507, 2507, '2507', 'again');
DO $$ BEGIN
    PERFORM lsm_flush('joinfilter_fact'), lsm_major_compact('joinfilter_fact'), lsm_flush('joinfilter_dim');
END $$;
VACUUM ANALYZE joinfilter_fact, joinfilter_dim;

EXPLAIN (COSTS OFF)
SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON f.k4 = d.d4;

-- kinds of keys
SELECT key, (joinfilter_check(format('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON %s', key))).*
FROM unnest(ARRAY['f.k4 = d.d4', 'f.k8 = d.d8', 'f.k2 = d.d2', 'f.ko = d.o', 'f.k4 = d.d8', 'f.k4 = d.d2', 'f.k2 = d.d4',
                  'f.k2 = d.d8', 'f.k8 = d.d4', 'f.k4 = d.d4 AND f.k8 = d.d8', 'f.k4 = d.d4 AND f.k2 = d.d2 AND f.ko = d.o',
                  'f.kn = d.n', 'f.kt = d.t', 'f.k4 + 1 = d.d4', 'f.k4 = d.d4 AND f.kt = d.t',
                  'f.k4 = d.d4 AND f.id > d.d2 * 10']) key;

-- kinds of joins: those that keep rows without a match must not lose them
SELECT kind, (joinfilter_check(format('SELECT f.v, d.w FROM joinfilter_fact f %s JOIN joinfilter_dim d ON f.k4 = d.d4', kind))).same,
    (joinfilter_check(format('SELECT f.v, d.w FROM joinfilter_dim d %s JOIN joinfilter_fact f ON f.k4 = d.d4', kind))).same AS same_turned
FROM unnest(ARRAY['INNER', 'LEFT', 'RIGHT', 'FULL']) kind;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f LEFT JOIN joinfilter_dim d ON f.k4 = d.d4');
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f RIGHT JOIN joinfilter_dim d ON f.k4 = d.d4');
SELECT * FROM joinfilter_check('SELECT f.v FROM joinfilter_fact f WHERE k4 IN (SELECT d4 FROM joinfilter_dim)');
SELECT * FROM joinfilter_check('SELECT f.v FROM joinfilter_fact f WHERE NOT EXISTS (SELECT FROM joinfilter_dim WHERE d4 = k4)');
SELECT * FROM joinfilter_check('SELECT d.w FROM joinfilter_dim d WHERE EXISTS (SELECT FROM joinfilter_fact WHERE d4 = k4)');
SELECT same, rows FROM joinfilter_check('SELECT d.w FROM joinfilter_dim d WHERE NOT EXISTS (SELECT FROM joinfilter_fact WHERE d4 = k4)');

-- blocks whose zones have no key
CREATE TABLE joinfilter_sorted (k4 int, k8 bigint, k2 smallint, ko oid, day date, kn int, v text, at timestamp, attz timestamptz) USING lsm;
INSERT INTO joinfilter_sorted
    SELECT i - 20000, (i - 20000) * 10000000000, i / 10 - 2000, 2147473648::bigint + i, date '2000-01-01' + i / 10, CASE WHEN i % 2 = 0 THEN i - 20000 END, 'row ' || i,
        timestamp '1999-12-31' + i * interval '1 minute', timestamptz '1999-12-31 00:00+00' + i * interval '1 minute'
    FROM generate_series(1, 40000) i;
DO $$ BEGIN PERFORM lsm_flush('joinfilter_sorted'), lsm_major_compact('joinfilter_sorted'); END $$;
VACUUM ANALYZE joinfilter_sorted;
CREATE TABLE joinfilter_days (day date) USING lsm;
INSERT INTO joinfilter_days SELECT date '2001-01-01' + i * 1000 FROM generate_series(0, 3) i;
CREATE TABLE joinfilter_times (at timestamp, attz timestamptz) USING lsm;
INSERT INTO joinfilter_times VALUES ('1999-12-31 00:07', '1999-12-31 00:07+00'), ('2000-01-02', '2000-01-02 00:00+00'), ('infinity', '-infinity'), (NULL, NULL);
ANALYZE joinfilter_days, joinfilter_times;
SELECT key, (joinfilter_check(format('SELECT f.v, d.w FROM joinfilter_sorted f JOIN joinfilter_dim d ON %s', key))).*
FROM unnest(ARRAY['f.k4 = d.d4', 'f.k8 = d.d8', 'f.k2 = d.d2', 'f.k4 = d.d8', 'f.k4 = d.d2', 'f.k2 = d.d8', 'f.k8 = d.d4', 'f.kn = d.d4',
                  'f.k4 = d.d4 AND f.k8 = d.d8', 'f.k4 = d.d4 + 1']) key;
SELECT * FROM joinfilter_check('SELECT f.v FROM joinfilter_sorted f JOIN (SELECT (2147483648::bigint + i)::oid AS o FROM generate_series(-5000, 5000, 1000) i OFFSET 0) d ON ko = o');
SELECT * FROM joinfilter_check('SELECT f.v FROM joinfilter_sorted f JOIN joinfilter_days d ON f.day = d.day');
SELECT * FROM joinfilter_check('SELECT f.v FROM joinfilter_sorted f JOIN joinfilter_times d ON f.at = d.at');
SELECT * FROM joinfilter_check('SELECT f.v FROM joinfilter_sorted f JOIN joinfilter_times d ON f.attz = d.attz');
-- more than are kept one by one
CREATE TABLE joinfilter_half (i int) USING lsm;
INSERT INTO joinfilter_half SELECT i FROM generate_series(-1000, 19000) i;
ANALYZE joinfilter_half;
SELECT * FROM joinfilter_check('SELECT f.v FROM joinfilter_sorted f JOIN joinfilter_half d ON k4 = i');
-- rows of such blocks that have changed
BEGIN;
UPDATE joinfilter_sorted SET k4 = 50 WHERE k4 = 15000;
UPDATE joinfilter_sorted SET k4 = 15000 WHERE k4 = 100;
UPDATE joinfilter_sorted SET v = 'changed' WHERE k4 IN (150, 15001);
DELETE FROM joinfilter_sorted WHERE k4 IN (200, 15002);
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_sorted f JOIN joinfilter_dim d ON k4 = d4');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_sorted f JOIN joinfilter_dim d ON k4 = d4');
COMMIT;
DO $$ BEGIN PERFORM lsm_flush('joinfilter_sorted'); END $$;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_sorted f JOIN joinfilter_dim d ON k4 = d4');
SELECT f.v, d.w FROM joinfilter_sorted f JOIN joinfilter_dim d ON k4 = d4 WHERE d4 IN (50, 100, 150, 200) ORDER BY 1, 2;
-- a column with a default that old rows lack
ALTER TABLE joinfilter_sorted ADD COLUMN added int DEFAULT 50;
UPDATE joinfilter_sorted SET added = k4 WHERE k4 < 0;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_sorted f JOIN joinfilter_dim d ON added = d4');
DO $$ BEGIN PERFORM lsm_flush('joinfilter_sorted'), lsm_major_compact('joinfilter_sorted'); END $$;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_sorted f JOIN joinfilter_dim d ON added = d4');

-- conditions of the scan, and what is between it and the join
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4 WHERE f.id < 30000 AND f.v LIKE ''row 1%''');
SELECT * FROM joinfilter_check('SELECT f.v, d.w, e.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d.d4
    JOIN (SELECT * FROM joinfilter_dim WHERE d2 % 100 = 0) e ON f.k8 = e.d8');
SELECT * FROM joinfilter_check('SELECT f.v, d.w, e.w FROM joinfilter_fact f LEFT JOIN joinfilter_dim d ON k4 = d.d4
    JOIN (SELECT * FROM joinfilter_dim WHERE d2 % 100 = 0) e ON f.k8 = e.d8');
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM (SELECT * FROM joinfilter_fact ORDER BY id OFFSET 0) f JOIN joinfilter_dim d ON k4 = d4');
SELECT * FROM joinfilter_check('SELECT f.v, f.n, d.w FROM (SELECT v, k4, count(*) OVER (PARTITION BY v) AS n FROM joinfilter_fact) f JOIN joinfilter_dim d ON k4 = d4');
SELECT * FROM joinfilter_check('SELECT f.n, d.w FROM (SELECT k4, count(*) AS n FROM joinfilter_fact GROUP BY k4 OFFSET 0) f JOIN joinfilter_dim d ON k4 = d4');
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM (SELECT * FROM joinfilter_fact LIMIT 20000) f JOIN joinfilter_dim d ON k4 = d4');

-- nothing volatile is called less often
CREATE SEQUENCE joinfilter_calls;
SELECT count(*) FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4 WHERE nextval('joinfilter_calls') + f.id > 0 AND f.id % 2 = 0;
SELECT last_value FROM joinfilter_calls;

SELECT count(*) FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4 WHERE (SELECT nextval('joinfilter_calls') + v.x - v.x FROM (VALUES (f.id)) v (x)) > 0 AND f.id % 2 = 0;
SELECT last_value FROM joinfilter_calls;

-- xid8 has no sign
CREATE TABLE joinfilter_xid8 (x xid8) USING lsm;
INSERT INTO joinfilter_xid8 SELECT (CASE WHEN i % 50 = 0 THEN '18446744073709551615' ELSE i::text END)::xid8 FROM generate_series(1, 50000) i;
SELECT count(*) FROM lsm_flush('joinfilter_xid8');
SELECT count(*) FROM lsm_major_compact('joinfilter_xid8');
CREATE TEMP TABLE joinfilter_xids (x xid8);
INSERT INTO joinfilter_xids VALUES ('40001'), ('49999');
ANALYZE joinfilter_xids;
SELECT count(*) FROM joinfilter_xid8 JOIN joinfilter_xids USING (x);
DROP TABLE joinfilter_xid8, joinfilter_xids;

-- hash tables without rows, and with more than are in memory
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4 WHERE d.w = ''no such''');
SET work_mem = '64kB';
SELECT same, rows FROM joinfilter_check('SELECT f.v, g.v FROM joinfilter_fact f JOIN joinfilter_fact g ON f.k8 = g.k8 AND g.id < 20000 WHERE f.id % 4 = 0');
RESET work_mem;

-- the same plan with other hash tables: joins that are begun anew
SELECT * FROM joinfilter_check('SELECT s, (SELECT count(*) FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4 WHERE d.o BETWEEN s AND s + 600)
    FROM generate_series(0, 3000, 500) s');
SELECT * FROM joinfilter_check('SELECT s, (SELECT count(*) FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4 WHERE f.id > s)
    FROM generate_series(0, 30000, 5000) s');
-- not where a sort gives the same rows again for another hash table
SET enable_nestloop = on;
SET enable_material = off;
SET enable_memoize = off;
SELECT * FROM joinfilter_check('SELECT s, (SELECT count(*) FROM (SELECT d4 FROM joinfilter_dim LIMIT 2) a LEFT JOIN
    (SELECT * FROM (SELECT * FROM joinfilter_fact ORDER BY id OFFSET 0) f JOIN joinfilter_dim d ON k4 = d4 WHERE d.d2 BETWEEN s AND s + 600 OFFSET 0) b ON true)
    FROM generate_series(-2500, 2000, 500) s');
EXPLAIN (COSTS OFF) SELECT s, (SELECT count(*) FROM (SELECT d4 FROM joinfilter_dim LIMIT 2) a LEFT JOIN
    (SELECT * FROM (SELECT * FROM joinfilter_fact ORDER BY id OFFSET 0) f JOIN joinfilter_dim d ON k4 = d4 WHERE d.d2 BETWEEN s AND s + 600 OFFSET 0) b ON true)
    FROM generate_series(-2500, 2000, 500) s;
RESET enable_material;
RESET enable_memoize;
SET enable_nestloop = off;
BEGIN;
DECLARE c CURSOR FOR SELECT f.id, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4;
MOVE 500 IN c;
MOVE 500 IN c;
MOVE ALL IN c;
COMMIT;

-- changed rows, and rows in the row log
UPDATE joinfilter_fact SET k4 = 50 WHERE id % 1000 = 1;
UPDATE joinfilter_fact SET v = 'changed' WHERE id % 100 = 2;
DELETE FROM joinfilter_fact WHERE id % 10 = 3;
INSERT INTO joinfilter_fact SELECT i, i % 300, i, i % 300, i % 300, i, i, 'new ' || i FROM generate_series(50001, 52000) i;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4');
ALTER TABLE joinfilter_fact ADD COLUMN added int DEFAULT 50;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON added = d4');
DO $$ BEGIN PERFORM lsm_flush('joinfilter_fact'); END $$;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4');
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON added = d4');

-- partitions, bitmap scans, row locks
CREATE TABLE joinfilter_parts (id int, k int, v text) PARTITION BY RANGE (id);
CREATE TABLE joinfilter_parts1 PARTITION OF joinfilter_parts FOR VALUES FROM (0) TO (10000) USING lsm;
CREATE TABLE joinfilter_parts2 (v text, gone int, k int, id int) USING lsm;
ALTER TABLE joinfilter_parts2 DROP COLUMN gone;
ALTER TABLE joinfilter_parts ATTACH PARTITION joinfilter_parts2 FOR VALUES FROM (10000) TO (20000);
CREATE TABLE joinfilter_parts3 PARTITION OF joinfilter_parts FOR VALUES FROM (20000) TO (30000) USING heap;
INSERT INTO joinfilter_parts SELECT i, i % 5000 - 2500, 'row ' || i FROM generate_series(0, 29999) i;
CREATE INDEX ON joinfilter_parts1 (id);
DO $$ BEGIN PERFORM lsm_flush('joinfilter_parts1'), lsm_flush('joinfilter_parts2'); END $$;
VACUUM ANALYZE joinfilter_parts;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_parts f JOIN joinfilter_dim d ON k = d4');
SELECT * FROM joinfilter_check('SELECT f.v, d.v AS w FROM joinfilter_fact f JOIN joinfilter_parts d ON k4 = d.k AND d.id % 500 = 0');
SET enable_seqscan = off;
SET enable_indexscan = off;
SELECT * FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_parts1 f JOIN joinfilter_dim d ON k = d4 WHERE f.id < 6000');
RESET enable_seqscan;
RESET enable_indexscan;
SELECT count(*) FROM (SELECT f.v FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4 WHERE f.id < 20000 FOR UPDATE OF f) q;

-- parallel plans: hash tables of each process, and of all
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT same, rows FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4');
SELECT same, rows FROM joinfilter_check('SELECT f.v, g.v FROM joinfilter_fact f JOIN joinfilter_fact g ON f.k8 = g.k8 WHERE g.id % 500 = 0');
SET enable_parallel_hash = off;
SELECT same, rows FROM joinfilter_check('SELECT f.v, d.w FROM joinfilter_fact f JOIN joinfilter_dim d ON k4 = d4');
DROP TABLE joinfilter_fact, joinfilter_dim, joinfilter_parts, joinfilter_sorted, joinfilter_days, joinfilter_times, joinfilter_half;
DROP SEQUENCE joinfilter_calls;
DROP FUNCTION joinfilter_check, joinfilter_count;
