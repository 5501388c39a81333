# What a store of type s3 does to those who use it: errors that pass are waited out, all
# others are told; nothing hangs, and nothing that is wrong is taken for right.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;
use LsmFaultStore;

my $node = LsmStoreNode->new('main');
my $dir = $node->basedir . '/faults';
my $store = LsmFaultStore->start($dir);

(my $by_name = $store->endpoint) =~ s/127\.0\.0\.1/localhost/;
$node->setup(conf => "lsm.store_allowed_endpoints = '" . $store->endpoint . ", $by_name'\n");
$node->test_functions('postgres');

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# "s" has time to try again until it succeeds, "again" to try again, "short" has not.
foreach my $server ([ 's', '1min', '20s' ], [ 'again', '3s', '20s' ], [ 'short', '1s', '20s' ], [ 'stall', '1min', '1s' ])
{
	my ($name, $request, $stall) = @$server;

	psql("CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
			endpoint '" . $store->endpoint . "', bucket 'bkt', part_size '5MB',
			request_timeout '$request', stall_timeout '$stall');
		CREATE USER MAPPING FOR PUBLIC SERVER $name
			OPTIONS (access_key_id 'x', secret_access_key 'y')");
}
is(psql("SELECT string_agg(ok::text, ' ') FROM lsm_store_check('s')"),
	'true true true true', 'without faults');
$store->fault('GET .bkt/\d', 'damage', 100);
like(psql("SELECT step, ok, detail FROM lsm_store_check('s')"),
	qr/^put\|f\|could not read object ".*" of store "s": .*\z/, 'damage is told in a row');
$store->fault('GET .bkt/\d', undef);
is(psql("SELECT count(*) FROM lsm_test_store_list('s', '')"), 0, 'and nothing stays');
my $put = psql("SELECT lsm_test_store_put('s', 'a', 100000)");
psql("SELECT lsm_test_store_put('s', 'large', 12000000)");
my $read = "SELECT lsm_test_store_reads('%s', 'a', array_agg(i * 1000 ORDER BY i), 1000)
	FROM generate_series(0, 29) i";

# The bucket is where the option says.
psql("CREATE SERVER virtual FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
		endpoint '$by_name', bucket 'bkt', addressing 'virtual');
	CREATE USER MAPPING FOR PUBLIC SERVER virtual
		OPTIONS (access_key_id 'x', secret_access_key 'y')");
$store->requests('');
is(psql("SELECT lsm_test_store_head('virtual', 'a')"), $put, 'an object of a bucket in the host');
(my $port = $by_name) =~ s/.*://;
like(join('|', $store->requests('')), qr/^GET .bkt.a bkt in bkt\.localhost:$port$/, 'is asked for there');
psql(sprintf $read, 's');
unlike(join('|', $store->requests('')), qr/ in /, 'and by path otherwise');

# Errors that pass.
foreach my $kind (
	'status:500:InternalError', 'status:503:SlowDown', 'status:429', 'status:502',
	'status:400:RequestTimeout', 'reset', 'lost', 'cut')
{
	psql('SELECT lsm_stat_reset()');
	$store->fault('GET .bkt/a', $kind, 3);
	is(psql(sprintf $read, 's'), 30, "reads succeed after $kind");
	is(psql("SELECT get_requests, retries, errors FROM lsm_stat_store WHERE servername = 's'"),
		'33|3|0', 'the failed ones were tried again');
	$store->fault('GET .bkt/a', $kind, 2);
	is(psql("SELECT lsm_test_store_head('s', 'a')"), $put, 'so were those of the end');
}
$store->fault('GET .bkt/a', 'stall', 2);
is(psql(sprintf $read, 'stall'), 30, 'reads succeed after those that stall');
$store->fault('GET .bkt/a', 'hang', 1);
is(psql(sprintf $read, 'stall'), 30, 'and those that are not answered');

# The same when it is put; what has been done is not an error the second time.
my $n = 0;
foreach my $kind ('status:503:SlowDown', 'reset', 'lost', 'status:400:BadDigest')
{
	$n++;
	$store->fault("PUT .bkt/p$n", $kind, 2);
	like(psql("SELECT lsm_test_store_put('s', 'p$n', 1000)"), qr/^1000 /, "put after $kind");
	foreach my $step ("POST .bkt/m$n\\?uploads", "PUT .bkt/m$n", "POST .bkt/m$n\\?uploadId")
	{
		$store->fault($step, $kind, 1);
		like(psql("SELECT lsm_test_store_put('s', 'm$n', 6000000)"),
			qr/^6000000 /, "put in parts after $kind of $step");
		is(psql("SELECT lsm_test_store_verify('s', 'm$n') ~ '^6000000'"), 't', 'all of it is there');
		psql("SELECT lsm_test_store_delete('s', '{m$n}')");
	}
	$store->fault("DELETE .bkt/p$n", $kind, 2);
	psql("SELECT lsm_test_store_delete('s', '{p$n}')");
	is(psql("SELECT lsm_test_store_head('s', 'p$n') IS NULL"), 't', 'and deleted');
	$store->fault('GET .bkt\?', $kind, 2);
	is(psql("SELECT count(*) FROM lsm_test_store_list('s', '')"), 2, 'and listed');
}

# Errors that do not pass in time.
foreach my $case (
	[ 'status:503:SlowDown', 'again', qr/^08006: .*this is SlowDown \(HTTP status 503, error SlowDown, request FAULTY\) It was tried \d+ times\. HINT:  Try again/ ],
	[ 'reset', 'again', qr/^08006: .*It was tried \d+ times/ ],
	[ 'cut', 'again', qr/^08006: .*It was tried \d+ times/ ],
	[ 'hang', 'short', qr/^08006: .*timed out|Timeout/i ],
	[ 'stall', 'short', qr/^08006: .*timed out|Timeout/i ])
{
	my ($kind, $server, $expected) = @$case;

	$store->fault('GET .bkt/a', $kind, 1000000);
	like($node->error_of('postgres', sprintf $read, $server), $expected, "$kind without an end");
	like($node->error_of('postgres', "SELECT lsm_test_store_head('$server', 'a')"),
		$expected, 'also at the end of an object');
}

# Errors that are told at once.
foreach my $case (
	[ 'status:403:AccessDenied', qr/^28000: .*HTTP status 403, error AccessDenied/ ],
	[ 'status:403:RequestTimeTooSkewed', qr/^28000: .*HINT:  Set the clock/ ],
	[ 'status:404:NoSuchBucket', qr/^HV000: .*HINT:  Check the option bucket/ ],
	[ 'status:301:PermanentRedirect', qr/^HV000: .*HINT:  Check the options region and endpoint/ ],
	[ 'status:307', qr/^HV000: .*HTTP status 307/ ],
	[ 'status:418', qr/^HV000: .*HTTP status 418/ ],
	[ 'whole', qr/^HV000: .*does not answer with the range/ ],
	[ 'shift', qr/^XX001: .*It is shorter than it must be|XX001: .*longer/ ],
	[ 'body:', qr/^HV000: .*does not answer with the range/ ],
	[ 'flood', qr/^XX001: .*The answer is longer than it may be/ ])
{
	my ($kind, $expected) = @$case;

	$store->fault('GET .bkt/a', undef);
	$store->requests('');
	$store->fault('GET .bkt/a', $kind, 1000000);
	like($node->error_of('postgres', "SELECT lsm_test_store_reads('s', 'a', '{1000}', 1000)"),
		$expected, "$kind is told");
	is(scalar($store->requests('GET')), 1, 'at once');
}

$store->fault('DELETE .bkt/a', 'status:403:AccessDenied', 1000000);
$store->requests('');
like($node->error_of('postgres', "SELECT lsm_test_store_delete('s', '{a}')"),
	qr/^28000: could not delete .* of store "s" .*HTTP status 403, error AccessDenied/,
	'so is an object that must not be deleted');
is(scalar($store->requests('DELETE')), 1, 'at once');
$store->fault('', undef);
is(psql("SELECT lsm_test_store_head('s', 'a')"), $put, 'it is there');

# Damage.
$store->fault('GET .bkt/a', 'damage', 1);
like($node->error_of('postgres', "SELECT lsm_test_store_head('s', 'a')"),
	qr/^XX001: could not read object "a" of store "s"/, 'a damaged trailer');
$store->fault('GET .bkt/large', 'damage-large', 2);
like($node->error_of('postgres', "SELECT lsm_test_store_verify('s', 'large')"),
	qr/^XX001: could not verify .*Its checksum is wrong/, 'damaged bytes');
is($node->error_of('postgres', "SELECT lsm_test_store_verify('s', 'large')"), '', 'only then');

# What is not there after it was put, or not as it was put.
$store->fault('PUT .bkt/dropped', 'drop', 1);
like($node->error_of('postgres', "SELECT lsm_test_store_put('s', 'dropped', 10)"),
	qr/^XX001: could not verify object "dropped" .*not there after it was put/,
	'an object that the store forgets');
$store->fault('PUT .bkt/two\?partNumber=2', 'drop', 1);
like($node->error_of('postgres', "SELECT lsm_test_store_put('s', 'two', 6000000)"),
	qr/^HV000: could not put object "two" .*NoSuchUpload/, 'or a part of one');
ok(!glob("$dir/parts/*"), 'its upload is given up');
$store->fault('POST .bkt/two\?uploadId',
	'body:<Error><Code>InvalidPart</Code><Message>That part is not known</Message></Error>', 1);
like($node->error_of('postgres', "SELECT lsm_test_store_put('s', 'two', 6000000)"),
	qr/could not put object "two" .*That part is not known \(HTTP status 200, error InvalidPart/,
	 'an error after status 200');
ok(!glob("$dir/parts/*"), 'its upload is given up');
$store->fault('POST .bkt/two\?uploadId', 'body:<Error><Code>InternalError</Code></Error>', 2);
$store->requests('');
like(psql("SELECT lsm_test_store_put('s', 'two', 6000000)"), qr/^6000000 /,
	'one that may pass');
my @requests = $store->requests('');
is(scalar(grep { m{^POST .bkt/two\?uploadId} } @requests), 3, 'is tried again');
is(scalar(grep { /^PUT / } @requests), 2, 'without the parts');
$store->fault('POST .bkt/two\?uploadId', 'body:<Error><Code>PreconditionFailed</Code></Error>', 1);
like($node->error_of('postgres', "SELECT lsm_test_store_put('s', 'two', 7000000)"),
	qr/^58P02: could not put object "two" .*PreconditionFailed/, 'one that there is already');
ok(!glob("$dir/parts/*"), 'its upload is given up');

# A store that does not know conditions is used without them.
$store->fault('PUT .bkt/condition', 'status:501:NotImplemented', 1);
like(psql("SELECT lsm_test_store_put('s', 'condition', 10)"), qr/^10 /, 'without conditions');

# Answers that are no lists.
foreach my $body ('', 'x', '<!DOCTYPE a>', '<Error><Code>InternalError</Code></Error>',
	'<html><body>Please wait</body></html>', '<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>',
	'<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>',
	'<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>',
	'<ListBucketResult><Contents><Key>a%zz</Key></Contents></ListBucketResult>',
	'<ListBucketResult><Contents><Key>other</Key></Contents></ListBucketResult>')
{
	$store->fault('GET .bkt\?', "body:$body", 1);
	like($node->error_of('postgres', "SELECT * FROM lsm_test_store_list('s', 'a')"),
		qr/^HV000: could not list objects of store "s" DETAIL:  The answer of the store is not valid/,
		"no list: \"$body\"");
}
$store->fault('GET .bkt\?', 'body:<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>'
	  . '<IsTruncated>true</IsTruncated><NextContinuationToken>NEXT</NextContinuationToken>'
	  . '</ListBucketResult>', 1000000);
like(
	$node->error_of('postgres',
		"SET statement_timeout = '3min'; SELECT * FROM lsm_test_store_list('s', 'a')"),
	qr/^HV000: .*it does not lead on to the next page/, 'the same page, again and again');
$store->fault('GET .bkt\?', 'flood', 1);
like($node->error_of('postgres', "SELECT * FROM lsm_test_store_list('s', 'a')"),
	qr/^XX001: .*longer than it may be/, 'a list without an end');

# A request that waits can be cancelled, and so can one that will be tried again.
foreach my $kind ('hang', 'stall', 'status:503:SlowDown')
{
	my $session = $node->session('postgres');
	my $pid = $node->session_pid($session);

	$store->fault('', undef);
	$store->requests('');
	$store->fault('GET .bkt/a', $kind, 1000000);
	$node->start_query($session, sprintf $read, 's');
	$node->wait_until('postgres',
		"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	psql("SELECT pg_cancel_backend($pid)");
	my (undef, $stderr) = $node->finish_query($session);

	like($stderr, qr/canceling statement due to user request/, "cancelled: $kind");
	$store->fault('', undef);
	is($session->query_safe(sprintf $read, 's'), 30, 'and the session goes on');
	$store->fault('GET .bkt/a', $kind, 1000000);
	$session->query("SET statement_timeout = '300ms'");
	$node->start_query($session, sprintf $read, 's');
	(undef, $stderr) = $node->finish_query($session);
	like($stderr, qr/canceling statement due to statement timeout/, "timed out: $kind");
	$node->start_query($session, "RESET statement_timeout; " . sprintf $read, 's');
	$node->wait_until('postgres',
		"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
	psql("SELECT pg_terminate_backend($pid)");
	$node->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
	$session->{run}->kill_kill;
	$store->fault('', undef);
}

# A request's time begins with its turn.
psql("CREATE SERVER narrow FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
		endpoint '" . $store->endpoint . "', bucket 'bkt', parallel_requests '1',
		request_timeout '3s');
	CREATE USER MAPPING FOR PUBLIC SERVER narrow OPTIONS (access_key_id 'x', secret_access_key 'y')");
$store->fault('GET .bkt/a', 'slow:0.6', 8);
is(psql("SELECT lsm_test_store_reads('narrow', 'a', '{0,1000,2000,3000,4000,5000,6000,7000}', 1000)"),
	8, 'slow reads one after the other take longer than one may');

# Nor is it time of the request's when nobody waits for it: who has asked for more than he takes
# does something else first.  Its answer may come after all timeouts, its connection may be
# closed, or it is sent only then and its signature is too old; none of that is an error.
# (None of it comes before the pause has begun.)
psql("CREATE SERVER late FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
		endpoint '" . $store->endpoint . "', bucket 'bkt', connect_timeout '3s', stall_timeout '3s', request_timeout '3s');
	CREATE USER MAPPING FOR PUBLIC SERVER late OPTIONS (access_key_id 'x', secret_access_key 'y')");
foreach my $case ([ 'slow:5', '0' ], [ 'hang:2', '[01]' ], [ 'status:403:RequestTimeTooSkewed:2', '1' ])
{
	my ($kind, $retries) = @$case;

	psql('SELECT lsm_stat_reset()');
	$store->fault('GET .bkt/a', $kind, 1);

	# the first read leaves a connection for the second
	is(psql("SELECT lsm_test_store_reads('late', 'large', '{0}', 1000), lsm_test_store_pause('late', 'a', 4)"),
		'1|t', "a read with a pause: $kind");
	like(psql(q{SELECT retries, errors FROM lsm_stat_store WHERE servername = 'late'}),
		qr/^$retries\|0$/, 'which is tried again only if its answer is not to be had');
}
$store->fault('', undef);

# What the source of an object was reading when it failed is not waited for, and written
# nowhere, while the upload is given up.
$store->fault('(GET .bkt/a|DELETE .bkt/failing)', 'slow:0.5', 2);
like(
	$node->error_of('postgres', "SELECT lsm_test_store_put_failing('s', 'failing', 'a')"),
	qr/^XX000: the source fails/,
	'a source that fails while it reads');
$store->fault('', undef);

# A cancelled upload leaves nothing.
my $session = $node->session('postgres');
my $pid = $node->session_pid($session);
$store->fault('PUT .bkt/cancelled', 'hang', 1000000);
$store->requests('');
$node->start_query($session, "SELECT lsm_test_store_put('s', 'cancelled', 20000000)");
ok($store->wait_for('^PUT .bkt/cancelled'), 'an upload has begun');
psql("SELECT pg_cancel_backend($pid)");
like(($node->finish_query($session))[1], qr/canceling statement/, 'an upload is cancelled');
$store->fault('', undef);

# It is given up at once or, as nobody waits for that, along with the next requests.
my $given_up = 0;
foreach (1 .. 1000)
{
	$given_up = scalar(grep { m{/bkt/cancelled\?uploadId} } $store->requests('DELETE')) and last;
	$session->query_safe("SELECT lsm_test_store_head('s', 'none')");
}
ok($given_up, 'and given up');
is(psql("SELECT lsm_test_store_head('s', 'cancelled') IS NULL"), 't', 'nothing is there');
$session->quit;

# So it is where a part takes the only request that there may be, and the session ends.
psql("CREATE SERVER single FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
		endpoint '" . $store->endpoint . "', bucket 'bkt', part_size '5MB', parallel_requests '1');
	CREATE USER MAPPING FOR PUBLIC SERVER single OPTIONS (access_key_id 'x', secret_access_key 'y')");
$session = $node->session('postgres');
$pid = $node->session_pid($session);
$store->fault('PUT .bkt/single', 'hang', 1000000);
$node->start_query($session, "SELECT lsm_test_store_put('single', 'single', 20000000)");
ok($store->wait_for('^PUT .bkt/single\?partNumber=1'), 'a part is being sent');
psql("SELECT pg_cancel_backend($pid)");
like(($node->finish_query($session))[1], qr/canceling statement/, 'its upload is cancelled');
$session->quit;
ok($store->wait_for('^DELETE .bkt/single\?uploadId'), 'and given up, though the session has ended');
$store->fault('', undef);

unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/WARNING|TRAP|PANIC/, 'no warnings');
$store->stop;
$node->stop;
done_testing();
