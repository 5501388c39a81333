# Row blocks: blocks that the block cache keeps as records, for single rows.  Whoever
# looks rows up must get what heap has, from the file, from a block and from a row
# block, whatever has become of the row or of the table's columns since the row block was made.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('main');
$node->setup(conf => "autovacuum = off\nlsm.block_cache_size = 64MB\n");

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; '
  . 'SET enable_mergejoin = off; SET enable_memoize = off; SET enable_material = off;';
my $by_bitmap = $by_index =~ s/bitmapscan = off/indexscan = off/r;
my $expanded = 'SELECT expanded_bytes FROM lsm_stat_cache';
my $decoded = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'lsm block'";

sub psql
{
	return $node->safe_psql('postgres', $_[0]) =~ s/.*\n//sr;
}

# Rows of l that differ from those of h, each looked up by its key; keys that only one has.
# In no order, as blocks that are walked through are not kept for single rows.
sub differing_sql
{
	my ($how, $which) = @_;

	return "$how SELECT count(*) FROM (SELECT key FROM generate_series(-1, 3300) key ORDER BY md5(key::text)) k "
	  . 'LEFT JOIN LATERAL (SELECT h FROM h WHERE id = key OFFSET 0) a ON true '
	  . 'LEFT JOIN LATERAL (SELECT l FROM l WHERE id = key OFFSET 0) b ON true '
	  . 'WHERE a.h::text IS DISTINCT FROM b.l::text AND ' . ($which // 'true');
}

sub differing
{
	my ($how, $db) = @_;

	return $node->safe_psql($db // 'postgres', differing_sql($how));
}

# Four sessions: who reads the blocks, who makes row blocks of them, who finds these; and one
# that goes on, and remembers where it has found rows.
my $lasting;

sub same
{
	my ($what) = @_;

	is(differing($by_index), 0, "$what: look-ups, time $_") foreach (1 .. 3);
	is(differing($by_bitmap), 0, "$what: bitmaps");
	$lasting = $node->background_psql('postgres') unless defined $lasting;
	is($lasting->query_safe(differing_sql($by_index)), 0, "$what: look-ups by a session that goes on");
	is($lasting->query_safe(differing_sql($by_index, 'k.key IN (7, 8, 1234)')), 0, "$what: the same rows once more") foreach (1 .. 2);
	return;
}

sub leave
{
	$lasting->quit if defined $lasting;
	undef $lasting;
	return;
}

sub again
{
	leave();
	$node->restart;
	return;
}

# A statement for either table.
sub both
{
	my ($sql) = @_;

	return ($sql =~ s/\bTWIN\b/h/gr) . '; ' . ($sql =~ s/\bTWIN\b/l/gr);
}

my $columns = 'id int PRIMARY KEY, b bool, c "char", s int2, i int8, o oid, f float4, d float8, n numeric, '
  . 't text COLLATE "C", v varchar(40), p char(9), y bytea, u uuid, dt date, ts timestamptz, iv interval, '
  . 'nm name, a int[], j jsonb, pt point, r int4range, k int';

# The values of row i; every column is null in some rows.
my @values = (
	'i % 3 = 0', '(chr(65 + i % 26))::"char"', 'i % 30000', 'i * 1000000007::int8', 'i', 'i / 7.0', 'sqrt(i)',
	'i::numeric ^ 3 / 7', 'repeat(md5(i::text), i % 5)', "'v' || i", "i % 100", 'decode(md5(i::text), \'hex\')',
	'md5(i::text)::uuid', "date '2000-01-01' + i", "timestamptz '2000-01-01 UTC' + i * interval '1 hour'",
	"i * interval '1 minute'", "('n' || i)::name", 'array[i, i + 1]', "jsonb_build_object('i', i)",
	'point(i, -i)', 'int4range(i, i + 5)', 'i % 50');
my $n = 0;
my $rows = join(', ', map { $n++; "CASE WHEN (i + $n) % 11 > 0 THEN $_ END" } @values);

psql($_)
  foreach ("CREATE TABLE h ($columns)", "CREATE TABLE l ($columns) USING lsm",
	"INSERT INTO h SELECT i, $rows FROM generate_series(1, 3000) i", 'INSERT INTO l SELECT * FROM h ORDER BY id',
	both('CREATE INDEX ON TWIN (k)'));
same('row log');
psql("SELECT lsm_flush('l'), lsm_major_compact('l'); CHECKPOINT; VACUUM ANALYZE h, l");
again();

# ---- one row: from the file, from its block, from the row block
my $one = "$by_index SELECT l, xmin, cmin, ctid, tableoid FROM l WHERE id = 1234";
my $row = psql($one);
is(psql($expanded), 0, 'a block that is read once is kept as it is stored');
is(psql($one), $row, 'the same row');
cmp_ok(psql($expanded), '>', 0, 'its block is kept as records');
my $before = psql($expanded);
is(psql("$one; $decoded"), 0, 'so the next session opens no block');
is(psql($one), $row, 'and gets the same row');
is(psql($expanded), $before, 'and makes none');
same('flushed');
is(psql("$by_index SELECT sum(length(t)) FROM generate_series(1, 3000) key, LATERAL (SELECT t FROM l WHERE id = key OFFSET 0) x; $decoded"),
	0, 'all rows without opening a block');
is(psql("$by_bitmap SELECT sum(length(t)) FROM l WHERE id = ANY (array(SELECT i FROM generate_series(1, 3000, 100) i)); $decoded"),
	0, 'nor for a bitmap of few rows to a block');
is(psql("SELECT count(*) FROM h FULL JOIN l USING (id) WHERE h::text IS DISTINCT FROM l::text"), 0, 'scans');

# ---- blocks that a compaction copies with what has changed in them, and their row blocks
psql(both("UPDATE TWIN SET s = -s, n = n + 1, dt = NULL WHERE id % 4 = 0"));
psql(both("UPDATE TWIN SET t = t || '!', u = NULL, f = 2.5 WHERE id % 6 = 1"));
psql(both("UPDATE TWIN SET b = NOT b, y = y || y, ts = '2020-01-01 UTC' WHERE id IN (1, 1500, 3000)"));
psql("SELECT lsm_flush('l'), lsm_major_compact('l')");
same('changed, compacted');

# ---- changes above row blocks
my $old = $node->background_psql('postgres');
$old->query_safe("$by_index BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM h");
psql(both("UPDATE TWIN SET t = 'new', n = NULL WHERE id % 5 = 0"));
psql(both('UPDATE TWIN SET k = k + 1000 WHERE id % 7 = 0'));
psql(both('DELETE FROM TWIN WHERE id % 9 = 0'));
psql(both("INSERT INTO TWIN (id, t) SELECT i, 'again' FROM generate_series(9, 900, 9) i"));
psql(both("UPDATE TWIN SET t = t || 'er' WHERE id % 10 = 0"));
psql(both("BEGIN; UPDATE TWIN SET t = 'never'; DELETE FROM TWIN WHERE id < 1000; ROLLBACK"));
same('changed');
psql("SELECT lsm_flush('l')");
same('changed, in increments');
is( $old->query_safe('SELECT count(*) FROM h LEFT JOIN LATERAL (SELECT l FROM l WHERE l.id = h.id OFFSET 0) x ON true '
		  . 'WHERE h::text IS DISTINCT FROM x.l::text'),
	0,
	'as an old snapshot sees them');
$old->query_safe('COMMIT');
my ($out, $err);
$node->psql('postgres', "INSERT INTO l (id) VALUES (1234)", stderr => \$err);
like($err, qr/duplicate key/, 'a unique check meets a row block');
psql(both("INSERT INTO TWIN (id, t) SELECT i, 'conflict' FROM generate_series(1, 3100, 31) i "
		  . 'ON CONFLICT (id) DO UPDATE SET t = TWIN.t || excluded.t'));
same('ON CONFLICT');
psql("SELECT lsm_flush('l')");
same('flushed');
my $room = psql($expanded);
psql("SELECT lsm_major_compact('l')");
cmp_ok(psql($expanded), '<', $room / 2, 'row blocks of segments that are gone make room');
my $read = psql("SELECT data_blocks_read FROM lsm_stat_tables WHERE relname = 'l'");
same('compacted');
is(psql("SELECT data_blocks_read FROM lsm_stat_tables WHERE relname = 'l'"), $read,
	'what has taken their place is in the cache');
psql('VACUUM l');
same('vacuumed');

# ---- columns that come and go after row blocks were made, or before
psql(both("ALTER TABLE TWIN ADD COLUMN m text DEFAULT 'missing', DROP COLUMN v, DROP COLUMN a"));
same('columns added and dropped');
psql(both("UPDATE TWIN SET m = 'there' WHERE id % 6 = 0"));
psql("SELECT lsm_flush('l'), lsm_major_compact('l'); VACUUM l");
same('some rows have a column, others miss it');
psql("SELECT lsm_major_compact('l')");

# ---- columns that are not added after all
again();
is(differing($by_index), 0, 'blocks are in the block cache');
my $all = "SELECT count(l::text) FROM (SELECT id FROM h ORDER BY md5(id::text)) k JOIN l USING (id)";
psql("BEGIN; ALTER TABLE l ADD COLUMN z text DEFAULT 'rolled back'; $by_index $all; ROLLBACK");
same('a column added, not committed');
psql(both('ALTER TABLE TWIN ADD COLUMN z int DEFAULT 7'));
same('another column in its place');
psql(both("ALTER TABLE TWIN ALTER COLUMN p TYPE text, ALTER COLUMN t TYPE varchar"));
same('types changed');

# ---- no row block is made of columns that may come back
my $forced = psql('SHOW server_version_num') < 160000 ? 'force_parallel_mode' : 'debug_parallel_query';
my $undone = 'ALTER TABLE l DROP COLUMN k, DROP COLUMN t';
my %who = (
	'a session' => $undone,
	'a subtransaction' => "SAVEPOINT a; $undone; $all; ROLLBACK TO a",
	'a parallel worker' => "$undone; SET parallel_setup_cost = 0; SET $forced = on");
psql("SELECT lsm_flush('l'), lsm_major_compact('l'); VACUUM l");
foreach my $who (sort keys %who)
{
	again();
	is(differing($by_index), 0, 'blocks are in the block cache');
	my $plan = $node->safe_psql('postgres',
		"$by_index BEGIN; $who{$who}; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $all; ROLLBACK");
	like($plan, qr/Index Scan using l_pkey/, "look-ups by $who");
	like($plan, qr/Workers Launched: 1/, 'which there was') if $who =~ /worker/;
	same("columns dropped, not committed, by $who");
	is(psql("$one; $decoded"), 0, 'from row blocks');
}

# ---- nor are those of a copy of the database, which has the same segments, for others
again();
is(differing($by_index), 0, 'blocks are in the block cache');
leave();
psql('CREATE DATABASE copy TEMPLATE postgres');
$node->safe_psql('copy', 'ALTER TABLE l DROP COLUMN k, DROP COLUMN t');
$node->safe_psql('copy', "$by_index $all") foreach (1 .. 2);
same('columns dropped in a copy of the database');

# ---- nor of one that had the same number before
my $oid = psql(q{SELECT oid FROM pg_database WHERE datname = 'copy'});
psql('DROP DATABASE copy');
leave();
psql("CREATE DATABASE copy TEMPLATE postgres OID = $oid");
is(differing($by_index, 'copy'), 0, "another database under the number of a copy: look-ups, time $_") foreach (1, 2);

# ---- rows with fewer columns than the table, which have names that are not short
my $named = join(', ', map { "ADD COLUMN a_column_with_a_name_of_its_own_$_ int DEFAULT $_" } 1 .. 7);
psql('CREATE TABLE fewer (id int PRIMARY KEY, a_first_column_with_a_long_name text, second int) USING lsm;'
	  . "INSERT INTO fewer SELECT i, 'text ' || i, i FROM generate_series(1, 500) i;"
	  . "SELECT lsm_flush('fewer'), lsm_major_compact('fewer'); ALTER TABLE fewer $named");
again();
my $fewer = "$by_index SELECT count(*) FROM generate_series(1, 500) i, LATERAL (SELECT f::text t FROM fewer f WHERE id = i OFFSET 0) x WHERE t = format('(%s,\"text %s\",%s,1,2,3,4,5,6,7)', i, i, i)";
is(psql($fewer), 500, "seven columns fewer, time $_") foreach (1 .. 3);
is(psql("$fewer; $decoded"), 0, 'from row blocks');

# ---- rows that are not kept so: long ones, those with large values
psql("CREATE TABLE $_->[0] (id int PRIMARY KEY, t text) USING lsm;"
	  . "ALTER TABLE $_->[0] ALTER t SET STORAGE $_->[2];"
	  . "INSERT INTO $_->[0] SELECT i, repeat(md5(i::text), $_->[1]) FROM generate_series(1, 300) i;"
	  . "SELECT lsm_flush('$_->[0]'), lsm_major_compact('$_->[0]')")
  foreach (['long', 100, 'PLAIN'], ['large', 400, 'EXTERNAL']);
again();
foreach my $table ('long', 'large')
{
	my $times = $table eq 'long' ? 100 : 400;

	is(psql("$by_index SELECT count(*) FROM generate_series(1, 300) key, LATERAL (SELECT t FROM $table WHERE id = key * 7 % 300 + 1 OFFSET 0) x WHERE t = repeat(md5((key * 7 % 300 + 1)::text), $times)"),
		300, "$table values, time $_") foreach (1 .. 3);
}
cmp_ok(psql("$by_index SELECT length(t) FROM long WHERE id = 150; $decoded"), '>', 0, 'their blocks are opened');

# ---- blocks so large that there is no room for their rows: the block as stored is not given up
psql("CREATE TABLE wide (id int PRIMARY KEY, t text) USING lsm WITH (lsm.block_size = '1MB');"
	  . "INSERT INTO wide SELECT i, repeat(md5(i::text), 2) FROM generate_series(1, 8000) i;"
	  . "SELECT lsm_flush('wide'), lsm_major_compact('wide')");
$node->adjust_conf('postgresql.conf', 'lsm.block_cache_size', '1MB');
again();
$one = "$by_index SELECT t = repeat(md5(id::text), 2) FROM wide WHERE id = 77";
is(psql($one), 't', 'a row of a large block');
my $warm = psql('SELECT warm_bytes FROM lsm_stat_cache');
cmp_ok($warm, '>', 100000, 'which is in the block cache');
is(psql($one), 't', 'the same row');
is(psql('SELECT warm_bytes FROM lsm_stat_cache'), $warm, 'and stays there, as warm as it was');

# ---- who has found a row block finds out that the cache was changed, then reads under a lock
again();
psql("CREATE FUNCTION lsm_test_held_rows(OUT kept bool, OUT found bool, OUT unchanged bool, OUT changed bool, OUT locked bool, OUT same bool, OUT gone bool, OUT back bool) LANGUAGE c AS 'lsm'");
is(psql('SELECT * FROM lsm_test_held_rows()'), 't|t|t|f|t|t|t|t', 'a change of the cache is noticed');

# ---- room is made, or not, whatever is pinned
again();
psql("CREATE FUNCTION lsm_test_cache_full() RETURNS bool LANGUAGE c AS 'lsm'");
is($node->psql('postgres', 'SELECT lsm_test_cache_full()', stdout => \my $there, timeout => 120), 0, 'room is made beside pinned blocks');
is($there, 't', 'and the block that wants it is there');

# ---- expanded blocks that nobody uses make way for what scans read again, and for nothing else
psql("CREATE FUNCTION lsm_test_cache_idle(scanned bool) RETURNS int LANGUAGE c AS 'lsm'");
foreach my $scanned ('false', 'true')
{
	again();
	is(psql("SELECT lsm_test_cache_idle($scanned)"), $scanned eq 'true' ? 0 : 12, "idle blocks, scanned: $scanned");
}

# ---- blocks of a segment are spread over all of the cache; what opens a segment finds room
$node->adjust_conf('postgresql.conf', 'lsm.block_cache_size', '128MB');
again();
psql("CREATE FUNCTION lsm_test_cache_chain(int) RETURNS int LANGUAGE c AS 'lsm'");
psql("CREATE FUNCTION lsm_test_cache_holds(int) RETURNS bool LANGUAGE c AS 'lsm'");
cmp_ok(psql('SELECT lsm_test_cache_chain(4000)'), '<', 10, 'few blocks are looked for in one place');
psql("CREATE FUNCTION lsm_test_cache_forget() RETURNS text LANGUAGE c AS 'lsm'");
is( psql('SELECT lsm_test_cache_forget()'),
	'1 of form 0, the other one; the other one; ',
	'what is forgotten of a segment');
is(psql('SELECT lsm_test_cache_holds(1500000)'), 't', 'metadata of a segment of 64 MB are kept');

# ---- a cache that is far too small, and none
foreach my $size ('1MB', '0')
{
	$node->adjust_conf('postgresql.conf', 'lsm.block_cache_size', $size);
	again();
	same("block cache of $size");
}
leave();
$node->check_ok('postgres', 'soundness');
$node->stop;
done_testing();
