# Segments that VACUUM moves to free pages before them: an error and a crash at each
# moment, a job or writer between its steps, and a standby that reads meanwhile, or waits
# for the lock under which the file is shortened.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $lost = qr/server closed the connection|connection to server was lost/;
my $node = LsmNode->new('relocate');

$node->setup(
	allows_streaming => 1,
	conf => q{
restart_after_crash = on
autovacuum = off
lsm.compaction_workers = 0
});

my $rows = q{SELECT count(*), md5(string_agg(id || a, ',' ORDER BY id)), sum(length(b)), max(right(b, 32)) FROM t};
my $size = q{SELECT pg_table_size('t')};

# A table whose segments lie behind the pages of the row log.
sub load
{
	my ($large) = @_;
	my $value = $large ? 'CASE WHEN i % 200 = 0 THEN repeat(md5(i::text), 400) END' : 'NULL';

	$node->safe_psql(
		'postgres', qq{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int PRIMARY KEY, a text, b text) USING lsm;
		ALTER TABLE t ALTER b SET STORAGE external;
		INSERT INTO t SELECT i, md5(i::text) || md5((-i)::text), $value FROM generate_series(1, 40000) i;
		SELECT count(*) FROM lsm_flush('t');
		SELECT pg_current_xact_id()});
	return;
}

# Live bytes and a few pages.
sub small_ok
{
	my ($label) = @_;
	my $bytes = $node->safe_psql('postgres', q{SELECT sum(stored_bytes) FROM lsm_segments('t')});

	cmp_ok($node->safe_psql('postgres', $size), '<', $bytes * 1.02 + 40 * 8192, "the file is short: $label");
	return;
}

my $loaded;

foreach my $stop (map { my $large = $_; map { [ $_, $large ] } qw(relocate-copy relocate-before-swap relocate-after-swap) } 0, 1)
{
	my ($point, $large) = @$stop;

	foreach my $action (qw(error crash))
	{
		my $label = "$action at $point" . ($large ? ', large values' : '');

		load($large);
		$loaded = $node->safe_psql('postgres', $rows);
		like($node->psql_until_crash('postgres', "SET lsm.debug_stop = '$point:$action'; VACUUM t"),
			$action eq 'error' ? qr/stopped at "$point"/ : $lost, $label);
		is($node->safe_psql('postgres', $rows), $loaded, "rows: $label");
		$node->check_ok('postgres', $label);
		$node->crash_and_start if $action eq 'error';
		is($node->safe_psql('postgres', $rows), $loaded, "rows after a crash: $label");

		# what it has left is used, or given back
		$node->safe_psql('postgres', 'VACUUM t');
		small_ok($label);
		is($node->safe_psql('postgres', $rows), $loaded, "rows after VACUUM: $label");
		$node->check_ok('postgres', "$label, VACUUM");
		$node->crash_and_start;
		is($node->safe_psql('postgres', $rows), $loaded, "rows moved, then a crash: $label");
	}
}

# Between copying and the swap the segment is compacted, or others write.
foreach my $between (
	q{DELETE FROM t WHERE id % 2 = 0; SELECT count(*) FROM lsm_flush('t'); SELECT count(*) FROM lsm_major_compact('t')},
	q{INSERT INTO t SELECT i, md5(i::text) FROM generate_series(40001, 60000) i; SELECT count(*) FROM lsm_flush('t')})
{
	my $holder = $node->session('postgres');
	my $vacuum = $node->session('postgres');
	my $pid = $node->session_pid($vacuum);

	load(1);
	$holder->query_safe('SELECT pg_advisory_lock(7107437)');
	$vacuum->query_safe(q{SET lsm.debug_stop = 'relocate-before-swap:wait'});
	$node->start_query($vacuum, 'VACUUM t');
	$node->wait_blocked($pid);
	$node->safe_psql('postgres', $between);
	my $changed = $node->safe_psql('postgres', $rows);

	$holder->query_safe('SELECT pg_advisory_unlock(7107437)');
	$node->finish_query($vacuum);
	$holder->quit;
	$vacuum->quit;
	is($node->safe_psql('postgres', $rows), $changed, 'rows changed between the steps of a move');
	$node->check_ok('postgres', 'changed between the steps of a move');
	$node->safe_psql('postgres', 'VACUUM t');
	small_ok('changed between the steps of a move');
	is($node->safe_psql('postgres', $rows), $changed, 'rows after VACUUM');
	$node->check_ok('postgres', 'changed between the steps of a move, VACUUM');
}

# A standby: a cursor from before reads on behind the move, until the truncation.
load(0);
$loaded = $node->safe_psql('postgres', $rows);
$node->backup('base');
my $standby = LsmNode->new('standby');

$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = on\n");
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
my $reader = $standby->session('postgres');

$reader->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM t; MOVE 20000 FROM c');
like($node->psql_until_crash('postgres', q{SET lsm.debug_stop = 'truncate-start:error'; VACUUM t}), qr/stopped at/, 'moved, but not shortened');
is($reader->query_safe('FETCH 1 FROM c'), '20001', 'a cursor of the standby');
is($reader->query_safe('SELECT count(*), sum(id) FROM t'), '40000|800020000', 'all rows on the standby');
is($reader->query_safe('FETCH 1 FROM c'), '20002', 'the cursor goes on');
$reader->query_safe('COMMIT');
$reader->quit;
$node->safe_psql('postgres', 'VACUUM t');
small_ok('with a standby');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $rows), $loaded, 'rows on the standby');
is($standby->safe_psql('postgres', $size), $node->safe_psql('postgres', $size), 'as short on the standby');
$standby->check_ok('postgres', 'standby');

# Whoever waits there for the lock that replay has meanwhile is in conflict with nothing that comes under
# it: else both would wait for ever.
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = off');
$standby->restart;
load(1);
cmp_ok($node->safe_psql('postgres', q{SELECT sum(stored_bytes) FROM lsm_segments('t')}),
	'<', 1024 * 8192, 'as few pages as are moved under a lock without large values');
$loaded = $node->safe_psql('postgres', $rows);

my $holder = $node->session('postgres');
my $vacuum = $node->session('postgres');
my $pid = $node->session_pid($vacuum);

$holder->query_safe('SELECT pg_advisory_lock(7107437)');
$vacuum->query_safe(q{SET lsm.debug_stop = 'truncate-start:wait'});
$node->start_query($vacuum, 'VACUUM t');

# (From another database: whoever has a snapshot here keeps VACUUM from freeing what it moves.)
$node->wait_until('template1', "SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
$node->safe_psql('template1', q{SELECT pg_logical_emit_message(true, 'flush', 'the lock')});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$reader = $standby->session('postgres');
$pid = $standby->session_pid($reader);
$standby->start_query($reader, $rows);
$standby->wait_blocked($pid);
$holder->query_safe('SELECT pg_advisory_unlock(7107437)');
$node->finish_query($vacuum);
small_ok('with a reader that waits');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(join('', $standby->finish_query($reader)), $loaded, 'who has waited on the standby');
is($standby->safe_psql('postgres', $size), $node->safe_psql('postgres', $size), 'shortened there as well');
$_->quit foreach $holder, $vacuum, $reader;

done_testing();
