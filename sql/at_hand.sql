-- rows that are changed right after they were read: the version is taken from the slot that has
-- read it (lsm_slot.c), so it must be the one that is meant
SET default_table_access_method = lsm;
CREATE TABLE ah (id int PRIMARY KEY, a int, b text, c numeric, d text DEFAULT 'd') WITH (autovacuum_enabled = off);
INSERT INTO ah SELECT i, i, 'b' || i, i / 10.0 FROM generate_series(1, 2000) i;
SELECT count(*) AS flush FROM lsm_flush('ah');
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- from a block, then as a DELTA on it, then in turn with other columns; of one transaction
BEGIN;
UPDATE ah SET a = a + 1 WHERE id = 7;
UPDATE ah SET a = a + 1, b = b || '+' WHERE id = 7;
UPDATE ah SET c = NULL WHERE id = 7;
UPDATE ah SET c = 1.25, b = NULL WHERE id = 7;
SELECT * FROM ah WHERE id = 7;
COMMIT;
UPDATE ah SET a = a + 1, b = 'new' WHERE id = 7 RETURNING *;
UPDATE ah SET d = d || a WHERE id BETWEEN 6 AND 8;
SELECT * FROM ah WHERE id BETWEEN 6 AND 8;

-- a column that versions are older than, and one that is dropped
ALTER TABLE ah ADD COLUMN e text DEFAULT 'missing';
UPDATE ah SET a = -a WHERE id IN (7, 9) RETURNING *;
ALTER TABLE ah DROP COLUMN b;
UPDATE ah SET e = e || '!' WHERE id IN (7, 9, 10) RETURNING *;
SELECT * FROM ah WHERE id IN (7, 9, 10);

-- the row is found by a cursor, and changed by a subtransaction that is rolled back
BEGIN;
DECLARE cur CURSOR FOR SELECT * FROM ah WHERE id = 20 FOR UPDATE;
FETCH cur;
SAVEPOINT s;
UPDATE ah SET a = 1000 WHERE CURRENT OF cur;
SELECT a FROM ah WHERE id = 20;
ROLLBACK TO s;
UPDATE ah SET a = a + 1 WHERE CURRENT OF cur;
SELECT a FROM ah WHERE id = 20;
SAVEPOINT s;
UPDATE ah SET a = 2000 WHERE id = 20;
UPDATE ah SET a = a + 1 WHERE id = 20;
ROLLBACK TO s;
UPDATE ah SET c = a WHERE id = 20;
COMMIT;
SELECT a, c FROM ah WHERE id = 20;

-- a function changes other rows, or the row, while it is being changed
CREATE FUNCTION ah_change(which int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE ah SET a = a + 100 WHERE id = which;
	RETURN which;
END $$;
UPDATE ah SET a = a + ah_change(id + 1) WHERE id IN (30, 32);
SELECT id, a FROM ah WHERE id BETWEEN 30 AND 33;
UPDATE ah SET a = a + ah_change(id) WHERE id = 30;
SELECT id, a FROM ah WHERE id = 30;
DELETE FROM ah WHERE id = 34 AND ah_change(35) > 0 RETURNING id, a;
SELECT id, a FROM ah WHERE id IN (34, 35);

-- triggers that see the old row, and change the new one, or the row itself
CREATE FUNCTION ah_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF tg_when = 'AFTER' THEN
		RAISE NOTICE '% % -> %', tg_op, old, new;
		RETURN NULL;
	END IF;
	IF old.id = 41 THEN
		PERFORM ah_change(42);
	END IF;
	IF tg_op = 'DELETE' THEN
		RETURN old;
	END IF;
	new.d := 'by trigger, was ' || old.d;
	RETURN new;
END $$;
CREATE TRIGGER before BEFORE UPDATE OR DELETE ON ah FOR EACH ROW WHEN (old.id > 40) EXECUTE FUNCTION ah_trigger();
CREATE TRIGGER after AFTER UPDATE OR DELETE ON ah FOR EACH ROW WHEN (old.id > 40) EXECUTE FUNCTION ah_trigger();
UPDATE ah SET a = a * 2 WHERE id IN (41, 43);
DELETE FROM ah WHERE id IN (41, 43);
DROP TRIGGER before ON ah;
DROP TRIGGER after ON ah;
SELECT * FROM ah WHERE id BETWEEN 40 AND 44;

-- two scans of the table in one plan
UPDATE ah SET a = o.a * 10 FROM ah o WHERE ah.id = 50 AND o.id = 51;
UPDATE ah SET a = ah.a + o.a FROM ah o WHERE ah.id = 52 AND o.id = ah.id;
UPDATE ah SET a = (SELECT a FROM ah o WHERE o.id = ah.id + 1) WHERE id IN (54, 56);
SELECT id, a FROM ah WHERE id BETWEEN 50 AND 57;
MERGE INTO ah USING (VALUES (60, 1), (61, 2), (3000, 3)) v (id, a) ON ah.id = v.id
	WHEN MATCHED AND v.a = 1 THEN DELETE
	WHEN MATCHED THEN UPDATE SET a = ah.a + v.a
	WHEN NOT MATCHED THEN INSERT (id, a) VALUES (v.id, v.a);
INSERT INTO ah (id, a) VALUES (62, 5) ON CONFLICT (id) DO UPDATE SET a = ah.a + excluded.a;
SELECT * FROM ah WHERE id IN (60, 61, 62, 3000);

-- values that are stored by themselves
CREATE TABLE ah_large (id int PRIMARY KEY, n int, v text) WITH (autovacuum_enabled = off);
ALTER TABLE ah_large ALTER v SET STORAGE EXTERNAL;
INSERT INTO ah_large SELECT i, i, repeat(md5(i::text), 500) FROM generate_series(1, 20) i;
SELECT count(*) AS flush FROM lsm_flush('ah_large');
UPDATE ah_large SET n = n + 1 WHERE id = 3;
UPDATE ah_large SET n = n + 1 WHERE id = 3;
UPDATE ah_large SET v = v || 'x' WHERE id = 3;
UPDATE ah_large SET n = n + 1, v = v || 'y' WHERE id IN (3, 4);
SELECT id, n, length(v), md5(v) = md5(repeat(md5(id::text), 500) || CASE id WHEN 3 THEN 'xy' ELSE 'y' END) AS right
FROM ah_large WHERE id IN (3, 4);

-- and all of it is the same when it has been merged
SELECT count(*) AS flush FROM lsm_flush('ah');
SELECT count(*) AS compact FROM lsm_major_compact('ah');
SELECT id, a, c, d, e FROM ah WHERE id <= 62 AND (a <> id OR d <> 'd' OR e <> 'missing') ORDER BY id;
SELECT lsm_check(c) FROM (VALUES ('ah'::regclass), ('ah_large')) t (c);
DROP TABLE ah, ah_large;
DROP FUNCTION ah_change, ah_trigger;
