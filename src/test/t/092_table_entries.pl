# Shared entries of tables that a transaction uses stay while others use more tables than there are
# entries, whether its process names them or they are counted; those of sessions at rest go, and
# come back.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('entries');

# 2048 entries, the least there are
$node->setup(conf => "autovacuum = off\nfsync = off\nmax_connections = 12\nmax_locks_per_transaction = 40\n");

# more than a process has room to name
my $tables = 20;

sub of_all
{
	my ($sql) = @_;

	return join('; ', map { $sql =~ s/%/$_/gr } 1 .. $tables);
}

sub sums
{
	return $node->safe_psql('postgres', 'SELECT ' . join(' + ', map { "(SELECT sum(v) FROM t$_)" } 1 .. $tables));
}

$node->safe_psql('postgres', of_all('CREATE TABLE t% (id int PRIMARY KEY, v int) USING lsm; INSERT INTO t% SELECT g, 0 FROM generate_series(1, 10) g'));

# entries without a memtable index go first
sub flush_all
{
	return $node->safe_psql('postgres', of_all(q{SELECT lsm_flush('t%')}));
}

# Other tables, each in a transaction of its own, throw all entries out that nobody uses.
my $others = $node->session('postgres');

$others->query_safe(q{
	SET client_min_messages = warning;
	DO $$ BEGIN FOR i IN 1 .. 2100 LOOP
		EXECUTE format('CREATE TEMP TABLE other%s (a int) USING lsm', i);
		COMMIT;
	END LOOP; END $$});

sub use_others
{
	$others->query_safe(q{
	DO $$ DECLARE found int; BEGIN FOR i IN 1 .. 2100 LOOP
		EXECUTE format('SELECT count(*) FROM other%s', i) INTO found;
		IF found <> 0 THEN
			RAISE EXCEPTION 'table %: % rows', i, found;
		END IF;
		COMMIT;
	END LOOP; END $$});
	return;
}

my $session = $node->session('postgres');

# in a transaction it comes back to what it has used in another
foreach my $round (1 .. 2)
{
	flush_all();
	$session->query_safe(of_all('SELECT count(*) FROM t%'));
	$session->query_safe('BEGIN; ' . of_all('SELECT count(*) FROM t%'));
	use_others();
	$session->query_safe(of_all('UPDATE t% SET v = v + 1'));
	use_others();
	is(sums(), ($round - 1) * 10 * $tables, "round $round: nothing is seen before the commit");
	$session->query_safe('COMMIT');
	is(sums(), $round * 10 * $tables, 'all is seen after it');

	# thrown out
	use_others();
	is(sums(), $round * 10 * $tables, 'and by those who have to look the tables up');
}

# a part is rolled back; an error in the middle
$session->query_safe('BEGIN; SAVEPOINT s; ' . of_all('UPDATE t% SET v = v + 1') . '; ROLLBACK TO s');
use_others();
$session->query_safe(of_all('UPDATE t% SET v = v + 2') . '; COMMIT');
is(sums(), 4 * 10 * $tables, 'after a savepoint');
$session->query('BEGIN; ' . of_all('UPDATE t% SET v = v + 1') . '; SELECT 1 / 0');
like($session->{stderr}, qr/division by zero/, 'an error');
$session->{stderr} = '';
use_others();
$session->query_safe('ROLLBACK');
is(sums(), 4 * 10 * $tables, 'after an error');
$session->query_safe(of_all('UPDATE t% SET v = v + 1'));
is(sums(), 5 * 10 * $tables, 'and after that');
$session->quit;
$others->quit;
$node->check_ok('postgres', 'of tables whose entries went and stayed', map { "t$_" } 1 .. $tables);
$node->stop;
done_testing();
