# Rows that move go to pages with rows that were near them (lsm_near.c): what else happens while
# such pages are being made, where whoever makes them fails, many sessions at once, a crash, and a
# standby.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use IPC::Run ();

my $node = LsmNode->new('near');

$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
autovacuum = off
restart_after_crash = off
deadlock_timeout = 100ms
shared_buffers = 128MB
wal_keep_size = 4GB
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION lsm;
	CREATE TABLE m (id int PRIMARY KEY, v int, n int, pad text) USING lsm WITH (lsm.auto_compact = off);
	CREATE INDEX ON m (v);
	CREATE TABLE done (id int, by int) USING heap;
	INSERT INTO m SELECT i, 0, 0, repeat(md5(i::text), 3) FROM generate_series(1, 10000) i;
	SELECT lsm_flush('m');
	CREATE PROCEDURE move(first int, last int, step int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN first .. last LOOP
			UPDATE m SET v = v + 1 WHERE id = (i::int8 * step) % 10000 + 1;
			COMMIT;
		END LOOP;
	END $$});
$node->backup('base');

my $standby = LsmNode->new('standby');

$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

# Pages of a hundred neighbours, on the average.
my $pages = q{SELECT round(avg(n)) FROM (SELECT count(DISTINCT (ctid::text::point)[0]) AS n FROM m GROUP BY (id - 1) / 100) x};
my $moved = q{SELECT count(*), sum(v) FROM m};
my $hold = q{SELECT pg_advisory_lock(7107437)};

sub moved_ok
{
	my ($sum, $label) = @_;

	is($node->safe_psql('postgres', $moved), "10000|$sum", "all rows are there: $label");
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET lsm.enable_lsmscan = off; SELECT count(*), sum(v) FROM m WHERE id > 0'),
		"10000|$sum", "and by the index: $label");
	$node->check_ok('postgres', $label);
	return;
}

# ---- while pages are being made ----

my $holder = $node->session('postgres');
my $total = 0;

foreach my $point (qw(near-range near-install))
{
	my $maker = $node->session('postgres');
	my $pid = $node->session_pid($maker);

	# others move rows
	$holder->query_safe($hold);
	$maker->query_safe("SET lsm.debug_stop = '$point:wait'");
	$node->start_query($maker, 'CALL move(1, 2000, 7919)');
	$node->wait_blocked($pid);
	$node->safe_psql('postgres', 'CALL move(2001, 2500, 7919)');
	$holder->query_safe('SELECT pg_advisory_unlock_all()');
	my ($out, $err) = $node->finish_query($maker);
	is($err, '', "others move rows at $point");
	$total += 2500;

	# the memtable is flushed, and again
	$node->safe_psql('postgres', q{SELECT lsm_flush('m')});
	$holder->query_safe($hold);
	$node->start_query($maker, 'CALL move(3001, 6000, 7919)');
	$node->wait_blocked($pid);
	$node->safe_psql('postgres', q{SELECT lsm_flush('m'); CALL move(2501, 3000, 7919); SELECT lsm_flush('m')});
	$holder->query_safe('SELECT pg_advisory_unlock_all()');
	($out, $err) = $node->finish_query($maker);
	is($err, '', "the memtable is flushed at $point");
	$total += 3500;

	$maker->query_safe('RESET lsm.debug_stop');
	$node->safe_psql('postgres', q{SELECT lsm_flush('m')});

	# whoever makes them fails, and others do it after a while
	my ($code, $stdout, $stderr) = $node->psql('postgres', "SET lsm.debug_stop = '$point:error'; CALL move(6001, 10000, 7919)");
	isnt($code, 0, "an error at $point");
	# one move is undone, which was the one that came to it
	my $done = $node->safe_psql('postgres', 'SELECT sum(v) FROM m') - $total;
	ok($done > 500 && $done < 2000, "rows that were moved before have moved: $done");
	$node->safe_psql('postgres', "CALL move(@{[6001 + $done]}, 10000, 7919)");
	$total += 4000;
	moved_ok($total, "after $point");
	cmp_ok($node->safe_psql('postgres', $pages), '<', 70, "neighbours are together all the same: $point");
	$maker->quit;
}

# ---- batches that last, and what one generation has found out for the next one ----

$node->safe_psql('postgres', q{
	CREATE TABLE l (id int PRIMARY KEY, v int, pad text) USING lsm WITH (lsm.auto_compact = off);
	CREATE INDEX ON l (v);
	INSERT INTO l SELECT i, 0, md5(i::text) FROM generate_series(1, 100000) i;
	SELECT lsm_flush('l');
	CREATE PROCEDURE move_l(first int, last int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN first .. last LOOP
			UPDATE l SET v = v + 1 WHERE id = (i::int8 * 7919) % 100000 + 1;
			IF i % 500 = 0 THEN
				COMMIT;
			END IF;
		END LOOP;
	END $$});
$node->safe_psql('postgres', $_) foreach ('CALL move_l(1, 30000)', q{SELECT lsm_flush('l')}, 'CALL move_l(30001, 60000)');

# with batches that only grow from one to the next it would be 11
cmp_ok($node->safe_psql('postgres', q{SELECT round(avg(n), 1) FROM (SELECT count(DISTINCT (ctid::text::point)[0]) AS n FROM l GROUP BY (id - 1) / 100) x}),
	'<', 9.5, 'a hundred neighbours lie in few pages, after two generations');

# Pages of those rows that move in the third one.
my $third = q{SELECT count(DISTINCT (ctid::text::point)[0]) FROM l, generate_series(60001, 61000) i WHERE id = (i::int8 * 7919) % 100000 + 1};
my $flusher = $node->session('postgres');
my $flusher_pid = $node->session_pid($flusher);

$holder->query_safe($hold);
$flusher->query_safe(q{SET lsm.debug_stop = 'flush-before-swap:wait'});
$node->start_query($flusher, q{SELECT lsm_flush('l')});
$node->wait_blocked($flusher_pid);
$node->safe_psql('postgres', 'CALL move_l(60001, 61000)');

# a thousand of them fill nine pages, where they are put as they come, and begin 16 more if there is a trial
cmp_ok($node->safe_psql('postgres', $third), '>', 60, 'rows are placed from the beginning');
$holder->query_safe('SELECT pg_advisory_unlock_all()');
my ($flush_out, $flush_err) = $node->finish_query($flusher);
is($flush_err, '', 'the flush ends');
$flusher->quit;
is($node->safe_psql('postgres', 'SELECT count(*), sum(v), count(DISTINCT id) FROM l'), '100000|61000|100000', 'all rows are there');
$node->check_ok('postgres', 'after a generation that took over what was known');

# ---- rows that move once, soon after they came: a batch is a trial only ----

my $last = q{SELECT max((ctid::text::point)[0]) FROM l};

$node->safe_psql('postgres', q{SELECT lsm_flush('l')});

my $last_before = $node->safe_psql('postgres', $last);

$node->safe_psql('postgres', q{
	DO $$
	BEGIN
		FOR i IN 100001 .. 105000 LOOP
			INSERT INTO l VALUES (i, 0, md5(i::text));
			UPDATE l SET v = 1 WHERE id = i;
			IF i % 100 = 0 THEN
				COMMIT;
			END IF;
		END LOOP;
	END $$});

# both fill some 45 pages each
cmp_ok($node->safe_psql('postgres', $last) - $last_before, '<', 200, 'no pages are taken for what does not move');
is($node->safe_psql('postgres', 'SELECT count(*), sum(v), count(DISTINCT id) FROM l'), '105000|66000|105000', 'all rows are there');
$node->check_ok('postgres', 'after rows that moved once');

# ---- many at once ----

my $script = "$PostgreSQL::Test::Utils::tmp_check/move.sql";

PostgreSQL::Test::Utils::append_to_file($script, q{
\set a 4 * random(0, 2499) + 1 + :client_id
\set b 4 * random(0, 2499) + 1 + :client_id
\set kind random(1, 10)
BEGIN;
\if :kind <= 5
UPDATE m SET v = v + 1, n = n + 1 WHERE id = :a;
\elif :kind <= 8
DELETE FROM m WHERE id = :a RETURNING v + 1 AS v, n + 1 AS n \gset
INSERT INTO m VALUES (:a, :v, :n, repeat(md5(random()::text), 1 + :v % 9));
\elif :kind <= 9
SAVEPOINT s;
UPDATE m SET v = -1 WHERE id = :a;
ROLLBACK TO s;
UPDATE m SET n = n + 1, v = v + 1 WHERE id = :a;
\else
UPDATE m SET n = n + 1, v = v + 1 WHERE id IN (:a, :b);
\endif
COMMIT;
});
$node->safe_psql('postgres', 'UPDATE m SET v = 0, n = 0');

my $output = '';

sub bench
{
	my ($transactions) = @_;

	return IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-j', 2, '--max-tries=100', '-t', $transactions, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \undef, '>', \$output, '2>&1');
}

my $run = bench(2500);
my $wrong = 0;
my $rounds = 0;

while ($run->pumpable)
{
	$run->pump_nb;
	$node->safe_psql('postgres', $_) foreach (q{SELECT lsm_flush('m')}, q{SELECT lsm_minor_compact('m')}, 'VACUUM m');
	$wrong += $node->safe_psql('postgres', 'SELECT count(*) FILTER (WHERE v <> n) + abs(count(*) - 10000) FROM m');
	$rounds++;
}
ok($run->finish, 'four sessions move rows') or diag($output);
note "$rounds rounds";
is($wrong, '0', 'rows are whole in each snapshot');
is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE v <> n) FROM m'), '10000|0', 'and at the end');
$node->check_ok('postgres', 'many at once');

# ---- a crash, and a standby ----

$run = bench(100000);
$node->wait_until('postgres', q{SELECT sum(n) > 20000 FROM m});
$node->crash;
$run->finish;
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE v <> n) FROM m'), '10000|0', 'after a crash');
$node->check_ok('postgres', 'after a crash');
$run = bench(500);
ok($run->finish, 'they go on after a crash') or diag($output);
is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE v <> n) FROM m'), '10000|0', 'and what moves then');
$node->check_ok('postgres', 'after moves after a crash');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT count(*), sum(v), sum(n) FROM m'), $node->safe_psql('postgres', 'SELECT count(*), sum(v), sum(n) FROM m'), 'the standby has the same');
$standby->check_ok('postgres', 'on the standby');
$node->stop;
$standby->promote;
$standby->safe_psql('postgres', q{CALL move(1, 3000, 7919)});
is($standby->safe_psql('postgres', 'SELECT count(*) FROM m'), '10000', 'moves on the standby that was promoted');
$standby->check_ok('postgres', 'after moves there');
$standby->stop;
done_testing();
