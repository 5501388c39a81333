# Objects that are deleted under readers, after crashes, beside copies and objects of others,
# by DDL that is rolled back or not, and with the extension.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;
use LsmStoreNode;

my $dir = PostgreSQL::Test::Utils::tempdir() . '/cold';
mkdir $dir or die $!;

# Nothing that was read is kept; WAL is not written before somebody needs that.
my $node = LsmStoreNode->new('main');
$node->setup(
	conf => "autovacuum = off
max_parallel_workers_per_gather = 0
wal_writer_delay = 10s
lsm.block_cache_size = 0
lsm.session_cache_size = 16MB
lsm.compaction_naptime = 1
lsm.store_delete_delay = 0
");

my $server = "CREATE SERVER cold FOREIGN DATA WRAPPER lsm_store OPTIONS (type 'file', directory '$dir')";

sub psql
{
	return $node->safe_psql('postgres', $_[0]);
}

# Objects, without claims.
sub files
{
	return map { chomp; s/^\.\///; $_ } `cd '$dir' && find . -type f -not -path './claims/*' | sort`;
}

sub there
{
	return scalar grep { -e "$dir/$_" } @_;
}

sub keys_of
{
	my ($on, @tables) = @_;

	return map { split /\n/, $on->safe_psql('postgres', "SELECT object_key FROM lsm_segments('$_') WHERE object_key IS NOT NULL ORDER BY 1") } @tables;
}

sub compact
{
	my ($on, $table) = @_;

	$on->safe_psql('postgres', $_) foreach ("SELECT lsm_flush('$table')", "SELECT lsm_major_compact('$table')");
	return;
}

sub remove
{
	return psql(q{SELECT lsm_store_remove_orphans('cold', '0')});
}

# Sweeps that begin and end after this was called.
sub swept
{
	my ($on) = @_;
	my $then = $on->safe_psql('postgres', 'SELECT list_requests FROM lsm_stat_store');

	$on->set_workers(1);
	$on->wait_until('postgres', "SELECT list_requests >= $then + 6 FROM lsm_stat_store");
	$on->set_workers(0);
	return;
}

# What two queries tell of the same rows is the same.
sub sums
{
	my ($table, $where) = @_;

	return "SELECT count(*), sum(hashtext(x::text)) FROM $table x" . ($where ? " WHERE $where" : '');
}

psql(
	qq{$server;
CREATE TABLE h (id int PRIMARY KEY, k int, v int, a bytea);
INSERT INTO h SELECT i, i % 100, i % 7, (SELECT decode(string_agg(md5(i || '.' || j), ''), 'hex') FROM generate_series(1, 16) j)
	FROM generate_series(1, 30000) i;
CREATE TABLE t (LIKE h) USING lsm WITH (lsm.block_size = '8kB');
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE INDEX t_k ON t (k);
CREATE FUNCTION take(c refcursor, n int, OUT rows int, OUT hash int8) LANGUAGE plpgsql AS \$\$
DECLARE
	r record;
BEGIN
	rows := 0; hash := 0;
	WHILE rows < n LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows + 1; hash := hash + hashtext(r::text);
	END LOOP;
END \$\$;
CREATE FUNCTION pause(id int) RETURNS bool LANGUAGE plpgsql AS \$\$
BEGIN
	IF id = 9000 THEN
		PERFORM pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1);
	END IF;
	RETURN true;
END \$\$;
});
foreach my $part (0 .. 2)
{
	psql("INSERT INTO t SELECT * FROM h WHERE id > $part * 10000 AND id <= ($part + 1) * 10000");
	psql(q{SELECT lsm_flush('t')});
}
psql(q{ALTER TABLE t SET (lsm.cold_store = 'cold')});
compact($node, 't');
psql('ANALYZE t');

is(psql(q{SELECT location, count(*) > 2 FROM lsm_segments('t') GROUP BY 1}), 'cold|t', 'several cold segments');

# ---- readers ----

# Changes that everybody sees: the next major writes all segments again.
sub settled_changes
{
	psql("UPDATE $_ SET v = v + 1 WHERE id % 50 = 0") foreach ('t', 'h');
	psql(q{SELECT lsm_flush('t')});
	return;
}

my %kinds = (
	scan => [ qr/Custom Scan \(LsmScan\)/, 'enable_bitmapscan = off', 'true', '' ],
	bitmap => [ qr/Custom Scan \(LsmBitmapScan\)/, 'enable_indexscan = off', 'k < 30', '' ],
	index => [ qr/Index Scan using t_k/, 'enable_bitmapscan = off', 'k < 10', 'ORDER BY k' ]);

# Cursors that have given some of their rows.
sub begin_readers
{
	my ($on) = @_;
	my @readers;

	foreach my $kind (sort keys %kinds)
	{
		my ($plan, $setting, $where, $order) = @{ $kinds{$kind} };
		my $query = "SELECT * FROM t WHERE $where $order";

		foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
		{
			my $session = $on->session('postgres');
			my $reader = { name => "$kind, $level", kind => $kind, level => $level, session => $session };

			$session->query_safe('SET enable_seqscan = off') if $kind ne 'scan';
			$session->query_safe("SET enable_sort = off; SET $setting");
			like($session->query_safe("EXPLAIN (COSTS off) $query"), $plan, $reader->{name});
			$session->query_safe("BEGIN ISOLATION LEVEL $level; DECLARE c SCROLL CURSOR FOR $query");
			$reader->{expected} = $on->safe_psql('postgres', sums('h', $where));
			take($reader, 1000);
			push @readers, $reader;
		}
	}
	return @readers;
}

sub take
{
	my ($reader, $n) = @_;
	my ($rows, $hash) = split /\|/, $reader->{session}->query_safe("SELECT * FROM take('c', $n)");

	$reader->{rows} += $rows;
	$reader->{hash} += $hash;
	return;
}

# How often the store is asked while a reader goes on.
sub gets
{
	my ($on, $reader, $n) = @_;

	$on->safe_psql('postgres', 'SELECT lsm_stat_reset()');
	take($reader, $n);
	return $on->safe_psql('postgres', 'SELECT get_requests FROM lsm_stat_store');
}

sub end_readers
{
	foreach my $reader (@_)
	{
		take($reader, 1000000);
		is("$reader->{rows}|$reader->{hash}", $reader->{expected}, "$reader->{name}: all rows");
		if ($reader->{kind} eq 'index')
		{
			$reader->{session}->query_safe('MOVE ABSOLUTE 0 FROM c');
			is($reader->{session}->query_safe(q{SELECT * FROM take('c', 1000000)}), $reader->{expected}, 'once more');
		}
	}
	return;
}

settled_changes();
psql('CREATE TABLE n AS TABLE h');
my $all = psql(sums('h'));
my $gate = $node->session('postgres');
$gate->query_safe('SELECT pg_advisory_lock(7107437), pg_advisory_lock(1)');
my @readers = begin_readers($node);

# Aggregates: one before its first request, one in the midst of its rows.
my %agg = (
	'store-open' => 'SELECT count(*), sum(v), min(k) FROM t WHERE v >= 0',
	'' => 'SELECT count(*), sum(hashtext(t::text)) FROM t WHERE pause(id)');
my %agg_expected = ('store-open' => psql('SELECT count(*), sum(v), min(k) FROM h'), '' => $all);
my %agg_session;

like(psql("EXPLAIN (COSTS off) $agg{'store-open'}"), qr/LsmAgg/, 'an aggregate');
foreach my $stop (sort keys %agg)
{
	my $session = $agg_session{$stop} = $node->session('postgres');
	my $pid = $node->session_pid($session);

	$session->query_safe("SET lsm.debug_stop = '$stop:wait'") if $stop;
	$node->start_query($session, $agg{$stop});
	$node->wait_blocked($pid);
}

my @old = keys_of($node, 't');
is(there(@old), scalar @old, 'objects that readers read');
foreach my $table ('t', 'n')
{
	psql(
		"UPDATE $table SET v = v + 100 WHERE id % 50 = 1;
		DELETE FROM $table WHERE id % 50 = 2");
}
compact($node, 't');
is(remove(), scalar @old, 'are removed when they have been compacted');
is(there(@old), 0, 'and gone');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t') WHERE kind = 'baseline'}), 'cold', 'others are there');
psql("UPDATE $_ SET k = k + 1000 WHERE id % 50 = 3; INSERT INTO $_ SELECT i, i % 100, 0, 'new' FROM generate_series(30001, 30500) i") foreach ('t', 'n');
cmp_ok(gets($node, $_, 1000), '>', 0, "$_->{name}: goes on in other objects") foreach @readers;
$gate->query_safe('SELECT pg_advisory_unlock(7107437), pg_advisory_unlock(1)');
is(($node->finish_query($agg_session{$_}))[0], $agg_expected{$_}, 'an aggregate over what was before') foreach sort keys %agg;
$_->quit foreach values %agg_session;
$gate->quit;

# all segments come back, and workers delete the rest
psql('ALTER TABLE t RESET (lsm.cold_store)');
compact($node, 't');
is(psql(q{SELECT DISTINCT location FROM lsm_segments('t')}), 'local', 'segments are back');
swept($node);
is(join(' ', files()), '', 'there is no object any more');
end_readers(@readers);
is($_->{session}->query_safe(sums('t')), $_->{level} =~ /REPEATABLE/ ? $all : psql(sums('n')), "$_->{name}: the next query") foreach @readers;
$_->{session}->quit foreach @readers;
$node->check_ok('postgres', 'after deletes under readers');
psql(q{DROP TABLE h; ALTER TABLE n RENAME TO h; ALTER TABLE t SET (lsm.cold_store = 'cold')});
compact($node, 't');

$node->stop;
done_testing();
