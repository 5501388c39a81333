# More tables than fit into small memory: a transaction may use as many lsm tables as it may
# lock, as it does by way of a partitioned table, or pg_dump by one after the other.  There is
# memory for the memtable indexes of a sixteenth of them at a time.  Workers come to all of them,
# though they are more than there is room for requests.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use PostgreSQL::Test::Utils;

my $tables = 2100;
my $node = LsmNode->new('main');
$node->setup(conf => "autovacuum = off\nlsm.memtable_size = 4MB\nlsm.compaction_workers = 0\nmax_connections = 20\nmax_locks_per_transaction = 400\n");

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# in two levels, as a table with many partitions takes long to make
psql("CREATE TABLE heap (id int, v int) USING heap;
	CREATE TABLE lsm (id int, v int) PARTITION BY RANGE (id);
	SELECT format('CREATE TABLE part_%s PARTITION OF lsm FOR VALUES FROM (%s) TO (%s) PARTITION BY RANGE (id)', i, i * 500, i * 500 + 500)
	FROM generate_series(0, ($tables - 1) / 50) i \\gexec
	SELECT format('CREATE TABLE lsm_%s PARTITION OF part_%s FOR VALUES FROM (%s) TO (%s) USING lsm', i, i / 50, i * 10, i * 10 + 10)
	FROM generate_series(0, $tables - 1) i \\gexec
	INSERT INTO heap SELECT i * 5, i FROM generate_series(0, 2 * $tables - 1) i;
	INSERT INTO lsm SELECT * FROM heap;
	UPDATE lsm SET v = v + 0");

# sessions that take the memory for indexes from each other: nobody fails for that
my $script = $node->basedir . '/script';
append_to_file($script, "\\set t random(0, $tables - 1)\nSELECT count(*), sum(v) FROM lsm_:t;\n");
$node->command_ok([ 'pgbench', '-n', '-f', $script, '-c', 6, '-j', 2, '-t', 1500, $node->connstr('postgres') ],
	'tables that are read one by one');
$node->safe_psql('postgres', 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; '
	. 'SELECT count(*) FROM lsm');

# all of them are used by one statement
my $sum = 'SELECT count(*), sum(v), min(id), max(id) FROM %s';
$node->same_ok('postgres', sprintf($sum, 'heap'), sprintf($sum, 'lsm'), 'a sum over all');
psql('UPDATE heap SET v = v + 1; DELETE FROM heap WHERE id % 50 = 5');
psql('BEGIN; UPDATE lsm SET v = v + 1; SAVEPOINT s; DELETE FROM lsm; ROLLBACK TO s; '
	  . 'DELETE FROM lsm WHERE id % 50 = 5; COMMIT');
$node->same_ok('postgres', 'SELECT * FROM heap ORDER BY id', 'SELECT * FROM lsm ORDER BY id', 'rows of all after changes');

# a crash, and a database that is dumped in one transaction
$node->crash_and_start;
$node->same_ok('postgres', 'SELECT * FROM heap ORDER BY id', 'SELECT * FROM lsm ORDER BY id', 'after a crash');
$node->command_ok(
	[ 'pg_dump', '-d', $node->connstr('postgres'), '-t', 'lsm*', '-t', 'part_*', '-f', $node->basedir . '/dump' ], 'pg_dump of all');
psql('CREATE DATABASE copy');
$node->safe_psql('copy', 'CREATE EXTENSION lsm');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-1', '-d', $node->connstr('copy'), '-f', $node->basedir . '/dump' ],
	'restored in one transaction');
is($node->safe_psql('copy', 'SELECT count(*), sum(v), sum(id) FROM lsm'), psql('SELECT count(*), sum(v), sum(id) FROM heap'),
	'the copy has the rows');
is($node->safe_psql('copy', "SELECT count(*) FROM pg_class JOIN pg_am a ON a.oid = relam WHERE amname = 'lsm'"), $tables, 'of lsm tables');

$node->check_ok('postgres', 'of two tables', 'lsm_7', 'lsm_2099');

# all need a compaction
my $increments = q{SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam, LATERAL lsm_segments(c.oid) s
	WHERE amname = 'lsm' AND s.kind = 'increment' AND s.rows > 1};
my $flush = q{SELECT count(lsm_flush(c.oid)) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'lsm'};

psql("TRUNCATE lsm; INSERT INTO lsm SELECT i % ($tables * 10), 0 FROM generate_series(0, $tables * 100 - 1) i");
psql($flush);
psql('UPDATE lsm SET v = 1');
psql($flush);
is(psql($increments), $tables, 'increments in all tables');
$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.compaction_workers = 2');
$node->reload;
$node->wait_until('postgres', "SELECT ($increments) = 0");
is(psql('SELECT count(*), sum(v) FROM lsm'), ($tables * 100) . '|' . ($tables * 100), 'rows of compacted tables');

# so do flushes, where memory is used up by tables each of which has little
my $flushes = q{SELECT sum(flushes) FROM lsm_stat_tables WHERE relname LIKE 'lsm\_%'};
my $before = psql($flushes);

append_to_file($script, "UPDATE lsm_:t SET v = v + 1;\n");
foreach my $round (1 .. 100)
{
	$node->command_ok([ 'pgbench', '-n', '-f', $script, '-c', 6, '-j', 2, '-t', 200, $node->connstr('postgres') ], "round $round of updates");
	last if psql($flushes) > $before + 20;
}
cmp_ok(psql($flushes), '>', $before + 20, 'small memtables are flushed for their memory');
$node->check_ok('postgres', 'of the same tables', 'lsm_7', 'lsm_2099');
$node->stop;
done_testing();
