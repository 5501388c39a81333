# Snapshots of a standby for which the primary has removed, frozen or marked
# something: they are cancelled rather than answered wrongly, and with feedback
# the primary waits for them.  Sessions that opened a table while it was empty, or
# before it was made anew, go on with what replay brings.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $primary = LsmNode->new('primary');

$primary->setup(conf => "autovacuum = off\n");
$primary->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO t SELECT i, 0 FROM generate_series(1, 500) i;
CREATE TABLE empty (id int PRIMARY KEY, v int) USING lsm;
});
$primary->backup('base');

my $standby = LsmNode->new('standby');

$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf',
	"max_standby_streaming_delay = 0\nhot_standby_feedback = off\nwal_receiver_status_interval = 1\n");
$standby->start;

sub catch_up
{
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

# Runs each statement by itself: VACUUM must not be in a transaction.
sub on_primary
{
	$primary->safe_psql('postgres', $_) foreach @_;
	return;
}

# An unlogged table has no file there: it says so, and does not hide the others.
on_primary('CREATE UNLOGGED TABLE un (id int PRIMARY KEY) USING lsm', 'INSERT INTO un VALUES (1)');
catch_up();
is($standby->safe_psql('postgres', 'SELECT relname, increments, memtable_bytes > 0 FROM lsm_stat_tables ORDER BY relname'),
	"empty|0|f\nt|0|t\nun||", 'lsm_stat_tables with an unlogged table');
foreach my $query ('lsm_segments', 'lsm_check')
{
	my ($code, $out, $err) = $standby->psql('postgres', "SELECT * FROM $query('un')");

	like($err, qr/cannot access temporary or unlogged relations during recovery/, "$query of an unlogged table");
}
on_primary('DROP TABLE un');

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $conflict = qr/due to conflict with recovery/;

# An old snapshot on the standby, then the primary's changes: what the session
# gets for its query is the old answer or nothing, never a new answer.
sub old_snapshot
{
	my ($label, $query, $must_cancel, @changes) = @_;
	my $session = $standby->session('postgres');
	my $log_start = -s $standby->logfile;
	my ($old, $answer, $cancelled);

	$session->query_safe("$by_index BEGIN ISOLATION LEVEL REPEATABLE READ");
	$old = $session->query_safe($query);
	on_primary(@changes);
	catch_up();

	# psql ends where the server has ended the session
	$answer = eval { $session->query($query) };
	$cancelled = $standby->log_contains($conflict, $log_start);
	if ($must_cancel)
	{
		ok($cancelled, "$label: cancelled");
	}
	else
	{
		ok($cancelled || $answer eq $old, "$label: the old answer or none")
		  or diag("before: $old, after: $answer");
	}
	eval { $session->quit };
	is($standby->safe_psql('postgres', "$by_index $query"),
		$primary->safe_psql('postgres', "$by_index $query"), "$label: the standby has the new answer");
	return;
}

my $sums = 'SELECT count(*), sum(v) FROM t';

old_snapshot('rows removed by VACUUM', $sums, 1, 'DELETE FROM t WHERE id <= 100', 'VACUUM t');
old_snapshot('versions settled by compaction', $sums, 1,
	'UPDATE t SET v = v + 1', q{SELECT lsm_flush('t')}, 'UPDATE t SET v = v + 1',
	q{SELECT lsm_flush('t')}, q{SELECT lsm_major_compact('t')});
old_snapshot('versions that a minor compaction dropped', $sums, 1,
	'UPDATE t SET v = v + 1', q{SELECT lsm_flush('t')}, 'UPDATE t SET v = v + 1',
	q{SELECT lsm_flush('t')}, q{SELECT lsm_minor_compact('t')});
old_snapshot('rows marked as visible to all', 'SELECT count(id) FROM t WHERE id > 0', 0,
	'INSERT INTO t SELECT i, 0 FROM generate_series(1001, 2000) i', 'VACUUM t');
old_snapshot('changes that remove nothing', $sums, 0, 'UPDATE t SET v = v + 1 WHERE id < 300');

# A table that is made anew without any row.  The session has not looked at it before, or the lock
# of who makes it anew would be what cancels it.
foreach my $rewrite ('VACUUM FULL emptied', 'CLUSTER emptied USING emptied_pkey')
{
	on_primary('CREATE TABLE emptied (id int PRIMARY KEY, v int) USING lsm',
		'INSERT INTO emptied SELECT i, 0 FROM generate_series(1, 500) i');
	catch_up();

	my $session = $standby->session('postgres');
	my $log_start = -s $standby->logfile;

	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM empty');
	on_primary('DELETE FROM emptied', $rewrite);
	catch_up();

	my $answer = eval { $session->query('SELECT count(*) FROM emptied') };

	ok($standby->log_contains($conflict, $log_start) || $answer eq '500', "$rewrite: all rows or none of the answer")
	  or diag("after: $answer");
	eval { $session->quit };
	on_primary('DROP TABLE emptied');
}

# With feedback nothing is removed that the standby's snapshot sees.
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = -1\n");
$standby->reload;
{
	my $session = $standby->session('postgres');

	$session->query_safe("$by_index BEGIN ISOLATION LEVEL REPEATABLE READ");
	my $old = $session->query_safe($sums);

	$primary->wait_until('postgres', 'SELECT count(*) > 0 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL');
	on_primary('DELETE FROM t WHERE id % 2 = 0', 'UPDATE t SET v = v + 7', 'VACUUM t', q{SELECT lsm_major_compact('t')});
	catch_up();
	is($session->query_safe($sums), $old, 'with feedback the old answer stays');
	is($primary->safe_psql('postgres',
			"SELECT pinned_by, backend_type FROM lsm_stat_tables JOIN pg_stat_activity ON pid = pinned_pid WHERE relname = 't'"),
		'snapshot|walsender', 'statistics tell who keeps it');
	is($standby->safe_psql('postgres',
			"SELECT rows_read > 0, increments IS NOT NULL, pinned_by, flushes FROM lsm_stat_tables WHERE relname = 't'"),
		't|t||0', 'a standby counts what is read there');
	foreach my $function ('lsm_flush', 'lsm_minor_compact', 'lsm_major_compact')
	{
		like(($standby->psql('postgres', "SELECT $function('t')"))[2], qr/ERROR:  cannot execute $function\(\) during recovery/,
			"and does not run $function()");
	}
	$session->query_safe('COMMIT');
	is($session->query_safe($sums), $primary->safe_psql('postgres', $sums), 'and then the new one comes');
	$session->quit;
}

# Nor are pages of large values freed that a flush retires, though no xid has been assigned since the
# snapshot was taken, and nobody on the primary has one.
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 0\n");
$standby->reload;
{
	on_primary('CREATE TABLE large (id int PRIMARY KEY, b text) USING lsm', 'ALTER TABLE large ALTER b SET STORAGE EXTERNAL',
		q{INSERT INTO large SELECT i, (SELECT string_agg(md5((i * 1000 + k)::text), '') FROM generate_series(1, 600) k) FROM generate_series(1, 50) i},
		q{UPDATE large SET b = b || 'x' WHERE id % 3 = 0});
	catch_up();

	my $session = $standby->session('postgres');

	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $old = $session->query_safe($sums);

	$primary->wait_until('postgres', 'SELECT count(*) > 0 FROM pg_stat_replication WHERE backend_xmin::text = pg_snapshot_xmax(pg_current_snapshot())::text');
	on_primary(('VACUUM large') x 3);
	catch_up();
	my ($answer) = $session->query($sums);

	is($answer, $old, 'with feedback a snapshot stays that nobody has changed anything since');
	$session->query_safe('COMMIT');
	$session->quit;
}

# A file that is empty, then has rows; then another file.
{
	my $session = $standby->session('postgres');

	is($session->query_safe('SELECT count(*) FROM empty'), '0', 'an empty table on the standby');
	on_primary('INSERT INTO empty SELECT i, i FROM generate_series(1, 10) i');
	catch_up();
	is($session->query_safe('SELECT count(*), sum(v) FROM empty'), '10|55', 'its first rows');
	on_primary(q{SELECT lsm_flush('empty')}, 'UPDATE empty SET v = v + 1', 'TRUNCATE empty',
		'INSERT INTO empty VALUES (1, 1)');
	catch_up();
	is($session->query_safe('SELECT count(*), sum(v) FROM empty'), '1|1', 'rows of its next file');
	on_primary('BEGIN; TRUNCATE empty; INSERT INTO empty VALUES (7, 7); ROLLBACK');
	catch_up();
	is($session->query_safe('SELECT count(*), sum(v) FROM empty'), '1|1', 'a TRUNCATE that was rolled back');
	$session->quit;
}

$standby->promote;

# A standby that has gone keeps nothing: pages are freed again though no xid comes.
$primary->wait_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_replication');
on_primary(q{CREATE FUNCTION lsm_test_entries(regclass) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm'},
	q{UPDATE large SET b = b || 'y' WHERE id % 3 = 0}, ('VACUUM large') x 3);
my $entries = $primary->safe_psql('postgres', q{SELECT lsm_test_entries('large')});

on_primary('SELECT txid_current()', ('VACUUM large') x 2);
is($primary->safe_psql('postgres', q{SELECT lsm_test_entries('large')}), $entries, 'nothing waits for a standby that has gone');
$standby->check_ok('postgres', 'after promotion');
$standby->safe_psql('postgres', 'INSERT INTO empty VALUES (2, 2); UPDATE t SET v = 0; VACUUM t');
$standby->check_ok('postgres', 'after changes');
$standby->stop('fast');
$primary->stop('fast');
done_testing();
