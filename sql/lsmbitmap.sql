--
-- LsmBitmapScan: what it shows, skips and leaves out.  (Rows: bitmap_scan, bitmap_brin.)
--
CREATE TABLE lb (id int, k int, g int, d date, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lb SELECT i, i % 100, i / 200, '2000-01-01'::date + i / 100, md5(i::text) FROM generate_series(1, 20000) i;
CREATE INDEX lb_k ON lb (k);
CREATE INDEX lb_id ON lb (id);
CREATE INDEX lb_t ON lb (t) WHERE g < 50;
VACUUM ANALYZE lb;
CREATE FUNCTION lb_explain(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	FOR r IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off' || CASE WHEN current_setting('server_version_num')::int >= 180000 THEN ', BUFFERS off) ' ELSE ') ' END || query LOOP
		IF r !~ 'Planning|Memory|Index Searches|InitPlan 1$|InitPlan 1 .returns|Result' THEN
			r := regexp_replace(r, '\$0|\(InitPlan 1\)\.col1', 'value');
			RETURN NEXT regexp_replace(regexp_replace(r, 'actual rows=(\d+)(\.00)?', 'actual rows=\1'), '(read|skipped)=[1-9]\d*', '\1=N', 'g');
		END IF;
	END LOOP;
END $$;
SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
-- many rows of a block, few of them, conditions by column and others, blocks that a zone map rules out
SELECT lb_explain('SELECT sum(id) FROM lb WHERE k < 30');
SELECT lb_explain('SELECT t FROM lb WHERE k < 30 AND g = 7 AND length(t) = 32');
SELECT lb_explain('SELECT t FROM lb WHERE k < 30 AND d = ''2000-03-01''');
SELECT lb_explain('SELECT t FROM lb WHERE id IN (5, 6, 10000)');
SELECT lb_explain('SELECT t FROM lb WHERE k = 5 AND id < 1000');
SELECT lb_explain('SELECT t FROM lb WHERE id < 300 OR k = 7 AND id < 1000');
SELECT lb_explain('SELECT count(*) FROM lb WHERE k < (SELECT 3) AND id < 500');
SELECT lb_explain('SELECT count(*) FROM lb WHERE id < 0');
-- rows with changes in increments and in the memtable, in blocks that are skipped, too
UPDATE lb SET d = '2000-03-01' WHERE id = 15001;
SELECT count(*) AS flush FROM lsm_flush('lb');
UPDATE lb SET g = -1 WHERE id = 12001;
DELETE FROM lb WHERE id = 6001;
SELECT count(*), min(id), max(id) FROM lb WHERE k < 30 AND d = '2000-03-01';
SELECT lb_explain('SELECT t FROM lb WHERE k < 30 AND d = ''2000-03-01''');
SELECT id FROM lb WHERE k < 30 AND g = -1;
-- in the other formats
CREATE FUNCTION lb_json(query text, OUT node text, OUT cond text, OUT rechecked int, OUT exact int, OUT lossy int, OUT looked_up int) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	SELECT p->>'Custom Plan Provider', p->>'Recheck Cond', p->>'Rows Removed by Index Recheck', p->>'Exact Heap Blocks', p->>'Lossy Heap Blocks', p->>'LSM Rows Looked Up'
		INTO node, cond, rechecked, exact, lossy, looked_up FROM (SELECT plan->0->'Plan') x (p);
END $$;
SELECT * FROM lb_json('SELECT * FROM lb WHERE id IN (5, 6, 10000)');
-- lossy pages: by column, with what the bitmap does not tell checked; the predicate of a partial index
SET work_mem = '64kB';
-- rows loaded in bulk fill their LBs, and there would be too few for lossy pages
SET lsm.debug_load_after = -1;
CREATE TABLE lw (id int, k int, t text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO lw SELECT i, i % 40, repeat(chr(97 + i % 26), 900) FROM generate_series(1, 12000) i;
CREATE INDEX lw_k ON lw (k) WHERE id % 3 > 0;
ANALYZE lw;
SELECT count(*) AS flush FROM lsm_flush('lw');
SELECT lossy > 0 AS lossy, rechecked > 0 AS rechecked FROM lb_json('SELECT id FROM lw WHERE k < 36 AND id % 3 > 0 AND t < ''d''');
SELECT count(*), sum(id), sum(k) FROM lw WHERE k < 36 AND id % 3 > 0 AND t < 'd';
SET enable_bitmapscan = off;
SELECT count(*), sum(id), sum(k) FROM lw WHERE k < 36 AND id % 3 > 0 AND t < 'd';
RESET enable_bitmapscan;
RESET work_mem;
-- the inner side of a join, again and again, with other values
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
EXPLAIN (COSTS off) SELECT v.x, count(b.id) FROM (VALUES (1), (50), (999)) v (x) LEFT JOIN lb b ON b.k = v.x AND b.g < v.x GROUP BY v.x;
SELECT v.x, count(b.id), sum(b.id) FROM (VALUES (1), (50), (999), (2)) v (x) LEFT JOIN lb b ON b.k = v.x AND b.g < v.x GROUP BY v.x ORDER BY v.x;
SELECT x, (SELECT count(*) FROM lb WHERE k = x AND id < 1000 * x) FROM generate_series(1, 3) x;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;
-- a security barrier comes before what a user asks
CREATE FUNCTION lb_leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'seen %', $1; RETURN true; END $$;
CREATE VIEW lb_view WITH (security_barrier) AS SELECT * FROM lb WHERE g = 3;
SELECT id FROM lb_view WHERE id IN (600, 601, 1500) AND lb_leak(t) ORDER BY id;
EXPLAIN (COSTS off) SELECT id FROM lb_view WHERE id IN (600, 601, 1500) AND t LIKE 'e%';
CREATE ROLE regress_lb;
CREATE POLICY lb_policy ON lb TO regress_lb USING (g = 3);
ALTER TABLE lb ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON lb TO regress_lb;
SET ROLE regress_lb;
SELECT id FROM lb WHERE id IN (600, 601, 1500) AND lb_leak(t) ORDER BY id;
RESET ROLE;
ALTER TABLE lb DISABLE ROW LEVEL SECURITY;
-- counted as rows fetched by an index, not as those of a sequential scan
CREATE TABLE ln (id int, k int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ln SELECT i, i % 10 FROM generate_series(1, 2000) i;
CREATE INDEX ln_k ON ln (k);
ANALYZE ln;
SELECT count(*) AS flush FROM lsm_flush('ln');
BEGIN;
SELECT seq_scan AS s, seq_tup_read AS r, idx_scan AS i, idx_tup_fetch AS f FROM pg_stat_xact_user_tables WHERE relname = 'ln' \gset
SELECT sum(id) FROM ln WHERE k = 3;
SELECT seq_scan - :s AS seq_scan, seq_tup_read - :r AS seq_tup_read, idx_scan - :i AS idx_scan, idx_tup_fetch - :f AS idx_tup_fetch
	FROM pg_stat_xact_user_tables WHERE relname = 'ln';
COMMIT;
-- cursors, LIMIT, CURRENT OF, row locks, another transaction's name for a row
BEGIN;
DECLARE k CURSOR FOR SELECT id, g FROM lb WHERE k = 3 AND id < 1000 FOR UPDATE;
FETCH 2 FROM k;
UPDATE lb SET g = g + 1000 WHERE CURRENT OF k;
FETCH 1 FROM k;
SELECT id, g FROM lb WHERE k = 3 AND id < 300 ORDER BY id;
ROLLBACK;
SELECT count(*) FROM (SELECT id FROM lb WHERE k < 50 LIMIT 10) x;
SELECT count(*) FROM lb a WHERE k = 3 AND id = (SELECT b.id FROM lb b WHERE b.ctid = a.ctid);
SELECT count(*), count(DISTINCT tableoid), count(DISTINCT ctid), bool_and(xmin::text::bigint > 0) FROM lb WHERE k = 3;
RESET enable_seqscan; RESET enable_indexscan; RESET enable_indexonlyscan;
-- partitions and inheritance
CREATE TABLE lbp (a int, b int, c text) PARTITION BY RANGE (a);
CREATE TABLE lbp1 PARTITION OF lbp FOR VALUES FROM (0) TO (1000) USING lsm;
CREATE TABLE lbp2 PARTITION OF lbp FOR VALUES FROM (1000) TO (5000) USING heap;
CREATE INDEX ON lbp (b);
INSERT INTO lbp SELECT i, i % 50, md5(i::text) FROM generate_series(1, 4999) i;
ANALYZE lbp;
SET enable_seqscan = off; SET enable_indexscan = off;
EXPLAIN (COSTS off) SELECT count(c) FROM lbp WHERE b = 7;
SELECT count(c), sum(a) FROM lbp WHERE b = 7;
RESET enable_seqscan; RESET enable_indexscan;
SELECT c AS problem FROM lsm_check('lb') c;
DROP OWNED BY regress_lb;
DROP ROLE regress_lb;
DROP VIEW lb_view;
DROP TABLE lb, lw, ln, lbp;
DROP FUNCTION lb_explain, lb_json, lb_leak;
