--
-- A condition raises no error for rows that are not there, or that another one before it
-- rules out, as in heap
--
SET max_parallel_workers_per_gather = 0;
CREATE TABLE ce (id int, a int, s text) USING lsm WITH (autovacuum_enabled = off);
CREATE TABLE ce_heap (LIKE ce);
INSERT INTO ce_heap SELECT i, 1, CASE i WHEN 1500 THEN 'abcX' ELSE 'x' || i % 10 END FROM generate_series(1, 3000) i;
INSERT INTO ce SELECT * FROM ce_heap ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT count(*) AS major FROM lsm_major_compact('ce');

-- the pattern's end is an error where a value has got so far
CREATE FUNCTION ce_query(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE query INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION ce_queries() RETURNS TABLE (query text, result text, same bool) LANGUAGE sql AS $$
	SELECT q, r, r IS NOT DISTINCT FROM ce_query(replace(q, 'ce', 'ce_heap'))
	FROM unnest(ARRAY[
		$q$SELECT count(*) FROM ce WHERE s LIKE 'abc\'$q$,
		$q$SELECT id FROM ce WHERE s LIKE 'abc\'$q$,
		$q$SELECT count(*) FROM ce WHERE a > 0 AND s LIKE 'abc\'$q$,
		$q$SELECT count(*) FROM ce WHERE id < 1000 AND s LIKE 'abc\'$q$,
		$q$SELECT sum(id) FROM ce WHERE s LIKE 'abc%'$q$,
		$q$SELECT sum(a) FROM ce WHERE s LIKE 'x7%' AND id > 100$q$,
		$q$SELECT sum(id) FROM ce WHERE a > 0 AND s LIKE 'x7%' AND id > 100$q$]) WITH ORDINALITY x(q, n), ce_query(q) r ORDER BY n;
$$;
CREATE FUNCTION ce_both(change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(change, 'ce', 'ce_heap');
	EXECUTE change;
END $$;
SELECT * FROM ce_queries();

-- an update of another column: the row is there
BEGIN;
SELECT ce_both('UPDATE ce SET a = 2 WHERE id % 50 = 0');
SELECT * FROM ce_queries();
-- but a condition before it rules it out
SELECT ce_both('UPDATE ce SET a = 0 WHERE id = 1500');
SELECT * FROM ce_queries();
ROLLBACK;

-- deleted rows, some of them in the memtable, then in an increment
SELECT ce_both('DELETE FROM ce WHERE id % 100 = 0');
SELECT * FROM ce_queries();
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT * FROM ce_queries();
SELECT ce_both('UPDATE ce SET a = 3 WHERE id % 30 = 7');
SELECT * FROM ce_queries();
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT * FROM ce_queries();
SELECT count(*) AS major FROM lsm_major_compact('ce');
SELECT * FROM ce_queries();

-- of two rows one is there
SELECT ce_both('INSERT INTO ce SELECT i, 1, ''abcY'' FROM generate_series(3001, 3002) i');
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT count(*) AS major FROM lsm_major_compact('ce');
SELECT ce_both('DELETE FROM ce WHERE id = 3001');
SELECT * FROM ce_queries();
SELECT ce_both('DELETE FROM ce WHERE id = 3002');
SELECT * FROM ce_queries();

-- rows that were never there: their changes end none
BEGIN;
SELECT ce_both('INSERT INTO ce SELECT i, 1, CASE i WHEN 5000 THEN ''abcZ'' ELSE ''x7'' END FROM generate_series(4001, 7000) i');
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT ce_both('UPDATE ce SET a = 2 WHERE id % 50 = 0');
SELECT count(*) AS flush FROM lsm_flush('ce');
SELECT count(*) FROM ce WHERE a = 2;
ROLLBACK;
SELECT * FROM ce_queries();
SELECT c AS problem FROM lsm_check('ce') c;

DROP TABLE ce, ce_heap;
DROP FUNCTION ce_query(text);
DROP FUNCTION ce_queries();
DROP FUNCTION ce_both(text);
