# A queue of constant small size, with nothing set but that autovacuum looks each second: what
# an entry costs to find, and the file, do not grow with the number of entries that have gone
# through.  (For hours, beside heap: bench/queue.sh.)

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use List::Util qw(max min);
use LsmNode;

my $node = LsmNode->new('queue');

$node->setup(conf => q{
autovacuum = on
autovacuum_naptime = 1s
lsm.compaction_workers = 2
fsync = off
});
$node->safe_psql('postgres', q{
	CREATE TABLE q (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text) USING lsm;
	INSERT INTO q (payload) SELECT repeat(md5(i::text), 3) FROM generate_series(1, 500) i});

my $script = "$PostgreSQL::Test::Utils::tmp_check/queue.sql";

PostgreSQL::Test::Utils::append_to_file($script, q{
BEGIN;
DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1);
INSERT INTO q (payload) VALUES (repeat(md5(:client_id::text || random()::text), 3));
COMMIT;
});

my $counts = q{SELECT records_memtable + records_segments, rows_read FROM lsm_stat_tables WHERE relname = 'q'};
my (@cost, @size);

# Each phase brings fifteen times as many entries as the queue has.
foreach my $phase (1 .. 12)
{
	my ($examined, $read) = split /\|/, $node->safe_psql('postgres', $counts);

	$node->command_ok([ 'pgbench', '-n', '-M', 'prepared', '-c', 4, '-j', 2, '-t', 1875, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		"phase $phase");

	my ($examined_then, $read_then) = split /\|/, $node->safe_psql('postgres', $counts);

	push @cost, ($examined_then - $examined) / ($read_then - $read);
	push @size, $node->safe_psql('postgres', q{SELECT pg_total_relation_size('q')});
	note "records a row $cost[-1], size $size[-1]";
}

# What grows all the time would be at three times as much, as the file is without workers and
# autovacuum. Between two rounds of theirs it comes and goes, so the least of some is taken.
cmp_ok(min(@cost[ 9 .. 11 ]), '<=', 2 * max(@cost[ 0 .. 2 ]), 'records examined for a row');
cmp_ok(min(@size[ 9 .. 11 ]), '<=', 2 * max(@size[ 0 .. 2 ]), 'the file and its index');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM q'), '500|500', 'the queue is as long as at first');
is($node->safe_psql('postgres', q{SELECT errors FROM lsm_stat_tables WHERE relname = 'q'}), '0', 'workers have met with no error');
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
