# Stores of type s3 on MinIO, which checks signatures of both versions: those of version 4, and
# those of version 2, where lsm is built with them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmFaultStore;
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
my $dir = $node->basedir . '/minio';
my $minio = LsmStoreNode::start_minio($dir);
my $faulty = LsmFaultStore->start($node->basedir . '/faults');
my $endpoints = join ', ', 'http://127.0.0.1:9, http://169.254.169.254', $faulty->endpoint,
  $minio ? $minio->{endpoint} : ();

$node->setup(conf => "lsm.store_allowed_endpoints = '$endpoints'\nautovacuum = off\n");
$node->test_functions('postgres');

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub error_of
{
	return $node->error_of('postgres', $_[0]);
}

sub make_server
{
	my ($name, $options, $mapping) = @_;

	$mapping ||= "access_key_id '$minio->{key}', secret_access_key '$minio->{secret}'";
	psql(
		qq{CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
			OPTIONS (type 's3', endpoint '$minio->{endpoint}', bucket 'bkt', prefix '$name/fix', $options);
		CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS ($mapping)});
	return;
}

# What the build is able to do.
my $v2 = q{CREATE SERVER v FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', bucket 'bkt', signature 'v2', };
my $plain = q{endpoint 'http://127.0.0.1:9'};
my $refusal = error_of("BEGIN; $v2 $plain); ROLLBACK");
my $built = $refusal eq '';

if (!$built)
{
	like(
		$refusal,
		qr/^0A000: signatures of version 2 are not supported by this build HINT:  Build and install lsm with "make WITH_LIBS3=1", or use signature v4\./,
		'without libs3, signature v2 is refused');
}
else
{
	foreach my $option ("ca_file '/etc/ca.pem'", "proxy 'http://127.0.0.1:9'", "region 'r'",
		"part_size '8MB'", "addressing 'virtual'")
	{
		my ($name) = $option =~ /^(\w+)/;

		like(
			error_of("$v2 $plain, $option)"),
			qr/^0A000: option "$name" cannot be used so with signature v2 DETAIL:  /,
			"what libs3 cannot do is refused: $option");
	}
	like(
		error_of("$v2 endpoint 'https://127.0.0.1')"),
		qr/^0A000: option "endpoint" .*libs3 verifies no certificates; only http works/,
		'and encryption that protects from nobody');
	psql('CREATE ROLE app; GRANT USAGE ON FOREIGN DATA WRAPPER lsm_store TO app');
	like(
		error_of("SET ROLE app; $v2 $plain)"),
		qr/^42501: permission denied to set option "signature" to v2/,
		'superusers set it');
}
like(error_of(q{CREATE SERVER v FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', bucket 'bkt', signature 'v3', endpoint 'http://127.0.0.1:9')}),
	qr/It must be v4 or v2\./, 'there are two');

# What stores must do, whatever the signature.
sub test_store
{
	my ($s, $options) = @_;
	my $part = 5 * 1024 * 1024;

	make_server($s, $options);
	is(psql("SELECT step, ok FROM lsm_store_check('$s')"),
		"put|t\nread|t\nlist|t\ndelete|t", "$s: a store that can be used");

	foreach my $size (0, 1, 4096, $part - 24, 3 * $part + 7)
	{
		my $put = psql("SELECT lsm_test_store_put('$s', 'size/$size', $size)");

		like($put, qr/^$size [0-9a-f]{8}$/, "$s: $size bytes are put");
		is(psql("SELECT lsm_test_store_head('$s', 'size/$size')"), $put, "$s: and are there");
		is(psql("SELECT lsm_test_store_verify('$s', 'size/$size')"), $put, "$s: whole");
	}
	my $large = 'size/' . (3 * $part + 7);
	is( psql(
			"SELECT lsm_test_store_reads('$s', '$large',
				array_agg(i * 70001 ORDER BY i), 5000) FROM generate_series(0, 199) i"),
		200,
		"$s: many ranges hold what was put");
	is( psql(
			"SELECT lsm_test_store_reads('$s', '$large',
				array_agg(i * 3000000 ORDER BY i), 3000000) FROM generate_series(0, 4) i"),
		5,
		"$s: large ones too");
	is(psql("SELECT lsm_test_store_begin('$s', '$large', $part, 12)"), 12,
		"$s: a list of reads that is ended early");
	is(psql("SELECT lsm_test_store_head('$s', 'none') IS NULL"), 't', "$s: no such object");
	psql('SELECT lsm_stat_reset()');
	psql("SELECT lsm_test_store_reads('$s', '$large', '{0,1000,2000}', 100)");
	is( psql("SELECT get_requests, put_requests, list_requests, delete_requests, bytes_read, retries, errors
				FROM lsm_stat_store WHERE servername = '$s'"),
		'3|0|0|0|300|0|0',
		"$s: requests are counted");

	# listing, over more than a page, and deleting
	psql("SELECT lsm_test_store_put('$s', 'page/' || i, 0) FROM generate_series(1, 1005) i");
	is( psql("SELECT count(*), count(DISTINCT key), sum(bytes) FROM lsm_test_store_list('$s', 'page/')"),
		"1005|1005|" . 24 * 1005,
		"$s: pages are followed");
	is( psql("SELECT count(*) FROM lsm_test_store_list('$s', 'page/100')"), 7,
		"$s: objects are listed by prefix");
	is( psql("SELECT count(*) FROM lsm_test_store_list('$s', '')
			WHERE abs(modified - extract(epoch FROM now())) < 3600"),
		1005 + 5, "$s: with their times");
	psql('SELECT lsm_stat_reset()');
	psql("SELECT lsm_test_store_delete('$s', array_agg(key) || '{none}'::text[])
		FROM lsm_test_store_list('$s', 'page/')");
	is(psql("SELECT delete_requests FROM lsm_stat_store WHERE servername = '$s'"),
		1006, "$s: a request each");
	is(psql("SELECT count(*) FROM lsm_test_store_list('$s', '')"), 5, "$s: deletes many");

	# an object is not replaced
	like(error_of("SELECT lsm_test_store_put('$s', 'size/1', 5)"),
		qr/^58P02: could not put object "size\/1" of store "$s"/, "$s: a key cannot be used twice");
	like(psql("SELECT lsm_test_store_verify('$s', 'size/1')"), qr/^1 /, "$s: what was there stays");
	like(psql("SELECT lsm_test_store_put('$s', 'size/1', 1)"), qr/^1 /,
		"$s: the same object is no error");

	# what fails
	like(
		error_of(
			"SET lsm.debug_stop = 'store-before-visible:error'; SELECT lsm_test_store_put('$s', 'e', 12000000)"),
		qr/store-before-visible/,
		"$s: an upload that fails");
	is(psql("SELECT lsm_test_store_head('$s', 'e') IS NULL"), 't', "$s: leaves nothing to be seen");
	like(
		error_of("SELECT lsm_test_store_reads('$s', 'size/4096', '{4100}', 100)"),
		qr/^XX001: could not read object "size\/4096" of store "$s"/,
		"$s: a range that reaches over the end");
	like(
		error_of("SELECT lsm_test_store_reads('$s', 'none', '{0}', 100)"),
		qr/^58P01: could not read object "none" of store "$s" DETAIL: .*HTTP status 404, error NoSuchKey/,
		"$s: a missing object");
	psql("ALTER USER MAPPING FOR PUBLIC SERVER $s OPTIONS (SET secret_access_key 'WRONGSECRET')");
	foreach my $call ("lsm_test_store_put('$s', 'a', 1)", "lsm_test_store_head('$s', 'size/1')",
		"lsm_test_store_list('$s', '')", "lsm_test_store_delete('$s', '{size/1}')")
	{
		my $error = error_of("SELECT $call");

		like($error, qr/^28000: .*SignatureDoesNotMatch.*HINT:  Check the user mapping/,
			"$s: the wrong secret: $call");
		unlike($error, qr/WRONGSECRET|$minio->{secret}|Signature=/, "$s: which is not told");
	}
	psql("ALTER USER MAPPING FOR PUBLIC SERVER $s OPTIONS (SET secret_access_key '$minio->{secret}')");

	psql("SELECT lsm_test_store_delete('$s', array_agg(key)) FROM lsm_test_store_list('$s', '')");
	is(psql("SELECT count(*) FROM lsm_test_store_list('$s', '')"), 0, "$s: all are gone");
	return;
}

# A table whose rows lie there.
sub test_table
{
	my ($s) = @_;
	my $large = "SELECT string_agg(md5(j::text), '') FROM generate_series(1, 1000) j";

	psql(
		qq{CREATE TABLE t (id int PRIMARY KEY, a text, b int) USING lsm WITH (lsm.cold_store = '$s');
INSERT INTO t SELECT i, md5(i::text) || md5((-i)::text), i % 7 FROM generate_series(1, 60000) i;
INSERT INTO t SELECT 100000 + i, ($large), i FROM generate_series(1, 20) i;
CREATE TABLE h AS SELECT * FROM t;
SELECT lsm_flush('t');
SELECT lsm_major_compact('t')});
	is(psql(qq{SELECT bool_or(location = '$s') FROM lsm_segments('t')}),
		't', "$s: segments move out");
	is(psql(q{SELECT count(*) FROM t WHERE id = 30000}), 1, "$s: a row is found");
	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id',
		"$s: all rows");
	foreach my $table ('t', 'h')
	{
		psql(
			qq{UPDATE $table SET b = -1 WHERE id % 100 = 0; DELETE FROM $table WHERE id BETWEEN 2000 AND 4000;
INSERT INTO $table SELECT i, 'new', i FROM generate_series(3000, 3100) i});
	}
	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id',
		"$s: all rows with changes");
	psql(q{SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id',
		"$s: all rows after compaction");
	$node->check_ok('postgres', $s);
	cmp_ok(psql(qq{SELECT lsm_store_remove_orphans('$s', '0')}), '>', 0, "$s: old objects are removed");
	is(psql(qq{SELECT count(*) FROM lsm_store_orphans('$s')}), 0, "$s: none is left");
	psql('CHECKPOINT');
	$node->crash_and_start;
	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id',
		"$s: all rows after a crash");
	psql(q{ALTER TABLE t RESET (lsm.cold_store); SELECT lsm_major_compact('t')});
	is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', "$s: segments come back");
	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id',
		"$s: all rows at home");
	psql(qq{DROP TABLE t, h; SELECT lsm_store_remove_orphans('$s', '0')});
	is(psql("SELECT count(*) FROM lsm_test_store_list('$s', '')"), 0, "$s: nothing is left behind");
	return;
}

SKIP:
{
	skip 'no MinIO (LSM_MINIO_SERVER)', 1 unless $minio;

	mkdir "$dir/bkt" or die $!;
	test_store('four', q{part_size '5MB', verify 'full'});
	test_table('four');
}
SKIP:
{
	skip 'no MinIO (LSM_MINIO_SERVER)', 1 unless $minio;
	skip 'lsm is built without WITH_LIBS3=1', 1 unless $built;

	test_store('two', q{signature 'v2', verify 'full', parallel_requests '16'});
	test_table('two');

	# what is in the way of libs3
	make_server('token', q{signature 'v2'},
		"access_key_id '$minio->{key}', secret_access_key '$minio->{secret}', session_token 'x'");
	like(error_of(q{SELECT lsm_test_store_head('token', 'a')}),
		qr/^0A000: store "token" cannot be used with signature v2 DETAIL:  libs3 knows no session tokens/,
		'session tokens are refused');
	foreach my $id ('A' x 33, 'A+B')
	{
		make_server('id', q{signature 'v2'}, "access_key_id '$id', secret_access_key 'x'");
		my $error = error_of(q{SELECT lsm_test_store_head('id', 'a')});
		like($error, qr/^0A000: store "id" .*access_key_id must be of at most 32/,
			'so are ids that do not fit');
		unlike($error, qr/\Q$id\E/, 'which are not told');
		psql('DROP SERVER id CASCADE');
	}
	foreach my $away ([ 'down', 'http://127.0.0.1:9', qr/^08006: .*It was tried/ ],
		[ 'link', 'http://169.254.169.254', qr/^42501: .*stands for address 169\.254\.169\.254/ ])
	{
		my ($name, $endpoint, $expected) = @$away;

		psql(
			qq{CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
			OPTIONS (type 's3', endpoint '$endpoint', bucket 'bkt', signature 'v2', request_timeout '1s');
		CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS (access_key_id 'x', secret_access_key 'y')});
		like(error_of("SELECT lsm_test_store_put('$name', 'a', 1)"), $expected, "no store: $name");
		like(error_of("SELECT lsm_test_store_delete('$name', '{a}')"), $expected, "nor to delete: $name");
	}
	{
		local $ENV{http_proxy} = 'http://127.0.0.1:9';
		$node->restart;
		like(error_of(q{SELECT lsm_test_store_head('two', 'a')}),
			qr/^0A000: store "two" .*names a proxy/, 'so are proxies of the environment');
		local $ENV{no_proxy} = '*';
		$node->restart;
		like(psql(q{SELECT lsm_test_store_put('two', 'a', 1)}), qr/^1 /, 'unless there is no use for them');
	}
}

# What is put and deleted through libs3, where the store fails.
sub test_faults
{
	foreach my $server ([ 'w', '1min', '20s' ], [ 'short', '2500ms', '20s' ], [ 'stall', '1min', '1s' ])
	{
		my ($name, $request, $stall) = @$server;

		psql("CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
				endpoint '" . $faulty->endpoint . "', bucket 'bkt', signature 'v2',
				request_timeout '$request', stall_timeout '$stall');
			CREATE USER MAPPING FOR PUBLIC SERVER $name
				OPTIONS (access_key_id 'x', secret_access_key 'y')");
	}
	my $session = $node->session('postgres');
	my $i = 0;

	foreach my $kind ('status:500:InternalError', 'status:503:SlowDown', 'status:503:ServiceUnavailable',
		'status:429', 'status:502', 'status:400:RequestTimeout', 'reset', 'lost')
	{
		my $key = $i++ % 2 ? "a$i" : "continue$i";

		$session->query_safe('SELECT lsm_stat_reset()');
		$faulty->fault('PUT', $kind, 2);
		like($session->query_safe("SELECT lsm_test_store_put('w', '$key', 9000000)"), qr/^9000000 /,
			"an object is put after $kind");
		is( $session->query_safe(
				"SELECT put_requests, retries, errors FROM lsm_stat_store WHERE servername = 'w'"),
			$kind eq 'lost' ? '1|0|0' : '3|2|0',
			'with as many more requests as it takes');
		$faulty->fault('DELETE', $kind, 5);
		$session->query_safe(
			"SELECT lsm_test_store_delete('w', array_agg('d' || i) || '{$key}'::text[]) FROM generate_series(1, 30) i");
		is($session->query_safe("SELECT lsm_test_store_head('w', '$key') IS NULL"), 't', 'and deleted');
	}
	$faulty->fault('PUT', 'hang', 1);
	like($session->query_safe("SELECT lsm_test_store_put('stall', 'hang', 100000)"), qr/^100000 /,
		'also if there is no answer at first');
	foreach my $case (
		[ 'status:400', qr/^08006: could not put object "\w+" of store "short"/ ],
		[ 'status:403:AccessDenied', qr/^28000: could not put .* DETAIL:  this is AccessDenied \(error AccessDenied\)/ ],
		[ 'status:404:NoSuchBucket', qr/^HV000: .*error NoSuchBucket.*HINT:  Check the option bucket/ ],
		[ 'status:400:InvalidDigest', qr/^HV000: .*error InvalidDigest/ ],
		[ 'status:503:SlowDown', qr/^08006: .*(?:error SlowDown|request_timeout).* It was tried \d+ times/ ],
		[ 'status:307', qr/^08006: could not put object "\w+" of store "short"/ ],
		[ 'hang', qr/^08006: .*It took longer than request_timeout\./ ],
		[ 'drop', qr/^08006: could not put object "\w+" of store "short".*(?:It is not there after it was put|request_timeout)\./ ])
	{
		my ($kind, $expected) = @$case;

		$faulty->fault('PUT', $kind, 1000);
		foreach my $key ('b', 'continue')
		{
			$faulty->fault('PUT', $kind, 1000);
			like(error_of("SELECT lsm_test_store_put('short', '$key', 100000)"),
				$expected, "not after $kind");
			$faulty->fault('', undef);
			is(psql("SELECT lsm_test_store_head('short', '$key') IS NULL"),
				't', 'nothing is there');
		}
	}
	$faulty->fault('DELETE .*d7', 'status:403:AccessDenied', 1000);
	like(
		error_of(q{SELECT lsm_test_store_delete('w', array_agg('d' || i)) FROM generate_series(1, 20) i}),
		qr/^28000: could not delete object "d7" of store "w"/,
		'what cannot be deleted is told');

	# cancelling, and what the session can do after it
	foreach my $call ([ 'PUT', q{lsm_test_store_put('w', 'c', 9000000)} ],
		[ 'DELETE', q{lsm_test_store_delete('w', array_agg('d' || i)) FROM generate_series(1, 100) i} ])
	{
		my ($method, $sql) = @$call;

		$faulty->fault($method, 'hang', 1000);
		like(
			error_of("SET statement_timeout = '500ms'; SELECT $sql"),
			qr/^57014: canceling statement due to statement timeout/,
			"$method ends with the statement");
		$session->query("SET statement_timeout = '500ms'; SELECT $sql");
		$session->{stderr} = '';
		$session->query_safe('RESET statement_timeout');
		$faulty->fault('', undef);
		is($session->query_safe("SELECT lsm_test_store_head('w', 'c') IS NULL"), 't',
			"$method is cancelled");
		like($session->query_safe("SELECT lsm_test_store_put('w', 'after-$method', 10)"), qr/^10 /,
			'and another is done');
		my $pid = $node->session_pid($session);
		my @threads = glob "/proc/$pid/task/*";
		is(scalar(@threads), 1, 'without a thread');
		my @sockets = grep { m{-> socket:} } `ls -l /proc/$pid/fd`;
		cmp_ok(scalar(@sockets), '<', 16, 'or sockets left over');
	}
	$session->quit;
	return;
}

test_faults() if $built;
$faulty->stop;
$node->stop;
$minio->{stop}->() if $minio;

# Nothing secret is in the server's log, but for the statements of this test.
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
$log =~ s/^.*(?:USER MAPPING|OPTIONS).*\n//mg;
unlike($log, qr/TESTSECRET|WRONGSECRET|Signature=/, 'no secret is in the log');
done_testing();
