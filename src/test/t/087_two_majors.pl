# Two workers have major compactions on one table at a time, over ranges of keys that do not touch: what
# each does is there, whichever ends first, or not at all; rows are read, changed and flushed meanwhile.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('two_majors');

# a job reads 16 MB then; one of three workers is left for what does not take long
$node->setup(conf => q{
autovacuum = off
fsync = off
restart_after_crash = off
lsm.segment_size = 1MB
lsm.compaction_workers = 3
});
$node->safe_psql('postgres', 'CREATE DATABASE held');

my $workers = q{backend_type = 'lsm worker' AND datname = 'held'};
my $majors = qq{$workers AND query = 'lsm: major compaction of public.t'};
my $no_stop = "SET lsm.debug_stop = '';";

sub held_psql
{
	my ($sql) = @_;

	return $node->safe_psql('held', "$no_stop $sql");
}

# 24 MB that nothing compresses; what a row has tells its key, and how often it has been changed
held_psql(q{
	CREATE EXTENSION lsm;
	CREATE FUNCTION pad(id int, v int) RETURNS bytea IMMUTABLE LANGUAGE sql AS
	$$SELECT string_agg(sha512((id || '.' || v || '.' || j)::bytea), '') FROM generate_series(1, 25) j$$;
	CREATE TABLE t (id int PRIMARY KEY, v int, pad bytea) USING lsm;
	INSERT INTO t SELECT i, 0, pad(i, 0) FROM generate_series(1, 15000) i;
	SELECT lsm_flush('t')});

# Two workers stop before what they have merged comes into the manifest.
sub begin_two_majors
{
	my ($action, $waits) = @_;

	$node->safe_psql('postgres', "ALTER DATABASE held SET lsm.debug_stop = 'major-before-swap:$action'");
	# who is there from before knows nothing of it
	$node->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE $workers");
	held_psql("UPDATE t SET v = v + 1, pad = pad(id, v + 1); SELECT lsm_flush('t')");
	$node->wait_until('postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE $majors AND $waits");
	is($node->safe_psql('held', q{
		SELECT count(*), count(DISTINCT pid), bool_and(relid = 't'::regclass) FROM lsm_stat_progress_compaction WHERE job = 'major compaction'}),
		'2|2|t', "$action: two majors of the table");
	return;
}

sub is_sound
{
	my ($v, $label) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(held_psql('SELECT count(*), sum(v), bool_and(pad = pad(id, v)) FROM t'), "15000|$v|t", "rows: $label");
	return;
}

sub work_is_done
{
	my ($v, $label) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE $workers");
	is_sound($v, $label);
	$node->check_ok('held', $label);
	held_psql(q{SELECT lsm_major_compact('t')});
	is(held_psql(q{SELECT count(*) FROM lsm_segments('t') WHERE kind = 'increment'}), '0', "all is merged: $label");
	is_sound($v, "$label, merged");
	return;
}

# ---- both go on, after changes of the rows that they have merged ----

my $holder = $node->session('held');

$holder->query_safe('SELECT pg_advisory_lock(7107437)');
begin_two_majors('wait', "wait_event_type = 'Lock'");
is_sound(15000, 'while two majors wait');
held_psql("UPDATE t SET v = v + 1, pad = pad(id, v + 1) WHERE id % 3 = 0; DELETE FROM t WHERE id % 100 = 1; SELECT lsm_flush('t')");
held_psql('INSERT INTO t SELECT i, 1, pad(i, 1) FROM generate_series(1, 15000, 100) i');
is_sound(19950, 'changed while two majors wait');
$node->safe_psql('postgres', 'ALTER DATABASE held RESET lsm.debug_stop');
$holder->quit;
work_is_done(19950, 'two majors, and what came meanwhile');

# ---- one is cancelled, the other is ended ----

begin_two_majors('hang', q{wait_event IN ('LsmStop', 'Extension')});
is_sound(34950, 'while two majors hang');
held_psql("UPDATE t SET v = v + 1, pad = pad(id, v + 1) WHERE id % 2 = 0; SELECT lsm_flush('t')");
$node->safe_psql('postgres', 'ALTER DATABASE held RESET lsm.debug_stop');
$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.compaction_workers = 0');
$node->reload;
$node->wait_until('held', q{SELECT current_setting('lsm.compaction_workers') = '0'});
# a third worker may have come for the flush
$node->wait_until('postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE $workers");
is($node->safe_psql('postgres', qq{
	SELECT pg_cancel_backend(min(pid)), pg_terminate_backend(max(pid)) FROM pg_stat_activity WHERE $majors}),
	't|t', 'one is cancelled, the other is ended');
$node->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE $workers");
is_sound(42450, 'two majors that gave up');

# what they had been given is free as soon as the next job comes, of whatever kind
held_psql(q{CREATE FUNCTION lsm_test_pending(regclass) RETURNS bigint LANGUAGE C STRICT AS '$libdir/lsm'});
cmp_ok(held_psql(q{SELECT lsm_test_pending('t')}), '>', 100, 'pages that dead jobs have left');
held_psql('VACUUM (TRUNCATE false) t');
is(held_psql(q{SELECT lsm_test_pending('t')}), '0', 'VACUUM frees them, whether it cuts the file or not');
work_is_done(42450, 'two majors that gave up');
$node->stop;
done_testing();
