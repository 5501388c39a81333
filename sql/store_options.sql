--
-- Foreign servers and user mappings of the cold store: options and rights
--
CREATE ROLE regress_lsm_store;
CREATE ROLE regress_lsm_files;
GRANT pg_read_server_files, pg_write_server_files TO regress_lsm_files;
GRANT USAGE ON FOREIGN DATA WRAPPER lsm_store TO regress_lsm_store, regress_lsm_files;

-- deleting can wait for as long as backups are kept
SELECT max_val::int8 > 3660 * 86400 AS long FROM pg_settings WHERE name = 'lsm.store_delete_delay';

-- what is missing, unknown, or of the other type
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store;
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'nfs');
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file');
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', bucket 'bkt');
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', endpoint 'https://s3.example.com');
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', endpont 'x');
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', directory '/tmp');
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', bucket 'bkt');
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', secret_access_key 'secret');
ALTER FOREIGN DATA WRAPPER lsm_store OPTIONS (ADD type 's3');

-- values: each of these is refused
CREATE FUNCTION refused(name text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    EXECUTE format('CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type %L, %I %L)',
        CASE name WHEN 'directory' THEN 'file' ELSE 's3' END, name, value);
    RETURN 'taken';
EXCEPTION WHEN fdw_invalid_attribute_value THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN SQLERRM || ' ' || detail;
END $$;
\t
\a
SELECT refused(name, value) FROM (VALUES ('prefix', '/a'), ('prefix', 'a/'), ('prefix', '../a'),
    ('endpoint', 's3.example.com'), ('endpoint', 'https://s3.example.com/x'), ('bucket', 'B'),
    ('bucket', 'ab'), ('bucket', 'a/b'), ('bucket', 'a..b'), ('region', ''), ('region', 'eu 1'),
    ('addressing', 'host'), ('signature', 'v3'), ('credentials', 'none'), ('ca_file', 'ca.pem'),
    ('proxy', 'proxy.example.com'), ('verify', 'no'), ('connect_timeout', '0'),
    ('stall_timeout', '2h'), ('request_timeout', 'long'), ('parallel_requests', '0'),
    ('parallel_requests', '257'), ('part_size', '4MB'), ('part_size', '65MB'),
    ('directory', 'a/b'), ('directory', '/' || repeat('a', 400)),
    ('directory', current_setting('data_directory') || '/cold')) v(name, value)
WHERE value !~ '/cold$';
\t
\a
SELECT refused('directory', current_setting('data_directory') || '/cold') ~ 'in the data directory';

-- and these are taken
CREATE SERVER st FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
    endpoint 'https://s3.example.com:8443', bucket 'some-bucket.1', prefix 'a/b', region 'eu-west-1',
    addressing 'virtual', signature 'v4', credentials 'mapping', ca_file '/etc/ca.pem',
    proxy 'http://proxy.example.com:3128', verify 'full', connect_timeout '500ms',
    stall_timeout '5s', request_timeout '1min', parallel_requests '8', part_size '16MB');
ALTER SERVER st OPTIONS (SET bucket 'X');
ALTER SERVER st OPTIONS (DROP endpoint);
ALTER SERVER st OPTIONS (SET type 'file');
ALTER SERVER st OPTIONS (SET verify 'end', DROP proxy, DROP credentials, DROP ca_file);

-- user mappings; no message has a secret
CREATE USER MAPPING FOR PUBLIC SERVER st OPTIONS (access_key_id 'id');
CREATE USER MAPPING FOR PUBLIC SERVER st OPTIONS (access_key_id 'id', secret_access_key 'se cret');
CREATE USER MAPPING FOR PUBLIC SERVER st OPTIONS (access_key_id 'id', secret_access_key '');
CREATE USER MAPPING FOR PUBLIC SERVER st OPTIONS (access_key_id 'id', secret_key 'secret');
CREATE USER MAPPING FOR PUBLIC SERVER st OPTIONS (access_key_id 'id', secret_access_key 'secret',
    bucket 'bkt');

-- what is needed to use it, in order: USAGE, a mapping, an endpoint that is allowed
SET ROLE regress_lsm_store;
SELECT lsm_store_check('st');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER st TO regress_lsm_store;
SET ROLE regress_lsm_store;
\set VERBOSITY sqlstate
SELECT lsm_store_check('st');
\set VERBOSITY default
RESET ROLE;
CREATE USER MAPPING FOR regress_lsm_store SERVER st OPTIONS (access_key_id 'id',
    secret_access_key 'secret', session_token 'token');
SET ROLE regress_lsm_store;
SELECT lsm_store_check('st');
SET lsm.store_allowed_endpoints = '*.example.com';
-- the options of a mapping are for its user
SELECT umoptions FROM pg_user_mappings WHERE srvname = 'st';
RESET ROLE;

-- who may set what
SET ROLE regress_lsm_store;
CREATE SERVER st2 FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
    endpoint 'https://s3.example.com', bucket 'bkt', credentials 'environment');
CREATE SERVER st2 FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
    endpoint 'https://s3.example.com', bucket 'bkt', proxy 'http://proxy.example.com');
CREATE SERVER st2 FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
    endpoint 'https://s3.example.com', bucket 'bkt', ca_file '/etc/ca.pem');
CREATE SERVER st2 FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '/tmp/lsm');
CREATE SERVER st2 FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
    endpoint 'https://s3.example.com', bucket 'bkt');
RESET ROLE;
ALTER SERVER st2 OPTIONS (ADD credentials 'environment');
SET ROLE regress_lsm_store;
ALTER SERVER st2 OPTIONS (SET endpoint 'https://s3.example.org');
SET ROLE regress_lsm_files;
CREATE SERVER st3 FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file',
    directory '/tmp/lsm there is no such directory');
SELECT lsm_store_check('st3');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER st3 TO regress_lsm_store;
SET ROLE regress_lsm_store;
SELECT lsm_store_check('st3');
RESET ROLE;

-- servers of other wrappers are no stores
CREATE FOREIGN DATA WRAPPER regress_lsm_other;
CREATE SERVER st4 FOREIGN DATA WRAPPER regress_lsm_other;
SELECT lsm_store_check('st4');
SELECT lsm_store_check('there is none');
SELECT lsm_store_check(NULL);

-- a row for each store; nothing was asked of any
SELECT servername, get_requests, put_requests, multipart_requests, list_requests,
    delete_requests, bytes_read, bytes_written, retries, request_time, stats_reset
FROM lsm_stat_store ORDER BY servername;
SELECT servername, errors, last_error FROM lsm_stat_store ORDER BY servername;
SET ROLE regress_lsm_store;
SELECT servername, errors, last_error FROM lsm_stat_store ORDER BY servername;
RESET ROLE;
SELECT lsm_stat_reset();
SELECT servername, errors, last_error, stats_reset IS NULL FROM lsm_stat_store ORDER BY servername;

DROP FOREIGN DATA WRAPPER regress_lsm_other CASCADE;
DROP SERVER st CASCADE;
DROP SERVER st2;
DROP SERVER st3;
REVOKE USAGE ON FOREIGN DATA WRAPPER lsm_store FROM regress_lsm_store, regress_lsm_files;
DROP ROLE regress_lsm_store;
DROP ROLE regress_lsm_files;
