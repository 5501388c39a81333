-- Records of the WAL, packed and unpacked: src/test/lsm_test_walpack.c.
CREATE FUNCTION lsm_test_walpack_random(seed int, rounds int) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_walpack_update(lb int) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
SELECT lsm_test_walpack_random(1, 20000), lsm_test_walpack_random(2, 20000);
SELECT lsm_test_walpack_update(0), lsm_test_walpack_update(1000), lsm_test_walpack_update(10000000);
DROP FUNCTION lsm_test_walpack_random, lsm_test_walpack_update;
