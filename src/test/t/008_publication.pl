# Changes of lsm tables are not decoded: a table in a publication cannot be
# written, rather than its changes being lost on the way.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('publication');

$node->setup(allows_streaming => 'logical');
$node->safe_psql('postgres',
	'CREATE TABLE p (id int PRIMARY KEY, v int) USING lsm; INSERT INTO p VALUES (1, 1); CREATE PUBLICATION pub FOR TABLE p');
foreach my $sql ('INSERT INTO p VALUES (2, 2)', 'UPDATE p SET v = 2', 'DELETE FROM p',
	'INSERT INTO p VALUES (3, 3) ON CONFLICT DO NOTHING')
{
	my ($status, $out, $err) = $node->psql('postgres', '\set VERBOSITY verbose' . "\n$sql");

	like($err, qr/ERROR:  0A000: publishing changes of table "p" is not supported by access method "lsm"/, $sql);
}
is($node->safe_psql('postgres', 'SELECT * FROM p'), '1|1', 'nothing has changed');
$node->safe_psql('postgres', 'DROP PUBLICATION pub; UPDATE p SET v = 2; INSERT INTO p VALUES (2, 2)');
is($node->safe_psql('postgres', 'SELECT sum(v) FROM p'), '4', 'without the publication it is written');
$node->check_ok('postgres', 'at the end', 'p');
$node->stop;
done_testing();
