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
$node->setup(conf => "lsm.block_cache_size = 1MB\nlsm.session_cache_size = 16MB\nautovacuum = off\n"
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

# ---- failed subtransactions give back what they have pinned, at once
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
none_pinned('of failed subtransactions that scanned');
is($session->query_safe("SELECT $sums FROM t"), $right, 'right after failed subtransactions');

# Single rows all over a table, and what fails is the query, its fetch, or the look-up of an
# UPDATE.  The session may keep 8 MB of decoded blocks; the table takes more than twice that.
my $blocks = q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'lsm block'};
my %failing = (
	'a query' => 'PERFORM 1 / (id - id) FROM w WHERE id = n',
	'a cursor' => 'OPEN c FOR SELECT b, 1 / (id - n - 1) FROM w WHERE id BETWEEN n AND n + 1; '
	  . 'FETCH c INTO x; FETCH c INTO x',
	'an update' => 'UPDATE w SET a = 1 / (id - id) WHERE id = n');

$node->safe_psql('postgres', $_)
  foreach (
	'CREATE TABLE w (id int PRIMARY KEY, a int, b text) USING lsm',
	q{INSERT INTO w SELECT i, i, (SELECT string_agg(md5(i || '.' || k), '') FROM generate_series(1, 20) k) FROM generate_series(1, 30000) i},
	q{SELECT lsm_flush('w')}, 'VACUUM ANALYZE w');
$session->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off');
foreach my $what (sort keys %failing)
{
	$session->query_safe(
		"DO \$\$
		DECLARE c refcursor; x text; n int; failed int := 0;
		BEGIN
			FOR i IN 1 .. 3000 LOOP
				n := i * 7919 % 29998 + 1;
				BEGIN
					$failing{$what};
				EXCEPTION WHEN division_by_zero THEN
					failed := failed + 1;
				END;
			END LOOP;
			ASSERT failed = 3000;
		END \$\$");
	none_pinned("of failed subtransactions: $what");
	cmp_ok($session->query_safe($blocks), '<', 12 * 1024 * 1024, 'nor is more decoded than may be');
}
cmp_ok(evict(), '>', 100, 'others go on');
$session->query_safe('COMMIT');

# Cursors from outside that are fetched from inside keep theirs, one of an inner subtransaction
# that is released too; one of that which fails does not, nor one that fails itself.  Nobody
# looks up single rows of this table, so its blocks are not expanded: they are in the cache as
# they are stored, where another session has just scanned them.
$node->safe_psql('postgres', $_)
  foreach (
	'CREATE TABLE v (LIKE t) USING lsm', 'INSERT INTO v SELECT * FROM h WHERE id <= 1000 ORDER BY id',
	q{SELECT lsm_flush('v')}, 'VACUUM v');
$session->quit;
$session = $node->session('postgres');
$session->query_safe('BEGIN; DECLARE outside CURSOR FOR SELECT * FROM v; SAVEPOINT a');
$session->query_safe('DECLARE inside CURSOR FOR SELECT * FROM v; SAVEPOINT b');
$node->safe_psql('postgres', 'SELECT sum(length(b)) FROM v');
$session->query_safe('FETCH 5 FROM outside; FETCH 5 FROM inside; ROLLBACK TO b');
is($node->safe_psql('postgres', $pinned), 't', 'both cursors keep their pins');
evict();
is($session->query_safe('FETCH 300 FROM inside'),
	$node->safe_psql('postgres', 'SELECT * FROM h ORDER BY id OFFSET 5 LIMIT 300'), 'the inner one');
$session->query_safe('FETCH 5 FROM outside; RELEASE b; ROLLBACK TO a');
is($node->safe_psql('postgres', $pinned), 't', 'the outer one keeps its pins');
evict();
is($session->query_safe('FETCH ALL FROM outside'),
	$node->safe_psql('postgres', 'SELECT * FROM h WHERE id <= 1000 ORDER BY id OFFSET 10'),
	'the outer one');
none_pinned('the inner cursor is gone');
$session->query_safe('DECLARE fails CURSOR FOR SELECT 1 / (id - 300) FROM t; FETCH 5 FROM fails');
$session->query_safe(
	q{DO $$
	DECLARE c refcursor := 'fails';
	BEGIN
		MOVE 1000 IN c;
		ASSERT false;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END $$});
none_pinned('the cursor has failed');
$session->query_safe('COMMIT');

# Cursors by index, with the slots that refer to rows of blocks, among many that fail.
$session->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN');
is( $session->query_safe(
		q{CREATE TEMP TABLE got (id int, b text);
		DO $$
		DECLARE r record; x int;
		BEGIN
			FOR r IN SELECT id, b FROM w WHERE id BETWEEN 1 AND 2000 ORDER BY id LOOP
				INSERT INTO got VALUES (r.id, r.b);
				BEGIN
					SELECT 1 / (id - id) INTO x FROM w WHERE id IN (r.id, r.id * 13);
				EXCEPTION WHEN division_by_zero THEN
					NULL;
				END;
			END LOOP;
		END $$;
		SELECT count(*), count(DISTINCT g.id) FROM got g JOIN w ON w.id = g.id AND w.b = g.b}),
	'2000|2000', 'a loop whose body fails');
$session->query_safe('COMMIT; RESET enable_seqscan; RESET enable_bitmapscan');
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
