# The model test: the same random operations on a heap table and on an lsm
# table must give the same rows and the same errors.
#
# Two writers with interleaved transactions, a reader with a long-lived
# REPEATABLE READ snapshot and cursors, and a maintenance session work on the
# tables m_heap and m_lsm.  Every statement is applied to the one, then to the
# other, in the same transaction, and what it returns (its rows, sorted, or its
# SQLSTATE) is compared; so are the contents, read in several ways, every few
# steps.  Flushes and compactions of m_lsm, VACUUM, DDL and crashes come in
# between.  Sessions never wait for each other: lock_timeout ends a wait, in
# both tables or in neither.
#
# Environment: LSM_MODEL_SEED repeats a run, LSM_MODEL_STEPS sets its length,
# and LSM_MODEL_EVERY=1 compares after every step, in every session, to find
# the step at which something goes wrong.
# When a step fails, the statements so far are in model.sql, in the test's log
# directory, each with the session that ran it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use IPC::Open3;

my $seed = $ENV{LSM_MODEL_SEED};
my $steps = $ENV{LSM_MODEL_STEPS} || 1500;

$seed = LsmNode::tests_seed() unless defined $seed;
note "model test: LSM_MODEL_SEED=$seed LSM_MODEL_STEPS=$steps";

# Random numbers of our own: a seed gives the same run everywhere.
my $random_state = ($seed & 0xFFFFFFFF) || 1;

sub random
{
	my ($below) = @_;

	$random_state ^= ($random_state << 13) & 0xFFFFFFFF;
	$random_state ^= $random_state >> 17;
	$random_state ^= ($random_state << 5) & 0xFFFFFFFF;
	return $random_state % $below;
}

sub pick { return $_[ random(scalar @_) ]; }

# One chance in n.
sub chance { return random($_[0]) == 0; }

##############################################################################
# The server and its sessions
##############################################################################

my $node = LsmNode->new('model');

$node->setup(
	conf => q{
autovacuum = off
restart_after_crash = off
max_prepared_transactions = 10
});

my $log_name = "$PostgreSQL::Test::Utils::log_path/model.sql";
my @recent;
my $fixed_step = 0;

open(my $log, '>', $log_name) or die "could not open $log_name: $!";
$log->autoflush(1);

sub log_statement
{
	my ($who, $sql) = @_;
	my $line = "/* $fixed_step $who */ $sql";

	print $log "$line\n";
	push @recent, $line;
	shift @recent if @recent > 50;
	return;
}

# The end of the test: nothing after a difference would mean much.
sub fail_step
{
	my ($what, @details) = @_;

	fail($what);
	diag($what);
	diag($_) foreach @details;
	diag("seed: LSM_MODEL_SEED=$seed LSM_MODEL_STEPS=$steps");
	diag("all statements: $log_name; the last ones:");
	diag($_) foreach @recent;
	$node->stop('immediate', fail_ok => 1);
	done_testing();
	exit 1;
}

# A psql of our own that prints each statement's SQLSTATE.
my %settings = (
	client_min_messages => 'error',
	lock_timeout => '15ms',
	extra_float_digits => '1');

sub session_open
{
	my ($name) = @_;
	my $s = { name => $name, tx => 0, saved => [], buffer => '' };
	my @psql = (
		'psql', '-X', '-q', '-A', '-t', '-d', $node->connstr('postgres'),
		'-f', '-');

	open(my $errors, '>>', "$PostgreSQL::Test::Utils::log_path/model_$name.err")
	  or die "could not open error log: $!";
	$s->{pid} =
	  open3($s->{in}, $s->{out}, '>&' . fileno($errors), @psql);
	close($errors);
	$s->{in}->autoflush(1);
	session_run($s, 'SET ' . $_ . " = '" . $settings{$_} . "'")
	  foreach sort keys %settings;
	# all that one of the writers inserts, it loads
	session_run($s, 'SET lsm.debug_load_after = 0') if $name eq 'w1';
	return $s;
}

sub session_close
{
	my ($s) = @_;

	close($s->{in});
	close($s->{out});
	waitpid($s->{pid}, 0);
	return;
}

# Runs statements; returns for each [SQLSTATE, its rows sorted].
sub session_run
{
	my ($s, @statements) = @_;
	my @results;

	local $SIG{PIPE} = 'IGNORE';
	local $SIG{ALRM} = sub { fail_step("statement takes too long in $s->{name}") };

	log_statement($s->{name}, "$_;") foreach @statements;
	print { $s->{in} } "$_\n;\n\\echo '\@\@' :SQLSTATE\n" foreach @statements;
	alarm 120;
	foreach my $statement (@statements)
	{
		my ($rows, $state);

		while (1)
		{
			if ($s->{buffer} =~ s/\A(.*?)^@@ (\w+)\n//ms)
			{
				($rows, $state) = ($1, $2);
				last;
			}
			next if sysread($s->{out}, $s->{buffer}, 65536, length $s->{buffer});
			alarm 0;
			fail_step("connection lost in $s->{name}", $statement, $s->{buffer});
		}
		push @results, [ $state, join "\n", sort split /\n/, $rows ];
	}
	alarm 0;
	return @results;
}

# One statement that must work.
sub session_safe
{
	my ($s, $sql) = @_;
	my ($result) = session_run($s, $sql);

	fail_step("statement failed with $result->[0] in $s->{name}", $sql)
	  if $result->[0] ne '00000';
	return $result->[1];
}

##############################################################################
# The two tables
##############################################################################

$node->safe_psql(
	'postgres', q{
CREATE TABLE m_heap (id int PRIMARY KEY, k int, a int, b text, c numeric(12,2), u int UNIQUE, d timestamptz) USING heap;
CREATE TABLE m_lsm (id int PRIMARY KEY, k int, a int, b text, c numeric(12,2), u int UNIQUE, d timestamptz) USING lsm;
CREATE INDEX m_heap_k ON m_heap (k);
CREATE INDEX m_lsm_k ON m_lsm (k);
CREATE TABLE m_heap_log (w text) USING heap;
CREATE TABLE m_lsm_log (w text) USING heap;

-- Deferred, so that it fetches old versions at the end of the transaction.
CREATE FUNCTION m_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	old_row text := '-';
	new_row text := '-';
BEGIN
	IF TG_OP <> 'INSERT' THEN old_row := md5(OLD::text); END IF;
	IF TG_OP <> 'DELETE' THEN new_row := md5(NEW::text); END IF;
	EXECUTE format('INSERT INTO %I VALUES (%L)', TG_TABLE_NAME || '_log', TG_OP || old_row || new_row);
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON m_heap
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION m_trigger();
CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON m_lsm
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION m_trigger();

-- The contents of a table, read in several ways, a line each.  (An old snapshot may see two rows
-- with one id: what others have deleted since, and what its own transaction has inserted.)
CREATE FUNCTION m_ways(t text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	way text;
	query text;
	answer text;
BEGIN
	FOREACH way IN ARRAY array['seqscan', 'indexscan', 'bitmapscan', 'indexonlyscan'] LOOP
		PERFORM set_config('enable_' || w, (w = way OR way = 'indexonlyscan' AND w = 'indexscan')::text, true)
			FROM unnest(array['seqscan', 'indexscan', 'bitmapscan', 'indexonlyscan']) w;
		FOREACH query IN ARRAY CASE way
			WHEN 'seqscan' THEN array[
				'SELECT count(*) || md5(coalesce(string_agg(x::text, '','' ORDER BY id, x::text), '''')) FROM @ x',
				'SELECT count(*)::text FROM @',
				'SELECT count(*) || '' '' || coalesce(sum(x.id - y.id), 0) FROM @ x JOIN @ y ON x.ctid = y.ctid']
			WHEN 'indexonlyscan' THEN array[
				'SELECT count(*) || '' '' || coalesce(sum(id), 0) FROM @ WHERE id >= 0',
				'SELECT count(*) || '' '' || coalesce(sum(k), 0) FROM @ WHERE k >= 0']
			ELSE array[
				'SELECT count(*) || md5(coalesce(string_agg(x::text, '','' ORDER BY id, x::text), '''')) FROM @ x WHERE id >= 0',
				'SELECT count(*) || md5(coalesce(string_agg(x::text, '','' ORDER BY id, x::text), '''')) FROM @ x WHERE k >= 0',
				'SELECT count(*) || md5(coalesce(string_agg(x::text, '','' ORDER BY id, x::text), '''')) FROM @ x WHERE u >= 0']
			END LOOP
			EXECUTE replace(query, '@', t) INTO answer;
			RETURN NEXT way || ' ' || replace(query, '@', 't') || ': ' || answer;
		END LOOP;
	END LOOP;
	PERFORM set_config('enable_' || w, 'on', true)
		FROM unnest(array['seqscan', 'indexscan', 'bitmapscan', 'indexonlyscan']) w;
END $$;
});

my $has_amcheck = $node->safe_psql('postgres',
	"SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'");
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck') if $has_amcheck;

# What an early version of the engine refuses is left out, and said.
my %works;
{
	my %probe = (
		upsert => 'INSERT INTO m_probe VALUES (1) ON CONFLICT DO NOTHING',
		merge => 'MERGE INTO m_probe USING (SELECT 1 AS i) s ON s.i = m_probe.id WHEN MATCHED THEN DELETE',
		cluster => 'VACUUM FULL m_probe',
		prepare => q{BEGIN; INSERT INTO m_probe VALUES (2); PREPARE TRANSACTION 'probe'});

	$node->safe_psql('postgres', 'CREATE TABLE m_probe (id int PRIMARY KEY) USING lsm');
	foreach my $feature (sort keys %probe)
	{
		my ($code, undef, $stderr) =
		  $node->psql('postgres', "\\set VERBOSITY sqlstate\n$probe{$feature};");

		$works{$feature} = $stderr !~ /0A000/;
		note "not supported, and left out: $feature" unless $works{$feature};
	}
	$node->safe_psql('postgres', "ROLLBACK PREPARED 'probe'") if $works{prepare};
	$node->safe_psql('postgres', 'DROP TABLE m_probe');
}

##############################################################################
# Random statements, with @ for the table
##############################################################################

# Columns and indexes that DDL has made: name => type.
my $schema = { columns => {}, indexes => {} };
my $next_name = 1;
my $next_id = 1000;

sub copy_schema
{
	my ($from) = @_;

	return { columns => { %{ $from->{columns} } },
		indexes => { %{ $from->{indexes} } } };
}

my %column_types = (
	int => sub { random(1000) },
	bigint => sub { random(1000) * 1000000007 },
	text => sub { "'" . pick('x', 'yy', 'zzz') . random(50) . "'" },
	'numeric(8,2)' => sub { random(100000) / 100 },
	boolean => sub { pick('true', 'false') },
	date => sub { "date '2024-01-01' + " . random(1000) },
	'float8' => sub { random(1000) / 8 },
	jsonb => sub { "'{\"v\": " . random(100) . "}'" });

sub random_id { return chance(4) ? 1000 + random(1 + $next_id - 1000) : 1 + random(300); }

# A condition that holds for one row, some, or many.
sub random_where
{
	my $m = 2 + random(9);
	my $low = random_id();

	return pick(
		'id = ' . random_id(),
		'id = ' . random_id(),
		'id = ' . random_id(),
		'id IN (' . join(', ', map { random_id() } 0 .. random(5)) . ')',
		"id BETWEEN $low AND " . ($low + random(40)),
		'k = ' . random(20),
		'u = ' . (1 + random(100)),
		'k IS NULL',
		"id % $m = " . random($m),
		"id % $m = " . random($m) . ' AND k < ' . random(20),
		'a % 3 = 1 AND id < ' . random_id());
}

sub random_text
{
	return pick(
		'NULL',
		"'t" . random(1000) . "'",
		"'t" . random(1000) . "'",
		"repeat('" . pick('a', 'bc', 'xyz ') . "', " . random(300) . ')',
		"(SELECT string_agg(md5(g::text), '') FROM generate_series(1, " . (1 + random(160)) . ') g)');
}

sub random_set
{
	my @dynamic = sort keys %{ $schema->{columns} };

	if (@dynamic && chance(4))
	{
		my $column = pick(@dynamic);

		return "$column = " . (chance(5) ? 'NULL' : $column_types{ $schema->{columns}{$column} }->());
	}
	return pick(
		'a = a + 1',
		'a = coalesce(a, 0) + ' . random(10),
		'a = NULL',
		'a = a',
		'c = ' . random(100000) / 100,
		'c = c * 2 - 1000000 * trunc(c / 500000), a = a + 1',
		'b = ' . random_text(),
		"b = left(coalesce(b, '') || 'tail', 4000)",
		'a = ' . random(100) . ', b = ' . random_text() . ', c = NULL',
		"d = timestamptz '2024-01-01 00:00+00' + a * interval '1 hour'",
		'k = ' . random(20),
		'k = k + 1',
		'k = NULL',
		'k = ' . random(20) . ', a = a + 1, b = ' . random_text(),
		'k = k');
}

sub random_values
{
	return join(', ',
		chance(8) ? 'NULL' : random(20),
		random(1000), random_text(), random(100000) / 100,
		chance(3) ? 1 + random(100) : 'NULL',
		"'2024-01-01 00:00+00'");
}

# Returns (SQL, whether it may touch several rows).
sub random_dml
{
	my @kinds = (
		sub { ('INSERT INTO @ (id, k, a, b, c, u, d) VALUES (' . random_id() . ', ' . random_values() . ') RETURNING *', 0) },
		sub { ('INSERT INTO @ (id, k, a, b, c, u, d) VALUES ('
			  . join('), (', map { random_id() . ', ' . random_values() } 0 .. random(4)) . ') RETURNING id', 1) },
		sub {
			my ($first, $count) = ($next_id, 1 + random(60));

			$next_id += $count;
			return ("INSERT INTO @ (id, k, a, b) SELECT i, i % 20, i, 'bulk ' || i FROM generate_series($first, $first + $count - 1) i", 1);
		},
		sub {
			my $first = $next_id;

			$next_id += 400;
			return ("INSERT INTO @ (id, k, a, b, c) SELECT $first + id, k, a, b, c FROM @ WHERE id < 400 AND id % 10 = " . random(10), 1);
		},
		(sub { ('UPDATE @ SET ' . random_set() . ' WHERE ' . random_where() . ' RETURNING *', 1) }) x 8,
		(sub { ('UPDATE @ SET ' . random_set() . ' WHERE id = ' . random_id() . ' RETURNING id, k, a', 0) }) x 4,
		sub { ('UPDATE @ SET u = ' . (chance(3) ? 'NULL' : 1 + random(100)) . ' WHERE id = ' . random_id() . ' RETURNING id, u', 0) },
		sub { ('UPDATE @ SET id = ' . random_id() . ', a = a + 1 WHERE id = ' . random_id() . ' RETURNING id', 0) },
		sub { ('UPDATE @ SET id = id + 1000000 WHERE id < 1000000 AND id % 31 = ' . random(31) . ' RETURNING id', 1) },
		sub { ('UPDATE @ SET id = id - 1000000 WHERE id >= 1000000 RETURNING id', 1) },
		sub { ('UPDATE @ t SET a = s.a + 1, c = s.c FROM @ s WHERE s.id = t.id + 1 AND t.id % 7 = ' . random(7) . ' RETURNING t.id, t.a', 1) },
		sub { ('UPDATE @ SET k = (SELECT max(k) FROM @ s WHERE s.id < 100) WHERE ' . random_where() . ' RETURNING id, k', 1) },
		sub { ('UPDATE @ SET a = a + 1 WHERE ctid = ANY (ARRAY(SELECT ctid FROM @ WHERE ' . random_where() . ')) RETURNING id, a', 1) },
		sub { ('DELETE FROM @ WHERE ctid IN (SELECT ctid FROM @ WHERE ' . random_where() . ' AND id % 3 = 0) RETURNING id', 1) },
		(sub { ('DELETE FROM @ WHERE id = ' . random_id() . ' RETURNING *', 0) }) x 2,
		sub { ('DELETE FROM @ WHERE ' . random_where() . ' RETURNING id', 1) },
		sub { ('DELETE FROM @ WHERE id >= 1000 AND id % 4 = ' . random(4), 1) },
		sub { ('DELETE FROM @ USING @ s WHERE s.id = @.id - 1 AND @.a < s.a AND @.id % 5 = 0 RETURNING @.id', 1) },
		sub {
			my $id = random_id();

			return ("DO \$\$ BEGIN DELETE FROM @ WHERE id = $id; INSERT INTO @ (id, k, a) VALUES ($id, " . random(20) . ', 1);'
				  . " UPDATE @ SET a = a + 1 WHERE id = $id; END \$\$", 0);
		},
		sub {
			my $id = random_id();

			return ('DO $$ BEGIN FOR i IN 1 .. ' . (1 + random(8)) . " LOOP BEGIN INSERT INTO @ (id, u, a) VALUES ($id + i * 3, 1 + (i * 37) % 100, 0);"
				  . " EXCEPTION WHEN unique_violation THEN UPDATE @ SET a = coalesce(a, 0) + 1 WHERE id = $id + i * 3; END; END LOOP; END \$\$", 1);
		},
		sub {
			return ('DO $$ DECLARE c refcursor; r record; BEGIN OPEN c FOR SELECT * FROM @ WHERE ' . random_where() . '; LOOP FETCH c INTO r;'
				  . ' EXIT WHEN NOT FOUND; IF r.id % 4 = 0 THEN DELETE FROM @ WHERE CURRENT OF c;'
				  . ' ELSE UPDATE @ SET a = coalesce(a, 0) + 1, k = r.k WHERE CURRENT OF c; END IF; END LOOP; CLOSE c; END $$', 1);
		},
		(sub {
			my $strength = pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE');
			my $wait = pick('', ' NOWAIT', ' SKIP LOCKED');

			return ('SELECT id, a FROM @ WHERE ' . random_where() . " ORDER BY id FOR $strength$wait", 1);
		}) x 3,
		sub { ('SELECT * FROM @ WHERE ' . random_where(), 1) },
		sub { ('SELECT k, count(*), sum(a), min(b) FROM @ GROUP BY k', 1) },
		sub { ('SELECT id, k FROM @ WHERE k BETWEEN 5 AND ' . (5 + random(15)) . ' ORDER BY k DESC, id', 1) },
		sub { ('SELECT count(*), sum(x.a) FROM @ x JOIN @ y ON x.u = y.u', 1) },);

	if ($works{upsert})
	{
		push @kinds,
		  sub { ('INSERT INTO @ (id, k, a, b, c, u, d) VALUES (' . random_id() . ', ' . random_values() . ') ON CONFLICT DO NOTHING RETURNING *', 0) },
		  sub { ('INSERT INTO @ (id, k, a, b, c, u, d) VALUES (' . random_id() . ', ' . random_values() . ') ON CONFLICT (id) DO UPDATE SET a = @.a + 1, k = excluded.k RETURNING id, a', 0) },
		  sub { ('INSERT INTO @ (id, u, a) VALUES (' . random_id() . ', ' . (1 + random(100)) . ', 0) ON CONFLICT (u) DO UPDATE SET b = @.b || excluded.id RETURNING id, b', 0) };
	}
	if ($works{merge})
	{
		push @kinds, sub {
			my $low = random_id();

			return ("MERGE INTO @ USING generate_series($low, $low + " . random(20) . ') i ON @.id = i'
				  . ' WHEN MATCHED AND i % 5 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET a = coalesce(a, 0) + 1, k = ' . random(20)
				  . ' WHEN NOT MATCHED THEN INSERT (id, a) VALUES (i, 0)', 1);
		};
	}
	return pick(@kinds)->();
}

# Returns (SQL, what to do when it worked).
sub random_ddl
{
	my ($in_transaction) = @_;
	my @columns = sort keys %{ $schema->{columns} };
	my @indexes = sort keys %{ $schema->{indexes} };
	my @kinds;

	if (@columns < 5)
	{
		push @kinds, (sub {
			my $type = pick(sort keys %column_types);
			my $name = 'x' . $next_name++;
			my $default = pick('', '', " DEFAULT " . $column_types{$type}->(), " DEFAULT " . $column_types{$type}->());

			$default = ' DEFAULT (random() * 0)::int' if $type eq 'int' && chance(4);
			return ("ALTER TABLE @ ADD COLUMN $name $type$default",
				sub { $schema->{columns}{$name} = $type });
		}) x 2;
	}
	if (@columns)
	{
		my $column = pick(@columns);

		push @kinds,
		  sub { ("ALTER TABLE @ DROP COLUMN $column CASCADE",
				sub {
					delete $schema->{columns}{$column};
					foreach my $index (sort keys %{ $schema->{indexes} })
					{
						delete $schema->{indexes}{$index} if $schema->{indexes}{$index} =~ /\b$column\b/;
					}
				}) },
		  sub { ("ALTER TABLE @ ALTER COLUMN $column SET DEFAULT NULL", sub { }) };
		push @kinds, sub { ("ALTER TABLE @ ALTER COLUMN $column TYPE bigint",
				sub { $schema->{columns}{$column} = 'bigint' }) }
		  if $schema->{columns}{$column} eq 'int';
		push @kinds, sub { ("ALTER TABLE @ ALTER COLUMN $column TYPE text USING $column\::text",
				sub { $schema->{columns}{$column} = 'text' }) }
		  if $schema->{columns}{$column} ne 'text';
	}
	if (@indexes < 4)
	{
		push @kinds, (sub {
			my $name = 'i' . $next_name++;
			my ($unique, $definition) = @{ pick(
				[ '', '(a)' ], [ '', '(k, id)' ], [ '', '(lower(left(b, 100)))' ],
				[ '', '(c) WHERE k > 5' ], [ '', '(a) INCLUDE (k)' ],
				[ 'UNIQUE ', '(id, k)' ], [ 'UNIQUE ', '(a)' ],
				@columns ? [ '', '(' . pick(@columns) . ')' ] : [ '', '(c DESC)' ]) };

			# an equal text of 100 bytes fits any index
			return ("CREATE ${unique}INDEX \@_$name ON @ $definition",
				sub { $schema->{indexes}{$name} = $definition });
		}) x 3;
	}
	if (@indexes)
	{
		my $index = pick(@indexes);

		push @kinds,
		  sub { ("DROP INDEX \@_$index", sub { delete $schema->{indexes}{$index} }) },
		  sub { ("REINDEX INDEX \@_$index", sub { }) };
	}
	push @kinds, sub { ('REINDEX TABLE @', sub { }) };
	push @kinds, sub { ('TRUNCATE @', sub { }) } if chance(3);
	push @kinds, sub { ('VACUUM FULL @', sub { }) } if $works{cluster} && !$in_transaction && chance(2);
	return pick(@kinds)->();
}

##############################################################################
# Steps
##############################################################################

my ($writer0, $writer1, $reader, $maintenance) = map { session_open($_) } qw(w0 w1 r m);
my %counts;

# What a statement may fail with when others have open transactions, depending
# on the order in which it meets its rows.
my %depends_on_order = map { $_ => 1 } qw(23505 55P03 40001 21000);

sub others_open
{
	my ($s) = @_;

	return scalar grep { $_ != $s && $_->{tx} } ($writer0, $writer1, $reader);
}

# Applies a statement to both tables; returns whether it worked.
sub apply
{
	my ($s, $sql, $several) = @_;
	my ($on_heap, $on_lsm) = map { my $x = $sql; $x =~ s/@/$_/g; $x } qw(m_heap m_lsm);
	my ($heap, $lsm) = session_run($s, $on_heap, $on_lsm);
	my ($h, $l) = ($heap->[0], $lsm->[0]);

	$counts{$h}++;
	if ($h ne '00000' && $s->{tx} && !$s->{on_error_rollback})
	{
		# The transaction is over: lsm's turn could not come.
		fail_step("SQLSTATE $l in an aborted transaction", $sql) if $l ne '25P02';
		end_transaction($s, 'ROLLBACK');
		return 0;
	}
	if ($h ne $l)
	{
		return 0
		  if $several && others_open($s) && $depends_on_order{$h} && $depends_on_order{$l};

		# Where a row was updated and then deleted by one open transaction,
		# heap waits for it in spite of SKIP LOCKED; lsm need not.  From here
		# on the locks would differ.
		if ($sql =~ /SKIP LOCKED/ && $h eq '55P03' && $l eq '00000' && others_open($s))
		{
			end_transaction($s, 'ROLLBACK') if $s->{tx};
			return 0;
		}
		fail_step("heap gives SQLSTATE $h, lsm $l", "$s->{name}: $sql");
	}
	if ($heap->[1] ne $lsm->[1])
	{
		fail_step('heap and lsm return different rows', "$s->{name}: $sql",
			"heap: $heap->[1]", "lsm: $lsm->[1]");
	}
	return $h eq '00000';
}

sub compare_contents
{
	my ($s) = @_;
	my ($heap, $lsm) = session_run($s, "SELECT m_ways('m_heap')", "SELECT m_ways('m_lsm')");

	# DDL of another session that is not committed
	if ($heap->[0] eq '55P03' && $lsm->[0] =~ /^(?:55P03|25P02)$/)
	{
		end_transaction($s, 'ROLLBACK') if $lsm->[0] eq '25P02';
		return;
	}
	if ($heap->[0] ne $lsm->[0] || $heap->[1] ne $lsm->[1])
	{
		my @details = ("heap: $heap->[0]\n$heap->[1]", "lsm: $lsm->[0]\n$lsm->[1]");
		my ($only_heap, $only_lsm, $problems, $segments) = session_run($s,
			'SELECT * FROM (SELECT * FROM m_heap EXCEPT ALL SELECT * FROM m_lsm) x ORDER BY 1 LIMIT 10',
			'SELECT * FROM (SELECT * FROM m_lsm EXCEPT ALL SELECT * FROM m_heap) x ORDER BY 1 LIMIT 10',
			"SELECT * FROM lsm_check('m_lsm') LIMIT 10",
			"SELECT * FROM lsm_segments('m_lsm')");

		fail_step("contents differ as $s->{name} sees them", @details,
			"only in heap: $only_heap->[1]", "only in lsm: $only_lsm->[1]",
			"lsm_check: $problems->[1]", "segments:\n$segments->[1]");
	}
	$counts{comparisons}++;
	return;
}

# Deferred triggers have logged OLD and NEW of both tables.
sub compare_logs
{
	my ($heap, $lsm) = session_run($maintenance,
		q{SELECT count(*) || md5(coalesce(string_agg(w, ',' ORDER BY w COLLATE "C"), '')) FROM m_heap_log},
		q{SELECT count(*) || md5(coalesce(string_agg(w, ',' ORDER BY w COLLATE "C"), '')) FROM m_lsm_log});

	fail_step('deferred triggers saw different rows', "heap: $heap->[1]", "lsm: $lsm->[1]")
	  if $heap->[1] ne $lsm->[1];
	session_safe($maintenance, 'TRUNCATE m_heap_log, m_lsm_log') unless grep { $_->{tx} } ($writer0, $writer1);
	return;
}

sub begin_transaction
{
	my ($s) = @_;

	$s->{on_error_rollback} = !chance(4);
	$s->{repeatable} = chance(4);
	$s->{savepoints} = 0;
	$s->{ddl} = 0;
	$s->{saved} = [ copy_schema($schema) ];
	session_safe($s, '\set ON_ERROR_ROLLBACK ' . ($s->{on_error_rollback} ? 'on' : 'off')
		  . "\nBEGIN" . ($s->{repeatable} ? ' ISOLATION LEVEL REPEATABLE READ' : ''));
	$s->{tx} = 1;
	return;
}

sub end_transaction
{
	my ($s, $how) = @_;
	my ($result) = session_run($s, $how);

	fail_step("$how failed with $result->[0]") if $result->[0] ne '00000';
	$schema = $s->{saved}[0] if $how eq 'ROLLBACK' && $s->{ddl};
	$s->{tx} = 0;
	return;
}

sub step_transaction
{
	my ($s) = @_;

	if (!$s->{tx})
	{
		begin_transaction($s);
	}
	elsif (chance(3) && @{ $s->{saved} } < 5)
	{
		session_safe($s, 'SAVEPOINT s' . scalar @{ $s->{saved} });
		push @{ $s->{saved} }, copy_schema($schema);
	}
	elsif (@{ $s->{saved} } > 1 && chance(2))
	{
		my $to = 1 + random(@{ $s->{saved} } - 1);

		if (chance(2))
		{
			session_safe($s, "ROLLBACK TO s$to");
			$schema = copy_schema($s->{saved}[$to]) if $s->{ddl};
			splice @{ $s->{saved} }, $to + 1;
		}
		else
		{
			session_safe($s, "RELEASE s$to");
			splice @{ $s->{saved} }, $to;
		}
	}
	elsif ($works{prepare} && chance(12))
	{
		my $kept = $s->{ddl};

		session_safe($s, "PREPARE TRANSACTION 'model'");
		compact($maintenance) if chance(2);
		compare_contents($maintenance);
		if (chance(2))
		{
			session_safe($s, "COMMIT PREPARED 'model'");
		}
		else
		{
			session_safe($s, "ROLLBACK PREPARED 'model'");
			$schema = $s->{saved}[0] if $kept;
		}
		$s->{tx} = 0;
	}
	else
	{
		end_transaction($s, chance(3) ? 'ROLLBACK' : 'COMMIT');
		compare_contents(chance(2) ? $s : $maintenance);
		compare_logs() unless random(5);
	}
	return;
}

sub compact
{
	my ($s) = @_;
	my $function = pick('lsm_flush', 'lsm_flush', 'lsm_flush', 'lsm_minor_compact', 'lsm_major_compact');
	my ($result) = session_run($s, "SELECT count(*) FROM $function('m_lsm')");

	# Nothing but another session's DDL may be in the way.
	return if $result->[0] eq '55P03' && others_open($s);
	fail_step("$function failed with $result->[0]") if $result->[0] ne '00000';
	$counts{$function}++;
	return;
}

sub step_ddl
{
	# Open transactions stand in the way of most DDL: end them now and then.
	if (chance(2))
	{
		end_transaction($_, chance(3) ? 'ROLLBACK' : 'COMMIT') foreach grep { $_->{tx} } ($writer1, $reader);
	}

	# In a transaction of the first writer, or by itself.
	my $s = $writer0->{tx} && $writer0->{on_error_rollback} ? $writer0 : $maintenance;
	my ($sql, $done) = random_ddl($s->{tx});

	if (apply($s, $sql, 1))
	{
		$done->();
		$s->{ddl} = 1 if $s->{tx};
		$counts{ddl}++;
	}
	return;
}

# The reader's snapshot and cursors last over many steps.
sub step_reader
{
	if (!$reader->{tx})
	{
		session_safe($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
		my ($heap) = session_run($reader, 'SELECT count(*) FROM m_heap, (SELECT count(*) FROM m_lsm) x');

		if ($heap->[0] ne '00000')
		{
			session_safe($reader, 'ROLLBACK');
			return;
		}
		$reader->{tx} = 1;
		$reader->{cursor} = chance(2);
		if ($reader->{cursor})
		{
			my $order = pick('', ' ORDER BY id', ' ORDER BY k, id', ' WHERE k < 12');

			session_safe($reader, "SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off") if $order =~ /ORDER/;
			session_safe($reader, "DECLARE c_$_ CURSOR FOR SELECT * FROM m_$_$order") foreach qw(heap lsm);
			session_safe($reader, 'SET LOCAL enable_sort = on; SET LOCAL enable_seqscan = on');
			$reader->{fetched} = { heap => [], lsm => [] };
		}
		compare_contents($reader);
	}
	elsif ($reader->{cursor} && chance(2))
	{
		my $n = 1 + random(60);

		foreach my $table (qw(heap lsm))
		{
			push @{ $reader->{fetched}{$table} },
			  split /\n/, session_safe($reader, "FETCH $n FROM c_$table");
		}
	}
	elsif (chance(4))
	{
		if ($reader->{cursor})
		{
			my %rows;

			foreach my $table (qw(heap lsm))
			{
				push @{ $reader->{fetched}{$table} },
				  split /\n/, session_safe($reader, "FETCH ALL FROM c_$table");
				$rows{$table} = join "\n", sort @{ $reader->{fetched}{$table} };
			}
			fail_step('cursors give different rows', "heap: $rows{heap}", "lsm: $rows{lsm}")
			  if $rows{heap} ne $rows{lsm};
			$counts{cursors}++;
		}
		compare_contents($reader);
		session_safe($reader, 'COMMIT');
		$reader->{tx} = 0;
	}
	else
	{
		compare_contents($reader);
	}
	return;
}

sub step_vacuum
{
	# Freezing waits for the page that a cursor on a heap table stands on.
	my $freeze = $reader->{tx} && $reader->{cursor} ? '' : 'FREEZE, ';
	my ($result) = session_run($maintenance,
		pick('VACUUM m_lsm', 'VACUUM m_lsm', 'VACUUM m_heap, m_lsm', 'ANALYZE m_heap, m_lsm', "VACUUM (${freeze}ANALYZE) m_heap, m_lsm"));

	fail_step("VACUUM or ANALYZE failed with $result->[0]")
	  if $result->[0] ne '00000' && !($result->[0] eq '55P03' && others_open($maintenance));
	$counts{vacuum}++;
	return;
}

sub check_structure
{
	my ($problems) = session_run($maintenance, "SELECT c FROM lsm_check('m_lsm') c LIMIT 20");

	return if $problems->[0] eq '55P03' && others_open($maintenance);
	fail_step("lsm_check failed with $problems->[0]") if $problems->[0] ne '00000';
	fail_step('lsm_check finds problems', $problems->[1]) if $problems->[1] ne '';
	$counts{lsm_check}++;
	if ($has_amcheck)
	{
		my ($indexes) = session_run($maintenance,
			"SELECT count(bt_index_check(indexrelid, true)) FROM pg_index WHERE indrelid = 'm_lsm'::regclass AND indisvalid");

		return if $indexes->[0] eq '55P03' && others_open($maintenance);
		fail_step("bt_index_check failed with $indexes->[0]") if $indexes->[0] ne '00000';
		$counts{bt_index_check}++;
	}
	return;
}

sub restart
{
	my ($mode) = @_;

	log_statement('*', "-- restart: $mode");
	$schema = $writer0->{saved}[0] if $writer0->{tx} && $writer0->{ddl};
	$node->stop($mode) if $mode eq 'immediate';
	session_close($_) foreach ($writer0, $writer1, $reader, $maintenance);
	$node->stop($mode) unless $mode eq 'immediate';
	$node->start;
	($writer0, $writer1, $reader, $maintenance) = map { session_open($_) } qw(w0 w1 r m);
	compare_contents($maintenance);
	compare_logs();
	check_structure();
	$counts{"restart $mode"}++;
	return;
}

apply($maintenance, q{INSERT INTO @ SELECT i, i % 20, i, 'row ' || i, i / 4.0, CASE WHEN i % 4 = 0 THEN i / 4 END, '2024-01-01 00:00+00' FROM generate_series(1, 200) i}, 1);

my $third = int($steps / 3);

for (my $step = 1; $step <= $steps; $step++)
{
	my $writer = pick($writer0, $writer1);
	my $what = random(100);

	$fixed_step = $step;
	if ($what < 66)
	{
		apply($writer, random_dml());
	}
	elsif ($what < 80)
	{
		step_transaction($writer);
	}
	elsif ($what < 89)
	{
		compact(pick($maintenance, $maintenance, grep { !$_->{tx} || $_->{on_error_rollback} } ($writer0, $writer1)));
	}
	elsif ($what < 91)
	{
		step_vacuum();
	}
	elsif ($what < 94)
	{
		step_ddl();
	}
	else
	{
		step_reader();
	}

	compare_contents(pick($writer, $maintenance)) if $step % 8 == 0;
	check_structure() if $step % 150 == 0;
	if ($ENV{LSM_MODEL_EVERY})
	{
		compare_contents($_) foreach grep { !$_->{tx} || $_ == $reader || $_->{on_error_rollback} } ($writer0, $writer1, $reader, $maintenance);
	}
	restart('immediate') if $step % $third == 0 && $step < $steps;
	restart('fast') if $step == int($third / 2);

	# keep it small, and come through many generations of rows
	if ($step % 60 == 0
		&& (session_run($maintenance, 'SELECT count(*) > 1500 FROM m_heap'))[0][1] eq 't')
	{
		apply($maintenance, 'DELETE FROM @ WHERE id % 3 <> 0', 1);
	}
}

foreach my $s ($writer0, $writer1, $reader)
{
	end_transaction($s, 'COMMIT') if $s->{tx};
}
compare_contents($maintenance);
compare_logs();
session_safe($maintenance, "SELECT count(*) FROM lsm_flush('m_lsm')");
compare_contents($maintenance);
session_safe($maintenance, "SELECT count(*) FROM lsm_major_compact('m_lsm')");
compare_contents($maintenance);
check_structure();
restart('immediate');

note join ', ', map { "$_: $counts{$_}" } sort keys %counts;
cmp_ok($counts{'00000'}, '>', $steps / 4, 'most statements worked');
cmp_ok($counts{comparisons}, '>', $steps / 10, 'contents were compared');
cmp_ok($counts{lsm_check}, '>', 0, 'lsm_check ran');
pass("$steps steps, seed $seed");
session_close($_) foreach ($writer0, $writer1, $reader, $maintenance);
$node->stop;
done_testing();
