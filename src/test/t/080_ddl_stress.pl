# Clients change rows and definitions of tables, and of heap tables in the same transactions:
# columns come, go and change their types, tables are truncated, rewritten, moved to another
# tablespace, access method or store, become unlogged, are vacuumed and compacted; transactions
# are prepared, rolled back in part or as a whole.  Statements must end in the same way for both
# tables, and both must be the same after each round, after a crash in its middle, and on a
# standby.
#
# LSM_STRESS multiplies the rounds, LSM_TEST_SEED repeats the choices of one run (not its timing).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $seed = LsmNode::tests_seed();
my $rounds = 4 * ($ENV{LSM_STRESS} || 1);
my $clients = 3;
my $dir = PostgreSQL::Test::Utils::tempdir() . '/cold';
my $node = LsmNode->new('ddl');

srand($seed);
mkdir $dir or die $!;
$node->setup(
	conf => q{
autovacuum = off
restart_after_crash = off
deadlock_timeout = 100ms
max_prepared_transactions = 10
max_worker_processes = 12
wal_keep_size = 1GB
max_standby_streaming_delay = -1
allow_in_place_tablespaces = on
lsm.compaction_workers = 2
lsm.compaction_naptime = 100ms
lsm.segment_size = '1MB'
lsm.memtable_size = '1MB'
lsm.store_delete_delay = 0
});
$node->safe_psql('postgres', $_)
  foreach (
	q{CREATE TABLESPACE other LOCATION ''},
	"CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')",
	map({
			(	"CREATE TABLE l$_ (id int PRIMARY KEY, v int, t text) USING lsm",
				"CREATE TABLE h$_ (id int PRIMARY KEY, v int, t text) USING heap",
				"INSERT INTO l$_ SELECT i, i % 10, repeat(md5(i::text), 2) FROM generate_series(1, 2000) i",
				"INSERT INTO h$_ TABLE l$_",
				"CREATE INDEX l${_}_v ON l$_ (v)",
				"CREATE INDEX h${_}_v ON h$_ (v)"
			)
		} 1 .. 3),
	q{
-- How a statement ends.  Who waited for a lock too long is not told: it raises the error.
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN 'ok ' || n;
EXCEPTION
	WHEN deadlock_detected OR lock_not_available THEN
		RAISE;
	WHEN others THEN
		IF SQLSTATE ~ '^(XX|58)' THEN
			RAISE WARNING 'BROKEN: %, %: %', SQLSTATE, SQLERRM, statement;
		END IF;

		-- two sessions that make indexes of one name at the same time: the server says so by its catalogs
		IF SQLERRM ~ 'pg_(class_relname|type_typname)_nsp_index' THEN
			RETURN '42P07';
		END IF;
		RETURN SQLSTATE;
END $$;

-- The same statement for both tables of a pair, which are named by @, and their access methods by
-- ~; undone: and back.
CREATE PROCEDURE run_twice(pair int, statement text, undone bool DEFAULT false) LANGUAGE plpgsql AS $$
DECLARE
	l text;
	h text;
BEGIN
	-- what fails keeps no lock: nobody may change the second table before its turn
	EXECUTE format('LOCK TABLE l%1$s, h%1$s IN ACCESS SHARE MODE', pair);
	l := attempt(replace(replace(statement, '@', 'l' || pair), '~', 'lsm'));
	h := attempt(replace(replace(statement, '@', 'h' || pair), '~', 'heap'));
	IF l <> h THEN
		RAISE WARNING 'DIFFER: % beside %: %', l, h, statement;
	END IF;
	IF undone THEN
		RAISE EXCEPTION 'undo';
	END IF;
EXCEPTION
	WHEN deadlock_detected OR lock_not_available OR raise_exception THEN
		NULL;
END $$;
CREATE PROCEDURE run_once(statement text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM attempt(statement);
EXCEPTION
	WHEN deadlock_detected OR lock_not_available THEN
		NULL;
END $$;

-- How many rows differ; of an unlogged table on a standby nobody can tell.
CREATE FUNCTION differences(pair int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	l bigint;
	h bigint;
	n bigint;
BEGIN
	IF pg_is_in_recovery() AND (SELECT relpersistence = 'u' FROM pg_class WHERE oid = ('l' || pair)::regclass) THEN
		RETURN 0;
	END IF;
	EXECUTE format('WITH l AS MATERIALIZED (SELECT x::text FROM l%1$s x), h AS MATERIALIZED (SELECT x::text FROM h%1$s x)
		SELECT (SELECT count(*) FROM l), (SELECT count(*) FROM h), (SELECT count(*) FROM
			((TABLE l EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE l)) d)', pair) INTO l, h, n;
	IF n > 0 THEN
		RAISE WARNING 'DIFFER: % of % and % rows of pair %', n, l, h, pair;
	END IF;
	RETURN n;
END $$;
});
$node->backup('base');
my $standby = LsmNode->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub pick
{
	return $_[ rand(@_) ];
}

# A statement for both tables.  Clients change different rows, as which of two changes of one row
# comes first would be chosen twice.
sub change
{
	my ($part) = @_;
	my $from = int(rand(2200));
	my $to = $from + int(rand()**3 * 600);
	my $where = "WHERE id BETWEEN $from AND $to AND id % $clients = $part";
	my $series = "FROM generate_series($from, $to) i WHERE i % $clients = $part";
	my $r = int(rand(1000));

	return pick(
		"UPDATE @ SET t = md5('$r' || id) $where",
		"UPDATE @ SET v = (id + $r) % 17 $where",
		"UPDATE @ SET @{[column()]} = NULL $where",
		"UPDATE @ SET @{[column()]} = '$r' $where",
		"DELETE FROM @ $where",
		"INSERT INTO @ (id, v, t) SELECT i, $r, md5(i::text) $series ON CONFLICT (id) DO UPDATE SET v = excluded.v",
		"INSERT INTO @ (id, v, t) SELECT i, $r, md5(i::text) $series",
		"INSERT INTO @ (id, t) SELECT i, (SELECT string_agg(md5((i * y)::text), '') FROM generate_series(1, 400) y) $series AND i % 20 = 1 ON CONFLICT DO NOTHING");
}

sub column
{
	return pick(qw(c1 c2 c3));
}

sub definition
{
	my ($pair) = @_;
	my $c = column();
	my $r = int(rand(1000));
	my @some = (
		"ALTER TABLE @ ADD COLUMN $c int DEFAULT $r",
		"ALTER TABLE @ ADD COLUMN $c text",
		"ALTER TABLE @ ADD COLUMN $c numeric DEFAULT (random() * 0 + $r)::int",
		"ALTER TABLE @ ADD COLUMN $c bigint GENERATED ALWAYS AS (id * 2) STORED",
		"ALTER TABLE @ DROP COLUMN $c",
		"ALTER TABLE @ ALTER COLUMN $c TYPE @{[pick(qw(int bigint text numeric))]}",
		"ALTER TABLE @ ALTER COLUMN v TYPE @{[pick(qw(int bigint))]}",
		"ALTER TABLE @ ALTER COLUMN $c SET NOT NULL",
		"ALTER TABLE @ ALTER COLUMN $c DROP NOT NULL",
		"ALTER TABLE @ ALTER COLUMN $c SET DEFAULT $r",
		"ALTER TABLE @ RENAME COLUMN $c TO @{[column()]}",
		"ALTER TABLE @ ADD CONSTRAINT positive CHECK (v >= 0)",
		"ALTER TABLE @ DROP CONSTRAINT positive",
		"ALTER TABLE @ ADD CONSTRAINT \@_two UNIQUE (id, v)",
		"ALTER TABLE @ DROP CONSTRAINT \@_two",
		"ALTER INDEX \@_pkey SET TABLESPACE @{[pick(qw(other pg_default))]}",
		"CREATE INDEX \@_c ON @ ($c)",
		"CREATE INDEX \@_c ON @ ((v % 5), id) WHERE v > 3",
		"DROP INDEX \@_c",
		"REINDEX TABLE @",
		"CLUSTER @ USING \@_@{[pick(qw(pkey v))]}",
		"TRUNCATE @",
		"DROP TABLE @; CREATE TABLE @ (id int PRIMARY KEY, v int, t text) USING ~; CREATE INDEX \@_v ON @ (v); INSERT INTO @ (id, v) SELECT i, i % 7 FROM generate_series(1, 500) i",
		"ALTER TABLE @ SET ACCESS METHOD @{[pick(qw(~ ~ ~ heap))]}, ALTER COLUMN id TYPE int USING id + 0",
		"LOCK TABLE @; INSERT INTO @ (id, v, t) SELECT i, $r, md5(i::text) FROM generate_series(1, 1500) i ON CONFLICT (id) DO UPDATE SET t = 'again'");
	push @some, map { "ALTER TABLE @ SET $_" } qw(LOGGED UNLOGGED) if $pair == 2;
	return pick(@some);
}

# A statement for the table of lsm alone.
sub upkeep
{
	my ($pair) = @_;
	my $t = "l$pair";
	my @some = (
		"SELECT lsm_flush('$t')",
		"SELECT lsm_minor_compact('$t')",
		"SELECT lsm_major_compact('$t')",
		"ANALYZE $t",
		"SELECT * FROM lsm_check('$t')",
		"ALTER TABLE $t SET (@{[pick('lsm.block_size = 8192', 'lsm.dictionary = on', 'lsm.compression_level = 5', 'lsm.compression = none')]})");

	push @some, "ALTER TABLE $t SET (lsm.cold_store = 'cold')", "ALTER TABLE $t RESET (lsm.cold_store)" if $pair == 3;
	return pick(@some);
}

my $prepared = 0;

# What one client does in a round.
sub script
{
	my ($part) = @_;
	my @script = ("SET lock_timeout = '300ms'; SET client_min_messages = warning");

	for (1 .. 25)
	{
		my $pair = 1 + int(rand(3));
		my $many = rand() < 0.5 ? 1 : 1 + int(rand(4));
		my $end = $many == 1 && rand() < 0.7 ? undef : pick(qw(COMMIT COMMIT ROLLBACK PREPARE));

		# (With heap, too, rows that are inserted into a table that has moved to another tablespace
		# leave entries in its indexes if both are rolled back.)
		if (rand() < 0.15)
		{
			push @script, pick("VACUUM l$pair", "VACUUM FREEZE l$pair", "VACUUM FULL l$pair",
				"CALL run_twice($pair, 'ALTER TABLE @ SET TABLESPACE @{[pick(qw(other pg_default))]}', @{[pick(qw(true false))]})");
			next;
		}
		push @script, 'BEGIN' if defined $end;
		for (1 .. $many)
		{
			my $undone = rand() < 0.15 ? 'true' : 'false';

			push @script,
			  rand() < 0.2 ? 'CALL run_once($_$' . upkeep($pair) . '$_$)'
			  : "CALL run_twice($pair, \$_\$" . (rand() < 0.6 ? change($part) : definition($pair)) . "\$_\$, $undone)";
		}
		next if !defined $end;
		if ($end eq 'PREPARE')
		{
			$prepared++;
			push @script, "PREPARE TRANSACTION 'p$prepared'";
			push @script, pick('COMMIT', 'ROLLBACK') . " PREPARED 'p$prepared'" if rand() < 0.8;
		}
		else
		{
			push @script, $end;
		}
	}
	return @script;
}

# What is seen in one snapshot, while all that goes on.
sub reader
{
	return (
		"SET lock_timeout = '300ms'",
		map {
			(	'BEGIN ISOLATION LEVEL REPEATABLE READ',
				(map { "SELECT WHERE differences($_) < 0" } map { 1 + int(rand(3)) } 1 .. 4),
				'COMMIT')
		} 1 .. 12);
}

sub same
{
	my ($server, $pair, $label) = @_;
	my ($code, $out, $err) = $server->psql('postgres', "SELECT differences($pair)");
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is("$out$err", '0', $label);
}

sub end_prepared
{
	foreach my $gid (split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts'))
	{
		$node->safe_psql('postgres', pick('COMMIT', 'ROLLBACK') . " PREPARED '$gid'");
	}
	return;
}

# What clients say that is no surprise.
my $usual = join '|', 'lock timeout', 'deadlock detected', 'current transaction is aborted',
  'no transaction in progress', 'prepared transaction with identifier',
  'relation no longer exists', 'conflict with recovery', 'unlogged relations during recovery';

foreach my $round (1 .. $rounds)
{
	my $crash = $round % 2 == 0;
	my $label = "round $round" . ($crash ? ', crash' : '');

	$node->start_psql("client $_", '-v', 'VERBOSITY=terse', map { ('-c', $_) } script($_)) foreach 0 .. $clients - 1;
	$_->start_psql('reader', '-v', 'VERBOSITY=terse', map { ('-c', $_) } reader()) foreach $node, $standby;
	if ($crash)
	{
		# (To ask takes an xid, too, so this ends when they have ended.)
		my $xid = 'SELECT pg_current_xact_id()';
		my $until = $node->safe_psql('postgres', $xid) + int(rand(40 * $clients));

		1 while $node->safe_psql('postgres', $xid) < $until;
		$node->crash;
	}
	my $said = join '', map { "$_\n" } grep { !/$usual/ } split /\n/, $node->finish_psqls($crash) . $standby->finish_psqls(0);

	is($said, '', "no client has anything to say: $label");
	$node->start if $crash;
	end_prepared();

	# The locks of transactions that the crash has ended stay with the standby until it is told which
	# ones run, if an older one was prepared.  Who waits there for one of them is perhaps waited for
	# as well, by what removes rows: with such a max_standby_streaming_delay for ever, also with heap.
	$node->safe_psql('postgres', 'CHECKPOINT') if $crash;
	foreach my $pair (1 .. 3)
	{
		same($node, $pair, "pair $pair is the same: $label");
		is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM h$pair WHERE NOT EXISTS (SELECT FROM l$pair l WHERE l.id = h$pair.id OFFSET 0)"),
			'0', "and by index: $label");
	}
	$node->wait_for_catchup($standby);
	foreach my $pair (1 .. 3)
	{
		same($standby, $pair, "pair $pair is the same on the standby: $label");
	}
	$node->check_ok('postgres', $label);
	BAIL_OUT('the tables are left as they are') if $ENV{LSM_STRESS_STOP} && !Test::More->builder->is_passing;
}
$standby->stop;
$node->stop;
done_testing();
