# The visibility map on a standby, after a crash and after a promotion: an
# index-only scan fetches nothing and returns what is there.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $primary = LsmNode->new('primary');

$primary->setup(
	conf => "autovacuum = off\nenable_seqscan = off\nenable_bitmapscan = off\n"
	  . "max_parallel_workers_per_gather = 0\n");
$primary->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i;
CREATE TABLE late (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO late SELECT i, i FROM generate_series(1, 3000) i;
});
$primary->backup('base');

my $standby = LsmNode->new('standby');

$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# What an index-only scan over all rows returns and fetches.
sub scan
{
	my ($node, $table) = @_;
	my $count = $node->safe_psql('postgres', "SELECT count(id) || ' rows' FROM $table WHERE id > 0");
	my $plan = $node->safe_psql('postgres',
		"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM $table WHERE id > 0");

	return $plan =~ /Heap Fetches: (\d+)/ ? "$count, $1 fetched" : $plan;
}

sub catch_up
{
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

# A session of the standby that opens a table before that has a map.
my $early = $standby->session('postgres');

is($early->query_safe('SELECT count(v) FROM late'), '3000', 'a table is opened on the standby');
$primary->safe_psql('postgres', 'VACUUM t');
is(scan($primary, 't'), '3000 rows, 0 fetched', 'nothing is fetched after VACUUM');
catch_up();
is(scan($standby, 't'), '3000 rows, 0 fetched', 'nor on the standby');

$primary->safe_psql('postgres', 'DELETE FROM t WHERE id % 100 = 0; UPDATE t SET id = -id WHERE id = 55');
catch_up();
like(scan($_, 't'), qr/^2969 rows/, 'rows that ended are gone: ' . $_->name) foreach $primary, $standby;

$primary->crash_and_start;
like(scan($primary, 't'), qr/^2969 rows/, 'they are gone after a crash');
$primary->safe_psql('postgres', 'VACUUM t');
$primary->safe_psql('postgres', 'VACUUM late');
is(scan($primary, 't'), '2969 rows, 0 fetched', 'VACUUM sets what was cleared');

# VACUUM writes no commit record; this one brings its WAL to disk.
$primary->safe_psql('postgres', 'CREATE TABLE marker () USING heap');
$primary->crash_and_start;
is(scan($primary, 't'), '2969 rows, 0 fetched', 'bits survive a crash');
is(scan($primary, 'late'), '3000 rows, 0 fetched', 'so does a new map');

# Who writes after the promotion has to clear bits that it never saw being set.
catch_up();
is(scan($standby, 'late'), '3000 rows, 0 fetched', 'a map made after the table was opened');
$primary->stop('fast');
$standby->promote;
$early->query_safe('DELETE FROM late WHERE id BETWEEN 11 AND 20');
like(scan($standby, 'late'), qr/^2990 rows/, 'a change after the promotion clears bits');
$standby->check_ok('postgres', 'after the promotion');
$early->quit;
$standby->stop('fast');
done_testing();
