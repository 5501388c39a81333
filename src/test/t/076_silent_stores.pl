# Stores that do not answer, of as many databases as there are workers: what workers look for
# there keeps no table from being flushed, and each database has its turn in the end.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;
use LsmFaultStore;

my $node = LsmStoreNode->new('main');
my $store = LsmFaultStore->start($node->basedir . '/store');

$node->setup(
	conf => "lsm.store_allowed_endpoints = '"
	  . $store->endpoint
	  . "'\nlsm.compaction_workers = 0\nlsm.compaction_naptime = 1\nlsm.memtable_size = 4MB\nlsm.compaction_log_min_duration = 0\nautovacuum = off\n");

# What workers ask for first names the bucket, one for each database.
sub asked
{
	my ($db) = @_;

	return $store->wait_for("GET .$db\\?");
}

foreach my $db ('one', 'two')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql(
		$db, q{CREATE EXTENSION lsm;
	CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '} . $store->endpoint . qq{', bucket '$db', request_timeout '1h');
	CREATE USER MAPPING FOR PUBLIC SERVER cold OPTIONS (access_key_id 'k', secret_access_key 's')});
}
$node->safe_psql('postgres',
	'CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm; INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i');
$store->requests('');
$store->fault('GET', 'hang', 1000);
$node->set_workers(2);

ok($store->wait_for('GET .(one|two)\?'), 'a worker asks a store, which does not answer');

# A writer flushes what is full by himself, so the log has to say who did it.
sub flushed
{
	return PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /LOG:  lsm: flush of public\.t:/;
}

foreach my $round (1 .. 200)
{
	last if flushed();
	$node->safe_psql('postgres', 'UPDATE t SET v = v + 1');
}
ok(flushed(), 'a worker flushes a table of another database meanwhile');
is( $node->safe_psql(
		'postgres', q{SELECT count(*) FROM pg_stat_activity
	WHERE backend_type = 'lsm worker' AND query LIKE 'lsm: looking at store%'}),
	'1',
	'one worker waits for a store');

# the request that hangs ends with its worker
$store->fault('', undef);
$node->safe_psql('postgres',
	q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
ok(asked($_), "the store of database $_ has its turn") foreach 'one', 'two';
$node->check_ok('postgres', 'at the end');
$store->stop;

done_testing();
