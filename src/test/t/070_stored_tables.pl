# Tables of each version of the metapage (1 to 3), and of segments since (4: version 3, with large
# values at home, and an LB of several pages), as they were written: they stay readable, and can be
# changed.  The files in src/test/tables are never made anew; a version that writes others
# adds its own, with
#
#	LSM_KEEP_TABLES=directory prove src/test/t/070_stored_tables.pl
#
# Each is an archive with the definition of a table (ddl), queries (queries) and what they
# gave (answers), one to a line, the main fork (file), objects of its store (objects/) and
# where its server was (xid, lsn).  (They are of little-endian machines.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

use Archive::Tar;
use File::Path;
use IO::Uncompress::Gunzip;

my $kept = "$FindBin::RealBin/../tables";

# What is kept has checksums, which only a server with checksums looks at.
my $node = LsmStoreNode->new('main');
$node->setup(
	conf => "lsm.block_cache_size = 0\nautovacuum = off\n",
	extra => ['--data-checksums']);

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# The path of the table's main fork, with the server stopped.
sub stopped_file
{
	my $path = psql("SELECT pg_relation_filepath('kept')");

	psql('CHECKPOINT');
	$node->stop;
	return $node->data_dir . "/$path";
}

sub slurp
{
	my ($path) = @_;

	open(my $in, '<:raw', $path) or die "$path: $!";
	local $/;
	return scalar <$in>;
}

sub spew
{
	my ($path, $bytes) = @_;

	File::Path::make_path($path =~ s{/[^/]*$}{}r);
	open(my $out, '>:raw', $path) or die "$path: $!";
	print $out $bytes;
	close($out) or die "$path: $!";
	return;
}

# A store in a directory of its own for each table.
sub store_of
{
	my ($name) = @_;
	my $directory = $node->basedir . "/store_$name";

	mkdir $directory or die "$directory: $!";
	psql("DROP SERVER IF EXISTS cold; CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$directory')");
	return $directory;
}

# ---- writing ----

# Definitions that are made again where the table is read.
my %ddl = (
	1 => [
		q{CREATE TABLE kept (id int8, gone int4, a int2, b bool, c text, d numeric, e float8, f timestamptz, g uuid, h int4[], i text, j date) USING lsm WITH (autovacuum_enabled = off, lsm.dictionary = on)},
		q{ALTER TABLE kept DROP COLUMN gone},
		q{ALTER TABLE kept ADD COLUMN later int4 DEFAULT 77}
	],
	2 => [q{CREATE TABLE kept (id int8, c text, d numeric) USING lsm WITH (autovacuum_enabled = off, lsm.cold_store = 'cold')}],
	3 => [q{CREATE TABLE kept (id int8, c text, large text) USING lsm WITH (autovacuum_enabled = off, lsm.cold_store = 'cold')}, q{ALTER TABLE kept ALTER large SET STORAGE EXTERNAL}],
	4 => [
		q{CREATE TABLE kept (id int8, gone numeric, a int2, b interval, c text, d numeric, e float4, f timestamp, g bytea, h numeric(12,2), i "char", j time, large text) USING lsm WITH (autovacuum_enabled = off, lsm.dictionary = on, lsm.block_size = '8kB')},
		q{ALTER TABLE kept ALTER large SET STORAGE EXTERNAL},
		q{ALTER TABLE kept DROP COLUMN gone},
		q{ALTER TABLE kept ADD COLUMN later text DEFAULT 'a default'}
	]);

# Steps: 'ddl' is the next definition.
my %steps = (
	1 => [
		'ddl',
		q{INSERT INTO kept SELECT i, i, i % 50, i % 3 = 0, md5(i::text), i / 7.0, sqrt(i), timestamptz '2020-01-01 00:00+00' + i * interval '1 minute', md5((i * 3)::text)::uuid, ARRAY[i, i % 5, NULL], CASE WHEN i % 4 > 0 THEN 'status ' || i % 6 END, date '2020-01-01' + i / 100 FROM generate_series(1, 1500) i},
		q{SELECT lsm_flush('kept')},
		q{UPDATE kept SET a = 99 WHERE id % 10 = 1},
		q{DELETE FROM kept WHERE id % 100 = 50},
		q{SELECT lsm_flush('kept')},
		q{SELECT lsm_major_compact('kept')},
		'ddl', 'ddl',
		q{INSERT INTO kept SELECT i, 7, true, 'log line of a service that says much the same each time, number ' || i, i, i, '2021-01-01 00:00+00', NULL, NULL, repeat('request ' || i % 10 || ' was answered; ', 4), NULL, i FROM generate_series(3001, 3600) i},
		q{SELECT lsm_flush('kept')},
		q{CREATE INDEX kept_a ON kept (a)},
		q{UPDATE kept SET a = 98 WHERE id % 200 = 3},
		q{UPDATE kept SET c = 'changed' || id WHERE id % 30 = 2},
		q{BEGIN; UPDATE kept SET c = 'not so' WHERE id < 500; ROLLBACK},
		q{SELECT lsm_flush('kept')},
		q{INSERT INTO kept (id, c, i) SELECT i, 'in the row log', repeat('v', 3000) FROM generate_series(5001, 5100) i},
		q{INSERT INTO kept (id, c) SELECT 5101, string_agg(md5(i::text), '') FROM generate_series(1, 300) i},
		q{UPDATE kept SET later = id WHERE id % 300 = 4},
		q{DELETE FROM kept WHERE id % 300 = 5},
		q{BEGIN; SELECT FROM kept WHERE id % 300 = 6 FOR UPDATE; COMMIT},
		q{DROP INDEX kept_a}
	],
	2 => [
		'ddl',
		q{INSERT INTO kept SELECT i, md5(i::text), i / 7.0 FROM generate_series(1, 1500) i},
		q{SELECT lsm_flush('kept')},
		q{SELECT lsm_major_compact('kept')},
		q{UPDATE kept SET c = 'changed' || id WHERE id % 30 = 2},
		q{DELETE FROM kept WHERE id % 100 = 50},
		q{SELECT lsm_flush('kept')},
		q{INSERT INTO kept SELECT i, 'new', i FROM generate_series(3001, 3300) i}
	],
	3 => [
		'ddl', 'ddl',
		q{INSERT INTO kept SELECT i, md5(i::text), CASE WHEN i % 100 = 0 THEN (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 400) j) END FROM generate_series(1, 500) i},
		q{SELECT lsm_flush('kept')},
		q{SELECT lsm_major_compact('kept')},
		q{UPDATE kept SET c = 'changed' || id WHERE id % 30 = 20},
		q{SELECT lsm_flush('kept')}
	],
	4 => [
		'ddl', 'ddl',
		# a load, in LBs of several pages
		q{INSERT INTO kept SELECT i, i, i % 50, i * interval '1 minute', repeat(chr(97 + i % 26), 90) || i % 7, i / 7.0 - 300, i / 3.0, timestamp '2020-01-01 00:00' + i * interval '1 minute', decode(md5((i % 900)::text), 'hex'), (i % 1000) / 100.0, 'x', time '00:00' + i * interval '1 second', CASE WHEN i % 400 = 0 THEN (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 80) j) END FROM generate_series(1, 2400) i},
		q{SELECT lsm_flush('kept')},
		q{SELECT lsm_major_compact('kept')},
		q{CREATE INDEX kept_a ON kept (a)},
		# of these blocks some are made anew, the others copied, with zones that are too wide
		q{UPDATE kept SET d = 0, c = 'least' WHERE id BETWEEN 1000 AND 1010},
		q{DELETE FROM kept WHERE id BETWEEN 1800 AND 1850},
		q{SELECT lsm_flush('kept')},
		q{SELECT lsm_major_compact('kept')},
		'ddl', 'ddl',
		# MOVED, deltas, dead roots, large values, in an increment, and in the row log
		q{UPDATE kept SET a = 98 WHERE id % 200 = 3},
		q{UPDATE kept SET h = -h WHERE id % 300 = 2},
		q{UPDATE kept SET large = (SELECT string_agg(md5((kept.id + j)::text), '') FROM generate_series(1, 80) j) WHERE id % 1000 = 11},
		q{DELETE FROM kept WHERE id % 500 = 50},
		q{BEGIN; UPDATE kept SET c = 'not so' WHERE id < 500; ROLLBACK},
		q{SELECT lsm_flush('kept')},
		q{UPDATE kept SET later = c WHERE id % 1000 = 4},
		q{UPDATE kept SET a = 97 WHERE id % 1000 = 3},
		q{INSERT INTO kept (id, c, large) SELECT i, 'in the row log', repeat('v', 3000) FROM generate_series(9001, 9010) i},
		q{SET lsm.debug_load_after = 0; INSERT INTO kept (id, c, d) SELECT i, repeat('in the row log ', 20), i FROM generate_series(9101, 9200) i},
		q{DELETE FROM kept WHERE id % 1000 = 5},
		q{DROP INDEX kept_a}
	]);
my @queries = (
	q{SELECT count(*), sum(id), sum(hashtextextended(k::text, 0)::numeric) FROM kept k},
	q{SELECT k::text FROM kept k WHERE id = 32},
	q{SELECT md5(k::text) FROM kept k WHERE id = 3300},
	q{SELECT min(c), max(c), min(id), max(id) FROM kept});
my %location = (1 => 'local', 2 => 'cold', 3 => 'cold', 4 => 'local');

sub settings
{
	return "SET timezone = 'UTC'; SET extra_float_digits = 1; SET max_parallel_workers_per_gather = 0;";
}

sub keep
{
	my ($name, $to) = @_;
	my $directory = store_of($name);
	my @ddl = @{ $ddl{$name} };
	my $tar = Archive::Tar->new;

	foreach my $step (@{ $steps{$name} })
	{
		psql($step eq 'ddl' ? shift @ddl : $step);
	}
	my $location = psql("SELECT string_agg(DISTINCT location, ' ') FROM lsm_segments('kept') WHERE kind = 'baseline'");
	die "table $name: baseline is $location" if $location ne $location{$name};
	$tar->add_data('ddl', join('', map { "$_\n" } @{ $ddl{$name} }));
	$tar->add_data('queries', join('', map { "$_\n" } @queries));
	$tar->add_data('answers', join('', map { psql(settings() . $_) . "\n" } @queries));
	psql('CHECKPOINT');
	$tar->add_data('xid', psql('SELECT pg_current_xact_id()'));
	$tar->add_data('lsn', psql('SELECT pg_current_wal_lsn()'));
	my $file = stopped_file();
	$tar->add_data('file', slurp($file));
	foreach my $object (split /\n/, `cd '$directory' && find . -type f | sort`)
	{
		$object =~ s{^\./}{};
		$tar->add_data("objects/$object", slurp("$directory/$object"));
	}
	$tar->write("$to/$name.tar.gz", COMPRESS_GZIP) or die $tar->error;
	$node->start;
	psql('DROP TABLE kept');
	return;
}

if (defined $ENV{LSM_KEEP_TABLES})
{
	keep($_, $ENV{LSM_KEEP_TABLES}) foreach (sort keys %steps);
	plan skip_all => 'tables were written';
}

# ---- reading ----

my @archives = sort glob("$kept/*.tar.gz");
cmp_ok(scalar(@archives), '>=', 4, 'there are tables');
foreach my $archive (@archives)
{
	my ($name) = $archive =~ m{([^/]*)\.tar\.gz$};
	my $tar = Archive::Tar->new($archive) or die Archive::Tar->error;
	my $content = sub { return $tar->get_content($_[0]) };
	my @stored_queries = split /\n/, $content->('queries');
	my @answers = split /\n/, $content->('answers');
	my $directory = store_of($name);
	my $xid = $content->('xid');
	my $lsn = $content->('lsn');

	# transactions that the file names have committed here, too, and its pages are older than the WAL
	psql("DO \$\$ BEGIN WHILE pg_current_xact_id() <= '$xid'::xid8 LOOP COMMIT; END LOOP; END \$\$");
	psql('SELECT pg_switch_wal() FROM pg_logical_emit_message(false, \'\', \'\')')
	  while (psql("SELECT pg_current_wal_lsn() <= '$lsn'") eq 't');
	psql($_) foreach (split /\n/, $content->('ddl'));
	foreach my $object (grep { m{^objects/} } $tar->list_files)
	{
		spew("$directory/" . ($object =~ s{^objects/}{}r), $content->($object));
	}
	my $file = stopped_file();
	spew($file, $content->('file'));
	unlink "${file}_vm";
	$node->start;

	my $answers = sub { return join "\n", map { psql(settings() . $_) } @stored_queries };
	is($answers->(), join("\n", @answers), "table $name: all is there");
	$node->check_ok('postgres', "table $name", 'kept');

	# it is a table like any other
	my $count = psql('SELECT count(*) FROM kept');
	psql('CREATE INDEX kept_id ON kept (id)');
	is(psql(settings() . 'SET enable_seqscan = off; SET lsm.enable_lsmscan = off; SELECT count(*) FROM kept WHERE id BETWEEN 1 AND 1000000'), $count, "table $name: all is found by an index");
	psql(q{UPDATE kept SET c = 'once more' || id WHERE id % 7 = 0});
	psql('DELETE FROM kept WHERE id = 1');
	psql(q{INSERT INTO kept (id, c) VALUES (1, 'instead')});
	psql('CREATE TABLE copy AS TABLE kept');
	foreach my $job (q{SELECT lsm_flush('kept')}, q{SELECT lsm_major_compact('kept')}, 'VACUUM kept', 'VACUUM FULL kept')
	{
		psql($job);
		is(psql('SELECT count(*) FROM (SELECT k::text FROM kept k EXCEPT SELECT o::text FROM copy o) d'), 0, "table $name: $job leaves rows as they are");
		is(psql('SELECT count(*) FROM kept'), $count, 'and all of them');
		$node->check_ok('postgres', "table $name", 'kept');
	}
	$node->restart;
	is(psql('SELECT count(*) FROM (SELECT k::text FROM kept k EXCEPT SELECT o::text FROM copy o) d'), 0, "table $name: after a restart, too");
	psql('DROP TABLE kept, copy');
}

done_testing();
