# Visits, in which a worker looks at all tables of a database, do not take all workers: they may last for
# minutes, where there are very many tables, or a slow disk.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

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
$node->stop;
done_testing();
