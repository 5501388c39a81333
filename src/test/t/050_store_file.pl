# Stores of type file: objects appear as a whole or not at all, damage is found, and
# errors of the file system are told.

use strict;
use warnings;

use File::Path ();
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
$node->setup(conf => "restart_after_crash = on\n");
$node->test_functions('postgres');

my $dir = $node->basedir . '/cold';
mkdir $dir or die $!;
$node->safe_psql(
	'postgres', qq{
CREATE SERVER f FOREIGN DATA WRAPPER lsm_store
	OPTIONS (type 'file', directory '$dir', prefix 'pre/fix', verify 'full');
CREATE SERVER root FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir');
});

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub files
{
	my @files = map { chomp; $_ } `cd '$dir' && find . -type f | sort`;

	return join ' ', @files;
}

is(psql("SELECT step, ok FROM lsm_store_check('f')"),
	"put|t\nread|t\nlist|t\ndelete|t", 'a store that can be used');
is(files(), '', 'the check leaves no file');

# Sizes around those of the pieces in which files are written, and of nothing.
foreach my $size (0, 1, 23, 24, 1048551, 1048552, 1048553, 1048576, 9000000)
{
	my $put = psql("SELECT lsm_test_store_put('f', 'size/$size', $size)");

	like($put, qr/^$size [0-9a-f]{8}$/, "$size bytes are put");
	is(psql("SELECT lsm_test_store_head('f', 'size/$size')"), $put, 'and are there');
	is(psql("SELECT lsm_test_store_verify('f', 'size/$size')"), $put, 'as they were put');
	is(-s "$dir/pre/fix/size/$size", $size + 24, 'with a trailer');
}
is( psql(
		"SELECT lsm_test_store_reads('f', 'size/9000000',
			array_agg(i * 80000 ORDER BY i), 1000) FROM generate_series(0, 111) i"),
	112,
	'ranges hold what was put');
is(psql("SELECT lsm_test_store_begin('f', 'size/1048576', 1048576, 5)"), 5, 'a list ended early');
is(psql("SELECT lsm_test_store_head('f', 'none/at/all') IS NULL"), 't', 'no such object');
is(psql("SELECT lsm_test_store_head('f', 'size/1/below') IS NULL"), 't', 'nor below another');

# Listing.
is( psql("SELECT key, bytes FROM lsm_test_store_list('f', 'size/104') ORDER BY key COLLATE \"C\""),
	"size/1048551|1048575\nsize/1048552|1048576\nsize/1048553|1048577\nsize/1048576|1048600",
	'objects are listed by prefix');
is(psql("SELECT count(*) FROM lsm_test_store_list('root', 'pre/')"), 9, 'also from above');
is(psql("SELECT count(*) FROM lsm_test_store_list('root', 'pre/fix/none')"), 0, 'or none');
is( psql(
		"SELECT count(*) FROM lsm_test_store_list('f', '')
		WHERE abs(modified - extract(epoch FROM now())) < 3600"),
	9,
	'with their times');

# What cannot be of a store is not looked at.
mkdir "$dir/lost+found" or die $!;
chmod 0, "$dir/lost+found";
is(psql("SELECT count(*) FROM lsm_test_store_list('root', '')"), 9, 'a directory of others is passed over');

# A change that is announced while a server is being opened counts.
mkdir "$dir.other" or die $!;
my $holder = $node->session('postgres');
my $opener = $node->session('postgres');
my $opener_pid = $node->session_pid($opener);
$holder->query_safe('SELECT pg_advisory_lock(7107437)');
$node->start_query($opener, "SET lsm.debug_stop = 'store-open:wait'; SELECT lsm_test_store_head('root', 'pre/fix/size/1') IS NOT NULL AS there; SET lsm.debug_stop = ''");
$node->wait_blocked($opener_pid);
psql("ALTER SERVER root OPTIONS (SET directory '$dir.other')");
$holder->query_safe('SELECT pg_advisory_unlock(7107437)');
is(($node->finish_query($opener))[0], 'f', 'the directory is that of now');
psql("ALTER SERVER root OPTIONS (SET directory '$dir')");
$_->quit foreach $holder, $opener;

# An object is never replaced.
like(
	$node->error_of('postgres', "SELECT lsm_test_store_put('f', 'size/1', 5)"),
	qr/^58P02: could not create file ".*size\/1" of store "f": File exists/,
	'a key cannot be used twice');
is(psql("SELECT lsm_test_store_verify('f', 'size/1') ~ '^1 '"), 't', 'what was there stays');

# What reads find when something is wrong.
like(
	$node->error_of('postgres', "SELECT lsm_test_store_reads('f', 'none', '{0}', 10)"),
	qr/^58P01: could not read object "none" of store "f" DETAIL:  It does not exist\./,
	'a missing object');
like(
	$node->error_of('postgres', "SELECT lsm_test_store_reads('f', 'size/24', '{40}', 10)"),
	qr/^XX001: could not read object "size\/24" of store "f" DETAIL:  It ends at byte 48\./,
	'a range beyond the end');

sub damage
{
	my ($file, $at, $bytes) = @_;

	open my $out, '+<', "$dir/pre/fix/$file" or die $!;
	seek $out, $at, 0;
	print $out $bytes;
	close $out;
	return;
}

damage('size/9000000', 5000000, "\x00\x01\x02\x03");
like(
	$node->error_of('postgres', "SELECT lsm_test_store_verify('f', 'size/9000000')"),
	qr/^XX001: could not verify object "size\/9000000" of store "f" DETAIL:  Its checksum is wrong\./,
	'damaged bytes are found by verifying');
damage('size/1048553', 1048553 + 8, "\x01");
like(
	$node->error_of('postgres', "SELECT lsm_test_store_head('f', 'size/1048553')"),
	qr/^XX001: .*The checksum of its trailer is wrong/,
	'so is a damaged trailer');
truncate "$dir/pre/fix/size/1048576", 1048000;
like(
	$node->error_of('postgres', "SELECT lsm_test_store_head('f', 'size/1048576')"),
	qr/^XX001: .*It does not end in a trailer/, 'and an object that was cut off');
truncate "$dir/pre/fix/size/0", 0;
like(
	$node->error_of('postgres', "SELECT lsm_test_store_head('f', 'size/0')"),
	qr/^XX001: .*It does not end in a trailer/, 'or emptied');
rename "$dir/pre/fix/size/23", "$dir/pre/fix/size/moved" or die $!;
like(
	$node->error_of('postgres', "SELECT lsm_test_store_head('f', 'size/moved')"),
	qr/^XX001: .*or it belongs to another key/, 'an object under a key that is not its own');

# Deleting.
psql("SELECT lsm_test_store_delete('f', ARRAY['size/0', 'size/1', 'size/1', 'none', 'no/ne'])");
is(psql("SELECT lsm_test_store_head('f', 'size/1') IS NULL"), 't', 'a deleted object is gone');
is(psql("SELECT count(*) FROM lsm_test_store_list('f', '')"), 7, 'the others are not');

# Errors and a crash before an object has its name leave nothing to be seen.
my $before = files();
like(
	$node->error_of(
		'postgres',
		"SET lsm.debug_stop = 'store-before-visible:error'; SELECT lsm_test_store_put('f', 'e', 9)"),
	qr/store-before-visible/,
	'an upload that fails');
is(files(), $before, 'leaves nothing');
my $stderr = $node->psql_until_crash('postgres',
	"SET lsm.debug_stop = 'store-before-visible:crash'; SELECT lsm_test_store_put('f', 'e', 9)");
isnt($stderr, '', 'an upload that the server does not survive');
is(psql("SELECT count(*) FROM lsm_test_store_list('f', '')"), 7, 'leaves nothing to be listed');
is(psql("SELECT lsm_test_store_head('f', 'e') IS NULL"), 't', 'nor to be read');
like(psql("SELECT lsm_test_store_put('f', 'e', 9)"), qr/^9 /, 'nor in the way');

# Errors of the file system.  (Root may do anything, but no server runs as root.)
chmod 0555, "$dir/pre/fix/size";
like(
	$node->error_of('postgres', "SELECT lsm_test_store_put('f', 'size/new', 5)"),
	qr/^42501: could not create file ".*" of store "f": Permission denied/,
	'a directory that cannot be written');
like(
	$node->error_of('postgres', "SELECT lsm_test_store_delete('f', '{size/24}')"),
	qr/^42501: could not remove file ".*size\/24" of store "f": Permission denied/,
	'nor deleted from');
chmod 0755, "$dir/pre/fix/size";
chmod 0000, "$dir/pre/fix/size/24";
like(
	$node->error_of('postgres', "SELECT lsm_test_store_head('f', 'size/24')"),
	qr/^42501: could not open file ".*size\/24" of store "f": Permission denied/,
	'a file that cannot be read');
is(psql("SELECT bool_and(ok) FROM lsm_store_check('f')"), 't', 'the check does not mind that');
chmod 0555, "$dir/pre/fix";
chmod 0555, $dir;
is( psql("SELECT step, ok, detail ~ 'Permission denied' FROM lsm_store_check('root')"),
	'put|f|t', 'the check tells which step fails');
chmod 0755, $dir, "$dir/pre/fix";

# A directory that goes away before what it names is made durable.  (The server's own files
# would be a reason for a PANIC.)  What was deleted in it is gone in any case.
psql("SELECT lsm_test_store_put('f', 'away/old', 9)");
foreach my $case ([ "lsm_test_store_put('f', 'away/new', 9)", qr/ERROR:  could not open file ".*away" of store "f": No such file/, 'a put fails' ],
	[ "lsm_test_store_delete('f', '{away/old}')", qr/^$/, 'a deletion does not fail' ])
{
	my ($call, $expected, $label) = @$case;
	my $session = $node->session('postgres');
	my $pid = $node->session_pid($session);
	my $lock = $node->session('postgres');

	$lock->query_safe('SELECT pg_advisory_lock(7107437)');
	$session->query_safe("SET lsm.debug_stop = 'store-before-sync:wait'");
	$node->start_query($session, "SELECT $call");
	$node->wait_blocked($pid);
	rename "$dir/pre/fix/away", "$dir/gone-away" or die $!;
	$lock->query_safe('SELECT pg_advisory_unlock(7107437)');
	like(($node->finish_query($session))[1], $expected, "$label when its directory has gone");
	is($session->query_safe('SELECT 1'), 1, 'and the session goes on');
	like(psql(q{SELECT last_error FROM lsm_stat_store WHERE servername = 'f'}),
		qr/could not open file/, 'it is in the statistics');
	rename "$dir/gone-away", "$dir/pre/fix/away" or die $!;
	$_->quit foreach $session, $lock;
}
psql("SELECT lsm_test_store_delete('f', '{away/new}')");

# Directories that have become empty go, but not the store's own; who wants one that has just
# gone makes it again.
psql("SELECT lsm_test_store_put('f', 'deep/er/$_', 9)") foreach (1, 2);
psql("SELECT lsm_test_store_delete('f', '{deep/er/1}')");
ok(-d "$dir/pre/fix/deep/er", 'a directory that names something stays');
my $putting = $node->session('postgres');
my $putting_pid = $node->session_pid($putting);
my $gate = $node->session('postgres');
$gate->query_safe('SELECT pg_advisory_lock(7107437)');
$putting->query_safe("SET lsm.debug_stop = 'store-made-parents:wait'");
$node->start_query($putting, "SELECT lsm_test_store_put('f', 'deep/er/3', 9)");
$node->wait_blocked($putting_pid);
psql("SELECT lsm_test_store_delete('f', '{deep/er/2}')");
ok(!-d "$dir/pre/fix/deep", 'one that names nothing goes');
$gate->query_safe('SELECT pg_advisory_unlock(7107437)');
is(($node->finish_query($putting))[1], '', 'and is made again by who wants it');
ok(-f "$dir/pre/fix/deep/er/3", 'for what is put there');
$_->quit foreach $putting, $gate;
psql("SELECT lsm_test_store_delete('f', '{deep/er/3}')");

# What cannot be looked at is not taken for gone.
psql("SELECT lsm_test_store_put('f', 'hidden/1', 9)");
chmod 0444, "$dir/pre/fix/hidden";
like(
	$node->error_of('postgres', "SELECT * FROM lsm_test_store_list('f', 'hidden')"),
	qr/^42501: could not stat file ".*hidden\/1" of store "f": Permission denied/,
	'a list that would lack something is an error');
chmod 0755, "$dir/pre/fix/hidden";
psql("SELECT lsm_test_store_delete('f', '{hidden/1}')");

# A limit on the size of files stands for a file system without room.
SKIP:
{
	my $small = LsmStoreNode->new('small');

	skip 'no prlimit', 4 if system('prlimit --version >/dev/null 2>&1') != 0;
	$small->setup;
	$small->test_functions('postgres');
	$small->safe_psql('postgres',
		"CREATE SERVER f FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')");
	my ($pid) = PostgreSQL::Test::Utils::slurp_file($small->data_dir . '/postmaster.pid') =~ /^(\d+)/;

	is(system('prlimit', "--pid=$pid", '--fsize=40000000'), 0, 'files have 40 MB at most');
	like(
		$small->error_of('postgres', "SELECT lsm_test_store_put('f', 'large', 60000000)"),
		qr/could not write file ".*large~\S+" of store "f": File too large/,
		'no room for the file');
	unlike(files(), qr/large/, 'nothing is left of it');
	like($small->safe_psql('postgres', 'SELECT last_error FROM lsm_stat_store'),
		qr/File too large/, 'the error is in the statistics');
	$small->stop;
}

# A directory that is gone, one in the data directory by another name.
$node->safe_psql('postgres',
	"CREATE SERVER gone FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir/gone')"
);
like(
	$node->error_of('postgres', "SELECT lsm_store_check('gone')"),
	qr/^58P01: could not find file ".*gone" of store "gone": No such file/,
	'a directory that does not exist');
symlink $node->data_dir . '/base', "$dir/gone" or die $!;
like(
	$node->error_of('postgres', "SELECT lsm_store_check('gone')"),
	qr/^55000: directory ".*gone" of store "gone" is in the data directory/,
	'a link into the data directory');

# Counters.
psql('SELECT lsm_stat_reset()');
psql("SELECT lsm_test_store_put('root', 'counted', 1000)");
psql("SELECT lsm_test_store_reads('root', 'counted', '{0,100}', 100)");
psql("SELECT count(*) FROM lsm_test_store_list('root', 'counted')");
psql("SELECT lsm_test_store_delete('root', '{counted}')");
is( psql(
		"SELECT get_requests, put_requests, multipart_requests, list_requests, delete_requests,
			bytes_read, bytes_written, retries, errors, last_error IS NULL, stats_reset IS NULL
		FROM lsm_stat_store WHERE servername = 'root'"),
	'3|1|0|1|1|224|1024|0|0|t|f',
	'requests are counted');

$node->stop;
done_testing();
