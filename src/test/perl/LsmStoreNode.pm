# LsmStoreNode.pm
#
# What tests of the cold store share: an LsmNode with the functions of
# lsm_test_store.c, and a real S3 server.
#
# USE
#	use LsmNode;
#	use LsmStoreNode;
#
#	my $node = LsmStoreNode->new('main');	# an LsmNode
#	$node->setup;
#	$node->test_functions('postgres');		# lsm_test_store_...
#	$node->set_workers(1);
#	my $error = $node->error_of('postgres', $sql);	# "SQLSTATE: message ..." of a statement
#
#	my $server = LsmStoreNode::start_s3($dir, [options]);	# or undef, without one
#	$server->{endpoint}, {key}, {secret}, {dir}				# files lie in {dir}/BUCKET
#	$server->{stop}->();
#	my $minio = LsmStoreNode::start_minio($dir);	# the same, of another kind

package LsmStoreNode;

use strict;
use warnings;

use IO::Socket::INET;
use IPC::Run ();
use Test::More;
use Time::HiRes qw(usleep);
use LsmNode;

our @ISA = ('LsmNode');

# S3 servers that run, ended with the test whatever happens.
my @runs;

# Credentials that they know.
my ($test_key, $test_secret) = ('TESTKEY', 'TESTSECRET');

END
{
	my $status = $?;

	$_->kill_kill foreach @runs;
	$? = $status;
}

sub test_functions
{
	my ($self, $dbname) = @_;

	$self->safe_psql(
		$dbname, q{
CREATE FUNCTION lsm_test_store_put(name, text, bigint) RETURNS text
	AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_head(name, text) RETURNS text
	AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_verify(name, text) RETURNS text
	AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_reads(name, text, bigint[], int) RETURNS int
	AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_begin(name, text, bigint, int) RETURNS int
	AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_pause(name, text, float8) RETURNS bool
	AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_put_failing(name, text, text) RETURNS void
	AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_list(name, text, OUT key text, OUT bytes bigint,
	OUT modified bigint) RETURNS SETOF record AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_store_delete(name, text[]) RETURNS void
	AS '$libdir/lsm' LANGUAGE C STRICT;
});
	return;
}

# Have so many workers from now on; 0: those that run have ended.
sub set_workers
{
	my ($self, $n) = @_;

	$self->adjust_conf('postgresql.conf', 'lsm.compaction_workers', $n);
	$self->reload;
	$self->wait_until('postgres', "SELECT current_setting('lsm.compaction_workers') = '$n'");
	$self->wait_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'lsm worker%'})
	  if $n == 0;
	return;
}

# What a statement that must fail says, in one line; "" if it does not fail.  The rest is
# for psql().
sub error_of
{
	my ($self, $dbname, $sql, %params) = @_;
	my ($code, $stdout, $stderr) = $self->psql($dbname, "\\set VERBOSITY verbose\n$sql", %params);

	return '' if $code == 0;
	$stderr =~ s/^psql:<stdin>:\d+: //mg;
	$stderr =~ s/^(?:LOCATION|CONTEXT):.*\n?//mg;
	$stderr =~ s/\s*\n\s*/ /g;
	$stderr =~ s/^ERROR:\s+//;
	return $stderr;
}

sub free_port
{
	my $socket = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		LocalPort => 0,
		Listen => 1) or die "no free port: $!";

	return $socket->sockport;
}

# Start a program that serves the directory, and wait until it answers.
sub start_server
{
	my ($dir, $port, $endpoint, @command) = @_;
	my $log = "$dir.log";

	mkdir $dir or die "could not make $dir: $!";
	my $run = IPC::Run::start([@command], '<', \undef, '>', $log, '2>&1');
	my $server = {
		endpoint => $endpoint,
		key => $test_key,
		secret => $test_secret,
		dir => $dir,
		port => $port,
		stop => sub { $run->signal('TERM'); $run->finish; }
	};

	push @runs, $run;
	for my $try (1 .. 600)
	{
		return $server
		  if IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
		usleep(100_000);
	}
	die "the S3 server did not start, see $log";
}

# The program that LSM_MINIO_SERVER names is MinIO, where a directory made in {dir} is a
# bucket.  Undef: there is none.
sub start_minio
{
	my ($dir) = @_;
	my $port = free_port();

	return unless $ENV{LSM_MINIO_SERVER};
	local $ENV{MINIO_ROOT_USER} = $test_key;
	local $ENV{MINIO_ROOT_PASSWORD} = $test_secret;
	local $ENV{MINIO_BROWSER} = 'off';
	local $ENV{MINIO_UPDATE} = 'off';
	return start_server($dir, $port, "http://127.0.0.1:$port", $ENV{LSM_MINIO_SERVER},
		'server', '--address', "127.0.0.1:$port", $dir);
}

# The program that LSM_S3_SERVER names is versitygw.
sub start_s3
{
	my ($dir, @options) = @_;
	my $program = $ENV{LSM_S3_SERVER};

	if (!$program)
	{
		die 'LSM_S3_SERVER is not set, and must be' if $ENV{LSM_S3_REQUIRED};
		return;
	}
	my $port = free_port();
	my $endpoint =
	  (grep { $_ eq '--cert' } @options) ? "https://localhost:$port" : "http://127.0.0.1:$port";

	return start_server(
		$dir, $port, $endpoint,
		$program, '-a', $test_key, '-s', $test_secret, '-p', "127.0.0.1:$port", '-q',
		'--keep-alive', '--health', '/healthz', @options, 'posix', $dir);
}

1;
