# Temporary tables of many sessions at once, more of them than there are shared
# entries: sessions have tables of the same names, end, one in the middle of a
# transaction, and leave nothing behind.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('temporary');
my $dir = PostgreSQL::Test::Utils::tempdir();

$node->setup(conf => "autovacuum = off\nfsync = off\nmax_locks_per_transaction = 400\n");

# Each session checks what it wrote; an error ends pgbench with a status.
PostgreSQL::Test::Utils::append_to_file("$dir/many.sql", q{
CREATE TEMP TABLE rows (id int PRIMARY KEY, v int) USING lsm ON COMMIT DELETE ROWS;
DO $$
BEGIN
	FOR i IN 1 .. 260 LOOP
		EXECUTE format('CREATE TEMP TABLE t%s (id int, v int) USING lsm', i);
		EXECUTE format('INSERT INTO t%s SELECT j, j * %s FROM generate_series(1, 10) j', i, i);
		INSERT INTO rows SELECT j, i FROM generate_series(1, i) j;
		IF i % 10 = 0 THEN
			EXECUTE format('SELECT lsm_flush(''t%s'')', i);
			EXECUTE format('UPDATE t%s SET v = v + 1', i);
			PERFORM lsm_flush('rows');
		END IF;
		IF (SELECT sum(v) FROM rows) <> i * i THEN
			RAISE EXCEPTION 'rows of transaction %', i;
		END IF;
		COMMIT;
	END LOOP;
END $$;
DO $$
DECLARE
	total bigint;
BEGIN
	FOR i IN 1 .. 260 LOOP
		EXECUTE format('SELECT sum(v) FROM t%s', i) INTO total;
		IF total <> 55 * i + 10 * (i % 10 = 0)::int THEN
			RAISE EXCEPTION 'table %: sum %', i, total;
		END IF;
		COMMIT;
	END LOOP;
END $$;
BEGIN;
UPDATE t1 SET v = 0;
INSERT INTO rows SELECT j, j FROM generate_series(1, 100) j;
ROLLBACK;
});
$node->command_ok([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '1', '-f', "$dir/many.sql", 'postgres' ],
	'sessions with many temporary tables');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_ls_dir('base/' || (SELECT oid FROM pg_database WHERE datname = 'postgres')) f
	WHERE f LIKE 't%\_%'}), 'no file is left');

# A session that ends in the middle of a transaction.
$node->safe_psql('postgres', q{CREATE TEMP TABLE rows (id int PRIMARY KEY, v int) USING lsm; INSERT INTO rows VALUES (1, 1);
	BEGIN; UPDATE rows SET v = 2; SELECT lsm_flush('rows')});

# New sessions get the same temporary schemas.
$node->command_ok([ 'pgbench', '-n', '-c', '4', '-j', '2', '-t', '1', '-f', "$dir/many.sql", 'postgres' ], 'sessions that follow them');

# What a killed server leaves is removed, and another session's table is not read.
my $session = $node->session('postgres');

$session->query_safe('CREATE TEMP TABLE left_over (a int) USING lsm; INSERT INTO left_over VALUES (1)');
my $schema = $session->query_safe('SELECT pg_my_temp_schema()::regnamespace');
my ($status, $out, $err) = $node->psql('postgres', "SELECT * FROM $schema.left_over");

like($err, qr/cannot access temporary tables of other sessions/, 'tables of other sessions are not read');
($status, $out, $err) = $node->psql('postgres', "SELECT lsm_flush('$schema.left_over')");
like($err, qr/cannot access temporary tables of other sessions/, 'nor flushed');
($status, $out, $err) = $node->psql('postgres', "SELECT lsm_check('$schema.left_over')");
like($err, qr/cannot access temporary tables of other sessions/, 'nor checked');
$node->crash;
$session->{run}->kill_kill;
$node->start;
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir('base/' || (SELECT oid FROM pg_database WHERE datname = 'postgres')) f
	WHERE f LIKE 't%\_%'}), 0, 'no file is left after a crash');
is($node->safe_psql('postgres', q{CREATE TEMP TABLE left_over (a int) USING lsm; INSERT INTO left_over VALUES (2);
	SELECT lsm_flush('left_over') IS NULL; SELECT * FROM left_over}), "f\n2", 'the schema is used again');
$node->stop;
done_testing();
