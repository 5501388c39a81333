-- Orders by distance: rows that an index scan keeps back until their turn comes, with names.
-- (Of heap tables the server loses these, too, so they are no measure here.)
\set VERBOSITY terse
CREATE TABLE distance_heap (id int, c circle, t text) USING heap;
INSERT INTO distance_heap
  SELECT i, circle(point(i % 50 + i / 7000.0, i / 50), i % 7 + 1), 't' || i FROM generate_series(1, 2000) i;
CREATE TABLE distance_lsm (id int, c circle, t text) USING lsm;
INSERT INTO distance_lsm SELECT * FROM distance_heap;
CREATE INDEX ON distance_heap USING gist (c);
CREATE INDEX ON distance_lsm USING gist (c);
ANALYZE distance_heap, distance_lsm;
SET enable_seqscan = off;
SET enable_sort = off;

-- without names the index gives the order
EXPLAIN (COSTS OFF) SELECT id, tableoid FROM distance_lsm ORDER BY c <-> point '(33.3,4.4)' LIMIT 5;
SELECT count(*), sum(round(d)) FROM
  (SELECT c <-> point '(33.3,4.4)' AS d FROM distance_lsm ORDER BY 1 LIMIT 1500) s;
SELECT count(*), sum(round(d)) FROM
  (SELECT c <-> point '(33.3,4.4)' AS d FROM distance_heap ORDER BY 1 LIMIT 1500) s;

-- rows that are locked
SELECT count(*) FROM
  (SELECT id FROM distance_lsm ORDER BY c <-> point '(33.3,4.4)' LIMIT 1500 FOR UPDATE) s;

-- names and system columns
SELECT count(DISTINCT name) FROM
  (SELECT ctid AS name FROM distance_lsm ORDER BY c <-> point '(33.3,4.4)' LIMIT 1500) s;
SELECT count(x) FROM
  (SELECT xmin AS x FROM distance_lsm ORDER BY c <-> point '(33.3,4.4)' LIMIT 1500) s;
SELECT count(o) FROM
  (SELECT (SELECT h.id FROM distance_heap h WHERE h.id = l.id AND l.ctid IS NOT NULL) AS o
   FROM distance_lsm l ORDER BY l.c <-> point '(33.3,4.4)' LIMIT 1500) s;

-- changes
WITH changed AS (
  UPDATE distance_lsm SET t = 'near' WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM distance_lsm ORDER BY c <-> point '(33.3,4.4)' LIMIT 1500)) RETURNING id)
SELECT count(*) FROM changed;

DROP TABLE distance_heap, distance_lsm;
