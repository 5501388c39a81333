# Crashes at moments that nothing in the engine chooses: two clients change
# rows while a third session flushes and compacts, the server is killed after
# some number of commits, and everything committed must be there afterwards.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use IPC::Run ();

my $crashes = $ENV{LSM_CRASHES} || 10;
my $seed = LsmNode::tests_seed();
my $node = LsmNode->new('crash');

srand($seed);
$node->setup(conf => "restart_after_crash = off\nlog_min_messages = warning\n");

# The same changes go to an lsm and to a heap table in each transaction, so
# that what survives must be the same in both.
$node->safe_psql(
	'postgres', q{
CREATE TABLE acc (id int PRIMARY KEY, v bigint NOT NULL, k int, pad text) USING lsm;
CREATE INDEX acc_k ON acc (k);
CREATE TABLE acc_heap (id int PRIMARY KEY, v bigint NOT NULL, k int, pad text) USING heap;
CREATE TABLE hist (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id int, delta int) USING lsm;
CREATE TABLE hist_heap (n bigint PRIMARY KEY, id int, delta int) USING heap;
CREATE TABLE plain (client int, a int, b text) USING lsm;
CREATE TABLE plain_heap (client int, a int, b text) USING heap;
INSERT INTO acc SELECT i, 0, i % 50, repeat('p', 80) FROM generate_series(1, 2000) i;
INSERT INTO acc_heap SELECT * FROM acc;

-- Each client deletes only its own rows of "plain", so that a snapshot taken
-- between the two tables' statements makes no difference.
CREATE PROCEDURE work(client int, seed float8) LANGUAGE plpgsql AS $$
DECLARE
	i int;
	d int;
	m bigint;
	n_steps int := 0;
BEGIN
	PERFORM setseed(seed);
	LOOP
		n_steps := n_steps + 1;
		i := 1 + (random() * 1999)::int;
		d := (random() * 100)::int;
		BEGIN
			IF d % 4 = 0 THEN
				UPDATE acc SET v = v + d, k = (k + 1) % 50 WHERE id = i;
				UPDATE acc_heap SET v = v + d, k = (k + 1) % 50 WHERE id = i;
			ELSE
				UPDATE acc SET v = v + d WHERE id = i;
				UPDATE acc_heap SET v = v + d WHERE id = i;
			END IF;
			INSERT INTO hist (id, delta) VALUES (i, d) RETURNING n INTO m;
			INSERT INTO hist_heap VALUES (m, i, d);
			IF d = 50 THEN
				RAISE EXCEPTION 'undo';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		IF d % 10 = 0 THEN
			INSERT INTO plain SELECT client, g, 'text ' || g FROM generate_series(1, d) g;
			INSERT INTO plain_heap SELECT client, g, 'text ' || g FROM generate_series(1, d) g;
			DELETE FROM plain p WHERE p.client = work.client AND a = d;
			DELETE FROM plain_heap p WHERE p.client = work.client AND a = d;
		END IF;
		IF d % 20 = 3 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END $$;
CREATE PROCEDURE compact(seed float8) LANGUAGE plpgsql AS $$
DECLARE
	t regclass;
BEGIN
	PERFORM setseed(seed);
	LOOP
		FOREACH t IN ARRAY array['acc', 'hist', 'plain']::regclass[] LOOP
			PERFORM lsm_flush(t);
			COMMIT;
			IF random() < 0.5 THEN
				PERFORM lsm_minor_compact(t);
				COMMIT;
			END IF;
			IF random() < 0.3 THEN
				PERFORM lsm_major_compact(t);
				COMMIT;
			END IF;
		END LOOP;
	END LOOP;
END $$;
});

my $has_amcheck = $node->safe_psql('postgres',
	"SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'");
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck') if $has_amcheck;

# A client that runs until the server is killed.
sub client_start
{
	my (@sql) = @_;
	my $out = '';
	my $run = IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), map { ('-c', $_) } @sql ],
		'<', \undef, '>', \$out, '2>&1');

	return { run => $run, out => \$out };
}

sub same_rows
{
	my ($label) = @_;

	$node->same_ok('postgres', 'SELECT * FROM acc ORDER BY id', 'SELECT * FROM acc_heap ORDER BY id', "acc, $label");
	$node->same_ok('postgres', 'SELECT * FROM hist ORDER BY n', 'SELECT * FROM hist_heap ORDER BY n', "hist, $label");
	$node->same_ok('postgres', 'SELECT client, a, b, count(*) FROM plain GROUP BY client, a, b ORDER BY client, a',
		'SELECT client, a, b, count(*) FROM plain_heap GROUP BY client, a, b ORDER BY client, a', "plain, $label");
	is($node->safe_psql('postgres', 'SELECT (SELECT sum(v) FROM acc) - (SELECT coalesce(sum(delta), 0) FROM hist)'),
		'0', "sums agree, $label");
	$node->same_ok('postgres', 'SET enable_seqscan = off; SELECT k, count(*), sum(v) FROM acc WHERE k >= 0 GROUP BY k ORDER BY k',
		'SELECT k, count(*), sum(v) FROM acc_heap WHERE k >= 0 GROUP BY k ORDER BY k', "acc by its index, $label");
	return;
}

my $committed = 0;

for my $crash (1 .. $crashes)
{
	my @clients = (
		client_start("CALL work(1, " . rand() . ")"),
		client_start('SET lsm.debug_load_after = 0', "CALL work(2, " . rand() . ")"),
		client_start("CALL compact(" . rand() . ")"));
	my $wanted = $committed + 20 + int(rand(400));

	$node->wait_until('postgres', "SELECT count(*) >= $wanted FROM hist_heap");
	$node->crash;
	foreach my $client (@clients)
	{
		$client->{run}->finish;
		unlike(${ $client->{out} }, qr/ERROR|PANIC/, "crash $crash: no error before it");
	}
	$node->start;
	$committed = $node->safe_psql('postgres', 'SELECT count(*) FROM hist_heap');
	cmp_ok($committed, '>=', $wanted, "crash $crash: $committed commits so far");
	same_rows("crash $crash");
	$node->check_ok('postgres', "crash $crash");

	if ($has_amcheck)
	{
		my ($code, $out, $err) = $node->psql('postgres', q{
			SELECT count(bt_index_check(indexrelid, true)) FROM pg_index
			WHERE indrelid IN ('acc'::regclass, 'hist'::regclass)});

		is("$code $err", '0 ', "crash $crash: indexes agree with their tables");
	}

	# now and then, work on from a clean state
	if ($crash % 3 == 0)
	{
		foreach my $t (qw(acc hist plain))
		{
			$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('$t'); SELECT count(*) FROM lsm_major_compact('$t'); VACUUM $t");
		}
		same_rows("crash $crash, compacted");
		$node->check_ok('postgres', "crash $crash, compacted");
	}
}

# a second crash right after recovery, and one during it is the same as none
$node->crash_and_start for 1 .. 2;
same_rows('crashes without work');
$node->check_ok('postgres', 'crashes without work');
$node->stop;
done_testing();
