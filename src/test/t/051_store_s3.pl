# Stores of type s3, against a server that checks signatures strictly.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
my $s3dir = $node->basedir . '/s3';
my $s3 = LsmStoreNode::start_s3($s3dir);

plan skip_all => 'no S3 server (LSM_S3_SERVER); it is built where Go is installed'
  unless $s3;
mkdir "$s3dir/$_" or die $! foreach qw(bkt other);

# The server's environment has credentials, and a proxy that must not be used.
{
	local $ENV{AWS_ACCESS_KEY_ID} = $s3->{key};
	local $ENV{AWS_SECRET_ACCESS_KEY} = $s3->{secret};
	local $ENV{http_proxy} = 'http://127.0.0.1:9';
	local $ENV{ALL_PROXY} = 'http://127.0.0.1:9';
	$node->setup(conf => "lsm.store_allowed_endpoints = '$s3->{endpoint}'\n");
}
$node->test_functions('postgres');

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# A server with its mapping.
sub make_server
{
	my ($name, $options, $mapping) = @_;

	$mapping ||= "access_key_id '$s3->{key}', secret_access_key '$s3->{secret}'";
	psql(
		qq{CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
			OPTIONS (type 's3', endpoint '$s3->{endpoint}', $options);
		CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS ($mapping)});
	return;
}

# Files of the bucket that are objects.
sub files
{
	return join ' ', map { chomp; $_ } `cd '$s3dir/bkt' && find . -type f -not -path './.sgwtmp/*' | sort`;
}

make_server('s', "bucket 'bkt', prefix 'pre/fix', part_size '5MB', verify 'full'");
make_server('root', "bucket 'bkt', parallel_requests '3'");
my $all_ok = "put|t\nread|t\nlist|t\ndelete|t";
my $check = "SELECT step, ok FROM lsm_store_check('%s')";

is(psql(sprintf $check, 's'), $all_ok, 'a store that can be used');
is(files(), '', 'the check leaves nothing');

# One request up to the size of a part, and several above.
my $part = 5 * 1024 * 1024;

foreach my $size (0, 1, 4096, $part - 25, $part - 24, $part - 23, $part, 4 * $part + 7)
{
	my $put = psql("SELECT lsm_test_store_put('s', 'size/$size', $size)");

	like($put, qr/^$size [0-9a-f]{8}$/, "$size bytes are put");
	is(psql("SELECT lsm_test_store_head('s', 'size/$size')"), $put, 'and are there');
	is(-s "$s3dir/bkt/pre/fix/size/$size", $size + 24, 'with a trailer');
}
is( psql("SELECT put_requests, multipart_requests FROM lsm_stat_store WHERE servername = 's'"),
	1 + 4 + 1 + 2 + 2 + 5 . '|' . 2 * 4,
	'parts only where they are needed');
my $large = 'size/' . (4 * $part + 7);

is( psql(
		"SELECT lsm_test_store_reads('s', '$large',
			array_agg(i * 100001 ORDER BY i), 5000) FROM generate_series(0, 199) i"),
	200,
	'many ranges hold what was put');
is( psql(
		"SELECT lsm_test_store_reads('s', '$large',
			array_agg(i * 4000000 ORDER BY i), 4000000) FROM generate_series(0, 4) i"),
	5,
	'large ranges too');
is( psql("SELECT lsm_test_store_reads('root', 'pre/fix/size/4096', array_fill(0, '{50}'), 4096)"),
	50,
	'more at a time than the store takes');
is(psql("SELECT lsm_test_store_begin('s', '$large', $part, 12)"), 12, 'a list that is ended early');
is(psql("SELECT lsm_test_store_head('s', 'none') IS NULL"), 't', 'no such object');

# Statistics count these: exactly one request for each read.
psql('SELECT lsm_stat_reset()');
psql("SELECT lsm_test_store_reads('s', '$large', '{0,1000,2000}', 100)");
is( psql(
		"SELECT get_requests, put_requests, multipart_requests, list_requests, delete_requests,
			bytes_read, retries, errors, request_time > 0 FROM lsm_stat_store WHERE servername = 's'"),
	'3|0|0|0|0|300|0|0|t',
	'requests are counted');

# Connections are kept: all of a session's requests go over few.
my $session = $node->session('postgres');

foreach (1 .. 20)
{
	$session->query_safe("SELECT lsm_test_store_reads('s', 'size/4096', '{0}', 10)");
}
my $pid = $node->session_pid($session);
my @sockets = grep { m{-> socket:} } `ls -l /proc/$pid/fd`;
my %in_use;

open my $tcp, '<', '/proc/net/tcp' or die $!;
while (<$tcp>)
{
	my @field = split;

	$in_use{ $field[9] } = 1 if $field[2] =~ /:(\w+)$/ && hex($1) == $s3->{port};
}
close $tcp;
is(scalar(grep { m{socket:\[(\d+)\]} && $in_use{$1} } @sockets), 1, 'one connection is kept');
my @threads = glob "/proc/$pid/task/*";
is(scalar(@threads), 1, 'and no thread');
$session->quit;

# Listing, over more than a page.
psql("SELECT lsm_test_store_put('s', 'page/' || i, 0) FROM generate_series(1, 1005) i");
is( psql("SELECT count(*), count(DISTINCT key), sum(bytes) FROM lsm_test_store_list('s', 'page/')"),
	"1005|1005|" . 24 * 1005,
	'pages are followed');
is( psql("SELECT key FROM lsm_test_store_list('s', 'page/100') ORDER BY key COLLATE \"C\""),
	join("\n", map { "page/$_" } 100, 1000 .. 1005),
	'objects are listed by prefix');
is( psql("SELECT count(*) FROM lsm_test_store_list('s', '') WHERE abs(modified - extract(epoch FROM now())) < 3600"),
	1005 + 8,
	'with their times');
is(psql("SELECT count(*) FROM lsm_test_store_list('root', 'pre/fix/page')"), 1005, 'also from above');
psql("SELECT lsm_test_store_delete('s', array_agg(key) || '{none}'::text[])
	FROM lsm_test_store_list('s', 'page/')");
is(psql("SELECT count(*) FROM lsm_test_store_list('s', '')"), 8, 'many can be deleted at once');

# An object is never replaced.
like(
	$node->error_of('postgres', "SELECT lsm_test_store_put('s', 'size/1', 5)"),
	qr/^58P02: could not put object "size\/1" of store "s" DETAIL: .*HTTP status 412, error PreconditionFailed/,
	'a key cannot be used twice');
like(
	$node->error_of('postgres', "SELECT lsm_test_store_put('s', 'size/1', 6000000)"),
	qr/^58P02: could not put object "size\/1" of store "s"/,
	'nor for what has parts');
is(psql("SELECT lsm_test_store_verify('s', 'size/1') ~ '^1 '"), 't', 'what was there stays');
like(psql("SELECT lsm_test_store_put('s', 'size/1', 1)"), qr/^1 /, 'the same object is no error');

# Uploads that fail leave nothing, neither objects nor parts.
my $before = files();
sub parts
{
	return `find '$s3dir/bkt/.sgwtmp' -type f 2>/dev/null | wc -l` + 0;
}
is(parts(), 0, 'no parts lie about');
like(
	$node->error_of(
		'postgres',
		"SET lsm.debug_stop = 'store-before-visible:error'; SELECT lsm_test_store_put('s', 'e', 12000000)"),
	qr/store-before-visible/,
	'an upload that fails');
is(files(), $before, 'leaves no object');
is(parts(), 0, 'and no parts');
is(psql("SELECT lsm_test_store_head('s', 'e') IS NULL"), 't', 'nothing is to be seen');

# Wrong ranges, damage.
like(
	$node->error_of('postgres', "SELECT lsm_test_store_reads('s', 'size/4096', '{4100}', 100)"),
	qr/^XX001: could not read object "size\/4096" of store "s" DETAIL:  It is shorter than it must be\. \(HTTP status 206/,
	'a range that reaches over the end');
like(
	$node->error_of('postgres', "SELECT lsm_test_store_reads('s', 'size/4096', '{5000}', 100)"),
	qr/^XX001: could not read object .*HTTP status 416, error InvalidRange/,
	'a range beyond the end');
like(
	$node->error_of('postgres', "SELECT lsm_test_store_reads('s', 'none', '{0}', 100)"),
	qr/^58P01: could not read object "none" of store "s" DETAIL: .*HTTP status 404, error NoSuchKey, request \S+\)/,
	'a missing object');
open my $out, '+<', "$s3dir/bkt/pre/fix/size/4096" or die $!;
seek $out, 100, 0;
print $out "\x00\x01\x02\x03";
close $out;
like(
	$node->error_of('postgres', "SELECT lsm_test_store_verify('s', 'size/4096')"),
	qr/^XX001: could not verify object "size\/4096" of store "s" DETAIL:  Its checksum is wrong\./,
	'damaged bytes are found by verifying');
is( psql("SELECT errors, last_error ~ 'Its checksum is wrong', last_error_time <= now()
		FROM lsm_stat_store WHERE servername = 's'"),
	'6|t|t',
	'errors are counted');

# What may be wrong with the settings of a server.
make_server('region', "bucket 'bkt', region 'eu-west-1'");
like(
	psql("SELECT * FROM lsm_store_check('region')"),
	qr/^put\|f\|could not put object .*HTTP status 400, error AuthorizationHeaderMalformed/,
	'the wrong region');
make_server('bucket', "bucket 'no-such-bucket'");
like(
	$node->error_of('postgres', "SELECT lsm_test_store_put('bucket', 'a', 1)"),
	qr/^HV000: .*error NoSuchBucket.*HINT:  Check the option bucket/,
	'a bucket that is not there');
make_server('secret', "bucket 'bkt'",
	"access_key_id '$s3->{key}', secret_access_key 'WRONGSECRET'");
my $error = $node->error_of('postgres', "SELECT lsm_test_store_put('secret', 'a', 1)");
like(
	$error,
	qr/^28000: could not put object "a" of store "secret" .*HTTP status 403, error SignatureDoesNotMatch.*HINT:  Check the user mapping/,
	'the wrong secret');
unlike($error, qr/WRONGSECRET|$s3->{secret}|AWS4-HMAC/, 'which is not told');
make_server('nobody', "bucket 'bkt'", "access_key_id 'NOBODY', secret_access_key 'x'");
like(
	$node->error_of('postgres', "SELECT lsm_test_store_list('nobody', '')"),
	qr/^(?:28000|HV000): could not list objects of store "nobody" .*HTTP status 40[34], error \w+/,
	'the wrong key id');
make_server('token', "bucket 'bkt'",
	"access_key_id '$s3->{key}', secret_access_key '$s3->{secret}', session_token 'bogus/token+1='");
like($node->error_of('postgres', "SELECT lsm_test_store_list('token', '')"),
	qr/HTTP status 40[03], error (?!SignatureDoesNotMatch)/, 'a session token is sent, and signed');
like(
	psql("SELECT detail FROM lsm_store_check('secret')"),
	qr/SignatureDoesNotMatch/, 'the check tells of credentials');

# Changes of server and mapping are seen at once.
psql("ALTER USER MAPPING FOR PUBLIC SERVER secret OPTIONS (SET secret_access_key '$s3->{secret}')");
is(psql(sprintf $check, 'secret'), $all_ok, 'the right secret');
$session = $node->session('postgres');
is($session->query_safe(sprintf $check, 'secret'), $all_ok, 'in a session');
psql("ALTER USER MAPPING FOR PUBLIC SERVER secret OPTIONS (SET secret_access_key 'WRONGSECRET')");
like($session->query_safe("SELECT detail FROM lsm_store_check('secret')"),
	qr/SignatureDoesNotMatch/, 'which is changed meanwhile');
psql("ALTER SERVER root OPTIONS (SET bucket 'other')");
$session->query_safe("SELECT lsm_test_store_put('root', 'in-other', 1)");
ok(-f "$s3dir/other/in-other", 'so is the bucket');
psql("ALTER SYSTEM SET lsm.store_allowed_endpoints = ''");
psql('SELECT pg_reload_conf()');
$node->wait_until('postgres', "SELECT current_setting('lsm.store_allowed_endpoints') = ''");
like(
	$node->error_of('postgres', "SELECT lsm_test_store_head('root', 'in-other')"),
	qr/^42501: endpoint ".*" of store "root" is not allowed/,
	'and what endpoints are allowed');
psql('ALTER SYSTEM RESET lsm.store_allowed_endpoints');
psql('SELECT pg_reload_conf()');
$node->wait_until('postgres', "SELECT current_setting('lsm.store_allowed_endpoints') <> ''");
$session->quit;

# Credentials of the environment.
psql("CREATE SERVER env FOREIGN DATA WRAPPER lsm_store
	OPTIONS (type 's3', endpoint '$s3->{endpoint}', bucket 'bkt', credentials 'environment')");
is(psql(sprintf $check, 'env'), $all_ok, 'credentials of the environment');

# Within a transaction block, errors leave requests to be cleaned up.
$session = $node->session('postgres');
is( $session->query_safe(
		"BEGIN;
		SAVEPOINT a;
		DO \$\$ BEGIN PERFORM lsm_test_store_reads('s', 'none', array_fill(0, '{40}'), 100);
			EXCEPTION WHEN undefined_file THEN NULL; END \$\$;
		SELECT lsm_test_store_reads('s', '$large', array_fill(1, '{40}'), 100);
		COMMIT"),
	40,
	'reads after some that failed');
$session->quit;

# An S3 server that is not there, and an address that must not be asked.
my $port = LsmStoreNode::free_port();
psql("ALTER SYSTEM SET lsm.store_allowed_endpoints = '$s3->{endpoint}, http://127.0.0.1:$port, http://169.254.169.254, http://nowhere.invalid'");
psql('SELECT pg_reload_conf()');
$node->wait_until('postgres', "SELECT current_setting('lsm.store_allowed_endpoints') ~ 'invalid'");
foreach my $away (
	[ 'down', "http://127.0.0.1:$port", qr/^08006: .*It was tried [2-9]\d* times.*HINT:  Try again/ ],
	[ 'link', 'http://169.254.169.254', qr/^42501: .*stands for address 169\.254\.169\.254, which is not allowed/ ],
	[ 'name', 'http://nowhere.invalid', qr/^08006: .*Could not resolve host/i ])
{
	my ($name, $endpoint, $expected) = @$away;

	psql("CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '$endpoint', bucket 'bkt', request_timeout '1s');
		CREATE USER MAPPING FOR PUBLIC SERVER $name
		OPTIONS (access_key_id 'x', secret_access_key 'y')");
	like($node->error_of('postgres', "SELECT lsm_test_store_head('$name', 'a')"),
		$expected, "no store: $name");
}
is( psql("SELECT retries > 0, errors FROM lsm_stat_store WHERE servername = 'down'"),
	't|1', 'retries are counted');

# Nothing secret is in the server's log, but for the statements of this test.
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
$log =~ s/^.*(?:USER MAPPING|OPTIONS).*\n//mg;
unlike($log, qr/$s3->{secret}|WRONGSECRET|Signature=/, 'no secret is in the log');

# TLS: a certificate that nobody knows is refused, a known one is not.
SKIP:
{
	my $ssl = $node->basedir . '/ssl';

	mkdir $ssl or die $!;
	skip 'no openssl', 5
	  if system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
		  . "-addext subjectAltName=DNS:localhost -keyout $ssl/key.pem -out $ssl/cert.pem 2>/dev/null") != 0;
	my $tls = LsmStoreNode::start_s3("$s3dir.tls", '--cert', "$ssl/cert.pem", '--key', "$ssl/key.pem");

	mkdir "$s3dir.tls/bkt" or die $!;
	psql("ALTER SYSTEM SET lsm.store_allowed_endpoints = '$tls->{endpoint}, https://127.0.0.1:$tls->{port}'");
	psql('SELECT pg_reload_conf()');
	$node->wait_until('postgres', "SELECT current_setting('lsm.store_allowed_endpoints') ~ '$tls->{port}'");
	foreach my $server ([ 'unknown', 'localhost', '' ],
		[ 'known', 'localhost', ", ca_file '$ssl/cert.pem'" ],
		[ 'misnamed', '127.0.0.1', ", ca_file '$ssl/cert.pem'" ])
	{
		my ($name, $host, $options) = @$server;

		psql("CREATE SERVER tls_$name FOREIGN DATA WRAPPER lsm_store
			OPTIONS (type 's3', endpoint 'https://$host:$tls->{port}', bucket 'bkt' $options);
			CREATE USER MAPPING FOR PUBLIC SERVER tls_$name
			OPTIONS (access_key_id '$tls->{key}', secret_access_key '$tls->{secret}')");
	}
	like($node->error_of('postgres', "SELECT lsm_test_store_head('tls_unknown', 'a')"),
		qr/^HV000: .*certificate/i, 'a certificate that nobody knows');
	like($node->error_of('postgres', "SELECT lsm_test_store_head('tls_misnamed', 'a')"),
		qr/^HV000: .*(?:certificate|host name)/i, 'one of another host');
	is(psql(sprintf $check, 'tls_known'), $all_ok, 'and one that is known');
	like(psql("SELECT lsm_test_store_put('tls_known', 'l', 20000000)"), qr/^20000000 /, 'a large object');
	is( psql("SELECT lsm_test_store_reads('tls_known', 'l', array_agg(i * 10000), 5000) FROM generate_series(1, 100) i"),
		100, 'and reads of it');
	$tls->{stop}->();
}

# The bucket in the host's name, which the signature is for.
{
	my $virtual = LsmStoreNode::start_s3("$s3dir.virtual", '--virtual-domain', 'localhost');
	my $reads = "SELECT lsm_test_store_reads('virtual', 'a/l', array_agg(i * 10000), 5000) FROM generate_series(1, 100) i";

	mkdir "$s3dir.virtual/bkt" or die $!;
	psql("ALTER SYSTEM SET lsm.store_allowed_endpoints = 'http://localhost:$virtual->{port}'");
	psql('SELECT pg_reload_conf()');
	$node->wait_until('postgres', "SELECT current_setting('lsm.store_allowed_endpoints') ~ '$virtual->{port}'");
	psql("CREATE SERVER virtual FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint 'http://localhost:$virtual->{port}', bucket 'bkt', prefix 'p', addressing 'virtual', part_size '5MB');
		CREATE USER MAPPING FOR PUBLIC SERVER virtual
		OPTIONS (access_key_id '$virtual->{key}', secret_access_key '$virtual->{secret}')");
	is(psql(sprintf $check, 'virtual'), $all_ok, 'a store whose bucket is in the host');
	like(psql("SELECT lsm_test_store_put('virtual', 'a/l', 12000000)"), qr/^12000000 /, 'an object in parts');
	ok(-f "$s3dir.virtual/bkt/p/a/l", 'lies in the bucket');
	is(psql($reads), 100, 'and is read');
	is(psql("SELECT string_agg(key, ' ') FROM lsm_test_store_list('virtual', 'a/')"), 'a/l', 'listed');
	psql("SELECT lsm_test_store_delete('virtual', '{a/l}')");
	is(psql("SELECT lsm_test_store_head('virtual', 'a/l') IS NULL"), 't', 'and deleted');
	$virtual->{stop}->();
}

$s3->{stop}->();
$node->stop;
done_testing();
