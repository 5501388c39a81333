# Blocks that scans pin in the block cache: while others want all of its room, while their
# segment is compacted away, and after a query that was cancelled, failed or lost its process.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $lock = 7107437;    # what lsm.debug_stop waits for
my $node = LsmNode->new('borrowed');
my $sums = 'sum(id), sum(a), sum(length(b)), min(c), max(c), sum(n)';
my $pinned = 'SELECT pinned_bytes > 0 FROM lsm_stat_cache';

# The cache has one partition of 256 frames, of which 32 may be pinned.
$node->setup(conf => "lsm.block_cache_size = 1MB\nautovacuum = off\n"
	  . "max_parallel_workers_per_gather = 0\n");
foreach my $table ('t', 'u')
{
	my $rows = $table eq 't' ? 6000 : 60000;

	$node->safe_psql('postgres', $_)
	  foreach (
		"CREATE TABLE $table (id int, a int, b text, c text, n numeric(9,2)) USING lsm",
		"INSERT INTO $table SELECT i, i % 97, repeat(chr(97 + i % 7), i % 50), md5(i::text), "
		. "i % 1000 / 8.0 FROM generate_series(1, $rows) i",
		"SELECT lsm_flush('$table')", "VACUUM $table");
}
$node->safe_psql('postgres', $_)
  foreach ('CREATE INDEX ON t (id)', 'CREATE INDEX ON u (id)', 'VACUUM ANALYZE');
my $right = $node->safe_psql('postgres', "SELECT $sums FROM t");
$node->safe_psql('postgres', 'CREATE TABLE h AS SELECT * FROM t');
is($node->safe_psql('postgres', "SELECT $sums FROM h"), $right, 'as heap has it');

# Read all blocks for single rows: then they make room among what is warm in the cache.
sub look_up
{
	my ($table, $rows) = @_;

	$node->safe_psql('postgres',
		'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; '
		  . 'SET enable_mergejoin = off; SET enable_memoize = off; SELECT sum(a) '
		  . "FROM generate_series(1, 1000) g JOIN $table ON id = g * 7919 % $rows");
	return;
}

# Have all blocks of t in the cache, then a session stop at one of them.
sub stop_at_block
{
	my ($session, $query, $action) = @_;

	look_up('t', 6000);
	$session->query_safe("SET lsm.debug_stop = 'block-borrowed:$action'");
	$node->start_query($session, $query);
	$node->wait_until('postgres', $pinned);
	return;
}

sub evict
{
	my $before = $node->safe_psql('postgres', 'SELECT evictions FROM lsm_stat_cache');

	look_up('u', 60000) foreach (1 .. 3);
	return $node->safe_psql('postgres', 'SELECT evictions FROM lsm_stat_cache') - $before;
}

sub none_pinned
{
	my ($label) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($node->safe_psql('postgres', 'SELECT pinned_bytes FROM lsm_stat_cache'),
		'0', "nothing is pinned: $label");
}

none_pinned('at rest');

# ---- all room is wanted by others
my $holder = $node->session('postgres');
my $session = $node->session('postgres');
foreach my $query ("SELECT $sums FROM t",
	"SELECT $sums FROM (SELECT * FROM t OFFSET 0) q",
	"SELECT $sums FROM t WHERE a BETWEEN 10 AND 60 AND n < 100")
{
	my $expected = $node->safe_psql('postgres', $query =~ s/\bt\b/h/r);

	$session->quit;
	$session = $node->session('postgres');
	$holder->query_safe("SELECT pg_advisory_lock($lock)");
	stop_at_block($session, $query, 'wait');
	cmp_ok(evict(), '>', 100, 'blocks make room while one is pinned');
	is($node->safe_psql('postgres', $pinned), 't', 'which stays');
	$holder->query_safe("SELECT pg_advisory_unlock($lock)");
	my ($out, $err) = $node->finish_query($session);
	is($out, $expected, $query);
	is($err, '', 'no error');
	none_pinned($query);
}

# ---- its segment goes away
$node->safe_psql('postgres', $_)
  foreach ('UPDATE t SET a = a + 1 WHERE id % 500 = 0', "SELECT lsm_flush('t')",
	'UPDATE h SET a = a + 1 WHERE id % 500 = 0');
$right = $node->safe_psql('postgres', "SELECT $sums FROM h");
$session->quit;
$session = $node->session('postgres');
$holder->query_safe("SELECT pg_advisory_lock($lock)");
stop_at_block($session, "SELECT $sums FROM t", 'wait');
$node->safe_psql('postgres', "SELECT lsm_major_compact('t')");
evict();
$holder->query_safe("SELECT pg_advisory_unlock($lock)");
my ($out, $err) = $node->finish_query($session);
is($out, $right, 'a compaction meanwhile');
$node->safe_psql('postgres', 'VACUUM t');
none_pinned('after a compaction');

# ---- cancelled, failed, terminated
$session->quit;
$session = $node->session('postgres');
my $pid = $node->session_pid($session);
stop_at_block($session, "SELECT $sums FROM t", 'hang');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
($out, $err) = $node->finish_query($session);
like($err, qr/canceling statement/, 'cancelled');
none_pinned('cancelled');
$session->query_safe("SET lsm.debug_stop = ''");
is($session->query_safe("SELECT $sums FROM t"), $right, 'the session goes on');

$session->quit;
$session = $node->session('postgres');
look_up('t', 6000);
$session->query_safe("SET lsm.debug_stop = 'block-borrowed:error'");
$node->start_query($session, "SELECT $sums FROM t");
($out, $err) = $node->finish_query($session);
like($err, qr/stopped at "block-borrowed"/, 'an error');
none_pinned('an error');
$session->quit;

$session = $node->session('postgres');
$pid = $node->session_pid($session);
stop_at_block($session, "SELECT $sums FROM t", 'hang');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
$node->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
none_pinned('terminated');

# ---- failed subtransactions: their pins stay until the end, but there are few
$session = $node->session('postgres');
look_up('t', 6000);
$session->query_safe(
	q{BEGIN; SELECT count(*) FROM t;
	DO $$
	BEGIN
		FOR i IN 1 .. 40 LOOP
			BEGIN
				PERFORM 1 / (i * 100 - id) FROM t;
			EXCEPTION WHEN division_by_zero THEN
				NULL;
			END;
		END LOOP;
	END $$});
is($node->safe_psql('postgres', $pinned), 't', 'failed subtransactions leave pins');
is($node->safe_psql('postgres', 'SELECT pinned_bytes <= 32 * 4096 FROM lsm_stat_cache'),
	't', 'no more than a session and a partition may pin');
is($session->query_safe("SELECT $sums FROM t"), $right, 'right after failed subtransactions');
cmp_ok(evict(), '>', 100, 'others go on');
$session->query_safe('COMMIT');
none_pinned('after failed subtransactions');

# ---- more cursors than a session borrows blocks
$session->quit;
$session = $node->session('postgres');
look_up('t', 6000);
$session->query_safe('BEGIN');
$session->query_safe(
	"DECLARE c$_ CURSOR FOR SELECT * FROM t WHERE id > $_ * 300; FETCH 5 FROM c$_")
  foreach (1 .. 12);
is($node->safe_psql('postgres', $pinned), 't', 'cursors have pins');
is($node->safe_psql('postgres', 'SELECT pinned_bytes <= 32 * 4096 FROM lsm_stat_cache'),
	't', 'but no more than there may be');
evict();
foreach my $i (1 .. 12)
{
	is($session->query_safe("FETCH ALL FROM c$i"),
		$node->safe_psql('postgres', "SELECT * FROM h WHERE id > $i * 300 ORDER BY id OFFSET 5"),
		"cursor $i");
}
$session->query_safe('COMMIT');
none_pinned('after cursors');

# ---- rolled back, truncated, dropped
$session->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 5 FROM c');
$session->query_safe('CLOSE c; TRUNCATE t');
evict();
is($session->query_safe('SELECT count(*) FROM t'), '0', 'truncated');
$session->query_safe('ROLLBACK');
is($session->query_safe("SELECT $sums FROM t"), $right, 'and rolled back');
$session->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 5 FROM c; CLOSE c');
$session->query_safe('DROP TABLE t; COMMIT');
none_pinned('dropped');
$session->quit;
$holder->quit;

$node->check_ok('postgres', 'borrowed blocks');
$node->stop;
done_testing();
