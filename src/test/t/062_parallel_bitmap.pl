# Parallel bitmap scans: what they read of a store and of local files.  The store answers
# only when so many requests have come, which one process alone would not make.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmFaultStore;
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
my $store = LsmFaultStore->start($node->basedir . '/store');

$node->setup(conf => "lsm.store_allowed_endpoints = '"
	  . $store->endpoint
	  . "'\nlsm.block_cache_size = 0\nautovacuum = off\n");

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

my $parallel =
  'SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; '
  . 'SET cpu_tuple_cost = 1; SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; ';

# Each k has ten rows.  Those of two that are 500 apart lie 380 kB from each other, so that
# no request reads two of them.
psql(
	q{CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '} . $store->endpoint . q{', bucket 'bkt');
	CREATE USER MAPPING FOR PUBLIC SERVER cold OPTIONS (access_key_id 'k', secret_access_key 's');
CREATE TABLE h (id int, k int, v int, a text);
INSERT INTO h SELECT i, i % 3000, i % 7, (SELECT string_agg(md5((i * 48 + j)::text), '') FROM generate_series(1, 48) j)
	FROM generate_series(1, 30000) i;
CREATE INDEX h_k ON h (k);
CREATE INDEX h_id ON h (id);
CREATE TABLE t (LIKE h) USING lsm WITH (parallel_workers = 2);
CREATE INDEX t_k ON t (k);
CREATE INDEX t_id ON t (id)});
foreach my $part (0 .. 5)
{
	psql(
		qq{INSERT INTO t SELECT * FROM h WHERE id > $part * 5000 AND id <= ($part + 1) * 5000;
SELECT lsm_flush('t');
SELECT lsm_major_compact('t')});
}
psql('VACUUM ANALYZE t, h');

my $few = 'SELECT id, length(a) FROM t WHERE k IN (5, 505, 1005, 1505, 2005, 2505) ORDER BY id';
my $range = 'SELECT count(*), sum(v), min(a) FROM t WHERE id BETWEEN 5000 AND 25000';

sub plan_ok
{
	my ($sql) = @_;

	like(psql("$parallel EXPLAIN (COSTS off) $sql"), qr/Parallel Custom Scan \(LsmBitmapScan\) on t/, "in parallel: $sql");
	return;
}

# What a query has done of one kind, in a session of its own, by all of its processes.
sub io_of
{
	my ($column, $sql, $settings) = @_;

	psql('SELECT lsm_stat_reset()');
	psql("$settings $sql");
	return psql("SELECT sum($column) FROM lsm_stat_io WHERE reader = 'bitmap'");
}

# ---- local files ----

foreach my $sql ($few, $range)
{
	plan_ok($sql);
	$node->same_ok('postgres', $parallel . $sql, $sql =~ s/\bt\b/h/gr, "its rows: $sql");
}
my $alone = "$parallel SET max_parallel_workers_per_gather = 0;";
is(io_of('blocks_wanted', $range, $parallel),
	io_of('blocks_wanted', $range, $alone), 'no block is read by two processes');
cmp_ok(
	io_of('requests', $range, $parallel) * 4,
	'<', io_of('blocks_wanted', $range, $alone),
	'each process reads several at a time');

# ---- a store ----

psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold'); SELECT lsm_major_compact('t')});
is(psql(q{SELECT location, count(*) > 2 FROM lsm_segments('t') GROUP BY 1}),
	'cold|t', 'the table is in the store');

# The same; returns how many requests to the store it took.
sub gets
{
	my ($sql, $settings) = @_;

	$store->requests('');
	$node->same_ok('postgres', $settings . $sql, $sql =~ s/\bt\b/h/gr, $sql);
	return scalar($store->requests('GET'));
}

plan_ok($few);
is(gets($few, $parallel), 60, 'sixty rows are sixty requests');
$store->fault('GET', 'gate:60', 1000);
is(gets($few, $parallel), 60, 'of two processes or more');
is($store->most_at_a_time, 60, 'which are under way together');
$store->fault('', undef);
plan_ok($range);
cmp_ok(gets($range, $parallel), '<=', 60, 'a range takes few');
cmp_ok(gets($range, $parallel . 'SET parallel_leader_participation = off; '), '<=', 60, 'and by workers alone');

# ---- errors end all processes ----

my $keys = psql(q{SELECT string_agg(object_key, '|') FROM lsm_segments('t')});

$store->fault('GET', 'status:403:AccessDenied', 1);
like(
	$node->error_of('postgres', $parallel . $few),
	qr/could not read object "(?:$keys)" of store "cold".*AccessDenied/,
	'one that fails is the error of the query');
$store->fault('GET', 'hang', 1000);
like(
	$node->error_of('postgres', "SET statement_timeout = '500ms'; $parallel$few"),
	qr/^57014: canceling statement due to statement timeout/,
	'a query can be cancelled while its processes wait');
$store->fault('', undef);
gets($few, $parallel);
gets("$few LIMIT 2", $parallel);
$node->check_ok('postgres', 'in the end');
$store->stop;
$node->stop;
done_testing();
