# Copies of a cluster claim the objects that they need; the original leaves these alone, though
# it needs them no more.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $dir = PostgreSQL::Test::Utils::tempdir() . '/cold';
mkdir $dir or die $!;

my $primary = LsmStoreNode->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf(
	'postgresql.conf', "autovacuum = off
lsm.block_cache_size = 1MB
lsm.compaction_workers = 0
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
");
$primary->start;
$primary->safe_psql('postgres', $_)
  foreach ('CREATE EXTENSION IF NOT EXISTS lsm',
	"CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')",
	"CREATE TABLE c (id int PRIMARY KEY, v int) USING lsm WITH (lsm.cold_store = 'cold')",
	"CREATE TABLE d (id int PRIMARY KEY, v int) USING lsm WITH (lsm.cold_store = 'cold')",
	'INSERT INTO c SELECT i, i FROM generate_series(1, 20000) i',
	'INSERT INTO d SELECT i, i FROM generate_series(1, 10000) i');

sub compact
{
	my ($on, $table) = @_;

	$on->safe_psql('postgres', "SELECT lsm_flush('$table'), lsm_major_compact('$table')");
	return $on->safe_psql('postgres', "SELECT object_key FROM lsm_segments('$table') WHERE kind = 'baseline'");
}

# All rows are read from the store.
sub rows
{
	my ($on) = @_;

	$on->restart;
	return $on->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c; SELECT count(*), sum(v) FROM d');
}

# Sweeps that begin and end after this was called.
sub sweeps
{
	my ($on) = @_;
	my $then = $on->safe_psql('postgres', 'SELECT list_requests FROM lsm_stat_store');

	$on->wait_until('postgres', "SELECT list_requests >= $then + 6 FROM lsm_stat_store");
	return;
}

my @first = (compact($primary, 'c'), compact($primary, 'd'));
ok(-e "$dir/$first[0]" && -e "$dir/$first[1]", 'objects of both tables');
is($primary->safe_psql('postgres', q{SELECT lsm_store_claim('cold')}), 0, 'the original claims nothing');

# ---- a standby is promoted, and the old primary lives on
$primary->backup('b');
my $standby = LsmStoreNode->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
like($standby->error_of('postgres', q{SELECT lsm_store_claim('cold')}),
	qr/^25006: cannot execute lsm_store_claim\(\) during recovery/, 'a standby claims nothing');
$standby->promote;
my $rows = rows($standby);
$standby->set_workers(1);
$primary->wait_until('postgres', q{SELECT count(*) = 1 FROM lsm_store_claims('cold')});
is($primary->safe_psql('postgres', q{SELECT claimed_here, claimant_here, since > now() - interval '1 hour' FROM lsm_store_claims('cold')}),
	't|f|t', 'the promoted standby has claimed what it needs');
is($standby->safe_psql('postgres', q{SELECT claimed_here, claimant_here FROM lsm_store_claims('cold')}),
	'f|t', 'its own claim');
my $claimed = $primary->safe_psql('postgres', q{SELECT claimed FROM lsm_store_claims('cold')});
ok($first[0] =~ /^\Q$claimed\E/ && $first[1] =~ /^\Q$claimed\E/, 'of these objects');

$primary->safe_psql('postgres', 'UPDATE c SET v = 0; UPDATE d SET v = 0');
my @second = (compact($primary, 'c'), compact($primary, 'd'));
isnt("@second", "@first", 'the old primary needs others');
is($primary->safe_psql('postgres', q{SELECT count(*), bool_or(removable) FROM lsm_store_orphans('cold')}),
	'2|f', 'the old ones are not removable');
is($primary->safe_psql('postgres', q{SELECT lsm_store_remove_orphans('cold', '0')}), 0, 'nor removed');
$primary->set_workers(1);
sweeps($primary);
$primary->set_workers(0);
ok(-e "$dir/$first[0]" && -e "$dir/$first[1]", 'nor deleted by workers');
is($primary->safe_psql('postgres', 'SELECT queue_length FROM lsm_stat_store'), 2, 'but wait');
is(rows($standby), $rows, 'the promoted standby has all rows');

# ---- a sweep by way of another server that names the same place leaves it
my $key = $primary->safe_psql('postgres', q{SELECT claim_key FROM lsm_store_claims('cold')});
my $file = (stat "$dir/$key")[1];
$standby->set_workers(0);
$standby->safe_psql('postgres', "CREATE SERVER same FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')");
$standby->set_workers(1);
$standby->wait_until('postgres', q{SELECT list_requests >= 6 FROM lsm_stat_store WHERE servername = 'same'});
$standby->set_workers(0);
is((stat "$dir/$key")[1], $file, 'a claim is that of all servers of one place');
$standby->safe_psql('postgres', 'DROP SERVER same');

# ---- what was put after a claim is no copy's; a claim has an hour to spare
my $now = time();
utime $now, $now - 8000, "$dir/$key" or die $!;
utime $now, $now - 8000 + 3500, "$dir/$first[0]" or die $!;
utime $now, $now - 9000, "$dir/$first[1]" or die $!;
$primary->safe_psql('postgres', 'UPDATE c SET v = 1');
my $third = compact($primary, 'c');
$primary->set_workers(1);
$primary->wait_until('postgres', "SELECT pg_stat_file('$dir/$second[0]', true) IS NULL");
$primary->set_workers(0);
ok(-e "$dir/$first[0]" && -e "$dir/$first[1]", 'objects that are as old as the claim stay');

# ---- when the copy has no need of it any more, the claim goes, and then the objects
$standby->set_workers(0);
$standby->safe_psql('postgres', 'UPDATE c SET v = 7');
compact($standby, 'c');
$standby->set_workers(1);
sweeps($standby);
ok(-e "$dir/$key", 'a table still needs what is claimed');
my $session = $standby->session('postgres');
$session->query_safe('BEGIN; DROP TABLE d');
sweeps($standby);
ok(-e "$dir/$key", 'it may be rolled back');
$session->query_safe('COMMIT');
$session->quit;
$standby->wait_until('postgres', "SELECT pg_stat_file('$dir/$key', true) IS NULL");
is($standby->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c'), '20000|140000', 'its own rows are there');
$primary->set_workers(1);
$primary->wait_until('postgres', 'SELECT queue_length = 0 FROM lsm_stat_store');
$primary->set_workers(0);
ok(!-e "$dir/$first[0]" && !-e "$dir/$first[1]", 'nobody needs them');
is(rows($primary), "20000|20000\n10000|0", 'the old primary has its rows');
$standby->stop;

# ---- a database that is copied: both claim what none of them owns any more
$primary->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
is($primary->safe_psql($_, q{SELECT lsm_store_claim('cold')}), 1, "$_ claims") foreach ('postgres', 'copy');
is($primary->safe_psql('copy', q{SELECT count(*), bool_and(claimant_here), bool_or(claimed_here) FROM lsm_store_claims('cold')}),
	'2|t|f', 'both claims are of this data directory');
is($primary->safe_psql('copy', q{SELECT lsm_store_claim('cold')}), 1, 'they are put once');
$primary->safe_psql('postgres', 'DROP DATABASE copy');
$primary->set_workers(1);
$primary->wait_until('postgres', q{SELECT count(*) = 1 FROM lsm_store_claims('cold')});
$primary->set_workers(0);
pass('the claim of a database that has been dropped goes');

# ---- by hand
like($primary->error_of('postgres', q{SELECT lsm_store_remove_claim('cold', 'claims/1/2/3')}),
	qr/^42704: store "cold" has no claim "claims\/1\/2\/3"/, 'what is no claim is not removed');
like($primary->error_of('postgres', qq{SELECT lsm_store_remove_claim('cold', '$second[1]')}),
	qr/^42704: store "cold" has no claim/, 'nor is an object');
like($primary->error_of('postgres', qq{SELECT lsm_store_remove_claim('cold', '$key')}),
	qr/^42704: store "cold" has no claim/, 'nor what is not there');
$primary->safe_psql('postgres', q{SELECT lsm_store_remove_claim('cold', claim_key) FROM lsm_store_claims('cold')});
is($primary->safe_psql('postgres', q{SELECT count(*) FROM lsm_store_claims('cold')}), 0, 'a claim is removed');
$primary->set_workers(1);
$primary->wait_until('postgres', q{SELECT count(*) = 1 FROM lsm_store_claims('cold')});
pass('who lives claims again');
$primary->set_workers(0);

# ---- also where nothing can be deleted
my $holder = $primary->session('postgres');
foreach my $why ('the delay is -1', 'a table is locked')
{
	$primary->adjust_conf('postgresql.conf', 'lsm.store_delete_delay', $why =~ /delay/ ? -1 : 0);
	$holder->query_safe('BEGIN; LOCK TABLE c') if $why =~ /locked/;
	$primary->safe_psql('postgres', q{SELECT lsm_store_remove_claim('cold', claim_key) FROM lsm_store_claims('cold')});
	$primary->set_workers(1);
	$primary->wait_until('postgres', q{SELECT count(*) = 1 FROM lsm_store_claims('cold')});
	pass("a claim is put, though $why");
	$primary->set_workers(0);
}
$holder->query_safe('ROLLBACK');
$holder->quit;

# ---- a table that cannot be read keeps nobody from claiming what others need
$primary->safe_psql('postgres', "CREATE TABLE damaged (id int) USING lsm; INSERT INTO damaged VALUES (1); SELECT lsm_flush('damaged')");
my $damaged = $primary->data_dir . '/' . $primary->safe_psql('postgres', "SELECT pg_relation_filepath('damaged')");
$primary->stop;
open(my $file_of, '+<', $damaged) or die $!;
binmode $file_of;
print $file_of "\xff" x 8192;
close $file_of;
$primary->start;

my $unread = qr/could not look at table "damaged": .*DETAIL:  No object of store "cold" is deleted\./s;
$primary->safe_psql('postgres', q{SELECT lsm_store_remove_claim('cold', claim_key) FROM lsm_store_claims('cold')});
my (undef, $claims, $warnings) = $primary->psql('postgres', q{SELECT lsm_store_claim('cold')});
is($claims, 1, 'a claim is put, though a table is damaged');
like($warnings, qr/WARNING:  $unread.*WARNING:  could not look at all tables .*One of them cannot be read/s, 'with a warning');
$primary->safe_psql('postgres', q{SELECT lsm_store_remove_claim('cold', claim_key) FROM lsm_store_claims('cold')});
my $log = -s $primary->logfile;
$primary->set_workers(1);
$primary->wait_until('postgres', q{SELECT count(*) = 1 FROM lsm_store_claims('cold')});
$primary->set_workers(0);
like(PostgreSQL::Test::Utils::slurp_file($primary->logfile, $log), $unread, 'by workers, too');
like($primary->error_of('postgres', "SELECT $_"), qr/XX001: could not look at all tables .*One of them cannot be read/, "$_ is refused")
  foreach ("lsm_store_orphans('cold')", "lsm_store_remove_orphans('cold', '0')", "lsm_store_adopt('cold', '$claimed')");
$primary->safe_psql('postgres', 'DROP TABLE damaged');
is($primary->error_of('postgres', "SELECT lsm_store_orphans('cold')"), '', 'until it is dropped');

# ---- rights
$primary->safe_psql('postgres', 'CREATE ROLE r LOGIN');
like($primary->error_of('postgres', "SET ROLE r; SELECT $_"),
	qr/^42501: must be owner of foreign server cold/, "$_ is for the owner")
  foreach ("lsm_store_claim('cold')", "lsm_store_claims('cold')", "lsm_store_remove_claim('cold', '$key')");
like($primary->error_of('postgres', q{BEGIN READ ONLY; SELECT lsm_store_claim('cold')}),
	qr/^25006: cannot execute lsm_store_claim\(\) in a read-only transaction/, 'not in a read-only transaction');
$primary->check_ok('postgres', 'in the end');
$primary->stop;
done_testing();
