# Clients change random rows of a table, and of a heap table in the same
# transactions, while jobs over random generations and roots, calls, VACUUM and
# lsm_check() run: the two tables are the same in each snapshot, however they are
# read, after each phase, and after crashes in the middle.
#
# Phases differ in settings.  LSM_STRESS multiplies what they do, LSM_TEST_SEED repeats
# the choices of one run (not its timing).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $seed = LsmNode::tests_seed();
my $amount = $ENV{LSM_STRESS} || 1;
my $node = LsmNode->new('stress');

srand($seed);
$node->setup(
	conf => q{
autovacuum = off
restart_after_crash = off
deadlock_timeout = 100ms
max_parallel_workers = 4
max_worker_processes = 8
lsm.segment_size = '1MB'
lsm.multiblock_read_size = '64kB'
lsm.debug_vm_lbs = 5
});
$node->safe_psql(
	'postgres', q{
CREATE FUNCTION lsm_test_job(regclass, kind text, gen_lo int, gen_hi int, first_lb int8, last_lb int8)
	RETURNS int8 LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_generation(regclass) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
CREATE TABLE sl (id int PRIMARY KEY, v int, k int, n numeric, pad text) USING lsm;
CREATE TABLE sh (id int PRIMARY KEY, v int, k int, n numeric, pad text) USING heap;
CREATE INDEX ON sl (k);
INSERT INTO sl SELECT i, 0, i % 100, i, repeat(md5(i::text), 3) FROM generate_series(1, 1500) i;
INSERT INTO sh TABLE sl;

-- the same change of both tables; writers have different rows
CREATE PROCEDURE change(a int, b int, op int, r int, part int) LANGUAGE plpgsql AS $$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY '{sl,sh}'::text[] LOOP
		EXECUTE format(CASE
			WHEN op < 6 THEN 'UPDATE %s SET v = %s WHERE id BETWEEN %s AND %s AND id %% 2 = %s'
			WHEN op = 6 THEN 'UPDATE %s SET pad = repeat(md5(%s::text), 2) WHERE id BETWEEN %s AND %s AND id %% 2 = %s'
			WHEN op = 7 THEN 'UPDATE %s SET k = %s %% 100 WHERE id BETWEEN %s AND least(%s, 1400) AND id %% 2 = %s'
			WHEN op = 8 THEN 'UPDATE %s SET n = n + %s WHERE id BETWEEN %s AND %s AND id %% 2 = %s'
			WHEN op = 9 THEN 'DELETE FROM %s WHERE %s > 0 AND id BETWEEN %s AND %s AND id %% 2 = %s'
			WHEN op = 10 THEN 'INSERT INTO %1$s SELECT x, %2$s, x %% 100, x, repeat(md5(x::text), 3) FROM generate_series(%3$s, %4$s) x WHERE x %% 2 = %5$s ON CONFLICT (id) DO UPDATE SET v = excluded.v'
			ELSE 'INSERT INTO %1$s SELECT x, %2$s, x %% 100, x, (SELECT string_agg(md5(y::text), '''') FROM generate_series(x, x + 600) y) FROM generate_series(%3$s, %3$s + 2) x WHERE x %% 2 = %5$s ON CONFLICT (id) DO UPDATE SET pad = excluded.pad'
			END, t, r, a, b, part);
	END LOOP;
END $$;

CREATE PROCEDURE writer(rounds int, part int, seed float8) LANGUAGE plpgsql AS $$
DECLARE
	a int;
	b int;
BEGIN
	PERFORM setseed(seed);
	FOR i IN 1 .. rounds LOOP
		BEGIN
			a := (random() * 1650)::int;
			b := a + (random() ^ 3 * 300)::int;
			CALL change(a, b, (random() * 11.4)::int, 1 + (random() * 1000000)::int, part);
			IF random() < 0.2 THEN
				PERFORM count(*) FROM (SELECT 1 FROM sl WHERE id BETWEEN a AND b FOR KEY SHARE SKIP LOCKED) x;
			END IF;
			IF random() < 0.15 THEN
				RAISE EXCEPTION 'undo';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		IF random() < 0.15 THEN
			PERFORM lsm_flush('sl');
		END IF;
		IF random() < 0.1 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END $$;

-- jobs over some generations and roots, as workers do them, and calls
CREATE PROCEDURE jobs(rounds int, kind text, seed float8) LANGUAGE plpgsql AS $$
DECLARE
	hi int;
	lo int;
	most int8;
	first int8;
	last int8;
BEGIN
	PERFORM setseed(seed);
	FOR i IN 1 .. rounds LOOP
		SELECT coalesce(max((last_tid::text::point)[0]::int8), 1) INTO most FROM lsm_segments('sl');
		SELECT coalesce(max(generation), 1) INTO hi FROM lsm_test_generation('sl') generation;
		first := (random() * most)::int8;
		last := first + (random() ^ 2 * most)::int8;
		IF random() < 0.2 THEN
			first := 0;
			last := 4000000;
		END IF;
		lo := greatest(hi - (random() * 12)::int, 1);
		hi := lo + (random() * (hi - lo))::int;
		IF kind = 'minor' THEN
			PERFORM lsm_test_job('sl', 'minor', lo, hi, first, last);
		ELSIF kind = 'major' THEN
			PERFORM lsm_test_job('sl', 'major', 0, hi, first, last);
		ELSIF random() < 0.5 THEN
			PERFORM lsm_major_compact('sl');
		ELSE
			PERFORM lsm_minor_compact('sl');
		END IF;
		IF random() < 0.1 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
		PERFORM pg_sleep(random() * 0.01);
	END LOOP;
END $$;

-- how many rows differ, by the scans that the settings of the moment lead to
CREATE FUNCTION differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM ((TABLE sl EXCEPT ALL TABLE sh) UNION ALL (TABLE sh EXCEPT ALL TABLE sl)) x
$$;
CREATE PROCEDURE compare(what text) LANGUAGE plpgsql AS $$
DECLARE
	d bigint;
	c text;
	q text;
	l text;
	h text;
	line text;
	plan text := '';
BEGIN
	d := differences();
	IF d > 0 THEN
		RAISE EXCEPTION 'DIFFER: % rows, %', d, what;
	END IF;
	-- conditions and aggregates
	FOREACH c IN ARRAY ARRAY['true', 'v > 500000', 'k = 7', 'id BETWEEN 300 AND 400', 'k IN (3, 5)', 'v = 0', 'pad < md5(''a'')'] LOOP
		FOREACH q IN ARRAY ARRAY['row(count(*), sum(v::int8), min(id), max(n), max(v))::text', 'count(*)::text'] LOOP
			EXECUTE format('SELECT %s FROM sl WHERE %s', q, c) INTO l;
			EXECUTE format('SELECT %s FROM sh WHERE %s', q, c) INTO h;
			CONTINUE WHEN l IS NOT DISTINCT FROM h;
			FOR line IN EXECUTE format('EXPLAIN SELECT %s FROM sl WHERE %s', q, c) LOOP
				plan := plan || E'\n' || line;
			END LOOP;
			RAISE EXCEPTION 'DIFFER: % where %: % beside %, %', q, c, l, h, what || plan;
		END LOOP;
	END LOOP;
END $$;
CREATE PROCEDURE compare_by_index() LANGUAGE plpgsql AS $$
DECLARE
	d bigint;
BEGIN
	SELECT count(*) INTO d FROM sh FULL JOIN (SELECT s.* FROM generate_series(-10, 2000) i, LATERAL (SELECT * FROM sl WHERE sl.id = i OFFSET 0) s) sl USING (id)
		WHERE (sl.v, sl.k, sl.n, sl.pad) IS DISTINCT FROM (sh.v, sh.k, sh.n, sh.pad);
	IF d > 0 THEN
		RAISE EXCEPTION 'DIFFER: % rows by index', d;
	END IF;
	SELECT count(*) INTO d FROM generate_series(0, 99) i
		WHERE (SELECT count(*) FROM sl WHERE sl.k = i) <> (SELECT count(*) FROM sh WHERE sh.k = i);
	IF d > 0 THEN
		RAISE EXCEPTION 'DIFFER: % keys by index', d;
	END IF;
END $$;

-- each in snapshots of its own, read several times, by different scans
CREATE PROCEDURE reader(rounds int, seed float8) LANGUAGE plpgsql AS $$
DECLARE
	setting text;
	what text;
BEGIN
	PERFORM setseed(seed);
	FOR i IN 1 .. rounds LOOP
		COMMIT;
		SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
		FOR j IN 1 .. 3 LOOP
			what := '';
			FOREACH setting IN ARRAY '{enable_seqscan,enable_indexscan,enable_bitmapscan,enable_indexonlyscan,parallel_leader_participation,lsm.enable_lsmscan,lsm.direct_io}'::text[] LOOP
				what := what || ' ' || setting || '=' || set_config(setting, CASE WHEN random() < 0.5 THEN 'on' ELSE 'off' END, true);
			END LOOP;
			what := what || ' workers=' || set_config('max_parallel_workers_per_gather', (random() * 2)::int::text, true);
			CALL compare(what);
			CALL compare_by_index();
			PERFORM pg_sleep(random() * 0.1);
		END LOOP;
	END LOOP;
END $$;
});

# A session that runs some statements.
sub begin_session
{
	my ($name, @statements) = @_;
	my @settings = map { "SET $_" } 'client_min_messages = error', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0';

	$node->start_psql($name, '-v', 'ON_ERROR_STOP=1', map { ('-c', $_) } @settings, @statements);
	return;
}

sub fraction
{
	return sprintf('%.6f', rand());
}

sub phase
{
	my ($label, $crash, %settings) = @_;
	my $vacuums = 3 * $amount;

	$node->adjust_conf('postgresql.conf', $_, $settings{$_}) foreach sort keys %settings;
	$node->restart;
	begin_session("writer $_", "CALL writer(@{[80 * $amount]}, $_, @{[fraction()]})") foreach 0, 1;
	begin_session('minor', "CALL jobs(@{[40 * $amount]}, 'minor', @{[fraction()]})");
	begin_session("major $_", "CALL jobs(@{[20 * $amount]}, 'major', @{[fraction()]})") foreach 0, 1;
	begin_session('calls', "CALL jobs(@{[5 * $amount]}, 'call', @{[fraction()]})");
	begin_session('reader', "CALL reader(@{[4 * $amount]}, @{[fraction()]})");
	begin_session('vacuum', ('VACUUM sl', "SELECT * FROM lsm_check('sl')") x $vacuums);
	if ($crash)
	{
		$node->safe_psql('postgres', "SELECT count(*) FROM lsm_segments('sl')") for 1 .. 1 + rand(20 * $amount);
		$node->crash;
	}
	is($node->finish_psqls($crash), '', "no session has anything to say: $label");
	$node->start if $crash;
	foreach my $scan (qw(on off))
	{
		my ($code, $out, $err) = $node->psql('postgres', "SET lsm.enable_lsmscan = $scan; CALL compare('at the end'); CALL compare_by_index()");

		is("$out$err", '', "the tables are the same, LsmScan $scan: $label");
	}
	$node->check_ok('postgres', $label);
	note 'flushes, minors, majors, increments: ' . $node->safe_psql('postgres',
		"SELECT flushes, minor_compactions, major_compactions, increments FROM lsm_stat_tables WHERE relid = 'sl'::regclass");
	BAIL_OUT('the tables are left as they are') if $ENV{LSM_STRESS_STOP} && !Test::More->builder->is_passing;
	return;
}

my $n = 0;

foreach my $cache ('8MB', '64MB', '0')
{
	foreach my $direct (qw(off on))
	{
		my $crash = $n++ % 3 == 1;

		phase("block cache $cache, direct_io $direct" . ($crash ? ', crash' : ''), $crash,
			'lsm.block_cache_size' => $cache, 'lsm.direct_io' => $direct,
			'lsm.io_method' => (qw(auto sync))[ rand(2) ]);
	}
}
$node->stop;
done_testing();
