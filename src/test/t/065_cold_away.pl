# A store that is away while increments lie over the segments that it has: VACUUM,
# autovacuum and workers do what needs no store.  A store that does not answer keeps nobody
# from a table.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;
use LsmFaultStore;

my $node = LsmStoreNode->new('main');
$node->setup(
	conf => "autovacuum = off\nautovacuum_naptime = 1s\nlog_autovacuum_min_duration = 0\nlsm.block_cache_size = 0\n");

my $dir = $node->basedir . '/cold';
mkdir $dir or die $!;

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub away
{
	rename $dir, "$dir.away" or die $!;
	return;
}

sub back
{
	rename "$dir.away", $dir or die $!;
	return;
}

sub increments
{
	return psql(q{SELECT count(*) FROM lsm_segments('t') WHERE kind = 'increment'});
}

sub same_rows
{
	my ($label) = @_;

	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM h ORDER BY id', $label);
	return;
}

psql(
	qq{CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir');
CREATE FUNCTION lsm_test_request(regclass) RETURNS int8 AS '\$libdir/lsm' LANGUAGE C STRICT;
CREATE TABLE t (id int PRIMARY KEY, a text, b int) USING lsm
	WITH (lsm.cold_store = 'cold', autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0);
INSERT INTO t SELECT i, md5(i::text), i % 7 FROM generate_series(1, 20000) i;
SELECT lsm_flush('t');
SELECT lsm_major_compact('t');
CREATE TABLE h AS SELECT * FROM t});
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'cold', 'a cold table');

# ---- VACUUM ----

sub change
{
	my ($what) = @_;

	psql("$what; " . $what =~ s/\bt\b/h/r . q{; SELECT lsm_flush('t')});
	return;
}

# What was never to be seen is in indexes.
sub dead_roots
{
	psql(q{BEGIN; INSERT INTO t SELECT i, '', 0 FROM generate_series(30001, 30100) i; ROLLBACK});
	return;
}

sub frozen
{
	return psql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 't'});
}

change('UPDATE t SET b = b + 1 WHERE id % 10 = 0');
change('DELETE FROM t WHERE id % 10 = 1');
is(increments(), 2, 'increments lie over it');
away();
foreach my $command ('VACUUM (VERBOSE)', 'VACUUM (VERBOSE, FREEZE)', 'VACUUM (VERBOSE, DISABLE_PAGE_SKIPPING)')
{
	dead_roots();
	my $frozen = frozen();
	my ($code, $stdout, $stderr) = $node->psql('postgres', "$command t");

	is($code, 0, "$command does not fail when the store is away");
	like($stderr, qr/WARNING:  segments of table "t" were not merged: .*store "cold"/, 'it says so');
	is(() = $stderr =~ m{WARNING}g, 1, 'once');
	like($stderr, qr/increments: 2 remain .*: the store has failed/, 'and what it has left');
	is(increments(), 2, 'increments stay');
	like($stderr, qr/index scans: 1\n.*tuples: [1-9]\d* removed/s, 'indexes are cleaned up');
	is(psql("SELECT age('$frozen'::xid) > age(relfrozenxid) FROM pg_class WHERE relname = 't'"),
		't', 'relfrozenxid goes on');
}

# Of what VACUUM must not touch relfrozenxid beyond: a transaction that is in doubt.
back();
same_rows('rows when the store is back');
my $holder = $node->session('postgres');
$holder->query_safe(q{BEGIN; INSERT INTO t VALUES (40000, 'held', 0)});
my $held = $holder->query_safe('SELECT txid_current() % (2::int8 ^ 32)::int8');
change('UPDATE t SET b = b + 1 WHERE id % 10 = 2');
away();
$node->psql('postgres', 'VACUUM (FREEZE) t');
is(psql("SELECT age(relfrozenxid) >= age('$held'::xid) FROM pg_class WHERE relname = 't'"),
	't', 'but not beyond what is still in doubt');
back();
$holder->query_safe('COMMIT');
$holder->quit;
psql(q{INSERT INTO h VALUES (40000, 'held', 0)});
same_rows('rows after that');
my (undef, undef, $stderr) = $node->psql('postgres', 'VACUUM t');
is($stderr, '', 'VACUUM of a store that is there says nothing');
is(increments(), 0, 'and merges all');
same_rows('rows that are merged');
$node->check_ok('postgres', 'after VACUUM');

# ---- autovacuum ----

change('UPDATE t SET b = b + 1') foreach 1 .. 2;
dead_roots();
away();
my $log = -s $node->logfile;
$node->append_conf('postgresql.conf', 'autovacuum = on');
$node->reload;
$node->wait_until('postgres',
	q{SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 't'});
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->reload;
my $lines = PostgreSQL::Test::Utils::slurp_file($node->logfile, $log);
like($lines, qr/WARNING:  segments of table "t" were not merged: .*store "cold"/,
	'autovacuum goes on, too');
like($lines, qr/LOG:  automatic vacuum of table "postgres\.public\.t": index scans: 1\n.*tuples: [1-9]\d* removed/s,
	'and cleans up indexes');
back();
same_rows('rows after autovacuum');

# ---- workers ----

# A minor is worth it, and a major more.
psql(q{SELECT lsm_major_compact('t')});
change('UPDATE t SET b = b + 1') foreach 1 .. 4;
is(increments(), 4, 'increments that lie over each other');
away();
$node->append_conf('postgresql.conf', "lsm.compaction_workers = 1\nlsm.compaction_log_min_duration = 0");
$node->restart;
$node->wait_until('postgres',
	q{SELECT last_error LIKE '%store "cold"%' FROM lsm_stat_tables WHERE relname = 't'});
$node->wait_until('postgres', q{SELECT count(*) = 1 FROM lsm_segments('t') WHERE kind = 'increment'});
pass('a worker merges increments when their major has failed');
$node->wait_until('postgres', q{SELECT errors > 1 FROM lsm_stat_tables WHERE relname = 't'});
is(psql(q{SELECT lsm_test_request('t')}), 0, 'the table itself does not rest');
psql(q{INSERT INTO t SELECT i, md5(i::text), 0 FROM generate_series(50001, 51000) i});
psql(q{INSERT INTO h SELECT i, md5(i::text), 0 FROM generate_series(50001, 51000) i});
is(psql('SELECT count(*) FROM t WHERE id > 50000'), 1000, 'and takes rows');
back();
$node->wait_until('postgres',
	q{SELECT lsm_test_request('t') >= 0 AND (SELECT count(*) = 0 FROM lsm_segments('t') WHERE kind = 'increment')});
pass('the major is made up for');
same_rows('rows that workers have merged');

# ---- a segment that another process has ----

# A session is about to put the only segment of a table: a worker finds none that it could move,
# and looks again in a while, not without end.
$node->set_workers(0);
psql(q{CREATE FUNCTION lsm_test_due(regclass) RETURNS float8 AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE TABLE one (id int, a text) USING lsm WITH (lsm.cold_store = 'cold');
INSERT INTO one SELECT i, md5(i::text) FROM generate_series(1, 1000) i});
my $locker = $node->session('postgres');
my $mover = $node->session('postgres');
my $mover_pid = $node->session_pid($mover);
$locker->query_safe('SELECT pg_advisory_lock(7107437)');
$mover->query_safe(q{SELECT lsm_flush('one'); SET lsm.debug_stop = 'cold-before-put:wait'});
$node->start_query($mover, q{SELECT count(*) FROM lsm_major_compact('one')});
$node->wait_blocked($mover_pid);
$node->set_workers(1);
psql(q{SELECT lsm_test_request('one')});
$node->wait_until('postgres', q{SELECT lsm_test_due('one') BETWEEN 1 AND 3600});
is(psql(q{SELECT location FROM lsm_segments('one')}), 'local', 'a worker waits while another process moves a segment');
$locker->quit;
$node->finish_query($mover);
$mover->quit;
is(psql(q{SELECT location FROM lsm_segments('one')}), 'cold', 'which comes to its end');

# ---- a request that does not end ----

my $store = LsmFaultStore->start($node->basedir . '/faults');
$node->append_conf('postgresql.conf',
	"lsm.store_allowed_endpoints = '" . $store->endpoint . "'\nlog_min_messages = debug1");
$node->set_workers(0);
psql("CREATE SERVER silent FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3',
		endpoint '" . $store->endpoint . "', bucket 'bkt', request_timeout '1h', stall_timeout '1h');
	CREATE USER MAPPING FOR PUBLIC SERVER silent OPTIONS (access_key_id 'x', secret_access_key 'y');
	CREATE TABLE m (id int PRIMARY KEY, a text) USING lsm;
	INSERT INTO m SELECT i, md5(i::text) FROM generate_series(1, 1000) i;
	SELECT lsm_flush('m');
	SELECT lsm_major_compact('m');
	ALTER TABLE m SET (lsm.cold_store = 'silent')");
$store->fault('^PUT ', 'hang', 1000000);
$node->set_workers(1);
foreach my $sql ('ALTER TABLE m ADD b int', 'TRUNCATE m')
{
	$node->wait_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'lsm worker' AND query = 'lsm: moving segments of public.m' AND wait_event IN ('LsmStoreRequest', 'Extension')});
	$log = -s $node->logfile;
	is($node->error_of('postgres', "SET lock_timeout = '100s'; $sql"), '', "$sql while a worker waits for a store");
	$node->wait_for_log(qr/moving segments of public\.m: job is given up because somebody waits for the table/, $log);
	pass('which has given its job up');
}
cmp_ok(scalar($store->requests('PUT')), '>=', 2, 'the store was asked each time');
is(psql('SELECT count(*) FROM m'), 0, 'the table is empty');
$node->check_ok('postgres', 'in the end');
$store->stop;
$node->stop;
done_testing();
