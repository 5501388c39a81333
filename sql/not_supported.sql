--
-- What is not supported says so, and leaves the table as it was
--
-- SQLSTATEs only: 0A000 is feature_not_supported
\set VERBOSITY sqlstate
CREATE TABLE ns (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO ns VALUES (1, 1), (2, 2);
SELECT count(*) AS flush FROM lsm_flush('ns');
SELECT * FROM ns ORDER BY id;
SELECT c AS problem FROM lsm_check('ns') c;
DROP TABLE ns;
