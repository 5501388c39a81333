# Rows of one query that lie far apart in a store: how many requests they take, and that
# these are under way together.  The store answers only when so many have come.

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

sub make_server
{
	my ($name, $options) = @_;

	psql(
		qq{CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
			OPTIONS (type 's3', endpoint '} . $store->endpoint . qq{', bucket 'bkt'$options);
		CREATE USER MAPPING FOR PUBLIC SERVER $name
			OPTIONS (access_key_id 'k', secret_access_key 's')});
	return;
}

# Each k has ten rows, 900 kB from each other, so that no request reads two of them.
make_server('cold', '');
make_server('narrow', q{, parallel_requests '3'});
psql(
	q{CREATE TABLE h (id int PRIMARY KEY, k int, v int, a text);
INSERT INTO h SELECT i, i % 3000, i % 7, (SELECT string_agg(md5((i * 16 + j)::text), '') FROM generate_series(1, 16) j)
	FROM generate_series(1, 30000) i;
CREATE INDEX h_k ON h (k);
CREATE TABLE t (LIKE h) USING lsm;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE INDEX t_k ON t (k);
ALTER TABLE t SET (lsm.cold_store = 'cold')});
foreach my $part (0 .. 5)
{
	psql(
		qq{INSERT INTO t SELECT * FROM h WHERE id > $part * 5000 AND id <= ($part + 1) * 5000;
SELECT lsm_flush('t');
SELECT lsm_major_compact('t')});
}
psql('VACUUM ANALYZE t');
is(psql(q{SELECT location, count(*) > 2 FROM lsm_segments('t') GROUP BY 1}),
	'cold|t', 'the table is in the store');

# Run a query in a session of its own; returns how many requests it took.
sub gets
{
	my ($sql, $settings) = @_;

	$store->requests('');
	$node->same_ok('postgres', ($settings // '') . $sql, $sql =~ s/\bt\b/h/gr, $sql);
	return scalar($store->requests('GET'));
}

# ---- bitmap scans ----

my $scattered = 'SELECT id, length(a) FROM t WHERE k = 5 ORDER BY id';

is(gets($scattered), 10, 'ten rows are ten requests');
$store->fault('GET', 'gate:10', 1000);
is(gets($scattered), 10, 'which are under way together');
is($store->most_at_a_time, 10, 'all of them');
$store->fault('GET', 'gate:20', 1000);
is(gets('SELECT id, v FROM t WHERE k IN (5, 1505) ORDER BY id'), 20, 'so are those of a list');
$store->fault('GET', 'gate:5', 1000);
is(gets('SELECT id, v FROM t WHERE id = ANY (ARRAY[100, 6100, 12100, 18100, 24100]) ORDER BY id'),
	5, 'and of keys');
$store->fault('GET', 'gate:8', 1000);
cmp_ok(
	gets(
		'SELECT x.i, count(a) FROM (VALUES (7), (8)) x (i), LATERAL (SELECT a FROM t WHERE k = x.i OFFSET 0) y GROUP BY x.i ORDER BY x.i',
		'SET enable_hashjoin = off; SET enable_mergejoin = off; '),
	'<=', 20, 'on the inner side of a join, too');
cmp_ok($store->most_at_a_time, '>=', 8, 'which waits for many at a time');

# ---- index scans ----

# Run a query in a session that has what it needs first; returns requests, and how many of
# them were under way at a time.
sub after_first
{
	my ($settings, $first, $sql, $gate, $name) = @_;
	my $session = $node->session('postgres');

	$session->query_safe($settings);
	$session->query_safe($first);
	$store->requests('');
	$store->fault('GET', "gate:$gate", 1000);
	is( $session->query_safe($sql),
		psql($sql =~ s/\bt\b/h/gr =~ s/\bp\b/hp/gr),
		"$name: the same rows");
	my $most = $store->most_at_a_time;
	$store->fault('', undef);
	$session->quit;
	return (scalar($store->requests('GET')), $most);
}

psql('CREATE INDEX t_k_id ON t (k, id)');
my $by_index = q{SET enable_bitmapscan = off; SET enable_seqscan = off; SET lsm.enable_lsmscan = off};
my ($requests, $most) = after_first(
	$by_index,
	'SELECT id, v FROM t WHERE k = 7 ORDER BY id LIMIT 4',
	'SELECT id, v FROM t WHERE k = 7 ORDER BY id',
	6, 'an index scan');
is($requests, 6, 'asks for each block once');
is($most, 6, 'for as many at a time as it has had');
($requests, $most) = after_first(
	$by_index,
	'SELECT id, v FROM t WHERE k = 8 ORDER BY id DESC LIMIT 4',
	'SELECT id, v FROM t WHERE k = 8 ORDER BY id DESC LIMIT 6',
	6, 'backward');
is($requests, 6, 'a few more than a LIMIT wants');
is($most, 6, 'as many at a time');
($requests, $most) = after_first(
	$by_index, 'SELECT 1',
	'SELECT id, v FROM t WHERE k = 9 ORDER BY id LIMIT 1',
	1, 'a LIMIT of one row');
is($requests, 1, 'is one request');
my $cursor = $node->session('postgres');
$cursor->query_safe("$by_index; BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE k = 10 ORDER BY id");
is( $cursor->query_safe('FETCH 4 FROM c; FETCH BACKWARD 2 FROM c; FETCH 5 FROM c; FETCH LAST FROM c; FETCH BACKWARD ALL FROM c; COMMIT'),
	join("\n", 10, 3010, 6010, 9010, 6010, 3010, 6010, 9010, 12010, 15010, 18010, 27010,
		 map { $_ * 3000 + 10 } reverse 0 .. 8),
	'a cursor that is turned around');
$cursor->quit;

# ---- nested loops ----

psql(
	q{CREATE TABLE keys (n int PRIMARY KEY, id int, k int, x text);
INSERT INTO keys SELECT i, (i * 1500 + 700) % 30000, i * 100, repeat('x', i) FROM generate_series(1, 19) i;
INSERT INTO keys VALUES (100, NULL, NULL, NULL), (101, -1, -1, 'none');
ANALYZE keys});
my $loops = q{SET enable_hashjoin = off; SET enable_mergejoin = off; SET lsm.enable_lsmscan = off};
my $join = 'SELECT n, x, t.v, length(a) FROM keys LEFT JOIN t ON t.id = keys.id ORDER BY n';

like(psql("$loops; EXPLAIN (COSTS off) $join"), qr/LsmLookAhead.*Looked Up In: t_pkey/s, 'a nested loop looks ahead');
unlike(psql("$loops; SET lsm.enable_lookahead = off; EXPLAIN (COSTS off) $join"), qr/LsmLookAhead/, 'if it may');
unlike(psql("$loops; EXPLAIN (COSTS off) " . $join =~ s/\bt\b/h/gr), qr/LsmLookAhead/, 'not into other tables');
($requests, $most) = after_first($loops, 'SELECT v FROM t WHERE id = 2200', $join, 2, 'a nested loop');
is($requests, 18, 'asks for each block once');
cmp_ok($most, '>=', 2, 'for several at a time');

like(
	psql("$loops; EXPLAIN (ANALYZE, COSTS off) $join"),
	qr/Looked Up In: t_pkey.*Rows Looked Up Ahead: 20.*Store: requests=\d+.*Index Scan using t_pkey/s,
	'EXPLAIN tells of it');

# ---- what bounds them ----

psql(q{ALTER SERVER cold OPTIONS (ADD parallel_requests '3')});
$store->fault('GET', 'gate:3', 1000);
is(gets($scattered), 10, 'ten requests where three may be under way');
is($store->most_at_a_time, 3, 'are no more than that at a time');
psql(q{ALTER SERVER cold OPTIONS (DROP parallel_requests)});

# ---- rows near each other are read together ----

$store->fault('', undef);
is(gets('SELECT id, v FROM t WHERE id IN (1, 20, 100, 150, 200, 290) ORDER BY id'),
	1, 'rows near each other are one request');
cmp_ok(gets('SELECT sum(v) FROM t WHERE id BETWEEN 10000 AND 10300'), '<=', 2, 'a range is two at most');
cmp_ok(gets('SELECT sum(v), min(a) FROM t'), '<=', 12, 'all of the table takes few');

# ---- changes of some of the rows ----

foreach my $table ('t', 'h')
{
	psql(
		"UPDATE $table SET v = v + 100 WHERE id = 3005;
		DELETE FROM $table WHERE id = 6005;
		UPDATE $table SET id = -id WHERE id = 9005;
		INSERT INTO $table VALUES (40000, 5, 1, 'new')");
}
$store->fault('GET', 'gate:7', 1000);
cmp_ok(gets($scattered =~ s/length\(a\)/length(a), v/r),
	'<=', 10, 'rows of which some have changed');
cmp_ok($store->most_at_a_time, '>=', 7, 'are read together, too');
$store->fault('', undef);
psql(q{SELECT lsm_flush('t')});
is( psql('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*), sum(v) FROM t WHERE k = 5; COMMIT'),
	psql('SELECT count(*), sum(v) FROM h WHERE k = 5'),
	'a serializable reader finds the same');

# ---- large values ----

psql(
	q{CREATE TABLE large (id int PRIMARY KEY, n int, v bytea) USING lsm WITH (lsm.cold_store = 'cold');
ALTER TABLE large ALTER v SET STORAGE EXTERNAL;
INSERT INTO large SELECT i, i, convert_to(repeat(md5(i::text), 6400), 'UTF8') FROM generate_series(1, 60) i;
INSERT INTO large VALUES (100, 0, convert_to(repeat(md5('long'), 375000), 'UTF8'));
SELECT lsm_flush('large'); SELECT lsm_major_compact('large')});
is(psql(q{SELECT DISTINCT location FROM lsm_segments('large')}), 'cold', 'large values go there');
my $reader = $node->session('postgres');
$reader->query_safe('SELECT n FROM large WHERE id = 100');
$store->fault('GET', 'gate:3', 1000);
is($reader->query_safe(q{SELECT md5(v) = md5(repeat(md5('long'), 375000)) FROM large WHERE id = 100}),
	't', 'the parts of a long value are under way together');
is($store->most_at_a_time, 3, 'all of them');
$store->fault('', undef);
$store->requests('');
is( $reader->query_safe(
		q{SELECT count(*) FROM large WHERE md5(v) = md5(repeat(md5(id::text), 6400)) AND id <= 60}),
	60,
	'values of many rows');
cmp_ok(scalar($store->requests('GET')), '<', 12, 'take few requests');
$store->fault('GET', 'status:403:AccessDenied', 1);
$reader->query('SELECT md5(v) FROM large WHERE id = 100');
my ($again) = $reader->query(q{SELECT md5(v) = md5(repeat(md5('long'), 375000)) FROM large WHERE id = 100});
is($again, 't', 'one is read again after an error');
$reader->quit;

# ---- errors end all of them ----

my $keys = psql(q{SELECT string_agg(object_key, '|') FROM lsm_segments('t')});

$store->fault('GET', 'status:403:AccessDenied', 1);
like(
	$node->error_of('postgres', $scattered),
	qr/could not read object "(?:$keys)" of store "cold".*AccessDenied/,
	'one that fails is the error of the query');
$store->fault('GET', 'hang', 1000);
like(
	$node->error_of('postgres', "SET statement_timeout = '500ms'; $scattered"),
	qr/^57014: canceling statement due to statement timeout/,
	'a query can be cancelled while it waits');
$store->fault('', undef);
gets($scattered);
gets("$scattered LIMIT 2");
psql(q{SELECT lsm_major_compact('t')});
gets($scattered);
$node->check_ok('postgres', 'in the end');
$store->stop;
$node->stop;
done_testing();
