# An error, and a crash of the server, at each stop point of flush, compaction,
# the switch of generations and the rebuild of the memtable's index.  All rows
# must be as in a heap table with the same changes, the operation must work
# afterwards, and repeated crashes must not make the file grow.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

# What each point stops: the operation that comes there.
my %points = (
	'flush-start' => 'flush',
	'switch-before-log' => 'flush',
	'switch-after-log' => 'flush',
	'flush-after-switch' => 'flush',
	'flush-before-swap' => 'flush',
	'flush-after-swap' => 'flush',
	'alloc-range-after' => 'flush minor major',
	'seg-write-page' => 'flush minor major',
	'minor-start' => 'minor',
	'minor-before-swap' => 'minor',
	'minor-after-swap' => 'minor',
	'major-start' => 'major',
	'major-before-swap' => 'major',
	'major-after-swap' => 'major',);
my %functions = (
	flush => 'lsm_flush',
	minor => 'lsm_minor_compact',
	major => 'lsm_major_compact');
my $lost = qr/server closed the connection|connection to server was lost/;
my $node = LsmNode->new('stop_points');

$node->setup(conf => "restart_after_crash = on\nautovacuum = off\n");
$node->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v int, k int, pad text) USING lsm;
CREATE INDEX t_k ON t (k);
CREATE TABLE t_heap (id int PRIMARY KEY, v int, k int, pad text) USING heap;
CREATE TABLE marker (n int) USING heap;
});

# A flush writes no commit record, so a crash may undo it as a whole.  The
# commit after it makes sure that its WAL is on disk.
sub flush_table
{
	$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('t')");
	$node->safe_psql('postgres', 'INSERT INTO marker VALUES (1)');
	return;
}

# The same changes to both tables, of all kinds; some are rolled back.
my $round = 0;

sub change
{
	$round++;
	foreach my $t (qw(t t_heap))
	{
		$node->safe_psql(
			'postgres', qq{
			SET lsm.debug_load_after = @{[ $round % 2 - 1 ]};
			BEGIN;
			INSERT INTO $t SELECT $round * 1000 + i, i, i % 20, repeat('p', i % 200) FROM generate_series(1, 300) i;
			UPDATE $t SET v = v + 1 WHERE id % 3 = $round % 3;
			SAVEPOINT s;
			UPDATE $t SET v = -1, k = -1;
			DELETE FROM $t WHERE id % 2 = 0;
			ROLLBACK TO s;
			UPDATE $t SET k = k + 1 WHERE id % 7 = $round % 7;
			DELETE FROM $t WHERE id % 11 = $round % 11 OR id < ($round - 10) * 1000;
			COMMIT;
			BEGIN;
			UPDATE $t SET v = v + 1000 WHERE id % 5 = 0;
			INSERT INTO $t SELECT -i, i, i FROM generate_series(1, 50) i;
			ROLLBACK;});
	}
	return;
}

sub same_rows
{
	my ($label) = @_;

	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM t_heap ORDER BY id', "rows: $label");
	$node->same_ok('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT * FROM t WHERE k >= 0 ORDER BY k, id',
		'SELECT * FROM t_heap WHERE k >= 0 ORDER BY k, id', "rows by index: $label");
	$node->check_ok('postgres', $label);
	return;
}

# Makes work for an operation: a memtable, and increments over a baseline.
sub prepare
{
	my ($operation) = @_;

	change();
	return if $operation eq 'flush';
	flush_table();
	change();
	flush_table();
	return;
}

# Runs a statement with a stop point set; returns what psql printed as errors.
sub run_stopped
{
	my ($sql, $point, $action) = @_;

	return $node->psql_until_crash('postgres', "SET lsm.debug_stop = '$point:$action'; $sql");
}

foreach my $point (sort keys %points)
{
	foreach my $operation (split / /, $points{$point})
	{
		my $sql = "SELECT count(*) FROM $functions{$operation}('t')";

		prepare($operation);
		like(run_stopped($sql, $point, 'error'), qr/stopped at "$point"/, "$operation fails at $point");
		same_rows("$operation failed at $point");
		change();
		same_rows("$operation failed at $point, then changes");
		$node->safe_psql('postgres', $sql);
		same_rows("$operation failed at $point, then done");

		prepare($operation);
		like(run_stopped($sql, $point, 'crash'), $lost,
			"$operation crashes at $point");
			same_rows("$operation crashed at $point");
		change();
		$node->safe_psql('postgres', $sql);
		same_rows("$operation crashed at $point, then done");
	}
}

# An error and a crash inside of a transaction that has changes of its own:
# only they are undone.
foreach my $action (qw(error crash))
{
	prepare('major');
	run_stopped("BEGIN; UPDATE t SET v = 0; SELECT count(*) FROM lsm_flush('t'); COMMIT;", 'flush-before-swap', $action);
	same_rows("flush in a transaction: $action");
	run_stopped("BEGIN; UPDATE t SET v = 0; SAVEPOINT s; SELECT count(*) FROM lsm_flush('t'); ROLLBACK TO s; COMMIT;",
		'flush-after-swap', $action);
	$node->safe_psql('postgres', 'UPDATE t_heap SET v = 0') if $action eq 'error';
	same_rows("flush in a subtransaction: $action");
}

# The index of the memtable is rebuilt at its first use after a restart.
foreach my $action (qw(error crash))
{
	change();
	$node->crash_and_start;
	like(run_stopped('UPDATE t SET v = v + 1 WHERE id = (SELECT max(id) FROM t)', 'rebuild-index', $action),
		$action eq 'error' ? qr/stopped at "rebuild-index"/ : $lost,
		"rebuild of the index: $action");
	same_rows("rebuild of the index: $action");
}

# The writer that fills a memtable flushes it: an error or a crash there ends
# the statement, and nothing else is lost.
foreach my $action (qw(error crash))
{
	run_stopped(q{INSERT INTO t SELECT 5000000 + i, i, i % 20, repeat('q', 500) FROM generate_series(1, 100000) i},
		'flush-before-swap', $action);

	# whether the load was large enough to be flushed is the engine's business
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id >= 5000000');
	same_rows("a load that flushes: $action");
}

# No crash leaks pages for good.  The same work is done on the same rows again
# and again, so that the file has no reason to grow once it has its size.
$node->safe_psql('postgres', 'TRUNCATE t, t_heap');
$node->safe_psql('postgres', qq{
	INSERT INTO t SELECT i, i, i % 20, md5(i::text) || md5((-i)::text) FROM generate_series(1, 6000) i;
	INSERT INTO t_heap SELECT * FROM t});

sub same_work
{
	my ($operation) = @_;

	for my $n (1 .. ($operation eq 'flush' ? 1 : 2))
	{
		$round++;
		foreach my $t (qw(t t_heap))
		{
			$node->safe_psql('postgres', "UPDATE $t SET v = v + 1, pad = md5($round || pad) || md5(pad)");
		}
		flush_table() if $operation ne 'flush';
	}
	return;
}

foreach my $case ([ 'flush', 'alloc-range-after' ], [ 'flush', 'seg-write-page' ], [ 'flush', 'flush-before-swap' ],
	[ 'flush', 'flush-after-swap' ], [ 'minor', 'minor-before-swap' ], [ 'minor', 'minor-after-swap' ],
	[ 'major', 'seg-write-page' ], [ 'major', 'major-before-swap' ], [ 'major', 'major-after-swap' ])
{
	my ($operation, $point) = @$case;
	my @sizes;

	$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('t'); SELECT count(*) FROM lsm_major_compact('t')");
	for my $n (1 .. 12)
	{
		# after the swap the operation is done: new work, on a clean table
		if ($n == 1 || $point =~ /after-swap/)
		{
			$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('t'); SELECT count(*) FROM lsm_major_compact('t')");
			$node->safe_psql('postgres', 'SELECT pg_current_xact_id()');
			same_work($operation);
		}
		like(run_stopped("SELECT count(*) FROM $functions{$operation}('t')", $point, 'crash'),
			$lost, "crash $n of $operation at $point");
		# freed ranges are used again when later transactions have ended
		$node->safe_psql('postgres', 'SELECT pg_current_xact_id()') for 1 .. 2;
		push @sizes, $node->safe_psql('postgres', "SELECT pg_relation_size('t') / 8192");
	}
	note "$operation at $point, pages after each crash: @sizes";

	# a segment of these rows has some 50 pages
	cmp_ok($sizes[11], '<=', $sizes[3] + 100, "crashes of $operation at $point do not make the file grow");
	same_rows("crashes of $operation at $point");
	$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('t'); SELECT count(*) FROM lsm_major_compact('t'); VACUUM t");
	same_rows("crashes of $operation at $point, then compacted");
}

$node->stop;
done_testing();
