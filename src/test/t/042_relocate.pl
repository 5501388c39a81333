# Segments that VACUUM moves to free pages before them: an error and a crash at each
# moment, a job or writer between its steps, and a standby that reads meanwhile.

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
});

my $rows = q{SELECT count(*), md5(string_agg(id || a, ',' ORDER BY id)) FROM t};
my $size = q{SELECT pg_table_size('t')};

# A table whose segments lie behind the pages of the row log.
sub load
{
	$node->safe_psql(
		'postgres', q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int PRIMARY KEY, a text) USING lsm;
		INSERT INTO t SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series(1, 40000) i;
		SELECT count(*) FROM lsm_flush('t')});
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

load();
my $loaded = $node->safe_psql('postgres', $rows);

foreach my $point (qw(relocate-copy relocate-before-swap relocate-after-swap))
{
	foreach my $action (qw(error crash))
	{
		my $label = "$action at $point";

		load();
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

	load();
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
load();
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

done_testing();
