--
-- DELETE, and rows that come back under the same key
--
CREATE TABLE del (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO del SELECT i, 'row ' || i FROM generate_series(1, 30) i;

DELETE FROM del WHERE id = 1;
DELETE FROM del WHERE id IN (2, 3) RETURNING *;
DELETE FROM del WHERE id = 1;
UPDATE del SET v = 'four' WHERE id = 4;
DELETE FROM del WHERE id = 4 RETURNING *;
SELECT count(*), min(id) FROM del;
INSERT INTO del VALUES (1, 'again');
SELECT * FROM del WHERE id <= 5 ORDER BY id;

SELECT count(*) AS flush FROM lsm_flush('del');
SELECT * FROM del WHERE id <= 5 ORDER BY id;
DELETE FROM del WHERE id BETWEEN 6 AND 10;
INSERT INTO del VALUES (2, 'two again'), (6, 'six again');
SELECT id, v FROM del WHERE id <= 11 ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('del');
SELECT id, v FROM del WHERE id <= 11 ORDER BY id;
SELECT count(*) AS minor FROM lsm_minor_compact('del');
SELECT id, v FROM del WHERE id <= 11 ORDER BY id;
SET enable_seqscan = off;
SELECT id, v FROM del WHERE id IN (1, 2, 3, 6, 7, 11) ORDER BY id;
RESET enable_seqscan;
SELECT count(*) AS major FROM lsm_major_compact('del');
SELECT id, v FROM del WHERE id <= 11 ORDER BY id;

-- delete and rollback, with a flush inside
BEGIN;
DELETE FROM del;
SELECT count(*) FROM del;
SELECT count(*) AS flush FROM lsm_flush('del');
SELECT count(*) AS major FROM lsm_major_compact('del');
SELECT count(*) FROM del;
ROLLBACK;
SELECT count(*), sum(id) FROM del;
SELECT count(*) AS major FROM lsm_major_compact('del');
SELECT count(*), sum(id) FROM del;

-- a row made, changed and deleted by one transaction
BEGIN;
INSERT INTO del VALUES (50, 'short life');
UPDATE del SET v = 'shorter' WHERE id = 50;
SELECT count(*) AS flush FROM lsm_flush('del');
DELETE FROM del WHERE id = 50 RETURNING *;
SELECT * FROM del WHERE id = 50;
INSERT INTO del VALUES (50, 'second life');
SELECT * FROM del WHERE id = 50;
COMMIT;
SELECT count(*) AS flush FROM lsm_flush('del');
SELECT * FROM del WHERE id = 50;

-- DELETE ... USING, and from a join with itself
CREATE TABLE del_ids (id int) USING lsm;
INSERT INTO del_ids VALUES (20), (21), (21), (99);
WITH gone AS (DELETE FROM del USING del_ids WHERE del.id = del_ids.id RETURNING del.id)
	SELECT * FROM gone ORDER BY id;
WITH gone AS (DELETE FROM del d USING del d2 WHERE d2.id = d.id + 1 AND d.id > 25 RETURNING d.id)
	SELECT * FROM gone ORDER BY id;
SELECT count(*), sum(id) FROM del;
WITH gone AS (DELETE FROM del WHERE id > 20 RETURNING id)
	SELECT count(*), (SELECT count(*) FROM del) AS before FROM gone;
SELECT count(*), sum(id) FROM del;

-- all rows; vacuum; and use again
DELETE FROM del;
SELECT count(*) AS flush FROM lsm_flush('del');
SELECT count(*) AS minor FROM lsm_minor_compact('del');
SELECT count(*) AS major FROM lsm_major_compact('del');
SELECT count(*) FROM del;
VACUUM del;
SELECT count(*) FROM del;
INSERT INTO del SELECT i, 'new ' || i FROM generate_series(1, 5) i;
SELECT * FROM del ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('del');
SELECT * FROM del ORDER BY id;

-- a queue: rows come and go
DO $$
BEGIN
	FOR i IN 1 .. 500 LOOP
		INSERT INTO del VALUES (1000 + i, 'queued');
		IF i > 10 THEN
			DELETE FROM del WHERE id = (SELECT min(id) FROM del);
		END IF;
		IF i % 100 = 0 THEN
			PERFORM lsm_flush('del');
		END IF;
		IF i % 250 = 0 THEN
			PERFORM lsm_minor_compact('del');
		END IF;
	END LOOP;
END $$;
SELECT count(*), min(id), max(id) FROM del;
SELECT count(*) AS major FROM lsm_major_compact('del');
SELECT count(*), min(id), max(id) FROM del;

SELECT c AS problem FROM lsm_check('del') c;
SELECT c AS problem FROM lsm_check('del_ids') c;
DROP TABLE del, del_ids;
