# A store to which no connection can be made, as what is sent to it is lost: sockets that were
# never connected, and were given up, leave a session room for others.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use IO::Socket::INET;
use LsmFaultStore;
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
my $store = LsmFaultStore->start($node->basedir . '/store');

# a third of these may be sockets
$node->setup(conf => "lsm.store_allowed_endpoints = '"
	  . $store->endpoint
	  . "'\nlsm.block_cache_size = 0\nmax_files_per_process = 120\nautovacuum = off\n");
$node->safe_psql('postgres', $_)
  foreach (
	"CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 's3', endpoint '"
	. $store->endpoint
	. "', bucket 'bkt', connect_timeout '1h', stall_timeout '1h', request_timeout '1h')",
	q{CREATE USER MAPPING FOR PUBLIC SERVER cold OPTIONS (access_key_id 'k', secret_access_key 's')},
	q{CREATE TABLE t (id int PRIMARY KEY, v int, a text) USING lsm WITH (lsm.cold_store = 'cold')},
	q{INSERT INTO t SELECT i, i, md5(i::text) || md5(i || 'x') || md5(i || 'y') FROM generate_series(1, 30000) i},
	q{SELECT lsm_flush('t')},
	q{SELECT lsm_major_compact('t')});
is($node->safe_psql('postgres', q{SELECT DISTINCT location FROM lsm_segments('t')}), 'cold', 'the table is in the store');

my $session = $node->session('postgres');
my $sum = 'SELECT sum(v), count(a) FROM t';

$session->query_safe(q{SET enable_indexscan = off; SET lsm.store_read_size = '16kB'});
$store->stop;

# Linux leaves who connects to a full queue without an answer.
my $full = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $store->{port}, ReuseAddr => 1, Listen => 1)
  or die "could not listen: $!";
my @waiting = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $store->{port}, Blocking => 0) } (1 .. 4);

foreach my $round (1 .. 50)
{
	$session->query("SET statement_timeout = '50ms'; $sum");
}
like($session->{stderr}, qr/canceling statement due to statement timeout/, 'no connection is made');
$session->{stderr} = '';
close $_ foreach (@waiting, $full);
$store->run;
is($session->query_safe("SET statement_timeout = 0; $sum"), '450015000|30000', 'when there is one again, the same session has sockets for it');
$session->quit;
$node->check_ok('postgres', 'in the end');
$node->stop;
done_testing();
