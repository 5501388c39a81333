# Bulk loads: an error and a crash at each of their moments, a standby beside one, the
# end of one by PREPARE TRANSACTION, and files that get another name meanwhile.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $lost = qr/server closed the connection|connection to server was lost/;
my $node = LsmNode->new('load');

$node->setup(
	allows_streaming => 1,
	conf => q{
restart_after_crash = on
autovacuum = off
max_prepared_transactions = 5
allow_in_place_tablespaces = on
});
$node->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, k int, pad text) USING lsm;
CREATE INDEX t_k ON t (k);
CREATE TABLE t_heap (id int PRIMARY KEY, k int, pad text) USING heap;
CREATE TABLE plain (id int, pad text) USING lsm;
});

my $has_amcheck = $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'");
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck') if $has_amcheck;

my $rounds = 0;

# Statements that load n rows; $pad bytes each.
sub load
{
	my ($table, $n, $pad) = @_;

	return "INSERT INTO $table SELECT $rounds * 100000 + i, i % 100, repeat('p', $pad) FROM generate_series(1, $n) i";
}

sub same_rows
{
	my ($label) = @_;

	$node->same_ok('postgres', 'SELECT * FROM t ORDER BY id', 'SELECT * FROM t_heap ORDER BY id', "rows: $label");
	$node->same_ok('postgres', 'SET enable_seqscan = off; SELECT k, count(*), sum(id) FROM t WHERE k >= 0 GROUP BY k ORDER BY k',
		'SELECT k, count(*), sum(id) FROM t_heap WHERE k >= 0 GROUP BY k ORDER BY k', "rows by index: $label");
	$node->check_ok('postgres', $label);
	if ($has_amcheck)
	{
		my ($code, $out, $err) = $node->psql('postgres', q{
			SELECT count(bt_index_check(indexrelid, true)) FROM pg_index WHERE indrelid = 't'::regclass});

		is("$code $err", '0 ', "indexes: $label");
	}
	return;
}

# A load that becomes part of the table by being logged, and one by a flush.
my %points = (
	'load-range' => [ 300, 5000 ],
	'load-seal' => [ 300, 5000 ],
	'seal-before-edit' => [300],
	'switch-after-log' => [5000],
	'flush-after-switch' => [5000],
	'seg-write-page' => [5000],
	'flush-before-swap' => [5000],
	'flush-after-swap' => [5000],);

foreach my $point (sort keys %points)
{
	foreach my $n (@{ $points{$point} })
	{
		my $before = "SET lsm.debug_load_after = 0; SET lsm.debug_stop = '$point";

		$rounds++;
		like($node->psql_until_crash('postgres', "$before:error'; " . load('t', $n, 1000)),
			qr/stopped at "$point"/, "load of $n rows fails at $point");
		same_rows("load of $n rows failed at $point");
		like($node->psql_until_crash('postgres', "$before:crash'; " . load('t', $n, 1000)),
			$lost, "load of $n rows crashes at $point");
		same_rows("load of $n rows crashed at $point");

		# the same again, done; then what the crash has left is removed
		$node->safe_psql('postgres', 'SET lsm.debug_load_after = 0; ' . load('t', $n, 1000));
		$node->safe_psql('postgres', load('t_heap', $n, 1000));
		same_rows("load of $n rows after a crash at $point");
		$node->safe_psql('postgres', "DELETE FROM t WHERE id > 5; DELETE FROM t_heap WHERE id > 5; VACUUM t");
		same_rows("VACUUM after a crash at $point");
	}
}

# In the middle: some of it has been flushed, and the checkpointer has written pages.
foreach my $flush (0, 1)
{
	my $session = $node->session('postgres');

	$rounds++;
	$session->query_safe('SET lsm.debug_load_after = 0; BEGIN; ' . load('t', 5000, 1000) . ';'
		  . ($flush ? "SELECT count(*) FROM lsm_flush('t');" : '') . 'SAVEPOINT a;');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$session->query_safe("INSERT INTO t SELECT -i, i, 'more' FROM generate_series(1, 1000) i; UPDATE t SET k = -1 WHERE id % 3 = 0");
	$node->crash_and_start;
	same_rows('crash in the middle' . ($flush ? ' after a flush' : ''));
	$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('t'); VACUUM t");
	same_rows('crash in the middle, VACUUM' . ($flush ? ' after a flush' : ''));

	# index entries of the load are gone: VACUUM FREEZE has nothing more to do
	is($node->safe_psql('postgres', "SELECT count(*) FROM lsm_segments('t') WHERE kind = 'dead'"), '0', 'no dead roots are left');
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM t WHERE id < 0"), '0', 'no row of the load');
}

# Rolled back, then the server is stopped: its pages are written, but not in WAL.
$node->safe_psql('postgres', 'SET lsm.debug_load_after = 0; BEGIN; ' . load('t', 5000, 1000) . '; ROLLBACK');
$node->restart;
same_rows('rollback and restart');
$node->safe_psql('postgres', 'VACUUM t');
same_rows('rollback, restart and VACUUM');

# Repeated crashes take no space that is not given back.
my $size;
foreach my $i (1 .. 6)
{
	my $session = $node->session('postgres');

	$session->query_safe("SET lsm.debug_load_after = 0; BEGIN; INSERT INTO plain SELECT i, repeat('p', 1000) FROM generate_series(1, 3000) i");
	$node->crash_and_start;
	$node->safe_psql('postgres', 'VACUUM plain');
	$size = $node->safe_psql('postgres', "SELECT pg_relation_size('plain')") if $i == 2;
}
cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('plain')"), '<=', $size, 'the file does not grow by crashes');
is($node->safe_psql('postgres', 'SELECT count(*) FROM plain'), '0', 'no rows are left by crashes');
$node->check_ok('postgres', 'loads that crashed');

# PREPARE TRANSACTION is an end, too.
$rounds++;
foreach my $n (300, 5000)
{
	$node->safe_psql('postgres', "SET lsm.debug_load_after = 0; BEGIN; INSERT INTO t SELECT -i, $n, repeat('p', 1000) FROM generate_series(1, $n) i; PREPARE TRANSACTION 'p'");
	$node->crash_and_start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id < 0'), '0', "load of $n rows is prepared");
	$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
	is($node->safe_psql('postgres', "SELECT count(*), sum(id) FROM t WHERE id < 0 AND k = $n"), "$n|-" . $n * ($n + 1) / 2, "load of $n rows is committed");
	$node->check_ok('postgres', "prepared load of $n rows");
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id < 0; VACUUM t');
}

# The file gets another name before the transaction ends.
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION ''");
foreach my $n (300, 6000)
{
	$node->safe_psql('postgres', qq{
		SET lsm.debug_load_after = 0;
		BEGIN;
		INSERT INTO plain SELECT i, repeat('p', 1000) FROM generate_series(1, $n) i;
		ALTER TABLE plain SET TABLESPACE elsewhere;
		INSERT INTO plain SELECT i, 'after' FROM generate_series(1, 100) i;
		COMMIT});
	$node->crash_and_start;
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM plain'), $n + 100 . "|$n", "$n rows in another tablespace");
	$node->check_ok('postgres', "$n rows in another tablespace");
	$node->safe_psql('postgres', 'TRUNCATE plain; ALTER TABLE plain SET TABLESPACE pg_default');
}

# It gets its old file back, where another load is then given the places that the first has had in
# the new one: that is not sealed with it.
{
	my ($first, $other) = map { $node->session('postgres') } 1 .. 2;
	my $places = 'SELECT min(ctid), max(ctid) FROM plain WHERE id > 0';

	$node->safe_psql('postgres', 'TRUNCATE plain; INSERT INTO plain VALUES (0)');
	$_->query_safe('SET lsm.debug_load_after = 0; BEGIN') foreach $first, $other;
	$first->query_safe('LOCK TABLE plain IN ACCESS SHARE MODE; SAVEPOINT a; ALTER TABLE plain SET TABLESPACE elsewhere');
	$first->query_safe("INSERT INTO plain SELECT i, repeat('f', 500) FROM generate_series(1, 100) i");
	my $place = $first->query_safe($places);
	$first->query_safe('ROLLBACK TO a');
	$other->query_safe("INSERT INTO plain SELECT i, repeat('o', 500) FROM generate_series(1, 100) i");
	is($other->query_safe($places), $place, 'another load has the same places in the old file');
	$first->query_safe('COMMIT');
	$other->query_safe("INSERT INTO plain SELECT i, repeat('o', 500) FROM generate_series(101, 200) i; COMMIT");
	$_->quit foreach $first, $other;
	$node->crash_and_start;
	is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM plain'), '201|20100', 'the other load is there after a crash');
	$node->check_ok('postgres', 'a load in a file that was given up');
}

# A load before the move, and one after it, and then the old file again.
$node->safe_psql('postgres', q{
	TRUNCATE plain;
	SET lsm.debug_load_after = 0;
	BEGIN;
	INSERT INTO plain SELECT i, repeat('p', 500) FROM generate_series(1, 300) i;
	SAVEPOINT a;
	ALTER TABLE plain SET TABLESPACE elsewhere;
	INSERT INTO plain SELECT i, repeat('p', 500) FROM generate_series(301, 600) i;
	ROLLBACK TO a;
	INSERT INTO plain SELECT i, repeat('p', 500) FROM generate_series(601, 900) i;
	COMMIT});
$node->crash_and_start;
is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM plain'), '600|270300', 'loads before a move that was undone, and after it');
$node->check_ok('postgres', 'a move that was undone');
foreach my $change ('ALTER TABLE plain ALTER COLUMN id TYPE bigint', 'VACUUM FULL plain', 'CREATE MATERIALIZED VIEW view AS SELECT * FROM plain',
	'REFRESH MATERIALIZED VIEW view', 'CREATE TABLE plain2 AS SELECT * FROM plain')
{
	$node->safe_psql('postgres', "TRUNCATE plain; INSERT INTO plain SELECT i, repeat('p', 1000) FROM generate_series(1, 6000) i");
	$node->safe_psql('postgres', "SET lsm.debug_load_after = 0; SET default_table_access_method = lsm; $change");
	$node->crash_and_start;
	foreach my $table ('plain', $change =~ m{view}i ? 'view' : (), $change =~ /(plain2)/)
	{
		is($node->safe_psql('postgres', "SELECT count(*), count(DISTINCT id) FROM $table"), '6000|6000', "$table after $change and a crash");
	}
	$node->check_ok('postgres', $change);
}

# Rows that come after the table was rewritten, in the same transaction: its file was another
# table's, by whose name those of the rewrite were loaded.
$node->safe_psql('postgres', 'DROP MATERIALIZED VIEW view');
foreach my $n (100, 6000)
{
	foreach my $change ('ALTER TABLE plain ALTER COLUMN id TYPE int USING id::int', 'ALTER TABLE plain SET UNLOGGED; ALTER TABLE plain SET LOGGED',
		'CREATE INDEX plain_id ON plain (id); CLUSTER plain USING plain_id; DROP INDEX plain_id', 'TRUNCATE plain; INSERT INTO plain SELECT i, repeat(\'q\', 1000) FROM generate_series(1, 6000) i')
	{
		$node->safe_psql('postgres', "TRUNCATE plain; ALTER TABLE plain ALTER COLUMN id TYPE bigint; INSERT INTO plain SELECT i, repeat('p', 1000) FROM generate_series(1, 6000) i");
		$node->safe_psql('postgres', qq{
			SET lsm.debug_load_after = 0;
			BEGIN;
			INSERT INTO plain SELECT i, repeat('before', 200) FROM generate_series(6001, 7000) i;
			SAVEPOINT a;
			ALTER TABLE plain ALTER COLUMN pad TYPE varchar(2000);
			INSERT INTO plain SELECT i, repeat('undone', 200) FROM generate_series(7001, 8000) i;
			ROLLBACK TO a;
			INSERT INTO plain SELECT i, repeat('again', 200) FROM generate_series(8001, 9000) i;
			$change;
			INSERT INTO plain SELECT i, repeat('p', 1000) FROM generate_series(10001, 10000 + $n) i;
			COMMIT});
		my $expected = ($change =~ m{TRUNCATE} ? 6000 : 8000) + $n;

		is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM plain'), "$expected|$expected", "$n rows after $change");
		$node->crash_and_start;
		is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM plain'), "$expected|$expected", "$n rows after $change and a crash");
		$node->check_ok('postgres', "$n rows after $change");
	}
}

# A standby beside a load sees nothing of it before its commit, and all of it then.
$node->safe_psql('postgres', "DELETE FROM t; DELETE FROM t_heap; VACUUM t; INSERT INTO t SELECT i, i, 'one' FROM generate_series(1, 100) i");
$node->backup('first');

my $standby = LsmNode->new('load_standby');

$standby->init_from_backup($node, 'first', has_streaming => 1);
$standby->start;

my $sums = 'SELECT count(*), sum(id), sum(k) FROM t';
my $by_index = 'SET enable_seqscan = off; SELECT count(*), sum(id), sum(k) FROM t WHERE id > 0';

sub on_standby
{
	my ($expected, $label) = @_;

	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is($standby->safe_psql('postgres', $sums), $expected, "standby: $label");
	is($standby->safe_psql('postgres', $by_index), $expected, "standby, by index: $label");
	return;
}

foreach my $n (300, 6000)
{
	my $before = $node->safe_psql('postgres', $sums);
	my $session = $node->session('postgres');

	$rounds++;
	on_standby($before, 'before the load');
	$session->query_safe('SET lsm.debug_load_after = 0; BEGIN; ' . load('t', $n, 1000));
	on_standby($before, "load of $n rows");
	$session->query_safe('COMMIT');
	on_standby($node->safe_psql('postgres', $sums), "load of $n rows, committed");
	$session->query_safe('BEGIN; ' . load('t', $n, 1000) =~ s/SELECT /SELECT -1 * /r);
	$session->query_safe('ROLLBACK');
	on_standby($node->safe_psql('postgres', $sums), "load of $n rows, rolled back");
	$standby->crash_and_start;
	on_standby($node->safe_psql('postgres', $sums), "load of $n rows, standby restarted");
	$session->quit;
}

# It is promoted in the middle of one.
my $before = $node->safe_psql('postgres', $sums);
my $session = $node->session('postgres');

$rounds++;
$session->query_safe('SET lsm.debug_load_after = 0; BEGIN; ' . load('t', 6000, 1000) . "; UPDATE t SET k = 0 WHERE id % 2 = 0");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->crash;
$standby->promote;
is($standby->safe_psql('postgres', $sums), $before, 'promoted: rows');
$standby->safe_psql('postgres', 'SET lsm.debug_load_after = 0; ' . load('t', 6000, 1000));
$standby->check_ok('postgres', 'promoted');
my $after = $standby->safe_psql('postgres', $sums);
$standby->safe_psql('postgres', 'VACUUM t');
is($standby->safe_psql('postgres', $by_index), $after, 'promoted: a load of its own, VACUUM');
is($standby->safe_psql('postgres', "SELECT count(*) FROM lsm_segments('t') WHERE kind = 'dead'"), '0', 'promoted: no dead roots are left');
$standby->check_ok('postgres', 'promoted, VACUUM');
$standby->crash_and_start;
is($standby->safe_psql('postgres', $sums), $after, 'promoted: after a crash');
$standby->stop;

# ---- what a load leaves behind, after a crash ----
# (Of a server that logs no snapshots of running transactions, which tell of xids, too.)

$node = LsmNode->new('crashes');
$node->init(extra => ['-k']);
$node->append_conf('postgresql.conf', "autovacuum = off\nwal_level = minimal\nmax_wal_senders = 0\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION lsm');

# Everything that is in WAL now is on disk, without a record that has an xid.
sub flush_wal
{
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	return;
}

# Rows of a subtransaction that has logged nothing: a flush by others has put them in
# segments, and nobody else may get its xid.
$node->safe_psql('postgres', 'CREATE TABLE s (id int, pad text) USING lsm');
$session = $node->session('postgres');
my $insert = "INSERT INTO s SELECT i, repeat('p', 1000) FROM generate_series";
my $youngest = 'SELECT max(xmin::text::int) FROM s';
$session->query_safe("BEGIN; $insert(1, 3000) i");
my $xid = $session->query_safe($youngest);
$session->query_safe("SAVEPOINT a; $insert(3001, 3010) i");
my $subxid = $session->query_safe($youngest);
cmp_ok($subxid, '>', $xid, 'a subtransaction has an xid of its own');
$node->safe_psql('postgres', "SELECT lsm_flush('s')");
is($node->safe_psql('postgres', "SELECT sum(rows) FROM lsm_segments('s')"), 3010, 'its rows are in a segment');
flush_wal();
$node->crash_and_start;
my @xids = map { $node->safe_psql('postgres', 'SELECT pg_current_xact_id()') } 1 .. 5;
cmp_ok($xids[0], '>', $subxid, 'xids go on behind that of the subtransaction after a crash');
is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM s'), '0|', 'no row of the load is there');
$node->safe_psql('postgres', "INSERT INTO s VALUES (1); SELECT lsm_flush('s'); VACUUM s");
is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM s'), '1|1', 'nor after VACUUM');
$node->check_ok('postgres', 'rows of a subtransaction');

# A load that was rolled back and removed while its transaction goes on: another one has its
# LBs by then, and is not sealed with it.  (The transaction has the table locked, or not: then
# it does not seal it.)
foreach my $locked (0, 1)
{
	my $label = $locked ? 'locked' : 'not locked';

	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS again; CREATE TABLE again (id int, pad text) USING lsm; INSERT INTO again VALUES (0)');
	$session = $node->session('postgres');
	$insert = "INSERT INTO again SELECT i, repeat('p', 100) FROM generate_series";
	$session->query_safe('SET lsm.debug_load_after = 0; BEGIN');
	$session->query_safe('LOCK TABLE again IN ROW EXCLUSIVE MODE') if $locked;
	$session->query_safe("SAVEPOINT a; $insert(1, 40000) i");
	my $places = 'SELECT min(ctid), max(ctid) FROM again WHERE id BETWEEN 1 AND 5000';
	my $place = $session->query_safe($places);
	$session->query_safe('ROLLBACK TO a');
	$node->safe_psql('postgres', 'VACUUM (TRUNCATE off) again');
	my $other = $node->session('postgres');
	$other->query_safe("SET lsm.debug_load_after = 0; BEGIN; $insert(1, 5000) i");
	is($other->query_safe($places), $place, "$label: another load has places of one that was rolled back");
	$session->query_safe('COMMIT');
	$other->query_safe("$insert(5001, 6000) i; COMMIT");
	$node->crash_and_start;
	is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM again'), '6001|' . 6000 * 6001 / 2,
		"$label: the other load is there after a crash");
	$node->check_ok('postgres', "$label: two loads in the same places");
}

# Pages of ranges that loads have had: no record has what was written there since the last
# checkpoint, so a crash may tear them, and who uses the ranges next must not read them.

# Blocks of a file that are pages of the row log without items (FORMAT.md).
sub empty_pages
{
	my ($file) = @_;
	my $bytes = PostgreSQL::Test::Utils::slurp_file($file);
	my @blocks;

	foreach my $block (0 .. length($bytes) / 8192 - 1)
	{
		my $lower = unpack('S', substr($bytes, 8192 * $block + 12, 2));
		my $kind = unpack('S', substr($bytes, 8192 * $block + 8168 + 16, 2));

		push @blocks, $block if $kind == 0x4C02 && $lower == 24;
	}
	return @blocks;
}

# As if the first half of each page had been written, and the other not.
sub tear
{
	my ($file, @blocks) = @_;

	open my $fh, '+<:raw', $file or die "$file: $!";
	foreach my $block (@blocks)
	{
		seek $fh, 8192 * $block + 4096, 0 or die $!;
		print $fh 'torn' x 1024 or die $!;
	}
	close $fh or die $!;
	return;
}

my $rows = "SELECT i, repeat('p', 1000) FROM generate_series";

# What may use the ranges next.
my %uses = (
	'a row' => q{INSERT INTO table_name VALUES (0)},
	'rows of more than one range' => "SET lsm.debug_load_after = -1; INSERT INTO table_name $rows(-1000, -1) i",
	'a change' => q{UPDATE table_name SET id = 0 WHERE id = 1},
	'a load' => "SET lsm.debug_load_after = 0; INSERT INTO table_name $rows(-1000, -1) i",

	# the last range that it is given stays as it was
	'a load that fails' => qq{
SET lsm.debug_load_after = 0;
BEGIN;
INSERT INTO table_name $rows(-600, -1) i;
DO \$\$ BEGIN
SET LOCAL lsm.debug_stop = 'load-range:error';
INSERT INTO table_name $rows(-1000, -601) i;
EXCEPTION WHEN operator_intervention THEN NULL;
END \$\$;
SELECT count(id) FROM table_name;
ROLLBACK;
SELECT lsm_flush('table_name')},
	'nothing' => 'SELECT',);
my @tables;

foreach my $end ('COMMIT', 'crash')
{
	foreach my $use (sort keys %uses)
	{
		my $table = 'torn' . scalar(@tables);

		$node->safe_psql('postgres', "CREATE TABLE $table (id int, pad text) USING lsm; INSERT INTO $table VALUES (1)");
		push @tables, {
			name => $table,
			end => $end,
			what => $use,
			use => $uses{$use} =~ s/table_name/$table/gr,
			label => "$use after a load and its $end",
			file => $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$table')"),
			session => $node->session('postgres'),};

		# some ranges in all, of which the last one is hardly begun
		$tables[-1]->{session}->query_safe("SET lsm.debug_load_after = 0; BEGIN; INSERT INTO $table $rows(2, 700) i");
	}
}
$node->safe_psql('postgres', 'CHECKPOINT');
foreach my $table (@tables)
{
	$table->{blocks} = [ empty_pages($table->{file}) ];
	cmp_ok(scalar(@{ $table->{blocks} }), '>', 100, "$table->{label}: pages that are to be filled");
	$table->{session}->query_safe("INSERT INTO $table->{name} $rows(701, 2000) i");
	$node->safe_psql('postgres', "SELECT lsm_flush('$table->{name}')");
	$table->{session}->query_safe('COMMIT') if $table->{end} eq 'COMMIT';
}
flush_wal();
$node->crash;
tear($_->{file}, @{ $_->{blocks} }) foreach @tables;
my $log = -s $node->logfile;
$node->start;

# A statement for each of the tables, or how its ranges are used.
sub tables_ok
{
	my ($statement) = @_;

	foreach my $table (@tables)
	{
		my $sql = $statement eq 'use' ? $table->{use} : $statement =~ s/table_name/$table->{name}/gr;
		my ($code, $out, $err) = $node->psql('postgres', $sql);

		is("$code $err", '0 ', "$table->{label}: " . $statement =~ s/table_name/the table/r);
	}
	return;
}

tables_ok($_) foreach 'use', 'SELECT count(id) FROM table_name';
$node->crash_and_start;
tables_ok($_) foreach 'SELECT count(id) FROM table_name', q{SELECT lsm_flush('table_name')}, 'VACUUM table_name';
my %sums = ('a row' => [1, 0], 'a change' => [0, -1], 'a load that fails' => [0, 0], 'nothing' => [0, 0]);
foreach my $table (@tables)
{
	my ($n, $sum) = @{ $sums{ $table->{what} } || [ 1000, -500500 ] };
	my $loaded = $table->{end} eq 'COMMIT' ? 2000 : 1;

	is($node->safe_psql('postgres', "SELECT count(*), sum(id) FROM $table->{name}"),
		$loaded + $n . '|' . ($loaded * ($loaded + 1) / 2 + $sum), "$table->{label}: rows");
}
ok(!$node->log_contains('page verification failed', $log), 'nobody has read a torn page');
$node->check_ok('postgres', 'torn pages');

$node->stop;
done_testing();
