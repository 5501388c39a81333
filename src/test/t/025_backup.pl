# Backups and repairs that go by files, pages and block references in WAL:
# pg_basebackup with pg_verifybackup, incremental backups (17 and later),
# pg_rewind, pg_checksums.  Each result has the rows and is sound.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('primary');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $rows = q{SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM t x;
	SELECT count(*), sum(v) FROM u;
	SET enable_seqscan = off; SELECT k, count(*), sum(id), sum(v) FROM t WHERE k >= 0 GROUP BY k ORDER BY k};

$node->setup(extra => ['-k'], conf => "autovacuum = off\nfsync = off\nwal_log_hints = on\nwal_keep_size = 256MB\n");
my $version = $node->safe_psql('postgres', "SELECT current_setting('server_version_num')::int / 10000");

$node->append_conf('postgresql.conf', 'summarize_wal = on') if $version >= 17;
$node->restart;
$node->safe_psql('postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v int, k int, b text) USING lsm;
CREATE INDEX t_k ON t (k);
INSERT INTO t SELECT i, i, i % 20, md5(i::text) FROM generate_series(1, 3000) i;
SELECT lsm_flush('t');
UPDATE t SET v = v + 1 WHERE id % 3 = 0;
SELECT lsm_flush('t');
UPDATE t SET k = k + 1 WHERE id % 7 = 0;
CREATE TABLE u (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO u SELECT i, i FROM generate_series(1, 500) i});

# Every kind of change, so that each kind of page and record is in WAL.
sub change
{
	my ($n, $seed) = @_;

	$n->safe_psql('postgres', $_) foreach
	  "UPDATE t SET v = v + $seed WHERE id % 4 = 0; DELETE FROM t WHERE id % 37 = $seed",
	  "SELECT lsm_flush('t')",
	  "UPDATE t SET k = k + 1 WHERE id % 9 = 0; INSERT INTO t SELECT i, i, i % 20, 'new' FROM generate_series(10000 * $seed, 10000 * $seed + 300) i",
	  "SELECT lsm_flush('t'); SELECT lsm_minor_compact('t')",
	  "UPDATE t SET b = 'b' || $seed WHERE id % 11 = 0",
	  $seed % 2 ? "SELECT lsm_major_compact('t')" : 'VACUUM t',
	  "UPDATE u SET v = v + 1; BEGIN; UPDATE u SET v = 0; SELECT lsm_flush('u'); ROLLBACK; UPDATE t SET v = v - 1 WHERE id % 5 = 0";
	return;
}

sub restored_ok
{
	my ($copy, $expected, $label) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$copy->start;
	is($copy->safe_psql('postgres', $rows), $expected, "rows: $label");
	$copy->check_ok('postgres', $label);
	change($copy, 9);
	$copy->check_ok('postgres', "$label, after changes");
	$copy->stop;
	return;
}

# A base backup, while there are changes.
my $session = $node->session('postgres');

$session->query_safe('BEGIN; UPDATE t SET v = 0 WHERE id < 100');
$node->command_ok([ 'pg_basebackup', '-D', $node->backup_dir . '/full', '--checkpoint', 'fast', '--no-sync' ], 'pg_basebackup');
$session->query_safe('ROLLBACK');
$session->quit;
my $at_backup = $node->safe_psql('postgres', $rows);

$node->command_ok([ 'pg_verifybackup', $node->backup_dir . '/full' ], 'pg_verifybackup');
my $full = LsmNode->new('full');

$full->init_from_backup($node, 'full');
restored_ok($full, $at_backup, 'base backup');
$full->command_ok([ 'pg_checksums', '--check', '-D', $full->data_dir ], 'checksums of the base backup');

SKIP:
{
	skip 'incremental backups came with PostgreSQL 17', 12 if $version < 17;
	my $last = 'full';

	foreach my $round (1 .. 2)
	{
		change($node, $round);
		$node->command_ok([ 'pg_basebackup', '-D', $node->backup_dir . "/incremental_$round", '--checkpoint', 'fast', '--no-sync',
				'--incremental', $node->backup_dir . "/$last/backup_manifest" ], "incremental backup $round");
		$last = "incremental_$round";
		$at_backup = $node->safe_psql('postgres', $rows);
		$node->command_ok([ 'pg_verifybackup', $node->backup_dir . "/$last" ], "pg_verifybackup $round");
		my $combined = LsmNode->new("combined_$round");

		$combined->init_from_backup($node, $last,
			combine_with_prior => [ 'full', map { "incremental_$_" } 1 .. $round - 1 ]);
		restored_ok($combined, $at_backup, "combined backup $round");
		$combined->command_ok([ 'pg_checksums', '--check', '-D', $combined->data_dir ], "checksums of the combined backup $round");
	}
}

# pg_rewind: a standby is promoted, both servers go on, the old one goes back.
$node->backup('for_standby');
my $standby = LsmNode->new('standby');

$standby->init_from_backup($node, 'for_standby', has_streaming => 1);
$standby->start;
change($node, 3);
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$standby->promote;
change($node, 4);
change($node, 5);
$node->safe_psql('postgres', q{CREATE TABLE lost (a int) USING lsm; INSERT INTO lost VALUES (1); TRUNCATE u; INSERT INTO u VALUES (1, 1)});
change($standby, 6);
$standby->safe_psql('postgres', 'CHECKPOINT; UPDATE t SET v = v + 6 WHERE id % 6 = 0');
my $expected = $standby->safe_psql('postgres', $rows);

$node->stop;
my $conf = PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postgresql.conf');

$standby->command_ok([ 'pg_rewind', '--no-sync', '--source-server', $standby->connstr('postgres'), '--target-pgdata', $node->data_dir ],
	'pg_rewind');
$node->append_conf('postgresql.conf', $conf);
$node->append_conf('postgresql.conf', "port = " . $node->port . "\nprimary_conninfo = '" . $standby->connstr . "'");
$node->set_standby_mode;
$node->start;
$standby->wait_for_catchup($node, 'replay', $standby->lsn('insert'));
is($node->safe_psql('postgres', $rows), $expected, 'rows: rewound server');
is($node->safe_psql('postgres', "SELECT to_regclass('lost')"), '', 'what the standby did not have is gone');
change($standby, 7);
$standby->wait_for_catchup($node, 'replay', $standby->lsn('insert'));
is($node->safe_psql('postgres', $rows), $standby->safe_psql('postgres', $rows), 'rows: rewound server as a standby');
$standby->stop;
$node->promote;
$node->check_ok('postgres', 'rewound server');
change($node, 8);
$node->check_ok('postgres', 'rewound server, after changes');
$expected = $node->safe_psql('postgres', $rows);

# pg_checksums off and on again.
$node->stop;
$node->command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums of the rewound server');
$node->command_ok([ 'pg_checksums', '--disable', '--no-sync', '-D', $node->data_dir ], 'pg_checksums --disable');
$node->start;
$node->safe_psql('postgres', q{UPDATE t SET v = v + 1 WHERE id % 3 = 0; SELECT lsm_flush('t'); UPDATE t SET v = v - 1 WHERE id % 3 = 0});
$node->stop;
$node->command_ok([ 'pg_checksums', '--enable', '--no-sync', '-D', $node->data_dir ], 'pg_checksums --enable');
$node->start;
is($node->safe_psql('postgres', $rows), $expected, 'rows: with checksums again');
$node->check_ok('postgres', 'with checksums again');
$node->stop;
done_testing();
