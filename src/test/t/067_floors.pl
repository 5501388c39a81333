# Transactions of another database know no names of rows here: however long they have
# been idle, what they have touched there keeps no versions here, nor xids from being frozen.  Those of the same
# database do, and are named.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('floors');

$node->setup(conf => "autovacuum = off\nfsync = off\n");
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{
	CREATE EXTENSION lsm;
	CREATE TABLE o (id int) USING lsm;
	INSERT INTO o VALUES (1)});

my $pinned = q{SELECT pinned_pid, pinned_by FROM lsm_stat_tables WHERE relname = 't'};
my $kinds = q{SELECT string_agg(DISTINCT kind, ',' ORDER BY kind) FROM lsm_segments('t')};

# A table with old versions; what a major makes of it, and who pins it.
sub compacted
{
	$node->safe_psql('postgres', $_) foreach (
		'DROP TABLE IF EXISTS t',
		'CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm',
		'INSERT INTO t SELECT i, 0 FROM generate_series(1, 5000) i',
		q{SELECT lsm_flush('t')},
		'UPDATE t SET v = 1 WHERE id <= 3000',
		q{SELECT lsm_flush('t')});
	$node->safe_psql('postgres', q{SELECT lsm_major_compact('t')});
	return $node->safe_psql('postgres', $kinds);
}

is(compacted(), 'baseline', 'nobody keeps old versions');

# idle, without a snapshot: its floor is all that it has
my $other = $node->session('other');
$other->query_safe('BEGIN');
$other->query_safe('SELECT count(*) FROM o');
is(compacted(), 'baseline', 'nor does an idle transaction of another database');
is($node->safe_psql('postgres', $pinned), '|', 'so nobody is named');
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, 0 FROM generate_series(5001, 5010) i});
$node->safe_psql('postgres', q{SELECT lsm_flush('t')});
$node->safe_psql('postgres', q{SELECT lsm_minor_compact('t')});
is($node->safe_psql('postgres', $kinds), 'baseline', 'and new rows are noted to be visible to all');

my $same = $node->session('postgres');
my $pid = $node->session_pid($same);
$same->query_safe('BEGIN');
$same->query_safe('SELECT count(*) FROM t WHERE id = 1');
$node->safe_psql('postgres', 'UPDATE t SET v = 2 WHERE id <= 3000');
$node->safe_psql('postgres', q{SELECT lsm_flush('t')});
$node->safe_psql('postgres', q{SELECT lsm_major_compact('t')});
is($node->safe_psql('postgres', $kinds), 'baseline,increment', 'one of the same database keeps names');
is($node->safe_psql('postgres', $pinned), "$pid|transaction", 'and is named');
$same->query_safe('COMMIT');
$same->quit;
$node->safe_psql('postgres', q{SELECT lsm_major_compact('t')});
is($node->safe_psql('postgres', $kinds), 'baseline', 'when it has gone, the other is in nobody\'s way');
is($other->query_safe('SELECT count(*) FROM o'), '1', 'it goes on');

# with an xid of its own: no new memtable may have older ones than those of this database
$other->query_safe('INSERT INTO o VALUES (2)');
my $old = $other->query_safe('SELECT pg_current_xact_id()');

$node->safe_psql('postgres', 'CREATE TABLE h (id int) USING heap; CREATE TABLE f (id int) USING lsm');
foreach my $round (1 .. 20)
{
	$node->safe_psql('postgres', "INSERT INTO h VALUES ($round)");
	$node->safe_psql('postgres', "INSERT INTO f VALUES ($round)");
	$node->safe_psql('postgres', q{SELECT lsm_flush('f')}) if $round == 10;
}
$node->safe_psql('postgres', "VACUUM (FREEZE) $_") foreach ('h', 'f');
is($node->safe_psql('postgres', qq{SELECT relname FROM pg_class WHERE relname IN ('h', 'f') AND age(relfrozenxid) < age('$old'::xid) ORDER BY 1}),
	"f\nh", 'rows are frozen in spite of it, as in heap');
$node->safe_psql('postgres', 'INSERT INTO f VALUES (0)');
$node->safe_psql('postgres', q{CREATE FUNCTION lsm_test_generation_xid(regclass) RETURNS xid8 LANGUAGE C STRICT AS '$libdir/lsm'});
is($node->safe_psql('postgres', qq{SELECT lsm_test_generation_xid('f') > '$old'}), 't', 'nor is the memtable as old as that');
$other->query_safe('COMMIT');
$other->quit;
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
