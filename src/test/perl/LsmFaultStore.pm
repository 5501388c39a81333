# LsmFaultStore.pm
#
# A small S3 server that fails on demand.  It checks no signatures.
#
# USE
#	my $store = LsmFaultStore->start($dir);		# $dir is made
#	$store->endpoint;
#	$store->fault('GET .bkt/a', 'status:503:SlowDown', 2);	# the next two of those
#	$store->fault('', undef);					# no faults any more
#	$store->requests('GET');					# lines "METHOD PATH?QUERY", since the last call, with
#												# " BUCKET in HOST" if it is not in the path
#	$store->wait_for('PUT .bkt/a');				# until one of those has come, since then; false: none does
#	$store->heads;								# the same as they came, each a hash: method, target,
#												# and headers by name; sha256 is that of the body
#	$store->stop;
#	$store->run;								# again, at the same port, with the same objects
#
# It is a proxy, too, of a store at http://s3.example.com or anywhere, which is itself.
# Tunnels it refuses.
#
# Keys with "continue" in them are answered 100 Continue, if that is waited for.
#
# A fault is for requests "METHOD PATH?QUERY" that match a pattern.  Kinds:
#
#	status:CODE[:NAME[:N]]	answers with that error, after N seconds
#	lost				does it, and closes the connection instead of answering
#	reset				closes the connection with a reset
#	hang[:SECONDS]		never answers, and closes the connection after that
#	slow:SECONDS		answers after that
#	cut					sends half of the body
#	stall				sends half of the body, and then nothing
#	damage				changes a byte of the body
#	damage-large		the same, if it has more than 1000 bytes
#	whole				ignores the range
#	shift				answers with another range of that size
#	flood				sends a body without an end
#	drop				says that an object was put, and forgets it
#	body:TEXT			answers 200 with that body, where NEXT stands for a word that
#						is another one each time
#	gate:N				answers only when so many of those have come, or refuses after a minute;
#						$store->most_at_a_time tells how many were under way at once
#
# Each connection has a process of its own.  Objects, faults and the lists of requests
# are files of the directory.

package LsmFaultStore;

use strict;
use warnings;

use Digest::SHA 'sha256_hex';
use Fcntl ':flock';
use IO::Socket::INET;
use POSIX ();
use Socket qw(SOL_SOCKET SO_LINGER TCP_NODELAY IPPROTO_TCP);

sub write_file
{
	my ($path, $data) = @_;

	open(my $out, '>', "$path.tmp.$$") or die "could not write $path: $!";
	binmode $out;
	print $out $data;
	close $out;
	rename "$path.tmp.$$", $path or die $!;
	return;
}

# All of a file, or so many bytes of it.
sub read_file
{
	my ($path, $from, $bytes) = @_;
	local $/;

	open(my $in, '<', $path) or return;
	binmode $in;
	return scalar <$in> unless defined $from;
	my $data = '';

	seek $in, $from, 0;
	read $in, $data, $bytes;
	return $data;
}

# Keys become names of files without slashes.
sub object_path
{
	my ($self, $key) = @_;

	$key =~ s{/}{,}g;
	return "$self->{dir}/objects/$key";
}

sub start
{
	my ($class, $dir) = @_;
	my $self = bless { dir => $dir, port => 0 }, $class;

	mkdir $_ or die "could not make $_: $!" foreach $dir, "$dir/objects", "$dir/parts";
	return $self->run;
}

sub run
{
	my ($self) = @_;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		LocalPort => $self->{port},
		ReuseAddr => 1,
		Listen => 50) or die "could not listen: $!";

	$self->{port} = $listener->sockport;
	$self->{pid} = fork();
	die "could not fork: $!" unless defined $self->{pid};
	if ($self->{pid} == 0)
	{
		# Processes of connections end with the parent's group.
		setpgrp;
		$SIG{CHLD} = 'IGNORE';
		$SIG{TERM} = 'DEFAULT';
		while (1)
		{
			my $client = $listener->accept or next;

			if (fork() == 0)
			{
				close $listener;
				eval { $self->serve($client) };
				warn $@ if $@;
				POSIX::_exit(0);
			}
			close $client;
		}
	}
	close $listener;
	return $self;
}

sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	kill 'KILL', -$self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return;
}

# An error in a test must not leave it behind.  (Children of it end by _exit.)
sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);

	$self->stop;
	return;
}

sub endpoint
{
	my ($self) = @_;

	return "http://127.0.0.1:$self->{port}";
}

sub locked
{
	my ($self, $what) = @_;

	open(my $lock, '>', "$self->{dir}/lock") or die $!;
	flock $lock, LOCK_EX;
	my @result = $what->();
	close $lock;
	return @result;
}

sub fault
{
	my ($self, $pattern, $kind, $count) = @_;

	$self->locked(
		sub {
			unlink "$self->{dir}/gate";
			write_file("$self->{dir}/fault", defined $kind ? "$pattern\n$kind\n$count" : '');
		});
	return;
}

# What a list has, which is then empty.
sub take_list
{
	my ($self, $name) = @_;
	my ($list) = $self->locked(
		sub {
			my $all = read_file("$self->{dir}/$name") // '';

			unlink "$self->{dir}/$name";
			return $all;
		});

	return split /\n/, $list;
}

sub requests
{
	my ($self, $method) = @_;

	return grep { /^\Q$method\E/ } $self->take_list('requests');
}

sub wait_for
{
	my ($self, $pattern) = @_;

	for my $try (1 .. 1800)
	{
		my ($all) = $self->locked(sub { return read_file("$self->{dir}/requests") // ''; });

		return 1 if grep { /$pattern/ } split /\n/, $all;
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

sub heads
{
	my ($self) = @_;

	return map { +{ split /\t/, $_, -1 } } $self->take_list('heads');
}

sub note_head
{
	my ($self, %head) = @_;

	$self->locked(
		sub {
			open(my $log, '>>', "$self->{dir}/heads") or die $!;
			print $log join("\t", %head), "\n";
			close $log;
		});
	return;
}

# Change and return the counts of requests with a gate: come, under way, most of these.
sub count_gate
{
	my ($self, $come, $under_way) = @_;

	return $self->locked(
		sub {
			my @counts = split / /, read_file("$self->{dir}/gate") // '0 0 0';

			$counts[0] += $come;
			$counts[1] += $under_way;
			$counts[2] = $counts[1] if $counts[1] > $counts[2];
			write_file("$self->{dir}/gate", "@counts");
			return @counts;
		});
}

sub most_at_a_time
{
	my ($self) = @_;

	return ($self->count_gate(0, 0))[2];
}

# Wait for the others; false: they do not come.
sub pass_gate
{
	my ($self, $n) = @_;
	my ($come) = $self->count_gate(1, 1);

	for (my $try = 0; $come < $n; $try++)
	{
		return 0 if $try >= 6000;
		select(undef, undef, undef, 0.01);
		($come) = $self->count_gate(0, 0);
	}
	return 1;
}

# Note a request, and tell which fault it is to have.
sub note_request
{
	my ($self, $line) = @_;
	my ($kind) = $self->locked(
		sub {
			open(my $log, '>>', "$self->{dir}/requests") or die $!;
			print $log "$line\n";
			close $log;
			my ($pattern, $kind, $count) = split /\n/, read_file("$self->{dir}/fault") // '';

			return '' unless $count && $line =~ /$pattern/;
			write_file("$self->{dir}/fault", "$pattern\n$kind\n" . ($count - 1));
			return $kind;
		});

	return $kind;
}

sub serve
{
	my ($self, $client) = @_;

	binmode $client;
	$client->autoflush(1);
	setsockopt $client, IPPROTO_TCP, TCP_NODELAY, 1;
	while (defined(my $line = <$client>))
	{
		my ($method, $target) = $line =~ m{^(\w+) (\S+) HTTP/1\.1\r\n$} or return;
		my %header;

		while (defined(my $h = <$client>))
		{
			last if $h eq "\r\n";
			$header{ lc $1 } = $2 if $h =~ /^([^:]+):\s*(.*?)\r\n$/;
		}
		my $body = '';
		my %head = (%header, method => $method, target => $target);

		# the bucket may be in the host's name
		$target =~ s{^http://[^/]+}{};
		if (($header{host} // '') =~ /^([^.:]+)\.(?:localhost|s3\.example\.com)(?::\d+)?$/)
		{
			$target = "/$1$target";
			$header{bucket} = " $1 in $header{host}";
		}
		print $client "HTTP/1.1 100 Continue\r\n\r\n"
		  if ($header{expect} // '') eq '100-continue' && $target =~ /continue/;
		if (my $left = $header{'content-length'})
		{
			read($client, $body, $left) == $left or return;
		}
		$self->note_head(%head, sha256 => sha256_hex($body));
		$self->answer($client, $method, $target, \%header, $body) or return;
	}
	return;
}

sub send_answer
{
	my ($client, $status, $headers, $body) = @_;

	print $client "HTTP/1.1 $status X\r\nx-amz-request-id: FAULTY\r\n", map({"$_\r\n"} @$headers),
	  'Content-Length: ', length($body), "\r\n\r\n", $body;
	return 1;
}

sub error_body
{
	my ($name) = @_;

	return "<Error><Code>$name</Code><Message>this is $name</Message></Error>";
}

# False: the connection is over.
sub answer
{
	my ($self, $client, $method, $target, $header, $body) = @_;
	my $kind = $self->note_request("$method $target" . ($header->{bucket} // ''));

	if ($method eq 'CONNECT')
	{
		send_answer($client, 403, [], '');
		return 0;
	}
	if ($kind =~ /^hang(?::(.*))?$/)
	{
		select(undef, undef, undef, $1 // 1000);
		return 0;
	}
	select(undef, undef, undef, $1) if $kind =~ /^slow:(.*)/;
	if ($kind =~ /^gate:(\d+)$/)
	{
		my $passed = $self->pass_gate($1);
		my @answer =
		  $passed
		  ? $self->do_request('', $method, $target, $header, $body)
		  : (403, [], error_body('GateIsShut'));

		# not after the answer, for the client's next request
		$self->count_gate(0, -1);
		return send_answer($client, @answer);
	}
	if ($kind eq 'reset')
	{
		setsockopt $client, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
		return 0;
	}
	if ($kind =~ /^body:(.*)/s)
	{
		my $text = $1;

		$text =~ s/NEXT/rand/e;
		return send_answer($client, 200, [], $text);
	}
	if ($kind =~ /^status:(\d+)(?::(\w+))?(?::([\d.]+))?$/)
	{
		select(undef, undef, undef, $3) if defined $3;
		return send_answer($client, $1, ['Location: http://127.0.0.1:9/x'],
			defined $2 ? error_body($2) : '<html>no XML of ours');
	}
	my ($status, $headers, $answer) =
	  $kind eq 'drop'
	  ? (200, ['ETag: "d"'], '')
	  : $self->do_request($kind, $method, $target, $header, $body);

	return 0 if $kind eq 'lost';
	if ($kind eq 'damage' || ($kind eq 'damage-large' && length($answer) > 1000))
	{
		substr($answer, length($answer) / 2, 1) ^= "\x01";
	}
	if ($kind eq 'cut' || $kind eq 'stall')
	{
		print $client "HTTP/1.1 $status X\r\n", map({"$_\r\n"} @$headers),
		  'Content-Length: ', length($answer), "\r\n\r\n",
		  substr($answer, 0, length($answer) / 2);
		sleep 1000 if $kind eq 'stall';
		return 0;
	}
	if ($kind eq 'flood')
	{
		print $client "HTTP/1.1 $status X\r\n", map({"$_\r\n"} @$headers), "\r\n";
		1 while print $client 'x' x 65536;
		return 0;
	}
	return send_answer($client, $status, $headers, $answer);
}

# Nobody but the store knows what an ETag means: some are hex, some long and in base64.
sub part_etag
{
	my ($number) = @_;

	return $number % 2 ? qq{"abc$number"} : sprintf('"%s/+<&>%d=="', 'Ab' x 120, $number);
}

sub do_request
{
	my ($self, $kind, $method, $target, $header, $body) = @_;
	my ($path, $query) = split /\?/, $target, 2;
	my %query = map { split(/=/, $_, 2) } split /&/, $query // '';
	my (undef, $bucket, $key) = split m{/}, $path, 3;

	return $self->do_list(\%query) if $method eq 'GET' && ($key // '') eq '';
	my $file = $self->object_path($key);

	if ($method eq 'POST' && exists $query{uploads})
	{
		return (200, [],
			"<InitiateMultipartUploadResult><UploadId>u+1/$$</UploadId></InitiateMultipartUploadResult>");
	}
	if ($method eq 'PUT' && $query{partNumber})
	{
		write_file("$self->{dir}/parts/$query{partNumber}", $body);
		return (200, ['ETag: ' . part_etag($query{partNumber})], '');
	}
	if ($method eq 'PUT' || $method eq 'POST')
	{
		return (412, [], error_body('PreconditionFailed'))
		  if $header->{'if-none-match'} && -f $file;
		if ($method eq 'POST')
		{
			my @told = $body =~ m{<Part><PartNumber>(\d+)</PartNumber><ETag>([^<>"]+)</ETag></Part>}g;
			my %entities = (quot => '"', amp => '&', lt => '<', gt => '>');
			my $wrong = 0;
			my @parts;

			while (my ($number, $etag) = splice(@told, 0, 2))
			{
				$etag =~ s/&(\w+);/$entities{$1}/g;
				$wrong ||= $etag ne part_etag($number);
				push @parts, "$self->{dir}/parts/$number";
			}
			return (404, [], error_body('NoSuchUpload')) if !@parts || grep { !-f } @parts;
			return (400, [], error_body('InvalidPart')) if $wrong;
			$body = join '', map { read_file($_) } @parts;
			unlink glob "$self->{dir}/parts/*";
		}
		write_file($file, $body);
		return (200, ['ETag: "e"'], $method eq 'POST' ? '<CompleteMultipartUploadResult/>' : '');
	}
	if ($method eq 'DELETE')
	{
		unlink $query{uploadId} ? glob "$self->{dir}/parts/*" : $file;
		return (204, [], '');
	}
	my $size = -s $file;

	return (404, [], error_body('NoSuchKey')) unless defined $size;
	my ($first, $last) = ($header->{range} // '') =~ /^bytes=(\d*)-(\d+)$/;

	return (200, [], read_file($file)) if !defined $last || $kind eq 'whole';
	($first, $last) = ($size - $last, $size - 1) if $first eq '';
	return (416, [], error_body('InvalidRange')) if $first >= $size;
	$last = $size - 1 if $last >= $size;
	($first, $last) = ($first + 1, $last + 1) if $kind eq 'shift';
	return (206, ["Content-Range: bytes $first-$last/$size"],
		read_file($file, $first, $last - $first + 1));
}

sub do_list
{
	my ($self, $query) = @_;
	(my $prefix = $query->{prefix}) =~ s/%([0-9A-F]{2})/chr hex $1/ge;
	my $objects = '';

	foreach my $file (sort glob "$self->{dir}/objects/*")
	{
		my $size = -s $file;
		(my $key = $file) =~ s{.*/}{};

		$key =~ s{,}{/}g;
		$objects .= "<Contents><Key>$key</Key><Size>$size</Size></Contents>"
		  if index($key, $prefix) == 0;
	}
	return (200, [],
		"<ListBucketResult><IsTruncated>false</IsTruncated>$objects</ListBucketResult>");
}

1;
