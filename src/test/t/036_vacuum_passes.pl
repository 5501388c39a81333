# VACUUM whose dead rows do not all fit into maintenance_work_mem goes through the indexes
# several times, by itself and with parallel workers.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('passes');

$node->setup(conf => q{
autovacuum = off
fsync = off
maintenance_work_mem = '1MB'
min_parallel_index_scan_size = 0
max_parallel_maintenance_workers = 2
});
$node->safe_psql('postgres', q{
	CREATE TABLE p (id int PRIMARY KEY, k int, v int) USING lsm;
	CREATE INDEX ON p (k);
	CREATE INDEX ON p (v);
	CREATE TABLE h (LIKE p INCLUDING ALL) USING heap});

my $dead_rows = q{SELECT dead_rows FROM lsm_stat_tables WHERE relname = 'p'};
my $entries = q{
	SELECT DISTINCT c.reltuples FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'p'::regclass};

# Three lists of 59,000 rows, of which two come to less than the 131,072 that fit.
sub make_dead
{
	foreach my $round (1 .. 3)
	{
		foreach my $table ('p', 'h')
		{
			$node->safe_psql('postgres', qq{
				INSERT INTO $table SELECT i * 10 + $round, i % 1000, i FROM generate_series(1, 60000) i ON CONFLICT DO NOTHING});
		}
		$node->safe_psql('postgres', q{SELECT lsm_flush('p')});
		$node->safe_psql('postgres', "DELETE FROM $_ WHERE v % 60 > 0") foreach ('p', 'h');
		$node->safe_psql('postgres', q{SELECT lsm_flush('p')});
		$node->safe_psql('postgres', q{SELECT lsm_major_compact('p')});
	}
	return $node->safe_psql('postgres', $dead_rows);
}

sub same
{
	my ($label) = @_;
	my @queries = (
		'SELECT count(*), sum(id), sum(v) FROM %s',
		'SELECT * FROM %s WHERE id BETWEEN 100000 AND 300000 ORDER BY id',
		'SELECT count(*), sum(id) FROM %s WHERE k >= 0',
		'SELECT * FROM %s WHERE k = 360 ORDER BY id',
		'SELECT count(*), sum(id) FROM %s WHERE v BETWEEN 1 AND 30000');

	foreach my $off ('enable_indexscan = off; SET enable_bitmapscan = off', 'enable_seqscan = off')
	{
		foreach my $query (@queries)
		{
			my ($ours, $heap) = map { sprintf("SET $off; $query", $_) } ('p', 'h');

			$node->same_ok('postgres', $ours, $heap, "$label, $off: $query");
		}
	}
	return;
}

foreach my $workers (0, 2)
{
	is(make_dead(), '177000', "dead rows, $workers workers");

	my ($code, $stdout, $stderr) = $node->psql('postgres', "VACUUM (VERBOSE, PARALLEL $workers) p");

	is($code, 0, "VACUUM with $workers workers");
	like($stderr, qr/^(?:.*INFO:  )finished vacuuming "postgres\.public\.p": index scans: 2$/m, 'it goes through the indexes twice');
	like($stderr, qr/^flushed: \d+ records to \d+ segments$/m, 'it says what it has flushed');
	like($stderr, qr/^compacted: \d+ segments with \d+ records to \d+ segments with \d+ records$/m, 'and compacted');
	like($stderr, qr/^tuples: 177000 removed, 3000 remain/m, 'for all dead rows');
	if ($workers > 0)
	{
		like($stderr, qr/parallel vacuum workers? for index vacuuming \(planned: 2\)/, 'with workers');
	}
	else
	{
		unlike($stderr, qr/parallel vacuum worker/, 'by itself');
	}
	is($node->safe_psql('postgres', $dead_rows), '0', 'none is left');
	is($node->safe_psql('postgres', $entries), '3000', 'the indexes have the rows that are left');
	same("$workers workers");
	$node->check_ok('postgres', "VACUUM with $workers workers");
}
$node->stop;
done_testing();
