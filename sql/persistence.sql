--
-- Temporary and unlogged tables, materialized views
--
CREATE TEMP TABLE pe_temp (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO pe_temp SELECT i, i FROM generate_series(1, 1000) i;
UPDATE pe_temp SET v = v + 1 WHERE id % 2 = 0;
SELECT count(*) AS flush FROM lsm_flush('pe_temp');
DELETE FROM pe_temp WHERE id % 5 = 0;
SELECT count(*), sum(v) FROM pe_temp;
SELECT count(*) AS flush FROM lsm_flush('pe_temp');
SELECT count(*) AS major FROM lsm_major_compact('pe_temp');
SELECT count(*), sum(v) FROM pe_temp;
SELECT c AS problem FROM lsm_check('pe_temp') c;
-- an open cursor of ours while space is freed and used again
BEGIN;
DECLARE c CURSOR FOR SELECT id, v FROM pe_temp;
SELECT count(*) AS major FROM lsm_major_compact('pe_temp');
UPDATE pe_temp SET v = 0;
SELECT count(*) AS flush FROM lsm_flush('pe_temp');
UPDATE pe_temp SET v = -1;
SELECT count(*) AS major FROM lsm_major_compact('pe_temp');
DO $$
DECLARE
	c refcursor := 'c';
	r record;
	n int := 0;
	s int := 0;
BEGIN
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		n := n + 1;
		s := s + r.v;
	END LOOP;
	RAISE NOTICE 'rows %, sum %', n, s;
END $$;
COMMIT;
SELECT count(*), sum(v) FROM pe_temp;
CREATE TEMP TABLE pe_drop (id int) USING lsm ON COMMIT DROP;
CREATE TEMP TABLE pe_rows (id int) USING lsm ON COMMIT DELETE ROWS;
INSERT INTO pe_rows VALUES (1);
SELECT count(*) FROM pe_rows;
BEGIN;
INSERT INTO pe_rows SELECT generate_series(1, 100);
SELECT count(*) AS flush FROM lsm_flush('pe_rows');
SELECT count(*) FROM pe_rows;
COMMIT;
SELECT count(*) FROM pe_rows;

CREATE UNLOGGED TABLE pe_unlogged (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO pe_unlogged SELECT i, i FROM generate_series(1, 1000) i;
UPDATE pe_unlogged SET v = v + 1 WHERE id % 2 = 0;
SELECT count(*) AS flush FROM lsm_flush('pe_unlogged');
UPDATE pe_unlogged SET v = v + 1 WHERE id % 4 = 0;
SELECT count(*) AS major FROM lsm_major_compact('pe_unlogged');
SELECT count(*), sum(v) FROM pe_unlogged;
SELECT c AS problem FROM lsm_check('pe_unlogged') c;
ALTER TABLE pe_unlogged SET LOGGED;
SELECT count(*), sum(v) FROM pe_unlogged;
ALTER TABLE pe_unlogged SET UNLOGGED;
SELECT count(*), sum(v) FROM pe_unlogged;

CREATE TABLE pe_src (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO pe_src SELECT i, i FROM generate_series(1, 100) i;
CREATE MATERIALIZED VIEW pe_mv USING lsm AS SELECT id, v FROM pe_src;
CREATE UNIQUE INDEX pe_mv_id ON pe_mv (id);
SELECT count(*), sum(v) FROM pe_mv;
UPDATE pe_src SET v = v + 1 WHERE id < 50;
DELETE FROM pe_src WHERE id > 90;
INSERT INTO pe_src VALUES (200, 200);
SELECT count(*) AS flush FROM lsm_flush('pe_mv');
REFRESH MATERIALIZED VIEW pe_mv;
SELECT count(*), sum(v) FROM pe_mv;
UPDATE pe_src SET v = v + 1 WHERE id < 20;
SELECT count(*) AS flush FROM lsm_flush('pe_mv');
REFRESH MATERIALIZED VIEW CONCURRENTLY pe_mv;
SELECT count(*), sum(v) FROM pe_mv;
SELECT count(*) AS major FROM lsm_major_compact('pe_mv');
SELECT count(*), sum(v) FROM pe_mv;
SELECT c AS problem FROM lsm_check('pe_mv') c;
DROP MATERIALIZED VIEW pe_mv;
DROP TABLE pe_temp, pe_rows, pe_unlogged, pe_src;
