/* sql/lsm--1.0.sql */

-- complain if the script is sourced in psql, rather than by CREATE EXTENSION
\echo Use "CREATE EXTENSION lsm" to load this file. \quit

CREATE FUNCTION lsm_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME', 'lsm_handler'
LANGUAGE C STRICT;

CREATE ACCESS METHOD lsm TYPE TABLE HANDLER lsm_handler;
COMMENT ON ACCESS METHOD lsm IS 'log-structured merge table access method';

/*
 * Maintenance: for owners, superusers and, from PostgreSQL 17 on, those with
 * privilege MAINTAIN.  Not in read-only transactions, on standbys or in parallel
 * workers.  AccessShareLock on the table; of calls, one job of each kind runs at a
 * time, and another one waits for it; majors of workers run beside a call, which then
 * waits for their end.  lsm_major_compact() of a table that was detached from a store
 * ends with ShareUpdateExclusiveLock and the locks of majors, if they are free, until the
 * transaction ends.  What was done stays done if the transaction is rolled back.  Counts
 * are of segments, records and bytes.
 */
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

/*
 * Monitoring.  What the columns mean, with their units, is told in README.md.
 * None of it waits for a lock.
 */

-- One row, or none: not an lsm table, or not for the user to see.  Reads metapage
-- and manifest under AccessShareLock if that is to be had at once; if not, what
-- comes from there is null.
CREATE FUNCTION lsm_stat_table("table" oid,
    OUT rows_read bigint, OUT rows_memtable bigint, OUT rows_segments bigint,
    OUT records_memtable bigint, OUT records_segments bigint,
    OUT data_blocks_read bigint, OUT data_blocks_hit bigint,
    OUT index_blocks_read bigint, OUT index_blocks_hit bigint,
    OUT read_amplification double precision,
    OUT write_amplification double precision,
    OUT space_amplification double precision,
    OUT row_ids_used double precision,
    OUT memtable_bytes bigint,
    OUT increments bigint, OUT increment_bytes bigint,
    OUT dead_versions bigint, OUT dead_rows bigint,
    OUT pinned_xid xid8, OUT pinned_pid integer, OUT pinned_by text,
    OUT flushes bigint, OUT flush_bytes_read bigint, OUT flush_bytes_written bigint,
    OUT minor_compactions bigint, OUT minor_bytes_read bigint, OUT minor_bytes_written bigint,
    OUT major_compactions bigint, OUT major_bytes_read bigint, OUT major_bytes_written bigint,
    OUT stalls bigint, OUT stall_time double precision, OUT longest_stall double precision,
    OUT errors bigint, OUT last_error text, OUT last_error_code text,
    OUT last_error_time timestamptz,
    OUT stats_reset timestamptz,
    OUT store_requests bigint, OUT store_bytes_read bigint,
    OUT version_ids_used double precision, OUT manifest_used double precision,
    OUT moves bigint, OUT moved_bytes bigint,
    OUT failures integer, OUT next_try timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_stat_table_sql'
LANGUAGE C STRICT ROWS 1;
COMMENT ON FUNCTION lsm_stat_table(oid) IS
    'statistics of a table, as in lsm_stat_tables';

-- Rows read from segments and records examined for that, by range of root
-- logical blocks, since a major compaction of the range.  No lock.
CREATE FUNCTION lsm_stat_key_ranges("table" regclass,
    OUT first_block bigint, OUT last_block bigint,
    OUT rows_read bigint, OUT records bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_stat_key_ranges_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_stat_key_ranges(regclass) IS
    'what reading the segments of a table has cost, by key range';

-- Tables of other sessions' temporary schemas are left out.  A table that the user
-- neither owns nor may SELECT from shows to members of pg_read_all_stats only.
CREATE VIEW lsm_stat_tables AS
    SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, s.*
    FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_am a ON a.oid = c.relam,
        LATERAL @extschema@.lsm_stat_table(c.oid) s
    WHERE c.relkind IN ('r', 'm') AND a.amtype = 't' AND a.amname <> 'heap'
        AND NOT pg_catalog.pg_is_other_temp_schema(c.relnamespace);
COMMENT ON VIEW lsm_stat_tables IS
    'statistics of tables of access method lsm';
GRANT SELECT ON lsm_stat_tables TO PUBLIC;

-- Flushes, compactions, moves and returns of space that run now, in all databases.  Of those of other
-- roles, only members of pg_read_all_stats see more than process and database.
CREATE FUNCTION lsm_stat_progress(
    OUT pid integer, OUT datid oid, OUT relid oid, OUT job text, OUT phase text,
    OUT segments_total bigint, OUT segments_done bigint,
    OUT records_total bigint, OUT records_done bigint,
    OUT bytes_total bigint, OUT bytes_done bigint,
    OUT job_start timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_stat_progress_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_stat_progress() IS
    'flushes, compactions, moves of segments and returns of free space that run now';

CREATE VIEW lsm_stat_progress_compaction AS
    SELECT p.pid, p.datid, d.datname, p.relid, p.job, p.phase,
        p.segments_total, p.segments_done, p.records_total, p.records_done,
        p.bytes_total, p.bytes_done, p.job_start
    FROM @extschema@.lsm_stat_progress() p
        LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;
COMMENT ON VIEW lsm_stat_progress_compaction IS
    'flushes, compactions, moves of segments and returns of free space that run now';
GRANT SELECT ON lsm_stat_progress_compaction TO PUBLIC;

-- How segments are read past shared buffers, by the whole server: a row for each
-- kind of reader and method.  No lock.
CREATE FUNCTION lsm_stat_get_io(
    OUT reader text, OUT method text,
    OUT requests bigint,
    OUT blocks_wanted bigint, OUT blocks_hit bigint, OUT blocks_merged bigint,
    OUT blocks_read_over bigint,
    OUT bytes_wanted bigint, OUT bytes_read bigint,
    OUT waits bigint, OUT max_depth bigint,
    OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_stat_get_io_sql'
LANGUAGE C STRICT ROWS 24;
COMMENT ON FUNCTION lsm_stat_get_io() IS
    'how segments are read, as in lsm_stat_io';

CREATE VIEW lsm_stat_io AS SELECT * FROM @extschema@.lsm_stat_get_io();
COMMENT ON VIEW lsm_stat_io IS
    'how segments are read past shared buffers';
GRANT SELECT ON lsm_stat_io TO PUBLIC;

-- The block cache of the server.  No lock but those of its partitions, one by one.
CREATE FUNCTION lsm_stat_get_cache(
    OUT size_bytes bigint, OUT used_bytes bigint, OUT warm_bytes bigint,
    OUT expanded_bytes bigint, OUT pinned_bytes bigint, OUT blocks bigint,
    OUT hits bigint, OUT misses bigint, OUT insertions bigint, OUT evictions bigint,
    OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'lsm_stat_get_cache_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_stat_get_cache() IS
    'the block cache, as in lsm_stat_cache';

CREATE VIEW lsm_stat_cache AS SELECT * FROM @extschema@.lsm_stat_get_cache();
COMMENT ON VIEW lsm_stat_cache IS
    'the shared cache of blocks of segments';
GRANT SELECT ON lsm_stat_cache TO PUBLIC;

/*
 * The cold store: a server of this wrapper names a place for objects, and user
 * mappings have the credentials.  There are no foreign tables.
 */
CREATE FUNCTION lsm_store_validator(text[], oid)
RETURNS void
AS 'MODULE_PATHNAME', 'lsm_store_validator'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_validator(text[], oid) IS
    'checks options of stores and of their user mappings';

CREATE FOREIGN DATA WRAPPER lsm_store VALIDATOR lsm_store_validator;
COMMENT ON FOREIGN DATA WRAPPER lsm_store IS 'cold store of lsm tables';

-- Puts, reads, lists and deletes a small object, as the current user, who needs
-- USAGE on the server.  Rows up to the first step that fails.
CREATE FUNCTION lsm_store_check(server name,
    OUT step text, OUT ok boolean, OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_store_check_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_check(name) IS
    'tests whether a store can be used';

-- Objects that nothing in this database needs: its own, those of databases that are no
-- more, and what lies there under other tokens of this system identifier, or has been adopted
-- (what a cluster from before pg_upgrade has put shows in lsm_store_claims() only, until then).
-- Removable is what this data directory has put, or this database has adopted, and nobody has
-- claimed.  For the owner of the server.
CREATE FUNCTION lsm_store_orphans(server name,
    OUT object_key text, OUT bytes bigint, OUT modified timestamptz,
    OUT database oid, OUT removable boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_store_orphans_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_orphans(name) IS
    'lists objects of a store that nothing needs';

-- Deletes those that are removable and so old; returns how many.  Waits up to 5 s for
-- standbys to come so far; ERROR (55006) if one, or a physical slot, stays behind.
CREATE FUNCTION lsm_store_remove_orphans(server name, min_age interval)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lsm_store_remove_orphans_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_remove_orphans(name, interval) IS
    'deletes objects of a store that nothing needs';

-- Claims are left in a store by databases that need objects which another data directory,
-- or another database, has put: promoted standbys, restored backups, copies.  What
-- they cover is not deleted.  claim_key is the claim, claimed the beginning of the keys of
-- what it covers, as far as that is older; claimed_here tells that this data directory has
-- put that, under the token that it has now, claimant_here that it is the one who needs it, adopts that it is not needed but
-- adopted (lsm_store_adopt).  For the owner of the server.
CREATE FUNCTION lsm_store_claims(server name,
    OUT claim_key text, OUT claimed text, OUT since timestamptz,
    OUT claimed_here boolean, OUT claimant_here boolean, OUT adopts boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lsm_store_claims_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_claims(name) IS
    'lists who needs objects of others in a store';

-- Puts the claims of this database now, as workers do when they come; returns how many it
-- has then.
CREATE FUNCTION lsm_store_claim(server name)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lsm_store_claim_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_claim(name) IS
    'claims the objects of others that this database needs';

-- Removes a claim of one who is no more.  Who lives claims again.
CREATE FUNCTION lsm_store_remove_claim(server name, claim_key text)
RETURNS void
AS 'MODULE_PATHNAME', 'lsm_store_remove_claim_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_remove_claim(name, text) IS
    'removes a claim of one who is no more from a store';

-- Adopts what somebody has put who is no more (the primary from before a failover, a data
-- directory from before pg_upgrade): workers of this database will delete what of it is older
-- than this, and not needed any more by anybody who has a claim.  Takes what the keys begin
-- with, as column claimed of lsm_store_claims() has it; returns how many objects there are.
-- ERROR if there are none (42704), or they are this data directory's own (55000).  For the
-- owner of the server.
CREATE FUNCTION lsm_store_adopt(server name, claimed text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lsm_store_adopt_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_store_adopt(name, text) IS
    'takes over objects of a store whose owner is no more';

-- Objects that nothing needs, since when, and where WAL was then.
CREATE TABLE lsm_store_queue (
    server oid NOT NULL,
    object_key text COLLATE "C" NOT NULL,
    since timestamptz NOT NULL,
    lsn pg_lsn NOT NULL,
    PRIMARY KEY (server, object_key)
) USING heap;
COMMENT ON TABLE lsm_store_queue IS
    'objects of stores that workers will delete';

CREATE FUNCTION lsm_stat_store(server oid,
    OUT get_requests bigint, OUT put_requests bigint, OUT multipart_requests bigint,
    OUT list_requests bigint, OUT delete_requests bigint,
    OUT bytes_read bigint, OUT bytes_written bigint,
    OUT retries bigint, OUT request_time double precision,
    OUT errors bigint, OUT last_error text, OUT last_error_time timestamptz,
    OUT stats_reset timestamptz,
    OUT cache_hits bigint, OUT cache_misses bigint, OUT cache_bytes bigint)
AS 'MODULE_PATHNAME', 'lsm_stat_store_sql'
LANGUAGE C STRICT;
COMMENT ON FUNCTION lsm_stat_store(oid) IS
    'statistics of a store, as in lsm_stat_store';

CREATE VIEW lsm_stat_store AS
    SELECT v.oid AS serverid, v.srvname AS servername, s.*,
        (SELECT count(*) FROM @extschema@.lsm_store_queue q WHERE q.server = v.oid) AS queue_length
    FROM pg_catalog.pg_foreign_server v
        JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = v.srvfdw,
        LATERAL @extschema@.lsm_stat_store(v.oid) s
    WHERE w.fdwname = 'lsm_store';
COMMENT ON VIEW lsm_stat_store IS
    'statistics of stores';
GRANT SELECT ON lsm_stat_store TO PUBLIC;

-- All tables and stores of the current database, lsm_stat_io and lsm_stat_cache.  For
-- superusers, unless it is granted.
CREATE FUNCTION lsm_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'lsm_stat_reset_sql'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION lsm_stat_reset() FROM PUBLIC;
COMMENT ON FUNCTION lsm_stat_reset() IS
    'sets the statistics of all lsm tables and stores of the current database, lsm_stat_io and lsm_stat_cache to zero';
