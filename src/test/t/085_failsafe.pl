# VACUUM of a table whose oldest xid is so old that the server's failsafe comes into force, before it
# begins or later: as heap's it only freezes, and leaves dead rows and their index entries, and the end
# of the file, to a later one.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('failsafe');

# The failsafe is from 1.05 times autovacuum_freeze_max_age on, whatever its own setting says.  An
# autovacuum against wraparound comes to other tables as soon as a VACUUM has ended, but not to one that
# it has frozen.
$node->setup(conf => q{
autovacuum = off
autovacuum_freeze_max_age = 100000
vacuum_failsafe_age = 0
log_autovacuum_min_duration = 0
fsync = off
});
$node->safe_psql('postgres', q{
	CREATE PROCEDURE use_xids(n int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. n LOOP
			PERFORM pg_current_xact_id();
			COMMIT;
		END LOOP;
	END $$;
	CREATE TABLE w (id int) USING lsm;
	INSERT INTO w VALUES (1);
	CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm;
	CREATE INDEX ON t (v);
	INSERT INTO t SELECT i, i, repeat(md5(i::text), 3) FROM generate_series(1, 20000) i;
	SELECT lsm_flush('t');
	DELETE FROM t WHERE id > 2000;
	UPDATE t SET v = -v WHERE id <= 500});

my $age = q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 't'};
my $rows = q{SELECT count(*), sum(v), min(xmin::text::int8) > 2 FROM t};
my $size = q{SELECT pg_relation_size('t')};
my $dead = q{SELECT dead_rows FROM lsm_stat_tables WHERE relname = 't'};
my $found = $node->safe_psql('postgres', $rows);

$node->safe_psql('postgres', 'CALL use_xids(106000)');
cmp_ok($node->safe_psql('postgres', $age), '>', 105000, 'the table is old');

my $before = $node->safe_psql('postgres', $size);
my ($code, $out, $err) = $node->psql('postgres', 'VACUUM FREEZE t');

like("$code: $err", qr/^0: .*WARNING:  bypassing nonessential maintenance of table "postgres\.public\.t" as a failsafe after 0 index scans\n/, 'VACUUM bypasses what is not essential');
cmp_ok($node->safe_psql('postgres', $age), '<', 1000, 'the table is frozen');
is($node->safe_psql('postgres', $rows), $found, 'the same rows');
cmp_ok($node->safe_psql('postgres', $dead), '>', 18000, 'index entries of rows that are gone are left');
cmp_ok($node->safe_psql('postgres', $size), '>=', $before, 'and the end of the file');
$node->check_ok('postgres', 'after the failsafe');

# the next one, not in such a hurry, does the rest
($code, $out, $err) = $node->psql('postgres', 'VACUUM t');
is("$code: $err", '0: ', 'the next one has nothing to say');
is($node->safe_psql('postgres', $dead), '0', 'and cleans the indexes');
cmp_ok($node->safe_psql('postgres', $size), '<', $before, 'and gives back the end of the file');
is($node->safe_psql('postgres', $rows), $found, 'the same rows at the end');
$node->wait_for_log(qr/LOG:  automatic aggressive vacuum to prevent wraparound of table "postgres\.public\.w": index scans: 0\n/);
pass('an autovacuum against wraparound says that it is one');

# ---- tables that become so old while VACUUM is at them ----

# Three are held at the same time: one at the end of its compaction, which leaves no dead row, one
# before the first of its indexes, and one after the first of two passes over its index.  (An autovacuum
# may come to them when that is over.)
$node->safe_psql('postgres', q{
	CREATE TABLE compacted (id int, v int) USING lsm;
	INSERT INTO compacted SELECT i, i FROM generate_series(1, 1000) i;
	CREATE TABLE indexed (id int PRIMARY KEY, v int) USING lsm;
	CREATE INDEX ON indexed (v);
	INSERT INTO indexed SELECT i, i FROM generate_series(1, 1000) i;
	CREATE TABLE passes (id int PRIMARY KEY) USING lsm;
	SELECT lsm_flush('compacted'), lsm_flush('indexed')});
$node->safe_psql('postgres', q{UPDATE compacted SET v = -v; DELETE FROM indexed WHERE id > 500});

# two lists of 74,000 rows are more than the 131,072 that one pass takes
foreach my $round (0, 1)
{
	$node->safe_psql('postgres', $_) foreach (
		"INSERT INTO passes SELECT i FROM generate_series($round * 75000 + 1, $round * 75000 + 75000) i", q{SELECT lsm_flush('passes')},
		"DELETE FROM passes WHERE id % 75000 BETWEEN 1 AND 74000", q{SELECT lsm_flush('passes')}, q{SELECT lsm_major_compact('passes')});
}
is($node->safe_psql('postgres', q{SELECT dead_rows FROM lsm_stat_tables WHERE relname = 'passes'}), '148000', 'dead rows for two passes');
$node->safe_psql('postgres', 'CALL use_xids(98000)');

my %held = (
	compacted => { stop => 'major-before-swap', scans => 0, said => qr/index scans: 0\n.*tuples: 0 removed, 1000 remain/s },
	indexed => { stop => 'vacuum-index', scans => 0, said => qr/index scans: 1\n.*tuples: 0 removed, 500 remain/s },
	passes => { stop => 'vacuum-before-forget', scans => 1, said => qr/index scans: 1\n.*tuples: 74000 removed, 2000 remain/s });
my $locker = $node->session('postgres');

$locker->query_safe('SELECT pg_advisory_lock(7107437)');
foreach my $table (sort keys %held)
{
	my $session = $held{$table}{session} = $node->session('postgres');
	my $pid = $node->session_pid($session);

	cmp_ok($node->safe_psql('postgres', "SELECT age(relfrozenxid) FROM pg_class WHERE relname = '$table'"), '<', 100000, "$table is not old yet");
	$session->query_safe("SET maintenance_work_mem = '1MB'; SET lsm.debug_stop = '$held{$table}{stop}:wait'");
	$node->start_query($session, "VACUUM (VERBOSE, FREEZE) $table");
	$node->wait_blocked($pid);
}
$node->safe_psql('postgres', 'CALL use_xids(8000)');
$locker->quit;
foreach my $table (sort keys %held)
{
	my (undef, $said) = $node->finish_query($held{$table}{session});

	like($said, qr/WARNING:  bypassing nonessential maintenance of table "postgres\.public\.$table" as a failsafe after $held{$table}{scans} index scans\n/,
		"VACUUM of $table finds that it has become old");
	like($said, qr/finished vacuuming "postgres\.public\.$table": $held{$table}{said}/, 'and removes no more index entries');
	like($said, qr/^index scan bypassed by failsafe$/m, 'and says so');
	$held{$table}{session}->quit;
}
foreach my $table ('compacted', 'indexed', 'passes')
{
	cmp_ok($node->safe_psql('postgres', "SELECT age(relfrozenxid) FROM pg_class WHERE relname = '$table'"), '<', 20000, "$table is frozen");
	$node->safe_psql('postgres', "VACUUM $table");
}
is($node->safe_psql('postgres', q{SELECT sum(dead_rows) FROM lsm_stat_tables}), '0', 'later ones remove them');
is($node->safe_psql('postgres', q{SELECT (SELECT sum(v) FROM compacted), (SELECT sum(v) FROM indexed), (SELECT count(*) FROM passes)}),
	'-500500|125250|2000', 'the rows are there');
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
