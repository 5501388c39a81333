# Tables whose segments lie in a store of type s3: requests that reading takes, a store that
# fails, cancelling, workers, secrets that are not logged; and a server that checks signatures.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmFaultStore;
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
my $store = LsmFaultStore->start($node->basedir . '/store');
my $s3dir = $node->basedir . '/s3';
my $s3 = LsmStoreNode::start_s3($s3dir);
my $endpoints = $store->endpoint . ($s3 ? ", $s3->{endpoint}" : '');

$node->setup(
	conf => "lsm.store_allowed_endpoints = '$endpoints'
lsm.block_cache_size = 1MB
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
autovacuum = off
");

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub make_server
{
	my ($name, $endpoint, $options, $mapping) = @_;

	psql(
		qq{CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
			OPTIONS (type 's3', endpoint '$endpoint', bucket 'bkt', $options);
		CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS ($mapping)});
	return;
}

sub make_table
{
	my ($name) = @_;

	psql(
		qq{CREATE TABLE $name (id int PRIMARY KEY, a text, b int) USING lsm WITH (lsm.block_size = '8kB');
INSERT INTO $name SELECT i, md5(i::text) || md5((-i)::text), i % 7 FROM generate_series(1, 100000) i;
SELECT lsm_flush('$name')});
	return;
}

make_server('faulty', $store->endpoint, q{request_timeout '3s', stall_timeout '2s'},
	q{access_key_id 'k', secret_access_key 's'});
make_table('t');
psql('CREATE TABLE h AS SELECT * FROM t');

# Attaching tests the store, and no more.
$store->requests('');
psql(q{ALTER TABLE t SET (lsm.cold_store = 'faulty')});
my @requests = $store->requests('');
is(scalar(grep { m{/0{16}/0{16}-|%2F0{16}%2F0{16}-} } @requests), scalar(@requests), 'ALTER TABLE only tests the store');
ok(scalar(grep { m{^GET .*[?&]prefix=} } @requests), 'whether it lists, too');
cmp_ok(scalar(@requests), '<=', 6, 'with few requests');
$store->fault('PUT', 'status:403:AccessDenied', 1000);
psql('CREATE TABLE f (a int) USING lsm');
like(
	$node->error_of('postgres', q{ALTER TABLE f SET (lsm.cold_store = 'faulty')}),
	qr/could not put object .* of store "faulty".*AccessDenied/,
	'a store without rights cannot be attached');

# The test leaves no object when what follows the put fails, or is cancelled.
my $tests = "$store->{dir}/objects/*,0000000000000000,*";
$store->fault('GET', 'status:403:AccessDenied', 1);
like(
	$node->error_of('postgres', q{ALTER TABLE f SET (lsm.cold_store = 'faulty')}),
	qr/could not .* object .* of store "faulty".*AccessDenied/,
	'nor one that cannot be read');
is(scalar(() = glob $tests), 0, 'the object of the test is deleted');
my $altering = $node->session('postgres');
my $altering_pid = $node->session_pid($altering);
$store->requests('');
$store->fault('GET', 'hang', 1);
$node->start_query($altering, q{ALTER TABLE f SET (lsm.cold_store = 'faulty')});
ok($store->wait_for('GET'), 'a test is under way');
psql("SELECT pg_cancel_backend($altering_pid)");
like(($node->finish_query($altering))[1], qr/canceling statement/, 'and cancelled');
is(scalar(() = glob $tests), 0, 'its object is deleted, too');
$altering->quit;
$store->fault('PUT', 'status:403:AccessDenied', 1000);

# Putting fails: the segment stays.
like(
	$node->error_of('postgres', q{SELECT lsm_major_compact('t')}),
	qr/could not put object .* of store "faulty".*AccessDenied/,
	'nor written to');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', 'the segment is local');
$store->fault('', undef);
$store->fault('PUT', 'drop', 1);
like($node->error_of('postgres', q{SELECT lsm_major_compact('t')}),
	qr/verify object/, 'an object that is not there is found out');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', 'the segment is local');
$store->fault('', undef);
psql(q{SELECT lsm_major_compact('t')});
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'faulty', 'the segment is cold');
cmp_ok(
	psql(q{SELECT pg_relation_size('t') < sum(stored_bytes) FROM lsm_segments('t')}),
	'eq', 'f', 'the file has free pages');
psql('VACUUM t');
psql('CHECKPOINT');
cmp_ok(psql(q{SELECT pg_table_size('t') * 10 / sum(stored_bytes) FROM lsm_segments('t')}),
	'<', 10, 'which VACUUM gives back');

# Requests of reading.
sub requests_of
{
	my ($sql) = @_;

	$store->requests('');
	psql($sql);
	return scalar($store->requests('GET'));
}

is(requests_of('SELECT * FROM t WHERE id = 50000'), 1, 'a row is one request');
is(requests_of('SELECT * FROM t WHERE id = 50000'), 0, 'and none when the block is in the cache');
is(requests_of('EXPLAIN SELECT * FROM t WHERE a > $$5$$ AND b = 3'), 0, 'a plan takes none');
is(requests_of('SELECT count(*) FROM t WHERE id = 0'), 0, 'nor does a row that is not there');
cmp_ok(requests_of('SELECT sum(b), max(a) FROM t'), '<=', 6, 'a scan takes few');
$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id', 'all rows');
$store->fault('GET', 'hang', 1000);
like($node->error_of('postgres', q{INSERT INTO t VALUES (70000, 'x', 0)}),
	qr/^23505/, 'a unique check takes no request');
like(
	$node->error_of('postgres', q{SET statement_timeout = '500ms'; SELECT * FROM t WHERE id = 70000}),
	qr/^57014: canceling statement due to statement timeout/,
	'statement_timeout ends a request');
like(
	$node->error_of('postgres', q{SET statement_timeout = '500ms'; SELECT sum(length(a)) FROM t WHERE b = 1}),
	qr/^57014: canceling statement due to statement timeout/,
	'and those of a scan');
like($node->error_of('postgres', q{SELECT * FROM t WHERE id = 70000}),
	qr/could not read object ".*" of store "faulty"/, 'the time of a request is limited');
psql(q{INSERT INTO t VALUES (200000, 'new', 0); INSERT INTO h VALUES (200000, 'new', 0)});
psql(q{SELECT lsm_flush('t')});
$store->fault('', undef);
$store->fault('GET', 'damage-large', 1000);
like(
	$node->error_of('postgres', q{SELECT sum(length(a)) FROM t}),
	qr/^XX001: invalid block \d+ in object ".*" of store "faulty"/,
	'a damaged block is found');
$store->fault('', undef);
$store->fault('GET', 'status:503:SlowDown', 2);
is(psql('SELECT count(*) FROM t WHERE id = 90000'), 1, 'what passes is tried again');
$store->fault('', undef);
psql(q{UPDATE t SET b = 9 WHERE id % 1000 = 1; UPDATE h SET b = 9 WHERE id % 1000 = 1});
psql(q{SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id',
	'all rows after changes');
$node->check_ok('postgres', 'store that fails');

# Workers move a table out and back, and delete its objects.
my $orphans = q{SELECT count(*) = 0 FROM lsm_store_orphans('%s')};

sub worked_ok
{
	my ($server) = @_;

	psql(qq{ALTER TABLE w SET (lsm.cold_store = '$server')});
	$node->set_workers(1);
	$node->wait_until('postgres', qq{SELECT bool_and(location = '$server') FROM lsm_segments('w')});
	is(psql('SELECT count(DISTINCT a) FROM w'), 3000, "workers move segments to store $server");
	psql('ALTER TABLE w RESET (lsm.cold_store)');
	$node->wait_until('postgres', q{SELECT bool_and(location = 'local') FROM lsm_segments('w')});
	is(psql('SELECT count(DISTINCT a) FROM w'), 3000, 'and back');
	$node->wait_until('postgres', sprintf $orphans, $server);
	pass('and delete the object');
	$node->set_workers(0);
	return;
}

psql(q{CREATE TABLE w (id int PRIMARY KEY, a text) USING lsm});
psql(q{INSERT INTO w SELECT i, md5(i::text) FROM generate_series(1, 3000) i; SELECT lsm_flush('w')});
is(psql(sprintf $orphans, 'faulty'), 'f', 'compaction has left an object');
worked_ok('faulty');

# While segments lie there it stays the same place, even if they are to come back.
make_server('other', $store->endpoint, q{prefix 'other', request_timeout '2s'},
	q{access_key_id 'k', secret_access_key 's'});
psql(q{ALTER TABLE w SET (lsm.cold_store = 'other'); SELECT lsm_major_compact('w')});
psql(q{ALTER TABLE w RESET (lsm.cold_store)});
my @moved = ("bucket 'elsewhere'", "endpoint 'http://127.0.0.1:9'", "prefix 'elsewhere'");
like($node->error_of('postgres', "ALTER SERVER other OPTIONS (SET $_)"),
	qr/^2BP01: cannot alter option "\w+" of server "other" because it is the cold store of tables/,
	"$_ is refused")
  foreach @moved;

# A store where nothing can be deleted keeps it, and those who ask know.
my @objects = glob "$store->{dir}/objects/other,*";
is(scalar(@objects), 1, 'an object of the table');
$node->adjust_conf('postgresql.conf', 'lsm.store_delete_delay', 1);
foreach my $fault ('status:403:AccessDenied', 'status:503:SlowDown')
{
	my ($error) = $fault =~ /(\w+)$/;

	$store->fault('DELETE', $fault, 1000000);
	$node->set_workers(1);
	$node->wait_until('postgres',
		qq{SELECT queue_length = 1 AND last_error LIKE '%delete%$error%' FROM lsm_stat_store WHERE servername = 'other'});
	$node->set_workers(0);
	is(psql(q{SELECT DISTINCT location FROM lsm_segments('w')}), 'local', "$error of DELETE: segments are back");
	is(psql('SELECT count(DISTINCT a) FROM w'), 3000, 'and whole');
	ok(-e $objects[0], 'the object stays');
}
$store->fault('', undef);
$node->set_workers(1);
$node->wait_until('postgres', q{SELECT queue_length = 0 FROM lsm_stat_store WHERE servername = 'other'});
$node->set_workers(0);
ok(!-e $objects[0], 'until it can be deleted');

# Objects that the store does not let go, two of three, keep no others.
my ($place) = $objects[0] =~ /^(.*,)/;

sub left_ok
{
	my ($expected, $name) = @_;
	my @left;

	for my $try (1 .. 1800)
	{
		@left = glob "$place*";
		last if @left == $expected;
		select(undef, undef, undef, 0.1);
	}
	is(scalar(@left), $expected, $name);
	return;
}

LsmFaultStore::write_file(sprintf('%s%016x-%016x', $place, $_, $_ % 3), 'x') foreach 1 .. 300;
$store->fault('DELETE .*[12]$', 'status:403:AccessDenied', 1000000);
$node->set_workers(1);
left_ok(200, 'objects beside such that must not be deleted');
$node->wait_until('postgres',
	q{SELECT last_error LIKE '%delete%AccessDenied%' FROM lsm_stat_store WHERE servername = 'other'});
LsmFaultStore::write_file(sprintf('%s%016x-%016x', $place, 301, 0), 'x');
left_ok(200, 'nor one that comes meanwhile');
$store->fault('', undef);
left_ok(0, 'which go when they may');
$node->wait_until('postgres', q{SELECT queue_length = 0 FROM lsm_stat_store WHERE servername = 'other'});
$node->set_workers(0);
is(psql("ALTER SERVER other OPTIONS (SET $_); SELECT 1"), 1, "$_ is taken when all is back")
  foreach @moved;

# The secret of a user mapping is not logged, if it is made as README.md says, whatever the
# server logs; without any of the commands it is.
{
	my $readme = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../../../README.md");
	my ($commands) = $readme =~ /^( +SET log_statement.*?)^ +GRANT USAGE/ms;
	my %logs = (
		log_statement => [ 'all', 'none' ],
		log_min_duration_statement => [ 0, -1 ],
		log_min_duration_sample => [ 0, -1 ],
		log_transaction_sample_rate => [ 1, 0 ],
		log_min_error_statement => [ 'error', 'panic' ]);

	psql('CREATE ROLE app');
	psql("CREATE SERVER archive FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '" . $store->endpoint . "', bucket 'bkt')");
	like($commands, qr/CREATE USER MAPPING/, 'README.md has the commands');
	$commands =~ s/secret_access_key '...'/secret_access_key 'sesame'/ or die;

	# The second time it fails.  Where a command is left out, nothing else would log it.
	foreach my $left_out ('', sort keys %logs)
	{
		(my $some = $commands) =~ s/^ *SET $left_out = .*$//m;
		my %now = map { $_ => $logs{$_}[ $left_out ne '' && $left_out ne $_ ] } keys %logs;

		psql("ALTER SYSTEM SET $_ = '$now{$_}'") foreach keys %now;
		$node->reload;
		$node->wait_until('postgres', "SELECT current_setting('$_') = '$now{$_}'") foreach keys %now;
		my $from = -s $node->logfile;

		$node->psql('postgres', $some, on_error_stop => 0) foreach 1 .. 2;
		is(psql('DROP USER MAPPING FOR app SERVER archive; SELECT 1'), 1, 'a user mapping is made');
		my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $from);

		if ($left_out eq '')
		{
			like($log, qr/user mapping for "app" already exists/, 'also a second time');
			unlike($log, qr/sesame/, 'its secret is not logged');
		}
		else
		{
			like($log, qr/sesame/, "without SET $left_out it is");
		}
	}
}

# A real server.
SKIP:
{
	skip 'no S3 server (LSM_S3_SERVER); it is built where Go is installed', 10 unless $s3;

	mkdir "$s3dir/bkt" or die $!;
	make_server('s', $s3->{endpoint}, q{part_size '5MB', verify 'full'},
		"access_key_id '$s3->{key}', secret_access_key '$s3->{secret}'");
	psql(q{ALTER TABLE t SET (lsm.cold_store = 's'); SELECT lsm_major_compact('t')});
	is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 's', 'segments move on');
	is(psql('DROP SERVER faulty CASCADE; SELECT 1'), 1, 'the first store is free');
	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id',
		'rows on a real server');
	is(psql(q{SELECT count(*) FROM lsm_store_orphans('s')}), 0, 'nothing is left over');
	psql(q{UPDATE t SET b = 10 WHERE id = 1; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
	cmp_ok(psql(q{SELECT lsm_store_remove_orphans('s', '0')}), '>', 0, 'what is, is removed');
	$node->check_ok('postgres', 'real server');
	psql(q{ALTER TABLE t RESET (lsm.cold_store); SELECT lsm_major_compact('t')});
	is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', 'segments come back');
	worked_ok('s');
}
$store->stop;
$node->stop;
done_testing();
