--
-- Functions on relations that they are not for, and what is not supported
--
-- SQLSTATEs only: what matters here is which statements fail
\set VERBOSITY sqlstate
CREATE TABLE er_heap (id int PRIMARY KEY) USING heap;
CREATE TABLE er (id int PRIMARY KEY, v int) USING lsm;
CREATE VIEW er_view AS SELECT * FROM er;
CREATE SEQUENCE er_seq;

SELECT lsm_flush('er_heap');
SELECT lsm_flush('er_pkey');
SELECT lsm_flush('er_view');
SELECT lsm_flush('er_seq');
SELECT lsm_minor_compact('er_heap');
SELECT lsm_major_compact('er_view');
SELECT lsm_segments('er_heap');
SELECT lsm_check('er_heap');
SELECT lsm_check('er_pkey');
SELECT lsm_flush('nowhere');

-- who may
CREATE ROLE regress_lsm_user;
GRANT SELECT, INSERT ON er TO regress_lsm_user;
SET ROLE regress_lsm_user;
SELECT lsm_flush('er');
SELECT lsm_minor_compact('er');
SELECT lsm_major_compact('er');
SET lsm.debug_stop = 'flush-start:error';
RESET ROLE;

-- stop points take names and known actions only
SET lsm.debug_stop = 'flush-start';
SET lsm.debug_stop = 'flush-start:dance';
SET lsm.debug_stop = 'flush-start:error';
INSERT INTO er VALUES (1, 1);
SELECT lsm_flush('er');
RESET lsm.debug_stop;
SELECT count(*) AS flush FROM lsm_flush('er');
SELECT * FROM er;

-- functions that only look work in a read-only transaction
BEGIN READ ONLY;
SELECT count(*) >= 0 AS lists FROM lsm_segments('er');
SELECT count(*) FROM lsm_check('er');
SELECT count(*) FROM er;
COMMIT;

-- a table that has been dropped meanwhile
\set VERBOSITY sqlstate
SELECT lsm_flush(1);
\set VERBOSITY default
SELECT lsm_check(1);
SELECT lsm_segments(1);

DROP VIEW er_view;
DROP TABLE er, er_heap;
DROP SEQUENCE er_seq;
DROP ROLE regress_lsm_user;
