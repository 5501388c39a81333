# Visits, in which a worker looks at all tables of a database, do not take all workers: they may last for
# minutes, where there are very many tables, or a slow disk.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use Time::HiRes qw(usleep);

my $node = LsmNode->new('visits');

$node->setup(conf => q{
autovacuum = off
fsync = off
lsm.compaction_workers = 0
});

my $hangs = q{FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND query = 'lsm: looking for tables with work'
	AND wait_event IN ('LsmStop', 'Extension')};

# A table that needs a major compaction.
sub make_work
{
	my ($db) = @_;

	$node->safe_psql($db, q{
		CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm;
		INSERT INTO t SELECT i, 0 FROM generate_series(1, 5000) i;
		SELECT lsm_flush('t');
		UPDATE t SET v = 1 WHERE id <= 3000;
		SELECT lsm_flush('t')});
	return;
}

sub wait_done
{
	my ($db) = @_;

	$node->wait_until($db, q{SELECT count(*) = 0 FROM lsm_segments('t') WHERE kind = 'increment'});
	return;
}

# two databases in which whoever reads a manifest for the first time hangs
my @slow = ('slow', 'slower');

foreach my $db (@slow)
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION lsm');
	make_work($db);
	$node->safe_psql('postgres', "ALTER DATABASE $db SET lsm.debug_stop = 'view-read:hang'");
}
$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.compaction_workers = 2');
$node->restart;
$node->wait_until('postgres', "SELECT count(*) = 1 $hangs");
make_work('postgres');
wait_done('postgres');
pass('what is asked for is done while a visit lasts');
is($node->safe_psql('postgres', "SELECT count(*) $hangs"), '1', 'the other database is not visited meanwhile');

$node->safe_psql('postgres', "ALTER DATABASE $_ RESET lsm.debug_stop") foreach @slow;
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $hangs");
foreach my $db (@slow)
{
	wait_done($db);
	pass("and then $db is");
}

# ---- what is asked for while a visit lasts, of the only worker ----

my @tables = map { "q$_" } (1 .. 16);

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION lsm');
$node->safe_psql('slow', "CREATE TABLE $_ (id int PRIMARY KEY, v text) USING lsm; INSERT INTO $_ VALUES (1, 'one')") foreach @tables;
$node->safe_psql('postgres', q{
	ALTER SYSTEM SET lsm.compaction_workers = 1;
	ALTER DATABASE slow SET lsm.debug_stop = 'view-read:hang'});

# Starts the server, and waits until a visit hangs, at another table than t: what is done for a
# table at which a worker was cancelled rests.  Returns where the log ends then.
sub start_visit
{
	my $at_t;

	do
	{
		$node->restart;
		$node->wait_until('postgres', "SELECT count(*) = 1 $hangs");
		$at_t = $node->safe_psql('slow', q{
			SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE backend_type = 'lsm worker' AND datname = current_database() AND relation = 't'::regclass});
	} while ($at_t ne '0');
	return -s $node->logfile;
}

# How often has the log a line since then?
sub logged
{
	my ($since, $line) = @_;

	return scalar(() = PostgreSQL::Test::Utils::slurp_file($node->logfile, $since) =~ /$line/g);
}

# Lets a worker that hangs go on to where it hangs next, again and again until that is so.
sub go_on_until
{
	my ($done, $which) = @_;

	foreach my $try (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if $done->();
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) $hangs$which");
		usleep(100_000);
	}
	return 0;
}

# a flush in the same database
my $log = start_visit();

{
	local $ENV{PGOPTIONS} = '-c lsm.debug_stop= -c lsm.debug_load_after=-1';

	$node->safe_psql('slow', q{INSERT INTO q1 SELECT i, repeat(md5(i::text), 40) FROM generate_series(2, 30000) i});
}
ok(go_on_until(sub { logged($log, 'CONTEXT:  lsm: choosing a job for public\.q1') > 0 }, ''), 'a flush comes to its turn');
cmp_ok(logged($log, 'CONTEXT:  lsm: looking at'), '<', scalar(@tables), 'before all tables have been looked at');

# anything in another one, when the visit has lasted for long enough
$log = start_visit();
make_work('other');
ok(go_on_until(
		sub { $node->safe_psql('other', q{SELECT count(*) FROM lsm_segments('t') WHERE kind = 'increment'}) eq '0' },
		q{ AND backend_start < now() - interval '6 s'}),
	'what is asked for in another database is done');
cmp_ok(logged($log, 'CONTEXT:  lsm: looking at'), '<', scalar(@tables), 'before all tables have been looked at');

# after a visit that was given up, requests of its database come before the next one
$log = start_visit();
{
	local $ENV{PGOPTIONS} = '-c lsm.debug_stop=';

	$node->safe_psql($_, q{
		UPDATE t SET v = v + 1 WHERE id <= 3000;
		SELECT lsm_flush('t')}) foreach ('slow', 'other');
}
ok(go_on_until(
		sub {
			$node->safe_psql('postgres', q{
				SELECT count(*) FROM pg_stat_activity
				WHERE datname = 'slow' AND backend_type = 'lsm worker' AND wait_event IN ('LsmStop', 'Extension')
					AND query IS DISTINCT FROM 'lsm: looking for tables with work'}) eq '1'
		},
		q{ AND backend_start < now() - interval '6 s'}),
	'a worker comes for a request');
cmp_ok(logged($log, 'CONTEXT:  lsm: looking at'), '<', scalar(@tables), 'without a visit before');

# a flush in a database that has a worker, which is busy for long
$node->safe_psql('other', q{
	DROP TABLE t;
	CREATE TABLE u (id int PRIMARY KEY, v text) USING lsm});
$node->safe_psql('postgres', q{
	ALTER SYSTEM SET lsm.compaction_workers = 2;
	ALTER DATABASE other SET lsm.debug_stop = 'major-before-swap:hang'});
$log = start_visit();
make_work('other');
$node->wait_until('postgres', q{
	SELECT count(*) = 1 FROM pg_stat_activity
	WHERE datname = 'other' AND query LIKE 'lsm: major compaction of %' AND wait_event IN ('LsmStop', 'Extension')});
{
	local $ENV{PGOPTIONS} = '-c lsm.debug_load_after=-1';

	$node->safe_psql('other', q{INSERT INTO u SELECT i, repeat(md5(i::text), 40) FROM generate_series(2, 30000) i});
}
ok(go_on_until(
		sub { $node->safe_psql('other', q{SELECT flushes > 0 FROM lsm_stat_tables WHERE relname = 'u'}) eq 't' },
		q{ AND backend_start < now() - interval '6 s'}),
	'a flush beside a major is done');
cmp_ok(logged($log, 'CONTEXT:  lsm: looking at'), '<', scalar(@tables), 'before all tables of another database have been looked at');

$node->stop;
done_testing();
