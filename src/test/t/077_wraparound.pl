# Transaction ids that lie far apart: over the wraparound of 32 bits, over epochs, and up to
# where the server gives out no more of them.  pg_resetwal jumps.  What lsm stores are 64-bit
# xids, but snapshots, pg_xact and relfrozenxid have 32 bits, half of them before the next one.
#
# A heap twin gets the same statements in the same transactions, so that even xmin must be
# the same.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

use constant EPOCH => 2**32;

# How old the oldest xid may be when the server gives out the last one; xids in a file of pg_xact, and
# multixacts in one of pg_multixact/offsets.
use constant STOP => 2**31 - 1 - 3_000_000;
use constant XACT_FILE => 32 * 8192 * 4;
use constant OFFSETS_FILE => 32 * 8192 / 4;

my $node = LsmNode->new('wraparound');

# No autovacuum against wraparound but at the limit.
$node->setup(conf => q{
autovacuum = off
autovacuum_freeze_max_age = 2000000000
autovacuum_multixact_freeze_max_age = 2000000000
fsync = off
max_prepared_transactions = 10
});

my $has_amcheck = $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'");
my $round = 1;
my $next_multi = 1;		# after the last jump

# look() tells of all there is to see of a table, xmin as well.
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck') if $has_amcheck;
$node->safe_psql('postgres', q{
	CREATE FUNCTION large(n int) RETURNS text LANGUAGE sql AS
		$$ SELECT string_agg(md5((n * 1000 + g)::text), '') FROM generate_series(1, 700) g $$;
	CREATE FUNCTION look(name text, condition text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		found text;
	BEGIN
		EXECUTE format('SELECT count(*) || %L || md5(string_agg(concat_ws(%L, xmin, id, k, v, md5(large)), %L ORDER BY id)) FROM %I WHERE %s',
			' rows: ', ',', ';', name, condition) INTO found;
		RETURN found;
	END $$;
	CREATE TABLE h (id int PRIMARY KEY, k int, v int, large text) USING heap;
	CREATE TABLE t (LIKE h INCLUDING ALL) USING lsm;
	CREATE INDEX ON h (k);
	CREATE INDEX ON t (k);
	CREATE TABLE idle_h (LIKE h INCLUDING ALL) USING heap;
	CREATE TABLE idle_t (LIKE h INCLUDING ALL) USING lsm;
	UPDATE pg_database SET datallowconn = true WHERE datname = 'template0'});

my ($main, $locker, $reader);

# The same statement for both tables.
sub twin
{
	my ($sql) = @_;

	return $sql unless $sql =~ /\bTWIN\b/;
	return join ";\n", map { $sql =~ s/\bTWIN\b/$_/gr } ('h', 't');
}

sub both
{
	my ($session, @sql) = @_;

	$session->query_safe(join ";\n", 'BEGIN', (map { twin($_) } @sql), 'COMMIT;');
	return;
}

sub open_sessions
{
	($main, $locker, $reader) = map { $node->session('postgres') } (1 .. 3);
	return;
}

sub close_sessions
{
	$_->quit foreach ($main, $locker, $reader);
	return;
}

# Everything that can become of a row; stage tells which rows.  A transaction of
# the session locker and a prepared one are left open for finish_changes().
sub change
{
	my ($stage) = @_;
	my $first = $round * 10000 + $stage * 1000;

	both($main, "INSERT INTO TWIN SELECT $first + i, i % 20, 0, CASE WHEN i % 50 = 0 THEN large(i) END FROM generate_series(1, 120) i");
	both($main, "UPDATE TWIN SET v = v + 1 WHERE id % 7 = $stage", "UPDATE TWIN SET k = k + 1 WHERE id % 11 = $stage");
	both($main, "UPDATE TWIN SET large = large(id) WHERE id % 50 = 0 AND id > $first - 2000 AND (id / 50) % 3 = 1");
	both($main, "UPDATE TWIN SET v = -v, k = k + 2 WHERE id % 12 = $stage", "DELETE FROM TWIN WHERE id % 13 = ($round + $stage) % 13");
	both($main,
		"UPDATE TWIN SET v = v + 100 WHERE id % 17 = $stage",
		'SAVEPOINT a',
		"UPDATE TWIN SET k = -k WHERE id % 17 = $stage", "INSERT INTO TWIN SELECT $first + 200 + i, i FROM generate_series(1, 20) i",
		"DELETE FROM TWIN WHERE id % 19 = $stage",
		'ROLLBACK TO a; SAVEPOINT b',
		"UPDATE TWIN SET v = v + 10 WHERE id % 19 = $stage", "INSERT INTO TWIN SELECT $first + 300 + i, i FROM generate_series(1, 20) i",
		'RELEASE b');
	both($main, "UPDATE TWIN SET v = -1, k = -1 WHERE id % 5 = $stage", "INSERT INTO TWIN SELECT $first + 400 + i, i FROM generate_series(1, 20) i",
		'DELETE FROM TWIN WHERE id % 3 = 0', 'ROLLBACK; BEGIN');
	both($main, "SELECT count(*) FROM (SELECT FROM TWIN WHERE id % 23 = $stage FOR UPDATE) x");

	# several lockers of a row, one of which changes it; and two transactions in doubt
	$locker->query_safe('BEGIN; ' . twin("SELECT count(*) FROM (SELECT FROM TWIN WHERE id % 60 IN ($stage, 50 + $stage) FOR KEY SHARE) x")
		  . '; ' . twin("UPDATE TWIN SET v = v + 1000 WHERE id % 60 = 10 + $stage") . ';');
	both($main, "UPDATE TWIN SET v = v + 10 WHERE id % 60 = $stage", "SELECT count(*) FROM (SELECT FROM TWIN WHERE id % 60 = 50 + $stage FOR SHARE) x");
	$main->query_safe(join ";\n", 'BEGIN', twin("UPDATE TWIN SET v = v + 5 WHERE id % 60 = 20 + $stage"), twin("UPDATE TWIN SET k = k + 5 WHERE id % 60 = 30 + $stage"),
		twin("DELETE FROM TWIN WHERE id % 60 = 40 + $stage"), twin("INSERT INTO TWIN SELECT $first + 500 + i, i FROM generate_series(1, 20) i"),
		"PREPARE TRANSACTION 'doubt';");
	return;
}

sub finish_changes
{
	my ($stage) = @_;

	$main->query_safe(($stage + $round) % 2 == 0 ? "COMMIT PREPARED 'doubt';" : "ROLLBACK PREPARED 'doubt';");
	$locker->query_safe(($stage + $round) % 3 == 0 ? 'ROLLBACK;' : 'COMMIT;');
	return;
}

sub job
{
	my ($name) = @_;

	$main->query_safe("SELECT count(*) FROM lsm_$name('t');");
	return;
}

# The same rows, whichever way they are read.
sub same
{
	my ($label) = @_;
	my %ways = (
		'sequential scan' => [ 'indexscan, bitmapscan', 'true' ],
		'primary key' => [ 'seqscan, bitmapscan', 'id > 0' ],
		'index' => [ 'seqscan, bitmapscan', 'k > -1000000' ],
		'bitmap' => [ 'seqscan, indexscan', 'k > -1000000' ]);
	my $bad = '';

	foreach my $way (sort keys %ways)
	{
		my ($off, $condition) = @{ $ways{$way} };
		my $set = join ' ', map { "SET LOCAL enable_$_ = off;" } split /, /, $off;
		my ($h, $t) = split /\n/, $node->safe_psql('postgres', "BEGIN; $set SELECT look('h', '$condition'); SELECT look('t', '$condition'); COMMIT");

		$bad .= "$way: $h, $t\n" if $h ne $t;
	}
	is($bad, '', "the same rows $label") or diag $node->safe_psql('postgres', q{
		WITH a AS (SELECT xmin::text, id, k, v, md5(large) FROM h), b AS (SELECT xmin::text, id, k, v, md5(large) FROM t)
		(SELECT 'heap', * FROM (TABLE a EXCEPT TABLE b) x ORDER BY id LIMIT 10) UNION ALL
		(SELECT 'lsm', * FROM (TABLE b EXCEPT TABLE a) x ORDER BY id LIMIT 10)});
	$node->same_ok('postgres', 'SELECT count(*), sum(k), sum(v), min(v) FROM h', 'SELECT count(*), sum(k), sum(v), min(v) FROM t', "sums $label");
	return;
}

sub sound
{
	my ($label, $table) = @_;

	$table = 't' unless defined $table;

	$node->check_ok('postgres', $label, $table);
	return unless $has_amcheck;
	is($node->safe_psql('postgres', "SELECT count(bt_index_check(indexrelid, true)) FROM pg_index WHERE indrelid = '$table'::regclass"),
		'2', "indexes of $table lead to all rows $label");
	return;
}

# Ages of both tables' relfrozenxid and relminmxid.
sub ages
{
	my ($prefix) = @_;
	return split /[|\n]/, $node->safe_psql('postgres',
		"SELECT age(relfrozenxid), mxid_age(relminmxid) FROM pg_class WHERE relname IN ('${prefix}h', '${prefix}t') ORDER BY relname");
}

# After VACUUM: lsm's are no older than heap's, and none is in the future.
sub advanced
{
	my ($prefix, $max, $label) = @_;
	my ($h_xid, $h_multi, $t_xid, $t_multi) = ages($prefix);

	ok($t_xid >= 0 && $t_xid <= $h_xid + 100 && $h_xid <= $max, "relfrozenxid $label: age $t_xid, of heap $h_xid");
	ok($t_multi >= 0 && $t_multi <= $h_multi + 100 && $h_multi <= $max, "relminmxid $label: age $t_multi, of heap $h_multi");
	return;
}

# All databases, with these settings.
sub vacuum_all
{
	my ($settings, @options) = @_;

	local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } split /, /, $settings;
	ok($node->run_log([ 'vacuumdb', '--quiet', '--all', @options ]), "VACUUM of all databases ($settings@options)");
	return;
}

# A file of zeroes, as the server would have it at this place.
sub zero_file
{
	my ($directory, $number) = @_;
	my $path = sprintf '%s/%s/%04X', $node->data_dir, $directory, $number;

	return if -e $path;
	open(my $file, '>', $path) or die "could not create $path: $!";
	truncate($file, 32 * 8192) or die "could not lengthen $path: $!";
	close $file;
	return;
}

sub control
{
	my ($what) = @_;
	my ($stdout) = PostgreSQL::Test::Utils::run_command([ 'pg_controldata', $node->data_dir ]);

	$stdout =~ /^Latest checkpoint's $what:\s*(\S+)$/m or die "no $what";
	return $1;
}

# The next xid and the oldest one that the server goes by, 64-bit ones.
sub xids
{
	my ($epoch, $next) = split /:/, control('NextXID');
	my $oldest = control('oldestXID');

	return ($epoch * EPOCH + $next, $epoch * EPOCH + $oldest - ($oldest > $next ? EPOCH : 0));
}

# The server has been stopped.
sub jump
{
	my ($xid, $multis) = @_;
	my @command = ('pg_resetwal', '-e', int($xid / EPOCH), '-x', $xid % EPOCH);

	zero_file('pg_xact', int($xid % EPOCH / XACT_FILE));
	if ($multis > 0)
	{
		my $next = control('NextMultiXactId');
		my $multi = ($next + $multis) % EPOCH;

		cmp_ok($next, '>', $next_multi + 10, 'heap has needed multixacts');
		$next_multi = $multi;
		zero_file('pg_multixact/offsets', int($multi / OFFSETS_FILE));
		push @command, '-m', $multi . ',' . control('oldestMultiXid');
	}
	PostgreSQL::Test::Utils::system_or_bail(@command, $node->data_dir);
	note "next xid $xid";
	return;
}

# Tables of which nobody reads what has been changed, so that all that can tell of these xids is
# what VACUUM does.
sub change_unseen
{
	my $first = $round * 1000;

	foreach my $sql ("INSERT INTO %s SELECT i, i, 0 FROM generate_series($first, $first + 500) i",
		'UPDATE %s SET v = 1 WHERE id % 3 = 0; SAVEPOINT a; UPDATE %s SET k = -k WHERE id % 3 = 1; ROLLBACK TO a; RELEASE a',
		"UPDATE %s SET k = -k WHERE id % 3 = 1; DELETE FROM %s WHERE id % 5 = 0",
		"INSERT INTO %s SELECT -i FROM generate_series(1, 100) i; UPDATE %s SET v = 2; DELETE FROM %s; ROLLBACK; BEGIN",
		"SET LOCAL enable_seqscan = off; DELETE FROM %s WHERE id = $first + 1; UPDATE %s SET v = 3 WHERE id = $first + 2;
		UPDATE %s SET k = -1 WHERE id = $first + 3; INSERT INTO %s VALUES ($first + 900)")
	{
		$main->query_safe(join ";\n", 'BEGIN', (map { $sql =~ s/%s/$_/gr } ('idle_h', 'idle_t')), 'COMMIT;');
	}
	return;
}

sub same_unseen
{
	my ($label) = @_;

	$node->same_ok('postgres', q{SELECT look('idle_h', 'true')}, q{SELECT look('idle_t', 'true')}, "rows of tables that nobody has looked at $label");
	$node->same_ok('postgres', q{SET enable_seqscan = off; SELECT look('idle_h', 'k > -10000')}, q{SET enable_seqscan = off; SELECT look('idle_t', 'k > -10000')},
		"the same by an index $label");
	sound($label, 'idle_t');
	return;
}

# VACUUM (FREEZE) of t tells by how much relminmxid has advanced.
sub freeze_verbosely
{
	my ($label) = @_;
	my $minmxid = q{SELECT relminmxid FROM pg_class WHERE relname = 't'};
	my $before = $node->safe_psql('postgres', $minmxid);
	my (undef, undef, $said) = $node->psql('postgres', 'VACUUM (FREEZE, VERBOSE) t');
	my $now = $node->safe_psql('postgres', $minmxid);
	my ($told) = $said =~ /^new relminmxid: (.*)$/m;

	is($told, $now eq $before ? undef : sprintf('%s, which is %d MXIDs ahead of previous value', $now, ($now - $before) % EPOCH),
		"VACUUM tells of relminmxid $label");
	return;
}

# Rows in all states of their life, with a snapshot from before.
sub work
{
	my ($label) = @_;
	my $names = q{SELECT set_config('test.%s', array_agg(ctid)::text, false) IS NULL FROM %s;};
	my $by_name = q{SELECT count(*), sum(id), sum(v) FROM %s WHERE ctid = ANY (current_setting('test.%s')::tid[]);};
	my (@before, @after, $age);

	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ;');
	$reader->query_safe(sprintf $names, $_, $_) foreach ('h', 't');
	@before = map { $reader->query_safe("SELECT look('$_', 'true');"), $reader->query_safe(sprintf $by_name, $_, $_) } ('h', 't');
	is("$before[2] $before[3]", "$before[0] $before[1]", "what a snapshot sees $label");
	change(0);
	finish_changes(0);
	change(1);
	job('flush');
	finish_changes(1);
	change(2);
	job('flush');
	job('minor_compact');
	finish_changes(2);
	change(3);
	job('flush');
	job('major_compact');
	same("while transactions are in doubt $label");

	# what is in doubt, or may be needed by the snapshot, holds VACUUM up
	$age = $node->safe_psql('postgres', q{SELECT age(transaction) FROM pg_prepared_xacts});
	$node->safe_psql('postgres', 'VACUUM (FREEZE) h');
	freeze_verbosely($label);
	my ($h_xid, undef, $t_xid) = ages('');
	ok($t_xid >= $age && $h_xid >= $age && $t_xid <= $h_xid + 100, "VACUUM freezes no transaction in doubt $label: age $t_xid, of heap $h_xid");
	finish_changes(3);
	$node->safe_psql('postgres', 'VACUUM (FREEZE) t');
	@after = map { $reader->query_safe("SELECT look('$_', 'true');"), $reader->query_safe(sprintf $by_name, $_, $_) } ('h', 't');
	is("@after", "@before", "what the snapshot sees after all that $label");
	$reader->query_safe('COMMIT;');
	same("and what others see $label");
	sound($label);
	return;
}

sub restart_at
{
	my ($xid, $multis, $label) = @_;

	close_sessions();
	$node->stop;
	jump($xid, $multis);
	$node->start;
	open_sessions();
	is($node->safe_psql('postgres', 'SELECT pg_current_xact_id()'), "$xid", $label);
	same($label);
	sound($label);
	return;
}

# What is left behind is newer than the last VACUUM, and is in that state.
sub leave
{
	my (@jobs) = @_;

	change(4);
	finish_changes(4);
	foreach my $job (@jobs)
	{
		job($job);
		both($main, 'UPDATE TWIN SET v = v + 1 WHERE id % 9 = 4') if $job eq 'flush';
	}
	return;
}

#
# Jumps between which VACUUM has to freeze
#
open_sessions();
both($main, 'INSERT INTO TWIN SELECT i, i % 20, 0 FROM generate_series(1, 500) i');
work('at the beginning');
vacuum_all('', '--freeze');
advanced('', 100, 'after VACUUM (FREEZE)');
leave();
change_unseen();

$round++;
restart_at(1_500_000_000, 1_200_000_000, 'with a memtable from 1.5 billion xids ago');
work('then');
vacuum_all('vacuum_freeze_min_age=0, vacuum_freeze_table_age=0, vacuum_multixact_freeze_min_age=0, vacuum_multixact_freeze_table_age=0');
advanced('', 100, 'after VACUUM that may freeze all');
advanced('idle_', 100, 'of tables that only this VACUUM has met');
leave('flush');

$round++;
restart_at(3_000_000_000, 1_200_000_000, 'with increments from 1.5 billion xids ago');
work('then');
vacuum_all('', '--freeze');
advanced('', 100, 'after VACUUM (FREEZE) beyond 2^31');
same_unseen('for 3 billion xids');
change_unseen();
leave('flush', 'minor_compact');

$round++;
restart_at(EPOCH - 40, 1_200_000_000, 'before the end of 32 bits, with a merged increment');
work('over the end of 32 bits');
cmp_ok($node->safe_psql('postgres', 'SELECT pg_current_xact_id()'), '>', EPOCH, 'xids have gone on in the next epoch');
vacuum_all('');
advanced('', 60_000_000, 'after VACUUM with default settings');
advanced('idle_', 60_000_000, 'of idle tables');
leave('flush', 'major_compact');

$round++;
restart_at(EPOCH + 1_600_000_000, 1_200_000_000, 'in the next epoch, after multixacts have wrapped around');
work('in the next epoch');
vacuum_all('', '--freeze');
advanced('', 100, 'after VACUUM (FREEZE) in the next epoch');
leave('flush');
both($main, 'UPDATE TWIN SET v = v + 1 WHERE id % 9 = 5');

#
# Where the server refuses new xids
#
# A prepared transaction has the tables locked, so that the autovacuum that the server starts
# by itself does not help before we have looked.
#
sub single_user
{
	my ($database, $sql) = @_;
	my ($stdout, $stderr) = ('', '');

	ok(PostgreSQL::Test::Utils::run_log([ 'postgres', '--single', '-D', $node->data_dir, $database ],
			'<', \$sql, '>', \$stdout, '2>', \$stderr), "single-user mode, $database");
	unlike($stderr, qr/ERROR|FATAL|PANIC/, 'no errors');
	return $stderr;
}

$round++;
close_sessions();
$node->stop;
my (undef, $oldest) = xids();

jump($oldest + STOP - 40, 0);
single_user('postgres', "BEGIN\nLOCK TABLE h, t, idle_h, idle_t IN SHARE UPDATE EXCLUSIVE MODE\nPREPARE TRANSACTION 'lock'\n");
$node->start;
my (undef, undef, $stderr) = $node->psql('postgres', q{
	DO $$
	BEGIN
		FOR i IN 1 .. 300 LOOP
			PERFORM pg_current_xact_id();
			COMMIT;
		END LOOP;
	END $$});
my $refused = qr/(ERROR:  database is not accepting commands [^\n]*)/;

like($stderr, $refused, 'no more xids');
foreach my $sql ('INSERT INTO TWIN VALUES (-1)', 'UPDATE TWIN SET v = 0 WHERE id = (SELECT min(id) FROM TWIN)', 'UPDATE TWIN SET k = 0 WHERE id = (SELECT min(id) FROM TWIN)',
	'DELETE FROM TWIN WHERE id = (SELECT min(id) FROM TWIN)', 'SELECT FROM TWIN ORDER BY id LIMIT 1 FOR UPDATE')
{
	my ($h, $t) = map {
		my (undef, undef, $err) = $node->psql('postgres', $sql =~ s/TWIN/$_/gr);

		$err =~ $refused ? $1 : "not refused: $err";
	} ('h', 't');

	is($t, $h, "$sql: as heap");
	like($t, $refused, 'refused');
}
same('where no xids are left');
$node->safe_psql('postgres', "SELECT count(*) FROM lsm_$_('t')") foreach ('flush', 'minor_compact', 'major_compact');
same('after compaction there');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'lock'");
sound('there');

# (To give the end of a file back takes an xid.  Where autovacuum has come first, nothing else would
# keep VACUUM from that.)
foreach my $table ('t', 'h')
{
	my ($status, undef, $err) = $node->psql('postgres', "VACUUM (TRUNCATE off) $table");

	is($status, 0, "VACUUM of $table") or diag $err;
}
advanced('', 60_000_000, 'after VACUUM there');
vacuum_all('', '--no-truncate');
advanced('idle_', 60_000_000, 'of idle tables after VACUUM there');
open_sessions();
work('after that');

# An idle table gets a row while VACUUM runs, the first one for 3.7 billion xids.  (Key of the stop points: lsm_stop.c.)
$node->safe_psql('postgres', 'VACUUM (FREEZE) idle_h, idle_t');
$locker->query_safe('SELECT pg_advisory_lock(7107437);');
$reader->query_safe("SET lsm.debug_stop = 'major-start:wait';");
my $pid = $node->session_pid($reader);
$node->start_query($reader, 'VACUUM (FREEZE) idle_t');
$node->wait_blocked($pid);
$main->query_safe('BEGIN; INSERT INTO idle_h VALUES (-1); INSERT INTO idle_t VALUES (-1); COMMIT;');
$locker->query_safe('SELECT pg_advisory_unlock(7107437);');
$node->finish_query($reader);
$reader->query_safe("SET lsm.debug_stop = '';");
advanced('idle_', 2_000, 'of an idle table that gets a row meanwhile');
vacuum_all('', '--freeze');
leave();
both($main, 'UPDATE TWIN SET v = v + 1 WHERE id % 9 = 6');

# In single-user mode, which goes on beyond that, and with the next epoch.
$round++;
close_sessions();
$node->stop;
(undef, $oldest) = xids();
jump($oldest + STOP + 1000, 0);
$stderr = single_user('postgres', join('', map { "$_\n" } 'BEGIN', (map { split /;\n/, twin($_) } (
		'INSERT INTO TWIN SELECT 90000 + i, i, 0 FROM generate_series(1, 100) i', 'UPDATE TWIN SET v = v + 1 WHERE id % 9 = 7', 'DELETE FROM TWIN WHERE id % 9 = 8')),
		'COMMIT', 'VACUUM'));
like($stderr, qr/bypassing nonessential maintenance of table "postgres\.public\.$_"/, "VACUUM of $_ has to hurry") foreach ('h', 't');
single_user($_, "VACUUM\n") foreach ('template0', 'template1');
$node->start;
open_sessions();
same('after single-user mode');
advanced('', 60_000_000, 'after VACUUM in single-user mode');
work('after single-user mode');
vacuum_all('', '--freeze');
advanced('', 100, 'at the end');
same('at the end');
sound('at the end');
same_unseen('over an epoch');
close_sessions();
$node->stop;
done_testing();
