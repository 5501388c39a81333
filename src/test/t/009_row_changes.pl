# What row changes and row locks leave behind must hold through restarts and on
# a standby: KEY SHARE locks of prepared transactions on rows that are updated and
# moved, the mark on a row that has gone to another partition, and index entries
# that are removed without VACUUM.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('primary');

$node->setup(conf => "restart_after_crash = off\nautovacuum = off\nmax_prepared_transactions = 20\n");

sub jobs
{
	my (@tables) = @_;

	$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('$_'); SELECT count(*) FROM lsm_major_compact('$_')")
	  foreach (@tables);
	return;
}

# KEY SHARE, held by many, while others update the row in place and move it
$node->safe_psql(
	'postgres', q{
CREATE TABLE parent (id int PRIMARY KEY, k int, v int) USING lsm;
CREATE INDEX parent_k ON parent (k);
CREATE TABLE child (id int, p int REFERENCES parent) USING lsm;
INSERT INTO parent SELECT i, i, 0 FROM generate_series(1, 3) i;
});
foreach my $i (1 .. 9)
{
	my $p = 1 + $i % 3;

	$node->safe_psql('postgres', "BEGIN; INSERT INTO child VALUES ($i, $p); PREPARE TRANSACTION 'c$i'");
	$node->safe_psql('postgres', 'UPDATE parent SET v = v + 1');
	$node->safe_psql('postgres', 'UPDATE parent SET k = k + 10') if $i % 2 == 0;
	$node->safe_psql('postgres', 'BEGIN; UPDATE parent SET k = -k, v = -1; ROLLBACK') if $i % 3 == 0;
	jobs('parent', 'child') if $i == 3;
	$node->crash_and_start if $i == 4 || $i == 9;
	$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('parent')") if $i == 6;
}
is($node->safe_psql('postgres', 'SELECT id, k, v FROM parent ORDER BY id'), "1|41|9\n2|42|9\n3|43|9",
	'updates that leave the key alone go on beside the locks');
foreach my $p (1 .. 3)
{
	foreach my $sql ("DELETE FROM parent WHERE id = $p", "UPDATE parent SET id = 100 WHERE id = $p",
		"SELECT 1 FROM parent WHERE id = $p FOR UPDATE")
	{
		my ($status, $out, $err) = $node->psql('postgres', "SET lock_timeout = '50ms'; $sql");

		like($err, qr/due to lock timeout/, "prepared transactions lock the row: $sql");
	}
}
jobs('parent', 'child');
$node->safe_psql('postgres', "COMMIT PREPARED 'c$_'") foreach (1, 3, 4, 5, 6, 7, 9);
$node->safe_psql('postgres', "ROLLBACK PREPARED 'c$_'") foreach (2, 8);
my ($status, $out, $err) = $node->psql('postgres', 'DELETE FROM parent WHERE id = 2');
like($err, qr/violates foreign key constraint/, 'rows that were inserted then refer to it');
$node->safe_psql('postgres', 'DELETE FROM child WHERE p = 3');
$node->safe_psql('postgres', 'DELETE FROM parent WHERE id = 3');
is($node->safe_psql('postgres', 'SELECT id FROM parent ORDER BY id'), "1\n2", 'the row that nobody refers to can go');

# a row that a prepared transaction moves to another partition
$node->safe_psql(
	'postgres', q{
CREATE TABLE pm (a int, b int, c text) PARTITION BY LIST (a);
CREATE TABLE pm1 PARTITION OF pm FOR VALUES IN (1) USING lsm;
CREATE TABLE pm2 PARTITION OF pm FOR VALUES IN (2) USING lsm;
INSERT INTO pm SELECT 1, i, 'old' FROM generate_series(1, 4) i;
});
jobs('pm1', 'pm2');
$node->safe_psql('postgres', "BEGIN; UPDATE pm SET a = 2 WHERE b <= 2; PREPARE TRANSACTION 'move'");
$node->safe_psql('postgres', "BEGIN; DELETE FROM pm WHERE b = 3; PREPARE TRANSACTION 'delete'");
$node->crash_and_start;
$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('pm1')");

my @waiters;
foreach my $sql ("UPDATE pm SET c = 'new' WHERE b = 1", 'SELECT * FROM pm WHERE b = 2 FOR UPDATE', 'DELETE FROM pm WHERE b = 3 RETURNING b')
{
	my $session = $node->session('postgres');
	my $pid = $node->session_pid($session);

	$node->start_query($session, $sql);
	$node->wait_blocked($pid);
	push @waiters, $session;
}
jobs('pm1', 'pm2');
$node->safe_psql('postgres', "COMMIT PREPARED 'delete'");
$node->safe_psql('postgres', "COMMIT PREPARED 'move'");
foreach my $i (0, 1)
{
	($out, $err) = $node->finish_query($waiters[$i]);
	like($err, qr/already moved to another partition/, 'a row that has moved is not one that was deleted');
}
($out, $err) = $node->finish_query($waiters[2]);
is("$out$err", '', 'a row that was deleted is not there');
$_->quit foreach (@waiters);
is($node->safe_psql('postgres', 'SELECT tableoid::regclass, * FROM pm ORDER BY b'), "pm2|2|1|old\npm2|2|2|old\npm1|1|4|old", 'the rows are where they belong');

# index entries removed without VACUUM: snapshots of a standby that may still need
# them are cancelled
$node->safe_psql(
	'postgres', q{
CREATE TABLE dead (key int, v int) USING lsm;
CREATE INDEX dead_key ON dead (key);
INSERT INTO dead SELECT i, 0 FROM generate_series(1, 300) i;
});
$node->backup('first');
my $standby = LsmNode->new('standby');

$standby->init_from_backup($node, 'first', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = 0\n");
$standby->start;

# a row rolled back is no reason to cancel anything
my $reader = $standby->session('postgres');
my $reader_pid = $standby->session_pid($reader);
my $count = 'SELECT count(*) FROM dead WHERE key BETWEEN 1 AND 300';
my $fill = 'INSERT INTO dead SELECT 150 + i % 2, 1 FROM generate_series(1, 300) i';

$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;');
is($reader->query_safe($count), '300', 'a snapshot on the standby');
foreach my $i (1 .. 5)
{
	$node->safe_psql('postgres', "BEGIN; $fill; ROLLBACK; SET enable_seqscan = off; SET enable_bitmapscan = off; $count");
}
my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('dead_key')");
$node->safe_psql('postgres', "BEGIN; $fill; ROLLBACK; SET enable_seqscan = off; SET enable_bitmapscan = off; $count") foreach (1 .. 20);
is($node->safe_psql('postgres', "SELECT pg_relation_size('dead_key')"), $size, 'entries of rows that were rolled back make room');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($reader->query_safe($count), '300', 'the snapshot on the standby still counts them right');

# rows that the reader sees, deleted on the primary; then their entries go
$node->safe_psql('postgres', 'DELETE FROM dead WHERE key BETWEEN 100 AND 200');
$node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; $count");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($reader->query_safe($count), '300', 'and while only the rows have been deleted');
$node->safe_psql('postgres', "BEGIN; $fill; ROLLBACK; SET enable_seqscan = off; SET enable_bitmapscan = off; $count") foreach (1 .. 3);
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$standby->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $reader_pid");
is($standby->safe_psql('postgres', "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'"),
	'1', 'the snapshot that needs the entries is cancelled');
eval { $reader->quit };
is($standby->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; $count"), '199', 'a new one is right');
is($standby->safe_psql('postgres', $count), '199', 'by a seq scan as well');

$node->check_ok('postgres', 'at the end');
$standby->stop;
$node->stop;
done_testing();
