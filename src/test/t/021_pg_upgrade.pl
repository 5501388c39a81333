# pg_upgrade from server to server, by copies and by links, of tables in every
# state: their files go to the new server as they are, so it must understand
# each byte, and xids (64 bits on disk) must keep their meaning.
#
# The test needs several servers with lsm installed, so it is skipped unless
# LSM_UPGRADE_PG_CONFIGS names their pg_configs, from the oldest on:
#
#	LSM_UPGRADE_PG_CONFIGS="PREFIX15/bin/pg_config PREFIX17/bin/pg_config" \
#		scripts/test -p PREFIX17/bin/pg_config tap 021_pg_upgrade
#
# scripts/test builds and installs lsm for each of them first.

use strict;
use warnings;
use File::Find;
use File::Path ();
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;
use PostgreSQL::Test::Utils qw(command_ok command_fails run_command slurp_file);

my @configs = split ' ', $ENV{LSM_UPGRADE_PG_CONFIGS} || '';

plan skip_all => 'LSM_UPGRADE_PG_CONFIGS does not name the pg_configs of two servers or more'
  if @configs < 2;

my @bindirs = map { chomp(my $dir = `$_ --bindir`); $dir } @configs;
my @prefixes = map { (my $dir = $_) =~ s{/bin$}{}; $dir } @bindirs;
my @majors = map { `$_ --version` =~ /(\d+)/ ? $1 : die "no version from $_" } @configs;
my $tablespace = PostgreSQL::Test::Utils::tempdir();
my $store = PostgreSQL::Test::Utils::tempdir();

# pg_upgrade leaves files where it runs.
chdir PostgreSQL::Test::Utils::tempdir() or die $!;

sub new_node
{
	my ($name, $i) = @_;
	my $node = LsmStoreNode->new($name, install_path => $prefixes[$i]);

	# data checksums are the default of some versions only
	$node->init(extra => ['-k']);

	# the module of a new server writes a setting that an old one does not know
	$node->adjust_conf('postgresql.conf', 'autovacuum_worker_slots', undef) if $majors[$i] < 18;
	$node->append_conf('postgresql.conf', "autovacuum = off\nmax_prepared_transactions = 5\n");
	return $node;
}

sub upgrade_command
{
	my ($old, $i, $new, $j, @options) = @_;

	return ("$bindirs[$j]/pg_upgrade", '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', $bindirs[$i], '--new-bindir', $bindirs[$j], '--socketdir', $new->host,
		'--old-port', $old->port, '--new-port', $new->port, @options);
}

# Rows of all tables, one line for each table.
sub contents
{
	my ($node) = @_;
	my $contents = '';

	foreach my $table (split /\n/, $node->safe_psql('postgres', q{
		SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'lsm' AND c.relkind IN ('r', 'm') ORDER BY c.oid::regclass::text COLLATE "C"}))
	{
		$contents .= "$table: " . $node->safe_psql('postgres',
			"SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t::text COLLATE \"C\")) FROM $table t") . "\n";
	}
	return $contents;
}

# The objects of the store.
sub objects
{
	my @files;

	find(sub { push @files, $File::Find::name if -f }, $store);
	return sort @files;
}

# Options of the tables that have some; and rows that an index-only scan fetched,
# as the visibility map is a file of its own.
sub settings
{
	my ($node) = @_;

	return $node->safe_psql('postgres', q{
		SELECT "table"::regclass, option, value FROM lsm_table_options WHERE source = 'table'
		ORDER BY 1::text, option});
}

sub fetches
{
	my ($node) = @_;
	my $plan = $node->safe_psql('postgres', q{
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT id FROM frozen});

	return $plan =~ /Heap Fetches: (\d+)/ ? $1 : $plan;
}

# On the store of the table that was detached.
my $depends = q{SELECT count(*) FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = 'detached'::regclass
	AND refclassid = 'pg_foreign_server'::regclass};

# Each table is left in one state of its life.
my $old = new_node('old', 0);

# Full xids do not fit 32 bits.
PostgreSQL::Test::Utils::system_or_bail("$bindirs[0]/pg_resetwal", '-e', '3', $old->data_dir);
$old->start;
$old->safe_psql('postgres', 'CREATE EXTENSION lsm');
$old->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION '$tablespace'");
$old->safe_psql('postgres',
	"CREATE SERVER store FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$store');
	CREATE SERVER gone FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$store', prefix 'gone')");
$old->safe_psql('postgres', q{
CREATE TABLE empty (id int PRIMARY KEY) USING lsm;
CREATE TABLE memtable (id int PRIMARY KEY, v int, k int) USING lsm;
CREATE INDEX ON memtable (k);
INSERT INTO memtable SELECT i, i, i % 10 FROM generate_series(1, 500) i;
UPDATE memtable SET v = v + 1 WHERE id % 3 = 0;
UPDATE memtable SET k = k + 1 WHERE id % 7 = 0;
DELETE FROM memtable WHERE id % 11 = 0;
BEGIN; UPDATE memtable SET v = 0; INSERT INTO memtable VALUES (-1, 1, 1); ROLLBACK;
BEGIN; UPDATE memtable SET v = -1 WHERE id = 1; SAVEPOINT s; UPDATE memtable SET v = -2 WHERE id = 2; ROLLBACK TO s;
SAVEPOINT s; UPDATE memtable SET v = -3 WHERE id = 4; RELEASE s; COMMIT;

CREATE TABLE flushed (LIKE memtable INCLUDING ALL) USING lsm;
INSERT INTO flushed SELECT * FROM memtable;
UPDATE flushed SET v = v + 1 WHERE id % 5 = 0;
SELECT lsm_flush('flushed');

CREATE TABLE increments (LIKE memtable INCLUDING ALL) USING lsm;
INSERT INTO increments SELECT * FROM memtable;
SELECT lsm_flush('increments');
UPDATE increments SET v = v + 1 WHERE id % 5 = 0;
UPDATE increments SET k = k + 1 WHERE id % 6 = 0;
DELETE FROM increments WHERE id % 8 = 0;
SELECT lsm_flush('increments');
UPDATE increments SET v = v + 1 WHERE id % 7 = 0;
BEGIN; DELETE FROM increments; SELECT lsm_flush('increments'); ROLLBACK;

CREATE TABLE compacted (LIKE memtable INCLUDING ALL) USING lsm;
INSERT INTO compacted SELECT * FROM increments;
SELECT lsm_flush('compacted');
DELETE FROM compacted WHERE id % 4 = 0;
SELECT lsm_flush('compacted');
SELECT lsm_major_compact('compacted');

CREATE TABLE everything (LIKE memtable INCLUDING ALL) USING lsm;
INSERT INTO everything SELECT * FROM compacted;
SELECT lsm_flush('everything');
SELECT lsm_major_compact('everything');
UPDATE everything SET v = v + 1 WHERE id % 5 = 0;
SELECT lsm_flush('everything');
UPDATE everything SET k = k + 3 WHERE id % 6 = 0;
DELETE FROM everything WHERE id % 9 = 0;
INSERT INTO everything SELECT i, i, i FROM generate_series(1001, 1100) i;

CREATE TABLE frozen (LIKE memtable INCLUDING ALL) USING lsm;
INSERT INTO frozen SELECT * FROM memtable;
VACUUM (FREEZE) frozen;

CREATE TABLE large (id int PRIMARY KEY, v int, t text, b bytea) USING lsm
	WITH (lsm.block_size = '16kB', lsm.compression_level = 9, lsm.auto_compact = off);
ALTER TABLE large ALTER t SET STORAGE EXTERNAL;
INSERT INTO large SELECT i, i, repeat(md5(i::text), 200 * i), decode(repeat(md5((-i)::text), 100 * i), 'hex')
	FROM generate_series(1, 30) i;
SELECT lsm_flush('large');
UPDATE large SET v = v + 1 WHERE id % 3 = 0;
UPDATE large SET t = t || 'x' WHERE id % 4 = 0;
SELECT lsm_flush('large');
UPDATE large SET b = b || '\x00' WHERE id % 5 = 0;
INSERT INTO large SELECT 100 + i, i, repeat(md5(i::text), 3000), NULL FROM generate_series(1, 5) i;
DELETE FROM large WHERE id % 7 = 0;

CREATE TABLE columns (id int PRIMARY KEY, a text, b int, c numeric) USING lsm;
INSERT INTO columns SELECT i, 'a' || i, i, i / 4.0 FROM generate_series(1, 100) i;
SELECT lsm_flush('columns');
ALTER TABLE columns ADD COLUMN d int DEFAULT 7, DROP COLUMN a;
UPDATE columns SET b = b + 1 WHERE id % 5 = 0;
INSERT INTO columns SELECT i, i, i, i FROM generate_series(101, 150) i;
SELECT lsm_flush('columns');
ALTER TABLE columns ADD COLUMN e text DEFAULT 'fast', DROP COLUMN c;
UPDATE columns SET d = d + 1 WHERE id % 9 = 0;
INSERT INTO columns SELECT i, i, i, 'given' FROM generate_series(151, 170) i;
SELECT lsm_flush('columns');
ALTER TABLE columns DROP COLUMN d, ADD COLUMN f timestamptz DEFAULT '2024-01-01 00:00+00';
UPDATE columns SET e = NULL WHERE id % 10 = 0;

CREATE TABLE cold (LIKE memtable INCLUDING ALL) USING lsm WITH (lsm.cold_store = 'store');
INSERT INTO cold SELECT i, i, i % 10 FROM generate_series(1, 1000) i;
SELECT lsm_flush('cold');
SELECT lsm_major_compact('cold');
UPDATE cold SET v = v + 1 WHERE id % 5 = 0;
DELETE FROM cold WHERE id % 7 = 0;
SELECT lsm_flush('cold');
UPDATE cold SET k = k + 1 WHERE id % 6 = 0;

CREATE TABLE detached (LIKE memtable INCLUDING ALL) USING lsm WITH (lsm.cold_store = 'gone');
INSERT INTO detached SELECT * FROM flushed;
SELECT lsm_flush('detached');
SELECT lsm_major_compact('detached');
ALTER TABLE detached RESET (lsm.cold_store);

CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TYPE pair AS (x mood, y text);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TABLE types (id int PRIMARY KEY, m mood, p pair, ps pair[], d positive, r int4range, mr int8multirange,
	j jsonb, arr text[], b bytea, ts tsvector, num numeric, iv interval, net inet, pt point) USING lsm;
INSERT INTO types SELECT i, 'happy', ROW('sad', i)::pair, ARRAY[ROW('happy', i)::pair, NULL], i, int4range(i, i + 5),
	int8multirange(int8range(i, i + 1)), jsonb_build_object('i', i), ARRAY['x', i::text], decode(lpad(to_hex(i), 8, '0'), 'hex'),
	to_tsvector('simple', 'word' || i), i / 3.0, i * interval '1 hour', ('10.0.0.' || i)::inet, point(i, i)
	FROM generate_series(1, 100) i;
CREATE INDEX ON types USING gin (j);
CREATE INDEX ON types USING gist (r);
CREATE INDEX ON types USING brin (num);
CREATE INDEX ON types USING hash (m);
CREATE INDEX ON types USING spgist (pt);
SELECT lsm_flush('types');
UPDATE types SET p.y = 'changed' WHERE id % 3 = 0;

CREATE TABLE part (id int, region text, v int) PARTITION BY LIST (region);
CREATE TABLE part_a PARTITION OF part FOR VALUES IN ('a') USING lsm;
CREATE TABLE part_b PARTITION OF part FOR VALUES IN ('b') USING heap;
INSERT INTO part SELECT i, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END, i FROM generate_series(1, 100) i;
UPDATE part SET region = 'a' WHERE id % 5 = 0;
CREATE TABLE child (extra text) INHERITS (memtable) USING lsm;
INSERT INTO child SELECT 10000 + i, i, i, 'x' FROM generate_series(1, 50) i;

CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO unlogged SELECT i, i FROM generate_series(1, 200) i;
SELECT lsm_flush('unlogged');
DELETE FROM unlogged WHERE id % 3 = 0;
CREATE TABLE generated (id int GENERATED ALWAYS AS IDENTITY, v int, w int GENERATED ALWAYS AS (v * 2) STORED) USING lsm TABLESPACE ts;
INSERT INTO generated (v) SELECT i FROM generate_series(1, 100) i;
SELECT lsm_flush('generated');
UPDATE generated SET v = v + 1 WHERE id > 90;
CREATE MATERIALIZED VIEW view USING lsm AS SELECT k, count(*), sum(v) FROM memtable GROUP BY k;

SET lsm.debug_ring_lbs = 64;
CREATE TABLE ring (LIKE memtable INCLUDING ALL) USING lsm;
INSERT INTO ring SELECT * FROM memtable;
DO $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		UPDATE ring SET v = v + 1;
		COMMIT;
		PERFORM lsm_flush('ring');
		COMMIT;
		PERFORM lsm_major_compact('ring');
		COMMIT;
	END LOOP;
END $$;
UPDATE ring SET v = v + 1 WHERE id % 3 = 0;
});

# A transaction that ends with the server: its xid stays undecided in clog.
my $session = $old->session('postgres');
$session->query_safe(q{BEGIN; UPDATE memtable SET v = -7; UPDATE flushed SET k = -7; INSERT INTO increments VALUES (-7, 0, 0)});
$session->query_safe(q{SELECT lsm_flush('increments')});
$old->safe_psql('postgres', 'CHECKPOINT');
$old->crash;
$session->{run}->kill_kill;
$old->start;
$old->safe_psql('postgres', q{INSERT INTO unlogged SELECT i, i FROM generate_series(1, 200) i;
	SELECT lsm_flush('unlogged'); UPDATE unlogged SET v = 0 WHERE id = 5; DELETE FROM unlogged WHERE id = 6});
$old->check_ok('postgres', "the old server, $majors[0]");
my $contents = contents($old);
my $settings = settings($old);

note $contents, $settings;
is($settings, join("\n", 'large|lsm.auto_compact|false', 'large|lsm.block_size|16kB', 'cold|lsm.cold_store|store', 'large|lsm.compression_level|9'),
	'options of the old server');
is(fetches($old), 0, 'index-only scan of the old server');
is($old->safe_psql('postgres', q{SELECT string_agg(DISTINCT location, ',') FROM lsm_segments('cold') WHERE kind = 'baseline'}),
	'store', 'rows in a store');
is($old->safe_psql('postgres', q{SELECT string_agg(DISTINCT location, ',') FROM lsm_segments('detached') WHERE kind = 'baseline'}),
	'gone', 'and of a table that was detached');
my @objects = objects();
my $xid = $old->safe_psql('postgres', 'SELECT pg_current_xact_id()');

cmp_ok($xid >> 32, '==', 3, 'xids of the old server need 64 bits');
$old->stop;

# The new server needs lsm in shared_preload_libraries: pg_upgrade says so.
my $unprepared = new_node('unprepared', 1);

$unprepared->append_conf('postgresql.conf', "shared_preload_libraries = ''\nwal_consistency_checking = ''");
command_fails([ upgrade_command($old, 0, $unprepared, 1, '--check') ],
	'pg_upgrade --check refuses a server that does not load lsm');
my @lists = glob($unprepared->data_dir . '/pg_upgrade_output.d/*/loadable_libraries.txt');

like(join('', map { slurp_file($_) } @lists), qr/lsm must be loaded when the server starts/,
	'and tells why');

foreach my $mode ('--copy', '--link')
{
	my $from = $old;

	for (my $i = 1; $i < @configs; $i++)
	{
		my $label = "$majors[$i - 1] to $majors[$i] with $mode";
		my $to = new_node("to_$majors[$i]$mode", $i);

		command_ok([ upgrade_command($from, $i - 1, $to, $i, $mode) ], "pg_upgrade from $label");
		$to->start;
		is(contents($to), $contents, "rows: $label");
		is(settings($to), $settings, "options: $label");
		is(fetches($to), 0, "index-only scan: $label");
		$to->check_ok('postgres', $label);
		my $new_xid = $to->safe_psql('postgres', 'SELECT pg_current_xact_id()');

		cmp_ok($new_xid, '>', $xid, "full xids go on: $label");
		cmp_ok($new_xid - $xid, '<', 1000000, "and keep the epoch: $label");

		# The tables live on: changes of rows that came along, and jobs.
		$to->safe_psql('postgres', q{
			BEGIN;
			UPDATE memtable SET v = v + 1, k = k - 1 WHERE id % 2 = 0;
			UPDATE increments SET v = v + 1 WHERE id % 2 = 0;
			DELETE FROM everything WHERE id % 13 = 0;
			UPDATE columns SET e = e || '!' WHERE id % 3 = 0;
			UPDATE large SET t = substr(t, 5), v = -1 WHERE id % 2 = 0;
			UPDATE types SET m = 'sad' WHERE id % 4 = 0;
			UPDATE cold SET v = 0, k = k + 1;
			UPDATE ring SET v = v + 1;
			SELECT lsm_flush('ring');
			INSERT INTO generated (v) VALUES (1);
			DELETE FROM unlogged WHERE id = 7;
			ROLLBACK});
		is(contents($to), $contents, "rows after a rollback: $label");
		# with copies, the states go on as they are to the last server
		if ($mode eq '--link' || $i == $#configs)
		{
			# a worker notes what a dump has not told: that a table which was being detached keeps its store
			# (until VACUUM brings its segments back)
			if ($mode eq '--copy' || $i == 1)
			{
				is($to->safe_psql('postgres', $depends), 0, "a table that was detached: $label");
				$to->append_conf('postgresql.conf',
					"lsm.compaction_naptime = 1\nlsm.auto_compact = off\nlsm.debug_stop = 'cold-before-return:error'");
				$to->set_workers(1);
				$to->wait_until('postgres', q{SELECT list_requests > 0 FROM lsm_stat_store WHERE servername = 'gone'});
				$to->set_workers(0);
				is($to->safe_psql('postgres', q{SELECT string_agg(DISTINCT location, ',') FROM lsm_segments('detached') WHERE kind = 'baseline'}),
					'gone', "its segments are still in the store: $label");
				like($to->error_of('postgres', 'DROP SERVER gone'),
					qr/^2BP01: cannot drop server "gone" because it is the cold store of tables/, "which is kept for them: $label");
				$to->adjust_conf('postgresql.conf', 'lsm.debug_stop', "''");
				$to->reload;
			}
			$to->safe_psql('postgres', "SELECT lsm_flush('$_')") foreach qw(memtable columns types everything unlogged large cold);
			$to->safe_psql('postgres', "SELECT lsm_major_compact('$_')") foreach qw(memtable increments columns everything large cold);
			is($to->safe_psql('postgres', q{SELECT count(*) > 0 AND bool_and(location = 'store') FROM lsm_segments('cold')}),
				't', "new objects: $label");
			$to->safe_psql('postgres', 'VACUUM (FREEZE)');
			is(contents($to), $contents, "rows after flush, compaction and VACUUM: $label");
		}
		$to->safe_psql('postgres', q{UPDATE memtable SET v = v + 1 WHERE id % 5 = 0; UPDATE columns SET b = b + 1;
			UPDATE memtable SET v = v - 1 WHERE id % 5 = 0; UPDATE columns SET b = b - 1});
		is(contents($to), $contents, "rows after changes: $label");
		$to->check_ok('postgres', "after changes: $label");
		is($to->safe_psql('postgres', q{INSERT INTO generated (v) VALUES (5) RETURNING id > 100, w}), 't|10',
			"identity and generated columns: $label");
		$to->safe_psql('postgres', q{DELETE FROM generated WHERE id > 100});
		$to->stop;
		$from = $to;
	}
	is(scalar(grep { !-e } @objects), 0, "no object of the old server is missing after $mode");
	File::Path::remove_tree(grep { !m{/PG_$majors[0]_} } glob("$tablespace/PG_*"));
}
done_testing();
