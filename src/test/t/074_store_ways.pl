# How requests come to a store of type s3, and as whom: proxies, regions, addresses,
# credentials.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256 hmac_sha256_hex sha256_hex);
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmFaultStore;
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
my $store = LsmFaultStore->start($node->basedir . '/store');
my $proxy = LsmFaultStore->start($node->basedir . '/proxy');
my $here = $store->endpoint;
(my $by_name = $here) =~ s/127\.0\.0\.1/localhost/;
my $nobody = 'https://127.0.0.1:' . LsmStoreNode::free_port();

my %secrets = (KEYID => 'mapped/secret+1', ENVKEY => 'env/secret+1');
my %proxies = map { ($_ => $proxy->endpoint) }
  qw(http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY);
my %env_keys = (AWS_ACCESS_KEY_ID => 'ENVKEY', AWS_SECRET_ACCESS_KEY => $secrets{ENVKEY});

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub error_of
{
	return $node->error_of('postgres', $_[0]);
}

# Start the server with that in its environment.
sub start_with
{
	local %ENV = (%ENV, @_);

	return $node->start;
}

sub restart_with
{
	$node->stop;
	return start_with(@_);
}

# A store of that name, with a mapping for all unless it needs none.
sub make_server
{
	my ($name, $endpoint, $options, $mapping) = @_;

	psql("CREATE SERVER $name FOREIGN DATA WRAPPER lsm_store
		OPTIONS (type 's3', endpoint '$endpoint', bucket 'bkt' $options)");
	psql("CREATE USER MAPPING FOR PUBLIC SERVER $name
		OPTIONS (access_key_id 'KEYID', secret_access_key '$secrets{KEYID}' $mapping)")
	  if defined $mapping;
	return;
}

# Statements with every kind of request.
sub use_all
{
	my ($name) = @_;

	return join '; ', map { sprintf $_, $name }
	  "SELECT lsm_test_store_put('%s', 'a/b', 1000)",
	  "SELECT lsm_test_store_put('%s', 'large', 9000000)",
	  "SELECT lsm_test_store_reads('%s', 'a/b', '{0,500}', 100)",
	  "SELECT key FROM lsm_test_store_list('%s', '')",
	  "SELECT lsm_test_store_delete('%s', '{a/b,large}')";
}

# Heads of the requests of all kinds, which have been answered.
sub heads_of_all
{
	my ($asked, $name) = @_;

	$asked->heads;
	psql(use_all($name));
	my @heads = $asked->heads;

	return @heads;
}

# Different values of something in requests.
sub values_of
{
	my ($what, @heads) = @_;
	my %seen = map { ((ref $what ? $what->($_) : $_->{$what} // 'none') => 1) } @heads;

	return join ' ', sort keys %seen;
}

# Who signed a request, and of which scope it is; empty if what it has is not what is signed.
sub signed_by
{
	my ($head) = @_;
	my ($key, $day, $region, $names, $signature) =
	  $head->{authorization} =~
	  m{^AWS4-HMAC-SHA256 Credential=(\w+)/(\d+)/([\w-]+)/s3/aws4_request,SignedHeaders=([\w;-]+),Signature=(\w+)$}
	  or return '';
	my ($path, $query) = split /\?/, $head->{target} =~ s{^http://[^/]+}{}r, 2;
	my $request = join "\n", $head->{method}, $path, join('&', sort split /&/, $query // ''),
	  map({"$_:$head->{$_}"} split /;/, $names), '', $names, $head->{sha256};
	my $text = join "\n", 'AWS4-HMAC-SHA256', $head->{'x-amz-date'}, "$day/$region/s3/aws4_request",
	  sha256_hex($request);
	my $secret = hmac_sha256($day, "AWS4$secrets{$key}");

	$secret = hmac_sha256($_, $secret) foreach $region, 's3', 'aws4_request';
	return '' if hmac_sha256_hex($text, $secret) ne $signature || $head->{'x-amz-date'} !~ /^${day}T/;
	return '' if $head->{'x-amz-content-sha256'} ne $head->{sha256};

	# all that tells the store what to do
	foreach my $name ('host', 'x-amz-date', 'x-amz-content-sha256', 'x-amz-security-token', 'if-none-match', 'range')
	{
		return '' if defined $head->{$name} && ";$names;" !~ /;$name;/;
	}
	return "$key/$region";
}

$node->init;
$node->append_conf('postgresql.conf',
	"lsm.store_allowed_endpoints = '$here, $by_name, $nobody, http://s3.example.com, https://s3.example.com'\n");
start_with(%proxies, %env_keys, AWS_SESSION_TOKEN => 'env/token+1==');
psql('CREATE EXTENSION lsm');
$node->test_functions('postgres');

# ---- regions and addresses ----

make_server('direct', $here, '', '');
my @heads = heads_of_all($store, 'direct');
is(values_of('method', @heads), 'DELETE GET POST PUT', 'requests of all kinds');
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'are signed, for the first of all regions');
is(values_of('host', @heads), $here =~ s{.*//}{}r, 'the host is the endpoint');
is(scalar(grep { $_->{target} !~ m{^/bkt[/?]} } @heads), 0, 'and the bucket begins paths');
is(values_of('x-amz-security-token', @heads), 'none', 'there are no tokens');
is(scalar($proxy->requests('')), 0, 'the proxies of the environment are not asked');
make_server('tls', $nobody, ", request_timeout '100ms'", '');
like(error_of("SELECT lsm_test_store_head('tls', 'a')"), qr/^08006: .*It was tried \d+ times/, 'an encrypted store that is away');
is(scalar($proxy->requests('')), 0, 'they are not asked for it, either');

make_server('far', $here, ", region 'Far-away_9', prefix 'pre/fix'", '');
is(values_of(\&signed_by, heads_of_all($store, 'far')), 'KEYID/Far-away_9', 'a region that is named');
my $session = $node->session('postgres');
$session->query_safe("SELECT lsm_test_store_head('far', 'a')");
psql("ALTER SERVER far OPTIONS (SET region 'eu-west-1')");
$store->heads;
$session->query_safe("SELECT lsm_test_store_head('far', 'a')");
is(values_of(\&signed_by, $store->heads), 'KEYID/eu-west-1', 'another one, which a session sees');
psql("ALTER SERVER far OPTIONS (DROP region)");
$session->query_safe("SELECT lsm_test_store_head('far', 'a')");
@heads = $store->heads;
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'and none');
like(values_of('target', @heads), qr{^/bkt/pre/fix/a$}, 'the path has bucket, prefix and key');
$session->quit;

make_server('virtual', $by_name, ", addressing 'virtual', region 'eu-west-1', prefix 'pre'", '');
@heads = heads_of_all($store, 'virtual');
is(values_of(\&signed_by, @heads), 'KEYID/eu-west-1', 'requests to a bucket in the host are signed');
is(values_of('host', @heads), $by_name =~ s{.*//}{bkt.}r, 'and name it there');
is( values_of(sub { $_[0]->{target} =~ s{^/|\?.*}{}gr }, @heads),
	' pre/a/b pre/large',
	'and nowhere else');

# ---- session tokens, credentials of the environment ----

make_server('token', $here, '', ", session_token 'mapped/token+1=='");
@heads = heads_of_all($store, 'token');
is(values_of('x-amz-security-token', @heads), 'mapped/token+1==', 'all requests have the token of the mapping');
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'which is signed');
psql('ALTER USER MAPPING FOR PUBLIC SERVER token OPTIONS (DROP session_token)');
is(values_of('x-amz-security-token', heads_of_all($store, 'token')), 'none', 'or none, when it has gone');

make_server('env', $here, ", credentials 'environment'", undef);
@heads = heads_of_all($store, 'env');
is(values_of('x-amz-security-token', @heads), 'env/token+1==', 'the token of the environment');
is(values_of(\&signed_by, @heads), 'ENVKEY/us-east-1', 'with its key and secret');
psql('CREATE ROLE reader; GRANT USAGE ON FOREIGN SERVER env TO reader');
$store->heads;
psql("SET ROLE reader; SELECT lsm_test_store_head('env', 'a')");
is(values_of(\&signed_by, $store->heads), 'ENVKEY/us-east-1', 'who may use the store needs no mapping');
make_server('mapped_too', $here, ", credentials 'environment'", ", session_token 'mapped/token+1=='");
@heads = heads_of_all($store, 'mapped_too');
is( values_of(\&signed_by, @heads) . ' ' . values_of('x-amz-security-token', @heads),
	'ENVKEY/us-east-1 env/token+1==',
	'and none is looked at');

# ---- proxies ----

make_server('via', 'http://s3.example.com', ", proxy '" . $proxy->endpoint . "', prefix 'p'", '');
$store->heads;
@heads = heads_of_all($proxy, 'via');
is(values_of('method', @heads), 'DELETE GET POST PUT', 'requests of all kinds go to the proxy');
is(scalar(grep { $_->{target} !~ m{^http://s3\.example\.com/bkt[/?]} } @heads), 0, 'and tell it where to go');
is(values_of('host', @heads), 's3.example.com', 'for the host of the endpoint, without the usual port');
is(values_of(\&signed_by, @heads), 'KEYID/us-east-1', 'for which they are signed');
is(scalar($store->heads), 0, 'and nowhere else');

# A session with several ways to one store keeps connections for each.
make_server('around', $here, ", proxy '" . $proxy->endpoint . q{'}, '');
$_->requests('') foreach $store, $proxy;
psql(join '; ', map {"SELECT lsm_test_store_head('$_', 'x')"} ('direct', 'around') x 3);
is(join('|', map { scalar($_->requests('GET')) } $store, $proxy), '3|3', 'two ways in a session');
psql('ALTER SERVER around OPTIONS (DROP proxy)');
psql("SELECT lsm_test_store_head('around', 'x')");
is(join('|', map { scalar($_->requests('GET')) } $store, $proxy), '1|0', 'a proxy that has been dropped');

# What a proxy does not change.
make_server('hidden', 'http://other.example.com', ", proxy '" . $proxy->endpoint . q{'}, '');
like(error_of("SELECT lsm_test_store_head('hidden', 'x')"),
	qr/^42501: endpoint "http:..other\.example\.com" of store "hidden" is not allowed/,
	'an endpoint must be allowed also behind a proxy');
make_server('link', 'http://s3.example.com', ", proxy 'http://169.254.169.254', request_timeout '100ms'", '');
like(error_of("SELECT lsm_test_store_head('link', 'x')"),
	qr/^42501: .*address 169\.254\.169\.254, which is not allowed/,
	'and so must the address of a proxy');
is(scalar($proxy->requests('')), 0, 'nothing is asked');

# The store's own headers are for the store; of what it cannot see, a proxy gets none.
make_server('tunnel', 'https://s3.example.com',
	", proxy '" . $proxy->endpoint . "', request_timeout '100ms'", ", session_token 'mapped/token+1=='");
$proxy->heads;
like(error_of("SELECT lsm_test_store_head('tunnel', 'x')"), qr/^08006: .*403/, 'a tunnel that the proxy refuses');
@heads = $proxy->heads;
is(values_of('method', @heads) . ' ' . values_of('target', @heads),
	'CONNECT s3.example.com:443', 'it was asked for one');
is(scalar(grep { /^(?:authorization|x-amz-.*|range)$/ } map { keys %$_ } @heads), 0, 'without credentials');

make_server('down', $here, ", proxy 'http://127.0.0.1:" . LsmStoreNode::free_port() . "', request_timeout '100ms'", '');
$store->requests('');
like(error_of("SELECT lsm_test_store_head('down', 'x')"), qr/^08006: .*It was tried \d+ times/, 'a proxy that is away');
is(scalar($store->requests('')), 0, 'is not passed by');

# ---- other environments ----

restart_with(no_proxy => '*', NO_PROXY => '*', %env_keys, AWS_SESSION_TOKEN => '');
$proxy->requests('');
psql("SELECT lsm_test_store_head('via', 'x')");
is(scalar($proxy->requests('GET')), 1, 'a proxy is asked whatever the environment says of proxies');
is(values_of('x-amz-security-token', heads_of_all($store, 'env')), 'none', 'an empty token is none');
restart_with(%env_keys, AWS_ACCESS_KEY_ID => '');
like(error_of("SELECT lsm_test_store_head('env', 'x')"),
	qr/^28000: there are no credentials for store "env" HINT:  Start the server with AWS_ACCESS_KEY_ID/,
	'an environment without credentials');
is(error_of("SELECT lsm_test_store_head('direct', 'x')"), '', 'of which a mapping needs none');
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
$log =~ s/^.*(?:USER MAPPING|OPTIONS).*\n//mg;
unlike($log, qr{(?:mapped|env)/(?:secret|token)|Signature=}, 'no secret is in the log');

$node->stop;
done_testing();
