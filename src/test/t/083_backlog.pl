# What piles up where nobody is near a bound of his own: increments that compactions have not come
# to, for which writers become slower, and memory of many memtables, of which the greatest are
# flushed.  Temporary tables, whose sessions compact them.  Writers that wait for a flush which fails.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('backlog');

$node->setup(conf => q{
autovacuum = off
fsync = off
lsm.memtable_size = 4MB
lsm.compaction_workers = 2
});

# ---- increments ----

$node->safe_psql('postgres', q{
	CREATE DATABASE slow;
	ALTER DATABASE slow SET lsm.debug_stop = 'minor-before-swap:wait'});
$node->safe_psql('slow', q{
	CREATE EXTENSION lsm;
	CREATE TABLE s (id int PRIMARY KEY, v int, pad text) USING lsm;
	INSERT INTO s SELECT i, 0, repeat(md5(i::text), 5) FROM generate_series(1, 20000) i;
	SELECT lsm_flush('s')});

my $holder = $node->session('slow');
my $stalls = q{SELECT stalls FROM lsm_stat_tables WHERE relname = 's'};
my $depth = q{SELECT count(*) FROM lsm_segments('s') WHERE kind = 'increment'};
my $round = 0;

# So many rows get new values of some pages.
sub change
{
	my ($rows) = @_;

	$round++;
	$node->safe_psql('slow', "UPDATE s SET v = v + 1, pad = repeat(md5(id || '.$round'), 5) WHERE id <= $rows");
	return;
}

$holder->query_safe('SELECT pg_advisory_lock(7107437)');
$node->safe_psql('slow', "UPDATE s SET v = v + 1 WHERE id % 1000 = $_; SELECT lsm_flush('s')") foreach (1 .. 19);
$node->wait_until('slow', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND query LIKE 'lsm: minor compaction of public.s'});
is($node->safe_psql('slow', $depth), '19', 'a minor compaction stands still, and increments pile up');
change(400);
is($node->safe_psql('slow', $stalls), '0', 'writers are not slower yet');
$node->safe_psql('slow', "UPDATE s SET v = v + 1 WHERE id % 1000 = $_; SELECT lsm_flush('s')") foreach (20 .. 40);
change(400);
is($node->safe_psql('slow', "SELECT stalls > 0 AND longest_stall < 1000 FROM lsm_stat_tables WHERE relname = 's'"), 't', 'and are now, by moments');

# they do not wait for what nobody will do
$node->safe_psql('slow', 'ALTER TABLE s SET (lsm.auto_compact = off)');
my $before = $node->safe_psql('slow', $stalls);
change(400);
is($node->safe_psql('slow', $stalls), $before, 'not where the owner wants no compactions');
$node->safe_psql('slow', 'ALTER TABLE s RESET (lsm.auto_compact)');

# nor when it has been done
$holder->quit;
$node->safe_psql('slow', q{SELECT lsm_flush('s')});
$node->wait_until('slow', q{SELECT count(*) < 20 FROM lsm_segments('s') WHERE kind = 'increment'});
$node->wait_until('slow', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND datname = 'slow'});
$before = $node->safe_psql('slow', $stalls);
change(400);
is($node->safe_psql('slow', $stalls), $before, 'nor when the backlog is gone');
is($node->safe_psql('slow', 'SELECT count(*), sum(v) FROM s'), '20000|2400', 'rows');
is($node->safe_psql('slow', q{SELECT count(*) FROM lsm_check('s')}), '0', 'lsm_check finds nothing');

# ---- memory for memtables ----

# Each has less than half of what a memtable may have, which nobody would flush, all together
# more than there is.
$node->safe_psql('postgres', qq{
	CREATE TABLE m$_ (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO m$_ SELECT i, 0 FROM generate_series(1, 4500) i;
	SELECT lsm_flush('m$_')}) foreach (1 .. 24);
is($node->safe_psql('postgres', q{SELECT sum(flushes) FROM lsm_stat_tables WHERE relname LIKE 'm%'}), '24', 'tables without a memtable');

# Whoever writes asks for it, each session once a second, for a table that chance has chosen: that may be s,
# which does not count here.  So they go on.
my $flushed = q{SELECT sum(flushes) > 24 FROM lsm_stat_tables WHERE relname LIKE 'm%'};

foreach my $round (1 .. 100)
{
	foreach my $n (1 .. 24)
	{
		$node->safe_psql('postgres', "UPDATE m$n SET v = 1 WHERE id % 3 = $_") foreach (0 .. 2);
	}
	last if $node->safe_psql('postgres', $flushed) eq 't';
}
is($node->safe_psql('postgres', $flushed), 't', 'a memtable is flushed for its memory');
is($node->safe_psql('postgres', join(' UNION ALL ', map { "SELECT count(*) FROM m$_ WHERE v <> 1" } (1 .. 24)) . ' ORDER BY 1 DESC LIMIT 1'), '0', 'rows');

# ---- temporary tables ----

# Each round fills a generation or two.
$node->safe_psql('postgres', q{
	CREATE TEMP TABLE own (id int PRIMARY KEY, v int, pad text) USING lsm;
	INSERT INTO own SELECT i, 0, md5(i::text) FROM generate_series(1, 40000) i;
	SELECT lsm_flush('own');
	DO $$
	BEGIN
		FOR i IN 1 .. 30 LOOP
			UPDATE own SET v = v + 1, pad = coalesce(pad, 'none');
		END LOOP;
		IF (SELECT flushes < 10 FROM lsm_stat_tables WHERE relname = 'own') THEN
			RAISE EXCEPTION 'the memtable has not been full often';
		END IF;
		IF (SELECT count(*) > 8 FROM lsm_segments('own') WHERE kind = 'increment') THEN
			RAISE EXCEPTION 'increments of a temporary table pile up';
		END IF;
		IF (SELECT count(*) <> 40000 OR sum(v) <> 1200000 OR bool_or(pad <> md5(id::text)) FROM own) OR EXISTS (SELECT FROM lsm_check('own')) THEN
			RAISE EXCEPTION 'rows of a temporary table are not right';
		END IF;
		UPDATE own SET v = v + 1 WHERE id % 2 = 0;
	END $$;
	BEGIN;
	UPDATE own SET v = 0;
	SAVEPOINT s;
	DO 'BEGIN FOR i IN 1 .. 10 LOOP UPDATE own SET v = v + 1; END LOOP; END';
	ROLLBACK TO s;
	COMMIT;
	SELECT 1 / (count(*) FILTER (WHERE v = 0) / 40000) FROM own});
pass('temporary tables are compacted by their sessions');

# ---- a flush for which others have waited ----

$node->safe_psql('postgres', q{
	ALTER SYSTEM SET lsm.compaction_workers = 0;
	CREATE TABLE f (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO f SELECT i, 0 FROM generate_series(1, 40000) i;
	SELECT lsm_flush('f')});
$node->reload;
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
$holder = $node->session('postgres');
$holder->query_safe('SELECT pg_advisory_lock(7107437)');

my ($flusher, $writer) = map { $node->session('postgres') } (1, 2);
my ($flusher_pid, $writer_pid) = map { $node->session_pid($_) } ($flusher, $writer);

$flusher->query_safe(q{SET lsm.debug_stop = 'flush-after-switch:wait,flush-before-swap:full'; UPDATE f SET v = 1 WHERE id <= 100});
$node->start_query($flusher, q{SELECT lsm_flush('f')});
$node->wait_blocked($flusher_pid);
$writer->query_safe(q{SET lsm.debug_stop = 'flush-before-swap:error'});
$node->start_query($writer, q{UPDATE f SET v = v + 1});
$node->wait_blocked($writer_pid);
$holder->quit;
like(($node->finish_query($flusher))[1], qr/ERROR:  disk is full at "flush-before-swap"/, 'a flush fails');
like(($node->finish_query($writer))[1], qr/ERROR:  could not flush the memtable of table "f", which is full\n.*\n?.*Another process has just tried/,
	'who has waited for it does not try it again');
$flusher->quit;
$writer->quit;

# nor does who comes within the same second
$node->wait_until('postgres', q{WITH u AS (UPDATE f SET v = v + 1 RETURNING 1) SELECT count(*) = 40000 FROM u});
is($node->safe_psql('postgres', q{SELECT count(*), sum(v) FROM f}), '40000|40100', 'rows');
is($node->safe_psql('postgres', q{SELECT count(*) FROM lsm_check('f')}), '0', 'lsm_check finds nothing');

# ---- memory of tables that are no more ----

# Nobody comes to them again; all together they have had more than there is.
$node->safe_psql('postgres', q{CREATE FUNCTION lsm_test_arena_fill() RETURNS float8 LANGUAGE C AS '$libdir/lsm'});
$node->safe_psql('postgres', join('; ', map { "SELECT lsm_flush('m$_')" } (1 .. 24)));
is($node->safe_psql('postgres', 'SELECT lsm_test_arena_fill() < 0.5'), 't', 'there is memory');
foreach my $round (1 .. 10)
{
	$node->safe_psql('postgres', join('; ', map { (
		"CREATE TABLE d$_ (id int PRIMARY KEY, v int) USING lsm; INSERT INTO d$_ VALUES (1, 0); UPDATE d$_ SET v = 1; DROP TABLE d$_",
		"CREATE TEMP TABLE d$_ (id int PRIMARY KEY, v int) USING lsm; INSERT INTO d$_ VALUES (1, 0); UPDATE d$_ SET v = 1") } (1 .. 10)));
}
$node->safe_psql('postgres', q{
	CREATE TABLE l (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO l VALUES (1, 0)});
$node->wait_until('postgres', q{WITH u AS (UPDATE l SET v = v + 1 RETURNING 1) SELECT count(*) = 1 AND lsm_test_arena_fill() <= 0.9 FROM u});
pass('who needs memory has what they had');

# ---- where no worker can come ----

# The launchers, of lsm and of logical replication, have the only processes that there are; or
# there is not even one for both of them.
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.compaction_workers = 2});
$node->safe_psql('postgres', q{ALTER DATABASE slow RESET lsm.debug_stop});
foreach my $processes (2, 1)
{
	$node->append_conf('postgresql.conf', "max_worker_processes = $processes");
	$node->restart;
	$node->wait_for_log(qr/could not start an lsm worker: out of background worker slots/) if $processes == 2;
	$node->safe_psql('slow', "UPDATE s SET v = v + 1 WHERE id % 1000 = $_; SELECT lsm_flush('s')") foreach (1 .. 45);
	$before = $node->safe_psql('slow', $stalls);
	change(400);
	is($node->safe_psql('slow', $stalls), $before, "writers do not wait for workers that cannot come ($processes processes)");
}

$node->stop;
done_testing();
