# Backups of cold tables: recovery to a point in time, standbys of standbys.  All of them read the
# objects of the original, which keeps what it no longer needs for lsm.store_delete_delay.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $dir = PostgreSQL::Test::Utils::tempdir() . '/cold';
mkdir $dir or die $!;

my $node = LsmStoreNode->new('primary');
$node->init(allows_streaming => 1, has_archiving => 1);
$node->append_conf('postgresql.conf', "autovacuum = off\nlsm.block_cache_size = 1MB\nlsm.compaction_workers = 0\n");
$node->start;

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

my $rows = q{SELECT count(*), sum(v), sum(hashtext(t)::int8) FROM c;
	SET enable_seqscan = off; SELECT v, t FROM c WHERE id IN (1, 700, 15000) ORDER BY id};

psql($_)
  foreach ('CREATE EXTENSION IF NOT EXISTS lsm',
	"CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')",
	"CREATE TABLE c (id int PRIMARY KEY, v int, t text) USING lsm WITH (lsm.cold_store = 'cold')",
	'INSERT INTO c SELECT i, i, md5(i::text) FROM generate_series(1, 20000) i',
	"SELECT lsm_flush('c'), lsm_major_compact('c')");
is(psql("SELECT DISTINCT location FROM lsm_segments('c')"), 'cold', 'a cold table');
$node->backup('base');

# ---- a point between two states, each with objects of its own
sub rewrite
{
	my ($n) = @_;

	psql("UPDATE c SET v = v + $n WHERE id % 2 = 0; DELETE FROM c WHERE id % 97 = $n");
	psql("SELECT lsm_flush('c'), lsm_major_compact('c')");
	return;
}
rewrite(1);
psql('UPDATE c SET v = -1 WHERE id = 700');
my $then = psql($rows);
psql("SELECT pg_create_restore_point('then')");
rewrite(2);
psql('TRUNCATE c');
psql('INSERT INTO c SELECT i, 0, $$new$$ FROM generate_series(1, 5000) i');
psql("SELECT lsm_flush('c'), lsm_major_compact('c')");
psql('SELECT pg_switch_wal()');

my $restored = LsmStoreNode->new('restored');
$restored->init_from_backup($node, 'base', has_restoring => 1);
$restored->append_conf('postgresql.conf', "recovery_target_name = 'then'\nrecovery_target_action = 'promote'\n");
$restored->start;
$restored->wait_until('postgres', 'SELECT NOT pg_is_in_recovery()');
is($restored->safe_psql('postgres', $rows), $then, 'rows of the point in time');
$restored->check_ok('postgres', 'restored');
is($restored->safe_psql('postgres', "SELECT DISTINCT location FROM lsm_segments('c') WHERE kind = 'baseline'"), 'cold', 'which lie in the store');

# it goes on by itself, beside the original, in the same store
$restored->safe_psql('postgres', $_)
  foreach ('UPDATE c SET v = v + 5', "SELECT lsm_flush('c'), lsm_major_compact('c')");
my $gone_on = $restored->safe_psql('postgres', $rows);
is(psql('SELECT count(*), sum(v) FROM c'), '5000|0', 'the original has its own rows');
rewrite(3);
is($restored->safe_psql('postgres', $rows), $gone_on, 'and the restored one its');
$restored->restart;
is($restored->safe_psql('postgres', $rows), $gone_on, 'also after a restart');
$restored->check_ok('postgres', 'gone on');
$restored->stop;

# ---- a standby of a standby
$node->backup('second');
my $first = LsmStoreNode->new('first');
$first->init_from_backup($node, 'second', has_streaming => 1);
$first->start;
$first->backup('third');
my $second = LsmStoreNode->new('second');
$second->init_from_backup($first, 'third', has_streaming => 1);
$second->start;
rewrite(4);
my $original = psql($rows);
$node->wait_for_catchup($first, 'replay', $node->lsn('insert'));
$first->wait_for_catchup($second, 'replay', $node->lsn('insert'));
is($first->safe_psql('postgres', $rows), $original, 'rows of a standby');
is($second->safe_psql('postgres', $rows), $original, 'and of its own');

# the first one takes over, the second one follows it
$node->stop;
$first->promote;
$first->safe_psql('postgres', $_)
  foreach ('UPDATE c SET v = v + 7 WHERE id % 3 = 0', "SELECT lsm_flush('c'), lsm_major_compact('c')");
my $new = $first->safe_psql('postgres', $rows);
$first->wait_for_catchup($second, 'replay', $first->lsn('insert'));
is($second->safe_psql('postgres', $rows), $new, 'rows after a change of the primary');
$first->check_ok('postgres', 'promoted');
$second->stop;
$first->stop;
done_testing();
