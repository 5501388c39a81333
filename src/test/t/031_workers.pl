# Launcher and workers: tables are flushed and compacted without a call, and
# whoever wants a table or a database for himself never waits for that.
#
# Workers are held by the action "hang" of a stop point, which a database has as a
# setting: it goes on until the worker gives the job up.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use Time::HiRes qw(usleep);

my $node = LsmNode->new('workers');

# The server's own way to cancel what is in the way of DDL comes after
# deadlock_timeout: never, but where a test says so.
$node->setup(conf => q{
autovacuum = off
fsync = off
allow_in_place_tablespaces = on
restart_after_crash = on
deadlock_timeout = 1h
lsm.memtable_size = 4MB
lsm.compaction_workers = 2
lsm.compaction_log_min_duration = 0
});

my $worker_hangs = q{FROM pg_stat_activity WHERE backend_type = 'lsm worker'
	AND query LIKE 'lsm: %' AND wait_event IN ('LsmStop', 'Extension')};

sub wait_hang
{
	$node->wait_until('postgres', "SELECT count(*) > 0 $worker_hangs");
	return;
}

# How often the log has that.
sub log_count
{
	my ($regex) = @_;
	my @found = PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /$regex/g;

	return scalar(@found);
}

sub wait_log
{
	my ($regex, $n) = @_;

	for my $try (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if log_count($regex) >= $n;
		usleep(100_000);
	}
	die "timed out waiting for the log to have: $regex";
}

# A table that needs a major compaction, and gets one.
sub make_work
{
	my ($db, $table) = @_;

	$node->safe_psql($db, qq{
		CREATE TABLE $table (id int PRIMARY KEY, v int) USING lsm;
		INSERT INTO $table SELECT i, 0 FROM generate_series(1, 5000) i;
		SELECT lsm_flush('$table');
		UPDATE $table SET v = 1 WHERE id <= 3000;
		SELECT lsm_flush('$table')});
	return;
}

sub work_is_done
{
	my ($db, $table, $label) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->wait_until($db, "SELECT count(*) = 0 FROM lsm_segments('$table') WHERE kind = 'increment'");
	return is($node->safe_psql($db, "SELECT count(*), sum(v) FROM $table"), '5000|3000', $label);
}

# ---- work is done ----

is($node->safe_psql('postgres', q{
	SELECT count(*), count(datname) FROM pg_stat_activity WHERE backend_type = 'lsm launcher'}),
	'1|0', 'one launcher, connected to no database');
$node->wait_until('postgres', q{SELECT wait_event_type = 'Extension' AND wait_event =
	CASE WHEN current_setting('server_version_num')::int < 170000 THEN 'Extension' ELSE 'LsmLauncherMain' END
	FROM pg_stat_activity WHERE backend_type = 'lsm launcher'});
pass('which shows that it waits');

# settings that would keep a session from working
$node->safe_psql('postgres', q{
	CREATE DATABASE work;
	ALTER DATABASE work SET lock_timeout = '1ms';
	ALTER DATABASE work SET default_transaction_isolation = 'repeatable read'});
$node->safe_psql('work', q{
	CREATE EXTENSION lsm;
	CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm;
	CREATE INDEX t_v ON t ((v + id)) WHERE v > 0;
	INSERT INTO t SELECT i, 0 FROM generate_series(1, 20000) i});
foreach my $round (1 .. 200)
{
	last if log_count(qr/LOG:  lsm: flush of public\.t:/);
	$node->safe_psql('work', 'UPDATE t SET v = v + 1 WHERE id <= 1000');
}
cmp_ok(log_count(qr/LOG:  lsm: flush of public\.t:/), '>', 0, 'a worker flushes a memtable that is not full');
make_work('work', 'major');
work_is_done('work', 'major', 'a worker runs a major compaction');
cmp_ok(log_count(qr/LOG:  lsm: major compaction of public\.major:/), '>', 0, 'and says so in the log');

# while somebody sees the old versions, increments can only be merged
my $snapshot = $node->session('work');
$node->safe_psql('work', q{
	CREATE TABLE minor (id int, v int) USING lsm;
	INSERT INTO minor SELECT i, 0 FROM generate_series(1, 2000) i;
	SELECT lsm_flush('minor')});
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$snapshot->query_safe('SELECT count(*) FROM minor');
$node->safe_psql('work', "UPDATE minor SET v = v + 1; SELECT lsm_flush('minor')") foreach (1 .. 4);
wait_log(qr/LOG:  lsm: minor compaction of public\.minor:/, 1);
$node->wait_until('work', q{SELECT count(*) < 4 FROM lsm_segments('minor') WHERE kind = 'increment'});
is($snapshot->query_safe('SELECT sum(v) FROM minor'), '0', 'the old snapshot sees its versions');
$node->safe_psql('work', q{
	CREATE TABLE inserted (id int) USING lsm;
	INSERT INTO inserted VALUES (1);
	SELECT lsm_flush('inserted')});
is($node->safe_psql('work', q{SELECT kind FROM lsm_segments('inserted')}), 'insert',
	'and keeps new rows from being seen by all');
$snapshot->query_safe('COMMIT');
$snapshot->quit;

# nobody asks, but the table is looked at again
$node->wait_until('work', q{SELECT count(*) = 0 FROM lsm_segments('minor') WHERE kind = 'increment'});
is($node->safe_psql('work', 'SELECT sum(v) FROM minor'), '8000', 'what only the snapshot held back is done when it has gone');
$node->wait_until('work', q{SELECT kind = 'baseline' FROM lsm_segments('inserted')});
pass('and new rows are noted to be visible to all');

# a small table whose changed rows are read again and again: its memtable would not be
# half full for long
$node->safe_psql('work', q{
	CREATE TABLE passed (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO passed SELECT i, 0 FROM generate_series(1, 1000) i;
	UPDATE passed SET v = 1});
foreach my $round (1 .. 200)
{
	last if log_count(qr/LOG:  lsm: flush of public\.passed:/);
	$node->safe_psql('work', q{
		SELECT sum(v) FROM passed;
		SELECT sum(v) FROM passed;
		SET enable_seqscan = off;
		SELECT v FROM passed WHERE id = 1});
}
cmp_ok(log_count(qr/LOG:  lsm: flush of public\.passed:/), '>', 0, 'a memtable is flushed when reads suffer from it');

# tables that are to be left alone
$node->safe_psql('work', q{
	CREATE TABLE alone (id int PRIMARY KEY, v int) USING lsm WITH (lsm.auto_compact = off);
	INSERT INTO alone SELECT i, 0 FROM generate_series(1, 5000) i;
	SELECT lsm_flush('alone');
	UPDATE alone SET v = 1;
	SELECT lsm_flush('alone')});
make_work('work', 'after_alone');
work_is_done('work', 'after_alone', 'another table is compacted');
is($node->safe_psql('work', q{SELECT count(*) FROM lsm_segments('alone') WHERE kind = 'increment'}),
	'1', 'one with lsm.auto_compact = off is not');
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
pass('workers leave when there is nothing to do');
$node->check_ok('work', 'after work');

# what was left when the server stopped, or nobody could do
$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.compaction_workers = 0');
$node->reload;
$node->wait_until('work', q{SELECT current_setting('lsm.compaction_workers') = '0'});
make_work('work', 'remaining');
is($node->safe_psql('work', q{SELECT count(*) FROM lsm_segments('remaining') WHERE kind = 'increment'}), '1',
	'work is left without workers');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET lsm.compaction_workers');
$node->restart;
work_is_done('work', 'remaining', 'it is found after a restart');

# ---- DDL on the table ----

$node->safe_psql('postgres', q{
	CREATE DATABASE held;
	ALTER DATABASE held SET lsm.debug_stop = 'seg-write-page:hang'});
my $no_stop = "SET lsm.debug_stop = '';";

sub held_psql
{
	my ($sql) = @_;

	return $node->safe_psql('held', "$no_stop $sql");
}

sub held_work
{
	my ($table) = @_;

	held_psql(qq{
		CREATE TABLE $table (id int PRIMARY KEY, v int) USING lsm;
		CREATE INDEX ${table}_i ON $table (id);
		INSERT INTO $table SELECT i, 0 FROM generate_series(1, 5000) i;
		SELECT lsm_flush('$table');
		UPDATE $table SET v = 1 WHERE id <= 3000;
		SELECT lsm_flush('$table')});
	return;
}

held_psql('CREATE EXTENSION lsm');
foreach my $ddl (
	'ALTER TABLE t ADD COLUMN c int DEFAULT 7',
	'BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; COMMIT',
	'ALTER TABLE t RENAME TO t2; ALTER TABLE t2 RENAME TO t',
	'CREATE INDEX CONCURRENTLY t_v ON t (v)',
	'DROP INDEX CONCURRENTLY t_i',
	'REINDEX INDEX CONCURRENTLY t_i',
	'REINDEX TABLE CONCURRENTLY t',
	'ALTER TABLE t DROP CONSTRAINT t_pkey',
	'TRUNCATE t; INSERT INTO t SELECT i, 1 FROM generate_series(1, 3000) i; INSERT INTO t SELECT i, 0 FROM generate_series(3001, 5000) i',
	'VACUUM FULL t')
{
	held_work('t');
	wait_hang();
	is($node->psql('held', "$no_stop SET lock_timeout = '10s'; $ddl"), 0, "while a worker is in a job: $ddl");
	is(held_psql('SELECT count(*), sum(v) FROM t'), '5000|3000', 'the rows are as they were');
	held_psql('DROP TABLE t');
}

# who waits for a job of its kind waits for its end, and does not cancel it
$node->safe_psql('postgres', "ALTER DATABASE held SET lsm.debug_stop = 'major-before-swap:wait'");
my $locker = $node->session('held');
my $waiter = $node->session('held');

$locker->query_safe('SELECT pg_advisory_lock(7107437)');
held_work('t');
$node->wait_until('postgres', q{SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE a.backend_type = 'lsm worker' AND l.locktype = 'advisory' AND NOT l.granted});
$waiter->query_safe("$no_stop SET deadlock_timeout = '10ms'; SET log_lock_waits = on");
$node->start_query($waiter, "SELECT segments_in FROM lsm_major_compact('t')");
wait_log(qr/LOG:  process \d+ still waiting for ExclusiveLock on object/, 1);
$locker->quit;
is(($node->finish_query($waiter))[0], '0', 'a major compaction waits for one by a worker, which leaves nothing to do');
$waiter->quit;
is(held_psql('SELECT count(*), sum(v) FROM t'), '5000|3000', 'the rows are as they were');
$node->check_ok('held', 'after DDL');

# ---- DDL on the database ----

$node->safe_psql('postgres', q{
	ALTER DATABASE held SET lsm.debug_stop = 'major-before-swap:hang';
	CREATE TABLESPACE ts LOCATION ''});
held_work('u');
foreach my $ddl (
	'CREATE DATABASE copy TEMPLATE held',
	'ALTER DATABASE held SET TABLESPACE ts',
	'ALTER DATABASE held RENAME TO held2; ALTER DATABASE held2 RENAME TO held')
{
	wait_hang();
	my ($status, $out, $err) = $node->psql('postgres', $ddl, on_error_stop => 1);

	is("$status$err", '0', "while a worker is in a job: $ddl");
}

# an owner who may not signal others
$node->safe_psql('postgres', 'CREATE ROLE dropper; ALTER DATABASE held OWNER TO dropper');
wait_hang();
like(($node->psql('postgres', 'SET ROLE dropper; DROP DATABASE held WITH (FORCE)'))[2], qr/ERROR:  .*terminat/, 'while a worker is in a job: DROP DATABASE ... WITH (FORCE) by its owner');
wait_hang();
is($node->psql('postgres', 'SET ROLE dropper; DROP DATABASE held', on_error_stop => 1), 0, 'while a worker is in a job: DROP DATABASE by its owner');
is($node->safe_psql('copy', 'SELECT count(*), sum(v) FROM u'), '5000|3000', 'rows of the copy');
$node->check_ok('copy', 'the copy');
$node->safe_psql('postgres', 'DROP DATABASE copy');

# ---- an error of one table ----

$node->safe_psql('postgres', 'CREATE DATABASE broken');
$node->safe_psql('broken', q{
	CREATE EXTENSION lsm;
	CREATE TABLE bad (id int PRIMARY KEY, v int) USING lsm WITH (lsm.auto_compact = off);
	INSERT INTO bad SELECT i, 0 FROM generate_series(1, 5000) i;
	SELECT lsm_flush('bad');
	UPDATE bad SET v = 1 WHERE id <= 3000;
	SELECT lsm_flush('bad')});
my $file = $node->data_dir . '/' . $node->safe_psql('broken', "SELECT pg_relation_filepath('bad')");
my $checksums = $node->safe_psql('postgres', 'SHOW data_checksums');

$node->stop;
PostgreSQL::Test::Utils::system_or_bail('pg_checksums', '--disable', '-D', $node->data_dir)
  if $checksums eq 'on';
{
	open(my $in, '+<:raw', $file) or die "$file: $!";
	my $bytes = do { local $/; <$in> };
	my $damaged = 0;

	# pages of segments (src/FORMAT.md), in the middle
	for (my $at = 0; $at < length($bytes); $at += 8192)
	{
		next unless unpack('v', substr($bytes, $at + 8192 - 24 + 16, 2)) == 0x4C05;
		substr($bytes, $at + 24, 64) = "\xA5" x 64;
		$damaged++;
	}
	seek($in, 0, 0);
	print $in $bytes;
	close($in) or die "$file: $!";
	cmp_ok($damaged, '>', 0, 'segments are damaged');
}
$node->append_conf('postgresql.conf', 'lsm.compaction_workers = 1');
$node->start;
$node->safe_psql('broken', 'ALTER TABLE bad SET (lsm.auto_compact = on)');
$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.compaction_naptime = 1');
$node->reload;
wait_log(qr/CONTEXT:  lsm: major compaction of public\.bad/, 1);
make_work('broken', 'good');
work_is_done('broken', 'good', 'other tables are compacted by the same worker');
wait_log(qr/CONTEXT:  lsm: major compaction of public\.bad/, 3);
$node->wait_until('broken', q{SELECT errors >= 3 AND failures >= 3 AND last_error_code = 'XX001' AND last_error <> ''
	AND next_try BETWEEN last_error_time AND last_error_time + interval '75 min' FROM lsm_stat_tables WHERE relname = 'bad'});
pass('the failing table is tried again, and statistics tell when');
is($node->safe_psql('broken', q{SELECT errors, failures, next_try FROM lsm_stat_tables WHERE relname = 'good'}), '0|0|', 'of another there is nothing to tell');
$node->safe_psql('broken', 'TRUNCATE bad');
$node->wait_until('broken', q{SELECT failures = 0 AND next_try IS NULL FROM lsm_stat_tables WHERE relname = 'bad'});
is($node->safe_psql('broken', q{SELECT errors >= 3, last_error_code FROM lsm_stat_tables WHERE relname = 'bad'}), 't|XX001', 'when it is sound again, the last error is still known');
$node->safe_psql('broken', 'DROP TABLE bad');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET lsm.compaction_naptime');
$node->append_conf('postgresql.conf', 'lsm.compaction_workers = 2');
$node->reload;
$node->check_ok('broken', 'the other table');

# ---- a kind of job that fails ----

$node->safe_psql('postgres', q{
	CREATE DATABASE fails;
	ALTER DATABASE fails SET lsm.debug_stop = 'major-before-swap:error'});

sub fails_psql
{
	my ($sql) = @_;

	return $node->safe_psql('fails', "$no_stop $sql");
}

fails_psql(q{
	CREATE EXTENSION lsm;
	CREATE FUNCTION lsm_test_rest(regclass, int) RETURNS void LANGUAGE C STRICT AS '$libdir/lsm';
	CREATE TABLE half (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO half SELECT i, 0 FROM generate_series(1, 1000) i;
	SELECT lsm_flush('half')});
fails_psql("UPDATE half SET v = v + 1; SELECT lsm_flush('half')") foreach (1 .. 20);
wait_log(qr/CONTEXT:  lsm: major compaction of public\.half/, 1);
$node->wait_until('fails', q{SELECT count(*) < 8 FROM lsm_segments('half') WHERE kind = 'increment'});
pass('increments of a table whose majors fail are merged');

# while they rest, what is asked for is done
fails_psql(q{
	CREATE TABLE rests (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO rests SELECT i, 0 FROM generate_series(1, 20000) i;
	SELECT lsm_test_rest('rests', 15)});
foreach my $round (1 .. 200)
{
	last if log_count(qr/LOG:  lsm: flush of public\.rests:/);
	fails_psql("UPDATE rests SET v = v + 1 WHERE id % 20 = $round % 20");
}
cmp_ok(log_count(qr/LOG:  lsm: flush of public\.rests:/), '>', 0, 'a memtable is flushed though the majors of its table rest');
fails_psql("UPDATE rests SET v = v + 1 WHERE id <= 10000; SELECT lsm_flush('rests')") foreach (1 .. 2);
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND datname = 'fails'});
is(log_count(qr/CONTEXT:  lsm: major compaction of public\.rests/), 0, 'and no major is tried');
$node->check_ok('fails', 'a table whose majors fail');
$node->safe_psql('postgres', 'DROP DATABASE fails');

# ---- workers that are ended ----

$node->safe_psql('postgres', q{
	CREATE DATABASE ended;
	ALTER DATABASE ended SET lsm.debug_stop = 'major-before-swap:hang'});
$node->safe_psql('ended', "$no_stop CREATE EXTENSION lsm");
make_work('ended', 't');

# autovacuum leaves a compaction to the worker that is at it
wait_hang();
$node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum_naptime = 1; ALTER SYSTEM SET autovacuum = on');
$node->safe_psql('ended', 'ALTER TABLE t SET (autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)');
$node->reload;
$node->wait_until('ended', q{SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 't'});
pass('autovacuum does not wait for a worker');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET autovacuum');
$node->reload;
foreach my $function ('pg_cancel_backend', 'pg_terminate_backend', 'pg_cancel_backend')
{
	wait_hang();
	is($node->safe_psql('postgres', "SELECT bool_and($function(pid)) $worker_hangs"), 't', "$function(worker)");
	is($node->safe_psql('ended', "$no_stop SELECT count(*) FROM t WHERE v = 1"), '3000', 'rows are there');
}
wait_hang();
my $launcher = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'lsm launcher'});
$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
$node->wait_until('postgres', qq{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'lsm launcher' AND pid <> $launcher});

# of two workers one is in a major compaction; the other does not begin another
make_work('postgres', 'next');
$node->safe_psql('postgres', 'CREATE TABLE fresh (id int, v int) USING lsm; INSERT INTO fresh SELECT i, 0 FROM generate_series(1, 20000) i');
foreach my $round (1 .. 200)
{
	last if log_count(qr/LOG:  lsm: flush of public\.fresh:/);
	$node->safe_psql('postgres', "UPDATE fresh SET v = v + 1 WHERE id % 20 = $round % 20");
}
cmp_ok(log_count(qr/LOG:  lsm: flush of public\.fresh:/), '>', 0, 'a new launcher has a memtable flushed while a major compaction runs');
is(log_count(qr/LOG:  lsm: major compaction of public\.next:/), 0, 'a second one waits for its turn');

# nor do increments come to lie over each other where a major would be worth more
$node->safe_psql('postgres', q{
	CREATE TABLE hot (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO hot SELECT i, 0 FROM generate_series(1, 1000) i;
	SELECT lsm_flush('hot')});
$node->safe_psql('postgres', "UPDATE hot SET v = v + 1; SELECT lsm_flush('hot')") foreach (1 .. 20);
$node->wait_until('postgres', q{SELECT count(*) < 8 FROM lsm_segments('hot') WHERE kind = 'increment'});
is(log_count(qr/LOG:  lsm: major compaction of public\.hot:/), 0, 'increments of a table that has no turn for a major are merged');
wait_hang();
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $worker_hangs");
work_is_done('postgres', 'next', 'and gets it');
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM lsm_segments('hot') WHERE kind = 'increment'});
is($node->safe_psql('postgres', 'SELECT sum(v) FROM hot'), '20000', 'and so does the other table');

wait_hang();
my $pid = $node->safe_psql('postgres', "SELECT pid $worker_hangs");
like($node->psql_until_crash('postgres', "COPY (SELECT 1) TO PROGRAM 'kill -9 $pid'; SELECT pg_sleep(600)"),
	qr/terminat/, 'a killed worker restarts the server');
wait_hang();
is($node->safe_psql('ended', "$no_stop SELECT count(*), sum(v) FROM t"), '5000|3000', 'rows after the crash');
$node->safe_psql('postgres', 'ALTER DATABASE ended RESET lsm.debug_stop');
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $worker_hangs");
work_is_done('ended', 't', 'work is resumed');
$node->check_ok('ended', 'at the end');

# ---- standby, pg_upgrade ----

$node->backup('base');
my $standby = LsmNode->new('standby');

$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
make_work('work', 'replayed');
work_is_done('work', 'replayed', 'work on the primary');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('work', "SELECT count(*) FROM lsm_segments('replayed') WHERE kind = 'increment'"), '0', 'is replayed');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'lsm%'}), '0',
	'a standby has no launcher');
$node->stop;
$standby->promote;
$standby->wait_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'lsm launcher'});
$standby->safe_psql('work', q{
	UPDATE replayed SET v = 2;
	SELECT lsm_flush('replayed')});
$standby->wait_until('work', q{SELECT count(*) = 0 FROM lsm_segments('replayed') WHERE kind = 'increment'});
is($standby->safe_psql('work', 'SELECT sum(v) FROM replayed'), '10000', 'work is done after promotion');
$standby->check_ok('work', 'after promotion');
$standby->stop;

$node->append_conf('postgresql.conf', 'log_min_messages = debug1');
$node->start;
wait_log(qr/DEBUG:  registering background worker "lsm launcher"/, 1);
$node->stop;
my $log_before = -s $node->logfile;
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, '-o', '-b', 'start');
is($node->safe_psql('work', 'SELECT count(*) > 0 FROM t'), 't', 'the server runs for pg_upgrade');
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-w', '-D', $node->data_dir, 'stop');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $log_before), qr/registering background worker "lsm launcher"/,
	'it has no launcher then');
done_testing();
