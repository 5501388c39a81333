# Which database a worker is started for where there are fewer workers than databases.
#
# Workers are held by stop points, which a database has as a setting: sessions of the test
# that work there do without.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('launcher');

$node->setup(conf => q{
autovacuum = off
fsync = off
lsm.compaction_log_min_duration = 0
lsm.compaction_naptime = 3600
max_worker_processes = 2
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
});

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub set_workers
{
	my ($n) = @_;

	psql("ALTER SYSTEM SET lsm.compaction_workers = $n");
	$node->reload;
	$node->wait_until('postgres', "SELECT current_setting('lsm.compaction_workers') = '$n'");
	return;
}

# A database whose workers stop there.
sub make_database
{
	my ($db, $stop) = @_;

	psql("CREATE DATABASE $db");
	psql("ALTER DATABASE $db SET lsm.debug_stop = '$stop'");
	held_psql($db, 'CREATE EXTENSION lsm');
	return;
}

sub held_psql
{
	my ($db, $sql) = @_;

	return $node->safe_psql($db, "SET lsm.debug_stop = ''; $sql");
}

# A table that needs a major compaction.
sub make_work
{
	my ($db, $table) = @_;

	held_psql($db, qq{
		CREATE TABLE $table (id int PRIMARY KEY, v int) USING lsm;
		INSERT INTO $table SELECT i, 0 FROM generate_series(1, 5000) i;
		SELECT lsm_flush('$table');
		UPDATE $table SET v = 1 WHERE id <= 3000;
		SELECT lsm_flush('$table')});
	return;
}

# One that needs a minor one, for which a worker needs no turn.
sub make_minor_work
{
	my ($db, $table) = @_;

	held_psql($db, qq{
		CREATE TABLE $table (id int PRIMARY KEY, v int) USING lsm;
		INSERT INTO $table SELECT i, 0 FROM generate_series(1, 5000) i;
		SELECT lsm_flush('$table')});
	held_psql($db, "UPDATE $table SET v = v + 1 WHERE id % 1000 = $_; SELECT lsm_flush('$table')") foreach (1 .. 4);
	return;
}

sub wait_done
{
	my ($db, $table) = @_;

	$node->wait_until($db, "SELECT count(*) = 0 FROM lsm_segments('$table') WHERE kind = 'increment'");
	return;
}

sub wait_hang
{
	my ($db) = @_;

	$node->wait_until('postgres', qq{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE backend_type = 'lsm worker' AND datname = '$db' AND wait_event IN ('LsmStop', 'Extension')});
	return;
}

sub end_workers
{
	my ($db) = @_;
	my $workers = "FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND datname = '$db'";

	psql("SELECT pg_terminate_backend(pid) $workers");
	$node->wait_until('postgres', "SELECT count(*) = 0 $workers");
	return;
}

set_workers(1);

# ---- a database of which a DROP was interrupted ----

# Nobody can connect to it any more, so nothing is to be waited for there.
psql(q{CREATE FUNCTION lsm_test_waiting(oid) RETURNS bool LANGUAGE C STRICT AS '$libdir/lsm'});
make_database('half', 'major-before-swap:hang');
make_work('half', 't');
wait_hang('half');
my $half = psql(q{UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half' RETURNING oid});
end_workers('half');
$node->wait_until('postgres', "SELECT NOT lsm_test_waiting($half)");
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/FATAL:  cannot connect to invalid database/,
	'no worker is started for an invalid database');
psql('DROP DATABASE half');

# ---- requests and visits ----

# A new database that keeps the only worker as soon as it is visited.  What has been asked
# for since it is there comes first.
set_workers(0);
make_database('work', '');
make_work('work', 't');
psql('ALTER DATABASE work ALLOW_CONNECTIONS false');
set_workers(1);
make_database('held', 'major-before-swap:hang');
make_work('held', 't');
wait_hang('held');
psql('CREATE DATABASE late TEMPLATE work');
psql(q{ALTER DATABASE late SET lsm.debug_stop = 'major-before-swap:hang'});
$node->reload;
make_work('postgres', 'asked');
psql('ALTER DATABASE held RESET lsm.debug_stop');
end_workers('held');
wait_done('postgres', 'asked');
pass('a request comes before the visit of a database that was there before');
wait_hang('late');
pass('which is visited then');
psql('ALTER DATABASE late RESET lsm.debug_stop');
end_workers('late');
wait_done($_, 't') foreach ('late', 'held');

# ---- requests that are dropped ----

# Two databases that have been visited, and have something to do since that nobody has asked for.
my %oid;

set_workers(0);
foreach my $db ('lost', 'quiet')
{
	make_database($db, '');
	make_work($db, $_) foreach ('visited', 't');
	$node->safe_psql($db, 'ALTER TABLE t SET (lsm.auto_compact = off)');
	$oid{$db} = psql("SELECT oid FROM pg_database WHERE datname = '$db'");
}
$node->safe_psql('lost', q{CREATE FUNCTION lsm_test_overflow() RETURNS void LANGUAGE C AS '$libdir/lsm'});
set_workers(1);
foreach my $db ('lost', 'quiet')
{
	wait_done($db, 'visited');

	# what workers may come back to, when it has rested for long
	$node->safe_psql($db, 'DROP TABLE visited');
	$node->wait_until('postgres', qq{SELECT NOT lsm_test_waiting($oid{$db}) AND count(*) = 0
		FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
	$node->safe_psql($db, 'ALTER TABLE t SET (lsm.auto_compact = on)');
}
$node->safe_psql('lost', 'SELECT lsm_test_overflow()');
wait_done('lost', 't');
pass('a database of which requests were dropped is visited');
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
is($node->safe_psql('quiet', q{SELECT count(*) FROM lsm_segments('t') WHERE kind = 'increment'}), '1', 'others are not');

# ---- no process for a second worker ----

# There is one besides the launcher.  It leaves a database where it has more to do when
# another one waits, which is next, though what is left there has waited longer.
make_database('busy', 'minor-before-swap:wait');
psql(q{CREATE FUNCTION lsm_test_crowded() RETURNS bool LANGUAGE C AS '$libdir/lsm'});
my $locker = $node->session('busy');
my $next = $node->session('busy');
my $waits = q{SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE a.backend_type = 'lsm worker' AND l.locktype = 'advisory' AND NOT l.granted};

$locker->query_safe('SELECT pg_advisory_lock(7107437)');
make_minor_work('busy', 'a');
$node->wait_until('postgres', $waits);
set_workers(2);
make_minor_work('busy', 'b');
make_work('postgres', 'poor');

# it does not leave at once
$node->wait_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'
	AND datname = 'busy' AND clock_timestamp() - backend_start > interval '600 ms'});
$node->wait_until('postgres', 'SELECT lsm_test_crowded()');

# the next job there will have to wait, too
my $next_pid = $node->session_pid($next);
$node->start_query($next, 'SELECT pg_advisory_lock(7107437)');
$node->wait_blocked($next_pid);
$locker->quit;
wait_done('postgres', 'poor');
pass('a worker leaves a busy database if the server has no process for another one');
$node->finish_query($next);
$next->quit;
$node->wait_until('busy', "SELECT count(*) = 1 FROM lsm_segments('$_') WHERE kind = 'increment'") foreach ('a', 'b');
pass('and is back');

$node->stop;
done_testing();
