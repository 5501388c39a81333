# pg_dump, pg_dumpall and pg_restore in all their formats: what is restored has
# the same rows, is made with lsm again, and is sound.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use LsmNode;

my $node = LsmNode->new('dump');
my $dir = PostgreSQL::Test::Utils::tempdir();

$node->setup(conf => "autovacuum = off\nfsync = off\n");
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
CREATE EXTENSION lsm;
CREATE TABLE parent (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, at timestamptz DEFAULT '2024-01-01') USING lsm;
INSERT INTO parent (name) SELECT 'parent ' || i FROM generate_series(1, 200) i;
SELECT lsm_flush('parent');
UPDATE parent SET name = name || '!' WHERE id % 3 = 0;
DELETE FROM parent WHERE id % 10 = 0;
CREATE TABLE child (id bigserial PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, v int CHECK (v > 0),
	w int GENERATED ALWAYS AS (v * 2) STORED, body text) USING lsm;
INSERT INTO child (parent, v, body) SELECT 1 + i % 9, i, repeat(md5(i::text), 1 + i % 100) FROM generate_series(1, 1000) i;
SELECT lsm_flush('child');
UPDATE child SET body = NULL WHERE id % 7 = 0;
SELECT lsm_flush('child');
SELECT lsm_major_compact('child');
UPDATE child SET v = v + 1 WHERE id % 11 = 0;
CREATE TABLE log (what text) USING lsm;
CREATE FUNCTION child_log() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO public.log VALUES (TG_OP || ' ' || NEW.id); RETURN NULL; END $$;
CREATE TRIGGER child_log AFTER INSERT OR UPDATE ON child FOR EACH ROW EXECUTE FUNCTION child_log();
UPDATE child SET v = v + 1 WHERE id < 5;

CREATE TABLE part (id int, at date, v text) PARTITION BY RANGE (at);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2024-01-01') TO ('2024-02-01') USING lsm;
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2024-02-01') TO ('2024-03-01') USING heap;
CREATE TABLE part_rest PARTITION OF part DEFAULT USING lsm;
CREATE INDEX ON part (at, id);
INSERT INTO part SELECT i, date '2024-01-01' + i % 90, 'p' || i FROM generate_series(1, 500) i;
UPDATE part SET at = at + 31 WHERE id % 5 = 0;
CREATE TABLE inherited (more text) INHERITS (parent) USING lsm;
INSERT INTO inherited (id, name, more) OVERRIDING SYSTEM VALUE SELECT 1000 + i, 'i' || i, 'more' FROM generate_series(1, 20) i;
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, j jsonb, r int4range, t tsvector, p point, n numeric,
	EXCLUDE USING gist (r WITH &&)) USING lsm;
INSERT INTO unlogged SELECT i, jsonb_build_object('k', i), int4range(i * 10, i * 10 + 5), to_tsvector('simple', 'w' || i), point(i, i), i / 3.0
	FROM generate_series(1, 200) i;
CREATE INDEX ON unlogged USING gin (j);
CREATE INDEX ON unlogged USING gin (t);
CREATE INDEX ON unlogged USING spgist (p);
CREATE INDEX ON unlogged USING brin (n);
CREATE INDEX ON unlogged USING hash (id);
CREATE INDEX ON unlogged ((n * 2)) WHERE id > 100;
CREATE MATERIALIZED VIEW totals USING lsm AS SELECT parent, count(*), sum(v) FROM child GROUP BY parent;
CREATE UNIQUE INDEX ON totals (parent);
CREATE TABLE dropped (a int, b int, c text) USING lsm;
INSERT INTO dropped SELECT i, i, 'c' || i FROM generate_series(1, 50) i;
ALTER TABLE dropped DROP COLUMN b, ADD COLUMN d int DEFAULT 5;
SELECT lsm_flush('dropped');
});

# Access method, persistence and rows of each table, one line for each.
sub contents
{
	my ($n, $db) = @_;
	my $contents = '';

	foreach my $line (split /\n/, $n->safe_psql($db, q{
		SELECT c.oid::regclass, a.amname, c.relpersistence FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE c.relkind IN ('r', 'm') AND c.relnamespace = 'public'::regnamespace
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
		ORDER BY c.oid::regclass::text COLLATE "C"}))
	{
		my ($table) = split /\|/, $line;

		$contents .= "$line|" . $n->safe_psql($db,
			"SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t::text COLLATE \"C\")) FROM ONLY $table t") . "\n";
	}
	return $contents;
}

sub run_ok
{
	my ($label, @command) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return $node->command_ok(\@command, $label);
}

sub restored_ok
{
	my ($n, $db, $expected, $label) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(contents($n, $db), $expected, "rows: $label");
	$n->check_ok($db, $label);
	# what serves the tables works: identity, sequence, trigger, foreign key, indexes
	is($n->safe_psql($db, q{
		BEGIN;
		INSERT INTO parent (name) VALUES ('new') RETURNING id;
		INSERT INTO child (parent, v) VALUES (1, 7) RETURNING id, w;
		SELECT what FROM log WHERE what = 'INSERT 1001';
		DELETE FROM parent WHERE id = 2;
		SELECT count(*) FROM child WHERE parent = 2;
		SET enable_seqscan = off;
		SELECT id FROM unlogged WHERE j @> '{"k": 5}';
		SELECT count(*) FROM part WHERE at = '2024-01-15';
		ROLLBACK}), "201\n1001|14\nINSERT 1001\n0\n5\n6", "it works: $label");
	return;
}

my $source = contents($node, 'source');

note $source;
$node->check_ok('source', 'source');

run_ok('pg_dump, plain', 'pg_dump', '-f', "$dir/plain.sql", 'source');
like(PostgreSQL::Test::Utils::slurp_file("$dir/plain.sql"), qr/^SET default_table_access_method = lsm;$/m, 'the dump names the access method');
$node->safe_psql('postgres', 'CREATE DATABASE plain');
run_ok('psql, plain', 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f', "$dir/plain.sql", 'plain');
restored_ok($node, 'plain', $source, 'plain');

run_ok('pg_dump -Fc', 'pg_dump', '-Fc', '-f', "$dir/custom", 'source');
$node->safe_psql('postgres', 'CREATE DATABASE custom');
run_ok('pg_restore -Fc -j2', 'pg_restore', '-e', '-j', '2', '-d', 'custom', "$dir/custom");
restored_ok($node, 'custom', $source, 'custom format');

run_ok('pg_dump -Fd -j2', 'pg_dump', '-Fd', '-j', '2', '-f', "$dir/directory", 'source');
$node->safe_psql('postgres', 'CREATE DATABASE directory');
run_ok('pg_restore -Fd -1', 'pg_restore', '-e', '-1', '-d', 'directory', "$dir/directory");
restored_ok($node, 'directory', $source, 'directory format, in one transaction');

# Schema and data one after the other: data meet indexes, constraints and triggers.
run_ok('pg_dump --schema-only', 'pg_dump', '--schema-only', '-Fc', '-f', "$dir/schema", 'source');
run_ok('pg_dump --data-only', 'pg_dump', '--data-only', '-Fc', '-f', "$dir/data", 'source');
$node->safe_psql('postgres', 'CREATE DATABASE data');
run_ok('pg_restore, schema', 'pg_restore', '-e', '-d', 'data', "$dir/schema");
run_ok('pg_restore, data', 'pg_restore', '-e', '--disable-triggers', '-d', 'data', "$dir/data");
$node->safe_psql('data', 'REFRESH MATERIALIZED VIEW totals');
restored_ok($node, 'data', $source, 'schema, then data');

run_ok('pg_dump --inserts', 'pg_dump', '--rows-per-insert=50', '-f', "$dir/inserts.sql", 'source');
$node->safe_psql('postgres', 'CREATE DATABASE inserts');
run_ok('psql, inserts', 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f', "$dir/inserts.sql", 'inserts');
restored_ok($node, 'inserts', $source, 'inserts');

# To heap and back.
(my $heap = $source) =~ s/\|lsm\|/|heap|/g;
$node->safe_psql('postgres', 'CREATE DATABASE heap');
run_ok('pg_dump --no-table-access-method', 'pg_dump', '--no-table-access-method', '-f', "$dir/heap.sql", 'source');
run_ok('psql, heap', 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f', "$dir/heap.sql", 'heap');
is(contents($node, 'heap'), $heap, 'rows: restored into heap tables');
$node->safe_psql('postgres', 'ALTER DATABASE heap SET default_table_access_method = lsm');
$node->safe_psql('heap', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE EXTENSION IF NOT EXISTS lsm');
run_ok('psql with lsm as the default', 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/psql.out", '-f', "$dir/heap.sql", 'heap');
(my $all = $source) =~ s/\|heap\|/|lsm|/g;
is(contents($node, 'heap'), $all, 'rows: restored with lsm as the default access method');

run_ok('pg_dumpall', 'pg_dumpall', '--no-role-passwords', '-f', "$dir/all.sql");
my $other = LsmNode->new('other');

$other->init;
$other->start;
$other->command_ok([ 'psql', '-X', '-q', '-o', "$dir/psql.out", '-f', "$dir/all.sql", 'postgres' ], 'psql, all databases');
restored_ok($other, 'source', $source, 'pg_dumpall');
is(contents($other, 'inserts'), $source, 'rows: pg_dumpall, a database that was restored');
$other->check_ok('inserts', 'pg_dumpall, a database that was restored');
$other->crash_and_start;
is(contents($other, 'directory'), $source =~ s/^unlogged\|lsm\|u\|\K.*$/0|/mr,
	'rows after a crash');
$other->check_ok('directory', 'after a crash');
$other->stop;
$node->stop;
done_testing();
