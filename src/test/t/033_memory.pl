# Memory: what is shared is fixed when the server starts, and what a session takes is
# bounded, whatever a table has grown to and whatever is done to it.  The kernel keeps
# to the bound; with too little of it a job fails and leaves the table as it was.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

plan(skip_all => 'needs Linux') if $^O ne 'linux';

my $node = LsmNode->new('memory');

$node->setup(conf => q{
autovacuum = off
fsync = off
max_wal_size = 4GB
lsm.segment_size = 1MB
});

# ---- shared ----

# MB that a server with these settings asks the kernel for
sub shared_megabytes
{
	my ($preload, @settings) = @_;
	my @command = ('postgres', '-D', $node->data_dir, '-C', 'shared_memory_size',
		map { ('-c', $_) } "shared_preload_libraries=$preload", 'wal_consistency_checking=', @settings);
	my ($stdout, $stderr) = ('', '');

	PostgreSQL::Test::Utils::run_log(\@command, '>', \$stdout, '2>', \$stderr) or die "postgres -C failed: $stderr";
	my ($megabytes) = $stdout =~ /^(\d+)$/m;
	return $megabytes;
}

$node->stop;
foreach my $connections (20, 1000)
{
	foreach my $sizes ([ 4, 128 ], [ 64, 0 ])
	{
		my ($memtable, $cache) = @$sizes;
		my $without = shared_megabytes('', "max_connections=$connections");
		my $with = shared_megabytes('lsm', "max_connections=$connections", "lsm.memtable_size=${memtable}MB",
			"lsm.block_cache_size=${cache}MB");

		# entries of tables: by locks, of as many transactions as processes may have, 30 besides sessions
		my $tables = 64 * ($connections + 30);
		$tables = 65536 if $tables > 65536;

		cmp_ok($with - $without, '<=', $memtable + 1.015 * $cache + 7 + 1.32 * $tables / 1024,
			"shared memory: $connections connections, lsm.memtable_size ${memtable}MB, lsm.block_cache_size ${cache}MB");
		cmp_ok($with - $without, '>=', $memtable + $cache, 'and it is what the settings say, at least');
	}
}

# Where nothing is said of the block cache it has half of shared_buffers, and 128 MB at least.
foreach my $sizes ([ 64, 128 ], [ 1024, 512 ])
{
	my ($buffers, $cache) = @$sizes;
	my @settings = ("shared_buffers=${buffers}MB", 'max_connections=20');
	my $own = shared_megabytes('lsm', @settings) - shared_megabytes('lsm', @settings, 'lsm.block_cache_size=0');

	cmp_ok($own, '>=', $cache, "block cache beside shared_buffers of $buffers MB");
	cmp_ok($own, '<=', 1.015 * $cache + 2, 'and no more');
}
$node->start;

# ---- of a session ----

# a table of 60 MB, and 300 increments over all of it
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm;
	INSERT INTO t SELECT i, 0, string_agg(md5(i || '.' || k), '') FROM generate_series(1, 120000) i, generate_series(1, 28) k GROUP BY i ORDER BY i;
	SELECT lsm_flush('t')});
$node->safe_psql('postgres', join(';', map { "UPDATE t SET v = v + 1 WHERE id % 3000 = $_; SELECT lsm_flush('t')" } 0 .. 299));
is($node->safe_psql('postgres', q{SELECT count(*) FROM lsm_segments('t') WHERE kind = 'increment'}), '300', 'increments');

# A session that may have so many MB more than it has when it has just begun.
sub bounded_session
{
	my ($megabytes) = @_;
	my $session = $node->session('postgres');

	$node->bound_memory($node->session_pid($session), $megabytes);
	return $session;
}

my $session = bounded_session(4);
my ($output, $error) = $session->query(q{SELECT count(*) FROM lsm_minor_compact('t')});

like($session->{stderr}, qr/out of memory/, 'with too little memory a compaction fails');
$session->quit;
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'), '120000|12000', 'and nothing has changed');
$node->check_ok('postgres', 'after it has failed');

# ---- of many ----

# kB of decoded blocks that a session has after it has read the table
sub cached
{
	my ($session) = @_;

	$session->query_safe('SELECT sum(length(pad)) FROM t');
	return $session->query_safe(q{
		SELECT sum(total_bytes) / 1024 FROM pg_backend_memory_contexts WHERE name = 'lsm block'});
}

# Without a block cache, which has rows of blocks that a session then needs no more.
$node->append_conf('postgresql.conf', "lsm.session_cache_size = '16MB'\nlsm.block_cache_size = 0\n");
$node->restart;
my @sessions = map { $node->session('postgres') } 1 .. 4;

cmp_ok(cached($sessions[0]), '<=', 8 * 1024, 'half of lsm.session_cache_size for blocks of the only session');
cmp_ok(cached($sessions[0]), '>', 4 * 1024, 'and not much less');
cmp_ok(cached($sessions[$_]), '<=', 8 * 1024 / ($_ + 1), "$_ more sessions") foreach (1 .. 3);
cmp_ok(cached($sessions[0]), '<=', 2 * 1024, 'the first gives up what is too much');
$_->quit foreach @sessions[ 1 .. 3 ];
$node->wait_until('postgres', q{SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'client backend'});
cmp_ok(cached($sessions[0]), '>', 4 * 1024, 'and has it again when the others have gone');
$sessions[0]->quit;
$node->append_conf('postgresql.conf', "lsm.session_cache_size = '64MB'\nlsm.block_cache_size = '128MB'\n");
$node->restart;

my $bound = 160;

foreach my $query (
	'SELECT count(*), sum(v), sum(length(pad)) FROM t',
	"SELECT count(*) FROM lsm_minor_compact('t')",
	"SELECT count(*) FROM lsm_major_compact('t')",
	'UPDATE t SET v = v + 1',
	"SELECT count(*) FROM lsm_flush('t')",
	'VACUUM t',
	'SELECT count(*), sum(v), sum(length(pad)) FROM t')
{
	$session = bounded_session($bound);
	$session->query($query);
	is($session->{stderr} =~ s/^background_psql.*\n?//mgr, '', "within $bound MB: $query");
	$session->quit;
}
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'), '120000|132000', 'rows');

# ---- of an aggregation over large values ----

$node->safe_psql('postgres', q{
	SET lsm.segment_size = '1GB';
	CREATE TABLE w (id int, body text) USING lsm WITH (lsm.block_size = '1MB');
	ALTER TABLE w ALTER body SET STORAGE EXTERNAL;
	INSERT INTO w SELECT i, repeat(md5(i::text), 320) FROM generate_series(1, 20000) i;
	SELECT lsm_flush('w')});
like($node->safe_psql('postgres', 'EXPLAIN SELECT max(body) FROM w'), qr/LsmAgg/, 'an aggregation in the scan');
$session = bounded_session(30);
is($session->query('SELECT left(max(body), 4) = (SELECT left(max(md5(i::text)), 4) FROM generate_series(1, 20000) i) FROM w'),
	't', 'has one row of its block in memory at a time');
$session->quit;
$node->safe_psql('postgres', 'DROP TABLE w');

# ---- of an index build ----

# bytes that a build with that maintenance_work_mem sorted on disk, by so many processes besides the session
sub sorted_on_disk
{
	my ($memory, $workers) = @_;
	my $from = -s $node->logfile;

	$node->safe_psql('postgres', qq{
		SET log_temp_files = 0;
		SET maintenance_work_mem = '$memory';
		SET min_parallel_table_scan_size = 0;
		SET max_parallel_maintenance_workers = $workers;
		CREATE INDEX t_pad ON t (left(pad, 100));
		DROP INDEX t_pad});
	my $bytes = 0;
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $from);

	$bytes += $1 while $log =~ /temporary file: .*, size (\d+)/g;
	return $bytes;
}

is(sorted_on_disk('60MB', 0), 0, 'an index is built in maintenance_work_mem, where that is enough');
cmp_ok(sorted_on_disk('2MB', 0), '>', 120000 * 100, 'else on disk');

# each of three processes has a third, and what they have sorted comes together on disk
cmp_ok(sorted_on_disk('100MB', 2), '>', 120000 * 100, 'so it is by several processes');
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
