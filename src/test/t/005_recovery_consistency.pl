# A standby replays all kinds of work with wal_consistency_checking, which
# stops it at the first page that differs from the primary's.  It must then
# answer as the primary does, hold old snapshots through replay, and work on
# when it is promoted.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $primary = LsmNode->new('primary');

$primary->setup(conf => "autovacuum = off\nwal_consistency_checking = 'all'\nmax_prepared_transactions = 5\n");
$primary->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v int, k int, b text) USING lsm;
CREATE INDEX t_k ON t (k);
INSERT INTO t SELECT i, i, i % 20, repeat('b', i % 100) FROM generate_series(1, 2000) i;
});
$primary->backup('first');

my $standby = LsmNode->new('standby');

$standby->init_from_backup($primary, 'first', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = -1\nwal_receiver_status_interval = 1\n");
$standby->start;

sub same_on_standby
{
	my ($label, @tables) = @_;

	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	foreach my $t (@tables ? @tables : 't')
	{
		my $all = "SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM $t x";

		is($standby->safe_psql('postgres', $all), $primary->safe_psql('postgres', $all), "$t: $label");
	}
	my $by_index = 'SET enable_seqscan = off; SELECT k, count(*), sum(id), sum(v) FROM t WHERE k >= 0 GROUP BY k ORDER BY k';

	is($standby->safe_psql('postgres', $by_index), $primary->safe_psql('postgres', $by_index), "by index: $label");
	return;
}

same_on_standby('base backup');

# The kinds of work, each replayed and compared.
my @work = (
	[ 'changes in the row log', q{
		UPDATE t SET v = v + 1 WHERE id % 3 = 0;
		UPDATE t SET k = k + 1 WHERE id % 7 = 0;
		DELETE FROM t WHERE id % 50 = 0;
		INSERT INTO t SELECT i, i, i % 20, NULL FROM generate_series(3001, 3500) i} ],
	[ 'rollback', q{BEGIN; UPDATE t SET v = 0; DELETE FROM t WHERE k = 3; INSERT INTO t VALUES (-1, 1, 1); ROLLBACK} ],
	[ 'row locks', q{BEGIN; SELECT count(*) FROM (SELECT * FROM t FOR UPDATE) x; COMMIT; UPDATE t SET v = v + 1 WHERE k = 4} ],
	[ 'savepoints', q{
		BEGIN; UPDATE t SET v = v + 5 WHERE k = 5; SAVEPOINT a; UPDATE t SET v = 0 WHERE k < 10; ROLLBACK TO a;
		UPDATE t SET b = 'after' WHERE k = 6; COMMIT} ],
	[ 'flush', q{SELECT count(*) FROM lsm_flush('t')} ],
	[ 'changes over segments', q{
		UPDATE t SET v = v + 1 WHERE id % 4 = 0; UPDATE t SET b = repeat('long', 500) WHERE id % 100 = 1;
		UPDATE t SET k = k + 1 WHERE id % 9 = 0; DELETE FROM t WHERE id % 41 = 0; UPDATE t SET id = id + 10000 WHERE id % 43 = 0} ],
	[ 'second flush', q{SELECT count(*) FROM lsm_flush('t')} ],
	[ 'flush of a running transaction', q{
		BEGIN; UPDATE t SET v = v + 1000 WHERE k = 7; SELECT count(*) FROM lsm_flush('t'); UPDATE t SET v = v + 1 WHERE k = 7; COMMIT} ],
	[ 'flush of a transaction that is rolled back', q{
		BEGIN; UPDATE t SET v = 0; INSERT INTO t VALUES (-5, 5, 5); SELECT count(*) FROM lsm_flush('t'); ROLLBACK} ],
	[ 'minor compaction', q{SELECT count(*) FROM lsm_minor_compact('t')} ],
	[ 'major compaction', q{SELECT count(*) FROM lsm_major_compact('t')} ],
	[ 'vacuum', q{VACUUM t} ],
	[ 'reuse of space', q{
		INSERT INTO t SELECT i, i, i % 20, 'again' FROM generate_series(20001, 22000) i;
		SELECT count(*) FROM lsm_flush('t'); DELETE FROM t WHERE id > 20500; SELECT count(*) FROM lsm_flush('t');
		SELECT count(*) FROM lsm_major_compact('t'); VACUUM t; SELECT pg_current_xact_id(); UPDATE t SET v = v + 1;
		SELECT count(*) FROM lsm_flush('t'); SELECT count(*) FROM lsm_major_compact('t')} ],
	[ 'freeze', q{VACUUM (FREEZE) t} ],
	[ 'columns', q{
		ALTER TABLE t ADD COLUMN x int DEFAULT 5; UPDATE t SET x = 6 WHERE k = 8; ALTER TABLE t DROP COLUMN b;
		SELECT count(*) FROM lsm_flush('t'); ALTER TABLE t ADD COLUMN y text DEFAULT 'y'} ],
	[ 'rewrite', q{ALTER TABLE t ALTER COLUMN x TYPE text USING 'x' || x} ],
	[ 'index build', q{UPDATE t SET v = v + 1 WHERE k = 9; CREATE INDEX t_v ON t (v); REINDEX TABLE t} ],
	[ 'new table', q{
		BEGIN; CREATE TABLE n (a int PRIMARY KEY, b text) USING lsm; INSERT INTO n SELECT i, 'n' || i FROM generate_series(1, 1000) i;
		SELECT count(*) FROM lsm_flush('n'); UPDATE n SET b = 'changed' WHERE a < 10; COMMIT}, 'n' ],
	[ 'prepared', q{
		BEGIN; UPDATE n SET b = 'prepared' WHERE a BETWEEN 20 AND 30; DELETE FROM n WHERE a = 31; PREPARE TRANSACTION 'p';
		SELECT count(*) FROM lsm_flush('n'); COMMIT PREPARED 'p'}, 'n' ],
	[ 'truncate', q{TRUNCATE n; INSERT INTO n VALUES (1, 'after')}, 'n' ],
	[ 'truncate rolled back', q{
		BEGIN; TRUNCATE n; INSERT INTO n VALUES (2, 'never'); SELECT count(*) FROM lsm_flush('n'); ROLLBACK;
		INSERT INTO n VALUES (3, 'three')}, 'n' ],);

foreach my $item (@work)
{
	my ($label, $sql, @tables) = @$item;

	$primary->safe_psql('postgres', $sql);
	same_on_standby($label, @tables);
}

# The standby crashes and is restarted in the middle of replay, and between a
# flush and the changes around it.
$primary->safe_psql('postgres', q{UPDATE t SET v = v + 1 WHERE k = 10; CHECKPOINT; UPDATE t SET v = v + 1 WHERE k = 10});
$standby->crash;
$primary->safe_psql('postgres', q{SELECT count(*) FROM lsm_flush('t'); UPDATE t SET v = v + 1 WHERE k = 11});
$standby->start;
same_on_standby('restart of the standby');
$standby->safe_psql('postgres', 'CHECKPOINT');
$standby->crash_and_start;
same_on_standby('restart of the standby at a restartpoint');

# The primary crashes.
$primary->safe_psql('postgres', q{UPDATE t SET v = v + 1 WHERE k = 12});
$primary->crash_and_start;
same_on_standby('crash of the primary');
$primary->safe_psql('postgres', q{UPDATE t SET v = v + 1 WHERE k = 13; SELECT count(*) FROM lsm_minor_compact('t')});
same_on_standby('work after a crash of the primary');

# A snapshot on the standby, and a cursor half read, stay as they are while
# the primary's work is replayed.
my $reader = $standby->session('postgres');
my $sums = 'SELECT count(*), sum(id), sum(v), sum(k) FROM t';

$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = $reader->query_safe($sums);
$reader->query_safe('DECLARE c CURSOR FOR SELECT id, v, k FROM t');
$reader->query_safe('MOVE 100 FROM c');

# The feedback must have reached the primary before rows are removed there.  The
# end of the file is not given back: that needs the lock that the reader has.
$primary->wait_until('postgres', 'SELECT count(*) > 0 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL');
$primary->safe_psql('postgres', $_)
  foreach (q{UPDATE t SET v = v + 1}, q{SELECT count(*) FROM lsm_flush('t')}, q{DELETE FROM t WHERE id % 2 = 0},
	q{SELECT count(*) FROM lsm_flush('t')}, q{SELECT count(*) FROM lsm_major_compact('t')}, q{VACUUM (TRUNCATE off) t},
	q{INSERT INTO t (id, v, k) SELECT i, 0, 0 FROM generate_series(50001, 51000) i},
	q{SELECT count(*) FROM lsm_flush('t')}, q{SELECT count(*) FROM lsm_major_compact('t')});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($reader->query_safe($sums), $before, 'a snapshot on the standby stays as it is');
is($reader->query_safe("SET LOCAL enable_seqscan = off; SELECT count(*), sum(id), sum(v), sum(k) FROM t WHERE id > 0"),
	$before, 'by index, too');
$reader->query_safe('MOVE FORWARD ALL FROM c');
$reader->query_safe('COMMIT');
$reader->quit;
same_on_standby('after the reader');

# Promotion: what is in the row log is read and changed on.
$primary->safe_psql('postgres', q{UPDATE t SET v = v + 7 WHERE k = 14; DELETE FROM t WHERE k = 15});
same_on_standby('before the promotion');
my $last = $primary->safe_psql('postgres', $sums);

$primary->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', $sums), $last, 'rows after the promotion');
$standby->check_ok('postgres', 'after the promotion');
$standby->safe_psql('postgres', q{UPDATE t SET v = v + 1; SELECT count(*) FROM lsm_flush('t');
	SELECT count(*) FROM lsm_major_compact('t'); VACUUM t});
is($standby->safe_psql('postgres', 'SELECT sum(v) - count(*) FROM t'),
	(split /\|/, $last)[2], 'changes after the promotion');
$standby->check_ok('postgres', 'after changes on the promoted standby');
$standby->stop;
done_testing();
