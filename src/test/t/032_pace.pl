# Compactions by workers keep to lsm.compaction_rate_limit and are in nobody's way while
# they wait; writers become slower while a flush runs, long before they have to wait
# for it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use Time::HiRes qw(time);

my $node = LsmNode->new('pace');

$node->setup(conf => q{
autovacuum = off
fsync = off
deadlock_timeout = 1h
lsm.memtable_size = 4MB
lsm.segment_size = 1MB
lsm.compaction_workers = 2
lsm.compaction_rate_limit = 1kB
lsm.compaction_log_min_duration = 0
});

my $waits = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'
	AND query LIKE 'lsm: major compaction of public.t' AND wait_event IN ('LsmCompactionRateLimit', 'Extension')};

# more than a megabyte has to be written before there is a pause
$node->safe_psql('postgres', q{
	CREATE ROLE keeper;
	CREATE ROLE stranger;
	CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm;
	ALTER TABLE t OWNER TO keeper;
	INSERT INTO t SELECT i, 0, md5(i::text) || md5((-i)::text) || md5(i || 'x') || md5(i || 'y') FROM generate_series(1, 60000) i;
	SELECT lsm_flush('t')});
$node->safe_psql('postgres', "UPDATE t SET v = 1, pad = reverse(pad) WHERE id BETWEEN $_ * 1000 + 1 AND $_ * 1000 + 600") foreach (0 .. 59);
$node->safe_psql('postgres', "SELECT lsm_flush('t')");
$node->wait_until('postgres', $waits);
pass('a compaction waits for its time');

# whose table it is sees it
is($node->safe_psql('postgres', q{SET ROLE keeper; SELECT relid::regclass FROM lsm_stat_progress_compaction WHERE job = 'major compaction'}),
	't', q{the table's owner sees the job of a worker});
is($node->safe_psql('postgres', q{SET ROLE stranger; SELECT count(*) > 0, count(relid), count(job) FROM lsm_stat_progress_compaction}),
	't|0|0', 'others see that there is one');

# a minor that would wait as long does not take the other worker, which so is there for flushes
$node->safe_psql('postgres', q{
	CREATE TABLE m (id int PRIMARY KEY, v int, pad text) USING lsm;
	INSERT INTO m SELECT i, 0, md5(i::text) || md5(i || 'm') FROM generate_series(1, 30000) i;
	SELECT lsm_flush('m');
	CREATE TABLE f (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO f SELECT i, 0 FROM generate_series(1, 40000) i;
	SELECT lsm_flush('f')});
$node->safe_psql('postgres', "UPDATE m SET v = $_, pad = md5(id || 'a$_') || md5(id || 'b$_'); SELECT lsm_flush('m')") foreach (1 .. 8);
my $log = -s $node->logfile;
foreach my $round (0 .. 199)
{
	last if PostgreSQL::Test::Utils::slurp_file($node->logfile, $log) =~ /lsm: flush of public\.f:/;
	$node->safe_psql('postgres', "UPDATE f SET v = v + 1 WHERE id BETWEEN $round * 200 + 1 AND $round * 200 + 200");
}
$node->wait_for_log(qr/lsm: flush of public\.f:/, $log);
pass('a worker flushes while others wait for their time');
$node->safe_psql('postgres', 'DROP TABLE m, f');

# others go on
is($node->safe_psql('postgres', q{UPDATE t SET v = 2 WHERE id = 1; SELECT count(*) FROM lsm_flush('t')}), '1', 'a call of lsm_flush()');
is($node->safe_psql('postgres', q{SET lock_timeout = '60s'; ALTER TABLE t ADD COLUMN c int DEFAULT 7; SELECT sum(c) FROM t}),
	'420000', 'ALTER TABLE');
$node->wait_until('postgres', $waits);
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'), '60000|36001', 'rows while it waits again');

# what has been waited for at one rate does not count at another
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.compaction_rate_limit = 0; SELECT pg_reload_conf()});
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM lsm_segments('t') WHERE kind = 'increment'});
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'), '60000|36001', 'rows when it is done');
$node->check_ok('postgres', 'after the limit');

# All workers together keep to it: what two write takes as long as it does at that rate, at least.
# (Each may write a megabyte or so before its first pause.)
sub set_workers
{
	my ($n, $rate) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET lsm.compaction_workers = $n");
	$node->safe_psql('postgres', "ALTER SYSTEM SET lsm.compaction_rate_limit = '$rate'");
	$node->reload;
	return;
}

set_workers(3, '1MB');
foreach my $table ('a', 'b')
{
	$node->safe_psql('postgres', qq{
		CREATE TABLE $table (id int PRIMARY KEY, v int, pad text) USING lsm WITH (lsm.auto_compact = off);
		INSERT INTO $table SELECT id, v, pad FROM t;
		SELECT lsm_flush('$table');
		UPDATE $table SET v = 1, pad = reverse(pad) WHERE id % 1000 <= 600;
		SELECT lsm_flush('$table')});
}
my $written = q{SELECT sum(minor_bytes_written + major_bytes_written) FROM lsm_stat_tables WHERE relname IN ('a', 'b')};
my $before = $node->safe_psql('postgres', $written);
my $start = time;

$node->safe_psql('postgres', "ALTER TABLE $_ RESET (lsm.auto_compact); UPDATE $_ SET v = 2 WHERE id = 1; SELECT lsm_flush('$_')") foreach ('a', 'b');
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM (SELECT kind, rows FROM lsm_segments('a') UNION ALL SELECT kind, rows FROM lsm_segments('b')) s WHERE kind = 'increment' AND rows > 1});
my $took = time - $start;
my $megabytes = ($node->safe_psql('postgres', $written) - $before) / 1048576;

cmp_ok($megabytes, '>', 5, 'two workers write something');
cmp_ok($took, '>=', $megabytes - 3, 'and take their time');

# many small ones keep to it, too, though none writes a megabyte: one worker finds them all
set_workers(0, 0);
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
foreach my $table (map { "small$_" } (1 .. 12))
{
	$node->safe_psql('postgres', qq{
		CREATE TABLE $table (id int PRIMARY KEY, v int, pad text) USING lsm;
		INSERT INTO $table SELECT id, v, pad FROM t WHERE id <= 4000;
		SELECT lsm_flush('$table');
		UPDATE $table SET v = 1, pad = reverse(pad);
		SELECT lsm_flush('$table')});
}
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.compaction_naptime = 1});
set_workers(1, '1kB');
$node->wait_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'
	AND query LIKE 'lsm: % compaction of public.small%' AND wait_event IN ('LsmCompactionRateLimit', 'Extension')});
pass('small compactions wait for their time');

# VACUUM leaves a worker what it is at
my $small = $node->safe_psql('postgres', 'SELECT relid::regclass FROM lsm_stat_progress_compaction');
my (undef, undef, $said) = $node->psql('postgres', "VACUUM (VERBOSE) $small");

like($said, qr/^increments: [1-9]\d* remain with 4000 records, of which 0 end rows: the workers have them$/m,
	'VACUUM does not wait for one, and says who has what is left');

# who waits for such a job does not wait for its time
is($node->safe_psql('postgres', "SET statement_timeout = '100s'; SELECT count(*) FROM lsm_check('$small')"), '0', 'a call waits only for the work');
set_workers(2, 0);

# ---- writers ----

$node->safe_psql('postgres', q{
	CREATE DATABASE slow;
	ALTER DATABASE slow SET lsm.debug_stop = 'flush-before-swap:wait'});
$node->safe_psql('slow', q{
	CREATE EXTENSION lsm;
	CREATE TABLE s (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO s SELECT i, 0 FROM generate_series(1, 100000) i});

my $holder = $node->session('slow');
$holder->query_safe('SELECT pg_advisory_lock(7107437)');
my $stalls = q{SELECT stalls > 0 AND stall_time > 0 AND longest_stall < 1000 FROM lsm_stat_tables WHERE relname = 's'};
my $updated = 0;

# a worker's flush stands still; the next generation gets fuller, but not full
foreach my $round (1 .. 400)
{
	last if $node->safe_psql('slow', $stalls) eq 't';
	$node->safe_psql('slow', "UPDATE s SET v = v + 1 WHERE id BETWEEN $round * 200 AND $round * 200 + 199");
	$updated += 200;
}
is($node->safe_psql('slow', $stalls), 't', 'writers become slower');
is($node->safe_psql('slow', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND query LIKE 'lsm: flush of public.s'}),
	'1', 'while the flush has not ended');
$holder->quit;
$node->wait_until('slow', q{SELECT flushes > 0 FROM lsm_stat_tables WHERE relname = 's'});
is($node->safe_psql('slow', 'SELECT count(*), sum(v) FROM s'), "100000|$updated", 'rows');
$node->safe_psql('postgres', 'ALTER DATABASE slow RESET lsm.debug_stop');
$node->check_ok('slow', 'after slow writes');
$node->stop;
done_testing();
