# VACUUM of a table whose oldest xid is so old that the server's failsafe comes into force: as heap's it
# only freezes, and leaves dead rows and their index entries, and the end of the file, to a later one.

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
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
