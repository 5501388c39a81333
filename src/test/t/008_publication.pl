# Logical decoding: each change of an lsm table is decoded as the same change of a
# heap table, by an output plugin and by subscribers, for every replica identity,
# with large values, savepoints, spilled and streamed and prepared transactions,
# around flushes, compactions and crashes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $publisher = LsmNode->new('publisher');
my $subscriber = LsmNode->new('subscriber');
my $conf = "autovacuum = off\nfsync = off\nlogical_decoding_work_mem = 64kB\nmax_prepared_transactions = 5\nlsm.compaction_workers = 0\n";

$publisher->setup(allows_streaming => 'logical', conf => $conf);
$subscriber->setup(allows_streaming => 'logical', conf => $conf);

# The same tables twice: schema h has them in heap, l in lsm.
my $tables = q{
CREATE SCHEMA %1$s;
SET search_path = %1$s;
CREATE TABLE by_key (id int PRIMARY KEY, v int, b text, g int GENERATED ALWAYS AS (id * 2) STORED) USING %2$s;
CREATE TABLE by_row (id int, v int, b text) USING %2$s;
ALTER TABLE by_row REPLICA IDENTITY FULL;
CREATE TABLE by_index (id int, v int NOT NULL, b text, dropped int, c text DEFAULT 'c') USING %2$s;
ALTER TABLE by_index DROP dropped;
CREATE UNIQUE INDEX by_index_v ON by_index (v);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_v;
CREATE TABLE by_nothing (id int, v int, b text) USING %2$s;
CREATE TABLE by_text (k text PRIMARY KEY, v int) USING %2$s;
CREATE TABLE parted (id int PRIMARY KEY, v int, b text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (200) USING %2$s;
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (200) TO (MAXVALUE) USING %2$s;
};
my @names = qw(by_key by_row by_index parted);
my %access = (h => 'heap', l => 'lsm');

foreach my $schema (qw(h l))
{
	$publisher->safe_psql('postgres', sprintf($tables, $schema, $access{$schema}));
}
$publisher->safe_psql('postgres', q{
SELECT pg_create_logical_replication_slot('plain', 'test_decoding');
SELECT pg_create_logical_replication_slot('streamed', 'test_decoding');
CREATE FUNCTION value(n int, len int) RETURNS text LANGUAGE sql AS
	$$ SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, len / 32) i $$});

# What a slot has to tell, without what differs between any two transactions.
sub decoded
{
	my ($slot, @options) = @_;
	my $options = join '', map { ", '$_'" } 'include-xids', '0', @options;
	my $out = $publisher->safe_psql('postgres', "SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, NULL$options)");

	$out =~ s/\b[hl]\.(?=(by|parted|made))//g;

	# heap and lsm find the rows of a statement in another order
	my @lines;
	my @change;

	foreach my $line (split /\n(?=table |BEGIN|COMMIT)/, $out)
	{
		push(@change, $line), next if $line =~ /^table /;
		push @lines, sort(@change), $line;
		@change = ();
	}
	return join "\n", @lines, sort @change;
}

# Run statements in each schema; the slot tells the same of both.
sub same_decoded
{
	my ($label, $sql, $least) = @_;
	my %told;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	decoded('plain');
	foreach my $schema (qw(h l))
	{
		$publisher->safe_psql('postgres', "SET search_path = $schema, public; $sql");
		$told{$schema} = decoded('plain');
	}
	is($told{l}, $told{h}, $label);
	cmp_ok(scalar(() = $told{l} =~ /^table /gm), '>=', $least, "$label: changes are told");
	return;
}

sub jobs
{
	my ($function) = @_;

	$publisher->safe_psql('postgres', join ';', map { "SELECT $function('l.$_')" } grep({ $_ ne 'parted' } @names), 'by_nothing', 'parted_1', 'parted_2');
	return;
}

my @every = (@names, 'by_nothing');

sub each_table
{
	my ($sql) = @_;

	return join "\n", map { my $one = $sql; $one =~ s/\@/$_/g; $one } @every;
}

foreach my $stage ('row log', 'segments', 'compacted')
{
	my $n = $stage eq 'row log' ? 1 : $stage eq 'segments' ? 2 : 3;

	same_decoded("$stage: insert", each_table(
		"INSERT INTO \@ (id, v, b) SELECT i, i, 'b' || i FROM generate_series(1000 * $n, 1000 * $n + 40) i;
		INSERT INTO \@ (id, v, b) VALUES (1000 * $n + 50, -$n, value(1, 20000));"), 210);
	jobs('lsm_flush') if $n > 1;
	jobs('lsm_major_compact') if $n > 2;
	same_decoded("$stage: update of no key", each_table(
		"UPDATE \@ SET id = id WHERE id % 10 = $n; UPDATE \@ SET v = v WHERE id % 7 = $n;"), 20);
	same_decoded("$stage: update", join("\n", map { "UPDATE $_ SET b = 'changed ' || id WHERE id % 10 = $n;" } @names), 16);
	same_decoded("$stage: update of indexed columns", join("\n", map { "UPDATE $_ SET v = -v - 100000, b = b || '+' WHERE id % 9 = $n;" } @names), 16);
	same_decoded("$stage: update of keys", join("\n", map { "UPDATE $_ SET id = id + 100000 WHERE id % 13 = $n;" } @names), 8);
	same_decoded("$stage: large values that are left alone", join("\n", map { "UPDATE $_ SET v = v - 7 WHERE v = -$n;" } @names), 4);
	same_decoded("$stage: large values that are changed", join("\n", map { "UPDATE $_ SET b = value($n, 30000) WHERE v = -$n - 7;" } @names), 4);
	same_decoded("$stage: delete", join("\n", map { "DELETE FROM $_ WHERE id % 11 = $n OR v = -$n - 7;" } @names), 16);
}
same_decoded('a row moves to another partition', 'INSERT INTO parted VALUES (1, 1, 1); UPDATE parted SET id = 100500 WHERE id = 1; UPDATE parted SET id = 2 WHERE id = 100500', 4);

# The same value of a key comes back as a pointer to the TOAST table of another table.  (Heap tells
# the old key as well, as for it a pointer is another value.)
$publisher->safe_psql('postgres', q{
	CREATE TABLE toasted (k text);
	ALTER TABLE toasted ALTER k SET STORAGE EXTERNAL;
	INSERT INTO toasted VALUES (value(1, 2560));
	INSERT INTO l.by_text SELECT k || '', 1 FROM toasted});
decoded('plain');
$publisher->safe_psql('postgres', 'UPDATE l.by_text SET k = toasted.k, v = 2 FROM toasted');
like(decoded('plain'), qr/by_text: UPDATE: k\[text\]:'[0-9a-f]{2560}' v\[integer\]:2$/m, 'a key that is a large value of another table');
same_decoded('savepoints', each_table(
	"BEGIN; INSERT INTO \@ (id, v, b) VALUES (-1, -901, 'kept'); SAVEPOINT a; INSERT INTO \@ (id, v, b) VALUES (-2, -902, 'undone');
	ROLLBACK TO a; SAVEPOINT b; INSERT INTO \@ (id, v, b) VALUES (-3, -903, 'kept too'); RELEASE b; COMMIT;"), 10);
same_decoded('rollback', each_table("BEGIN; INSERT INTO \@ (id, v, b) VALUES (-4, -904, 'undone'); ROLLBACK;") .
	"INSERT INTO by_key (id) VALUES (-4)", 1);
same_decoded('on conflict', q{
	INSERT INTO by_key (id, v) VALUES (-1, 5), (-5, 5) ON CONFLICT DO NOTHING;
	INSERT INTO by_key (id, v) VALUES (-1, 6), (-6, 6) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
	INSERT INTO by_key (id, v, b) VALUES (-7, 7, value(3, 50000)) ON CONFLICT DO NOTHING;}, 4);
same_decoded('row locks', 'BEGIN; SELECT count(*) FROM (SELECT FROM by_key FOR UPDATE) x; COMMIT; DELETE FROM by_key WHERE id = -7', 1);
same_decoded('copy', "COPY by_key (id, v, b) FROM stdin;\n" . join('', map { (50000 + $_) . "\t$_\tcopied\n" } 1 .. 2000) . "\\.\n", 2000);
same_decoded('insert from a query', "INSERT INTO by_row SELECT i, i, repeat('r', 100) FROM generate_series(1, 3000) i", 3000);
same_decoded('truncate', 'TRUNCATE by_nothing, parted; INSERT INTO parted VALUES (3, 3, 3)', 2);
same_decoded('a table that is made, changed and rewritten', q{
	CREATE TABLE made (id int PRIMARY KEY, v int); INSERT INTO made VALUES (1, 1);
	ALTER TABLE made ADD w text DEFAULT md5('w'); UPDATE made SET v = 2; ALTER TABLE made ALTER v TYPE bigint;
	INSERT INTO made VALUES (2, 2); CLUSTER made USING made_pkey; UPDATE made SET v = 3; DROP TABLE made;}, 4);

# A change within a transaction that is still running when a slot is asked.
decoded('streamed');
my $session = $publisher->session('postgres');
$session->query_safe(q{BEGIN; UPDATE l.by_key SET b = repeat('s', 100) || id; SAVEPOINT x; DELETE FROM l.by_key WHERE id < 0; ROLLBACK TO x; DELETE FROM l.by_key WHERE id = 50001});
my $running = decoded('streamed', 'stream-changes', '1');
like($running, qr/streaming change/, 'a transaction that runs is streamed');

# What has been decoded once is not streamed again: there must be more of it, however much
# of its WAL had been flushed before.
$session->query_safe(q{UPDATE l.by_key SET b = repeat('t', 100) || id; COMMIT});
$session->quit;
like(decoded('streamed', 'stream-changes', '1'), qr/streamed transaction/, 'and its end is told');
# A table with large values becomes one of heap, in a transaction that is streamed: what the
# rewrite logs is passed over, that of the new TOAST table too.  If not, memory is over the
# limit for ever, and nothing more comes out.
$publisher->safe_psql('postgres', q{
	CREATE TABLE leaving (id int PRIMARY KEY, b text) USING lsm;
	ALTER TABLE leaving ALTER b SET STORAGE EXTERNAL;
	INSERT INTO leaving SELECT i, value(i, 20000) FROM generate_series(1, 20) i});
decoded('streamed', 'stream-changes', '1');
$publisher->safe_psql('postgres', q{
	BEGIN; ALTER TABLE leaving SET ACCESS METHOD heap; INSERT INTO leaving VALUES (21, value(21, 100000)); COMMIT;
	DELETE FROM leaving WHERE id = 1});
$publisher->safe_psql('postgres', q{ALTER DATABASE postgres SET statement_timeout = '3min'});
my $left = decoded('streamed', 'stream-changes', '1');
$publisher->safe_psql('postgres', 'ALTER DATABASE postgres RESET statement_timeout');
like($left, qr/streaming change.*DELETE: id\[integer\]:1/s, 'a table with large values becomes one of heap');
unlike($left, qr/pg_temp/, 'which is not told');
is($publisher->safe_psql('postgres', q{SELECT t.relrewrite = 0 AND t.oid = ('pg_toast.pg_toast_' || c.oid)::regclass,
		sum(length(b)) FROM leaving, pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
	WHERE c.oid = 'leaving'::regclass GROUP BY 1}), 't|480000', 'its TOAST table is one like others');
$publisher->safe_psql('postgres', 'DROP TABLE leaving');
$publisher->safe_psql('postgres', q{SELECT pg_drop_replication_slot('streamed'), pg_drop_replication_slot('plain')});

# Subscribers: what is published of lsm goes to heap and to lsm.
$subscriber->safe_psql('postgres', 'SET default_table_access_method = lsm;' . sprintf($tables, 'l', 'lsm'));
$publisher->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE ' . join ', ', map { "l.$_" } @names);
my $connection = $publisher->connstr . ' dbname=postgres';

$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION sub CONNECTION '$connection' PUBLICATION pub WITH (streaming = on, two_phase = on)");
$subscriber->wait_for_subscription_sync($publisher, 'sub');

sub same
{
	my ($label) = @_;
	my $sql = join ';', map { "SELECT '$_', count(*), md5(string_agg(x::text, ',' ORDER BY x::text COLLATE \"C\")) FROM l.$_ x" } @names;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$publisher->wait_for_catchup('sub');
	is($subscriber->safe_psql('postgres', $sql), $publisher->safe_psql('postgres', $sql), $label);
	return;
}

sub changes
{
	my ($n) = @_;

	return "SET search_path = l, public;" . join "\n", map { my $one = $_;
		("UPDATE $one SET b = b || '.' WHERE id % 5 = $n;", "UPDATE $one SET id = id + 1000000 WHERE id BETWEEN 300000 AND 600000;",
			"INSERT INTO $one (id, v, b) SELECT i, i, 'sub' || i FROM generate_series(400000 + 1000 * $n, 400000 + 1000 * $n + 300) i;",
			"INSERT INTO $one (id, v, b) VALUES (500000 + $n, 500000 + 10 * $n, value($n, 3000));",
			"UPDATE $one SET v = v + 1 WHERE id = 500000 + $n;", "DELETE FROM $one WHERE id % 17 = $n;") } @names;
}

same('initial copy');
$publisher->safe_psql('postgres', changes(1));
same('changes');
jobs('lsm_flush');
$publisher->safe_psql('postgres', 'BEGIN;' . changes(2) . 'COMMIT');
same('a large transaction');
$publisher->safe_psql('postgres', 'BEGIN;' . changes(3) . 'ROLLBACK');
same('a large transaction that is rolled back');
$publisher->safe_psql('postgres', 'BEGIN;' . changes(3) . q{PREPARE TRANSACTION 'p'});
$publisher->crash_and_start;
jobs('lsm_major_compact');
$publisher->safe_psql('postgres', q{COMMIT PREPARED 'p'});
same('a prepared transaction through a crash of the publisher');
$publisher->safe_psql('postgres', 'TRUNCATE l.parted; INSERT INTO l.parted VALUES (1, 1, 1)');
same('truncate');

# What cannot be published says so, as for heap.
$publisher->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLE l.by_nothing');
my (undef, undef, $err) = $publisher->psql('postgres', 'INSERT INTO l.by_nothing VALUES (1, 1); UPDATE l.by_nothing SET v = 1');
like($err, qr/cannot update table "by_nothing" because it does not have a replica identity and publishes updates/, 'no identity');

$publisher->check_ok('postgres', 'at the end');
$subscriber->check_ok('postgres', 'at the end of the subscriber');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
$subscriber->stop;
$publisher->stop;
done_testing();
