# Memory of sessions and workers does not grow with the table: of one that is several times
# larger than what a process may have all is read, changed, flushed, compacted and vacuumed.
# (What shared memory and sessions may have otherwise: TAP 033.)

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

plan(skip_all => 'needs Linux') if $^O ne 'linux';

my $node = LsmNode->new('memory_size');

$node->setup(conf => q{
autovacuum = off
fsync = off
max_wal_size = 4GB
lsm.segment_size = 4MB
lsm.session_cache_size = 16MB
lsm.block_cache_size = 16MB
lsm.debug_quiet_time = 0
maintenance_work_mem = 8MB
});

# MB that a process may have beside what it begins with: 16 of cache, 8 of maintenance_work_mem,
# 8 to read ahead, and what the server itself takes
my $bound = 48;
my $rows = 240000;

sub within_bound
{
	my ($query) = @_;
	my $session = $node->session('postgres');

	$node->bound_memory($node->session_pid($session), $bound);
	$session->query($query);
	is($session->{stderr} =~ s/^background_psql.*\n?//mgr, '', "within $bound MB: $query");
	$session->quit;
	return;
}

# 210 MB of rows
$node->safe_psql('postgres', qq{
	CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm WITH (lsm.auto_compact = off);
	INSERT INTO t SELECT g, 0, (SELECT string_agg(md5(g || '.' || k), '') FROM generate_series(1, 27) k) FROM generate_series(1, $rows) g;
	SELECT lsm_flush('t');
	VACUUM ANALYZE t});
cmp_ok($node->safe_psql('postgres', q{SELECT sum(stored_bytes) FROM lsm_segments('t')}), '>', 2 * $bound * 1024 * 1024,
	'the table is larger than what a process may have');

# A third of the rows changes in increments all over the table.
sub change
{
	$node->safe_psql('postgres', join(';', map { "UPDATE t SET v = v + 1, pad = reverse(pad) WHERE id IN (SELECT generate_series($_, $rows, 90)); SELECT lsm_flush('t')" } 1 .. 30));
	return;
}

# ---- sessions ----

change();
within_bound($_) foreach (
	'SELECT count(*), sum(v), sum(length(pad)) FROM t',
	'SELECT count(*), sum(v) FROM t WHERE id > 0 AND length(pad) > 10',
	"SELECT count(*) FROM lsm_minor_compact('t')",
	"SELECT count(*) FROM lsm_major_compact('t')",
	'UPDATE t SET v = v + 1 WHERE id % 2 = 0',
	"SELECT count(*) FROM lsm_flush('t')",
	'DELETE FROM t WHERE id % 3 = 0',
	'VACUUM t',
	'REINDEX TABLE t',
	'SELECT count(*), sum(v), sum(length(pad)) FROM t');
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'),
	$node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE g % 90 BETWEEN 1 AND 30) + count(*) FILTER (WHERE g % 2 = 0) FROM generate_series(1, $rows) g WHERE g % 3 <> 0"),
	'rows');

# ---- one row with very many versions ----

$node->safe_psql('postgres', q{
	CREATE TABLE hot (id int PRIMARY KEY, n int, pad text) USING lsm;
	INSERT INTO hot VALUES (1, 0, 'hot');
	SELECT lsm_flush('hot');
	UPDATE hot SET n = 1, pad = 'all of it';
	DO 'BEGIN FOR i IN 1 .. 400000 LOOP UPDATE hot SET n = n + 1; END LOOP; END'});
within_bound(q{SELECT count(*) FROM lsm_flush('hot')});
is($node->safe_psql('postgres', 'SELECT * FROM hot'), '1|400001|all of it', 'the newest is left');
is($node->safe_psql('postgres', q{SELECT sum(versions) FROM lsm_segments('hot')}), '2', 'and no other');

# ---- workers ----

# they begin with the limit of the server's first process
change();
$node->bound_memory(PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/, $bound);
$node->safe_psql('postgres', q{
	UPDATE t SET v = v + 1 WHERE id % 5 = 0;
	SELECT lsm_stat_reset();
	ALTER TABLE t SET (lsm.auto_compact = on);
	ALTER SYSTEM SET lsm.compaction_workers = 2});
$node->reload;
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 1');
$node->wait_until('postgres', qq{SELECT major_bytes_read > $bound * 1024 * 1024 AND increments < 4 FROM lsm_stat_tables WHERE relname = 't'});
is($node->safe_psql('postgres', q{SELECT errors, coalesce(last_error, '') FROM lsm_stat_tables WHERE relname = 't'}), '0|', "workers compact more than that within $bound MB");
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
