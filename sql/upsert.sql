--
-- INSERT ... ON CONFLICT
--
CREATE TABLE us (id int PRIMARY KEY, u int UNIQUE, v int, t text) USING lsm;
CREATE UNIQUE INDEX us_t ON us (lower(t)) WHERE v > 0;

INSERT INTO us VALUES (1, 1, 1, 'a') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO us VALUES (1, 5, 1, 'b') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO us VALUES (2, 1, 1, 'b') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO us VALUES (1, 9, 10, 'a') ON CONFLICT (id) DO UPDATE SET v = us.v + excluded.v RETURNING *;
INSERT INTO us VALUES (3, 1, 10, 'c') ON CONFLICT (u) DO UPDATE SET v = us.v + excluded.v RETURNING *;
INSERT INTO us VALUES (4, 4, 10, 'A') ON CONFLICT (lower(t)) WHERE v > 0 DO UPDATE SET v = us.v + excluded.v RETURNING *;
SELECT count(*) AS flush FROM lsm_flush('us');
INSERT INTO us VALUES (1, 9, 100, 'a') ON CONFLICT (id) DO UPDATE SET v = us.v + excluded.v RETURNING *;
INSERT INTO us VALUES (1, 9, 100, 'a') ON CONFLICT (id) DO UPDATE SET v = 0 WHERE us.v > 10000 RETURNING *;
INSERT INTO us SELECT i, i, 1, 't' || i FROM generate_series(1, 10) i ON CONFLICT (id) DO UPDATE SET v = us.v + 1000;
SELECT * FROM us ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('us');
INSERT INTO us SELECT i, i, 1, 't' || i FROM generate_series(5, 15) i ON CONFLICT DO NOTHING;
INSERT INTO us SELECT i, i, 1, 't' || i FROM generate_series(14, 18) i ON CONFLICT (u) DO UPDATE SET id = us.id + 100;
SELECT count(*) AS minor FROM lsm_minor_compact('us');
SELECT * FROM us ORDER BY id;
-- the same row twice
INSERT INTO us VALUES (50, 50, 1, 'x'), (50, 50, 2, 'y') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO us VALUES (50, 50, 1, 'x'), (50, 50, 2, 'y') ON CONFLICT DO NOTHING;
SELECT * FROM us WHERE id = 50;
-- a conflict with another index than the one named
INSERT INTO us VALUES (51, 50, 1, 'z') ON CONFLICT (id) DO UPDATE SET v = 0;
-- deleted, rolled back, and made by the same transaction
BEGIN;
DELETE FROM us WHERE id = 50;
INSERT INTO us VALUES (50, 50, 3, 'x') ON CONFLICT (id) DO UPDATE SET v = -1 RETURNING *;
SELECT count(*) AS flush FROM lsm_flush('us');
INSERT INTO us VALUES (50, 50, 3, 'x') ON CONFLICT (id) DO UPDATE SET v = us.v + 1 RETURNING *;
ROLLBACK;
INSERT INTO us VALUES (50, 50, 3, 'x') ON CONFLICT (id) DO UPDATE SET v = us.v + 1 RETURNING *;
SELECT count(*) AS major FROM lsm_major_compact('us');
SELECT * FROM us ORDER BY id;
VACUUM us;
SELECT count(*), sum(v) FROM us;
SELECT c AS problem FROM lsm_check('us') c;
-- one that fails for another index, and ends with its subtransaction, keeps nothing from being
-- flushed while the transaction goes on
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		BEGIN
			INSERT INTO us VALUES (1000 + i, 50, 1, 'z') ON CONFLICT (id) DO NOTHING;
		EXCEPTION WHEN unique_violation THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT count(*) AS flush FROM lsm_flush('us');
SELECT memtable_bytes FROM lsm_stat_tables WHERE relname = 'us';
COMMIT;
SELECT c AS problem FROM lsm_check('us') c;
DROP TABLE us;

-- an INSERT that is not decided is seen by no scan of its own transaction, whatever its token:
-- the first of a session is 1, as is the second command's id
\c -
CREATE TABLE ut (id int, v int) USING lsm;
CREATE UNIQUE INDEX ut_id ON ut (id);
CREATE FUNCTION ut_seen(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
	seen int;
BEGIN
	SELECT count(*) INTO seen FROM public.ut;
	RAISE NOTICE 'row %: % seen', $1, seen;
	RETURN $1;
END $$;
CREATE INDEX ON ut (ut_seen(v));
BEGIN;
INSERT INTO ut VALUES (1, 1);
INSERT INTO ut VALUES (2, 2);
INSERT INTO ut VALUES (3, 3) ON CONFLICT (id) DO NOTHING;
SET LOCAL lsm.enable_lsmscan = off;
INSERT INTO ut VALUES (4, 4) ON CONFLICT (id) DO NOTHING;
COMMIT;
SELECT * FROM ut ORDER BY id;
DROP TABLE ut;
DROP FUNCTION ut_seen(int);
