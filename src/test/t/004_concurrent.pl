# Four clients change random rows while a session flushes, compacts and vacuums
# in a loop: the sums agree in every snapshot meanwhile, at the end, and after
# a crash.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use IPC::Run ();

my $transactions = $ENV{LSM_TRANSACTIONS} || 800;
my $clients = 4;
my $node = LsmNode->new('concurrent');

$node->setup(conf => "restart_after_crash = off\ndeadlock_timeout = 100ms\n");
$node->safe_psql(
	'postgres', q{
CREATE TABLE branches (id int PRIMARY KEY, balance bigint, touched int) USING lsm;
CREATE TABLE accounts (id int PRIMARY KEY, branch int REFERENCES branches, balance bigint, state int, filler text) USING lsm;
CREATE INDEX accounts_state ON accounts (state);
CREATE TABLE history (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int REFERENCES accounts, branch int, delta int) USING lsm;
CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, delta int) USING lsm;
INSERT INTO branches SELECT i, 0, 0 FROM generate_series(1, 5) i;
INSERT INTO accounts SELECT i, 1 + i % 5, 0, 0, repeat('f', 60) FROM generate_series(1, 1000) i;
});

my $has_amcheck = $node->safe_psql('postgres',
	"SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'");
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck') if $has_amcheck;

# One transaction: an account, its branch and a line of history; the account's
# indexed column now and then; a queue that is filled and emptied; subtransactions
# that are rolled back.
my $script = "$PostgreSQL::Test::Utils::tmp_check/transfer.sql";

PostgreSQL::Test::Utils::append_to_file(
	$script, q{
\set account random(1, 1000)
\set delta random(-500, 500)
\set branch 1 + :account % 5
\set kind random(1, 10)
BEGIN;
UPDATE accounts SET balance = balance + :delta WHERE id = :account;
SELECT balance FROM accounts WHERE id = :account;
\if :kind <= 3
SAVEPOINT s;
UPDATE accounts SET balance = 0, state = -1 WHERE id = :account;
UPDATE branches SET touched = -1 WHERE id = :branch;
ROLLBACK TO s;
\endif
\if :kind = 4
UPDATE accounts SET state = state + 1 WHERE id = :account;
\endif
INSERT INTO history (account, branch, delta) VALUES (:account, :branch, :delta);
INSERT INTO queue (delta) VALUES (:delta), (0 - :delta);
\if :kind >= 5
DELETE FROM queue WHERE id IN (SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 3);
\endif
UPDATE branches SET balance = balance + :delta, touched = touched + 1 WHERE id = :branch;
\if :kind = 10
ROLLBACK;
\else
COMMIT;
\endif
});

sub invariants
{
	my ($label) = @_;

	is( $node->safe_psql(
			'postgres', q{
			SELECT (SELECT sum(balance) FROM accounts) - (SELECT coalesce(sum(delta), 0) FROM history),
				(SELECT sum(balance) FROM branches) - (SELECT coalesce(sum(delta), 0) FROM history),
				(SELECT sum(touched) FROM branches) - (SELECT count(*) FROM history),
				(SELECT count(*) FROM accounts), (SELECT count(*) FROM branches),
				(SELECT count(*) FROM accounts WHERE state < 0)}),
		'0|0|0|1000|5|0',
		"sums agree: $label");
	is( $node->safe_psql(
			'postgres', q{
			SELECT count(*) FROM accounts a
			WHERE balance <> (SELECT coalesce(sum(delta), 0) FROM history h WHERE h.account = a.id)}),
		'0',
		"each account agrees with its history: $label");
	$node->same_ok('postgres',
		'SET enable_seqscan = off; SELECT state, count(*), sum(balance) FROM accounts WHERE state >= 0 GROUP BY state ORDER BY state',
		'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT state, count(*), sum(balance) FROM accounts WHERE state >= 0 GROUP BY state ORDER BY state',
		"index and table agree: $label");
	$node->check_ok('postgres', $label);
	if ($has_amcheck)
	{
		my ($code, $out, $err) = $node->psql('postgres', q{
			SELECT count(bt_index_check(i.indexrelid, true)) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			WHERE c.relname IN ('accounts', 'branches', 'history', 'queue')});

		is("$code $err", '0 ', "indexes agree with their tables: $label");
	}
	return;
}

sub pgbench_start
{
	my ($count) = @_;
	my $out = '';
	my $run = IPC::Run::start(
		[ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $count, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \undef, '>', \$out, '2>&1');

	return { run => $run, out => \$out };
}

sub running
{
	my ($bench) = @_;

	$bench->{run}->pump_nb;
	return $bench->{run}->pumpable;
}

# One round of maintenance, and a look at the sums in one snapshot.
my $rounds = 0;
my $wrong = 0;

sub maintain
{
	foreach my $t (qw(accounts branches history queue))
	{
		$node->safe_psql('postgres', "SELECT count(*) FROM lsm_flush('$t')");
		$node->safe_psql('postgres', "SELECT count(*) FROM lsm_minor_compact('$t')") if $rounds % 2;
		$node->safe_psql('postgres', "SELECT count(*) FROM lsm_major_compact('$t')") if $rounds % 3 == 2;
		$node->safe_psql('postgres', "VACUUM $t") if $rounds % 4 == 3;
	}
	$rounds++;

	my $sums = $node->safe_psql(
		'postgres', q{
		SELECT (SELECT sum(balance) FROM accounts) = (SELECT coalesce(sum(delta), 0) FROM history)
			AND (SELECT sum(balance) FROM branches) = (SELECT coalesce(sum(delta), 0) FROM history)
			AND (SELECT count(*) FROM accounts) = 1000});

	$wrong++ if $sums ne 't';
	return;
}

my $bench = pgbench_start($transactions);

maintain() while running($bench);
$bench->{run}->finish;
is($bench->{run}->result(0), 0, 'clients end well') or diag(${ $bench->{out} });
like(${ $bench->{out} }, qr/actually processed: ${\($clients * $transactions)}\//, 'all transactions were done');
cmp_ok($rounds, '>', 0, "rounds of maintenance meanwhile: $rounds");
is($wrong, 0, 'the sums agreed in every snapshot meanwhile');
invariants('after the clients');

# again, and killed in the middle
my $done = $node->safe_psql('postgres', 'SELECT count(*) FROM history');

$bench = pgbench_start(100000);
do
{
	running($bench) or die "clients ended early: ${ $bench->{out} }";
	maintain();
} until ($node->safe_psql('postgres', 'SELECT count(*) FROM history') > $done + $transactions);
$node->crash;
$bench->{run}->finish;
$node->start;
is($wrong, 0, 'the sums agreed in every snapshot before the crash');
invariants('after a crash');
maintain() for 1 .. 4;
invariants('after a crash and compaction');
$node->stop;
done_testing();
