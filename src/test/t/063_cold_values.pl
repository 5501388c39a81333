# Large values in a store: what is left here, crashes of moves, what is asked for, pointers
# that outlive a move, damage, standbys, the disk cache.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
$node->setup(
	conf =>
	  "restart_after_crash = on\nautovacuum = off\nlsm.block_cache_size = 0\nshared_buffers = 32MB\n"
);

my $dir = $node->basedir . '/cold';
mkdir $dir or die $!;

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub error_of
{
	return $node->error_of('postgres', $_[0]);
}

sub objects
{
	my @files = map { chomp; $_ } `cd '$dir' && find . -type f -not -name '*~*' | sort`;

	return scalar @files;
}

sub places
{
	return psql(
		'SELECT location, sum(rows) FROM lsm_segments(\'t\') GROUP BY 1 ORDER BY 1');
}

# Values as a table of the server's has them.
sub same_rows
{
	my ($label, $on) = @_;

	($on // $node)->same_ok(
		'postgres',
		'SELECT id, n, length(v), md5(v), w FROM t ORDER BY id',
		'SELECT id, n, length(v), md5(v), w FROM h ORDER BY id', $label);
	return;
}

# Nobody has a snapshot from before; then what is retired can go.
sub free_retired
{
	psql('SELECT pg_current_xact_id()');
	psql('VACUUM t');
	return;
}

sub file_bytes
{
	return psql(q{SELECT (pg_stat_file(pg_relation_filepath('t'))).size});
}

sub compact
{
	psql(q{SELECT lsm_flush('t')});
	psql(q{SELECT lsm_major_compact('t')});
	return;
}

psql(
	qq{CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir');
-- a kilobyte of noise, over and over
CREATE FUNCTION doc(i int, kb int) RETURNS bytea LANGUAGE sql AS
	\$\$ SELECT convert_to(repeat((SELECT string_agg(md5(i::text || k::text), '') FROM generate_series(1, 32) k), kb), 'UTF8') \$\$;
CREATE TABLE h (id int PRIMARY KEY, n int, v bytea, w text);
ALTER TABLE h ALTER v SET STORAGE EXTERNAL;
INSERT INTO h SELECT i, i % 7, doc(i, 40), 'row ' || i FROM generate_series(1, 300) i;
INSERT INTO h SELECT i, i % 7, 'short', 'row ' || i FROM generate_series(301, 310) i;
INSERT INTO h VALUES (1000, 0, doc(1000, 30000), 'long');
CREATE TABLE t (LIKE h INCLUDING ALL) USING lsm;
INSERT INTO t TABLE h ORDER BY id;
CREATE TABLE xids (a int);
-- the values that a cursor has not given yet
CREATE FUNCTION rest(OUT rows int, OUT good bool) LANGUAGE plpgsql AS \$\$
DECLARE
	c refcursor := 'c';
	r record;
BEGIN
	rows := 0;
	good := true;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows + 1;
		good := good AND coalesce(r.v = (SELECT v FROM h WHERE h.id = r.id), false);
	END LOOP;
END \$\$;
});
compact();
psql('VACUUM t');
my $local_bytes = file_bytes();
cmp_ok($local_bytes, '>', 40 * 1024 * 1024, 'a table of large values');
is(psql(q{SELECT count(DISTINCT location) FROM lsm_segments('t')}), '1', 'all of it is here');

# ---- stop points: nothing is lost, whatever the move has done ----

psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
foreach my $stop ('cold-before-put', 'store-before-visible', 'cold-after-put', 'cold-before-swap')
{
	foreach my $action ('error', 'crash')
	{
		my $sql = "SET lsm.debug_stop = '$stop:$action'; SELECT lsm_major_compact('t')";

		if ($action eq 'error')
		{
			like(error_of($sql), qr/$stop/, "error at $stop");
		}
		else
		{
			isnt($node->psql_until_crash('postgres', $sql), '', "crash at $stop");
		}
		is(places(), 'local|311', 'the segment is local');
		same_rows('and whole');
	}
}
$node->check_ok('postgres', 'after moves that failed');
isnt(
	$node->psql_until_crash(
		'postgres', q{SET lsm.debug_stop = 'cold-after-swap:crash'; SELECT lsm_major_compact('t')}),
	'',
	'crash after the swap');
like(places(), qr/^(?:cold|local)\|311$/, 'the segment is here or there');
same_rows('and whole');
$node->check_ok('postgres', 'after a crash');
psql(q{SELECT lsm_major_compact('t')});
is(places(), 'cold|311', 'the segment is cold');
psql('INSERT INTO xids VALUES (1)');
$node->crash_and_start;
is(places(), 'cold|311', 'and stays so');
same_rows('after recovery');
free_retired();
cmp_ok(file_bytes(), '<', $local_bytes / 20, 'little is left here');
same_rows('what is there is read');
$node->check_ok('postgres', 'in the store');
psql('SELECT lsm_store_remove_orphans($$cold$$, $$0$$)');
is(objects(), 1, 'what failed moves have left is removed');

# ---- requests ----

# Requests and bytes of a session that begins with nothing in its caches.
sub asked
{
	my ($sql) = @_;

	psql('SELECT lsm_stat_reset()');
	psql($sql);
	return psql(
		q{SELECT coalesce(store_requests, 0) || ' ' || coalesce(store_bytes_read, 0) FROM lsm_stat_tables WHERE relname = 't'}
	);
}

# The same without those of blocks: of a row whose values are not looked at.
sub asked_more
{
	my ($sql, $without) = @_;
	my ($r, $b) = split / /, asked($sql);
	my ($r0, $b0) = split / /, asked($without);

	return ($r - $r0) . ' ' . ($b - $b0);
}

is(asked('SELECT count(v), sum(n) FROM t') =~ /^(\d+) (\d+)$/ && $2 < 100_000 ? 1 : 0,
	1, 'a scan of other columns reads no values');
my $row = 'SELECT n FROM t WHERE id = 7';
is(asked_more('SELECT v FROM t WHERE id = 7', $row), '1 40960', 'a value is one request');
is(asked_more('SELECT substr(v, 1001, 20) FROM t WHERE id = 7', $row),
	'1 20', 'a slice is read alone');
is(asked_more('SELECT length(v) FROM t WHERE id = 7', $row), '0 0', 'a length is known');
is( asked_more('SELECT substr(v, 30719990, 100) FROM t WHERE id = 1000',
		'SELECT n FROM t WHERE id = 1000'),
	'1 11', 'the end of a long value');
is( asked_more('SELECT md5(v) FROM t WHERE id = 1000', 'SELECT n FROM t WHERE id = 1000'),
	'8 30720000', 'a long value is asked for in parts that are under way together');
my ($requests) = split / /, asked('SELECT sum(length(md5(v))) FROM t WHERE id <= 300');
cmp_ok($requests, '<', 15, 'values in their order are asked for many at a time');
my $by_index = 'SET enable_seqscan = off';		# also before it is a table that is changed
is(asked_more("$by_index; UPDATE t SET n = n + 0 WHERE id = 9", "$by_index; SELECT n FROM t WHERE id = 9"),
	'0 0', 'a change of another column reads no value');
is( psql(
		q{SELECT sum(requests) > 0 AND sum(bytes_read) > 0 FROM lsm_stat_io WHERE method = 'store'}),
	't', 'lsm_stat_io counts them');

# ---- changes ----

foreach my $table ('t', 'h')
{
	psql(
		"UPDATE $table SET n = n + 1 WHERE id % 5 = 0;
		UPDATE $table SET v = doc(-id, 20) WHERE id % 50 = 1;
		UPDATE $table SET id = -id WHERE id % 100 = 2;
		DELETE FROM $table WHERE id % 100 = 3;
		INSERT INTO $table SELECT i, 1, doc(i, 10), 'new' FROM generate_series(2001, 2010) i");
}
same_rows('changed rows');
my $cursor = $node->session('postgres');
$cursor->query_safe(
	'BEGIN; DECLARE c CURSOR FOR SELECT id, v FROM t ORDER BY n, id; MOVE 5 FROM c');
psql(q{SELECT lsm_flush('t')});
same_rows('changed rows in increments');
($requests) = split / /, asked(q{SELECT lsm_major_compact('t')});
cmp_ok($requests, '<', 60, 'a compaction asks for many values at a time');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'cold', 'all is cold again');
same_rows('changed rows after a major');
psql('INSERT INTO xids VALUES (1)');
psql('VACUUM t');
is(psql('SELECT lsm_store_remove_orphans($$cold$$, $$0$$)'),
	0, 'what somebody has pointers to is not removed');
is($cursor->query_safe('SELECT * FROM rest()'), '312|t', 'a cursor goes on');
$cursor->query_safe('COMMIT');
$node->check_ok('postgres', 'after changes');
free_retired();
is(psql('SELECT lsm_store_remove_orphans($$cold$$, $$0$$)'),
	1, 'when nobody has, the object goes');
same_rows('what is needed is there');

# ---- pointers that were made before a move lead to their values after it ----

foreach my $to ('RESET (lsm.cold_store)', q{SET (lsm.cold_store = 'cold')})
{
	my $where = $to =~ /RESET/ ? 'local' : 'cold';

	$cursor->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id, v FROM t WHERE id BETWEEN 20 AND 90 ORDER BY n, id; MOVE 1 FROM c'
	);
	psql("ALTER TABLE t $to");
	psql(q{SELECT lsm_major_compact('t')});
	like(places(), qr/^$where\|\d+$/, "all is $where");

	# others could use pages and numbers now, and delete objects
	psql('INSERT INTO xids VALUES (1)');
	psql('VACUUM t');
	psql('SELECT lsm_store_remove_orphans($$cold$$, $$0$$)');
	psql(q{INSERT INTO t SELECT i, 1, doc(i, 10), 'x' FROM generate_series(3001, 3300) i;
		DELETE FROM t WHERE id BETWEEN 3001 AND 3300});
	compact();
	is($cursor->query_safe('SELECT * FROM rest()'), '70|t', "pointers from before all was $where");
	$cursor->query_safe('ROLLBACK');
	same_rows('rows after that');
	$node->check_ok('postgres', 'after that');
	free_retired();
}
$cursor->quit;

# ---- crashes on the way back ----

psql('ALTER TABLE t RESET (lsm.cold_store)');
foreach my $action ('error', 'crash')
{
	my $sql = "SET lsm.debug_stop = 'cold-before-return:$action'; SELECT lsm_major_compact('t')";

	if ($action eq 'error')
	{
		like(error_of($sql), qr/cold-before-return/, 'error on the way back');
	}
	else
	{
		isnt($node->psql_until_crash('postgres', $sql), '', 'crash on the way back');
	}
	is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'cold', 'the segment is cold');
	same_rows('and whole');
}
psql(q{SELECT lsm_major_compact('t')});
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', 'the segment is local');
same_rows('after it came back');
like(error_of('DROP SERVER cold'),
	qr/^2BP01: cannot drop server "cold"/, 'the server stays as long as it may be asked');
free_retired();
psql(q{SELECT lsm_major_compact('t')});
is( psql(
		q{SELECT count(*) FROM pg_depend WHERE refclassid = 'pg_foreign_server'::regclass AND classid = 'pg_class'::regclass}
	),
	0, 'and no longer');
$node->check_ok('postgres', 'after it came back');

# ---- TRUNCATE, DROP ----

psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
psql(q{SELECT lsm_major_compact('t')});
psql(q{BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1, doc(1, 20), 'x'); ROLLBACK});
same_rows('after a TRUNCATE that was rolled back');
psql(q{BEGIN; DROP TABLE t; ROLLBACK});
same_rows('after a DROP that was rolled back');

# ---- damage ----

free_retired();
psql('SELECT lsm_store_remove_orphans($$cold$$, $$0$$)');
my $key = psql(q{SELECT object_key FROM lsm_segments('t') ORDER BY rows DESC LIMIT 1});

# Write a byte of the object; returns the one that was there.
sub write_byte
{
	my ($at, $byte) = @_;

	open my $file, '+<:raw', "$dir/$key" or die $!;
	seek $file, $at, 0;
	read $file, my $old, 1;
	seek $file, $at, 0;
	print $file $byte;
	close $file;
	return $old;
}

# The value of a row is text of its own: find it, and change a byte.  Returns what undoes that.
sub damage_value
{
	my ($id) = @_;
	my $text = psql("SELECT convert_from(substr(v, 1, 1024), 'UTF8') FROM h WHERE id = $id");

	open my $file, '<:raw', "$dir/$key" or die $!;
	local $/;
	my $at = index <$file>, $text;
	die 'there is no such value' if $at < 0;
	close $file;
	$at += 5;
	return ($at, write_byte($at, substr($text, 5, 1) eq '0' ? '1' : '0'));
}

# a long value is copied in pieces
my ($at, $old) = damage_value(1000);
like(error_of(q{ALTER TABLE t RESET (lsm.cold_store); SELECT lsm_major_compact('t')}),
	qr/^XX001: invalid large value at byte \d+ of object "$key" of store "cold"/,
	'a move back does not copy a long value with other bytes');
psql(q{UPDATE t SET n = n + 0; SELECT lsm_flush('t')});
like(error_of(q{SELECT lsm_major_compact('t')}),
	qr/^XX001: invalid large value at byte \d+ of object "$key" of store "cold"/,
	'nor does a compaction');
psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
write_byte($at, $old);
damage_value(120);
like(error_of('SELECT md5(v) FROM t WHERE id = 120'),
	qr/^XX001: invalid large value at byte \d+ of object "$key" of store "cold"/,
	'a value with other bytes is found');
like(error_of('SELECT sum(length(md5(v))) FROM t'),
	qr/^XX001: invalid large value at byte \d+ of object "$key" of store "cold"/,
	'by a scan, too');
is(psql('SELECT md5(v) FROM t WHERE id = 121'),
	psql('SELECT md5(v) FROM h WHERE id = 121'), 'others can be read');
like(psql(q{SELECT * FROM lsm_check('t')}), qr/invalid large value at byte/, 'lsm_check tells');
like(error_of(q{SELECT lsm_major_compact('t')}),
	qr/^XX001: invalid large value at byte \d+ of object "$key" of store "cold"/,
	'a compaction does not copy it');
psql('ALTER TABLE t RESET (lsm.cold_store)');
rename "$dir/$key", "$dir/missing" or die $!;
like(error_of('SELECT md5(v) FROM t WHERE id = 121'),
	qr/^58P01: could not read object "$key" of store "cold"/, 'so is an object that is gone');
rename "$dir/missing", "$dir/$key" or die $!;
psql('DROP TABLE t');
psql('CREATE TABLE t (LIKE h INCLUDING ALL) USING lsm WITH (lsm.cold_store = $$cold$$)');
psql('INSERT INTO t TABLE h ORDER BY id');
compact();
free_retired();
same_rows('a new table');

# ---- a standby ----

my $backup = 'b';
$node->backup($backup);
my $standby = LsmStoreNode->new('standby');
$standby->init_from_backup($node, $backup, has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = -1');
$standby->start;
same_rows('values on a standby', $standby);
my $reader = $standby->session('postgres');
$reader->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id, v FROM t ORDER BY n, id; MOVE 1 FROM c');
psql('ALTER TABLE t RESET (lsm.cold_store)');
psql(q{SELECT lsm_major_compact('t')});
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', 'all is local');
$node->wait_for_catchup($standby);
like($reader->query_safe('SELECT * FROM rest()'),
	qr/^3\d\d\|t$/, 'a cursor on the standby goes on when the values have moved');
$reader->query_safe('COMMIT');
psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
compact();
free_retired();
$node->wait_for_catchup($standby);
$reader->quit;
same_rows('values on the standby after that', $standby);
is($standby->safe_psql('postgres', q{SELECT * FROM lsm_check('t')}), '', 'which is sound');
$standby->stop;

# ---- the disk cache, and workers ----

$node->append_conf('postgresql.conf', "lsm.store_cache_size = '16MB'\nlsm.compaction_workers = 1");
$node->restart;
psql('SELECT md5(v) FROM t WHERE id = 50');
is(asked('SELECT md5(v) FROM t WHERE id = 50'), '0 0', 'a value comes from the disk cache');
is(asked('SELECT substr(v, 20, 10) FROM t WHERE id = 50'), '0 0', 'so does a part of it');
psql('ALTER TABLE t RESET (lsm.cold_store)');
$node->wait_until('postgres',
	q{SELECT count(*) FILTER (WHERE location <> 'local') = 0 FROM lsm_segments('t')});
psql('INSERT INTO xids VALUES (1)');
$node->wait_until('postgres',
	q{SELECT count(*) = 0 FROM pg_depend WHERE refclassid = 'pg_foreign_server'::regclass
		AND classid = 'pg_class'::regclass});
pass('workers bring values back, and give up what nobody reads');
same_rows('in the end');
$node->check_ok('postgres', 'in the end');
psql('DROP TABLE t; DROP SERVER cold');
$node->stop;
done_testing();
