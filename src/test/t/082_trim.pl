# Free pages of a table that nobody changes any more are given back by a worker: the end of the
# file when nobody uses the table at that moment, and holes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('trim');

# A table is at rest at once, and looked at every five seconds.
$node->setup(conf => q{
autovacuum = off
restart_after_crash = on
deadlock_timeout = 1h
lsm.compaction_workers = 2
lsm.compaction_naptime = 1
lsm.debug_quiet_time = 0
});

my $rows = q{SELECT count(*), md5(string_agg(id || a, ',' ORDER BY id)) FROM t};
my $live = q{(SELECT sum(stored_bytes) FROM lsm_segments('t'))};
my $is_short = qq{SELECT pg_table_size('t') < $live * 1.05 + 80 * 8192};

# A table with free pages before its segments and behind them, that workers leave alone.
sub load
{
	my ($options) = @_;

	$node->safe_psql(
		'postgres', qq{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int PRIMARY KEY, a text) USING lsm WITH (lsm.auto_compact = off$options);
		INSERT INTO t SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series(1, 60000) i;
		SELECT count(*) FROM lsm_flush('t');
		UPDATE t SET a = md5(a) WHERE id % 2 = 0;
		SELECT count(*) FROM lsm_flush('t');
		SELECT count(*) FROM lsm_major_compact('t')});
	is($node->safe_psql('postgres', $is_short), 'f', 'the file is long');
	return;
}

# From now on workers may do what they find worth it.
sub release
{
	$node->safe_psql('postgres', q{
		ALTER TABLE t SET (lsm.auto_compact = on);
		SELECT lsm_minor_compact('t')});
	return;
}

sub allocated
{
	my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});

	return (stat($path))[12] * 512;
}

sub wait_allocated
{
	my ($below, $label) = @_;

	for my $try (1 .. $PostgreSQL::Test::Utils::timeout_default)
	{
		# without a change since the last one there is no checkpoint
		$node->safe_psql('postgres', 'SELECT pg_current_xact_id(); CHECKPOINT');
		return pass($label) if allocated() < $below;
		$node->wait_until('postgres', 'SELECT pg_sleep(1) IS NOT NULL');
	}
	return fail($label);
}

# Can the file system punch holes?
sub able
{
	my $file = $node->data_dir . '/hole';

	return system("head -c 1048576 /dev/urandom > '$file' && sync '$file' && fallocate -p -o 0 -l 524288 '$file' 2> /dev/null") == 0
	  && (stat($file))[12] * 512 < 800_000;
}

# ---- nobody uses the table ----

load('');
my $loaded = $node->safe_psql('postgres', $rows);

release();
$node->wait_until('postgres', $is_short);
is($node->safe_psql('postgres', $rows), $loaded, 'a worker has made the file shorter');
$node->check_ok('postgres', 'shorter');
$node->crash_and_start;
is($node->safe_psql('postgres', $rows), $loaded, 'rows after a crash');
$node->safe_psql('postgres', q{
	INSERT INTO t SELECT i, 'more' FROM generate_series(60001, 70000) i;
	SELECT count(*) FROM lsm_flush('t')});
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '70000', 'it is written to again');
$node->check_ok('postgres', 'written to again');

# rows and dead roots gone: the file is empty
$node->safe_psql('postgres', 'ALTER TABLE t SET (lsm.auto_compact = off); DELETE FROM t');
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
$node->safe_psql('postgres', 'VACUUM (TRUNCATE off) t');
is($node->safe_psql('postgres', q{SELECT count(*), pg_relation_size('t') > 0 FROM lsm_segments('t')}), '0|t', 'nothing is left but free pages');
release();
$node->wait_until('postgres', q{SELECT pg_relation_size('t') = 0});
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '0', 'a table without rows has an empty file');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'again')});
is($node->safe_psql('postgres', q{SELECT a FROM t WHERE id = 1}), 'again', 'and begins anew');
$node->check_ok('postgres', 'begun anew');

# ---- nothing is free: all rows are in the row log ----

# The first flush leaves it empty, so that only its size is a reason for the second.
$node->safe_psql(
	'postgres', q{
	DROP TABLE t;
	CREATE TABLE t (id int PRIMARY KEY, a text) USING lsm WITH (lsm.auto_compact = off);
	INSERT INTO t SELECT i, repeat(md5(i::text), 5) FROM generate_series(1, 5000) i;
	SELECT count(*) FROM lsm_flush('t');
	UPDATE t SET a = repeat(md5(a), 5)});
my $logged = $node->safe_psql('postgres', $rows);
is($node->safe_psql('postgres', q{SELECT memtable_bytes >= 64 * 8192 FROM lsm_stat_tables WHERE relid = 't'::regclass}), 't', 'the row log has half a megabyte');
release();
$node->wait_until('postgres', q{SELECT memtable_bytes = 0 FROM lsm_stat_tables WHERE relid = 't'::regclass});
$node->wait_until('postgres', $is_short);
is($node->safe_psql('postgres', $rows), $logged, 'rows of a row log that was flushed for its space');
$node->check_ok('postgres', 'flushed for its space');

# ---- the server has just started, and nobody has used the table since ----

load('');
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.compaction_workers = 0});
$node->reload;
$node->wait_until('postgres', q{SELECT current_setting('lsm.compaction_workers') = '0'});
$node->safe_psql('postgres', q{ALTER TABLE t SET (lsm.auto_compact = on)});
$node->safe_psql('postgres', q{ALTER SYSTEM RESET lsm.compaction_workers});
$node->restart;
$node->wait_until('postgres', $is_short);
is($node->safe_psql('postgres', $rows), $loaded, 'shorter after a restart');
$node->check_ok('postgres', 'after a restart');

# ---- somebody reads it all the time ----

my $reader = $node->session('postgres');

load('');
$reader->query_safe('BEGIN; SELECT count(*) FROM t');
release();
my $size = q{SELECT pg_relation_size('t')};
my $long = $node->safe_psql('postgres', $size);

SKIP:
{
	skip 'the file system has no holes', 2 if !able();
	wait_allocated($long - 300 * 8192, 'holes are punched while the table is read');
	cmp_ok($node->safe_psql('postgres', $size), '>=', $long, 'its file keeps its length meanwhile');
}
is($reader->query_safe('SELECT count(*) FROM t'), '60000', 'the reader goes on');
$reader->query_safe('COMMIT');
$node->wait_until('postgres', $is_short);
is($node->safe_psql('postgres', $rows), $loaded, 'the end goes when the reader has gone');
$node->check_ok('postgres', 'after the reader');

# ---- a worker gives way, fails, crashes ----

foreach my $point (qw(relocate-copy relocate-before-swap trim-start))
{
	load('');
	$node->safe_psql('postgres', "ALTER SYSTEM SET lsm.debug_stop = '$point:hang'");
	$node->reload;
	$node->wait_until('postgres', q{SELECT current_setting('lsm.debug_stop') LIKE '%:hang'});
	$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
	$node->safe_psql('postgres', "SET lsm.debug_stop = ''; ALTER TABLE t SET (lsm.auto_compact = on); SELECT lsm_minor_compact('t')");
	$node->wait_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE query = 'lsm: giving back space of public.t' AND wait_event IN ('LsmStop', 'Extension')});
	is($node->safe_psql('postgres', q{SELECT job, relid::regclass FROM lsm_stat_progress_compaction}), 'trim|t',
		"it is shown, $point");

	# who hangs does not read settings; who comes next has none of it
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET lsm.debug_stop');
	$node->reload;
	$node->safe_psql('postgres', $point eq 'trim-start' ? "SET lsm.debug_stop = ''; VACUUM t" :
		"SET lsm.debug_stop = ''; ALTER TABLE t ADD COLUMN b int");
	pass("who wants the table, or the same, does not wait at $point");
	$node->wait_until('postgres', $is_short);
	is($node->safe_psql('postgres', $rows), $loaded, "rows, $point");
	$node->check_ok('postgres', $point);
}

# ---- pages that a worker was at when it gave way ----

# Nothing else is worth it there: the next one has to come for them.
SKIP:
{
	skip 'the file system has no holes', 4 if !able();
	load(', vacuum_truncate = off');
	$long = $node->safe_psql('postgres', $size);
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', "ALTER SYSTEM SET lsm.debug_stop = 'punch-taken:hang'");
	$node->reload;
	$node->wait_until('postgres', q{SELECT current_setting('lsm.debug_stop') LIKE '%:hang'});
	$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
	$node->safe_psql('postgres', "SET lsm.debug_stop = ''; ALTER TABLE t SET (lsm.auto_compact = on); SELECT lsm_minor_compact('t')");
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->wait_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE query = 'lsm: giving back space of public.t' AND wait_event IN ('LsmStop', 'Extension')});
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET lsm.debug_stop');
	$node->reload;
	$node->safe_psql('postgres', "SET lsm.debug_stop = ''; ALTER TABLE t ADD COLUMN b int");
	wait_allocated($long - 300 * 8192, 'what a worker was at when it gave way is punched by the next one');
	is($node->safe_psql('postgres', $rows), $loaded, 'rows after that');
	$node->check_ok('postgres', 'a worker gave way between its edits');
}

# ---- what users have said ----

# another table, of which the same is worth it, shows that workers have been there
load(', vacuum_truncate = off');
$long = $node->safe_psql('postgres', $size);
$node->safe_psql(
	'postgres', q{
	CREATE TABLE other (id int PRIMARY KEY, a text) USING lsm WITH (lsm.auto_compact = off);
	INSERT INTO other SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series(1, 60000) i;
	SELECT count(*) FROM lsm_flush('other')});
my $before = $node->safe_psql('postgres', q{SELECT pg_relation_size('other')});

release();
$node->safe_psql('postgres', q{ALTER TABLE other SET (lsm.auto_compact = on); SELECT lsm_minor_compact('other')});
$node->wait_until('postgres', qq{SELECT pg_relation_size('other') < $before / 2});
is($node->safe_psql('postgres', $size), $long, 'with vacuum_truncate = off the file keeps its length');
is($node->safe_psql('postgres', $rows), $loaded, 'and its rows');
$node->check_ok('postgres', 'vacuum_truncate = off');
$reader->quit;

done_testing();
