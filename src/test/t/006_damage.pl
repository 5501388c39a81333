# Damage on disk: whatever is read of a damaged page is an error that names
# table, segment and block, or is right; never a wrong row, never a crash.
# lsm_check finds it, and what lies elsewhere can still be read.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $seed = LsmNode::tests_seed();
my $node = LsmNode->new('damage');
my $page = 8192;

srand($seed);
$node->setup(conf => "restart_after_crash = off\n");
$node->safe_psql(
	'postgres', q{
CREATE TABLE d (id int, t text) USING lsm;
INSERT INTO d SELECT i, md5(i::text) FROM generate_series(1, 50000) i;
SELECT count(*) FROM lsm_flush('d');
SELECT count(*) FROM lsm_major_compact('d');
UPDATE d SET t = 'changed' WHERE id % 100 = 0;
SELECT count(*) FROM lsm_flush('d');
CREATE TABLE d_heap USING heap AS TABLE d;
});
$node->check_ok('postgres', 'before any damage', 'd');

my $file = $node->data_dir . '/'
  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('d')");
my $checksums = $node->safe_psql('postgres', 'SHOW data_checksums');

$node->stop;

# The server's checksums, on from 18 on unless one says otherwise, would find it all.
PostgreSQL::Test::Utils::system_or_bail('pg_checksums', '--disable', '-D', $node->data_dir)
  if $checksums eq 'on';

open(my $in, '<:raw', $file) or die "$file: $!";
my $whole = do { local $/; <$in> };
close($in);
my $npages = length($whole) / $page;

sub write_file
{
	my ($bytes) = @_;

	open(my $out, '>:raw', $file) or die "$file: $!";
	print $out $bytes;
	close($out) or die "$file: $!";
	return;
}

# Kind of a page: the field of the special space (src/FORMAT.md).
sub kind_of
{
	my ($number) = @_;

	return unpack('v', substr($whole, $number * $page + $page - 24 + 16, 2));
}

my @segment_pages = grep { kind_of($_) == 0x4C05 } 0 .. $npages - 1;
cmp_ok(scalar(@segment_pages), '>', 20, 'the table has segment pages');

my ($errors, $unharmed) = (0, 0);
foreach my $round (1 .. 25)
{
	my $number = $segment_pages[ int(rand(@segment_pages)) ];
	my $copy = $whole;
	my $at = $number * $page + 24 + int(rand($page - 48));

	substr($copy, $at, 1) = chr(ord(substr($copy, $at, 1)) ^ (1 + int(rand(255))));
	write_file($copy);
	$node->start;
	my ($status, $out, $err) = $node->psql('postgres',
		'\set VERBOSITY verbose' . "\nSELECT count(*), sum(id), md5(string_agg(t, ',' ORDER BY id)) FROM d");
	if ($status == 0)
	{
		# a byte that belongs to nothing: padding, or the end of a page
		is($out, $node->safe_psql('postgres', "SELECT count(*), sum(id), md5(string_agg(t, ',' ORDER BY id)) FROM d_heap"),
			"round $round: page $number unharmed (seed $seed)");
		$unharmed++;
	}
	else
	{
		like($err, qr/ERROR:  XX001: .*segment [0-9A-F]+ of table "d"/, "round $round: page $number (seed $seed)");
		isnt($node->safe_psql('postgres', "SELECT count(*) FROM lsm_check('d')"), '0', "round $round: lsm_check finds it");
		$errors++;
	}
	$node->stop;
}
cmp_ok($errors, '>', 15, "most damage is met ($errors met, $unharmed harmless)");

# The dictionary of a segment: its checksum is that of metadata.
{
	write_file($whole);
	$node->start;
	$node->safe_psql(
		'postgres', q{
CREATE TABLE e USING lsm WITH (lsm.dictionary) AS SELECT i AS id,
	(SELECT string_agg(substr(md5((hashint4(i * 8 + k) & 511)::text), 1, 24), ' ') FROM generate_series(1, 3) k) AS t
	FROM generate_series(1, 20000) i;
SELECT count(*) FROM lsm_flush('e');
CREATE TABLE e_heap USING heap AS TABLE e;
});
	my $other = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('e')");
	$node->stop;
	open(my $in, '<:raw', $other) or die "$other: $!";
	my $sound = do { local $/; <$in> };
	close($in);
	my $at = index($sound, pack('V', 0xEC30A437));
	cmp_ok($at, '>', 0, 'a segment has a dictionary');

	foreach my $place ($at + 1, $at + 5, $at + 70, $at + 4000)
	{
		substr((my $copy = $sound), $place, 1) = chr(ord(substr($sound, $place, 1)) ^ 0x11);
		open(my $out, '>:raw', $other) or die "$other: $!";
		print $out $copy;
		close($out) or die "$other: $!";
		$node->start;
		my ($status, $rows, $err) = $node->psql('postgres', '\set VERBOSITY verbose' . "\nSELECT max(t) FROM e");
		like($err, qr/ERROR:  XX001: invalid metadata in segment [0-9A-F]+ of table "e"\s+DETAIL:  Section 11 /,
			'damage in a dictionary, ' . ($place - $at));
		like($node->safe_psql('postgres', "SELECT * FROM lsm_check('e')"), qr/segment/, 'lsm_check finds it');
		$node->stop;
	}
	open(my $out, '>:raw', $other) or die "$other: $!";
	print $out $sound;
	close($out) or die "$other: $!";
	$node->start;
	$node->same_ok('postgres', 'SELECT * FROM e ORDER BY id', 'SELECT * FROM e_heap ORDER BY id', 'put back, all is well');
	$node->safe_psql('postgres', 'DROP TABLE e, e_heap');
	$node->stop;
	open($in, '<:raw', $file) or die "$file: $!";
	$whole = do { local $/; <$in> };
	close($in);
}

# Half of the file is gone, or a page is zeroes.
write_file(substr($whole, 0, int($npages / 2) * $page));
$node->start;
isnt($node->safe_psql('postgres', "SELECT count(*) FROM lsm_check('d')"), '0', 'lsm_check finds a truncated file');
$node->stop;
write_file(substr($whole, 0, $segment_pages[3] * $page) . ("\0" x $page) . substr($whole, ($segment_pages[3] + 1) * $page));
$node->start;
my ($status, $out, $err) = $node->psql('postgres', 'SELECT count(t), max(t) FROM d');
like($err, qr/ERROR:  .*segment [0-9A-F]+ of table "d"/, 'a zeroed page is an error');
$node->stop;

# Nothing can be read without the metapage; the table's counters still show, and
# those of other tables.
write_file(substr($whole, 0, $page - 24) . ("\xFF" x 24) . substr($whole, $page));
$node->start;
($status, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM d');
like($err, qr/ERROR:  .*"d"/, 'a damaged metapage is an error');
is($node->safe_psql('postgres', 'SELECT relname, rows_read, increments FROM lsm_stat_tables ORDER BY relname'),
	'd|0|', 'statistics leave out what cannot be read');
$node->stop;

# Nor if it tells of more than it has room for, or than is there (FORMAT.md).
my $content = unpack('S', substr($whole, 14, 2));
foreach my $damage ([ 240, 200, 'row-log ranges' ], [ 244, 17, 'free LBs' ])
{
	my ($offset, $number, $what) = @$damage;

	write_file(substr($whole, 0, $content + $offset) . pack('L', $number) . substr($whole, $content + $offset + 4));
	$node->start;
	($status, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM d');
	like($err, qr/ERROR:  block 0 of table "d" is not a metapage of lsm/, "a metapage with $number $what is an error");
	$node->stop;
}

# Nor can it if the file is gone.
unlink($file) or die $!;
$node->start;
is($node->safe_psql('postgres', 'SELECT relname, rows_read, increments FROM lsm_stat_tables ORDER BY relname'),
	'd|0|', 'statistics of a table whose file is gone');
$node->stop;

# Records of a row that lead in a circle end.  Those of a rolled back transaction, so
# that they are passed.
write_file($whole);
$node->start;
$node->safe_psql('postgres', q{
CREATE TABLE chain (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO chain VALUES (1, 0);
BEGIN; UPDATE chain SET v = 1; UPDATE chain SET v = 2; UPDATE chain SET v = 3; ROLLBACK});
my $chain = $node->data_dir . '/'
  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('chain')");
$node->stop;
my $bytes = PostgreSQL::Test::Utils::slurp_file($chain);
my $broken = 0;

foreach my $number (0 .. length($bytes) / $page - 1)
{
	my $at = $number * $page;

	next if unpack('v', substr($bytes, $at + $page - 24 + 16, 2)) != 0x4C02;
	my @items = map { $at + ($_ & 0x7FFF) }
	  unpack('V*', substr($bytes, $at + 24, unpack('v', substr($bytes, $at + 12, 2)) - 24));

	# root, then the record before this one: that of the first is to be that of the third
	next if @items != 3;
	substr($bytes, $items[0] + 24, 8) = substr($bytes, $items[2] + 24, 8);
	$broken++;
}
is($broken, 1, 'three records of a row');
open(my $out_chain, '>:raw', $chain) or die "$chain: $!";
print $out_chain $bytes;
close($out_chain);
$node->start;
foreach my $sql (
	'SELECT * FROM chain',
	'SET enable_seqscan = off; SELECT * FROM chain WHERE id = 1',
	'UPDATE chain SET v = 4')
{
	($status, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSET statement_timeout = '60s'; $sql");
	like($err, qr/ERROR:  XX001: invalid record \(\d+,\d+\) in the row log of table "chain"/, $sql);
}
isnt($node->safe_psql('postgres', "SELECT count(*) FROM lsm_check('chain')"), '0', 'lsm_check finds it');
$node->safe_psql('postgres', 'DROP TABLE chain');
$node->stop;

# Put back, all is well.
write_file($whole);
$node->start;
$node->check_ok('postgres', 'after the bytes are back', 'd');
$node->same_ok('postgres', 'SELECT * FROM d ORDER BY id', 'SELECT * FROM d_heap ORDER BY id', 'rows are back');
$node->stop;
done_testing();
