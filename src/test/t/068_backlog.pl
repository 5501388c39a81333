# A backlog of many parts is worked off by workers without pauses: who does a part goes on
# with the next one.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('backlog');

$node->setup(conf => q{
autovacuum = off
fsync = off
wal_consistency_checking = ''
lsm.segment_size = 1MB
lsm.compaction_log_min_duration = 0
});

# about 37 MB stored, of which one part reads about a quarter
$node->safe_psql('postgres', q{
	SET lsm.debug_load_after = -1;
	CREATE TABLE b (id int PRIMARY KEY, n int, pad text) USING lsm;
	INSERT INTO b SELECT i, 0, string_agg(md5(i || '.' || k), '') FROM generate_series(1, 80000) i, generate_series(1, 28) k GROUP BY i ORDER BY i;
	SELECT lsm_flush('b')});
$node->safe_psql('postgres', q{UPDATE b SET n = n + 1, pad = reverse(pad) WHERE id % 2 = 0; SELECT lsm_flush('b')});
my $increments = q{SELECT count(*) FROM lsm_segments('b') WHERE kind = 'increment'};
cmp_ok($node->safe_psql('postgres', $increments), '>', 0, 'there is a backlog');

$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.compaction_workers = 2');
$node->reload;
$node->wait_until('postgres', q{SELECT current_setting('lsm.compaction_workers') = '2'});
$node->safe_psql('postgres', q{UPDATE b SET n = n + 1 WHERE id = 1; SELECT lsm_flush('b')});
$node->wait_until('postgres', "SELECT ($increments) = 0");
is($node->safe_psql('postgres', 'SELECT count(*), sum(n) FROM b'), '80000|40001', 'it is worked off');

# A worker leaves when it has nothing more to do at once, and another one comes after
# a pause: each is a process.
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
my %parts;
my $all = 0;

foreach my $pid ($log =~ /\[(\d+)\] LOG:  lsm: major compaction of public\.b:/g)
{
	$parts{$pid}++;
	$all++;
}
note('parts by worker: ' . join(', ', values %parts));
cmp_ok($all, '>', 3, 'in parts');
cmp_ok(scalar(keys %parts), '<=', $all / 2, 'many of them by one worker');

# workers leave when there is nothing to do
$node->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'lsm worker'});
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
