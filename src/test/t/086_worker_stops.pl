# Workers are cancelled, and ended, at each stop point that their flushes and compactions come to: no row
# is lost, and no page, and the job is done by the next one.  (Sessions are in 002_stop_points.)

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

# What each point stops: the job that comes there.
my %points = (
	'flush-start' => 'flush',
	'switch-before-log' => 'flush',
	'switch-after-log' => 'flush',
	'flush-after-switch' => 'flush',
	'flush-before-swap' => 'flush',
	'flush-after-swap' => 'flush',
	'alloc-range-after' => 'flush minor major',
	'seg-write-page' => 'flush minor major',
	'minor-before-swap' => 'minor',
	'minor-after-swap' => 'minor',
	'major-before-swap' => 'major',
	'major-after-swap' => 'major',
	'major-part' => 'major',);
my $node = LsmNode->new('worker_stops');

$node->setup(conf => q{
autovacuum = off
fsync = off
restart_after_crash = off
lsm.memtable_size = 4MB
lsm.compaction_workers = 2
});
$node->safe_psql('postgres', 'CREATE DATABASE held');

my $workers = q{backend_type = 'lsm worker' AND datname = 'held'};
my $hangs = qq{$workers AND query LIKE 'lsm: %' AND wait_event IN ('LsmStop', 'Extension')};
my $no_stop = "SET lsm.debug_stop = '';";

sub held_psql
{
	my ($sql) = @_;

	return $node->safe_psql('held', "$no_stop $sql");
}

held_psql(q{
	CREATE EXTENSION lsm;
	CREATE FUNCTION lsm_test_pending(regclass) RETURNS bigint LANGUAGE C STRICT AS '$libdir/lsm';
	CREATE TABLE f (id int PRIMARY KEY, v int) USING heap;
	INSERT INTO f SELECT i, 0 FROM generate_series(1, 12000) i});

# Is the job that is wanted still to be done?  (Some points come after that.)
my %to_do = (
	flush => q{SELECT count(*) = 0 FROM lsm_segments('t')},
	minor => q{SELECT count(*) > 6 FROM lsm_segments('t') WHERE kind = 'increment'},
	major => q{SELECT count(*) > 0 FROM lsm_segments('t') WHERE kind = 'increment'});

# A session that sees the old versions, so that increments can only be merged.
my $snapshot;

sub make_work
{
	my ($job) = @_;

	held_psql(q{
		CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm;
		INSERT INTO t SELECT id, 0 FROM f});
	if ($job eq 'flush')
	{
		# half of what a memtable may have, and not all
		foreach my $slice (0 .. 23)
		{
			held_psql("UPDATE t SET v = v + 1 WHERE id / 500 = $slice");
			last if $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE $hangs") > 0;
		}
		return;
	}
	held_psql(q{SELECT lsm_flush('t')});
	if ($job eq 'minor')
	{
		$snapshot = $node->session('held');
		$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
		held_psql("UPDATE t SET v = v + 1 WHERE id % 1000 = $_; SELECT lsm_flush('t')") foreach 1 .. 10;
		return;
	}
	held_psql(q{UPDATE t SET v = v + 1 WHERE id <= 3000; SELECT lsm_flush('t')});
	return;
}

foreach my $point (sort keys %points)
{
	foreach my $job (split ' ', $points{$point})
	{
		foreach my $how ('pg_cancel_backend', 'pg_terminate_backend')
		{
			my $label = "$how at $point of a $job";

			$node->safe_psql('postgres', "ALTER DATABASE held SET lsm.debug_stop = '$point:hang'");
			# who is there from before knows nothing of it
			$node->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE $workers");
			make_work($job);
			my $sum = held_psql('SELECT sum(v) FROM t');
			# it shows where it hangs but for moments, in which it looks around
			$node->wait_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE $hangs AND query ~ '^lsm: $job.* of public\\.t\$'");
			pass("a worker hangs: $label");
			is(held_psql('SELECT count(*), sum(v) FROM t'), "12000|$sum", "rows are read: $label");
			$node->safe_psql('postgres', 'ALTER DATABASE held RESET lsm.debug_stop');
			$node->safe_psql('postgres', "SELECT $how(pid) FROM pg_stat_activity WHERE $hangs");
			# who is still there, with the setting from before, may come to the point again
			$node->wait_until('held', "SELECT (SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE $hangs) = 0 AND NOT ($to_do{$job})");
			is(held_psql('SELECT count(*), sum(v) FROM t'), "12000|$sum", "no row is lost: $label");
			# by whoever works there still, or by VACUUM
			held_psql('VACUUM (TRUNCATE false, INDEX_CLEANUP off) t');
			$node->wait_until('held', q{SELECT lsm_test_pending('t') = 0});
			$node->check_ok('held', $label);
			$snapshot->quit if defined $snapshot;
			undef $snapshot;
			held_psql('DROP TABLE t');
		}
	}
}
$node->stop;
done_testing();
