# Commands that give a table another file: SET TABLESPACE, SET LOGGED and
# UNLOGGED, SET ACCESS METHOD, TRUNCATE, CREATE TABLE AS, REFRESH, COPY FREEZE.
# Each is done with rows in the row log, in segments and in both, is rolled
# back, is followed by a crash, and stands prepared through one.  wal_level is
# "minimal" in a second run: what is new in a transaction is not logged there.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $rows = q{SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM t x;
	SET enable_seqscan = off; SELECT k, count(*), sum(id), sum(v) FROM t WHERE k >= 0 GROUP BY k ORDER BY k};

# Statements that leave the rows as they are.
my @commands = (
	'ALTER TABLE t SET TABLESPACE ts',
	'ALTER TABLE t SET TABLESPACE pg_default',
	'ALTER TABLE t SET ACCESS METHOD heap',
	'ALTER TABLE t SET ACCESS METHOD lsm',
	'ALTER TABLE t SET UNLOGGED',
	'ALTER TABLE t SET LOGGED',
	'CREATE TABLE n (LIKE t INCLUDING ALL) USING lsm TABLESPACE ts; INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t',
	'CREATE TEMP TABLE keep USING lsm AS SELECT * FROM t; TRUNCATE t; INSERT INTO t SELECT * FROM keep; DROP TABLE keep',
	'ALTER TABLE t ALTER v TYPE bigint',
	'ALTER TABLE t ALTER v TYPE int',);

foreach my $level ('replica', 'minimal')
{
	my $node = LsmNode->new($level);

	$node->setup(conf => "autovacuum = off\nfsync = off\nallow_in_place_tablespaces = on\nmax_prepared_transactions = 10\n"
		  . "wal_level = $level\n" . ($level eq 'minimal' ? "max_wal_senders = 0\nwal_skip_threshold = 0\n" : ''));
	$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION ''");
	$node->safe_psql('postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v int, k int, b text) USING lsm;
CREATE INDEX t_k ON t (k);
INSERT INTO t SELECT i, i, i % 20, repeat('b', i % 100) FROM generate_series(1, 1500) i;
SELECT lsm_flush('t');
UPDATE t SET v = v + 1 WHERE id % 3 = 0;
DELETE FROM t WHERE id % 50 = 0;
SELECT lsm_flush('t')});

	foreach my $command (@commands)
	{
		my $label = "$level: " . substr($command, 0, 40);

		# unflushed rows at each change, and a reader that waits for the lock
		$node->safe_psql('postgres', q{UPDATE t SET k = k + 1 WHERE id % 7 = 0; UPDATE t SET v = v + 1 WHERE id % 5 = 0;
			BEGIN; UPDATE t SET v = 0; ROLLBACK});
		my $before = $node->safe_psql('postgres', $rows);

		# PostgreSQL leaves the indexes of a table that it moves in place, so that
		# entries made before the rollback stay, with any access method
		my $change = $command =~ /TABLESPACE (?:ts|pg_default)$/ ? 'v = v - 3' : 'v = v - 3, k = k + 1';

		is($node->safe_psql('postgres', "BEGIN; $command; UPDATE t SET $change; DELETE FROM t WHERE k = 3; ROLLBACK; $rows"),
			$before, "$label, rolled back");
		my $session = $node->session('postgres');

		# the session knows the old file well
		$session->query_safe("SELECT count(*) FROM (SELECT * FROM t FOR UPDATE) x");
		$node->safe_psql('postgres', "BEGIN; $command; UPDATE t SET v = v + 1 WHERE id % 11 = 0; SAVEPOINT s;
			UPDATE t SET v = 0; ROLLBACK TO s; UPDATE t SET v = v - 1 WHERE id % 11 = 0; COMMIT");
		is($session->query_safe($rows), $before, "$label, for a session that used the old file");
		$session->query_safe('UPDATE t SET v = v + 1 WHERE id % 13 = 0');
		$session->quit;
		my $after = $node->safe_psql('postgres', $rows);

		isnt($after, $before, "$label, changed");
		my $unlogged = $node->safe_psql('postgres', "SELECT relpersistence = 'u' FROM pg_class WHERE relname = 't'") eq 't';

		# an unlogged table is empty after a crash
		$node->crash_and_start unless $unlogged;
		is($node->safe_psql('postgres', $rows), $after, "$label, after a crash");
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 100 = 1');
	}
	$node->check_ok('postgres', "$level: after all of it");

	# A crash before the end leaves the old file.
	my $before = $node->safe_psql('postgres', $rows);

	foreach my $command (@commands)
	{
		my $session = $node->session('postgres');

		$session->query_safe("BEGIN; $command; UPDATE t SET v = v + 1");
		$node->safe_psql('postgres', 'CHECKPOINT') if $command =~ /SET/;
		$node->crash;
		$session->{run}->kill_kill;
		$node->start;
		is($node->safe_psql('postgres', $rows), $before, "$level: crash before the commit: " . substr($command, 0, 40));
		last if $level eq 'minimal';
	}
	$node->check_ok('postgres', "$level: after crashes before the commit");

	# Unlogged tables are emptied, whatever state they were in, and live on.
	$node->safe_psql('postgres', q{
CREATE UNLOGGED TABLE u1 (id int PRIMARY KEY, v int) USING lsm;
CREATE UNLOGGED TABLE u2 (id int PRIMARY KEY, v int) USING lsm TABLESPACE ts;
CREATE UNLOGGED TABLE u3 (id int PRIMARY KEY, v int) USING lsm;
CREATE TABLE u4 (id int PRIMARY KEY, v int) USING lsm;
CREATE UNLOGGED TABLE u5 (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO u1 SELECT i, i FROM generate_series(1, 1000) i;
INSERT INTO u2 SELECT * FROM u1; SELECT lsm_flush('u2'); DELETE FROM u2 WHERE id % 2 = 0; SELECT lsm_flush('u2');
INSERT INTO u3 SELECT * FROM u1; SELECT lsm_flush('u3'); UPDATE u3 SET v = 0; ALTER TABLE u3 SET TABLESPACE ts;
INSERT INTO u4 SELECT * FROM u1; SELECT lsm_flush('u4'); UPDATE u4 SET v = 0; ALTER TABLE u4 SET UNLOGGED;
INSERT INTO u5 SELECT * FROM u1; ALTER TABLE u5 SET LOGGED;
CHECKPOINT; UPDATE u1 SET v = 1});
	$node->crash_and_start;
	is($node->safe_psql('postgres', join ';', map { "SELECT count(*), sum(v) FROM $_" } 'u1' .. 'u5'),
		"0|\n0|\n0|\n0|\n1000|500500", "$level: unlogged tables after a crash");
	$node->safe_psql('postgres', "INSERT INTO $_ SELECT i, i FROM generate_series(1, 100) i; SELECT lsm_flush('$_');
		UPDATE $_ SET v = v + 1 WHERE id < 10") foreach 'u1' .. 'u4';
	$node->restart;
	is($node->safe_psql('postgres', join ';', map { "SELECT count(*), sum(v) FROM $_" } 'u1' .. 'u4'),
		join("\n", ('100|5059') x 4), "$level: unlogged tables after a restart");

	# COPY FREEZE, CREATE TABLE AS, SELECT INTO and matviews, then a crash.
	$node->safe_psql('postgres', q{
BEGIN;
CREATE TABLE c (id int PRIMARY KEY, v text) USING lsm;
COPY c FROM PROGRAM 'seq 1 3000 | sed "s/.*/&	v&/"' (FREEZE);
COMMIT;
BEGIN; TRUNCATE c; COPY c FROM PROGRAM 'seq 5 2000 | sed "s/.*/&	w&/"' (FREEZE);
SAVEPOINT s; DELETE FROM c; ROLLBACK TO s; UPDATE c SET v = 'x' WHERE id = 5; COMMIT;
CREATE TABLE cta USING lsm AS SELECT * FROM c WHERE id > 100;
CREATE MATERIALIZED VIEW mv USING lsm AS SELECT id % 10 AS k, count(*), min(v) FROM c GROUP BY 1;
CREATE UNIQUE INDEX ON mv (k);
DELETE FROM c WHERE id % 9 = 0;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT lsm_flush('mv');
DELETE FROM c WHERE id % 10 = 4;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
INSERT INTO c VALUES (10004, 'new');
REFRESH MATERIALIZED VIEW mv});
	$node->crash_and_start;
	is($node->safe_psql('postgres', q{SELECT count(*), min(id), max(id), min(v), max(v) FROM c; SELECT count(*), max(v) FROM cta;
		SELECT count(*), sum(count), bool_or(k = 4) FROM mv; SELECT min FROM mv WHERE k = 4}),
		"1598|5|10004|new|x\n1900|w999\n10|1598|t\nnew", "$level: new tables after a crash");

	# Prepared transactions with all of it, through a crash.
	$node->safe_psql('postgres', q{
CREATE TABLE p1 (id int PRIMARY KEY, v int) USING lsm;
CREATE TABLE p2 (id int PRIMARY KEY, v int) USING lsm;
CREATE TABLE p3 (id int PRIMARY KEY, v int) USING lsm;
CREATE TABLE p6 (id int PRIMARY KEY, v int, w int) USING lsm;
INSERT INTO p1 SELECT i, i FROM generate_series(1, 500) i;
INSERT INTO p2 SELECT * FROM p1; SELECT lsm_flush('p2');
INSERT INTO p3 SELECT * FROM p1; SELECT lsm_flush('p3'); UPDATE p3 SET v = v + 1;
INSERT INTO p6 SELECT id, v, v FROM p1; SELECT lsm_flush('p6')});
	foreach my $what ('commit', 'rollback')
	{
		my $to = $what eq 'commit' ? 'ts' : 'pg_default';
		my $sums = join ';', map { "SELECT '$_', count(*), sum(v) FROM $_" } 'p1', 'p2', 'p3', 'p6';
		my $undone = $node->safe_psql('postgres', $sums);

		$node->safe_psql('postgres', qq{
BEGIN;
UPDATE p1 SET v = v + 10 WHERE id % 2 = 0;
SAVEPOINT s; DELETE FROM p1 WHERE id % 3 = 0; RELEASE s;
SAVEPOINT s; DELETE FROM p1; ROLLBACK TO s;
INSERT INTO p1 SELECT i, 1 FROM generate_series(1001, 1100) i ON CONFLICT DO NOTHING;
INSERT INTO p1 SELECT i, 2 FROM generate_series(1050, 1150) i ON CONFLICT (id) DO UPDATE SET v = excluded.v;
SELECT count(*) FROM (SELECT * FROM p1 FOR UPDATE) x;
PREPARE TRANSACTION 'changes';
BEGIN; ALTER TABLE p2 SET TABLESPACE $to; UPDATE p2 SET v = v + 1; PREPARE TRANSACTION 'tablespace';
BEGIN; TRUNCATE p3; INSERT INTO p3 VALUES (1, 1); PREPARE TRANSACTION 'truncate';
BEGIN; CREATE TABLE p4 (id int PRIMARY KEY) USING lsm; INSERT INTO p4 SELECT generate_series(1, 200); SELECT lsm_flush('p4');
DELETE FROM p4 WHERE id > 100; PREPARE TRANSACTION 'create';
BEGIN; ALTER TABLE p6 DROP COLUMN w, ADD COLUMN x int DEFAULT 8; UPDATE p6 SET v = x WHERE id <= 100; SELECT lsm_flush('p6');
PREPARE TRANSACTION 'columns';
CHECKPOINT});
		$node->crash_and_start;
		is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM p1'), (split /^p1\|/m, (split /\n/, $undone)[0])[1],
			"$level: prepared changes are not seen");
		$node->safe_psql('postgres', q{SELECT lsm_flush('p1'); SELECT lsm_minor_compact('p1'); SELECT lsm_major_compact('p1'); VACUUM p1});
		$node->safe_psql('postgres', "$what PREPARED '$_'") foreach qw(changes tablespace truncate create columns);
		my $done = $node->safe_psql('postgres', $sums);

		if ($what eq 'rollback')
		{
			is($done, $undone, "$level: rolled back after a crash");
		}
		else
		{
			is($done, "p1|484|85588\np2|500|125750\np3|1|1\np6|500|121000", "$level: committed after a crash");
			is($node->safe_psql('postgres', 'SELECT count(*) FROM p4; SELECT count(*), sum(x) FROM p6'), "100\n500|4000",
				"$level: a table and a column that were prepared");
			$node->safe_psql('postgres', 'DROP TABLE p4; ALTER TABLE p6 DROP COLUMN x, ADD COLUMN w int DEFAULT 5');
		}
		$node->crash_and_start;
		is($node->safe_psql('postgres', $sums), $done, "$level: $what, after another crash");
	}
	my ($status, $out, $err) = $node->psql('postgres', "BEGIN; CREATE TEMP TABLE tt (a int) USING lsm; PREPARE TRANSACTION 'temp'");

	like($err, qr/cannot PREPARE a transaction that has operated on temporary objects/, "$level: temporary tables cannot be prepared");
	$node->check_ok('postgres', "$level: at the end");
	$node->stop;
}
done_testing();
