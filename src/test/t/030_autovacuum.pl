# What autovacuum does to lsm tables: it summarizes ranges of a BRIN index that
# asks for it, flushes and cleans tables, and comes to tables that are only inserted to.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('autovacuum');

$node->setup(conf => "autovacuum = on\nautovacuum_naptime = 1s\nmax_parallel_workers_per_gather = 0\n");

# Rows that a scan by the index of a table reads in vain: all of those in ranges
# without a summary.
$node->safe_psql('postgres', q{
	CREATE FUNCTION removed(t text) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		plan json;
	BEGIN
		SET LOCAL enable_seqscan = off;
		EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT * FROM %I WHERE id = 1000', t) INTO plan;
		RETURN plan->0->'Plan'->>'Rows Removed by Index Recheck';
	END $$;
	CREATE TABLE sum (id int, pad text) USING lsm WITH (autovacuum_enabled = off);
	CREATE TABLE plain (LIKE sum) USING lsm WITH (autovacuum_enabled = off);
	CREATE INDEX ON sum USING brin (id) WITH (pages_per_range = 2, autosummarize = on);
	CREATE INDEX ON plain USING brin (id) WITH (pages_per_range = 2);
	INSERT INTO sum SELECT i, repeat('p', 200) FROM generate_series(1, 5000) i;
	INSERT INTO plain SELECT * FROM sum});
$node->wait_until('postgres', q{SELECT removed('sum') < 1000});
is($node->safe_psql('postgres', q{SELECT removed('plain') > 4000}), 't', 'nobody has summarized an index that does not ask for it');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sum WHERE id BETWEEN 990 AND 1010'), '21', 'rows of summarized ranges are found');

# rows that come after the summary, and ranges of a flushed table
$node->safe_psql('postgres', q{
	SELECT lsm_flush('sum');
	INSERT INTO sum SELECT 10000 + i, repeat('p', 200) FROM generate_series(1, 5000) i;
	UPDATE sum SET id = 12000 WHERE id = 1001});
$node->wait_until('postgres', q{SELECT removed('sum') < 1000});
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*), min(id) FROM sum WHERE id >= 12000}),
	'3002|12000', 'and of later ones');

# VACUUM by a worker: it writes segments
$node->safe_psql('postgres', q{
	CREATE TABLE av (id int PRIMARY KEY, v int, pad text) USING lsm
		WITH (autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 10);
	INSERT INTO av SELECT i, 0, repeat('a', 200) FROM generate_series(1, 5000) i;
	UPDATE av SET v = 1;
	DELETE FROM av WHERE id % 2 = 0});
$node->wait_until('postgres', q{SELECT autovacuum_count > 0 AND autoanalyze_count > 0 FROM pg_stat_user_tables WHERE relname = 'av'});
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM lsm_segments('av')}), 't', 'a worker has flushed the table');
is($node->safe_psql('postgres', q{SELECT count(*), sum(v) FROM av}), '2500|2500', 'its rows are there');
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM av WHERE id IN (1, 2, 3, 4999)}), '3', 'by the index too');

# rows that are only inserted: they become visible to all, for index-only scans, and that is all
$node->safe_psql('postgres', q{
	CREATE TABLE ins (id int PRIMARY KEY) USING lsm
		WITH (autovacuum_vacuum_insert_threshold = 100, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_threshold = 1000000);
	INSERT INTO ins SELECT generate_series(1, 5000)});
my $inserted = q{SELECT n_ins_since_vacuum, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'ins'};
my $visible = q{SELECT relallvisible > 0 FROM pg_class WHERE relname = 'ins'};
my $vacuums = q{SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'ins'};

$node->wait_until('postgres', $visible);
$node->wait_until('postgres', q{SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 'ins'});
is($node->safe_psql('postgres', $inserted), '0|0', 'nothing is left to be counted');

# autovacuum comes to another table meanwhile, and so has looked at this one
my $before = $node->safe_psql('postgres', $vacuums);
my $others = $node->safe_psql('postgres', q{SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'av'});

$node->safe_psql('postgres', q{DELETE FROM av WHERE id % 16 = 1});
$node->wait_until('postgres', "SELECT autovacuum_count > $others FROM pg_stat_user_tables WHERE relname = 'av'");
is($node->safe_psql('postgres', $vacuums), $before, 'it does not come again');
$node->safe_psql('postgres', 'INSERT INTO ins SELECT generate_series(5001, 5200)');
$node->wait_until('postgres', "SELECT autovacuum_count > $before FROM pg_stat_user_tables WHERE relname = 'ins'");
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM ins WHERE id > 4000}), '1200', 'but for more rows');

# ---- who has to wait for its flush does not cancel it, as who wants its lock on the table does ----

$node->safe_psql('postgres', q{
	CREATE TABLE load (id int, pad text) USING lsm
		WITH (autovacuum_enabled = off, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0);
	INSERT INTO load SELECT i, 'a' FROM generate_series(1, 1000) i;
	DELETE FROM load WHERE id % 2 = 0;
	ALTER SYSTEM SET lsm.compaction_workers = 0;
	ALTER SYSTEM SET deadlock_timeout = '200ms';
	ALTER DATABASE postgres SET lsm.debug_stop = 'flush-before-swap:wait'});
$node->restart;

my $log = -s $node->logfile;
my $holder = $node->session('postgres');
my $loader = $node->session('postgres');
my $loader_pid = $node->session_pid($loader);
my $flushes = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND wait_event = 'advisory'};

$holder->query_safe('SELECT pg_advisory_lock(7107437)');
$loader->query_safe(q{SET lsm.debug_stop = ''; SET lsm.debug_load_after = 0; BEGIN});
$loader->query_safe(q{INSERT INTO load SELECT i, repeat('b', 300) FROM generate_series(1001, 21000) i});
$node->safe_psql('postgres', 'ALTER TABLE load SET (autovacuum_enabled = on)');
$node->wait_until('postgres', "SELECT ($flushes) = 1");
$node->start_query($loader, 'COMMIT');
$node->wait_until('postgres', qq{
	SELECT count(*) = 1 FROM pg_locks
	WHERE pid = $loader_pid AND NOT granted AND waitstart < clock_timestamp() - interval '1 s'});
is($node->safe_psql('postgres', $flushes), '1', 'autovacuum goes on with its flush');
$holder->query_safe('SELECT pg_advisory_unlock(7107437)');
is(($node->finish_query($loader))[1], '', 'who has loaded the table commits then');
$node->wait_until('postgres', q{SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 'load'});
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $log), qr/canceling autovacuum task/, 'it was not cancelled');
is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM load'), '20500|220260000', 'all rows are there');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET lsm.debug_stop');
$holder->quit;
$loader->quit;

$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
