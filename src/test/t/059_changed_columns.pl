# Queries by column over rows that were changed: the same random changes are made to
# a heap table and to an lsm table, and the same queries must have the same answers.
#
# Two writers, each with rows of its own so that they never wait, change few rows of each
# block: some columns of them, or all, with savepoints that are rolled back; rows are
# deleted, inserted again, moved and locked.  What they have not committed lies
# between the rows of everybody.  A reader goes on with an old snapshot, at one
# isolation level or another.  In between the lsm table is flushed and compacted.
#
# Environment: LSM_TEST_SEED repeats a run, LSM_CHANGED_STEPS sets its length.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $seed = LsmNode::tests_seed();
my $steps = $ENV{LSM_CHANGED_STEPS} || 250;
my $rows = 8000;
my $random_state = ($seed & 0xFFFFFFFF) || 1;

# Numbers of our own: a seed gives the same run everywhere.
sub random
{
	my ($below) = @_;

	$random_state ^= ($random_state << 13) & 0xFFFFFFFF;
	$random_state ^= $random_state >> 17;
	$random_state ^= ($random_state << 5) & 0xFFFFFFFF;
	return $random_state % $below;
}

sub pick { return $_[ random(scalar @_) ]; }

my $node = LsmNode->new('main');

$node->setup(
	conf => q{
autovacuum = off
max_parallel_workers_per_gather = 0
lsm.block_cache_size = 16MB
});
$node->safe_psql('postgres',
	qq{CREATE TABLE h (id int PRIMARY KEY, a int NOT NULL, b int, c numeric(12, 2), d date, e text,
	f bigint, k char(1), x float8);
INSERT INTO h SELECT i, i % 97, i % 1000, i % 5000 / 7.0, date '2020-01-01' + i / 20, 'row ' || i,
	CASE WHEN i % 11 > 0 THEN i END, chr(65 + i % 3), i % 50 / 2.0
	FROM generate_series(1, $rows) i;
CREATE TABLE t (LIKE h) USING lsm;
ALTER TABLE t ADD PRIMARY KEY (id);
INSERT INTO t SELECT * FROM h ORDER BY id;
SELECT lsm_flush('t');
SELECT lsm_major_compact('t');
VACUUM ANALYZE t;
VACUUM ANALYZE h});

# Each is asked of both tables, in place of TAB.
my @queries = (
	'SELECT count(*) FROM TAB',
	'SELECT sum(a), count(*) FROM TAB',
	'SELECT sum(b), avg(a), count(f) FROM TAB',
	'SELECT sum(c), avg(c), sum(c * (1 + a)), sum(c - b) FROM TAB',
	'SELECT sum(f), sum(x), count(e) FROM TAB',
	'SELECT min(a), max(b), min(d), max(d) FROM TAB',
	'SELECT min(c), max(c), max(f), min(x) FROM TAB',
	'SELECT k, count(*), sum(a), sum(c), avg(b), max(d) FROM TAB GROUP BY k ORDER BY k',
	'SELECT a, sum(b), count(c) FROM TAB WHERE a < 10 GROUP BY a ORDER BY a',
	q{SELECT count(*), sum(c) FROM TAB WHERE d BETWEEN '2020-03-01' AND '2020-03-20'},
	q{SELECT count(*), sum(c) FROM TAB WHERE d >= '2021-01-15'},
	'SELECT count(*), sum(b) FROM TAB WHERE id + 0 BETWEEN 3000 AND 3100',
	'SELECT count(*), sum(b) FROM TAB WHERE b BETWEEN 100 AND 120 AND a < 50',
	'SELECT sum(c * a) FROM TAB WHERE a < 24 AND c BETWEEN 50 AND 600 AND b > 30',
	'SELECT count(*) FILTER (WHERE a > 90), sum(c) FILTER (WHERE f IS NULL), sum(b) FROM TAB',
	'SELECT count(*) FROM TAB WHERE f IS NULL',
	q{SELECT count(*), sum(a) FROM TAB WHERE e LIKE 'row 12%' AND k = 'B'},
	q{SELECT count(*), sum(f) FROM TAB WHERE e LIKE '%x%'},
	q{SELECT count(*), min(a), max(f) FROM TAB WHERE k = 'Z'},
	'SELECT count(*), sum(length(s.e)), max(s.b) FROM (SELECT e, b FROM TAB WHERE a = 13 OFFSET 0) s',
	q{SELECT md5(string_agg(s::text, ',' ORDER BY s.id)) FROM (SELECT * FROM TAB OFFSET 0) s},
	q{SELECT md5(string_agg(s::text, ',' ORDER BY s.id)) FROM (SELECT id, b, d FROM TAB WHERE d < '2020-06-01' OFFSET 0) s},
	# rows of LsmScan that no cursor can get at
	'SELECT sum(a % 7), count(f % 5) FROM TAB',
	'SELECT a % 3, count(*), sum(b) FROM TAB GROUP BY a % 3 ORDER BY 1',
	'SELECT sum(b), count(*) FROM TAB JOIN generate_series(1, 40) g ON a = g WHERE d > $$2020-02-01$$',
	'SELECT DISTINCT ON (k) k, max(b + 1) OVER (PARTITION BY k) FROM TAB JOIN generate_series(1, 90) g ON a = g ORDER BY k'
);

my $queries_asked = 0;
my $moves = 0;
my @different;

sub compare
{
	my ($who, $session) = @_;

	foreach my $i (0 .. 3)
	{
		my $query = pick(@queries);
		my @answers;

		foreach my $table ('h', 't')
		{
			(my $sql = $query) =~ s/TAB/$table/;
			push @answers, $session->query_safe($sql);
		}
		$queries_asked++;
		push @different, "$who: $query\nheap: $answers[0]\nlsm:  $answers[1]"
		  if $answers[0] ne $answers[1];
	}
	return;
}

sub both
{
	my ($session, $sql) = @_;

	foreach my $table ('h', 't')
	{
		(my $one = $sql) =~ s/TAB/$table/g;
		$session->query_safe($one);
	}
	return;
}

my @sets = (
	'a = a + 1', 'b = b - 7', 'c = c + 0.01', 'c = c * 3', 'd = d + 30', 'd = NULL',
	q{e = e || 'x'}, 'f = NULL', 'f = id', 'f = f + 1, b = 0', q{k = 'Z'}, 'x = x + 0.5',
	q{a = -a, b = 1, c = -c, d = d + 7, e = 'new', f = 1, k = 'A', x = 1});

# One change by a writer, of rows that are its own: even ids, or odd ones.
sub change
{
	my ($w) = @_;
	my $modulus = 2 * (20 + random(200));
	my $rest = 2 * random($modulus / 2) + $w->{odd};
	my $where = "id % $modulus = $rest";
	my $s = $w->{session};
	my $what = random(20);

	$where .= ' AND id BETWEEN 2000 AND 4000' if random(3) == 0;
	if ($what < 11)
	{
		both($s, 'UPDATE TAB SET ' . pick(@sets) . " WHERE $where");
	}
	elsif ($what == 11)
	{
		both($s, "DELETE FROM TAB WHERE $where");
	}
	elsif ($what == 12)
	{
		both(
			$s, "INSERT INTO TAB SELECT i + $w->{odd}, 1, 2, 3, '2020-05-05', 'again', 4, 'Y', 5
			FROM generate_series(2, $rows, 2) i ON CONFLICT DO NOTHING");
	}
	elsif ($what == 13)
	{
		my $by = 100000 * ++$moves;

		both($s, "UPDATE TAB SET id = id + $by WHERE $where AND id <= $rows");
	}
	elsif ($what == 14)
	{
		my $mode = pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE');

		both($s, "SELECT count(*) FROM (SELECT FROM TAB WHERE $where FOR $mode) s");
	}
	elsif ($what == 15)
	{
		# before and after, in one statement's snapshot
		both($s, "WITH u AS (UPDATE TAB SET a = a + 5 WHERE $where RETURNING a)
			SELECT count(*) FROM u, (SELECT sum(a) FROM TAB) s");
	}
	elsif (!$w->{open})
	{
		$s->query_safe('BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'REPEATABLE READ'));
		$w->{open} = 1;
		$w->{saved} = 0;
	}
	elsif ($what == 16)
	{
		$s->query_safe('SAVEPOINT s');
		$w->{saved}++;
	}
	elsif ($what == 17 && $w->{saved} > 0)
	{
		$s->query_safe('ROLLBACK TO s');
	}
	else
	{
		$s->query_safe(pick('COMMIT', 'COMMIT', 'ROLLBACK'));
		$w->{open} = 0;
	}
	return;
}

my @writers = map { { odd => $_, open => 0, saved => 0, session => $node->session('postgres') } } 0, 1;
my $reader = $node->session('postgres');
my $old = $node->session('postgres');
my $old_open = 0;

like(
	$node->safe_psql('postgres', 'EXPLAIN SELECT sum(a) FROM t'),
	qr/LsmAgg/, 'queries are answered by column');

foreach my $step (1 .. $steps)
{
	my $w = pick(@writers);

	if (!$old_open && random(4) == 0)
	{
		$old->query_safe('BEGIN ISOLATION LEVEL ' . pick('REPEATABLE READ', 'SERIALIZABLE'));
		compare("old reader, step $step", $old);
		$old_open = 1;
	}
	change($w);
	compare("writer, step $step", $w->{session}) if random(2) == 0;
	$reader->query_safe(
		pick(
			"SELECT lsm_flush('t')", "SELECT lsm_flush('t')",
			"SELECT lsm_minor_compact('t')", "SELECT lsm_major_compact('t')"))
	  if random(12) == 0;
	compare("reader, step $step", $reader);
	compare("old reader, step $step", $old) if $old_open;
	if ($old_open && random(15) == 0)
	{
		$old->query_safe('COMMIT');
		$old_open = 0;
	}
	if ($step == int($steps / 2))
	{
		# rows that are older than a column have its default
		$_->{session}->query_safe('ROLLBACK') foreach grep { $_->{open} } @writers;
		$_->{open} = 0 foreach @writers;
		$old->query_safe('ROLLBACK') if $old_open;
		$old_open = 0;
		$reader->query_safe("ALTER TABLE $_ ADD COLUMN z int DEFAULT 7") foreach 'h', 't';
		push @queries, 'SELECT sum(z), count(z) FROM TAB',
		  'SELECT count(*), sum(a) FROM TAB WHERE z = 7';
		push @sets, 'z = z + 1', 'z = NULL';
	}
	last if @different;
}
is(join("\n", @different), '', "answers are those of heap, of $queries_asked queries");
$_->{session}->query_safe('COMMIT') foreach grep { $_->{open} } @writers;
$old->query_safe('COMMIT') if $old_open;
$_->quit foreach (map { $_->{session} } @writers), $reader, $old;

sub all_same
{
	my ($server, $label) = @_;
	my $wrong = '';

	foreach my $query (@queries)
	{
		my @answers = map
		{
			(my $sql = $query) =~ s/TAB/$_/;
			$server->safe_psql('postgres', $sql);
		} 'h', 't';

		$wrong .= "$query\nheap: $answers[0]\nlsm:  $answers[1]\n" if $answers[0] ne $answers[1];
	}
	return is($wrong, '', "answers are those of heap $label");
}

# What a generation has touched is found out anew after a restart.
$node->crash_and_start;
all_same($node, 'after a crash');

# A standby learns it from its pages at the first query, then from WAL.
my $standby = LsmNode->new('standby');

$node->backup('first');
$standby->init_from_backup($node, 'first', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\n");
$standby->start;
foreach my $change (
	'',
	'UPDATE TAB SET b = b + 1 WHERE id % 90 = 2',
	'UPDATE TAB SET d = d + 3, f = NULL WHERE id % 70 = 5',
	'DELETE FROM TAB WHERE id % 333 = 1',
	"SELECT lsm_flush('t')",
	q{UPDATE TAB SET k = 'Q' WHERE id % 110 = 3})
{
	$node->safe_psql('postgres', $change =~ s/TAB/h/r) if $change =~ /TAB/;
	$node->safe_psql('postgres', $change =~ s/TAB/t/r) if $change ne '';
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	all_same($standby, "on a standby: $change");
}
$standby->stop;
$node->check_ok('postgres', 'at the end');
$node->stop;
done_testing();
