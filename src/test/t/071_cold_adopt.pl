# Objects whose owner is no more are adopted, and then deleted when nobody needs them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $dir = PostgreSQL::Test::Utils::tempdir() . '/cold';
mkdir $dir or die $!;

my $first = LsmStoreNode->new('first');
$first->init(allows_streaming => 1);
$first->append_conf(
	'postgresql.conf', "autovacuum = off
lsm.compaction_workers = 0
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
");
$first->start;
$first->safe_psql('postgres', $_)
  foreach ('CREATE EXTENSION IF NOT EXISTS lsm',
	"CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')",
	"CREATE TABLE c (id int PRIMARY KEY, v int) USING lsm WITH (lsm.cold_store = 'cold')",
	"CREATE TABLE d (id int PRIMARY KEY, v int) USING lsm WITH (lsm.cold_store = 'cold')",
	'INSERT INTO c SELECT i, i FROM generate_series(1, 20000) i',
	'INSERT INTO d SELECT i, i FROM generate_series(1, 10000) i');

# Flushes and compacts a table; its object.
sub compact
{
	my ($on, $table) = @_;

	$on->safe_psql('postgres', "SELECT lsm_flush('$table'), lsm_major_compact('$table')");
	return $on->safe_psql('postgres', "SELECT object_key FROM lsm_segments('$table') WHERE kind = 'baseline'");
}

sub rows
{
	my ($on) = @_;

	$on->restart;
	return $on->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c; SELECT count(*), sum(v) FROM d');
}

# Sweeps that begin and end after this was called.
sub swept
{
	my ($on) = @_;
	my $then = $on->safe_psql('postgres', 'SELECT list_requests FROM lsm_stat_store');

	$on->set_workers(1);
	$on->wait_until('postgres', "SELECT list_requests >= $then + 9 FROM lsm_stat_store");
	$on->set_workers(0);
	return;
}

sub promoted
{
	my ($name, $of) = @_;
	my $standby = LsmStoreNode->new($name);

	$of->backup("of_$name");
	$standby->init_from_backup($of, "of_$name", has_streaming => 1);
	$standby->start;
	$of->wait_for_catchup($standby, 'replay', $of->lsn('insert'));
	return $standby;
}

sub prefix
{
	return $_[0] =~ m{^([^/]*/[^/]*/[^/]*/)} ? $1 : die;
}

sub adopt
{
	my ($on, $prefix) = @_;

	return $on->safe_psql('postgres', "SELECT lsm_store_adopt('cold', '$prefix')");
}

# What is claimed, or adopted.
sub claims
{
	my ($on, $where) = @_;

	return join ' ', sort split /\n/, $on->safe_psql('postgres', "SELECT claimed FROM lsm_store_claims('cold') WHERE $where");
}

my $t0 = prefix(my $c0 = compact($first, 'c'));
my $d0 = compact($first, 'd');

# ---- orphans are not removed under a standby that has not come so far
my $second = promoted('second', $first);
$first->safe_psql('postgres', 'UPDATE c SET v = v + 1');
my $c1 = compact($first, 'c');
is($first->safe_psql('postgres', q{SELECT object_key FROM lsm_store_orphans('cold') WHERE removable}),
	$c0, 'an object is not needed any more');
$first->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('behind', true)});
is($first->safe_psql('postgres', q{SELECT lsm_store_remove_orphans('cold', '1 day')}), 0, 'nobody is waited for where nothing goes');
like($first->error_of('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}),
	qr/^55006: objects may still be needed by a standby.*replication slot "behind" has not come to/s,
	'what a slot may need is not removed');
ok(-e "$dir/$c0", 'it is there');
$first->safe_psql('postgres', q{SELECT pg_drop_replication_slot('behind')});
is($first->safe_psql('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}),
	1, 'a standby that streams is waited for');
ok(!-e "$dir/$c0", 'then it goes');

# the owner of a store may not see how far standbys have come
$first->safe_psql('postgres', $_)
  foreach ('CREATE ROLE keeper',
	'GRANT pg_read_server_files, pg_write_server_files TO keeper',
	'ALTER SERVER cold OWNER TO keeper',
	'UPDATE c SET v = v');
my $replaced = $c1;
$c1 = compact($first, 'c');
is($first->safe_psql('postgres', q{SET ROLE keeper; SELECT count(*) FROM pg_stat_replication WHERE replay_lsn IS NOT NULL}),
	0, 'who owns the store does not see the standby');
is($first->error_of('postgres', q{SET ROLE keeper; SELECT lsm_store_remove_orphans('cold', '0')}),
	'', 'it is waited for all the same');
ok(!-e "$dir/$replaced" && -e "$dir/$c1", 'then the object goes');
$first->safe_psql('postgres', 'ALTER SERVER cold OWNER TO CURRENT_USER');
$first->wait_for_catchup($second, 'replay', $first->lsn('insert'));

# ---- who may adopt what
like($first->error_of('postgres', "SELECT lsm_store_adopt('cold', '$_')"),
	qr/^22023: "\Q$_\E" is not what keys of objects begin with/, "\"$_\" is no prefix")
  foreach ('', 'claims/', substr($t0, 0, -1), "$t0/", "0$t0", $c1);
like($first->error_of('postgres', "SELECT lsm_store_adopt('cold', '$t0')"),
	qr/^55000: objects under .* are those of this data directory already/, 'what is ours is not adopted');
like($first->error_of('postgres', q{SELECT lsm_store_adopt('cold', '1/0000000000000002/3/')}),
	qr/^42704: store "cold" has no objects under/, 'nor what is not there');
like($second->error_of('postgres', "SELECT lsm_store_adopt('cold', '$t0')"),
	qr/^25006: cannot execute lsm_store_adopt\(\) during recovery/, 'not on a standby');
like($first->error_of('postgres', "BEGIN READ ONLY; SELECT lsm_store_adopt('cold', '$t0')"),
	qr/^25006: cannot execute lsm_store_adopt\(\) in a read-only transaction/, 'nor in a read-only transaction');
$first->safe_psql('postgres', 'CREATE ROLE r LOGIN');
$first->wait_for_catchup($second, 'replay', $first->lsn('insert'));

# ---- failover: the old primary is no more
$first->stop;
$second->promote;
like($second->error_of('postgres', "SET ROLE r; SELECT lsm_store_adopt('cold', '$t0')"),
	qr/^42501: must be owner of foreign server cold/, 'for the owner of the server');
my $rows = rows($second);
$second->safe_psql('postgres', 'UPDATE c SET v = v + 1');
my $t1 = prefix(my $c2 = compact($second, 'c'));
isnt($t1, $t0, 'it puts objects of its own');
swept($second);
ok(-e "$dir/$c1", 'what the old primary has put stays');
is($second->safe_psql('postgres', q{SELECT object_key, removable FROM lsm_store_orphans('cold')}),
	"$c1|f", 'and is not removable');
foreach my $sql ('DROP TABLE d', 'CREATE TABLE x ()', 'UPDATE c SET v = 0 WHERE id = 1')
{
	like($second->error_of('postgres', "BEGIN; $sql; SELECT lsm_store_adopt('cold', '$t0')"),
		qr/^25001: lsm_store_adopt\(\) cannot run in a transaction that has changed something/, "not after $sql");
}
is(claims($second, 'adopts'), '', 'nothing is adopted then');
is($second->safe_psql('postgres', q{SELECT sum(lsm_store_adopt('cold', claimed)) FROM lsm_store_claims('cold') WHERE claimant_here}),
	2, 'until it is adopted');
is($second->safe_psql('postgres', q{SELECT object_key, removable FROM lsm_store_orphans('cold')}),
	"$c1|t", 'then it is');
is($second->safe_psql('postgres', q{SELECT claimed, claimant_here FROM lsm_store_claims('cold') WHERE adopts}),
	"$t0|t", 'the store tells who has adopted it');
swept($second);
ok(!-e "$dir/$c1", 'workers delete what is not needed');
ok(-e "$dir/$d0" && -e "$dir/$c2", 'and nothing else');
is(rows($second), "20000|200050000\n10000|50005000", 'all rows are there');

# ---- another failover: what that one had adopted goes on to the next, who has not claimed it yet
my $third = promoted('third', $second);
my $needed = join ' ', sort $t0, $t1;
$second->stop;
$third->promote;
is(claims($third, 'claimant_here'), '', 'the third primary has claimed nothing');
is(claims($third, 'NOT claimant_here'), "$t0 $t0", 'the second has claimed and adopted what the first had put');

# (what a database of the same number has claimed goes when that one adopts)
$third->safe_psql('postgres', 'CREATE DATABASE other');
$third->safe_psql('other', $_)
  foreach ('CREATE EXTENSION lsm', "CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')");
is($third->safe_psql('other', "SELECT lsm_store_adopt('cold', '$t1')"), 1, 'another database adopts what the second has put');
is(claims($third, 'NOT claimant_here'), "$t0 $t0", 'and leaves what that has claimed for this one');
$third->safe_psql('postgres', 'DROP DATABASE other');

my $locker = $third->session('postgres');
$locker->query_safe('BEGIN; LOCK TABLE d');
like($third->error_of('postgres', "SELECT lsm_store_adopt('cold', '$t1')"),
	qr/^55P03: could not look at all tables of the database/, 'who does not know what it needs does not adopt');
$locker->query_safe('ROLLBACK');
$locker->quit;
like($third->error_of('postgres', "SET lsm.debug_stop = 'adopt-claimed:error'; SELECT lsm_store_adopt('cold', '$t1')"),
	qr/adopt-claimed/, 'an adoption that fails');
is(claims($third, 'NOT claimant_here'), "$t0 $t0", 'has taken no claim away');
is(claims($third, 'claimant_here AND NOT adopts'), $needed, 'and claimed what is needed before');
is(adopt($third, $t1), 1, 'of the second primary');
is(claims($third, 'claimant_here AND NOT adopts'), $needed, 'what the third needs is claimed');
is(claims($third, 'claimant_here AND adopts'), $t1, 'and adopted once');
is($third->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_claims('cold') WHERE NOT claimant_here}),
	0, 'whose claims and adoptions are void');
is(adopt($third, $t0), 1, 'and of the first');
$third->safe_psql('postgres', 'UPDATE c SET v = 0; UPDATE d SET v = 0');
my @c3 = (compact($third, 'c'), compact($third, 'd'));
swept($third);
swept($third);
is($third->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_claims('cold')}), 0, 'claims and adoptions, too');
ok(!-e "$dir/$c2" && !-e "$dir/$d0", 'all that was before is gone');
is(join(' ', sort @c3),
	join(' ', sort split /\n/, $third->safe_psql('postgres', q{SELECT object_key FROM lsm_segments('c') UNION SELECT object_key FROM lsm_segments('d')})),
	'there is what is needed');
is($third->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_orphans('cold')}), 0, 'nothing is left behind');

# ---- an owner that lives on all the same loses nothing
my $fourth = promoted('fourth', $third);
$fourth->promote;
my $t3 = prefix($c3[0]);
$third->safe_psql('postgres', 'ALTER SYSTEM SET lsm.store_delete_delay = 3600; SELECT pg_reload_conf()');
$fourth->safe_psql('postgres', 'ALTER SYSTEM SET lsm.store_delete_delay = 3600; SELECT pg_reload_conf()');
is(adopt($fourth, $t3), 2, 'the objects of one that lives');
$fourth->safe_psql('postgres', 'DROP TABLE c, d');
swept($fourth);
is($fourth->safe_psql('postgres', "SELECT count(*) FROM lsm_store_queue WHERE starts_with(object_key, '$t3')"),
	2, 'are waiting to be deleted');
my $log = -s $third->logfile;
swept($third);
like(PostgreSQL::Test::Utils::slurp_file($third->logfile, $log),
	qr/what database "postgres" has put into store "cold" has been adopted by somebody else/, 'it finds that in the store');
is($third->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_claims('cold') WHERE claimant_here AND NOT adopts}),
	1, 'and claims what it needs');
is($fourth->safe_psql('postgres', q{SELECT bool_or(removable) FROM lsm_store_orphans('cold')}), 'f', 'which is not removable now');
$fourth->safe_psql('postgres', 'ALTER SYSTEM SET lsm.store_delete_delay = 0; SELECT pg_reload_conf()');
swept($fourth);
is(rows($third), "20000|0\n10000|0", 'it has all rows');
$third->safe_psql('postgres', 'UPDATE c SET v = 1; ALTER SYSTEM SET lsm.store_delete_delay = 0; SELECT pg_reload_conf()');
isnt(prefix(compact($third, 'c')), $t3, 'it goes on under another token');
swept($third);
$third->safe_psql('postgres', 'DROP TABLE d');
swept($third);
swept($fourth);
ok(!-e "$dir/$c3[0]" && !-e "$dir/$c3[1]", 'when it does not need them any more, they go');
is($third->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c'), '20000|20000', 'its table is whole');
$fourth->stop;

# ---- a database that was copied adopts what it had put before
my $old = prefix($third->safe_psql('postgres', q{SELECT object_key FROM lsm_segments('c')}));
$third->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
is($third->safe_psql('copy', q{SELECT lsm_store_claim('cold')}), 1, 'the copy claims');
is(adopt($third, $old), 1, 'the original adopts what it had put before the copy');
$third->safe_psql('postgres', 'UPDATE c SET v = 2');
compact($third, 'c');
is($third->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_orphans('cold') WHERE removable}), 0, 'the copy needs it');
is($third->safe_psql('copy', 'SELECT count(*), sum(v) FROM c'), '20000|20000', 'the copy has its rows');
is($third->safe_psql('copy', q{SELECT count(*) FROM lsm_store_orphans('cold') WHERE removable}), 0, 'and removes nothing');
$third->safe_psql('postgres', 'DROP DATABASE copy');
swept($third);
swept($third);
is($third->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_orphans('cold')}), 0, 'without the copy, all goes');
is($third->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c'), '20000|40000', 'the original has its rows');
$third->check_ok('postgres', 'in the end');

# ---- failover of a database that had been copied: what its owner had claimed is void, though its
# tokens are not the one by which that claims
my $ct = prefix($third->safe_psql('postgres', q{SELECT object_key FROM lsm_segments('c')}));
$third->safe_psql('template1', "$_ DATABASE copy" . ($_ eq 'DROP' ? '' : ' TEMPLATE postgres')) foreach ('CREATE', 'DROP', 'CREATE', 'DROP');
is($third->safe_psql('postgres', q{SELECT lsm_store_claim('cold')}), 1, 'the original claims what it had put before it was copied');
my $fifth = promoted('fifth', $third);
$third->stop;
$fifth->promote;
is(claims($fifth, 'NOT claimant_here'), $ct, 'which the next primary finds');
is(adopt($fifth, $ct), 1, 'it adopts that');
is(claims($fifth, 'NOT claimant_here'), '', 'and what the old one claimed is void');
$fifth->safe_psql('postgres', 'UPDATE c SET v = 3');
compact($fifth, 'c');
swept($fifth);
swept($fifth);
is($fifth->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_orphans('cold')}), 0, 'nothing is left behind');
is($fifth->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c'), '20000|60000', 'its table is whole');
$fifth->check_ok('postgres', 'after failover of a copied database');
$fifth->stop;
done_testing();
