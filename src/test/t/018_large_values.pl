# Values of 200 MB: crashes between the pieces in which they are written, by an
# INSERT, a flush and a compaction; what that costs in WAL and space; a standby
# that replays all of it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $mb = 1024 * 1024;
my $lost = qr/server closed the connection|connection to server was lost/;
my $node = LsmNode->new('primary');

$node->setup(conf => "restart_after_crash = on\nautovacuum = off\nmax_wal_size = 4GB\nwal_keep_size = 8GB\nshared_buffers = 32MB\n");
$node->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, n int, v text) USING lsm;
ALTER TABLE t ALTER v SET STORAGE external;
CREATE TABLE marker (n int) USING heap;
-- a kilobyte of noise, over and over; the number says which value it is
CREATE FUNCTION big(seed int, mb int) RETURNS text LANGUAGE sql AS
	$$ SELECT repeat((SELECT string_agg(md5(seed::text || i::text), '') FROM generate_series(1, 32) i), mb * 1024) $$;
INSERT INTO t SELECT i, 0, 'small' FROM generate_series(1, 100) i;
});
$node->backup('first');

my $standby = LsmNode->new('standby');

$standby->init_from_backup($node, 'first', has_streaming => 1);
$standby->start;

my $all = 'SELECT id, n, length(v), md5(v) FROM t WHERE id > 100 ORDER BY id';
my $sum = $node->safe_psql('postgres', 'SELECT md5(big(1, 200))');
my $sum2 = $node->safe_psql('postgres', 'SELECT md5(big(2, 40))');

sub megabytes
{
	return $node->safe_psql('postgres', "SELECT pg_relation_size('t') / $mb");
}

# WAL that a statement writes, in megabytes.
sub wal_of
{
	my ($sql) = @_;
	my $from = $node->lsn('insert');

	$node->safe_psql('postgres', $sql);
	return $node->safe_psql('postgres', "SELECT pg_wal_lsn_diff('" . $node->lsn('insert') . "', '$from')::bigint / $mb");
}

# A statement during which the server crashes at that point.
sub crash_at
{
	my ($point, $sql) = @_;

	like($node->psql_until_crash('postgres', "SET lsm.debug_stop = '$point:crash'; $sql"), $lost, "crash at $point");
	return;
}

# An INSERT is cut off behind the first piece of its value.
foreach my $round (1 .. 2)
{
	crash_at('value-write', 'INSERT INTO t VALUES (101, 0, big(1, 200))');
	is($node->safe_psql('postgres', $all), '', 'no row');
	$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('t'); INSERT INTO marker VALUES (1)");
}
$node->check_ok('postgres', 'after crashes of an INSERT');
cmp_ok(megabytes(), '<', 450, 'pages of values that were never finished are used again');

# One that is not: it is there after a crash, whether flushed or not.
my $wal = wal_of('INSERT INTO t VALUES (101, 0, big(1, 200))');

cmp_ok($wal, '<', 210, "a value is logged once ($wal MB)");
$node->crash_and_start;
is($node->safe_psql('postgres', $all), "101|0|209715200|$sum", 'the row after a crash');
crash_at($_, "SELECT count(*) FROM lsm_flush('t')") foreach (qw(seg-write-page flush-before-swap));
is($node->safe_psql('postgres', $all), "101|0|209715200|$sum", 'the row after crashes of its flush');
$wal = wal_of("SELECT count(*) FROM lsm_flush('t'); INSERT INTO marker VALUES (1)");
cmp_ok($wal, '<', 210, "a flush logs it once ($wal MB)");
is($node->safe_psql('postgres', $all), "101|0|209715200|$sum", 'the row after its flush');

# Another column of the row, and a look at that column only.
$wal = wal_of('UPDATE t SET n = n + 1 WHERE id > 100');
cmp_ok($wal, '<', 2, 'a change of another column does not log the value again');
$wal = wal_of("SELECT count(*) FROM lsm_flush('t')");
cmp_ok($wal, '<', 2, 'nor does its flush');
is($node->safe_psql('postgres', 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT sum(n) FROM t') =~ /Buffers:.*(?:hit|read)=\d{4}/ ? 1 : 0,
	0, 'a scan of another column does not read it');
$node->safe_psql('postgres', 'ANALYZE t');
is($node->safe_psql('postgres', "SELECT avg_width < 100 FROM pg_stats WHERE tablename = 't' AND attname = 'v'"),
	't', 'nor does a sample');
is($node->safe_psql('postgres', 'SELECT substr(v, 209715191, 20) = right(big(1, 1), 10) FROM t WHERE id = 101'), 't', 'a slice at its end');

# Another value: twice in one transaction that crashes, then for good.
crash_at('value-write', 'BEGIN; UPDATE t SET v = left(big(2, 1), 100000) WHERE id = 101; UPDATE t SET v = big(2, 40) WHERE id = 101');
is($node->safe_psql('postgres', $all), "101|1|209715200|$sum", 'the row after a crash of its update');
$node->safe_psql('postgres', 'UPDATE t SET v = big(2, 40) WHERE id = 101');
crash_at('seg-write-page', "SELECT count(*) FROM lsm_major_compact('t')");
$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('t'); INSERT INTO marker VALUES (1)");
crash_at('major-before-swap', "SELECT count(*) FROM lsm_major_compact('t')");
is($node->safe_psql('postgres', $all), "101|1|41943040|$sum2", 'the row after crashes of its compaction');
$node->safe_psql('postgres', "SELECT count(*) FROM lsm_major_compact('t'); INSERT INTO marker VALUES (1)");
is($node->safe_psql('postgres', $all), "101|1|41943040|$sum2", 'the row after its compaction');
$node->check_ok('postgres', 'after all');

# The pages of what was dropped are used again.
my $before = megabytes();

foreach my $round (1 .. 5)
{
	$node->safe_psql('postgres', $_)
	  foreach (q{UPDATE t SET v = right(v, -1) || 'x' WHERE id = 101}, q{SELECT count(*) FROM lsm_flush('t')}, q{SELECT count(*) FROM lsm_major_compact('t')},
		q{INSERT INTO marker VALUES (1)});
}
cmp_ok(megabytes(), '<=', $before + 130, 'the file does not grow with each change');

# The standby has replayed it.
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $all), $node->safe_psql('postgres', $all), 'the row on the standby');
$standby->check_ok('postgres', 'on the standby');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (102, 0, big(1, 20)); DELETE FROM t WHERE id = 101});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', 'SELECT id, length(v), v = big(1, 20) FROM t WHERE id > 100'), '102|20971520|t', 'a value in the row log, on the standby');
$node->stop('immediate');
$standby->promote;
$standby->safe_psql('postgres', q{UPDATE t SET n = 7 WHERE id = 102; SELECT count(*) FROM lsm_flush('t'); SELECT count(*) FROM lsm_major_compact('t')});
is($standby->safe_psql('postgres', 'SELECT id, n, length(v), v = big(1, 20) FROM t WHERE id > 100'), '102|7|20971520|t', 'after the promotion');
$standby->check_ok('postgres', 'after the promotion');
$standby->stop;
done_testing();
