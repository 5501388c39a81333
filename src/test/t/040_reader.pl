# Reading past shared buffers where the kernel, the file or the server's state is not
# as a rule: io_uring refused, pages that are in shared buffers only, a file that is
# too short, cancel and termination while requests are on their way, descriptors.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('reader');
my $sum = 'SELECT count(*), sum(id), sum(length(t)) FROM r';
my $right = '50000|1250025000|1600000';

# Replayed pages stay in buffers, unless the checkpointer writes them.
$node->setup(conf => "shared_buffers = 64MB\nbgwriter_lru_maxpages = 0\nautovacuum = off\n"
	  . "max_parallel_workers_per_gather = 0\n");
$node->safe_psql('postgres',
	'CREATE TABLE r (id int PRIMARY KEY, t text) USING lsm; CREATE VIEW by_buffers AS '
	  . "SELECT sum(requests) AS n FROM lsm_stat_io WHERE method = 'buffers'");

sub fill
{
	$node->safe_psql('postgres', $_)
	  foreach ('TRUNCATE r',
		'INSERT INTO r SELECT i, md5(i::text) FROM generate_series(1, 50000) i',
		"SELECT lsm_flush('r')");
	return;
}

# ---- pages that are in shared buffers only
$node->backup('base');
my $standby = LsmNode->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
fill();
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $sum), $right, 'a standby that has just replayed');
cmp_ok($standby->safe_psql('postgres', 'SELECT n FROM by_buffers'),
	'>', 0, 'pages were read through shared buffers');
$standby->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', "DELETE FROM r WHERE id % 2 = 0; SELECT lsm_flush('r')");
$node->safe_psql('postgres', "SELECT lsm_major_compact('r')");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $sum), $node->safe_psql('postgres', $sum),
	'after a compaction');
is($standby->safe_psql('postgres', 'SELECT t FROM r WHERE id = 777'),
	$node->safe_psql('postgres', 'SELECT md5(777::text)'), 'a row by its index');
$standby->stop;
fill();
$node->crash_and_start;
is($node->safe_psql('postgres', $sum), $right, 'right after recovery');

# ---- io_uring refused
my $log_start = -s $node->logfile;
$node->append_conf('postgresql.conf', "lsm.debug_io = 'refuse'\n");
$node->restart;
foreach (1 .. 3)
{
	fill();
	is($node->safe_psql('postgres', $sum), $right, 'io_uring is refused');
}
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $log_start);
is(scalar(() = $log =~ /io_uring cannot be used/g), 1, 'which is logged once');
fill();
my ($status, $out, $err) = $node->psql('postgres', "SET lsm.io_method = 'io_uring'; $sum");
isnt($status, 0, 'unless one insists on it');
like($err, qr/could not set up io_uring/, 'with an error');
$node->append_conf('postgresql.conf', "lsm.debug_io = 'none'\n");
$node->restart;

# ---- no block cache
$node->append_conf('postgresql.conf', "lsm.block_cache_size = 0\n");
$node->restart;
fill();
is($node->safe_psql('postgres', $sum), $right, 'no block cache');
is($node->safe_psql('postgres', 'SELECT t FROM r WHERE id = 777'),
	$node->safe_psql('postgres', 'SELECT md5(777::text)'), 'nor for a row');
is($node->safe_psql('postgres', 'SELECT size_bytes, blocks, hits FROM lsm_stat_cache'),
	'0|0|0', 'which lsm_stat_cache tells');

# ---- a small one, of which scans take an eighth
$node->append_conf('postgresql.conf', "lsm.block_cache_size = '1MB'\n");
$node->restart;
$node->safe_psql('postgres', $_)
  foreach ('CREATE TABLE big USING lsm AS SELECT i, md5(i::text) || md5((-i)::text) AS t FROM generate_series(1, 100000) i',
	"SELECT lsm_flush('big')", 'CHECKPOINT');
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
$node->safe_psql('postgres', "$by_index SELECT t FROM r WHERE id = 777");
$node->safe_psql('postgres', "SELECT count(t) FROM big") foreach (1 .. 3);
cmp_ok($node->safe_psql('postgres', 'SELECT evictions FROM lsm_stat_cache'),
	'>', 50, 'scans go through the cache');
my $point_requests = "SELECT sum(requests) FROM lsm_stat_io WHERE reader = 'point'";
my $before = $node->safe_psql('postgres', $point_requests);
$node->safe_psql('postgres', "$by_index SELECT t FROM r WHERE id = 777");
is($node->safe_psql('postgres', $point_requests), $before, 'and leave what is warm');
is($node->safe_psql('postgres', $sum), $right, 'rows are right');

# ---- what is read row by row is kept without compression, in three quarters of the cache at most
$node->append_conf('postgresql.conf', "lsm.block_cache_size = '16MB'\n");
$node->restart;
$node->safe_psql('postgres', $_)
  foreach ('CREATE TABLE points (id int PRIMARY KEY, t text) USING lsm WITH (autovacuum_enabled = off)',
	"INSERT INTO points SELECT i, repeat(md5(i::text), 8) FROM generate_series(1, 60000) i",
	"SELECT lsm_flush('points')", 'CHECKPOINT');
my $expanded = 'SELECT expanded_bytes FROM lsm_stat_cache';
my $one = "$by_index SELECT t = repeat(md5('500'), 8) FROM points WHERE id = 500";
is($node->safe_psql('postgres', $one), 't', 'a row from the file');
is($node->safe_psql('postgres', $expanded), 0, 'its block is kept as stored');
is($node->safe_psql('postgres', $one), 't', 'by another session');
my $block = $node->safe_psql('postgres', $expanded);
cmp_ok($block, '>', 0, 'it is worth while to expand it');
$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
is($node->safe_psql('postgres', $one), 't', 'for the next ones');
is($node->safe_psql('postgres', $point_requests), 0, 'which read nothing');
is($node->safe_psql('postgres', $expanded), $block, 'nor expand it again');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT t) FROM points'), '60000|60000', 'scans are right');
my $each = "$by_index SELECT count(*) FROM generate_series(1, 60000, 20) i, LATERAL (SELECT t FROM points WHERE id = i AND t = repeat(md5(i::text), 8)) p";
is($node->safe_psql('postgres', $each), 3000, "rows of all blocks, time $_") foreach (1 .. 3);
is($node->safe_psql('postgres', "SELECT expanded_bytes > $block AND expanded_bytes <= size_bytes / 4 * 3 FROM lsm_stat_cache"),
	't', 'three quarters of the cache at most');

# there is no room for all of it, and all is wanted alike: then nothing comes and goes
my $all_over = $each =~ s/FROM (generate_series\(.*?\)) i/FROM (SELECT i FROM $1 i ORDER BY md5(i::text)) i/r;
is($node->safe_psql('postgres', $all_over), 3000, 'all over the table') foreach (1 .. 16);
$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
$node->safe_psql('postgres', $all_over) foreach (1 .. 3);
cmp_ok($node->safe_psql('postgres', $expanded), '>', 9_000_000, 'the room grows');
cmp_ok($node->safe_psql('postgres', 'SELECT insertions FROM lsm_stat_cache'),
	'<=', 3, 'and what has no place does not drive out the rest');
is($node->safe_psql('postgres', $point_requests), 0, 'nothing is read again');
is($node->safe_psql('postgres', 'SELECT count(DISTINCT t) FROM points'), 60000, 'scans are right after it');
my $by_bitmap = "SET enable_seqscan = off; SET enable_indexscan = off; SELECT count(*) FROM points WHERE id BETWEEN 20001 AND 20150 AND t = repeat(md5(id::text), 8)";
like($node->safe_psql('postgres', $by_bitmap =~ s/SELECT/EXPLAIN SELECT/r), qr/LsmBitmapScan/, 'a bitmap scan');
is($node->safe_psql('postgres', $by_bitmap), 150, 'which takes expanded blocks, too');

# what nobody uses any more makes way for a table that is scanned again and again
$node->safe_psql('postgres', $_)
  foreach (
	q{CREATE TABLE scanned USING lsm AS SELECT i, md5(i::text) || md5((-i)::text) || md5((i * 3)::text) || md5((i * 5)::text) AS t FROM generate_series(1, 140000) i},
	"SELECT lsm_flush('scanned')", 'CHECKPOINT');
my $longest = 'SELECT max(length(t)) FROM scanned';
my $misses = 'SELECT misses FROM lsm_stat_cache';
is($node->safe_psql('postgres', $longest), 128, 'a large table') foreach (1 .. 12);
$before = $node->safe_psql('postgres', $misses);
is($node->safe_psql('postgres', $longest), 128, 'once more');
is($node->safe_psql('postgres', $misses), $before, 'which has found room');
cmp_ok($node->safe_psql('postgres', $expanded), '<', 6_000_000, 'that of rows that were looked up');
is($node->safe_psql('postgres', $all_over), 3000, 'these again') foreach (1 .. 4);
cmp_ok($node->safe_psql('postgres', $expanded), '>', 5_000_000, 'have it back');

# such blocks are read where they are: pins keep them there, whoever wants the room
my $pinned = 'SELECT pinned_bytes FROM lsm_stat_cache';
is($node->safe_psql('postgres', $pinned), 0, 'nothing is pinned by who has gone');
$node->append_conf('postgresql.conf', "lsm.block_cache_size = '1MB'\nlsm.session_cache_size = '16MB'\n");
$node->restart;
my $holder = $node->background_psql('postgres');
$holder->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_material = off');
# who has room copies them
$holder->query_safe('SELECT count(t) FROM generate_series(1, 60000, 20) i, LATERAL (SELECT t FROM points WHERE id = i OFFSET 0) p');
foreach my $n (1 .. 6)
{
	my $id = $n * 9000;
	$node->safe_psql('postgres', "$by_index SELECT t FROM points WHERE id = $id") foreach (1 .. 2);
	$holder->query_safe('BEGIN') if $n == 1;
	$holder->query_safe("DECLARE c$n CURSOR FOR SELECT p.id, p.t, s FROM points p LEFT JOIN generate_series(1, 9) s ON true WHERE p.id = $id");
	like($holder->query_safe("FETCH FROM c$n"), qr/^$id\|.*\|1$/, "a cursor over row $id");
}
cmp_ok($node->safe_psql('postgres', $pinned), '>', 0, 'some are pinned');
is($node->safe_psql('postgres', "SELECT pinned_bytes <= size_bytes / 8 FROM lsm_stat_cache"), 't', 'not too much');
my $evictions = $node->safe_psql('postgres', 'SELECT evictions FROM lsm_stat_cache');
$node->safe_psql('postgres', join("\n\\c -\n", map { my $id = $_ % 19 * 1000; "$by_index SELECT t FROM points WHERE id = $id;" } (1 .. 600)));
cmp_ok($node->safe_psql('postgres', 'SELECT evictions FROM lsm_stat_cache'), '>', $evictions + 3, 'others want the room');
foreach my $n (1 .. 6)
{
	my $id = $n * 9000;
	my $row = $node->safe_psql('postgres', "SELECT $id || '|' || repeat(md5('$id'), 8) || '|2'");
	is($holder->query_safe("FETCH FROM c$n"), $row, "row $id is what it was");
}
$holder->query_safe('DO $$ BEGIN PERFORM 1 / (length(t) - 256) FROM points WHERE id = 500; EXCEPTION WHEN division_by_zero THEN END $$');
is($holder->query_safe('SELECT t = repeat(md5(id::text), 8) FROM points WHERE id = 501'), 't', 'an error in between');
$holder->query_safe('COMMIT');
is($node->safe_psql('postgres', $pinned), 0, 'pins end with the transaction');
$holder->query_safe('BEGIN');
$holder->query_safe('DECLARE c CURSOR FOR SELECT p.t, s FROM points p LEFT JOIN generate_series(1, 9) s ON true WHERE p.id = 54000; FETCH FROM c');
my $holder_pid = $holder->query_safe('SELECT pg_backend_pid()');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($holder_pid, 60000)");
$holder->{run}->finish;
is($node->safe_psql('postgres', $pinned), 0, 'or with the session');
$node->append_conf('postgresql.conf', "lsm.block_cache_size = '16MB'\n");
$node->restart;
is($node->safe_psql('postgres', "UPDATE points SET t = 'x' WHERE id % 1000 = 0; SELECT lsm_flush('points'), lsm_major_compact('points'); SELECT count(DISTINCT t) FROM points") =~ s/.*\n//sr,
	59941, 'compaction copies blocks as they are stored');
is($node->safe_psql('postgres', "SELECT count(*) FROM lsm_check('points')"), 0, 'and writes sound ones');

# ---- so is what has nothing to expand, and too long rows for row blocks, as it is stored, by
# who has little room
$node->append_conf('postgresql.conf', "lsm.block_cache_size = '64MB'\n");
$node->restart;
my @columns = map { "hashint8extended(i, $_) AS c$_" } (1 .. 280);
$node->safe_psql('postgres', $_)
  foreach ("CREATE TABLE plain USING lsm AS SELECT i AS id, " . join(', ', @columns) . ' FROM generate_series(1, 10000) i',
	"SELECT lsm_flush('plain')", 'CHECKPOINT', 'CREATE UNIQUE INDEX ON plain (id)', 'VACUUM ANALYZE plain',
	'SELECT sum(c1) FROM plain', 'SELECT lsm_stat_reset()');
my $reader = $node->background_psql('postgres');
my $found = 'SELECT count(*), sum(p.c1 - hashint8extended(p.id, 1)::numeric + p.c10 - hashint8extended(p.id, 10)) '
  . 'FROM generate_series(1, 10000, 2) i, LATERAL (SELECT * FROM plain WHERE id = i * 7919::int8 % 10000 + 1 OFFSET 0) p';
$reader->query_safe("$by_index SET enable_material = off");
is($reader->query_safe($found), '5000|0', "rows of blocks in shared memory, time $_") foreach (1 .. 2);
is($node->safe_psql('postgres', $point_requests), 0, 'which are found there');
is($node->safe_psql('postgres', $pinned), 0, 'and not pinned in between');
$reader->query_safe('BEGIN');
my %plain = map { $_ * 900 + 77 => $node->safe_psql('postgres', "SELECT hashint8extended($_ * 900 + 77, 1)") } (1 .. 10);
foreach my $id (sort keys %plain)
{
	$reader->query_safe("DECLARE c$id CURSOR FOR SELECT p.c1, s FROM plain p LEFT JOIN generate_series(1, 9) s ON true WHERE p.id = $id");
	is($reader->query_safe("FETCH FROM c$id"), "$plain{$id}|1", "a cursor over row $id");
}
cmp_ok($node->safe_psql('postgres', $pinned), '>', 0, 'blocks are pinned where they are');
$node->safe_psql('postgres', 'SELECT count(t) FROM big; SELECT count(t) FROM points') foreach (1 .. 3);
is($reader->query_safe("FETCH FROM c$_"), "$plain{$_}|2", "row $_ is what it was") foreach (sort keys %plain);
$reader->query_safe('COMMIT');
is($node->safe_psql('postgres', $pinned), 0, 'their pins end with the transaction');
is($reader->query_safe($found), '5000|0', 'the same rows after others have been there');
$reader->quit;

# ---- EXPLAIN (BUFFERS) tells what a scan has read: the sum over processes is what the server counts
sub explained
{
	my ($workers, $query) = @_;
	my $plan = $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = $workers; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off, FORMAT json) $query");

	return map { $plan =~ /"$_": (\d+)/ ? $1 : die "no $_ in $plan" }
	  ('LSM Blocks Read', 'LSM Blocks Wanted', 'LSM Blocks Hit', 'LSM Blocks Merged', 'LSM Requests', 'LSM Bytes Wanted', 'LSM Bytes Read');
}
my $counted = "SELECT sum(requests) || '|' || sum(bytes_wanted) || '|' || sum(bytes_read) FROM lsm_stat_io";
my $scanned = 'SELECT sum(id % 7), count(t) FROM points WHERE length(t) > 5';
foreach my $workers (0, 2)
{
	$node->restart;
	$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
	my ($read, $wanted, $hit, $merged, $requests, $bytes_wanted, $bytes_read) = explained($workers, $scanned);
	is("$requests|$bytes_wanted|$bytes_read", $node->safe_psql('postgres', $counted), "$workers workers: requests and bytes are those of the server");
	cmp_ok($requests, '>', 0, 'nothing was in the cache') && cmp_ok($bytes_read, '>=', $bytes_wanted, 'all that was wanted was read');
	cmp_ok($merged, '>', $requests, 'blocks were read together');
	cmp_ok($wanted, '>=', $read, 'each block was wanted');
	explained($workers, $scanned);
	my $all;
	($read, $all, $hit, $merged, $requests) = explained($workers, $scanned);
	is("$hit|$merged|$requests", "$all|0|0", "$workers workers: then all was found there");
}
# several requests are on their way where the kernel has io_uring, and few when a scan stops early
$node->restart;
$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
$node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; $scanned");
my ($ways, $depth, $bytes) = split /\|/, $node->safe_psql('postgres', "SELECT string_agg(method, ' '), max(max_depth), sum(bytes_read) FROM lsm_stat_io WHERE reader = 'scan' AND requests > 0");
SKIP:
{
	skip "no io_uring here ($ways)", 1 if $ways !~ /io_uring/;
	cmp_ok($depth, '>', 1, 'requests are on their way together');
}
$node->restart;
$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
$node->safe_psql('postgres', 'SELECT id FROM points LIMIT 15000');
cmp_ok($node->safe_psql('postgres', "SELECT sum(bytes_read) FROM lsm_stat_io WHERE reader = 'scan'"), '<', $bytes * 0.6, 'a quarter of the table, and some more, is read for a quarter');
# segments that are opened only to find that zone maps rule them out: what opens the next ones is on its way
$node->safe_psql('postgres', 'CREATE TABLE passed (id int, k int) USING lsm WITH (autovacuum_enabled = off)');
$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1 .. 40 LOOP INSERT INTO passed SELECT n, i FROM generate_series(1, 50) n; PERFORM lsm_flush('passed'); END LOOP; END \$\$");
is($node->safe_psql('postgres', "SELECT count(*) FROM lsm_segments('passed') WHERE kind = 'insert'"), 40, 'many segments');
foreach my $way ('auto', 'sync', 'auto with direct input')
{
	my $set = ($way =~ /sync/ ? "SET lsm.io_method = 'sync'; " : '') . ($way =~ /direct/ ? 'SET lsm.direct_io = on; ' : '');

	$node->restart;
	$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
	is($node->safe_psql('postgres', "$set SET max_parallel_workers_per_gather = 0; SELECT count(*) || '|' || sum(id) FROM passed WHERE k = 20"), '50|1275', "$way: rows of one segment");
	my ($wanted, $requests, $together) = split /\|/, $node->safe_psql('postgres', "SELECT sum(blocks_wanted), sum(requests), max(max_depth) FROM lsm_stat_io WHERE reader = 'metadata'");
	is("$wanted|$requests", '40|40', "$way: each was opened, by one request");
  SKIP:
	{
		skip "no io_uring ($way, $ways)", 1 if $way =~ /sync/ || $ways !~ /io_uring/;
		cmp_ok($together, '>', 1, "$way: requests are on their way together");
	}

	# the same of their last pages, where these are asked for bounds first; then the block cache knows those
	my $bounds = "$set SET lsm.debug_bounds_from = 0; SET max_parallel_workers_per_gather = 0; SELECT count(*) || '|' || sum(id) FROM passed WHERE k = ";
	$node->restart;
	$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
	is($node->safe_psql('postgres', $bounds . 20), '50|1275', "$way: rows of one segment, by bounds");
	my @counters = split /\|/, $node->safe_psql('postgres', "SELECT sum(blocks_wanted), sum(requests), sum(blocks_hit), max(max_depth) FROM lsm_stat_io WHERE reader = 'metadata'");
	is(join('|', @counters[0 .. 2]), '41|41|0', "$way: each was asked by one request, and one was opened");
  SKIP:
	{
		skip "no io_uring ($way, $ways)", 1 if $way =~ /sync/ || $ways !~ /io_uring/;
		cmp_ok($counters[3], '>', 1, "$way: these requests are on their way together");
	}
	is($node->safe_psql('postgres', $bounds . 21), '50|1275', "$way: rows of another one");
	is($node->safe_psql('postgres', "SELECT sum(requests) || '|' || sum(blocks_hit) FROM lsm_stat_io WHERE reader = 'metadata'"), '42|40', "$way: bounds are in the block cache");
}
$node->safe_psql('postgres', $scanned);
my $others = "SET max_parallel_workers_per_gather = 0; EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off, FORMAT %s) $scanned";
like($node->safe_psql('postgres', sprintf($others, 'text')), qr/LSM Input: blocks wanted=\d+ hit=\d+$/m, 'as text');
like($node->safe_psql('postgres', sprintf($others, 'xml')), qr/<LSM-Blocks-Wanted>\d+<\/LSM-Blocks-Wanted>.*<LSM-Bytes-Read>0<\/LSM-Bytes-Read>/s, 'as XML');
like($node->safe_psql('postgres', sprintf($others, 'yaml')), qr/LSM Blocks Wanted: \d+.*LSM Requests: 0/s, 'as YAML');
unlike($node->safe_psql('postgres', "EXPLAIN (ANALYZE, BUFFERS off) $scanned"), qr/LSM Input/, 'not without BUFFERS');
# what an increment has touched is found out once, not by each session
$node->safe_psql('postgres', $_) foreach ("UPDATE points SET t = t || 'y' WHERE id % 5 = 3", "SELECT lsm_flush('points')");
my @sessions = map { (explained(0, 'SELECT sum(id) FROM points WHERE id > 0'))[1] } (1 .. 2);
cmp_ok($sessions[1], '<', $sessions[0], 'the second session need not read the increment');
# blocks of increments are read together, too: by who finds out what they have touched, and by who needs their rows
my $increment = $node->safe_psql('postgres', "SELECT sum(blocks) FROM lsm_segments('points') WHERE kind = 'increment'");
cmp_ok($increment, '>', 20, 'an increment of many blocks');
foreach my $query ('SELECT sum(id) FROM points', 'SELECT sum(length(t)) FROM points', 'SELECT sum(length(p.t)) FROM (SELECT t FROM points OFFSET 0) p')
{
	$node->restart;
	$node->safe_psql('postgres', 'SELECT lsm_stat_reset()');
	$node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; SET lsm.enable_lsmscan = " . ($query =~ /OFFSET/ ? 'off' : 'on') . "; $query");
	cmp_ok($node->safe_psql('postgres', "SELECT sum(requests) FROM lsm_stat_io WHERE reader = 'scan'"), '<', $increment, "$query: few requests");
}
if ($node->safe_psql('postgres', 'SHOW server_version_num') >= 180000)
{
	$node->restart;
	like($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (ANALYZE, LSM) SELECT count(t) FROM points WHERE id BETWEEN 1 AND 5000"),
		qr/LSM: rows fetched=\d+.*\n\s+LSM Input: blocks wanted=\d+.*requests=\d+/, 'of index scans, too');
}

# ---- cancel and termination while requests are on their way
foreach my $way ('auto', 'sync')
{
	fill();
	my $session = $node->session('postgres');
	my $pid = $node->session_pid($session);
	my $hangs = "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $pid AND wait_event "
	  . "IS NOT NULL AND state = 'active'";

	$session->query_safe("SET lsm.io_method = '$way'; SET lsm.debug_stop = 'ahead-started:hang'");
	$node->start_query($session, $sum);
	$node->wait_until('postgres', $hangs);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	($out, $err) = $node->finish_query($session);
	like($err, qr/canceling statement/, "$way: cancelled");
	$session->query_safe("SET lsm.debug_stop = ''");
	is($session->query_safe($sum), $right, "$way: the session goes on");

	# its descriptors: those of the server, and none of the reader's
	my $path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('r')");
	my @open = grep { defined && m{/\Q$path\E$} } map { readlink } glob("/proc/$pid/fd/*");
	cmp_ok(scalar(@open), '<=', 1, "$way: files are closed");

	fill();
	$session->query_safe("SET lsm.debug_stop = 'ahead-started:hang'");
	$node->start_query($session, $sum);
	$node->wait_until('postgres', $hangs);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$node->wait_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
	eval { $session->quit };
	is($node->safe_psql('postgres', $sum), $right, "$way: another session");
}

# ---- many files, few descriptors
$node->append_conf('postgresql.conf', "max_files_per_process = 80\n");
$node->restart;
$node->safe_psql('postgres',
	join(';', map { "CREATE TABLE r$_ USING lsm AS SELECT i, md5(i::text) FROM generate_series(1, 3000) i" } 1 .. 90));
$node->safe_psql('postgres', join(';', map { "SELECT lsm_flush('r$_')" } 1 .. 90));
is( $node->safe_psql('postgres',
		'SELECT sum(n) FROM (' . join(' UNION ALL ', map { "SELECT count(md5) AS n FROM r$_" } 1 .. 90) . ') c'),
	3000 * 90, 'more files in a transaction than may be open');

# ---- a file that is too short
$node->check_ok('postgres', 'before damage', 'r');
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('r')");
$node->stop;
truncate($file, 8192 * int((-s $file) / 8192 / 2)) or die "$file: $!";
$node->start;
($status, $out, $err) = $node->psql('postgres', $sum);
isnt($status, 0, 'a short file is an error');
like($err, qr/could not read block|could not open file|unexpected data beyond EOF|invalid (block|metadata)/, 'that tells of it');
is($node->safe_psql('postgres', 'SELECT count(*) FROM r1'), 3000, 'other tables are well');
$node->stop;

# ---- counting ----

# A count needs the zone maps only, but for blocks with deleted rows: if all have some,
# they are read together, as by any scan.
$node->start;
$node->safe_psql('postgres', q{
CREATE TABLE counted (id int, t text) USING lsm WITH (lsm.block_size = '8kB', autovacuum_enabled = off);
INSERT INTO counted SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
VACUUM FREEZE counted;
DELETE FROM counted WHERE id % 100 = 0;
CHECKPOINT});
$node->restart;
is($node->safe_psql('postgres', 'SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM counted'),
	'19800', 'count of a table with deleted rows');
is( $node->safe_psql('postgres', q{
	SELECT sum(blocks_merged) > sum(requests) FROM lsm_stat_io WHERE reader = 'scan'}),
	't', 'whose blocks are read together');
$node->stop;

done_testing();
