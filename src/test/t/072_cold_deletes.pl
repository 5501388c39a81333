# Objects that are deleted under readers, after crashes, beside copies and objects of others,
# by DDL that is rolled back or not, and with the extension.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $dir = PostgreSQL::Test::Utils::tempdir() . '/cold';
mkdir $dir or die $!;

# Nothing that was read is kept.
my $node = LsmStoreNode->new('main');
$node->setup(
	conf => "autovacuum = off
max_parallel_workers_per_gather = 0
wal_writer_delay = 200ms
lsm.block_cache_size = 0
lsm.session_cache_size = 16MB
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
lsm.debug_stop = ''
");

my $server = "CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')";

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# Objects, without claims.
sub files
{
	return sort map { chomp; s/^\.\///; $_ } `cd '$dir' && find . -type f -not -path './claims/*'`;
}

sub there
{
	return scalar grep { -e "$dir/$_" } @_;
}

sub keys_of
{
	my ($on, @tables) = @_;

	return sort map { split /\n/, $on->safe_psql('postgres', "SELECT object_key FROM lsm_segments('$_') WHERE object_key IS NOT NULL") } @tables;
}

sub compact
{
	my ($on, $table) = @_;

	$on->safe_psql('postgres', $_) foreach ("SELECT lsm_flush('$table')", "SELECT lsm_major_compact('$table')");
	return;
}

sub remove
{
	return psql(q{SELECT lsm_store_remove_orphans('cold', '0')});
}

# Sweeps that begin and end after this was called.
sub swept
{
	my ($on) = @_;
	my $then = $on->safe_psql('postgres', 'SELECT list_requests FROM lsm_stat_store');

	$on->set_workers(1);
	$on->wait_until('postgres', "SELECT list_requests >= $then + 6 FROM lsm_stat_store");
	$on->set_workers(0);
	return;
}

# A query that tells which rows there are.
sub sums
{
	my ($table, $where) = @_;

	return "SELECT count(*), sum(hashtext(x::text)) FROM $table x" . ($where ? " WHERE $where" : '');
}

psql(
	qq{$server;
CREATE TABLE h (id int PRIMARY KEY, k int, v int, a bytea);
INSERT INTO h SELECT i, i % 100, i % 7, (SELECT decode(string_agg(md5(i || '.' || j), ''), 'hex') FROM generate_series(1, 16) j)
	FROM generate_series(1, 30000) i;
CREATE TABLE t (LIKE h) USING lsm WITH (lsm.block_size = '8kB');
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE INDEX t_k ON t (k);
CREATE FUNCTION take(c refcursor, n int, OUT rows int, OUT hash int8) LANGUAGE plpgsql AS \$\$
DECLARE
	r record;
BEGIN
	rows := 0; hash := 0;
	WHILE rows < n LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows + 1; hash := hash + hashtext(r::text);
	END LOOP;
END \$\$;
CREATE FUNCTION pause(id int) RETURNS bool LANGUAGE plpgsql AS \$\$
BEGIN
	IF id = 9000 THEN
		PERFORM pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1);
	END IF;
	RETURN true;
END \$\$;
});
foreach my $part (0 .. 2)
{
	psql("INSERT INTO t SELECT * FROM h WHERE id > $part * 10000 AND id <= ($part + 1) * 10000");
	psql(q{SELECT lsm_flush('t')});
}
psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
compact($node, 't');
psql('ANALYZE t');
is(psql(q{SELECT location, count(*) > 2 FROM lsm_segments('t') GROUP BY 1}), 'cold|t', 'several cold segments');

# ---- readers ----

# Changes that everybody sees: the next major writes all segments again.
sub settled_changes
{
	psql("UPDATE $_ SET v = v + 1 WHERE id % 50 = 0") foreach ('t', 'h');
	psql(q{SELECT lsm_flush('t')});
	return;
}

my %kinds = (
	scan => [ qr/Custom Scan \(LsmScan\)/, '', 'true', '' ],
	bitmap => [ qr/Custom Scan \(LsmBitmapScan\)/, 'SET enable_seqscan = off; SET enable_indexscan = off', 'k < 30', '' ],
	index => [ qr/Index Scan using t_k/, 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off', 'k < 10', 'ORDER BY k' ]);

# Cursors that have given some of their rows.
sub begin_readers
{
	my ($on) = @_;
	my @readers;

	foreach my $kind (sort keys %kinds)
	{
		my ($plan, $settings, $where, $order) = @{ $kinds{$kind} };
		my $query = "SELECT * FROM t WHERE $where $order";

		foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
		{
			my $session = $on->session('postgres');
			my $reader = { name => "$kind, $level", kind => $kind, level => $level, session => $session };

			$session->query_safe($settings);
			like($session->query_safe("EXPLAIN (COSTS off) $query"), $plan, $reader->{name});
			$session->query_safe("BEGIN ISOLATION LEVEL $level; DECLARE c SCROLL CURSOR FOR $query");
			$reader->{expected} = $on->safe_psql('postgres', sums('h', $where));
			take($reader, 1000);
			push @readers, $reader;
		}
	}
	return @readers;
}

sub take
{
	my ($reader, $n) = @_;
	my ($rows, $hash) = split /\|/, $reader->{session}->query_safe("SELECT * FROM take('c', $n)");

	$reader->{rows} += $rows;
	$reader->{hash} += $hash;
	return;
}

# How often the store is asked while a reader goes on.
sub gets
{
	my ($on, $reader, $n) = @_;

	$on->safe_psql('postgres', 'SELECT lsm_stat_reset()');
	take($reader, $n);
	return $on->safe_psql('postgres', 'SELECT get_requests FROM lsm_stat_store');
}

sub end_readers
{
	foreach my $reader (@_)
	{
		take($reader, 1000000);
		is("$reader->{rows}|$reader->{hash}", $reader->{expected}, "$reader->{name}: all rows");
		if ($reader->{kind} eq 'index')
		{
			$reader->{session}->query_safe('MOVE ABSOLUTE 0 FROM c');
			is($reader->{session}->query_safe(q{SELECT * FROM take('c', 1000000)}), $reader->{expected}, 'once more');
		}
	}
	return;
}

settled_changes();
psql('CREATE TABLE n AS TABLE h');
my $all = psql(sums('h'));
my $gate = $node->session('postgres');
$gate->query_safe('SELECT pg_advisory_lock(7107437), pg_advisory_lock(1)');
my @readers = begin_readers($node);

# Queries that wait: before their first request, which they make all the same, or in the
# midst of their rows.
my @stopped;

sub begin_stopped
{
	my ($name, $plan, $settings, $stop, $query, $expected) = @_;
	my $session = $node->session('postgres');
	my $pid = $node->session_pid($session);

	$session->query_safe($settings);
	like($session->query_safe("EXPLAIN (COSTS off) $query"), $plan, $name);
	$session->query_safe("SET lsm.debug_stop = '$stop'");
	$node->start_query($session, $query);
	$node->wait_blocked($pid);
	push @stopped, { name => $name, session => $session, expected => $expected };
	return;
}

begin_stopped('an aggregate', qr/LsmAgg/, '', 'store-open:wait',
	'SELECT count(*), sum(v), min(k) FROM t WHERE v >= 0', psql('SELECT count(*), sum(v), min(k) FROM h'));
foreach my $kind (sort keys %kinds)
{
	my ($plan, $settings, $where, $order) = @{ $kinds{$kind} };
	my $query = "SELECT count(*), sum(hashtext(x::text)) FROM (SELECT * FROM t WHERE $where %s $order) x";
	my $expected = psql(sums('h', $where));

	begin_stopped("$kind before its first request", $plan, $settings, 'store-open:wait', sprintf($query, ''), $expected);
	begin_stopped("$kind that has begun", $plan, $settings, '', sprintf($query, 'AND pause(id)'), $expected);
}

my @old = keys_of($node, 't');
is(there(@old), scalar @old, 'objects that readers read');
foreach my $table ('t', 'n')
{
	psql(
		"UPDATE $table SET v = v + 100 WHERE id % 50 = 1;
		DELETE FROM $table WHERE id % 50 = 2");
}
compact($node, 't');
is(remove(), scalar @old, 'are removed when they have been compacted');
is(there(@old), 0, 'and gone');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t') WHERE kind = 'baseline'}), 'cold', 'others are there');
psql("UPDATE $_ SET k = k + 1000 WHERE id % 50 = 3; INSERT INTO $_ SELECT i, i % 100, 0, 'new' FROM generate_series(30001, 30500) i") foreach ('t', 'n');
cmp_ok(gets($node, $_, 1000), '>', 0, "$_->{name}: goes on in other objects") foreach @readers;
$gate->query_safe('SELECT pg_advisory_unlock(7107437), pg_advisory_unlock(1)');
is(($node->finish_query($_->{session}))[0], $_->{expected}, "$_->{name}: rows of before") foreach @stopped;
$_->{session}->quit foreach @stopped;
$gate->quit;

# all segments come back, and workers delete the rest
psql('ALTER TABLE t RESET (lsm.cold_store)');
compact($node, 't');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', 'segments are back');
swept($node);
is(join(' ', files()), '', 'there is no object any more');
end_readers(@readers);
is($_->{session}->query_safe(sums('t')), $_->{level} =~ /REPEATABLE/ ? $all : psql(sums('n')), "$_->{name}: the next query") foreach @readers;
$_->{session}->quit foreach @readers;
$node->check_ok('postgres', 'after deletes under readers');
psql(q{DROP TABLE h; ALTER TABLE n RENAME TO h; ALTER TABLE t SET (lsm.cold_store = 'cold')});
compact($node, 't');

# ---- readers of a standby ----

my $standby = LsmStoreNode->new('standby');

sub catch_up
{
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	return;
}

# A cursor that has sorted pointers to large values; all rows but the first are to come.
sub begin_pointers
{
	my $session = $standby->session('postgres');

	$session->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id, v FROM large WHERE k < 0 ORDER BY k; MOVE 1 FROM c');
	return { name => 'pointers', kind => '', session => $session,
		expected => psql('SELECT count(*), sum(hashtext(x::text)) FROM (SELECT id, v FROM large WHERE id < 4) x') };
}

# The second compaction frees what the first has retired, if nobody needs it.
sub change_values
{
	psql("UPDATE large SET v = repeat(md5(v), 1000 + id)");
	compact($node, 'large');
	psql('UPDATE large SET k = k WHERE id = 1');
	compact($node, 'large');
	return;
}

psql(
	q{CREATE TABLE large (id int PRIMARY KEY, k int, v text) USING lsm WITH (lsm.cold_store = 'cold');
	ALTER TABLE large ALTER v SET STORAGE EXTERNAL;
	INSERT INTO large SELECT i, -i, repeat(md5(i::text), 1000 + i) FROM generate_series(1, 4) i});
compact($node, 'large');
$node->backup('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->append_conf('postgresql.conf',
	"max_standby_streaming_delay = -1\nhot_standby_feedback = off\nwal_receiver_status_interval = 1\n");
$standby->start;
remove();
catch_up();

# one that does not tell what it reads: replay waits for it, and objects wait for replay
@readers = (begin_readers($standby), begin_pointers());
@old = keys_of($node, 't', 'large');
settled_changes();
compact($node, 't');
change_values();
my %is_old = map { $_ => 1 } @old;
is(scalar(grep { $is_old{$_} } keys_of($node, 't', 'large')), 0, 'the primary has other objects');
like($node->error_of('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}),
	qr/^55006: objects may still be needed by a standby.*standby "standby" has not come to/s,
	'what a standby may need is not removed');
swept($node);
is(there(@old), scalar @old, 'nor by workers');

# (of large values, the object between two compactions, too)
is(psql(q{SELECT count(*) FROM lsm_store_orphans('cold') WHERE removable}), @old + 1, 'though the primary does not need it');
end_readers(@readers);
$_->{session}->quit foreach @readers;
catch_up();
is(remove(), @old + 1, 'when its readers have ended, it is');
is(there(@old), 0, 'and gone');

# one that does: objects go, and its readers go on in others
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = on');
$standby->reload;
$node->wait_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL');
settled_changes();
catch_up();
@readers = begin_readers($standby);
my $pointers = begin_pointers();
my ($pointed) = keys_of($node, 'large');
my $on_standby = psql(sums('h'));
@old = keys_of($node, 't');
psql("UPDATE $_ SET v = v + 100 WHERE id % 50 = 4; DELETE FROM $_ WHERE id % 50 = 5") foreach ('t', 'h');
compact($node, 't');
change_values();
is(remove(), scalar @old, 'objects that a standby reads are removed');
is(there(@old), 0, 'and gone');
ok(-e "$dir/$pointed", 'but not one with values that it has pointers to');
cmp_ok(gets($standby, $_, 1000), '>', 0, "standby: $_->{name}: goes on in other objects") foreach @readers;
end_readers(@readers);
is($_->{session}->query_safe(sums('t')), $_->{level} =~ /REPEATABLE/ ? $on_standby : psql(sums('h')), "$_->{name}: the next query") foreach @readers;
end_readers($pointers);
$_->{session}->quit foreach @readers, $pointers;
$standby->stop;
$node->check_ok('postgres', 'after deletes under a standby');
psql('DROP TABLE large');
remove();

# ---- crashes ----

# Wait for the crash, which ends the server, and start it again.
sub start_after
{
	my ($stop, $log) = @_;

	$node->wait_for_log(qr/crash at "$stop"/, $log);
	$node->stop('immediate', fail_ok => 1);
	$node->adjust_conf('postgresql.conf', 'lsm.debug_stop', "''");
	$node->adjust_conf('postgresql.conf', 'lsm.compaction_workers', 0);
	$node->start;
	return;
}

# one brings back no entry of what was deleted, though nobody else has WAL written in time
$node->adjust_conf('postgresql.conf', 'wal_writer_delay', '10s');
$node->reload;
settled_changes();
@old = keys_of($node, 't');
my $log = -s $node->logfile;
$node->psql('postgres', q{SET synchronous_commit = off; SET lsm.debug_stop = 'orphans-after-delete:crash';
	SELECT lsm_major_compact('t');
	SELECT lsm_store_remove_orphans('cold', '0')});
start_after('orphans-after-delete', $log);
is(there(@old), 0, 'objects are deleted, and then there is a crash');
$node->same_ok('postgres', sums('t'), sums('h'), 'all rows are there');

# the queue outlives one
psql(
	q{CREATE TABLE u (LIKE h) USING lsm WITH (lsm.cold_store = 'cold');
	INSERT INTO u SELECT * FROM h WHERE id <= 1000});
compact($node, 'u');
settled_changes();
@old = keys_of($node, 't', 'u');
compact($node, 't');
psql('DROP TABLE u');
my @new = keys_of($node, 't');
$node->adjust_conf('postgresql.conf', 'lsm.store_delete_delay', 3600);
swept($node);
my $queue = q{SELECT string_agg(object_key, ' ' ORDER BY object_key) FROM lsm_store_queue};
is(psql($queue), "@old", 'objects are waiting to be deleted');
$node->crash_and_start;
is(psql($queue), "@old", 'also after a crash');

# so it does when the worker ends before it deletes them, or after that
$node->adjust_conf('postgresql.conf', 'lsm.store_delete_delay', 0);
foreach my $stop ('orphans-before-delete', 'orphans-after-delete')
{
	$log = -s $node->logfile;
	$node->adjust_conf('postgresql.conf', 'lsm.debug_stop', "'$stop:crash'");
	$node->adjust_conf('postgresql.conf', 'lsm.compaction_workers', 1);
	$node->reload;
	start_after($stop, $log);
	is(psql($queue), "@old", "the queue after a crash at $stop");
	is(there(@old), $stop =~ /before/ ? scalar @old : 0, 'and its objects');
}
swept($node);
is(join(' ', files()), "@new", 'there are those that are needed');
is(psql('SELECT queue_length FROM lsm_stat_store'), 0, 'the queue is empty');
$node->same_ok('postgres', sums('t'), sums('h'), 'all rows are there');
$node->check_ok('postgres', 'after crashes');

# ---- a backup that is started beside the original ----

# Files with all that tells whether they were touched.
sub stamps
{
	return join "\n", map { join ' ', $_, (stat "$dir/$_")[ 1, 7, 9 ] } @_;
}

$node->backup('copy');
settled_changes();
compact($node, 't');
my @files = files();
my $stamps = stamps(@files);
is(scalar(grep { my $key = $_; !grep { $_ eq $key } @new } @files), 1, 'an object that the backup does not know');
my $copy = LsmStoreNode->new('copy');
$copy->init_from_backup($node, 'copy');
$copy->start;
is($copy->safe_psql('postgres', 'SELECT timeline_id FROM pg_control_checkpoint()'),
	psql('SELECT timeline_id FROM pg_control_checkpoint()'), 'a copy of the same timeline');
swept($copy);
is(psql(q{SELECT claimed_here, claimant_here FROM lsm_store_claims('cold')}), 't|f', 'it claims what it needs');
is(stamps(files()), $stamps, 'and deletes nothing');
is($copy->safe_psql('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}), 0, 'nor on demand');
$copy->safe_psql('postgres', 'UPDATE t SET v = -1');
compact($copy, 't');
$copy->safe_psql('postgres', 'UPDATE t SET v = -2 WHERE id > 0');
compact($copy, 't');
my @of_copy = keys_of($copy, 't');
swept($copy);
is(join(' ', files()), join(' ', sort(@files, @of_copy)), 'it deletes what it has put itself');
is(stamps(@files), $stamps, 'and nothing else');
is($copy->safe_psql('postgres', 'SELECT count(*), sum(v), sum(hashtext(a::text)) FROM t'),
	$copy->safe_psql('postgres', 'SELECT count(*), -2 * count(*), sum(hashtext(a::text)) FROM h'), 'its rows');
$copy->check_ok('postgres', 'copy');
$copy->safe_psql('postgres', 'DROP TABLE t');
swept($copy);
swept($copy);
$copy->stop;
is(stamps(files()), $stamps, 'when it has dropped its table, the original has all of its own');
is(psql(q{SELECT count(*) FROM lsm_store_claims('cold')}), 0, 'and nobody claims any of it');
$node->same_ok('postgres', sums('t'), sums('h'), 'all rows of the original');
swept($node);
is(join(' ', files()), join(' ', keys_of($node, 't')), 'which deletes what it does not need');

# ---- objects of others ----

$node->test_functions('postgres');
my ($system, $token, $database) = split m{/}, (keys_of($node, 't'))[0];
my $other_system = $system ^ 1;
my $other_token = ($token =~ /^0/ ? '1' : '0') . substr($token, 1);
my $name = '0123456789abcdef/0123456789abcdef-0123456789abcdef';
my $own = "$system/$token/$database/$name";
my @others = ("$other_system/$token/$database/$name", "$system/$other_token/$database/$name", "$other_system/$other_token/$database/$name");

psql("SELECT lsm_test_store_put('cold', '$_', 1000)") foreach $own, @others;
is(psql(q{SELECT object_key, removable FROM lsm_store_orphans('cold') ORDER BY 2, 1}),
	"$others[1]|f\n$own|t", 'objects of other data directories are not removable, and those of other clusters are not listed');
is(remove(), 1, 'only what is ours is removed');
ok(!-e "$dir/$own", 'it is gone');
psql("SELECT lsm_test_store_put('cold', '$own', 1000)");
swept($node);
ok(!-e "$dir/$own", 'by workers, too');
is(there(@others), scalar @others, 'others have theirs');
is(psql("SELECT lsm_test_store_verify('cold', '$_')"), psql("SELECT lsm_test_store_head('cold', '$_')"), 'whole') foreach @others;
unlink "$dir/$_" or die $! foreach @others;

# ---- DDL ----

psql($_)
  foreach ('CREATE SCHEMA s',
	q{CREATE TABLE s.d (LIKE h) USING lsm WITH (lsm.cold_store = 'cold')},
	'ALTER TABLE s.d ADD PRIMARY KEY (id)',
	'INSERT INTO s.d SELECT * FROM h WHERE id <= 5000');
compact($node, 's.d');
my $d = psql(sums('s.d'));
my $ddl = $node->session('postgres');

@files = files();
$stamps = stamps(@files);
foreach my $sql (
	'DROP TABLE s.d',
	'TRUNCATE s.d; INSERT INTO s.d SELECT * FROM h WHERE id > 20000',
	'DROP SCHEMA s CASCADE',
	'CLUSTER s.d USING d_pkey',
	'ALTER TABLE s.d ALTER v TYPE bigint USING v * 2',
	'ALTER TABLE s.d SET ACCESS METHOD heap',
	'DROP EXTENSION lsm CASCADE')
{
	$ddl->query_safe("BEGIN; SET LOCAL client_min_messages = warning; $sql");
	like($node->error_of('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}),
		qr/^55P03: could not look at all tables/, "$sql: nothing is removed") if $sql !~ /EXTENSION/;
	$ddl->query_safe('ROLLBACK');
	like($node->error_of('postgres', "BEGIN; SET LOCAL client_min_messages = warning; $sql; SELECT lsm_store_remove_orphans('cold', '0')"),
		qr/^25001: lsm_store_remove_orphans\(\) cannot run in a transaction that has changed something/,
		'nor by who does it') if $sql !~ /EXTENSION/;
	is(remove(), 0, 'nor when it has been rolled back');
	is(stamps(files()), $stamps, 'all objects are there');
	is(psql(sums('s.d')), $d, 'and rows');
}
$ddl->quit;
like($node->error_of('postgres', 'ALTER TABLE s.d ALTER v TYPE int USING 1 / (5000 - id)'), qr/^22012/, 'a rewrite that fails');
swept($node);
is(stamps(files()), $stamps, 'leaves all objects, too');

my $v = 'SELECT count(*), sum(v), sum(hashtext(a::text)) FROM s.d';
$d = psql($v);
foreach my $sql ('CLUSTER s.d USING d_pkey', 'ALTER TABLE s.d ALTER v TYPE bigint')
{
	@old = keys_of($node, 's.d');
	psql($sql);
	is(there(@old), scalar @old, "$sql: objects are there");
	compact($node, 's.d');
	swept($node);
	is(there(@old), 0, 'until workers delete them');
	is(join(' ', files()), join(' ', keys_of($node, 't', 's.d')), 'which leave what is needed');
	is(psql($v), $d, 'all rows are there');
}
$node->check_ok('postgres', 'after DDL');

# ---- a database whose sessions begin with another role: workers do not ----

{
	local $ENV{PGOPTIONS} = '-c role=none';

	psql($_) foreach ('CREATE ROLE app', 'ALTER DATABASE postgres SET role = app');
	@old = keys_of($node, 's.d');
	psql('UPDATE s.d SET v = v');
	compact($node, 's.d');
	swept($node);
	is(there(@old), 0, 'they delete what nothing needs');
	psql($_) foreach ('ALTER DATABASE postgres RESET role', 'DROP ROLE app');
}

# ---- a table that was detached, and has nothing there any more ----

psql($_) foreach (
	"CREATE TABLE away (id int) USING lsm WITH (lsm.cold_store = 'cold')",
	'INSERT INTO away SELECT generate_series(1, 1000)');
compact($node, 'away');
my @away = keys_of($node, 'away');
is(scalar @away, 1, 'a table is in the store');
psql($_) foreach ('ALTER TABLE away RESET (lsm.cold_store)', 'TRUNCATE away');
$node->set_workers(1);
$node->wait_until('postgres',
	q{SELECT count(*) = 0 FROM pg_depend WHERE objid = 'away'::regclass AND refclassid = 'pg_foreign_server'::regclass});
pass('workers free what has nothing there from its server');
$node->set_workers(0);
psql('DROP TABLE away');

# ---- the extension ----

@old = keys_of($node, 't', 's.d');
psql('SET client_min_messages = warning; DROP EXTENSION lsm CASCADE');
is(psql(q{SELECT to_regclass('t') IS NULL AND to_regclass('s.d') IS NULL}), 't', 'tables go with the extension');
is(join(' ', files()), "@old", 'and leave their objects');
psql("CREATE EXTENSION lsm; $server");
is(psql(q{SELECT string_agg(object_key, ' ' ORDER BY object_key COLLATE "C") FROM lsm_store_orphans('cold') WHERE removable}),
	"@old", 'which its successor finds');
is(remove(), scalar @old, 'and removes');
is(join(' ', files()), '', 'nothing is left');
psql(q{CREATE TABLE t (LIKE h) USING lsm WITH (lsm.cold_store = 'cold'); INSERT INTO t SELECT * FROM h});
compact($node, 't');
swept($node);
$node->same_ok('postgres', sums('t'), sums('h'), 'a new table has its rows');
$node->check_ok('postgres', 'in the end');
$node->stop;
done_testing();
