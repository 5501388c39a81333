# What makes a table's file smaller: CLUSTER, VACUUM FULL, and VACUUM's truncation
# and holes.  An error and a crash at each of their stop points; a standby that
# replays them, with readers that go on; wal_level = minimal; and pg_rewind to a
# time before holes were punched.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use File::stat;
use IPC::Run ();
use Time::HiRes qw(usleep);

my $lost = qr/server closed the connection|connection to server was lost/;
my $node = LsmNode->new('rewrite');

# Without page images, a page that was cut off and has come back as zeroes would be compared
# with what it was, if a checkpoint began in between: so none begins by itself.
$node->setup(conf => "restart_after_crash = on\nautovacuum = off\nfull_page_writes = off\ncheckpoint_timeout = 1d\nmax_wal_size = 8GB\n");
$node->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v int, k int, pad text) USING lsm;
CREATE INDEX t_k ON t (k);
CREATE TABLE t_heap (id int PRIMARY KEY, v int, k int, pad text) USING heap;
});

sub both
{
	my ($sql) = @_;

	foreach my $t (qw(t t_heap))
	{
		(my $for = $sql) =~ s/\bTABLE\b/$t/g;
		$node->safe_psql('postgres', $for);
	}
	return;
}

my $round = 0;

sub change
{
	$round++;
	both(qq{
		INSERT INTO TABLE SELECT $round * 1000 + i, i, i % 20, md5(i::text) FROM generate_series(1, 900) i;
		UPDATE TABLE SET v = v + 1 WHERE id % 3 = $round % 3;
		UPDATE TABLE SET k = k + 1 WHERE id % 7 = $round % 7;
		DELETE FROM TABLE WHERE id % 11 = $round % 11 OR id < ($round - 5) * 1000});
	return;
}

sub same_rows
{
	my ($label) = @_;

	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM t_heap ORDER BY id', "rows: $label");
	$node->same_ok('postgres', 'SET enable_seqscan = off; SELECT * FROM t WHERE k >= 0 ORDER BY k, id',
		'SELECT * FROM t_heap WHERE k >= 0 ORDER BY k, id', "rows by index: $label");
	$node->check_ok('postgres', $label);
	return;
}

sub wait_for_restart
{
	my ($checkpointer) = @_;
	my @psql = ('psql', '-X', '-A', '-t', '-q', '-d', $node->connstr('postgres'), '-c',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");

	for my $try (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my ($out, $err) = ('', '');

		return
		  if IPC::Run::run(\@psql, '<', \undef, '>', \$out, '2>', \$err)
		  && $out =~ /^\d+$/ && $out != $checkpointer;
		usleep(100_000);
	}
	die 'the server did not restart';
}

sub run_stopped
{
	my ($sql, $point, $action) = @_;
	my $checkpointer = $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
	my ($code, $out, $err) = $node->psql('postgres', "SET lsm.debug_stop = '$point:$action';\n$sql", on_error_stop => 0);

	wait_for_restart($checkpointer) if $err =~ $lost;
	return $err;
}

sub size
{
	my ($table) = @_;

	return $node->safe_psql('postgres', "SELECT pg_relation_size('$table')");
}

# Space that the file takes in the file system.
sub allocated
{
	my ($of, $table) = @_;
	my $path = $of->data_dir . '/' . $of->safe_psql('postgres', "SELECT pg_relation_filepath('$table')");

	return stat($path)->blocks * 512;
}

# Rows that go leave a free end: rows by the thousand come, are flushed, and go.  (What moves before
# the table is locked is in 042_relocate.)
sub make_free
{
	both("INSERT INTO TABLE SELECT 900000 + $round, 0, 0, string_agg(md5(i::text), '') FROM generate_series(1, 1000) i");
	both(q{INSERT INTO TABLE SELECT -i, i, i % 20, md5(i::text) || md5((-i)::text) FROM generate_series(1, 15000) i});
	$node->safe_psql('postgres', q{SELECT count(*) FROM lsm_flush('t')});
	both(q{UPDATE TABLE SET pad = md5(pad) || md5(v::text) WHERE id < 0});
	$node->safe_psql('postgres', 'VACUUM (TRUNCATE off) t');
	both(q{DELETE FROM TABLE WHERE id < 0});
	return;
}

my @cases = (
	[ 'VACUUM FULL t', qw(seg-write-page rewrite-second-pass rewrite-before-swap rewrite-after-swap) ],
	[ 'SET enable_indexscan = off; CLUSTER t USING t_k', qw(rewrite-second-pass rewrite-before-swap rewrite-after-swap) ],
	[ 'SET enable_seqscan = off; SET enable_sort = off; CLUSTER t USING t_pkey', qw(rewrite-after-swap) ],
	[ 'VACUUM t', qw(truncate-start truncate-before-file) ],);

foreach my $case (@cases)
{
	my ($sql, @points) = @$case;

	foreach my $point (@points)
	{
		foreach my $action (qw(error crash))
		{
			my $label = "$sql: $action at $point";

			change();
			$node->safe_psql('postgres', q{SELECT count(*) FROM lsm_flush('t')});
			change();
			make_free() if $sql eq 'VACUUM t';
			like(run_stopped($sql, $point, $action), $action eq 'error' ? qr/stopped at "$point"/ : $lost, $label);
			same_rows($label);
			change();
			same_rows("$label, then changes");
			$node->safe_psql('postgres', $sql);
			same_rows("$label, then done");
		}
	}
}

# A table whose rows are all gone is an empty file, and begins anew.
foreach my $action ('none', 'error', 'crash')
{
	both('DELETE FROM TABLE');
	run_stopped('VACUUM t', 'truncate-before-file', $action) if $action ne 'none';
	same_rows("emptied, $action");
	$node->safe_psql('postgres', 'VACUUM t');
	is(size('t'), 0, "an empty table has an empty file: $action");
	$node->crash_and_start if $action eq 'none';
	same_rows("empty, $action");
	change();
	same_rows("begun anew, $action");
	$node->safe_psql('postgres', 'VACUUM t');
	change();
	same_rows("begun anew and vacuumed, $action");
	$node->crash_and_start;
	same_rows("begun anew and crashed, $action");
}

# The free end goes, and with it most of the file.
make_free();
my $before = size('t');
$node->safe_psql('postgres', 'VACUUM t');
cmp_ok(size('t'), '<', $before / 2, 'VACUUM gives the end of the file back');
same_rows('shortened');
change();
same_rows('shortened, then changes');
$node->crash_and_start;
same_rows('shortened, then a crash');

# Holes: where the first baseline was, with another behind it that must not be moved.
# They wait for a checkpoint.
my $sum_h = q{SELECT count(*), md5(string_agg(id || pad, id::text ORDER BY id)) FROM h};

sub make_holes
{
	my ($of) = @_;

	$of->safe_psql(
		'postgres', q{
		DROP TABLE IF EXISTS h;
		CREATE TABLE h (id int PRIMARY KEY, pad text) USING lsm;
		INSERT INTO h SELECT i, md5(i::text) || md5((-i)::text) || md5((i * 3)::text) || md5((i * 7)::text) FROM generate_series(1, 150000) i;
		SELECT count(*) FROM lsm_flush('h')});
	return;
}

sub free_holes
{
	my ($of) = @_;

	$of->safe_psql('postgres', 'UPDATE h SET pad = md5(pad) || md5(reverse(pad)) || md5(pad || 1) || md5(pad || 2)');
	$of->safe_psql('postgres', 'VACUUM (TRUNCATE off) h');
	return;
}

# VACUUM tells of relfrozenxid if it has changed, as for heap.
my $holder = $node->session('postgres');
$holder->query_safe('BEGIN; CREATE TABLE holder ()');
$node->safe_psql('postgres', 'CREATE TABLE frozen (id int) USING lsm');
$node->safe_psql('postgres', 'INSERT INTO frozen VALUES (1)');
$node->safe_psql('postgres', 'VACUUM frozen');
my (undef, undef, $told) = $node->psql('postgres', 'VACUUM (VERBOSE) frozen');
like($told, qr/removable cutoff/, 'VACUUM reports');
unlike($told, qr/new relfrozenxid/, 'no new relfrozenxid while a transaction holds it');
$holder->query_safe('ROLLBACK');
$holder->quit;
(undef, undef, $told) = $node->psql('postgres', 'VACUUM (VERBOSE) frozen');
like($told, qr/new relfrozenxid: \d+, which is [1-9]\d* XIDs ahead/, 'a new relfrozenxid');
$node->safe_psql('postgres', 'DROP TABLE frozen');

make_holes($node);
free_holes($node);
my $rows = $node->safe_psql('postgres', $sum_h);
my $whole = allocated($node, 'h');
my ($code, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE, TRUNCATE off) h');
my ($holes) = $err =~ /, (\d+) given back as holes/;
is($holes, 0, 'no holes before a checkpoint');
# (What a file takes changes a little when the kernel writes it.)
cmp_ok(allocated($node, 'h'), '>', $whole - 100 * 8192, 'the file takes as much space as before');
$node->safe_psql('postgres', 'CHECKPOINT');
($code, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE, TRUNCATE off) h');
($holes) = $err =~ /, (\d+) given back as holes/;
my $able = $holes > 0;

SKIP:
{
	skip 'the file system has no holes', 2 if !$able;
	cmp_ok($holes, '>', 1000, 'VACUUM tells of holes');
	cmp_ok(allocated($node, 'h'), '<', $whole - 1000 * 8192, 'the file takes less space');
}
is($node->safe_psql('postgres', $sum_h), $rows, 'rows over holes');
$node->check_ok('postgres', 'holes', 'h');
$node->crash_and_start;
is($node->safe_psql('postgres', $sum_h), $rows, 'rows over holes after a crash');
$node->check_ok('postgres', 'holes after a crash', 'h');
free_holes($node);
$rows = $node->safe_psql('postgres', $sum_h);
$node->crash_and_start;
is($node->safe_psql('postgres', $sum_h), $rows, 'rows in holes that are filled again');
$node->check_ok('postgres', 'holes filled again', 'h');

SKIP:
{
	skip 'the file system has no holes', 20 if !$able;
	foreach my $point (qw(punch-taken punch-logged))
	{
		foreach my $action (qw(error crash))
		{
			make_holes($node);
			free_holes($node);
			$rows = $node->safe_psql('postgres', $sum_h);
			$node->safe_psql('postgres', 'CHECKPOINT');
			like(run_stopped('VACUUM (TRUNCATE off) h', $point, $action), $action eq 'error' ? qr/stopped at "$point"/ : $lost, "$action at $point");
			is($node->safe_psql('postgres', $sum_h), $rows, "rows: $action at $point");
			$node->check_ok('postgres', "$action at $point", 'h');
			free_holes($node);
			$rows = $node->safe_psql('postgres', $sum_h);
			$node->crash_and_start;
			is($node->safe_psql('postgres', $sum_h), $rows, "rows: $action at $point, then changes and a crash");
			$node->check_ok('postgres', "$action at $point, then changes and a crash", 'h');
		}
	}
}
$node->stop;

# wal_level = minimal: what is written to the new file is in no WAL.
$node->adjust_conf('postgresql.conf', 'wal_level', 'minimal');
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\n");
foreach my $threshold ('0', '1GB')
{
	$node->append_conf('postgresql.conf', "wal_skip_threshold = '$threshold'\n");
	$node->start;
	change();
	$node->safe_psql('postgres', 'CLUSTER t USING t_k');
	$node->crash_and_start;
	same_rows("wal_level minimal, threshold $threshold");
	change();
	$node->safe_psql('postgres', 'VACUUM FULL t');
	$node->crash_and_start;
	same_rows("VACUUM FULL, wal_level minimal, threshold $threshold");
	$node->stop;
}

#
# A standby, then its promotion, then pg_rewind of the old primary.
#
my $primary = LsmNode->new('primary');

$primary->setup(allows_streaming => 1,
	conf => "autovacuum = off\nwal_consistency_checking = 'all'\nwal_log_hints = on\nwal_keep_size = 512MB\ncheckpoint_timeout = 1d\n");
$primary->safe_psql(
	'postgres', q{
CREATE TABLE s (id int PRIMARY KEY, v int, k int) USING lsm;
CREATE INDEX s_k ON s (k);
INSERT INTO s SELECT i, i, i % 20 FROM generate_series(1, 3000) i;
});
make_holes($primary);
$primary->backup('first');
my $standby = LsmNode->new('standby');

$standby->init_from_backup($primary, 'first', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\n");
$standby->start;

sub same_on_standby
{
	my ($label) = @_;

	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	foreach my $sql (q{SELECT count(*), md5(string_agg(x::text, ',' ORDER BY id)) FROM s x},
		q{SET enable_seqscan = off; SELECT k, count(*), sum(v) FROM s WHERE k >= 0 GROUP BY k ORDER BY k})
	{
		is($standby->safe_psql('postgres', $sql), $primary->safe_psql('postgres', $sql), "standby: $label");
	}
	return;
}

foreach my $sql ('UPDATE s SET v = v + 1 WHERE id % 3 = 0', 'VACUUM FULL s',
	'UPDATE s SET k = k + 1 WHERE id % 5 = 0', 'CLUSTER s USING s_k',
	'BEGIN; DELETE FROM s WHERE id % 7 = 0; UPDATE s SET v = 0 WHERE k = 4; CLUSTER s; UPDATE s SET v = 1 WHERE k = 3; COMMIT',
	'BEGIN; CLUSTER s; DELETE FROM s; ROLLBACK',
	q{INSERT INTO s SELECT i, i, i % 20 FROM generate_series(10001, 40000) i}, q{SELECT count(*) FROM lsm_flush('s')},
	'DELETE FROM s WHERE id > 4000', 'VACUUM s', 'UPDATE s SET v = v + 1')
{
	$primary->safe_psql('postgres', $sql);
	same_on_standby($sql);
}

# A reader there that has seen the table but holds no lock on it any more meets
# it empty, then begun anew, in the same transaction.
my $reader = $standby->session('postgres');
my $count = 'SELECT count(*) FROM s';

$reader->query_safe('BEGIN');
$reader->query_safe('SAVEPOINT a');
cmp_ok($reader->query_safe($count), '>', 0, 'a reader on the standby');
$reader->query_safe('ROLLBACK TO a');
$primary->safe_psql('postgres', 'DELETE FROM s');
$primary->safe_psql('postgres', 'VACUUM s');
is($primary->safe_psql('postgres', q{SELECT pg_relation_size('s')}), 0, 'emptied on the primary');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($standby->safe_psql('postgres', q{SELECT pg_relation_size('s')}), 0, 'and on the standby');
$reader->query_safe('SAVEPOINT b');
is($reader->query_safe($count), '0', 'the reader finds it empty');
$reader->query_safe('ROLLBACK TO b');
$primary->safe_psql('postgres', q{INSERT INTO s SELECT i, i, i % 20 FROM generate_series(1, 500) i; UPDATE s SET v = v + 1});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($reader->query_safe($count), '500', 'and begun anew');
$reader->query_safe('COMMIT');
$reader->quit;
same_on_standby('begun anew');

# The standby is promoted.  The old primary goes on without knowing: it frees what
# the new one still uses, and punches it.  Rewound, it must have all of it again.
my $rows_h = $primary->safe_psql('postgres', $sum_h);

$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$standby->promote;
$standby->safe_psql('postgres', 'CHECKPOINT');
free_holes($primary);
$primary->safe_psql('postgres', 'CHECKPOINT');
($code, $out, $err) = $primary->psql('postgres', 'VACUUM (VERBOSE, TRUNCATE off) h');
($holes) = $err =~ /, (\d+) given back as holes/;
is($holes > 0, $able, 'holes on the old primary');
$primary->stop;
PostgreSQL::Test::Utils::command_ok([ 'pg_rewind', '-D', $primary->data_dir, '--source-server', $standby->connstr('postgres') . ' user=postgres' ], 'pg_rewind');
$primary->append_conf('postgresql.conf', 'port = ' . $primary->port);
$primary->append_conf('postgresql.conf', "primary_conninfo = '" . $standby->connstr . "'");
PostgreSQL::Test::Utils::append_to_file($primary->data_dir . '/standby.signal', '');
$primary->start;
$standby->wait_for_catchup($primary, 'replay', $standby->lsn('insert'));
is($primary->safe_psql('postgres', $sum_h), $rows_h, 'the rewound server has all rows');
is($standby->safe_psql('postgres', $sum_h), $rows_h, 'as the promoted one');
$standby->check_ok('postgres', 'promoted');

done_testing();
