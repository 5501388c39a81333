# What asks nothing of a store: starting, recovery, replay, promotion, planning, and DDL, as long
# as there are no workers.  Their first visit only lists what the store has.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;
use LsmFaultStore;

my $node = LsmStoreNode->new('main');
my $store = LsmFaultStore->start($node->basedir . '/store');

$node->setup(
	conf => "lsm.store_allowed_endpoints = '"
	  . $store->endpoint
	  . "'\nlsm.block_cache_size = 0\nautovacuum = off\nmax_prepared_transactions = 5\nwal_retrieve_retry_interval = 100ms\n");

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# The store sees nothing of it.
sub quiet_ok
{
	my ($label, $what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$store->requests('');
	$what->();
	return is(join(' | ', $store->requests('')), '', "no request: $label");
}

# The same for statements.
sub quiet_sql_ok
{
	my ($on, $sql) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return quiet_ok($sql, sub { $on->safe_psql('postgres', $sql) });
}

sub move
{
	my ($table) = @_;

	psql("SELECT lsm_flush('$table')");
	psql("SELECT lsm_major_compact('$table')");
	return;
}

psql(
	q{CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '} . $store->endpoint . q{', bucket 'bkt');
	CREATE USER MAPPING FOR PUBLIC SERVER cold OPTIONS (access_key_id 'k', secret_access_key 's')});
foreach my $table ('t', 'dropped', 'prepared', 'truncated')
{
	psql(
		qq{CREATE TABLE $table (id int PRIMARY KEY, v int, a text) USING lsm WITH (lsm.cold_store = 'cold');
		ALTER TABLE $table ALTER a SET STORAGE external;
		INSERT INTO $table SELECT i, i % 7, CASE WHEN i % 1000 = 0 THEN repeat(md5(i::text), 1000) ELSE md5(i::text) END
			FROM generate_series(1, 5000) i});
	move($table);
	psql("ANALYZE $table");
}
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'cold', 'a cold table');
$store->requests('');
psql('SELECT a FROM t WHERE id = 7');
isnt(scalar($store->requests('')), 0, 'the store sees who reads a row');

# Planning, on what no session has opened yet.
quiet_sql_ok($node, $_)
  foreach 'EXPLAIN SELECT * FROM t WHERE id < 10 AND v = 3 ORDER BY id LIMIT 5',
  q{EXPLAIN SELECT * FROM t JOIN truncated u USING (id) WHERE u.a LIKE '0%'},
  'EXPLAIN SELECT v, count(*), max(a) FROM t GROUP BY v',
  'EXPLAIN UPDATE t SET v = 0 WHERE a > $$5$$', 'SELECT count(*) FROM t', 'SELECT * FROM t WHERE id = 0';

# Recovery of moves, changes and DDL.
my $standby = LsmStoreNode->new('standby');
$node->backup('b');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
my $ends = 'EXPLAIN SELECT * FROM t WHERE id < 10 OR id > 4990';
psql('UPDATE t SET v = v + 1 WHERE id % 3 = 0 OR id IN (1, 5000)');
quiet_sql_ok($node, $ends);
psql(q{SELECT lsm_flush('t')});
quiet_sql_ok($node, $ends);
move('t');
quiet_sql_ok($node, $ends);
psql(q{ALTER TABLE truncated RESET (lsm.cold_store)});
move('truncated');
psql(q{ALTER TABLE truncated SET (lsm.cold_store = 'cold')});
move('truncated');
quiet_sql_ok($node, $_)
  foreach 'ALTER TABLE t ADD COLUMN n int, ADD COLUMN d int DEFAULT 5', 'ALTER TABLE t DROP COLUMN n',
  'ALTER TABLE t RENAME v TO w',
  'BEGIN; TRUNCATE truncated; DROP TABLE dropped; ROLLBACK',
  'TRUNCATE truncated', 'DROP TABLE dropped', q{BEGIN; DROP TABLE prepared; PREPARE TRANSACTION 'p'};
quiet_ok('replay', sub { $node->wait_for_catchup($standby, 'replay', $node->lsn('insert')) });
quiet_ok('recovery after a crash', sub { $node->crash_and_start });
quiet_sql_ok($node, q{COMMIT PREPARED 'p'});
quiet_ok('a restart', sub { $node->restart });
quiet_sql_ok($node, 'EXPLAIN SELECT * FROM t WHERE w = 3');
is(psql('SELECT count(*), sum(d), count(DISTINCT a) FROM t'), '5000|25000|5000', 'all rows are there');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
quiet_sql_ok($standby, 'EXPLAIN SELECT * FROM t WHERE w = 3');
quiet_ok('a restart of a standby', sub { $standby->restart });
quiet_ok('promotion', sub { $standby->promote });
is($standby->safe_psql('postgres', 'SELECT count(*), sum(d), count(DISTINCT a) FROM t'),
	'5000|25000|5000', 'and on the promoted standby');
$standby->check_ok('postgres', 'promoted');
$standby->stop;

# Workers look at each store.
quiet_ok('before workers', sub { psql('SELECT 1') });
$node->set_workers(1);
$node->wait_until('postgres', 'SELECT list_requests >= 2 FROM lsm_stat_store');
$node->set_workers(0);
my @requests = $store->requests('');
isnt(scalar(@requests), 0, 'workers visit the store');
is(join(' | ', grep { !m{^GET /bkt/?\?} } @requests), '', 'and list what it has');
$node->check_ok('postgres', 'in the end');
$store->stop;
$node->stop;
done_testing();
