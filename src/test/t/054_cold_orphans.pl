# Objects that nothing needs any more are deleted; others are not.

use strict;
use warnings;

use FindBin;
use IPC::Run ();
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
$node->setup(
	conf => "restart_after_crash = on
max_prepared_transactions = 5
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
autovacuum = off
");

my $dir = $node->basedir . '/cold';
mkdir $dir or die $!;
my $server = "CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')";

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub files
{
	my @files = map { chomp; s/^\.\///; $_ } `cd '$dir' && find . -type f | sort`;

	return \@files;
}

# Wait until workers have swept the store so often again: they list objects and claims.
sub sweeps
{
	my ($on, $sweeps) = @_;
	my $n = 2 * $sweeps;
	my $then = $on->safe_psql('postgres', 'SELECT list_requests FROM lsm_stat_store');

	$on->wait_until('postgres', "SELECT list_requests >= $then + $n FROM lsm_stat_store");
	return;
}

# Workers leave so many objects, and after another sweep or two they still do.
sub swept_ok
{
	my ($expected, $label) = @_;

	for (1 .. 100)
	{
		last if @{ files() } == $expected;
		sweeps($node, 1);
	}
	sweeps($node, 2);
	is(scalar @{ files() }, $expected, $label);
	return;
}

sub workers
{
	my ($n) = @_;

	$node->adjust_conf('postgresql.conf', 'lsm.compaction_workers', $n);
	$node->reload;
	$node->wait_until('postgres',
		"SELECT current_setting('lsm.compaction_workers') = '$n'");
	$node->wait_until('postgres',
		q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'lsm worker%'}) if $n == 0;
	return;
}

psql(
	qq{$server;
CREATE TABLE t (id int PRIMARY KEY, a text) USING lsm WITH (lsm.cold_store = 'cold');
INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 3000) i;
SELECT lsm_flush('t');
SELECT lsm_major_compact('t');
CREATE TABLE u (id int PRIMARY KEY, a text) USING lsm WITH (lsm.cold_store = 'cold');
INSERT INTO u SELECT i, md5(i::text) FROM generate_series(1, 3000) i;
SELECT lsm_flush('u');
SELECT lsm_major_compact('u');
});
is(scalar @{ files() }, 2, 'an object for each table');
is(psql(q{SELECT count(*) FROM lsm_store_orphans('cold')}), 0, 'both are needed');
is( psql(q{BEGIN; SELECT count(*) FROM lsm_store_orphans('cold');
		SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'lsm manifest'}),
	"0\n0",
	'and not in use any more by who has looked, nor kept in memory');

# What compaction has replaced, and what a put has left.
psql(
	q{UPDATE t SET a = 'x' WHERE id = 1; SELECT lsm_flush('t');
	SELECT lsm_major_compact('t')});
isnt(
	$node->psql_until_crash(
		'postgres',
		q{UPDATE u SET a = 'x' WHERE id = 1; SELECT lsm_flush('u');
		SET lsm.debug_stop = 'cold-before-swap:crash'; SELECT lsm_major_compact('u')}),
	'',
	'crash after a put');
cmp_ok(scalar @{ files() }, '>=', 4, 'objects that nothing needs');
is(psql(q{SELECT count(*) FROM lsm_store_orphans('cold') WHERE removable}),
	@{ files() } - psql(q{SELECT count(object_key) FROM (SELECT object_key FROM lsm_segments('t')
		UNION ALL SELECT object_key FROM lsm_segments('u')) k}),
	'are listed');
is(psql(q{SELECT lsm_store_remove_orphans('cold', '1 hour')}), 0, 'but are too young');
psql(q{SELECT lsm_major_compact('u')});
workers(1);
swept_ok(2, 'workers delete them');
$node->check_ok('postgres', 'after that');
is(psql('SELECT queue_length FROM lsm_stat_store'), 0, 'the queue is empty');

# While somebody drops a table, nothing is deleted, and rollback takes nothing away.
my $session = $node->session('postgres');
$session->query_safe('BEGIN; DROP TABLE u');
psql(q{UPDATE t SET a = 'y' WHERE id = 1; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
$session->query_safe('ROLLBACK');
swept_ok(2, 'a table that was not dropped has its object');
is(psql('SELECT count(DISTINCT a) FROM u'), 3000, 'and its rows');
psql(q{BEGIN; DROP TABLE u; PREPARE TRANSACTION 'p'});
workers(0);
$node->restart;
is(scalar @{ files() }, 2, 'a prepared DROP TABLE');
like(
	$node->error_of('postgres', q{SELECT * FROM lsm_store_orphans('cold')}),
	qr/^55P03: could not look at all tables of the database/,
	'is waited for');
psql(q{ROLLBACK PREPARED 'p'});
is(psql('SELECT count(DISTINCT a) FROM u'), 3000, 'and rolled back');
psql('BEGIN; TRUNCATE u; ROLLBACK');
workers(1);
psql('TRUNCATE u');
swept_ok(1, 'TRUNCATE');
psql(q{INSERT INTO u SELECT i, md5(i::text) FROM generate_series(1, 3000) i; SELECT lsm_flush('u');
	SELECT lsm_major_compact('u')});
swept_ok(2, 'an object again');
psql('VACUUM FULL u');
$node->wait_until('postgres', q{SELECT count(*) = 1 AND bool_and(location = 'cold') FROM lsm_segments('u')});
swept_ok(2, 'VACUUM FULL');
psql('CREATE SCHEMA s; ALTER TABLE u SET SCHEMA s; DROP SCHEMA s CASCADE');
swept_ok(1, 'DROP SCHEMA CASCADE');
psql('ALTER TABLE t RESET (lsm.cold_store)');
swept_ok(0, 'back');
is(psql('SELECT count(DISTINCT a) FROM t'), 3000, 'all rows are there');
psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
swept_ok(1, 'and out');

# A standby that is not there needs what it has not replayed.
psql(q{SELECT pg_create_physical_replication_slot('s', true)});
psql(q{UPDATE t SET a = 'z' WHERE id = 1; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
$node->wait_until('postgres', 'SELECT queue_length = 1 FROM lsm_stat_store');
workers(0);
is(scalar @{ files() }, 2, 'an object waits for a slot');
is(psql('SELECT queue_length FROM lsm_stat_store'), 1, 'in the queue');
psql(q{SELECT pg_drop_replication_slot('s')});
workers(1);
swept_ok(1, 'and goes when that has gone');
workers(0);

# Who streams WAL without replaying it needs nothing.
{
	my $wal = $node->basedir . '/receivewal';

	mkdir $wal or die $!;
	my $receive = IPC::Run::start(
		[ 'pg_receivewal', '-D', $wal, '-d', $node->connstr('postgres'), '-s', '1', '--no-loop' ],
		'>', \my $out, '2>', \my $err);
	$node->wait_until('postgres',
		'SELECT count(*) = 1 FROM pg_stat_replication WHERE write_lsn IS NOT NULL');
	is(psql('SELECT replay_lsn IS NULL FROM pg_stat_replication'), 't', 'WAL is streamed and not replayed');
	psql(q{UPDATE t SET a = 'w' WHERE id = 1; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
	workers(1);
	swept_ok(1, 'which keeps no object');
	workers(0);
	$receive->kill_kill;
}

# Files of puts that a crash has ended: old ones go, if they are of this database.
{
	my ($own) = psql(q{SELECT object_key FROM lsm_segments('t')}) =~ m{^(.*)/[^/]*$};
	my @left = ("$own/0-0~77.0123abcd", "$own/1-1~4711.ffffffff");
	my @stay = ("$own/2-2~77.0123abcd", "$own/keep~", "1/0/5/0/0-0~77.0123abcd");

	system("mkdir -p $dir/1/0/5/0") == 0 or die;
	PostgreSQL::Test::Utils::append_to_file("$dir/$_", 'x') foreach @left, @stay;
	utime 0, time() - 7200, map { "$dir/$_" } grep { !/2-2/ } @left, @stay;
	workers(1);
	$node->wait_until('postgres', "SELECT pg_stat_file('$dir/$left[1]', true) IS NULL");
	workers(0);
	is(join(' ', grep { -e "$dir/$_" } @left), '', 'old files that puts have left go');
	is(join(' ', grep { -e "$dir/$_" } @stay),
		"@stay", 'young ones, others, and those of other clusters do not');
	unlink "$dir/$_" or die $! foreach @stay;
	is(psql('SELECT count(DISTINCT a) FROM t'), 3000, 'nor do objects');
}

# A copy of the database, and a database that is dropped.
$node->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
$node->safe_psql('copy', q{UPDATE t SET a = 'copy'; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
my $of_copy = $node->safe_psql('copy', q{SELECT object_key FROM lsm_segments('t')});
my $original = psql(q{SELECT object_key FROM lsm_segments('t')});
is($node->safe_psql('copy', q{SELECT string_agg(object_key || removable, ' ') FROM lsm_store_orphans('cold')}),
	"${original}false",
	'to a copy, what the original needs is not removable');
is($node->safe_psql('copy', q{SELECT lsm_store_remove_orphans('cold', '0')}), 0, 'nor removed');
psql(q{UPDATE t SET a = 'after' WHERE id = 2; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
is(psql(q{SELECT string_agg(object_key || removable, ' ') FROM lsm_store_orphans('cold')}),
	"${original}false",
	'nor by the original, once it has been copied');
is(psql(q{SELECT lsm_store_remove_orphans('cold', '0')}), 0, 'not even on demand');
$node->safe_psql('postgres', 'DROP DATABASE copy');
is(psql(q{SELECT object_key FROM lsm_store_orphans('cold') WHERE removable}),
	$of_copy, 'objects of a database that is no more are listed');
is(psql(q{SELECT lsm_store_remove_orphans('cold', '1 day')}), 0, 'if they are old enough,');
is(psql(q{SELECT lsm_store_remove_orphans('cold', '0')}), 1, 'they are removed');
is(psql(q{SELECT count(DISTINCT a) FROM t}), 3000, 'the original is whole');
ok(!-e "$dir/$of_copy", 'the file has gone');

# Who is connected when CREATE DATABASE begins may put something until he leaves; what the copy
# then names is not the original's alone.  (The server waits for 5 s, which may be too short.)
my $database = psql('SELECT oid FROM pg_database WHERE datname = current_database()');
my $failed;
my $last_put;
foreach (1 .. 20)
{
	my $maker = $node->session('template1');
	my $pid = $node->session_pid($maker);
	my $user = $node->session('postgres');

	$user->query_safe(q{UPDATE t SET a = 'last' WHERE id = 3});
	$user->query_safe(q{SELECT lsm_flush('t')});
	$node->start_query($maker, 'CREATE DATABASE copy TEMPLATE postgres');
	$node->wait_until('template1', qq{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE pid = $pid AND query LIKE 'CREATE DATABASE%' AND (state = 'idle' OR EXISTS (SELECT FROM pg_locks l
			WHERE l.pid = $pid AND classid = 'pg_database'::regclass AND objid = $database AND mode = 'ShareLock' AND granted))});
	$user->query_safe(q{SELECT lsm_major_compact('t')});
	$last_put = $user->query_safe(q{SELECT object_key FROM lsm_segments('t')});
	$user->quit;
	$failed = ($node->finish_query($maker))[1];
	$maker->quit;
	last if $failed eq '';
}
is($failed, '', 'a database is copied when all have left');
is($node->safe_psql('copy', q{SELECT object_key FROM lsm_segments('t')}), $last_put, 'with what was put last');
psql(q{UPDATE t SET a = 'after' WHERE id = 3; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
isnt((split m{/}, psql(q{SELECT object_key FROM lsm_segments('t')}))[1],
	(split m{/}, $last_put)[1], 'the original has another token from then on');
is(psql(qq{SELECT removable FROM lsm_store_orphans('cold') WHERE object_key = '$last_put'}), 'f',
	'and what the copy names is not removable');
is(psql(q{SELECT lsm_store_remove_orphans('cold', '0')}), 0, 'nor removed');
is($node->safe_psql('copy', q{SELECT a FROM t WHERE id = 3}), 'last', 'the copy is whole');
$node->safe_psql('postgres', 'DROP DATABASE copy');

# Rights.
psql(q{CREATE ROLE r LOGIN; GRANT USAGE ON FOREIGN SERVER cold TO r;
	GRANT pg_read_server_files, pg_write_server_files TO r});
like($node->error_of('postgres', q{SET ROLE r; SELECT * FROM lsm_store_orphans('cold')}),
	qr/^42501: must be owner of foreign server cold/, 'orphans are for owners');
like($node->error_of('postgres', q{SET ROLE r; SELECT lsm_store_remove_orphans('cold', '0')}),
	qr/^42501: must be owner of foreign server cold/, 'so is removing them');

# A standby never deletes; promoted, it deletes nothing of the original.
$node->backup('b');
my $standby = LsmStoreNode->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
like($standby->error_of('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}),
	qr/^25006: cannot execute lsm_store_remove_orphans\(\) during recovery/, 'not on a standby');
my $files = join ' ', @{ files() };
$standby->promote;
$standby->safe_psql('postgres', 'DROP TABLE t');
is($standby->safe_psql('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}),
	0, 'a promoted standby removes nothing');
$standby->append_conf('postgresql.conf', 'lsm.compaction_workers = 1');
$standby->reload;
sweeps($standby, 3);
$standby->stop;
is(join(' ', @{ files() }), $files, 'all objects are there');
$node->check_ok('postgres', 'in the end');
$node->stop;

# What a sweep notes of a table, that it depends on its store, does not outlive the table: who drops it
# meanwhile ends the sweep.
my $noted = PostgreSQL::Test::Utils::tempdir() . '/noted';
mkdir $noted or die $!;
$node = LsmStoreNode->new('noted');
$node->setup(conf => "restart_after_crash = on
autovacuum = off
lsm.compaction_workers = 0
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
lsm.auto_compact = off
deadlock_timeout = 100ms
");
my $gate = $node->session('postgres');
psql($_)
  foreach ("CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$noted')",
	q{CREATE TABLE t (i int) USING lsm WITH (lsm.cold_store = 'cold')},
	'INSERT INTO t SELECT generate_series(1, 1000)',
	q{SELECT lsm_flush('t'), lsm_major_compact('t')},
	'UPDATE t SET i = i + 1',
	q{SELECT lsm_flush('t'), lsm_major_compact('t')},
	# as pg_upgrade leaves a table that was being detached
	q{DELETE FROM pg_depend WHERE objid = 't'::regclass AND refclassid = 'pg_foreign_server'::regclass},
	q{ALTER DATABASE postgres SET lsm.debug_stop = 'orphans-before-delete:wait'});
$gate->query_safe('SELECT pg_advisory_lock(7107437)');
$node->set_workers(1);
$node->wait_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
is($node->error_of('postgres', q{SET lock_timeout = '100s'; DROP TABLE t}), '', 'a table is dropped under a sweep that has noted its store');
$gate->quit;
psql('ALTER DATABASE postgres RESET lsm.debug_stop');
$node->set_workers(0);
is(psql(q{SELECT count(*) FROM pg_depend WHERE refclassid = 'pg_foreign_server'::regclass AND classid = 'pg_class'::regclass}),
	0, 'of which nothing is left');
is($node->error_of('postgres', 'DROP SERVER cold'), '', 'the store can go');

# Owner and rights of the files do not tell one data directory from another; the place does.
sub token
{
	$node->restart;
	return psql(q{SELECT split_part(detail, '/', 2) FROM lsm_store_check('cold') WHERE step = 'put'});
}

psql("CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$noted')");
my $token = token();
my $owner_file = $node->data_dir . '/lsm.owner';
my $version = $node->data_dir . '/PG_VERSION';
my $owner = PostgreSQL::Test::Utils::slurp_file($owner_file);

sub rewrite_owner
{
	my ($text) = @_;

	open my $out, '>', $owner_file or die $!;
	print $out $text;
	close $out;
	return;
}

SKIP:
{
	skip 'the file system does not know when files were born', 3 if $owner !~ /^system .* born /;
	chmod 0640, $version or die $!;
	chmod 0600, $version or die $!;
	is(token(), $token, 'the token outlives a change of rights');
	my ($seconds, $time) = split /\|/, `stat -c '%Z|%z' '$version'`;
	my ($fraction) = $time =~ /(\.\d{9}) /;

	rewrite_owner($owner =~ s/born \S+/changed $seconds$fraction/r);
	is(token(), $token, 'and the form that the file had before births were looked at');
	like(PostgreSQL::Test::Utils::slurp_file($owner_file), qr/^system .* born /, 'which it has no more');
}
rewrite_owner($owner =~ s/inode \d+/inode 1/r);
isnt(token(), $token, 'a copy of the directory has another one');
like(
	PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/LOG:  file "lsm.owner" was made for another data directory.*\n.*DETAIL:  .*under token $token is not deleted/,
	'and the log tells');

# What a process that ends in the middle of a test leaves in the store is nothing that anybody needs.
# (What the old token has put is not removable.)
is(psql('SELECT count(*) FROM lsm_store_orphans($$cold$$) WHERE removable'), 0, 'tests leave nothing');
$node->psql_until_crash('postgres', q{SET lsm.debug_stop = 'store-put-before-verify:crash'; SELECT lsm_store_check('cold')});
is(psql('SELECT count(*) FROM lsm_store_orphans($$cold$$) WHERE removable'), 1, 'but if they are not ended');
$node->set_workers(1);
$node->wait_until('postgres', 'SELECT count(*) = 0 FROM lsm_store_orphans($$cold$$) WHERE removable');
pass('workers delete that');
$node->set_workers(0);

# That a store cannot be opened is told where all its errors are.
psql(q{CREATE ROLE regress_lsm_owner; GRANT USAGE ON FOREIGN SERVER cold TO regress_lsm_owner; ALTER SERVER cold OWNER TO regress_lsm_owner; SELECT lsm_stat_reset()});
like(
	$node->error_of('postgres', q{SET ROLE regress_lsm_owner; SELECT lsm_store_orphans('cold')}),
	qr/permission denied to use store "cold"/,
	'who may not use a store cannot look at it');
is(psql(q{SELECT errors, last_error FROM lsm_stat_store}), '1|permission denied to use store "cold"', 'which is in the statistics');
$node->stop;
done_testing();
