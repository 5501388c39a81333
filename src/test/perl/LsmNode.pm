# LsmNode.pm
#
# A server of its own with lsm loaded, for TAP tests.
#
# An LsmNode is a PostgreSQL::Test::Cluster (the server ships that module with
# its development files), so all of its methods work: psql, safe_psql,
# background_psql, poll_query_until, append_conf, adjust_conf, reload, stop,
# restart, pgbench, backup, init_from_backup, wait_for_catchup, log_contains,
# wait_for_log, data_dir, logfile ...  This file adds what lsm's tests share.
#
# USE
#	use strict;
#	use warnings;
#	use FindBin;
#	use lib "$FindBin::RealBin/../perl";
#	use LsmNode;					# exports ok, is, like, ... of Test::More
#
#	my $node = LsmNode->new('main');
#	$node->setup;						# init + start + CREATE EXTENSION lsm
#	$node->safe_psql('postgres', 'CREATE TABLE t (a int) USING lsm');
#	$node->crash_and_start;				# kill the server, recover
#	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '0', 'rows');
#	$node->check_ok('postgres', 'after the crash');	# lsm_check finds nothing
#	$node->stop;
#	done_testing();
#
# METHODS
#	LsmNode->new(name [, params of PostgreSQL::Test::Cluster->new])
#	$node->init(%params)
#		As in the parent.  wal_level is "replica" or, with
#		allows_streaming => 'logical', "logical"; for "minimal" say
#		append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0").
#		Loads lsm and sets wal_consistency_checking = 'lsm' and
#		lsm.compaction_workers = 0.
#	$node->setup(%params)
#		init(%params), with the lines of the parameter conf => "..." added to
#		postgresql.conf, then start, then CREATE EXTENSION lsm in "postgres".
#	$node->crash
#		Stops the server without a checkpoint (pg_ctl stop -m immediate).
#	$node->crash_and_start
#		crash, then start: recovery runs and has ended when this returns.
#	$node->psql_until_crash(dbname, sql)
#		Runs sql, which may crash the server; with restart_after_crash that
#		restarts by itself, and this waits until it has.  Returns what psql
#		printed as errors.
#	$node->session(dbname [, params of background_psql])
#		A background psql that goes on after an SQL error.  Call ->query(sql),
#		->query_safe(sql), ->query_until(regex, sql), ->quit.
#	$node->start_query($session, sql)
#		Sends sql to a session and returns at once.  The session's pid is
#		wanted first where the test waits for it to block: session_pid.
#	$node->finish_query($session)
#		Waits for the end of what start_query sent; returns (stdout, stderr).
#	$node->session_pid($session)
#		Process id of the session's backend.
#	$node->start_psql(name, argument ...)
#		Starts a psql beside others, with these arguments ('-c', sql ...).
#	$node->finish_psqls(crashed)
#		Waits for all of them; returns what they printed, each line after its name.  If the
#		server has crashed meanwhile, what they say about that is left out.
#	$node->wait_blocked(pid)
#		Waits until that backend waits for a heavyweight lock.  Dies after the
#		usual timeout.
#	$node->wait_until(dbname, sql)
#		Waits until sql, a boolean expression, is true; dies otherwise.
#	$node->check_ok(dbname, label [, table ...])
#		One test: lsm_check() finds no problem in the tables given, by default
#		in every lsm table (and TOAST table) of the database.
#	$node->same_ok(dbname, query_a, query_b, label)
#		One test: two queries give the same rows; both must be ordered.
#	LsmNode::tests_seed()
#		Seed for random tests: LSM_TEST_SEED of the environment or a new
#		one; prints it as a note.  Call srand() or pass it on.
#
# The file finds the server through PG_CONFIG of the environment or pg_config
# on PATH, so one test runs alone as `prove src/test/t/NAME.pl`.

package LsmNode;

use strict;
use warnings;

use File::Basename ();
use IPC::Run ();
use Test::More;
use Time::HiRes qw(usleep);

BEGIN
{
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
	my $bindir = `$pg_config --bindir`;
	my $libdir = `$pg_config --libdir`;
	my $pgxs = `$pg_config --pgxs`;

	die "could not run \"$pg_config\"\n" if $? != 0;
	chomp($bindir, $libdir, $pgxs);
	my $pgsrc = File::Basename::dirname(File::Basename::dirname($pgxs));

	$ENV{PATH} = "$bindir:$ENV{PATH}";

	# Clients find the libpq of their own version, whatever else is installed.
	$ENV{LD_LIBRARY_PATH} = join ':', $libdir, $ENV{LD_LIBRARY_PATH} || ();
	$ENV{PG_REGRESS} ||= "$pgsrc/test/regress/pg_regress";
	unshift @INC, "$pgsrc/test/perl";
}

# Functions imported here would hide methods of that name.
use PostgreSQL::Test::Utils ();
use PostgreSQL::Test::Cluster ();

our @ISA = ('PostgreSQL::Test::Cluster');

my $initialized = 0;

# A test needs Test::More as well as this module.
sub import
{
	my $caller = caller;

	strict->import;
	warnings->import;
	eval "package $caller; use Test::More; 1" or die $@;
	return;
}

sub init
{
	my ($self, %params) = @_;

	$params{allows_streaming} = 1 unless $params{allows_streaming};

	# Copies of INITDB_TEMPLATE have its system identifier; no two servers of a test may have
	# the same, but those that one has made of the other.
	$params{force_initdb} = 1 if $initialized++;
	$self->SUPER::init(%params);

	# Few buffers, so that pages are evicted and read again during a test.  No
	# workers, so that nothing is flushed or compacted but when a test says so.
	$self->append_conf(
		'postgresql.conf', q{
shared_preload_libraries = 'lsm'
wal_consistency_checking = 'lsm'
lsm.compaction_workers = 0
max_connections = 40
shared_buffers = 8MB
max_wal_size = 1GB
});
	return;
}

sub setup
{
	my ($self, %params) = @_;
	my $conf = delete $params{conf};

	$self->init(%params);
	$self->append_conf('postgresql.conf', $conf) if defined $conf;
	$self->start;
	$self->safe_psql('postgres', 'CREATE EXTENSION lsm');
	return;
}

sub crash
{
	my ($self) = @_;

	$self->stop('immediate');
	return;
}

sub crash_and_start
{
	my ($self) = @_;

	$self->crash;
	$self->start;
	return;
}

# (poll_query_until writes to psql's standard input, which breaks when psql
# cannot connect.)
sub psql_until_crash
{
	my ($self, $dbname, $sql) = @_;
	my $pid_of = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
	my @psql = ('psql', '-X', '-A', '-t', '-q', '-d', $self->connstr($dbname), '-c', $pid_of);
	my $checkpointer = $self->safe_psql($dbname, $pid_of);
	my ($code, $stdout, $stderr) = $self->psql($dbname, $sql, on_error_stop => 0);

	return $stderr if $stderr !~ /server closed the connection|connection to server was lost/;
	for my $try (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my ($out, $err) = ('', '');

		return $stderr
		  if IPC::Run::run(\@psql, '<', \undef, '>', \$out, '2>', \$err)
		  && $out =~ /^\d+$/ && $out != $checkpointer;
		usleep(100_000);
	}
	die 'the server did not restart';
}

sub session
{
	my ($self, $dbname, %params) = @_;

	$params{on_error_stop} = 0 unless defined $params{on_error_stop};
	return $self->background_psql($dbname, %params);
}

sub session_pid
{
	my ($self, $session) = @_;
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	die "no backend pid from session: \"$pid\"" unless $pid =~ /^(\d+)$/;
	return $1;
}

# A process, and those that it starts from now on, may have so many MB more than it has now. The
# kernel keeps to that. Linux only.
sub bound_memory
{
	my ($self, $pid, $megabytes) = @_;
	my ($data) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^VmData:\s+(\d+) kB/m;

	PostgreSQL::Test::Utils::system_or_bail('prlimit', "--pid=$pid", '--data=' . ($data + $megabytes * 1024) * 1024);
	return;
}

# query_until's pattern matches the marker that psql prints before it sends
# the statement, so this returns while the statement runs.
sub start_query
{
	my ($self, $session, $sql) = @_;

	$session->query_until(qr/lsm_query_sent/,
		"\\echo lsm_query_sent\n$sql;\n");
	return;
}

# psql prints this marker once the statement before it has ended; it is there when its
# whole line is.  (The banners
# of ->query cannot be used for this: its output would hold both answers.)
sub finish_query
{
	my ($self, $session) = @_;
	my ($stdout, $stderr);

	$session->{stdin} .= "\\echo lsm_query_done\n\\warn lsm_query_done\n";
	$session->{timeout}->start if defined $session->{query_timer_restart};
	$session->{run}->pump
	  until ($session->{stdout} =~ /^lsm_query_done\n/m
		  && $session->{stderr} =~ /^lsm_query_done\n/m)
	  || $session->{timeout}->is_expired;
	die 'query in the background timed out'
	  if $session->{timeout}->is_expired;

	($stdout, $stderr) = ($session->{stdout}, $session->{stderr});
	$session->{stdout} = $session->{stderr} = '';
	s/\n?^lsm_query_(?:sent|done)\n//mg foreach ($stdout, $stderr);
	return ($stdout, $stderr);
}

sub start_psql
{
	my ($self, $name, @arguments) = @_;
	my ($out, $err) = ('', '');
	my @psql = ('psql', '-X', '-A', '-t', '-q', '-d', $self->connstr('postgres'), @arguments);
	my $psql = { name => $name, out => \$out, err => \$err };

	$psql->{run} = IPC::Run::start(\@psql, '<', \undef, '>', \$out, '2>', \$err);
	push @{ $self->{lsm_psqls} }, $psql;
	return;
}

sub finish_psqls
{
	my ($self, $crashed) = @_;
	my $said = '';

	foreach my $psql (@{ $self->{lsm_psqls} })
	{
		$psql->{run}->finish;
		foreach my $line (split /\n/, ${ $psql->{out} } . ${ $psql->{err} })
		{
			next if $crashed && $line =~ /closed the connection|connection to (?:the )?server|terminat|before or while/;
			$said .= "$psql->{name}: $line\n";
		}
	}
	$self->{lsm_psqls} = [];
	return $said;
}

sub wait_blocked
{
	my ($self, $pid) = @_;

	return $self->wait_until('postgres',
		"SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted");
}

sub wait_until
{
	my ($self, $dbname, $sql) = @_;

	$self->poll_query_until($dbname, $sql)
	  or die "timed out waiting for: $sql";
	return;
}

sub check_ok
{
	my ($self, $dbname, $label, @tables) = @_;
	my $problems = '';

	local $Test::Builder::Level = $Test::Builder::Level + 1;

	if (!@tables)
	{
		@tables = split /\n/, $self->safe_psql(
			$dbname, q{
			SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam
			WHERE a.amname = 'lsm' AND c.relkind IN ('r', 'm', 't') ORDER BY 1});
	}
	foreach my $table (@tables)
	{
		(my $quoted = $table) =~ s/'/''/g;
		my $rows = $self->safe_psql($dbname,
			"SELECT * FROM lsm_check('$quoted')");

		$problems .= "$table: $rows\n" if $rows ne '';
	}
	return is($problems, '', "lsm_check finds nothing: $label");
}

sub same_ok
{
	my ($self, $dbname, $query_a, $query_b, $label) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($self->safe_psql($dbname, $query_a),
		$self->safe_psql($dbname, $query_b), $label);
}

sub tests_seed
{
	my $seed = $ENV{LSM_TEST_SEED};

	$seed = 1 + int(rand(2**31 - 1)) unless defined $seed;
	note "seed $seed (repeat with LSM_TEST_SEED=$seed)";
	return $seed;
}

1;
