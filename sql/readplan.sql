--
-- Which requests read the blocks that are wanted.  The functions used here are in
-- the library for this test only; what the words mean is told in
-- lsm_test_readplan.c.
--
CREATE FUNCTION lsm_test_readplan(text) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_readplan_random(seed int, rounds int) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
\pset format unaligned
\pset tuples_only on

-- nothing is wanted, or nothing is missing
SELECT lsm_test_readplan('extent=100+50 max=64 gap=8');
SELECT lsm_test_readplan('extent=100+50 max=64 gap=8 0-1c 2-3c');
-- one block: exactly its pages
SELECT lsm_test_readplan('extent=100+50 max=64 gap=8 7-9');
-- neighbours are joined, sharing a page or not
SELECT lsm_test_readplan('extent=100+50 max=64 gap=0 0-2 2-4 5-6');
-- up to so many pages
SELECT lsm_test_readplan('extent=100+50 max=5 gap=0 0-2 2-4 5-6');
SELECT lsm_test_readplan('extent=100+50 max=4 gap=0 0-2 2-4 5-6');
-- a block that is larger is not divided
SELECT lsm_test_readplan('extent=100+50 max=4 gap=0 0-9 9-10');
-- 0: one run a block
SELECT lsm_test_readplan('extent=100+50 max=0 gap=8 0-2 2-4 5-6');
-- cached blocks between two missing ones are read over, not at the ends
SELECT lsm_test_readplan('extent=100+50 max=64 gap=2 0-1c 2-3 4-5c 6-7 8-9c');
-- if they are not too long
SELECT lsm_test_readplan('extent=100+50 max=64 gap=1 2-3 4-5c 6-7');
-- a page that a cached block shares with missing ones is not between them
SELECT lsm_test_readplan('extent=100+50 max=64 gap=1 2-3 3-5c 5-7');
SELECT lsm_test_readplan('extent=100+50 max=64 gap=0 2-3 3-5c 5-7');
-- so are large values
SELECT lsm_test_readplan('extent=100+50 max=64 gap=4 0-1 6-7 13-14');
-- requests end with their extent
SELECT lsm_test_readplan('extent=100+3 extent=500+20 max=64 gap=0 0-1 1-2 3-4');
SELECT lsm_test_readplan('extent=100+3 extent=500+20 max=64 gap=0 1-4');
-- and at the border of a file (131072 pages)
SELECT lsm_test_readplan('extent=131070+20 max=64 gap=0 0-1 1-2 3-4');
-- outside
SELECT lsm_test_readplan('extent=100+3 max=64 gap=0 1-3');

-- properties
SELECT lsm_test_readplan_random(1, 20000);
SELECT lsm_test_readplan_random(2, 20000);

DROP FUNCTION lsm_test_readplan, lsm_test_readplan_random;
