# How requests come to a store of type s3, and as whom: proxies, regions, addresses,
# credentials.  What moving and reading take of the server: room on its disk, memory.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256 hmac_sha256_hex sha256_hex);
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmFaultStore;
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
my $store = LsmFaultStore->start($node->basedir . '/store');
my $proxy = LsmFaultStore->start($node->basedir . '/proxy');
my $here = $store->endpoint;
(my $by_name = $here) =~ s/127\.0\.0\.1/localhost/;
my $nobody = 'https://127.0.0.1:' . LsmStoreNode::free_port();

my %secrets = (KEYID => 'mapped/secret+1', ENVKEY => 'env/secret+1');
my %proxies = map { ($_ => $proxy->endpoint) }
  qw(http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY);
my %env_keys = (AWS_ACCESS_KEY_ID => 'ENVKEY', AWS_SECRET_ACCESS_KEY => $secrets{ENVKEY});

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub error_of
{
	return $node->error_of('postgres', $_[0]);
}

# Start the server with that in its environment.
sub start_with
{
	local %ENV = (%ENV, @_);

	return $node->start;
}

sub restart_with
{
	$node->stop;
	return start_with(@_);
}

# A store of that name, with a mapping for all unless it needs none.
sub make_server
{
	my ($name, $endpoint, $options, $mapping) = @_;

	psql("CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '$endpoint', bucket 'bkt' $options)");
	psql("CREATE USER MAPPING FOR PUBLIC SERVER $name
		OPTIONS (access_key_id 'KEYID', secret_access_key '$secrets{KEYID}' $mapping)")
	  if defined $mapping;
	return;
}

# Statements with every kind of request.
sub use_all
{
	my ($name) = @_;

	return join '; ', map { sprintf $_, $name }
	  "SELECT lsm_test_store_put('%s', 'a/b', 1000)",
	  "SELECT lsm_test_store_put('%s', 'large', 9000000)",
	  "SELECT lsm_test_store_reads('%s', 'a/b', '{0,500}', 100)",
	  "SELECT key FROM lsm_test_store_list('%s', '')",
	  "SELECT lsm_test_store_delete('%s', '{a/b,large}')";
}

# Heads of the requests of all kinds, which have been answered.
sub heads_of_all
{
	my ($asked, $name) = @_;

	$asked->heads;
	psql(use_all($name));
	my @heads = $asked->heads;

	return @heads;
}

# Different values of something in requests.
sub values_of
{
	my ($what, @heads) = @_;
	my %seen = map { ((ref $what ? $what->($_) : $_->{$what} // 'none') => 1) } @heads;

	return join ' ', sort keys %seen;
}

# Who signed a request, and of which scope it is; empty if what it has is not what is signed.
sub signed_by
{
	my ($head) = @_;
	my ($key, $day, $region, $names, $signature) =
	  $head->{authorization} =~
	  m{^AWS4-HMAC-SHA256 Credential=(\w+)/(\d+)/([\w-]+)/s3/aws4_request,SignedHeaders=([\w;-]+),Signature=(\w+)$}
	  or return '';
	my ($path, $query) = split /\?/, $head->{target} =~ s{^http://[^/]+}{}r, 2;
	my $request = join "\n", $head->{method}, $path, join('&', sort split /&/, $query // ''),
	  map({"$_:$head->{$_}"} split /;/, $names), '', $names, $head->{sha256};
	my $text = join "\n", 'AWS4-HMAC-SHA256', $head->{'x-amz-date'}, "$day/$region/s3/aws4_request",
	  sha256_hex($request);
	my $secret = hmac_sha256($day, "AWS4$secrets{$key}");

	$secret = hmac_sha256($_, $secret) foreach $region, 's3', 'aws4_request';
	return '' if hmac_sha256_hex($text, $secret) ne $signature || $head->{'x-amz-date'} !~ /^${day}T/;
	return '' if $head->{'x-amz-content-sha256'} ne $head->{sha256};

	# all that tells the store what to do
	foreach my $name ('host', 'x-amz-date', 'x-amz-content-sha256', 'x-amz-security-token', 'if-none-match', 'range')
	{
		return '' if defined $head->{$name} && ";$names;" !~ /;$name;/;
	}
	return "$key/$region";
}

$node->init;
$node->append_conf('postgresql.conf',
	"lsm.store_allowed_endpoints = '$here, $by_name, $nobody, http://s3.example.com, https://s3.example.com'\n");
start_with(%proxies, %env_keys, AWS_SESSION_TOKEN => 'env/token+1==');
psql('CREATE EXTENSION lsm');
$node->test_functions('postgres');

# ---- regions and addresses ----

make_server('direct', $here, '', '');
my @heads = heads_of_all($store, 'direct');
is(values_of('method', @heads), 'DELETE GET POST PUT', 'requests of all kinds');
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'are signed, for the first of all regions');
is(values_of('host', @heads), $here =~ s{.*//}{}r, 'the host is the endpoint');
is(scalar(grep { $_->{target} !~ m{^/bkt[/?]} } @heads), 0, 'and the bucket begins paths');
is(values_of('x-amz-security-token', @heads), 'none', 'there are no tokens');
is(scalar($proxy->requests('')), 0, 'the proxies of the environment are not asked');
make_server('tls', $nobody, ", request_timeout '100ms'", '');
like(error_of("SELECT lsm_test_store_head('tls', 'a')"), qr/^08006: .*It was tried \d+ times/, 'an encrypted store that is away');
is(scalar($proxy->requests('')), 0, 'they are not asked for it, either');

make_server('far', $here, ", region 'Far-away_9', prefix 'pre/fix'", '');
is(values_of(\&signed_by, heads_of_all($store, 'far')), 'KEYID/Far-away_9', 'a region that is named');
my $session = $node->session('postgres');
$session->query_safe("SELECT lsm_test_store_head('far', 'a')");
psql("ALTER SERVER far OPTIONS (SET region 'eu-west-1')");
$store->heads;
$session->query_safe("SELECT lsm_test_store_head('far', 'a')");
is(values_of(\&signed_by, $store->heads), 'KEYID/eu-west-1', 'another one, which a session sees');
psql("ALTER SERVER far OPTIONS (DROP region)");
$session->query_safe("SELECT lsm_test_store_head('far', 'a')");
@heads = $store->heads;
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'and none');
like(values_of('target', @heads), qr{^/bkt/pre/fix/a$}, 'the path has bucket, prefix and key');
$session->quit;

make_server('virtual', $by_name, ", addressing 'virtual', region 'eu-west-1', prefix 'pre'", '');
@heads = heads_of_all($store, 'virtual');
is(values_of(\&signed_by, @heads), 'KEYID/eu-west-1', 'requests to a bucket in the host are signed');
is(values_of('host', @heads), $by_name =~ s{.*//}{bkt.}r, 'and name it there');
is( values_of(sub { $_[0]->{target} =~ s{^/|\?.*}{}gr }, @heads),
	' pre/a/b pre/large',
	'and nowhere else');

# ---- session tokens, credentials of the environment ----

make_server('token', $here, '', ", session_token 'mapped/token+1=='");
@heads = heads_of_all($store, 'token');
is(values_of('x-amz-security-token', @heads), 'mapped/token+1==', 'all requests have the token of the mapping');
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'which is signed');
psql('ALTER USER MAPPING FOR PUBLIC SERVER token OPTIONS (DROP session_token)');
is(values_of('x-amz-security-token', heads_of_all($store, 'token')), 'none', 'or none, when it has gone');

make_server('env', $here, ", credentials 'environment'", undef);
@heads = heads_of_all($store, 'env');
is(values_of('x-amz-security-token', @heads), 'env/token+1==', 'the token of the environment');
is(values_of(\&signed_by, @heads), 'ENVKEY/us-east-1', 'with its key and secret');
psql('CREATE ROLE reader; GRANT USAGE ON FOREIGN SERVER env TO reader');
$store->heads;
psql("SET ROLE reader; SELECT lsm_test_store_head('env', 'a')");
is(values_of(\&signed_by, $store->heads), 'ENVKEY/us-east-1', 'who may use the store needs no mapping');
make_server('mapped_too', $here, ", credentials 'environment'", ", session_token 'mapped/token+1=='");
@heads = heads_of_all($store, 'mapped_too');
is( values_of(\&signed_by, @heads) . ' ' . values_of('x-amz-security-token', @heads),
	'ENVKEY/us-east-1 env/token+1==',
	'and none is looked at');

# ---- proxies ----

make_server('via', 'http://s3.example.com', ", proxy '" . $proxy->endpoint . "', prefix 'p'", '');
$store->heads;
@heads = heads_of_all($proxy, 'via');
is(values_of('method', @heads), 'DELETE GET POST PUT', 'requests of all kinds go to the proxy');
is(scalar(grep { $_->{target} !~ m{^http://s3.example.com/bkt[/?]} } @heads), 0, 'and tell it where to go');
is(values_of('host', @heads), 's3.example.com', 'for the host of the endpoint, without the usual port');
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'for which they are signed');
is(scalar($store->heads), 0, 'and nowhere else');

# A session with several ways to one store keeps connections for each.
make_server('around', $here, ", proxy '" . $proxy->endpoint . q{'}, '');
$_->requests('') foreach $store, $proxy;
psql(join '; ', map {"SELECT lsm_test_store_head('$_', 'x')"} ('direct', 'around') x 3);
is(join('|', map { scalar($_->requests('GET')) } $store, $proxy), '3|3', 'two ways in a session');
psql('ALTER SERVER around OPTIONS (DROP proxy)');
psql("SELECT lsm_test_store_head('around', 'x')");
is(join('|', map { scalar($_->requests('GET')) } $store, $proxy), '1|0', 'a proxy that has been dropped');

# What a proxy does not change.
make_server('hidden', 'http://other.example.com', ", proxy '" . $proxy->endpoint . q{'}, '');
like(error_of("SELECT lsm_test_store_head('hidden', 'x')"),
	qr/^42501: endpoint "http:..other\.example\.com" of store "hidden" is not allowed/,
	'an endpoint must be allowed also behind a proxy');
make_server('link', 'http://s3.example.com', ", proxy 'http://169.254.169.254', request_timeout '100ms'", '');
like(error_of("SELECT lsm_test_store_head('link', 'x')"),
	qr/^42501: .*address 169\.254\.169\.254, which is not allowed/,
	'and so must the address of a proxy');
is(scalar($proxy->requests('')), 0, 'nothing is asked');

# The store's own headers are for the store; of what it cannot see, a proxy gets none.
make_server('tunnel', 'https://s3.example.com',
	", proxy '" . $proxy->endpoint . "', request_timeout '3s'", ", session_token 'mapped/token+1=='");
$proxy->heads;
like(error_of("SELECT lsm_test_store_head('tunnel', 'x')"), qr/^08006: .*403/, 'a tunnel that the proxy refuses');
@heads = $proxy->heads;
is(values_of('method', @heads) . ' ' . values_of('target', @heads),
	'CONNECT s3.example.com:443', 'it was asked for one');
is(scalar(grep { /^(?:authorization|x-amz-.*|range)$/ } map { keys %$_ } @heads), 0, 'without credentials');

make_server('down', $here, ", proxy 'http://127.0.0.1:" . LsmStoreNode::free_port() . "', request_timeout '100ms'", '');
$store->requests('');
like(error_of("SELECT lsm_test_store_head('down', 'x')"), qr/^08006: .*It was tried \d+ times/, 'a proxy that is away');
is(scalar($store->requests('')), 0, 'is not passed by');

# ---- other environments ----

restart_with(no_proxy => '*', NO_PROXY => '*', %env_keys, AWS_SESSION_TOKEN => '');
$proxy->requests('');
psql("SELECT lsm_test_store_head('via', 'x')");
is(scalar($proxy->requests('GET')), 1, 'a proxy is asked whatever the environment says of proxies');
is(values_of('x-amz-security-token', heads_of_all($store, 'env')), 'none', 'an empty token is none');
restart_with(%env_keys, AWS_ACCESS_KEY_ID => '');
like(error_of("SELECT lsm_test_store_head('env', 'x')"),
	qr/^28000: there are no credentials for store "env" HINT:  Start the server with AWS_ACCESS_KEY_ID/,
	'an environment without credentials');
is(error_of("SELECT lsm_test_store_head('direct', 'x')"), '', 'of which a mapping needs none');
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
$log =~ s/^.*(?:USER MAPPING|OPTIONS).*\n//mg;
unlike($log, qr{(?:mapped|env)/(?:secret|token)|Signature=}, 'no secret is in the log');

$node->stop;

# ---- a disk without room ----

# A limit on the size of files stands for it; those of WAL are smaller, so that it is met by
# tables only.
$node = LsmStoreNode->new('small');
$node->init(extra => ['--wal-segsize=1']);
$node->append_conf(
	'postgresql.conf', qq{
lsm.store_allowed_endpoints = '$here'
autovacuum = off
fsync = off
max_wal_size = 4GB
max_parallel_workers_per_gather = 0
work_mem = 64MB
lsm.compaction_naptime = 1s
lsm.io_depth = 64
lsm.memtable_size = 4MB
lsm.block_cache_size = 1MB
lsm.session_cache_size = 16MB
});
$node->start;
psql('CREATE EXTENSION lsm');
make_server('cold', $here, '', '');

# Processes that begin from now on make files of so many bytes at most.
sub limit_files
{
	my ($bytes) = @_;
	my ($pid) = PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;

	return PostgreSQL::Test::Utils::system_or_bail('prlimit', "--pid=$pid", "--fsize=$bytes:");
}

sub places
{
	return psql(q{SELECT kind, location, sum(rows) FROM lsm_segments('t') GROUP BY 1, 2 ORDER BY 2});
}

# A worker fails, for want of room, and tells.
sub worker_fails_ok
{
	my ($label) = @_;

	psql('SELECT lsm_stat_reset()');
	$node->set_workers(1);
	$node->wait_until('postgres',
		q{SELECT errors > 0 AND last_error LIKE 'could not extend file%' FROM lsm_stat_tables WHERE relname = 't'});
	$node->set_workers(0);
	return pass("a worker tells: $label");
}

my $no_room = qr{^\w+: could not extend file ".*HINT:  Check free disk space};
my $all = 'SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t';
my $new_row = q{INSERT INTO t VALUES (9001, 'new', 0)};

SKIP:
{
	skip 'no prlimit', 22 if system('prlimit --version >/dev/null 2>&1') != 0;

	# one segment, and not a page to spare
	psql(q{CREATE TABLE t (id int PRIMARY KEY, a text, b int) USING lsm WITH (lsm.compression = none);
		INSERT INTO t SELECT i, repeat(md5(i::text), 20), i % 7 FROM generate_series(1, 8000) i});
	psql(q{SELECT lsm_flush('t'), lsm_major_compact('t')});
	psql('VACUUM t');
	psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
	my $rows = psql($all);

	is(places(), 'baseline|local|8000', 'a table to be moved');
	limit_files(psql(q{SELECT pg_relation_size('t')}));
	like(error_of($_), $no_room, "no room: $_")
	  foreach $new_row, 'UPDATE t SET b = 0 WHERE id < 10', 'DELETE FROM t WHERE id = 5';
	$store->requests('');
	like(error_of(q{SELECT lsm_major_compact('t')}), $no_room, 'a move finds no room for what stays local');
	cmp_ok(scalar($store->requests('PUT')), '>', 0, 'when it has put the object');
	is(places(), 'baseline|local|8000', 'the segment is local');
	is(psql($all), $rows, 'and whole');
	worker_fails_ok('what it moves out');
	is(psql($all), $rows, 'rows after that');
	$node->check_ok('postgres', 'without room');
	$node->crash;
	$node->start;
	is(psql($all), $rows, 'and after a crash');
	psql(q{SELECT lsm_major_compact('t')});
	is(places(), 'baseline|cold|8000', 'with room it is moved');
	psql('VACUUM t');

	# back: there is room for new rows, not for the segment
	psql('ALTER TABLE t RESET (lsm.cold_store)');
	limit_files(2 * 1024 * 1024);
	like(error_of(q{SELECT lsm_major_compact('t')}), $no_room, 'a move back finds no room');
	is(places(), 'baseline|cold|8000', 'the segment is in the store');
	is(psql($all), $rows, 'and whole');
	worker_fails_ok('what it moves back');
	is(error_of($new_row), '', 'pages that moves have given up take rows');
	$node->crash;
	$node->start;
	$rows = psql($all);
	like($rows, qr/^8001\|/, 'nothing is lost by a crash');
	psql(q{SELECT lsm_major_compact('t')});
	is(places(), 'baseline|local|8000', 'with room it is moved back');
	is(psql($all), $rows, 'and whole');
	$node->check_ok('postgres', 'with room');
}

# ---- memory ----

# kB that a session has had at most, besides what all share, when it has run a query
sub peak_of
{
	my ($sql) = @_;
	my $session = $node->session('postgres');
	my $pid = $node->session_pid($session);

	$session->query_safe($sql);
	my %status = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^(\w+):\s+(\d+) kB$/mg;
	$session->quit;
	return $status{VmHWM} - $status{RssShmem} - $status{RssFile};
}

SKIP:
{
	skip 'needs Linux', 8 if $^O ne 'linux';

	# What is read ahead, lsm.session_cache_size, and what any session has: less than either
	# table, of which the second has 120 MB more.
	my $bound = (64 + 16 + 8) * 1024;
	my @queries = (
		'SELECT count(*), sum(length(a)) FROM large',
		q{SET lsm.enable_lsmscan = off; SELECT count(*) FROM large WHERE a < 'x'});
	my @before;

	psql(q{CREATE TABLE large (id int PRIMARY KEY, a text) USING lsm WITH (lsm.compression = none, lsm.cold_store = 'cold')});
	foreach my $part ([ 1, 120000 ], [ 120001, 240000 ])
	{
		psql("SET lsm.segment_size = '16MB';
			INSERT INTO large SELECT i, repeat(md5(i::text), 32) FROM generate_series($part->[0], $part->[1]) i");
		psql(q{SELECT lsm_flush('large')});
		psql(q{SET lsm.cold_segment_size = '16MB'; SELECT lsm_major_compact('large')});
		is(psql(q{SELECT location, sum(stored_bytes) > 1000 * sum(rows) FROM lsm_segments('large') GROUP BY 1}),
			'cold|t', "$part->[1] rows are cold");
		my @peaks = map { peak_of($_) } @queries;

		cmp_ok($peaks[$_], '<', $bound, "memory is bounded: $queries[$_]") foreach 0, 1;
		cmp_ok($peaks[$_], '<', $before[$_] + 24 * 1024, 'and hardly more than before') foreach @before ? (0, 1) : ();
		note "peaks: @peaks";
		@before = @peaks;
	}
}

$node->stop;
$_->stop foreach $store, $proxy;
done_testing();
