# What EXPLAIN and the views tell of requests to a store is what the store has seen; rows
# come before all of their request has; ANALYZE asks for many blocks at a time.

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

my $version = int(psql('SHOW server_version_num') / 10000);

psql(
	qq{CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '} . $store->endpoint . q{', bucket 'bkt');
	CREATE USER MAPPING FOR PUBLIC SERVER cold
		OPTIONS (access_key_id 'k', secret_access_key 's');
	CREATE TABLE t (id int PRIMARY KEY, k int, v int, a text) USING lsm;
	INSERT INTO t SELECT i, i % 3000, i % 7, (SELECT string_agg(md5((i * 16 + j)::text), '') FROM generate_series(1, 16) j)
		FROM generate_series(1, 30000) i;
	CREATE INDEX t_k ON t (k)});
psql(q{SELECT lsm_flush('t'), lsm_major_compact('t')});
psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
psql(q{SELECT lsm_major_compact('t')});
psql('VACUUM ANALYZE t');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'cold', 'the table is in the store');

# ---- counters ----

# Requests and bytes: of the table, and of segments' readers.
my $counters = q{SELECT store_requests || ' ' || store_bytes_read FROM lsm_stat_tables WHERE relname = 't'
	UNION ALL SELECT sum(requests) || ' ' || sum(bytes_read) FROM lsm_stat_io WHERE method = 'store'};

sub counted
{
	return map { [ split / / ] } split /\n/, psql($counters);
}

# What EXPLAIN says of a query, which is what everybody else says, too.
sub explained_ok
{
	my ($name, $node_name, $sql, $settings) = @_;
	my @before = counted();

	$store->requests('');
	my $plan = psql(($settings // '') . "; EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON" . ($version >= 18 ? ', LSM' : '') . ") $sql");
	my $seen = () = $store->requests('GET');
	my @after = counted();
	my ($requests, $bytes) = (0, 0);

	$requests += $1 while $plan =~ /"LSM Store Requests": (\d+)/g;
	$bytes += $1 while $plan =~ /"LSM Store Bytes": (\d+)/g;
	like($plan, qr/$node_name/, "$name: $node_name");
	cmp_ok($seen, '>', 0, "$name: there are requests");
	is($requests, $seen, "$name: EXPLAIN tells of them");
	cmp_ok($bytes, '>=', $requests * 100, "$name: and of their bytes");
	foreach my $i (0, 1)
	{
		is_deeply(
			[ map { $after[$i][$_] - $before[$i][$_] } 0, 1 ],
			[ $requests, $bytes ],
			"$name: and so does " . ('lsm_stat_tables', 'lsm_stat_io')[$i]);
	}
	return;
}

my $parallel =
  'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2';

explained_ok('a scan', 'LsmScan', 'SELECT id, a FROM t WHERE v = 3');
explained_ok('an aggregate', 'LsmAgg', 'SELECT sum(v), min(a) FROM t WHERE a > \'8\'');
explained_ok('a bitmap scan', 'LsmBitmapScan', 'SELECT id, a FROM t WHERE k = 5');
explained_ok('workers', 'Gather', 'SELECT id, a FROM t WHERE v = 3', $parallel);
explained_ok('workers of an aggregate', 'Gather', 'SELECT sum(v), min(a) FROM t', $parallel);
explained_ok('two scans', 'InitPlan',
	'SELECT id, a FROM t WHERE v = (SELECT min(v) FROM t WHERE a > \'\')');
explained_ok('an inner side that runs again',
	'Nested Loop',
	'SELECT x.i, count(a) FROM (VALUES (7), (8)) x (i), LATERAL (SELECT a FROM t WHERE k = x.i OFFSET 0) y GROUP BY x.i',
	'SET enable_hashjoin = off; SET enable_mergejoin = off');
explained_ok('an index scan', 'Index Scan', 'SELECT id, a FROM t WHERE id = 77',
	'SET enable_bitmapscan = off; SET lsm.enable_lsmscan = off')
  if $version >= 18;
like(
	psql(q{EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id, a FROM t WHERE k = 5}),
	qr/^ *LSM Store: requests=\d+ bytes=\d+$/m,
	'they are in the text, too');
unlike(
	psql(
		q{SET lsm.enable_lsmscan = on; EXPLAIN (ANALYZE, COSTS OFF) SELECT id, a FROM t WHERE a IS NULL AND id < 0}),
	qr/LSM Store/,
	'but not where there were none');

is(psql(q{SELECT bool_and(waits > 0 AND waits <= requests AND max_depth > 0 AND blocks_wanted >= requests)
		FROM lsm_stat_io WHERE method = 'store' AND reader IN ('scan', 'bitmap')}),
	't', 'how many of them were waited for, and were under way, is counted');

# ---- rows that come before their request has ended ----

my $session = $node->background_psql('postgres');

$store->fault('GET', 'stall', 1);
$session->query_safe('BEGIN');
$session->query_safe(q{DECLARE c CURSOR FOR SELECT id, length(a) FROM t WHERE v >= 0});
is($session->query_safe('FETCH 3 FROM c'), "1|512\n2|512\n3|512",
	'rows of a request that gets no further');
$store->fault('', undef);
$session->query_safe('ROLLBACK');
$session->quit;
is( psql(q{SELECT count(*), sum(id), sum(length(a)) FROM t WHERE v >= 0}),
	'30000|450015000|15360000', 'and all of them');

my $keys = psql(q{SELECT string_agg(object_key, '|') FROM lsm_segments('t')});

# half of a request's bytes have been used when it is sent again
$store->fault('GET', 'cut', 1);
is( psql(q{SELECT count(*), sum(id), sum(length(a)) FROM t WHERE v >= 0}),
	'30000|450015000|15360000', 'those of a request that was cut off and sent again');
$store->fault('GET', 'damage', 1);
like(
	$node->error_of('postgres', q{SELECT count(*), sum(length(a)) FROM t WHERE v >= 0}),
	qr/^XX001: invalid block \d+ in object "(?:$keys)" of store "cold"/,
	'damage is found in what comes bit by bit');
$store->fault('GET', 'shift', 1000);
like(
	$node->error_of('postgres', q{SELECT count(*), sum(length(a)) FROM t WHERE v >= 0}),
	qr/^XX001: could not read object "(?:$keys)" of store "cold"/,
	'and so is a range that is another');
$store->fault('', undef);

# ---- samples ----

# Requests of a statement, in a session of its own.
sub gets
{
	my ($sql) = @_;

	$store->requests('');
	psql($sql);
	return scalar(() = $store->requests('GET'));
}

# The table has 104 LBs, which are all sampled.
cmp_ok(gets('ANALYZE t'), '<=', 8, 'ANALYZE of a whole table takes few requests');
if ($version >= 17)
{
	$store->fault('GET', 'gate:2', 1000);
	cmp_ok(gets('ANALYZE t'), '<=', 8, 'which are under way together');
	$store->fault('', undef);
}
cmp_ok(gets('SELECT count(*) FROM t TABLESAMPLE BERNOULLI (50)'),
	'<=', 8, 'so does a sample from all of it');
is(psql('SELECT count(a), sum(id) FROM t TABLESAMPLE SYSTEM (100)'),
	'30000|450015000', 'a sample of all rows has all');
is( psql(
		q{SELECT bool_and(n_distinct = -1 AND histogram_bounds IS NOT NULL AND correlation = 1)
		FROM pg_stats WHERE tablename = 't' AND attname = 'id'}),
	't',
	'what ANALYZE has found is right');
psql('UPDATE t SET v = v + 10 WHERE id % 100 = 1; DELETE FROM t WHERE id % 100 = 2; INSERT INTO t SELECT i, i, i, i FROM generate_series(40001, 40010) i');
cmp_ok(gets('ANALYZE t'), '<=', 8, 'ANALYZE of a table with changes');
is(psql(q{SELECT reltuples FROM pg_class WHERE relname = 't'}), 29710, 'counts its rows');
is(psql('SELECT count(a) FROM t TABLESAMPLE BERNOULLI (100)'), 29710, 'and so does a sample');

# ---- the size of requests ----

my $all = gets('SELECT sum(v) FROM t');
my $small = gets('SET lsm.store_read_size = 64; SELECT sum(v) FROM t');
cmp_ok($small, '>=', psql(q{SELECT sum(stored_bytes) / 65536 FROM lsm_segments('t') WHERE location = 'cold'}),
	'requests are no longer than they may be');
cmp_ok($small, '>', 8 * $all, 'and long ones are few');

$node->check_ok('postgres', 'in the end');
$store->stop;
$node->stop;
done_testing();
