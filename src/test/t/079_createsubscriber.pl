# pg_createsubscriber: a standby with lsm tables, some of them in a store, becomes a subscriber
# of its primary.  It has another system identifier then, applies what the primary goes on to do,
# and claims the objects that both need.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
chomp(my $bindir = `$pg_config --bindir`);
plan skip_all => 'there is no pg_createsubscriber before PostgreSQL 17' if !-x "$bindir/pg_createsubscriber";

my $dir = PostgreSQL::Test::Utils::tempdir() . '/cold';
mkdir $dir or die $!;

my $primary = LsmStoreNode->new('primary');
$primary->init(allows_streaming => 'logical');
$primary->append_conf(
	'postgresql.conf', "autovacuum = off
lsm.block_cache_size = 1MB
lsm.compaction_workers = 0
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
");
$primary->start;
$primary->safe_psql('postgres', $_)
  foreach ('CREATE EXTENSION lsm',
	"CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')",
	'CREATE TABLE local (id int PRIMARY KEY, v int, b text) USING lsm',
	"CREATE TABLE away (id int PRIMARY KEY, v int, b text) USING lsm WITH (lsm.cold_store = 'cold')",
	'CREATE TABLE filled (id int PRIMARY KEY, v int, b text) USING lsm',
	map { "INSERT INTO $_ SELECT i, i, repeat(md5(i::text), i % 4) FROM generate_series(1, 10000) i" } qw(local away));

my @tables = qw(local away filled);

sub compact
{
	my ($on) = @_;

	$on->safe_psql('postgres', "SELECT lsm_flush('$_'), lsm_major_compact('$_')") foreach (@tables);
	return $on->safe_psql('postgres', "SELECT object_key FROM lsm_segments('away') WHERE kind = 'baseline'");
}

my $object = compact($primary);
ok(-e "$dir/$object", 'an object');
$primary->safe_psql('postgres', 'UPDATE local SET v = -v WHERE id % 3 = 0; UPDATE away SET v = -v WHERE id % 3 = 0');
$primary->backup('b');

my $standby = LsmStoreNode->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', 'DELETE FROM local WHERE id % 11 = 0; DELETE FROM away WHERE id % 11 = 0');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$standby->stop;
PostgreSQL::Test::Utils::command_ok(
	[
		'pg_createsubscriber', '--pgdata', $standby->data_dir, '--publisher-server', $primary->connstr('postgres'),
		'--socketdir', $standby->host, '--subscriber-port', $standby->port, '--database', 'postgres',
		'--publication', 'pub', '--subscription', 'sub'
	],
	'pg_createsubscriber');
$standby->start;

my $ids = 'SELECT system_identifier FROM pg_control_system()';
isnt($standby->safe_psql('postgres', $ids), $primary->safe_psql('postgres', $ids), 'another system');

sub same
{
	my ($label) = @_;

	$primary->wait_for_catchup('sub');
	foreach my $table (@tables)
	{
		my $sql = "SELECT count(*), sum(v), md5(string_agg(t::text, ',' ORDER BY id)) FROM $table t";

		is($standby->safe_psql('postgres', $sql), $primary->safe_psql('postgres', $sql), "$table: $label");
	}
	$_->check_ok('postgres', $label) foreach ($primary, $standby);
	return;
}

same('as it was');

# ---- it follows, and is written to by others
$primary->safe_psql(
	'postgres', q{
INSERT INTO local SELECT i, i, 'new' FROM generate_series(20001, 21000) i;
INSERT INTO away SELECT i, i, 'new' FROM generate_series(20001, 21000) i;
INSERT INTO filled SELECT i, i, 'filled' FROM generate_series(1, 3000) i;
UPDATE local SET b = b || 'changed' WHERE id % 7 = 0;
UPDATE away SET b = b || 'changed' WHERE id % 7 = 0;
UPDATE away SET id = id + 100000 WHERE id % 50 = 1;
DELETE FROM local WHERE id BETWEEN 100 AND 200;
DELETE FROM filled WHERE id % 2 = 0});
same('followed');

# ---- what the primary needs no more, the subscriber does
$standby->set_workers(1);
$primary->wait_until('postgres', q{SELECT count(*) = 1 FROM lsm_store_claims('cold')});
is($primary->safe_psql('postgres', q{SELECT claimed_here, claimant_here FROM lsm_store_claims('cold')}), 't|f', 'the subscriber claims');
$standby->set_workers(0);
my $next = compact($primary);
isnt($next, $object, 'the primary needs another object');
my $then = $primary->safe_psql('postgres', 'SELECT list_requests FROM lsm_stat_store');
$primary->set_workers(1);
$primary->wait_until('postgres', "SELECT list_requests >= $then + 6 FROM lsm_stat_store");
$primary->set_workers(0);
ok(-e "$dir/$object", 'which leaves the old one');
$standby->restart;
same('compacted on the primary');

# ---- and what the subscriber puts and deletes is its own
my $own = compact($standby);
isnt($own, $next, 'the subscriber puts under another name');
$standby->set_workers(1);
$standby->wait_until('postgres', q{SELECT count(*) = 0 FROM lsm_store_claims('cold')});
$standby->set_workers(0);
$primary->set_workers(1);
$primary->wait_until('postgres', "SELECT pg_stat_file('$dir/$object', true) IS NULL");
$primary->set_workers(0);
is(join(' ', grep { !-e "$dir/$_" } map { split /\n/ } $next, $own), '', 'what is needed is there');
$_->restart foreach ($primary, $standby);
$primary->safe_psql('postgres', 'UPDATE away SET v = v + 1; TRUNCATE filled');
same('compacted on the subscriber');

done_testing();
