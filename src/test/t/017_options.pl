# Options of tables go with dumps and upgrades, reach all sessions, and are obeyed
# by autovacuum.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $given = q{SELECT "table"::text, option, value FROM lsm_table_options
	WHERE source = 'table' ORDER BY 1, 2};
my $rows = 'SELECT count(*), sum(length(r)) FROM t';

my $node = LsmNode->new('main');
$node->setup(conf => "autovacuum = off\n");

# An object of each kind that has options, some of them of another owner; of the
# access method of the session too, as dumps have it.
$node->safe_psql(
	'postgres', q{
	CREATE DATABASE source;
	CREATE ROLE regress_lsm_owner;});
$node->safe_psql(
	'source', q{
	CREATE EXTENSION lsm;
	GRANT ALL ON SCHEMA public TO regress_lsm_owner;
	CREATE TABLE t (id int PRIMARY KEY, r text) USING lsm
		WITH (lsm.block_size = '8kB', lsm.compression = none, fillfactor = 70);
	INSERT INTO t SELECT i, repeat(md5(i::text), 4) FROM generate_series(1, 3000) i;
	CREATE TABLE without_options (id int) USING lsm;
	CREATE TABLE of_heap (id int);
	CREATE SCHEMA "od d";
	CREATE TABLE "od d"."t'a,b=""c" (id int) USING lsm
		WITH (lsm.compression_level = -3, lsm.auto_compact = off, lsm.dictionary = on);
	CREATE TABLE parent (id int) PARTITION BY RANGE (id);
	CREATE TABLE part_1 PARTITION OF parent FOR VALUES FROM (0) TO (10) USING lsm
		WITH (lsm.block_size = '64kB');
	CREATE TABLE part_2 PARTITION OF parent FOR VALUES FROM (10) TO (20) USING lsm
		WITH (lsm.block_size = '128kB');
	INSERT INTO parent SELECT generate_series(0, 19);
	CREATE MATERIALIZED VIEW m USING lsm WITH (lsm.block_size = '256kB') AS SELECT * FROM t;
	CREATE UNLOGGED TABLE u (id int) USING lsm WITH (lsm.compression_level = 19);
	SET ROLE regress_lsm_owner;
	SET default_table_access_method = lsm;
	CREATE TABLE owned (id int) WITH (lsm.block_size = '1MB');
	ALTER TABLE owned SET (lsm.auto_compact = on);
});
my $expected = $node->safe_psql('source', $given);
is(scalar(split /\n/, $expected), 11, 'options that were given');

# Dumps of all formats.  A label comes with the definition, so --schema-only has it.
my $dump = $node->basedir . '/dump';
my $n = 0;

sub restored_ok
{
	my ($label, $dump_options, $restore, $data) = @_;
	my $db = 'restored_' . ++$n;

	$node->command_ok([ 'pg_dump', @$dump_options, '-f', "$dump.$n", 'source' ],
		"$label: pg_dump");
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->command_ok([ @$restore, '-d', $db, $restore->[0] eq 'psql' ? '-f' : (), "$dump.$n" ],
		"$label: restored");
	is($node->safe_psql($db, $given), $expected, "$label: options");
	is($node->safe_psql($db, $rows), $data ? $node->safe_psql('source', $rows) : '0|',
		"$label: rows");
	return $db;
}

my $db = restored_ok('plain', ['-Fp'], [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1' ], 1);
restored_ok('custom, parallel', ['-Fc'], [ 'pg_restore', '-e', '-j', '3' ], 1);
restored_ok('directory, parallel', [ '-Fd', '-j', '2' ], [ 'pg_restore', '-e', '-j', '2' ], 1);
restored_ok('schema only', [ '-Fc', '--schema-only' ], [ 'pg_restore', '-e' ], 0);
restored_ok('section pre-data', ['-Fc'], [ 'pg_restore', '-e', '--section=pre-data' ], 0);

# They are not only shown.
$node->safe_psql($db, q{SELECT lsm_flush('t')});
is($node->safe_psql($db, q{SELECT sum(blocks) > 40 FROM lsm_segments('t')}),
	't', 'a restored table is written as its options say');
$node->check_ok($db, 'after a restore');

my $other = LsmNode->new('other');
$other->init;
$other->start;
$node->command_ok([ 'pg_dumpall', '-f', "$dump.all" ], 'pg_dumpall');
$other->command_ok([ 'psql', '-X', '-q', '-d', 'postgres', '-f', "$dump.all" ],
	'pg_dumpall: restored');
is($other->safe_psql('source', $given), $expected, 'pg_dumpall: options');
$other->stop;

# A change reaches a session that has the options in its cache.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE c (id int PRIMARY KEY, r text) USING lsm;
	INSERT INTO c SELECT i, repeat(md5(i::text), 4) FROM generate_series(1, 3000) i;
	SELECT lsm_flush('c');
});
my $session = $node->session('postgres');
my $blocks = q{SELECT blocks FROM lsm_segments('c') WHERE kind = 'increment'
	ORDER BY segment_id DESC LIMIT 1};
my @blocks;

foreach my $change (
	q{ALTER TABLE c SET (lsm.block_size = '1MB')},
	q{SECURITY LABEL FOR lsm ON TABLE c IS 'block_size=8kB'},
	q{ALTER TABLE c RESET (lsm.block_size)})
{
	$node->safe_psql('postgres', $change);
	$session->query_safe(q{
		BEGIN;
		UPDATE c SET r = md5(r) || md5(r || 'x') || id;
		COMMIT;
		SELECT lsm_flush('c');});
	push @blocks, $session->query_safe($blocks);
}
cmp_ok($blocks[0], '<', $blocks[2], 'large blocks in the other session');
cmp_ok($blocks[1], '>', $blocks[2], 'small blocks in the other session');
$session->query_safe('BEGIN');
$session->query_safe(q{ALTER TABLE c SET (lsm.block_size = '64kB')});

# An uncommitted change is seen by nobody else, and a second one waits.
is($node->safe_psql('postgres', q{SELECT value FROM lsm_options('c') WHERE option = 'lsm.block_size'}),
	'32kB', 'uncommitted change');
my $second = $node->session('postgres');
my $pid = $node->session_pid($second);
$node->start_query($second, q{ALTER TABLE c SET (lsm.compression_level = 4)});
$node->wait_blocked($pid);
$session->query_safe('COMMIT');
is(($node->finish_query($second))[1], '', 'the second change goes on');
is($node->safe_psql('postgres', q{SELECT option, value FROM lsm_options('c') WHERE source = 'table' ORDER BY 1}),
	"lsm.block_size|64kB\nlsm.compression_level|4", 'neither change is lost');
$session->quit;
$second->quit;

# Autovacuum leaves tables with auto_compact = off as they are; VACUUM does not.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE auto_on (id int PRIMARY KEY, v int) USING lsm WITH (autovacuum_vacuum_threshold = 1);
	CREATE TABLE auto_off (id int PRIMARY KEY, v int) USING lsm
		WITH (autovacuum_vacuum_threshold = 1, lsm.auto_compact = off);
	INSERT INTO auto_on SELECT i, i FROM generate_series(1, 1000) i;
	INSERT INTO auto_off SELECT i, i FROM generate_series(1, 1000) i;
	SELECT lsm_flush('auto_on'), lsm_flush('auto_off');
	UPDATE auto_on SET v = -v;
	UPDATE auto_off SET v = -v;
	SELECT lsm_flush('auto_on'), lsm_flush('auto_off');
});
my $increments = q{SELECT count(*) > 0 FROM lsm_segments('%s') WHERE kind = 'increment'};

is($node->safe_psql('postgres', sprintf($increments, 'auto_on')), 't', 'an increment');
is($node->safe_psql('postgres', sprintf($increments, 'auto_off')), 't', 'another');
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1s\n");
$node->reload;
$node->wait_until('postgres',
	q{SELECT count(*) = 2 FROM pg_stat_user_tables WHERE relname LIKE 'auto%' AND autovacuum_count > 0});
is($node->safe_psql('postgres', sprintf($increments, 'auto_on')),
	'f', 'autovacuum compacts');
is($node->safe_psql('postgres', sprintf($increments, 'auto_off')),
	't', 'autovacuum does not compact');
$node->safe_psql('postgres', 'VACUUM auto_off');
is($node->safe_psql('postgres', sprintf($increments, 'auto_off')),
	'f', 'VACUUM compacts');
$node->check_ok('postgres', 'after autovacuum');

# pg_upgrade
my $new = LsmNode->new('new');
$new->init;
$node->stop;
$new->command_ok(
	[
		'pg_upgrade', '--no-sync',
		'-d', $node->data_dir, '-D', $new->data_dir,
		'-b', $node->config_data('--bindir'), '-B', $new->config_data('--bindir'),
		'-s', $new->host, '-p', $node->port, '-P', $new->port
	],
	'pg_upgrade');
$new->start;
is($new->safe_psql('source', $given), $expected, 'pg_upgrade: options');
is($new->safe_psql('source', 'SELECT count(*), sum(id) FROM t'), '3000|4501500',
	'pg_upgrade: rows');
$new->check_ok('source', 'after pg_upgrade');
$new->stop;

done_testing();
