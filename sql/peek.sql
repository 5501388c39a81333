--
-- Rows are found in a memtable without a lock, also while its memory becomes another's.
--
CREATE FUNCTION lsm_test_peek(regclass, tries int) RETURNS bool LANGUAGE c STRICT AS 'lsm';
CREATE TABLE peek (id int PRIMARY KEY, v int) USING lsm WITH (lsm.auto_compact = off);
INSERT INTO peek SELECT g, g FROM generate_series(1, 30000) g;
SELECT lsm_flush('peek') IS NOT NULL AS flushed;
UPDATE peek SET v = -v WHERE id <= 20000;
SELECT lsm_test_peek('peek', 500000);
SELECT count(*), sum(v) FROM peek;
DROP TABLE peek;
DROP FUNCTION lsm_test_peek;
