# Tables whose segments lie in a store of type file: moving, reading, crashes, a store
# that is away, standbys, copies, workers, dumps.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $node = LsmStoreNode->new('main');
$node->setup(
	conf => "restart_after_crash = on\nmax_prepared_transactions = 5\nlsm.block_cache_size = 0\n");

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

sub sum_of
{
	return psql('SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM t');
}

sub places
{
	return psql(
		'SELECT location, sum(rows) FROM lsm_segments(\'t\') GROUP BY 1 ORDER BY 1');
}

my $server = "CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')";

psql(
	qq{$server;
CREATE TABLE t (id int PRIMARY KEY, a text, b int) USING lsm WITH (lsm.block_size = '8kB');
INSERT INTO t SELECT i, md5(i::text), i % 7 FROM generate_series(1, 20000) i;
SELECT lsm_flush('t');
CREATE TABLE h AS SELECT * FROM t;
});
my $all = sum_of();

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
		is(places(), 'local|20000', 'the segment is local');
		is(sum_of(), $all, 'and whole');
	}
}
$node->check_ok('postgres', 'after moves that failed');
isnt(
	$node->psql_until_crash(
		'postgres', q{SET lsm.debug_stop = 'cold-after-swap:crash'; SELECT lsm_major_compact('t')}),
	'',
	'crash after the swap');
like(places(), qr/^(?:cold|local)\|20000$/, 'the segment is here or there');
is(sum_of(), $all, 'and whole');
$node->check_ok('postgres', 'after a crash');
psql(q{SELECT lsm_major_compact('t')});
is(places(), 'cold|20000', 'the segment is cold');
psql('CREATE TABLE flushes_wal ()');
$node->crash_and_start;
is(places(), 'cold|20000', 'and stays so');
is(sum_of(), $all, 'after recovery');

# ---- reading: requests are counted ----

# get_requests of a session that begins with nothing in its caches
sub gets
{
	my ($sql) = @_;

	psql('SELECT lsm_stat_reset()');
	psql($sql);
	return psql('SELECT get_requests FROM lsm_stat_store');
}

is(gets('SELECT * FROM t WHERE id = 777'), 1, 'a row is one request');
is(gets('SELECT * FROM t WHERE id = 777; SELECT a FROM t WHERE id = 778'),
	1, 'a block that the session has is not read again');
is(gets('SELECT count(*) FROM t WHERE id = 0'), 0, 'no row is no request');
is(gets('EXPLAIN SELECT * FROM t WHERE b = 5'), 0, 'a plan is no request');
is(gets('SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT a FROM t WHERE id > 100000'),
	0, 'nor are blocks that the zone maps rule out');
cmp_ok(gets('SELECT sum(b), max(a) FROM t'), '<', 10, 'a scan makes few requests');

# ---- a store that is away ----

sub away
{
	rename $dir, "$dir.away" or die $!;
	return;
}

sub back
{
	rename "$dir.away", $dir or die $!;
	return;
}

away();
like(error_of('SELECT * FROM t WHERE id = 777'),
	qr/^58P01: .*store "cold"/, 'a row of a store that is away');
like(error_of('SELECT sum(b), max(a) FROM t'), qr/^58P01: .*store "cold"/, 'a scan');
is(psql('SELECT count(*) FROM t WHERE id < 0'), 0, 'what needs no block goes on');
psql('INSERT INTO t SELECT i, md5(i::text), 0 FROM generate_series(20001, 20100) i');
like(error_of("INSERT INTO t VALUES (777, 'x', 0)"),
	qr/^23505: /, 'a key that is there is found without a request');
psql(q{SELECT lsm_flush('t')});
like(error_of(q{SELECT lsm_major_compact('t')}), qr/^58P01: .*store "cold"/, 'a move fails');
is(places(), "cold|20000\nlocal|100", 'and its segment stays local');
my ($code, $stdout, $stderr) = $node->psql('postgres', 'VACUUM t');
is($code, 0, 'VACUUM does not fail');
like($stderr, qr/WARNING:  segments of table "t" were not moved: .*store "cold"/, 'but says so');
like(psql(q{SELECT * FROM lsm_check('t')}), qr/store "cold"/, 'lsm_check tells');
psql('INSERT INTO h SELECT i, md5(i::text), 0 FROM generate_series(20001, 20100) i');
back();
is(sum_of(), psql('SELECT count(*), sum(id), sum(b), count(DISTINCT a) FROM h'),
	'and all is there again');
psql(q{SELECT lsm_major_compact('t')});
is(places(), 'cold|20100', 'the move is made up for');
$node->check_ok('postgres', 'after the store was away');

# ---- changes of cold rows ----

foreach my $table ('t', 'h')
{
	psql(
		"UPDATE $table SET b = b + 10 WHERE id % 100 = 0;
		DELETE FROM $table WHERE id % 100 = 1;
		UPDATE $table SET id = -id WHERE id % 100 = 2;
		INSERT INTO $table SELECT i, md5(i::text), 1 FROM generate_series(30001, 30050) i");
}
sub same_rows
{
	$node->same_ok(
		'postgres',
		'SELECT * FROM t ORDER BY id',
		'SELECT * FROM h ORDER BY id', $_[0]);
	return;
}
same_rows('changed rows');
psql(q{SELECT lsm_flush('t')});
same_rows('changed rows in increments');
my $cursor = $node->session('postgres');
$cursor->query_safe(
	'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 5 FROM c; SELECT sum(id) FROM t');
psql(q{SELECT lsm_major_compact('t')});
is($cursor->query_safe('MOVE ALL FROM c; SELECT 1'), 1, 'a cursor goes on in what was before');
$cursor->quit;
same_rows('changed rows after a major');
$node->check_ok('postgres', 'after changes');

# ---- damage ----

my $key = psql(q{SELECT object_key FROM lsm_segments('t') ORDER BY rows DESC LIMIT 1});

sub write_at
{
	my ($at, $bytes) = @_;

	open my $file, '+<', "$dir/$key" or die $!;
	seek $file, $at, 0;
	read $file, my $old, length $bytes;
	seek $file, $at, 0;
	print $file $bytes;
	close $file;
	return $old;
}

my $old = write_at(100, "\xff" x 8);
like(error_of('SELECT sum(length(a)) FROM t'),
	qr/^XX001: invalid block 0 in object "$key" of store "cold"/,
	'a block with other bytes is found');
like(psql(q{SELECT * FROM lsm_check('t')}), qr/invalid block 0 in object/, 'by lsm_check too');
write_at(100, $old);
same_rows('rows when the bytes are right');
rename "$dir/$key", "$dir/missing" or die $!;
like(error_of('SELECT sum(length(a)) FROM t'),
	qr/^58P01: could not read object "$key" of store "cold"/, 'so is an object that is gone');
like(psql(q{SELECT * FROM lsm_check('t')}), qr/could not read object/, 'by lsm_check too');
rename "$dir/missing", "$dir/$key" or die $!;

# What is brought for rows that are going to be fetched, but are not, is no reason for an error.
psql(q{CREATE TABLE two (id int PRIMARY KEY, k int, a text) USING lsm
	WITH (lsm.block_size = '8kB', lsm.cold_store = 'cold');
INSERT INTO two SELECT i, CASE i WHEN 9000 THEN 1 WHEN 5000 THEN 2 WHEN 1 THEN 3 ELSE 50000 + i END, md5(i::text)
	FROM generate_series(1, 10000) i;
SELECT lsm_flush('two');
SELECT lsm_major_compact('two');
INSERT INTO two SELECT 10000 + i, 3 + i, md5(i::text) FROM generate_series(1, 10000) i;
SELECT lsm_flush('two');
SELECT lsm_major_compact('two');
CREATE INDEX ON two (k);
ANALYZE two});
is(psql(q{SELECT count(*) FROM lsm_segments('two') WHERE location = 'cold'}), 2, 'two segments are cold');
my $first = q{SET enable_sort = off; SET enable_seqscan = off; SET lsm.enable_lsmscan = off;
SET lsm.enable_keyorder = off; SELECT string_agg(id::text, ' ') FROM (SELECT id FROM two ORDER BY k LIMIT %d) s};
$key = psql(q{SELECT object_key FROM lsm_segments('two') ORDER BY first_tid DESC LIMIT 1});
rename "$dir/$key", "$dir/missing" or die $!;
is(psql(sprintf $first, 3), '9000 5000 1', 'rows that are there are read');
like(error_of(sprintf $first, 4), qr/^58P01: could not read object "$key" of store "cold"/,
	'who needs another one is told');
rename "$dir/missing", "$dir/$key" or die $!;
$old = write_at(100, "\xff" x 8);
is(psql(sprintf $first, 3), '9000 5000 1', 'the same of a block with other bytes');
like(error_of(sprintf $first, 4), qr/^XX001: invalid block 0 in object "$key"/, 'who needs it is told');
write_at(100, $old);
is(psql(sprintf $first, 4), '9000 5000 1 10001', 'all rows when the bytes are right');
psql('DROP TABLE two');

# ---- cancel ----

my $session = $node->session('postgres');
my $pid = $node->session_pid($session);
$session->query_safe(
	q{SET lsm.debug_stop = 'cold-before-put:hang'; UPDATE t SET b = b WHERE id = 30001; SELECT lsm_flush('t')}
);
$node->start_query($session, q{SELECT lsm_major_compact('t')});
$node->wait_until('postgres',
	"SELECT wait_event = 'LsmStop' OR wait_event = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
psql("SELECT pg_cancel_backend($pid)");
my (undef, $cancelled) = $node->finish_query($session);
like($cancelled, qr/canceling statement/, 'a move can be cancelled');
$session->quit;
psql(q{SELECT lsm_major_compact('t')});
same_rows('rows after that');

# ---- a standby reads the same objects; promoted, it puts its own ----

my $backup = 'b';
$node->backup($backup);
my $standby = LsmStoreNode->new('standby');
$standby->init_from_backup($node, $backup, has_streaming => 1);
$standby->start;
psql('UPDATE t SET b = 77 WHERE id % 1000 = 3; UPDATE h SET b = 77 WHERE id % 1000 = 3');
psql(q{SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
psql('INSERT INTO t VALUES (40000, $$new$$, 0); INSERT INTO h VALUES (40000, $$new$$, 0)');
$node->wait_for_catchup($standby);
$standby->same_ok(
	'postgres',
	'SELECT * FROM t ORDER BY id',
	'SELECT * FROM h ORDER BY id',
	'rows on a standby');
is($standby->safe_psql('postgres', q{SELECT * FROM lsm_check('t')}), '', 'which is sound');
my $before = objects();
$standby->promote;
$standby->safe_psql('postgres',
	q{UPDATE t SET b = 78 WHERE id % 1000 = 3; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
is( $standby->safe_psql('postgres',
		q{SELECT DISTINCT location FROM lsm_segments('t')}),
	'cold',
	'a promoted standby puts objects');
cmp_ok(objects(), '>', $before, 'of its own');
isnt(
	$standby->safe_psql('postgres',
		q{SELECT min(split_part(object_key, '/', 2)) FROM lsm_segments('t') WHERE rows > 1000}),
	psql(q{SELECT min(split_part(object_key, '/', 2)) FROM lsm_segments('t') WHERE rows > 1000}),
	'under another token');
same_rows('the original has its own');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM t WHERE b = 78'),
	$standby->safe_psql('postgres', 'SELECT count(*) FROM h WHERE b = 77'),
	'the copy, too');
$standby->check_ok('postgres', 'promoted standby');
$standby->stop;

# ---- copies of the database ----

$node->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
is( $node->safe_psql('copy', 'SELECT count(*) FROM t'),
	psql('SELECT count(*) FROM t'),
	'a copy reads what it was copied with');
$node->safe_psql('copy',
	q{UPDATE t SET b = 79 WHERE id % 1000 = 4; SELECT lsm_flush('t'); SELECT lsm_major_compact('t'); DROP TABLE t}
);
same_rows('and takes nothing away');
my $token = q{SELECT split_part(object_key, '/', 2) FROM lsm_segments('t') ORDER BY segment_id DESC LIMIT 1};
my $token_before = psql($token);
psql(q{UPDATE t SET b = b WHERE id % 1000 = 4; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
isnt(psql($token), $token_before, 'the original has another token from then on');
$token_before = psql($token);
$node->restart;
psql(q{UPDATE t SET b = b WHERE id % 1000 = 4; SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
is(psql($token), $token_before, 'and keeps it after a restart');
same_rows('rows of the original');
$node->safe_psql('postgres', 'DROP DATABASE copy');

# ---- dump and restore ----

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'dump');
$node->safe_psql('template1', 'CREATE DATABASE restored');
is( (   $node->psql(
			'restored', undef,
			extra_params => [ '-f', $dump ],
			on_error_stop => 1))[0],
	0,
	'restore');
is( $node->safe_psql('restored', q{SELECT value FROM lsm_options('t') WHERE option = 'lsm.cold_store'}),
	'cold',
	'the option is dumped');
$node->safe_psql('restored', q{SELECT lsm_flush('t'); SELECT lsm_major_compact('t')});
is( $node->safe_psql('restored', q{SELECT DISTINCT location FROM lsm_segments('t')}),
	'cold',
	'and obeyed');
like($node->error_of('restored', 'DROP SERVER cold CASCADE'),
	qr/^2BP01: cannot drop server "cold"/, 'with its dependency');
$node->safe_psql('postgres', 'DROP DATABASE restored');

# ---- a label by who is no superuser ----

my $label = q{SECURITY LABEL FOR lsm ON TABLE labelled IS 'cold_store=cold'};
psql(q{CREATE ROLE r LOGIN; CREATE TABLE labelled (i int) USING lsm; ALTER TABLE labelled OWNER TO r});
like($node->error_of('postgres', $label, extra_params => [ '-U', 'r' ]),
	qr/^42501: permission denied for foreign server cold/, 'who may not use a store does not keep it by a label');
is(psql(q{SELECT value FROM lsm_options('labelled') WHERE option = 'lsm.cold_store'}), '', 'there is none');
psql('GRANT USAGE ON FOREIGN SERVER cold TO r');
is($node->error_of('postgres', $label, extra_params => [ '-U', 'r' ]), '', 'who may does');
is(psql(q{SELECT value FROM lsm_options('labelled') WHERE option = 'lsm.cold_store'}), 'cold', 'it is there');
psql('DROP TABLE labelled; REVOKE USAGE ON FOREIGN SERVER cold FROM r; DROP ROLE r');

# ---- workers move ----

psql('ALTER TABLE t RESET (lsm.cold_store)');
$node->append_conf('postgresql.conf', 'lsm.compaction_workers = 2');
$node->restart;
$node->wait_until('postgres',
	q{SELECT count(*) FILTER (WHERE location <> 'local') = 0 FROM lsm_segments('t')});
pass('workers bring segments back');
$node->wait_until('postgres',
	q{SELECT count(*) = 0 FROM pg_depend WHERE refclassid = 'pg_foreign_server'::regclass
		AND classid = 'pg_class'::regclass});
pass('and then the table does not depend on the server');
same_rows('rows that are back');
away();
like(error_of(q{ALTER TABLE t SET (lsm.cold_store = 'cold')}),
	qr/^58P01: .*store "cold"/, 'a store that is away cannot be attached');
back();
psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
$node->wait_until('postgres',
	q{SELECT count(*) FILTER (WHERE location = 'local' AND kind = 'baseline') = 0
		AND sum(rows) > 10000 FROM lsm_segments('t')});
pass('workers move segments out');
same_rows('rows that workers have moved');
away();
psql('INSERT INTO t SELECT i, $$w$$, 0 FROM generate_series(50000, 50100) i; SELECT lsm_flush($$t$$)');
psql('INSERT INTO h SELECT i, $$w$$, 0 FROM generate_series(50000, 50100) i');
$node->wait_until('postgres',
	q{SELECT last_error LIKE '%store "cold"%' FROM lsm_stat_tables WHERE relname = 't'});
pass('an error of a worker is shown');
back();
$node->wait_until('postgres',
	q{SELECT count(*) FILTER (WHERE location = 'local' AND kind = 'baseline') = 0
		FROM lsm_segments('t')});
pass('and the worker tries again');

# how far a move has come: who stops at the next segment comes to the lock behind the second session
my $local = q{SELECT count(*) FILTER (WHERE location = 'local') || ' of ' || count(*) FROM lsm_segments('two')};
$node->set_workers(0);
psql(q{CREATE TABLE two (i int) USING lsm; INSERT INTO two SELECT generate_series(1, 1000); SELECT lsm_flush('two')});
psql(q{INSERT INTO two SELECT generate_series(1001, 2000); SELECT lsm_flush('two'); SELECT lsm_major_compact('two')});
psql(q{ALTER TABLE two SET (lsm.cold_store = 'cold')});
is(psql($local), '2 of 2', 'two segments are to be moved');
my $gate = $node->session('postgres');
my $next = $node->session('postgres');
my $next_pid = $node->session_pid($next);
my $asker = $node->session('postgres');
my $asker_pid = $node->session_pid($asker);
my $progress = "FROM lsm_stat_progress_compaction WHERE relid = 'two'::regclass AND pid = $asker_pid";
my $shown = "SELECT job, phase, segments_done, segments_total, bytes_done > 0, bytes_done < bytes_total $progress";
$gate->query_safe('SELECT pg_advisory_lock(7107437)');
$asker->query_safe("SET lsm.debug_stop = 'cold-before-put:wait'");
$node->start_query($asker, "SELECT FROM lsm_major_compact('two'); $local");
$node->wait_blocked($asker_pid);
is(psql($shown), 'move|moving segments|0|2|f|t', 'a move shows');
$node->start_query($next, 'SELECT pg_advisory_lock(7107437)');
$node->wait_blocked($next_pid);
$gate->quit;
$node->wait_until('postgres', "SELECT count(*) = 1 $progress AND segments_done = 1 AND phase = 'moving segments'");
is(psql($shown), 'move|moving segments|1|2|t|t', 'and how far it has come');
$next->quit;
is(($node->finish_query($asker))[0], '0 of 2', 'then both are moved');
is(psql("SELECT count(*) $progress"), 0, 'and it shows no more');

# who asks for a compaction moves segments too, and waits for the one that a worker is moving
psql(q{ALTER TABLE two RESET (lsm.cold_store); SELECT lsm_major_compact('two')});
psql(q{ALTER TABLE two SET (lsm.cold_store = 'cold')});
is(psql($local), '2 of 2', 'both are to be moved again');
$gate = $node->session('postgres');
$gate->query_safe('SELECT pg_advisory_lock(7107437)');
$asker->query_safe("SET lsm.debug_stop = 'cold-before-put:wait'");
$node->start_query($asker, "SELECT FROM lsm_major_compact('two'); $local");
$node->wait_blocked($asker_pid);
psql("ALTER DATABASE postgres SET lsm.debug_stop = 'cold-before-put:hang'");
$node->set_workers(1);
psql(q{SET lsm.debug_stop = ''; SELECT lsm_flush('two')});
my $mover = q{FROM pg_stat_activity WHERE backend_type = 'lsm worker' AND query LIKE 'lsm: %' AND wait_event IN ('LsmStop', 'Extension')};
$node->wait_until('postgres', "SELECT count(*) = 1 $mover");
is( psql("SET lsm.debug_stop = ''; SELECT job, phase, segments_done, segments_total FROM lsm_stat_progress_compaction WHERE pid <> $asker_pid"),
	'move|moving segments|0|2', 'a move of a worker shows, too');
$gate->quit;
$node->wait_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE pid = $asker_pid AND locktype = 'object' AND NOT granted");
is(psql("SET lsm.debug_stop = ''; $local"), '1 of 2', 'it has moved one, and waits for the other');
psql('ALTER DATABASE postgres RESET lsm.debug_stop');
psql("SET lsm.debug_stop = ''; SELECT pg_terminate_backend(pid) $mover");
is(($node->finish_query($asker))[0], '0 of 2', 'which it moves itself, as the worker is no more');
$asker->quit;
$node->set_workers(0);
$node->restart;
same_rows('rows in the end');
$node->check_ok('postgres', 'in the end');

# ---- the size of objects: flushes make segments of lsm.segment_size, majors of cold tables
# ones of lsm.cold_segment_size; one row more than that, and what opens a segment
my $sizes = q{SELECT count(*), count(DISTINCT object_key), max(stored_bytes) < %d * 1024 * 1024 + 100000,
	count(*) FILTER (WHERE stored_bytes >= (%1$d - 1) * 1024 * 1024) FROM lsm_segments('%s')};
foreach my $table ('sized', 'sized_local')
{
	psql(qq{CREATE TABLE $table (i int, v int, a text) USING lsm; ALTER TABLE $table ALTER a SET STORAGE external});
	psql(qq{ALTER TABLE $table SET (lsm.cold_store = 'cold')}) if $table eq 'sized';
	psql(qq{INSERT INTO $table SELECT i, i, repeat(chr(64 + i), 1024 * 1024 - 1) FROM generate_series(1, 38) i});
	psql(qq{SET lsm.segment_size = '4MB'; SET lsm.cold_segment_size = '16MB'; SELECT lsm_flush('$table'); SELECT lsm_major_compact('$table')});
	is(psql(sprintf $sizes, 5, $table), '10|' . ($table eq 'sized' ? 10 : 0) . '|t|9', "$table: as flushes make them");
	psql(qq{UPDATE $table SET v = -v});
	psql(qq{SET lsm.segment_size = '4MB'; SET lsm.cold_segment_size = '16MB'; SELECT lsm_flush('$table'); SELECT lsm_major_compact('$table')});
}
is(psql(sprintf $sizes, 17, 'sized'), '3|3|t|2', 'a major makes larger objects, where they belong to a store');
psql(q{DELETE FROM sized WHERE i > 34});
psql(q{SET lsm.cold_segment_size = '16MB'; SELECT lsm_flush('sized'); SELECT lsm_major_compact('sized')});
is(psql(sprintf $sizes, 17, 'sized'), '3|3|t|2', 'what has become small stays');
psql(q{UPDATE sized SET v = v + 1});
psql(q{SET lsm.cold_segment_size = '16MB'; SELECT lsm_flush('sized'); SELECT lsm_major_compact('sized')});
is(psql(sprintf $sizes, 19, 'sized'), '2|2|t|1', 'but all in one, it is part of the one before');
is(psql(sprintf $sizes, 5, 'sized_local'), '10|0|t|9', 'and only there');
psql(q{DROP TABLE sized, sized_local});

# ---- a block that a session has opened where the block cache had it, and has no more
# u is read into the block cache by one session, and from there by another that has no room
# for copies, as half of its share is taken by v; then the rest of v takes all of the block
# cache.  (All is noise, and long: so there are neither expanded blocks nor row blocks.)
psql(qq{CREATE TABLE $_->[0] (id int PRIMARY KEY, a bytea) USING lsm;
	ALTER TABLE $_->[0] ALTER a SET STORAGE PLAIN;
	INSERT INTO $_->[0] SELECT i, (SELECT string_agg(decode(md5(i || '.' || k), 'hex'), '') FROM generate_series(1, 160) k)
		FROM generate_series(1, $_->[1]) i;
	SELECT lsm_flush('$_->[0]')})
  foreach (['u', 300], ['v', 12000]);
psql(q{ALTER TABLE u SET (lsm.cold_store = 'cold'); SELECT lsm_major_compact('u')});
is(psql(q{SELECT location FROM lsm_segments('u')}), 'cold', 'a cold table');
$node->adjust_conf('postgresql.conf', 'lsm.block_cache_size', '16MB');
$node->adjust_conf('postgresql.conf', 'lsm.session_cache_size', '16MB');
$node->restart;

sub look_up
{
	my ($table, $rows) = @_;

	return 'SET enable_seqscan = off; SET enable_bitmapscan = off; '
	  . "SELECT count(a) FROM generate_series(1, $rows) n, LATERAL (SELECT a FROM $table WHERE id = n * 7919::int8 % $rows + 1 OFFSET 0) x";
}

my $session = $node->session('postgres');
psql(look_up('u', 300));
$session->query_safe(look_up('v', 4500));
is($session->query_safe(look_up('u', 300)), 300, 'rows of blocks that are in the block cache');
psql(look_up('v', 12000));
away();
is( $session->query_safe(
		q{DO $$
		BEGIN
			FOR i IN 1 .. 300 LOOP
				BEGIN
					INSERT INTO u VALUES (i, '');
					ASSERT false;
				EXCEPTION WHEN unique_violation THEN
					NULL;
				END;
			END LOOP;
		END $$;
		SELECT 'all'}),
	'all', 'and of which the keys are found when they have left it');
back();
$session->quit;
psql('DROP TABLE t, u, v, two; DROP SERVER cold');
$node->stop;
done_testing();
