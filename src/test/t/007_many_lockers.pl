# More transactions hold KEY SHARE on a row than can come along when an update of
# an indexed column moves it: an error, and nothing is lost.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('lockers');
my $many = 170;

$node->setup(conf => "restart_after_crash = off\nautovacuum = off\nmax_prepared_transactions = 200\n");
$node->safe_psql('postgres',
	'CREATE TABLE p (id int PRIMARY KEY, k int) USING lsm; CREATE INDEX ON p (k); INSERT INTO p VALUES (1, 1)');
$node->safe_psql('postgres',
	join("\n", map { "BEGIN; SELECT 1 FROM p WHERE id = 1 FOR KEY SHARE; PREPARE TRANSACTION 'l$_';" } 1 .. $many));
my ($status, $out, $err) = $node->psql('postgres', '\set VERBOSITY verbose' . "\nUPDATE p SET k = 2 WHERE id = 1");
like($err, qr/ERROR:  54000: too many transactions hold locks on a row of table "p"/, 'an update that moves the row is refused');
is($node->safe_psql('postgres', 'SELECT * FROM p'), '1|1', 'the row is as it was');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'l$_'") foreach (1 .. 40);
$node->safe_psql('postgres', 'UPDATE p SET k = 2 WHERE id = 1');
is($node->safe_psql('postgres', 'SELECT * FROM p WHERE k = 2'), '1|2', 'with fewer of them it moves');

# the locks have come along, and survive a restart
$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('p')");
$node->crash_and_start;
($status, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; DELETE FROM p WHERE id = 1");
like($err, qr/canceling statement due to lock timeout/, 'the moved row is still locked');
$node->safe_psql('postgres', "COMMIT PREPARED 'l$_'") foreach (41 .. $many);
$node->safe_psql('postgres', 'DELETE FROM p WHERE id = 1');
is($node->safe_psql('postgres', 'SELECT count(*) FROM p'), '0', 'and then it is not');
$node->check_ok('postgres', 'at the end', 'p');
$node->stop;
done_testing();
