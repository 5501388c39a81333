/* sql/lsm--1.0.sql */

-- complain if the script is sourced in psql, rather than by CREATE EXTENSION
\echo Use "CREATE EXTENSION lsm" to load this file. \quit

CREATE FUNCTION lsm_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME', 'lsm_handler'
LANGUAGE C STRICT;

CREATE ACCESS METHOD lsm TYPE TABLE HANDLER lsm_handler;
COMMENT ON ACCESS METHOD lsm IS 'log-structured merge table access method';

CREATE FUNCTION lsm_flush("table" regclass,
    OUT segments_in bigint, OUT segments_out bigint,
    OUT rows_in bigint, OUT rows_out bigint,
    OUT bytes_read bigint, OUT bytes_written bigint)
AS 'MODULE_PATHNAME', 'lsm_flush_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_flush(regclass) IS
    'writes what is in the memtable of a table to segments';

CREATE FUNCTION lsm_minor_compact("table" regclass,
    OUT segments_in bigint, OUT segments_out bigint,
    OUT rows_in bigint, OUT rows_out bigint,
    OUT bytes_read bigint, OUT bytes_written bigint)
AS 'MODULE_PATHNAME', 'lsm_minor_compact_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_minor_compact(regclass) IS
    'merges the increments of a table into fewer increments';

CREATE FUNCTION lsm_major_compact("table" regclass,
    OUT segments_in bigint, OUT segments_out bigint,
    OUT rows_in bigint, OUT rows_out bigint,
    OUT bytes_read bigint, OUT bytes_written bigint)
AS 'MODULE_PATHNAME', 'lsm_major_compact_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_major_compact(regclass) IS
    'merges the increments of a table into its baseline';

CREATE FUNCTION lsm_segments("table" regclass,
    OUT segment_id bigint, OUT level integer, OUT kind text,
    OUT first_tid tid, OUT last_tid tid,
    OUT rows bigint, OUT versions bigint, OUT blocks bigint,
    OUT raw_bytes bigint, OUT stored_bytes bigint,
    OUT all_visible boolean, OUT location text, OUT object_key text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_segments_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_segments(regclass) IS
    'lists the segments of a table';

CREATE FUNCTION lsm_check("table" regclass, OUT problem text)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'lsm_check_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_check(regclass) IS
    'verifies a table: one row for each problem found';

CREATE FUNCTION lsm_options("table" regclass,
    OUT option text, OUT value text, OUT source text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_options_sql'
LANGUAGE C STRICT STABLE;
COMMENT ON FUNCTION lsm_options(regclass) IS
    'lists the options of a table';

CREATE VIEW lsm_table_options AS
    SELECT c.oid::regclass AS "table", o.option, o.value, o.source
    FROM pg_catalog.pg_class c, LATERAL @extschema@.lsm_options(c.oid) o
    WHERE c.relkind IN ('r', 'm');
COMMENT ON VIEW lsm_table_options IS
    'options of tables of access method lsm';
GRANT SELECT ON lsm_table_options TO PUBLIC;
