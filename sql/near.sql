-- Rows that move, or come back after a DELETE, go to pages with rows that were near them
-- (lsm_near.c): who reads a hundred neighbours comes to few pages.
CREATE FUNCTION near_make(t text, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %s (id int, pos int, k int, t text%s) USING lsm WITH (autovacuum_enabled = off, lsm.auto_compact = off)', t, key);
	EXECUTE format('CREATE TABLE %s_heap (id int, pos int, k int, t text%s) USING heap', t, key);
	EXECUTE format('INSERT INTO %s SELECT i, i, 0, repeat(md5(i::text), 3) FROM generate_series(1, 10000) i', t);
	EXECUTE format('INSERT INTO %s_heap TABLE %1$s', t);
	EXECUTE format('CREATE INDEX ON %s (k)', t);
	EXECUTE format('CREATE INDEX ON %s (pos)', t);
	EXECUTE format('CREATE INDEX ON %s_heap (pos)', t);
	PERFORM lsm_flush(t::regclass);
END $$;
-- n rows, all over the table
CREATE PROCEDURE near_change(t text, n int, step int, change text) LANGUAGE plpgsql AS $$
DECLARE
	p int;
BEGIN
	FOR i IN 1 .. n LOOP
		p := (i::int8 * step) % 10000 + 1;
		IF change = 'move' THEN
			EXECUTE format('UPDATE %s SET k = k + 1 WHERE pos = %s', t, p);
			EXECUTE format('UPDATE %s_heap SET k = k + 1 WHERE pos = %s', t, p);
		ELSE
			EXECUTE format('WITH d AS MATERIALIZED (DELETE FROM %s WHERE pos = %s RETURNING *) SELECT FROM d', t, p);
			EXECUTE format('INSERT INTO %s SELECT id, pos, k + 1, t FROM %1$s_heap WHERE pos = %s %s', t, p, change);
			EXECUTE format('UPDATE %s_heap SET k = k + 1 WHERE pos = %s', t, p);
		END IF;
		IF i % 500 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
-- pages of a hundred neighbours, on the average
CREATE FUNCTION near_pages(t text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	EXECUTE format('SELECT avg(n) FROM (SELECT count(DISTINCT (ctid::text::point)[0]) AS n FROM %s GROUP BY (pos - 1) / 100) x', t) INTO n;
	RETURN n;
END $$;
CREATE FUNCTION near_differ(t text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('(SELECT x::text FROM %s x EXCEPT ALL SELECT x::text FROM %1$s_heap x)
		UNION ALL (SELECT x::text FROM %1$s_heap x EXCEPT ALL SELECT x::text FROM %1$s x) LIMIT 5', t);
	RETURN QUERY SELECT 'check: ' || p FROM lsm_check(t::regclass) p;
END $$;

-- by the primary key
SELECT near_make('near_key', ', PRIMARY KEY (id)');
SELECT near_pages('near_key') < 5 AS before;
CALL near_change('near_key', 10000, 7919, 'move');
SELECT near_pages('near_key') BETWEEN 2 AND 20 AS moved;
SELECT * FROM near_differ('near_key');
SELECT lsm_flush('near_key') IS NOT NULL AS flushed;
SELECT * FROM near_differ('near_key');
-- the order does not fade, as that of roots does
CALL near_change('near_key', 10000, 7901, 'move');
SELECT near_pages('near_key') BETWEEN 2 AND 20 AS moved_again;
CALL near_change('near_key', 10000, 7919, 'move');
SELECT near_pages('near_key') BETWEEN 2 AND 20 AS and_again;
SELECT * FROM near_differ('near_key');
SELECT lsm_flush('near_key') IS NOT NULL AS flushed, lsm_major_compact('near_key') IS NOT NULL AS compacted;
SELECT * FROM near_differ('near_key');
SELECT near_pages('near_key') BETWEEN 2 AND 20 AS compacted;

-- rows that come back
CALL near_change('near_key', 10000, 7901, '');
SELECT near_pages('near_key') BETWEEN 2 AND 20 AS back;
SELECT * FROM near_differ('near_key');
CALL near_change('near_key', 3000, 7919, 'ON CONFLICT DO NOTHING');
SELECT near_pages('near_key') BETWEEN 2 AND 20 AS back_by_upsert;
SELECT * FROM near_differ('near_key');
DROP TABLE near_key, near_key_heap;

-- no key, or one that is not a number: by where they were
SELECT near_make('near_root', '');
CALL near_change('near_root', 10000, 7919, 'move');
SELECT near_pages('near_root') BETWEEN 2 AND 20 AS moved;
-- who comes has been nowhere
CALL near_change('near_root', 10000, 7901, '');
SELECT near_pages('near_root') > 50 AS anywhere;
SELECT * FROM near_differ('near_root');
DROP TABLE near_root, near_root_heap;

-- a key that has nothing to do with where rows are
SELECT near_make('near_none', '');
UPDATE near_none_heap h SET id = x.id FROM (SELECT pos, row_number() OVER (ORDER BY md5(pos::text)) AS id FROM near_none_heap) x WHERE x.pos = h.pos;
TRUNCATE near_none;
INSERT INTO near_none SELECT * FROM near_none_heap ORDER BY pos;
ALTER TABLE near_none ADD PRIMARY KEY (id);
SELECT lsm_flush('near_none') IS NOT NULL AS flushed;
CALL near_change('near_none', 10000, 7919, 'move');
SELECT near_pages('near_none') BETWEEN 2 AND 20 AS moved;
SELECT * FROM near_differ('near_none');
DROP TABLE near_none, near_none_heap;

-- rows that change once, soon after they came, are where they were: no pages are lost for long
SELECT near_make('near_queue', ', PRIMARY KEY (id)');
DO $$
BEGIN
	FOR i IN 10001 .. 20000 LOOP
		INSERT INTO near_queue VALUES (i, i, 0, repeat(md5(i::text), 3));
		UPDATE near_queue SET k = 1 WHERE id = i;
	END LOOP;
END $$;
INSERT INTO near_queue_heap SELECT * FROM near_queue WHERE id > 10000;
SELECT near_pages('near_queue') < 10 AS together;
SELECT pg_relation_size('near_queue') < 2.5 * pg_relation_size('near_queue_heap') AS small;
SELECT * FROM near_differ('near_queue');

-- what is undone, rows of all lengths, other keys than the one that was deleted
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		BEGIN
			DELETE FROM near_queue WHERE id = i * 9;
			INSERT INTO near_queue VALUES (i * 9, i * 9, i, repeat('x', i * 13));
			UPDATE near_queue SET k = 7, t = repeat('y', i * 13 % 9000) WHERE id = i * 7;
			IF i % 3 = 0 THEN
				RAISE 'undo' USING errcode = 'P0009';
			END IF;
		EXCEPTION WHEN SQLSTATE 'P0009' THEN
			DELETE FROM near_queue WHERE id = i * 9;
			INSERT INTO near_queue VALUES (100000 + i, i * 9, i, 'other');
		END;
	END LOOP;
END $$;
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE t = 'other') AS others, sum(length(t)) AS len FROM near_queue;
ROLLBACK;
SELECT * FROM near_differ('near_queue');
DROP TABLE near_queue, near_queue_heap;
-- long rows between short ones, a time as the key, of a domain; few rows that move all the time
CREATE DOMAIN near_time AS timestamptz;
CREATE TABLE near_mixed (id near_time PRIMARY KEY, pos int, k int, t text) USING lsm WITH (autovacuum_enabled = off, lsm.auto_compact = off);
CREATE TABLE near_mixed_heap (id near_time PRIMARY KEY, pos int, k int, t text) USING heap;
ALTER TABLE near_mixed ALTER t SET STORAGE PLAIN;
INSERT INTO near_mixed_heap SELECT timestamptz '2026-01-01' + i * interval '1 min', i, 0, repeat('x', CASE WHEN i % 20 = 7 THEN 3000 ELSE 60 END) FROM generate_series(1, 10000) i;
INSERT INTO near_mixed TABLE near_mixed_heap;
CREATE INDEX ON near_mixed (k);
CREATE INDEX ON near_mixed (pos);
CREATE INDEX ON near_mixed_heap (pos);
SELECT lsm_flush('near_mixed') IS NOT NULL AS flushed;
CALL near_change('near_mixed', 10000, 7919, 'move');
SELECT near_pages('near_mixed') BETWEEN 2 AND 25 AS moved;
SELECT * FROM near_differ('near_mixed');
DELETE FROM near_mixed WHERE pos > 600;
SELECT lsm_flush('near_mixed') IS NOT NULL AS flushed;
SELECT pg_relation_size('near_mixed') AS before \gset
DO $$
BEGIN
	FOR i IN 1 .. 10000 LOOP
		UPDATE near_mixed SET k = k + 1 WHERE pos = (i * 7919) % 600 + 1 AND length(t) = 60;
	END LOOP;
END $$;
SELECT pg_relation_size('near_mixed') - :before < 4 * 1024 * 1024 AS small;
SELECT * FROM lsm_check('near_mixed');
DROP TABLE near_mixed, near_mixed_heap;
DROP DOMAIN near_time;

-- nothing fails for want of row identifiers that it can do without: all others come to more moves
SET lsm.debug_first_lb = -40;
CREATE TABLE near_few (id int PRIMARY KEY, k int) USING lsm WITH (autovacuum_enabled = off, lsm.auto_compact = off);
CREATE INDEX ON near_few (k);
INSERT INTO near_few SELECT i, 0 FROM generate_series(1, 5000) i;
RESET lsm.debug_first_lb;
CREATE PROCEDURE near_few_moves(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		UPDATE near_few SET k = k + 1 WHERE id = (i * 2971) % 5000 + 1;
		COMMIT;
	END LOOP;
END $$;
CALL near_few_moves(3900);
SELECT count(*), sum(k) FROM near_few;
SELECT * FROM lsm_check('near_few');
DROP TABLE near_few;
DROP PROCEDURE near_few_moves;

-- temporary and unlogged tables
CREATE TEMP TABLE near_temp (id int PRIMARY KEY, k int) USING lsm;
CREATE UNLOGGED TABLE near_unlogged (id int PRIMARY KEY, k int) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX ON near_temp (k);
CREATE INDEX ON near_unlogged (k);
INSERT INTO near_temp SELECT i, 0 FROM generate_series(1, 5000) i;
INSERT INTO near_unlogged SELECT i, 0 FROM generate_series(1, 5000) i;
DO $$
BEGIN
	FOR i IN 1 .. 6000 LOOP
		UPDATE near_temp SET k = k + 1 WHERE id = (i * 2971) % 5000 + 1;
		UPDATE near_unlogged SET k = k + 1 WHERE id = (i * 2971) % 5000 + 1;
	END LOOP;
END $$;
SELECT count(*), sum(k) FROM near_temp;
SELECT count(*), sum(k) FROM near_unlogged;
SELECT * FROM lsm_check('near_temp');
SELECT * FROM lsm_check('near_unlogged');
DROP TABLE near_temp, near_unlogged;

DROP FUNCTION near_make, near_pages, near_differ;
DROP PROCEDURE near_change;
