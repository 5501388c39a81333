# Files of lsm tables that the server copies without asking: CREATE DATABASE
# from a template by both strategies, and databases that are moved to another
# tablespace and back, with a crash right after, and on a standby.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('primary');

$node->setup(conf => "autovacuum = off\nwal_consistency_checking = 'all'\nfsync = off\nallow_in_place_tablespaces = on\n");
$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION ''");
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
CREATE EXTENSION lsm;
CREATE TABLE t (id int PRIMARY KEY, v int, k int, b text) USING lsm;
CREATE INDEX t_k ON t (k);
INSERT INTO t SELECT i, i, i % 20, repeat('b', i % 100) FROM generate_series(1, 2000) i;
SELECT lsm_flush('t');
UPDATE t SET v = v + 1 WHERE id % 3 = 0;
DELETE FROM t WHERE id % 50 = 0;
SELECT lsm_flush('t');
UPDATE t SET k = k + 1 WHERE id % 7 = 0;
UPDATE t SET v = v + 1 WHERE id % 5 = 0;
BEGIN; UPDATE t SET v = 0; ROLLBACK;
CREATE TABLE memtable (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO memtable SELECT i, i FROM generate_series(1, 100) i;
UPDATE memtable SET v = v + 1 WHERE id < 50;
CREATE TABLE empty (id int) USING lsm;
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO unlogged SELECT i, i FROM generate_series(1, 100) i;
SELECT lsm_flush('unlogged');
UPDATE unlogged SET v = 0 WHERE id < 10;
});
$node->backup('first');

my $standby = LsmNode->new('standby');

$standby->init_from_backup($node, 'first', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = -1\nwal_receiver_status_interval = 1\n");
$standby->start;

# Rows, by sequential scan and by index.
sub contents
{
	my ($n, $db, @more) = @_;

	return $n->safe_psql($db, join ';',
		(map { "SELECT '$_', count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM $_ x" } 't', 'memtable', 'empty', @more),
		'SET enable_seqscan = off', 'SELECT k, count(*), sum(id), sum(v) FROM t WHERE k >= 0 GROUP BY k ORDER BY k');
}

sub same_on_standby
{
	my ($db, $label) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is(contents($standby, $db), contents($node, $db), "the standby has the same: $label");
	return;
}

# Changes of all kinds, which also move both databases apart.
sub change
{
	my ($db, $n) = @_;

	$node->safe_psql($db, qq{
UPDATE t SET v = v + $n WHERE id % 4 = 0;
UPDATE t SET k = k + 1 WHERE id % 9 = 0;
DELETE FROM t WHERE id % 41 = $n;
INSERT INTO t SELECT i, i, i % 20, 'new' FROM generate_series(10000 * $n, 10000 * $n + 100) i;
UPDATE memtable SET v = v + $n WHERE id % 2 = 0;
INSERT INTO empty VALUES ($n)});
	return;
}

my $source = contents($node, 'source');
my $unlogged = contents($node, 'source', 'unlogged');

foreach my $strategy ('wal_log', 'file_copy')
{
	# The last of these copies is made just before the crash.
	my $db = "copy_$strategy";

	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE source STRATEGY $strategy");
	is(contents($node, $db, 'unlogged'), $unlogged, "$strategy: the copy has the rows");
	$node->check_ok($db, "$strategy: copy");
	same_on_standby($db, "$strategy: copy");
	change($db, 1);
	change($db, 2);
	is(contents($node, 'source', 'unlogged'), $unlogged, "$strategy: the template has not changed");
	same_on_standby($db, "$strategy: changes");
	my $changed = contents($node, $db);

	$node->safe_psql($db, $_) foreach q{SELECT lsm_flush('t')}, q{SELECT lsm_major_compact('t')}, 'VACUUM t';
	is(contents($node, $db), $changed, "$strategy: jobs on the copy");
	same_on_standby($db, "$strategy: jobs");
	is(contents($node, 'source', 'unlogged'), $unlogged, "$strategy: the template has not changed by jobs");

	$node->safe_psql('postgres', "CREATE DATABASE last_$strategy TEMPLATE source STRATEGY $strategy");
	change("last_$strategy", 3);
	my $last = contents($node, "last_$strategy");

	$node->crash_and_start;
	is(contents($node, "last_$strategy"), $last, "$strategy: copy and changes after a crash");
	is(contents($node, $db), $changed, "$strategy: the other copy after a crash");
	$node->check_ok($_, "$strategy: after a crash, $_") foreach "last_$strategy", $db, 'source';
	is($node->safe_psql($_, 'SELECT count(*) FROM unlogged'), 0, "$strategy: unlogged tables are empty, $_")
	  foreach "last_$strategy", $db, 'source';
	same_on_standby("last_$strategy", "$strategy: after a crash");
	$node->safe_psql('source', 'INSERT INTO unlogged SELECT i, i FROM generate_series(1, 100) i');
	$unlogged = contents($node, 'source', 'unlogged');
}
is(contents($node, 'source'), $source, 'the template is as it was');

# A database goes to another tablespace and comes back.  What memory knew of its
# tables before they left must not be believed when they are back, on the
# standby neither.
my $db = 'copy_wal_log';

sub move
{
	my ($where) = @_;

	# the standby's sessions in the database end before it replays this
	$node->safe_psql('postgres', "ALTER DATABASE $db SET TABLESPACE $where");
	return;
}

same_on_standby($db, 'before the moves');
foreach my $round (4 .. 6)
{
	# readers on both servers, so that both know the memtables
	$node->safe_psql($db, "UPDATE t SET v = v + 1 WHERE id % 5 = 0; UPDATE memtable SET v = v + 1");
	same_on_standby($db, "round $round, before the database moves");
	my $before = contents($node, $db);

	move('ts');
	is(contents($node, $db), $before, "round $round: moved");

	# in one round nobody reads the moved tables on the standby
	same_on_standby($db, "round $round: moved") if $round != 5;
	change($db, $round);
	my $changed = contents($node, $db);

	same_on_standby($db, "round $round: changed where it is now") if $round == 4;
	move('pg_default');
	is(contents($node, $db), $changed, "round $round: moved back");
	$node->safe_psql($db, 'UPDATE t SET v = v + 1 WHERE id % 3 = 0');
	same_on_standby($db, "round $round: moved back and changed");
	$node->check_ok($db, "round $round");
}
move('ts');
$node->safe_psql($db, 'UPDATE t SET v = v + 1 WHERE id % 3 = 0');
my $moved = contents($node, $db);

$node->crash_and_start;
is(contents($node, $db), $moved, 'a move and changes after a crash');
$node->check_ok($db, 'a move and changes after a crash');
same_on_standby($db, 'a move and changes after a crash');

$standby->crash_and_start;
same_on_standby($db, 'restart of the standby');

# A copy of the same template under the number of one that was dropped, of which the server knows
# tables that have been changed as often, but in other ways.
$node->safe_psql('postgres', 'CREATE DATABASE number OID 70000 TEMPLATE source');
$node->safe_psql('number', "INSERT INTO t VALUES (5001, 1, 1, 'number'); UPDATE t SET v = 1 WHERE id IN (1, 2, 4)");
$node->safe_psql('source', "INSERT INTO t VALUES (6001, 2, 2, 'source'); UPDATE t SET v = 2 WHERE id IN (7, 8, 11)");
my $rows = $node->safe_psql('source', 'SELECT * FROM t ORDER BY id');
$node->safe_psql('postgres', 'DROP DATABASE number');
$node->safe_psql('postgres', 'CREATE DATABASE number OID 70000 TEMPLATE source');
is($node->safe_psql('number', 'SELECT * FROM t ORDER BY id'), $rows, 'another database with the number of one that was dropped');
$node->safe_psql('number', 'UPDATE t SET v = v + 1 WHERE id < 20');
$node->check_ok('number', 'a number that is used again');
$node->safe_psql('postgres', 'DROP DATABASE number');

# Bits of the visibility map are set without an edit: so no counter tells who has known the table
# before its database moved that it has a map by now.  Who deletes rows then must clear their
# bits, after a promotion too.
$node->safe_psql('postgres', 'CREATE DATABASE visible');
$node->safe_psql('visible', q{
CREATE EXTENSION lsm;
CREATE TABLE v (id int PRIMARY KEY, b text) USING lsm;
INSERT INTO v SELECT i, repeat('b', 300) FROM generate_series(1, 3000) i});
$node->wait_until('visible', q{SELECT count(*) = 1 FROM pg_stat_replication
	WHERE backend_xmin::text::bigint > (SELECT max(xmin::text::bigint) FROM v)});
$node->safe_psql('visible', q{SELECT lsm_flush('v'); SELECT lsm_major_compact('v')});
is($node->safe_psql('visible', q{SELECT bool_and(all_visible) FROM lsm_segments('v')}), 't', 'rows that all see');

# What an index-only scan returns and fetches.
sub index_only
{
	my ($n) = @_;
	my @rows = split /\n/, $n->safe_psql('visible', q{
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM v WHERE id > 0;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM v WHERE id > 0});

	return "$rows[0], " . (join("\n", @rows) =~ /Heap Fetches: (\d+)/ ? "$1 fetched" : 'no index-only scan');
}

# What the metapage says.
sub metapage
{
	my $file = $node->data_dir . '/' . $node->safe_psql('visible', q{CHECKPOINT; SELECT pg_relation_filepath('v')});

	return unpack('H*', substr(PostgreSQL::Test::Utils::slurp_file($file), 24, 8144));
}

$db = 'visible';
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(index_only($_), '3000|4501500, 3000 fetched', 'no map before a database moves: ' . $_->name) foreach $node, $standby;
move('ts');
my $meta = metapage();
$node->safe_psql('visible', 'VACUUM (TRUNCATE off) v');
is(metapage(), $meta, 'VACUUM without an edit');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(index_only($_), '3000|4501500, 0 fetched', 'it makes a map: ' . $_->name) foreach $node, $standby;
move('pg_default');
$node->safe_psql('visible', 'DELETE FROM v WHERE id <= 10');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
like(index_only($_), qr/^2990\|4501445, [1-9]\d* fetched/, 'rows that are deleted when it is back: ' . $_->name) foreach $node, $standby;
$node->check_ok('visible', 'rows that are deleted when a database is back');

$node->stop;
$standby->promote;
$standby->safe_psql('visible', 'DELETE FROM v WHERE id > 2990');
like(index_only($standby), qr/^2980\|4471490, [1-9]\d* fetched/, 'and after a promotion');
is(contents($standby, 'copy_wal_log'), $moved, 'promoted');
$standby->check_ok($_, "promoted, $_") foreach 'copy_wal_log', 'copy_file_copy', 'source', 'visible';
$standby->stop;
done_testing();
