# The disk cache of what stores gave: restarts, crashes, damage, its size, a disk that
# fails, sessions side by side, standbys and backups.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;
use IPC::Run ();
use PostgreSQL::Test::Utils ();

my $conf = "lsm.block_cache_size = 0\nwal_consistency_checking = ''\n";
my $node = LsmStoreNode->new('main');
$node->setup(conf => "$conf\nlsm.store_cache_size = 16MB\n");

my $dir = $node->basedir . '/cold';
mkdir $dir or die $!;

sub cache_of
{
	return join '/', $_[0]->data_dir, 'base', 'pgsql_tmp_lsm_store_cache';
}
my $cache = cache_of($node);

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# get_requests, cache_hits and cache_misses of a session that begins with nothing in its
# memory.
sub counted
{
	my ($sql, $on) = @_;

	$on ||= $node;
	$on->safe_psql('postgres', 'SELECT lsm_stat_reset()');
	$on->safe_psql('postgres', $sql);
	return split /\|/, $on->safe_psql('postgres',
		'SELECT get_requests, cache_hits, cache_misses FROM lsm_stat_store');
}

sub gets
{
	my ($gets) = counted(@_);

	return $gets;
}

# What the cache has on disk, in kB.
sub used
{
	my ($kb) = `du -s '$_[0]'` =~ /^(\d+)/;

	return $kb;
}

sub log_count
{
	my ($on, $pattern) = @_;
	my @found = PostgreSQL::Test::Utils::slurp_file($on->logfile) =~ /$pattern/g;

	return scalar @found;
}

psql(
	qq{CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir');
CREATE TABLE t (id int PRIMARY KEY, a text, b int) USING lsm WITH (lsm.block_size = '8kB');
INSERT INTO t SELECT i, md5(i::text), i % 7 FROM generate_series(1, 20000) i;
CREATE TABLE large (id int PRIMARY KEY, a bytea) USING lsm WITH (lsm.block_size = '8kB');
INSERT INTO large SELECT i, sha512(i::text::bytea) || sha512((-i)::text::bytea) || sha512((i + 0.5)::text::bytea) || sha512((i + 0.7)::text::bytea)
	FROM generate_series(1, 100000) i;
ALTER TABLE t SET (lsm.cold_store = 'cold');
ALTER TABLE large SET (lsm.cold_store = 'cold');
SELECT lsm_flush('t'), lsm_flush('large');
SELECT lsm_major_compact('t'), lsm_major_compact('large');
});
is(psql("SELECT DISTINCT location FROM (SELECT * FROM lsm_segments('t') UNION ALL SELECT * FROM lsm_segments('large')) s"),
	'cold', 'all is in the store');
ok(psql("SELECT sum(stored_bytes) > 24000000 FROM lsm_segments('large')") eq 't',
	'one table is larger than the cache');

# ---- it is found again, also after a restart ----

my $point = 'SELECT * FROM t WHERE id = 777';
my $sum = 'SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t';
my $right = psql('SELECT 20000, 20000 * 20001 / 2, sum(i % 7), 20000 FROM generate_series(1, 20000) i');

is(join('|', counted($point)), '1|0|1', 'a row is read from its store');
is(join('|', counted($point)), '0|1|0', 'and then from the cache');
is(psql('SELECT cache_bytes BETWEEN 1000 AND 8500 FROM lsm_stat_store'), 't', 'bytes are counted');
$node->restart;
is(join('|', counted($point)), '0|1|0', 'after a restart, too');
cmp_ok(gets($sum), '>', 0, 'a scan brings the rest');
is(gets($sum), 0, 'and another finds it');
$node->crash_and_start;
is(gets($sum), 0, 'after a crash, too');
is(psql($sum), $right, 'it is what was kept');

rename $dir, "$dir.away" or die $!;
is(psql($sum), $right, 'what is in the cache can be read while the store is away');
rename "$dir.away", $dir or die $!;


# A check looks at the objects themselves.
rename $dir, "$dir.away" or die $!;
like(psql("SELECT * FROM lsm_check('t')"), qr/store "cold"/, 'lsm_check does not read the cache');
mkdir $dir or die $!;
like(psql("SELECT * FROM lsm_check('t')"), qr/It does not exist|could not read object/, 'an object that is missing');
is(psql($sum), $right, 'and can be read from the cache');
rmdir $dir or die $!;
rename "$dir.away", $dir or die $!;

# Nor is the cache for who may not use the store.
psql(q{CREATE ROLE r; GRANT pg_read_server_files, pg_write_server_files TO r;
	GRANT USAGE ON FOREIGN SERVER cold TO r; GRANT CREATE ON SCHEMA public TO r; ALTER TABLE t OWNER TO r});
is(psql($sum), $right, 'an owner with USAGE');
psql('REVOKE USAGE ON FOREIGN SERVER cold FROM r');
like($node->error_of('postgres', $sum), qr/^42501: permission denied for foreign server cold/, 'an owner without it');
psql('ALTER TABLE t OWNER TO CURRENT_USER');

# ---- damage ----

sub damage_file
{
	my ($file, $change) = @_;
	my $bytes = PostgreSQL::Test::Utils::slurp_file($file);

	$bytes = $change->($bytes);
	open(my $out, '+<:raw', $file) or die "$file: $!";
	print $out $bytes;
	truncate $out, length $bytes or die $!;
	close $out or die $!;
	return;
}

# One bit of each 512 bytes.
sub flip
{
	my ($bytes) = @_;

	for (my $at = 100; $at < length $bytes; $at += 512)
	{
		substr($bytes, $at, 1) ^= "\x10";
	}
	return $bytes;
}

sub damaged_ok
{
	my ($label) = @_;

	is(psql($sum), $right, "$label: all rows are right");
	is(gets($sum), 0, "$label: and in the cache again");
	return;
}

damage_file("$cache/data", \&flip);
cmp_ok(gets($sum), '>', 0, 'what is damaged is read from the store');
damaged_ok('flipped bits');
is(log_count($node, qr/LOG:  damaged record at byte \d+ of file "base\/pgsql_tmp_lsm_store_cache\/data"/),
	1, 'the log tells, once');
foreach my $left (0, 1000, 100_000)
{
	truncate "$cache/data", $left or die $!;
	cmp_ok(gets($sum), '>', 0, "of $left bytes: what is gone is read from the store");
	damaged_ok("$left bytes");
}

# The same while the server is down, when the index is read as well.
foreach my $how (
	[ 'data', 'flipped data', \&flip ],
	[ 'data', 'zeroes', sub { "\0" x length $_[0] } ],
	[ 'data', 'data that is cut', sub { substr($_[0], 0, 50_000) } ],
	[ 'index', 'a flipped index', \&flip ],
	[ 'index', 'a cut index', sub { substr($_[0], 0, 4096 + 100) } ],
	[ 'index', 'an index of another version', sub { my $b = $_[0]; substr($b, 4, 1) = "\x63"; $b } ],
	[ 'index', 'an empty index', sub { '' } ],
	[ 'index', 'random slots', sub { substr($_[0], 0, 4096) . join '', map { chr(rand 256) } 1 .. 50_000 } ])
{
	my ($file, $label, $change) = @$how;

	$node->stop;
	damage_file("$cache/$file", $change);
	$node->start;
	cmp_ok(gets($sum), '>', 0, "$label: something is read from the store");
	damaged_ok($label);
}

# Slots that lead to sound records of something else.
sub crc32c
{
	my $crc = 0xFFFFFFFF;

	foreach my $byte (unpack 'C*', $_[0])
	{
		$crc ^= $byte;
		$crc = ($crc >> 1) ^ ($crc & 1 ? 0x82F63B78 : 0) for 1 .. 8;
	}
	return $crc ^ 0xFFFFFFFF;
}
$node->stop;
damage_file(
	"$cache/index",
	sub {
		my ($bytes) = @_;
		my @places = map { substr $bytes, 4096 + 32 * $_ + 16, 8 } 0 .. 20;

		for my $i (0 .. 20)
		{
			my $slot = substr($bytes, 4096 + 32 * $i, 16) . $places[ 20 - $i ] . substr($bytes, 4096 + 32 * $i + 24, 4);

			is(crc32c(substr $bytes, 4096, 28), unpack('V', substr $bytes, 4096 + 28, 4),
				'a slot is what this test takes it for') if $i == 0;
			substr($bytes, 4096 + 32 * $i, 32) = $slot . pack 'V', crc32c($slot);
		}
		return $bytes;
	});
$node->start;
my ($gets, $hits, $misses) = counted($sum);
is($misses, 20, 'records of other ranges are not taken');
damaged_ok('other records');

# ---- what is compacted is read anew ----

psql("UPDATE t SET b = b + 1; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')");
my @counted = counted('SELECT sum(b) FROM t');
is($counted[1], 0, 'nothing of the old objects is taken');
is(psql('SELECT sum(b) FROM t'), psql('SELECT sum(i % 7 + 1) FROM generate_series(1, 20000) i'),
	'rows are the new ones');

# ---- size, and what scans leave ----

my $rows = 'SELECT count(*) FROM generate_series(1, 100000, 170) i, LATERAL (SELECT a FROM large WHERE id = i OFFSET 0) l WHERE length(a) > 0';
my $look_up = "SET enable_seqscan = off; $rows";
like(psql("SET enable_seqscan = off; EXPLAIN (COSTS off) $rows"),
	qr/Nested Loop.*Index Scan using large_pkey/s, 'rows are looked up one by one');
psql($look_up);
my $scan = 'SELECT sum(length(a)), sum(get_byte(a, 200)) FROM large';
my $scanned = psql('SELECT sum(256), sum(get_byte(sha512((i + 0.7)::text::bytea), 8)) FROM generate_series(1, 100000) i');

is(gets($look_up), 0, 'rows that were looked up are kept');
for my $i (1 .. 3)
{
	cmp_ok(gets($scan), '>', 0, "scan $i of the large table does not fit");
	cmp_ok(used($cache), '<=', 16384, 'the cache is not larger than it may be');
}
cmp_ok(used($cache), '>', 10000, 'nor much smaller');
is(psql($scan), $scanned, 'what scans find is right');
is(gets($look_up), 0, 'rows that were looked up are still kept');

# Jobs leave nothing, and take nothing away.
psql("CREATE TABLE back (id int, a bytea) USING lsm; ALTER TABLE back SET (lsm.cold_store = 'cold');
	INSERT INTO back SELECT * FROM large LIMIT 20000; SELECT lsm_flush('back'); SELECT lsm_major_compact('back');
	ALTER TABLE back RESET (lsm.cold_store); SELECT lsm_major_compact('back')");
is(psql("SELECT DISTINCT location FROM lsm_segments('back')"), 'local', 'a table is moved back');
is(gets($look_up), 0, 'which has taken no room');

# ---- sessions side by side, with more than there is room for ----

my $script = $node->basedir . '/read.sql';
open(my $out, '>', $script) or die $!;
print $out q{\set id random(1, 100000)
\set from random(1, 95000)
SELECT 1 / (a = sha512(:id::text::bytea) || sha512((-:id)::text::bytea) || sha512((:id + 0.5)::text::bytea) || sha512((:id + 0.7)::text::bytea))::int
	FROM large WHERE id = :id;
SELECT 1 / (count(*) = 401 AND bool_and(substr(a, 1, 64) = sha512(id::text::bytea)))::int FROM large WHERE id BETWEEN :from AND :from + 400;
};
close $out or die $!;
psql('SELECT lsm_stat_reset()');
my $lines = log_count($node, qr/of the cache of stores/);
PostgreSQL::Test::Utils::command_like(
	[ 'pgbench', '-n', '-c', '8', '-j', '1', '-C', '-t', '60', '-f', $script, $node->connstr('postgres') ],
	qr/number of transactions actually processed: 480\/480/,
	'sessions read the right rows');
is(psql('SELECT cache_hits > 0, cache_misses > 0, errors FROM lsm_stat_store'), 't|t|0', 'from here and there');
cmp_ok(used($cache), '<=', 16384, 'in the room that there is');
is(log_count($node, qr/of the cache of stores/), $lines, 'nothing is found damaged');
$node->check_ok('postgres', 'with a cache');

# Statements that are cancelled anywhere leave nothing in the way.
foreach my $ms (1 .. 20)
{
	$node->psql('postgres', "SET statement_timeout = $ms; $scan");
}
# What the sessions above have read has its place until rows are wanted again, so the first
# look-ups push some of each other out.
my $missing;
foreach my $round (1 .. 10)
{
	$missing = gets($look_up);
	last if $missing == 0;
}
is($missing, 0, 'the cache works after statements that were cancelled');

# A crash in the middle of that.
my $reader = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '4', '-T', '600', '-f', $script, $node->connstr('postgres') ],
	'<', \undef, '>', \my $ignored, '2>', \my $errors);
psql('SELECT lsm_stat_reset()');
$node->wait_until('postgres', 'SELECT cache_misses > 500 FROM lsm_stat_store');
$node->crash;
$reader->finish;
$node->start;
is(psql($scan), $scanned, 'rows are right after a crash of busy sessions');
PostgreSQL::Test::Utils::command_like(
	[ 'pgbench', '-n', '-c', '2', '-t', '60', '-f', $script, $node->connstr('postgres') ],
	qr/number of transactions actually processed: 120\/120/,
	'sessions read the right rows, too');
is(log_count($node, qr/of the cache of stores/), $lines, 'nothing is found damaged');
cmp_ok(used($cache), '<=', 16384, 'in the room that there is');

# ---- other sizes ----

psql('SELECT a FROM t WHERE id = 4711');
$node->append_conf('postgresql.conf', 'lsm.store_cache_size = 40MB');
$node->restart;
is(gets('SELECT a FROM t WHERE id = 4711'), 0, 'a larger cache has what a smaller one had');
psql($scan);
is(gets($scan), 0, 'and room for more');
$node->append_conf('postgresql.conf', 'lsm.store_cache_size = 20MB');
$node->restart;
is(psql($scan), $scanned, 'a smaller one has less');
cmp_ok(used($cache), '<=', 20480, 'and is smaller');
$node->append_conf('postgresql.conf', 'lsm.store_cache_size = 0');
$node->restart;
ok(!-e $cache, 'there is none when it is off');
is(join('|', counted('SELECT a FROM t WHERE id = 4711')), '1|0|0', 'nor is anything counted');
$node->append_conf('postgresql.conf', 'lsm.store_cache_size = 16MB');
$node->restart;
like($node->error_of('postgres', q{ALTER SYSTEM SET lsm.store_cache_size = '1MB'}),
	qr/^22023: invalid value for parameter "lsm.store_cache_size": 1024 DETAIL:  The cache of stores has no less than 16384 kB/,
	'it cannot be too small');

# ---- a disk that fails ----

$node->stop;
mkdir $cache or die $!;
chmod 0500, $cache or die $!;
$node->start;
for my $i (1 .. 2)
{
	cmp_ok(gets('SELECT sum(b) FROM t'), '>', 0, 'rows are read without a cache');
}
is(log_count($node, qr/LOG:  could not open file "base\/pgsql_tmp_lsm_store_cache\/data" of the cache of stores: Permission denied/),
	1, 'one line tells why');
$node->stop;
rmdir $cache or die $!;
open($out, '>', $cache) or die $!;
close $out;
$node->start;
cmp_ok(gets('SELECT sum(b) FROM t'), '>', 0, 'rows are read where a file is in the way');
is(log_count($node, qr/LOG:  could not open file ".*" of the cache of stores: Not a directory/), 1, 'one line tells why');
$node->stop;
unlink $cache or die $!;
mkdir "$dir.disk" or die $!;
symlink "$dir.disk", $cache or die $!;
$node->start;
psql('SELECT sum(b) FROM t');
is(gets('SELECT sum(b) FROM t'), 0, 'the directory may be a link');
ok(-s "$dir.disk/data", 'then the files are elsewhere');
$node->stop;
unlink $cache or die $!;
$node->start;

# A limit on the size of files stands for a file system without room.
SKIP:
{
	skip 'no prlimit', 5 if system('prlimit --version >/dev/null 2>&1') != 0;
	my ($pid) = PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;

	is(system('prlimit', "--pid=$pid", '--fsize=1000000:'), 0, 'files have 1 MB at most');
	is(psql($scan), $scanned, 'rows are right when there is no room for them');
	is(psql($scan), $scanned, 'again');
	is(log_count($node, qr/LOG:  could not write file ".*data" of the cache of stores: (?:File too large|No space left on device)/),
		1, 'one line tells why');
	cmp_ok((counted($scan))[1], '>', 10, 'what had found room is there');
	system('prlimit', "--pid=$pid", '--fsize=unlimited:') == 0 or die;
}

# ---- backups and standbys ----

psql($sum);
$node->backup('b');
my $backup = $node->backup_dir . '/b';
ok(-e "$backup/base" && !-e "$backup/base/pgsql_tmp_lsm_store_cache", 'a base backup has no cache');
my $standby = LsmStoreNode->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
sub standby_gets
{
	my ($sql) = @_;
	my $count = 'SELECT get_requests FROM lsm_stat_store';
	my $before = $standby->safe_psql('postgres', $count);

	$standby->safe_psql('postgres', $sql);
	return $standby->safe_psql('postgres', $count) - $before;
}
cmp_ok(standby_gets('SELECT sum(b) FROM t'), '>', 0, 'a standby reads for itself');
is(standby_gets('SELECT sum(b) FROM t'), 0, 'and keeps it');
cmp_ok(used(cache_of($standby)), '>', 100, 'in its own directory');
$standby->restart;
is(standby_gets('SELECT sum(b) FROM t'), 0, 'also for after a restart');
$standby->promote;
is(standby_gets('SELECT sum(b) FROM t'), 0, 'and a promotion');
$standby->safe_psql('postgres', "UPDATE t SET b = 0; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')");
is($standby->safe_psql('postgres', 'SELECT sum(b) FROM t'), 0, 'then it has rows of its own');
is(psql('SELECT sum(b) FROM t'), psql('SELECT sum(i % 7 + 1) FROM generate_series(1, 20000) i'),
	'and the other node those that it had');

# A copied directory has a copied cache, which is as good as any.
$standby->stop;
$node->stop;
system("cp -r '$cache' '" . cache_of($standby) . ".copy'") == 0 or die;
PostgreSQL::Test::Utils::system_or_bail('rm', '-r', cache_of($standby));
rename cache_of($standby) . '.copy', cache_of($standby) or die $!;
$standby->start;
is($standby->safe_psql('postgres', 'SELECT sum(b) FROM t'), 0, 'with the cache of another node, rows are its own');
is($standby->safe_psql('postgres', $scan), $scanned, 'and others those of both');
$standby->stop;

done_testing();
