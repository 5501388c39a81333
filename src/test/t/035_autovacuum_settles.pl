# Autovacuum does what is worth it and leaves the rest, and does not come back for
# what it has left.  No worker does it first.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('settles');

$node->setup(conf => "autovacuum = on\nautovacuum_naptime = 1s\nlsm.compaction_workers = 0\nlog_autovacuum_min_duration = 0\n");

my $settings = 'autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0';
my $increments = q{SELECT count(*) > 0 FROM lsm_segments('s') WHERE kind = 'increment'};
my $entries = q{SELECT sum(c.reltuples) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 's'::regclass};

$node->safe_psql('postgres', qq{
	CREATE TABLE s (id int PRIMARY KEY, v int, pad text) USING lsm WITH ($settings);
	CREATE TABLE clock (id int) USING lsm WITH ($settings);
	INSERT INTO s SELECT i, 0, md5(i::text) || md5((i + 1)::text) FROM generate_series(1, 20000) i});
$node->safe_psql('postgres', 'VACUUM s');

sub vacuums
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = '$table'");
}

# Three more rounds of autovacuum, in which every table is looked at.
sub rounds
{
	for (1 .. 3)
	{
		my $seen = vacuums('clock');

		$node->safe_psql('postgres', 'INSERT INTO clock SELECT generate_series(1, 100); DELETE FROM clock');
		$node->wait_until('postgres', "SELECT autovacuum_count > $seen FROM pg_stat_user_tables WHERE relname = 'clock'");
	}
}

sub wait_vacuum
{
	my ($seen) = @_;
	$node->wait_until('postgres', "SELECT autovacuum_count > $seen AND n_dead_tup = 0 FROM pg_stat_user_tables WHERE relname = 's'");
}

rounds();
for my $change ('UPDATE s SET v = v + 1 WHERE id % 100 = 0', 'DELETE FROM s WHERE id % 100 = 1')
{
	my $seen = vacuums('s');

	$node->safe_psql('postgres', $change);
	wait_vacuum($seen);
	is($node->safe_psql('postgres', $increments), 't', "$change: a hundredth is left");
	$seen = vacuums('s');
	rounds();
	is(vacuums('s'), $seen, "$change: autovacuum does not come back for it");
}
like(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/increments: \d+ remain with \d+ records, of which 200 end rows: compaction is not worth it yet/,
	'the log says what was left, and why');
is($node->safe_psql('postgres', q{SELECT reltuples FROM pg_class WHERE relname = 's'}), '19800', 'rows that are left are not counted as live');

# a quarter is worth it, and the index gets rid of its entries
my $seen = vacuums('s');
$node->safe_psql('postgres', 'DELETE FROM s WHERE id % 4 = 0');
wait_vacuum($seen);
is($node->safe_psql('postgres', $increments), 'f', 'a quarter goes');
is($node->safe_psql('postgres', 'SELECT count(*), sum(v), min(id) FROM s'), '14800|0|2', 'the others are there');
$node->wait_until('postgres', "SELECT ($entries) = 14800");
$seen = vacuums('s');
rounds();
is(vacuums('s'), $seen, 'and that was all');

# one that has to freeze takes everything
$node->safe_psql('postgres', 'UPDATE s SET v = v + 1 WHERE id % 100 = 2');
wait_vacuum($seen);
is($node->safe_psql('postgres', $increments), 't', 'little is left again');
$seen = vacuums('s');
$node->safe_psql('postgres', 'ALTER TABLE s SET (autovacuum_freeze_max_age = 100000, autovacuum_freeze_table_age = 0)');
$node->safe_psql('postgres', 'UPDATE s SET v = v + 1 WHERE id % 100 = 3');
wait_vacuum($seen);
is($node->safe_psql('postgres', $increments), 'f', 'an aggressive one takes it');
$node->safe_psql('postgres', 'ALTER TABLE s RESET (autovacuum_freeze_max_age, autovacuum_freeze_table_age)');

# what an old snapshot keeps is reported, so that it goes after that
my $old = $node->session('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM s');
$seen = vacuums('s');
$node->safe_psql('postgres', 'DELETE FROM s WHERE id % 4 = 1');
$node->wait_until('postgres', "SELECT autovacuum_count > $seen AND n_dead_tup > 0 FROM pg_stat_user_tables WHERE relname = 's'");
is($node->safe_psql('postgres', $increments), 't', 'an old snapshot keeps rows');
is($old->query_safe('SELECT count(*) FROM s'), '14800', 'and sees them');
$old->query_safe('COMMIT');
$old->quit;
$node->wait_until('postgres', "SELECT NOT ($increments)");

# what the log has is told apart from VACUUM by hand, as heap's is
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
foreach my $title ('automatic vacuum', 'automatic aggressive vacuum')
{
	like($log, qr/LOG:  $title of table "postgres\.public\.s": index scans: \d+\n/, "the log has an $title");
}
unlike($log, qr/finished vacuuming/, 'and none by hand');
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
