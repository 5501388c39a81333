--
-- Collations under which strings of different bytes are equal: conditions, groups, the ends of
-- a column and indexes, over a table at all its stages.  Each query has what it has of heap,
-- or its error; where the server has no ICU, they have C.
--
SET max_parallel_workers_per_gather = 0;
SET client_min_messages = warning;
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i') THEN
		CREATE COLLATION nd_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE COLLATION nd_base (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
	ELSE
		CREATE COLLATION nd_case FROM "C";
		CREATE COLLATION nd_base FROM "C";
	END IF;
END $$;
-- where there is ICU, they are what this is about
SELECT bool_and(collisdeterministic) = NOT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i' AND collname NOT LIKE 'nd%') AS as_it_should FROM pg_collation WHERE collname LIKE 'nd%';
RESET client_min_messages;

-- the same tables in two schemas
CREATE SCHEMA nd_lsm;
CREATE SCHEMA nd_heap;
CREATE FUNCTION nd_in(am text, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	PERFORM set_config('search_path', 'nd_' || am || ', public', true);
	PERFORM set_config('default_table_access_method', am, true);
	BEGIN
		EXECUTE command;
		GET DIAGNOSTICS n = ROW_COUNT;
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLERRM;
	END;
	RETURN n::text;
END $$;
-- a command does the same in both
CREATE FUNCTION nd_do(command text) RETURNS bool LANGUAGE sql AS $$
	SELECT nd_in('heap', command) = nd_in('lsm', command);
$$;
CREATE FUNCTION nd_answer(am text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('search_path', 'nd_' || am || ', public', true);
	EXECUTE query INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;

SELECT nd_do('CREATE TABLE nd (id int, s text COLLATE nd_case, a text COLLATE nd_base, v varchar(20) COLLATE nd_case, c char(8) COLLATE nd_case, d text COLLATE "C", k int) WITH (autovacuum_enabled = off)');
SELECT nd_do($$INSERT INTO nd SELECT i, CASE WHEN i % 31 > 0 THEN (ARRAY['word', 'WORD', 'Word', 'wOrD'])[1 + i % 4] || i % 37 END,
	(ARRAY['cafe', 'CAFE', 'café', 'cafE' || chr(769)])[1 + i % 4] || i % 23, (ARRAY['v', 'V'])[1 + i / 3 % 2] || i % 19, (ARRAY['c', 'C', 'c '])[1 + i % 3] || i % 7, (ARRAY['x', 'X'])[1 + i % 2] || i % 11, i % 5
	FROM generate_series(1, 3000) i$$);

CREATE TABLE nd_cond (cond text);
INSERT INTO nd_cond VALUES
	('true'), ('s = ''word7'''), ('''WORD7'' = s'), ('s <> ''WORD7'''), ('s IN (''word7'', ''Word8'', ''none'')'), ('s NOT IN (''word7'', ''Word8'')'), ('s NOT IN (''word7'', NULL)'), ('s = ANY (ARRAY(SELECT ''WORD'' || i FROM generate_series(1, 20) i))'),
	('s < ''word2'''), ('s <= ''WORD2'''), ('s > ''wORD36'''), ('s >= ''WORD36'''), ('s BETWEEN ''word2'' AND ''WORD3'''), ('s IS NULL'), ('s IS NOT NULL AND k = 2'), ('s IS DISTINCT FROM ''WORD7'''), ('s = ''word'''), ('s > ''zzz'''), ('s < ''A'''), ('s = s'),
	('s LIKE ''word7'''), ('s LIKE ''WORD1%'''), ('s NOT LIKE ''WORD1%'''), ('s ILIKE ''WORD1%'''), ('s ^@ ''WORD1'''), ('s ~ ''^WORD1'''), ('id < 0 AND s LIKE ''x%'''), ('s LIKE (SELECT ''WORD1%''::text)'),
	('s COLLATE "C" = ''word7'''), ('s COLLATE "C" LIKE ''WORD1%'''), ('s COLLATE "C" < ''WORD3'''), ('s COLLATE "C" IN (''word7'', ''WORD8'')'), ('s COLLATE nd_base = ''wörd7'''), ('s = (SELECT ''WORD7''::text)'), ('s = ''word7'' COLLATE "C"'), ('s = a'),
	('a = ''CAFÉ7'''), ('a <> ''cafe7'''), ('a IN (''cafe7'', ''CAFÉ8'')'), ('a < ''cafÉ2'''), ('a >= ''CAFE9'''), ('a COLLATE nd_case = ''CAFÉ7'''), ('a = ''cafes'''),
	('v = ''V5'''), ('v > ''V8'''), ('v IN (''V1'', ''v2'')'), ('v LIKE ''V%'''), ('v = ''v5 '''), ('c = ''C3'''), ('c = ''c3    '''), ('c = ''c 3'''), ('c IN (''C1'', ''c2'')'), ('c < ''C2'''), ('c LIKE ''C%'''), ('c::text = ''C3'''),
	('d = ''x7'''), ('d COLLATE nd_case = ''X7'''), ('d COLLATE nd_case IN (''X7'', ''x8'')'), ('d COLLATE nd_case < ''x3'''), ('d COLLATE nd_case LIKE ''X7%'''), ('d = ''x7'' COLLATE nd_case'), ('id < 100 AND s = ''WORD7'' AND k = 2'), ('id > 2900 AND a = ''CAFÉ7''');
CREATE TABLE nd_what (what text);
INSERT INTO nd_what VALUES
	('SELECT concat(count(*), '' '', sum(id)) FROM nd WHERE %s'),
	('SELECT concat(count(*), '' '', sum(hashtext(q::text)::bigint)) FROM (SELECT * FROM nd WHERE %s OFFSET 0) q'),
	('SELECT concat(count(*) FILTER (WHERE %1$s), '' '', sum(k) FILTER (WHERE %1$s)) FROM nd'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT k, count(*), sum(id) FROM nd WHERE %s GROUP BY k) q');
CREATE TABLE nd_query (query text);
INSERT INTO nd_query SELECT 'SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT count(*), sum(id), count(DISTINCT ' || e || ') FROM nd GROUP BY ' || g || ') q'
	FROM (VALUES ('s', 's'), ('a', 'a'), ('v', 'v'), ('c', 'c'), ('d', 'd'), ('d COLLATE nd_case', 'd COLLATE nd_case'), ('s COLLATE "C"', 's COLLATE "C"'), ('s', 's, k'), ('a', 's, a'), ('s', 'k')) x(e, g);
INSERT INTO nd_query SELECT format('SELECT count(*) FROM (SELECT DISTINCT %s FROM nd) q', e) FROM unnest('{s,a,v,c,d,d COLLATE nd_case,"s, a"}'::text[]) e;
INSERT INTO nd_query SELECT format('SELECT concat(count(*), '' '', sum(id)) FROM nd WHERE %1$s = (SELECT %2$s(%1$s) FROM nd WHERE id > 50)', e, f) FROM unnest('{s,a,v,c,d,d COLLATE nd_case}'::text[]) e, unnest('{min,max}'::text[]) f;
INSERT INTO nd_query VALUES
	('SELECT count(*) FROM nd x JOIN nd y ON x.s = y.s WHERE x.id < 50 AND y.id < 500'), ('SELECT count(*) FROM nd x JOIN nd y ON x.a = y.a WHERE x.id < 20'), ('SELECT count(*) FROM nd x WHERE id < 100 AND EXISTS (SELECT FROM nd y WHERE y.c = x.c AND y.id > x.id + 5)'),
	('SELECT concat(count(*), '' '', sum(id)) FROM (SELECT id FROM nd ORDER BY s, id LIMIT 500) q'), ('SELECT concat(count(*), '' '', sum(id)) FROM (SELECT id FROM nd ORDER BY a DESC, id LIMIT 500) q'), ('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT count(*), min(id) FROM nd WHERE s = ''WORD5'' GROUP BY s) q'),
	('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (SELECT count(*), min(id) FROM nd GROUP BY s HAVING s = ''WORD5'') q');
CREATE FUNCTION nd_check() RETURNS TABLE (queries bigint, wrong text) LANGUAGE sql AS $$
	SELECT count(*), string_agg(query || ': ' || concat(l, ' not ', h), E'\n') FILTER (WHERE l IS DISTINCT FROM h)
	FROM (SELECT format(what, cond) AS query FROM nd_what, nd_cond UNION ALL SELECT query FROM nd_query OFFSET 0) q, nd_answer('lsm', query) l, nd_answer('heap', query) h;
$$;

SELECT * FROM nd_check();
SELECT count(*) AS flush FROM lsm_flush('nd_lsm.nd');
SELECT * FROM nd_check();
SELECT nd_do($$UPDATE nd SET s = upper(s), a = 'CAFE' || id % 23 WHERE id % 50 = 3$$), nd_do($$UPDATE nd SET c = 'C9', d = 'X0' WHERE id % 60 = 4$$), nd_do('DELETE FROM nd WHERE id % 70 = 5');
SELECT * FROM nd_check();
SELECT count(*) AS flush FROM lsm_flush('nd_lsm.nd');
SELECT nd_do($$UPDATE nd SET v = 'V5' WHERE s = 'WORD7'$$), nd_do($$DELETE FROM nd WHERE a = 'CAFÉ9'$$), nd_do($$INSERT INTO nd SELECT i, 'Word' || i % 40, 'café' || i % 25, 'v', 'C', 'd', 1 FROM generate_series(3001, 3100) i$$);
SELECT * FROM nd_check();
SELECT count(*) AS flush FROM lsm_flush('nd_lsm.nd');
SELECT count(*) AS major FROM lsm_major_compact('nd_lsm.nd');
SELECT * FROM nd_check();
VACUUM ANALYZE nd_lsm.nd;
VACUUM ANALYZE nd_heap.nd;
SELECT * FROM nd_check();

-- by index
SELECT nd_do('CREATE INDEX nd_s ON nd (s)'), nd_do('CREATE INDEX nd_a ON nd USING hash (a)'), nd_do('CREATE INDEX nd_c ON nd (c, k)'), nd_do('CREATE INDEX nd_d ON nd (d COLLATE nd_case)'), nd_do('CREATE INDEX nd_v ON nd USING brin (v)');
SET enable_seqscan = off;
SELECT * FROM nd_check();
SET enable_indexscan = off;
SELECT * FROM nd_check();
RESET enable_seqscan;
RESET enable_indexscan;
SELECT nd_do('CREATE UNIQUE INDEX nd_unique ON nd (s)');

-- what is unique
SELECT nd_do('CREATE TABLE ndu (id int, s text COLLATE nd_case UNIQUE, a char(20) COLLATE nd_base) WITH (autovacuum_enabled = off)'), nd_do('CREATE UNIQUE INDEX ndu_a ON ndu (a)');
CREATE FUNCTION nd_unique(n int) RETURNS TABLE (command text, same bool) LANGUAGE sql AS $$
	SELECT x, nd_do(x) FROM (SELECT replace(y.x, '$', n::text) FROM unnest(ARRAY[
		$q$INSERT INTO ndu VALUES ($, 'Word$', 'é$')$q$,
		$q$INSERT INTO ndu VALUES ($ + 10, 'WORD$', 'other$')$q$,
		$q$INSERT INTO ndu VALUES ($ + 20, 'other$', 'E$ ')$q$,
		$q$INSERT INTO ndu VALUES ($ + 30, 'wORD1', 'X$') ON CONFLICT (s) DO NOTHING$q$,
		$q$INSERT INTO ndu VALUES ($ + 40, 'woRD1', 'Y$') ON CONFLICT (s) DO UPDATE SET id = EXCLUDED.id, s = EXCLUDED.s$q$,
		$q$UPDATE ndu SET s = upper(s) WHERE a = 'É1'$q$,
		$q$UPDATE ndu SET s = 'WORD1' WHERE id = $ $q$,
		$q$DELETE FROM ndu WHERE s = 'wOrD2'$q$,
		$q$INSERT INTO ndu VALUES ($ + 50, 'worD2', 'Z$')$q$]) WITH ORDINALITY y(x, o) ORDER BY o) z(x);
$$;
CREATE FUNCTION nd_rows() RETURNS bool LANGUAGE sql AS $$
	SELECT nd_answer('lsm', q) = nd_answer('heap', q) FROM (VALUES ('SELECT string_agg(ndu::text, '' '' ORDER BY id, ndu::text COLLATE "C") FROM ndu')) x(q);
$$;
SELECT * FROM nd_unique(1);
SELECT count(*) AS flush FROM lsm_flush('nd_lsm.ndu');
SELECT nd_rows(), bool_and(same) FROM nd_unique(1);
SELECT nd_rows(), bool_and(same) FROM nd_unique(2);
SELECT count(*) AS flush FROM lsm_flush('nd_lsm.ndu');
SELECT nd_rows(), bool_and(same) FROM nd_unique(2);
SELECT count(*) AS major FROM lsm_major_compact('nd_lsm.ndu');
SELECT nd_rows(), bool_and(same) FROM nd_unique(3);
VACUUM nd_lsm.ndu;
SELECT nd_rows(), bool_and(same) FROM nd_unique(3);
SELECT nd_rows();
SELECT c AS problem FROM lsm_check('nd_lsm.nd') c;
SELECT c AS problem FROM lsm_check('nd_lsm.ndu') c;

SET client_min_messages = warning;
DROP SCHEMA nd_lsm, nd_heap CASCADE;
RESET client_min_messages;
DROP TABLE nd_cond, nd_what, nd_query;
DROP FUNCTION nd_in, nd_do, nd_answer, nd_check, nd_unique, nd_rows;
DROP COLLATION nd_case, nd_base;
