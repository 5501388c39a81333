# A writer who finds the memtable full while all workers are busy: he leaves the flush to one of
# them, and goes on; if the next memtable is full before one has come, he flushes the first.  Those
# who come second wait for room, not for the flush.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('room');

$node->setup(conf => q{
autovacuum = off
fsync = off
lsm.memtable_size = 4MB
lsm.compaction_workers = 2
});

$node->safe_psql('postgres', q{
	CREATE DATABASE busy;
	ALTER DATABASE busy SET lsm.debug_stop = 'minor-before-swap:wait'});
$node->safe_psql('busy', qq{
	CREATE EXTENSION IF NOT EXISTS lsm;
	CREATE TABLE $_ (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO $_ SELECT i, 0 FROM generate_series(1, 40000) i;
	SELECT lsm_flush('$_')}) foreach ('r', 'a', 'b');

my $flushes = q{SELECT flushes FROM lsm_stat_tables WHERE relname = 'r'};
my $busy = q{SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND query LIKE 'lsm: minor compaction of public.%'};
my $holder = $node->session('busy');

$holder->query_safe('SELECT pg_advisory_lock(7107437)');
foreach my $table ('a', 'b')
{
	$node->safe_psql('busy', "UPDATE $table SET v = v + 1 WHERE id % 1000 = $_; SELECT lsm_flush('$table')") foreach (1 .. 6);
}
$node->wait_until('busy', $busy);
is($node->safe_psql('busy', $flushes), '1', 'two workers stand still, one table each');

# How many changed rows fill a memtable?
my $writer = $node->session('busy');

sub change_until
{
	my ($condition, $name) = @_;
	my $row = 0;

	while ($writer->query_safe($condition) ne 't')
	{
		$writer->query_safe(sprintf('UPDATE r SET v = v + 1 WHERE id > %d AND id <= %d', $row, $row + 200));
		$row += 200;
		BAIL_OUT("not $name") if $row > 40000;
	}
	pass($name);
	return $row;
}

$node->safe_psql('busy', q{
	CREATE FUNCTION lsm_test_generation(regclass) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm'});
my $generation = $node->safe_psql('busy', q{SELECT lsm_test_generation('r')});
my $rows = change_until("SELECT lsm_test_generation('r') > $generation", 'a memtable that is full is set aside');

is($node->safe_psql('busy', $flushes), '1', 'without a flush');
is($node->safe_psql('busy', $busy), 't', 'by a worker neither');
is($node->safe_psql('busy', 'SELECT count(*), sum(v) FROM r'), "40000|$rows", 'its rows are there');

# who has the table for himself flushes himself: no worker could, nor is he slowed for one
$node->safe_psql('busy', q{
	SET lsm.debug_load_after = -1;
	BEGIN;
	CREATE TABLE own (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO own SELECT i, 0 FROM generate_series(1, 40000) i;
	DO 'BEGIN FOR i IN 0 .. 199 LOOP UPDATE own SET v = v + 1 WHERE id > i * 200 AND id <= i * 200 + 200; END LOOP; END';
	DO $$ BEGIN ASSERT (SELECT sum(v) = 40000 AND count(*) = 40000 FROM own); END $$;
	COMMIT});
is($node->safe_psql('busy', q{SELECT flushes > 0, stalls = flushes FROM lsm_stat_tables WHERE relname = 'own'}), 't|t', 'who has the table for himself flushes, and does not wait');
is($node->safe_psql('busy', $busy), 't', 'the workers still stand');

# the next one: now somebody has to flush
my $more = change_until("SELECT flushes = 2 FROM lsm_stat_tables WHERE relname = 'r'", 'when the next one is full its writer flushes');

is($node->safe_psql('busy', $busy), 't', 'as the workers still stand');
is($node->safe_psql('busy', 'SELECT count(*), sum(v) FROM r'), '40000|' . ($rows + $more), 'all rows are there');

# ---- others do not wait for a flush ----

# One stands still before there is room, and then once more when he flushes; who came when there was
# no room, and has waited for it, goes on.
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.compaction_workers = 0});
$node->reload;
$holder->quit;
$node->wait_until('busy', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
$node->safe_psql('busy', q{SELECT lsm_flush('r')});
$holder = $node->session('busy');
$holder->query_safe('SELECT pg_advisory_lock(7107437)');

my ($first, $second, $next_holder) = map { $node->session('busy') } (1 .. 3);
my ($first_pid, $second_pid, $next_pid) = map { $node->session_pid($_) } ($first, $second, $next_holder);

$first->query_safe(q{SET lsm.debug_stop = 'switch-before-log:wait,flush-after-switch:wait'});
$node->start_query($first, 'UPDATE r SET v = v + 1');
$node->wait_blocked($first_pid);
$node->start_query($second, 'INSERT INTO r SELECT i, 0 FROM generate_series(100001, 100100) i');
$node->wait_blocked($second_pid);
$node->start_query($next_holder, 'SELECT pg_advisory_lock(7107437)');
$node->wait_blocked($next_pid);
$holder->quit;
$node->finish_query($next_holder);
is(($node->finish_query($second))[1], '', 'who has waited for room does not wait for the flush');
$node->wait_blocked($first_pid);
$next_holder->quit;
is(($node->finish_query($first))[1], '', 'the flush ends');
$_->quit foreach ($first, $second);
is($node->safe_psql('busy', 'SELECT count(*), sum(v) FROM r'), '40100|' . ($rows + $more + 40000), 'rows');
is($node->safe_psql('busy', q{SELECT count(*) FROM lsm_check('r')}), '0', 'lsm_check finds nothing');

# ---- a flush that was left to a worker outlives a crash ----

$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.compaction_workers = 2});
$node->reload;
$holder = $node->session('busy');
$holder->query_safe('SELECT pg_advisory_lock(7107437)');
foreach my $table ('a', 'b')
{
	$node->safe_psql('busy', "UPDATE $table SET v = v + 1 WHERE id % 1000 = $_; SELECT lsm_flush('$table')") foreach (7 .. 12);
}
$node->wait_until('busy', $busy);
$generation = $node->safe_psql('busy', q{SELECT lsm_test_generation('r')});
my $sum = $node->safe_psql('busy', 'SELECT sum(v) FROM r');

$rows = change_until("SELECT lsm_test_generation('r') > $generation", 'it is set aside');
$node->stop('immediate');
$node->start;
is($node->safe_psql('busy', 'SELECT count(*), sum(v) FROM r'), '40100|' . ($sum + $rows), 'rows after a crash');
$node->safe_psql('busy', q{ALTER DATABASE busy RESET lsm.debug_stop});
$node->wait_until('busy', q{SELECT flushes > 0 FROM lsm_stat_tables WHERE relname = 'r'});
is($node->safe_psql('busy', 'SELECT count(*), sum(v) FROM r'), '40100|' . ($sum + $rows), 'rows when a worker has come');
is($node->safe_psql('busy', q{SELECT count(*) FROM lsm_check('r')}), '0', 'lsm_check finds nothing');

$node->stop;
done_testing();
