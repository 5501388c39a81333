# In single-user mode, where one goes when transaction ids have run out: VACUUM freezes,
# flushes and compacts, and everything else works too.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('single');

$node->setup(conf => q{
autovacuum = off
fsync = off
lsm.compaction_workers = 2
});
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm;
	INSERT INTO t SELECT i, 0 FROM generate_series(1, 5000) i;
	SELECT lsm_flush('t');
	UPDATE t SET v = v + 1 WHERE id <= 2000;
	DELETE FROM t WHERE id > 4000});
my $before = $node->safe_psql('postgres', q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 't'});

$node->safe_psql('postgres', 'SELECT pg_current_xact_id()') foreach (1 .. 20);
$node->stop;

# Statements that each take one line.
sub single_user
{
	my ($sql) = @_;
	my ($stdout, $stderr) = ('', '');

	ok(PostgreSQL::Test::Utils::run_log([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
			'<', \$sql, '>', \$stdout, '2>', \$stderr), 'single-user mode');
	unlike($stderr, qr/ERROR|FATAL|PANIC/, 'no errors');
	return $stdout;
}

single_user("UPDATE t SET v = v + 1 WHERE id = 1\nVACUUM (FREEZE) t\n");
like(single_user("SELECT count(*), sum(v) FROM t\nSELECT lsm_check('t')\n"), qr/count = "4000".*sum = "2001"/s, 'rows');

$node->start;
cmp_ok($node->safe_psql('postgres', q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 't'}), '<', $before + 15,
	'relfrozenxid has advanced');
is($node->safe_psql('postgres', q{SELECT count(*) FROM lsm_segments('t') WHERE kind = 'increment'}), '0',
	'increments went into the baseline');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*), sum(v) FROM t WHERE id > 0'), '4000|2001', 'rows by index');
$node->check_ok('postgres', 'after single-user mode');
$node->stop;
done_testing();
